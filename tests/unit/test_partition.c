/* The partitioner: parts of a long chain, ATOMIC groups, sizes that only a node's result tells, and
 * that what is kept grows no faster than the graph. */
#include "core/compile/partition.h"
#include "core/context/ctx.h"
#include "tests/unit/support_run.h"

#include <criterion/criterion.h>
#include <stator/inspect.h>
#include <string.h>

typedef struct division {
    stator_ctx *ctx;
    stator_model *model;
    stator_graph *graph;
    const stator_graph_view *v;
    uint8_t color[64];
    uint32_t group[64];
    st_parts parts;
} division;

static division load(const char *text)
{
    division d = {.ctx = run_context()};
    const stator_load_options options = {
        .struct_size = sizeof options, .flags = 1, .frontend = "text"};
    cr_assert_eq(
        stator_model_load_bytes(d.ctx, text, strlen(text), "partition", &options, &d.model),
        STATOR_OK, "%s", stator_ctx_error_text(d.ctx));
    d.graph = (stator_graph *)(uintptr_t)stator_model_graph(d.model);
    d.v = st_graph_view(d.graph);
    cr_assert_lt(d.v->n_nodes, 64);
    return d;
}

static stator_status divide(division *d, int may_dissolve)
{
    const st_partition_request request = {.graph = d->graph,
                                          .color = d->color,
                                          .group = d->group,
                                          .mem = &d->ctx->mem,
                                          .may_dissolve = may_dissolve};
    stator_diag *diag = NULL;
    const stator_status status = st_partition(&request, &d->parts, &diag);
    cr_expect_eq(status == STATOR_OK, diag == NULL);
    st_diag_release(diag);
    return status;
}

static void end(division *d)
{
    st_parts_deinit(&d->parts);
    stator_model_destroy(d->model);
    stator_ctx_destroy(d->ctx);
}

/* The number of the part that holds the node. */
static uint32_t part_of(const division *d, stator_ref node)
{
    for (uint32_t i = 0; i < d->parts.n_parts; i++) {
        for (uint32_t k = 0; k < d->parts.parts[i].n_nodes; k++) {
            if (d->parts.parts[i].nodes[k] == node) {
                return i;
            }
        }
    }
    return UINT32_MAX;
}

/* ---- growth ---- */

static stator_model *chain(stator_ctx *ctx, uint32_t n_nodes)
{
    const stator_host *host = stator_ctx_host(ctx);
    stator_builder *b = NULL;
    stator_model *model = NULL;
    cr_assert_eq(stator_model_begin(ctx, &b), STATOR_OK);
    const stator_ref dim = host->types->sym_int(b, 8);
    stator_ref x = 0;
    cr_assert_eq(host->build->input(b, "x", host->types->tensor(b, STATOR_F32, 1, &dim), &x, NULL),
                 STATOR_OK);
    for (uint32_t i = 0; i < n_nodes; i++) {
        const stator_node_desc node = {.struct_size = sizeof node,
                                       .op = host->ir->find_op(ctx, i % 2 == 0 ? "sin" : "cos"),
                                       .operands = &x,
                                       .operand_count = 1};
        cr_assert_eq(host->build->node(b, &node, &x, NULL), STATOR_OK);
    }
    cr_assert_eq(host->build->output(b, "y", x, NULL), STATOR_OK);
    cr_assert_eq(stator_model_finish(b, &model), STATOR_OK);
    return model;
}

