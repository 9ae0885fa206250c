/* Helper functions of expression programs: questions about operands, sizes and lists, and the table
 * of all of them (docs/expr.md); those that make tensors are in expr_shapes.c.
 *
 * In: evaluated arguments. Out: build-time values. A helper that does not apply to its arguments
 * gives way to the op of that name. */
#include "core/base/check.h"
#include "ir/expr/expr_help.h"
#include <string.h>

typedef struct helper_row {
    const char *name;
    uint32_t least, most; /* arguments */
    stator_status (*run)(const st_help *c);
    uint32_t with; /* given to `run` */
} helper_row;

/* ---- reading arguments ---- */

stator_status st_help_tensor(const st_help *c, uint32_t k, stator_ref *out)
{
    *out = c->args[k].ref;
    ST_XFAIL_IF(c->args[k].kind != ST_X_TENSOR, c->e, c->node,
                "%s: argument %u is %s, expected a tensor", c->node->text, k + 1u,
                st_xkind_name(&c->args[k]));
    ST_XFAIL_IF(*out == 0, c->e, c->node, "%s: argument %u is absent; ask has(...) first",
                c->node->text, k + 1u);
    return STATOR_OK;
}

stator_status st_help_int(const st_help *c, uint32_t k, int64_t lo, int64_t hi, int64_t *out)
{
    *out = c->args[k].i;
    ST_XFAIL_IF(c->args[k].kind != ST_X_INT, c->e, c->node,
                "%s: argument %u is %s, expected an integer", c->node->text, k + 1u,
                st_xkind_name(&c->args[k]));
    ST_XFAIL_IF(*out < lo || *out > hi, c->e, c->node,
                "%s: argument %u is %lld, expected %lld to %lld", c->node->text, k + 1u,
                (long long)*out, (long long)lo, (long long)hi);
    return STATOR_OK;
}

/* Axes given as one integer or a list, brought into [0, rank), as a bit set. */
stator_status st_help_axes(const st_help *c, uint32_t k, uint32_t rank, uint32_t *out)
{
    const st_xvalue *v = &c->args[k];
    const st_xvalue *items = v->kind == ST_X_LIST ? v->items : v;
    const uint32_t n = v->kind == ST_X_LIST ? v->n : 1u;
    *out = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (items[i].kind != ST_X_INT || items[i].i < -(int64_t)rank ||
            items[i].i >= (int64_t)rank) {
            return st_xfail(c->e, c->node, "%s: axes must be integers in [-%u, %u)", c->node->text,
                            rank, rank);
        }
        *out |= 1u << st_normalize_axis(items[i].i, rank);
    }
    return STATOR_OK;
}

/* A dtype, or the dtype of a tensor. */
stator_status st_help_dtype(const st_help *c, uint32_t k, stator_dtype *out)
{
    stator_ref x = 0;
    *out = (stator_dtype)c->args[k].i;
    if (c->args[k].kind == ST_X_DTYPE) {
        return STATOR_OK;
    }
    ST_TRY(st_help_tensor(c, k, &x));
    *out = st_xtype(c->e, x)->dtype;
    return STATOR_OK;
}

stator_ref st_help_dim(const st_help *c, stator_ref x, uint32_t axis)
{
    return stator_dim_at(st_graph_view(c->e->b->graph), st_xtype(c->e, x), axis);
}

/* ---- questions ---- */

static stator_status help_has(const st_help *c)
{
    const st_xvalue *v = &c->args[0];
    *c->out = st_xbool(v->kind != ST_X_NONE && (v->kind != ST_X_TENSOR || v->ref != 0));
    return STATOR_OK;
}

static stator_status help_rank(const st_help *c)
{
    stator_ref x = 0;
    ST_TRY(st_help_tensor(c, 0, &x));
    *c->out = st_xint(st_xtype(c->e, x)->rank);
    return STATOR_OK;
}

static stator_status help_dtype(const st_help *c)
{
    stator_dtype dtype = 0;
    ST_TRY(st_help_dtype(c, 0, &dtype));
    *c->out = (st_xvalue){.kind = ST_X_DTYPE, .i = dtype};
    return STATOR_OK;
}

/* Is the dtype of one of the classes (`with`: a bit set)? */
static stator_status has_class(const st_help *c)
{
    stator_dtype dtype = 0;
    ST_TRY(st_help_dtype(c, 0, &dtype));
    *c->out = st_xbool((c->with >> st_dtype_class(dtype) & 1u) != 0);
    return STATOR_OK;
}

static stator_status help_bits(const st_help *c)
{
    stator_dtype dtype = 0;
    ST_TRY(st_help_dtype(c, 0, &dtype));
    *c->out = st_xint(st_dtype_bits(dtype));
    return STATOR_OK;
}

