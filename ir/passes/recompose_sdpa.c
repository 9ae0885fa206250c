/* Attention in imported graphs (recompose.h).
 *
 *     s = matmul(mul(q, c), transpose(k)) + mask    y = matmul(softmax(s), v)
 *         ->  y = sdpa(q, k, v, mask)
 *
 * In: the value of a contraction. What may differ from one exporter to the next, all of it found
 * here: numbers on q, on k or on the scores; k transposed by any permutation, or through a rank 3
 * reshape; a mask that is added, or a bool one that selects; more than one mask; the softmax whole,
 * written out, or with NaN rows set to 0; casts around it; fewer k/v heads repeated by expand or
 * tile; three axes in place of four. Out: operands as moves (reshape, transpose) of values of the
 * graph, and the scale as a number.
 *
 * Where a row is masked everywhere with -inf, softmax gives NaN and sdpa gives 0; a bool mask whose
 * fill is finite is added, so that such rows stay what they were. */
#include "core/base/check.h"
#include "ir/passes/recompose.h"
#include <math.h>
#include <stator/ops.h>
#include <string.h>

#define PEEL_MAX 12u
#define SCALE_OFF 2e-7
#define MASK_FILL (-1e9) /* a finite fill must be at most this: adding it drowns every score */

const char st_rc_sdpa_name[] = "sdpa";

typedef struct search {
    const st_rc_patterns *set;
    const stator_graph *g;
    const stator_graph_view *v;
    st_symtab *tab;
    const uint32_t *uses;
    st_rc_attention *a;
    uint32_t dtype; /* dtype of the result */
} search;

static bool keep_node(const search *s, stator_ref value)
{
    st_rc_attention *a = s->a;
    if (a->n_nodes == ST_RC_NODES) {
        return false;
    }
    a->nodes[a->n_nodes++] = stator_value_at(s->v, value)->node;
    return true;
}

static const stator_type_row *type_of(const search *s, stator_ref value)
{
    return stator_value_type(s->v, value);
}

static stator_ref dim_of(const search *s, stator_ref value, uint32_t axis)
{
    return stator_dim_at(s->v, type_of(s, value), axis);
}

static bool is_equal(const search *s, stator_ref a, stator_ref b)
{
    return a == b || st_sym_eq(s->tab, a, b) == 1;
}

static bool is_float(const search *s, stator_ref value)
{
    return st_dtype_class(type_of(s, value)->dtype) == STATOR_CLASS_FLOAT;
}

/* ---- attributes ---- */

static int64_t list_at(const search *s, const stator_attr_row *list, uint32_t i, uint32_t rank)
{
    const int64_t x = stator_attr_int_at(s->v, list, i);
    return st_normalize_axis(x, rank);
}

static const stator_attr_row *attr_of(const search *s, stator_ref value, const char *name)
{
    return st_graph_attr(s->g, stator_value_at(s->v, value)->node, name);
}

/* Is the list first, first+1, ... of n entries? */
static bool counts_from(const search *s, const stator_attr_row *list, uint32_t rank, int64_t first,
                        uint32_t n)
{
    if (list == NULL || list->count != n) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (list_at(s, list, i, rank) != first + i) {
            return false;
        }
    }
    return true;
}

/* ---- contractions ---- */

typedef struct contraction {
    stator_ref x, y;          /* x[.., m, c] with y[.., c, n], or y[.., n, c] */
    uint32_t is_y_transposed; /* y is [.., n, c] */
} contraction;

/* A product of matrices over equal batch axes: matmul, or a dot_general of that form. */
static bool as_contraction(const search *s, stator_ref value, contraction *out)
{
    const stator_node_row *row = st_rc_producer(s->v, value);
    const bool is_matmul = st_rc_is(row, STATOR_OPCODE_matmul);
    if (!is_matmul && !st_rc_is(row, STATOR_OPCODE_dot_general)) {
        return false;
    }
    *out = (contraction){stator_operand(s->v, row, 0), stator_operand(s->v, row, 1), 0};
    const uint32_t rank = type_of(s, out->x)->rank;
    if (rank < 3 || rank > 4 || type_of(s, out->y)->rank != rank) {
        return false;
    }
    if (is_matmul) {
        return true;
    }
    const stator_attr_row *y = attr_of(s, value, "contract_y");
    out->is_y_transposed = counts_from(s, y, rank, rank - 1u, 1);
    return counts_from(s, attr_of(s, value, "batch_x"), rank, 0, rank - 2u) &&
           counts_from(s, attr_of(s, value, "batch_y"), rank, 0, rank - 2u) &&
           counts_from(s, attr_of(s, value, "contract_x"), rank, rank - 1u, 1) &&
           (out->is_y_transposed || counts_from(s, y, rank, rank - 2u, 1));
}

