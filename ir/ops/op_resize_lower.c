/* Decomposition of resize, one axis after the other (interpolation is separable):
 *
 *     p[o] = position in x of output o        f64, from iota arithmetic
 *     nearest:       y = gather(x, round(p), axis)
 *     linear, cubic: y = sum_j gather(x, clamp(base + j), axis) * weight(base + j - p)
 *
 * A few taps are added one after the other, so that outputs are neighbours in the loops; more are a
 * fold. Axes that grow come behind the others, the last one first: fewer elements are gathered, and
 * what is gathered is one row.
 *
 * In: every coordinate mode, antialias, exclude_outside, symbolic sizes (with antialias the number
 * of taps is a symbolic size too). Positions
 * and weights are those of ONNX Resize: base = ceil(p) - 1, so that the distance to p is in (0, 1].
 * Cubic weights: Keys, "Cubic convolution interpolation for digital image processing", 1981. */
#include "core/base/check.h"
#include "ir/op_emitter.h"
#include "ir/ops/rules.h"
#include <math.h>
#include <stator/ops.h>
#include <string.h>

typedef struct resizer {
    stator_emitter *e;
    const st_decompose_node *node;
    uint32_t rank;
    stator_ref x, roi;  /* x as it is gathered from now on */
    stator_ref outside; /* bool mask of extrapolated elements so far, or 0 */
} resizer;

typedef struct axis_sizes {
    uint32_t axis;
    stator_ref in, out;
    bool has_scale;
    double scale; /* when has_scale */
} axis_sizes;

static bool is_mode(const resizer *r, uint32_t attr, const char *word)
{
    return strcmp(r->node->attrs[attr].s, word) == 0;
}

/* ---- positions ---- */

static const struct {
    const char *coordinates;
    const char *program; /* i: output index, s: scale, n: size of x, o: size of y, w = s * n */
} position_rows[] = {
    {"half_pixel", "(i + 0.5) / s - 0.5"},
    {"half_pixel_symmetric", "n / 2 * (1 - o / w) + (i + 0.5) / s - 0.5"},
    {"pytorch_half_pixel", "select(o > 1, (i + 0.5) / s - 0.5, 0)"},
    {"align_corners", "select(w == 1, 0, i * (n - 1) / (w - 1))"},
    {"asymmetric", "i / s"},
    {"tf_half_pixel_for_nn", "(i + 0.5) / s"},
    {"tf_crop_and_resize",
     "select(w == 1, (b - a) * (n - 1) / 2, i * (b - a) * (n - 1) / (w - 1)) + a * (n - 1)"},
};

static const char *position_program(const resizer *r)
{
    for (uint32_t i = 0; i < sizeof position_rows / sizeof position_rows[0]; i++) {
        if (is_mode(r, STATOR_resize_coordinates, position_rows[i].coordinates)) {
            return position_rows[i].program;
        }
    }
    return position_rows[0].program;
}

/* Entry `at` of roi as an f64 scalar. */
static stator_ref roi_entry(const resizer *r, uint32_t at)
{
    return stator_emit_expr(
        r->e, "cast(reshape(slice(roi, starts=[at], sizes=[1], steps=[1]), shape=[]), f64)", "roi",
        1, &r->roi, STATOR_AT(STATOR_A_INT("at", at)));
}

/* f64 [out] positions of an axis. */
static stator_ref positions(const resizer *r, const axis_sizes *a)
{
    stator_emitter *e = r->e;
    const stator_ref i = stator_emit_iota(e, STATOR_F64, 1, &a->out, 0);
    const stator_ref n = stator_emit_size_scalar(e, a->in, STATOR_F64);
    const stator_ref o = stator_emit_size_scalar(e, a->out, STATOR_F64);
    const stator_ref s = a->has_scale ? stator_emit_scalar(e, a->scale, STATOR_F64)
                                      : stator_emit_binary(e, "div", o, n);
    const stator_ref w = stator_emit_binary(e, "mul", s, n);
    const bool crops = is_mode(r, STATOR_resize_coordinates, "tf_crop_and_resize");
    return stator_emit_expr(e, position_program(r), "i,s,n,o,w,a,b",
                            STATOR_IN(i, s, n, o, w, crops ? roi_entry(r, a->axis) : 0,
                                      crops ? roi_entry(r, r->rank + a->axis) : 0),
                            STATOR_NONE);
}

