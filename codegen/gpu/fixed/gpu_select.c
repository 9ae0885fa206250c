/* topk of few: the first elements of a row by selection.
 *
 * A block keeps the first of a tile. Their last key is found digit by digit, from the high bits on:
 * of the keys with the digits found so far those with each next digit are counted. Of elements that
 * are equal to it those with the lowest indices are kept. What tiles keep are candidates, of which
 * the first are kept again, until one tile is left; what that keeps is put in order.
 *
 * Keys are those of gpu_sort.c, and so are the results. */
#include "codegen/gpu/fixed/gpu_fixed.h"
#include "codegen/gpu/gpu_text.h"

#define THREADS 256u
#define TILE_MIN (THREADS * 4u)
#define TILE_MAX (THREADS * 16u)
#define KEPT_MAX (TILE_MAX / 4u)
#define DIGIT_BITS 11u

static const char *const kernels[] = {"st_select", NULL};

/* An order, where it is known to want so few that selecting them is quicker than sorting. */
static bool set_desc(const st_target *target, const st_contraction *contraction,
                     gpu_fixed_desc *out)
{
    const st_contraction_order *order = &contraction->order;
    const st_symtab *tab = &contraction->syms->tab;
    const int64_t take = st_loop_known_or(tab, order->take, INT64_MAX);
    const int64_t size = st_loop_known_or(tab, order->dims[order->axis], TILE_MAX);
    return take <= KEPT_MAX && take <= size / 4 && gpu_sort_kind.describe(target, contraction, out);
}

/* ---- text ---- */

static const char helpers_text[] =
    "\n"
    "/* Elements of the tile that stand before this thread's item k and have their bit of the "
    "words\n"
    " * set; `before`: those of the words before each. */\n"
    "#define ST_RANK(k) \\\n"
    "    (before[ST_WORD(k)] + st_count_lanes(words[ST_WORD(k)] & (((st_lanes)1 << ST_LANE) - "
    "1)))\n"
    "#define ST_WORD(k) ((k) * (ST_THREADS / ST_WARP) + ST_THREAD / ST_WARP)\n"
    "\n"
    "/* Sets the words to which items (a bit of `set` each) there are, and counts them. */\n"
    "#define ST_MARK(set) \\\n"
    "    ST_UNROLL \\\n"
    "    for (st_u32 k = 0; k < ST_ITEMS; k++) { \\\n"
    "        const st_lanes lanes = st_ballot((set) >> k & 1); \\\n"
    "        if (ST_LANE == 0) { \\\n"
    "            words[ST_WORD(k)] = lanes; \\\n"
    "        } \\\n"
    "    } \\\n"
    "    st_barrier(); \\\n"
    "    before[ST_THREAD] = st_count_before( \\\n"
    "        ST_THREAD < ST_TILE / ST_WARP ? st_count_lanes(words[ST_THREAD]) : 0, warps); \\\n"
    "    st_barrier()\n";

