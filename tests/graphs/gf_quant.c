/* Weights of contractions, and chains of bytes as quantised models write them: quantised and
 * dequantised around contractions, pools and movement; dynamic quantisation. */
#include "gf_make.h"

#include "core/base/check.h"

#include <stdio.h>

#define N(list) ((int64_t)(sizeof(list) / sizeof((list)[0])))
#define CONSTANT_MAX 250 /* elements that an attribute has room for */

/* ---- weights ---- */

/* Quarters between -4 and 4, or small integers. */
static int constant(gf_program *p, uint8_t dtype, int rank, const gf_dim *dims)
{
    int is_known = 1;
    for (int a = 0; a < rank; a++) {
        is_known &= !gf_has_symbol(dims[a]);
    }
    const int v = is_known ? gf_node_add(p, "constant", 0, NULL, dtype, rank, dims) : -1;
    if (v < 0) {
        return -1;
    }
    const gf_value t = gf_type_of(p, v);
    char *out = gf_newest(p)->attrs;
    char sizes[GF_ATTRS];
    size_t len = (size_t)snprintf(out, GF_LONG, "value = %s%s {", st_dtype_name(dtype),
                                  gf_list(dims, rank, sizes));
    for (int64_t i = 0; i < gf_numel(p, &t); i++) {
        const double x =
            (double)(gf_below(p, 33) - (gf_is_float(dtype) || dtype == STATOR_I8 ? 16 : 0));
        len += (size_t)snprintf(out + len, GF_LONG - len, "%s%g", i ? ", " : "",
                                gf_is_float(dtype) ? x / 4 : x);
    }
    (void)snprintf(out + len, GF_LONG - len, "}");
    return v;
}

static int constant_or_input(gf_program *p, uint8_t dtype, int rank, const gf_dim *dims)
{
    int64_t numel = 1;
    for (int a = 0; a < rank; a++) {
        numel *= dims[a].c;
    }
    const int v = numel <= CONSTANT_MAX && gf_chance(p, 50) ? constant(p, dtype, rank, dims) : -1;
    return v >= 0 ? v : gf_input(p, dtype, rank, dims);
}

static int cast(gf_program *p, int v, uint8_t dtype)
{
    if (v < 0) {
        return -1;
    }
    const gf_value t = gf_type_of(p, v);
    const int out = gf_node_add(p, "cast", 1, &v, dtype, t.rank, t.dims);
    if (out >= 0) {
        gf_attrs(p, "dtype = %s", st_dtype_name(dtype));
    }
    return out;
}

/* Of two that broadcast to the first one's shape. */
static int with(gf_program *p, const char *op, int x, int y)
{
    const int args[2] = {x, y};
    if (x < 0 || y < 0) {
        return -1;
    }
    const gf_value t = gf_type_of(p, x);
    return gf_node_add(p, op, 2, args, t.dtype, t.rank, t.dims);
}

static int of(gf_program *p, const char *op, int x)
{
    if (x < 0) {
        return -1;
    }
    const gf_value t = gf_type_of(p, x);
    return gf_node_add(p, op, 1, &x, t.dtype, t.rank, t.dims);
}

static int64_t zero_point(gf_program *p, uint8_t dtype)
{
    static const int64_t points[] = {0, 0, 3, 128, 255};
    return points[gf_below(p, N(points))] - (dtype == STATOR_I8 ? 128 : 0);
}

/* Bytes as i32, less a zero point. */
static int centred(gf_program *p, int bytes, int64_t zero)
{
    const uint8_t dtype = bytes >= 0 ? p->values[bytes].dtype : STATOR_I8;
    const int wide = cast(p, bytes, STATOR_I32);
    if (zero == 0 && gf_chance(p, 50)) {
        return wide;
    }
    return with(p, "sub", wide,
                gf_chance(p, 50) ? gf_scalar(p, STATOR_I32, (double)zero)
                                 : cast(p, gf_scalar(p, dtype, (double)zero), STATOR_I32));
}

static int scale_of(gf_program *p)
{
    static const double scales[] = {0.5, 0.25, 0.0625, 0.1, 0.037};
    return gf_scalar(p, STATOR_F32, scales[gf_below(p, N(scales))]);
}

