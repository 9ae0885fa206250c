/* The expression language: what programs build, and the texts that refuse wrong ones. Good programs
 * are compared through the printed graph: the nodes in order, without numbers and types. */
#include "core/base/check.h"
#include "support_text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* The operands that every program sees. */
static const char *const operand_names[] = {"x",  "y",  "i",  "h", "b", "absent",
                                            "xs", "xs", "xs", "n", "t"};
#define OPERANDS ((uint32_t)(sizeof operand_names / sizeof operand_names[0]))

typedef struct expr_world {
    text_world w;
    st_module *m;
    stator_builder *b;
    stator_ref values[OPERANDS];
} expr_world;

static stator_ref add_input(expr_world *e, const char *name, stator_dtype dtype, uint32_t rank,
                            const stator_ref *dims)
{
    stator_ref value = 0;
    stator_diag *err = NULL;
    cr_assert_eq(st_build_input(e->b, name, st_module_type(e->m, dtype, rank, dims), &value, &err),
                 STATOR_OK, "%s", st_diag_text(err));
    return value;
}

static void expr_setup(expr_world *e)
{
    stator_diag *err = NULL;
    text_world_init(&e->w);
    cr_assert_eq(st_module_create(&e->w.mem, NULL, &e->w.ops, &e->m, &err), STATOR_OK);
    cr_assert_eq(st_builder_create(e->m, "g", &e->b, &err), STATOR_OK);
    st_symtab *tab = &e->m->symtab;
    const stator_ref n = st_sym_symbol(tab, st_module_string(e->m, "N", 1), 1, 64, 1, 0);
    const stator_ref two = st_sym_int(tab, 2), three = st_sym_int(tab, 3);
    const stator_ref xd[2] = {two, three}, nd[2] = {n, three};
    e->values[0] = add_input(e, "x", STATOR_F32, 2, xd);
    e->values[1] = add_input(e, "y", STATOR_F32, 2, xd);
    e->values[2] = add_input(e, "i", STATOR_I32, 1, &three);
    e->values[3] = add_input(e, "h", STATOR_F16, 2, xd);
    e->values[4] = add_input(e, "b", STATOR_BOOL, 2, xd);
    e->values[5] = 0;
    e->values[6] = e->values[0];
    e->values[7] = e->values[1];
    e->values[8] = e->values[0];
    e->values[9] = add_input(e, "n", STATOR_F32, 2, nd);
    e->values[10] = add_input(e, "t", STATOR_I64, 1, &two);
}

static void expr_teardown(expr_world *e)
{
    st_builder_abort(e->b);
    st_module_destroy(e->m);
    text_world_deinit(&e->w);
}

static stator_status run(expr_world *e, const char *program, uint32_t n_out, stator_ref *out,
                         stator_diag **err)
{
    static const int64_t axes[2] = {0, 1};
    static const double scales[2] = {1.5, 2};
    const stator_attr attrs[] = {
        {.name = "axis", .kind = STATOR_ATTR_INT, .i = -1},
        {.name = "alpha", .kind = STATOR_ATTR_FLOAT, .f = 0.25},
        {.name = "mode", .kind = STATOR_ATTR_STRING, .s = "tanh"},
        {.name = "to", .kind = STATOR_ATTR_DTYPE, .i = STATOR_F64},
        {.name = "axes", .kind = STATOR_ATTR_INTS, .count = 2, .list = axes},
        {.name = "scales", .kind = STATOR_ATTR_FLOATS, .count = 2, .list = scales},
        {.name = "missing", .kind = STATOR_ATTR_NONE},
    };
    return st_build_expr(e->b, program, OPERANDS, operand_names, e->values, 7, attrs, n_out, out,
                         err);
}

/* "mul(x, constant f32 2) : f32[2, 3]" and so on: text of a value as a tree. */
static void describe(const expr_world *e, stator_ref value, st_str *out)
{
    const stator_graph_view *v = st_graph_view(e->b->graph);
    const stator_value_row *row = stator_value_at(v, value);
    double splat = 0;
    if (row->node == 0) {
        st_str_add(out, stator_string_at(v, row->name));
        return;
    }
    const stator_node_row *node = stator_node_at(v, row->node);
    if (strcmp(stator_op_at(v, node->op)->name, "constant") == 0 &&
        st_value_is_splat(e->b->graph, value, &splat)) {
        st_str_addf(out, "%s %g", st_dtype_name(stator_value_type(v, value)->dtype), splat);
        return;
    }
    st_str_addf(out, "%s%s(", stator_op_at(v, node->op)->name, row->index ? "'" : "");
    for (uint32_t k = 0; k < node->operand_count; k++) {
        st_str_add(out, k ? ", " : "");
        if (stator_operand(v, node, k) != 0) {
            describe(e, stator_operand(v, node, k), out);
        }
    }
    st_str_add(out, ")");
}

