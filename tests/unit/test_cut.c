/* A cut of a model: which nodes, inputs and outputs it has, what becomes of parameters, sizes,
 * names and control flow, what is refused, allocation failures. */
#include "ir/text/text.h"
#include "support_run.h"

#include <criterion/criterion.h>
#include <stator/inspect.h>
#include <string.h>

#define COUNT(list) ((uint32_t)(sizeof(list) / sizeof(list)[0]))

static stator_model *load(stator_ctx *ctx, const char *text)
{
    const stator_load_options options = {.struct_size = sizeof options, .flags = 1};
    stator_model *model = NULL;
    cr_assert_eq(stator_model_load_bytes(ctx, text, strlen(text), "cut.stir", &options, &model),
                 STATOR_OK, "%s", stator_ctx_error_text(ctx));
    return model;
}

static void expect_text(stator_ctx *ctx, const stator_model *model, const char *want)
{
    st_mem mem;
    st_str text;
    stator_diag *err = NULL;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_str_init(&text, &mem);
    const st_print_options options = {.self = NULL};
    cr_assert_eq(st_print_graph(stator_model_graph(model), &options, &text, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    cr_assert_str_eq(text.data, want);
    st_str_deinit(&text);
    cr_assert_eq(stator_x_verify(model), STATOR_OK, "%s", stator_ctx_error_text(ctx));
}

/* The cut of the text is that text. */
static void expect_cut(const char *text, const stator_x_cut *cut, const char *want)
{
    stator_ctx *ctx = run_context();
    stator_model *model = load(ctx, text), *part = NULL;
    cr_assert_eq(stator_x_model_cut(model, cut, &part), STATOR_OK, "%s",
                 stator_ctx_error_text(ctx));
    expect_text(ctx, part, want);
    stator_model_destroy(part);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
}

static void expect_refusal(const char *text, const stator_x_cut *cut, stator_status status,
                           const char *words)
{
    stator_ctx *ctx = run_context();
    stator_model *model = load(ctx, text), *part = NULL;
    cr_assert_eq(stator_x_model_cut(model, cut, &part), status, "%s", stator_ctx_error_text(ctx));
    cr_assert_null(part);
    cr_assert_not_null(strstr(stator_ctx_error_text(ctx), words), "%s", stator_ctx_error_text(ctx));
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
}

#define CUT(nodes_, inputs_, outputs_)                                                             \
    .struct_size = sizeof(stator_x_cut), .n_nodes = COUNT(nodes_), .n_inputs = COUNT(inputs_),     \
    .n_outputs = COUNT(outputs_), .nodes = (nodes_), .inputs = (inputs_), .outputs = (outputs_)

/* Values 1 x, 2 w; nodes and values 3 to 6. */
static const char chain[] = "stir 1\n"
                            "graph @chain(%x: f32[2, 3], param %w: f32[3] = {1, 2, 3}) {\n"
                            "  %a = exp(%x) @\"Exp_0\":Exp\n"
                            "  %b = mul(%a, %w) @\"Mul_1\":Mul\n"
                            "  %c = add(%b, %a)\n"
                            "  %d = neg(%c)\n"
                            "  return y: %d\n"
                            "}\n";

Test(cut, nodes_from_the_middle_become_a_graph)
{
    const stator_ref nodes[] = {2, 3}, inputs[] = {3}, outputs[] = {5, 4};
    const stator_x_cut cut = {CUT(nodes, inputs, outputs)};
    expect_cut(chain, &cut,
               "stir 1\n"
               "graph @chain(\n"
               "  param %w: f32[3] = {1, 2, 3},\n"
               "  %a: f32[2, 3]\n"
               ") {\n"
               "  %b = mul(%a, %w) : f32[2, 3] @\"Mul_1\":Mul\n"
               "  %c = add(%b, %a) : f32[2, 3]\n"
               "  return c: %c, b: %b\n"
               "}\n");
}

Test(cut, listed_parameter_becomes_an_input)
{
    const stator_ref nodes[] = {2}, inputs[] = {3, 2}, outputs[] = {4};
    const stator_x_cut cut = {CUT(nodes, inputs, outputs)};
    expect_cut(chain, &cut,
               "stir 1\n"
               "graph @chain(\n"
               "  %a: f32[2, 3],\n"
               "  %w: f32[3]\n"
               ") {\n"
               "  %b = mul(%a, %w) : f32[2, 3] @\"Mul_1\":Mul\n"
               "  return b: %b\n"
               "}\n");
}

/* Values 1 x, 2 y, 3 a, 4 b, 5 c. */
static const char symbolic[] = "stir 1\n"
                               "sym N in [1, 64]\n"
                               "graph @sizes(%x: f32[N, 4], %y: f32[2*N]) {\n"
                               "  %a = exp(%x)\n"
                               "  %b = reshape(%a) {shape = [4*N]}\n"
                               "  %c = neg(%b)\n"
                               "  return c: %c, y: %y\n"
                               "}\n";

Test(cut, symbolic_sizes_become_known_numbers)
{
    int64_t shape[] = {5, 4};
    const DLTensor a = {.ndim = 2, .shape = shape};
    const DLTensor *known[6] = {[3] = &a};
    const stator_ref nodes[] = {2, 3}, inputs[] = {3}, outputs[] = {5};
    stator_x_cut cut = {CUT(nodes, inputs, outputs), .known = known};
    expect_cut(symbolic, &cut,
               "stir 1\n"
               "graph @sizes(\n"
               "  %a: f32[5, 4]\n"
               ") {\n"
               "  %b = reshape(%a) {shape = [20]} : f32[20]\n"
               "  %c = neg(%b) : f32[20]\n"
               "  return c: %c\n"
               "}\n");
    cut.known = NULL;
    expect_cut(symbolic, &cut,
               "stir 1\n"
               "sym N in [1, 64]\n"
               "graph @sizes(\n"
               "  %a: f32[N, 4]\n"
               ") {\n"
               "  %b = reshape(%a) {shape = [4*N]} : f32[4*N]\n"
               "  %c = neg(%b) : f32[4*N]\n"
               "  return c: %c\n"
               "}\n");
    shape[0] = 100;
    cut.known = known;
    expect_refusal(symbolic, &cut, STATOR_INVALID_ARGUMENT, "size 'N' cannot be 100");
    const DLTensor flat = {.ndim = 1, .shape = shape};
    known[3] = &flat;
    shape[0] = 5;
    expect_refusal(symbolic, &cut, STATOR_INVALID_ARGUMENT, "value 3 has no such shape");
}

/* Values 1 x, 2 i (i64[1, u]), 3 n, 4 z. */
static const char counted[] = "stir 1\n"
                              "sym u unbacked in [0, inf]\n"
                              "graph @counted(%x: f32[6]) {\n"
                              "  %i = nonzero(%x) : i64[1, u]\n"
                              "  %n = neg(%i)\n"
                              "  %z = abs(%n)\n"
                              "  return z: %z\n"
                              "}\n";

Test(cut, unbacked_sizes_of_dropped_nodes_become_numbers)
{
    int64_t shape[] = {1, 4};
    const DLTensor i = {.ndim = 2, .shape = shape};
    const DLTensor *known[5] = {[2] = &i};
    const stator_ref tail[] = {2, 3}, all[] = {1, 2}, x[] = {1}, middle[] = {2}, z[] = {4},
                     n[] = {3};
    const stator_x_cut cut = {CUT(tail, middle, z), .known = known};
    expect_cut(counted, &cut,
               "stir 1\n"
               "graph @counted(\n"
               "  %i: i64[1, 4]\n"
               ") {\n"
               "  %n = neg(%i) : i64[1, 4]\n"
               "  %z = abs(%n) : i64[1, 4]\n"
               "  return z: %z\n"
               "}\n");
    const stator_x_cut with_nonzero = {CUT(all, x, n), .known = known};
    expect_cut(counted, &with_nonzero,
               "stir 1\n"
               "sym $0 unbacked in [0, 6]\n" /* as nonzero itself says */
               "graph @counted(\n"
               "  %x: f32[6]\n"
               ") {\n"
               "  %i = nonzero(%x) : i64[1, $0]\n"
               "  %n = neg(%i) : i64[1, $0]\n"
               "  return n: %n\n"
               "}\n");
    stator_x_cut unknown = cut;
    unknown.known = NULL;
    expect_cut(counted, &unknown,
               "stir 1\n"
               "sym u unbacked in [0, inf]\n"
               "graph @counted(\n"
               "  %i: i64[1, u]\n"
               ") {\n"
               "  %n = neg(%i) : i64[1, u]\n"
               "  %z = abs(%n) : i64[1, u]\n"
               "  return z: %z\n"
               "}\n");
}

/* Values 1 p, 2 x, 3 a, 4 o, 5 y; node 2 is the cond. */
static const char branches[] = "stir 1\n"
                               "graph @main(%p: bool[], %x: f32[2, 3]) {\n"
                               "  %a = exp(%x)\n"
                               "  %o = cond(%p, %a) : f32[2, 3]\n"
                               "   region @then(%u: f32[2, 3]) { %v = sin(%u) return %v }\n"
                               "   region @else(%u: f32[2, 3]) { %v = neg(%u) return %v }\n"
                               "  %y = neg(%o)\n"
                               "  return y: %y\n"
                               "}\n";

Test(cut, control_flow_keeps_its_regions)
{
    const stator_ref nodes[] = {2}, inputs[] = {3, 1}, outputs[] = {4};
    const stator_x_cut cut = {CUT(nodes, inputs, outputs)};
    expect_cut(branches, &cut,
               "stir 1\n"
               "graph @main(\n"
               "  %a: f32[2, 3],\n"
               "  %p: bool[]\n"
               ") {\n"
               "  %o = cond(%p, %a) : f32[2, 3]\n"
               "    region @then(%u: f32[2, 3]) {\n"
               "      %v = sin(%u) : f32[2, 3]\n"
               "      return %v\n"
               "    }\n"
               "    region @else(%u: f32[2, 3]) {\n"
               "      %v = neg(%u) : f32[2, 3]\n"
               "      return %v\n"
               "    }\n"
               "  return o: %o\n"
               "}\n");
}

/* Values 1 and 2 are named as the parameter 3 would be; 4 has a name with a control character. */
static const char odd_names[] = "stir 1\n"
                                "graph @odd(%x: f32[2], param %w: f32[2] = {1, 2}) {\n"
                                "  %3 \"w\" = exp(%x)\n"
                                "  %4 \"a\\x01b\" = neg(%3)\n"
                                "  %5 \"w\" = mul(%4, %w)\n"
                                "  %6 \"w\" = sub(%5, %3)\n"
                                "  return y: %6\n"
                                "}\n";

Test(cut, inputs_and_outputs_get_unique_names)
{
    const stator_ref nodes[] = {3, 4}, inputs[] = {3, 4}, outputs[] = {5, 6};
    const stator_x_cut cut = {CUT(nodes, inputs, outputs)};
    expect_cut(odd_names, &cut,
               "stir 1\n"
               "graph @odd(\n"
               "  param %w: f32[2] = {1, 2},\n"
               "  %value3: f32[2],\n"
               "  %value4: f32[2]\n"
               ") {\n"
               "  %4 \"w\" = mul(%value4, %w) : f32[2]\n"
               "  %5 \"w\" = sub(%4, %value3) : f32[2]\n"
               "  return w: %4, value6: %5\n"
               "}\n");
}

Test(cut, incomplete_or_unordered_cut_is_refused)
{
    const stator_ref node[] = {2}, far[] = {9}, turned[] = {3, 2}, a[] = {3}, b[] = {4}, d[] = {6},
                     twice[] = {3, 3}, made[] = {3, 4};
    const stator_x_cut good = {CUT(node, a, b)};
    stator_x_cut cut = good;
    cut.nodes = far;
    expect_refusal(chain, &cut, STATOR_OUT_OF_RANGE, "no node 9");
    cut = good;
    cut.outputs = far;
    expect_refusal(chain, &cut, STATOR_OUT_OF_RANGE, "no value 9");
    cut = good;
    cut.n_inputs = 0;
    expect_refusal(chain, &cut, STATOR_INVALID_ARGUMENT, "reads value 3");
    cut = good;
    cut.outputs = d;
    expect_refusal(chain, &cut, STATOR_INVALID_ARGUMENT, "output 6 of the cut is not made by it");
    cut = good;
    cut.n_nodes = 2;
    cut.nodes = turned;
    expect_refusal(chain, &cut, STATOR_INVALID_ARGUMENT, "not ascending");
    cut = good;
    cut.n_inputs = 2;
    cut.inputs = twice;
    expect_refusal(chain, &cut, STATOR_INVALID_ARGUMENT, "and something else as well");
    cut.inputs = made;
    expect_refusal(chain, &cut, STATOR_INVALID_ARGUMENT, "and something else as well");
    cut = good;
    cut.n_outputs = 0;
    expect_refusal(chain, &cut, STATOR_INVALID_ARGUMENT, "has no output");
    cut = good;
    cut.struct_size = 4;
    expect_refusal(chain, &cut, STATOR_INVALID_ARGUMENT, "struct_size of the stator_x_cut is 4");
    cut.struct_size = offsetof(stator_x_cut, nodes);
    expect_refusal(chain, &cut, STATOR_INVALID_ARGUMENT, "a list of the cut is NULL");
}

/* Every allocation fails once; nothing is lost, and the context works afterwards. */
static void fail_each(const char *text, const stator_x_cut *cut)
{
    stator_ctx *ctx = run_context();
    stator_model *model = load(ctx, text), *part = NULL;
    stator_x_fail_alloc_at(ctx, 0);
    cr_assert_eq(stator_x_model_cut(model, cut, &part), STATOR_OK, "%s",
                 stator_ctx_error_text(ctx));
    const uint64_t total = stator_x_alloc_requests(ctx);
    stator_model_destroy(part);
    cr_assert_gt(total, 0);
    for (uint64_t n = 1; n <= total; n++) {
        stator_x_fail_alloc_at(ctx, n);
        const stator_status status = stator_x_model_cut(model, cut, &part);
        stator_x_fail_alloc_at(ctx, 0);
        cr_assert_eq(status, STATOR_RESOURCE_EXHAUSTED, "request %d: %s", (int)n,
                     stator_ctx_error_text(ctx));
        cr_assert_null(part);
    }
    cr_assert_eq(stator_x_model_cut(model, cut, &part), STATOR_OK);
    stator_model_destroy(part);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
}

Test(cut, every_allocation_may_fail)
{
    int64_t shape[] = {5, 4}, found[] = {1, 4};
    const DLTensor a = {.ndim = 2, .shape = shape}, i = {.ndim = 2, .shape = found};
    const DLTensor *known[6] = {[3] = &a}, *counts[5] = {[2] = &i};
    const stator_ref nodes[] = {2, 3}, inputs[] = {3}, outputs[] = {5}, middle[] = {2}, z[] = {4};
    stator_x_cut cut = {.struct_size = sizeof cut,
                        .n_nodes = COUNT(nodes),
                        .n_inputs = COUNT(inputs),
                        .n_outputs = COUNT(outputs),
                        .nodes = nodes,
                        .inputs = inputs,
                        .outputs = outputs};
    fail_each(chain, &cut);
    cut.known = known;
    fail_each(symbolic, &cut);
    cut.inputs = middle;
    cut.outputs = z;
    cut.known = counts;
    fail_each(counted, &cut);
}
