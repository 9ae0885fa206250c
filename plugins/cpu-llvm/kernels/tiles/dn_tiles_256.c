/* The inner loops for f32 and bytes: AVX2 and FMA. The bytes are made words, of whose products two
 * are summed exactly. */
#include "plugins/cpu-llvm/kernels/dn_lanes_256.h"
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"

#include <string.h>

#if defined(__x86_64__)
#define ROWS 6

/* ---- a tile ---- */

/* The kind of a tile's weights. Groups of x are words for BYTES and WORDS; FOURS are floats for
 * groups of four channels and features. */
enum { FLOATS, BYTES, WORDS, FOURS };

INLINE __m256i products(__m256i sum, __m256i x, __m256i weights, const int kind)
{
    if (kind != FLOATS) {
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x, weights));
        __asm__(""
                : "+x"(sum)); /* else products are summed first, in more registers than there are */
        return sum;
    }
    return _mm256_castps_si256(_mm256_fmadd_ps(_mm256_castsi256_ps(x), _mm256_castsi256_ps(weights),
                                               _mm256_castsi256_ps(sum)));
}

/* Vector `half` of a panel's row. */
INLINE __m256i weights_at(const char *row, int half, const int kind)
{
    return kind == BYTES
               ? _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)row + half))
               : _mm256_loadu_si256((const __m256i *)(const void *)row + half);
}

/* Bytes of a panel's row. */
#define WEIGHTS(kind) ((kind) == BYTES ? 2 * COLUMNS : 4 * COLUMNS)

/* The position of a tile: the groups of its rows (a pointer for three rows: as many registers as
 * there are), the panel's row that they meet, and the cache line that is fetched next. */
typedef struct walk {
    const char *at[(ROWS + 2) / 3];
    const char *w, *ask;
    int64_t row;
} walk;

/* Group u of each row. Of this and what follows `rows` and kind are constants where they are
 * inlined. */
INLINE void add_products(const walk *k, int u, __m256i sum[][2], const int rows, const int kind)
{
    const __m256i w0 = weights_at(k->w + u * WEIGHTS(kind), 0, kind);
    const __m256i w1 = weights_at(k->w + u * WEIGHTS(kind), 1, kind);
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        const char *x = k->at[i / 3] + i % 3 * k->row + u * DN_TILE_GROUP;
        const __m256i v = _mm256_castps_si256(_mm256_broadcast_ss((const float *)(const void *)x));
        sum[i][0] = products(sum[i][0], v, w0, kind);
        sum[i][1] = products(sum[i][1], v, w1, kind);
    }
}

INLINE void step(walk *k, int groups, const int rows, const int kind)
{
    k->w += groups * WEIGHTS(kind);
#pragma GCC unroll 2
    for (int i = 0; i < (rows + 2) / 3; i++) {
        k->at[i] += groups * DN_TILE_GROUP;
        __asm__("" : "+r"(k->at[i])); /* else each row gets a register of its own */
    }
}

/* One run, from x on. */
INLINE void run_groups(const dn_tile *t, const char *x, walk *k, __m256i sum[][2], const int rows,
                       const int kind)
{
    int64_t g = t->length;
#pragma GCC unroll 2
    for (int i = 0; i < (rows + 2) / 3; i++) {
        k->at[i] = x + 3 * i * t->row;
    }
#pragma GCC unroll 1
    for (; g >= DN_TILE_ASK; g -= DN_TILE_ASK) {
        _mm_prefetch(k->ask, _MM_HINT_T1);
        k->ask += t->ask_step;
#pragma GCC unroll 8
        for (int u = 0; u < DN_TILE_ASK; u++) {
            add_products(k, u, sum, rows, kind);
        }
        step(k, DN_TILE_ASK, rows, kind);
    }
#pragma GCC unroll 1
    for (; g > 0; g--) {
        add_products(k, 0, sum, rows, kind);
        step(k, 1, rows, kind);
    }
}

/* Channel `u` of each of four groups, of which a row has 16 channels, meets row u of the weights.
 * `spread` gives each feature of a group that channel. */
#define FOUR(u, spread)                                                                            \
    do {                                                                                           \
        const __m256i w0 = weights_at(k->w + (u)*WEIGHTS(FLOATS), 0, FLOATS);                      \
        const __m256i w1 = weights_at(k->w + (u)*WEIGHTS(FLOATS), 1, FLOATS);                      \
        _Pragma("GCC unroll 6") for (int i = 0; i < rows; i++)                                     \
        {                                                                                          \
            const float *from = (const float *)(const void *)(x + i * k->row);                     \
            const __m256 x0 = _mm256_permute_ps(_mm256_loadu_ps(from), spread);                    \
            const __m256 x1 = _mm256_permute_ps(_mm256_loadu_ps(from + LANES), spread);            \
            sum[i][0] = products(sum[i][0], _mm256_castps_si256(x0), w0, FLOATS);                  \
            sum[i][1] = products(sum[i][1], _mm256_castps_si256(x1), w1, FLOATS);                  \
        }                                                                                          \
    } while (0)