/* The result as a list of n items, to be filled; NULL: out of memory. */
static st_xvalue *new_list(const st_help *c, uint32_t n)
{
    st_xvalue *items = st_xitems(c->e, n);
    *c->out = (st_xvalue){.kind = ST_X_LIST, .items = items, .n = n};
    return items;
}

/* ---- sizes ---- */

/* Argument `tensor`, and of its axes the one that argument `axis` names, counted from the front. */
static stator_status tensor_axis(const st_help *c, uint32_t tensor, uint32_t axis,
                                 stator_ref *out_tensor, uint32_t *out_axis)
{
    int64_t named = 0;
    ST_TRY(st_help_tensor(c, tensor, out_tensor));
    const int64_t rank = st_xtype(c->e, *out_tensor)->rank;
    ST_TRY(st_help_int(c, axis, -rank, rank - 1, &named));
    *out_axis = (uint32_t)st_normalize_axis(named, rank);
    return STATOR_OK;
}

static stator_status help_dim(const st_help *c)
{
    stator_ref x = 0;
    uint32_t axis = 0;
    ST_TRY(tensor_axis(c, 0, 1, &x, &axis));
    *c->out = st_xsize(c->e, st_help_dim(c, x, axis));
    return STATOR_OK;
}

static stator_status help_shape(const st_help *c)
{
    stator_ref x = 0;
    ST_TRY(st_help_tensor(c, 0, &x));
    const uint32_t rank = st_xtype(c->e, x)->rank;
    st_xvalue *items = new_list(c, rank);
    ST_TRY_MEM(items, c->e->err);
    for (uint32_t i = 0; i < rank; i++) {
        items[i] = st_xsize(c->e, st_help_dim(c, x, i));
    }
    return STATOR_OK;
}

/* Product of x's sizes over the set of axes. */
static stator_status product_of(const st_help *c, stator_ref x, uint32_t set)
{
    st_xvalue product = st_xint(1);
    for (uint32_t i = 0; i < st_xtype(c->e, x)->rank; i++) {
        if (set >> i & 1u) {
            const st_xvalue dim = st_xsize(c->e, st_help_dim(c, x, i));
            ST_TRY(st_xarith(c->e, c->node, "*", &product, &dim, &product));
        }
    }
    *c->out = product;
    return STATOR_OK;
}

static stator_status help_count(const st_help *c)
{
    stator_ref x = 0;
    uint32_t set = 0;
    ST_TRY(st_help_tensor(c, 0, &x));
    ST_TRY(st_help_axes(c, 1, st_xtype(c->e, x)->rank, &set));
    return product_of(c, x, set);
}

static stator_status help_numel(const st_help *c)
{
    stator_ref x = 0;
    ST_TRY(st_help_tensor(c, 0, &x));
    return product_of(c, x, UINT32_MAX);
}

static stator_status help_product(const st_help *c)
{
    st_xvalue product = st_xint(1);
    ST_XFAIL_IF(c->args[0].kind != ST_X_LIST, c->e, c->node, "product takes a list, found %s",
                st_xkind_name(&c->args[0]));
    for (uint32_t i = 0; i < c->args[0].n; i++) {
        const st_xvalue *item = &c->args[0].items[i];
        ST_XFAIL_IF(!st_xis_number(item), c->e, c->node, "product: item %u is %s", i,
                    st_xkind_name(item));
        ST_TRY(st_xarith(c->e, c->node, "*", &product, item, &product));
    }
    *c->out = product;
    return STATOR_OK;
}

/* The operator `with` between both arguments. */
static stator_status combine(const st_help *c)
{
    const char op[2] = {(char)c->with, 0};
    return st_xarith(c->e, c->node, op, &c->args[0], &c->args[1], c->out);
}

static stator_status two_sizes(const st_help *c)
{
    for (uint32_t k = 0; k < 2; k++) {
        ST_XFAIL_IF(!st_xis_size(&c->args[k]), c->e, c->node,
                    "%s: argument %u is %s, expected a size", c->node->text, k + 1u,
                    st_xkind_name(&c->args[k]));
    }
    return combine(c);
}

/* min and max of numbers; with a tensor among them they are ops. */
static stator_status numbers_only(const st_help *c)
{
    return st_xis_number(&c->args[0]) && st_xis_number(&c->args[1]) ? combine(c) : STATOR_NOT_FOUND;
}

static stator_status help_axis(const st_help *c)
{
    stator_ref x = 0;
    uint32_t axis = 0;
    ST_TRY(tensor_axis(c, 1, 0, &x, &axis));
    *c->out = st_xint(axis);
    return STATOR_OK;
}

