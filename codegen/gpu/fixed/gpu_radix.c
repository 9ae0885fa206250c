/* Long rows in order by radix sort, for gpu_sort.c: digits of 8 bits, the low ones first.
 *
 *     st_radix_count    a block counts the digits of a tile
 *     st_radix_offsets  of each digit, how many stand in the tiles before
 *     st_radix_move     a block puts the elements of a tile where their digits are to be
 *
 * Elements with equal digits keep their order, so that equal elements come by rising index. The
 * first digit is read from x, the last one puts values and indices of the result. */
#include "codegen/gpu/fixed/gpu_fixed.h"

#define THREADS 256u /* one for each digit */
#define DIGITS 256u
#define DIGIT_BITS 8u
#define ALIGNED(bytes) (((bytes) + 255u) & ~(uint64_t)255u)

enum radix_kernel { RADIX_COUNT, RADIX_OFFSETS, RADIX_MOVE };

const char *const gpu_radix_kernels[] = {"st_radix_count", "st_radix_offsets", "st_radix_move",
                                         NULL};

static const char radix_text[] =
    "\n"
    "#define ST_WARPS (ST_THREADS / ST_WARP)\n"
    "#define ST_DIGIT(key) ((st_u32)((key) >> ST_ARG(shift)) & (ST_DIGITS - 1))\n"
    "\n"
    "/* Lanes whose digit is the same. */\n"
    "ST_DEVICE st_lanes st_lanes_of(st_u32 digit)\n"
    "{\n"
    "    st_lanes same = ~(st_lanes)0;\n"
    "    ST_UNROLL\n"
    "    for (st_u32 bit = 1; bit < ST_DIGITS; bit *= 2) {\n"
    "        const st_bool is_set = (digit & bit) != 0;\n"
    "        const st_lanes set = st_ballot(is_set);\n"
    "        same &= is_set ? set : ~set;\n"
    "    }\n"
    "    return same;\n"
    "}\n"
    "\n"
    "/* Key i of the tile: of the list, or of x where there is none. */\n"
    "#define ST_LOAD_KEY(i) \\\n"
    "    (ST_ARG(keys_in) ? ST_GLOBAL(const st_key, ST_ARG(keys_in))[from + (i)] \\\n"
    "                     : st_key_of(x[(begin + (i)) * ST_ARG(x_step)]))\n"
    "\n"
    "#define ST_TILE_OF_ROW \\\n"
    "    const st_i64 tile = ST_BLOCK % ST_ARG(tiles); \\\n"
    "    const st_i64 list = ST_BLOCK / ST_ARG(tiles); \\\n"
    "    const st_i64 begin = tile * ST_TILE; \\\n"
    "    const st_i64 from = list * ST_ARG(n) + begin; \\\n"
    "    const st_u32 size = (st_u32)ST_MIN(ST_ARG(n) - begin, ST_TILE); \\\n"
    "    st_i64 row = list; \\\n"
    "    st_i64 x_at = 0; \\\n"
    "    st_i64 values_at = 0; \\\n"
    "    st_i64 indices_at = 0; \\\n"
    "    ST_PLACE(row, x_at, values_at, indices_at); \\\n"
    "    const st_t *x = ST_GLOBAL(const st_t, ST_ARG(x)) + x_at\n"
    "\n"
    "/* How often each digit is in tile ST_BLOCK of a row. */\n"
    "ST_KERNEL(st_radix_count, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    ST_SHARED(st_u32, counts, ST_DIGITS);\n"
    "    ST_TILE_OF_ROW;\n"
    "    st_key keys[ST_ITEMS];\n"
    "    (void)values_at;\n"
    "    (void)indices_at;\n"
    "    counts[ST_THREAD] = 0;\n"
    "    st_barrier();\n"
    "    ST_UNROLL\n"
    "    for (st_u32 k = 0; k < ST_ITEMS; k++) {\n"
    "        const st_u32 i = k * ST_THREADS + ST_THREAD;\n"
    "        keys[k] = i < size ? ST_LOAD_KEY(i) : 0;\n"
    "    }\n"
    "    ST_UNROLL\n"
    "    for (st_u32 k = 0; k < ST_ITEMS; k++) {\n"
    "        if (k * ST_THREADS + ST_THREAD < size) {\n"
    "            (void)st_atomic_add_u32(counts + ST_DIGIT(keys[k]), 1);\n"
    "        }\n"
    "    }\n"
    "    st_barrier();\n"
    "    ST_GLOBAL(st_u32, ST_ARG(counts))\n"
    "    [(list * ST_DIGITS + ST_THREAD) * ST_ARG(tiles) + tile] = counts[ST_THREAD];\n"
    "}\n"
    "\n"
    "/* Counts of a row's digit become what stands in the tiles before each; a warp for each. */\n"
    "ST_KERNEL(st_radix_offsets, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    const st_i64 id = ST_BLOCK * ST_WARPS + ST_THREAD / ST_WARP;\n"
    "    if (id < ST_ARG(rows) * ST_DIGITS) {\n"
    "        st_u32 *counts = ST_GLOBAL(st_u32, ST_ARG(counts)) + id * ST_ARG(tiles);\n"
    "        st_u32 carry = 0;\n"
    "        for (st_i64 base = ST_LANE * 4; base - ST_LANE * 4 < ST_ARG(tiles); base += ST_WARP * "
    "4) {\n"
    "            st_u32 own[4];\n"
    "            st_u32 sum = 0;\n"
    "            st_u32 before = carry;\n"
    "            ST_UNROLL\n"
    "            for (st_u32 k = 0; k < 4; k++) {\n"
    "                own[k] = base + k < ST_ARG(tiles) ? counts[base + k] : 0;\n"
    "                sum += own[k];\n"
    "            }\n"
    "            for (st_u32 mask = 1; mask < ST_WARP; mask *= 2) {\n"
    "                const st_u32 other = st_shuffle_xor_u32(sum, mask);\n"
    "                before += ST_LANE & mask ? other : 0;\n"
    "                sum += other;\n"
    "            }\n"
    "            ST_UNROLL\n"
    "            for (st_u32 k = 0; k < 4; k++) {\n"
    "                if (base + k < ST_ARG(tiles)) {\n"
    "                    counts[base + k] = before;\n"
    "                }\n"
    "                before += own[k];\n"
    "            }\n"
    "            carry += sum;\n"
    "        }\n"
    "        if (ST_LANE == 0) {\n"
    "            ST_GLOBAL(st_u32, ST_ARG(totals))[id] = carry;\n"
    "        }\n"
    "    }\n"
    "}\n"
    "\n"
    "/* The elements of tile ST_BLOCK of a row go to where their digit puts them: in the tile "
    "first, so\n"
    " * that those of a digit are stored side by side. A thread's elements are a warp apart, and "
    "those\n"
    " * of a warp side by side, so that elements of a digit keep their order. */\n"
    "ST_KERNEL(st_radix_move, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    ST_SHARED(st_key, tile_keys, ST_TILE);\n"
    "    ST_SHARED(st_u32, tile_indices, ST_TILE);\n"
    "    ST_SHARED(st_u16, counts, ST_WARPS * ST_DIGITS);\n"
    "    ST_SHARED(st_u32, bases, ST_DIGITS);\n"
    "    ST_SHARED(st_u32, warps, ST_WARPS * 2);\n"
    "    ST_TILE_OF_ROW;\n"
    "    const st_u32 first = ST_THREAD / ST_WARP * ST_WARP * ST_ITEMS + ST_LANE;\n"
    "    st_u16 *own = counts + ST_THREAD / ST_WARP * ST_DIGITS;\n"
    "    st_key keys[ST_ITEMS];\n"
    "    st_u32 indices[ST_ITEMS];\n"
    "    st_u32 places[ST_ITEMS];\n"
    "    for (st_u32 i = ST_THREAD; i < ST_WARPS * ST_DIGITS; i += ST_THREADS) {\n"
    "        counts[i] = 0;\n"
    "    }\n"
    "    ST_UNROLL\n"
    "    for (st_u32 k = 0; k < ST_ITEMS; k++) {\n"
    "        const st_u32 i = first + k * ST_WARP;\n"
    "        keys[k] = (st_key)-1;\n"
    "        indices[k] = (st_u32)begin + i;\n"
    "        if (i < size) {\n"
    "            keys[k] = ST_LOAD_KEY(i);\n"
    "            if (ST_ARG(indices_in)) {\n"
    "                indices[k] = ST_GLOBAL(const st_u32, ST_ARG(indices_in))[from + i];\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "    st_barrier();\n"
    "    ST_UNROLL\n"
    "    for (st_u32 k = 0; k < ST_ITEMS; k++) {\n"
    "        const st_u32 digit = ST_DIGIT(keys[k]);\n"
    "        const st_lanes same = st_lanes_of(digit);\n"
    "        const st_u32 before = st_count_lanes(same & (((st_lanes)1 << ST_LANE) - 1));\n"
    "        places[k] = own[digit] + before;\n"
    "        st_warp_barrier();\n"
    "        if (before == 0) {\n"
    "            own[digit] = (st_u16)(places[k] + st_count_lanes(same));\n"
    "        }\n"
    "        st_warp_barrier();\n"
    "    }\n"
    "    st_barrier();\n"
    "    /* A thread for each digit: where it begins in the tile and in the row. */\n"
    "    st_u32 total = 0;\n"
    "    for (st_u32 w = 0; w < ST_WARPS; w++) {\n"
    "        total += counts[w * ST_DIGITS + ST_THREAD];\n"
    "    }\n"
    "    st_u32 at = st_count_before(total, warps);\n"
    "    bases[ST_THREAD] =\n"
    "        st_count_before(ST_GLOBAL(const st_u32, ST_ARG(totals))[list * ST_DIGITS + "
    "ST_THREAD],\n"
    "                        warps + ST_WARPS) +\n"
    "        ST_GLOBAL(const st_u32, ST_ARG(counts))\n"
    "            [(list * ST_DIGITS + ST_THREAD) * ST_ARG(tiles) + tile] - at;\n"
    "    for (st_u32 w = 0; w < ST_WARPS; w++) {\n"
    "        const st_u32 n = counts[w * ST_DIGITS + ST_THREAD];\n"
    "        counts[w * ST_DIGITS + ST_THREAD] = (st_u16)at;\n"
    "        at += n;\n"
    "    }\n"
    "    st_barrier();\n"
    "    ST_UNROLL\n"
    "    for (st_u32 k = 0; k < ST_ITEMS; k++) {\n"
    "        places[k] += own[ST_DIGIT(keys[k])];\n"
    "        tile_keys[places[k]] = keys[k];\n"
    "        tile_indices[places[k]] = indices[k];\n"
    "    }\n"
    "    st_barrier();\n"
    "    ST_UNROLL\n"
    "    for (st_u32 k = 0; k < ST_ITEMS; k++) {\n"
    "        const st_u32 i = k * ST_THREADS + ST_THREAD;\n"
    "        if (i < size) {\n"
    "            const st_key key = tile_keys[i];\n"
    "            const st_u32 index = tile_indices[i];\n"
    "            const st_i64 to = bases[ST_DIGIT(key)] + i;\n"
    "            if (ST_ARG(keys_out)) {\n"
    "                ST_GLOBAL(st_key, ST_ARG(keys_out))[list * ST_ARG(n) + to] = key;\n"
    "                ST_GLOBAL(st_u32, ST_ARG(indices_out))[list * ST_ARG(n) + to] = index;\n"
    "            } else if (to < ST_ARG(take)) {\n"
    "                if (ST_ARG(values)) {\n"
    "                    ST_GLOBAL(st_t, ST_ARG(values))[values_at + to * ST_ARG(values_step)] =\n"
    "                        x[index * ST_ARG(x_step)];\n"
    "                }\n"
    "                if (ST_ARG(indices)) {\n"
    "                    ST_GLOBAL(st_i64, ST_ARG(indices))[indices_at + to * "
    "ST_ARG(indices_step)] =\n"
    "                        index;\n"
    "                }\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n";

