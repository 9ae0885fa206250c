/* sdpa_gradient: the gradients of attention to q, k and v, in f64, from its formula.
 *
 *     for a batch, a head of k and v                                  concurrent workers
 *       for a block of the rows of queries that share them
 *         p = softmax(scale * q k^T + mask)
 *         dp = dy v^T
 *         ds = scale * p * (dp - sum of p * dp over the keys)
 *         dq = ds k
 *         dk += ds^T q
 *         dv += p^T dy
 *
 * A block has as many rows for any sizes, and a worker has all rows of a head of k and v, so that
 * the sums over rows have one order on any number of threads. No more than a block's probabilities
 * exist at once. Method: Dao et al., FlashAttention, 2022, with whole rows. */
#include "plugins/eager/kernels/ek_attention.h"

#include <math.h>

#define ROWS 64 /* of a block: enough for the matrix products to be one */

typedef struct gradient {
    ek_attention sizes;
    bool is_finite; /* promised; else what is not finite counts as 0 behind the probabilities */
    ek_wide *scratch;
    int64_t room; /* elements of a worker */
} gradient;

/* Scratch of a worker. */
typedef struct workspace {
    ek_wide *k, *v, *k_finite; /* keys x depth, width, depth */
    ek_wide *dk, *dv;          /* keys x depth, width */
    ek_wide *q, *dy, *dq;      /* ROWS x depth, width, depth */
    ek_wide *p, *ds, *turned;  /* ROWS x keys; keys x ROWS */
} workspace;

typedef struct block {
    int64_t batch, group, rows; /* rows that share the head of k and v */
    int64_t first, n;
    int64_t query; /* the first of all rows of q that is in the block */
} block;

/* Elements of a worker's scratch: keys * (3 depth + 2 width + 3 ROWS), and ROWS * (3 depth + 2
 * width) for q, dy and dq, which is enough. False where no integer holds them. */
static bool count_room(const ek_attention *a, int64_t *out_room)
{
    int64_t depths, widths, both, room;
    return st_mul_i64(a->depth, 3, &depths) && st_mul_i64(a->width, 2, &widths) &&
           st_add_i64(depths, widths, &both) && st_add_i64(both, INT64_C(3) * ROWS, &room) &&
           st_mul_i64(room, a->keys, &room) && st_mul_i64(both, ROWS, &both) &&
           st_add_i64(room, both, out_room);
}

static void lay_out(const gradient *g, int64_t worker, workspace *w)
{
    const ek_attention *a = &g->sizes;
    w->k = g->scratch + worker * g->room;
    w->v = w->k + a->keys * a->depth;
    w->k_finite = w->v + a->keys * a->width;
    w->dk = w->k_finite + a->keys * a->depth;
    w->dv = w->dk + a->keys * a->depth;
    w->q = w->dv + a->keys * a->width;
    w->dy = w->q + ROWS * a->depth;
    w->dq = w->dy + ROWS * a->width;
    w->p = w->dq + ROWS * a->depth;
    w->ds = w->p + ROWS * a->keys;
    w->turned = w->ds + ROWS * a->keys;
}

static void drop_infinite(const gradient *g, ek_wide *x, int64_t n)
{
    for (int64_t i = 0; !g->is_finite && i < n; i++) {
        x[i].f = isfinite(x[i].f) ? x[i].f : 0.0;
    }
}

/* A row of a matrix of this many columns is at least one element long. */
static int64_t leading(int64_t columns)
{
    return columns > 0 ? columns : 1;
}

/* c[m, keys] = x[m, n] y[keys, n]^T */
static void multiply_turned(const ek_attention *a, const ek_wide *x, const ek_wide *y, int64_t m,
                            int64_t n, ek_wide *c)
{
    const ek_matrix_tile tile = {.m = m,
                                 .n = a->keys,
                                 .k = n,
                                 .a = x,
                                 .lda = leading(n),
                                 .b = y,
                                 .ldb = leading(n),
                                 .c = c,
                                 .ldc = leading(a->keys),
                                 .b_transposed = 1};
    ek_gemm_tile(a->call, &tile);
}

/* sums[keys, n] += weights[rows, keys]^T x[rows, n] */
static void add_turned(const ek_attention *a, const ek_wide *weights, const ek_wide *x,
                       int64_t rows, int64_t n, ek_wide *turned, ek_wide *sums)
{
    for (int64_t s = 0; s < a->keys; s++) {
        for (int64_t i = 0; i < rows; i++) {
            turned[s * rows + i] = weights[i * a->keys + s];
        }
    }
    const ek_matrix_tile tile = {.m = a->keys,
                                 .n = n,
                                 .k = rows,
                                 .a = turned,
                                 .lda = leading(rows),
                                 .b = x,
                                 .ldb = leading(n),
                                 .c = sums,
                                 .ldc = leading(n),
                                 .accumulate = 1};
    ek_gemm_tile(a->call, &tile);
}

