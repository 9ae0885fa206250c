/* Attention in one kernel (ST_CONTRACTION_SDPA): the scores of a block of queries and a block of
 * keys lie in scratch, and sums over earlier keys are rescaled as larger scores come.
 *
 *     for a batch, a head of k and v, a part of its queries             concurrent threads
 *       for a block of queries
 *         for a block of keys
 *           k, transposed, and v in panels of 32 columns
 *           scores = q * k
 *           x = exp(scale * scores + mask - max)
 *           sums = before * sums + x * v
 *         out = sums / n
 *
 * Up to KEPT keys, and more that are short, stay in panels for all blocks of queries that a thread
 * has of a head; with more, each block packs them anew. Rows of queries are those of all heads that
 * share k and v. Everything is f32 in between; bf16 and f16 are widened as they are copied. Up to
 * FEW rows are not worth transposing k: they are products of rows. Rows that come out NaN are done
 * again by the definition, in which keys of no weight count nothing. Method: Dao et al.,
 * FlashAttention, 2022; Milakov and Gimelshein, Online normalizer calculation for softmax, 2018. */
#include "plugins/cpu-llvm/kernels/dn_attention.h"
#include "plugins/cpu-llvm/kernels/dn.h"

#include "core/base/convert.h"
#include "core/base/diag.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define ROWS 64  /* queries of a block, a multiple of every tile but tall ones */
#define KEYS 256 /* keys of a block, a multiple of COLUMNS */
#define KEPT 512 /* keys, a multiple of KEYS, that stay in panels */
/* More of them while they take no more than this: 1500 keys of 64 columns took 0.85 of the time. */
#define KEPT_BYTES ((int64_t)1 << 20)
#define KEPT_MAX 2048                /* a multiple of KEYS */
#define FEW 3                        /* rows */
#define DEPTH_MAX ((int64_t)1 << 31) /* elements of a key: no scratch is larger */
#define COLUMNS DN_ATTENTION_COLUMNS
#define HALF (COLUMNS / 2)
#define LINE 64 /* bytes, of a cache */
/* From here on the next head is asked for: 0.68 to 0.95 of the time where q, k and v have 9 MB or
 * more; with fewer rows or bytes that a cache holds up to 1.6 times as long. */
#define AHEAD_ROWS 16
#define AHEAD_BYTES ((double)(4 << 20))
#define TOGETHER 16      /* rows whose scores are finished in one go */
#define PARTS_A_THREAD 4 /* at least, where there are as many blocks */
#define PAGE 4096        /* bytes; rows that far apart fall into one set of the first cache */
#define ALONE_MACS 60000 /* products that one thread has done before two would have met */

/* ---- a call ---- */

typedef struct attention {
    const dn_op *op;
    const dn_attention_isa *isa;
    int64_t batch, heads, groups, queries, keys, depth, width;
    dn_place q, k, v, mask, out; /* mask.base NULL: none */
    float scale;
    bool is_causal;
    int64_t rows;    /* rows that share k and v: heads / groups * queries */
    int64_t blocks;  /* blocks of rows */
    int64_t parts;   /* parts of a group, among which its blocks are divided */
    int64_t kept;    /* keys that stay in panels, a multiple of KEYS */
    bool asks_ahead; /* the next head's rows are prefetched */
    atomic_int is_out_of_memory;
} attention;

/* The next unit of a thread, if it is of another head: its rows are fetched meanwhile. */
typedef struct following {
    int64_t batch, group; /* batch -1: nothing */
    int64_t row, n_rows;  /* rows done meanwhile, of those that share k and v */
} following;

