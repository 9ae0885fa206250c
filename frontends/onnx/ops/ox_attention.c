/* Attention (operator sets 23 to 25) and RotaryEmbedding.
 *
 * What the mask input, is_causal, the windows and the number of valid keys allow is gathered into
 * one boolean tensor; a float mask is added to it. Without soft cap, own softmax precision or a
 * fourth output the whole is one `sdpa`; otherwise it is written out. Heads of grouped queries
 * follow each other: query head h reads key head h / (H / G). */
#include "frontends/onnx/onnx.h"

#include <math.h>

typedef struct attention {
    stator_ref q, k, v; /* [B, heads, length, size] */
    stator_ref past_length;
    stator_ref allowed; /* bool, 0 when everything is */
    stator_ref bias;    /* added to the scores, 0 when none */
    double scale;
    bool has_scale;
    bool is_causal; /* left to sdpa: no cache, no other offset */
} attention;

/* [B, T, heads*size] to [B, heads, T, size]. */
static stator_ref split_heads(ox_node *n, stator_ref x, int64_t heads)
{
    static const int64_t perm[4] = {0, 2, 1, 3};
    stator_ref dims[STATOR_RANK_MAX];
    if (ox_dims(n, x, dims) != 3 || !ox_ok(n)) {
        return x;
    }
    if (heads < 1) {
        return ox_fail(n, STATOR_INVALID_ARGUMENT,
                       "inputs of rank 3 need the attributes q_num_heads and kv_num_heads");
    }
    const stator_ref count = ox_sym(n, heads);
    const stator_ref wide[4] = {dims[0], dims[1], count,
                                ox_sym_op(n, STATOR_SYM_FLOORDIV, dims[2], count)};
    return ox_transpose(n, ox_reshape(n, x, 4, wide), perm);
}

static stator_ref join_heads(ox_node *n, stator_ref x)
{
    static const int64_t perm[4] = {0, 2, 1, 3};
    stator_ref dims[STATOR_RANK_MAX];
    if (ox_dims(n, x, dims) != 4 || !ox_ok(n)) {
        return x;
    }
    const stator_ref flat[3] = {dims[0], dims[2], ox_sym_op(n, STATOR_SYM_MUL, dims[1], dims[3])};
    return ox_reshape(n, ox_transpose(n, x, perm), 3, flat);
}

static stator_ref both(ox_node *n, stator_ref a, stator_ref b)
{
    return a == 0 ? b : ox_bin(n, "bit_and", a, b);
}

/* i64 positions 0.. along one of four axes. */
static stator_ref positions(ox_node *n, uint32_t axis, stator_ref length)
{
    stator_ref dims[4];
    for (uint32_t i = 0; i < 4; i++) {
        dims[i] = i == axis ? length : ox_sym(n, 1);
    }
    return ox_iota(n, STATOR_I64, 4, dims, axis);
}

/* [B] as [B, 1, 1, 1]. */
static stator_ref by_batch(ox_node *n, stator_ref v)
{
    const stator_ref dims[4] = {ox_dim(n, v, 0), ox_sym(n, 1), ox_sym(n, 1), ox_sym(n, 1)};
    return ox_reshape(n, ox_cast(n, v, STATOR_I64), 4, dims);
}

/* The mask brought to the number of keys: what is missing at the end is not attended to. */
static stator_ref full_mask(ox_node *n, stator_ref mask, stator_ref keys)
{
    stator_ref dims[STATOR_RANK_MAX];
    stator_ref low[STATOR_RANK_MAX];
    stator_ref high[STATOR_RANK_MAX];
    const uint32_t rank = ox_dims(n, mask, dims);
    if (!ox_ok(n) || rank == 0 || rank > 4) {
        return ox_fail(n, STATOR_INVALID_ARGUMENT, "the mask has rank %u", rank);
    }
    if (dims[rank - 1u] == keys) {
        return mask;
    }
    for (uint32_t i = 0; i < rank; i++) {
        low[i] = high[i] = ox_sym(n, 0);
    }
    high[rank - 1u] = ox_sym_op(n, STATOR_SYM_SUB, keys, dims[rank - 1u]);
    const bool is_bool = ox_dtype(n, mask) == STATOR_BOOL;
    const stator_ref fill = is_bool ? ox_scalar(n, STATOR_BOOL, 0) : ox_like(n, mask, -INFINITY);
    return ox_op(n, "pad", STATOR_IN(mask, fill),
                 STATOR_AT(STATOR_A_DIMS("low", rank, low), STATOR_A_DIMS("high", rank, high)));
}

