/* TensorProto to a type and contents.
 *
 * Contents come from raw_data (inline or a range of the file), from the typed lists, or from an
 * external file. Every size is checked against the shape before memory is asked for. */
#include "frontends/onnx/ox_import.h"

#include <string.h>

#define KEEP_BYTES 4096u /* constants up to this size can be read by the import */

typedef struct type_row {
    int64_t onnx;
    stator_dtype dtype; /* 0: Stator has none */
    const char *name;
} type_row;

static const type_row TYPES[] = {
    {1, STATOR_F32, "FLOAT"},
    {2, STATOR_U8, "UINT8"},
    {3, STATOR_I8, "INT8"},
    {4, STATOR_U16, "UINT16"},
    {5, STATOR_I16, "INT16"},
    {6, STATOR_I32, "INT32"},
    {7, STATOR_I64, "INT64"},
    {8, 0, "STRING"},
    {9, STATOR_BOOL, "BOOL"},
    {10, STATOR_F16, "FLOAT16"},
    {11, STATOR_F64, "DOUBLE"},
    {12, STATOR_U32, "UINT32"},
    {13, STATOR_U64, "UINT64"},
    {14, STATOR_C64, "COMPLEX64"},
    {15, STATOR_C128, "COMPLEX128"},
    {16, STATOR_BF16, "BFLOAT16"},
    {17, STATOR_F8E4M3FN, "FLOAT8E4M3FN"},
    {18, 0, "FLOAT8E4M3FNUZ"},
    {19, STATOR_F8E5M2, "FLOAT8E5M2"},
    {20, 0, "FLOAT8E5M2FNUZ"},
    {21, STATOR_U4, "UINT4"},
    {22, STATOR_I4, "INT4"},
    {23, 0, "FLOAT4E2M1"},
    {24, 0, "FLOAT8E8M0"},
    {25, 0, "UINT2"},
    {26, 0, "INT2"},
    {27, 0, "FLOAT6E2M3"},
    {28, 0, "FLOAT6E3M2"},
};

stator_dtype ox_import_dtype(int64_t onnx_type, const char **out_name)
{
    *out_name = onnx_type == 0 ? "UNDEFINED" : "unknown";
    for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++) {
        if (TYPES[i].onnx == onnx_type) {
            *out_name = TYPES[i].name;
            return TYPES[i].dtype;
        }
    }
    return 0;
}

/* Shape, dtype and size of the tensor into *out; no contents yet. */
static stator_status read_head(ox_import *im, const Onnx__TensorProto *t, const char *what,
                               ox_tensor_value *out)
{
    const char *type_name;
    out->dtype = ox_import_dtype(t->data_type, &type_name);
    OX_FAIL_IF(out->dtype == 0, im, STATOR_UNIMPLEMENTED,
               "%s '%s' has element type %s (%d), which Stator does not have", what,
               ox_text(t->name), type_name, t->data_type);
    OX_FAIL_IF(t->segment != NULL, im, STATOR_UNIMPLEMENTED, "%s '%s' is stored in segments", what,
               ox_text(t->name));
    OX_FAIL_IF(t->n_dims > STATOR_RANK_MAX, im, STATOR_INVALID_ARGUMENT,
               "%s '%s' has rank %zu, at most %u works", what, ox_text(t->name), t->n_dims,
               STATOR_RANK_MAX);
    static const int64_t no_dims[1] = {0};
    out->rank = (uint32_t)t->n_dims;
    out->dims = t->n_dims != 0 ? t->dims : no_dims;
    OX_FAIL_IF(!st_numel(out->dims, out->rank, &out->count) ||
                   !st_dtype_bytes(out->dtype, out->count, &out->size_bytes),
               im, STATOR_INVALID_ARGUMENT,
               "%s '%s' has a shape with a negative size or too many elements", what,
               ox_text(t->name));
    return STATOR_OK;
}

