/* See limits_kernels.h. Accumulators are as many as hide the latency of a fused multiply-add on
 * two pipes (4 cycles each), with room: 16 registers of 512 bits, 12 of 256. */
#include "bench/limits/limits_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define PREFETCH_FLOATS 1024 /* 4 KiB: a DRAM latency at some 40 GB/s a core */

/* ---- any machine ---- */

static double fma_plain(long rounds, float *sink)
{
    float a[16];
    for (int i = 0; i < 16; i++) {
        a[i] = (float)i * 1e-3f;
    }
    for (long k = 0; k < rounds; k++) {
        for (int i = 0; i < 16; i++) {
            a[i] = a[i] * 0.999999f + 1e-7f;
        }
    }
    for (int i = 0; i < 16; i++) {
        *sink += a[i];
    }
    return (double)rounds * 16 * 2;
}

/* Adding zero keeps the compiler from calling memcpy, which stores past the caches by itself. */
static void copy_plain(float *a, const float *b, const float *c, size_t n, float *sink)
{
    (void)c;
    for (size_t i = 0; i < n; i++) {
        a[i] = b[i] + 0.0f;
    }
    *sink += a[0];
}

static void triad_plain(float *a, const float *b, const float *c, size_t n, float *sink)
{
    for (size_t i = 0; i < n; i++) {
        a[i] = b[i] * 3.0f + c[i];
    }
    *sink += a[0];
}

static void read_plain(float *a, const float *b, const float *c, size_t n, float *sink)
{
    (void)a;
    (void)c;
    float sum[16] = {0};
    for (size_t i = 0; i + 16 <= n; i += 16) {
        for (int k = 0; k < 16; k++) {
            sum[k] += b[i + (size_t)k];
        }
    }
    for (int k = 0; k < 16; k++) {
        *sink += sum[k];
    }
}

static void read_prefetch_plain(float *a, const float *b, const float *c, size_t n, float *sink)
{
    (void)a;
    (void)c;
    float sum[16] = {0};
    for (size_t i = 0; i + 16 <= n; i += 16) {
        __builtin_prefetch(b + (i + PREFETCH_FLOATS < n ? i + PREFETCH_FLOATS : i));
        for (int k = 0; k < 16; k++) {
            sum[k] += b[i + (size_t)k];
        }
    }
    for (int k = 0; k < 16; k++) {
        *sink += sum[k];
    }
}

#if defined(__x86_64__)

/* ---- 256 bits ---- */

#define AVX2 __attribute__((target("avx2,fma")))

AVX2 static float sum8(__m256 v)
{
    float lane[8];
    _mm256_storeu_ps(lane, v);
    return lane[0] + lane[1] + lane[2] + lane[3] + lane[4] + lane[5] + lane[6] + lane[7];
}

AVX2 static double fma_avx2(long rounds, float *sink)
{
    __m256 a[12];
    for (int i = 0; i < 12; i++) {
        a[i] = _mm256_set1_ps((float)i * 1e-3f);
    }
    const __m256 x = _mm256_set1_ps(0.999999f);
    const __m256 y = _mm256_set1_ps(1e-7f);
    for (long k = 0; k < rounds; k++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) {
            a[i] = _mm256_fmadd_ps(a[i], x, y);
        }
    }
    for (int i = 0; i < 12; i++) {
        *sink += sum8(a[i]);
    }
    return (double)rounds * 12 * 8 * 2;
}

/* Exact without VNNI: words. */
AVX2 static double dot_i8_avx2(long rounds, float *sink)
{
    __m256i a[8];
    __m256i x = _mm256_set1_epi16(3);
    const __m256i y = _mm256_set1_epi16(-2);
    for (int i = 0; i < 8; i++) {
        a[i] = _mm256_set1_epi32(i);
    }
    for (long k = 0; k < rounds; k++) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            __asm__("" : "+x"(x)); /* else all of it is one product */
            a[i] = _mm256_add_epi32(a[i], _mm256_madd_epi16(x, y));
        }
    }
    for (int i = 0; i < 8; i++) {
        *sink += sum8(_mm256_cvtepi32_ps(a[i]));
    }
    return (double)rounds * 8 * 16 * 2;
}

AVX2 static void copy_avx2(float *a, const float *b, const float *c, size_t n, float *sink)
{
    (void)c;
    for (size_t i = 0; i < n; i += 16) {
        _mm256_store_ps(a + i, _mm256_load_ps(b + i));
        _mm256_store_ps(a + i + 8, _mm256_load_ps(b + i + 8));
    }
    *sink += a[0];
}

