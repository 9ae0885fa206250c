/* The plan of what is kept between forward and backward part: cuts beside all cuts of small graphs,
 * budgets, what is never computed again, the cap, and a long chain. */
#include "core/base/str.h"
#include "ir/recompute/flow.h"
#include "ir/recompute/kept.h"
#include "support_text.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* ---- cuts ---- */

#define PLACES 8u

/* What the arcs from the source's side to the other cost, for the places of a set at the sink's. */
static int64_t cost_of(const st_flow *flow, uint32_t sink_side)
{
    int64_t cost = 0;
    for (uint32_t k = 0; k < flow->arcs.count; k++) {
        const st_flow_arc *arc = &flow->arcs.data[k];
        const bool crosses = (sink_side >> arc->from & 1u) == 0 && (sink_side >> arc->to & 1u) != 0;
        cost += crosses ? arc->capacity : 0;
        cost = cost < ST_FLOW_FREE ? cost : ST_FLOW_FREE;
    }
    return cost;
}

static void check_random_cut(st_mem *mem, uint64_t *seed)
{
    st_flow flow;
    st_flow_init(&flow, mem, UINT64_MAX);
    for (uint32_t p = 0; p < PLACES; p++) {
        st_flow_place(&flow);
    }
    for (uint32_t k = 0; k < 20; k++) {
        const uint32_t from = (uint32_t)(text_random(seed) % PLACES);
        const uint32_t to = (uint32_t)(text_random(seed) % PLACES);
        const uint64_t kind = text_random(seed) % 8u;
        const int64_t capacity = kind == 0 ? ST_FLOW_FREE : (int64_t)(text_random(seed) % 10u);
        cr_assert(from == to || st_flow_add(&flow, from, to, capacity));
    }
    cr_assert(st_flow_prepare(&flow) && st_flow_cut(&flow, 0, 1));
    uint32_t found = 0;
    for (uint32_t p = 0; p < PLACES; p++) {
        found |= st_flow_is_sink_side(&flow, p) ? 1u << p : 0u;
    }
    const int64_t least = cost_of(&flow, found);
    cr_assert((found & 2u) != 0 && ((found & 1u) == 0 || cost_of(&flow, 2u) >= ST_FLOW_FREE));
    /* A way that nothing can cut makes all sets cost alike. */
    for (uint32_t set = 2; least < ST_FLOW_FREE && set < 1u << PLACES; set += 4) {
        const int64_t cost = cost_of(&flow, set);
        cr_assert(cost >= least, "places %x cost %lld, the cut %x %lld", set, (long long)cost,
                  found, (long long)least);
        cr_assert(cost > least || (set & found) == found, "a smaller side: %x", set);
    }
    st_flow_deinit(&flow);
}

Test(kept, cut_is_the_least_of_all)
{
    text_world w;
    uint64_t seed = 20261128;
    text_world_init(&w);
    for (uint32_t k = 0; k < 500; k++) {
        check_random_cut(&w.mem, &seed);
    }
    text_world_deinit(&w);
}

/* ---- plans ---- */

/* The nodes computed again, as letters: node 1 is a. */
static void expect_again(const char *text, const st_keep_limits *limits, const char *letters)
{
    text_world w;
    st_kept kept;
    stator_diag *err = NULL;
    char found[64] = "";
    uint32_t n = 0;
    text_world_init(&w);
    text_graph g = text_read_good(&w, text);
    cr_assert_eq(st_kept_plan(g.graph, limits, &w.mem, &kept, &err), STATOR_OK);
    for (stator_ref node = 1; node <= st_graph_view(g.graph)->n_nodes; node++) {
        if (kept.is_again[node]) {
            found[n++] = (char)('a' + (char)(node - 1u));
        }
    }
    cr_assert_eq(n, kept.n_again);
    cr_assert_str_eq(found, letters, "%s computes '%s' again", text, found);
    st_kept_deinit(&kept, &w.mem);
    text_graph_free(&g);
    text_world_deinit(&w);
}

#define HEAD "stir 1\ngraph @f(%x: f32[64, 64], %t: f32[64, 64], %s: i64[], %n: i64[]) {\n"
#define TAIL " @\"backward of /a\":A\n return %z\n}\n"

