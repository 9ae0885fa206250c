/* Helper functions of expression programs that make tensors: axes taken away and added, filled
 * tensors, scalars, casts.
 *
 * In: evaluated arguments. Out: values made of reshape, expand, cast and constants; an operand that
 * is already as asked for is given back as it is. */
#include "core/base/check.h"
#include "ir/expr/expr_help.h"

#include <string.h>

static stator_status with_shape(const st_help *c, const char *op, stator_ref x,
                                const stator_ref *dims, uint32_t rank)
{
    const stator_attr attr = {
        .name = "shape", .kind = STATOR_ATTR_DIMS, .count = rank, .list = dims};
    stator_ref y = 0;
    ST_TRY(st_xop(c->e, op, 1, &x, 1, &attr, &y));
    *c->out = st_xtensor(y);
    return STATOR_OK;
}

stator_status st_help_squeeze(const st_help *c)
{
    stator_ref x = 0, dims[STATOR_RANK_MAX];
    uint32_t set = 0, n = 0;
    ST_TRY(st_help_tensor(c, 0, &x));
    const uint32_t rank = st_xtype(c->e, x)->rank;
    ST_TRY(st_help_axes(c, 1, rank, &set));
    for (uint32_t i = 0; i < rank; i++) {
        const stator_ref dim = st_help_dim(c, x, i);
        int64_t value = 1;
        if ((set >> i & 1u) == 0) {
            dims[n++] = dim;
        } else if (st_sym_const(&c->e->b->module->symtab, dim, &value) && value != 1) {
            return st_xfail(c->e, c->node, "squeeze: axis %u has size %lld, expected 1", i,
                            (long long)value);
        }
    }
    return with_shape(c, "reshape", x, dims, n);
}

stator_status st_help_unsqueeze(const st_help *c)
{
    stator_ref x = 0, dims[STATOR_RANK_MAX];
    uint32_t set = 0, from = 0;
    ST_TRY(st_help_tensor(c, 0, &x));
    const uint32_t added = c->args[1].kind == ST_X_LIST ? c->args[1].n : 1u;
    const uint32_t rank = st_xtype(c->e, x)->rank + added;
    ST_XFAIL_IF(added > STATOR_RANK_MAX || rank > STATOR_RANK_MAX, c->e, c->node,
                "unsqueeze: more than %d axes", STATOR_RANK_MAX);
    ST_TRY(st_help_axes(c, 1, rank, &set));
    ST_XFAIL_IF((uint32_t)__builtin_popcount(set) != added, c->e, c->node,
                "unsqueeze: an axis is named twice");
    const stator_ref one = st_sym_int(&c->e->b->module->symtab, 1);
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = set >> i & 1u ? one : st_help_dim(c, x, from++);
    }
    return with_shape(c, "reshape", x, dims, rank);
}

static stator_status fill_like(const st_help *c, const st_xvalue *value)
{
    stator_ref x = 0, y = 0, dims[STATOR_RANK_MAX];
    ST_TRY(st_help_tensor(c, 0, &x));
    const uint32_t rank = st_xtype(c->e, x)->rank;
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = st_help_dim(c, x, i);
    }
    ST_TRY(st_xto_tensor(c->e, c->node, value, st_xtype(c->e, x)->dtype, false, &y));
    return with_shape(c, "expand", y, dims, rank);
}

stator_status st_help_zeros_like(const st_help *c)
{
    const st_xvalue zero = st_xint(0);
    return fill_like(c, &zero);
}

stator_status st_help_ones_like(const st_help *c)
{
    const st_xvalue one = st_xint(1);
    return fill_like(c, &one);
}

stator_status st_help_full_like(const st_help *c)
{
    return fill_like(c, &c->args[1]);
}

stator_status st_help_scalar(const st_help *c)
{
    stator_dtype dtype = 0;
    stator_ref y = 0;
    ST_TRY(st_help_dtype(c, 1, &dtype));
    ST_TRY(st_xto_tensor(c->e, c->node, &c->args[0], dtype, false, &y));
    ST_TRY(st_xcast(c->e, y, dtype, &y));
    *c->out = st_xtensor(y);
    return STATOR_OK;
}

static stator_status cast_to(const st_help *c, stator_ref x, stator_dtype dtype)
{
    ST_TRY(st_xcast(c->e, x, dtype, &x));
    *c->out = st_xtensor(x);
    return STATOR_OK;
}

/* cast(x, dtype) or cast(x, dtype=dtype): nothing when x has it. Other attributes: the op. */
stator_status st_help_cast(const st_help *c)
{
    stator_dtype dtype = 0;
    stator_ref x = 0;
    if (c->n != 2 || (c->node->keys[1] != NULL && strcmp(c->node->keys[1], "dtype") != 0)) {
        return STATOR_NOT_FOUND;
    }
    ST_TRY(st_help_dtype(c, 1, &dtype));
    if (st_xis_number(&c->args[0])) {
        return st_help_scalar(c);
    }
    ST_TRY(st_help_tensor(c, 0, &x));
    return cast_to(c, x, dtype);
}

/* Floats narrower than f32 as f32; anything else as it is. */
stator_status st_help_wide(const st_help *c)
{
    stator_ref x = 0;
    ST_TRY(st_help_tensor(c, 0, &x));
    const stator_dtype dtype = st_xtype(c->e, x)->dtype;
    const bool is_narrow = st_dtype_class(dtype) == STATOR_CLASS_FLOAT && st_dtype_bits(dtype) < 32;
    return cast_to(c, x, is_narrow ? STATOR_F32 : dtype);
}