/* Scratch of a thread. */
typedef struct workspace {
    float *q;          /* ROWS x depth */
    float *scores;     /* ROWS x KEYS */
    float *sums;       /* ROWS x width, padded */
    float *k;          /* a block of keys behind the other: panels, depth x COLUMNS each */
    float *v;          /* a block behind the other: panels of the width, KEYS x COLUMNS each */
    float *mask;       /* KEYS */
    int64_t n_k, n_v;  /* keys that are in panels; at most a->kept */
    const float *rows; /* the block's queries: q, or where they lie */
    int64_t step;      /* floats from one query to the next */
    float max[ROWS], n[ROWS], before[ROWS];
    following next;
} workspace;

static int64_t bounded(int64_t depth)
{
    return depth < DEPTH_MAX ? depth : DEPTH_MAX;
}

/* Keys, at most, that stay in panels. */
static int64_t kept_most(int64_t depth, int64_t width)
{
    const int64_t key =
        (bounded(depth) + dn_padded(bounded(width), COLUMNS)) * (int64_t)sizeof(float);
    const int64_t n = key > 0 ? KEPT_BYTES / key / KEYS * KEYS : KEPT;
    return n < KEPT ? KEPT : n < KEPT_MAX ? n : KEPT_MAX;
}

static int64_t kept_of(int64_t keys, int64_t depth, int64_t width)
{
    return keys > 0 && keys <= kept_most(depth, width) ? dn_padded(keys, KEYS) : KEYS;
}

static uint64_t floats_needed(int64_t depth, int64_t width, int64_t kept)
{
    const uint64_t wide = (uint64_t)dn_padded(width, COLUMNS);
    return ((uint64_t)depth + wide) * (ROWS + (uint64_t)kept) + KEYS * (ROWS + 1u) + COLUMNS;
}

static void lay_out(const attention *a, float *at, workspace *b)
{
    const int64_t wide = dn_padded(a->width, COLUMNS);
    b->q = at;
    b->scores = b->q + ROWS * a->depth;
    b->sums = b->scores + ROWS * KEYS;
    b->k = b->sums + ROWS * wide;
    b->v = b->k + a->kept * a->depth;
    b->mask = b->v + a->kept * wide;
}

/* ---- copies ---- */

static int64_t size_of(const dn_place *p)
{
    return (int64_t)st_element_bytes(p->dtype);
}

void dn_attention_widen(float *to, const char *from, uint32_t dtype, int64_t step, int64_t n)
{
    if (step == 1 && dtype == STATOR_F32) {
        memcpy(to, from, (size_t)n * sizeof *to);
        return;
    }
    if (step == 1) {
        st_load_f32_block(dtype, from, 0, n, to);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        to[i] = dtype == STATOR_F32 ? ((const float *)(const void *)from)[i * step]
                                    : (float)st_load_f64(dtype, from, i * step);
    }
}

void dn_attention_turn(const dn_attention_isa *isa, const dn_place *x, const char *from, int64_t n,
                       int64_t depth, float *panel)
{
    const int64_t step = x->strides[2], side = isa->side;
    const bool is_plain = x->dtype == STATOR_F32 && x->strides[3] == 1;
    const int64_t turned = is_plain ? n / side * side : 0;
    const int64_t deep = is_plain ? depth / side * side : 0;
    const float *rows = (const void *)from;
    if (n < COLUMNS) {
        memset(panel, 0, (size_t)(depth * COLUMNS) * sizeof *panel);
    }
    for (int64_t j = 0; j < turned; j += side) {
        for (int64_t d = 0; d < deep; d += side) {
            isa->transpose(panel + d * COLUMNS + j, rows + j * step + d, step);
        }
    }
    for (int64_t d = 0; d < depth; d++) {
        const int64_t done = d < deep ? turned : 0;
        dn_attention_widen(panel + d * COLUMNS + done,
                           from + (d * x->strides[3] + done * step) * size_of(x), x->dtype, step,
                           n - done);
    }
}

