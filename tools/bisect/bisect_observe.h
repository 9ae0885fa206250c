/* Ways to compile a model, of the command line: compiled, called, and where two of them part. Used
 * by `compare` in its own process and by `bisect` and `minify` in children. */
#ifndef STATOR_BISECT_OBSERVE_H
#define STATOR_BISECT_OBSERVE_H

#include "tools/cli/cli.h"

#define BISECT_NAME STATOR_X_PLACE_TEXT

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

/* Results of one call: its outputs, then the inputs as the call left them (a model may write
 * them). */
typedef struct bisect_results {
    stator_tensor **tensors;
    uint32_t n_out, n_in;
} bisect_results;

/* Calls with copies of the inputs. 0: the context has the error. */
bool bisect_call(stator_function *function, uint32_t n_in, stator_tensor *const *in, uint32_t n_out,
                 bisect_results *out);
void bisect_results_free(bisect_results *results);

typedef struct bisect_pair {
    stator_model *model;
    stator_tensor *const *in;
    uint32_t n_in;
    bisect_recipe good, bad;
    st_tolerance tolerance;
} bisect_pair;

/* Do the two differ by steps of roundings alone? Asked of answers that differ. *out says where. */
bool bisect_is_rounding(const bisect_pair *pair, stator_x_place *out);
/* "3 values are off by one step of a rounding, first at node 'x'" */
void bisect_print_steps(const stator_x_place *place, char *out, size_t room);
/* See stator_x_first_difference; `wanted` is a value, or 0. */
void bisect_observe(const bisect_pair *pair, uint32_t wanted, stator_x_place *out);

#endif
