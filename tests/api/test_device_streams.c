/* Streams of the application's through the public API: the backend cuda_soft beside code that uses
 * the driver itself, as PyTorch does. Nothing runs on the software device before somebody waits, so
 * that what is not ordered reads NaN. */
#define _GNU_SOURCE
#include "soft_driver.h"

#include <math.h>
#include <unistd.h>

enum { N = 1000 };

static const char twice[] = "stir 1\n"
                            "graph @main(%x: f32[1000]) {\n"
                            "  %y = add(%x, %x)\n"
                            "  return %y\n"
                            "}\n";
static const char turned[] = "stir 1\n"
                             "graph @main(%x: f32[40, 25]) {\n"
                             "  %y = add(%x, %x)\n"
                             "  return %y\n"
                             "}\n";

/* ---- tensors of the application's, in memory of the driver ---- */

static float numbers[N];
static uint32_t n_deleted;

static void on_delete(DLManagedTensorVersioned *managed)
{
    (void)managed;
    n_deleted++;
}

/* Written by what is queued on the stream. */
static uint64_t queue_numbers(handle stream)
{
    uint64_t address = 0;
    CHECK(cu.alloc(&address, sizeof numbers) == 0);
    CHECK(cu.to_device(address, numbers, sizeof numbers, stream) == 0);
    return address;
}

static DLManagedTensorVersioned view_of(uint64_t address, int64_t *shape)
{
    return (DLManagedTensorVersioned){.version = {.major = DLPACK_MAJOR_VERSION},
                                      .deleter = on_delete,
                                      .dl_tensor = {.data = (void *)(uintptr_t)address,
                                                    .device = {kDLCUDA, 0},
                                                    .ndim = 1,
                                                    .dtype = {kDLFloat, 32, 1},
                                                    .shape = shape}};
}

static uint64_t waits_of(stator_ctx *ctx)
{
    stator_device_stats stats = {.struct_size = sizeof stats};
    CHECK_OK(ctx, stator_ctx_device_stats(ctx, "cuda_soft:0", &stats));
    return stats.n_waits;
}

static uint64_t copies_of(stator_ctx *ctx)
{
    stator_device_stats stats = {.struct_size = sizeof stats};
    CHECK_OK(ctx, stator_ctx_device_stats(ctx, "cuda_soft:0", &stats));
    return stats.n_copies;
}

/* What a consumer on the stream reads at the address. */
static void expect_on(handle stream, const void *address, float factor)
{
    static float got[N];
    CHECK(cu.to_host(got, (uint64_t)(uintptr_t)address, sizeof got, stream) == 0);
    CHECK(cu.stream_wait(stream) == 0);
    for (int i = 0; i < N; i++) {
        CHECK(got[i] == factor * numbers[i]);
    }
}

/* In and out by DLPack on the application's stream: no copy, no wait. */
static void check_dlpack(stator_ctx *ctx, stator_function *f, handle stream)
{
    int64_t shape[1] = {N};
    const uint64_t address = queue_numbers(stream);
    DLManagedTensorVersioned managed = view_of(address, shape);
    const stator_call_options options = {.struct_size = sizeof options, .stream = stream};
    const uint64_t waits = waits_of(ctx);
    const uint64_t copies = copies_of(ctx);
    stator_tensor *in = NULL;
    stator_tensor *again = NULL;
    stator_tensor *out = NULL;
    DLManagedTensorVersioned *capsule = NULL;
    n_deleted = 0;
    CHECK_OK(ctx, stator_tensor_from_dlpack_on(ctx, &managed, stream, &in));
    CHECK(stator_tensor_from_dlpack_on(ctx, &managed, stream, &again) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "has been taken over already") != NULL);
    for (int call = 0; call < 3; call++) {
        stator_tensor_release(out);
        out = NULL;
        CHECK_OK(ctx, stator_call_with(f, 1, &in, 1, &out, &options));
    }
    CHECK(stator_tensor_to_dlpack_on(out, stream, &capsule) == STATOR_OK);
    stator_tensor_release(in);
    stator_tensor_release(out);
    CHECK(n_deleted == 1);
    CHECK(waits_of(ctx) == waits && copies_of(ctx) == copies);
    expect_on(stream, capsule->dl_tensor.data, 2);
    capsule->deleter(capsule);
    CHECK(cu.free(address) == 0);
}

