/* The gradients of deform_conv and roi_align: what they compute is written with gathers at the end
 * of the graph, and that is differentiated.
 *
 *     a point (p, q) between pixels   ->   4 corners at (floor p + 0 or 1, floor q + 0 or 1), the
 *     distances (1 - l or l, l = p - floor p) as weights   ->   sum of weight * gathered pixel
 *
 * So positions (offsets, regions) have the slopes of the square that a point lies in, as in
 * PyTorch, and gradients of gradients are those of gathers and products. Positions and weights are
 * f64, as in the kernels. What the gradient does not need of this is dce's to drop. */
#include "core/base/check.h"
#include "ir/gradient/gradient_rules.h"

#include <stator/ops.h>
#include <string.h>

#define OPERANDS_MAX 5u
#define SPATIAL 2

typedef struct sampling {
    stator_emitter e;
    const st_gradient_node *v;
    stator_ref first; /* the node in front of which operands are held fixed */
} sampling;

static sampling begin(stator_builder *b, const st_gradient_node *v, stator_diag **err)
{
    return (sampling){
        .e = st_op_emitter(b, err), .v = v, .first = st_graph_view(b->graph)->n_nodes + 1u};
}

/* The gradients of y, which the nodes since `begin` made of the operands. */
static stator_status differentiate(sampling *s, stator_ref y, stator_ref *in_grads)
{
    const st_decompose_node *of = s->v->of;
    stator_ref xs[OPERANDS_MAX], grads[OPERANDS_MAX];
    uint32_t place[OPERANDS_MAX], n = 0;
    for (uint32_t i = 0; s->e.status == STATOR_OK && i < of->n_operands; i++) {
        const stator_ref x = of->operands[i];
        bool is_new = x != 0 && st_dtype_class(stator_emit_dtype(&s->e, x)) == STATOR_CLASS_FLOAT;
        for (uint32_t k = 0; k < n; k++) {
            is_new = is_new && xs[k] != x;
        }
        if (is_new) {
            place[n] = i;
            xs[n++] = x;
        }
    }
    ST_TRY(s->e.status);
    const st_gradient_request request = {
        .n_y = 1, .n_x = n, .ys = &y, .seeds = s->v->grads, .xs = xs, .first = s->first};
    ST_TRY(st_gradient_many(s->e.b, &request, grads, s->e.err));
    for (uint32_t i = 0; i < n; i++) {
        in_grads[place[i]] = grads[i];
    }
    return STATOR_OK;
}

/* ---- deform_conv ---- */

/* f64 [N, G, taps, rows, columns]: where each tap of each position lies along an axis. */
static stator_ref deformed_position(sampling *s, int64_t axis)
{
    return stator_emit_expr(
        &s->e,
        "k = dim(w, 2) * dim(w, 3); o = reshape(offset, shape=[dim(offset, 0), offset_groups, k, 2]"
        " + shape(offset)[2:]);"
        "o = squeeze(slice(o, starts=[0, 0, 0, a, 0, 0], sizes=shape(o)[0:3] + [1] + shape(o)[4:],"
        "steps=repeat(1, 6)), 3);"
        "t = iota(shape=[k, 1, 1]); t = a == 0 ? t / dim(w, 3) : t % dim(w, 3);"
        "p = iota(shape=[1] + (a == 0 ? [dim(o, 3), 1] : [1, dim(o, 4)]), axis=a + 1);"
        "cast(o, f64) + cast(t * dilations[a] + p * strides[a] - pads[a], f64)",
        "w,offset", 2, s->v->of->operands + 1, s->v->of->n_attrs + 1u,
        (stator_attr[]){STATOR_A_INT("a", axis), s->v->of->attrs[0], s->v->of->attrs[1],
                        s->v->of->attrs[2], s->v->of->attrs[3], s->v->of->attrs[4]});
}

