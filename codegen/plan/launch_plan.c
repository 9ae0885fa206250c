/* Launch order and buffers.
 *
 * Before: Fusion groups joined. After: kernels in an order in which everything is made before it is
 * read, and the steps in which each value that crosses from one kernel to another is alive;
 * memory_plan.c gives it its offset in the workspace. */
#include "codegen/match/match_contraction.h"
#include "codegen/plan/perf_hints.h"
#include "codegen/plan/plan.h"
#include "codegen/target/contraction_desc.h"

#include <string.h>

#define GRAIN_OPS 32768 /* scalar ops that make a thread's share worth handing out */

typedef struct planner {
    cg_unit *unit;
    st_cg_exe *exe;
    uint32_t *order; /* fusion groups */
    uint32_t n_order;
    uint8_t *state;         /* by group: 0 unseen, 1 open, 2 done */
    uint32_t *n_concurrent; /* by index in `order`: concurrent scans that begin there */
    uint32_t stage;         /* stage of the steps being made */
    uint32_t is_concurrent; /* a scan is one of several */
} planner;

/* ---- order ---- */

/* Appends group p behind the groups it reads. A stack of its own: graphs may be deep. */
static stator_status order_group(planner *p, uint32_t first, stator_diag **err)
{
    const cg_unit *unit = p->unit;
    st_vec(uint32_t) stack = ST_VEC_INIT;
    uint32_t *at = st_vec_push(unit->mem, &stack);
    stator_status status = at ? STATOR_OK : st_fail_oom(err);
    if (at) {
        *at = first;
    }
    while (status == STATOR_OK && stack.count > 0) {
        const uint32_t group = stack.data[stack.count - 1u];
        if (p->state[group]) {
            stack.count--;
            if (p->state[group] == 1) {
                p->state[group] = 2;
                p->order[p->n_order++] = group;
            }
            continue;
        }
        p->state[group] = 1;
        const cg_fusion_group *of = &unit->groups.data[group];
        for (uint32_t i = 0; i < of->roots.count && status == STATOR_OK; i++) {
            const cg_root *root = &unit->roots.data[of->roots.data[i]];
            for (uint32_t k = 0; k < root->n_needs && status == STATOR_OK; k++) {
                const uint32_t from =
                    unit->roots.data[unit->needs.data[root->first_need + k]].group;
                if (p->state[from] == 0) {
                    at = st_vec_push(unit->mem, &stack);
                    status = at ? STATOR_OK : st_fail_oom(err);
                    if (at) {
                        *at = from;
                    }
                }
            }
        }
    }
    st_vec_free(unit->mem, &stack);
    return status;
}

static uint32_t stage_of_group(const cg_unit *unit, uint32_t group)
{
    return unit->roots.data[unit->groups.data[group].roots.data[0]].stage;
}

/* Stage by stage: what a group needs is of its own stage or of those before. */
static stator_status order_groups(planner *p, stator_diag **err)
{
    const cg_unit *unit = p->unit;
    for (uint32_t stage = 0; stage <= unit->binds.count; stage++) {
        for (uint32_t group = 0; group < unit->groups.count; group++) {
            if (!unit->groups.data[group].is_dead && p->state[group] == 0 &&
                stage_of_group(unit, group) == stage) {
                ST_TRY(order_group(p, group, err));
            }
        }
    }
    return STATOR_OK;
}

/* ---- kernels ---- */

