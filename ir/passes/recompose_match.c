/* Matching of recompose: is this value of a graph what that pattern computes?
 *
 * A state holds what is bound so far and pairs (value of the pattern, value of the graph) that must
 * still agree. One pair is taken at a time; where there is a choice (commuting operands, terms of a
 * sum or a product) each is tried on a copy of the state, so that a choice which turns out wrong
 * further on is taken back. Attempts are cut off after ST_RC_STEPS pairs. */
#include "core/base/check.h"
#include "core/base/convert.h"
#include "ir/passes/recompose.h"
#include <math.h>
#include <string.h>

typedef struct goal {
    stator_ref pattern;
    stator_ref value;
} goal;

typedef struct state {
    st_rc_found found;
    uint32_t n_goals;
    goal goals[ST_RC_GOALS];
} state;

typedef struct matcher {
    const st_rc_pattern *pattern;
    const stator_graph_view *pv;
    const stator_graph *graph;
    const stator_graph_view *v;
    double tolerance;
    uint32_t steps;
    st_rc_found *out;
} matcher;

static bool solve(matcher *m, state *s);

static bool push(state *s, stator_ref pattern, stator_ref value)
{
    if (s->n_goals == ST_RC_GOALS || value == 0) {
        return false;
    }
    s->goals[s->n_goals++] = (goal){pattern, value};
    return true;
}

static bool push_node(const matcher *m, state *s, stator_ref value)
{
    const stator_ref node = stator_value_at(m->v, value)->node;
    if (node == 0 || s->found.n_nodes == ST_RC_NODES) {
        return node == 0;
    }
    s->found.nodes[s->found.n_nodes++] = node;
    return true;
}

/* ---- numbers ---- */

static bool is_close(const matcher *m, double a, double b)
{
    return fabs(a - b) <= m->tolerance * fmax(fabs(a), fabs(b)) || (isinf(a) && a == b);
}

static double rounded_to(uint32_t dtype, double x)
{
    double bits[2] = {0};
    st_store_f64(dtype, bits, 0, x);
    return st_load_f64(dtype, bits, 0);
}

/* Is x the pattern's number, as a value of `dtype`? What f16 and bf16 have too (1, 0.5, 3) is meant
 * as it is: 1.000001 + erf(x) is another function where the sum cancels. Others were written with
 * some digits. */
static bool is_number(const matcher *m, double wanted, double x, uint32_t dtype)
{
    const bool is_short =
        rounded_to(STATOR_F16, wanted) == wanted && rounded_to(STATOR_BF16, wanted) == wanted;
    return is_short ? rounded_to(dtype, x) == wanted : is_close(m, wanted, x);
}

static uint32_t dtype_of(const stator_graph_view *v, stator_ref value)
{
    return stator_value_type(v, value)->dtype;
}

/* Index of the hole that a number of the pattern stands for; ST_RC_HOLES for the size; UINT32_MAX:
 * it is a plain number. */
static uint32_t hole_of(double number)
{
    for (uint32_t k = 0; k < ST_RC_HOLES; k++) {
        if (number == st_rc_hole(k)) {
            return k;
        }
    }
    return number == ST_RC_SIZE ? ST_RC_HOLES : UINT32_MAX;
}

static bool fill_hole(const matcher *m, state *s, uint32_t hole, double x)
{
    st_rc_found *f = &s->found;
    if (!isfinite(x)) {
        return false;
    }
    if (hole == ST_RC_HOLES) {
        const bool fits = f->size == 0 || is_close(m, f->size, x);
        f->size = x;
        return fits && x > 0;
    }
    if ((f->has_hole >> hole & 1u) != 0) {
        return is_close(m, f->holes[hole], x);
    }
    f->has_hole |= 1u << hole;
    f->holes[hole] = x;
    return true;
}

static bool match_number(const matcher *m, state *s, double wanted, stator_ref value)
{
    double x = 0;
    if (!st_rc_number(m->graph, value, &x)) {
        return false;
    }
    const uint32_t hole = hole_of(wanted);
    return hole != UINT32_MAX ? fill_hole(m, s, hole, x)
                              : is_number(m, wanted, x, dtype_of(m->v, value));
}

/* ---- terms ---- */

typedef struct terms_goal {
    st_rc_terms p, g;
    uint32_t dtype;               /* dtype of the graph's value */
    uint8_t rank[ST_RC_LEAVES];   /* ranks of the pattern's leaves, see rank_of */
    uint32_t order[ST_RC_LEAVES]; /* the pattern's leaves that are no numbers */
    uint32_t n;
    uint32_t taken;               /* leaves of the graph */
    uint32_t whole[ST_RC_LEAVES]; /* leaves that one variable each took: their inside is not ours */
    uint32_t n_whole;
} terms_goal;

