/* Constants that operator functions make: scalars and short lists of any dtype. */
#include "frontends/onnx/ox_import.h"

#include "core/base/convert.h"

stator_ref ox_const(ox_node *n, stator_dtype dtype, uint32_t rank, const int64_t *dims,
                    const void *data)
{
    static const uint64_t nothing[1] = {0};
    data = data != NULL ? data : nothing; /* a list without elements */
    ox_tensor_value v = {.dtype = dtype, .rank = rank, .dims = dims, .bytes = data};
    if (!ox_ok(n)) {
        return 0;
    }
    if (!st_numel(dims, rank, &v.count) || !st_dtype_bytes(dtype, v.count, &v.size_bytes)) {
        return ox_fail(n, STATOR_INVALID_ARGUMENT, "a constant is too large");
    }
    const stator_ref type = ox_tensor_type(n->im, n->e.b, &v);
    stator_ref ref = 0;
    if (type == 0 ||
        !stator_emit_check(
            &n->e, n->e.build->constant(n->e.b, type, data, v.size_bytes, &ref, n->e.err))) {
        return 0;
    }
    if (v.size_bytes <= 4096) {
        ox_region_keep(n->im, n->scope->region, ref, dtype, rank, dims, data, v.size_bytes);
    }
    return ref;
}

stator_ref ox_scalar(ox_node *n, stator_dtype dtype, double value)
{
    uint64_t room[2] = {0, 0};
    static const int64_t no_dims[1] = {0};
    if (!ox_ok(n)) {
        return 0;
    }
    const uint32_t class_ = st_dtype_class(dtype);
    if (class_ == STATOR_CLASS_COMPLEX) {
        const double parts[2] = {value, 0};
        st_store_c128(dtype, room, 0, parts);
    } else if (class_ == STATOR_CLASS_INT || class_ == STATOR_CLASS_UINT) {
        st_store_i64(dtype, room, 0, st_f64_to_i64(value));
    } else {
        st_store_f64(dtype, room, 0, value);
    }
    return ox_const(n, dtype, 0, no_dims, room);
}

stator_ref ox_like(ox_node *n, stator_ref v, double value)
{
    return ox_scalar(n, ox_dtype(n, v), value);
}

stator_ref ox_int(ox_node *n, int64_t value)
{
    static const int64_t no_dims[1] = {0};
    return ox_const(n, STATOR_I64, 0, no_dims, &value);
}

stator_ref ox_ints(ox_node *n, uint32_t count, const int64_t *values)
{
    const int64_t dims[1] = {count};
    return ox_const(n, STATOR_I64, 1, dims, values);
}

stator_ref ox_floats(ox_node *n, uint32_t count, const double *values)
{
    const int64_t dims[1] = {count};
    float *list = ox_alloc(n, (uint64_t)count + 1u, sizeof *list);
    if (list == NULL) {
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        list[i] = (float)values[i];
    }
    return ox_const(n, STATOR_F32, 1, dims, list);
}

stator_ref ox_tensor(ox_node *n, const Onnx__TensorProto *tensor)
{
    if (!ox_ok(n) || tensor == NULL) {
        return 0;
    }
    return ox_tensor_constant(n->im, n->scope->region, tensor, ox_node_where(n));
}

stator_ref ox_sparse_tensor(ox_node *n, const Onnx__SparseTensorProto *tensor)
{
    if (!ox_ok(n) || tensor == NULL) {
        return 0;
    }
    return ox_sparse_constant(n->im, n->scope->region, tensor, ox_node_where(n));
}
