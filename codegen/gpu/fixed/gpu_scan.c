/* cumsum and cumprod: prefix sums of rows.
 *
 * A row whose elements lie side by side is a block's, tile by tile: each thread adds up a few
 * neighbours, the threads' sums are combined, and what came before is carried on. Rows whose
 * elements lie apart are a thread's, next to its neighbours' rows. Where rows are too few to keep
 * the device busy, each is cut into parts: the totals of the parts come first, then their prefix
 * sums, from which the parts begin. So the order of additions depends on sizes alone.
 *
 * Sums of floats are f64; an exclusive sum subtracts nothing. */
#include "codegen/gpu/fixed/gpu_fixed.h"
#include "codegen/gpu/gpu_text.h"

#include <stdio.h>
#include <string.h>

#define THREADS 256u
#define ITEMS 8u /* elements of a thread in a tile */
#define TILE (THREADS * ITEMS)
#define ROW_MIN 128        /* shorter rows are a thread's */
#define COLUMN_PART_MIN 64 /* elements of a part that a thread does */
/* Rows are cut into parts up to so many; the same on all devices, so that bits are. They keep 128
 * multiprocessors busy. */
#define BLOCKS_WANTED 1024
#define THREADS_WANTED (128 * 1024)

enum scan_kernel { SCAN_TOTALS, SCAN_ROWS, SCAN_COLUMN_TOTALS, SCAN_COLUMNS, SCAN_PARTS };

static const char *const kernels[] = {"st_scan_totals",  "st_scan_rows",  "st_scan_column_totals",
                                      "st_scan_columns", "st_scan_parts", NULL};

/* ---- what it takes ---- */

static bool is_taken_dtype(uint32_t dtype)
{
    return (st_loop_class_of(dtype) & (ST_LOOP_INTS | ST_LOOP_UINTS | ST_LOOP_FLOATS)) != 0;
}

static bool set_desc(const st_target *target, const st_contraction *contraction,
                     gpu_fixed_desc *out)
{
    const st_contraction_cumulate *c = &contraction->cumulate;
    (void)target;
    out->rank = c->rank;
    out->axis = c->axis;
    out->is_reverse = c->is_reverse;
    out->is_product = c->is_product;
    out->is_exclusive = c->is_exclusive;
    return is_taken_dtype(contraction->x.dtype);
}

/* ---- text ---- */

static const char swap_f64[] =
    "ST_DEVICE st_acc st_swap(st_acc x, st_u32 mask)\n"
    "{\n"
    "    return st_f64_of_bits(st_shuffle_xor_u64(st_bits_of_f64(x), mask));\n"
    "}\n";

static const char block_text[] =
    "\n"
    "/* What the threads before this one have, combined; *all: what all of the block have. */\n"
    "ST_DEVICE st_acc st_scan_block(st_acc x, st_acc *warps, st_acc *all)\n"
    "{\n"
    "    st_acc before = ST_IDENTITY;\n"
    "    st_acc first = ST_IDENTITY;\n"
    "    st_acc sum = ST_IDENTITY;\n"
    "    for (st_u32 mask = 1; mask < ST_WARP; mask *= 2) {\n"
    "        const st_acc other = st_swap(x, mask);\n"
    "        before = ST_LANE & mask ? ST_OP(other, before) : before;\n"
    "        x = ST_OP(x, other);\n"
    "    }\n"
    "    if (ST_LANE == 0) {\n"
    "        warps[ST_THREAD / ST_WARP] = x;\n"
    "    }\n"
    "    st_barrier();\n"
    "    for (st_u32 w = 0; w < ST_THREADS / ST_WARP; w++) {\n"
    "        first = w == ST_THREAD / ST_WARP ? sum : first;\n"
    "        sum = ST_OP(sum, warps[w]);\n"
    "    }\n"
    "    *all = sum;\n"
    "    return ST_OP(first, before);\n"
    "}\n";

