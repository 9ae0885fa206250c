/* Decompositions of tile and max_pool.
 *
 * tile: one axis at a time, [p, d, q] -> [p, 1, d, q] -> [p, r, d, q] -> [p, r*d, q]; a view until
 * the reshape. max_pool: values by reduce_window; indices by gathering the windows:
 *
 *     x[N,C,h,w] --gather axis h, then w--> [N,C,oh,kh,ow,kw] -> [N,C,oh,ow,kh*kw] -> argmax -> tap
 *
 * In: any padding, dilation, symbolic sizes. Invariant: the tap that argmax picks is the first one
 * in row-major order that holds the maximum and lies inside x. */
#include "core/base/check.h"
#include "ir/ops/op_kit.h"
#include "ir/ops/rules.h"
#include <stator/ops.h>
#include <string.h>

/* ---- tile ---- */

static stator_ref tile_axis(st_kit *k, stator_ref x, uint32_t axis, stator_ref repeats)
{
    stator_ref dims[STATOR_RANK_MAX], split[4], whole[STATOR_RANK_MAX];
    const uint32_t rank = st_kit_rank(k, x);
    split[0] = split[3] = st_kit_size(k, 1);
    st_kit_dims(k, x, dims);
    for (uint32_t i = 0; i < rank; i++) {
        whole[i] = i == axis ? st_kit_sym(k, '*', dims[i], repeats) : dims[i];
        if (i != axis) {
            split[i < axis ? 0 : 3] = st_kit_sym(k, '*', split[i < axis ? 0 : 3], dims[i]);
        }
    }
    split[1] = st_kit_size(k, 1);
    split[2] = dims[axis];
    x = st_kit_reshape(k, x, split, 4);
    split[1] = repeats;
    x = st_kit_expand(k, x, split, 4);
    return st_kit_reshape(k, x, whole, rank);
}

stator_status st_dec_tile(stator_builder *b, const st_decompose_node *node, stator_ref *out_results,
                          stator_diag **err)
{
    st_kit k = {b, err, STATOR_OK};
    const stator_ref *repeats = node->attrs[STATOR_tile_repeats].list;
    stator_ref x = node->operands[0];
    for (uint32_t i = 0; i < node->attrs[STATOR_tile_repeats].count; i++) {
        if (!st_kit_is(&k, repeats[i], 1)) {
            x = tile_axis(&k, x, i, repeats[i]);
        }
    }
    out_results[0] = x;
    return k.status;
}

/* ---- max_pool ---- */

typedef struct pool {
    st_kit *k;
    stator_ref x;
    uint32_t n; /* spatial axes */
    const int64_t *window, *strides, *dilations;
    const stator_ref *pads;          /* lows, highs */
    stator_ref out[STATOR_RANK_MAX]; /* spatial sizes of the result */
} pool;

/* Positions that the windows read along spatial axis i: i64 [out, window], outside of x too. */
static stator_ref positions(const pool *p, uint32_t i)
{
    const stator_attr attrs[5] = {ST_KIT_DIMS("o", &p->out[i], 1), ST_KIT_INT("w", p->window[i]),
                                  ST_KIT_INT("s", p->strides[i]), ST_KIT_INT("d", p->dilations[i]),
                                  ST_KIT_DIMS("lo", &p->pads[i], 1)};
    return st_kit_expr(p->k,
                       "iota(shape=[o[0], 1], axis=0) * s + iota(shape=[1, w], axis=1) * d - lo[0]",
                       "", NULL, 5, attrs);
}

/* An [out, window] matrix of axis i placed in [1.., out_i, 1.., window_i, 1..] for the final order
 * of axes: all outs, then all windows. */
static stator_ref spread_matrix(const pool *p, stator_ref matrix, uint32_t i)
{
    stator_ref dims[STATOR_RANK_MAX];
    for (uint32_t d = 0; d < 2u * p->n; d++) {
        dims[d] = st_kit_size(p->k, 1);
    }
    dims[i] = p->out[i];
    dims[p->n + i] = st_kit_size(p->k, p->window[i]);
    return st_kit_reshape(p->k, matrix, dims, 2u * p->n);
}

