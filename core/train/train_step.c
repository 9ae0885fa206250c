/* A step of training as a model: loss, gradients, and the new parameters, which are written where
 * the old ones lie; see stator/train.h. Losses, optimizers and schedules are rows of ir/optim.def.
 *
 *   (%x, param %w) { %y = ... }    gives    (%x, %target, %lr, %w, %exp_avg_w, .., %step) {
 *                                             %y = ...      %loss = mse_loss(%y, %target)
 *                                             (backward)    %w' = ..  %exp_avg_w' = ..
 *                                             return loss: %loss    write back %w' to %w, ... } */
#include "core/train/train_step.h"

#include "core/base/check.h"
#include "core/base/str.h"
#include "core/host/model.h"
#include "core/train/joint.h"
#include "ir/passes/pass.h"

#include <stdio.h>
#include <string.h>

/* Random numbers are others in each step: the seed of a node is mixed with that of the call. */
static void clone_nodes(st_train_step *s)
{
    for (stator_ref node = 1; s->e.status == STATOR_OK && node <= s->v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(s->v, node);
        const stator_op_desc *op = stator_op_at(s->v, row->op);
        const bool is_mixed = s->seed != 0 && (op->flags & STATOR_OP_RANDOM) != 0;
        const stator_ref operand = is_mixed ? stator_operand(s->v, row, 0) : 0;
        const stator_ref kept = s->map[operand];
        if (is_mixed) {
            s->map[operand] = stator_emit_expr(
                &s->e, "key + seed * 7046029254386353131 + step * 2654435769", "key, seed, step",
                STATOR_IN(kept, s->seed, s->count), STATOR_NONE);
            if (s->batches != 0) {
                s->map[operand] = stator_emit_expr(
                    &s->e, "key + cast(batches, i64) * 6364136223846793005", "key, batches",
                    STATOR_IN(s->map[operand], s->batches), STATOR_NONE);
            }
        }
        stator_emit_clone(&s->e, s->from, node, node, s->map);
        s->map[operand] = kept;
    }
}

/* What the model itself writes, and statistics. */
static void write_kept(st_train_step *s)
{
    for (uint32_t k = 0; k < s->v->n_write_backs; k++) {
        const stator_write_back_row *row = stator_write_back_at(s->v, k);
        st_step_write(s, s->map[row->input], s->map[row->value]);
    }
    st_step_write_statistics(s);
}

static void write_outputs(st_train_step *s)
{
    stator_emit_output(&s->e, "loss", s->loss_value);
    if (s->rate != 0 && s->schedule != st_optim_find(ST_OPTIM_SCHEDULE, "constant")) {
        stator_emit_output(&s->e, "lr", s->rate);
    }
    for (uint32_t k = 0; (s->options.flags & STATOR_TRAIN_OUTPUTS) != 0 && k < s->n_outputs; k++) {
        char made[24];
        const char *name = st_joint_output_name(s->v, k, made);
        const bool is_taken = strcmp(name, "loss") == 0 || strcmp(name, "lr") == 0;
        char free_name[280];
        (void)snprintf(free_name, sizeof free_name, "%.256s%s", name, is_taken ? "_" : "");
        stator_emit_output(&s->e, free_name, s->map[stator_output_at(s->v, k)]);
    }
}

static stator_status allocate(st_train_step *s, stator_diag **err)
{
    const uint64_t n = s->v->n_inputs + UINT64_C(1);
    s->map = st_arena_zalloc(&s->arena, s->v->n_values + UINT64_C(1), sizeof *s->map);
    s->uses = st_arena_zalloc(&s->arena, n, 1);
    s->is_statistic = st_arena_zalloc(&s->arena, n, 1);
    s->trained = st_arena_zalloc(&s->arena, n, sizeof *s->trained);
    s->xs = st_arena_zalloc(&s->arena, n, sizeof *s->xs);
    s->grads = st_arena_zalloc(&s->arena, n, sizeof *s->grads);
    s->states = st_arena_zalloc(&s->arena, n * ST_STEP_STATES_MAX, sizeof *s->states);
    s->sums = st_arena_zalloc(&s->arena, n, sizeof *s->sums);
    ST_TRY_MEM(s->map && s->uses && s->is_statistic && s->trained && s->xs && s->grads &&
                   s->states && s->sums,
               err);
    for (stator_ref i = 1; i <= s->v->n_inputs; i++) {
        const uint32_t name = stator_value_at(s->v, i)->name;
        ST_TRY_MEM(name == 0 || st_map_put(&s->names, name, 1), err);
    }
    return STATOR_OK;
}

static stator_status build(st_train_step *s, stator_diag **err)
{
    ST_TRY(allocate(s, err));
    ST_TRY(st_step_read_rows(s, err));
    ST_TRY(st_step_find_statistics(s, err));
    ST_TRY(st_step_choose_inputs(s, err));
    if (s->loss != NULL || s->teacher != NULL) {
        ST_TRY(st_step_find_read(s->from, s->options.output, &s->read, err));
    }
    ST_TRY(st_step_match_teacher(s, err));
    st_step_add_data(s);
    st_step_add_teacher_params(s);
    if (s->loss != NULL) {
        st_step_add_target(s);
    }
    st_step_add_state(s);
    st_step_add_teacher_nodes(s);
    clone_nodes(s);
    st_step_write_loss(s);
    if (s->optimizer != NULL) {
        st_step_write_gradients(s);
        st_step_write_updates(s);
        write_kept(s);
    }
    write_outputs(s);
    return s->e.status;
}

