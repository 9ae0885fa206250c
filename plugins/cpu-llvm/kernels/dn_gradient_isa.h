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

INLINE void sum_lines(const dn_gradient_lines *t, const int places)
{
    vec sum[2][PLACES] = {{{0}}};
    for (int64_t i = 0; i < t->n; i++) {
        const float *x = t->x + i * t->x_line;
        const float *g = t->g + i * t->g_line;
        int64_t k = 0;
        for (; k + 2 <= t->pixels; k += 2, x += 2 * t->x_step, g += 2 * LANES) {
            add_pixel(t, x, g, sum[0], places);
            add_pixel(t, x + t->x_step, g + LANES, sum[1], places);
        }
        if (k < t->pixels) {
            add_pixel(t, x, g, sum[0], places);
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

static void pack(const dn_gradient_pack *p, float *to)
{
    const uint32_t taken[2] = {bits_of(p->count), bits_of(p->count - LANES)};
    const uint32_t given[2] = {bits_of(p->width), bits_of(p->width - LANES)};
    const float *from = p->from;
    for (int64_t i = 0; i < p->n; i++, from += p->step, to += p->width) {
        __builtin_prefetch(from + p->next, 0, 2);
        STORE_BITS(to, given[0], LOAD_BITS(from, taken[0]));
        if (given[1]) {
            __builtin_prefetch(from + p->next + LANES, 0, 2);
            STORE_BITS(to + LANES, given[1], LOAD_BITS(from + LANES, taken[1]));
        }
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
