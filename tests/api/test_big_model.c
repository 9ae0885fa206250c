/* A model of 1 GiB loads under a heap limit of 256 MiB, its weight in the file and in another one:
 * load maps and does not copy. The files are sparse. Asked to copy, the load is refused with a
 * text. The limit is the context's and, without a sanitizer (whose shadow counts too), the
 * process's (RLIMIT_DATA: heap and private writable mappings). */
#define _GNU_SOURCE
#include "api_check.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define WEIGHT_SIDE UINT64_C(16384)
#define WEIGHT_BYTES (WEIGHT_SIDE * WEIGHT_SIDE * 4u) /* 1 GiB of f32 */
#define HEAP_LIMIT (UINT64_C(256) << 20)
#define LOAD_LIMIT (UINT64_C(32) << 20) /* far below: nothing of the weight's size may be held */

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1
#endif

/* ---- the wire format of onnx.proto ---- */

typedef struct bytes {
    uint8_t data[1024];
    size_t len;
} bytes;

static void add_varint(bytes *b, uint64_t value)
{
    for (; value > 127; value >>= 7) {
        b->data[b->len++] = (uint8_t)(value & 127) | 128;
    }
    b->data[b->len++] = (uint8_t)value;
    CHECK(b->len < sizeof b->data - 16);
}

static void add_number(bytes *b, uint32_t field, uint64_t value)
{
    add_varint(b, field << 3);
    add_varint(b, value);
}

static void add_begin(bytes *b, uint32_t field, uint64_t len)
{
    add_varint(b, field << 3 | 2);
    add_varint(b, len);
}

static void add_bytes(bytes *b, uint32_t field, const void *data, size_t len)
{
    add_begin(b, field, len);
    CHECK(b->len + len < sizeof b->data);
    memcpy(b->data + b->len, data, len);
    b->len += len;
}

static void add_text(bytes *b, uint32_t field, const char *text)
{
    add_bytes(b, field, text, strlen(text));
}

/* ValueInfoProto of f32[rows, columns]. */
static void add_value(bytes *b, uint32_t field, const char *name, uint64_t rows, uint64_t columns)
{
    const uint64_t sizes[2] = {rows, columns};
    bytes shape = {.len = 0}, tensor = {.len = 0}, type = {.len = 0}, value = {.len = 0};
    for (int i = 0; i < 2; i++) {
        bytes dim = {.len = 0};
        add_number(&dim, 1, sizes[i]);
        add_bytes(&shape, 1, dim.data, dim.len);
    }
    add_number(&tensor, 1, 1); /* FLOAT */
    add_bytes(&tensor, 2, shape.data, shape.len);
    add_bytes(&type, 1, tensor.data, tensor.len);
    add_text(&value, 1, name);
    add_bytes(&value, 2, type.data, type.len);
    add_bytes(b, field, value.data, value.len);
}

/* ---- the model: y = x * w ---- */

static void add_external(bytes *b, const char *key, const char *value)
{
    bytes entry = {.len = 0};
    add_text(&entry, 1, key);
    add_text(&entry, 2, value);
    add_bytes(b, 13, entry.data, entry.len);
}

/* TensorProto w up to the length of its raw_data; what follows are the data. */
static bytes weight_head(const char *location)
{
    bytes w = {.len = 0};
    add_number(&w, 1, WEIGHT_SIDE);
    add_number(&w, 1, WEIGHT_SIDE);
    add_number(&w, 2, 1);
    add_text(&w, 8, "w");
    if (location != NULL) {
        add_external(&w, "location", location);
        add_number(&w, 14, 1);
    } else {
        add_begin(&w, 9, WEIGHT_BYTES);
    }
    return w;
}

static bytes graph_head(void)
{
    bytes node = {.len = 0}, graph = {.len = 0};
    add_text(&node, 1, "x");
    add_text(&node, 1, "w");
    add_text(&node, 2, "y");
    add_text(&node, 3, "product");
    add_text(&node, 4, "MatMul");
    add_bytes(&graph, 1, node.data, node.len);
    add_text(&graph, 2, "big");
    add_value(&graph, 11, "x", 1, WEIGHT_SIDE);
    add_value(&graph, 12, "y", 1, WEIGHT_SIDE);
    return graph;
}

