/* recompose beyond its golden files: each composite that is decomposed is found again at every
 * level, in every float dtype; origins and witnesses; shared values; fuel; memory that runs out. */
#include "ir/passes/recompose.h"
#include "ir/verify.h"
#include "support_text.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

typedef struct world {
    text_world w;
    text_graph g;
    stator_graph *graph;
    const char *keep; /* one op; NULL: every composite */
    uint32_t asked;
    uint32_t allowed;
} world;

static int32_t keep(void *self, const stator_graph *graph, stator_ref node)
{
    const world *t = self;
    const stator_graph_view *v = st_graph_view(graph);
    const char *op = stator_op_at(v, stator_node_at(v, node)->op)->name;
    return t->keep == NULL || strcmp(op, t->keep) == 0;
}

static int32_t may_apply(void *self, uint32_t kind, const char *rule, stator_ref node)
{
    world *t = self;
    (void)rule;
    (void)node;
    return kind == STATOR_FUEL_PASS || t->asked++ < t->allowed;
}

static st_pass_ctx ctx_of(world *t, int with_keep)
{
    return (st_pass_ctx){.mem = &t->w.mem,
                         .may_apply = may_apply,
                         .fuel_self = t,
                         .keep = with_keep ? keep : NULL,
                         .keep_self = t};
}

static void read_graph(world *t, const char *text)
{
    stator_diag *err = NULL;
    text_world_init(&t->w);
    t->allowed = UINT32_MAX;
    cr_assert_eq(text_read(&t->w, text, strlen(text), NULL, NULL, &t->g, &err), STATOR_OK, "%s\n%s",
                 st_diag_text(err), text);
    t->graph = t->g.graph;
}

static void free_graph(world *t)
{
    text_graph_free(&t->g);
    text_world_deinit(&t->w);
}

static void run(world *t, const char *pass, int with_keep, uint32_t rounds)
{
    stator_diag *err = NULL;
    const st_pass_ctx ctx = ctx_of(t, with_keep);
    st_pass_def def = *st_pass_find(pass);
    def.max_rounds = rounds != 0 ? rounds : def.max_rounds;
    cr_assert_eq(st_pass_run(&def, &ctx, t->graph, &t->graph, &err), STATOR_OK, "%s: %s", pass,
                 st_diag_text(err));
    cr_assert_eq(st_verify(t->graph, &err), STATOR_OK, "%s: %s", pass, st_diag_text(err));
}

static uint32_t count_op(const world *t, const char *op)
{
    const stator_graph_view *v = st_graph_view(t->graph);
    uint32_t n = 0;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        n += strcmp(stator_op_at(v, stator_node_at(v, node)->op)->name, op) == 0;
    }
    return n;
}

/* Nodes that are no constants. */
static uint32_t count_nodes(const world *t)
{
    const stator_graph_view *v = st_graph_view(t->graph);
    uint32_t n = 0;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        n += (stator_op_at(v, stator_node_at(v, node)->op)->flags & STATOR_OP_CONSTANT) == 0;
    }
    return n;
}

/* ---- there and back ---- */

static const char *op_of(const st_rc_def *def)
{
    uint32_t n = 0;
    return st_op_defs(&n)[def->op - 1u].name;
}

/* One node of the row's op. */
static void write_node(const st_rc_def *def, const char *dtype, char *out, size_t size)
{
    char attrs[64] = "";
    if (def->set != NULL) {
        snprintf(attrs, sizeof attrs, " {%s = \"%s\"}", def->set, def->to);
    }
    snprintf(out, size,
             "stir 1\ngraph @main(%%x: %s[2, 6], %%w: %s[6], %%b: %s[6]) {\n"
             "  %%y = %s(%%x%s%s)%s\n  return y: %%y\n}\n",
             dtype, dtype, dtype, op_of(def), def->operands > 1 ? ", %w" : "",
             def->operands > 2 ? ", %b" : "", attrs);
}

