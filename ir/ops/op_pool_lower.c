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
#include "ir/op_emitter.h"
#include "ir/ops/rules.h"
#include <stator/ops.h>

/* ---- tile ---- */

static stator_ref tile_axis(stator_emitter *e, stator_ref x, uint32_t axis, stator_ref repeats)
{
    stator_ref dims[STATOR_RANK_MAX], split[4], whole[STATOR_RANK_MAX];
    const uint32_t rank = stator_emit_rank(e, x);
    split[0] = split[3] = stator_emit_size(e, 1);
    stator_emit_dims(e, x, dims);
    for (uint32_t i = 0; i < rank; i++) {
        whole[i] = i == axis ? stator_emit_sym(e, STATOR_SYM_MUL, dims[i], repeats) : dims[i];
        if (i != axis) {
            split[i < axis ? 0 : 3] =
                stator_emit_sym(e, STATOR_SYM_MUL, split[i < axis ? 0 : 3], dims[i]);
        }
    }
    split[1] = stator_emit_size(e, 1);
    split[2] = dims[axis];
    x = stator_emit_reshape(e, x, 4, split);
    split[1] = repeats;
    x = stator_emit_expand(e, x, 4, split);
    return stator_emit_reshape(e, x, rank, whole);
}

stator_status st_dec_tile(stator_builder *b, const st_decompose_node *node, stator_ref *out_results,
                          stator_diag **err)
{
    stator_emitter e = st_op_emitter(b, err);
    const stator_ref *repeats = node->attrs[STATOR_tile_repeats].list;
    stator_ref x = node->operands[0];
    for (uint32_t i = 0; i < node->attrs[STATOR_tile_repeats].count; i++) {
        if (!stator_emit_is(&e, repeats[i], 1)) {
            x = tile_axis(&e, x, i, repeats[i]);
        }
    }
    out_results[0] = x;
    return e.status;
}

/* ---- max_pool ---- */

typedef struct pool {
    stator_emitter *e;
    stator_ref x;
    uint32_t n; /* spatial axes */
    const int64_t *window, *strides, *dilations;
    const stator_ref *pads;          /* lows, highs */
    stator_ref out[STATOR_RANK_MAX]; /* spatial sizes of the result */
} pool;

/* Positions that the windows read along spatial axis i: i64 [out, window], outside of x too. */
static stator_ref positions(const pool *p, uint32_t i)
{
    return stator_emit_expr(
        p->e, "iota(shape=[o[0], 1], axis=0) * s + iota(shape=[1, w], axis=1) * d - lo[0]", "", 0,
        NULL,
        STATOR_AT(STATOR_A_DIMS("o", 1, &p->out[i]), STATOR_A_INT("w", p->window[i]),
                  STATOR_A_INT("s", p->strides[i]), STATOR_A_INT("d", p->dilations[i]),
                  STATOR_A_DIMS("lo", 1, &p->pads[i])));
}

/* An [out, window] matrix of axis i placed in [1.., out_i, 1.., window_i, 1..] for the final order
 * of axes: all outs, then all windows. */
static stator_ref spread_matrix(const pool *p, stator_ref matrix, uint32_t i)
{
    stator_ref dims[STATOR_RANK_MAX];
    for (uint32_t d = 0; d < 2u * p->n; d++) {
        dims[d] = stator_emit_size(p->e, 1);
    }
    dims[i] = p->out[i];
    dims[p->n + i] = stator_emit_size(p->e, p->window[i]);
    return stator_emit_reshape(p->e, matrix, 2u * p->n, dims);
}

