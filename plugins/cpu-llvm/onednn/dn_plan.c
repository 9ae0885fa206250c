/* A candidate made ready to run.
 *
 * A plan is a short list of steps: reorders of what the main one wants in another order, the
 * main one, a reorder of its result. Primitives are shared by all calls; memory objects are not, so
 * each call takes a slot that has them. A slot that is not in use waits in the plan's list. */
#include "plugins/cpu-llvm/onednn/dn_library.h"

#include "core/base/diag.h"

#define ALIGN 64u

stator_status dn_fail(stator_diag **err, const char *what, dnnl_status_t status)
{
    if (status == dnnl_out_of_memory) {
        return st_fail_oom(err);
    }
    return st_fail(err, STATOR_INTERNAL, "inductor-cpu: oneDNN cannot %s (its status %d)", what,
                   (int)status);
}

/* ---- steps ---- */

static dn_step *new_step(dn_plan *plan)
{
    return &plan->steps[plan->n_steps++];
}

static void add_arg(dn_step *step, int arg, uint32_t role)
{
    step->args[step->n_args++] = (dn_arg){arg, role};
}

/* Room in a call's scratch for a role. */
static void place(dn_plan *plan, uint32_t role)
{
    plan->place[role] = plan->scratch_bytes;
    plan->scratch_bytes +=
        (dnnl_memory_desc_get_size(&plan->desc.md[role]) + ALIGN - 1u) / ALIGN * ALIGN;
}

static stator_status make_reorder(dn_op *op, const dnnl_memory_desc_t *from,
                                  const dnnl_memory_desc_t *to, dnnl_primitive_t *out,
                                  stator_diag **err)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&pd, from, op->lib->engine, to, op->lib->engine, NULL);
    if (status == dnnl_success) {
        status = dnnl_primitive_create(out, pd);
        (void)dnnl_primitive_desc_destroy(pd);
    }
    return status == dnnl_success ? STATOR_OK : dn_fail(err, "reorder a tensor", status);
}

static stator_status add_reorder(dn_op *op, dn_plan *plan, uint32_t from, uint32_t to,
                                 stator_diag **err)
{
    dn_step *step = new_step(plan);
    add_arg(step, DNNL_ARG_FROM, from);
    add_arg(step, DNNL_ARG_TO, to);
    if (dn_transpose_of(&plan->desc.md[from], &plan->desc.md[to], &step->transpose)) {
        return STATOR_OK;
    }
    return make_reorder(op, &plan->desc.md[from], &plan->desc.md[to], &step->primitive, err);
}

/* The primitive's own order of operand `role` is the caller's. */
static bool is_in_place(const dn_desc *desc, uint32_t role)
{
    return dnnl_memory_desc_equal(&desc->md[role], &desc->md[role + DN_X2]);
}

static stator_status add_main(dn_plan *plan, stator_diag **err)
{
    dn_step *step = new_step(plan);
    for (uint32_t role = 0; role < DN_ROLES; role++) {
        if (plan->desc.arg[role]) {
            const bool is_own = role >= DN_X2 && role <= DN_OUT2;
            const bool is_packed = role == DN_Y2 && plan->is_packed;
            const bool is_callers = is_own && !is_packed && is_in_place(&plan->desc, role - DN_X2);
            add_arg(step, plan->desc.arg[role], is_callers ? role - DN_X2 : role);
        }
    }
    const dnnl_status_t status = dnnl_primitive_create(&step->primitive, plan->desc.primitive);
    return status == dnnl_success ? STATOR_OK : dn_fail(err, "make a primitive", status);
}

static stator_status add_steps(dn_op *op, dn_plan *plan, stator_diag **err)
{
    const int keeps_x = is_in_place(&plan->desc, DN_X);
    const bool keeps_y = is_in_place(&plan->desc, DN_Y) || plan->is_packed;
    const int keeps_out = is_in_place(&plan->desc, DN_OUT);
    if (!keeps_x) {
        place(plan, DN_X2);
        ST_TRY(add_reorder(op, plan, DN_X, DN_X2, err));
    }
    if (!keeps_y) {
        place(plan, DN_Y2);
        ST_TRY(add_reorder(op, plan, DN_Y, DN_Y2, err));
    }
    if (!keeps_out) {
        place(plan, DN_OUT2);
    }
    if (plan->desc.sum) {
        ST_TRY(add_reorder(op, plan, DN_POST + plan->desc.sum - 1u, keeps_out ? DN_OUT : DN_OUT2,
                           err));
    }
    if (plan->desc.used & 1u << DN_SCRATCH) {
        place(plan, DN_SCRATCH);
    }
    ST_TRY(add_main(plan, err));
    return keeps_out ? STATOR_OK : add_reorder(op, plan, DN_OUT2, DN_OUT, err);
}

