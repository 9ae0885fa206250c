/* Pointwise operators that are more than a row of map.def: broadcasting of operator sets below 7,
 * mixed dtypes, optional bounds, folding of many operands. */
#include "frontends/onnx/onnx.h"

#include <string.h>

static const struct {
    const char *onnx;
    const char *op;
} BINARY[] = {
    {"Add", "add"},     {"And", "bit_and"}, {"Div", "div"}, {"Equal", "eq"},
    {"Greater", "gt"},  {"Less", "lt"},     {"Mul", "mul"}, {"Or", "bit_or"},
    {"PRelu", "prelu"}, {"Pow", "pow"},     {"Sub", "sub"}, {"Xor", "bit_xor"},
};

/* Operator sets below 7: b's shape is a run of a's axes, from `axis` or the last ones. */
static stator_ref legacy_broadcast(ox_node *n, stator_ref a, stator_ref b)
{
    const uint32_t a_rank = ox_rank(n, a);
    const uint32_t b_rank = ox_rank(n, b);
    if (!ox_ok(n) || b_rank >= a_rank || !ox_has_attr(n, "axis")) {
        return b;
    }
    const uint32_t axis = ox_axis(n, ox_attr_int(n, "axis", 0), a_rank);
    stator_ref own[STATOR_RANK_MAX];
    stator_ref dims[STATOR_RANK_MAX];
    ox_dims(n, b, own);
    if (!ox_ok(n) || axis + b_rank > a_rank) {
        return ox_fail(n, STATOR_INVALID_ARGUMENT,
                       "the second input does not fit at the given axis");
    }
    for (uint32_t i = axis; i < a_rank; i++) {
        dims[i - axis] = i - axis < b_rank ? own[i - axis] : ox_sym(n, 1);
    }
    return ox_reshape(n, b, a_rank - axis, dims);
}

/* The slope of operator sets below 7 may be one number a channel. */
static stator_ref legacy_slope(ox_node *n, stator_ref x, stator_ref slope)
{
    const uint32_t rank = ox_rank(n, x);
    if (ox_rank(n, slope) != 1 || rank < 2 || ox_sym_is(n, ox_dim(n, slope, 0), 1)) {
        return slope;
    }
    return ox_channels(n, slope, rank);
}

/* The result of Pow has the base's dtype; the arithmetic is done in the wider of the two. */
static stator_ref mixed_pow(ox_node *n, stator_ref x, stator_ref y)
{
    const stator_dtype base = ox_dtype(n, x);
    const stator_dtype exponent = ox_dtype(n, y);
    if (base == exponent) {
        return ox_bin(n, "pow", x, y);
    }
    stator_dtype wide = STATOR_I64;
    if (ox_is_float(n, x) || ox_is_float(n, y)) {
        const bool is_single = base == STATOR_F32 && exponent != STATOR_F64;
        wide = is_single ? STATOR_F32 : STATOR_F64;
    }
    return ox_cast(n, ox_bin(n, "pow", ox_cast(n, x, wide), ox_cast(n, y, wide)), base);
}

void ox_add_like(ox_node *n)
{
    const char *op = NULL;
    for (size_t i = 0; i < sizeof BINARY / sizeof BINARY[0]; i++) {
        op = strcmp(BINARY[i].onnx, n->row->name) == 0 ? BINARY[i].op : op;
    }
    const stator_ref x = ox_need(n, 0);
    stator_ref y = ox_need(n, 1);
    if (n->version < 7) {
        y = strcmp(op, "prelu") == 0 ? legacy_slope(n, x, y) : legacy_broadcast(n, x, y);
    }
    ox_out(n, 0, strcmp(op, "pow") == 0 ? mixed_pow(n, x, y) : ox_bin(n, op, x, y));
}

void ox_bit_shift(ox_node *n)
{
    const char *direction = ox_attr_str(n, "direction", "");
    const bool is_left = strcmp(direction, "LEFT") == 0;
    const stator_ref x = ox_need(n, 0);
    stator_ref y = ox_need(n, 1);
    OX_NEED(n, is_left || strcmp(direction, "RIGHT") == 0,
            "attribute 'direction' is '%s', expected LEFT or RIGHT", direction);
    if (!ox_is_unsigned(n, y)) { /* a negative amount counts as too many bits */
        const stator_ref is_negative = ox_bin(n, "lt", y, ox_like(n, y, 0));
        y = ox_select(n, is_negative, ox_like(n, y, st_dtype_bits(ox_dtype(n, x))), y);
    }
    ox_out(n, 0, ox_bin(n, is_left ? "shl" : "shr", x, y));
}

/* A bound given as an attribute (operator sets below 11), 0 when absent. */
static stator_ref bound_attr(ox_node *n, const char *name, stator_ref x)
{
    return ox_has_attr(n, name) ? ox_like(n, x, ox_attr_float(n, name, 0)) : 0;
}

void ox_clip(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    stator_ref lo = n->version < 11 ? bound_attr(n, "min", x) : ox_in(n, 1);
    stator_ref hi = n->version < 11 ? bound_attr(n, "max", x) : ox_in(n, 2);
    if (lo == 0 && hi == 0) {
        ox_out(n, 0, x);
        return;
    }
    lo = lo != 0 ? ox_reshape(n, lo, 0, NULL) : 0;
    hi = hi != 0 ? ox_reshape(n, hi, 0, NULL) : 0;
    ox_out(n, 0, ox_op(n, "clamp", STATOR_IN(x, lo, hi), STATOR_NONE));
}

void ox_identity(ox_node *n)
{
    ox_out(n, 0, ox_need(n, 0));
}

void ox_is_inf(ox_node *n)
{
    const int64_t positive = ox_attr_int(n, "detect_positive", 1);
    const int64_t negative = ox_attr_int(n, "detect_negative", 1);
    const stator_ref x = ox_need(n, 0);
    stator_ref y = ox_un(n, "is_inf", x);
    if (positive == 0) {
        y = ox_bin(n, "bit_and", y, ox_bin(n, "lt", x, ox_like(n, x, 0)));
    }
    if (negative == 0) {
        y = ox_bin(n, "bit_and", y, ox_bin(n, "gt", x, ox_like(n, x, 0)));
    }
    ox_out(n, 0, y);
}

void ox_variadic(ox_node *n)
{
    const char *name = n->row->name;
    const bool is_mean = strcmp(name, "Mean") == 0;
    const char *op = strcmp(name, "Max") == 0 ? "max" : strcmp(name, "Min") == 0 ? "min" : "add";
    stator_ref y = ox_need(n, 0);
    for (uint32_t i = 1; i < n->in_count; i++) {
        y = ox_bin(n, op, y, ox_need(n, i));
    }
    ox_out(n, 0, is_mean ? ox_div(n, y, ox_like(n, y, n->in_count)) : y);
}

void ox_mod(ox_node *n)
{
    const int64_t fmod = ox_attr_int(n, "fmod", 0);
    ox_out(n, 0, ox_bin(n, fmod != 0 ? "rem" : "mod", ox_need(n, 0), ox_need(n, 1)));
}
