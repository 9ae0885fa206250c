/* A copy of an ONNX file with other values of initialisers.
 *
 * In: the bytes of a ModelProto, and values by name. Out: the same bytes but for TensorProtos that
 * change and the lengths of the messages around them:
 *
 *   initialiser w of the main graph   its fields, without its data, then raw_data of the value (a
 *                                     typed list becomes raw_data: the same elements)
 *   data in a file of its own         anywhere in the model: copied into the one file beside the
 *                                     copy, at multiples of 64 bytes, with its new place
 *
 * So fields that this Stator does not know stay, too. The copy is first a list of pieces, which are
 * ranges of the source, of the values and of a few bytes made here, since the length of a message
 * stands before it; then the pieces are appended. The source is not trusted: see ox_wire.h. */
#include "frontends/onnx/ox_rewrite.h"
#include "frontends/onnx/ox_import.h"

#include "core/base/check.h"
#include "core/base/map.h"
#include "core/base/str.h"
#include "core/base/vec.h"

#include <stdio.h>
#include <string.h>

#define DATA_ALIGN 64u

/* Fields of onnx.proto that are named here. */
enum {
    MODEL_GRAPH = 7,
    GRAPH_INITIALIZER = 5,
    TENSOR_FLOAT_DATA = 4,
    TENSOR_INT32_DATA = 5,
    TENSOR_STRING_DATA = 6,
    TENSOR_INT64_DATA = 7,
    TENSOR_RAW_DATA = 9,
    TENSOR_DOUBLE_DATA = 10,
    TENSOR_UINT64_DATA = 11,
    TENSOR_EXTERNAL_DATA = 13,
    TENSOR_DATA_LOCATION = 14,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2
};

typedef struct piece {
    const void *data;
    uint64_t size;
} piece;

typedef struct rewriter {
    ox_import im; /* memory and the failure */
    const stator_rewrite *to;
    const uint8_t *bytes;
    uint64_t pos;
    st_vec(piece) pieces;
    uint32_t floor;     /* pieces before this one stay as they are */
    uint32_t n_changes; /* tensors that the copy has otherwise */
    uint64_t size;      /* of all pieces */
    uint64_t data_size; /* of the file beside the copy */
    st_hashset names;
    uint8_t *is_written; /* by value */
} rewriter;

/* ---- pieces ---- */

static bool add_piece(rewriter *r, const void *data, uint64_t size)
{
    piece *last = r->pieces.count > r->floor ? &r->pieces.data[r->pieces.count - 1u] : NULL;
    r->size += size;
    if (last != NULL && (const uint8_t *)last->data + last->size == data) {
        last->size += size;
        return true;
    }
    piece *p = st_vec_push(&r->im.mem, &r->pieces);
    if (p == NULL) {
        ox_import_fail(&r->im, STATOR_RESOURCE_EXHAUSTED, "out of memory");
        return false;
    }
    *p = (piece){data, size};
    return true;
}

/* Bytes that are made here: copied. */
static bool add_bytes(rewriter *r, const void *data, uint64_t size)
{
    void *copy = st_arena_alloc(&r->im.arena, size + 1u, 1);
    if (copy == NULL) {
        ox_import_fail(&r->im, STATOR_RESOURCE_EXHAUSTED, "out of memory");
        return false;
    }
    memcpy(copy, data, size);
    return add_piece(r, copy, size);
}

/* The beginning of a length-delimited field. */
static bool add_head(rewriter *r, uint32_t number, uint64_t size)
{
    uint8_t head[20];
    uint32_t n = ox_wire_varint((uint64_t)number << 3 | OX_WIRE_LEN, head);
    n += ox_wire_varint(size, head + n);
    return add_bytes(r, head, n);
}

/* Puts the beginning of a field before what was added since there were `first` pieces. */
static bool put_head(rewriter *r, uint32_t number, uint32_t first, uint64_t size_before)
{
    r->floor = r->pieces.count; /* a piece of its own */
    ST_NEED(add_head(r, number, r->size - size_before));
    const piece head = r->pieces.data[r->pieces.count - 1u];
    memmove(&r->pieces.data[first + 1u], &r->pieces.data[first],
            (r->pieces.count - 1u - first) * sizeof head);
    r->pieces.data[first] = head;
    return true;
}

/* ---- tensors ---- */

