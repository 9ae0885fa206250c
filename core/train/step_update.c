/* Gradients of a training step, and what is made of them: sums of several batches, clipped ones,
 * the rate, new parameters and the optimizer's states. */
#include "core/base/check.h"
#include "core/train/joint.h"
#include "core/train/train_step.h"
#include "ir/gradient/gradient.h"

#include <stdio.h>
#include <string.h>

static stator_ref scalar_like(st_train_step *s, stator_ref value, stator_ref like)
{
    return stator_emit_cast(&s->e, value, stator_emit_dtype(&s->e, like));
}

/* What the gradients of the loss begin with: 1, or the scale. */
static stator_ref loss_seed(st_train_step *s)
{
    const stator_ref loss = s->loss_value;
    if (!st_step_is_scaled(s)) {
        return stator_emit_expr(&s->e, "ones_like(y)", "y", STATOR_IN(loss), STATOR_NONE);
    }
    st_loss_scale_begin(&s->e, &s->values, &s->scale);
    return scalar_like(s, s->scale.now, loss);
}

/* Does the loss read any of what is trained, and no whole number between? Those have no
 * gradient. */
static bool reads_trained(st_train_step *s)
{
    const stator_graph_view *v = st_graph_view(s->e.b->graph);
    uint8_t *is_read = st_arena_zalloc(&s->arena, v->n_values + UINT64_C(1), 1);
    if (!stator_emit_check(&s->e, is_read != NULL ? STATOR_OK : st_fail_oom(s->e.err))) {
        return true;
    }
    is_read[s->loss_value] = 1;
    for (stator_ref node = v->n_nodes; node > 0; node--) {
        const stator_node_row *row = stator_node_at(v, node);
        bool is_any = false;
        for (uint32_t k = 0; k < row->result_count; k++) {
            is_any = is_any || is_read[row->result_begin + k] != 0;
        }
        for (uint32_t k = 0; is_any && k < row->operand_count; k++) {
            const stator_ref operand = stator_operand(v, row, k);
            is_read[operand] = operand != 0 && st_dtype_class(stator_emit_dtype(&s->e, operand)) >=
                                                   STATOR_CLASS_FLOAT;
        }
    }
    for (uint32_t k = 0; k < s->n_trained; k++) {
        if (is_read[s->xs[k]]) {
            return true;
        }
    }
    return false;
}

/* Names the loss, and what the user asked it to read. */
static void fail_untrained(st_train_step *s)
{
    char made[24];
    const char *output =
        s->options.output != NULL ? s->options.output : st_joint_output_name(s->v, 0, made);
    const char *trained = st_step_value_name(s, s->trained[0]);
    if (s->own_loss != 0) {
        (void)stator_emit_fail(&s->e, STATOR_INVALID_ARGUMENT,
                               "the loss reads no parameter that is trained: output '%s' depends "
                               "on none of the %u, such as '%s'",
                               s->options.loss, s->n_trained, trained);
    } else {
        const st_optim_row *loss = s->loss != NULL ? s->loss : s->teacher_loss;
        (void)stator_emit_fail(&s->e, STATOR_INVALID_ARGUMENT,
                               "the loss reads no parameter that is trained: '%s', which %s reads, "
                               "depends on none of the %u, such as '%s'",
                               output, loss->name, s->n_trained, trained);
    }
}

void st_step_write_gradients(st_train_step *s)
{
    const stator_ref loss = s->loss_value;
    if (s->e.status == STATOR_OK && !reads_trained(s)) {
        fail_untrained(s);
        return;
    }
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
    for (uint32_t k = 0; st_step_is_scaled(s) && k < s->n_trained; k++) {
        s->grads[k] = st_loss_scale_remove(&s->e, &s->scale, s->grads[k]);
    }
    st_build_set_origin_ref(s->e.b, 0);
}

/* Was any gradient not finite? Then the step is skipped, where the loss is scaled. */
static void judge_gradients(st_train_step *s)
{
    if (!st_step_is_scaled(s)) {
        return;
    }
    st_build_set_origin(s->e.b, "loss_scale", "loss_scale", NULL, 0);
    st_loss_scale_judge(&s->e, &s->scale, s->grads, s->n_trained);
    st_loss_scale_update(&s->e, &s->values, &s->scale);
    st_build_set_origin_ref(s->e.b, 0);
}

void st_step_write(st_train_step *s, stator_ref input, stator_ref value)
{
    const bool may_be_skipped = s->scale.is_finite != 0;
    stator_emit_write_back(
        &s->e, input, may_be_skipped ? st_loss_scale_keep(&s->e, &s->scale, input, value) : value);
}

