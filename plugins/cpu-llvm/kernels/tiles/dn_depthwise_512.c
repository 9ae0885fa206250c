/* Convolutions of bytes with a group for each channel, AVX-512 with its products of bytes. Bytes of
 * a column of the window at four lines are interleaved, so that one instruction sums their
 * products with the channel's four weights; lines that the window has not meet weights of 0. A
 * register has 32 channels of two pixels, which are as many pixels apart as make a tile two halves.
 *
 * Where neighbours of the output meet the same columns, of squares of 3 and 5 places, a column is
 * unpacked once for all of them. */
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))
#define LANES 16
#define VECTORS 4 /* vectors of a column: 8 channels each, of either pixel */
#define LINES 4   /* lines that one instruction sums */
#define SOME 4    /* pixels of either half: their sums leave registers for a column */
#define MORE 7    /* the same where sums are stored before the last ones begin */

/* The values that all pixels of a tile share. */
typedef struct window {
    const dn_tile *t;
    int64_t other;                        /* bytes from a pixel to that of the other half */
    int64_t groups;                       /* groups of LINES lines in a column */
    int64_t line[DN_SINGLES_MAX + LINES]; /* bytes from a column's top; the last one again */
} window;

INLINE __m512i load_line(const char *x, int64_t other)
{
    const __m256i one = _mm256_loadu_si256((const __m256i *)(const void *)x);
    const __m256i two = _mm256_loadu_si256((const __m256i *)(const void *)(x + other));
    return _mm512_inserti64x4(_mm512_castsi256_si512(one), two, 1);
}

/* Group g of the lines of the column at x: channels 4v to 4v + 3, of either 16, in vector v. */
INLINE void load_column(const window *w, const char *x, int64_t g, __m512i column[VECTORS])
{
    const int64_t *line = w->line + LINES * g;
    const __m512i a = load_line(x + line[0], w->other);
    const __m512i b = load_line(x + line[1], w->other);
    const __m512i c = load_line(x + line[2], w->other);
    const __m512i d = load_line(x + line[3], w->other);
    const __m512i low_two = _mm512_unpacklo_epi8(a, b);
    const __m512i low_rest = _mm512_unpacklo_epi8(c, d);
    const __m512i high_two = _mm512_unpackhi_epi8(a, b);
    const __m512i high_rest = _mm512_unpackhi_epi8(c, d);
    column[0] = _mm512_unpacklo_epi16(low_two, low_rest);
    column[1] = _mm512_unpackhi_epi16(low_two, low_rest);
    column[2] = _mm512_unpacklo_epi16(high_two, high_rest);
    column[3] = _mm512_unpackhi_epi16(high_two, high_rest);
}

INLINE void add_column(const window *w, const __m512i column[VECTORS], int64_t place, int64_t g,
                       __m512i sum[VECTORS])
{
    const char *weights = w->t->weights + (place * w->groups + g) * DN_TILE_COLUMN;
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
        sum[v] = _mm512_dpbusd_epi32(sum[v], column[v], _mm512_loadu_si512(weights + 64 * v));
    }
}

/* Channels in their order, of pixel i and that of the other half. */
INLINE void store_sums(const window *w, int64_t i, int64_t shift, const __m512i sum[VECTORS])
{
    int32_t *one = w->t->sums + i * w->t->step;
    int32_t *two = w->t->sums + (i + shift) * w->t->step;
    const __m512i a = _mm512_shuffle_i32x4(sum[0], sum[1], 0x88);
    const __m512i b = _mm512_shuffle_i32x4(sum[2], sum[3], 0x88);
    const __m512i c = _mm512_shuffle_i32x4(sum[0], sum[1], 0xdd);
    const __m512i d = _mm512_shuffle_i32x4(sum[2], sum[3], 0xdd);
    _mm512_store_si512(one, _mm512_shuffle_i32x4(a, b, 0x88));
    _mm512_store_si512(one + LANES, _mm512_shuffle_i32x4(c, d, 0x88));
    _mm512_store_si512(two, _mm512_shuffle_i32x4(a, b, 0xdd));
    _mm512_store_si512(two + LANES, _mm512_shuffle_i32x4(c, d, 0xdd));
}

