/* sort and topk: rows in order.
 *
 * An element becomes a key, an unsigned integer whose order is the element's: -0 is 0, NaN the
 * largest number, and where the largest come first all bits are turned. Key and index together are
 * distinct, so that equal elements come by rising index however the work is divided.
 *
 *     st_sort_tiles   a block sorts a tile in shared memory (bitonic) and stores its first elements
 *     st_sort_put     values and indices of the result, from the indices
 *
 * Rows that are longer are sorted by radix (gpu_radix.c). The first few of a row need no more:
 * the first of each tile are candidates, of which the first of each tile are candidates again,
 * until one tile is left. */
#include "codegen/gpu/fixed/gpu_fixed.h"
#include "codegen/gpu/gpu_text.h"

#include <string.h>

#define TILE_MIN 256u
#define TILE_MAX 2048u
#define TILE_OF_THREAD 4u /* elements of a tile that a thread sorts */
#define SHORT_ROW 64      /* known to be no longer: loops count the elements before each */
#define INDEX_MAX UINT32_MAX

enum sort_program { SORT_TILES, SORT_RADIX };
enum sort_kernel { TILES_SORT, TILES_PUT };

const char *const gpu_sort_tile_kernels[] = {"st_sort_tiles", "st_sort_put", NULL};

/* ---- what it takes ---- */

static uint32_t tile_of(int64_t size)
{
    uint32_t tile = TILE_MAX;
    while (tile > TILE_MIN && size <= tile / 2u) {
        tile /= 2u;
    }
    return tile;
}

static bool set_desc(const st_target *target, const st_contraction *contraction,
                     gpu_fixed_desc *out)
{
    const st_contraction_order *order = &contraction->order;
    const int64_t size =
        st_loop_known_or(&contraction->syms->tab, order->dims[order->axis], INT64_MAX);
    (void)target;
    out->rank = order->rank;
    out->axis = order->axis;
    out->is_reverse = order->is_falling;
    out->buffers[2] = order->indices;
    out->tile = tile_of(size);
    return size > SHORT_ROW && st_loop_class_of(contraction->x.dtype) != 0;
}

/* ---- text ---- */

/* Bits of mantissa and bits in all, by dtype; floats alone. */
static uint32_t mantissa_bits(uint32_t dtype)
{
    switch (dtype) {
    case STATOR_F64:
        return 52;
    case STATOR_F32:
        return 23;
    case STATOR_F16:
        return 10;
    case STATOR_BF16:
        return 7;
    case STATOR_F8E4M3FN:
        return 3;
    default:
        return 2;
    }
}

static bool is_storage(uint32_t dtype)
{
    return (st_loop_class_of(dtype) & (ST_LOOP_STORAGE | ST_LOOP_FLOATS)) != 0;
}

/* The bits above which an element without its sign is NaN; E4M3FN has no infinity. */
static uint64_t infinity_of(uint32_t dtype, uint32_t bits)
{
    const uint64_t all = (UINT64_C(1) << (bits - 1u)) - 1u;
    return dtype == STATOR_F8E4M3FN ? all - 1u : all - ((UINT64_C(1) << mantissa_bits(dtype)) - 1u);
}

static void put_key_of_float(const gpu_fixed_desc *desc, uint32_t bits, st_str *out)
{
    const uint64_t sign = UINT64_C(1) << (bits - 1u);
    const uint64_t all = sign - 1u + sign;
    const char *of = desc->dtype == STATOR_F64   ? "st_bits_of_f64(x)"
                     : desc->dtype == STATOR_F32 ? "st_bits_of_f32(x)"
                                                 : "x";
    st_str_addf(out,
                "    const st_key bits = %s;\n"
                "    const st_key size = bits & %lluu;\n"
                "    const st_key key = size > %lluu   ? %lluu\n"
                "                       : size == 0 ? %lluu\n"
                "                       : size != bits ? ~bits & %lluu\n"
                "                                      : bits | %lluu;\n",
                of, (unsigned long long)(sign - 1u),
                (unsigned long long)infinity_of(desc->dtype, bits), (unsigned long long)all,
                (unsigned long long)sign, (unsigned long long)all, (unsigned long long)sign);
}

/* A sign turns the first bit. */
static void put_key_of_integer(const gpu_fixed_desc *desc, st_str *out)
{
    const bool is_signed = st_loop_class_of(desc->dtype) == ST_LOOP_INTS;
    const uint32_t bits = st_element_bytes(desc->dtype) * 8u;
    if (is_signed) {
        st_str_addf(out, "    const st_key key = (st_key)(st_u%u)x ^ 0x%llxu;\n", bits,
                    (unsigned long long)(UINT64_C(1) << (bits - 1u)));
    } else {
        st_str_add(out, "    const st_key key = (st_key)x;\n");
    }
}

