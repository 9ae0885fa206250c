/* Comparing tensors; see compare.h. */
#include "core/base/compare.h"

#include "core/base/check.h"
#include "core/base/convert.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE 4096u /* elements that tell how large values are */

/* Distance of two bf16 in units in the last place, over the ordered integers. */
static int64_t bf16_ulps(const void *a, const void *b, int64_t i)
{
    uint16_t bits[2];
    memcpy(&bits[0], (const char *)a + 2 * i, 2);
    memcpy(&bits[1], (const char *)b + 2 * i, 2);
    int64_t ordered[2];
    for (int k = 0; k < 2; k++) {
        ordered[k] = (bits[k] & 0x8000u) != 0 ? -(int64_t)(bits[k] & 0x7fffu) : bits[k];
    }
    return llabs(ordered[0] - ordered[1]);
}

/* Counts two numbers that differ. */
static void take_error(double abs_err, double y, const st_tolerance *allowed, bool close,
                       st_difference *out)
{
    const double rel_err = abs_err / fabs(y);
    if (!(abs_err <= out->max_abs)) { /* NaN stays */
        out->max_abs = isnan(out->max_abs) ? out->max_abs : abs_err;
    }
    if (!(rel_err <= out->max_rel)) {
        out->max_rel = isnan(out->max_rel) ? out->max_rel : rel_err;
    }
    /* An infinity has no tolerance: rtol times it would allow everything. */
    const bool is_near =
        isinf(y) ? false : close || abs_err <= allowed->atol + allowed->rtol * fabs(y);
    if (!is_near) {
        out->ok = 0;
        out->reason = "values";
    }
}

static void compare_element(double x, double y, const st_tolerance *allowed, bool close,
                            st_difference *out)
{
    if ((isnan(x) && isnan(y)) || x == y) {
        return;
    }
    take_error(fabs(x - y), y, allowed, close && isfinite(x) && isfinite(y), out);
}

/* Whole numbers past 2^53 differ although their doubles do not. */
static void compare_integer(int64_t x, int64_t y, bool is_unsigned, const st_tolerance *allowed,
                            st_difference *out)
{
    const uint64_t a = (uint64_t)x;
    const uint64_t b = (uint64_t)y;
    if (a != b) {
        const bool is_more = is_unsigned ? a > b : x > y;
        take_error((double)(is_more ? a - b : b - a), is_unsigned ? (double)b : (double)y, allowed,
                   false, out);
    }
}

/* "f32[1, 10]", cut to what fits. */
static size_t print_layout(const DLTensor *t, char *out, size_t room)
{
    size_t n = (size_t)snprintf(out, room, "%s[", st_dtype_name(st_dtype_from_dl(t->dtype)));
    for (int32_t i = 0; i < t->ndim && n + 24 < room; i++) {
        n += (size_t)snprintf(out + n, room - n, "%s%" PRId64, i != 0 ? ", " : "", t->shape[i]);
    }
    return n + (size_t)snprintf(out + n, room - n, "]");
}

void st_print_layouts(const DLTensor *got, const DLTensor *want, char out[ST_DIFFERENCE_TEXT])
{
    static const size_t half = ST_DIFFERENCE_TEXT / 2 - 8;
    size_t n = print_layout(got, out, half);
    n += (size_t)snprintf(out + n, ST_DIFFERENCE_TEXT - n, ", expected ");
    (void)print_layout(want, out + n, half);
}

static bool same_layout(const DLTensor *got, const DLTensor *want, st_difference *out)
{
    *out = (st_difference){.ok = 1};
    if (memcmp(&got->dtype, &want->dtype, sizeof got->dtype) != 0) {
        out->reason = "dtype";
    } else if (got->ndim != want->ndim ||
               (got->ndim > 0 &&
                memcmp(got->shape, want->shape, (size_t)got->ndim * sizeof *got->shape) != 0)) {
        out->reason = "shape";
    }
    if (out->reason != NULL) {
        *out = (st_difference){.max_abs = NAN, .max_rel = NAN, .reason = out->reason};
        st_print_layouts(got, want, out->detail);
        return false;
    }
    return true;
}

