/* Which contractions are made by matrix instructions, and in tiles of which shape.
 *
 * Both factors are casts of bf16 or both of f16, and the sums are f32: then the products are exact,
 * and the instruction sums them. Factors of f32 are rounded or taken apart, which the target has to
 * allow (st_f32_products). */
#include "codegen/gpu/contract/gpu_contract.h"

static const gpu_matrix_kind kinds[] = {
    {ST_MAPPING_MATRIX_STEPS, .bytes = 2, .pieces = 1},
    {ST_MAPPING_MATRIX_TF32, .bytes = 4, .pieces = 1},
    {ST_MAPPING_MATRIX_BF16X3, .bytes = 2, .pieces = 2},
    {ST_MAPPING_MATRIX_BF16X6, .bytes = 2, .pieces = 3},
};

const gpu_matrix_kind *gpu_matrix_kind_of(uint32_t mapping)
{
    for (uint32_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i].mapping == mapping) {
            return &kinds[i];
        }
    }
    return NULL;
}

/* ---- shapes ---- */

enum { SHAPE_LARGE, SHAPE_SMALL, SHAPE_WIDE, SHAPE_HIGH, SHAPE_HUGE };

/* clang-format off */
/* Steps are those of 64 bytes of a row in shared memory; of 4096^3, tiles of 128x256 with 128 bytes
 * and a stage less are 11 % faster. A warp of 64x64 reads least of shared memory for each product,
 * and has 128 sums a thread. */
#define SHAPES(of, so_many, ahead)                                                                 \
    {.mapping = (of), .shares = 1, .rows = 128, .columns = 128, .steps = (so_many), .stages = (ahead),          \
     .threads = 256, .warp_rows = 64, .warp_columns = 32},                                         \
    {.mapping = (of), .shares = 1, .rows = 64, .columns = 64, .steps = (so_many), .stages = (ahead),            \
     .threads = 128, .warp_rows = 32, .warp_columns = 32},                                         \
    {.mapping = (of), .shares = 1, .rows = 32, .columns = 128, .steps = (so_many), .stages = (ahead),           \
     .threads = 128, .warp_rows = 32, .warp_columns = 32},                                         \
    {.mapping = (of), .shares = 1, .rows = 128, .columns = 32, .steps = (so_many), .stages = (ahead),           \
     .threads = 128, .warp_rows = 32, .warp_columns = 32}

static const gpu_tile_shape halves[] = {
    SHAPES(ST_MAPPING_MATRIX_STEPS, 32, 4),
    {.mapping = ST_MAPPING_MATRIX_STEPS, .shares = 1, .rows = 128, .columns = 256, .steps = 64, .stages = 3,
     .threads = 256, .warp_rows = 64, .warp_columns = 64},
};
static const gpu_tile_shape tf32[] = {SHAPES(ST_MAPPING_MATRIX_TF32, 16, 4)};
static const gpu_tile_shape bf16x3[] = {SHAPES(ST_MAPPING_MATRIX_BF16X3, 32, 3)};
static const gpu_tile_shape bf16x6[] = {SHAPES(ST_MAPPING_MATRIX_BF16X6, 32, 3)};
/* clang-format on */

/* The shapes of a mapping, of which only the halves' has a SHAPE_HUGE. */
static const gpu_tile_shape *shapes_of(uint32_t mapping)
{
    switch (mapping) {
    case ST_MAPPING_MATRIX_STEPS:
        return halves;
    case ST_MAPPING_MATRIX_TF32:
        return tf32;
    case ST_MAPPING_MATRIX_BF16X3:
        return bf16x3;
    default:
        return bf16x6;
    }
}

const gpu_tile_shape *gpu_matrix_shape_of(uint32_t mapping, int64_t rows, int64_t columns)
{
    const uint32_t n = mapping == ST_MAPPING_MATRIX_STEPS ? SHAPE_HUGE + 1u : SHAPE_HUGE;
    for (uint32_t i = 0; i < n; i++) {
        const gpu_tile_shape *shape = &shapes_of(mapping)[i];
        if (shape->rows == rows && shape->columns == columns) {
            return shape;
        }
    }
    return NULL;
}

