/* The gradient of reduce_window. In: gradients g of the windows' results. Out: gradients of x.
 *
 * A sum gives every element the sum of the g of the windows that it lies in. With s - 1 zeros
 * behind each g (the stride) and zeros around, these are windows again, of stride 1:
 *
 *     x: 5, window 3, stride 2    g: a b    ->    0 0 a 0 b 0 0    ->    a a a+b b b
 *
 * A maximum gives g to the first of the largest elements, as PyTorch does; a minimum to the first
 * of the smallest. The number of that tap is found by comparing each window with its result, which
 * the forward part made. Each element then sums over the few windows that reach it, in their order:
 * those whose number is that of the tap by which they read the element. Nothing is scattered.
 *
 *     x: 3 7 7 1, window 3, stride 1    result: 7 7    first tap: 1 0    g: a b    ->    0 a+b 0
 * 0 */
#include "core/base/check.h"
#include "ir/gradient/gradient_rules.h"

#include <stator/ops.h>
#include <string.h>

/* Along one axis of g: zeros between (stride s), then around, so that windows of stride 1 are as
 * many as x has elements. */
static stator_ref spread_axis(stator_emitter *e, stator_ref g, const st_gradient_node *v,
                              uint32_t i)
{
    const stator_attr *attrs = v->of->attrs, *pads = &attrs[STATOR_reduce_window_pads];
    const uint32_t n = attrs[STATOR_reduce_window_window].count;
    const stator_ref x = v->of->operands[0];
    const uint32_t axis = stator_emit_rank(e, x) - n + i;
    const stator_ref size = stator_emit_dim(e, x, axis);
    const stator_ref low = ((const stator_ref *)pads->list)[i];
    const int64_t *window = attrs[STATOR_reduce_window_window].list;
    const int64_t *strides = attrs[STATOR_reduce_window_strides].list;
    const int64_t *dilations = attrs[STATOR_reduce_window_dilations].list;
    const stator_attr at[] = {STATOR_A_INT("a", axis), STATOR_A_INT("s", strides[i]),
                              STATOR_A_INT("k", (window[i] - 1) * dilations[i]),
                              STATOR_A_DIMS("low", 1, &low), STATOR_A_DIMS("size", 1, &size)};
    if (strides[i] != 1) {
        g = stator_emit_expr(e,
                             "z = repeat(0, a + 1); r = repeat(0, rank(g) - a - 1);"
                             "t = reshape(g, shape=shape(g)[0:a + 1] + [1] + shape(g)[a + 1:]);"
                             "p = pad(t, low=repeat(0, rank(t)), high=z + [s - 1] + r);"
                             "reshape(p, shape=shape(g)[0:a] + [dim(g, a) * s] + shape(g)[a + 1:])",
                             "g", 1, &g, 5, at);
    }
    return stator_emit_expr(e,
                            "z = repeat(0, a); r = repeat(0, rank(g) - a - 1);"
                            "pad(g, low=z + [k - low[0]] + r,"
                            "high=z + [size[0] - dim(g, a) + low[0]] + r)",
                            "g", 1, &g, 5, at);
}

static stator_ref of_sum(stator_emitter *e, const st_gradient_node *v)
{
    stator_ref g = v->grads[0];
    for (uint32_t i = 0; i < v->of->attrs[STATOR_reduce_window_window].count; i++) {
        g = spread_axis(e, g, v, i);
    }
    return stator_emit_expr(e,
                            "n = len(window); reduce_window(g, kind='sum', window=window,"
                            "strides=repeat(1, n), pads=repeat(0, 2 * n), dilations=dilations)",
                            "g", 1, &g, v->of->n_attrs, v->of->attrs);
}

/* ---- maximum and minimum ---- */

typedef struct extreme {
    stator_emitter *e;
    stator_ref x, y;  /* elements, the windows' results */
    uint32_t n, lead; /* axes with a window, axes before them */
    int64_t taps;     /* of one window */
    const int64_t *window, *strides, *dilations;
    const stator_ref *pads; /* lows, highs */
} extreme;

/* A gather of a matrix of places from each axis with a window, and the number of the tap that each
 * place has a part in: i32 [rows, columns, 1...], so that the axes' numbers add up. */
