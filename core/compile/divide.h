/* Who runs which node: the main backend, one of the fallbacks, or, for control flow, the host.
 *
 * The graph and each region below it are a unit. The backend is asked about the innermost regions
 * first; it may claim a control-flow node only with its whole bodies. A node that it does not claim
 * so is run by the host when the backend claims something inside, else by a fallback whole. Other
 * nodes that it leaves go to the first fallback that runs them. */
#ifndef STATOR_COMPILE_DIVIDE_H
#define STATOR_COMPILE_DIVIDE_H

#include "core/base/vec.h"
#include "core/compile/compile.h"

/* Answers about one graph, by node. */
typedef struct st_unit {
    stator_graph *graph;
    const stator_graph_view *v;
    uint8_t *accepts;  /* main runs it; control flow: with its bodies */
    uint8_t *claim;    /* st_claim */
    uint8_t *declined; /* main's compile answered NEED_FALLBACK for it */
    uint8_t *lower;    /* a composite to be decomposed although main keeps it */
    uint8_t *color;    /* st_color */
    uint8_t *runs;     /* bit i: fallback i runs it; control flow: with its bodies */
    uint8_t *fallback; /* color of the first fallback that runs it; if none does, of the last */
    uint32_t all_run;  /* bits of the fallbacks that run every node but constants */
    char **reasons;    /* by node: why main refuses it, or NULL */
    uint32_t *groups;
    uint32_t n_counted;  /* nodes that are no constants, those of its regions too */
    uint32_t n_refused;  /* counted nodes that main does not accept */
    uint32_t round;      /* last walk that came by */
    uint32_t has_main;   /* main runs something in it */
    uint32_t has_writes; /* a node writes a buffer in place */
    st_parts parts;      /* when it is divided */
    uint32_t is_divided;
    st_program *program; /* when it is assembled */
} st_unit;

enum st_claim { ST_CLAIM_UNASKED = 0, ST_CLAIM_NO = 1, ST_CLAIM_YES = 2 };

typedef struct st_division {
    const st_compile_request *request;
    st_mem *mem;
    stator_graph *graph; /* the root graph; decomposing refused nodes replaces it */
    st_unit *root;
    st_vec(st_unit *) units; /* innermost first, the root last */
    st_map unit_of;          /* address of a graph -> place in units + 1 */
    uint32_t round;
} st_division;

/* Asks what main runs, decomposing what it keeps but refuses, then for fuel, and divides.
 * UNSUPPORTED: nodes are left over and no fallback runs them. The division is to be ended also
 * after a failure. */
stator_status st_divide(const st_compile_request *request, stator_graph *graph,
                        st_division *out_division, stator_diag **err);
/* Divides again after nodes were declined; fuel is asked only about what it was not asked before.
 */
stator_status st_divide_again(st_division *division, stator_diag **err);
void st_division_deinit(st_division *division);
/* The unit of a region. */
st_unit *st_division_unit(const st_division *division, const stator_graph *graph);
/* main's compile does not want the node after all. */
stator_status st_division_decline(st_division *division, st_unit *unit, stator_ref node,
                                  const char *reason, stator_diag **err);
/* Why main does not run the node, "no reason" when it would. */
const char *st_division_reason(const st_unit *unit, stator_ref node);
/* Nodes of a part, those inside its control flow included, constants left out. */
uint32_t st_division_count(const st_division *division, const st_unit *unit, const st_part *part);
/* The first fallback after `after` (UINT32_MAX: of all) that runs the whole part; n_fallbacks:
 * none. */
uint32_t st_division_next_fallback(const st_division *division, const st_unit *unit,
                                   const st_part *part, uint32_t after);
/* Hints about nodes that main does not run; the division's programs are assembled. */
void st_hint_division(const st_division *division, const st_fallback_nodes *fallback_nodes);

#endif
