/* Evaluation of expression programs: names, operators, lists, statements (docs/expr.md).
 *
 * In: a program, named operands and attributes. Out: nodes in a builder and the values of the
 * results. Numbers, sizes, strings, dtypes and lists exist at build time only; arithmetic on
 * tensors makes nodes. Of `c ? a : b` only the chosen branch is evaluated. Recursion is bounded by
 * EVAL_DEPTH_MAX. */
#include "ir/expr/expr_eval.h"

#include "core/base/check.h"
#include "core/base/str.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define EVAL_DEPTH_MAX 512u
#define LOCALS_MAX 256u

stator_status st_xfail(const st_xeval *e, const st_expr_node *node, const char *format, ...)
{
    char text[320];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return st_expr_fail(e->err, e->in->program, node->column, "%s", text);
}

stator_status st_xop(st_xeval *e, const char *op, uint32_t n, const stator_ref *operands,
                     uint32_t n_attrs, const stator_attr *attrs, stator_ref *out)
{
    return st_build_op(e->b, op, n, operands, n_attrs, attrs, 1, out, e->err);
}

/* ---- names ---- */

static bool find_operand(st_xeval *e, const char *name, st_xvalue *out)
{
    uint32_t count = 0, last = 0;
    for (uint32_t i = 0; i < e->in->n_names; i++) {
        if (strcmp(e->in->names[i], name) == 0) {
            count++;
            last = i;
        }
    }
    if (count < 2) {
        *out = st_xtensor(count ? e->in->values[last] : 0);
        return count == 1;
    }
    st_xvalue *items = st_xitems(e, count);
    uint32_t n = 0;
    for (uint32_t i = 0; items != NULL && i < e->in->n_names; i++) {
        if (strcmp(e->in->names[i], name) == 0) {
            items[n++] = st_xtensor(e->in->values[i]);
        }
    }
    *out = (st_xvalue){.kind = ST_X_TUPLE, .items = items, .n = n};
    return true;
}

static bool find_word(const char *name, st_xvalue *out)
{
    const uint32_t dtype = st_dtype_parse(name, strlen(name));
    if (dtype != STATOR_DTYPE_NONE) {
        *out = (st_xvalue){.kind = ST_X_DTYPE, .i = dtype};
    } else if (strcmp(name, "true") == 0 || strcmp(name, "false") == 0) {
        *out = st_xbool(name[0] == 't');
    } else if (strcmp(name, "none") == 0) {
        *out = (st_xvalue){.kind = ST_X_NONE};
    } else if (strcmp(name, "inf") == 0) {
        *out = st_xfloat((double)INFINITY);
    } else if (strcmp(name, "nan") == 0) {
        *out = st_xfloat((double)NAN);
    } else {
        return false;
    }
    return true;
}

/* Locals (newest first), operands, attributes, then words of the language. */
static bool find_name(st_xeval *e, const char *name, st_xvalue *out)
{
    for (uint32_t i = e->n_locals; i-- > 0;) {
        if (strcmp(e->locals[i].name, name) == 0) {
            *out = e->locals[i].value;
            return true;
        }
    }
    if (find_operand(e, name, out)) {
        return true;
    }
    for (uint32_t i = 0; i < e->in->n_attrs; i++) {
        if (strcmp(e->in->attrs[i].name, name) == 0) {
            *out = st_xfrom_attr(e, &e->in->attrs[i]);
            return true;
        }
    }
    return find_word(name, out);
}

static stator_status unknown_name(st_xeval *e, const st_expr_node *node)
{
    const char *candidates[640];
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->n_locals; i++) {
        candidates[n++] = e->locals[i].name;
    }
    for (uint32_t i = 0; i < e->in->n_names && n < 512; i++) {
        candidates[n++] = e->in->names[i];
    }
    for (uint32_t i = 0; i < e->in->n_attrs && n < 640; i++) {
        candidates[n++] = e->in->attrs[i].name;
    }
    const char *near = st_nearest(node->text, candidates, n);
    return near ? st_xfail(e, node, "nothing is named '%s'; did you mean '%s'?", node->text, near)
                : st_xfail(e, node, "nothing is named '%s'", node->text);
}

