/* Infer rules of contractions: dot_general, matmul, einsum, convolutions and their gradients, dft,
 * det, col2im. In: operands of equal dtype. Out: one type whose sizes follow the formulas of
 * ir/ops.def; window sizes go through st_in_window_size. */
#include "core/base/check.h"
#include "ir/ops/op_einsum.h"
#include "ir/ops/rules.h"
#include <stator/ops.h>

/* ---- dot_general, matmul ---- */

/* Reads one list of axes of operand k; axes already in *set are refused. */
static stator_status read_axes(const st_infer *in, uint32_t a, uint32_t k, uint32_t *set,
                               uint32_t axes[STATOR_RANK_MAX], uint32_t *out_n)
{
    int64_t list[STATOR_RANK_MAX];
    *out_n = st_in_list(in, a, list, STATOR_RANK_MAX);
    ST_IN_FAIL_IF(*out_n > st_in_rank(in, k), in, "%s has %u entries, the operand has rank %u",
                  in->op->desc.attrs[a].name, *out_n, st_in_rank(in, k));
    for (uint32_t i = 0; i < *out_n; i++) {
        ST_TRY(st_in_axis(in, list[i], st_in_rank(in, k), &axes[i]));
        ST_IN_FAIL_IF(*set >> axes[i] & 1u, in, "%s names axis %u a second time",
                      in->op->desc.attrs[a].name, axes[i]);
        *set |= 1u << axes[i];
    }
    return STATOR_OK;
}

/* Paired axes: equal counts and equal sizes; the sizes go to out when it is not NULL. */
static stator_status pair_axes(const st_infer *in, uint32_t a, uint32_t b, uint32_t set[2],
                               stator_ref *out, uint32_t *out_n)
{
    uint32_t x[STATOR_RANK_MAX], y[STATOR_RANK_MAX], n = 0;
    ST_TRY(read_axes(in, a, 0, &set[0], x, out_n));
    ST_TRY(read_axes(in, b, 1, &set[1], y, &n));
    ST_IN_FAIL_IF(n != *out_n, in, "%s has %u entries and %s has %u, expected equally many",
                  in->op->desc.attrs[a].name, *out_n, in->op->desc.attrs[b].name, n);
    for (uint32_t i = 0; i < n; i++) {
        const stator_ref p = st_in_dim(in, 0, x[i]), q = st_in_dim(in, 1, y[i]);
        int64_t value;
        ST_TRY(st_in_same_dim(in, p, q, in->op->desc.attrs[a].name));
        if (out != NULL) {
            out[i] = st_in_const(in, q, &value) ? q : p;
        }
    }
    return STATOR_OK;
}

stator_status st_infer_dot_general(st_infer *in)
{
    stator_ref dims[2 * STATOR_RANK_MAX];
    uint32_t set[2] = {0, 0}, n = 0, contracted = 0;
    ST_TRY(st_in_same_dtype(in, 0, 1));
    ST_TRY(pair_axes(in, STATOR_dot_general_batch_x, STATOR_dot_general_batch_y, set, dims, &n));
    ST_TRY(pair_axes(in, STATOR_dot_general_contract_x, STATOR_dot_general_contract_y, set, NULL,
                     &contracted));
    for (uint32_t k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < st_in_rank(in, k); i++) {
            if ((set[k] >> i & 1u) == 0) {
                dims[n++] = st_in_dim(in, k, i);
            }
        }
    }
    return st_in_set(in, 0, st_in_dtype(in, 0), n, dims);
}

stator_status st_infer_matmul(st_infer *in)
{
    stator_ref a[STATOR_RANK_MAX], b[STATOR_RANK_MAX], dims[STATOR_RANK_MAX + 2];
    uint32_t n = 0;
    ST_TRY(st_in_same_dtype(in, 0, 1));
    ST_TRY(st_in_rank_is(in, 0, 1, STATOR_RANK_MAX));
    ST_TRY(st_in_rank_is(in, 1, 1, STATOR_RANK_MAX));
    const uint32_t ra = st_in_rank(in, 0), rb = st_in_rank(in, 1);
    st_in_dims(in, 0, a);
    st_in_dims(in, 1, b);
    ST_TRY(st_in_same_dim(in, a[ra - 1u], b[rb == 1 ? 0 : rb - 2u],
                          "last axis of x and second last of y"));
    ST_TRY(st_in_broadcast(in, a, ra > 2 ? ra - 2u : 0, b, rb > 2 ? rb - 2u : 0, dims, &n));
    if (ra > 1) {
        dims[n++] = a[ra - 2u];
    }
    if (rb > 1) {
        dims[n++] = b[rb - 1u];
    }
    return st_in_set(in, 0, st_in_dtype(in, 0), n, dims);
}

