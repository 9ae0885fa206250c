/* Which tile a product is made by: the shape that keeps all multiprocessors busy for the shortest
 * time, or for a product of few rows or columns one whose threads share the steps. */
#include "codegen/gpu/contract/gpu_contract.h"

#define SIDE_MIN 24       /* narrower products are skinny */
#define PRODUCTS_MIN 2048 /* of rows and columns: fewer do not fill a block */
#define WARPS_MAX 16      /* of a multiprocessor, that registers leave room for */
#define WARPS_HALF 3      /* so many keep a multiprocessor about half busy */
#define SHARE_STEPS 4     /* steps of all shares together are worth so many barriers */

/* clang-format off */
#define TILE(down, across, so_many, of_threads, wide, groups)                                      \
    {.mapping = ST_MAPPING_TILE_STEPS, .rows = (down), .columns = (across), .steps = (so_many),    \
     .threads = (of_threads), .thread_columns = (wide), .shares = (groups)}
/* clang-format on */

/* The largest first. `rate`: what a multiprocessor with warps enough makes of convolutions, of
 * what it makes by the first shape, in hundredths (measured on an H100): smaller tiles read more
 * for each product, and those of 8 by 4 results a thread wait for shared memory. */
static const struct shape_row {
    gpu_tile_shape shape;
    uint32_t rate;
} shapes[] = {
    /* clang-format off */
/*       rows columns steps threads columns shares rate */
    {TILE(128, 128, 8, 256, 8, 1), 100},
    {TILE(64, 128, 8, 128, 8, 1), 88},
    {TILE(64, 128, 8, 256, 8, 2), 87},
    {TILE(128, 64, 8, 128, 8, 1), 75},
    {TILE(64, 64, 8, 256, 8, 4), 80},
    {TILE(64, 64, 16, 128, 4, 1), 70},
    {TILE(64, 64, 16, 256, 4, 2), 71},
    {TILE(64, 64, 8, 512, 4, 4), 67},
    {TILE(32, 128, 16, 128, 4, 1), 60},
    {TILE(128, 32, 16, 128, 4, 1), 60},
    {TILE(32, 64, 8, 256, 4, 4), 60},
    {TILE(32, 32, 8, 256, 4, 8), 45},
    /* clang-format on */
};

const gpu_tile_shape *gpu_tile_shape_of(int64_t rows, int64_t columns, uint32_t steps,
                                        uint32_t threads)
{
    for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const gpu_tile_shape *shape = &shapes[i].shape;
        if (shape->rows == rows && shape->columns == columns && shape->steps == steps &&
            shape->threads == threads) {
            return shape;
        }
    }
    return NULL;
}

static int64_t parts_of(int64_t size, int64_t part)
{
    return size / part + (size % part != 0);
}

/* The product, or as much as an int64_t holds. */
static int64_t times(int64_t a, int64_t b)
{
    int64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* Blocks of a product in tiles of so many rows and columns. */
static int64_t count_blocks(const gpu_product_size *of, uint32_t rows, uint32_t columns)
{
    return times(of->batch, times(parts_of(of->rows, rows), parts_of(of->columns, columns)));
}

/* About how long the busiest multiprocessor takes for a step of its tiles: the fewer warps it
 * has, the less of what it can do. Shares have a beginning and an end that cost about as much as
 * two turns of all. */
static double time_of(const gpu_product_size *of, const struct shape_row *row)
{
    const gpu_tile_shape *shape = &row->shape;
    const int64_t blocks = count_blocks(of, shape->rows, shape->columns);
    const int64_t each = parts_of(blocks, of->n_multiprocessors);
    const int64_t most = times(each, shape->threads / 32u);
    const double warps = most < WARPS_MAX ? (double)most : WARPS_MAX;
    const double turns = shape->shares > 1u ? 2.0 * shape->steps * shape->shares : 0;
    return (double)each * shape->rows * shape->columns /
           (row->rate * warps / (warps + WARPS_HALF)) * (1 + turns / (double)of->steps);
}

/* Steps that are few, and sums whose order may not change, are left to one share; wide sums have no
 * registers for 8 by 8. */
static bool fits(const gpu_product_size *of, const gpu_tile_shape *shape)
{
    const int64_t all = (int64_t)shape->steps * shape->shares * SHARE_STEPS;
    return (shape->shares == 1u || (of->dtype == STATOR_F32 && of->steps >= all)) &&
           (shape->thread_columns == 4u || of->dtype != STATOR_F64) &&
           shape->threads <= of->block_threads_max;
}

bool gpu_choose_tile(const gpu_product_size *of, gpu_tile_shape *out)
{
    double best = 0;
    if (of->n_sums != 1u || of->rows < SIDE_MIN || of->columns < SIDE_MIN ||
        of->rows >= INT32_MAX || of->columns >= INT32_MAX ||
        of->rows * of->columns < PRODUCTS_MIN) {
        return false;
    }
    for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const double time = time_of(of, &shapes[i]);
        if (fits(of, &shapes[i].shape) && (best == 0 || time < best)) {
            best = time;
            *out = shapes[i].shape;
        }
    }
    return best != 0;
}

