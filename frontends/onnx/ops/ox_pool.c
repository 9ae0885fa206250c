/* Pools over windows, over everything, and over regions. */
#include "frontends/onnx/ops/ox_window.h"

#include "core/base/convert.h"

#include <string.h>

static void high_pads_with_extra(ox_node *n, ox_window_spec *s)
{
    for (uint32_t i = 0; i < s->rank; i++) {
        s->pads[s->rank + i] = ox_sym_op(n, STATOR_SYM_ADD, s->pads[s->rank + i], s->ceil_extra[i]);
    }
}

static void max_pool(ox_node *n, stator_ref x, ox_window_spec *s, const int64_t *window)
{
    stator_ref out[2];
    high_pads_with_extra(n, s);
    stator_emit_node(
        &n->e, "max_pool", STATOR_IN(x),
        STATOR_AT(STATOR_A_INTS("window", s->rank, window), OX_WINDOW_ATTRS(*s),
                  STATOR_A_INT("column_major", ox_attr_int(n, "storage_order", 0) != 0)),
        0, NULL, 2, out);
    ox_out(n, 0, out[0]);
    ox_out(n, 1, out[1]);
}

static stator_ref avg_pool(ox_node *n, stator_ref x, ox_window_spec *s, const int64_t *window)
{
    const int64_t include_pad = ox_attr_int(n, "count_include_pad", 0) != 0;
    return ox_op(n, "avg_pool", STATOR_IN(x),
                 STATOR_AT(STATOR_A_INTS("window", s->rank, window), OX_WINDOW_ATTRS(*s),
                           STATOR_A_INT("include_pad", include_pad),
                           STATOR_A_DIMS("ceil_extra", s->has_ceil ? s->rank : 0, s->ceil_extra)));
}

static int64_t norm_order(ox_node *n)
{
    if (n->version < 2) { /* a float in the first operator set */
        return st_f64_to_i64(ox_attr_float(n, "p", 2));
    }
    const int64_t p = ox_attr_int(n, "p", 2);
    ox_expect(n, p >= 1, "attribute 'p' is %lld", (long long)p);
    return p;
}

static stator_ref lp_pool(ox_node *n, stator_ref x, ox_window_spec *s, const int64_t *window)
{
    high_pads_with_extra(n, s);
    return ox_op(n, "lp_pool", STATOR_IN(x),
                 STATOR_AT(STATOR_A_INTS("window", s->rank, window), OX_WINDOW_ATTRS(*s),
                           STATOR_A_INT("p", norm_order(n))));
}

/* kernel_shape as integers and as syms, for x's spatial axes. */
static const int64_t *window_of(ox_node *n, stator_ref x, stator_ref *kernel)
{
    uint32_t count;
    ox_check_rank(n, x, 3, STATOR_RANK_MAX, "the input");
    const int64_t *window = ox_attr_ints(n, "kernel_shape", &count);
    if (!ox_expect(n, window != NULL && count == ox_rank(n, x) - 2u,
                   "'kernel_shape' has %u entries for an input of rank %u", count, ox_rank(n, x))) {
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        kernel[i] = ox_sym(n, window[i]);
        ox_expect(n, window[i] >= 1, "'kernel_shape' holds %lld", (long long)window[i]);
    }
    return window;
}

void ox_pool(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    stator_ref kernel[STATOR_RANK_MAX] = {0};
    ox_window_spec s;
    const int64_t *window = window_of(n, x, kernel);
    ox_window_read(n, x, kernel, ox_attr_int(n, "ceil_mode", 0) != 0, &s);
    if (strcmp(n->row->name, "MaxPool") == 0) {
        max_pool(n, x, &s, window);
    } else if (strcmp(n->row->name, "AveragePool") == 0) {
        ox_out(n, 0, avg_pool(n, x, &s, window));
    } else {
        ox_out(n, 0, lp_pool(n, x, &s, window));
    }
}

void ox_global_pool(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const uint32_t rank = ox_rank(n, x);
    int64_t axes[STATOR_RANK_MAX];
    ox_check_rank(n, x, 3, STATOR_RANK_MAX, "the input");
    for (uint32_t i = 2; i < rank; i++) {
        axes[i - 2] = i;
    }
    if (strcmp(n->row->name, "GlobalAveragePool") == 0) {
        ox_out(n, 0, ox_reduce(n, "reduce_mean", x, rank - 2u, axes, true));
        return;
    }
    if (strcmp(n->row->name, "GlobalMaxPool") == 0) {
        ox_out(n, 0, ox_reduce(n, "reduce_max", x, rank - 2u, axes, true));
        return;
    }
    const int64_t p = norm_order(n);
    if (p <= 2) {
        ox_out(n, 0, ox_reduce(n, p == 1 ? "reduce_l1" : "reduce_l2", x, rank - 2u, axes, true));
        return;
    }
    const stator_ref powers = ox_bin(n, "pow", ox_un(n, "abs", x), ox_like(n, x, (double)p));
    const stator_ref sum = ox_reduce(n, "reduce_sum", powers, rank - 2u, axes, true);
    ox_out(n, 0, ox_bin(n, "pow", sum, ox_like(n, x, 1.0 / (double)p)));
}

