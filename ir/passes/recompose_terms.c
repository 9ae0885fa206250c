/* Sums and products as lists of terms (recompose.h).
 *
 *     div(mul(x, 0.5), sqrt(add(v, e)))    ->    x^1  0.5^1  add(v, e)^-0.5
 *
 * In: a value. Out: its leaves, left to right, and the values between that are made of some of
 * them, since a variable of the pattern may stand for any of these. A list that grows too long
 * keeps the rest as one leaf. Numbers are found through casts, views and scalar arithmetic, sizes
 * too. */
#include "ir/passes/recompose.h"
#include <math.h>
#include <stator/ops.h>

#define NUMBER_DEPTH_MAX 8u

typedef struct term_def {
    uint32_t kind; /* st_rc_term_kind */
    double a, b, factor;
} term_def;

static const term_def term_defs[STATOR_OPCODE_end] = {
#define STATOR_RECOMPOSE_TERM(op_, ...) [STATOR_OPCODE_##op_] = {__VA_ARGS__},
#include "ir/passes/recompose.def"
#undef STATOR_RECOMPOSE_TERM
};

static const term_def *find_term(uint32_t op)
{
    return op < STATOR_OPCODE_end && term_defs[op].kind != ST_TERM_NONE ? &term_defs[op] : NULL;
}

/* ---- numbers ---- */

static bool number_at(const stator_graph *g, stator_ref value, uint32_t depth, double *out);

/* One size as an i64 tensor. */
static bool size_number(const stator_graph_view *v, const stator_node_row *row, double *out)
{
    const stator_attr_row *list = stator_attr_at(v, row, 0);
    int64_t n = 0;
    if (list->kind != STATOR_ATTR_DIMS || list->count != 1 ||
        !stator_sym_is_const(v, stator_ref_at(v, list->begin), &n)) {
        return false;
    }
    *out = (double)n;
    return true;
}

static bool term_number(const stator_graph *g, const stator_node_row *row, const term_def *term,
                        uint32_t depth, double *out)
{
    const stator_graph_view *v = st_graph_view(g);
    double x = 0;
    double y = term->kind == ST_TERM_PRODUCT;
    if (!number_at(g, stator_operand(v, row, 0), depth, &x) ||
        (row->operand_count == 2 && !number_at(g, stator_operand(v, row, 1), depth, &y))) {
        return false;
    }
    y = row->operand_count == 1 && term->b != 0 ? x : y;
    *out = term->kind == ST_TERM_PRODUCT ? term->factor * pow(x, term->a) * pow(y, term->b)
                                         : term->a * x + term->b * y;
    return isfinite(*out) != 0;
}

static bool number_at(const stator_graph *g, stator_ref value, uint32_t depth, double *out)
{
    const stator_graph_view *v = st_graph_view(g);
    if (value == 0 || depth == 0) {
        return false;
    }
    if (st_value_is_splat(g, value, out)) {
        return true;
    }
    const stator_node_row *row = st_rc_producer(v, value);
    if (row == NULL) {
        return false;
    }
    const stator_op_desc *op = stator_op_at(v, row->op);
    if ((op->flags & STATOR_OP_VIEW) != 0 || st_rc_is(row, STATOR_OPCODE_cast)) {
        const uint32_t dtype = stator_value_type(v, value)->dtype;
        return st_dtype_class(dtype) == STATOR_CLASS_FLOAT &&
               number_at(g, stator_operand(v, row, 0), depth - 1u, out);
    }
    if (st_rc_is(row, STATOR_OPCODE_dims)) {
        return size_number(v, row, out);
    }
    if (st_rc_is(row, STATOR_OPCODE_pow)) {
        double x = 0;
        double y = 0;
        const bool ok = number_at(g, stator_operand(v, row, 0), depth - 1u, &x) &&
                        number_at(g, stator_operand(v, row, 1), depth - 1u, &y);
        *out = ok ? pow(x, y) : 0;
        return ok && isfinite(*out);
    }
    const term_def *term = st_dtype_class(stator_value_type(v, value)->dtype) == STATOR_CLASS_FLOAT
                               ? find_term(row->op)
                               : NULL;
    return term != NULL && term_number(g, row, term, depth - 1u, out);
}

bool st_rc_number(const stator_graph *graph, stator_ref value, double *out)
{
    return number_at(graph, value, NUMBER_DEPTH_MAX, out);
}

/* ---- terms ---- */