static bool is_var(const matcher *m, stator_ref pattern)
{
    return stator_value_at(m->pv, pattern)->node == 0;
}

/* Order in which leaves are matched, the most specific first: ops, sums and products, variables. */
static uint32_t rank_of(const matcher *m, stator_ref pattern)
{
    return is_var(m, pattern) ? 2 : st_rc_term_kind(m->pattern->graph, pattern) != ST_TERM_NONE;
}

static void order_leaves(const matcher *m, terms_goal *t)
{
    for (uint32_t i = 0; i < t->p.n_leaves; i++) {
        t->rank[i] = (t->p.numbers >> i & 1u) == 0 ? (uint8_t)rank_of(m, t->p.leaf[i].value) : 3;
    }
    for (uint32_t rank = 0; rank < 3; rank++) {
        for (uint32_t i = 0; i < t->p.n_leaves; i++) {
            if (t->rank[i] == rank) {
                t->order[t->n++] = i;
            }
        }
    }
}

/* The numbers that are left over on both sides agree. */
static bool match_rest(const matcher *m, state *s, const terms_goal *t)
{
    const bool is_product = t->p.kind == ST_TERM_PRODUCT;
    double have = is_product, want = is_product, power = 1;
    uint32_t hole = UINT32_MAX;
    for (uint32_t i = 0; i < t->g.n_leaves; i++) {
        if ((t->taken >> i & 1u) == 0) {
            have = is_product ? have * t->g.number[i] : have + t->g.number[i];
        }
    }
    for (uint32_t i = 0; i < t->p.n_leaves; i++) {
        double x = 0;
        if ((t->p.numbers >> i & 1u) == 0) {
            continue;
        }
        if (t->p.leaf[i].value != 0 && st_rc_number(m->pattern->graph, t->p.leaf[i].value, &x) &&
            hole_of(x) != UINT32_MAX) {
            if (hole != UINT32_MAX) {
                return false;
            }
            hole = hole_of(x);
            power = t->p.leaf[i].power;
            continue;
        }
        want = is_product ? want * t->p.number[i] : want + t->p.number[i];
    }
    if (hole == UINT32_MAX) {
        return is_number(m, want, have, t->dtype);
    }
    return fill_hole(m, s, hole, is_product ? pow(have / want, 1 / power) : (have - want) / power);
}

/* Every leaf that no part of the pattern took is a number. */
static bool only_numbers_left(const terms_goal *t, uint32_t taken)
{
    const uint32_t all = (1u << t->g.n_leaves) - 1u;
    return ((taken | t->g.numbers) & all) == all;
}

static bool is_inside_var(const terms_goal *t, uint32_t bits)
{
    for (uint32_t i = 0; i < t->n_whole; i++) {
        if ((bits & t->whole[i]) == bits) {
            return true;
        }
    }
    return false;
}

/* The values between that the composite replaces: those no variable took. */
static bool push_inside(const matcher *m, state *s, const terms_goal *t)
{
    for (uint32_t i = 0; i < t->g.n_groups; i++) {
        const st_rc_group *g = &t->g.group[i];
        const uint32_t bits = ((1u << g->count) - 1u) << g->first;
        const bool is_leaf = g->value != 0 && g->value == t->g.leaf[g->first].value;
        if (g->value != 0 && !is_leaf && !is_inside_var(t, bits) && !push_node(m, s, g->value)) {
            return false;
        }
    }
    return true;
}

static bool can_be(const matcher *m, const state *s, stator_ref pattern, uint32_t rank,
                   stator_ref value)
{
    const stator_value_row *row = stator_value_at(m->pv, pattern);
    if (row->node == 0) {
        const stator_ref bound = s->found.vars[row->index];
        return bound == 0 || bound == value;
    }
    if (rank != 0) {
        return true;
    }
    const stator_node_row *node = st_rc_producer(m->v, value);
    return node != NULL && node->op == stator_node_at(m->pv, row->node)->op;
}

