/* Reads off a kernel what happens between a contraction's sum and its store, as the entries of an
 * epilogue (codegen/target/library.h).
 *
 *     acc -> mul by a number or a factor -> add a bias -> gelu, relu, ...  ->  store
 *
 * In: a matcher whose kernel has one store, one sum and one read of it, and whose feature axis
 * is known. Out: contraction.epilogue, first things first. The walk goes from the store
 * backwards. What is no epilogue is refused, and the kernel stays loops. */
#include "codegen/match/matcher.h"
#include "codegen/match/quantized_values.h"

#include <math.h>

#define SQRT_HALF 0.70710678118654752

/* This number and no other: 1.000001 + erf(t) is far from 1 + erf(t) where the two cancel. */
static bool is_number(const cg_matcher *m, st_loop_ref ref, double value)
{
    const st_loop_inst *inst = cg_inst_at(m, ref);
    return inst->code == ST_LOOP_CONST && inst->imm.f == value;
}

/* A number that f32 does not have: it, or the one before or behind, as texts of 8 digits may be. */
static bool is_rounded(const cg_matcher *m, st_loop_ref ref, double value)
{
    const st_loop_inst *inst = cg_inst_at(m, ref);
    const float wanted = (float)value;
    const float number = inst->code == ST_LOOP_CONST ? (float)inst->imm.f : NAN;
    return number >= nextafterf(wanted, -INFINITY) && number <= nextafterf(wanted, INFINITY);
}

static bool append_entry(cg_matcher *m, const st_epilogue *entry)
{
    st_contraction *contraction = m->contraction;
    if (contraction->n_epilogue == ST_CONTRACTION_EPILOGUE_MAX) {
        return false;
    }
    contraction->epilogue[contraction->n_epilogue++] = *entry;
    return true;
}

static bool append(cg_matcher *m, uint32_t kind, double value, double value2)
{
    const st_epilogue entry = {.kind = kind, .value = value, .value2 = value2};
    return append_entry(m, &entry);
}

static bool append_buffer(cg_matcher *m, uint32_t kind, uint32_t buffer)
{
    const st_epilogue entry = {
        .kind = kind, .buffer = buffer, .dtype = m->kernel->buffers.data[buffer].dtype};
    return append_entry(m, &entry);
}

const st_loop_inst *cg_through_cast(const cg_matcher *m, st_loop_ref ref)
{
    const st_loop_inst *inst = cg_inst_at(m, ref);
    const bool is_widening =
        inst->code == ST_LOOP_cast &&
        st_loop_class_of(cg_inst_at(m, inst->args[0])->dtype) == ST_LOOP_STORAGE;
    return is_widening ? cg_inst_at(m, inst->args[0]) : inst;
}

/* Takes a value that is rounded to the output's dtype and widened again, when nothing but bounds
 * are applied after it: that rounding is left to the end. Rounding r never turns the order of two
 * values round, and r(r(y)) = r(y), so r(min(r(y), h)) = r(min(y, h)) for every h, one that the
 * dtype does not have too:
 *
 *     y <= h:  r(y) <= r(h). r(y) <= h: both are r(y). Else y <= h < r(y), and r(h) = r(y).
 *     y > h:   r(y) >= r(h). r(y) >= h: both are r(h). Else r(y) < h < y, and r(h) = r(y).
 *
 * The same holds for max, and where r(y) is infinite. A NaN stays one in all of these. A y that is
 * rounded to -0 against a bound of 0 may come out as either zero, as min(-0, 0) may. */
static st_loop_ref through_rounding(const cg_matcher *m, st_loop_ref ref)
{
    const st_loop_inst *wide = cg_inst_at(m, ref);
    if (m->bounded == 0 || wide->code != ST_LOOP_cast || wide->dtype != STATOR_F32) {
        return ref;
    }
    const st_loop_inst *narrow = cg_inst_at(m, wide->args[0]);
    const bool is_rounding = narrow->code == ST_LOOP_cast && narrow->dtype == m->bounded &&
                             cg_inst_at(m, narrow->args[0])->dtype == wide->dtype;
    return is_rounding ? narrow->args[0] : ref;
}

static bool match_value(cg_matcher *m, st_loop_ref ref, uint32_t depth);

