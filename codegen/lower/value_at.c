/* "This value at this index": the one question of lowering, and index arithmetic.
 *
 * In: a nest with its loops open, a value of the graph, an index of syms. Out: an instruction of
 * the kernel. The answer is a load when the value is stored, an accumulator when the kernel
 * folds it, and otherwise whatever the value's own op makes of its operands at the indices it
 * asks for. Answers are kept as long as their block is open, so a value is computed once at each
 * index. */
#include "codegen/lower/unit.h"

#include <stdio.h>
#include <string.h>

#define AT_DEPTH_MAX 2000u /* depth of inlined ops; the stack holds several times this */

void cg_refuse(cg_nest *nest, const char *why)
{
    if (nest->refusal == NULL) {
        nest->refusal = why;
    }
}

/* ---- syms ---- */

/* An operation beyond the limits of the symbolic engine is computed at run time: instructions for a
 * and b, the operation on them, and a symbol bound to its value. */
static st_loop_ref operation(st_loop_builder *b, uint32_t op, st_loop_ref x, st_loop_ref y)
{
    static const uint16_t codes[] = {
        [STATOR_SYM_ADD] = ST_LOOP_add,      [STATOR_SYM_SUB] = ST_LOOP_sub,
        [STATOR_SYM_MUL] = ST_LOOP_mul,      [STATOR_SYM_MIN] = ST_LOOP_min,
        [STATOR_SYM_MAX] = ST_LOOP_max,      [STATOR_SYM_MOD] = ST_LOOP_mod,
        [STATOR_SYM_FLOORDIV] = ST_LOOP_div,
    };
    if (op == STATOR_SYM_CEILDIV) { /* ceiling: minus the floor of the opposite */
        const st_loop_ref minus = st_loop_apply(b, ST_LOOP_neg, 0, x, 0, 0);
        return st_loop_apply(b, ST_LOOP_neg, 0, operation(b, STATOR_SYM_FLOORDIV, minus, y), 0, 0);
    }
    if (op == STATOR_SYM_FLOORDIV) { /* the remainder has the divisor's sign */
        x = st_loop_apply(b, ST_LOOP_sub, 0, x, st_loop_apply(b, ST_LOOP_mod, 0, x, y, 0), 0);
    }
    return st_loop_apply(b, codes[op], 0, x, y, 0);
}

static uint32_t computed(cg_nest *nest, uint32_t op, uint32_t a, uint32_t b)
{
    st_loop_builder *to = &nest->b;
    int64_t lo = 0;
    int64_t hi = 0;
    const st_loop_ref x = st_loop_index(to, a);
    const st_loop_ref y = x ? st_loop_index(to, b) : 0;
    st_sym_range(&nest->unit->syms->tab, b, &lo, &hi);
    const bool is_rest = op == STATOR_SYM_MOD && lo > 0;
    const uint32_t sym = y ? st_loop_bind(to, operation(to, op, x, y), is_rest ? 0 : INT64_MIN,
                                          is_rest && hi != INT64_MAX ? hi - 1 : INT64_MAX)
                           : 0;
    if (sym == 0) {
        cg_refuse(nest, "an index exceeds the limit of 16 terms, depth 4");
        return st_sym_int(&nest->unit->syms->tab, 0);
    }
    return sym;
}

uint32_t cg_int(cg_nest *nest, int64_t value)
{
    return st_sym_int(&nest->unit->syms->tab, value);
}

uint32_t cg_add(cg_nest *nest, uint32_t a, uint32_t b)
{
    return cg_sym_of(nest, STATOR_SYM_ADD, a, b);
}

uint32_t cg_sub(cg_nest *nest, uint32_t a, uint32_t b)
{
    return cg_sym_of(nest, STATOR_SYM_SUB, a, b);
}

uint32_t cg_mul(cg_nest *nest, uint32_t a, uint32_t b)
{
    return cg_sym_of(nest, STATOR_SYM_MUL, a, b);
}

