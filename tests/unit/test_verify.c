/* The verifier: graphs that the builder would not have let through, made by changing rows of good
 * ones; each must be refused with a text that names the place. */
#include "ir/verify.h"
#include "support_text.h"
#include <criterion/criterion.h>
#include <stator/ops.h>
#include <string.h>

static const char SOURCE[] =
    "stir 1\n"
    "sym N in [1, 64]\n"
    "graph @main(%x: f32[N, 3], param %w: f32[3] = {1, 2, 3}, %c: bool[]) {\n"
    "  %a = mul(%x, %w) @\"first\":Mul\n"
    "  %b = transpose(%a) {perm = [1, 0]}\n"
    "  %k = constant {value = f32[2] {1, 2}}\n"
    "  %n = nonzero(%x)\n"
    "  %d = cond(%c, %a)\n"
    "    region @then(%1: f32[N, 3]) { %2 = neg(%1) return %2 }\n"
    "    region @else(%1: f32[N, 3]) { %2 = exp(%1) return %2 }\n"
    "  %s = reshape(%b) {shape = [3, N]}\n"
    "  write %x = %d\n"
    "  return b: %s, n: %n, k: %k\n"
    "}\n";

enum { MUL = 1, TRANSPOSE, CONSTANT, NONZERO, COND, RESHAPE };

typedef struct world {
    text_world w;
    text_graph g;
} world;

static stator_node_row *node_of(world *w, uint32_t node)
{
    return st_seg_at(&w->g.graph->nodes, node);
}

static stator_value_row *value_of(world *w, uint32_t value)
{
    return st_seg_at(&w->g.graph->values, value);
}

static stator_attr_row *attr_of(world *w, uint32_t node, uint32_t place)
{
    return st_seg_at(&w->g.module->attrs, node_of(w, node)->attr_begin + place);
}

/* ---- one damage each ---- */

static void bad_op(world *w)
{
    node_of(w, MUL)->op = 9999;
}
static void forward_operand(world *w)
{
    const uint32_t refs[] = {node_of(w, TRANSPOSE)->result_begin, 2};
    node_of(w, MUL)->operand_begin = st_module_refs(w->g.module, refs, 2);
}
static void missing_operand(world *w)
{
    const uint32_t refs[] = {1, 0};
    node_of(w, MUL)->operand_begin = st_module_refs(w->g.module, refs, 2);
}
static void operands_out_of_pool(world *w)
{
    node_of(w, MUL)->operand_begin = UINT32_MAX - 1u;
}
static void operand_too_many(world *w)
{
    node_of(w, TRANSPOSE)->operand_count = 2;
}
static void attr_missing(world *w)
{
    node_of(w, TRANSPOSE)->attr_count = 0;
}
static void attr_kind(world *w)
{
    attr_of(w, TRANSPOSE, STATOR_transpose_perm)->kind = STATOR_ATTR_FLOAT;
}
static void attr_range(world *w)
{
    attr_of(w, TRANSPOSE, STATOR_transpose_perm)->begin = UINT32_MAX - 1u;
}
static void dims_ref(world *w)
{
    const uint32_t refs[] = {0, 1};
    attr_of(w, RESHAPE, STATOR_reshape_shape)->begin = st_module_refs(w->g.module, refs, 2);
}
static void blob_ref(world *w)
{
    attr_of(w, CONSTANT, STATOR_constant_value)->begin = 77;
}
static void blob_size(world *w)
{
    attr_of(w, CONSTANT, STATOR_constant_value)->i = value_of(w, 2)->type;
}
static void result_begin(world *w)
{
    node_of(w, TRANSPOSE)->result_begin++;
}
static void result_owner(world *w)
{
    value_of(w, node_of(w, TRANSPOSE)->result_begin)->node = MUL;
}
static void result_type(world *w)
{
    value_of(w, node_of(w, TRANSPOSE)->result_begin)->type = value_of(w, 1)->type;
}
static void type_ref(world *w)
{
    value_of(w, node_of(w, TRANSPOSE)->result_begin)->type = 0;
}
static void region_out_of_pool(world *w)
{
    node_of(w, COND)->region_begin = 1000;
}
static void region_is_itself(world *w)
{
    *(const stator_graph **)st_seg_at(&w->g.module->regions, node_of(w, COND)->region_begin) =
        w->g.graph;
}
static void region_operand(world *w)
{
    const stator_graph *region =
        *(stator_graph **)st_seg_at(&w->g.module->regions, node_of(w, COND)->region_begin);
    const uint32_t refs[] = {4};
    ((stator_node_row *)st_seg_at(&region->nodes, 1))->operand_begin =
        st_module_refs(w->g.module, refs, 1);
}
static void origin_ref(world *w)
{
    node_of(w, MUL)->origin = 5555;
}
static void input_flag(world *w)
{
    value_of(w, 2)->flags = STATOR_VALUE_INPUT;
}
static void write_back_value(world *w)
{
    ((stator_write_back_row *)st_seg_at(&w->g.graph->write_backs, 0))->value = 2;
}
static void write_back_flag(world *w)
{
    value_of(w, 1)->flags = STATOR_VALUE_INPUT;
}
static void output_ref(world *w)
{
    const uint32_t refs[] = {99, 1, 2};
    w->g.graph->output_begin = st_module_refs(w->g.module, refs, 3);
}
static void not_finished(world *w)
{
    w->g.graph->is_finished = 0;
}
static void dropped_node(world *w)
{
    st_seg_truncate(&w->g.graph->nodes, RESHAPE);
}
/* `reshape` to the count of nonzero before nonzero ran: an undefined size. */
static void size_before_definition(world *w)
{
    st_module *m = w->g.module;
    const stator_type_row *t =
        st_seg_at(&m->types, value_of(w, node_of(w, NONZERO)->result_begin)->type);
    const uint32_t count = *(const uint32_t *)st_seg_at(&m->refs, t->dims_begin + 1u);
    const uint32_t refs[] = {count, count};
    attr_of(w, RESHAPE, STATOR_reshape_shape)->begin = st_module_refs(m, refs, 2);
    stator_node_row swap = *node_of(w, NONZERO);
    node_of(w, NONZERO)->op = node_of(w, MUL)->op;
    node_of(w, NONZERO)->operand_begin = node_of(w, MUL)->operand_begin;
    node_of(w, NONZERO)->operand_count = 2;
    value_of(w, swap.result_begin)->type = value_of(w, node_of(w, MUL)->result_begin)->type;
}

