/* TensorProto files (ONNX test data), through protobuf-c: input_I.pb and output_I.pb of a data set.
 */
#define _GNU_SOURCE
#include "tools/cli/cli_npy.h"

#include "core/base/check.h"
#include "core/base/convert.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define ERROR_SIZE 512u

#if ST_HAVE_PROTOBUFC
#include "onnx.pb-c.h"

/* TensorProto.DataType numbers are frozen by the ONNX specification. */
static const stator_dtype dtypes[] = {
    [1] = STATOR_F32,     [2] = STATOR_U8,    [3] = STATOR_I8,    [4] = STATOR_U16,
    [5] = STATOR_I16,     [6] = STATOR_I32,   [7] = STATOR_I64,   [9] = STATOR_BOOL,
    [10] = STATOR_F16,    [11] = STATOR_F64,  [12] = STATOR_U32,  [13] = STATOR_U64,
    [14] = STATOR_C64,    [15] = STATOR_C128, [16] = STATOR_BF16, [17] = STATOR_F8E4M3FN,
    [19] = STATOR_F8E5M2, [21] = STATOR_U4,   [22] = STATOR_I4};

static bool fill_typed(const Onnx__TensorProto *p, stator_dtype dtype, uint64_t count, void *data,
                       char *errbuf)
{
    const uint32_t class_ = st_dtype_class(dtype);
    const uint64_t parts = class_ == STATOR_CLASS_COMPLEX ? 2 : 1;
    const bool in_f32 = dtype == STATOR_F32 || dtype == STATOR_C64;
    const bool in_f64 = dtype == STATOR_F64 || dtype == STATOR_C128;
    const bool in_u64 = dtype == STATOR_U32 || dtype == STATOR_U64;
    const bool in_i64 = dtype == STATOR_I64;
    const uint64_t packed = st_dtype_bits(dtype) == 4 ? (count + 1u) / 2u : count;
    const uint64_t have = in_f32   ? p->n_float_data
                          : in_f64 ? p->n_double_data
                          : in_u64 ? p->n_uint64_data
                          : in_i64 ? p->n_int64_data
                                   : p->n_int32_data;
    if (have != packed * parts) {
        (void)snprintf(errbuf, ERROR_SIZE, "the tensor has %llu elements, its data %llu",
                       (unsigned long long)count, (unsigned long long)have);
        return false;
    }
    for (uint64_t i = 0; i < packed * parts; i++) {
        if (in_f32) {
            ((float *)data)[i] = p->float_data[i];
        } else if (in_f64) {
            ((double *)data)[i] = p->double_data[i];
        } else if (in_i64) {
            ((int64_t *)data)[i] = p->int64_data[i];
        } else if (in_u64) {
            st_store_i64(dtype, data, (int64_t)i, (int64_t)p->uint64_data[i]);
        } else if (st_dtype_bits(dtype) == 16) {
            ((uint16_t *)data)[i] = (uint16_t)p->int32_data[i];
        } else if (st_dtype_bits(dtype) <= 8) {
            ((uint8_t *)data)[i] = (uint8_t)p->int32_data[i];
        } else {
            ((int32_t *)data)[i] = p->int32_data[i];
        }
    }
    return true;
}

