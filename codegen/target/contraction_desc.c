/* The description of a contraction, in numbers and in words.
 *
 * In: a contraction that is filled (match_contraction.c, attention.c). Out: its syms in the
 * order in which a library gets their values, or the line that the log shows. */
#include "codegen/target/contraction_desc.h"

#include <string.h>

/* ---- numbers ---- */

static uint32_t add_all(uint32_t *out, uint32_t n, const uint32_t *syms, uint32_t count)
{
    memcpy(out + n, syms, count * sizeof *syms);
    return n + count;
}

static uint32_t sdpa_numbers(const st_contraction *contraction, uint32_t *out)
{
    const st_contraction_sdpa *s = &contraction->sdpa;
    const bool is_gradient = contraction->kind == ST_CONTRACTION_SDPA_GRADIENT;
    const st_contraction_operand *const operands[8] = {
        &contraction->x, &contraction->y, &contraction->out, &s->v, is_gradient ? &s->dy : &s->mask,
        &s->dk,          &s->dv,          &s->mask};
    const uint32_t sizes[7] = {s->batch, s->heads, s->groups, s->queries,
                               s->keys,  s->depth, s->width};
    uint32_t n = add_all(out, 0, sizes, 7);
    for (uint32_t i = 0; i < (is_gradient ? 7u : 4u) + s->has_mask; i++) {
        n = add_all(out, n, &operands[i]->offset, 1);
        n = add_all(out, n, operands[i]->dims, 4);
    }
    return n;
}

static uint32_t order_numbers(const st_contraction *contraction, uint32_t *out)
{
    const st_contraction_order *o = &contraction->order;
    uint32_t n = add_all(out, 0, &contraction->x.offset, 1);
    n = add_all(out, n, &o->take, 1);
    for (uint32_t a = 0; a < o->rank; a++) {
        const uint32_t of_axis[4] = {o->dims[a], o->x_stride[a], o->out_stride[a],
                                     o->indices_stride[a]};
        n = add_all(out, n, of_axis, 4);
    }
    return n;
}

static uint32_t cumulate_numbers(const st_contraction *contraction, uint32_t *out)
{
    const st_contraction_cumulate *c = &contraction->cumulate;
    uint32_t n = add_all(out, 0, &contraction->x.offset, 1);
    for (uint32_t a = 0; a < c->rank; a++) {
        const uint32_t of_axis[3] = {c->dims[a], c->x_stride[a], c->out_stride[a]};
        n = add_all(out, n, of_axis, 3);
    }
    return n;
}

static uint32_t scatter_numbers(const st_contraction *contraction, uint32_t *out)
{
    const st_contraction_scatter *s = &contraction->scatter;
    const uint32_t offsets[3] = {contraction->x.offset, contraction->y.offset, s->updates.offset};
    const uint32_t n = add_all(out, add_all(out, 0, offsets, 3), s->dims, s->rank);
    return add_all(out, n, s->index_dims, s->index_rank);
}

uint32_t st_contraction_numbers(const st_contraction *contraction,
                                uint32_t out[ST_CONTRACTION_NUMBERS_MAX])
{
    const st_contraction_operand *const operands[3] = {&contraction->x, &contraction->y,
                                                       &contraction->out};
    uint32_t n = 0;
    if (contraction->kind == ST_CONTRACTION_GEMM) {
        const uint32_t sizes[3] = {contraction->m, contraction->n, contraction->k};
        n = add_all(out, n, contraction->batch, contraction->n_batch);
        n = add_all(out, n, sizes, 3);
        for (uint32_t i = 0; i < 3; i++) {
            n = add_all(out, n, &operands[i]->offset, 1);
            n = add_all(out, n, operands[i]->batch, contraction->n_batch);
            n = add_all(out, n, operands[i]->stride, 2);
        }
        return n;
    }
    if (st_contraction_is_sdpa(contraction->kind)) {
        return sdpa_numbers(contraction, out);
    }
    if (contraction->kind == ST_CONTRACTION_ORDER) {
        return order_numbers(contraction, out);
    }
    if (contraction->kind == ST_CONTRACTION_CUMULATE) {
        return cumulate_numbers(contraction, out);
    }
    if (contraction->kind == ST_CONTRACTION_SCATTER) {
        return scatter_numbers(contraction, out);
    }
    const uint32_t sizes[3] = {contraction->images, contraction->channels, contraction->features};
    n = add_all(out, n, sizes, 3);
    n = add_all(out, n, contraction->in, contraction->n_spatial);
    n = add_all(out, n, contraction->kernel, contraction->n_spatial);
    n = add_all(out, n, contraction->out_size, contraction->n_spatial);
    n = add_all(out, n, contraction->pad_low, contraction->n_spatial);
    n = add_all(out, n, contraction->pad_high, contraction->n_spatial);
    for (uint32_t i = 0; i < 3; i++) {
        n = add_all(out, n, &operands[i]->offset, 1);
        n = add_all(out, n, operands[i]->dims, 2u + contraction->n_spatial);
    }
    return n;
}

