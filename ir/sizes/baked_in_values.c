/* Values built again with other sizes; see baked_in.h.
 *
 * In: a value that has numbers where its reader needs symbols. Out: the same computation with
 * these sizes, from constants that go on. Column `size_requirements` of the op's row says what
 * sizes that requires of its operands; values of an op without it stay as they are. A size of 1
 * needs no rule: it is repeated. */
#include "core/base/check.h"
#include "ir/sizes/baked_in_parts.h"

#include "ir/op_emitter.h"
#include "ir/ops/rules.h"

#include <string.h>

#define DEPTH_MAX 64u

/* A node whose result is wanted with other sizes. */
typedef struct st_baked_in_again {
    st_baked_in_walk *w;
    const stator_graph_view *v;
    const stator_node_row *row;
    const stator_type_row *type; /* type of its result */
    const stator_ref *wanted;
    stator_attr *attrs;
    uint32_t n_attrs;
    st_wanted *required; /* by operand */
    stator_ref first;    /* operand 0, or what it is a view of */
} again;

stator_attr *st_find_attr(const stator_attr *attrs, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(attrs[i].name, name) == 0) {
            return (stator_attr *)(uintptr_t)&attrs[i];
        }
    }
    return NULL;
}

/* ---- what the operands need ---- */

static stator_ref operand(const again *a, uint32_t k)
{
    return k == 0 ? a->first : stator_operand(a->v, a->row, k);
}

static const stator_type_row *operand_type(const again *a, uint32_t k)
{
    const stator_ref value = operand(a, k);
    return value != 0 ? stator_value_type(a->v, value) : NULL;
}

static int64_t size_at(const again *a, const stator_type_row *type, uint32_t axis)
{
    int64_t n;
    return stator_sym_is_const(a->v, stator_dim_at(a->v, type, axis), &n) ? n : -1;
}

/* An attribute's list of `count` sizes or integers, NULL when it has another form. */
static void *list_of(const again *a, const char *name, uint32_t kind, uint32_t count)
{
    const stator_attr *attr = st_find_attr(a->attrs, a->n_attrs, name);
    return attr != NULL && attr->kind == kind && attr->count == count
               ? (void *)(uintptr_t)attr->list
               : NULL;
}

static bool size_requirements_pointwise(again *a)
{
    for (uint32_t k = 0; k < a->row->operand_count; k++) {
        const stator_type_row *x = operand_type(a, k);
        for (uint32_t i = 0; x != NULL && i < x->rank; i++) {
            const stator_ref size = a->wanted[a->type->rank - x->rank + i];
            a->required[k][i] = size_at(a, x, i) != 1 ? size : 0;
        }
    }
    return true;
}

bool st_size_requirements_same(again *a)
{
    memcpy(a->required[0], a->wanted, sizeof a->required[0]);
    return true;
}

bool st_size_requirements_transpose(again *a)
{
    const int64_t *perm = list_of(a, "perm", STATOR_ATTR_INTS, a->type->rank);
    for (uint32_t i = 0; perm != NULL && i < a->type->rank; i++) {
        a->required[0][perm[i] < 0 ? perm[i] + a->type->rank : perm[i]] = a->wanted[i];
    }
    return perm != NULL;
}

bool st_size_requirements_expand(again *a)
{
    const stator_type_row *x = operand_type(a, 0);
    stator_ref *shape = list_of(a, "shape", STATOR_ATTR_DIMS, a->type->rank);
    const uint32_t added = a->type->rank - x->rank;
    for (uint32_t i = 0; shape != NULL && i < a->type->rank; i++) {
        shape[i] = a->wanted[i] != 0 ? a->wanted[i] : shape[i];
        if (i >= added && size_at(a, x, i - added) != 1) {
            a->required[0][i - added] = a->wanted[i];
        }
    }
    return shape != NULL;
}

/* A reshape of a reshape is one of the latter's operand: [2, 8] flattened to [16] and back. */
static void look_through_reshapes(again *a)
{
    const stator_node_row *row = a->row;
    for (uint32_t node; a->first != 0; a->first = stator_operand(a->v, row, 0)) {
        node = stator_value_at(a->v, a->first)->node;
        row = stator_node_at(a->v, node);
        if (node == 0 || row->op != a->row->op) {
            return;
        }
    }
}

