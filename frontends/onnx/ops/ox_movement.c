/* Movement: reshaping, transposing, joining, splitting, padding, tiling. */
#include "frontends/onnx/onnx.h"

#include <string.h>

void ox_concat_op(ox_node *n)
{
    const int64_t axis = n->version < 4 ? ox_attr_int(n, "axis", 1) : ox_attr_int_need(n, "axis");
    const stator_ref first = ox_need(n, 0);
    const uint32_t at = ox_axis(n, axis, ox_rank(n, first));
    for (uint32_t i = 1; i < n->in_count; i++) {
        ox_need(n, i);
    }
    ox_out(n, 0, ox_concat(n, at, n->in_count, n->in));
}

/* ---- DepthToSpace, SpaceToDepth ---- */

/* Reads x's four sizes and the block size; 0 after failing. */
static int64_t block_of(ox_node *n, stator_ref x, stator_ref d[4])
{
    const int64_t block = ox_attr_int_need(n, "blocksize");
    ox_check_rank(n, x, 4, 4, "the input");
    stator_ref dims[STATOR_RANK_MAX];
    if (ox_dims(n, x, dims) != 4 || !ox_ok(n)) {
        return 0;
    }
    memcpy(d, dims, 4 * sizeof d[0]);
    if (!ox_expect(n, block >= 1 && block <= (1 << 20), "attribute 'blocksize' is %lld",
                   (long long)block)) {
        return 0;
    }
    return block;
}

static bool is_crd(ox_node *n)
{
    const char *mode = ox_attr_str(n, "mode", "DCR");
    ox_expect(n, strcmp(mode, "DCR") == 0 || strcmp(mode, "CRD") == 0,
              "attribute 'mode' is '%s', expected DCR or CRD", mode);
    return strcmp(mode, "CRD") == 0;
}

void ox_depth_to_space(ox_node *n)
{
    static const int64_t dcr[6] = {0, 3, 4, 1, 5, 2};
    static const int64_t crd[6] = {0, 1, 4, 2, 5, 3};
    const stator_ref x = ox_need(n, 0);
    stator_ref d[4];
    const int64_t block = block_of(n, x, d);
    if (block == 0) {
        return;
    }
    const stator_ref b = ox_sym(n, block);
    const stator_ref depth = ox_sym_op(n, STATOR_SYM_FLOORDIV, d[1], ox_sym(n, block * block));
    const bool crd_mode = is_crd(n);
    const stator_ref split[6] = {d[0], crd_mode ? depth : b, b, crd_mode ? b : depth, d[2], d[3]};
    const stator_ref joined[4] = {d[0], depth, ox_sym_op(n, STATOR_SYM_MUL, d[2], b),
                                  ox_sym_op(n, STATOR_SYM_MUL, d[3], b)};
    const stator_ref moved = ox_transpose(n, ox_reshape(n, x, 6, split), crd_mode ? crd : dcr);
    ox_out(n, 0, ox_reshape(n, moved, 4, joined));
}

void ox_space_to_depth(ox_node *n)
{
    static const int64_t dcr[6] = {0, 3, 5, 1, 2, 4};
    static const int64_t crd[6] = {0, 1, 3, 5, 2, 4};
    const stator_ref x = ox_need(n, 0);
    stator_ref d[4];
    const int64_t block = block_of(n, x, d);
    if (block == 0) {
        return;
    }
    const stator_ref b = ox_sym(n, block);
    const stator_ref height = ox_sym_op(n, STATOR_SYM_FLOORDIV, d[2], b);
    const stator_ref width = ox_sym_op(n, STATOR_SYM_FLOORDIV, d[3], b);
    const stator_ref split[6] = {d[0], d[1], height, b, width, b};
    const stator_ref joined[4] = {
        d[0], ox_sym_op(n, STATOR_SYM_MUL, d[1], ox_sym(n, block * block)), height, width};
    const stator_ref moved = ox_transpose(n, ox_reshape(n, x, 6, split), is_crd(n) ? crd : dcr);
    ox_out(n, 0, ox_reshape(n, moved, 4, joined));
}