uint32_t gpu_key_bits(uint32_t dtype)
{
    return st_element_bytes(dtype) * 8u;
}

static void put_key(const gpu_fixed_desc *desc, st_str *out)
{
    const uint32_t bytes = st_element_bytes(desc->dtype);
    st_str_add(out, "\n/* Keys rise as elements are to come. */\n"
                    "ST_DEVICE st_key st_key_of(st_t x)\n{\n");
    if (is_storage(desc->dtype)) {
        put_key_of_float(desc, bytes * 8u, out);
    } else {
        put_key_of_integer(desc, out);
    }
    st_str_addf(out, "    return %skey;\n}\n", desc->is_reverse ? "~" : "");
}

/* Beginning of every program: keys and their order. */
static void put_head(const gpu_fixed_desc *desc, st_str *out)
{
    st_str_add(out, "#include \"gpu_prelude.h\"\n\n");
    st_str_addf(out, "typedef st_u%u st_key;\n", st_element_bytes(desc->dtype) == 8u ? 64 : 32);
    st_str_add(out, "#define ST_MIN(a, b) ((a) < (b) ? (a) : (b))\n"
                    "\n/* Does the first stand before the second? */\n"
                    "#define ST_BEFORE(key, index, key2, index2) \\\n"
                    "    ((key) < (key2) || ((key) == (key2) && (index) < (index2)))\n");
}

static const char network_text[] =
    "\n"
    "/* Puts n elements in order, a power of two of them (bitonic). */\n"
    "#define ST_SORT(keys, indices, n) \\\n"
    "    for (st_u32 size = 2; size <= (n); size *= 2) { \\\n"
    "        for (st_u32 apart = size / 2; apart > 0; apart /= 2) { \\\n"
    "            for (st_u32 pair = ST_THREAD; pair < (n) / 2; pair += ST_THREADS) { \\\n"
    "                const st_u32 a = pair / apart * apart * 2 + pair % apart; \\\n"
    "                const st_u32 b = apart == size / 2 ? a / size * size + size - 1 - a % size "
    "\\\n"
    "                                                   : a + apart; \\\n"
    "                const st_key key = keys[a]; \\\n"
    "                const st_key key2 = keys[b]; \\\n"
    "                const st_u32 index = indices[a]; \\\n"
    "                const st_u32 index2 = indices[b]; \\\n"
    "                if (ST_BEFORE(key2, index2, key, index)) { \\\n"
    "                    keys[a] = key2; \\\n"
    "                    keys[b] = key; \\\n"
    "                    indices[a] = index2; \\\n"
    "                    indices[b] = index; \\\n"
    "                } \\\n"
    "            } \\\n"
    "            st_barrier(); \\\n"
    "        } \\\n"
    "    }\n";

static const char tiles_text[] =
    "\n"
    "/* Tile ST_BLOCK of a row: its elements, or candidates where there are any. */\n"
    "ST_KERNEL(st_sort_tiles, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    ST_SHARED(st_key, keys, ST_TILE);\n"
    "    ST_SHARED(st_u32, indices, ST_TILE);\n"
    "    const st_i64 begin = ST_BLOCK % ST_ARG(tiles) * ST_TILE;\n"
    "    st_i64 row = ST_BLOCK / ST_ARG(tiles);\n"
    "    const st_i64 from = row * ST_ARG(n) + begin;\n"
    "    st_i64 x_at = 0;\n"
    "    st_i64 values_at = 0;\n"
    "    st_i64 indices_at = 0;\n"
    "    ST_PLACE(row, x_at, values_at, indices_at);\n"
    "    const st_t *x = ST_GLOBAL(const st_t, ST_ARG(x)) + x_at;\n"
    "    for (st_u32 i = ST_THREAD; i < ST_TILE; i += ST_THREADS) {\n"
    "        st_key key = (st_key)-1;\n"
    "        st_u32 index = 0xffffffffu;\n"
    "        if (begin + i < ST_ARG(n)) {\n"
    "            if (ST_ARG(keys_in)) {\n"
    "                key = ST_GLOBAL(const st_key, ST_ARG(keys_in))[from + i];\n"
    "                index = ST_GLOBAL(const st_u32, ST_ARG(indices_in))[from + i];\n"
    "            } else {\n"
    "                key = st_key_of(x[(begin + i) * ST_ARG(x_step)]);\n"
    "                index = (st_u32)(begin + i);\n"
    "            }\n"
    "        }\n"
    "        keys[i] = key;\n"
    "        indices[i] = index;\n"
    "    }\n"
    "    st_barrier();\n"
    "    ST_SORT(keys, indices, ST_TILE);\n"
    "    const st_i64 n_kept = ST_MIN(ST_ARG(kept), ST_ARG(n) - begin);\n"
    "    const st_i64 to = ST_BLOCK / ST_ARG(tiles) * ST_ARG(n_out) +\n"
    "                      ST_BLOCK % ST_ARG(tiles) * ST_ARG(kept);\n"
    "    for (st_u32 i = ST_THREAD; i < n_kept; i += ST_THREADS) {\n"
    "        ST_GLOBAL(st_key, ST_ARG(keys_out))[to + i] = keys[i];\n"
    "        ST_GLOBAL(st_u32, ST_ARG(indices_out))[to + i] = indices[i];\n"
    "    }\n"
    "}\n"
    "\n"
    "/* Values and indices of the first elements; `n` of a row are in order, `kept` are wanted. "
    "*/\n"
    "ST_KERNEL(st_sort_put, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    const st_i64 id = ST_BLOCK * ST_THREADS + ST_THREAD;\n"
    "    if (id < ST_ARG(rows) * ST_ARG(kept)) {\n"
    "        st_i64 row = id / ST_ARG(kept);\n"
    "        const st_i64 i = id % ST_ARG(kept);\n"
    "        const st_u32 index = ST_GLOBAL(const st_u32, ST_ARG(indices_in))[row * ST_ARG(n) + "
    "i];\n"
    "        st_i64 x_at = index * ST_ARG(x_step);\n"
    "        st_i64 values_at = i * ST_ARG(values_step);\n"
    "        st_i64 indices_at = i * ST_ARG(indices_step);\n"
    "        ST_PLACE(row, x_at, values_at, indices_at);\n"
    "        if (ST_ARG(values)) {\n"
    "            ST_GLOBAL(st_t, ST_ARG(values))[values_at] =\n"
    "                ST_GLOBAL(const st_t, ST_ARG(x))[x_at];\n"
    "        }\n"
    "        if (ST_ARG(indices)) {\n"
    "            ST_GLOBAL(st_i64, ST_ARG(indices))[indices_at] = index;\n"
    "        }\n"
    "    }\n"
    "}\n";

