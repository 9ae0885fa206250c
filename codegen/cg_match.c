/* Recognises contractions in kernels, for an emitter's library.
 *
 * GEMM, after axes are merged:
 *     loop .. outer axes                          batch, m, n by which operands walk them
 *       acc sum
 *       loop k reduce
 *         update acc, mul (load x), (load y)
 *       store out, epilogue(read acc)
 * Convolution: the plan's fold is the op `conv` and its operands are stored as they are; the epilogue is
 * read off the kernel in the same way. What does not fit stays loops. */
#include "codegen/cg_match.h"
#include "codegen/cg_quant.h"

#include "core/base/convert.h"

#include <stator/ops.h>
#include <math.h>
#include <string.h>

#define AXES_MAX 8u
#define SQRT_HALF 0.70710678118654752

typedef struct matcher {
    cg_unit *unit;
    const cg_plan *plan;
    st_kernel *kernel;
    st_form *form;
    const st_loop_axis *outer[AXES_MAX];
    uint32_t n_outer;
    st_loop_ref store;
    st_loop_ref read;
    st_loop_ref update;
    uint32_t feature; /* symbol of the axis that a bias follows, UINT32_MAX: none */
    uint32_t is_narrowed; /* to bytes, at the end */
    uint32_t bounded; /* dtype that values are rounded to, nothing but bounds since; 0: none */
} matcher;

static const st_loop_op *row_at(const matcher *m, st_loop_ref ref)
{
    return st_loop_at(m->kernel, ref);
}

/* ---- the skeleton of the kernel ---- */

/* One store, one accumulator with one update and one read, one nest of loops. */
static int find_rows(matcher *m)
{
    uint32_t n[ST_LOOP_CODE_COUNT] = {0};
    for (uint32_t block = 0; block < m->kernel->blocks.count; block++) {
        for (st_loop_ref ref = m->kernel->blocks.data[block].first; ref;
             ref = row_at(m, ref)->next) {
            const st_loop_op *row = row_at(m, ref);
            n[row->code]++;
            m->store = row->code == ST_LOOP_STORE ? ref : m->store;
            m->read = row->code == ST_LOOP_READ ? ref : m->read;
            m->update = row->code == ST_LOOP_UPDATE ? ref : m->update;
        }
    }
    return n[ST_LOOP_STORE] == 1 && n[ST_LOOP_ACC] == 1 && n[ST_LOOP_UPDATE] == 1 &&
           n[ST_LOOP_READ] == 1 && n[ST_LOOP_BIND] == 0 && n[ST_LOOP_CHECK] == 0 &&
           n[ST_LOOP_ATOMIC] == 0 && row_at(m, m->store)->args[1] == 0 &&
           row_at(m, row_at(m, m->update)->ref)->imm.i == ST_ACC_SUM;
}

/* The loops around the store, outermost first. */
static int find_outer(matcher *m)
{
    uint32_t block = row_at(m, m->store)->block;
    while (m->kernel->blocks.data[block].loop) {
        const st_loop_op *loop = row_at(m, m->kernel->blocks.data[block].loop);
        if (m->n_outer == AXES_MAX) {
            return 0;
        }
        memmove(m->outer + 1, m->outer, m->n_outer * sizeof m->outer[0]);
        m->outer[0] = &m->kernel->axes.data[loop->ref];
        m->n_outer++;
        block = loop->block;
    }
    return 1;
}

/* ---- the epilogue ---- */

static int is_number(const matcher *m, st_loop_ref ref, double value)
{
    const st_loop_op *row = row_at(m, ref);
    return row->code == ST_LOOP_CONST && fabs(row->imm.f - value) <= 1e-6 * fabs(value);
}

static int append_row(matcher *m, const st_epilogue *row)
{
    st_form *form = m->form;
    if (form->n_epilogue == ST_FORM_EPILOGUE_MAX) {
        return 0;
    }
    form->epilogue[form->n_epilogue++] = *row;
    return 1;
}

static int append(matcher *m, uint32_t kind, double value, double value2)
{
    const st_epilogue row = {.kind = kind, .value = value, .value2 = value2};
    return append_row(m, &row);
}

static int append_buffer(matcher *m, uint32_t kind, uint32_t buffer)
{
    const st_epilogue row = {
        .kind = kind, .buffer = buffer, .dtype = m->kernel->buffers.data[buffer].dtype};
    return append_row(m, &row);
}

static int is_half(uint32_t dtype)
{
    return dtype == STATOR_BF16 || dtype == STATOR_F16;
}

static const st_loop_op *through_cast(const matcher *m, st_loop_ref ref)
{
    const st_loop_op *row = row_at(m, ref);
    const int is_widening = row->code == ST_LOOP_cast &&
                            st_loop_class_of(row_at(m, row->args[0])->dtype) == ST_LOOP_STORAGE;
    return is_widening ? row_at(m, row->args[0]) : row;
}

/* What is rounded to the output's dtype and widened again, when rounding it is left to the end: nothing but
 * bounds are applied after it, and they are numbers of that dtype, so the order is all one. */
static st_loop_ref through_rounding(const matcher *m, st_loop_ref ref)
{
    const st_loop_op *wide = row_at(m, ref);
    if (m->bounded == 0 || wide->code != ST_LOOP_cast || wide->dtype != STATOR_F32) {
        return ref;
    }
    const st_loop_op *narrow = row_at(m, wide->args[0]);
    const int is_rounding = narrow->code == ST_LOOP_cast && narrow->dtype == m->bounded &&
                            row_at(m, narrow->args[0])->dtype == wide->dtype;
    return is_rounding ? narrow->args[0] : ref;
}

