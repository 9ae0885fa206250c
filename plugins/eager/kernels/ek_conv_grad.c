/* conv_transpose and conv_weight_grad, the two gradients of conv, and col2im.
 *
 * conv_transpose: for each image, group and block of output channels, columns = W^T X by matrix
 * product, then every column element is added to the output element its tap touches (the transpose
 * of im2col, Chellapilla et al., 2006). conv_weight_grad: for each group and block of input
 * channels, dW = sum over images and tiles of positions of G columns^T. All sums are in f64 or
 * wrapping 64-bit integers, in an order that the shapes alone decide, and are rounded once. */
#include "plugins/eager/kernels/ek_gemm.h"
#include "plugins/eager/kernels/ek_taps.h"

#define TILE_POSITIONS 512
#define TILE_BYTES (2 << 20) /* columns of one tile: the second level cache */

typedef struct conv_grad {
    const ek_call *call;
    ek_taps taps;
    int64_t batch, groups;
    int64_t image_group; /* channels a group on the image's side and on the positions' side */
    int64_t position_group;
    int64_t block, blocks; /* image channels of a task; tasks a group */
    int64_t tile;          /* positions a matrix product */
    ek_wide *positions;    /* operand on the positions' side, widened */
    ek_wide *weights;      /* conv_transpose: [groups][image_group * kernel, position_group] */
    ek_wide *scratch;      /* per worker */
    int64_t scratch_size;
    const ek_tensor *bias;
    uint8_t is_int;
} conv_grad;

static void add_wide(ek_wide *to, ek_wide x, int is_int)
{
    if (is_int) {
        to->i = (int64_t)((uint64_t)to->i + (uint64_t)x.i);
    } else {
        to->f += x.f;
    }
}

/* Adds row[0..n), the values of one tap at positions [first, first + n), to a channel's image. */
static void scatter_row(const ek_taps *t, const int64_t *tap, int64_t first, int64_t n,
                        const ek_wide *row, ek_wide *image, int is_int)
{
    const int64_t stride = t->stride[t->n - 1u];
    for (int64_t done = 0; done < n;) {
        const ek_tap_run run = ek_tap_run_at(t, tap, first + done, n - done);
        const ek_wide *from = row + done + run.skip;
        ek_wide *to = image + run.offset;
        for (int64_t i = 0; i < run.count; i++) {
            add_wide(to + i * stride, from[i], is_int);
        }
        done += run.length;
    }
}

/* Positions a tile for `rows` rows of columns. */
static int64_t tile_of(int64_t rows, int64_t n_positions)
{
    int64_t tile = TILE_BYTES / (8 * (rows > 0 ? rows : 1)) / 16 * 16;
    tile = tile < 32 ? 32 : tile > TILE_POSITIONS ? TILE_POSITIONS : tile;
    return tile < n_positions ? tile : n_positions;
}

/* Image channels a task: enough rows for the matrix product, an accumulator that stays in cache. */
static int64_t block_of(const conv_grad *g, int64_t elements_a_channel)
{
    const int64_t kernel = g->taps.n_kernel > 0 ? g->taps.n_kernel : 1;
    const int64_t fits = 65536 / (elements_a_channel > 0 ? elements_a_channel : 1);
    const int64_t wanted = (64 + kernel - 1) / kernel;
    int64_t block = fits > wanted ? fits : wanted;
    const int64_t half = (g->image_group + 1) / 2; /* two tasks at least */
    block = block < half ? block : half;
    return block > 0 ? block : 1;
}

/* Scratch for the workers and the operand on the positions' side. */
static stator_status prepare(conv_grad *g, const ek_tensor *positions, int64_t n_tasks,
                             int64_t *out_workers, stator_diag **err)
{
    *out_workers = ek_worker_count(g->call, n_tasks);
    ST_TRY(ek_widen(g->call, positions, &g->positions, err));
    ek_gemm_prepare(g->call);
    return EK_SCRATCH(g->call, g->scratch, *out_workers * g->scratch_size + 1, err);
}

/* ---- conv_transpose ---- */

/* weights[group][m * kernel + tap][c] from w[C, M/groups, kernel]. */
static stator_status transpose_weights(conv_grad *g, stator_diag **err)
{
    const ek_tensor *w = &g->call->in[1];
    const int64_t rows = g->image_group * g->taps.n_kernel;
    ST_TRY(EK_SCRATCH(g->call, g->weights, w->numel + 1, err));
    for (int64_t row = 0; row < g->groups * rows; row++) {
        const int64_t first = row / rows * g->position_group * rows + row % rows;
        ek_load_wide(w, first, rows, g->position_group, g->weights + row * g->position_group);
    }
    return STATOR_OK;
}