/* ---- skinny products ---- */

#define SUMS_MAX 32 /* of the narrow side that a thread makes, of all sums together */
#define NARROW_MAX 24
#define NARROW_PART 8 /* of a narrow side that is longer, or not known */
#define WIDE_MAX 32u  /* of a tile */
#define WIDE_MIN 8u
#define STEPS_MIN 33        /* with fewer, one thread a result does as well */
#define RESULTS_ALONE 2048  /* a multiprocessor: threads enough, a result each, if none is shared */
#define SKINNY_WARPS_MAX 16 /* of a block */
#define SKINNY_WARPS_LARGE 8 /* where a thread makes many sums, or there are blocks enough */

/* How much of the narrow side a tile has. */
static uint32_t narrow_of(const gpu_product_size *of, int64_t narrow, bool is_known)
{
    const int64_t sums = SUMS_MAX / of->n_sums / (of->dtype == STATOR_F64 ? 2u : 1u);
    const int64_t most = sums < NARROW_MAX ? sums : NARROW_MAX;
    const int64_t part = most < NARROW_PART ? most : NARROW_PART;
    return (uint32_t)(is_known && narrow <= most ? narrow : part);
}

/* Warps of a block, each of which takes so many steps at once: all as many times. */
static uint32_t warps_of(const gpu_product_size *of, uint32_t sums, int64_t blocks,
                         uint32_t at_once)
{
    const bool is_small = sums <= NARROW_PART && blocks <= of->n_multiprocessors;
    const int64_t turns = parts_of(of->steps, at_once);
    int64_t most = is_small ? SKINNY_WARPS_MAX : SKINNY_WARPS_LARGE;
    most = most * 32 <= of->block_threads_max ? most : of->block_threads_max / 32;
    return (uint32_t)parts_of(turns, parts_of(turns, most));
}

/* A product of one row, of which nothing is read twice, with a result for each thread there is. */
static bool is_better_alone(const gpu_product_size *of, int64_t narrow, int64_t wide)
{
    return narrow == 1 && times(of->batch, wide) >= (int64_t)of->n_multiprocessors * RESULTS_ALONE;
}

bool gpu_choose_skinny(const gpu_product_size *of, gpu_tile_shape *out)
{
    const bool is_wide_columns = of->rows <= of->columns;
    const int64_t wide = is_wide_columns ? of->columns : of->rows;
    const int64_t narrow = is_wide_columns ? of->rows : of->columns;
    const bool is_known = is_wide_columns ? of->has_rows : of->has_columns;
    if (wide < WIDE_MIN || of->steps < STEPS_MIN || of->n_sums > GPU_SUMS_MAX ||
        is_better_alone(of, narrow, wide)) {
        return false;
    }
    const uint32_t part = narrow_of(of, narrow, is_known);
    uint32_t side = WIDE_MAX;
    int64_t blocks = times(of->batch, times(parts_of(narrow, part), parts_of(wide, side)));
    while (side > WIDE_MIN && side / 2u >= part &&
           (blocks < of->n_multiprocessors || side / 2u >= wide)) {
        side /= 2u;
        blocks = times(of->batch, times(parts_of(narrow, part), parts_of(wide, side)));
    }
    const uint32_t at_once = 32u / (side / GPU_SKINNY_COLUMNS) * GPU_SKINNY_STEPS;
    *out = (gpu_tile_shape){.mapping = ST_MAPPING_TILE_SHARES,
                            .rows = is_wide_columns ? part : side,
                            .columns = is_wide_columns ? side : part,
                            .steps = GPU_SKINNY_STEPS,
                            .threads = 32u * warps_of(of, part * of->n_sums, blocks, at_once),
                            .thread_columns = GPU_SKINNY_COLUMNS,
                            .shares = 1};
    return true;
}
