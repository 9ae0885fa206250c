/* Convolutions with a group for each channel (depthwise), f32, images with channels first, plane by
 * plane.
 *
 * A plane's weights are few and a pixel is met by one feature alone, so the time is that of
 * reading and writing images, and an implementation that wants its channels contiguous spends
 * it on transposing them. Here some lines of a channel are copied into scratch that stays in the
 * first cache, with the padding around them and, where the stride is not 1, every stride-th
 * pixel contiguous; the inner loops (dn_planes_isa.h) then take a vector of neighbours for
 * each place of the window, whatever its size, dilation and stride. A transposed convolution is
 * one of stride 1 with its window flipped, over an image whose pixels lie the stride apart
 * with zeros between them. Threads take planes and parts of planes concurrently. Short lines and
 * strides are done another way (dn_blocked.c). */
#include "plugins/cpu-llvm/kernels/dn_planes.h"

#include "core/base/check.h"
#include "core/base/diag.h"

#include <string.h>

#define LINES_BYTES ((int64_t)24 << 10) /* scratch for the input of a block's lines, about */
#define SCRATCH_MAX ((int64_t)16 << 20)
#define TABLE_ALIGN 16 /* entries: lines begin at a multiple of 64 bytes */
/* Larger numbers than these are left to others: so products of them stay within 64 bits. */
#define PLACES_MAX 4096
#define EXTENT_MAX ((int64_t)1 << 24)
#define DILATION_MAX 4096
#define STRIDE_MAX 16
#define GRAIN_MACS 100000 /* worth a thread */

/* NULL: this processor has none. */
static const dn_planes_isa *isa_of(const dn_lib *lib)
{
    return DN_ISA_OF(lib, dn_planes);
}

/* ---- sizes ---- */

static void set_axes(dn_planes *p)
{
    const st_contraction *contraction = &p->op->contraction;
    const dn_sizes *s = p->s;
    const uint32_t before = 2u - contraction->n_spatial; /* an axis of one line */
    for (uint32_t i = 0; i < 2; i++) {
        p->in[i] = p->out[i] = p->kernel[i] = p->stride[i] = p->dilation[i] = p->apart[i] = 1;
    }
    for (uint32_t i = before; i < 2; i++) {
        const uint32_t a = i - before;
        p->in[i] = s->in[a];
        p->out[i] = s->out_size[a];
        p->kernel[i] = s->kernel[a];
        p->stride[i] = contraction->stride[a];
        p->dilation[i] = contraction->dilation[a];
        p->pad[i] = s->pad_low[a];
        p->w_step[i] = s->y.dims[2u + a];
        if (contraction->is_transposed) {
            p->apart[i] = p->stride[i];
            p->stride[i] = 1;
            p->pad[i] = (p->kernel[i] - 1) * p->dilation[i] - p->pad[i];
        }
    }
    p->x_line = before ? 0 : s->x.dims[2];
    p->out_line = before ? 0 : s->out.dims[2];
}

/* Lines of the image that `n` lines of the output meet. */
static int64_t lines_met(const dn_planes *p, int64_t n)
{
    return (n - 1) * p->stride[0] + (p->kernel[0] - 1) * p->dilation[0] + 1;
}

static void set_blocks(dn_planes *p)
{
    const int64_t whole = (p->out[1] + p->isa->lanes - 1) / p->isa->lanes * p->isa->lanes;
    p->places = p->kernel[0] * p->kernel[1];
    p->phase = whole + (p->kernel[1] - 1) * p->dilation[1] / p->stride[1] + 1;
    p->pitch = p->phase * p->stride[1];
    const int64_t lines = LINES_BYTES / (p->pitch * (int64_t)sizeof(float));
    const int64_t shared = lines_met(p, 1); /* lines that neighbouring blocks both copy */
    p->block = st_min_i64(p->out[0],
                          st_max_i64((lines - shared) / p->stride[0] + 1, st_max_i64(shared, 8)));
    p->blocks = (p->out[0] + p->block - 1) / p->block;
    p->table = (p->places + p->kernel[1] + TABLE_ALIGN - 1) / TABLE_ALIGN * TABLE_ALIGN;
    p->bytes = p->table * (int64_t)(sizeof(int64_t) + sizeof(float)) +
               (lines_met(p, p->block) * p->pitch + p->isa->lanes) * (int64_t)sizeof(float);
}

static void planes_init(dn_planes *p, const dn_op *op, const dn_sizes *s)
{
    *p = (dn_planes){.lib = op->lib, .op = op, .s = s, .isa = isa_of(op->lib)};
    set_axes(p);
    set_blocks(p);
    p->is_blocked = dn_blocked_init(p);
}

/* ---- a block ---- */