uint32_t cg_sym_of(cg_nest *nest, uint32_t op, uint32_t a, uint32_t b)
{
    const uint32_t sym = st_sym_op(&nest->unit->syms->tab, op, a, b);
    return sym ? sym : computed(nest, op, a, b);
}

/* A split whose dims and index stand at `from` of these: its index + 1, else 0. */
static uint32_t find_split(const cg_nest *nest, uint32_t rank, const uint32_t *dims,
                           const uint32_t *index, uint32_t from)
{
    for (uint32_t i = 0; i < nest->splits.count; i++) {
        const cg_split *s = &nest->splits.data[i];
        const size_t bytes = s->rank * sizeof *dims;
        if (from + s->rank <= rank && memcmp(s->index, index + from, bytes) == 0 &&
            memcmp(s->dims, dims + from, bytes) == 0) {
            return i + 1u;
        }
    }
    return 0;
}

uint32_t cg_flatten(cg_nest *nest, uint32_t rank, const uint32_t *dims, const uint32_t *index)
{
    uint32_t flat = cg_int(nest, 0);
    for (uint32_t a = 0; a < rank;) {
        const uint32_t found = find_split(nest, rank, dims, index, a);
        const uint32_t n = found ? nest->splits.data[found - 1u].rank : 1u;
        for (uint32_t k = 0; k < n; k++) {
            flat = cg_mul(nest, flat, dims[a + k]);
        }
        flat = cg_add(nest, flat, found ? nest->splits.data[found - 1u].flat : index[a]);
        a += n;
    }
    return flat;
}

uint32_t cg_address(cg_nest *nest, stator_ref value, const uint32_t *index)
{
    const cg_value *v = &nest->unit->values[value];
    uint32_t order[CG_RANK_MAX];
    uint32_t dims[CG_RANK_MAX];
    uint32_t own[CG_RANK_MAX];
    cg_storage_order(v, order);
    for (uint32_t k = 0; k < v->rank; k++) {
        dims[k] = v->dims[order[k]];
        own[k] = index[order[k]];
    }
    return cg_flatten(nest, v->rank, dims, own);
}

void cg_split_flat(cg_nest *nest, uint32_t rank, const uint32_t *dims, const uint32_t *divisors,
                   uint32_t flat, uint32_t *out_index)
{
    uint32_t rest = flat;
    uint32_t wide = cg_wide_axes(nest->unit, dims, rank);
    for (uint32_t a = rank; a-- > 0;) {
        if (cg_is_one(nest->unit, dims[a])) {
            out_index[a] = cg_int(nest, 0);
            continue;
        }
        wide--;
        out_index[a] = wide ? cg_sym_of(nest, STATOR_SYM_MOD, rest, divisors[a]) : rest;
        rest = wide ? cg_sym_of(nest, STATOR_SYM_FLOORDIV, rest, divisors[a]) : rest;
    }
    cg_split *s = rank > 1 ? st_vec_push(nest->unit->mem, &nest->splits) : NULL;
    if (s) {
        *s = (cg_split){.rank = rank, .flat = flat};
        memcpy(s->dims, dims, rank * sizeof *dims);
        memcpy(s->index, out_index, rank * sizeof *dims);
    }
}

/* ---- conditions ---- */

bool cg_is_zero(const cg_nest *nest, uint32_t sym)
{
    int64_t value = 1;
    return st_sym_const(&nest->unit->syms->tab, sym, &value) && value == 0;
}