AVX2 static void copy_nt_avx2(float *a, const float *b, const float *c, size_t n, float *sink)
{
    (void)c;
    for (size_t i = 0; i < n; i += 16) {
        _mm256_stream_ps(a + i, _mm256_load_ps(b + i));
        _mm256_stream_ps(a + i + 8, _mm256_load_ps(b + i + 8));
    }
    _mm_sfence();
    *sink += a[0];
}

AVX2 static void triad_avx2(float *a, const float *b, const float *c, size_t n, float *sink)
{
    const __m256 k = _mm256_set1_ps(3.0f);
    for (size_t i = 0; i < n; i += 8) {
        _mm256_store_ps(a + i, _mm256_fmadd_ps(_mm256_load_ps(b + i), k, _mm256_load_ps(c + i)));
    }
    *sink += a[0];
}

AVX2 static void read_avx2(float *a, const float *b, const float *c, size_t n, float *sink)
{
    (void)a;
    (void)c;
    __m256 s0 = _mm256_setzero_ps();
    __m256 s1 = s0;
    __m256 s2 = s0;
    __m256 s3 = s0;
    for (size_t i = 0; i < n; i += 32) {
        s0 = _mm256_add_ps(s0, _mm256_load_ps(b + i));
        s1 = _mm256_add_ps(s1, _mm256_load_ps(b + i + 8));
        s2 = _mm256_add_ps(s2, _mm256_load_ps(b + i + 16));
        s3 = _mm256_add_ps(s3, _mm256_load_ps(b + i + 24));
    }
    *sink += sum8(s0) + sum8(s1) + sum8(s2) + sum8(s3);
}

AVX2 static void read_prefetch_avx2(float *a, const float *b, const float *c, size_t n, float *sink)
{
    (void)a;
    (void)c;
    __m256 s0 = _mm256_setzero_ps();
    __m256 s1 = s0;
    __m256 s2 = s0;
    __m256 s3 = s0;
    for (size_t i = 0; i < n; i += 32) {
        _mm_prefetch((const char *)(b + i + PREFETCH_FLOATS), _MM_HINT_T0);
        _mm_prefetch((const char *)(b + i + PREFETCH_FLOATS + 16), _MM_HINT_T0);
        s0 = _mm256_add_ps(s0, _mm256_load_ps(b + i));
        s1 = _mm256_add_ps(s1, _mm256_load_ps(b + i + 8));
        s2 = _mm256_add_ps(s2, _mm256_load_ps(b + i + 16));
        s3 = _mm256_add_ps(s3, _mm256_load_ps(b + i + 24));
    }
    *sink += sum8(s0) + sum8(s1) + sum8(s2) + sum8(s3);
}

/* ---- 512 bits ---- */

#define AVX512 __attribute__((target("avx512f")))

AVX512 static double fma_avx512(long rounds, float *sink)
{
    __m512 a[16];
    for (int i = 0; i < 16; i++) {
        a[i] = _mm512_set1_ps((float)i * 1e-3f);
    }
    const __m512 x = _mm512_set1_ps(0.999999f);
    const __m512 y = _mm512_set1_ps(1e-7f);
    for (long k = 0; k < rounds; k++) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            a[i] = _mm512_fmadd_ps(a[i], x, y);
        }
    }
    for (int i = 0; i < 16; i++) {
        *sink += _mm512_reduce_add_ps(a[i]);
    }
    return (double)rounds * 16 * 16 * 2;
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) static double dot_bf16_avx512(
    long rounds, float *sink)
{
    __m512 a[16];
    for (int i = 0; i < 16; i++) {
        a[i] = _mm512_set1_ps((float)i * 1e-3f);
    }
    const __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(-0.5f));
    const __m512bh y = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1.5f), _mm512_set1_ps(1.5f));
    for (long k = 0; k < rounds; k++) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            a[i] = _mm512_dpbf16_ps(a[i], x, y);
        }
    }
    for (int i = 0; i < 16; i++) {
        *sink += _mm512_reduce_add_ps(a[i]);
    }
    return (double)rounds * 16 * 32 * 2;
}

__attribute__((target("avx512f,avx512bw,avx512vnni"))) static double dot_i8_avx512(long rounds,
                                                                                   float *sink)
{
    __m512i a[16];
    for (int i = 0; i < 16; i++) {
        a[i] = _mm512_set1_epi32(i);
    }
    const __m512i x = _mm512_set1_epi8(3);
    const __m512i y = _mm512_set1_epi8(-2);
    for (long k = 0; k < rounds; k++) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            a[i] = _mm512_dpbusd_epi32(a[i], x, y);
        }
    }
    for (int i = 0; i < 16; i++) {
        *sink += (float)_mm512_reduce_add_epi32(a[i]);
    }
    return (double)rounds * 16 * 64 * 2;
}

