/* Recognises weights of four or eight bits in a product's operand:
 *
 *     mul (cast f32 (sub (load bytes), (load zero))), (load scale)      [rounded to f16 or bf16]
 *
 * In: a matcher whose kernel is one accumulated product. Out: st_contraction_weights, the
 * numbers known or at constant strides over n and k, or over blocks of them. All are constants
 * of the program. */
#include "codegen/match/match_contraction.h"
#include "codegen/match/matcher.h"
#include "codegen/match/quantized_values.h"

#include "core/base/check.h"
#include "core/base/sym/sym_lin.h"

/* ---- instructions ---- */

/* Does the cast keep integers of a byte, and differences of two? Unsigned types have no negative
 * ones, f8 not all of them. */
static bool keeps_bytes(const cg_matcher *m, const st_loop_inst *cast)
{
    const uint32_t to = st_dtype_class(cast->dtype);
    const uint32_t from = st_dtype_class(cg_inst_at(m, cast->args[0])->dtype);
    return !cg_is_byte(cast->dtype) &&
           (to == STATOR_CLASS_INT || (to == STATOR_CLASS_UINT && from == STATOR_CLASS_UINT) ||
            (to == STATOR_CLASS_FLOAT && st_dtype_bits(cast->dtype) >= 16));
}

/* Behind casts under which integers of a byte, and differences of two, stay what they are. */
static const st_loop_inst *behind_casts(const cg_matcher *m, const st_loop_inst *inst)
{
    while (inst->code == ST_LOOP_cast && keeps_bytes(m, inst)) {
        inst = cg_inst_at(m, inst->args[0]);
    }
    return inst;
}

/* Skips a rounding to f16 or bf16 that is widened again; *out_dtype: that dtype, else f32. */
static const st_loop_inst *behind_rounding(const cg_matcher *m, const st_loop_inst *wide,
                                           uint32_t *out_dtype)
{
    *out_dtype = STATOR_F32;
    if (wide->code != ST_LOOP_cast || wide->dtype != STATOR_F32) {
        return wide;
    }
    const st_loop_inst *narrow = cg_inst_at(m, wide->args[0]);
    if (narrow->code != ST_LOOP_cast || !cg_is_half(narrow->dtype)) {
        return wide;
    }
    const st_loop_inst *exact = cg_inst_at(m, narrow->args[0]);
    if (exact->dtype != STATOR_F32) {
        return wide;
    }
    *out_dtype = narrow->dtype;
    return exact;
}

/* A load of a constant of the program at each step. */
static bool is_constant_load(const cg_matcher *m, const st_loop_inst *inst)
{
    if (inst->code != ST_LOOP_LOAD || inst->args[0]) {
        return false;
    }
    const st_loop_buffer *of = &m->kernel->buffers.data[inst->ref];
    return !(of->flags & ST_BUFFER_LOCAL) &&
           m->unit->buffers.data[of->id].kind == CG_BUFFER_CONSTANT;
}

static bool is_number(const cg_matcher *m, const st_loop_inst *inst)
{
    return inst->code == ST_LOOP_CONST || is_constant_load(m, inst);
}

bool cg_match_weights(const cg_matcher *m, st_loop_ref ref, cg_weights *out)
{
    const st_loop_inst *product = behind_rounding(m, cg_inst_at(m, ref), &out->dtype);
    if (product->code != ST_LOOP_mul || product->dtype != STATOR_F32) {
        return false;
    }
    const st_loop_inst *whole = behind_casts(m, cg_inst_at(m, product->args[0]));
    out->scale = behind_casts(m, cg_inst_at(m, product->args[1]));
    out->zero = NULL;
    out->bytes = whole;
    if (whole->code == ST_LOOP_sub && st_dtype_class(whole->dtype) != STATOR_CLASS_UINT &&
        !cg_is_byte(whole->dtype)) {
        out->bytes = behind_casts(m, cg_inst_at(m, whole->args[0]));
        out->zero = behind_casts(m, cg_inst_at(m, whole->args[1]));
    }
    return is_constant_load(m, out->bytes) && cg_is_byte(out->bytes->dtype) &&
           is_number(m, out->scale) && !cg_is_byte(out->scale->dtype) &&
           (out->zero == NULL || is_number(m, out->zero));
}

/* ---- where they lie ---- */

/* Takes quotients of axes, floor(k / 32), out of *rest: their strides and divisors. 0: one of them
 * is none that a contraction has. */
