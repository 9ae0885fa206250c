/* The phases of a transposed convolution.
 *
 * Place k of the window brings input i to output i * s + k * d - pad. So output o meets the places
 * of which s divides o + pad - k * d: those with k * d % s == (o + pad) % s, its phase. With g =
 * gcd(d, s) they lie s / g apart and meet inputs d / g apart, further back the larger k is: a plain
 * convolution of stride 1, its places from the last to the first. Of phases that g does not divide,
 * and of those past a window shorter than s, there are none.
 *
 *     s = 2, window 4, pad 1        input       0     1     2
 *                                   places   0 1 2 3
 *                                                0 1 2 3
 *                                   output  - 0 1 2 3 4 -
 *     phase 0 (o = 1, 3, ..)   places 2 0
 *     phase 1 (o = 0, 2, ..)   places 3 1 */
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The places that phase number `phase` meets in a window of so many. */
static dn_phase places_of(int64_t kernel, int64_t dilation, int64_t stride, int64_t phase)
{
    const int64_t step = stride / common_divisor(dilation, stride);
    int64_t first = 0;
    while (first < dn_least(step, kernel) && first * dilation % stride != phase) {
        first++;
    }
    if (first == dn_least(step, kernel)) {
        return (dn_phase){.places = 0};
    }
    const int64_t n = dn_parts(kernel - first, step);
    const int64_t last = first + (n - 1) * step;
    return (dn_phase){
        .places = n, .first = last, .step = -step, .back = (last * dilation - phase) / stride};
}

dn_phases dn_tiles_phases(const st_contraction *contraction, const dn_sizes *s, uint32_t axis)
{
    dn_phases all = {.n = 1, .dilation = 1, .of = {{.places = 1, .step = 1}}};
    if (contraction->kind != ST_CONTRACTION_CONV || (axis == 0 && contraction->n_spatial == 1)) {
        return all;
    }
    const uint32_t i = axis == 0 ? 0 : contraction->n_spatial - 1u;
    const int64_t dilation = contraction->dilation[i];
    const int64_t stride = contraction->stride[i];
    all.dilation = dilation;
    all.of[0].places = s->kernel[i];
    if (!contraction->is_transposed) {
        return all;
    }
    int64_t before = 0;
    all.n = stride;
    all.dilation /= common_divisor(dilation, stride);
    for (int64_t phase = 0; phase < stride; phase++) {
        dn_phase *of = &all.of[phase];
        *of = places_of(s->kernel[i], dilation, stride, phase);
        of->before = before;
        before += of->places;
        all.back = of->back > all.back ? of->back : all.back;
    }
    return all;
}
