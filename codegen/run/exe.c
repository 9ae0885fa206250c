/* An executable as a thing: made empty, described to the host and to a person, destroyed.
 *
 * Its constants are memory of the host's, asked for when a step reads them. */
#include "codegen/run/host_library.h"
#include "codegen/run/scan_loop.h"

#define ALIGNED_BYTES_MAX 65536u /* constants up to this are copied when they lie unaligned */

/* ---- constants ---- */

bool cg_is_unaligned_mapped(const st_cg_config *config, uint64_t size_bytes)
{
    return (config->emitter->target.flags & ST_TARGET_UNALIGNED) &&
           size_bytes > ALIGNED_BYTES_MAX && STATOR_HAS(config->host->cst, peek);
}

/* Reads a constant's info without its bytes; reads few bytes as well, aligned. */
stator_status cg_look_at_constant(const st_cg_config *config, stator_blob *blob,
                                  stator_blob_info *info, stator_diag **err)
{
    const stator_cst_api *cst = config->host->cst;
    stator_diag *theirs = NULL;
    stator_status status = STATOR_HAS(cst, peek) ? cst->peek(blob, info, &theirs) : STATOR_OK;
    if (status == STATOR_OK &&
        !(STATOR_HAS(cst, peek) && cg_is_unaligned_mapped(config, info->size_bytes))) {
        status = cst->get(blob, info, &theirs);
    }
    return st_cg_from_host(config->host, status, &theirs, err);
}

stator_status cg_constant_data(const st_cg_config *config, stator_blob *blob, const void **out_data,
                               stator_diag **err)
{
    stator_blob_info info = {.struct_size = sizeof info};
    ST_TRY(cg_look_at_constant(config, blob, &info, err));
    *out_data = info.data;
    return STATOR_OK;
}

/* ---- numbers and names of a launch ---- */

bool cg_know_numbers(st_cg_exe *exe, cg_launch *launch)
{
    for (uint32_t i = 0; i < launch->n_numbers; i++) {
        if (!launch->numbers[i].is_const) {
            return true;
        }
    }
    launch->known =
        st_arena_zalloc(&exe->arena, (uint64_t)launch->n_numbers + 1u, sizeof *launch->known);
    for (uint32_t i = 0; launch->known && i < launch->n_numbers; i++) {
        launch->known[i] = launch->numbers[i].constant;
    }
    return launch->known != NULL;
}

const char *cg_keep_text(st_cg_exe *exe, st_str *text)
{
    const char *kept =
        st_str_ok(text) ? st_arena_strndup(&exe->arena, text->data, text->len) : NULL;
    st_str_deinit(text);
    return kept;
}

const char *cg_launch_name(const cg_launch *l)
{
    return l->name ? l->name : l->text ? l->text : "scan";
}

bool cg_scan_knows(const cg_scan *scan, uint32_t k)
{
    return k < scan->n_in && scan->ports[k].kind == CG_PORT_WHOLE;
}

/* ---- what it takes of memory ---- */

/* Of the library's op, if the step is one. */
static st_library_memory op_memory(const st_cg_exe *exe, const cg_launch *l)
{
    const st_library *library = cg_library_of(exe, l);
    st_library_memory op = {.unread = UINT32_MAX};
    if (l->op && library && STATOR_HAS(library, memory) && library->memory) {
        library->memory(library->self, l->op, &op);
    }
    return op;
}

static void add_ops(const st_cg_exe *exe, stator_exe_info *out)
{
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        const st_library_memory op = op_memory(exe, &exe->launches.data[i]);
        out->packed_bytes += op.packed_bytes;
        out->winograd_bytes += op.winograd_bytes;
        out->scratch_bytes =
            op.scratch_bytes > out->scratch_bytes ? op.scratch_bytes : out->scratch_bytes;
    }
}

/* Marks the constants that steps read: not those that an op holds in another form, nor those that
 * are a body's own. */