/* ---- Expand, Flatten, Reshape ---- */

/* The size two axes broadcast to. Unequal symbols are taken to fit: one of them is 1, or both are
 * the same, so the larger is the result. */
static stator_ref broadcast_size(ox_node *n, stator_ref a, stator_ref b)
{
    int64_t size;
    if (a == b || ox_sym_is(n, b, 1)) {
        return a;
    }
    if (ox_sym_is(n, a, 1)) {
        return b;
    }
    if (ox_sym_const(n, a, &size)) {
        return a;
    }
    if (ox_sym_const(n, b, &size)) {
        return b;
    }
    const stator_ref larger = ox_sym_try(n, STATOR_SYM_MAX, a, b);
    if (larger != 0 || !ox_ok(n)) {
        return larger;
    }
    uint32_t count; /* past what symbols can say: computed while the program runs */
    const stator_ref run = ox_bin(n, "max", ox_from_dim(n, a), ox_from_dim(n, b));
    const stator_ref *bound = ox_sizes(n, run, &count, "a size of the result");
    return bound != NULL ? bound[0] : 0;
}

void ox_expand_op(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    stator_ref dims[STATOR_RANK_MAX];
    stator_ref out[STATOR_RANK_MAX];
    uint32_t count;
    const stator_ref *shape = ox_sizes(n, ox_need(n, 1), &count, "the shape");
    const uint32_t rank = ox_dims(n, x, dims);
    const uint32_t out_rank = count > rank ? count : rank;
    OX_NEED(n, out_rank <= STATOR_RANK_MAX, "the shape has %u entries", count);
    for (uint32_t i = 0; i < out_rank; i++) { /* from the last axis */
        const stator_ref own = i < rank ? dims[rank - 1u - i] : ox_sym(n, 1);
        const stator_ref want = i < count ? shape[count - 1u - i] : ox_sym(n, 1);
        out[out_rank - 1u - i] = broadcast_size(n, own, want);
    }
    ox_out(n, 0, ox_expand(n, x, out_rank, out));
}

void ox_flatten(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = ox_dims(n, x, dims);
    const int64_t axis = ox_attr_int(n, "axis", 1);
    const uint32_t at = axis == (int64_t)rank ? rank : ox_axis(n, axis, rank);
    const stator_ref out[2] = {ox_sym_prod(n, at, dims), ox_sym_prod(n, rank - at, dims + at)};
    ox_out(n, 0, ox_reshape(n, x, 2, out));
}

/* The size that a -1 in a shape stands for: product(dims) / product(others), equal factors
 * cancelled. */
static stator_ref remaining_size(ox_node *n, uint32_t rank, const stator_ref *dims, uint32_t count,
                                 const stator_ref *shape)
{
    stator_ref left[STATOR_RANK_MAX];
    stator_ref others = ox_sym(n, 1);
    memcpy(left, dims, rank * sizeof left[0]);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = 0;
        if (ox_sym_is(n, shape[i], -1)) {
            continue;
        }
        while (k < rank && left[k] != shape[i]) {
            k++;
        }
        if (k < rank && !ox_sym_is(n, shape[i], 0)) {
            left[k] = ox_sym(n, 1);
        } else {
            others = ox_sym_op(n, STATOR_SYM_MUL, others, shape[i]);
        }
    }
    const stator_ref total = ox_sym_prod(n, rank, left);
    if (ox_sym_is(n, others, 0)) {
        return ox_sym(n, 0);
    }
    return ox_sym_is(n, others, 1) ? total : ox_sym_op(n, STATOR_SYM_FLOORDIV, total, others);
}

