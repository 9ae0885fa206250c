/* The inner loops of products against weights of four or eight bits (dn_quant.h) for one width of
 * vectors. Before: LANES, WALK_ROWS (rows whose sums the registers hold beside what makes numbers
 * of a word), TILE_ROWS (the same beside weights of f32), NEAR and FAR (see `ask`), ISA (a function
 * that gives the table) and round_half (to f16 and back) are defined, and look_up where a register
 * holds what each number of four bits stands for.
 *
 * A number of a word becomes f32 without a conversion: its bits, in place, are those of the
 * fraction of a power of two, from which that power and the zero point are subtracted, exactly.
 *
 *     (word & 15 << 4 p) | bits of 2^(23 - 4 p)  =  2^(23 - 4 p) + number
 *
 * Numbers of four bits with one zero point for all are looked up.
 *
 * Up to WALK_ROWS rows meet the numbers as they are made, and each block's sums are multiplied with
 * its scales; more meet a chunk of the panel as f32. */
#include "plugins/cpu-llvm/kernels/dn_quant.h"
#include "plugins/cpu-llvm/kernels/dn_rows_isa.h"

#define LINE 64 /* bytes, of a cache */
#define MANTISSA 23

typedef vec sums[WALK_ROWS][2];
typedef uint32_t uvec __attribute__((vector_size(LANES * 4)));

/* ---- numbers of a word ---- */

/* Places of a word's numbers that are whole in the fraction of a float; those above are shifted
 * down. */
INLINE int places_of(const int bits)
{
    return MANTISSA / bits;
}

/* The number that the zero points of a block subtract at each place. */
typedef struct bases {
    vec at[5][2];
    vec table; /* LOOKED_UP: that alone */
} bases;

INLINE vec load_bytes(const uint8_t *from)
{
    typedef uint8_t bytes __attribute__((vector_size(LANES)));
    bytes v;
    memcpy(&v, from, sizeof v);
    return __builtin_convertvector(__builtin_convertvector(v, ivec), vec);
}

/* The values of numbers of four bits, less the zero point that all share. */
INLINE vec table_of(const dn_quant_order *order)
{
    vec table;
    for (int i = 0; i < LANES; i++) {
        table[i] = (float)i - order->zero;
    }
    return table;
}

INLINE void set_bases(const dn_quant_order *order, const char *head, const int bits, bases *out)
{
    const uint8_t *zeros = (const uint8_t *)head + COLUMNS * sizeof(float);
#pragma GCC unroll 2
    for (int c = 0; c < 2; c++) {
        const vec zero = order->has_zeros ? load_bytes(zeros + c * LANES) : splat(order->zero);
#pragma GCC unroll 5
        for (int p = 0; p < places_of(bits); p++) {
            out->at[p][c] = zero + (float)(1 << (MANTISSA - bits * p));
        }
    }
}

/* How a number of a word is made f32. LOOKED_UP: of four bits, with one zero point for all. */
enum { BITS_4 = 4, BITS_8 = 8, LOOKED_UP = 1 };

INLINE int bits_of(const int kind)
{
    return kind == BITS_8 ? 8 : 4;
}

/* Number j of each word, less the zero point. */
INLINE vec number_of(ivec words, const int j, const int kind, const bases *b, const int c)
{
    const int bits = bits_of(kind);
#ifdef look_up
    if (kind == LOOKED_UP) {
        return look_up(b->table, (uvec)words >> (uint32_t)(bits * j));
    }
#endif
    const int places = places_of(bits);
    const int p = j % places;
    const uint32_t shift = (uint32_t)(j / places * places * bits);
    const int32_t mask = ((1 << bits) - 1) << (bits * p);
    const int32_t power = (127 + MANTISSA - bits * p) << MANTISSA;
    if (shift) {
        words = (ivec)((uvec)words >> shift);
    }
    return (vec)((words & mask) | power) - b->at[p][c];
}

INLINE ivec load_words(const char *from)
{
    ivec v;
    memcpy(&v, from, sizeof v);
    return v;
}

/* Asks for what comes NEAR bytes later, and for what comes FAR bytes later into the second cache:
 * panels are read from front to back. */
INLINE void ask(const char *words)
{
#pragma GCC unroll 2
    for (int i = 0; i < COLUMNS * 4; i += LINE) {
        __builtin_prefetch(words + FAR + i, 0, 2);
        __builtin_prefetch(words + NEAR + i, 0, 3);
    }
}