/* Joins the last n axes (the windows) of a tensor whose leading axes are `lead`. */
static stator_ref join_windows(const pool *p, stator_ref x, uint32_t lead)
{
    stator_ref dims[STATOR_RANK_MAX];
    int64_t taps = 1;
    for (uint32_t i = 0; i < p->n; i++) {
        if (!st_mul_i64(taps, p->window[i], &taps)) {
            return st_kit_fail(p->k, STATOR_UNIMPLEMENTED, "the window is too large");
        }
    }
    st_kit_dims(p->k, x, dims);
    dims[lead] = st_kit_size(p->k, taps);
    return st_kit_reshape(p->k, x, dims, lead + 1u);
}

/* x's windows: [N, C, outs.., windows..]; positions outside are clamped into x. */
static stator_ref gather_windows(const pool *p, const stator_ref *at)
{
    int64_t perm[STATOR_RANK_MAX] = {0, 1};
    stator_ref x = p->x;
    for (uint32_t i = 0; i < p->n; i++) {
        const stator_ref size = st_kit_dim(p->k, p->x, 2u + i);
        const stator_ref index = st_kit_expr(p->k, "min(max(p, 0), size[0] - 1)", "p", &at[i], 1,
                                             &ST_KIT_DIMS("size", &size, 1));
        x = st_kit_gather(p->k, x, index, 2 + 2 * (int64_t)i);
        perm[2u + i] = 2 + 2 * (int64_t)i;
        perm[2u + p->n + i] = 3 + 2 * (int64_t)i;
    }
    return st_kit_transpose(p->k, x, perm, 2u + 2u * p->n);
}

/* A bool [outs.., taps]: true for taps that lie inside x. */
static stator_ref inside(const pool *p, const stator_ref *at)
{
    stator_ref all = 0, dims[STATOR_RANK_MAX];
    for (uint32_t i = 0; i < p->n; i++) {
        const stator_ref size = st_kit_dim(p->k, p->x, 2u + i);
        stator_ref ok = st_kit_expr(p->k, "bit_and(p >= 0, p < size[0])", "p", &at[i], 1,
                                    &ST_KIT_DIMS("size", &size, 1));
        ok = spread_matrix(p, ok, i);
        all = all ? st_kit_binary(p->k, "bit_and", all, ok) : ok;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        dims[i] = p->out[i];
        dims[p->n + i] = st_kit_size(p->k, p->window[i]);
    }
    return join_windows(p, st_kit_expand(p->k, all, dims, 2u * p->n), p->n);
}

/* The flat position of every tap inside one channel: i64 [outs.., taps]. */
static stator_ref flat_positions(const pool *p, const stator_ref *at, int column_major)
{
    stator_ref all = 0, step = st_kit_size(p->k, 1), dims[STATOR_RANK_MAX];
    for (uint32_t j = 0; j < p->n; j++) {
        const uint32_t i = column_major ? j : p->n - 1u - j;
        stator_ref part =
            st_kit_expr(p->k, "p * step[0]", "p", &at[i], 1, &ST_KIT_DIMS("step", &step, 1));
        part = spread_matrix(p, part, i);
        all = all ? st_kit_binary(p->k, "add", all, part) : part;
        step = st_kit_sym(p->k, '*', step, st_kit_dim(p->k, p->x, 2u + i));
    }
    for (uint32_t i = 0; i < p->n; i++) {
        dims[i] = p->out[i];
        dims[p->n + i] = st_kit_size(p->k, p->window[i]);
    }
    return join_windows(p, st_kit_expand(p->k, all, dims, 2u * p->n), p->n);
}

/* The number of the winning tap: i64 [N, C, outs.., 1]. Where the maximum is the dtype's lowest
 * value padding cannot be told from data by value, so the first tap inside x is taken. */
