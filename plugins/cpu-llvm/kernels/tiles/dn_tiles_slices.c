/* Transposed convolutions over three axes as transposed convolutions over two.
 *
 * Output slice o of the depth axis reads the input slices that its phase names (dn_tiles_phases.c):
 * n of them, `dilation` apart, each with its own slice of the kernel. So the output slices of one
 * phase are images of a convolution over the other two axes, whose channels are those of all n
 * input slices. A phase has weights of its own, and the op has as many phases as the stride. With a
 * kernel as long as the stride n is 1.
 *
 *     stride 2, kernel 3, pad 1      input slices         0     1     2
 *                                    kernel slices      0 1 2
 *                                                           0 1 2
 *     phase 1 (outputs 0, 2, ..)     kernel slice 1; n = 1
 *     phase 0 (outputs 1, 3, ..)     kernel slices 2, 0 of inputs i, i + 1; n = 2 */
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"

#include <string.h>

static void drop_axis(int64_t *extents)
{
    memmove(extents, extents + 1, (DN_SPATIAL - 1u) * sizeof *extents);
    extents[DN_SPATIAL - 1u] = 0;
}

int64_t dn_tiles_slices(const st_contraction *contraction)
{
    return contraction->kind == ST_CONTRACTION_CONV && contraction->n_spatial == 3
               ? contraction->stride[0]
               : 1;
}

void dn_tiles_slice(const st_contraction *contraction, const dn_sizes *s, int64_t phase,
                    dn_tiles_part *out)
{
    out->contraction = *contraction;
    out->sizes = *s;
    if (contraction->kind != ST_CONTRACTION_CONV || contraction->n_spatial != 3) {
        return;
    }
    const dn_phases depth = dn_tiles_phases(contraction, s, 0);
    const dn_phase *of = &depth.of[phase];
    const int64_t stride = contraction->stride[0];
    const int64_t output = (stride + phase - s->pad_low[0] % stride) % stride;
    dn_sizes *sizes = &out->sizes;
    sizes->slices = (dn_slices){.n = of->places,
                                .in = s->in[0],
                                .out = dn_parts(s->out_size[0] - output, stride),
                                .first = (output + s->pad_low[0]) / stride - of->back,
                                .dilation = depth.dilation,
                                .x_step = s->x.dims[2],
                                .out_step = s->out.dims[2] * stride,
                                .out_first = s->out.dims[2] * output,
                                .weight_first = s->y.dims[2] * of->first,
                                .weight_step = s->y.dims[2] * of->step};
    sizes->images *= sizes->slices.out;
    out->contraction.n_spatial = 2;
    drop_axis(out->contraction.stride);
    drop_axis(out->contraction.dilation);
    drop_axis(sizes->in);
    drop_axis(sizes->kernel);
    drop_axis(sizes->out_size);
    drop_axis(sizes->pad_low);
    drop_axis(sizes->pad_high);
    drop_axis(sizes->x.dims + 2);
    drop_axis(sizes->y.dims + 2);
    drop_axis(sizes->out.dims + 2);
}

bool dn_tiles_are_slices_done(const st_contraction *contraction, const dn_sizes *s)
{
    const int64_t kernel_most = DN_TILE_PIXELS; /* far more than any phase's channels are worth */
    if (contraction->n_spatial != 3) {
        return true;
    }
    if (!contraction->is_transposed || contraction->x.dtype != STATOR_F32 ||
        contraction->stride[0] < 1 || contraction->stride[0] > DN_PHASES_MAX ||
        s->out_size[0] < contraction->stride[0] || s->kernel[0] < 1 || s->kernel[0] > kernel_most ||
        contraction->dilation[0] < 1 || contraction->dilation[0] > DN_SLICES_MAX || s->in[0] < 1 ||
        s->in[0] > DN_SLICES_MAX || s->pad_low[0] < 0 || s->pad_low[0] > DN_SLICES_MAX ||
        s->images > DN_SLICES_MAX || s->out_size[0] > DN_SLICES_MAX) {
        return false;
    }
    const dn_phases depth = dn_tiles_phases(contraction, s, 0);
    for (int64_t i = 0; i < depth.n; i++) {
        if (depth.of[i].places < 1 || (contraction->groups > 1 && depth.of[i].places > 1)) {
            return false;
        }
    }
    return true;
}
