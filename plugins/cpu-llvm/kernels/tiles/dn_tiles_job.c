/* What dn_tiles.c takes, and how it is cut: sizes, blocks of lines or rows for the threads, and the
 * scratch of each. */
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles_job.h"

#include <string.h>

#define CACHE_BYTES ((int64_t)448 << 10) /* an image's lines, or rows, in scratch */
#define ROWS_MAX 126                     /* rows of a product's block, at most */
#define ROWS_MIN 24                      /* rows of a block, at least, however long they are */
#define TIGHT_MAX 7                      /* channels of a pixel that fills no groups */
#define WINOGRAD_PRODUCT_ROWS 16         /* with fewer, the weights' memory counts */
#define WINOGRAD_PRODUCT_DEPTH 64        /* with less, the work besides products counts */
#define WINO_BYTES ((int64_t)400 << 10)  /* bytes of Winograd tiles in scratch */
#define WINO_MIN 32                      /* Winograd tiles in scratch, at least */
#define SCRATCH_MAX ((int64_t)16 << 20)  /* a thread's scratch: images are not cut across lines */
/* Larger numbers than these are left to others: so products of them stay within 64 bits. */
#define EXTENT_MAX ((int64_t)1 << 24)
#define CHANNELS_MAX ((int64_t)1 << 20)
#define WINDOW_MAX ((int64_t)1 << 16)
#define PITCH_MAX ((int64_t)1 << 24) /* bytes */
#define PANEL_MAX ((int64_t)1 << 36)
#define WINOGRAD_WINDOW 3
#define WINOGRAD_BYTES_MAX 1800 /* channels: 4 * 9 * 1800 * 255 * 128 < 2^31 */

const dn_tiles_isa *dn_tiles_isa_of(const dn_lib *lib, uint32_t dtype)
{
    if (lib->flags & DNNL_VECTORS_16) {
        return NULL;
    }
    const bool is_narrow = (lib->flags & DNNL_VECTORS_32) != 0;
    const dn_tiles_isa *wide = is_narrow             ? NULL
                               : dtype == STATOR_F32 ? dn_tiles_floats_512()
                                                     : dn_tiles_512(dtype);
    return wide ? wide : dn_tiles_256(dtype);
}

const dn_tiles_isa *dn_tiles_isa_for(const dn_lib *lib, const st_contraction *contraction,
                                     const dn_sizes *s)
{
    const dn_tiles_isa *isa = dn_tiles_isa_of(lib, contraction->x.dtype);
    if (isa == NULL || isa != dn_tiles_floats_512() || contraction->x.dtype != STATOR_F32 ||
        (dn_epilogue_kinds(contraction) & DN_KIND(GELU_ERF))) {
        return isa;
    }
    if (dn_tiles_is_col2im(contraction, s)) { /* columns are pixels */
        return dn_tiles_wide_512();
    }
    /* Panels of twice the columns, where that makes no more columns than there are. */
    const int64_t features =
        contraction->kind == ST_CONTRACTION_CONV ? s->features / contraction->groups : s->n;
    const int64_t columns = 2 * isa->lanes;
    return dn_parts(features, columns) % 2 == 0 ? dn_tiles_wide_512() : isa;
}

bool dn_tiles_are_second(const dn_lib *lib, const st_contraction *contraction)
{
    return contraction->x.dtype == STATOR_F32 && !contraction->is_transposed &&
           dn_tiles_isa_of(lib, STATOR_F32) == dn_tiles_floats_512();
}

bool dn_tiles_is_tight(const dn_tiles_isa *isa, const st_contraction *contraction,
                       const dn_sizes *s)
{
    const uint32_t last = contraction->n_spatial - 1u;
    return contraction->kind == ST_CONTRACTION_CONV && isa->may_be_tight &&
           contraction->groups == 1 && !contraction->is_transposed &&
           contraction->dilation[last] == 1 && s->channels <= TIGHT_MAX &&
           s->channels % dn_tiles_together(isa) != 0 &&
           (isa->sum_bytes == NULL || dn_has_plain_weights(contraction));
}

