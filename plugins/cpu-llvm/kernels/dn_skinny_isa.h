/* The inner loops of few rows against constant weights for one width of vectors. Before: LANES,
 * WALK_ROWS (rows whose sums the registers hold, 6 or 8), FAR_ROWS, NEAR, FAR and NEAR_ALONE (see
 * `ask`), ORDER (of the panels) and ISA (a function that gives the table) are defined. A panel is
 * two vectors wide.
 *
 * Up to WALK_ROWS rows take a panel in one walk. More take it in two, BLOCK numbers of k at a time:
 * the second walk, of SPLIT_ROWS rows, finds them in the first cache, and the sums of the one lie
 * in memory meanwhile. A product waits for its sum as long as eight others take, so up to
 * SPLIT_ROWS rows have two sums for each column, of even and of odd k. */
#include "plugins/cpu-llvm/kernels/dn_rows_isa.h"
#include "plugins/cpu-llvm/kernels/dn_skinny.h"

#define CACHED_WEIGHTS (1 << 17) /* elements; up to here they stay in a core's cache */
#define FAR_WEIGHTS (1 << 18)    /* elements; from here on they come from memory */
#define SPLIT_ROWS 3
#define BLOCK 64 /* 4 KiB of weights; 32 were as fast, 128 slower */
#define LINE 64  /* bytes, of a cache */

/* ---- a panel ---- */

/* How far weights are: in a core's cache, perhaps (NEARBY), or surely not. */
enum distance { CACHED, NEARBY, AFAR };

typedef vec sums[DN_SKINNY_ROWS][2];

/* Asks for the weights that come NEAR bytes later and, of weights from afar, for those that come
 * FAR bytes later into the second cache: the first waits for too few lines at a time to keep memory
 * busy alone. With less than FAR_ROWS rows it does, the core being so far ahead itself; what comes
 * NEAR_ALONE bytes later is asked for then. */
INLINE void ask(const float *w, const int rows, const enum distance distance)
{
#pragma GCC unroll 2
    for (int i = 0; i < COLUMNS * (int)sizeof *w; i += LINE) {
        if (distance == AFAR && rows >= FAR_ROWS) {
            __builtin_prefetch((const char *)w + FAR + i, 0, 2);
        }
        if (distance != CACHED) {
            __builtin_prefetch((const char *)w + (rows >= FAR_ROWS ? NEAR : NEAR_ALONE) + i, 0, 3);
        }
    }
}

INLINE void add_one(vec (*sum)[2], const float *w, const float *x, int64_t x_row, const int rows)
{
    const vec v[2] = {load(w), load(w + LANES)};
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
        const float one = x[i * x_row];
        sum[i][0] += v[0] * one;
        sum[i][1] += v[1] * one;
    }
}

/* Adds `count` products to the sums of `rows` rows, the first one's numbers at x. `rows` and
 * `distance` are constants where this is inlined. */
INLINE void add(vec (*kept)[2], const dn_skinny *s, const float *w, const float *x, int64_t count,
                const int rows, const enum distance distance)
{
    const int split = rows <= SPLIT_ROWS ? 2 : 1;
    const int64_t x_row = s->s->x.stride[0];
    sums sum;
    int64_t k = 0;
#pragma GCC unroll 8
    for (int i = 0; i < rows * split; i++) {
        sum[i][0] = i < rows ? kept[i][0] : (vec){0};
        sum[i][1] = i < rows ? kept[i][1] : (vec){0};
    }
#pragma GCC unroll 2
    for (; k <= count - split; k += split) {
#pragma GCC unroll 2
        for (int p = 0; p < split; p++, w += COLUMNS) {
            ask(w, rows, distance);
            add_one(sum + p * rows, w, x + k + p, x_row, rows);
        }
    }
    if (split == 2 && k < count) {
        add_one(sum, w, x + k, x_row, rows);
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
        kept[i][0] = split == 2 ? sum[i][0] + sum[rows + i][0] : sum[i][0];
        kept[i][1] = split == 2 ? sum[i][1] + sum[rows + i][1] : sum[i][1];
    }
}

#define ADD(rows, distance)                                                                        \
    static __attribute__((noinline)) void add_##rows##_##distance(                                 \
        vec(*kept)[2], const dn_skinny *s, const float *w, const float *x, int64_t count)          \
    {                                                                                              \
        add(kept, s, w, x, count, rows, distance);                                                 \
    }
#define ADD_ROWS(rows) ADD(rows, CACHED) ADD(rows, NEARBY) ADD(rows, AFAR)
ADD_ROWS(1)
ADD_ROWS(2)
ADD_ROWS(3)
ADD_ROWS(4)
ADD_ROWS(5)
ADD_ROWS(6)
#if WALK_ROWS == 8
ADD_ROWS(7)
ADD_ROWS(8)
#endif
#undef ADD_ROWS
#undef ADD

typedef void (*add_fn)(vec (*kept)[2], const dn_skinny *s, const float *w, const float *x,
                       int64_t count);

static void run(const dn_skinny *s, int64_t begin, int64_t end)
{
#define ROWS(rows)                                                                                 \
    {                                                                                              \
        add_##rows##_CACHED, add_##rows##_NEARBY, add_##rows##_AFAR                                \
    }
    static const add_fn adds[WALK_ROWS][3] = {
        ROWS(1),
        ROWS(2),
        ROWS(3),
        ROWS(4),
        ROWS(5),
        ROWS(6),
#if WALK_ROWS == 8
        ROWS(7),
        ROWS(8)
#endif
    };
#undef ROWS
    const int64_t k_end = s->s->k;
    const int64_t rows = s->s->m;
    const int64_t below = rows > WALK_ROWS ? SPLIT_ROWS : 0; /* rows of the second walk */
    const int64_t block = below ? BLOCK : k_end;
    const float *x = s->at[DN_X];
    const float *x_below = x + (rows - below) * s->s->x.stride[0];
    const enum distance distance = k_end <= CACHED_WEIGHTS / s->s->n ? CACHED
                                   : k_end < FAR_WEIGHTS / s->s->n   ? NEARBY
                                                                     : AFAR;
    const add_fn first = adds[rows - below - 1][distance];
    const rows_out out = {&s->op->contraction, s->s, s->at};
    for (int64_t p = begin; p < end; p++) {
        const float *w = s->w + p * s->panel;
        sums sum = {{{0}}};
        for (int64_t k = 0; k < k_end; k += block, w += block * COLUMNS) {
            const int64_t count = k_end - k < block ? k_end - k : block;
            first(sum, s, w, x + k, count);
            if (below) {
                adds[SPLIT_ROWS - 1][CACHED](sum + rows - below, s, w, x_below + k, count);
            }
        }
        for (int64_t i = 0; i < rows; i++) {
            store(&out, sum[i][0], i, p * COLUMNS);
            store(&out, sum[i][1], i, p * COLUMNS + LANES);
        }
    }
}

const dn_skinny_isa *ISA(void)
{
    static const dn_skinny_isa table = {.columns = COLUMNS, .order = ORDER, .run = run};
    return &table;
}
