/* Products and convolutions against constant weights by kernels of our own: of bf16 and of bytes
 * with AVX-512, of f32 with AVX2 where there is no more (oneDNN's are as good with AVX-512).
 *
 * Weights lie in panels of features, two vectors wide: [panel][place in the
 * window][group][feature]. A convolution takes one image, or as many of its lines as stay in a
 * core's cache, channels last and padded, into scratch; what comes out is turned back a few lines
 * at a time while it is in the first cache, so that nothing but the image itself is read from
 * memory or written to it. A product reads its rows where they lie. Threads take images, lines and
 * panels side by side.
 *
 * Sums of bytes are exact: what zero points add is integer arithmetic of the same width, with the
 * sums of the weights, known from packing, and those of the rows. */
#include "dn_tiles.h"

#include "core/base/convert.h"
#include "core/base/diag.h"

#include <stdatomic.h>
#include <string.h>

#define CACHE_BYTES ((int64_t)448 << 10) /* of an image's lines in scratch */
#define ROWS_MOST 126                    /* of a product's block, */
#define ROWS_LEAST 24                    /* however long they are */
#define ALIGN 64
#define MOVE 128 /* of bytes of the other sign */

#define WINO_BYTES ((int64_t)400 << 10) /* of squares in scratch, */
#define WINO_LEAST 32                   /* but so many of them at least */

/* What is the same for all blocks of a call. */
typedef struct job {
    const dn_op *op;
    const st_form *form;
    void *const *at;
    dn_sizes s;
    const dn_tiles_isa *isa;
    int64_t columns; /* of a panel */
    int is_bytes, is_image, is_wino;
    int is_last[2]; /* channels of the image that comes in, or goes out, lie side by side */
    int64_t size;   /* bytes of an element of x */
    int64_t depth;  /* groups of a pixel, or of a row */
    /* Of an image; a product is a line of pixels, its rows. */
    int64_t images, lines, width;
    int64_t in_lines, in_width, kernel_lines, kernel_width;
    int64_t stride[2], dilation[2], pad[2];
    int64_t pitch;          /* bytes of a line in scratch */
    int32_t x_zero, y_zero; /* where they are one for all */
    int has_row_sums;
    uint32_t flip, fill;
    int is_cut; /* places of the window above and below the image are left out, not filled */
    /* Weights. */
    const int32_t *column_sums;
    const char *weights;
    int64_t panels, panel_bytes;
    /* Blocks: of so many lines (rows), an image (product) has so many; panels in so many parts. */
    int64_t block, blocks, parts;
    int64_t together;      /* images in scratch at a time, as squares */
    int64_t across;        /* squares of a line */
    int64_t scratch_lines; /* of a block, in scratch */
    _Atomic int has_failed;
} job;