/* [N, G, channels of a group, taps * positions]: the weighted pixels of one corner. */
static stator_ref deformed_corner(sampling *s, stator_ref p, stator_ref q, int corner)
{
    return stator_emit_expr(
        &s->e,
        "h = dim(x, 2); g = dim(x, 3); n = dim(p, 1); m = product(shape(p)[2:]);"
        "y = floor(p) + i; z = floor(q) + j;"
        "ok = bit_and(bit_and(y >= 0, y <= h - 1), bit_and(z >= 0, z <= g - 1));"
        "u = min(max(cast(select(ok, y, 0), i64), 0), h - 1);"
        "v = min(max(cast(select(ok, z, 0), i64), 0), g - 1);"
        "l = p - floor(p); r = q - floor(q);"
        "c = select(ok, (i == 1 ? l : 1 - l) * (j == 1 ? r : 1 - r), 0);"
        "f = reshape(x, shape=[dim(x, 0), n, floordiv(dim(x, 1), n), h * g]); s = [dim(x, 0), n, "
        "1];"
        "at = expand(reshape(u * g + v, shape=s + [m]), shape=shape(f)[0:3] + [m]);"
        "gather_elements(f, at, axis=3) * reshape(cast(c, f), shape=s + [m])",
        "x,p,q", STATOR_IN(stator_emit_wide(&s->e, s->v->of->operands[0]), p, q),
        STATOR_AT(STATOR_A_INT("i", corner / 2), STATOR_A_INT("j", corner % 2)));
}

stator_status st_grad_deform_conv(stator_builder *b, const st_gradient_node *v,
                                  stator_ref *in_grads, stator_diag **err)
{
    sampling s = begin(b, v, err);
    const stator_ref *in = v->of->operands;
    ST_FAIL_IF(stator_emit_rank(&s.e, in[0]) != 2 + SPATIAL, err, STATOR_UNSUPPORTED,
               "deform_conv has a gradient with two spatial axes only");
    const stator_ref p = deformed_position(&s, 0), q = deformed_position(&s, 1);
    stator_ref columns = 0;
    for (int corner = 0; corner < 1 << SPATIAL; corner++) {
        const stator_ref part = deformed_corner(&s, p, q, corner);
        columns = corner == 0 ? part : stator_emit_binary(&s.e, "add", columns, part);
    }
    const stator_ref mask = v->of->n_operands > 4 ? in[4] : 0;
    const stator_ref bias = v->of->n_operands > 3 ? in[3] : 0;
    const stator_ref y = stator_emit_expr(
        &s.e,
        "c = has(mask) ? c * reshape(cast(mask, c), shape=shape(c)[0:2] + [1, dim(c, 3)]) : c;"
        "n = dim(c, 0); k = product(shape(w)[1:]); m = floordiv(dim(w, 0), groups);"
        "c = reshape(c, shape=[n, groups, k, product(shape(offset)[2:])]);"
        "f = reshape(cast(w, c), shape=[groups, m, k]);"
        "z = dot_general(f, c, batch_x=[0], batch_y=[1], contract_x=[2], contract_y=[2]);"
        "z = reshape(transpose(z, perm=[2, 0, 1, 3]), shape=[n, dim(w, 0)] + shape(offset)[2:]);"
        "cast(has(bias) ? z + reshape(cast(bias, z), shape=[dim(w, 0), 1, 1]) : z, w)",
        "c,w,offset,bias,mask", STATOR_IN(columns, in[1], in[2], bias, mask), v->of->n_attrs,
        v->of->attrs);
    return differentiate(&s, y, in_grads);
}

/* ---- roi_align ---- */

/* Along one axis of the image: `at` holds the points' two pixels, [R, bins, points] each. */
typedef struct points {
    stator_ref at[2], weight[2];
    stator_ref is_inside, is_one; /* not outside the image; one of the region's own points */
    stator_ref count;             /* f64 [R, 1, 1], points of a bin */
} points;