/* Gives leaf order[i] of the pattern, and those behind it, values of the graph. */
static bool assign(matcher *m, const state *s, const terms_goal *t, uint32_t i)
{
    state next;
    if (m->steps == 0 || --m->steps == 0) {
        return false;
    }
    if (i == t->n) {
        next = *s;
        return match_rest(m, &next, t) && push_inside(m, &next, t) && solve(m, &next);
    }
    const st_rc_group *p = &t->p.leaf[t->order[i]];
    for (uint32_t k = 0; k < t->g.n_groups; k++) {
        const st_rc_group *g = &t->g.group[k];
        const uint32_t bits = ((1u << g->count) - 1u) << g->first;
        if (g->value == 0 || g->power != p->power || (bits & t->taken) != 0 ||
            (i + 1u == t->n && !only_numbers_left(t, t->taken | bits)) ||
            !can_be(m, s, p->value, t->rank[t->order[i]], g->value)) {
            continue;
        }
        terms_goal rest = *t;
        rest.taken |= bits;
        next = *s;
        if (is_var(m, p->value)) {
            rest.whole[rest.n_whole++] = bits;
        }
        if (push(&next, p->value, g->value) && assign(m, &next, &rest, i + 1u)) {
            return true;
        }
    }
    return false;
}

static bool match_terms(matcher *m, const state *s, uint32_t kind, const goal *at)
{
    terms_goal t = {.dtype = dtype_of(m->v, at->value)};
    st_rc_terms_of(m->pattern->graph, kind, at->pattern, &t.p);
    st_rc_terms_of(m->graph, kind, at->value, &t.g);
    order_leaves(m, &t);
    return t.n <= t.g.n_leaves && (t.n != 0 || only_numbers_left(&t, 0)) && assign(m, s, &t, 0);
}

/* ---- ops ---- */

/* Axes as a bit set of `rank` bits. */
static bool axes_of(const stator_graph_view *v, const stator_attr_row *list, uint32_t rank,
                    uint32_t *out)
{
    *out = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const int64_t axis = stator_attr_int_at(v, list, i);
        const int64_t at = st_normalize_axis(axis, rank);
        if (at < 0 || at >= rank) {
            return false;
        }
        *out |= 1u << at;
    }
    return true;
}

static bool match_axes(const matcher *m, state *s, const stator_node_row *row,
                       const stator_attr_row *attr)
{
    const stator_ref x = stator_operand(m->v, row, 0);
    const uint32_t rank = stator_value_type(m->v, x)->rank;
    uint32_t axes = 0;
    if (!axes_of(m->v, attr, rank, &axes) || axes == 0 ||
        (s->found.axes_rank != 0 && (s->found.axes != axes || s->found.axes_rank != rank))) {
        return false;
    }
    s->found.axes = axes;
    s->found.axes_rank = rank;
    s->found.reduced = x;
    return true;
}

/* A cast of the pattern goes to f32 or back to the narrow dtype, whichever that is. */
static bool match_dtype(int64_t pattern, int64_t dtype)
{
    if (pattern == STATOR_BF16) {
        return st_dtype_class((stator_dtype)dtype) == STATOR_CLASS_FLOAT &&
               st_dtype_bits((stator_dtype)dtype) < 32u;
    }
    return pattern == dtype;
}

static bool match_attr(const matcher *m, state *s, const stator_node_row *row,
                       const stator_attr_row *p, const stator_attr_row *g, const char *name)
{
    if (p->kind != g->kind) {
        return false;
    }
    switch (p->kind) {
    case STATOR_ATTR_NONE:
        return true;
    case STATOR_ATTR_INT:
        return p->i == g->i;
    case STATOR_ATTR_FLOAT:
        return hole_of(p->f) != UINT32_MAX ? fill_hole(m, s, hole_of(p->f), g->f)
                                           : is_number(m, p->f, g->f, STATOR_F32);
    case STATOR_ATTR_DTYPE:
        return match_dtype(p->i, g->i);
    case STATOR_ATTR_STRING:
        return strcmp(stator_string_at(m->pv, p->begin), stator_string_at(m->v, g->begin)) == 0;
    case STATOR_ATTR_INTS:
        return strcmp(name, "axes") == 0 && match_axes(m, s, row, g);
    default:
        return false;
    }
}

static bool push_operands(const matcher *m, state *s, const stator_node_row *p,
                          const stator_node_row *g, bool is_swapped)
{
    const uint32_t n = p->operand_count;
    for (uint32_t k = 0; k < n; k++) {
        const stator_ref operand = stator_operand(m->pv, p, k);
        const stator_ref value = stator_operand(m->v, g, is_swapped ? n - 1u - k : k);
        if ((operand == 0) != (value == 0) || (operand != 0 && !push(s, operand, value))) {
            return false;
        }
    }
    return true;
}

