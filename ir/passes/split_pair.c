/* Two folds of the same long rows, which would read them twice, read them once.
 *
 *     m = reduce_max(x); s = reduce_sum(exp(x - m))          softmax, logsumexp
 *     ->  for each part: b = reduce_max(x), t = reduce_sum(exp(x - b))
 *         m = reduce_max(b); s = reduce_sum(t * exp(b - m))
 *
 *     f = reduce_sum(x); a = f / n; q = reduce_sum((x - a) * (x - a))       variance, norms
 *     ->  for each part of l: g = reduce_sum(x), b = g / l, t = reduce_sum((x - b) * (x - b))
 *         f = reduce_sum(g); q = reduce_sum(t + (b - a) * (b - a) * l)
 *
 * A part stays in a cache between its two folds. No sum is of larger numbers, and no difference of
 * nearer ones, than before. A part of -inf alone takes 0 off, or its exp(x - b) would be NaN where
 * exp(x - m) is 0; its b stays -inf, so that exp(b - m) is 0 however small m is. Sources: Milakov
 * and Gimelshein, Online normalizer calculation for softmax, 2018; Chan, Golub and LeVeque,
 * Updating formulae for computing sample variances, 1979. */
#include "core/base/vec.h"
#include "ir/passes/split.h"

#include <stator/ops.h>
#include <string.h>

/* ---- finding them ---- */

/* The node that makes the value, if it is one of that op; else 0. */
static stator_ref made_by(const st_copy *c, stator_ref value, const char *op)
{
    const stator_ref node = value ? stator_value_at(c->v, value)->node : 0;
    return node != 0 && strcmp(st_copy_op(c, node)->name, op) == 0 ? node : 0;
}

static stator_ref operand_of(const st_copy *c, stator_ref node, uint32_t k)
{
    return node ? stator_operand(c->v, stator_node_at(c->v, node), k) : 0;
}

/* exp(x - max), or d * d of d = x - a: fills x and the rest. */
static bool match_shifted(const st_copy *c, stator_ref value, st_fold_pair *out, stator_ref *out_x)
{
    const stator_ref exp = made_by(c, value, "exp");
    const stator_ref mul = made_by(c, value, "mul");
    const stator_ref shifted = operand_of(c, exp ? exp : mul, 0);
    const stator_ref sub = made_by(c, shifted, "sub");
    if (sub == 0 || (mul && operand_of(c, mul, 1) != shifted)) {
        return false;
    }
    *out_x = operand_of(c, sub, 0);
    out->shift = operand_of(c, sub, 1);
    out->is_exp = exp != 0;
    out->first = made_by(c, out->shift, exp ? "reduce_max" : "div");
    if (!exp && out->first == 0) {
        out->first = made_by(c, out->shift, "mul");
    }
    if (!exp) {
        out->first = made_by(c, operand_of(c, out->first, 0), "reduce_sum");
    }
    return out->first != 0;
}

/* Is the shift the same for what is folded, and of the first fold's type? */
static bool is_shift_typed(const st_copy *c, const st_fold_pair *p)
{
    const stator_ref first = p->fold.row->result_begin;
    return st_fold_is_shaped_as(c->v, p->shift, first) &&
           stator_value_type(c->v, p->shift)->dtype == stator_value_type(c->v, first)->dtype;
}

static bool match_pair(const st_splitter *s, stator_ref node, st_fold_pair *out)
{
    const st_copy *c = s->copy;
    st_fold second;
    stator_ref x = 0;
    *out = (st_fold_pair){.second = node};
    if (!st_fold_read(c, node, &second) || second.row->op != STATOR_OPCODE_reduce_sum ||
        (second.dtype != STATOR_F32 && second.dtype != STATOR_F64) ||
        !match_shifted(c, operand_of(c, node, 0), out, &x) ||
        !st_fold_read(c, out->first, &out->fold)) {
        return false;
    }
    const bool is_same = operand_of(c, out->first, 0) == x && out->fold.folded == second.folded &&
                         out->fold.rank == second.rank && out->fold.keeps;
    /* The parts of a variance have the same length. */
    return is_same && is_shift_typed(c, out) && st_fold_plan(s->rule, &out->fold, true) &&
           (out->is_exp || out->fold.rest == 0);
}

