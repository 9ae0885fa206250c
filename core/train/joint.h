/* What joint models and their parts share: see stator/train.h. */
#ifndef STATOR_TRAIN_JOINT_H
#define STATOR_TRAIN_JOINT_H

#include "core/context/ctx.h"
#include "ir/graph.h"
#include "ir/recompute/kept.h"

/* The name of output k; made[] holds that of one without. */
const char *st_joint_output_name(const stator_graph_view *v, uint32_t k, char made[24]);
/* NOT_FOUND, with the nearest of the names. */
stator_status st_joint_fail_unknown(const char *what, const char *name, const char *const *names,
                                    uint32_t n, stator_diag **err);
/* The output of this name; NOT_FOUND. */
stator_status st_joint_find_output(const stator_graph *graph, const char *name, uint32_t *out,
                                   stator_diag **err);
/* The output of the name, or else the value that a node makes, or else the input; 0: there is
 * none. */
stator_ref st_joint_find_value(const stator_graph *graph, const char *name);
/* NOT_FOUND, of a name for which st_joint_find_value finds nothing, with the nearest. */
stator_status st_joint_fail_no_value(const stator_graph *graph, const char *name,
                                     stator_diag **err);
/* The string PREFIX_NAME, with `_` at its end as long as an input of that name is there, or, with
 * `outputs`, a string that is in the map; 0: out of memory. */
uint32_t st_joint_port_name(stator_builder *b, const char *prefix, const char *name,
                            const st_map *outputs);

/* What is built next is the backward part of what makes this value of `from`. */
void st_joint_begin_backward(stator_builder *b, const stator_graph *from, stator_ref value);

/* What a graph is to be before it is differentiated. */
typedef struct st_joint_wishes {
    const char *autocast; /* this pass runs before gradients are written out; NULL: none */
    const char *read;     /* an output, or a value inside that has to stay; NULL: none */
    bool is_normal;       /* in the normal form of `canonicalize`, also without attention */
} st_joint_wishes;

/* In-place writes become values, attention that is written out one node, and gradients that the
 * model asks for are written out. A value inside that `read` names is an output of that name then,
 * behind the model's own; attention around it stays written out. */
stator_status st_joint_prepare(st_module *module, const st_joint_wishes *wishes, stator_diag **err);
/* Finishes the builder as the root of its module, without the nodes that nothing needs and as if it
 * had been imported: its values are their own witnesses. `status` is that of building it: one that
 * is not OK is returned. Ends the builder also on failure.
 * INVALID_ARGUMENT: a size is read that no input tells. */
stator_status st_joint_finish(stator_builder *b, stator_status status, stator_diag **err);
/* The same of the graph that is the module's root by now. */
stator_status st_joint_tidy(st_module *module, stator_diag **err);
/* The backward part of the module's root computes again what the limits ask for. Where the work for
 * that is capped, the log says so, and *out_is_capped, which may be NULL. */
stator_status st_joint_rematerialise(st_module *module, const st_keep_limits *limits,
                                     stator_ctx *ctx, bool *out_is_capped, stator_diag **err);

#endif
