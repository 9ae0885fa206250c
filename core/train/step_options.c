/* What a training step is asked for: the rows of ir/optim.def that it is made of, and their
 * options. */
#include "core/base/check.h"
#include "core/base/sized.h"
#include "core/base/str.h"
#include "core/train/joint.h"
#include "core/train/train_step.h"

#include <stdio.h>
#include <string.h>

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

bool st_step_matches(const char *globs, const char *name)
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

const char *st_step_value_name(const st_train_step *s, stator_ref value)
{
    return stator_string_at(s->v, stator_value_at(s->v, value)->name);
}

const char *st_step_node_name(const stator_graph_view *v, stator_ref node)
{
    const char *name = stator_node_origin(v, node);
    return name[0] != '\0' ? name : stator_op_at(v, stator_node_at(v, node)->op)->name;
}

bool st_step_is_float(const st_train_step *s, stator_ref value)
{
    return st_dtype_class(stator_value_type(s->v, value)->dtype) == STATOR_CLASS_FLOAT;
}

static stator_status find_row(st_optim_kind kind, const char *name, const st_optim_row **out,
                              stator_diag **err)
{
    *out = st_optim_find(kind, name);
    return *out != NULL ? STATOR_OK : st_optim_fail_unknown(kind, name, err);
}

/* An output of the model has the name before a loss of the table has it. */
static stator_status find_loss(st_train_step *s, stator_diag **err)
{
    const char *name = s->options.loss;
    uint32_t output = 0;
    if (name == NULL && s->teacher != NULL) {
        return STATOR_OK;
    }
    ST_FAIL_IF(name == NULL, err, STATOR_INVALID_ARGUMENT,
               "stator_train_options.loss is NULL: name a loss, or an output of the model");
    if (st_joint_find_output(s->from, name, &output, NULL) == STATOR_OK && output < s->n_outputs) {
        s->own_loss = stator_output_at(s->v, output);
        ST_FAIL_IF(s->options.output != NULL && s->teacher == NULL, err, STATOR_INVALID_ARGUMENT,
                   "output is given, which names what a loss of the table reads, and the loss "
                   "'%s' is an output of the model itself",
                   name);
        ST_FAIL_IF(!st_step_is_float(s, s->own_loss), err, STATOR_INVALID_ARGUMENT,
                   "output '%s' is %s, and a loss is of a float dtype", name,
                   st_dtype_name(stator_value_type(s->v, s->own_loss)->dtype));
        return STATOR_OK;
    }
    return find_row(ST_OPTIM_LOSS, name, &s->loss, err);
}

/* A loss whose target may be a teacher's output. */
static stator_status find_teacher_loss(st_train_step *s, stator_diag **err)
{
    const char *name =
        s->options.teacher_loss != NULL ? s->options.teacher_loss : STATOR_TEACHER_LOSS;
    ST_TRY(find_row(ST_OPTIM_LOSS, name, &s->teacher_loss, err));
    ST_FAIL_IF(strcmp(s->teacher_loss->targets, "like") != 0, err, STATOR_INVALID_ARGUMENT,
               "the loss %s compares with class indices, and a teacher gives scores; expected one "
               "whose target is of the type of what it reads, as kl_div",
               name);
    return STATOR_OK;
}

bool st_step_is_f16(const stator_train_options *options)
{
    return options->amp != NULL && strcmp(options->amp, "f16") == 0;
}

bool st_step_is_scaled(const st_train_step *s)
{
    return s->optimizer != NULL && st_step_is_f16(&s->options);
}

bool st_step_is_updating(const st_train_step *s)
{
    return s->optimizer != NULL && (s->options.flags & STATOR_TRAIN_GRADIENTS_ONLY) == 0;
}

bool st_step_is_accumulating(const st_train_step *s)
{
    const uint32_t flags = STATOR_TRAIN_ACCUMULATE | STATOR_TRAIN_GRADIENTS_ONLY;
    return s->optimizer != NULL && (s->options.flags & flags) != 0;
}

/* A weight stands between two losses. */
static stator_status check_teacher_weight(st_train_step *s, stator_diag **err)
{
    const stator_attr *weight = st_optim_value(&s->values, "teacher_weight");
    if (weight == NULL) {
        return STATOR_OK;
    }
    ST_FAIL_IF(s->options.loss == NULL && s->values.is_given[weight - s->values.attrs], err,
               STATOR_INVALID_ARGUMENT,
               "option teacher_weight is given, and no loss beside the teacher's that it weighs");
    return STATOR_OK;
}

