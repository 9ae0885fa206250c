/* The onnx frontend on models written by hand: what is refused and with which words, and what
 * large, external and shared pieces become. */
#define _GNU_SOURCE /* mkdtemp, symlink */
#include "support_onnx.h"
#include "support_run.h"

#include <criterion/criterion.h>
#include <stator/inspect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const int64_t TWO[1] = {2};

/* Loads the bytes (freed here); the status, with the error's text left in the context. */
static stator_status load(stator_ctx *ctx, onnx_bytes *m, stator_model **out)
{
    const stator_load_options options = {
        .struct_size = sizeof options, .frontend = "onnx", .flags = 1};
    const stator_status status =
        stator_model_load_bytes(ctx, m->data, m->size, "hand.onnx", &options, out);
    onnx_free(m);
    return status;
}

static void expect_refused(onnx_bytes *m, stator_status code, const char *const *words)
{
    stator_ctx *ctx = run_context();
    stator_model *model = NULL;
    const stator_status status = load(ctx, m, &model);
    const char *text = stator_ctx_error_text(ctx);
    cr_assert_eq(status, code, "status %d: %s", status, text);
    for (; *words != NULL; words++) {
        cr_assert_not_null(strstr(text, *words), "'%s' does not say '%s'", text, *words);
    }
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
}

static onnx_bytes graph_of_x(void)
{
    onnx_bytes g = {0};
    onnx_input(&g, "x", ONNX_FLOAT, 1, TWO);
    return g;
}

Test(onnx_load, unknown_operators_are_named_at_once)
{
    onnx_bytes g = graph_of_x();
    onnx_node(&g, "StringConcat", "x,x", "a", NULL);
    onnx_node(&g, "com.acme.Twist", "x", "b", NULL);
    onnx_node(&g, "com.acme.Twist", "b", "c", NULL);
    onnx_node(&g, "Swish", "c", "y", NULL);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_bytes m = onnx_model(&g, 13, NULL);
    expect_refused(&m, STATOR_UNIMPLEMENTED,
                   (const char *const[]){"3 operators", "StringConcat (1 node)",
                                         "com.acme.Twist (2 nodes)", "Swish",
                                         "since operator set 24", NULL});
}

/* What ONNX Runtime's optimizer and quantizer write has a hint. */
Test(onnx_load, operators_of_onnx_runtime_have_a_hint)
{
    onnx_bytes g = graph_of_x();
    onnx_node(&g, "com.microsoft.FastGelu", "x", "y", NULL);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_bytes m = onnx_model(&g, 13, NULL);
    stator_ctx *ctx = run_context();
    stator_model *model = NULL;
    cr_assert_eq(load(ctx, &m, &model), STATOR_UNIMPLEMENTED);
    const char *hint = stator_ctx_error_hint(ctx);
    cr_assert(hint != NULL && strstr(hint, "ONNX Runtime's own") != NULL, "%s", hint);
    stator_ctx_destroy(ctx);
}

