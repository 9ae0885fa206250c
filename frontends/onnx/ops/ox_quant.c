/* Quantization. Granularities of QuantizeLinear and DequantizeLinear: one scale a tensor, one a
 * slice along an axis, or one a block. Integer products are exact in i32; the final scaling is
 * one product in f32, rounded to nearest even: what ONNX Runtime does, so that results agree to
 * the last quantum. */
#include "frontends/onnx/onnx.h"
#include "frontends/onnx/ops/ox_conv.h"

#include <math.h>

/* Repeats each entry of s `block` times along the axis and cuts to x's size. */
static stator_ref repeat_blocks(ox_node *n, stator_ref s, stator_ref x, uint32_t axis,
                                int64_t block)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = ox_dims(n, s, dims);
    const stator_ref size = ox_dim(n, x, axis);
    if (!ox_ok(n) || rank != ox_rank(n, x) || rank == STATOR_RANK_MAX) {
        return ox_fail(n, STATOR_INVALID_ARGUMENT, "blocked scales need the rank of the input");
    }
    stator_ref wide[STATOR_RANK_MAX + 1];
    const stator_ref between = ox_unsqueeze(n, s, axis + 1u);
    ox_dims(n, between, wide);
    wide[axis + 1u] = ox_sym(n, block);
    dims[axis] = ox_sym_op(n, STATOR_SYM_MUL, dims[axis], ox_sym(n, block));
    const stator_ref repeated = ox_reshape(n, ox_expand(n, between, rank + 1u, wide), rank, dims);
    return dims[axis] == size ? repeated : ox_slice(n, repeated, axis, ox_sym(n, 0), size, 1);
}

/* A scale or zero point in a shape that broadcasts to x. */
static stator_ref spread(ox_node *n, stator_ref s, stator_ref x)
{
    const uint32_t rank = ox_rank(n, x);
    const int64_t block = ox_attr_int(n, "block_size", 0);
    stator_ref dims[STATOR_RANK_MAX];
    if (s == 0 || !ox_ok(n) || ox_rank(n, s) == 0) {
        return s;
    }
    if (ox_rank(n, s) == 1 && (ox_sym_is(n, ox_dim(n, s, 0), 1) && block == 0)) {
        return ox_reshape(n, s, 0, NULL);
    }
    const int64_t given = ox_attr_int(n, "axis", 1);
    const uint32_t axis = rank == 1 ? 0 : ox_axis(n, given, rank);
    if (block != 0) {
        if (block < 0 || block > INT32_MAX) {
            return ox_fail(n, STATOR_INVALID_ARGUMENT, "attribute 'block_size' is %lld",
                           (long long)block);
        }
        return repeat_blocks(n, s, x, axis, block);
    }
    ox_check_rank(n, s, 1, 1, "the scale");
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = i == axis ? ox_dim(n, s, 0) : ox_sym(n, 1);
    }
    return ox_reshape(n, s, rank, dims);
}

static void int_range(stator_dtype dtype, double *lo, double *hi)
{
    const uint32_t bits = st_dtype_bits(dtype);
    const bool is_signed = st_dtype_class(dtype) == STATOR_CLASS_INT;
    *lo = is_signed ? -ldexp(1, (int)bits - 1) : 0;
    *hi = ldexp(1, (int)(is_signed ? bits - 1u : bits)) - 1;
}

/* saturate(round(x) + zero), x and zero in a float dtype. */
static stator_ref saturate(ox_node *n, stator_ref x, stator_ref zero, stator_dtype dtype)
{
    double lo;
    double hi;
    stator_ref y = ox_un(n, "round", x);
    y = zero != 0 ? ox_add(n, y, ox_cast(n, zero, ox_dtype(n, x))) : y;
    int_range(dtype, &lo, &hi);
    y = ox_op(n, "clamp", STATOR_IN(y, ox_like(n, y, lo), ox_like(n, y, hi)), STATOR_NONE);
    return ox_cast(n, y, dtype);
}

