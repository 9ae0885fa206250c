/* The inner loops of convolutions plane by plane (dn_planes.h) for one width of vectors. Before:
 * LANES, TILE (vectors of a line whose sums the registers hold with those of another line, 6 or 8)
 * EVEN (the even elements of two vectors), LOAD_BITS and STORE_BITS (the lanes that bits say;
 * others are loaded as 0) and ISA (a function that gives the table) are defined.
 *
 * Up to TILE vectors of a line are summed at a time, a weight for all of them, and where the window
 * goes on line by line two lines together, which meet most lines of the image both: the loads are
 * what takes time. The last vector of a line that is no multiple of LANES begins so much earlier,
 * and what it shares with the one before is made and stored twice. */
#include "plugins/cpu-llvm/kernels/dn_planes.h"
#include "plugins/cpu-llvm/kernels/dn_vec.h"

#define ROWS 2
#define SHORT_ROWS 4 /* lines shorter than a vector */
#define LINE 64      /* bytes, of a cache */

/* Bits of lanes begin to end - 1. */
INLINE uint32_t bits_of(int64_t begin, int64_t end)
{
    const uint32_t all = (1u << LANES) - 1u;
    const uint32_t below_end = end >= LANES ? all : end > 0 ? (1u << end) - 1u : 0;
    const uint32_t below_begin = begin >= LANES ? all : begin > 0 ? (1u << begin) - 1u : 0;
    return below_end & ~below_begin;
}

/* Some vectors of a line: vector k begins k * LANES pixels behind the first, but for the last one,
 * which begins at `last`, and has `count` pixels. */
typedef struct run_of {
    int64_t last, count;
    const float *x; /* the float that place 0 of the window meets first */
    int64_t out;    /* place of the first pixel in the output */
} run_of;

INLINE int64_t at_vector(const run_of *of, int k, const int n)
{
    return k + 1 < n ? k * LANES : of->last;
}

/* Vector k of `n` at a line. */
INLINE vec load_some(const float *line, const run_of *of, int k, const int n)
{
    if (k + 1 < n || of->count == LANES) {
        return load(line + at_vector(of, k, n));
    }
    return (vec)LOAD_BITS(line + of->last, bits_of(0, of->count));
}

INLINE void store_some(float *line, const run_of *of, vec v, int k, const int n)
{
    if (k + 1 < n || of->count == LANES) {
        memcpy(line + at_vector(of, k, n), &v, sizeof v);
    } else {
        STORE_BITS(line + of->last, bits_of(0, of->count), v);
    }
}

/* Vectors of some lines. */
typedef vec sums[][TILE];

/* ---- what comes after the sums ---- */

/* One row of the epilogue. A bound is not chosen over NaN. */
INLINE void apply(const dn_plane *p, uint32_t place, const run_of *of, sums v, const int rows,
                  const int n)
{
    const st_epilogue *e = &p->op->contraction.epilogue[place];
    const float *buffer = p->at[DN_POST + place];
    const vec value = splat((float)e->value);
    const vec value2 = splat((float)e->value2);
#define EACH(expression)                                                                           \
    _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++)                                         \
    {                                                                                              \
        _Pragma("GCC unroll 8") for (int k = 0; k < n; k++)                                        \
        {                                                                                          \
            v[r][k] = expression;                                                                  \
        }                                                                                          \
    }
    switch (e->kind) {
    case ST_EPILOGUE_BIAS:
        EACH(v[r][k] + splat(buffer[p->feature]))
        break;
    case ST_EPILOGUE_ADD:
        EACH(v[r][k] + load_some(buffer + of->out + r * p->out_line, of, k, n))
        break;
    case ST_EPILOGUE_TIMES:
        EACH(v[r][k] * splat(buffer[p->feature]))
        break;
    case ST_EPILOGUE_TIMES_ONE:
        EACH(v[r][k] * splat(buffer[0]))
        break;
    case ST_EPILOGUE_SCALE:
        EACH(v[r][k] * value)
        break;
    case ST_EPILOGUE_OFFSET:
        EACH(v[r][k] + value)
        break;
    case ST_EPILOGUE_RELU:
        EACH(choose(v[r][k] < 0.0f, (vec){0}, v[r][k]))
        break;
    default: /* CLIP */
        EACH(choose(v[r][k] < value, value, v[r][k]))
        EACH(choose(v[r][k] > value2, value2, v[r][k]))
        break;
    }