st_loop_ref cg_within(cg_nest *nest, uint32_t index, uint32_t size, bool test_low, bool test_high)
{
    st_loop_builder *b = &nest->b;
    st_symtab *tab = &nest->unit->syms->tab;
    const uint32_t zero = cg_int(nest, 0);
    st_loop_ref ok = 0;
    if (test_low && st_sym_le(tab, zero, index) != 1) {
        ok = st_loop_apply(b, ST_LOOP_ge, 0, st_loop_index(b, index), st_loop_index(b, zero), 0);
    }
    if (test_high && st_sym_lt(tab, index, size) != 1) {
        ok = st_loop_both(
            b, ok,
            st_loop_apply(b, ST_LOOP_lt, 0, st_loop_index(b, index), st_loop_index(b, size), 0));
    }
    return ok;
}

/* ---- the loops that are open ---- */

bool cg_is_full(const cg_unit *unit, const cg_fusion_group *group, const cg_root *root)
{
    if (root->is_fold || group->n_inner == 0) {
        return group->n_inner == 0;
    }
    const cg_value *v = &unit->values[root->value];
    return cg_wide_axes(unit, v->dims, v->rank) == group->rank;
}

void cg_own_index(const cg_nest *nest, const cg_root *root, uint32_t *out_index)
{
    const cg_unit *unit = nest->unit;
    const cg_fusion_group *group = nest->group;
    const cg_value *v = &unit->values[root->value];
    const bool is_full = cg_is_full(unit, group, root);
    uint32_t k = 0;
    for (uint32_t a = 0; a < v->rank; a++) {
        out_index[a] = st_sym_int(&unit->syms->tab, 0);
        if (cg_is_one(unit, v->dims[a])) {
            continue;
        }
        while (k < group->rank && group->inner[k] && !is_full) {
            k++;
        }
        if (k < group->rank) {
            out_index[a] = nest->axis[k++];
        }
    }
}

uint32_t cg_row_index(cg_nest *nest)
{
    uint32_t inner = cg_int(nest, 0);
    for (uint32_t k = 0; k < nest->group->rank; k++) {
        if (nest->group->inner[k]) {
            inner = cg_add(nest, cg_mul(nest, inner, nest->group->extent[k]), nest->axis[k]);
        }
    }
    return inner;
}

/* ---- buffers ---- */

void cg_buffer_name(const cg_unit *unit, uint32_t buffer, char out[32])
{
    static const char *const letters[] = {"", "in", "out", "c", "w"};
    const cg_buffer *of = &unit->buffers.data[buffer];
    (void)snprintf(out, 32, "%s%u", letters[of->kind],
                   of->kind == CG_BUFFER_WORK ? buffer : of->index);
}

uint32_t cg_kernel_buffer(cg_nest *nest, uint32_t buffer, uint32_t flags)
{
    const cg_buffer *of = &nest->unit->buffers.data[buffer];
    const uint32_t known = st_map_get(&nest->buffer_memo, buffer + 1u);
    if (known) {
        nest->kernel->buffers.data[known - 1u].flags |= flags;
        return known - 1u;
    }
    char name[32];
    cg_buffer_name(nest->unit, buffer, name);
    const uint32_t added = st_loop_buffer_add(&nest->b, name, of->dtype, of->numel, flags, buffer);
    if (!nest->kernel->failed && (of->is_unaligned_mapped || of->align)) {
        nest->kernel->buffers.data[added].align = of->is_unaligned_mapped ? 1 : of->align;
    }
    if (!st_map_put(&nest->buffer_memo, buffer + 1u, added + 1u)) {
        nest->kernel->failed = STATOR_RESOURCE_EXHAUSTED;
    }
    return added;
}

static st_loop_ref load_flat(cg_nest *nest, stator_ref value, uint32_t flat)
{
    const uint32_t buffer = nest->unit->values[value].buffer;
    int64_t numel = 1;
    if (st_sym_const(&nest->unit->syms->tab, nest->unit->buffers.data[buffer].numel, &numel) &&
        numel == 0) {
        /* Nothing to load, and nothing that depends on a loop: it would stand before all of
         * them. */
        const uint32_t dtype = nest->unit->values[value].dtype;
        return st_loop_cast(&nest->b, dtype, st_loop_number(&nest->b, cg_wide_dtype(dtype), 0));
    }
    return st_loop_load(&nest->b, cg_kernel_buffer(nest, buffer, ST_BUFFER_READ), flat, nest->mask,
                        0);
}