/* A line of the image, every stride-th pixel contiguous. */
static void copy_line(const dn_planes *p, const float *from, float *to)
{
    const int64_t step = p->stride[1];
    for (int64_t i = 0; i < step; i++, to += p->phase) {
        /* Pixel j of this phase is i + j * step - pad of the image. */
        const int64_t first = i >= p->pad[1] ? 0 : (p->pad[1] - i + step - 1) / step;
        const int64_t begin = st_min_i64(first, p->phase);
        const int64_t there = p->in[1] + p->pad[1] - i;
        const int64_t end =
            st_max_i64(begin, st_min_i64(p->phase, there > 0 ? (there + step - 1) / step : 0));
        const float *at = from + i + begin * step - p->pad[1];
        memset(to, 0, (size_t)begin * sizeof *to);
        memset(to + end, 0, (size_t)(p->phase - end) * sizeof *to);
        if (step == 2) {
            p->isa->take_second(at, end - begin, to + begin);
        } else {
            for (int64_t j = begin; j < end; j++) {
                to[j] = at[step * (j - begin)];
            }
        }
    }
}

/* A line whose pixels lie apart. */
static void spread_line(const dn_planes *p, const float *from, float *to)
{
    const int64_t step = p->apart[1];
    const int64_t there = (p->pitch - p->pad[1] + step - 1) / step;
    memset(to, 0, (size_t)p->pitch * sizeof *to);
    for (int64_t i = 0; i < st_min_i64(p->in[1], there); i++) {
        to[p->pad[1] + i * step] = from[i];
    }
}

/* Lines of stride 1. */
static void pad_lines(const dn_planes *p, const float *image, int64_t top, int64_t n, float *to)
{
    const int64_t above = st_min_i64(n, top < 0 ? -top : 0);
    const int64_t there = st_max_i64(0, st_min_i64(n, p->in[0] - top) - above);
    const int64_t begin = st_min_i64(p->pad[1], p->pitch);
    const dn_padding lines = {.from = image + (top + above) * p->x_line,
                              .line = p->x_line,
                              .lines = there,
                              .width = p->pitch,
                              .begin = begin,
                              .end = st_min_i64(p->pitch, begin + p->in[1])};
    memset(to, 0, (size_t)(above * p->pitch) * sizeof *to);
    p->isa->pad_lines(&lines, to + above * p->pitch);
    const int64_t below = n - above - there;
    memset(to + (n - below) * p->pitch, 0, (size_t)(below * p->pitch) * sizeof *to);
}

static void copy_lines(const dn_planes *p, const float *image, int64_t top, int64_t n, float *to)
{
    if (p->stride[1] == 1 && p->apart[0] == 1 && p->apart[1] == 1) {
        pad_lines(p, image, top, n, to);
        return;
    }
    for (int64_t i = top; i < top + n; i++, to += p->pitch) {
        const float *line = image + i / p->apart[0] * p->x_line;
        if (i < 0 || i / p->apart[0] >= p->in[0] || i % p->apart[0] != 0) {
            memset(to, 0, (size_t)p->pitch * sizeof *to);
        } else if (p->apart[1] > 1) {
            spread_line(p, line, to);
        } else {
            copy_line(p, line, to);
        }
    }
}

static int64_t shift_of(const dn_planes *p)
{
    return p->stride[0] == 1 && p->dilation[0] == 1 ? p->kernel[1] : 0;
}

static void set_offsets(const dn_planes *p, int64_t *offset)
{
    for (int64_t i = 0; i < p->places + shift_of(p); i++) {
        const int64_t across = i % p->kernel[1] * p->dilation[1];
        offset[i] = i / p->kernel[1] * p->dilation[0] * p->pitch +
                    across % p->stride[1] * p->phase + across / p->stride[1];
    }
}

/* Blocks begin to end - 1 of all planes, one behind the other. */
static void run_range(void *self, int64_t begin, int64_t end)
{
    dn_planes *p = self;
    const dn_sizes *s = p->s;
    dn_scratch *scratch = dn_scratch_take(p->lib, (uint64_t)p->bytes);
    if (scratch == NULL) {
        p->has_failed = 1;
        return;
    }
    int64_t *offset = dn_scratch_data(scratch);
    float *weights = (float *)(void *)(offset + p->table);
    float *lines = weights + p->table;
    dn_plane plane = {.op = p->op,
                      .at = p->at,
                      .x = lines,
                      .line = p->stride[0] * p->pitch,
                      .width = p->out[1],
                      .places = p->places,
                      .shift = shift_of(p),
                      .ask_bytes = p->stride[0] * p->x_line / p->apart[0] * (int64_t)sizeof(float),
                      .offset = offset,
                      .weights = weights,
                      .out_line = p->out_line};
    set_offsets(p, offset);
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i % p->blocks * p->block;
        const int64_t image = i / p->blocks / s->features;
        plane.feature = i / p->blocks % s->features;
        plane.lines = st_min_i64(p->block, p->out[0] - first);
        plane.out = image * s->out.dims[0] + plane.feature * s->out.dims[1] + first * p->out_line;
        const int64_t channel = plane.feature / (s->features / s->channels);
        const float *x = (const float *)p->at[DN_X] + image * s->x.dims[0] + channel * s->x.dims[1];
        plane.ask = x + (first + plane.lines) * p->stride[0] / p->apart[0] * p->x_line;
        copy_lines(p, x, first * p->stride[0] - p->pad[0], lines_met(p, plane.lines), lines);
        if (i == begin || first == 0) {
            dn_planes_weights(p, plane.feature, weights);
        }
        p->isa->run(&plane);
    }
    dn_scratch_give(p->lib, scratch);
}

