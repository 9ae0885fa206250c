/* Modules inferred anew under other sizes: what min, max and broadcasts become, where ranges end,
 * unbacked symbols and regions, texts of what does not work, allocation failures. */
#include "ir/sizes/reinfer.h"
#include "ir/verify.h"
#include "support_text.h"

#include <criterion/criterion.h>
#include <string.h>

static text_world w;

static void begin(void)
{
    text_world_init(&w);
}

static void end(void)
{
    text_world_deinit(&w);
}

TestSuite(reinfer, .init = begin, .fini = end);

/* A table of 128 rows is cut to S and added: S, 1 and min(S, 128) meet. */
static const char CUT[] = "stir 1\n"
                          "sym N in [0, 64]\n"
                          "sym S in [0, inf]\n"
                          "graph @main(%x: f32[N, S], %table: f32[1, 128]) {\n"
                          "  %c = slice(%table) {starts = [0, 0], sizes = [1, min(S, 128)], "
                          "steps = [1, 1]}\n"
                          "  %y = add(%x, %c)\n"
                          "  return %y\n"
                          "}\n";

typedef struct sized {
    const char *name;
    int64_t lo, hi, at;
} sized;

/* Infers `text` anew; *plan ends as it was narrowed. */
static st_module *reinfer(const text_graph *g, uint32_t n, const sized *sizes, st_size_plan *plan)
{
    int64_t at[8];
    stator_diag *err = NULL;
    st_module *m = NULL;
    st_size_plan_init(plan, &w.mem);
    for (uint32_t i = 0; i < n; i++) {
        cr_assert(st_size_plan_range(plan, sizes[i].name, sizes[i].lo, sizes[i].hi));
        at[i] = sizes[i].at;
    }
    cr_assert_eq(st_reinfer(g->module, plan, at, &m, &err), STATOR_OK, "%s", st_diag_text(err));
    cr_assert_eq(st_verify(m->root, &err), STATOR_OK, "%s", st_diag_text(err));
    return m;
}

/* Every result's type as text, one after the other. */
static char *types_of(const st_module *m, const stator_graph *graph, char *out, size_t size)
{
    const stator_graph_view *v = st_graph_view(graph);
    st_str text;
    st_str_init(&text, &w.mem);
    for (stator_ref value = v->n_inputs + 1u; value <= v->n_values; value++) {
        st_str_add(&text, text.len != 0 ? " " : "");
        st_module_print_type(m, stator_value_at(v, value)->type, &text);
    }
    cr_assert(st_str_ok(&text) && text.len < size);
    memcpy(out, text.data != NULL ? text.data : "", text.len + 1u);
    st_str_deinit(&text);
    return out;
}

static void expect_cut(int64_t n, int64_t s, int64_t lo, int64_t hi, const char *want)
{
    char buffer[512];
    text_graph g = text_read_good(&w, CUT);
    st_size_plan plan;
    const sized sizes[] = {{"N", n < 2 ? n : 2, n < 2 ? n : 64, n},
                           {"S", s < 2 ? s : 2, s < 2 ? s : INT64_MAX, s}};
    st_module *m = reinfer(&g, 2, sizes, &plan);
    cr_expect_str_eq(types_of(m, m->root, buffer, sizeof buffer), want);
    cr_expect_eq(plan.ranges.data[1].lo, lo);
    cr_expect_eq(plan.ranges.data[1].hi, hi);
    st_module_destroy(m);
    st_size_plan_deinit(&plan);
    text_graph_free(&g);
}

Test(reinfer, size_below_a_min_stays_below_it)
{
    expect_cut(3, 16, 2, 128, "f32[1, S] f32[N, S]");
    expect_cut(3, 128, 2, 128, "f32[1, S] f32[N, S]");
}

