/* 3x3 convolutions by Winograd's F(4,3), of f32: tiles of 6 x 6 pixels become 36 numbers each,
 * the channels of all tiles are multiplied by the 36 matrices that the weights have become, and 4
 * x 4 pixels are made of what comes out. A quarter of the products for 10 to 20 percent more of
 * other work. Of bytes by F(2,3), which has 16 products for 36: with twice its weights in each
 * direction all is whole numbers, of words and then of 32 bits, four times what comes out; so not a
 * bit is lost.
 *
 * (A. Lavin, S. Gray, "Fast algorithms for convolutional neural networks", 2015; the points of f32
 * are 0, +-5/8, +-3/2 and infinity, oneDNN's, with smaller errors than whole numbers, those of
 * bytes 0, +-1 and infinity. dn_wino_256.c and dn_tiles_pack.c make the weights, in the
 * call where they come with it; a transposed convolution's are the same ones from the last to the
 * first.) */
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"

#define LINE 64 /* bytes, of a cache */

void dn_wino_load(const dn_wino *b, const char *x, int64_t pitch, int64_t down, int64_t first)
{
    const int64_t pixel = b->depth * DN_TILE_GROUP;
    const int64_t edge = b->isa->winograd_tile;
    for (int64_t y = 0; y < down; y++) {
        for (int64_t i = 0; i < b->across; i++) {
            float *to = b->inputs + (first + y * b->across + i) * b->depth;
            b->isa->wino_in((const float *)(const void *)(x + edge * (y * pitch + i * pixel)),
                            pitch / DN_TILE_GROUP, b->depth, dn_wino_step(b->tiles * b->depth), to);
        }
    }
}

void dn_wino_panel(const dn_wino *b, const char *weights)
{
    const dn_tiles_isa *isa = b->isa;
    const int64_t columns = 2 * isa->lanes;
    const int64_t bytes = dn_wino_step(b->depth * columns) * DN_TILE_GROUP;
    const int64_t inputs = dn_wino_step(b->tiles * b->depth);
    const int64_t sums = dn_wino_step(b->tiles * columns);
    const int64_t tiles = dn_parts(b->tiles, isa->rows);
    const int64_t places = dn_tiles_places(isa);
    for (int64_t k = 0; k < places; k++, weights += bytes) {
        dn_tile t = {.row = b->depth * DN_TILE_GROUP,
                     .lines = 1,
                     .pixels = 1,
                     .length = b->depth,
                     .weights = weights,
                     .step = columns};
        for (int64_t i = 0, begin = 0; i < tiles; i++) {
            const int64_t end = b->tiles * (i + 1) / tiles;
            /* The next matrix, of which each tile asks for a part. */
            const int64_t asked = i * (b->depth / DN_TILE_ASK) * LINE;
            const bool is_asking = k + 1 < places && asked < bytes;
            t.ask = weights + (is_asking ? bytes + asked : 0);
            t.ask_step = is_asking ? LINE : 0;
            t.x = (const char *)(b->inputs + k * inputs + begin * b->depth);
            t.sums = (int32_t *)(void *)(b->sums + k * sums + begin * columns);
            isa->wino_run(&t, end - begin);
            begin = end;
        }
    }
}

void dn_wino_store(const dn_wino *b, int64_t first, int64_t lines, int64_t width, float *to)
{
    const int64_t columns = 2 * b->isa->lanes;
    const int64_t edge = b->isa->winograd_tile;
    for (int64_t i = 0; i < b->across; i++) {
        const int64_t left = width - i * edge;
        b->isa->wino_out(b->sums + (first + i) * columns, dn_wino_step(b->tiles * columns), lines,
                         dn_least(left, edge), width, to + i * edge * columns);
    }
}
