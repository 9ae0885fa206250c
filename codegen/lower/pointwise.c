/* Lowerings of elements that need no index arithmetic of their own: scalar ops, casts, sources.
 *
 * A scalar op computes in f32 on storage types and rounds to the declared dtype at once, so a fused
 * chain gives what separate ops give. */
#include "codegen/lower/lower.h"
#include "core/base/check.h"

#include <math.h>
#include <stator/ops.h>
#include <string.h>

/* ---- broadcasting ---- */

void cg_fit_index(cg_nest *nest, const cg_value *operand, const uint32_t *dims, uint32_t *index)
{
    for (uint32_t a = 0; a < operand->rank; a++) {
        if (cg_is_one(nest->unit, operand->dims[a])) {
            index[a] = cg_int(nest, 0);
        } else if (operand->dims[a] != dims[a]) {
            const uint32_t last = cg_sub(nest, operand->dims[a], cg_int(nest, 1));
            index[a] = cg_sym_of(nest, STATOR_SYM_MIN, index[a], last);
        }
    }
}

static st_loop_ref operand_at(cg_nest *nest, const cg_node *node, uint32_t k, uint32_t result,
                              const uint32_t *index)
{
    const stator_ref operand = cg_operand(node, k);
    const cg_value *v = cg_value_of(nest->unit, operand);
    const cg_value *out = node->out + result;
    uint32_t own[CG_RANK_MAX];
    memcpy(own, index + (out->rank - v->rank), v->rank * sizeof *own);
    cg_fit_index(nest, v, out->dims + (out->rank - v->rank), own);
    return cg_wide_at(nest, operand, own);
}

/* ---- scalar ops ---- */

/* x^y for floats and a constant y of 3, 4 (products, within 1.5 ulp) or 1/2; 0: it is none of them.
 * A square root differs from a power of 1/2 for -0 and -infinity. */
static st_loop_ref power(cg_nest *nest, uint32_t dtype, st_loop_ref x, st_loop_ref y)
{
    st_loop_builder *b = &nest->b;
    const st_loop_inst *exponent = st_loop_at(b->kernel, y);
    if (exponent->code != ST_LOOP_CONST || st_loop_class_of(dtype) != ST_LOOP_FLOATS) {
        return 0;
    }
    const double n = exponent->imm.f;
    if (n == 3 || n == 4) {
        const st_loop_ref square = st_loop_apply(b, ST_LOOP_mul, dtype, x, x, 0);
        return st_loop_apply(b, ST_LOOP_mul, dtype, square, n == 3 ? x : square, 0);
    }
    if (n != 0.5) {
        return 0;
    }
    const st_loop_ref positive =
        st_loop_apply(b, ST_LOOP_add, dtype, x, st_loop_float(b, dtype, 0), 0);
    const st_loop_ref root = st_loop_apply(b, ST_LOOP_sqrt, dtype, positive, 0, 0);
    const st_loop_ref is_least =
        st_loop_apply(b, ST_LOOP_eq, dtype, x, st_loop_float(b, dtype, -INFINITY), 0);
    return st_loop_apply(b, ST_LOOP_select, dtype, is_least, st_loop_float(b, dtype, INFINITY),
                         root);
}

st_loop_ref cg_scalar(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index)
{
    const cg_lowering *lowering = nest->unit->lowering_of(node->row->op);
    st_loop_ref args[3] = {0, 0, 0};
    for (uint32_t k = 0; k < node->row->operand_count && k < 3; k++) {
        args[k] = operand_at(nest, node, k, result, index);
        if (args[k] == 0) {
            return 0;
        }
    }
    const uint32_t dtype = node->out[result].dtype;
    const uint32_t faster = nest->unit->config->exact ? 0 : st_loop_desc(lowering->code)->fused;
    st_loop_ref wide =
        lowering->code == ST_LOOP_pow ? power(nest, cg_wide_dtype(dtype), args[0], args[1]) : 0;
    if (wide == 0) {
        wide = st_loop_apply(&nest->b, faster ? faster : lowering->code, cg_wide_dtype(dtype),
                             args[0], args[1], args[2]);
    }
    return st_loop_cast(&nest->b, dtype, wide);
}

st_loop_ref cg_cast(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index)
{
    const st_loop_ref x = operand_at(nest, node, 0, result, index);
    return st_loop_cast(&nest->b, node->out[result].dtype, x);
}

/* ---- sources ---- */

st_loop_ref cg_constant(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index)
{
    (void)node;
    (void)result;
    (void)index;
    cg_refuse(nest, "a constant without contents"); /* those with contents are loads or splats */
    return 0;
}

static st_loop_ref number_of_sym(cg_nest *nest, uint32_t sym, uint32_t dtype)
{
    const st_loop_ref i = st_loop_index(&nest->b, sym);
    const st_loop_ref wide = st_loop_cast(&nest->b, cg_wide_dtype(dtype), i);
    return st_loop_cast(&nest->b, dtype, wide);
}

st_loop_ref cg_iota(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index)
{
    const int64_t axis = cg_attr(node, STATOR_iota_axis)->i;
    const uint32_t a = (uint32_t)st_normalize_axis(axis, node->out->rank);
    return number_of_sym(nest, index[a], node->out[result].dtype);
}

