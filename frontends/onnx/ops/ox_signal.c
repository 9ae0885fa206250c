/* Windows, Fourier transforms and mel weights. */
#include "frontends/onnx/onnx.h"

#include <math.h>
#include <string.h>

#define TWO_PI 6.283185307179586

/* ---- windows: sum over k of coef[k] * cos(2 pi k i / N) ---- */

void ox_window(ox_node *n)
{
    const char *name = n->row->name;
    const double hann[3] = {0.5, -0.5, 0};
    const double hamming[3] = {25.0 / 46.0, -21.0 / 46.0, 0};
    const double blackman[3] = {0.42, -0.5, 0.08};
    const double *coef = strcmp(name, "HannWindow") == 0      ? hann
                         : strcmp(name, "HammingWindow") == 0 ? hamming
                                                              : blackman;
    const stator_dtype dtype = ox_dtype_of(n, ox_attr_int(n, "output_datatype", 1));
    const stator_ref size = ox_size_of(n, ox_need(n, 0), "the size");
    const stator_ref one = ox_scalar(n, STATOR_F64, 1);
    const stator_ref i = ox_cast(n, ox_iota(n, STATOR_I64, 1, &size, 0), STATOR_F64);
    stator_ref period = ox_cast(n, ox_from_dim(n, size), STATOR_F64);
    if (ox_attr_int(n, "periodic", 1) == 0) {
        period = ox_bin(n, "max", ox_sub(n, period, one), one);
    }
    const stator_ref phase = ox_mul(n, ox_div(n, i, period), ox_scalar(n, STATOR_F64, TWO_PI));
    stator_ref y = ox_scalar(n, STATOR_F64, coef[0]);
    for (int k = 1; k < 3; k++) {
        if (coef[k] != 0) {
            const stator_ref angle = ox_mul(n, phase, ox_scalar(n, STATOR_F64, k));
            y = ox_add(n, y, ox_mul(n, ox_un(n, "cos", angle), ox_scalar(n, STATOR_F64, coef[k])));
        }
    }
    ox_out(n, 0, ox_cast(n, y, dtype));
}

/* ---- DFT ---- */

static stator_ref dft(ox_node *n, stator_ref x, uint32_t axis, stator_ref length, bool inverse,
                      bool onesided)
{
    return ox_op(n, "dft", STATOR_IN(x),
                 STATOR_AT(STATOR_A_INT("axis", axis), STATOR_A_DIMS("length", 1, &length),
                           STATOR_A_INT("inverse", inverse), STATOR_A_INT("onesided", onesided)));
}

/* A one-sided spectrum is defined for real input alone: a last axis of unknown size is 1 then. */
static stator_ref real_input(ox_node *n, stator_ref x)
{
    stator_ref dims[STATOR_RANK_MAX];
    int64_t known;
    const uint32_t rank = ox_dims(n, x, dims);
    if (!ox_ok(n) || rank == 0 || ox_sym_const(n, dims[rank - 1u], &known)) {
        return x;
    }
    dims[rank - 1u] = ox_sym(n, 1);
    return ox_reshape(n, x, rank, dims);
}

/* x cut or zero-padded to `size` along an axis. */
static stator_ref fit_axis(ox_node *n, stator_ref x, uint32_t axis, stator_ref size)
{
    stator_ref low[STATOR_RANK_MAX];
    stator_ref high[STATOR_RANK_MAX];
    const uint32_t rank = ox_rank(n, x);
    if (ox_dim(n, x, axis) == size) {
        return x;
    }
    for (uint32_t i = 0; i < rank; i++) {
        low[i] = high[i] = ox_sym(n, 0);
    }
    high[axis] = ox_sym_op(n, STATOR_SYM_SUB, size, ox_dim(n, x, axis));
    return ox_op(n, "pad", STATOR_IN(x),
                 STATOR_AT(STATOR_A_DIMS("low", rank, low), STATOR_A_DIMS("high", rank, high)));
}

/* The inverse of a one-sided spectrum: the missing half mirrored and conjugated, then the real
 * part. */
