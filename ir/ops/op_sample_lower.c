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
#include "core/base/check.h"
#include "ir/ops/op_kit.h"
#include "ir/ops/rules.h"
#include <stator/ops.h>
#include <string.h>

typedef struct sampler {
    st_kit *k;
    const st_decompose_node *node;
    uint32_t n;                 /* spatial axes */
    stator_ref x, grid, points; /* points: sym, number of samples of one image */
    int is_zeros, is_reflection, is_nearest, is_cubic, align;
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
    const stator_attr attrs[2] = {ST_KIT_INT("at", (int64_t)(s->n - 1u - i)),
                                  ST_KIT_DIMS("points", &s->points, 1)};
    const stator_ref grid = st_kit_expr(
        s->k,
        "cast(reshape(slice(grid, starts=repeat(0, rank(grid) - 1) + [at], "
        "sizes=shape(grid)[0:-1] + [1], steps=repeat(1, rank(grid))), shape=[dim(grid, 0)] + "
        "points), f64)",
        "grid", &s->grid, 2, attrs);
    const stator_ref in[2] = {grid, limits[0]};
    stator_ref p = st_kit_expr(s->k, s->align ? "(v + 1) / 2 * (n - 1)" : "((v + 1) * n - 1) / 2",
                               "v,n", in, 0, NULL);
    if (s->is_nearest) {
        p = st_kit_unary(s->k, "round", p);
    }
    const stator_ref last[4] = {p, limits[1], limits[2], limits[0]};
    if (s->is_reflection) {
        return st_kit_expr(s->k, REFLECT("p"), "p,lo,hi,n", last, 0, NULL);
    }
    return s->is_zeros || s->is_cubic
               ? p
               : st_kit_expr(s->k, "select(bit_or(p < lo, p > hi), min(max(p, 0), n - 1), p)",
                             "p,lo,hi,n", last, 0, NULL);
}

/* Taps of one axis: *index f64 [N, T, P] not yet inside, *weight f64 [N, T, P]. */
static void taps(const sampler *s, stator_ref p, stator_ref *index, stator_ref *weight)
{
    const stator_attr attrs[2] = {ST_KIT_INT("first", s->is_cubic ? -1 : 0),
                                  ST_KIT_INT("count", s->is_nearest ? 1
                                                      : s->is_cubic ? 4
                                                                    : 2)};
    *index = st_kit_expr(s->k,
                         "unsqueeze(floor(p), 1) + (iota(shape=[1, count, 1], axis=1, dtype=f64) + "
                         "first)",
                         "p", &p, 2, attrs);
    const stator_ref in[2] = {*index, p};
    const char *program =
        s->is_nearest && s->is_zeros ? "select(at - at == 0, at * 0 + 1, 0)" /* inf, NaN: outside */
        : s->is_nearest              ? "at * 0 + 1"
        : s->is_cubic
            ? "d = abs(at - unsqueeze(p, 1)); select(d <= 1, (1.25 * d - 2.25) * d * d + 1, "
              "((-0.75 * d + 3.75) * d - 6) * d + 3)"
            : "1 - abs(at - unsqueeze(p, 1))";
    *weight = st_kit_expr(s->k, program, "at,p", in, 0, NULL);
}

/* [N, K, P] and [N, T, P] to [N, K*T, P] by a binary program over a and b. */
static stator_ref combine(const sampler *s, const char *program, stator_ref a, stator_ref b,
                          stator_ref size)
{
    const stator_ref in[2] = {a, b};
    const stator_ref both = st_kit_expr(s->k, program, "a,b", in, 1, &ST_KIT_DIMS("n", &size, 1));
    return st_kit_expr(s->k, "reshape(v, shape=[dim(v, 0), dim(v, 1) * dim(v, 2), dim(v, 3)])", "v",
                       &both, 0, NULL);
}

