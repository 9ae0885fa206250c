/* The inner loops for bf16 and bytes: AVX-512 with its products of bf16 or of bytes. */
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"

#include <string.h>

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")
#include "plugins/cpu-llvm/kernels/dn_lanes_512.h"

#define COLUMNS 32

/* ---- a tile ---- */

INLINE __m512i products(__m512i sum, __m512i x, __m512i weights, const bool is_half)
{
    return is_half ? _mm512_castps_si512(
                         _mm512_dpbf16_ps(_mm512_castsi512_ps(sum), (__m512bh)x, (__m512bh)weights))
                   : _mm512_dpbusd_epi32(sum, x, weights);
}

INLINE __m512i group_at(const char *x)
{
    int32_t group = 0;
    memcpy(&group, x, sizeof group);
    return _mm512_set1_epi32(group);
}

/* A group of one element and a 0. */
INLINE __m512i rest_at(const char *x)
{
    uint16_t element = 0;
    memcpy(&element, x, sizeof element);
    return _mm512_set1_epi32(element);
}

/* Groups of bytes, of halves, or of one half and a 0. */
enum group_kind { GROUP_BYTES = 0, GROUP_HALVES = 1, GROUP_REST = 2 };

/* A group of each row meets its row of the panel. `rows` and `kind` are constants where this is
 * inlined. A pointer for three rows: as many registers as there are. */
INLINE void add_group(const dn_tile *t, const char *const *at, const char *w, __m512i sum[][2],
                      const int rows, const enum group_kind kind)
{
    const __m512i w0 = _mm512_loadu_si512(w);
    const __m512i w1 = _mm512_loadu_si512(w + DN_TILE_GROUP * LANES);
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        const char *x = at[i / 3] + i % 3 * t->row;
        const __m512i v = kind == GROUP_REST ? rest_at(x) : group_at(x);
        sum[i][0] = products(sum[i][0], v, w0, kind != GROUP_BYTES);
        sum[i][1] = products(sum[i][1], v, w1, kind != GROUP_BYTES);
    }
}

/* One run: every group, and the rest. Returns the weights that follow. */
INLINE const char *run_groups(const dn_tile *t, const char *x, const char *w, __m512i sum[][2],
                              const int rows, const int is_half)
{
    const char *at[(ROWS + 2) / 3];
#pragma GCC unroll 5
    for (int i = 0; i < (rows + 2) / 3; i++) {
        at[i] = x + 3 * i * t->row;
    }
    for (int64_t g = t->length; g > 0; g--, w += DN_TILE_GROUP * COLUMNS) {
        add_group(t, at, w, sum, rows, is_half ? GROUP_HALVES : GROUP_BYTES);
#pragma GCC unroll 5
        for (int i = 0; i < (rows + 2) / 3; i++) {
            at[i] += DN_TILE_GROUP;
            __asm__("" : "+r"(at[i])); /* else each row gets a register of its own */
        }
    }
    if (is_half && t->has_rest) {
        add_group(t, at, w, sum, rows, GROUP_REST);
        w += DN_TILE_GROUP * COLUMNS;
    }
    return w;
}

INLINE void tile(const dn_tile *t, const int rows, const int is_half)
{
    __m512i sum[ROWS][2];
    const char *w = t->weights;
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        sum[i][0] = _mm512_setzero_si512();
        sum[i][1] = _mm512_setzero_si512();
    }
    for (int64_t l = 0; l < t->lines; l++) {
        for (int64_t p = 0; p < t->pixels; p++) {
            w = run_groups(t, t->x + l * t->line + p * t->pixel, w, sum, rows, is_half);
        }
    }
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        _mm512_store_si512(t->sums + i * t->step, sum[i][0]);
        _mm512_store_si512(t->sums + i * t->step + LANES, sum[i][1]);
    }
}

#define ROWS_TILE(rows)                                                                            \
    static void tile_bytes_##rows(const dn_tile *t)                                                \
    {                                                                                              \
        tile(t, rows, 0);                                                                          \
    }                                                                                              \
    static void tile_half_##rows(const dn_tile *t)                                                 \
    {                                                                                              \
        tile(t, rows, 1);                                                                          \
    }
EACH_ROWS(ROWS_TILE)
#undef ROWS_TILE

static void run_bytes(const dn_tile *t, int64_t rows)
{
    static void (*const all[ROWS])(const dn_tile *) = TILES_OF_ROWS(tile_bytes);
    all[rows - 1](t);
}

static void run_half(const dn_tile *t, int64_t rows)
{
    static void (*const all[ROWS])(const dn_tile *) = TILES_OF_ROWS(tile_half);
    all[rows - 1](t);
}

