/* The ways into Winograd's points, of images and of weights, and out of them: AVX2 and FMA. */
#include "plugins/cpu-llvm/kernels/dn_lanes_256.h"
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"

#if defined(__x86_64__)
/* ---- F(4,3), of floats ---- */

#define EDGE 6
#define TILE DN_WINO_FLOATS
#define POINT_A ((float)DN_WINO_A)
#define POINT_B ((float)DN_WINO_B)
#define A2 (POINT_A * POINT_A)
#define B2 (POINT_B * POINT_B)
#define TAPS 3

/* Six numbers, `step` vectors apart, to six of the points. */
INLINE void into_points(const __m256 *d, const int step, __m256 *to, const int to_step)
{
    const __m256 a = _mm256_set1_ps(POINT_A);
    const __m256 b = _mm256_set1_ps(POINT_B);
    const __m256 a2 = _mm256_set1_ps(A2);
    const __m256 b2 = _mm256_set1_ps(B2);
    const __m256 sum = _mm256_set1_ps(A2 + B2);
    const __m256 product = _mm256_set1_ps(A2 * B2);
    const __m256 even_a = _mm256_fnmadd_ps(b2, d[2 * step], d[4 * step]);
    const __m256 odd_a = _mm256_fnmadd_ps(b2, d[step], d[3 * step]);
    const __m256 even_b = _mm256_fnmadd_ps(a2, d[2 * step], d[4 * step]);
    const __m256 odd_b = _mm256_fnmadd_ps(a2, d[step], d[3 * step]);
    to[0] = _mm256_fmadd_ps(product, d[0], _mm256_fnmadd_ps(sum, d[2 * step], d[4 * step]));
    to[to_step] = _mm256_fmadd_ps(a, odd_a, even_a);
    to[2 * to_step] = _mm256_fnmadd_ps(a, odd_a, even_a);
    to[3 * to_step] = _mm256_fmadd_ps(b, odd_b, even_b);
    to[4 * to_step] = _mm256_fnmadd_ps(b, odd_b, even_b);
    to[5 * to_step] =
        _mm256_fmadd_ps(product, d[step], _mm256_fnmadd_ps(sum, d[3 * step], d[5 * step]));
}

/* Six of the points, `step` vectors apart, to four numbers. */
INLINE void out_of_points(const __m256 *m, const int step, __m256 *to, const int to_step)
{
    const __m256 even_a = _mm256_add_ps(m[step], m[2 * step]);
    const __m256 odd_a = _mm256_sub_ps(m[step], m[2 * step]);
    const __m256 even_b = _mm256_add_ps(m[3 * step], m[4 * step]);
    const __m256 odd_b = _mm256_sub_ps(m[3 * step], m[4 * step]);
    to[0] = _mm256_add_ps(m[0], _mm256_add_ps(even_a, even_b));
    to[to_step] = _mm256_fmadd_ps(_mm256_set1_ps(POINT_A), odd_a,
                                  _mm256_mul_ps(_mm256_set1_ps(POINT_B), odd_b));
    to[2 * to_step] =
        _mm256_fmadd_ps(_mm256_set1_ps(A2), even_a, _mm256_mul_ps(_mm256_set1_ps(B2), even_b));
    to[3 * to_step] =
        _mm256_fmadd_ps(_mm256_set1_ps(A2 * POINT_A), odd_a,
                        _mm256_fmadd_ps(_mm256_set1_ps(B2 * POINT_B), odd_b, m[5 * step]));
}

/* 8 channels, or the `left` ones, a constant where it is 8. */
INLINE void tile_in(const float *x, int64_t line, int64_t channels, int64_t step, float *to,
                    const int64_t left)
{
    __m256 d[EDGE][EDGE];
    __m256 half[EDGE][EDGE];
    const uint32_t mask = mask_of(left);
    for (int j = 0; j < EDGE; j++) {
#pragma GCC unroll 6
        for (int i = 0; i < EDGE; i++) {
            const float *from = x + i * line + j * channels;
            d[j][i] = load_lanes(from, mask);
        }
        into_points(d[j], 1, &half[0][j], EDGE);
    }
    for (int i = 0; i < EDGE; i++) {
        into_points(half[i], 1, d[i], 1);
#pragma GCC unroll 6
        for (int j = 0; j < EDGE; j++) {
            float *at = to + (i * EDGE + j) * step;
            store_lanes(at, mask, d[i][j]);
        }
    }
}

