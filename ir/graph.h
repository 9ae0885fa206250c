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
    struct stator_graph *parent; /* a region's: the graph that was being built; else NULL */
    st_seg nodes;                /* stator_node_row, from 1 */
    st_seg values;               /* stator_value_row, from 1 */
    st_seg write_backs;
    uint32_t n_inputs;
    uint32_t n_outputs;
    uint32_t output_begin, output_name_begin; /* set at finish */
    uint32_t name;
    uint32_t is_finished;
    uint32_t index;         /* number in the module */
    uint32_t has_witnesses; /* a reader set them: finish leaves them as they are */
    stator_graph_view view; /* refreshed by st_graph_view */
};

/* An empty graph that is not in the module's list yet (arena memory), NULL: out of memory. */
stator_graph *st_graph_alloc(st_module *module);
/* Brings the view's counts up to date. */
void st_graph_refresh(stator_graph *graph);

/* Element i of an attribute of a node that is a list, by the attribute's place in the op's
 * schema; 0 where the list is left out or shorter. */
static inline int64_t st_node_int_at(const stator_graph_view *v, const stator_node_row *row,
                                     uint32_t place, uint32_t i)
{
    const stator_attr_row *list = stator_attr_at(v, row, place);
    return list->kind == STATOR_ATTR_INTS && i < list->count ? stator_attr_int_at(v, list, i) : 0;
}
/* Attribute of a node by name, NULL when the op's schema has none of that name. */
const stator_attr_row *st_graph_attr(const stator_graph *graph, stator_ref node, const char *name);
/* The 128-bit structural hash: ops, operands, attributes, types, regions, and the contents of
 * constants up to 4 KiB (larger ones by type alone). Names, origins and witnesses do not count.
 * 0: out of memory, the hash is then all zeros and tells graphs apart no more. */
bool st_graph_hash(const stator_graph *graph, uint8_t out_hash[16]);

/* The view, with counts as of now. Borrowed. */
const stator_graph_view *st_graph_view(const stator_graph *graph);
stator_blob *st_graph_value_blob(const stator_graph *graph, stator_ref value);
stator_blob *st_graph_blob_at(const stator_graph *graph, stator_ref blob); /* NULL: no such */

struct stator_builder {
    stator_graph *graph;
    st_module *module;
    stator_builder *parent;
    uint32_t origin;
    uint32_t n_outputs;
    uint32_t *outputs; /* value refs and name strings, until finish */
    uint32_t *output_names;
    uint32_t output_capacity;
    st_map known;       /* value ref -> place of its known contents (ints.c) */
    st_map input_names; /* string -> 1 */
};

/* A point to return to: everything built after it is dropped. Values built after it must not be
 * used any more. */
typedef struct st_build_mark {
    uint32_t n_nodes, n_values, n_write_backs, n_outputs;
} st_build_mark;
st_build_mark st_build_here(const stator_builder *b);
void st_build_rollback(stator_builder *b, st_build_mark mark);

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
/* Has an input of this name been declared? */
bool st_build_has_input(stator_builder *b, const char *name);
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
/* One node, with other regions when `regions` is not NULL; one input. */
stator_status st_build_clone_node(stator_builder *b, const stator_graph *from, stator_ref node,
                                  stator_graph *const *regions, stator_ref *map, stator_diag **err);
stator_status st_build_clone_input(stator_builder *b, const stator_graph *from, stator_ref input,
                                   stator_ref *map, stator_diag **err);
/* Is this value a constant whose one element (or every element) equals v? For rules. */
bool st_value_is_splat(const stator_graph *graph, stator_ref value, double *out_v);

/* 1 when the value is a constant (not a parameter). */
bool st_value_is_constant(const stator_graph *graph, stator_ref value);
/* Number of elements and bytes of a type whose dims are all plain integers; 0 when it is not
 * static or too large. */
bool st_type_static_size(const st_module *m, stator_ref type, uint64_t *out_elements,
                         uint64_t *out_bytes);

extern const stator_build_api st_build_api;
extern const stator_types_api st_types_api;

#endif