/* Elements of a thread; those of a tile lie in shared memory. */
static uint32_t items_of(const gpu_fixed_desc *desc)
{
    return st_element_bytes(desc->dtype) == 8u ? 8u : 16u;
}

void gpu_put_radix(const gpu_fixed_desc *desc, st_str *out)
{
    st_str_addf(out, "#define ST_THREADS %u\n#define ST_DIGITS %uu\n#define ST_ITEMS %u\n", THREADS,
                DIGITS, items_of(desc));
    st_str_add(out, "#define ST_TILE (ST_THREADS * ST_ITEMS)\n");
    gpu_put_arguments(desc, GPU_FIXED_COLUMNS,
                      "x values indices keys_in indices_in keys_out indices_out counts totals n "
                      "tiles rows take shift x_step values_step indices_step",
                      out);
    gpu_put_count_before(out);
    st_str_add(out, radix_text);
}

/* ---- a call ---- */

static void set_arguments(const gpu_radix *r, gpu_fixed_call *call, int64_t tiles, uint32_t shift)
{
    static const gpu_sort_list none = {0};
    const gpu_axes *axes = &call->axes;
    const bool is_first = shift == 0 && r->is_of_x;
    const bool is_last = shift + DIGIT_BITS >= r->bits && r->is_of_x;
    const gpu_sort_list *in = is_first ? &none : &r->lists[r->now];
    const gpu_sort_list *out = is_last ? &none : &r->lists[1u - r->now];
    const uint64_t x_at =
        r->is_of_x ? (uint64_t)call->of->numbers[0] * st_element_bytes(call->op->desc.dtype) : 0;
    const uint64_t counts = ALIGNED((uint64_t)(axes->rows * DIGITS) * sizeof(uint32_t));
    const uint64_t arguments[] = {gpu_buffer_of(call, 0) + x_at,
                                  gpu_buffer_of(call, 1),
                                  gpu_buffer_of(call, 2),
                                  in->keys,
                                  in->indices,
                                  out->keys,
                                  out->indices,
                                  r->counts + counts,
                                  r->counts,
                                  (uint64_t)axes->own_size,
                                  (uint64_t)tiles,
                                  (uint64_t)axes->rows,
                                  (uint64_t)r->take,
                                  shift,
                                  (uint64_t)axes->own_stride[0],
                                  (uint64_t)axes->own_stride[1],
                                  (uint64_t)axes->own_stride[2]};
    gpu_set_arguments(call, arguments, sizeof arguments / sizeof arguments[0]);
}