static bool match_op(matcher *m, const state *s, const goal *at)
{
    const stator_node_row *p = st_rc_producer(m->pv, at->pattern);
    const stator_node_row *g = st_rc_producer(m->v, at->value);
    state next = *s;
    if (p == NULL || g == NULL || p->op != g->op || p->operand_count != g->operand_count ||
        p->region_count != 0 || !push_node(m, &next, at->value)) {
        return false;
    }
    const stator_op_desc *op = stator_op_at(m->v, g->op);
    for (uint32_t k = 0; k < g->attr_count; k++) {
        if (!match_attr(m, &next, g, stator_attr_at(m->pv, p, k), stator_attr_at(m->v, g, k),
                        op->attrs[k].name)) {
            return false;
        }
    }
    if ((op->flags & STATOR_OP_COMMUTES) != 0 && g->operand_count == 2) {
        state other = next;
        if (push_operands(m, &other, p, g, true) && solve(m, &other)) {
            return true;
        }
    }
    return push_operands(m, &next, p, g, false) && solve(m, &next);
}

/* ---- a state ---- */

static bool bind(state *s, uint32_t var, stator_ref value)
{
    if (s->found.vars[var] == 0) {
        s->found.vars[var] = value;
    }
    return s->found.vars[var] == value;
}

static bool solve(matcher *m, state *s)
{
    while (s->n_goals != 0) {
        const goal at = s->goals[--s->n_goals];
        const stator_value_row *row = stator_value_at(m->pv, at.pattern);
        double number = 0;
        if (m->steps == 0 || --m->steps == 0) {
            return false;
        }
        if (row->node == 0) {
            if (!bind(s, row->index, at.value)) {
                return false;
            }
            continue;
        }
        if (st_rc_number(m->pattern->graph, at.pattern, &number)) {
            if (!match_number(m, s, number, at.value)) {
                return false;
            }
            continue;
        }
        const uint32_t kind = st_rc_term_kind(m->pattern->graph, at.pattern);
        return kind != ST_TERM_NONE ? match_terms(m, s, kind, &at) : match_op(m, s, &at);
    }
    *m->out = s->found;
    return true;
}

/* ---- the whole ---- */

/* How far numbers may be off that no dtype has: exporters write them with six digits or more, and
 * in the tensor's dtype. */
static double tolerance_of(uint32_t dtype)
{
    return dtype == STATOR_F16 ? 1e-3 : st_dtype_bits(dtype) < 32u ? 8e-3 : 2e-6;
}

bool st_rc_match(const st_rc_pattern *pattern, const stator_graph *graph, stator_ref value,
                 st_rc_found *out)
{
    const stator_graph_view *v = st_graph_view(graph);
    state s = {.n_goals = 1, .goals = {{pattern->root, value}}};
    matcher m = {.pattern = pattern,
                 .pv = st_graph_view(pattern->graph),
                 .graph = graph,
                 .v = v,
                 .tolerance = tolerance_of(dtype_of(v, value)),
                 .steps = ST_RC_STEPS,
                 .out = out};
    const stator_node_row *row = st_rc_producer(v, value);
    if (row == NULL ||
        (pattern->kind != ST_TERM_NONE ? st_rc_term_kind(graph, value) != pattern->kind
                                       : row->op != pattern->op)) {
        return false;
    }
    if (!solve(&m, &s)) {
        return false;
    }
    for (uint32_t k = 0; k < pattern->def->operands; k++) {
        if (out->vars[k] == 0) {
            return false;
        }
    }
    return true;
}

/* The literal number of reduced elements is the right one. */
static bool size_fits(const stator_graph *g, const st_rc_found *f)
{
    const stator_graph_view *v = st_graph_view(g);
    const stator_type_row *type = stator_value_type(v, f->reduced);
    double size = 1;
    for (uint32_t i = 0; i < type->rank; i++) {
        int64_t n = 0;
        if ((f->axes >> i & 1u) != 0) {
            if (!stator_sym_is_const(v, stator_dim_at(v, type, i), &n)) {
                return false;
            }
            size *= (double)n;
        }
    }
    return fabs(size - f->size) <= 0x1p-22 * size; /* 1 / size was rounded to f32 */
}

bool st_rc_axis(const st_rc_pattern *pattern, const stator_graph *graph, const st_rc_found *found,
                int64_t *out_axis)
{
    const stator_graph_view *v = st_graph_view(graph);
    const uint32_t rank = stator_value_type(v, found->vars[0])->rank;
    const uint32_t all = rank < 32u ? (1u << rank) - 1u : UINT32_MAX;
    *out_axis = 0;
    if (pattern->def->axes == ST_AXES_NONE) {
        return true;
    }
    if (found->axes_rank != rank || found->axes == 0 ||
        (found->size != 0 && !size_fits(graph, found))) {
        return false;
    }
    *out_axis = __builtin_ctz(found->axes);
    return pattern->def->axes == ST_AXES_ONE ? (found->axes & (found->axes - 1u)) == 0
                                             : found->axes == (all & (all << *out_axis));
}
