/* sdpa: scaled dot-product attention from its formula, one query row at a time in f64. */
#include "plugins/eager/kernels/ek_attention.h"

#include <math.h>

_Static_assert((int)STATOR_sdpa_scale == (int)STATOR_sdpa_gradient_scale &&
                   (int)STATOR_sdpa_is_causal == (int)STATOR_sdpa_gradient_is_causal,
               "sdpa and its gradient have the same attributes");

/* ---- shared with the gradient ---- */

/* Strides of the mask, broadcast from the right to [B, H, T, S]. */
static stator_status find_mask_strides(ek_attention *a, stator_diag **err)
{
    const ek_tensor *m = a->mask;
    const int64_t full[4] = {a->batch, a->heads, a->queries, a->keys};
    int64_t stride = 1;
    EK_FAIL_IF(m->rank > 4, a->call, err, STATOR_INVALID_ARGUMENT, "the mask has more than 4 axes");
    for (uint32_t i = 0; i < m->rank; i++) {
        const uint32_t axis = 3 - i;
        const int64_t size = m->dims[m->rank - 1 - i];
        EK_FAIL_IF(size != 1 && size != full[axis], a->call, err, STATOR_INVALID_ARGUMENT,
                   "mask size %lld does not broadcast to %lld", (long long)size,
                   (long long)full[axis]);
        a->mask_stride[axis] = size == 1 ? 0 : stride;
        stride *= size;
    }
    return STATOR_OK;
}

stator_status ek_attention_init(ek_attention *a, const ek_call *call, uint32_t mask_at,
                                stator_diag **err)
{
    const ek_tensor *q = &call->in[0];
    const ek_tensor *k = &call->in[1];
    const ek_tensor *v = &call->in[2];
    *a = (ek_attention){.call = call,
                        .batch = q->dims[0],
                        .heads = q->dims[1],
                        .groups = k->dims[1],
                        .queries = q->dims[2],
                        .keys = k->dims[2],
                        .depth = q->dims[3],
                        .width = v->dims[3],
                        .mask = ek_has_in(call, mask_at) ? &call->in[mask_at] : NULL,
                        .is_causal = ek_int(call, STATOR_sdpa_is_causal) != 0};
    EK_FAIL_IF(a->groups < 1 || a->heads % a->groups != 0 || k->dims[3] != a->depth ||
                   v->dims[1] != a->groups || v->dims[2] != a->keys || k->dims[0] != a->batch ||
                   v->dims[0] != a->batch,
               call, err, STATOR_INVALID_ARGUMENT,
               "q, k and v do not fit: wanted q[B,H,T,D], k[B,G,S,D], v[B,G,S,E]");
    a->scale = ek_has(call, STATOR_sdpa_scale) ? ek_float(call, STATOR_sdpa_scale)
                                               : 1.0 / sqrt((double)a->depth);
    return a->mask != NULL ? find_mask_strides(a, err) : STATOR_OK;
}

double ek_attention_score(const ek_attention *a, int64_t batch, int64_t head, int64_t t, int64_t s,
                          double product)
{
    bool is_allowed = !a->is_causal || s <= t;
    double sum = product * a->scale;
    if (a->mask != NULL) {
        const int64_t m = batch * a->mask_stride[0] + head * a->mask_stride[1] +
                          t * a->mask_stride[2] + s * a->mask_stride[3];
        if (a->mask->dtype == STATOR_BOOL) {
            is_allowed &= ((const uint8_t *)a->mask->data)[m] != 0;
        } else {
            const double x = ek_get(a->mask, m);
            is_allowed &= x != -INFINITY;
            sum += x;
        }
    }
    return is_allowed ? sum : -INFINITY;
}

double ek_attention_soften(double *scores, int64_t n)
{
    double max = -INFINITY, sum = 0.0;
    for (int64_t s = 0; s < n; s++) {
        max = scores[s] > max || isnan(scores[s]) ? scores[s] : max;
    }
    const bool has_any = max != -INFINITY; /* else there is nothing to attend to */
    for (int64_t s = 0; s < n; s++) {
        scores[s] = has_any ? exp(scores[s] - max) : 0.0;
        sum += scores[s];
    }
    return sum;
}

/* ---- sdpa ---- */

typedef struct attention {
    ek_attention sizes;
    double *scores; /* a row of `keys` for each worker */
} attention;

/* The product of a query and a key. */
static double multiply(const ek_attention *a, int64_t query, int64_t key)
{
    double sum = 0.0;
    for (int64_t d = 0; d < a->depth; d++) {
        sum += ek_get(&a->call->in[0], query * a->depth + d) *
               ek_get(&a->call->in[1], key * a->depth + d);
    }
    return sum;
}

static void attend(void *self, int64_t row, int64_t worker)
{
    const attention *whole = self;
    const ek_attention *a = &whole->sizes;
    const int64_t t = row % a->queries;
    const int64_t head = row / a->queries % a->heads;
    const int64_t batch = row / a->queries / a->heads;
    const int64_t first = (batch * a->groups + head / (a->heads / a->groups)) * a->keys;
    double *scores = whole->scores + worker * a->keys;
    for (int64_t s = 0; s < a->keys; s++) {
        scores[s] = ek_attention_score(a, batch, head, t, s, multiply(a, row, first + s));
    }
    const double sum = ek_attention_soften(scores, a->keys);
    for (int64_t e = 0; e < a->width; e++) {
        double v = 0.0;
        for (int64_t s = 0; s < a->keys; s++) {
            /* A key with no weight counts nothing, whatever its value. */
            v += scores[s] == 0.0 ? 0.0
                                  : scores[s] * ek_get(&a->call->in[2], (first + s) * a->width + e);
        }
        ek_put(&a->call->out[0], row * a->width + e, sum == 0.0 ? 0.0 : v / sum);
    }
}

stator_status ek_sdpa(const ek_call *call, stator_diag **err)
{
    attention a;
    ST_TRY(ek_attention_init(&a.sizes, call, 3, err));
    const int64_t n_rows = a.sizes.batch * a.sizes.heads * a.sizes.queries;
    const int64_t workers = ek_worker_count(call, n_rows);
    int64_t n_scores;
    EK_TRY_MEM(st_mul_i64(workers, a.sizes.keys, &n_scores) && st_add_i64(n_scores, 1, &n_scores),
               call, err);
    ST_TRY(EK_SCRATCH(call, a.scores, n_scores, err));
    ek_workers(call, workers, n_rows, attend, &a);
    return STATOR_OK;
}
