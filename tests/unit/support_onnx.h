/* Writing ONNX files by hand, for tests of the onnx frontend: a protobuf writer that knows the
 * fields of a model. Everything is freed by onnx_free; a test that runs out of memory stops there.
 */
#ifndef STATOR_TEST_SUPPORT_ONNX_H
#define STATOR_TEST_SUPPORT_ONNX_H

#include <stddef.h>
#include <stdint.h>

typedef struct onnx_bytes {
    uint8_t *data;
    size_t size;
    size_t capacity;
} onnx_bytes;

enum { ONNX_FLOAT = 1, ONNX_INT64 = 7, ONNX_STRING = 8, ONNX_BOOL = 9 };

void onnx_raw(onnx_bytes *b, const void *data, size_t size);
void onnx_int(onnx_bytes *b, uint32_t field, int64_t value);
void onnx_text(onnx_bytes *b, uint32_t field, const char *text);
void onnx_blob(onnx_bytes *b, uint32_t field, const void *data, size_t size);
/* Appends `child` as a message field and frees it. */
void onnx_message(onnx_bytes *b, uint32_t field, onnx_bytes *child);
void onnx_free(onnx_bytes *b);

/* Pieces of a GraphProto `g`. Dims below 0 become the symbol "N". Lists are comma-separated. */
void onnx_input(onnx_bytes *g, const char *name, int type, int rank, const int64_t *dims);
void onnx_output(onnx_bytes *g, const char *name, int type);
void onnx_init(onnx_bytes *g, const char *name, int type, int rank, const int64_t *dims,
               const void *data, size_t size);
void onnx_node(onnx_bytes *g, const char *op, const char *inputs, const char *outputs,
               onnx_bytes *attributes);
/* Attributes, collected into a buffer that onnx_node takes over. */
void onnx_attr_int(onnx_bytes *a, const char *name, int64_t value);
void onnx_attr_ints(onnx_bytes *a, const char *name, int count, const int64_t *values);
void onnx_attr_graph(onnx_bytes *a, const char *name, onnx_bytes *graph);
void onnx_attr_ref(onnx_bytes *a, const char *name, const char *ref, int type);

/* The model of a graph (taken over); extra fields of ModelProto may be in `more` (may be NULL). */
onnx_bytes onnx_model(onnx_bytes *graph, int64_t opset, onnx_bytes *more);

#endif