/* A group for each channel, of one feature. */
static bool are_singles(const dn_tiles_isa *isa, const st_contraction *contraction,
                        const dn_sizes *s)
{
    int64_t places = 1;
    if (contraction->kind != ST_CONTRACTION_CONV || isa->run_singles == NULL ||
        contraction->is_transposed || contraction->groups == 1 ||
        contraction->groups != s->channels || contraction->groups != s->features ||
        !dn_has_plain_weights(contraction)) {
        return false;
    }
    for (uint32_t i = 0; i < contraction->n_spatial && places <= DN_SINGLES_MAX; i++) {
        places *= dn_least(s->kernel[i], DN_SINGLES_MAX + 1);
    }
    return places <= DN_SINGLES_MAX;
}

dn_sections dn_tiles_sections(const dn_tiles_isa *isa, const st_contraction *contraction,
                              const dn_sizes *s)
{
    const bool is_image = contraction->kind == ST_CONTRACTION_CONV;
    dn_sections all = {.n = is_image ? contraction->groups : 1};
    all.features = is_image ? s->features / all.n : s->n;
    all.channels = is_image ? s->channels / all.n : s->k;
    all.channels *= s->slices.n ? s->slices.n : 1;
    all.step = all.channels;
    if (are_singles(isa, contraction, s)) {
        all = (dn_sections){.channels = 1, .are_singles = true};
        all.features = 2 * isa->lanes;
        all.step = all.features;
        all.n = dn_parts(s->features, all.features);
    }
    if (isa->run_fours && all.n % 4 == 0 && all.channels == 4 && all.features == 4) {
        all.are_fours = true;
        all.n /= 4;
        all.features *= 4;
        all.step *= 4;
    }
    return all;
}

/* ---- sizes ---- */

/* Pixels of each channel are contiguous; or with `pixel` channels those of each pixel. */
static bool is_dense(const int64_t *strides, uint32_t n, const int64_t *extents, int64_t pixel)
{
    int64_t next = pixel;
    for (uint32_t i = n; i-- > 0;) {
        if (extents[i] != 1 && strides[2 + i] != next) {
            return false;
        }
        next *= extents[i];
    }
    return true;
}

static bool is_channels_last(const int64_t *strides, uint32_t n, const int64_t *extents,
                             int64_t channels)
{
    return strides[1] == 1 && is_dense(strides, n, extents, channels) &&
           !is_dense(strides, n, extents, 1);
}

/* Are the pixels of the images rows of a product, with the output's? Their tiles are full then,
 * whatever the width of an image, and floats are read where they lie. */
static bool is_pointwise(const st_contraction *contraction, const dn_sizes *s)
{
    int64_t pixels = 1;
    for (uint32_t i = 0; i < contraction->n_spatial; i++) {
        if (s->slices.n || s->kernel[i] != 1 || contraction->stride[i] != 1 || s->pad_low[i] ||
            s->in[i] != s->out_size[i]) {
            return false;
        }
        pixels *= s->in[i];
    }
    return contraction->groups == 1 &&
           is_channels_last(s->x.dims, contraction->n_spatial, s->in, s->channels) &&
           is_channels_last(s->out.dims, contraction->n_spatial, s->out_size, s->features) &&
           (s->images == 1 ||
            (s->x.dims[0] == pixels * s->channels && s->out.dims[0] == pixels * s->features));
}

/* The sizes of that product; those of the images stay, for what asks by the contraction's kind. */
static void make_product(const st_contraction *contraction, dn_sizes *s)
{
    s->m = s->images;
    for (uint32_t i = 0; i < contraction->n_spatial; i++) {
        s->m *= s->in[i];
    }
    s->n = s->features;
    s->k = s->channels;
    s->x.stride[0] = s->channels;
    s->out.stride[0] = s->features;
}

bool dn_tiles_is_winograd_product(const dn_tiles_isa *isa, const st_contraction *contraction,
                                  const dn_sizes *s)
{
    dn_sizes product = *s;
    if (isa->run_winograd_product == NULL ||
        (contraction->kind == ST_CONTRACTION_CONV && !is_pointwise(contraction, s))) {
        return false;
    }
    if (contraction->kind == ST_CONTRACTION_CONV) {
        make_product(contraction, &product);
    }
    return product.m >= WINOGRAD_PRODUCT_ROWS && product.k >= WINOGRAD_PRODUCT_DEPTH;
}