/* ---- images ---- */

#define PIXELS_TOGETHER 512

/* The places of a block's pixels in scratch. */
INLINE void places_of(const dn_regroup *r, int64_t first, int64_t pixel, int64_t n, char **to)
{
    const int64_t step = r->pixel;
    int64_t x = pixel % r->width;
    char *at = r->to + pixel / r->width * r->line + x * step + first * DN_TILE_GROUP;
    for (int64_t i = 0; i < n; i++) {
        to[i] = at;
        at += step;
        if (++x == r->width) {
            x = 0;
            at += r->line - r->width * step;
        }
    }
}

INLINE __mmask16 groups_of(const dn_regroup *r, int64_t first)
{
    const int64_t left = r->depth - first;
    return left >= LANES ? (__mmask16)0xffff : (__mmask16)((1u << left) - 1u);
}

INLINE void store_groups(char *to, __mmask16 mask, __m512i v)
{
    if (mask == 0xffff) {
        _mm512_storeu_si512(to, v);
    } else {
        _mm512_mask_storeu_epi32(to, mask, v);
    }
}

/* Channel c of 32 pixels; 0 where there is none. */
INLINE __m512i load_half(const dn_regroup *r, int64_t c, int64_t pixel, __mmask32 mask)
{
    if (c >= r->channels) {
        return _mm512_setzero_si512();
    }
    const char *from = r->from + (c * r->plane + pixel) * 2;
    _mm_prefetch(from + DN_TILE_AHEAD, _MM_HINT_T0);
    return _mm512_maskz_loadu_epi16(mask, from);
}

/* 16 pairs of channels, from pair `first` on, of up to 32 pixels: words of two channels interleaved
 * in each 16 bytes are four pixels of the first eight, and so on. */
INLINE void regroup_half(const dn_regroup *r, int64_t first, int64_t pixel)
{
    __m512i low[LANES];
    __m512i high[LANES];
    char *to[2 * LANES];
    const int64_t left = r->n - pixel;
    const int64_t n = left < 2 * LANES ? left : 2 * LANES;
    const __mmask32 mask = n == 2 * LANES ? 0xffffffffu : (1u << n) - 1u;
    const __mmask16 groups = groups_of(r, first);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        const __m512i a = load_half(r, 2 * (first + i), r->first + pixel, mask);
        const __m512i b = load_half(r, 2 * (first + i) + 1, r->first + pixel, mask);
        low[i] = _mm512_unpacklo_epi16(a, b);
        high[i] = _mm512_unpackhi_epi16(a, b);
    }
    places_of(r, first, pixel, n, to);
    transpose_block(low);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        const int at = i / 4 * 8 + i % 4;
        if (at < n) {
            store_groups(to[at], groups, low[i]);
        }
    }
    transpose_block(high);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        const int at = i / 4 * 8 + i % 4 + 4;
        if (at < n) {
            store_groups(to[at], groups, high[i]);
        }
    }
}

/* Where words of three channels' pixels go: word i of 32 is channel i % 3 of pixel i / 3,
 * in the chunk that begins `chunk` * 32 words on. */
INLINE void thirds_of(int chunk, uint16_t index[2 * LANES], __mmask32 *third)
{
    *third = 0;
    for (int i = 0; i < 2 * LANES; i++) {
        const int word = chunk * 2 * LANES + i;
        const bool is_second = word % 3 == 1; /* taken from the second register */
        index[i] = (uint16_t)(word / 3 + (is_second ? 2 * LANES : 0));
        *third |= (__mmask32)(word % 3 == 2) << i;
    }
}

/* Three channels: 32 pixels of each become three vectors. */
static void regroup_three(const dn_regroup *r)
{
    __m512i index[3];
    __mmask32 third[3];
    for (int chunk = 0; chunk < 3; chunk++) {
        uint16_t words[2 * LANES];
        thirds_of(chunk, words, &third[chunk]);
        index[chunk] = _mm512_loadu_si512(words);
    }
    for (int64_t y = 0; y < r->n / r->width; y++) {
        const char *from = r->from + (r->first + y * r->width) * 2;
        for (int64_t x = 0; x < r->width; x += 2 * LANES, from += sizeof(__m512i)) {
            const int64_t n = dn_least(r->width - x, 2 * LANES);
            const __mmask32 mask = n == 2 * LANES ? 0xffffffffu : (1u << n) - 1u;
            const __m512i a = _mm512_maskz_loadu_epi16(mask, from);
            const __m512i b = _mm512_maskz_loadu_epi16(mask, from + 2 * r->plane);
            const __m512i c = _mm512_maskz_loadu_epi16(mask, from + 4 * r->plane);
            char *to = r->to + y * r->line + x * 6;
            for (int chunk = 0; chunk < 3; chunk++) {
                const __m512i two = _mm512_permutex2var_epi16(a, index[chunk], b);
                const __m512i all =
                    _mm512_mask_permutexvar_epi16(two, third[chunk], index[chunk], c);
                const int64_t left = 3 * n - chunk * 2 * LANES;
                const int64_t words = left < 0 ? 0 : dn_least(left, 2 * LANES);
                const __mmask32 some = (__mmask32)((UINT64_C(1) << words) - 1u);
                _mm512_mask_storeu_epi16(to + chunk * (int64_t)sizeof all, some, all);
            }
        }
    }
}