/* ---- operators ---- */

static stator_status need_node(const st_xeval *e, const st_expr_node *node, const st_xvalue *v)
{
    ST_XFAIL_IF(v->kind == ST_X_TENSOR && v->ref == 0, e, node,
                "operand '%s' is absent; ask has(...) first", node->text ? node->text : "");
    return STATOR_OK;
}

static stator_status tensor_binary(st_xeval *e, const st_expr_node *node, const char *op,
                                   const st_xvalue *a, const st_xvalue *b, st_xvalue *out)
{
    const st_xvalue *both[2] = {a, b};
    stator_ref refs[2] = {0, 0}, z = 0;
    ST_TRY(need_node(e, node->kids[0], a));
    ST_TRY(need_node(e, node->kids[1], b));
    const st_xvalue *typed = a->kind == ST_X_TENSOR ? a : b;
    const stator_dtype dtype = st_xtype(e, typed->ref)->dtype;
    for (uint32_t i = 0; i < 2; i++) {
        ST_TRY(st_xto_tensor(e, node->kids[i], both[i], dtype, false, &refs[i]));
    }
    ST_TRY(st_xop(e, op, 2, refs, 0, NULL, &z));
    *out = st_xtensor(z);
    return STATOR_OK;
}

static const char *op_of_punct(const char *punct)
{
    static const char *const table[][2] = {{"+", "add"}, {"-", "sub"}, {"*", "mul"}, {"/", "div"},
                                           {"%", "mod"}, {"==", "eq"}, {"!=", "ne"}, {"<", "lt"},
                                           {"<=", "le"}, {">", "gt"},  {">=", "ge"}};
    for (uint32_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i][0], punct) == 0) {
            return table[i][1];
        }
    }
    return NULL;
}

static bool is_comparison(const char *op)
{
    return op[0] == '<' || op[0] == '>' || op[0] == '=' || op[0] == '!';
}

static stator_status join_lists(st_xeval *e, const st_xvalue *a, const st_xvalue *b, st_xvalue *out)
{
    st_xvalue *items = st_xitems(e, a->n + b->n);
    ST_TRY_MEM(items, e->err);
    memcpy(items, a->items, a->n * sizeof *items);
    memcpy(items + a->n, b->items, b->n * sizeof *items);
    *out = (st_xvalue){.kind = a->kind, .items = items, .n = a->n + b->n};
    return STATOR_OK;
}

static stator_status truth(st_xeval *e, const st_expr_node *node, bool *out)
{
    st_xvalue v;
    ST_TRY(st_xeval_node(e, node, 1, &v));
    *out = v.i != 0;
    ST_XFAIL_IF(v.kind == ST_X_TENSOR, e, node,
                "the condition is a tensor, which is not known when the graph is "
                "built; write select(condition, a, b)");
    ST_XFAIL_IF(v.kind != ST_X_BOOL && v.kind != ST_X_INT, e, node,
                "the condition is %s, expected a truth value", st_xkind_name(&v));
    return STATOR_OK;
}

static stator_status eval_logic(st_xeval *e, const st_expr_node *node, st_xvalue *out)
{
    bool a = false, b = false;
    ST_TRY(truth(e, node->kids[0], &a));
    if (a == (node->op[0] == '|')) {
        *out = st_xbool(a);
        return STATOR_OK;
    }
    ST_TRY(truth(e, node->kids[1], &b));
    *out = st_xbool(b);
    return STATOR_OK;
}