static void compare_elements(const DLTensor *got, const DLTensor *want, const st_tolerance *allowed,
                             st_difference *out)
{
    uint64_t count = 0;
    if (!st_numel(want->shape, (uint32_t)want->ndim, &count)) {
        return;
    }
    const uint32_t dtype = st_dtype_from_dl(want->dtype);
    const void *a = (const char *)got->data + got->byte_offset;
    const void *b = (const char *)want->data + want->byte_offset;
    const uint32_t class_ = st_dtype_class(dtype);
    for (int64_t i = 0; i < (int64_t)count; i++) {
        if (class_ == STATOR_CLASS_COMPLEX) {
            double x[2];
            double y[2];
            st_load_c128(dtype, a, i, x);
            st_load_c128(dtype, b, i, y);
            compare_element(x[0], y[0], allowed, false, out);
            compare_element(x[1], y[1], allowed, false, out);
        } else if (class_ == STATOR_CLASS_FLOAT) {
            const bool close = dtype == STATOR_BF16 && bf16_ulps(a, b, i) <= 2;
            compare_element(st_load_f64(dtype, a, i), st_load_f64(dtype, b, i), allowed, close,
                            out);
        } else {
            compare_integer(st_load_i64(dtype, a, i), st_load_i64(dtype, b, i),
                            class_ == STATOR_CLASS_UINT, allowed, out);
        }
    }
}

/* ---- the tolerance ---- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median magnitude of what is neither zero nor infinite nor NaN, of elements at equal
 * distances. */
static double typical_magnitude(const DLTensor *t, uint32_t dtype)
{
    double sample[SAMPLE] = {0};
    uint64_t count = 0;
    size_t n = 0;
    if (!st_numel(t->shape, (uint32_t)t->ndim, &count)) {
        return 0;
    }
    const uint64_t step = count / SAMPLE + 1;
    const char *data = (const char *)t->data + t->byte_offset;
    for (uint64_t i = 0; i < count && n < SAMPLE; i += step) {
        const double x = fabs(st_load_f64(dtype, data, (int64_t)i));
        if (isfinite(x) && x > 0) {
            sample[n++] = x;
        }
    }
    qsort(sample, n, sizeof *sample, ascending);
    return n > 0 ? sample[n / 2] : 0;
}

/* Two right answers differ by a few roundings at each op, and where a sum cancels by that much of
 * its terms, which are about as large as the other results: hence a part of the typical value.
 * 2^-11 and 2^-8 are the steps of f16 and bf16. Of f8 they differ by one step, which is at most
 * 2^-3 or 2^-2 of the value, and 2^-9 or 2^-16 near 0. Whole numbers and bools are not rounded. */
static st_tolerance default_tolerance(const DLTensor *want, uint32_t dtype)
{
    const double step = dtype == STATOR_F16 ? 0x1p-11 : dtype == STATOR_BF16 ? 0x1p-8 : 0;
    st_tolerance chosen = {.rtol = 1e-3 + 8 * step, .atol = 1e-7};
    switch (st_dtype_class(dtype)) {
    case STATOR_CLASS_COMPLEX:
        return chosen;
    case STATOR_CLASS_FLOAT:
        break;
    default:
        return (st_tolerance){.rtol = 0, .atol = 0};
    }
    if (st_dtype_bits(dtype) == 8) {
        const bool has_three_bits = dtype == STATOR_F8E4M3FN;
        return (st_tolerance){.rtol = 1e-3 + (has_three_bits ? 0x1p-3 : 0x1p-2),
                              .atol = has_three_bits ? 0x1p-9 : 0x1p-16};
    }
    const double share = (1e-5 + 4 * step) * typical_magnitude(want, dtype);
    chosen.atol = share > chosen.atol ? share : chosen.atol;
    return chosen;
}

void st_compare(const DLTensor *got, const DLTensor *want, const st_tolerance *given,
                st_difference *out)
{
    st_tolerance allowed = *given;
    if (!same_layout(got, want, out)) {
        return;
    }
    if (allowed.rtol < 0 || allowed.atol < 0) {
        const st_tolerance usual = default_tolerance(want, st_dtype_from_dl(want->dtype));
        allowed.rtol = allowed.rtol >= 0 ? allowed.rtol : usual.rtol;
        allowed.atol = allowed.atol >= 0 ? allowed.atol : usual.atol;
    }
    compare_elements(got, want, &allowed, out);
}