/* A line of scratch: what windows reach before the image, the image and what they reach behind. */
static void set_pitch(dn_job *j)
{
    const int64_t first = dn_job_first_met(j, 1, 0);
    int64_t end = 0;
    if (j->is_transposed) {
        end = (j->width - 1 + j->pad[1]) / j->stride[1] + 1;
    } else if (j->is_wino) {
        end = first + j->across * j->isa->winograd_tile + 2;
    } else {
        end = first + (j->width - 1) * j->stride[1] +
              (j->kernel_width - 1) * j->phases[1].dilation + 1;
    }
    if (j->is_col2im) { /* nothing but the image */
        j->pitch = j->in_width * j->pixel;
        return;
    }
    j->left = first < 0 ? -first : 0;
    j->pitch = (j->left + (end > j->in_width ? end : j->in_width)) * j->pixel;
    if (j->is_tight) { /* the last group's filling */
        j->pitch = (dn_parts(j->pitch, DN_TILE_GROUP) + 1) * DN_TILE_GROUP;
    }
}

static void set_image(dn_job *j)
{
    const st_contraction *contraction = j->contraction;
    const dn_sizes *s = &j->s;
    const uint32_t last = contraction->n_spatial - 1u;
    const bool is_flat = last == 0;
    j->is_last[0] = is_channels_last(s->x.dims, contraction->n_spatial, s->in, s->channels);
    j->is_last[1] = is_channels_last(s->out.dims, contraction->n_spatial, s->out_size, s->features);
    j->images = s->images;
    j->lines = is_flat ? 1 : s->out_size[0];
    j->width = s->out_size[last];
    j->in_lines = is_flat ? 1 : s->in[0];
    j->in_width = s->in[last];
    j->kernel_lines = is_flat ? 1 : s->kernel[0];
    j->kernel_width = s->kernel[last];
    for (uint32_t i = 0; i < 2; i++) {
        const bool is_line = i == 0;
        j->stride[i] = is_line && is_flat ? 1 : contraction->stride[is_line ? 0 : last];
        j->pad[i] = is_line && is_flat ? 0 : s->pad_low[is_line ? 0 : last];
        if (j->is_wino && contraction->is_transposed) { /* as a plain one: may_be_transposed */
            j->pad[i] = WINOGRAD_WINDOW - 1 - j->pad[i];
        }
    }
    j->across = j->is_wino ? dn_parts(j->width, j->isa->winograd_tile) : 0;
    const int64_t tight = j->kernel_width * j->channels;
    j->run = j->is_tight ? dn_parts(tight, dn_tiles_together(j->isa))
                         : j->kernel_width * j->section_depth;
    j->has_rest = j->is_tight && !j->is_bytes && tight % dn_tiles_together(j->isa) != 0;
    set_pitch(j);
}

static void set_product(dn_job *j)
{
    j->images = 1;
    j->lines = 1;
    j->width = j->s.m;
    j->kernel_lines = 1;
    j->kernel_width = 1;
    j->pitch = j->pixel;
    j->run = j->depth;
    j->stride[0] = 1;
    j->stride[1] = 1;
}

/* Places of the window in scratch, the last one twice where they are odd. */
static void set_places(dn_job *j)
{
    const int64_t n = j->kernel_lines * j->kernel_width;
    for (int64_t i = 0; i < n; i++) {
        j->places_at[i] = i / j->kernel_width * j->phases[0].dilation * j->pitch +
                          i % j->kernel_width * j->phases[1].dilation * j->pixel;
    }
    j->places_at[n] = j->places_at[n - 1];
    j->section_depth = dn_parts(n, 2);
    j->panel_bytes = j->isa->size == 1
                         ? j->kernel_width * dn_parts(j->kernel_lines, 4) * DN_TILE_COLUMN
                         : j->section_depth * DN_TILE_PAIR;
}