static stator_status eval_binary(st_xeval *e, const st_expr_node *node, st_xvalue *out)
{
    st_xvalue a, b;
    if (node->op[0] == '&' || node->op[0] == '|') {
        return eval_logic(e, node, out);
    }
    ST_TRY(st_xeval_node(e, node->kids[0], 1, &a));
    ST_TRY(st_xeval_node(e, node->kids[1], 1, &b));
    if ((a.kind == ST_X_TENSOR || b.kind == ST_X_TENSOR) &&
        (a.kind == ST_X_TENSOR || st_xis_number(&a)) &&
        (b.kind == ST_X_TENSOR || st_xis_number(&b))) {
        return tensor_binary(e, node, op_of_punct(node->op), &a, &b, out);
    }
    if (is_comparison(node->op)) {
        return st_xcompare(e, node, node->op, &a, &b, out);
    }
    if (a.kind == b.kind && a.kind == ST_X_LIST && node->op[0] == '+') {
        return join_lists(e, &a, &b, out);
    }
    ST_XFAIL_IF(!st_xis_number(&a) || !st_xis_number(&b), e, node, "'%s' does not take %s and %s",
                node->op, st_xkind_name(&a), st_xkind_name(&b));
    return st_xarith(e, node, node->op, &a, &b, out);
}

static stator_status eval_unary(st_xeval *e, const st_expr_node *node, st_xvalue *out)
{
    st_xvalue v;
    bool flag = false;
    if (node->op[0] == '!') {
        ST_TRY(truth(e, node->kids[0], &flag));
        *out = st_xbool(!flag);
        return STATOR_OK;
    }
    ST_TRY(st_xeval_node(e, node->kids[0], 1, &v));
    if (node->op[0] == '+') {
        *out = v;
        return STATOR_OK;
    }
    if (v.kind == ST_X_TENSOR) {
        stator_ref y = 0;
        ST_TRY(need_node(e, node->kids[0], &v));
        ST_TRY(st_xop(e, "neg", 1, &v.ref, 0, NULL, &y));
        *out = st_xtensor(y);
        return STATOR_OK;
    }
    ST_XFAIL_IF(!st_xis_number(&v), e, node, "'-' does not take %s", st_xkind_name(&v));
    if (v.kind == ST_X_FLOAT) { /* not 0 - x: -0.0 keeps its sign */
        *out = st_xfloat(-v.f);
        return STATOR_OK;
    }
    const st_xvalue zero = st_xint(0);
    return st_xarith(e, node, "-", &zero, &v, out);
}

/* ---- lists ---- */

static stator_status eval_list(st_xeval *e, const st_expr_node *node, st_xvalue *out)
{
    st_xvalue *items = st_xitems(e, node->n_kids);
    ST_TRY_MEM(items, e->err);
    for (uint32_t i = 0; i < node->n_kids; i++) {
        ST_TRY(st_xeval_node(e, node->kids[i], 1, &items[i]));
    }
    *out = (st_xvalue){.kind = ST_X_LIST, .items = items, .n = node->n_kids};
    return STATOR_OK;
}

/* An integer inside [0, n] from a bound that may count from the end. */
static stator_status eval_bound(st_xeval *e, const st_expr_node *node, uint32_t n, int64_t missing,
                                int64_t *out)
{
    st_xvalue v = st_xint(missing);
    if (node != NULL) {
        ST_TRY(st_xeval_node(e, node, 1, &v));
        ST_XFAIL_IF(v.kind != ST_X_INT, e, node, "an index must be an integer, found %s",
                    st_xkind_name(&v));
    }
    *out = v.i < 0 ? v.i + (int64_t)n : v.i;
    return STATOR_OK;
}

