/* The op table: every row parses, defaults are what the text says, ops of libraries are added and
 * refused. */
#include "core/base/str.h"
#include "ir/builder.h"
#include "ir/expr/expr.h"
#include <stator/ops.h>

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct table_world {
    st_mem mem;
    st_optable ops;
} table_world;

static void setup(table_world *w)
{
    stator_diag *err = NULL;
    st_mem_init(&w->mem, NULL, NULL, NULL, 0);
    cr_assert_eq(st_optable_init(&w->ops, &w->mem, &err), STATOR_OK, "%s", st_diag_text(err));
}

static void teardown(table_world *w)
{
    st_optable_deinit(&w->ops);
    cr_expect_eq(w->mem.live_blocks, 0);
}

static const stator_op_desc *desc_of(const table_world *w, const char *name)
{
    const uint32_t op = st_optable_find(&w->ops, name);
    cr_assert_neq(op, 0, "%s", name);
    return &st_optable_at(&w->ops, op)->desc;
}

Test(optable, every_row_parses)
{
    table_world w;
    uint32_t n = 0;
    const st_op_def *defs = st_op_defs(&n);
    setup(&w);
    cr_expect_eq(st_optable_count(&w.ops), n);
    cr_expect_eq(STATOR_OPCODE_end - 1, n);
    cr_expect_eq(st_optable_find(&w.ops, "scan"), STATOR_OPCODE_scan);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t op = st_optable_find(&w.ops, defs[i].name);
        cr_assert_eq(op, i + 1u, "two rows are named %s", defs[i].name);
        const st_op *row = st_optable_at(&w.ops, op);
        cr_expect_not_null(row->infer, "%s", defs[i].name);
        cr_expect_not_null(row->desc.doc, "%s", defs[i].name);
        cr_expect_eq(row->desc.version, 1, "%s", defs[i].name);
        cr_expect_eq(row->desc.region_count != 0, (row->desc.flags & STATOR_OP_REGIONS) != 0, "%s",
                     defs[i].name);
    }
    teardown(&w);
}

/* Bodies parse without being run. */
Test(optable, every_body_parses)
{
    table_world w;
    uint32_t n = 0;
    const st_op_def *defs = st_op_defs(&n);
    setup(&w);
    for (uint32_t i = 0; i < n; i++) {
        st_arena arena;
        st_expr_program program;
        stator_diag *err = NULL;
        st_arena_init(&arena, &w.mem);
        if (defs[i].body != NULL) {
            cr_expect_eq(st_expr_parse(&arena, defs[i].body, &program, &err), STATOR_OK, "%s: %s",
                         defs[i].name, st_diag_text(err));
        }
        st_diag_release(err);
        st_arena_deinit(&arena);
    }
    teardown(&w);
}

Test(optable, absent_columns_have_defaults)
{
    table_world w;
    double list[4] = {0};
    uint32_t n = 9;
    setup(&w);
    const stator_op_desc *cast = desc_of(&w, "cast");
    cr_expect_eq(cast->attrs[STATOR_cast_dtype].is_required, 1);
    cr_expect_eq(cast->attrs[STATOR_cast_saturate].i, 1);
    cr_expect_str_eq(cast->attrs[STATOR_cast_round].s, "even");
    const stator_op_desc *norm = desc_of(&w, "layer_norm");
    cr_expect_eq(norm->attrs[STATOR_layer_norm_axis].i, -1);
    cr_expect_eq(norm->attrs[STATOR_layer_norm_eps].f, 1e-5);
    cr_expect_eq(desc_of(&w, "iota")->attrs[STATOR_iota_dtype].i, STATOR_I64);
    const stator_attr_desc *k = &desc_of(&w, "trilu")->attrs[STATOR_trilu_k];
    cr_expect_eq(st_attr_default_list(k, list, 4, &n), 1);
    cr_expect_eq(n, 1);
    cr_expect_eq(list[0], 0);
    const stator_attr_desc *pad = &desc_of(&w, "conv_transpose")->attrs[4];
    cr_expect_eq(st_attr_default_list(pad, list, 4, &n), 1);
    cr_expect_eq(n, 0);
    /* none: absent for an int, a word for a string */
    cr_expect_eq(st_attr_default_is_absent(&desc_of(&w, "unique")->attrs[STATOR_unique_axis]), 1);
    cr_expect_eq(st_attr_default_is_absent(&desc_of(&w, "sdpa")->attrs[STATOR_sdpa_scale]), 1);
    const stator_attr_desc *reduction = &desc_of(&w, "scatter_nd")->attrs[0];
    cr_expect_eq(st_attr_default_is_absent(reduction), 0);
    cr_expect_str_eq(reduction->s, "none");
    cr_expect_str_eq(desc_of(&w, "lstm")->attrs[STATOR_lstm_activations].s, "");
    teardown(&w);
}