/* n keys from `first` on: columns [32 p, 32 p + 32) of v in panel p. */
static void pack_values(const attention *a, int64_t batch, int64_t group, int64_t first, int64_t n,
                        float *panels)
{
    const bool is_plain = a->v.dtype == STATOR_F32 && a->v.strides[3] == 1;
    for (int64_t e = 0; e < a->width; e += COLUMNS, panels += KEYS * COLUMNS) {
        const char *from = dn_element(&a->v, batch, group, first, e);
        if (is_plain && a->width - e >= COLUMNS) {
            for (int64_t s = 0; s < n; s++, from += a->v.strides[2] * (int64_t)sizeof *panels) {
                memcpy(panels + s * COLUMNS, from, COLUMNS * sizeof *panels);
            }
            continue;
        }
        const int64_t columns = a->width - e < COLUMNS ? a->width - e : COLUMNS;
        for (int64_t s = 0; s < n; s++) {
            float *row = panels + s * COLUMNS;
            dn_attention_widen(row, dn_element(&a->v, batch, group, first + s, e), a->v.dtype,
                               a->v.strides[3], columns);
            for (int64_t j = columns; j < COLUMNS; j++) {
                row[j] = 0;
            }
        }
    }
}

/* ---- a block of queries and a block of keys ---- */

typedef struct block {
    int64_t batch, group;
    int64_t row, n_rows; /* rows among those that share k and v */
    int64_t key, n_keys;
} block;

static int64_t head_of(const attention *a, const block *at, int64_t i)
{
    return at->group * (a->heads / a->groups) + (at->row + i) / a->queries;
}

static int64_t query_of(const attention *a, const block *at, int64_t i)
{
    return (at->row + i) % a->queries;
}

/* Queries that whole tiles can read where they lie are not copied. */
static void take_queries(const attention *a, const block *at, int64_t rows, workspace *b)
{
    const int64_t step = a->q.strides[2];
    const bool is_plain = a->q.dtype == STATOR_F32 && a->q.strides[3] == 1 &&
                          step * (int64_t)sizeof *b->q % PAGE != 0;
    if (is_plain && rows == at->n_rows && head_of(a, at, 0) == head_of(a, at, rows - 1)) {
        b->rows =
            (const void *)dn_element(&a->q, at->batch, head_of(a, at, 0), query_of(a, at, 0), 0);
        b->step = step;
        return;
    }
    b->rows = b->q;
    b->step = a->depth;
    memset(b->q + at->n_rows * a->depth, 0,
           (size_t)((rows - at->n_rows) * a->depth) * sizeof *b->q);
    for (int64_t i = 0; i < at->n_rows; i++) {
        dn_attention_widen(b->q + i * a->depth,
                           dn_element(&a->q, at->batch, head_of(a, at, i), query_of(a, at, i), 0),
                           a->q.dtype, a->q.strides[3], a->depth);
    }
}

static void ask_for(const dn_place *p, int64_t i, int64_t j, int64_t k, int64_t n)
{
    const char *row = dn_element(p, i, j, k, 0);
    const int64_t bytes = p->strides[3] == 1 ? n * size_of(p) : 0;
    for (int64_t at = 0; at < bytes; at += LINE) {
        __builtin_prefetch(row + at, 0, 2);
    }
}

/* While row i is made, its part of the next head comes from memory: heads are contiguous, so a
 * row is a few lines that no stream leads to. */
static void ask_for_next(const attention *a, const block *at, int64_t i, const following *next)
{
    const int64_t row = at->row + i - next->row;
    if (next->batch < 0) {
        return;
    }
    const block there = {.group = next->group, .row = row};
    ask_for(&a->q, next->batch, head_of(a, &there, 0), query_of(a, &there, 0), a->depth);
    for (int64_t s = row * a->keys / next->n_rows; s < (row + 1) * a->keys / next->n_rows; s++) {
        ask_for(&a->k, next->batch, next->group, s, a->depth);
        ask_for(&a->v, next->batch, next->group, s, a->width);
    }
}

