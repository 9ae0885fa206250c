/* Decompositions: for every sample of a composite the decomposition's types equal the composite's,
 * and decomposing again and again ends in primitives. Values are compared by the case files, which
 * run on aot_eager as well. */
#include "ir/infer.h"
#include "tests/unit/support_samples.h"

#include <criterion/criterion.h>
#include <string.h>

#define ROUNDS_MAX 8u

typedef struct lowering {
    text_world *w;
    const stator_graph *from;
    const stator_graph_view *v;
    stator_builder *b;
    stator_ref *map;
    uint32_t count; /* composites decomposed */
} lowering;

static stator_status compare_types(const lowering *l, stator_ref old, stator_ref fresh,
                                   stator_diag **err)
{
    const stator_graph_view *bv = st_graph_view(l->b->graph);
    const stator_type_row *want = stator_value_type(l->v, old);
    const stator_type_row *got = stator_value_type(bv, fresh);
    int same = want->dtype == got->dtype && want->rank == got->rank;
    for (uint32_t d = 0; same && d < want->rank; d++) {
        same = st_sym_eq(&l->from->module->symtab, stator_dim_at(l->v, want, d),
                         stator_dim_at(bv, got, d)) == 1;
    }
    if (same) {
        return STATOR_OK;
    }
    st_str a, c;
    st_str_init(&a, &l->w->mem);
    st_str_init(&c, &l->w->mem);
    st_module_print_type(l->from->module, stator_value_at(l->v, old)->type, &a);
    st_module_print_type(l->from->module, stator_value_at(bv, fresh)->type, &c);
    const stator_status status = st_fail(err, STATOR_INTERNAL, "%s, decomposed %s", a.data, c.data);
    st_str_deinit(&a);
    st_str_deinit(&c);
    return status;
}

static stator_status lower_node(lowering *l, const stator_node_row *row, const st_op *op,
                                st_arena *arena, stator_diag **err)
{
    stator_ref operands[64], results[8] = {0};
    stator_attr attrs[32];
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(l->v, row, k);
        operands[k] = value ? l->map[value] : 0;
    }
    for (uint32_t a = 0; a < row->attr_count; a++) {
        ST_TRY(st_attr_from_row(l->v, l->from->module, arena, op->desc.attrs[a].name,
                                stator_attr_at(l->v, row, a), &attrs[a], err));
    }
    const st_decompose_node in = {.op = op,
                                  .operands = operands,
                                  .n_operands = row->operand_count,
                                  .n_attrs = row->attr_count,
                                  .attrs = attrs,
                                  .n_results = row->result_count};
    ST_TRY(st_decompose(l->b, &in, results, err));
    l->count++;
    for (uint32_t k = 0; k < row->result_count; k++) {
        ST_TRY(compare_types(l, row->result_begin + k, results[k], err));
        l->map[row->result_begin + k] = results[k];
    }
    return STATOR_OK;
}

static stator_status lower_nodes(lowering *l, stator_diag **err)
{
    ST_TRY(st_build_clone_inputs(l->b, l->from, l->map, err));
    for (stator_ref node = 1; node <= l->v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(l->v, node);
        const st_op *op = st_optable_at(l->from->module->ops, row->op);
        if ((op->desc.flags & STATOR_OP_COMPOSITE) == 0) {
            ST_TRY(st_build_clone(l->b, l->from, node, node, l->map, err));
            continue;
        }
        st_arena arena;
        st_arena_init(&arena, &l->w->mem);
        const stator_status status = lower_node(l, row, op, &arena, err);
        st_arena_deinit(&arena);
        ST_TRY(status);
    }
    return st_build_clone_outputs(l->b, l->from, l->map, err);
}

/* Decomposes every composite of `from` into a new graph of the same module; *out_count: how many.
 * Types of results are compared on the way. */
static stator_status decompose_all(text_world *w, const stator_graph *from, stator_graph **out,
                                   uint32_t *out_count, stator_diag **err)
{
    lowering l = {.w = w, .from = from, .v = st_graph_view(from)};
    ST_TRY(st_builder_create(from->module, "lower", &l.b, err));
    l.map = st_calloc(&w->mem, l.v->n_values + 1u, sizeof *l.map);
    stator_status status = l.map ? lower_nodes(&l, err) : st_fail_oom(err);
    st_free(&w->mem, l.map);
    *out_count = l.count;
    if (status != STATOR_OK) {
        st_builder_abort(l.b);
        return status;
    }
    return st_builder_finish(l.b, out, err);
}