/* One factor for all, or one a row or column of weights. Finite, as weights are. */
static int scale_of_weights(gf_program *p, int rank, const gf_dim *dims)
{
    gf_dim sizes[GF_RANK];
    const int axis = rank > 2 ? 0 : rank - 1;
    if (rank == 0 || gf_has_symbol(dims[axis]) || gf_chance(p, 50)) {
        return scale_of(p);
    }
    for (int a = 0; a < rank; a++) {
        sizes[a] = a == axis ? dims[a] : gf_const(1);
    }
    return p->specials ? constant(p, STATOR_F32, rank, sizes)
                       : constant_or_input(p, STATOR_F32, rank, sizes);
}

int gf_weights(gf_program *p, uint8_t dtype, int rank, const gf_dim *dims)
{
    const int is_bytes = p->bytes && (dtype == STATOR_F32 || dtype == STATOR_I32);
    if (!is_bytes) {
        return gf_is_float(dtype) ? constant_or_input(p, dtype, rank, dims)
                                  : gf_input(p, dtype, rank, dims);
    }
    const uint8_t narrow = gf_chance(p, 80) ? STATOR_I8 : STATOR_U8;
    const int bytes = constant_or_input(p, narrow, rank, dims);
    const int wide = centred(p, bytes, gf_chance(p, 70) ? 0 : zero_point(p, narrow));
    return dtype == STATOR_I32
               ? wide
               : with(p, "mul", cast(p, wide, STATOR_F32), scale_of_weights(p, rank, dims));
}

/* ---- chains ---- */

typedef struct bytes {
    int value;
    int scale;
    int64_t zero;
} bytes;

/* round(x / scale) + zero, within the range of bytes. x is no NaN: what that becomes is anyone's
 * choice. */
static int saturated(gf_program *p, int x, int scale, int zero, uint8_t dtype)
{
    int y = of(p, "round", with(p, "div", x, scale));
    y = zero >= 0 ? with(p, "add", y, zero) : y;
    const int args[3] = {y, gf_scalar(p, STATOR_F32, dtype == STATOR_I8 ? -128 : 0),
                         gf_scalar(p, STATOR_F32, dtype == STATOR_I8 ? 127 : 255)};
    if (y < 0) {
        return -1;
    }
    const gf_value t = gf_type_of(p, y);
    return cast(p, gf_node_add(p, "clamp", 3, args, STATOR_F32, t.rank, t.dims), dtype);
}

static bytes quantised(gf_program *p, int x, int is_guarded)
{
    x = x >= 0 && is_guarded ? gf_finite_of(p, x) : x;
    const uint8_t dtype = gf_chance(p, 60) ? STATOR_U8 : STATOR_I8;
    bytes b = {-1, scale_of(p), zero_point(p, dtype)};
    const int zero = b.zero ? gf_scalar(p, STATOR_F32, (double)b.zero) : -1;
    b.value = saturated(p, x, b.scale, zero, dtype);
    return b;
}

static int dequantised(gf_program *p, bytes b)
{
    return with(p, "mul", cast(p, centred(p, b.value, b.zero), STATOR_F32), b.scale);
}

/* The newest value, if such a maker made one of v. */
static int made_of(gf_program *p, gf_maker make, int v)
{
    p->next = v + 1;
    const int ok = v >= 0 && make(p);
    p->next = 0;
    return ok ? gf_newest(p)->first : -1;
}

static int fresh(gf_program *p)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 17};
    const int rank = gf_chance(p, 60) ? 4 : 2 + (int)gf_below(p, 2);
    gf_dim dims[GF_RANK];
    for (int a = 0; a < rank; a++) {
        dims[a] = gf_const(sizes[gf_below(p, a == 0 ? 3 : N(sizes))]);
    }
    if (p->is_used[0] && gf_chance(p, 40)) {
        dims[0] = (gf_dim){0, 1, 0};
    }
    return gf_input(p, STATOR_F32, rank, dims);
}

