/* An executable as bytes and back: the launch plan, and what the emitter and the library make of
 * their parts.
 *
 * Constants are named by the host's ids (stator_cache_api), sizes are flat programs, kernels are
 * the emitter's module alone: the loop IR is not kept. Reading checks every index against what was
 * read before; what a constant holds is asked for only when a step reads it, so weights that a
 * library has packed are not touched. */
#include "codegen/run/scan_loop.h"

#include "core/base/bytes.h"
#include "core/base/check.h"

#include <string.h>

#define FORMAT 11u
#define ITEM_BYTES_MIN 4u /* smallest item of a counted list */

/* A field more in these is one to be kept here, or one that is not. */
_Static_assert(sizeof(cg_launch) == 160 && sizeof(cg_buffer) == 56 && sizeof(cg_output) == 16 &&
                   sizeof(cg_bound) == 56 && sizeof(cg_shape_constraint) == 40,
               "what is kept of a plan");

/* ---- writing ---- */

static void put_launch(const cg_launch *l, st_str *out)
{
    st_put_u32(out, l->kernel);
    st_put_u32(out, l->first_buffer);
    st_put_u32(out, l->n_buffers);
    st_put_u32(out, l->has_parallel);
    if (l->has_parallel) {
        st_symprog_put(&l->count, out);
    }
    st_put_i64(out, l->grain);
    st_put_u32(out, l->lanes);
    st_put_text(out, l->text);
    st_put_text(out, l->name);
    st_put_u32(out, l->is_host);
    st_put_u32(out, l->n_numbers);
    for (uint32_t i = 0; i < l->n_numbers; i++) {
        st_symprog_put(&l->numbers[i], out);
    }
    st_put_u32(out, l->stage);
    st_put_u32(out, l->bind);
    st_put_u32(out, l->n_concurrent);
    st_put_u32(out, l->step_flags);
    st_put_u64(out, l->read_bytes);
    st_put_u64(out, l->written_bytes);
}

static stator_status put_constants(const st_cg_exe *exe, st_str *out, stator_diag **err)
{
    const stator_host *host = exe->config.host;
    st_put_u32(out, exe->blobs.count);
    for (uint32_t i = 0; i < exe->blobs.count; i++) {
        uint32_t id = 0;
        stator_diag *theirs = NULL;
        const stator_status status =
            host->cache->put_constant(host->ctx, exe->blobs.data[i], &id, &theirs);
        ST_TRY(st_cg_from_host(host, status, &theirs, err));
        st_put_u32(out, id);
    }
    return STATOR_OK;
}

static void put_binds(const st_cg_exe *exe, st_str *out)
{
    st_put_u32(out, exe->binds.count);
    for (uint32_t k = 0; k < exe->binds.count; k++) {
        const cg_size_bind *bind = &exe->binds.data[k];
        st_put_text(out, bind->name);
        st_put_u32(out, bind->n);
        for (uint32_t i = 0; i < bind->n; i++) {
            st_put_u32(out, bind->sizes[i].index);
            st_put_i64(out, bind->sizes[i].lo);
            st_put_i64(out, bind->sizes[i].hi);
            st_put_i64(out, bind->sizes[i].divisor);
            st_symprog_put(&bind->sizes[i].sym, out);
        }
    }
}

static void put_shape_constraints(const st_cg_exe *exe, st_str *out)
{
    st_put_u32(out, exe->shape_constraints.count);
    for (uint32_t k = 0; k < exe->shape_constraints.count; k++) {
        const cg_shape_constraint *constraint = &exe->shape_constraints.data[k];
        st_put_u32(out, constraint->kind);
        st_put_u32(out, constraint->stage);
        st_put_i64(out, constraint->step);
        st_put_text(out, constraint->text);
        st_put_u32(out, constraint->n_sizes);
        for (uint32_t i = 0; i < constraint->n_sizes; i++) {
            st_symprog_put(&constraint->size[i], out);
        }
    }
}

static void put_workspace(const st_cg_exe *exe, st_str *out)
{
    st_put_u32(out, exe->n_slots);
    st_put_u32(out, exe->slots != NULL);
    st_put_u64(out, exe->static_bytes);
    for (uint32_t i = 0; i < exe->n_slots; i++) {
        if (exe->slots) {
            st_symprog_put(&exe->slots[i], out);
            st_put_u32(out, exe->slot_stages[i]);
        } else {
            st_put_u64(out, exe->static_offsets[i]);
        }
    }
}