/* Sizes (simplified) and what follows from them alone. */
static void set_sizes(dn_job *j, const dn_op *op, const dn_tiles_part *part, uint32_t is_wino)
{
    const dn_sizes *s = &part->sizes;
    memset(j, 0, sizeof *j);
    j->op = op;
    j->contraction = &part->contraction;
    j->s = *s;
    j->isa = dn_tiles_isa_for(op->lib, j->contraction, s);
    j->columns = 2 * j->isa->lanes;
    j->is_image = j->contraction->kind == ST_CONTRACTION_CONV && !is_pointwise(j->contraction, s);
    if (j->contraction->kind == ST_CONTRACTION_CONV && !j->is_image) {
        make_product(j->contraction, &j->s);
    }
    j->is_transposed = j->is_image && j->contraction->is_transposed && !is_wino;
    j->phases[0] = dn_tiles_phases(j->contraction, s, 0);
    j->phases[1] = dn_tiles_phases(j->contraction, s, 1);
    j->is_col2im = j->is_transposed && dn_tiles_is_col2im(j->contraction, s);
    j->is_mixed = j->is_col2im || j->phases[0].n * j->phases[1].n > 1;
    j->is_wino = (int)is_wino;
    j->size = (int64_t)st_element_bytes(j->contraction->x.dtype);
    j->is_bytes = j->size == 1;
    j->features = j->is_image ? s->features : j->s.n;
    j->channels = j->is_image ? s->channels * (s->slices.n ? s->slices.n : 1) : j->s.k;
    const int64_t together = dn_tiles_together(j->isa);
    const int64_t of_weight =
        is_wino ? j->isa->size : (int64_t)st_element_bytes(j->contraction->y.dtype);
    j->group_bytes = together * of_weight * j->columns;
    j->is_winograd_product = !is_wino && dn_tiles_is_winograd_product(j->isa, j->contraction, s);
    j->depth = dn_parts(j->channels, together);
    j->depth += j->is_winograd_product && j->depth % 2;
    j->sections = dn_tiles_sections(j->isa, j->contraction, s);
    j->section_panels = dn_parts(j->sections.features, j->columns);
    j->section_depth = j->is_image ? dn_parts(j->sections.channels, together) : j->depth;
    j->is_tight = j->is_image && !is_wino && dn_tiles_is_tight(j->isa, j->contraction, s);
    j->pixel = j->is_tight ? j->channels * j->isa->size : j->depth * DN_TILE_GROUP;
    j->flip = j->contraction->x.dtype == STATOR_I8 ? dn_job_group(j, 0x80) : 0;
    j->is_copied = j->is_image || j->flip || j->size != j->isa->size || j->channels % together != 0;
    if (j->is_image) {
        set_image(j);
    } else {
        set_product(j);
    }
    j->panels = j->sections.n * j->section_panels;
    j->places = is_wino ? dn_tiles_places(j->isa) : 0;
    j->panel_bytes = is_wino ? j->places * dn_wino_step(j->depth * j->columns) * DN_TILE_GROUP
                             : j->kernel_lines * j->run * j->group_bytes;
    if (j->sections.are_singles) {
        set_places(j);
    } else if (j->is_winograd_product) {
        j->panel_bytes = DN_TILE_PAIR + j->depth * j->group_bytes;
    }
    if (j->is_col2im) {
        j->products = j->kernel_lines * j->kernel_width * j->features;
        j->panels = 1;
        j->panel_bytes = j->products * j->depth * DN_TILE_GROUP;
    }
}

/* Lines of an image, at most, that are in scratch at a time. */
static int64_t lines_most(dn_job *j)
{
    if (!j->is_wino) {
        const int64_t line =
            j->is_col2im ? j->in_width * j->products * (int64_t)sizeof(float) : j->pitch;
        const int64_t held = CACHE_BYTES / line - dn_job_lines(j, 1) + 1;
        const int64_t lines = j->is_transposed ? (held - 1) * j->stride[0] : held / j->stride[0];
        return lines < 1 ? 1 : lines;
    }
    const int64_t down = dn_parts(j->lines, j->isa->winograd_tile);
    int64_t winograd_tiles = WINO_BYTES / (j->places * j->depth * DN_TILE_GROUP);
    winograd_tiles = winograd_tiles < WINO_MIN ? WINO_MIN : winograd_tiles;
    j->together = winograd_tiles / (j->across * down);
    j->together = dn_least(j->together < 1 ? 1 : j->together, j->images);
    return (winograd_tiles < j->across ? 1 : winograd_tiles / j->across) * j->isa->winograd_tile;
}

/* With a group for each channel a panel meets its own channels alone, and copying the image, which
 * all panels need, is much of the time: so threads share the lines where each gets as many. */
static bool are_lines_shared(const dn_job *j)
{
    const int64_t most = dn_parts(j->lines, j->s.threads);
    return j->sections.are_singles && 8 * most * j->s.threads <= 9 * j->lines;
}

