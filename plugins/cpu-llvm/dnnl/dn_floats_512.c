/* Sums of products of f32 with vectors of 64 bytes, which hold the columns of a panel of
 * dn_tiles_256.c: one vector a row, so that twice the rows keep both multipliers busy. Each product
 * takes its element of x from memory, spread over the lanes. */
#include "dn_tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>

#pragma GCC target("avx512f")
#define INLINE static inline __attribute__((always_inline))
#define ROWS 14
#define BASES ((ROWS + 2) / 3) /* a row is a base and no, one or two steps from row to row */
#define COLUMNS 16

/* `rows` is a constant where these are inlined. */
INLINE void add_products(const char *const at[BASES], int64_t row, const char *weights, __m512 *sum,
                         const int rows)
{
    const __m512 w = _mm512_loadu_ps(weights);
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        float x;
        memcpy(&x, at[i / 3] + i % 3 * row, sizeof x);
        sum[i] = _mm512_fmadd_ps(_mm512_set1_ps(x), w, sum[i]);
    }
}

INLINE void tile(const dn_tile *t, const int rows)
{
    __m512 sum[ROWS];
    const char *weights = t->weights;
    const char *ask = t->ask;
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        sum[i] = _mm512_setzero_ps();
    }
    for (int64_t place = 0; place < t->lines * t->pixels; place++) {
        const char *x = t->x + place / t->pixels * t->line + place % t->pixels * t->pixel;
        const char *at[BASES];
#pragma GCC unroll 5
        for (int i = 0; i < (rows + 2) / 3; i++) {
            at[i] = x + 3 * i * t->row;
        }
        for (int64_t g = 0; g < t->length; g++) {
            if (g % DN_TILE_ASK == 0) {
                _mm_prefetch(ask, _MM_HINT_T1);
                ask += t->ask_step;
            }
            add_products(at, t->row, weights, sum, rows);
            weights += COLUMNS * (int)sizeof(float);
#pragma GCC unroll 5
            for (int i = 0; i < (rows + 2) / 3; i++) {
                at[i] += sizeof(float);
                __asm__("" : "+r"(at[i])); /* else each row gets a register of its own */
            }
        }
    }
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        _mm512_store_ps(t->sums + i * t->step, sum[i]);
    }
}

#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define ROWS_TILE(rows)                                                                            \
    static void tile_##rows(const dn_tile *t)                                                      \
    {                                                                                              \
        tile(t, rows);                                                                             \
    }
EACH_ROWS(ROWS_TILE)
#undef ROWS_TILE
_Static_assert(ROWS == DN_FLOATS_ROWS, "a tile of each height");

void dn_run_floats_512(const dn_tile *t, int64_t rows)
{
#define TILE_OF(rows) tile_##rows,
    static void (*const all[ROWS])(const dn_tile *) = {EACH_ROWS(TILE_OF)};
#undef TILE_OF
    all[rows - 1](t);
}
#endif
