/* The inner loops of gradients of convolutions to their weights (dn_gradient.h) for one width of
 * vectors. Before: LANES, ROWS (rows of a tile whose sums the registers hold), WINDOW_ROWS and
 * PLACES (those of a part of the window, at most), WINDOW_SUMS (their products at most, which the
 * registers hold), EACH_ROWS and EACH_WINDOW (a text for each number of them), LOAD_BITS and
 * STORE_BITS (the lanes that bits say; others are loaded as 0) and ISA (a function that gives the
 * table) are defined. Products and sums are fused. */
#include "plugins/cpu-llvm/kernels/dn_gradient.h"
#include "plugins/cpu-llvm/kernels/dn_vec.h"

#include "plugins/cpu-llvm/kernels/dn_mask.h"

#define WIDTH (DN_GRADIENT_VECTORS * LANES)
#define ASK 6 /* pixels from one that is summed to one that is prefetched */

INLINE void give(float *to, vec sum, const bool is_first)
{
    sum = is_first ? sum : sum + load(to);
    memcpy(to, &sum, sizeof sum);
}

/* ---- a tile ---- */

/* `rows` and `vectors` are constants where this is inlined. */
INLINE void sum_tile(const dn_gradient_tile *t, const int rows, const int vectors)
{
    vec sum[ROWS][DN_GRADIENT_VECTORS] = {{{0}}};
    const int64_t ask = ASK * t->x_step;
    for (const dn_gradient_pixels *run = t->runs; run < t->runs + t->n; run++) {
        const float *x = t->x + run->x;
        const float *g = t->g + run->g;
        for (uint32_t i = 0; i < run->pixels; i++, x += t->x_step, g += WIDTH) {
            const vec g0 = load(g);
            const vec g1 = vectors == 2 ? load(g + LANES) : g0;
            __builtin_prefetch(x + ask);
            __builtin_prefetch(g + ASK * WIDTH);
            if (vectors == 2) {
                __builtin_prefetch(g + ASK * WIDTH + LANES);
            }
#pragma GCC unroll 14
            for (int r = 0; r < rows; r++) {
                vec element = splat(x[r]);
                KEEP(element);
                sum[r][0] += element * g0;
                if (vectors == 2) {
                    sum[r][1] += element * g1;
                }
            }
        }
    }
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++) {
        give(t->sums + r * t->sums_step, sum[r][0], t->is_first);
        if (vectors == 2) {
            give(t->sums + t->second + r * t->sums_step, sum[r][1], t->is_first);
        }
    }
}

#define TILE(rows)                                                                                 \
    static __attribute__((noinline)) void narrow_##rows(const dn_gradient_tile *t)                 \
    {                                                                                              \
        sum_tile(t, rows, 1);                                                                      \
    }                                                                                              \
    static __attribute__((noinline)) void wide_##rows(const dn_gradient_tile *t)                   \
    {                                                                                              \
        sum_tile(t, rows, 2);                                                                      \
    }
EACH_ROWS(TILE)
#undef TILE

static void run(const dn_gradient_tile *t, int64_t rows, int64_t vectors)
{
#define NARROW(rows) narrow_##rows,
#define WIDE(rows) wide_##rows,
    static void (*const all[2][ROWS])(const dn_gradient_tile *) = {{EACH_ROWS(NARROW)},
                                                                   {EACH_ROWS(WIDE)}};
    all[vectors - 1][rows - 1](t);
#undef NARROW
#undef WIDE
}

/* ---- a group for each channel ---- */

#define ALL_MET UINT32_MAX

/* A pixel of g, and bits of the places that it meets. */
typedef struct spot {
    const float *g;
    int64_t at; /* floats from the x of the lines to what it meets at the first place */
    uint32_t rows, places;
} spot;

/* Behind `spot`, lines and pixels of a line. */
INLINE spot spot_behind(const dn_gradient_lines *t, spot s, int64_t lines, int64_t pixels)
{
    s.g += lines * t->g_line + pixels * t->g_step;
    s.at += lines * t->x_line + pixels * t->x_step;
    return s;
}

/* `rows` and `places` are constants where this is inlined, and often the bits. */
INLINE void add_pixel(const dn_gradient_lines *t, const spot s, vec sum[WINDOW_ROWS][PLACES],
                      const int rows, const int places)
{
    const vec arrived = load(s.g);
    int64_t at = s.at;
#pragma GCC unroll 8
    for (int p = 0; p < places; p++, at += t->place_step) {
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            if ((s.places >> p & 1) && (s.rows >> r & 1)) {
                sum[r][p] += load(t->x + r * t->row_step + at) * arrived;
            }
        }
    }
}

/* Pixels of a line that meet all places. Sums one after the other into the same register would wait
 * for each other: where there is room, pixels have one of two in turn. */
INLINE void add_line(const dn_gradient_lines *t, spot s, vec sum[2][WINDOW_ROWS][PLACES],
                     const int rows, const int places)
{
    const int second = 2 * rows * places <= WINDOW_SUMS ? 1 : 0;
    int64_t i = t->whole.begin;
    s = spot_behind(t, s, 0, i);
    for (; i + 2 <= t->whole.end; i += 2, s = spot_behind(t, s, 0, 2)) {
        add_pixel(t, s, sum[0], rows, places);
        add_pixel(t, spot_behind(t, s, 0, 1), sum[second], rows, places);
    }
    if (i < t->whole.end) {
        add_pixel(t, s, sum[0], rows, places);
    }
}

