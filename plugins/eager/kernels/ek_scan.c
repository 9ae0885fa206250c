/* Along one axis: argmax, argmin, cumsum, cumprod. x is seen as [outer, axis, inner]. */
#include "plugins/eager/kernels/ek_loop.h"

typedef struct line_job {
    const ek_call *c;
    int64_t size; /* size of the axis */
    int64_t inner;
    int64_t blocks; /* blocks of EK_BLOCK positions in an inner run */
    bool flag;      /* select_last; exclusive */
    bool reverse;
} line_job;

/* ---- argmax, argmin ---- */

/* Does b take the place of a? NaN beats everything. */
static inline bool beats(double b, double a, bool want_max, bool last)
{
    if (b != b || a != a) {
        return b != b && (a == a || last);
    }
    return want_max ? (b > a || (last && b == a)) : (b < a || (last && b == a));
}

/* The axis is the last one: tasks are whole lines. */
static void arg_f64_line(void *self, int64_t begin, int64_t end)
{
    const line_job *job = self;
    const ek_tensor *in = &job->c->in[0];
    const bool want_max = job->c->op == EAGER_OP_argmax;
    double x[EK_BLOCK];
    for (int64_t t = begin; t < end; t++) {
        double best = 0;
        int64_t index = -1;
        for (int64_t a = 0; a < job->size; a += EK_BLOCK) {
            const int64_t n = job->size - a < EK_BLOCK ? job->size - a : EK_BLOCK;
            st_load_f64_block(in->dtype, in->data, t * job->size + a, n, x);
            for (int64_t k = 0; k < n; k++) {
                if (index < 0 || beats(x[k], best, want_max, job->flag)) {
                    best = x[k];
                    index = a + k;
                }
            }
        }
        ((int64_t *)job->c->out[0].data)[t] = index;
    }
}

static void arg_f64(void *self, int64_t begin, int64_t end)
{
    const line_job *job = self;
    const ek_tensor *in = &job->c->in[0];
    const bool want_max = job->c->op == EAGER_OP_argmax;
    int64_t *out = job->c->out[0].data;
    double best[EK_BLOCK];
    double x[EK_BLOCK];
    for (int64_t t = begin; t < end; t++) {
        const int64_t row = t / job->blocks;
        const int64_t first = t % job->blocks * EK_BLOCK;
        const int64_t n = job->inner - first < EK_BLOCK ? job->inner - first : EK_BLOCK;
        int64_t *index = out + row * job->inner + first;
        const int64_t base = row * job->size * job->inner + first;
        st_load_f64_block(in->dtype, in->data, base, n, best);
        memset(index, 0, (uint64_t)n * sizeof *index);
        for (int64_t a = 1; a < job->size; a++) {
            st_load_f64_block(in->dtype, in->data, base + a * job->inner, n, x);
            for (int64_t k = 0; k < n; k++) {
                if (beats(x[k], best[k], want_max, job->flag)) {
                    best[k] = x[k];
                    index[k] = a;
                }
            }
        }
    }
}

static void arg_i64(void *self, int64_t begin, int64_t end)
{
    const line_job *job = self;
    const ek_tensor *in = &job->c->in[0];
    const uint64_t flip = ek_flip(in->dtype);
    int64_t *out = job->c->out[0].data;
    for (int64_t t = begin; t < end; t++) {
        const int64_t row = t / job->blocks;
        const int64_t first = t % job->blocks * EK_BLOCK;
        const int64_t last = first + EK_BLOCK < job->inner ? first + EK_BLOCK : job->inner;
        for (int64_t i = first; i < last; i++) {
            const int64_t base = row * job->size * job->inner + i;
            int64_t best = 0;
            int64_t index = 0;
            for (int64_t a = 0; a < job->size; a++) {
                int64_t x = st_load_i64(in->dtype, in->data, base + a * job->inner);
                x = (int64_t)((uint64_t)x ^ flip);
                const bool better = job->c->op == EAGER_OP_argmax ? x > best : x < best;
                if (a == 0 || better || (job->flag && x == best)) {
                    best = x;
                    index = a;
                }
            }
            out[row * job->inner + i] = index;
        }
    }
}

static stator_status begin_line(const ek_call *c, line_job *job, uint32_t axis_place)
{
    const ek_tensor *in = &c->in[0];
    *job = (line_job){.c = c, .size = 1, .inner = 1};
    if (in->rank > 0) {
        const uint32_t axis = ek_axis(c, axis_place, in->rank);
        job->size = in->dims[axis];
        job->inner = ek_product(in->dims, axis + 1u, in->rank);
    }
    job->blocks = (job->inner + EK_BLOCK - 1) / EK_BLOCK;
    return STATOR_OK;
}

