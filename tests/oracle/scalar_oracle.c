/* Scalar instructions for one element; see the header. Where ir/ops.def leaves a choice (the
 * sign of a zero that min gives, conversions out of range) this is what plugins/eager does. */
#define _DEFAULT_SOURCE /* lgamma_r: lgamma writes a global */
#include "tests/oracle/scalar_oracle.h"

#include "core/base/check.h"
#include "core/base/convert.h"
#include <math.h>
#include <string.h>

/* ---- cells ---- */

static int is_float(uint32_t dtype)
{
    return dtype == STATOR_F32 || dtype == STATOR_F64;
}

static int is_unsigned(uint32_t dtype)
{
    return (st_loop_class_of(dtype) & (ST_LOOP_UINTS | ST_LOOP_BOOLS)) != 0;
}

/* The low bits of an integer dtype, extended by its signedness. */
static st_loop_cell extended(uint32_t dtype, uint64_t value)
{
    const uint32_t unused = 64u - st_dtype_bits(dtype);
    st_loop_cell cell = {.u = value << unused};
    if (is_unsigned(dtype)) {
        cell.u >>= unused;
    } else {
        cell.i >>= unused;
    }
    return cell;
}

st_loop_cell st_loop_cell_int(uint32_t dtype, int64_t value)
{
    if (dtype == STATOR_BOOL) {
        return (st_loop_cell){.i = value != 0};
    }
    return extended(dtype, (uint64_t)value);
}

st_loop_cell st_loop_cell_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (st_loop_cell){.u = bits};
}