/* ---- einsum ---- */

stator_status st_infer_einsum(st_infer *in)
{
    st_einsum eq;
    uint32_t ranks[ST_EINSUM_OPERANDS_MAX];
    stator_ref size[ST_EINSUM_LABELS], dims[ST_EINSUM_LABELS_MAX];
    ST_IN_FAIL_IF(in->n_operands == 0 || in->n_operands > ST_EINSUM_OPERANDS_MAX, in,
                  "has %u operands, expected 1 to %u", in->n_operands, ST_EINSUM_OPERANDS_MAX);
    for (uint32_t k = 0; k < in->n_operands; k++) {
        ST_TRY(st_in_same_dtype(in, 0, k));
        ranks[k] = st_in_rank(in, k);
    }
    ST_TRY(st_einsum_parse(st_in_string(in, STATOR_einsum_equation), in->n_operands, ranks, &eq,
                           in->err));
    for (uint32_t i = 0; i < ST_EINSUM_LABELS; i++) {
        size[i] = st_in_size(in, 1);
    }
    for (uint32_t k = 0; k < in->n_operands; k++) {
        for (uint32_t i = 0; i < ranks[k]; i++) {
            stator_ref *both = &size[eq.labels[k][i]];
            const stator_ref one = st_in_dim(in, k, i);
            uint32_t rank = 0;
            ST_TRY(st_in_broadcast(in, both, 1, &one, 1, both, &rank));
        }
    }
    for (uint32_t i = 0; i < eq.n_out; i++) {
        dims[i] = size[eq.out[i]];
    }
    return st_in_set(in, 0, st_in_dtype(in, 0), eq.n_out, dims);
}

/* ---- convolutions ---- */

typedef struct conv_attrs { /* places of the attributes the convolutions share */
    uint32_t strides, pads, dilations, groups;
} conv_attrs;

typedef struct conv_values {
    int64_t strides[STATOR_RANK_MAX], dilations[STATOR_RANK_MAX], groups;
    stator_ref pads[2 * STATOR_RANK_MAX];
    uint32_t n; /* spatial axes */
} conv_values;

static stator_status read_conv(const st_infer *in, conv_values *out)
{
    const conv_attrs at = {st_in_place(in, "strides"), st_in_place(in, "pads"),
                           st_in_place(in, "dilations"), st_in_place(in, "groups")};
    ST_TRY(st_in_rank_is(in, 0, 3, STATOR_RANK_MAX));
    ST_TRY(st_in_rank_is(in, 1, st_in_rank(in, 0), st_in_rank(in, 0)));
    out->n = st_in_rank(in, 0) - 2u;
    ST_TRY(st_in_list_count(in, at.strides, out->n));
    ST_TRY(st_in_list_count(in, at.pads, 2u * out->n));
    ST_TRY(st_in_list_count(in, at.dilations, out->n));
    st_in_list(in, at.strides, out->strides, STATOR_RANK_MAX);
    st_in_list(in, at.dilations, out->dilations, STATOR_RANK_MAX);
    st_in_syms(in, at.pads, out->pads, 2 * STATOR_RANK_MAX);
    out->groups = st_in_int(in, at.groups);
    ST_IN_FAIL_IF(out->groups < 1, in, "groups is %lld, expected at least 1",
                  (long long)out->groups);
    for (uint32_t k = 1; k < in->n_operands; k++) {
        ST_TRY(st_in_same_dtype(in, 0, k));
    }
    return STATOR_OK;
}

/* A size is a multiple of groups. */
static stator_status divisible(const st_infer *in, stator_ref size, int64_t groups,
                               const char *what)
{
    int64_t value;
    ST_IN_FAIL_IF(st_in_const(in, size, &value) && value % groups != 0, in,
                  "%s is %lld, no multiple of groups = %lld", what, (long long)value,
                  (long long)groups);
    return st_in_multiple(in, size, st_in_size(in, groups), what);
}

/* Operand k is a vector of this size, when it is there. */
static stator_status vector_of(const st_infer *in, uint32_t k, stator_ref size, const char *what)
{
    if (!st_in_has(in, k)) {
        return STATOR_OK;
    }
    ST_TRY(st_in_rank_is(in, k, 1, 1));
    return st_in_same_dim(in, st_in_dim(in, k, 0), size, what);
}

