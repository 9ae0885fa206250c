/* A form's numbers, and which forms are taken. */
#include "dn_tiles.h"

#include <string.h>

/* ---- numbers ---- */

static const int64_t *take(const int64_t *from, int64_t *to, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        to[i] = from[i];
    }
    return from + n;
}

static const int64_t *take_operand(const st_form *form, const int64_t *from, dn_operand *to)
{
    from = take(from, &to->offset, 1);
    if (form->kind == ST_FORM_GEMM) {
        from = take(from, to->batch, form->n_batch);
        return take(from, to->stride, 2);
    }
    return take(from, to->dims, 2u + form->n_spatial);
}

void dn_sizes_of(const st_form *form, const int64_t *numbers, dn_sizes *out)
{
    const int64_t *at = numbers;
    memset(out, 0, sizeof *out);
    if (form->kind == ST_FORM_GEMM) {
        out->n_batch = form->n_batch;
        at = take(at, out->batch, form->n_batch);
        at = take(at, &out->m, 1);
        at = take(at, &out->n, 1);
        at = take(at, &out->k, 1);
    } else {
        at = take(at, &out->images, 1);
        at = take(at, &out->channels, 1);
        at = take(at, &out->features, 1);
        at = take(at, out->in, form->n_spatial);
        at = take(at, out->kernel, form->n_spatial);
        at = take(at, out->out_size, form->n_spatial);
        at = take(at, out->pad_low, form->n_spatial);
        at = take(at, out->pad_high, form->n_spatial);
    }
    at = take_operand(form, at, &out->x);
    at = take_operand(form, at, &out->y);
    (void)take_operand(form, at, &out->out);
}

uint32_t dn_sample(const st_form *form, int64_t numbers[ST_FORM_NUMBERS_MAX])
{
    uint32_t syms[ST_FORM_NUMBERS_MAX];
    const uint32_t n = st_form_numbers(form, syms);
    uint32_t known = 0;
    for (uint32_t i = 0; i < n; i++) {
        known += (uint32_t)st_sym_const(&form->syms->tab, syms[i], &numbers[i]);
        numbers[i] = st_sym_size_hint(&form->syms->tab, syms[i]);
    }
    return known == n;
}

int dn_is_constant(const st_form *form)
{
    const st_symtab *tab = &form->syms->tab;
    const st_form_operand *y = &form->y;
    int64_t v = 0;
    int is_known = form->y_data != NULL && st_sym_const(tab, y->offset, &v);
    if (form->kind == ST_FORM_GEMM) {
        for (uint32_t i = 0; is_known && i < form->n_batch; i++) {
            is_known = st_sym_const(tab, y->batch[i], &v) &&
                       (v == 0 || st_sym_const(tab, form->batch[i], &v));
        }
        return is_known && st_sym_const(tab, y->stride[0], &v) &&
               st_sym_const(tab, y->stride[1], &v) && st_sym_const(tab, form->k, &v) &&
               st_sym_const(tab, form->n, &v);
    }
    is_known = is_known && st_sym_const(tab, form->channels, &v) &&
               st_sym_const(tab, form->features, &v) && st_sym_const(tab, y->dims[0], &v) &&
               st_sym_const(tab, y->dims[1], &v);
    for (uint32_t i = 0; is_known && i < form->n_spatial; i++) {
        is_known = st_sym_const(tab, form->kernel[i], &v) && st_sym_const(tab, y->dims[2 + i], &v);
    }
    return is_known;
}

/* ---- work ---- */