/* Cuts the call so that threads have the same number of blocks each, or panels to share. */
static void set_blocks(dn_job *j)
{
    const int64_t threads = j->s.threads;
    const int64_t whole = j->is_image ? j->lines : j->width;
    int64_t most = dn_least(CACHE_BYTES / j->pitch,
                            j->is_winograd_product ? (int64_t)DN_TILE_PIXELS : ROWS_MAX);
    most = most < ROWS_MIN ? ROWS_MIN : most;
    j->together = 1;
    if (j->is_image) {
        most = lines_most(j);
    }
    j->image_chunks = dn_parts(j->images, j->together);
    j->blocks = dn_parts(whole, most);
    j->parts = 1;
    /* Where the weights are larger than the rows, each thread reads panels of its own. */
    const bool is_heavy = !j->is_image && j->panels * j->panel_bytes > whole * j->pitch;
    if (threads > 1 && (is_heavy || j->image_chunks * j->blocks % threads != 0)) {
        if (j->panels >= 2 * threads && !are_lines_shared(j)) {
            j->parts = threads;
        } else if (j->image_chunks % threads != 0) {
            j->blocks = dn_least(dn_parts(j->blocks, threads) * threads, whole);
        }
    }
    j->block = dn_parts(whole, j->blocks);
    j->block = dn_job_rounded(j, j->block);
    j->blocks = dn_parts(whole, j->block);
    j->scratch_lines = j->is_image ? dn_job_lines(j, j->block) : j->block;
    j->is_panel_made = j->is_wino && !j->is_packed && j->image_chunks * j->blocks == 1;
}

/* ---- scratch of a thread ---- */

static int64_t rounded(int64_t bytes)
{
    return dn_parts(bytes, DN_TILE_ALIGN) * DN_TILE_ALIGN;
}

static void set_bytes(dn_job *j)
{
    const int64_t size = sizeof(float);
    const int64_t rows =
        j->is_wino ? j->isa->winograd_tile * j->width + j->isa->lanes : DN_SUMS_PITCH;
    const int64_t pixels = j->block * (j->is_image ? j->width : 1);
    j->winograd_tiles = j->is_wino ? j->together * j->block / j->isa->winograd_tile * j->across : 0;
    j->bytes.sums = rounded(rows * j->columns * size);
    j->bytes.transposed =
        rounded((j->is_col2im ? j->features * DN_SUMS_PITCH : j->columns * j->isa->lanes) * size);
    j->bytes.row_sums = j->is_bytes ? rounded(pixels * size) : 0;
    j->bytes.winograd_tiles =
        j->places * size *
        (dn_wino_step(j->winograd_tiles * j->depth) + dn_wino_step(j->winograd_tiles * j->columns));
    /* Whole panels, and an odd number of cache lines: rows differ in their sets of the cache. */
    const int64_t panels = dn_parts(j->scratch_lines * j->in_width, j->columns);
    j->products_step = (rounded(panels * j->columns * size) | DN_TILE_ALIGN) / size;
    j->bytes.products = j->is_col2im ? j->products * j->products_step * size : 0;
    /* Kernels of singles read a whole section of the last pixel. */
    const int64_t more = j->sections.are_singles ? j->columns * j->isa->size : 0;
    const int64_t copied =
        j->is_col2im ? j->depth * j->columns * size : j->scratch_lines * j->pitch + more;
    j->bytes.copy = j->is_copied ? rounded(copied) : 0;
    j->bytes.panel = j->is_winograd_product ? rounded(j->depth * DN_TILE_PAIR)
                     : j->is_panel_made     ? rounded(j->panel_bytes)
                                            : 0;
    j->bytes.all = j->bytes.sums + j->bytes.panel + j->bytes.transposed + 3 * j->bytes.row_sums +
                   j->bytes.winograd_tiles + j->bytes.products + j->bytes.copy;
}

int64_t dn_job_packed_bytes(const dn_job *j)
{
    return dn_job_sums_bytes(j) + j->panels * j->panel_bytes;
}

bool dn_job_init(dn_job *j, const dn_op *op, const dn_tiles_part *part, uint32_t is_wino,
                 bool is_packed)
{
    set_sizes(j, op, part, is_wino);
    j->is_packed = is_packed;
    if (j->pitch < 1 || j->pitch > PITCH_MAX || j->panel_bytes > PANEL_MAX) {
        return false;
    }
    set_blocks(j);
    set_bytes(j);
    return j->bytes.all <= SCRATCH_MAX;
}