static bool is_of_feature(const cg_matcher *m, const st_loop_inst *load)
{
    return m->feature != UINT32_MAX && load->sym == m->kernel->syms->symbols.data[m->feature].sym;
}

bool cg_loads_first(const cg_matcher *m, const st_loop_inst *load)
{
    return st_loop_known_or(&m->kernel->syms->tab, load->sym, 1) == 0;
}

static bool append_factor(cg_matcher *m, const st_loop_inst *load)
{
    if (cg_loads_first(m, load)) {
        return append_buffer(m, ST_EPILOGUE_TIMES_ONE, load->ref);
    }
    return is_of_feature(m, load) && append_buffer(m, ST_EPILOGUE_TIMES, load->ref);
}

/* Loads that an epilogue can multiply with: one number, or one for each feature. */
static bool match_factor(cg_matcher *m, st_loop_ref ref)
{
    const st_loop_inst *load = cg_through_cast(m, ref);
    return load->code == ST_LOOP_LOAD && !load->args[0] && append_factor(m, load);
}

/* Loads that an epilogue can add: a bias along the feature axis, or a tensor like the output. */
static bool match_added(cg_matcher *m, st_loop_ref ref)
{
    const st_loop_inst *load = cg_through_cast(m, ref);
    if (load->code != ST_LOOP_LOAD || load->args[0]) {
        return false;
    }
    if (load->sym == cg_inst_at(m, m->store)->sym) {
        return append_buffer(m, ST_EPILOGUE_ADD, load->ref);
    }
    return is_of_feature(m, load) && append_buffer(m, ST_EPILOGUE_BIAS, load->ref);
}

static bool is_finite_number(const cg_matcher *m, st_loop_ref ref)
{
    const st_loop_inst *inst = cg_inst_at(m, ref);
    return inst->code == ST_LOOP_CONST && isfinite(inst->imm.f);
}

/* Matches the steps that quantise a sum of integers: t / scale, its rounding, t + zero point. */
static bool match_divide(cg_matcher *m, const st_loop_inst *inst, uint32_t depth)
{
    return m->contraction->acc_dtype == STATOR_I32 && is_finite_number(m, inst->args[1]) &&
           cg_inst_at(m, inst->args[1])->imm.f != 0 && match_value(m, inst->args[0], depth) &&
           append(m, ST_EPILOGUE_DIVIDE, cg_inst_at(m, inst->args[1])->imm.f, 0);
}

static bool match_round(cg_matcher *m, const st_loop_inst *inst, uint32_t depth)
{
    return m->contraction->acc_dtype == STATOR_I32 && match_value(m, inst->args[0], depth) &&
           append(m, ST_EPILOGUE_ROUND, 0, 0);
}

/* A zero point, or a bias that is one number. Adding 0 tells -0 from 0 alone: bytes do not, and a
 * sum of products is no -0, since it begins with 0. */
static bool match_offset(cg_matcher *m, st_loop_ref value, st_loop_ref offset, uint32_t depth)
{
    if (!is_finite_number(m, offset)) {
        return false;
    }
    const double number = cg_inst_at(m, offset)->imm.f;
    const bool is_idle = number == 0 && (m->is_narrowed || value == m->read);
    return match_value(m, value, depth) && (is_idle || append(m, ST_EPILOGUE_OFFSET, number, 0));
}

static bool match_add(cg_matcher *m, const st_loop_inst *inst, uint32_t depth)
{
    const uint32_t before = m->contraction->n_epilogue;
    for (uint32_t k = 0; k < 2; k++) {
        m->contraction->n_epilogue = before;
        if (match_offset(m, inst->args[k], inst->args[1u - k], depth)) {
            return true;
        }
    }
    for (uint32_t k = 0; k < 2; k++) {
        m->contraction->n_epilogue = before;
        if (match_value(m, inst->args[k], depth) && match_added(m, inst->args[1u - k])) {
            return true;
        }
    }
    return false;
}

/* Factors of a tree of products, at most `max` of them; 0: too many. */
static uint32_t factors_of(const cg_matcher *m, st_loop_ref ref, uint32_t max, st_loop_ref *out)
{
    const st_loop_inst *inst = cg_inst_at(m, ref);
    if (max == 0) {
        return 0;
    }
    if (inst->code != ST_LOOP_mul) {
        out[0] = ref;
        return 1;
    }
    const uint32_t n = factors_of(m, inst->args[0], max, out);
    const uint32_t rest = n ? factors_of(m, inst->args[1], max - n, out + n) : 0;
    return rest ? n + rest : 0;
}