uint32_t gpu_matrix_bytes(const gpu_tile_shape *shape)
{
    const gpu_matrix_kind *kind = gpu_matrix_kind_of(shape->mapping);
    return (shape->rows + shape->columns) * shape->steps * kind->bytes * kind->pieces *
           shape->stages;
}

/* ---- factors ---- */

/* The dtype of 16 bits that the factor is a cast of; 0: none. */
static uint32_t cast_of(const st_kernel *kernel, st_loop_ref factor)
{
    const st_loop_inst *inst = st_loop_at(kernel, factor);
    if (inst->code != ST_LOOP_cast) {
        return 0;
    }
    const uint32_t dtype = st_loop_at(kernel, inst->args[0])->dtype;
    return dtype == STATOR_BF16 || dtype == STATOR_F16 ? dtype : 0;
}

/* Is the factor memory of 16 bits, as it is? */
static bool is_plain(const st_kernel *kernel, st_loop_ref factor)
{
    const st_loop_inst *load = st_loop_at(kernel, st_loop_at(kernel, factor)->args[0]);
    return load->code == ST_LOOP_LOAD && load->args[0] == 0;
}

static uint32_t mapping_for(const gpu_matrix_question *q)
{
    static const uint32_t of_f32[] = {[ST_F32_STRICT] = 0,
                                      [ST_F32_TF32] = ST_MAPPING_MATRIX_TF32,
                                      [ST_F32_BF16X3] = ST_MAPPING_MATRIX_BF16X3,
                                      [ST_F32_BF16X6] = ST_MAPPING_MATRIX_BF16X6};
    const st_loop_inst *product = st_loop_at(q->kernel, q->product);
    const uint32_t a = cast_of(q->kernel, product->args[0]);
    if (product->dtype != STATOR_F32 || !q->target->has_matrices) {
        return 0;
    }
    return a && a == cast_of(q->kernel, product->args[1]) ? ST_MAPPING_MATRIX_STEPS
                                                          : of_f32[q->target->f32_products];
}

/* ---- the choice ---- */

static int64_t tiles_of(const gpu_matrix_question *q, const gpu_tile_shape *shape)
{
    const int64_t down = (q->rows + shape->rows - 1) / shape->rows;
    const int64_t across = (q->columns + shape->columns - 1) / shape->columns;
    const int64_t batch = q->batch < INT32_MAX ? q->batch : INT32_MAX;
    int64_t tiles = 0;
    return __builtin_mul_overflow(down * across, batch, &tiles) ? INT64_MAX : tiles;
}

/* Do tiles of this shape keep the multiprocessors busy, and fit? */
static bool suits(const gpu_matrix_question *q, const gpu_tile_shape *shape)
{
    return tiles_of(q, shape) >= (int64_t)q->target->n_multiprocessors &&
           gpu_matrix_bytes(shape) <= q->target->shared_optin_bytes;
}

/* The largest that suits. What comes through registers leaves too few of them for the largest. */
static const gpu_tile_shape *choose(const gpu_matrix_question *q, uint32_t mapping)
{
    const st_loop_inst *product = st_loop_at(q->kernel, q->product);
    const gpu_tile_shape *shapes = shapes_of(mapping);
    const bool is_direct = mapping == ST_MAPPING_MATRIX_STEPS &&
                           is_plain(q->kernel, product->args[0]) &&
                           is_plain(q->kernel, product->args[1]);
    if (q->rows <= 32 || q->columns <= 32) {
        return &shapes[q->rows <= 32 ? SHAPE_WIDE : SHAPE_HIGH];
    }
    if (is_direct && q->rows > 64 && q->columns > 128 && suits(q, &shapes[SHAPE_HUGE])) {
        return &shapes[SHAPE_HUGE];
    }
    const bool is_large = q->rows > 64 && q->columns > 64 && suits(q, &shapes[SHAPE_LARGE]);
    return &shapes[is_large ? SHAPE_LARGE : SHAPE_SMALL];
}

const gpu_tile_shape *gpu_matrix_choose(const gpu_matrix_question *q)
{
    const uint32_t mapping = mapping_for(q);
    const gpu_tile_shape *shape = mapping ? choose(q, mapping) : NULL;
    return shape && gpu_matrix_bytes(shape) <= q->target->shared_optin_bytes ? shape : NULL;
}