/* The composite becomes lower ops, and these become the composite. */
static void check_round_trip(const st_rc_def *def, const char *dtype, uint32_t levels)
{
    world t = {.keep = op_of(def)};
    char text[512];
    write_node(def, dtype, text, sizeof text);
    read_graph(&t, text);
    run(&t, "decompose", 0, levels);
    cr_assert_eq(count_op(&t, op_of(def)), 0, "%s is not decomposed", def->name);
    run(&t, "canonicalize", 0, 0);
    run(&t, "recompose", 1, 0);
    run(&t, "dce", 0, 0);
    cr_expect_eq(count_op(&t, op_of(def)), 1, "%s in %s, %u levels down: not found", def->name,
                 dtype, levels);
    cr_expect_eq(count_nodes(&t), 1, "%s in %s: %u nodes are left", def->name, dtype,
                 count_nodes(&t));
    free_graph(&t);
}

Test(recompose, every_composite_is_found_at_every_level)
{
    static const char *const dtypes[] = {"f32", "f64", "bf16", "f16"};
    uint32_t n = 0;
    const st_rc_def *defs = st_rc_defs(&n);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t d = 0; d < 4 && defs[i].program == NULL; d++) {
            for (uint32_t levels = 1; levels <= 3; levels++) {
                check_round_trip(&defs[i], dtypes[d], levels);
            }
        }
    }
}

/* With everything kept, the outermost composite is what comes back. */
Test(recompose, outermost_composite_wins)
{
    world t = {.keep = NULL};
    read_graph(&t, "stir 1\ngraph @main(%x: f32[2, 6]) {\n  %y = mish(%x)\n  return y: %y\n}\n");
    run(&t, "decompose", 0, 0);
    run(&t, "canonicalize", 0, 0);
    run(&t, "recompose", 1, 0);
    cr_expect_eq(count_op(&t, "mish"), 1);
    cr_expect_eq(count_nodes(&t), 1);
    cr_expect_eq(t.asked, 3, "two decompositions and one composite: %u", t.asked);
    free_graph(&t);
}

/* ---- attention ---- */

#define ATTENTION                                                                                  \
    "stir 1\ngraph @main(%q: f32[2, 4, 3, 8], %k: f32[2, 4, 5, 8], %v: f32[2, 4, 5, 8], "          \
    "%m: f32[2, 1, 1, 5]) {\n"                                                                     \
    "  %c = constant {value = f32[] {0.35355338}}\n"                                               \
    "  %t = transpose(%k) {perm = [0, 1, 3, 2]} @\"turn\":Transpose\n"                             \
    "  %s = matmul(%q, %t) @\"scores\":MatMul\n"                                                   \
    "  %z = mul(%s, %c)\n"                                                                         \
    "  %a = add(%z, %m)\n"                                                                         \
    "  %p = softmax(%a) @\"softmax\":Softmax\n"                                                    \
    "  %y = matmul(%p, %v) @\"out\":MatMul\n"                                                      \
    "  return y: %y"

/* Is the name among the node's origins? */
static int has_origin(const stator_graph_view *v, stator_ref node, const char *name)
{
    stator_ref at = stator_node_at(v, node)->origin;
    while (at != 0) {
        const stator_origin_row *row = stator_origin_at(v, at);
        if (strcmp(stator_string_at(v, row->name), name) == 0) {
            return 1;
        }
        at = row->next;
    }
    return 0;
}

Test(recompose, attention_keeps_witness_and_origins)
{
    world t = {.keep = "sdpa"};
    read_graph(&t, ATTENTION "\n}\n");
    const stator_ref witness = stator_output_at(st_graph_view(t.graph), 0);
    run(&t, "recompose", 1, 0);
    const stator_graph_view *v = st_graph_view(t.graph);
    const stator_value_row *y = stator_value_at(v, stator_output_at(v, 0));
    cr_assert_eq(count_op(&t, "sdpa"), 1);
    cr_expect_eq(y->witness, witness);
    cr_expect_str_eq(stator_string_at(v, y->name), "y");
    static const char *const names[] = {"out", "softmax", "scores", "turn"};
    for (uint32_t i = 0; i < 4; i++) {
        cr_expect(has_origin(v, y->node, names[i]), "origin '%s' is lost", names[i]);
    }
    free_graph(&t);
}

/* Scores that are an output too are computed for it; the attention is still found. What reads the
 * weights stops it. */
Test(recompose, attention_with_inner_values_read_elsewhere)
{
    world t = {.keep = "sdpa"};
    read_graph(&t, ATTENTION ", k: %t\n}\n");
    run(&t, "recompose", 1, 0);
    cr_expect_eq(count_op(&t, "sdpa"), 1);
    cr_expect_eq(count_op(&t, "transpose"), 1, "an output");
    cr_expect_eq(count_op(&t, "softmax"), 0);
    free_graph(&t);
    read_graph(&t, ATTENTION ", p: %p\n}\n");
    run(&t, "recompose", 1, 0);
    cr_expect_eq(count_op(&t, "sdpa"), 0);
    free_graph(&t);
}