/* Is it this function, or the op that serves instead under `fused`? */
static bool is_function(const st_loop_inst *inst, uint32_t code)
{
    const uint32_t faster = st_loop_desc(code)->fused;
    return inst->code == code || (faster && inst->code == faster);
}

/* t when the instruction is 1 + erf(t / sqrt 2), else 0. */
static st_loop_ref erf_of(const cg_matcher *m, st_loop_ref ref)
{
    const st_loop_inst *sum = cg_inst_at(m, ref);
    for (uint32_t k = 0; sum->code == ST_LOOP_add && k < 2; k++) {
        const st_loop_inst *function = cg_inst_at(m, sum->args[k]);
        if (!is_number(m, sum->args[1u - k], 1) || !is_function(function, ST_LOOP_erf)) {
            continue;
        }
        const st_loop_inst *scaled = cg_inst_at(m, function->args[0]);
        const double factor = scaled->code == ST_LOOP_div ? 1 / SQRT_HALF : SQRT_HALF;
        if (scaled->code != ST_LOOP_mul && scaled->code != ST_LOOP_div) {
            return 0;
        }
        if (is_rounded(m, scaled->args[1], factor)) {
            return scaled->args[0];
        }
        return scaled->code == ST_LOOP_mul && is_rounded(m, scaled->args[0], factor)
                   ? scaled->args[1]
                   : 0;
    }
    return 0;
}

/* 0.5 t (1 + erf(t / sqrt 2)) with the factors in any order. */
static bool match_gelu(cg_matcher *m, st_loop_ref ref, uint32_t depth)
{
    st_loop_ref factors[3];
    if (factors_of(m, ref, 3, factors) != 3) {
        return false;
    }
    for (uint32_t i = 0; i < 3; i++) {
        const st_loop_ref t = erf_of(m, factors[i]);
        const st_loop_ref a = factors[(i + 1u) % 3u];
        const st_loop_ref b = factors[(i + 2u) % 3u];
        if (t && ((a == t && is_number(m, b, 0.5)) || (b == t && is_number(m, a, 0.5)))) {
            return match_value(m, t, depth) && append(m, ST_EPILOGUE_GELU_ERF, 0, 0);
        }
    }
    return false;
}

/* 1 / (1 + exp(-t)) */
static st_loop_ref sigmoid_of(const cg_matcher *m, st_loop_ref ref)
{
    const st_loop_inst *inst = cg_inst_at(m, ref);
    if (inst->code != ST_LOOP_div || !is_number(m, inst->args[0], 1)) {
        return 0;
    }
    const st_loop_inst *sum = cg_inst_at(m, inst->args[1]);
    for (uint32_t k = 0; sum->code == ST_LOOP_add && k < 2; k++) {
        const st_loop_inst *e = cg_inst_at(m, sum->args[k]);
        if (is_number(m, sum->args[1u - k], 1) && is_function(e, ST_LOOP_exp) &&
            cg_inst_at(m, e->args[0])->code == ST_LOOP_neg) {
            return cg_inst_at(m, e->args[0])->args[0];
        }
    }
    return 0;
}

static bool match_mul(cg_matcher *m, st_loop_ref ref, uint32_t depth)
{
    const st_loop_inst *inst = cg_inst_at(m, ref);
    if (match_gelu(m, ref, depth)) {
        return true;
    }
    for (uint32_t k = 0; k < 2; k++) {
        const st_loop_inst *other = cg_inst_at(m, inst->args[1u - k]);
        if (other->code == ST_LOOP_CONST) {
            return match_value(m, inst->args[k], depth) &&
                   append(m, ST_EPILOGUE_SCALE, other->imm.f, 0);
        }
        if (sigmoid_of(m, inst->args[1u - k]) == inst->args[k]) {
            return match_value(m, inst->args[k], depth) && append(m, ST_EPILOGUE_SILU, 0, 0);
        }
    }
    const uint32_t before = m->contraction->n_epilogue;
    for (uint32_t k = 0; k < 2; k++) {
        m->contraction->n_epilogue = before;
        if (match_value(m, inst->args[k], depth) && match_factor(m, inst->args[1u - k])) {
            return true;
        }
    }
    return false;
}