static const char rows_text[] =
    "\n"
    "/* The total of part ST_BLOCK of a row. */\n"
    "ST_KERNEL(st_scan_totals, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    ST_SHARED(st_acc, warps, ST_THREADS / ST_WARP);\n"
    "    const st_i64 begin = ST_BLOCK % ST_ARG(parts) * ST_ARG(length);\n"
    "    const st_i64 end = ST_MIN(begin + ST_ARG(length), ST_ARG(n));\n"
    "    st_i64 row = ST_BLOCK / ST_ARG(parts);\n"
    "    st_i64 x_at = 0;\n"
    "    st_i64 y_at = 0;\n"
    "    st_acc sum = ST_IDENTITY;\n"
    "    st_acc all = ST_IDENTITY;\n"
    "    ST_PLACE(row, x_at, y_at);\n"
    "    const st_t *x = ST_GLOBAL(const st_t, ST_ARG(x)) + x_at;\n"
    "    for (st_i64 i = begin + ST_THREAD; i < end; i += ST_THREADS) {\n"
    "        sum = ST_OP(sum, (st_acc)x[i * ST_ARG(x_step)]);\n"
    "    }\n"
    "    (void)st_scan_block(sum, warps, &all);\n"
    "    if (ST_THREAD == 0) {\n"
    "        ST_GLOBAL(st_acc, ST_ARG(totals))[ST_BLOCK] = all;\n"
    "    }\n"
    "}\n"
    "\n"
    "/* Part ST_BLOCK of a row. A tile stands in shared memory with a gap after the elements of a\n"
    " * thread, so that threads do not meet in a bank. */\n"
    "ST_KERNEL(st_scan_rows, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    ST_SHARED(st_t, tile, ST_TILE + ST_THREADS);\n"
    "    ST_SHARED(st_acc, warps, ST_THREADS / ST_WARP);\n"
    "    const st_i64 begin = ST_BLOCK % ST_ARG(parts) * ST_ARG(length);\n"
    "    const st_i64 end = ST_MIN(begin + ST_ARG(length), ST_ARG(n));\n"
    "    st_i64 row = ST_BLOCK / ST_ARG(parts);\n"
    "    st_i64 x_at = 0;\n"
    "    st_i64 y_at = 0;\n"
    "    st_acc carry = ST_IDENTITY;\n"
    "    if (ST_ARG(parts) > 1) {\n"
    "        carry = ST_GLOBAL(const st_acc, ST_ARG(totals))[ST_BLOCK];\n"
    "    }\n"
    "    ST_PLACE(row, x_at, y_at);\n"
    "    const st_t *x = ST_GLOBAL(const st_t, ST_ARG(x)) + x_at;\n"
    "    st_t *y = ST_GLOBAL(st_t, ST_ARG(y)) + y_at;\n"
    "    st_t *own = tile + ST_THREAD * (ST_ITEMS + 1);\n"
    "    for (st_i64 base = begin; base < end; base += ST_TILE) {\n"
    "        st_acc sums[ST_ITEMS];\n"
    "        st_acc sum = ST_IDENTITY;\n"
    "        st_acc all = ST_IDENTITY;\n"
    "        ST_UNROLL\n"
    "        for (st_u32 k = 0; k < ST_ITEMS; k++) {\n"
    "            const st_u32 at = k * ST_THREADS + ST_THREAD;\n"
    "            tile[at + at / ST_ITEMS] =\n"
    "                base + at < end ? x[(base + at) * ST_ARG(x_step)] : (st_t)ST_IDENTITY;\n"
    "        }\n"
    "        st_barrier();\n"
    "        ST_UNROLL\n"
    "        for (st_u32 k = 0; k < ST_ITEMS; k++) {\n"
    "            ST_TAKE(sums[k], sum, own[k]);\n"
    "        }\n"
    "        const st_acc before = ST_OP(carry, st_scan_block(sum, warps, &all));\n"
    "        ST_UNROLL\n"
    "        for (st_u32 k = 0; k < ST_ITEMS; k++) {\n"
    "            own[k] = (st_t)ST_OP(before, sums[k]);\n"
    "        }\n"
    "        carry = ST_OP(carry, all);\n"
    "        st_barrier();\n"
    "        ST_UNROLL\n"
    "        for (st_u32 k = 0; k < ST_ITEMS; k++) {\n"
    "            const st_u32 at = k * ST_THREADS + ST_THREAD;\n"
    "            if (base + at < end) {\n"
    "                y[(base + at) * ST_ARG(y_step)] = tile[at + at / ST_ITEMS];\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n";