static int64_t times(int64_t a, int64_t b)
{
    int64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

void dn_work(const st_form *form, const dn_sizes *s, int64_t *out_elements, int64_t *out_macs)
{
    int64_t elements = 1;
    int64_t products = 1;
    if (form->kind == ST_FORM_GEMM) {
        for (int64_t i = 0; i < s->n_batch; i++) {
            elements = times(elements, s->batch[i]);
        }
        elements = times(elements, times(s->m, s->n));
        products = s->k;
    } else {
        elements = times(s->images, s->features);
        products = s->channels / form->groups;
        for (uint32_t i = 0; i < form->n_spatial; i++) {
            elements = times(elements, s->out_size[i]);
            products = times(products, s->kernel[i]);
        }
        for (uint32_t i = 0; form->is_transposed && i < form->n_spatial; i++) {
            products = (products + form->stride[i] - 1) / form->stride[i]; /* taps that hit */
        }
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
static int is_one_walk(const dn_sizes *s, int64_t at)
{
    const dn_operand *const all[3] = {&s->x, &s->y, &s->out};
    for (uint32_t o = 0; o < 3; o++) {
        if (all[o]->batch[at] != times(all[o]->batch[at + 1], s->batch[at + 1])) {
            return 0;
        }
    }
    return 1;
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
static int join_rows(dn_sizes *s)
{
    const int64_t i = s->n_batch - 1;
    if (i < 0 || s->y.batch[i] != 0) {
        return 0;
    }
    if (s->m == 1) {
        s->x.stride[0] = s->x.batch[i];
        s->out.stride[0] = s->out.batch[i];
    } else if (s->x.batch[i] != times(s->x.stride[0], s->m) ||
               s->out.batch[i] != times(s->out.stride[0], s->m)) {
        return 0;
    }
    s->m = times(s->m, s->batch[i]);
    drop_batch(s, i);
    return 1;
}

void dn_simplify(const st_form *form, dn_sizes *s)
{
    if (form->kind == ST_FORM_GEMM) {
        join_batches(s);
        while (join_rows(s)) {
        }
    }
}

uint32_t dn_dtype_size(uint32_t dtype)
{
    switch (dtype) {
    case STATOR_F32:
    case STATOR_I32:
        return 4;
    case STATOR_BF16:
    case STATOR_F16:
        return 2;
    default:
        return 1;
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

int64_t dn_span(const st_form *form, const dn_sizes *s, uint32_t role)
{
    const dn_operand *o = role == DN_X ? &s->x : role == DN_Y ? &s->y : &s->out;
    int64_t last = 0;
    if (form->kind == ST_FORM_GEMM) {
        for (int64_t i = 0; i < s->n_batch; i++) {
            last = plus(last, reach(s->batch[i], o->batch[i]));
        }
        last = plus(last, reach(role == DN_Y ? s->k : s->m, o->stride[0]));
        return plus(plus(last, reach(role == DN_X ? s->k : s->n, o->stride[1])), 1);
    }
    if (role == DN_Y) {
        const int64_t share = form->is_transposed ? form->groups : 1;
        last = plus(last, reach(s->features / share, o->dims[0]));
        last = plus(last, reach(s->channels / (form->groups / share), o->dims[1]));
    } else {
        last = plus(last, reach(s->images, o->dims[0]));
        last = plus(last, reach(role == DN_X ? s->channels : s->features, o->dims[1]));
    }
    for (uint32_t i = 0; i < form->n_spatial; i++) {
        const int64_t extent = role == DN_X   ? s->in[i]
                               : role == DN_Y ? s->kernel[i]
                                              : s->out_size[i];
        last = plus(last, reach(extent, o->dims[2u + i]));
    }
    return plus(last, 1);
}

/* ---- what is taken ---- */

int dn_has_zero(const st_form_zero *zero)
{
    return zero->has_buffer || zero->value;
}

int dn_has_plain_weights(const st_form *form)
{
    return form->y.dtype == STATOR_I8 && !dn_has_zero(&form->y_zero);
}

int dn_are_sums_long(const st_form *form, const dn_sizes *s)
{
    int64_t products = s->channels / form->groups;
    for (uint32_t i = 0; i < form->n_spatial; i++) {
        products = times(products, s->kernel[i]);
    }
    return products > (1 << 24) / (255 * 128);
}

/* Sums of integers: as they are, or made f32 before the first row of the epilogue. */
static int are_bytes_taken(const dn_lib *lib, const st_form *form)
{
    const uint32_t out = form->out.dtype;
    return (form->y.dtype == STATOR_I8 || form->y.dtype == STATOR_U8) &&
           form->acc_dtype == STATOR_I32 &&
           (out == STATOR_F32 || out == STATOR_U8 || out == STATOR_I8 ||
            (out == STATOR_I32 && form->n_epilogue == 0)) &&
           ((dn_are_onednn_bytes_exact() && !form->is_transposed) ||
            dn_tiles_isa_of(lib, form->x.dtype) != NULL);
}

static int are_dtypes_taken(const dn_lib *lib, const st_form *form)
{
    const uint32_t x = form->x.dtype;
    const uint32_t out = form->out.dtype;
    if (form->weights.is_scaled) {
        return dn_quant_is_form(form);
    }
    if (x == STATOR_U8 || x == STATOR_I8) {
        return are_bytes_taken(lib, form);
    }
    if (form->y.dtype != x || form->acc_dtype != STATOR_F32) {
        return 0;
    }
    return (x == STATOR_F32 && out == STATOR_F32) ||
           (x == STATOR_BF16 && (out == STATOR_BF16 || out == STATOR_F32));
}

/* Buffers that the epilogue adds. A bias of integers meets the sums as f32: exact while both are
 * below 2^24, else it may round a second time. */
static int is_added_taken(const st_form *form, const st_epilogue *e)
{
    const int is_sum = e == form->epilogue && e->kind == ST_EPILOGUE_BIAS &&
                       form->acc_dtype == STATOR_I32 && form->out.dtype != STATOR_I32;
    return !st_epilogue_has_buffer(e->kind) || e->dtype == STATOR_F32 ||
           (e->dtype == STATOR_I32 && is_sum) ||
           (e->dtype == STATOR_BF16 && form->x.dtype == STATOR_BF16);
}

/* Rounding in the middle: by kernels of our own, which nothing may take the place of. */
static int is_narrowing_taken(const dn_lib *lib, const st_form *form, const st_epilogue *e)
{
    return e->kind != ST_EPILOGUE_NARROW ||
           (form->x.dtype == STATOR_BF16 && form->out.dtype == STATOR_BF16 && !lib->memory_cap &&
            !dn_has_amx(lib));
}

/* Measured against f64: tanh 1.2 ulp, gelu_tanh as a composite of such functions; logistic 3.2 ulp
 * and 0 below -87, silu 4.2, gelu_erf 4 units of t * 2^-24 where the composite has 1.7. */
static int is_exact(uint32_t kind)
{
    return kind != ST_EPILOGUE_GELU_ERF && kind != ST_EPILOGUE_SIGMOID && kind != ST_EPILOGUE_SILU;
}

/* Zero points for each row are those of a product's rows. */
static int are_zeros_taken(const st_form *form)
{
    return !form->x_zero.is_each || (form->kind == ST_FORM_GEMM && form->n_batch == 0);
}

int64_t dn_fill_bias(st_form *form)
{
    st_epilogue *first = &form->epilogue[0];
    const uint32_t features = form->kind == ST_FORM_CONV ? form->features : form->n;
    int64_t n = 0;
    if (form->kind == ST_FORM_SDPA || form->n_epilogue == 0 || first->kind != ST_EPILOGUE_OFFSET ||
        form->acc_dtype != STATOR_F32 || !st_sym_const(&form->syms->tab, features, &n) || n < 1 ||
        n > DN_FILLED_MAX) {
        return 0;
    }
    first->kind = ST_EPILOGUE_BIAS;
    first->buffer = DN_FILLED;
    first->dtype = STATOR_F32;
    return n;
}

int dn_is_fill_whole(const dn_op *op, const dn_sizes *s)
{
    return op->filled == NULL ||
           (op->form.kind == ST_FORM_CONV ? s->features : s->n) == op->n_filled;
}

int dn_is_kind_taken(const dn_lib *lib, const st_form *form)
{
    if (!are_dtypes_taken(lib, form) || !are_zeros_taken(form) ||
        form->n_epilogue > ST_FORM_EPILOGUE_MAX) {
        return 0;
    }
    for (uint32_t i = 0; i < form->n_epilogue; i++) {
        const st_epilogue *e = &form->epilogue[i];
        const int is_known = e->kind >= ST_EPILOGUE_BIAS && e->kind <= ST_EPILOGUE_NARROW;
        const int is_narrowed =
            (double)(float)e->value != e->value || (double)(float)e->value2 != e->value2;
        const int is_crossed = e->kind == ST_EPILOGUE_CLIP && e->value > e->value2;
        if (!is_known || !is_added_taken(form, e) || !is_narrowing_taken(lib, form, e) ||
            is_narrowed || is_crossed || (!is_exact(e->kind) && !(lib->flags & DNNL_FUSED))) {
            return 0;
        }
    }
    if (form->kind == ST_FORM_CONV) {
        return form->n_spatial >= 1 && form->n_spatial <= ST_FORM_SPATIAL_MAX && form->groups >= 1;
    }
    return form->kind == ST_FORM_GEMM && form->n_batch <= ST_FORM_BATCH_MAX;
}