static const char select_text[] =
    "\n"
    "/* The first `kept` of tile ST_BLOCK of a row, in the order of the row. Of the last tile that "
    "is\n"
    " * left they are put in order (a network of `power` elements) and stored. */\n"
    "ST_KERNEL(st_select, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    ST_SHARED(st_u32, counts, ST_DIGITS);\n"
    "    ST_SHARED(st_u32, before, ST_THREADS);\n"
    "    ST_SHARED(st_u32, warps, ST_THREADS / ST_WARP);\n"
    "    ST_SHARED(st_lanes, words, ST_TILE / ST_WARP);\n"
    "    ST_SHARED(st_u32, found, 3); /* the digit, how many of it are wanted, how many it has */\n"
    "    ST_SHARED(st_key, kept_keys, ST_KEPT_MAX);\n"
    "    ST_SHARED(st_u32, kept_indices, ST_KEPT_MAX);\n"
    "    const st_i64 begin = ST_BLOCK % ST_ARG(tiles) * ST_TILE;\n"
    "    st_i64 row = ST_BLOCK / ST_ARG(tiles);\n"
    "    const st_i64 from = row * ST_ARG(n) + begin;\n"
    "    const st_i64 to = row * ST_ARG(n_out) + ST_BLOCK % ST_ARG(tiles) * ST_ARG(kept);\n"
    "    const st_u32 size = (st_u32)ST_MIN(ST_ARG(n) - begin, ST_TILE);\n"
    "    const st_u32 n_kept = (st_u32)ST_MIN(ST_ARG(kept), size);\n"
    "    const st_u32 power = (st_u32)ST_ARG(power);\n"
    "    st_i64 x_at = 0;\n"
    "    st_i64 values_at = 0;\n"
    "    st_i64 indices_at = 0;\n"
    "    ST_PLACE(row, x_at, values_at, indices_at);\n"
    "    const st_t *x = ST_GLOBAL(const st_t, ST_ARG(x)) + x_at;\n"
    "    st_key keys[ST_ITEMS];\n"
    "    st_u32 is_in = 0; /* bits of items */\n"
    "    ST_UNROLL\n"
    "    for (st_u32 k = 0; k < ST_ITEMS; k++) {\n"
    "        const st_u32 i = k * ST_THREADS + ST_THREAD;\n"
    "        keys[k] = 0;\n"
    "        if (i < size) {\n"
    "            is_in |= 1u << k;\n"
    "            keys[k] = ST_ARG(keys_in) ? ST_GLOBAL(const st_key, ST_ARG(keys_in))[from + i]\n"
    "                                      : st_key_of(x[(begin + i) * ST_ARG(x_step)]) & "
    "ST_KEY_MASK;\n"
    "        }\n"
    "    }\n"
    "    /* Digit by digit: the high bits of the last key that is kept, and how many such are. */\n"
    "    st_u32 shift = ST_KEY_BITS;\n"
    "    st_u32 want = n_kept;\n"
    "    st_u32 n_equal = size;\n"
    "    st_key prefix = 0;\n"
    "    while (shift > 0 && n_equal != want) {\n"
    "        const st_u32 width = ST_MIN(shift, ST_DIGIT_BITS);\n"
    "        const st_u32 low = shift - width;\n"
    "        for (st_u32 d = ST_THREAD; d < ST_DIGITS; d += ST_THREADS) {\n"
    "            counts[d] = 0;\n"
    "        }\n"
    "        st_barrier();\n"
    "        ST_UNROLL\n"
    "        for (st_u32 k = 0; k < ST_ITEMS; k++) {\n"
    "            if ((is_in >> k & 1) && (shift == ST_KEY_BITS || keys[k] >> shift == prefix)) {\n"
    "                (void)st_atomic_add_u32(counts + (keys[k] >> low & ((1u << width) - 1)), 1);\n"
    "            }\n"
    "        }\n"
    "        st_barrier();\n"
    "        st_u32 own[ST_DIGITS / ST_THREADS];\n"
    "        st_u32 sum = 0;\n"
    "        ST_UNROLL\n"
    "        for (st_u32 k = 0; k < ST_DIGITS / ST_THREADS; k++) {\n"
    "            own[k] = counts[ST_THREAD * (ST_DIGITS / ST_THREADS) + k];\n"
    "            sum += own[k];\n"
    "        }\n"
    "        st_u32 less = st_count_before(sum, warps);\n"
    "        if (less < want && less + sum >= want) {\n"
    "            ST_UNROLL\n"
    "            for (st_u32 k = 0; k < ST_DIGITS / ST_THREADS; k++) {\n"
    "                if (less < want && less + own[k] >= want) {\n"
    "                    found[0] = ST_THREAD * (ST_DIGITS / ST_THREADS) + k;\n"
    "                    found[1] = want - less;\n"
    "                    found[2] = own[k];\n"
    "                }\n"
    "                less += own[k];\n"
    "            }\n"
    "        }\n"
    "        st_barrier();\n"
    "        prefix = prefix << width | found[0];\n"
    "        want = found[1];\n"
    "        n_equal = found[2];\n"
    "        shift = low;\n"
    "    }\n"
    "    st_u32 is_kept = 0;\n"
    "    st_u32 is_equal = 0;\n"
    "    ST_UNROLL\n"
    "    for (st_u32 k = 0; k < ST_ITEMS; k++) {\n"
    "        const st_key high = shift == ST_KEY_BITS ? prefix : keys[k] >> shift;\n"
    "        is_kept |= (high < prefix ? 1u : 0u) << k;\n"
    "        is_equal |= (high == prefix ? 1u : 0u) << k;\n"
    "    }\n"
    "    is_kept &= is_in;\n"
    "    is_equal &= is_in;\n"
    "    if (n_equal == want) {\n"
    "        is_kept |= is_equal;\n"
    "    } else { /* of equal ones the first */\n"
    "        ST_MARK(is_equal);\n"
    "        ST_UNROLL\n"
    "        for (st_u32 k = 0; k < ST_ITEMS; k++) {\n"
    "            if ((is_equal >> k & 1) && ST_RANK(k) < want) {\n"
    "                is_kept |= 1u << k;\n"
    "            }\n"
    "        }\n"
    "        st_barrier();\n"
    "    }\n"
    "    ST_MARK(is_kept);\n"
    "    ST_UNROLL\n"
    "    for (st_u32 k = 0; k < ST_ITEMS; k++) {\n"
    "        if (is_kept >> k & 1) {\n"
    "            const st_u32 i = k * ST_THREADS + ST_THREAD;\n"
    "            const st_u32 at = ST_RANK(k);\n"
    "            const st_u32 index = ST_ARG(keys_in)\n"
    "                                     ? ST_GLOBAL(const st_u32, ST_ARG(indices_in))[from + i]\n"
    "                                     : (st_u32)(begin + i);\n"
    "            if (power) {\n"
    "                kept_keys[at] = keys[k];\n"
    "                kept_indices[at] = index;\n"
    "            } else {\n"
    "                ST_GLOBAL(st_key, ST_ARG(keys_out))[to + at] = keys[k];\n"
    "                ST_GLOBAL(st_u32, ST_ARG(indices_out))[to + at] = index;\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "    if (power) {\n"
    "        for (st_u32 i = n_kept + ST_THREAD; i < power; i += ST_THREADS) {\n"
    "            kept_keys[i] = (st_key)-1;\n"
    "            kept_indices[i] = 0xffffffffu;\n"
    "        }\n"
    "        st_barrier();\n"
    "        ST_SORT(kept_keys, kept_indices, power);\n"
    "        for (st_u32 i = ST_THREAD; i < n_kept; i += ST_THREADS) {\n"
    "            const st_i64 index = kept_indices[i];\n"
    "            if (ST_ARG(values)) {\n"
    "                ST_GLOBAL(st_t, ST_ARG(values))[values_at + i * ST_ARG(values_step)] =\n"
    "                    x[index * ST_ARG(x_step)];\n"
    "            }\n"
    "            if (ST_ARG(indices)) {\n"
    "                ST_GLOBAL(st_i64, ST_ARG(indices))[indices_at + i * ST_ARG(indices_step)] = "
    "index;\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n";

static uint32_t tile_of(const gpu_fixed_desc *desc)
{
    return desc->tile <= TILE_MIN ? TILE_MIN : TILE_MAX;
}

static void print(const gpu_fixed_desc *desc, uint32_t program, st_str *out)
{
    const uint32_t bits = gpu_key_bits(desc->dtype);
    (void)program;
    gpu_put_keys(desc, out);
    st_str_addf(out, "#define ST_THREADS %u\n#define ST_TILE %u\n", THREADS, tile_of(desc));
    st_str_add(out, "#define ST_ITEMS (ST_TILE / ST_THREADS)\n");
    st_str_addf(out, "#define ST_KEPT_MAX %u\n#define ST_DIGIT_BITS %uu\n", KEPT_MAX, DIGIT_BITS);
    st_str_add(out, "#define ST_DIGITS (1u << ST_DIGIT_BITS)\n");
    st_str_addf(out, "#define ST_KEY_BITS %uu\n#define ST_KEY_MASK 0x%llxu\n", bits,
                (unsigned long long)(UINT64_MAX >> (64u - bits)));
    gpu_put_arguments(desc, GPU_FIXED_COLUMNS,
                      "x values indices keys_in indices_in keys_out indices_out n tiles kept n_out "
                      "power x_step values_step indices_step",
                      out);
    gpu_put_count_before(out);
    st_str_add(out, helpers_text);
    st_str_add(out, select_text);
}

/* ---- a call ---- */

typedef struct selecting {
    gpu_fixed_call *call;
    int64_t take;
    gpu_sort_list lists[2]; /* candidates; from one the other is made */
} selecting;

static int64_t power_of(int64_t take)
{
    int64_t power = 2;
    while (power < take) {
        power *= 2;
    }
    return power;
}

/* The first of each tile of the list (keys 0: of x) become `out`, or where that is NULL the
 * results. */
static stator_status select_tiles(const selecting *s, const gpu_sort_list *in, gpu_sort_list *out,
                                  stator_diag **err)
{
    const gpu_axes *axes = &s->call->axes;
    const gpu_fixed_desc *desc = &s->call->op->desc;
    const int64_t tile = tile_of(desc);
    const int64_t tiles = gpu_count_of(in->n, tile);
    const int64_t last = in->n - (tiles - 1) * tile;
    const int64_t n_out = (tiles - 1) * s->take + (s->take < last ? s->take : last);
    const uint64_t x_at = (uint64_t)s->call->of->numbers[0] * st_element_bytes(desc->dtype);
    const uint64_t arguments[] = {gpu_buffer_of(s->call, 0) + x_at,
                                  gpu_buffer_of(s->call, 1),
                                  gpu_buffer_of(s->call, 2),
                                  in->keys,
                                  in->indices,
                                  out ? out->keys : 0,
                                  out ? out->indices : 0,
                                  (uint64_t)in->n,
                                  (uint64_t)tiles,
                                  (uint64_t)s->take,
                                  (uint64_t)n_out,
                                  out ? 0 : (uint64_t)power_of(s->take),
                                  (uint64_t)axes->own_stride[0],
                                  (uint64_t)axes->own_stride[1],
                                  (uint64_t)axes->own_stride[2]};
    gpu_set_arguments(s->call, arguments, sizeof arguments / sizeof arguments[0]);
    if (out) {
        out->n = n_out;
    }
    return gpu_launch_fixed(s->call, 0, 0, THREADS, axes->rows * tiles, err);
}

static stator_status select_rows(selecting *s, stator_diag **err)
{
    const gpu_sort_list x = {.n = s->call->axes.own_size};
    const gpu_sort_list *in = &x;
    for (uint32_t now = 0; in->n > tile_of(&s->call->op->desc); now = 1u - now) {
        ST_TRY(select_tiles(s, in, &s->lists[now], err));
        in = &s->lists[now];
    }
    return select_tiles(s, in, NULL, err);
}

static stator_status run(gpu_fixed_call *call, stator_diag **err)
{
    st_gpu *gpu = call->gpu;
    selecting s = {.call = call, .take = call->of->numbers[1]};
    const uint64_t tiles = (uint64_t)gpu_count_of(call->axes.own_size, tile_of(&call->op->desc));
    const uint64_t elements = (uint64_t)call->axes.rows * tiles * (uint64_t)s.take;
    const uint64_t width = st_element_bytes(call->op->desc.dtype) == 8u ? 8u : 4u;
    const uint64_t key_bytes = (elements * width + 255u) & ~(uint64_t)255u;
    stator_status status = STATOR_OK;
    ST_TRY(gpu_check_row(call, err));
    if (s.take <= 0) {
        return STATOR_OK;
    }
    for (uint32_t i = 0; tiles > 1u && i < 2u; i++) {
        ST_THEN(status, gpu_take(gpu, &gpu->device, call->call->stream,
                                 key_bytes + elements * sizeof(uint32_t), &s.lists[i].keys, err));
        s.lists[i].indices = s.lists[i].keys + key_bytes;
    }
    ST_THEN(status, select_rows(&s, err));
    gpu_note_queued(gpu, call->call->stream);
    for (uint32_t i = 0; i < 2; i++) {
        gpu_give(gpu, &gpu->device, call->call->stream, s.lists[i].keys);
    }
    return status;
}

const gpu_fixed_kind gpu_select_kind = {.n_columns = GPU_FIXED_COLUMNS,
                                        .first_axis = 2,
                                        .n_programs = 1,
                                        .kernels = {kernels},
                                        .describe = set_desc,
                                        .print = print,
                                        .run = run};
