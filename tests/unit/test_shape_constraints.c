/* Shape constraints of a graph: which rows there are, each once, and none for what is proved,
 * beyond a limit, bound by data or inside a region; every kind's test at its edges; allocation
 * failures. */
#include "ir/sizes/shape_constraint_list.h"
#include "support_text.h"

#include <criterion/criterion.h>

static text_world w;

static void begin(void)
{
    text_world_init(&w);
}

static void end(void)
{
    text_world_deinit(&w);
}

TestSuite(shape_constraints, .init = begin, .fini = end);

/* The shape constraints of a graph as lines of kind and text. */
static void expect_shape_constraints(const char *text, const char *expected)
{
    text_graph g = text_read_good(&w, text);
    st_shape_constraints shape_constraints;
    st_str out;
    st_str_init(&out, &w.mem);
    st_shape_constraints_init(&shape_constraints, &w.mem);
    cr_assert_eq(st_graph_shape_constraints(g.graph, &shape_constraints, NULL), STATOR_OK);
    for (uint32_t i = 0; i < shape_constraints.rows.count; i++) {
        st_str_addf(&out, "%u %s\n", shape_constraints.rows.data[i].kind,
                    shape_constraints.rows.data[i].text);
    }
    cr_expect_str_eq(out.data != NULL ? out.data : "", expected);
    st_str_deinit(&out);
    st_shape_constraints_deinit(&shape_constraints);
    text_graph_free(&g);
}

static const char CONV[] = "stir 1\n"
                           "sym M in [0, inf]\n"
                           "sym B in [0, inf]\n"
                           "graph @main(%x: f32[1, 8, 5, 5], %w: f32[M, 2, 3, 3], %b: f32[B]) {\n"
                           "  %y = conv(%x, %w, %b) {strides = [1, 1], pads = [0, 0, 0, 0], "
                           "dilations = [1, 1], groups = 4} @\"first\":Conv\n"
                           "  %z = conv(%x, %w, %b) {strides = [1, 1], pads = [0, 0, 0, 0], "
                           "dilations = [1, 1], groups = 4}\n"
                           "  return %y, %z\n"
                           "}\n";

Test(shape_constraints, each_constraint_is_listed_once)
{
    expect_shape_constraints(CONV, "4 conv 'first': the number of filters\n"
                                   "1 conv 'first': bias and filters\n");
}

Test(shape_constraints, proved_constraints_are_not_listed)
{
    expect_shape_constraints(
        "stir 1\n"
        "sym N in [0, inf]\n"
        "graph @main(%x: f32[1, 8, 5, 5], %w: f32[4 * N, 2, 3, 3], %b: f32[4 * N]) {\n"
        "  %y = conv(%x, %w, %b) {strides = [1, 1], pads = [0, 0, 0, 0], "
        "dilations = [1, 1], groups = 4}\n"
        "  %a = add(%b, %b)\n"
        "  %s = slice(%x) {starts = [0, 0, 0, 0], sizes = [1, 8, 2, 5], "
        "steps = [1, 1, 1, 1]}\n"
        "  return %y, %a, %s\n"
        "}\n",
        "");
}

Test(shape_constraints, constraints_on_unbacked_sizes_are_not_listed)
{
    expect_shape_constraints("stir 1\n"
                             "sym N in [0, inf]\n"
                             "sym K unbacked in [0, 100]\n"
                             "graph @main(%x: f32[N, 3], %k: i64[1]) {\n"
                             "  %b = sym_bind(%k) {syms = [K]}\n"
                             "  %s = slice(%x) {starts = [0, 0], sizes = [K, 3], steps = [1, 1]}\n"
                             "  return %s\n"
                             "}\n",
                             "");
}

Test(shape_constraints, constraints_inside_branches_are_not_listed)
{
    expect_shape_constraints("stir 1\n"
                             "sym N in [0, inf]\n"
                             "sym M in [0, inf]\n"
                             "graph @main(%p: bool[], %x: f32[N], %y: f32[M]) {\n"
                             "  %r = cond(%p, %x, %y) : f32[N]\n"
                             "    region @then(%a: f32[N], %b: f32[M]) {\n"
                             "      %c = concat(%a, %b) {axis = 0}\n"
                             "      %d = slice(%c) {starts = [M], sizes = [N], steps = [1]}\n"
                             "      return %d\n"
                             "    }\n"
                             "    region @else(%a: f32[N], %b: f32[M]) {\n"
                             "      return %a\n"
                             "    }\n"
                             "  return %r\n"
                             "}\n",
                             "");
}

