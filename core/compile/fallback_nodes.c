/* Counting what main does not run; see fallback_nodes.h.
 *
 * In: a division, its parts as they were compiled in the end. Out: entries in the order in which
 * their first nodes stand, found again by a hash of op and reason. */
#include "core/compile/fallback_nodes.h"

#include "core/base/map.h"
#include "core/compile/divide.h"

#include <string.h>

typedef struct tally {
    const st_division *d;
    st_fallback_nodes *out;
    st_hashset entry_of;     /* place + 1, by op and reason */
    const char *op, *reason; /* the entry that is sought */
} tally;

/* A node whose backend is main by its color lies in a part that main gave back. */
static const char *why_left(const st_unit *u, stator_ref node)
{
    return u->color[node] == ST_COLOR_MAIN ? "its partition was declined while it was compiled"
                                           : st_division_reason(u, node);
}

static bool is_sought(void *self, uint32_t place)
{
    const tally *t = self;
    const st_fallback_entry *entry = &t->out->entries.data[place - 1u];
    return strcmp(entry->op, t->op) == 0 && strcmp(entry->reason, t->reason) == 0;
}

static const char *keep(st_fallback_nodes *out, const char *text)
{
    return st_arena_strndup(&out->arena, text, strlen(text));
}

static stator_status add_entry(tally *t, uint64_t hash, const char *name, stator_diag **err)
{
    st_fallback_nodes *out = t->out;
    const st_fallback_entry fresh = {keep(out, t->op), keep(out, t->reason), keep(out, name), 1};
    st_fallback_entry *entry = st_vec_push(out->mem, &out->entries);
    ST_TRY_MEM(entry, err);
    *entry = fresh;
    return fresh.op != NULL && fresh.reason != NULL && fresh.name != NULL &&
                   st_hashset_add(&t->entry_of, hash, out->entries.count)
               ? STATOR_OK
               : st_fail_oom(err);
}

static stator_status count_node(tally *t, const st_unit *u, stator_ref node, stator_diag **err)
{
    const char *name = stator_node_origin(u->v, node);
    t->op = stator_op_at(u->v, stator_node_at(u->v, node)->op)->name;
    t->reason = why_left(u, node);
    const uint64_t hash =
        st_hash64(t->reason, strlen(t->reason), st_hash64(t->op, strlen(t->op), 0));
    const uint32_t place = st_hashset_find(&t->entry_of, hash, is_sought, t);
    if (place == 0) {
        return add_entry(t, hash, name, err);
    }
    st_fallback_entry *entry = &t->out->entries.data[place - 1u];
    entry->count++;
    if (entry->name[0] == '\0' && name[0] != '\0') {
        entry->name = keep(t->out, name);
    }
    return entry->name != NULL ? STATOR_OK : st_fail_oom(err);
}

/* The color of the part that runs each node; constants, and nodes of no part, have none. */
static uint8_t *colors_of(const st_unit *u, st_mem *mem)
{
    uint8_t *colors = st_alloc(mem, u->v->n_nodes + UINT64_C(1), 1);
    if (colors == NULL) {
        return NULL;
    }
    memset(colors, ST_COLORS, u->v->n_nodes + 1u);
    for (uint32_t i = 0; i < u->parts.n_parts; i++) {
        const st_part *part = &u->parts.parts[i];
        for (uint32_t k = 0; k < part->n_nodes; k++) {
            colors[part->nodes[k]] = (uint8_t)part->color;
        }
    }
    return colors;
}

/* Operands of the part that come from another backend: to a fallback or from one. */
static uint32_t count_handed(const st_unit *u, const st_part *part, const uint8_t *colors)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < part->n_in; k++) {
        const stator_ref node = part->in[k] != 0 ? stator_value_at(u->v, part->in[k])->node : 0;
        const uint32_t from = node != 0 ? colors[node] : ST_COLORS;
        const bool is_other =
            from != part->color && (st_is_fallback(from) || st_is_fallback(part->color));
        count += from != ST_COLORS && is_other;
    }
    return count;
}

static stator_status count_part(tally *t, const st_unit *u, const st_part *part, stator_diag **err)
{
    st_fallback_nodes *out = t->out;
    out->n_host += part->color == ST_COLOR_HOST;
    if (!st_is_fallback(part->color)) {
        return STATOR_OK;
    }
    out->n_nodes += st_division_count(t->d, u, part);
    for (uint32_t k = 0; k < part->n_nodes; k++) {
        ST_TRY(count_node(t, u, part->nodes[k], err));
    }
    return STATOR_OK;
}

static stator_status count_unit(tally *t, const st_unit *u, stator_diag **err)
{
    uint8_t *colors = colors_of(u, t->out->mem);
    stator_status status = colors != NULL ? STATOR_OK : st_fail_oom(err);
    for (uint32_t i = 0; status == STATOR_OK && i < u->parts.n_parts; i++) {
        t->out->n_handed += count_handed(u, &u->parts.parts[i], colors);
        status = count_part(t, u, &u->parts.parts[i], err);
    }
    st_free(t->out->mem, colors);
    return status;
}

stator_status st_fallback_nodes_count(const st_division *d, st_fallback_nodes *out,
                                      stator_diag **err)
{
    tally t = {.d = d, .out = out};
    stator_status status = STATOR_OK;
    *out = (st_fallback_nodes){.mem = d->mem};
    st_arena_init(&out->arena, d->mem);
    st_hashset_init(&t.entry_of, d->mem);
    for (uint32_t i = 0; status == STATOR_OK && i < d->units.count; i++) {
        const st_unit *u = d->units.data[i];
        if (u == d->root || u->program != NULL) {
            status = count_unit(&t, u, err);
        }
    }
    st_hashset_deinit(&t.entry_of);
    return status;
}

void st_fallback_nodes_deinit(st_fallback_nodes *nodes)
{
    if (nodes->mem != NULL) {
        st_vec_free(nodes->mem, &nodes->entries);
        st_arena_deinit(&nodes->arena);
    }
    *nodes = (st_fallback_nodes){.mem = NULL};
}