/* A pixel of each line. */
INLINE void add_column(const dn_gradient_lines *t, spot s, vec sum[WINDOW_ROWS][PLACES],
                       const int rows, const int places)
{
    for (int64_t i = 0; i < t->n; i++, s = spot_behind(t, s, 1, 0)) {
        if (t->rows[i] == (1u << rows) - 1u) {
            s.rows = ALL_MET;
            add_pixel(t, s, sum, rows, places);
        } else if (t->rows[i]) {
            s.rows = t->rows[i];
            add_pixel(t, s, sum, rows, places);
        }
    }
}

/* Columns of pixels that meet some of the places: all but the first or the last ones, where the
 * window is not wider than the image. Each case is a loop without branches. */
INLINE void add_columns(const dn_gradient_lines *t, spot s, vec sum[WINDOW_ROWS][PLACES],
                        const int rows, const int places, const dn_gradient_range pixels)
{
    const uint32_t all = (1u << places) - 1u;
    s = spot_behind(t, s, 0, pixels.begin);
    for (int64_t i = pixels.begin; i < pixels.end; i++, s = spot_behind(t, s, 0, 1)) {
        bool is_done = t->places[i] == 0;
#pragma GCC unroll 8
        for (int p = 1; p < places; p++) {
            if (t->places[i] == all >> p) {
                s.places = all >> p;
                add_column(t, s, sum, rows, places);
                is_done = true;
            } else if (t->places[i] == (all << p & all)) {
                s.places = all << p & all;
                add_column(t, s, sum, rows, places);
                is_done = true;
            }
        }
        if (!is_done) {
            s.places = t->places[i];
            add_column(t, s, sum, rows, places);
        }
    }
}

INLINE void add_image(const dn_gradient_lines *t, spot s, vec sum[2][WINDOW_ROWS][PLACES],
                      const int rows, const int places)
{
    const spot first = s;
    for (int64_t i = 0; i < t->n; i++, s = spot_behind(t, s, 1, 0)) {
        if (t->rows[i] == (1u << rows) - 1u) {
            s.rows = ALL_MET;
            add_line(t, s, sum, rows, places);
        } else if (t->rows[i]) {
            s.rows = t->rows[i];
            add_line(t, s, sum, rows, places);
        }
    }
    add_columns(t, first, sum[0], rows, places, (dn_gradient_range){0, t->whole.begin});
    add_columns(t, first, sum[0], rows, places, (dn_gradient_range){t->whole.end, t->pixels});
}

INLINE void sum_lines(const dn_gradient_lines *t, const int rows, const int places)
{
    vec sum[2][WINDOW_ROWS][PLACES] = {{{{0}}}};
    for (int64_t image = 0; image < t->images; image++) {
        const spot first = {.g = t->g + image * t->g_image,
                            .at = t->first + image * t->x_image,
                            .rows = ALL_MET,
                            .places = ALL_MET};
        add_image(t, first, sum, rows, places);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
        for (int p = 0; p < places; p++) {
            give(t->sums + r * t->sums_row + p * LANES, sum[0][r][p] + sum[1][r][p], false);
        }
    }
}

#define WINDOW(rows, places)                                                                       \
    static __attribute__((noinline)) void window_##rows##_##places(const dn_gradient_lines *t)     \
    {                                                                                              \
        sum_lines(t, rows, places);                                                                \
    }
EACH_WINDOW(WINDOW)
#undef WINDOW

static void run_lines(const dn_gradient_lines *t, int64_t rows, int64_t places)
{
#define AT(rows, places) [rows - 1][places - 1] = window_##rows##_##places,
    static void (*const all[WINDOW_ROWS][PLACES])(const dn_gradient_lines *) = {EACH_WINDOW(AT)};
    all[rows - 1][places - 1](t);
#undef AT
}

/* ---- packing ---- */

/* `vectors` is a constant where this is inlined: pixels of so many whole vectors, for which masks
 * would cost more than the copy (a masked store of 32 bytes is some 12 cycles of Zen 3); 0: any. */
INLINE void pack_pixels(const dn_gradient_pack *p, float *to, const int vectors)
{
    const uint32_t taken[2] = {mask_of(p->count), mask_of(p->count - LANES)};
    const int64_t width = vectors ? vectors * LANES : p->width;
    const uint32_t given[2] = {mask_of(width), mask_of(width - LANES)};
    const float *from = p->from;
    for (int64_t i = 0; i < p->n; i++, from += p->step, to += width) {
        for (int v = 0; v < (vectors ? vectors : 2) && given[v]; v++) {
            const vec lanes = (vec)LOAD_BITS(from + v * LANES, taken[v]);
            __builtin_prefetch(from + p->next + v * LANES, 0, 2);
            if (vectors) {
                memcpy(to + v * LANES, &lanes, sizeof lanes);
            } else {
                STORE_BITS(to + v * LANES, given[v], lanes);
            }
        }
    }
}

static void pack(const dn_gradient_pack *p, float *to)
{
    if (p->width == LANES) {
        pack_pixels(p, to, 1);
    } else if (p->width == 2 * LANES) {
        pack_pixels(p, to, 2);
    } else {
        pack_pixels(p, to, 0);
    }
}

const dn_gradient_isa *ISA(void)
{
    static const dn_gradient_isa isa = {.lanes = LANES,
                                        .rows = ROWS,
                                        .places = PLACES,
                                        .window_rows = WINDOW_ROWS,
                                        .window_sums = WINDOW_SUMS,
                                        .run = run,
                                        .run_lines = run_lines,
                                        .pack = pack};
    return &isa;
}
