/* Sums of integers to bytes (dn_bytes.c) with AVX2: two rows of a panel's columns at a time, what
 * they are multiplied with and what is added in registers. */
#include "plugins/cpu-llvm/kernels/dn_lanes_256.h"
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"

#if defined(__x86_64__)

typedef struct constants {
    __m256i column[2]; /* by feature */
    __m256 times[2], bias[2];
    __m256 most;
} constants;

/* The nearest whole numbers, before the offset; of a NaN, and what is less than all integers, the
 * least of them: it comes second in min. */
INLINE __m256i whole_of(const constants *c, const float *sums, const int half)
{
    const __m256i sum = _mm256_loadu_si256((const __m256i *)(const void *)sums + half);
    __m256 v = _mm256_cvtepi32_ps(_mm256_add_epi32(sum, c->column[half]));
    v = _mm256_min_ps(c->most, _mm256_fmadd_ps(v, c->times[half], c->bias[half]));
    return _mm256_cvtps_epi32(v);
}

/* A row's columns as words: four of the one half, four of the other, and so on. */
INLINE __m256i words_of(const dn_to_bytes *to, const constants *c, const float *sums)
{
    __m256i v = _mm256_packs_epi32(whole_of(c, sums, 0), whole_of(c, sums, 1));
    v = _mm256_adds_epi16(v, _mm256_set1_epi16(to->offset));
    v = _mm256_max_epi16(v, _mm256_set1_epi16(to->least));
    return _mm256_min_epi16(v, _mm256_set1_epi16(to->greatest));
}

/* The first n columns of each row. */
INLINE void store_row(char *to, __m128i row, int64_t n)
{
    if (n == COLUMNS) {
        _mm_storeu_si128((__m128i *)(void *)to, row);
        return;
    }
    store_eight(to, mask_of(n), (uint64_t)_mm_cvtsi128_si64(row));
    if (n > LANES) {
        store_eight(to + LANES, mask_of(n - LANES), (uint64_t)_mm_extract_epi64(row, 1));
    }
}

void dn_finish_bytes_256(const dn_finish *f)
{
    const dn_to_bytes *to = f->to_bytes;
    const int64_t columns = __builtin_popcount(f->mask[0]) + __builtin_popcount(f->mask[1]);
    const int64_t rows = f->n / 2;
    char *out = (char *)f->at[DN_OUT] + f->out;
    constants c = {.most = _mm256_set1_ps(DN_TILE_WHOLE_MAX)};
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        c.column[half] = _mm256_loadu_si256((const __m256i *)(const void *)f->column + half);
        c.times[half] = _mm256_loadu_ps(f->times + half * LANES);
        c.bias[half] = _mm256_loadu_ps(f->bias + half * LANES);
    }
    for (int64_t i = 0; i < rows; i += 2) {
        const float *sums = f->sums + i * COLUMNS;
        const bool is_pair = i + 1 < rows;
        const __m256i a = words_of(to, &c, sums);
        const __m256i b = words_of(to, &c, is_pair ? sums + COLUMNS : sums);
        const __m256i mixed = to->is_signed ? _mm256_packs_epi16(a, b) : _mm256_packus_epi16(a, b);
        const __m256i bytes =
            _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        store_row(out + i * f->step, _mm256_castsi256_si128(bytes), columns);
        if (is_pair) {
            store_row(out + (i + 1) * f->step, _mm256_extracti128_si256(bytes, 1), columns);
        }
    }
}

#endif
