/* Resize, Upsample, GridSample, AffineGrid. */
#include "frontends/onnx/onnx.h"

#include <math.h>
#include <string.h>

typedef struct resize {
    uint32_t rank;
    stator_ref in[STATOR_RANK_MAX];
    stator_ref out[STATOR_RANK_MAX];
    double scales[STATOR_RANK_MAX];
    bool has_scales;
    stator_ref roi; /* f32[2 * rank], 0 when there is none */
    uint32_t axis_count;
    uint32_t axes[STATOR_RANK_MAX];
} resize;

static void read_axes(ox_node *n, stator_ref x, resize *r)
{
    uint32_t count;
    const int64_t *given = ox_attr_ints(n, "axes", &count);
    r->rank = ox_dims(n, x, r->in);
    r->axis_count = given != NULL ? count : r->rank;
    OX_NEED(n, r->axis_count <= r->rank, "%u axes for an input of rank %u", count, r->rank);
    for (uint32_t i = 0; i < r->rank; i++) {
        r->out[i] = r->in[i];
        r->scales[i] = 1;
    }
    for (uint32_t i = 0; i < r->axis_count; i++) {
        r->axes[i] = given != NULL ? ox_axis(n, given[i], r->rank) : i;
    }
}

/* floor(size * factor). Exact for static sizes and for factors that are small fractions; otherwise
 * computed while the program runs. */
static stator_ref scaled_size(ox_node *n, stator_ref size, double factor)
{
    int64_t known;
    if (ox_sym_const(n, size, &known)) {
        const double out = floor((double)known * factor);
        return out >= 0 && out < 1e15 ? ox_sym(n, (int64_t)out)
                                      : ox_fail(n, STATOR_INVALID_ARGUMENT, "the scale %g", factor);
    }
    for (int64_t den = 1; den <= 64; den *= 2) {
        const double scaled = factor * (double)den;
        if (scaled == floor(scaled) && scaled >= 0 && scaled < 1e6) {
            return ox_sym_op(n, STATOR_SYM_FLOORDIV,
                             ox_sym_op(n, STATOR_SYM_MUL, size, ox_sym(n, (int64_t)scaled)),
                             ox_sym(n, den));
        }
    }
    const stator_ref wide = ox_cast(n, ox_from_dim(n, size), STATOR_F64);
    const stator_ref out = ox_un(n, "floor", ox_mul(n, wide, ox_scalar(n, STATOR_F64, factor)));
    uint32_t count;
    const stator_ref *syms = ox_sizes(n, ox_cast(n, out, STATOR_I64), &count, "an output size");
    return syms != NULL && count == 1 ? syms[0] : 0;
}

/* roi of the given axes spread over all: [starts.., ends..] with 0 and 1 elsewhere. */
static const double *spread_roi(ox_node *n, stator_ref given, resize *r)
{
    uint32_t count;
    const double *list = ox_need_floats(n, given, &count, "the roi");
    double *all = ox_alloc(n, 2u * r->rank + 1u, sizeof *all);
    if (!ox_expect(n, list != NULL && count == 2u * r->axis_count,
                   "the roi has %u entries for %u axes", count, r->axis_count)) {
        return NULL;
    }
    for (uint32_t i = 0; i < 2u * r->rank; i++) {
        all[i] = i < r->rank ? 0 : 1;
    }
    for (uint32_t i = 0; i < r->axis_count; i++) {
        all[r->axes[i]] = list[i];
        all[r->rank + r->axes[i]] = list[r->axis_count + i];
    }
    r->roi = ox_floats(n, 2u * r->rank, all);
    return all;
}

static void sizes_from_scales(ox_node *n, resize *r, const double *scales, uint32_t count,
                              const double *roi)
{
    OX_NEED(n, scales != NULL && count == r->axis_count, "%u scales for %u axes", count,
            r->axis_count);
    r->has_scales = true;
    for (uint32_t i = 0; ox_ok(n) && i < count; i++) {
        const uint32_t axis = r->axes[i];
        const double part = roi != NULL ? roi[r->rank + axis] - roi[axis] : 1;
        ox_expect(n, scales[i] > 0, "scale %u is %g", i, scales[i]);
        r->scales[axis] = scales[i];
        r->out[axis] = scaled_size(n, r->in[axis], scales[i] * part);
    }
}

