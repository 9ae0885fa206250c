/* Recipes of the command line as options of a compile; see bisect_observe.h. */
#include "tools/bisect/bisect_observe.h"

#include <stdlib.h>

static cli_compile flags_of(const bisect_recipe *recipe)
{
    cli_compile flags = {.fuel = 0};
    if (recipe->flags != NULL) {
        flags = *recipe->flags;
    }
    flags.fuel = recipe->fuel;
    flags.fuel_scope = recipe->fuel_scope;
    flags.compile_flags = recipe->compile_flags;
    if (flags.fuel_scope != NULL || flags.compile_flags != 0) {
        flags.strict = 0; /* a claim that is refused runs on eager */
    }
    return flags;
}

static bool options_of(const bisect_recipe *recipe, cli_options_room *room,
                       stator_compile_options *out)
{
    const cli_compile flags = flags_of(recipe);
    return cli_compile_options(&flags, recipe->backend, -1, room, out);
}

stator_function *bisect_compile(stator_ctx *ctx, stator_model *model, const bisect_recipe *recipe)
{
    const cli_compile flags = flags_of(recipe);
    return cli_compile_model(ctx, model, &flags, recipe->backend, -1);
}

bool bisect_call(stator_function *function, uint32_t n_in, stator_tensor *const *in, uint32_t n_out,
                 bisect_results *out)
{
    *out = (bisect_results){.n_out = n_out, .n_in = n_in};
    out->tensors = calloc((size_t)n_out + n_in + 1u, sizeof(stator_tensor *));
    if (out->tensors == NULL ||
        stator_x_call_copies(function, n_in, in, n_out, out->tensors) != STATOR_OK) {
        bisect_results_free(out);
        return false;
    }
    return true;
}

void bisect_results_free(bisect_results *results)
{
    for (uint32_t i = 0; results->tensors != NULL && i < results->n_out + results->n_in; i++) {
        stator_tensor_release(results->tensors[i]);
    }
    free(results->tensors);
    *results = (bisect_results){0};
}

void bisect_observe(const bisect_pair *pair, uint32_t wanted, stator_x_place *out)
{
    cli_options_room room[2];
    stator_compile_options good, bad;
    *out = (stator_x_place){.struct_size = sizeof *out};
    if (!options_of(&pair->good, &room[0], &good) || !options_of(&pair->bad, &room[1], &bad)) {
        return;
    }
    const stator_x_pair both = {.struct_size = sizeof both,
                                .wanted = wanted,
                                .model = pair->model,
                                .good = &good,
                                .bad = &bad,
                                .in = pair->in,
                                .n_in = pair->n_in,
                                .rtol = pair->tolerance.rtol,
                                .atol = pair->tolerance.atol};
    (void)!stator_x_first_difference(&both, out); /* both sizes are ours */
}

bool bisect_is_rounding(const bisect_pair *pair, stator_x_place *out)
{
    *out = (stator_x_place){.struct_size = sizeof *out};
    if (stator_x_has_rounding(pair->model)) {
        bisect_observe(pair, 0, out);
    }
    return out->is_rounding != 0;
}

void bisect_print_steps(const stator_x_place *place, char *out, size_t room)
{
    (void)snprintf(out, room, "%u value%s off by one step of a rounding, first at node '%s'",
                   place->n_steps, place->n_steps == 1 ? " is" : "s are", place->step_node);
}
