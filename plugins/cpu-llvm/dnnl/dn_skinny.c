/* Few rows against constant weights, out[m, n] = x[m, k] * w[k, n] with m of at most 8, or few
 * images of one position.
 *
 * Each weight is used so seldom that the time is that of reading them, and what matters is that
 * memory is never idle: the weights lie in panels of 32 columns, [n / 32][k][32] (oneDNN's
 * BA16a32b, so that oneDNN packs them), which are read from front to back, asking for what comes
 * AHEAD bytes later. The sums of a panel stay in registers. Threads take panels side by side.
 * AVX-512 and f32 alone; the epilogue keeps NaN. */
#include "dn.h"

#include <string.h>

#define ROWS_MAX 8
#define COLUMNS 32
/* Weights that stay in a core's cache: with 2 or 3 rows oneDNN has more sums in flight. */
#define CACHED_WEIGHTS (1 << 17)
#define LANES 16
#define GRAIN_BYTES ((int64_t)64 << 10) /* of weights, worth a thread */

/* The numbers of a product: those of the form, or of a convolution of one position, which is one
 * (squeeze and excite, classifiers). 0: it is none. */
static int as_product(const dn_op *op, const dn_sizes *s, dn_sizes *out)
{
    const st_form *form = &op->form;
    *out = *s;
    if (form->kind == ST_FORM_GEMM) {
        dn_simplify(form, out);
        return 1;
    }
    int is_product = form->groups == 1 && !form->is_transposed;
    for (uint32_t i = 0; i < form->n_spatial; i++) {
        is_product = is_product && s->in[i] == 1 && s->kernel[i] == 1 && s->out_size[i] == 1 &&
                     s->pad_low[i] == 0 && s->pad_high[i] == 0;
    }
    out->n_batch = 0;
    out->m = s->images;
    out->n = s->features;
    out->k = s->channels;
    for (uint32_t i = 0; i < 2; i++) {
        out->x.stride[i] = s->x.dims[i];
        out->y.stride[i] = s->y.dims[1 - i];
        out->out.stride[i] = s->out.dims[i];
    }
    return is_product;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define AHEAD 2048 /* bytes; the distance at which cold weights were read fastest */
#define AVX512 __attribute__((target("avx512f")))
#define INLINE static inline __attribute__((always_inline, target("avx512f")))

typedef struct skinny {
    const dn_op *op;
    const dn_sizes *s;
    void *const *at;
    const float *w; /* panels */
    int64_t panel;  /* floats from one to the next */
} skinny;

/* ---- what comes after the sum ---- */

INLINE __m512 finish(const skinny *s, __m512 v, int64_t out, int64_t column, __mmask16 mask)
{
    const st_form *form = &s->op->form;
    for (uint32_t i = 0; i < form->n_epilogue; i++) {
        const st_epilogue *e = &form->epilogue[i];
        const float *buffer = s->at[DN_POST + i];
        const __m512 value = _mm512_set1_ps((float)e->value);
        const __m512 value2 = _mm512_set1_ps((float)e->value2);
        switch (e->kind) {
        case ST_EPILOGUE_BIAS:
            v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, buffer + column));
            break;
        case ST_EPILOGUE_ADD:
            v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, buffer + out));
            break;
        case ST_EPILOGUE_SCALE:
            v = _mm512_mul_ps(v, value);
            break;
        case ST_EPILOGUE_RELU: /* with the value second, maxps keeps its NaN */
            v = _mm512_max_ps(_mm512_setzero_ps(), v);
            break;
        default: /* CLIP */
            v = _mm512_min_ps(value2, _mm512_max_ps(value, v));
            break;
        }
    }
    return v;
}

/* ---- a panel ---- */

/* Columns from `column` on of `rows` rows; `rows` is a constant where this is inlined. */
INLINE void tile(const skinny *s, const float *w, int64_t column, const int rows)
{
    const int64_t k_end = s->s->k;
    const float *x = s->at[DN_X];
    float *out = s->at[DN_OUT];
    const int64_t x_row = s->s->x.stride[0];
    const int64_t out_row = s->s->out.stride[0];
    __m512 sum[ROWS_MAX][2];
    for (int i = 0; i < rows; i++) {
        sum[i][0] = _mm512_setzero_ps();
        sum[i][1] = _mm512_setzero_ps();
    }
    for (int64_t k = 0; k < k_end; k++, w += COLUMNS) {
        const __m512 w0 = _mm512_loadu_ps(w);
        const __m512 w1 = _mm512_loadu_ps(w + LANES);
        _mm_prefetch((const char *)w + AHEAD, _MM_HINT_T0);
        _mm_prefetch((const char *)w + AHEAD + 64, _MM_HINT_T0);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            const __m512 v = _mm512_set1_ps(x[i * x_row + k]);
            sum[i][0] = _mm512_fmadd_ps(v, w0, sum[i][0]);
            sum[i][1] = _mm512_fmadd_ps(v, w1, sum[i][1]);
        }
    }
    for (int i = 0; i < rows; i++) {
        for (int half = 0; half < 2; half++) {
            const int64_t first = column + half * LANES;
            const int64_t left = s->s->n - first;
            const int64_t at = i * out_row + first;
            const __mmask16 mask = left >= LANES ? (__mmask16)0xffff
                                   : left > 0    ? (__mmask16)((1u << left) - 1u)
                                                 : (__mmask16)0;
            _mm512_mask_storeu_ps(out + at, mask, finish(s, sum[i][half], at, first, mask));
        }
    }
}

