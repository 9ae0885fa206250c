/* Recognises contractions in kernels, for an emitter's library.
 *
 * GEMM, after axes are merged:
 *     loop .. outer axes                          batch, m, n by which operands walk them
 *       acc sum
 *       loop k reduce
 *         update acc, mul (load x), (load y)
 *       store out, epilogue(read acc)
 * Convolution: the group's fold is the op `conv`, or a gradient of it, and its operands are
 * stored as they are; the epilogue is read off the kernel in the same way (match_epilogue.c).
 * What does not fit stays loops. */
#include "codegen/match/match_contraction.h"
#include "codegen/match/matcher.h"
#include "codegen/match/quantized_values.h"
#include "codegen/target/contraction_desc.h"

#include <stator/ops.h>
#include <string.h>

/* ---- the skeleton of the kernel ---- */

/* One store, one accumulator with one update and one read, one nest of loops. */
static bool find_insts(cg_matcher *m)
{
    uint32_t n[ST_LOOP_CODE_COUNT] = {0};
    for (uint32_t block = 0; block < m->kernel->blocks.count; block++) {
        for (st_loop_ref ref = m->kernel->blocks.data[block].first; ref;
             ref = cg_inst_at(m, ref)->next) {
            const st_loop_inst *inst = cg_inst_at(m, ref);
            n[inst->code]++;
            m->store = inst->code == ST_LOOP_STORE ? ref : m->store;
            m->read = inst->code == ST_LOOP_READ ? ref : m->read;
            m->update = inst->code == ST_LOOP_UPDATE ? ref : m->update;
        }
    }
    return n[ST_LOOP_STORE] == 1 && n[ST_LOOP_ACC] == 1 && n[ST_LOOP_UPDATE] == 1 &&
           n[ST_LOOP_READ] == 1 && n[ST_LOOP_BIND] == 0 && n[ST_LOOP_CHECK] == 0 &&
           cg_inst_at(m, m->store)->args[1] == 0 &&
           cg_inst_at(m, cg_inst_at(m, m->update)->ref)->imm.i == ST_ACC_SUM;
}

/* The loops around the store, outermost first. */
static bool find_outer(cg_matcher *m)
{
    uint32_t block = cg_inst_at(m, m->store)->block;
    while (m->kernel->blocks.data[block].loop) {
        const st_loop_inst *loop = cg_inst_at(m, m->kernel->blocks.data[block].loop);
        if (m->n_outer == CG_MATCH_AXES) {
            return false;
        }
        memmove(m->outer + 1, m->outer, m->n_outer * sizeof m->outer[0]);
        m->outer[0] = &m->kernel->axes.data[loop->ref];
        m->n_outer++;
        block = loop->block;
    }
    return true;
}

/* ---- operands ---- */

static void set_buffer(cg_matcher *m, st_contraction_operand *operand, const st_loop_inst *inst)
{
    operand->buffer = inst->ref;
    operand->dtype = m->kernel->buffers.data[inst->ref].dtype;
}

static bool set_constant(cg_matcher *m)
{
    const uint32_t y = m->contraction->y.buffer;
    const bool is_constant =
        m->unit->buffers.data[m->kernel->buffers.data[y].id].kind == CG_BUFFER_CONSTANT;
    return !is_constant || cg_read_constant(m, y, &m->contraction->y_data);
}

static bool is_constant(const cg_matcher *m, const st_loop_inst *load)
{
    const st_loop_buffer *of = &m->kernel->buffers.data[load->ref];
    return m->unit->buffers.data[of->id].kind == CG_BUFFER_CONSTANT;
}

/* ---- integers ---- */

/* Widened by a cast: the instruction before it when that is of bytes, else NULL. */
static const st_loop_inst *before_widening(const cg_matcher *m, st_loop_ref ref)
{
    const st_loop_inst *inst = cg_inst_at(m, ref);
    if (inst->code != ST_LOOP_cast || inst->dtype != STATOR_I32) {
        return NULL;
    }
    const st_loop_inst *narrow = cg_inst_at(m, inst->args[0]);
    return cg_is_byte(narrow->dtype) ? narrow : NULL;
}

/* 1 + the outer axis that the load walks alone, one element a step; 0: there is none. */
static uint32_t axis_walked(const cg_matcher *m, const st_loop_inst *load)
{
    for (uint32_t i = 0; i < m->n_outer; i++) {
        if (m->kernel->syms->symbols.data[m->outer[i]->symbol].sym == load->sym) {
            return 1u + i;
        }
    }
    return 0;
}