static const char *autocast_pass(const stator_train_options *options)
{
    return options->amp == NULL ? NULL : st_step_is_f16(options) ? "autocast_f16" : "autocast";
}

static stator_status as_for_inference(st_module *module, stator_diag **err)
{
    const st_pass_ctx ctx = {.mem = module->mem};
    return st_pass_run(st_pass_find("inference"), &ctx, module->root, &module->root, err);
}

/* A backend's rules meet the forward part again; what they would make of it alone, such as one
 * norm of an exporter's reshapes, is differentiated as that. */
static stator_status prepare(st_module *module, const stator_train_options *options,
                             const char *output, stator_diag **err)
{
    const st_joint_wishes wishes = {
        .autocast = autocast_pass(options), .read = output, .is_normal = true};
    return st_joint_prepare(module, &wishes, err);
}

/* A name of the file that no value of the graph has becomes that of the value which stands for it,
 * as the operand of an Identity, or of a Dropout for inference. *out_text is the context's. */
static stator_status find_output(const stator_model *model, const st_module *module,
                                 const char **name, char **out_text, stator_diag **err)
{
    if (*name != NULL && st_joint_find_value(module->root, *name) == 0) {
        ST_TRY(st_model_find_alias(model, *name, out_text, err));
        *name = *out_text != NULL ? *out_text : *name;
    }
    return STATOR_OK;
}

static stator_status open_teacher(st_train_step *s, stator_diag **err)
{
    stator_train_options *o = &s->options;
    stator_diag *diag = NULL;
    if (o->teacher == NULL) {
        return STATOR_OK;
    }
    stator_status status = st_model_copy(o->teacher, &s->teacher, &diag);
    ST_THEN(status,
            find_output(o->teacher, s->teacher, &o->teacher_output, &s->teacher_alias, &diag));
    ST_THEN(status, as_for_inference(s->teacher, &diag));
    ST_THEN(status, prepare(s->teacher, o, o->teacher_output, &diag));
    ST_THEN(status, st_step_open_teacher(s, &diag));
    if (status != STATOR_OK) {
        st_diag_prefix(diag, "the teacher");
    }
    return st_diag_give(status, diag, err);
}

/* *out_roles, of the module's memory, is NULL after a failure. */
static stator_status make_step(st_module *module, const stator_train_options *options,
                               uint8_t **out_roles, stator_diag **err)
{
    stator_builder *b = NULL;
    if ((options->flags & STATOR_TRAIN_INFERENCE) != 0) {
        ST_TRY(as_for_inference(module, err));
    }
    const uint32_t n_outputs = st_graph_view(module->root)->n_outputs;
    ST_TRY(prepare(module, options, options->output, err));
    st_train_step s = {.options = *options,
                       .n_outputs = n_outputs,
                       .module = module,
                       .from = module->root,
                       .v = st_graph_view(module->root)};
    stator_status status = open_teacher(&s, err);
    s.roles = status == STATOR_OK ? st_calloc(module->mem, st_step_roles_room(&s), 1) : NULL;
    status = status == STATOR_OK && s.roles == NULL ? st_fail_oom(err) : status;
    ST_THEN(status, st_builder_create(module, stator_string_at(s.v, s.v->name), &b, err));
    if (status == STATOR_OK) {
        st_arena_init(&s.arena, module->mem);
        st_map_init(&s.names, module->mem);
        s.e = st_op_emitter(b, err);
        status = build(&s, err);
        st_map_deinit(&s.names);
        st_arena_deinit(&s.arena);
        status = st_joint_finish(b, status, err);
    }
    st_step_close_teacher(&s);
    if (status != STATOR_OK) {
        st_free(module->mem, s.roles);
        s.roles = NULL;
    }
    *out_roles = s.roles;
    return status;
}

/* A budget computes forward values again; a loss alone has no backward part. */
static stator_status keep_less(st_module *module, const stator_train_options *options,
                               stator_ctx *ctx, stator_diag **err)
{
    const st_keep_limits limits = {.budget = options->budget, .is_one_graph = true};
    return (options->flags & STATOR_TRAIN_BUDGET) == 0 || options->optimizer == NULL ||
                   (options->flags & STATOR_TRAIN_LOSS_ONLY) != 0
               ? STATOR_OK
               : st_joint_rematerialise(module, &limits, ctx, NULL, err);
}

stator_status stator_model_train_step(const stator_model *model,
                                      const stator_train_options *options, stator_model **out_step)
{
    *out_step = NULL;
    stator_diag *diag = NULL;
    st_module *copy = NULL;
    stator_train_options whole;
    uint8_t *roles = NULL;
    char *output = NULL;
    stator_status status = st_step_read_options(options, &whole, &diag);
    if (status == STATOR_OK && whole.teacher != NULL && whole.teacher->ctx != model->ctx) {
        status = st_fail(&diag, STATOR_INVALID_ARGUMENT,
                         "the teacher is a model of another context than the model that learns");
    }
    ST_THEN(status, st_model_copy(model, &copy, &diag));
    ST_THEN(status, find_output(model, copy, &whole.output, &output, &diag));
    ST_THEN(status, make_step(copy, &whole, &roles, &diag));
    ST_THEN(status, keep_less(copy, &whole, model->ctx, &diag));
    st_free(&model->ctx->mem, output);
    status = st_model_end_copy(model, copy, status, out_step, diag);
    if (status != STATOR_OK) {
        st_free(&model->ctx->mem, roles);
        return status;
    }
    (*out_step)->roles = roles;
    return STATOR_OK;
}