static stator_status wrong_size(ox_import *im, const Onnx__TensorProto *t, const char *what,
                                uint64_t has, uint64_t needs, const char *unit)
{
    return ox_import_fail(im, STATOR_DATA_LOSS, "%s '%s' holds %llu %s, its shape needs %llu", what,
                          ox_text(t->name), (unsigned long long)has, unit,
                          (unsigned long long)needs);
}

static stator_status read_raw(ox_import *im, const Onnx__TensorProto *t, const char *what,
                              bool want_bytes, ox_tensor_value *out)
{
    uint32_t index = 0;
    uint64_t size = 0;
    const uint8_t *bytes = NULL;
    const ox_mark mark =
        ox_wire_mark(&im->wire, t->raw_data.data, t->raw_data.len, &index, &bytes, &size);
    OX_FAIL_IF(mark == OX_MARK_BAD, im, STATOR_INTERNAL, "%s '%s' lost its data", what,
               ox_text(t->name));
    const ox_cut *range = mark == OX_MARK_CUT ? &im->wire.ranges.data[index] : NULL;
    size = range != NULL ? range->size_bytes : size;
    if (size != out->size_bytes) {
        return wrong_size(im, t, what, size, out->size_bytes, "bytes");
    }
    if (range == NULL) {
        out->bytes = bytes;
        return STATOR_OK;
    }
    if (want_bytes || im->source->path == NULL) {
        out->bytes = (const uint8_t *)im->source->bytes + range->offset;
        return STATOR_OK;
    }
    const stator_host *h = im->host;
    const stator_status status = h->cst->from_file(
        h->ctx, im->source->path, range->offset, range->size_bytes,
        (int32_t)(im->source->flags & STATOR_SOURCE_COPY), &out->blob, &im->emit_diag);
    return ox_import_check(im, status, ox_text(t->name)) ? STATOR_OK : im->status;
}

/* Elements of int32_data narrowed to the dtype's width (4-bit types: a packed byte each). */
static void narrow(const int32_t *from, uint64_t n, uint32_t bits, void *to)
{
    for (uint64_t i = 0; i < n; i++) {
        if (bits == 16) {
            ((uint16_t *)to)[i] = (uint16_t)from[i];
        } else {
            ((uint8_t *)to)[i] = (uint8_t)from[i];
        }
    }
}