static void fill_bias(const conv_grad *g, int64_t channel, ek_wide *image)
{
    ek_wide value = {.i = 0}; /* 0.0 has these bits, too */
    if (g->bias != NULL) {
        ek_load_wide(g->bias, channel, 1, 1, &value);
    }
    for (int64_t i = 0; i < g->taps.n_image; i++) {
        image[i] = value;
    }
}

static void transpose_task(void *self, int64_t task, int64_t worker)
{
    const conv_grad *g = self;
    const ek_taps *t = &g->taps;
    const int64_t group = task / g->blocks % g->groups;
    const int64_t image = task / g->blocks / g->groups;
    const int64_t m0 = task % g->blocks * g->block;
    const int64_t m = g->image_group - m0 < g->block ? g->image_group - m0 : g->block;
    const int64_t channel = (image * g->groups + group) * g->image_group + m0;
    ek_wide *sum = g->scratch + worker * g->scratch_size;
    ek_wide *columns = sum + g->block * t->n_image;
    const int64_t x0 = (image * g->groups + group) * g->position_group * t->n_positions;
    const int64_t row0 = (group * g->image_group + m0) * t->n_kernel;
    for (int64_t i = 0; i < m; i++) {
        fill_bias(g, group * g->image_group + m0 + i, sum + i * t->n_image);
    }
    for (int64_t first = 0; first < t->n_positions; first += g->tile) {
        const int64_t n = t->n_positions - first < g->tile ? t->n_positions - first : g->tile;
        const ek_matrix_tile product = {.m = m * t->n_kernel,
                                        .n = n,
                                        .k = g->position_group,
                                        .a = g->weights + row0 * g->position_group,
                                        .lda = g->position_group > 0 ? g->position_group : 1,
                                        .b = g->positions + x0 + first,
                                        .ldb = t->n_positions,
                                        .c = columns,
                                        .ldc = n,
                                        .is_int = g->is_int};
        ek_gemm_tile(g->call, &product);
        for (int64_t row = 0; row < m * t->n_kernel; row++) {
            int64_t tap[EK_TAPS_AXES];
            ek_unflatten(row % t->n_kernel, t->kernel, t->n, tap);
            scatter_row(t, tap, first, n, columns + row * n, sum + row / t->n_kernel * t->n_image,
                        g->is_int);
        }
    }
    ek_store_wide(&g->call->out[0], channel * t->n_image, m * t->n_image, sum);
}

/* Reads the sizes both ops share; positions and image: the operands on either side. */
static stator_status read_sizes(conv_grad *g, const ek_tensor *positions, const ek_tensor *image,
                                const int64_t *kernel, int64_t groups, stator_diag **err)
{
    EK_FAIL_IF(positions->rank < 3 || image->rank != positions->rank, g->call, err,
               STATOR_UNSUPPORTED, "1 to %u spatial axes are supported", EK_TAPS_AXES);
    g->groups = groups;
    g->batch = positions->dims[0];
    EK_FAIL_IF(groups < 1 || positions->dims[1] % groups != 0 || image->dims[1] % groups != 0 ||
                   image->dims[0] != g->batch,
               g->call, err, STATOR_INVALID_ARGUMENT,
               "%lld and %lld channels of %lld and %lld images do not fit %lld groups",
               (long long)positions->dims[1], (long long)image->dims[1], (long long)g->batch,
               (long long)image->dims[0], (long long)groups);
    g->position_group = positions->dims[1] / groups;
    g->image_group = image->dims[1] / groups;
    g->taps.n = positions->rank - 2u;
    for (uint32_t a = 0; a < g->taps.n; a++) {
        g->taps.position[a] = positions->dims[2u + a];
        g->taps.image[a] = image->dims[2u + a];
        g->taps.kernel[a] = kernel[a];
    }
    g->is_int = (uint8_t)ek_is_int_math(g->call->in[0].dtype);
    return STATOR_OK;
}

