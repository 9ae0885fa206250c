/* Memory of devices through the public API, with the backend "sim" of examples/device-plugin: its
 * memory cannot be read by the host and its streams are late. */
#define _GNU_SOURCE
#include "api_check.h"

#include <math.h>
#include <pthread.h>

enum { N = 6 };

static const float values[N] = {0.5f, 1, 2, 3, 4, 5};

static const char two_adds[] = "stir 1\n"
                               "graph @main(%x: f32[2, 3]) {\n"
                               "  %y = add(%x, %x)\n"
                               "  %z = mul(%y, %x)\n"
                               "  return %z\n"
                               "}\n";
/* sim has no sqrt: eager is in the middle. */
static const char divided[] = "stir 1\n"
                              "graph @main(%x: f32[2, 3]) {\n"
                              "  %y = add(%x, %x)\n"
                              "  %r = sqrt(%y)\n"
                              "  %z = mul(%r, %y)\n"
                              "  return %z\n"
                              "}\n";
static const char division[] = "stir 1\n"
                               "graph @main(%x: f32[2, 3], %y: f32[2, 3]) {\n"
                               "  %z = div(%x, %y)\n"
                               "  return %z\n"
                               "}\n";
static const char loop[] = "stir 1\n"
                           "graph @main(%n: i64[], %p: bool[], %x: f32[2, 3]) {\n"
                           "  %y = while(%n, %p, %x) {carried = 1, stacked = 0}\n"
                           "    region @body(%i: i64[], %v: f32[2, 3]) {\n"
                           "      %w = add(%v, %v)\n"
                           "      %c = constant {value = bool[] {true}}\n"
                           "      return %c, %w\n"
                           "    }\n"
                           "  return %y\n"
                           "}\n";

static stator_ctx *open_ctx(void)
{
    CHECK(setenv("STATOR_PLUGIN_FILES", ST_TEST_BUILD "/tests/device/sim.so", 1) == 0);
    stator_ctx *ctx = NULL;
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_CACHE};
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    return ctx;
}

static stator_function *compile_on(stator_ctx *ctx, const char *text, const char *device)
{
    static const char *const keys[] = {"delay_us"};
    static const char *const late[] = {"300"};
    const stator_compile_options options = {.struct_size = sizeof options,
                                            .device = device,
                                            .option_keys = keys,
                                            .option_values = late,
                                            .option_count = 1};
    stator_model *model = load_text(ctx, text);
    stator_function *function = NULL;
    CHECK_OK(ctx, stator_compile(model, &options, &function));
    stator_model_destroy(model);
    return function;
}

static stator_tensor *on_device(stator_ctx *ctx, const char *device, const float *from)
{
    static const int64_t shape[2] = {2, 3};
    stator_tensor *host = tensor_2d(ctx, 2, 3, from);
    stator_tensor *tensor = NULL;
    CHECK_OK(ctx, stator_tensor_create_on(ctx, device, STATOR_F32, 2, shape, &tensor));
    CHECK_OK(ctx, stator_tensor_copy(ctx, tensor, host));
    stator_tensor_release(host);
    return tensor;
}

/* The tensor's elements, wherever it lies; it is released. */
static void expect(stator_ctx *ctx, stator_tensor *tensor, const char *device, float (*f)(float))
{
    static const float zeros[N];
    stator_tensor *host = tensor_2d(ctx, 2, 3, zeros);
    CHECK(strcmp(stator_tensor_device(tensor), device) == 0);
    CHECK_OK(ctx, stator_tensor_copy(ctx, host, tensor));
    const float *got = stator_tensor_data(host);
    for (int i = 0; i < N; i++) {
        CHECK(fabsf(got[i] - f(values[i])) <= 1e-5f * fabsf(f(values[i])));
    }
    stator_tensor_release(host);
    stator_tensor_release(tensor);
}