static void mark_read(const st_cg_exe *exe, uint8_t *is_read)
{
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        const cg_launch *l = &exe->launches.data[i];
        const st_library_memory op = op_memory(exe, l);
        for (uint32_t k = 0; k < l->n_buffers; k++) {
            const uint32_t operand = exe->operands.data[l->first_buffer + k];
            if (operand != UINT32_MAX && k != op.unread &&
                exe->buffers.data[operand].kind == CG_BUFFER_CONSTANT &&
                !(l->scan && cg_scan_knows(l->scan, k))) {
                is_read[exe->buffers.data[operand].index] = 1;
            }
        }
    }
}

/* Bodies of scans have constants and ops of their own. */
static void add_memory(const st_cg_exe *exe, stator_exe_info *out)
{
    const stator_cst_api *cst = exe->config.host->cst;
    uint8_t *is_read = st_calloc(exe->config.mem, exe->blobs.count + 1u, 1);
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        if (exe->launches.data[i].scan) {
            add_memory(exe->launches.data[i].scan->body, out);
        }
    }
    if (is_read == NULL || !STATOR_HAS(cst, peek)) {
        st_free(exe->config.mem, is_read);
        return;
    }
    add_ops(exe, out);
    mark_read(exe, is_read);
    for (uint32_t i = 0; i < exe->blobs.count; i++) {
        stator_blob_info info = {.struct_size = sizeof info};
        stator_diag *err = NULL;
        if (is_read[i] && cst->peek(exe->blobs.data[i], &info, &err) == STATOR_OK) {
            out->constant_bytes += info.size_bytes;
        }
        exe->config.host->diag->release(err);
    }
    st_free(exe->config.mem, is_read);
}

/* On a device: may a check inside a kernel be told when the call has returned? */
static bool tells_late(const st_cg_exe *exe)
{
    bool is_late = exe->device_checks != NULL;
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        const cg_scan *scan = exe->launches.data[i].scan;
        is_late = is_late || (scan && tells_late(scan->body));
    }
    return is_late;
}

void st_cg_info(const st_cg_exe *exe, stator_exe_info *out)
{
    out->flags = exe->binds.count ? 0 : STATOR_EXE_STATIC_OUTPUTS;
    out->flags |= tells_late(exe) ? 0 : STATOR_EXE_TELLS_AT_ONCE;
    out->workspace_bytes = exe->slots || exe->config.emitter->memory ? 0 : exe->static_bytes;
    if (out->struct_size >= sizeof *out) {
        out->constant_bytes = out->packed_bytes = out->winograd_bytes = out->scratch_bytes = 0;
        add_memory(exe, out);
        out->may_alias = exe->may_alias;
    }
}

/* ---- on a device ---- */

static stator_status take_constants(st_cg_exe *exe, const uint8_t *is_read, stator_diag **err)
{
    const st_device_memory *memory = exe->config.emitter->memory;
    exe->device_constants =
        st_arena_zalloc(&exe->arena, (uint64_t)exe->blobs.count + 1u, sizeof(void *));
    ST_TRY_MEM(exe->device_constants, err);
    for (uint32_t i = 0; i < exe->blobs.count; i++) {
        if (is_read[i]) {
            ST_TRY(memory->constant_take(memory->self, exe->blobs.data[i],
                                         &exe->device_constants[i], &exe->constants[i], err));
        }
    }
    return STATOR_OK;
}

static bool may_write_input(const st_cg_exe *exe, const cg_launch *l)
{
    for (uint32_t k = 0; exe->may_alias && l->when == CG_ALWAYS && k < l->n_buffers; k++) {
        const uint32_t operand = exe->operands.data[l->first_buffer + k];
        if (operand != UINT32_MAX && exe->buffers.data[operand].kind == CG_BUFFER_OUTPUT &&
            exe->may_alias[exe->buffers.data[operand].index] != 0) {
            return true;
        }
    }
    return false;
}

