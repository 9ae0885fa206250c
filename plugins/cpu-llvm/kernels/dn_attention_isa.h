/* The inner loops of attention for one width of vectors. Before: LANES, ROWS (of a tile), TURNED
 * (rows of one whose `a` is turned) and ISA (a function that gives the table) are defined. The
 * sums of a tile are ROWS * COLUMNS / LANES registers; those of a tall one, if TALL is defined,
 * TALL (a multiple of 3) times 2. With OWN_STEPS there are SIDE, transpose, total, most_of,
 * larger and exp_of as well. */
#include "plugins/cpu-llvm/kernels/dn_attention.h"
#include "plugins/cpu-llvm/kernels/dn_vec.h"

#include <math.h>

#define VECTORS (DN_ATTENTION_COLUMNS / LANES) /* vectors in a row of a panel */
#define SOFTENED 2                             /* rows interleaved */
#define EXP_MIN -87.33654f                     /* e^x is a normal number from here on */

INLINE void store(float *to, vec v)
{
    memcpy(to, &v, sizeof v);
}

#ifndef OWN_STEPS /* else the file that includes this has them */

/* ---- keys to panels ---- */

#define SIDE 4

typedef float four __attribute__((vector_size(16)));

static void transpose(float *to, const float *from, int64_t step)
{
    four r[4];
    for (int i = 0; i < 4; i++) {
        memcpy(&r[i], from + i * step, sizeof r[i]);
    }
    const four a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
    const four b = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    const four c = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    const four d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    const four out[4] = {
        __builtin_shufflevector(a, c, 0, 1, 4, 5), __builtin_shufflevector(a, c, 2, 3, 6, 7),
        __builtin_shufflevector(b, d, 0, 1, 4, 5), __builtin_shufflevector(b, d, 2, 3, 6, 7)};
    for (int i = 0; i < 4; i++) {
        memcpy(to + i * DN_ATTENTION_COLUMNS, &out[i], sizeof out[i]);
    }
}

INLINE float total(vec v)
{
    float part[LANES];
    memcpy(part, &v, sizeof part);
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int i = 0; i < width; i++) {
            part[i] += part[i + width];
        }
    }
    return part[0];
}

INLINE float most_of(vec v)
{
    float part[LANES];
    memcpy(part, &v, sizeof part);
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int i = 0; i < width; i++) {
            part[i] = part[i] > part[i + width] ? part[i] : part[i + width];
        }
    }
    return part[0];
}

/* a where it is larger, else b. */
INLINE vec larger(vec a, vec b)
{
    return choose(a > b, a, b);
}

/* Of x <= 0 or NaN: n = round(x / ln 2), e^x = 2^n e^r with a polynomial of degree 6; the
 * coefficients are those of codegen/loopir/loop_math.h, ln 2 is split so that n times its first
 * part is exact without fused operations too. At most 1 ulp; below 2^-126 it is 0. Scores far
 * below that (a mask of -1e9) have bits of n that wrap, in unsigned arithmetic, to a product
 * that is not taken. */
INLINE vec exp_of(vec x)
{
    const vec shifted = x * 0x1.715476p+0f + 12582912.0f; /* an integer in the low bits */
    const vec n = shifted - 12582912.0f;
    const vec r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    vec p = splat(0x1.6ac74ep-10f);
    p = p * r + 0x1.123de0p-7f;
    p = p * r + 0x1.555858p-5f;
    p = p * r + 0x1.55548cp-3f;
    p = p * r + 0x1.fffffcp-2f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    p = p * (vec)(((uvec)shifted + (127u - 0x4b400000u)) << 23);
    return choose(x < EXP_MIN, (vec){0}, p);
}

#endif

/* ---- products ---- */