/* Past the min the constant stands, and a broadcast that cannot be is found at once. */
Test(reinfer, size_beyond_a_min_uses_the_constant)
{
    static const char SLICE[] = "stir 1\n"
                                "sym S in [0, inf]\n"
                                "graph @main(%x: f32[S]) {\n"
                                "  %c = slice(%x) {starts = [0], sizes = [min(S, 128)], "
                                "steps = [1]}\n"
                                "  return %c\n"
                                "}\n";
    text_graph g = text_read_good(&w, SLICE), cut = text_read_good(&w, CUT);
    st_size_plan plan;
    st_module *m = NULL;
    stator_diag *err = NULL;
    char buffer[512];
    const int64_t at[1] = {129};
    const sized sizes[] = {{"S", 2, INT64_MAX, 129}};
    m = reinfer(&g, 1, sizes, &plan);
    cr_expect_str_eq(types_of(m, m->root, buffer, sizeof buffer), "f32[128]");
    cr_expect_eq(plan.ranges.data[0].lo, 129);
    st_module_destroy(m);
    cr_assert_eq(st_reinfer(cut.module, &plan, at, &m, &err), STATOR_INVALID_ARGUMENT);
    cr_expect(strstr(st_diag_text(err), "sizes S and 128") != NULL, "%s", st_diag_text(err));
    st_diag_release(err);
    st_size_plan_deinit(&plan);
    text_graph_free(&g);
    text_graph_free(&cut);
}

Test(reinfer, sizes_0_and_1_become_numbers)
{
    expect_cut(1, 1, 1, 1, "f32[1, 1] f32[1, 1]");
    expect_cut(0, 7, 2, 128, "f32[1, S] f32[0, S]");
    expect_cut(5, 0, 0, 0, "f32[1, 0] f32[N, 0]");
}

/* The module that it is made from is left as it is, and the new one can be cloned. */
Test(reinfer, old_module_is_unchanged_names_and_witnesses_are_copied)
{
    text_graph g = text_read_good(&w, CUT);
    st_size_plan plan;
    st_module *m = NULL, *copy = NULL;
    stator_diag *err = NULL;
    char before[512], after[512];
    types_of(g.module, g.graph, before, sizeof before);
    const sized sizes[] = {{"S", 2, INT64_MAX, 9}};
    m = reinfer(&g, 1, sizes, &plan);
    cr_expect_str_eq(types_of(g.module, g.graph, after, sizeof after), before);
    const stator_graph_view *v = st_graph_view(m->root), *old = st_graph_view(g.graph);
    cr_assert_eq(v->n_values, old->n_values);
    for (stator_ref value = 1; value <= v->n_values; value++) {
        cr_expect_str_eq(stator_string_at(v, stator_value_at(v, value)->name),
                         stator_string_at(old, stator_value_at(old, value)->name));
        cr_expect_eq(stator_value_at(v, value)->witness, stator_value_at(old, value)->witness);
    }
    cr_assert_eq(st_module_clone(m, &copy, &err), STATOR_OK);
    cr_expect_eq(st_verify(copy->root, &err), STATOR_OK, "%s", st_diag_text(err));
    st_module_destroy(copy);
    st_module_destroy(m);
    st_size_plan_deinit(&plan);
    text_graph_free(&g);
}

/* Three batch sizes: beyond a limit the broadcast of all is an unbacked symbol K, which goes
 * away. A count that only data tells (nonzero) stays one; a region follows. */
static const char UNBACKED[] = "stir 1\n"
                               "sym a in [0, 8]\nsym b in [0, 8]\nsym c in [0, 8]\n"
                               "graph @main(%x: f32[a], %y: f32[b], %z: f32[c], %p: bool[]) {\n"
                               "  %1 = add(%x, %y)\n"
                               "  %2 = add(%1, %z)\n"
                               "  %3 = neg(%2)\n"
                               "  %4 = nonzero(%x)\n"
                               "  %5 = cond(%p, %x)\n"
                               "    region @then(%r: f32[a]) {\n"
                               "      %s = neg(%r)\n"
                               "      return %s\n"
                               "    }\n"
                               "    region @else(%r: f32[a]) {\n"
                               "      return %r\n"
                               "    }\n"
                               "  return %3, %4, %5\n"
                               "}\n";