/* A number for all elements, known or the first of a buffer; or (is_each) one for each step of an
 * axis. */
static bool match_zero(const cg_matcher *m, st_loop_ref ref, st_contraction_zero *out)
{
    const st_loop_inst *inst = cg_inst_at(m, ref);
    const st_loop_inst *narrow = before_widening(m, ref);
    const st_loop_inst *load = narrow ? narrow : inst;
    if (load->code == ST_LOOP_CONST && (narrow || inst->dtype == STATOR_I32)) {
        *out = (st_contraction_zero){.value = (int32_t)load->imm.i};
        return true;
    }
    if (load->code != ST_LOOP_LOAD || load->args[0]) {
        return false;
    }
    *out = (st_contraction_zero){
        .has_buffer = 1, .buffer = load->ref, .dtype = m->kernel->buffers.data[load->ref].dtype};
    out->is_each = cg_loads_first(m, load) ? 0 : axis_walked(m, load);
    return out->is_each || cg_loads_first(m, load);
}

/* The instruction before the bytes are widened to i32 and their zero point is subtracted; NULL:
 * there is none. */
static const st_loop_inst *bytes_of(const cg_matcher *m, st_loop_ref ref, st_contraction_zero *zero)
{
    const st_loop_inst *inst = cg_inst_at(m, ref);
    if (inst->code != ST_LOOP_sub) {
        return before_widening(m, ref);
    }
    const st_loop_inst *bytes = before_widening(m, inst->args[0]);
    return bytes && match_zero(m, inst->args[1], zero) ? bytes : NULL;
}

/* The load of an operand, its zero point apart; NULL: it is none. */
static const st_loop_inst *operand_of(const cg_matcher *m, st_loop_ref ref,
                                      st_contraction_zero *zero)
{
    const st_loop_inst *inst =
        m->contraction->acc_dtype == STATOR_I32 ? bytes_of(m, ref, zero) : cg_through_cast(m, ref);
    return inst && inst->code == ST_LOOP_LOAD && !inst->args[0] ? inst : NULL;
}

/* The same for f32 that stands for bytes: their load, NULL: it is none. *out_scale: what they are
 * multiplied with. */
static const st_loop_inst *scaled_of(const cg_matcher *m, st_loop_ref ref,
                                     st_contraction_zero *zero, st_loop_ref *out_scale)
{
    const st_loop_inst *inst = cg_inst_at(m, ref);
    const st_loop_inst *wide = inst->code == ST_LOOP_mul ? cg_inst_at(m, inst->args[0]) : inst;
    if (inst->code != ST_LOOP_mul || wide->code != ST_LOOP_cast || wide->dtype != STATOR_F32) {
        return NULL;
    }
    const st_loop_inst *bytes = cg_inst_at(m, wide->args[0]);
    bytes = cg_is_byte(bytes->dtype) ? bytes : bytes_of(m, wide->args[0], zero);
    *out_scale = inst->args[1];
    return bytes && bytes->code == ST_LOOP_LOAD && !bytes->args[0] ? bytes : NULL;
}

/* ---- GEMM ---- */

/* Coefficients of the outer axes and of k in the instruction's index; the rest is the offset. */
static bool split_index(const cg_matcher *m, const st_loop_inst *inst, const cg_walks *walks,
                        uint32_t *coefs, uint32_t *out_k, uint32_t *out_offset)
{
    uint32_t rest = inst->sym;
    uint32_t of_blocks = 0;
    for (uint32_t i = 0; i < m->n_outer; i++) {
        if (!st_loop_linear(m->kernel->syms, rest, m->outer[i]->symbol, &coefs[i], &rest)) {
            return false;
        }
    }
    if (walks && !st_loop_linear(m->kernel->syms, rest, walks->k[0]->symbol, out_k, &rest)) {
        return false;
    }
    if (walks && walks->n_k == 2 &&
        (!st_loop_linear(m->kernel->syms, rest, walks->k[1]->symbol, &of_blocks, &rest) ||
         of_blocks != st_sym_mul(&m->kernel->syms->tab, *out_k, walks->k[0]->extent))) {
        return false;
    }
    *out_offset = rest;
    return true;
}