/* A tensor that one stream writes is used on others, the caller's and our own, in order. */
static void check_orders(stator_ctx *ctx, stator_function *f, handle a, handle b)
{
    int64_t shape[1] = {N};
    const uint64_t address = queue_numbers(a);
    DLManagedTensorVersioned managed = view_of(address, shape);
    const stator_call_options on_b = {.struct_size = sizeof on_b, .stream = b};
    stator_tensor *in = NULL;
    stator_tensor *first = NULL;
    stator_tensor *second = NULL;
    DLManagedTensorVersioned *capsule = NULL;
    CHECK_OK(ctx, stator_tensor_from_dlpack_on(ctx, &managed, a, &in));
    CHECK_OK(ctx, stator_call_with(f, 1, &in, 1, &first, &on_b));
    CHECK_OK(ctx, stator_call_tensors(f, 1, &first, 1, &second));
    CHECK(stator_tensor_to_dlpack_on(second, a, &capsule) == STATOR_OK);
    expect_on(a, capsule->dl_tensor.data, 4);
    capsule->deleter(capsule);
    CHECK_OK(ctx, stator_function_wait(f));
    stator_tensor_release(first);
    stator_tensor_release(second);
    stator_tensor_release(in);
    CHECK(cu.free(address) == 0);
}

/* A stream that has been waited for may end; what is left of its calls does not need it. */
static void check_ended_stream(stator_ctx *ctx, stator_function *f)
{
    int64_t shape[1] = {N};
    handle stream = new_stream(0);
    const uint64_t address = queue_numbers(stream);
    DLManagedTensorVersioned managed = view_of(address, shape);
    const stator_call_options options = {.struct_size = sizeof options, .stream = stream};
    stator_tensor *in = NULL;
    stator_tensor *out = NULL;
    stator_tensor *more = NULL;
    CHECK_OK(ctx, stator_tensor_from_dlpack_on(ctx, &managed, stream, &in));
    CHECK_OK(ctx, stator_call_with(f, 1, &in, 1, &out, &options));
    CHECK_OK(ctx, stator_function_wait(f));
    CHECK(cu.stream_destroy(stream) == 0);
    CHECK_OK(ctx, stator_call_tensors(f, 1, &out, 1, &more));
    CHECK_OK(ctx, stator_tensor_wait(ctx, more));
    stator_tensor_release(in);
    stator_tensor_release(out);
    stator_tensor_release(more);
    CHECK(cu.free(address) == 0);
    more = NULL;
    stator_tensor *fresh = NULL;
    CHECK_OK(ctx, stator_tensor_create_on(ctx, "cuda_soft:0", STATOR_F32, 1, shape, &fresh));
    CHECK(stator_call_with(f, 1, &fresh, 1, &more, &options) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "one that has ended") != NULL);
    stator_tensor_release(fresh);
}