static stator_status conv_sizes(const st_infer *in, const conv_values *c, const stator_ref *kernel,
                                stator_ref *out)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const st_sym_window w = {.size = st_in_dim(in, 0, 2u + i),
                                 .low = c->pads[i],
                                 .high = c->pads[c->n + i],
                                 .taps = kernel[i],
                                 .dilation = c->dilations[i],
                                 .stride = c->strides[i]};
        ST_TRY(st_in_window_size(in, &w, i, &out[i]));
    }
    return STATOR_OK;
}

stator_status st_infer_conv(st_infer *in)
{
    conv_values c;
    stator_ref w[STATOR_RANK_MAX], dims[STATOR_RANK_MAX];
    ST_TRY(read_conv(in, &c));
    st_in_dims(in, 1, w);
    ST_TRY(st_in_same_dim(in, st_in_dim(in, 0, 1), st_in_op_int(in, STATOR_SYM_MUL, w[1], c.groups),
                          "channels of x and of w times groups"));
    ST_TRY(divisible(in, w[0], c.groups, "the number of filters"));
    ST_TRY(vector_of(in, 2, w[0], "bias and filters"));
    dims[0] = st_in_dim(in, 0, 0);
    dims[1] = w[0];
    ST_TRY(conv_sizes(in, &c, w + 2, dims + 2));
    return st_in_set(in, 0, st_in_dtype(in, 0), c.n + 2u, dims);
}

stator_status st_infer_conv_transpose(st_infer *in)
{
    conv_values c;
    stator_ref w[STATOR_RANK_MAX], dims[STATOR_RANK_MAX];
    int64_t extra[STATOR_RANK_MAX] = {0};
    ST_TRY(read_conv(in, &c));
    st_in_dims(in, 1, w);
    if (in->attrs[STATOR_conv_transpose_output_padding]->count != 0) {
        ST_TRY(st_in_list_count(in, STATOR_conv_transpose_output_padding, c.n));
        st_in_list(in, STATOR_conv_transpose_output_padding, extra, STATOR_RANK_MAX);
    }
    ST_TRY(st_in_same_dim(in, st_in_dim(in, 0, 1), w[0], "channels of x and of w"));
    ST_TRY(divisible(in, w[0], c.groups, "the number of channels"));
    dims[0] = st_in_dim(in, 0, 0);
    dims[1] = st_in_op_int(in, STATOR_SYM_MUL, w[1], c.groups);
    ST_TRY(vector_of(in, 2, dims[1], "bias and filters"));
    for (uint32_t i = 0; i < c.n; i++) {
        ST_IN_FAIL_IF(c.strides[i] < 1 || c.dilations[i] < 1, in,
                      "stride and dilation of axis %u must be at least 1", i);
        stator_ref size = st_in_op_int(
            in, STATOR_SYM_MUL, st_in_op_int(in, STATOR_SYM_SUB, st_in_dim(in, 0, 2u + i), 1),
            c.strides[i]);
        size =
            st_in_op(in, STATOR_SYM_ADD, size,
                     st_in_op_int(in, STATOR_SYM_MUL,
                                  st_in_op_int(in, STATOR_SYM_SUB, w[2u + i], 1), c.dilations[i]));
        size = st_in_op_int(in, STATOR_SYM_ADD, size, extra[i] + 1);
        dims[2u + i] = st_in_op(in, STATOR_SYM_SUB, st_in_op(in, STATOR_SYM_SUB, size, c.pads[i]),
                                c.pads[c.n + i]);
    }
    return st_in_set(in, 0, st_in_dtype(in, 0), c.n + 2u, dims);
}

stator_status st_infer_conv_weight_grad(st_infer *in)
{
    conv_values c;
    stator_ref kernel[STATOR_RANK_MAX], expected[STATOR_RANK_MAX], dims[STATOR_RANK_MAX];
    ST_TRY(read_conv(in, &c));
    ST_TRY(st_in_list_count(in, STATOR_conv_weight_grad_kernel, c.n));
    st_in_syms(in, STATOR_conv_weight_grad_kernel, kernel, STATOR_RANK_MAX);
    ST_TRY(st_in_same_dim(in, st_in_dim(in, 0, 0), st_in_dim(in, 1, 0), "batches of x and g"));
    ST_TRY(divisible(in, st_in_dim(in, 0, 1), c.groups, "the number of channels"));
    ST_TRY(divisible(in, st_in_dim(in, 1, 1), c.groups, "the number of filters"));
    ST_TRY(conv_sizes(in, &c, kernel, expected));
    dims[0] = st_in_dim(in, 1, 1);
    dims[1] = st_in_op_int(in, STATOR_SYM_FLOORDIV, st_in_dim(in, 0, 1), c.groups);
    for (uint32_t i = 0; i < c.n; i++) {
        ST_TRY(st_in_same_dim(in, expected[i], st_in_dim(in, 1, 2u + i),
                              "output of the convolution and g"));
        dims[2u + i] = kernel[i];
    }
    return st_in_set(in, 0, st_in_dtype(in, 0), c.n + 2u, dims);
}

