/* Values of expression programs: conversions to tensors and attributes, arithmetic at build time.
 *
 * In: values made by expr.c. Out: constants, `dims` and `cast` nodes in the builder, or attributes
 * for st_build_node. A literal must be exact in the dtype it adopts when that is an integer dtype
 * or bool; floats round. */
#include "core/base/check.h"
#include "core/base/convert.h"
#include "ir/expr/expr_eval.h"
#include <math.h>
#include <string.h>

const char *st_xkind_name(const st_xvalue *v)
{
    static const char *const names[] = {"an absent attribute",
                                        "an integer",
                                        "a float",
                                        "a truth value",
                                        "a size",
                                        "a string",
                                        "a dtype",
                                        "a list",
                                        "a tensor",
                                        "a tuple"};
    return v->kind == ST_X_TENSOR && v->ref == 0 ? "an absent operand" : names[v->kind];
}

bool st_xis_number(const st_xvalue *v)
{
    return v->kind >= ST_X_INT && v->kind <= ST_X_SYM;
}

bool st_xis_size(const st_xvalue *v)
{
    return v->kind == ST_X_INT || v->kind == ST_X_SYM;
}

double st_xto_float(const st_xvalue *v)
{
    return v->kind == ST_X_FLOAT ? v->f : (double)v->i;
}

st_xvalue st_xsize(const st_xeval *e, stator_ref sym)
{
    int64_t value;
    if (sym != 0 && st_sym_const(&e->b->module->symtab, sym, &value)) {
        return st_xint(value);
    }
    return (st_xvalue){.kind = ST_X_SYM, .ref = sym};
}

stator_ref st_xsym(st_xeval *e, const st_xvalue *size)
{
    return size->kind == ST_X_SYM ? size->ref : st_sym_int(&e->b->module->symtab, size->i);
}

const stator_type_row *st_xtype(const st_xeval *e, stator_ref value)
{
    return stator_value_type(st_graph_view(e->b->graph), value);
}

st_xvalue *st_xitems(st_xeval *e, uint32_t n)
{
    return st_arena_zalloc(&e->arena, (uint64_t)n + 1u, sizeof(st_xvalue));
}

/* ---- tensors ---- */

/* Smallest and largest integer of an integer dtype or bool, as floats. */
static void int_range(stator_dtype dtype, double *out_lo, double *out_hi)
{
    const int bits = (int)st_dtype_bits(dtype);
    const bool is_signed = st_dtype_class(dtype) == STATOR_CLASS_INT;
    *out_lo = is_signed ? -ldexp(1, bits - 1) : 0;
    *out_hi = dtype == STATOR_BOOL ? 1 : ldexp(1, is_signed ? bits - 1 : bits) - 1;
}

static stator_status check_literal(const st_xeval *e, const st_expr_node *at, const st_xvalue *v,
                                   stator_dtype dtype)
{
    double lo, hi;
    const double x = st_xto_float(v);
    const uint32_t class_ = st_dtype_class(dtype);
    if (class_ == STATOR_CLASS_FLOAT || class_ == STATOR_CLASS_COMPLEX) {
        return STATOR_OK;
    }
    int_range(dtype, &lo, &hi);
    ST_XFAIL_IF(!(x >= lo && x <= hi) || x != trunc(x), e, at,
                "the number %g has no exact value in dtype %s", x, st_dtype_name(dtype));
    return STATOR_OK;
}

static stator_status literal(st_xeval *e, const st_expr_node *at, const st_xvalue *v,
                             stator_dtype dtype, stator_ref *out)
{
    uint64_t data[2] = {0, 0}, bytes = 0;
    ST_TRY(check_literal(e, at, v, dtype));
    if (st_dtype_class(dtype) == STATOR_CLASS_COMPLEX) {
        st_store_c128(dtype, data, 0, (const double[2]){st_xto_float(v), 0});
    } else if (v->kind == ST_X_FLOAT || st_dtype_class(dtype) == STATOR_CLASS_FLOAT) {
        st_store_f64(dtype, data, 0, st_xto_float(v));
    } else {
        st_store_i64(dtype, data, 0, v->i);
    }
    const stator_ref type = st_module_type(e->b->module, dtype, 0, NULL);
    ST_TRY_MEM(type && st_dtype_bytes(dtype, 1, &bytes), e->err);
    return st_build_constant(e->b, type, data, bytes, out, e->err);
}