uint32_t cg_buffer_index(const st_kernel *kernel, uint32_t id)
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

static void print_list(const st_contraction *contraction, const uint32_t *syms, uint32_t n,
                       const char *before, st_str *out)
{
    st_str_add(out, before);
    for (uint32_t i = 0; i < n; i++) {
        st_str_add(out, i ? "x" : "");
        st_loop_sym_print(contraction->syms, syms[i], out);
    }
}

static void print_zero(const st_contraction_zero *zero, const st_kernel *kernel, const char *of,
                       st_str *out)
{
    if (zero->has_buffer) {
        st_str_addf(out, ", zero%s of %s %s", zero->is_each ? "s" : "", of,
                    kernel->buffers.data[zero->buffer].name);
    } else if (zero->value) {
        st_str_addf(out, ", zero of %s %d", of, (int)zero->value);
    }
}

static void print_blocks(const st_contraction_blocks *of, const st_kernel *kernel, const char *what,
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

/* Prints scales and zero points of weights of few bits. */
static void print_weights(const st_contraction_weights *weights, const st_kernel *kernel,
                          st_str *out)
{
    if (!weights->is_scaled) {
        return;
    }
    print_blocks(&weights->scale, kernel, "weights times", out);
    if (weights->zero.buffer != UINT32_MAX || weights->zero.value != 0) {
        print_blocks(&weights->zero, kernel, "less", out);
    }
}

static void print_sdpa(const st_contraction *contraction, const st_kernel *kernel, st_str *out)
{
    const st_loop_buffer *buffers = kernel->buffers.data;
    const st_contraction_sdpa *s = &contraction->sdpa;
    const uint32_t sizes[7] = {s->batch, s->heads, s->groups, s->queries,
                               s->keys,  s->depth, s->width};
    if (contraction->kind == ST_CONTRACTION_SDPA) {
        st_str_addf(out, "call sdpa %s", buffers[contraction->out.buffer].name);
    } else {
        const uint32_t results[3] = {contraction->out.buffer, s->dk.buffer, s->dv.buffer};
        st_str_add(out, "call sdpa_gradient");
        for (uint32_t i = 0; i < 3; i++) {
            st_str_addf(out, "%s %s", i != 0 ? "," : "",
                        results[i] != UINT32_MAX ? buffers[results[i]].name : "-");
        }
        st_str_addf(out, " of %s", buffers[s->dy.buffer].name);
    }
    st_str_addf(out, " = %s * %s * %s", buffers[contraction->x.buffer].name,
                buffers[contraction->y.buffer].name, buffers[s->v.buffer].name);
    print_list(contraction, sizes, 7, ", b h g t s d e ", out);
    if (s->has_mask) {
        st_str_addf(out, ", mask %s", buffers[s->mask.buffer].name);
    }
    st_str_add(out, s->is_causal ? ", causal\n" : "\n");
}

static void print_order(const st_contraction *contraction, const st_kernel *kernel, st_str *out)
{
    const st_loop_buffer *buffers = kernel->buffers.data;
    const st_contraction_order *o = &contraction->order;
    st_str_addf(out, "call order of %s:", buffers[contraction->x.buffer].name);
    if (contraction->out.buffer != UINT32_MAX) {
        st_str_addf(out, " values %s", buffers[contraction->out.buffer].name);
    }
    if (o->indices != UINT32_MAX) {
        st_str_addf(out, " indices %s", buffers[o->indices].name);
    }
    print_list(contraction, o->dims, o->rank, ", dims ", out);
    st_str_addf(out, ", axis %u", o->axis);
    print_list(contraction, &o->take, 1, ", take ", out);
    st_str_add(out, o->is_falling ? ", falling\n" : "\n");
}

static void print_cumulate(const st_contraction *contraction, const st_kernel *kernel, st_str *out)
{
    const st_loop_buffer *buffers = kernel->buffers.data;
    const st_contraction_cumulate *c = &contraction->cumulate;
    st_str_addf(out, "call %s %s of %s", c->is_product ? "cumprod" : "cumsum",
                buffers[contraction->out.buffer].name, buffers[contraction->x.buffer].name);
    print_list(contraction, c->dims, c->rank, ", dims ", out);
    st_str_addf(out, ", axis %u%s%s\n", c->axis, c->is_exclusive ? ", exclusive" : "",
                c->is_reverse ? ", reverse" : "");
}

static void print_scatter(const st_contraction *contraction, const st_kernel *kernel, st_str *out)
{
    const st_loop_buffer *buffers = kernel->buffers.data;
    const st_contraction_scatter *s = &contraction->scatter;
    const st_loop_op_desc *reduction = st_loop_desc(s->reduction);
    st_str_addf(out, "call scatter of %s by %s into %s of %s", buffers[s->updates.buffer].name,
                buffers[contraction->y.buffer].name, buffers[contraction->out.buffer].name,
                buffers[contraction->x.buffer].name);
    print_list(contraction, s->dims, s->rank, ", dims ", out);
    print_list(contraction, s->index_dims, s->index_rank, ", index ", out);
    if (s->width == 0) {
        st_str_addf(out, ", axis %u", s->axis);
    }
    st_str_addf(out, "%s%s\n", reduction ? ", " : "", reduction ? reduction->name : "");
}

void cg_print_contraction(const st_contraction *contraction, const st_kernel *kernel, st_str *out)
{
    static const char *const names[] = {
        "",     "bias", "add",   "relu",  "scale",  "clip",  "gelu_erf", "gelu_tanh", "sigmoid",
        "tanh", "silu", "times", "times", "divide", "round", "offset",   "narrow"};
    const st_loop_buffer *buffers = kernel->buffers.data;
    if (st_contraction_is_sdpa(contraction->kind)) {
        print_sdpa(contraction, kernel, out);
        return;
    }
    if (contraction->kind == ST_CONTRACTION_ORDER) {
        print_order(contraction, kernel, out);
        return;
    }
    if (contraction->kind == ST_CONTRACTION_CUMULATE) {
        print_cumulate(contraction, kernel, out);
        return;
    }
    if (contraction->kind == ST_CONTRACTION_SCATTER) {
        print_scatter(contraction, kernel, out);
        return;
    }
    const char *const kind = contraction->kind == ST_CONTRACTION_GEMM ? "gemm"
                             : contraction->is_transposed             ? "conv_transpose"
                             : contraction->is_weight_grad            ? "conv_weight_grad"
                                                                      : "conv";
    st_str_addf(out, "call %s %s = %s * %s", kind, buffers[contraction->out.buffer].name,
                buffers[contraction->x.buffer].name, buffers[contraction->y.buffer].name);
    if (contraction->kind == ST_CONTRACTION_GEMM) {
        const uint32_t sizes[3] = {contraction->m, contraction->n, contraction->k};
        if (contraction->n_batch) {
            print_list(contraction, contraction->batch, contraction->n_batch, ", batch ", out);
        }
        print_list(contraction, sizes, 3, ", m n k ", out);
    } else {
        const uint32_t sizes[3] = {contraction->images, contraction->channels,
                                   contraction->features};
        print_list(contraction, sizes, 3, ", images channels features ", out);
        print_list(contraction, contraction->in, contraction->n_spatial, ", in ", out);
        print_list(contraction, contraction->kernel, contraction->n_spatial, ", kernel ", out);
        st_str_addf(out, ", groups %lld", (long long)contraction->groups);
    }
    print_zero(&contraction->x_zero, kernel, "x", out);
    print_zero(&contraction->y_zero, kernel, "y", out);
    print_weights(&contraction->weights, kernel, out);
    for (uint32_t i = 0; i < contraction->n_epilogue; i++) {
        const st_epilogue *e = &contraction->epilogue[i];
        const bool has_buffer = st_epilogue_has_buffer(e->kind);
        st_str_addf(out, ", %s%s%s", names[e->kind], has_buffer ? " " : "",
                    has_buffer ? buffers[e->buffer].name : "");
    }
    st_str_add(out, "\n");
}