static bool match_bound(cg_matcher *m, const st_loop_inst *inst, uint32_t depth)
{
    for (uint32_t k = 0; k < 2; k++) {
        const st_loop_inst *bound = cg_inst_at(m, inst->args[1u - k]);
        const st_loop_ref value = through_rounding(m, inst->args[k]);
        const st_loop_inst *inner = cg_inst_at(m, value);
        if (bound->code != ST_LOOP_CONST) {
            continue;
        }
        if (inst->code == ST_LOOP_max && bound->imm.f == 0) {
            return match_value(m, value, depth) && append(m, ST_EPILOGUE_RELU, 0, 0);
        }
        for (uint32_t i = 0; inst->code == ST_LOOP_min && inner->code == ST_LOOP_max && i < 2;
             i++) {
            const st_loop_inst *low = cg_inst_at(m, inner->args[1u - i]);
            if (low->code == ST_LOOP_CONST) {
                return match_value(m, through_rounding(m, inner->args[i]), depth) &&
                       append(m, ST_EPILOGUE_CLIP, low->imm.f, bound->imm.f);
            }
        }
    }
    return false;
}

/* The sums of integers, maybe with a bias of integers. */
static bool match_sum(cg_matcher *m, st_loop_ref ref)
{
    const st_loop_inst *inst = cg_inst_at(m, ref);
    if (ref == m->read) {
        return true;
    }
    for (uint32_t k = 0; inst->code == ST_LOOP_add && k < 2; k++) {
        const st_loop_inst *load = cg_inst_at(m, inst->args[1u - k]);
        if (inst->args[k] == m->read && load->code == ST_LOOP_LOAD && !load->args[0] &&
            is_of_feature(m, load)) {
            return append_buffer(m, ST_EPILOGUE_BIAS, load->ref);
        }
    }
    return false;
}

/* Matches a cast to f32: of the sum of integers, or of a value rounded to the output's dtype. */
static bool match_cast(cg_matcher *m, const st_loop_inst *inst, uint32_t depth)
{
    const st_loop_inst *narrow = cg_inst_at(m, inst->args[0]);
    if (inst->dtype != STATOR_F32) {
        return false;
    }
    if (narrow->dtype == STATOR_I32) {
        return m->contraction->acc_dtype == STATOR_I32 && match_sum(m, inst->args[0]);
    }
    return cg_is_half(narrow->dtype) && narrow->dtype == m->contraction->out.dtype &&
           narrow->code == ST_LOOP_cast && cg_inst_at(m, narrow->args[0])->dtype == STATOR_F32 &&
           match_value(m, narrow->args[0], depth) && append(m, ST_EPILOGUE_NARROW, 0, 0);
}

/* Writes what happens between the accumulator and the instruction to the contraction, first things
 * first. */
static bool match_value(cg_matcher *m, st_loop_ref ref, uint32_t depth)
{
    const st_loop_inst *inst = cg_inst_at(m, ref);
    if (ref == m->read) {
        return true;
    }
    if (depth == 0) {
        return false;
    }
    if (inst->code != ST_LOOP_min && inst->code != ST_LOOP_max) {
        m->bounded = 0;
    }
    const st_loop_ref sigmoid = sigmoid_of(m, ref);
    if (sigmoid) {
        return match_value(m, sigmoid, depth - 1u) && append(m, ST_EPILOGUE_SIGMOID, 0, 0);
    }
    switch (inst->code) {
    case ST_LOOP_add:
        return match_add(m, inst, depth - 1u);
    case ST_LOOP_mul:
        return match_mul(m, ref, depth - 1u);
    case ST_LOOP_div:
        return match_divide(m, inst, depth - 1u);
    case ST_LOOP_round:
        return match_round(m, inst, depth - 1u);
    case ST_LOOP_min:
    case ST_LOOP_max:
        return match_bound(m, inst, depth - 1u);
    case ST_LOOP_tanh:
        return match_value(m, inst->args[0], depth - 1u) && append(m, ST_EPILOGUE_TANH, 0, 0);
    case ST_LOOP_cast:
        return match_cast(m, inst, depth - 1u);
    default:
        return false;
    }
}