stator_status dn_planes_run(const dn_op *op, const dn_sizes *sizes, void *const at[DN_ROLES],
                            stator_ctx *ctx, stator_diag **err)
{
    dn_planes p;
    planes_init(&p, op, sizes);
    p.at = at;
    if (!dn_planes_may_meet_zeros(&p)) {
        dn_plain(op, sizes, NULL, at, ctx);
        return STATOR_OK;
    }
    const int64_t n =
        p.is_blocked ? dn_blocked_count(&p) : sizes->images * sizes->features * p.blocks;
    const int64_t planes = p.is_blocked ? p.isa->lanes : 1; /* interleaved */
    const int64_t grain = GRAIN_MACS / (p.block * p.out[1] * p.places * planes) + 1;
    void (*const run)(void *, int64_t, int64_t) = p.is_blocked ? dn_blocked_run_range : run_range;
    dn_scratch_reserve(op->lib, (uint64_t)p.bytes, st_min_i64(n, sizes->threads));
    dn_parallel(sizes->threads > 1 ? op->lib->host : NULL, ctx, n, grain, run, &p);
    return p.has_failed ? st_fail_oom(err) : STATOR_OK;
}

uint64_t dn_planes_scratch(const dn_op *op, const dn_sizes *sizes)
{
    dn_planes p;
    planes_init(&p, op, sizes);
    return (uint64_t)(p.bytes * sizes->threads);
}

/* ---- which ---- */

static bool is_epilogue_done(const st_contraction *contraction)
{
    const uint32_t done = DN_KIND(BIAS) | DN_KIND(ADD) | DN_KIND(TIMES) | DN_KIND(TIMES_ONE) |
                          DN_KIND(SCALE) | DN_KIND(OFFSET) | DN_KIND(RELU) | DN_KIND(CLIP);
    return !(dn_epilogue_kinds(contraction) & ~done) && dn_is_epilogue_f32(contraction);
}

/* A group for each channel, of one feature or more. */
static bool is_depthwise(const st_contraction *contraction, const dn_sizes *s)
{
    return contraction->kind == ST_CONTRACTION_CONV && !contraction->is_weight_grad &&
           contraction->n_spatial <= 2 && contraction->groups == s->channels && s->channels > 1 &&
           s->features % s->channels == 0 && contraction->x.dtype == STATOR_F32 &&
           contraction->y.dtype == STATOR_F32 && contraction->out.dtype == STATOR_F32;
}

/* Lines are dense, and padding is at their begin and end alone. */
static bool are_lines_dense(const st_contraction *contraction, const dn_sizes *s)
{
    const uint32_t last = contraction->n_spatial - 1u;
    bool is_sound = (s->x.dims[2u + last] == 1 || s->in[last] == 1) &&
                    (s->out.dims[2u + last] == 1 || s->out_size[last] == 1);
    for (uint32_t i = 0; i < contraction->n_spatial; i++) {
        is_sound = is_sound && s->pad_low[i] >= 0 && s->pad_low[i] < EXTENT_MAX &&
                   s->in[i] < EXTENT_MAX && s->out_size[i] < EXTENT_MAX && s->kernel[i] >= 1 &&
                   s->kernel[i] <= PLACES_MAX && contraction->stride[i] <= STRIDE_MAX &&
                   contraction->dilation[i] <= DILATION_MAX &&
                   (!contraction->is_transposed ||
                    s->pad_low[i] <= (s->kernel[i] - 1) * contraction->dilation[i]);
    }
    return is_sound;
}

bool dn_planes_describe(const dn_op *op, const dn_sizes *s, dn_desc *out)
{
    const st_contraction *contraction = &op->contraction;
    dn_planes p;
    memset(out, 0, sizeof *out);
    if (s->is_bare || isa_of(op->lib) == NULL || !is_depthwise(contraction, s) ||
        !are_lines_dense(contraction, s) || !is_epilogue_done(contraction)) {
        return false;
    }
    planes_init(&p, op, s);
    if (p.places > PLACES_MAX || p.bytes > SCRATCH_MAX) {
        return false;
    }
    out->name = "planes";
    out->class_ = DN_GOOD;
    out->how.is_planes = 1;
    return dn_note_operands(op, s, s->features, out);
}