static void put_outputs(const st_cg_exe *exe, st_str *out)
{
    st_put_u32(out, exe->n_outputs);
    for (uint32_t k = 0; k < exe->n_outputs; k++) {
        st_put_u32(out, exe->outputs[k].stage);
        st_put_u32(out, exe->outputs[k].rank);
        for (uint32_t a = 0; a < exe->outputs[k].rank; a++) {
            st_symprog_put(&exe->outputs[k].dims[a], out);
        }
    }
    st_put_u32(out, exe->checks.count);
    for (uint32_t i = 0; i < exe->checks.count; i++) {
        st_put_u32(out, exe->checks.data[i].origin);
        st_put_text(out, exe->checks.data[i].text);
    }
}
static stator_status put_scan(const cg_scan *scan, st_str *out, stator_diag **err)
{
    st_str body;
    st_put_u32(out, scan->n_in);
    st_put_u32(out, scan->n_out);
    st_put_u32(out, scan->n_carried);
    st_put_u32(out, scan->group);
    st_symprog_put(&scan->length, out);
    for (uint32_t k = 0; k < scan->n_carried; k++) {
        st_symprog_put(&scan->carried_bytes[k], out);
    }
    for (uint32_t k = 0; k < scan->n_in + scan->n_out; k++) {
        st_put_u32(out, scan->ports[k].kind);
        st_put_u32(out, scan->ports[k].is_reversed);
        if (scan->ports[k].kind == CG_PORT_SLICE) {
            st_symprog_put(&scan->ports[k].bytes, out);
        }
    }
    st_str_init(&body, out->mem);
    stator_status status = st_cg_save(scan->body, &body, err);
    if (status == STATOR_OK) {
        st_put_block(out, body.data, body.len);
        status = st_str_ok(&body) && st_str_ok(out) ? STATOR_OK : st_fail_oom(err);
    }
    st_str_deinit(&body);
    return status;
}

static void put_steps(const st_cg_exe *exe, st_str *out)
{
    st_put_u32(out, exe->n_inputs);
    st_put_u32(out, exe->n_syms);
    st_put_u32(out, exe->buffers.count);
    for (uint32_t i = 0; i < exe->buffers.count; i++) {
        st_put_u32(out, exe->buffers.data[i].kind);
        st_put_u32(out, exe->buffers.data[i].index);
        st_put_u32(out, exe->buffers.data[i].dtype);
        st_put_u64(out, exe->buffers.data[i].offset);
        st_put_u64(out, exe->buffers.data[i].output_alias_bytes);
    }
    st_put_block(out, exe->operands.data, (uint64_t)exe->operands.count * sizeof(uint32_t));
    st_put_u32(out, exe->launches.count);
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        put_launch(&exe->launches.data[i], out);
    }
}

/* Appends the bytes that the emitter or the library wrote, their length in front. */
static stator_status put_part(st_str *out, const st_str *part, stator_status status,
                              stator_diag **err)
{
    if (status == STATOR_OK && !st_str_ok(part)) {
        status = st_fail_oom(err);
    }
    if (status == STATOR_OK) {
        st_put_block(out, part->data, part->len);
    }
    return status;
}

static stator_status put_code(const st_cg_exe *exe, st_str *out, stator_diag **err)
{
    const st_emitter *emitter = exe->config.emitter;
    st_str part;
    stator_status status = STATOR_OK;
    st_put_u32(out, exe->kernels.count);
    if (exe->kernels.count) {
        st_str_init(&part, exe->config.mem);
        status =
            put_part(out, &part, emitter->module_save(emitter->self, exe->module, &part, err), err);
        st_str_deinit(&part);
    }
    for (uint32_t i = 0; i < exe->launches.count && status == STATOR_OK; i++) {
        const st_library *library = cg_library_of(exe, &exe->launches.data[i]);
        void *op = exe->launches.data[i].op;
        if (op) {
            st_str_init(&part, exe->config.mem);
            status = put_part(out, &part, library->op_save(library->self, op, &part, err), err);
            st_str_deinit(&part);
        } else if (exe->launches.data[i].scan) {
            status = put_scan(exe->launches.data[i].scan, out, err);
        }
    }
    return status;
}

