/* scatter_elements and scatter_nd: updates by where they go.
 *
 *     copy              out is x
 *     st_scatter_keys   the number of the slice of out that each update goes to; an index outside
 *                       its axis fails the call, and the update goes nowhere
 *     st_scatter_put    what is stored
 *
 * The result is that of one update after the other. Elements are slices of one. Without a
 * reduction the last update of each slice is stored: the largest number of an update that goes
 * there (st_scatter_win). Sums of integers of 32 and 64 bits are the same in any order: they are
 * added atomically. Other updates are sorted by slice, in each slice by their number
 * (gpu_sort.c), and one thread combines those of an element in their order, unless sums of floats
 * may have any (the option deterministic); so are updates
 * without a reduction that are few beside the slices, for which the largest numbers would take
 * memory. */
#include "codegen/gpu/fixed/gpu_fixed.h"
#include "codegen/gpu/gpu_text.h"

#include <stdio.h>
#include <string.h>

#define THREADS 256u
#define FEW_ELEMENTS 64 /* along the axis: a thread of the loops' does them */
#define FEW_TUPLES 16
/* Slices for each update, and in all, up to which largest numbers are kept. */
#define SLICES_OF_UPDATE 16
#define SLICES_MIN (1 << 20)

enum scatter_kernel { SCATTER_KEYS, SCATTER_PUT, SCATTER_WIN };

static const char *const kernels[] = {"st_scatter_keys", "st_scatter_put", "st_scatter_win", NULL};

/* ---- what it takes ---- */

/* Without a reduction bits are moved; others are computed in the dtype itself. */
static bool is_taken_dtype(uint32_t dtype, uint32_t reduction)
{
    const uint32_t class_ = st_loop_class_of(dtype);
    return reduction ? (class_ & (ST_LOOP_INTS | ST_LOOP_UINTS | ST_LOOP_FLOATS)) != 0
                     : class_ != 0;
}

/* Loops have a thread for all that goes into a row, or a column of slices. */
static bool is_for_loops(const st_contraction *contraction)
{
    const st_contraction_scatter *s = &contraction->scatter;
    const st_symtab *tab = &contraction->syms->tab;
    int64_t tuples = 1;
    if (s->width == 0) {
        return st_loop_known_or(tab, s->index_dims[s->axis], INT64_MAX) <= FEW_ELEMENTS &&
               s->rank > 1u;
    }
    for (uint32_t a = 0; a + 1u < s->index_rank; a++) {
        const int64_t size = st_loop_known_or(tab, s->index_dims[a], INT32_MAX);
        tuples = tuples > FEW_TUPLES ? tuples : tuples * size;
    }
    return tuples <= FEW_TUPLES;
}

static bool set_desc(const st_target *target, const st_contraction *contraction,
                     gpu_fixed_desc *out)
{
    const st_contraction_scatter *s = &contraction->scatter;
    (void)target;
    out->rank = s->rank;
    out->axis = s->axis;
    out->index_rank = s->index_rank;
    out->index_dtype = contraction->y.dtype;
    out->width = s->width;
    out->reduction = s->reduction;
    out->origin = s->origin;
    out->is_any_order = s->is_any_order;
    out->buffers[2] = contraction->y.buffer;
    out->buffers[3] = s->updates.buffer;
    return is_taken_dtype(contraction->x.dtype, s->reduction) && !is_for_loops(contraction) &&
           (s->width || s->index_rank == s->rank) && s->updates.dtype == contraction->x.dtype;
}

/* ---- text ---- */

static const char head_text[] = "#include \"gpu_prelude.h\"\n"
                                "\n"
                                "/* The key of an update that goes nowhere: behind all slices. */\n"
                                "#define ST_NOWHERE ((st_u32)ST_ARG(slices))\n"
                                "#define ST_MIN(x, y) ((x) < (y) || (x) != (x) ? (x) : (y))\n"
                                "#define ST_MAX(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))\n";