/* Bytes that the division of a chain takes, of which every other node has the other color. */
static uint64_t bytes_for(uint32_t n_nodes)
{
    stator_ctx *ctx = run_context();
    stator_model *model = chain(ctx, n_nodes);
    stator_graph *graph = (stator_graph *)(uintptr_t)stator_model_graph(model);
    uint8_t *color = st_calloc(&ctx->mem, n_nodes + 1u, 1);
    cr_assert(color);
    for (uint32_t n = 1; n <= n_nodes; n++) {
        color[n] = n % 2;
    }
    st_parts parts;
    const st_partition_request request = {.graph = graph, .color = color, .mem = &ctx->mem};
    const uint64_t before = ctx->mem.live_bytes;
    atomic_store(&ctx->mem.peak_bytes, before);
    cr_assert_eq(st_partition(&request, &parts, NULL), STATOR_OK);
    const uint64_t bytes = ctx->mem.peak_bytes - before;
    cr_expect_eq(parts.n_parts, n_nodes);
    for (uint32_t i = 0; i < parts.n_parts; i++) {
        cr_assert(parts.parts[i].n_nodes == 1 && parts.parts[i].nodes[0] == i + 1);
        cr_assert(parts.parts[i].n_in == 1 && parts.parts[i].n_out == 1);
        cr_assert_eq(parts.parts[i].node_of[1], i + 1);
        cr_assert_eq(parts.parts[i].color, (i + 1) % 2);
    }
    st_parts_deinit(&parts);
    st_free(&ctx->mem, color);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return bytes;
}

Test(partition, memory_grows_with_the_graph)
{
    const uint64_t small = bytes_for(2500);
    const uint64_t large = bytes_for(20000);
    /* Eight times the nodes; pools and tables grow by doubling. */
    cr_expect_lt(large, 16 * small, "2,500 nodes take %llu bytes, 20,000 take %llu",
                 (unsigned long long)small, (unsigned long long)large);
}

/* ---- groups ---- */

static const char crossing[] = "stir 1\n"
                               "graph @m(%1: f32[4], %2: f32[4]) {\n"
                               "  %3 = sin(%1)\n"     /* node 1, group 1 */
                               "  %4 = cos(%2)\n"     /* node 2, group 2 */
                               "  %5 = add(%3, %4)\n" /* node 3, group 2: after group 1 */
                               "  %6 = sub(%4, %3)\n" /* node 4, group 1: after group 2 */
                               "  %7 = exp(%6)\n"
                               "  return %5, %7\n"
                               "}\n";

Test(partition, groups_that_need_each_other_are_merged)
{
    division d = load(crossing);
    d.group[1] = d.group[4] = 1;
    d.group[2] = d.group[3] = 2;
    d.color[5] = ST_COLOR_FALLBACK;
    cr_assert_eq(divide(&d, 0), STATOR_OK);
    cr_expect_eq(d.parts.n_parts, 2);
    cr_expect(part_of(&d, 1) == 0 && part_of(&d, 2) == 0 && part_of(&d, 3) == 0 &&
              part_of(&d, 4) == 0 && part_of(&d, 5) == 1);
    end(&d);
}

static const char sandwich[] = "stir 1\n"
                               "graph @m(%1: f32[4]) {\n"
                               "  %2 = sin(%1)\n"
                               "  %3 = cos(%2)\n"
                               "  %4 = add(%2, %3)\n"
                               "  %5 = exp(%4)\n"
                               "  return %5\n"
                               "}\n";

Test(partition, group_around_another_backends_node_is_dissolved)
{
    division d = load(sandwich);
    d.group[1] = d.group[3] = 1;
    d.color[2] = ST_COLOR_FALLBACK;
    cr_assert_eq(divide(&d, 0), STATOR_FAILED_PRECONDITION);
    cr_assert_eq(divide(&d, 1), STATOR_OK);
    cr_expect_eq(d.parts.n_parts, 2, "the group is dissolved, its nodes go to the fallback");
    cr_expect(d.color[1] == ST_COLOR_FALLBACK && d.color[3] == ST_COLOR_FALLBACK);
    cr_expect(part_of(&d, 3) == 0 && part_of(&d, 4) == 1);
    end(&d);
}

/* ---- order ---- */

Test(partition, sym_bind_comes_before_users_of_its_size)
{
    division d = load("stir 1\n"
                      "sym $0 unbacked in [0, 100]\n"
                      "graph @m(%1: i64[1], %2: f32[1]) {\n"
                      "  %3 = sym_bind(%1) {syms = [$0]}\n"
                      "  %4 = expand(%2) {shape = [$0]} : f32[$0]\n"
                      "  return %4\n"
                      "}\n");
    d.color[1] = ST_COLOR_FALLBACK;
    cr_assert_eq(divide(&d, 0), STATOR_OK);
    cr_expect_eq(part_of(&d, 1), 0);
    cr_expect_eq(part_of(&d, 2), 1);
    end(&d);
}