Test(onnx_load, cycles_and_undefined_names)
{
    onnx_bytes g = graph_of_x();
    onnx_node(&g, "Add", "x,b", "a", NULL);
    onnx_node(&g, "Neg", "a", "b", NULL);
    onnx_output(&g, "b", ONNX_FLOAT);
    onnx_bytes m = onnx_model(&g, 13, NULL);
    expect_refused(&m, STATOR_INVALID_ARGUMENT,
                   (const char *const[]){"cycle", "'Add_a' (Add)", "'b'", NULL});
    g = graph_of_x();
    onnx_node(&g, "Neg", "a", "b", NULL);
    onnx_node(&g, "Abs", "x", "a", NULL);
    onnx_output(&g, "b", ONNX_FLOAT);
    m = onnx_model(&g, 13, NULL);
    expect_refused(&m, STATOR_INVALID_ARGUMENT,
                   (const char *const[]){"topological order", "'Neg_b' (Neg)", NULL});
    g = graph_of_x();
    onnx_node(&g, "Add", "x,nowhere", "b", NULL);
    onnx_output(&g, "b", ONNX_FLOAT);
    m = onnx_model(&g, 13, NULL);
    expect_refused(&m, STATOR_INVALID_ARGUMENT, (const char *const[]){"'nowhere'", NULL});
    g = graph_of_x();
    onnx_node(&g, "Neg", "x", "a", NULL);
    onnx_node(&g, "Abs", "x", "a", NULL);
    onnx_output(&g, "a", ONNX_FLOAT);
    m = onnx_model(&g, 13, NULL);
    expect_refused(&m, STATOR_INVALID_ARGUMENT, (const char *const[]){"already defined", NULL});
    g = graph_of_x();
    onnx_node(&g, "Neg", "x", "a", NULL);
    onnx_output(&g, "z", ONNX_FLOAT);
    m = onnx_model(&g, 13, NULL);
    expect_refused(&m, STATOR_INVALID_ARGUMENT, (const char *const[]){"output 'z'", NULL});
}

/* The program as .stir text; the caller frees it. */
static char *text_of(stator_ctx *ctx, const stator_model *model)
{
    char path[] = "/tmp/onnx_load_XXXXXX.stir";
    const int file = mkstemps(path, 5);
    cr_assert(file >= 0);
    close(file);
    cr_assert_eq(stator_x_model_write(model, path), STATOR_OK, "%s", stator_ctx_error_text(ctx));
    FILE *f = fopen(path, "rb");
    cr_assert_not_null(f);
    char *text = calloc(1, 1 << 16);
    cr_assert(text != NULL && fread(text, 1, (1 << 16) - 1, f) > 0);
    cr_assert_eq(fclose(f), 0);
    cr_assert_eq(unlink(path), 0);
    return text;
}

/* Exporters write ceil(N / 2.0) with the divisor an initialiser: the size follows from N. */
Test(onnx_load, sizes_pass_through_float_initialisers)
{
    const float half[1] = {2.0F};
    const float one[1] = {1.0F};
    onnx_bytes g = {0};
    onnx_bytes to_float = {0};
    onnx_bytes to_int = {0};
    onnx_attr_int(&to_float, "to", ONNX_FLOAT);
    onnx_attr_int(&to_int, "to", ONNX_INT64);
    onnx_input(&g, "x", ONNX_FLOAT, 1, (const int64_t[1]){-1});
    onnx_init(&g, "two", ONNX_FLOAT, 0, NULL, half, sizeof half);
    onnx_init(&g, "one", ONNX_FLOAT, 0, NULL, one, sizeof one);
    onnx_node(&g, "Shape", "x", "shape", NULL);
    onnx_node(&g, "Cast", "shape", "whole", &to_float);
    onnx_node(&g, "Div", "whole,two", "part", NULL);
    onnx_node(&g, "Ceil", "part", "up", NULL);
    onnx_node(&g, "Cast", "up", "size", &to_int);
    onnx_node(&g, "Expand", "one,size", "y", NULL);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_bytes m = onnx_model(&g, 13, NULL);
    stator_ctx *ctx = run_context();
    stator_model *model = NULL;
    cr_assert_eq(load(ctx, &m, &model), STATOR_OK, "%s", stator_ctx_error_text(ctx));
    char *text = text_of(ctx, model);
    cr_assert_not_null(strstr(text, "f32[floordiv(N + 1, 2)]"), "%s", text);
    cr_assert_null(strstr(text, "unbacked"), "%s", text);
    free(text);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
}

