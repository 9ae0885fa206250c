/* What an executable does at a call, for exe_steps: a row for each node that has something to do,
 * named as profiles name it, with the bytes of its operands and results. */
#include "plugins/eager/eager_execution_plan.h"

#include "core/base/check.h"

#include <stdio.h>

const char *eager_step_name(const eager_step *step, char out[EAGER_STEP_NAME])
{
    const bool has_name = step->node_name != NULL && step->node_name[0] != '\0';
    (void)snprintf(out, EAGER_STEP_NAME, "%s%s%.100s", eager_op_name(step), has_name ? " " : "",
                   has_name ? step->node_name : "");
    return out;
}

/* Adds the bytes of a value; *flags says when a size is known only at call time. */
static void add_bytes(const eager_execution_plan *plan, uint32_t value, uint64_t *sum,
                      uint32_t *flags)
{
    uint64_t count = 1;
    uint64_t bytes = 0;
    const ek_tensor *t = &plan->tensors[value];
    const int64_t *dims = &plan->dims[plan->values[value].dims_at];
    if (value == 0) {
        return;
    }
    int is_known = plan->values[value].is_static;
    for (uint32_t axis = 0; is_known && axis < t->rank; axis++) {
        is_known = st_mul_u64(count, (uint64_t)dims[axis], &count);
    }
    if (is_known && st_dtype_bytes(t->dtype, count, &bytes)) {
        *sum += bytes;
    } else {
        *flags |= STATOR_STEP_OPEN;
    }
}

/* Is the value an earlier operand of the step too? */
static bool is_repeated(const eager_step *step, uint32_t place)
{
    for (uint32_t k = 0; k < place; k++) {
        if (step->in[k] == step->in[place]) {
            return true;
        }
    }
    return false;
}

static bool does_nothing(const eager_step *step)
{
    return step->kind == EAGER_STEP_CONSTANT || step->kind == EAGER_STEP_ALIAS ||
           step->kind == EAGER_STEP_SYM_BIND;
}

static stator_status report_plan(const eager_execution_plan *plan, uint32_t depth,
                                 const stator_step_sink *sink)
{
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const eager_step *step = &plan->steps[s];
        char name[EAGER_STEP_NAME];
        stator_exe_step row = {.struct_size = sizeof row,
                               .kind = step->n_regions ? STATOR_STEP_LOOP : STATOR_STEP_NODE,
                               .depth = depth,
                               .n_nodes = depth == 0,
                               .nodes = &step->node,
                               .name = eager_step_name(step, name)};
        if (does_nothing(step)) {
            continue;
        }
        for (uint32_t k = 0; k < step->n_in; k++) {
            add_bytes(plan, is_repeated(step, k) ? 0 : step->in[k], &row.read_bytes, &row.flags);
        }
        for (uint32_t k = 0; k < step->n_out; k++) {
            add_bytes(plan, step->out + k, &row.written_bytes, &row.flags);
        }
        ST_TRY(sink->step(sink->self, &row));
        for (uint32_t r = 0; r < step->n_regions; r++) {
            ST_TRY(report_plan(step->regions[r], depth + 1u, sink));
        }
    }
    return STATOR_OK;
}

stator_status eager_tell_steps(const eager_exe *exe, const stator_step_sink *sink)
{
    return report_plan(exe->root, 0, sink);
}