/* Can all parts be kept? */
static bool is_savable(const st_cg_exe *exe)
{
    const st_emitter *emitter = exe->config.emitter;
    bool has_op = false;
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        has_op |= exe->launches.data[i].op != NULL && !exe->launches.data[i].is_host;
    }
    return STATOR_HAS(exe->config.host->cache, put_constant) && !exe->is_loaded &&
           (!exe->kernels.count || emitter->module_save) && (!has_op || emitter->library->op_save);
}

static stator_status put_all(const st_cg_exe *exe, st_str *out, stator_diag **err)
{
    if (!is_savable(exe)) {
        return st_fail(err, STATOR_UNSUPPORTED, "the code of this program cannot be kept");
    }
    st_put_u32(out, FORMAT);
    ST_TRY(put_constants(exe, out, err));
    put_steps(exe, out);
    put_binds(exe, out);
    put_shape_constraints(exe, out);
    put_workspace(exe, out);
    put_outputs(exe, out);
    ST_TRY(put_code(exe, out, err));
    return st_str_ok(out) ? STATOR_OK : st_fail_oom(err);
}

stator_status st_cg_save(const st_cg_exe *exe, st_str *out, stator_diag **err)
{
    stator_diag *own = NULL;
    const stator_status status = put_all(exe, out, &own);
    return st_cg_to_host(exe->config.host, status, own, err);
}

/* ---- reading ---- */

typedef struct loading {
    st_cg_exe *exe;
    st_mem *mem;
    st_reader r;
    uint8_t *is_read;   /* by constant: some step reads it */
    uint32_t n_kernels; /* kernels of the module */
} loading;

static bool read_prog(loading *l, st_symprog *prog)
{
    return st_symprog_read(prog, l->mem, &l->r, l->exe->n_syms);
}

static const char *keep_text(loading *l)
{
    const char *text = st_read_text(&l->r);
    const char *kept =
        text && !l->r.failed ? st_arena_strndup(&l->exe->arena, text, strlen(text)) : NULL;
    l->r.failed |= text != NULL && kept == NULL;
    return kept;
}

static stator_status read_constants(loading *l, stator_diag **err)
{
    st_cg_exe *exe = l->exe;
    const stator_host *host = exe->config.host;
    const uint32_t n = st_read_count(&l->r, ITEM_BYTES_MIN);
    exe->constants = st_arena_zalloc(&exe->arena, (uint64_t)n + 1u, sizeof(void *));
    l->is_read = st_arena_zalloc(&exe->arena, (uint64_t)n + 1u, 1);
    ST_TRY_MEM(exe->constants && l->is_read, err);
    for (uint32_t i = 0; i < n; i++) {
        stator_blob *blob = NULL;
        stator_diag *theirs = NULL;
        const stator_status status =
            host->cache->get_constant(host->ctx, st_read_u32(&l->r), &blob, &theirs);
        ST_TRY(st_cg_from_host(host, status, &theirs, err));
        stator_blob **at = st_vec_push(l->mem, &exe->blobs);
        if (at == NULL) {
            host->cst->release(blob);
            return st_fail_oom(err);
        }
        *at = blob;
    }
    return STATOR_OK;
}

static bool read_launch(loading *l, cg_launch *launch)
{
    launch->kernel = st_read_u32(&l->r);
    launch->first_buffer = st_read_below(&l->r, l->exe->operands.count + 1u);
    launch->n_buffers = st_read_below(&l->r, l->exe->operands.count - launch->first_buffer + 1u);
    launch->has_parallel = st_read_below(&l->r, 2);
    if (l->r.failed || (launch->has_parallel && !read_prog(l, &launch->count))) {
        return false;
    }
    launch->grain = st_read_i64(&l->r);
    launch->lanes = st_read_u32(&l->r);
    launch->text = keep_text(l);
    launch->name = keep_text(l);
    launch->is_host = st_read_below(&l->r, 2);
    const uint32_t n = st_read_below(&l->r, ST_CONTRACTION_NUMBERS_MAX + 1u);
    launch->numbers =
        n ? st_arena_zalloc(&l->exe->arena, (uint64_t)n + 1u, sizeof *launch->numbers) : NULL;
    for (uint32_t i = 0; i < n && launch->numbers; i++) {
        if (!read_prog(l, &launch->numbers[i])) {
            return false;
        }
        launch->n_numbers = i + 1u;
    }
    if (n && !cg_know_numbers(l->exe, launch)) {
        return false;
    }
    launch->stage = st_read_u32(&l->r);
    launch->bind = st_read_u32(&l->r);
    launch->n_concurrent = st_read_u32(&l->r);
    launch->step_flags = st_read_u32(&l->r);
    launch->read_bytes = st_read_u64(&l->r);
    launch->written_bytes = st_read_u64(&l->r);
    if (launch->n_buffers > l->exe->operands_max) {
        l->exe->operands_max = launch->n_buffers;
    }
    return !l->r.failed && launch->n_numbers == n &&
           ((launch->grain > 0 && launch->lanes > 0) || !launch->has_parallel);
}