static stator_status read_narrow(ox_import *im, const Onnx__TensorProto *t, const char *what,
                                 ox_tensor_value *out)
{
    const uint32_t bits = st_dtype_bits(out->dtype);
    const uint64_t needs = bits < 8 ? out->size_bytes : out->count;
    if (t->n_int32_data != needs) {
        return wrong_size(im, t, what, t->n_int32_data, needs, "elements");
    }
    void *copy = st_arena_alloc(&im->arena, out->size_bytes + 1u, 16);
    OX_FAIL_IF(copy == NULL, im, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    narrow(t->int32_data, needs, bits, copy);
    out->bytes = copy;
    return STATOR_OK;
}

static stator_status read_u32(ox_import *im, const Onnx__TensorProto *t, ox_tensor_value *out)
{
    uint32_t *copy = st_arena_alloc(&im->arena, out->size_bytes + 1u, 16);
    OX_FAIL_IF(copy == NULL, im, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    for (uint64_t i = 0; i < out->count; i++) {
        copy[i] = (uint32_t)t->uint64_data[i];
    }
    out->bytes = copy;
    return STATOR_OK;
}

static stator_status read_typed(ox_import *im, const Onnx__TensorProto *t, const char *what,
                                ox_tensor_value *out)
{
    uint64_t has;
    const void *list;
    uint64_t per_element = 1;
    switch (out->dtype) {
    case STATOR_C64:
        per_element = 2;
        has = t->n_float_data, list = t->float_data;
        break;
    case STATOR_F32:
        has = t->n_float_data, list = t->float_data;
        break;
    case STATOR_C128:
        per_element = 2;
        has = t->n_double_data, list = t->double_data;
        break;
    case STATOR_F64:
        has = t->n_double_data, list = t->double_data;
        break;
    case STATOR_I64:
        has = t->n_int64_data, list = t->int64_data;
        break;
    case STATOR_U32:
    case STATOR_U64:
        has = t->n_uint64_data, list = t->uint64_data;
        break;
    case STATOR_I32:
        has = t->n_int32_data, list = t->int32_data;
        break;
    default:
        return read_narrow(im, t, what, out);
    }
    if (has != out->count * per_element) { /* count is below 2^62 */
        return wrong_size(im, t, what, has, out->count * per_element, "elements");
    }
    if (out->dtype == STATOR_U32) {
        return read_u32(im, t, out);
    }
    out->bytes = list;
    return STATOR_OK;
}

stator_status ox_tensor_read(ox_import *im, const Onnx__TensorProto *t, const char *what,
                             bool want_bytes, ox_tensor_value *out)
{
    static const uint64_t nothing[2] = {0, 0};
    memset(out, 0, sizeof *out);
    if (im->status != STATOR_OK) {
        return im->status;
    }
    ST_TRY(read_head(im, t, what, out));
    if (t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) {
        if (out->size_bytes != 0) {
            return ox_external_read(im, t, what, out->size_bytes, &out->blob);
        }
    } else if (t->has_raw_data) {
        ST_TRY(read_raw(im, t, what, want_bytes, out));
    } else {
        ST_TRY(read_typed(im, t, what, out));
    }
    if (out->bytes == NULL && out->blob == NULL) {
        out->bytes = nothing; /* a tensor without elements */
    }
    return STATOR_OK;
}

stator_ref ox_tensor_type(ox_import *im, stator_builder *b, const ox_tensor_value *v)
{
    stator_ref dims[STATOR_RANK_MAX];
    for (uint32_t i = 0; i < v->rank; i++) {
        dims[i] = im->host->types->sym_int(b, v->dims[i]);
    }
    const stator_ref type = im->host->types->tensor(b, v->dtype, v->rank, dims);
    if (type == 0) {
        ox_import_fail(im, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    }
    return type;
}

static stator_ref make_constant(ox_import *im, ox_region *r, const ox_tensor_value *v,
                                const char *name)
{
    const stator_build_api *build = im->host->build;
    const stator_ref type = ox_tensor_type(im, r->b, v);
    stator_ref ref = 0;
    if (type == 0) {
        return 0;
    }
    const stator_status status =
        v->blob != NULL
            ? build->constant_blob(r->b, type, v->blob, &ref, &im->emit_diag)
            : build->constant(r->b, type, v->bytes, v->size_bytes, &ref, &im->emit_diag);
    return ox_import_check(im, status, name) ? ref : 0;
}

stator_ref ox_tensor_constant(ox_import *im, ox_region *r, const Onnx__TensorProto *t,
                              const char *what)
{
    ox_tensor_value v;
    if (ox_tensor_read(im, t, what, false, &v) != STATOR_OK) {
        return 0;
    }
    const stator_ref ref = make_constant(im, r, &v, ox_text(t->name));
    if (ref != 0 && v.size_bytes <= KEEP_BYTES) {
        stator_blob_info info = {.struct_size = sizeof info};
        if (v.blob != NULL && im->host->cst->get(v.blob, &info, NULL) == STATOR_OK) {
            v.bytes = info.data;
        }
        if (v.bytes != NULL) {
            ox_region_keep(im, r, ref, v.dtype, v.rank, v.dims, v.bytes, v.size_bytes);
        }
    }
    if (v.blob != NULL) {
        im->host->cst->release(v.blob);
    }
    return ref;
}

/* Linear position of entry i of a sparse tensor's indices; -1 when it lies outside. */
static int64_t sparse_position(const int64_t *index, uint64_t i, const ox_tensor_value *shape,
                               bool is_linear)
{
    if (is_linear) {
        return index[i] >= 0 && (uint64_t)index[i] < shape->count ? index[i] : -1;
    }
    int64_t at = 0;
    for (uint32_t d = 0; d < shape->rank; d++) {
        const int64_t k = index[i * shape->rank + d];
        if (k < 0 || k >= shape->dims[d]) {
            return -1;
        }
        at = at * shape->dims[d] + k;
    }
    return at;
}

#define SPARSE_BYTES_MAX (1u << 28)

/* Writes the values of a sparse tensor at their places in `dense`. */
static stator_status sparse_fill(ox_import *im, const Onnx__SparseTensorProto *t,
                                 const ox_tensor_value *shape, uint8_t *dense)
{
    ox_tensor_value values;
    ox_tensor_value index;
    ST_TRY(ox_tensor_read(im, t->values, "sparse tensor", true, &values));
    stator_status status = ox_tensor_read(im, t->indices, "sparse tensor", true, &index);
    const uint32_t width = st_dtype_bits(shape->dtype) / 8u;
    const bool is_linear = index.rank == 1;
    if (status == STATOR_OK &&
        (values.bytes == NULL || index.bytes == NULL || index.dtype != STATOR_I64 || width == 0 ||
         index.count != values.count * (is_linear ? 1u : shape->rank))) {
        status = ox_import_fail(im, STATOR_INVALID_ARGUMENT,
                                "sparse tensor '%s' has indices that do not fit its values",
                                ox_text(t->values->name));
    }
    for (uint64_t i = 0; status == STATOR_OK && i < values.count; i++) {
        int64_t own[STATOR_RANK_MAX];
        const uint32_t per = is_linear ? 1u : shape->rank;
        memcpy(own, (const uint8_t *)index.bytes + i * per * 8u, per * sizeof own[0]);
        const int64_t at = sparse_position(own, 0, shape, is_linear);
        if (at < 0) {
            status = ox_import_fail(im, STATOR_OUT_OF_RANGE,
                                    "sparse tensor '%s' has an index outside its shape",
                                    ox_text(t->values->name));
            break;
        }
        memcpy(dense + (uint64_t)at * width, (const uint8_t *)values.bytes + i * width, width);
    }
    if (values.blob != NULL) {
        im->host->cst->release(values.blob);
    }
    if (index.blob != NULL) {
        im->host->cst->release(index.blob);
    }
    return status;
}

stator_ref ox_sparse_constant(ox_import *im, ox_region *r, const Onnx__SparseTensorProto *t,
                              const char *what)
{
    ox_tensor_value shape = {0};
    const char *type_name;
    if (im->status != STATOR_OK) {
        return 0;
    }
    if (t->values == NULL || t->indices == NULL || t->n_dims > STATOR_RANK_MAX) {
        ox_import_fail(im, STATOR_INVALID_ARGUMENT, "%s: a sparse tensor is incomplete", what);
        return 0;
    }
    shape.dtype = ox_import_dtype(t->values->data_type, &type_name);
    shape.rank = (uint32_t)t->n_dims;
    shape.dims = t->dims;
    if (shape.dtype == 0 || !st_numel(shape.dims, shape.rank, &shape.count) ||
        !st_dtype_bytes(shape.dtype, shape.count, &shape.size_bytes) ||
        shape.size_bytes > SPARSE_BYTES_MAX) {
        ox_import_fail(im, STATOR_UNIMPLEMENTED,
                       "%s: a sparse tensor of type %s with this shape is not supported", what,
                       type_name);
        return 0;
    }
    uint8_t *dense = st_calloc(&im->mem, shape.size_bytes + 1u, 1);
    stator_ref ref = 0;
    if (dense == NULL) {
        ox_import_fail(im, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    } else if (sparse_fill(im, t, &shape, dense) == STATOR_OK) {
        shape.bytes = dense;
        ref = make_constant(im, r, &shape, what);
    }
    st_free(&im->mem, dense);
    return ref;
}