Test(onnx_load, mismatched_shapes_and_sizes_are_refused)
{
    const float values[2] = {1, 2};
    const int64_t three[1] = {3};
    const int64_t huge[3] = {1 << 30, 1 << 30, 1 << 30};
    const int64_t negative[1] = {-4};
    const int64_t *const dims[3] = {three, huge, negative};
    const int rank[3] = {1, 3, 1};
    const stator_status code[3] = {STATOR_DATA_LOSS, STATOR_INVALID_ARGUMENT,
                                   STATOR_INVALID_ARGUMENT};
    for (int i = 0; i < 3; i++) {
        onnx_bytes g = graph_of_x();
        onnx_init(&g, "w", ONNX_FLOAT, rank[i], dims[i], values, sizeof values);
        onnx_node(&g, "Add", "x,w", "y", NULL);
        onnx_output(&g, "y", ONNX_FLOAT);
        onnx_bytes m = onnx_model(&g, 13, NULL);
        expect_refused(&m, code[i], (const char *const[]){"'w'", NULL});
    }
    onnx_bytes g = graph_of_x();
    onnx_init(&g, "s", ONNX_STRING, 1, TWO, NULL, 0);
    onnx_node(&g, "Neg", "x", "y", NULL);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_bytes m = onnx_model(&g, 13, NULL);
    expect_refused(&m, STATOR_UNIMPLEMENTED, (const char *const[]){"'s'", "STRING", NULL});
    g = graph_of_x();
    onnx_init(&g, "w", ONNX_FLOAT, 1, three, (const float[3]){1, 2, 3}, 12);
    onnx_node(&g, "Add", "x,w", "y", NULL);
    onnx_output(&g, "y", ONNX_FLOAT);
    m = onnx_model(&g, 13, NULL);
    expect_refused(&m, STATOR_INVALID_ARGUMENT, (const char *const[]){"'Add_y' (Add)", NULL});
}

Test(onnx_load, wrong_attributes)
{
    onnx_bytes g = graph_of_x();
    onnx_bytes a = {0};
    onnx_attr_int(&a, "perm", 0);
    onnx_node(&g, "Transpose", "x", "y", &a);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_bytes m = onnx_model(&g, 13, NULL);
    expect_refused(
        &m, STATOR_INVALID_ARGUMENT,
        (const char *const[]){"'Transpose_y' (Transpose)", "'perm'", "list of integers", NULL});
    g = graph_of_x();
    onnx_node(&g, "Neg", "x", "y", NULL);
    onnx_output(&g, "y", ONNX_FLOAT);
    m = onnx_model(&g, 29, NULL);
    expect_refused(&m, STATOR_UNIMPLEMENTED, (const char *const[]){"29", "28", NULL});
}

/* A model with weights past the inline limit and a subgraph with one of its own. */
static onnx_bytes rich_model(void)
{
    static float big[2048];
    const int64_t dims[1] = {2048};
    onnx_bytes g = {0}, then_g = {0}, else_g = {0}, a = {0};
    for (int i = 0; i < 2048; i++) {
        big[i] = (float)i;
    }
    onnx_input(&g, "x", ONNX_FLOAT, 1, dims);
    onnx_input(&g, "c", ONNX_BOOL, 0, NULL);
    onnx_init(&g, "w", ONNX_FLOAT, 1, dims, big, sizeof big);
    onnx_init(&then_g, "k", ONNX_FLOAT, 1, dims, big, sizeof big);
    onnx_node(&then_g, "Add", "s,k", "t", NULL);
    onnx_output(&then_g, "t", ONNX_FLOAT);
    onnx_node(&else_g, "Neg", "s", "e", NULL);
    onnx_output(&else_g, "e", ONNX_FLOAT);
    onnx_attr_graph(&a, "then_branch", &then_g);
    onnx_attr_graph(&a, "else_branch", &else_g);
    onnx_node(&g, "Mul", "x,w", "s", NULL);
    onnx_node(&g, "If", "c", "y", &a);
    onnx_output(&g, "y", ONNX_FLOAT);
    return onnx_model(&g, 13, NULL);
}