static const char columns_text[] =
    "\n"
    "/* A thread's part of a row, ST_ITEMS elements at a time. */\n"
    "#define ST_COLUMN(with) \\\n"
    "    const st_i64 id = ST_BLOCK * ST_THREADS + ST_THREAD; \\\n"
    "    if (id < ST_ARG(rows) * ST_ARG(parts)) { \\\n"
    "        st_i64 row = id % ST_ARG(rows); \\\n"
    "        const st_i64 part = id / ST_ARG(rows); \\\n"
    "        const st_i64 slot = row * ST_ARG(parts) + part; \\\n"
    "        st_i64 i = part * ST_ARG(length); \\\n"
    "        const st_i64 end = ST_MIN(i + ST_ARG(length), ST_ARG(n)); \\\n"
    "        st_i64 x_at = 0; \\\n"
    "        st_i64 y_at = 0; \\\n"
    "        st_acc sum = ST_IDENTITY; \\\n"
    "        ST_PLACE(row, x_at, y_at); \\\n"
    "        const st_t *x = ST_GLOBAL(const st_t, ST_ARG(x)) + x_at; \\\n"
    "        st_t *y = ST_GLOBAL(st_t, ST_ARG(y)) + y_at; \\\n"
    "        st_acc *total = ST_GLOBAL(st_acc, ST_ARG(totals)) + slot; \\\n"
    "        with \\\n"
    "    }\n"
    "\n"
    "#define ST_WALK(each) \\\n"
    "    for (; i + ST_ITEMS <= end; i += ST_ITEMS) { \\\n"
    "        st_t of[ST_ITEMS]; \\\n"
    "        ST_UNROLL \\\n"
    "        for (st_u32 k = 0; k < ST_ITEMS; k++) { \\\n"
    "            of[k] = x[(i + k) * ST_ARG(x_step)]; \\\n"
    "        } \\\n"
    "        ST_UNROLL \\\n"
    "        for (st_u32 k = 0; k < ST_ITEMS; k++) { \\\n"
    "            each(of[k], i + k) \\\n"
    "        } \\\n"
    "    } \\\n"
    "    for (; i < end; i++) { \\\n"
    "        each(x[i * ST_ARG(x_step)], i) \\\n"
    "    }\n"
    "\n"
    "#define ST_ADD(value, at) sum = ST_OP(sum, (st_acc)(value));\n"
    "#define ST_PUT(value, at) \\\n"
    "    { \\\n"
    "        st_acc now = ST_IDENTITY; \\\n"
    "        ST_TAKE(now, sum, value); \\\n"
    "        y[(at) * ST_ARG(y_step)] = (st_t)now; \\\n"
    "    }\n"
    "\n"
    "ST_KERNEL(st_scan_column_totals, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    ST_COLUMN(ST_WALK(ST_ADD) (void)y; *total = sum;)\n"
    "}\n"
    "\n"
    "ST_KERNEL(st_scan_columns, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    ST_COLUMN(if (ST_ARG(parts) > 1) { sum = *total; } ST_WALK(ST_PUT))\n"
    "}\n";

static const char parts_text[] =
    "\n"
    "/* Totals of a row's parts become what stands before each. */\n"
    "ST_KERNEL(st_scan_parts, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    ST_SHARED(st_acc, warps, ST_THREADS / ST_WARP);\n"
    "    st_acc *totals = ST_GLOBAL(st_acc, ST_ARG(totals)) + ST_BLOCK * ST_ARG(parts);\n"
    "    st_acc carry = ST_IDENTITY;\n"
    "    for (st_i64 base = 0; base < ST_ARG(parts); base += ST_THREADS) {\n"
    "        const st_i64 i = base + ST_THREAD;\n"
    "        st_acc all = ST_IDENTITY;\n"
    "        const st_acc own = i < ST_ARG(parts) ? totals[i] : ST_IDENTITY;\n"
    "        const st_acc before = st_scan_block(own, warps, &all);\n"
    "        if (i < ST_ARG(parts)) {\n"
    "            totals[i] = ST_OP(carry, before);\n"
    "        }\n"
    "        carry = ST_OP(carry, all);\n"
    "        st_barrier();\n"
    "    }\n"
    "}\n";

/* Types, the operation and what an element gives. */
static void put_head(const gpu_fixed_desc *desc, st_str *out)
{
    const bool is_float = (st_loop_class_of(desc->dtype) & ST_LOOP_FLOATS) != 0;
    const uint32_t bits = st_element_bytes(desc->dtype) > 4u ? 64 : 32;
    st_str_add(out, "#include \"gpu_prelude.h\"\n\n");
    st_str_addf(out, "#define ST_THREADS %u\n#define ST_ITEMS %u\n", THREADS, ITEMS);
    st_str_add(out, "#define ST_TILE (ST_THREADS * ST_ITEMS)\n");
    st_str_add(out, "#define ST_MIN(a, b) ((a) < (b) ? (a) : (b))\n");
    st_str_addf(out, "typedef %s st_t;\n", gpu_spelling.types[desc->dtype]);
    if (is_float) {
        st_str_add(out, "typedef double st_acc;\n");
    } else {
        st_str_addf(out, "typedef st_u%u st_acc;\n", bits);
    }
    st_str_addf(out, "#define ST_IDENTITY ((st_acc)%u)\n", desc->is_product);
    st_str_addf(out, "#define ST_OP(a, b) ((a) %c (b))\n", desc->is_product ? '*' : '+');
    st_str_add(out, "/* What stands at an element, and the sum behind it. */\n");
    st_str_add(out,
               desc->is_exclusive
                   ? "#define ST_TAKE(now, sum, value) \\\n"
                     "    do { (now) = (sum); (sum) = ST_OP(sum, (st_acc)(value)); } while (0)\n"
                   : "#define ST_TAKE(now, sum, value) \\\n"
                     "    do { (sum) = ST_OP(sum, (st_acc)(value)); (now) = (sum); } while (0)\n");
    if (is_float) {
        st_str_addf(out, "\n%s", swap_f64);
    } else {
        st_str_addf(out, "#define st_swap(x, mask) st_shuffle_xor_u%u(x, mask)\n", bits);
    }
}