stator_status st_xcast(st_xeval *e, stator_ref x, stator_dtype dtype, stator_ref *out)
{
    const stator_attr attr = {.name = "dtype", .kind = STATOR_ATTR_DTYPE, .i = dtype};
    *out = x;
    if (st_xtype(e, x)->dtype == dtype) {
        return STATOR_OK;
    }
    return st_xop(e, "cast", 1, &x, 1, &attr, out);
}

static stator_status sizes_tensor(st_xeval *e, const st_expr_node *at, const st_xvalue *list,
                                  stator_ref *out)
{
    stator_ref *syms = st_arena_zalloc(&e->arena, list->n + 1u, sizeof *syms);
    ST_TRY_MEM(syms, e->err);
    for (uint32_t i = 0; i < list->n; i++) {
        ST_XFAIL_IF(!st_xis_size(&list->items[i]), e, at,
                    "item %u of the list is %s, only sizes become a tensor", i,
                    st_xkind_name(&list->items[i]));
        syms[i] = st_xsym(e, &list->items[i]);
    }
    return st_build_from_dims(e->b, syms, list->n, out, e->err);
}

stator_status st_xto_tensor(st_xeval *e, const st_expr_node *at, const st_xvalue *v,
                            stator_dtype dtype, bool optional, stator_ref *out)
{
    *out = 0;
    switch (v->kind) {
    case ST_X_TENSOR:
        *out = v->ref;
        break;
    case ST_X_INT:
    case ST_X_FLOAT:
    case ST_X_BOOL:
        ST_XFAIL_IF(dtype == STATOR_DTYPE_NONE, e, at,
                    "the number has no dtype here; write scalar(number, dtype)");
        return literal(e, at, v, dtype, out);
    case ST_X_SYM:
        ST_TRY(st_build_from_dims(e->b, &v->ref, UINT32_MAX, out, e->err));
        return dtype ? st_xcast(e, *out, dtype, out) : STATOR_OK;
    case ST_X_LIST:
        return sizes_tensor(e, at, v, out);
    case ST_X_NONE:
        break;
    default:
        return st_xfail(e, at, "expected a tensor, found %s", st_xkind_name(v));
    }
    ST_XFAIL_IF(*out == 0 && !optional, e, at, "the operand is absent; ask has(...) first");
    return STATOR_OK;
}

/* ---- attributes ---- */

static stator_status wrong_attr(const st_xeval *e, const st_expr_node *at, const st_xvalue *v,
                                const stator_attr_desc *schema, const char *want)
{
    return st_xfail(e, at, "attribute '%s' must be %s, found %s%s", schema->name, want,
                    st_xkind_name(v),
                    v->kind == ST_X_SYM ? " that is not known when the graph is built" : "");
}

/* A list attribute; a single number stands for a list of one. */
static stator_status list_attr(st_xeval *e, const st_expr_node *at, const st_xvalue *v,
                               const stator_attr_desc *schema, stator_attr *out)
{
    const st_xvalue *items = v->kind == ST_X_LIST ? v->items : v;
    const uint32_t n = v->kind == ST_X_LIST ? v->n : 1u;
    char *list = st_arena_zalloc(&e->arena, (uint64_t)n + 1u, 8);
    ST_TRY_MEM(list, e->err);
    for (uint32_t i = 0; i < n; i++) {
        const st_xvalue *item = &items[i];
        if (schema->kind == STATOR_ATTR_INTS && item->kind == ST_X_INT) {
            ((int64_t *)(void *)list)[i] = item->i;
        } else if (schema->kind == STATOR_ATTR_FLOATS &&
                   (item->kind == ST_X_INT || item->kind == ST_X_FLOAT)) {
            ((double *)(void *)list)[i] = st_xto_float(item);
        } else if (schema->kind == STATOR_ATTR_DIMS && st_xis_size(item)) {
            ((stator_ref *)(void *)list)[i] = st_xsym(e, item);
        } else {
            return wrong_attr(e, at, item, schema,
                              schema->kind == STATOR_ATTR_INTS     ? "a list of integers"
                              : schema->kind == STATOR_ATTR_FLOATS ? "a list of numbers"
                                                                   : "a list of sizes");
        }
    }
    out->list = list;
    out->count = n;
    return STATOR_OK;
}

