/* Lists of named tensors, random contents, comparing. See cli.h. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

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

stator_status cli_on_host(stator_ctx *ctx, stator_tensor *tensor, stator_tensor **out)
{
    const DLTensor *view = stator_tensor_view(tensor);
    *out = NULL;
    if (strcmp(stator_tensor_device(tensor), "cpu") == 0) {
        stator_tensor_retain(tensor);
        *out = tensor;
        return STATOR_OK;
    }
    stator_tensor *here = NULL;
    stator_status status = stator_tensor_create(ctx, stator_tensor_dtype(tensor),
                                                (uint32_t)view->ndim, view->shape, &here);
    ST_THEN(status, stator_tensor_copy(ctx, here, tensor));
    if (status != STATOR_OK) {
        stator_tensor_release(here);
        return status;
    }
    *out = here;
    return STATOR_OK;
}

bool cli_tensors_add(cli_tensors *list, const char *name, stator_tensor *tensor)
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
        return false;
    }
    list->names[list->count] = copy;
    list->tensors[list->count++] = tensor;
    return true;
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

void cli_json_difference(cJSON *row, const st_difference *difference)
{
    cJSON_AddItemToObject(row, "max_abs_err", cli_json_number(difference->max_abs));
    cJSON_AddItemToObject(row, "max_rel_err", cli_json_number(difference->max_rel));
    cJSON_AddBoolToObject(row, "ok", difference->ok);
    if (!difference->ok) { /* what differs: name (nothing expected is called so), dtype, ... */
        cJSON_AddStringToObject(row, "reason", difference->reason);
    }
    if (difference->detail[0] != '\0') {
        cJSON_AddStringToObject(row, "detail", difference->detail);
    }
}