/* Adds spatial axis i to the taps so far. */
static void add_axis(sampler *s, uint32_t i)
{
    st_kit *k = s->k;
    const stator_ref size = st_kit_dim(k, s->x, 2u + i);
    stator_ref at = 0, weight = 0, valid = 0;
    stator_ref limits[3] = {st_kit_size_scalar(k, size, STATOR_F64), 0, 0};
    limits[1] = st_kit_scalar(k, s->align ? 0 : -0.5, STATOR_F64);
    limits[2] = st_kit_expr(k, s->align ? "n - 1" : "n - 0.5", "n", limits, 0, NULL);
    taps(s, positions(s, i, limits), &at, &weight);
    const stator_ref in[4] = {at, limits[1], limits[2], limits[0]};
    if (s->is_zeros) {
        valid = st_kit_expr(k, "bit_and(at >= 0, at <= n - 1)", "at,lo,hi,n", in, 0, NULL);
    } else if (s->is_reflection) {
        at = st_kit_expr(k, REFLECT("at"), "at,lo,hi,n", in, 0, NULL);
    }
    const stator_ref inside[2] = {at, limits[0]};
    stator_ref index = st_kit_expr(k, "cast(min(max(at, 0), n - 1), i64)", "at,n", inside, 0, NULL);
    index = st_kit_expr(k, "min(max(v, 0), n[0] - 1)", "v", &index, 1, &ST_KIT_DIMS("n", &size, 1));
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
    const stator_ref in[5] = {st_kit_wide(s->k, s->x), s->index, s->weight, s->valid, s->grid};
    return st_kit_expr(
        s->k,
        "h = dim(x, 1); m = product(shape(index)[1:]); "
        "f = reshape(x, shape=[dim(x, 0), h, product(shape(x)[2:])]); "
        "i = expand(reshape(index, shape=[dim(x, 0), 1, m]), shape=[dim(x, 0), h, m]); "
        "g = reshape(gather_elements(f, i, axis=2), shape=[dim(x, 0), h] + shape(index)[1:]); "
        "v = has(valid) ? select(unsqueeze(valid, 1), g, 0) : g; "
        "y = reduce_sum(v * unsqueeze(cast(w, x), 1), axes=[2]); "
        "reshape(y, shape=[dim(x, 0), h] + shape(grid)[1:-1])",
        "x,index,w,valid,grid", in, 0, NULL);
}

static int is_mode(const st_decompose_node *node, uint32_t attr, const char *word)
{
    return strcmp(node->attrs[attr].s, word) == 0;
}

stator_status st_dec_grid_sample(stator_builder *b, const st_decompose_node *node,
                                 stator_ref *out_results, stator_diag **err)
{
    st_kit k = {b, err, STATOR_OK};
    sampler s = {.k = &k,
                 .node = node,
                 .x = node->operands[0],
                 .grid = node->operands[1],
                 .is_zeros = is_mode(node, STATOR_grid_sample_padding, "zeros"),
                 .is_reflection = is_mode(node, STATOR_grid_sample_padding, "reflection"),
                 .is_nearest = is_mode(node, STATOR_grid_sample_mode, "nearest"),
                 .is_cubic = is_mode(node, STATOR_grid_sample_mode, "cubic"),
                 .align = node->attrs[STATOR_grid_sample_align_corners].i != 0};
    const uint32_t rank = st_kit_rank(&k, s.x);
    s.n = rank - 2u;
    s.points = st_kit_size(&k, 1);
    for (uint32_t i = 1; i + 1u < rank; i++) {
        s.points = st_kit_sym(&k, '*', s.points, st_kit_dim(&k, s.grid, i));
    }
    for (uint32_t i = 0; i < s.n && k.status == STATOR_OK; i++) {
        add_axis(&s, i);
    }
    const stator_ref y = sum_taps(&s);
    out_results[0] = st_kit_cast(&k, y, st_kit_dtype(&k, s.x));
    return k.status;
}
