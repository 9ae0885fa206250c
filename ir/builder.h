/* Parts that the builder's files share: reading a node description into dense attribute rows. */
#ifndef STATOR_IR_BUILDER_H
#define STATOR_IR_BUILDER_H

#include "ir/graph.h"

#define ST_ATTRS_MAX 32u
#define ST_RESULTS_MAX 256u

/* Fills rows[0..op->desc.attr_count) from what is given and the schema's defaults. */
stator_status st_build_attr_rows(stator_builder *b, const st_op *op, const stator_node_desc *desc,
                                 stator_attr_row *rows, stator_diag **err);
/* Name k of a comma-separated list such as "x, w, b?" or "xs*" (the last one repeats when it ends
 * in '*'), for messages; *out_mark is '?', '*' or 0. NULL past the end. */
const char *st_list_name(const char *names, uint32_t k, uint32_t *out_len, char *out_mark);
/* The place of a name of `len` bytes in such a list; UINT32_MAX: it is not there. */
uint32_t st_list_place(const char *names, const char *name, uint32_t len);
/* Appends a node with these attribute rows, regions and result types, without any check. */
stator_status st_build_raw_node(stator_builder *b, const stator_node_row *row,
                                const stator_ref *operands, const stator_attr_row *attrs,
                                stator_graph *const *regions, const stator_ref *types,
                                stator_diag **err);

#endif