stator_status cg_move_to_device(st_cg_exe *exe, stator_diag **err)
{
    const st_device_memory *memory = exe->config.emitter->memory;
    if (memory == NULL) {
        return STATOR_OK;
    }
    while (exe->first_write < exe->launches.count &&
           !may_write_input(exe, &exe->launches.data[exe->first_write])) {
        exe->first_write++;
    }
    uint8_t *is_read = st_calloc(exe->config.mem, exe->blobs.count + 1u, 1);
    ST_TRY_MEM(is_read, err);
    mark_read(exe, is_read);
    const stator_status status = take_constants(exe, is_read, err);
    st_free(exe->config.mem, is_read);
    ST_TRY(status);
    return exe->checks.count ? memory->checks_create(memory->self, exe->checks.data,
                                                     exe->checks.count, &exe->device_checks, err)
                             : STATOR_OK;
}

static void leave_device(st_cg_exe *exe)
{
    const st_device_memory *memory = exe->config.emitter->memory;
    for (uint32_t i = 0; exe->device_constants && i < exe->blobs.count; i++) {
        if (exe->device_constants[i]) {
            memory->constant_give(memory->self, exe->device_constants[i]);
        }
    }
    if (exe->device_checks) {
        memory->checks_release(memory->self, exe->device_checks);
    }
}

/* ---- steps, reported and printed ---- */

static uint32_t flags_of(const cg_launch *l)
{
    return l->step_flags | (l->when == CG_TO_COPY      ? STATOR_STEP_IF_APART
                            : l->when == CG_TO_RESTORE ? STATOR_STEP_IF_FAILED
                                                       : 0);
}

static stator_exe_step step_of(const cg_launch *l, uint32_t depth)
{
    return (stator_exe_step){.struct_size = sizeof(stator_exe_step),
                             .kind = l->scan                   ? STATOR_STEP_LOOP
                                     : l->kernel == UINT32_MAX ? STATOR_STEP_LIBRARY
                                                               : STATOR_STEP_KERNEL,
                             .flags = flags_of(l),
                             .depth = depth,
                             .n_nodes = depth ? 0 : l->n_nodes, /* a body's graph is another */
                             .nodes = l->nodes,
                             .name = cg_launch_name(l),
                             .read_bytes = l->read_bytes,
                             .written_bytes = l->written_bytes};
}

static stator_status report_steps(const st_cg_exe *exe, uint32_t depth,
                                  const stator_step_sink *sink)
{
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        const cg_launch *l = &exe->launches.data[i];
        if (l->bind) {
            continue; /* a bind reads one size and runs no kernel */
        }
        const stator_exe_step step = step_of(l, depth);
        ST_TRY(sink->step(sink->self, &step));
        if (l->scan) {
            ST_TRY(report_steps(l->scan->body, depth + 1u, sink));
        }
    }
    return STATOR_OK;
}

stator_status st_cg_steps(const st_cg_exe *exe, const stator_step_sink *sink)
{
    return report_steps(exe, 0, sink);
}

stator_status st_cg_print(const st_cg_exe *exe, st_str *out)
{
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        const cg_launch *launch = &exe->launches.data[i];
        if (launch->n_concurrent > 1) {
            st_str_addf(out, "concurrent, %u scans:\n", launch->n_concurrent);
        }
        if (launch->text) {
            st_str_add(out, launch->text);
        } else if (!exe->is_loaded) {
            st_kernel_print(&exe->kernels.data[launch->kernel], out);
        }
    }
    st_str_addf(out, "// %u launches, %u values in the workspace", exe->launches.count,
                exe->n_slots);
    if (exe->slots == NULL) {
        st_str_addf(out, ", %llu bytes", (unsigned long long)exe->static_bytes);
    }
    if (exe->n_output_aliases) {
        st_str_addf(out, ", %u in outputs", exe->n_output_aliases);
    }
    for (uint32_t k = 0; exe->may_alias && k < exe->n_outputs; k++) {
        if (exe->may_alias[k] != 0) {
            st_str_addf(out, ", output %u in input %u", k, exe->may_alias[k] - 1u);
        }
    }
    if (exe->shape_constraints.count) {
        st_str_addf(out, ", %u %s of sizes a call", exe->shape_constraints.count,
                    exe->shape_constraints.count == 1 ? "test" : "tests");
    }
    st_str_add(out, "\n");
    return st_str_ok(out) ? STATOR_OK : STATOR_RESOURCE_EXHAUSTED;
}