/* A short list of sizes: a chain of selects over the index, folded when the index is known. */
st_loop_ref cg_dims(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index)
{
    const stator_attr_row *values = cg_attr(node, STATOR_dims_values);
    const uint32_t dtype = node->out[result].dtype;
    int64_t at = 0;
    if (values->count == 0) {
        return st_loop_int(&nest->b, dtype, 0); /* never asked for */
    }
    if (node->out->rank == 0 || st_sym_const(&nest->unit->syms->tab, index[0], &at)) {
        const uint32_t i = at >= 0 && at < values->count ? (uint32_t)at : 0;
        return number_of_sym(nest, cg_attr_dim(node, STATOR_dims_values, i), dtype);
    }
    const st_loop_ref position = st_loop_index(&nest->b, index[0]);
    st_loop_ref chosen = number_of_sym(nest, cg_attr_dim(node, STATOR_dims_values, 0), dtype);
    for (uint32_t i = 1; i < values->count; i++) {
        const st_loop_ref is_it = st_loop_apply(&nest->b, ST_LOOP_eq, 0, position,
                                                st_loop_int(&nest->b, STATOR_I64, i), 0);
        const st_loop_ref value =
            number_of_sym(nest, cg_attr_dim(node, STATOR_dims_values, i), dtype);
        chosen = st_loop_apply(&nest->b, ST_LOOP_select, dtype, is_it, value, chosen);
    }
    return chosen;
}

/* ---- random words: Philox4x32-10 of one block, and the word asked for ---- */

static st_loop_ref word(cg_nest *nest, st_loop_ref wide, uint32_t shift)
{
    const st_loop_ref by = st_loop_int(&nest->b, STATOR_U64, shift);
    const st_loop_ref moved =
        shift ? st_loop_apply(&nest->b, ST_LOOP_shift_right, 0, wide, by, 0) : wide;
    return st_loop_cast(&nest->b, STATOR_U32, moved);
}

static st_loop_ref product(cg_nest *nest, st_loop_ref x, uint32_t factor)
{
    return st_loop_apply(&nest->b, ST_LOOP_mul, 0, st_loop_cast(&nest->b, STATOR_U64, x),
                         st_loop_int(&nest->b, STATOR_U64, factor), 0);
}

static st_loop_ref exclusive_or(cg_nest *nest, st_loop_ref x, st_loop_ref y)
{
    return st_loop_apply(&nest->b, ST_LOOP_bit_xor, 0, x, y, 0);
}

static st_loop_ref plus(cg_nest *nest, st_loop_ref x, uint32_t by)
{
    return st_loop_apply(&nest->b, ST_LOOP_add, 0, x, st_loop_int(&nest->b, STATOR_U32, by), 0);
}

static void philox_round(cg_nest *nest, st_loop_ref c[4], const st_loop_ref key[2])
{
    const st_loop_ref a = product(nest, c[0], 0xD2511F53u);
    const st_loop_ref b = product(nest, c[2], 0xCD9E8D57u);
    const st_loop_ref next[4] = {
        exclusive_or(nest, exclusive_or(nest, word(nest, b, 32), c[1]), key[0]), word(nest, b, 0),
        exclusive_or(nest, exclusive_or(nest, word(nest, a, 32), c[3]), key[1]), word(nest, a, 0)};
    memcpy(c, next, sizeof next);
}

st_loop_ref cg_rng_bits(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index)
{
    st_loop_builder *b = &nest->b;
    const uint32_t flat = cg_flatten(nest, node->out->rank, node->out->dims, index);
    const st_loop_ref seed =
        st_loop_cast(b, STATOR_U64, cg_wide_at(nest, cg_operand(node, 0), index));
    const st_loop_ref offset =
        st_loop_cast(b, STATOR_U64, cg_wide_at(nest, cg_operand(node, 1), index));
    const st_loop_ref i = st_loop_cast(b, STATOR_U64, st_loop_index(b, flat));
    const st_loop_ref two = st_loop_int(b, STATOR_U64, 2);
    (void)result;
    if (seed == 0 || offset == 0) {
        return 0;
    }
    const st_loop_ref block = st_loop_apply(
        b, ST_LOOP_add, 0, st_loop_apply(b, ST_LOOP_shift_right, 0, i, two, 0), offset, 0);
    const st_loop_ref zero = st_loop_int(b, STATOR_U32, 0);
    st_loop_ref c[4] = {word(nest, block, 0), word(nest, block, 32), zero, zero};
    st_loop_ref key[2] = {word(nest, seed, 0), word(nest, seed, 32)};
    for (int round = 0; round < 10; round++) {
        philox_round(nest, c, key);
        key[0] = plus(nest, key[0], 0x9E3779B9u);
        key[1] = plus(nest, key[1], 0xBB67AE85u);
    }
    const st_loop_ref lane =
        st_loop_apply(b, ST_LOOP_bit_and, 0, i, st_loop_int(b, STATOR_U64, 3), 0);
    st_loop_ref chosen = c[0];
    for (int k = 1; k < 4; k++) {
        const st_loop_ref is_it =
            st_loop_apply(b, ST_LOOP_eq, 0, lane, st_loop_int(b, STATOR_U64, k), 0);
        chosen = st_loop_apply(b, ST_LOOP_select, STATOR_U32, is_it, c[k], chosen);
    }
    return chosen;
}
