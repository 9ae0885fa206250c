/* The gradient of attention in one kernel (ST_CONTRACTION_SDPA_GRADIENT): the scores of a block of
 * rows with all keys lie in scratch, and those of the next block take their place.
 *
 *     for a batch, a head of k and v                                  concurrent threads
 *       k and v, transposed, and k in panels of 32 columns
 *       for a block of rows of queries
 *         p = exp(scale * q * k + mask - max) / sum
 *         dp = dy * v
 *         ds = scale * p * (dp - sum of p * dp)
 *         dq = ds * k
 *         dk += ds, turned, * q
 *         dv += p, turned, * dy
 *
 * A block has the whole rows, so that neither the logarithm of their sums nor the result of the
 * forward part is kept: the largest score, the sum and the sum of p * dp are there when they are
 * needed. With more keys a block has fewer rows: p and dp take BLOCK_BYTES at most, and with
 * ROWS_MIN rows some 64 bytes a key, of which the sums dk and dv take 256 or more. Rows are those
 * of all heads that share k and v, and a thread has all of them, so that sums have one order on any
 * number of threads. Method: Dao et al., FlashAttention, 2022. */
#include "plugins/cpu-llvm/kernels/dn.h"
#include "plugins/cpu-llvm/kernels/dn_attention.h"

#include "core/base/diag.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define ROWS 64    /* of a block, at most; a multiple of every tile but tall ones */
#define ROWS_MIN 8 /* rows of the largest tile */
#define BLOCK_BYTES ((int64_t)1 << 19) /* of p and dp, while a block has more than ROWS_MIN rows */
#define COLUMNS DN_ATTENTION_COLUMNS
#define HALF (COLUMNS / 2)
#define FLOATS_MAX ((double)(INT64_C(1) << 40)) /* of scratch: no memory holds them */
#define TOGETHER 16                             /* rows whose scores are finished in one go */
#define ALONE_MACS 60000 /* products that one thread has done before two would have met */

/* ---- a call ---- */

typedef struct gradient {
    const dn_op *op;
    const dn_attention_isa *isa;
    int64_t batch, heads, groups, queries, keys, depth, width;
    dn_place q, k, v, mask, dy; /* mask.base NULL: none */
    dn_place dq, dk, dv;        /* base NULL: nobody reads it */
    float scale;
    bool is_causal, is_finite;
    int64_t rows;                /* that share k and v: heads / groups * queries */
    int64_t block;               /* rows of a block */
    int64_t all, deep, wide, ld; /* keys, depth and width in whole panels; a row of p */
    atomic_int is_out_of_memory;
} gradient;

/* Scratch of a thread. */
typedef struct workspace {
    float *q, *dy, *dq;   /* block x deep, wide, deep */
    float *p, *dp;        /* block x ld */
    float *keys, *values; /* transposed: panels of COLUMNS keys, depth or width x COLUMNS each */
    float *panels;        /* k in panels of its depth, all x COLUMNS each */
    float *dk, *dv;       /* all x deep, wide */
    float *mask;          /* all */
} workspace;

/* Floats from one row of p to the next: a line more than whole panels, as rows a page apart would
 * fall into one set of the first cache. */
static int64_t row_of(int64_t keys)
{
    return dn_padded(keys, COLUMNS) + HALF;
}

static int64_t rows_of(int64_t keys)
{
    int64_t rows = ROWS;
    while (rows > ROWS_MIN && row_of(keys) > BLOCK_BYTES / (2 * (int64_t)sizeof(float)) / rows) {
        rows /= 2;
    }
    return rows;
}

/* Operands that are expanded may have sizes whose products no integer holds. */
static bool has_room(int64_t keys, int64_t depth, int64_t width)
{
    return ((double)keys + ROWS) * (3.0 * (double)depth + 2.0 * (double)width + 3.0 * COLUMNS) <
           FLOATS_MAX;
}