/* A bound is applied to what comes: may a rounding before it still be left to the end? */
static void note_bound(matcher *m, double bound)
{
    uint16_t bits = 0;
    if (m->bounded) {
        st_store_f64(m->bounded, &bits, 0, bound);
        m->bounded = st_load_f64(m->bounded, &bits, 0) == bound ? m->bounded : 0;
    }
}

static int match_value(matcher *m, st_loop_ref ref, uint32_t depth);

static int is_of_feature(const matcher *m, const st_loop_op *load)
{
    return m->feature != UINT32_MAX &&
           load->sym == m->kernel->syms->symbols.data[m->feature].sym;
}

static int is_first(const matcher *m, const st_loop_op *load)
{
    return cg_known_or(&m->kernel->syms->tab, load->sym, 1) == 0;
}

/* Loads that an epilogue can multiply with: one number, or one for each feature. */
static int match_factor(matcher *m, st_loop_ref ref)
{
    const st_loop_op *load = through_cast(m, ref);
    if (load->code != ST_LOOP_LOAD || load->args[0]) {
        return 0;
    }
    if (is_first(m, load)) {
        return append_buffer(m, ST_EPILOGUE_TIMES_ONE, load->ref);
    }
    return is_of_feature(m, load) && append_buffer(m, ST_EPILOGUE_TIMES, load->ref);
}

/* Loads that an epilogue can add: a bias along the feature axis, or a tensor like the output. */
static int match_added(matcher *m, st_loop_ref ref)
{
    const st_loop_op *load = through_cast(m, ref);
    if (load->code != ST_LOOP_LOAD || load->args[0]) {
        return 0;
    }
    if (load->sym == row_at(m, m->store)->sym) {
        return append_buffer(m, ST_EPILOGUE_ADD, load->ref);
    }
    return is_of_feature(m, load) && append_buffer(m, ST_EPILOGUE_BIAS, load->ref);
}

static int is_finite_number(const matcher *m, st_loop_ref ref)
{
    const st_loop_op *row = row_at(m, ref);
    return row->code == ST_LOOP_CONST && isfinite(row->imm.f);
}

/* What quantises a sum of integers: t / scale, its rounding, t + zero point. */
static int match_divide(matcher *m, const st_loop_op *row, uint32_t depth)
{
    return m->form->acc_dtype == STATOR_I32 && is_finite_number(m, row->args[1]) &&
           row_at(m, row->args[1])->imm.f != 0 && match_value(m, row->args[0], depth) &&
           append(m, ST_EPILOGUE_DIVIDE, row_at(m, row->args[1])->imm.f, 0);
}

static int match_round(matcher *m, const st_loop_op *row, uint32_t depth)
{
    return m->form->acc_dtype == STATOR_I32 && match_value(m, row->args[0], depth) &&
           append(m, ST_EPILOGUE_ROUND, 0, 0);
}

static int match_offset(matcher *m, st_loop_ref value, st_loop_ref offset, uint32_t depth)
{
    if (m->form->acc_dtype != STATOR_I32 || !is_finite_number(m, offset)) {
        return 0;
    }
    const double number = row_at(m, offset)->imm.f; /* 0: tells -0 from 0 alone, and bytes do not */
    return match_value(m, value, depth) &&
           ((number == 0 && m->is_narrowed) || append(m, ST_EPILOGUE_OFFSET, number, 0));
}

static int match_add(matcher *m, const st_loop_op *row, uint32_t depth)
{
    const uint32_t before = m->form->n_epilogue;
    for (uint32_t k = 0; k < 2; k++) {
        m->form->n_epilogue = before;
        if (match_offset(m, row->args[k], row->args[1u - k], depth)) {
            return 1;
        }
    }
    for (uint32_t k = 0; k < 2; k++) {
        m->form->n_epilogue = before;
        if (match_value(m, row->args[k], depth) && match_added(m, row->args[1u - k])) {
            return 1;
        }
    }
    return 0;
}

/* Factors of a tree of products, at most `max` of them; 0: too many. */
static uint32_t factors_of(const matcher *m, st_loop_ref ref, uint32_t max, st_loop_ref *out)
{
    const st_loop_op *row = row_at(m, ref);
    if (max == 0) {
        return 0;
    }
    if (row->code != ST_LOOP_mul) {
        out[0] = ref;
        return 1;
    }
    const uint32_t n = factors_of(m, row->args[0], max, out);
    const uint32_t rest = n ? factors_of(m, row->args[1], max - n, out + n) : 0;
    return rest ? n + rest : 0;
}

/* t when the row is 1 + erf(t / sqrt 2), else 0. */
static st_loop_ref erf_of(const matcher *m, st_loop_ref ref)
{
    const st_loop_op *sum = row_at(m, ref);
    for (uint32_t k = 0; sum->code == ST_LOOP_add && k < 2; k++) {
        const st_loop_op *function = row_at(m, sum->args[k]);
        if (!is_number(m, sum->args[1u - k], 1) || function->code != ST_LOOP_erf) {
            continue;
        }
        const st_loop_op *scaled = row_at(m, function->args[0]);
        const double factor = scaled->code == ST_LOOP_div ? 1 / SQRT_HALF : SQRT_HALF;
        if (scaled->code != ST_LOOP_mul && scaled->code != ST_LOOP_div) {
            return 0;
        }
        if (is_number(m, scaled->args[1], factor)) {
            return scaled->args[0];
        }
        return scaled->code == ST_LOOP_mul && is_number(m, scaled->args[0], factor)
                   ? scaled->args[1]
                   : 0;
    }
    return 0;
}