static void expect_copies(stator_ctx *ctx, stator_function *f, uint32_t copies, uint64_t bytes,
                          uint32_t waits)
{
    stator_copy_info info = {.struct_size = sizeof info};
    CHECK_OK(ctx, stator_function_copies(f, &info));
    if (info.n_copies != copies || info.bytes != bytes || info.n_waits != waits) {
        (void)fprintf(stderr, "%u copies of %llu bytes, %u waits; expected %u, %llu, %u\n",
                      info.n_copies, (unsigned long long)info.bytes, info.n_waits, copies,
                      (unsigned long long)bytes, waits);
        exit(1);
    }
}

static float times(float x)
{
    return 2 * x * x;
}

static float rooted(float x)
{
    return sqrtf(2 * x) * 2 * x;
}

static float doubled_thrice(float x)
{
    return 8 * x;
}

static float same(float x)
{
    return x;
}

/* What the host gives and wants is copied once each way, with one wait; what lies on the device is
 * not. */
static void check_border(stator_ctx *ctx)
{
    stator_function *f = compile_on(ctx, two_adds, "sim:0");
    stator_tensor *host = tensor_2d(ctx, 2, 3, values);
    stator_tensor *device = on_device(ctx, "sim:0", values);
    for (int call = 0; call < 3; call++) {
        stator_tensor *out = NULL;
        CHECK_OK(ctx, stator_call_tensors(f, 1, &host, 1, &out));
        expect_copies(ctx, f, 2, 2 * sizeof values, 1);
        expect(ctx, out, "cpu", times);
        out = NULL;
        CHECK_OK(ctx, stator_call_tensors(f, 1, &device, 1, &out));
        expect_copies(ctx, f, 0, 0, 0);
        expect(ctx, out, "sim:0", times);
    }
    CHECK(stator_tensor_data(device) == NULL);
    CHECK(strstr(stator_ctx_error_text(ctx), "lies on a device") != NULL);
    stator_tensor_release(host);
    stator_tensor_release(device);
    stator_function_destroy(f);
}

/* Results that the caller has room for, here and there. */
static void check_given_outputs(stator_ctx *ctx)
{
    stator_function *f = compile_on(ctx, two_adds, "sim:0");
    stator_tensor *host = tensor_2d(ctx, 2, 3, values);
    stator_tensor *device = on_device(ctx, "sim:0", values);
    stator_tensor *out = on_device(ctx, "sim:0", values);
    CHECK_OK(ctx, stator_call_tensors(f, 1, &host, 1, &out));
    expect_copies(ctx, f, 1, sizeof values, 0);
    expect(ctx, out, "sim:0", times);
    out = tensor_2d(ctx, 2, 3, values);
    CHECK_OK(ctx, stator_call_tensors(f, 1, &device, 1, &out));
    expect_copies(ctx, f, 1, sizeof values, 1);
    expect(ctx, out, "cpu", times);
    out = on_device(ctx, "sim:1", values);
    CHECK(stator_call_tensors(f, 1, &device, 1, &out) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "output 0 lies on sim:1") != NULL);
    stator_tensor_release(out);
    stator_tensor_release(host);
    stator_tensor_release(device);
    stator_function_destroy(f);
}

static void check_divided(stator_ctx *ctx)
{
    stator_function *f = compile_on(ctx, divided, "sim");
    stator_tensor *host = tensor_2d(ctx, 2, 3, values);
    stator_tensor *device = on_device(ctx, "sim:0", values);
    stator_tensor *out = NULL;
    CHECK_OK(ctx, stator_call_tensors(f, 1, &host, 1, &out));
    expect_copies(ctx, f, 4, 4 * sizeof values, 2);
    expect(ctx, out, "cpu", rooted);
    out = NULL;
    CHECK_OK(ctx, stator_call_tensors(f, 1, &device, 1, &out));
    expect_copies(ctx, f, 2, 2 * sizeof values, 1);
    expect(ctx, out, "sim:0", rooted);
    stator_tensor_release(host);
    stator_tensor_release(device);
    stator_function_destroy(f);
}