static const char *describe_all(const expr_world *e, const stator_ref *values, uint32_t n,
                                char buf[512])
{
    st_str text;
    st_str_init(&text, e->m->mem);
    for (uint32_t i = 0; i < n; i++) {
        st_str_add(&text, i ? "; " : "");
        describe(e, values[i], &text);
        st_str_add(&text, " : ");
        st_module_print_type(e->m, stator_value_at(st_graph_view(e->b->graph), values[i])->type,
                             &text);
    }
    (void)snprintf(buf, 512, "%s", text.data);
    st_str_deinit(&text);
    return buf;
}

/* clang-format off */
static const struct {
    const char *program;
    uint32_t n_out;
    const char *tree;
} programs[] = {
    {"x", 1, "x : f32[2, 3]"},
    {"x + y * 2", 1, "add(x, mul(y, f32 2)) : f32[2, 3]"},
    {"(x + y) * 2", 1, "mul(add(x, y), f32 2) : f32[2, 3]"},
    {"x - y - 1", 1, "sub(sub(x, y), f32 1) : f32[2, 3]"},
    {"-x / 4", 1, "div(neg(x), f32 4) : f32[2, 3]"},
    {"2 * h", 1, "mul(f16 2, h) : f16[2, 3]"},
    {"i % 3 + 0xff", 1, "add(mod(i, i32 3), i32 255) : i32[3]"},
    {"x < 0", 1, "lt(x, f32 0) : bool[2, 3]"},
    {"x >= y", 1, "ge(x, y) : bool[2, 3]"},
    {"x != 1", 1, "ne(x, f32 1) : bool[2, 3]"},
    {"b == true", 1, "eq(b, bool 1) : bool[2, 3]"},
    {"select(b, x, 0)", 1, "select(b, x, f32 0) : f32[2, 3]"},
    {"select(b, 1, x)", 1, "select(b, f32 1, x) : f32[2, 3]"},
    {"a = exp(x); a * a", 1, "mul(exp(x), exp(x)) : f32[2, 3]"},
    {"x = x + 1; x = x * 2; x", 1, "mul(add(x, f32 1), f32 2) : f32[2, 3]"},
    {"v, k = sort(x, axis=1); k, v", 2, "sort'(x) : i64[2, 3]; sort(x) : f32[2, 3]"},
    {"sort(x)", 2, "sort(x) : f32[2, 3]; sort'(x) : i64[2, 3]"},
    {"first(sort(x))", 1, "sort(x) : f32[2, 3]"},
    {"sort(x)[1]", 1, "sort'(x) : i64[2, 3]"},
    {"u, j, k = layer_norm(x); k", 1, "layer_norm'(x) : f32[2, 1]"},
    {"mode == 'tanh' ? tanh(x) : erf(x)", 1, "tanh(x) : f32[2, 3]"},
    {"mode == \"none\" ? tanh(x) : erf(x)", 1, "erf(x) : f32[2, 3]"},
    {"axis < 0 && rank(x) == 2 ? x : no_such", 1, "x : f32[2, 3]"},
    {"!has(absent) || no_such ? x : y", 1, "x : f32[2, 3]"},
    {"has(missing) ? y : has(unbound) ? y : x", 1, "x : f32[2, 3]"},
    {"is_float(h) && !is_int(h) && is_int(i) && is_bool(b) ? x : y", 1, "x : f32[2, 3]"},
    {"dtype(h) == f16 ? x : y", 1, "x : f32[2, 3]"},
    {"dtype(h) != dtype(x) ? x : y", 1, "x : f32[2, 3]"},
    {"missing == none ? x : y", 1, "x : f32[2, 3]"},
    {"axes == [0, 1] ? x : y", 1, "x : f32[2, 3]"},
    {"cast(x, dtype=to)", 1, "cast(x) : f64[2, 3]"},
    {"cast(x, f32)", 1, "x : f32[2, 3]"},
    {"cast(x, h)", 1, "cast(x) : f16[2, 3]"},
    {"cast(x, dtype=i8, saturate=0)", 1, "cast(x) : i8[2, 3]"},
    {"wide(h)", 1, "cast(h) : f32[2, 3]"},
    {"wide(i)", 1, "i : i32[3]"},
    {"reduce_sum(x, axes=axes) / count(x, axes)", 1, "div(reduce_sum(x), f32 6) : f32[]"},
    {"reduce_sum(n, axes=[0]) / count(n, 0)", 1, "div(reduce_sum(n), cast(dims())) : f32[3]"},
    {"x * dim(x, -1)", 1, "mul(x, f32 3) : f32[2, 3]"},
    {"n * dim(n, 0)", 1, "mul(n, cast(dims())) : f32[N, 3]"},
    {"dim(n, 0)", 1, "dims() : i64[]"},
    {"dim(n, 0) * 2 + 1 > 1 ? x : y", 1, "x : f32[2, 3]"},
    {"reshape(n, shape=[dim(n, 0) * 3])", 1, "reshape(n) : f32[3*N]"},
    {"reshape(x, shape=[numel(x)])", 1, "reshape(x) : f32[6]"},
    {"reshape(x, shape=[1] + shape(x) + [1])", 1, "reshape(x) : f32[1, 2, 3, 1]"},
    {"reshape(x, shape=[product(shape(x)[0:1]), dim(x, 1)])", 1, "reshape(x) : f32[2, 3]"},
    {"expand(x, shape=repeat(2, 2) + shape(x)[1:])", 1, "expand(x) : f32[2, 2, 3]"},
    {"transpose(x, perm=reverse(range(0, rank(x))))", 1, "transpose(x) : f32[3, 2]"},
    {"reduce_sum(x, axes=axes[1:2])", 1, "reduce_sum(x) : f32[2]"},
    {"reduce_sum(x, axes=axes[-1])", 1, "reduce_sum(x) : f32[2]"},
    {"squeeze(unsqueeze(x, [0, 3]), [0, -1])", 1, "reshape(reshape(x)) : f32[2, 3]"},
    {"unsqueeze(x, 1)", 1, "reshape(x) : f32[2, 1, 3]"},
    {"zeros_like(x)", 1, "expand(f32 0) : f32[2, 3]"},
    {"ones_like(i)", 1, "expand(i32 1) : i32[3]"},
    {"full_like(x, -inf)", 1, "expand(f32 -inf) : f32[2, 3]"},
    {"scalar(0.5, f64)", 1, "f64 0.5 : f64[]"},
    {"scalar(2, i)", 1, "i32 2 : i32[]"},
    {"scalar(dim(n, 0), f32)", 1, "cast(dims()) : f32[]"},
    {"concat(xs, axis=0)", 1, "concat(x, y, x) : f32[6, 3]"},
    {"fold('add', xs)", 1, "add(add(x, y), x) : f32[2, 3]"},
    {"fold('max', x)", 1, "x : f32[2, 3]"},
    {"len(xs) == 3 ? xs[1] : x", 1, "y : f32[2, 3]"},
    {"clamp(x, absent, 1)", 1, "clamp(x, , f32 1) : f32[2, 3]"},
    {"max(min(x, 6), 0)", 1, "max(min(x, f32 6), f32 0) : f32[2, 3]"},
    {"x * max(1, 3) + min(2.5, 7)", 1, "add(mul(x, f32 3), f32 2.5) : f32[2, 3]"},
    {"x * (alpha * 4 - 0.5)", 1, "mul(x, f32 0.5) : f32[2, 3]"},
    {"x * (7 % 4) * floordiv(7, 2) * ceildiv(7, 2)", 1, "mul(mul(mul(x, f32 3), f32 3), f32 4) : f32[2, 3]"},
    {"x * scales[0]", 1, "mul(x, f32 1.5) : f32[2, 3]"},
    {"axis(axis, x) == 1 ? x : y", 1, "x : f32[2, 3]"},
    {"expand(x, shape=each('*', shape(x), [1, 1]))", 1, "expand(x) : f32[2, 3]"},
    {"pad(x, low=each('-', [3, 3], 2), high=[0, 0])", 1, "pad(x) : f32[3, 4]"},
    {"dims(values=shape(n))", 1, "dims() : i64[2]"},
    {"softmax(x, axis=missing)", 1, "softmax(x) : f32[2, 3]"},
    {"iota(shape=4, axis=0, dtype=i32)", 1, "iota() : i32[4]"},
    {"topk(x, k=2)", 2, "topk(x) : f32[2, 2]; topk'(x) : i64[2, 2]"},
    {"reshape(scalar(1, x), shape=repeat(1, bits(x) / 16));", 1, "reshape(f32 1) : f32[1, 1]"},
};

