/* Convolutions and their inverses. */
#include "frontends/onnx/ops/ox_conv.h"
#include "frontends/onnx/ops/ox_window.h"

#include <string.h>

stator_ref ox_conv_node(ox_node *n, stator_ref x, stator_ref w, stator_ref b)
{
    stator_ref kernel[STATOR_RANK_MAX] = {0};
    ox_window_spec s;
    ox_check_rank(n, w, ox_rank(n, x), ox_rank(n, x), "the weight");
    ox_window_kernel(n, w, kernel);
    ox_window_read(n, x, kernel, false, &s);
    if (!ox_ok(n)) {
        return 0;
    }
    return ox_op(n, "conv", STATOR_IN(x, w, b),
                 STATOR_AT(OX_WINDOW_ATTRS(s), STATOR_A_INT("groups", ox_attr_int(n, "group", 1))));
}

void ox_conv(ox_node *n)
{
    ox_out(n, 0, ox_conv_node(n, ox_need(n, 0), ox_need(n, 1), ox_in(n, 2)));
}

/* Pads of ConvTranspose for a wanted output size. */
static void pads_for_output(ox_node *n, stator_ref x, ox_window_spec *s, const stator_ref *wanted,
                            const int64_t *output_padding)
{
    const bool is_upper = strcmp(ox_attr_str(n, "auto_pad", "NOTSET"), "SAME_UPPER") == 0;
    for (uint32_t i = 0; ox_ok(n) && i < s->rank; i++) {
        const stator_ref steps =
            ox_sym_op(n, STATOR_SYM_SUB, ox_dim(n, x, (int64_t)i + 2), ox_sym(n, 1));
        const stator_ref moved = ox_sym_op(n, STATOR_SYM_MUL, steps, ox_sym(n, s->strides[i]));
        const stator_ref taps = ox_sym_op(n, STATOR_SYM_SUB, s->kernel[i], ox_sym(n, 1));
        const stator_ref span = ox_sym_op(n, STATOR_SYM_MUL, taps, ox_sym(n, s->dilations[i]));
        stator_ref full =
            ox_sym_op(n, STATOR_SYM_ADD, ox_sym_op(n, STATOR_SYM_ADD, moved, span),
                      ox_sym_op(n, STATOR_SYM_ADD, ox_sym(n, 1), ox_sym(n, output_padding[i])));
        const stator_ref total = ox_sym_op(n, STATOR_SYM_SUB, full, wanted[i]);
        const stator_ref half = ox_sym_op(n, STATOR_SYM_FLOORDIV, total, ox_sym(n, 2));
        const stator_ref rest = ox_sym_op(n, STATOR_SYM_SUB, total, half);
        s->pads[i] = is_upper ? half : rest;
        s->pads[s->rank + i] = is_upper ? rest : half;
    }
}

/* The wanted spatial sizes: output_shape, or in * stride with SAME padding; 0 when pads rule. */
static bool wanted_sizes(ox_node *n, stator_ref x, const ox_window_spec *s, stator_ref *wanted)
{
    uint32_t count;
    const int64_t *shape = ox_attr_ints(n, "output_shape", &count);
    const char *mode = ox_attr_str(n, "auto_pad", "NOTSET");
    const bool is_same = strncmp(mode, "SAME", 4) == 0;
    ox_expect(n, shape == NULL || count == s->rank || count == s->rank + 2u,
              "'output_shape' has %u entries for %u spatial axes", count, s->rank);
    if (!ox_ok(n) || (shape == NULL && !is_same)) {
        return false;
    }
    for (uint32_t i = 0; i < s->rank; i++) {
        wanted[i] = shape != NULL ? ox_sym(n, shape[count - s->rank + i])
                                  : ox_sym_op(n, STATOR_SYM_MUL, ox_dim(n, x, (int64_t)i + 2),
                                              ox_sym(n, s->strides[i]));
    }
    return true;
}

void ox_conv_transpose(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const stator_ref w = ox_need(n, 1);
    stator_ref kernel[STATOR_RANK_MAX] = {0};
    stator_ref wanted[STATOR_RANK_MAX] = {0};
    ox_window_spec s;
    ox_check_rank(n, w, ox_rank(n, x), ox_rank(n, x), "the weight");
    ox_window_kernel(n, w, kernel);
    ox_window_read(n, x, kernel, false, &s);
    const int64_t *output_padding = ox_attr_ints_or(n, "output_padding", s.rank, 0);
    if (output_padding != NULL && wanted_sizes(n, x, &s, wanted)) {
        pads_for_output(n, x, &s, wanted, output_padding);
    }
    ox_out(n, 0,
           ox_op(n, "conv_transpose", STATOR_IN(x, w, ox_in(n, 2)),
                 STATOR_AT(OX_WINDOW_ATTRS(s), STATOR_A_INT("groups", ox_attr_int(n, "group", 1)),
                           STATOR_A_INTS("output_padding", s.rank, output_padding))));
}