/* The absolute position of each query: index + keys before the block. */
static stator_ref query_positions(ox_node *n, const attention *a)
{
    const stator_ref queries = ox_dim(n, a->q, 2);
    const stator_ref at = positions(n, 2, queries);
    if (a->past_length != 0) {
        return ox_add(n, at, ox_from_dim(n, a->past_length));
    }
    if (ox_in(n, 6) != 0) {
        const stator_ref valid = by_batch(n, ox_in(n, 6));
        return ox_add(n, at, ox_sub(n, valid, ox_from_dim(n, queries)));
    }
    return at;
}

static void add_constraints(ox_node *n, attention *a)
{
    const int64_t left = ox_attr_int(n, "left_window_size", -1);
    const int64_t right = ox_attr_int(n, "right_window_size", -1);
    const bool causal = ox_attr_int(n, "is_causal", 0) != 0;
    const stator_ref keys = ox_dim(n, a->k, 2);
    const stator_ref mask = ox_in(n, 3);
    if (mask != 0) {
        const stator_ref all = full_mask(n, mask, keys);
        const bool is_bool = ox_dtype(n, all) == STATOR_BOOL;
        a->allowed = is_bool ? all : 0;
        a->bias = is_bool ? 0 : all;
    }
    a->is_causal = causal && a->past_length == 0 && ox_in(n, 6) == 0 && left < 0 && right < 0;
    const stator_ref j = positions(n, 3, keys);
    if ((causal && !a->is_causal) || left >= 0 || right >= 0) {
        const stator_ref p = query_positions(n, a);
        if (causal) {
            a->allowed = both(n, a->allowed, ox_bin(n, "le", j, p));
        }
        if (left >= 0) {
            const stator_ref first = ox_sub(n, p, ox_int(n, left));
            a->allowed = both(n, a->allowed, ox_bin(n, "ge", j, first));
        }
        if (right >= 0) {
            const stator_ref last = ox_add(n, p, ox_int(n, right));
            a->allowed = both(n, a->allowed, ox_bin(n, "le", j, last));
        }
    }
    if (ox_in(n, 6) != 0) {
        a->allowed = both(n, a->allowed, ox_bin(n, "lt", j, by_batch(n, ox_in(n, 6))));
    }
}

/* One mask of both kinds: bool, or additive in the dtype of the scores, or 0. */
static stator_ref one_mask(ox_node *n, const attention *a)
{
    if (a->bias == 0 || a->allowed == 0) {
        return a->bias != 0 ? ox_cast(n, a->bias, ox_dtype(n, a->q)) : a->allowed;
    }
    const stator_ref bias = ox_cast(n, a->bias, ox_dtype(n, a->q));
    return ox_select(n, a->allowed, bias, ox_like(n, bias, -INFINITY));
}

static stator_ref emit_sdpa(ox_node *n, const attention *a)
{
    stator_attr attrs[2] = {STATOR_A_INT("is_causal", a->is_causal)};
    uint32_t count = 1;
    if (a->has_scale) {
        attrs[count++] = STATOR_A_FLOAT("scale", a->scale);
    }
    const stator_ref v = ox_cast(n, a->v, ox_dtype(n, a->q));
    return ox_op(n, "sdpa", STATOR_IN(a->q, a->k, v, one_mask(n, a)), count, attrs);
}

/* Key or value heads repeated for the query heads they serve. */
static stator_ref repeat_heads(ox_node *n, stator_ref x, stator_ref heads)
{
    stator_ref dims[STATOR_RANK_MAX];
    if (ox_dims(n, x, dims) != 4 || dims[1] == heads || !ox_ok(n)) {
        return x;
    }
    const stator_ref times = ox_sym_op(n, STATOR_SYM_FLOORDIV, heads, dims[1]);
    const stator_ref wide[5] = {dims[0], dims[1], times, dims[2], dims[3]};
    const stator_ref all[4] = {dims[0], heads, dims[2], dims[3]};
    return ox_reshape(n, ox_expand(n, ox_unsqueeze(n, x, 2), 5, wide), 4, all);
}

