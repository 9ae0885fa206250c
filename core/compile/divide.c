/* Dividing a graph and its regions among backends; see divide.h. */
#include "core/compile/divide.h"

#include "core/base/str.h"

static uint64_t flags_of(const st_unit *u, stator_ref node)
{
    return stator_op_at(u->v, stator_node_at(u->v, node)->op)->flags;
}

static bool is_constant(const st_unit *u, stator_ref node)
{
    return (flags_of(u, node) & STATOR_OP_CONSTANT) != 0;
}

/* ---- units ---- */

static void free_unit(st_mem *mem, st_unit *u)
{
    if (u == NULL) {
        return;
    }
    for (uint32_t n = 0; u->reasons != NULL && n <= u->v->n_nodes; n++) {
        st_free(mem, u->reasons[n]);
    }
    st_free(mem, u->reasons);
    st_free(mem, u->accepts); /* with the other bytes by node */
    st_free(mem, u->groups);
    if (u->is_divided) {
        st_parts_deinit(&u->parts);
    }
    st_free(mem, u);
}

static void free_units(st_division *d)
{
    for (uint32_t i = 0; i < d->units.count; i++) {
        free_unit(d->mem, d->units.data[i]);
    }
    st_vec_free(d->mem, &d->units);
    st_map_deinit(&d->unit_of);
    st_map_init(&d->unit_of, d->mem);
    d->root = NULL;
}

void st_division_deinit(st_division *d)
{
    if (d->mem != NULL) {
        free_units(d);
        st_map_deinit(&d->unit_of);
    }
    *d = (st_division){0};
}

st_unit *st_division_unit(const st_division *d, const stator_graph *graph)
{
    const uint32_t place = st_map_get(&d->unit_of, (uint64_t)(uintptr_t)graph);
    return place != 0 ? d->units.data[place - 1u] : NULL;
}

static st_unit *region_unit(const st_division *d, const st_unit *u, stator_ref node, uint32_t k)
{
    return st_division_unit(d, stator_region_at(u->v, stator_node_at(u->v, node), k));
}

static uint32_t region_count(const st_unit *u, stator_ref node)
{
    return stator_node_at(u->v, node)->region_count;
}

static stator_status alloc_unit(st_division *d, stator_graph *graph, st_unit **out_unit,
                                stator_diag **err)
{
    st_unit *u = st_calloc(d->mem, 1, sizeof *u);
    ST_TRY_MEM(u, err);
    u->graph = graph;
    u->v = st_graph_view(graph);
    const uint64_t n = u->v->n_nodes + UINT64_C(1);
    u->accepts = st_calloc(d->mem, 7u * n, 1);
    u->reasons = st_calloc(d->mem, n, sizeof *u->reasons);
    u->groups = st_calloc(d->mem, n, sizeof *u->groups);
    st_unit **slot = st_vec_push(d->mem, &d->units);
    if (u->accepts == NULL || u->reasons == NULL || u->groups == NULL || slot == NULL ||
        !st_map_put(&d->unit_of, (uint64_t)(uintptr_t)graph, d->units.count)) {
        d->units.count -= slot != NULL;
        free_unit(d->mem, u);
        return st_fail_oom(err);
    }
    u->claim = u->accepts + n;
    u->declined = u->claim + n;
    u->lower = u->declined + n;
    u->color = u->lower + n;
    u->runs = u->color + n;
    u->fallback = u->runs + n;
    *slot = u;
    *out_unit = u;
    return STATOR_OK;
}

/* ---- capability ---- */