static bool read_operands(loading *l)
{
    uint64_t bytes = 0;
    st_cg_exe *exe = l->exe;
    const uint8_t *list = st_read_block(&l->r, &bytes);
    for (uint64_t at = 0; !l->r.failed && at + sizeof(uint32_t) <= bytes; at += sizeof(uint32_t)) {
        uint32_t *operand = st_vec_push(l->mem, &exe->operands);
        if (operand == NULL) {
            return false;
        }
        memcpy(operand, list + at, sizeof *operand);
        if (*operand != UINT32_MAX && *operand >= exe->buffers.count) {
            return false;
        }
    }
    return !l->r.failed && bytes % sizeof(uint32_t) == 0;
}

static stator_status broken(stator_diag **err)
{
    return st_fail(err, STATOR_DATA_LOSS, "the kept plan is damaged");
}
static stator_status load_exe(st_cg_exe *exe, const void *bytes, uint64_t n, stator_diag **err);

static bool read_ports(cg_scan *scan, st_cg_exe *exe, st_reader *r)
{
    st_mem *mem = exe->config.mem;
    bool is_ok = st_symprog_read(&scan->length, mem, r, exe->n_syms);
    for (uint32_t k = 0; k < scan->n_carried && is_ok; k++) {
        is_ok = st_symprog_read(&scan->carried_bytes[k], mem, r, exe->n_syms);
    }
    for (uint32_t k = 0; k < scan->n_in + scan->n_out && is_ok; k++) {
        cg_port *p = &scan->ports[k];
        p->kind = st_read_below(r, CG_PORT_SLICE + 1u);
        p->is_reversed = st_read_below(r, 2);
        is_ok = p->kind != CG_PORT_SLICE || st_symprog_read(&p->bytes, mem, r, exe->n_syms);
    }
    return is_ok && !r->failed;
}

/* Results, twins and scratch are there; operands may be numbers that the body knows. */
static bool are_buffers_there(const cg_scan *scan, const st_cg_exe *exe, const cg_launch *launch)
{
    const uint64_t n = (uint64_t)scan->n_in + scan->n_out + scan->n_carried + 1u;
    if (launch->n_buffers != n || scan->n_carried > scan->n_in || scan->n_carried > scan->n_out) {
        return false;
    }
    for (uint32_t k = scan->n_in; k < n; k++) {
        if (exe->operands.data[launch->first_buffer + k] == UINT32_MAX) {
            return false;
        }
    }
    return true;
}

static stator_status read_scan(st_cg_exe *exe, st_reader *from, cg_launch *launch,
                               stator_diag **err)
{
    static const char damaged[] = "the kept plan of a scan is damaged";
    cg_scan *scan = st_arena_zalloc(&exe->arena, 1, sizeof *scan);
    uint64_t n = 0;
    ST_TRY_MEM(scan, err);
    const uint32_t n_in = st_read_below(from, launch->n_buffers + 1u);
    const uint32_t n_out = st_read_below(from, launch->n_buffers + 1u);
    const uint32_t n_carried = st_read_below(from, launch->n_buffers + 1u);
    const uint32_t group = st_read_below(from, CG_CONCURRENT_MAX + 1u);
    scan->ports = st_arena_zalloc(&exe->arena, (uint64_t)n_in + n_out + 1u, sizeof *scan->ports);
    scan->carried_bytes =
        st_arena_zalloc(&exe->arena, (uint64_t)n_carried + 1u, sizeof *scan->carried_bytes);
    ST_TRY_MEM(scan->ports && scan->carried_bytes, err);
    scan->n_in = n_in;
    scan->n_out = n_out;
    scan->n_carried = n_carried;
    scan->group = group;
    launch->scan = scan; /* destroyed with the executable */
    if (from->failed || !are_buffers_there(scan, exe, launch) || !read_ports(scan, exe, from)) {
        return st_fail(err, STATOR_DATA_LOSS, damaged);
    }
    const void *bytes = st_read_block(from, &n);
    scan->body = cg_new_exe(&exe->config);
    ST_TRY_MEM(scan->body, err);
    ST_TRY(load_exe(scan->body, bytes, n, err));
    return scan->body->n_inputs == n_in && scan->body->n_outputs == n_out &&
                   scan->body->n_syms <= exe->n_syms && group > 0 &&
                   (group == 1 || cg_barrier_group_can(scan->body))
               ? STATOR_OK
               : st_fail(err, STATOR_DATA_LOSS, damaged);
}