/* Channels c to c + 3 of 16 pixels. */
INLINE __m512i load_bytes(const dn_regroup *r, int64_t c, int64_t pixel, __mmask16 mask)
{
    __m512i group = _mm512_setzero_si512();
    if (c >= r->channels) {
        return group; /* no such group */
    }
#pragma GCC unroll 4
    for (int i = 0; i < DN_TILE_GROUP; i++) {
        if (c + i >= r->channels) {
            const uint32_t missing = (r->fill ^ r->flip) & (0xffffffffu << (8 * i));
            return _mm512_or_si512(group, _mm512_set1_epi32((int)missing));
        }
        const char *from = r->from + (c + i) * r->plane + pixel;
        _mm_prefetch(from + DN_TILE_AHEAD, _MM_HINT_T0);
        const __m512i v = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, from));
        group = _mm512_or_si512(group, _mm512_slli_epi32(v, (unsigned)(8 * i)));
    }
    return group;
}

/* 16 groups of channels, from group `first` on, of up to 16 pixels. */
INLINE void regroup_bytes(const dn_regroup *r, int64_t first, int64_t pixel)
{
    __m512i a[LANES];
    char *to[LANES] = {NULL};
    const int64_t n = r->n - pixel < LANES ? r->n - pixel : LANES;
    const __mmask16 mask = (__mmask16)((1u << n) - 1u);
    const __mmask16 groups = groups_of(r, first);
    const __m512i flip = _mm512_set1_epi32((int)r->flip);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        a[i] = _mm512_xor_si512(load_bytes(r, (first + i) * 4, r->first + pixel, mask), flip);
    }
    transpose_block(a);
    places_of(r, first, pixel, n, to);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        if (i < n) {
            store_groups(to[i], groups, a[i]);
        }
    }
}

/* Each channel lies in pages of its own: no more of them at a time than the processor knows by
 * heart. */
INLINE void regroup(const dn_regroup *r, const bool is_half)
{
    const int64_t step = is_half ? 2 * LANES : LANES;
    for (int64_t begin = 0; begin < r->n; begin += PIXELS_TOGETHER) {
        const int64_t end = r->n - begin < PIXELS_TOGETHER ? r->n : begin + PIXELS_TOGETHER;
        for (int64_t first = 0; first < r->depth; first += LANES) {
            for (int64_t pixel = begin; pixel < end; pixel += step) {
                if (is_half) {
                    regroup_half(r, first, pixel);
                } else {
                    regroup_bytes(r, first, pixel);
                }
            }
        }
    }
}

static void regroup_all_half(const dn_regroup *r)
{
    if (!r->is_tight) {
        regroup(r, true);
    } else if (r->channels == 3) {
        regroup_three(r);
    } else {
        dn_regroup_tight(r, 2, 2);
    }
}

/* Indices of a channel's 16 pixels in part `part` (16 bytes) of three contiguous channels. */
INLINE __m128i third_of(int part, int channel)
{
    char index[16];
    for (int i = 0; i < 16; i++) {
        const int byte = 16 * part + i;
        index[i] = (char)(byte % 3 == channel ? byte / 3 : -1);
    }
    return _mm_loadu_si128((const __m128i *)(const void *)index);
}