/* keep_aspect_ratio_policy not_larger and not_smaller: one scale for all axes. */
static void keep_aspect(ox_node *n, resize *r, const int64_t *sizes, bool is_smallest)
{
    double scale = 0;
    for (uint32_t i = 0; i < r->axis_count; i++) {
        int64_t in;
        if (!ox_sym_const(n, r->in[r->axes[i]], &in)) {
            ox_ask(n, ox_in(n, 0), "the input's size, to keep its aspect ratio,");
            return;
        }
        const double own = (double)sizes[i] / (double)in;
        scale = i == 0 || (is_smallest ? own < scale : own > scale) ? own : scale;
    }
    r->has_scales = true;
    for (uint32_t i = 0; i < r->axis_count; i++) {
        int64_t in;
        ox_sym_const(n, r->in[r->axes[i]], &in);
        r->scales[r->axes[i]] = scale;
        const double size = floor(scale * (double)in + 0.5);
        OX_NEED(n, size >= 0 && size < 1e15, "an output size of %g", size);
        r->out[r->axes[i]] = ox_sym(n, (int64_t)size);
    }
}

static void sizes_from_input(ox_node *n, resize *r, stator_ref given)
{
    const char *policy = ox_attr_str(n, "keep_aspect_ratio_policy", "stretch");
    uint32_t count;
    const bool is_stretch = strcmp(policy, "stretch") == 0;
    const bool is_smallest = strcmp(policy, "not_larger") == 0;
    OX_NEED(n, is_stretch || is_smallest || strcmp(policy, "not_smaller") == 0,
            "'keep_aspect_ratio_policy' is '%s'", policy);
    if (!is_stretch) {
        const int64_t *ints = ox_need_ints(n, given, &count, "the sizes");
        if (ints != NULL && count == r->axis_count) {
            keep_aspect(n, r, ints, is_smallest);
        } else {
            ox_fail(n, STATOR_INVALID_ARGUMENT, "%u sizes for %u axes", count, r->axis_count);
        }
        return;
    }
    const stator_ref *sizes = ox_sizes(n, given, &count, "the sizes");
    OX_NEED(n, count == r->axis_count, "%u sizes for %u axes", count, r->axis_count);
    for (uint32_t i = 0; i < count; i++) {
        r->out[r->axes[i]] = sizes[i];
    }
}

/* An optional list input; an empty one counts as absent. */
static stator_ref list_in(ox_node *n, uint32_t k)
{
    const stator_ref v = ox_in(n, k);
    return v != 0 && ox_ok(n) && ox_sym_is(n, ox_dim(n, v, 0), 0) ? 0 : v;
}

static void emit_resize(ox_node *n, stator_ref x, const resize *r, const char *coordinates,
                        const char *nearest)
{
    stator_attr attrs[] = {
        STATOR_A_DIMS("sizes", r->rank, r->out),
        STATOR_A_STR("mode", ox_attr_str(n, "mode", "nearest")),
        STATOR_A_STR("coordinates", coordinates),
        STATOR_A_STR("nearest", nearest),
        STATOR_A_FLOAT("cubic_a", ox_attr_float(n, "cubic_coeff_a", -0.75)),
        STATOR_A_INT("exclude_outside", ox_attr_int(n, "exclude_outside", 0) != 0),
        STATOR_A_FLOAT("extrapolation", ox_attr_float(n, "extrapolation_value", 0)),
        STATOR_A_INT("antialias", ox_attr_int(n, "antialias", 0) != 0),
        STATOR_A_FLOATS("scales", r->rank, r->scales),
    };
    const uint32_t count = r->has_scales ? 9 : 8;
    ox_out(n, 0, ox_op(n, "resize", STATOR_IN(x, r->roi), count, attrs));
}

/* Resize of operator set 10, and Upsample. */
static void resize_by_scales(ox_node *n, const double *scales, uint32_t count)
{
    resize r = {0};
    const stator_ref x = ox_need(n, 0);
    read_axes(n, x, &r);
    sizes_from_scales(n, &r, scales, count, NULL);
    emit_resize(n, x, &r, "asymmetric", "floor");
}

void ox_upsample(ox_node *n)
{
    uint32_t count = 0;
    const double *scales;
    double old[4] = {1, 1, 1, 1};
    if (n->version < 7) {
        old[2] = ox_attr_float(n, "height_scale", 1);
        old[3] = ox_attr_float(n, "width_scale", 1);
        scales = old;
        count = 4;
    } else if (n->version < 9) {
        scales = ox_attr_floats(n, "scales", &count);
    } else {
        scales = ox_need_floats(n, ox_need(n, 1), &count, "the scales");
    }
    resize_by_scales(n, scales, count);
}

