/* Fuel; see fuel.h. With no limit and no recording a question is one counter update. */
#include "core/context/fuel.h"

#include "ir/graph.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void st_fuel_init(st_fuel *fuel, st_mem *mem)
{
    *fuel = (st_fuel){.mem = mem};
    pthread_mutex_init(&fuel->lock, NULL);
}

void st_fuel_deinit(st_fuel *fuel)
{
    if (fuel->mem == NULL) {
        return;
    }
    while (fuel->first != NULL) {
        stator_fuel_scope *scope = fuel->first;
        fuel->first = scope->next;
        st_free(fuel->mem, scope);
    }
    st_free(fuel->mem, fuel->records);
    pthread_mutex_destroy(&fuel->lock);
    *fuel = (st_fuel){0};
}

stator_status st_fuel_configure(st_fuel *fuel, int64_t limit, const char *scope, bool none,
                                stator_diag **err)
{
    if (none) {
        fuel->mode = ST_FUEL_NONE;
        return STATOR_OK;
    }
    if (scope != NULL && scope[0] != '\0') {
        char *end = NULL;
        const unsigned long index = strtoul(scope, &end, 10);
        ST_FAIL_IF(end == scope || (*end != '\0' && *end != '.') || index > UINT32_MAX || limit < 0,
                   err, STATOR_INVALID_ARGUMENT,
                   "fuel scope '%s' is not a scope number such as \"3\"", scope);
        fuel->mode = ST_FUEL_SERIAL;
        fuel->limit_scope = (uint32_t)index;
        fuel->limit = limit;
    } else if (limit > 0) {
        fuel->mode = ST_FUEL_TOTAL;
        fuel->limit = limit;
    }
    return STATOR_OK;
}

stator_fuel_scope *st_fuel_scope(st_fuel *fuel, stator_fuel_scope *parent, const char *name)
{
    stator_fuel_scope *scope = st_calloc(fuel->mem, 1, sizeof *scope);
    if (scope == NULL) {
        return NULL;
    }
    scope->fuel = fuel;
    pthread_mutex_lock(&fuel->lock);
    scope->index = ++fuel->n_scopes;
    if (fuel->last != NULL) {
        fuel->last->next = scope;
    } else {
        fuel->first = scope;
    }
    fuel->last = scope;
    pthread_mutex_unlock(&fuel->lock);
    if (parent != NULL) {
        (void)snprintf(scope->name, sizeof scope->name, "%.60s/%.40s", parent->name, name);
        memcpy(scope->pass, parent->pass, sizeof scope->pass);
        scope->graph = parent->graph;
    } else {
        (void)snprintf(scope->name, sizeof scope->name, "%u.%.90s", scope->index, name);
    }
    return scope;
}

stator_fuel_scope *st_fuel_stage(st_fuel *fuel, const char *name, const char *pass,
                                 const stator_graph *graph)
{
    stator_fuel_scope *scope = st_fuel_scope(fuel, NULL, name);
    if (scope != NULL) {
        (void)snprintf(scope->pass, sizeof scope->pass, "%s", pass);
        scope->graph = graph;
    }
    return scope;
}

void st_fuel_about(stator_fuel_scope *scope, const stator_graph *graph)
{
    if (scope != NULL) {
        scope->graph = graph;
    }
}

stator_x_fuel_row st_fuel_row(const st_fuel_record *record)
{
    return (stator_x_fuel_row){.struct_size = sizeof(stator_x_fuel_row),
                               .scope = record->scope,
                               .n = record->n,
                               .kind = record->kind,
                               .node = record->node,
                               .rule = record->rule,
                               .scope_name = record->scope_name,
                               .pass = record->pass,
                               .node_name = record->node_name,
                               .witness = record->witness};
}

/* Fills in the imported node and value that the record is about. */
static void describe(const stator_graph *graph, st_fuel_record *r)
{
    if (graph == NULL || r->node == 0) {
        return;
    }
    const stator_graph_view *v = st_graph_view(graph);
    if (r->node > v->n_nodes) {
        return; /* a plugin may name a node as it likes */
    }
    const stator_node_row *row = stator_node_at(v, r->node);
    if (row->result_count != 0) {
        r->witness = stator_value_at(v, row->result_begin)->witness;
    }
    (void)snprintf(r->node_name, sizeof r->node_name, "%s", stator_node_origin(v, r->node));
}

static void keep(st_fuel *fuel, const st_fuel_record *r)
{
    if (fuel->n_records == fuel->record_capacity) {
        const uint32_t capacity = fuel->record_capacity == 0 ? 64 : 2 * fuel->record_capacity;
        st_fuel_record *grown =
            st_realloc(fuel->mem, fuel->records, (uint64_t)capacity * sizeof *grown, 16);
        if (grown == NULL) {
            return;
        }
        fuel->records = grown;
        fuel->record_capacity = capacity;
    }
    fuel->records[fuel->n_records++] = *r;
}

static void record(stator_fuel_scope *scope, uint32_t kind, const char *rule, stator_ref node,
                   uint64_t n)
{
    st_fuel *fuel = scope->fuel;
    st_fuel_record r = {.scope = scope->index, .kind = kind, .n = n, .node = node};
    (void)snprintf(r.rule, sizeof r.rule, "%s", rule != NULL ? rule : "");
    memcpy(r.scope_name, scope->name, sizeof r.scope_name);
    memcpy(r.pass, scope->pass, sizeof r.pass);
    describe(scope->graph, &r);
    pthread_mutex_lock(&fuel->lock);
    if (fuel->is_recording) {
        keep(fuel, &r);
    }
    if (fuel->watch != NULL) {
        const stator_x_fuel_row row = st_fuel_row(&r);
        fuel->watch(fuel->watch_self, &row);
    }
    pthread_mutex_unlock(&fuel->lock);
}

static bool is_granted(stator_fuel_scope *scope, uint64_t n)
{
    st_fuel *fuel = scope->fuel;
    switch (fuel->mode) {
    case ST_FUEL_UNLIMITED:
        return true;
    case ST_FUEL_TOTAL:
        return atomic_fetch_add_explicit(&fuel->total, 1, memory_order_relaxed) < fuel->limit;
    case ST_FUEL_SERIAL:
        return scope->index != fuel->limit_scope ? scope->index < fuel->limit_scope
                                                 : n <= (uint64_t)fuel->limit;
    default:
        return false;
    }
}

static int32_t may_apply(stator_fuel_scope *scope, uint32_t kind, const char *rule, stator_ref node)
{
    if (scope == NULL) {
        return 0;
    }
    const uint64_t n = atomic_fetch_add_explicit(&scope->asked, 1, memory_order_relaxed) + 1;
    const bool granted = is_granted(scope, n);
    if (granted && (scope->fuel->is_recording || scope->fuel->watch != NULL)) {
        record(scope, kind, rule, node, n);
    }
    return granted;
}

static stator_fuel_scope *open_scope(stator_fuel_scope *parent, const char *name)
{
    return parent != NULL ? st_fuel_scope(parent->fuel, parent, name) : NULL;
}

const stator_fuel_api st_fuel_api = {
    .struct_size = sizeof(stator_fuel_api), .scope = open_scope, .may_apply = may_apply};
