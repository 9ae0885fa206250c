/* A step of training as a model: loss, gradients, and the new parameters, which are written where
 * the old ones lie; see stator/train.h. Losses, optimizers and schedules are rows of ir/optim.def.
 *
 *   (%x, param %w) { %y = ... }    gives    (%x, %target, %lr, %w, %exp_avg_w, .., %step) {
 *                                             %y = ...      %loss = mse_loss(%y, %target)
 *                                             (backward)    %w' = ..  %exp_avg_w' = ..
 *                                             return loss: %loss    write back %w' to %w, ... } */
#include "core/base/check.h"
#include "core/base/map.h"
#include "core/base/sized.h"
#include "core/base/str.h"
#include "core/host/joint.h"
#include "core/host/model.h"
#include "ir/builder.h"
#include "ir/gradient/gradient.h"
#include "ir/loss_scale.h"
#include "ir/op_emitter.h"
#include "ir/optim.h"
#include "ir/passes/pass.h"
#include <stator/train.h>

#include <stdio.h>
#include <string.h>

#define STATES_MAX 4u

typedef enum input_use {
    AS_IT_IS,
    TRAINED,
    KEPT, /* a parameter that the graph writes itself, or statistics: an input, not a constant */
} input_use;

typedef struct step {
    stator_train_options options;
    const st_optim_row *loss; /* NULL: an output is the loss */
    const st_optim_row *optimizer, *schedule;
    st_optim_values values;
    st_arena arena;
    st_module *module; /* a copy, which becomes the result */
    const stator_graph *from;
    const stator_graph_view *v;
    stator_emitter e;
    stator_ref *map;     /* values of `from` in the step */
    uint8_t *uses;       /* input_use, by input of `from` */
    stator_ref *trained; /* inputs of `from` */
    stator_ref *xs;      /* the same in the step */
    stator_ref *grads;   /* of these */
    stator_ref *states;  /* STATES_MAX for each; 0: none */
    stator_ref *sums;    /* gradients of the batches before, for each; 0: none */
    uint32_t n_trained;
    stator_ref target, lr, batches, seed, count; /* inputs of the step; 0: none */
    stator_ref loss_value, rate, t;
    st_loss_scale scale; /* of f16; all 0: the loss is not scaled */
    uint8_t *roles;      /* stator_train_role, by input of the step */
    st_map names;        /* of all inputs of `from`, which have them before those of the step */
} step;

/* ---- what is asked for ---- */

static const char *value_name(const step *s, stator_ref value)
{
    return stator_string_at(s->v, stator_value_at(s->v, value)->name);
}

static bool is_float(const step *s, stator_ref value)
{
    return st_dtype_class(stator_value_type(s->v, value)->dtype) == STATOR_CLASS_FLOAT;
}

#define GLOB_BYTES 256u

static stator_status check_globs(const char *globs, const char *option, stator_diag **err)
{
    while (globs != NULL && *globs != '\0') {
        const size_t n = strcspn(globs, ",");
        ST_FAIL_IF(n >= GLOB_BYTES, err, STATOR_INVALID_ARGUMENT,
                   "a glob of the option %s has %zu bytes, and at most %u are read", option, n,
                   GLOB_BYTES - 1u);
        globs += n + (globs[n] == ',');
    }
    return STATOR_OK;
}

/* Does one of the globs, which have commas between, match? They have been checked. */
static bool matches(const char *globs, const char *name)
{
    char glob[GLOB_BYTES];
    while (globs != NULL && *globs != '\0') {
        const size_t n = strcspn(globs, ",");
        (void)snprintf(glob, sizeof glob, "%.*s", (int)n, globs);
        if (st_glob(glob, name)) {
            return true;
        }
        globs += n + (globs[n] == ',');
    }
    return false;
}

static stator_status find_row(st_optim_kind kind, const char *name, const st_optim_row **out,
                              stator_diag **err)
{
    *out = st_optim_find(kind, name);
    return *out != NULL ? STATOR_OK : st_optim_fail_unknown(kind, name, err);
}

/* An output of the model has the name before a loss of the table has it. */
static stator_status find_loss(step *s, uint32_t *out_output, stator_diag **err)
{
    const char *name = s->options.loss;
    ST_FAIL_IF(name == NULL, err, STATOR_INVALID_ARGUMENT,
               "stator_train_options.loss is NULL: name a loss, or an output of the model");
    if (st_joint_find_output(s->from, name, out_output, NULL) == STATOR_OK) {
        const stator_ref value = stator_output_at(s->v, *out_output);
        ST_FAIL_IF(!is_float(s, value), err, STATOR_INVALID_ARGUMENT,
                   "output '%s' is %s, and a loss is of a float dtype", name,
                   st_dtype_name(stator_value_type(s->v, value)->dtype));
        return STATOR_OK;
    }
    *out_output = UINT32_MAX;
    return find_row(ST_OPTIM_LOSS, name, &s->loss, err);
}

