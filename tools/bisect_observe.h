/* Where two ways to compile one model part: inner values are read by compiling again with them as
 * more outputs. Used by `compare` in its own process and by `bisect` in a child. */
#ifndef STATOR_BISECT_OBSERVE_H
#define STATOR_BISECT_OBSERVE_H

#include "cli.h"

#define BISECT_NAME 160u

/* One way to compile a model. */
typedef struct bisect_recipe {
    const char *backend;
    const cli_compile *flags; /* options, mode, fallback; NULL: none of them */
    uint32_t compile_flags;
    int64_t fuel;
    const char *fuel_scope; /* NULL: no limit */
} bisect_recipe;

/* NULL when it fails: the context has the error. */
stator_function *bisect_compile(stator_ctx *ctx, stator_model *model, const bisect_recipe *recipe);

/* What one call gave: the outputs, then the inputs as the call left them (a model may write them).
 */
typedef struct bisect_results {
    stator_tensor **tensors;
    uint32_t n_out, n_in;
} bisect_results;

/* Calls with copies of the inputs. 0: the context has the error. */
int bisect_call(stator_ctx *ctx, stator_function *function, uint32_t n_in, stator_tensor *const *in,
                uint32_t n_out, bisect_results *out);
void bisect_results_free(bisect_results *results);

typedef struct bisect_pair {
    stator_ctx *ctx;
    stator_model *model;
    stator_tensor *const *in;
    uint32_t n_in;
    bisect_recipe good, bad;
    st_tolerance tolerance;
} bisect_pair;

/* One value of the imported graph. Empty texts are unknown. */
typedef struct bisect_place {
    int is_found;
    int is_wanted;    /* it is the value that was asked for first */
    int hides_wanted; /* looking at the value that was asked for makes the difference vanish */
    uint32_t value;
    double max_abs;
    char node[BISECT_NAME];   /* name of the imported node */
    char name[BISECT_NAME];   /* of the value */
    char origin[BISECT_NAME]; /* "Conv 'conv1' (net.onnx:3)" */
} bisect_place;

/* Fills names of a value of the model's graph. */
void bisect_describe(stator_ctx *ctx, const stator_model *model, uint32_t value, bisect_place *out);
/* The first value, in topological order, in which the two recipes differ; `wanted` (0: none) is
 * looked at alone before all others. Not found: the difference vanishes when it is observed. */
void bisect_observe(const bisect_pair *pair, uint32_t wanted, bisect_place *out);

#endif
