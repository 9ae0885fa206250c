/* Cutting large raw_data out of a model; see ox_wire.h.
 *
 *   in    tag len [ ... tag(raw_data) len <4 MiB> ... ]
 *   out   tag len5[ ... tag(raw_data) len5 01 index4 ... ]      ranges[index] = {offset, 4 MiB} */
#include "frontends/onnx/ox_wire.h"

#include <string.h>

enum { WIRE_VARINT = 0, WIRE_I64 = 1, WIRE_LEN = 2, WIRE_I32 = 5 };

#define MARK_INLINE 0u
#define MARK_CUT 1u
#define LEN5 5u

static const char OUT_OF_MEMORY[] = "out of memory";

typedef struct walker {
    st_mem *mem;
    const uint8_t *bytes;
    uint64_t pos;
    const ProtobufCMessageDescriptor *tensor;
    uint32_t raw_data_field;
    ox_wire *out;
} walker;

static bool reserve(walker *w, uint64_t more)
{
    ox_wire *out = w->out;
    if (more <= out->capacity - out->size) {
        return true;
    }
    uint64_t need = out->size + more; /* both below 2^32, see emit */
    uint64_t capacity = out->capacity + out->capacity / 2u;
    capacity = capacity < need ? need + 1024u : capacity;
    uint8_t *data = st_realloc(w->mem, out->data, capacity, 16);
    if (data == NULL) {
        return false;
    }
    out->data = data;
    out->capacity = capacity;
    return true;
}

static const char *emit(walker *w, const uint8_t *from, uint64_t size)
{
    if (size > INT32_MAX || w->out->size > INT32_MAX - size) {
        return "more than 2 GiB remain besides raw tensor data";
    }
    if (!reserve(w, size)) {
        return OUT_OF_MEMORY;
    }
    memcpy(w->out->data + w->out->size, from, size);
    w->out->size += size;
    return NULL;
}

static void write_len5(uint8_t at[LEN5], uint64_t value)
{
    for (unsigned i = 0; i < LEN5; i++) {
        at[i] = (uint8_t)((value & 0x7fu) | (i + 1u < LEN5 ? 0x80u : 0u));
        value >>= 7;
    }
}