stator_status ek_conv_transpose(const ek_call *c, stator_diag **err)
{
    const ek_tensor *x = &c->in[0];
    const ek_tensor *w = &c->in[1];
    const ek_tensor *y = &c->out[0];
    conv_grad g = {.call = c, .bias = ek_has_in(c, 2) ? &c->in[2] : NULL};
    int64_t workers;
    ST_TRY(read_sizes(&g, x, y, w->dims + 2, ek_int(c, STATOR_conv_transpose_groups), err));
    ek_taps_read(c, &g.taps, STATOR_conv_transpose_strides, STATOR_conv_transpose_pads,
                 STATOR_conv_transpose_dilations);
    ST_TRY(ek_taps_check(c, &g.taps, err));
    EK_FAIL_IF(w->dims[0] != x->dims[1] || w->dims[1] != g.image_group ||
                   (g.bias != NULL && g.bias->numel != y->dims[1]),
               c, err, STATOR_INVALID_ARGUMENT,
               "weights of %lld by %lld channels or the bias do not fit %lld channels in, "
               "%lld out",
               (long long)w->dims[0], (long long)w->dims[1], (long long)x->dims[1],
               (long long)y->dims[1]);
    if (y->numel == 0) {
        return STATOR_OK;
    }
    g.block = block_of(&g, g.taps.n_image);
    g.blocks = (g.image_group + g.block - 1) / g.block;
    g.tile = tile_of(g.block * g.taps.n_kernel, g.taps.n_positions);
    g.scratch_size = g.block * (g.taps.n_image + g.taps.n_kernel * g.tile);
    const int64_t n_tasks = g.batch * g.groups * g.blocks;
    ST_TRY(transpose_weights(&g, err));
    ST_TRY(prepare(&g, x, n_tasks, &workers, err));
    ek_workers(c, workers, n_tasks, transpose_task, &g);
    return STATOR_OK;
}

/* ---- conv_weight_grad ---- */

static void weight_task(void *self, int64_t task, int64_t worker)
{
    const conv_grad *g = self;
    const ek_taps *t = &g->taps;
    const int64_t group = task / g->blocks;
    const int64_t c0 = task % g->blocks * g->block;
    const int64_t n_channels = g->image_group - c0 < g->block ? g->image_group - c0 : g->block;
    const int64_t rows = n_channels * t->n_kernel;
    ek_wide *sum = g->scratch + worker * g->scratch_size;
    ek_wide *columns = sum + g->position_group * g->block * t->n_kernel;
    memset(sum, 0, (uint64_t)(g->position_group * rows) * sizeof *sum);
    for (int64_t image = 0; image < g->batch; image++) {
        const int64_t channel = (image * g->groups + group) * g->image_group + c0;
        const int64_t g0 = (image * g->groups + group) * g->position_group * t->n_positions;
        for (int64_t first = 0; first < t->n_positions; first += g->tile) {
            const int64_t n = t->n_positions - first < g->tile ? t->n_positions - first : g->tile;
            for (int64_t row = 0; row < rows; row++) {
                int64_t tap[EK_TAPS_AXES];
                ek_unflatten(row % t->n_kernel, t->kernel, t->n, tap);
                ek_taps_gather(t, &g->call->in[0], (channel + row / t->n_kernel) * t->n_image, tap,
                               first, n, columns + row * n);
            }
            const ek_matrix_tile product = {.m = g->position_group,
                                            .n = rows,
                                            .k = n,
                                            .a = g->positions + g0 + first,
                                            .lda = t->n_positions,
                                            .b = columns,
                                            .ldb = n,
                                            .c = sum,
                                            .ldc = rows,
                                            .is_int = g->is_int,
                                            .b_transposed = 1,
                                            .accumulate = 1};
            ek_gemm_tile(g->call, &product);
        }
    }
    for (int64_t m = 0; m < g->position_group; m++) {
        const int64_t filter = group * g->position_group + m;
        ek_store_wide(&g->call->out[0], (filter * g->image_group + c0) * t->n_kernel, rows,
                      sum + m * rows);
    }
}

stator_status ek_conv_weight_grad(const ek_call *c, stator_diag **err)
{
    const ek_tensor *w = &c->out[0];
    conv_grad g = {.call = c};
    int64_t workers;
    ST_TRY(read_sizes(&g, &c->in[1], &c->in[0], w->dims + 2,
                      ek_int(c, STATOR_conv_weight_grad_groups), err));
    ek_taps_read(c, &g.taps, STATOR_conv_weight_grad_strides, STATOR_conv_weight_grad_pads,
                 STATOR_conv_weight_grad_dilations);
    ST_TRY(ek_taps_check(c, &g.taps, err));
    EK_FAIL_IF(w->dims[0] != g.groups * g.position_group || w->dims[1] != g.image_group, c, err,
               STATOR_INVALID_ARGUMENT,
               "%lld channels of x and %lld of g do not give weights of %lld by %lld",
               (long long)c->in[0].dims[1], (long long)c->in[1].dims[1], (long long)w->dims[0],
               (long long)w->dims[1]);
    if (w->numel == 0) {
        return STATOR_OK;
    }
    g.block = block_of(&g, g.position_group * g.taps.n_kernel);
    g.blocks = (g.image_group + g.block - 1) / g.block;
    g.tile = tile_of(g.block * g.taps.n_kernel, g.taps.n_positions);
    g.scratch_size = g.block * g.taps.n_kernel * (g.position_group + g.tile);
    ST_TRY(prepare(&g, &c->in[1], g.groups * g.blocks, &workers, err));
    ek_workers(c, workers, g.groups * g.blocks, weight_task, &g);
    return STATOR_OK;
}

