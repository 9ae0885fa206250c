/* Reading baked-in sizes: which numbers of a node stand for sizes of its operands; see baked_in.h.
 *
 * In: a node to be built, whose operands may have symbols where the file has numbers. Out: the same
 * node with its own sizes, and operands that do not fit, brought along. Column `unify_sizes` of the
 * op's row says which axes have one size; ops without one are left alone. */
#include "ir/sizes/baked_in_parts.h"

#include "core/base/check.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

#include <string.h>

/* Stands for the size of a symbol that no number of the file stands for; equal to no such
 * number. */
#define UNKNOWN_SIZE (INT64_C(1) << 20)
#define DEPTH_MAX 64u

void st_baked_in_begin(st_baked_in *s, st_module *m)
{
    *s = (st_baked_in){.m = m};
    st_arena_init(&s->arena, m->mem);
    st_str_init(&s->log, m->mem);
    st_map_init(&s->newest, m->mem);
    st_map_init(&s->merge_of, m->mem);
    m->baked_in = s;
}

void st_baked_in_end(st_baked_in *s)
{
    s->m->baked_in = NULL;
    st_vec_free(s->m->mem, &s->values);
    st_vec_free(s->m->mem, &s->merges);
    st_map_deinit(&s->newest);
    st_map_deinit(&s->merge_of);
    st_free(s->m->mem, s->sizes);
    st_str_deinit(&s->log);
    st_arena_deinit(&s->arena);
}

/* ---- sizes ---- */

static bool know_symbols(st_baked_in *s)
{
    const st_symtab *tab = &s->m->symtab;
    if (s->n_symbols == tab->n_symbols) {
        return true;
    }
    int64_t *sizes = st_realloc(s->m->mem, s->sizes, tab->n_symbols * sizeof *sizes, 8);
    if (sizes == NULL) {
        s->is_oom = true;
        return false;
    }
    s->sizes = sizes;
    s->n_symbols = tab->n_symbols;
    for (uint32_t atom = 1; atom < tab->atoms.count; atom++) {
        const stator_atom_row *row = st_atom_at(tab, atom);
        if (row->kind == STATOR_ATOM_SYMBOL) {
            sizes[row->index] =
                row->hint != INT64_MIN ? row->hint : UNKNOWN_SIZE + 2 * row->index + 1;
        }
    }
    return true;
}

bool st_baked_in_size(st_baked_in *s, stator_ref size, int64_t *out)
{
    const st_sym_cols cols = st_sym_columns(&s->m->symtab);
    return know_symbols(s) && st_sym_eval(&cols, size, s->sizes, out);
}

static bool has_no_number(const void *self, const stator_atom_row *row, uint32_t atom)
{
    (void)self;
    (void)atom;
    return row->kind == STATOR_ATOM_SYMBOL && row->hint == INT64_MIN;
}

bool st_baked_in_is_number(const st_baked_in *s, stator_ref size)
{
    int64_t ignored;
    return st_sym_const(&s->m->symtab, size, &ignored);
}

bool st_baked_in_stands_for(st_baked_in *s, stator_ref number, stator_ref size)
{
    int64_t n, was;
    return st_sym_const(&s->m->symtab, number, &n) && !st_baked_in_is_number(s, size) &&
           st_baked_in_size(s, size, &was) && n == was && n > 1 &&
           st_sym_find_atom(&s->m->symtab, size, has_no_number, NULL) == 0;
}

/* ---- one node at hand ---- */

typedef struct st_baked_in_reading {
    st_baked_in *s;
    stator_builder *b;
    const st_op *op;
    stator_node_desc *desc;
    st_wanted *wanted; /* by operand */
} reading;

static const stator_type_row *type_of(const reading *r, uint32_t k)
{
    const stator_ref value = k < r->desc->operand_count ? r->desc->operands[k] : 0;
    return value != 0 && value < r->b->graph->values.count
               ? stator_value_type(st_graph_view(r->b->graph), value)
               : NULL;
}

static stator_ref dim_of(const reading *r, const stator_type_row *type, uint32_t axis)
{
    return *(const stator_ref *)st_seg_at(&r->s->m->refs, type->dims_begin + axis);
}

/* Axis `axis` of operand k is to fit `size`. */
static void want(reading *r, uint32_t k, uint32_t axis, stator_ref size)
{
    const stator_type_row *type = type_of(r, k);
    if (type != NULL && axis < type->rank &&
        st_baked_in_stands_for(r->s, dim_of(r, type, axis), size)) {
        r->wanted[k][axis] = size;
    }
}