static stator_status eval_index(st_xeval *e, const st_expr_node *node, st_xvalue *out)
{
    st_xvalue list;
    int64_t from = 0, to = 0;
    ST_TRY(st_xeval_node(e, node->kids[0], 1, &list));
    ST_XFAIL_IF(list.kind != ST_X_LIST && list.kind != ST_X_TUPLE, e, node,
                "only lists and tuples have items, found %s", st_xkind_name(&list));
    ST_TRY(eval_bound(e, node->kids[1], list.n, 0, &from));
    if (node->kind == ST_EXPR_INDEX) {
        ST_XFAIL_IF(from < 0 || from >= (int64_t)list.n, e, node,
                    "index %lld is outside a list of %u", (long long)from, list.n);
        *out = list.items[from];
        return STATOR_OK;
    }
    ST_TRY(eval_bound(e, node->kids[2], list.n, list.n, &to));
    from = from < 0 ? 0 : from > (int64_t)list.n ? (int64_t)list.n : from;
    to = to < from ? from : to > (int64_t)list.n ? (int64_t)list.n : to;
    *out = list;
    out->items = list.items + from;
    out->n = (uint32_t)(to - from);
    return STATOR_OK;
}

/* ---- evaluation ---- */

static stator_status eval_call(st_xeval *e, const st_expr_node *node, uint32_t want, st_xvalue *out)
{
    if (strcmp(node->text, "has") == 0 && node->n_kids == 1 &&
        node->kids[0]->kind == ST_EXPR_NAME) { /* has() may ask for what is not bound at all */
        st_xvalue v = {0};
        const bool found = find_name(e, node->kids[0]->text, &v);
        *out = st_xbool(found && v.kind != ST_X_NONE && (v.kind != ST_X_TENSOR || v.ref != 0));
        return STATOR_OK;
    }
    st_xvalue *args = st_xitems(e, node->n_kids);
    ST_TRY_MEM(args, e->err);
    for (uint32_t i = 0; i < node->n_kids; i++) {
        ST_TRY(st_xeval_node(e, node->kids[i], 1, &args[i]));
    }
    if (st_xis_helper(node->text)) {
        const stator_status status = st_xcall_helper(e, node, args, out);
        if (status != STATOR_NOT_FOUND) {
            return status;
        }
    }
    return st_xcall_op(e, node, args, want, out);
}

static stator_status eval_inside(st_xeval *e, const st_expr_node *node, uint32_t want,
                                 st_xvalue *out)
{
    bool flag = false;
    switch (node->kind) { /* one case a kind of node */
    case ST_EXPR_INT:
        *out = st_xint(node->i);
        return STATOR_OK;
    case ST_EXPR_FLOAT:
        *out = st_xfloat(node->f);
        return STATOR_OK;
    case ST_EXPR_STRING:
        *out = (st_xvalue){.kind = ST_X_STRING, .s = node->text};
        return STATOR_OK;
    case ST_EXPR_NAME:
        return find_name(e, node->text, out) ? STATOR_OK : unknown_name(e, node);
    case ST_EXPR_LIST:
        return eval_list(e, node, out);
    case ST_EXPR_UNARY:
        return eval_unary(e, node, out);
    case ST_EXPR_BINARY:
        return eval_binary(e, node, out);
    case ST_EXPR_COND:
        ST_TRY(truth(e, node->kids[0], &flag));
        return st_xeval_node(e, node->kids[flag ? 1 : 2], want, out);
    case ST_EXPR_CALL:
        return eval_call(e, node, want, out);
    default:
        return eval_index(e, node, out);
    }
}

stator_status st_xeval_node(st_xeval *e, const st_expr_node *node, uint32_t want, st_xvalue *out)
{
    *out = (st_xvalue){0};
    ST_XFAIL_IF(e->depth >= EVAL_DEPTH_MAX, e, node, "the expression is nested more than %u deep",
                EVAL_DEPTH_MAX);
    e->depth++;
    const stator_status status = eval_inside(e, node, want, out);
    e->depth--;
    return status;
}

/* ---- statements ---- */

