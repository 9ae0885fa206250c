/* sort and topk of flags: those that come first, by rising index, then the others.
 *
 *     st_partition_count    a block counts the flags of a tile that come first
 *     st_partition_offsets  of each tile, how many stand in the tiles before
 *     st_partition_put      a block puts the elements of a tile
 *
 * Flags are read twice and results written once; where as many are wanted as come first, as
 * nonzero does, the others are not written. */
#include "codegen/gpu/fixed/gpu_fixed.h"

#define THREADS 256u
#define ITEMS 16u /* flags of a thread, side by side: one load */
#define TILE (THREADS * ITEMS)

enum partition_kernel { PARTITION_COUNT, PARTITION_OFFSETS, PARTITION_PUT };

static const char *const kernels[] = {"st_partition_count", "st_partition_offsets",
                                      "st_partition_put", NULL};

static bool set_desc(const st_target *target, const st_contraction *contraction,
                     gpu_fixed_desc *out)
{
    return contraction->x.dtype == STATOR_BOOL && gpu_sort_kind.describe(target, contraction, out);
}

/* ---- text ---- */

static const char helpers_text[] =
    "\n"
    "/* The four flags of a word, as bits. */\n"
    "#define ST_BITS(word) ((((word) & 0x01010101u) * 0x10204080u) >> 28)\n"
    "\n"
    "/* A bit for each of the thread's flags that comes first. `x`: the address of the tile; "
    "`size`:\n"
    " * its flags. */\n"
    "ST_DEVICE st_u32 st_first_of(st_u64 x, st_i64 step, st_u32 size)\n"
    "{\n"
    "    const st_u32 at = ST_THREAD * ST_ITEMS;\n"
    "    const st_u32 n = at >= size ? 0 : ST_MIN(size - at, ST_ITEMS);\n"
    "    st_u32 bits = 0;\n"
    "    if (n == ST_ITEMS && step == 1 && x % ST_ITEMS == 0) {\n"
    "        const st_u32x4 words = st_load_u32x4(ST_GLOBAL(const st_bool, x) + at);\n"
    "        bits = ST_BITS(words.x) | ST_BITS(words.y) << 4 | ST_BITS(words.z) << 8 |\n"
    "               ST_BITS(words.w) << 12;\n"
    "    } else {\n"
    "        for (st_u32 k = 0; k < n; k++) {\n"
    "            bits |= (ST_GLOBAL(const st_bool, x)[(at + k) * step] ? 1u : 0u) << k;\n"
    "        }\n"
    "    }\n"
    "    return ST_FIRST ? bits : ~bits & ((1u << n) - 1);\n"
    "}\n"
    "\n"
    "#define ST_TILE_OF_ROW \\\n"
    "    ST_SHARED(st_u32, warps, ST_THREADS / ST_WARP); \\\n"
    "    const st_i64 tile = ST_BLOCK % ST_ARG(tiles); \\\n"
    "    const st_i64 list = ST_BLOCK / ST_ARG(tiles); \\\n"
    "    const st_i64 begin = tile * ST_TILE; \\\n"
    "    const st_u32 size = (st_u32)ST_MIN(ST_ARG(n) - begin, ST_TILE); \\\n"
    "    st_i64 row = list; \\\n"
    "    st_i64 x_at = begin * ST_ARG(x_step); \\\n"
    "    st_i64 values_at = 0; \\\n"
    "    st_i64 indices_at = 0; \\\n"
    "    ST_PLACE(row, x_at, values_at, indices_at); \\\n"
    "    const st_u32 bits = st_first_of((st_u64)(ST_ARG(x) + x_at), ST_ARG(x_step), size); \\\n"
    "    const st_u32 before = st_count_before(st_count_lanes(bits), warps); \\\n"
    "    st_u32 n_first = 0; /* of the tile */ \\\n"
    "    for (st_u32 w = 0; w < ST_THREADS / ST_WARP; w++) { \\\n"
    "        n_first += warps[w]; \\\n"
    "    }\n";

