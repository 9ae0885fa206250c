/* The inner loops of products (dn_product.h) for one width of vectors. Before: LANES, INLINE,
 * `vec` (a vector of floats), ROWS (rows of a tile, whose sums the registers hold), DEPTH, LOAD
 * and STORE, LOAD_BITS (the lanes that bits say; others are 0), `transpose_block` of LANES
 * vectors of the type `block_vec`, and ISA (a function that gives the table) are defined.
 * Products and sums are fused. */
#include "plugins/cpu-llvm/kernels/dn_mask.h"
#include "plugins/cpu-llvm/kernels/tiles/dn_product.h"

#define WIDTH (2 * LANES)

/* ---- a tile ---- */

INLINE void add_place(const float *x, const float *y, vec sum[ROWS][2])
{
    const vec y0 = LOAD(y);
    const vec y1 = LOAD(y + LANES);
#pragma GCC unroll 14
    for (int i = 0; i < ROWS; i++) {
        const vec element = SPLAT(x[i]);
        sum[i][0] = FMA(element, y0, sum[i][0]);
        sum[i][1] = FMA(element, y1, sum[i][1]);
    }
}

static void run(const dn_product_tile *t)
{
    vec sum[ROWS][2] = {{{0}}};
    const float *x = t->x;
    const float *y = t->y;
    const float *ask = t->ask;
    int64_t n = t->n;
#pragma GCC unroll 1
    for (; n >= DN_PRODUCT_ASK; n -= DN_PRODUCT_ASK) {
        __builtin_prefetch(ask, 0, 2);
        ask += 64 / sizeof *ask;
#pragma GCC unroll 8
        for (int u = 0; u < DN_PRODUCT_ASK; u++) {
            add_place(x + u * ROWS, y + u * WIDTH, sum);
        }
        x += DN_PRODUCT_ASK * ROWS;
        y += DN_PRODUCT_ASK * WIDTH;
    }
#pragma GCC unroll 1
    for (; n > 0; n--, x += ROWS, y += WIDTH) {
        add_place(x, y, sum);
    }
#pragma GCC unroll 14
    for (int i = 0; i < ROWS; i++) {
        float *to = t->sums + i * WIDTH;
        if (!t->is_first) {
            sum[i][0] += LOAD(to);
            sum[i][1] += LOAD(to + LANES);
        }
        STORE(to, sum[i][0]);
        STORE(to + LANES, sum[i][1]);
    }
}

/* ---- panels ---- */

/* Rows that lie side by side: `vectors` of them a place, `width` floats. A vector that reaches over
 * a place is written before the next place. */
INLINE void copy_places(const dn_product_pack *p, float *to, const int vectors, const int width)
{
    const uint32_t bits[2] = {mask_of(p->count), mask_of(p->count - LANES)};
    const float *from = p->from;
    for (int64_t i = 0; i < p->n; i++, from += p->place_step, to += width) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            STORE(to + v * LANES, LOAD_BITS(from + v * LANES, bits[v]));
        }
    }
}

/* `count` rows, of which each has its places side by side, to a vector of each of n places. */
INLINE void turn_block(const float *from, int64_t row_step, int64_t count, int64_t n,
                       block_vec a[LANES])
{
    const uint32_t bits = mask_of(n);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        a[i] = i < count ? (block_vec)LOAD_BITS(from + i * row_step, bits) : (block_vec){0};
    }
    transpose_block(a);
}

INLINE void turn_rows(const dn_product_pack *p, float *to, const int vectors, const int width)
{
    block_vec a[LANES];
    for (int64_t i = 0; i < p->n; i += LANES, to += LANES * width) {
        const int64_t n = p->n - i < LANES ? p->n - i : LANES;
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            turn_block(p->from + i + v * LANES * p->row_step, p->row_step, p->count - v * LANES, n,
                       a);
            for (int64_t k = 0; k < n; k++) {
                STORE(to + k * width + v * LANES, (vec)a[k]);
            }
        }
    }
}

static void pack_rows(const dn_product_pack *p, float *to)
{
    if (p->row_step == 1) {
        copy_places(p, to, 1, ROWS);
    } else {
        turn_rows(p, to, 1, ROWS);
    }
}

static void pack_columns(const dn_product_pack *p, float *to)
{
    if (p->row_step == 1) {
        copy_places(p, to, 2, WIDTH);
    } else {
        turn_rows(p, to, 2, WIDTH);
    }
}

const dn_product_isa *ISA(void)
{
    static const dn_product_isa isa = {.rows = ROWS,
                                       .columns = WIDTH,
                                       .depth = DEPTH,
                                       .run = run,
                                       .pack_rows = pack_rows,
                                       .pack_columns = pack_columns};
    return &isa;
}