#undef EACH
}

/* ---- sums ---- */

/* Adds what places range[0] to range[1] - 1 meet to the rows of sums that `which` has a bit for;
 * row r meets it with the weight of r lines before. `which` and n are constants where this is
 * inlined. */
INLINE void add(const dn_plane *p, const run_of *of, const int64_t range[2], sums sum,
                const int which, const int n)
{
    for (int64_t i = range[0]; i < range[1]; i++) {
        const float *from = of->x + p->offset[i];
        vec weight[ROWS];
#pragma GCC unroll 2
        for (int r = 0; r < ROWS; r++) {
            if (which >> r & 1) {
                weight[r] = splat(p->weights[i - r * p->shift]);
            }
        }
#pragma GCC unroll 8
        for (int k = 0; k < n; k++) {
            vec met = load(from + at_vector(of, k, n));
            KEEP(met); /* loaded once for all rows */
#pragma GCC unroll 2
            for (int r = 0; r < ROWS; r++) {
                if (which >> r & 1) {
                    sum[r][k] += met * weight[r];
                }
            }
        }
    }
}

/* The sums of `n` vectors of `rows` lines, to the output. */
INLINE void finish(const dn_plane *p, const run_of *of, sums sum, const int rows, const int n)
{
    for (uint32_t i = 0; i < p->op->contraction.n_epilogue; i++) {
        apply(p, i, of, sum, rows, n);
    }
    float *to = (float *)p->at[DN_OUT] + of->out;
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
        for (int k = 0; k < n; k++) {
            store_some(to + r * p->out_line, of, sum[r][k], k, n);
        }
    }
}

/* `n` vectors of `rows` lines. */
INLINE void sum_tile(const dn_plane *p, const run_of *of, const int rows, const int n)
{
    const int64_t all[2] = {0, p->places};
    const int64_t first[2] = {0, p->shift};
    const int64_t shared[2] = {p->shift, p->places};
    const int64_t last[2] = {p->places, p->places + p->shift};
    vec sum[ROWS][TILE] = {{{0}}};
    if (rows == 1) {
        add(p, of, all, sum, 1, n);
    } else {
        add(p, of, first, sum, 1, n);
        add(p, of, shared, sum, 3, n);
        add(p, of, last, sum, 2, n);
    }
    finish(p, of, sum, rows, n);
}

/* The run from pixel `at` of the line on. */
INLINE run_of run_at(const dn_plane *p, int64_t line, int64_t at, int64_t last, int64_t count)
{
    return (run_of){last, count, p->x + line * p->line + at, p->out + line * p->out_line + at};
}

#define SUM(rows, n)                                                                               \
    static __attribute__((noinline)) void sum_##rows##_##n(const dn_plane *p, int64_t line,        \
                                                           int64_t at, int64_t last)               \
    {                                                                                              \
        const run_of of = run_at(p, line, at, last, LANES);                                        \
        sum_tile(p, &of, rows, n);                                                                 \
    }
#define SUM_ROWS(n) SUM(1, n) SUM(2, n)
SUM_ROWS(1)
SUM_ROWS(2)
SUM_ROWS(3)
SUM_ROWS(4)
SUM_ROWS(5)
SUM_ROWS(6)
#if TILE == 8
SUM_ROWS(7)
SUM_ROWS(8)
#endif
#undef SUM_ROWS
#undef SUM

/* `rows` lines, SHORT_ROWS at most, each shorter than a vector. */
INLINE void sum_short(const dn_plane *p, int64_t line, const int rows)
{
    const run_of of = run_at(p, line, 0, 0, p->width);
    vec sum[SHORT_ROWS][TILE] = {{{0}}};
    for (int64_t i = 0; i < p->places; i++) {
        const vec weight = splat(p->weights[i]);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            sum[r][0] += load(of.x + r * p->line + p->offset[i]) * weight;
        }
    }
    finish(p, &of, sum, rows, 1);
}

#define SHORT(rows)                                                                                \
    static __attribute__((noinline)) void sum_short_##rows(const dn_plane *p, int64_t line)        \
    {                                                                                              \
        sum_short(p, line, rows);                                                                  \
    }
