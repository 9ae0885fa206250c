/* What col2im (dn_tiles_col2im.c) does with f32 around its products, with AVX2. */
#include "plugins/cpu-llvm/kernels/dn_lanes_256.h"
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"

#if defined(__x86_64__)

/* `columns` is a constant where this is inlined. */
INLINE void copy_panel(const dn_panel *p, const int columns)
{
    const float *from = p->from;
    float *to = p->to;
    for (int64_t c = 0; c < p->channels; c++, from += p->plane, to += columns) {
        _mm_prefetch((const char *)from + DN_TILE_AHEAD, _MM_HINT_T0);
#pragma GCC unroll 4
        for (int i = 0; i < columns; i += LANES) {
            _mm256_storeu_ps(to + i, _mm256_loadu_ps(from + i));
        }
    }
}

/* Columns behind the last pixel are 0. */
static void copy_some(const dn_panel *p)
{
    for (int64_t i = 0; i < p->columns; i += LANES) {
        const uint32_t mask = i < p->n ? mask_of(p->n - i) : 0;
        for (int64_t c = 0; c < p->channels; c++) {
            const __m256 pixels =
                mask ? load_lanes(p->from + c * p->plane + i, mask) : _mm256_setzero_ps();
            _mm256_storeu_ps(p->to + c * p->columns + i, pixels);
        }
    }
}

void dn_copy_panel_256(const dn_panel *p)
{
    if (p->n < p->columns) {
        copy_some(p);
    } else if (p->columns == COLUMNS) {
        copy_panel(p, COLUMNS);
    } else {
        copy_panel(p, 2 * COLUMNS);
    }
}

INLINE __m256 sum_of(const dn_positions *p, const float *from, uint32_t mask)
{
    __m256 sum = _mm256_setzero_ps();
    for (int64_t y = 0; y < p->lines; y++, from += p->line) {
        const float *at = from;
        for (int64_t x = 0; x < p->positions; x++, at += p->position) {
            sum = _mm256_add_ps(sum, load_lanes(at, mask));
        }
    }
    return sum;
}

void dn_sum_positions_256(const dn_positions *p)
{
    for (int64_t f = 0; f < p->features; f++) {
        const float *from = p->from + f * p->from_step;
        float *to = p->to + f * p->to_step;
        int64_t i = 0;
        for (; i + LANES <= p->n; i += LANES) {
            _mm256_storeu_ps(to + i, sum_of(p, from + i, ALL_LANES));
        }
        if (i < p->n) {
            const uint32_t mask = mask_of(p->n - i);
            store_lanes(to + i, mask, sum_of(p, from + i, mask));
        }
    }
}

/* `every` and `step` may be constants where this is inlined. */
INLINE void interleave(const dn_interleave *p, const int64_t every, const int64_t step)
{
    const float *from = p->from;
    float *to = p->to;
    for (int64_t i = 0; i < p->n; i++) {
        for (int64_t k = 0; k < every; k++) {
            to[(i * every + k) * step] = from[k * p->n + i];
        }
    }
}

/* Lanes of two vectors in turns. */
INLINE void interleave_two(const dn_interleave *p)
{
    int64_t i = 0;
    for (; i + LANES <= p->n; i += LANES) {
        const __m256 a = _mm256_loadu_ps(p->from + i);
        const __m256 b = _mm256_loadu_ps(p->from + p->n + i);
        const __m256 low = _mm256_unpacklo_ps(a, b);
        const __m256 high = _mm256_unpackhi_ps(a, b);
        _mm256_storeu_ps(p->to + 2 * i, _mm256_permute2f128_ps(low, high, 0x20));
        _mm256_storeu_ps(p->to + 2 * i + LANES, _mm256_permute2f128_ps(low, high, 0x31));
    }
    for (; i < p->n; i++) {
        p->to[2 * i] = p->from[i];
        p->to[2 * i + 1] = p->from[p->n + i];
    }
}

void dn_interleave_256(const dn_interleave *p)
{
    if (p->step != 1) {
        interleave(p, p->every, p->step);
    } else if (p->every == 1) {
        memcpy(p->to, p->from, (size_t)p->n * sizeof *p->to);
    } else if (p->every == 2) {
        interleave_two(p);
    } else {
        interleave(p, p->every, 1);
    }
}

#endif