static bool is_f16(const stator_train_options *options)
{
    return options->amp != NULL && strcmp(options->amp, "f16") == 0;
}

/* Is the loss multiplied by a scale, so that gradients in f16 are not lost? */
static bool is_scaled(const step *s)
{
    return s->optimizer != NULL && is_f16(&s->options);
}

static stator_status read_values(step *s, stator_diag **err)
{
    const stator_train_options *o = &s->options;
    const st_optim_row *used[] = {st_optim_find(ST_OPTIM_STEP, "step"), s->loss, s->optimizer,
                                  s->schedule};
    for (uint32_t i = 0; i < 4; i++) {
        if (used[i] != NULL) {
            ST_TRY(st_optim_values_add(&s->values, &s->arena, used[i], err));
        }
    }
    for (uint32_t i = 0; i < o->option_count; i++) {
        ST_TRY(st_optim_values_set(&s->values, &s->arena, o->option_keys[i], o->option_values[i],
                                   err));
    }
    ST_TRY(st_optim_values_check(&s->values, err));
    ST_TRY(check_globs(o->freeze, "freeze", err));
    ST_TRY(check_globs(st_optim_value(&s->values, "no_decay")->s, "no_decay", err));
    return is_scaled(s) ? st_loss_scale_check(&s->values, err) : (stator_status)STATOR_OK;
}

/* Is operand k of the node statistics that its row names? */
static const char *statistic(const st_op_def *def, uint32_t k, char name[48])
{
    uint32_t len = 0;
    char mark = 0;
    const char *text = def != NULL ? st_list_name(def->operands, k, &len, &mark) : NULL;
    (void)snprintf(name, 48, "%.*s", text != NULL ? (int)len : 0, text != NULL ? text : "");
    return text != NULL && def->statistics != NULL && st_list_has(def->statistics, name) ? name
                                                                                         : NULL;
}

/* The result of the node that becomes of these statistics; 0: none. */
static stator_ref new_statistic(const stator_node_row *row, const st_op_def *def, const char *name)
{
    char wanted[56], mark = 0;
    uint32_t len = 0;
    (void)snprintf(wanted, sizeof wanted, "new_%s", name);
    for (uint32_t k = 0; k < row->result_count; k++) {
        const char *text = st_list_name(def->results, k, &len, &mark);
        if (text != NULL && strlen(wanted) == len && strncmp(text, wanted, len) == 0) {
            return row->result_begin + k;
        }
    }
    return 0;
}

typedef void (*statistic_fn)(step *s, stator_ref input, stator_ref becomes);

/* Calls fn for each parameter that is a running statistic of a node. */
static void each_statistic(step *s, statistic_fn fn)
{
    for (stator_ref node = 1; node <= s->v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(s->v, node);
        const st_op_def *def = st_optable_at(s->module->ops, row->op)->def;
        for (uint32_t k = 0; k < row->operand_count; k++) {
            char name[48];
            const stator_ref input = stator_operand(s->v, row, k);
            if (input != 0 && input <= s->v->n_inputs &&
                (stator_value_at(s->v, input)->flags & STATOR_VALUE_PARAM) != 0 &&
                statistic(def, k, name) != NULL) {
                fn(s, input, new_statistic(row, def, name));
            }
        }
    }
}

static void keep_statistic(step *s, stator_ref input, stator_ref becomes)
{
    (void)becomes;
    s->uses[input] = KEPT;
}

static stator_status choose_inputs(step *s, stator_diag **err)
{
    uint32_t n_params = 0;
    each_statistic(s, keep_statistic);
    for (stator_ref i = 1; i <= s->v->n_inputs; i++) {
        const uint32_t flags = stator_value_at(s->v, i)->flags;
        if ((flags & STATOR_VALUE_PARAM) == 0 || s->uses[i] == KEPT) {
            continue;
        }
        if ((flags & STATOR_VALUE_WRITTEN) != 0) {
            s->uses[i] = KEPT;
        } else if (is_float(s, i)) {
            n_params++;
            if (!matches(s->options.freeze, value_name(s, i))) {
                s->uses[i] = TRAINED;
                s->trained[s->n_trained++] = i;
            }
        }
    }
    ST_FAIL_IF(s->n_trained == 0 && s->optimizer != NULL, err, STATOR_INVALID_ARGUMENT,
               n_params == 0 ? "the model has no parameter of a float dtype to train"
                             : "no parameter is left to train: all %u are frozen by '%s'",
               n_params, s->options.freeze);
    return STATOR_OK;
}