/* The begin of the regions and the size of their bins along an axis, [R, 1, 1]. */
static void read_regions(sampling *s, int64_t axis, stator_ref out[2])
{
    static const char *const programs[] = {
        "reshape(slice(r, starts=[0, 1 - a], sizes=[dim(r, 0), 1], steps=[1, 1]),"
        "shape=[dim(r, 0), 1, 1])",
        "reshape(slice(r, starts=[0, 3 - a], sizes=[dim(r, 0), 1], steps=[1, 1]),"
        "shape=[dim(r, 0), 1, 1])"};
    const stator_ref regions =
        stator_emit_expr(&s->e, "cast(rois, f64) * scale - (half_pixel == 1 ? 0.5 : 0.0)", "rois",
                         1, s->v->of->operands + 1, s->v->of->n_attrs, s->v->of->attrs);
    for (uint32_t i = 0; i < 2; i++) {
        out[i] = stator_emit_expr(&s->e, programs[i], "r", 1, &regions,
                                  STATOR_AT(STATOR_A_INT("a", axis)));
    }
    const stator_attr *attrs = s->v->of->attrs;
    const stator_attr *bins = &attrs[axis == 0 ? STATOR_roi_align_height : STATOR_roi_align_width];
    out[1] = stator_emit_expr(&s->e, "d = end - begin; (half == 1 ? d : max(d, 1)) / bins",
                              "begin,end", 2, out,
                              STATOR_AT(STATOR_A_INT("half", attrs[STATOR_roi_align_half_pixel].i),
                                        STATOR_A_INT("bins", bins->i)));
}

/* How many points a bin has: the attribute, or what its size asks for; then the most of any region
 * are computed. */
static stator_ref find_places(sampling *s, int64_t axis, points *out)
{
    const stator_attr *attrs = s->v->of->attrs;
    const int64_t given = attrs[STATOR_roi_align_sampling_ratio].i;
    stator_ref in[4] = {0};
    read_regions(s, axis, in);
    const char *program =
        given > 0 ? "n = ones_like(size) * given; n, iota(shape=[1, 1, given], axis=2, dtype=f64)"
                  : "n = max(ceil(size), 0); m = ints(unsqueeze(max(cast(reduce_max(n, axes=[0, 1,"
                    "2]), i64), 0), 0)); n, iota(shape=[1, 1, m[0]], axis=2, dtype=f64)";
    const char *const names[] = {"size"};
    const stator_attr given_attr[] = {STATOR_A_INT("given", given)};
    stator_emit_check(&s->e, st_build_expr(s->e.b, program, 1, names, &in[1], 1, given_attr, 2,
                                           &in[2], s->e.err));
    out->count = in[2];
    out->is_one = stator_emit_expr(&s->e, "i < n", "i,n", STATOR_IN(in[3], in[2]), STATOR_NONE);
    const stator_attr *bins = &attrs[axis == 0 ? STATOR_roi_align_height : STATOR_roi_align_width];
    return stator_emit_expr(
        &s->e, "begin + iota(shape=[1, bins, 1], axis=1, dtype=f64) * size + (i + 0.5) * size / n",
        "begin,size,n,i", 4, in, STATOR_AT(STATOR_A_INT("bins", bins->i)));
}

static void find_points(sampling *s, int64_t axis, points *out)
{
    const stator_ref size = stator_emit_dim(&s->e, s->v->of->operands[0], 2u + (uint32_t)axis);
    const stator_ref place = find_places(s, axis, out);
    const stator_attr sizes[] = {STATOR_A_DIMS("n", 1, &size)};
    out->is_inside =
        stator_emit_expr(&s->e, "bit_and(p >= -1, p <= n[0])", "p", 1, &place, 1, sizes);
    const stator_ref at =
        stator_emit_expr(&s->e, "min(max(p, 0), n[0] - 1)", "p", 1, &place, 1, sizes);
    out->weight[1] = stator_emit_expr(&s->e, "p - floor(p)", "p", 1, &at, STATOR_NONE);
    out->weight[0] = stator_emit_expr(&s->e, "1 - l", "l", 1, &out->weight[1], STATOR_NONE);
    out->at[0] =
        stator_emit_expr(&s->e, "min(max(cast(p, i64), 0), n[0] - 1)", "p", 1, &at, 1, sizes);
    out->at[1] = stator_emit_expr(&s->e, "min(i + 1, n[0] - 1)", "i", 1, out->at, 1, sizes);
}

