/* det: determinant of each matrix of the last two axes, the product of the pivots of an LU
 * decomposition with partial pivoting in f64. A 0 by 0 matrix gives 1; NaN propagates. */
#include "plugins/eager/kernels/ek_gemm.h"

#include <math.h>

typedef struct det_job {
    const ek_call *call;
    int64_t n;
    double *scratch; /* a matrix for each worker */
} det_job;

/* The row from `k` on whose element in column k is largest in magnitude; a NaN wins. */
static int64_t find_pivot(const double *a, int64_t n, int64_t k)
{
    int64_t best = k;
    for (int64_t i = k; i < n; i++) {
        const double v = a[i * n + k];
        if (isnan(v)) {
            return i;
        }
        if (fabs(v) > fabs(a[best * n + k])) {
            best = i;
        }
    }
    return best;
}

static double determinant(double *a, int64_t n)
{
    double det = 1.0;
    for (int64_t k = 0; k < n; k++) {
        const int64_t p = find_pivot(a, n, k);
        for (int64_t j = k; j < n && p != k; j++) {
            const double t = a[k * n + j];
            a[k * n + j] = a[p * n + j];
            a[p * n + j] = t;
        }
        const double pivot = a[k * n + k];
        det *= p != k ? -pivot : pivot;
        if (pivot == 0.0) { /* the whole column is 0: nothing to eliminate */
            continue;
        }
        for (int64_t i = k + 1; i < n; i++) {
            const double factor = a[i * n + k] / pivot;
            for (int64_t j = k + 1; j < n && factor != 0.0; j++) {
                a[i * n + j] -= factor * a[k * n + j];
            }
        }
    }
    return det;
}

static void do_matrix(void *self, int64_t task, int64_t worker)
{
    const det_job *job = self;
    const ek_tensor *x = &job->call->in[0];
    const ek_tensor *y = &job->call->out[0];
    double *a = job->scratch + worker * job->n * job->n;
    st_load_f64_block(x->dtype, x->data, task * job->n * job->n, job->n * job->n, a);
    ek_put(y, task, determinant(a, job->n));
}

stator_status ek_det(const ek_call *c, stator_diag **err)
{
    const ek_tensor *x = &c->in[0];
    det_job job = {.call = c, .n = x->dims[x->rank - 1u]};
    EK_FAIL_IF(x->dims[x->rank - 2u] != job.n, c, err, STATOR_INVALID_ARGUMENT,
               "matrices of %lld by %lld are not square", (long long)x->dims[x->rank - 2u],
               (long long)job.n);
    const int64_t workers = ek_worker_count(c, c->out[0].numel);
    ST_TRY(EK_SCRATCH(c, job.scratch, workers * job.n * job.n + 1, err));
    ek_workers(c, workers, c->out[0].numel, do_matrix, &job);
    return STATOR_OK;
}