/* ---- inputs ---- */

/* Inputs that a step may have at most, and one: those of the model, and of each a copy that is
 * trained, states and a sum, and those of the step itself. */
static uint64_t roles_room(const step *s)
{
    return (s->v->n_inputs + UINT64_C(2)) * (STATES_MAX + 3u) + STATOR_ROLE_STEP;
}

static bool is_taken(const step *s, const char *name)
{
    const uint32_t string = st_module_string(s->module, name, strlen(name));
    return string != 0 && (st_map_get(&s->names, string) != 0 || st_build_has_input(s->e.b, name));
}

/* An input under a name that is free. */
static stator_ref new_input(step *s, enum stator_train_role role, const char *name,
                            stator_dtype dtype, uint32_t rank, const stator_ref *dims)
{
    char free_name[280];
    (void)snprintf(free_name, sizeof free_name, "%.256s", name);
    while (is_taken(s, free_name) && strlen(free_name) < sizeof free_name - 1u) {
        (void)strcat(free_name, "_");
    }
    const stator_ref type = st_module_type(s->module, dtype, rank, dims);
    if (!stator_emit_check(&s->e, type != 0 ? STATOR_OK : st_fail_oom(s->e.err))) {
        return 0;
    }
    const stator_ref input = stator_emit_input(&s->e, free_name, type);
    s->roles[input] = (uint8_t)role;
    return input;
}

static void add_states(step *s, uint32_t k)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = stator_emit_dims(&s->e, s->xs[k], dims);
    const stator_dtype dtype = stator_emit_dtype(&s->e, s->xs[k]);
    const char *p = s->optimizer->state;
    for (uint32_t i = 0; p != NULL && *p != '\0' && i < STATES_MAX; i++) {
        char item[64], name[272];
        p += strspn(p, ", ");
        const size_t n = strcspn(p, ",");
        (void)snprintf(item, sizeof item, "%.*s", (int)n, p);
        p += n;
        char *option = strchr(item, ':');
        if (option != NULL) {
            *option++ = '\0';
        }
        if (option == NULL || st_optim_is_on(&s->values, option)) {
            (void)snprintf(name, sizeof name, "%s_%.200s", item, value_name(s, s->trained[k]));
            s->states[k * STATES_MAX + i] =
                new_input(s, STATOR_ROLE_STATE, name, dtype == STATOR_F64 ? STATOR_F64 : STATOR_F32,
                          rank, dims);
        }
    }
}

/* A parameter as an input that a call has to give. */
static void open_parameter(step *s, stator_ref i)
{
    const stator_value_row *row = stator_value_at(s->v, i);
    s->map[i] = stator_emit_input(&s->e, value_name(s, i), row->type);
    s->roles[s->map[i]] = STATOR_ROLE_PARAMETER;
    if (s->e.status == STATOR_OK) {
        st_build_set_name(s->e.b, s->map[i], value_name(s, i));
    }
}

static void add_inputs(step *s)
{
    for (stator_ref i = 1; s->e.status == STATOR_OK && i <= s->v->n_inputs; i++) {
        if (s->uses[i] == AS_IT_IS) {
            stator_emit_check(&s->e, st_build_clone_input(s->e.b, s->from, i, s->map, s->e.err));
        }
    }
}

static bool is_random(const step *s)
{
    bool is_any = false;
    for (stator_ref node = 1; node <= s->v->n_nodes; node++) {
        is_any |=
            (stator_op_at(s->v, stator_node_at(s->v, node)->op)->flags & STATOR_OP_RANDOM) != 0;
    }
    return is_any;
}

/* Does a call write parameters? */
static bool is_updating(const step *s)
{
    return s->optimizer != NULL && (s->options.flags & STATOR_TRAIN_GRADIENTS_ONLY) == 0;
}

static bool is_accumulating(const step *s)
{
    const uint32_t flags = STATOR_TRAIN_ACCUMULATE | STATOR_TRAIN_GRADIENTS_ONLY;
    return s->optimizer != NULL && (s->options.flags & flags) != 0;
}