static void check_rich(stator_ctx *ctx, stator_model *model)
{
    static float x[2048];
    const int64_t dims[1] = {2048};
    stator_function *fn = NULL;
    const stator_compile_options options = {.struct_size = sizeof options, .backend = "eager"};
    cr_assert_eq(stator_compile(model, &options, &fn), STATOR_OK, "%s", stator_ctx_error_text(ctx));
    for (int i = 0; i < 2048; i++) {
        x[i] = 2;
    }
    for (uint8_t c = 0; c < 2; c++) {
        stator_tensor *in[2] = {run_tensor(ctx, STATOR_F32, 1, dims, x),
                                run_tensor(ctx, STATOR_BOOL, 0, NULL, &c)};
        stator_tensor *out[1] = {NULL};
        cr_assert_eq(stator_call_tensors(fn, 2, in, 1, out), STATOR_OK, "%s",
                     stator_ctx_error_text(ctx));
        const float *y = stator_tensor_data(out[0]);
        for (int i = 0; i < 2048; i++) {
            cr_assert_float_eq(y[i], c ? 3.0f * (float)i : -2.0f * (float)i, 0);
        }
        stator_tensor_release(in[0]);
        stator_tensor_release(in[1]);
        stator_tensor_release(out[0]);
    }
    stator_function_destroy(fn);
}

Test(onnx_load, large_tensors_load_from_bytes_and_file)
{
    stator_ctx *ctx = run_context();
    stator_model *model = NULL;
    onnx_bytes m = rich_model();
    cr_assert_eq(load(ctx, &m, &model), STATOR_OK, "%s", stator_ctx_error_text(ctx));
    check_rich(ctx, model);
    stator_model_destroy(model);
    char path[] = "/tmp/stator-onnx-XXXXXX";
    const int fd = mkstemp(path);
    m = rich_model();
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, m.data, m.size), (ssize_t)m.size);
    onnx_free(&m);
    close(fd);
    const stator_load_options options = {.struct_size = sizeof options, .frontend = "onnx"};
    cr_assert_eq(stator_model_load(ctx, path, &options, &model), STATOR_OK, "%s",
                 stator_ctx_error_text(ctx));
    check_rich(ctx, model);
    stator_model_destroy(model);
    unlink(path);
    stator_ctx_destroy(ctx);
}

Test(onnx_load, every_truncation_is_refused, .timeout = 120)
{
    stator_ctx *ctx = run_context();
    onnx_bytes m = rich_model();
    const stator_load_options options = {
        .struct_size = sizeof options, .frontend = "onnx", .flags = 1};
    for (size_t n = 0; n < m.size; n += n < 200 || n > m.size - 400 ? 1 : 97) {
        stator_model *model = NULL;
        const stator_status status =
            stator_model_load_bytes(ctx, m.data, n, "cut.onnx", &options, &model);
        cr_assert_neq(status, STATOR_OK, "%zu of %zu bytes were taken", n, m.size);
        cr_assert_gt(strlen(stator_ctx_error_text(ctx)), 0);
        stator_model_destroy(model);
    }
    onnx_free(&m);
    stator_ctx_destroy(ctx);
}

Test(onnx_load, deep_nesting_is_refused)
{
    onnx_bytes inner = {0};
    onnx_node(&inner, "Neg", "x", "y", NULL);
    for (int i = 0; i < 200; i++) {
        onnx_bytes a = {0}, g = {0};
        onnx_attr_graph(&a, "then_branch", &inner);
        onnx_node(&g, "If", "c", "y", &a);
        inner = g;
    }
    onnx_bytes m = onnx_model(&inner, 13, NULL);
    expect_refused(&m, STATOR_DATA_LOSS, (const char *const[]){"nested too deeply", NULL});
}

/* ---- external data ---- */

