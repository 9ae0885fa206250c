/* Lines of the log channel perf_hints that the host knows: what makes compiled programs slower
 * than they could be, and what to do about it. A code generator's own are
 * codegen/plan/perf_hints.c's. */
#ifndef STATOR_HOST_HINTS_H
#define STATOR_HOST_HINTS_H

#include "core/compile/divide.h"
#include "core/host/sizes.h"

/* How the process is set up, once a compile. */
void st_hint_settings(const st_compile_request *request);

/* A function that has programs is about to get one more. */
typedef struct st_hint_recompile {
    stator_ctx *ctx;
    st_compiled *const *programs; /* the programs it has, newest first; at least one */
    uint32_t n_programs;
    const st_specialisation *next; /* import that the new program is made of */
    const DLTensor *in;            /* dense inputs of the call */
    st_sizes *sizes;               /* axes that a line names are marked */
    uint32_t is_static;            /* STATOR_COMPILE_STATIC */
    uint32_t is_generic; /* the recompile limit is reached: the program is for all sizes */
} st_hint_recompile;

void st_hint_recompiled(const st_hint_recompile *what);

#endif