/* ---- few rows ---- */

/* Numbers of k of some rows of x. */
typedef struct few_rows {
    const float *x;
    int64_t step; /* floats from row to row */
    int rows;     /* a constant where it is used */
    int kind;     /* the kind of a weight's number, a constant too */
} few_rows;

/* A product waits for its sum as long as several others take, so few rows have more sums for each
 * column. */
INLINE int split_of(const few_rows *r)
{
    return r->rows == 1 ? WALK_ROWS / 2 : r->rows <= 3 ? 2 : 1;
}

INLINE int together_of(const few_rows *r)
{
    return DN_QUANT_BITS_A_WORD / bits_of(r->kind);
}

/* Adds the products of the words at `words` with the rows' first numbers. */
INLINE void add_words(vec (*sum)[2], const char *words, const bases *b, const few_rows r)
{
    const int split = split_of(&r);
    const ivec w[2] = {load_words(words), load_words(words + LANES * 4)};
#pragma GCC unroll 8
    for (int j = 0; j < together_of(&r); j++) {
        const vec v[2] = {number_of(w[0], j, r.kind, b, 0), number_of(w[1], j, r.kind, b, 1)};
#pragma GCC unroll 8
        for (int i = 0; i < r.rows; i++) {
            const float one = r.x[i * r.step + j];
            sum[j % split * r.rows + i][0] += v[0] * one;
            sum[j % split * r.rows + i][1] += v[1] * one;
        }
    }
}

/* The sums of `count` numbers of k of one block, times its scales. */
INLINE void add_block(vec (*total)[2], const dn_quant_order *order, const char *head, few_rows r,
                      int64_t count, bases b)
{
    const int split = split_of(&r);
    const int together = together_of(&r);
    const char *words = head + order->head;
    const float *const x = r.x;
    vec sum[8][2];
    if (r.kind != LOOKED_UP) {
        set_bases(order, head, bits_of(r.kind), &b);
    }
#pragma GCC unroll 8
    for (int i = 0; i < r.rows * split; i++) {
        sum[i][0] = (vec){0};
        sum[i][1] = (vec){0};
    }
    int64_t k = 0;
    for (; k + together <= count; k += together, words += COLUMNS * 4) {
        r.x = x + k;
        ask(words);
        add_words(sum, words, &b, r);
    }
    if (k < count) { /* the last word has numbers past the end, which meet zeros */
        float rest[WALK_ROWS * 8] = {0};
        for (int i = 0; i < r.rows; i++) {
            memcpy(rest + i * together, x + i * r.step + k, (size_t)(count - k) * sizeof *x);
        }
        add_words(sum, words, &b, (few_rows){rest, together, r.rows, r.kind});
    }
    const vec scale[2] = {load((const float *)(const void *)head),
                          load((const float *)(const void *)head + LANES)};
#pragma GCC unroll 8
    for (int i = 0; i < r.rows; i++) {
#pragma GCC unroll 4
        for (int p = 1; p < split; p++) {
            sum[i][0] += sum[p * r.rows + i][0];
            sum[i][1] += sum[p * r.rows + i][1];
        }
        total[i][0] += sum[i][0] * scale[0];
        total[i][1] += sum[i][1] * scale[1];
    }
}

INLINE void few(const dn_quant_part *part, vec (*total)[2], const int rows, const int kind)
{
    const dn_quant_order *order = &part->q->order;
    const int64_t x_row = part->q->s->x.stride[0];
    const float *x = (const float *)part->q->at[DN_X] + part->row * x_row;
    const char *head = part->panel;
    bases b = {0};
    if (kind == LOOKED_UP) {
        b.table = table_of(order);
    }
    for (int64_t k = 0; k < order->k; k += order->block) {
        const int64_t count = order->k - k < order->block ? order->k - k : order->block;
        add_block(total, order, head, (few_rows){x + k, x_row, rows, kind}, count, b);
        head += order->head + (count + order->together - 1) / order->together * COLUMNS * 4;
    }
}

#ifdef look_up
#define FEW_LOOKED_UP(rows)                                                                        \
    static __attribute__((noinline)) void few_looked_up_##rows(const dn_quant_part *part,          \
                                                               vec(*total)[2])                     \
    {                                                                                              \
        few(part, total, rows, LOOKED_UP);                                                         \
    }
