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

#define FORMAT 13u
#define ITEM_BYTES_MIN 4u /* smallest item of a counted list */

/* A field more in these is one to be kept here, or one that is not. */
_Static_assert(sizeof(cg_launch) == 176 && sizeof(cg_buffer) == 56 && sizeof(cg_output) == 16 &&
                   sizeof(cg_bound) == 56 && sizeof(cg_shape_constraint) == 40,
               "what is kept of a plan");

/* ---- a plan on its way to bytes or back ---- */

/* Each function below names the fields of a struct once, in the order of the bytes, for both ways.
 * A failure of reading is sticky: counts and numbers are zeros from then on. */
typedef struct archive {
    st_cg_exe *exe;
    st_mem *mem;
    st_str *out;        /* NULL: the plan is read */
    st_reader in;       /* `failed`: also when memory ran out */
    bool is_oom;        /* memory ran out while the plan was read */
    uint8_t *is_read;   /* by constant: some step reads it */
    uint32_t n_kernels; /* kernels of the module */
} archive;

static stator_status broken(stator_diag **err)
{
    return st_fail(err, STATOR_DATA_LOSS, "the kept plan is damaged");
}

static stator_status result_of(const archive *a, stator_diag **err)
{
    const bool is_oom = a->is_oom || (a->out && !st_str_ok(a->out));
    ST_TRY_MEM(!is_oom, err);
    return a->in.failed ? broken(err) : STATOR_OK;
}

/* Reading fails unless what was read is sound. */
static void expect(archive *a, bool is_sound)
{
    a->in.failed |= a->out == NULL && !is_sound;
}

static bool expect_made(archive *a, bool is_made)
{
    a->is_oom |= !is_made;
    a->in.failed |= !is_made;
    return is_made;
}

static void field_u32(archive *a, uint32_t *field)
{
    if (a->out) {
        st_put_u32(a->out, *field);
    } else {
        *field = st_read_u32(&a->in);
    }
}

/* A number that is below `limit`. */
static void field_below(archive *a, uint32_t *field, uint32_t limit)
{
    if (a->out) {
        st_put_u32(a->out, *field);
    } else {
        *field = st_read_below(&a->in, limit);
    }
}

/* A count of things that take at least `least` bytes each. */
static void field_count(archive *a, uint32_t *field, uint64_t least)
{
    if (a->out) {
        st_put_u32(a->out, *field);
    } else {
        *field = st_read_count(&a->in, least);
    }
}

static void field_u64(archive *a, uint64_t *field)
{
    if (a->out) {
        st_put_u64(a->out, *field);
    } else {
        *field = st_read_u64(&a->in);
    }
}

static void field_i64(archive *a, int64_t *field)
{
    if (a->out) {
        st_put_i64(a->out, *field);
    } else {
        *field = st_read_i64(&a->in);
    }
}

static void field_text(archive *a, const char **field)
{
    if (a->out) {
        st_put_text(a->out, *field);
        return;
    }
    const char *text = st_read_text(&a->in);
    if (text && !a->in.failed) {
        *field = st_arena_strndup(&a->exe->arena, text, strlen(text));
        expect_made(a, *field != NULL);
    }
}

static void field_prog(archive *a, st_symprog *field)
{
    if (a->out) {
        st_symprog_put(field, a->out);
    } else if (!a->in.failed && !st_symprog_read(field, a->mem, &a->in, a->exe->n_syms)) {
        expect_made(a, a->in.failed);
    }
}

/* Makes the *n zeroed elements of a list that is read; where memory runs out, *n becomes 0. */
#define make_list(a, list, n) make_list_((a), (void **)(list), (n), sizeof **(list))
static void make_list_(archive *a, void **list, uint32_t *n, uint64_t size)
{
    if (a->out == NULL) {
        *list = st_arena_zalloc(&a->exe->arena, (uint64_t)*n + 1u, size);
        *n = expect_made(a, *list != NULL) ? *n : 0;
    }
}

/* The count of a vector; its zeroed elements are made when it is read. */
#define field_vec(a, v, least)                                                                     \
    do {                                                                                           \
        uint32_t count_ = (v)->count;                                                              \
        field_count((a), &count_, (least));                                                        \
        expect_made((a), (a)->out || st_vec_resize((a)->mem, (v), count_));                        \
    } while (0)

/* Programs of sizes, whose count is known. */
static void field_progs(archive *a, st_symprog **list, uint32_t *n)
{
    make_list(a, list, n);
    for (uint32_t i = 0; i < *n; i++) {
        field_prog(a, &(*list)[i]);
    }
}

/* ---- structs ---- */

