/* The wire-format walker: before protobuf-c sees a model, large raw_data is cut out of it.
 *
 * In: the bytes of a protobuf message and its descriptor. Out: a reduced message in which every
 * raw_data of a TensorProto, wherever one may stand (the descriptors say where), begins with a byte
 * of ours: 0 and then the data itself, or 1 and then a little-endian u32 index into `ranges`.
 * Unknown fields are dropped, so nothing in a file can pass for such a mark. Lengths of messages
 * are written as five-byte varints, so that the output is made in one pass. The input is not
 * trusted: nesting is bounded, every length is checked against its parent's end, groups are
 * refused. Source: protobuf.dev, "Encoding". */
#ifndef STATOR_FRONTEND_OX_WIRE_H
#define STATOR_FRONTEND_OX_WIRE_H

#include "core/base/alloc.h"
#include "core/base/vec.h"
#include <protobuf-c/protobuf-c.h>

#define OX_WIRE_CUT_ABOVE 4096u /* bytes of raw_data that stay inline */
#define OX_WIRE_DEPTH_MAX 128u  /* messages inside each other; one subgraph is three of them */

typedef struct ox_cut {
    uint64_t offset;
    uint64_t size_bytes;
} ox_cut;

typedef struct ox_wire {
    uint8_t *data;
    uint64_t size;
    uint64_t capacity;
    st_vec(ox_cut) ranges;
} ox_wire;

/* The protobuf type of the bytes, and the field that is cut out of them. */
typedef struct ox_wire_schema {
    const ProtobufCMessageDescriptor *root, *tensor;
    uint32_t raw_data_field; /* raw_data of a tensor */
} ox_wire_schema;

/* One field of a message: its tag, then its payload, which a length stands before or not. */
typedef struct ox_field {
    uint32_t number, wire_type;
    uint64_t tag_at, payload, end;
} ox_field;

enum { OX_WIRE_VARINT = 0, OX_WIRE_I64 = 1, OX_WIRE_LEN = 2, OX_WIRE_I32 = 5 };

/* Reads the field at *pos of a message that ends at `end`, and moves behind it. NULL, or what is
 * wrong at *pos. */
const char *ox_wire_next(const uint8_t *bytes, uint64_t *pos, uint64_t end, ox_field *out);
/* Writes a number in 1 to 10 bytes; how many. */
uint32_t ox_wire_varint(uint64_t value, uint8_t *out);
/* Fills *out (st_mem memory, free with ox_wire_deinit, also after a failure). Returns NULL, or what
 * is wrong with the bytes and where in *out_at; "out of memory" when that is it. */
const char *ox_wire_reduce(st_mem *mem, const uint8_t *bytes, uint64_t size,
                           const ox_wire_schema *schema, ox_wire *out, uint64_t *out_at);
void ox_wire_deinit(ox_wire *wire, st_mem *mem);
typedef enum ox_mark {
    OX_MARK_BAD,    /* not one that ox_wire_reduce writes */
    OX_MARK_INLINE, /* the bytes follow */
    OX_MARK_CUT,    /* the index of the range does */
} ox_mark;

/* Reads a marked raw_data: its index or its inline bytes. */
ox_mark ox_wire_mark(const ox_wire *wire, const uint8_t *data, uint64_t size, uint32_t *out_index,
                     const uint8_t **out_bytes, uint64_t *out_size);

#endif
