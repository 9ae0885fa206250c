/* Algebra rules that shrink or normalise.
 *
 *     a = sub(x, [0])  b = transpose(a)  c = transpose(b)    ->    (uses of c read x)
 *
 * In: any graph. Out: the rules of rules.def applied once to each node in order, over operands that
 * are already rewritten; the manager repeats the pass until nothing changes. Inner nodes that lost
 * their last user stay for dce. */
#include "ir/passes/rewrite_rules.h"

static const st_rule_def rule_defs[] = {
#define STATOR_RULE(name_, ...) {.name = #name_, __VA_ARGS__},
#include "ir/passes/rules.def"
#undef STATOR_RULE
};

const st_rule_def *st_rule_defs(uint32_t *out_count)
{
    *out_count = (uint32_t)(sizeof rule_defs / sizeof rule_defs[0]);
    return rule_defs;
}

static stator_status rewrite_nodes(const st_ruleset *set, st_copy *c, uint32_t *out_result,
                                   stator_diag **err)
{
    for (stator_ref node = 1; node <= c->v->n_nodes; node++) {
        uint32_t applied = 0;
        ST_TRY(st_ruleset_apply(set, c, node, &applied, err));
        if (!applied) {
            ST_TRY(st_copy_node(c, node, err));
        }
    }
    return st_copy_end(c, out_result, err);
}

stator_status st_pass_canonicalize(const st_pass_ctx *ctx, const stator_graph *in,
                                   stator_builder *out, uint32_t *out_result, stator_diag **err)
{
    st_copy c = {.ctx = ctx};
    st_ruleset set;
    uint32_t n = 0;
    const st_rule_def *defs = st_rule_defs(&n);
    *out_result = STATOR_PASS_SAME;
    ST_TRY(st_ruleset_init(&set, ctx->mem, in->module->ops, defs, n, err));
    stator_status status = st_copy_begin(&c, ctx, in, out, st_pass_canonicalize, true, err);
    if (status == STATOR_OK) {
        status = rewrite_nodes(&set, &c, out_result, err);
    }
    st_ruleset_deinit(&set);
    st_copy_deinit(&c);
    return status;
}