static uint64_t floats_needed(int64_t keys, int64_t depth, int64_t width)
{
    const uint64_t all = (uint64_t)dn_padded(keys, COLUMNS);
    const uint64_t deep = (uint64_t)dn_padded(depth, COLUMNS);
    const uint64_t wide = (uint64_t)dn_padded(width, COLUMNS);
    const uint64_t rows = (uint64_t)rows_of(keys);
    return rows * (2u * deep + wide + 2u * (uint64_t)row_of(keys)) +
           all * (3u * deep + 2u * wide + 1u);
}

static void lay_out(const gradient *a, float *at, workspace *b)
{
    b->q = at;
    b->dy = b->q + a->block * a->deep;
    b->dq = b->dy + a->block * a->wide;
    b->p = b->dq + a->block * a->deep;
    b->dp = b->p + a->block * a->ld;
    b->keys = b->dp + a->block * a->ld;
    b->values = b->keys + a->all * a->deep;
    b->panels = b->values + a->all * a->wide;
    b->dk = b->panels + a->all * a->deep;
    b->dv = b->dk + a->all * a->deep;
    b->mask = b->dv + a->all * a->wide;
}

/* n elements from `from` on, `step` apart; what follows up to `room` is 0. */
static void take_row(float *to, const char *from, int64_t step, int64_t n, int64_t room)
{
    dn_attention_widen(to, from, STATOR_F32, step, n);
    memset(to + n, 0, (size_t)(room - n) * sizeof *to);
}

/* What is not finite becomes 0. */
static void drop_infinite(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = x[i] - x[i] == 0 ? x[i] : 0.0f;
    }
}

/* ---- keys and values ---- */

/* All rows of k or v, n elements each, as panels. */
static void turn_rows(const gradient *a, const dn_place *x, int64_t batch, int64_t group, int64_t n,
                      float *panel)
{
    for (int64_t first = 0; first < a->keys; first += COLUMNS, panel += n * COLUMNS) {
        const int64_t count = a->keys - first < COLUMNS ? a->keys - first : COLUMNS;
        const char *from = dn_element(x, batch, group, first, 0);
        dn_attention_turn(a->isa, x, from, count, n, panel);
    }
}

/* Columns [32 p, 32 p + 32) of k in panel p. */
static void pack_keys(const gradient *a, int64_t batch, int64_t group, float *panels)
{
    for (int64_t d = 0; d < a->depth; d += COLUMNS, panels += a->all * COLUMNS) {
        const int64_t n = a->depth - d < COLUMNS ? a->depth - d : COLUMNS;
        for (int64_t s = 0; s < a->keys; s++) {
            take_row(panels + s * COLUMNS, dn_element(&a->k, batch, group, s, d), a->k.strides[3],
                     n, COLUMNS);
        }
    }
}

static void take_keys(const gradient *a, int64_t batch, int64_t group, workspace *b)
{
    turn_rows(a, &a->k, batch, group, a->depth, b->keys);
    turn_rows(a, &a->v, batch, group, a->width, b->values);
    pack_keys(a, batch, group, b->panels);
    if (!a->is_finite) {
        drop_infinite(b->values, dn_padded(a->keys, COLUMNS) * a->width);
        for (int64_t d = 0; d < a->deep; d += COLUMNS) {
            drop_infinite(b->panels + d * a->all, a->keys * COLUMNS);
        }
    }
    memset(b->dk, 0, (size_t)(a->all * (a->deep + a->wide)) * sizeof *b->dk); /* and dv */
}

/* ---- a block of rows ---- */

typedef struct rows {
    int64_t batch, group;
    int64_t first, n; /* among those that share k and v */
    int64_t last;     /* keys that any of them attends to */
} rows;

static int64_t head_of(const gradient *a, const rows *at, int64_t i)
{
    return at->group * (a->heads / a->groups) + (at->first + i) / a->queries;
}

static int64_t query_of(const gradient *a, const rows *at, int64_t i)
{
    return (at->first + i) % a->queries;
}

