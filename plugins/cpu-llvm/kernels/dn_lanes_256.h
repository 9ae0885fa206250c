/* What the inner loops for AVX2 and FMA share: lanes, and those of a mask. A file that includes it
 * is compiled for these instructions from here on. */
#ifndef STATOR_DN_LANES_256_H
#define STATOR_DN_LANES_256_H

#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define LANES 8
#define COLUMNS 16 /* columns of a panel */

/* The lanes of the mask's bits. */
INLINE __m256i lanes_of(uint32_t mask)
{
    const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)mask), bits), bits);
}

#define ALL_LANES 0xffu

#include "plugins/cpu-llvm/kernels/dn_mask.h"

INLINE __m256 load_lanes(const float *from, uint32_t mask)
{
    return mask == ALL_LANES ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, lanes_of(mask));
}

INLINE void store_lanes(float *to, uint32_t mask, __m256 v)
{
    if (mask == ALL_LANES) {
        _mm256_storeu_ps(to, v);
    } else {
        _mm256_maskstore_ps(to, lanes_of(mask), v);
    }
}

/* Rows of 8 x 8 become columns. */
INLINE void transpose_block(__m256 a[LANES])
{
    __m256 b[LANES];
#pragma GCC unroll 4
    for (int i = 0; i < LANES; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < LANES; i += 4) {
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < LANES / 2; i++) {
        b[i] = _mm256_permute2f128_ps(a[i], a[i + 4], 0x20);
        b[i + 4] = _mm256_permute2f128_ps(a[i], a[i + 4], 0x31);
    }
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i++) {
        a[i] = b[i];
    }
}

INLINE int32_t sum_lanes(__m256i v)
{
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1)));
}

/* Bytes of the first lanes. */
INLINE void store_eight(char *to, uint32_t mask, uint64_t bytes)
{
    if (mask == ALL_LANES) {
        memcpy(to, &bytes, sizeof bytes);
        return;
    }
    for (; mask; mask >>= 1, bytes >>= 8) {
        *to++ = (char)bytes;
    }
}

#endif
#endif