/* What nesterov adds is a step along the momentum, undampened (as torch.optim.SGD demands). */
static stator_status check_nesterov(const st_train_step *s, stator_diag **err)
{
    const bool has_momentum = st_optim_is_on(&s->values, "momentum");
    ST_FAIL_IF(st_optim_is_on(&s->values, "nesterov") &&
                   (!has_momentum || st_optim_is_on(&s->values, "dampening")),
               err, STATOR_INVALID_ARGUMENT,
               "option nesterov needs a momentum and no dampening, and %s",
               has_momentum ? "dampening is not 0" : "momentum is 0");
    return STATOR_OK;
}

/* A rise through all steps is a ramp; one that is longer never comes to the rate that is asked for
 * (torch.optim.lr_scheduler.OneCycleLR refuses it too, LinearLR and transformers take it). */
static stator_status check_warmup(st_train_step *s, stator_diag **err)
{
    const stator_attr *warmup = st_optim_value(&s->values, "warmup");
    const stator_attr *total = st_optim_value(&s->values, "total_steps");
    ST_FAIL_IF(warmup != NULL && total != NULL && warmup->i > total->i, err,
               STATOR_INVALID_ARGUMENT,
               "option warmup is %lld, more than total_steps, which is %lld: the rate would not "
               "have risen to lr when the schedule ends",
               (long long)warmup->i, (long long)total->i);
    return STATOR_OK;
}

static stator_status read_values(st_train_step *s, stator_diag **err)
{
    const stator_train_options *o = &s->options;
    const st_optim_row *used[] = {st_optim_find(ST_OPTIM_STEP, "step"),
                                  st_step_is_f16(o) ? st_optim_find(ST_OPTIM_STEP, "f16") : NULL,
                                  s->teacher != NULL ? st_optim_find(ST_OPTIM_STEP, "teacher")
                                                     : NULL,
                                  s->loss,
                                  s->teacher_loss,
                                  s->optimizer,
                                  s->schedule};
    for (uint32_t i = 0; i < sizeof used / sizeof used[0]; i++) {
        if (used[i] != NULL) {
            ST_TRY(st_optim_values_add(&s->values, &s->arena, used[i], err));
        }
    }
    for (uint32_t i = 0; i < o->option_count; i++) {
        ST_TRY(st_optim_values_set(&s->values, &s->arena, o->option_keys[i], o->option_values[i],
                                   err));
    }
    ST_TRY(st_optim_values_check(&s->values, err));
    ST_TRY(check_teacher_weight(s, err));
    ST_TRY(check_nesterov(s, err));
    ST_TRY(check_warmup(s, err));
    ST_TRY(check_globs(o->freeze, "freeze", err));
    return check_globs(st_optim_value(&s->values, "no_decay")->s, "no_decay", err);
}

stator_status st_step_read_options(const stator_train_options *given, stator_train_options *out,
                                   stator_diag **err)
{
    static const stator_train_options nothing = {.struct_size = sizeof nothing};
    ST_TRY(ST_SIZED_READ(stator_train_options, out, given != NULL ? given : &nothing, err));
    ST_TRY(st_check_flags(out->flags,
                          STATOR_TRAIN_OUTPUTS | STATOR_TRAIN_LOSS_ONLY | STATOR_TRAIN_ACCUMULATE |
                              STATOR_TRAIN_GRADIENTS_ONLY | STATOR_TRAIN_BUDGET |
                              STATOR_TRAIN_INFERENCE,
                          "stator_train_options.flags", err));
    ST_FAIL_IF(out->amp != NULL && strcmp(out->amp, "bf16") != 0 && strcmp(out->amp, "f16") != 0,
               err, STATOR_INVALID_ARGUMENT, "amp is '%s', expected bf16 or f16", out->amp);
    ST_FAIL_IF((out->flags & STATOR_TRAIN_BUDGET) != 0 && !(out->budget >= 0 && out->budget <= 1),
               err, STATOR_INVALID_ARGUMENT, "the budget %g is not from 0 to 1", out->budget);
    ST_FAIL_IF(out->teacher == NULL && (out->teacher_output != NULL || out->teacher_loss != NULL),
               err, STATOR_INVALID_ARGUMENT,
               "%s is given, and stator_train_options.teacher is NULL",
               out->teacher_output != NULL ? "teacher_output" : "teacher_loss");
    ST_FAIL_IF(out->option_count != 0 && (out->option_keys == NULL || out->option_values == NULL),
               err, STATOR_INVALID_ARGUMENT, "the list of options is NULL and not empty");
    for (uint32_t k = 0; k < out->option_count; k++) {
        ST_FAIL_IF(out->option_keys[k] == NULL || out->option_values[k] == NULL, err,
                   STATOR_INVALID_ARGUMENT, "option %u is NULL", k);
    }
    return STATOR_OK;
}

stator_status st_step_read_rows(st_train_step *s, stator_diag **err)
{
    ST_TRY(find_loss(s, err));
    ST_TRY(s->teacher != NULL ? find_teacher_loss(s, err) : (stator_status)STATOR_OK);
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
    return STATOR_OK;
}