Test(decompose, types_agree_and_end_in_primitives)
{
    text_world w;
    uint32_t n = 0, composites = 0;
    const op_sample *samples = op_samples(&n);
    text_world_init(&w);
    for (uint32_t i = 0; i < n; i++) {
        text_graph g;
        stator_diag *err = NULL;
        uint32_t count = 0, rounds = 0;
        cr_assert_eq(op_sample_read(&w, &samples[i], &g, &err), STATOR_OK, "%s", st_diag_text(err));
        stator_graph *graph = g.graph;
        stator_status status = STATOR_OK;
        do {
            status = decompose_all(&w, graph, &graph, &count, &err);
            composites += count;
        } while (status == STATOR_OK && count != 0 && ++rounds < ROUNDS_MAX);
        cr_expect_eq(status, STATOR_OK, "%s: %s", samples[i].node, st_diag_text(err));
        cr_expect_lt(rounds, ROUNDS_MAX, "%s does not end in primitives", samples[i].node);
        st_diag_release(err);
        text_graph_free(&g);
    }
    cr_expect_gt(composites, 80u, "%u", composites);
    text_world_deinit(&w);
}

Test(decompose, primitive_op_has_no_decomposition)
{
    text_world w;
    stator_diag *err = NULL;
    text_world_init(&w);
    const st_decompose_node node = {.op = st_optable_at(&w.ops, st_optable_find(&w.ops, "add"))};
    stator_ref out = 0;
    cr_expect_eq(st_decompose(NULL, &node, &out, &err), STATOR_NOT_FOUND);
    cr_expect_not_null(strstr(st_diag_text(err), "add is a primitive"));
    st_diag_release(err);
    text_world_deinit(&w);
}

/* Every row that is flagged COMPOSITE has a body or a function, and no other row has one. */
Test(decompose, composite_flag_matches_body_or_function)
{
    uint32_t n = 0;
    const st_op_def *defs = st_op_defs(&n);
    for (uint32_t i = 0; i < n; i++) {
        const int has = defs[i].body != NULL || defs[i].decompose != NULL;
        cr_expect_eq(has, (defs[i].flags & STATOR_OP_COMPOSITE) != 0, "%s", defs[i].name);
        cr_expect(defs[i].body == NULL || defs[i].decompose == NULL, "%s has both", defs[i].name);
    }
}

