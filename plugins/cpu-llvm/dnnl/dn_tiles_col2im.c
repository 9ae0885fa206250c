/* Transposed convolutions of few features: every pixel of the image is multiplied with the whole
 * window, as in a product, and what comes out is summed where it belongs (col2im).
 *
 * By phases the features alone would fill a panel, for a picture 3 columns of 16; here it has those
 * of several places side by side. Summing costs two loads and a store for each place, which is
 * little beside the products of some channels. */
#include "dn_tiles_job.h"

#define FEATURES_MOST 8 /* half a panel of AVX2 */
#define CHANNELS_LEAST 8

int dn_tiles_is_col2im(const st_contraction *contraction, const dn_sizes *s)
{
    const uint32_t last = contraction->n_spatial - 1u;
    const int64_t *strides = s->y.dims + 2;
    return contraction->kind == ST_CONTRACTION_CONV && contraction->is_transposed &&
           contraction->x.dtype == STATOR_F32 && contraction->groups == 1 &&
           s->features <= FEATURES_MOST && s->channels >= CHANNELS_LEAST &&
           (last == 0 || strides[0] == s->kernel[last] * strides[last]);
}

/* Where `n` rows of sums begin, and what is added to them. */
typedef struct addition {
    const float *from;
    float *to;
    int64_t n, from_step, to_step;
} addition;

/* `width`, a constant where this is inlined: elements of each. */
static inline void add_rows(const addition *a, const int width)
{
    const float *from = a->from;
    float *to = a->to;
    for (int64_t i = 0; i < a->n; i++, from += a->from_step, to += a->to_step) {
        for (int k = 0; k < width; k++) {
            to[k] += from[k];
        }
    }
}

/* Place k of the pixels that follow x, all of one phase. `line`: of its products. */
static void add_place(const dn_col2im *c, const float *line, int64_t place, const dn_pixels *p)
{
    const dn_job *j = c->job;
    const dn_phase *across = dn_job_phase(j, 1, p->x);
    const int64_t every = j->phases[1].n;
    const int64_t met = dn_job_met(j, 1, p->x) + place * j->phases[1].dilation;
    const int64_t begin = met < 0 ? -met : 0;
    const int64_t end = dn_least(dn_parts(p->n, every), j->in_width - met);
    const int64_t column = (across->first + place * across->step) * j->features;
    const addition a = {.from = line + (met + begin) * j->products + column,
                        .to = p->sums + begin * every * j->columns,
                        .n = end - begin,
                        .from_step = j->products,
                        .to_step = every * j->columns};
    if (j->features == 1) {
        add_rows(&a, 1);
    } else if (j->features <= 4) {
        add_rows(&a, 4);
    } else {
        add_rows(&a, 8);
    }
}

void dn_col2im_add(const dn_col2im *c, int64_t y, const dn_pixels *pixels)
{
    const dn_job *j = c->job;
    const dn_phase *down = dn_job_phase(j, 0, y);
    const int64_t met = dn_job_met(j, 0, y);
    for (int64_t i = 0; i < down->places; i++) {
        const int64_t at = met + i * j->phases[0].dilation;
        if (at < 0 || at >= j->in_lines) {
            continue;
        }
        const int64_t column = (down->first + i * down->step) * j->kernel_width * j->features;
        const float *line = c->products + (at - c->top) * j->in_width * j->products + column;
        for (int64_t first = 0; first < dn_least(j->phases[1].n, pixels->n); first++) {
            const dn_pixels p = {.x = pixels->x + first,
                                 .n = pixels->n - first,
                                 .sums = pixels->sums + first * j->columns};
            for (int64_t k = 0; k < dn_job_phase(j, 1, p.x)->places; k++) {
                add_place(c, line, k, &p);
            }
        }
    }
}
