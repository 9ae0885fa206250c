/* Fixed kernels as a library of contractions: what it takes, its ops and their calls. */
#include "codegen/gpu/fixed/gpu_fixed.h"

#include "core/base/bytes.h"

#include <stdio.h>
#include <string.h>

static const gpu_fixed_kind *kind_of(uint32_t kind)
{
    switch (kind) {
    case ST_CONTRACTION_ORDER:
        return &gpu_sort_kind;
    case ST_CONTRACTION_CUMULATE:
        return &gpu_scan_kind;
    case ST_CONTRACTION_SCATTER:
        return &gpu_scatter_kind;
    case GPU_FIXED_SELECT:
        return &gpu_select_kind;
    case GPU_FIXED_PARTITION:
        return &gpu_partition_kind;
    default:
        return NULL;
    }
}

/* ---- what kinds print and launch ---- */

static const char columns[GPU_FIXED_COLUMNS] = {'x', 'y', 'z'};

static void put_position(const gpu_fixed_desc *desc, uint32_t n_columns, st_str *out)
{
    st_str_add(out, "\n/* Adds where the row's first elements are. */\n#define ST_PLACE(row");
    for (uint32_t k = 0; k < n_columns; k++) {
        st_str_addf(out, ", %c", columns[k]);
    }
    st_str_add(out, ") \\\n");
    for (uint32_t a = desc->rank - 1u; a-- > 0;) {
        st_str_addf(out, "    if (ST_ARG(d%u) > 1) { \\\n", a);
        for (uint32_t k = 0; k < n_columns; k++) {
            st_str_addf(out, "        (%c) += (row) %% ST_ARG(d%u) * ST_ARG(%c%u); \\\n",
                        columns[k], a, columns[k], a);
        }
        st_str_addf(out, "        (row) /= ST_ARG(d%u); \\\n    } \\\n", a);
    }
    st_str_add(out, "    (void)(row)\n");
}

void gpu_put_arguments(const gpu_fixed_desc *desc, uint32_t n_columns, const char *fields,
                       st_str *out)
{
    st_str_add(out, "\ntypedef struct st_arguments_of {\n");
    while (*fields) {
        const uint32_t n = (uint32_t)strcspn(fields, " ");
        st_str_addf(out, "    st_i64 %.*s;\n", (int)n, fields);
        fields += n + (fields[n] == ' ');
    }
    for (uint32_t a = 0; a + 1u < desc->rank; a++) {
        st_str_addf(out, "    st_i64 d%u", a);
        for (uint32_t k = 0; k < n_columns; k++) {
            st_str_addf(out, ", %c%u", columns[k], a);
        }
        st_str_add(out, ";\n");
    }
    st_str_add(out, "} st_arguments_of;\n");
    put_position(desc, n_columns, out);
}

void gpu_set_arguments(gpu_fixed_call *call, const uint64_t *arguments, uint32_t n)
{
    const gpu_axes *axes = &call->axes;
    const uint32_t n_columns = kind_of(call->op->desc.kind)->n_columns;
    memcpy(call->arguments, arguments, n * sizeof *arguments);
    for (uint32_t a = 0; a < axes->n; a++) {
        call->arguments[n++] = (uint64_t)axes->size[a];
        for (uint32_t k = 0; k < n_columns; k++) {
            call->arguments[n++] = (uint64_t)axes->stride[a][k];
        }
    }
    call->n_arguments = n;
}

stator_status gpu_launch_fixed(const gpu_fixed_call *call, uint32_t program, uint32_t kernel,
                               uint32_t threads, int64_t blocks, stator_diag **err)
{
    const char *name = kind_of(call->op->desc.kind)->kernels[program][kernel];
    ST_FAIL_IF(blocks > INT32_MAX, err, STATOR_OUT_OF_RANGE,
               "kernel %s: %lld blocks are more than one grid has", name, (long long)blocks);
    uint64_t arguments[GPU_FIXED_ARGUMENTS_MAX];
    memcpy(arguments, call->arguments, sizeof arguments);
    const st_gpu_launch what = {.function = call->op->programs[program]->functions[kernel],
                                .blocks = {(uint32_t)blocks, 1, 1},
                                .threads = threads,
                                .arguments = arguments,
                                .argument_bytes = call->n_arguments * (uint32_t)sizeof *arguments};
    atomic_fetch_add(&call->gpu->launches, 1);
    return gpu_queue_launch(call->gpu, &what, call->call->stream, err);
}