/* The size of operand k at this place, counted from the end or the start; 0: it has none. */
static stator_ref size_at(const reading *r, uint32_t k, uint32_t place, bool is_from_end)
{
    const stator_type_row *type = type_of(r, k);
    return type != NULL && place < type->rank
               ? dim_of(r, type, is_from_end ? type->rank - 1u - place : place)
               : 0;
}

/* All operands' axes at this place are to have one size, the first that is no number. */
static void unify_sizes_at(reading *r, uint32_t place, bool is_from_end)
{
    stator_ref size = 0;
    for (uint32_t k = 0; k < r->desc->operand_count && size == 0; k++) {
        const stator_ref own = size_at(r, k, place, is_from_end);
        size = own != 0 && !st_baked_in_is_number(r->s, own) ? own : 0;
    }
    for (uint32_t k = 0; k < r->desc->operand_count && size != 0; k++) {
        if (size_at(r, k, place, is_from_end) != 0) {
            want(r, k, is_from_end ? type_of(r, k)->rank - 1u - place : place, size);
        }
    }
}

static void unify_sizes_pointwise(reading *r)
{
    for (uint32_t back = 0; back < STATOR_RANK_MAX; back++) {
        unify_sizes_at(r, back, true);
    }
}

/* Not the axes that are summed: a constant there is weights, of which a file has as many as it
 * has. */
void st_unify_sizes_matmul(reading *r)
{
    for (uint32_t back = 2; back < STATOR_RANK_MAX; back++) {
        unify_sizes_at(r, back, true);
    }
}

void st_unify_sizes_concat(reading *r)
{
    const stator_attr *axis = st_find_attr(r->desc->attrs, r->desc->attr_count, "axis");
    const stator_type_row *first = type_of(r, 0);
    for (uint32_t i = 0; axis != NULL && first != NULL && i < first->rank; i++) {
        if (i != axis->i && i != axis->i + first->rank) {
            unify_sizes_at(r, i, false);
        }
    }
}

/* Along the other axes, the index of gather_elements has at most the size of x. */
void st_unify_sizes_gather_elements(reading *r)
{
    const stator_attr *axis = st_find_attr(r->desc->attrs, r->desc->attr_count, "axis");
    const stator_type_row *x = type_of(r, 0), *index = type_of(r, 1);
    if (axis == NULL || x == NULL || index == NULL || x->rank != index->rank) {
        return;
    }
    const int64_t along = st_normalize_axis(axis->i, x->rank);
    for (uint32_t i = 0; i < x->rank; i++) {
        if (i != along) {
            want(r, 0, i, dim_of(r, index, i));
            want(r, 1, i, dim_of(r, x, i));
        }
    }
}

/* States at the start, [directions, N, hidden], have x's N: [T, N, inputs]. */
void st_unify_sizes_recurrent(reading *r)
{
    const stator_type_row *x = type_of(r, 0);
    for (uint32_t k = 5; x != NULL && x->rank == 3 && k <= 6; k++) { /* h0, c0 */
        want(r, k, 1, dim_of(r, x, 1));
    }
}

/* The node's list of sizes as a copy that may be written, NULL when it has none. */
static stator_attr *own_sizes(reading *r, const char *name)
{
    stator_attr *attrs =
        st_arena_zalloc(&r->s->arena, r->desc->attr_count + UINT64_C(1), sizeof *attrs);
    if (attrs == NULL) {
        r->s->is_oom = true;
        return NULL;
    }
    if (r->desc->attr_count != 0) {
        memcpy(attrs, r->desc->attrs, r->desc->attr_count * sizeof *attrs);
    }
    stator_attr *found = st_find_attr(attrs, r->desc->attr_count, name);
    if (found == NULL || found->kind != STATOR_ATTR_DIMS || found->count > STATOR_RANK_MAX) {
        return NULL;
    }
    stator_ref *list = st_arena_zalloc(&r->s->arena, found->count + UINT64_C(1), sizeof *list);
    if (list == NULL) {
        r->s->is_oom = true;
        return NULL;
    }
    if (found->count != 0) { /* a reshape to a scalar has no list */
        memcpy(list, found->list, found->count * sizeof *list);
    }
    found->list = list;
    r->desc->attrs = attrs;
    return found;
}

void st_unify_sizes_expand(reading *r)
{
    const stator_type_row *x = type_of(r, 0);
    const stator_attr *to = x != NULL ? own_sizes(r, "shape") : NULL;
    for (uint32_t i = 0; to != NULL && to->count >= x->rank && i < x->rank; i++) {
        stator_ref *size = (stator_ref *)(uintptr_t)to->list + (to->count - x->rank + i);
        const stator_ref own = dim_of(r, x, i);
        if (st_baked_in_stands_for(r->s, *size, own)) {
            *size = own;
            r->s->m->n_read_as_sizes++;
        }
        want(r, 0, i, *size);
    }
}

