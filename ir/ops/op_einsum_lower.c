/* Decompositions of einsum and matmul into dot_general, reduce_sum and transpose.
 *
 *     einsum("bij,jk->bki", x, y)  ->  transpose(dot_general(x, y, contract j), "bik" -> "bki")
 *
 * In: operands whose axes carry labels. Each operand is first put in order: axes of size 1 that
 * another operand repeats are dropped, repeated labels become a diagonal, labels nobody else needs
 * are summed. Then operands are contracted from the left: labels both have are batch axes when a
 * later operand or the result needs them, contracted otherwise. Sizes that are not proved equal may
 * turn out to be 1 in one operand: both are expanded to the size they broadcast to (a view).
 * Broadcasting thus moves no data.
 * Invariant: the labels of a term are distinct and one an axis. */
#include "ir/op_emitter.h"
#include "ir/ops/op_einsum.h"
#include "ir/ops/rules.h"
#include <stator/ops.h>
#include <string.h>

#define LABELS ST_EINSUM_LABELS

typedef struct term {
    stator_ref value;
    uint8_t labels[STATOR_RANK_MAX];
    uint32_t n;
} term;

typedef struct contraction {
    stator_emitter *e;
    uint32_t needs[LABELS]; /* operands not yet contracted, and the result, that have the label */
    uint8_t is_one[LABELS]; /* every operand has size 1 there */
    uint32_t strict;        /* a label whose sizes must be equal, LABELS: none */
} contraction;

static int64_t find_label(const term *t, uint8_t label)
{
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->labels[i] == label) {
            return i;
        }
    }
    return -1;
}

static void remove_axis(term *t, uint32_t axis)
{
    t->n--;
    memmove(t->labels + axis, t->labels + axis + 1u, t->n - axis);
}

/* Drops axes of size 1 whose label has another size elsewhere. */
static void drop_ones(const contraction *c, term *t)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t before = t->n;
    uint32_t n = 0;
    for (uint32_t i = 0, axis = 0; i < before; i++) {
        const stator_ref dim = stator_emit_dim(c->e, t->value, i);
        if (stator_emit_is(c->e, dim, 1) && !c->is_one[t->labels[axis]]) {
            remove_axis(t, axis);
            continue;
        }
        dims[n++] = dim;
        axis++;
    }
    if (n != before) {
        t->value = stator_emit_reshape(c->e, t->value, n, dims);
    }
}

static void sum_axis(const contraction *c, term *t, uint32_t axis)
{
    const int64_t axes[1] = {axis};
    t->value =
        stator_emit_op(c->e, "reduce_sum", 1, &t->value, STATOR_AT(STATOR_A_INTS("axes", 1, axes)));
    remove_axis(t, axis);
}

/* Axes a < b of the same label become axis a: all but the diagonal is masked, then b is summed. */
static void take_diagonal(const contraction *c, term *t, uint32_t a, uint32_t b)
{
    const stator_ref one = stator_emit_size(c->e, 1);
    stator_ref row[STATOR_RANK_MAX], column[STATOR_RANK_MAX];
    for (uint32_t i = 0; i < t->n; i++) {
        row[i] = i == a ? stator_emit_dim(c->e, t->value, a) : one;
        column[i] = i == b ? stator_emit_dim(c->e, t->value, b) : one;
    }
    t->value = stator_emit_expr(
        c->e, "select(iota(shape=row, axis=a) == iota(shape=column, axis=b), x, 0)", "x", 1,
        &t->value,
        STATOR_AT(STATOR_A_DIMS("row", t->n, row), STATOR_A_DIMS("column", t->n, column),
                  STATOR_A_INT("a", a), STATOR_A_INT("b", b)));
    sum_axis(c, t, b);
}

/* Brings an operand in order; see the head of the file. */
static void prepare(contraction *c, term *t)
{
    drop_ones(c, t);
    for (uint32_t i = 0; i < t->n; i++) {
        for (uint32_t j = t->n; j-- > i + 1u;) {
            if (t->labels[j] == t->labels[i]) {
                take_diagonal(c, t, i, j);
            }
        }
    }
}

/* Sums the labels that nobody needs any more. */
static void sum_unneeded(const contraction *c, term *t)
{
    for (uint32_t i = t->n; i-- > 0;) {
        if (c->needs[t->labels[i]] == 0) {
            sum_axis(c, t, i);
        }
    }
}

/* The size that a and b broadcast to. A formula beyond a limit becomes an unbacked symbol that the
 * running program binds. */
