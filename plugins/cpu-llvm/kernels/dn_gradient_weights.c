/* Gradients of convolutions to their weights: which pixels a weight is a sum over, and the way of
 * sums to the weights. */
#include "plugins/cpu-llvm/kernels/dn_gradient.h"
#include "plugins/cpu-llvm/kernels/dn_planes.h"

#include "core/base/check.h"

#define LANES_MAX 16

dn_gradient_range dn_gradient_both(dn_gradient_range a, dn_gradient_range b)
{
    const int64_t begin = st_max_i64(a.begin, b.begin);
    return (dn_gradient_range){begin, st_max_i64(begin, st_min_i64(a.end, b.end))};
}

dn_gradient_range dn_gradient_met(const dn_gradient *d, uint32_t axis, int64_t k)
{
    const int64_t step = d->stride[axis];
    const int64_t before = d->pad[axis] - k * d->dilation[axis]; /* the pixel that 0 would meet */
    const int64_t there = d->in[axis] + before;
    const int64_t end = st_min_i64(d->out[axis], there > 0 ? (there + step - 1) / step : 0);
    const int64_t begin = before > 0 ? (before + step - 1) / step : 0;
    return (dn_gradient_range){st_min_i64(begin, end), end};
}

dn_gradient_range dn_gradient_met_by_all(const dn_gradient *d, uint32_t axis,
                                         dn_gradient_range places)
{
    dn_gradient_range met = {0, d->out[axis]};
    for (int64_t k = places.begin; k < places.end; k++) {
        met = dn_gradient_both(met, dn_gradient_met(d, axis, k));
    }
    return met;
}

int64_t dn_gradient_lines_met(const dn_gradient *d, uint32_t axis, int64_t n)
{
    const int64_t met = (n - 1) * d->stride[axis] + (d->kernel[axis] - 1) * d->dilation[axis] + 1;
    return st_min_i64(d->in[axis], met);
}

dn_gradient_range dn_gradient_lines_of(const dn_gradient *d, uint32_t axis, dn_gradient_range out)
{
    const int64_t first = out.begin * d->stride[axis] - d->pad[axis];
    const int64_t last =
        (out.end - 1) * d->stride[axis] - d->pad[axis] + (d->kernel[axis] - 1) * d->dilation[axis];
    const int64_t begin = st_min_i64(st_max_i64(0, first), d->in[axis]);
    return (dn_gradient_range){begin, st_max_i64(begin, st_min_i64(d->in[axis], last + 1))};
}

/* Do the weights of a window, and windows of channels, lie one behind the other, as sums do? */
static bool are_weights_dense(const dn_gradient *d)
{
    int64_t dense = 1;
    if (d->is_place_major) {
        return false;
    }
    for (uint32_t i = DN_GRADIENT_AXES; i-- > 0;) {
        if (d->kernel[i] > 1 && d->w_dim[i] != dense) {
            return false;
        }
        dense *= d->kernel[i];
    }
    return d->channels == 1 || d->s->out.dims[1] == dense;
}

/* Place of a weight behind that of the first channel, by its number. */
static int64_t weight_at(const dn_gradient *d, int64_t i)
{
    const int64_t k = d->is_place_major ? i / d->channels : i % d->places;
    const int64_t channel = d->is_place_major ? i % d->channels : i / d->places;
    return channel * d->s->out.dims[1] + k / d->kernel[2] / d->kernel[1] * d->w_dim[0] +
           k / d->kernel[2] % d->kernel[1] * d->w_dim[1] + k % d->kernel[2] * d->w_dim[2];
}

void dn_gradient_give(const dn_gradient *d, const float *sums, int64_t n, int64_t count,
                      int64_t first, float *weights)
{
    const int64_t lanes = d->isa->lanes;
    const int64_t step = d->s->out.dims[0];
    float *rows[LANES_MAX];
    for (int64_t i = 0; i < lanes; i++) {
        rows[i] = weights + i * step + first;
    }
    if (count == lanes && are_weights_dense(d)) {
        DN_ISA_OF(d->op->lib, dn_planes)->to_rows(sums, 0, n, rows);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < n; j++) {
            weights[i * step + weight_at(d, first + j)] = sums[j * lanes + i];
        }
    }
}