/* The elements of a small integer tensor as sizes; what is not known becomes run-time symbols. */
static stator_status help_ints(const st_help *c)
{
    stator_ref x = 0, syms[256];
    int64_t n = 1;
    ST_TRY(st_help_tensor(c, 0, &x));
    const uint32_t rank = st_xtype(c->e, x)->rank;
    if (rank > 1 ||
        (rank == 1 && !st_sym_const(&c->e->b->module->symtab, st_help_dim(c, x, 0), &n)) ||
        n > 256) {
        return st_xfail(c->e, c->node,
                        "ints takes a tensor of rank 0 or 1 with at most 256 "
                        "elements, their number known");
    }
    ST_TRY(st_build_as_dims(c->e->b, x, (uint32_t)n, syms, c->e->err));
    st_xvalue *items = new_list(c, (uint32_t)n);
    ST_TRY_MEM(items, c->e->err);
    for (uint32_t i = 0; i < (uint32_t)n; i++) {
        items[i] = st_xsize(c->e, syms[i]);
    }
    return STATOR_OK;
}

/* ---- lists ---- */

static stator_status help_len(const st_help *c)
{
    const st_xvalue *v = &c->args[0];
    ST_XFAIL_IF(v->kind != ST_X_LIST && v->kind != ST_X_TUPLE && v->kind != ST_X_TENSOR, c->e,
                c->node, "len takes a list or a tuple, found %s", st_xkind_name(v));
    *c->out = st_xint(v->kind == ST_X_TENSOR ? 1 : (int64_t)v->n);
    return STATOR_OK;
}

static stator_status help_first(const st_help *c)
{
    const st_xvalue *v = &c->args[0];
    const bool is_list = v->kind == ST_X_LIST || v->kind == ST_X_TUPLE;
    ST_XFAIL_IF(is_list && v->n == 0, c->e, c->node, "first: the list is empty");
    *c->out = is_list ? v->items[0] : *v;
    return STATOR_OK;
}

static stator_status help_range(const st_help *c)
{
    int64_t from = 0, to = 0;
    if (c->n == 2) {
        ST_TRY(st_help_int(c, 0, -4096, 4096, &from));
    }
    ST_TRY(st_help_int(c, c->n - 1u, -4096, 4096, &to));
    const uint32_t n = to > from ? (uint32_t)(to - from) : 0;
    st_xvalue *items = new_list(c, n);
    ST_TRY_MEM(items, c->e->err);
    for (uint32_t i = 0; i < n; i++) {
        items[i] = st_xint(from + i);
    }
    return STATOR_OK;
}

static stator_status help_repeat(const st_help *c)
{
    int64_t n = 0;
    ST_TRY(st_help_int(c, 1, 0, 4096, &n));
    st_xvalue *items = new_list(c, (uint32_t)n);
    ST_TRY_MEM(items, c->e->err);
    for (int64_t i = 0; i < n; i++) {
        items[i] = c->args[0];
    }
    return STATOR_OK;
}

static stator_status help_reverse(const st_help *c)
{
    const st_xvalue *v = &c->args[0];
    ST_XFAIL_IF(v->kind != ST_X_LIST && v->kind != ST_X_TUPLE, c->e, c->node,
                "reverse takes a list, found %s", st_xkind_name(v));
    st_xvalue *items = st_xitems(c->e, v->n);
    ST_TRY_MEM(items, c->e->err);
    for (uint32_t i = 0; i < v->n; i++) {
        items[i] = v->items[v->n - 1u - i];
    }
    *c->out = (st_xvalue){.kind = v->kind, .items = items, .n = v->n};
    return STATOR_OK;
}

/* each('+', a, b): the operator between the items of two lists of one length, or of a list and a
 * number. */
static stator_status help_each(const st_help *c)
{
    const st_xvalue *a = &c->args[1], *b = &c->args[2];
    const int lists = (a->kind == ST_X_LIST) + (b->kind == ST_X_LIST);
    const uint32_t n = a->kind == ST_X_LIST ? a->n : b->n;
    if (c->args[0].kind != ST_X_STRING || strlen(c->args[0].s) != 1 ||
        strchr("+-*/%mMc", c->args[0].s[0]) == NULL) {
        return st_xfail(c->e, c->node, "each: argument 1 is one of '+-*/%%mMc' as a string");
    }
    ST_XFAIL_IF(lists == 0 || (lists == 2 && a->n != b->n), c->e, c->node,
                "each takes lists of one length, or a list and a number");
    st_xvalue *items = new_list(c, n);
    ST_TRY_MEM(items, c->e->err);
    const char op[2] = {c->args[0].s[0] == '/' ? 'f' : c->args[0].s[0], 0};
    for (uint32_t i = 0; i < n; i++) {
        const st_xvalue *x = a->kind == ST_X_LIST ? &a->items[i] : a;
        const st_xvalue *y = b->kind == ST_X_LIST ? &b->items[i] : b;
        ST_XFAIL_IF(!st_xis_number(x) || !st_xis_number(y), c->e, c->node,
                    "each: item %u is no number", i);
        ST_TRY(st_xarith(c->e, c->node, op, x, y, &items[i]));
    }
    return STATOR_OK;
}