Test(reinfer, known_sizes_replace_unbacked_ones)
{
    char buffer[512];
    text_graph g = text_read_good(&w, UNBACKED);
    st_size_plan plan;
    const sized sizes[] = {{"a", 2, 8, 3}, {"b", 1, 1, 1}, {"c", 2, 8, 3}};
    st_module *m = reinfer(&g, 3, sizes, &plan);
    types_of(m, m->root, buffer, sizeof buffer);
    cr_expect(strncmp(buffer, "f32[a] f32[a] f32[a] i64[1, $", 29) == 0, "%s", buffer);
    cr_expect(strstr(buffer, "] f32[a]") != NULL, "%s", buffer);
    st_module_destroy(m);
    st_size_plan_deinit(&plan);
    text_graph_free(&g);
}

/* An axis baked in as a number becomes a symbol; a list of sizes that holds the number does not. */
static const char FIXED[] = "stir 1\n"
                            "graph @main(%x: f32[4, 6]) {\n"
                            "  %e = exp(%x)\n"
                            "  %s = reduce_sum(%e) {axes = [1], keepdims = 1}\n"
                            "  %q = div(%e, %s)\n"
                            "  %tail = reshape(%q) {shape = [2, 12]}\n"
                            "  return %tail\n"
                            "}\n";

static stator_status reinfer_axis(const text_graph *g, int64_t lo, int64_t hi, st_module **out,
                                  stator_diag **err)
{
    st_size_plan plan;
    st_size_plan_init(&plan, &w.mem);
    char name[] = "x_0";
    const st_plan_range range = {.name = name, .lo = lo, .hi = hi};
    cr_assert(st_size_plan_axis(&plan, 0, 0, &range));
    const stator_status status = st_reinfer(g->module, &plan, NULL, out, err);
    cr_expect(status != STATOR_OK || st_reinfer_follows(*out, &plan));
    cr_expect_not(st_reinfer_follows(g->module, &plan));
    st_size_plan_deinit(&plan);
    return status;
}

Test(reinfer, conflicting_number_is_an_error_that_names_the_node)
{
    text_graph g = text_read_good(&w, FIXED);
    stator_diag *err = NULL;
    st_module *m = NULL;
    cr_assert_eq(reinfer_axis(&g, 5, 5, &m, &err), STATOR_INVALID_ARGUMENT);
    cr_expect(strstr(st_diag_text(err), "reshape") != NULL, "%s", st_diag_text(err));
    cr_expect(strstr(st_diag_text(err), "tail") != NULL, "%s", st_diag_text(err));
    cr_expect_null(m);
    st_diag_release(err);
    text_graph_free(&g);
}

Test(reinfer, baked_in_number_becomes_a_symbol)
{
    static const char FREE[] = "stir 1\n"
                               "graph @main(%x: f32[4, 6]) {\n"
                               "  %s = reduce_sum(%x) {axes = [1], keepdims = 1}\n"
                               "  %q = div(%x, %s)\n"
                               "  return %q\n"
                               "}\n";
    char buffer[512];
    text_graph g = text_read_good(&w, FREE);
    stator_diag *err = NULL;
    st_module *m = NULL;
    cr_assert_eq(reinfer_axis(&g, 2, 1024, &m, &err), STATOR_OK, "%s", st_diag_text(err));
    cr_expect_str_eq(types_of(m, m->root, buffer, sizeof buffer), "f32[x_0, 1] f32[x_0, 6]");
    st_module_destroy(m);
    text_graph_free(&g);
}

Test(reinfer, every_allocation_may_fail)
{
    text_graph g = text_read_good(&w, UNBACKED);
    for (uint64_t n = 1;; n++) {
        st_size_plan plan;
        st_module *m = NULL;
        stator_diag *err = NULL;
        const int64_t at[1] = {3};
        st_size_plan_init(&plan, &w.mem);
        cr_assert(st_size_plan_range(&plan, "a", 2, 8));
        w.mem.requests = 0;
        w.mem.fail_at = n;
        const stator_status status = st_reinfer(g.module, &plan, at, &m, &err);
        const int was_reached = w.mem.requests >= n;
        w.mem.fail_at = 0;
        st_diag_release(err);
        st_module_destroy(m);
        st_size_plan_deinit(&plan);
        if (!was_reached) {
            cr_assert_eq(status, STATOR_OK);
            break;
        }
        cr_assert_neq(status, STATOR_OK, "request %d", (int)n);
    }
    text_graph_free(&g);
}