/* Roles that some step names. */
static void note_roles(dn_plan *plan)
{
    plan->desc.used = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        for (uint32_t a = 0; a < plan->steps[i].n_args; a++) {
            plan->desc.used |= 1u << plan->steps[i].args[a].role;
        }
    }
}

stator_status dn_plan_make(dn_op *op, const dn_sizes *key, dn_desc *desc, dn_plan **out,
                           stator_diag **err)
{
    dn_plan *plan = st_calloc(op->lib->mem, 1, sizeof *plan);
    *out = NULL;
    if (plan == NULL) {
        dn_desc_deinit(desc);
        return st_fail_oom(err);
    }
    plan->key = *key;
    plan->desc = *desc;
    desc->primitive = NULL;
    plan->is_packed = op->has_constant;
    const dn_team team = dn_team_begin((int)key->threads);
    const stator_status status = add_steps(op, plan, err);
    dn_team_end(&team);
    if (status != STATOR_OK) {
        dn_plan_destroy(op, plan);
        return status;
    }
    note_roles(plan);
    *out = plan;
    return STATOR_OK;
}

stator_status dn_plan_own(dn_op *op, const dn_sizes *key, const dn_desc *desc, dn_plan **out,
                          stator_diag **err)
{
    const uint32_t kind = desc->how.is_tiles      ? DN_PLAN_TILES
                          : desc->how.is_planes   ? DN_PLAN_PLANES
                          : desc->how.is_quant    ? DN_PLAN_QUANT
                          : desc->how.is_gradient ? DN_PLAN_GRADIENT
                          : desc->how.is_product  ? DN_PLAN_PRODUCT
                                                  : DN_PLAN_SKINNY;
    dn_sizes simple = *key;
    ST_TRY(dn_plan_other(op, key, kind, out, err));
    (*out)->desc = *desc;
    (*out)->is_packed = op->has_constant && !desc->how.is_planes;
    dn_simplify(&op->contraction, &simple);
    (*out)->scratch_bytes =
        desc->how.is_tiles      ? dn_tiles_scratch(op, &simple, desc->how.is_winograd)
        : desc->how.is_planes   ? dn_planes_scratch(op, key)
        : desc->how.is_gradient ? dn_gradient_scratch(op, key, desc->how.is_winograd)
        : desc->how.is_product  ? dn_product_scratch(op, &simple)
                                : 0;
    return STATOR_OK;
}

stator_status dn_plan_other(dn_op *op, const dn_sizes *key, uint32_t kind, dn_plan **out,
                            stator_diag **err)
{
    *out = st_calloc(op->lib->mem, 1, sizeof **out);
    ST_TRY_MEM(*out, err);
    (*out)->key = *key;
    (*out)->kind = kind;
    (*out)->desc.name = kind == DN_PLAN_PLAIN ? "plain" : "";
    return STATOR_OK;
}

stator_status dn_plan_bind(dn_op *op, dn_plan *plan, void *data, stator_diag **err)
{
    /* Slots hold the memory object, so it stays. */
    const dnnl_status_t status =
        plan->packed
            ? dnnl_memory_set_data_handle(plan->packed, data)
            : dnnl_memory_create(&plan->packed, &plan->desc.md[DN_Y2], op->lib->engine, data);
    return status == dnnl_success ? STATOR_OK : dn_fail(err, "describe packed weights", status);
}

/* ---- slots ---- */

static void slot_destroy(dn_op *op, dn_slot *slot)
{
    for (uint32_t role = 0; role < DN_ROLES; role++) {
        if (slot->memory[role]) {
            (void)dnnl_memory_destroy(slot->memory[role]);
        }
    }
    if (slot->stream) {
        (void)dnnl_stream_destroy(slot->stream);
    }
    st_free(op->lib->mem, slot);
}

