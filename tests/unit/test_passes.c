/* Passes over small graphs in text: input, pass, exact expected output; fuel, refusals, witnesses.
 */
#include "core/base/blob.h"
#include "ir/passes/rewrite.h"
#include "ir/verify.h"
#include "support_text.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Answers the fuel question: yes to the first `limit` applications that are no whole pass. */
typedef struct fuel_log {
    uint32_t asked;
    uint32_t limit;
    uint32_t refuse_passes;
    const char *last_rule;
} fuel_log;

static int32_t may_apply(void *self, uint32_t kind, const char *rule, stator_ref node)
{
    fuel_log *f = self;
    (void)node;
    if (kind == STATOR_FUEL_PASS) {
        return !f->refuse_passes;
    }
    if (f->asked++ < f->limit) {
        f->last_rule = rule;
        return 1;
    }
    return 0;
}

/* Keeps softmax whole, nothing else. */
static int32_t keep_softmax(void *self, const stator_graph *graph, stator_ref node)
{
    (void)self;
    const stator_graph_view *v = st_graph_view(graph);
    return strcmp(stator_op_at(v, stator_node_at(v, node)->op)->name, "softmax") == 0;
}

/* Adds, subtracts and negates i64 scalars; everything else is UNIMPLEMENTED. */
static stator_status evaluate_i64(void *self, const stator_graph *graph, stator_ref node,
                                  stator_blob **out_blobs, stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(graph);
    const stator_node_row *row = stator_node_at(v, node);
    const char *op = stator_op_at(v, row->op)->name;
    int64_t x[2] = {0, 0};
    for (uint32_t k = 0; k < row->operand_count && k < 2; k++) {
        const void *data = NULL;
        stator_blob *blob = st_graph_value_blob(graph, stator_operand(v, row, k));
        cr_assert_not_null(blob);
        cr_assert_eq(st_blob_get(blob, &data, err), STATOR_OK);
        memcpy(&x[k], data, sizeof x[k]);
    }
    int64_t y = 0;
    if (strcmp(op, "add") == 0) {
        y = x[0] + x[1];
    } else if (strcmp(op, "neg") == 0) {
        y = -x[0];
    } else {
        return st_fail(err, STATOR_UNIMPLEMENTED, "no kernel");
    }
    out_blobs[0] = st_blob_copy(self, &y, sizeof y);
    return out_blobs[0] != NULL ? STATOR_OK : st_fail_oom(err);
}

static st_pass_ctx plain_ctx(text_world *w)
{
    return (st_pass_ctx){.mem = &w->mem};
}

