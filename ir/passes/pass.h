/* Passes and the pass manager. A pass reads one graph and writes another; our own and third-party
 * ones look the same to the manager. */
#ifndef STATOR_PASSES_PASS_H
#define STATOR_PASSES_PASS_H

#include "ir/graph.h"
#include "ir/recompute/kept.h"

/* The surroundings of a pass. `fuel` answers "may I apply this?" (docs/fuel.md). */
typedef struct st_pass_ctx {
    st_mem *mem;
    int32_t (*may_apply)(void *self, uint32_t kind, const char *rule, stator_ref node);
    void *fuel_self;
    stator_fuel_scope *fuel_scope; /* scope of the same questions for third-party passes */
    /* Says which graph the questions from here on are about, with fuel_self; may be NULL. */
    void (*about)(void *self, const stator_graph *graph);
    /* keep-set: 1 when the backend keeps this composite node whole */
    int32_t (*keep)(void *self, const stator_graph *graph, stator_ref node);
    void *keep_self;
    /* Evaluates one node whose operands are all constants, giving one blob per result; NULL when no
     * evaluator is at hand (then nothing is folded). */
    stator_status (*evaluate)(void *self, const stator_graph *graph, stator_ref node,
                              stator_blob **out_blobs, stator_diag **err);
    void *evaluate_self;
    uint32_t freeze;                            /* parameters become constants */
    const st_keep_limits *keep_limits;          /* of rematerialise; NULL: budget 1 */
    void (*note)(void *self, const char *text); /* what a user should be told; may be NULL */
    void *note_self;
} st_pass_ctx;

struct st_copy;                                /* pass_copy.h */
typedef void (*st_pass_fn)(struct st_copy *c); /* what fails is kept in the copy */

typedef struct st_pass_def { /* one row of the pass list */
    const char *name;
    const char *doc;
    st_pass_fn run;
    uint32_t max_rounds; /* run again while something changes, at most this often in all */
    bool is_required;    /* without it no backend runs the graph, so fuel is not asked */
} st_pass_def;

/* Built-in passes, in the order of passes.def. */
const st_pass_def *st_pass_defs(uint32_t *out_count);
const st_pass_def *st_pass_find(const char *name); /* NULL unknown */

/* Asks the fuel question; yes when nobody answers it. */
bool st_pass_may(const st_pass_ctx *ctx, uint32_t kind, const char *rule, stator_ref node);
void st_pass_about(const st_pass_ctx *ctx, const stator_graph *graph);

/* Runs one pass on `in`; *out_graph is `in` itself when nothing changed. */
stator_status st_pass_run(const st_pass_def *def, const st_pass_ctx *ctx, stator_graph *in,
                          stator_graph **out_graph, stator_diag **err);

#endif
