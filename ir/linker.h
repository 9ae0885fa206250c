/* Linking: a graph of one module is copied into a graph of another. */
#ifndef STATOR_IR_LINKER_H
#define STATOR_IR_LINKER_H

#include "ir/graph.h"
#include "ir/sizes/bind_sizes.h"

typedef struct st_linker {
    const stator_graph *from;
    st_module *to;
    const char *prefix; /* of the names that values and symbols get */
    const char *mark;   /* of the names that origins get */
    st_binding sizes;   /* symbols of `from`: st_binding_set gives one a size of `to` */
    st_map origins;     /* of `from` -> of `to` */
    st_arena arena;     /* attributes of one node */
    stator_ref *map;    /* values of `from` in the graph of `to`; 0: not there yet */
} st_linker;

/* Both modules know the same ops. Strings live as long as the linker, which is to be deinitialised
 * also after a failure. */
stator_status st_linker_init(st_linker *l, const stator_graph *from, st_module *to,
                             const char *prefix, const char *mark, stator_diag **err);
void st_linker_deinit(st_linker *l);
/* Symbols that have no size yet become symbols of `to` with names that are free there. Sizes and
 * types of `from` are asked for behind this. */
stator_status st_linker_add_symbols(st_linker *l, stator_diag **err);
/* Copies a parameter as one of this name. */
stator_status st_linker_add_param(st_linker *l, stator_builder *b, stator_ref input,
                                  const char *name, stator_diag **err);
/* Copies all nodes; each input has a value by now. */
stator_status st_linker_add_nodes(st_linker *l, stator_builder *b, stator_diag **err);

#endif