void ox_max_unpool(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    stator_ref index = ox_cast(n, ox_need(n, 1), STATOR_I64);
    stator_ref kernel[STATOR_RANK_MAX] = {0};
    stator_ref natural[STATOR_RANK_MAX];
    stator_ref high[STATOR_RANK_MAX];
    stator_ref low[STATOR_RANK_MAX];
    ox_window_spec s;
    window_of(n, x, kernel);
    ox_window_read(n, x, kernel, false, &s);
    const uint32_t rank = ox_dims(n, x, natural);
    for (uint32_t i = 0; i < s.rank; i++) { /* (in - 1) * stride - pads + kernel */
        const stator_ref steps = ox_sym_op(n, STATOR_SYM_SUB, natural[i + 2], ox_sym(n, 1));
        const stator_ref reach =
            ox_sym_op(n, STATOR_SYM_ADD,
                      ox_sym_op(n, STATOR_SYM_MUL, steps, ox_sym(n, s.strides[i])), kernel[i]);
        const stator_ref pads = ox_sym_op(n, STATOR_SYM_ADD, s.pads[i], s.pads[s.rank + i]);
        natural[i + 2] = ox_sym_op(n, STATOR_SYM_SUB, reach, pads);
    }
    stator_ref y = ox_op(n, "max_unpool", STATOR_IN(x, index),
                         STATOR_AT(STATOR_A_DIMS("shape", rank, natural)));
    if (ox_in(n, 2) != 0) { /* a larger shape is filled up with zeros at the ends */
        uint32_t count;
        const stator_ref *shape = ox_sizes(n, ox_in(n, 2), &count, "the output shape");
        OX_NEED(n, count == rank, "the output shape has %u entries, expected %u", count, rank);
        for (uint32_t i = 0; i < rank; i++) {
            low[i] = ox_sym(n, 0);
            high[i] = ox_sym_op(n, STATOR_SYM_SUB, shape[i], natural[i]);
        }
        y = ox_op(n, "pad", STATOR_IN(y),
                  STATOR_AT(STATOR_A_DIMS("low", rank, low), STATOR_A_DIMS("high", rank, high)));
    }
    ox_out(n, 0, y);
}

void ox_roi_align(ox_node *n)
{
    const char *mode = ox_attr_str(n, "mode", "avg");
    const char *coordinates = ox_attr_str(n, "coordinate_transformation_mode",
                                          n->version < 16 ? "output_half_pixel" : "half_pixel");
    ox_out(n, 0,
           ox_op(n, "roi_align",
                 STATOR_IN(ox_need(n, 0), ox_need(n, 1), ox_cast(n, ox_need(n, 2), STATOR_I64)),
                 STATOR_AT(STATOR_A_STR("mode", mode),
                           STATOR_A_INT("height", ox_attr_int(n, "output_height", 1)),
                           STATOR_A_INT("width", ox_attr_int(n, "output_width", 1)),
                           STATOR_A_INT("sampling_ratio", ox_attr_int(n, "sampling_ratio", 0)),
                           STATOR_A_FLOAT("scale", ox_attr_float(n, "spatial_scale", 1)),
                           STATOR_A_INT("half_pixel", strcmp(coordinates, "half_pixel") == 0))));
}

/* ---- MaxRoiPool ---- */

typedef struct roi_axis {
    stator_ref first; /* [R, 1, P, 1]: where each bin begins and ends on the axis */
    stator_ref last;
} roi_axis;

/* Bins of one axis: start = round(roi_low * scale), length = max(round(roi_high * scale) - start +
 * 1, 1), bin p covers [floor(p * length / pooled), ceil((p + 1) * length / pooled)) + start, cut to
 * the image (Girshick, "Fast R-CNN", 2015, RoI pooling). */
