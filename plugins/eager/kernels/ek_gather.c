/* gather, gather_elements, gather_nd. Indices are checked before anything moves. */
#include "plugins/eager/kernels/ek_move.h"

stator_status ek_indices(const ek_call *c, uint32_t k, int64_t size, const int64_t **out,
                         stator_diag **err)
{
    const ek_tensor *t = &c->in[k];
    int64_t *list;
    ST_TRY(EK_SCRATCH(c, list, t->numel, err));
    *out = list;
    st_load_i64_block(t->dtype, t->data, 0, t->numel, list);
    for (int64_t i = 0; i < t->numel; i++) {
        const int64_t given = list[i];
        list[i] += given < 0 ? size : 0;
        EK_FAIL_IF(list[i] < 0 || list[i] >= size, c, err, STATOR_OUT_OF_RANGE,
                   "index %lld at position %lld is outside an axis of size %lld", (long long)given,
                   (long long)i, (long long)size);
    }
    return STATOR_OK;
}

typedef struct gather_job {
    ek_bytes_view view;
    const int64_t *index;
    int64_t count; /* indices */
    int64_t axis_size;
    uint64_t bytes; /* bytes of a slice */
} gather_job;

/* Slice r of the result is index r % count of outer position r / count. */
static void gather_rows(void *self, int64_t begin, int64_t end)
{
    const gather_job *job = self;
    for (int64_t r = begin; r < end; r++) {
        const int64_t from = r / job->count * job->axis_size + job->index[r % job->count];
        memcpy(job->view.out + (uint64_t)r * job->bytes, job->view.in + (uint64_t)from * job->bytes,
               job->bytes);
    }
}

stator_status ek_gather(const ek_call *c, stator_diag **err)
{
    const ek_tensor *x = &c->in[0];
    const uint32_t axis = ek_axis(c, STATOR_gather_axis, x->rank);
    const int64_t inner = ek_product(x->dims, axis + 1u, x->rank);
    const int64_t outer = ek_product(x->dims, 0, axis);
    gather_job job = {.count = c->in[1].numel, .axis_size = x->dims[axis]};
    ST_TRY(ek_indices(c, 1, x->dims[axis], &job.index, err));
    ST_TRY(ek_view_bytes(c, &job.view, err));
    job.bytes = (uint64_t)inner * job.view.size;
    ek_parallel(c, outer * job.count, 65536 / (int64_t)(job.bytes + 1u) + 1, gather_rows, &job);
    ek_pack_out(c, job.view.out);
    return STATOR_OK;
}

/* ---- gather_elements ---- */

typedef struct elements_job {
    const ek_call *c;
    const int64_t *index;
    ek_bytes_view view;
    int64_t strides[STATOR_RANK_MAX]; /* of x, 0 on the axis */
    int64_t axis_stride;
} elements_job;

static void elements_range(void *self, int64_t begin, int64_t end)
{
    const elements_job *job = self;
    const ek_tensor *shape = &job->c->in[1];
    for (int64_t i = begin; i < end; i++) {
        const int64_t at =
            job->index[i] * job->axis_stride + ek_offset(i, shape->dims, job->strides, shape->rank);
        ek_view_copy(&job->view, i, at, 1);
    }
}

stator_status ek_gather_elements(const ek_call *c, stator_diag **err)
{
    const ek_tensor *x = &c->in[0];
    elements_job job = {.c = c};
    if (x->rank == 0) {
        memcpy(c->out[0].data, x->data, ek_bytes(x->dtype, 1));
        return STATOR_OK;
    }
    const uint32_t axis = ek_axis(c, STATOR_gather_elements_axis, x->rank);
    for (uint32_t a = 0; a < x->rank; a++) {
        EK_FAIL_IF(a != axis && c->in[1].dims[a] > x->dims[a], c, err, STATOR_INVALID_ARGUMENT,
                   "index has size %lld on axis %u, x has only %lld", (long long)c->in[1].dims[a],
                   a, (long long)x->dims[a]);
    }
    ek_strides(x->dims, x->rank, job.strides);
    job.axis_stride = job.strides[axis];
    job.strides[axis] = 0;
    ST_TRY(ek_indices(c, 1, x->dims[axis], &job.index, err));
    ST_TRY(ek_view_bytes(c, &job.view, err));
    ek_parallel(c, c->in[1].numel, 4096, elements_range, &job);
    ek_pack_out(c, job.view.out);
    return STATOR_OK;
}

/* ---- gather_nd ---- */

stator_status ek_tuple_offset(const ek_call *c, uint32_t batch, const int64_t *strides, int64_t r,
                              int64_t *out_at, stator_diag **err)
{
    const ek_tensor *x = &c->in[0];
    const ek_tensor *index = &c->in[1];
    const int64_t width = index->dims[index->rank - 1u];
    const int64_t per_batch = ek_product(index->dims, batch, index->rank - 1u);
    *out_at = ek_offset(per_batch ? r / per_batch : 0, index->dims, strides, batch);
    for (int64_t k = 0; k < width; k++) {
        const int64_t size = x->dims[batch + k];
        int64_t i = st_load_i64(index->dtype, index->data, r * width + k);
        i += i < 0 ? size : 0;
        EK_FAIL_IF(i < 0 || i >= size, c, err, STATOR_OUT_OF_RANGE, "index tuple %lld is outside x",
                   (long long)r);
        *out_at += i * strides[batch + k];
    }
    return STATOR_OK;
}

stator_status ek_gather_nd(const ek_call *c, stator_diag **err)
{
    const ek_tensor *x = &c->in[0];
    const ek_tensor *index = &c->in[1];
    const int64_t batch = ek_int(c, STATOR_gather_nd_batch_dims);
    int64_t strides[STATOR_RANK_MAX];
    EK_FAIL_IF(index->rank == 0 || batch < 0 || batch >= (int64_t)index->rank ||
                   batch + index->dims[index->rank - 1u] > (int64_t)x->rank,
               c, err, STATOR_INVALID_ARGUMENT,
               "batch_dims %lld and the tuples of the index do not fit rank %u of x",
               (long long)batch, x->rank);
    for (uint32_t a = 0; a < (uint32_t)batch; a++) {
        EK_FAIL_IF(index->dims[a] != x->dims[a], c, err, STATOR_INVALID_ARGUMENT,
                   "batch axis %u differs", a);
    }
    const uint32_t used = (uint32_t)(batch + index->dims[index->rank - 1u]);
    const int64_t inner = ek_product(x->dims, used, x->rank);
    ek_bytes_view view;
    ST_TRY(ek_view_bytes(c, &view, err));
    ek_strides(x->dims, x->rank, strides);
    for (int64_t r = 0; r < ek_product(index->dims, 0, index->rank - 1u); r++) {
        int64_t at;
        ST_TRY(ek_tuple_offset(c, (uint32_t)batch, strides, r, &at, err));
        ek_view_copy(&view, r * inner, at, inner);
    }
    ek_pack_out(c, view.out);
    return STATOR_OK;
}