void st_unify_sizes_reshape(reading *r)
{
    const stator_type_row *x = type_of(r, 0);
    const stator_attr *to = x != NULL ? own_sizes(r, "shape") : NULL;
    stator_ref from[STATOR_RANK_MAX], sizes[STATOR_RANK_MAX];
    bool is_open = false;
    for (uint32_t i = 0; x != NULL && i < x->rank; i++) {
        from[i] = dim_of(r, x, i);
        is_open |= !st_baked_in_is_number(r->s, from[i]);
    }
    if (to != NULL && is_open &&
        st_baked_in_reshape(r->s, from, x->rank, to->list, to->count, sizes)) {
        r->s->m->n_read_as_sizes += memcmp(to->list, sizes, to->count * sizeof sizes[0]) != 0;
        memcpy((stator_ref *)(uintptr_t)to->list, sizes, to->count * sizeof sizes[0]);
    }
}

static void unify_sizes(reading *r)
{
    if ((r->op->desc.flags & STATOR_OP_POINTWISE) != 0) {
        unify_sizes_pointwise(r);
    } else if (r->op->unify_sizes != NULL) {
        r->op->unify_sizes(r);
    }
}

/* The replacement of a value that is no constant; the value itself when it has none, or two. */
static stator_ref built_again(const reading *r, stator_ref value)
{
    const stator_graph *graph = r->b->graph;
    if (value == 0 || st_graph_value_blob(graph, value) != NULL) {
        return value;
    }
    const st_baked_in_value *known = st_baked_in_known(r->s, graph, value, NULL);
    return known != NULL && st_baked_in_known(r->s, graph, value, known) == NULL ? known->again
                                                                                 : value;
}

/* Once one reader has shown that a value has a symbol's size, all later readers use that. */
static void follow_readers(reading *r)
{
    if (r->s->values.count == 0 || r->desc->operand_count == 0) {
        return;
    }
    stator_ref *operands = st_arena_zalloc(&r->s->arena, r->desc->operand_count, sizeof *operands);
    const stator_type_row *was = type_of(r, 0);
    r->s->is_oom |= operands == NULL;
    for (uint32_t k = 0; operands != NULL && k < r->desc->operand_count; k++) {
        operands[k] = built_again(r, r->desc->operands[k]);
    }
    if (operands == NULL ||
        memcmp(operands, r->desc->operands, r->desc->operand_count * sizeof *operands) == 0) {
        return;
    }
    r->desc->operands = operands;
    if (was != NULL && own_sizes(r, "starts") != NULL) {
        (void)own_sizes(r, "sizes");
    } else if (was == NULL || own_sizes(r, "sizes") == NULL) {
        return;
    }
    st_baked_in_keep_whole(r->s->m, r->op, (stator_attr *)(uintptr_t)r->desc->attrs, was,
                           type_of(r, 0));
}

/* The operands that were asked for other sizes are built again; one that cannot be stays. */
static void bring_along(reading *r)
{
    stator_ref *operands = NULL;
    for (uint32_t k = 0; k < r->desc->operand_count; k++) {
        st_baked_in_walk w = {.s = r->s, .b = r->b};
        const stator_ref again = st_baked_in_is_wanted(r->wanted[k])
                                     ? st_baked_in_again(&w, r->desc->operands[k], r->wanted[k])
                                     : 0;
        if (again != 0 && operands == NULL) {
            operands = st_arena_zalloc(&r->s->arena, r->desc->operand_count, sizeof *operands);
            r->s->is_oom |= operands == NULL;
            if (operands != NULL) {
                memcpy(operands, r->desc->operands, r->desc->operand_count * sizeof *operands);
                r->desc->operands = operands;
            }
        }
        if (again != 0 && operands != NULL) {
            operands[k] = again;
            r->s->m->n_read_as_sizes++;
        }
    }
}