/* Runs the passes of a comma-separated list and compares the printed result. */
static void check(const char *passes, const st_pass_ctx *given, const char *text,
                  const char *expected)
{
    text_world w;
    text_graph g;
    stator_diag *err = NULL;
    char list[128];
    text_world_init(&w);
    st_pass_ctx ctx = given != NULL ? *given : plain_ctx(&w);
    ctx.mem = &w.mem;
    ctx.evaluate_self = &w.mem;
    cr_assert_eq(text_read(&w, text, strlen(text), NULL, NULL, &g, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    stator_graph *graph = g.graph;
    snprintf(list, sizeof list, "%s", passes);
    for (char *p = strtok(list, ","); p != NULL; p = strtok(NULL, ",")) {
        const st_pass_def *def = st_pass_find(p);
        cr_assert_not_null(def, "%s", p);
        cr_assert_eq(st_pass_run(def, &ctx, graph, &graph, &err), STATOR_OK, "%s",
                     st_diag_text(err));
        cr_assert_eq(st_verify(graph, &err), STATOR_OK, "after %s: %s", p, st_diag_text(err));
    }
    char *printed = text_print(&w, graph, NULL, &err);
    cr_assert_not_null(printed, "%s", st_diag_text(err));
    cr_assert_str_eq(printed, expected, "%s gives\n%s\nexpected\n%s", passes, printed, expected);
    st_free(&w.mem, printed);
    text_graph_free(&g);
    text_world_deinit(&w);
}

#define HEAD "stir 1\n"

Test(passes, list_has_every_pass)
{
    uint32_t n = 0;
    const st_pass_def *defs = st_pass_defs(&n);
    cr_assert_eq(n, 21);
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(st_pass_find(defs[i].name), &defs[i]);
        cr_assert(strlen(defs[i].doc) > 10);
    }
    cr_assert_null(st_pass_find("no_such_pass"));
}

Test(passes, dce_keeps_what_is_needed)
{
    check("dce", NULL,
          HEAD "graph @main(%x: f32[4]) {\n"
               "  %a = exp(%x)\n"
               "  %b = neg(%x)\n"
               "  %ok = is_finite(%x)\n"
               "  %c = check(%ok) {message = \"x\"}\n"
               "  return y: %b\n"
               "}\n",
          HEAD "graph @main(\n"
               "  %x: f32[4]\n"
               ") {\n"
               "  %b = neg(%x) : f32[4] ^3\n"
               "  %ok = is_finite(%x) : bool[4] ^4\n"
               "  %c = check(%ok) {message = \"x\"} : bool[4] ^5\n"
               "  return y: %b\n"
               "}\n");
}

Test(passes, dce_keeps_definers_of_sizes)
{
    check("dce", NULL,
          HEAD "sym n unbacked in [0, inf]\n"
               "graph @main(%x: f32[4]) {\n"
               "  %i = nonzero(%x) : i64[1, n]\n"
               "  %j = nonzero(%x)\n"
               "  %d = dims {values = [n]}\n"
               "  return y: %d\n"
               "}\n",
          HEAD "sym n unbacked in [0, inf]\n"
               "graph @main(\n"
               "  %x: f32[4]\n"
               ") {\n"
               "  %i = nonzero(%x) : i64[1, n]\n"
               "  %d = dims {values = [n]} : i64[1] ^4\n"
               "  return y: %d\n"
               "}\n");
}

Test(passes, cse_merges_and_joins_origins)
{
    check("cse", NULL,
          HEAD "graph @main(%x: f32[4], %y: f32[4]) {\n"
               "  %a = add(%x, %y) @\"one\":Add\n"
               "  %b = add(%y, %x) @\"two\":Add\n"
               "  %c = sub(%x, %y)\n"
               "  %d = sub(%y, %x)\n"
               "  %e = reduce_sum(%x) {axes = [0]}\n"
               "  %f = reduce_sum(%x) {axes = [0], keepdims = 1}\n"
               "  return %a, %b, %c, %d, %e, %f\n"
               "}\n",
          HEAD "graph @main(\n"
               "  %x: f32[4],\n"
               "  %y: f32[4]\n"
               ") {\n"
               "  %a = add(%x, %y) : f32[4] @\"one\":Add @\"two\":Add\n"
               "  %c = sub(%x, %y) : f32[4] ^5\n"
               "  %d = sub(%y, %x) : f32[4] ^6\n"
               "  %e = reduce_sum(%x) {axes = [0]} : f32[] ^7\n"
               "  %f = reduce_sum(%x) {axes = [0], keepdims = 1} : f32[1] ^8\n"
               "  return %a, %a, %c, %d, %e, %f\n"
               "}\n");
}

/* Random words, effects and run-time sizes are each their own. */
Test(passes, cse_keeps_effects_and_random_ops_apart)
{
    const char *text = HEAD "sym a unbacked in [0, 4]\n"
                            "sym b unbacked in [0, 4]\n"
                            "graph @main(\n"
                            "  %x: f32[4],\n"
                            "  %s: i64[],\n"
                            "  %ok: bool[]\n"
                            ") {\n"
                            "  %4 = rng_bits(%s, %s) {shape = [4]} : u32[4]\n"
                            "  %5 = rng_bits(%s, %s) {shape = [4]} : u32[4]\n"
                            "  %6 = check(%ok) {message = \"m\"} : bool[]\n"
                            "  %7 = check(%ok) {message = \"m\"} : bool[]\n"
                            "  %8 = nonzero(%x) : i64[1, a]\n"
                            "  %9 = nonzero(%x) : i64[1, b]\n"
                            "  return %4, %5, %8, %9\n"
                            "}\n";
    check("cse,dce", NULL, text, text);
}

Test(passes, fold_of_a_chain_leaves_one_constant)
{
    const st_pass_ctx ctx = {.evaluate = evaluate_i64};
    check("fold,dce", &ctx,
          HEAD "graph @main(%x: i64[]) {\n"
               "  %a = constant {value = i64[] {2}}\n"
               "  %b = constant {value = i64[] {3}}\n"
               "  %c = add(%a, %b) @\"sum\"\n"
               "  %d = neg(%c)\n"
               "  %e = mul(%d, %d)\n"
               "  %f = add(%e, %x)\n"
               "  return y: %f\n"
               "}\n",
          HEAD "graph @main(\n"
               "  %x: i64[]\n"
               ") {\n"
               "  %d = constant {value = i64[] {-5}} : i64[] ^5\n"
               "  %e = mul(%d, %d) : i64[] ^6\n"
               "  %f = add(%e, %x) : i64[] ^7\n"
               "  return y: %f\n"
               "}\n");
}

Test(passes, freeze_turns_parameters_into_constants)
{
    const st_pass_ctx ctx = {.freeze = 1};
    const char *text = HEAD "graph @main(\n"
                            "  param %w: f32[2] = {1, 2},\n"
                            "  %x: f32[2],\n"
                            "  param %s: f32[2] = {0, 0}\n"
                            ") {\n"
                            "  %4 = mul(%x, %w) : f32[2]\n"
                            "  %5 = add(%4, %s) : f32[2]\n"
                            "  write %s = %5\n"
                            "  return y: %4\n"
                            "}\n";
    check("freeze", &ctx, text,
          HEAD "graph @main(\n"
               "  %x: f32[2] ^2,\n"
               "  param %s: f32[2] ^3 = {0, 0}\n"
               ") {\n"
               "  %w = constant {value = f32[2] {1, 2}} : f32[2] ^1\n"
               "  %4 = mul(%x, %w) : f32[2]\n"
               "  %5 = add(%4, %s) : f32[2]\n"
               "  write %s = %5\n"
               "  return y: %4\n"
               "}\n");
    check("freeze", NULL, text, text);
}

#define WRITES                                                                                     \
    "graph @main(%x: f32[2], %v: f32[2]) {\n"                                                      \
    "  %a = assign(%x, %v)\n"                                                                      \
    "  %b = neg(%x)\n"                                                                             \
    "  %c = assign(%a, %b)\n"                                                                      \
    "  %d = add(%a, %c)\n"                                                                         \
    "  return old: %a, sum: %d\n"                                                                  \
    "}\n"

Test(passes, functionalize_replaces_writes_by_values)
{
    check("functionalize", NULL, HEAD WRITES,
          HEAD "graph @main(\n"
               "  %x: f32[2],\n"
               "  %v: f32[2]\n"
               ") {\n"
               "  %b = neg(%v) : f32[2] ^4\n"
               "  %d = add(%b, %b) : f32[2] ^6\n"
               "  write %x = %b\n"
               "  return old: %b, sum: %d\n"
               "}\n");
}

/* The second write stays in place; it comes after the first in the buffer, so nothing is written
 * back at the end. */
Test(passes, functionalize_keeps_refused_writes)
{
    fuel_log fuel = {.limit = 1};
    const st_pass_ctx ctx = {.may_apply = may_apply, .fuel_self = &fuel};
    check("functionalize", &ctx, HEAD WRITES,
          HEAD "graph @main(\n"
               "  %x: f32[2],\n"
               "  %v: f32[2]\n"
               ") {\n"
               "  %b = neg(%v) : f32[2] ^4\n"
               "  %c = assign(%x, %b) : f32[2] ^5\n"
               "  %d = add(%c, %c) : f32[2] ^6\n"
               "  return old: %c, sum: %d\n"
               "}\n");
}

Test(passes, decompose_to_the_keep_set)
{
    const st_pass_ctx ctx = {.keep = keep_softmax};
    check("decompose", &ctx,
          HEAD "graph @main(%x: f32[4]) {\n"
               "  %a = softmax(%x)\n"
               "  %b = square(%a) @\"sq\":Pow\n"
               "  return y: %b\n"
               "}\n",
          HEAD "graph @main(\n"
               "  %x: f32[4]\n"
               ") {\n"
               "  %a = softmax(%x) : f32[4]\n"
               "  %b = mul(%a, %a) : f32[4] @\"sq\":Pow\n"
               "  return y: %b\n"
               "}\n");
}

Test(passes, decompose_goes_down_to_primitives)
{
    text_world w;
    text_graph g;
    stator_diag *err = NULL;
    const char *text = HEAD "sym N in [1, 64]\n"
                            "graph @main(%x: f32[N, 8], %c: bool[]) {\n"
                            "  %a = silu(%x)\n"
                            "  %b = gelu(%a)\n"
                            "  %d = layer_norm(%b, _, _)\n"
                            "  %e = cond(%c, %d)\n"
                            "    region @then(%1: f32[N, 8]) {\n"
                            "      %2 = mish(%1)\n"
                            "      return %2\n"
                            "    }\n"
                            "    region @else(%1: f32[N, 8]) {\n"
                            "      %2 = softmax(%1)\n"
                            "      return %2\n"
                            "    }\n"
                            "  return y: %e\n"
                            "}\n";
    text_world_init(&w);
    const st_pass_ctx ctx = plain_ctx(&w);
    cr_assert_eq(text_read(&w, text, strlen(text), NULL, NULL, &g, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    stator_graph *graph = g.graph;
    cr_assert_eq(st_pass_run(st_pass_find("decompose"), &ctx, graph, &graph, &err), STATOR_OK);
    cr_assert_eq(st_verify(graph, &err), STATOR_OK, "%s", st_diag_text(err));
    char *printed = text_print(&w, graph, NULL, &err);
    /* As ops; what comes of a node without an origin has its op's name for one. */
    static const char *const gone[] = {"silu(", "gelu(",    "layer_norm(",
                                       "mish(", "softmax(", "sigmoid("};
    for (uint32_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        cr_assert_null(strstr(printed, gone[i]), "%s) is left:\n%s", gone[i], printed);
    }
    cr_assert_not_null(strstr(printed, "@\"\":mish"), "no mish is an origin:\n%s", printed);
    st_free(&w.mem, printed);
    text_graph_free(&g);
    text_world_deinit(&w);
}

/* ---- canonicalize; what fires is in tests/golden/canonicalize ---- */

typedef struct rule_case {
    const char *why;
    const char *inputs;
    const char *body;
} rule_case;

#define F "%x: f32[2, 3], %y: f32[2, 3]"
#define I "%x: i32[2, 3], %y: i32[2, 3]"

/* clang-format off */
/* Near misses: nothing may change. */
static const rule_case misses[] = {
    {"0 + -0 is 0", F, "%k = constant {value = f32[] {0}} %r = add(%x, %k)"},
    {"-0 - -0 is 0", F, "%k = constant {value = f32[] {-0.0}} %r = sub(%x, %k)"},
    {"0 - 0 is not -0", F, "%k = constant {value = f32[] {0}} %r = sub(%k, %x)"},
    {"inf * 0 is NaN", F, "%k = constant {value = f32[] {0}} %r = mul(%x, %k)"},
    {"inf - inf is NaN", F, "%r = sub(%x, %x)"},
    {"pow(-0, 0.5) is 0", F, "%k = constant {value = f32[] {0.5}} %r = pow(%x, %k)"},
    {"not all ones", F, "%k = constant {value = f32[3] {1, 1, 2}} %r = mul(%x, %k)"},
    {"NaN compares", F, "%n = lt(%x, %y) %r = bit_not(%n)"},
    {"-(a - a) is -0", F, "%n = sub(%x, %y) %r = neg(%n)"},
    {"f16 rounds", F, "%n = cast(%x) {dtype = f16} %r = cast(%n) {dtype = f64}"},
    {"i32 in f32 rounds", I, "%n = cast(%x) {dtype = f32} %r = cast(%n) {dtype = f64}"},
    {"reversed", "%x: f32[3]", "%r = slice(%x) {starts = [2], sizes = [3], steps = [-1]}"},
    {"moves data", "%x: f32[3, 3]", "%r = transpose(%x) {perm = [1, 0]}"},
    {"u8 1 is no mask", "%x: u8[3]", "%k = constant {value = u8[] {1}} %r = bit_and(%x, %k)"},
};
/* clang-format on */

static void write_case(const rule_case *c, char *out, size_t size)
{
    snprintf(out, size, HEAD "graph @main(%s) {\n%s\nreturn out: %%r\n}\n", c->inputs, c->body);
}

/* Runs canonicalize and dce with the fuel log; the text after in *out (free it). */
static char *canonical(text_world *w, const char *text, fuel_log *fuel)
{
    text_graph g;
    stator_diag *err = NULL;
    st_pass_ctx ctx = plain_ctx(w);
    ctx.may_apply = may_apply;
    ctx.fuel_self = fuel;
    cr_assert_eq(text_read(w, text, strlen(text), NULL, NULL, &g, &err), STATOR_OK, "%s\n%s", text,
                 st_diag_text(err));
    stator_graph *graph = g.graph;
    cr_assert_eq(st_pass_run(st_pass_find("canonicalize"), &ctx, graph, &graph, &err), STATOR_OK,
                 "%s\n%s", text, st_diag_text(err));
    cr_assert_eq(st_verify(graph, &err), STATOR_OK, "%s\n%s", text, st_diag_text(err));
    const st_pass_ctx plain = plain_ctx(w);
    cr_assert_eq(st_pass_run(st_pass_find("dce"), &plain, graph, &graph, &err), STATOR_OK);
    char *printed = text_print(w, graph, NULL, &err);
    text_graph_free(&g);
    return printed;
}

Test(canonicalize, near_misses_do_not_fire)
{
    text_world w;
    text_world_init(&w);
    for (uint32_t i = 0; i < sizeof misses / sizeof misses[0]; i++) {
        char text[1024];
        fuel_log fuel = {.limit = 1000};
        write_case(&misses[i], text, sizeof text);
        char *printed = canonical(&w, text, &fuel);
        cr_assert_eq(fuel.asked, 0, "%s: %s fired:\n%s", misses[i].why, fuel.last_rule, printed);
        st_free(&w.mem, printed);
    }
    text_world_deinit(&w);
}

Test(canonicalize, bad_patterns_are_named)
{
    static const char *const bad[] = {"add(x, y",
                                      "nosuchop(x)",
                                      "add()",
                                      "x",
                                      "add(x, y) z",
                                      "add(add(add(add(add(add(add(add(add(x))))))))",
                                      "add(a, b, c, d, e)",
                                      ""};
    text_world w;
    text_world_init(&w);
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const st_rule_def def = {.name = "bad", .match = bad[i], .replace = "x"};
        st_ruleset set;
        stator_diag *err = NULL;
        cr_assert_eq(st_ruleset_init(&set, &w.mem, &w.ops, &def, 1, &err), STATOR_INVALID_ARGUMENT,
                     "%s", bad[i]);
        cr_assert_not_null(strstr(st_diag_text(err), "rule bad"));
        st_diag_release(err);
    }
    text_world_deinit(&w);
}

Test(passes, a_refused_pass_does_nothing)
{
    fuel_log fuel = {.refuse_passes = 1};
    const st_pass_ctx ctx = {.may_apply = may_apply, .fuel_self = &fuel};
    const char *text = HEAD "graph @main(\n"
                            "  %x: f32[2]\n"
                            ") {\n"
                            "  %2 = relu(%x) : f32[2]\n"
                            "  %3 = neg(%x) : f32[2]\n"
                            "  return y: %2\n"
                            "}\n";
    check("functionalize,freeze,canonicalize,fold,decompose,cse,dce", &ctx, text, text);
    cr_assert_eq(fuel.asked, 0);
}

/* Every request for memory fails once; each failure is clean and nothing leaks. */
Test(passes, every_allocation_may_fail)
{
    const char *text = HEAD "sym N in [1, 64]\n"
                            "graph @main(%x: f32[N, 8], param %w: f32[8] = {1,2,3,4,5,6,7,8}) {\n"
                            "  %a = silu(%x)\n"
                            "  %b = mul(%a, %w)\n"
                            "  %c = neg(%b)\n"
                            "  %d = neg(%c)\n"
                            "  %e = neg(%b)\n"
                            "  return y: %d, z: %e\n"
                            "}\n";
    static const char *const names[] = {"functionalize", "freeze", "canonicalize",
                                        "decompose",     "cse",    "dce"};
    text_world w;
    text_graph g;
    stator_diag *err = NULL;
    text_world_init(&w);
    uint32_t done = 0;
    for (uint64_t n = 1; !done && n < 20000; n++) {
        cr_assert_eq(text_read(&w, text, strlen(text), NULL, NULL, &g, &err), STATOR_OK, "%s",
                     st_diag_text(err));
        st_pass_ctx ctx = plain_ctx(&w);
        ctx.freeze = 1;
        stator_graph *graph = g.graph;
        stator_status status = STATOR_OK;
        w.mem.requests = 0;
        w.mem.fail_at = n;
        for (uint32_t i = 0; status == STATOR_OK && i < sizeof names / sizeof names[0]; i++) {
            status = st_pass_run(st_pass_find(names[i]), &ctx, graph, &graph, &err);
        }
        done = w.mem.requests < n;
        w.mem.fail_at = 0;
        if (done) {
            cr_assert_eq(status, STATOR_OK);
        } else {
            cr_assert_eq(status, STATOR_RESOURCE_EXHAUSTED, "request %llu: %s",
                         (unsigned long long)n, st_diag_text(err));
        }
        st_diag_release(err);
        err = NULL;
        text_graph_free(&g);
    }
    cr_assert(done);
    text_world_deinit(&w);
}

/* After the whole pipeline the imported values that still exist carry their witness: all of those
 * that were needed, but for the few that rules and merging made superfluous. */
Test(passes, witnesses_survive_the_pipeline)
{
    static const char text[] =
        HEAD "sym N in [1, 64]\n"
             "graph @main(%x: f32[N, 8], param %w: f32[8, 4] = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,"
             "1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}, param %g: f32[8] = {1,1,1,1,1,1,1,1}) {\n"
             "  %a = layer_norm(%x, %g)\n"
             "  %b = matmul(%a, %w)\n"
             "  %c = gelu(%b)\n"
             "  %d = softmax(%c)\n"
             "  %e = silu(%d)\n"
             "  %f = reduce_mean(%e) {axes = [1]}\n"
             "  %h = hard_swish(%f)\n"
             "  %i = neg(%h)\n"
             "  %j = neg(%i)\n"
             "  %k = exp(%j)\n"
             "  %l = exp(%h)\n"
             "  return y: %k, z: %l, c: %c\n"
             "}\n";
    static const char *const names[] = {"functionalize", "freeze", "canonicalize", "decompose",
                                        "canonicalize",  "cse",    "dce"};
    text_world w;
    text_graph g;
    stator_diag *err = NULL;
    text_world_init(&w);
    st_pass_ctx ctx = plain_ctx(&w);
    ctx.freeze = 1;
    cr_assert_eq(text_read(&w, text, strlen(text), NULL, NULL, &g, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    stator_graph *graph = g.graph;
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        cr_assert_eq(st_pass_run(st_pass_find(names[i]), &ctx, graph, &graph, &err), STATOR_OK,
                     "%s", st_diag_text(err));
        cr_assert_eq(st_verify(graph, &err), STATOR_OK, "%s: %s", names[i], st_diag_text(err));
    }
    const stator_graph_view *v = st_graph_view(graph);
    uint64_t seen = 0;
    for (stator_ref value = 1; value <= v->n_values; value++) {
        const uint32_t witness = stator_value_at(v, value)->witness;
        cr_assert_leq(witness, st_graph_view(g.graph)->n_values);
        seen |= witness != 0 ? UINT64_C(1) << witness : 0;
    }
    /* Gone: %i and %j (neg of neg) and %l, which is %k. */
    const uint32_t n_left = st_graph_view(g.graph)->n_values - 3u;
    cr_assert_geq((uint32_t)__builtin_popcountll(seen) * 10u, n_left * 9u, "%d of %u",
                  __builtin_popcountll(seen), n_left);
    text_graph_free(&g);
    text_world_deinit(&w);
}
