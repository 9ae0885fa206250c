/* Regions of control-flow nodes: building one, and what it captures.
 *
 * The names a subgraph uses from outside become operands of the node and inputs of each of its
 * regions (ox_captures). Values whose contents are known (small constants, sizes) are not captured
 * but made again inside, so that they stay known there. A sequence goes in as one tensor. */
#ifndef STATOR_FRONTEND_OX_BODY_H
#define STATOR_FRONTEND_OX_BODY_H

#include "frontends/onnx/ox_sequence.h"

typedef struct ox_captures {
    uint32_t count; /* names found in the scope around */
    const char **names;
    stator_ref *values;  /* in the region around */
    uint8_t *is_operand; /* 0: made again inside */
    uint32_t operand_count;
    stator_ref *operands; /* the values that are passed */
} ox_captures;

typedef struct ox_body {
    ox_node *owner;
    ox_region region;
    ox_scope scope;
    ox_node node;           /* for helpers that build inside the region */
    stator_builder *around; /* NULL: the region was not begun, after a failure */
} ox_body;

/* Free names of the graphs (one or two), looked up in n's scope. */
void ox_captures_of(ox_node *n, uint32_t graph_count, const Onnx__GraphProto *const *graphs,
                    ox_captures *out);

/* Begins a region for a node to come. Always followed by ox_body_end, also after a failure. */
void ox_body_begin(ox_node *n, ox_body *body, const char *name);
/* The next input of the region; type is a ref of the module. */
stator_ref ox_body_input(ox_body *body, const char *name, stator_ref type);
/* Type of v in n's region; the same with axis `drop` left out. */
stator_ref ox_type_of(ox_node *n, stator_ref v);
stator_ref ox_type_without(ox_node *n, stator_ref v, uint32_t drop);
/* The captured inputs, after the region's own ones, and the names of all captures. */
void ox_body_captures(ox_body *body, const ox_captures *captures);
/* The subgraph's nodes with its inputs bound to `inputs`; fills one value an output. */
void ox_body_graph(ox_body *body, const Onnx__GraphProto *graph, uint32_t n_inputs,
                   const stator_ref *inputs, stator_ref *outputs);
void ox_body_output(ox_body *body, const char *name, stator_ref v);
/* Finishes the region, or drops it after a failure or when `keep` is 0; NULL then. */
stator_graph *ox_body_end(ox_body *body, bool keep);

#endif
