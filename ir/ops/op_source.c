/* Infer rules of ops that make tensors from sizes and constants, and of random words. In: DIMS and
 * BLOB attributes. Out: one type; sizes may be symbolic, a size proved negative is refused. */
#include "core/base/blob.h"
#include "core/base/check.h"
#include "ir/ops/rules.h"
#include <stator/ops.h>

stator_status st_infer_constant(st_infer *in)
{
    const stator_attr_row *row = in->attrs[STATOR_constant_value];
    int64_t dims[STATOR_RANK_MAX];
    uint64_t count = 0, bytes = 0;
    ST_IN_FAIL_IF(row->i <= 0 || (uint64_t)row->i >= in->m->types.count, in,
                  "the value has no type");
    const stator_type_row *type = stator_type_at(in->v, (stator_ref)row->i);
    for (uint32_t i = 0; i < type->rank; i++) {
        ST_IN_FAIL_IF(!st_in_const(in, stator_dim_at(in->v, type, i), &dims[i]), in,
                      "axis %u of the type has no fixed size", i);
    }
    const stator_blob *blob = st_module_blob_at(in->m, row->begin);
    if (blob == NULL || !st_numel(dims, type->rank, &count) ||
        !st_dtype_bytes(type->dtype, count, &bytes)) {
        return st_in_fail(in, "the value has no contents, or is larger than memory can be");
    }
    ST_IN_FAIL_IF(bytes != st_blob_size(blob), in, "the type needs %llu bytes, the value has %llu",
                  (unsigned long long)bytes, (unsigned long long)st_blob_size(blob));
    in->types[0] = (stator_ref)row->i;
    return STATOR_OK;
}

/* Result 0 with the sizes of a DIMS attribute. */
static stator_status set_shaped(st_infer *in, uint32_t a, stator_dtype dtype)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = st_in_syms(in, a, dims, STATOR_RANK_MAX);
    return st_in_set(in, 0, dtype, rank, dims);
}

stator_status st_infer_iota(st_infer *in)
{
    uint32_t axis = 0;
    const int64_t dtype = st_in_int(in, STATOR_iota_dtype);
    ST_TRY(st_in_axis(in, st_in_int(in, STATOR_iota_axis), in->attrs[STATOR_iota_shape]->count,
                      &axis));
    if (st_dtype_class((uint32_t)dtype) < STATOR_CLASS_INT ||
        st_dtype_class((uint32_t)dtype) > STATOR_CLASS_FLOAT) {
        return st_in_fail(in, "dtype is %s, expected an integer or float",
                          st_dtype_name((uint32_t)dtype));
    }
    return set_shaped(in, STATOR_iota_shape, (stator_dtype)dtype);
}

stator_status st_infer_dims(st_infer *in)
{
    const uint32_t n = in->attrs[STATOR_dims_values]->count;
    const stator_ref size = st_in_size(in, n);
    if (st_in_int(in, STATOR_dims_scalar) == 0) {
        return st_in_set(in, 0, STATOR_I64, 1, &size);
    }
    ST_TRY(st_in_list_count(in, STATOR_dims_values, 1));
    return st_in_set(in, 0, STATOR_I64, 0, NULL);
}

stator_status st_infer_sym_bind(st_infer *in)
{
    const stator_attr_row *row = in->attrs[STATOR_sym_bind_syms];
    ST_TRY(st_in_dtype_is(in, 0, STATOR_I64));
    ST_TRY(st_in_rank_is(in, 0, 0, 1));
    if (st_in_rank(in, 0) == 0) {
        ST_TRY(st_in_list_count(in, STATOR_sym_bind_syms, 1));
    } else {
        ST_TRY(st_in_same_dim(in, st_in_dim(in, 0, 0), st_in_size(in, row->count),
                              "symbols and elements of t"));
    }
    for (uint32_t i = 0; i < row->count; i++) {
        char text[96];
        const stator_ref sym = stator_ref_at(in->v, row->begin + i);
        ST_IN_FAIL_IF(st_sym_as_symbol(&in->m->symtab, sym) == 0, in,
                      "entry %u is '%s', expected one symbol", i, st_in_sym_text(in, sym, text));
    }
    return st_in_like(in, 0, 0, 0);
}

static stator_status check_seed(const st_infer *in)
{
    for (uint32_t k = 0; k < 2; k++) {
        ST_TRY(st_in_dtype_is(in, k, STATOR_I64));
        ST_TRY(st_in_scalar(in, k, false));
    }
    return STATOR_OK;
}

stator_status st_infer_rng_bits(st_infer *in)
{
    ST_TRY(check_seed(in));
    return set_shaped(in, STATOR_rng_bits_shape, STATOR_U32);
}

stator_status st_infer_rng(st_infer *in)
{
    const stator_dtype dtype = (stator_dtype)st_in_int(in, st_in_place(in, "dtype"));
    ST_TRY(check_seed(in));
    ST_IN_FAIL_IF(st_dtype_class(dtype) != STATOR_CLASS_FLOAT, in,
                  "dtype is %s, expected a float dtype", st_dtype_name(dtype));
    return set_shaped(in, st_in_place(in, "shape"), dtype);
}
