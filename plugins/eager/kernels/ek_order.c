/* sort and topk (core/base/order/order.h), and the stable merge sort over keys that unique uses. */
#include "plugins/eager/kernels/ek_order.h"

#include "core/base/order/order.h"

/* ---- keys ---- */

static int64_t key_of_f64(double x)
{
    int64_t bits;
    if (x != x) {
        return INT64_MAX;
    }
    x += 0.0; /* -0 becomes 0 */
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? (int64_t)((uint64_t)bits ^ (uint64_t)INT64_MAX) : bits;
}

void ek_order_keys(uint32_t dtype, const void *data, int64_t first, int64_t step, int64_t n,
                   int64_t *out_keys)
{
    const uint64_t flip = dtype == STATOR_U64 ? UINT64_C(1) << 63 : 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = first + i * step;
        out_keys[i] = ek_is_float(dtype) ? key_of_f64(st_load_f64(dtype, data, at))
                                         : (int64_t)((uint64_t)st_load_i64(dtype, data, at) ^ flip);
    }
}

/* ---- merge sort ---- */

static inline bool less(const int64_t *keys, int64_t width, int64_t a, int64_t b)
{
    for (int64_t k = 0; k < width; k++) {
        if (keys[a * width + k] != keys[b * width + k]) {
            return keys[a * width + k] < keys[b * width + k];
        }
    }
    return false;
}

static void insertion_sort(const int64_t *keys, int64_t width, int64_t *index, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        const int64_t item = index[i];
        int64_t j = i;
        while (j > 0 && less(keys, width, item, index[j - 1])) {
            index[j] = index[j - 1];
            j--;
        }
        index[j] = item;
    }
}

static void merge(const int64_t *keys, int64_t width, const int64_t *from, int64_t middle,
                  int64_t n, int64_t *to)
{
    int64_t a = 0;
    int64_t b = middle;
    for (int64_t i = 0; i < n; i++) {
        if (a < middle && (b >= n || !less(keys, width, from[b], from[a]))) {
            to[i] = from[a++];
        } else {
            to[i] = from[b++];
        }
    }
}

void ek_order_sort(const int64_t *keys, int64_t width, int64_t *index, int64_t *spare, int64_t n)
{
    const int64_t first_run = 16;
    for (int64_t i = 0; i < n; i += first_run) {
        insertion_sort(keys, width, index + i, n - i < first_run ? n - i : first_run);
    }
    int64_t *from = index;
    int64_t *to = spare;
    for (int64_t run = first_run; run < n; run *= 2) {
        for (int64_t i = 0; i < n; i += 2 * run) {
            const int64_t all = n - i < 2 * run ? n - i : 2 * run;
            merge(keys, width, from + i, all < run ? all : run, all, to + i);
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != index) {
        memcpy(index, from, (uint64_t)n * sizeof *index);
    }
}

/* ---- sort, topk ---- */

static void parallel_for(void *self, int64_t n, int64_t grain,
                         void (*fn)(void *fn_self, int64_t begin, int64_t end), void *fn_self)
{
    ek_parallel(self, n, grain, fn, fn_self);
}

static stator_status run_order(const ek_call *c, st_order_job *job, stator_diag **err)
{
    const stator_host *host = c->self->host;
    const st_order_threads threads = {.count = host->thr->thread_count(host->ctx),
                                      .parallel_for = parallel_for,
                                      .self = (void *)(uintptr_t)c};
    job->dtype = c->in[0].dtype;
    job->x = c->in[0].data;
    job->values = c->out[0].data;
    job->indices = c->n_out > 1 ? c->out[1].data : NULL;
    const uint64_t bytes = st_order_scratch(job, threads.count);
    void *scratch = bytes <= INT64_MAX ? ek_scratch(c, (int64_t)bytes, 1) : NULL;
    EK_TRY_MEM(scratch != NULL, c, err);
    st_order_run(job, &threads, scratch);
    return STATOR_OK;
}

/* Rows along the axis of an attribute, as both results have it. */
static st_order_job job_of(const ek_call *c, uint32_t axis_place)
{
    const ek_tensor *x = &c->in[0];
    st_order_job job = {.size = 1, .take = 1};
    if (x->rank > 0) {
        const uint32_t axis = ek_axis(c, axis_place, x->rank);
        const int64_t inner = ek_product(x->dims, axis + 1u, x->rank);
        job.size = x->dims[axis];
        job.take = c->out[0].dims[axis];
        job.x_step = job.values_step = job.indices_step = inner;
        job.n_axes = 2;
        job.axes[0] = (st_order_axis){ek_product(x->dims, 0, axis), job.size * inner,
                                      job.take * inner, job.take * inner};
        job.axes[1] = (st_order_axis){inner, 1, 1, 1};
    }
    return job;
}

stator_status ek_sort(const ek_call *c, stator_diag **err)
{
    st_order_job job = job_of(c, STATOR_sort_axis);
    job.is_falling = ek_int(c, STATOR_sort_descending) != 0;
    return run_order(c, &job, err);
}

stator_status ek_topk(const ek_call *c, stator_diag **err)
{
    st_order_job job = job_of(c, STATOR_topk_axis);
    job.is_falling = ek_int(c, STATOR_topk_largest) != 0;
    EK_FAIL_IF(job.take > job.size, c, err, STATOR_INVALID_ARGUMENT,
               "k is %lld, but the axis has size %lld", (long long)job.take, (long long)job.size);
    return run_order(c, &job, err);
}