static void print(const gpu_fixed_desc *desc, uint32_t program, st_str *out)
{
    (void)program;
    put_head(desc, out);
    gpu_put_arguments(desc, 2, "x y totals n rows parts length x_step y_step", out);
    st_str_add(out, block_text);
    st_str_add(out, rows_text);
    st_str_add(out, columns_text);
    st_str_add(out, parts_text);
}

/* ---- a call ---- */

typedef struct scan_geometry {
    bool is_row; /* its elements lie side by side */
    int64_t parts, length;
} scan_geometry;

static scan_geometry geometry_of(const gpu_fixed_call *call)
{
    const gpu_axes *axes = &call->axes;
    const int64_t n = axes->own_size;
    scan_geometry g = {.is_row = axes->own_stride[0] == 1 && n >= ROW_MIN};
    const int64_t unit = g.is_row ? (int64_t)TILE : COLUMN_PART_MIN;
    const int64_t wanted = g.is_row ? BLOCKS_WANTED : THREADS_WANTED;
    const int64_t parts = gpu_count_of(wanted, axes->rows);
    const int64_t units = gpu_count_of(n, unit);
    g.length = unit * gpu_count_of(units, parts < units ? parts : units);
    g.parts = gpu_count_of(n, g.length);
    return g;
}

static void set_arguments(gpu_fixed_call *call, const scan_geometry *g, st_gpu_address totals)
{
    const gpu_axes *axes = &call->axes;
    const gpu_fixed_desc *desc = &call->op->desc;
    const int64_t bytes = st_element_bytes(desc->dtype);
    const int64_t sign = desc->is_reverse ? -1 : 1;
    const int64_t last = desc->is_reverse ? axes->own_size - 1 : 0;
    const int64_t x_at = call->of->numbers[0] + last * axes->own_stride[0];
    const uint64_t arguments[] = {gpu_buffer_of(call, 0) + (uint64_t)(x_at * bytes),
                                  gpu_buffer_of(call, 1) +
                                      (uint64_t)(last * axes->own_stride[1] * bytes),
                                  totals,
                                  (uint64_t)axes->own_size,
                                  (uint64_t)axes->rows,
                                  (uint64_t)g->parts,
                                  (uint64_t)g->length,
                                  (uint64_t)(sign * axes->own_stride[0]),
                                  (uint64_t)(sign * axes->own_stride[1])};
    gpu_set_arguments(call, arguments, sizeof arguments / sizeof arguments[0]);
}

static stator_status launch_all(gpu_fixed_call *call, const scan_geometry *g, stator_diag **err)
{
    const int64_t parts = call->axes.rows * g->parts;
    const int64_t blocks = g->is_row ? parts : gpu_count_of(parts, THREADS);
    if (g->parts > 1) {
        ST_TRY(gpu_launch_fixed(call, 0, g->is_row ? SCAN_TOTALS : SCAN_COLUMN_TOTALS, THREADS,
                                blocks, err));
        ST_TRY(gpu_launch_fixed(call, 0, SCAN_PARTS, THREADS, call->axes.rows, err));
    }
    return gpu_launch_fixed(call, 0, g->is_row ? SCAN_ROWS : SCAN_COLUMNS, THREADS, blocks, err);
}

static stator_status run(gpu_fixed_call *call, stator_diag **err)
{
    const scan_geometry g = geometry_of(call);
    const uint64_t bytes = (uint64_t)(call->axes.rows * g.parts) * sizeof(uint64_t);
    st_gpu *gpu = call->gpu;
    st_gpu_address totals = 0;
    ST_TRY(g.parts > 1 ? gpu_take(gpu, &gpu->device, call->call->stream, bytes, &totals, err)
                       : STATOR_OK);
    set_arguments(call, &g, totals);
    const stator_status status = launch_all(call, &g, err);
    if (totals) {
        gpu_note_queued(gpu, call->call->stream);
        gpu_give(gpu, &gpu->device, call->call->stream, totals);
    }
    return status;
}

const gpu_fixed_kind gpu_scan_kind = {.n_columns = 2,
                                      .first_axis = 1,
                                      .n_programs = 1,
                                      .kernels = {kernels},
                                      .describe = set_desc,
                                      .print = print,
                                      .run = run};