static stator_ref winning_tap(const pool *p, const stator_ref *at)
{
    const stator_ref windows = join_windows(p, gather_windows(p, at), 2u + p->n);
    const stator_ref values[2] = {windows, inside(p, at)};
    const stator_dtype dtype = st_kit_dtype(p->k, p->x);
    const int is_float = st_dtype_class(dtype) == STATOR_CLASS_FLOAT;
    const int is_signed = st_dtype_class(dtype) == STATOR_CLASS_INT;
    const int64_t lowest = is_signed ? -(INT64_C(1) << (st_dtype_bits(dtype) - 1u)) : 0;
    const stator_attr low =
        is_float ? ST_KIT_FLOAT("low", -__builtin_inf()) : ST_KIT_INT("low", lowest);
    return st_kit_expr(p->k,
                       "m = select(ok, w, low); t = argmax(m, axis=-1, keepdims=1); "
                       "f = argmax(cast(ok, i32), axis=-1, keepdims=1); "
                       "select(reduce_max(m, axes=[-1], keepdims=1) == low, f, t)",
                       "w,ok", values, 1, &low);
}

static stator_ref pool_indices(const pool *p, int column_major)
{
    stator_ref at[STATOR_RANK_MAX], dims[STATOR_RANK_MAX], plane = st_kit_size(p->k, 1);
    if (2u + 2u * p->n > STATOR_RANK_MAX) {
        return st_kit_fail(p->k, STATOR_UNIMPLEMENTED, "more than %d spatial axes",
                           STATOR_RANK_MAX / 2 - 1);
    }
    for (uint32_t i = 0; i < p->n; i++) {
        at[i] = positions(p, i);
        plane = st_kit_sym(p->k, '*', plane, st_kit_dim(p->k, p->x, 2u + i));
    }
    stator_ref flat = flat_positions(p, at, column_major);
    const stator_ref tap = winning_tap(p, at);
    st_kit_dims(p->k, tap, dims);
    dims[2u + p->n] = st_kit_dim(p->k, flat, p->n);
    flat = st_kit_expand(p->k, flat, dims, 3u + p->n);
    const stator_ref values[3] = {flat, tap, p->x};
    const stator_attr attrs[2] = {ST_KIT_DIMS("plane", &plane, 1), ST_KIT_INT("n", (int64_t)p->n)};
    return st_kit_expr(p->k,
                       "i = squeeze(gather_elements(flat, tap, axis=-1), -1); "
                       "c = iota(shape=[dim(x, 0), 1] + repeat(1, n), axis=0) * dim(x, 1) + "
                       "iota(shape=[dim(x, 1)] + repeat(1, n), axis=0); i + c * plane[0]",
                       "flat,tap,x", values, 2, attrs);
}

stator_status st_dec_max_pool(stator_builder *b, const st_decompose_node *node,
                              stator_ref *out_results, stator_diag **err)
{
    st_kit k = {b, err, STATOR_OK};
    pool p = {.k = &k,
              .x = node->operands[0],
              .n = node->attrs[STATOR_max_pool_window].count,
              .window = node->attrs[STATOR_max_pool_window].list,
              .strides = node->attrs[STATOR_max_pool_strides].list,
              .dilations = node->attrs[STATOR_max_pool_dilations].list,
              .pads = node->attrs[STATOR_max_pool_pads].list};
    const stator_attr attrs[5] = {ST_KIT_STR("kind", "max"), ST_KIT_INTS("window", p.window, p.n),
                                  ST_KIT_INTS("strides", p.strides, p.n),
                                  ST_KIT_DIMS("pads", p.pads, 2u * p.n),
                                  ST_KIT_INTS("dilations", p.dilations, p.n)};
    out_results[0] = st_kit_op(&k, "reduce_window", 1, &p.x, 5, attrs);
    if (node->n_results > 1 && k.status == STATOR_OK) {
        for (uint32_t i = 0; i < p.n; i++) {
            p.out[i] = st_kit_dim(&k, out_results[0], 2u + i);
        }
        out_results[1] = pool_indices(&p, node->attrs[STATOR_max_pool_column_major].i != 0);
    }
    return k.status;
}