static void field_launch(archive *a, cg_launch *l)
{
    const uint32_t n_operands = a->exe->operands.count;
    field_u32(a, &l->kernel);
    field_below(a, &l->first_buffer, n_operands + 1u);
    field_below(a, &l->n_buffers, n_operands - l->first_buffer + 1u);
    field_below(a, &l->has_parallel, 2);
    if (l->has_parallel) {
        field_prog(a, &l->count);
    }
    field_i64(a, &l->grain);
    field_u32(a, &l->lanes);
    field_text(a, &l->text);
    field_text(a, &l->name);
    field_below(a, &l->is_fixed, 2);
    field_below(a, &l->n_numbers, ST_CONTRACTION_NUMBERS_MAX + 1u);
    if (l->n_numbers) {
        field_progs(a, &l->numbers, &l->n_numbers);
    }
    field_u32(a, &l->stage);
    field_below(a, &l->when, CG_TO_RESTORE + 1u);
    field_below(a, &l->old, a->exe->buffers.count + 1u);
    field_below(a, &l->new, a->exe->buffers.count + 1u);
    expect(a, l->when == CG_ALWAYS ||
                  (l->old < a->exe->buffers.count && l->new < a->exe->buffers.count));
    field_u32(a, &l->bind);
    field_u32(a, &l->n_concurrent);
    field_u32(a, &l->step_flags);
    field_u64(a, &l->read_bytes);
    field_u64(a, &l->written_bytes);
    expect(a, (l->grain > 0 && l->lanes > 0) || !l->has_parallel);
}

static void field_operands(archive *a)
{
    st_cg_exe *exe = a->exe;
    uint64_t n = 0;
    if (a->out) {
        st_put_block(a->out, exe->operands.data, (uint64_t)exe->operands.count * sizeof(uint32_t));
        return;
    }
    const void *list = st_read_block(&a->in, &n);
    expect(a, n % sizeof(uint32_t) == 0);
    if (expect_made(a, st_vec_resize(a->mem, &exe->operands, (uint32_t)(n / sizeof(uint32_t)))) &&
        exe->operands.count) {
        memcpy(exe->operands.data, list, exe->operands.count * sizeof(uint32_t));
    }
    for (uint32_t i = 0; i < exe->operands.count; i++) {
        const uint32_t operand = exe->operands.data[i];
        expect(a, operand == UINT32_MAX || operand < exe->buffers.count);
    }
}

static void field_steps(archive *a)
{
    st_cg_exe *exe = a->exe;
    field_u32(a, &exe->n_inputs);
    field_u32(a, &exe->n_syms);
    field_vec(a, &exe->buffers, 4u * ITEM_BYTES_MIN);
    for (uint32_t i = 0; i < exe->buffers.count; i++) {
        cg_buffer *buffer = &exe->buffers.data[i];
        field_below(a, &buffer->kind, CG_BUFFER_WORK + 1u);
        field_u32(a, &buffer->index);
        field_u32(a, &buffer->dtype);
        field_u64(a, &buffer->offset);
        field_u64(a, &buffer->output_alias_bytes);
    }
    field_operands(a);
    field_vec(a, &exe->launches, 8u * ITEM_BYTES_MIN);
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        cg_launch *launch = &exe->launches.data[i];
        field_launch(a, launch);
        if (a->out == NULL) {
            expect_made(a, !launch->n_numbers || cg_know_numbers(exe, launch));
            exe->operands_max =
                launch->n_buffers > exe->operands_max ? launch->n_buffers : exe->operands_max;
        }
    }
}

static void field_binds(archive *a)
{
    st_cg_exe *exe = a->exe;
    field_vec(a, &exe->binds, ITEM_BYTES_MIN);
    for (uint32_t k = 0; k < exe->binds.count; k++) {
        cg_size_bind *bind = &exe->binds.data[k];
        field_text(a, &bind->name);
        field_count(a, &bind->n, ITEM_BYTES_MIN);
        make_list(a, &bind->sizes, &bind->n);
        expect(a, bind->name != NULL);
        for (uint32_t i = 0; i < bind->n; i++) {
            cg_bound *b = &bind->sizes[i];
            field_u32(a, &b->index);
            field_i64(a, &b->lo);
            field_i64(a, &b->hi);
            field_i64(a, &b->divisor);
            field_prog(a, &b->sym);
            expect(a, b->divisor > 0 && (b->index == UINT32_MAX || b->index < exe->n_syms));
        }
    }
}