/* ---- which ---- */

bool dn_tiles_has_epilogue(const st_contraction *contraction)
{
    const bool is_float = contraction->x.dtype == STATOR_F32;
    const uint32_t others = DN_KIND(GELU_TANH) | DN_KIND(SIGMOID) | DN_KIND(TANH) | DN_KIND(SILU) |
                            (is_float ? 0 : DN_KIND(GELU_ERF));
    return !(dn_epilogue_kinds(contraction) & others) &&
           (!is_float || dn_is_epilogue_f32(contraction));
}

static bool is_zero_done(const st_contraction_zero *zero, uint32_t dtype)
{
    const int32_t least = dtype == STATOR_I8 ? -128 : 0;
    return zero->has_buffer ? zero->dtype == dtype
                            : zero->value >= least && zero->value <= least + 255;
}

static bool are_dtypes_done(const st_contraction *contraction)
{
    if (contraction->x.dtype == STATOR_BF16) {
        return contraction->y.dtype == STATOR_BF16;
    }
    if (contraction->x.dtype == STATOR_F32) {
        return contraction->y.dtype == STATOR_F32 && contraction->out.dtype == STATOR_F32;
    }
    return (contraction->x.dtype == STATOR_U8 || contraction->x.dtype == STATOR_I8) &&
           (contraction->y.dtype == STATOR_U8 || contraction->y.dtype == STATOR_I8) &&
           is_zero_done(&contraction->x_zero, contraction->x.dtype) &&
           is_zero_done(&contraction->y_zero, contraction->y.dtype);
}

static bool is_small(int64_t n, int64_t least, int64_t most)
{
    return n >= least && n <= most;
}

/* One of each, or more than one channel and feature a group, in whole groups of elements; of bytes
 * without zero points of the weights, as sums of rows are not made by section. */
static bool are_sections_done(const dn_tiles_isa *isa, const st_contraction *contraction,
                              const dn_sizes *s)
{
    const int64_t channels = s->channels / contraction->groups;
    const int64_t features = s->features / contraction->groups;
    return contraction->groups == 1 || are_singles(isa, contraction, s) ||
           (channels > 1 && features > 1 && channels % dn_tiles_together(isa) == 0 &&
            channels * contraction->groups == s->channels &&
            features * contraction->groups == s->features &&
            (isa->sum_bytes == NULL || dn_has_plain_weights(contraction)));
}

static bool is_image_done(const dn_tiles_isa *isa, const st_contraction *contraction,
                          const dn_sizes *s)
{
    const int64_t stride_most = contraction->is_transposed ? DN_PHASES_MAX : WINDOW_MAX;
    if (contraction->n_spatial > 2 || s->images < 1 || !are_sections_done(isa, contraction, s) ||
        !is_small(s->channels, 1, CHANNELS_MAX) || !is_small(s->features, 1, CHANNELS_MAX)) {
        return false;
    }
    const bool may_be_last = contraction->x.dtype == STATOR_F32 || isa->widen != NULL;
    const uint32_t n = contraction->n_spatial;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_small(s->in[i], 1, EXTENT_MAX) || !is_small(s->out_size[i], 1, EXTENT_MAX) ||
            !is_small(s->kernel[i], 1, WINDOW_MAX) || !is_small(s->pad_low[i], 0, WINDOW_MAX) ||
            (!contraction->is_transposed && !is_small(s->pad_high[i], 0, WINDOW_MAX)) ||
            !is_small(contraction->stride[i], 1, stride_most) ||
            !is_small(contraction->dilation[i], 1, WINDOW_MAX)) {
            return false;
        }
    }
    if (!is_dense(s->x.dims, n, s->in, 1) &&
        !(may_be_last && is_channels_last(s->x.dims, n, s->in, s->channels))) {
        return false;
    }
    if (!is_dense(s->out.dims, n, s->out_size, 1) &&
        !(may_be_last && is_channels_last(s->out.dims, n, s->out_size, s->features))) {
        return false;
    }
    return true;
}

static bool is_product_done(const dn_sizes *s)
{
    return s->n_batch == 0 && s->m >= 1 && is_small(s->n, 1, EXTENT_MAX) &&
           is_small(s->k, 1, EXTENT_MAX) && (s->x.stride[1] == 1 || s->k == 1) &&
           (s->out.stride[1] == 1 || s->n == 1);
}