/* A wanted size has its place in x when it is the one size past 1 of its group, on both sides. */
bool st_size_requirements_reshape(again *a)
{
    look_through_reshapes(a);
    const stator_type_row *x = operand_type(a, 0);
    stator_ref *shape = list_of(a, "shape", STATOR_ATTR_DIMS, a->type->rank);
    int64_t from[STATOR_RANK_MAX], to[STATOR_RANK_MAX];
    st_groups groups;
    bool ok = shape != NULL;
    for (uint32_t i = 0; ok && i < x->rank; i++) {
        ok = st_baked_in_size(a->w->s, stator_dim_at(a->v, x, i), &from[i]);
    }
    for (uint32_t i = 0; ok && i < a->type->rank; i++) {
        ok = st_baked_in_size(a->w->s, shape[i], &to[i]);
    }
    ok = ok && st_baked_in_groups(from, x->rank, to, a->type->rank, &groups);
    for (uint32_t i = 0; ok && i < a->type->rank; i++) {
        uint32_t n = 0;
        if (a->wanted[i] == 0) {
            continue;
        }
        for (uint32_t k = 0; k < a->type->rank; k++) {
            n += groups.of_to[k] == groups.of_to[i] && to[k] != 1;
        }
        for (uint32_t k = 0; k < x->rank; k++) {
            if (groups.of_from[k] == groups.of_to[i] && from[k] != 1) {
                a->required[0][k] = a->wanted[i];
                n++;
            }
        }
        shape[i] = a->wanted[i];
        ok = n == 2;
    }
    return ok;
}

/* A constant, or a part of one. */
static bool is_table(const again *a, stator_ref value)
{
    for (uint32_t step = 0; step < DEPTH_MAX; step++) {
        if (st_graph_value_blob(a->w->b->graph, value) != NULL) {
            return true;
        }
        const stator_ref node = stator_value_at(a->v, value)->node;
        if (node == 0 || stator_node_at(a->v, node)->op != a->row->op) {
            return false;
        }
        value = stator_operand(a->v, stator_node_at(a->v, node), 0);
    }
    return false;
}

/* Whole axes follow; the first rows of a longer table become more of them. */
bool st_size_requirements_slice(again *a)
{
    const stator_type_row *x = operand_type(a, 0);
    const stator_ref *starts = list_of(a, "starts", STATOR_ATTR_DIMS, a->type->rank);
    const int64_t *steps = list_of(a, "steps", STATOR_ATTR_INTS, a->type->rank);
    stator_ref *sizes = list_of(a, "sizes", STATOR_ATTR_DIMS, a->type->rank);
    bool ok = starts != NULL && sizes != NULL && steps != NULL;
    for (uint32_t i = 0; ok && i < a->type->rank; i++) {
        int64_t start;
        if (a->wanted[i] == 0) {
            continue;
        }
        ok = stator_sym_is_const(a->v, starts[i], &start) && start == 0 && steps[i] == 1;
        const bool is_whole = size_at(a, x, i) == size_at(a, a->type, i);
        ok = ok && (is_whole || is_table(a, a->first));
        sizes[i] = a->wanted[i];
        a->required[0][i] = is_whole ? a->wanted[i] : 0;
    }
    return ok;
}

bool st_size_requirements_concat(again *a)
{
    const stator_attr *axis = st_find_attr(a->attrs, a->n_attrs, "axis");
    const int64_t joined = st_normalize_axis(axis->i, a->type->rank);
    for (uint32_t k = 0; k < a->row->operand_count; k++) {
        memcpy(a->required[k], a->wanted, sizeof a->required[k]);
    }
    return a->wanted[joined] == 0;
}

