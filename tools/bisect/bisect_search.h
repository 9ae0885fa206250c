/* The search of bisect: a ladder of backends, then halving the fuel number. */
#ifndef STATOR_BISECT_SEARCH_H
#define STATOR_BISECT_SEARCH_H

#include "tools/bisect/bisect_child.h"

typedef struct bisect_finding {
    int is_found;
    bool is_hidden;         /* the difference vanishes when inner values are observed */
    char rung[BISECT_NAME]; /* "aot_eager+canonicalize", "mybackend" */
    const char *kind;       /* pass, rewrite, decomposition, kernel, crash */
    const char *backend;
    char pass[BISECT_NAME]; /* "" absent, as all texts here */
    char rule[BISECT_NAME];
    bool has_serial;
    uint32_t scope;
    uint64_t n;
    stator_x_place place; /* texts and max_abs; max_abs of the outputs when no value was observed */
    bool has_error;       /* max_abs is one */
    char message[1024];   /* text of an error or a crash */
} bisect_finding;

/* CLI_OK with the finding, or prints and gives the exit status. */
cli_status bisect_search(bisect_setup *setup, bisect_finding *out);

#endif