/* Packed weights, whose name tells how they lie; the rows of col2im by their strides. */
static bool packed_of(const dn_job *j, int64_t bytes, dnnl_memory_desc_t *out)
{
    if (j->is_col2im) {
        const int64_t depth = bytes / (j->products * DN_TILE_GROUP); /* groups of all parts */
        const dnnl_dims_t dims = {depth, j->products, DN_TILE_GROUP};
        const dnnl_dims_t strides = {DN_TILE_GROUP, depth * DN_TILE_GROUP, 1};
        return dn_strided(3, dims, dnnl_u8, strides, out);
    }
    const int64_t row = j->columns * j->isa->size;
    const int64_t rows = bytes / row / j->sections.n;
    const dnnl_dims_t dims = {j->sections.n, rows, j->columns, j->isa->size};
    const dnnl_dims_t strides = {rows * row, row, j->isa->size, 1};
    return dn_strided(4, dims, dnnl_u8, strides, out);
}

/* The caller's weights, for a name that tells their order. */
static bool weights_of(const st_contraction *contraction, const dn_sizes *s,
                       dnnl_memory_desc_t *out)
{
    dnnl_dims_t dims = {s->k, s->n};
    dnnl_dims_t strides = {s->y.stride[0], s->y.stride[1]};
    int n = 2;
    if (contraction->kind == ST_CONTRACTION_CONV) {
        n = 2 + (int)contraction->n_spatial;
        dims[0] = s->features / (contraction->is_transposed ? contraction->groups : 1);
        dims[1] = s->channels / (contraction->is_transposed ? 1 : contraction->groups);
        memcpy(dims + 2, s->kernel, contraction->n_spatial * sizeof dims[0]);
        memcpy(strides, s->y.dims, (size_t)n * sizeof strides[0]);
    }
    for (int i = 0; i < n; i++) {
        strides[i] = strides[i] > 0 ? strides[i] : 1;
    }
    return dn_strided(n, dims, dn_type_of(contraction->y.dtype), strides, out);
}

/* The name of packed weights tells of no strides that run backwards, or nowhere. */
static bool are_strides_named(const st_contraction *contraction, const dn_sizes *s)
{
    const bool is_image = contraction->kind == ST_CONTRACTION_CONV;
    bool is_done = true;
    for (uint32_t i = 0; i < 2; i++) {
        const int64_t extent = is_image ? (i ? s->channels : s->features) : i ? s->n : s->k;
        is_done &= extent <= 1 || (is_image ? s->y.dims[i] : s->y.stride[i]) > 0;
    }
    for (uint32_t i = 0; is_image && i < contraction->n_spatial; i++) {
        is_done &= s->kernel[i] <= 1 || s->y.dims[2u + i] > 0;
    }
    return is_done;
}

/* Constants; else what is worth transforming in each call, for Winograd's algorithm. */
static bool are_weights_done(const dn_op *op, const dn_sizes *s, uint32_t is_winograd)
{
    const bool is_worth = is_winograd && op->contraction.x.dtype == STATOR_F32;
    return (op->has_constant || is_worth) && are_strides_named(&op->contraction, s);
}

bool dn_tiles_has_winograd(const dn_op *op)
{
    const dn_tiles_isa *isa = dn_tiles_isa_of(op->lib, op->contraction.x.dtype);
    return isa != NULL && isa->winograd_tile != 0 && (op->has_constant || isa->wino_taps != NULL);
}

/* Bytes whose sums stay within 32 bits when they are four times as large. */
static bool may_bytes_be_winograd(const dn_op *op, const dn_sizes *s)
{
    const st_contraction *contraction = &op->contraction;
    return contraction->acc_dtype == STATOR_I32 && dn_has_plain_weights(contraction) &&
           !contraction->is_transposed && s->channels <= WINOGRAD_BYTES_MAX &&
           dn_tiles_has_winograd(op);
}

/* The transposed convolution is one of the taps from the last to the first, whose padding is what
 * the window has besides one place and its own. oneDNN has no such one by Winograd. */
static bool may_be_transposed(const dn_op *op, const dn_sizes *s)
{
    return dn_tiles_has_winograd(op) && s->pad_low[0] < WINOGRAD_WINDOW &&
           s->pad_low[1] < WINOGRAD_WINDOW;
}