static stator_ref inverse_real(ox_node *n, stator_ref x, uint32_t axis, stator_ref length)
{
    const uint32_t rank = ox_rank(n, x);
    const stator_ref one = ox_sym(n, 1);
    const stator_ref half =
        ox_sym_op(n, STATOR_SYM_ADD, ox_sym_op(n, STATOR_SYM_FLOORDIV, length, ox_sym(n, 2)), one);
    const stator_ref rest = ox_sym_op(n, STATOR_SYM_SUB, length, half);
    const int64_t signs_dims[1] = {2};
    const double signs[2] = {1, -1};
    const stator_ref kept = fit_axis(n, x, axis, half);
    const stator_ref mirrored = ox_slice(n, kept, axis, rest, rest, -1);
    const stator_ref conj =
        ox_cast(n, ox_floats(n, (uint32_t)signs_dims[0], signs), ox_dtype(n, x));
    const stator_ref parts[2] = {kept, ox_mul(n, mirrored, conj)};
    const stator_ref y = dft(n, ox_concat(n, axis, 2, parts), axis, length, true, false);
    return ox_slice_const(n, y, rank - 1u, 0, 1);
}

void ox_dft(ox_node *n)
{
    const bool inverse = ox_attr_int(n, "inverse", 0) != 0;
    const bool onesided = ox_attr_int(n, "onesided", 0) != 0;
    const stator_ref x = onesided && !inverse ? real_input(n, ox_need(n, 0)) : ox_need(n, 0);
    const uint32_t rank = ox_rank(n, x);
    int64_t given = n->version < 20 ? ox_attr_int(n, "axis", 1) : -2;
    if (n->version >= 20 && ox_in(n, 2) != 0) {
        given = ox_need_int(n, ox_in(n, 2), "the axis");
    }
    const uint32_t axis = ox_axis(n, given, rank);
    ox_check_rank(n, x, 2, STATOR_RANK_MAX, "the input");
    OX_NEED(n, axis + 1u != rank, "the last axis cannot be transformed");
    stator_ref length = ox_dim(n, x, axis);
    if (ox_in(n, 1) != 0) {
        uint32_t count;
        const stator_ref *list = ox_sizes(n, ox_in(n, 1), &count, "the length");
        length = list != NULL && count == 1 ? list[0] : 0;
    } else if (inverse && onesided) {
        length = ox_sym_op(n, STATOR_SYM_MUL, ox_sym_op(n, STATOR_SYM_SUB, length, ox_sym(n, 1)),
                           ox_sym(n, 2));
    }
    ox_out(n, 0,
           inverse && onesided ? inverse_real(n, x, axis, length)
                               : dft(n, x, axis, length, inverse, onesided));
}

/* ---- STFT ---- */

static stator_ref frame_length(ox_node *n, stator_ref signal)
{
    uint32_t count;
    if (ox_in(n, 3) != 0) {
        const stator_ref *list = ox_sizes(n, ox_in(n, 3), &count, "the frame length");
        return list != NULL && count == 1 ? list[0] : 0;
    }
    return ox_in(n, 2) != 0 ? ox_dim(n, ox_in(n, 2), 0) : ox_dim(n, signal, 1);
}

/* The signal as [batch, length, 1 or 2]. TorchScript's exporter writes real ones as [batch,
 * length], and ONNX Runtime takes them so. */
static stator_ref stft_signal(ox_node *n, bool onesided)
{
    const stator_ref x = ox_need(n, 0);
    if (ox_ok(n) && ox_rank(n, x) == 2) {
        return ox_unsqueeze(n, x, 2);
    }
    return onesided ? real_input(n, x) : x;
}