static stator_status read_steps(loading *l, stator_diag **err)
{
    st_cg_exe *exe = l->exe;
    exe->n_inputs = st_read_u32(&l->r);
    exe->n_syms = st_read_u32(&l->r);
    const uint32_t n_buffers = st_read_count(&l->r, 4u * ITEM_BYTES_MIN);
    for (uint32_t i = 0; i < n_buffers; i++) {
        cg_buffer *buffer = st_vec_push(l->mem, &exe->buffers);
        ST_TRY_MEM(buffer, err);
        *buffer = (cg_buffer){.kind = st_read_below(&l->r, CG_BUFFER_WORK + 1u)};
        buffer->index = st_read_u32(&l->r);
        buffer->dtype = st_read_u32(&l->r);
        buffer->offset = st_read_u64(&l->r);
        buffer->output_alias_bytes = st_read_u64(&l->r);
    }
    if (!read_operands(l)) {
        return broken(err);
    }
    const uint32_t n = st_read_count(&l->r, 8u * ITEM_BYTES_MIN);
    for (uint32_t i = 0; i < n; i++) {
        cg_launch *launch = st_vec_push(l->mem, &exe->launches);
        ST_TRY_MEM(launch, err);
        *launch = (cg_launch){.kernel = UINT32_MAX};
        if (!read_launch(l, launch)) {
            return broken(err);
        }
    }
    return l->r.failed ? broken(err) : STATOR_OK;
}

static bool read_bound(loading *l, cg_bound *b)
{
    b->index = st_read_u32(&l->r);
    b->lo = st_read_i64(&l->r);
    b->hi = st_read_i64(&l->r);
    b->divisor = st_read_i64(&l->r);
    return !l->r.failed && read_prog(l, &b->sym) && b->divisor > 0 &&
           (b->index == UINT32_MAX || b->index < l->exe->n_syms);
}

static bool read_bind(loading *l, cg_size_bind *bind)
{
    bind->name = keep_text(l);
    const uint32_t n = st_read_count(&l->r, ITEM_BYTES_MIN);
    bind->sizes = st_arena_zalloc(&l->exe->arena, (uint64_t)n + 1u, sizeof *bind->sizes);
    for (uint32_t i = 0; i < n && bind->sizes; i++) {
        const bool is_ok = read_bound(l, &bind->sizes[i]);
        bind->n = i + 1u;
        if (!is_ok) {
            return false;
        }
    }
    return bind->sizes && bind->name && !l->r.failed;
}

static stator_status read_binds(loading *l, stator_diag **err)
{
    const uint32_t n = st_read_count(&l->r, ITEM_BYTES_MIN);
    for (uint32_t k = 0; k < n; k++) {
        cg_size_bind *bind = st_vec_push(l->mem, &l->exe->binds);
        ST_TRY_MEM(bind, err);
        *bind = (cg_size_bind){.n = 0};
        if (!read_bind(l, bind)) {
            return broken(err);
        }
    }
    return l->r.failed ? broken(err) : STATOR_OK;
}

static bool read_shape_constraint(loading *l, cg_shape_constraint *constraint)
{
    constraint->kind = st_read_below(&l->r, CG_SHAPE_CONSTRAINT_NUMEL + 1u);
    constraint->stage = st_read_below(&l->r, l->exe->binds.count + 1u);
    constraint->step = st_read_i64(&l->r);
    constraint->text = keep_text(l);
    const uint32_t n = st_read_below(&l->r, CG_RANK_MAX + 1u);
    constraint->size = st_arena_zalloc(&l->exe->arena, (uint64_t)n + 1u, sizeof *constraint->size);
    if (constraint->size == NULL || (constraint->kind != CG_SHAPE_CONSTRAINT_NUMEL &&
                                     n != st_shape_constraint_sizes(constraint->kind))) {
        return false;
    }
    for (uint32_t i = 0; i < n && !l->r.failed; i++) {
        if (!read_prog(l, &constraint->size[i])) {
            return false;
        }
        constraint->n_sizes = i + 1u;
    }
    return !l->r.failed && constraint->text && constraint->kind;
}