static void add_sum(step *s, uint32_t k)
{
    stator_ref dims[STATOR_RANK_MAX];
    char name[272];
    const uint32_t rank = stator_emit_dims(&s->e, s->xs[k], dims);
    const bool is_f64 = stator_emit_dtype(&s->e, s->xs[k]) == STATOR_F64;
    (void)snprintf(name, sizeof name, "sum_%.256s", value_name(s, s->trained[k]));
    s->sums[k] = new_input(s, STATOR_ROLE_SUM, name, is_f64 ? STATOR_F64 : STATOR_F32, rank, dims);
}

/* What is trained comes behind the data. */
static void add_training_inputs(step *s)
{
    s->lr = is_updating(s) ? new_input(s, STATOR_ROLE_RATE, "lr", STATOR_F64, 0, NULL) : 0;
    s->batches =
        is_accumulating(s) ? new_input(s, STATOR_ROLE_BATCHES, "batches", STATOR_F64, 0, NULL) : 0;
    s->seed = s->optimizer != NULL && is_random(s)
                  ? new_input(s, STATOR_ROLE_SEED, "seed", STATOR_I64, 0, NULL)
                  : 0;
    for (stator_ref i = 1; s->e.status == STATOR_OK && i <= s->v->n_inputs; i++) {
        if (s->uses[i] != AS_IT_IS) {
            open_parameter(s, i);
        }
    }
    for (uint32_t k = 0; s->e.status == STATOR_OK && k < s->n_trained; k++) {
        s->xs[k] = s->map[s->trained[k]];
        if (is_updating(s)) {
            add_states(s, k);
        }
        if (is_accumulating(s)) {
            add_sum(s, k);
        }
    }
    if (is_scaled(s)) {
        s->scale.scale = new_input(s, STATOR_ROLE_STATE, "loss_scale", STATOR_F32, 0, NULL);
        s->scale.growth =
            is_updating(s) ? new_input(s, STATOR_ROLE_STATE, "growth_tracker", STATOR_I64, 0, NULL)
                           : 0;
    }
    if (is_updating(s) || s->seed != 0) {
        s->count = new_input(s, STATOR_ROLE_STEP, "step", STATOR_I64, 0, NULL);
    }
}

/* ---- the loss ---- */

/* The output, or the value inside, that the loss reads. */
static stator_status find_read(const step *s, stator_ref *out, stator_diag **err)
{
    uint32_t k = 0;
    const char *name = s->options.output;
    ST_FAIL_IF(s->v->n_outputs == 0, err, STATOR_INVALID_ARGUMENT, "the model has no output");
    if (name == NULL || st_joint_find_output(s->from, name, &k, NULL) == STATOR_OK) {
        *out = stator_output_at(s->v, k);
        return STATOR_OK;
    }
    for (stator_ref value = 1; value <= s->v->n_values; value++) {
        if (strcmp(value_name(s, value), name) == 0) {
            *out = value;
            return STATOR_OK;
        }
    }
    return st_joint_find_output(s->from, name, &k, err);
}

/* Of what a loss reads: in mixed precision it has f32 at least. */
static stator_dtype read_dtype(const step *s, stator_ref read)
{
    const stator_dtype dtype = stator_value_type(s->v, read)->dtype;
    return s->options.amp != NULL && (dtype == STATOR_BF16 || dtype == STATOR_F16) ? STATOR_F32
                                                                                   : dtype;
}

/* The target of a loss that reads the value of `from`. */
static void add_target(step *s, stator_ref read)
{
    stator_ref dims[STATOR_RANK_MAX];
    const stator_type_row *type = stator_value_type(s->v, read);
    const bool is_index = strcmp(s->loss->targets, "index") == 0;
    uint32_t rank = 0;
    ST_FAIL_BY_IF((void)stator_emit_fail, is_index && type->rank < 2, &s->e,
                  STATOR_INVALID_ARGUMENT,
                  "the loss %s reads classes along axis 1, and what it reads has rank %u",
                  s->loss->name, type->rank);
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        if (!is_index || axis != 1) {
            dims[rank++] = stator_dim_at(s->v, type, axis);
        }
    }
    s->target = new_input(s, STATOR_ROLE_TARGET, "target",
                          is_index ? STATOR_I64 : read_dtype(s, read), rank, dims);
}

static stator_ref run_program(step *s, const st_optim_row *row, const char *names, uint32_t n,
                              const stator_ref *values)
{
    return stator_emit_expr(&s->e, row->program, names, n, values, s->values.count,
                            s->values.attrs);
}