bool dn_may_be_winograd(const dn_op *op, const dn_sizes *s)
{
    const st_contraction *contraction = &op->contraction;
    if (!(op->lib->flags & DNNL_WINOGRAD) || contraction->kind != ST_CONTRACTION_CONV ||
        contraction->is_weight_grad || contraction->n_spatial != 2 || contraction->groups != 1 ||
        s->is_bare || (contraction->is_transposed && !may_be_transposed(op, s)) ||
        (contraction->x.dtype != STATOR_F32 && !may_bytes_be_winograd(op, s))) {
        return false;
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (s->kernel[i] != WINOGRAD_WINDOW || contraction->stride[i] != 1 ||
            contraction->dilation[i] != 1) {
            return false;
        }
    }
    return true;
}

/* Products of f32, which oneDNN does as well where there are no tiles but the second best. */
static bool is_left(const dn_lib *lib, const st_contraction *contraction)
{
    return contraction->kind != ST_CONTRACTION_CONV && dn_tiles_are_second(lib, contraction);
}

/* The parts of a contraction: the job of the last one, and bytes of the packed weights of all.
 * 0: some part is not done. */
static bool are_parts_done(const dn_op *op, const dn_sizes *s, uint32_t is_winograd, dn_job *out,
                           int64_t *out_bytes)
{
    const dn_tiles_isa *isa = dn_tiles_isa_for(op->lib, &op->contraction, s);
    dn_tiles_part part;
    *out_bytes = 0;
    if (!dn_tiles_are_slices_done(&op->contraction, s)) {
        return false;
    }
    for (int64_t i = 0; i < dn_tiles_slices(&op->contraction); i++) {
        dn_tiles_slice(&op->contraction, s, i, &part);
        if (!(part.contraction.kind == ST_CONTRACTION_CONV
                  ? is_image_done(isa, &part.contraction, &part.sizes)
                  : is_product_done(s)) ||
            !dn_job_init(out, op, &part, is_winograd, op->has_constant)) {
            return false;
        }
        *out_bytes += dn_job_packed_bytes(out);
    }
    return *out_bytes <= PANEL_MAX;
}

bool dn_tiles_describe(const dn_op *op, const dn_sizes *s, uint32_t is_winograd, dn_desc *out)
{
    const st_contraction *contraction = &op->contraction;
    int64_t bytes = 0;
    dn_job j;
    memset(out, 0, sizeof *out);
    if (contraction->is_weight_grad || dn_tiles_isa_for(op->lib, contraction, s) == NULL ||
        is_left(op->lib, contraction) || !are_weights_done(op, s, is_winograd) || s->is_bare ||
        !are_dtypes_done(contraction) || !dn_tiles_has_epilogue(contraction) ||
        (is_winograd && !(dn_may_be_winograd(op, s) && dn_tiles_has_winograd(op))) ||
        !are_parts_done(op, s, is_winograd, &j, &bytes)) {
        return false;
    }
    out->name = is_winograd ? "tiles, winograd" : "tiles";
    out->class_ = DN_GOOD;
    out->how.is_tiles = 1;
    out->how.is_winograd = is_winograd;
    const dn_sizes *whole = j.s.slices.n ? s : &j.s; /* a pointwise convolution is a product */
    return weights_of(contraction, whole, &out->md[DN_Y]) &&
           packed_of(&j, bytes, &out->md[DN_Y2]) && dn_note_operands(op, whole, j.features, out);
}

uint64_t dn_tiles_scratch(const dn_op *op, const dn_sizes *s, uint32_t is_winograd)
{
    uint64_t most = 0;
    for (int64_t i = 0; i < dn_tiles_slices(&op->contraction); i++) {
        dn_tiles_part part;
        dn_job j;
        dn_tiles_slice(&op->contraction, s, i, &part);
        (void)dn_job_init(&j, op, &part, is_winograd, op->has_constant);
        const int64_t packed = j.is_packed || j.is_panel_made ? 0 : j.panels * j.panel_bytes;
        const uint64_t zero_terms = j.is_bytes ? dn_job_zero_terms_bytes(&j) : 0;
        const uint64_t bytes = (uint64_t)j.bytes.all * s->threads + (uint64_t)packed + zero_terms;
        most = bytes > most ? bytes : most;
    }
    return most;
}
