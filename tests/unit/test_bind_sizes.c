/* Numbers in place of symbolic sizes: types, attributes and regions follow, proofs and texts of
 * what cannot be set, allocation failures. */
#include "ir/sizes/bind_sizes.h"
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

TestSuite(bind_sizes, .init = begin, .fini = end);

static const char SYMBOLIC[] =
    "stir 1\n"
    "sym N in [1, 1024] multiple of 8\n"
    "sym H in [0, inf]\n"
    "graph @main(\n"
    "  %x: f32[N, 3, H, 10],\n"
    "  %w: f32[4, 3, 3, 3],\n"
    "  %p: bool[]\n"
    ") {\n"
    "  %y = conv(%x, %w) {strides = [2, 2], pads = [1, 1, 1, 1], dilations = [1, 1]} "
    ": f32[N, 4, floordiv(H - 1, 2) + 1, 5]\n"
    "  %z = reshape(%y) {shape = [N, 20*floordiv(H - 1, 2) + 20]} "
    ": f32[N, 20*floordiv(H - 1, 2) + 20]\n"
    "  %r = cond(%p, %z) : f32[N, 20*floordiv(H - 1, 2) + 20]\n"
    "    region @then(%a: f32[N, 20*floordiv(H - 1, 2) + 20]) {\n"
    "      %b = neg(%a) : f32[N, 20*floordiv(H - 1, 2) + 20]\n"
    "      return %b\n"
    "    }\n"
    "    region @else(%a: f32[N, 20*floordiv(H - 1, 2) + 20]) {\n"
    "      return %a\n"
    "    }\n"
    "  return %r\n"
    "}\n";

static const char BOUND[] =
    "stir 1\n"
    "graph @main(\n"
    "  %x: f32[16, 3, 7, 10],\n"
    "  %w: f32[4, 3, 3, 3],\n"
    "  %p: bool[]\n"
    ") {\n"
    "  %y = conv(%x, %w) {strides = [2, 2], pads = [1, 1, 1, 1], dilations = [1, 1]} "
    ": f32[16, 4, 4, 5]\n"
    "  %z = reshape(%y) {shape = [16, 80]} : f32[16, 80]\n"
    "  %r = cond(%p, %z) : f32[16, 80]\n"
    "    region @then(%a: f32[16, 80]) {\n"
    "      %b = neg(%a) : f32[16, 80]\n"
    "      return %b\n"
    "    }\n"
    "    region @else(%a: f32[16, 80]) {\n"
    "      return %a\n"
    "    }\n"
    "  return %r\n"
    "}\n";

static text_graph read_graph(void)
{
    text_graph g;
    stator_diag *err = NULL;
    cr_assert_eq(text_read(&w, SYMBOLIC, sizeof SYMBOLIC - 1, NULL, NULL, &g, &err), STATOR_OK,
                 "%s", st_diag_text(err));
    return g;
}

static char *print_graph(const text_graph *g)
{
    stator_diag *err = NULL;
    uint64_t len = 0;
    char *text = text_print(&w, g->graph, &len, &err);
    cr_assert_not_null(text, "%s", st_diag_text(err));
    return text;
}

static const char *const both[] = {"N", "H"};

Test(bind_sizes, types_attributes_and_regions_follow)
{
    const int64_t values[] = {16, 7};
    stator_diag *err = NULL;
    text_graph g = read_graph();
    cr_assert_eq(st_bind_sizes(g.module, 2, both, values, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    cr_assert_eq(st_verify(g.graph, &err), STATOR_OK, "%s", st_diag_text(err));
    char *text = print_graph(&g);
    cr_assert_str_eq(text, BOUND);
    text_check(&w, text, BOUND);
    st_free(&w.mem, text);
    text_graph_free(&g);
}

Test(bind_sizes, binding_one_symbol_leaves_the_other)
{
    const int64_t values[] = {7};
    stator_diag *err = NULL;
    text_graph g = read_graph();
    cr_assert_eq(st_bind_sizes(g.module, 1, both + 1, values, &err), STATOR_OK);
    cr_assert_eq(st_verify(g.graph, &err), STATOR_OK);
    char *text = print_graph(&g);
    cr_assert_not_null(strstr(text, "%r = cond(%p, %z) : f32[N, 80]"), "%s", text);
    cr_assert_null(strstr(text, "H"));
    st_free(&w.mem, text);
    text_graph_free(&g);
}

static void expect_refusal(const char *name, int64_t value, const char *words)
{
    stator_diag *err = NULL;
    text_graph g = read_graph();
    cr_assert_eq(st_bind_sizes(g.module, 1, &name, &value, &err), STATOR_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(st_diag_text(err), words), "%s", st_diag_text(err));
    st_diag_release(err);
    text_graph_free(&g);
}

Test(bind_sizes, refusals_name_the_sizes)
{
    expect_refusal("n", 8, "no symbolic size 'n', did you mean 'N'? (it has: N, H)");
    expect_refusal("N", 12, "cannot be 12: it is a multiple of 8");
    expect_refusal("N", 2048, "cannot be 2048");
    expect_refusal("H", -1, "cannot be -1");
}

Test(bind_sizes, a_size_past_64_bits_is_an_error)
{
    const int64_t values[] = {INT64_MAX};
    stator_diag *err = NULL;
    text_graph g = read_graph();
    cr_assert_eq(st_bind_sizes(g.module, 1, both + 1, values, &err), STATOR_RESOURCE_EXHAUSTED);
    st_diag_release(err);
    text_graph_free(&g);
}

Test(bind_sizes, every_allocation_may_fail)
{
    const int64_t values[] = {16, 7};
    for (uint64_t n = 1;; n++) {
        stator_diag *err = NULL;
        text_graph g = read_graph();
        w.mem.requests = 0;
        w.mem.fail_at = n;
        const stator_status status = st_bind_sizes(g.module, 2, both, values, &err);
        const int was_reached = w.mem.requests >= n;
        w.mem.fail_at = 0;
        st_diag_release(err);
        text_graph_free(&g);
        if (!was_reached) {
            cr_assert_eq(status, STATOR_OK);
            return;
        }
        cr_assert_eq(status, STATOR_RESOURCE_EXHAUSTED, "request %d", (int)n);
    }
}
