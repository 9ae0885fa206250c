/* Reductions over axes, accumulated in f64 or 64-bit integers and rounded once.
 *
 * Axes are merged into alternating kept and reduced ones. When the innermost one is reduced, each
 * result sums runs; when it is kept, blocks of results are accumulated together. The order of
 * summation depends on the shape alone: runs go through blocks of 256, a block through 8 lanes. */
#include "plugins/eager/kernels/ek_loop.h"

#include <math.h>

enum premap { AS_IS, ABS, SQUARE, EXP_SHIFTED };
enum finish { NOTHING, DIVIDE, ROOT, LOGARITHM, LOG_SHIFTED };

typedef struct recipe {
    uint8_t combine;
    uint8_t premap;
    uint8_t finish;
} recipe;

/* clang-format off */
static const recipe recipes[EAGER_OP_COUNT] = {
    [EAGER_OP_reduce_sum] = {EK_SUM, AS_IS, NOTHING},
    [EAGER_OP_reduce_prod] = {EK_PROD, AS_IS, NOTHING},
    [EAGER_OP_reduce_min] = {EK_MIN, AS_IS, NOTHING},
    [EAGER_OP_reduce_max] = {EK_MAX, AS_IS, NOTHING},
    [EAGER_OP_reduce_mean] = {EK_SUM, AS_IS, DIVIDE},
    [EAGER_OP_reduce_l1] = {EK_SUM, ABS, NOTHING},
    [EAGER_OP_reduce_l2] = {EK_SUM, SQUARE, ROOT},
    [EAGER_OP_reduce_sum_square] = {EK_SUM, SQUARE, NOTHING},
    [EAGER_OP_reduce_log_sum] = {EK_SUM, AS_IS, LOGARITHM},
    [EAGER_OP_reduce_log_sum_exp] = {EK_SUM, EXP_SHIFTED, LOG_SHIFTED},
};
/* clang-format on */

typedef struct axes {
    uint32_t n;
    int64_t sizes[STATOR_RANK_MAX];
    int64_t strides[STATOR_RANK_MAX];
    int64_t count; /* product of sizes */
} axes;

typedef struct reduce_job {
    const ek_call *c;
    recipe r;
    axes kept;
    axes reduced;
    int64_t run;    /* length of contiguous runs of one result, 1 when the inner axis is kept */
    int64_t inner;  /* contiguous results, 1 when the inner axis is reduced */
    int64_t blocks; /* blocks of EK_BLOCK results in an inner run */
    int64_t number; /* elements reduced into one result */
} reduce_job;

static void push_axis(axes *list, int64_t size, int64_t stride, bool merges)
{
    if (merges) {
        list->sizes[list->n - 1u] *= size;
        list->strides[list->n - 1u] = stride;
    } else {
        list->sizes[list->n] = size;
        list->strides[list->n] = stride;
        list->n++;
    }
    list->count *= size;
}

/* Splits the axes; the innermost one of extent > 1 becomes `run` or `inner`. */
static void split_axes(reduce_job *job, uint32_t mask)
{
    const ek_tensor *in = &job->c->in[0];
    int64_t strides[STATOR_RANK_MAX];
    int last = -1;
    ek_strides(in->dims, in->rank, strides);
    job->kept.count = job->reduced.count = 1;
    for (uint32_t a = 0; a < in->rank; a++) {
        const int is_reduced = (mask >> a) & 1u;
        if (in->dims[a] != 1) {
            push_axis(is_reduced ? &job->reduced : &job->kept, in->dims[a], strides[a],
                      last == is_reduced);
            last = is_reduced;
        }
    }
    job->number = job->reduced.count;
    job->run = job->inner = 1;
    if (last == 1) {
        job->run = job->reduced.sizes[--job->reduced.n];
        job->reduced.count = job->run ? job->reduced.count / job->run : 0;
    } else if (last == 0) {
        job->inner = job->kept.sizes[--job->kept.n];
        job->kept.count = job->inner ? job->kept.count / job->inner : 0;
    }
    if (job->number == 0) {
        job->reduced.count = 0;
    }
    job->blocks = (job->inner + EK_BLOCK - 1) / EK_BLOCK;
}

static int64_t offset_of(const axes *list, int64_t i)
{
    return ek_offset(i, list->sizes, list->strides, list->n);
}

/* ---- f64 ---- */