void dn_wino_in_256(const float *x, int64_t line, int64_t channels, int64_t step, float *to)
{
    int64_t c = 0;
    for (; c + LANES <= channels; c += LANES) {
        tile_in(x + c, line, channels, step, to + c, LANES);
    }
    if (c < channels) {
        tile_in(x + c, line, channels, step, to + c, channels - c);
    }
}

void dn_wino_out_256(const float *from, int64_t step, int64_t lines, int64_t n, int64_t width,
                     float *to)
{
    for (int v = 0; v < COLUMNS; v += LANES) {
        __m256 m[EDGE];
        __m256 half[TILE][EDGE];
        __m256 line[TILE];
        for (int j = 0; j < EDGE; j++) {
#pragma GCC unroll 6
            for (int i = 0; i < EDGE; i++) {
                m[i] = _mm256_load_ps(from + (i * EDGE + j) * step + v);
            }
            out_of_points(m, 1, &half[0][j], EDGE);
        }
        for (int64_t i = 0; i < lines; i++) {
            out_of_points(half[i], 1, line, 1);
            for (int64_t j = 0; j < n; j++) {
                _mm256_store_ps(to + (i * width + j) * COLUMNS + v, line[j]);
            }
        }
    }
}

/* ---- F(4,3), the weights ---- */

#define WINDOW (TAPS * TAPS)
#define CHANNELS_AHEAD 8 /* whose taps are asked for */
/* What the polynomial of the taps is divided by at 0, A and B. */
#define BY_0 (1.0F / (A2 * B2))
#define BY_A (0.5F / (A2 * (A2 - B2)))
#define BY_B (0.5F / (B2 * (B2 - A2)))

/* Three taps, `step` vectors apart, at six of the points. */
INLINE void taps_at_points(const __m256 *g, const int step, __m256 *to, const int to_step)
{
    const __m256 even_a = _mm256_fmadd_ps(_mm256_set1_ps(BY_A * A2), g[2 * step],
                                          _mm256_mul_ps(_mm256_set1_ps(BY_A), g[0]));
    const __m256 even_b = _mm256_fmadd_ps(_mm256_set1_ps(BY_B * B2), g[2 * step],
                                          _mm256_mul_ps(_mm256_set1_ps(BY_B), g[0]));
    const __m256 odd_a = _mm256_set1_ps(BY_A * POINT_A);
    const __m256 odd_b = _mm256_set1_ps(BY_B * POINT_B);
    to[0] = _mm256_mul_ps(_mm256_set1_ps(BY_0), g[0]);
    to[to_step] = _mm256_fmadd_ps(odd_a, g[step], even_a);
    to[2 * to_step] = _mm256_fnmadd_ps(odd_a, g[step], even_a);
    to[3 * to_step] = _mm256_fmadd_ps(odd_b, g[step], even_b);
    to[4 * to_step] = _mm256_fnmadd_ps(odd_b, g[step], even_b);
    to[5 * to_step] = g[2 * step];
}

/* Weights mapped from a file may lie at any address. */
INLINE float load_float(const float *from)
{
    float out;
    memcpy(&out, from, sizeof out);
    return out;
}

/* The taps of n features, 8 at most, that follow each other, from the first or from the last. */
INLINE void load_windows(const dn_wino_taps *t, const float *from, int64_t n, __m256 g[WINDOW],
                         const bool is_back)
{
    const float *first = is_back ? from - (WINDOW - 1) : from;
    __m256 a[LANES];
    float b[LANES];
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i++) {
        const float *at = first + (i < n ? i : 0) * t->feature;
        a[i] = _mm256_loadu_ps(at);
        b[i] = load_float(at + LANES);
    }
    transpose_block(a);
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i++) {
        g[is_back ? WINDOW - 1 - i : i] = a[i];
    }
    g[is_back ? 0 : WINDOW - 1] = _mm256_setr_ps(b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]);
}

