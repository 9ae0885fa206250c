/* Shape constraints of a graph on sizes known only at call time.
 *
 * An infer rule refuses what is proved wrong and lets pass what is unknown; the latter it states as
 * a shape constraint. Those are not stored: they follow from the graph, and are listed by asking
 * the rules of all nodes again. Whoever runs the graph tests them when the sizes are known.
 *
 *     conv(x, w: f32[M,16,3,3]) {groups = 4}   ->   M is a multiple of 4 */
#ifndef STATOR_IR_SHAPE_CONSTRAINT_LIST_H
#define STATOR_IR_SHAPE_CONSTRAINT_LIST_H

#include "core/base/shape_constraint.h"
#include "core/base/vec.h"
#include "ir/graph.h"

typedef struct st_shape_constraint {
    uint32_t kind; /* st_shape_constraint_kind */
    stator_ref size[3];
    int64_t step;
    char *text; /* "conv 'conv1': bias and filters" */
} st_shape_constraint;

typedef struct st_shape_constraints {
    st_mem *mem;
    st_vec(st_shape_constraint) rows; /* each once */
    const char *node;                 /* the name of the one at hand */
    bool is_oom;
} st_shape_constraints;

void st_shape_constraints_init(st_shape_constraints *shape_constraints, st_mem *mem);
void st_shape_constraints_deinit(st_shape_constraints *shape_constraints);
/* Notes a shape constraint of `op` unless it is there already. One whose sizes are beyond a
 * limit of the symbolic engine (0) or known only while the graph runs is its kernel's to test. */
void st_shape_constraints_add(st_shape_constraints *shape_constraints, st_symtab *tab,
                              const st_shape_constraint *constraint, const char *op,
                              const char *what);
/* The shape constraints of the nodes of a verified graph; not those of its regions, which may
 * not run at all. */
stator_status st_graph_shape_constraints(const stator_graph *graph,
                                         st_shape_constraints *shape_constraints,
                                         stator_diag **err);
/* Does the sym hold a symbol that only the running graph tells? */
bool st_sym_holds_unbacked(const st_symtab *tab, uint32_t sym);

#endif