/* Scores scaled on both sides by sqrt(scale), as the operator text does for small floats. */
static stator_ref raw_scores(ox_node *n, const attention *a)
{
    static const int64_t perm[4] = {0, 1, 3, 2};
    stator_ref root;
    if (a->has_scale) {
        root = ox_like(n, a->q, sqrt(a->scale));
    } else {
        const stator_ref size = ox_cast(n, ox_from_dim(n, ox_dim(n, a->q, 3)), STATOR_F64);
        root = ox_un(n, "sqrt", ox_un(n, "rsqrt", size));
        root = ox_cast(n, root, ox_dtype(n, a->q));
    }
    const stator_ref k = repeat_heads(n, a->k, ox_dim(n, a->q, 1));
    return ox_matmul(n, ox_mul(n, a->q, root), ox_mul(n, ox_transpose(n, k, perm), root));
}

/* Softmax over keys; a row with nothing allowed is 0. */
static stator_ref guarded_softmax(ox_node *n, stator_ref scores, stator_ref mask)
{
    static const int64_t last[1] = {-1};
    const stator_ref p =
        ox_op(n, "softmax", STATOR_IN(scores), STATOR_AT(STATOR_A_INT("axis", -1)));
    if (mask == 0) {
        return p;
    }
    const stator_ref top = ox_reduce(n, "reduce_max", mask, 1, last, true);
    const stator_ref is_empty = ox_dtype(n, mask) == STATOR_BOOL
                                    ? ox_un(n, "bit_not", top)
                                    : ox_bin(n, "eq", top, ox_like(n, top, -INFINITY));
    return ox_select(n, is_empty, ox_like(n, p, 0), p);
}

static stator_ref emit_written_out(ox_node *n, attention *a)
{
    const double cap = ox_attr_float(n, "softcap", 0);
    const int64_t mode = ox_attr_int(n, "qk_matmul_output_mode", 0);
    const stator_dtype own = ox_dtype(n, a->q);
    if (a->is_causal) {
        const stator_ref p = positions(n, 2, ox_dim(n, a->q, 2));
        const stator_ref j = positions(n, 3, ox_dim(n, a->k, 2));
        a->allowed = both(n, a->allowed, ox_bin(n, "le", j, p));
    }
    stator_ref scores = raw_scores(n, a);
    stator_ref shown = scores;
    if (cap > 0) {
        const stator_ref c = ox_like(n, scores, cap);
        scores = ox_mul(n, ox_un(n, "tanh", ox_div(n, scores, c)), c);
    }
    shown = mode == 1 ? scores : shown;
    const stator_ref mask = one_mask(n, a);
    if (mask != 0 && ox_dtype(n, mask) == STATOR_BOOL) {
        scores = ox_select(n, mask, scores, ox_like(n, scores, -INFINITY));
    } else if (mask != 0) {
        scores = ox_add(n, scores, mask);
    }
    shown = mode == 2 ? scores : shown;
    if (ox_has_attr(n, "softmax_precision")) {
        scores = ox_cast(n, scores, ox_dtype_of(n, ox_attr_int(n, "softmax_precision", 1)));
    }
    const stator_ref p = ox_cast(n, guarded_softmax(n, scores, mask), own);
    ox_out(n, 3, mode == 3 ? p : shown);
    const stator_ref v = repeat_heads(n, a->v, ox_dim(n, a->q, 1));
    return ox_cast(n, ox_matmul(n, p, ox_cast(n, v, own)), ox_dtype(n, a->v));
}

void ox_attention(ox_node *n)
{
    attention a = {.scale = ox_attr_float(n, "scale", 0), .has_scale = ox_has_attr(n, "scale")};
    const uint32_t rank = ox_rank(n, ox_need(n, 0));
    ox_check_rank(n, ox_need(n, 0), 3, 4, "Q");
    a.q = split_heads(n, ox_need(n, 0), ox_attr_int(n, "q_num_heads", 0));
    a.k = split_heads(n, ox_need(n, 1), ox_attr_int(n, "kv_num_heads", 0));
    a.v = split_heads(n, ox_need(n, 2), ox_attr_int(n, "kv_num_heads", 0));
    if (ox_in(n, 4) != 0) {
        a.past_length = ox_dim(n, ox_in(n, 4), 2);
        a.k = ox_concat(n, 2, STATOR_IN(ox_in(n, 4), a.k));
    }
    if (ox_in(n, 5) != 0) {
        a.v = ox_concat(n, 2, STATOR_IN(ox_in(n, 5), a.v));
    }
    add_constraints(n, &a);
    ox_out(n, 1, a.k);
    ox_out(n, 2, a.v);
    const bool is_plain = ox_attr_float(n, "softcap", 0) == 0 && !ox_wants(n, 3) &&
                          !ox_has_attr(n, "softmax_precision") &&
                          ox_dtype(n, a.q) == ox_dtype(n, a.v);
    const stator_ref y = is_plain ? emit_sdpa(n, &a) : emit_written_out(n, &a);
    ox_out(n, 0, rank == 3 ? join_heads(n, y) : y);
}

