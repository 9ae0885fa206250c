/* Infer rules of sliding windows (reduce_window, pools), region features and image sampling
 * (roi_align, grid_sample, resize). In: window attributes in the order of the spatial axes, pads as
 * lows then highs. Out: sizes by st_in_window_size. */
#include "ir/ops/rules.h"
#include <stator/ops.h>

#define FLOAT_ONLY (1u << STATOR_CLASS_FLOAT)

/* Sizes of windows over the trailing axes, into dims; extra: added high padding or NULL. */
static stator_status window_dims(st_infer *in, const stator_ref *extra, stator_ref *dims)
{
    int64_t window[STATOR_RANK_MAX], strides[STATOR_RANK_MAX], dilations[STATOR_RANK_MAX];
    stator_ref pads[2 * STATOR_RANK_MAX];
    const uint32_t at = st_in_place(in, "window");
    const uint32_t n = st_in_list(in, at, window, STATOR_RANK_MAX);
    const uint32_t rank = st_in_rank(in, 0);
    ST_IN_FAIL_IF(n == 0 || n > rank, in, "window has %u entries, x has rank %u", n, rank);
    ST_TRY(st_in_list_count(in, st_in_place(in, "strides"), n));
    ST_TRY(st_in_list_count(in, st_in_place(in, "dilations"), n));
    ST_TRY(st_in_list_count(in, st_in_place(in, "pads"), 2u * n));
    st_in_list(in, st_in_place(in, "strides"), strides, STATOR_RANK_MAX);
    st_in_list(in, st_in_place(in, "dilations"), dilations, STATOR_RANK_MAX);
    st_in_syms(in, st_in_place(in, "pads"), pads, 2 * STATOR_RANK_MAX);
    st_in_dims(in, 0, dims);
    for (uint32_t i = 0; i < n; i++) {
        ST_IN_FAIL_IF(window[i] < 1, in, "window entry %u is %lld, expected at least 1", i,
                      (long long)window[i]);
        const stator_ref hi =
            extra ? st_in_op(in, STATOR_SYM_ADD, pads[n + i], extra[i]) : pads[n + i];
        const st_sym_window w = {.size = dims[rank - n + i],
                                 .low = pads[i],
                                 .high = hi,
                                 .taps = st_in_size(in, window[i]),
                                 .dilation = dilations[i],
                                 .stride = strides[i]};
        ST_TRY(st_in_window_size(in, &w, i, &dims[rank - n + i]));
    }
    return STATOR_OK;
}

stator_status st_infer_window(st_infer *in)
{
    stator_ref dims[STATOR_RANK_MAX];
    ST_TRY(window_dims(in, NULL, dims));
    return st_in_set(in, 0, st_in_dtype(in, 0), st_in_rank(in, 0), dims);
}

stator_status st_infer_reduce_window(st_infer *in)
{
    ST_TRY(st_in_one_of(in, STATOR_reduce_window_kind, "sum,max,min"));
    return st_infer_window(in);
}

/* The window has an entry for each spatial axis of x[N, C, spatial]. */
static stator_status is_pool(const st_infer *in)
{
    ST_TRY(st_in_rank_is(in, 0, 3, STATOR_RANK_MAX));
    return st_in_list_count(in, st_in_place(in, "window"), st_in_rank(in, 0) - 2u);
}

stator_status st_infer_lp_pool(st_infer *in)
{
    ST_TRY(st_in_class_is(in, 0, FLOAT_ONLY, "a float dtype"));
    ST_TRY(is_pool(in));
    ST_IN_FAIL_IF(st_in_int(in, STATOR_lp_pool_p) < 1, in, "p is %lld, expected at least 1",
                  (long long)st_in_int(in, STATOR_lp_pool_p));
    return st_infer_window(in);
}

stator_status st_infer_max_pool(st_infer *in)
{
    stator_ref dims[STATOR_RANK_MAX];
    ST_TRY(is_pool(in));
    ST_TRY(window_dims(in, NULL, dims));
    ST_TRY(st_in_set(in, 0, st_in_dtype(in, 0), st_in_rank(in, 0), dims));
    return st_in_set(in, 1, STATOR_I64, st_in_rank(in, 0), dims);
}

stator_status st_infer_avg_pool(st_infer *in)
{
    stator_ref dims[STATOR_RANK_MAX], extra[STATOR_RANK_MAX];
    ST_TRY(st_in_class_is(in, 0, FLOAT_ONLY, "a float dtype"));
    ST_TRY(is_pool(in));
    const uint32_t n = st_in_syms(in, STATOR_avg_pool_ceil_extra, extra, STATOR_RANK_MAX);
    if (n != 0) {
        ST_TRY(st_in_list_count(in, STATOR_avg_pool_ceil_extra, st_in_rank(in, 0) - 2u));
    }
    ST_TRY(window_dims(in, n ? extra : NULL, dims));
    return st_in_set(in, 0, st_in_dtype(in, 0), st_in_rank(in, 0), dims);
}