void ox_stft(ox_node *n)
{
    const bool onesided = ox_attr_int(n, "onesided", 1) != 0;
    const stator_ref signal = stft_signal(n, onesided);
    const int64_t step = ox_need_int(n, ox_need(n, 1), "the frame step");
    const stator_ref length = frame_length(n, signal);
    ox_check_rank(n, signal, 3, 3, "the signal");
    OX_NEED(n, step >= 1, "the frame step is %lld", (long long)step);
    const stator_ref span = ox_sym_op(n, STATOR_SYM_SUB, ox_dim(n, signal, 1), length);
    const stator_ref frames = ox_sym_op(
        n, STATOR_SYM_ADD, ox_sym_op(n, STATOR_SYM_FLOORDIV, span, ox_sym(n, step)), ox_sym(n, 1));
    const stator_ref dims[2] = {frames, length};
    const stator_ref first = ox_mul(n, ox_iota(n, STATOR_I64, 2, dims, 0), ox_int(n, step));
    const stator_ref index = ox_add(n, first, ox_iota(n, STATOR_I64, 2, dims, 1));
    stator_ref framed = ox_gather(n, signal, index, 1); /* [B, frames, length, 1 or 2] */
    if (ox_in(n, 2) != 0) {
        const stator_ref window = ox_cast(n, ox_in(n, 2), ox_dtype(n, signal));
        framed = ox_mul(n, framed, ox_unsqueeze(n, window, 1));
    }
    ox_out(n, 0, dft(n, framed, 2, length, false, onesided));
}

/* ---- MelWeightMatrix ---- */

static double mel_of(double hertz)
{
    return 2595 * log1p(hertz / 700) / log(10);
}

static double one_float(ox_node *n, uint32_t k, const char *what)
{
    uint32_t count;
    const double *list = ox_need_floats(n, ox_need(n, k), &count, what);
    if (!ox_expect(n, list != NULL && count == 1, "%s has %u elements, expected one", what,
                   count)) {
        return 0;
    }
    return list[0];
}

/* One triangle: rises from `low` to 1 at `centre`, falls to 0 at `high`. */
static void mel_triangle(double *out, int64_t rows, int64_t columns, int64_t column,
                         const int64_t edge[3])
{
    for (int64_t j = edge[0] < 0 ? 0 : edge[0]; j < rows && j <= edge[1]; j++) {
        const int64_t rise = edge[1] - edge[0];
        out[j * columns + column] = rise == 0 ? 1 : (double)(j - edge[0]) / (double)rise;
    }
    for (int64_t j = edge[1] < 0 ? 0 : edge[1]; j < rows && j < edge[2]; j++) {
        out[j * columns + column] = (double)(edge[2] - j) / (double)(edge[2] - edge[1]);
    }
}

void ox_mel_weights(ox_node *n)
{
    const int64_t bins = ox_need_int(n, ox_need(n, 0), "the number of mel bins");
    const int64_t length = ox_need_int(n, ox_need(n, 1), "the DFT length");
    const int64_t rate = ox_need_int(n, ox_need(n, 2), "the sample rate");
    const double low = mel_of(one_float(n, 3, "the lower edge"));
    const double high = mel_of(one_float(n, 4, "the upper edge"));
    const stator_dtype dtype = ox_dtype_of(n, ox_attr_int(n, "output_datatype", 1));
    OX_NEED(n,
            bins >= 1 && bins <= (1 << 16) && length >= 1 && length <= (1 << 24) && rate >= 1 &&
                bins * (length / 2 + 1) <= ((int64_t)1 << 24),
            "%lld bins of a DFT of %lld at rate %lld", (long long)bins, (long long)length,
            (long long)rate);
    const int64_t rows = length / 2 + 1;
    const double step = (high - low) / (double)(bins + 2);
    double *out = ox_alloc(n, (uint64_t)(rows * bins), sizeof *out);
    for (int64_t i = 0; out != NULL && i < bins; i++) {
        int64_t edge[3];
        for (int64_t k = 0; k < 3; k++) {
            const double hertz = 700 * expm1(((double)(i + k) * step + low) / 2595 * log(10));
            const double place = floor((double)(length + 1) * hertz / (double)rate);
            edge[k] = place > -1e9 && place < 1e9 ? (int64_t)place : 0;
        }
        mel_triangle(out, rows, bins, i, edge);
    }
    const int64_t dims[2] = {rows, bins};
    ox_out(n, 0, out != NULL ? ox_cast(n, ox_const(n, STATOR_F64, 2, dims, out), dtype) : 0);
}