/* The value of `from` as a loss: a scalar. */
static void write_loss(step *s, stator_ref read)
{
    st_build_set_origin(s->e.b, "loss", s->options.loss, NULL, 0);
    const stator_ref x = stator_emit_cast(&s->e, s->map[read], read_dtype(s, read));
    s->loss_value = s->loss != NULL
                        ? run_program(s, s->loss, "x, target", STATOR_IN(x, s->target))
                        : stator_emit_expr(&s->e, "reduce_sum(x, axes=range(0, rank(x)))", "x",
                                           STATOR_IN(x), STATOR_NONE);
    st_build_set_name(s->e.b, s->loss_value, "loss");
    st_build_set_origin_ref(s->e.b, 0);
}

/* ---- the step ---- */

/* Random numbers are others in each step: the seed of a node is mixed with that of the call. */
static void clone_nodes(step *s)
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

static stator_ref scalar_like(step *s, stator_ref value, stator_ref like)
{
    return stator_emit_cast(&s->e, value, stator_emit_dtype(&s->e, like));
}

/* What the gradients of the loss begin with: 1, or the scale. */
static stator_ref loss_seed(step *s)
{
    const stator_ref loss = s->loss_value;
    if (!is_scaled(s)) {
        return stator_emit_expr(&s->e, "ones_like(y)", "y", STATOR_IN(loss), STATOR_NONE);
    }
    st_loss_scale_begin(&s->e, &s->values, &s->scale);
    return scalar_like(s, s->scale.now, loss);
}

static void write_gradients(step *s)
{
    const stator_ref loss = s->loss_value;
    st_build_set_origin_ref(
        s->e.b, st_module_origin_backward(
                    s->module, st_module_origin(s->module, "loss", "", NULL, 0), "loss"));
    const stator_ref seed = loss_seed(s);
    st_build_set_origin_ref(s->e.b, 0);
    const st_gradient_request request = {
        .n_y = 1, .n_x = s->n_trained, .ys = &loss, .seeds = &seed, .xs = s->xs};
    if (s->e.status == STATOR_OK) {
        stator_emit_check(&s->e, st_gradient_many(s->e.b, &request, s->grads, s->e.err));
    }
    st_build_set_origin(s->e.b, "loss_scale", "loss_scale", NULL, 0);
    for (uint32_t k = 0; is_scaled(s) && k < s->n_trained; k++) {
        s->grads[k] = st_loss_scale_remove(&s->e, &s->scale, s->grads[k]);
    }
    st_build_set_origin_ref(s->e.b, 0);
}

/* Was any gradient not finite? Then the step is skipped, where the loss is scaled. */
static void judge_gradients(step *s)
{
    if (!is_scaled(s)) {
        return;
    }
    st_build_set_origin(s->e.b, "loss_scale", "loss_scale", NULL, 0);
    st_loss_scale_judge(&s->e, &s->scale, s->grads, s->n_trained);
    st_loss_scale_update(&s->e, &s->values, &s->scale);
    st_build_set_origin_ref(s->e.b, 0);
}

/* A call writes the value, unless it skips the step. */
static void write_value(step *s, stator_ref input, stator_ref value)
{
    const bool may_be_skipped = s->scale.is_finite != 0;
    stator_emit_write_back(
        &s->e, input, may_be_skipped ? st_loss_scale_keep(&s->e, &s->scale, input, value) : value);
}

/* The factor that brings the norm of all gradients to clip_norm where it is larger. */
static stator_ref norm_factor(step *s)
{
    stator_ref sum = 0;
    for (uint32_t k = 0; k < s->n_trained; k++) {
        const stator_ref part =
            stator_emit_expr(&s->e, "x = wide(g); reduce_sum(x * x, axes=range(0, rank(x)))", "g",
                             STATOR_IN(s->grads[k]), STATOR_NONE);
        sum = sum == 0 ? part : stator_emit_binary(&s->e, "add", sum, scalar_like(s, part, sum));
    }
    return stator_emit_expr(&s->e, "min(clip_norm / (sqrt(s) + 1e-6), 1)", "s", STATOR_IN(sum),
                            s->values.count, s->values.attrs);
}

