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

typedef struct rewriter {
    st_copy *copy;
    st_ruleset set;
} rewriter;

static void visit(void *self, stator_ref node)
{
    const rewriter *r = self;
    if (!st_ruleset_apply(&r->set, r->copy, node)) {
        st_copy_node(r->copy, node);
    }
}

void st_pass_canonicalize(st_copy *c)
{
    rewriter r = {.copy = c};
    uint32_t n = 0;
    const st_rule_def *defs = st_rule_defs(&n);
    c->e.status = st_ruleset_init(&r.set, c->ctx->mem, c->in->module->ops, defs, n, c->e.err);
    st_copy_nodes(c, visit, &r);
    st_ruleset_deinit(&r.set);
}