static roi_axis roi_bins(ox_node *n, stator_ref rois, uint32_t column, int64_t pooled,
                         stator_ref size, double scale)
{
    const stator_ref count = ox_dim(n, rois, 0);
    const stator_ref column_dims[3] = {count, ox_sym(n, 1), ox_sym(n, 1)};
    const stator_ref factor = ox_scalar(n, STATOR_F64, scale);
    stator_ref edge[2];
    for (uint32_t i = 0; i < 2; i++) {
        const stator_ref raw =
            ox_reshape(n, ox_slice_const(n, rois, 1, column + 2u * i, 1), 3, column_dims);
        const stator_ref scaled = ox_mul(n, ox_cast(n, raw, STATOR_F64), factor);
        edge[i] = ox_un(n, "floor", ox_add(n, scaled, ox_scalar(n, STATOR_F64, 0.5)));
    }
    const stator_ref one = ox_scalar(n, STATOR_F64, 1);
    const stator_ref length = ox_bin(n, "max", ox_add(n, ox_sub(n, edge[1], edge[0]), one), one);
    const stator_ref bin = ox_div(n, length, ox_scalar(n, STATOR_F64, (double)pooled));
    const stator_ref bin_dims[3] = {ox_sym(n, 1), ox_sym(n, pooled), ox_sym(n, 1)};
    const stator_ref p = ox_cast(n, ox_iota(n, STATOR_I64, 3, bin_dims, 1), STATOR_F64);
    const stator_ref low = ox_add(n, ox_un(n, "floor", ox_mul(n, p, bin)), edge[0]);
    const stator_ref high = ox_add(n, ox_un(n, "ceil", ox_mul(n, ox_add(n, p, one), bin)), edge[0]);
    const stator_ref end = ox_cast(n, ox_from_dim(n, size), STATOR_F64);
    const stator_ref zero = ox_scalar(n, STATOR_F64, 0);
    const roi_axis out = {ox_bin(n, "min", ox_bin(n, "max", low, zero), end),
                          ox_bin(n, "min", ox_bin(n, "max", high, zero), end)};
    return out;
}

/* Is position i of the axis in bin p of region r? bool [R, P, size]. */
static stator_ref roi_mask(ox_node *n, const roi_axis *bins, stator_ref size)
{
    const stator_ref dims[3] = {ox_sym(n, 1), ox_sym(n, 1), size};
    const stator_ref at = ox_cast(n, ox_iota(n, STATOR_I64, 3, dims, 2), STATOR_F64);
    return ox_bin(n, "bit_and", ox_bin(n, "ge", at, bins->first), ox_bin(n, "lt", at, bins->last));
}

/* Maximum over the last axis of x[.., size] where mask[R, P, size] holds: [.., P]. */
static stator_ref masked_max(ox_node *n, stator_ref x, stator_ref mask, uint32_t lead)
{
    static const int64_t last[1] = {-1};
    stator_ref m = mask;
    const uint32_t rank = ox_rank(n, x);
    for (uint32_t i = 0; i < lead; i++) {
        m = ox_unsqueeze(n, m, 1);
    }
    const stator_ref wide = ox_unsqueeze(n, x, rank - 1u);
    const stator_ref none = ox_like(n, x, -__builtin_inf());
    return ox_reduce(n, "reduce_max", ox_select(n, m, wide, none), 1, last, false);
}

void ox_max_roi_pool(ox_node *n)
{
    static const int64_t swap[4] = {0, 1, 3, 2};
    const stator_ref x = ox_need(n, 0);
    const stator_ref rois = ox_need(n, 1);
    uint32_t count;
    const int64_t *pooled = ox_attr_ints(n, "pooled_shape", &count);
    const double scale = ox_attr_float(n, "spatial_scale", 1);
    ox_check_rank(n, x, 4, 4, "the input");
    ox_check_rank(n, rois, 2, 2, "the regions");
    OX_NEED(n, pooled != NULL && count == 2 && pooled[0] >= 1 && pooled[1] >= 1,
            "'pooled_shape' must hold two positive sizes");
    const stator_ref batch =
        ox_cast(n, ox_squeeze(n, ox_slice_const(n, rois, 1, 0, 1), 1), STATOR_I64);
    const stator_ref height = ox_dim(n, x, 2);
    const stator_ref width = ox_dim(n, x, 3);
    const roi_axis rows = roi_bins(n, rois, 2, pooled[0], height, scale);
    const roi_axis columns = roi_bins(n, rois, 1, pooled[1], width, scale);
    const stator_ref images = ox_gather(n, x, batch, 0); /* [R, C, H, W] */
    const stator_ref by_column = masked_max(n, images, roi_mask(n, &columns, width), 2);
    const stator_ref transposed = ox_transpose(n, by_column, swap); /* [R, C, PW, H] */
    const stator_ref both = masked_max(n, transposed, roi_mask(n, &rows, height), 2);
    const stator_ref y = ox_transpose(n, both, swap);
    /* A bin that covers nothing gives 0. */
    const stator_ref empty = ox_bin(n, "eq", y, ox_like(n, y, -__builtin_inf()));
    ox_out(n, 0, ox_select(n, empty, ox_like(n, y, 0), y));
}