static bool is_zero(const cg_matcher *m, uint32_t sym)
{
    return st_loop_known_or(&m->kernel->syms->tab, sym, 1) == 0;
}

typedef struct roles {
    uint32_t x[CG_MATCH_AXES], y[CG_MATCH_AXES], out[CG_MATCH_AXES];
    uint32_t x_k, y_k;
    uint32_t m, n; /* axes, UINT32_MAX: of size 1 */
    cg_walks walks;
} roles;

/* The last axis that one operand alone walks; the others become batch axes with stride 0. */
static void choose_roles(const cg_matcher *m, roles *r)
{
    r->m = UINT32_MAX;
    r->n = UINT32_MAX;
    for (uint32_t i = 0; i < m->n_outer; i++) {
        const bool in_x = !is_zero(m, r->x[i]);
        const bool in_y = !is_zero(m, r->y[i]);
        if (in_x && !in_y) {
            r->m = i;
        } else if (in_y && !in_x) {
            r->n = i;
        }
    }
}

/* Numbers of their own are of rows of x and of columns of y. */
static bool check_zero_axes(cg_matcher *m, const roles *r)
{
    st_contraction_zero *const zeros[2] = {&m->contraction->x_zero, &m->contraction->y_zero};
    const uint32_t axes[2] = {r->m, r->n};
    bool is_sound = true;
    for (uint32_t k = 0; k < 2; k++) {
        is_sound = is_sound && (!zeros[k]->is_each || zeros[k]->is_each - 1u == axes[k]);
        zeros[k]->is_each = zeros[k]->is_each != 0;
    }
    return is_sound;
}

static bool fill_gemm(cg_matcher *m, const roles *r)
{
    st_contraction *contraction = m->contraction;
    st_symtab *tab = &m->kernel->syms->tab;
    const cg_walks *walks = &r->walks;
    const uint32_t zero = st_sym_int(tab, 0);
    const uint32_t one = st_sym_int(tab, 1);
    contraction->k = walks->n_k == 2 ? st_sym_mul(tab, walks->k[0]->extent, walks->k[1]->extent)
                                     : walks->k[0]->extent;
    contraction->m = r->m == UINT32_MAX ? one : m->outer[r->m]->extent;
    contraction->n = r->n == UINT32_MAX ? one : m->outer[r->n]->extent;
    contraction->x.stride[0] = r->m == UINT32_MAX ? zero : r->x[r->m];
    contraction->x.stride[1] = r->x_k;
    contraction->y.stride[0] = r->y_k;
    contraction->y.stride[1] = r->n == UINT32_MAX ? zero : r->y[r->n];
    contraction->out.stride[0] = r->m == UINT32_MAX ? zero : r->out[r->m];
    contraction->out.stride[1] = r->n == UINT32_MAX ? zero : r->out[r->n];
    for (uint32_t i = 0; i < m->n_outer; i++) {
        if (i == r->m || i == r->n) {
            continue;
        }
        if (contraction->n_batch == ST_CONTRACTION_BATCH_MAX) {
            return false;
        }
        contraction->x.batch[contraction->n_batch] = r->x[i];
        contraction->y.batch[contraction->n_batch] = r->y[i];
        contraction->out.batch[contraction->n_batch] = r->out[i];
        contraction->batch[contraction->n_batch++] = m->outer[i]->extent;
    }
    return zero && one && contraction->k;
}

/* The two factors of a product: their loads, scales and weights. */
typedef struct operands {
    const st_loop_inst *of[2];
    st_loop_ref scale[2]; /* scales of operands of bytes */
    bool has_weights;     /* the second operand is weights of few bits: */
    cg_weights weights;
} operands;

/* One operand as it is loaded, the other one weights of few bits. */
static bool find_weights(const cg_matcher *m, const st_loop_inst *product, operands *out)
{
    for (uint32_t k = 0; k < 2; k++) {
        st_contraction_zero unused;
        const st_loop_inst *x = operand_of(m, product->args[1u - k], &unused);
        if (x && cg_match_weights(m, product->args[k], &out->weights)) {
            out->of[0] = x;
            out->of[1] = out->weights.bytes;
            out->has_weights = true;
            return true;
        }
    }
    return false;
}