/* ---- values ---- */

uint32_t cg_wide_dtype(uint32_t dtype)
{
    return st_loop_class_of(dtype) == ST_LOOP_STORAGE ? (uint32_t)STATOR_F32 : dtype;
}

static st_loop_ref splat(cg_nest *nest, const cg_value *v, uint32_t dtype)
{
    return st_loop_class_of(dtype) == ST_LOOP_FLOATS ? st_loop_float(&nest->b, dtype, v->splat.f)
                                                     : st_loop_int(&nest->b, dtype, v->splat.i);
}

/* A root of this very kernel. Its group's loops compute it once, at its own index. */
static st_loop_ref root_at(cg_nest *nest, uint32_t root_index, const uint32_t *index)
{
    cg_unit *unit = nest->unit;
    const cg_root *root = &unit->roots.data[root_index];
    const cg_value *v = &unit->values[root->value];
    uint32_t own[CG_RANK_MAX];
    cg_own_index(nest, root, own);
    if (memcmp(own, index, v->rank * sizeof *own) != 0) {
        cg_refuse(nest, "a value of the row is needed at another index");
        return 0;
    }
    if (root->is_fold) {
        const st_loop_ref acc = st_map_get(&nest->acc_memo, root_index + 1u);
        if (root->level >= nest->level || acc == 0) {
            cg_refuse(nest, "a folded value is needed before its loop has ended");
            return 0;
        }
        const cg_node node = cg_node_of(unit, root->node);
        const uint32_t dtype = root->fold.acc == ST_ACC_ARGMIN || root->fold.acc == ST_ACC_ARGMAX
                                   ? (uint32_t)STATOR_I64
                                   : root->fold.dtype;
        const st_loop_ref folded = st_loop_read(&nest->b, acc, dtype);
        return root->lowering->finish ? root->lowering->finish(nest, &node, own, folded)
                                      : st_loop_cast(&nest->b, v->dtype, folded);
    }
    const uint32_t local = st_map_get(&nest->local_memo, root_index + 1u);
    if (local && root->level < nest->level) {
        return st_loop_load(&nest->b, local - 1u, cg_row_index(nest), 0, 0);
    }
    if (root->lowering == NULL) {
        return cg_at(nest, root->source, index);
    }
    const cg_node node = cg_node_of(unit, root->node);
    return root->lowering->point(nest, &node, root->value - node.row->result_begin, index);
}

static st_loop_ref lower(cg_nest *nest, stator_ref value, const uint32_t *index)
{
    cg_unit *unit = nest->unit;
    const cg_value *v = &unit->values[value];
    if (v->flags & CG_VALUE_SPLAT) {
        const uint32_t wide = cg_wide_dtype(v->dtype);
        return st_loop_cast(&nest->b, v->dtype, splat(nest, v, wide));
    }
    if (v->root && unit->roots.data[v->root - 1u].group == nest->group_index) {
        return root_at(nest, v->root - 1u, index);
    }
    if (v->buffer != CG_NO_BUFFER) {
        return load_flat(nest, value, cg_address(nest, value, index));
    }
    const cg_node node = cg_node_of(unit, stator_value_at(unit->view, value)->node);
    const cg_lowering *lowering = node.unit->lowering_of(node.row->op);
    if (lowering == NULL || lowering->point == NULL) {
        cg_refuse(nest, "a value that only a loop of its own computes was not stored");
        return 0;
    }
    const uint32_t outer_origin = nest->b.origin;
    nest->b.origin = node.ref;
    const st_loop_ref inst = lowering->point(nest, &node, value - node.row->result_begin, index);
    nest->b.origin = outer_origin;
    return inst;
}

/* ---- what was asked before ---- */