/* How many keys row i attends to, or may. */
static int64_t keys_of(const gradient *a, const rows *at, int64_t i)
{
    const int64_t causal = query_of(a, at, i) + 1;
    return a->is_causal && causal < a->keys ? causal : a->keys;
}

/* The block's rows of q and dy, and rows of 0 up to whole tiles. */
static void take_rows(const gradient *a, rows *at, workspace *b)
{
    const int64_t tiles = dn_padded(at->n, a->isa->rows);
    at->last = 0;
    for (int64_t i = 0; i < at->n; i++) {
        const int64_t head = head_of(a, at, i), t = query_of(a, at, i), keys = keys_of(a, at, i);
        take_row(b->q + i * a->deep, dn_element(&a->q, at->batch, head, t, 0), a->q.strides[3],
                 a->depth, a->deep);
        take_row(b->dy + i * a->wide, dn_element(&a->dy, at->batch, head, t, 0), a->dy.strides[3],
                 a->width, a->wide);
        at->last = keys > at->last ? keys : at->last;
    }
    memset(b->q + at->n * a->deep, 0, (size_t)((tiles - at->n) * a->deep) * sizeof *b->q);
    memset(b->dy + at->n * a->wide, 0, (size_t)((tiles - at->n) * a->wide) * sizeof *b->dy);
}

/* Scores in p, products of dy and v in dp. */
static void multiply(const gradient *a, const rows *at, workspace *b)
{
    for (int64_t j = 0; j < at->last; j += COLUMNS) {
        const int64_t columns = at->last - j <= HALF ? HALF : COLUMNS;
        const dn_tile scores = {.c = b->p + j,
                                .a = b->q,
                                .b = b->keys + j * a->depth,
                                .ldc = a->ld,
                                .lda = a->deep,
                                .ldb = COLUMNS,
                                .k = a->depth};
        const dn_tile slopes = {.c = b->dp + j,
                                .a = b->dy,
                                .b = b->values + j * a->width,
                                .ldc = a->ld,
                                .lda = a->wide,
                                .ldb = COLUMNS,
                                .k = a->width};
        dn_attention_tiles(a->isa, &scores, at->n, columns);
        dn_attention_tiles(a->isa, &slopes, at->n, columns);
    }
}

/* What is added to the scores of row i. */
static const float *mask_of(const gradient *a, const rows *at, int64_t i, float *to)
{
    const dn_place *m = &a->mask;
    if (m->base == NULL) {
        return NULL;
    }
    const char *from = dn_element(m, at->batch, head_of(a, at, i), query_of(a, at, i), 0);
    dn_attention_mask(to, m, from, at->last);
    return to;
}

/* Rows i to i + n, to which `mask` is added: p, and in dp what arrives at the scores. */
static void finish_rows(const gradient *a, const rows *at, int64_t i, int64_t n, const float *mask,
                        workspace *b)
{
    dn_soften some[TOGETHER];
    const int64_t room = dn_padded(at->last, HALF);
    for (int64_t r = 0; r < n; r++) {
        some[r] = (dn_soften){.x = b->p + (i + r) * a->ld,
                              .n = keys_of(a, at, i + r),
                              .padded = room,
                              .scale = a->scale,
                              .mask = mask,
                              .max = -INFINITY};
    }
    a->isa->soften(some, n);
    for (int64_t r = 0; r < n; r++) {
        const float sum = some[r].sum == 0 ? 1.0f : some[r].sum;
        a->isa->slope(b->p + (i + r) * a->ld, b->dp + (i + r) * a->ld, sum, a->scale, room);
    }
}

static void soften(const gradient *a, const rows *at, workspace *b)
{
    const bool is_shared = dn_is_mask_shared(&a->mask);
    const float *mask = NULL;
    for (int64_t i = 0; i < at->n;) {
        const int64_t left = at->n - i;
        const int64_t n = !is_shared ? 1 : left < TOGETHER ? left : TOGETHER;
        if (i == 0 || !is_shared) {
            mask = mask_of(a, at, i, b->mask);
        }
        finish_rows(a, at, i, n, mask, b);
        i += n;
    }
}