static void field_shape_constraints(archive *a)
{
    st_cg_exe *exe = a->exe;
    field_vec(a, &exe->shape_constraints, 6u * ITEM_BYTES_MIN);
    for (uint32_t k = 0; k < exe->shape_constraints.count; k++) {
        cg_shape_constraint *c = &exe->shape_constraints.data[k];
        field_below(a, &c->kind, CG_SHAPE_CONSTRAINT_NUMEL + 1u);
        field_below(a, &c->stage, exe->binds.count + 1u);
        field_i64(a, &c->step);
        field_text(a, &c->text);
        field_below(a, &c->n_sizes, CG_RANK_MAX + 1u);
        expect(a, c->kind && c->text &&
                      (c->kind == CG_SHAPE_CONSTRAINT_NUMEL ||
                       c->n_sizes == st_shape_constraint_sizes(c->kind)));
        field_progs(a, &c->size, &c->n_sizes);
    }
}

static void field_workspace(archive *a)
{
    st_cg_exe *exe = a->exe;
    uint32_t is_symbolic = exe->slots != NULL;
    field_count(a, &exe->n_slots, ITEM_BYTES_MIN);
    field_below(a, &is_symbolic, 2);
    field_u64(a, &exe->static_bytes);
    make_list(a, &exe->static_offsets, &exe->n_slots);
    make_list(a, &exe->slot_stages, &exe->n_slots);
    if (is_symbolic) {
        make_list(a, &exe->slots, &exe->n_slots);
    }
    for (uint32_t i = 0; i < exe->n_slots; i++) {
        if (is_symbolic) {
            field_prog(a, &exe->slots[i]);
            field_below(a, &exe->slot_stages[i], exe->binds.count + 1u);
        } else {
            field_u64(a, &exe->static_offsets[i]);
            expect(a, exe->static_offsets[i] <= exe->static_bytes);
        }
    }
}

static void field_outputs(archive *a)
{
    st_cg_exe *exe = a->exe;
    field_count(a, &exe->n_outputs, 2u * ITEM_BYTES_MIN);
    make_list(a, &exe->outputs, &exe->n_outputs);
    for (uint32_t k = 0; k < exe->n_outputs; k++) {
        field_below(a, &exe->outputs[k].stage, exe->binds.count + 1u);
        field_below(a, &exe->outputs[k].rank, CG_RANK_MAX + 1u);
        field_progs(a, &exe->outputs[k].dims, &exe->outputs[k].rank);
    }
    uint32_t has_may_alias = exe->may_alias != NULL;
    field_below(a, &has_may_alias, 2);
    if (has_may_alias) {
        make_list(a, &exe->may_alias, &exe->n_outputs);
    }
    for (uint32_t k = 0; exe->may_alias && k < exe->n_outputs; k++) {
        field_below(a, &exe->may_alias[k], exe->n_inputs + 1u);
    }
    field_vec(a, &exe->checks, 2u * ITEM_BYTES_MIN);
    for (uint32_t i = 0; i < exe->checks.count; i++) {
        field_u32(a, &exe->checks.data[i].origin);
        field_text(a, &exe->checks.data[i].text);
        expect(a, exe->checks.data[i].text != NULL);
    }
}

/* All of the plan but its constants and the parts of others. */
static stator_status field_plan(archive *a, stator_diag **err)
{
    field_steps(a);
    field_binds(a);
    field_shape_constraints(a);
    field_workspace(a);
    field_outputs(a);
    return result_of(a, err);
}

/* The body's own plan comes behind these. */
static void field_scan(archive *a, cg_scan *scan, uint32_t n_buffers)
{
    field_below(a, &scan->n_in, n_buffers + 1u);
    field_below(a, &scan->n_out, n_buffers + 1u);
    field_below(a, &scan->n_carried, n_buffers + 1u);
    field_below(a, &scan->group, CG_CONCURRENT_MAX + 1u);
    field_prog(a, &scan->length);
    field_progs(a, &scan->carried_bytes, &scan->n_carried);
    uint32_t n_ports = scan->n_in + scan->n_out;
    make_list(a, &scan->ports, &n_ports);
    for (uint32_t k = 0; k < n_ports; k++) {
        cg_port *port = &scan->ports[k];
        field_below(a, &port->kind, CG_PORT_SLICE + 1u);
        field_below(a, &port->is_reversed, 2);
        if (port->kind == CG_PORT_SLICE) {
            field_prog(a, &port->bytes);
        }
    }
}

/* ---- writing ---- */

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

static stator_status put_all(const st_cg_exe *exe, st_str *out, stator_diag **err);

