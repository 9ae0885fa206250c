/* Noise of `numerics=fused`: what ops of f16 and bf16 make may reach the next op of its kernel
 * without being rounded.
 *
 * So each op that computes may see each such operand half a unit away, and another op another way;
 * what is infinite in f16 may be a number, and what is subnormal or vanished off by a unit. Ops
 * that only move or choose hand on what they get. */
#include "gf.h"
#include "gf_write.h"

#include <string.h>

static int is_narrow(uint8_t dtype)
{
    return dtype == STATOR_F16 || dtype == STATOR_BF16;
}

static int is_one_of(const char *op, const char *const *list)
{
    while (*list && strcmp(op, *list) != 0) {
        list++;
    }
    return *list != NULL;
}

/* Does it give elements of its operands as they are, but for signs? */
static int is_passing(const gf_node *node)
{
    static const char *const ops[] = {"abs",        "neg",
                                      "clamp",      "max",
                                      "min",        "relu",
                                      "select",     "concat",
                                      "expand",     "gather",
                                      "pad",        "reshape",
                                      "slice",      "reverse",
                                      "tile",       "topk",
                                      "transpose",  "trilu",
                                      "reduce_max", "sort",
                                      "reduce_min", "gather_elements",
                                      "gather_nd",  "max_pool",
                                      "constant",   NULL};
    return is_one_of(node->op, ops);
}

/* May the value be there without its last rounding? */
static int is_unrounded(const gf_program *p, int value)
{
    uint8_t marks[GF_VALUES] = {0};
    for (int v = 0; v <= value; v++) {
        const gf_value *at = &p->values[v];
        const gf_node *node = at->is_input || at->node < 0 ? NULL : &p->nodes[at->node];
        marks[v] = node != NULL && is_narrow(at->dtype) && !is_passing(node);
        for (int i = 0; node && is_passing(node) && i < node->n_args; i++) {
            marks[v] |= node->args[i] >= 0 && marks[node->args[i]];
        }
    }
    return marks[value];
}

int gf_is_unrounded(const gf_program *p, const gf_node *node, int place)
{
    return p->is_fused && place < node->n_args && node->args[place] >= 0 && !is_passing(node) &&
           is_unrounded(p, node->args[place]);
}

/* What vanished may have been more than nothing. */
static int may_have_vanished(const gf_program *p, int value)
{
    static const char *const ops[] = {"mul", "div", "square", "exp", NULL};
    const gf_node *node = &p->nodes[p->values[value].node];
    return node->noise != GF_EXACT || is_one_of(node->op, ops);
}

/* %y, or another name: %v times %z; of f16, infinite ones as random as that, or all of them, the
 * largest number, and small ones off by a subnormal unit. */
void gf_write_unrounded(const gf_program *p, gf_writer *w, int at, int value, char name)
{
    if (p->values[value].dtype == STATOR_BF16) {
        gf_add(w, "  %%%c%d = mul(%%v%d, %%z%d)\n", name, at, value, at);
        return;
    }
    gf_add(w, "  %%qa%d = mul(%%v%d, %%z%d)\n  %%qb%d = abs(%%v%d)\n", at, value, at, at, value);
    gf_add(w, "  %%qc%d = constant {value = f16[] {1}}\n  %%qd%d = sub(%%z%d, %%qc%d)\n", at, at,
           at, at);
    gf_add(w, "  %%qe%d = constant {value = f16[] {0x1p-14}}\n  %%qf%d = mul(%%qd%d, %%qe%d)\n", at,
           at, at, at);
    gf_add(w, "  %%qg%d = lt(%%qb%d, %%qe%d)\n  %%qi%d = constant {value = f16[] {0}}\n", at, at,
           at, at);
    gf_add(w, "  %%qh%d = %s(%%qb%d, %%qi%d)\n  %%qj%d = bit_and(%%qg%d, %%qh%d)\n", at,
           may_have_vanished(p, value) ? "ge" : "gt", at, at, at, at, at);
    gf_add(w, "  %%qk%d = add(%%qa%d, %%qf%d)\n  %%ql%d = select(%%qj%d, %%qk%d, %%qa%d)\n", at, at,
           at, at, at, at, at);
    gf_add(w, "  %%qm%d = constant {value = f16[] {65504}}\n  %%qn%d = neg(%%qm%d)\n", at, at, at);
    gf_add(w, "  %%qo%d = lt(%%v%d, %%qi%d)\n  %%qp%d = select(%%qo%d, %%qn%d, %%qm%d)\n", at,
           value, at, at, at, at, at);
    gf_add(w, "  %%qt%d = reduce_sum(%%qd%d) {axes = [", at, at);
    for (int a = 0; a < p->values[value].rank; a++) {
        gf_add(w, "%s%d", a ? ", " : "", a);
    }
    gf_add(w, "]}\n  %%qu%d = lt(%%qt%d, %%qi%d)\n", at, at, at);
    gf_add(w, "  %%qq%d = is_inf(%%v%d)\n  %%qr%d = lt(%%z%d, %%qc%d)\n", at, value, at, at, at);
    gf_add(w, "  %%qv%d = bit_or(%%qr%d, %%qu%d)\n", at, at, at);
    gf_add(w, "  %%qs%d = bit_and(%%qq%d, %%qv%d)\n  %%%c%d = select(%%qs%d, %%qp%d, %%ql%d)\n", at,
           at, at, name, at, at, at, at);
}