/* Carried values stay on the device; the host reads the predicate. */
static void check_control_flow(stator_ctx *ctx)
{
    stator_function *f = compile_on(ctx, loop, "sim:0");
    stator_tensor *in[3] = {NULL, NULL, on_device(ctx, "sim:0", values)};
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_I64, 0, NULL, &in[0]));
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_BOOL, 0, NULL, &in[1]));
    *(int64_t *)stator_tensor_data(in[0]) = 3;
    *(uint8_t *)stator_tensor_data(in[1]) = 1;
    stator_tensor *out = NULL;
    CHECK_OK(ctx, stator_call_tensors(f, 3, in, 1, &out));
    expect_copies(ctx, f, 0, 0, 0);
    expect(ctx, out, "sim:0", doubled_thrice);
    for (int i = 0; i < 3; i++) {
        stator_tensor_release(in[i]);
    }
    stator_function_destroy(f);
}

/* A failure that shows later is told by the next wait of the call, and by each use of its
 * result. */
static void check_late_errors(stator_ctx *ctx)
{
    static const float ones_and_zero[N] = {1, 1, 0, 1, 1, 1};
    stator_function *f = compile_on(ctx, division, "sim:0");
    stator_tensor *in[2] = {tensor_2d(ctx, 2, 3, values), tensor_2d(ctx, 2, 3, ones_and_zero)};
    stator_tensor *out = NULL;
    CHECK(stator_call_tensors(f, 2, in, 1, &out) == STATOR_INVALID_ARGUMENT && out == NULL);
    CHECK(strstr(stator_ctx_error_text(ctx), "a divisor is 0") != NULL);
    stator_tensor *device = on_device(ctx, "sim:0", values);
    stator_tensor *mixed[2] = {device, in[1]};
    CHECK_OK(ctx, stator_call_tensors(f, 2, mixed, 1, &out));
    CHECK(stator_tensor_wait(ctx, out) == STATOR_INVALID_ARGUMENT);
    CHECK(stator_tensor_wait(ctx, out) == STATOR_INVALID_ARGUMENT);
    CHECK(stator_tensor_copy(ctx, in[0], out) == STATOR_INVALID_ARGUMENT);
    stator_tensor_release(out);

    /* The function's end waits for its calls, and leaves what they failed at to the tensor's. */
    out = NULL;
    CHECK_OK(ctx, stator_call_tensors(f, 2, mixed, 1, &out));
    stator_function_destroy(f);
    expect(ctx, on_device(ctx, "sim:0", values), "sim:0", same);
    CHECK(stator_tensor_wait(ctx, out) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "a divisor is 0") != NULL);
    CHECK(stator_tensor_copy(ctx, in[0], out) == STATOR_INVALID_ARGUMENT);
    stator_tensor_release(out);
    stator_tensor_release(device);
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
}

/* A tensor of another device comes through the host; one on a device serves a function on the
 * host. */
static void check_other_devices(stator_ctx *ctx)
{
    static const char *const devices[] = {"sim:0", "cpu"};
    stator_tensor *other = on_device(ctx, "sim:1", values);
    for (int i = 0; i < 2; i++) {
        stator_compile_options options = {.struct_size = sizeof options, .device = devices[i]};
        options.backend = i == 1 ? "eager" : NULL;
        stator_model *model = load_text(ctx, two_adds);
        stator_function *f = NULL;
        stator_tensor *out = NULL;
        CHECK_OK(ctx, stator_compile(model, &options, &f));
        CHECK_OK(ctx, stator_call_tensors(f, 1, &other, 1, &out));
        expect(ctx, out, "cpu", times);
        stator_function_destroy(f);
        stator_model_destroy(model);
    }
    stator_tensor *here = on_device(ctx, "sim:0", values);
    CHECK_OK(ctx, stator_tensor_copy(ctx, here, other));
    expect(ctx, here, "sim:0", same);
    stator_tensor_release(other);
}