static stator_status put_scan(archive *a, const cg_launch *launch, stator_diag **err)
{
    st_str body;
    field_scan(a, launch->scan, launch->n_buffers);
    st_str_init(&body, a->mem);
    const stator_status status =
        put_part(a->out, &body, put_all(launch->scan->body, &body, err), err);
    st_str_deinit(&body);
    return status;
}

static stator_status put_code(archive *a, stator_diag **err)
{
    const st_cg_exe *exe = a->exe;
    st_str *out = a->out;
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
            status = put_scan(a, &exe->launches.data[i], err);
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
        has_op |= exe->launches.data[i].op != NULL && !exe->launches.data[i].is_fixed;
    }
    return STATOR_HAS(exe->config.host->cache, put_constant) && !exe->is_loaded &&
           (!exe->kernels.count || emitter->module_save) && (!has_op || emitter->library->op_save);
}

static stator_status put_all(const st_cg_exe *exe, st_str *out, stator_diag **err)
{
    archive a = {.exe = (st_cg_exe *)exe, .mem = exe->config.mem, .out = out}; /* changes nothing */
    ST_FAIL_IF(!is_savable(exe), err, STATOR_UNSUPPORTED,
               "the code of this program cannot be kept");
    st_put_u32(out, FORMAT);
    ST_TRY(put_constants(exe, out, err));
    ST_TRY(field_plan(&a, err));
    ST_TRY(put_code(&a, err));
    return result_of(&a, err);
}

stator_status st_cg_save(const st_cg_exe *exe, st_str *out, stator_diag **err)
{
    stator_diag *own = NULL;
    const stator_status status = put_all(exe, out, &own);
    return st_cg_to_host(exe->config.host, status, own, err);
}

/* ---- reading ---- */

