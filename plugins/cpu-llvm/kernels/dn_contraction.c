/* A contraction's numbers, and properties that all kernels ask for. */
#include "plugins/cpu-llvm/kernels/dn.h"

#include <string.h>

#define SPAN_MAX ((int64_t)1 << 56) /* elements */

/* ---- numbers ---- */

static const int64_t *take(const int64_t *from, int64_t *to, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        to[i] = from[i];
    }
    return from + n;
}

static const int64_t *take_operand(const st_contraction *contraction, const int64_t *from,
                                   dn_operand *to)
{
    from = take(from, &to->offset, 1);
    if (contraction->kind == ST_CONTRACTION_GEMM) {
        from = take(from, to->batch, contraction->n_batch);
        return take(from, to->stride, 2);
    }
    return take(from, to->dims, 2u + contraction->n_spatial);
}

void dn_sizes_of(const st_contraction *contraction, const int64_t *numbers, dn_sizes *out)
{
    const int64_t *at = numbers;
    memset(out, 0, sizeof *out);
    if (contraction->kind == ST_CONTRACTION_GEMM) {
        out->n_batch = contraction->n_batch;
        at = take(at, out->batch, contraction->n_batch);
        at = take(at, &out->m, 1);
        at = take(at, &out->n, 1);
        at = take(at, &out->k, 1);
    } else {
        at = take(at, &out->images, 1);
        at = take(at, &out->channels, 1);
        at = take(at, &out->features, 1);
        at = take(at, out->in, contraction->n_spatial);
        at = take(at, out->kernel, contraction->n_spatial);
        at = take(at, out->out_size, contraction->n_spatial);
        at = take(at, out->pad_low, contraction->n_spatial);
        at = take(at, out->pad_high, contraction->n_spatial);
    }
    at = take_operand(contraction, at, &out->x);
    at = take_operand(contraction, at, &out->y);
    (void)take_operand(contraction, at, &out->out);
}

uint32_t dn_sample(const st_contraction *contraction, int64_t numbers[ST_CONTRACTION_NUMBERS_MAX])
{
    uint32_t syms[ST_CONTRACTION_NUMBERS_MAX];
    const uint32_t n = st_contraction_numbers(contraction, syms);
    uint32_t known = 0;
    for (uint32_t i = 0; i < n; i++) {
        known += (uint32_t)st_sym_const(&contraction->syms->tab, syms[i], &numbers[i]);
        numbers[i] = st_sym_size_hint(&contraction->syms->tab, syms[i]);
    }
    return known == n;
}

bool dn_is_constant(const st_contraction *contraction)
{
    const st_symtab *tab = &contraction->syms->tab;
    const st_contraction_operand *y = &contraction->y;
    int64_t v = 0;
    bool is_known = contraction->y_data != NULL && !contraction->is_weight_grad &&
                    st_sym_const(tab, y->offset, &v);
    if (contraction->kind == ST_CONTRACTION_GEMM) {
        for (uint32_t i = 0; is_known && i < contraction->n_batch; i++) {
            is_known = st_sym_const(tab, y->batch[i], &v) &&
                       (v == 0 || st_sym_const(tab, contraction->batch[i], &v));
        }
        return is_known && st_sym_const(tab, y->stride[0], &v) &&
               st_sym_const(tab, y->stride[1], &v) && st_sym_const(tab, contraction->k, &v) &&
               st_sym_const(tab, contraction->n, &v);
    }
    is_known = is_known && st_sym_const(tab, contraction->channels, &v) &&
               st_sym_const(tab, contraction->features, &v) && st_sym_const(tab, y->dims[0], &v) &&
               st_sym_const(tab, y->dims[1], &v);
    for (uint32_t i = 0; is_known && i < contraction->n_spatial; i++) {
        is_known =
            st_sym_const(tab, contraction->kernel[i], &v) && st_sym_const(tab, y->dims[2 + i], &v);
    }
    return is_known;
}

/* ---- work ---- */