static onnx_bytes external_model(const char *location, const char *length)
{
    const char *const keys[2][2] = {{"location", location}, {"length", length}};
    onnx_bytes g = graph_of_x(), t = {0};
    onnx_int(&t, 1, 2);
    onnx_int(&t, 2, ONNX_FLOAT);
    onnx_text(&t, 8, "w");
    for (int i = 0; i < 2; i++) {
        onnx_bytes entry = {0};
        onnx_text(&entry, 1, keys[i][0]);
        onnx_text(&entry, 2, keys[i][1]);
        onnx_message(&t, 13, &entry);
    }
    onnx_int(&t, 14, 1);
    onnx_message(&g, 5, &t);
    onnx_node(&g, "Add", "x,w", "y", NULL);
    onnx_output(&g, "y", ONNX_FLOAT);
    return onnx_model(&g, 13, NULL);
}

static void put_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f);
    cr_assert_eq(fwrite(data, 1, size, f), size);
    cr_assert_eq(fclose(f), 0);
}

Test(onnx_load, external_data_and_its_limits)
{
    static const struct {
        const char *location, *length, *word; /* word NULL: loads */
    } rows[] = {
        {"w.bin", "8", NULL},
        {"missing.bin", "8", "'missing.bin'"},
        {"../w.bin", "8", "'..'"},
        {"/etc/hostname", "8", "relative"},
        {"out.bin", "8", "leads out"},
        {"w.bin", "12", "its shape needs 8"},
        {"w.bin", "many", "expected a number"},
        {"short.bin", "8", "which has 4"},
    };
    const float w[2] = {10, 20};
    char dir[] = "/tmp/stator-onnx-XXXXXX", path[256];
    cr_assert_not_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/w.bin", dir);
    put_file(path, w, sizeof w);
    snprintf(path, sizeof path, "%s/short.bin", dir);
    put_file(path, w, 4);
    snprintf(path, sizeof path, "%s/out.bin", dir);
    cr_assert_eq(symlink("/etc/hostname", path), 0);
    stator_ctx *ctx = run_context();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        onnx_bytes m = external_model(rows[i].location, rows[i].length);
        snprintf(path, sizeof path, "%s/m.onnx", dir);
        put_file(path, m.data, m.size);
        onnx_free(&m);
        stator_model *model = NULL;
        const stator_status status = stator_model_load(ctx, path, NULL, &model);
        const char *text = stator_ctx_error_text(ctx);
        cr_assert_eq(status == STATOR_OK, rows[i].word == NULL, "%s: %s", rows[i].location, text);
        if (rows[i].word != NULL) {
            cr_assert_not_null(strstr(text, rows[i].word), "'%s' does not say '%s'", text,
                               rows[i].word);
            cr_assert_not_null(strstr(text, "'w'"), "%s", text);
        }
        stator_model_destroy(model);
    }
    stator_ctx_destroy(ctx);
    snprintf(path, sizeof path, "rm -r %s", dir);
    cr_assert_eq(system(path), 0);
}

/* ---- a model larger than the memory that may be used ---- */

#define BIG_ELEMENTS (INT64_C(1) << 28) /* 1 GiB of f32 */

static void put_varint(onnx_bytes *b, uint64_t value)
{
    uint8_t byte;
    for (; value > 0x7fu; value >>= 7) {
        byte = (uint8_t)(value | 0x80u);
        onnx_raw(b, &byte, 1);
    }
    byte = (uint8_t)value;
    onnx_raw(b, &byte, 1);
}