/* What one thread works on. */
typedef struct worker {
    const job *j;
    int64_t block;           /* that is in scratch; -1: none */
    int64_t image, first, n; /* its lines, or rows */
    int64_t images;          /* so many, from this one on */
    dn_wino squares;
    const char *x; /* of the first line */
    char *copy;
    int32_t *row_sums, *row_zeros;
    int32_t *sums;
    float *turned;
    const char *ask, *ask_end; /* the next panel, of which each tile asks for a part */
} worker;

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t parts_of(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

static int64_t rounded(int64_t bytes)
{
    return parts_of(bytes, ALIGN) * ALIGN;
}

const dn_tiles_isa *dn_tiles_isa_of(const dn_lib *lib, uint32_t dtype)
{
    const uint32_t narrow = lib->flags & (DNNL_VECTORS_32 | DNNL_VECTORS_16);
    if (dtype != STATOR_F32) {
        return dn_tiles_512(dtype);
    }
    return narrow == DNNL_VECTORS_32 || !__builtin_cpu_supports("avx512f") ? dn_tiles_256(dtype)
                                                                           : NULL;
}

/* ---- sizes ---- */

/* Pixels of each channel lie side by side; or with `pixel` channels those of each pixel. */
static int is_dense(const int64_t *strides, uint32_t n, const int64_t *extents, int64_t pixel)
{
    int64_t next = pixel;
    for (uint32_t i = n; i-- > 0;) {
        if (extents[i] != 1 && strides[2 + i] != next) {
            return 0;
        }
        next *= extents[i];
    }
    return 1;
}

static int is_channels_last(const int64_t *strides, uint32_t n, const int64_t *extents,
                            int64_t channels)
{
    return strides[1] == 1 && is_dense(strides, n, extents, channels) &&
           !is_dense(strides, n, extents, 1);
}

static void set_image(job *j)
{
    const st_form *form = j->form;
    const dn_sizes *s = &j->s;
    const uint32_t last = form->n_spatial - 1u;
    const int is_flat = last == 0;
    j->is_last[0] = is_channels_last(s->x.dims, form->n_spatial, s->in, s->channels);
    j->is_last[1] = is_channels_last(s->out.dims, form->n_spatial, s->out_size, s->features);
    j->images = s->images;
    j->lines = is_flat ? 1 : s->out_size[0];
    j->width = s->out_size[last];
    j->in_lines = is_flat ? 1 : s->in[0];
    j->in_width = s->in[last];
    j->kernel_lines = is_flat ? 1 : s->kernel[0];
    j->kernel_width = s->kernel[last];
    for (uint32_t i = 0; i < 2; i++) {
        const int is_line = i == 0;
        j->stride[i] = is_line && is_flat ? 1 : form->stride[is_line ? 0 : last];
        j->dilation[i] = is_line && is_flat ? 1 : form->dilation[is_line ? 0 : last];
        j->pad[i] = is_line && is_flat ? 0 : s->pad_low[is_line ? 0 : last];
    }
    j->across = parts_of(j->width, DN_WINO_OUT);
    const int64_t reached =
        j->is_wino ? j->across * DN_WINO_OUT + DN_WINO_EDGE - DN_WINO_OUT
                   : (j->width - 1) * j->stride[1] + (j->kernel_width - 1) * j->dilation[1] + 1;
    const int64_t held = j->pad[1] + j->in_width;
    j->pitch = (reached > held ? reached : held) * j->depth * DN_TILE_GROUP;
}

static void set_product(job *j)
{
    j->images = 1;
    j->lines = 1;
    j->width = j->s.m;
    j->kernel_lines = 1;
    j->kernel_width = 1;
    j->pitch = j->depth * DN_TILE_GROUP;
    for (uint32_t i = 0; i < 2; i++) {
        j->stride[i] = 1;
        j->dilation[i] = 1;
    }
}

static int64_t features_of(const job *j)
{
    return j->is_image ? j->s.features : j->s.n;
}

static int64_t channels_of(const job *j)
{
    return j->is_image ? j->s.channels : j->s.k;
}

/* Sizes (simplified) and what follows from them alone. */
static void job_init(job *j, const dn_op *op, const dn_sizes *s, uint32_t is_wino)
{
    memset(j, 0, sizeof *j);
    j->op = op;
    j->form = &op->form;
    j->s = *s;
    j->isa = dn_tiles_isa_of(op->lib, j->form->x.dtype);
    j->columns = 2 * j->isa->lanes;
    j->is_image = j->form->kind == ST_FORM_CONV;
    j->is_wino = (int)is_wino;
    j->size = (int64_t)dn_dtype_size(j->form->x.dtype);
    j->is_bytes = j->size == 1;
    j->depth = parts_of(channels_of(j), DN_TILE_GROUP / j->size);
    j->flip = j->form->x.dtype == STATOR_I8 ? 0x80808080u : 0;
    if (j->is_image) {
        set_image(j);
    } else {
        set_product(j);
    }
    j->panels = parts_of(features_of(j), j->columns);
    const int64_t places = is_wino ? DN_WINO_PLACES : j->kernel_lines * j->kernel_width;
    j->panel_bytes = places * j->depth * DN_TILE_GROUP * j->columns;
}

/* Lines of the input, in scratch, that so many lines of the output need. */
static int64_t lines_for(const job *j, int64_t lines)
{
    return (lines - 1) * j->stride[0] + (j->kernel_lines - 1) * j->dilation[0] + 1;
}

/* Lines of an image, at most, that are in scratch at a time. */
static int64_t lines_most(job *j)
{
    if (!j->is_wino) {
        const int64_t held = CACHE_BYTES / j->pitch - (j->kernel_lines - 1) * j->dilation[0];
        return held / j->stride[0] < 1 ? 1 : held / j->stride[0];
    }
    const int64_t down = parts_of(j->lines, DN_WINO_OUT);
    int64_t squares = WINO_BYTES / (DN_WINO_PLACES * j->depth * DN_TILE_GROUP);
    squares = squares < WINO_LEAST ? WINO_LEAST : squares;
    j->together = squares / (j->across * down);
    j->together = at_most(j->together < 1 ? 1 : j->together, j->images);
    return (squares < j->across ? 1 : squares / j->across) * DN_WINO_OUT;
}

/* Lots of images, so many of them together. */
static int64_t lots_of(const job *j)
{
    return parts_of(j->images, j->together);
}

/* So many blocks that threads have the same number of them, or panels to share. */
static void set_blocks(job *j)
{
    const int64_t threads = j->s.threads;
    const int64_t whole = j->is_image ? j->lines : j->width;
    int64_t most = at_most(CACHE_BYTES / j->pitch, ROWS_MOST);
    most = most < ROWS_LEAST ? ROWS_LEAST : most;
    j->together = 1;
    if (j->is_image) {
        most = lines_most(j);
    }
    j->blocks = parts_of(whole, most);
    j->parts = 1;
    /* Of weights that are larger than the rows each thread reads its own. */
    const int is_heavy = !j->is_image && j->panels * j->panel_bytes > whole * j->pitch;
    if (threads > 1 && (is_heavy || lots_of(j) * j->blocks % threads != 0)) {
        if (j->panels >= 2 * threads) {
            j->parts = threads;
        } else if (lots_of(j) % threads != 0) {
            j->blocks = at_most(parts_of(j->blocks, threads) * threads, whole);
        }
    }
    j->block = parts_of(whole, j->blocks);
    if (j->is_wino) {
        j->block = parts_of(j->block, DN_WINO_OUT) * DN_WINO_OUT;
    }
    j->blocks = parts_of(whole, j->block);
    j->scratch_lines = j->is_image ? lines_for(j, j->block) : j->block;
}

/* ---- scratch of a thread ---- */

static int is_copied(const job *j)
{
    return j->is_image || j->flip || channels_of(j) % (DN_TILE_GROUP / j->size) != 0;
}

static int64_t row_sums_bytes(const job *j)
{
    return j->is_bytes ? rounded(j->block * (j->is_image ? j->width : 1) * 4) : 0;
}

static int64_t copy_bytes(const job *j)
{
    return is_copied(j) ? rounded(j->scratch_lines * j->pitch) : 0;
}

#define SUMS_BYTES                                                                                 \
    ((DN_TILE_PIXELS + DN_TILE_LANES_MAX) * DN_TILE_COLUMNS_MAX * (int64_t)sizeof(int32_t))
#define TURNED_BYTES (DN_TILE_COLUMNS_MAX * DN_TILE_LANES_MAX * (int64_t)sizeof(float))

/* Of a block. */
static int64_t squares_of(const job *j)
{
    return j->together * parts_of(j->block, DN_WINO_OUT) * j->across;
}

static int64_t sums_bytes(const job *j)
{
    const int64_t line = DN_WINO_OUT * j->width + j->isa->lanes;
    return j->is_wino ? rounded(line * j->columns * (int64_t)sizeof(float)) : SUMS_BYTES;
}

static int64_t squares_bytes(const job *j)
{
    const int64_t floats = DN_WINO_PLACES * squares_of(j) * (j->depth + j->columns);
    return j->is_wino ? rounded(floats * (int64_t)sizeof(float)) : 0;
}

static uint64_t worker_bytes(const job *j)
{
    return (uint64_t)(sums_bytes(j) + TURNED_BYTES + 2 * row_sums_bytes(j) + squares_bytes(j) +
                      copy_bytes(j));
}

static void worker_init(worker *w, const job *j, char *scratch)
{
    *w = (worker){.j = j, .block = -1};
    w->sums = (int32_t *)(void *)scratch;
    scratch += sums_bytes(j);
    w->turned = (float *)(void *)scratch;
    scratch += TURNED_BYTES;
    w->row_sums = (int32_t *)(void *)scratch;
    w->row_zeros = w->row_sums + row_sums_bytes(j) / (int64_t)sizeof *w->row_sums;
    scratch += 2 * row_sums_bytes(j);
    w->squares = (dn_wino){.isa = j->isa, .depth = j->depth, .across = j->across};
    w->squares.sums = (float *)(void *)scratch;
    w->squares.squares = w->squares.sums + DN_WINO_PLACES * squares_of(j) * j->columns;
    w->copy = scratch + squares_bytes(j);
}

/* ---- a block's input ---- */

static const char *x_of(const job *j)
{
    return j->at[DN_X];
}

/* One line of scratch: pixels before and behind the image, or all of it where `is_outside`. */
static void fill_line(const job *j, char *line, int is_outside)
{
    const int64_t pixel = j->depth * DN_TILE_GROUP;
    const int byte = (int)(j->fill & 0xffu);
    if (is_outside) {
        memset(line, byte, (size_t)j->pitch);
        return;
    }
    const int64_t before = j->pad[1] * pixel;
    const int64_t behind = before + j->in_width * pixel;
    memset(line, byte, (size_t)before);
    memset(line + behind, byte, (size_t)(j->pitch - behind));
}

static void load_lines(worker *w)
{
    const job *j = w->j;
    const int64_t top = w->first * j->stride[0] - j->pad[0]; /* input line of scratch line 0 */
    const int64_t rounded_up = parts_of(w->n, DN_WINO_OUT) * DN_WINO_OUT;
    const int64_t n = lines_for(j, j->is_wino ? rounded_up : w->n);
    const int64_t begin = top > 0 ? top : 0;
    const int64_t end = at_most(top + n, j->in_lines);
    for (int64_t i = 0; i < n; i++) {
        const int is_outside = top + i < 0 || top + i >= j->in_lines;
        if (!is_outside || !j->is_cut) {
            fill_line(j, w->copy + i * j->pitch, is_outside);
        }
    }
    char *to = w->copy + (begin - top) * j->pitch + j->pad[1] * j->depth * DN_TILE_GROUP;
    w->x = w->copy;
    if (j->is_last[0]) {
        const int64_t bytes = j->in_width * j->depth * DN_TILE_GROUP;
        const char *from = x_of(j) + w->image * j->s.x.dims[0] * j->size + begin * bytes;
        for (int64_t i = begin; i < end; i++, from += bytes, to += j->pitch) {
            memcpy(to, from, (size_t)bytes);
        }
        return;
    }
    const dn_regroup r = {.from = x_of(j) + w->image * j->s.x.dims[0] * j->size,
                          .plane = j->s.x.dims[1],
                          .channels = j->s.channels,
                          .first = begin * j->in_width,
                          .n = end > begin ? (end - begin) * j->in_width : 0,
                          .width = j->in_width,
                          .to = to,
                          .depth = j->depth,
                          .line = j->pitch,
                          .flip = j->flip,
                          .fill = j->fill};
    j->isa->regroup(&r);
}

/* The block's lines of each image become squares. */
static void load_squares(worker *w)
{
    const job *j = w->j;
    const int64_t image = w->image;
    const int64_t down = parts_of(w->n, DN_WINO_OUT);
    w->squares.tiles = w->images * down * j->across;
    for (int64_t i = 0; i < w->images; i++) {
        w->image = image + i;
        load_lines(w);
        dn_wino_load(&w->squares, w->copy, j->pitch, down, i * down * j->across);
    }
    w->image = image;
}

static void load_rows(worker *w)
{
    const job *j = w->j;
    const int64_t row = j->s.x.stride[0] * j->size;
    const int64_t bytes = j->s.k * j->size;
    w->x = x_of(j) + w->first * row;
    if (!is_copied(j)) {
        return;
    }
    for (int64_t i = 0; i < w->n; i++) {
        char *to = w->copy + i * j->pitch;
        memcpy(to, w->x + i * row, (size_t)bytes);
        for (int64_t b = 0; j->flip && b < bytes; b++) {
            to[b] = (char)((uint8_t)to[b] ^ 0x80u);
        }
        memset(to + bytes, (int)(j->fill & 0xffu), (size_t)(j->pitch - bytes));
    }
    w->x = w->copy;
}

static int64_t row_bytes(const job *j)
{
    return j->is_image    ? j->stride[1] * j->depth * DN_TILE_GROUP
           : is_copied(j) ? j->pitch
                          : j->s.x.stride[0] * j->size;
}

/* Places of the window that lie inside the image for output line y, first to behind the last. */
static void window_of(const job *j, int64_t y, int64_t *out_first, int64_t *out_end)
{
    *out_first = 0;
    *out_end = j->kernel_lines;
    const int64_t top = y * j->stride[0] - j->pad[0];
    while (j->is_cut && *out_first < *out_end && top + *out_first * j->dilation[0] < 0) {
        (*out_first)++;
    }
    while (j->is_cut && *out_end > *out_first &&
           top + (*out_end - 1) * j->dilation[0] >= j->in_lines) {
        (*out_end)--;
    }
}

/* What the window meets at pixel x of output line y (counted in the block), but for the weights. */
static dn_tile tile_at(const worker *w, int64_t y, int64_t x)
{
    const job *j = w->j;
    const int64_t pixel = j->depth * DN_TILE_GROUP;
    const int is_joined = j->dilation[1] == 1;
    int64_t first = 0;
    int64_t end = 0;
    window_of(j, w->first + y, &first, &end);
    dn_tile t = {.row = row_bytes(j),
                 .lines = end - first,
                 .line = j->dilation[0] * j->pitch,
                 .pixels = is_joined ? 1 : j->kernel_width,
                 .pixel = j->dilation[1] * pixel,
                 .length = is_joined ? j->kernel_width * j->depth : j->depth};
    t.x = w->x + x * t.row;
    t.weights = NULL;
    if (j->is_image) {
        t.x += (y * j->stride[0] + first * j->dilation[0]) * j->pitch;
    }
    return t;
}

/* Bytes of a panel before the window's line `first`. */
static int64_t skipped(const job *j, int64_t y)
{
    int64_t first = 0;
    int64_t end = 0;
    window_of(j, y, &first, &end);
    return first * (j->panel_bytes / j->kernel_lines);
}

static void sum_rows(worker *w)
{
    const job *j = w->j;
    const int64_t lines = j->is_image ? w->n : 1;
    const int64_t width = j->is_image ? j->width : w->n;
    for (int64_t y = 0; y < lines; y++) {
        for (int64_t x = 0; x < width; x++) {
            const dn_tile t = tile_at(w, y, x);
            int32_t sum = 0;
            for (int64_t i = 0; i < t.lines * t.pixels; i++) {
                sum += j->isa->sum_bytes(t.x + i / t.pixels * t.line + i % t.pixels * t.pixel,
                                         t.length);
            }
            w->row_sums[y * width + x] = sum;
        }
    }
}

/* The zero point of operand k in the bytes that are multiplied; `each`: of which row or feature. */
static int32_t zero_of_operand(const job *j, uint32_t k, int64_t each)
{
    const st_form_zero *zero = k ? &j->form->y_zero : &j->form->x_zero;
    const void *at = j->at[DN_ZERO + k];
    const int32_t moved = k == 0 ? (j->flip ? MOVE : 0) : j->form->y.dtype == STATOR_U8 ? -MOVE : 0;
    if (!dn_has_zero(zero)) {
        return moved;
    }
    return moved +
           (zero->is_each ? (int32_t)st_load_i64(zero->dtype, at, each) : *(const int32_t *)at);
}

static void load_block(worker *w, int64_t block)
{
    const job *j = w->j;
    const int64_t whole = j->is_image ? j->lines : j->width;
    if (w->block == block) {
        return;
    }
    w->block = block;
    w->image = block / j->blocks * j->together;
    w->images = at_most(j->together, j->images - w->image);
    w->first = block % j->blocks * j->block;
    w->n = at_most(j->block, whole - w->first);
    if (j->is_wino) {
        load_squares(w);
    } else if (j->is_image) {
        load_lines(w);
    } else {
        load_rows(w);
    }
    if (j->has_row_sums) {
        sum_rows(w);
    }
    for (int64_t i = 0; j->form->x_zero.is_each && i < w->n; i++) {
        w->row_zeros[i] = zero_of_operand(j, 0, w->first + i);
    }
}

/* ---- sums become output ---- */

static uint16_t mask_of(const job *j, int64_t left)
{
    const int64_t lanes = at_most(left, j->isa->lanes);
    return (uint16_t)(lanes > 0 ? (1u << lanes) - 1u : 0u);
}

/* Pixels of consecutive lines of an image (or some of one line), or rows of a product. */
typedef struct strip {
    int64_t panel;
    int64_t y, lines; /* in the block */
    int64_t x, width;
    int64_t n; /* pixels */
} strip;

static int has_first_bias(const st_form *form)
{
    return form->acc_dtype == STATOR_I32 && form->n_epilogue &&
           form->epilogue[0].kind == ST_EPILOGUE_BIAS && form->epilogue[0].dtype == STATOR_I32;
}

/* What integers need before they are f32, by feature of the panel. */
typedef struct settling {
    int32_t column[DN_TILE_COLUMNS_MAX], factor[DN_TILE_COLUMNS_MAX], weights[DN_TILE_COLUMNS_MAX];
} settling;

static void settle(const job *j, int64_t panel, settling *out)
{
    const int64_t first = panel * j->columns;
    const int32_t *bias = has_first_bias(j->form) ? j->at[DN_POST] : NULL;
    /* Products of a sum: of an image, with the channels that fill its groups. */
    const uint32_t n = (uint32_t)(j->is_image ? j->panel_bytes / j->columns : j->s.k);
    memset(out, 0, sizeof *out);
    for (int64_t i = 0; i < j->columns && first + i < features_of(j); i++) {
        const int32_t y_zero =
            j->form->y_zero.is_each ? zero_of_operand(j, 1, first + i) : j->y_zero;
        const uint32_t of_weights = n * (uint32_t)y_zero - (uint32_t)j->column_sums[first + i];
        out->weights[i] = (int32_t)of_weights;
        out->column[i] =
            (int32_t)((uint32_t)j->x_zero * of_weights + (bias ? (uint32_t)bias[first + i] : 0));
        out->factor[i] = -y_zero;
    }
}

/* Place of the first feature of the strip's panel at its first pixel. */
static int64_t place_of(const worker *w, const strip *p)
{
    const job *j = w->j;
    const int64_t pixel = (w->first + p->y) * j->width + p->x;
    return w->image * j->s.out.dims[0] + p->panel * j->columns * j->s.out.dims[1] +
           pixel * (j->is_last[1] ? j->s.features : 1);
}

/* Of the strip's first pixel. */
static dn_finish finish_of(const worker *w, const strip *p, const settling *of_bytes)
{
    const job *j = w->j;
    const int64_t row = j->is_image ? p->y * j->width + p->x : p->x;
    dn_finish f = {.form = j->form,
                   .at = j->at,
                   .is_across = !j->is_image || j->is_last[1],
                   .feature = p->panel * j->columns,
                   .column = j->is_bytes ? of_bytes->column : NULL,
                   .factor = of_bytes->factor,
                   .row_sums = j->has_row_sums ? w->row_sums + row : NULL,
                   .row_zeros = j->form->x_zero.is_each ? w->row_zeros + row : NULL,
                   .weights = of_bytes->weights,
                   .first_row = (uint32_t)has_first_bias(j->form)};
    if (!f.is_across) {
        f.n = at_most(j->columns, features_of(j) - f.feature);
        f.sums = w->turned;
        f.step = j->s.out.dims[1];
        f.out = place_of(w, p);
    } else {
        f.step = j->is_image ? j->s.features : j->s.out.stride[0];
        f.out = j->is_image ? place_of(w, p) : (w->first + p->x) * f.step + f.feature;
        f.mask[0] = mask_of(j, features_of(j) - f.feature);
        f.mask[1] = mask_of(j, features_of(j) - f.feature - j->isa->lanes);
    }
    return f;
}

/* Pixels `begin` to `end` of the strip; `begin` is a multiple of the lanes. */
static void finish_image(const worker *w, const dn_finish *of_strip, int64_t begin, int64_t end)
{
    const dn_tiles_isa *isa = w->j->isa;
    dn_finish f = *of_strip;
    for (int64_t pixel = begin; pixel < end; pixel += isa->lanes) {
        f.out = of_strip->out + pixel;
        f.row_sums = of_strip->row_sums ? of_strip->row_sums + pixel : NULL;
        f.mask[0] = mask_of(w->j, end - pixel);
        f.mask[1] = f.mask[0];
        isa->turn_sums(w->sums + pixel * 2 * isa->lanes, w->turned);
        isa->finish(&f);
    }
}

static void finish_rows(const worker *w, const dn_finish *of_strip, int64_t begin, int64_t end)
{
    dn_finish f = *of_strip;
    f.n = 2 * (end - begin);
    f.sums = (const float *)(const void *)(w->sums + begin * w->j->columns);
    f.out += begin * f.step;
    f.row_sums += f.row_sums ? begin : 0;
    f.row_zeros += f.row_zeros ? begin : 0;
    w->j->isa->finish(&f);
}

/* Sums up to `made` are there, those before `done` were finished: soon, while they are in the first
 * cache, and a few stores at a time, which go on while the next sums are made. Returns what is
 * finished then. */
static int64_t finish_some(const worker *w, const strip *p, const dn_finish *f, int64_t done,
                           int64_t made)
{
    if (f->is_across) {
        finish_rows(w, f, done, made);
        return made;
    }
    const int64_t end = made == p->n ? made : made / w->j->isa->lanes * w->j->isa->lanes;
    finish_image(w, f, done, end);
    return end;
}

/* ---- a strip ---- */

/* The output's cache lines of pixels `begin` to `end` are fetched while the sums are made. */
static void ask_for_output(const job *j, const dn_finish *f, int64_t begin, int64_t end)
{
    const int64_t size = (int64_t)dn_dtype_size(j->form->out.dtype);
    const int64_t runs = f->is_across ? end - begin : f->n;
    const int64_t step = f->step * size;
    const int64_t bytes = (f->is_across ? j->columns : end - begin) * size;
    const char *at =
        (const char *)f->at[DN_OUT] + (f->out + (f->is_across ? begin * f->step : begin)) * size;
    for (int64_t i = 0; i < runs; i++, at += step) {
        __builtin_prefetch(at, 1, 3);
        if (bytes > ALIGN) {
            __builtin_prefetch(at + ALIGN, 1, 3);
        }
    }
}

static void run_strip(worker *w, const strip *p, const settling *of_bytes)
{
    const job *j = w->j;
    const int64_t tiles = parts_of(p->width, j->isa->rows);
    const dn_finish f = finish_of(w, p, of_bytes);
    const int64_t ask_bytes = j->panel_bytes / (DN_TILE_GROUP * j->columns * DN_TILE_ASK) * ALIGN;
    int64_t done = 0;
    for (int64_t y = 0; y < p->lines; y++) {
        dn_tile t = tile_at(w, p->y + y, p->x);
        const char *x = t.x;
        t.weights = j->weights + p->panel * j->panel_bytes + skipped(j, w->first + p->y + y);
        for (int64_t i = 0, begin = 0; i < tiles; i++) {
            const int64_t end = p->width * (i + 1) / tiles;
            t.x = x + begin * t.row;
            t.sums = w->sums + (y * p->width + begin) * j->columns;
            t.ask = w->ask < w->ask_end ? w->ask : t.weights;
            t.ask_step = w->ask < w->ask_end ? ALIGN : 0;
            w->ask += ask_bytes;
            ask_for_output(j, &f, y * p->width + begin, y * p->width + end);
            j->isa->run(&t, end - begin);
            done = finish_some(w, p, &f, done, y * p->width + end);
            begin = end;
        }
    }
}

/* The panel's pixels of each image, lines of squares. */
static void run_squares(worker *w, int64_t panel)
{
    const job *j = w->j;
    const int64_t image = w->image;
    int64_t first = 0;
    dn_wino_panel(&w->squares, j->weights + panel * j->panel_bytes);
    for (int64_t i = 0; i < w->images; i++) {
        w->image = image + i;
        for (int64_t y = 0; y < w->n; y += DN_WINO_OUT, first += j->across) {
            strip p = {.panel = panel, .y = y, .lines = at_most(DN_WINO_OUT, w->n - y)};
            p.width = j->width;
            p.n = p.lines * p.width;
            const dn_finish f = finish_of(w, &p, NULL);
            dn_wino_store(&w->squares, first, p.lines, p.width, (float *)(void *)w->sums);
            (void)finish_some(w, &p, &f, 0, p.n);
        }
    }
    w->image = image;
}

static void run_panel(worker *w, int64_t panel)
{
    const job *j = w->j;
    const int64_t width = j->is_image ? j->width : w->n;
    const int64_t lines = j->is_image ? w->n : 1;
    const int64_t cuts = parts_of(width, DN_TILE_PIXELS);
    const int64_t together = cuts > 1 ? 1 : DN_TILE_PIXELS / width;
    settling of_bytes;
    w->ask_end = j->weights + at_most(panel + 2, j->panels) * j->panel_bytes;
    w->ask = j->weights + (panel + 1) * j->panel_bytes;
    if (j->is_bytes) {
        settle(j, panel, &of_bytes);
    }
    for (int64_t y = 0; y < lines; y += together) {
        for (int64_t c = 0; c < cuts; c++) {
            strip p = {.panel = panel, .y = y, .lines = at_most(together, lines - y)};
            p.x = width * c / cuts;
            p.width = width * (c + 1) / cuts - p.x;
            p.n = p.lines * p.width;
            run_strip(w, &p, &of_bytes);
        }
    }
}

/* ---- a call ---- */

static void run_range(void *self, int64_t begin, int64_t end)
{
    job *j = self;
    worker w;
    dn_scratch *scratch = dn_scratch_take(j->op->lib, worker_bytes(j));
    if (scratch == NULL) {
        j->has_failed = 1;
        return;
    }
    worker_init(&w, j, dn_scratch_data(scratch));
    for (int64_t i = begin; i < end; i++) {
        const int64_t part = i % j->parts;
        load_block(&w, i / j->parts);
        for (int64_t p = j->panels * part / j->parts; p < j->panels * (part + 1) / j->parts; p++) {
            if (j->is_wino) {
                run_squares(&w, p);
            } else {
                run_panel(&w, p);
            }
        }
    }
    dn_scratch_give(j->op->lib, scratch);
}

static void set_zeros(job *j)
{
    const st_form *form = j->form;
    if (j->is_bytes) {
        j->x_zero = form->x_zero.is_each ? 0 : zero_of_operand(j, 0, 0);
        j->y_zero = form->y_zero.is_each ? 0 : zero_of_operand(j, 1, 0);
        j->has_row_sums = j->y_zero || form->y_zero.is_each;
    }
    j->fill = j->is_image ? (uint32_t)(j->x_zero & 0xff) * 0x01010101u : 0;
    j->is_cut = j->is_image && !j->is_wino && j->x_zero == 0;
}

stator_status dn_tiles_run(dn_op *op, const dn_plan *plan, const dn_sizes *sizes,
                           void *const at[DN_ROLES], stator_ctx *ctx, stator_diag **err)
{
    job j;
    void *packed = NULL;
    dn_sizes simple = *sizes;
    dn_simplify(&op->form, &simple);
    job_init(&j, op, &simple, plan->desc.how.is_winograd);
    j.at = at;
    set_zeros(&j);
    set_blocks(&j);
    (void)dnnl_memory_get_data_handle(plan->packed, &packed);
    j.column_sums = packed;
    j.weights = (const char *)packed + dn_tiles_sums_bytes(j.isa, j.panels);
    const int64_t n = lots_of(&j) * j.blocks * j.parts;
    if (op->lib->host && sizes->threads > 1) {
        op->lib->host->thr->parallel_for(ctx, n, 1, run_range, &j);
    } else {
        run_range(&j, 0, n);
    }
    return j.has_failed ? st_fail_oom(err) : STATOR_OK;
}

/* ---- which ---- */

static int is_epilogue_done(const st_form *form)
{
    const int is_float = form->x.dtype == STATOR_F32;
    for (uint32_t i = 0; i < form->n_epilogue; i++) {
        const st_epilogue *e = &form->epilogue[i];
        if (is_float && st_epilogue_has_buffer(e->kind) && e->dtype != STATOR_F32) {
            return 0;
        }
        switch (e->kind) {
        case ST_EPILOGUE_GELU_ERF:
            if (is_float) {
                break;
            }
            return 0;
        case ST_EPILOGUE_GELU_TANH:
        case ST_EPILOGUE_SIGMOID:
        case ST_EPILOGUE_TANH:
        case ST_EPILOGUE_SILU:
            return 0;
        default:
            break;
        }
    }
    return 1;
}

static int is_zero_done(const st_form_zero *zero, uint32_t dtype)
{
    const int32_t least = dtype == STATOR_I8 ? -128 : 0;
    return zero->has_buffer ? zero->dtype == dtype
                            : zero->value >= least && zero->value <= least + 255;
}

static int are_dtypes_done(const st_form *form)
{
    if (form->x.dtype == STATOR_BF16) {
        return form->y.dtype == STATOR_BF16;
    }
    if (form->x.dtype == STATOR_F32) {
        return form->y.dtype == STATOR_F32 && form->out.dtype == STATOR_F32;
    }
    return (form->x.dtype == STATOR_U8 || form->x.dtype == STATOR_I8) &&
           (form->y.dtype == STATOR_U8 || form->y.dtype == STATOR_I8) &&
           is_zero_done(&form->x_zero, form->x.dtype) && is_zero_done(&form->y_zero, form->y.dtype);
}

static int is_image_done(const st_form *form, const dn_sizes *s)
{
    if (form->n_spatial > 2 || form->groups != 1 || form->is_transposed || s->images < 1 ||
        s->channels < 1 || s->features < 1) {
        return 0;
    }
    const int is_float = form->x.dtype == STATOR_F32;
    const uint32_t n = form->n_spatial;
    if (!is_dense(s->x.dims, n, s->in, 1) &&
        !(is_float && is_channels_last(s->x.dims, n, s->in, s->channels))) {
        return 0;
    }
    if (!is_dense(s->out.dims, n, s->out_size, 1) &&
        !(is_float && is_channels_last(s->out.dims, n, s->out_size, s->features))) {
        return 0;
    }
    for (uint32_t i = 0; i < form->n_spatial; i++) {
        if (s->pad_low[i] < 0 || s->pad_high[i] < 0 || s->in[i] < 1 || s->kernel[i] < 1 ||
            s->out_size[i] < 1) {
            return 0;
        }
    }
    return 1;
}

static int is_product_done(const dn_sizes *s)
{
    return s->n_batch == 0 && s->m >= 1 && s->n >= 1 && s->k >= 1 &&
           (s->x.stride[1] == 1 || s->k == 1) && (s->out.stride[1] == 1 || s->n == 1);
}

/* A row of bytes, for what is of no interest to oneDNN. */
static int bytes_of(int64_t n, dnnl_memory_desc_t *out)
{
    const dnnl_dims_t dims = {n};
    const dnnl_dims_t strides = {1};
    return dnnl_memory_desc_init_by_strides(out, 1, dims, dnnl_u8, strides) == dnnl_success;
}

/* The caller's weights, for a name that tells their order. */
static int weights_of(const job *j, dnnl_memory_desc_t *out)
{
    dnnl_dims_t dims = {j->s.k, j->s.n};
    dnnl_dims_t strides = {j->s.y.stride[0], j->s.y.stride[1]};
    int n = 2;
    if (j->is_image) {
        n = 2 + (int)j->form->n_spatial;
        dims[0] = j->s.features;
        dims[1] = j->s.channels;
        memcpy(dims + 2, j->s.kernel, j->form->n_spatial * sizeof dims[0]);
        memcpy(strides, j->s.y.dims, (size_t)n * sizeof strides[0]);
    }
    for (int i = 0; i < n; i++) {
        strides[i] = strides[i] > 0 ? strides[i] : 1;
    }
    return dnnl_memory_desc_init_by_strides(out, n, dims, dn_type_of(j->form->y.dtype), strides) ==
           dnnl_success;
}

/* Memory that a trial of it needs. */
static int note_operands(const job *j, dn_desc *out)
{
    const st_form *form = j->form;
    int is_done = 1;
    for (uint32_t role = DN_X; role <= DN_OUT; role += DN_OUT - DN_X) {
        const uint32_t dtype = role == DN_X ? form->x.dtype : form->out.dtype;
        out->used |= 1u << role;
        is_done &= bytes_of(dn_span(form, &j->s, role) * dn_dtype_size(dtype), &out->md[role]);
    }
    for (uint32_t i = 0; i < form->n_epilogue; i++) {
        const st_epilogue *e = &form->epilogue[i];
        const int64_t n =
            e->kind == ST_EPILOGUE_ADD ? dn_span(form, &j->s, DN_OUT) : features_of(j);
        if (st_epilogue_has_buffer(e->kind)) {
            out->used |= 1u << (DN_POST + i);
            is_done &= bytes_of(n * dn_dtype_size(e->dtype), &out->md[DN_POST + i]);
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        const int64_t each = i == 0 ? j->s.m : features_of(j);
        const int is_each = i == 0 ? form->x_zero.is_each : form->y_zero.is_each;
        out->used |= 1u << (DN_ZERO + i);
        is_done &= bytes_of(is_each ? each : (int64_t)sizeof(int32_t), &out->md[DN_ZERO + i]);
    }
    return is_done;
}

int dn_tiles_has_winograd(const dn_op *op)
{
    const dn_tiles_isa *isa = dn_tiles_isa_of(op->lib, op->form.x.dtype);
    return op->has_constant && isa != NULL && isa->wino_in != NULL;
}

int dn_tiles_describe(const dn_op *op, const dn_sizes *s, uint32_t is_winograd, dn_desc *out)
{
    const st_form *form = &op->form;
    job j;
    memset(out, 0, sizeof *out);
    if (!op->has_constant || s->is_bare || !are_dtypes_done(form) || !is_epilogue_done(form) ||
        dn_tiles_isa_of(op->lib, form->x.dtype) == NULL ||
        !(form->kind == ST_FORM_CONV ? is_image_done(form, s) : is_product_done(s)) ||
        (is_winograd && !(dn_may_be_winograd(op, s) && dn_tiles_has_winograd(op)))) {
        return 0;
    }
    job_init(&j, op, s, is_winograd);
    set_blocks(&j);
    out->name = is_winograd ? "tiles, winograd" : "tiles";
    out->class_ = DN_GOOD;
    out->how.is_tiles = 1;
    out->how.is_winograd = is_winograd;
    return weights_of(&j, &out->md[DN_Y]) &&
           bytes_of(dn_tiles_sums_bytes(j.isa, j.panels) + j.panels * j.panel_bytes,
                    &out->md[DN_Y2]) &&
           note_operands(&j, out);
}

uint64_t dn_tiles_scratch(const dn_op *op, const dn_sizes *s, uint32_t is_winograd)
{
    job j;
    job_init(&j, op, s, is_winograd);
    set_blocks(&j);
    return worker_bytes(&j) * (uint64_t)s->threads;
}