/* Both operands of the product: as they are loaded, or as the bytes that they stand for. */
static bool find_operands(cg_matcher *m, const st_loop_inst *product, operands *out)
{
    st_contraction_zero *const zeros[2] = {&m->contraction->x_zero, &m->contraction->y_zero};
    *out = (operands){.has_weights = false};
    for (uint32_t k = 0; k < 2; k++) {
        out->of[k] = operand_of(m, product->args[k], zeros[k]);
    }
    if (out->of[0] && out->of[1]) {
        return true;
    }
    if (m->contraction->acc_dtype != STATOR_F32) {
        return false;
    }
    if (find_weights(m, product, out)) {
        return true;
    }
    for (uint32_t k = 0; k < 2; k++) {
        out->of[k] = scaled_of(m, product->args[k], zeros[k], &out->scale[k]);
    }
    m->contraction->acc_dtype =
        out->of[0] && out->of[1] ? (uint32_t)STATOR_I32 : m->contraction->acc_dtype;
    return out->of[0] && out->of[1];
}

/* The loops between the store's block and the update's. 0: none, or more than a contraction has. */
static bool find_walks(const cg_matcher *m, cg_walks *out)
{
    uint32_t block = cg_inst_at(m, m->update)->block;
    *out = (cg_walks){.n_k = 0};
    while (block != cg_inst_at(m, m->store)->block) {
        const st_loop_ref loop = m->kernel->blocks.data[block].loop;
        if (loop == 0 || out->n_k == 2) {
            return false;
        }
        out->k[out->n_k++] = &m->kernel->axes.data[cg_inst_at(m, loop)->ref];
        block = cg_inst_at(m, loop)->block;
    }
    return out->n_k != 0;
}

/* A constant comes second. */
static void swap_operands(const cg_matcher *m, operands *o)
{
    if (!o->has_weights && is_constant(m, o->of[0]) && !is_constant(m, o->of[1])) {
        st_contraction *contraction = m->contraction;
        const st_loop_inst *swapped = o->of[0];
        const st_contraction_zero zero = contraction->x_zero;
        o->of[0] = o->of[1];
        o->of[1] = swapped;
        contraction->x_zero = contraction->y_zero;
        contraction->y_zero = zero;
    }
}

static bool match_gemm(cg_matcher *m)
{
    const st_loop_inst *update = cg_inst_at(m, m->update);
    const st_loop_inst *product = cg_inst_at(m, update->args[0]);
    roles r;
    operands o;
    st_contraction *contraction = m->contraction;
    if (update->args[2] || product->code != ST_LOOP_mul || !find_walks(m, &r.walks) ||
        !find_operands(m, product, &o) || (r.walks.n_k > 1 && !o.has_weights)) {
        return false;
    }
    swap_operands(m, &o);
    const st_loop_inst *x = o.of[0];
    const st_loop_inst *y = o.of[1];
    uint32_t unused = 0;
    const bool is_linear =
        split_index(m, x, &r.walks, r.x, &r.x_k, &contraction->x.offset) &&
        split_index(m, y, &r.walks, r.y, &r.y_k, &contraction->y.offset) &&
        split_index(m, cg_inst_at(m, m->store), NULL, r.out, &unused, &contraction->out.offset);
    if (!is_linear || is_zero(m, r.x_k) || is_zero(m, r.y_k)) {
        return false;
    }
    choose_roles(m, &r);
    set_buffer(m, &contraction->x, x);
    set_buffer(m, &contraction->y, y);
    set_buffer(m, &contraction->out, cg_inst_at(m, m->store));
    r.walks.n = r.n == UINT32_MAX ? NULL : m->outer[r.n];
    m->feature = r.walks.n ? r.walks.n->symbol : UINT32_MAX;
    return check_zero_axes(m, &r) && fill_gemm(m, &r) && set_constant(m) &&
           (!o.has_weights || cg_locate_weights(m, &o.weights, &r.walks)) &&
           (!o.scale[0] || cg_match_scales(m, o.scale)) && cg_match_epilogue(m);
}

/* ---- convolution ---- */

/* Strides of a stored value, by axis. */
static bool set_dims(cg_matcher *m, st_contraction_operand *operand, const cg_value *v)
{
    st_symtab *tab = &m->kernel->syms->tab;
    uint32_t strides[CG_RANK_MAX];
    if (v->rank > 2u + ST_CONTRACTION_SPATIAL_MAX || !cg_strides(m->unit, v, strides)) {
        return false;
    }
    memcpy(operand->dims, strides, v->rank * sizeof *strides);
    operand->offset = st_sym_int(tab, 0);
    return operand->offset != 0;
}