/* Gradients of the batches before are added; the mean of all goes on, or their sum is kept. */
static void accumulate(step *s)
{
    st_build_set_origin(s->e.b, "accumulate", "accumulate", NULL, 0);
    for (uint32_t k = 0; k < s->n_trained; k++) {
        const stator_ref total = stator_emit_expr(&s->e, "sum + cast(g, sum)", "g, sum",
                                                  STATOR_IN(s->grads[k], s->sums[k]), STATOR_NONE);
        const stator_ref kept = is_updating(s)
                                    ? stator_emit_expr(&s->e, "zeros_like(sum)", "sum",
                                                       STATOR_IN(s->sums[k]), STATOR_NONE)
                                    : total;
        stator_emit_write_back(&s->e, s->sums[k], kept);
        s->grads[k] = stator_emit_expr(&s->e, "sum / cast(batches, sum)", "sum, batches",
                                       STATOR_IN(total, s->batches), STATOR_NONE);
    }
    st_build_set_origin_ref(s->e.b, 0);
}

static void clip(step *s)
{
    const bool by_norm = st_optim_is_on(&s->values, "clip_norm");
    const bool by_value = st_optim_is_on(&s->values, "clip_value");
    st_build_set_origin(s->e.b, "clip", "clip", NULL, 0);
    const stator_ref factor = by_norm ? norm_factor(s) : 0;
    for (uint32_t k = 0; k < s->n_trained; k++) {
        stator_ref *g = &s->grads[k];
        if (by_norm) {
            *g = stator_emit_binary(&s->e, "mul", *g, scalar_like(s, factor, *g));
        }
        if (by_value) {
            *g = stator_emit_expr(&s->e, "min(max(g, -clip_value), clip_value)", "g", STATOR_IN(*g),
                                  s->values.count, s->values.attrs);
        }
    }
    st_build_set_origin_ref(s->e.b, 0);
}

/* Names of p, g, lr, t and the states, as the optimizer's program sees them. */
static uint32_t list_names(const step *s, char text[STATES_MAX][64],
                           const char *names[4u + STATES_MAX])
{
    static const char *const own[] = {"p", "g", "lr", "t"};
    const char *p = s->optimizer->state;
    uint32_t n = 0;
    memcpy((void *)names, (const void *)own, sizeof own);
    for (; p != NULL && *p != '\0' && n < STATES_MAX; n++) {
        p += strspn(p, ", ");
        (void)snprintf(text[n], 64, "%.*s", (int)strcspn(p, ",:"), p);
        p += strcspn(p, ",");
        names[4u + n] = text[n];
    }
    return 4u + n;
}

/* A parameter's new value and states, written back. */
static void update(step *s, uint32_t k)
{
    char text[STATES_MAX][64];
    const char *names[4u + STATES_MAX];
    const uint32_t n = list_names(s, text, names);
    const char *no_decay = st_optim_value(&s->values, "no_decay")->s;
    stator_attr attrs[ST_OPTIM_VALUES_MAX];
    stator_ref values[4u + STATES_MAX], results[1u + STATES_MAX] = {0};
    memcpy(attrs, s->values.attrs, s->values.count * sizeof *attrs);
    for (uint32_t i = 0; i < s->values.count; i++) {
        if (strcmp(attrs[i].name, "weight_decay") == 0 &&
            matches(no_decay, value_name(s, s->trained[k]))) {
            attrs[i].f = 0;
        }
    }
    values[0] = stator_emit_wide(&s->e, s->xs[k]);
    values[1] = stator_emit_cast(&s->e, s->grads[k], stator_emit_dtype(&s->e, values[0]));
    values[2] = s->rate;
    values[3] = s->t;
    memcpy(values + 4, s->states + (size_t)k * STATES_MAX, STATES_MAX * sizeof *values);
    if (s->e.status == STATOR_OK) {
        stator_emit_check(&s->e, st_build_expr(s->e.b, s->optimizer->program, n, names, values,
                                               s->values.count, attrs, n - 3u, results, s->e.err));
    }
    write_value(s, s->xs[k], scalar_like(s, results[0], s->xs[k]));
    for (uint32_t i = 0; i + 4u < n; i++) {
        const stator_ref state = values[4u + i];
        if (state != 0) {
            write_value(s, state, scalar_like(s, results[1u + i], state));
        }
    }
}

static void write_rate(step *s)
{
    st_build_set_origin(s->e.b, "lr", s->schedule->name, NULL, 0);
    s->t = stator_emit_expr(&s->e, "cast(n, f64) + 1", "n", STATOR_IN(s->count), STATOR_NONE);
    s->rate = run_program(s, s->schedule, "lr, t", STATOR_IN(s->lr, s->t));
}