/* A yes to control flow holds when it covers the whole bodies; counts what is refused. */
static stator_status sum_up(st_division *d, st_unit *u, stator_diag **err)
{
    u->all_run = UINT8_MAX;
    for (stator_ref n = 1; n <= u->v->n_nodes; n++) {
        uint32_t inside = 0;
        uint32_t refused = 0;
        u->has_writes |= (flags_of(u, n) & STATOR_OP_WRITES) != 0;
        for (uint32_t k = 0; k < region_count(u, n); k++) {
            const st_unit *body = region_unit(d, u, n, k);
            inside += body->n_counted;
            refused += body->n_refused;
            u->has_writes |= body->has_writes;
            u->runs[n] &= (uint8_t)body->all_run;
        }
        if (u->accepts[n] && refused != 0) {
            u->accepts[n] = 0;
            u->reasons[n] = st_strdup(d->mem, "a node of its bodies does not run there");
            ST_TRY_MEM(u->reasons[n], err);
        }
        if (!is_constant(u, n)) {
            u->n_counted += 1u + inside;
            u->n_refused += !u->accepts[n];
            u->all_run &= u->runs[n];
        }
        const uint32_t last = d->request->n_fallbacks != 0 ? d->request->n_fallbacks - 1u : 0;
        const uint32_t first = u->runs[n] != 0 ? (uint32_t)__builtin_ctz(u->runs[n]) : last;
        u->fallback[n] = (uint8_t)(ST_COLOR_FALLBACK + first);
    }
    return STATOR_OK;
}

/* Determines which nodes fallback i runs. The reference backend is not asked, it runs them all,
 * composites that it has no kernel for when they are decomposed (lower_refused.h); a node that a
 * fallback claims only with its ATOMIC group counts as refused: the group may lie on both sides. */
static stator_status ask_fallback(const st_division *d, st_unit *u, uint32_t i, stator_diag **err)
{
    stator_instance *instance = d->request->fallbacks[i];
    const uint64_t n = u->v->n_nodes + UINT64_C(1);
    const bool is_asked = !st_list_has(instance->backend->tags, "reference");
    uint32_t *groups = st_calloc(d->mem, n, sizeof *groups);
    uint8_t *accepts = st_calloc(d->mem, n, 1);
    stator_status status = groups != NULL && accepts != NULL ? STATOR_OK : st_fail_oom(err);
    if (status == STATOR_OK && is_asked) {
        status = st_instance_capability(instance, u->graph, accepts, NULL, groups, err);
    }
    for (stator_ref node = 1; status == STATOR_OK && node < n; node++) {
        if (!is_asked || (accepts[node] && groups[node] == 0)) {
            u->runs[node] |= (uint8_t)(1u << i);
        }
    }
    st_free(d->mem, groups);
    st_free(d->mem, accepts);
    return status;
}

/* Asks about the regions of a graph, then about the graph. */
static stator_status ask_capability(st_division *d, stator_graph *graph, stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(graph);
    for (stator_ref n = 1; n <= v->n_nodes; n++) {
        const stator_node_row *row = stator_node_at(v, n);
        for (uint32_t k = 0; k < row->region_count; k++) {
            const stator_graph *region = stator_region_at(v, row, k);
            if (st_division_unit(d, region) == NULL) {
                ST_TRY(ask_capability(d, (stator_graph *)(uintptr_t)region, err));
            }
        }
    }
    st_unit *u = NULL;
    ST_TRY(alloc_unit(d, graph, &u, err));
    d->root = u;
    ST_TRY(st_instance_capability(d->request->main, graph, u->accepts, u->reasons, u->groups, err));
    for (uint32_t i = 0; i < d->request->n_fallbacks; i++) {
        ST_TRY(ask_fallback(d, u, i, err));
    }
    return sum_up(d, u, err);
}

/* ---- decomposing what is kept but refused ---- */

static int32_t keep_unless_refused(void *self, const stator_graph *graph, stator_ref node)
{
    const st_unit *u = st_division_unit(self, graph);
    return u == NULL || !u->lower[node];
}

/* Marks refused composites in u and in the bodies that main does not run whole. */
static uint32_t mark_refused(st_division *d, st_unit *u)
{
    uint32_t count = 0;
    u->round = d->round;
    for (stator_ref n = 1; n <= u->v->n_nodes; n++) {
        u->lower[n] = !u->accepts[n] && (flags_of(u, n) & STATOR_OP_COMPOSITE) != 0;
        count += u->lower[n];
        for (uint32_t k = 0; !u->accepts[n] && k < region_count(u, n); k++) {
            st_unit *body = region_unit(d, u, n, k);
            count += body->round != d->round ? mark_refused(d, body) : 0;
        }
    }
    return count;
}

