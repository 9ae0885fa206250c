/* Sums of integers to bytes (dn_bytes.c) with AVX-512: two rows of a panel's columns at a time,
 * what they are multiplied with and what is added in registers. */
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))
#define LANES 16
#define COLUMNS 32

typedef struct constants {
    __m512i column[2]; /* by feature */
    __m512 times[2], bias[2];
    __m512 most;
    __m512i offset, least, greatest;
} constants;

/* The nearest whole numbers, before the offset; of a NaN, and what is less than all integers, the
 * least of them: it comes second in min. */
INLINE __m512i whole_of(const constants *c, const float *sums, const int half)
{
    const __m512i sum = _mm512_load_si512(sums + half * LANES);
    __m512 v = _mm512_cvtepi32_ps(_mm512_add_epi32(sum, c->column[half]));
    v = _mm512_min_ps(c->most, _mm512_fmadd_ps(v, c->times[half], c->bias[half]));
    return _mm512_cvtps_epi32(v);
}

/* A row's columns as words: four of the one half, four of the other, and so on. */
INLINE __m512i words_of(const constants *c, const float *sums)
{
    __m512i v = _mm512_packs_epi32(whole_of(c, sums, 0), whole_of(c, sums, 1));
    v = _mm512_max_epi16(_mm512_adds_epi16(v, c->offset), c->least);
    return _mm512_min_epi16(v, c->greatest);
}

INLINE void store_row(char *to, __m256i row, __mmask32 mask)
{
    if (mask == 0xffffffffu) {
        _mm256_storeu_si256((__m256i *)(void *)to, row);
    } else {
        _mm256_mask_storeu_epi8(to, mask, row);
    }
}

void dn_finish_bytes_512(const dn_finish *f)
{
    const dn_to_bytes *to = f->to_bytes;
    const __mmask32 mask = f->mask[0] | (__mmask32)f->mask[1] << LANES;
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const int64_t rows = f->n / 2;
    char *out = (char *)f->at[DN_OUT] + f->out;
    constants c = {.most = _mm512_set1_ps(DN_TILE_WHOLE_MAX),
                   .offset = _mm512_set1_epi16(to->offset),
                   .least = _mm512_set1_epi16(to->least),
                   .greatest = _mm512_set1_epi16(to->greatest)};
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        c.column[half] = _mm512_loadu_si512(f->column + half * LANES);
        c.times[half] = _mm512_loadu_ps(f->times + half * LANES);
        c.bias[half] = _mm512_loadu_ps(f->bias + half * LANES);
    }
    for (int64_t i = 0; i < rows; i += 2) {
        const float *sums = f->sums + i * COLUMNS;
        const bool is_pair = i + 1 < rows;
        const __m512i a = words_of(&c, sums);
        const __m512i b = words_of(&c, is_pair ? sums + COLUMNS : sums);
        const __m512i mixed = to->is_signed ? _mm512_packs_epi16(a, b) : _mm512_packus_epi16(a, b);
        const __m512i bytes = _mm512_permutexvar_epi32(order, mixed);
        store_row(out + i * f->step, _mm512_castsi512_si256(bytes), mask);
        if (is_pair) {
            store_row(out + (i + 1) * f->step, _mm512_extracti64x4_epi64(bytes, 1), mask);
        }
    }
}

#endif