/* Three channels of bytes: 16 pixels of each become three vectors. */
static void regroup_three_bytes(const dn_regroup *r)
{
    const __m128i flip = _mm_set1_epi32((int)r->flip);
    __m128i index[3][3];
    for (int i = 0; i < 9; i++) {
        index[i / 3][i % 3] = third_of(i / 3, i % 3);
    }
    for (int64_t y = 0; y < r->n / r->width; y++) {
        const char *from = r->from + r->first + y * r->width;
        for (int64_t x = 0; x < r->width; x += 16, from += 16) {
            const int64_t n = dn_least(r->width - x, 16);
            const __mmask16 mask = (__mmask16)((1u << n) - 1u);
            char *to = r->to + y * r->line + x * 3;
            __m128i v[3];
            for (int c = 0; c < 3; c++) {
                v[c] = _mm_xor_si128(flip, _mm_maskz_loadu_epi8(mask, from + c * r->plane));
            }
            for (int part = 0; part < 3; part++) {
                const int64_t left = 3 * n - 16 * part;
                const uint32_t bytes = left < 0 ? 0 : (uint32_t)dn_least(left, 16);
                const __m128i two = _mm_or_si128(_mm_shuffle_epi8(v[0], index[part][0]),
                                                 _mm_shuffle_epi8(v[1], index[part][1]));
                const __m128i all = _mm_or_si128(two, _mm_shuffle_epi8(v[2], index[part][2]));
                _mm_mask_storeu_epi8(to + 16 * part, (__mmask16)((1u << bytes) - 1u), all);
            }
        }
    }
}

static void regroup_all_bytes(const dn_regroup *r)
{
    if (!r->is_tight) {
        regroup(r, false);
    } else if (r->channels == 3) {
        regroup_three_bytes(r);
    } else {
        dn_regroup_tight(r, 1, 1);
    }
}

/* Bytes stay what they are, but for their sign. */
static void copy_bytes(const char *from, int64_t n, uint32_t flip, char *to)
{
    const __m512i flips = _mm512_set1_epi32((int)flip);
    if (flip == 0) {
        memcpy(to, from, (size_t)n);
        return;
    }
    for (int64_t i = 0; i < n; i += 64) {
        const __mmask64 mask = n - i < 64 ? (UINT64_C(1) << (n - i)) - 1u : ~UINT64_C(0);
        const __m512i v = _mm512_maskz_loadu_epi8(mask, from + i);
        _mm512_mask_storeu_epi8(to + i, mask, _mm512_xor_si512(v, flips));
    }
}

/* ---- zero points ---- */

static int32_t sum_bytes(const char *x, int64_t groups)
{
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i sum = _mm512_setzero_si512();
    for (int64_t g = 0; g < groups; g += LANES) {
        const int64_t left = groups - g;
        const __mmask16 mask = left >= LANES ? (__mmask16)0xffff : (__mmask16)((1u << left) - 1u);
        sum = _mm512_dpbusd_epi32(sum, _mm512_maskz_loadu_epi32(mask, x + g * DN_TILE_GROUP), ones);
    }
    return _mm512_reduce_add_epi32(sum);
}

/* ---- the epilogue ---- */

/* Elements of bf16, as f32. */
INLINE __m512 widened(__m256i bits)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/* 16 elements of a buffer, as f32. */
INLINE vec load_some(const void *buffer, uint32_t dtype, int64_t at, __mmask16 mask)
{
    if (dtype == STATOR_BF16) {
        return widened(_mm256_maskz_loadu_epi16(mask, (const uint16_t *)buffer + at));
    }
    if (dtype == STATOR_I32) {
        return _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(mask, (const int32_t *)buffer + at));
    }
    return _mm512_maskz_loadu_ps(mask, (const float *)buffer + at);
}

INLINE vec load_one(const void *buffer, uint32_t dtype, int64_t at)
{
    return _mm512_broadcastss_ps(
        _mm512_castps512_ps128(load_some(buffer, dtype, at, (__mmask16)1)));
}

INLINE vec others(uint32_t kind, vec v)
{
    return kind == ST_EPILOGUE_NARROW ? widened((__m256i)_mm512_cvtneps_pbh(v)) : v;
}

#include "plugins/cpu-llvm/kernels/tiles/dn_finish_isa.h"

INLINE void load_sums(const dn_finish *f, int64_t i, __m512 *v, const int n, const bool is_across)
{
    const int64_t pitch = is_across ? LANES : f->pitch;
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        v[k] = _mm512_loadu_ps(f->sums + (i + k) * pitch);
    }
    if (f->column == NULL) {
        return;
    }
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        const __m512i column = is_across ? _mm512_loadu_si512(f->column + k % 2 * LANES)
                                         : _mm512_set1_epi32(f->column[i + k]);
        v[k] = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(v[k]), column));
    }
    for (int k = 0; f->row_sums && k < n; k++) {
        const __m512i factor = is_across ? _mm512_loadu_si512(f->factor + k % 2 * LANES)
                                         : _mm512_set1_epi32(f->factor[i + k]);
        const __m512i rows = is_across ? _mm512_set1_epi32(f->row_sums[(i + k) / 2])
                                       : _mm512_maskz_loadu_epi32(f->mask[0], f->row_sums);
        v[k] = _mm512_castsi512_ps(
            _mm512_add_epi32(_mm512_castps_si512(v[k]), _mm512_mullo_epi32(rows, factor)));
    }
    for (int k = 0; is_across && f->row_zeros && k < n; k++) {
        const __m512i weights = _mm512_loadu_si512(f->weights + k % 2 * LANES);
        const __m512i zero = _mm512_set1_epi32(f->row_zeros[(i + k) / 2]);
        v[k] = _mm512_castsi512_ps(
            _mm512_add_epi32(_mm512_castps_si512(v[k]), _mm512_mullo_epi32(zero, weights)));
    }
    if (f->contraction->out.dtype == STATOR_I32) {
        return;
    }
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        v[k] = _mm512_cvtepi32_ps(_mm512_castps_si512(v[k]));
    }
}