st_gpu_address gpu_buffer_of(const gpu_fixed_call *call, uint32_t buffer)
{
    const uint32_t index = call->op->desc.buffers[buffer];
    return index == UINT32_MAX ? 0 : gpu_address(call->of->buffers[index]);
}

static const char count_before_text[] =
    "\n"
    "/* What the threads before this one have, added up. */\n"
    "ST_DEVICE st_u32 st_count_before(st_u32 x, st_u32 *warps)\n"
    "{\n"
    "    st_u32 before = 0;\n"
    "    for (st_u32 mask = 1; mask < ST_WARP; mask *= 2) {\n"
    "        const st_u32 other = st_shuffle_xor_u32(x, mask);\n"
    "        before += ST_LANE & mask ? other : 0;\n"
    "        x += other;\n"
    "    }\n"
    "    if (ST_LANE == 0) {\n"
    "        warps[ST_THREAD / ST_WARP] = x;\n"
    "    }\n"
    "    st_barrier();\n"
    "    for (st_u32 w = 0; w < ST_THREAD / ST_WARP; w++) {\n"
    "        before += warps[w];\n"
    "    }\n"
    "    return before;\n"
    "}\n";

void gpu_put_count_before(st_str *out)
{
    st_str_add(out, count_before_text);
}

/* ---- axes of a call ---- */

/* Do all strides walk the axis and the one inside it as one? */
static bool is_one_walk(const gpu_axes *axes, uint32_t n_columns, uint32_t outer)
{
    bool is_one = true;
    for (uint32_t k = 0; k < n_columns; k++) {
        is_one = is_one &&
                 axes->stride[outer][k] == axes->size[outer + 1u] * axes->stride[outer + 1u][k];
    }
    return is_one;
}

static void drop_axis(gpu_axes *axes, uint32_t at)
{
    for (uint32_t a = at; a + 1u < axes->n; a++) {
        axes->size[a] = axes->size[a + 1u];
        memcpy(axes->stride[a], axes->stride[a + 1u], sizeof axes->stride[a]);
    }
    axes->n--;
}

static void merge_axes(gpu_axes *axes, uint32_t n_columns)
{
    for (uint32_t a = axes->n; a-- > 0;) {
        if (axes->size[a] == 1) {
            drop_axis(axes, a);
        }
    }
    for (uint32_t a = axes->n; a > 1u; a--) {
        if (is_one_walk(axes, n_columns, a - 2u)) {
            axes->size[a - 1u] *= axes->size[a - 2u];
            drop_axis(axes, a - 2u);
        }
    }
}

/* Axes of size 1 before the others, as many as the text has. */
static void pad_axes(gpu_axes *axes, uint32_t n)
{
    const uint32_t before = n - axes->n;
    for (uint32_t a = n; a-- > 0;) {
        axes->size[a] = a >= before ? axes->size[a - before] : 1;
        if (a >= before) {
            memmove(axes->stride[a], axes->stride[a - before], sizeof axes->stride[a]);
        } else {
            memset(axes->stride[a], 0, sizeof axes->stride[a]);
        }
    }
    axes->n = n;
}