static bool set_stored(cg_matcher *m, st_contraction_operand *operand, stator_ref value)
{
    const cg_value *v = cg_value_of(m->unit, value);
    operand->buffer =
        v->buffer == CG_NO_BUFFER ? UINT32_MAX : cg_buffer_index(m->kernel, v->buffer);
    operand->dtype = v->dtype;
    return operand->buffer != UINT32_MAX && set_dims(m, operand, v);
}

/* conv and conv_transpose have these attributes at the same indices, conv_weight_grad all of them
 * at one index more. */
#define CONV_ATTRS(op, of)                                                                         \
    ((int)STATOR_conv_strides + (of) == (int)STATOR_##op##_strides &&                              \
     (int)STATOR_conv_pads + (of) == (int)STATOR_##op##_pads &&                                    \
     (int)STATOR_conv_dilations + (of) == (int)STATOR_##op##_dilations &&                          \
     (int)STATOR_conv_groups + (of) == (int)STATOR_##op##_groups)
_Static_assert(CONV_ATTRS(conv_transpose, 0) && CONV_ATTRS(conv_weight_grad, 1),
               "one function reads all");

static bool fill_conv(cg_matcher *m, const cg_node *node)
{
    st_contraction *contraction = m->contraction;
    const uint32_t attr = contraction->is_weight_grad;
    const cg_value *x = cg_value_of(m->unit, cg_operand(node, 0));
    const cg_value *y = cg_value_of(m->unit, cg_operand(node, 1));
    const cg_value *w = contraction->is_weight_grad ? node->out : y;
    const cg_value *out = contraction->is_weight_grad ? y : node->out;
    contraction->n_spatial = x->rank - 2u;
    contraction->images = x->dims[0];
    contraction->channels = x->dims[1];
    contraction->features = out->dims[1];
    contraction->groups = cg_attr(node, attr + STATOR_conv_groups)->i;
    for (uint32_t i = 0; i < contraction->n_spatial; i++) {
        contraction->in[i] = x->dims[2u + i];
        contraction->kernel[i] = w->dims[2u + i];
        contraction->out_size[i] = out->dims[2u + i];
        contraction->pad_low[i] = cg_attr_dim(node, attr + STATOR_conv_pads, i);
        contraction->pad_high[i] =
            cg_attr_dim(node, attr + STATOR_conv_pads, i + contraction->n_spatial);
        contraction->stride[i] = cg_attr_int_at(node, attr + STATOR_conv_strides, i);
        contraction->dilation[i] = cg_attr_int_at(node, attr + STATOR_conv_dilations, i);
        if (contraction->pad_low[i] == 0 || contraction->pad_high[i] == 0) {
            return false;
        }
    }
    return true;
}

/* Weights of a transposed convolution are C M/G kernel. */
static void swap_weight_axes(st_contraction *contraction)
{
    const uint32_t first = contraction->y.dims[0];
    if (contraction->is_transposed) {
        contraction->y.dims[0] = contraction->y.dims[1];
        contraction->y.dims[1] = first;
    }
}

/* The axis of the output's second dimension, by its stride: the order of the loops is that of any
 * value of the kernel. A gradient to the weight has no bias, and so no such axis. */
static void find_feature(cg_matcher *m, const cg_value *out)
{
    uint32_t strides[CG_RANK_MAX];
    uint32_t rest = cg_inst_at(m, m->store)->sym;
    m->feature = UINT32_MAX;
    if (m->contraction->is_weight_grad || out->rank < 2 || cg_is_one(m->unit, out->dims[1]) ||
        !cg_strides(m->unit, out, strides)) {
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
static bool set_zero(const cg_matcher *m, stator_ref zero, uint32_t feature,
                     st_contraction_zero *out)
{
    const cg_value *v = zero ? cg_value_of(m->unit, zero) : NULL;
    if (v && (v->flags & CG_VALUE_SPLAT)) {
        *out = (st_contraction_zero){.value = (int32_t)v->splat.i};
    } else if (v) {
        *out = (st_contraction_zero){.has_buffer = 1, .dtype = v->dtype, .buffer = UINT32_MAX};
        out->buffer =
            v->buffer == CG_NO_BUFFER ? UINT32_MAX : cg_buffer_index(m->kernel, v->buffer);
        out->is_each = !cg_has_axis_alone(m->unit, v, CG_NO_AXIS);
    }
    return !out->has_buffer ||
           (out->buffer != UINT32_MAX && (!out->is_each || cg_has_axis_alone(m->unit, v, feature)));
}

/* Both operands, where they stand for bytes as these: then sums are of integers. */
static bool set_bytes(cg_matcher *m, const cg_bytes of[2])
{
    st_contraction *contraction = m->contraction;
    contraction->acc_dtype = STATOR_I32;
    if (!set_stored(m, &contraction->x, of[0].bytes) ||
        !set_stored(m, &contraction->y, of[1].bytes) ||
        !set_zero(m, of[0].zero, CG_NO_AXIS, &contraction->x_zero) ||
        !set_zero(m, of[1].zero, contraction->is_transposed, &contraction->y_zero)) {
        return false;
    }
    const st_loop_inst *product = cg_inst_at(m, cg_inst_at(m, m->update)->args[0]);
    st_loop_ref scale[2] = {0, 0};
    if (of[0].scale == 0) {
        return true;
    }
    for (uint32_t k = 0; k < 2 && product->code == ST_LOOP_mul; k++) {
        const st_loop_inst *scaled = cg_inst_at(m, product->args[k]);
        scale[k] = scaled->code == ST_LOOP_mul ? scaled->args[1] : 0;
    }
    return scale[0] && scale[1] && cg_match_scales(m, scale);
}

/* Sets x and y as they are stored, or as bytes. */
static bool set_operands(cg_matcher *m, const cg_node *node)
{
    const stator_ref x = cg_operand(node, 0);
    const stator_ref y = cg_operand(node, 1);
    cg_bytes of[2];
    if (set_stored(m, &m->contraction->x, x) && set_stored(m, &m->contraction->y, y)) {
        return true;
    }
    if (m->contraction->acc_dtype == STATOR_I32) {
        return cg_centred_of(m->unit, x, &of[0]) && cg_centred_of(m->unit, y, &of[1]) &&
               set_bytes(m, of);
    }
    return cg_is_byte_product(m->unit, node->row, of) && set_bytes(m, of);
}

static bool match_conv(cg_matcher *m, const cg_root *fold)
{
    const cg_node node = cg_node_of(m->unit, fold->node);
    const cg_value *out = NULL;
    const st_loop_buffer *stored = &m->kernel->buffers.data[cg_inst_at(m, m->store)->ref];
    for (uint32_t i = 0; i < m->group->roots.count; i++) {
        const cg_root *root = &m->unit->roots.data[m->group->roots.data[i]];
        const cg_value *v = cg_value_of(m->unit, root->value);
        out = v->buffer == stored->id ? v : out;
    }
    /* A reshape that moves axes of size 1 shares the kernel, and has other strides. */
    if (out == NULL || !cg_same_shape(out, node.out) ||
        cg_value_of(m->unit, cg_operand(&node, 0))->rank > 2u + ST_CONTRACTION_SPATIAL_MAX ||
        !fill_conv(m, &node)) {
        return false;
    }
    find_feature(m, out);
    if (!set_operands(m, &node)) {
        return false;
    }
    swap_weight_axes(m->contraction);
    set_buffer(m, &m->contraction->out, cg_inst_at(m, m->store));
    return set_dims(m, &m->contraction->out, out) && set_constant(m) && cg_match_epilogue(m);
}

/* ---- the question ---- */

static const cg_root *contraction_of(const cg_unit *unit, const cg_fusion_group *group)
{
    const cg_root *found = NULL;
    for (uint32_t i = 0; i < group->roots.count; i++) {
        const cg_root *root = &unit->roots.data[group->roots.data[i]];
        if (root->is_fold && (found || !root->lowering->repeats)) {
            return NULL;
        }
        found = root->is_fold ? root : found;
    }
    return found;
}

/* A node that writes its own loops. */
static bool match_whole(cg_unit *unit, uint32_t group, const st_kernel *kernel, st_contraction *out)
{
    const cg_root *root = &unit->roots.data[unit->groups.data[group].roots.data[0]];
    const cg_node node = cg_node_of(unit, root->node);
    *out = (st_contraction){.syms = kernel->syms, .n_buffers = kernel->buffers.count};
    return root->lowering->contraction && cg_has_library(unit->config, root->lowering) &&
           root->lowering->contraction(unit, &node, kernel, out);
}

bool cg_has_library(const st_cg_config *config, const cg_lowering *lowering)
{
    const st_emitter *emitter = config->emitter;
    const bool is_for_host = lowering->is_slow && (emitter->flags & ST_EMITTER_HOST);
    return lowering->is_fixed ? is_for_host || emitter->fixed : emitter->library != NULL;
}

bool cg_may_be_library(const cg_unit *unit, const cg_root *root)
{
    const cg_lowering *lowering = root->lowering;
    return lowering && (lowering->contraction || (root->is_fold && lowering->repeats)) &&
           cg_has_library(unit->config, lowering);
}

/* The group's fold as a convolution or a gradient of one, or as a product. */
static bool match_fold(cg_unit *unit, uint32_t group, st_kernel *kernel, const cg_root *fold,
                       uint32_t kind, st_contraction *out)
{
    const uint32_t op = stator_node_at(unit->view, fold->node)->op;
    const bool is_conv = kind == ST_CONTRACTION_CONV;
    cg_matcher m = {
        .unit = unit, .group = &unit->groups.data[group], .kernel = kernel, .contraction = out};
    memset(out, 0, sizeof *out);
    out->kind = kind;
    out->syms = kernel->syms;
    out->acc_dtype = fold->fold.dtype;
    out->f32_products = unit->config->emitter->target.f32_products;
    out->n_buffers = kernel->buffers.count;
    out->is_transposed = is_conv && op == STATOR_OPCODE_conv_transpose;
    out->is_weight_grad = is_conv && op == STATOR_OPCODE_conv_weight_grad;
    if (!is_conv && !st_kernel_merge_axes(kernel)) {
        unit->is_oom = true;
        return false;
    }
    return find_insts(&m) && find_outer(&m) && (is_conv ? match_conv(&m, fold) : match_gemm(&m));
}

static bool match_contraction(cg_unit *unit, uint32_t group, st_kernel *kernel, st_contraction *out)
{
    if (unit->groups.data[group].is_alone) {
        return match_whole(unit, group, kernel, out);
    }
    if (unit->config->emitter->library == NULL) {
        return false;
    }
    const cg_root *fold = contraction_of(unit, &unit->groups.data[group]);
    if (fold == NULL) {
        return false;
    }
    const uint32_t op = stator_node_at(unit->view, fold->node)->op;
    if (op == STATOR_OPCODE_conv || op == STATOR_OPCODE_conv_transpose) {
        return match_fold(unit, group, kernel, fold, ST_CONTRACTION_CONV, out);
    }
    /* The gradient to weights of one place is a product where the pixels are one axis. */
    return match_fold(unit, group, kernel, fold, ST_CONTRACTION_GEMM, out) ||
           (op == STATOR_OPCODE_conv_weight_grad && !unit->is_oom &&
            match_fold(unit, group, kernel, fold, ST_CONTRACTION_CONV, out));
}

static bool is_taken(const cg_unit *unit, const st_contraction *contraction)
{
    const st_emitter *emitter = unit->config->emitter;
    const bool is_fixed = st_contraction_is_fixed(contraction->kind);
    const st_library *library = is_fixed ? emitter->fixed : emitter->library;
    return library ? library->takes(library->self, contraction) == 1 : is_fixed; /* the host's */
}

stator_status cg_match(cg_unit *unit, uint32_t group, st_kernel *kernel, st_contraction *out,
                       bool *out_is_taken, stator_diag **err)
{
    *out_is_taken = match_contraction(unit, group, kernel, out) && is_taken(unit, out);
    ST_TRY_MEM(!unit->is_oom, err);
    return STATOR_OK;
}

stator_status cg_may_match(cg_unit *unit, uint32_t group, st_kernel *kernel, bool *out_is_taken,
                           stator_diag **err)
{
    st_contraction contraction;
    *out_is_taken = match_contraction(unit, group, kernel, &contraction);
    ST_TRY_MEM(!unit->is_oom, err);
    if (*out_is_taken && !is_taken(unit, &contraction)) {
        *out_is_taken = contraction.out.dtype == STATOR_I32;
        contraction.out.dtype = STATOR_F32;
        *out_is_taken = *out_is_taken && is_taken(unit, &contraction);
    }
    return STATOR_OK;
}