/* 0.5 t (1 + erf(t / sqrt 2)) with the factors in any order. */
static int match_gelu(matcher *m, st_loop_ref ref, uint32_t depth)
{
    st_loop_ref factors[3];
    if (factors_of(m, ref, 3, factors) != 3) {
        return 0;
    }
    for (uint32_t i = 0; i < 3; i++) {
        const st_loop_ref t = erf_of(m, factors[i]);
        const st_loop_ref a = factors[(i + 1u) % 3u];
        const st_loop_ref b = factors[(i + 2u) % 3u];
        if (t && ((a == t && is_number(m, b, 0.5)) || (b == t && is_number(m, a, 0.5)))) {
            return match_value(m, t, depth) && append(m, ST_EPILOGUE_GELU_ERF, 0, 0);
        }
    }
    return 0;
}

/* 1 / (1 + exp(-t)) */
static st_loop_ref sigmoid_of(const matcher *m, st_loop_ref ref)
{
    const st_loop_op *row = row_at(m, ref);
    if (row->code != ST_LOOP_div || !is_number(m, row->args[0], 1)) {
        return 0;
    }
    const st_loop_op *sum = row_at(m, row->args[1]);
    for (uint32_t k = 0; sum->code == ST_LOOP_add && k < 2; k++) {
        const st_loop_op *e = row_at(m, sum->args[k]);
        if (is_number(m, sum->args[1u - k], 1) && e->code == ST_LOOP_exp &&
            row_at(m, e->args[0])->code == ST_LOOP_neg) {
            return row_at(m, e->args[0])->args[0];
        }
    }
    return 0;
}

static int match_mul(matcher *m, st_loop_ref ref, uint32_t depth)
{
    const st_loop_op *row = row_at(m, ref);
    if (match_gelu(m, ref, depth)) {
        return 1;
    }
    for (uint32_t k = 0; k < 2; k++) {
        const st_loop_op *other = row_at(m, row->args[1u - k]);
        if (other->code == ST_LOOP_CONST) {
            return match_value(m, row->args[k], depth) &&
                   append(m, ST_EPILOGUE_SCALE, other->imm.f, 0);
        }
        if (sigmoid_of(m, row->args[1u - k]) == row->args[k]) {
            return match_value(m, row->args[k], depth) && append(m, ST_EPILOGUE_SILU, 0, 0);
        }
    }
    const uint32_t before = m->form->n_epilogue;
    for (uint32_t k = 0; k < 2; k++) {
        m->form->n_epilogue = before;
        if (match_value(m, row->args[k], depth) && match_factor(m, row->args[1u - k])) {
            return 1;
        }
    }
    return 0;
}

static int match_bound(matcher *m, const st_loop_op *row, uint32_t depth)
{
    for (uint32_t k = 0; k < 2; k++) {
        const st_loop_op *bound = row_at(m, row->args[1u - k]);
        const st_loop_ref value = through_rounding(m, row->args[k]);
        const st_loop_op *inner = row_at(m, value);
        if (bound->code != ST_LOOP_CONST) {
            continue;
        }
        if (row->code == ST_LOOP_max && bound->imm.f == 0) {
            return match_value(m, value, depth) && append(m, ST_EPILOGUE_RELU, 0, 0);
        }
        for (uint32_t i = 0; row->code == ST_LOOP_min && inner->code == ST_LOOP_max && i < 2; i++) {
            const st_loop_op *low = row_at(m, inner->args[1u - i]);
            if (low->code == ST_LOOP_CONST) {
                note_bound(m, low->imm.f);
                note_bound(m, bound->imm.f);
                return match_value(m, through_rounding(m, inner->args[i]), depth) &&
                       append(m, ST_EPILOGUE_CLIP, low->imm.f, bound->imm.f);
            }
        }
    }
    return 0;
}

/* The sums of integers, maybe with a bias of integers. */
static int match_sum(matcher *m, st_loop_ref ref)
{
    const st_loop_op *row = row_at(m, ref);
    if (ref == m->read) {
        return 1;
    }
    for (uint32_t k = 0; row->code == ST_LOOP_add && k < 2; k++) {
        const st_loop_op *load = row_at(m, row->args[1u - k]);
        if (row->args[k] == m->read && load->code == ST_LOOP_LOAD && !load->args[0] &&
            is_of_feature(m, load)) {
            return append_buffer(m, ST_EPILOGUE_BIAS, load->ref);
        }
    }
    return 0;
}

