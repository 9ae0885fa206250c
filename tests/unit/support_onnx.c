/* See support_onnx.h. Field numbers are those of onnx.proto. */
#include "support_onnx.h"

#include <stdlib.h>
#include <string.h>

void onnx_raw(onnx_bytes *b, const void *data, size_t size)
{
    if (size > b->capacity - b->size) {
        b->capacity = (b->size + size) * 2u + 64u;
        b->data = realloc(b->data, b->capacity);
        if (b->data == NULL) {
            abort();
        }
    }
    if (size != 0) {
        memcpy(b->data + b->size, data, size);
    }
    b->size += size;
}

static void varint(onnx_bytes *b, uint64_t value)
{
    do {
        const uint8_t byte = (uint8_t)((value & 0x7fu) | (value > 0x7fu ? 0x80u : 0u));
        onnx_raw(b, &byte, 1);
        value >>= 7;
    } while (value != 0);
}

void onnx_int(onnx_bytes *b, uint32_t field, int64_t value)
{
    varint(b, (uint64_t)field << 3);
    varint(b, (uint64_t)value);
}

void onnx_blob(onnx_bytes *b, uint32_t field, const void *data, size_t size)
{
    varint(b, (uint64_t)field << 3 | 2u);
    varint(b, size);
    onnx_raw(b, data, size);
}

void onnx_text(onnx_bytes *b, uint32_t field, const char *text)
{
    onnx_blob(b, field, text, strlen(text));
}

void onnx_message(onnx_bytes *b, uint32_t field, onnx_bytes *child)
{
    onnx_blob(b, field, child->data, child->size);
    onnx_free(child);
}

void onnx_free(onnx_bytes *b)
{
    free(b->data);
    memset(b, 0, sizeof *b);
}

static void value_info(onnx_bytes *g, uint32_t field, const char *name, int type, int rank,
                       const int64_t *dims)
{
    onnx_bytes info = {0}, tensor = {0}, shape = {0}, outer = {0};
    for (int i = 0; i < rank; i++) {
        onnx_bytes dim = {0};
        if (dims[i] < 0) {
            onnx_text(&dim, 2, "N");
        } else {
            onnx_int(&dim, 1, dims[i]);
        }
        onnx_message(&shape, 1, &dim);
    }
    onnx_int(&tensor, 1, type);
    if (rank >= 0) {
        onnx_message(&tensor, 2, &shape);
    }
    onnx_message(&outer, 1, &tensor);
    onnx_text(&info, 1, name);
    onnx_message(&info, 2, &outer);
    onnx_message(g, field, &info);
}

void onnx_input(onnx_bytes *g, const char *name, int type, int rank, const int64_t *dims)
{
    value_info(g, 11, name, type, rank, dims);
}

void onnx_output(onnx_bytes *g, const char *name, int type)
{
    value_info(g, 12, name, type, -1, NULL);
}

void onnx_init(onnx_bytes *g, const char *name, int type, int rank, const int64_t *dims,
               const void *data, size_t size)
{
    onnx_bytes t = {0};
    for (int i = 0; i < rank; i++) {
        onnx_int(&t, 1, dims[i]);
    }
    onnx_int(&t, 2, type);
    onnx_text(&t, 8, name);
    if (data != NULL) {
        onnx_blob(&t, 9, data, size);
    }
    onnx_message(g, 5, &t);
}

static void names(onnx_bytes *b, uint32_t field, const char *list)
{
    while (*list != '\0') {
        const size_t n = strcspn(list, ",");
        onnx_blob(b, field, list, n);
        list += n;
        list += *list == ',';
    }
}

void onnx_node(onnx_bytes *g, const char *op, const char *inputs, const char *outputs,
               onnx_bytes *attributes)
{
    onnx_bytes n = {0};
    const char *dot = strrchr(op, '.');
    names(&n, 1, inputs);
    names(&n, 2, outputs);
    onnx_text(&n, 4, dot != NULL ? dot + 1 : op);
    if (dot != NULL) {
        onnx_blob(&n, 7, op, (size_t)(dot - op));
    }
    if (attributes != NULL) {
        onnx_raw(&n, attributes->data, attributes->size);
        onnx_free(attributes);
    }
    onnx_message(g, 1, &n);
}

void onnx_attr_int(onnx_bytes *a, const char *name, int64_t value)
{
    onnx_bytes b = {0};
    onnx_text(&b, 1, name);
    onnx_int(&b, 3, value);
    onnx_int(&b, 20, 2);
    onnx_message(a, 5, &b);
}

void onnx_attr_ints(onnx_bytes *a, const char *name, int count, const int64_t *values)
{
    onnx_bytes b = {0};
    onnx_text(&b, 1, name);
    for (int i = 0; i < count; i++) {
        onnx_int(&b, 8, values[i]);
    }
    onnx_int(&b, 20, 7);
    onnx_message(a, 5, &b);
}

void onnx_attr_graph(onnx_bytes *a, const char *name, onnx_bytes *graph)
{
    onnx_bytes b = {0};
    onnx_text(&b, 1, name);
    onnx_message(&b, 6, graph);
    onnx_int(&b, 20, 5);
    onnx_message(a, 5, &b);
}

void onnx_attr_ref(onnx_bytes *a, const char *name, const char *ref, int type)
{
    onnx_bytes b = {0};
    onnx_text(&b, 1, name);
    onnx_text(&b, 21, ref);
    onnx_int(&b, 20, type);
    onnx_message(a, 5, &b);
}

onnx_bytes onnx_model(onnx_bytes *graph, int64_t opset, onnx_bytes *more)
{
    onnx_bytes m = {0}, set = {0};
    onnx_int(&m, 1, 10);
    onnx_int(&set, 2, opset);
    onnx_message(&m, 8, &set);
    onnx_message(&m, 7, graph);
    if (more != NULL) {
        onnx_raw(&m, more->data, more->size);
        onnx_free(more);
    }
    return m;
}
