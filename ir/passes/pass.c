/* The list of built-in passes and running one of them.
 *
 * In: a finished graph. Out: the graph itself when nothing changed, else a new graph of the same
 * module; the old one stays as it was, so dumps and undo come free. Each application of a pass is
 * asked for first (fuel kind PASS); so is each rewrite inside it. */
#include "ir/passes/pass_copy.h"
#include <string.h>

static const st_pass_def defs[] = {
#define STATOR_PASS(name_, fn_, rounds_, ...)                                                      \
    {.name = #name_, .run = (fn_), .max_rounds = (rounds_), .doc = __VA_ARGS__},
#include "ir/passes/passes.def"
#undef STATOR_PASS
};

const st_pass_def *st_pass_defs(uint32_t *out_count)
{
    *out_count = (uint32_t)(sizeof defs / sizeof defs[0]);
    return defs;
}

const st_pass_def *st_pass_find(const char *name)
{
    for (uint32_t i = 0; i < sizeof defs / sizeof defs[0]; i++) {
        if (strcmp(defs[i].name, name) == 0) {
            return &defs[i];
        }
    }
    return NULL;
}

bool st_pass_may(const st_pass_ctx *ctx, uint32_t kind, const char *rule, stator_ref node)
{
    return ctx->may_apply == NULL || ctx->may_apply(ctx->fuel_self, kind, rule, node);
}

void st_pass_about(const st_pass_ctx *ctx, const stator_graph *graph)
{
    if (ctx->about != NULL) {
        ctx->about(ctx->fuel_self, graph);
    }
}

static stator_status run_once(const st_pass_def *def, const st_pass_ctx *ctx, stator_graph *in,
                              stator_graph **out_graph, stator_diag **err)
{
    stator_builder *b = NULL;
    uint32_t result = STATOR_PASS_SAME;
    *out_graph = in;
    ST_TRY(st_builder_create(in->module, st_module_str(in->module, in->name), &b, err));
    st_pass_about(ctx, in);
    const stator_status status = st_copy_run(def->run, ctx, in, b, &result, err);
    if (status != STATOR_OK || result == STATOR_PASS_SAME) {
        st_builder_abort(b);
        return status;
    }
    return st_builder_finish(b, out_graph, err);
}

stator_status st_pass_run(const st_pass_def *def, const st_pass_ctx *ctx, stator_graph *in,
                          stator_graph **out_graph, stator_diag **err)
{
    *out_graph = in;
    if (!def->is_required && !st_pass_may(ctx, STATOR_FUEL_PASS, def->name, 0)) {
        return STATOR_OK;
    }
    const uint32_t rounds = def->max_rounds > 1 ? def->max_rounds : 1;
    for (uint32_t i = 0; i < rounds; i++) {
        stator_graph *next = NULL;
        const stator_status status = run_once(def, ctx, *out_graph, &next, err);
        if (status != STATOR_OK) {
            if (err != NULL && *err != NULL) {
                st_diag_prefix(*err, "pass %s", def->name);
            }
            *out_graph = in;
            return status;
        }
        if (next == *out_graph) {
            break;
        }
        *out_graph = next;
    }
    return STATOR_OK;
}