/* Writes what happens between the accumulator and the row to the form, first things first. */
static int match_value(matcher *m, st_loop_ref ref, uint32_t depth)
{
    const st_loop_op *row = row_at(m, ref);
    if (ref == m->read) {
        return 1;
    }
    if (depth == 0) {
        return 0;
    }
    if (row->code != ST_LOOP_min && row->code != ST_LOOP_max) {
        m->bounded = 0;
    }
    const st_loop_ref sigmoid = sigmoid_of(m, ref);
    if (sigmoid) {
        return match_value(m, sigmoid, depth - 1u) && append(m, ST_EPILOGUE_SIGMOID, 0, 0);
    }
    switch (row->code) {
    case ST_LOOP_add:
        return match_add(m, row, depth - 1u);
    case ST_LOOP_mul:
        return match_mul(m, ref, depth - 1u);
    case ST_LOOP_div:
        return match_divide(m, row, depth - 1u);
    case ST_LOOP_round:
        return match_round(m, row, depth - 1u);
    case ST_LOOP_min:
    case ST_LOOP_max:
        return match_bound(m, row, depth - 1u);
    case ST_LOOP_tanh:
        return match_value(m, row->args[0], depth - 1u) && append(m, ST_EPILOGUE_TANH, 0, 0);
    case ST_LOOP_cast:
        return row->dtype == STATOR_F32 && row_at(m, row->args[0])->dtype == STATOR_I32 &&
               m->form->acc_dtype == STATOR_I32 && match_sum(m, row->args[0]);
    default:
        return 0;
    }
}

/* The number that `code` binds a value with; *out_value: the value. NULL: the row is none such. */
static const st_loop_op *bound_of(const matcher *m, st_loop_ref ref, uint32_t code,
                                  st_loop_ref *out_value)
{
    const st_loop_op *row = row_at(m, ref);
    for (uint32_t k = 0; row->code == code && k < 2; k++) {
        if (is_finite_number(m, row->args[k])) {
            *out_value = row->args[1u - k];
            return row_at(m, row->args[k]);
        }
    }
    return NULL;
}

/* A whole number: rounded, then nothing but whole numbers added. */
static int is_whole(const matcher *m, st_loop_ref ref, uint32_t depth)
{
    const st_loop_op *row = row_at(m, ref);
    for (uint32_t k = 0; row->code == ST_LOOP_add && depth && k < 2; k++) {
        if (is_finite_number(m, row->args[k]) &&
            row_at(m, row->args[k])->imm.f == rint(row_at(m, row->args[k])->imm.f) &&
            is_whole(m, row->args[1u - k], depth - 1u)) {
            return 1;
        }
    }
    return row->code == ST_LOOP_round;
}

/* Bytes: a whole number within bounds that the dtype has. Its own bounds are left to the store. */
static int match_bytes(matcher *m, const st_loop_op *row)
{
    const double least = row->dtype == STATOR_I8 ? -128 : 0;
    const double most = row->dtype == STATOR_I8 ? 127 : 255;
    st_loop_ref above = 0;
    st_loop_ref value = 0;
    const st_loop_op *high = bound_of(m, row->args[0], ST_LOOP_min, &above);
    const st_loop_op *low = high ? bound_of(m, above, ST_LOOP_max, &value) : NULL;
    if (low == NULL || m->form->acc_dtype != STATOR_I32 ||
        row_at(m, value)->dtype != STATOR_F32 || !is_whole(m, value, 1) ||
        !(least <= low->imm.f && low->imm.f <= high->imm.f && high->imm.f <= most)) {
        return 0;
    }
    m->is_narrowed = 1;
    return match_value(m, value, ST_FORM_EPILOGUE_MAX + 2u) &&
           ((low->imm.f == least && high->imm.f == most) ||
            append(m, ST_EPILOGUE_CLIP, low->imm.f, high->imm.f));
}

/* The stored value: an epilogue, rounded to the output's dtype at the end alone. */
static int match_epilogue(matcher *m)
{
    st_loop_ref ref = row_at(m, m->store)->args[0];
    const st_loop_op *row = row_at(m, ref);
    if (row->code == ST_LOOP_cast && cg_is_byte(row->dtype)) {
        return match_bytes(m, row);
    }
    if (row->code == ST_LOOP_cast && st_loop_class_of(row->dtype) == ST_LOOP_STORAGE) {
        ref = row->args[0];
        m->bounded = is_half(row->dtype) ? row->dtype : 0;
    }
    return row->dtype == STATOR_I32 ? match_sum(m, ref)
                                    : match_value(m, ref, ST_FORM_EPILOGUE_MAX + 2u);
}

/* ---- operands ---- */

static void set_buffer(matcher *m, st_form_operand *operand, const st_loop_op *row)
{
    operand->buffer = row->ref;
    operand->dtype = m->kernel->buffers.data[row->ref].dtype;
}

static int set_constant(matcher *m)
{
    const st_loop_buffer *of = &m->kernel->buffers.data[m->form->y.buffer];
    const cg_buffer *buffer = &m->unit->buffers.data[of->id];
    if (buffer->kind != CG_BUFFER_CONSTANT) {
        return 1;
    }
    stator_diag *err = NULL;
    if (cg_constant_data(m->unit->config, m->unit->blobs.data[buffer->place], &m->form->y_data,
                         &err) != STATOR_OK) {
        m->unit->host->diag->release(err);
        return 0;
    }
    return 1;
}

static int is_constant(const matcher *m, const st_loop_op *load)
{
    const st_loop_buffer *of = &m->kernel->buffers.data[load->ref];
    return m->unit->buffers.data[of->id].kind == CG_BUFFER_CONSTANT;
}

/* ---- integers ---- */