static void put_row(float *to, int64_t step, const float *from, int64_t n)
{
    if (step == 1) {
        memcpy(to, from, (size_t)n * sizeof *to);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        to[i * step] = from[i];
    }
}

static void write_queries(const gradient *a, const rows *at, workspace *b)
{
    const int64_t tiles = dn_padded(at->n, a->isa->rows);
    if (a->dq.base == NULL) {
        return;
    }
    memset(b->dp + at->n * a->ld, 0, (size_t)((tiles - at->n) * a->ld) * sizeof *b->dp);
    for (int64_t d = 0; d < a->deep; d += COLUMNS) {
        const dn_tile t = {.c = b->dq + d,
                           .a = b->dp,
                           .b = b->panels + d * a->all,
                           .ldc = a->deep,
                           .lda = a->ld,
                           .ldb = COLUMNS,
                           .k = at->last};
        dn_attention_tiles(a->isa, &t, at->n, COLUMNS);
    }
    for (int64_t i = 0; i < at->n; i++) {
        float *to = (void *)dn_element(&a->dq, at->batch, head_of(a, at, i), query_of(a, at, i), 0);
        put_row(to, a->dq.strides[3], b->dq + i * a->deep, a->depth);
    }
}

/* sums[s] += weights[i][s] * x[i] over the block's rows i. */
static void add_turned(const gradient *a, const rows *at, const float *weights, const float *x,
                       float *sums, int64_t width)
{
    const int64_t step = a->isa->turned_rows;
    for (int64_t s = 0; s < at->last; s += step) {
        for (int64_t e = 0; e < width; e += COLUMNS) {
            const dn_tile t = {.c = sums + s * width + e,
                               .a = weights + s,
                               .b = x + e,
                               .ldc = width,
                               .lda = a->ld,
                               .ldb = width,
                               .k = at->n};
            a->isa->turned(&t);
        }
    }
}

static void do_block(const gradient *a, rows *at, workspace *b)
{
    take_rows(a, at, b);
    multiply(a, at, b);
    soften(a, at, b);
    write_queries(a, at, b);
    if (!a->is_finite) {
        drop_infinite(b->q, at->n * a->deep);
    }
    if (a->dk.base != NULL) {
        add_turned(a, at, b->dp, b->q, b->dk, a->deep);
    }
    if (a->dv.base != NULL) {
        add_turned(a, at, b->p, b->dy, b->dv, a->wide);
    }
}

/* The sums of all keys of a head, `room` floats apart. */
static void write_keys(const gradient *a, const dn_place *to, const rows *at, const float *sums,
                       int64_t n, int64_t room)
{
    for (int64_t s = 0; to->base != NULL && s < a->keys; s++) {
        put_row((void *)dn_element(to, at->batch, at->group, s, 0), to->strides[3], sums + s * room,
                n);
    }
}

static void do_range(void *self, int64_t begin, int64_t end)
{
    gradient *a = self;
    dn_lib *lib = a->op->lib;
    workspace b;
    if (begin == end) {
        return;
    }
    dn_scratch *scratch =
        dn_scratch_take(lib, floats_needed(a->keys, a->depth, a->width) * sizeof(float));
    if (scratch == NULL) {
        atomic_store(&a->is_out_of_memory, 1);
        return;
    }
    lay_out(a, dn_scratch_data(scratch), &b);
    for (int64_t unit = begin; unit < end; unit++) {
        rows at = {.batch = unit / a->groups, .group = unit % a->groups};
        take_keys(a, at.batch, at.group, &b);
        for (at.first = 0; at.first < a->rows; at.first += a->block) {
            at.n = a->rows - at.first < a->block ? a->rows - at.first : a->block;
            do_block(a, &at, &b);
        }
        write_keys(a, &a->dk, &at, b.dk, a->depth, a->deep);
        write_keys(a, &a->dv, &at, b.dv, a->width, a->wide);
    }
    dn_scratch_give(lib, scratch);
}

