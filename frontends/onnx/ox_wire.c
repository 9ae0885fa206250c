/* Cutting large raw_data out of a model; see ox_wire.h.
 *
 *   in    tag len [ ... tag(raw_data) len <4 MiB> ... ]
 *   out   tag len5[ ... tag(raw_data) len5 01 index4 ... ]      ranges[index] = {offset, 4 MiB} */
#include "frontends/onnx/ox_wire.h"

#include <string.h>

#define MARK_INLINE 0u
#define MARK_CUT 1u
#define LEN5 5u

static const char OUT_OF_MEMORY[] = "out of memory";

static bool read_varint(const uint8_t *bytes, uint64_t *pos, uint64_t end, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && *pos < end; shift += 7) {
        const uint8_t byte = bytes[(*pos)++];
        value |= shift < 64 ? (uint64_t)(byte & 0x7fu) << shift : 0;
        if (!(byte & 0x80u)) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* Moves past the payload of a field that is not length-delimited. */
static const char *skip_scalar(const uint8_t *bytes, uint64_t *pos, uint32_t wire_type,
                               uint64_t end)
{
    uint64_t ignored;
    switch (wire_type) {
    case OX_WIRE_VARINT:
        return read_varint(bytes, pos, end, &ignored) ? NULL
                                                      : "a number runs past the end of its message";
    case OX_WIRE_I64:
    case OX_WIRE_I32: {
        const uint64_t size = wire_type == OX_WIRE_I64 ? 8 : 4;
        if (end - *pos < size) {
            return "a number runs past the end of its message";
        }
        *pos += size;
        return NULL;
    }
    default:
        return "a field has a wire type that ONNX does not use";
    }
}

const char *ox_wire_next(const uint8_t *bytes, uint64_t *pos, uint64_t end, ox_field *out)
{
    uint64_t tag, size;
    *out = (ox_field){.tag_at = *pos};
    if (!read_varint(bytes, pos, end, &tag)) {
        return "a field tag is cut off";
    }
    if (tag >> 3 == 0 || tag >> 3 > 0x1fffffffu) {
        return "a field number is out of range";
    }
    out->number = (uint32_t)(tag >> 3);
    out->wire_type = (uint32_t)(tag & 7u);
    out->payload = *pos;
    if (out->wire_type != OX_WIRE_LEN) {
        const char *problem = skip_scalar(bytes, pos, out->wire_type, end);
        out->end = *pos;
        return problem;
    }
    if (!read_varint(bytes, pos, end, &size) || size > end - *pos) {
        return "a length runs past the end of its message (is the file cut off?)";
    }
    out->payload = *pos;
    *pos += size;
    out->end = *pos;
    return NULL;
}

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

uint32_t ox_wire_varint(uint64_t value, uint8_t *out)
{
    uint32_t n = 0;
    for (; value > 0x7fu; value >>= 7) {
        out[n++] = (uint8_t)(value | 0x80u);
    }
    out[n++] = (uint8_t)value;
    return n;
}

static void write_len5(uint8_t at[LEN5], uint64_t value)
{
    for (unsigned i = 0; i < LEN5; i++) {
        at[i] = (uint8_t)((value & 0x7fu) | (i + 1u < LEN5 ? 0x80u : 0u));
        value >>= 7;
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

static const char *walk_field(walker *w, const ProtobufCMessageDescriptor *desc, const ox_field *f,
                              uint32_t depth)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(desc, f->number);
    if (field == NULL) {
        return NULL;
    }
    const bool is_message = field->type == PROTOBUF_C_TYPE_MESSAGE;
    const bool is_delimited =
        is_message || field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES;
    if (f->wire_type != OX_WIRE_LEN && is_delimited) {
        return "a field does not have the type that ONNX gives it";
    }
    const bool is_raw = desc == w->tensor && field->id == w->raw_data_field;
    if (!is_raw && !is_message) {
        return emit(w, w->bytes + f->tag_at, f->end - f->tag_at);
    }
    uint8_t tag[5];
    const char *problem = emit(w, tag, ox_wire_varint(f->number << 3 | OX_WIRE_LEN, tag));
    if (problem != NULL) {
        return problem;
    }
    w->pos = f->payload;
    return is_raw ? emit_raw(w, f->end - f->payload)
                  : emit_message(w, field->descriptor, f->end - f->payload, depth);
}

static const char *walk(walker *w, const ProtobufCMessageDescriptor *desc, uint64_t end,
                        uint32_t depth)
{
    if (depth > OX_WIRE_DEPTH_MAX) {
        return "messages are nested too deeply";
    }
    while (w->pos < end) {
        ox_field field;
        const char *problem = ox_wire_next(w->bytes, &w->pos, end, &field);
        problem = problem != NULL ? problem : walk_field(w, desc, &field, depth);
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