/* ---- numbers and casts on the way ---- */

/* The operand that a number multiplies or divides; 0 when value is no such thing. */
static stator_ref scaled(const search *s, stator_ref value, double *scale)
{
    const stator_node_row *row = st_rc_producer(s->v, value);
    const bool is_div = st_rc_is(row, STATOR_OPCODE_div);
    double x = 0;
    if (!is_div && !st_rc_is(row, STATOR_OPCODE_mul)) {
        return 0;
    }
    const stator_ref a = stator_operand(s->v, row, 0), b = stator_operand(s->v, row, 1);
    stator_ref other = 0;
    if (st_rc_number(s->g, b, &x)) {
        other = a;
        x = is_div ? 1 / x : x;
    } else if (!is_div && st_rc_number(s->g, a, &x)) {
        other = b;
    }
    if (other == 0 || !isfinite(x) || x <= 0 ||
        type_of(s, other)->rank != type_of(s, value)->rank) {
        return 0;
    }
    *scale *= x;
    return other;
}

static stator_ref uncast(const search *s, stator_ref value)
{
    const stator_node_row *row = st_rc_producer(s->v, value);
    if (!st_rc_is(row, STATOR_OPCODE_cast)) {
        return 0;
    }
    const stator_ref x = stator_operand(s->v, row, 0);
    return is_float(s, value) && is_float(s, x) ? x : 0;
}

/* q or k without the numbers on it. */
static stator_ref peel_scale(const search *s, stator_ref value)
{
    for (uint32_t i = 0; i < PEEL_MAX; i++) {
        const stator_ref inner = scaled(s, value, &s->a->scale);
        if (inner == 0 || !keep_node(s, value)) {
            break;
        }
        value = inner;
    }
    return value;
}

/* ---- the softmax ---- */

/* select(is_nan(p), 0, p) */
static stator_ref without_nan(const search *s, stator_ref value)
{
    const stator_node_row *row = st_rc_producer(s->v, value);
    double zero = 1;
    if (!st_rc_is(row, STATOR_OPCODE_select) ||
        !st_rc_number(s->g, stator_operand(s->v, row, 1), &zero) || zero != 0) {
        return 0;
    }
    const stator_ref test = stator_operand(s->v, row, 0);
    const stator_ref p = stator_operand(s->v, row, 2);
    const stator_node_row *is_nan = st_rc_producer(s->v, test);
    return st_rc_is(is_nan, STATOR_OPCODE_is_nan) && stator_operand(s->v, is_nan, 0) == p &&
                   s->uses[p] == 2 && s->uses[test] == 1 && keep_node(s, test)
               ? p
               : 0;
}

/* The scores of a softmax over the last axis, whole or written out. */
static stator_ref softmax_operand(const search *s, stator_ref value)
{
    const int64_t last = (int64_t)type_of(s, value)->rank - 1;
    const stator_node_row *row = st_rc_producer(s->v, value);
    if (st_rc_is(row, STATOR_OPCODE_softmax)) {
        const int64_t axis = stator_attr_at(s->v, row, 0)->i;
        return keep_node(s, value) && (axis == -1 || axis == last) ? stator_operand(s->v, row, 0)
                                                                   : 0;
    }
    for (uint32_t i = 0; i < s->set->n; i++) {
        const st_rc_pattern *p = &s->set->list[i];
        st_rc_found found;
        int64_t axis = 0;
        if (p->def->op != STATOR_OPCODE_softmax || !st_rc_match(p, s->g, value, &found) ||
            !st_rc_axis(p, s->g, &found, &axis) || axis != last) {
            continue;
        }
        for (uint32_t k = 0; k < found.n_nodes; k++) {
            if (s->a->n_nodes < ST_RC_NODES) {
                s->a->nodes[s->a->n_nodes++] = found.nodes[k];
            }
        }
        return found.vars[0];
    }
    return 0;
}

