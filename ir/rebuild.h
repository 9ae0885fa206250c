/* What the two readers (text and binary) share: building a node whose result types the file
 * declares.
 *
 * The builder infers; what is declared must equal that. Where inference can only give a fresh
 * unbacked symbol (the count of nonzero, say), the declared symbol takes its place: it must be
 * unbacked and not defined by an earlier node that is visible here, so that a file cannot make two
 * tensors share a size that they do not have. */
#ifndef STATOR_IR_REBUILD_H
#define STATOR_IR_REBUILD_H

#include "core/base/vec.h"
#include "ir/graph.h"

typedef struct st_rebuild {
    st_module *m;
    st_vec(uint32_t) defined; /* atoms of the unbacked symbols with a definition in sight */
    st_map places;            /* atom -> its place in defined, plus 1; may be stale */
} st_rebuild;

void st_rebuild_init(st_rebuild *r, st_module *m);
void st_rebuild_deinit(st_rebuild *r);
/* A region sees what was defined outside; what it defines ends with it. */
uint32_t st_rebuild_enter(const st_rebuild *r);
void st_rebuild_leave(st_rebuild *r, uint32_t mark);
/* Builds the node with desc->result_count results; declared[k] is the type written for result k, 0
 * when none was. desc->result_types is ignored. */
stator_status st_rebuild_node(st_rebuild *r, stator_builder *b, const stator_node_desc *desc,
                              const stator_ref *declared, stator_ref *out_results,
                              stator_diag **err);

#endif
