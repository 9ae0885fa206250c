/* The inner loops for f32 with vectors of 64 bytes. A panel has one vector of columns (then all but
 * the tile is AVX2's, dn_tiles_256.c), or two where there are features enough. Each product takes
 * its element of x from memory, spread over the lanes: with two vectors one load serves two. */
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"

#if defined(__x86_64__)
#pragma GCC target("avx512f")
#include "plugins/cpu-llvm/kernels/dn_lanes_512.h"

#define BASES ((ROWS + 2) / 3) /* a row is a base and no, one or two steps from row to row */

/* ---- a tile ---- */

/* `rows` and `vectors` of a panel are constants where these are inlined. */
INLINE void add_products(const char *const at[BASES], int64_t row, const char *weights,
                         __m512 sum[][2], const int rows, const int vectors)
{
    const __m512 w0 = _mm512_loadu_ps(weights);
    const __m512 w1 = vectors == 2 ? _mm512_loadu_ps(weights + sizeof w0) : w0;
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        float element;
        memcpy(&element, at[i / 3] + i % 3 * row, sizeof element);
        const __m512 x = _mm512_set1_ps(element);
        sum[i][0] = _mm512_fmadd_ps(x, w0, sum[i][0]);
        if (vectors == 2) {
            sum[i][1] = _mm512_fmadd_ps(x, w1, sum[i][1]);
        }
    }
}

INLINE void tile(const dn_tile *t, const int rows, const int vectors)
{
    __m512 sum[ROWS][2];
    const char *weights = t->weights;
    const char *ask = t->ask;
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        sum[i][0] = _mm512_setzero_ps();
        sum[i][1] = _mm512_setzero_ps();
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
            add_products(at, t->row, weights, sum, rows, vectors);
            weights += vectors * (int)sizeof(__m512);
#pragma GCC unroll 5
            for (int i = 0; i < (rows + 2) / 3; i++) {
                at[i] += sizeof(float);
                __asm__("" : "+r"(at[i])); /* else each row gets a register of its own */
            }
        }
    }
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        _mm512_store_ps(t->sums + i * t->step, sum[i][0]);
        if (vectors == 2) {
            _mm512_store_ps(t->sums + i * t->step + LANES, sum[i][1]);
        }
    }
}

#define ROWS_TILE(rows)                                                                            \
    static void tile_##rows(const dn_tile *t)                                                      \
    {                                                                                              \
        tile(t, rows, 1);                                                                          \
    }                                                                                              \
    static void wide_##rows(const dn_tile *t)                                                      \
    {                                                                                              \
        tile(t, rows, 2);                                                                          \
    }
EACH_ROWS(ROWS_TILE)
#undef ROWS_TILE
_Static_assert(ROWS == DN_FLOATS_ROWS, "a tile of each height");

void dn_run_floats_512(const dn_tile *t, int64_t rows)
{
    static void (*const all[ROWS])(const dn_tile *) = TILES_OF_ROWS(tile);
    all[rows - 1](t);
}

static void run_wide(const dn_tile *t, int64_t rows)
{
    static void (*const all[ROWS])(const dn_tile *) = TILES_OF_ROWS(wide);
    all[rows - 1](t);
}

/* ---- the epilogue of two vectors a row ---- */

/* Operands of f32 are all that there are. */
INLINE vec load_some(const void *buffer, uint32_t dtype, int64_t at, uint32_t mask)
{
    (void)dtype;
    return _mm512_maskz_loadu_ps((__mmask16)mask, (const float *)buffer + at);
}

INLINE vec load_one(const void *buffer, uint32_t dtype, int64_t at)
{
    (void)dtype;
    return _mm512_set1_ps(((const float *)buffer)[at]);
}

INLINE vec others(uint32_t kind, vec v)
{
    (void)kind;
    return v;
}

#include "plugins/cpu-llvm/kernels/tiles/dn_finish_isa.h"

INLINE void finish_vectors(const dn_finish *f, int64_t i, const int n, const bool is_across)
{
    const int64_t pitch = is_across ? LANES : f->pitch;
    vec v[DN_FINISH_VECTORS];
    float *out = f->at[DN_OUT];
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        v[k] = _mm512_loadu_ps(f->sums + (i + k) * pitch);
    }
    apply_rows(f, i, v, n, is_across);
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        _mm512_mask_storeu_ps(out + place_of(f, i + k, is_across), f->mask[k % 2], v[k]);
    }
}

const dn_tiles_isa *dn_tiles_wide_512(void)
{
    static const dn_tiles_isa wide = {.rows = ROWS,
                                      .lanes = LANES,
                                      .size = 4,
                                      .run = run_wide,
                                      .regroup = dn_regroup_floats_256,
                                      .copy_panel = dn_copy_panel_256,
                                      .sum_positions = dn_sum_positions_256,
                                      .interleave = dn_interleave_256,
                                      .transpose_sums = transpose_sums,
                                      .finish = finish};
    return dn_tiles_floats_512() ? &wide : NULL;
}
#endif