SHORT(1)
SHORT(2)
SHORT(3)
SHORT(4)
#undef SHORT

typedef void (*sum_fn)(const dn_plane *p, int64_t line, int64_t at, int64_t last);

/* Asks for what the next block meets, and for what these lines are written over. */
INLINE void ask(const dn_plane *p, int64_t line)
{
    const char *x = (const char *)p->ask + line * p->ask_bytes;
    const char *out =
        (const char *)((const float *)p->at[DN_OUT] + p->out + (line + ROWS) * p->out_line);
    for (int64_t i = 0; i < p->ask_bytes; i += LINE) {
        __builtin_prefetch(x + i, 0, 2);
    }
    for (int64_t i = 0; i < p->width * (int64_t)sizeof(float); i += LINE) {
        __builtin_prefetch(out + i, 1, 3);
    }
}

static void run(const dn_plane *p)
{
#define EACH(n)                                                                                    \
    {                                                                                              \
        sum_1_##n, sum_2_##n                                                                       \
    }
    static const sum_fn all[TILE][ROWS] = {
        EACH(1),
        EACH(2),
        EACH(3),
        EACH(4),
        EACH(5),
        EACH(6),
#if TILE == 8
        EACH(7),
        EACH(8)
#endif
    };
#undef EACH
    const int64_t vectors = (p->width + LANES - 1) / LANES;
    const int64_t tiles = (vectors + TILE - 1) / TILE;
    for (int64_t line = 0; line < p->lines;) {
        const int64_t rows = p->shift && line + 1 < p->lines ? 2 : 1;
        for (int64_t r = 0; r < rows; r++) {
            ask(p, line + r);
        }
        for (int64_t i = 0; i < tiles; i++) {
            const int64_t at = vectors * i / tiles;
            const int64_t n = vectors * (i + 1) / tiles - at;
            const int64_t begin = at * LANES;
            const int64_t end = p->width < begin + n * LANES ? p->width : begin + n * LANES;
            all[n - 1][rows - 1](p, line, begin, end - LANES - begin);
        }
        line += rows;
    }
}

static void run_short(const dn_plane *p)
{
    static void (*const all[SHORT_ROWS])(const dn_plane *p, int64_t line) = {
        sum_short_1, sum_short_2, sum_short_3, sum_short_4};
    for (int64_t line = 0; line < p->lines; line += SHORT_ROWS) {
        const int64_t left = p->lines - line;
        const int64_t rows = left < SHORT_ROWS ? left : SHORT_ROWS;
        for (int64_t r = 0; r < rows; r++) {
            ask(p, line + r);
        }
        all[rows - 1](p, line);
    }
}

static void run_any(const dn_plane *p)
{
    if (p->width < LANES) {
        run_short(p);
    } else {
        run(p);
    }
}

/* ---- lines into scratch ---- */

static void take_second(const float *from, int64_t n, float *to)
{
    int64_t i = 0;
    for (; i + LANES < n; i += LANES) { /* i + LANES == n would load a float past the line */
        const vec low = load(from + 2 * i);
        const vec high = load(from + 2 * i + LANES);
        const vec v = EVEN(low, high);
        memcpy(to + i, &v, sizeof v);
    }
    for (; i < n; i++) {
        to[i] = from[2 * i];
    }
}

static void pad_lines(const dn_padding *p, float *to)
{
    const float *from = p->from;
    for (int64_t line = 0; line < p->lines; line++, from += p->line, to += p->width) {
        for (int64_t i = 0; i < p->width; i += LANES) {
            const float *at = from + (i - p->begin);
            const vec v = i >= p->begin && i + LANES <= p->end
                              ? load(at)
                              : (vec)LOAD_BITS(at, bits_of(p->begin - i, p->end - i));
            memcpy(to + i, &v, sizeof v);
        }
    }
}

/* ---- channels in lanes ---- */

#include "plugins/cpu-llvm/kernels/dn_blocked_isa.h"

const dn_planes_isa *ISA(void)
{
    static const dn_planes_isa table = {.lanes = LANES,
                                        .run = run_any,
                                        .take_second = take_second,
                                        .pad_lines = pad_lines,
                                        .to_vectors = to_vectors,
                                        .to_rows = to_rows,
                                        .run_block = run_block};
    return &table;
}