/* Joins the last n axes (the windows) of a tensor whose leading axes are `lead`. */
static stator_ref join_windows(const pool *p, stator_ref x, uint32_t lead)
{
    stator_ref dims[STATOR_RANK_MAX];
    int64_t taps = 1;
    for (uint32_t i = 0; i < p->n; i++) {
        ST_FAIL_BY_IF(stator_emit_fail, !st_mul_i64(taps, p->window[i], &taps), p->e,
                      STATOR_UNIMPLEMENTED, "the window is too large");
    }
    stator_emit_dims(p->e, x, dims);
    dims[lead] = stator_emit_size(p->e, taps);
    return stator_emit_reshape(p->e, x, lead + 1u, dims);
}

/* x's windows: [N, C, outs.., windows..]; positions outside are clamped into x. */
static stator_ref gather_windows(const pool *p, const stator_ref *at)
{
    int64_t perm[STATOR_RANK_MAX] = {0, 1};
    stator_ref x = p->x;
    for (uint32_t i = 0; i < p->n; i++) {
        const stator_ref size = stator_emit_dim(p->e, p->x, 2u + i);
        const stator_ref index = stator_emit_expr(p->e, "min(max(p, 0), size[0] - 1)", "p", 1,
                                                  &at[i], 1, &STATOR_A_DIMS("size", 1, &size));
        x = stator_emit_gather(p->e, x, index, 2 + 2 * (int64_t)i);
        perm[2u + i] = 2 + 2 * (int64_t)i;
        perm[2u + p->n + i] = 3 + 2 * (int64_t)i;
    }
    return stator_emit_transpose(p->e, x, 2u + 2u * p->n, perm);
}

/* A bool [outs.., taps]: true for taps that lie inside x. */
static stator_ref inside(const pool *p, const stator_ref *at)
{
    stator_ref all = 0, dims[STATOR_RANK_MAX];
    for (uint32_t i = 0; i < p->n; i++) {
        const stator_ref size = stator_emit_dim(p->e, p->x, 2u + i);
        stator_ref ok = stator_emit_expr(p->e, "bit_and(p >= 0, p < size[0])", "p", 1, &at[i], 1,
                                         &STATOR_A_DIMS("size", 1, &size));
        ok = spread_matrix(p, ok, i);
        all = all ? stator_emit_binary(p->e, "bit_and", all, ok) : ok;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        dims[i] = p->out[i];
        dims[p->n + i] = stator_emit_size(p->e, p->window[i]);
    }
    return join_windows(p, stator_emit_expand(p->e, all, 2u * p->n, dims), p->n);
}

/* The flat position of every tap inside one channel: i64 [outs.., taps]. */
static stator_ref flat_positions(const pool *p, const stator_ref *at, bool column_major)
{
    stator_ref all = 0, step = stator_emit_size(p->e, 1), dims[STATOR_RANK_MAX];
    for (uint32_t j = 0; j < p->n; j++) {
        const uint32_t i = column_major ? j : p->n - 1u - j;
        stator_ref part = stator_emit_expr(p->e, "p * step[0]", "p", 1, &at[i],
                                           STATOR_AT(STATOR_A_DIMS("step", 1, &step)));
        part = spread_matrix(p, part, i);
        all = all ? stator_emit_binary(p->e, "add", all, part) : part;
        step = stator_emit_sym(p->e, STATOR_SYM_MUL, step, stator_emit_dim(p->e, p->x, 2u + i));
    }
    for (uint32_t i = 0; i < p->n; i++) {
        dims[i] = p->out[i];
        dims[p->n + i] = stator_emit_size(p->e, p->window[i]);
    }
    return join_windows(p, stator_emit_expand(p->e, all, 2u * p->n, dims), p->n);
}

/* The number of the winning tap: i64 [N, C, outs.., 1]. Where the maximum is the dtype's lowest
 * value padding cannot be told from data by value, so the first tap inside x is taken. */