static void map_f64(double *x, int64_t n, int premap, const double *shift, int64_t shift_step)
{
    for (int64_t k = 0; premap == ABS && k < n; k++) {
        x[k] = fabs(x[k]);
    }
    for (int64_t k = 0; premap == SQUARE && k < n; k++) {
        x[k] *= x[k];
    }
    for (int64_t k = 0; premap == EXP_SHIFTED && k < n; k++) {
        x[k] = exp(x[k] - shift[k * shift_step]);
    }
}

static double identity_f64(int combine)
{
    return combine == EK_PROD  ? 1.0
           : combine == EK_MIN ? (double)INFINITY
           : combine == EK_MAX ? -(double)INFINITY
                               : 0.0;
}

static double sum_block(const double *x, int64_t n)
{
    double lane[8] = {0};
    int64_t k = 0;
    for (; k + 8 <= n; k += 8) {
        for (int j = 0; j < 8; j++) {
            lane[j] += x[k + j];
        }
    }
    for (; k < n; k++) {
        lane[k & 7] += x[k];
    }
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* How an element is changed before it is combined, and how it is combined. */
typedef struct sweep {
    int combine, premap;
    const double *shift; /* shifts of EXP_SHIFTED, one a result */
} sweep;

/* One result from a run. */
static void run_f64(const reduce_job *job, int64_t at, const sweep *s, double *acc)
{
    const ek_tensor *in = &job->c->in[0];
    double x[EK_BLOCK];
    for (int64_t i = 0; i < job->run; i += EK_BLOCK) {
        const int64_t m = job->run - i < EK_BLOCK ? job->run - i : EK_BLOCK;
        st_load_f64_block(in->dtype, in->data, at + i, m, x);
        map_f64(x, m, s->premap, s->shift, 0);
        if (s->combine == EK_SUM) {
            *acc += sum_block(x, m);
        }
        for (int64_t k = 0; s->combine != EK_SUM && k < m; k++) {
            *acc = ek_combine_f64((uint32_t)s->combine, *acc, x[k]);
        }
    }
}

/* n contiguous results, from all reduced positions. */
static void sweep_f64(const reduce_job *job, int64_t base, int64_t n, const sweep *s, double *acc)
{
    const int combine = s->combine;
    const ek_tensor *in = &job->c->in[0];
    double x[EK_BLOCK];
    for (int64_t k = 0; k < n; k++) {
        acc[k] = identity_f64(combine);
    }
    for (int64_t r = 0; r < job->reduced.count; r++) {
        const int64_t at = base + offset_of(&job->reduced, r);
        if (job->run != 1) {
            run_f64(job, at, s, acc);
            continue;
        }
        st_load_f64_block(in->dtype, in->data, at, n, x);
        map_f64(x, n, s->premap, s->shift, 1);
        switch (combine) { /* one loop each, so that it vectorises */
        case EK_SUM:
            for (int64_t k = 0; k < n; k++) {
                acc[k] += x[k];
            }
            break;
        default:
            for (int64_t k = 0; k < n; k++) {
                acc[k] = ek_combine_f64((uint32_t)combine, acc[k], x[k]);
            }
            break;
        }
    }
}

static void finish_f64(const reduce_job *job, int64_t n, const double *shift, double *acc)
{
    for (int64_t k = 0; k < n; k++) {
        switch (job->r.finish) {
        case DIVIDE:
            acc[k] /= (double)job->number;
            break;
        case ROOT:
            acc[k] = sqrt(acc[k]);
            break;
        case LOGARITHM:
            acc[k] = log(acc[k]);
            break;
        case LOG_SHIFTED:
            acc[k] = log(acc[k]) + shift[k];
            break;
        default:
            break;
        }
    }
}

/* Tasks are blocks of results. */
static void range_f64(void *self, int64_t begin, int64_t end)
{
    const reduce_job *job = self;
    const ek_tensor *out = &job->c->out[0];
    double acc[EK_BLOCK];
    double shift[EK_BLOCK] = {0};
    const sweep largest = {.combine = EK_MAX, .premap = AS_IS};
    const sweep all = {.combine = job->r.combine, .premap = job->r.premap, .shift = shift};
    for (int64_t t = begin; t < end; t++) {
        const int64_t row = t / job->blocks;
        const int64_t first = t % job->blocks * EK_BLOCK;
        const int64_t n = job->inner - first < EK_BLOCK ? job->inner - first : EK_BLOCK;
        const int64_t base = offset_of(&job->kept, row) + first;
        if (job->r.premap == EXP_SHIFTED) {
            sweep_f64(job, base, n, &largest, shift);
            for (int64_t k = 0; k < n; k++) {
                shift[k] = isfinite(shift[k]) ? shift[k] : 0.0;
            }
        }
        sweep_f64(job, base, n, &all, acc);
        finish_f64(job, n, shift, acc);
        st_store_f64_block(out->dtype, out->data, row * job->inner + first, n, acc);
    }
}

/* ---- integers ---- */

static int64_t identity_i64(int combine, uint32_t dtype)
{
    return combine == EK_SUM ? 0 : combine == EK_PROD ? 1 : ek_int_limit(dtype, combine == EK_MIN);
}

static int64_t map_i64(int64_t x, int premap, int is_signed)
{
    if (premap == ABS && is_signed && x < 0) {
        return (int64_t)(0 - (uint64_t)x);
    }
    return premap == SQUARE ? (int64_t)((uint64_t)x * (uint64_t)x) : x;
}

static int64_t finish_i64(const reduce_job *job, int64_t acc)
{
    const bool is_u64 = job->c->in[0].dtype == STATOR_U64;
    const double wide = is_u64 ? (double)(uint64_t)acc : (double)acc;
    switch (job->r.finish) {
    case DIVIDE:
        if (job->number == 0) {
            return 0;
        }
        return is_u64 ? (int64_t)((uint64_t)acc / (uint64_t)job->number) : acc / job->number;
    case ROOT:
        return st_f64_to_i64(sqrt(wide));
    case LOGARITHM:
        return st_f64_to_i64(log(wide));
    default:
        return acc;
    }
}

static void range_i64(void *self, int64_t begin, int64_t end)
{
    const reduce_job *job = self;
    const ek_tensor *in = &job->c->in[0];
    const ek_tensor *out = &job->c->out[0];
    const uint64_t flip = ek_flip(in->dtype);
    const int is_signed = (EK_INT >> in->dtype) & 1u;
    int64_t x[EK_BLOCK];
    int64_t acc[EK_BLOCK];
    for (int64_t t = begin; t < end; t++) {
        const int64_t row = t / job->blocks;
        const int64_t first = t % job->blocks * EK_BLOCK;
        const int64_t n = job->inner - first < EK_BLOCK ? job->inner - first : EK_BLOCK;
        const int64_t base = offset_of(&job->kept, row) + first;
        for (int64_t k = 0; k < n; k++) {
            acc[k] = identity_i64(job->r.combine, in->dtype);
        }
        for (int64_t r = 0; r < job->reduced.count; r++) {
            const int64_t at = base + offset_of(&job->reduced, r);
            const int64_t step = job->run != 1 ? 0 : 1; /* a run goes into acc[0] */
            const int64_t all = job->run != 1 ? job->run : n;
            for (int64_t i = 0; i < all; i += EK_BLOCK) {
                const int64_t m = all - i < EK_BLOCK ? all - i : EK_BLOCK;
                st_load_i64_block(in->dtype, in->data, at + i, m, x);
                for (int64_t k = 0; k < m; k++) {
                    int64_t *a = &acc[k * step];
                    *a = ek_combine_i64(job->r.combine, *a, map_i64(x[k], job->r.premap, is_signed),
                                        flip);
                }
            }
        }
        for (int64_t k = 0; k < n; k++) {
            acc[k] = finish_i64(job, acc[k]);
        }
        st_store_i64_block(out->dtype, out->data, row * job->inner + first, n, acc);
    }
}

stator_status ek_reduce(const ek_call *c, stator_diag **err)
{
    reduce_job job = {.c = c, .r = recipes[c->op]};
    /* Every reduction has the attribute axes at the same place. */
    _Static_assert(STATOR_reduce_sum_axes == 0 && STATOR_reduce_log_sum_exp_axes == 0 &&
                       STATOR_reduce_mean_axes == 0,
                   "place of axes");
    (void)err;
    split_axes(&job, ek_axes_mask(c, STATOR_reduce_sum_axes, c->in[0].rank));
    const bool is_f64 = ek_is_float(c->in[0].dtype) || c->op == EAGER_OP_reduce_log_sum_exp;
    const int64_t tasks = job.kept.count * job.blocks;
    const int64_t work = job.number * (job.inner < EK_BLOCK ? job.inner : EK_BLOCK) + 1;
    if (c->out[0].numel > 0) {
        ek_parallel(c, tasks, 16384 / work + 1, is_f64 ? range_f64 : range_i64, &job);
    }
    return STATOR_OK;
}