void dn_attention_mask(float *to, const dn_place *mask, const char *from, int64_t n)
{
    if (mask->dtype != STATOR_BOOL) {
        dn_attention_widen(to, from, mask->dtype, mask->strides[3], n);
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        to[j] = from[j * mask->strides[3]] ? 0.0f : -INFINITY;
    }
}

/* Additions to the scores of row i; they are made in `to` unless they can be read where they lie.
 */
static const float *mask_of(const attention *a, const block *at, int64_t i, float *to)
{
    const dn_place *m = &a->mask;
    const int64_t n = at->n_keys;
    if (m->base == NULL) {
        return NULL;
    }
    const char *from = dn_element(m, at->batch, head_of(a, at, i), query_of(a, at, i), at->key);
    if (m->dtype == STATOR_F32 && m->strides[3] == 1 && n % COLUMNS == 0) {
        return (const void *)from; /* whole vectors of it can be read */
    }
    dn_attention_mask(to, m, from, n);
    return to;
}

static bool is_read_where_it_lies(const attention *a)
{
    return a->k.dtype == STATOR_F32 && a->k.strides[3] == 1 && a->depth % 16 == 0;
}

static bool is_few(const attention *a)
{
    return a->rows <= FEW && is_read_where_it_lies(a);
}

void dn_attention_tiles(const dn_attention_isa *isa, const dn_tile *first, int64_t n_rows,
                        int64_t columns)
{
    const int64_t rows = dn_padded(n_rows, isa->rows);
    dn_tile t = *first;
    int64_t step = 0;
    for (int64_t i = 0; i < rows; i += step) {
        const bool is_tall = isa->tall_rows && i + isa->tall_rows <= rows;
        step = is_tall ? isa->tall_rows : isa->rows;
        t.a = first->a + i * t.lda;
        t.c = first->c + i * t.ldc;
        t.beta = first->beta ? first->beta + i : NULL;
        if (is_tall) {
            isa->tall(&t, columns);
        } else {
            (columns == COLUMNS ? isa->tile : isa->half)(&t);
        }
    }
}

/* The key's place in the panels, if all keys stay there; else each block begins at place 0. */
static int64_t place_of(const attention *a, int64_t key)
{
    return a->keys <= a->kept ? key : 0;
}

static void score(const attention *a, const block *at, workspace *b)
{
    const dn_attention_isa *isa = a->isa;
    if (is_few(a)) {
        const float *k = (const void *)dn_element(&a->k, at->batch, at->group, at->key, 0);
        for (int64_t i = 0; i < at->n_rows; i++) {
            isa->dots(b->scores + i * KEYS, b->rows + i * b->step, k, a->k.strides[2], at->n_keys,
                      a->depth);
        }
        return;
    }
    for (int64_t j = 0; j < at->n_keys; j += COLUMNS) {
        const int64_t n = at->n_keys - j < COLUMNS ? at->n_keys - j : COLUMNS;
        const int64_t first = place_of(a, at->key) + j;
        float *panel = b->k + first * a->depth;
        if (first + n > b->n_k) {
            const char *from = dn_element(&a->k, at->batch, at->group, at->key + j, 0);
            dn_attention_turn(isa, &a->k, from, n, a->depth, panel);
            b->n_k = place_of(a, first + n);
        }
        const dn_tile t = {.c = b->scores + j,
                           .a = b->rows,
                           .lda = b->step,
                           .b = panel,
                           .ldb = COLUMNS,
                           .ldc = KEYS,
                           .k = a->depth};
        dn_attention_tiles(isa, &t, at->n_rows, n <= HALF ? HALF : COLUMNS);
    }
}

/* How many of the block's keys row i attends to. */
static int64_t keys_of(const attention *a, const block *at, int64_t i)
{
    const int64_t causal = query_of(a, at, i) - at->key + 1;
    const int64_t n = a->is_causal && causal < at->n_keys ? causal : at->n_keys;
    return n > 0 ? n : 0;
}

