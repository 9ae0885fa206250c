/* Decomposition of grid_sample: positions from the grid, then a weighted sum over taps.
 *
 *     x[N,C,spatial] -> [N,C,S];  index, weight [N,K,P], K taps a point;
 *     y = sum_K gather_elements(x, index) * weight
 *
 * In: any number r of spatial axes; K is 1 (nearest), 2^r (linear) or 4^r (cubic). The last axis of
 * grid holds coordinates in reverse order of the axes. Padding: zeros masks taps outside, border
 * clamps, reflection mirrors; a position outside is brought inside first, and each tap again, as
 * in ONNX GridSample; with cubic and border the taps alone, as PyTorch and ONNX Runtime have it.
 * Positions are computed in f64. Invariant: indices lie inside x even where the grid holds NaN. */
#include "ir/op_emitter.h"
#include "ir/ops/rules.h"
#include <stator/ops.h>
#include <string.h>

typedef struct sampler {
    stator_emitter *e;
    const st_decompose_node *node;
    uint32_t n;                 /* spatial axes */
    stator_ref x, grid, points; /* points: sym, number of samples of one image */
    bool is_zeros, is_reflection, is_nearest, is_cubic, align;
    stator_ref index, weight, valid; /* [N, K, P] so far, 0 before the first axis */
} sampler;

/* Mirrors v into [lo, hi]; lo, hi f64 scalars. A range of one point gives that point. */
#define REFLECT(v)                                                                                 \
    "g = hi - lo; u = select(" v " < lo, lo - " v ", " v " - hi); q = trunc(u / g); "              \
    "e = u - q * g; m = select((q % 2 == 0) == (" v " < lo), lo + e, hi - e); "                    \
    "select(g == 0, lo, select(bit_or(" v " < lo, " v " > hi), m, " v "))"

/* f64 [N, P] positions along spatial axis i, inside the padding's range. */
static stator_ref positions(const sampler *s, uint32_t i, const stator_ref limits[3])
{
    const stator_ref grid = stator_emit_expr(
        s->e,
        "cast(reshape(slice(grid, starts=repeat(0, rank(grid) - 1) + [at], "
        "sizes=shape(grid)[0:-1] + [1], steps=repeat(1, rank(grid))), shape=[dim(grid, 0)] + "
        "points), f64)",
        "grid", 1, &s->grid,
        STATOR_AT(STATOR_A_INT("at", (int64_t)(s->n - 1u - i)),
                  STATOR_A_DIMS("points", 1, &s->points)));
    stator_ref p =
        stator_emit_expr(s->e, s->align ? "(v + 1) / 2 * (n - 1)" : "((v + 1) * n - 1) / 2", "v,n",
                         STATOR_IN(grid, limits[0]), STATOR_NONE);
    if (s->is_nearest) {
        p = stator_emit_unary(s->e, "round", p);
    }
    const stator_ref last[4] = {p, limits[1], limits[2], limits[0]};
    if (s->is_reflection) {
        p = stator_emit_expr(s->e, REFLECT("p"), "p,lo,hi,n", 4, last, STATOR_NONE);
    } else if (!s->is_zeros && !s->is_cubic) {
        p = stator_emit_expr(s->e, "select(bit_or(p < lo, p > hi), min(max(p, 0), n - 1), p)",
                             "p,lo,hi,n", 4, last, STATOR_NONE);
    }
    /* On the outermost pixels a clamped or mirrored position has no slope, as in PyTorch. */
    return s->is_zeros || s->is_cubic || s->is_nearest
               ? p
               : stator_emit_expr(s->e, "select(p == 0, 0, select(p == n - 1, n - 1, p))", "p,n",
                                  STATOR_IN(p, limits[0]), STATOR_NONE);
}

/* Taps of one axis: *index f64 [N, T, P] not yet inside, *weight f64 [N, T, P]. */
static void taps(const sampler *s, stator_ref p, stator_ref *index, stator_ref *weight)
{
    *index =
        stator_emit_expr(s->e,
                         "unsqueeze(floor(p), 1) + (iota(shape=[1, count, 1], axis=1, dtype=f64) + "
                         "first)",
                         "p", 1, &p,
                         STATOR_AT(STATOR_A_INT("first", s->is_cubic ? -1 : 0),
                                   STATOR_A_INT("count", s->is_nearest ? 1
                                                         : s->is_cubic ? 4
                                                                       : 2)));
    const stator_ref in[2] = {*index, p};
    const char *program =
        s->is_nearest && s->is_zeros ? "select(at - at == 0, at * 0 + 1, 0)" /* inf, NaN: outside */
        : s->is_nearest              ? "at * 0 + 1"
        : s->is_cubic
            ? "d = abs(at - unsqueeze(p, 1)); select(d <= 1, (1.25 * d - 2.25) * d * d + 1, "
              "((-0.75 * d + 3.75) * d - 6) * d + 3)"
            : "d = unsqueeze(p, 1) - at; 1 - select(d < 0, -d, d)"; /* slope on a tap: to the right */
    *weight = stator_emit_expr(s->e, program, "at,p", 2, in, STATOR_NONE);
}

