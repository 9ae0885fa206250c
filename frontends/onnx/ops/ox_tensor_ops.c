/* Dtypes, constants and sizes: Cast and its kin, Constant, ConstantOfShape, Range, Shape, Size. */
#include "core/base/check.h"
#include "frontends/onnx/onnx.h"

#include <math.h>
#include <string.h>

static stator_dtype named_dtype(ox_node *n, const char *name)
{
    static const char *const names[] = {
        "",       "FLOAT", "UINT8",   "INT8",   "UINT16", "INT16",  "INT32",     "INT64",
        "STRING", "BOOL",  "FLOAT16", "DOUBLE", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128",
    };
    for (int64_t i = 1; i < (int64_t)(sizeof names / sizeof names[0]); i++) {
        if (strcmp(names[i], name) == 0) {
            return ox_dtype_of(n, i);
        }
    }
    return (stator_dtype)ox_fail(n, STATOR_INVALID_ARGUMENT, "attribute 'to' is '%s'", name);
}

static stator_ref cast_to(ox_node *n, stator_ref x, stator_dtype dtype)
{
    if (ox_dtype(n, x) == dtype) {
        return x;
    }
    return ox_op(n, "cast", STATOR_IN(x),
                 STATOR_AT(STATOR_A_DTYPE("dtype", dtype),
                           STATOR_A_INT("saturate", ox_attr_int(n, "saturate", 1) != 0)));
}

void ox_cast_op(ox_node *n)
{
    const stator_dtype dtype = n->version < 6 ? named_dtype(n, ox_attr_str(n, "to", ""))
                                              : ox_dtype_of(n, ox_attr_int_need(n, "to"));
    ox_out(n, 0, cast_to(n, ox_need(n, 0), dtype));
}

void ox_cast_like(ox_node *n)
{
    ox_out(n, 0, cast_to(n, ox_need(n, 0), ox_dtype(n, ox_need(n, 1))));
}

void ox_bit_cast(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const stator_dtype dtype = ox_dtype_of(n, ox_attr_int_need(n, "to"));
    if (ox_dtype(n, x) == dtype) {
        ox_out(n, 0, x);
        return;
    }
    ox_out(n, 0, ox_op(n, "bitcast", STATOR_IN(x), STATOR_AT(STATOR_A_DTYPE("dtype", dtype))));
}

void ox_constant(ox_node *n)
{
    uint32_t count;
    if (ox_has_attr(n, "value")) {
        ox_out(n, 0, ox_tensor(n, ox_attr_tensor(n, "value")));
    } else if (ox_has_attr(n, "sparse_value")) {
        ox_out(n, 0, ox_sparse_tensor(n, ox_attr_sparse(n, "sparse_value")));
    } else if (ox_has_attr(n, "value_float")) {
        ox_out(n, 0, ox_scalar(n, STATOR_F32, ox_attr_float(n, "value_float", 0)));
    } else if (ox_has_attr(n, "value_floats")) {
        const double *list = ox_attr_floats(n, "value_floats", &count);
        ox_out(n, 0, ox_floats(n, count, list));
    } else if (ox_has_attr(n, "value_int")) {
        ox_out(n, 0, ox_int(n, ox_attr_int(n, "value_int", 0)));
    } else if (ox_has_attr(n, "value_ints")) {
        const int64_t *list = ox_attr_ints(n, "value_ints", &count);
        ox_out(n, 0, ox_ints(n, count, list));
    } else if (ox_has_attr(n, "value_string") || ox_has_attr(n, "value_strings")) {
        ox_fail(n, STATOR_UNIMPLEMENTED, "string constants are not supported");
    } else {
        ox_fail(n, STATOR_INVALID_ARGUMENT, "it has no value attribute");
    }
}

void ox_constant_of_shape(ox_node *n)
{
    uint32_t rank;
    const stator_ref *dims = ox_sizes(n, ox_need(n, 0), &rank, "the shape");
    const Onnx__TensorProto *value = ox_attr_tensor(n, "value");
    const stator_ref fill =
        value != NULL ? ox_reshape(n, ox_tensor(n, value), 0, NULL) : ox_scalar(n, STATOR_F32, 0);
    ox_out(n, 0, ox_expand(n, fill, rank, dims));
}

void ox_eye_like(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const int64_t k = ox_attr_int(n, "k", 0);
    const stator_dtype dtype =
        ox_has_attr(n, "dtype") ? ox_dtype_of(n, ox_attr_int(n, "dtype", 1)) : ox_dtype(n, x);
    stator_ref dims[STATOR_RANK_MAX];
    ox_check_rank(n, x, 2, 2, "the input");
    ox_dims(n, x, dims);
    const stator_ref row = ox_iota(n, STATOR_I64, 2, dims, 0);
    const stator_ref column = ox_iota(n, STATOR_I64, 2, dims, 1);
    ox_out(n, 0, ox_cast(n, ox_bin(n, "eq", column, ox_add(n, row, ox_int(n, k))), dtype));
}