/* A constant power that is a product's: 2, 3, 4, -1, 0.5, -0.5. */
static bool power_of(const stator_graph *g, const stator_node_row *row, double *out)
{
    static const double known[] = {2, 3, 4, -1, 0.5, -0.5};
    const stator_graph_view *v = st_graph_view(g);
    if (!st_rc_is(row, STATOR_OPCODE_pow) || !st_rc_number(g, stator_operand(v, row, 1), out)) {
        return false;
    }
    for (uint32_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i] == *out) {
            return true;
        }
    }
    return false;
}

uint32_t st_rc_term_kind(const stator_graph *graph, stator_ref value)
{
    const stator_graph_view *v = st_graph_view(graph);
    const stator_node_row *row = st_rc_producer(v, value);
    double power = 0;
    if (row == NULL) {
        return ST_TERM_NONE;
    }
    const term_def *term = find_term(row->op);
    return term != NULL                   ? term->kind
           : power_of(graph, row, &power) ? ST_TERM_PRODUCT
                                          : ST_TERM_NONE;
}

static void add_group(st_rc_terms *t, stator_ref value, double power, uint32_t first)
{
    if (t->n_groups < ST_RC_GROUPS && t->n_leaves > first) {
        t->group[t->n_groups++] = (st_rc_group){value, power, first, t->n_leaves - first};
    }
}

static void add_leaf(const stator_graph *g, stator_ref value, double power, double factor,
                     st_rc_terms *t)
{
    double x = factor;
    const uint32_t i = t->n_leaves;
    if (i == ST_RC_LEAVES) {
        return;
    }
    t->leaf[i] = (st_rc_group){value, power, i, 1};
    if (value == 0 || st_rc_number(g, value, &x)) {
        t->numbers |= 1u << i;
        t->number[i] = t->kind == ST_TERM_PRODUCT ? pow(x, power) : power * x;
    }
    t->n_leaves++;
    add_group(t, value, power, i);
}

static void split(const stator_graph *g, stator_ref value, double power, uint32_t room,
                  st_rc_terms *t);

/* The operands of a node that belongs to the list; 0 when it is a leaf. `room` is how many leaves
 * may still come of it. */
static bool split_node(const stator_graph *g, const stator_node_row *row, double power,
                       uint32_t room, st_rc_terms *t)
{
    const stator_graph_view *v = st_graph_view(g);
    const stator_ref x = stator_operand(v, row, 0);
    const term_def *term = find_term(row->op);
    double n = 0;
    if (t->kind == ST_TERM_PRODUCT && power_of(g, row, &n)) {
        const uint32_t times = n > 1 ? (uint32_t)n : 1u;
        if (fabs(power) != 1 || times + 1u > room) {
            return false;
        }
        for (uint32_t i = 0; i < times; i++) {
            split(g, x, n > 1 ? power : n * power, room / times, t);
        }
        return true;
    }
    const bool is_minus = t->kind == ST_TERM_SUM && st_rc_is(row, STATOR_OPCODE_neg);
    if (term == NULL || (term->kind != t->kind && !is_minus) || room < 3 || fabs(power) != 1) {
        return false;
    }
    if (is_minus || term->b == 0) {
        if (!is_minus && term->factor != 1) {
            add_leaf(g, 0, 1, term->factor, t);
        }
        split(g, x, power * (is_minus ? -1 : term->a), room - 1u, t);
        return true;
    }
    const uint32_t before = t->n_leaves;
    split(g, x, power * term->a, room - 1u, t);
    split(g, row->operand_count == 2 ? stator_operand(v, row, 1) : x, power * term->b,
          room - (t->n_leaves - before), t);
    return true;
}

static void split(const stator_graph *g, stator_ref value, double power, uint32_t room,
                  st_rc_terms *t)
{
    const stator_node_row *row = st_rc_producer(st_graph_view(g), value);
    const uint32_t first = t->n_leaves;
    if (row == NULL || !split_node(g, row, power, room, t)) {
        add_leaf(g, value, power, 1, t);
        return;
    }
    add_group(t, value, power, first);
}

void st_rc_terms_of(const stator_graph *graph, uint32_t kind, stator_ref value, st_rc_terms *out)
{
    out->kind = kind;
    out->n_leaves = 0;
    out->n_groups = 0;
    out->numbers = 0;
    split(graph, value, 1, ST_RC_LEAVES, out);
}