#else
#define FEW_LOOKED_UP(rows)
#endif
#define FEW(rows)                                                                                  \
    FEW_LOOKED_UP(rows)                                                                            \
    static __attribute__((noinline)) void few_4_##rows(const dn_quant_part *part, vec(*total)[2])  \
    {                                                                                              \
        few(part, total, rows, BITS_4);                                                            \
    }                                                                                              \
    static __attribute__((noinline)) void few_8_##rows(const dn_quant_part *part, vec(*total)[2])  \
    {                                                                                              \
        few(part, total, rows, BITS_8);                                                            \
    }
FEW(1)
FEW(2)
FEW(3)
FEW(4)
#if WALK_ROWS == 8
FEW(5)
FEW(6)
FEW(7)
FEW(8)
#endif
#undef FEW
#undef FEW_LOOKED_UP

typedef void (*few_fn)(const dn_quant_part *part, vec (*total)[2]);

#if WALK_ROWS == 8
#define ALL_FEW(X)                                                                                 \
    {                                                                                              \
        X##1, X##2, X##3, X##4, X##5, X##6, X##7, X##8                                             \
    }
#else
#define ALL_FEW(X)                                                                                 \
    {                                                                                              \
        X##1, X##2, X##3, X##4                                                                     \
    }
#endif

/* The loop is chosen by the number of rows. */
static const few_fn *few_of(const dn_quant_order *order)
{
    static const few_fn of_4[WALK_ROWS] = ALL_FEW(few_4_);
    static const few_fn of_8[WALK_ROWS] = ALL_FEW(few_8_);
#ifdef look_up
    static const few_fn looked_up[WALK_ROWS] = ALL_FEW(few_looked_up_);
    if (order->bits == 4 && !order->has_zeros) {
        return looked_up;
    }
#endif
    return order->bits == 4 ? of_4 : of_8;
}
#undef ALL_FEW

static void run_few(const dn_quant_part *part)
{
    const rows_out out = {&part->q->op->contraction, part->q->s, part->q->at};
    sums total = {{{0}}};
    few_of(&part->q->order)[part->rows - 1](part, total);
    for (int64_t i = 0; i < part->rows; i++) {
        store(&out, total[i][0], part->row + i, part->column);
        store(&out, total[i][1], part->row + i, part->column + LANES);
    }
}

/* ---- a chunk of f32 ---- */

INLINE vec rounded(vec v, uint32_t dtype)
{
    if (dtype == STATOR_F16) {
        return round_half(v);
    }
    if (dtype == STATOR_BF16) { /* the nearest, ties to even */
        const uvec bits = (uvec)v;
        return (vec)((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u);
    }
    return v;
}

/* Words of a block to rows of f32, times the scales. `kind` is BITS_4 or BITS_8. */
INLINE void widen_words(const dn_quant_order *order, const char *head, const char *words,
                        int64_t n_words, float *to, const int bits)
{
    const int together = DN_QUANT_BITS_A_WORD / bits;
    const vec scale[2] = {load((const float *)(const void *)head),
                          load((const float *)(const void *)head + LANES)};
    bases b;
    set_bases(order, head, bits, &b);
    for (int64_t i = 0; i < n_words; i++, words += COLUMNS * 4) {
        const ivec w[2] = {load_words(words), load_words(words + LANES * 4)};
        ask(words);
#pragma GCC unroll 8
        for (int j = 0; j < together; j++, to += COLUMNS) {
#pragma GCC unroll 2
            for (int c = 0; c < 2; c++) {
                vec v = number_of(w[c], j, bits, &b, c) * scale[c];
                v = order->dtype == STATOR_F32 ? v : rounded(v, order->dtype);
                memcpy(to + c * LANES, &v, sizeof v);
            }
        }
    }
}

/* The begin of a panel's next chunk. */
typedef struct place {
    const char *head; /* the chunk's block */
    int64_t k;        /* numbers of k before the chunk in its block: whole words */
    int64_t left;     /* numbers of k left in the panel */
} place;

/* Makes the next numbers of k f32, rows of COLUMNS: up to DN_QUANT_CHUNK. Returns how many. */
static int64_t widen(const dn_quant_order *order, place *at, float *to)
{
    int64_t made = 0;
    while (made < DN_QUANT_CHUNK && at->left > 0) {
        const int64_t before = at->left + at->k; /* numbers of the block and what follows */
        const int64_t size = before < order->block ? before : order->block;
        int64_t n = size - at->k;
        n = n < DN_QUANT_CHUNK - made ? n : DN_QUANT_CHUNK - made;
        const int64_t words = (n + order->together - 1) / order->together;
        const char *from = at->head + order->head + at->k / order->together * COLUMNS * 4;
        if (order->bits == 4) {
            widen_words(order, at->head, from, words, to + made * COLUMNS, 4);
        } else {
            widen_words(order, at->head, from, words, to + made * COLUMNS, 8);
        }
        made += n;
        at->k += n;
        at->left -= n;
        if (at->k == size) {
            at->head = from + words * COLUMNS * 4;
            at->k = 0;
        }
    }
    return made;
}

/* Adds the products of `count` numbers of k to the sums of `rows` rows. */
INLINE void add_tile(float *sums_, const float *w, const float *x, int64_t x_row, int64_t count,
                     const int rows)
{
    vec sum[TILE_ROWS][2];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        sum[i][0] = load(sums_ + i * COLUMNS);
        sum[i][1] = load(sums_ + i * COLUMNS + LANES);
    }
    for (int64_t k = 0; k < count; k++, w += COLUMNS) {
        const vec v[2] = {load(w), load(w + LANES)};
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const float one = x[i * x_row + k];
            sum[i][0] += v[0] * one;
            sum[i][1] += v[1] * one;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        memcpy(sums_ + i * COLUMNS, &sum[i][0], sizeof sum[i][0]);
        memcpy(sums_ + i * COLUMNS + LANES, &sum[i][1], sizeof sum[i][1]);
    }
}