/* The transposed view of a tensor is packed on the device. */
static void check_strides(stator_ctx *ctx, handle stream)
{
    int64_t shape[2] = {40, 25};
    int64_t strides[2] = {1, 40};
    const uint64_t address = queue_numbers(stream);
    DLManagedTensorVersioned managed = view_of(address, shape);
    stator_model *model = load_text(ctx, turned);
    stator_function *f = compile_for(ctx, model, "cuda_soft");
    const uint64_t copies = copies_of(ctx);
    stator_tensor *in = NULL;
    stator_tensor *out = NULL;
    managed.dl_tensor.ndim = 2;
    managed.dl_tensor.strides = strides;
    CHECK_OK(ctx, stator_tensor_from_dlpack_on(ctx, &managed, stream, &in));
    CHECK_OK(ctx, stator_call_tensors(f, 1, &in, 1, &out));
    CHECK(copies_of(ctx) == copies);
    stator_tensor *host = NULL;
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F32, 2, shape, &host));
    CHECK_OK(ctx, stator_tensor_copy(ctx, host, out));
    const float *got = stator_tensor_data(host);
    for (int i = 0; i < N; i++) {
        CHECK(got[i] == 2 * numbers[i / 25 + i % 25 * 40]);
    }
    CHECK(copies_of(ctx) == copies + 1);
    stator_tensor_release(in);
    stator_tensor_release(out);
    stator_tensor_release(host);
    stator_function_destroy(f);
    stator_model_destroy(model);
    CHECK(cu.free(address) == 0);
}

/* Two devices of one backend: each has its memory; what comes from the other goes through the host,
 * and its stream is refused. */
static void check_two_devices(stator_ctx *ctx, stator_function *f)
{
    int64_t shape[1] = {N};
    handle other = new_stream(1);
    const uint64_t address = queue_numbers(other);
    DLManagedTensorVersioned managed = view_of(address, shape);
    const stator_call_options options = {.struct_size = sizeof options, .stream = other};
    stator_tensor *in = NULL;
    stator_tensor *out = NULL;
    CHECK(cu.stream_wait(other) == 0);
    CHECK(stator_tensor_from_dlpack(ctx, &managed, &in) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), ":1; expected one of cuda") != NULL);
    managed.dl_tensor.device.device_id = 1;
    CHECK(stator_tensor_from_dlpack(ctx, &managed, &in) == STATOR_FAILED_PRECONDITION);
    CHECK(strstr(stator_ctx_error_text(ctx), "no backend of this context") != NULL);
    stator_tensor *there = NULL;
    CHECK_OK(ctx, stator_tensor_create_on(ctx, "cuda_soft:1", STATOR_F32, 1, shape, &there));
    CHECK_OK(ctx, stator_tensor_from_dlpack(ctx, &managed, &in));
    CHECK_OK(ctx, stator_tensor_copy(ctx, there, in));
    CHECK(stator_call_with(f, 1, &there, 1, &out, &options) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "is no stream of cuda") != NULL);
    CHECK_OK(ctx, stator_call_tensors(f, 1, &there, 1, &out));
    CHECK(strcmp(stator_tensor_device(out), "cpu") == 0);
    CHECK(((const float *)stator_tensor_data(out))[7] == 2 * numbers[7]);
    stator_tensor_release(out);
    stator_tensor_release(there);
    stator_tensor_release(in);
    CHECK(cu.free(address) == 0 && cu.stream_destroy(other) == 0);
    (void)new_stream(0);
}

int main(void)
{
    if (access(ST_TEST_BUILD "/tests/softgpu/libcuda.so.1", F_OK) != 0) {
        (void)puts("this build is without the software device");
        return 0;
    }
    CHECK(setenv("STATOR_SOFT_DEVICE", "1", 1) == 0);
    CHECK(setenv("STATOR_SOFT_DEVICES", "2", 1) == 0);
    CHECK(setenv("STATOR_SOFT_LEAKS", "0", 1) == 0); /* this program's streams */
    for (int i = 0; i < N; i++) {
        numbers[i] = (float)i + 0.5f;
    }
    stator_ctx *ctx = NULL;
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_CACHE};
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    stator_model *model = load_text(ctx, twice);
    stator_function *f = compile_for(ctx, model, "cuda_soft");
    open_driver();
    handle a = new_stream(0);
    handle b = new_stream(0);
    check_dlpack(ctx, f, a);
    check_dlpack(ctx, f, (handle)(uintptr_t)1); /* the default stream */
    check_orders(ctx, f, a, b);
    check_ended_stream(ctx, f);
    check_strides(ctx, a);
    check_two_devices(ctx, f);
    stator_function_destroy(f);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return 0;
}