static const char put_text[] =
    "\n"
    "ST_KERNEL(st_scatter_put, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    const st_i64 id = ST_BLOCK * ST_THREADS + ST_THREAD;\n"
    "    if (id < ST_ARG(n) * ST_ARG(inner)) {\n"
    "        const st_u32 *keys = ST_GLOBAL(const st_u32, ST_ARG(keys));\n"
    "        const st_u32 *updates = ST_GLOBAL(const st_u32, ST_ARG(numbers));\n"
    "        const st_t *from = ST_GLOBAL(const st_t, ST_ARG(updates)) + id % ST_ARG(inner);\n"
    "        const st_i64 first = id / ST_ARG(inner);\n"
    "        const st_u32 key = keys[first];\n"
    "        if (key != ST_NOWHERE && (first == 0 || keys[first - 1] != key)) {\n"
    "            st_t *to = ST_GLOBAL(st_t, ST_ARG(y)) + key * ST_ARG(inner) + id % "
    "ST_ARG(inner);\n"
    "            st_t value = *to;\n"
    "            for (st_i64 i = first; i < ST_ARG(n) && keys[i] == key; i++) {\n"
    "                value = (st_t)ST_COMBINE(value, from[updates[i] * ST_ARG(inner)]);\n"
    "            }\n"
    "            *to = value;\n"
    "        }\n"
    "    }\n"
    "}\n";

/* Of each slice the last: the updates before it are not read. */
static const char put_last_text[] =
    "\n"
    "ST_KERNEL(st_scatter_put, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    const st_i64 id = ST_BLOCK * ST_THREADS + ST_THREAD;\n"
    "    if (id < ST_ARG(n) * ST_ARG(inner)) {\n"
    "        const st_u32 *keys = ST_GLOBAL(const st_u32, ST_ARG(keys));\n"
    "        const st_i64 i = id / ST_ARG(inner);\n"
    "        const st_u32 key = keys[i];\n"
    "        st_u32 update = (st_u32)i;\n"
    "        st_bool is_last = key != ST_NOWHERE;\n"
    "        if (is_last && ST_ARG(winners)) {\n"
    "            is_last = ST_GLOBAL(const st_u32, ST_ARG(winners))[key] == update + 1;\n"
    "        } else if (is_last) {\n"
    "            is_last = i + 1 == ST_ARG(n) || keys[i + 1] != key;\n"
    "            update = ST_GLOBAL(const st_u32, ST_ARG(numbers))[i];\n"
    "        }\n"
    "        if (is_last) {\n"
    "            ST_GLOBAL(st_t, ST_ARG(y))[key * ST_ARG(inner) + id % ST_ARG(inner)] =\n"
    "                ST_GLOBAL(const st_t, ST_ARG(updates))[update * ST_ARG(inner) +\n"
    "                                                       id % ST_ARG(inner)];\n"
    "        }\n"
    "    }\n"
    "}\n";

/* Sums of integers, or of floats of which nobody asks for an order. */
static const char put_sum_text[] =
    "\n"
    "ST_KERNEL(st_scatter_put, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    const st_i64 id = ST_BLOCK * ST_THREADS + ST_THREAD;\n"
    "    if (id < ST_ARG(n) * ST_ARG(inner)) {\n"
    "        const st_u32 key = ST_GLOBAL(const st_u32, ST_ARG(keys))[id / ST_ARG(inner)];\n"
    "        if (key != ST_NOWHERE) {\n"
    "            (void)ST_SUM(ST_GLOBAL(st_word, ST_ARG(y)) + key * ST_ARG(inner) +\n"
    "                             id % ST_ARG(inner),\n"
    "                         ST_GLOBAL(const st_word, ST_ARG(updates))[id]);\n"
    "        }\n"
    "    }\n"
    "}\n";

/* Of each slice the largest number of an update, plus 1. */
static const char win_text[] =
    "\n"
    "ST_KERNEL(st_scatter_win, st_arguments_of, ST_THREADS)\n"
    "{\n"
    "    const st_i64 id = ST_BLOCK * ST_THREADS + ST_THREAD;\n"
    "    if (id < ST_ARG(n)) {\n"
    "        const st_u32 key = ST_GLOBAL(const st_u32, ST_ARG(keys))[id];\n"
    "        if (key != ST_NOWHERE) {\n"
    "            (void)st_atomic_max_u32(ST_GLOBAL(st_u32, ST_ARG(winners)) + key, (st_u32)id + "
    "1);\n"
    "        }\n"
    "    }\n"
    "}\n";