/* Notes which outputs of this axis lie outside of x (tf_crop_and_resize). */
static void note_outside(resizer *r, const axis_sizes *a, stator_ref p)
{
    stator_ref dims[STATOR_RANK_MAX];
    const stator_ref n = stator_emit_size_scalar(r->e, a->in, STATOR_F64);
    stator_ref mask =
        stator_emit_expr(r->e, "bit_or(p < 0, p > n - 1)", "p,n", STATOR_IN(p, n), STATOR_NONE);
    for (uint32_t i = 0; i < r->rank; i++) {
        dims[i] = i == a->axis ? a->out : stator_emit_size(r->e, 1);
    }
    mask = stator_emit_reshape(r->e, mask, r->rank, dims);
    r->outside = r->outside ? stator_emit_binary(r->e, "bit_or", r->outside, mask) : mask;
}

/* ---- one axis ---- */

static void nearest_axis(resizer *r, const axis_sizes *a, stator_ref p)
{
    const char *round = is_mode(r, STATOR_resize_nearest, "round_prefer_floor")  ? "ceil(p - 0.5)"
                        : is_mode(r, STATOR_resize_nearest, "round_prefer_ceil") ? "floor(p + 0.5)"
                        : is_mode(r, STATOR_resize_nearest, "floor")             ? "floor(p)"
                                                                                 : "ceil(p)";
    const stator_ref q = stator_emit_expr(r->e, round, "p", 1, &p, STATOR_NONE);
    const stator_ref index = stator_emit_expr(r->e, "min(max(cast(max(q, -1), i64), 0), n[0] - 1)",
                                              "q", 1, &q, STATOR_AT(STATOR_A_DIMS("n", 1, &a->in)));
    r->x = stator_emit_gather(r->e, r->x, index, a->axis);
}

typedef struct tap_range {
    stator_ref first, count; /* syms: first tap relative to base, number of taps */
    stator_ref factor;       /* f64 scalar that distances are multiplied by */
} tap_range;

/* Antialias stretches the kernel by 1 / min(scale, 1), so that m = ceil(support / min(scale, 1))
 * taps lie on each side; with sizes alone scale is out / in and m a symbolic size. */
static void taps_of(const resizer *r, const axis_sizes *a, tap_range *out)
{
    stator_emitter *e = r->e;
    const int64_t support = is_mode(r, STATOR_resize_mode, "cubic") ? 2 : 1;
    stator_ref side = stator_emit_size(e, support);
    out->factor = stator_emit_scalar(e, 1, STATOR_F64);
    if (r->node->attrs[STATOR_resize_antialias].i != 0 && a->has_scale) {
        const double factor = a->scale < 1 ? a->scale : 1;
        if (!(factor > 1e-6)) {
            stator_emit_fail(e, STATOR_UNIMPLEMENTED, "scale %g of axis %u is too small", a->scale,
                             a->axis);
            return;
        }
        side = stator_emit_size(e, (int64_t)ceil((double)support / factor));
        out->factor = stator_emit_scalar(e, factor, STATOR_F64);
    } else if (r->node->attrs[STATOR_resize_antialias].i != 0) {
        const stator_ref in[2] = {stator_emit_size_scalar(e, a->in, STATOR_F64),
                                  stator_emit_size_scalar(e, a->out, STATOR_F64)};
        side = stator_emit_sym(e, STATOR_SYM_CEILDIV,
                               stator_emit_sym_int(e, STATOR_SYM_MUL, a->in, support),
                               stator_emit_sym_int(e, STATOR_SYM_MAX, a->out, 1));
        side = stator_emit_sym_int(e, STATOR_SYM_MAX, side, support);
        out->factor = stator_emit_expr(e, "min(o / n, 1)", "n,o", 2, in, STATOR_NONE);
    }
    out->first = stator_emit_sym(e, STATOR_SYM_SUB, stator_emit_size(e, 1), side);
    out->count = stator_emit_sym_int(e, STATOR_SYM_MUL, side, 2);
}