stator_status st_infer_deform_conv(st_infer *in)
{
    conv_values c;
    stator_ref w[STATOR_RANK_MAX], dims[STATOR_RANK_MAX];
    const int64_t offset_groups = st_in_int(in, STATOR_deform_conv_offset_groups);
    ST_TRY(read_conv(in, &c));
    ST_IN_FAIL_IF(offset_groups < 1, in, "offset_groups is %lld, expected at least 1",
                  (long long)offset_groups);
    st_in_dims(in, 1, w);
    ST_TRY(st_in_same_dim(in, st_in_dim(in, 0, 1), st_in_op_int(in, STATOR_SYM_MUL, w[1], c.groups),
                          "channels of x and of w times groups"));
    ST_TRY(divisible(in, w[0], c.groups, "the number of filters"));
    ST_TRY(vector_of(in, 3, w[0], "bias and filters"));
    ST_TRY(st_in_multiple(in, st_in_dim(in, 0, 1), st_in_size(in, offset_groups),
                          "channels by offset_groups"));
    dims[0] = st_in_dim(in, 0, 0);
    dims[1] = w[0];
    ST_TRY(conv_sizes(in, &c, w + 2, dims + 2));
    const stator_ref taps =
        st_in_op_int(in, STATOR_SYM_MUL, st_in_product(in, w + 2, c.n), offset_groups);
    for (uint32_t k = 2; k <= 4; k += 2) { /* offset, mask */
        if (!st_in_has(in, k)) {
            continue;
        }
        ST_TRY(st_in_rank_is(in, k, c.n + 2u, c.n + 2u));
        ST_TRY(st_in_same_dim(in, st_in_dim(in, k, 0), dims[0], "batches of offset or mask and x"));
        ST_TRY(st_in_same_dim(in, st_in_dim(in, k, 1),
                              k == 2 ? st_in_op_int(in, STATOR_SYM_MUL, taps, c.n) : taps,
                              "channels of offset or mask"));
        for (uint32_t i = 0; i < c.n; i++) {
            ST_TRY(st_in_same_dim(in, st_in_dim(in, k, 2u + i), dims[2u + i],
                                  "spatial axes of offset or mask and of the result"));
        }
    }
    return st_in_set(in, 0, st_in_dtype(in, 0), c.n + 2u, dims);
}

/* Axis 2 of x is the product of the columns of blocks along each axis of the image; none where a
 * block is larger (st_in_window_size refuses that). */
static stator_status check_columns(const st_infer *in, const int64_t *block, uint32_t n)
{
    stator_ref image[STATOR_RANK_MAX];
    stator_ref pads[2u * STATOR_RANK_MAX];
    int64_t strides[STATOR_RANK_MAX], dilations[STATOR_RANK_MAX], given = 0, wanted = 0;
    stator_ref all = st_in_size(in, 1);
    (void)st_in_syms(in, STATOR_col2im_image, image, STATOR_RANK_MAX);
    (void)st_in_syms(in, STATOR_col2im_pads, pads, 2u * STATOR_RANK_MAX);
    (void)st_in_list(in, STATOR_col2im_strides, strides, STATOR_RANK_MAX);
    (void)st_in_list(in, STATOR_col2im_dilations, dilations, STATOR_RANK_MAX);
    for (uint32_t i = 0; i < n; i++) {
        stator_ref columns = 0;
        const st_sym_window w = {.size = image[i],
                                 .low = pads[i],
                                 .high = pads[i + n],
                                 .taps = st_in_size(in, block[i]),
                                 .dilation = dilations[i],
                                 .stride = strides[i]};
        ST_TRY(st_in_window_count(in, &w, i, &columns));
        all = st_in_op(in, STATOR_SYM_MUL, all,
                       st_in_op(in, STATOR_SYM_MAX, columns, st_in_size(in, 0)));
    }
    if (st_in_const(in, st_in_dim(in, 0, 2), &given) && st_in_const(in, all, &wanted) &&
        given != wanted) {
        return st_in_fail(in, "axis 2 of x is %lld, image and block give %lld", (long long)given,
                          (long long)wanted);
    }
    return st_in_same_dim(in, st_in_dim(in, 0, 2), all, "axis 2 of x and blocks of the image");
}

