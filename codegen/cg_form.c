/* A form in numbers and in words.
 *
 * In: a form that is filled (cg_match.c, cg_attention.c). Out: its syms in the order in which a
 * library gets their values, or the line that the log shows. */
#include "codegen/cg_match.h"

#include <string.h>

/* ---- numbers ---- */

static uint32_t add_all(uint32_t *out, uint32_t n, const uint32_t *syms, uint32_t count)
{
    memcpy(out + n, syms, count * sizeof *syms);
    return n + count;
}

static uint32_t sdpa_numbers(const st_form *form, uint32_t *out)
{
    const st_form_sdpa *s = &form->sdpa;
    const st_form_operand *const operands[5] = {&form->x, &form->y, &form->out, &s->v, &s->mask};
    const uint32_t sizes[7] = {s->batch, s->heads, s->groups, s->queries,
                               s->keys,  s->depth, s->width};
    uint32_t n = add_all(out, 0, sizes, 7);
    for (uint32_t i = 0; i < 4u + s->has_mask; i++) {
        n = add_all(out, n, &operands[i]->offset, 1);
        n = add_all(out, n, operands[i]->dims, 4);
    }
    return n;
}

static uint32_t order_numbers(const st_form *form, uint32_t *out)
{
    const st_form_order *o = &form->order;
    uint32_t n = add_all(out, 0, &form->x.offset, 1);
    n = add_all(out, n, &o->take, 1);
    for (uint32_t a = 0; a < o->rank; a++) {
        const uint32_t of_axis[4] = {o->dims[a], o->x_stride[a], o->out_stride[a],
                                     o->indices_stride[a]};
        n = add_all(out, n, of_axis, 4);
    }
    return n;
}

uint32_t st_form_numbers(const st_form *form, uint32_t out[ST_FORM_NUMBERS_MAX])
{
    const st_form_operand *const operands[3] = {&form->x, &form->y, &form->out};
    uint32_t n = 0;
    if (form->kind == ST_FORM_GEMM) {
        const uint32_t sizes[3] = {form->m, form->n, form->k};
        n = add_all(out, n, form->batch, form->n_batch);
        n = add_all(out, n, sizes, 3);
        for (uint32_t i = 0; i < 3; i++) {
            n = add_all(out, n, &operands[i]->offset, 1);
            n = add_all(out, n, operands[i]->batch, form->n_batch);
            n = add_all(out, n, operands[i]->stride, 2);
        }
        return n;
    }
    if (form->kind == ST_FORM_SDPA) {
        return sdpa_numbers(form, out);
    }
    if (form->kind == ST_FORM_ORDER) {
        return order_numbers(form, out);
    }
    const uint32_t sizes[3] = {form->images, form->channels, form->features};
    n = add_all(out, n, sizes, 3);
    n = add_all(out, n, form->in, form->n_spatial);
    n = add_all(out, n, form->kernel, form->n_spatial);
    n = add_all(out, n, form->out_size, form->n_spatial);
    n = add_all(out, n, form->pad_low, form->n_spatial);
    n = add_all(out, n, form->pad_high, form->n_spatial);
    for (uint32_t i = 0; i < 3; i++) {
        n = add_all(out, n, &operands[i]->offset, 1);
        n = add_all(out, n, operands[i]->dims, 2u + form->n_spatial);
    }
    return n;
}

uint32_t cg_buffer_place(const st_kernel *kernel, uint32_t id)
{
    for (uint32_t i = 0; i < kernel->buffers.count; i++) {
        if (!(kernel->buffers.data[i].flags & ST_BUFFER_LOCAL) &&
            kernel->buffers.data[i].id == id) {
            return i;
        }
    }
    return UINT32_MAX;
}

/* ---- in words ---- */

static void print_list(const st_form *form, const uint32_t *syms, uint32_t n, const char *before,
                       st_str *out)
{
    st_str_add(out, before);
    for (uint32_t i = 0; i < n; i++) {
        st_str_add(out, i ? "x" : "");
        st_loop_sym_print(form->syms, syms[i], out);
    }
}

static void print_zero(const st_form_zero *zero, const st_kernel *kernel, const char *of,
                       st_str *out)
{
    if (zero->has_buffer) {
        st_str_addf(out, ", zero%s of %s %s", zero->is_each ? "s" : "", of,
                    kernel->buffers.data[zero->buffer].name);
    } else if (zero->value) {
        st_str_addf(out, ", zero of %s %d", of, (int)zero->value);
    }
}