bool st_size_requirements_gather(again *a)
{
    const stator_type_row *x = operand_type(a, 0), *index = operand_type(a, 1);
    const stator_attr *attr = st_find_attr(a->attrs, a->n_attrs, "axis");
    const uint32_t axis = (uint32_t)st_normalize_axis(attr->i, x->rank);
    for (uint32_t i = 0; i < a->type->rank; i++) {
        if (i < axis) {
            a->required[0][i] = a->wanted[i];
        } else if (i < axis + index->rank) {
            a->required[1][i - axis] = a->wanted[i];
        } else {
            a->required[0][i - index->rank + 1u] = a->wanted[i];
        }
    }
    return true;
}

bool st_size_requirements_gather_nd(again *a)
{
    const stator_type_row *index = operand_type(a, 1);
    const stator_attr *batch = st_find_attr(a->attrs, a->n_attrs, "batch_dims");
    bool ok = batch->i == 0;
    for (uint32_t i = 0; i < a->type->rank; i++) {
        if (i + 1u < index->rank) {
            a->required[1][i] = a->wanted[i];
        } else {
            ok = ok && a->wanted[i] == 0;
        }
    }
    return ok;
}

/* The result has the index's sizes; x is made to fit when the node is read. */
bool st_size_requirements_gather_elements(again *a)
{
    memcpy(a->required[1], a->wanted, sizeof a->required[1]);
    return true;
}

bool st_size_requirements_iota(again *a)
{
    stator_ref *shape = list_of(a, "shape", STATOR_ATTR_DIMS, a->type->rank);
    for (uint32_t i = 0; shape != NULL && i < a->type->rank; i++) {
        shape[i] = a->wanted[i] != 0 ? a->wanted[i] : shape[i];
    }
    return shape != NULL;
}

static bool size_requirements(again *a, const st_op *op)
{
    if ((op->desc.flags & STATOR_OP_POINTWISE) != 0) {
        return size_requirements_pointwise(a);
    }
    return op->size_requirements != NULL && op->size_requirements(a);
}

/* ---- the node ---- */

bool st_baked_in_is_wanted(const stator_ref *wanted)
{
    stator_ref any = 0;
    for (uint32_t i = 0; i < STATOR_RANK_MAX; i++) {
        any |= wanted[i];
    }
    return any != 0;
}

static bool take_attrs(again *a, const st_op *op)
{
    st_arena *arena = &a->w->s->arena;
    a->n_attrs = a->row->attr_count;
    a->attrs = st_arena_zalloc(arena, a->n_attrs + UINT64_C(1), sizeof *a->attrs);
    a->required = st_arena_zalloc(arena, a->row->operand_count + UINT64_C(1), sizeof *a->required);
    bool ok = a->attrs != NULL && a->required != NULL;
    for (uint32_t k = 0; ok && k < a->n_attrs; k++) {
        ok = st_attr_from_row(a->v, a->w->s->m, arena, op->desc.attrs[k].name,
                              stator_attr_at(a->v, a->row, k), &a->attrs[k], NULL) == STATOR_OK;
    }
    a->w->s->is_oom |= !ok;
    return ok;
}

/* The node again, of operands with the sizes that it requires. */
static stator_ref build_again(again *a, const stator_node_row *row)
{
    st_baked_in_walk *w = a->w;
    stator_ref *operands =
        st_arena_zalloc(&w->s->arena, row->operand_count + UINT64_C(1), sizeof *operands);
    for (uint32_t k = 0; operands != NULL && k < row->operand_count; k++) {
        const stator_ref old = operand(a, k);
        operands[k] = old != 0 && st_baked_in_is_wanted(a->required[k])
                          ? st_baked_in_again(w, old, a->required[k])
                          : old;
        if (operands[k] != old && operands[k] == 0) {
            return 0;
        }
    }
    const uint32_t origin = w->b->origin;
    const stator_node_desc desc = {.struct_size = sizeof desc,
                                   .op = row->op,
                                   .operands = operands,
                                   .operand_count = row->operand_count,
                                   .attrs = a->attrs,
                                   .attr_count = a->n_attrs,
                                   .result_count = 1};
    stator_ref value = 0;
    w->b->origin = row->origin;
    const stator_status status =
        operands != NULL ? st_build_node(w->b, &desc, &value, NULL) : STATOR_RESOURCE_EXHAUSTED;
    w->b->origin = origin;
    w->s->is_oom |= status == STATOR_RESOURCE_EXHAUSTED;
    return status == STATOR_OK ? value : 0;
}