/* ---- weights and sums ---- */

#define FEW_TAPS 8 /* taps up to which they are added one by one: cubic at half the size */

/* Column j of a table, one entry an output. */
static stator_ref column(const resizer *r, stator_ref table, int64_t j)
{
    return stator_emit_expr(r->e,
                            "reshape(slice(t, starts=[0, j], sizes=[dim(t, 0), 1], steps=[1, 1]), "
                            "shape=[dim(t, 0)])",
                            "t", 1, &table, STATOR_AT(STATOR_A_INT("j", j)));
}

/* x at the taps times their weights, [out, count] tables both, summed. */
static stator_ref sum_of_taps(const resizer *r, const axis_sizes *a, stator_ref index,
                              stator_ref weight)
{
    stator_emitter *e = r->e;
    const stator_attr trailing = STATOR_A_INT("trailing", (int64_t)r->rank - 1 - a->axis);
    int64_t count = 0;
    stator_ref sum = 0;
    if (!stator_emit_const(e, stator_emit_dim(e, index, 1), &count) || count > FEW_TAPS) {
        const stator_ref in[2] = {stator_emit_gather(e, r->x, index, a->axis), weight};
        return stator_emit_expr(e,
                                "reduce_sum(g * reshape(cast(u, g), shape=shape(u) + "
                                "repeat(1, trailing)), axes=[rank(g) - trailing - 1])",
                                "g,u", 2, in, 1, &trailing);
    }
    for (int64_t j = 0; j < count && e->status == STATOR_OK; j++) {
        const stator_ref in[2] = {stator_emit_gather(e, r->x, column(r, index, j), a->axis),
                                  column(r, weight, j)};
        const stator_ref term =
            stator_emit_expr(e, "g * reshape(cast(u, g), shape=shape(u) + repeat(1, trailing))",
                             "g,u", 2, in, 1, &trailing);
        sum = sum ? stator_emit_binary(e, "add", sum, term) : term;
    }
    return sum;
}

#define NEAR_WEIGHT "((c + 2) * d - (c + 3)) * d * d + 1"
#define FAR_WEIGHT "((c * d - 5 * c) * d + 8 * c) * d - 4 * c"

static void weighted_axis(resizer *r, const axis_sizes *a, stator_ref p)
{
    stator_emitter *e = r->e;
    const stator_attr *attrs = r->node->attrs;
    tap_range taps = {0, 0, 0};
    taps_of(r, a, &taps);
    const stator_attr values[6] = {
        STATOR_A_DIMS("n", 1, &a->in),
        STATOR_A_DIMS("first", 1, &taps.first),
        STATOR_A_DIMS("count", 1, &taps.count),
        STATOR_A_FLOAT("c", attrs[STATOR_resize_cubic_a].f),
        STATOR_A_INT("inside", attrs[STATOR_resize_exclude_outside].i != 0),
        STATOR_A_INT("normal", attrs[STATOR_resize_exclude_outside].i != 0 ||
                                   attrs[STATOR_resize_antialias].i != 0)};
    const stator_ref at = stator_emit_expr(
        e, "unsqueeze(ceil(p) - 1, 1) + (iota(shape=[1] + count, axis=1, dtype=f64) + first[0])",
        "p", 1, &p, 6, values);
    const stator_ref in[3] = {at, p, taps.factor};
    const char *program = is_mode(r, STATOR_resize_mode, "cubic")
                              ? "d = abs(at - unsqueeze(p, 1)) * f; select(d <= 1, " NEAR_WEIGHT
                                ", select(d < 2, " FAR_WEIGHT ", 0))"
                              : "d = abs(at - unsqueeze(p, 1)) * f; max(1 - d, 0)";
    const stator_ref weight = stator_emit_expr(e, program, "at,p,f", 3, in, 6, values);
    const stator_ref index = stator_emit_expr(e, "min(max(cast(max(at, -1), i64), 0), n[0] - 1)",
                                              "at", 1, &at, 6, values);
    r->x = sum_of_taps(
        r, a, index,
        stator_emit_expr(e,
                         "m = inside == 1 ? select(bit_and(at >= 0, at < n[0]), w, 0) : w; "
                         "normal == 1 ? m / reduce_sum(m, axes=[1], keepdims=1) : m",
                         "at,w", STATOR_IN(at, weight), 6, values));
}