static void set_axes(const gpu_fixed_desc *desc, const int64_t *numbers, gpu_axes *out)
{
    const gpu_fixed_kind *kind = kind_of(desc->kind);
    *out = (gpu_axes){.rows = 1};
    for (uint32_t a = 0; a < desc->rank; a++) {
        const int64_t *of = numbers + kind->first_axis + (uint64_t)a * (1u + kind->n_columns);
        int64_t *stride = a == desc->axis ? out->own_stride : out->stride[out->n];
        memcpy(stride, of + 1, kind->n_columns * sizeof *stride);
        if (a == desc->axis) {
            out->own_size = of[0];
        } else {
            out->size[out->n++] = of[0];
            out->rows *= of[0];
        }
    }
    merge_axes(out, kind->n_columns);
    pad_axes(out, desc->rank - 1u);
}

/* ---- the library ---- */

/* What this kind has of it; false: it does not take it. */
static bool set_desc_of(uint32_t of, const st_gpu *gpu, const st_contraction *contraction,
                        gpu_fixed_desc *out)
{
    const gpu_fixed_kind *kind = kind_of(of);
    *out = (gpu_fixed_desc){
        .kind = of,
        .dtype = contraction->x.dtype,
        .buffers = {contraction->x.buffer, contraction->out.buffer, UINT32_MAX, UINT32_MAX}};
    return kind && kind->describe(&gpu->emitter.target, contraction, out);
}

static bool set_desc(const st_gpu *gpu, const st_contraction *contraction, gpu_fixed_desc *out)
{
    return (contraction->kind == ST_CONTRACTION_ORDER &&
            (set_desc_of(GPU_FIXED_PARTITION, gpu, contraction, out) ||
             set_desc_of(GPU_FIXED_SELECT, gpu, contraction, out))) ||
           set_desc_of(contraction->kind, gpu, contraction, out);
}

static int32_t takes(void *self, const st_contraction *contraction)
{
    gpu_fixed_desc desc;
    return set_desc(self, contraction, &desc);
}

/* The op's programs; `images`: by program, empty or NULL where they are to be compiled. */
static stator_status find_programs(st_gpu *gpu, gpu_fixed_op *op, const st_str *images,
                                   stator_diag **err)
{
    const gpu_fixed_kind *kind = kind_of(op->desc.kind);
    stator_status status = STATOR_OK;
    for (uint32_t i = 0; i < kind->n_programs && status == STATOR_OK; i++) {
        st_str text;
        st_str_init(&text, gpu->mem);
        kind->print(&op->desc, i, &text);
        status = st_str_ok(&text)
                     ? gpu_program_find(gpu, &text, kind->kernels[i], images ? &images[i] : NULL,
                                        &op->programs[i], err)
                     : st_fail_oom(err);
        st_str_deinit(&text);
    }
    return status;
}

static void op_destroy(void *self, void *op)
{
    const st_gpu *gpu = self;
    st_free(gpu->mem, op);
}

static stator_status op_create(void *self, const st_contraction *contraction, void **out_op,
                               stator_diag **err)
{
    st_gpu *gpu = self;
    *out_op = NULL;
    gpu_fixed_op *op = st_calloc(gpu->mem, 1, sizeof *op);
    ST_TRY_MEM(op, err);
    stator_status status = set_desc(gpu, contraction, &op->desc)
                               ? find_programs(gpu, op, NULL, err)
                               : st_fail(err, STATOR_INTERNAL, "no fixed kernel does this");
    if (status != STATOR_OK) {
        op_destroy(gpu, op);
        return status;
    }
    *out_op = op;
    return STATOR_OK;
}

static stator_status op_run(void *self, void *op_, const st_library_call *of, stator_diag **err)
{
    const gpu_fixed_op *op = op_;
    gpu_fixed_call call = {.gpu = self, .op = op, .call = of->device_call, .of = of};
    set_axes(&op->desc, of->numbers, &call.axes);
    if (call.axes.rows <= 0 || call.axes.own_size <= 0) {
        return STATOR_OK;
    }
    return kind_of(op->desc.kind)->run(&call, err);
}

/* ---- the compile cache ---- */