/* Row i of the block: p from the products of q and k, ds in the place of dp. */
static void finish_row(const ek_attention *a, const block *at, int64_t i, workspace *w)
{
    ek_wide *p = w->p + i * a->keys, *ds = w->ds + i * a->keys;
    const int64_t row = at->first + i;
    const int64_t head = at->group * (a->heads / a->groups) + row / a->queries;
    double mean = 0.0;
    for (int64_t s = 0; s < a->keys; s++) {
        p[s].f = ek_attention_score(a, at->batch, head, row % a->queries, s, p[s].f);
    }
    const double sum = ek_attention_soften(&p->f, a->keys);
    for (int64_t s = 0; s < a->keys; s++) {
        p[s].f /= sum == 0.0 ? 1.0 : sum;
        mean += p[s].f * ds[s].f;
    }
    for (int64_t s = 0; s < a->keys; s++) {
        ds[s].f = a->scale * p[s].f * (ds[s].f - mean);
    }
}

static void do_block(const gradient *g, const block *at, workspace *w)
{
    const ek_attention *a = &g->sizes;
    const ek_call *c = a->call;
    ek_load_wide(&c->in[0], at->query * a->depth, 1, at->n * a->depth, w->q);
    ek_load_wide(&c->in[3], at->query * a->width, 1, at->n * a->width, w->dy);
    multiply_turned(a, w->q, w->k, at->n, a->depth, w->p);
    multiply_turned(a, w->dy, w->v, at->n, a->width, w->ds);
    for (int64_t i = 0; i < at->n; i++) {
        finish_row(a, at, i, w);
    }
    const ek_matrix_tile queries = {.m = at->n,
                                    .n = a->depth,
                                    .k = a->keys,
                                    .a = w->ds,
                                    .lda = leading(a->keys),
                                    .b = w->k_finite,
                                    .ldb = leading(a->depth),
                                    .c = w->dq,
                                    .ldc = leading(a->depth)};
    ek_gemm_tile(c, &queries);
    ek_store_wide(&c->out[0], at->query * a->depth, at->n * a->depth, w->dq);
    drop_infinite(g, w->q, at->n * a->depth);
    add_turned(a, w->ds, w->q, at->n, a->depth, w->turned, w->dk);
    add_turned(a, w->p, w->dy, at->n, a->width, w->turned, w->dv);
}

/* A head of k and v with all rows of queries that share it. */
static void do_head(void *self, int64_t unit, int64_t worker)
{
    const gradient *g = self;
    const ek_attention *a = &g->sizes;
    const ek_call *c = a->call;
    const int64_t n_keys = a->keys * a->depth, n_values = a->keys * a->width;
    workspace w;
    lay_out(g, worker, &w);
    ek_load_wide(&c->in[1], unit * n_keys, 1, n_keys, w.k);
    ek_load_wide(&c->in[2], unit * n_values, 1, n_values, w.v);
    memcpy(w.k_finite, w.k, (size_t)n_keys * sizeof *w.k);
    drop_infinite(g, w.k_finite, n_keys);
    drop_infinite(g, w.v, n_values);
    memset(w.dk, 0, (size_t)(n_keys + n_values) * sizeof *w.dk); /* and dv */
    block at = {.batch = unit / a->groups,
                .group = unit % a->groups,
                .rows = a->heads / a->groups * a->queries};
    for (at.first = 0; at.first < at.rows; at.first += ROWS) {
        at.n = at.rows - at.first < ROWS ? at.rows - at.first : ROWS;
        at.query = unit * at.rows + at.first;
        do_block(g, &at, &w);
    }
    ek_store_wide(&c->out[1], unit * n_keys, n_keys, w.dk);
    ek_store_wide(&c->out[2], unit * n_values, n_values, w.dv);
}

stator_status ek_sdpa_gradient(const ek_call *call, stator_diag **err)
{
    gradient g = {.is_finite = ek_int(call, STATOR_sdpa_gradient_finite) != 0};
    ST_TRY(ek_attention_init(&g.sizes, call, 4, err));
    const ek_attention *a = &g.sizes;
    const int64_t *dy = call->in[3].dims;
    EK_FAIL_IF(dy[0] != a->batch || dy[1] != a->heads || dy[2] != a->queries || dy[3] != a->width,
               call, err, STATOR_INVALID_ARGUMENT,
               "dy does not fit: wanted dy[B,H,T,E] for q[B,H,T,D] and v[B,G,S,E]");
    if (call->out[0].numel == 0 && call->out[1].numel == 0 && call->out[2].numel == 0) {
        return STATOR_OK; /* sizes beside an empty axis may be of any magnitude */
    }
    int64_t n_scratch;
    const int64_t n_heads = a->batch * a->groups;
    const int64_t workers = ek_worker_count(call, n_heads);
    EK_TRY_MEM(count_room(a, &g.room) && st_mul_i64(g.room, workers, &n_scratch), call, err);
    ST_TRY(EK_SCRATCH(call, g.scratch, n_scratch, err));
    ek_gemm_prepare(call);
    ek_workers(call, workers, n_heads, do_head, &g);
    return STATOR_OK;
}