static const struct {
    const char *program;
    const char *error;
} wrong[] = {
    {"", "column 1: expected a name, a number, a string, '(' or '[', the program ends here"},
    {"x +", "column 4: expected a name"},
    {"x + + )", "found ')'"},
    {"max(x, y", "column 9: expected ',' or ')'"},
    {"x y", "column 3: expected ';' or the end, found 'y'"},
    {"a = x", "expected results after the last assignment"},
    {"x; y", "expected the end: results are the last statement"},
    {"x ? y", "expected ':' of the '?'"},
    {"[1, 2", "expected ',' or ']'"},
    {"softmax(axis=1, x)", "operands stand before attributes"},
    {"x @ y", "found '@'"},
    {"'abc", "expected a name"},
    {"z + 1", "column 1: nothing is named 'z'"},
    {"alfa * x", "did you mean 'alpha'?"},
    {"sofmax(x)", "no op or function is named 'sofmax'; did you mean 'softmax'?"},
    {"absent + 1", "operand 'absent' is absent; ask has(...) first"},
    {"exp(absent)", "operand 0 ('x') is missing"},
    {"x ? y : x", "the condition is a tensor"},
    {"mode ? y : x", "the condition is a string, expected a truth value"},
    {"dim(n, 0) == 3 ? x : y", "cannot be compared before the program runs"},
    {"i * 0.5", "the number 0.5 has no exact value in dtype i32"},
    {"cast(i, u8) + 256", "the number 256 has no exact value in dtype u8"},
    {"1.5", "the number has no dtype here; write scalar(number, dtype)"},
    {"max(1, 2)", "the number has no dtype here"},
    {"x * (7 / 2)", "7 / 2 is no integer"},
    {"x * (1 % 0)", "division by zero"},
    {"x * (0.5 * dim(n, 0))", "write scalar(size, dtype)"},
    {"x + mode", "'+' does not take a tensor and a string"},
    {"softmax(x, axes=[1])", "op softmax has no attribute 'axes'"},
    {"softmax(x, axis=0.5)", "attribute 'axis' must be an integer, found a float"},
    {"softmax(x, axis=dim(n, 0))", "found a size that is not known when the graph is built"},
    {"reduce_sum(x, axes=['a'])", "attribute 'axes' must be a list of integers, found a string"},
    {"gelu(x, approximate=1)", "must be a string, found an integer"},
    {"cast(x, dtype=2)", "cast: argument 2 is an integer, expected a tensor"},
    {"softmax(x, axis=5)", "softmax: axis 5 is outside"},
    {"a, c = exp(x); a", "op exp gives at most 1 results, 2 wanted"},
    {"x, y", "the program gives 2 results, 1 are wanted"},
    {"sort(x)", "the program gives 2 results, 1 are wanted"},
    {"axes[2]", "index 2 is outside a list of 2"},
    {"x[0]", "only lists and tuples have items, found a tensor"},
    {"axes[0.5]", "an index must be an integer, found a float"},
    {"rank(1)", "rank: argument 1 is an integer, expected a tensor"},
    {"rank(x, y)", "rank takes 1 arguments, found 2"},
    {"rank(x=x)", "rank takes no attribute 'x'"},
    {"dim(x, 2)", "dim: argument 2 is 2, expected -2 to 1"},
    {"squeeze(x, 0)", "squeeze: axis 0 has size 2, expected 1"},
    {"unsqueeze(x, [0, 0])", "an axis is named twice"},
    {"count(x, 3)", "axes must be integers in [-2, 2)"},
    {"each('+', [1], [1, 2])", "lists of one length"},
    {"cond(b)", "op cond has regions, which programs cannot write"},
    {"!x ? x : y", "the condition is a tensor"},
    {"fold(add, xs)", "nothing is named 'add'"},
};
/* clang-format on */

