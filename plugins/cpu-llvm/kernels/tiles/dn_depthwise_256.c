/* Convolutions of bytes with a group for each channel, AVX2. Words of a pixel at two places of the
 * window are interleaved, so that one instruction sums their products with the channel's two
 * weights; what is left over of an odd number of places meets a weight of 0. */
#include "plugins/cpu-llvm/kernels/dn_lanes_256.h"
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"

#if defined(__x86_64__)
#define TOGETHER 3 /* pixels: sums, weights and operands fill the registers */

INLINE __m256i words_at(const char *x)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)x);
}

INLINE __m256i sum_of(__m256i sum, __m256i x, __m256i weights)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(x, weights));
}

/* Unpacking takes the middle quarters of 16 channels apart (dn_tiles_pack.c): here they are put
 * into their order. */
INLINE void store_sums(int32_t *to, __m256i outer, __m256i inner)
{
    __m256i *at = (__m256i *)(void *)to;
    _mm256_store_si256(at, _mm256_permute2x128_si256(outer, inner, 0x20));
    _mm256_store_si256(at + 1, _mm256_permute2x128_si256(outer, inner, 0x31));
}

/* Pixels from `first` on; `n` is a constant where this is inlined. */
INLINE void singles(const dn_tile *t, int64_t first, const int n)
{
    const char *x = t->x + first * t->row;
    const char *w = t->weights;
    __m256i sum[TOGETHER][2];
#pragma GCC unroll 3
    for (int i = 0; i < n; i++) {
        sum[i][0] = _mm256_setzero_si256();
        sum[i][1] = _mm256_setzero_si256();
    }
    for (int64_t k = 0; k < t->length; k++, w += DN_TILE_PAIR) {
        const __m256i w0 = words_at(w);
        const __m256i w1 = words_at(w + DN_TILE_PAIR / 2);
        const char *a = x + t->places[2 * k];
        const char *b = x + t->places[2 * k + 1];
#pragma GCC unroll 3
        for (int i = 0; i < n; i++) {
            const __m256i from_a = words_at(a + i * t->row);
            const __m256i from_b = words_at(b + i * t->row);
            sum[i][0] = sum_of(sum[i][0], _mm256_unpacklo_epi16(from_a, from_b), w0);
            sum[i][1] = sum_of(sum[i][1], _mm256_unpackhi_epi16(from_a, from_b), w1);
        }
    }
#pragma GCC unroll 3
    for (int i = 0; i < n; i++) {
        store_sums(t->sums + (first + i) * t->step, sum[i][0], sum[i][1]);
    }
}

void dn_run_singles_256(const dn_tile *t, int64_t rows)
{
    int64_t i = 0;
    for (; i + TOGETHER <= rows; i += TOGETHER) {
        singles(t, i, TOGETHER);
    }
    if (rows - i == 2) {
        singles(t, i, 2);
    } else if (rows - i == 1) {
        singles(t, i, 1);
    }
}

#endif