/* The same wherever the taps lie. */
INLINE void load_places(const dn_wino_taps *t, const float *from, int64_t n, __m256 g[WINDOW])
{
    for (int i = 0; i < WINDOW; i++) {
        const float *tap = from + i / TAPS * t->line + i % TAPS * t->place;
        float lanes[LANES] = {0};
        for (int64_t k = 0; k < n; k++) {
            lanes[k] = load_float(tap + k * t->feature);
        }
        g[i] = _mm256_loadu_ps(lanes);
    }
}

INLINE void load_taps(const dn_wino_taps *t, const float *from, int64_t n, __m256 g[WINDOW])
{
    if (t->place == 1 && t->line == TAPS) {
        load_windows(t, from, n, g, false);
    } else if (t->place == -1 && t->line == -TAPS) {
        load_windows(t, from, n, g, true);
    } else if (t->feature == 1 && n == LANES) {
        for (int i = 0; i < WINDOW; i++) {
            g[i] = _mm256_loadu_ps(from + i / TAPS * t->line + i % TAPS * t->place);
        }
    } else {
        load_places(t, from, n, g);
    }
}

/* A channel of 8 features of a panel, of which there are n. */
INLINE void taps_in(const dn_wino_taps *t, const float *from, int64_t n, float *to)
{
    __m256 g[WINDOW];
    __m256 half[EDGE][TAPS];
    load_taps(t, from, n, g);
    for (int j = 0; j < TAPS; j++) {
        taps_at_points(g + j, TAPS, &half[0][j], TAPS);
    }
    for (int i = 0; i < EDGE; i++) {
        __m256 line[EDGE];
        taps_at_points(half[i], 1, line, 1);
#pragma GCC unroll 6
        for (int j = 0; j < EDGE; j++) {
            _mm256_store_ps(to + (i * EDGE + j) * t->step, line[j]);
        }
    }
}

/* Windows of features, or of channels, lie far apart: processors ask ahead for few such rows. */
INLINE void ask_for_taps(const dn_wino_taps *t, int64_t channel)
{
    const int64_t n = channel < t->channels ? dn_least(COLUMNS, t->features) : 0;
    for (int64_t i = 0; i < n; i++) {
        _mm_prefetch((const char *)(t->from + channel * t->channel + i * t->feature), _MM_HINT_T0);
    }
}

void dn_wino_taps_256(const dn_wino_taps *t)
{
    const int64_t used = t->channels * COLUMNS;
    const int64_t vectors = t->features > LANES ? COLUMNS : LANES;
    for (int64_t u = 0; u < EDGE * EDGE; u++) {
        const int64_t first = vectors < COLUMNS ? 0 : used;
        memset(t->to + u * t->step + first, 0, (size_t)(t->step - first) * sizeof *t->to);
    }
    for (int64_t c = 0; c < t->channels; c++) {
        ask_for_taps(t, c + CHANNELS_AHEAD);
        for (int64_t v = 0; v < vectors; v += LANES) {
            taps_in(t, t->from + c * t->channel + v * t->feature, dn_least(LANES, t->features - v),
                    t->to + c * COLUMNS + v);
        }
    }
}

/* ---- F(4,3) the other way round, of gradients to weights ---- */

/* Four numbers, `step` vectors apart, at six of the points. */
INLINE void gradient_at_points(const __m256 *y, const int step, __m256 *to, const int to_step)
{
    const __m256 even_a = _mm256_fmadd_ps(_mm256_set1_ps(A2), y[2 * step], y[0]);
    const __m256 even_b = _mm256_fmadd_ps(_mm256_set1_ps(B2), y[2 * step], y[0]);
    const __m256 odd_a = _mm256_fmadd_ps(_mm256_set1_ps(A2), y[3 * step], y[step]);
    const __m256 odd_b = _mm256_fmadd_ps(_mm256_set1_ps(B2), y[3 * step], y[step]);
    const __m256 a = _mm256_set1_ps(POINT_A);
    const __m256 b = _mm256_set1_ps(POINT_B);
    to[0] = y[0];
    to[to_step] = _mm256_fmadd_ps(a, odd_a, even_a);
    to[2 * to_step] = _mm256_fnmadd_ps(a, odd_a, even_a);
    to[3 * to_step] = _mm256_fmadd_ps(b, odd_b, even_b);
    to[4 * to_step] = _mm256_fnmadd_ps(b, odd_b, even_b);
    to[5 * to_step] = y[3 * step];
}