/* The counterpart for inference has the first operands by the same names, in the same order, and
 * one result; what becomes of statistics is a result new_NAME of an operand NAME. */
Test(optable, counterparts_for_inference)
{
    table_world w;
    uint32_t n = 0, found = 0;
    setup(&w);
    const st_op_def *defs = st_op_defs(&n);
    for (uint32_t i = 0; i < n; i++) {
        const st_op_def *def = &defs[i];
        if (def->inference == NULL) {
            continue;
        }
        const uint32_t op = st_optable_find(&w.ops, def->inference);
        cr_assert_neq(op, 0, "%s", def->name);
        const st_op_def *other = st_optable_at(&w.ops, op)->def;
        cr_expect_eq(strncmp(def->operands, other->operands, strlen(other->operands)), 0);
        cr_expect_eq(strchr(other->results, ','), NULL);
        for (uint32_t k = 1;; k++) {
            char mark = 0, name[48];
            uint32_t len = 0;
            const char *text = st_list_name(def->results, k, &len, &mark);
            if (text == NULL) {
                break;
            }
            (void)snprintf(name, sizeof name, "%.*s", (int)len, text);
            cr_expect(strncmp(name, "new_", 4) == 0 && st_list_has(def->statistics, name + 4),
                      "%s: %s", def->name, name);
        }
        found++;
    }
    cr_expect_eq(found, 1);
    teardown(&w);
}

Test(optable, operand_counts)
{
    table_world w;
    setup(&w);
    cr_expect_eq(desc_of(&w, "conv")->operand_min, 2);
    cr_expect_eq(desc_of(&w, "conv")->operand_max, 3);
    cr_expect_eq(desc_of(&w, "constant")->operand_max, 0);
    cr_expect_eq(desc_of(&w, "concat")->operand_min, 0);
    cr_expect_eq(desc_of(&w, "concat")->operand_max, UINT32_MAX);
    cr_expect_eq(desc_of(&w, "while")->operand_min, 2);
    cr_expect_eq(st_optable_find(&w.ops, "no_such_op"), 0);
    cr_expect_eq(st_optable_find(&w.ops, NULL), 0);
    teardown(&w);
}

/* torch.autocast for CPUs, PyTorch 2.13: operators with a kernel for the dispatch key AutocastCPU
 * that a row stands for (conv1d to conv3d: conv; cat and stack: concat; index_copy: the scatters;
 * mkldnn_rnn_layer: the recurrent nets). Of operators that are there for some ranks or modes only
 * (avg_pool3d, max_pool3d, reflection_pad2d) the rows say nothing. deform_conv and roi_align are
 * torchvision's, which computes them in f32. */
Test(optable, mixed_precision_is_that_of_pytorch)
{
    static const struct {
        uint64_t flag;
        const char *ops;
    } lists[] = {{STATOR_OP_AUTOCAST_LOW, "dot_general, conv, conv_transpose, prelu, matmul, "
                                          "einsum, sdpa, rnn, gru, lstm"},
                 {STATOR_OP_AUTOCAST_F32,
                  "reduce_prod, deform_conv, dft, mse_loss, l1_loss, huber_loss, bce_with_logits, "
                  "kl_div, nll_loss, cross_entropy, max_unpool, grid_sample, roi_align"},
                 {STATOR_OP_AUTOCAST_WIDEST, "concat, scatter_elements, scatter_nd"}};
    table_world w;
    setup(&w);
    for (uint32_t op = 1; op <= st_optable_count(&w.ops); op++) {
        const stator_op_desc *desc = &st_optable_at(&w.ops, op)->desc;
        for (uint32_t k = 0; k < 3; k++) {
            cr_expect_eq((desc->flags & lists[k].flag) != 0, st_list_has(lists[k].ops, desc->name),
                         "%s in list %u", desc->name, k);
        }
    }
    teardown(&w);
}

/* ---- ops of libraries ---- */

static stator_status infer_like_first(void *self, stator_builder *b, const stator_node_desc *node,
                                      stator_ref *out_types, uint32_t n_types, stator_diag **err)
{
    (void)self;
    (void)err;
    const stator_graph_view *v = st_build_api.view(b);
    for (uint32_t k = 0; k < n_types; k++) {
        out_types[k] = stator_value_at(v, node->operands[0])->type;
    }
    return STATOR_OK;
}