Test(expr, programs)
{
    for (uint32_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        expr_world e;
        stator_ref out[4] = {0};
        stator_diag *err = NULL;
        char text[512];
        expr_setup(&e);
        const stator_status status = run(&e, programs[i].program, programs[i].n_out, out, &err);
        cr_expect_eq(status, STATOR_OK, "%s: %s", programs[i].program, st_diag_text(err));
        if (status == STATOR_OK) {
            cr_expect_str_eq(describe_all(&e, out, programs[i].n_out, text), programs[i].tree, "%s",
                             programs[i].program);
        }
        st_diag_release(err);
        expr_teardown(&e);
    }
}

Test(expr, wrong_programs_say_where_and_what)
{
    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        expr_world e;
        stator_ref out[4] = {0};
        stator_diag *err = NULL;
        expr_setup(&e);
        cr_expect_eq(run(&e, wrong[i].program, 1, out, &err), STATOR_INVALID_ARGUMENT, "%s",
                     wrong[i].program);
        cr_expect_not_null(strstr(st_diag_text(err), wrong[i].error), "%s\n  got  %s\n  want %s",
                           wrong[i].program, st_diag_text(err), wrong[i].error);
        st_diag_release(err);
        expr_teardown(&e);
    }
}

/* Deep and long programs fail with a text instead of using up the stack. */
Test(expr, nesting_is_bounded)
{
    static const char *const openers[] = {"(", "-", "[", "exp(", "1 + (", "x ? x : ", "!"};
    for (uint32_t i = 0; i < sizeof openers / sizeof openers[0]; i++) {
        expr_world e;
        st_str text;
        stator_ref out = 0;
        stator_diag *err = NULL;
        expr_setup(&e);
        st_str_init(&text, e.m->mem);
        for (uint32_t k = 0; k < 100000; k++) {
            st_str_add(&text, openers[i]);
        }
        st_str_add(&text, "x");
        cr_expect_eq(run(&e, text.data, 1, &out, &err), STATOR_INVALID_ARGUMENT);
        cr_expect_not_null(strstr(st_diag_text(err), "less nesting"), "%s: %.300s", openers[i],
                           st_diag_text(err));
        st_diag_release(err);
        st_str_deinit(&text);
        expr_teardown(&e);
    }
}