/* Rows i to i + n; each has `mask` added. */
static void soften_rows(const attention *a, const block *at, int64_t i, int64_t n,
                        const float *mask, workspace *b)
{
    dn_soften rows[TOGETHER];
    for (int64_t r = 0; r < n; r++) {
        rows[r] = (dn_soften){.x = b->scores + (i + r) * KEYS,
                              .n = keys_of(a, at, i + r),
                              .padded = dn_padded(at->n_keys, HALF),
                              .scale = a->scale,
                              .mask = mask,
                              .max = b->max[i + r],
                              .sum = b->n[i + r]};
    }
    a->isa->soften(rows, n);
    for (int64_t r = 0; r < n; r++) {
        b->max[i + r] = rows[r].max;
        b->n[i + r] = rows[r].sum;
        b->before[i + r] = rows[r].before;
    }
}

static void soften(const attention *a, const block *at, workspace *b)
{
    const bool is_shared = dn_is_mask_shared(&a->mask);
    const float *mask = NULL;
    for (int64_t i = 0; i < at->n_rows;) {
        const int64_t left = at->n_rows - i;
        const int64_t n = !is_shared ? 1 : left < TOGETHER ? left : TOGETHER;
        if (i == 0 || !is_shared) {
            mask = mask_of(a, at, i, b->mask);
        }
        for (int64_t r = 0; at->key == 0 && r < n; r++) {
            ask_for_next(a, at, i + r, &b->next);
        }
        soften_rows(a, at, i, n, mask, b);
        i += n;
    }
}

static void weigh(const attention *a, const block *at, workspace *b)
{
    const int64_t wide = dn_padded(a->width, COLUMNS);
    const bool is_direct = a->v.dtype == STATOR_F32 && a->v.strides[3] == 1 && wide == a->width &&
                           a->rows <= a->isa->rows;
    const int64_t first = place_of(a, at->key);
    float *panels = b->v + first * wide;
    dn_tile t = {.a = b->scores,
                 .lda = KEYS,
                 .b = panels,
                 .ldb = COLUMNS,
                 .ldc = wide,
                 .k = at->n_keys,
                 .beta = at->key == 0 ? NULL : b->before};
    int64_t panel = (int64_t)KEYS * COLUMNS;
    if (is_direct) {
        t.b = (const void *)dn_element(&a->v, at->batch, at->group, at->key, 0);
        t.ldb = a->v.strides[2];
        panel = COLUMNS;
    } else if (first + at->n_keys > b->n_v) {
        pack_values(a, at->batch, at->group, at->key, at->n_keys, panels);
        b->n_v = place_of(a, first + at->n_keys);
    }
    for (int64_t e = 0; e < wide; e += COLUMNS, t.b += panel) {
        t.c = b->sums + e;
        dn_attention_tiles(a->isa, &t, at->n_rows, COLUMNS);
    }
}

/* ---- a block of queries ---- */

/* Scores of row i with the block's keys, before they are scaled, where those of its tile were. */
static void score_row(const attention *a, const block *at, int64_t i, workspace *b)
{
    const float *q = b->rows + i * b->step;
    float *to = b->scores + i * KEYS;
    if (is_read_where_it_lies(a)) {
        const float *k = (const void *)dn_element(&a->k, at->batch, at->group, at->key, 0);
        a->isa->dots(to, q, k, a->k.strides[2], at->n_keys, a->depth);
        return;
    }
    for (int64_t s = 0; s < at->n_keys; s++) {
        const char *k = dn_element(&a->k, at->batch, at->group, at->key + s, 0);
        float key = 0;
        to[s] = 0;
        for (int64_t d = 0; d < a->depth; d++) {
            dn_attention_widen(&key, k + d * a->k.strides[3] * size_of(&a->k), a->k.dtype, 1, 1);
            to[s] += q[d] * key;
        }
    }
}

