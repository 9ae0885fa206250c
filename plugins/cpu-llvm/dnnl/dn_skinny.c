/* Few rows against constant weights, out[m, n] = x[m, k] * w[k, n] with m of at most 8, or few
 * images of one position.
 *
 * Each weight is used so seldom that the time is that of reading them, and what matters is that
 * memory is never idle: the weights lie in panels of 32 columns, [n / 32][k][32] (oneDNN's
 * BA16a32b, so that oneDNN packs them), which are read from front to back. What comes NEAR bytes
 * later is asked for, and of weights that no cache of a core holds what comes FAR bytes later for
 * the second cache: the first waits for too few lines at a time to keep memory busy alone. The sums
 * of a panel stay in registers. Threads take panels side by side. AVX-512 and f32 alone; the
 * epilogue keeps NaN. */
#include "dn.h"

#include <string.h>

#define ROWS_MAX 8
#define COLUMNS 32
/* Of weights that stay in a core's cache up to 3 rows take two panels at once, so that there are
 * sums enough in flight; those are not asked for ahead. */
#define CACHED_WEIGHTS (1 << 17)
#define FAR_WEIGHTS (1 << 18) /* elements; from here on they come from afar */
#define ROWS_PAIRED 3
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

/* Bytes; the distances at which cold weights were read fastest. */
#define NEAR 2048
#define FAR 8192
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

/* Stores 16 sums of row i, those of columns that there are. */
INLINE void store(const skinny *s, __m512 sum, int64_t i, int64_t column)
{
    const int64_t left = s->s->n - column;
    const int64_t at = i * s->s->out.stride[0] + column;
    const __mmask16 mask = left >= LANES ? (__mmask16)0xffff
                           : left > 0    ? (__mmask16)((1u << left) - 1u)
                                         : (__mmask16)0;
    float *out = s->at[DN_OUT];
    _mm512_mask_storeu_ps(out + at, mask, finish(s, sum, at, column, mask));
}

/* How far a tile's weights are: in a core's cache, perhaps (NEARBY), or surely not. */
enum distance { CACHED, NEARBY, AFAR };

/* Columns from `column` on of `rows` rows; the last two are constants where this is inlined. Cached
 * panels are two, one behind the other. */
INLINE void tile(const skinny *s, const float *w, int64_t column, const int rows,
                 const enum distance distance)
{
    const int panels = distance == CACHED ? 2 : 1;
    const int64_t k_end = s->s->k;
    const float *x = s->at[DN_X];
    const int64_t x_row = s->s->x.stride[0];
    __m512 sum[ROWS_MAX][4];
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < 2 * panels; j++) {
            sum[i][j] = _mm512_setzero_ps();
        }
    }
#pragma GCC unroll 4
    for (int64_t k = 0; k < k_end; k++, w += COLUMNS) {
        __m512 v[4];
#pragma GCC unroll 4
        for (int j = 0; j < 2 * panels; j++) {
            v[j] = _mm512_loadu_ps(w + j / 2 * s->panel + j % 2 * LANES);
        }
        if (distance == AFAR) {
            _mm_prefetch((const char *)w + FAR, _MM_HINT_T1);
            _mm_prefetch((const char *)w + FAR + 64, _MM_HINT_T1);
        }
        if (distance != CACHED) {
            _mm_prefetch((const char *)w + NEAR, _MM_HINT_T0);
            _mm_prefetch((const char *)w + NEAR + 64, _MM_HINT_T0);
        }
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            const __m512 one = _mm512_set1_ps(x[i * x_row + k]);
#pragma GCC unroll 4
            for (int j = 0; j < 2 * panels; j++) {
                sum[i][j] = _mm512_fmadd_ps(one, v[j], sum[i][j]);
            }
        }
    }
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < 2 * panels; j++) {
            store(s, sum[i][j], i, column + j * LANES);
        }
    }
}

#define ROWS_TILE(rows, distance)                                                                  \
    static AVX512 void tile_##rows##_##distance(const skinny *s, const float *w, int64_t column)   \
    {                                                                                              \
        tile(s, w, column, rows, distance);                                                        \
    }