void gpu_put_keys(const gpu_fixed_desc *desc, st_str *out)
{
    put_head(desc, out);
    st_str_addf(out, "typedef %s st_t;\n", gpu_spelling.types[desc->dtype]);
    put_key(desc, out);
    st_str_add(out, network_text);
}

static void print(const gpu_fixed_desc *desc, uint32_t program, st_str *out)
{
    gpu_put_keys(desc, out);
    if (program == SORT_RADIX) {
        gpu_put_radix(desc, out);
        return;
    }
    st_str_addf(out, "#define ST_TILE %u\n#define ST_THREADS %u\n", desc->tile,
                desc->tile / TILE_OF_THREAD);
    gpu_put_arguments(desc, GPU_FIXED_COLUMNS,
                      "x values indices keys_in indices_in keys_out indices_out n tiles kept n_out "
                      "rows x_step values_step indices_step",
                      out);
    st_str_add(out, tiles_text);
}

/* ---- a call ---- */

typedef struct sorting {
    gpu_fixed_call *call;
    int64_t take;
    uint64_t key_bytes;
    gpu_sort_list lists[2]; /* from one the other is made */
    uint32_t now;
} sorting;

/* The arguments of both kernels of the first program, in the order of their fields. */
static void set_tile_arguments(const sorting *s, const gpu_sort_list *in, const gpu_sort_list *out,
                               int64_t tiles, int64_t kept)
{
    const gpu_axes *axes = &s->call->axes;
    const uint64_t bytes = st_element_bytes(s->call->op->desc.dtype);
    const uint64_t arguments[] = {gpu_buffer_of(s->call, 0) +
                                      (uint64_t)s->call->of->numbers[0] * bytes,
                                  gpu_buffer_of(s->call, 1),
                                  gpu_buffer_of(s->call, 2),
                                  in->keys,
                                  in->indices,
                                  out->keys,
                                  out->indices,
                                  (uint64_t)in->n,
                                  (uint64_t)tiles,
                                  (uint64_t)kept,
                                  (uint64_t)out->n,
                                  (uint64_t)axes->rows,
                                  (uint64_t)axes->own_stride[0],
                                  (uint64_t)axes->own_stride[1],
                                  (uint64_t)axes->own_stride[2]};
    gpu_set_arguments(s->call, arguments, sizeof arguments / sizeof arguments[0]);
}

/* The first `kept` of each tile of the list (keys 0: of x) become the other list. */
static stator_status sort_tiles(sorting *s, const gpu_sort_list *in, int64_t kept,
                                stator_diag **err)
{
    const uint32_t tile = s->call->op->desc.tile;
    const int64_t tiles = gpu_count_of(in->n, tile);
    const int64_t last = in->n - (tiles - 1) * tile;
    gpu_sort_list *out = &s->lists[1u - s->now];
    out->n = (tiles - 1) * kept + (kept < last ? kept : last);
    set_tile_arguments(s, in, out, tiles, kept);
    s->now = 1u - s->now;
    return gpu_launch_fixed(s->call, SORT_TILES, TILES_SORT, tile / TILE_OF_THREAD,
                            s->call->axes.rows * tiles, err);
}