/* fold('add', xs): the op between all tensors of a tuple, from the left. */
static stator_status help_fold(const st_help *c)
{
    const st_xvalue *xs = &c->args[1];
    const uint32_t n = xs->kind == ST_X_TUPLE ? xs->n : 1u;
    ST_XFAIL_IF(c->args[0].kind != ST_X_STRING, c->e, c->node,
                "fold: argument 1 is the name of an op, as in 'add'");
    st_expr_node call = *c->node;
    const char *no_keys[2] = {NULL, NULL};
    st_xvalue pair[2] = {xs->kind == ST_X_TUPLE ? xs->items[0] : *xs};
    call.text = c->args[0].s;
    call.keys = no_keys;
    call.n_kids = 2;
    for (uint32_t i = 1; i < n; i++) {
        pair[1] = xs->items[i];
        ST_TRY(st_xcall_op(c->e, &call, pair, 1, &pair[0]));
    }
    *c->out = pair[0];
    return STATOR_OK;
}

#define CLASS(name) (1u << STATOR_CLASS_##name)

static const helper_row helpers[] = {
    {"has", 1, 1, help_has, 0},
    {"rank", 1, 1, help_rank, 0},
    {"dtype", 1, 1, help_dtype, 0},
    {"is_float", 1, 1, has_class, CLASS(FLOAT)},
    {"is_int", 1, 1, has_class, CLASS(INT) | CLASS(UINT)},
    {"is_unsigned", 1, 1, has_class, CLASS(UINT)},
    {"is_bool", 1, 1, has_class, CLASS(BOOL)},
    {"is_complex", 1, 1, has_class, CLASS(COMPLEX)},
    {"bits", 1, 1, help_bits, 0},
    {"dim", 2, 2, help_dim, 0},
    {"shape", 1, 1, help_shape, 0},
    {"count", 2, 2, help_count, 0},
    {"numel", 1, 1, help_numel, 0},
    {"product", 1, 1, help_product, 0},
    {"floordiv", 2, 2, two_sizes, 'f'},
    {"ceildiv", 2, 2, two_sizes, 'c'},
    {"min", 2, 2, numbers_only, 'm'},
    {"max", 2, 2, numbers_only, 'M'},
    {"axis", 2, 2, help_axis, 0},
    {"ints", 1, 1, help_ints, 0},
    {"len", 1, 1, help_len, 0},
    {"first", 1, 1, help_first, 0},
    {"range", 1, 2, help_range, 0},
    {"repeat", 2, 2, help_repeat, 0},
    {"reverse", 1, 1, help_reverse, 0},
    {"each", 3, 3, help_each, 0},
    {"fold", 2, 2, help_fold, 0},
    {"squeeze", 2, 2, st_help_squeeze, 0},
    {"unsqueeze", 2, 2, st_help_unsqueeze, 0},
    {"zeros_like", 1, 1, st_help_zeros_like, 0},
    {"ones_like", 1, 1, st_help_ones_like, 0},
    {"full_like", 2, 2, st_help_full_like, 0},
    {"scalar", 2, 2, st_help_scalar, 0},
    {"cast", 2, 4, st_help_cast, 0},
    {"wide", 1, 1, st_help_wide, 0},
};
#define HELPERS ((uint32_t)(sizeof helpers / sizeof helpers[0]))

static const helper_row *find_helper(const char *name)
{
    for (uint32_t i = 0; i < HELPERS; i++) {
        if (strcmp(helpers[i].name, name) == 0) {
            return &helpers[i];
        }
    }
    return NULL;
}

bool st_xis_helper(const char *name)
{
    return find_helper(name) != NULL;
}

const char *st_xhelper_name(uint32_t i)
{
    return i < HELPERS ? helpers[i].name : NULL;
}

stator_status st_xcall_helper(st_xeval *e, const st_expr_node *node, const st_xvalue *args,
                              st_xvalue *out)
{
    const helper_row *row = find_helper(node->text);
    if (row == NULL) {
        return STATOR_NOT_FOUND;
    }
    const st_help call = {e, node, args, node->n_kids, row->with, out};
    if (node->n_kids < row->least || node->n_kids > row->most) {
        return row->least == row->most ? st_xfail(e, node, "%s takes %u arguments, found %u",
                                                  row->name, row->least, node->n_kids)
                                       : st_xfail(e, node, "%s takes %u to %u arguments, found %u",
                                                  row->name, row->least, row->most, node->n_kids);
    }
    for (uint32_t i = 0; row->run != st_help_cast && i < node->n_kids; i++) {
        ST_XFAIL_IF(node->keys[i] != NULL, e, node, "%s takes no attribute '%s'", row->name,
                    node->keys[i]);
    }
    return row->run(&call);
}
