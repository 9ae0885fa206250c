/* Weights of 3x3 convolutions for Winograd's F(4,3): U = G g G^T of each pair of channels, in the
 * form of oneDNN's convolution (dn_wino_256.c makes that of our own).
 *
 * oneDNN transforms them into a copy and orders the copy then, which takes ten times as long as
 * writing the result: a fifth of the time to compile ResNet-18. Here a block of channels is read,
 * transformed and written in its place. The matrix, the order of sums and the order of elements are
 * oneDNN's ("wei_OBaaIBOIio": blocks of out channels, tile, blocks of in channels, then blocks of
 * each within them). */
#include "plugins/cpu-llvm/kernels/dn.h"

#include <string.h>

#define TILE 6
#define TAPS 3
#define LANES 16 /* channels of a block, in and out */

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float))));

typedef struct transform {
    const float *y;
    float *dst;
    int64_t stride[4]; /* elements of y: out channel, in channel, row, column */
    int64_t in_chunks; /* chunks of in_blocks blocks */
    int64_t out_blocks, in_blocks;
} transform;

static const float matrix[TILE][TAPS] = {
    {1.13777777777778F, 0.0F, 0.0F},
    {-0.688403361344538F, -0.430252100840336F, -0.26890756302521F},
    {-0.688403361344538F, 0.430252100840336F, -0.26890756302521F},
    {0.119514472455649F, 0.179271708683473F, 0.26890756302521F},
    {0.119514472455649F, -0.179271708683473F, 0.26890756302521F},
    {0.0F, 0.0F, 1.0F}};

/* One in channel of a block of out channels: its taps, and what becomes of them. */
static void transform_lanes(const lanes taps[TAPS][TAPS], lanes out[TILE][TILE])
{
    lanes half[TILE][TAPS];
    for (int i = 0; i < TILE; i++) {
        for (int j = 0; j < TAPS; j++) {
            half[i][j] =
                matrix[i][0] * taps[j][0] + matrix[i][1] * taps[j][1] + matrix[i][2] * taps[j][2];
        }
    }
    for (int i = 0; i < TILE; i++) {
        for (int j = 0; j < TILE; j++) {
            out[j][i] =
                matrix[j][0] * half[i][0] + matrix[j][1] * half[i][1] + matrix[j][2] * half[i][2];
        }
    }
}

/* The taps of a block's out channels. Weights mapped from a file may lie at any address. */
static void load_taps(const float *from, const int64_t stride[4], lanes taps[TAPS][TAPS])
{
    for (int64_t o = 0; o < LANES; o++) {
        for (int i = 0; i < TAPS; i++) {
            for (int j = 0; j < TAPS; j++) {
                float tap;
                memcpy(&tap, from + o * stride[0] + i * stride[2] + j * stride[3], sizeof tap);
                taps[i][j][o] = tap;
            }
        }
    }
}

/* A block of out channels and one of in channels: LANES * LANES elements a place of the tile. */
static void transform_block(const transform *t, int64_t out_channel, int64_t in_channel, float *dst,
                            int64_t plane)
{
    float block[TILE * TILE][LANES][LANES];
    for (int i = 0; i < LANES; i++) {
        lanes taps[TAPS][TAPS];
        lanes out[TILE][TILE];
        load_taps(t->y + out_channel * t->stride[0] + (in_channel + i) * t->stride[1], t->stride,
                  taps);
        transform_lanes(taps, out);
        for (int u = 0; u < TILE * TILE; u++) {
            memcpy(block[u][i], &out[u / TILE][u % TILE], sizeof block[u][i]);
        }
    }
    for (int u = 0; u < TILE * TILE; u++) {
        memcpy(dst + u * plane, block[u], sizeof block[u]);
    }
}

/* Chunks of out channels with chunks of in channels, the latter first. */
static void transform_chunks(void *self, int64_t begin, int64_t end)
{
    const transform *t = self;
    const int64_t chunk = t->out_blocks * t->in_blocks * LANES * LANES;
    const int64_t plane = t->in_chunks * chunk;
    for (int64_t c = begin; c < end; c++) {
        const int64_t out = c / t->in_chunks * t->out_blocks;
        const int64_t in = c % t->in_chunks * t->in_blocks;
        float *dst = t->dst + c / t->in_chunks * TILE * TILE * plane + c % t->in_chunks * chunk;
        for (int64_t b = 0; b < t->out_blocks * t->in_blocks; b++) {
            transform_block(t, (out + b / t->in_blocks) * LANES, (in + b % t->in_blocks) * LANES,
                            dst + b * LANES * LANES, plane);
        }
    }
}

static bool is_known(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to)
{
    const dnnl_wino_desc_t *w = &to->format_desc.wino_desc;
    return to->format_kind == dnnl_format_kind_wino && w->wino_format == dnnl_wino_wei_OBaaIBOIio &&
           w->alpha == TILE && w->r == TAPS && w->oc_block == LANES && w->ic_block == LANES &&
           w->adj_scale == 1.0F && from->ndims == 4 && from->data_type == dnnl_f32 &&
           to->data_type == dnnl_f32 && from->format_kind == dnnl_blocked &&
           from->format_desc.blocking.inner_nblks == 0 && w->oc == from->dims[0] &&
           w->ic == from->dims[1] && w->oc % (LANES * w->oc2_block) == 0 &&
           w->ic % (LANES * w->ic2_block) == 0 &&
           w->size == sizeof(float) * TILE * TILE * (size_t)w->oc * (size_t)w->ic;
}

bool dn_winograd_pack(const dn_op *op, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                      const void *y, void *dst)
{
    if (!is_known(from, to)) {
        return false;
    }
    const dnnl_wino_desc_t *w = &to->format_desc.wino_desc;
    const stator_host *host = op->lib->host;
    transform t = {.y = y,
                   .dst = dst,
                   .in_chunks = w->ic / (LANES * w->ic2_block),
                   .out_blocks = w->oc2_block,
                   .in_blocks = w->ic2_block};
    memcpy(t.stride, from->format_desc.blocking.strides, sizeof t.stride);
    const int64_t n = w->oc / (LANES * w->oc2_block) * t.in_chunks;
    dn_parallel(host, host ? host->ctx : NULL, n, 1, transform_chunks, &t);
    return true;
}