static stator_status assign_names(st_xeval *e, const st_expr_statement *s)
{
    st_xvalue v;
    ST_TRY(st_xeval_node(e, s->values[0], s->n_names, &v));
    ST_XFAIL_IF(s->n_names > LOCALS_MAX - e->n_locals, e, s->values[0], "more than %u names",
                LOCALS_MAX);
    if (s->n_names == 1) {
        e->locals[e->n_locals++] = (st_xlocal){s->names[0], v};
        return STATOR_OK;
    }
    ST_XFAIL_IF((v.kind != ST_X_TUPLE && v.kind != ST_X_LIST) || v.n < s->n_names, e, s->values[0],
                "%u names, but the value is %s of %u", s->n_names, st_xkind_name(&v),
                v.kind == ST_X_TUPLE || v.kind == ST_X_LIST ? v.n : 1u);
    for (uint32_t i = 0; i < s->n_names; i++) {
        e->locals[e->n_locals++] = (st_xlocal){s->names[i], v.items[i]};
    }
    return STATOR_OK;
}

static stator_status give_results(st_xeval *e, const st_expr_statement *s, bool fewer,
                                  uint32_t n_out, stator_ref *out)
{
    st_xvalue single;
    const st_expr_node *at = s->values[0];
    if (s->n_values > 1) {
        ST_XFAIL_IF(s->n_values != n_out && !(fewer && s->n_values > n_out), e, at,
                    "the program gives %u results, %u are wanted", s->n_values, n_out);
        for (uint32_t i = 0; i < n_out; i++) {
            st_xvalue v;
            ST_TRY(st_xeval_node(e, s->values[i], 1, &v));
            out[i] = 0;
            if (v.kind != ST_X_NONE || !e->in->gives_none) {
                ST_TRY(st_xto_tensor(e, s->values[i], &v, 0, false, &out[i]));
            }
        }
        return STATOR_OK;
    }
    ST_TRY(st_xeval_node(e, at, n_out, &single));
    const bool is_tuple = single.kind == ST_X_TUPLE;
    const uint32_t n = is_tuple ? single.n : 1u;
    ST_XFAIL_IF(n != n_out && !(fewer && n > n_out), e, at,
                "the program gives %u results, %u are wanted", n, n_out);
    for (uint32_t i = 0; i < n_out; i++) {
        ST_TRY(st_xto_tensor(e, at, is_tuple ? &single.items[i] : &single, 0, false, &out[i]));
    }
    return STATOR_OK;
}

static stator_status run_statements(st_xeval *e, bool fewer, uint32_t n_out, stator_ref *out)
{
    st_expr_program program;
    ST_TRY(st_expr_parse(&e->arena, e->in->program, &program, e->err));
    for (uint32_t i = 0; i + 1u < program.n_statements; i++) {
        ST_TRY(assign_names(e, &program.statements[i]));
    }
    return give_results(e, &program.statements[program.n_statements - 1u], fewer, n_out, out);
}

stator_status st_expr_run(stator_builder *b, const st_expr_inputs *in, bool fewer, uint32_t n_out,
                          stator_ref *out, stator_diag **err)
{
    st_xeval *e = st_calloc(b->module->mem, 1, sizeof *e);
    ST_TRY_MEM(e, err);
    e->b = b;
    e->in = in;
    e->err = err;
    st_arena_init(&e->arena, b->module->mem);
    const stator_status status = run_statements(e, fewer, n_out, out);
    st_arena_deinit(&e->arena);
    st_free(b->module->mem, e);
    return status;
}

stator_status st_build_expr(stator_builder *b, const char *program, uint32_t n_names,
                            const char *const *names, const stator_ref *values, uint32_t n_attrs,
                            const stator_attr *attrs, uint32_t n_out, stator_ref *out,
                            stator_diag **err)
{
    ST_REQUIRE(program, err);
    ST_REQUIRE_LIST(names, n_names, err);
    ST_REQUIRE_LIST(values, n_names, err);
    ST_REQUIRE_LIST(attrs, n_attrs, err);
    ST_REQUIRE_LIST(out, n_out, err);
    const st_expr_inputs in = {program, n_names, names, values, n_attrs, attrs, false};
    return st_expr_run(b, &in, false, n_out, out, err);
}
