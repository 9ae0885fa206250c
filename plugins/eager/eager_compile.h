/* The state of one compile, shared by eager_compile.c and eager_live.c. */
#ifndef STATOR_EAGER_COMPILE_H
#define STATOR_EAGER_COMPILE_H

#include "plugins/eager/eager_execution_plan.h"

typedef struct eager_compile_state { /* one compile */
    eager_inst *inst;
    eager_exe *exe;
    const stator_host *host;
    st_map prog_of_sym; /* sym ref -> program + 1; pools are shared by all regions */
    stator_diag **err;
} eager_compile_state;

typedef struct eager_graph_state { /* one graph of it */
    eager_compile_state *c;
    const stator_graph *graph;
    const stator_graph_view *v;
    eager_execution_plan *plan;
    const uint8_t *known; /* symbols set before the frame starts, by index */
    uint8_t *fresh;       /* symbols that this plan binds */
    uint8_t *is_live;     /* by node */
} eager_graph_state;

/* The symbol when the sym is exactly one. */
bool eager_lone_symbol(const stator_graph_view *v, stator_ref sym, uint32_t *out_index);
/* Marks in `set` the symbols of a type's sizes. */
void eager_mark_type(const stator_graph_view *v, const stator_type_row *type, uint8_t *set);
/* Symbols of the inputs' types that are not known yet: marked with 2 in known_inside, to be bound
 * from the actual shapes when the frame starts. */
void eager_input_symbols(eager_graph_state *g, uint8_t *known_inside);
/* Fills g->fresh and g->is_live. */
void eager_find_live(eager_graph_state *g);

#endif