/* ---- RotaryEmbedding ---- */

/* A cache as [B or 1, T, 1, half]; with position ids its rows are gathered. */
static stator_ref rotary_cache(ox_node *n, stator_ref cache, stator_ref ids)
{
    if (ids != 0) {
        cache = ox_gather(n, cache, ox_cast(n, ids, STATOR_I64), 0);
    }
    ox_check_rank(n, cache, 3, 3, "a cache");
    return ox_unsqueeze(n, cache, 2);
}

/* Every second element of the last axis, from `first`. */
static stator_ref every_second(ox_node *n, stator_ref x, int64_t first, stator_ref half)
{
    return ox_slice(n, x, 3, ox_sym(n, first), half, 2);
}

static stator_ref rotate(ox_node *n, stator_ref x, stator_ref c, stator_ref s, stator_ref half,
                         bool is_interleaved)
{
    stator_ref dims[STATOR_RANK_MAX];
    const stator_ref zero = ox_sym(n, 0);
    const stator_ref a =
        is_interleaved ? every_second(n, x, 0, half) : ox_slice(n, x, 3, zero, half, 1);
    const stator_ref b =
        is_interleaved ? every_second(n, x, 1, half) : ox_slice(n, x, 3, half, half, 1);
    stator_ref parts[2] = {ox_sub(n, ox_mul(n, c, a), ox_mul(n, s, b)),
                           ox_add(n, ox_mul(n, s, a), ox_mul(n, c, b))};
    if (!is_interleaved) {
        return ox_concat(n, 3, 2, parts);
    }
    parts[0] = ox_unsqueeze(n, parts[0], 4);
    parts[1] = ox_unsqueeze(n, parts[1], 4);
    ox_dims(n, x, dims);
    return ox_reshape(n, ox_concat(n, 4, 2, parts), 4, dims);
}

void ox_rotary(ox_node *n)
{
    static const int64_t perm[4] = {0, 2, 1, 3};
    const stator_ref input = ox_need(n, 0);
    const uint32_t rank = ox_rank(n, input);
    const int64_t heads = ox_attr_int(n, "num_heads", 0);
    stator_ref dims[STATOR_RANK_MAX];
    stator_ref x = input;
    ox_check_rank(n, input, 3, 4, "the input");
    ox_dims(n, input, dims);
    OX_NEED(n, rank != 3 || heads >= 1, "an input of rank 3 needs the attribute num_heads");
    if (rank == 4) { /* both become [B, T, heads, size] */
        x = ox_transpose(n, x, perm);
    } else {
        const stator_ref count = ox_sym(n, heads);
        const stator_ref wide[4] = {dims[0], dims[1], count,
                                    ox_sym_op(n, STATOR_SYM_FLOORDIV, dims[2], count)};
        x = ox_reshape(n, x, 4, wide);
    }
    const int64_t part = ox_attr_int(n, "rotary_embedding_dim", 0);
    const stator_ref size = ox_dim(n, x, 3);
    const stator_ref rotary_size = part != 0 ? ox_sym(n, part) : size;
    const stator_ref half = ox_sym_op(n, STATOR_SYM_FLOORDIV, rotary_size, ox_sym(n, 2));
    const stator_ref c = rotary_cache(n, ox_need(n, 1), ox_in(n, 3));
    const stator_ref s = rotary_cache(n, ox_need(n, 2), ox_in(n, 3));
    const stator_ref head =
        rotary_size == size ? x : ox_slice(n, x, 3, ox_sym(n, 0), rotary_size, 1);
    stator_ref y = rotate(n, head, c, s, half, ox_attr_int(n, "interleaved", 0) != 0);
    if (rotary_size != size) {
        const stator_ref rest =
            ox_slice(n, x, 3, rotary_size, ox_sym_op(n, STATOR_SYM_SUB, size, rotary_size), 1);
        y = ox_concat(n, 3, STATOR_IN(y, rest));
    }
    ox_out(n, 0, rank == 4 ? ox_transpose(n, y, perm) : ox_reshape(n, y, 3, dims));
}
