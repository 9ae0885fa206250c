/* Tensors from nothing: iota, sizes as data, random words; and check.
 *
 * Random numbers are Philox4x32-10 (core/base/philox.h): word i % 4 of block i / 4 + offset, key =
 * seed, so that any element can be computed alone and results do not depend on threads. */
#include "core/base/philox.h"
#include "plugins/eager/eager.h"

#include <math.h>

#define BLOCK 256

/* ---- iota, dims ---- */

typedef struct iota_job {
    const ek_call *c;
    int64_t size;  /* size of the axis */
    int64_t inner; /* elements that repeat one number */
} iota_job;

static void iota_range(void *self, int64_t begin, int64_t end)
{
    const iota_job *job = self;
    const ek_tensor *out = &job->c->out[0];
    int64_t x[BLOCK];
    int64_t k = begin % job->inner;
    int64_t number = begin / job->inner % job->size;
    for (int64_t i = begin; i < end; i += BLOCK) {
        const int64_t n = end - i < BLOCK ? end - i : BLOCK;
        for (int64_t e = 0; e < n; e++) {
            x[e] = number;
            if (++k == job->inner) {
                k = 0;
                number = number + 1 == job->size ? 0 : number + 1;
            }
        }
        st_store_i64_block(out->dtype, out->data, i, n, x);
    }
}

stator_status ek_iota(const ek_call *c, stator_diag **err)
{
    const ek_tensor *out = &c->out[0];
    (void)err;
    if (out->rank == 0 || out->numel == 0) {
        memset(out->data, 0, ek_bytes(out->dtype, out->numel));
        return STATOR_OK;
    }
    const uint32_t axis = ek_axis(c, STATOR_iota_axis, out->rank);
    iota_job job = {c, out->dims[axis], ek_product(out->dims, axis + 1u, out->rank)};
    ek_parallel(c, out->numel, 16384, iota_range, &job);
    return STATOR_OK;
}

stator_status ek_dims(const ek_call *c, stator_diag **err)
{
    uint32_t n;
    const int64_t *values = ek_ints(c, STATOR_dims_values, &n);
    EK_FAIL_IF((int64_t)n != c->out[0].numel, c, err, STATOR_INVALID_ARGUMENT,
               "%u values for a tensor of %lld elements", n, (long long)c->out[0].numel);
    memcpy(c->out[0].data, values, n * sizeof *values);
    return STATOR_OK;
}

/* ---- random ---- */

typedef struct rng_job {
    const ek_call *c;
    uint64_t seed;
    uint64_t offset;
    double a, b; /* low and high, or mean and scale */
} rng_job;

/* One element from the four words of its block. */
static double uniform_of(const rng_job *job, const uint32_t words[4], int64_t lane)
{
    return job->a + (job->b - job->a) * ((double)(words[lane] >> 8) * 0x1p-24);
}

/* Box and Muller, 1958, on words 0 and 1 or 2 and 3; u1 lies in (0, 1]. */
static double normal_of(const rng_job *job, const uint32_t words[4], int64_t lane)
{
    const int64_t pair = lane & 2;
    const double u1 = ((double)(words[pair] >> 8) + 1.0) * 0x1p-24;
    const double u2 = (double)(words[pair + 1] >> 8) * 0x1p-24;
    const double radius = sqrt(-2.0 * log(u1));
    const double angle = 6.28318530717958647692 * u2;
    return job->a + job->b * radius * (lane & 1 ? sin(angle) : cos(angle));
}

static void rng_range(void *self, int64_t begin, int64_t end)
{
    const rng_job *job = self;
    const ek_tensor *out = &job->c->out[0];
    uint32_t words[4];
    for (int64_t i = begin; i < end; i++) {
        const int64_t lane = i & 3;
        if (lane == 0 || i == begin) {
            st_philox((uint64_t)(i / 4) + job->offset, job->seed, words);
        }
        if (job->c->op == EAGER_OP_rng_bits) {
            ((uint32_t *)out->data)[i] = words[lane];
        } else {
            ek_put(out, i,
                   job->c->op == EAGER_OP_rng_uniform ? uniform_of(job, words, lane)
                                                      : normal_of(job, words, lane));
        }
    }
}

stator_status ek_rng(const ek_call *c, stator_diag **err)
{
    for (uint32_t k = 0; k < 2; k++) {
        EK_FAIL_IF(c->in[k].numel != 1, c, err, STATOR_INVALID_ARGUMENT, "%s must be a scalar",
                   k == 0 ? "seed" : "offset");
    }
    rng_job job = {.c = c,
                   .seed = (uint64_t)st_load_i64(c->in[0].dtype, c->in[0].data, 0),
                   .offset = (uint64_t)st_load_i64(c->in[1].dtype, c->in[1].data, 0)};
    if (c->op == EAGER_OP_rng_uniform) {
        job.a = ek_float(c, STATOR_rng_uniform_low);
        job.b = ek_float(c, STATOR_rng_uniform_high);
    } else if (c->op == EAGER_OP_rng_normal) {
        job.a = ek_float(c, STATOR_rng_normal_mean);
        job.b = ek_float(c, STATOR_rng_normal_scale);
    }
    ek_parallel(c, c->out[0].numel, 4096, rng_range, &job);
    return STATOR_OK;
}

/* ---- check ---- */

stator_status ek_check(const ek_call *c, stator_diag **err)
{
    const uint8_t *ok = c->in[0].data;
    for (int64_t i = 0; i < c->in[0].numel; i++) {
        EK_FAIL_IF(!ok[i], c, err, STATOR_FAILED_PRECONDITION, "%s",
                   ek_str(c, STATOR_check_message));
    }
    memcpy(c->out[0].data, ok, (uint64_t)c->in[0].numel);
    return STATOR_OK;
}