static bool is_data(uint32_t number)
{
    switch (number) { /* where a tensor keeps its elements */
    case TENSOR_FLOAT_DATA:
    case TENSOR_INT32_DATA:
    case TENSOR_STRING_DATA:
    case TENSOR_INT64_DATA:
    case TENSOR_RAW_DATA:
    case TENSOR_DOUBLE_DATA:
    case TENSOR_UINT64_DATA:
        return true;
    default:
        return false;
    }
}

static bool fail_wire(rewriter *r, const char *problem)
{
    ox_import_fail(&r->im, STATOR_DATA_LOSS, "'%s' is not a whole ONNX file: at byte %llu %s",
                   r->im.file, (unsigned long long)r->pos, problem);
    return false;
}

/* The tensor without its elements, unpacked; NULL after failing. Its fields are those of `head`. */
static Onnx__TensorProto *read_head(rewriter *r, uint64_t end, ProtobufCAllocator *allocator)
{
    st_str head;
    st_str_init(&head, &r->im.mem);
    while (r->pos < end) {
        ox_field f;
        const char *problem = ox_wire_next(r->bytes, &r->pos, end, &f);
        if (problem != NULL) {
            st_str_deinit(&head);
            (void)fail_wire(r, problem);
            return NULL;
        }
        if (!is_data(f.number)) {
            st_str_addn(&head, (const char *)r->bytes + f.tag_at, f.end - f.tag_at);
        }
    }
    const bool is_whole = st_str_ok(&head);
    Onnx__TensorProto *t =
        is_whole ? onnx__tensor_proto__unpack(allocator, head.len,
                                              (const uint8_t *)(head.len != 0 ? head.data : ""))
                 : NULL;
    st_str_deinit(&head);
    if (t == NULL && (r->im.pb_refused || !is_whole)) {
        ox_import_fail(&r->im, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    } else if (t == NULL) {
        ox_import_fail(&r->im, STATOR_DATA_LOSS, "a tensor of '%s' cannot be read", r->im.file);
    }
    return t;
}

static bool same_name(void *self, uint32_t id)
{
    const void *const *query = self;
    const rewriter *r = query[0];
    return strcmp(r->to->names[id - 1u], query[1]) == 0;
}

/* The value of that name; NULL. */
static const DLTensor *find_value(rewriter *r, const char *name)
{
    const void *query[] = {r, name};
    const uint32_t id =
        st_hashset_find(&r->names, st_hash64(name, strlen(name), 0), same_name, (void *)query);
    if (id == 0) {
        return NULL;
    }
    r->is_written[id - 1u] = 1;
    return &r->to->values[id - 1u];
}

static bool check_value(rewriter *r, const Onnx__TensorProto *t, const DLTensor *value,
                        uint64_t *out_size)
{
    const char *type = NULL;
    const stator_dtype dtype = ox_import_dtype(t->data_type, &type);
    uint64_t count = 0;
    bool is_same = st_dtype_from_dl(value->dtype) == dtype && (size_t)value->ndim == t->n_dims;
    for (int32_t i = 0; is_same && i < value->ndim; i++) {
        is_same = value->shape[i] == t->dims[i];
    }
    if (!is_same || !st_numel(value->shape, (uint32_t)value->ndim, &count) ||
        !st_dtype_bytes(dtype, count, out_size)) {
        ox_import_fail(&r->im, STATOR_INVALID_ARGUMENT,
                       "initializer '%s' is of type %s in the file, and its value does not fit it",
                       ox_text(t->name), type);
        return false;
    }
    return true;
}

/* The fields of the tensor that say neither what nor where its elements are. */
static bool add_rest(rewriter *r, uint64_t begin, uint64_t end)
{
    r->pos = begin;
    while (r->pos < end) {
        ox_field f;
        const char *problem = ox_wire_next(r->bytes, &r->pos, end, &f);
        if (problem != NULL) {
            return fail_wire(r, problem);
        }
        if (!is_data(f.number) && f.number != TENSOR_EXTERNAL_DATA &&
            f.number != TENSOR_DATA_LOCATION) {
            ST_NEED(add_piece(r, r->bytes + f.tag_at, f.end - f.tag_at));
        }
    }
    return true;
}

static bool add_entry(rewriter *r, const char *key, const char *value)
{
    const uint32_t first = r->pieces.count;
    const uint64_t before = r->size;
    r->floor = first;
    ST_NEED(add_head(r, ENTRY_KEY, strlen(key)) && add_bytes(r, key, strlen(key)));
    ST_NEED(add_head(r, ENTRY_VALUE, strlen(value)) && add_bytes(r, value, strlen(value)));
    return put_head(r, TENSOR_EXTERNAL_DATA, first, before);
}

/* What fails here names the file that is written. */
static bool append(rewriter *r, uint32_t file, const void *data, uint64_t size)
{
    const stator_status status = r->to->append(r->to, file, data, size, &r->im.diag);
    r->im.status = r->im.status == STATOR_OK ? status : r->im.status;
    return status == STATOR_OK;
}

/* Elements into the file beside the copy, and their place into the tensor. */
static bool add_external(rewriter *r, const void *data, uint64_t size)
{
    static const uint8_t zeros[DATA_ALIGN] = {0};
    static const uint8_t location[] = {TENSOR_DATA_LOCATION << 3 | OX_WIRE_VARINT, 1};
    char offset[24], length[24];
    const uint64_t gap = (DATA_ALIGN - r->data_size % DATA_ALIGN) % DATA_ALIGN;
    ST_NEED(append(r, 1, zeros, gap) && append(r, 1, data, size));
    r->data_size += gap;
    (void)snprintf(offset, sizeof offset, "%llu", (unsigned long long)r->data_size);
    (void)snprintf(length, sizeof length, "%llu", (unsigned long long)size);
    r->data_size += size;
    return add_entry(r, "location", r->to->data_name) && add_entry(r, "offset", offset) &&
           add_entry(r, "length", length) && add_bytes(r, location, sizeof location);
}

/* The elements of a tensor whose value stays, from the file that they lie in. */
static bool move_external(rewriter *r, const Onnx__TensorProto *t)
{
    const stator_host *h = r->im.host;
    const char *type = NULL;
    stator_blob_info info = {.struct_size = sizeof info};
    stator_blob *blob = NULL;
    uint64_t count = 0, size = 0;
    if (!st_numel(t->dims, (uint32_t)t->n_dims, &count) ||
        !st_dtype_bytes(ox_import_dtype(t->data_type, &type), count, &size)) {
        ox_import_fail(&r->im, STATOR_UNIMPLEMENTED, "tensor '%s' of type %s cannot be copied",
                       ox_text(t->name), type);
        return false;
    }
    if (size == 0) {
        return add_external(r, "", 0);
    }
    ST_NEED(ox_external_read(&r->im, t, "tensor", size, &blob) == STATOR_OK);
    stator_status status = h->cst->peek(blob, &info, &r->im.emit_diag);
    const bool is_ok =
        ox_import_check(&r->im, status, ox_text(t->name)) && add_external(r, info.data, size);
    h->cst->release(blob);
    return is_ok;
}

/* Adds the tensor if it changes. */
static bool add_changed(rewriter *r, const Onnx__TensorProto *t, bool is_initializer,
                        uint64_t begin, uint64_t end)
{
    const DLTensor *value = is_initializer ? find_value(r, ox_text(t->name)) : NULL;
    const bool is_external =
        t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    uint64_t size = 0;
    if (value == NULL && !is_external) {
        return true;
    }
    r->n_changes++;
    ST_NEED(value == NULL || check_value(r, t, value, &size));
    ST_NEED(add_rest(r, begin, end));
    if (value == NULL) {
        return move_external(r, t);
    }
    const uint8_t *data = (const uint8_t *)value->data + value->byte_offset;
    return is_external ? add_external(r, data, size)
                       : add_head(r, TENSOR_RAW_DATA, size) && add_piece(r, data, size);
}

static bool rewrite_tensor(rewriter *r, bool is_initializer, uint64_t end)
{
    ProtobufCAllocator allocator = ox_import_allocator(&r->im);
    const uint64_t begin = r->pos;
    Onnx__TensorProto *t = read_head(r, end, &allocator);
    ST_NEED(t != NULL);
    const bool is_ok = add_changed(r, t, is_initializer, begin, end);
    onnx__tensor_proto__free_unpacked(t, &allocator);
    r->pos = end;
    return is_ok;
}

/* ---- messages ---- */

/* Where a message stands: initialisers of the main graph alone have names that are asked for. */
typedef enum place { PLACE_MODEL, PLACE_MAIN_GRAPH, PLACE_INSIDE } place;

static bool rewrite_message(rewriter *r, const ProtobufCMessageDescriptor *desc, place where,
                            uint64_t end, uint32_t depth);

/* Adds the field, which was read, as it is, or anew where something inside of it changes. */
static bool rewrite_field(rewriter *r, const ProtobufCMessageDescriptor *desc, place where,
                          const ox_field *f, uint32_t depth)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(desc, f->number);
    const uint32_t first = r->pieces.count, floor = r->floor, n_changes = r->n_changes;
    const uint64_t before = r->size;
    if (field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE && f->wire_type == OX_WIRE_LEN) {
        const ProtobufCMessageDescriptor *inner = field->descriptor;
        const bool is_main = where == PLACE_MODEL && f->number == MODEL_GRAPH;
        r->floor = first;
        r->pos = f->payload;
        ST_NEED(inner == &onnx__tensor_proto__descriptor
                    ? rewrite_tensor(r, where == PLACE_MAIN_GRAPH && f->number == GRAPH_INITIALIZER,
                                     f->end)
                    : rewrite_message(r, inner, is_main ? PLACE_MAIN_GRAPH : PLACE_INSIDE, f->end,
                                      depth + 1u));
        if (n_changes != r->n_changes) {
            ST_NEED(put_head(r, f->number, first, before));
            r->floor = floor;
            return true;
        }
    }
    r->floor = floor;
    r->pieces.count = first;
    r->size = before;
    return add_piece(r, r->bytes + f->tag_at, f->end - f->tag_at);
}