/* The factor that brings the norm of all gradients to clip_norm where it is larger. */
static stator_ref norm_factor(st_train_step *s)
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
static void accumulate(st_train_step *s)
{
    st_build_set_origin(s->e.b, "accumulate", "accumulate", NULL, 0);
    for (uint32_t k = 0; k < s->n_trained; k++) {
        const stator_ref total = stator_emit_expr(&s->e, "sum + cast(g, sum)", "g, sum",
                                                  STATOR_IN(s->grads[k], s->sums[k]), STATOR_NONE);
        const stator_ref kept = st_step_is_updating(s)
                                    ? stator_emit_expr(&s->e, "zeros_like(sum)", "sum",
                                                       STATOR_IN(s->sums[k]), STATOR_NONE)
                                    : total;
        stator_emit_write_back(&s->e, s->sums[k], kept);
        s->grads[k] = stator_emit_expr(&s->e, "sum / cast(batches, sum)", "sum, batches",
                                       STATOR_IN(total, s->batches), STATOR_NONE);
    }
    st_build_set_origin_ref(s->e.b, 0);
}

static void clip(st_train_step *s)
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
static uint32_t list_names(const st_train_step *s, char text[ST_STEP_STATES_MAX][64],
                           const char *names[4u + ST_STEP_STATES_MAX])
{
    static const char *const own[] = {"p", "g", "lr", "t"};
    const char *p = s->optimizer->state;
    uint32_t n = 0;
    memcpy((void *)names, (const void *)own, sizeof own);
    for (; p != NULL && *p != '\0' && n < ST_STEP_STATES_MAX; n++) {
        p += strspn(p, ", ");
        (void)snprintf(text[n], 64, "%.*s", (int)strcspn(p, ",:"), p);
        p += strcspn(p, ",");
        names[4u + n] = text[n];
    }
    return 4u + n;
}

/* A parameter's new value and states, written back. */
static void update(st_train_step *s, uint32_t k)
{
    char text[ST_STEP_STATES_MAX][64];
    const char *names[4u + ST_STEP_STATES_MAX];
    const uint32_t n = list_names(s, text, names);
    const char *no_decay = st_optim_value(&s->values, "no_decay")->s;
    stator_attr attrs[ST_OPTIM_VALUES_MAX];
    stator_ref values[4u + ST_STEP_STATES_MAX], results[1u + ST_STEP_STATES_MAX] = {0};
    memcpy(attrs, s->values.attrs, s->values.count * sizeof *attrs);
    for (uint32_t i = 0; i < s->values.count; i++) {
        if (strcmp(attrs[i].name, "weight_decay") == 0 &&
            st_step_matches(no_decay, st_step_value_name(s, s->trained[k]))) {
            attrs[i].f = 0;
        }
    }
    values[0] = stator_emit_wide(&s->e, s->xs[k]);
    values[1] = stator_emit_cast(&s->e, s->grads[k], stator_emit_dtype(&s->e, values[0]));
    values[2] = s->rate;
    values[3] = s->t;
    memcpy(values + 4, s->states + (size_t)k * ST_STEP_STATES_MAX,
           ST_STEP_STATES_MAX * sizeof *values);
    if (s->e.status == STATOR_OK) {
        stator_emit_check(&s->e, st_build_expr(s->e.b, s->optimizer->program, n, names, values,
                                               s->values.count, attrs, n - 3u, results, s->e.err));
    }
    st_step_write(s, s->xs[k], scalar_like(s, results[0], s->xs[k]));
    for (uint32_t i = 0; i + 4u < n; i++) {
        const stator_ref state = values[4u + i];
        if (state != 0) {
            st_step_write(s, state, scalar_like(s, results[1u + i], state));
        }
    }
}

static void write_rate(st_train_step *s)
{
    st_build_set_origin(s->e.b, "lr", s->schedule->name, NULL, 0);
    s->t = stator_emit_expr(&s->e, "cast(n, f64) + 1", "n", STATOR_IN(s->count), STATOR_NONE);
    s->rate = st_step_program(s, s->schedule->program, "lr, t", STATOR_IN(s->lr, s->t));
}

static void write_updates(st_train_step *s)
{
    for (uint32_t k = 0; s->e.status == STATOR_OK && k < s->n_trained; k++) {
        char name[280];
        (void)snprintf(name, sizeof name, "update of %.256s", st_step_value_name(s, s->trained[k]));
        st_build_set_origin(s->e.b, name, s->optimizer->name, NULL, 0);
        update(s, k);
    }
    st_build_set_origin(s->e.b, "step", "step", NULL, 0);
    const stator_ref next = stator_emit_expr(&s->e, "n + 1", "n", STATOR_IN(s->count), STATOR_NONE);
    st_step_write(s, s->count, next);
    st_build_set_origin_ref(s->e.b, 0);
}

void st_step_write_updates(st_train_step *s)
{
    if (st_step_is_accumulating(s)) {
        accumulate(s);
    }
    if (st_step_is_updating(s)) {
        judge_gradients(s);
        clip(s);
        write_rate(s);
        write_updates(s);
    }
}