/* One place of the window, of four groups of four channels and features. */
INLINE void add_fours(const char *x, walk *k, __m256i sum[][2], const int rows)
{
    FOUR(0, 0x00);
    FOUR(1, 0x55);
    FOUR(2, 0xaa);
    FOUR(3, 0xff);
    k->w += 4 * WEIGHTS(FLOATS);
}
#undef FOUR

INLINE void tile(const dn_tile *t, const int rows, const int kind)
{
    __m256i sum[ROWS][2];
    walk k = {.w = t->weights, .ask = t->ask, .row = t->row};
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        sum[i][0] = _mm256_setzero_si256();
        sum[i][1] = _mm256_setzero_si256();
    }
    for (int64_t l = 0; l < t->lines; l++) {
        for (int64_t p = 0; p < t->pixels; p++) {
            const char *x = t->x + l * t->line + p * t->pixel;
            if (kind == FOURS) {
                add_fours(x, &k, sum, rows);
            } else {
                run_groups(t, x, &k, sum, rows, kind);
            }
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        __m256i *to = (__m256i *)(void *)(t->sums + i * t->step);
        _mm256_store_si256(to, sum[i][0]);
        _mm256_store_si256(to + 1, sum[i][1]);
    }
}

#define ROWS_TILE(name, kind, rows)                                                                \
    static void tile_##name##_##rows(const dn_tile *t)                                             \
    {                                                                                              \
        tile(t, rows, kind);                                                                       \
    }
#define ROWS_TILES(name, kind)                                                                     \
    ROWS_TILE(name, kind, 1)                                                                       \
    ROWS_TILE(name, kind, 2)                                                                       \
    ROWS_TILE(name, kind, 3)                                                                       \
    ROWS_TILE(name, kind, 4)                                                                       \
    ROWS_TILE(name, kind, 5)                                                                       \
    ROWS_TILE(name, kind, 6)                                                                       \
    static void run_##name(const dn_tile *t, int64_t rows)                                         \
    {                                                                                              \
        static void (*const all[ROWS])(const dn_tile *) = {tile_##name##_1, tile_##name##_2,       \
                                                           tile_##name##_3, tile_##name##_4,       \
                                                           tile_##name##_5, tile_##name##_6};      \
        all[rows - 1](t);                                                                          \
    }
ROWS_TILES(floats, FLOATS)
ROWS_TILES(bytes, BYTES)
ROWS_TILES(words, WORDS)
ROWS_TILES(fours, FOURS)

/* ---- blocks of 8 x 8 ---- */

static void transpose_sums(const int32_t *sums, float *to)
{
    const float *from = (const float *)(const void *)sums;
    __m256 a[LANES];
    for (int half = 0; half < COLUMNS; half += LANES) {
#pragma GCC unroll 8
        for (int i = 0; i < LANES; i++) {
            a[i] = _mm256_load_ps(from + i * COLUMNS + half);
        }
        transpose_block(a);
#pragma GCC unroll 8
        for (int i = 0; i < LANES; i++) {
            _mm256_storeu_ps(to + (half + i) * LANES, a[i]);
        }
    }
}

/* ---- images ---- */

#define PIXELS_TOGETHER 512

/* Loads up to 8 bytes as integers. */
INLINE __m256i load_bytes(const char *from, int64_t n)
{
    uint64_t bytes = 0;
    if (n == LANES) {
        memcpy(&bytes, from, LANES);
    } else {
        for (int64_t i = 0; i < n; i++) {
            bytes |= (uint64_t)(uint8_t)from[i] << (8 * i);
        }
    }
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)bytes));
}