/* sums += weight * the values of a key. */
static void add_values(const attention *a, const block *at, int64_t key, float weight, float *sums)
{
    const char *from = dn_element(&a->v, at->batch, at->group, key, 0);
    if (a->v.dtype == STATOR_F32 && a->v.strides[3] == 1) {
        const float *values = (const void *)from;
        for (int64_t e = 0; e < a->width; e++) {
            sums[e] += weight * values[e];
        }
        return;
    }
    for (int64_t e = 0; e < a->width; e++) {
        float value = 0;
        dn_attention_widen(&value, from + e * a->v.strides[3] * size_of(&a->v), a->v.dtype, 1, 1);
        sums[e] += weight * value;
    }
}

/* Row i by the definition: the largest score of all keys, then what it makes of each; keys of no
 * weight count nothing, whatever their values are. */
static void attend_plainly(const attention *a, const block *at, int64_t i, workspace *b)
{
    float *sums = b->sums + i * dn_padded(a->width, COLUMNS);
    block one = *at;
    b->max[i] = -INFINITY;
    memset(sums, 0, (size_t)a->width * sizeof *sums);
    for (int pass = 0; pass < 2; pass++) {
        b->n[i] = 0;
        for (one.key = 0; one.key < a->keys; one.key += KEYS) {
            one.n_keys = a->keys - one.key < KEYS ? a->keys - one.key : KEYS;
            score_row(a, &one, i, b);
            soften_rows(a, &one, i, 1, mask_of(a, &one, i, b->mask), b);
            for (int64_t s = 0; pass == 1 && s < keys_of(a, &one, i); s++) {
                const float weight = b->scores[i * KEYS + s];
                if (weight != 0) {
                    add_values(a, at, one.key + s, weight, sums);
                }
            }
        }
    }
}

static void write_row(const attention *a, const block *at, int64_t i, workspace *b)
{
    float *sums = b->sums + i * dn_padded(a->width, COLUMNS);
    const char *to = dn_element(&a->out, at->batch, head_of(a, at, i), query_of(a, at, i), 0);
    const int64_t step = a->out.strides[3];
    const bool is_direct = a->out.dtype == STATOR_F32 && step == 1 && a->width % COLUMNS == 0;
    float *quotients = is_direct ? (float *)(uintptr_t)to : sums;
    bool is_nan = false;
    for (int pass = 0; pass == 0 || (pass == 1 && is_nan); pass++) {
        if (pass == 1) {
            attend_plainly(a, at, i, b);
        }
        is_nan = a->isa->divide(quotients, sums, b->n[i] == 0 ? 1.0f : b->n[i],
                                dn_padded(a->width, COLUMNS));
    }
    if (is_direct) {
        return;
    }
    if (step == 1) {
        st_store_f32_block(a->out.dtype, (void *)(uintptr_t)to, 0, a->width, sums);
        return;
    }
    for (int64_t e = 0; e < a->width; e++) {
        st_store_f64(a->out.dtype, (void *)(uintptr_t)to, e * step, sums[e]);
    }
}

static void attend(const attention *a, block *at, workspace *b)
{
    const int64_t wide = dn_padded(a->width, COLUMNS);
    const int64_t rows = dn_padded(at->n_rows, a->isa->rows);
    int64_t last = a->keys; /* keys that any row attends to */
    memset(b->scores + at->n_rows * KEYS, 0, (size_t)((rows - at->n_rows) * KEYS) * sizeof *b->q);
    if (last == 0) { /* else the first keys set them */
        memset(b->sums, 0, (size_t)(rows * wide) * sizeof *b->sums);
    }
    for (int64_t i = 0; i < rows; i++) {
        b->max[i] = -INFINITY;
        b->n[i] = 0;
        b->before[i] = 0;
    }
    take_queries(a, at, rows, b);
    if (a->is_causal && a->rows == a->queries && at->row + at->n_rows < last) {
        last = at->row + at->n_rows;
    }
    for (at->key = 0; at->key < last; at->key += KEYS) {
        at->n_keys = last - at->key < KEYS ? last - at->key : KEYS;
        score(a, at, b);
        soften(a, at, b);
        weigh(a, at, b);
    }
    for (int64_t i = 0; i < at->n_rows; i++) {
        write_row(a, at, i, b);
    }
}