/* a[R, bins, points] of y with b of x, as [R, bins, points, bins, points]. */
static stator_ref cross(sampling *s, const char *op, stator_ref a, stator_ref b)
{
    return stator_emit_binary(
        &s->e, op, stator_emit_expr(&s->e, "unsqueeze(a, [3, 4])", "a", 1, &a, STATOR_NONE),
        stator_emit_expr(&s->e, "unsqueeze(b, [1, 2])", "b", 1, &b, STATOR_NONE));
}

/* [C, R, bins, points, bins, points]: one corner's pixels, weighted. */
static stator_ref region_corner(sampling *s, const points *y, const points *x, int corner)
{
    const stator_ref *in = s->v->of->operands;
    const stator_ref weight = cross(s, "mul", y->weight[corner / 2], x->weight[corner % 2]);
    const stator_ref row = stator_emit_expr(&s->e, "i * dim(x, 3)", "i,x",
                                            STATOR_IN(y->at[corner / 2], in[0]), STATOR_NONE);
    const stator_ref at = cross(s, "add", row, x->at[corner % 2]);
    return stator_emit_expr(
        &s->e,
        "n = dim(x, 2) * dim(x, 3); f = reshape(transpose(x, perm=[1, 0, 2, 3]), shape=[dim(x, 1),"
        "dim(x, 0) * n]);"
        "i = at + reshape(cast(batch, i64) * n, shape=[dim(batch, 0), 1, 1, 1, 1]);"
        "gather(f, i, axis=1) * cast(w, f)",
        "x,batch,at,w", STATOR_IN(stator_emit_wide(&s->e, in[0]), in[2], at, weight), STATOR_NONE);
}

stator_status st_grad_roi_align(stator_builder *b, const st_gradient_node *v, stator_ref *in_grads,
                                stator_diag **err)
{
    sampling s = begin(b, v, err);
    const bool is_max = strcmp(v->of->attrs[STATOR_roi_align_mode].s, "avg") != 0;
    points y = {.count = 0}, x = {.count = 0};
    find_points(&s, 0, &y);
    find_points(&s, 1, &x);
    stator_ref sum = 0;
    for (int corner = 0; corner < 1 << SPATIAL; corner++) {
        const stator_ref part = region_corner(&s, &y, &x, corner);
        sum = corner == 0 ? part : stator_emit_binary(&s.e, is_max ? "max" : "add", sum, part);
    }
    const stator_ref is_inside = cross(&s, "bit_and", y.is_inside, x.is_inside);
    const stator_ref is_one = cross(&s, "bit_and", y.is_one, x.is_one);
    const stator_ref count = stator_emit_binary(&s.e, "mul", y.count, x.count);
    const char *program =
        is_max ? "v = reduce_max(select(one, select(inside, v, 0), -inf), axes=[3, 5]);"
                 "v = select(unsqueeze(count, 0) > 0, v, 0);"
                 "cast(transpose(v, perm=[1, 0, 2, 3]), x)"
               : "v = reduce_sum(select(bit_and(one, inside), v, 0), axes=[3, 5]);"
                 "v = v / cast(unsqueeze(max(count, 1), 0), v);"
                 "cast(transpose(v, perm=[1, 0, 2, 3]), x)";
    const stator_ref result =
        stator_emit_expr(&s.e, program, "v,inside,one,count,x",
                         STATOR_IN(sum, is_inside, is_one, count, v->of->operands[0]), STATOR_NONE);
    return differentiate(&s, result, in_grads);
}