/* Group g of n pixels, 8 at most. */
INLINE __m256 load_groups(const dn_regroup *r, int64_t g, int64_t pixel, int64_t n,
                          const bool is_bytes)
{
    const int64_t size = is_bytes ? 1 : DN_TILE_GROUP;
    const int64_t c = is_bytes ? 2 * g : g;
    const char *from = r->from + (c * r->plane + r->first + pixel) * size;
    _mm_prefetch(from + DN_TILE_AHEAD, _MM_HINT_T0);
    if (!is_bytes) {
        const float *floats = (const float *)(const void *)from;
        return load_lanes(floats, mask_of(n));
    }
    const uint32_t missing = (r->fill ^ r->flip) & 0xffff0000u;
    const char *next = from + r->plane;
    __m256i high = _mm256_set1_epi32((int)missing);
    if (c + 1 < r->channels) {
        _mm_prefetch(next + DN_TILE_AHEAD, _MM_HINT_T0);
        high = _mm256_slli_epi32(load_bytes(next, n), 16);
    }
    const __m256i group = _mm256_or_si256(load_bytes(from, n), high);
    return _mm256_castsi256_ps(_mm256_xor_si256(group, _mm256_set1_epi32((int)r->flip)));
}

/* 8 groups, from `first` on, of up to 8 pixels. */
INLINE void regroup_block(const dn_regroup *r, int64_t first, int64_t pixel, const bool is_bytes)
{
    __m256 a[LANES];
    const int64_t n = r->n - pixel < LANES ? r->n - pixel : LANES;
    const int64_t groups = r->depth - first < LANES ? r->depth - first : LANES;
    const int64_t step = r->pixel;
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i++) {
        a[i] = i < groups ? load_groups(r, first + i, pixel, n, is_bytes) : _mm256_setzero_ps();
    }
    transpose_block(a);
    const uint32_t stored = mask_of(groups);
    int64_t x = pixel % r->width;
    char *at = r->to + pixel / r->width * r->line + x * step + first * DN_TILE_GROUP;
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i++) {
        if (i >= n) {
            break;
        }
        store_lanes((float *)(void *)at, stored, a[i]);
        at += step;
        if (++x == r->width) {
            x = 0;
            at += r->line - r->width * step;
        }
    }
}

/* Each channel lies in pages of its own: no more of them at a time than the processor knows by
 * heart. */
INLINE void regroup(const dn_regroup *r, const bool is_bytes)
{
    for (int64_t begin = 0; begin < r->n; begin += PIXELS_TOGETHER) {
        const int64_t end = r->n - begin < PIXELS_TOGETHER ? r->n : begin + PIXELS_TOGETHER;
        for (int64_t first = 0; first < r->depth; first += LANES) {
            for (int64_t pixel = begin; pixel < end; pixel += LANES) {
                regroup_block(r, first, pixel, is_bytes);
            }
        }
    }
}

void dn_regroup_floats_256(const dn_regroup *r)
{
    regroup(r, false);
}

static void regroup_bytes(const dn_regroup *r)
{
    if (r->is_tight) {
        dn_regroup_tight(r, 1, 2);
    } else {
        regroup(r, true);
    }
}

static void widen(const char *from, int64_t n, uint32_t flip, char *to)
{
    const __m256i flips = _mm256_set1_epi32((int)flip);
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        const __m256i words = _mm256_xor_si256(_mm256_cvtepu8_epi16(bytes), flips);
        _mm256_storeu_si256((__m256i *)(void *)(to + 2 * i), words);
    }
    for (; i < n; i++) {
        const uint16_t word = (uint16_t)((uint8_t)from[i] ^ (flip & 0xffu));
        memcpy(to + 2 * i, &word, sizeof word);
    }
}

/* ---- zero points ---- */

static int32_t sum_bytes(const char *x, int64_t groups)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sum = _mm256_setzero_si256();
    for (int64_t g = 0; g < groups; g += LANES) {
        const int64_t left = groups - g;
        const __m256i mask = lanes_of(mask_of(left));
        const __m256i v =
            _mm256_maskload_epi32((const int *)(const void *)(x + g * DN_TILE_GROUP), mask);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(v, ones));
    }
    return sum_lanes(sum);
}

/* ---- the epilogue ---- */

typedef __m256 vec;

/* Operands of f32 are all that there are. */
INLINE vec load_some(const void *buffer, uint32_t dtype, int64_t at, uint32_t mask)
{
    (void)dtype;
    return load_lanes((const float *)buffer + at, mask);
}

INLINE vec load_one(const void *buffer, uint32_t dtype, int64_t at)
{
    (void)dtype;
    return _mm256_broadcast_ss((const float *)buffer + at);
}

INLINE vec least_of(vec a, vec b)
{
    return _mm256_min_ps(a, b);
}