/* The unit after this one, if it is of another head. */
static following following_unit(const attention *a, int64_t unit, int64_t end)
{
    const int64_t part = unit % a->parts;
    const int64_t next = unit + 1;
    const int64_t row = part * a->blocks / a->parts * ROWS;
    const int64_t behind = (part + 1) * a->blocks / a->parts * ROWS;
    if (next == end || next % a->parts != 0 || !a->asks_ahead) {
        return (following){.batch = -1};
    }
    return (following){.batch = next / a->parts / a->groups,
                       .group = next / a->parts % a->groups,
                       .row = row,
                       .n_rows = (behind < a->rows ? behind : a->rows) - row};
}

static void attend_range(void *self, int64_t begin, int64_t end)
{
    attention *a = self;
    dn_lib *lib = a->op->lib;
    if (begin == end) {
        return;
    }
    dn_scratch *scratch =
        dn_scratch_take(lib, floats_needed(a->depth, a->width, a->kept) * sizeof(float));
    if (scratch == NULL) {
        atomic_store(&a->is_out_of_memory, 1);
        return;
    }
    workspace b;
    lay_out(a, dn_scratch_data(scratch), &b);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t part = unit % a->parts;
        block at = {.batch = unit / a->parts / a->groups, .group = unit / a->parts % a->groups};
        if (unit == begin || part == 0) { /* else the part before was of the same head */
            b.n_k = b.n_v = 0;
        }
        b.next = following_unit(a, unit, end);
        for (int64_t i = part * a->blocks / a->parts; i < (part + 1) * a->blocks / a->parts; i++) {
            at.row = i * ROWS;
            at.n_rows = a->rows - at.row < ROWS ? a->rows - at.row : ROWS;
            attend(a, &at, &b);
        }
    }
    dn_scratch_give(lib, scratch);
}

/* ---- the op ---- */

const dn_attention_isa *dn_attention_isa_of(const dn_lib *lib)
{
    if (lib->flags & DNNL_VECTORS_16) {
        return dn_attention_128();
    }
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!(lib->flags & DNNL_VECTORS_32) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        return dn_attention_512();
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return dn_attention_256();
    }
#endif
    return dn_attention_128();
}

bool dn_attention_takes(const st_contraction *contraction)
{
    const uint32_t dtype = contraction->x.dtype;
    const uint32_t mask = contraction->sdpa.mask.dtype;
    const bool is_mask_taken = !contraction->sdpa.has_mask || mask == STATOR_BOOL ||
                               mask == STATOR_F32 || mask == STATOR_BF16 || mask == STATOR_F16;
    return (dtype == STATOR_F32 || dtype == STATOR_BF16 || dtype == STATOR_F16) &&
           contraction->y.dtype == dtype && contraction->sdpa.v.dtype == dtype &&
           contraction->out.dtype == dtype && is_mask_taken;
}

uint64_t dn_attention_scratch(const st_contraction *contraction)
{
    const st_symtab *tab = &contraction->syms->tab;
    int64_t depth = 0;
    int64_t width = 0;
    int64_t keys = 0;
    if (!st_sym_const(tab, contraction->sdpa.depth, &depth) ||
        !st_sym_const(tab, contraction->sdpa.width, &width)) {
        return 0;
    }
    if (!st_sym_const(tab, contraction->sdpa.keys, &keys)) {
        keys = kept_most(depth, width); /* more take no more */
    }
    return floats_needed(bounded(depth), width, kept_of(keys, depth, width)) * sizeof(float);
}