/* ---- col2im ---- */

/* One image of one channel: its columns [kernel, positions] added up. */
static void col2im_task(void *self, int64_t task, int64_t worker)
{
    const conv_grad *g = self;
    const ek_taps *t = &g->taps;
    ek_wide *sum = g->scratch + worker * g->scratch_size;
    ek_wide *row = sum + t->n_image;
    memset(sum, 0, (uint64_t)t->n_image * sizeof *sum);
    for (int64_t k = 0; k < t->n_kernel; k++) {
        int64_t tap[EK_TAPS_AXES];
        ek_unflatten(k, t->kernel, t->n, tap);
        for (int64_t first = 0; first < t->n_positions; first += g->tile) {
            const int64_t n = t->n_positions - first < g->tile ? t->n_positions - first : g->tile;
            ek_load_wide(&g->call->in[0], (task * t->n_kernel + k) * t->n_positions + first, 1, n,
                         row);
            scatter_row(t, tap, first, n, row, sum, g->is_int);
        }
    }
    ek_store_wide(&g->call->out[0], task * t->n_image, t->n_image, sum);
}

/* Positions along each axis, from image, block and padding. */
static stator_status col2im_positions(conv_grad *g, stator_diag **err)
{
    ek_taps *t = &g->taps;
    const ek_tensor *x = &g->call->in[0];
    t->n_positions = 1;
    for (uint32_t a = 0; a < t->n; a++) {
        const int64_t high = ek_int_at(g->call, STATOR_col2im_pads, a + t->n, 0);
        const int64_t room =
            high < -(INT64_C(1) << 31) || high > (INT64_C(1) << 31)
                ? -1
                : t->image[a] + t->low[a] + high - 1 - t->dilation[a] * (t->kernel[a] - 1);
        t->position[a] = room < 0 ? 0 : room / t->stride[a] + 1;
        if (!st_mul_i64(t->n_positions, t->position[a], &t->n_positions)) {
            t->n_positions = -1;
            break;
        }
    }
    EK_FAIL_IF(t->n_positions != x->dims[2] || g->call->out[0].dims[1] * t->n_kernel != x->dims[1],
               g->call, err, STATOR_INVALID_ARGUMENT,
               "x has %lld rows of %lld blocks, image and block give %lld rows of %lld",
               (long long)x->dims[1], (long long)x->dims[2],
               (long long)(g->call->out[0].dims[1] * t->n_kernel), (long long)t->n_positions);
    return STATOR_OK;
}

stator_status ek_col2im(const ek_call *c, stator_diag **err)
{
    const ek_tensor *y = &c->out[0];
    conv_grad g = {.call = c, .is_int = (uint8_t)ek_is_int_math(c->in[0].dtype)};
    g.taps.n = y->rank - 2u;
    for (uint32_t a = 0; a < g.taps.n; a++) {
        g.taps.image[a] = y->dims[2u + a];
        g.taps.kernel[a] = ek_int_at(c, STATOR_col2im_block, a, 1);
    }
    ek_taps_read(c, &g.taps, STATOR_col2im_strides, STATOR_col2im_pads, STATOR_col2im_dilations);
    ST_TRY(ek_taps_check(c, &g.taps, err));
    ST_TRY(col2im_positions(&g, err));
    if (y->numel == 0) {
        return STATOR_OK;
    }
    const int64_t n_tasks = y->dims[0] * y->dims[1];
    const int64_t workers = ek_worker_count(c, n_tasks);
    g.tile = TILE_POSITIONS;
    g.scratch_size = g.taps.n_image + g.tile;
    ST_TRY(EK_SCRATCH(c, g.scratch, workers * g.scratch_size, err));
    ek_workers(c, workers, n_tasks, col2im_task, &g);
    return STATOR_OK;
}
