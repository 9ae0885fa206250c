/* The weights of a convolution with a group for each channel, feature by feature. */
#include "plugins/cpu-llvm/kernels/dn_planes.h"

static const float *first_weight(const dn_planes *p, int64_t feature)
{
    const dn_operand *y = &p->s->y;
    const int64_t times = p->s->features / p->s->channels;
    return (const float *)p->at[DN_Y] +
           (p->op->contraction.is_transposed
                ? feature % times * y->dims[0] + feature / times * y->dims[1]
                : feature * y->dims[0]);
}

void dn_planes_weights(const dn_planes *p, int64_t feature, float *weights)
{
    const int is_transposed = (int)p->op->contraction.is_transposed;
    const float *line = first_weight(p, feature);
    float *to = is_transposed ? weights + p->places - 1 : weights;
    const int64_t step = is_transposed ? -1 : 1;
    for (int64_t i = 0; i < p->kernel[0]; i++, line += p->w_step[0]) {
        for (int64_t k = 0; k < p->kernel[1]; k++, to += step) {
            *to = line[k * p->w_step[1]];
        }
    }
}

bool dn_planes_may_meet_zeros(const dn_planes *p)
{
    float sum = 0;
    if (!p->op->contraction.is_transposed) {
        return true;
    }
    for (int64_t feature = 0; feature < p->s->features; feature++) {
        const float *line = first_weight(p, feature);
        for (int64_t i = 0; i < p->kernel[0]; i++, line += p->w_step[0]) {
            for (int64_t k = 0; k < p->kernel[1]; k++) {
                sum += 0.0f * line[k * p->w_step[1]];
            }
        }
    }
    return sum == 0;
}