INLINE vec greatest_of(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

INLINE vec rounded(vec v)
{
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* erf(z) = z p(z^2) / q(z^2) up to where it is 1, by weighted least squares; off by 3e-7 at most. A
 * NaN stays: it comes second in max and min. */
INLINE __m256 erf_of(__m256 z)
{
    static const float p[] = {0x1.1119560000000p-19f, 0x1.2d70d40000000p-12f,
                              0x1.fb03f60000000p-9f,  0x1.b2ab3c0000000p-5f,
                              0x1.8ac6a00000000p-3f,  0x1.20dd720000000p+0f};
    static const float q[] = {0x1.3f5bf80000000p-15f, 0x1.3773380000000p-10f, 0x1.f128b60000000p-7f,
                              0x1.d761ee0000000p-4f,  0x1.02218e0000000p-1f,  1.0f};
    const __m256 end = _mm256_set1_ps(3.92f);
    z = _mm256_min_ps(end, _mm256_max_ps(_mm256_set1_ps(-3.92f), z));
    const __m256 t = _mm256_mul_ps(z, z);
    __m256 above = _mm256_set1_ps(p[0]);
    __m256 below = _mm256_set1_ps(q[0]);
#pragma GCC unroll 5
    for (int i = 1; i < 6; i++) {
        above = _mm256_fmadd_ps(above, t, _mm256_set1_ps(p[i]));
        below = _mm256_fmadd_ps(below, t, _mm256_set1_ps(q[i]));
    }
    const __m256 v = _mm256_div_ps(_mm256_mul_ps(z, above), below);
    const __m256 one = _mm256_set1_ps(1.0f);
    return _mm256_min_ps(one, _mm256_max_ps(_mm256_sub_ps(_mm256_setzero_ps(), one), v));
}

INLINE __m256 gelu_of(__m256 v)
{
    const __m256 erf = erf_of(_mm256_mul_ps(v, _mm256_set1_ps(0.70710678f)));
    const __m256 half = _mm256_mul_ps(v, _mm256_set1_ps(0.5f));
    return _mm256_fmadd_ps(half, erf, half);
}

INLINE vec others(uint32_t kind, vec v)
{
    return kind == ST_EPILOGUE_GELU_ERF ? gelu_of(v) : v;
}

#include "plugins/cpu-llvm/kernels/tiles/dn_finish_isa.h"

INLINE __m256i by_feature(const int32_t *numbers, int64_t i, const bool is_across)
{
    return is_across ? _mm256_loadu_si256((const __m256i *)(const void *)numbers + i % 2)
                     : _mm256_set1_epi32(numbers[i]);
}

/* Integers become what they are with their zero points, and f32 but for an output of integers. */
INLINE __m256 apply_zero_points(const dn_finish *f, __m256 sums, int64_t i, const bool is_across)
{
    __m256i v = _mm256_castps_si256(sums);
    v = _mm256_add_epi32(v, by_feature(f->column, i, is_across));
    if (f->row_sums) {
        const __m256i rows = is_across ? _mm256_set1_epi32(f->row_sums[i / 2])
                                       : _mm256_maskload_epi32(f->row_sums, lanes_of(f->mask[0]));
        v = _mm256_add_epi32(v, _mm256_mullo_epi32(rows, by_feature(f->factor, i, is_across)));
    }
    if (is_across && f->row_zeros) {
        const __m256i zero = _mm256_set1_epi32(f->row_zeros[i / 2]);
        v = _mm256_add_epi32(v, _mm256_mullo_epi32(zero, by_feature(f->weights, i, true)));
    }
    return f->contraction->out.dtype == STATOR_I32 ? _mm256_castsi256_ps(v) : _mm256_cvtepi32_ps(v);
}

/* Whole numbers, as integers. A NaN, and what is less than all integers, is the least of them. */
INLINE __m256i integers_of(__m256 v)
{
    return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_set1_ps(255.0f), v));
}

