/* What the inner loops for AVX-512 share: vectors of 64 bytes, and blocks of 16 x 16 elements. It
 * is included behind the instructions that a file is compiled for. */
#ifndef STATOR_DN_LANES_512_H
#define STATOR_DN_LANES_512_H

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))
#define LANES 16
#define ROWS 14 /* rows of a tile */

/* One text for each height of a tile, and the table of the functions that it made. */
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define TILES_OF_ROWS(tile)                                                                        \
    {                                                                                              \
        tile##_1, tile##_2, tile##_3, tile##_4, tile##_5, tile##_6, tile##_7, tile##_8, tile##_9,  \
            tile##_10, tile##_11, tile##_12, tile##_13, tile##_14                                  \
    }

/* ---- what dn_finish_isa.h takes ---- */

typedef __m512 vec;

INLINE vec least_of(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

INLINE vec greatest_of(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

INLINE vec rounded(vec v)
{
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* ---- blocks of 16 x 16 ---- */

/* Rows of 4-byte elements become columns. */
INLINE void transpose_block(__m512i a[LANES])
{
    __m512i b[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i += 4) {
        a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        b[i] = _mm512_shuffle_i32x4(a[i], a[i + 4], 0x88);
        b[i + 4] = _mm512_shuffle_i32x4(a[i], a[i + 4], 0xdd);
        b[i + 8] = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0x88);
        b[i + 12] = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        a[i] = _mm512_shuffle_i32x4(b[i], b[i + 8], 0x88);
        a[i + 8] = _mm512_shuffle_i32x4(b[i], b[i + 8], 0xdd);
        a[i + 4] = _mm512_shuffle_i32x4(b[i + 4], b[i + 12], 0x88);
        a[i + 12] = _mm512_shuffle_i32x4(b[i + 4], b[i + 12], 0xdd);
    }
}

/* Transposes LANES rows of sums, two vectors each, to a vector for each column. */
static inline void transpose_sums(const int32_t *sums, float *to)
{
    __m512i a[LANES];
    for (int half = 0; half < 2 * LANES; half += LANES) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) {
            a[i] = _mm512_load_si512(sums + i * 2 * LANES + half);
        }
        transpose_block(a);
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) {
            _mm512_storeu_si512(to + (half + i) * LANES, a[i]);
        }
    }
}

#endif
#endif