static stator_status decompose_refused(st_division *d, stator_graph **out_graph, stator_diag **err)
{
    stator_fuel_scope *scope =
        st_fuel_stage(d->request->fuel, "decompose-refused", "decompose", d->graph);
    ST_TRY_MEM(scope, err);
    st_pass_ctx ctx;
    st_pass_ctx_init(d->request, scope, &ctx);
    ctx.keep = keep_unless_refused;
    ctx.keep_self = d;
    if (d->request->n_fallbacks == 0) {
        ctx.may_apply = NULL; /* it is no choice: nobody else would run them */
    }
    return st_pass_run(st_pass_find("decompose"), &ctx, d->graph, out_graph, err);
}

/* Asks, decomposes refused composites and asks again, until nothing changes. The depth of the op
 * table bounds the rounds. */
static stator_status reach_capability_fixpoint(st_division *d, stator_diag **err)
{
    for (uint32_t round = 0; round < 16; round++) {
        ST_TRY(ask_capability(d, d->graph, err));
        d->round++;
        stator_graph *next = d->graph;
        if (mark_refused(d, d->root) != 0) {
            ST_TRY(decompose_refused(d, &next, err));
        }
        if (next == d->graph) {
            return STATOR_OK;
        }
        free_units(d);
        d->graph = next;
    }
    return st_fail(err, STATOR_INTERNAL,
                   "decompositions do not end: after 16 rounds there are composites left that "
                   "backend '%s' refuses",
                   d->request->main->backend->item.name);
}

/* ---- claims ---- */

static bool is_claimed(const st_unit *u, stator_ref node)
{
    return u->accepts[node] && !u->declined[node] && u->claim[node] != ST_CLAIM_NO;
}

/* The scope of a unit's claims, opened at its first question. */
static stator_status claim_scope(st_division *d, const st_unit *u, stator_fuel_scope *outer,
                                 stator_fuel_scope **scope, stator_diag **err)
{
    if (*scope == NULL) {
        const char *name = u == d->root ? "claim" : stator_string_at(u->v, u->v->name);
        *scope = st_fuel_scope(d->request->fuel, outer, name);
        st_fuel_about(*scope, u->graph);
    }
    return *scope != NULL ? STATOR_OK : st_fail_oom(err);
}

/* Asks fuel for each node or ATOMIC group that main claims and that was not asked about yet. A
 * group is asked about at its first member, which is its number. */
static stator_status ask_claims(st_division *d, st_unit *u, stator_fuel_scope *outer,
                                stator_diag **err)
{
    stator_fuel_scope *scope = NULL;
    u->round = d->round;
    if (u == d->root) {
        ST_TRY(claim_scope(d, u, NULL, &scope, err));
    }
    for (stator_ref n = 1; n <= u->v->n_nodes; n++) {
        if (!u->accepts[n] || u->declined[n] || u->claim[n] != ST_CLAIM_UNASKED ||
            is_constant(u, n)) {
            continue;
        }
        const stator_ref first = u->groups[n] != 0 ? u->groups[n] : n;
        if (u->claim[first] == ST_CLAIM_UNASKED) {
            ST_TRY(claim_scope(d, u, outer, &scope, err));
            const stator_op_desc *op = stator_op_at(u->v, stator_node_at(u->v, n)->op);
            u->claim[first] = st_fuel_api.may_apply(scope, STATOR_FUEL_CLAIM,
                                                    u->groups[n] != 0 ? "group" : op->name, n)
                                  ? ST_CLAIM_YES
                                  : ST_CLAIM_NO;
        }
        u->claim[n] = u->claim[first];
    }
    for (stator_ref n = 1; n <= u->v->n_nodes; n++) {
        for (uint32_t k = 0; (!u->accepts[n] || u->declined[n]) && k < region_count(u, n); k++) {
            st_unit *body = region_unit(d, u, n, k);
            if (body->round != d->round) {
                ST_TRY(ask_claims(d, body, scope != NULL ? scope : outer, err));
            }
        }
    }
    return STATOR_OK;
}

/* ---- colors ---- */

static void color_unit(st_division *d, st_unit *u);