/* A multiple of the size, seen before, tells nothing of it: sin does not come in the place of
 * sym_bind. */
Test(partition, multiple_of_a_size_does_not_define_it)
{
    division d = load("stir 1\n"
                      "sym $0 unbacked in [0, 100]\n"
                      "graph @m(%1: f32[2*$0], %2: i64[1], %3: f32[1]) {\n"
                      "  %4 = sin(%1)\n"
                      "  %5 = sym_bind(%2) {syms = [$0]}\n"
                      "  %6 = expand(%3) {shape = [$0]} : f32[$0]\n"
                      "  return %4, %6\n"
                      "}\n");
    d.color[2] = ST_COLOR_FALLBACK;
    cr_assert_eq(divide(&d, 0), STATOR_OK);
    cr_expect_lt(part_of(&d, 2), part_of(&d, 3), "the size is bound before it is used");
    end(&d);
}

/* A value without a name is named by its number, which may be another's name; and results of nodes
 * may share one. */
Test(partition, values_that_share_a_name_stay_distinct)
{
    division d = load("stir 1\n"
                      "graph @m(%x: f32[4]) {\n"
                      "  %v3 = sin(%x)\n"
                      "  %3 = cos(%x)\n"
                      "  %4 \"v3\" = neg(%x)\n"
                      "  %5 = add(%v3, %3)\n"
                      "  %6 = add(%5, %4)\n"
                      "  return %6\n"
                      "}\n");
    d.color[4] = d.color[5] = 1;
    cr_assert_eq(divide(&d, 0), STATOR_OK);
    const st_part *part = &d.parts.parts[part_of(&d, 5)];
    const stator_graph_view *v = st_graph_view(part->graph);
    cr_assert_eq(part->n_in, 3);
    for (uint32_t i = 1; i <= 3; i++) {
        static const char *const names[] = {"v3", "v3.2", "v4"};
        const char *name = stator_string_at(v, stator_value_at(v, i)->name);
        cr_expect_str_eq(name, names[i - 1]);
    }
    end(&d);
}

Test(partition, control_flow_on_the_host_is_a_part_of_its_own)
{
    division d = load("stir 1\n"
                      "graph @m(%1: f32[4], %2: f32[4]) {\n"
                      "  %3 = call(%1) : f32[4]\n"
                      "    region @f(%1: f32[4]) {\n"
                      "      %2 = sin(%1)\n"
                      "      return %2\n"
                      "    }\n"
                      "  %4 = call(%3) : f32[4]\n"
                      "    region @f(%1: f32[4]) {\n"
                      "      %2 = cos(%1)\n"
                      "      return %2\n"
                      "    }\n"
                      "  %5 = add(%4, %2)\n"
                      "  return %5\n"
                      "}\n");
    d.color[1] = d.color[2] = ST_COLOR_HOST;
    cr_assert_eq(divide(&d, 0), STATOR_OK);
    cr_expect_eq(d.parts.n_parts, 3);
    for (uint32_t i = 0; i < 2; i++) {
        const st_part *part = &d.parts.parts[i];
        cr_expect(part->graph == NULL && part->n_nodes == 1 && part->nodes[0] == i + 1);
        cr_expect(part->n_in == 1 && part->n_out == 1);
    }
    cr_expect_eq(part_of(&d, 3), 2);
    end(&d);
}

Test(partition, every_allocation_may_fail)
{
    for (uint64_t n = 1; n < 60; n++) {
        division d = load(crossing);
        d.group[1] = d.group[4] = 1;
        d.group[2] = d.group[3] = 2;
        d.color[5] = ST_COLOR_FALLBACK;
        stator_x_fail_alloc_at(d.ctx, n);
        const stator_status status = divide(&d, 0);
        stator_x_fail_alloc_at(d.ctx, 0);
        cr_expect(status == STATOR_OK || status == STATOR_RESOURCE_EXHAUSTED);
        end(&d);
    }
}