static stator_dtype target_dtype(ox_node *n, stator_ref zero)
{
    const int64_t given = ox_attr_int(n, "output_dtype", 0);
    if (given != 0) {
        return ox_dtype_of(n, given);
    }
    return zero != 0 ? ox_dtype(n, zero) : STATOR_U8;
}

void ox_quantize(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const stator_dtype dtype = target_dtype(n, ox_in(n, 2));
    const stator_ref scale = spread(n, ox_need(n, 1), x);
    const stator_ref zero = spread(n, ox_in(n, 2), x);
    const int64_t precision = ox_attr_int(n, "precision", 0);
    const stator_dtype wide = precision != 0 ? ox_dtype_of(n, precision) : ox_dtype(n, scale);
    const stator_ref q = ox_div(n, ox_cast(n, x, wide), ox_cast(n, scale, wide));
    if (st_dtype_class(dtype) == STATOR_CLASS_FLOAT) {
        ox_out(n, 0,
               ox_op(n, "cast", STATOR_IN(q),
                     STATOR_AT(STATOR_A_DTYPE("dtype", dtype),
                               STATOR_A_INT("saturate", ox_attr_int(n, "saturate", 1) != 0))));
        return;
    }
    const stator_dtype sum = wide == STATOR_F64 ? STATOR_F64 : STATOR_F32;
    ox_out(n, 0, saturate(n, ox_cast(n, q, sum), zero, dtype));
}

void ox_dequantize(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const stator_ref scale = spread(n, ox_need(n, 1), x);
    const stator_ref zero = spread(n, ox_in(n, 2), x);
    const int64_t given = ox_attr_int(n, "output_dtype", 0);
    const stator_dtype dtype = given != 0 ? ox_dtype_of(n, given) : ox_dtype(n, scale);
    const stator_dtype exact = ox_is_float(n, x) ? STATOR_F32 : STATOR_I32;
    stator_ref y = ox_cast(n, x, exact);
    y = zero != 0 ? ox_sub(n, y, ox_cast(n, zero, exact)) : y;
    ox_out(n, 0, ox_mul(n, ox_cast(n, y, dtype), ox_cast(n, scale, dtype)));
}

/* The least or greatest element: of each row first, so that rows can be done concurrently. */
static stator_ref extreme(ox_node *n, const char *op, stator_ref x)
{
    const uint32_t rank = ox_rank(n, x);
    int64_t axes[STATOR_RANK_MAX];
    for (uint32_t i = 0; i < rank; i++) {
        axes[i] = i;
    }
    if (rank < 2) {
        return ox_reduce(n, op, x, rank, axes, false);
    }
    return ox_reduce(n, op, ox_reduce(n, op, x, 1, axes + rank - 1u, false), rank - 1u, axes,
                     false);
}

void ox_dynamic_quantize(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const stator_ref zero = ox_like(n, x, 0);
    const stator_ref lo = ox_bin(n, "min", extreme(n, "reduce_min", x), zero);
    const stator_ref hi = ox_bin(n, "max", extreme(n, "reduce_max", x), zero);
    const stator_ref scale = ox_div(n, ox_sub(n, hi, lo), ox_like(n, x, 255));
    /* An input of zeros has scale 0; it quantizes to the zero point. */
    const stator_ref divisor = ox_select(n, ox_bin(n, "eq", scale, zero), ox_like(n, x, 1), scale);
    const stator_ref point = saturate(n, ox_div(n, ox_un(n, "neg", lo), divisor), 0, STATOR_U8);
    ox_out(n, 0, saturate(n, ox_div(n, x, divisor), point, STATOR_U8));
    ox_out(n, 1, scale);
    ox_out(n, 2, point);
}