static stator_status read_shape_constraints(loading *l, stator_diag **err)
{
    const uint32_t n = st_read_count(&l->r, 6u * ITEM_BYTES_MIN);
    for (uint32_t k = 0; k < n; k++) {
        cg_shape_constraint *constraint = st_vec_push(l->mem, &l->exe->shape_constraints);
        ST_TRY_MEM(constraint, err);
        *constraint = (cg_shape_constraint){.kind = 0};
        if (!read_shape_constraint(l, constraint)) {
            return broken(err);
        }
    }
    return l->r.failed ? broken(err) : STATOR_OK;
}

static stator_status read_workspace(loading *l, stator_diag **err)
{
    st_cg_exe *exe = l->exe;
    const uint32_t n = st_read_count(&l->r, ITEM_BYTES_MIN);
    const uint32_t is_symbolic = st_read_below(&l->r, 2);
    exe->static_bytes = st_read_u64(&l->r);
    exe->static_offsets = st_arena_zalloc(&exe->arena, (uint64_t)n + 1u, sizeof(uint64_t));
    exe->slot_stages = st_arena_zalloc(&exe->arena, (uint64_t)n + 1u, sizeof(uint32_t));
    exe->slots =
        is_symbolic ? st_arena_zalloc(&exe->arena, (uint64_t)n + 1u, sizeof *exe->slots) : NULL;
    if (!exe->static_offsets || !exe->slot_stages || (is_symbolic && !exe->slots)) {
        return st_fail_oom(err);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (is_symbolic && !read_prog(l, &exe->slots[i])) {
            return broken(err);
        }
        exe->n_slots = i + 1u;
        if (is_symbolic) {
            exe->slot_stages[i] = st_read_below(&l->r, exe->binds.count + 1u);
        } else {
            exe->static_offsets[i] = st_read_u64(&l->r);
        }
        if (exe->static_offsets[i] > exe->static_bytes) {
            return broken(err);
        }
    }
    return l->r.failed ? broken(err) : STATOR_OK;
}

static bool read_output(loading *l, cg_output *out)
{
    out->stage = st_read_below(&l->r, l->exe->binds.count + 1u);
    const uint32_t rank = st_read_below(&l->r, CG_RANK_MAX + 1u);
    out->dims = st_arena_zalloc(&l->exe->arena, (uint64_t)rank + 1u, sizeof *out->dims);
    for (uint32_t a = 0; a < rank && out->dims; a++) {
        if (!read_prog(l, &out->dims[a])) {
            return false;
        }
        out->rank = a + 1u;
    }
    return out->dims && !l->r.failed;
}

static stator_status read_outputs(loading *l, stator_diag **err)
{
    st_cg_exe *exe = l->exe;
    const uint32_t n = st_read_count(&l->r, 2u * ITEM_BYTES_MIN);
    exe->outputs = st_arena_zalloc(&exe->arena, (uint64_t)n + 1u, sizeof *exe->outputs);
    for (uint32_t k = 0; k < n && exe->outputs; k++) {
        exe->n_outputs = k + 1u;
        if (!read_output(l, &exe->outputs[k])) {
            return broken(err);
        }
    }
    const uint32_t n_checks = st_read_count(&l->r, 2u * ITEM_BYTES_MIN);
    for (uint32_t i = 0; i < n_checks; i++) {
        const uint32_t origin = st_read_u32(&l->r);
        const char *text = keep_text(l);
        cg_check *check = text ? st_vec_push(l->mem, &exe->checks) : NULL;
        if (check == NULL) {
            return broken(err);
        }
        *check = (cg_check){origin, text};
    }
    return exe->outputs == NULL ? st_fail_oom(err) : l->r.failed ? broken(err) : STATOR_OK;
}

/* ---- the parts of others ---- */

/* Buffers by index among those of a launch. */
typedef struct launch_buffers {
    const st_cg_exe *exe;
    const cg_launch *launch;
} launch_buffers;