float st_loop_f32_of(st_loop_cell cell)
{
    const uint32_t bits = (uint32_t)cell.u;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static st_loop_cell float_cell(uint32_t dtype, double value)
{
    return dtype == STATOR_F32 ? st_loop_cell_f32((float)value) : (st_loop_cell){.f64 = value};
}

st_loop_cell st_loop_cell_imm(uint32_t dtype, st_loop_imm imm)
{
    return is_float(dtype) ? float_cell(dtype, imm.f) : st_loop_cell_int(dtype, imm.i);
}

st_loop_cell st_loop_cell_load(uint32_t dtype, const void *base, int64_t i)
{
    uint8_t byte;
    uint16_t half;
    uint32_t word;
    uint64_t wide;
    if (st_loop_loaded(dtype) != dtype) {
        return st_loop_cell_int(st_loop_loaded(dtype), st_load_i64(dtype, base, i));
    }
    const char *at = (const char *)base + i * (int64_t)(st_dtype_bits(dtype) / 8u);
    switch (st_dtype_bits(dtype)) {
    case 8:
        memcpy(&byte, at, sizeof byte);
        wide = dtype == STATOR_BOOL ? byte != 0 : byte;
        break;
    case 16:
        memcpy(&half, at, sizeof half);
        wide = half;
        break;
    case 32:
        memcpy(&word, at, sizeof word);
        wide = word;
        break;
    default:
        memcpy(&wide, at, sizeof wide);
        break;
    }
    return st_loop_class_of(dtype) == ST_LOOP_INTS ? extended(dtype, wide)
                                                   : (st_loop_cell){.u = wide};
}

void st_loop_cell_store(uint32_t dtype, void *base, int64_t i, st_loop_cell cell)
{
    const uint8_t byte = (uint8_t)cell.u;
    const uint16_t half = (uint16_t)cell.u;
    const uint32_t word = (uint32_t)cell.u;
    char *at = (char *)base + i * (int64_t)(st_dtype_bits(dtype) / 8u);
    switch (st_dtype_bits(dtype)) {
    case 8:
        memcpy(at, &byte, sizeof byte);
        break;
    case 16:
        memcpy(at, &half, sizeof half);
        break;
    case 32:
        memcpy(at, &word, sizeof word);
        break;
    default:
        memcpy(at, &cell.u, sizeof cell.u);
        break;
    }
}

/* ---- conversions ---- */

static double to_f64(uint32_t dtype, st_loop_cell x)
{
    switch (st_loop_class_of(dtype)) {
    case ST_LOOP_BOOLS:
    case ST_LOOP_UINTS:
        return (double)x.u;
    case ST_LOOP_INTS:
        return (double)x.i;
    default:
        return st_load_f64(dtype, &x, 0); /* little endian: the bits lie first */
    }
}

static st_loop_cell narrow_float(uint32_t dtype, double value, int saturate)
{
    st_loop_cell cell = {.u = 0};
    if (dtype == STATOR_F8E4M3FN) {
        cell.u = st_f64_to_f8e4m3fn(value, saturate);
    } else if (dtype == STATOR_F8E5M2) {
        cell.u = st_f64_to_f8e5m2(value, saturate);
    } else {
        st_store_f64(dtype, &cell, 0, value);
    }
    return cell;
}

static st_loop_cell cast(const st_loop_inst *inst, uint32_t from, st_loop_cell x)
{
    const uint32_t floats = ST_LOOP_FLOATS | ST_LOOP_STORAGE;
    const int from_float = (st_loop_class_of(from) & floats) != 0;
    if (!(st_loop_class_of(inst->dtype) & floats)) {
        if (!from_float) {
            return st_loop_cell_int(inst->dtype, x.i);
        }
        st_loop_cell cell = {.u = 0};
        st_store_f64(inst->dtype, &cell, 0, to_f64(from, x));
        return st_loop_cell_load(inst->dtype, &cell, 0);
    }
    if (inst->dtype == STATOR_F32 && !from_float) { /* once, not through f64 */
        return st_loop_cell_f32(is_unsigned(from) ? (float)x.u : (float)x.i);
    }
    if (inst->dtype == from) {
        return x;
    }
    return is_float(inst->dtype) ? float_cell(inst->dtype, to_f64(from, x))
                                 : narrow_float(inst->dtype, to_f64(from, x), inst->imm.i == 0);
}

/* ---- integers ---- */

static uint64_t quotient(uint32_t dtype, st_loop_cell x, st_loop_cell y)
{
    if (y.u == 0) {
        return 0;
    }
    if (is_unsigned(dtype)) {
        return x.u / y.u;
    }
    return y.i == -1 ? 0 - x.u : (uint64_t)(x.i / y.i);
}

/* x <=> y as -1, 0, 1. */
static int compared(uint32_t dtype, st_loop_cell x, st_loop_cell y)
{
    return is_unsigned(dtype) ? (x.u > y.u) - (x.u < y.u) : (x.i > y.i) - (x.i < y.i);
}

static uint64_t shifted(uint32_t dtype, uint32_t code, st_loop_cell x, st_loop_cell y)
{
    const uint64_t by = y.u & (st_dtype_bits(dtype) - 1u);
    if (code == ST_LOOP_shift_left) {
        return x.u << by;
    }
    return is_unsigned(dtype) ? x.u >> by : (uint64_t)(x.i >> by);
}

/* y outside 0 .. width - 1 gives what is left when every bit has gone. */
static uint64_t shifted_far(uint32_t dtype, uint32_t code, st_loop_cell x, st_loop_cell y)
{
    if (y.u < st_dtype_bits(dtype)) {
        return shifted(dtype, code == ST_LOOP_shl ? ST_LOOP_shift_left : ST_LOOP_shift_right, x, y);
    }
    return code == ST_LOOP_shr && x.i < 0 && !is_unsigned(dtype) ? UINT64_MAX : 0;
}

static uint64_t remainder_of(uint32_t dtype, uint32_t code, st_loop_cell x, st_loop_cell y)
{
    const uint64_t r = y.u == 0 ? 0 : x.u - quotient(dtype, x, y) * y.u;
    const int other_sign = ((int64_t)r < 0) != (y.i < 0);
    return code == ST_LOOP_mod && r != 0 && !is_unsigned(dtype) && other_sign ? r + y.u : r;
}

/* Wrapping; a negative exponent truncates, 0 to one gives 0. */
static uint64_t power(uint32_t dtype, st_loop_cell x, st_loop_cell y)
{
    uint64_t base = x.u;
    uint64_t result = 1;
    if (y.i < 0 && !is_unsigned(dtype)) {
        const int is_unit = x.i == 1 || x.i == -1;
        return !is_unit ? 0 : (y.u & 1u) ? x.u : 1;
    }
    for (uint64_t n = y.u; n; n >>= 1) {
        result *= n & 1u ? base : 1;
        base *= base;
    }
    return result;
}

/* A dispatch switch over the instructions that integers and bool have. */
static uint64_t integer(uint32_t code, uint32_t dtype, const st_loop_cell x[3])
{
    switch (code) {
    case ST_LOOP_neg:
        return 0 - x[0].u;
    case ST_LOOP_abs:
        return x[0].i < 0 && !is_unsigned(dtype) ? 0 - x[0].u : x[0].u;
    case ST_LOOP_sign:
        return (uint64_t)(int64_t)compared(dtype, x[0], (st_loop_cell){.i = 0});
    case ST_LOOP_add:
        return x[0].u + x[1].u;
    case ST_LOOP_sub:
        return x[0].u - x[1].u;
    case ST_LOOP_mul:
        return x[0].u * x[1].u;
    case ST_LOOP_quot:
    case ST_LOOP_div:
        return quotient(dtype, x[0], x[1]);
    case ST_LOOP_rem:
    case ST_LOOP_mod:
        return remainder_of(dtype, code, x[0], x[1]);
    case ST_LOOP_pow:
        return power(dtype, x[0], x[1]);
    case ST_LOOP_min:
        return compared(dtype, x[0], x[1]) < 0 ? x[0].u : x[1].u;
    case ST_LOOP_max:
        return compared(dtype, x[0], x[1]) > 0 ? x[0].u : x[1].u;
    case ST_LOOP_bit_not:
        return dtype == STATOR_BOOL ? !x[0].u : ~x[0].u;
    case ST_LOOP_bit_and:
        return x[0].u & x[1].u;
    case ST_LOOP_bit_or:
        return x[0].u | x[1].u;
    case ST_LOOP_bit_xor:
        return x[0].u ^ x[1].u;
    case ST_LOOP_shift_left:
    case ST_LOOP_shift_right:
        return shifted(dtype, code, x[0], x[1]);
    case ST_LOOP_shl:
    case ST_LOOP_shr:
        return shifted_far(dtype, code, x[0], x[1]);
    default: /* ceil, floor, round, trunc */
        return x[0].u;
    }
}

/* ---- floats ---- */

static double floor_fmod(double a, double b)
{
    const double r = fmod(a, b);
    if (r == 0) {
        return copysign(0.0, b);
    }
    return (r < 0) != (b < 0) ? r + b : r;
}

static double log_gamma(double a)
{
    int sign;
    return lgamma_r(a, &sign);
}

/* A dispatch switch over the functions of one and two f64. */
static double function(uint32_t code, double a, double b)
{
    /* clang-format off */
    switch (code) {
    case ST_LOOP_rem: return fmod(a, b);
    case ST_LOOP_mod: return floor_fmod(a, b);
    case ST_LOOP_ldexp: return ldexp(a, (int)st_f64_to_i32(b));
    case ST_LOOP_rsqrt: return 1 / sqrt(a);
    case ST_LOOP_sigmoid: return (a < 0 ? exp(a) : 1) / (1 + exp(-fabs(a)));
    case ST_LOOP_exp: return exp(a);
    case ST_LOOP_exp2: return exp2(a);
    case ST_LOOP_expm1: return expm1(a);
    case ST_LOOP_log: return log(a);
    case ST_LOOP_log2: return log2(a);
    case ST_LOOP_log1p: return log1p(a);
    case ST_LOOP_sin: return sin(a);
    case ST_LOOP_cos: return cos(a);
    case ST_LOOP_tan: return tan(a);
    case ST_LOOP_asin: return asin(a);
    case ST_LOOP_acos: return acos(a);
    case ST_LOOP_atan: return atan(a);
    case ST_LOOP_sinh: return sinh(a);
    case ST_LOOP_cosh: return cosh(a);
    case ST_LOOP_tanh: return tanh(a);
    case ST_LOOP_asinh: return asinh(a);
    case ST_LOOP_acosh: return acosh(a);
    case ST_LOOP_atanh: return atanh(a);
    case ST_LOOP_erf:
    case ST_LOOP_erf_fast: return erf(a);
    case ST_LOOP_gelu: return 0.5 * a * erfc(-a * 0.70710678118654752440);
    case ST_LOOP_lgamma: return log_gamma(a);
    case ST_LOOP_pow: return pow(a, b);
    case ST_LOOP_atan2: return atan2(a, b);
    default: return NAN; /* an instruction that this file does not know: tests walk the table */
    }
    /* clang-format on */
}

/* The instructions that are exact or rounded once in the type itself: 1 and the value, else 0. */
#define EXACT(name, T, F)                                                                          \
    static int name(uint32_t code, T a, T b, T c, T *out)                                          \
    {                                                                                              \
        switch (code) {                                                                            \
        case ST_LOOP_neg:                                                                          \
            *out = -a;                                                                             \
            return 1;                                                                              \
        case ST_LOOP_abs:                                                                          \
            *out = fabs##F(a);                                                                     \
            return 1;                                                                              \
        case ST_LOOP_sign:                                                                         \
            *out = a > 0 ? 1 : a < 0 ? -1 : a;                                                     \
            return 1;                                                                              \
        case ST_LOOP_ceil:                                                                         \
            *out = ceil##F(a);                                                                     \
            return 1;                                                                              \
        case ST_LOOP_floor:                                                                        \
            *out = floor##F(a);                                                                    \
            return 1;                                                                              \
        case ST_LOOP_round:                                                                        \
            *out = rint##F(a);                                                                     \
            return 1;                                                                              \
        case ST_LOOP_trunc:                                                                        \
            *out = trunc##F(a);                                                                    \
            return 1;                                                                              \
        case ST_LOOP_add:                                                                          \
            *out = a + b;                                                                          \
            return 1;                                                                              \
        case ST_LOOP_sub:                                                                          \
            *out = a - b;                                                                          \
            return 1;                                                                              \
        case ST_LOOP_mul:                                                                          \
            *out = a * b;                                                                          \
            return 1;                                                                              \
        case ST_LOOP_div:                                                                          \
            *out = a / b;                                                                          \
            return 1;                                                                              \
        case ST_LOOP_fma:                                                                          \
            *out = fma##F(a, b, c);                                                                \
            return 1;                                                                              \
        case ST_LOOP_sqrt:                                                                         \
            *out = sqrt##F(a);                                                                     \
            return 1;                                                                              \
        case ST_LOOP_min:                                                                          \
            *out = a < b || a != a ? a : b;                                                        \
            return 1;                                                                              \
        case ST_LOOP_max:                                                                          \
            *out = a > b || a != a ? a : b;                                                        \
            return 1;                                                                              \
        default:                                                                                   \
            return 0;                                                                              \
        }                                                                                          \
    }
EXACT(exact_f32, float, f)
EXACT(exact_f64, double, )
#undef EXACT

static st_loop_cell lookup(uint32_t dtype, int64_t table, st_loop_cell x)
{
    const float entry = st_loop_tables[table][x.u % ST_MATH_ENTRIES];
    return float_cell(dtype, (double)entry);
}

static st_loop_cell float_op(uint32_t code, uint32_t dtype, const st_loop_cell x[3])
{
    float narrow = 0;
    double wide = 0;
    if (dtype == STATOR_F32 && exact_f32(code, st_loop_f32_of(x[0]), st_loop_f32_of(x[1]),
                                         st_loop_f32_of(x[2]), &narrow)) {
        return st_loop_cell_f32(narrow);
    }
    if (dtype == STATOR_F64 && exact_f64(code, x[0].f64, x[1].f64, x[2].f64, &wide)) {
        return (st_loop_cell){.f64 = wide};
    }
    return float_cell(dtype, function(code, to_f64(dtype, x[0]), to_f64(dtype, x[1])));
}

/* ---- predicates ---- */

static int float_predicate(uint32_t code, double a, double b)
{
    switch (code) {
    case ST_LOOP_eq:
        return a == b;
    case ST_LOOP_ne:
        return a != b;
    case ST_LOOP_lt:
        return a < b;
    case ST_LOOP_le:
        return a <= b;
    case ST_LOOP_gt:
        return a > b;
    case ST_LOOP_ge:
        return a >= b;
    case ST_LOOP_is_nan:
        return a != a;
    case ST_LOOP_is_inf:
        return fabs(a) == INFINITY;
    default:
        return fabs(a) < INFINITY;
    }
}

static int predicate(uint32_t code, uint32_t dtype, const st_loop_cell x[3])
{
    if (is_float(dtype)) {
        return float_predicate(code, to_f64(dtype, x[0]), to_f64(dtype, x[1]));
    }
    return float_predicate(code, (double)compared(dtype, x[0], x[1]), 0);
}

st_loop_cell st_loop_scalar(const st_loop_inst *inst, uint32_t from, const st_loop_cell x[3])
{
    switch (inst->code) {
    case ST_LOOP_select:
        return x[0].i ? x[1] : x[2];
    case ST_LOOP_lookup:
        return lookup(from, inst->imm.i, x[0]);
    case ST_LOOP_cast:
        return cast(inst, from, x[0]);
    case ST_LOOP_bitcast:
        return st_loop_cell_load(inst->dtype, &x[0], 0);
    default:
        break;
    }
    if (st_loop_desc(inst->code)->result == ST_LOOP_BOOL) {
        return (st_loop_cell){.i = predicate(inst->code, from, x)};
    }
    return is_float(inst->dtype) ? float_op(inst->code, inst->dtype, x)
                                 : extended(inst->dtype, integer(inst->code, inst->dtype, x));
}

/* ---- accumulators ---- */

/* The greatest value, or the least. */
static st_loop_cell extreme(uint32_t dtype, int greatest)
{
    const uint32_t bits = st_dtype_bits(dtype);
    if (is_float(dtype)) {
        return float_cell(dtype, greatest ? INFINITY : -INFINITY);
    }
    if (dtype == STATOR_BOOL) {
        return (st_loop_cell){.i = greatest};
    }
    if (is_unsigned(dtype)) {
        return extended(dtype, greatest ? UINT64_MAX : 0);
    }
    const uint64_t least = UINT64_C(1) << (bits - 1u);
    return extended(dtype, greatest ? least - 1u : least);
}

st_loop_cell st_loop_identity(uint32_t kind, uint32_t dtype)
{
    switch (kind) {
    case ST_ACC_PROD:
        return is_float(dtype) ? float_cell(dtype, 1) : (st_loop_cell){.i = 1};
    case ST_ACC_MIN:
    case ST_ACC_ARGMIN:
        return extreme(dtype, 1);
    case ST_ACC_MAX:
    case ST_ACC_ARGMAX:
        return extreme(dtype, 0);
    case ST_ACC_ALL:
        return (st_loop_cell){.i = 1};
    default:
        return (st_loop_cell){.i = 0};
    }
}

st_loop_cell st_loop_combine(uint32_t kind, uint32_t dtype, st_loop_cell a, st_loop_cell b)
{
    static const uint16_t codes[] = {
        [ST_ACC_SUM] = ST_LOOP_add, [ST_ACC_PROD] = ST_LOOP_mul,   [ST_ACC_MIN] = ST_LOOP_min,
        [ST_ACC_MAX] = ST_LOOP_max, [ST_ACC_ANY] = ST_LOOP_bit_or, [ST_ACC_ALL] = ST_LOOP_bit_and,
    };
    const st_loop_cell x[3] = {a, b, {.i = 0}};
    if (kind == ST_ACC_LAST) {
        return b;
    }
    const st_loop_inst inst = {.code = codes[kind], .dtype = (uint8_t)dtype};
    return st_loop_scalar(&inst, dtype, x);
}

int st_loop_is_better(uint32_t kind, uint32_t dtype, st_loop_cell x, int64_t i, st_loop_cell best,
                      int64_t at)
{
    if (!is_float(dtype)) {
        const int order = compared(dtype, x, best);
        return order == 0 ? i < at : (order < 0) == (kind == ST_ACC_ARGMIN);
    }
    const double a = to_f64(dtype, x);
    const double b = to_f64(dtype, best);
    if (a != a || b != b) {
        return b == b || (a != a && i < at);
    }
    return a == b ? i < at : (a < b) == (kind == ST_ACC_ARGMIN);
}