/* The shape with its 0 and -1 resolved while the program runs. */
static const stator_ref *resolve_shape(ox_node *n, stator_ref x, stator_ref shape, uint32_t count,
                                       bool allow_zero)
{
    stator_ref dims[STATOR_RANK_MAX];
    stator_ref own[STATOR_RANK_MAX];
    static const int64_t axis[1] = {0};
    const uint32_t rank = ox_dims(n, x, dims);
    shape = ox_cast(n, shape, STATOR_I64);
    if (!ox_ok(n) || count > STATOR_RANK_MAX) {
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        own[i] = i < rank ? dims[i] : ox_sym(n, 1);
    }
    if (!allow_zero) {
        const stator_ref is_zero = ox_bin(n, "eq", shape, ox_int(n, 0));
        shape = ox_select(n, is_zero, ox_from_dims(n, count, own), shape);
    }
    const stator_ref is_rest = ox_bin(n, "eq", shape, ox_int(n, -1));
    const stator_ref others =
        ox_reduce(n, "reduce_prod", ox_select(n, is_rest, ox_int(n, 1), shape), 1, axis, false);
    const stator_ref rest = ox_div(n, ox_from_dim(n, ox_sym_prod(n, rank, dims)), others);
    uint32_t ignored;
    return ox_sizes(n, ox_select(n, is_rest, rest, shape), &ignored, "the shape");
}

static const stator_ref *reshape_target(ox_node *n, stator_ref x, const stator_ref *shape,
                                        uint32_t count, bool allow_zero)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = ox_dims(n, x, dims);
    stator_ref *out = ox_alloc(n, count + 1u, sizeof *out);
    uint32_t rest = count;
    if (out == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        out[i] = shape[i];
        if (!allow_zero && ox_sym_is(n, shape[i], 0)) {
            out[i] = i < rank ? dims[i]
                              : ox_fail(n, STATOR_INVALID_ARGUMENT,
                                        "entry %u of the shape is 0, but the input has rank %u", i,
                                        rank);
        } else if (ox_sym_is(n, shape[i], -1)) {
            ox_expect(n, rest == count, "the shape has more than one -1");
            rest = i;
        }
    }
    if (rest != count && ox_ok(n)) {
        out[rest] = remaining_size(n, rank, dims, count, out);
    }
    return out;
}

void ox_reshape_op(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const bool allow_zero = n->version >= 14 && ox_attr_int(n, "allowzero", 0) != 0;
    uint32_t count = 0;
    const stator_ref *shape;
    stator_ref list = 0;
    if (n->version < 5) {
        uint32_t given;
        const int64_t *ints = ox_attr_ints(n, "shape", &given);
        list = ox_ints(n, given, ints);
    } else {
        list = ox_need(n, 1);
    }
    shape = ox_known(n, list, &count);
    OX_NEED(n, count <= STATOR_RANK_MAX, "the shape has %u entries, at most %u work", count,
            STATOR_RANK_MAX);
    if (shape != NULL) {
        shape = reshape_target(n, x, shape, count, allow_zero);
    } else if (ox_ok(n)) {
        int64_t known;
        if (ox_rank(n, list) != 1 || !ox_dim_known(n, list, 0, &known)) {
            ox_ask(n, list, "the shape");
            return;
        }
        shape = resolve_shape(n, x, list, (uint32_t)known, allow_zero);
        count = (uint32_t)known;
    }
    if (shape != NULL) {
        ox_out(n, 0, ox_reshape(n, x, count, shape));
    }
}

/* ---- Squeeze, Unsqueeze, Transpose ---- */

/* Axes from the attribute (operator sets below 13) or from input 1; NULL when there are none. */
static const int64_t *axes_of(ox_node *n, uint32_t *out_count)
{
    *out_count = 0;
    if (n->version < 13) {
        return ox_attr_ints(n, "axes", out_count);
    }
    return ox_in(n, 1) != 0 ? ox_need_ints(n, ox_in(n, 1), out_count, "the axes") : NULL;
}