/* The whole model; the weight comes last, so that its data end the file. */
static bytes model_head(const char *location)
{
    const uint64_t data_bytes = location != NULL ? 0 : WEIGHT_BYTES;
    bytes opset = {.len = 0}, model = {.len = 0}, weight = weight_head(location);
    bytes graph = graph_head();
    add_begin(&graph, 5, weight.len + data_bytes);
    memcpy(graph.data + graph.len, weight.data, weight.len);
    graph.len += weight.len;
    add_number(&model, 1, 8);
    add_text(&opset, 1, "");
    add_number(&opset, 2, 17);
    add_bytes(&model, 8, opset.data, opset.len);
    add_begin(&model, 7, graph.len + data_bytes);
    memcpy(model.data + model.len, graph.data, graph.len);
    model.len += graph.len;
    return model;
}

static void write_sparse(const char *path, const bytes *head, uint64_t hole)
{
    const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    CHECK(fd >= 0);
    CHECK(write(fd, head->data, head->len) == (ssize_t)head->len);
    CHECK(ftruncate(fd, (off_t)(head->len + hole)) == 0);
    CHECK(close(fd) == 0);
}

/* ---- loading ---- */

static void check_weight(stator_ctx *ctx, const stator_model *model)
{
    const stator_host *host = stator_ctx_host(ctx);
    const stator_graph *graph = stator_model_graph(model);
    const stator_graph_view *v = host->ir->view(graph);
    uint32_t params = 0;
    for (stator_ref value = 1; value <= v->n_inputs; value++) {
        if ((stator_value_at(v, value)->flags & STATOR_VALUE_PARAM) != 0) {
            params++;
            CHECK(host->cst->of_value(graph, value) != NULL);
        }
    }
    CHECK(params == 1);
    CHECK(stator_model_input_count(model) == 1 && stator_model_output_count(model) == 1);
}

static void load(const char *path)
{
    const stator_ctx_options options = {
        .struct_size = sizeof options, .threads = 1, .memory_limit_bytes = HEAP_LIMIT};
    const stator_load_options copying = {.struct_size = sizeof copying, .flags = 1};
    stator_mem_stats stats = {.struct_size = sizeof stats};
    stator_ctx *ctx = NULL;
    stator_model *model = NULL;
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    CHECK_OK(ctx, stator_model_load(ctx, path, NULL, &model));
    check_weight(ctx, model);
    stator_function_destroy(compile_for(ctx, model, "eager"));
    stator_ctx_mem_stats(ctx, &stats);
    (void)printf("%s: %llu bytes of host memory at the most\n", path,
                 (unsigned long long)stats.peak_bytes);
    CHECK(stats.peak_bytes < LOAD_LIMIT);
    stator_model_destroy(model);
    CHECK(stator_model_load(ctx, path, &copying, &model) == STATOR_RESOURCE_EXHAUSTED);
    CHECK(model == NULL && stator_ctx_error_text(ctx)[0] != '\0');
    stator_ctx_destroy(ctx);
}

static void limit_heap(void)
{
#ifndef HAS_SANITIZER
    const struct rlimit limit = {.rlim_cur = HEAP_LIMIT, .rlim_max = HEAP_LIMIT};
    CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
    void *volatile block = malloc(HEAP_LIMIT);
    CHECK(block == NULL); /* the limit holds */
#endif
}

int main(void)
{
    char dir[] = ST_TEST_BUILD "/tests/big_model_XXXXXX";
    char path[3][sizeof dir + 16];
    const bytes embedded = model_head(NULL), external = model_head("w.bin"), none = {.len = 0};
    CHECK(mkdtemp(dir) != NULL);
    (void)snprintf(path[0], sizeof path[0], "%s/embedded.onnx", dir);
    (void)snprintf(path[1], sizeof path[1], "%s/external.onnx", dir);
    (void)snprintf(path[2], sizeof path[2], "%s/w.bin", dir);
    write_sparse(path[0], &embedded, WEIGHT_BYTES);
    write_sparse(path[1], &external, 0);
    write_sparse(path[2], &none, WEIGHT_BYTES);
    limit_heap();
    load(path[0]);
    load(path[1]);
    for (int i = 0; i < 3; i++) {
        CHECK(unlink(path[i]) == 0);
    }
    CHECK(rmdir(dir) == 0);
    return 0;
}
