/* The inner loops for f32 with vectors of 64 bytes. A panel has one vector of columns (then all but
 * the tile is AVX2's, dn_tiles_256.c), or two where there are features enough. Each product takes
 * its element of x from memory, spread over the lanes: with two vectors one load serves two. */
#include "dn_tiles.h"

#if defined(__x86_64__)
#pragma GCC target("avx512f")
#include "dn_lanes_512.h"

#define ROWS 14
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

#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
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
#define TILE_OF(rows) tile_##rows,
    static void (*const all[ROWS])(const dn_tile *) = {EACH_ROWS(TILE_OF)};
#undef TILE_OF
    all[rows - 1](t);
}

static void run_wide(const dn_tile *t, int64_t rows)
{
#define WIDE_OF(rows) wide_##rows,
    static void (*const all[ROWS])(const dn_tile *) = {EACH_ROWS(WIDE_OF)};
#undef WIDE_OF
    all[rows - 1](t);
}

/* ---- the epilogue of two vectors a row ---- */

static void turn_sums(const int32_t *sums, float *to)
{
    turn_two_squares(sums, to);
}

/* Vectors are done in lots of `n` that stay in registers from the sums to the output; `n` and
 * is_across are constants where these are inlined. Place in the output of vector i. */
INLINE int64_t place_of(const dn_finish *f, int64_t i, const int is_across)
{
    return is_across ? f->out + i / 2 * f->step + i % 2 * LANES : f->out + i * f->step;
}

/* What the epilogue's row has for vector i. */
INLINE __m512 operand(const dn_finish *f, const st_epilogue *e, const float *buffer, int64_t i,
                      const int is_across)
{
    const __mmask16 mask = f->mask[i % 2];
    if (e->kind == ST_EPILOGUE_TIMES_ONE) {
        return _mm512_set1_ps(buffer[0]);
    }
    if (e->kind == ST_EPILOGUE_ADD) {
        return _mm512_maskz_loadu_ps(mask, buffer + place_of(f, i, is_across));
    }
    return is_across ? _mm512_maskz_loadu_ps(mask, buffer + f->feature + i % 2 * LANES)
                     : _mm512_set1_ps(buffer[f->feature + i]);
}

/* With the value second, maxps and minps keep its NaN. */
INLINE __m512 with_number(const st_epilogue *e, __m512 v)
{
    const __m512 value = _mm512_set1_ps((float)e->value);
    switch (e->kind) {
    case ST_EPILOGUE_RELU:
        return _mm512_max_ps(_mm512_setzero_ps(), v);
    case ST_EPILOGUE_SCALE:
        return _mm512_mul_ps(v, value);
    case ST_EPILOGUE_DIVIDE:
        return _mm512_div_ps(v, value);
    case ST_EPILOGUE_ROUND:
        return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    case ST_EPILOGUE_OFFSET:
        return _mm512_add_ps(v, value);
    default: /* CLIP */
        return _mm512_min_ps(_mm512_set1_ps((float)e->value2), _mm512_max_ps(value, v));
    }
}

INLINE void apply_row(const dn_finish *f, uint32_t place, int64_t i, __m512 *v, const int n,
                      const int is_across)
{
    const st_epilogue *e = &f->form->epilogue[place];
    const int has_buffer = st_epilogue_has_buffer(e->kind);
    const int is_factor = e->kind == ST_EPILOGUE_TIMES || e->kind == ST_EPILOGUE_TIMES_ONE;
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        if (!has_buffer) {
            v[k] = with_number(e, v[k]);
            continue;
        }
        const __m512 o = operand(f, e, f->at[DN_POST + place], i + k, is_across);
        v[k] = is_factor ? _mm512_mul_ps(v[k], o) : _mm512_add_ps(v[k], o);
    }
}

INLINE void finish_lot(const dn_finish *f, int64_t i, const int n, const int is_across)
{
    __m512 v[DN_TILE_LOT];
    float *out = f->at[DN_OUT];
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        v[k] = _mm512_loadu_ps(f->sums + (i + k) * LANES);
    }
    for (uint32_t place = f->first_row; place < f->form->n_epilogue; place++) {
        apply_row(f, place, i, v, n, is_across);
    }
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        _mm512_mask_storeu_ps(out + place_of(f, i + k, is_across), f->mask[(i + k) % 2], v[k]);
    }
}

INLINE void finish_all(const dn_finish *f, const int is_across)
{
    int64_t i = 0;
    for (; i + DN_TILE_LOT <= f->n; i += DN_TILE_LOT) {
        finish_lot(f, i, DN_TILE_LOT, is_across);
    }
    for (; i < f->n; i++) {
        finish_lot(f, i, 1, is_across);
    }
}

static void finish(const dn_finish *f)
{
    if (f->is_across) {
        finish_all(f, 1);
    } else {
        finish_all(f, 0);
    }
}

const dn_tiles_isa *dn_tiles_wide_512(void)
{
    static const dn_tiles_isa wide = {.rows = ROWS,
                                      .lanes = LANES,
                                      .size = 4,
                                      .run = run_wide,
                                      .regroup = dn_regroup_floats_256,
                                      .turn_sums = turn_sums,
                                      .finish = finish};
    return dn_tiles_floats_512() ? &wide : NULL;
}

#else

const dn_tiles_isa *dn_tiles_wide_512(void)
{
    return NULL;
}
#endif