AVX512 static void copy_avx512(float *a, const float *b, const float *c, size_t n, float *sink)
{
    (void)c;
    for (size_t i = 0; i < n; i += 16) {
        _mm512_store_ps(a + i, _mm512_load_ps(b + i));
    }
    *sink += a[0];
}

AVX512 static void copy_nt_avx512(float *a, const float *b, const float *c, size_t n, float *sink)
{
    (void)c;
    for (size_t i = 0; i < n; i += 16) {
        _mm512_stream_ps(a + i, _mm512_load_ps(b + i));
    }
    _mm_sfence();
    *sink += a[0];
}

AVX512 static void triad_avx512(float *a, const float *b, const float *c, size_t n, float *sink)
{
    const __m512 k = _mm512_set1_ps(3.0f);
    for (size_t i = 0; i < n; i += 16) {
        _mm512_store_ps(a + i, _mm512_fmadd_ps(_mm512_load_ps(b + i), k, _mm512_load_ps(c + i)));
    }
    *sink += a[0];
}

AVX512 static void read_avx512(float *a, const float *b, const float *c, size_t n, float *sink)
{
    (void)a;
    (void)c;
    __m512 s0 = _mm512_setzero_ps();
    __m512 s1 = s0;
    __m512 s2 = s0;
    __m512 s3 = s0;
    for (size_t i = 0; i < n; i += 64) {
        s0 = _mm512_add_ps(s0, _mm512_load_ps(b + i));
        s1 = _mm512_add_ps(s1, _mm512_load_ps(b + i + 16));
        s2 = _mm512_add_ps(s2, _mm512_load_ps(b + i + 32));
        s3 = _mm512_add_ps(s3, _mm512_load_ps(b + i + 48));
    }
    s0 = _mm512_add_ps(_mm512_add_ps(s0, s1), _mm512_add_ps(s2, s3));
    *sink += _mm512_reduce_add_ps(s0);
}

AVX512 static void read_prefetch_avx512(float *a, const float *b, const float *c, size_t n,
                                        float *sink)
{
    (void)a;
    (void)c;
    __m512 s0 = _mm512_setzero_ps();
    __m512 s1 = s0;
    __m512 s2 = s0;
    __m512 s3 = s0;
    for (size_t i = 0; i < n; i += 64) {
        for (size_t k = 0; k < 64; k += 16) {
            _mm_prefetch((const char *)(b + i + PREFETCH_FLOATS + k), _MM_HINT_T0);
        }
        s0 = _mm512_add_ps(s0, _mm512_load_ps(b + i));
        s1 = _mm512_add_ps(s1, _mm512_load_ps(b + i + 16));
        s2 = _mm512_add_ps(s2, _mm512_load_ps(b + i + 32));
        s3 = _mm512_add_ps(s3, _mm512_load_ps(b + i + 48));
    }
    s0 = _mm512_add_ps(_mm512_add_ps(s0, s1), _mm512_add_ps(s2, s3));
    *sink += _mm512_reduce_add_ps(s0);
}

#endif

limits_isa limits_best_isa(void)
{
    limits_isa isa = {.name = "plain C",
                      .fma_f32 = fma_plain,
                      .copy = copy_plain,
                      .triad = triad_plain,
                      .read = read_plain,
                      .read_prefetch = read_prefetch_plain};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        isa = (limits_isa){.name = "avx512f",
                           .fma_f32 = fma_avx512,
                           .copy = copy_avx512,
                           .copy_nt = copy_nt_avx512,
                           .triad = triad_avx512,
                           .read = read_avx512,
                           .read_prefetch = read_prefetch_avx512};
        if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vl")) {
            isa.dot_bf16 = dot_bf16_avx512;
        }
        if (__builtin_cpu_supports("avx512vnni")) {
            isa.dot_i8 = dot_i8_avx512;
        }
    } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        isa = (limits_isa){.name = "avx2+fma",
                           .fma_f32 = fma_avx2,
                           .dot_i8 = dot_i8_avx2,
                           .copy = copy_avx2,
                           .copy_nt = copy_nt_avx2,
                           .triad = triad_avx2,
                           .read = read_avx2,
                           .read_prefetch = read_prefetch_avx2};
    }
#endif
    return isa;
}