static const char partition_text[] =
    "\n"
    "/* Flags of tile ST_BLOCK of a row that come first. */\n"
    "ST_KERNEL(st_partition_count, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    ST_TILE_OF_ROW;\n"
    "    (void)before;\n"
    "    (void)values_at;\n"
    "    (void)indices_at;\n"
    "    if (ST_THREAD == 0) {\n"
    "        ST_GLOBAL(st_u32, ST_ARG(counts))[list * ST_ARG(tiles) + tile] = n_first;\n"
    "    }\n"
    "}\n"
    "\n"
    "/* Counts of row ST_BLOCK become what stands in the tiles before each; the row's total. */\n"
    "ST_KERNEL(st_partition_offsets, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    ST_SHARED(st_u32, warps, ST_THREADS / ST_WARP);\n"
    "    st_u32 *counts = ST_GLOBAL(st_u32, ST_ARG(counts)) + ST_BLOCK * ST_ARG(tiles);\n"
    "    st_u32 carry = 0;\n"
    "    for (st_i64 base = 0; base < ST_ARG(tiles); base += ST_THREADS * 4) {\n"
    "        const st_i64 at = base + ST_THREAD * 4;\n"
    "        st_u32 own[4];\n"
    "        st_u32 sum = 0;\n"
    "        ST_UNROLL\n"
    "        for (st_u32 k = 0; k < 4; k++) {\n"
    "            own[k] = at + k < ST_ARG(tiles) ? counts[at + k] : 0;\n"
    "            sum += own[k];\n"
    "        }\n"
    "        st_u32 before = carry + st_count_before(sum, warps);\n"
    "        ST_UNROLL\n"
    "        for (st_u32 k = 0; k < 4; k++) {\n"
    "            if (at + k < ST_ARG(tiles)) {\n"
    "                counts[at + k] = before;\n"
    "            }\n"
    "            before += own[k];\n"
    "        }\n"
    "        for (st_u32 w = 0; w < ST_THREADS / ST_WARP; w++) {\n"
    "            carry += warps[w];\n"
    "        }\n"
    "        st_barrier();\n"
    "    }\n"
    "    if (ST_THREAD == 0) {\n"
    "        ST_GLOBAL(st_u32, ST_ARG(totals))[ST_BLOCK] = carry;\n"
    "    }\n"
    "}\n"
    "\n"
    "/* Element `index` of the row is number `to` of the result. */\n"
    "#define ST_PUT(to, index, flag) \\\n"
    "    if ((to) < ST_ARG(take)) { \\\n"
    "        if (ST_ARG(values)) { \\\n"
    "            ST_GLOBAL(st_bool, ST_ARG(values)) \\\n"
    "            [values_at + (to) * ST_ARG(values_step)] = (flag); \\\n"
    "        } \\\n"
    "        if (ST_ARG(indices)) { \\\n"
    "            ST_GLOBAL(st_i64, ST_ARG(indices)) \\\n"
    "            [indices_at + (to) * ST_ARG(indices_step)] = (index); \\\n"
    "        } \\\n"
    "    }\n"
    "\n"
    "/* The elements of tile ST_BLOCK of a row, in order in shared memory first, so that stores "
    "are\n"
    " * side by side. */\n"
    "ST_KERNEL(st_partition_put, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    ST_SHARED(st_u16, places, ST_TILE);\n"
    "    ST_TILE_OF_ROW;\n"
    "    st_u32 first = before;\n"
    "    st_u32 other = n_first + ST_THREAD * ST_ITEMS - before;\n"
    "    ST_UNROLL\n"
    "    for (st_u32 k = 0; k < ST_ITEMS; k++) {\n"
    "        const st_u32 i = ST_THREAD * ST_ITEMS + k;\n"
    "        if (bits >> k & 1) {\n"
    "            places[first++] = (st_u16)i;\n"
    "        } else if (i < size) {\n"
    "            places[other++] = (st_u16)i;\n"
    "        }\n"
    "    }\n"
    "    st_barrier();\n"
    "    const st_i64 first_to = ST_GLOBAL(const st_u32, ST_ARG(counts))[list * ST_ARG(tiles) + "
    "tile];\n"
    "    const st_i64 total = ST_GLOBAL(const st_u32, ST_ARG(totals))[list];\n"
    "    for (st_u32 i = ST_THREAD; i < n_first; i += ST_THREADS) {\n"
    "        ST_PUT(first_to + i, begin + places[i], ST_FIRST);\n"
    "    }\n"
    "    const st_i64 other_to = total + begin - first_to - n_first;\n"
    "    for (st_u32 i = n_first + ST_THREAD; i < size && total < ST_ARG(take); i += ST_THREADS) "
    "{\n"
    "        ST_PUT(other_to + i, begin + places[i], !ST_FIRST);\n"
    "    }\n"
    "}\n";