static const cg_buffer *buffer_of(const st_cg_exe *exe, const cg_launch *launch, uint32_t i)
{
    const uint32_t operand = exe->operands.data[launch->first_buffer + i];
    return operand == UINT32_MAX ? NULL : &exe->buffers.data[operand];
}

static stator_blob *constant_at(void *self, uint32_t i)
{
    const launch_buffers *b = self;
    const cg_buffer *buffer = i < b->launch->n_buffers ? buffer_of(b->exe, b->launch, i) : NULL;
    return buffer && buffer->kind == CG_BUFFER_CONSTANT && buffer->index < b->exe->blobs.count
               ? b->exe->blobs.data[buffer->index]
               : NULL;
}

static stator_status read_op(loading *l, cg_launch *launch, uint32_t *out_unread, stator_diag **err)
{
    const st_library *library = cg_library_of(l->exe, launch);
    launch_buffers buffers = {l->exe, launch};
    st_library_kept kept = {
        .n_buffers = launch->n_buffers, .self = &buffers, .constant = constant_at};
    int64_t numbers[ST_CONTRACTION_NUMBERS_MAX];
    if (library == NULL || library->op_load == NULL ||
        (launch->is_host && !(l->exe->config.emitter->flags & ST_EMITTER_HOST)) ||
        launch->n_numbers == 0) {
        return broken(err);
    }
    kept.bytes = st_read_block(&l->r, &kept.size_bytes);
    kept.n_numbers = launch->n_numbers;
    for (uint32_t i = 0; i < launch->n_numbers; i++) {
        kept.is_static = i == 0 || kept.is_static;
        kept.is_static = kept.is_static && launch->numbers[i].is_const;
        numbers[i] = launch->numbers[i].constant;
    }
    kept.numbers = numbers;
    if (l->r.failed) {
        return broken(err);
    }
    const stator_status status =
        library->op_load(library->self, &kept, &launch->op, out_unread, err);
    launch->op = status == STATOR_OK ? launch->op : NULL;
    return status;
}

static stator_status read_code(loading *l, stator_diag **err)
{
    st_cg_exe *exe = l->exe;
    const st_emitter *emitter = exe->config.emitter;
    l->n_kernels = st_read_u32(&l->r);
    if (l->n_kernels) {
        uint64_t n = 0;
        const void *bytes = st_read_block(&l->r, &n);
        if (l->r.failed || emitter->module_load == NULL) {
            return broken(err);
        }
        ST_TRY(emitter->module_load(emitter->self, bytes, n, l->n_kernels, &exe->module, err));
    }
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        cg_launch *launch = &exe->launches.data[i];
        uint32_t unread = UINT32_MAX;
        if (launch->bind == 0 && launch->kernel == UINT32_MAX) {
            ST_TRY(launch->n_numbers ? read_op(l, launch, &unread, err)
                                     : read_scan(exe, &l->r, launch, err));
        }
        for (uint32_t k = 0; k < launch->n_buffers; k++) {
            const cg_buffer *buffer = buffer_of(exe, launch, k);
            if (buffer && buffer->kind == CG_BUFFER_CONSTANT && buffer->index < exe->blobs.count &&
                k != unread) {
                l->is_read[buffer->index] = 1;
            }
        }
    }
    return l->r.failed || l->r.left ? broken(err) : STATOR_OK;
}

/* ---- the whole ---- */

/* Bytes of an element of the output; 0: not known. */
static uint32_t element_bytes(const st_cg_exe *exe, uint32_t index)
{
    for (uint32_t i = 0; i < exe->buffers.count; i++) {
        const cg_buffer *b = &exe->buffers.data[i];
        if (b->kind == CG_BUFFER_OUTPUT && b->index == index && b->output_alias_bytes == 0) {
            return st_loop_dtype_bytes(b->dtype);
        }
    }
    return 0;
}

/* A value that lies in an output is inside it, whose size is known then. */
static bool is_offset_sound(const st_cg_exe *exe, const cg_buffer *b)
{
    int64_t shape[CG_RANK_MAX];
    uint64_t elements = 0;
    uint64_t room = 0;
    uint64_t end = 0;
    if (b->output_alias_bytes == 0 || b->kind != CG_BUFFER_OUTPUT || b->index >= exe->n_outputs) {
        return b->output_alias_bytes == 0 && b->offset == 0;
    }
    const cg_output *out = &exe->outputs[b->index];
    for (uint32_t a = 0; a < out->rank; a++) {
        if (!out->dims[a].is_const) {
            return false;
        }
        shape[a] = out->dims[a].constant;
    }
    return st_numel(shape, out->rank, &elements) &&
           st_mul_u64(elements, element_bytes(exe, b->index), &room) &&
           st_add_u64(b->offset, b->output_alias_bytes, &end) && end <= room;
}