static stator_ref winning_tap(const pool *p, const stator_ref *at)
{
    const stator_ref windows = join_windows(p, gather_windows(p, at), 2u + p->n);
    const stator_ref values[2] = {windows, inside(p, at)};
    const stator_dtype dtype = stator_emit_dtype(p->e, p->x);
    const bool is_float = st_dtype_class(dtype) == STATOR_CLASS_FLOAT;
    const bool is_signed = st_dtype_class(dtype) == STATOR_CLASS_INT;
    const int64_t lowest = is_signed ? -(INT64_C(1) << (st_dtype_bits(dtype) - 1u)) : 0;
    const stator_attr low =
        is_float ? STATOR_A_FLOAT("low", -__builtin_inf()) : STATOR_A_INT("low", lowest);
    return stator_emit_expr(p->e,
                            "m = select(ok, w, low); t = argmax(m, axis=-1, keepdims=1); "
                            "f = argmax(cast(ok, i32), axis=-1, keepdims=1); "
                            "select(reduce_max(m, axes=[-1], keepdims=1) == low, f, t)",
                            "w,ok", 2, values, 1, &low);
}

static stator_ref pool_indices(const pool *p, bool column_major)
{
    stator_ref at[STATOR_RANK_MAX], dims[STATOR_RANK_MAX], plane = stator_emit_size(p->e, 1);
    ST_FAIL_BY_IF(stator_emit_fail, 2u + 2u * p->n > STATOR_RANK_MAX, p->e, STATOR_UNIMPLEMENTED,
                  "more than %d spatial axes", STATOR_RANK_MAX / 2 - 1);
    for (uint32_t i = 0; i < p->n; i++) {
        at[i] = positions(p, i);
        plane = stator_emit_sym(p->e, STATOR_SYM_MUL, plane, stator_emit_dim(p->e, p->x, 2u + i));
    }
    stator_ref flat = flat_positions(p, at, column_major);
    const stator_ref tap = winning_tap(p, at);
    stator_emit_dims(p->e, tap, dims);
    dims[2u + p->n] = stator_emit_dim(p->e, flat, p->n);
    flat = stator_emit_expand(p->e, flat, 3u + p->n, dims);
    return stator_emit_expr(
        p->e,
        "i = squeeze(gather_elements(flat, tap, axis=-1), -1); "
        "c = iota(shape=[dim(x, 0), 1] + repeat(1, n), axis=0) * dim(x, 1) + "
        "iota(shape=[dim(x, 1)] + repeat(1, n), axis=0); i + c * plane[0]",
        "flat,tap,x", STATOR_IN(flat, tap, p->x),
        STATOR_AT(STATOR_A_DIMS("plane", 1, &plane), STATOR_A_INT("n", (int64_t)p->n)));
}

stator_status st_dec_max_pool(stator_builder *b, const st_decompose_node *node,
                              stator_ref *out_results, stator_diag **err)
{
    stator_emitter e = st_op_emitter(b, err);
    pool p = {.e = &e,
              .x = node->operands[0],
              .n = node->attrs[STATOR_max_pool_window].count,
              .window = node->attrs[STATOR_max_pool_window].list,
              .strides = node->attrs[STATOR_max_pool_strides].list,
              .dilations = node->attrs[STATOR_max_pool_dilations].list,
              .pads = node->attrs[STATOR_max_pool_pads].list};
    const stator_attr attrs[5] = {
        STATOR_A_STR("kind", "max"), STATOR_A_INTS("window", p.n, p.window),
        STATOR_A_INTS("strides", p.n, p.strides), STATOR_A_DIMS("pads", 2u * p.n, p.pads),
        STATOR_A_INTS("dilations", p.n, p.dilations)};
    out_results[0] = stator_emit_op(&e, "reduce_window", 1, &p.x, 5, attrs);
    if (node->n_results > 1 && e.status == STATOR_OK) {
        for (uint32_t i = 0; i < p.n; i++) {
            p.out[i] = stator_emit_dim(&e, out_results[0], 2u + i);
        }
        out_results[1] = pool_indices(&p, node->attrs[STATOR_max_pool_column_major].i != 0);
    }
    return e.status;
}