static stator_status sort_digit(gpu_radix *r, gpu_fixed_call *call, int64_t tiles, uint32_t shift,
                                stator_diag **err)
{
    const int64_t rows = call->axes.rows;
    const uint32_t warp = call->gpu->emitter.target.warp_size;
    set_arguments(r, call, tiles, shift);
    ST_TRY(gpu_launch_fixed(call, r->program, RADIX_COUNT, THREADS, rows * tiles, err));
    ST_TRY(gpu_launch_fixed(call, r->program, RADIX_OFFSETS, THREADS,
                            gpu_count_of(rows * DIGITS, THREADS / warp), err));
    ST_TRY(gpu_launch_fixed(call, r->program, RADIX_MOVE, THREADS, rows * tiles, err));
    r->now = 1u - r->now;
    return STATOR_OK;
}

stator_status gpu_radix_sort(gpu_radix *r, gpu_fixed_call *call, stator_diag **err)
{
    st_gpu *gpu = call->gpu;
    const int64_t tiles =
        gpu_count_of(call->axes.own_size, (int64_t)(THREADS * items_of(&call->op->desc)));
    const uint64_t rows = (uint64_t)call->axes.rows * DIGITS * sizeof(uint32_t);
    ST_TRY(gpu_take(gpu, &gpu->device, call->call->stream, ALIGNED(rows) + rows * (uint64_t)tiles,
                    &r->counts, err));
    stator_status status = STATOR_OK;
    for (uint32_t shift = 0; shift < r->bits; shift += DIGIT_BITS) {
        ST_THEN(status, sort_digit(r, call, tiles, shift, err));
    }
    gpu_note_queued(gpu, call->call->stream);
    gpu_give(gpu, &gpu->device, call->call->stream, r->counts);
    return status;
}