/* Are updates added by atomics? */
static bool is_any_order(const gpu_fixed_desc *desc)
{
    const uint32_t classes =
        ST_LOOP_INTS | ST_LOOP_UINTS | (desc->is_any_order ? (uint32_t)ST_LOOP_FLOATS : 0u);
    return desc->reduction == ST_LOOP_add && st_element_bytes(desc->dtype) >= 4u &&
           (st_loop_class_of(desc->dtype) & classes) != 0;
}

/* Prints what combines an element with an update, in the dtype; integers wrap. */
static void put_combine(const gpu_fixed_desc *desc, st_str *out)
{
    const bool is_float = (st_loop_class_of(desc->dtype) & ST_LOOP_FLOATS) != 0;
    const char *wide = is_float                              ? gpu_spelling.types[desc->dtype]
                       : st_element_bytes(desc->dtype) == 8u ? "st_u64"
                                                             : "st_u32";
    if (desc->reduction == ST_LOOP_min || desc->reduction == ST_LOOP_max) {
        st_str_addf(out, "#define ST_COMBINE(a, b) ST_%s(a, b)\n",
                    desc->reduction == ST_LOOP_min ? "MIN" : "MAX");
    } else if (desc->reduction) {
        st_str_addf(out, "#define ST_COMBINE(a, b) ((%s)(a) %c (%s)(b))\n", wide,
                    desc->reduction == ST_LOOP_add ? '+' : '*', wide);
    }
}

static void put_arguments(const gpu_fixed_desc *desc, st_str *out)
{
    st_str_add(
        out, "\ntypedef struct st_arguments_of {\n"
             "    st_i64 y, index, updates, keys, numbers, winners, status;\n"
             "    st_i64 n;     /* updates */\n"
             "    st_i64 inner; /* elements of a slice */\n"
             "    st_i64 slices;\n"
             "    /* Of each axis: its size, that of the index, slices from one to the next. */\n");
    for (uint32_t a = 0; a < desc->rank; a++) {
        st_str_addf(out, "    st_i64 d%u, i%u, s%u;\n", a, a, a);
    }
    st_str_add(out, "} st_arguments_of;\n");
}

/* Prints how an index counts along an axis. */
static void put_index(uint32_t axis, const char *at, st_str *out)
{
    st_str_addf(out,
                "        index = (st_i64)ST_GLOBAL(const st_index, ST_ARG(index))[%s];\n"
                "        index += index < 0 ? ST_ARG(d%u) : 0;\n"
                "        is_good = is_good && index >= 0 && index < ST_ARG(d%u);\n"
                "        key += index * ST_ARG(s%u);\n",
                at, axis, axis, axis);
}

static void put_keys(const gpu_fixed_desc *desc, st_str *out)
{
    st_str_add(out, "\nST_KERNEL(st_scatter_keys, st_arguments_of, ST_THREADS)\n{\n"
                    "    const st_i64 id = ST_BLOCK * ST_THREADS + ST_THREAD;\n"
                    "    if (id < ST_ARG(n)) {\n"
                    "        st_i64 key = 0;\n"
                    "        st_i64 index = 0;\n"
                    "        st_bool is_good = 1;\n");
    if (desc->width == 0) {
        st_str_add(out, "        st_i64 rest = id;\n");
    }
    for (uint32_t a = desc->rank; desc->width == 0 && a-- > 0;) {
        if (a == desc->axis) {
            put_index(a, "id", out);
        } else {
            st_str_addf(out, "        key += rest %% ST_ARG(i%u) * ST_ARG(s%u);\n", a, a);
        }
        st_str_addf(out, "        rest /= ST_ARG(i%u);\n", a);
    }
    for (uint32_t k = 0; k < desc->width; k++) {
        char at[48];
        (void)snprintf(at, sizeof at, "id * %u + %u", desc->width, k);
        put_index(k, at, out);
    }
    st_str_addf(
        out,
        "        if (!is_good) {\n"
        "            st_set_status((st_u64)ST_ARG(status), %uu);\n"
        "        }\n"
        "        ST_GLOBAL(st_u32, ST_ARG(keys))[id] = is_good ? (st_u32)key : ST_NOWHERE;\n"
        "        ST_GLOBAL(st_u32, ST_ARG(numbers))[id] = (st_u32)id;\n"
        "        if (is_good && ST_ARG(winners)) {\n"
        "            ST_GLOBAL(st_u32, ST_ARG(winners))[key] = 0;\n"
        "        }\n"
        "    }\n}\n",
        desc->origin);
}