/* Four vectors to 4 x 8 bytes. */
INLINE __m256i bytes_of(const __m256 *v, bool is_signed)
{
    const __m256i a = _mm256_packs_epi32(integers_of(v[0]), integers_of(v[1]));
    const __m256i b = _mm256_packs_epi32(integers_of(v[2]), integers_of(v[3]));
    const __m256i mixed = is_signed ? _mm256_packs_epi16(a, b) : _mm256_packus_epi16(a, b);
    return _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

INLINE void store_bytes(const dn_finish *f, int64_t i, const __m256 *v, const int n,
                        const bool is_across)
{
    const bool is_signed = f->contraction->out.dtype == STATOR_I8;
    char *out = f->at[DN_OUT];
#pragma GCC unroll 2
    for (int k = 0; k < n; k += 4) {
        const bool has_four = k + 4 <= n;
        const int64_t at[4] = {place_of(f, i + k, is_across), place_of(f, i + k + 1, is_across),
                               place_of(f, i + k + 2, is_across),
                               place_of(f, i + k + 3, is_across)};
        const __m256 some[4] = {v[k], v[k + 1 < n ? k + 1 : k], v[has_four ? k + 2 : k],
                                v[has_four ? k + 3 : k]};
        const __m256i bytes = bytes_of(some, is_signed);
        const __m128i half[2] = {_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)};
        if (is_across && has_four && f->mask[1] == ALL_LANES) {
            _mm_storeu_si128((__m128i *)(void *)(out + at[0]), half[0]);
            _mm_storeu_si128((__m128i *)(void *)(out + at[2]), half[1]);
            continue;
        }
#pragma GCC unroll 4
        for (int m = 0; m < 4; m++) {
            if (k + m < n) {
                const int64_t eight =
                    m % 2 ? _mm_extract_epi64(half[m / 2], 1) : _mm_cvtsi128_si64(half[m / 2]);
                store_eight(out + at[m], f->mask[(i + k + m) % 2], (uint64_t)eight);
            }
        }
    }
}

INLINE void finish_vectors(const dn_finish *f, int64_t i, const int n, const bool is_across)
{
    const int64_t pitch = is_across ? LANES : f->pitch;
    __m256 v[DN_FINISH_VECTORS];
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        v[k] = _mm256_loadu_ps(f->sums + (i + k) * pitch);
        v[k] = f->column ? apply_zero_points(f, v[k], i + k, is_across) : v[k];
    }
    apply_rows(f, i, v, n, is_across);
    if (f->contraction->out.dtype == STATOR_U8 || f->contraction->out.dtype == STATOR_I8) {
        store_bytes(f, i, v, n, is_across);
        return;
    }
    float *out = f->at[DN_OUT];
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        store_lanes(out + place_of(f, i + k, is_across), f->mask[(i + k) % 2], v[k]);
    }
}

/* ---- what there is ---- */

const dn_tiles_isa *dn_tiles_256(uint32_t dtype)
{
    static const dn_tiles_isa floats = {.rows = ROWS,
                                        .lanes = LANES,
                                        .size = 4,
                                        .run = run_floats,
                                        .run_fours = run_fours,
                                        .regroup = dn_regroup_floats_256,
                                        .copy_panel = dn_copy_panel_256,
                                        .sum_positions = dn_sum_positions_256,
                                        .interleave = dn_interleave_256,
                                        .transpose_sums = transpose_sums,
                                        .finish = finish,
                                        .winograd_tile = DN_WINO_FLOATS,
                                        .wino_run = run_floats,
                                        .wino_in = dn_wino_in_256,
                                        .wino_out = dn_wino_out_256,
                                        .wino_taps = dn_wino_taps_256,
                                        .wino_gradient_in = dn_wino_gradient_in_256,
                                        .wino_gradient_out = dn_wino_gradient_out_256};
    static const dn_tiles_isa bytes = {.rows = ROWS,
                                       .lanes = LANES,
                                       .size = 2,
                                       .run = run_bytes,
                                       .may_be_tight = true,
                                       .regroup = regroup_bytes,
                                       .widen = widen,
                                       .sum_bytes = sum_bytes,
                                       .transpose_sums = transpose_sums,
                                       .finish = finish,
                                       .finish_bytes = dn_finish_bytes_256,
                                       .run_singles = dn_run_singles_256,
                                       .run_winograd_product = dn_run_winograd_product_256,
                                       .start_winograd_product = dn_start_winograd_product_256,
                                       .widen_winograd_product = dn_widen_winograd_product_256,
                                       .winograd_tile = DN_WINO_BYTES,
                                       .wino_run = run_words,
                                       .wino_in = dn_wino_words_in_256,
                                       .wino_out = dn_wino_words_out_256};
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        return NULL;
    }
    switch (dtype) {
    case STATOR_F32:
        return &floats;
    case STATOR_U8:
    case STATOR_I8:
        return &bytes;
    default:
        return NULL;
    }
}

const dn_tiles_isa *dn_tiles_floats_512(void)
{
    static const dn_tiles_isa floats = {.rows = DN_FLOATS_ROWS,
                                        .lanes = LANES,
                                        .size = 4,
                                        .run = dn_run_floats_512,
                                        .regroup = dn_regroup_floats_256,
                                        .copy_panel = dn_copy_panel_256,
                                        .sum_positions = dn_sum_positions_256,
                                        .interleave = dn_interleave_256,
                                        .transpose_sums = transpose_sums,
                                        .finish = finish};
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") ? &floats : NULL;
}
#endif
