/* Updates of some elements of an input that the call writes: a decoder's cache.
 *
 * Before: a group that scatters updates into an input, whose result is a write-back of that input.
 * After: four steps in place of one, in this order,
 *
 *     keep     what stands where updates go             where the result lies in the input
 *     copy     the input becomes the result             where it does not
 *     restore  what was kept                            where it does, once a later step has failed
 *     update   writes the updates
 *
 * so that a call which writes in place moves no more than the updates (cg_when), and one that
 * fails leaves the input as it was, whatever runs behind the update. What was kept, and what the
 * restoring step reads beside it, lives to the end of the call. */
#include "codegen/lower/lower.h"
#include "codegen/plan/plan.h"

/* The write-back of the value; NULL: it is none's. */
static const stator_write_back_row *write_back_of(const stator_graph_view *view, stator_ref value)
{
    for (uint32_t k = 0; k < view->n_write_backs; k++) {
        const stator_write_back_row *row = stator_write_back_at(view, k);
        if (row->value == value) {
            return row;
        }
    }
    return NULL;
}

static bool is_update(cg_unit *unit, const cg_fusion_group *group)
{
    const cg_root *root = &unit->roots.data[group->roots.data[0]];
    if (group->is_dead || !group->is_alone ||
        root->lowering->contraction != cg_scatter_contraction) {
        return false;
    }
    const cg_node node = cg_node_of(unit, root->node);
    const stator_write_back_row *row = write_back_of(unit->view, root->value);
    return row && row->input == cg_operand(&node, 0) && node.out->rank > 0 &&
           node.out->order == NULL && unit->buffers.data[node.out->buffer].kind == CG_BUFFER_OUTPUT;
}

stator_status cg_find_updates(cg_unit *unit, const st_cg_exe *exe, stator_diag **err)
{
    if (unit->view->n_write_backs == 0 || exe->is_body || unit->binds.count != 0) {
        return STATOR_OK;
    }
    for (uint32_t i = 0; i < unit->groups.count; i++) {
        cg_fusion_group *group = &unit->groups.data[i];
        if (!is_update(unit, group)) {
            continue;
        }
        const cg_root *root = &unit->roots.data[group->roots.data[0]];
        const cg_node node = cg_node_of(unit, root->node);
        const uint32_t numel = cg_numel(unit, cg_operand(&node, 2));
        if (numel == 0) {
            continue; /* beyond the limits */
        }
        cg_buffer *kept = st_vec_push(unit->mem, &unit->buffers);
        ST_TRY_MEM(kept, err);
        *kept = (cg_buffer){.kind = CG_BUFFER_WORK,
                            .dtype = node.out->dtype,
                            .numel = numel,
                            .value = root->value,
                            .first = UINT32_MAX};
        group->kept = unit->buffers.count - 1u;
    }
    return STATOR_OK;
}

void cg_keep_until_end(st_cg_exe *exe)
{
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        const cg_launch *l = &exe->launches.data[i];
        for (uint32_t k = 0; l->when == CG_TO_RESTORE && k < l->n_buffers; k++) {
            const uint32_t operand = exe->operands.data[l->first_buffer + k];
            if (operand != UINT32_MAX && exe->buffers.data[operand].kind == CG_BUFFER_WORK) {
                exe->buffers.data[operand].last = exe->launches.count - 1u;
            }
        }
    }
}