Test(shape_constraints, every_kind_at_its_boundary_values)
{
    static const struct {
        uint32_t kind;
        int64_t size[3], step;
        stator_status status;
    } rows[] = {
        {ST_SHAPE_CONSTRAINT_EQUAL, {3, 3, 0}, 0, STATOR_OK},
        {ST_SHAPE_CONSTRAINT_EQUAL, {3, 1, 0}, 0, STATOR_INVALID_ARGUMENT},
        {ST_SHAPE_CONSTRAINT_FITS, {1, 0, 0}, 0, STATOR_OK},
        {ST_SHAPE_CONSTRAINT_FITS, {3, 1, 0}, 0, STATOR_INVALID_ARGUMENT},
        {ST_SHAPE_CONSTRAINT_BROADCAST, {3, 1, 0}, 0, STATOR_OK},
        {ST_SHAPE_CONSTRAINT_BROADCAST, {0, 1, 0}, 0, STATOR_OK},
        {ST_SHAPE_CONSTRAINT_BROADCAST, {0, 2, 0}, 0, STATOR_INVALID_ARGUMENT},
        {ST_SHAPE_CONSTRAINT_MULTIPLE, {0, 4, 0}, 0, STATOR_OK},
        {ST_SHAPE_CONSTRAINT_MULTIPLE, {8, 4, 0}, 0, STATOR_OK},
        {ST_SHAPE_CONSTRAINT_MULTIPLE, {3, 4, 0}, 0, STATOR_INVALID_ARGUMENT},
        {ST_SHAPE_CONSTRAINT_MULTIPLE, {4, 0, 0}, 0, STATOR_INVALID_ARGUMENT},
        {ST_SHAPE_CONSTRAINT_AT_MOST, {3, 3, 0}, 0, STATOR_OK},
        {ST_SHAPE_CONSTRAINT_AT_MOST, {4, 3, 0}, 0, STATOR_INVALID_ARGUMENT},
        {ST_SHAPE_CONSTRAINT_FILLED, {0, 0, 0}, 0, STATOR_OK},
        {ST_SHAPE_CONSTRAINT_FILLED, {1, 0, 0}, 0, STATOR_INVALID_ARGUMENT},
        {ST_SHAPE_CONSTRAINT_INSIDE, {9, 0, 4}, 1, STATOR_OK},
        {ST_SHAPE_CONSTRAINT_INSIDE, {3, 4, 4}, -1, STATOR_OK},
        {ST_SHAPE_CONSTRAINT_INSIDE, {3, 5, 4}, -1, STATOR_OUT_OF_RANGE},
        {ST_SHAPE_CONSTRAINT_INSIDE, {0, 5, 4}, 1, STATOR_OUT_OF_RANGE},
        {ST_SHAPE_CONSTRAINT_INSIDE, {0, -1, 4}, 1, STATOR_OUT_OF_RANGE},
        {ST_SHAPE_CONSTRAINT_INSIDE, {1, INT64_MAX, 4}, INT64_MAX, STATOR_OUT_OF_RANGE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        stator_diag *err = NULL;
        cr_expect_eq(
            st_shape_constraint_check(rows[i].kind, rows[i].size, rows[i].step, "op", &err),
            rows[i].status, "row %zu", i);
        cr_expect_eq(err != NULL, rows[i].status != STATOR_OK, "row %zu", i);
        st_diag_release(err);
    }
}

/* No need is lost: all are listed, or it fails. */
Test(shape_constraints, every_allocation_may_fail)
{
    text_graph g = text_read_good(&w, CONV);
    for (uint64_t n = 1;; n++) {
        st_shape_constraints shape_constraints;
        stator_diag *err = NULL;
        st_shape_constraints_init(&shape_constraints, &w.mem);
        w.mem.requests = 0;
        w.mem.fail_at = n;
        const stator_status status = st_graph_shape_constraints(g.graph, &shape_constraints, &err);
        const int was_reached = w.mem.requests >= n;
        w.mem.fail_at = 0;
        st_diag_release(err);
        cr_expect(status == STATOR_OK || status == STATOR_RESOURCE_EXHAUSTED);
        cr_expect(status != STATOR_OK || shape_constraints.rows.count == 2);
        st_shape_constraints_deinit(&shape_constraints);
        if (!was_reached) {
            break;
        }
    }
    text_graph_free(&g);
}