typedef struct places {
    stator_ref at[STATOR_RANK_MAX], tap[STATOR_RANK_MAX];
} places;

/* A program over the sizes of axis i. An element is reached by as many windows as start within a
 * window's extent; where dilation makes these more than the taps, they are gone through by tap. */
static stator_ref of_axis(const extreme *p, uint32_t i, const char *program)
{
    const stator_ref size = stator_emit_dim(p->e, p->x, p->lead + i);
    const stator_ref out = stator_emit_dim(p->e, p->y, p->lead + i);
    const int64_t starts = (p->window[i] - 1) * p->dilations[i] / p->strides[i] + 1;
    const bool by_tap = starts > p->window[i];
    int64_t inner = 1;
    for (uint32_t j = i + 1u; j < p->n; j++) {
        inner *= p->window[j];
    }
    return stator_emit_expr(
        p->e, program, "", 0, NULL,
        STATOR_AT(STATOR_A_DIMS("size", 1, &size), STATOR_A_DIMS("out", 1, &out),
                  STATOR_A_DIMS("lo", 1, &p->pads[i]), STATOR_A_INT("w", p->window[i]),
                  STATOR_A_INT("s", p->strides[i]), STATOR_A_INT("d", p->dilations[i]),
                  STATOR_A_INT("n", by_tap ? p->window[i] : starts), STATOR_A_INT("by_tap", by_tap),
                  STATOR_A_INT("inner", inner), STATOR_A_INT("taps", p->taps),
                  STATOR_A_INT("behind", 2 * (int64_t)(p->n - 1u - i))));
}

/* p: the positions that the windows read, outside of x too: i64 [out, w]. */
#define POSITIONS                                                                                  \
    "p = iota(shape=[out[0], 1], axis=0) * s + iota(shape=[1, w], axis=1) * d - lo[0];"
/* o: the windows that may read each position, ascending, also such as there are none of: i64
 * [size, n]. q: how far behind the window's start the position lies; k: how far tap j does. */
#define WINDOWS                                                                                    \
    "t = iota(shape=[size[0], 1], axis=0) + lo[0]; j = iota(shape=[1, n], axis=1);"                \
    "k = (w - 1 - j) * d; f = by_tap == 1 ? t - k : t; b = (f - f % s) / s;"                       \
    "o = by_tap == 1 ? b : b + (j - (n - 1)); q = t - o * s;"

/* x [lead.., sizes..] at the places: [lead.., rows, columns, rows, columns, ...]. */
static stator_ref gathered(const extreme *p, stator_ref x, const places *m)
{
    for (uint32_t i = 0; i < p->n; i++) {
        x = stator_emit_gather(p->e, x, m->at[i], p->lead + 2 * (int64_t)i);
    }
    return x;
}

/* The numbers of taps: [rows, columns, rows, columns, ...]. */
static stator_ref tap_numbers(const extreme *p, const places *m)
{
    stator_ref all = m->tap[0];
    for (uint32_t i = 1; i < p->n; i++) {
        all = stator_emit_binary(p->e, "add", all, m->tap[i]);
    }
    return all;
}

/* Of each window the number of the first tap that holds its result, NaN as well: i32 with the
 * shape of y. Taps in the padding have numbers from `taps` on. */
static stator_ref first_tap(const extreme *p)
{
    places m;
    for (uint32_t i = 0; i < p->n; i++) {
        m.at[i] = of_axis(p, i, POSITIONS "min(max(p, 0), size[0] - 1)");
        m.tap[i] = of_axis(p, i,
                           POSITIONS "k = iota(shape=[1, w], axis=1) * inner;"
                                     "t = select(bit_and(p >= 0, p < size[0]), k, taps);"
                                     "reshape(cast(t, i32), shape=shape(t) + repeat(1, behind))");
    }
    return stator_emit_expr(p->e,
                            "a = each('+', each('*', range(n), 2), lead + 1); u = unsqueeze(y, a);"
                            "is = bit_or(x == u, x != x);"
                            "reduce_min(select(is, t, taps), axes=a)",
                            "x,t,y", STATOR_IN(gathered(p, p->x, &m), tap_numbers(p, &m), p->y),
                            STATOR_AT(STATOR_A_INT("n", p->n), STATOR_A_INT("lead", p->lead),
                                      STATOR_A_INT("taps", p->taps)));
}