static stator_ref broadcast_size(stator_emitter *e, stator_ref a, stator_ref b)
{
    const st_infer in = {.m = e->b->module};
    stator_ref sym = e->status == STATOR_OK ? st_in_broadcast_dim(&in, a, b) : 0;
    if (sym != 0 || e->status != STATOR_OK) {
        return sym;
    }
    const stator_ref size =
        stator_emit_expr(e, "s = scalar(p[0], i64); select(s == 1, scalar(q[0], i64), s)", "", 0,
                         NULL, STATOR_AT(STATOR_A_DIMS("p", 1, &a), STATOR_A_DIMS("q", 1, &b)));
    return stator_emit_check(e, st_build_as_dims(e->b, size, 1, &sym, e->err)) ? sym : 0;
}

/* Expands the axes that a and b share, where a size may be 1 and the other not, as far as is known
 * when the graph is built. */
static void match_sizes(const contraction *c, term *a, term *b)
{
    term *terms[2] = {a, b};
    stator_ref dims[2][STATOR_RANK_MAX];
    uint32_t grows[2] = {0, 0};
    stator_emit_dims(c->e, a->value, dims[0]);
    stator_emit_dims(c->e, b->value, dims[1]);
    for (uint32_t i = 0; i < a->n; i++) {
        const int j = find_label(b, a->labels[i]);
        if (j < 0 || a->labels[i] == c->strict ||
            st_sym_eq(&c->e->b->module->symtab, dims[0][i], dims[1][j]) >= 0) {
            continue;
        }
        const stator_ref size = broadcast_size(c->e, dims[0][i], dims[1][j]);
        grows[0] |= size != dims[0][i];
        grows[1] |= size != dims[1][j];
        dims[0][i] = size;
        dims[1][j] = size;
    }
    for (uint32_t t = 0; t < 2; t++) {
        if (grows[t]) {
            terms[t]->value = stator_emit_expand(c->e, terms[t]->value, terms[t]->n, dims[t]);
        }
    }
}

static void contract(const contraction *c, term *a, term *b)
{
    match_sizes(c, a, b);
    int64_t batch[2][STATOR_RANK_MAX], sum[2][STATOR_RANK_MAX];
    uint32_t n_batch = 0, n_sum = 0, n = 0;
    uint8_t labels[3 * STATOR_RANK_MAX];
    for (uint32_t i = 0; i < a->n; i++) {
        const int j = find_label(b, a->labels[i]);
        if (j >= 0 && c->needs[a->labels[i]] != 0) {
            labels[n++] = a->labels[i];
            batch[0][n_batch] = i;
            batch[1][n_batch++] = j;
        } else if (j >= 0) {
            sum[0][n_sum] = i;
            sum[1][n_sum++] = j;
        }
    }
    for (uint32_t i = 0; i < a->n; i++) {
        if (find_label(b, a->labels[i]) < 0) {
            labels[n++] = a->labels[i];
        }
    }
    for (uint32_t i = 0; i < b->n; i++) {
        if (find_label(a, b->labels[i]) < 0) {
            labels[n++] = b->labels[i];
        }
    }
    a->value = stator_emit_op(c->e, "dot_general", 2, (const stator_ref[2]){a->value, b->value},
                              STATOR_AT(STATOR_A_INTS("batch_x", n_batch, batch[0]),
                                        STATOR_A_INTS("batch_y", n_batch, batch[1]),
                                        STATOR_A_INTS("contract_x", n_sum, sum[0]),
                                        STATOR_A_INTS("contract_y", n_sum, sum[1])));
    if (n > STATOR_RANK_MAX) {
        stator_emit_fail(c->e, STATOR_UNIMPLEMENTED, "an intermediate result has more than %d axes",
                         STATOR_RANK_MAX);
        return;
    }
    memcpy(a->labels, labels, n);
    a->n = n;
}

static stator_ref in_order(const contraction *c, const term *t, const uint8_t *out, uint32_t n_out)
{
    int64_t perm[STATOR_RANK_MAX];
    for (uint32_t i = 0; i < n_out && i < STATOR_RANK_MAX; i++) {
        const int at = find_label(t, out[i]);
        ST_FAIL_BY_IF(stator_emit_fail, at < 0 || n_out != t->n, c->e, STATOR_INTERNAL,
                      "the contraction lost an axis");
        perm[i] = at;
    }
    return stator_emit_transpose(c->e, t->value, n_out, perm);
}

static void count_labels(contraction *c, const term *terms, uint32_t n, const uint8_t *out,
                         uint32_t n_out)
{
    memset(c->needs, 0, sizeof c->needs);
    memset(c->is_one, 1, sizeof c->is_one);
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t i = 0; i < terms[k].n; i++) {
            const uint8_t label = terms[k].labels[i];
            if (!stator_emit_is(c->e, stator_emit_dim(c->e, terms[k].value, i), 1)) {
                c->is_one[label] = 0;
            }
        }
    }
    for (uint32_t i = 0; i < n_out; i++) {
        c->needs[out[i]]++;
    }
}