/* Walks from the operand of the second contraction to the scores; nothing else reads the values
 * between, or the scores would be computed twice. */
static stator_ref scores_of(const search *s, stator_ref value)
{
    for (uint32_t i = 0; i < PEEL_MAX; i++) {
        if (i == 0 && s->uses[value] != 1) {
            return 0;
        }
        const stator_ref scores = softmax_operand(s, value);
        if (scores != 0) {
            return scores;
        }
        stator_ref inner = uncast(s, value);
        if (inner != 0 && s->uses[inner] != 1) {
            return 0;
        }
        inner = inner != 0 ? inner : without_nan(s, value);
        if (inner == 0 || !keep_node(s, value)) {
            return 0;
        }
        value = inner;
    }
    return 0;
}

/* ---- masks ---- */

/* Does the value come from a contraction by steps that peel_scores takes? */
static bool is_scores(const search *s, stator_ref value, uint32_t depth)
{
    contraction c;
    double scale = 1;
    if (value == 0 || depth == 0) {
        return false;
    }
    if (as_contraction(s, value, &c)) {
        return true;
    }
    stator_ref inner = scaled(s, value, &scale);
    inner = inner != 0 ? inner : uncast(s, value);
    if (inner != 0) {
        return is_scores(s, inner, depth - 1u);
    }
    const stator_node_row *row = st_rc_producer(s->v, value);
    if (st_rc_is(row, STATOR_OPCODE_add) || st_rc_is(row, STATOR_OPCODE_select)) {
        for (uint32_t k = row->operand_count - 2u; k < row->operand_count; k++) {
            if (is_scores(s, stator_operand(s->v, row, k), depth - 1u)) {
                return true;
            }
        }
    }
    return false;
}

/* Is the mask one that the dtype of the result holds? (Half of a float's range less, and rows that
 * are masked everywhere would change.) */
static bool holds_mask(const search *s, uint32_t kind, stator_ref value, double fill)
{
    const uint32_t bits = st_dtype_bits(s->dtype);
    return kind == ST_MASK_ADDED ? st_dtype_bits(type_of(s, value)->dtype) <= bits
                                 : isinf(fill) || s->dtype != STATOR_F16;
}

static bool add_mask(const search *s, uint32_t kind, stator_ref value, double fill)
{
    st_rc_attention *a = s->a;
    if (a->n_masks == ST_RC_MASKS || type_of(s, value)->rank > 4 ||
        !holds_mask(s, kind, value, fill)) {
        return false;
    }
    a->masks[a->n_masks++] = (st_rc_mask){.kind = kind, .fill = fill, .at = {.value = value}};
    return true;
}

/* add(scores, mask), either way round */
static stator_ref peel_added(const search *s, const stator_node_row *row)
{
    for (uint32_t k = 0; k < 2; k++) {
        const stator_ref x = stator_operand(s->v, row, k), mask = stator_operand(s->v, row, 1u - k);
        if (is_scores(s, x, PEEL_MAX)) {
            return s->a->scale == 1 && add_mask(s, ST_MASK_ADDED, mask, 0) ? x : 0;
        }
    }
    return 0;
}

/* select(mask, scores, fill) and select(mask, fill, scores) */
static stator_ref peel_selected(const search *s, const stator_node_row *row)
{
    const stator_ref mask = stator_operand(s->v, row, 0);
    for (uint32_t k = 1; k < 3; k++) {
        const stator_ref x = stator_operand(s->v, row, k);
        double fill = 0;
        if (!st_rc_number(s->g, stator_operand(s->v, row, 3u - k), &fill) ||
            !is_scores(s, x, PEEL_MAX)) {
            continue;
        }
        fill *= s->a->scale;
        return fill <= MASK_FILL && add_mask(s, k == 1 ? ST_MASK_TRUE : ST_MASK_FALSE, mask, fill)
                   ? x
                   : 0;
    }
    return 0;
}

/* Takes numbers and masks off the scores down to their contraction. A mask that is added under a
 * number is not taken. */