stator_status st_infer_roi_align(st_infer *in)
{
    ST_TRY(st_in_class_is(in, 0, FLOAT_ONLY, "a float dtype"));
    ST_TRY(st_in_same_dtype(in, 0, 1));
    ST_TRY(st_in_rank_is(in, 0, 4, 4));
    ST_TRY(st_in_rank_is(in, 1, 2, 2));
    ST_TRY(st_in_rank_is(in, 2, 1, 1));
    ST_TRY(st_in_index_dtype(in, 2));
    ST_TRY(st_in_one_of(in, STATOR_roi_align_mode, "avg,max"));
    ST_TRY(st_in_same_dim(in, st_in_dim(in, 1, 1), st_in_size(in, 4), "rois, axis 1"));
    ST_TRY(st_in_same_dim(in, st_in_dim(in, 1, 0), st_in_dim(in, 2, 0), "rois and batch"));
    const int64_t height = st_in_int(in, STATOR_roi_align_height);
    const int64_t width = st_in_int(in, STATOR_roi_align_width);
    ST_IN_FAIL_IF(height < 1 || width < 1 || st_in_int(in, STATOR_roi_align_sampling_ratio) < 0, in,
                  "height and width must be at least 1, sampling_ratio at least 0");
    const stator_ref dims[4] = {st_in_dim(in, 1, 0), st_in_dim(in, 0, 1), st_in_size(in, height),
                                st_in_size(in, width)};
    return st_in_set(in, 0, st_in_dtype(in, 0), 4, dims);
}

stator_status st_infer_grid_sample(st_infer *in)
{
    stator_ref dims[STATOR_RANK_MAX];
    ST_TRY(st_in_class_is(in, 0, FLOAT_ONLY, "a float dtype"));
    ST_TRY(st_in_class_is(in, 1, FLOAT_ONLY, "a float dtype"));
    ST_TRY(st_in_rank_is(in, 0, 3, STATOR_RANK_MAX));
    const uint32_t rank = st_in_rank(in, 0);
    ST_TRY(st_in_rank_is(in, 1, rank, rank));
    ST_TRY(st_in_one_of(in, STATOR_grid_sample_mode, "linear,nearest,cubic"));
    ST_TRY(st_in_one_of(in, STATOR_grid_sample_padding, "zeros,border,reflection"));
    ST_TRY(st_in_same_dim(in, st_in_dim(in, 0, 0), st_in_dim(in, 1, 0), "batches of x and grid"));
    ST_TRY(st_in_same_dim(in, st_in_dim(in, 1, rank - 1u), st_in_size(in, (int64_t)rank - 2),
                          "last axis of grid and spatial axes of x"));
    dims[0] = st_in_dim(in, 0, 0);
    dims[1] = st_in_dim(in, 0, 1);
    for (uint32_t i = 2; i < rank; i++) {
        dims[i] = st_in_dim(in, 1, i - 1u);
    }
    return st_in_set(in, 0, st_in_dtype(in, 0), rank, dims);
}

static stator_status resize_modes(const st_infer *in)
{
    ST_TRY(st_in_one_of(in, STATOR_resize_mode, "nearest,linear,cubic"));
    ST_TRY(st_in_one_of(in, STATOR_resize_coordinates,
                        "half_pixel,half_pixel_symmetric,pytorch_half_pixel,align_corners,"
                        "asymmetric,tf_half_pixel_for_nn,tf_crop_and_resize"));
    return st_in_one_of(in, STATOR_resize_nearest,
                        "round_prefer_floor,round_prefer_ceil,floor,ceil");
}

stator_status st_infer_resize(st_infer *in)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = st_in_rank(in, 0);
    ST_TRY(st_in_list_count(in, STATOR_resize_sizes, rank));
    if (in->attrs[STATOR_resize_scales]->count != 0) {
        ST_TRY(st_in_list_count(in, STATOR_resize_scales, rank));
    }
    ST_TRY(resize_modes(in));
    const bool crops = st_in_string_is(in, STATOR_resize_coordinates, "tf_crop_and_resize");
    ST_IN_FAIL_IF(crops && !st_in_has(in, 1), in,
                  "coordinates tf_crop_and_resize needs the operand roi");
    if (st_in_has(in, 1)) {
        ST_TRY(st_in_dtype_is(in, 1, STATOR_F32));
        ST_TRY(st_in_rank_is(in, 1, 1, 1));
        ST_TRY(st_in_same_dim(in, st_in_dim(in, 1, 0), st_in_size(in, 2 * (int64_t)rank),
                              "roi and twice the rank of x"));
    }
    st_in_syms(in, STATOR_resize_sizes, dims, STATOR_RANK_MAX);
    return st_in_set(in, 0, st_in_dtype(in, 0), rank, dims);
}

stator_status st_infer_nms(st_infer *in)
{
    ST_TRY(st_in_class_is(in, 0, FLOAT_ONLY, "a float dtype"));
    ST_TRY(st_in_same_dtype(in, 0, 1));
    ST_TRY(st_in_rank_is(in, 0, 3, 3));
    ST_TRY(st_in_rank_is(in, 1, 3, 3));
    ST_TRY(st_in_same_dim(in, st_in_dim(in, 0, 2), st_in_size(in, 4), "boxes, axis 2"));
    ST_TRY(st_in_same_dim(in, st_in_dim(in, 0, 0), st_in_dim(in, 1, 0), "batches"));
    ST_TRY(st_in_same_dim(in, st_in_dim(in, 0, 1), st_in_dim(in, 1, 2), "boxes and scores"));
    ST_TRY(st_in_dtype_is(in, 2, STATOR_I64));
    for (uint32_t k = 2; k < 5; k++) {
        ST_TRY(st_in_scalar(in, k, true));
        ST_TRY(k == 2 ? STATOR_OK : st_in_class_is(in, k, FLOAT_ONLY, "a float dtype"));
    }
    const stator_ref dims[2] = {st_in_unbacked(in, 0, 0, st_in_numel_bound(in, 1)),
                                st_in_size(in, 3)};
    return st_in_set(in, 0, STATOR_I64, 2, dims);
}
