/* The loss of a training step: a row of ir/optim.def over a value of the model and the target, or
 * an output of the model; with a teacher one over what it computes instead of the target, or a
 * weighted sum of both. */
#include "core/base/check.h"
#include "core/train/joint.h"
#include "core/train/train_step.h"

#include <string.h>

stator_status st_step_find_read(const stator_graph *graph, const char *name, stator_ref *out,
                                stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(graph);
    ST_FAIL_IF(v->n_outputs == 0, err, STATOR_INVALID_ARGUMENT, "the model has no output");
    *out = name == NULL ? stator_output_at(v, 0) : st_joint_find_value(graph, name);
    return *out != 0 ? STATOR_OK : st_joint_fail_no_value(graph, name, err);
}

/* Of a value that is a loss or that one reads: in mixed precision it has f32 at least. */
static stator_dtype loss_dtype(const st_train_step *s, stator_ref value)
{
    const stator_dtype dtype = stator_value_type(s->v, value)->dtype;
    return s->options.amp != NULL && (dtype == STATOR_BF16 || dtype == STATOR_F16) ? STATOR_F32
                                                                                   : dtype;
}

void st_step_add_target(st_train_step *s)
{
    stator_ref dims[STATOR_RANK_MAX];
    const stator_type_row *type = stator_value_type(s->v, s->read);
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
    s->target = st_step_input(s, STATOR_ROLE_TARGET, "target",
                              is_index ? STATOR_I64 : loss_dtype(s, s->read), rank, dims);
}

stator_ref st_step_program(st_train_step *s, const char *program, const char *names, uint32_t n,
                           const stator_ref *values)
{
    return stator_emit_expr(&s->e, program, names, n, values, s->values.count, s->values.attrs);
}

static stator_ref as_loss(st_train_step *s, stator_ref value)
{
    return stator_emit_cast(&s->e, s->map[value], loss_dtype(s, value));
}

/* The loss that the model has without a teacher; 0: none. */
static stator_ref write_hard(st_train_step *s)
{
    if (s->own_loss != 0) {
        return stator_emit_expr(&s->e, "reduce_sum(x, axes=range(0, rank(x)))", "x",
                                STATOR_IN(as_loss(s, s->own_loss)), STATOR_NONE);
    }
    return s->loss != NULL ? st_step_program(s, s->loss->program, "x, target",
                                             STATOR_IN(as_loss(s, s->read), s->target))
                           : 0;
}

/* That of what the teacher says; 0: there is none. */
static stator_ref write_soft(st_train_step *s)
{
    const st_optim_row *row = s->teacher_loss;
    if (row == NULL) {
        return 0;
    }
    const stator_ref x = as_loss(s, s->read);
    const stator_ref said =
        stator_emit_cast(&s->e, s->linker.map[s->teacher_read], stator_emit_dtype(&s->e, x));
    return st_step_program(s, row->teacher_program != NULL ? row->teacher_program : row->program,
                           "x, target", STATOR_IN(x, said));
}

static void check_scalar(st_train_step *s)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank =
        s->e.status == STATOR_OK ? stator_emit_dims(&s->e, s->loss_value, dims) : 0;
    ST_FAIL_BY_IF(
        (void)stator_emit_fail, rank != 0, &s->e, STATOR_INVALID_ARGUMENT,
        "the loss has rank %u, and a step needs a scalar: option reduction is mean, sum or "
        "batchmean",
        rank);
}

void st_step_write_loss(st_train_step *s)
{
    st_build_set_origin(s->e.b, "loss", s->options.loss, NULL, 0);
    const stator_ref hard = write_hard(s);
    if (s->teacher_loss != NULL) {
        st_build_set_origin(s->e.b, "loss", s->teacher_loss->name, NULL, 0);
    }
    const stator_ref soft = write_soft(s);
    s->loss_value =
        hard == 0 ? soft
        : soft == 0
            ? hard
            : st_step_program(s, "cast(soft, hard) * teacher_weight + hard * (1 - teacher_weight)",
                              "hard, soft", STATOR_IN(hard, soft));
    check_scalar(s);
    st_build_set_name(s->e.b, s->loss_value, "loss");
    st_build_set_origin_ref(s->e.b, 0);
}