static void print_blocks(const st_form_blocks *of, const st_kernel *kernel, const char *what,
                         st_str *out)
{
    if (of->buffer == UINT32_MAX) {
        st_str_addf(out, ", %s %g", what, of->value);
        return;
    }
    st_str_addf(out, ", %s %s", what, kernel->buffers.data[of->buffer].name);
    if (of->stride[0]) {
        st_str_addf(out, " for each %lld of k", (long long)of->block[0]);
    }
}

/* What weights of few bits stand for. */
static void print_weights(const st_form_weights *weights, const st_kernel *kernel, st_str *out)
{
    if (!weights->is_scaled) {
        return;
    }
    print_blocks(&weights->scale, kernel, "weights times", out);
    if (weights->zero.buffer != UINT32_MAX || weights->zero.value != 0) {
        print_blocks(&weights->zero, kernel, "less", out);
    }
}

static void print_sdpa(const st_form *form, const st_kernel *kernel, st_str *out)
{
    const st_loop_buffer *buffers = kernel->buffers.data;
    const st_form_sdpa *s = &form->sdpa;
    const uint32_t sizes[7] = {s->batch, s->heads, s->groups, s->queries,
                               s->keys,  s->depth, s->width};
    st_str_addf(out, "call sdpa %s = %s * %s * %s", buffers[form->out.buffer].name,
                buffers[form->x.buffer].name, buffers[form->y.buffer].name,
                buffers[s->v.buffer].name);
    print_list(form, sizes, 7, ", b h g t s d e ", out);
    if (s->has_mask) {
        st_str_addf(out, ", mask %s", buffers[s->mask.buffer].name);
    }
    st_str_add(out, s->is_causal ? ", causal\n" : "\n");
}

static void print_order(const st_form *form, const st_kernel *kernel, st_str *out)
{
    const st_loop_buffer *buffers = kernel->buffers.data;
    const st_form_order *o = &form->order;
    st_str_addf(out, "call order of %s:", buffers[form->x.buffer].name);
    if (form->out.buffer != UINT32_MAX) {
        st_str_addf(out, " values %s", buffers[form->out.buffer].name);
    }
    if (o->indices != UINT32_MAX) {
        st_str_addf(out, " indices %s", buffers[o->indices].name);
    }
    print_list(form, o->dims, o->rank, ", dims ", out);
    st_str_addf(out, ", axis %u", o->axis);
    print_list(form, &o->take, 1, ", take ", out);
    st_str_add(out, o->is_falling ? ", falling\n" : "\n");
}

void cg_print_form(const st_form *form, const st_kernel *kernel, st_str *out)
{
    static const char *const names[] = {
        "",     "bias", "add",   "relu",  "scale",  "clip",  "gelu_erf", "gelu_tanh", "sigmoid",
        "tanh", "silu", "times", "times", "divide", "round", "offset",   "narrow"};
    const st_loop_buffer *buffers = kernel->buffers.data;
    if (form->kind == ST_FORM_SDPA) {
        print_sdpa(form, kernel, out);
        return;
    }
    if (form->kind == ST_FORM_ORDER) {
        print_order(form, kernel, out);
        return;
    }
    const char *const kind = form->kind == ST_FORM_GEMM ? "gemm"
                             : form->is_transposed      ? "conv_transpose"
                                                        : "conv";
    st_str_addf(out, "call %s %s = %s * %s", kind, buffers[form->out.buffer].name,
                buffers[form->x.buffer].name, buffers[form->y.buffer].name);
    if (form->kind == ST_FORM_GEMM) {
        const uint32_t sizes[3] = {form->m, form->n, form->k};
        if (form->n_batch) {
            print_list(form, form->batch, form->n_batch, ", batch ", out);
        }
        print_list(form, sizes, 3, ", m n k ", out);
    } else {
        const uint32_t sizes[3] = {form->images, form->channels, form->features};
        print_list(form, sizes, 3, ", images channels features ", out);
        print_list(form, form->in, form->n_spatial, ", in ", out);
        print_list(form, form->kernel, form->n_spatial, ", kernel ", out);
        st_str_addf(out, ", groups %lld", (long long)form->groups);
    }
    print_zero(&form->x_zero, kernel, "x", out);
    print_zero(&form->y_zero, kernel, "y", out);
    print_weights(&form->weights, kernel, out);
    for (uint32_t i = 0; i < form->n_epilogue; i++) {
        const st_epilogue *e = &form->epilogue[i];
        const int has_buffer = st_epilogue_has_buffer(e->kind);
        st_str_addf(out, ", %s%s%s", names[e->kind], has_buffer ? " " : "",
                    has_buffer ? buffers[e->buffer].name : "");
    }
    st_str_add(out, "\n");
}