/* A file whose one weight is a hole of 1 GiB at its end: x * w. */
static void put_big_file(const char *path)
{
    const int64_t dims[1] = {BIG_ELEMENTS};
    onnx_bytes graph = {0}, tensor = {0}, model = {0}, set = {0};
    const uint64_t data = (uint64_t)BIG_ELEMENTS * 4u;
    onnx_int(&tensor, 1, BIG_ELEMENTS);
    onnx_int(&tensor, 2, ONNX_FLOAT);
    onnx_text(&tensor, 8, "w");
    put_varint(&tensor, 9u << 3 | 2u);
    put_varint(&tensor, data);
    onnx_input(&graph, "x", ONNX_FLOAT, 1, dims);
    onnx_node(&graph, "Mul", "x,w", "y", NULL);
    onnx_output(&graph, "y", ONNX_FLOAT);
    put_varint(&graph, 5u << 3 | 2u);
    put_varint(&graph, tensor.size + data);
    onnx_raw(&graph, tensor.data, tensor.size);
    onnx_int(&model, 1, 10);
    onnx_int(&set, 2, 13);
    onnx_message(&model, 8, &set);
    put_varint(&model, 7u << 3 | 2u);
    put_varint(&model, graph.size + data);
    onnx_raw(&model, graph.data, graph.size);
    put_file(path, model.data, model.size);
    cr_assert_eq(truncate(path, (off_t)(model.size + data)), 0);
    onnx_free(&tensor);
    onnx_free(&graph);
    onnx_free(&model);
}

Test(onnx_load, one_gigabyte_loads_under_a_limit_of_256_mebibytes)
{
    char path[] = "/tmp/stator-onnx-XXXXXX";
    const char *const dirs[1] = {ST_TEST_BUILD "/lib/stator/plugins-1"};
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_ENV,
                                        .plugin_dirs = dirs,
                                        .plugin_dir_count = 1,
                                        .memory_limit_bytes = UINT64_C(256) << 20};
    const stator_load_options how = {.struct_size = sizeof how, .frontend = "onnx"};
    stator_mem_stats stats = {.struct_size = sizeof stats};
    stator_ctx *ctx = NULL;
    stator_model *model = NULL;
    close(mkstemp(path));
    put_big_file(path);
    cr_assert_eq(stator_ctx_create(&options, &ctx), STATOR_OK);
    cr_assert_eq(stator_model_load(ctx, path, &how, &model), STATOR_OK, "%s",
                 stator_ctx_error_text(ctx));
    stator_ctx_mem_stats(ctx, &stats);
    cr_assert_lt(stats.peak_bytes, UINT64_C(16) << 20);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    unlink(path);
}

/* ---- memory that runs out ---- */

typedef struct failing {
    uint64_t count, fail_at, live;
} failing;

static void *failing_alloc(void *self, uint64_t size, uint64_t align)
{
    failing *f = self;
    if (++f->count == f->fail_at) {
        return NULL;
    }
    void *p = NULL;
    f->live++;
    return posix_memalign(&p, align < 16 ? 16 : align, size + 1) == 0 ? p : NULL;
}

static void failing_free(void *self, void *p)
{
    failing *f = self;
    f->live -= p != NULL;
    free(p);
}

Test(onnx_load, every_allocation_may_fail, .timeout = 200)
{
    uint64_t last = 0;
    for (uint64_t at = 1; last == 0; at += at < 400 ? 1 : 7) {
        failing f = {.fail_at = at};
        const char *const dirs[1] = {ST_TEST_BUILD "/lib/stator/plugins-1"};
        const stator_ctx_options options = {.struct_size = sizeof options,
                                            .flags = STATOR_CTX_NO_ENV,
                                            .plugin_dirs = dirs,
                                            .plugin_dir_count = 1,
                                            .alloc = failing_alloc,
                                            .free = failing_free,
                                            .alloc_self = &f};
        stator_ctx *ctx = NULL;
        stator_model *model = NULL;
        onnx_bytes m = rich_model();
        if (stator_ctx_create(&options, &ctx) == STATOR_OK) {
            const stator_status status = load(ctx, &m, &model);
            cr_assert(status == STATOR_OK || f.count >= at);
            last = f.count < at ? at : 0;
            stator_model_destroy(model);
            stator_ctx_destroy(ctx);
        } else {
            onnx_free(&m);
        }
        cr_assert_eq(f.live, 0, "%llu blocks are left after request %llu failed",
                     (unsigned long long)f.live, (unsigned long long)at);
    }
}