void ox_squeeze_op(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    stator_ref dims[STATOR_RANK_MAX];
    stator_ref out[STATOR_RANK_MAX];
    uint8_t drop[STATOR_RANK_MAX] = {0};
    uint32_t count;
    uint32_t out_rank = 0;
    const int64_t *axes = axes_of(n, &count);
    const uint32_t rank = ox_dims(n, x, dims);
    for (uint32_t i = 0; axes == NULL && i < rank; i++) {
        drop[i] = (uint8_t)ox_sym_is(n, dims[i], 1);
    }
    for (uint32_t i = 0; axes != NULL && ox_ok(n) && i < count; i++) {
        const uint32_t axis = ox_axis(n, axes[i], rank);
        int64_t size = 1;
        ox_expect(n, !ox_sym_const(n, dims[axis], &size) || size == 1,
                  "axis %u has size %lld, expected 1", axis, (long long)size);
        drop[axis < STATOR_RANK_MAX ? axis : 0] = 1;
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (!drop[i]) {
            out[out_rank++] = dims[i];
        }
    }
    ox_out(n, 0, out_rank == rank ? x : ox_reshape(n, x, out_rank, out));
}

void ox_unsqueeze_op(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    stator_ref dims[STATOR_RANK_MAX];
    stator_ref out[STATOR_RANK_MAX];
    uint8_t is_new[STATOR_RANK_MAX] = {0};
    uint32_t count;
    uint32_t from = 0;
    const int64_t *axes = axes_of(n, &count);
    const uint32_t rank = ox_dims(n, x, dims);
    const uint32_t out_rank = rank + count;
    ox_expect(n, axes != NULL && count <= STATOR_RANK_MAX && out_rank <= STATOR_RANK_MAX,
              "%u axes cannot be added to rank %u", count, rank);
    for (uint32_t i = 0; ox_ok(n) && i < count; i++) {
        const uint32_t axis = ox_axis(n, axes[i], out_rank);
        ox_expect(n, !is_new[axis], "axis %u is given twice", axis);
        is_new[axis] = 1;
    }
    for (uint32_t i = 0; ox_ok(n) && i < out_rank; i++) {
        out[i] = is_new[i] ? ox_sym(n, 1) : dims[from++];
    }
    ox_out(n, 0, ox_reshape(n, x, out_rank, out));
}

void ox_transpose_op(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const uint32_t rank = ox_rank(n, x);
    uint32_t count;
    int64_t reversed[STATOR_RANK_MAX];
    const int64_t *perm = ox_attr_ints(n, "perm", &count);
    for (uint32_t i = 0; i < rank; i++) {
        reversed[i] = (int64_t)(rank - 1u - i);
    }
    ox_expect(n, perm == NULL || count == rank,
              "attribute 'perm' has %u entries, the input has rank %u", count, rank);
    ox_out(n, 0, ox_transpose(n, x, perm != NULL ? perm : reversed));
}

/* ---- Split, Tile, Trilu ---- */

/* Sizes of equal parts, the last one smaller when the axis does not divide. */
static const stator_ref *equal_parts(ox_node *n, stator_ref size, uint32_t parts)
{
    stator_ref *out = ox_alloc(n, parts + 1u, sizeof *out);
    stator_ref left = size;
    const stator_ref part = ox_sym_op(n, STATOR_SYM_CEILDIV, size, ox_sym(n, parts));
    for (uint32_t i = 0; out != NULL && i < parts; i++) {
        int64_t ignored;
        const bool is_exact = ox_sym_const(n, size, &ignored) || i + 1u == parts;
        out[i] = is_exact ? ox_sym_op(n, STATOR_SYM_MIN, part, left) : part;
        out[i] = i + 1u == parts ? left : out[i];
        left = ox_sym_op(n, STATOR_SYM_SUB, left, out[i]);
    }
    return out;
}