stator_status st_xto_attr(st_xeval *e, const st_expr_node *at, const st_xvalue *v,
                          const stator_attr_desc *schema, stator_attr *out)
{
    *out = (stator_attr){.name = schema->name, .kind = schema->kind, .i = v->i};
    if (st_attr_is_list(schema->kind)) {
        return list_attr(e, at, v, schema, out);
    }
    switch (schema->kind) {
    case STATOR_ATTR_INT:
        return v->kind == ST_X_INT || v->kind == ST_X_BOOL
                   ? STATOR_OK
                   : wrong_attr(e, at, v, schema, "an integer");
    case STATOR_ATTR_FLOAT:
        out->f = st_xto_float(v);
        return v->kind == ST_X_INT || v->kind == ST_X_FLOAT
                   ? STATOR_OK
                   : wrong_attr(e, at, v, schema, "a number");
    case STATOR_ATTR_STRING:
        out->s = v->s;
        return v->kind == ST_X_STRING ? STATOR_OK : wrong_attr(e, at, v, schema, "a string");
    case STATOR_ATTR_DTYPE:
        return v->kind == ST_X_DTYPE ? STATOR_OK : wrong_attr(e, at, v, schema, "a dtype");
    default:
        return wrong_attr(e, at, v, schema, "given by another builder");
    }
}

st_xvalue st_xfrom_attr(st_xeval *e, const stator_attr *attr)
{
    switch (attr->kind) {
    case STATOR_ATTR_INT:
        return st_xint(attr->i);
    case STATOR_ATTR_FLOAT:
        return st_xfloat(attr->f);
    case STATOR_ATTR_STRING:
        return (st_xvalue){.kind = ST_X_STRING, .s = attr->s ? attr->s : ""};
    case STATOR_ATTR_DTYPE:
        return (st_xvalue){.kind = ST_X_DTYPE, .i = attr->i};
    case STATOR_ATTR_INTS:
    case STATOR_ATTR_FLOATS:
    case STATOR_ATTR_DIMS:
        break;
    default:
        return (st_xvalue){.kind = ST_X_NONE};
    }
    st_xvalue *items = st_xitems(e, attr->count);
    for (uint32_t i = 0; items != NULL && i < attr->count; i++) {
        items[i] = attr->kind == STATOR_ATTR_INTS ? st_xint(((const int64_t *)attr->list)[i])
                   : attr->kind == STATOR_ATTR_FLOATS
                       ? st_xfloat(((const double *)attr->list)[i])
                       : st_xsize(e, ((const stator_ref *)attr->list)[i]);
    }
    return (st_xvalue){.kind = ST_X_LIST, .items = items, .n = items ? attr->count : 0};
}

/* ---- arithmetic ---- */

/* a / b of integers that divides without remainder, or of sizes that provably does. */
static stator_status divide(st_xeval *e, const st_expr_node *at, const st_xvalue *a,
                            const st_xvalue *b, st_xvalue *out)
{
    if (a->kind == ST_X_INT && b->kind == ST_X_INT) {
        ST_XFAIL_IF(b->i == 0 || (a->i == INT64_MIN && b->i == -1) || a->i % b->i != 0, e, at,
                    "%lld / %lld is no integer; write a float or floordiv", (long long)a->i,
                    (long long)b->i);
        *out = st_xint(a->i / b->i);
        return STATOR_OK;
    }
    return st_xfail(e, at, "sizes divide with floordiv(a, b) or ceildiv(a, b)");
}

static stator_status size_arith(st_xeval *e, const st_expr_node *at, char op, const st_xvalue *a,
                                const st_xvalue *b, st_xvalue *out)
{
    static const uint8_t ops[128] = {
        ['+'] = STATOR_SYM_ADD,      ['-'] = STATOR_SYM_SUB, ['*'] = STATOR_SYM_MUL,
        ['f'] = STATOR_SYM_FLOORDIV, ['%'] = STATOR_SYM_MOD, ['c'] = STATOR_SYM_CEILDIV,
        ['m'] = STATOR_SYM_MIN,      ['M'] = STATOR_SYM_MAX};
    const stator_ref x = st_xsym(e, a), y = st_xsym(e, b);
    const stator_ref sum = x && y ? st_sym_op(&e->b->module->symtab, ops[(int)op], x, y) : 0;
    ST_XFAIL_IF(sum == 0, e, at, "the size exceeds a limit of the symbolic engine, or 64 bits");
    *out = st_xsize(e, sum);
    return STATOR_OK;
}

static stator_status float_arith(const st_xeval *e, const st_expr_node *at, char op, double a,
                                 double b, st_xvalue *out)
{
    switch (op) {
    case '+':
        *out = st_xfloat(a + b);
        return STATOR_OK;
    case '-':
        *out = st_xfloat(a - b);
        return STATOR_OK;
    case '*':
        *out = st_xfloat(a * b);
        return STATOR_OK;
    case '/':
        *out = st_xfloat(a / b);
        return STATOR_OK;
    case 'm':
        *out = st_xfloat(a < b ? a : b);
        return STATOR_OK;
    case 'M':
        *out = st_xfloat(a > b ? a : b);
        return STATOR_OK;
    default:
        return st_xfail(e, at, "operator '%c' does not take floats here", op);
    }
}

