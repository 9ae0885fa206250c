/* The inner loops of gradients of convolutions to their weights (dn_gradient.h) for one width of
 * vectors. Before: LANES, ROWS (rows of a tile whose sums the registers hold), PLACES (places whose
 * sums the registers hold twice), EACH_ROWS and EACH_PLACES (a text for each number of them),
 * LOAD_BITS and STORE_BITS (the lanes that bits say; others are loaded as 0) and ISA (a function
 * that gives the table) are defined. Products and sums are fused. */
#include "plugins/cpu-llvm/kernels/dn_gradient.h"
#include "plugins/cpu-llvm/kernels/dn_vec.h"

#define WIDTH (DN_GRADIENT_VECTORS * LANES)
#define ASK 6 /* pixels from one that is summed to one that is prefetched */

INLINE uint32_t bits_of(int64_t count)
{
    return count >= LANES ? (1u << LANES) - 1u : count > 0 ? (1u << count) - 1u : 0;
}

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

/* Products of one pixel of g, into one of two sums of each place: one after the other into the same
 * would wait for each other. */
INLINE void add_pixel(const dn_gradient_lines *t, const float *x, const float *g, vec sum[PLACES],
                      const int places)
{
    const vec arrived = load(g);
#pragma GCC unroll 8
    for (int p = 0; p < places; p++) {
        sum[p] += load(x + p * t->place_step) * arrived;
    }
}

/* Lines of one pixel: two lines at a time, as pixels of a line elsewhere. */
INLINE void add_columns(const dn_gradient_lines *t, const float *x, const float *g,
                        vec sum[2][PLACES], const int places)
{
    int64_t i = 0;
    for (; i + 2 <= t->n; i += 2, x += 2 * t->x_line, g += 2 * t->g_line) {
        add_pixel(t, x, g, sum[0], places);
        add_pixel(t, x + t->x_line, g + t->g_line, sum[1], places);
    }
    if (i < t->n) {
        add_pixel(t, x, g, sum[0], places);
    }
}

INLINE void add_line(const dn_gradient_lines *t, const float *x, const float *g, vec sum[2][PLACES],
                     const int places)
{
    int64_t k = 0;
    for (; k + 2 <= t->pixels; k += 2, x += 2 * t->x_step, g += 2 * LANES) {
        add_pixel(t, x, g, sum[0], places);
        add_pixel(t, x + t->x_step, g + LANES, sum[1], places);
    }
    if (k < t->pixels) {
        add_pixel(t, x, g, sum[0], places);
    }
}

INLINE void sum_lines(const dn_gradient_lines *t, const int places)
{
    vec sum[2][PLACES] = {{{0}}};
    for (int64_t image = 0; image < t->images; image++) {
        const float *x = t->x + image * t->x_image;
        const float *g = t->g + image * t->g_image;
        if (t->pixels == 1) {
            add_columns(t, x, g, sum, places);
            continue;
        }
        for (int64_t i = 0; i < t->n; i++) {
            add_line(t, x + i * t->x_line, g + i * t->g_line, sum, places);
        }
    }
#pragma GCC unroll 8
    for (int p = 0; p < places; p++) {
        give(t->sums + p * LANES, sum[0][p] + sum[1][p], false);
    }
}

#define PLACES_OF(places)                                                                          \
    static __attribute__((noinline)) void places_##places(const dn_gradient_lines *t)              \
    {                                                                                              \
        sum_lines(t, places);                                                                      \
    }
EACH_PLACES(PLACES_OF)
#undef PLACES_OF

static void run_lines(const dn_gradient_lines *t, int64_t places)
{
#define NAME(places) places_##places,
    static void (*const all[PLACES])(const dn_gradient_lines *) = {EACH_PLACES(NAME)};
    all[places - 1](t);
#undef NAME
}

/* ---- packing ---- */

/* `vectors` is a constant where this is inlined: pixels of so many whole vectors, for which masks
 * would cost more than the copy (a masked store of 32 bytes is some 12 cycles of Zen 3); 0: any. */
INLINE void pack_pixels(const dn_gradient_pack *p, float *to, const int vectors)
{
    const uint32_t taken[2] = {bits_of(p->count), bits_of(p->count - LANES)};
    const int64_t width = vectors ? vectors * LANES : p->width;
    const uint32_t given[2] = {bits_of(width), bits_of(width - LANES)};
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
                                        .run = run,
                                        .run_lines = run_lines,
                                        .pack = pack};
    return &isa;
}
