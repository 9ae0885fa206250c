/* Sizes that are bound from data: a sym_bind node in the middle of a program.
 *
 * The binds of a graph cut it into stages: stage k has the nodes between bind k-1 and bind k. A
 * node can state a size only after its bind, so kernels do not mix stages, and outputs and values
 * of a stage get their memory when it begins. A bind is a step between kernels that reads the few
 * elements and writes the call's syms; so an emitter's memory must be the host's. */
#include "codegen/lower/lower.h"

#include <stator/ops.h>

stator_status cg_find_binds(cg_unit *unit, stator_diag **err)
{
    const stator_graph_view *v = unit->view;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        if (stator_node_at(v, node)->op != STATOR_OPCODE_sym_bind) {
            continue;
        }
        stator_ref *at = st_vec_push(unit->mem, &unit->binds);
        ST_TRY_MEM(at, err);
        *at = node;
    }
    return STATOR_OK;
}

uint32_t cg_stage_of(const cg_unit *unit, stator_ref node)
{
    uint32_t stage = unit->binds.count;
    while (node && stage > 0 && unit->binds.data[stage - 1u] >= node) {
        stage--;
    }
    return stage;
}

bool cg_is_bind(const cg_unit *unit, stator_ref node)
{
    const uint32_t stage = cg_stage_of(unit, node);
    return stage < unit->binds.count && unit->binds.data[stage] == node;
}

st_loop_ref cg_sym_bind(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index)
{
    (void)result;
    return cg_at(nest, cg_operand(node, 0), index);
}