Test(expr, long_chains_are_bounded)
{
    expr_world e;
    st_str text;
    stator_ref out = 0;
    stator_diag *err = NULL;
    expr_setup(&e);
    st_str_init(&text, e.m->mem);
    st_str_add(&text, "x");
    for (uint32_t k = 0; k < 100000; k++) {
        st_str_add(&text, "+x");
    }
    cr_expect_eq(run(&e, text.data, 1, &out, &err), STATOR_INVALID_ARGUMENT);
    st_diag_release(err);
    st_str_deinit(&text);
    expr_teardown(&e);
}

/* What a small tensor is known to hold becomes sizes; the rest becomes run-time symbols. */
Test(expr, known_elements_of_small_tensors_become_sizes)
{
    expr_world e;
    stator_ref out = 0;
    stator_diag *err = NULL;
    char text[512];
    expr_setup(&e);
    cr_assert_eq(run(&e, "reshape(n, shape=ints(dims(values=[3, dim(n, 0)])))", 1, &out, &err),
                 STATOR_OK, "%s", st_diag_text(err));
    cr_expect_str_eq(describe_all(&e, &out, 1, text), "reshape(n) : f32[3, N]");
    cr_assert_eq(run(&e, "expand(scalar(1, f32), shape=ints(t))", 1, &out, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    const stator_graph_view *v = st_graph_view(e.b->graph);
    const stator_type_row *type = stator_value_type(v, out);
    cr_expect_eq(type->rank, 2);
    cr_expect_neq(st_sym_as_symbol(&e.m->symtab, stator_dim_at(v, type, 0)), 0);
    expr_teardown(&e);
}

/* Any request for memory may fail: a status, and nothing is left behind. */
Test(expr, every_allocation_may_fail)
{
    const char *program = "a = shape(x)[0:1] + [dim(n, 0)]; s, k = sort(x * 0.5 + y); "
                          "mode == 'tanh' ? expand(scalar(1, f32), shape=a) : s";
    for (uint64_t i = 1; i < 200; i++) {
        expr_world e;
        stator_ref out = 0;
        stator_diag *err = NULL;
        expr_setup(&e);
        e.w.mem.fail_at = e.w.mem.requests + i;
        const stator_status status = run(&e, program, 1, &out, &err);
        e.w.mem.fail_at = 0;
        cr_expect(status == STATOR_OK || status == STATOR_RESOURCE_EXHAUSTED ||
                      status == STATOR_INVALID_ARGUMENT,
                  "request %llu gave %d: %s", (unsigned long long)i, status, st_diag_text(err));
        st_diag_release(err);
        expr_teardown(&e);
        if (status == STATOR_OK) {
            cr_expect_gt(i, 1u);
            return;
        }
    }
    cr_expect_fail("the program needs more than 200 requests");
}