/* The sum of the g of the windows whose first tap reads the element. A window that does not read it
 * has -taps among the axes' numbers, which makes their sum negative. */
static stator_ref sum_of_chosen(const extreme *p, stator_ref first, stator_ref g)
{
    places m;
    for (uint32_t i = 0; i < p->n; i++) {
        m.at[i] = of_axis(p, i, WINDOWS "min(max(o, 0), out[0] - 1)");
        m.tap[i] = of_axis(
            p, i,
            WINDOWS "v = bit_and(bit_and(o >= 0, o < out[0]), bit_and(q >= 0, q <= (w - 1) * d));"
                    "u = d == 1 ? v : bit_and(v, by_tap == 1 ? q == k : q % d == 0);"
                    "c = select(u, (d == 1 ? q : q / d) * inner, -taps);"
                    "reshape(cast(c, i32), shape=shape(c) + repeat(1, behind))");
    }
    return stator_emit_expr(
        p->e,
        "a = each('+', each('*', range(n), 2), lead + 1);"
        "reduce_sum(select(f == t, g, 0), axes=a)",
        "f,t,g", STATOR_IN(gathered(p, first, &m), tap_numbers(p, &m), gathered(p, g, &m)),
        STATOR_AT(STATOR_A_INT("n", p->n), STATOR_A_INT("lead", p->lead)));
}

static stator_ref of_extreme(extreme *p, stator_ref g)
{
    p->lead = stator_emit_rank(p->e, p->x) - p->n;
    p->taps = 1;
    for (uint32_t i = 0; i < p->n; i++) {
        if (!st_mul_i64(p->taps, p->window[i], &p->taps) || p->taps > INT32_MAX / STATOR_RANK_MAX) {
            return stator_emit_fail(p->e, STATOR_UNIMPLEMENTED, "the window is too large");
        }
        if (stator_emit_is(p->e, stator_emit_dim(p->e, p->x, p->lead + i), 0)) {
            return stator_emit_expr(p->e, "zeros_like(x)", "x", 1, &p->x, 0, NULL);
        }
    }
    return sum_of_chosen(p, first_tap(p), g);
}

stator_status st_grad_max_pool(stator_builder *b, const st_gradient_node *v, stator_ref *in_grads,
                               stator_diag **err)
{
    stator_emitter e = st_op_emitter(b, err);
    const stator_attr *attrs = v->of->attrs;
    extreme p = {.e = &e,
                 .x = v->of->operands[0],
                 .y = v->results[0],
                 .n = attrs[STATOR_max_pool_window].count,
                 .window = attrs[STATOR_max_pool_window].list,
                 .strides = attrs[STATOR_max_pool_strides].list,
                 .dilations = attrs[STATOR_max_pool_dilations].list,
                 .pads = attrs[STATOR_max_pool_pads].list};
    in_grads[0] = of_extreme(&p, v->grads[0]);
    return e.status;
}

stator_status st_grad_reduce_window(stator_builder *b, const st_gradient_node *v,
                                    stator_ref *in_grads, stator_diag **err)
{
    stator_emitter e = st_op_emitter(b, err);
    const stator_attr *attrs = v->of->attrs;
    extreme p = {.e = &e,
                 .x = v->of->operands[0],
                 .y = v->results[0],
                 .n = attrs[STATOR_reduce_window_window].count,
                 .window = attrs[STATOR_reduce_window_window].list,
                 .strides = attrs[STATOR_reduce_window_strides].list,
                 .dilations = attrs[STATOR_reduce_window_dilations].list,
                 .pads = attrs[STATOR_reduce_window_pads].list};
    const bool is_sum = strcmp(attrs[STATOR_reduce_window_kind].s, "sum") == 0;
    in_grads[0] = is_sum ? of_sum(&e, v) : of_extreme(&p, v->grads[0]);
    return e.status;
}
