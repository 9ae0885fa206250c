/* One random node, or a few that belong together. Each maker picks operands that fit, makes inputs
 * where none does, and gives 0 when nothing fitted. */
#include "gf_make.h"

#include <inttypes.h>
#include <string.h>

#define N(list) ((int64_t)(sizeof(list) / sizeof((list)[0])))

/* ---- pointwise ---- */

int gf_make_unary(gf_program *p)
{
    static const char *const exact[] = {"neg",   "abs",   "sign",  "ceil",
                                        "floor", "round", "trunc", "relu"};
    static const char *const functions[] = {
        "exp",  "exp2", "expm1", "log",  "log2", "log1p", "sqrt",  "rsqrt", "sin",   "cos",  "tan",
        "atan", "asin", "acos",  "sinh", "cosh", "tanh",  "asinh", "erf",   "acosh", "atanh"};
    static const char *const composites[] = {
        "sigmoid",    "silu",     "gelu", "elu",        "selu",         "softplus",  "mish",
        "hard_swish", "softsign", "celu", "leaky_relu", "hard_sigmoid", "reciprocal"};
    const int v = gf_pick(p, gf_is_number, 0);
    if (v < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, v);
    const int kind = gf_is_int(t.dtype) ? 0 : (int)gf_below(p, 3);
    const char *op = kind == 0   ? exact[gf_below(p, N(exact))]
                     : kind == 1 ? functions[gf_below(p, N(functions))]
                                 : composites[gf_below(p, N(composites))];
    if (gf_node_add(p, op, 1, &v, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_set_noise(p, kind == 0 ? GF_EXACT : kind == 1 ? GF_FUNCTION : GF_COMPOSITE, 1);
    return 1;
}

static int make_predicate(gf_program *p)
{
    static const char *const ops[] = {"is_nan", "is_inf", "is_finite"};
    const int v = gf_pick(p, gf_is_float, 0);
    if (v < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, v);
    return gf_node_add(p, ops[gf_below(p, 3)], 1, &v, STATOR_BOOL, t.rank, t.dims) >= 0;
}

/* v with 0 for -0: which of them is the smaller one is anyone's choice. */
static int positive_zero(gf_program *p, int v)
{
    const gf_value t = gf_type_of(p, v);
    const int args[2] = {v, gf_scalar(p, t.dtype, 0)};
    return gf_node_add(p, "add", 2, args, t.dtype, t.rank, t.dims);
}

int gf_make_binary(gf_program *p)
{
    static const char *const floats[] = {"add", "sub", "mul", "div", "min",
                                         "max", "mod", "rem", "pow", "atan2"};
    static const char *const ints[] = {"add", "sub",     "mul",    "div",     "min", "max", "mod",
                                       "rem", "bit_and", "bit_or", "bit_xor", "shl", "shr", "pow"};
    static const char *const bools[] = {"bit_and", "bit_or", "bit_xor"};
    int args[2] = {gf_pick(p, gf_is_any, 0), -1};
    if (args[0] < 0 || (args[1] = gf_partner(p, args[0])) < 0) {
        return 0;
    }
    const uint8_t dtype = p->values[args[0]].dtype;
    const char *op = gf_is_float(dtype)
                         ? floats[gf_chance(p, 80) ? gf_below(p, 6) : gf_below(p, N(floats))]
                     : gf_is_int(dtype) ? ints[gf_below(p, N(ints))]
                                        : bools[gf_below(p, 3)];
    gf_dim dims[GF_RANK] = {{0, 0, 0}};
    const int rank = gf_broadcast(p, args, 2, dims);
    if (gf_chance(p, 50)) {
        const int swap = args[0];
        args[0] = args[1];
        args[1] = swap;
    }
    for (int k = 0; k < 2 && strcmp(op, "atan2") == 0; k++) {
        args[k] = positive_zero(p, args[k]);
    }
    if (gf_node_add(p, op, 2, args, dtype, rank, dims) < 0) {
        return 0;
    }
    const int is_function = strcmp(op, "pow") == 0 || strcmp(op, "atan2") == 0;
    gf_set_noise(p, is_function && gf_is_float(dtype) ? GF_FUNCTION : GF_EXACT, 1);
    return 1;
}

static int make_compare(gf_program *p)
{
    static const char *const ops[] = {"lt", "le", "gt", "ge", "eq", "ne"};
    int args[2] = {gf_pick(p, gf_is_number, 0), -1};
    gf_dim dims[GF_RANK] = {{0, 0, 0}};
    if (args[0] < 0 || (args[1] = gf_partner(p, args[0])) < 0) {
        return 0;
    }
    /* Whether what is rounded equals a number tells nothing. */
    const int is_exact = gf_is_int(p->values[args[0]].dtype) ||
                         (p->values[args[0]].is_input && p->values[args[1]].is_input);
    const int rank = gf_broadcast(p, args, 2, dims);
    return gf_node_add(p, ops[gf_below(p, is_exact ? 6 : 4)], 2, args, STATOR_BOOL, rank, dims) >=
           0;
}

static int make_select(gf_program *p)
{
    int args[3] = {gf_pick(p, gf_is_bool, 0), -1, -1};
    gf_dim dims[GF_RANK] = {{0, 0, 0}};
    if (args[0] < 0) {
        return 0;
    }
    const gf_value c = gf_type_of(p, args[0]);
    static const uint8_t dtypes[] = {STATOR_F32, STATOR_F16, STATOR_I32, STATOR_I64, STATOR_F64};
    args[1] = gf_input(p, dtypes[gf_below(p, N(dtypes))], c.rank, c.dims);
    if (args[1] < 0 || (args[2] = gf_partner(p, args[1])) < 0) {
        return 0;
    }
    const uint8_t dtype = p->values[args[1]].dtype;
    const int rank = gf_broadcast(p, args, 3, dims);
    return gf_node_add(p, "select", 3, args, dtype, rank, dims) >= 0;
}

/* Float to integer is unspecified out of range, so it is clamped, and NaN replaced, before. */
static int make_cast(gf_program *p)
{
    static const uint8_t dtypes[] = {STATOR_F32,  STATOR_F16, STATOR_BF16, STATOR_F64,
                                     STATOR_I32,  STATOR_I64, STATOR_I8,   STATOR_U8,
                                     STATOR_BOOL, STATOR_U32, STATOR_I16};
    int v = gf_pick(p, gf_is_any, 0);
    const uint8_t to = dtypes[gf_below(p, N(dtypes))];
    if (v < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, v);
    if (gf_is_float(t.dtype) && gf_is_int(to)) {
        const int finite = gf_node_add(p, "is_finite", 1, &v, STATOR_BOOL, t.rank, t.dims);
        const int zero = gf_scalar(p, t.dtype, 0);
        const int sel[3] = {finite, v, zero};
        const int number = gf_node_add(p, "select", 3, sel, t.dtype, t.rank, t.dims);
        const int hi[2] = {number, gf_scalar(p, t.dtype, 100)};
        const int low = gf_node_add(p, "min", 2, hi, t.dtype, t.rank, t.dims);
        const int lo[2] = {low, gf_scalar(p, t.dtype, to >= STATOR_U8 ? 0 : -100)};
        v = gf_node_add(p, "max", 2, lo, t.dtype, t.rank, t.dims);
    }
    if (v < 0 || gf_node_add(p, "cast", 1, &v, to, t.rank, t.dims) < 0) {
        return 0;
    }
    static const char *const names[] = {"f32", "f16", "bf16", "f64", "i32", "i64",
                                        "i8",  "u8",  "bool", "u32", "i16"};
    for (int k = 0; k < N(dtypes); k++) {
        if (dtypes[k] == to) {
            gf_attrs(p, "dtype = %s", names[k]);
        }
    }
    return 1;
}

/* ---- folds ---- */

static int make_reduce(gf_program *p)
{
    static const char *const ops[] = {"reduce_sum",     "reduce_sum",        "reduce_max",
                                      "reduce_min",     "reduce_prod",       "reduce_mean",
                                      "reduce_l2",      "reduce_sum_square", "reduce_l1",
                                      "reduce_log_sum", "reduce_log_sum_exp"};
    int v = gf_pick(p, gf_is_number, 1);
    if (v < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, v);
    const int op = (int)gf_below(p, gf_is_float(t.dtype) ? N(ops) : 5);
    v = op == 6 || op == 7 ? gf_modest_of(p, v) : v;
    const int keeps = gf_chance(p, 50);
    int64_t axes[GF_RANK];
    gf_dim dims[GF_RANK] = {{0, 0, 0}};
    int n = 0;
    int rank = 0;
    int64_t folded = 1;
    const int first = gf_pick_axis(p, &t);
    for (int a = 0; a < t.rank; a++) {
        if (a == first || gf_chance(p, 30)) {
            axes[n++] = a;
            folded *= gf_size(p, t.dims[a]);
            if (keeps) {
                dims[rank++] = gf_const(1);
            }
        } else {
            dims[rank++] = t.dims[a];
        }
    }
    char text[GF_ATTRS];
    if (gf_node_add(p, ops[op], 1, &v, t.dtype, rank, dims) < 0) {
        return 0;
    }
    gf_attrs(p, "axes = %s, keepdims = %d", gf_ints(axes, n, text), keeps);
    gf_set_noise(p, op == 2 || op == 3 ? GF_EXACT : op >= 9 ? GF_COMPOSITE : GF_FOLD, folded);
    return 1;
}

static int make_arg(gf_program *p)
{
    const int v = gf_pick(p, gf_is_number, 1);
    if (v < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, v);
    const int axis = gf_pick_axis(p, &t);
    const int keeps = gf_chance(p, 50);
    gf_dim dims[GF_RANK] = {{0, 0, 0}};
    int rank = 0;
    if (gf_size(p, t.dims[axis]) == 0) {
        return 0;
    }
    for (int a = 0; a < t.rank; a++) {
        if (a != axis || keeps) {
            dims[rank++] = a == axis ? gf_const(1) : t.dims[a];
        }
    }
    if (gf_node_add(p, gf_chance(p, 50) ? "argmax" : "argmin", 1, &v, STATOR_I64, rank, dims) < 0) {
        return 0;
    }
    gf_attrs(p, "axis = %d, keepdims = %d, select_last = %d", axis, keeps, gf_chance(p, 30));
    return 1;
}

static int make_scan(gf_program *p)
{
    const int v = gf_pick(p, gf_is_number, 1);
    if (v < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, v);
    const int axis = gf_pick_axis(p, &t);
    if (gf_node_add(p, gf_chance(p, 70) ? "cumsum" : "cumprod", 1, &v, t.dtype, t.rank, t.dims) <
        0) {
        return 0;
    }
    gf_attrs(p, "axis = %d, exclusive = %d, reverse = %d", axis, gf_chance(p, 30),
             gf_chance(p, 30));
    gf_set_noise(p, GF_FOLD, gf_size(p, t.dims[axis]));
    return 1;
}

static int make_order(gf_program *p)
{
    const int v = gf_pick(p, gf_is_number, 1);
    if (v < 0) {
        return 0;
    }
    gf_value t = gf_type_of(p, v);
    const int axis = gf_pick_axis(p, &t);
    const int is_sort = gf_chance(p, 40);
    const int64_t k = gf_has_symbol(t.dims[axis]) ? 0 : gf_below(p, t.dims[axis].c + 1);
    if (!is_sort && gf_has_symbol(t.dims[axis])) {
        return 0;
    }
    t.dims[axis] = is_sort ? t.dims[axis] : gf_const(k);
    if (gf_node_add(p, is_sort ? "sort" : "topk", 1, &v, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    if (is_sort) {
        gf_attrs(p, "axis = %d, descending = %d", axis, gf_chance(p, 50));
    } else {
        gf_attrs(p, "k = [%" PRId64 "], axis = %d, largest = %d", k, axis, gf_chance(p, 50));
    }
    return gf_result_add(p, STATOR_I64, t.rank, t.dims) >= 0;
}

static int make_norm(gf_program *p)
{
    static const char *const ops[] = {"softmax", "log_softmax", "layer_norm", "rms_norm"};
    const int v = gf_modest_of(p, gf_pick(p, gf_is_float, 1));
    if (v < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, v);
    const int op = (int)gf_below(p, N(ops));
    const int axis = op < 2 ? gf_pick_axis(p, &t) : t.rank - 1;
    if (op == 2 && gf_size(p, t.dims[axis]) == 2) {
        return 0; /* always +-1: no noise of its operand shows what the mean's rounding does */
    }
    if (gf_node_add(p, ops[op], 1, &v, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_attrs(p, "axis = %d", axis);
    gf_set_noise(p, GF_COMPOSITE, gf_size(p, t.dims[axis]));
    return 1;
}

int gf_make_dot(gf_program *p)
{
    int args[2] = {gf_pick(p, gf_is_float, 2), -1};
    if (args[0] < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, args[0]);
    static const int64_t sizes[] = {1, 2, 5, 8, 17, 33};
    gf_dim dims[GF_RANK] = {{0, 0, 0}};
    const int keeps_batch = gf_chance(p, 50);
    int rank = 0;
    for (int a = 0; keeps_batch && a < t.rank - 2; a++) {
        dims[rank++] = t.dims[a];
    }
    dims[rank++] = t.dims[t.rank - 1];
    dims[rank++] = gf_const(sizes[gf_below(p, N(sizes))]);
    args[1] = gf_weights(p, t.dtype, rank, dims);
    gf_dim out[GF_RANK];
    memcpy(out, t.dims, sizeof out);
    out[t.rank - 1] = dims[rank - 1];
    if (gf_node_add(p, "matmul", 2, args, t.dtype, t.rank, out) < 0) {
        return 0;
    }
    gf_set_noise(p, GF_FOLD, gf_size(p, t.dims[t.rank - 1]));
    return 1;
}

static int make_window(gf_program *p)
{
    static const char *const kinds[] = {"sum", "max", "min"};
    const int v = gf_pick(p, gf_is_float, 2);
    if (v < 0) {
        return 0;
    }
    gf_value t = gf_type_of(p, v);
    const int axis = t.rank - 1;
    const int64_t k = 1 + gf_below(p, 3);
    const int64_t pad = gf_below(p, k);
    const int64_t stride = 1 + gf_below(p, 2);
    if (gf_has_symbol(t.dims[axis]) || t.dims[axis].c + 2 * pad < k) {
        return 0;
    }
    t.dims[axis] = gf_const((t.dims[axis].c + 2 * pad - k) / stride + 1);
    const int kind = (int)gf_below(p, 3);
    if (gf_node_add(p, "reduce_window", 1, &v, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_attrs(p,
             "kind = \"%s\", window = [%" PRId64 "], strides = [%" PRId64 "], pads = [%" PRId64
             ", %" PRId64 "], dilations = [1]",
             kinds[kind], k, stride, pad, pad);
    gf_set_noise(p, kind ? GF_EXACT : GF_FOLD, k);
    return 1;
}

int gf_make_conv(gf_program *p)
{
    int args[2] = {gf_pick(p, gf_is_float, 3), -1};
    if (args[0] < 0 || p->values[args[0]].rank > 4) {
        return 0;
    }
    const gf_value t = gf_type_of(p, args[0]);
    if (p->specials && (t.dtype <= STATOR_F16 || p->is_large)) {
        return 0; /* oneDNN multiplies what stands behind an odd number of channels by 0, and
                     Winograd spreads over a tile */
    }
    if (t.dtype <= STATOR_F16 && !p->values[args[0]].is_input) {
        args[0] = gf_finite_of(p, args[0]); /* numbers that became infinite, or 0/0 */
    }
    const int n = t.rank - 2;
    const int64_t groups =
        !gf_has_symbol(t.dims[1]) && t.dims[1].c == 4 && gf_chance(p, 50) ? 2 : 1;
    if (gf_has_symbol(t.dims[1]) || t.dims[1].c == 0) {
        return 0;
    }
    gf_dim w[GF_RANK] = {gf_const(groups * (1 + gf_below(p, 5))), gf_const(t.dims[1].c / groups)};
    gf_dim out[GF_RANK] = {t.dims[0], w[0]};
    int64_t pads[2 * GF_RANK];
    int64_t strides[GF_RANK];
    int64_t folded = w[1].c;
    for (int a = 0; a < n; a++) {
        const int64_t k = 1 + gf_below(p, 3);
        const gf_dim d = t.dims[2 + a];
        pads[a] = pads[n + a] = gf_below(p, k);
        strides[a] = gf_has_symbol(d) ? 1 : 1 + gf_below(p, 2);
        w[2 + a] = gf_const(k);
        folded *= k;
        if (gf_size(p, d) + 2 * pads[a] < k || (gf_has_symbol(d) && 2 * pads[a] + 1 < k)) {
            return 0;
        }
        out[2 + a] = gf_has_symbol(d) ? (gf_dim){d.c + 2 * pads[a] - k + 1, d.a, d.b}
                                      : gf_const((d.c + 2 * pads[a] - k) / strides[a] + 1);
    }
    char a_text[GF_ATTRS];
    char b_text[GF_ATTRS];
    char c_text[GF_ATTRS];
    static const int64_t ones[GF_RANK] = {1, 1, 1, 1, 1};
    args[1] = gf_weights(p, t.dtype, t.rank, w);
    if (gf_node_add(p, "conv", 2, args, t.dtype, t.rank, out) < 0) {
        return 0;
    }
    gf_attrs(p, "strides = %s, pads = %s, dilations = %s, groups = %" PRId64,
             gf_ints(strides, n, a_text), gf_ints(pads, 2 * n, b_text), gf_ints(ones, n, c_text),
             groups);
    gf_set_noise(p, GF_FOLD, folded);
    return 1;
}

/* ---- movement ---- */

int gf_make_reshape(gf_program *p)
{
    const int v = gf_pick(p, gf_is_any, 1);
    if (v < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, v);
    gf_dim dims[GF_RANK] = {{0, 0, 0}};
    int rank = 0;
    const int at = gf_pick_axis(p, &t);
    const int kind = (int)gf_below(p, 3);
    for (int a = 0; a < t.rank; a++) {
        const gf_dim d = t.dims[a];
        if (kind == 0 && a == at && a + 1 < t.rank &&
            (!gf_has_symbol(d) || !gf_has_symbol(t.dims[a + 1]))) { /* two become one */
            const gf_dim e = t.dims[a + 1];
            dims[rank++] = gf_has_symbol(d) ? (gf_dim){d.c * e.c, d.a * e.c, d.b * e.c}
                                            : (gf_dim){e.c * d.c, e.a * d.c, e.b * d.c};
            a++;
        } else if (kind == 1 && a == at && !gf_has_symbol(d) && d.c > 0 && d.c % 2 == 0 &&
                   t.rank < GF_RANK) {
            dims[rank++] = gf_const(2);
            dims[rank++] = gf_const(d.c / 2);
        } else if (kind == 2 && a == at && t.rank < GF_RANK) {
            dims[rank++] = gf_const(1);
            dims[rank++] = d;
        } else if (!gf_is_const(d, 1) || gf_chance(p, 70)) {
            dims[rank++] = d;
        }
    }
    char text[GF_ATTRS];
    if (gf_node_add(p, "reshape", 1, &v, t.dtype, rank, dims) < 0) {
        return 0;
    }
    gf_attrs(p, "shape = %s", gf_list(dims, rank, text));
    return 1;
}

int gf_make_transpose(gf_program *p)
{
    const int v = gf_pick(p, gf_is_any, 2);
    if (v < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, v);
    int64_t perm[GF_RANK];
    gf_dim dims[GF_RANK] = {{0, 0, 0}};
    for (int a = 0; a < t.rank; a++) {
        perm[a] = a;
    }
    for (int a = t.rank - 1; a > 0; a--) {
        const int b = (int)gf_below(p, a + 1);
        const int64_t swap = perm[a];
        perm[a] = perm[b];
        perm[b] = swap;
    }
    for (int a = 0; a < t.rank; a++) {
        dims[a] = t.dims[perm[a]];
    }
    char text[GF_ATTRS];
    if (gf_node_add(p, "transpose", 1, &v, t.dtype, t.rank, dims) < 0) {
        return 0;
    }
    gf_attrs(p, "perm = %s", gf_ints(perm, t.rank, text));
    return 1;
}

static int make_expand(gf_program *p)
{
    const int v = gf_pick(p, gf_is_any, 0);
    if (v < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, v);
    static const int64_t sizes[] = {0, 1, 2, 3, 5};
    gf_dim dims[GF_RANK] = {{0, 0, 0}};
    const int front = t.rank < GF_RANK && gf_chance(p, 60);
    if (front) {
        dims[0] = gf_chance(p, 30) && p->is_used[0] ? (gf_dim){0, 1, 0}
                                                    : gf_const(sizes[gf_below(p, N(sizes))]);
    }
    for (int a = 0; a < t.rank; a++) {
        dims[front + a] = gf_is_const(t.dims[a], 1) ? gf_const(1 + gf_below(p, 4)) : t.dims[a];
    }
    char text[GF_ATTRS];
    if (gf_node_add(p, "expand", 1, &v, t.dtype, t.rank + front, dims) < 0) {
        return 0;
    }
    gf_attrs(p, "shape = %s", gf_list(dims, t.rank + front, text));
    return 1;
}

int gf_make_slice(gf_program *p)
{
    const int v = gf_pick(p, gf_is_any, 1);
    if (v < 0) {
        return 0;
    }
    gf_value t = gf_type_of(p, v);
    gf_dim starts[GF_RANK];
    int64_t steps[GF_RANK];
    for (int a = 0; a < t.rank; a++) {
        const gf_dim d = t.dims[a];
        starts[a] = gf_const(0);
        steps[a] = 1;
        if (gf_has_symbol(d) && gf_chance(p, 40)) { /* backwards */
            starts[a] = (gf_dim){d.c - 1, d.a, d.b};
            steps[a] = -1;
        } else if (!gf_has_symbol(d) && d.c > 0 && gf_chance(p, 70)) {
            const int64_t step = 1 + gf_below(p, 3);
            const int64_t size = gf_below(p, (d.c + step - 1) / step + 1);
            const int64_t span = size > 0 ? (size - 1) * step + 1 : 0;
            const int64_t start = gf_below(p, d.c - span + 1);
            const int backwards = size > 0 && gf_chance(p, 30);
            starts[a] = gf_const(backwards ? start + span - 1 : start);
            steps[a] = backwards ? -step : step;
            t.dims[a] = gf_const(size);
        }
    }
    char x[GF_ATTRS];
    char y[GF_ATTRS];
    char z[GF_ATTRS];
    if (gf_node_add(p, "slice", 1, &v, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_attrs(p, "starts = %s, sizes = %s, steps = %s", gf_list(starts, t.rank, x),
             gf_list(t.dims, t.rank, y), gf_ints(steps, t.rank, z));
    return 1;
}

static int make_concat(gf_program *p)
{
    int args[3] = {gf_pick(p, gf_is_any, 1), -1, -1};
    if (args[0] < 0) {
        return 0;
    }
    gf_value t = gf_type_of(p, args[0]);
    const int axis = gf_pick_axis(p, &t);
    const int n = 2 + gf_chance(p, 30);
    for (int k = 1; k < n; k++) {
        gf_value o = t;
        o.dims[axis] = gf_const(gf_below(p, 5));
        args[k] = gf_chance(p, 30) ? args[0] : gf_input(p, t.dtype, t.rank, o.dims);
        if (args[k] < 0) {
            return 0;
        }
    }
    gf_dim sum = {0, 0, 0};
    for (int k = 0; k < n; k++) {
        const gf_dim d = p->values[args[k]].dims[axis];
        sum = (gf_dim){sum.c + d.c, sum.a + d.a, sum.b + d.b};
    }
    t.dims[axis] = sum;
    if (gf_node_add(p, "concat", n, args, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_attrs(p, "axis = %d", axis);
    return 1;
}

static int make_pad(gf_program *p)
{
    static const char *const modes[] = {"constant", "constant", "edge", "reflect", "wrap"};
    int args[2] = {gf_pick(p, gf_is_any, 1), -1};
    if (args[0] < 0) {
        return 0;
    }
    gf_value t = gf_type_of(p, args[0]);
    const int mode = (int)gf_below(p, N(modes));
    int64_t low[GF_RANK];
    int64_t high[GF_RANK];
    for (int a = 0; a < t.rank; a++) {
        const gf_dim d = t.dims[a];
        const int may = gf_chance(p, 60) && (mode < 2 || (!gf_has_symbol(d) && d.c >= 3));
        low[a] = may ? gf_below(p, 3) : 0;
        high[a] = may ? gf_below(p, 3) : 0;
        t.dims[a] = (gf_dim){d.c + low[a] + high[a], d.a, d.b};
    }
    const int has_value = mode < 2 && gf_chance(p, 50);
    args[1] = has_value ? gf_scalar(p, t.dtype, 1) : -1;
    char x[GF_ATTRS];
    char y[GF_ATTRS];
    if (gf_node_add(p, "pad", 1 + has_value, args, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_attrs(p, "low = %s, high = %s, mode = \"%s\"", gf_ints(low, t.rank, x),
             gf_ints(high, t.rank, y), modes[mode]);
    return 1;
}

/* ---- indirect ---- */

static int make_gather(gf_program *p)
{
    int args[2] = {gf_pick(p, gf_is_any, 1), -1};
    if (args[0] < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, args[0]);
    const int axis = gf_pick_axis(p, &t);
    const gf_dim some[2] = {gf_const(1 + gf_below(p, 4)), gf_const(gf_below(p, 4))};
    const int n = (int)gf_below(p, 3);
    gf_dim dims[2 * GF_RANK] = {{0, 0, 0}};
    int rank = 0;
    if (gf_size(p, t.dims[axis]) == 0 || t.rank - 1 + n > GF_RANK) {
        return 0;
    }
    for (int a = 0; a < t.rank; a++) {
        for (int k = 0; a == axis && k < n; k++) {
            dims[rank++] = some[k];
        }
        if (a != axis) {
            dims[rank++] = t.dims[a];
        }
    }
    args[1] = gf_index_input(p, n, some, t.dims[axis]);
    if (gf_node_add(p, "gather", 2, args, t.dtype, rank, dims) < 0) {
        return 0;
    }
    gf_attrs(p, "axis = %d", axis);
    return 1;
}

static int make_gather_elements(gf_program *p)
{
    int args[2] = {gf_pick(p, gf_is_any, 1), -1};
    if (args[0] < 0) {
        return 0;
    }
    gf_value t = gf_type_of(p, args[0]);
    const int axis = gf_pick_axis(p, &t);
    const gf_dim below = t.dims[axis];
    if (gf_size(p, below) == 0) {
        return 0;
    }
    t.dims[axis] = gf_const(gf_below(p, 6));
    args[1] = gf_index_input(p, t.rank, t.dims, below);
    if (gf_node_add(p, "gather_elements", 2, args, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_attrs(p, "axis = %d", axis);
    return 1;
}

static int make_scatter(gf_program *p)
{
    static const char *const reductions[] = {"none", "add", "mul", "min", "max"};
    int args[3] = {gf_pick(p, gf_is_number, 1), -1, -1};
    if (args[0] < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, args[0]);
    gf_value u = t;
    const int axis = gf_pick_axis(p, &t);
    const gf_dim below = t.dims[axis];
    if (gf_size(p, below) == 0) {
        return 0;
    }
    u.dims[axis] = gf_const(gf_below(p, 7));
    args[1] = gf_index_input(p, t.rank, u.dims, below);
    args[2] = gf_input(p, t.dtype, t.rank, u.dims);
    if (gf_node_add(p, "scatter_elements", 3, args, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_attrs(p, "axis = %d, reduction = \"%s\"", axis, reductions[gf_below(p, 5)]);
    return 1;
}

static int make_scatter_nd(gf_program *p)
{
    static const char *const reductions[] = {"none", "add", "max"};
    int args[3] = {gf_pick(p, gf_is_number, 1), -1, -1};
    if (args[0] < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, args[0]);
    const gf_dim index[2] = {gf_const(gf_below(p, 5)), gf_const(1)};
    gf_dim updates[GF_RANK] = {index[0]};
    if (gf_size(p, t.dims[0]) == 0) {
        return 0;
    }
    for (int a = 1; a < t.rank; a++) {
        updates[a] = t.dims[a];
    }
    args[1] = gf_index_input(p, 2, index, t.dims[0]);
    args[2] = gf_input(p, t.dtype, t.rank, updates);
    if (gf_node_add(p, "scatter_nd", 3, args, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_attrs(p, "reduction = \"%s\"", reductions[gf_below(p, 3)]);
    return 1;
}

static int make_iota(gf_program *p)
{
    const int v = gf_pick(p, gf_is_any, 1);
    if (v < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, v);
    char text[GF_ATTRS];
    const int is_f = gf_chance(p, 50);
    if (gf_node_add(p, "iota", 0, NULL, is_f ? STATOR_F32 : STATOR_I32, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_attrs(p, "shape = %s, axis = %d, dtype = %s", gf_list(t.dims, t.rank, text),
             gf_pick_axis(p, &t), is_f ? "f32" : "i32");
    return 1;
}

/* A contraction, or what moves its result or works on its elements; on the newest value mostly. */
static int lengthen(gf_program *p)
{
    static const gf_maker makers[] = {gf_make_dot,       gf_make_dot,       gf_make_dot,
                                      gf_make_conv,      gf_make_conv,      gf_make_conv,
                                      gf_make_einsum,    gf_make_einsum,    gf_make_conv_transpose,
                                      gf_make_binary,    gf_make_binary,    gf_make_binary,
                                      gf_make_binary,    gf_make_binary,    gf_make_binary,
                                      gf_make_unary,     gf_make_unary,     gf_make_unary,
                                      gf_make_unary,     gf_make_transpose, gf_make_transpose,
                                      gf_make_transpose, gf_make_transpose, gf_make_reshape,
                                      gf_make_reshape,   gf_make_slice,     make_concat,
                                      make_cast,         make_reduce,       make_norm,
                                      gf_make_binary,    make_pad,          gf_make_heads,
                                      gf_make_quantised};
    const int newest = p->n_values - 1;
    const int is_made = gf_is_float(p->values[newest].dtype) && p->values[newest].node >= 0;
    p->next = is_made && gf_chance(p, 75) ? newest + 1 : 0;
    return makers[gf_below(p, N(makers))](p);
}

static int grow(gf_program *p)
{
    if (p->chains && gf_chance(p, 92)) {
        return lengthen(p);
    }
    static const gf_maker makers[] = {
        gf_make_unary,        gf_make_unary,   gf_make_unary,   gf_make_binary,
        gf_make_binary,       gf_make_binary,  gf_make_binary,  make_compare,
        make_select,          make_cast,       make_cast,       make_reduce,
        make_reduce,          make_reduce,     make_arg,        make_scan,
        make_order,           make_norm,       gf_make_dot,     make_window,
        gf_make_conv,         gf_make_reshape, gf_make_reshape, gf_make_transpose,
        gf_make_transpose,    make_expand,     gf_make_slice,   gf_make_slice,
        make_concat,          make_concat,     make_pad,        make_gather,
        make_gather_elements, make_scatter,    make_scatter_nd, make_iota,
        make_predicate};
    static const gf_maker larger[] = {gf_make_quantised, gf_make_quantised, gf_make_dynamic,
                                      gf_make_control,   gf_make_control,   gf_make_control,
                                      gf_make_recurrent, gf_make_recurrent, gf_make_heads,
                                      gf_make_heads,     gf_make_spelled};
    if (gf_chance(p, 14)) {
        return larger[gf_below(p, N(larger))](p);
    }
    if (gf_chance(p, 30)) {
        return gf_composites[gf_below(p, gf_composite_count)](p);
    }
    return makers[gf_below(p, N(makers))](p);
}

int gf_grow(gf_program *p)
{
    const int made = grow(p);
    p->next = 0; /* a maker may give up before it picks */
    return made;
}