/* Widened by a cast: the row before it when that is of bytes, else NULL. */
static const st_loop_op *before_widening(const matcher *m, st_loop_ref ref)
{
    const st_loop_op *row = row_at(m, ref);
    if (row->code != ST_LOOP_cast || row->dtype != STATOR_I32) {
        return NULL;
    }
    const st_loop_op *narrow = row_at(m, row->args[0]);
    return cg_is_byte(narrow->dtype) ? narrow : NULL;
}

/* 1 + the outer axis that the load walks alone, one element a step; 0: there is none. */
static uint32_t axis_walked(const matcher *m, const st_loop_op *load)
{
    for (uint32_t i = 0; i < m->n_outer; i++) {
        if (m->kernel->syms->symbols.data[m->outer[i]->symbol].sym == load->sym) {
            return 1u + i;
        }
    }
    return 0;
}

/* A number for all elements, known or the first of a buffer; or (is_each) one for each step of an axis. */
static int match_zero(const matcher *m, st_loop_ref ref, st_form_zero *out)
{
    const st_loop_op *row = row_at(m, ref);
    const st_loop_op *narrow = before_widening(m, ref);
    const st_loop_op *load = narrow ? narrow : row;
    if (row->code == ST_LOOP_CONST && row->dtype == STATOR_I32) {
        *out = (st_form_zero){.value = (int32_t)row->imm.i};
        return 1;
    }
    if (load->code != ST_LOOP_LOAD || load->args[0]) {
        return 0;
    }
    *out = (st_form_zero){
        .has_buffer = 1, .buffer = load->ref, .dtype = m->kernel->buffers.data[load->ref].dtype};
    out->is_each = is_first(m, load) ? 0 : axis_walked(m, load);
    return out->is_each || is_first(m, load);
}

/* The row before the bytes are widened to i32 and their zero point is subtracted; NULL: there is none. */
static const st_loop_op *bytes_of(const matcher *m, st_loop_ref ref, st_form_zero *zero)
{
    const st_loop_op *row = row_at(m, ref);
    if (row->code != ST_LOOP_sub) {
        return before_widening(m, ref);
    }
    const st_loop_op *bytes = before_widening(m, row->args[0]);
    return bytes && match_zero(m, row->args[1], zero) ? bytes : NULL;
}

/* The load of an operand, its zero point apart; NULL: it is none. */
static const st_loop_op *operand_of(const matcher *m, st_loop_ref ref, st_form_zero *zero)
{
    const st_loop_op *row =
        m->form->acc_dtype == STATOR_I32 ? bytes_of(m, ref, zero) : through_cast(m, ref);
    return row && row->code == ST_LOOP_LOAD && !row->args[0] ? row : NULL;
}

/* The same for f32 that stands for bytes: their load, NULL: it is none. *out_scale: what they are
 * multiplied with. */
static const st_loop_op *scaled_of(const matcher *m, st_loop_ref ref, st_form_zero *zero,
                                   st_loop_ref *out_scale)
{
    const st_loop_op *row = row_at(m, ref);
    const st_loop_op *wide = row->code == ST_LOOP_mul ? row_at(m, row->args[0]) : row;
    if (row->code != ST_LOOP_mul || wide->code != ST_LOOP_cast || wide->dtype != STATOR_F32) {
        return NULL;
    }
    const st_loop_op *bytes = row_at(m, wide->args[0]);
    bytes = cg_is_byte(bytes->dtype) ? bytes : bytes_of(m, wide->args[0], zero);
    *out_scale = row->args[1];
    return bytes && bytes->code == ST_LOOP_LOAD && !bytes->args[0] ? bytes : NULL;
}

/* The sum of integers times both scales. */
static int match_scales(matcher *m, const st_loop_ref scale[2])
{
    float product = 1;
    for (uint32_t k = 0; k < 2; k++) {
        const st_loop_op *row = row_at(m, scale[k]);
        product *= row->code == ST_LOOP_CONST ? (float)row->imm.f : 1.0f;
    }
    int is_done = product == 1 || append(m, ST_EPILOGUE_SCALE, product, 0);
    for (uint32_t k = 0; k < 2 && is_done; k++) {
        is_done = row_at(m, scale[k])->code == ST_LOOP_CONST || match_factor(m, scale[k]);
    }
    return is_done;
}

/* ---- GEMM ---- */

/* Coefficients of the outer axes and of k in the row's index; the rest is the offset. */
static int split_index(const matcher *m, const st_loop_op *row, const st_loop_axis *k,
                       uint32_t *coefs, uint32_t *out_k, uint32_t *out_offset)
{
    uint32_t rest = row->sym;
    for (uint32_t i = 0; i < m->n_outer; i++) {
        if (!st_loop_linear(m->kernel->syms, rest, m->outer[i]->symbol, &coefs[i], &rest)) {
            return 0;
        }
    }
    if (k && !st_loop_linear(m->kernel->syms, rest, k->symbol, out_k, &rest)) {
        return 0;
    }
    *out_offset = rest;
    return 1;
}

static int is_zero(const matcher *m, uint32_t sym)
{
    return cg_known_or(&m->kernel->syms->tab, sym, 1) == 0;
}

typedef struct roles {
    uint32_t x[AXES_MAX], y[AXES_MAX], out[AXES_MAX];
    uint32_t x_k, y_k;
    uint32_t m, n; /* axes, UINT32_MAX: of size 1 */
} roles;

