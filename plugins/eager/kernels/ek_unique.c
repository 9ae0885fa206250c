/* unique: distinct elements or slices, whose number only the data tells. */
#include "plugins/eager/kernels/ek_order.h"

/* ---- unique ---- */

typedef struct unique_job {
    const ek_call *c;
    int64_t n;       /* items: elements, or slices along the axis */
    int64_t width;   /* elements of an item */
    int64_t inner;   /* elements after the axis */
    int64_t count;   /* distinct items */
    int64_t *order;  /* items, sorted */
    int64_t *group;  /* by item: its number among the distinct, in sorted order */
    int64_t *first;  /* by number: first item */
    int64_t *counts; /* by number */
    int64_t *rank;   /* by number: place in the result */
} unique_job;

/* Element number of element k of item i. */
static int64_t element(const unique_job *job, int64_t i, int64_t k)
{
    return (k / job->inner * job->n + i) * job->inner + k % job->inner;
}

/* Sorts the items and numbers the distinct ones. */
static stator_status group_items(unique_job *job, stator_diag **err)
{
    const ek_tensor *x = &job->c->in[0];
    uint64_t n_keys;
    if (!st_mul_u64((uint64_t)job->n, (uint64_t)job->width, &n_keys)) {
        return ek_oom(job->c, err);
    }
    int64_t *keys;
    ST_TRY(EK_SCRATCH(job->c, keys, (int64_t)n_keys, err));
    int64_t *spare;
    ST_TRY(EK_SCRATCH(job->c, spare, job->n, err));
    for (int64_t i = 0; i < job->n; i++) {
        for (int64_t k = 0; k < job->width; k++) {
            ek_order_keys(x->dtype, x->data, element(job, i, k), 0, 1, &keys[i * job->width + k]);
        }
        job->order[i] = i;
    }
    ek_order_sort(keys, job->width, job->order, spare, job->n);
    const uint64_t item_bytes = (uint64_t)job->width * sizeof *keys;
    for (int64_t i = 0; i < job->n; i++) {
        const int64_t item = job->order[i];
        if (i == 0 || (item_bytes && memcmp(keys + item * job->width,
                                            keys + job->order[i - 1] * job->width, item_bytes))) {
            job->first[job->count] = item;
            job->counts[job->count] = 0;
            job->count++;
        }
        job->group[item] = job->count - 1;
        job->counts[job->count - 1]++;
    }
    return STATOR_OK;
}

/* Places of the distinct items in the result: sorted, or by first appearance. */
static void rank_groups(unique_job *job, bool sorted)
{
    for (int64_t g = 0; g < job->count; g++) {
        job->rank[g] = sorted ? g : -1;
    }
    int64_t next = 0;
    for (int64_t i = 0; i < job->n && !sorted; i++) {
        if (job->rank[job->group[i]] < 0) {
            job->rank[job->group[i]] = next++;
        }
    }
}

static stator_status write_results(const unique_job *job, bool has_axis, uint32_t axis,
                                   stator_diag **err)
{
    const ek_call *c = job->c;
    const ek_tensor *x = &c->in[0];
    const uint64_t size = st_element_bytes(x->dtype);
    int64_t dims[STATOR_RANK_MAX] = {job->count};
    if (has_axis) {
        memcpy(dims, x->dims, x->rank * sizeof *dims);
        dims[axis] = job->count;
    }
    ST_TRY(ek_alloc_out(c, 0, dims, err));
    for (int64_t g = 0; g < job->count; g++) {
        for (int64_t k = 0; k < job->width; k++) {
            const int64_t to =
                (k / job->inner * job->count + job->rank[g]) * job->inner + k % job->inner;
            memcpy((char *)c->out[0].data + (uint64_t)to * size,
                   (const char *)x->data + (uint64_t)element(job, job->first[g], k) * size, size);
        }
    }
    for (uint32_t r = 1; r < c->n_out; r++) {
        const int64_t length = r == 2 ? job->n : job->count;
        ST_TRY(ek_alloc_out(c, r, &length, err));
        int64_t *out = c->out[r].data;
        for (int64_t i = 0; i < length; i++) {
            if (r == 2) {
                out[i] = job->rank[job->group[i]];
            } else {
                out[job->rank[i]] = r == 1 ? job->first[i] : job->counts[i];
            }
        }
    }
    return STATOR_OK;
}

stator_status ek_unique(const ek_call *c, stator_diag **err)
{
    const ek_tensor *x = &c->in[0];
    const bool has_axis = ek_has(c, STATOR_unique_axis) && x->rank > 0;
    const uint32_t axis = has_axis ? ek_axis(c, STATOR_unique_axis, x->rank) : 0;
    unique_job job = {.c = c, .n = x->numel, .width = 1, .inner = 1};
    if (has_axis) {
        job.n = x->dims[axis];
        job.inner = ek_product(x->dims, axis + 1u, x->rank);
        job.width = ek_product(x->dims, 0, axis) * job.inner;
    }
    job.inner = job.inner ? job.inner : 1;
    int64_t **const lists[] = {&job.order, &job.group, &job.first, &job.counts, &job.rank};
    for (uint32_t k = 0; k < 5; k++) {
        *lists[k] = ek_scratch(c, job.n, sizeof(int64_t));
        EK_TRY_MEM(*lists[k], c, err);
    }
    ST_TRY(group_items(&job, err));
    rank_groups(&job, ek_int(c, STATOR_unique_sorted) != 0);
    return write_results(&job, has_axis, axis, err);
}
