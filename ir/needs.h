/* What a graph needs of sizes that only a call tells.
 *
 * An infer rule refuses what is proved wrong and lets pass what is unknown; the latter it states as
 * a need. Needs are not stored: they follow from the graph, and are listed by asking the rules of
 * all nodes again. Whoever runs the graph tests them when the sizes are known.
 *
 *     conv(x, w: f32[M,16,3,3]) {groups = 4}   ->   M is a multiple of 4 */
#ifndef STATOR_IR_NEEDS_H
#define STATOR_IR_NEEDS_H

#include "core/base/need.h"
#include "core/base/vec.h"
#include "ir/graph.h"

typedef struct st_need {
    uint32_t kind; /* st_need_kind */
    stator_ref size[3];
    int64_t step;
    char *text; /* "conv 'conv1': bias and filters" */
} st_need;

typedef struct st_needs {
    st_mem *mem;
    st_vec(st_need) rows; /* each once */
    const char *node;     /* the name of the one at hand */
    int is_oom;
} st_needs;

void st_needs_init(st_needs *needs, st_mem *mem);
void st_needs_deinit(st_needs *needs);
/* Notes a need of `op` unless it is there already. One whose sizes are past a cap of the symbolic
 * engine (0) or known only while the graph runs is its kernel's to test. */
void st_needs_add(st_needs *needs, st_symtab *tab, const st_need *need, const char *op,
                  const char *what);
/* What the nodes of a verified graph need; not those of its regions, which may not run at all. */
stator_status st_graph_needs(const stator_graph *graph, st_needs *needs, stator_diag **err);
/* Does the sym hold a symbol that only the running graph tells? */
int st_sym_holds_unbacked(const st_symtab *tab, uint32_t sym);

#endif
