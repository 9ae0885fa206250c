/* One run of a model in a child process (child.h): what bisect is made of. */
#ifndef STATOR_BISECT_CHILD_H
#define STATOR_BISECT_CHILD_H

#include "tools/bisect/bisect_observe.h"
#include "tools/child.h"
#include "tools/child_tensors.h"

/* One granted application, as the child wrote it down before it happened. */
typedef struct bisect_step {
    uint32_t scope;
    uint32_t kind; /* stator_fuel_kind */
    uint64_t n;
    uint32_t witness;
    uint32_t reserved;
    char rule[BISECT_NAME];
    char pass[BISECT_NAME]; /* "" when no pass asked */
    char node[BISECT_NAME]; /* imported node it is about, "" unknown */
} bisect_step;

enum bisect_limit_kind { BISECT_ALL = 0, BISECT_NOTHING = 1, BISECT_UP_TO = 2 };

typedef struct bisect_limit {
    uint32_t kind;
    uint32_t scope;
    uint64_t n; /* UINT64_MAX: to the end of the scope */
} bisect_limit;

/* Settings that all runs share. */
typedef struct bisect_setup {
    cli_common common;
    cli_inputs inputs;
    cli_compile compile; /* options of the bad backend's compiles */
    st_tolerance tolerance;
    const char *path;
    const char *good, *bad;
    int64_t timeout_s;
    child_tensors want; /* the answers of the good backend */
} bisect_setup;

enum bisect_task {
    BISECT_KEEP = 1,    /* run and keep the answers in setup->want */
    BISECT_RUN = 2,     /* run and compare with setup->want */
    BISECT_LIST = 3,    /* RUN, and list the applied transformations */
    BISECT_OBSERVE = 4, /* find the first value that differs from the good backend's */
    BISECT_DESCRIBE = 5 /* name the value `wanted` */
};

typedef struct bisect_job {
    uint32_t task;
    const char *backend;
    bisect_limit limit;
    uint32_t wanted; /* OBSERVE, DESCRIBE: a value, or 0 */
} bisect_job;

enum bisect_verdict {
    BISECT_AGREES = 1,
    BISECT_DIFFERS = 2,
    BISECT_FAILS = 3,   /* compiling or calling gave an error */
    BISECT_CRASHES = 4, /* a signal, an exit or no answer in time */
    BISECT_REFUSED = 5  /* the model, an input, the backend or an option could not be used */
};

typedef struct bisect_outcome {
    uint32_t verdict;
    double max_abs;
    child_error error;
    stator_x_place place;
    bisect_step *steps; /* LIST: sorted by serial */
    uint32_t n_steps;
} bisect_outcome;

/* In a child: opens a context, loads the model and its inputs. 0: cli_last_error says why not. */
bool bisect_load(const bisect_setup *setup, stator_ctx **ctx, stator_model **model,
                 stator_tensor ***in, uint32_t *n_in);
/* 0 when no child could be made (an error was printed). */
bool bisect_child(bisect_setup *setup, const bisect_job *job, bisect_outcome *out);
void bisect_outcome_free(bisect_outcome *outcome);

#endif