static void write_updates(step *s)
{
    for (uint32_t k = 0; s->e.status == STATOR_OK && k < s->n_trained; k++) {
        char name[280];
        (void)snprintf(name, sizeof name, "update of %.256s", value_name(s, s->trained[k]));
        st_build_set_origin(s->e.b, name, s->optimizer->name, NULL, 0);
        update(s, k);
    }
    st_build_set_origin(s->e.b, "step", "step", NULL, 0);
    const stator_ref next = stator_emit_expr(&s->e, "n + 1", "n", STATOR_IN(s->count), STATOR_NONE);
    write_value(s, s->count, next);
    st_build_set_origin_ref(s->e.b, 0);
}

static bool is_written(const step *s, stator_ref input)
{
    return s->e.status != STATOR_OK ||
           (stator_value_at(st_graph_view(s->e.b->graph), input)->flags & STATOR_VALUE_WRITTEN) !=
               0;
}

static void write_statistic(step *s, stator_ref input, stator_ref becomes)
{
    if (becomes != 0 && !is_written(s, s->map[input])) {
        write_value(s, s->map[input], s->map[becomes]);
    }
}

/* What the model itself writes, and statistics. */
static void write_kept(step *s)
{
    for (uint32_t k = 0; k < s->v->n_write_backs; k++) {
        const stator_write_back_row *row = stator_write_back_at(s->v, k);
        write_value(s, s->map[row->input], s->map[row->value]);
    }
    each_statistic(s, write_statistic);
}

static void write_outputs(step *s)
{
    stator_emit_output(&s->e, "loss", s->loss_value);
    if (s->rate != 0 && s->schedule != st_optim_find(ST_OPTIM_SCHEDULE, "constant")) {
        stator_emit_output(&s->e, "lr", s->rate);
    }
    for (uint32_t k = 0; (s->options.flags & STATOR_TRAIN_OUTPUTS) != 0 && k < s->v->n_outputs;
         k++) {
        char made[24];
        const char *name = st_joint_output_name(s->v, k, made);
        const bool is_taken = strcmp(name, "loss") == 0 || strcmp(name, "lr") == 0;
        char free_name[280];
        (void)snprintf(free_name, sizeof free_name, "%.256s%s", name, is_taken ? "_" : "");
        stator_emit_output(&s->e, free_name, s->map[stator_output_at(s->v, k)]);
    }
}

/* ---- the whole ---- */

static stator_status allocate(step *s, stator_diag **err)
{
    const uint64_t n = s->v->n_inputs + UINT64_C(1);
    s->map = st_arena_zalloc(&s->arena, s->v->n_values + UINT64_C(1), sizeof *s->map);
    s->uses = st_arena_zalloc(&s->arena, n, 1);
    s->trained = st_arena_zalloc(&s->arena, n, sizeof *s->trained);
    s->xs = st_arena_zalloc(&s->arena, n, sizeof *s->xs);
    s->grads = st_arena_zalloc(&s->arena, n, sizeof *s->grads);
    s->states = st_arena_zalloc(&s->arena, n * STATES_MAX, sizeof *s->states);
    s->sums = st_arena_zalloc(&s->arena, n, sizeof *s->sums);
    ST_TRY_MEM(s->map && s->uses && s->trained && s->xs && s->grads && s->states && s->sums, err);
    for (stator_ref i = 1; i <= s->v->n_inputs; i++) {
        const uint32_t name = stator_value_at(s->v, i)->name;
        ST_TRY_MEM(name == 0 || st_map_put(&s->names, name, 1), err);
    }
    return STATOR_OK;
}

static stator_status build(step *s, stator_diag **err)
{
    uint32_t output = 0;
    stator_ref read = 0;
    ST_TRY(allocate(s, err));
    ST_TRY(find_loss(s, &output, err));
    if (s->options.optimizer != NULL) {
        const char *schedule = s->options.schedule != NULL ? s->options.schedule : "constant";
        ST_TRY(find_row(ST_OPTIM_OPTIMIZER, s->options.optimizer, &s->optimizer, err));
        ST_TRY(find_row(ST_OPTIM_SCHEDULE, schedule, &s->schedule, err));
    }
    ST_TRY(read_values(s, err));
    if ((s->options.flags & STATOR_TRAIN_LOSS_ONLY) != 0) {
        s->optimizer = NULL;
        s->schedule = NULL;
    }
    ST_TRY(choose_inputs(s, err));
    if (s->loss != NULL) {
        ST_TRY(find_read(s, &read, err));
    } else {
        read = stator_output_at(s->v, output);
    }
    add_inputs(s);
    if (s->loss != NULL) {
        add_target(s, read);
    }
    add_training_inputs(s);
    clone_nodes(s);
    write_loss(s, read);
    if (s->optimizer != NULL) {
        write_gradients(s);
        if (is_accumulating(s)) {
            accumulate(s);
        }
        if (is_updating(s)) {
            judge_gradients(s);
            clip(s);
            write_rate(s);
            write_updates(s);
        }
        write_kept(s);
    }
    write_outputs(s);
    return s->e.status;
}