/* The last axis that one operand alone walks; the others become batch axes with stride 0. */
static void choose_roles(const matcher *m, roles *r)
{
    r->m = UINT32_MAX;
    r->n = UINT32_MAX;
    for (uint32_t i = 0; i < m->n_outer; i++) {
        const int in_x = !is_zero(m, r->x[i]);
        const int in_y = !is_zero(m, r->y[i]);
        if (in_x && !in_y) {
            r->m = i;
        } else if (in_y && !in_x) {
            r->n = i;
        }
    }
}

/* Numbers of their own are of rows of x and of columns of y. */
static int settle_zeros(matcher *m, const roles *r)
{
    st_form_zero *const zeros[2] = {&m->form->x_zero, &m->form->y_zero};
    const uint32_t axes[2] = {r->m, r->n};
    int is_sound = 1;
    for (uint32_t k = 0; k < 2; k++) {
        is_sound = is_sound && (!zeros[k]->is_each || zeros[k]->is_each - 1u == axes[k]);
        zeros[k]->is_each = zeros[k]->is_each != 0;
    }
    return is_sound;
}

static int fill_gemm(matcher *m, const roles *r, const st_loop_axis *k)
{
    st_form *form = m->form;
    st_symtab *tab = &m->kernel->syms->tab;
    const uint32_t zero = st_sym_int(tab, 0);
    const uint32_t one = st_sym_int(tab, 1);
    form->k = k->extent;
    form->m = r->m == UINT32_MAX ? one : m->outer[r->m]->extent;
    form->n = r->n == UINT32_MAX ? one : m->outer[r->n]->extent;
    form->x.stride[0] = r->m == UINT32_MAX ? zero : r->x[r->m];
    form->x.stride[1] = r->x_k;
    form->y.stride[0] = r->y_k;
    form->y.stride[1] = r->n == UINT32_MAX ? zero : r->y[r->n];
    form->out.stride[0] = r->m == UINT32_MAX ? zero : r->out[r->m];
    form->out.stride[1] = r->n == UINT32_MAX ? zero : r->out[r->n];
    for (uint32_t i = 0; i < m->n_outer; i++) {
        if (i == r->m || i == r->n) {
            continue;
        }
        if (form->n_batch == ST_FORM_BATCH_MAX) {
            return 0;
        }
        form->x.batch[form->n_batch] = r->x[i];
        form->y.batch[form->n_batch] = r->y[i];
        form->out.batch[form->n_batch] = r->out[i];
        form->batch[form->n_batch++] = m->outer[i]->extent;
    }
    return zero && one;
}

/* Both operands of the product: as they are loaded, or as the bytes that they stand for. */
static int find_operands(matcher *m, const st_loop_op *product, const st_loop_op *out[2],
                         st_loop_ref out_scale[2])
{
    st_form_zero *const zeros[2] = {&m->form->x_zero, &m->form->y_zero};
    for (uint32_t k = 0; k < 2; k++) {
        out[k] = operand_of(m, product->args[k], zeros[k]);
        out_scale[k] = 0;
    }
    if (out[0] && out[1]) {
        return 1;
    }
    if (m->form->acc_dtype != STATOR_F32) {
        return 0;
    }
    for (uint32_t k = 0; k < 2; k++) {
        out[k] = scaled_of(m, product->args[k], zeros[k], &out_scale[k]);
    }
    m->form->acc_dtype = out[0] && out[1] ? (uint32_t)STATOR_I32 : m->form->acc_dtype;
    return out[0] && out[1];
}

static int match_gemm(matcher *m)
{
    const st_loop_op *update = row_at(m, m->update);
    const st_loop_op *product = row_at(m, update->args[0]);
    const st_loop_ref loop = m->kernel->blocks.data[update->block].loop;
    if (update->args[2] || product->code != ST_LOOP_mul || loop == 0 ||
        row_at(m, loop)->block != row_at(m, m->store)->block) {
        return 0;
    }
    const st_loop_axis *k = &m->kernel->axes.data[row_at(m, loop)->ref];
    roles r;
    st_form *form = m->form;
    const st_loop_op *operands[2];
    st_loop_ref scale[2];
    if (!find_operands(m, product, operands, scale)) {
        return 0;
    }
    const st_loop_op *x = operands[0];
    const st_loop_op *y = operands[1];
    if (is_constant(m, x) && !is_constant(m, y)) {
        const st_loop_op *swapped = x;
        const st_form_zero zero = form->x_zero;
        x = y;
        y = swapped;
        form->x_zero = form->y_zero;
        form->y_zero = zero;
    }
    uint32_t unused = 0;
    const int is_linear = split_index(m, x, k, r.x, &r.x_k, &form->x.offset) &&
                          split_index(m, y, k, r.y, &r.y_k, &form->y.offset) &&
                          split_index(m, row_at(m, m->store), NULL, r.out, &unused,
                                      &form->out.offset);
    if (!is_linear || is_zero(m, r.x_k) || is_zero(m, r.y_k)) {
        return 0;
    }
    choose_roles(m, &r);
    set_buffer(m, &form->x, x);
    set_buffer(m, &form->y, y);
    set_buffer(m, &form->out, row_at(m, m->store));
    m->feature = r.n == UINT32_MAX ? UINT32_MAX : m->outer[r.n]->symbol;
    return settle_zeros(m, &r) && fill_gemm(m, &r, k) && set_constant(m) &&
           (!scale[0] || match_scales(m, scale)) && match_epilogue(m);
}

