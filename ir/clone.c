/* Copying parts of one graph into another of the same module.
 *
 * In: a range of nodes and a map from the old values to new ones. Out: rows that share attributes,
 * types, regions and origins with the old ones (all of them are immutable pools of the module), and
 * the map extended by the results. Nothing is inferred again: equal operands give equal types. */
#include "ir/builder.h"

static stator_status map_operands(const stator_graph_view *v, const stator_node_row *node,
                                  const stator_ref *map, stator_ref *out, stator_diag **err)
{
    for (uint32_t k = 0; k < node->operand_count; k++) {
        const stator_ref value = stator_operand(v, node, k);
        out[k] = value != 0 ? map[value] : 0;
        ST_FAIL_IF(value != 0 && out[k] == 0, err, STATOR_INVALID_ARGUMENT,
                   "clone: %s reads value %u, which is not mapped yet",
                   stator_op_at(v, node->op)->name, value);
    }
    return STATOR_OK;
}

static void copy_value(stator_builder *b, const stator_value_row *from, stator_ref to)
{
    stator_value_row *row = st_seg_at(&b->graph->values, to);
    row->name = from->name;
    row->witness = from->witness;
}

stator_status st_build_clone_node(stator_builder *b, const stator_graph *from, stator_ref node,
                                  stator_graph *const *regions, stator_ref *map, stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(from);
    const stator_node_row *row = stator_node_at(v, node);
    st_mem *mem = b->module->mem;
    const uint64_t count = (uint64_t)row->operand_count + row->result_count;
    stator_ref local[64];
    stator_ref *operands = count <= 64 ? local : st_calloc(mem, count, sizeof *operands);
    ST_TRY_MEM(operands, err);
    stator_ref *types = operands + row->operand_count;
    for (uint32_t k = 0; k < row->result_count; k++) {
        types[k] = stator_value_at(v, row->result_begin + k)->type;
    }
    const stator_ref first = b->graph->values.count;
    stator_status status = map_operands(v, row, map, operands, err);
    ST_THEN(status, st_build_raw_node(b, row, operands, NULL, regions, types, err));
    if (status == STATOR_OK) {
        for (uint32_t k = 0; k < row->result_count; k++) {
            copy_value(b, stator_value_at(v, row->result_begin + k), first + k);
            map[row->result_begin + k] = first + k;
        }
    }
    if (operands != local) {
        st_free(mem, operands);
    }
    return status;
}

stator_status st_build_clone(stator_builder *b, const stator_graph *from, stator_ref first,
                             stator_ref last, stator_ref *map, stator_diag **err)
{
    ST_REQUIRE(from, err);
    ST_REQUIRE(map, err);
    ST_FAIL_IF(from->module != b->module, err, STATOR_INVALID_ARGUMENT,
               "clone: the graph to copy from is of another module");
    ST_FAIL_IF(first == 0 || last >= from->nodes.count, err, STATOR_OUT_OF_RANGE,
               "clone: nodes %u to %u, the graph has 1 to %u", first, last, from->nodes.count - 1u);
    for (stator_ref node = first; node <= last; node++) {
        ST_TRY(st_build_clone_node(b, from, node, NULL, map, err));
    }
    return STATOR_OK;
}

stator_status st_build_clone_input(stator_builder *b, const stator_graph *from, stator_ref input,
                                   stator_ref *map, stator_diag **err)
{
    const st_module *m = b->module;
    const stator_value_row *row = st_seg_at(&from->values, input);
    const char *name = st_module_str(m, row->name);
    if (row->flags & STATOR_VALUE_PARAM) {
        ST_TRY(
            st_build_param(b, name, row->type, st_module_blob_at(m, row->blob), &map[input], err));
    } else {
        ST_TRY(st_build_input(b, name, row->type, &map[input], err));
    }
    copy_value(b, row, map[input]);
    return STATOR_OK;
}

stator_status st_build_clone_inputs(stator_builder *b, const stator_graph *from, stator_ref *map,
                                    stator_diag **err)
{
    for (stator_ref i = 1; i <= from->n_inputs; i++) {
        ST_TRY(st_build_clone_input(b, from, i, map, err));
    }
    return STATOR_OK;
}

stator_status st_build_clone_outputs(stator_builder *b, const stator_graph *from,
                                     const stator_ref *map, stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(from);
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        const char *name = stator_string_at(v, stator_ref_at(v, v->output_name_begin + k));
        ST_TRY(st_build_output(b, name, map[stator_output_at(v, k)], err));
    }
    for (uint32_t k = 0; k < v->n_write_backs; k++) {
        const stator_write_back_row *row = stator_write_back_at(v, k);
        ST_TRY(st_build_write_back(b, map[row->input], map[row->value], err));
    }
    return STATOR_OK;
}