#define TILE(rows)                                                                                 \
    static __attribute__((noinline)) void tile_##rows(                                             \
        float *sums_, const float *w, const float *x, int64_t x_row, int64_t count)                \
    {                                                                                              \
        add_tile(sums_, w, x, x_row, count, rows);                                                 \
    }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)
#if TILE_ROWS == 14
TILE(7)
TILE(8)
TILE(9)
TILE(10)
TILE(11)
TILE(12)
TILE(13)
TILE(14)
#endif
#undef TILE

typedef void (*tile_fn)(float *sums_, const float *w, const float *x, int64_t x_row, int64_t count);

static const tile_fn tiles[TILE_ROWS] = {tile_1,  tile_2, tile_3, tile_4,  tile_5,  tile_6,
#if TILE_ROWS == 14
                                         tile_7,  tile_8, tile_9, tile_10, tile_11, tile_12,
                                         tile_13, tile_14
#endif
};

/* Rounded up to whole words of a chunk. */
#define CHUNK_FLOATS ((DN_QUANT_CHUNK + 8) * COLUMNS)

static void run_many(const dn_quant_part *part)
{
    const dn_quant_order *order = &part->q->order;
    const rows_out out = {&part->q->op->contraction, part->q->s, part->q->at};
    const int64_t x_row = part->q->s->x.stride[0];
    const float *x = (const float *)part->q->at[DN_X] + part->row * x_row;
    const int64_t n = (part->rows + TILE_ROWS - 1) / TILE_ROWS;
    float *chunk = part->scratch;
    float *sum = chunk + CHUNK_FLOATS;
    place at = {.head = part->panel, .left = order->k};
    memset(sum, 0, (size_t)(part->rows * COLUMNS) * sizeof *sum);
    for (int64_t k = 0; k < order->k;) {
        const int64_t count = widen(order, &at, chunk);
        for (int64_t i = 0; i < n; i++) {
            const int64_t first = part->rows * i / n;
            const int64_t end = part->rows * (i + 1) / n;
            tiles[end - first - 1](sum + first * COLUMNS, chunk, x + first * x_row + k, x_row,
                                   count);
        }
        k += count;
    }
    for (int64_t i = 0; i < part->rows; i++) {
        store(&out, load(sum + i * COLUMNS), part->row + i, part->column);
        store(&out, load(sum + i * COLUMNS + LANES), part->row + i, part->column + LANES);
    }
}

static void run(const dn_quant_part *part)
{
    if (part->rows <= WALK_ROWS && part->q->order.dtype == STATOR_F32) {
        run_few(part);
    } else {
        run_many(part);
    }
}

static int64_t scratch_floats(int64_t rows)
{
    return CHUNK_FLOATS + rows * COLUMNS;
}

const dn_quant_isa *ISA(void)
{
    static const dn_quant_isa table = {
        .columns = COLUMNS, .scratch_floats = scratch_floats, .run = run};
    return &table;
}