static bool are_buffers_sound(const st_cg_exe *exe)
{
    for (uint32_t i = 0; i < exe->buffers.count; i++) {
        const cg_buffer *b = &exe->buffers.data[i];
        const uint32_t limit = b->kind == CG_BUFFER_INPUT      ? exe->n_inputs
                               : b->kind == CG_BUFFER_OUTPUT   ? exe->n_outputs
                               : b->kind == CG_BUFFER_CONSTANT ? exe->blobs.count
                                                               : exe->n_slots;
        bool is_used = b->index < limit && b->kind != 0 && is_offset_sound(exe, b);
        for (uint32_t k = 0; k < exe->operands.count && !is_used; k++) {
            if (exe->operands.data[k] == i) {
                return false;
            }
        }
    }
    return true;
}

/* Scans that run concurrently are scans; their pointers are had at once. */
static bool are_concurrent_sound(st_cg_exe *exe, uint32_t first)
{
    const uint32_t n = exe->launches.data[first].n_concurrent;
    uint32_t n_operands = 0;
    if (n > exe->launches.count - first || n > CG_CONCURRENT_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        const cg_launch *launch = &exe->launches.data[first + i];
        if (launch->scan == NULL || (i > 0 && launch->n_concurrent)) {
            return false;
        }
        n_operands += launch->n_buffers;
    }
    exe->operands_max = n_operands > exe->operands_max ? n_operands : exe->operands_max;
    return true;
}

static bool are_launches_sound(const loading *l)
{
    for (uint32_t i = 0; i < l->exe->launches.count; i++) {
        const cg_launch *launch = &l->exe->launches.data[i];
        if (!are_concurrent_sound(l->exe, i)) {
            return false;
        }
        if (launch->bind) {
            const cg_size_bind *bind =
                launch->bind <= l->exe->binds.count ? &l->exe->binds.data[launch->bind - 1u] : NULL;
            if (bind == NULL || launch->n_buffers != 1u || buffer_of(l->exe, launch, 0) == NULL) {
                return false;
            }
        } else if (launch->kernel != UINT32_MAX && launch->kernel >= l->n_kernels) {
            return false;
        }
    }
    return true;
}

/* Data of the constants that steps read. */
static stator_status read_data(loading *l, stator_diag **err)
{
    st_cg_exe *exe = l->exe;
    for (uint32_t i = 0; i < exe->blobs.count; i++) {
        if (l->is_read[i]) {
            ST_TRY(cg_constant_data(&exe->config, exe->blobs.data[i], &exe->constants[i], err));
        }
    }
    return STATOR_OK;
}

static stator_status load_exe(st_cg_exe *exe, const void *bytes, uint64_t n, stator_diag **err)
{
    loading l = {.exe = exe, .mem = exe->config.mem, .r = st_reader_of(bytes, n)};
    exe->is_loaded = 1;
    if (!STATOR_HAS(exe->config.host->cache, get_constant) || st_read_u32(&l.r) != FORMAT) {
        return broken(err);
    }
    ST_TRY(read_constants(&l, err));
    ST_TRY(read_steps(&l, err));
    ST_TRY(read_binds(&l, err));
    ST_TRY(read_shape_constraints(&l, err));
    ST_TRY(read_workspace(&l, err));
    ST_TRY(read_outputs(&l, err));
    ST_TRY(read_code(&l, err));
    if (!are_buffers_sound(exe) || !are_launches_sound(&l)) {
        return broken(err);
    }
    return read_data(&l, err);
}

stator_status st_cg_load(const st_cg_config *config, const void *bytes, uint64_t n, st_cg_exe **out,
                         stator_diag **err)
{
    stator_diag *own = NULL;
    *out = NULL;
    st_cg_exe *exe = cg_new_exe(config);
    const stator_status status = exe ? load_exe(exe, bytes, n, &own) : STATOR_RESOURCE_EXHAUSTED;
    if (status != STATOR_OK) {
        st_cg_destroy(exe);
        return st_cg_to_host(config->host, status, own, err);
    }
    *out = exe;
    return STATOR_OK;
}
