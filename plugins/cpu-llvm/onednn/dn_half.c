/* Contractions of f16, done in f32: oneDNN has none on processors without f16 arithmetic; and of
 * bf16 on processors without AVX-512, for which it has none either.
 *
 * The op inside is one of f32. Constant weights are made f32 once, before they are packed (an op
 * from the cache does so when it looks at them at all); the other operands with each call, in
 * scratch of the library. The result is rounded once, from f32, as the contraction asks. */
#include "plugins/cpu-llvm/onednn/dn_library.h"

#include "core/base/convert.h"
#include "core/base/diag.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <string.h>

#define BLOCK 4096 /* elements that are worth handing to a thread */
#define ALIGN 64u

typedef struct dn_half {
    uint32_t roles;   /* bit of each role whose buffer holds such numbers */
    uint32_t dtype;   /* f16 or bf16 */
    uint32_t keeps_y; /* the weights are constants, whatever a plan makes of them */
    /* under op->mutex: */
    float *y; /* constant weights; NULL: not made yet, or y comes with the call */
    uint64_t y_bytes;
} dn_half;

/* ---- contractions ---- */

/* The narrow dtype of the two that is made f32. */
static uint32_t narrow_dtype(const st_contraction *contraction)
{
    const bool has_bf16 =
        (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
    const bool is_done = has_bf16 && !contraction->weights.is_scaled;
    return contraction->x.dtype == STATOR_BF16 && !is_done ? STATOR_BF16 : STATOR_F16;
}

uint32_t dn_widen(st_contraction *contraction, uint32_t *out_narrow)
{
    uint32_t roles = 0;
    const uint32_t narrow = narrow_dtype(contraction);
    *out_narrow = narrow;
    if (st_contraction_is_sdpa(contraction->kind)) {
        return 0; /* attention widens what it copies */
    }
    uint32_t *const dtypes[3] = {&contraction->x.dtype, &contraction->y.dtype,
                                 &contraction->out.dtype};
    for (uint32_t i = 0; i < 3; i++) {
        roles |= (uint32_t)(*dtypes[i] == narrow) << (DN_X + i);
        *dtypes[i] = *dtypes[i] == narrow ? STATOR_F32 : *dtypes[i];
    }
    for (uint32_t i = 0; i < contraction->n_epilogue; i++) {
        st_epilogue *e = &contraction->epilogue[i];
        if (st_epilogue_has_buffer(e->kind) && e->dtype == narrow) {
            roles |= 1u << (DN_POST + i);
            e->dtype = STATOR_F32;
        }
    }
    return roles;
}

/* ---- conversion ---- */

typedef struct conversion {
    const void *from;
    void *to;
    uint32_t dtype;
    bool is_widening;
} conversion;

#if defined(__x86_64__)
#define F16C __attribute__((target("avx2,f16c")))

static F16C __m256 widened(__m128i bits, uint32_t dtype)
{
    return dtype == STATOR_F16
               ? _mm256_cvtph_ps(bits)
               : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

/* Rounds as st_f32_to_bf16 does: to the nearest, to even between two; a NaN becomes a quiet one. */
static F16C __m128i brain_of(__m256 x)
{
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i high = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i near = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i all = _mm256_blendv_epi8(near, quiet, is_nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}

static F16C int64_t widen_fast(const uint16_t *from, float *to, int64_t n, uint32_t dtype)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m128i bits = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        _mm256_storeu_ps(to + i, widened(bits, dtype));
    }
    return i;
}

static F16C int64_t narrow_fast(const float *from, uint16_t *to, int64_t n, uint32_t dtype)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 x = _mm256_loadu_ps(from + i);
        const __m128i bits =
            dtype == STATOR_F16 ? _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT) : brain_of(x);
        _mm_storeu_si128((__m128i *)(void *)(to + i), bits);
    }
    return i;
}

static bool is_cpu_able(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("f16c") && __builtin_cpu_supports("avx2");
}
#else /* the loops behind these do it all */
#define widen_fast(from, to, n, dtype) 0
#define narrow_fast(from, to, n, dtype) 0
#define is_cpu_able() false
#endif

static void convert_range(void *self, int64_t begin, int64_t end)
{
    const conversion *c = self;
    int64_t done = begin;
    const bool is_fast = is_cpu_able();
    if (c->is_widening) {
        const uint16_t *from = c->from;
        float *to = c->to;
        done += is_fast ? widen_fast(from + begin, to + begin, end - begin, c->dtype) : 0;
        st_load_f32_block(c->dtype, from, done, end - done, to + done);
    } else {
        const float *from = c->from;
        uint16_t *to = c->to;
        done += is_fast ? narrow_fast(from + begin, to + begin, end - begin, c->dtype) : 0;
        st_store_f32_block(c->dtype, to, done, end - done, from + done);
    }
}

static void convert(const dn_op *op, stator_ctx *ctx, const void *from, void *to, int64_t n,
                    bool is_widening)
{
    conversion c = {from, to, op->half->dtype, is_widening};
    if (n > 0) {
        dn_parallel(n > BLOCK ? op->lib->host : NULL, ctx, n, BLOCK, convert_range, &c);
    }
}

/* ---- making ---- */

bool dn_half_has(const dn_op *op, uint32_t role)
{
    return op->half && (op->half->roles >> role & 1u);
}

