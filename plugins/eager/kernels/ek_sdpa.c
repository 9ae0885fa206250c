/* sdpa: scaled dot-product attention from its formula, one query row at a time in f64. */
#include "plugins/eager/kernels/ek_gemm.h"

#include <math.h>

typedef struct attention {
    const ek_call *call;
    int64_t heads, groups, queries, keys, depth, out_depth;
    int64_t mask_stride[4]; /* strides of [B, H, T, S], 0 where it broadcasts */
    double scale;
    double *scores; /* a row of `keys` for each worker */
    uint8_t is_causal;
} attention;

/* Score of key s, -inf where the mask or causality forbids it. */
static double score(const attention *a, int64_t batch, int64_t head, int64_t t, int64_t s)
{
    const ek_call *c = a->call;
    const int64_t q = ((batch * a->heads + head) * a->queries + t) * a->depth;
    const int64_t group = head / (a->heads / a->groups);
    const int64_t k = ((batch * a->groups + group) * a->keys + s) * a->depth;
    bool allowed = !a->is_causal || s <= t;
    double sum = 0.0;
    for (int64_t d = 0; d < a->depth; d++) {
        sum += ek_get(&c->in[0], q + d) * ek_get(&c->in[1], k + d);
    }
    sum *= a->scale;
    if (ek_has_in(c, 3)) {
        const int64_t m = batch * a->mask_stride[0] + head * a->mask_stride[1] +
                          t * a->mask_stride[2] + s * a->mask_stride[3];
        if (c->in[3].dtype == STATOR_BOOL) {
            allowed &= ((const uint8_t *)c->in[3].data)[m] != 0;
        } else {
            const double v = ek_get(&c->in[3], m);
            allowed &= v != -INFINITY;
            sum += v;
        }
    }
    return allowed ? sum : -INFINITY;
}

static void attend(void *self, int64_t row, int64_t worker)
{
    const attention *a = self;
    const ek_call *c = a->call;
    const int64_t t = row % a->queries;
    const int64_t head = row / a->queries % a->heads;
    const int64_t batch = row / a->queries / a->heads;
    const int64_t group = head / (a->heads / a->groups);
    double *scores = a->scores + worker * a->keys;
    double max = -INFINITY;
    for (int64_t s = 0; s < a->keys; s++) {
        scores[s] = score(a, batch, head, t, s);
        max = scores[s] > max || isnan(scores[s]) ? scores[s] : max;
    }
    const bool any = max != -INFINITY; /* else nothing to attend to */
    double sum = 0.0;
    for (int64_t s = 0; any && s < a->keys; s++) {
        scores[s] = exp(scores[s] - max);
        sum += scores[s];
    }
    for (int64_t e = 0; e < a->out_depth; e++) {
        double v = 0.0;
        for (int64_t s = 0; any && s < a->keys; s++) {
            const int64_t at = ((batch * a->groups + group) * a->keys + s) * a->out_depth + e;
            /* A key with no weight counts nothing, whatever its value. */
            v += scores[s] == 0.0 ? 0.0 : scores[s] * ek_get(&c->in[2], at);
        }
        ek_put(&c->out[0], row * a->out_depth + e, any ? v / sum : 0.0);
    }
}

/* Strides of the mask, broadcast from the right to [B, H, T, S]. */
static stator_status mask_strides(attention *a, stator_diag **err)
{
    const ek_tensor *m = &a->call->in[3];
    const int64_t full[4] = {a->call->in[0].dims[0], a->heads, a->queries, a->keys};
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

stator_status ek_sdpa(const ek_call *call, stator_diag **err)
{
    const ek_tensor *q = &call->in[0];
    const ek_tensor *k = &call->in[1];
    const ek_tensor *v = &call->in[2];
    attention a = {.call = call,
                   .heads = q->dims[1],
                   .groups = k->dims[1],
                   .queries = q->dims[2],
                   .keys = k->dims[2],
                   .depth = q->dims[3],
                   .out_depth = v->dims[3],
                   .is_causal = ek_int(call, STATOR_sdpa_is_causal) != 0};
    EK_FAIL_IF(a.groups < 1 || a.heads % a.groups != 0 || k->dims[3] != a.depth ||
                   v->dims[1] != a.groups || v->dims[2] != a.keys || k->dims[0] != q->dims[0] ||
                   v->dims[0] != q->dims[0],
               call, err, STATOR_INVALID_ARGUMENT,
               "q, k and v do not fit: wanted q[B,H,T,D], k[B,G,S,D], v[B,G,S,E]");
    a.scale = ek_has(call, STATOR_sdpa_scale) ? ek_float(call, STATOR_sdpa_scale)
                                              : 1.0 / sqrt((double)a.depth);
    if (ek_has_in(call, 3)) {
        const stator_status status = mask_strides(&a, err);
        if (status != STATOR_OK) {
            return status;
        }
    }
    const int64_t n_rows = q->dims[0] * a.heads * a.queries;
    const int64_t workers = ek_worker_count(call, n_rows);
    ST_TRY(EK_SCRATCH(call, a.scores, workers * a.keys + 1, err));
    ek_workers(call, workers, n_rows, attend, &a);
    return STATOR_OK;
}