void ox_split(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const uint32_t axis = ox_axis(n, ox_attr_int(n, "axis", 0), ox_rank(n, x));
    const stator_ref dim = ox_dim(n, x, axis);
    const uint32_t parts = n->out_count;
    const stator_ref *sizes = NULL;
    stator_ref list = 0;
    uint32_t count = parts;
    if (n->version >= 13 || (n->version == 1 && n->in_count > 1)) {
        list = ox_in(n, 1);
    } else if (ox_has_attr(n, "split")) {
        uint32_t given;
        const int64_t *ints = ox_attr_ints(n, "split", &given);
        list = ox_ints(n, given, ints);
    }
    const int64_t wanted = ox_attr_int(n, "num_outputs", parts);
    ox_expect(n, wanted == (int64_t)parts, "'num_outputs' is %lld, the node has %u outputs",
              (long long)wanted, parts);
    sizes = list != 0 ? ox_sizes(n, list, &count, "the sizes of the parts")
                      : equal_parts(n, dim, parts);
    OX_NEED(n, count == parts, "%u sizes for %u outputs", count, parts);
    stator_ref start = ox_sym(n, 0);
    for (uint32_t i = 0; ox_ok(n) && i < parts; i++) {
        ox_out(n, i, ox_slice(n, x, axis, start, sizes[i], 1));
        start = ox_sym_op(n, STATOR_SYM_ADD, start, sizes[i]);
    }
}

void ox_tile(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const uint32_t rank = ox_rank(n, x);
    uint32_t count;
    const stator_ref *repeats = ox_sizes(n, ox_need(n, 1), &count, "the repeats");
    stator_ref all[STATOR_RANK_MAX];
    if (n->version < 6 && ox_ok(n)) { /* one axis, given as input 2 */
        const uint32_t axis = ox_axis(n, ox_need_int(n, ox_need(n, 2), "the axis"), rank);
        for (uint32_t i = 0; i < rank; i++) {
            all[i] = i == axis && count == 1 ? repeats[0] : ox_sym(n, 1);
        }
        repeats = all;
        count = rank;
    }
    OX_NEED(n, count == rank, "%u repeats for an input of rank %u", count, rank);
    ox_out(n, 0,
           ox_op(n, "tile", STATOR_IN(x), STATOR_AT(STATOR_A_DIMS("repeats", count, repeats))));
}

void ox_trilu(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const stator_ref k = ox_in(n, 1) != 0 ? ox_size_of(n, ox_in(n, 1), "k") : ox_sym(n, 0);
    ox_out(n, 0,
           ox_op(n, "trilu", STATOR_IN(x),
                 STATOR_AT(STATOR_A_DIMS("k", 1, &k),
                           STATOR_A_INT("upper", ox_attr_int(n, "upper", 1) != 0))));
}

/* ---- Pad, CenterCropPad ---- */

static stator_ref pad_with(ox_node *n, stator_ref x, stator_ref value, uint32_t rank,
                           const stator_ref *low, const stator_ref *high, const char *mode)
{
    return ox_op(n, "pad", STATOR_IN(x, value),
                 STATOR_AT(STATOR_A_DIMS("low", rank, low), STATOR_A_DIMS("high", rank, high),
                           STATOR_A_STR("mode", mode)));
}

static stator_ref pad_value(ox_node *n, stator_ref x)
{
    if (n->version < 11) {
        return ox_like(n, x, ox_attr_float(n, "value", 0));
    }
    return ox_in(n, 2) != 0 ? ox_reshape(n, ox_in(n, 2), 0, NULL) : 0;
}

void ox_pad(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const uint32_t rank = ox_rank(n, x);
    stator_ref low[STATOR_RANK_MAX];
    stator_ref high[STATOR_RANK_MAX];
    uint32_t count = 0;
    stator_ref list = 0;
    if (n->version < 11) {
        const char *name = ox_has_attr(n, "pads") ? "pads" : "paddings";
        const int64_t *ints = ox_attr_ints(n, name, &count);
        list = ox_ints(n, count, ints);
    } else {
        list = ox_need(n, 1);
    }
    const stator_ref *pads = ox_sizes(n, list, &count, "the pads");
    uint32_t axis_count = rank;
    const int64_t *axes =
        ox_in(n, 3) != 0 ? ox_need_ints(n, ox_in(n, 3), &axis_count, "the axes") : NULL;
    OX_NEED(n, count == 2u * axis_count, "%u pads for %u axes, expected two an axis", count,
            axis_count);
    for (uint32_t i = 0; i < rank; i++) {
        low[i] = high[i] = ox_sym(n, 0);
    }
    for (uint32_t i = 0; ox_ok(n) && i < axis_count; i++) {
        const uint32_t axis = axes != NULL ? ox_axis(n, axes[i], rank) : i;
        low[axis] = pads[i];
        high[axis] = pads[axis_count + i];
    }
    const char *mode = ox_attr_str(n, "mode", "constant");
    ox_out(
        n, 0,
        pad_with(n, x, strcmp(mode, "constant") == 0 ? pad_value(n, x) : 0, rank, low, high, mode));
}