/* ---- Range ---- */

/* max(ceil((limit - start) / delta), 0) of integer syms; 0 (none) when delta is not a plain one. */
static stator_ref range_count_sym(ox_node *n, stator_ref start, stator_ref limit, stator_ref delta)
{
    int64_t step;
    if (!ox_sym_const(n, delta, &step) || step == 0) {
        return 0;
    }
    const stator_ref span = step > 0 ? ox_sym_op(n, STATOR_SYM_SUB, limit, start)
                                     : ox_sym_op(n, STATOR_SYM_SUB, start, limit);
    const stator_ref count =
        ox_sym_op(n, STATOR_SYM_CEILDIV, span, ox_sym(n, step > 0 ? step : -step));
    return ox_sym_op(n, STATOR_SYM_MAX, count, ox_sym(n, 0));
}

/* The same while the program runs. */
static stator_ref range_count_run(ox_node *n, stator_ref start, stator_ref limit, stator_ref delta)
{
    const stator_ref zero = ox_int(n, 0);
    stator_ref count;
    if (ox_is_float(n, start)) {
        const stator_ref span =
            ox_sub(n, ox_cast(n, limit, STATOR_F64), ox_cast(n, start, STATOR_F64));
        const stator_ref steps = ox_div(n, span, ox_cast(n, delta, STATOR_F64));
        count = ox_cast(n, ox_un(n, "ceil", steps), STATOR_I64);
    } else { /* ceil(a / b) = -floor(-a / b); mod has the sign of b */
        const stator_ref d = ox_cast(n, delta, STATOR_I64);
        const stator_ref span =
            ox_sub(n, ox_cast(n, start, STATOR_I64), ox_cast(n, limit, STATOR_I64));
        const stator_ref whole = ox_sub(n, span, ox_bin(n, "mod", span, d));
        count = ox_un(n, "neg", ox_div(n, whole, d));
    }
    uint32_t one;
    const stator_ref *size = ox_sizes(n, ox_bin(n, "max", count, zero), &one, "the length");
    return size != NULL && one == 1 ? size[0] : 0;
}

static stator_ref range_count_float(ox_node *n, stator_ref v[3])
{
    double x[3];
    for (int i = 0; i < 3; i++) {
        uint32_t count;
        const double *list = ox_known_floats(n, v[i], &count);
        if (list == NULL || count != 1) {
            return 0;
        }
        x[i] = list[0];
    }
    const double steps = ceil((x[1] - x[0]) / x[2]);
    if (!(steps < 1e15)) {
        return ox_fail(n, STATOR_INVALID_ARGUMENT, "the range from %g to %g by %g is not finite",
                       x[0], x[1], x[2]);
    }
    return ox_sym(n, steps > 0 ? (int64_t)steps : 0);
}

void ox_range_op(ox_node *n)
{
    stator_ref v[3];
    stator_ref count = 0;
    for (uint32_t i = 0; i < 3; i++) {
        v[i] = ox_reshape(n, ox_need(n, i), 0, NULL);
    }
    const stator_dtype dtype = ox_dtype(n, v[0]);
    if (ox_is_float(n, v[0])) {
        count = range_count_float(n, v);
    } else {
        uint32_t one;
        const stator_ref *s = ox_known(n, v[0], &one);
        const stator_ref *l = ox_known(n, v[1], &one);
        const stator_ref *d = ox_known(n, v[2], &one);
        count = s != NULL && l != NULL && d != NULL ? range_count_sym(n, s[0], l[0], d[0]) : 0;
    }
    if (count == 0) {
        count = range_count_run(n, v[0], v[1], v[2]);
    }
    /* 16-bit floats are computed in f32 and rounded once (stash_type 1). */
    const stator_dtype wide = dtype == STATOR_F16 || dtype == STATOR_BF16 ? STATOR_F32 : dtype;
    const stator_ref i = ox_cast(n, ox_iota(n, STATOR_I64, 1, &count, 0), wide);
    const stator_ref y = ox_add(n, ox_mul(n, i, ox_cast(n, v[2], wide)), ox_cast(n, v[0], wide));
    ox_out(n, 0, ox_cast(n, y, dtype));
}

/* ---- Shape and Size ---- */

static uint32_t clamp_axis(int64_t axis, uint32_t rank)
{
    axis = st_normalize_axis(axis, rank);
    return axis < 0 ? 0 : axis > (int64_t)rank ? rank : (uint32_t)axis;
}

void ox_shape(ox_node *n)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = ox_dims(n, ox_need(n, 0), dims);
    const uint32_t start = clamp_axis(ox_attr_int(n, "start", 0), rank);
    const uint32_t end = clamp_axis(ox_attr_int(n, "end", rank), rank);
    ox_out(n, 0, ox_from_dims(n, end > start ? end - start : 0, dims + start));
}

void ox_size(ox_node *n)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = ox_dims(n, ox_need(n, 0), dims);
    ox_out(n, 0, ox_from_dim(n, ox_sym_prod(n, rank, dims)));
}