/* Scalar ops of one iteration of the block; loops of unknown length count as 64. */
static int64_t work_of(const st_kernel *kernel, uint32_t block)
{
    int64_t work = 0;
    for (st_loop_ref ref = kernel->blocks.data[block].first; ref;
         ref = st_loop_at(kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        if (inst->code != ST_LOOP_LOOP) {
            work++;
            continue;
        }
        const int64_t times =
            st_sym_size_hint(&kernel->syms->tab, kernel->axes.data[inst->ref].extent);
        const int64_t inside = work_of(kernel, inst->body);
        work += times > 0 && inside < GRAIN_OPS ? inside * (times < GRAIN_OPS ? times : GRAIN_OPS)
                                                : inside;
    }
    return work > 0 ? work : 1;
}

static stator_status set_count(st_cg_exe *exe, const st_kernel *kernel, cg_launch *launch,
                               stator_diag **err)
{
    const st_loop_ref loop = st_kernel_parallel_loop(kernel);
    launch->has_parallel = loop != 0;
    launch->grain = 1;
    launch->lanes = 1;
    if (loop == 0) {
        return STATOR_OK;
    }
    const st_loop_inst *inst = st_loop_at(kernel, loop);
    const st_loop_axis *axis = &kernel->axes.data[inst->ref];
    const st_sym_cols cols = st_sym_columns(&exe->syms.tab);
    const int64_t grain = GRAIN_OPS / work_of(kernel, inst->body);
    launch->grain = grain > 1 ? grain : 1;
    /* Shares of whole vectors: no thread but the last has a masked end. */
    launch->lanes = axis->lanes > 1 ? axis->lanes : 1;
    launch->grain = (launch->grain + axis->lanes - 1) / axis->lanes * axis->lanes;
    return st_symprog_init(&launch->count, exe->config.mem, &cols, axis->extent) ? STATOR_OK
                                                                                 : st_fail_oom(err);
}

static stator_status note_checks(planner *p, const st_kernel *kernel, stator_diag **err)
{
    st_cg_exe *exe = p->exe;
    const stator_graph_view *v = p->unit->view;
    for (st_loop_ref ref = 1; ref < kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        if (inst->code != ST_LOOP_CHECK || inst->origin == 0) {
            continue;
        }
        const stator_node_row *node = stator_node_at(v, inst->origin);
        const char *name = stator_node_origin(v, inst->origin);
        st_str text;
        st_str_init(&text, exe->config.mem);
        st_str_addf(&text, "%s%s%s%s: an index is outside its axis",
                    stator_op_at(v, node->op)->name, name[0] ? " '" : "", name, name[0] ? "'" : "");
        const char *kept = cg_keep_text(exe, &text);
        st_check_text *check = kept ? st_vec_push(exe->config.mem, &exe->checks) : NULL;
        ST_TRY_MEM(check, err);
        *check = (st_check_text){inst->origin, kept};
    }
    return STATOR_OK;
}

/* A step of the stage that nothing runs yet and that has no operands. */
static stator_status add_launch_of(planner *p, cg_launch **out, stator_diag **err)
{
    *out = st_vec_push(p->exe->config.mem, &p->exe->launches);
    ST_TRY_MEM(*out, err);
    **out = (cg_launch){
        .kernel = UINT32_MAX, .stage = p->stage, .first_buffer = p->exe->operands.count};
    return STATOR_OK;
}

/* A step over the kernel's buffers, whatever will run it. */
static stator_status add_step(planner *p, const st_kernel *kernel, cg_launch **out,
                              stator_diag **err)
{
    ST_TRY(add_launch_of(p, out, err));
    for (uint32_t i = 0; i < kernel->buffers.count; i++) {
        const st_loop_buffer *buffer = &kernel->buffers.data[i];
        const bool is_local = buffer->flags & ST_BUFFER_LOCAL;
        ST_TRY(cg_add_operand(p->exe, is_local ? UINT32_MAX : cg_alias_root(p->unit, buffer->id),
                              *out, err));
    }
    return STATOR_OK;
}

static stator_status add_launch(planner *p, const st_kernel *kernel, stator_diag **err)
{
    cg_launch *launch = NULL;
    ST_TRY(add_step(p, kernel, &launch, err));
    launch->kernel = p->exe->kernels.count - 1u;
    launch->name = st_arena_strndup(&p->exe->arena, kernel->name, strlen(kernel->name));
    ST_TRY_MEM(launch->name, err);
    ST_TRY(cg_note_step(kernel, p->exe, launch, err));
    ST_TRY(note_checks(p, kernel, err));
    return set_count(p->exe, kernel, launch, err);
}

/* Hash of the constant that is buffer `index` of the kernel. */
static stator_status hash_constant(const planner *p, const st_kernel *kernel, uint32_t index,
                                   uint8_t out[16], stator_diag **err)
{
    const stator_cst_api *cst = p->unit->host->cst;
    const cg_buffer *of = &p->unit->buffers.data[kernel->buffers.data[index].id];
    stator_blob *blob = p->unit->blobs.data[of->index];
    stator_blob_info info = {.struct_size = sizeof info};
    stator_diag *theirs = NULL;
    const stator_status status =
        STATOR_HAS(cst, hash) ? cst->hash(blob, out, &theirs) : cst->get(blob, &info, &theirs);
    ST_TRY(st_cg_from_host(p->unit->host, status, &theirs, err));
    if (!STATOR_HAS(cst, hash)) {
        memcpy(out, info.content_hash, sizeof info.content_hash);
    }
    return STATOR_OK;
}

/* Creates the op; a constant that has been packed is not read again unless a call needs it in
 * another form, so its pages go. */
static stator_status create_op(planner *p, const st_kernel *kernel, st_contraction *contraction,
                               cg_launch *launch, stator_diag **err)
{
    launch->is_fixed = st_contraction_is_fixed(contraction->kind);
    const st_library *library = cg_library_of(p->exe, launch);
    const stator_cst_api *cst = p->unit->host->cst;
    if (contraction->y_data == NULL) {
        return library->create(library->self, contraction, &launch->op, err);
    }
    const cg_buffer *y = &p->unit->buffers.data[kernel->buffers.data[contraction->y.buffer].id];
    ST_TRY(hash_constant(p, kernel, contraction->y.buffer, contraction->y_hash, err));
    st_contraction_blocks *const blocks[2] = {&contraction->weights.scale,
                                              &contraction->weights.zero};
    for (uint32_t k = 0; k < 2 && contraction->weights.is_scaled; k++) {
        if (blocks[k]->buffer != UINT32_MAX) {
            ST_TRY(hash_constant(p, kernel, blocks[k]->buffer, blocks[k]->hash, err));
        }
    }
    const stator_status status = library->create(library->self, contraction, &launch->op, err);
    if (y->is_unaligned_mapped) {
        cst->will_not_read(p->unit->blobs.data[y->index]);
    }
    return status;
}

/* The library's call instead of a kernel. */
static stator_status add_library_call(planner *p, uint32_t group, const st_kernel *kernel,
                                      st_contraction *contraction, stator_diag **err)
{
    st_cg_exe *exe = p->exe;
    const st_sym_cols cols = st_sym_columns(&exe->syms.tab);
    uint32_t syms[ST_CONTRACTION_NUMBERS_MAX];
    cg_launch *launch = NULL;
    ST_TRY(add_step(p, kernel, &launch, err));
    ST_TRY(cg_note_step(kernel, exe, launch, err));
    const uint32_t n = st_contraction_numbers(contraction, syms);
    launch->numbers = st_arena_zalloc(&exe->arena, (uint64_t)n + 1u, sizeof *launch->numbers);
    ST_TRY_MEM(launch->numbers, err);
    for (uint32_t i = 0; i < n; i++) {
        ST_TRY_MEM(st_symprog_init(&launch->numbers[i], exe->config.mem, &cols, syms[i]), err);
        launch->n_numbers = i + 1u;
    }
    ST_TRY_MEM(cg_know_numbers(exe, launch), err);
    st_str text;
    st_str_init(&text, exe->config.mem);
    cg_print_contraction(contraction, kernel, &text);
    launch->text = cg_keep_text(exe, &text);
    ST_TRY_MEM(launch->text, err);
    contraction->is_alone = p->unit->is_alone;
    if (contraction->kind == ST_CONTRACTION_SCATTER) {
        ST_TRY(note_checks(p, kernel, err)); /* of the loops in whose place it is */
    }
    ST_TRY(create_op(p, kernel, contraction, launch, err));
    cg_hint_call(p->unit, group, kernel, contraction, launch->op);
    return STATOR_OK;
}

/* The steps that bind sizes, up to the stage. */
static stator_status bind_until(planner *p, uint32_t stage, stator_diag **err)
{
    for (; p->stage < stage; p->stage++) {
        const stator_ref node = p->unit->binds.data[p->stage];
        const stator_node_row *row = stator_node_at(p->unit->view, node);
        const uint32_t buffer = p->unit->values[row->result_begin].buffer;
        cg_launch *launch = NULL;
        ST_TRY(add_launch_of(p, &launch, err));
        ST_TRY(cg_add_operand(p->exe, cg_alias_root(p->unit, buffer), launch, err));
        ST_TRY(cg_make_bind(p->unit, p->stage, p->exe, launch, err));
    }
    return STATOR_OK;
}

/* Only groups of one root cannot be made: joins are tried before they are kept. */
static stator_status decline_group(planner *p, uint32_t group, const char *why, stator_diag **err)
{
    const cg_fusion_group *of = &p->unit->groups.data[group];
    for (uint32_t i = 0; i < of->roots.count; i++) {
        const cg_root *root = &p->unit->roots.data[of->roots.data[i]];
        const stator_ref node =
            root->node ? root->node : stator_value_at(p->unit->view, root->source)->node;
        ST_TRY(cg_decline(p->unit, node, why, err));
    }
    return STATOR_OK;
}

static stator_status add_scan(planner *p, const cg_root *root, stator_diag **err)
{
    st_cg_exe *exe = p->exe;
    cg_launch *launch = NULL;
    ST_TRY(add_launch_of(p, &launch, err));
    const cg_loop loop = {p->unit, root->node, p->is_concurrent || p->unit->is_alone,
                          exe->launches.count - 1u};
    ST_TRY(cg_note_nodes(&root->node, 1, exe, launch, err));
    return cg_make_scan(&loop, exe, launch, err);
}

/* The kernel becomes the executable's, and a step of it; it is freed when that fails. */
static stator_status take_kernel(planner *p, uint32_t group, st_kernel *plain, stator_diag **err)
{
    st_kernel *kernel = st_vec_push(p->exe->config.mem, &p->exe->kernels);
    if (kernel == NULL) {
        st_kernel_deinit(plain);
        return st_fail_oom(err);
    }
    *kernel = *plain;
    cg_hint_kernel(p->unit, group, kernel);
    return add_launch(p, kernel, err);
}

/* The newest step touches no more of the cache than updates go to. */
static void note_part(planner *p, const cg_fusion_group *group, uint32_t old, uint32_t new)
{
    const cg_unit *unit = p->unit;
    cg_launch *launch = &p->exe->launches.data[p->exe->launches.count - 1u];
    const st_kernel *kernel = &p->exe->kernels.data[launch->kernel];
    const cg_buffer *result = &unit->buffers.data[new];
    int64_t all = 0;
    int64_t kept = 0;
    if (group->part == CG_SCATTER_COPY || !st_sym_const(&unit->syms->tab, result->numel, &all) ||
        !st_sym_const(&unit->syms->tab, unit->buffers.data[group->kept].numel, &kept) ||
        kept >= all) {
        return;
    }
    const uint64_t bytes = (uint64_t)(all - kept) * st_element_bytes(result->dtype);
    for (uint32_t i = 0; i < kernel->buffers.count; i++) {
        const st_loop_buffer *buffer = &kernel->buffers.data[i];
        if (buffer->id == old || buffer->id == new) {
            launch->read_bytes -= buffer->flags & ST_BUFFER_READ ? bytes : 0;
            launch->written_bytes -= buffer->flags & ST_BUFFER_WRITTEN ? bytes : 0;
        }
    }
}

/* The steps of an update that may be in place (plan_updates.c). */
static stator_status add_update(planner *p, uint32_t group, stator_diag **err)
{
    static const uint32_t when[] = {CG_ALWAYS, CG_TO_KEEP, CG_TO_COPY, CG_TO_RESTORE, CG_ALWAYS};
    cg_unit *unit = p->unit;
    cg_fusion_group *of = &unit->groups.data[group];
    const st_target *target = &unit->config->emitter->target;
    const cg_root *root = &unit->roots.data[of->roots.data[0]];
    const cg_node node = cg_node_of(unit, root->node);
    for (uint32_t part = CG_SCATTER_KEEP; part <= CG_SCATTER_UPDATE; part++) {
        st_kernel plain;
        const char *why = NULL;
        of->part = (uint8_t)part;
        stator_status status = cg_build_kernel(unit, group, &plain, &why, err);
        if (status == STATOR_UNSUPPORTED && why) {
            return decline_group(p, group, why, err);
        }
        ST_TRY(status);
        status = target->schedule(target, &plain, err);
        if (status != STATOR_OK) {
            st_kernel_deinit(&plain);
            return status;
        }
        ST_TRY(take_kernel(p, group, &plain, err));
        cg_launch *launch = &p->exe->launches.data[p->exe->launches.count - 1u];
        launch->when = when[part];
        launch->old = cg_alias_root(unit, cg_value_of(unit, cg_operand(&node, 0))->buffer);
        launch->new = node.out->buffer;
        note_part(p, of, launch->old, launch->new);
    }
    return STATOR_OK;
}

static stator_status add_kernel(planner *p, uint32_t group, stator_diag **err)
{
    st_cg_exe *exe = p->exe;
    const cg_root *first = &p->unit->roots.data[p->unit->groups.data[group].roots.data[0]];
    const char *why = NULL;
    if (first->lowering && first->lowering->is_loop) {
        return add_scan(p, first, err);
    }
    const st_target *target = &p->unit->config->emitter->target;
    st_kernel plain;
    stator_status status = cg_build_kernel(p->unit, group, &plain, &why, err);
    if (status == STATOR_UNSUPPORTED && why) {
        return decline_group(p, group, why, err);
    }
    ST_TRY(status);
    if (plain.blocks.data[0].first == 0) { /* all that it makes is empty */
        st_kernel_deinit(&plain);
        return STATOR_OK;
    }
    st_contraction contraction;
    bool is_taken = false;
    if (p->unit->groups.data[group].is_library) {
        status = cg_match(p->unit, group, &plain, &contraction, &is_taken, err);
    }
    if (is_taken || status != STATOR_OK) {
        ST_THEN(status, add_library_call(p, group, &plain, &contraction, err));
        st_kernel_deinit(&plain);
        return status;
    }
    why = first->lowering && first->lowering->is_slow
              ? first->lowering->is_slow(p->unit->view, stator_node_at(p->unit->view, first->node))
              : NULL;
    if (why) {
        st_kernel_deinit(&plain);
        return decline_group(p, group, why, err);
    }
    if (p->unit->groups.data[group].kept) {
        st_kernel_deinit(&plain);
        return add_update(p, group, err);
    }
    if (target->kind == ST_TARGET_CPU) { /* a thread of a GPU tests its place anyway */
        status = cg_split_index_set(p->unit, group, &plain, err);
    }
    status = status == STATOR_OK ? target->schedule(target, &plain, err) : status;
    if (status == STATOR_OK && cg_drop_copy(p->unit, exe, &plain)) {
        st_kernel_deinit(&plain);
        return STATOR_OK;
    }
    if (status != STATOR_OK) {
        st_kernel_deinit(&plain);
        return status;
    }
    return take_kernel(p, group, &plain, err);
}

/* Extends the lives of buffers that any of the group's steps reads or writes to all of its steps,
 * whose pointers are taken at once. */
static void join_lives(st_cg_exe *exe, uint32_t begin)
{
    const uint32_t end = exe->launches.count - 1u;
    uint32_t n_operands = 0;
    for (uint32_t step = begin; step <= end; step++) {
        const cg_launch *l = &exe->launches.data[step];
        n_operands += l->n_buffers;
        for (uint32_t k = 0; k < l->n_buffers; k++) {
            const uint32_t operand = exe->operands.data[l->first_buffer + k];
            cg_buffer *of = operand == UINT32_MAX ? NULL : &exe->buffers.data[operand];
            if (of) {
                of->first = of->first > begin ? begin : of->first;
                of->last = end;
            }
        }
    }
    exe->operands_max = n_operands > exe->operands_max ? n_operands : exe->operands_max;
}

/* The groups from index `first` on that are one step or run concurrently. *out_count: how many. */
static stator_status add_steps(planner *p, uint32_t first, uint32_t *out_count, stator_diag **err)
{
    st_cg_exe *exe = p->exe;
    const uint32_t n = p->n_concurrent[first] > 1 ? p->n_concurrent[first] : 1;
    const uint32_t begin = exe->launches.count;
    *out_count = n;
    p->is_concurrent = n > 1;
    for (uint32_t i = 0; i < n; i++) {
        ST_TRY(add_kernel(p, p->order[first + i], err));
    }
    p->is_concurrent = 0;
    if (n > 1) {
        exe->launches.data[begin].n_concurrent = n;
        join_lives(exe, begin);
    }
    return STATOR_OK;
}

/* ---- outputs and constants ---- */

static stator_status set_outputs(planner *p, stator_diag **err)
{
    st_cg_exe *exe = p->exe;
    const cg_unit *unit = p->unit;
    const st_sym_cols cols = st_sym_columns(&exe->syms.tab);
    exe->outputs =
        st_arena_zalloc(&exe->arena, (uint64_t)unit->view->n_outputs + 1u, sizeof *exe->outputs);
    ST_TRY_MEM(exe->outputs, err);
    for (uint32_t k = 0; k < unit->view->n_outputs; k++) {
        const cg_value *v = &unit->values[stator_output_at(unit->view, k)];
        cg_output *out = &exe->outputs[k];
        out->dims = st_arena_zalloc(&exe->arena, (uint64_t)v->rank + 1u, sizeof *out->dims);
        ST_TRY_MEM(out->dims, err);
        exe->n_outputs = k + 1u;
        for (uint32_t a = 0; a < v->rank; a++) {
            ST_TRY_MEM(st_symprog_init(&out->dims[a], exe->config.mem, &cols, v->dims[a]), err);
            out->rank = a + 1u;
        }
    }
    for (uint32_t i = 0; i < unit->buffers.count; i++) {
        const cg_buffer *buffer = &unit->buffers.data[i];
        if (buffer->kind == CG_BUFFER_OUTPUT) {
            exe->outputs[buffer->index].stage =
                unit->roots.data[unit->values[buffer->value].root - 1u].stage;
        }
    }
    return STATOR_OK;
}

static stator_status take_constants(planner *p, stator_diag **err)
{
    st_cg_exe *exe = p->exe;
    const stator_host *host = p->unit->host;
    exe->constants =
        st_arena_zalloc(&exe->arena, (uint64_t)p->unit->blobs.count + 1u, sizeof(void *));
    ST_TRY_MEM(exe->constants, err);
    for (uint32_t i = 0; i < p->unit->blobs.count; i++) {
        stator_blob **kept = st_vec_push(exe->config.mem, &exe->blobs);
        ST_TRY_MEM(kept, err);
        *kept = p->unit->blobs.data[i];
        host->cst->retain(*kept);
        if (exe->config.emitter->memory == NULL) { /* else see cg_move_to_device */
            ST_TRY(cg_constant_data(&exe->config, *kept, &exe->constants[i], err));
        }
    }
    return STATOR_OK;
}

static stator_status copy_buffers(planner *p, stator_diag **err)
{
    st_cg_exe *exe = p->exe;
    cg_unit *unit = p->unit;
    unit->alias_roots = st_arena_zalloc(&unit->arena, (uint64_t)unit->buffers.count + 1u,
                                        sizeof *unit->alias_roots);
    ST_TRY_MEM(unit->alias_roots, err);
    for (uint32_t i = 0; i < unit->buffers.count; i++) {
        unit->alias_roots[i] = i;
        cg_buffer *buffer = st_vec_push(exe->config.mem, &exe->buffers);
        ST_TRY_MEM(buffer, err);
        *buffer = unit->buffers.data[i];
        buffer->first = UINT32_MAX;
    }
    return STATOR_OK;
}

stator_status cg_make_exe(cg_unit *unit, st_cg_exe *exe, stator_diag **err)
{
    planner p = {.unit = unit, .exe = exe};
    exe->n_inputs = unit->view->n_inputs;
    exe->n_syms = unit->view->n_symbols;
    p.state = st_arena_zalloc(&unit->arena, (uint64_t)unit->groups.count + 1u, 1);
    p.order = st_arena_zalloc(&unit->arena, (uint64_t)unit->groups.count + 1u, sizeof *p.order);
    p.n_concurrent =
        st_arena_zalloc(&unit->arena, (uint64_t)unit->groups.count + 1u, sizeof *p.n_concurrent);
    ST_TRY_MEM(p.state && p.order && p.n_concurrent, err);
    ST_TRY(cg_find_shape_constraints(unit, exe, err));
    ST_TRY(order_groups(&p, err));
    ST_TRY(cg_find_updates(unit, exe, err));
    ST_TRY(cg_sink_writes(unit, p.order, p.n_order, err));
    ST_TRY(cg_gather_scans(unit, p.order, p.n_order, p.n_concurrent, err));
    ST_TRY(copy_buffers(&p, err));
    for (uint32_t i = 0, n = 0; i < p.n_order; i += n) {
        ST_TRY(bind_until(&p, stage_of_group(unit, p.order[i]), err));
        ST_TRY(add_steps(&p, i, &n, err));
    }
    ST_TRY(bind_until(&p, unit->binds.count, err));
    cg_hint_end(unit);
    ST_TRY(set_outputs(&p, err));
    ST_TRY(take_constants(&p, err));
    cg_keep_until_end(exe);
    ST_TRY(cg_plan_write_backs(unit, exe, err));
    return cg_plan_memory(exe, err);
}