INLINE void clear(__m512i sum[VECTORS])
{
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
        sum[v] = _mm512_setzero_si512();
    }
}

/* Pixels from `first` on of either half; `n` is a constant where this is inlined, as are those of
 * what follows. */
INLINE void run_any(const window *w, int64_t first, int64_t shift, const int n)
{
    const dn_tile *t = w->t;
    __m512i sum[SOME][VECTORS];
    __m512i column[VECTORS];
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
        clear(sum[i]);
    }
    for (int64_t k = 0; k < t->pixels; k++) {
        for (int64_t g = 0; g < w->groups; g++) {
#pragma GCC unroll 4
            for (int i = 0; i < n; i++) {
                load_column(w, t->x + (first + i) * t->row + k * t->pixel, g, column);
                add_column(w, column, k, g, sum[i]);
            }
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
        store_sums(w, first + i, shift, sum[i]);
    }
}

/* A tile with a window of `width` columns; pixels are `step` columns apart. */
INLINE void run_shared(const window *w, int64_t first, int64_t shift, const int n, const int width,
                       const int step)
{
    const char *x = w->t->x + first * w->t->row;
    const int64_t groups = width > LINES ? 2 : 1;
    __m512i sum[MORE][VECTORS];
    __m512i column[VECTORS];
#pragma GCC unroll 16
    for (int k = 0; k < (n - 1) * step + width; k++) {
#pragma GCC unroll 7
        for (int i = 0; i < n; i++) {
            if (k == i * step) {
                clear(sum[i]);
            }
        }
#pragma GCC unroll 2
        for (int g = 0; g < groups; g++) {
            load_column(w, x + k * w->t->pixel, g, column);
#pragma GCC unroll 7
            for (int i = 0; i < n; i++) {
                if (k >= i * step && k < i * step + width) {
                    add_column(w, column, k - i * step, g, sum[i]);
                }
            }
        }
#pragma GCC unroll 7
        for (int i = 0; i < n; i++) {
            if (k == i * step + width - 1) {
                store_sums(w, first + i, shift, sum[i]);
            }
        }
    }
}

static void run_3_1(const window *w, int64_t first, int64_t shift)
{
    run_shared(w, first, shift, SOME, 3, 1);
}

static void run_3_1_more(const window *w, int64_t first, int64_t shift)
{
    run_shared(w, first, shift, MORE, 3, 1);
}

static void run_3_2(const window *w, int64_t first, int64_t shift)
{
    run_shared(w, first, shift, SOME, 3, 2);
}

static void run_5_1(const window *w, int64_t first, int64_t shift)
{
    run_shared(w, first, shift, SOME, 5, 1);
}

static void run_5_2(const window *w, int64_t first, int64_t shift)
{
    run_shared(w, first, shift, SOME, 5, 2);
}

static void run_some(const window *w, int64_t first, int64_t shift)
{
    run_any(w, first, shift, SOME);
}

typedef void (*runner)(const window *w, int64_t first, int64_t shift);

/* The way of SOME pixels. */
static runner runner_of(const dn_tile *t)
{
    const int64_t step = t->row == t->pixel ? 1 : t->row == 2 * t->pixel ? 2 : 0;
    if (step == 0 || t->lines != t->pixels || (t->pixels != 3 && t->pixels != 5)) {
        return run_some;
    }
    return t->pixels == 3 ? (step == 1 ? run_3_1 : run_3_2) : step == 1 ? run_5_1 : run_5_2;
}

void dn_run_singles_512(const dn_tile *t, int64_t rows)
{
    const int64_t half = (rows + 1) / 2;
    const int64_t shift = rows - half;
    const runner some = runner_of(t);
    window w = {.t = t, .other = shift * t->row, .groups = dn_parts(t->lines, LINES)};
    for (int64_t i = 0; i < w.groups * LINES; i++) {
        w.line[i] = dn_least(i, t->lines - 1) * t->line;
    }
    if (some == run_3_1 && half == MORE) {
        run_3_1_more(&w, 0, shift);
        return;
    }
    for (int64_t i = 0; half < SOME && i < half; i++) {
        run_any(&w, i, shift, 1);
    }
    for (int64_t i = 0; half >= SOME && i < half; i += SOME) {
        some(&w, dn_least(i, half - SOME), shift);
    }
}

#endif