dn_place dn_take_place(const st_contraction_operand *operand, const st_library_call *call,
                       const int64_t **at)
{
    dn_place p = {.dtype = operand->dtype, .strides = *at + 1};
    if (operand->buffer != UINT32_MAX) {
        p.base = (char *)call->buffers[operand->buffer] +
                 **at * (int64_t)st_element_bytes(operand->dtype);
    }
    *at += 5;
    return p;
}

/* Is there work enough to hide the requests behind, and so much to read that it comes from afar? */
static bool should_ask_ahead(const attention *a)
{
    const double keys = (double)a->keys * (double)(a->depth + a->width) * (double)size_of(&a->k);
    const double rows = (double)a->rows * (double)a->depth * (double)size_of(&a->q);
    return a->rows >= AHEAD_ROWS && a->keys <= KEPT &&
           (double)a->batch * (double)a->groups * (keys + rows) >= AHEAD_BYTES;
}

/* Each part makes panels of its own of the keys. */
static int64_t parts_of(const attention *a, stator_ctx *ctx)
{
    const stator_host *host = a->op->lib->host;
    const int64_t wanted = host ? PARTS_A_THREAD * (int64_t)host->thr->thread_count(ctx) : 1;
    const int64_t groups = a->batch * a->groups > 0 ? a->batch * a->groups : 1;
    const int64_t parts = (wanted + groups - 1) / groups;
    return parts < a->blocks ? parts : a->blocks > 0 ? a->blocks : 1;
}

stator_status dn_attention_run(dn_op *op, const st_library_call *call, stator_ctx *ctx,
                               stator_diag **err)
{
    const st_contraction *contraction = &op->contraction;
    const int64_t *sizes = call->numbers;
    const int64_t *at = sizes + 7;
    attention a = {.op = op,
                   .isa = dn_attention_isa_of(op->lib),
                   .batch = sizes[0],
                   .heads = sizes[1],
                   .groups = sizes[2],
                   .queries = sizes[3],
                   .keys = sizes[4],
                   .depth = sizes[5],
                   .width = sizes[6],
                   .is_causal = contraction->sdpa.is_causal != 0};
    a.q = dn_take_place(&contraction->x, call, &at);
    a.k = dn_take_place(&contraction->y, call, &at);
    a.out = dn_take_place(&contraction->out, call, &at);
    a.v = dn_take_place(&contraction->sdpa.v, call, &at);
    if (contraction->sdpa.has_mask) {
        a.mask = dn_take_place(&contraction->sdpa.mask, call, &at);
    }
    a.scale =
        contraction->sdpa.has_scale ? (float)contraction->sdpa.scale : 1.0f / sqrtf((float)a.depth);
    a.rows = a.groups ? a.heads / a.groups * a.queries : 0;
    a.blocks = (a.rows + ROWS - 1) / ROWS;
    a.kept = kept_of(a.keys, a.depth, a.width);
    a.parts = parts_of(&a, ctx);
    a.asks_ahead = should_ask_ahead(&a);
    const int64_t units = a.batch * a.groups * a.parts;
    /* Operands that are expanded may have sizes whose products no integer holds. */
    const double macs = (double)a.rows * (double)a.keys * (double)(a.depth + a.width) *
                        (double)a.batch * (double)a.groups;
    ST_FAIL_IF(a.depth > DEPTH_MAX, err, STATOR_RESOURCE_EXHAUSTED,
               "inductor-cpu: attention over %lld elements a key: no memory holds them",
               (long long)a.depth);
    const stator_host *host = units > 1 && macs > ALONE_MACS ? op->lib->host : NULL;
    const int64_t share = host ? units / host->thr->thread_count(ctx) : units;
    const int64_t grain = a.parts < share ? a.parts : share; /* about a head */
    dn_parallel(host, ctx, units, grain, attend_range, &a);
    return atomic_load(&a.is_out_of_memory) ? st_fail_oom(err) : STATOR_OK;
}