typedef struct sought {
    const cg_nest *nest;
    const cg_known *key;
    uint32_t rank;
} sought;

static bool same_question(void *self, uint32_t id)
{
    const sought *s = self;
    const cg_known *k = &s->nest->known.data[id - 1u];
    return k->value == s->key->value && k->mask == s->key->mask &&
           memcmp(k->index, s->key->index, s->rank * sizeof *k->index) == 0 &&
           st_loop_is_open(&s->nest->b, st_loop_at(s->nest->kernel, k->inst)->block);
}

static void remember(cg_nest *nest, uint64_t hash, const cg_known *answer)
{
    cg_known *at = st_vec_push(nest->unit->mem, &nest->known);
    if (at == NULL || !st_hashset_add(&nest->at_memo, hash, nest->known.count)) {
        nest->kernel->failed = STATOR_RESOURCE_EXHAUSTED;
        return;
    }
    *at = *answer;
}

st_loop_ref cg_at(cg_nest *nest, stator_ref value, const uint32_t *index)
{
    const cg_value *v = &nest->unit->values[value];
    cg_known key = {.value = value, .mask = nest->mask};
    if (nest->refusal || nest->kernel->failed) {
        return 0;
    }
    for (uint32_t a = 0; a < v->rank; a++) {
        key.index[a] = cg_is_one(nest->unit, v->dims[a]) ? cg_int(nest, 0) : index[a];
    }
    const uint64_t hash = st_hash64(&key, offsetof(cg_known, index) + v->rank * sizeof *index, 1);
    sought s = {nest, &key, v->rank};
    const uint32_t found = st_hashset_find(&nest->at_memo, hash, same_question, &s);
    if (found) {
        return nest->known.data[found - 1u].inst;
    }
    if (nest->depth >= AT_DEPTH_MAX || nest->kernel->insts.count > CG_INSTS_MAX) {
        cg_refuse(nest, "the kernel would be too large");
        return 0;
    }
    nest->depth++;
    key.inst = lower(nest, value, key.index);
    nest->depth--;
    if (key.inst) {
        remember(nest, hash, &key);
    }
    return key.inst;
}

/* The value before it was rounded to bf16 or f16, when numerics are fused and it is computed
 * here. */
static st_loop_ref unrounded(const cg_nest *nest, st_loop_ref inst)
{
    const st_loop_inst *cast = inst ? st_loop_at(nest->kernel, inst) : NULL;
    if (nest->unit->config->exact || cast == NULL || cast->code != ST_LOOP_cast) {
        return inst;
    }
    return cg_is_half(cast->dtype) && st_loop_at(nest->kernel, cast->args[0])->dtype == STATOR_F32
               ? cast->args[0]
               : inst;
}

st_loop_ref cg_wide_at(cg_nest *nest, stator_ref value, const uint32_t *index)
{
    const cg_value *v = &nest->unit->values[value];
    const uint32_t wide = cg_wide_dtype(v->dtype);
    if (v->flags & CG_VALUE_SPLAT) {
        return splat(nest, v, wide);
    }
    return st_loop_cast(&nest->b, wide, unrounded(nest, cg_at(nest, value, index)));
}

st_loop_ref cg_at_flat(cg_nest *nest, stator_ref value, const uint32_t *divisors, uint32_t flat)
{
    const cg_unit *unit = nest->unit;
    const cg_value *v = &unit->values[value];
    const bool is_here = v->root && unit->roots.data[v->root - 1u].group == nest->group_index;
    if (nest->refusal || nest->kernel->failed) {
        return 0;
    }
    if (v->buffer != CG_NO_BUFFER && !is_here && v->order == NULL) {
        return load_flat(nest, value, flat);
    }
    uint32_t index[CG_RANK_MAX];
    cg_split_flat(nest, v->rank, v->dims, divisors, flat, index);
    return cg_at(nest, value, index);
}