static void check_refusals(stator_ctx *ctx)
{
    static const struct {
        const char *backend, *device, *text;
        stator_status status;
    } rows[] = {
        {NULL, "sim:7", "there are devices 0 and 1 alone", STATOR_NOT_FOUND},
        {NULL, "sim:x", "has 'x' behind the colon; expected its number", STATOR_INVALID_ARGUMENT},
        {NULL, "sim:-1", "has '-1' behind the colon", STATOR_INVALID_ARGUMENT},
        {NULL, "sim:99999999999999999999", "numbers of devices end at 65535", STATOR_NOT_FOUND},
        {NULL, "cpu:1", "there is no device cpu:1: the host is cpu", STATOR_NOT_FOUND},
        {NULL, "eager:7", "'eager' works on the host alone", STATOR_NOT_FOUND},
        {NULL, ":1", "has no name of a backend", STATOR_INVALID_ARGUMENT},
        {"eager", "sim:1", "is none of the backend 'eager'", STATOR_INVALID_ARGUMENT},
        {"eager", "sim:0", "is none of the backend 'eager'", STATOR_INVALID_ARGUMENT},
        {"sim", "cpu", "is none of the backend 'sim'", STATOR_INVALID_ARGUMENT},
    };
    stator_model *model = load_text(ctx, two_adds);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const stator_compile_options options = {
            .struct_size = sizeof options, .backend = rows[i].backend, .device = rows[i].device};
        stator_function *f = NULL;
        const stator_status status = stator_compile(model, &options, &f);
        if (status != rows[i].status) {
            (void)fprintf(stderr, "%s: %s\n", rows[i].device, stator_ctx_error_text(ctx));
        }
        CHECK(status == rows[i].status);
        CHECK(strstr(stator_ctx_error_text(ctx), rows[i].text) != NULL);
    }
    stator_model_destroy(model);
}

/* ---- DLPack ---- */

static uint32_t n_deleted;

static void on_delete(DLManagedTensorVersioned *managed)
{
    (void)managed;
    n_deleted++;
}

static void check_dlpack(stator_ctx *ctx)
{
    stator_function *f = compile_on(ctx, two_adds, "sim:0");
    stator_tensor *device = on_device(ctx, "sim:0", values);
    DLManagedTensorVersioned *capsule = NULL;
    stator_tensor *again = NULL;
    stator_tensor *out = NULL;
    CHECK(stator_tensor_to_dlpack(device, &capsule) == STATOR_OK);
    CHECK(capsule->dl_tensor.device.device_type == kDLExtDev);
    CHECK(capsule->dl_tensor.data == stator_tensor_view(device)->data);
    stator_tensor_release(device);
    CHECK_OK(ctx, stator_tensor_from_dlpack(ctx, capsule, &again));
    CHECK_OK(ctx, stator_call_tensors(f, 1, &again, 1, &out));
    expect_copies(ctx, f, 0, 0, 0);
    expect(ctx, out, "sim:0", times);

    /* The transposed view of it: made dense on the device. */
    int64_t shape[2] = {3, 2};
    int64_t strides[2] = {1, 3};
    DLManagedTensorVersioned view = {
        .version = {.major = 1}, .deleter = on_delete, .dl_tensor = *stator_tensor_view(again)};
    view.dl_tensor.shape = shape;
    view.dl_tensor.strides = strides;
    stator_tensor *turned = NULL;
    float got[N];
    CHECK_OK(ctx, stator_tensor_from_dlpack(ctx, &view, &turned));
    stator_tensor *dense = NULL;
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F32, 2, shape, &dense));
    CHECK_OK(ctx, stator_tensor_copy(ctx, dense, turned));
    memcpy(got, stator_tensor_data(dense), sizeof got);
    CHECK(got[1] == values[3] && got[2] == values[1] && got[5] == values[5]);
    stator_tensor_release(turned);
    CHECK(n_deleted == 1);
    stator_tensor_release(dense);
    stator_tensor_release(again);

    /* A pointer of the host under the device's name, and a device that nobody opened. */
    float bytes[N] = {0};
    view.dl_tensor.data = bytes;
    CHECK(stator_tensor_from_dlpack(ctx, &view, &turned) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "one of the host's memory") != NULL);
    view.dl_tensor.data = NULL; /* as an empty tensor may have it */
    shape[0] = 0;
    view.dl_tensor.strides = NULL;
    CHECK_OK(ctx, stator_tensor_from_dlpack(ctx, &view, &turned));
    stator_tensor_release(turned);
    /* An address of the device under the host's name, by DLPack and by wrapping. */
    stator_tensor *there = on_device(ctx, "sim:0", values);
    shape[0] = 3;
    view.dl_tensor.data = stator_tensor_view(there)->data;
    view.dl_tensor.device = (DLDevice){kDLCPU, 0};
    CHECK(stator_tensor_from_dlpack(ctx, &view, &turned) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "said to lie in host memory") != NULL);
    CHECK(strstr(stator_ctx_error_text(ctx), "one of sim:") != NULL);
    const stator_buffer buffer = {.struct_size = sizeof buffer,
                                  .data = stator_tensor_view(there)->data,
                                  .size_bytes = sizeof values};
    CHECK(stator_tensor_wrap(ctx, STATOR_F32, 2, shape, &buffer, &turned) ==
          STATOR_INVALID_ARGUMENT);
    stator_tensor_release(there);
    view.dl_tensor.device.device_type = kDLCUDA;
    CHECK(stator_tensor_from_dlpack(ctx, &view, &turned) == STATOR_FAILED_PRECONDITION);
    CHECK(strstr(stator_ctx_error_text(ctx), "no backend of this context") != NULL);
    stator_function_destroy(f);
}

