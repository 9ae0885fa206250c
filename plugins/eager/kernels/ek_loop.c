/* Broadcast loops; see ek_loop.h. */
#include "plugins/eager/kernels/ek_loop.h"

/* Least number of elements worth a thread of their own. */
#define GRAIN 16384

static bool same_shape(const ek_tensor *a, const ek_tensor *b)
{
    return a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0);
}

/* Stride of an operand along axis `a` of the result: 0 where it repeats, -1 when it does not fit.
 */
static int64_t stride_of(const ek_tensor *t, const ek_tensor *out, uint32_t a)
{
    if (t->dtype == 0 || a + t->rank < out->rank) {
        return 0;
    }
    const uint32_t own = a + t->rank - out->rank;
    if (t->dims[own] == 1) {
        return 0;
    }
    return t->dims[own] == out->dims[a] ? ek_product(t->dims, own + 1u, t->rank) : -1;
}

/* Appends an axis, merged into the one before when every operand walks on through it. */
static void append_axis(ek_loop *l, int64_t size, const int64_t *strides)
{
    if (l->rank > 0) {
        const uint32_t last = l->rank - 1u;
        bool merges = true;
        for (uint32_t k = 0; k < l->n; k++) {
            merges &= l->strides[k][last] == strides[k] * size;
        }
        if (merges) {
            l->sizes[last] *= size;
            for (uint32_t k = 0; k < l->n; k++) {
                l->strides[k][last] = strides[k];
            }
            return;
        }
    }
    l->sizes[l->rank] = size;
    for (uint32_t k = 0; k < l->n; k++) {
        l->strides[k][l->rank] = strides[k];
    }
    l->rank++;
}

/* The last axis becomes the row. */
static void take_inner(ek_loop *l)
{
    if (l->rank == 0) {
        l->inner = 1;
    } else {
        l->rank--;
        l->inner = l->sizes[l->rank];
        for (uint32_t k = 0; k < l->n; k++) {
            l->step[k] = l->strides[k][l->rank] != 0;
        }
    }
    l->rows = 1;
    for (uint32_t a = 0; a < l->rank; a++) {
        l->rows *= l->sizes[a];
    }
}

stator_status ek_loop_init(const ek_call *c, ek_loop *l, uint32_t n, stator_diag **err)
{
    const ek_tensor *out = &c->out[0];
    bool plain = true;
    l->n = n;
    l->rank = 0;
    for (uint32_t k = 0; k < n; k++) {
        l->step[k] = ek_has_in(c, k) && c->in[k].numel != 1;
        plain &= !l->step[k] || same_shape(&c->in[k], out);
        plain &= !ek_has_in(c, k) || c->in[k].rank <= out->rank;
    }
    if (plain) {
        l->rows = 1;
        l->inner = out->numel;
        return STATOR_OK;
    }
    for (uint32_t a = 0; a < out->rank; a++) {
        int64_t strides[EK_LOOP_MAX];
        for (uint32_t k = 0; k < n; k++) {
            static const ek_tensor absent;
            const ek_tensor *t = k < c->n_in ? &c->in[k] : &absent;
            strides[k] = stride_of(t, out, a);
            EK_FAIL_IF(strides[k] < 0 || t->rank > out->rank, c, err, STATOR_INVALID_ARGUMENT,
                       "operand %u does not broadcast to the result: its sizes must be 1 "
                       "or those of the result",
                       k);
        }
        if (out->dims[a] != 1) {
            append_axis(l, out->dims[a], strides);
        }
    }
    take_inner(l);
    return STATOR_OK;
}

typedef struct loop_job {
    const ek_loop *l;
    ek_row_fn row;
    const void *self;
} loop_job;

/* Rows begin..end. */
static void run_rows(void *job_, int64_t begin, int64_t end)
{
    const loop_job *job = job_;
    const ek_loop *l = job->l;
    int64_t index[STATOR_RANK_MAX];
    int64_t at[EK_LOOP_MAX] = {0};
    int64_t rest = begin;
    for (uint32_t a = l->rank; a-- > 0;) {
        index[a] = rest % l->sizes[a];
        rest /= l->sizes[a];
        for (uint32_t k = 0; k < l->n; k++) {
            at[k] += index[a] * l->strides[k][a];
        }
    }
    for (int64_t r = begin; r < end; r++) {
        job->row(job->self, r * l->inner, at, l->inner);
        for (uint32_t a = l->rank; a-- > 0;) {
            for (uint32_t k = 0; k < l->n; k++) {
                at[k] += l->strides[k][a];
            }
            if (++index[a] < l->sizes[a]) {
                break;
            }
            for (uint32_t k = 0; k < l->n; k++) {
                at[k] -= l->strides[k][a] * l->sizes[a];
            }
            index[a] = 0;
        }
    }
}

/* Elements begin..end of the only row. */
static void run_elements(void *job_, int64_t begin, int64_t end)
{
    const loop_job *job = job_;
    int64_t at[EK_LOOP_MAX];
    for (uint32_t k = 0; k < job->l->n; k++) {
        at[k] = begin * job->l->step[k];
    }
    job->row(job->self, begin, at, end - begin);
}

void ek_loop_run(const ek_call *c, const ek_loop *l, ek_row_fn row, const void *row_self)
{
    loop_job job = {l, row, row_self};
    if (l->rows <= 0 || l->inner <= 0) {
        return;
    }
    if (l->rows == 1) {
        ek_parallel(c, l->inner, GRAIN, run_elements, &job);
    } else {
        ek_parallel(c, l->rows, l->inner >= GRAIN ? 1 : GRAIN / l->inner + 1, run_rows, &job);
    }
}

void ek_block_i64(const ek_tensor *t, int64_t at, int32_t step, int64_t n, int64_t *out)
{
    if (step) {
        st_load_i64_block(t->dtype, t->data, at, n, out);
        return;
    }
    const int64_t x = st_load_i64(t->dtype, t->data, at);
    for (int64_t i = 0; i < n; i++) {
        out[i] = x;
    }
}