static void print(const gpu_fixed_desc *desc, uint32_t program, st_str *out)
{
    if (program > 0) {
        const gpu_fixed_desc keys = gpu_sort_desc_of_keys();
        gpu_sort_kind.print(&keys, program - 1u, out);
        return;
    }
    st_str_add(out, head_text);
    st_str_addf(out, "#define ST_THREADS %u\ntypedef %s st_t;\ntypedef %s st_index;\n", THREADS,
                gpu_spelling.types[desc->dtype], gpu_spelling.types[desc->index_dtype]);
    put_combine(desc, out);
    put_arguments(desc, out);
    put_keys(desc, out);
    if (is_any_order(desc)) {
        const bool is_float = (st_loop_class_of(desc->dtype) & ST_LOOP_FLOATS) != 0;
        const char *word = st_element_bytes(desc->dtype) == 8u ? (is_float ? "f64" : "u64")
                                                               : (is_float ? "f32" : "u32");
        st_str_addf(out, "\ntypedef %s%s st_word;\n#define ST_SUM st_atomic_add_%s\n",
                    is_float ? "" : "st_", is_float ? gpu_spelling.types[desc->dtype] : word, word);
    }
    st_str_add(out, is_any_order(desc) ? put_sum_text : desc->reduction ? put_text : put_last_text);
    st_str_add(out, win_text);
}

/* ---- a call ---- */

typedef struct scattering {
    gpu_fixed_call *call;
    int64_t n;     /* updates */
    int64_t inner; /* elements of a slice */
    int64_t slices;
    gpu_sort_list lists[2];
    uint32_t now;           /* the list that is in order */
    st_gpu_address winners; /* 0: none are kept */
} scattering;

/* Address of the first element of an operand whose offset is number k. */
static st_gpu_address operand_of(const scattering *s, uint32_t buffer, uint32_t k, uint32_t dtype)
{
    return gpu_buffer_of(s->call, buffer) +
           (uint64_t)s->call->of->numbers[k] * st_element_bytes(dtype);
}

static void set_sizes(scattering *s)
{
    const gpu_fixed_desc *desc = &s->call->op->desc;
    const int64_t *dims = s->call->of->numbers + 3;
    const int64_t *index_dims = dims + desc->rank;
    s->n = s->inner = s->slices = 1;
    for (uint32_t a = 0; a + (desc->width > 0) < desc->index_rank; a++) {
        s->n *= index_dims[a];
    }
    for (uint32_t a = 0; a < desc->rank; a++) {
        const bool is_inner = desc->width > 0 && a >= desc->width;
        s->inner *= is_inner ? dims[a] : 1;
        s->slices *= is_inner ? 1 : dims[a];
    }
}

static void set_arguments(const scattering *s)
{
    const gpu_fixed_desc *desc = &s->call->op->desc;
    const gpu_call *call = s->call->call;
    const int64_t *dims = s->call->of->numbers + 3;
    const uint32_t n_axes = desc->width ? desc->width : desc->rank;
    int64_t stride = 1;
    uint64_t *to = s->call->arguments;
    const uint64_t first[] = {gpu_buffer_of(s->call, 1),
                              operand_of(s, 2, 1, desc->index_dtype),
                              operand_of(s, 3, 2, desc->dtype),
                              s->lists[s->now].keys,
                              s->lists[s->now].indices,
                              s->winners,
                              gpu_address(call->word ? (const void *)call->word->value
                                                     : (const void *)s->call->gpu->ignored),
                              (uint64_t)s->n,
                              (uint64_t)s->inner,
                              (uint64_t)s->slices};
    memcpy(to, first, sizeof first);
    to += sizeof first / sizeof first[0];
    for (uint32_t a = desc->rank; a-- > 0;) {
        to[a * 3u] = (uint64_t)dims[a];
        to[a * 3u + 1u] = desc->width ? 1 : (uint64_t)dims[desc->rank + a];
        to[a * 3u + 2u] = (uint64_t)stride;
        stride *= a < n_axes ? dims[a] : 1;
    }
    s->call->n_arguments = (uint32_t)(sizeof first / sizeof first[0]) + 3u * desc->rank;
}