/* What a network of bytes has between quantising and quantising again. */
static int layer(gf_program *p, int x)
{
    static const gf_maker makers[] = {gf_make_conv, gf_make_conv, gf_make_dot, gf_make_pool,
                                      gf_make_conv_transpose};
    int y = made_of(p, makers[gf_below(p, N(makers))], x);
    if (y >= 0 && gf_chance(p, 30)) {
        const int partner = gf_partner(p, y);
        const gf_value t = gf_type_of(p, y);
        const gf_dim *dims = partner >= 0 ? p->values[partner].dims : NULL;
        int fits = partner >= 0 && p->values[partner].rank <= t.rank;
        for (int a = 0; fits && a < p->values[partner].rank; a++) {
            fits = gf_is_const(dims[a], 1) ||
                   gf_same_dim(dims[a], t.dims[t.rank - p->values[partner].rank + a]);
        }
        y = fits ? with(p, "add", y, partner) : y;
        y = fits && y >= 0 && !p->values[partner].is_input ? gf_finite_of(p, y) : y;
    }
    return y >= 0 && gf_chance(p, 40) ? of(p, "relu", y) : y;
}

int gf_make_quantised(gf_program *p)
{
    static const gf_maker moves[] = {gf_make_reshape, gf_make_transpose, gf_make_slice,
                                     gf_make_max_pool};
    const int is_guarded = gf_chance(p, 30);
    int v = is_guarded ? gf_pick(p, gf_is_float, 2) : fresh(p);
    if (v < 0 || p->values[v].dtype != STATOR_F32) {
        return 0;
    }
    p->bytes = 1;
    const int n = 1 + (int)gf_below(p, 3);
    for (int k = 0; v >= 0 && k < n; k++) {
        bytes b = quantised(p, v, is_guarded || p->specials);
        if (b.value >= 0 && gf_chance(p, 30)) {
            const int moved = made_of(p, moves[gf_below(p, N(moves))], b.value);
            b.value = moved >= 0 ? moved : b.value;
        }
        v = dequantised(p, b);
        const int y = layer(p, v);
        v = y >= 0 ? y : v;
    }
    if (v >= 0 && gf_chance(p, 50)) {
        v = quantised(p, v, is_guarded || p->specials).value;
    }
    p->bytes = 0;
    return v >= 0;
}

/* ---- dynamic quantisation ---- */

static int extreme(gf_program *p, const char *op, int x)
{
    const gf_value t = gf_type_of(p, x);
    int64_t axes[GF_RANK];
    char text[GF_ATTRS];
    for (int a = 0; a < t.rank; a++) {
        axes[a] = a;
    }
    const int y = gf_node_add(p, op, 1, &x, STATOR_F32, 0, NULL);
    if (y >= 0) {
        gf_attrs(p, "axes = %s, keepdims = 0", gf_ints(axes, t.rank, text));
    }
    return y;
}

/* The range of x decides on its scale and zero point; sums of bytes are scaled by both scales. */
int gf_make_dynamic(gf_program *p)
{
    const int is_guarded = gf_chance(p, 50);
    int x = is_guarded ? gf_pick(p, gf_is_float, 2) : fresh(p);
    if (x < 0 || p->values[x].dtype != STATOR_F32 || gf_numel(p, &p->values[x]) == 0) {
        return 0;
    }
    x = is_guarded || p->specials ? gf_finite_of(p, x) : x;
    const int zero = gf_scalar(p, STATOR_F32, 0);
    if (x < 0 || zero < 0) {
        return 0;
    }
    const int low = with(p, "min", extreme(p, "reduce_min", x), zero);
    const int high = with(p, "max", extreme(p, "reduce_max", x), zero);
    const int scale = with(p, "div", with(p, "sub", high, low), gf_scalar(p, STATOR_F32, 255));
    const int sel[3] = {
        scale < 0 ? -1 : gf_node_add(p, "eq", 2, (const int[2]){scale, zero}, STATOR_BOOL, 0, NULL),
        gf_scalar(p, STATOR_F32, 1), scale};
    const int divisor = gf_node_add(p, "select", 3, sel, STATOR_F32, 0, NULL);
    const int point = saturated(p, of(p, "neg", low), divisor, -1, STATOR_U8);
    const int q = saturated(p, x, divisor, cast(p, point, STATOR_F32), STATOR_U8);
    const int wide = with(p, "sub", cast(p, q, STATOR_I32), cast(p, point, STATOR_I32));
    p->bytes = 1;
    const int sums = made_of(p, gf_chance(p, 60) ? gf_make_dot : gf_make_conv, wide);
    p->bytes = 0;
    const int y = cast(p, sums >= 0 ? sums : wide, STATOR_F32);
    return with(p, "mul", y, with(p, "mul", scale, scale_of(p))) >= 0;
}
