/* Graph storage and the builder. A graph is written once through a builder and is immutable after
 * st_builder_finish. The functions here are what the host table's `build`, `types` and `ir` slots
 * point at; plugins use the same ones through the table. */
#ifndef STATOR_IR_GRAPH_H
#define STATOR_IR_GRAPH_H

#include "ir/module.h"
#include <stator/plugin.h>

struct stator_graph {
    st_module *module;
    struct stator_graph *next;
    struct stator_graph *parent; /* of a region: the graph that was being built */
    st_seg nodes;  /* stator_node_row, from 1 */
    st_seg values; /* stator_value_row, from 1 */
    st_seg write_backs;
    uint32_t n_inputs;
    uint32_t n_outputs;
    uint32_t output_begin, output_name_begin; /* set at finish */
    uint32_t name;
    uint32_t is_finished;
    stator_graph_view view; /* refreshed by st_graph_view */
};

/* The view, with counts as of now. Borrowed. */
const stator_graph_view *st_graph_view(const stator_graph *graph);
stator_blob *st_graph_value_blob(const stator_graph *graph, stator_ref value);

struct stator_builder {
    stator_graph *graph;
    st_module *module;
    stator_builder *parent;
    uint32_t origin;
    uint32_t n_outputs;
    uint32_t *outputs; /* value refs and name strings, until finish */
    uint32_t *output_names;
    uint32_t output_capacity;
};

/* A builder of a new graph in the module. */
stator_status st_builder_create(st_module *module, const char *name, stator_builder **out_builder,
                                stator_diag **err);
/* Finishes: checks outputs, freezes the graph, ends the builder (also on failure). */
stator_status st_builder_finish(stator_builder *builder, stator_graph **out_graph,
                                stator_diag **err);
void st_builder_abort(stator_builder *builder);

/* Slots of stator_build_api, same contracts. */
stator_status st_build_input(stator_builder *b, const char *name, stator_ref type, stator_ref *out,
                             stator_diag **err);
stator_status st_build_param(stator_builder *b, const char *name, stator_ref type,
                             stator_blob *blob, stator_ref *out, stator_diag **err);
stator_status st_build_node(stator_builder *b, const stator_node_desc *desc,
                            stator_ref *out_results, stator_diag **err);
stator_status st_build_constant(stator_builder *b, stator_ref type, const void *data, uint64_t size,
                                stator_ref *out, stator_diag **err);
stator_status st_build_constant_blob(stator_builder *b, stator_ref type, stator_blob *blob,
                                     stator_ref *out, stator_diag **err);
stator_status st_build_output(stator_builder *b, const char *name, stator_ref value,
                              stator_diag **err);
stator_status st_build_write_back(stator_builder *b, stator_ref input, stator_ref value,
                                  stator_diag **err);
stator_status st_build_region_begin(stator_builder *b, const char *name, stator_builder **out,
                                    stator_diag **err);
stator_status st_build_region_end(stator_builder *region, stator_graph **out, stator_diag **err);
void st_build_region_abort(stator_builder *region);
void st_build_set_origin(stator_builder *b, const char *name, const char *kind, const char *file,
                         uint32_t line);
void st_build_set_origin_ref(stator_builder *b, stator_ref origin);
void st_build_set_witness(stator_builder *b, stator_ref value, stator_ref witness);
void st_build_set_name(stator_builder *b, stator_ref value, const char *name);
stator_status st_build_clone(stator_builder *b, const stator_graph *from, stator_ref first,
                             stator_ref last, stator_ref *map, stator_diag **err);
int32_t st_build_known_ints(stator_builder *b, stator_ref value, uint32_t n, stator_ref *out_syms);
stator_status st_build_as_dims(stator_builder *b, stator_ref value, uint32_t n,
                               stator_ref *out_syms, stator_diag **err);
stator_status st_build_from_dims(stator_builder *b, const stator_ref *syms, uint32_t n,
                                 stator_ref *out, stator_diag **err);
stator_status st_build_expr(stator_builder *b, const char *program, uint32_t n_names,
                            const char *const *names, const stator_ref *values, uint32_t n_attrs,
                            const stator_attr *attrs, uint32_t n_out, stator_ref *out,
                            stator_diag **err);

/* Convenience for passes and decompositions. */
stator_status st_build_op(stator_builder *b, const char *op, uint32_t n_operands,
                          const stator_ref *operands, uint32_t n_attrs, const stator_attr *attrs,
                          uint32_t n_results, stator_ref *out_results, stator_diag **err);
/* Copies `from`'s inputs (all of them, with params, names, witnesses) into b; fills map. */
stator_status st_build_clone_inputs(stator_builder *b, const stator_graph *from, stator_ref *map,
                                    stator_diag **err);
/* Copies `from`'s outputs and write-backs through map. */
stator_status st_build_clone_outputs(stator_builder *b, const stator_graph *from,
                                     const stator_ref *map, stator_diag **err);
/* Is this value a constant whose one element (or every element) equals v? For rules. */
int st_value_is_splat(const stator_graph *graph, stator_ref value, double *out_v);

extern const stator_build_api st_build_api;
extern const stator_types_api st_types_api;
extern const stator_cst_api st_cst_api; /* of_value and of_ref live in ir, the rest in core/base/blob.c */

#endif
