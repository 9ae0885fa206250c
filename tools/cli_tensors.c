/* Lists of named tensors, random contents, comparing. See cli.h. */
#define _GNU_SOURCE
#include "cli.h"

#include "core/base/check.h"
#include "core/base/convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void cli_tensors_free(cli_tensors *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        stator_tensor_release(list->tensors[i]);
        free(list->names[i]);
    }
    free(list->tensors);
    free(list->names);
    list->tensors = NULL;
    list->names = NULL;
    list->count = 0;
}

int cli_tensors_add(cli_tensors *list, const char *name, stator_tensor *tensor)
{
    char **names = realloc(list->names, (list->count + 1u) * sizeof *names);
    if (names != NULL) {
        list->names = names;
    }
    stator_tensor **tensors = realloc(list->tensors, (list->count + 1u) * sizeof *tensors);
    if (tensors != NULL) {
        list->tensors = tensors;
    }
    char *copy = name != NULL ? strdup(name) : NULL;
    if (names == NULL || tensors == NULL || (name != NULL && copy == NULL)) {
        free(copy);
        stator_tensor_release(tensor);
        return 0;
    }
    list->names[list->count] = copy;
    list->tensors[list->count++] = tensor;
    return 1;
}

const char *cli_dtype_name(stator_dtype dtype)
{
    return st_dtype_name(dtype);
}

/* ---- dtypes that NumPy has not ---- */

/* The NumPy type in which a dtype travels; 0 when it has its own. */
static stator_dtype carrier_of(stator_dtype dtype)
{
    switch (dtype) {
    case STATOR_BF16:
        return STATOR_U16;
    case STATOR_F8E4M3FN:
    case STATOR_F8E5M2:
    case STATOR_U4:
        return STATOR_U8;
    case STATOR_I4:
        return STATOR_I8;
    default:
        return 0;
    }
}

/* The same numbers (of 4 bits) or the same bits (else) as another dtype. */
static stator_tensor *carry(stator_ctx *ctx, stator_dtype to, stator_tensor *tensor)
{
    const DLTensor *view = stator_tensor_view(tensor);
    const stator_dtype from = stator_tensor_dtype(tensor);
    stator_tensor *out = NULL;
    uint64_t count = 0;
    if (!st_numel(view->shape, (uint32_t)view->ndim, &count) ||
        stator_tensor_create(ctx, to, (uint32_t)view->ndim, view->shape, &out) != STATOR_OK) {
        stator_tensor_release(tensor);
        return NULL;
    }
    if (st_dtype_bits(from) != st_dtype_bits(to)) {
        for (int64_t i = 0; i < (int64_t)count; i++) {
            st_store_i64(to, stator_tensor_data(out), i,
                         st_load_i64(from, stator_tensor_data(tensor), i));
        }
    } else if (count != 0) {
        memcpy(stator_tensor_data(out), stator_tensor_data(tensor),
               stator_tensor_size_bytes(tensor));
    }
    stator_tensor_release(tensor);
    return out;
}

stator_tensor *cli_from_numpy(stator_ctx *ctx, stator_dtype wanted, stator_tensor *tensor)
{
    const stator_dtype carrier = carrier_of(wanted);
    return carrier != 0 && stator_tensor_dtype(tensor) == carrier ? carry(ctx, wanted, tensor)
                                                                  : tensor;
}

stator_tensor *cli_to_numpy(stator_ctx *ctx, stator_tensor *tensor)
{
    const stator_dtype carrier = carrier_of(stator_tensor_dtype(tensor));
    return carrier != 0 ? carry(ctx, carrier, tensor) : tensor;
}

/* ---- random contents ---- */

/* SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t next_word(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* A normal number by Box and Muller. */
static double next_normal(uint64_t *state)
{
    const double u = ((double)(next_word(state) >> 11) + 0.5) / 9007199254740992.0;
    const double v = (double)(next_word(state) >> 11) / 9007199254740992.0;
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

void cli_fill_random(stator_tensor *tensor, uint64_t seed, uint32_t index)
{
    const DLTensor *view = stator_tensor_view(tensor);
    const stator_dtype dtype = stator_tensor_dtype(tensor);
    uint64_t state = seed * UINT64_C(0x2545f4914f6cdd1d) + index + 1u;
    uint64_t count = 0;
    if (!st_numel(view->shape, (uint32_t)view->ndim, &count)) {
        return;
    }
    const uint32_t class_ = st_dtype_class(dtype);
    for (uint64_t i = 0; i < count; i++) {
        if (class_ == STATOR_CLASS_FLOAT) {
            st_store_f64(dtype, view->data, (int64_t)i, next_normal(&state));
        } else if (class_ == STATOR_CLASS_COMPLEX) {
            const double pair[2] = {next_normal(&state), next_normal(&state)};
            st_store_c128(dtype, view->data, (int64_t)i, pair);
        } else {
            st_store_i64(dtype, view->data, (int64_t)i, (int64_t)(next_word(&state) & 1u));
        }
    }
}

/* ---- comparing ---- */

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
static void take_error(double abs_err, double y, double rtol, double atol, int close,
                       cli_difference *out)
{
    const double rel_err = abs_err / fabs(y);
    if (!(abs_err <= out->max_abs)) { /* NaN stays */
        out->max_abs = isnan(out->max_abs) ? out->max_abs : abs_err;
    }
    if (!(rel_err <= out->max_rel)) {
        out->max_rel = isnan(out->max_rel) ? out->max_rel : rel_err;
    }
    /* An infinity has no tolerance: rtol times it would allow everything. */
    const int is_near = isinf(y) ? 0 : close || abs_err <= atol + rtol * fabs(y);
    if (!is_near) {
        out->ok = 0;
        out->reason = "values";
    }
}

static void compare_element(double x, double y, double rtol, double atol, int close,
                            cli_difference *out)
{
    if ((isnan(x) && isnan(y)) || x == y) {
        return;
    }
    take_error(fabs(x - y), y, rtol, atol, close && isfinite(x) && isfinite(y), out);
}

/* Whole numbers past 2^53 differ although their doubles do not. */
static void compare_integer(int64_t x, int64_t y, int is_unsigned, double rtol, double atol,
                            cli_difference *out)
{
    const uint64_t a = (uint64_t)x;
    const uint64_t b = (uint64_t)y;
    if (a != b) {
        const int is_more = is_unsigned ? a > b : x > y;
        take_error((double)(is_more ? a - b : b - a), is_unsigned ? (double)b : (double)y, rtol,
                   atol, 0, out);
    }
}

static int same_layout(const DLTensor *got, const DLTensor *want, cli_difference *out)
{
    *out = (cli_difference){.ok = 1};
    if (memcmp(&got->dtype, &want->dtype, sizeof got->dtype) != 0) {
        out->reason = "dtype";
    } else if (got->ndim != want->ndim ||
               (got->ndim > 0 &&
                memcmp(got->shape, want->shape, (size_t)got->ndim * sizeof *got->shape) != 0)) {
        out->reason = "shape";
    }
    if (out->reason != NULL) {
        *out = (cli_difference){.max_abs = NAN, .max_rel = NAN, .reason = out->reason};
        return 0;
    }
    return 1;
}

/* The dtype of a DLPack type; ours have distinct spellings. */
static stator_dtype dtype_of(DLDataType type)
{
    static const struct {
        uint8_t code, bits;
        stator_dtype dtype;
    } rows[] = {{kDLBool, 8, STATOR_BOOL},
                {kDLInt, 4, STATOR_I4},
                {kDLUInt, 4, STATOR_U4},
                {kDLInt, 8, STATOR_I8},
                {kDLInt, 16, STATOR_I16},
                {kDLInt, 32, STATOR_I32},
                {kDLInt, 64, STATOR_I64},
                {kDLUInt, 8, STATOR_U8},
                {kDLUInt, 16, STATOR_U16},
                {kDLUInt, 32, STATOR_U32},
                {kDLUInt, 64, STATOR_U64},
                {kDLFloat8_e4m3fn, 8, STATOR_F8E4M3FN},
                {kDLFloat8_e5m2, 8, STATOR_F8E5M2},
                {kDLBfloat, 16, STATOR_BF16},
                {kDLFloat, 16, STATOR_F16},
                {kDLFloat, 32, STATOR_F32},
                {kDLFloat, 64, STATOR_F64},
                {kDLComplex, 64, STATOR_C64},
                {kDLComplex, 128, STATOR_C128}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].code == type.code && rows[i].bits == type.bits) {
            return rows[i].dtype;
        }
    }
    return STATOR_DTYPE_NONE;
}

void cli_compare(const DLTensor *got, const DLTensor *want, double rtol, double atol,
                 cli_difference *out)
{
    uint64_t count = 0;
    if (!same_layout(got, want, out) || !st_numel(want->shape, (uint32_t)want->ndim, &count)) {
        return;
    }
    const stator_dtype dtype = dtype_of(want->dtype);
    const void *a = (const char *)got->data + got->byte_offset;
    const void *b = (const char *)want->data + want->byte_offset;
    const uint32_t class_ = st_dtype_class(dtype);
    for (int64_t i = 0; i < (int64_t)count; i++) {
        if (class_ == STATOR_CLASS_COMPLEX) {
            double x[2];
            double y[2];
            st_load_c128(dtype, a, i, x);
            st_load_c128(dtype, b, i, y);
            compare_element(x[0], y[0], rtol, atol, 0, out);
            compare_element(x[1], y[1], rtol, atol, 0, out);
        } else if (class_ == STATOR_CLASS_FLOAT) {
            const int close = dtype == STATOR_BF16 && bf16_ulps(a, b, i) <= 2;
            compare_element(st_load_f64(dtype, a, i), st_load_f64(dtype, b, i), rtol, atol, close,
                            out);
        } else {
            compare_integer(st_load_i64(dtype, a, i), st_load_i64(dtype, b, i),
                            class_ == STATOR_CLASS_UINT, rtol, atol, out);
        }
    }
}

void cli_json_difference(cJSON *row, const cli_difference *difference)
{
    cJSON_AddItemToObject(row, "max_abs_err", cli_json_number(difference->max_abs));
    cJSON_AddItemToObject(row, "max_rel_err", cli_json_number(difference->max_rel));
    cJSON_AddBoolToObject(row, "ok", difference->ok);
}
