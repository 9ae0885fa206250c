/* Checked sizes and the element-type tables, both made from the one list in <stator/dtype.def>. */
#include "core/base/check.h"

#include <stator/base.h>
#include <stdio.h>
#include <string.h>

typedef struct dtype_info {
    const char *name;
    uint32_t bits;
    uint32_t class_;
} dtype_info;

static const dtype_info dtypes[STATOR_DTYPE_COUNT] = {
#define STATOR_DTYPE(name, id, text, bits, class_) [id] = {text, bits, STATOR_CLASS_##class_},
#include <stator/dtype.def>
#undef STATOR_DTYPE
};

bool st_numel(const int64_t *dims, uint32_t rank, uint64_t *out)
{
    uint64_t n = 1;
    bool has_zero = false;
    *out = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 0) {
            return false;
        }
        has_zero |= dims[i] == 0;
    }
    for (uint32_t i = 0; i < rank && !has_zero; i++) {
        if (!st_mul_u64(n, (uint64_t)dims[i], &n) || n > (UINT64_C(1) << 62)) {
            return false;
        }
    }
    *out = has_zero ? 0 : n;
    return true;
}

uint32_t st_dtype_bits(uint32_t dtype)
{
    return dtype < STATOR_DTYPE_COUNT ? dtypes[dtype].bits : 0;
}

uint32_t st_element_bytes(uint32_t dtype)
{
    return (st_dtype_bits(dtype) + 7u) / 8u;
}

uint32_t st_dtype_class(uint32_t dtype)
{
    return dtype < STATOR_DTYPE_COUNT ? dtypes[dtype].class_ : 0;
}

const char *st_dtype_name(uint32_t dtype)
{
    return st_dtype_bits(dtype) != 0 ? dtypes[dtype].name : "?";
}

uint32_t st_dtype_parse(const char *s, uint64_t n)
{
    for (uint32_t i = 1; i < STATOR_DTYPE_COUNT; i++) {
        if (dtypes[i].name != NULL && strlen(dtypes[i].name) == n &&
            memcmp(dtypes[i].name, s, (size_t)n) == 0) {
            return i;
        }
    }
    return 0;
}

const char *st_shape_text(const int64_t *shape, uint32_t rank, char *buf, size_t size)
{
    size_t n = (size_t)snprintf(buf, size, "[");
    for (uint32_t a = 0; a < rank && n + 24 < size; a++) {
        n += (size_t)snprintf(buf + n, size - n, a ? ", %lld" : "%lld", (long long)shape[a]);
    }
    (void)snprintf(buf + n, size - n, "]");
    return buf;
}

bool st_dtype_bytes(uint32_t dtype, uint64_t count, uint64_t *out)
{
    const uint32_t bits = st_dtype_bits(dtype);
    *out = 0;
    if (bits == 0) {
        return false;
    }
    if (bits < 8) {
        const uint64_t per_byte = 8u / bits;
        *out = count / per_byte + (count % per_byte != 0);
        return true;
    }
    return st_mul_u64(count, bits / 8u, out);
}

DLDataType st_dtype_to_dl(uint32_t dtype)
{
    const uint8_t bits = (uint8_t)st_dtype_bits(dtype);
    uint8_t code = kDLOpaqueHandle;
    switch (st_dtype_class(dtype)) {
    case STATOR_CLASS_BOOL:
        code = kDLBool;
        break;
    case STATOR_CLASS_INT:
        code = kDLInt;
        break;
    case STATOR_CLASS_UINT:
        code = kDLUInt;
        break;
    case STATOR_CLASS_FLOAT:
        code = dtype == STATOR_BF16       ? kDLBfloat
               : dtype == STATOR_F8E4M3FN ? kDLFloat8_e4m3fn
               : dtype == STATOR_F8E5M2   ? kDLFloat8_e5m2
                                          : kDLFloat;
        break;
    case STATOR_CLASS_COMPLEX:
        code = kDLComplex;
        break;
    default:
        break;
    }
    return (DLDataType){.code = code, .bits = bits, .lanes = 1};
}

uint32_t st_dtype_from_dl(DLDataType type)
{
    for (uint32_t dtype = 1; dtype < STATOR_DTYPE_COUNT; dtype++) {
        const DLDataType mine = st_dtype_to_dl(dtype);
        if (mine.code == type.code && mine.bits == type.bits && type.lanes == 1) {
            return dtype;
        }
    }
    return STATOR_DTYPE_NONE;
}