Test(kept, what_is_never_computed_again)
{
    const st_keep_limits random = {.budget = 1, .allowed = ST_RECOMPUTE_ALLOW_RANDOM};
    const st_keep_limits heavy = {.budget = 1, .allowed = ST_RECOMPUTE_ALLOW_HEAVY};
    const st_keep_limits none = {.budget = 0};
    const char *const words = HEAD "%a = rng_uniform(%s, %s) {shape = [64, 64]} %y = mul(%a, %x) "
                                   "%z = mul(%t, %a)" TAIL;
    expect_again(words, NULL, "");
    expect_again(words, &none, "");
    expect_again(words, &random, "a");
    const char *const products =
        HEAD "%a = matmul(%x, %x) %b = exp(%a) %y = mul(%b, %x) %z = mul(%b, %x)" TAIL;
    expect_again(products, NULL, "");
    expect_again(products, &heavy, ""); /* allowed, and still more work than it is worth */
    expect_again(products, &none, "ab");
    const char *const effects = HEAD "%o = lt(%x, %t) %a = check(%o) {message = \"m\"} "
                                     "%b = cast(%a) {dtype = f32} %z = mul(%b, %x)" TAIL;
    expect_again(effects, &none, "c"); /* bools are smaller than floats */
    const char *const calls = HEAD "%a = call(%x) region @r(%v: f32[64, 64]) { %e = exp(%v) "
                                   "return %e } %b = exp(%a) %z = mul(%b, %x)" TAIL;
    expect_again(calls, &none, "");
}

Test(kept, cheap_nodes_are_computed_again)
{
    expect_again(HEAD "%a = exp(%x) %b = transpose(%a) {perm = [1, 0]} %c = softmax(%b) %z = "
                      "mul(%c, %x)" TAIL,
                 NULL, "abc");
    /* x is not read otherwise: of two of one size the later is kept. */
    expect_again(HEAD "%a = exp(%x) %z = mul(%a, %t)" TAIL, NULL, "");
    /* The sum of a row of 64 is smaller than what it takes to read the row again. */
    expect_again(HEAD "%a = reduce_sum(%x) {axes = [1], keepdims = 1} %b = mul(%a, %x) %z = "
                      "mul(%b, %t)" TAIL,
                 NULL, "");
    expect_again(HEAD "%a = reduce_sum(%x) {axes = [1], keepdims = 1} %b = mul(%a, %x) %c = "
                      "mul(%b, %x) %z = mul(%x, %c)" TAIL,
                 NULL, "bc");
    /* A parameter costs nothing to keep. */
    expect_again(
        "stir 1\ngraph @f(param %w \"w\": f32[4] = {1, 2, 3, 4}, %t: f32[4]) { %a = exp(%w) %z "
        "= mul(%a, %t)" TAIL,
        NULL, "a");
    /* Sizes that are symbols: by their likely values. */
    expect_again(
        "stir 1\nsym N in [1, 1024]\ngraph @f(%x: f32[N, 64], %t: f32[N, 64]) { %a = exp(%x) "
        "%b = sin(%a) %z = mul(%a, %b)" TAIL,
        NULL, "b");
}

Test(kept, input_that_is_written_is_not_read_again)
{
    const char *const text =
        "stir 1\ngraph @f(param %w \"w\": f32[4] = {1, 2, 3, 4}, %x: f32[4]) {\n"
        "%a = exp(%w) %b = exp(%x) %c = mul(%a, %b) %z = mul(%x, %a)"
        " @\"backward of /a\":A\n%q = mul(%x, %b) @\"backward of /b\":A\n"
        "write %w = %c\nreturn %z, %q\n}\n";
    expect_again(text, NULL, "b");
}

/* ---- budgets ---- */

/* Layers of a product and tanh, whose backward parts read both operands and the result. */
static char *layers(st_mem *mem, uint32_t n)
{
    st_str text;
    st_str_init(&text, mem);
    st_str_add(&text, "stir 1\ngraph @f(%x0: f32[64, 256], param %k \"k\": f32[1] = {2}) {\n"
                      "%w = expand(%k) {shape = [256, 256]}\n");
    for (uint32_t k = 0; k < n; k++) {
        st_str_addf(&text, "%%p%u = matmul(%%x%u, %%w)\n%%x%u = tanh(%%p%u)\n", k, k, k + 1u, k);
    }
    st_str_addf(&text, "%%d%u = mul(%%x%u, %%x%u) @\"backward of l\":L\n", n, n, n);
    for (uint32_t k = n; k > 0; k--) {
        st_str_addf(&text,
                    "%%e%u = mul(%%d%u, %%x%u) @\"backward of l\":L\n%%d%u = mul(%%e%u, %%x%u)"
                    " @\"backward of l\":L\n",
                    k, k, k, k - 1u, k, k - 1u);
    }
    st_str_add(&text, "return %d0\n}\n");
    return text.data;
}