static bool take_quotients(const cg_matcher *m, const cg_walks *walks, uint32_t *rest,
                           st_contraction_blocks *out)
{
    st_symtab *tab = &m->kernel->syms->tab;
    const st_loop_axis *const axes[2] = {walks->n_k == 1 ? walks->k[0] : NULL, walks->n};
    const stator_sym_row row = *st_sym_row_at(tab, *rest);
    for (uint32_t i = 0; i < row.term_count; i++) {
        const stator_term_row term = *st_sym_term(tab, &row, i);
        const stator_atom_row atom = *st_atom_at(tab, term.atom);
        uint32_t a = 0;
        if (atom.kind == STATOR_ATOM_SYMBOL) {
            continue;
        }
        while (a < 2 && (axes[a] == NULL || atom.a != axes[a]->sym)) {
            a++;
        }
        if (atom.kind != STATOR_ATOM_FLOORDIV || a == 2 || out->stride[a] ||
            !st_sym_const(tab, atom.b, &out->block[a])) {
            return false;
        }
        out->stride[a] = term.coef;
        const uint32_t quotient = st_sym_floordiv(tab, atom.a, atom.b);
        *rest = st_sym_sub(tab, *rest, st_sym_mul(tab, quotient, st_sym_int(tab, term.coef)));
    }
    return *rest != 0;
}

/* Takes the axis out of *rest: its stride and a divisor of 1, or what its quotient has. 0: it has
 * both, or the stride is no number. */
static bool take_axis(const cg_matcher *m, const st_loop_axis *axis, uint32_t *rest,
                      int64_t *stride, int64_t *block)
{
    uint32_t sym = 0;
    int64_t number = 0;
    if (axis == NULL) {
        return true;
    }
    if (!st_loop_linear(m->kernel->syms, *rest, axis->symbol, &sym, rest) ||
        !st_sym_const(&m->kernel->syms->tab, sym, &number) || (number && *stride)) {
        return false;
    }
    *stride = number ? number : *stride;
    *block = number ? 1 : *block;
    return true;
}

/* Strides over k and n or blocks of them; 0: there are none. */
static bool locate_load(const cg_matcher *m, const cg_walks *walks, const st_loop_inst *load,
                        st_contraction_blocks *out)
{
    const st_symtab *tab = &m->kernel->syms->tab;
    uint32_t rest = load->sym;
    int64_t of_blocks = 0;
    int64_t size = 1;
    if (!take_quotients(m, walks, &rest, out) ||
        !take_axis(m, walks->n, &rest, &out->stride[1], &out->block[1]) ||
        !take_axis(m, walks->k[0], &rest, &out->stride[0], &out->block[0])) {
        return false;
    }
    if (walks->n_k == 2) {
        if (!take_axis(m, walks->k[1], &rest, &of_blocks, &size) ||
            !st_sym_const(tab, walks->k[0]->extent, &size) ||
            (out->stride[0] && of_blocks != out->stride[0] * size)) {
            return false;
        }
        out->block[0] = out->stride[0] ? 1 : size;
        out->stride[0] = out->stride[0] ? out->stride[0] : of_blocks;
    }
    return st_sym_const(tab, rest, &out->offset);
}

bool cg_read_constant(const cg_matcher *m, uint32_t buffer, const void **out_data)
{
    const cg_buffer *of = &m->unit->buffers.data[m->kernel->buffers.data[buffer].id];
    stator_diag *err = NULL;
    const stator_status status =
        cg_constant_data(m->unit->config, m->unit->blobs.data[of->index], out_data, &err);
    m->unit->host->diag->release(err);
    m->unit->is_oom |= status == STATOR_RESOURCE_EXHAUSTED;
    return status == STATOR_OK;
}

static bool locate_number(cg_matcher *m, const cg_walks *walks, const st_loop_inst *inst,
                          st_contraction_blocks *out)
{
    *out = (st_contraction_blocks){.buffer = UINT32_MAX, .block = {1, 1}};
    if (inst == NULL) {
        return true;
    }
    if (inst->code == ST_LOOP_CONST) {
        const bool is_float = st_loop_class_of(inst->dtype) == ST_LOOP_FLOATS;
        out->value = is_float ? inst->imm.f : (double)inst->imm.i;
        return true;
    }
    out->buffer = inst->ref;
    out->dtype = m->kernel->buffers.data[inst->ref].dtype;
    return cg_read_constant(m, inst->ref, &out->data) && locate_load(m, walks, inst, out);
}

bool cg_locate_weights(cg_matcher *m, const cg_weights *of, const cg_walks *walks)
{
    st_contraction_weights *to = &m->contraction->weights;
    to->is_scaled = 1;
    to->dtype = of->dtype;
    return locate_number(m, walks, of->scale, &to->scale) &&
           locate_number(m, walks, of->zero, &to->zero);
}