/* Who runs a control-flow node that main does not run whole. */
static uint8_t color_of_control(st_division *d, st_unit *u, stator_ref node)
{
    if (u->accepts[node] && !u->declined[node]) {
        return u->fallback[node]; /* fuel refused the claim */
    }
    bool has_main = false;
    bool has_writes = false; /* into buffers that the host would have to know of */
    for (uint32_t k = 0; k < region_count(u, node); k++) {
        st_unit *body = region_unit(d, u, node, k);
        if (body->round != d->round) {
            color_unit(d, body);
        }
        has_main |= body->has_main != 0;
        has_writes |= body->has_writes != 0;
    }
    const bool is_divided = (has_main || u->runs[node] == 0) && !has_writes;
    return d->request->n_fallbacks == 0 || is_divided ? ST_COLOR_HOST : u->fallback[node];
}

/* A group with a member that main does not run is left to the fallbacks as a whole. */
static void break_groups(st_unit *u)
{
    for (int pass = 0; pass < 2; pass++) {
        for (stator_ref n = 1; n <= u->v->n_nodes; n++) {
            uint8_t *first = u->groups[n] != 0 ? &u->color[u->groups[n]] : &u->color[n];
            if (pass == 0 && u->color[n] != ST_COLOR_MAIN && *first == ST_COLOR_MAIN) {
                *first = u->fallback[first - u->color];
            } else if (pass == 1 && u->color[n] == ST_COLOR_MAIN) {
                u->color[n] = *first == ST_COLOR_MAIN ? ST_COLOR_MAIN : u->fallback[n];
            }
        }
    }
}

static void color_unit(st_division *d, st_unit *u)
{
    u->round = d->round;
    u->has_main = 0;
    for (stator_ref n = 1; n <= u->v->n_nodes; n++) {
        if (is_constant(u, n) || is_claimed(u, n)) {
            u->color[n] = ST_COLOR_MAIN;
        } else {
            u->color[n] = region_count(u, n) != 0 ? color_of_control(d, u, n) : u->fallback[n];
        }
    }
    break_groups(u);
    for (stator_ref n = 1; n <= u->v->n_nodes; n++) {
        u->has_main |= !st_is_fallback(u->color[n]) && !is_constant(u, n);
    }
}

/* ---- what is left over ---- */

const char *st_division_reason(const st_unit *u, stator_ref node)
{
    return u->reasons[node] != NULL        ? u->reasons[node]
           : u->claim[node] == ST_CLAIM_NO ? "fuel"
           : u->groups[node] != 0          ? "its ATOMIC group is not whole"
                                           : "no reason";
}

typedef struct unsupported_nodes {
    st_division *d;
    st_str text;
    uint32_t count; /* nodes that no backend runs */
} unsupported_nodes;

/* Logs the fallbacks' nodes of u and of the bodies that the host runs, and lists those that no
 * fallback runs. */
static void list_unsupported(unsupported_nodes *unsupported, st_unit *u)
{
    const st_compile_request *request = unsupported->d->request;
    u->round = unsupported->d->round;
    for (stator_ref n = 1; n <= u->v->n_nodes; n++) {
        for (uint32_t k = 0; u->color[n] == ST_COLOR_HOST && k < region_count(u, n); k++) {
            st_unit *body = region_unit(unsupported->d, u, n, k);
            if (body->round != unsupported->d->round) {
                list_unsupported(unsupported, body);
            }
        }
        if (!st_is_fallback(u->color[n])) {
            continue;
        }
        const char *op = stator_op_at(u->v, stator_node_at(u->v, n)->op)->name;
        if (u->runs[n] == 0 && unsupported->count++ < 20) {
            st_str_addf(&unsupported->text, "%s%s '%s' (%s)", unsupported->count > 1 ? "; " : "",
                        op, stator_node_origin(u->v, n), st_division_reason(u, n));
        }
        st_log(request->ctx, "dispatch", 2, "%s: %s '%s': %s", request->main->backend->item.name,
               op, stator_node_origin(u->v, n), st_division_reason(u, n));
    }
}