stator_status st_infer_col2im(st_infer *in)
{
    stator_ref dims[STATOR_RANK_MAX];
    int64_t block[STATOR_RANK_MAX], count = 1, channels = 0;
    ST_TRY(st_in_rank_is(in, 0, 3, 3));
    const uint32_t n = st_in_list(in, STATOR_col2im_block, block, STATOR_RANK_MAX);
    ST_IN_FAIL_IF(n == 0 || n + 2u > STATOR_RANK_MAX, in, "block has %u entries, expected 1 to %d",
                  n, STATOR_RANK_MAX - 2);
    ST_TRY(st_in_list_count(in, STATOR_col2im_image, n));
    ST_TRY(st_in_list_count(in, STATOR_col2im_strides, n));
    ST_TRY(st_in_list_count(in, STATOR_col2im_dilations, n));
    ST_TRY(st_in_list_count(in, STATOR_col2im_pads, 2u * n));
    for (uint32_t i = 0; i < n; i++) {
        ST_IN_FAIL_IF(block[i] < 1 || !st_mul_i64(count, block[i], &count), in,
                      "block entry %u is %lld", i, (long long)block[i]);
    }
    const stator_ref columns = st_in_dim(in, 0, 1);
    ST_IN_FAIL_IF(st_in_const(in, columns, &channels) && channels % count != 0, in,
                  "axis 1 of x is %lld, no multiple of the block's %lld elements",
                  (long long)channels, (long long)count);
    ST_TRY(st_in_multiple(in, columns, st_in_size(in, count), "axis 1 of x by the block"));
    ST_TRY(check_columns(in, block, n));
    dims[0] = st_in_dim(in, 0, 0);
    dims[1] = st_in_op_int(in, STATOR_SYM_FLOORDIV, columns, count);
    st_in_syms(in, STATOR_col2im_image, dims + 2, STATOR_RANK_MAX - 2);
    return st_in_set(in, 0, st_in_dtype(in, 0), n + 2u, dims);
}

/* ---- transforms of the last axes ---- */

stator_status st_infer_dft(st_infer *in)
{
    stator_ref dims[STATOR_RANK_MAX], length = 0;
    uint32_t axis = 0;
    int64_t parts = 2;
    ST_TRY(st_in_class_is(in, 0, 1u << STATOR_CLASS_FLOAT, "a float dtype"));
    ST_TRY(st_in_rank_is(in, 0, 2, STATOR_RANK_MAX));
    const uint32_t rank = st_in_rank(in, 0);
    ST_TRY(st_in_axis(in, st_in_int(in, STATOR_dft_axis), rank, &axis));
    ST_TRY(st_in_list_count(in, STATOR_dft_length, 1));
    st_in_syms(in, STATOR_dft_length, &length, 1);
    st_in_dims(in, 0, dims);
    ST_IN_FAIL_IF(axis == rank - 1u, in,
                  "axis %u is the last one, which holds real and imaginary parts", axis);
    ST_IN_FAIL_IF(st_in_const(in, dims[rank - 1u], &parts) && parts != 1 && parts != 2, in,
                  "the last axis has size %lld, expected 1 (real) or 2 (complex)",
                  (long long)parts);
    ST_TRY(st_in_fits(in, dims[rank - 1u], st_in_size(in, 2), "x", rank - 1u));
    const bool inverse = st_in_int(in, STATOR_dft_inverse) != 0;
    const bool onesided = st_in_int(in, STATOR_dft_onesided) != 0;
    ST_IN_FAIL_IF(onesided && parts != (inverse ? 2 : 1), in, "onesided needs %s input",
                  inverse ? "complex" : "real");
    dims[axis] =
        onesided && !inverse
            ? st_in_op_int(in, STATOR_SYM_ADD, st_in_op_int(in, STATOR_SYM_FLOORDIV, length, 2), 1)
            : length;
    dims[rank - 1u] = st_in_size(in, onesided && inverse ? 1 : 2);
    return st_in_set(in, 0, st_in_dtype(in, 0), rank, dims);
}

stator_status st_infer_det(st_infer *in)
{
    stator_ref dims[STATOR_RANK_MAX];
    ST_TRY(st_in_class_is(in, 0, 1u << STATOR_CLASS_FLOAT, "a float dtype"));
    ST_TRY(st_in_rank_is(in, 0, 2, STATOR_RANK_MAX));
    const uint32_t rank = st_in_rank(in, 0);
    st_in_dims(in, 0, dims);
    ST_TRY(st_in_same_dim(in, dims[rank - 2u], dims[rank - 1u], "last two axes"));
    return st_in_set(in, 0, st_in_dtype(in, 0), rank - 2u, dims);
}