/* ---- from beginning to end ---- */

st_cg_exe *cg_new_exe(const st_cg_config *config)
{
    st_cg_exe *exe = st_calloc(config->mem, 1, sizeof *exe);
    if (exe == NULL) {
        return NULL;
    }
    exe->config = *config;
    st_host_library_init(&exe->host_library, &exe->config);
    st_arena_init(&exe->arena, config->mem);
    if (!st_loop_syms_init(&exe->syms, config->mem)) {
        st_arena_deinit(&exe->arena);
        st_free(config->mem, exe);
        return NULL;
    }
    return exe;
}

static void progs_deinit(st_symprog *list, uint32_t n, st_mem *mem)
{
    for (uint32_t i = 0; list && i < n; i++) {
        st_symprog_deinit(&list[i], mem);
    }
}

static void scan_deinit(cg_scan *scan, st_mem *mem)
{
    st_free(mem, atomic_load(&scan->spare));
    st_cg_destroy(scan->body);
    st_symprog_deinit(&scan->length, mem);
    progs_deinit(scan->carried_bytes, scan->n_carried, mem);
    for (uint32_t k = 0; k < scan->n_in + scan->n_out; k++) {
        st_symprog_deinit(&scan->ports[k].bytes, mem);
    }
}

void st_cg_destroy(st_cg_exe *exe)
{
    if (exe == NULL) {
        return;
    }
    st_mem *mem = exe->config.mem;
    leave_device(exe);
    if (exe->module) {
        exe->config.emitter->module_destroy(exe->config.emitter->self, exe->module);
    }
    for (uint32_t i = 0; i < exe->kernels.count; i++) {
        st_kernel_deinit(&exe->kernels.data[i]);
    }
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        cg_launch *launch = &exe->launches.data[i];
        st_symprog_deinit(&launch->count, mem);
        if (launch->scan) {
            scan_deinit(launch->scan, mem);
        }
        progs_deinit(launch->numbers, launch->n_numbers, mem);
        if (launch->op) {
            const st_library *library = cg_library_of(exe, launch);
            library->destroy(library->self, launch->op);
        }
    }
    for (uint32_t i = 0; i < exe->n_outputs; i++) {
        progs_deinit(exe->outputs[i].dims, exe->outputs[i].rank, mem);
    }
    progs_deinit(exe->slots, exe->n_slots, mem);
    for (uint32_t i = 0; i < exe->blobs.count; i++) {
        exe->config.host->cst->release(exe->blobs.data[i]);
    }
    st_free(mem, atomic_load(&exe->spare));
    st_vec_free(mem, &exe->kernels);
    st_vec_free(mem, &exe->launches);
    st_vec_free(mem, &exe->operands);
    st_vec_free(mem, &exe->buffers);
    st_vec_free(mem, &exe->blobs);
    st_vec_free(mem, &exe->checks);
    for (uint32_t i = 0; i < exe->binds.count; i++) {
        for (uint32_t k = 0; k < exe->binds.data[i].n; k++) {
            st_symprog_deinit(&exe->binds.data[i].sizes[k].sym, mem);
        }
    }
    st_vec_free(mem, &exe->binds);
    for (uint32_t i = 0; i < exe->shape_constraints.count; i++) {
        cg_shape_constraint *constraint = &exe->shape_constraints.data[i];
        progs_deinit(constraint->size, constraint->n_sizes, mem);
    }
    st_vec_free(mem, &exe->shape_constraints);
    st_loop_syms_deinit(&exe->syms);
    st_arena_deinit(&exe->arena);
    st_free(mem, exe);
}