/* ---- convolution ---- */

/* Strides of a stored value, by axis. */
static int set_dims(matcher *m, st_form_operand *operand, const cg_value *v)
{
    st_symtab *tab = &m->kernel->syms->tab;
    uint32_t strides[CG_RANK_MAX];
    if (v->rank > 2u + ST_FORM_SPATIAL_MAX || !cg_strides(m->unit, v, strides)) {
        return 0;
    }
    memcpy(operand->dims, strides, v->rank * sizeof *strides);
    operand->offset = st_sym_int(tab, 0);
    return operand->offset != 0;
}

static int set_stored(matcher *m, st_form_operand *operand, stator_ref value)
{
    const cg_value *v = cg_value_of(m->unit, value);
    operand->buffer =
        v->buffer == CG_NO_BUFFER ? UINT32_MAX : cg_buffer_place(m->kernel, v->buffer);
    operand->dtype = v->dtype;
    return operand->buffer != UINT32_MAX && set_dims(m, operand, v);
}

/* conv and conv_transpose have these attributes in the same places. */
_Static_assert((int)STATOR_conv_strides == (int)STATOR_conv_transpose_strides &&
                   (int)STATOR_conv_pads == (int)STATOR_conv_transpose_pads &&
                   (int)STATOR_conv_dilations == (int)STATOR_conv_transpose_dilations &&
                   (int)STATOR_conv_groups == (int)STATOR_conv_transpose_groups,
               "one function reads both");

static int fill_conv(matcher *m, const cg_node *node)
{
    const cg_value *x = cg_value_of(m->unit, cg_operand(node, 0));
    const cg_value *w = cg_value_of(m->unit, cg_operand(node, 1));
    st_form *form = m->form;
    form->n_spatial = x->rank - 2u;
    form->images = x->dims[0];
    form->channels = x->dims[1];
    form->features = node->out->dims[1];
    form->groups = cg_attr(node, STATOR_conv_groups)->i;
    for (uint32_t i = 0; i < form->n_spatial; i++) {
        form->in[i] = x->dims[2u + i];
        form->kernel[i] = w->dims[2u + i];
        form->out_size[i] = node->out->dims[2u + i];
        form->pad_low[i] = cg_attr_dim(node, STATOR_conv_pads, i);
        form->pad_high[i] = cg_attr_dim(node, STATOR_conv_pads, i + form->n_spatial);
        form->stride[i] = cg_attr_int_at(node, STATOR_conv_strides, i);
        form->dilation[i] = cg_attr_int_at(node, STATOR_conv_dilations, i);
        if (form->pad_low[i] == 0 || form->pad_high[i] == 0) {
            return 0;
        }
    }
    return 1;
}

/* Weights of a transposed convolution are C M/G kernel. */
static void swap_weight_axes(st_form *form)
{
    const uint32_t first = form->y.dims[0];
    if (form->is_transposed) {
        form->y.dims[0] = form->y.dims[1];
        form->y.dims[1] = first;
    }
}

/* The axis of the output's second dimension, by its stride: the order of the loops is that of any value of
 * the kernel. */
static void find_feature(matcher *m, const cg_value *out)
{
    uint32_t strides[CG_RANK_MAX];
    uint32_t rest = row_at(m, m->store)->sym;
    m->feature = UINT32_MAX;
    if (out->rank < 2 || cg_is_one(m->unit, out->dims[1]) || !cg_strides(m->unit, out, strides)) {
        return;
    }
    for (uint32_t i = 0; i < m->n_outer; i++) {
        uint32_t stride = 0;
        if (st_loop_linear(m->kernel->syms, rest, m->outer[i]->symbol, &stride, &rest) &&
            stride == strides[1]) {
            m->feature = m->outer[i]->symbol;
        }
    }
}

/* `feature`: axis along which there may be one for each; CG_NO_AXIS: none. */
static int set_zero(const matcher *m, stator_ref zero, uint32_t feature, st_form_zero *out)
{
    const cg_value *v = zero ? cg_value_of(m->unit, zero) : NULL;
    if (v && (v->flags & CG_VALUE_SPLAT)) {
        *out = (st_form_zero){.value = (int32_t)v->splat.i};
    } else if (v) {
        *out = (st_form_zero){.has_buffer = 1, .dtype = v->dtype, .buffer = UINT32_MAX};
        out->buffer =
            v->buffer == CG_NO_BUFFER ? UINT32_MAX : cg_buffer_place(m->kernel, v->buffer);
        out->is_each = !cg_has_axis_alone(m->unit, v, CG_NO_AXIS);
    }
    return !out->has_buffer ||
           (out->buffer != UINT32_MAX && (!out->is_each || cg_has_axis_alone(m->unit, v, feature)));
}