static stator_status read_constants(archive *a, stator_diag **err)
{
    st_cg_exe *exe = a->exe;
    const stator_host *host = exe->config.host;
    const uint32_t n = st_read_count(&a->in, ITEM_BYTES_MIN);
    exe->constants = st_arena_zalloc(&exe->arena, (uint64_t)n + 1u, sizeof(void *));
    a->is_read = st_arena_zalloc(&exe->arena, (uint64_t)n + 1u, 1);
    ST_TRY_MEM(exe->constants && a->is_read, err);
    for (uint32_t i = 0; i < n; i++) {
        stator_blob *blob = NULL;
        stator_diag *theirs = NULL;
        const stator_status status =
            host->cache->get_constant(host->ctx, st_read_u32(&a->in), &blob, &theirs);
        ST_TRY(st_cg_from_host(host, status, &theirs, err));
        stator_blob **at = st_vec_push(a->mem, &exe->blobs);
        if (at == NULL) {
            host->cst->release(blob);
            return st_fail_oom(err);
        }
        *at = blob;
    }
    return STATOR_OK;
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

static stator_status load_exe(st_cg_exe *exe, const void *bytes, uint64_t n, stator_diag **err);

static stator_status read_scan(archive *a, cg_launch *launch, stator_diag **err)
{
    static const char damaged[] = "the kept plan of a scan is damaged";
    st_cg_exe *exe = a->exe;
    uint64_t n = 0;
    cg_scan *scan = st_arena_zalloc(&exe->arena, 1, sizeof *scan);
    ST_TRY_MEM(scan, err);
    launch->scan = scan; /* destroyed with the executable */
    field_scan(a, scan, launch->n_buffers);
    scan->n_in = scan->ports ? scan->n_in : 0;
    scan->n_out = scan->ports ? scan->n_out : 0;
    const void *bytes = st_read_block(&a->in, &n);
    ST_TRY_MEM(!a->is_oom, err);
    ST_FAIL_IF(a->in.failed || !are_buffers_there(scan, exe, launch), err, STATOR_DATA_LOSS,
               damaged);
    scan->body = cg_new_exe(&exe->config);
    ST_TRY_MEM(scan->body, err);
    ST_TRY(load_exe(scan->body, bytes, n, err));
    return scan->body->n_inputs == scan->n_in && scan->body->n_outputs == scan->n_out &&
                   scan->body->n_syms <= exe->n_syms && scan->group > 0 &&
                   (scan->group == 1 || cg_barrier_group_can(scan->body))
               ? STATOR_OK
               : st_fail(err, STATOR_DATA_LOSS, damaged);
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

static stator_status read_op(archive *a, cg_launch *launch, uint32_t *out_unread, stator_diag **err)
{
    const st_library *library = cg_library_of(a->exe, launch);
    launch_buffers buffers = {a->exe, launch};
    st_library_kept kept = {
        .n_buffers = launch->n_buffers, .self = &buffers, .constant = constant_at};
    int64_t numbers[ST_CONTRACTION_NUMBERS_MAX];
    if (library == NULL || library->op_load == NULL || launch->n_numbers == 0) {
        return broken(err);
    }
    kept.bytes = st_read_block(&a->in, &kept.size_bytes);
    kept.n_numbers = launch->n_numbers;
    for (uint32_t i = 0; i < launch->n_numbers; i++) {
        kept.is_static = i == 0 || kept.is_static;
        kept.is_static = kept.is_static && launch->numbers[i].is_const;
        numbers[i] = launch->numbers[i].constant;
    }
    kept.numbers = numbers;
    ST_FAIL_BY_IF(broken, a->in.failed, err);
    const stator_status status =
        library->op_load(library->self, &kept, &launch->op, out_unread, err);
    launch->op = status == STATOR_OK ? launch->op : NULL;
    return status;
}

static stator_status read_code(archive *a, stator_diag **err)
{
    st_cg_exe *exe = a->exe;
    const st_emitter *emitter = exe->config.emitter;
    a->n_kernels = st_read_u32(&a->in);
    if (a->n_kernels) {
        uint64_t n = 0;
        const void *bytes = st_read_block(&a->in, &n);
        ST_FAIL_BY_IF(broken, a->in.failed || emitter->module_load == NULL, err);
        ST_TRY(emitter->module_load(emitter->self, bytes, n, a->n_kernels, &exe->module, err));
    }
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        cg_launch *launch = &exe->launches.data[i];
        uint32_t unread = UINT32_MAX;
        if (launch->bind == 0 && launch->kernel == UINT32_MAX) {
            ST_TRY(launch->n_numbers ? read_op(a, launch, &unread, err)
                                     : read_scan(a, launch, err));
        }
        for (uint32_t k = 0; k < launch->n_buffers; k++) {
            const cg_buffer *buffer = buffer_of(exe, launch, k);
            if (buffer && buffer->kind == CG_BUFFER_CONSTANT && buffer->index < exe->blobs.count &&
                k != unread) {
                a->is_read[buffer->index] = 1;
            }
        }
    }
    return a->in.failed || a->in.left ? broken(err) : STATOR_OK;
}

/* ---- the whole ---- */

/* Bytes of an element of the output; 0: not known. */
static uint32_t element_bytes(const st_cg_exe *exe, uint32_t index)
{
    for (uint32_t i = 0; i < exe->buffers.count; i++) {
        const cg_buffer *b = &exe->buffers.data[i];
        if (b->kind == CG_BUFFER_OUTPUT && b->index == index && b->output_alias_bytes == 0) {
            return st_element_bytes(b->dtype);
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

static bool are_launches_sound(const archive *a)
{
    for (uint32_t i = 0; i < a->exe->launches.count; i++) {
        const cg_launch *launch = &a->exe->launches.data[i];
        if (!are_concurrent_sound(a->exe, i)) {
            return false;
        }
        if (launch->bind) {
            const cg_size_bind *bind =
                launch->bind <= a->exe->binds.count ? &a->exe->binds.data[launch->bind - 1u] : NULL;
            if (bind == NULL || launch->n_buffers != 1u || buffer_of(a->exe, launch, 0) == NULL) {
                return false;
            }
        } else if (launch->kernel != UINT32_MAX && launch->kernel >= a->n_kernels) {
            return false;
        }
    }
    return true;
}

/* Data of the constants that steps read. */
static stator_status read_data(archive *a, stator_diag **err)
{
    st_cg_exe *exe = a->exe;
    for (uint32_t i = 0; i < exe->blobs.count; i++) {
        if (a->is_read[i] && exe->config.emitter->memory == NULL) {
            ST_TRY(cg_constant_data(&exe->config, exe->blobs.data[i], &exe->constants[i], err));
        }
    }
    return STATOR_OK;
}

static stator_status load_exe(st_cg_exe *exe, const void *bytes, uint64_t n, stator_diag **err)
{
    archive a = {.exe = exe, .mem = exe->config.mem, .in = st_reader_of(bytes, n)};
    exe->is_loaded = 1;
    if (!STATOR_HAS(exe->config.host->cache, get_constant) || st_read_u32(&a.in) != FORMAT) {
        return broken(err);
    }
    ST_TRY(read_constants(&a, err));
    ST_TRY(field_plan(&a, err));
    ST_TRY(read_code(&a, err));
    ST_FAIL_BY_IF(broken, !are_buffers_sound(exe) || !are_launches_sound(&a), err);
    ST_TRY(read_data(&a, err));
    return cg_move_to_device(exe, err);
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