/* Six of the points, `step` vectors apart, to three taps. */
INLINE void taps_of_points(const __m256 *m, const int step, __m256 *to, const int to_step)
{
    const __m256 by_a = _mm256_set1_ps(BY_A);
    const __m256 by_b = _mm256_set1_ps(BY_B);
    const __m256 even_a = _mm256_mul_ps(by_a, _mm256_add_ps(m[step], m[2 * step]));
    const __m256 even_b = _mm256_mul_ps(by_b, _mm256_add_ps(m[3 * step], m[4 * step]));
    const __m256 odd_a = _mm256_mul_ps(by_a, _mm256_sub_ps(m[step], m[2 * step]));
    const __m256 odd_b = _mm256_mul_ps(by_b, _mm256_sub_ps(m[3 * step], m[4 * step]));
    to[0] = _mm256_fmadd_ps(_mm256_set1_ps(BY_0), m[0], _mm256_add_ps(even_a, even_b));
    to[to_step] = _mm256_fmadd_ps(_mm256_set1_ps(POINT_A), odd_a,
                                  _mm256_mul_ps(_mm256_set1_ps(POINT_B), odd_b));
    to[2 * to_step] = _mm256_fmadd_ps(_mm256_set1_ps(A2), even_a,
                                      _mm256_fmadd_ps(_mm256_set1_ps(B2), even_b, m[5 * step]));
}

/* 8 features, or the `left` ones, a constant where it is 8. */
INLINE void gradient_in(const dn_wino_gradient_tile *s, int64_t feature, const int64_t left)
{
    __m256 y[TILE];
    __m256 half[EDGE][TILE];
    const uint32_t mask = mask_of(left);
    for (int j = 0; j < TILE; j++) {
#pragma GCC unroll 4
        for (int i = 0; i < TILE; i++) {
            y[i] = load_lanes(s->from + i * s->line + j * s->pixel + feature, mask);
        }
        gradient_at_points(y, 1, &half[0][j], TILE);
    }
    for (int i = 0; i < EDGE; i++) {
        __m256 line[EDGE];
        gradient_at_points(half[i], 1, line, 1);
#pragma GCC unroll 6
        for (int j = 0; j < EDGE; j++) {
            _mm256_store_ps(s->to + (i * EDGE + j) * s->step + feature, line[j]);
        }
    }
}

void dn_wino_gradient_in_256(const dn_wino_gradient_tile *s)
{
    for (int64_t v = 0; v < COLUMNS; v += LANES) {
        const int64_t left = s->features - v;
        if (left >= LANES) {
            gradient_in(s, v, LANES);
        } else {
            gradient_in(s, v, left);
        }
    }
}

void dn_wino_gradient_out_256(const float *sums, int64_t step, float *to)
{
    __m256 half[TAPS][EDGE];
    for (int j = 0; j < EDGE; j++) {
        __m256 m[EDGE];
#pragma GCC unroll 6
        for (int i = 0; i < EDGE; i++) {
            m[i] = _mm256_load_ps(sums + (i * EDGE + j) * step);
        }
        taps_of_points(m, 1, &half[0][j], EDGE);
    }
    for (int i = 0; i < TAPS; i++) {
        __m256 line[TAPS];
        taps_of_points(half[i], 1, line, 1);
        for (int j = 0; j < TAPS; j++) {
            _mm256_storeu_ps(to + (i * TAPS + j) * LANES, line[j]);
        }
    }
}

/* ---- F(2,3), of words ---- */

#define WORDS_EDGE 4
#define WORDS_TILE DN_WINO_BYTES