void ox_resize(ox_node *n)
{
    uint32_t count;
    if (n->version < 11) {
        const double *scales = ox_need_floats(n, ox_need(n, 1), &count, "the scales");
        resize_by_scales(n, scales, count);
        return;
    }
    const char *coordinates = ox_attr_str(n, "coordinate_transformation_mode", "half_pixel");
    const bool crops = strcmp(coordinates, "tf_crop_and_resize") == 0;
    const stator_ref x = ox_need(n, 0);
    const stator_ref scales_in = list_in(n, 2);
    const stator_ref sizes_in = list_in(n, 3);
    const stator_ref roi_in = crops ? list_in(n, 1) : 0;
    const double *roi = NULL;
    resize r = {0};
    read_axes(n, x, &r);
    OX_NEED(n, (scales_in != 0) != (sizes_in != 0),
            "exactly one of 'scales' and 'sizes' must be given");
    if (roi_in != 0 && (scales_in != 0 || r.axis_count != r.rank)) {
        roi = spread_roi(n, roi_in, &r);
    } else if (roi_in != 0) {
        r.roi = ox_cast(n, roi_in, STATOR_F32);
    }
    if (scales_in != 0) {
        const double *scales = ox_need_floats(n, scales_in, &count, "the scales");
        sizes_from_scales(n, &r, scales, count, roi);
    } else {
        sizes_from_input(n, &r, sizes_in);
    }
    emit_resize(n, x, &r, coordinates, ox_attr_str(n, "nearest_mode", "round_prefer_floor"));
}

/* ---- sampling grids ---- */

void ox_grid_sample(ox_node *n)
{
    const char *mode = ox_attr_str(n, "mode", n->version < 20 ? "bilinear" : "linear");
    if (strcmp(mode, "bilinear") == 0) {
        mode = "linear";
    } else if (strcmp(mode, "bicubic") == 0) {
        mode = "cubic";
    }
    const stator_ref x = ox_need(n, 0);
    const stator_ref grid = ox_need(n, 1);
    ox_out(
        n, 0,
        ox_op(n, "grid_sample", STATOR_IN(x, grid),
              STATOR_AT(STATOR_A_STR("mode", mode),
                        STATOR_A_STR("padding", ox_attr_str(n, "padding_mode", "zeros")),
                        STATOR_A_INT("align_corners", ox_attr_int(n, "align_corners", 0) != 0))));
}

/* Positions from -1 to 1 along axis `axis` of `rank` axes of size 1 elsewhere; the ends are the
 * centres of the outer pixels (align) or their edges. */
static stator_ref grid_positions(ox_node *n, stator_dtype dtype, uint32_t rank, uint32_t axis,
                                 stator_ref size, bool align)
{
    stator_ref dims[STATOR_RANK_MAX];
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = i == axis ? size : ox_sym(n, 1);
    }
    const stator_dtype wide = STATOR_F64;
    const stator_ref i = ox_cast(n, ox_iota(n, STATOR_I64, rank, dims, axis), wide);
    const stator_ref count = ox_cast(n, ox_from_dim(n, size), wide);
    const stator_ref one = ox_scalar(n, wide, 1);
    const stator_ref two = ox_scalar(n, wide, 2);
    stator_ref at;
    if (align) {
        const stator_ref steps = ox_bin(n, "max", ox_sub(n, count, one), one);
        at = ox_sub(n, ox_div(n, ox_mul(n, i, two), steps), one);
    } else {
        at = ox_sub(n, ox_div(n, ox_add(n, ox_mul(n, i, two), one), count), one);
    }
    return ox_cast(n, at, dtype);
}

/* grid[n, .., c] = sum over k of theta[n, c, k] * position k (x, y(, z), 1) */
void ox_affine_grid(ox_node *n)
{
    const stator_ref theta = ox_need(n, 0);
    const bool align = ox_attr_int(n, "align_corners", 0) != 0;
    uint32_t count;
    const stator_ref *size = ox_sizes(n, ox_need(n, 1), &count, "the size");
    ox_check_rank(n, theta, 3, 3, "theta");
    OX_NEED(n, count >= 4 && count <= 5, "the size has %u entries, expected 4 or 5", count);
    const uint32_t spatial = count - 2u;
    const stator_dtype dtype = ox_dtype(n, theta);
    stator_ref dims[5];
    stator_ref parts[4];
    stator_ref sum_dims[6];
    sum_dims[0] = ox_dim(n, theta, 0);
    for (uint32_t k = 0; k < spatial; k++) {
        dims[k] = size[2 + k];
        sum_dims[1 + k] = ox_sym(n, 1);
    }
    stator_ref components[3];
    for (uint32_t c = 0; c < spatial; c++) {
        for (uint32_t k = 0; k <= spatial; k++) { /* theta[:, c, k] as [N, 1, ..] */
            const stator_ref row = ox_slice_const(n, theta, 1, c, 1);
            parts[k] = ox_reshape(n, ox_slice_const(n, row, 2, k, 1), 1 + spatial, sum_dims);
        }
        stator_ref y = parts[spatial];
        for (uint32_t k = 0; k < spatial; k++) { /* x is the last spatial axis */
            const stator_ref at =
                grid_positions(n, dtype, spatial, spatial - 1u - k, dims[spatial - 1u - k], align);
            y = ox_add(n, y, ox_mul(n, parts[k], at));
        }
        components[c] = ox_unsqueeze(n, y, 1 + spatial);
    }
    ox_out(n, 0, ox_concat(n, 1 + spatial, spatial, components));
}