#define ROWS_TILE(rows)                                                                            \
    static AVX512 void tile_##rows(const skinny *s, const float *w, int64_t column)                \
    {                                                                                              \
        tile(s, w, column, rows);                                                                  \
    }
ROWS_TILE(1)
ROWS_TILE(2)
ROWS_TILE(3)
ROWS_TILE(4)
ROWS_TILE(5)
ROWS_TILE(6)
ROWS_TILE(7)
ROWS_TILE(8)
#undef ROWS_TILE

static void run_panels(void *self, int64_t begin, int64_t end)
{
    static void (*const tiles[])(const skinny *, const float *, int64_t) = {
        tile_1, tile_2, tile_3, tile_4, tile_5, tile_6, tile_7, tile_8};
    const skinny *s = self;
    for (int64_t p = begin; p < end; p++) {
        tiles[s->s->m - 1](s, s->w + p * s->panel, p * COLUMNS);
    }
}

void dn_skinny_run(const dn_op *op, const dn_plan *plan, const dn_sizes *sizes,
                   void *const at[DN_ROLES], stator_ctx *ctx)
{
    dn_sizes simple;
    void *w = NULL;
    (void)as_product(op, sizes, &simple);
    (void)dnnl_memory_get_data_handle(plan->packed, &w);
    skinny s = {.op = op, .s = &simple, .at = at, .w = w};
    s.panel = (simple.k + LANES - 1) / LANES * LANES * COLUMNS;
    const int64_t panels = (simple.n + COLUMNS - 1) / COLUMNS;
    const int64_t grain = GRAIN_BYTES / (s.panel * (int64_t)sizeof *s.w) + 1;
    if (op->lib->host && sizes->threads > 1) {
        op->lib->host->thr->parallel_for(ctx, panels, grain, run_panels, &s);
    } else {
        run_panels(&s, 0, panels);
    }
}

static int is_cpu_able(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f");
}

#else

void dn_skinny_run(const dn_op *op, const dn_plan *plan, const dn_sizes *sizes,
                   void *const at[DN_ROLES], stator_ctx *ctx)
{
    (void)op;
    (void)plan;
    (void)sizes;
    (void)at;
    (void)ctx;
}

static int is_cpu_able(void)
{
    return 0;
}

#endif

/* ---- which ---- */

static int is_epilogue_done(const st_form *form)
{
    for (uint32_t i = 0; i < form->n_epilogue; i++) {
        const st_epilogue *e = &form->epilogue[i];
        const int has_buffer = e->kind == ST_EPILOGUE_BIAS || e->kind == ST_EPILOGUE_ADD;
        if ((has_buffer && e->dtype != STATOR_F32) ||
            (!has_buffer && e->kind != ST_EPILOGUE_SCALE && e->kind != ST_EPILOGUE_RELU &&
             e->kind != ST_EPILOGUE_CLIP)) {
            return 0;
        }
    }
    return 1;
}

int dn_skinny_describe(const dn_op *op, const dn_sizes *sizes, dn_desc *out)
{
    const st_form *form = &op->form;
    dn_sizes product;
    const int is_product = as_product(op, sizes, &product);
    const dn_sizes *s = &product;
    const dnnl_dims_t dims = {s->k, s->n};
    const dnnl_dims_t strides = {s->y.stride[0], s->y.stride[1]};
    memset(out, 0, sizeof *out);
    if (!is_product || !op->has_constant || !op->is_static || s->is_bare ||
        form->x.dtype != STATOR_F32 || form->y.dtype != STATOR_F32 ||
        form->out.dtype != STATOR_F32 || s->n_batch != 0 || s->m < 1 || s->m > ROWS_MAX ||
        s->n < 1 || s->k < 1 || (s->x.stride[1] != 1 && s->k > 1) ||
        (s->out.stride[1] != 1 && s->n > 1) ||
        ((s->m == 2 || s->m == 3) && s->k <= CACHED_WEIGHTS / s->n) || !is_epilogue_done(form) ||
        !is_cpu_able()) {
        return 0;
    }
    out->name = "skinny";
    out->class_ = DN_GOOD;
    return dnnl_memory_desc_init_by_strides(&out->md[DN_Y], 2, dims, dnnl_f32, strides) ==
               dnnl_success &&
           dnnl_memory_desc_init_by_tag(&out->md[DN_Y2], 2, dims, dnnl_f32, dnnl_BA16a32b) ==
               dnnl_success;
}