void ox_center_crop_pad(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    stator_ref dims[STATOR_RANK_MAX];
    stator_ref low[STATOR_RANK_MAX];
    stator_ref high[STATOR_RANK_MAX];
    const uint32_t rank = ox_dims(n, x, dims);
    uint32_t count;
    uint32_t axis_count;
    const int64_t *axes = ox_attr_ints(n, "axes", &axis_count);
    const stator_ref *shape = ox_sizes(n, ox_need(n, 1), &count, "the shape");
    ox_expect(n, count == (axes != NULL ? axis_count : rank),
              "the shape has %u entries for %u axes", count, axes != NULL ? axis_count : rank);
    const stator_ref zero = ox_sym(n, 0);
    const stator_ref two = ox_sym(n, 2);
    for (uint32_t i = 0; i < rank; i++) {
        low[i] = high[i] = zero;
    }
    for (uint32_t i = 0; ox_ok(n) && i < count; i++) {
        const uint32_t axis = axes != NULL ? ox_axis(n, axes[i], rank) : i;
        const stator_ref more =
            ox_sym_op(n, STATOR_SYM_MAX, ox_sym_op(n, STATOR_SYM_SUB, shape[i], dims[axis]), zero);
        const stator_ref less =
            ox_sym_op(n, STATOR_SYM_MAX, ox_sym_op(n, STATOR_SYM_SUB, dims[axis], shape[i]), zero);
        const stator_ref more_low = ox_sym_op(n, STATOR_SYM_FLOORDIV, more, two);
        const stator_ref less_low = ox_sym_op(n, STATOR_SYM_FLOORDIV, less, two);
        low[axis] = ox_sym_op(n, STATOR_SYM_SUB, more_low, less_low);
        high[axis] = ox_sym_op(n, STATOR_SYM_SUB, ox_sym_op(n, STATOR_SYM_SUB, more, more_low),
                               ox_sym_op(n, STATOR_SYM_SUB, less, less_low));
    }
    ox_out(n, 0, pad_with(n, x, 0, rank, low, high, "constant"));
}

/* ---- ReverseSequence ---- */

void ox_reverse_sequence(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const uint32_t rank = ox_rank(n, x);
    const uint32_t batch = ox_axis(n, ox_attr_int(n, "batch_axis", 1), rank);
    const uint32_t time = ox_axis(n, ox_attr_int(n, "time_axis", 0), rank);
    stator_ref dims[STATOR_RANK_MAX];
    stator_ref lens_dims[STATOR_RANK_MAX];
    ox_check_rank(n, x, 2, STATOR_RANK_MAX, "the input");
    ox_dims(n, x, dims);
    for (uint32_t i = 0; i < rank; i++) {
        lens_dims[i] = i == batch ? dims[batch] : ox_sym(n, 1);
    }
    const stator_ref lens = ox_reshape(n, ox_cast(n, ox_need(n, 1), STATOR_I64), rank, lens_dims);
    const stator_ref t = ox_iota(n, STATOR_I64, rank, dims, time);
    const stator_ref mirrored = ox_sub(n, ox_sub(n, lens, ox_int(n, 1)), t);
    const stator_ref index = ox_select(n, ox_bin(n, "lt", t, lens), mirrored, t);
    ox_out(n, 0,
           ox_op(n, "gather_elements", STATOR_IN(x, index), STATOR_AT(STATOR_A_INT("axis", time))));
}