/* ---- the op ---- */

bool dn_attention_gradient_takes(const st_contraction *contraction)
{
    const st_contraction_sdpa *s = &contraction->sdpa;
    const uint32_t dtypes[] = {contraction->x.dtype, contraction->y.dtype, contraction->out.dtype,
                               s->v.dtype,           s->dy.dtype,          s->dk.dtype,
                               s->dv.dtype};
    bool is_taken = !s->has_mask || s->mask.dtype == STATOR_BOOL || s->mask.dtype == STATOR_F32;
    for (uint32_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        is_taken = is_taken && dtypes[i] == STATOR_F32;
    }
    return is_taken;
}

uint64_t dn_attention_gradient_scratch(const st_contraction *contraction)
{
    const st_symtab *tab = &contraction->syms->tab;
    const st_contraction_sdpa *s = &contraction->sdpa;
    int64_t keys = 0, depth = 0, width = 0;
    return st_sym_const(tab, s->keys, &keys) && st_sym_const(tab, s->depth, &depth) &&
                   st_sym_const(tab, s->width, &width) && has_room(keys, depth, width)
               ? floats_needed(keys, depth, width) * sizeof(float)
               : 0;
}

static void take_places(gradient *a, const st_contraction *contraction, const st_library_call *call)
{
    const st_contraction_sdpa *s = &contraction->sdpa;
    const int64_t *at = call->numbers + 7;
    a->q = dn_take_place(&contraction->x, call, &at);
    a->k = dn_take_place(&contraction->y, call, &at);
    a->dq = dn_take_place(&contraction->out, call, &at);
    a->v = dn_take_place(&s->v, call, &at);
    a->dy = dn_take_place(&s->dy, call, &at);
    a->dk = dn_take_place(&s->dk, call, &at);
    a->dv = dn_take_place(&s->dv, call, &at);
    if (s->has_mask) {
        a->mask = dn_take_place(&s->mask, call, &at);
    }
}

stator_status dn_attention_gradient_run(dn_op *op, const st_library_call *call, stator_ctx *ctx,
                                        stator_diag **err)
{
    const st_contraction_sdpa *s = &op->contraction.sdpa;
    const int64_t *sizes = call->numbers;
    gradient a = {.op = op,
                  .isa = dn_attention_isa_of(op->lib),
                  .batch = sizes[0],
                  .heads = sizes[1],
                  .groups = sizes[2],
                  .queries = sizes[3],
                  .keys = sizes[4],
                  .depth = sizes[5],
                  .width = sizes[6],
                  .is_causal = s->is_causal != 0,
                  .is_finite = s->is_finite != 0};
    ST_FAIL_IF(!has_room(a.keys, a.depth, a.width), err, STATOR_RESOURCE_EXHAUSTED,
               "inductor-cpu: the gradient of attention over %lld keys of %lld elements: no memory "
               "holds them",
               (long long)a.keys, (long long)a.depth);
    take_places(&a, &op->contraction, call);
    a.scale = s->has_scale ? (float)s->scale : 1.0f / sqrtf((float)a.depth);
    a.rows = a.groups ? a.heads / a.groups * a.queries : 0;
    a.block = rows_of(a.keys);
    a.all = dn_padded(a.keys, COLUMNS);
    a.deep = dn_padded(a.depth, COLUMNS);
    a.wide = dn_padded(a.width, COLUMNS);
    a.ld = row_of(a.keys);
    const int64_t units = a.batch * a.groups;
    const double macs = (double)a.rows * (double)a.keys * (double)(a.depth + a.width) *
                        (double)a.batch * (double)a.groups;
    const stator_host *host = units > 1 && macs > ALONE_MACS ? op->lib->host : NULL;
    dn_parallel(host, ctx, units, host ? 1 : units, do_range, &a);
    return atomic_load(&a.is_out_of_memory) ? st_fail_oom(err) : STATOR_OK;
}