/* Both operands, where they stand for bytes as these: then sums are of integers. */
static int set_bytes(matcher *m, const cg_bytes of[2])
{
    st_form *form = m->form;
    form->acc_dtype = STATOR_I32;
    if (!set_stored(m, &form->x, of[0].bytes) || !set_stored(m, &form->y, of[1].bytes) ||
        !set_zero(m, of[0].zero, CG_NO_AXIS, &form->x_zero) ||
        !set_zero(m, of[1].zero, 0, &form->y_zero)) {
        return 0;
    }
    const st_loop_op *product = row_at(m, row_at(m, m->update)->args[0]);
    st_loop_ref scale[2] = {0, 0};
    if (of[0].scale == 0) {
        return 1;
    }
    for (uint32_t k = 0; k < 2 && product->code == ST_LOOP_mul; k++) {
        const st_loop_op *scaled = row_at(m, product->args[k]);
        scale[k] = scaled->code == ST_LOOP_mul ? scaled->args[1] : 0;
    }
    return scale[0] && scale[1] && match_scales(m, scale);
}

/* As they are stored, or as bytes. */
static int set_operands(matcher *m, const cg_node *node)
{
    const stator_ref x = cg_operand(node, 0);
    const stator_ref y = cg_operand(node, 1);
    cg_bytes of[2];
    if (set_stored(m, &m->form->x, x) && set_stored(m, &m->form->y, y)) {
        return 1;
    }
    if (m->form->acc_dtype == STATOR_I32) {
        return cg_centred_of(m->unit, x, &of[0]) && cg_centred_of(m->unit, y, &of[1]) &&
               set_bytes(m, of);
    }
    return cg_is_byte_product(m->unit, node->row, of) && set_bytes(m, of);
}

/* A reshape that moves axes of size 1 shares the kernel, and has other strides. */
static int has_dims_of(const cg_value *a, const cg_value *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

static int match_conv(matcher *m, const cg_root *fold)
{
    const cg_node node = cg_node_of(m->unit, fold->node);
    const cg_value *out = NULL;
    const st_loop_buffer *stored = &m->kernel->buffers.data[row_at(m, m->store)->ref];
    for (uint32_t i = 0; i < m->plan->roots.count; i++) {
        const cg_root *root = &m->unit->roots.data[m->plan->roots.data[i]];
        const cg_value *v = cg_value_of(m->unit, root->value);
        out = v->buffer == stored->id ? v : out;
    }
    if (out == NULL || !has_dims_of(out, node.out) ||
        cg_value_of(m->unit, cg_operand(&node, 0))->rank > 2u + ST_FORM_SPATIAL_MAX ||
        !fill_conv(m, &node)) {
        return 0;
    }
    find_feature(m, out);
    if (!set_operands(m, &node)) {
        return 0;
    }
    swap_weight_axes(m->form);
    set_buffer(m, &m->form->out, row_at(m, m->store));
    return set_dims(m, &m->form->out, out) && set_constant(m) && match_epilogue(m);
}

/* ---- the question ---- */

static const cg_root *contraction_of(const cg_unit *unit, const cg_plan *plan)
{
    const cg_root *found = NULL;
    for (uint32_t i = 0; i < plan->roots.count; i++) {
        const cg_root *root = &unit->roots.data[plan->roots.data[i]];
        if (root->is_fold && (found || !root->lowering->repeats)) {
            return NULL;
        }
        found = root->is_fold ? root : found;
    }
    return found;
}

/* A node that writes its own loops. */
static int match_whole(cg_unit *unit, uint32_t plan, const st_kernel *kernel, st_form *out)
{
    const cg_root *root = &unit->roots.data[unit->plans.data[plan].roots.data[0]];
    const cg_node node = cg_node_of(unit, root->node);
    *out = (st_form){.syms = kernel->syms, .n_buffers = kernel->buffers.count};
    return root->lowering->form && root->lowering->form(unit, &node, kernel, out);
}

static int match_form(cg_unit *unit, uint32_t plan, st_kernel *kernel, st_form *out)
{
    if (unit->config->emitter->library == NULL) {
        return 0;
    }
    if (unit->plans.data[plan].is_alone) {
        return match_whole(unit, plan, kernel, out);
    }
    const cg_root *fold = contraction_of(unit, &unit->plans.data[plan]);
    if (fold == NULL) {
        return 0;
    }
    matcher m = {.unit = unit, .plan = &unit->plans.data[plan], .kernel = kernel, .form = out};
    memset(out, 0, sizeof *out);
    out->syms = kernel->syms;
    out->acc_dtype = fold->fold.dtype;
    out->n_buffers = kernel->buffers.count;
    out->is_transposed = strcmp(fold->lowering->op, "conv_transpose") == 0;
    const int is_conv = out->is_transposed || strcmp(fold->lowering->op, "conv") == 0;
    out->kind = is_conv ? ST_FORM_CONV : ST_FORM_GEMM;
    return (is_conv || cg_merge_axes(kernel)) && find_rows(&m) && find_outer(&m) &&
           (is_conv ? match_conv(&m, fold) : match_gemm(&m));
}

int cg_match(cg_unit *unit, uint32_t plan, st_kernel *kernel, st_form *out)
{
    const st_library *library = unit->config->emitter->library;
    return match_form(unit, plan, kernel, out) && library->takes(library->self, out) == 1;
}

int cg_may_match(cg_unit *unit, uint32_t plan, st_kernel *kernel)
{
    const st_library *library = unit->config->emitter->library;
    st_form form;
    if (!match_form(unit, plan, kernel, &form)) {
        return 0;
    }
    int is_taken = library->takes(library->self, &form) == 1;
    if (!is_taken && form.out.dtype == STATOR_I32) {
        form.out.dtype = STATOR_F32;
        is_taken = library->takes(library->self, &form) == 1;
    }
    return is_taken;
}