/* f16 is computed in f32 and rounded once. */
Test(decompose, narrow_floats_are_widened_once)
{
    text_world w;
    text_graph g;
    stator_diag *err = NULL;
    stator_graph *lower = NULL;
    uint32_t count = 0, casts = 0;
    const op_sample sample = {"f16[2, 3]", "gelu(%a) : f16[2, 3]", NULL, NULL};
    text_world_init(&w);
    cr_assert_eq(op_sample_read(&w, &sample, &g, &err), STATOR_OK, "%s", st_diag_text(err));
    cr_assert_eq(decompose_all(&w, g.graph, &lower, &count, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    const stator_graph_view *v = st_graph_view(lower);
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        const int is_cast = strcmp(stator_op_at(v, row->op)->name, "cast") == 0;
        const stator_dtype dtype = stator_value_type(v, row->result_begin)->dtype;
        casts += (uint32_t)is_cast;
        cr_expect(dtype == STATOR_F32 || (is_cast && dtype == STATOR_F16), "node %u is %u", node,
                  dtype);
    }
    cr_expect_eq(casts, 2);
    text_graph_free(&g);
    text_world_deinit(&w);
}

/* ---- ops of libraries ---- */

static stator_status lib_infer(void *self, stator_builder *b, const stator_node_desc *node,
                               stator_ref *out_types, uint32_t n_types, stator_diag **err)
{
    const int64_t *limit = self;
    if (node->attrs[0].i > *limit) {
        return st_fail(err, STATOR_INVALID_ARGUMENT, "test_power: power is above %lld",
                       (long long)*limit);
    }
    for (uint32_t k = 0; k < n_types; k++) {
        out_types[k] = stator_value_at(st_build_api.view(b), node->operands[0])->type;
    }
    return STATOR_OK;
}

static stator_status lib_decompose(void *self, stator_builder *b, const stator_node_desc *node,
                                   stator_ref *out_results, stator_diag **err)
{
    const char *const names[1] = {"x"};
    (void)self;
    return st_build_api.expr(b, "pow(x, power)", 1, names, node->operands, node->attr_count,
                             node->attrs, 1, out_results, err);
}

static void check_library(int use_body)
{
    static const stator_attr_desc attrs[] = {{.name = "power", .kind = STATOR_ATTR_INT, .i = 2}};
    text_world w;
    stator_diag *err = NULL;
    text_graph g;
    stator_graph *lower = NULL;
    uint32_t count = 0;
    int64_t limit = 5;
    const stator_oplib_op op = {.desc = {.struct_size = sizeof(stator_op_desc),
                                         .name = "test_power",
                                         .operands = "x",
                                         .results = "y",
                                         .doc = "x to the power",
                                         .body = use_body ? "pow(x, power)" : NULL,
                                         .attrs = attrs,
                                         .attr_count = 1},
                                .infer = lib_infer,
                                .decompose = use_body ? NULL : lib_decompose};
    const op_sample good = {"f32[3]", "test_power(%a) {power = 3} : f32[3]", NULL, NULL};
    const op_sample bad = {"f32[3]", "test_power(%a) {power = 9}", NULL, NULL};
    text_world_init(&w);
    cr_assert_eq(st_optable_add(&w.ops, "test", &op, &limit, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    cr_assert_eq(op_sample_read(&w, &good, &g, &err), STATOR_OK, "%s", st_diag_text(err));
    cr_expect_eq(decompose_all(&w, g.graph, &lower, &count, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    cr_expect_eq(count, 1u);
    text_graph_free(&g);
    cr_expect_eq(op_sample_read(&w, &bad, &g, &err), STATOR_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(st_diag_text(err), "power is above 5"), "%s", st_diag_text(err));
    st_diag_release(err);
    text_world_deinit(&w);
}

Test(decompose, library_op_with_a_function)
{
    check_library(0);
}

Test(decompose, library_op_with_a_body)
{
    check_library(1);
}

/* ---- failing allocations ---- */

/* Any request for memory may fail: a status, and nothing is left behind. */
Test(decompose, every_allocation_may_fail, .timeout = 120)
{
    static const char *const ops[] = {"lstm",   "max_pool",    "einsum",
                                      "resize", "grid_sample", "sdpa"};
    uint32_t n = 0;
    const op_sample *samples = op_samples(&n);
    for (uint32_t i = 0; i < n; i++) {
        char name[64];
        int wanted = 0;
        op_sample_name(&samples[i], name);
        for (uint32_t k = 0; k < sizeof ops / sizeof ops[0]; k++) {
            wanted = wanted || strcmp(ops[k], name) == 0;
        }
        stator_status status = wanted ? STATOR_UNKNOWN : STATOR_OK;
        for (uint64_t at = 1; status != STATOR_OK; at += 3) {
            text_world w;
            text_graph g;
            stator_diag *err = NULL;
            stator_graph *lower = NULL;
            uint32_t count = 0;
            text_world_init(&w);
            cr_assert_eq(op_sample_read(&w, &samples[i], &g, &err), STATOR_OK);
            w.mem.fail_at = w.mem.requests + at;
            status = decompose_all(&w, g.graph, &lower, &count, &err);
            w.mem.fail_at = 0;
            cr_expect(status == STATOR_OK || status == STATOR_RESOURCE_EXHAUSTED ||
                          status == STATOR_UNIMPLEMENTED || status == STATOR_INVALID_ARGUMENT,
                      "%s, request %llu: %d %s", name, (unsigned long long)at, status,
                      st_diag_text(err));
            st_diag_release(err);
            text_graph_free(&g);
            text_world_deinit(&w);
        }
    }
}