Test(recompose, nothing_without_a_keep_set)
{
    world t = {.keep = "gelu"};
    read_graph(&t, ATTENTION "\n}\n");
    const stator_graph *before = t.graph;
    run(&t, "recompose", 0, 0);
    cr_expect_eq(t.graph, before);
    run(&t, "recompose", 1, 0);
    cr_expect_eq(t.graph, before, "the backend keeps another op");
    cr_expect_eq(t.asked, 0, "fuel is asked for what is kept only");
    free_graph(&t);
}

/* ---- fuel, memory, size ---- */

#define TWO                                                                                        \
    "stir 1\ngraph @main(%x: f32[4]) {\n"                                                          \
    "  %a = sigmoid(%x)\n  %b = mul(%x, %a)\n  %c = sigmoid(%b)\n  %d = mul(%c, %b)\n"             \
    "  return y: %d\n}\n"

/* The second one is asked about first. */
Test(recompose, fuel_limits_recompositions)
{
    for (uint32_t allowed = 0; allowed <= 2; allowed++) {
        world t = {.keep = "silu"};
        read_graph(&t, TWO);
        t.allowed = allowed;
        run(&t, "recompose", 1, 0);
        cr_expect_eq(count_op(&t, "silu"), allowed);
        cr_expect_eq(count_op(&t, "sigmoid"), 2 - allowed);
        cr_expect_eq(t.asked, 2);
        free_graph(&t);
    }
}

static const char no_memory_text[] =
    "stir 1\ngraph @main(%q: bf16[2, 4, 3, 8], %k: bf16[2, 4, 5, 8], %v: bf16[2, 4, 5, 8]) {\n"
    "  %c = constant {value = bf16[] {0.3535}}\n"
    "  %t = transpose(%k) {perm = [0, 1, 3, 2]}\n"
    "  %s = matmul(%q, %t)\n"
    "  %a = mul(%s, %c)\n"
    "  %p = softmax(%a)\n"
    "  %o = matmul(%p, %v)\n"
    "  %g = sigmoid(%o)\n"
    "  %y = mul(%o, %g)\n"
    "  return y: %y\n}\n";

Test(recompose, every_allocation_may_fail)
{
    uint32_t done = 0;
    for (uint64_t n = 1; !done && n < 20000; n++) {
        world t = {.keep = NULL};
        stator_diag *err = NULL;
        read_graph(&t, no_memory_text);
        const st_pass_ctx ctx = ctx_of(&t, 1);
        t.w.mem.requests = 0;
        t.w.mem.fail_at = n;
        const stator_status status =
            st_pass_run(st_pass_find("recompose"), &ctx, t.graph, &t.graph, &err);
        done = t.w.mem.requests < n;
        t.w.mem.fail_at = 0;
        cr_assert_eq(status, done ? STATOR_OK : STATOR_RESOURCE_EXHAUSTED, "request %llu: %s",
                     (unsigned long long)n, st_diag_text(err));
        cr_assert(!done || (count_op(&t, "sdpa") == 1 && count_op(&t, "silu") == 1));
        st_diag_release(err);
        free_graph(&t);
    }
    cr_assert(done);
}

/* Products of many equal factors are where the most choices are: the pass gives up in time and
 * changes nothing. */
Test(recompose, search_over_equal_factors_is_bounded, .timeout = 20)
{
    char text[16384];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "stir 1\ngraph @main(%%x: f32[4]) {\n"
                                "  %%e = exp(%%x)\n  %%t = tanh(%%e)\n  %%s = sqrt(%%t)\n"
                                "  %%v0 = mul(%%s, %%s)\n");
    for (uint32_t i = 1; i < 200; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "  %%v%u = mul(%%v%u, %%%c)\n", i, i - 1u,
                              "ets"[i % 3u]);
    }
    snprintf(text + n, sizeof text - n, "  return y: %%v199\n}\n");
    world t = {.keep = NULL};
    read_graph(&t, text);
    const stator_graph *before = t.graph;
    run(&t, "recompose", 1, 0);
    cr_expect_eq(t.graph, before);
    free_graph(&t);
}
