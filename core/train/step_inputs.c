/* The inputs of a training step: the model's data, what is trained, and the optimizer's states. */
#include "core/base/check.h"
#include "core/base/str.h"
#include "core/train/train_step.h"

#include <stdio.h>
#include <string.h>

/* A parameter is trained, or stays as freeze says or since the call writes it itself. */
static void choose_parameter(st_train_step *s, stator_ref i)
{
    const bool is_frozen = st_step_matches(s->options.freeze, st_step_value_name(s, i));
    if ((stator_value_at(s->v, i)->flags & STATOR_VALUE_WRITTEN) != 0 ||
        (s->is_statistic[i] != 0 && !is_frozen)) {
        s->uses[i] = ST_INPUT_KEPT;
    } else if (s->is_statistic[i] == 0 && st_step_is_float(s, i) && !is_frozen) {
        s->uses[i] = ST_INPUT_TRAINED;
        s->trained[s->n_trained++] = i;
    }
}

stator_status st_step_choose_inputs(st_train_step *s, stator_diag **err)
{
    uint32_t n_params = 0;
    for (stator_ref i = 1; i <= s->v->n_inputs; i++) {
        if ((stator_value_at(s->v, i)->flags & STATOR_VALUE_PARAM) != 0) {
            choose_parameter(s, i);
            n_params +=
                st_step_is_float(s, i) && s->is_statistic[i] == 0 && s->uses[i] != ST_INPUT_KEPT;
        }
    }
    ST_FAIL_IF(s->n_trained == 0 && s->optimizer != NULL, err, STATOR_INVALID_ARGUMENT,
               n_params == 0 ? "the model has no parameter of a float dtype to train"
                             : "no parameter is left to train: all %u are frozen by '%s'",
               n_params, s->options.freeze);
    return STATOR_OK;
}

/* Inputs that a step may have at most, and one: those of the model, and of each a copy that is
 * trained, states and a sum, those of the teacher, and those of the step itself. */
uint64_t st_step_roles_room(const st_train_step *s)
{
    const uint64_t n_taught = s->teacher != NULL ? s->teacher->root->n_inputs : 0;
    return (s->v->n_inputs + UINT64_C(2)) * (ST_STEP_STATES_MAX + 3u) + n_taught + STATOR_ROLE_STEP;
}

static bool is_taken(const st_train_step *s, const char *name)
{
    const uint32_t string = st_module_string(s->module, name, strlen(name));
    return string != 0 && (st_map_get(&s->names, string) != 0 || st_build_has_input(s->e.b, name));
}

const char *st_step_free_name(st_train_step *s, const char *prefix, const char *name)
{
    st_str text;
    st_str_init(&text, s->module->mem);
    st_str_addf(&text, "%s%s", prefix, name);
    while (st_str_ok(&text) && is_taken(s, text.data)) {
        st_str_add(&text, "_");
    }
    const uint32_t string = st_str_ok(&text) ? st_module_string(s->module, text.data, text.len) : 0;
    st_str_deinit(&text);
    stator_emit_check(&s->e, string != 0 ? STATOR_OK : st_fail_oom(s->e.err));
    return st_module_str(s->module, string);
}

stator_ref st_step_input(st_train_step *s, enum stator_train_role role, const char *name,
                         stator_dtype dtype, uint32_t rank, const stator_ref *dims)
{
    const char *free_name = st_step_free_name(s, "", name);
    const stator_ref type = st_module_type(s->module, dtype, rank, dims);
    if (!stator_emit_check(&s->e, type != 0 ? STATOR_OK : st_fail_oom(s->e.err))) {
        return 0;
    }
    const stator_ref input = stator_emit_input(&s->e, free_name, type);
    s->roles[input] = (uint8_t)role;
    return input;
}