/* x - zero in i32; a zero point with more than one entry belongs to the given axis of x. */
static stator_ref centred(ox_node *n, stator_ref x, stator_ref zero, int64_t axis)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = ox_rank(n, x);
    const stator_ref wide = ox_cast(n, x, STATOR_I32);
    if (zero == 0 || !ox_ok(n)) {
        return wide;
    }
    if (ox_rank(n, zero) == 1 && rank > 1) {
        const uint32_t at = ox_axis(n, axis, rank);
        for (uint32_t i = 0; i < rank; i++) {
            dims[i] = i == at ? ox_dim(n, zero, 0) : ox_sym(n, 1);
        }
        zero = ox_sym_is(n, ox_dim(n, zero, 0), 1) ? ox_reshape(n, zero, 0, NULL)
                                                   : ox_reshape(n, zero, rank, dims);
    }
    return ox_sub(n, wide, ox_cast(n, zero, STATOR_I32));
}

void ox_matmul_integer(ox_node *n)
{
    const stator_ref a = centred(n, ox_need(n, 0), ox_in(n, 2), -2);
    const stator_ref b = centred(n, ox_need(n, 1), ox_in(n, 3), -1);
    ox_out(n, 0, ox_matmul(n, a, b));
}

void ox_conv_integer(ox_node *n)
{
    const stator_ref x = centred(n, ox_need(n, 0), ox_in(n, 2), 1);
    const stator_ref w = centred(n, ox_need(n, 1), ox_in(n, 3), 0);
    ox_out(n, 0, ox_conv_node(n, x, w, 0));
}

/* A scale as f32 with its entries on the given axis of a result of `rank`. */
static stator_ref scale_on(ox_node *n, stator_ref s, uint32_t rank, int64_t axis)
{
    stator_ref dims[STATOR_RANK_MAX];
    if (!ox_ok(n) || ox_rank(n, s) != 1 || rank < 2) {
        return ox_cast(n, s, STATOR_F32);
    }
    const uint32_t at = ox_axis(n, axis, rank);
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = i == at ? ox_dim(n, s, 0) : ox_sym(n, 1);
    }
    return ox_cast(n, ox_reshape(n, s, rank, dims), STATOR_F32);
}

/* saturate(round(acc * (sa * sb / sy)) + zero) */
static stator_ref requantize(ox_node *n, stator_ref acc, stator_ref sa, stator_ref sb,
                             stator_ref sy, stator_ref zero)
{
    const stator_ref factor = ox_div(n, ox_mul(n, sa, sb), sy);
    const stator_ref y = ox_mul(n, ox_cast(n, acc, STATOR_F32), factor);
    return saturate(n, y, zero, ox_dtype(n, zero));
}

void ox_qlinear_matmul(ox_node *n)
{
    const stator_ref a = centred(n, ox_need(n, 0), ox_need(n, 2), -2);
    const stator_ref b = centred(n, ox_need(n, 3), ox_need(n, 5), -1);
    const stator_ref acc = ox_matmul(n, a, b);
    const uint32_t rank = ox_rank(n, acc);
    const stator_ref sa = scale_on(n, ox_need(n, 1), rank, -2);
    const stator_ref sb = scale_on(n, ox_need(n, 4), rank, -1);
    const stator_ref sy = scale_on(n, ox_need(n, 6), rank, -2);
    ox_out(n, 0, requantize(n, acc, sa, sb, sy, ox_need(n, 7)));
}

void ox_qlinear_conv(ox_node *n)
{
    const stator_ref x = centred(n, ox_need(n, 0), ox_need(n, 2), 1);
    const stator_ref w = centred(n, ox_need(n, 3), ox_need(n, 5), 0);
    const stator_ref acc = ox_conv_node(n, x, w, ox_in(n, 8));
    const uint32_t rank = ox_rank(n, acc);
    const stator_ref sx = scale_on(n, ox_need(n, 1), rank, 1);
    const stator_ref sw = scale_on(n, ox_need(n, 4), rank, 1);
    const stator_ref sy = scale_on(n, ox_need(n, 6), rank, 1);
    ox_out(n, 0, requantize(n, acc, sx, sw, sy, ox_need(n, 7)));
}