/* Adds (or takes away) one to the count of each label of a term. */
static void add_needs(contraction *c, const term *t, int step)
{
    for (uint32_t i = 0; i < t->n; i++) {
        c->needs[t->labels[i]] += (uint32_t)step;
    }
}

/* Contracts all terms to one whose axes are `out`. Sizes of the label `strict` do not broadcast. */
static stator_ref contract_all(stator_emitter *e, term *terms, uint32_t n, const uint8_t *out,
                               uint32_t n_out, uint32_t strict)
{
    contraction c = {.e = e, .strict = strict};
    count_labels(&c, terms, n, out, n_out);
    for (uint32_t i = 0; i < n; i++) {
        prepare(&c, &terms[i]);
        add_needs(&c, &terms[i], 1);
    }
    add_needs(&c, &terms[0], -1);
    sum_unneeded(&c, &terms[0]);
    for (uint32_t i = 1; i < n && e->status == STATOR_OK; i++) {
        term own = terms[i];
        add_needs(&c, &terms[i], -1);
        for (uint32_t j = own.n; j-- > 0;) { /* labels of this operand alone */
            if (c.needs[own.labels[j]] == 0 && find_label(&terms[0], own.labels[j]) < 0) {
                sum_axis(&c, &own, j);
            }
        }
        contract(&c, &terms[0], &own);
        sum_unneeded(&c, &terms[0]);
    }
    return e->status == STATOR_OK ? in_order(&c, &terms[0], out, n_out) : 0;
}

stator_status st_dec_einsum(stator_builder *b, const st_decompose_node *node,
                            stator_ref *out_results, stator_diag **err)
{
    stator_emitter e = st_op_emitter(b, err);
    st_einsum eq;
    uint32_t ranks[ST_EINSUM_OPERANDS_MAX];
    term terms[ST_EINSUM_OPERANDS_MAX];
    for (uint32_t i = 0; i < node->n_operands; i++) {
        ranks[i] = stator_emit_rank(&e, node->operands[i]);
    }
    ST_TRY(
        st_einsum_parse(node->attrs[STATOR_einsum_equation].s, node->n_operands, ranks, &eq, err));
    for (uint32_t i = 0; i < node->n_operands; i++) {
        terms[i] = (term){.value = stator_emit_wide(&e, node->operands[i]), .n = ranks[i]};
        memcpy(terms[i].labels, eq.labels[i], ranks[i]);
    }
    const stator_ref y = contract_all(&e, terms, node->n_operands, eq.out, eq.n_out, LABELS);
    out_results[0] = stator_emit_cast(&e, y, stator_emit_dtype(&e, node->operands[0]));
    return e.status;
}

/* matmul as labels: batch axes are numbered from the last, m and n are the matrix axes. */
stator_status st_dec_matmul(stator_builder *b, const st_decompose_node *node,
                            stator_ref *out_results, stator_diag **err)
{
    enum { LABEL_M = 40, LABEL_K = 41, LABEL_N = 42 };
    stator_emitter e = st_op_emitter(b, err);
    term terms[2] = {{.value = node->operands[0]}, {.value = node->operands[1]}};
    uint8_t out[STATOR_RANK_MAX + 2];
    uint32_t batch[2], n_out = 0;
    for (uint32_t t = 0; t < 2; t++) {
        const uint32_t rank = stator_emit_rank(&e, terms[t].value);
        batch[t] = rank > 2 ? rank - 2u : 0;
        terms[t].n = rank;
        for (uint32_t i = 0; i < batch[t]; i++) {
            terms[t].labels[i] = (uint8_t)(batch[t] - 1u - i);
        }
        if (rank == 1) {
            terms[t].labels[0] = LABEL_K;
        } else {
            terms[t].labels[rank - 2u] = t == 0 ? LABEL_M : LABEL_K;
            terms[t].labels[rank - 1u] = t == 0 ? LABEL_K : LABEL_N;
        }
    }
    for (uint32_t i = batch[0] > batch[1] ? batch[0] : batch[1]; i-- > 0;) {
        out[n_out++] = (uint8_t)i;
    }
    if (terms[0].n > 1) {
        out[n_out++] = LABEL_M;
    }
    if (terms[1].n > 1) {
        out[n_out++] = LABEL_N;
    }
    out_results[0] = contract_all(&e, terms, 2, out, n_out, LABEL_K);
    return e.status;
}