stator_status st_baked_in_read(st_baked_in *s, stator_builder *b, stator_node_desc *desc,
                               stator_diag **err)
{
    s->depth++;
    if (s->depth > DEPTH_MAX || desc->op == 0 || desc->op > st_optable_count(s->m->ops) ||
        desc->operand_count == 0) {
        return STATOR_OK;
    }
    reading r = {.s = s, .b = b, .op = st_optable_at(s->m->ops, desc->op), .desc = desc};
    r.wanted = st_arena_zalloc(&s->arena, desc->operand_count, sizeof *r.wanted);
    if (r.wanted != NULL) {
        if (s->depth == 1) {
            follow_readers(&r);
        }
        unify_sizes(&r);
        bring_along(&r);
    }
    return r.wanted == NULL || s->is_oom ? st_fail_oom(err)
                                         : st_baked_in_check_mean(s, b, desc, err);
}

void st_baked_in_done(st_baked_in *s)
{
    s->depth--;
    if (s->depth == 0) {
        st_arena_reset(&s->arena);
    }
}

/* ---- what is known ---- */

static uint64_t key_of(const stator_graph *graph, stator_ref value)
{
    return (uint64_t)graph->index << 32 | value;
}

const st_baked_in_value *st_baked_in_known(const st_baked_in *s, const stator_graph *graph,
                                           stator_ref value, const st_baked_in_value *after)
{
    uint32_t place = after != NULL ? after->older : st_map_get(&s->newest, key_of(graph, value));
    while (place != 0 && place <= s->values.count) {
        const st_baked_in_value *known = &s->values.data[place - 1u];
        if (known->value != value || (known->graph != graph && known->graph != NULL)) {
            return NULL; /* another has the place now */
        }
        if (known->graph != NULL) {
            return known;
        }
        place = known->older;
    }
    return NULL;
}

void st_baked_in_note(st_baked_in *s, const st_baked_in_value *known)
{
    const st_baked_in_value *before = st_baked_in_known(s, known->graph, known->value, NULL);
    const uint32_t older = before != NULL ? (uint32_t)(before - s->values.data) + 1u : 0;
    st_baked_in_value *slot = st_vec_push(s->m->mem, &s->values);
    if (slot == NULL ||
        !st_map_put(&s->newest, key_of(known->graph, known->value), s->values.count)) {
        s->values.count -= slot != NULL;
        s->is_oom = true;
        return;
    }
    *slot = *known;
    slot->n_values = known->graph->values.count;
    slot->older = older;
}

/* In a graph, what was noted later was noted when it had more values. */
void st_baked_in_forget(st_baked_in *s, const stator_graph *graph, stator_ref from)
{
    for (uint32_t i = s->values.count; i-- > 0;) {
        st_baked_in_value *v = &s->values.data[i];
        if (v->graph == graph && v->n_values <= from) {
            return;
        }
        if (v->graph != graph) {
            continue;
        }
        v->graph = NULL;
        if (i + 1u == s->values.count) {
            s->values.count--;
            if (v->older != 0) { /* the key exists: nothing is allocated */
                (void)st_map_put(&s->newest, key_of(graph, v->value), v->older);
            }
        }
    }
}

/* ---- lists of sizes for each axis ---- */

void st_baked_in_keep_whole(st_module *m, const st_op *op, stator_attr *attrs,
                            const stator_type_row *was, const stator_type_row *is)
{
    stator_attr *list = st_find_attr(attrs, op->desc.attr_count, "sizes");
    stator_attr *first = st_find_attr(attrs, op->desc.attr_count, "starts");
    const stator_attr *steps = st_find_attr(attrs, op->desc.attr_count, "steps");
    if (list == NULL || list->kind != STATOR_ATTR_DIMS || list->count != was->rank ||
        was->rank != is->rank || (first != NULL && steps == NULL)) {
        return;
    }
    for (uint32_t i = 0; i < was->rank; i++) {
        stator_ref *size = (stator_ref *)(uintptr_t)list->list + i;
        const stator_ref old = *(const stator_ref *)st_seg_at(&m->refs, was->dims_begin + i);
        const stator_ref fresh = *(const stator_ref *)st_seg_at(&m->refs, is->dims_begin + i);
        const int64_t step = first != NULL ? ((const int64_t *)steps->list)[i] : 1;
        int64_t start = 0, n = 0;
        if (*size != old || fresh == old || !st_sym_const(&m->symtab, old, &n)) {
            continue;
        }
        stator_ref *from = first != NULL ? (stator_ref *)(uintptr_t)first->list + i : NULL;
        const stator_ref last = st_sym_sub(&m->symtab, fresh, st_sym_int(&m->symtab, 1));
        if (from != NULL && !st_sym_const(&m->symtab, *from, &start)) {
            continue;
        }
        if (start == 0 && step == 1) {
            *size = fresh;
        } else if (start == n - 1 && step == -1 && last != 0) {
            *from = last;
            *size = fresh;
        }
    }
}