stator_status ek_arg(const ek_call *c, stator_diag **err)
{
    line_job job;
    _Static_assert(STATOR_argmax_axis == STATOR_argmin_axis &&
                       STATOR_argmax_select_last == STATOR_argmin_select_last,
                   "argmax and argmin have the same attributes");
    ST_TRY(begin_line(c, &job, STATOR_argmax_axis));
    job.flag = ek_int(c, STATOR_argmax_select_last) != 0;
    if (c->out[0].numel == 0) {
        return STATOR_OK;
    }
    EK_FAIL_IF(job.size == 0, c, err, STATOR_INVALID_ARGUMENT, "the axis is empty");
    const int64_t tasks = c->out[0].numel / job.inner * job.blocks;
    const int64_t work = job.size * (job.inner < EK_BLOCK ? job.inner : EK_BLOCK);
    stator_range_fn fn = job.inner == 1 ? arg_f64_line : arg_f64;
    fn = ek_is_float(c->in[0].dtype) ? fn : arg_i64;
    ek_parallel(c, tasks, 16384 / work + 1, fn, &job);
    return STATOR_OK;
}

/* ---- cumsum, cumprod ---- */

static void cumulate_f64(void *self, int64_t begin, int64_t end)
{
    const line_job *job = self;
    const ek_tensor *in = &job->c->in[0];
    const ek_tensor *out = &job->c->out[0];
    const bool is_sum = job->c->op == EAGER_OP_cumsum;
    double x[EK_BLOCK];
    for (int64_t t = begin; t < end; t++) {
        const int64_t step = job->reverse ? -job->inner : job->inner;
        int64_t at = t / job->inner * job->size * job->inner + t % job->inner;
        at += job->reverse ? (job->size - 1) * job->inner : 0;
        double acc = is_sum ? 0.0 : 1.0;
        for (int64_t a = 0; a < job->size; a += EK_BLOCK) {
            const int64_t m = job->size - a < EK_BLOCK ? job->size - a : EK_BLOCK;
            st_load_f64_strided(in->dtype, in->data, at + a * step, step, m, x);
            for (int64_t k = 0; k < m; k++) {
                const double before = acc;
                acc = is_sum ? acc + x[k] : acc * x[k];
                x[k] = job->flag ? before : acc;
            }
            st_store_f64_strided(out->dtype, out->data, at + a * step, step, m, x);
        }
    }
}

static void cumulate_i64(void *self, int64_t begin, int64_t end)
{
    const line_job *job = self;
    const ek_tensor *in = &job->c->in[0];
    const ek_tensor *out = &job->c->out[0];
    const bool is_sum = job->c->op == EAGER_OP_cumsum;
    for (int64_t t = begin; t < end; t++) {
        const int64_t step = job->reverse ? -job->inner : job->inner;
        int64_t at = t / job->inner * job->size * job->inner + t % job->inner;
        at += job->reverse ? (job->size - 1) * job->inner : 0;
        uint64_t acc = is_sum ? 0 : 1;
        for (int64_t a = 0; a < job->size; a++, at += step) {
            const uint64_t before = acc;
            const uint64_t x = (uint64_t)st_load_i64(in->dtype, in->data, at);
            acc = is_sum ? acc + x : acc * x;
            st_store_i64(out->dtype, out->data, at, (int64_t)(job->flag ? before : acc));
        }
    }
}

stator_status ek_cumulate(const ek_call *c, stator_diag **err)
{
    line_job job;
    _Static_assert(STATOR_cumsum_axis == STATOR_cumprod_axis &&
                       STATOR_cumsum_exclusive == STATOR_cumprod_exclusive &&
                       STATOR_cumsum_reverse == STATOR_cumprod_reverse,
                   "cumsum and cumprod have the same attributes");
    (void)err;
    ST_TRY(begin_line(c, &job, STATOR_cumsum_axis));
    job.flag = ek_int(c, STATOR_cumsum_exclusive) != 0;
    job.reverse = ek_int(c, STATOR_cumsum_reverse) != 0;
    if (c->in[0].numel > 0) {
        ek_parallel(c, c->in[0].numel / job.size, 16384 / job.size + 1,
                    ek_is_float(c->in[0].dtype) ? cumulate_f64 : cumulate_i64, &job);
    }
    return STATOR_OK;
}