static bool read_varint(walker *w, uint64_t end, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && w->pos < end; shift += 7) {
        const uint8_t byte = w->bytes[w->pos++];
        value |= shift < 64 ? (uint64_t)(byte & 0x7fu) << shift : 0;
        if (!(byte & 0x80u)) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* Moves past the payload of a field that is not length-delimited. */
static const char *skip_scalar(walker *w, uint32_t wire_type, uint64_t end)
{
    uint64_t ignored;
    const uint64_t left = end - w->pos;
    switch (wire_type) {
    case WIRE_VARINT:
        return read_varint(w, end, &ignored) ? NULL : "a number runs past the end of its message";
    case WIRE_I64:
    case WIRE_I32: {
        const uint64_t size = wire_type == WIRE_I64 ? 8 : 4;
        if (left < size) {
            return "a number runs past the end of its message";
        }
        w->pos += size;
        return NULL;
    }
    default:
        return "a field has a wire type that ONNX does not use";
    }
}

static const char *emit_raw(walker *w, uint64_t size)
{
    uint8_t head[LEN5 + 5u];
    const uint64_t at = w->pos;
    w->pos += size;
    if (size <= OX_WIRE_CUT_ABOVE) {
        write_len5(head, size + 1u);
        head[LEN5] = MARK_INLINE;
        const char *problem = emit(w, head, LEN5 + 1u);
        return problem ? problem : emit(w, w->bytes + at, size);
    }
    const uint32_t index = w->out->ranges.count;
    ox_cut *range = st_vec_push(w->mem, &w->out->ranges);
    if (range == NULL) {
        return OUT_OF_MEMORY;
    }
    *range = (ox_cut){at, size};
    write_len5(head, 5);
    head[LEN5] = MARK_CUT;
    for (unsigned i = 0; i < 4; i++) {
        head[LEN5 + 1u + i] = (uint8_t)(index >> (8u * i));
    }
    return emit(w, head, sizeof head);
}

static const char *walk(walker *w, const ProtobufCMessageDescriptor *desc, uint64_t end,
                        uint32_t depth);

static const char *emit_message(walker *w, const ProtobufCMessageDescriptor *desc, uint64_t size,
                                uint32_t depth)
{
    static const uint8_t zeros[LEN5] = {0};
    const uint64_t at = w->out->size;
    const char *problem = emit(w, zeros, LEN5);
    if (problem == NULL) {
        problem = walk(w, desc, w->pos + size, depth + 1u);
    }
    if (problem == NULL) {
        write_len5(w->out->data + at, w->out->size - at - LEN5);
    }
    return problem;
}

/* One field: the tag begins at tag_at, the payload at w->pos. */
static const char *walk_field(walker *w, const ProtobufCMessageDescriptor *desc, uint64_t tag,
                              uint64_t tag_at, uint64_t end, uint32_t depth)
{
    const uint64_t payload = w->pos;
    const uint32_t wire_type = (uint32_t)(tag & 7u);
    if (tag >> 3 == 0 || tag >> 3 > 0x1fffffffu) {
        return "a field number is out of range";
    }
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(desc, (unsigned)(tag >> 3));
    if (wire_type != WIRE_LEN) {
        if (field != NULL &&
            (field->type == PROTOBUF_C_TYPE_MESSAGE || field->type == PROTOBUF_C_TYPE_STRING ||
             field->type == PROTOBUF_C_TYPE_BYTES)) {
            return "a field does not have the type that ONNX gives it";
        }
        const char *problem = skip_scalar(w, wire_type, end);
        return problem || field == NULL ? problem : emit(w, w->bytes + tag_at, w->pos - tag_at);
    }
    uint64_t size;
    if (!read_varint(w, end, &size) || size > end - w->pos) {
        return "a length runs past the end of its message (is the file cut off?)";
    }
    if (field == NULL) {
        w->pos += size;
        return NULL;
    }
    const bool is_raw = desc == w->tensor && field->id == w->raw_data_field;
    if (!is_raw && field->type != PROTOBUF_C_TYPE_MESSAGE) {
        w->pos += size;
        return emit(w, w->bytes + tag_at, w->pos - tag_at);
    }
    const char *problem = emit(w, w->bytes + tag_at, payload - tag_at);
    if (problem != NULL) {
        return problem;
    }
    return is_raw ? emit_raw(w, size) : emit_message(w, field->descriptor, size, depth);
}

static const char *walk(walker *w, const ProtobufCMessageDescriptor *desc, uint64_t end,
                        uint32_t depth)
{
    if (depth > OX_WIRE_DEPTH_MAX) {
        return "messages are nested too deeply";
    }
    while (w->pos < end) {
        const uint64_t tag_at = w->pos;
        uint64_t tag;
        if (!read_varint(w, end, &tag)) {
            return "a field tag is cut off";
        }
        const char *problem = walk_field(w, desc, tag, tag_at, end, depth);
        if (problem != NULL) {
            return problem;
        }
    }
    return NULL;
}

const char *ox_wire_reduce(st_mem *mem, const uint8_t *bytes, uint64_t size,
                           const ox_wire_schema *schema, ox_wire *out, uint64_t *out_at)
{
    memset(out, 0, sizeof *out);
    walker w = {mem, bytes, 0, schema->tensor, schema->raw_data_field, out};
    const char *problem = walk(&w, schema->root, size, 0);
    *out_at = w.pos;
    return problem;
}

void ox_wire_deinit(ox_wire *wire, st_mem *mem)
{
    st_free(mem, wire->data);
    st_vec_free(mem, &wire->ranges);
    memset(wire, 0, sizeof *wire);
}

ox_mark ox_wire_mark(const ox_wire *wire, const uint8_t *data, uint64_t size, uint32_t *out_index,
                     const uint8_t **out_bytes, uint64_t *out_size)
{
    if (size >= 1 && data[0] == MARK_INLINE) {
        *out_bytes = data + 1;
        *out_size = size - 1u;
        return OX_MARK_INLINE;
    }
    if (size != 5 || data[0] != MARK_CUT) {
        return OX_MARK_BAD;
    }
    *out_index = (uint32_t)data[1] | (uint32_t)data[2] << 8 | (uint32_t)data[3] << 16 |
                 (uint32_t)data[4] << 24;
    return *out_index < wire->ranges.count ? OX_MARK_CUT : OX_MARK_BAD;
}