static stator_status op_save(void *self, void *op_, st_str *out, stator_diag **err)
{
    const gpu_fixed_op *op = op_;
    (void)self;
    st_put_block(out, &op->desc, sizeof op->desc);
    for (uint32_t i = 0; i < kind_of(op->desc.kind)->n_programs; i++) {
        st_put_block(out, op->programs[i]->image.data, op->programs[i]->image.len);
    }
    return st_str_ok(out) ? STATOR_OK : st_fail_oom(err);
}

static bool is_sound(const gpu_fixed_desc *desc, const st_library_kept *kept)
{
    const gpu_fixed_kind *kind = kind_of(desc->kind);
    bool is_good = kind && desc->dtype < STATOR_DTYPE_COUNT && desc->rank > 0 &&
                   desc->rank <= ST_CONTRACTION_ORDER_RANK_MAX && desc->axis < desc->rank &&
                   desc->buffers[0] < kept->n_buffers && desc->is_reverse < 2u &&
                   desc->is_product < 2u && desc->is_exclusive < 2u && desc->is_any_order < 2u;
    for (uint32_t i = 1; i < GPU_FIXED_BUFFERS_MAX; i++) {
        is_good = is_good && (desc->buffers[i] == UINT32_MAX || desc->buffers[i] < kept->n_buffers);
    }
    is_good = is_good && desc->index_rank <= ST_CONTRACTION_ORDER_RANK_MAX &&
              desc->width <= desc->rank && desc->index_dtype < STATOR_DTYPE_COUNT;
    return is_good && kept->n_numbers ==
                          kind->first_axis + desc->rank * (1u + kind->n_columns) + desc->index_rank;
}

static stator_status read_op(st_gpu *gpu, const st_library_kept *kept, gpu_fixed_op *op,
                             st_str *images, stator_diag **err)
{
    st_reader r = st_reader_of(kept->bytes, kept->size_bytes);
    uint64_t n = 0;
    const void *desc = st_read_block(&r, &n);
    if (!r.failed && n == sizeof op->desc) {
        memcpy(&op->desc, desc, sizeof op->desc);
    }
    bool is_good = is_sound(&op->desc, kept);
    for (uint32_t i = 0; is_good && i < kind_of(op->desc.kind)->n_programs; i++) {
        const void *image = st_read_block(&r, &n);
        is_good = !r.failed && n > 0;
        st_str_addn(&images[i], is_good ? image : "", is_good ? n : 0);
        ST_TRY_MEM(st_str_ok(&images[i]), err);
    }
    ST_FAIL_IF(!is_good || r.failed || r.left, err, STATOR_DATA_LOSS,
               "the bytes of a kept fixed kernel are damaged");
    const stator_status status = find_programs(gpu, op, images, err);
    return status == STATOR_INTERNAL ? STATOR_DATA_LOSS : status; /* the driver knows it not */
}

static stator_status op_load(void *self, const st_library_kept *kept, void **out_op,
                             uint32_t *out_unread, stator_diag **err)
{
    st_gpu *gpu = self;
    st_str images[GPU_FIXED_PROGRAMS_MAX];
    gpu_fixed_op *op = st_calloc(gpu->mem, 1, sizeof *op);
    *out_unread = UINT32_MAX;
    *out_op = NULL;
    ST_TRY_MEM(op, err);
    for (uint32_t i = 0; i < GPU_FIXED_PROGRAMS_MAX; i++) {
        st_str_init(&images[i], gpu->mem);
    }
    const stator_status status = read_op(gpu, kept, op, images, err);
    for (uint32_t i = 0; i < GPU_FIXED_PROGRAMS_MAX; i++) {
        st_str_deinit(&images[i]);
    }
    if (status != STATOR_OK) {
        op_destroy(gpu, op);
        return status;
    }
    *out_op = op;
    return STATOR_OK;
}

void gpu_fixed_init(st_gpu *gpu)
{
    gpu->fixed = (st_library){.struct_size = sizeof gpu->fixed,
                              .self = gpu,
                              .takes = takes,
                              .create = op_create,
                              .run = op_run,
                              .destroy = op_destroy,
                              .op_save = op_save,
                              .op_load = op_load};
}