#define STREAMED_TILE(rows) ROWS_TILE(rows, NEARBY) ROWS_TILE(rows, AFAR)
STREAMED_TILE(1)
STREAMED_TILE(2)
STREAMED_TILE(3)
STREAMED_TILE(4)
STREAMED_TILE(5)
STREAMED_TILE(6)
STREAMED_TILE(7)
STREAMED_TILE(8)
ROWS_TILE(1, CACHED)
ROWS_TILE(2, CACHED)
ROWS_TILE(3, CACHED)
#undef STREAMED_TILE
#undef ROWS_TILE

typedef void (*tile_fn)(const skinny *s, const float *w, int64_t column);

static void run_panels(void *self, int64_t begin, int64_t end)
{
#define ROWS(distance)                                                                             \
    {                                                                                              \
        tile_1_##distance, tile_2_##distance, tile_3_##distance, tile_4_##distance,                \
            tile_5_##distance, tile_6_##distance, tile_7_##distance, tile_8_##distance             \
    }
    static const tile_fn single[2][ROWS_MAX] = {ROWS(NEARBY), ROWS(AFAR)};
#undef ROWS
    static const tile_fn paired[] = {tile_1_CACHED, tile_2_CACHED, tile_3_CACHED};
    const skinny *s = self;
    const int is_paired = s->s->m <= ROWS_PAIRED && s->s->k <= CACHED_WEIGHTS / s->s->n;
    const int is_far = s->s->k >= FAR_WEIGHTS / s->s->n;
    int64_t p = begin;
    for (; is_paired && p + 2 <= end; p += 2) {
        paired[s->s->m - 1](s, s->w + p * s->panel, p * COLUMNS);
    }
    for (; p < end; p++) {
        single[is_far][s->s->m - 1](s, s->w + p * s->panel, p * COLUMNS);
    }
}

static int64_t row_of(const dn_sizes *product)
{
    return (product->k + LANES - 1) / LANES * LANES * COLUMNS;
}

static int64_t count_of(const dn_sizes *product)
{
    return (product->n + COLUMNS - 1) / COLUMNS;
}

void dn_skinny_run(const dn_op *op, const dn_plan *plan, const dn_sizes *sizes,
                   void *const at[DN_ROLES], stator_ctx *ctx)
{
    dn_sizes simple;
    void *w = NULL;
    (void)as_product(op, sizes, &simple);
    (void)dnnl_memory_get_data_handle(plan->packed, &w);
    skinny s = {.op = op, .s = &simple, .at = at, .w = w, .panel = row_of(&simple)};
    const int64_t grain = GRAIN_BYTES / (s.panel * (int64_t)sizeof *s.w) + 1;
    if (op->lib->host && sizes->threads > 1) {
        op->lib->host->thr->parallel_for(ctx, count_of(&simple), grain, run_panels, &s);
    } else {
        run_panels(&s, 0, count_of(&simple));
    }
}

void dn_skinny_note(dn_op *op, const dn_plan *plan, const dn_sizes *sizes)
{
    void *w = NULL;
    (void)as_product(op, sizes, &op->sizes);
    (void)dnnl_memory_get_data_handle(plan->packed, &w);
    op->panels = w;
}

void dn_skinny_part(const dn_op *op, void *const at[DN_ROLES], uint32_t part, uint32_t parts)
{
    skinny s = {.op = op, .s = &op->sizes, .at = at, .w = op->panels, .panel = row_of(&op->sizes)};
    const int64_t panels = count_of(&op->sizes);
    const int64_t pairs = (panels + 1) / 2;
    const int64_t first = pairs * part / parts * 2;
    const int64_t last = pairs * (part + 1) / parts * 2;
    run_panels(&s, first, last < panels ? last : panels);
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

void dn_skinny_part(const dn_op *op, void *const at[DN_ROLES], uint32_t part, uint32_t parts)
{
    (void)op;
    (void)at;
    (void)part;
    (void)parts;
}

void dn_skinny_note(dn_op *op, const dn_plan *plan, const dn_sizes *sizes)
{
    (void)op;
    (void)plan;
    (void)sizes;
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
        (s->out.stride[1] != 1 && s->n > 1) || !is_epilogue_done(form) || !is_cpu_able()) {
        return 0;
    }
    out->name = "skinny";
    out->class_ = DN_GOOD;
    return dnnl_memory_desc_init_by_strides(&out->md[DN_Y], 2, dims, dnnl_f32, strides) ==
               dnnl_success &&
           dnnl_memory_desc_init_by_tag(&out->md[DN_Y2], 2, dims, dnnl_f32, dnnl_BA16a32b) ==
               dnnl_success;
}