static stator_status put_results(const sorting *s, stator_diag **err)
{
    const uint32_t threads = s->call->op->desc.tile / TILE_OF_THREAD;
    const gpu_sort_list *in = &s->lists[s->now];
    set_tile_arguments(s, in, in, 1, s->take);
    return gpu_launch_fixed(s->call, SORT_TILES, TILES_PUT, threads,
                            gpu_count_of(s->call->axes.rows * s->take, threads), err);
}

static stator_status sort_rows(sorting *s, stator_diag **err)
{
    const gpu_fixed_desc *desc = &s->call->op->desc;
    const gpu_sort_list x = {.n = s->call->axes.own_size};
    if (x.n > desc->tile && s->take > desc->tile / 2u) {
        gpu_radix r = {.program = SORT_RADIX,
                       .bits = gpu_key_bits(desc->dtype),
                       .is_of_x = true,
                       .take = s->take,
                       .lists = {s->lists[0], s->lists[1]}};
        return gpu_radix_sort(&r, s->call, err);
    }
    const int64_t kept = s->take < desc->tile ? s->take : desc->tile;
    ST_TRY(sort_tiles(s, &x, kept, err));
    for (int64_t n = x.n; n > desc->tile;) {
        n = s->lists[s->now].n;
        ST_TRY(sort_tiles(s, &s->lists[s->now], s->take, err));
    }
    return put_results(s, err);
}

gpu_fixed_desc gpu_sort_desc_of_keys(void)
{
    return (gpu_fixed_desc){.kind = ST_CONTRACTION_ORDER,
                            .dtype = STATOR_U32,
                            .rank = 1,
                            .tile = TILE_MAX,
                            .buffers = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}};
}

stator_status gpu_sort_keys(gpu_fixed_call *call, gpu_sort_list lists[2], uint32_t bits,
                            uint32_t *out, stator_diag **err)
{
    const uint32_t tile = call->op->desc.tile;
    if (lists[0].n > tile) {
        gpu_radix r = {.program = SORT_RADIX, .bits = bits, .lists = {lists[0], lists[1]}};
        ST_TRY(gpu_radix_sort(&r, call, err));
        *out = r.now;
        return STATOR_OK;
    }
    sorting s = {.call = call, .lists = {lists[0], lists[1]}};
    ST_TRY(sort_tiles(&s, &lists[0], tile, err));
    *out = s.now;
    return STATOR_OK;
}

stator_status gpu_check_row(const gpu_fixed_call *call, stator_diag **err)
{
    ST_FAIL_IF(call->axes.own_size >= INDEX_MAX, err, STATOR_UNSUPPORTED,
               "a row of %lld elements is longer than sorting takes",
               (long long)call->axes.own_size);
    return STATOR_OK;
}

static stator_status run(gpu_fixed_call *call, stator_diag **err)
{
    st_gpu *gpu = call->gpu;
    sorting s = {.call = call,
                 .take = call->of->numbers[1],
                 .key_bytes = st_element_bytes(call->op->desc.dtype) == 8u ? 8u : 4u};
    const uint64_t elements = (uint64_t)(call->axes.rows * call->axes.own_size);
    const uint64_t key_bytes = (elements * s.key_bytes + 255u) & ~(uint64_t)255u;
    const uint64_t each = key_bytes + elements * sizeof(uint32_t);
    ST_TRY(gpu_check_row(call, err));
    if (s.take <= 0) {
        return STATOR_OK;
    }
    stator_status status = STATOR_OK;
    for (uint32_t i = 0; i < 2; i++) {
        ST_THEN(status,
                gpu_take(gpu, &gpu->device, call->call->stream, each, &s.lists[i].keys, err));
        s.lists[i].indices = s.lists[i].keys + key_bytes;
    }
    ST_THEN(status, sort_rows(&s, err));
    gpu_note_queued(gpu, call->call->stream);
    for (uint32_t i = 0; i < 2; i++) {
        gpu_give(gpu, &gpu->device, call->call->stream, s.lists[i].keys);
    }
    return status;
}

const gpu_fixed_kind gpu_sort_kind = {.n_columns = GPU_FIXED_COLUMNS,
                                      .first_axis = 2,
                                      .n_programs = GPU_SORT_PROGRAMS,
                                      .kernels = {gpu_sort_tile_kernels, gpu_radix_kernels},
                                      .describe = set_desc,
                                      .print = print,
                                      .run = run};