static stator_status launch(const scattering *s, uint32_t kernel, int64_t count, stator_diag **err)
{
    set_arguments(s);
    return gpu_launch_fixed(s->call, 0, kernel, THREADS, gpu_count_of(count, THREADS), err);
}

static stator_status sort(scattering *s, stator_diag **err)
{
    const gpu_fixed_call *of = s->call;
    gpu_fixed_op op = {.desc = gpu_sort_desc_of_keys()};
    gpu_fixed_call call = {.gpu = of->gpu, .op = &op, .call = of->call, .of = of->of};
    memcpy(op.programs, of->op->programs + 1, GPU_SORT_PROGRAMS * sizeof(gpu_program *));
    call.axes = (gpu_axes){.rows = 1, .own_size = s->n};
    uint32_t bits = 1;
    while (s->slices >> bits) {
        bits++;
    }
    return gpu_sort_keys(&call, s->lists, bits, &s->now, err);
}

static stator_status copy(const scattering *s, stator_diag **err)
{
    const gpu_fixed_desc *desc = &s->call->op->desc;
    const st_gpu_driver *driver = s->call->gpu->driver;
    const st_gpu_address from = operand_of(s, 0, 0, desc->dtype);
    const st_gpu_address to = gpu_buffer_of(s->call, 1);
    const uint64_t bytes = (uint64_t)(s->slices * s->inner) * st_element_bytes(desc->dtype);
    return from == to ? STATOR_OK
                      : driver->copy_on_device(driver->self, to, from, bytes,
                                               s->call->call->stream->driver_stream, err);
}

static stator_status scatter(scattering *s, stator_diag **err)
{
    ST_TRY(launch(s, SCATTER_KEYS, s->n, err));
    if (s->winners) {
        ST_TRY(launch(s, SCATTER_WIN, s->n, err));
    } else if (!is_any_order(&s->call->op->desc)) {
        ST_TRY(sort(s, err));
    }
    return launch(s, SCATTER_PUT, s->n * s->inner, err);
}

static stator_status run(gpu_fixed_call *call, stator_diag **err)
{
    st_gpu *gpu = call->gpu;
    scattering s = {.call = call};
    set_sizes(&s);
    ST_FAIL_IF(s.n >= UINT32_MAX || s.slices >= UINT32_MAX, err, STATOR_UNSUPPORTED,
               "a scatter of %lld updates into %lld places is larger than fixed kernels take",
               (long long)s.n, (long long)s.slices);
    stator_status status = copy(&s, err);
    if (status != STATOR_OK || s.n <= 0 || s.inner <= 0) {
        return status;
    }
    const uint64_t bytes = ((uint64_t)s.n * sizeof(uint32_t) + 255u) & ~(uint64_t)255u;
    for (uint32_t i = 0; i < 2; i++) {
        ST_THEN(status,
                gpu_take(gpu, &gpu->device, call->call->stream, bytes * 2u, &s.lists[i].keys, err));
        s.lists[i].indices = s.lists[i].keys + bytes;
        s.lists[i].n = s.n;
    }
    if (call->op->desc.reduction == 0 &&
        (s.slices <= SLICES_MIN || s.slices / SLICES_OF_UPDATE <= s.n)) {
        ST_THEN(status, gpu_take(gpu, &gpu->device, call->call->stream,
                                 (uint64_t)s.slices * sizeof(uint32_t), &s.winners, err));
    }
    ST_THEN(status, scatter(&s, err));
    gpu_note_queued(gpu, call->call->stream);
    for (uint32_t i = 0; i < 2; i++) {
        gpu_give(gpu, &gpu->device, call->call->stream, s.lists[i].keys);
    }
    gpu_give(gpu, &gpu->device, call->call->stream, s.winners);
    return status;
}

const gpu_fixed_kind gpu_scatter_kind = {
    .first_axis = 3,
    .n_programs = 3,
    .kernels = {kernels, gpu_sort_tile_kernels, gpu_radix_kernels},
    .describe = set_desc,
    .print = print,
    .run = run};