static void add_states(st_train_step *s, uint32_t k)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = stator_emit_dims(&s->e, s->xs[k], dims);
    const stator_dtype dtype = stator_emit_dtype(&s->e, s->xs[k]);
    const char *p = s->optimizer->state;
    for (uint32_t i = 0; p != NULL && *p != '\0' && i < ST_STEP_STATES_MAX; i++) {
        char item[64], prefix[72];
        p += strspn(p, ", ");
        const size_t n = strcspn(p, ",");
        (void)snprintf(item, sizeof item, "%.*s", (int)n, p);
        p += n;
        char *option = strchr(item, ':');
        if (option != NULL) {
            *option++ = '\0';
        }
        if (option == NULL || st_optim_is_on(&s->values, option)) {
            (void)snprintf(prefix, sizeof prefix, "%s_", item);
            s->states[k * ST_STEP_STATES_MAX + i] =
                st_step_input(s, STATOR_ROLE_STATE,
                              st_step_free_name(s, prefix, st_step_value_name(s, s->trained[k])),
                              dtype == STATOR_F64 ? STATOR_F64 : STATOR_F32, rank, dims);
        }
    }
}

/* A parameter as an input that a call has to give. */
static void open_parameter(st_train_step *s, stator_ref i)
{
    const stator_value_row *row = stator_value_at(s->v, i);
    s->map[i] = stator_emit_input(&s->e, st_step_value_name(s, i), row->type);
    s->roles[s->map[i]] = STATOR_ROLE_PARAMETER;
    if (s->e.status == STATOR_OK) {
        st_build_set_name(s->e.b, s->map[i], st_step_value_name(s, i));
    }
}

void st_step_add_data(st_train_step *s)
{
    for (stator_ref i = 1; s->e.status == STATOR_OK && i <= s->v->n_inputs; i++) {
        if (s->uses[i] == ST_INPUT_AS_IT_IS) {
            stator_emit_check(&s->e, st_build_clone_input(s->e.b, s->from, i, s->map, s->e.err));
        }
    }
}

static bool is_random(const st_train_step *s)
{
    bool is_any = false;
    for (stator_ref node = 1; node <= s->v->n_nodes; node++) {
        is_any |=
            (stator_op_at(s->v, stator_node_at(s->v, node)->op)->flags & STATOR_OP_RANDOM) != 0;
    }
    return is_any;
}

static void add_sum(st_train_step *s, uint32_t k)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = stator_emit_dims(&s->e, s->xs[k], dims);
    const bool is_f64 = stator_emit_dtype(&s->e, s->xs[k]) == STATOR_F64;
    const char *name = st_step_free_name(s, "sum_", st_step_value_name(s, s->trained[k]));
    s->sums[k] =
        st_step_input(s, STATOR_ROLE_SUM, name, is_f64 ? STATOR_F64 : STATOR_F32, rank, dims);
}

void st_step_add_state(st_train_step *s)
{
    s->lr =
        st_step_is_updating(s) ? st_step_input(s, STATOR_ROLE_RATE, "lr", STATOR_F64, 0, NULL) : 0;
    s->batches = st_step_is_accumulating(s)
                     ? st_step_input(s, STATOR_ROLE_BATCHES, "batches", STATOR_F64, 0, NULL)
                     : 0;
    s->seed = s->optimizer != NULL && is_random(s)
                  ? st_step_input(s, STATOR_ROLE_SEED, "seed", STATOR_I64, 0, NULL)
                  : 0;
    for (stator_ref i = 1; s->e.status == STATOR_OK && i <= s->v->n_inputs; i++) {
        if (s->uses[i] != ST_INPUT_AS_IT_IS) {
            open_parameter(s, i);
        }
    }
    for (uint32_t k = 0; s->e.status == STATOR_OK && k < s->n_trained; k++) {
        s->xs[k] = s->map[s->trained[k]];
        if (st_step_is_updating(s)) {
            add_states(s, k);
        }
        if (st_step_is_accumulating(s)) {
            add_sum(s, k);
        }
    }
    if (st_step_is_scaled(s)) {
        s->scale.scale = st_step_input(s, STATOR_ROLE_STATE, "loss_scale", STATOR_F32, 0, NULL);
        s->scale.growth =
            st_step_is_updating(s)
                ? st_step_input(s, STATOR_ROLE_STATE, "growth_tracker", STATOR_I64, 0, NULL)
                : 0;
    }
    if (st_step_is_updating(s) || s->seed != 0) {
        s->count = st_step_input(s, STATOR_ROLE_STEP, "step", STATOR_I64, 0, NULL);
    }
}