static stator_ref peel_scores(const search *s, stator_ref value)
{
    contraction c;
    for (uint32_t i = 0; i < PEEL_MAX && !as_contraction(s, value, &c); i++) {
        const stator_node_row *row = st_rc_producer(s->v, value);
        stator_ref inner = scaled(s, value, &s->a->scale);
        inner = inner != 0 ? inner : uncast(s, value);
        if (inner == 0 && st_rc_is(row, STATOR_OPCODE_add)) {
            inner = peel_added(s, row);
        } else if (inner == 0 && st_rc_is(row, STATOR_OPCODE_select)) {
            inner = peel_selected(s, row);
        }
        if (inner == 0 || !keep_node(s, value)) {
            return 0;
        }
        value = inner;
    }
    return value;
}

/* ---- k and v ---- */

static void set_transpose(st_rc_step *step, uint32_t rank, const int64_t *perm)
{
    bool is_identity = true;
    *step = (st_rc_step){.rank = rank, .is_transpose = 1};
    for (uint32_t i = 0; i < rank; i++) {
        step->perm[i] = perm[i];
        is_identity = is_identity && perm[i] == i;
    }
    step->rank = is_identity ? 0 : rank;
}

static void set_reshape(st_rc_step *step, uint32_t rank, const stator_ref *dims)
{
    *step = (st_rc_step){.rank = rank};
    memcpy(step->dims, dims, rank * sizeof *dims);
}

/* reshape(transpose(u[BH, S, D]))[B, H, D, S]: k is u as [B, H, S, D]. */
static bool transpose_before_reshape(const search *s, stator_ref value, st_rc_moved *out)
{
    const stator_node_row *row = st_rc_producer(s->v, value);
    const stator_ref t = st_rc_is(row, STATOR_OPCODE_reshape) ? stator_operand(s->v, row, 0) : 0;
    const stator_node_row *transpose = t != 0 ? st_rc_producer(s->v, t) : NULL;
    if (!st_rc_is(transpose, STATOR_OPCODE_transpose) || type_of(s, t)->rank != 3 ||
        type_of(s, value)->rank != 4) {
        return false;
    }
    const stator_attr_row *perm = stator_attr_at(s->v, transpose, 0);
    if (list_at(s, perm, 0, 3) != 0 || list_at(s, perm, 1, 3) != 2 ||
        !is_equal(s, dim_of(s, t, 1), dim_of(s, value, 2)) ||
        !is_equal(s, dim_of(s, t, 2), dim_of(s, value, 3)) || !keep_node(s, value) ||
        !keep_node(s, t)) {
        return false;
    }
    const stator_ref dims[4] = {dim_of(s, value, 0), dim_of(s, value, 1), dim_of(s, value, 3),
                                dim_of(s, value, 2)};
    out->value = stator_operand(s->v, transpose, 0);
    set_reshape(&out->steps[0], 4, dims);
    return true;
}

/* y[.., D, S] of the first contraction as k[.., S, D]: as few moves as there can be. */
static bool swap_last_axes(const search *s, stator_ref value, st_rc_moved *out)
{
    const uint32_t rank = type_of(s, value)->rank;
    int64_t perm[4] = {0};
    if (transpose_before_reshape(s, value, out)) {
        return true;
    }
    const stator_node_row *row = st_rc_producer(s->v, value);
    const bool is_transpose = st_rc_is(row, STATOR_OPCODE_transpose);
    for (uint32_t i = 0; i < rank; i++) {
        perm[i] = is_transpose ? list_at(s, stator_attr_at(s->v, row, 0), i, rank) : (int64_t)i;
    }
    const int64_t last = perm[rank - 1u];
    perm[rank - 1u] = perm[rank - 2u];
    perm[rank - 2u] = last;
    if (is_transpose && !keep_node(s, value)) {
        return false;
    }
    out->value = is_transpose ? stator_operand(s->v, row, 0) : value;
    if (is_transpose) {
        out->value = peel_scale(s, out->value);
    }
    set_transpose(&out->steps[0], rank, perm);
    return true;
}

/* The value that expand or tile of u[.., 1, ..] repeats along the axis behind `axis`: u; 0:
 * none. */
static stator_ref repeated(const search *s, stator_ref value, uint32_t axis)
{
    const stator_node_row *row = st_rc_producer(s->v, value);
    int64_t one = 0;
    if (!st_rc_is(row, STATOR_OPCODE_expand) && !st_rc_is(row, STATOR_OPCODE_tile)) {
        return 0;
    }
    const stator_ref u = stator_operand(s->v, row, 0);
    if (type_of(s, u)->rank != 5 || type_of(s, value)->rank != 5) {
        return 0;
    }
    for (uint32_t i = 0; i < 5; i++) {
        const bool is_axis = i == axis + 1u;
        if (is_axis ? !stator_sym_is_const(s->v, dim_of(s, u, i), &one) || one != 1
                    : !is_equal(s, dim_of(s, u, i), dim_of(s, value, i))) {
            return 0;
        }
    }
    return u;
}