static const stator_attr_desc lib_attrs[] = {
    {.name = "power", .kind = STATOR_ATTR_INT, .i = 2, .is_required = 0}};

static stator_oplib_op lib_op(const char *name)
{
    return (stator_oplib_op){.desc = {.struct_size = sizeof(stator_op_desc),
                                      .name = name,
                                      .operands = "x, scale?",
                                      .results = "y",
                                      .doc = "a test op",
                                      .body = "pow(x, power)",
                                      .attrs = lib_attrs,
                                      .attr_count = 1},
                             .infer = infer_like_first};
}

Test(optable, library_ops)
{
    table_world w;
    stator_diag *err = NULL;
    setup(&w);
    const stator_oplib_op op = lib_op("test_power");
    cr_assert_eq(st_optable_add(&w.ops, "test", &op, NULL, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    const stator_op_desc *desc = desc_of(&w, "test_power");
    cr_expect_eq(desc->operand_min, 1);
    cr_expect_eq(desc->operand_max, 2);
    cr_expect((desc->flags & STATOR_OP_COMPOSITE) != 0);
    cr_expect_eq(st_optable_add(&w.ops, "test", &op, NULL, &err), STATOR_ALREADY_EXISTS);
    st_diag_release(err);
    teardown(&w);
}

Test(optable, wrong_library_ops_are_refused)
{
    table_world w;
    setup(&w);
    stator_oplib_op ops[11];
    for (uint32_t i = 0; i < 11; i++) {
        ops[i] = lib_op("fine_name");
    }
    ops[0].desc.name = "not a name";
    ops[1].desc.struct_size = 8;
    ops[2].infer = NULL;
    ops[3].desc.attr_count = 99;
    ops[4].desc.operands = NULL;
    ops[5].desc.name = NULL;
    ops[6].desc.results = "";
    ops[7].desc.results = "y?";
    ops[8].desc.flags = STATOR_OP_CONSTANT;
    ops[9].desc.flags = STATOR_OP_COMPOSITE;
    ops[9].desc.body = NULL;
    ops[10].desc.flags = STATOR_OP_AUTOCAST_LOW | STATOR_OP_AUTOCAST_F32;
    for (uint32_t i = 0; i < 11; i++) {
        stator_diag *err = NULL;
        cr_expect_eq(st_optable_add(&w.ops, "test", &ops[i], NULL, &err), STATOR_INVALID_ARGUMENT,
                     "%u", i);
        cr_expect_neq(strlen(st_diag_text(err)), 0);
        st_diag_release(err);
    }
    cr_expect_eq(st_optable_find(&w.ops, "fine_name"), 0);
    teardown(&w);
}

/* The whole table is there or nothing is. */
Test(optable, every_allocation_may_fail)
{
    st_mem mem;
    st_optable ops;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    cr_assert_eq(st_optable_init(&ops, &mem, NULL), STATOR_OK);
    const uint64_t requests = mem.requests;
    st_optable_deinit(&ops);
    for (uint64_t i = 1; i <= requests; i++) {
        stator_diag *err = NULL;
        st_mem_init(&mem, NULL, NULL, NULL, 0);
        mem.fail_at = i;
        const stator_status status = st_optable_init(&ops, &mem, &err);
        cr_expect_eq(status, STATOR_RESOURCE_EXHAUSTED, "request %llu gave %d",
                     (unsigned long long)i, status);
        cr_expect_eq(mem.live_blocks, 0);
        st_diag_release(err);
    }
}

/* ---- numbers ---- */

Test(optable, numbers_do_not_depend_on_the_locale)
{
    static const struct {
        const char *text;
        double value;
    } rows[] = {{"0", 0},
                {"-1", -1},
                {"0.01", 0.01},
                {"1e-5", 1e-5},
                {"1.5e3x", 1500},
                {"1.0507009873554805", 1.0507009873554805},
                {"6.28318530717958647692", 6.28318530717958647692},
                {"5.9604644775390625e-08", 0x1p-24},
                {"1e308", 1e308},
                {"1e-320", 1e-320},
                {"1e999", INFINITY},
                {"-inf", -INFINITY},
                {".5", 0.5}};
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double value = -7;
        const char *end = NULL;
        cr_expect_eq(st_parse_number(rows[i].text, &value, &end), 1, "%s", rows[i].text);
        cr_expect_eq(value, rows[i].value, "%s gave %.17g", rows[i].text, value);
    }
    double value = 0;
    const char *end = NULL;
    cr_expect_eq(st_parse_number("x", &value, &end), 0);
    cr_expect_eq(st_parse_number("", &value, &end), 0);
    cr_expect_eq(st_parse_number("-", &value, &end), 0);
}
