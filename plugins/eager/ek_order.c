/* Order: sort, topk, and the stable merge sort over keys that unique uses too. */
#include "ek_order.h"

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

static inline int less(const int64_t *keys, int64_t width, int64_t a, int64_t b)
{
    for (int64_t k = 0; k < width; k++) {
        if (keys[a * width + k] != keys[b * width + k]) {
            return keys[a * width + k] < keys[b * width + k];
        }
    }
    return 0;
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

typedef struct sort_job {
    int64_t size; /* of the axis in x */
    int64_t take; /* of the axis in the results */
    int64_t outer;
    int64_t inner;
    int descending;
} sort_job;

/* One line after the other; a line's room is scratch shared by all. */
static stator_status sort_lines(const ek_call *c, const sort_job *job, stator_diag **err)
{
    const ek_tensor *x = &c->in[0];
    int64_t *keys = ek_scratch(c, job->size, sizeof *keys);
    int64_t *index = ek_scratch(c, job->size, sizeof *index);
    int64_t *spare = ek_scratch(c, job->size, sizeof *spare);
    int64_t *positions = c->n_out > 1 ? c->out[1].data : NULL;
    const uint64_t bytes = st_dtype_bits(x->dtype) / 8u;
    if (!keys || !index || !spare) {
        return ek_oom(c, err);
    }
    for (int64_t line = 0; line < job->outer * job->inner; line++) {
        const int64_t o = line / job->inner;
        const int64_t i = line % job->inner;
        const int64_t from = o * job->size * job->inner + i;
        const int64_t to = o * job->take * job->inner + i;
        ek_order_keys(x->dtype, x->data, from, job->inner, job->size, keys);
        for (int64_t a = 0; a < job->size; a++) {
            keys[a] = job->descending ? ~keys[a] : keys[a];
            index[a] = a;
        }
        ek_order_sort(keys, 1, index, spare, job->size);
        for (int64_t a = 0; a < job->take; a++) {
            memcpy((char *)c->out[0].data + (uint64_t)(to + a * job->inner) * bytes,
                   (const char *)x->data + (uint64_t)(from + index[a] * job->inner) * bytes, bytes);
            if (positions) {
                positions[to + a * job->inner] = index[a];
            }
        }
    }
    return STATOR_OK;
}

static sort_job job_of(const ek_call *c, uint32_t axis_place)
{
    const ek_tensor *x = &c->in[0];
    sort_job job = {.size = 1, .take = 1, .outer = 1, .inner = 1};
    if (x->rank > 0) {
        const uint32_t axis = ek_axis(c, axis_place, x->rank);
        job.size = x->dims[axis];
        job.take = c->out[0].dims[axis];
        job.outer = ek_product(x->dims, 0, axis);
        job.inner = ek_product(x->dims, axis + 1u, x->rank);
    }
    return job;
}

stator_status ek_sort(const ek_call *c, stator_diag **err)
{
    sort_job job = job_of(c, STATOR_sort_axis);
    job.descending = ek_int(c, STATOR_sort_descending) != 0;
    return sort_lines(c, &job, err);
}

stator_status ek_topk(const ek_call *c, stator_diag **err)
{
    sort_job job = job_of(c, STATOR_topk_axis);
    job.descending = ek_int(c, STATOR_topk_largest) != 0;
    if (job.take > job.size) {
        return ek_fail(c, err, STATOR_INVALID_ARGUMENT, "k is %lld, but the axis has size %lld",
                       (long long)job.take, (long long)job.size);
    }
    return sort_lines(c, &job, err);
}