/* ---- stores ---- */

INLINE void store_bytes(int8_t *to, __mmask16 mask, __m512 v, bool is_signed)
{
    const float least = is_signed ? -128.0f : 0.0f;
    v = _mm512_max_ps(v, _mm512_set1_ps(least));
    v = _mm512_min_ps(v, _mm512_set1_ps(least + 255.0f));
    const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v));
    if (mask == 0xffff) {
        _mm_storeu_si128((__m128i *)(void *)to, bytes);
    } else {
        _mm_mask_storeu_epi8(to, mask, bytes);
    }
}

INLINE void store_half(uint16_t *to, __mmask16 mask, __m512 v)
{
    const __m256i bits = (__m256i)_mm512_cvtneps_pbh(v);
    if (mask == 0xffff) {
        _mm256_storeu_si256((__m256i *)(void *)to, bits);
    } else {
        _mm256_mask_storeu_epi16(to, mask, bits);
    }
}

INLINE void store_float(float *to, __mmask16 mask, __m512 v)
{
    if (mask == 0xffff) {
        _mm512_storeu_ps(to, v);
    } else {
        _mm512_mask_storeu_ps(to, mask, v);
    }
}

INLINE void store_vectors(const dn_finish *f, int64_t i, const __m512 *v, const int n,
                          const bool is_across)
{
    const uint32_t dtype = f->contraction->out.dtype;
    void *base = f->at[DN_OUT];
    if (dtype == STATOR_BF16) {
#pragma GCC unroll 8
        for (int k = 0; k < n; k++) {
            store_half((uint16_t *)base + place_of(f, i + k, is_across), f->mask[k % 2], v[k]);
        }
    } else if (dtype == STATOR_U8 || dtype == STATOR_I8) {
#pragma GCC unroll 8
        for (int k = 0; k < n; k++) {
            store_bytes((int8_t *)base + place_of(f, i + k, is_across), f->mask[k % 2], v[k],
                        dtype == STATOR_I8);
        }
    } else {
#pragma GCC unroll 8
        for (int k = 0; k < n; k++) {
            store_float((float *)base + place_of(f, i + k, is_across), f->mask[k % 2], v[k]);
        }
    }
}

INLINE void finish_vectors(const dn_finish *f, int64_t i, const int n, const bool is_across)
{
    __m512 v[DN_FINISH_VECTORS];
    load_sums(f, i, v, n, is_across);
    apply_rows(f, i, v, n, is_across);
    store_vectors(f, i, v, n, is_across);
}

/* ---- what there is ---- */

const dn_tiles_isa *dn_tiles_512(uint32_t dtype)
{
    static const dn_tiles_isa half = {.rows = ROWS,
                                      .lanes = LANES,
                                      .size = 2,
                                      .may_be_tight = true,
                                      .run = run_half,
                                      .regroup = regroup_all_half,
                                      .transpose_sums = transpose_sums,
                                      .finish = finish};
    static const dn_tiles_isa bytes = {.rows = ROWS,
                                       .lanes = LANES,
                                       .size = 1,
                                       .may_be_tight = true,
                                       .run = run_bytes,
                                       .run_singles = dn_run_singles_512,
                                       .regroup = regroup_all_bytes,
                                       .widen = copy_bytes,
                                       .sum_bytes = sum_bytes,
                                       .transpose_sums = transpose_sums,
                                       .finish = finish,
                                       .finish_bytes = dn_finish_bytes_512};
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
        return NULL;
    }
    switch (dtype) {
    case STATOR_BF16:
        return __builtin_cpu_supports("avx512bf16") ? &half : NULL;
    case STATOR_U8:
    case STATOR_I8:
        return __builtin_cpu_supports("avx512vnni") ? &bytes : NULL;
    default:
        return NULL;
    }
}
#endif