/* reshape(expand(u[B, G, 1, S, D]))[B, H, S, D] is a k or v of G heads. `axis`: where value has its
 * heads. */
static stator_ref ungroup(const search *s, stator_ref value, uint32_t axis, st_rc_step *out)
{
    const stator_node_row *row = st_rc_producer(s->v, value);
    stator_ref dims[4];
    if (!st_rc_is(row, STATOR_OPCODE_reshape) || type_of(s, value)->rank != 4) {
        return 0;
    }
    const stator_ref wide = stator_operand(s->v, row, 0);
    const stator_ref u = repeated(s, wide, axis);
    if (u == 0) {
        return 0;
    }
    for (uint32_t i = 0; i < 4; i++) {
        dims[i] = dim_of(s, u, i <= axis ? i : i + 1u);
        if (i != axis && !is_equal(s, dims[i], dim_of(s, value, i))) {
            return 0;
        }
    }
    set_reshape(out, 4, dims);
    return keep_node(s, value) && keep_node(s, wide) ? u : 0;
}

/* k or v over its own heads, when the graph repeats them for the heads of q. */
static bool use_groups(const search *s, st_rc_moved *x)
{
    st_rc_moved moved = *x;
    const stator_node_row *row = st_rc_producer(s->v, moved.value);
    if (moved.steps[0].rank == 0 && st_rc_is(row, STATOR_OPCODE_transpose) &&
        type_of(s, moved.value)->rank == 4) { /* repeated before it was transposed */
        int64_t perm[4] = {0};
        for (uint32_t i = 0; i < 4; i++) {
            perm[i] = list_at(s, stator_attr_at(s->v, row, 0), i, 4);
        }
        set_transpose(&moved.steps[0], 4, perm);
        moved.value = stator_operand(s->v, row, 0);
        if (!keep_node(s, x->value)) {
            return false;
        }
    }
    if (moved.steps[0].rank != 0 && !moved.steps[0].is_transpose) {
        return false;
    }
    const st_rc_step last = moved.steps[0];
    const uint32_t axis = last.rank != 0 ? (uint32_t)last.perm[1] : 1u;
    const stator_ref u = ungroup(s, moved.value, axis, &moved.steps[0]);
    if (u == 0) {
        return false;
    }
    moved.value = u;
    moved.steps[1] = last;
    *x = moved;
    return true;
}

/* Both or neither: heads of k and v are repeated alike. */
static void find_groups(const search *s)
{
    st_rc_attention *a = s->a;
    const st_rc_attention before = *a;
    if (!use_groups(s, &a->k) || !use_groups(s, &a->v)) {
        *a = before;
    }
}

/* ---- sizes ---- */

/* Sizes that sdpa needs equal are proved equal; whatever it would find out at run time was so in
 * the graph as well. q[.., T, D], k_transposed[.., D, S] or k[.., S, D], v[.., S, E]. */
static bool sizes_fit(const search *s, const contraction *first, stator_ref v)
{
    const uint32_t rank = type_of(s, first->x)->rank;
    const uint32_t length = rank - 1u - first->is_y_transposed;
    const uint32_t depth = rank - 2u + first->is_y_transposed;
    int64_t heads = 0, groups = 0;
    const stator_ref q = first->x, k = first->y;
    if (type_of(s, v)->rank != rank || !is_equal(s, dim_of(s, q, 0), dim_of(s, k, 0)) ||
        !is_equal(s, dim_of(s, q, 0), dim_of(s, v, 0)) ||
        !is_equal(s, dim_of(s, q, rank - 1u), dim_of(s, k, depth)) ||
        !is_equal(s, dim_of(s, k, length), dim_of(s, v, rank - 2u))) {
        return false;
    }
    if (rank == 3 || (is_equal(s, dim_of(s, q, 1), dim_of(s, k, 1)) &&
                      is_equal(s, dim_of(s, k, 1), dim_of(s, v, 1)))) {
        return true;
    }
    return is_equal(s, dim_of(s, k, 1), dim_of(s, v, 1)) &&
           stator_sym_is_const(s->v, dim_of(s, q, 1), &heads) &&
           stator_sym_is_const(s->v, dim_of(s, k, 1), &groups) && groups == 1;
}