/* [N, K, P] and [N, T, P] to [N, K*T, P] by a binary program over a and b. */
static stator_ref combine(const sampler *s, const char *program, stator_ref a, stator_ref b,
                          stator_ref size)
{
    const stator_ref both = stator_emit_expr(s->e, program, "a,b", STATOR_IN(a, b),
                                             STATOR_AT(STATOR_A_DIMS("n", 1, &size)));
    return stator_emit_expr(s->e, "reshape(v, shape=[dim(v, 0), dim(v, 1) * dim(v, 2), dim(v, 3)])",
                            "v", 1, &both, STATOR_NONE);
}

/* Adds spatial axis i to the taps so far. */
static void add_axis(sampler *s, uint32_t i)
{
    stator_emitter *e = s->e;
    const stator_ref size = stator_emit_dim(e, s->x, 2u + i);
    stator_ref at = 0, weight = 0, valid = 0;
    stator_ref limits[3] = {stator_emit_size_scalar(e, size, STATOR_F64), 0, 0};
    limits[1] = stator_emit_scalar(e, s->align ? 0 : -0.5, STATOR_F64);
    limits[2] = stator_emit_expr(e, s->align ? "n - 1" : "n - 0.5", "n", 1, limits, STATOR_NONE);
    taps(s, positions(s, i, limits), &at, &weight);
    const stator_ref in[4] = {at, limits[1], limits[2], limits[0]};
    if (s->is_zeros) {
        valid =
            stator_emit_expr(e, "bit_and(at >= 0, at <= n - 1)", "at,lo,hi,n", 4, in, STATOR_NONE);
    } else if (s->is_reflection) {
        at = stator_emit_expr(e, REFLECT("at"), "at,lo,hi,n", 4, in, STATOR_NONE);
    }
    stator_ref index = stator_emit_expr(e, "cast(min(max(at, 0), n - 1), i64)", "at,n",
                                        STATOR_IN(at, limits[0]), STATOR_NONE);
    index = stator_emit_expr(e, "min(max(v, 0), n[0] - 1)", "v", 1, &index,
                             STATOR_AT(STATOR_A_DIMS("n", 1, &size)));
    if (s->index == 0) {
        s->index = index;
        s->weight = weight;
        s->valid = valid;
        return;
    }
    s->index = combine(s, "unsqueeze(a, 2) * n[0] + unsqueeze(b, 1)", s->index, index, size);
    s->weight = combine(s, "unsqueeze(a, 2) * unsqueeze(b, 1)", s->weight, weight, size);
    if (s->is_zeros) {
        s->valid = combine(s, "bit_and(unsqueeze(a, 2), unsqueeze(b, 1))", s->valid, valid, size);
    }
}

static stator_ref sum_taps(const sampler *s)
{
    return stator_emit_expr(
        s->e,
        "h = dim(x, 1); m = product(shape(index)[1:]); "
        "f = reshape(x, shape=[dim(x, 0), h, product(shape(x)[2:])]); "
        "i = expand(reshape(index, shape=[dim(x, 0), 1, m]), shape=[dim(x, 0), h, m]); "
        "g = reshape(gather_elements(f, i, axis=2), shape=[dim(x, 0), h] + shape(index)[1:]); "
        "v = has(valid) ? select(unsqueeze(valid, 1), g, 0) : g; "
        "y = reduce_sum(v * unsqueeze(cast(w, x), 1), axes=[2]); "
        "reshape(y, shape=[dim(x, 0), h] + shape(grid)[1:-1])",
        "x,index,w,valid,grid",
        STATOR_IN(stator_emit_wide(s->e, s->x), s->index, s->weight, s->valid, s->grid), 0, NULL);
}

static bool is_mode(const st_decompose_node *node, uint32_t attr, const char *word)
{
    return strcmp(node->attrs[attr].s, word) == 0;
}

stator_status st_dec_grid_sample(stator_builder *b, const st_decompose_node *node,
                                 stator_ref *out_results, stator_diag **err)
{
    stator_emitter e = st_op_emitter(b, err);
    sampler s = {.e = &e,
                 .node = node,
                 .x = node->operands[0],
                 .grid = node->operands[1],
                 .is_zeros = is_mode(node, STATOR_grid_sample_padding, "zeros"),
                 .is_reflection = is_mode(node, STATOR_grid_sample_padding, "reflection"),
                 .is_nearest = is_mode(node, STATOR_grid_sample_mode, "nearest"),
                 .is_cubic = is_mode(node, STATOR_grid_sample_mode, "cubic"),
                 .align = node->attrs[STATOR_grid_sample_align_corners].i != 0};
    const uint32_t rank = stator_emit_rank(&e, s.x);
    s.n = rank - 2u;
    s.points = stator_emit_size(&e, 1);
    for (uint32_t i = 1; i + 1u < rank; i++) {
        s.points = stator_emit_sym(&e, STATOR_SYM_MUL, s.points, stator_emit_dim(&e, s.grid, i));
    }
    for (uint32_t i = 0; i < s.n && e.status == STATOR_OK; i++) {
        add_axis(&s, i);
    }
    const stator_ref y = sum_taps(&s);
    out_results[0] = stator_emit_cast(&e, y, stator_emit_dtype(&e, s.x));
    return e.status;
}