/* A capsule of a tensor whose call failed late says why. */
static void check_late_capsule(stator_ctx *ctx)
{
    static const float zeros[N];
    stator_function *f = compile_on(ctx, division, "sim:0");
    stator_tensor *in[2] = {on_device(ctx, "sim:0", values), on_device(ctx, "sim:0", zeros)};
    stator_tensor *out = NULL;
    DLManagedTensorVersioned *capsule = NULL;
    CHECK_OK(ctx, stator_call_tensors(f, 2, in, 1, &out));
    CHECK(stator_tensor_to_dlpack(out, &capsule) == STATOR_INVALID_ARGUMENT && capsule == NULL);
    CHECK(strstr(stator_ctx_error_text(ctx), "a divisor is 0") != NULL);
    stator_tensor_release(out);

    /* The same by a wait for the function, once. */
    out = NULL;
    CHECK_OK(ctx, stator_call_tensors(f, 2, in, 1, &out));
    CHECK(stator_function_wait(f) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "a divisor is 0") != NULL);
    CHECK_OK(ctx, stator_function_wait(f));
    CHECK(stator_tensor_wait(ctx, out) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "a divisor is 0") != NULL);
    stator_tensor_release(out);
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
    stator_function_destroy(f);
}

/* ---- where results lie ---- */

static void check_outputs(stator_ctx *ctx)
{
    stator_call_options options = {.struct_size = sizeof options};
    stator_function *f = compile_on(ctx, two_adds, "sim:0");
    stator_tensor *host = tensor_2d(ctx, 2, 3, values);
    stator_tensor *device = on_device(ctx, "sim:0", values);
    stator_tensor *out = NULL;
    options.outputs = STATOR_OUTPUTS_DEVICE;
    CHECK_OK(ctx, stator_call_with(f, 1, &host, 1, &out, &options));
    expect_copies(ctx, f, 1, sizeof values, 0);
    expect(ctx, out, "sim:0", times);
    out = NULL;
    options.outputs = STATOR_OUTPUTS_HOST;
    CHECK_OK(ctx, stator_call_with(f, 1, &device, 1, &out, &options));
    expect_copies(ctx, f, 1, sizeof values, 1);
    expect(ctx, out, "cpu", times);
    out = NULL;
    options.outputs = 7;
    CHECK(stator_call_with(f, 1, &device, 1, &out, &options) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "outputs is 7") != NULL);
    stator_function_destroy(f);

    stator_model *model = load_text(ctx, two_adds);
    const stator_compile_options on_device_always = {.struct_size = sizeof on_device_always,
                                                     .device = "sim:0",
                                                     .outputs = STATOR_OUTPUTS_DEVICE};
    CHECK_OK(ctx, stator_compile(model, &on_device_always, &f));
    CHECK_OK(ctx, stator_call_tensors(f, 1, &host, 1, &out));
    expect(ctx, out, "sim:0", times);
    stator_function_destroy(f);
    const stator_compile_options by_host = {
        .struct_size = sizeof by_host, .backend = "eager", .outputs = STATOR_OUTPUTS_DEVICE};
    CHECK(stator_compile(model, &by_host, &f) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "'eager' computes in host memory") != NULL);
    f = compile_for(ctx, model, "eager");
    options = (stator_call_options){.struct_size = sizeof options, .stream = &options};
    out = NULL;
    CHECK(stator_call_with(f, 1, &host, 1, &out, &options) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "has no device") != NULL);
    stator_function_destroy(f);
    stator_model_destroy(model);
    stator_tensor_release(host);
    stator_tensor_release(device);
}