static bool rewrite_message(rewriter *r, const ProtobufCMessageDescriptor *desc, place where,
                            uint64_t end, uint32_t depth)
{
    if (depth > OX_WIRE_DEPTH_MAX) {
        return fail_wire(r, "messages are nested too deeply");
    }
    while (r->pos < end) {
        ox_field field;
        const char *problem = ox_wire_next(r->bytes, &r->pos, end, &field);
        if (problem != NULL) {
            return fail_wire(r, problem);
        }
        ST_NEED(rewrite_field(r, desc, where, &field, depth));
        r->pos = field.end;
    }
    return true;
}

/* ---- the whole ---- */

static bool index_names(rewriter *r)
{
    const stator_rewrite *to = r->to;
    bool is_ok = true;
    r->is_written = st_arena_zalloc(&r->im.arena, to->value_count + UINT64_C(1), 1);
    for (uint32_t k = 0; is_ok && k < to->value_count; k++) {
        is_ok = st_hashset_add(&r->names, st_hash64(to->names[k], strlen(to->names[k]), 0), k + 1u);
    }
    if (!is_ok || r->is_written == NULL) {
        ox_import_fail(&r->im, STATOR_RESOURCE_EXHAUSTED, "out of memory");
        return false;
    }
    return true;
}

static bool check_written(rewriter *r)
{
    for (uint32_t k = 0; k < r->to->value_count; k++) {
        if (!r->is_written[k]) {
            ox_import_fail(&r->im, STATOR_NOT_FOUND, "'%s' has no initializer '%s'", r->im.file,
                           r->to->names[k]);
            return false;
        }
    }
    if (r->size > INT32_MAX) {
        ox_import_fail(&r->im, STATOR_UNIMPLEMENTED, "the copy of '%s' would have more than 2 GiB",
                       r->im.file);
        return false;
    }
    return true;
}