/* Nothing to do along an axis that keeps its size. */
static bool keeps_axis(const resizer *r, const axis_sizes *a)
{
    return a->in == a->out && (!a->has_scale || a->scale == 1) &&
           !is_mode(r, STATOR_resize_coordinates, "tf_crop_and_resize");
}

/* Is the axis known to become longer? */
static bool grows(const resizer *r, const axis_sizes *a)
{
    int64_t in = 0;
    int64_t out = 0;
    return stator_emit_const(r->e, a->in, &in) && stator_emit_const(r->e, a->out, &out) && out > in;
}

static axis_sizes sizes_of(const resizer *r, uint32_t axis)
{
    const stator_attr *sizes = &r->node->attrs[STATOR_resize_sizes];
    const stator_attr *scales = &r->node->attrs[STATOR_resize_scales];
    axis_sizes a = {.axis = axis,
                    .in = stator_emit_dim(r->e, r->node->operands[0], axis),
                    .out = ((const stator_ref *)sizes->list)[axis],
                    .has_scale = scales->count == r->rank};
    a.scale = a.has_scale ? ((const double *)scales->list)[axis] : 0;
    return a;
}

static void resize_axis(resizer *r, const axis_sizes *a)
{
    const stator_ref p = positions(r, a);
    if (is_mode(r, STATOR_resize_coordinates, "tf_crop_and_resize")) {
        note_outside(r, a, p);
    }
    if (is_mode(r, STATOR_resize_mode, "nearest")) {
        nearest_axis(r, a, p);
    } else {
        weighted_axis(r, a, p);
    }
}

stator_status st_dec_resize(stator_builder *b, const st_decompose_node *node,
                            stator_ref *out_results, stator_diag **err)
{
    stator_emitter e = st_op_emitter(b, err);
    const stator_attr *sizes = &node->attrs[STATOR_resize_sizes];
    const stator_dtype dtype = stator_emit_dtype(&e, node->operands[0]);
    resizer r = {.e = &e, .node = node, .rank = sizes->count, .x = node->operands[0]};
    const bool is_nearest = is_mode(&r, STATOR_resize_mode, "nearest");
    r.roi = node->n_operands > 1 ? node->operands[1] : 0;
    if (r.rank >= STATOR_RANK_MAX) {
        stator_emit_fail(&e, STATOR_UNIMPLEMENTED, "rank %u needs one axis more", r.rank);
        return e.status;
    }
    if (!is_nearest && st_dtype_class(dtype) != STATOR_CLASS_FLOAT) {
        r.x = stator_emit_cast(&e, r.x, STATOR_F64);
    }
    r.x = is_nearest ? r.x : stator_emit_wide(&e, r.x);
    for (uint32_t i = 0; i < 2u * r.rank && e.status == STATOR_OK; i++) {
        const bool is_late = i >= r.rank; /* growing axes come after all shrinking ones */
        const uint32_t axis = is_late ? 2u * r.rank - 1u - i : i;
        const axis_sizes a = sizes_of(&r, axis);
        if (!keeps_axis(&r, &a) && grows(&r, &a) == is_late) {
            resize_axis(&r, &a);
        }
    }
    if (r.outside != 0) {
        r.x =
            stator_emit_expr(&e, "select(o, value, x)", "o,x", STATOR_IN(r.outside, r.x), 1,
                             &STATOR_A_FLOAT("value", node->attrs[STATOR_resize_extrapolation].f));
    }
    out_results[0] = stator_emit_cast(&e, r.x, dtype);
    return e.status;
}