/* ---- threads ---- */

typedef struct worker {
    stator_ctx *ctx;
    stator_function *f;
    stator_tensor *shared;
} worker;

static void *call_often(void *self)
{
    const worker *w = self;
    for (int i = 0; i < 20; i++) {
        stator_tensor *out = NULL;
        stator_tensor *mine = on_device(w->ctx, "sim:0", values);
        CHECK_OK(w->ctx, stator_call_tensors(w->f, 1, i % 2 ? &mine : &w->shared, 1, &out));
        stator_tensor_release(mine); /* while the call may still read it */
        expect(w->ctx, out, "sim:0", rooted);
    }
    return NULL;
}

static void check_threads(stator_ctx *ctx)
{
    pthread_t threads[8];
    worker w = {ctx, compile_on(ctx, divided, "sim:0"), on_device(ctx, "sim:0", values)};
    for (int i = 0; i < 8; i++) {
        CHECK(pthread_create(&threads[i], NULL, call_often, &w) == 0);
    }
    for (int i = 0; i < 8; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    stator_tensor_release(w.shared);
    stator_function_destroy(w.f);
}

/* Full memory: a sentence with sizes, and the next call goes well. */
static void check_memory(stator_ctx *ctx)
{
    static const int64_t large[1] = {INT64_C(1) << 40};
    stator_tensor *tensor = NULL;
    CHECK(stator_tensor_create_on(ctx, "sim:0", STATOR_F32, 1, large, &tensor) ==
          STATOR_RESOURCE_EXHAUSTED);
    CHECK(strstr(stator_ctx_error_text(ctx), "device sim:0: no memory for 4398046511104 bytes") !=
          NULL);
    stator_tensor_release(on_device(ctx, "sim:0", values));
    stator_device_stats before = {.struct_size = sizeof before};
    stator_device_stats after = {.struct_size = sizeof after};
    CHECK_OK(ctx, stator_ctx_device_stats(ctx, "sim:0", &before));
    stator_tensor *held = on_device(ctx, "sim:0", values);
    CHECK_OK(ctx, stator_ctx_device_stats(ctx, "sim:0", &after));
    CHECK(after.used_bytes == before.used_bytes + 256 && after.held_bytes == before.held_bytes);
    CHECK(after.n_copies == before.n_copies + 1 && after.n_allocs == before.n_allocs);
    CHECK(after.copied_bytes == before.copied_bytes + sizeof values);
    CHECK(after.peak_bytes >= after.held_bytes && after.held_bytes >= after.used_bytes);
    stator_tensor_release(held);
    CHECK_OK(ctx, stator_ctx_device_stats(ctx, "sim:9", &after));
    CHECK(after.held_bytes == 0 && after.n_allocs == 0);
    CHECK(stator_ctx_device_stats(ctx, ":1", &after) == STATOR_INVALID_ARGUMENT);
}

int main(void)
{
    stator_ctx *ctx = open_ctx();
    check_border(ctx);
    check_given_outputs(ctx);
    check_divided(ctx);
    check_control_flow(ctx);
    check_late_errors(ctx);
    check_other_devices(ctx);
    check_refusals(ctx);
    check_dlpack(ctx);
    check_late_capsule(ctx);
    check_outputs(ctx);
    check_threads(ctx);
    check_memory(ctx);
    stator_ctx_destroy(ctx);
    return 0;
}