stator_status st_xarith(st_xeval *e, const st_expr_node *at, const char *op, const st_xvalue *a,
                        const st_xvalue *b, st_xvalue *out)
{
    const bool has_float = a->kind == ST_X_FLOAT || b->kind == ST_X_FLOAT;
    ST_XFAIL_IF(has_float && (a->kind == ST_X_SYM || b->kind == ST_X_SYM), e, at,
                "a float and a size that is not known yet; write "
                "scalar(size, dtype) to make a tensor of it");
    if (has_float) {
        return float_arith(e, at, op[0], st_xto_float(a), st_xto_float(b), out);
    }
    if (op[0] == '/') {
        return divide(e, at, a, b, out);
    }
    ST_XFAIL_IF((op[0] == '%' || op[0] == 'f' || op[0] == 'c') && b->kind == ST_X_INT && b->i == 0,
                e, at, "division by zero");
    return size_arith(e, at, op[0], a, b, out);
}

/* Decides a comparison of sizes. */
static st_proof compare_sizes(st_xeval *e, const char *op, const st_xvalue *a, const st_xvalue *b)
{
    st_symtab *tab = &e->b->module->symtab;
    const stator_ref x = st_xsym(e, a), y = st_xsym(e, b);
    if (x == 0 || y == 0) {
        return ST_UNDECIDED;
    }
    switch (op[0]) {
    case '=':
        return st_sym_eq(tab, x, y);
    case '!':
        return st_proof_not(st_sym_eq(tab, x, y));
    case '<':
        return op[1] ? st_sym_le(tab, x, y) : st_sym_lt(tab, x, y);
    default:
        return op[1] ? st_sym_le(tab, y, x) : st_sym_lt(tab, y, x);
    }
}

static bool compare_floats(const char *op, double a, double b)
{
    switch (op[0]) {
    case '=':
        return a == b;
    case '!':
        return a != b;
    case '<':
        return op[1] ? a <= b : a < b;
    default:
        return op[1] ? a >= b : a > b;
    }
}

/* Equality of what has no order: strings, dtypes, lists, absent attributes. */
static st_proof equal_values(st_xeval *e, const st_xvalue *a, const st_xvalue *b)
{
    if (st_xis_number(a) && st_xis_number(b)) {
        return a->kind == ST_X_SYM || b->kind == ST_X_SYM
                   ? compare_sizes(e, "==", a, b)
                   : st_proof_of(st_xto_float(a) == st_xto_float(b));
    }
    if (a->kind != b->kind) {
        return ST_DISPROVED;
    }
    if (a->kind == ST_X_STRING) {
        return st_proof_of(strcmp(a->s, b->s) == 0);
    }
    if (a->kind != ST_X_LIST) {
        return st_proof_of(a->i == b->i);
    }
    st_proof result = st_proof_of(a->n == b->n);
    for (uint32_t i = 0; result == ST_PROVED && i < a->n; i++) {
        result = equal_values(e, &a->items[i], &b->items[i]);
    }
    return result;
}

stator_status st_xcompare(st_xeval *e, const st_expr_node *at, const char *op, const st_xvalue *a,
                          const st_xvalue *b, st_xvalue *out)
{
    const bool numbers = st_xis_number(a) && st_xis_number(b);
    const bool sizes = a->kind == ST_X_SYM || b->kind == ST_X_SYM;
    st_proof result;
    if (numbers && !sizes) {
        result = st_proof_of(compare_floats(op, st_xto_float(a), st_xto_float(b)));
    } else if (numbers && a->kind != ST_X_FLOAT && b->kind != ST_X_FLOAT) {
        result = compare_sizes(e, op, a, b);
    } else if (op[0] == '=' || op[0] == '!') {
        result = equal_values(e, a, b);
        result = op[0] == '!' ? st_proof_not(result) : result;
    } else {
        return st_xfail(e, at, "'%s' does not compare %s with %s", op, st_xkind_name(a),
                        st_xkind_name(b));
    }
    ST_XFAIL_IF(result == ST_UNDECIDED, e, at,
                "the sizes cannot be compared before the program runs");
    *out = st_xbool(result);
    return STATOR_OK;
}
