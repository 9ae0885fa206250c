/* The inner loops of convolutions plane by plane with vectors of 64 bytes. */
#include "plugins/cpu-llvm/kernels/dn_planes.h"
#if defined(__x86_64__)
#pragma GCC target("avx512f,prefer-vector-width=512")
#include <immintrin.h>
#define LANES 16
#define TILE 8
#define EVEN(a, b)                                                                                 \
    __builtin_shuffle(a, b, (ivec){0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30})
#define LOAD_BITS(from, bits) _mm512_maskz_loadu_ps((__mmask16)(bits), from)
#define STORE_BITS(to, bits, v) _mm512_mask_storeu_ps(to, (__mmask16)(bits), (__m512)(v))
#define UNPACK_LOW(a, b) (vec) _mm512_unpacklo_ps((__m512)(a), (__m512)(b))
#define UNPACK_HIGH(a, b) (vec) _mm512_unpackhi_ps((__m512)(a), (__m512)(b))
#define SHUFFLE(a, b, of) (vec) _mm512_shuffle_ps((__m512)(a), (__m512)(b), of)
#define LOAD_FOURS(rows, at) (vec) load_fours(rows, at)
#define STORE_FOURS(rows, at, v) store_fours(rows, at, (__m512)(v))

static inline __m512 load_fours(const float *const *rows, int64_t at)
{
    __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(rows[0] + at));
    v = _mm512_insertf32x4(v, _mm_loadu_ps(rows[4] + at), 1);
    v = _mm512_insertf32x4(v, _mm_loadu_ps(rows[8] + at), 2);
    return _mm512_insertf32x4(v, _mm_loadu_ps(rows[12] + at), 3);
}

static inline void store_fours(float *const *rows, int64_t at, __m512 v)
{
    _mm_storeu_ps(rows[0] + at, _mm512_castps512_ps128(v));
    _mm_storeu_ps(rows[4] + at, _mm512_extractf32x4_ps(v, 1));
    _mm_storeu_ps(rows[8] + at, _mm512_extractf32x4_ps(v, 2));
    _mm_storeu_ps(rows[12] + at, _mm512_extractf32x4_ps(v, 3));
}

#define ISA dn_planes_512
#include "plugins/cpu-llvm/kernels/dn_planes_isa.h"
#endif