static int64_t times(int64_t a, int64_t b)
{
    int64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

void dn_work(const st_contraction *contraction, const dn_sizes *s, int64_t *out_elements,
             int64_t *out_macs)
{
    int64_t elements = 1;
    int64_t products = 1;
    if (contraction->kind == ST_CONTRACTION_GEMM) {
        for (int64_t i = 0; i < s->n_batch; i++) {
            elements = times(elements, s->batch[i]);
        }
        elements = times(elements, times(s->m, s->n));
        products = s->k;
    } else {
        int64_t positions = s->images;
        int64_t weights = s->channels / contraction->groups; /* of a feature */
        for (uint32_t i = 0; i < contraction->n_spatial; i++) {
            positions = times(positions, s->out_size[i]);
            weights = times(weights, s->kernel[i]);
        }
        for (uint32_t i = 0; contraction->is_transposed && i < contraction->n_spatial; i++) {
            weights =
                (weights + contraction->stride[i] - 1) / contraction->stride[i]; /* taps that hit */
        }
        elements = times(s->features, contraction->is_weight_grad ? weights : positions);
        products = contraction->is_weight_grad ? positions : weights;
    }
    *out_elements = elements;
    *out_macs = times(elements, products);
}

/* ---- fewer axes ---- */

static void drop_batch(dn_sizes *s, int64_t at)
{
    dn_operand *const all[3] = {&s->x, &s->y, &s->out};
    for (int64_t i = at; i + 1 < s->n_batch; i++) {
        s->batch[i] = s->batch[i + 1];
        for (uint32_t o = 0; o < 3; o++) {
            all[o]->batch[i] = all[o]->batch[i + 1];
        }
    }
    s->n_batch--;
    s->batch[s->n_batch] = 0;
    for (uint32_t o = 0; o < 3; o++) {
        all[o]->batch[s->n_batch] = 0;
    }
}

/* Batch axes at and at + 1 are one walk of every operand. */
static bool is_one_walk(const dn_sizes *s, int64_t at)
{
    const dn_operand *const all[3] = {&s->x, &s->y, &s->out};
    for (uint32_t o = 0; o < 3; o++) {
        if (all[o]->batch[at] != times(all[o]->batch[at + 1], s->batch[at + 1])) {
            return false;
        }
    }
    return true;
}

static void join_batches(dn_sizes *s)
{
    for (int64_t i = 0; i < s->n_batch;) {
        if (s->batch[i] == 1) {
            drop_batch(s, i);
        } else if (i + 1 < s->n_batch && is_one_walk(s, i)) {
            s->batch[i + 1] = times(s->batch[i], s->batch[i + 1]);
            drop_batch(s, i);
        } else {
            i++;
        }
    }
}

/* The last batch axis goes into m when y does not walk it. */
static bool join_rows(dn_sizes *s)
{
    const int64_t i = s->n_batch - 1;
    if (i < 0 || s->y.batch[i] != 0) {
        return false;
    }
    if (s->m == 1) {
        s->x.stride[0] = s->x.batch[i];
        s->out.stride[0] = s->out.batch[i];
    } else if (s->x.batch[i] != times(s->x.stride[0], s->m) ||
               s->out.batch[i] != times(s->out.stride[0], s->m)) {
        return false;
    }
    s->m = times(s->m, s->batch[i]);
    drop_batch(s, i);
    return true;
}

void dn_simplify(const st_contraction *contraction, dn_sizes *s)
{
    if (contraction->kind == ST_CONTRACTION_GEMM) {
        join_batches(s);
        while (join_rows(s)) {
        }
    }
}

dnnl_data_type_t dn_type_of(uint32_t dtype)
{
    switch (dtype) {
    case STATOR_F32:
        return dnnl_f32;
    case STATOR_BF16:
        return dnnl_bf16;
    case STATOR_I32:
        return dnnl_s32;
    case STATOR_I8:
        return dnnl_s8;
    case STATOR_U8:
        return dnnl_u8;
    default:
        return dnnl_data_type_undef;
    }
}

static int64_t plus(int64_t a, int64_t b)
{
    int64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t reach(int64_t extent, int64_t stride)
{
    return extent > 0 ? times(extent - 1, stride) : 0;
}

int64_t dn_span(const st_contraction *contraction, const dn_sizes *s, uint32_t role)
{
    const dn_operand *o = role == DN_X ? &s->x : role == DN_Y ? &s->y : &s->out;
    const uint32_t forward = dn_forward_role(contraction, role);
    int64_t last = 0;
    if (contraction->kind == ST_CONTRACTION_GEMM) {
        for (int64_t i = 0; i < s->n_batch; i++) {
            last = plus(last, reach(s->batch[i], o->batch[i]));
        }
        last = plus(last, reach(role == DN_Y ? s->k : s->m, o->stride[0]));
        return plus(plus(last, reach(role == DN_X ? s->k : s->n, o->stride[1])), 1);
    }
    if (forward == DN_Y) {
        const int64_t share = contraction->is_transposed ? contraction->groups : 1;
        last = plus(last, reach(s->features / share, o->dims[0]));
        last = plus(last, reach(s->channels / (contraction->groups / share), o->dims[1]));
    } else {
        last = plus(last, reach(s->images, o->dims[0]));
        last = plus(last, reach(forward == DN_X ? s->channels : s->features, o->dims[1]));
    }
    for (uint32_t i = 0; i < contraction->n_spatial; i++) {
        const int64_t extent = forward == DN_X   ? s->in[i]
                               : forward == DN_Y ? s->kernel[i]
                                                 : s->out_size[i];
        last = plus(last, reach(extent, o->dims[2u + i]));
    }
    return plus(last, 1);
}

/* ---- properties ---- */

bool dn_are_onednn_bytes_exact(void)
{
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_vnni) ==
           dnnl_cpu_isa_avx512_core_vnni;
}

bool dn_has_amx(const dn_lib *lib)
{
    return !(lib->flags & (DNNL_VECTORS_32 | DNNL_VECTORS_16 | DNNL_TILES_FIRST)) &&
           (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_amx) ==
               dnnl_cpu_isa_avx512_core_amx;
}

bool dn_has_zero(const st_contraction_zero *zero)
{
    return zero->has_buffer || zero->value;
}

uint32_t dn_epilogue_kinds(const st_contraction *contraction)
{
    uint32_t kinds = 0;
    for (uint32_t i = 0; i < contraction->n_epilogue; i++) {
        kinds |= 1u << (contraction->epilogue[i].kind & 31u); /* a damaged file may hold any kind */
    }
    return kinds;
}

bool dn_is_epilogue_f32(const st_contraction *contraction)
{
    bool is_f32 = true;
    for (uint32_t i = 0; i < contraction->n_epilogue; i++) {
        const st_epilogue *e = &contraction->epilogue[i];
        is_f32 &= !st_epilogue_has_buffer(e->kind) || e->dtype == STATOR_F32;
    }
    return is_f32;
}

bool dn_has_plain_weights(const st_contraction *contraction)
{
    return contraction->y.dtype == STATOR_I8 && !dn_has_zero(&contraction->y_zero);
}

bool dn_are_sums_long(const st_contraction *contraction, const dn_sizes *s)
{
    int64_t products = s->channels / contraction->groups;
    for (uint32_t i = 0; i < contraction->n_spatial; i++) {
        products = times(products, s->kernel[i]);
    }
    return products > (1 << 24) / (255 * 128);
}

int64_t dn_fill_bias(st_contraction *contraction)
{
    st_epilogue *first = &contraction->epilogue[0];
    const uint32_t features =
        contraction->kind == ST_CONTRACTION_CONV ? contraction->features : contraction->n;
    int64_t n = 0;
    if (st_contraction_is_sdpa(contraction->kind) || contraction->n_epilogue == 0 ||
        first->kind != ST_EPILOGUE_OFFSET || contraction->acc_dtype != STATOR_F32 ||
        !st_sym_const(&contraction->syms->tab, features, &n) || n < 1 || n > DN_FILLED_MAX) {
        return 0;
    }
    first->kind = ST_EPILOGUE_BIAS;
    first->buffer = DN_FILLED;
    first->dtype = STATOR_F32;
    return n;
}

bool dn_is_fill_whole(const dn_op *op, const dn_sizes *s)
{
    return op->filled == NULL ||
           (op->contraction.kind == ST_CONTRACTION_CONV ? s->features : s->n) == op->n_filled;
}

/* ---- operands of kernels of our own ---- */

/* A row of bytes, for what is of no interest to oneDNN. */
static bool bytes_of(int64_t n, dnnl_memory_desc_t *out)
{
    const dnnl_dims_t dims = {n};
    const dnnl_dims_t strides = {1};
    return dn_strided(1, dims, dnnl_u8, strides, out);
}

static bool note_span(const dn_op *op, const dn_sizes *s, uint32_t role, dn_desc *out)
{
    const uint32_t dtypes[3] = {op->contraction.x.dtype, op->contraction.y.dtype,
                                op->contraction.out.dtype};
    const int64_t span = dn_span(&op->contraction, s, role);
    out->used |= 1u << role;
    return span <= SPAN_MAX && bytes_of(span * st_element_bytes(dtypes[role]), &out->md[role]);
}

bool dn_note_operands(const dn_op *op, const dn_sizes *s, int64_t features, dn_desc *out)
{
    const st_contraction *contraction = &op->contraction;
    bool is_done = note_span(op, s, DN_X, out) && note_span(op, s, DN_OUT, out) &&
                   (!(out->how.is_planes || out->how.is_gradient || out->how.is_product) ||
                    note_span(op, s, DN_Y, out));
    out->used |= op->has_constant ? 0 : 1u << DN_Y;
    for (uint32_t i = 0; i < contraction->n_epilogue; i++) {
        const st_epilogue *e = &contraction->epilogue[i];
        const int64_t n = e->kind == ST_EPILOGUE_ADD ? dn_span(contraction, s, DN_OUT) : features;
        if (st_epilogue_has_buffer(e->kind) && n <= SPAN_MAX) {
            out->used |= 1u << (DN_POST + i);
            is_done &= bytes_of(n * st_element_bytes(e->dtype), &out->md[DN_POST + i]);
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        const int64_t each = i == 0 ? s->m : features;
        const int is_each = i == 0 ? contraction->x_zero.is_each : contraction->y_zero.is_each;
        out->used |= 1u << (DN_ZERO + i);
        is_done &= bytes_of(is_each ? each : (int64_t)sizeof(int32_t), &out->md[DN_ZERO + i]);
    }
    return is_done;
}