/* The number that `code` binds a value with; *out_value: the value. NULL: the instruction is
 * none such. */
static const st_loop_inst *bound_of(const cg_matcher *m, st_loop_ref ref, uint32_t code,
                                    st_loop_ref *out_value)
{
    const st_loop_inst *inst = cg_inst_at(m, ref);
    for (uint32_t k = 0; inst->code == code && k < 2; k++) {
        if (is_finite_number(m, inst->args[k])) {
            *out_value = inst->args[1u - k];
            return cg_inst_at(m, inst->args[k]);
        }
    }
    return NULL;
}

/* A whole number: rounded, then nothing but whole numbers added. */
static bool is_whole(const cg_matcher *m, st_loop_ref ref, uint32_t depth)
{
    const st_loop_inst *inst = cg_inst_at(m, ref);
    for (uint32_t k = 0; inst->code == ST_LOOP_add && depth && k < 2; k++) {
        if (is_finite_number(m, inst->args[k]) &&
            cg_inst_at(m, inst->args[k])->imm.f == rint(cg_inst_at(m, inst->args[k])->imm.f) &&
            is_whole(m, inst->args[1u - k], depth - 1u)) {
            return true;
        }
    }
    return inst->code == ST_LOOP_round;
}

/* Bytes: a whole number within bounds that the dtype has. Its own bounds are left to the store. */
static bool match_bytes(cg_matcher *m, const st_loop_inst *inst)
{
    const double least = inst->dtype == STATOR_I8 ? -128 : 0;
    const double most = inst->dtype == STATOR_I8 ? 127 : 255;
    st_loop_ref above = 0;
    st_loop_ref value = 0;
    const st_loop_inst *high = bound_of(m, inst->args[0], ST_LOOP_min, &above);
    const st_loop_inst *low = high ? bound_of(m, above, ST_LOOP_max, &value) : NULL;
    if (low == NULL || m->contraction->acc_dtype != STATOR_I32 ||
        cg_inst_at(m, value)->dtype != STATOR_F32 || !is_whole(m, value, 1) ||
        !(least <= low->imm.f && low->imm.f <= high->imm.f && high->imm.f <= most)) {
        return false;
    }
    m->is_narrowed = 1;
    return match_value(m, value, ST_CONTRACTION_EPILOGUE_MAX + 2u) &&
           ((low->imm.f == least && high->imm.f == most) ||
            append(m, ST_EPILOGUE_CLIP, low->imm.f, high->imm.f));
}

/* The stored value: an epilogue, rounded to the output's dtype at the end alone. */
bool cg_match_epilogue(cg_matcher *m)
{
    st_loop_ref ref = cg_inst_at(m, m->store)->args[0];
    const st_loop_inst *inst = cg_inst_at(m, ref);
    if (inst->code == ST_LOOP_cast && cg_is_byte(inst->dtype)) {
        return match_bytes(m, inst);
    }
    if (inst->code == ST_LOOP_cast && st_loop_class_of(inst->dtype) == ST_LOOP_STORAGE) {
        ref = inst->args[0];
        m->bounded = cg_is_half(inst->dtype) ? inst->dtype : 0;
    }
    return inst->dtype == STATOR_I32 ? match_sum(m, ref)
                                     : match_value(m, ref, ST_CONTRACTION_EPILOGUE_MAX + 2u);
}

/* The sum of integers times both scales. Those of a transposed convolution's weights are loaded
 * where there is a product alone. */
bool cg_match_scales(cg_matcher *m, const st_loop_ref scale[2])
{
    float product = 1;
    for (uint32_t k = 0; k < 2; k++) {
        const st_loop_inst *inst = cg_inst_at(m, scale[k]);
        product *= inst->code == ST_LOOP_CONST ? (float)inst->imm.f : 1.0f;
    }
    bool is_done = product == 1 || append(m, ST_EPILOGUE_SCALE, product, 0);
    for (uint32_t k = 0; k < 2 && is_done; k++) {
        const st_loop_inst *load = cg_through_cast(m, scale[k]);
        is_done = cg_inst_at(m, scale[k])->code == ST_LOOP_CONST ||
                  (load->code == ST_LOOP_LOAD && append_factor(m, load));
    }
    return is_done;
}
