/* Reading window attributes; see ox_window.h. Formulas from the texts of Conv, MaxPool and
 * AveragePool:
 *   span   = (kernel - 1) * dilation + 1
 *   SAME   : out = ceil(in / stride), pad = max((out - 1) * stride + span - in, 0), the odd one
 *            high for SAME_UPPER and low for SAME_LOWER
 *   ceil   : out - 1 = min(ceil((in + pads - span) / stride), floor((in + low - 1) / stride)):
 *            windows that would start in the high padding are left out */
#include "frontends/onnx/ops/ox_window.h"

#include <string.h>

static stator_ref span_of(ox_node *n, stator_ref kernel, int64_t dilation)
{
    const stator_ref less = ox_sym_op(n, STATOR_SYM_SUB, kernel, ox_sym(n, 1));
    return ox_sym_op(n, STATOR_SYM_ADD, ox_sym_op(n, STATOR_SYM_MUL, less, ox_sym(n, dilation)),
                     ox_sym(n, 1));
}

/* Pads axis i so that the result has ceil(size / stride) places. */
static void same_pads(ox_node *n, ox_window_spec *w, uint32_t i, stator_ref size, stator_ref span,
                      bool is_upper)
{
    const stator_ref one = ox_sym(n, 1);
    const stator_ref s = ox_sym(n, w->strides[i]);
    const stator_ref last =
        ox_sym_op(n, STATOR_SYM_MUL,
                  ox_sym_op(n, STATOR_SYM_SUB, ox_sym_op(n, STATOR_SYM_CEILDIV, size, s), one), s);
    const stator_ref need =
        ox_sym_op(n, STATOR_SYM_SUB, ox_sym_op(n, STATOR_SYM_ADD, last, span), size);
    const stator_ref total = ox_sym_op(n, STATOR_SYM_MAX, need, ox_sym(n, 0));
    const stator_ref less = ox_sym_op(n, STATOR_SYM_FLOORDIV, total, ox_sym(n, 2));
    const stator_ref more = ox_sym_op(n, STATOR_SYM_SUB, total, less);
    w->pads[i] = is_upper ? less : more;
    w->pads[w->rank + i] = is_upper ? more : less;
}

static stator_ref ceil_extra(ox_node *n, stator_ref size, stator_ref span, int64_t stride,
                             stator_ref low, stator_ref high)
{
    const stator_ref s = ox_sym(n, stride);
    const stator_ref padded =
        ox_sym_op(n, STATOR_SYM_ADD, ox_sym_op(n, STATOR_SYM_ADD, size, low), high);
    const stator_ref up =
        ox_sym_op(n, STATOR_SYM_CEILDIV, ox_sym_op(n, STATOR_SYM_SUB, padded, span), s);
    const stator_ref inside =
        ox_sym_op(n, STATOR_SYM_SUB, ox_sym_op(n, STATOR_SYM_ADD, size, low), ox_sym(n, 1));
    const stator_ref last =
        ox_sym_op(n, STATOR_SYM_MIN, up, ox_sym_op(n, STATOR_SYM_FLOORDIV, inside, s));
    const stator_ref end =
        ox_sym_op(n, STATOR_SYM_ADD, ox_sym_op(n, STATOR_SYM_MUL, last, s), span);
    return ox_sym_op(n, STATOR_SYM_SUB, end, padded);
}

/* Explicit pads; absent ones are 0. */
static void explicit_pads(ox_node *n, ox_window_spec *w)
{
    const int64_t *pads = ox_attr_ints_or(n, "pads", 2u * w->rank, 0);
    for (uint32_t i = 0; pads != NULL && i < 2u * w->rank; i++) {
        w->pads[i] = ox_sym(n, pads[i]);
    }
}

static bool check_positive(ox_node *n, const char *name, const int64_t *list, uint32_t count)
{
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        ox_expect(n, list[i] >= 1 && list[i] <= INT32_MAX, "attribute '%s' holds %lld", name,
                  (long long)list[i]);
    }
    return ox_ok(n);
}

void ox_window_read(ox_node *n, stator_ref x, const stator_ref *kernel, bool ceil_mode,
                    ox_window_spec *out)
{
    memset(out, 0, sizeof *out);
    ox_check_rank(n, x, 3, STATOR_RANK_MAX, "the input");
    if (!ox_ok(n)) {
        return;
    }
    out->rank = ox_rank(n, x) - 2u;
    out->strides = ox_attr_ints_or(n, "strides", out->rank, 1);
    out->dilations = ox_attr_ints_or(n, "dilations", out->rank, 1);
    const char *mode = ox_attr_str(n, "auto_pad", "NOTSET");
    const bool is_upper = strcmp(mode, "SAME_UPPER") == 0;
    const bool is_lower = strcmp(mode, "SAME_LOWER") == 0;
    const bool is_valid = strcmp(mode, "VALID") == 0;
    const bool is_explicit = strcmp(mode, "NOTSET") == 0 || mode[0] == '\0';
    if (!check_positive(n, "strides", out->strides, out->rank) ||
        !check_positive(n, "dilations", out->dilations, out->rank)) {
        return;
    }
    ox_expect(n, is_upper || is_lower || is_valid || is_explicit, "attribute 'auto_pad' is '%s'",
              mode);
    for (uint32_t i = 0; i < 2u * out->rank; i++) {
        out->pads[i] = ox_sym(n, 0);
    }
    if (is_explicit) {
        explicit_pads(n, out);
    }
    out->has_ceil = ceil_mode && is_explicit;
    for (uint32_t i = 0; ox_ok(n) && i < out->rank; i++) {
        const stator_ref size = ox_dim(n, x, (int64_t)i + 2);
        const stator_ref span = span_of(n, kernel[i], out->dilations[i]);
        out->kernel[i] = kernel[i];
        if (is_upper || is_lower) {
            same_pads(n, out, i, size, span, is_upper);
        }
        out->ceil_extra[i] = out->has_ceil ? ceil_extra(n, size, span, out->strides[i],
                                                        out->pads[i], out->pads[out->rank + i])
                                           : ox_sym(n, 0);
    }
}

void ox_window_kernel(ox_node *n, stator_ref w, stator_ref *out)
{
    stator_ref dims[STATOR_RANK_MAX];
    uint32_t given;
    const int64_t *shape = ox_attr_ints(n, "kernel_shape", &given);
    ox_check_rank(n, w, 3, STATOR_RANK_MAX, "the weight");
    const uint32_t rank = ox_dims(n, w, dims);
    ox_expect(n, shape == NULL || given == rank - 2u,
              "'kernel_shape' has %u entries, the weight has rank %u", given, rank);
    for (uint32_t i = 0; ox_ok(n) && i + 2u < rank; i++) {
        int64_t size;
        out[i] = dims[i + 2u];
        ox_expect(n, shape == NULL || !ox_sym_const(n, out[i], &size) || size == shape[i],
                  "'kernel_shape' is %lld where the weight has %lld", (long long)shape[i],
                  (long long)size);
    }
}