INLINE void tile_of(const dn_tile *from, const int vectors)
{
    const dn_tile t = *from;
    vec sum[ROWS][VECTORS];
    const float *b = t.b;
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++) {
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            sum[i][v] = (vec){0};
        }
    }
    if (t.beta) {
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++) {
                sum[i][v] = load(t.c + i * t.ldc + v * LANES) * t.beta[i];
            }
        }
    }
    for (int64_t p = 0; p < t.k; p++, b += t.ldb) {
        vec row[VECTORS];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            row[v] = load(b + v * LANES);
        }
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            const float x = t.a[i * t.lda + p];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++) {
                sum[i][v] += row[v] * x;
            }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++) {
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            store(t.c + i * t.ldc + v * LANES, sum[i][v]);
        }
    }
}

static void tile(const dn_tile *t)
{
    tile_of(t, VECTORS);
}

static void half(const dn_tile *t)
{
    tile_of(t, VECTORS / 2);
}

#ifdef TALL
/* Half a panel: its two vectors are read once for all rows. */
INLINE void tall_half(const dn_tile *from, const float *b, float *c)
{
    const dn_tile t = *from;
    const float *a[TALL / 3]; /* each for three rows: as many registers as there are */
    vec sum[TALL][2];
#pragma GCC unroll 8
    for (int i = 0; i < TALL; i++) {
        const float beta = t.beta ? t.beta[i] : 0;
        a[i / 3] = t.a + i / 3 * 3 * t.lda;
        sum[i][0] = t.beta ? load(c + i * t.ldc) * beta : (vec){0};
        sum[i][1] = t.beta ? load(c + i * t.ldc + LANES) * beta : (vec){0};
    }
#pragma GCC unroll 4
    for (int64_t p = 0; p < t.k; p++, b += t.ldb) {
        const vec b0 = load(b);
        const vec b1 = load(b + LANES);
#pragma GCC unroll 8
        for (int i = 0; i < TALL; i++) {
            const float x = a[i / 3][i % 3 * t.lda];
            sum[i][0] += b0 * x;
            sum[i][1] += b1 * x;
        }
#pragma GCC unroll 8
        for (int i = 0; i < TALL / 3; i++) {
            a[i]++;
            __asm__("" : "+r"(a[i])); /* else each row gets a register of its own */
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < TALL; i++) {
        store(c + i * t.ldc, sum[i][0]);
        store(c + i * t.ldc + LANES, sum[i][1]);
    }
}

static void tall(const dn_tile *t, int64_t columns)
{
    for (int64_t j = 0; j < columns; j += 2 * LANES) {
        tall_half(t, t->b + j, t->c + j);
    }
}
#endif

/* Rows of `a` are read where they lie: element i of row p is the factor of row i of the sums. */
static void turned(const dn_tile *from)
{
    const dn_tile t = *from;
    for (int j = 0; j < DN_ATTENTION_COLUMNS; j += 2 * LANES) {
        vec sum[TURNED][2];
        const float *a = t.a;
        const float *b = t.b + j;
        float *c = t.c + j;
#pragma GCC unroll 8
        for (int i = 0; i < TURNED; i++) {
            sum[i][0] = load(c + i * t.ldc);
            sum[i][1] = load(c + i * t.ldc + LANES);
        }
        for (int64_t p = 0; p < t.k; p++, a += t.lda, b += t.ldb) {
            const vec b0 = load(b);
            const vec b1 = load(b + LANES);
#pragma GCC unroll 8
            for (int i = 0; i < TURNED; i++) {
                sum[i][0] += b0 * a[i];
                sum[i][1] += b1 * a[i];
            }
        }
#pragma GCC unroll 8
        for (int i = 0; i < TURNED; i++) {
            store(c + i * t.ldc, sum[i][0]);
            store(c + i * t.ldc + LANES, sum[i][1]);
        }
    }
}

static void dots(float *c, const float *a, const float *b, int64_t ldb, int64_t n, int64_t k)
{
    for (int64_t j = 0; j < n; j++, b += ldb) {
        vec sum = {0};
        for (int64_t p = 0; p < k; p += LANES) {
            sum += load(a + p) * load(b + p);
        }
        c[j] = total(sum);
    }
}

/* ---- softmax ---- */

/* s * scale + mask from place j on. */
INLINE vec finished(const dn_soften *row, int64_t j)
{
    const vec x = load(row->x + j) * row->scale;
    if (row->mask == NULL) {
        return x;
    }
    const vec mask = load(row->mask + j);
    return choose(mask == -INFINITY, splat(-INFINITY), x + mask);
}

/* Finishes the scores, those behind the last key -inf; the largest one, or row->max. */
INLINE float finish_scores(const dn_soften *row)
{
    vec most = splat(row->max);
    ivec lane;
    int64_t j = 0;
    for (int32_t i = 0; i < LANES; i++) {
        lane[i] = i;
    }
    for (; j < row->n; j += LANES) {
        vec x = finished(row, j);
        if (row->n - j < LANES) {
            x = choose(lane < (int32_t)(row->n - j), x, splat(-INFINITY));
        }
        store(row->x + j, x);
        most = larger(x, most);
    }
    for (; j < row->padded; j += LANES) {
        store(row->x + j, splat(-INFINITY));
    }
    return most_of(most);
}

/* Interleaved: what one row waits for leaves time for the other's. */
INLINE void soften_some(dn_soften *rows, const int n_rows)
{
    float max[SOFTENED];
    float base[SOFTENED];
    vec sum[SOFTENED];
    for (int r = 0; r < n_rows; r++) {
        max[r] = finish_scores(&rows[r]);
        base[r] = max[r] == -INFINITY ? 0.0f : max[r];
        sum[r] = (vec){0};
    }
    for (int64_t j = 0; j < rows->padded; j += LANES) {
        for (int r = 0; r < n_rows; r++) {
            const vec p = exp_of(load(rows[r].x + j) - base[r]);
            store(rows[r].x + j, p);
            sum[r] += p;
        }
    }
    for (int r = 0; r < n_rows; r++) {
        const bool is_first = rows[r].max == -INFINITY;
        rows[r].before = is_first ? 0.0f : exp_of(splat(rows[r].max - base[r]))[0];
        rows[r].sum = rows[r].sum * rows[r].before + total(sum[r]);
        rows[r].max = max[r];
    }
}

static void soften(dn_soften *rows, int64_t n_rows)
{
    int64_t r = 0;
    for (; r + SOFTENED <= n_rows; r += SOFTENED) {
        soften_some(rows + r, SOFTENED);
    }
    for (; r < n_rows; r++) {
        soften_some(rows + r, 1);
    }
}

static void slope(float *p, float *dp, float sum, float scale, int64_t count)
{
    const float part = 1.0f / sum;
    vec products = {0};
    for (int64_t j = 0; j < count; j += LANES) {
        const vec weight = load(p + j) * part;
        store(p + j, weight);
        products += weight * load(dp + j);
    }
    const float mean = total(products);
    for (int64_t j = 0; j < count; j += LANES) {
        store(dp + j, load(p + j) * (load(dp + j) - mean) * scale);
    }
}

static bool divide(float *to, const float *x, float n, int64_t count)
{
    const float part = 1.0f / n;
    ivec is_nan = {0};
    int any = 0;
    for (int64_t j = 0; j < count; j += LANES) {
        const vec q = load(x + j) * part;
        is_nan |= q != q;
        store(to + j, q);
    }
    for (int i = 0; i < LANES; i++) {
        any |= is_nan[i];
    }
    return any != 0;
}

const dn_attention_isa *ISA(void)
{
    static const dn_attention_isa table = {.rows = ROWS,
                                           .side = SIDE,
                                           .transpose = transpose,
                                           .tile = tile,
                                           .half = half,
#ifdef TALL
                                           .tall_rows = TALL,
                                           .tall = tall,
#endif
                                           .turned_rows = TURNED,
                                           .turned = turned,
                                           .dots = dots,
                                           .divide = divide,
                                           .soften = soften,
                                           .slope = slope};
    return &table;
}