static st_fold_pair *pair_of(st_splitter *s, stator_ref node)
{
    for (uint32_t i = 0; i < s->pairs.count; i++) {
        if (s->pairs.data[i].first == node || s->pairs.data[i].second == node) {
            return &s->pairs.data[i];
        }
    }
    return NULL;
}

void st_fold_pairs(st_splitter *s)
{
    for (stator_ref node = 1; node <= s->copy->v->n_nodes; node++) {
        st_fold_pair pair;
        if (!match_pair(s, node, &pair) || pair_of(s, pair.first)) {
            continue;
        }
        st_fold_pair *at = st_vec_push(s->copy->ctx->mem, &s->pairs);
        if (at == NULL) {
            stator_emit_check(&s->copy->e, st_fail_oom(s->copy->e.err));
            return;
        }
        *at = pair;
    }
}

/* ---- writing them ---- */

#define RESULT(r) "keeps == 0 ? " r " : reshape(" r ", shape=out)"

static const char first_of_exp[] =
    ST_FOLD_CUT "b = reduce_max(t, axes=first, keepdims=1); "
                "c = select(b == -inf, zeros_like(b), b); "
                "s = reduce_sum(exp(t - c), axes=first); m = squeeze(b, first); "
                "r = reduce_max(m, axes=second); " RESULT("r") ", m, s";
static const char second_of_exp[] =
    "r = reduce_sum(s * exp(c - reshape(a, shape=base)), axes=second); " RESULT("r");
static const char first_of_squares[] =
    ST_FOLD_CUT "g = reduce_sum(t, axes=first, keepdims=1); b = g / folded; d = t - b; "
                "s = reduce_sum(d * d, axes=first); r = reduce_sum(squeeze(g, first), "
                "axes=second); " RESULT("r") ", squeeze(b, first), s";
static const char second_of_squares[] =
    "d = c - reshape(a, shape=base); "
    "r = reduce_sum(s + d * d * folded, axes=second); " RESULT("r");

static void write_first(st_splitter *s, st_fold_pair *p)
{
    st_copy *c = s->copy;
    static const char *const names[2] = {"x", "e"};
    const stator_ref x = st_fold_operand(s, stator_operand(c->v, p->fold.row, 0));
    const stator_ref values[2] = {x, st_fold_filler(c, &p->fold)};
    stator_ref out[3] = {0, 0, 0};
    const st_fold_program program = {.text = p->is_exp ? first_of_exp : first_of_squares,
                                     .n_values = 2,
                                     .names = names,
                                     .values = values,
                                     .n_out = 3};
    st_fold_build(c, &p->fold, &program, out);
    st_copy_replace(c, p->fold.row->result_begin, out[0]);
    p->base = out[1];
    p->part = out[2];
}

static void write_second(st_splitter *s, const st_fold_pair *p)
{
    st_copy *c = s->copy;
    static const char *const names[3] = {"a", "c", "s"};
    const stator_ref values[3] = {c->map[p->shift], p->base, p->part};
    const stator_node_row *row = stator_node_at(c->v, p->second);
    stator_ref out = 0;
    st_fold fold = p->fold;
    fold.keeps = stator_attr_at(c->v, row, STATOR_reduce_sum_keepdims)->i;
    fold.row = row;
    const st_fold_program program = {.text = p->is_exp ? second_of_exp : second_of_squares,
                                     .n_values = 3,
                                     .names = names,
                                     .values = values,
                                     .n_out = 1};
    st_fold_build(c, &fold, &program, &out);
    st_copy_replace(c, row->result_begin, out);
}

bool st_fold_pair_visit(st_splitter *s, stator_ref node)
{
    st_fold_pair *p = pair_of(s, node);
    if (p == NULL) {
        return false;
    }
    if (node == p->first) {
        const bool is_wanted = st_pass_may(s->copy->ctx, STATOR_FUEL_REWRITE, "split", node);
        if (is_wanted) {
            write_first(s, p);
        }
        return is_wanted;
    }
    if (p->part != 0) {
        write_second(s, p);
    }
    return p->part != 0;
}