void dn_plan_destroy(dn_op *op, dn_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    dn_plan_destroy(op, plan->alone);
    while (plan->slots) {
        dn_slot *slot = plan->slots;
        plan->slots = slot->next;
        slot_destroy(op, slot);
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].primitive) {
            (void)dnnl_primitive_destroy(plan->steps[i].primitive);
        }
    }
    if (plan->packed) {
        (void)dnnl_memory_destroy(plan->packed);
    }
    dn_desc_deinit(&plan->desc);
    st_free(op->lib->mem, plan);
}

static bool is_of_caller(uint32_t role)
{
    return role <= DN_OUT || role >= DN_POST;
}

static dnnl_status_t fill_slot(dn_op *op, dn_plan *plan, dn_slot *slot)
{
    dnnl_status_t status =
        dnnl_stream_create(&slot->stream, op->lib->engine, dnnl_stream_default_flags);
    for (uint32_t role = 0; role < DN_ROLES && status == dnnl_success; role++) {
        const bool is_shared = role == DN_Y2 && plan->is_packed;
        if (!(plan->desc.used & 1u << role) || is_shared) {
            continue;
        }
        /* NULL: no buffer yet. */
        status =
            dnnl_memory_create(&slot->memory[role], &plan->desc.md[role], op->lib->engine, NULL);
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        for (uint32_t a = 0; a < plan->steps[i].n_args; a++) {
            const dn_arg *arg = &plan->steps[i].args[a];
            const bool is_shared = arg->role == DN_Y2 && plan->is_packed;
            slot->args[i][a] =
                (dnnl_exec_arg_t){arg->arg, is_shared ? plan->packed : slot->memory[arg->role]};
        }
    }
    return status;
}

dn_slot *dn_slot_make(dn_op *op, dn_plan *plan)
{
    dn_slot *slot = st_calloc(op->lib->mem, 1, sizeof *slot);
    if (slot == NULL) {
        return NULL;
    }
    if (fill_slot(op, plan, slot) != dnnl_success) {
        slot_destroy(op, slot);
        return NULL;
    }
    return slot;
}

/* Tells the slot's memory objects where the operands of this call lie. */
static dnnl_status_t set_places(const dn_plan *plan, dn_slot *slot, void *const at[DN_ROLES],
                                char *scratch)
{
    dnnl_status_t status = dnnl_success;
    for (uint32_t role = 0; role < DN_ROLES && status == dnnl_success; role++) {
        if (slot->memory[role]) {
            void *data = is_of_caller(role) ? at[role] : scratch + plan->place[role];
            status = dnnl_memory_set_data_handle(slot->memory[role], data);
        }
    }
    return status;
}

static dnnl_status_t run_step(const dn_plan *plan, dn_slot *slot, uint32_t i)
{
    const dn_step *step = &plan->steps[i];
    void *data[2] = {NULL, NULL};
    if (step->primitive) {
        return dnnl_primitive_execute(step->primitive, slot->stream, (int)step->n_args,
                                      slot->args[i]);
    }
    dnnl_status_t status = dnnl_memory_get_data_handle(slot->args[i][0].memory, &data[0]);
    DN_THEN(status, dnnl_memory_get_data_handle(slot->args[i][1].memory, &data[1]));
    if (status == dnnl_success) {
        dn_transpose_run(&step->transpose, data[0], data[1], (int)plan->key.threads);
    }
    return status;
}

static dnnl_status_t execute(const dn_plan *plan, dn_slot *slot)
{
    dnnl_status_t status = dnnl_success;
    const dn_team team = dn_team_begin((int)plan->key.threads);
    for (uint32_t i = 0; i < plan->n_steps && status == dnnl_success; i++) {
        status = run_step(plan, slot, i);
    }
    DN_THEN(status, dnnl_stream_wait(slot->stream));
    dn_team_end(&team);
    return status;
}

stator_status dn_slot_run(dn_op *op, const dn_plan *plan, dn_slot *slot, void *const at[DN_ROLES],
                          stator_diag **err)
{
    dn_scratch *scratch = NULL;
    if (plan->scratch_bytes) {
        scratch = dn_scratch_take(op->lib, plan->scratch_bytes);
        ST_TRY_MEM(scratch, err);
    }
    dnnl_status_t status = set_places(plan, slot, at, dn_scratch_data(scratch));
    DN_THEN(status, execute(plan, slot));
    dn_scratch_give(op->lib, scratch);
    return status == dnnl_success ? STATOR_OK : dn_fail(err, "run a primitive", status);
}