uint32_t dn_half_dtype(const dn_op *op)
{
    return op->half ? op->half->dtype : STATOR_F16;
}

stator_status dn_half_make(dn_op *op, uint32_t roles, uint32_t dtype, stator_diag **err)
{
    op->half = st_calloc(op->lib->mem, 1, sizeof *op->half);
    ST_TRY_MEM(op->half, err);
    op->half->roles = roles;
    op->half->dtype = dtype;
    op->half->keeps_y = op->has_constant;
    return STATOR_OK;
}

uint32_t dn_half_roles(const dn_op *op)
{
    return op->half ? op->half->roles : 0;
}

/* The constant weights in f32, as far as they are made; NULL: not yet, or y comes with the call. */
static float *kept_weights(dn_op *op)
{
    (void)pthread_mutex_lock(&op->mutex);
    float *y = op->half->y;
    (void)pthread_mutex_unlock(&op->mutex);
    return y;
}

stator_status dn_half_widen(dn_op *op, const dn_sizes *sizes, const void *y, const void **out,
                            stator_diag **err)
{
    stator_ctx *ctx = op->lib->host ? op->lib->host->ctx : NULL;
    dn_half *half = op->half;
    *out = kept_weights(op);
    if (*out) {
        return STATOR_OK;
    }
    const int64_t n = dn_span(&op->contraction, sizes, DN_Y);
    float *wide = st_alloc(op->lib->mem, (uint64_t)n * sizeof *wide, ALIGN);
    float *unused = wide;
    ST_TRY_MEM(wide, err);
    convert(op, ctx, y, wide, n, true);
    (void)pthread_mutex_lock(&op->mutex);
    if (half->y == NULL) { /* else another thread was faster */
        half->y = wide;
        half->y_bytes = (uint64_t)n * sizeof *wide;
        unused = NULL;
    }
    *out = half->y;
    (void)pthread_mutex_unlock(&op->mutex);
    st_free(op->lib->mem, unused);
    return STATOR_OK;
}

void dn_half_destroy(dn_op *op)
{
    if (op->half) {
        st_free(op->lib->mem, op->half->y);
        st_free(op->lib->mem, op->half);
        op->half = NULL;
    }
}

uint64_t dn_half_bytes(const dn_op *op)
{
    return op->half ? op->half->y_bytes : 0;
}

/* ---- a call ---- */

static uint64_t padded(int64_t elements)
{
    return ((uint64_t)elements * sizeof(float) + ALIGN - 1u) / ALIGN * ALIGN;
}

/* Elements of the buffer behind a role that a call of so many products may touch. */
static int64_t elements_of(const dn_op *op, const dn_sizes *s, uint32_t role, int64_t macs)
{
    const st_contraction *contraction = &op->contraction;
    if (role <= DN_OUT) {
        return macs == 0 && role != DN_OUT ? 0 : dn_span(contraction, s, role);
    }
    switch (contraction->epilogue[role - DN_POST].kind) {
    case ST_EPILOGUE_ADD:
        return dn_span(contraction, s, DN_OUT);
    case ST_EPILOGUE_TIMES_ONE:
        return 1;
    default:
        return contraction->kind == ST_CONTRACTION_CONV ? s->features : s->n;
    }
}

/* Is the role's buffer narrow, and made f32 in this call? */
static bool is_moved(const dn_op *op, uint32_t role, const float *y)
{
    return dn_half_has(op, role) && !(role == DN_Y && (y || op->half->keeps_y));
}

stator_status dn_half_run(dn_op *op, const dn_sizes *s, void *const at[DN_ROLES], stator_ctx *ctx,
                          stator_diag **err)
{
    void *wide[DN_ROLES];
    int64_t elements = 0;
    int64_t macs = 0;
    uint64_t bytes = 0;
    float *y = kept_weights(op);
    memcpy(wide, at, sizeof wide);
    dn_work(&op->contraction, s, &elements, &macs);
    if (elements == 0) {
        return STATOR_OK;
    }
    for (uint32_t role = 0; role < DN_ROLES; role++) {
        bytes += is_moved(op, role, y) ? padded(elements_of(op, s, role, macs)) : 0;
    }
    dn_scratch *scratch = dn_scratch_take(op->lib, bytes);
    char *next = dn_scratch_data(scratch);
    ST_TRY_MEM(scratch, err);
    const int64_t out = dn_span(&op->contraction, s, DN_OUT);
    for (uint32_t role = 0; role < DN_ROLES; role++) {
        if (!is_moved(op, role, y)) {
            continue;
        }
        const int64_t n = elements_of(op, s, role, macs);
        wide[role] = next;
        next += padded(n);
        if (role != DN_OUT || out != elements) { /* bytes between the output's elements stay */
            convert(op, ctx, at[role], wide[role], n, true);
        }
    }
    if (dn_half_has(op, DN_Y) && !is_moved(op, DN_Y, y)) {
        wide[DN_Y] = y; /* NULL: who looks at them finds them */
    }
    const stator_status status = dn_run_at(op, s, wide, ctx, err);
    if (status == STATOR_OK && is_moved(op, DN_OUT, y)) {
        convert(op, ctx, wide[DN_OUT], at[DN_OUT], out, false);
    }
    dn_scratch_give(op->lib, scratch);
    return status;
}