static bool convert(stator_ctx *ctx, const Onnx__TensorProto *p, stator_tensor **out_tensor,
                    char *errbuf)
{
    const uint32_t type = (uint32_t)p->data_type;
    const stator_dtype dtype = type < sizeof dtypes / sizeof dtypes[0] ? dtypes[type] : 0;
    if (dtype == 0) {
        (void)snprintf(errbuf, ERROR_SIZE, "data type %u of TensorProto is not supported", type);
        return false;
    }
    uint64_t count = 0;
    uint64_t bytes = 0;
    if (p->n_dims > STATOR_RANK_MAX || !st_numel(p->dims, (uint32_t)p->n_dims, &count) ||
        !st_dtype_bytes(dtype, count, &bytes)) {
        (void)snprintf(errbuf, ERROR_SIZE, "the tensor's sizes are negative or too large");
        return false;
    }
    if (p->has_raw_data && p->raw_data.len != bytes) {
        (void)snprintf(errbuf, ERROR_SIZE, "the tensor has %llu bytes, its shape needs %llu",
                       (unsigned long long)p->raw_data.len, (unsigned long long)bytes);
        return false;
    }
    const uint64_t file_elements =
        p->n_float_data + p->n_double_data + p->n_int64_data + p->n_uint64_data + p->n_int32_data;
    if (!p->has_raw_data && count > 2 * file_elements) {
        (void)snprintf(errbuf, ERROR_SIZE, "the tensor's data is missing");
        return false;
    }
    if (stator_tensor_create(ctx, dtype, (uint32_t)p->n_dims, p->dims, out_tensor) != STATOR_OK) {
        (void)snprintf(errbuf, ERROR_SIZE, "%s", stator_ctx_error_text(ctx));
        return false;
    }
    if (!p->has_raw_data) {
        if (!fill_typed(p, dtype, count, stator_tensor_data(*out_tensor), errbuf)) {
            stator_tensor_release(*out_tensor);
            *out_tensor = NULL;
            return false;
        }
    } else if (bytes != 0) {
        memcpy(stator_tensor_data(*out_tensor), p->raw_data.data, bytes);
    }
    return true;
}

bool cli_parse_pb(stator_ctx *ctx, const void *bytes, uint64_t size, stator_tensor **out_tensor,
                  char *errbuf)
{
    *out_tensor = NULL;
    Onnx__TensorProto *p = onnx__tensor_proto__unpack(NULL, size, bytes);
    if (p == NULL) {
        (void)snprintf(errbuf, ERROR_SIZE, "not a readable TensorProto");
        return false;
    }
    const bool ok = convert(ctx, p, out_tensor, errbuf);
    onnx__tensor_proto__free_unpacked(p, NULL);
    return ok;
}

#else

bool cli_parse_pb(stator_ctx *ctx, const void *bytes, uint64_t size, stator_tensor **out_tensor,
                  char *errbuf)
{
    (void)ctx;
    (void)bytes;
    (void)size;
    *out_tensor = NULL;
    (void)snprintf(errbuf, ERROR_SIZE, "built without protobuf-c");
    return false;
}

#endif

bool cli_read_pb(stator_ctx *ctx, const char *path, stator_tensor **out_tensor, char *errbuf)
{
    void *bytes = NULL;
    uint64_t size = 0;
    *out_tensor = NULL;
    ST_NEED(cli_map_file(path, &bytes, &size, errbuf));
    const bool ok = cli_parse_pb(ctx, bytes, size, out_tensor, errbuf);
    cli_unmap_file(bytes, size);
    return ok;
}

/* ---- folders ---- */

static bool count_files(const char *dir, const char *prefix, uint32_t *out_count, char *errbuf)
{
    DIR *d = opendir(dir);
    if (d == NULL) {
        (void)snprintf(errbuf, ERROR_SIZE, "cannot open the folder '%s'", dir);
        return false;
    }
    const size_t len = strlen(prefix);
    uint32_t count = 0;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        char *end = NULL;
        if (strncmp(e->d_name, prefix, len) == 0 && e->d_name[len] == '_') {
            const unsigned long index = strtoul(e->d_name + len + 1, &end, 10);
            if (strcmp(end, ".pb") == 0 && index < 4096 && index >= count) {
                count = (uint32_t)index + 1u;
            }
        }
    }
    (void)closedir(d);
    *out_count = count;
    return true;
}

bool cli_read_pb_folder(stator_ctx *ctx, const char *dir, const char *prefix, cli_tensors *out,
                        char *errbuf)
{
    uint32_t count = 0;
    ST_NEED(count_files(dir, prefix, &count, errbuf));
    for (uint32_t i = 0; i < count; i++) {
        char path[4096];
        stator_tensor *tensor = NULL;
        (void)snprintf(path, sizeof path, "%s/%s_%u.pb", dir, prefix, i);
        char inner[ERROR_SIZE];
        if (!cli_read_pb(ctx, path, &tensor, inner)) {
            (void)snprintf(errbuf, ERROR_SIZE, "%s_%u.pb: %.400s", prefix, i, inner);
            return false;
        }
        if (!cli_tensors_add(out, NULL, tensor)) {
            (void)snprintf(errbuf, ERROR_SIZE, "out of memory");
            return false;
        }
    }
    return true;
}
