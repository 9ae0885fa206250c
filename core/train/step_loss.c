/* The loss of a training step: a row of ir/optim.def over a value of the model, or an output of
 * it. */
#include "core/base/check.h"
#include "core/train/joint.h"
#include "core/train/train_step.h"

#include <string.h>

stator_ref st_step_find_value(const stator_graph *graph, const char *name)
{
    uint32_t k = 0;
    const stator_graph_view *v = st_graph_view(graph);
    if (st_joint_find_output(graph, name, &k, NULL) == STATOR_OK) {
        return stator_output_at(v, k);
    }
    for (stator_ref value = 1; value <= v->n_values; value++) {
        if (strcmp(stator_string_at(v, stator_value_at(v, value)->name), name) == 0) {
            return value;
        }
    }
    return 0;
}

stator_status st_step_find_read(const st_train_step *s, stator_ref *out, stator_diag **err)
{
    uint32_t k = 0;
    const char *name = s->options.output;
    ST_FAIL_IF(s->v->n_outputs == 0, err, STATOR_INVALID_ARGUMENT, "the model has no output");
    *out = name == NULL ? stator_output_at(s->v, 0) : st_step_find_value(s->from, name);
    return *out != 0 ? STATOR_OK : st_joint_find_output(s->from, name, &k, err);
}

/* Of what a loss reads: in mixed precision it has f32 at least. */
static stator_dtype read_dtype(const st_train_step *s, stator_ref read)
{
    const stator_dtype dtype = stator_value_type(s->v, read)->dtype;
    return s->options.amp != NULL && (dtype == STATOR_BF16 || dtype == STATOR_F16) ? STATOR_F32
                                                                                   : dtype;
}

void st_step_add_target(st_train_step *s, stator_ref read)
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
    s->target = st_step_input(s, STATOR_ROLE_TARGET, "target",
                              is_index ? STATOR_I64 : read_dtype(s, read), rank, dims);
}

stator_ref st_step_program(st_train_step *s, const st_optim_row *row, const char *names, uint32_t n,
                           const stator_ref *values)
{
    return stator_emit_expr(&s->e, row->program, names, n, values, s->values.count,
                            s->values.attrs);
}

void st_step_write_loss(st_train_step *s, stator_ref read)
{
    st_build_set_origin(s->e.b, "loss", s->options.loss, NULL, 0);
    const stator_ref x = stator_emit_cast(&s->e, s->map[read], read_dtype(s, read));
    s->loss_value = s->loss != NULL
                        ? st_step_program(s, s->loss, "x, target", STATOR_IN(x, s->target))
                        : stator_emit_expr(&s->e, "reduce_sum(x, axes=range(0, rank(x)))", "x",
                                           STATOR_IN(x), STATOR_NONE);
    st_build_set_name(s->e.b, s->loss_value, "loss");
    st_build_set_origin_ref(s->e.b, 0);
}