static stator_ref node_again(st_baked_in_walk *w, stator_ref value, const stator_ref *wanted)
{
    again a = {.w = w, .v = st_graph_view(w->b->graph), .wanted = wanted};
    const stator_node_row row = *stator_node_at(a.v, stator_value_at(a.v, value)->node);
    const st_op *op = st_optable_at(w->s->m->ops, row.op);
    a.row = &row;
    a.first = stator_operand(a.v, &row, 0);
    a.type = stator_value_type(a.v, value);
    return row.result_count == 1 && row.region_count == 0 && take_attrs(&a, op) &&
                   size_requirements(&a, op)
               ? build_again(&a, &row)
               : 0;
}

/* ---- values ---- */

/* Sizes that were 1 are repeated. */
static stator_ref repeat(st_baked_in_walk *w, stator_ref value, const stator_ref *wanted)
{
    const stator_graph_view *v = st_graph_view(w->b->graph);
    const stator_type_row *type = stator_value_type(v, value);
    stator_ref shape[STATOR_RANK_MAX];
    for (uint32_t i = 0; i < type->rank; i++) {
        shape[i] = wanted[i] != 0 ? wanted[i] : stator_dim_at(v, type, i);
    }
    stator_emitter e = st_op_emitter(w->b, NULL);
    const stator_ref repeated = stator_emit_expand(&e, value, type->rank, shape);
    w->s->is_oom |= e.status == STATOR_RESOURCE_EXHAUSTED;
    return repeated;
}

static const st_baked_in_value *remembered(const st_baked_in_walk *w, stator_ref value,
                                           const stator_ref *wanted)
{
    const st_baked_in_value *known = NULL;
    do {
        known = st_baked_in_known(w->s, w->b->graph, value, known);
    } while (known != NULL && memcmp(known->to, wanted, sizeof known->to) != 0);
    return known;
}

static void remember(st_baked_in_walk *w, stator_ref value, const stator_ref *wanted,
                     stator_ref fresh)
{
    st_baked_in_value known = {.graph = w->b->graph, .value = value, .again = fresh};
    memcpy(known.to, wanted, sizeof known.to);
    st_baked_in_note(w->s, &known);
}

static stator_ref make(st_baked_in_walk *w, stator_ref value, const stator_ref *wanted)
{
    const stator_graph_view *v = st_graph_view(w->b->graph);
    const stator_type_row *type = stator_value_type(v, value);
    stator_blob *blob = st_graph_value_blob(w->b->graph, value);
    st_wanted longer = {0}, repeated = {0};
    for (uint32_t i = 0; i < type->rank; i++) {
        int64_t n;
        const bool is_one = stator_sym_is_const(v, stator_dim_at(v, type, i), &n) && n == 1;
        (is_one ? repeated : longer)[i] = wanted[i];
    }
    if (st_baked_in_is_wanted(longer)) {
        value = blob != NULL ? st_baked_in_constant(w, value, blob, longer)
                : stator_value_at(v, value)->node != 0 ? node_again(w, value, longer)
                                                       : 0;
    }
    return value != 0 && st_baked_in_is_wanted(repeated) ? repeat(w, value, repeated) : value;
}

stator_ref st_baked_in_again(st_baked_in_walk *w, stator_ref value, const stator_ref *wanted)
{
    const st_baked_in_value *known = remembered(w, value, wanted);
    if (known != NULL || w->depth == DEPTH_MAX) {
        return known != NULL ? known->again : 0;
    }
    const st_build_mark mark = st_build_here(w->b);
    w->depth++;
    const stator_ref fresh = make(w, value, wanted);
    w->depth--;
    if (fresh == 0) {
        st_build_rollback(w->b, mark);
    }
    /* A constant that cannot be extended is remembered too: finding that out reads all its
     * elements. */
    if (fresh != 0 || st_graph_value_blob(w->b->graph, value) != NULL) {
        remember(w, value, wanted, fresh);
    }
    return fresh;
}