/* A backend's rules meet the forward part again; what they would make of it alone, such as one
 * norm of an exporter's reshapes, is differentiated as that. A value inside that `output` names
 * stays. */
static stator_status normalise(st_module *module, const stator_train_options *options,
                               stator_diag **err)
{
    const st_pass_ctx ctx = {.mem = module->mem};
    return options->output != NULL
               ? STATOR_OK
               : st_pass_run(st_pass_find("canonicalize"), &ctx, module->root, &module->root, err);
}

static const char *autocast_pass(const stator_train_options *options)
{
    return options->amp == NULL ? NULL : is_f16(options) ? "autocast_f16" : "autocast";
}

/* *out_roles, of the module's memory, is NULL after a failure. */
static stator_status make_step(st_module *module, const stator_train_options *options,
                               uint8_t **out_roles, stator_diag **err)
{
    stator_builder *b = NULL;
    ST_TRY(st_joint_prepare(module, autocast_pass(options), err));
    ST_TRY(normalise(module, options, err));
    step s = {.options = *options,
              .module = module,
              .from = module->root,
              .v = st_graph_view(module->root)};
    s.roles = st_calloc(module->mem, roles_room(&s), 1);
    ST_TRY_MEM(s.roles, err);
    stator_status status = st_builder_create(module, stator_string_at(s.v, s.v->name), &b, err);
    if (status == STATOR_OK) {
        st_arena_init(&s.arena, module->mem);
        st_map_init(&s.names, module->mem);
        s.e = st_op_emitter(b, err);
        status = build(&s, err);
        st_map_deinit(&s.names);
        st_arena_deinit(&s.arena);
        status = st_joint_finish(b, status, err);
    }
    if (status != STATOR_OK) {
        st_free(module->mem, s.roles);
        s.roles = NULL;
    }
    *out_roles = s.roles;
    return status;
}

static stator_status read_options(const stator_train_options *given, stator_train_options *out,
                                  stator_diag **err)
{
    static const stator_train_options nothing = {.struct_size = sizeof nothing};
    ST_TRY(ST_SIZED_READ(stator_train_options, out, given != NULL ? given : &nothing, err));
    ST_TRY(st_check_flags(out->flags,
                          STATOR_TRAIN_OUTPUTS | STATOR_TRAIN_LOSS_ONLY | STATOR_TRAIN_ACCUMULATE |
                              STATOR_TRAIN_GRADIENTS_ONLY,
                          "stator_train_options.flags", err));
    ST_FAIL_IF(out->amp != NULL && strcmp(out->amp, "bf16") != 0 && strcmp(out->amp, "f16") != 0,
               err, STATOR_INVALID_ARGUMENT, "amp is '%s', expected bf16 or f16", out->amp);
    ST_FAIL_IF(out->option_count != 0 && (out->option_keys == NULL || out->option_values == NULL),
               err, STATOR_INVALID_ARGUMENT, "the list of options is NULL and not empty");
    for (uint32_t k = 0; k < out->option_count; k++) {
        ST_FAIL_IF(out->option_keys[k] == NULL || out->option_values[k] == NULL, err,
                   STATOR_INVALID_ARGUMENT, "option %u is NULL", k);
    }
    return STATOR_OK;
}

stator_status stator_model_train_step(const stator_model *model,
                                      const stator_train_options *options, stator_model **out_step)
{
    *out_step = NULL;
    stator_diag *diag = NULL;
    st_module *copy = NULL;
    stator_train_options whole;
    uint8_t *roles = NULL;
    stator_status status = read_options(options, &whole, &diag);
    ST_THEN(status, st_model_copy(model, &copy, &diag));
    ST_THEN(status, make_step(copy, &whole, &roles, &diag));
    status = st_model_end_copy(model, copy, status, out_step, diag);
    if (status != STATOR_OK) {
        st_free(&model->ctx->mem, roles);
        return status;
    }
    (*out_step)->roles = roles;
    return STATOR_OK;
}
