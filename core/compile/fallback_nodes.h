/* The nodes of a divided graph that main does not run, by op and reason: what perf_hints and
 * explain print. */
#ifndef STATOR_COMPILE_FALLBACK_NODES_H
#define STATOR_COMPILE_FALLBACK_NODES_H

#include "core/base/arena.h"
#include "core/base/diag.h"
#include "core/base/vec.h"

struct st_division; /* divide.h */

typedef struct st_fallback_entry {
    const char *op;
    const char *reason;
    const char *name; /* name of the first named node; "": none has one */
    uint32_t count;   /* nodes; those inside control flow count with it */
} st_fallback_entry;

typedef struct st_fallback_nodes {
    st_mem *mem;    /* NULL: nothing was counted */
    st_arena arena; /* texts */
    st_vec(st_fallback_entry) entries;
    uint32_t n_nodes;
    uint32_t n_handed; /* (value, part that reads it) from one backend to the other */
    uint32_t n_host;   /* parts that are the host's whoever runs the rest: loops, branches */
} st_fallback_nodes;

/* Counts the fallback nodes of a division whose programs are assembled. `out` is to be ended also
 * after a failure; RESOURCE_EXHAUSTED. */
stator_status st_fallback_nodes_count(const struct st_division *division, st_fallback_nodes *out,
                                      stator_diag **err);
void st_fallback_nodes_deinit(st_fallback_nodes *nodes);

#endif
