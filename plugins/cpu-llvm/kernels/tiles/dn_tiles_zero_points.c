/* Terms that zero points add to sums of bytes, by feature (their zero terms), and what an epilogue
 * that makes bytes of them has for each feature. Made once a call. */
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles_job.h"

#include "core/base/convert.h"

#include <float.h>
#include <string.h>

#define MOVE 128         /* added to bytes of the other sign */
#define PANELS_GRAIN 128 /* panels that are worth another thread */

int32_t dn_job_zero(const dn_job *j, uint32_t k, int64_t each)
{
    const st_contraction_zero *zero = k ? &j->contraction->y_zero : &j->contraction->x_zero;
    const void *at = j->at[DN_ZERO + k];
    const int32_t moved = k == 0                                 ? (j->flip ? MOVE : 0)
                          : j->contraction->y.dtype == STATOR_U8 ? -MOVE
                                                                 : 0;
    if (!dn_has_zero(zero)) {
        return moved;
    }
    return moved +
           (zero->is_each ? (int32_t)st_load_i64(zero->dtype, at, each) : *(const int32_t *)at);
}

bool dn_job_has_bias(const st_contraction *contraction)
{
    return contraction->acc_dtype == STATOR_I32 && contraction->n_epilogue &&
           contraction->epilogue[0].kind == ST_EPILOGUE_BIAS &&
           contraction->epilogue[0].dtype == STATOR_I32;
}

static int32_t y_zero_of(const dn_job *j, int64_t feature)
{
    return j->contraction->y_zero.is_each ? dn_job_zero(j, 1, feature) : j->y_zero;
}

void dn_job_weigh_zero(const dn_job *j, int64_t panel, const dn_phase *down, const dn_phase *across,
                       int32_t *out)
{
    const int64_t phase = (down - j->phases[0].of) * j->phases[1].n + (across - j->phases[1].of);
    const int32_t *sums =
        j->column_sums + (panel * j->phases[0].n * j->phases[1].n + phase) * j->columns;
    /* Products of a sum: of an image, with the channels that fill its groups. */
    const uint32_t n =
        (uint32_t)(j->is_image ? down->places * dn_job_run(j, across) * dn_tiles_together(j->isa)
                               : j->s.k);
    const int64_t first = dn_job_feature(j, panel);
    const int64_t features = dn_job_features(j, panel);
    for (int64_t i = 0; i < features; i++) {
        out[i] = (int32_t)(n * (uint32_t)j->y_zero - (uint32_t)sums[i]);
    }
    for (int64_t i = 0; j->contraction->y_zero.is_each && i < features; i++) {
        out[i] = (int32_t)((uint32_t)out[i] + n * (uint32_t)dn_job_zero(j, 1, first + i));
    }
}

/* Finite: so many times a sum of 0 is 0. */
static float factor_of(double value)
{
    return (float)(value > FLT_MAX ? FLT_MAX : value < -FLT_MAX ? -FLT_MAX : value);
}

/* Factors and addends of the epilogue, by feature, divided by its divisor. */
static void set_byte_terms(const dn_job *j, int64_t panel, dn_zero_terms *out)
{
    const dn_to_bytes *to = &j->op->to_bytes;
    const float *times = to->times ? j->at[DN_POST + to->times - 1u] : NULL;
    const float *bias = to->bias ? j->at[DN_POST + to->bias - 1u] : NULL;
    const int64_t first = dn_job_feature(j, panel);
    const int64_t features = dn_job_features(j, panel);
    for (int64_t i = 0; i < features; i++) {
        out->times[i] = factor_of(times ? (double)times[first + i] * to->factor : to->factor);
        out->bias[i] = bias ? (float)(bias[first + i] * to->bias_factor) : 0.0f;
    }
}

/* The terms of a panel. Where there are several phases, shift_sums adds those of x's zero point. */
static void set_panel_terms(const dn_job *j, int64_t panel, dn_zero_terms *out)
{
    const int64_t first = dn_job_feature(j, panel);
    const int32_t *bias = dn_job_has_bias(j->contraction) ? j->at[DN_POST] : NULL;
    memset(out, 0, sizeof *out);
    if (!j->is_mixed) {
        dn_job_weigh_zero(j, panel, j->phases[0].of, j->phases[1].of, out->weights);
    }
    const int64_t features = dn_job_features(j, panel);
    for (int64_t i = 0; i < features; i++) {
        out->column[i] = (int32_t)((uint32_t)j->x_zero * (uint32_t)out->weights[i] +
                                   (bias ? (uint32_t)bias[first + i] : 0));
        out->factor[i] = -y_zero_of(j, first + i);
    }
    if (j->op->to_bytes.is_done) {
        set_byte_terms(j, panel, out);
    }
}

void dn_job_set_zeros(dn_job *j)
{
    const st_contraction *contraction = j->contraction;
    if (j->is_bytes) {
        j->x_zero = contraction->x_zero.is_each ? 0 : dn_job_zero(j, 0, 0);
        j->y_zero = contraction->y_zero.is_each ? 0 : dn_job_zero(j, 1, 0);
        j->has_row_sums = j->y_zero || contraction->y_zero.is_each;
    }
    j->fill = j->is_image ? dn_job_group(j, (uint32_t)(j->x_zero & 0xff)) : 0;
    j->is_cut = j->is_image && !j->is_wino && !j->sections.are_singles && j->x_zero == 0;
}

typedef struct zero_terms_job {
    const dn_job *job;
    dn_zero_terms *to;
} zero_terms_job;

static void set_range(void *self, int64_t begin, int64_t end)
{
    const zero_terms_job *all = self;
    for (int64_t panel = begin; panel < end; panel++) {
        set_panel_terms(all->job, panel, &all->to[panel]);
    }
}

uint64_t dn_job_zero_terms_bytes(const dn_job *j)
{
    return (uint64_t)j->panels * sizeof(dn_zero_terms);
}

void dn_job_make_zero_terms(dn_job *j, void *to, stator_ctx *ctx)
{
    const bool is_shared = j->s.threads > 1 && j->panels >= 2 * PANELS_GRAIN;
    zero_terms_job all = {.job = j, .to = to};
    j->zero_terms = to;
    dn_parallel(is_shared ? j->op->lib->host : NULL, ctx, j->panels, PANELS_GRAIN, set_range, &all);
}