void ox_deform_conv(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const stator_ref w = ox_need(n, 1);
    stator_ref kernel[STATOR_RANK_MAX] = {0};
    ox_window_spec s;
    ox_check_rank(n, w, ox_rank(n, x), ox_rank(n, x), "the weight");
    ox_window_kernel(n, w, kernel);
    ox_window_read(n, x, kernel, false, &s);
    ox_out(n, 0,
           ox_op(n, "deform_conv", STATOR_IN(x, w, ox_need(n, 2), ox_in(n, 3), ox_in(n, 4)),
                 STATOR_AT(OX_WINDOW_ATTRS(s), STATOR_A_INT("groups", ox_attr_int(n, "group", 1)),
                           STATOR_A_INT("offset_groups", ox_attr_int(n, "offset_group", 1)))));
}

void ox_col2im(ox_node *n)
{
    uint32_t rank;
    uint32_t block_rank;
    const stator_ref *image = ox_sizes(n, ox_need(n, 1), &rank, "the image shape");
    const int64_t *block = ox_need_ints(n, ox_need(n, 2), &block_rank, "the block shape");
    stator_ref pads[2 * STATOR_RANK_MAX];
    OX_NEED(n, rank == block_rank && rank <= STATOR_RANK_MAX - 2u,
            "image and block shape have %u and %u entries", rank, block_rank);
    const int64_t *strides = ox_attr_ints_or(n, "strides", rank, 1);
    const int64_t *dilations = ox_attr_ints_or(n, "dilations", rank, 1);
    const int64_t *given = ox_attr_ints_or(n, "pads", 2 * rank, 0);
    for (uint32_t i = 0; given != NULL && i < 2 * rank; i++) {
        pads[i] = ox_sym(n, given[i]);
    }
    ox_out(n, 0,
           ox_op(n, "col2im", STATOR_IN(ox_need(n, 0)),
                 STATOR_AT(STATOR_A_DIMS("image", rank, image), STATOR_A_INTS("block", rank, block),
                           STATOR_A_INTS("strides", rank, strides),
                           STATOR_A_DIMS("pads", 2 * rank, pads),
                           STATOR_A_INTS("dilations", rank, dilations))));
}

/* Depthwise causal convolution: the past (or zeros) stands before the input. */
void ox_causal_conv(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const stator_ref w = ox_need(n, 1);
    static const int64_t ones[1] = {1};
    ox_check_rank(n, x, 3, 3, "the input");
    ox_check_rank(n, w, 3, 3, "the weight");
    const int64_t channels = ox_dim_need(n, w, 0, "the number of channels");
    const stator_ref zero = ox_sym(n, 0);
    const stator_ref kept = ox_sym_op(n, STATOR_SYM_SUB, ox_dim(n, w, 2), ox_sym(n, 1));
    const stator_ref length = ox_dim(n, x, 2);
    stator_ref all;
    if (ox_in(n, 3) != 0) {
        all = ox_concat(n, 2, STATOR_IN(ox_in(n, 3), x));
    } else {
        const stator_ref low[3] = {zero, zero, kept};
        const stator_ref high[3] = {zero, zero, zero};
        all = ox_op(n, "pad", STATOR_IN(x),
                    STATOR_AT(STATOR_A_DIMS("low", 3, low), STATOR_A_DIMS("high", 3, high)));
    }
    const stator_ref pads[2] = {zero, zero};
    stator_ref y =
        ox_op(n, "conv", STATOR_IN(all, w, ox_in(n, 2)),
              STATOR_AT(STATOR_A_INTS("strides", 1, ones), STATOR_A_DIMS("pads", 2, pads),
                        STATOR_A_INTS("dilations", 1, ones), STATOR_A_INT("groups", channels)));
    const char *activation = ox_attr_str(n, "activation", "none");
    if (strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0) {
        y = ox_un(n, "silu", y);
    } else if (strcmp(activation, "none") != 0) {
        ox_fail(n, STATOR_INVALID_ARGUMENT, "attribute 'activation' is '%s'", activation);
    }
    ox_out(n, 0, y);
    if (ox_wants(n, 1)) {
        ox_out(n, 1, ox_slice(n, all, 2, length, kept, 1));
    }
}