/* clang-format off */
static const struct {
    void (*damage)(world *w);
    const char *text;
} cases[] = {
    {bad_op, "op id 9999"},
    {forward_operand, "node 1 (mul): operand 0 ('x') is value 5"},
    {missing_operand, "operand 1 ('y') is missing"},
    {operands_out_of_pool, "operands"},
    {operand_too_many, "operands"},
    {attr_missing, "node 2 (transpose): has 0 attributes, its schema 1"},
    {attr_kind, "attribute 'perm' has kind 2"},
    {attr_range, "attribute 'perm': its list is out of range"},
    {dims_ref, "attribute 'shape': element 0 is no size"},
    {blob_ref, "blob or type does not exist"},
    {blob_size, "not as large"},
    {result_begin, "has results"},
    {result_owner, "not marked as its result"},
    {result_type, "result 0 is f32[N, 3], its infer rule gives f32[3, N]"},
    {type_ref, "type 0 does not exist"},
    {region_out_of_pool, "regions"},
    {region_is_itself, "region 0 is not a finished graph"},
    {region_operand, "graph 'then', node 1 (neg): operand 0 ('x') is value 4"},
    {origin_ref, "origin 5555"},
    {input_flag, "not marked as input 1"},
    {write_back_value, "write-back 0 has another type"},
    {write_back_flag, "write-back 0"},
    {output_ref, "output 0 is value 99"},
    {not_finished, "not finished"},
    {dropped_node, "has 9 values, its nodes make 8"},
    {size_before_definition, "which no earlier node defines"},
};
/* clang-format on */

static void begin(world *w)
{
    stator_diag *err = NULL;
    text_world_init(&w->w);
    cr_assert_eq(text_read(&w->w, SOURCE, strlen(SOURCE), NULL, NULL, &w->g, &err), STATOR_OK, "%s",
                 st_diag_text(err));
}

static void end(world *w)
{
    text_graph_free(&w->g);
    text_world_deinit(&w->w);
}

Test(verify, good_graphs_pass)
{
    world w;
    stator_diag *err = NULL;
    begin(&w);
    cr_assert_eq(st_verify(w.g.graph, &err), STATOR_OK, "%s", st_diag_text(err));
    const uint32_t n_symbols = w.g.module->symtab.n_symbols;
    cr_assert_eq(st_verify(w.g.graph, &err), STATOR_OK);
    cr_assert_eq(w.g.module->symtab.n_symbols, n_symbols, "verifying makes no symbols");
    end(&w);
}

Test(verify, every_damage_is_refused_with_its_name)
{
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        world w;
        stator_diag *err = NULL;
        begin(&w);
        cases[i].damage(&w);
        st_graph_refresh(w.g.graph);
        cr_assert_eq(st_verify(w.g.graph, &err), STATOR_INVALID_ARGUMENT, "case %u (%s) passed", i,
                     cases[i].text);
        cr_assert_not_null(strstr(st_diag_text(err), cases[i].text), "'%s' is not in '%s'",
                           cases[i].text, st_diag_text(err));
        st_diag_release(err);
        end(&w);
    }
}

Test(verify, refusal_names_the_origin)
{
    world w;
    stator_diag *err = NULL;
    begin(&w);
    missing_operand(&w);
    cr_assert_eq(st_verify(w.g.graph, &err), STATOR_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(st_diag_text(err), "first"), "%s", st_diag_text(err));
    st_diag_release(err);
    end(&w);
}

Test(verify, every_allocation_may_fail)
{
    world w;
    begin(&w);
    for (uint64_t n = 1;; n++) {
        stator_diag *err = NULL;
        w.w.mem.requests = 0;
        w.w.mem.fail_at = n;
        const stator_status status = st_verify(w.g.graph, &err);
        w.w.mem.fail_at = 0;
        st_diag_release(err);
        if (status == STATOR_OK) {
            cr_assert_gt(n, 3);
            break;
        }
    }
    end(&w);
}