Test(kept, lower_budgets_keep_less)
{
    text_world w;
    text_world_init(&w);
    char *text = layers(&w.mem, 12);
    text_graph g = text_read_good(&w, text);
    double whole = 0, before = INFINITY;
    for (uint32_t k = 0; k <= 16; k++) {
        const st_keep_limits limits = {.budget = 1 - k / 16.0};
        st_kept kept;
        stator_diag *err = NULL;
        cr_assert_eq(st_kept_plan(g.graph, &limits, &w.mem, &kept, &err), STATOR_OK);
        whole = k == 0 ? kept.bytes : whole;
        cr_assert(!kept.is_capped && kept.bytes <= before);
        cr_assert(kept.bytes <= limits.budget * whole || kept.bytes == 64 * 256 * 4);
        /* Layers go one by one, so a budget is nearly used up. */
        cr_assert(kept.bytes > limits.budget * whole - 64 * 256 * 4);
        before = kept.bytes;
        st_kept_deinit(&kept, &w.mem);
    }
    cr_assert_eq(whole, 13 * 64 * 256 * 4);
    text_graph_free(&g);
    st_free(&w.mem, text);
    text_world_deinit(&w);
}

Test(kept, cap_ends_the_plan)
{
    text_world w;
    text_world_init(&w);
    char *text = layers(&w.mem, 12);
    text_graph g = text_read_good(&w, text);
    for (uint64_t steps = 1; steps < 4000; steps += 100) {
        const st_keep_limits limits = {.budget = 0.5, .max_steps = steps};
        st_kept kept;
        stator_diag *err = NULL;
        cr_assert_eq(st_kept_plan(g.graph, &limits, &w.mem, &kept, &err), STATOR_OK);
        cr_assert(kept.is_capped && strstr(st_kept_capped_note(&kept), "too much work") != NULL);
        cr_assert(steps > 100 || kept.n_again == 0);
        st_kept_deinit(&kept, &w.mem);
    }
    text_graph_free(&g);
    st_free(&w.mem, text);
    text_world_deinit(&w);
}

/* ---- a long chain ---- */

#define LINKS 20000u

Test(kept, long_chain)
{
    text_world w;
    st_str text;
    text_world_init(&w);
    st_str_init(&text, &w.mem);
    st_str_add(&text, "stir 1\ngraph @f(%x0: f32[1024], %t: f32[1024]) {\n");
    for (uint32_t k = 1; k <= LINKS; k++) {
        st_str_addf(&text, "%%x%u = %s(%%x%u)\n", k, k % 3u == 0 ? "tanh" : "sin", k - 1u);
    }
    st_str_addf(&text, "%%d%u = neg(%%t) @\"backward of l\":L\n", LINKS);
    for (uint32_t k = LINKS; k > 0; k--) {
        st_str_addf(&text, "%%d%u = mul(%%d%u, %%x%u) @\"backward of l\":L\n", k - 1u, k,
                    k % 3u == 0 ? k : k - 1u);
    }
    st_str_add(&text, "return %d0\n}\n");
    text_graph g = text_read_good(&w, text.data);
    for (uint32_t k = 0; k < 3; k++) {
        const st_keep_limits limits = {.budget = k / 2.0};
        st_kept kept;
        stator_diag *err = NULL;
        cr_assert_eq(st_kept_plan(g.graph, &limits, &w.mem, &kept, &err), STATOR_OK);
        cr_assert(!kept.is_capped && kept.bytes == 2 * 4096, "%g bytes, capped: %d", kept.bytes,
                  kept.is_capped);
        st_kept_deinit(&kept, &w.mem);
    }
    text_graph_free(&g);
    st_str_deinit(&text);
    text_world_deinit(&w);
}