/* A value of rank 3 gets a head axis of size 1; `at` is the step to use. */
static bool add_head(const search *s, st_rc_step *at, const stator_ref *dims)
{
    const stator_ref one = st_sym_int(s->tab, 1);
    const stator_ref with_head[4] = {dims[0], one, dims[1], dims[2]};
    set_reshape(at, 4, with_head);
    return one != 0;
}

static bool add_heads(const search *s, const contraction *first, stator_ref v)
{
    st_rc_attention *a = s->a;
    const stator_ref k = first->y;
    const uint32_t transposed = first->is_y_transposed;
    stator_ref dims[4];
    if (type_of(s, v)->rank == 4) {
        return true;
    }
    const stator_ref k_dims[3] = {dim_of(s, k, 0), dim_of(s, k, 2u - transposed),
                                  dim_of(s, k, 1u + transposed)};
    bool ok = add_head(s, &a->k.steps[1], k_dims);
    const stator_ref both[2] = {first->x, v};
    st_rc_step *const steps[2] = {&a->q.steps[1], &a->v.steps[1]};
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t d = 0; d < 3; d++) {
            dims[d] = dim_of(s, both[i], d);
        }
        ok = ok && add_head(s, steps[i], dims);
    }
    for (uint32_t i = 0; i < a->n_masks; i++) {
        const stator_ref mask = a->masks[i].at.value;
        for (uint32_t d = 0; d < 3 && type_of(s, mask)->rank == 3; d++) {
            dims[d] = dim_of(s, mask, d);
        }
        ok = ok && type_of(s, mask)->rank < 4 &&
             (type_of(s, mask)->rank < 3 || add_head(s, &a->masks[i].at.steps[0], dims));
    }
    return ok;
}

/* ---- the whole ---- */

/* 1/sqrt(D) of the graph's numbers is rounded; the plain formula's value is meant. */
static void round_scale(const search *s, stator_ref q)
{
    int64_t depth = 0;
    const stator_type_row *type = type_of(s, q);
    if (!stator_sym_is_const(s->v, stator_dim_at(s->v, type, type->rank - 1u), &depth) ||
        depth <= 0) {
        return;
    }
    const double plain = 1 / sqrt((double)depth);
    if (fabs(s->a->scale - plain) <= SCALE_OFF * plain) {
        s->a->scale = plain;
    }
}

bool st_rc_match_sdpa(const st_rc_patterns *set, const stator_graph *graph, const uint32_t *uses,
                      stator_ref value, st_rc_attention *out)
{
    const stator_graph_view *v = st_graph_view(graph);
    const search s = {.set = set,
                      .g = graph,
                      .v = v,
                      .tab = &graph->module->symtab,
                      .uses = uses,
                      .a = out,
                      .dtype = stator_value_type(v, value)->dtype};
    contraction second, first;
    *out = (st_rc_attention){.scale = 1};
    if (!as_contraction(&s, value, &second) || second.is_y_transposed || !is_float(&s, value)) {
        return false;
    }
    stator_ref scores = scores_of(&s, second.x);
    scores = scores != 0 ? peel_scores(&s, scores) : 0;
    if (scores == 0 || !as_contraction(&s, scores, &first) || !keep_node(&s, scores) ||
        type_of(&s, first.x)->rank != type_of(&s, value)->rank ||
        !sizes_fit(&s, &first, second.y)) {
        return false;
    }
    out->q.value = peel_scale(&s, first.x);
    out->v.value = second.y;
    out->k.value = peel_scale(&s, first.y);
    if (!first.is_y_transposed && !swap_last_axes(&s, out->k.value, &out->k)) {
        return false;
    }
    if (!add_heads(&s, &first, second.y)) {
        return false;
    }
    if (type_of(&s, value)->rank == 3) {
        const stator_type_row *type = type_of(&s, value);
        out->result.rank = 3;
        for (uint32_t i = 0; i < 3; i++) {
            out->result.dims[i] = stator_dim_at(s.v, type, i);
        }
    } else {
        find_groups(&s);
    }
    round_scale(&s, out->q.value);
    return isfinite(out->scale) != 0;
}