static void write_copy(rewriter *r)
{
    bool is_ok = index_names(r) && rewrite_message(r, &onnx__model_proto__descriptor, PLACE_MODEL,
                                                   r->im.source->size, 0);
    is_ok = is_ok && check_written(r);
    for (uint32_t k = 0; is_ok && k < r->pieces.count; k++) {
        is_ok = append(r, 0, r->pieces.data[k].data, r->pieces.data[k].size);
    }
}

stator_status ox_rewrite_model(const stator_host *host, const stator_source *source,
                               const stator_rewrite *to, stator_diag **err)
{
    rewriter r = {.im = {.host = host, .source = source}, .to = to, .bytes = source->bytes};
    r.im.file = ox_last_part(source->path);
    st_mem_init_host(&r.im.mem, host, 0);
    st_mem_init_host(&r.im.pb_mem, host, 0);
    st_arena_init(&r.im.arena, &r.im.mem);
    st_hashset_init(&r.names, &r.im.mem);
    write_copy(&r);
    st_hashset_deinit(&r.names);
    st_vec_free(&r.im.mem, &r.pieces);
    st_arena_deinit(&r.im.arena);
    if (err != NULL && *err == NULL) {
        *err = r.im.diag;
    } else if (r.im.diag != NULL) {
        host->diag->release(r.im.diag);
    }
    return r.im.status;
}