/* Four words, `step` vectors apart, to four of the points. */
INLINE void words_into(const __m256i *d, const int step, __m256i *to, const int to_step)
{
    to[0] = _mm256_sub_epi16(d[0], d[2 * step]);
    to[to_step] = _mm256_add_epi16(d[step], d[2 * step]);
    to[2 * to_step] = _mm256_sub_epi16(d[2 * step], d[step]);
    to[3 * to_step] = _mm256_sub_epi16(d[step], d[3 * step]);
}

/* Four of the points, `step` vectors apart, to two numbers. */
INLINE void words_out_of(const __m256i *m, const int step, __m256i *to, const int to_step)
{
    to[0] = _mm256_add_epi32(m[0], _mm256_add_epi32(m[step], m[2 * step]));
    to[to_step] = _mm256_sub_epi32(_mm256_sub_epi32(m[step], m[2 * step]), m[3 * step]);
}

/* 8 groups, or the `left` ones, a constant where it is 8. */
INLINE void words_tile_in(const float *x, int64_t line, int64_t groups, int64_t step, float *to,
                          const int64_t left)
{
    __m256i d[WORDS_EDGE * WORDS_EDGE];
    __m256i half[WORDS_EDGE * WORDS_EDGE];
    const uint32_t mask = mask_of(left);
#pragma GCC unroll 16
    for (int i = 0; i < WORDS_EDGE * WORDS_EDGE; i++) {
        const float *at = x + i / WORDS_EDGE * line + i % WORDS_EDGE * groups;
        d[i] = _mm256_castps_si256(load_lanes(at, mask));
    }
#pragma GCC unroll 4
    for (int i = 0; i < WORDS_EDGE; i++) {
        words_into(d + i, WORDS_EDGE, half + i, WORDS_EDGE);
    }
#pragma GCC unroll 4
    for (int i = 0; i < WORDS_EDGE; i++) {
        words_into(half + i * WORDS_EDGE, 1, d + i * WORDS_EDGE, 1);
    }
#pragma GCC unroll 16
    for (int i = 0; i < WORDS_EDGE * WORDS_EDGE; i++) {
        store_lanes(to + i * step, mask, _mm256_castsi256_ps(d[i]));
    }
}

void dn_wino_words_in_256(const float *x, int64_t line, int64_t groups, int64_t step, float *to)
{
    int64_t g = 0;
    for (; g + LANES <= groups; g += LANES) {
        words_tile_in(x + g, line, groups, step, to + g, LANES);
    }
    if (g < groups) {
        words_tile_in(x + g, line, groups, step, to + g, groups - g);
    }
}

/* The transform gives four times the sums. */
void dn_wino_words_out_256(const float *from, int64_t step, int64_t lines, int64_t n, int64_t width,
                           float *to)
{
    for (int v = 0; v < COLUMNS; v += LANES) {
        __m256i m[WORDS_EDGE * WORDS_EDGE];
        __m256i half[WORDS_TILE * WORDS_EDGE];
        __m256i out[WORDS_TILE * WORDS_TILE];
#pragma GCC unroll 16
        for (int i = 0; i < WORDS_EDGE * WORDS_EDGE; i++) {
            m[i] = _mm256_load_si256((const __m256i *)(const void *)(from + i * step + v));
        }
#pragma GCC unroll 4
        for (int i = 0; i < WORDS_EDGE; i++) {
            words_out_of(m + i, WORDS_EDGE, half + i, WORDS_EDGE);
        }
#pragma GCC unroll 2
        for (int i = 0; i < WORDS_TILE; i++) {
            words_out_of(half + i * WORDS_EDGE, 1, out + i * WORDS_TILE, 1);
        }
#pragma GCC unroll 4
        for (int i = 0; i < WORDS_TILE * WORDS_TILE; i++) {
            const int64_t y = i / WORDS_TILE;
            const int64_t x = i % WORDS_TILE;
            float *at = to + (y * width + x) * COLUMNS + v;
            if (y < lines && x < n) {
                _mm256_store_si256((__m256i *)(void *)at, _mm256_srai_epi32(out[i], 2));
            }
        }
    }
}

#endif