/* Every node that main refuses, with op, name and reason, in one error. */
static stator_status report_unsupported(const unsupported_nodes *unsupported, stator_diag **err)
{
    const st_compile_request *request = unsupported->d->request;
    const stator_status status = st_fail(
        err, STATOR_UNSUPPORTED, "backend '%s' does not run %u of %u nodes%s: %s",
        request->main->backend->item.name, unsupported->count, unsupported->d->root->n_counted,
        request->n_fallbacks != 0 ? ", and none of the node fallbacks does" : "",
        unsupported->text.data != NULL ? unsupported->text.data : "");
    if (err != NULL && *err != NULL) {
        st_diag_set_hint(*err, "%s",
                         request->n_fallbacks != 0 ? "add eager to the node fallbacks"
                         : (request->flags & STATOR_COMPILE_STRICT) != 0
                             ? "without --strict they would run on eager"
                             : "choose another backend; `stator backends` lists them");
    }
    return status;
}

static stator_status check_unsupported(st_division *d, stator_diag **err)
{
    unsupported_nodes unsupported = {.d = d};
    st_str_init(&unsupported.text, d->mem);
    d->round++;
    list_unsupported(&unsupported, d->root);
    const stator_status status =
        unsupported.count != 0 ? report_unsupported(&unsupported, err) : STATOR_OK;
    st_str_deinit(&unsupported.text);
    return status;
}

/* ---- dividing ---- */

/* Divides u and the bodies that the host runs. */
static stator_status divide_unit(st_division *d, st_unit *u, stator_diag **err)
{
    const st_partition_request request = {.graph = u->graph,
                                          .color = u->color,
                                          .fallback = u->fallback,
                                          .group = u->groups,
                                          .mem = d->mem,
                                          .may_dissolve = d->request->n_fallbacks != 0};
    if (u->is_divided) {
        st_parts_deinit(&u->parts);
    }
    u->is_divided = 1;
    u->round = d->round;
    ST_TRY(st_partition(&request, &u->parts, err));
    for (stator_ref n = 1; n <= u->v->n_nodes; n++) {
        for (uint32_t k = 0; u->color[n] == ST_COLOR_HOST && k < region_count(u, n); k++) {
            st_unit *body = region_unit(d, u, n, k);
            if (body->round != d->round) {
                ST_TRY(divide_unit(d, body, err));
            }
        }
    }
    return STATOR_OK;
}

stator_status st_divide_again(st_division *d, stator_diag **err)
{
    if (d->request->n_fallbacks != 0) {
        d->round++;
        ST_TRY(ask_claims(d, d->root, NULL, err));
    }
    d->round++;
    color_unit(d, d->root);
    ST_TRY(check_unsupported(d, err));
    d->round++;
    return divide_unit(d, d->root, err);
}

stator_status st_divide(const st_compile_request *request, stator_graph *graph,
                        st_division *out_division, stator_diag **err)
{
    st_division *d = out_division;
    *d = (st_division){.request = request, .mem = &request->ctx->mem, .graph = graph};
    st_map_init(&d->unit_of, d->mem);
    ST_TRY(reach_capability_fixpoint(d, err));
    return st_divide_again(d, err);
}

stator_status st_division_decline(st_division *d, st_unit *u, stator_ref node, const char *reason,
                                  stator_diag **err)
{
    char *copy = st_strdup(d->mem, reason);
    ST_TRY_MEM(copy, err);
    st_free(d->mem, u->reasons[node]);
    u->reasons[node] = copy;
    u->declined[node] = 1;
    return STATOR_OK;
}

uint32_t st_division_next_fallback(const st_division *d, const st_unit *u, const st_part *part,
                                   uint32_t after)
{
    uint32_t all = UINT8_MAX;
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        all &= u->runs[part->nodes[i]];
    }
    uint32_t next = after + 1u;
    while (next < d->request->n_fallbacks && (all >> next & 1u) == 0) {
        next++;
    }
    return next < d->request->n_fallbacks ? next : d->request->n_fallbacks;
}

uint32_t st_division_count(const st_division *d, const st_unit *u, const st_part *part)
{
    uint32_t count = part->n_nodes;
    for (uint32_t i = 0; part->color != ST_COLOR_HOST && i < part->n_nodes; i++) {
        for (uint32_t k = 0; k < region_count(u, part->nodes[i]); k++) {
            count += region_unit(d, u, part->nodes[i], k)->n_counted;
        }
    }
    return count;
}
