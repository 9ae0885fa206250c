/* What `stator grad` is made of: which nodes a gradient passes through, the facts of a joint graph,
 * the check of each node's rule, and the node that is wrong as a program. */
#ifndef STATOR_GRAD_H
#define STATOR_GRAD_H

#include "tools/cli/cli.h"

#include <stator/train.h>

/* One operand whose gradient is off: the derivative along one direction. */
typedef struct grad_wrong {
    char node[STATOR_X_PLACE_TEXT];
    char operand[48];
    double got, want;
    bool is_undecided; /* operands or results are not finite: the rule may be right */
} grad_wrong;

typedef struct grad_report {
    uint32_t checked;   /* nodes */
    uint32_t unchecked; /* nodes that do not work in f64 */
    grad_wrong *wrong;
    uint32_t n_wrong, n_undecided; /* entries, and those of them that are undecided */
    const char *repro; /* the folder that gets the first node that is wrong; NULL: none does */
} grad_report;

/* The f64 copy of g->model, its nodes one by one. CLI_OK, also when something is wrong, or prints
 * and gives the exit status. Free it in both cases. */
cli_status grad_check(const cli_graph *g, const stator_differentiate_options *options,
                      grad_report *out);
void grad_report_free(grad_report *report);

/* The model of one node and its operands into a new folder, with the command that checks it. */
cli_status grad_write_repro(const cli_graph *g, const stator_model *node, stator_tensor *const *in,
                            const char *folder);

/* By value of the graph: does a gradient pass through it? It depends on a value asked for, and what
 * is differentiated depends on it. NULL: out of memory. */
uint8_t *grad_path(const stator_graph_view *v, const stator_differentiate_options *options);

#endif