static void print(const gpu_fixed_desc *desc, uint32_t program, st_str *out)
{
    (void)program;
    st_str_add(out, "#include \"gpu_prelude.h\"\n\n");
    st_str_addf(out, "#define ST_THREADS %u\n#define ST_ITEMS %u\n", THREADS, ITEMS);
    st_str_add(out, "#define ST_TILE (ST_THREADS * ST_ITEMS)\n");
    st_str_add(out, "#define ST_MIN(a, b) ((a) < (b) ? (a) : (b))\n");
    st_str_addf(out, "#define ST_FIRST %u /* the flag that comes first */\n", desc->is_reverse);
    gpu_put_arguments(desc, GPU_FIXED_COLUMNS,
                      "x values indices counts totals n tiles take x_step values_step indices_step",
                      out);
    gpu_put_count_before(out);
    st_str_add(out, helpers_text);
    st_str_add(out, partition_text);
}

/* ---- a call ---- */

static stator_status launch_all(gpu_fixed_call *call, st_gpu_address counts, int64_t tiles,
                                stator_diag **err)
{
    const gpu_axes *axes = &call->axes;
    const uint64_t arguments[] = {gpu_buffer_of(call, 0) + (uint64_t)call->of->numbers[0],
                                  gpu_buffer_of(call, 1),
                                  gpu_buffer_of(call, 2),
                                  counts,
                                  counts + (uint64_t)(axes->rows * tiles) * sizeof(uint32_t),
                                  (uint64_t)axes->own_size,
                                  (uint64_t)tiles,
                                  (uint64_t)call->of->numbers[1],
                                  (uint64_t)axes->own_stride[0],
                                  (uint64_t)axes->own_stride[1],
                                  (uint64_t)axes->own_stride[2]};
    gpu_set_arguments(call, arguments, sizeof arguments / sizeof arguments[0]);
    ST_TRY(gpu_launch_fixed(call, 0, PARTITION_COUNT, THREADS, axes->rows * tiles, err));
    ST_TRY(gpu_launch_fixed(call, 0, PARTITION_OFFSETS, THREADS, axes->rows, err));
    return gpu_launch_fixed(call, 0, PARTITION_PUT, THREADS, axes->rows * tiles, err);
}

static stator_status run(gpu_fixed_call *call, stator_diag **err)
{
    st_gpu *gpu = call->gpu;
    const int64_t tiles = gpu_count_of(call->axes.own_size, (int64_t)TILE);
    const uint64_t bytes = (uint64_t)(call->axes.rows * (tiles + 1)) * sizeof(uint32_t);
    st_gpu_address counts = 0;
    ST_TRY(gpu_check_row(call, err));
    if (call->of->numbers[1] <= 0) {
        return STATOR_OK;
    }
    ST_TRY(gpu_take(gpu, &gpu->device, call->call->stream, bytes, &counts, err));
    const stator_status status = launch_all(call, counts, tiles, err);
    gpu_note_queued(gpu, call->call->stream);
    gpu_give(gpu, &gpu->device, call->call->stream, counts);
    return status;
}

const gpu_fixed_kind gpu_partition_kind = {.n_columns = GPU_FIXED_COLUMNS,
                                           .first_axis = 2,
                                           .n_programs = 1,
                                           .kernels = {kernels},
                                           .describe = set_desc,
                                           .print = print,
                                           .run = run};
