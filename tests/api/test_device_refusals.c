/* Devices, pointers, streams and code that a device does not take; see device_rows.h. */
#define _GNU_SOURCE
#include "device_rows.h"

#include <sys/mman.h>
#include <sys/stat.h>

enum { SMALL_BYTES = 256 << 20 };

/* ---- devices ---- */

static void absent_device(const place *p)
{
    static const int64_t shape[1] = {N};
    char device[32];
    stator_tensor *tensor = NULL;
    stator_function *f = NULL;
    (void)snprintf(device, sizeof device, "%s:5", p->backend);
    expect(p, stator_tensor_create_on(p->ctx, device, STATOR_F32, 1, shape, &tensor),
           STATOR_NOT_FOUND, ":5: the driver sees 2");
    expect(p, compile_twice(p, device, NULL, NULL, &f), STATOR_NOT_FOUND, ":5: the driver sees 2");
    expect_works(p);
}

/* Of a device that others use alone, or whose memory they have filled to the last byte. */
static void no_context(const place *p)
{
    stator_function *f = NULL;
    expect(p, compile_twice(p, p->device, NULL, NULL, &f), STATOR_RESOURCE_EXHAUSTED,
           ":0 gives no context");
    CHECK(f == NULL && strstr(stator_ctx_error_text(p->ctx), "-smi`") != NULL);
    expect_works(p);
}

/* Others have nearly all of the memory; what they leave is less than was asked for. */
static void filled_device(const place *p)
{
    static const int64_t shape[1] = {1 << 20};
    uint64_t taken = 0;
    stator_tensor *tensor = NULL;
    CHECK(setenv("STATOR_HIP_ON_CUDA_ARCH", "sm_75", 1) == 0); /* the small chip's */
    enter_device(0);
    CHECK(cu.alloc(&taken, SMALL_BYTES - (1 << 20)) == 0);
    expect(p, stator_tensor_create_on(p->ctx, p->device, STATOR_F32, 1, shape, &tensor),
           STATOR_RESOURCE_EXHAUSTED, "no memory for 4194304 bytes");
    CHECK(strstr(stator_ctx_error_text(p->ctx), "of 268435456 bytes are free") != NULL);
    CHECK(cu.free(taken) == 0);
    CHECK_OK(p->ctx, stator_tensor_create_on(p->ctx, p->device, STATOR_F32, 1, shape, &tensor));
    stator_tensor_release(tensor);
    expect_works(p);
}

/* What lies on another device is copied; a result is wanted where the function does not work. */
static void two_devices(const place *p)
{
    stator_function *f = NULL;
    CHECK_OK(p->ctx, compile_twice(p, p->device, NULL, NULL, &f));
    call_rightly(p, f, tensor_on(p, p->other));
    stator_tensor *in = tensor_on(p, p->device);
    stator_tensor *out = tensor_on(p, p->other);
    expect(p, stator_call_tensors(f, 1, &in, 1, &out), STATOR_INVALID_ARGUMENT,
           ":1, where no backend of the function works");
    stator_tensor_release(out);
    call_rightly(p, f, in);
    stator_function_destroy(f);
}

/* Of a second context on the device: an input is copied, a result is refused. */
static void two_contexts(const place *p)
{
    place other = *p;
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_CACHE};
    stator_function *f = NULL;
    CHECK(stator_ctx_create(&options, &other.ctx) == STATOR_OK);
    CHECK_OK(p->ctx, compile_twice(p, p->device, NULL, NULL, &f));
    stator_tensor *in = tensor_on(p, "cpu");
    stator_tensor *out = tensor_on(&other, p->device);
    expect(p, stator_call_tensors(f, 1, &in, 1, &out), STATOR_INVALID_ARGUMENT,
           ":0 in another context; give a tensor of the function's context");
    call_rightly(p, f, in);
    call_rightly(p, f, out);
    stator_function_destroy(f);
    stator_ctx_destroy(other.ctx);
}

static void capped(const place *p)
{
    static const int64_t shape[1] = {1 << 20};
    stator_function *f = NULL;
    stator_tensor *tensor = NULL;
    CHECK_OK(p->ctx, compile_twice(p, p->device, "memory_cap", "64K", &f));
    expect(p, stator_tensor_create_on(p->ctx, p->device, STATOR_F32, 1, shape, &tensor),
           STATOR_RESOURCE_EXHAUSTED, "and the cap is 65536: raise memory_cap");
    call_rightly(p, f, tensor_on(p, "cpu"));
    stator_function_destroy(f);
    expect_works(p);
}

/* ---- what comes from outside ---- */

static stator_status adopt(const place *p, void *address, DLDeviceType type, int id,
                           stator_tensor **out)
{
    static DLManagedTensorVersioned managed;
    managed = capsule_of(address, type, id);
    return stator_tensor_from_dlpack(p->ctx, &managed, out);
}

/* Capsules of devices that are not open, of the other vendor, of a pointer under the other's name,
 * and of memory that is gone. The capsule stays the caller's: nothing runs its deleter. */
static void foreign_capsules(const place *p)
{
    static const char elsewhere[] = "which no backend of this context has opened";
    const DLDeviceType other_type = p->type == kDLCUDA ? kDLROCM : kDLCUDA;
    uint64_t here = 0;
    uint64_t there = 0;
    stator_tensor *in = NULL;
    enter_device(1);
    CHECK(cu.alloc(&there, sizeof numbers) == 0);
    enter_device(0);
    CHECK(cu.alloc(&here, sizeof numbers) == 0);
    void *const address = (void *)(uintptr_t)here;
    expect(p, adopt(p, address, p->type, 0, &in), STATOR_FAILED_PRECONDITION, elsewhere);
    expect_works(p); /* opens it */
    expect(p, adopt(p, address, p->type, 1, &in), STATOR_FAILED_PRECONDITION, elsewhere);
    expect(p, adopt(p, address, other_type, 0, &in), STATOR_FAILED_PRECONDITION, elsewhere);
    expect(p, adopt(p, (void *)(uintptr_t)there, p->type, 0, &in), STATOR_INVALID_ARGUMENT,
           ":1; expected one of ");
    expect(p, adopt(p, numbers, p->type, 0, &in), STATOR_INVALID_ARGUMENT, "one of host memory");
    expect(p, adopt(p, address, kDLCPU, 0, &in), STATOR_INVALID_ARGUMENT,
           "said to lie in host memory");
    CHECK_OK(p->ctx, adopt(p, address, p->type, 0, &in));
    stator_tensor_release(in);
    CHECK(n_deleted == 1 && cu.free(here) == 0 && cu.free(there) == 0);
    expect(p, adopt(p, address, p->type, 0, &in), STATOR_INVALID_ARGUMENT, "has been freed");
    CHECK(n_deleted == 1);
    expect_works(p);
}

static void foreign_pointers(const place *p)
{
    static const int64_t shape[1] = {N};
    stator_tensor *device = tensor_on(p, p->device);
    stator_tensor *wrapped = NULL;
    const stator_buffer buffer = {.struct_size = sizeof buffer,
                                  .data = stator_tensor_view(device)->data,
                                  .size_bytes = sizeof numbers};
    expect(p, stator_tensor_wrap(p->ctx, STATOR_F32, 1, shape, &buffer, &wrapped),
           STATOR_INVALID_ARGUMENT, "name the device it lies on");
    CHECK(stator_tensor_data(device) == NULL);
    CHECK(strstr(stator_ctx_error_text(p->ctx), "lies on a device") != NULL);
    stator_tensor_release(device);
    expect_works(p);
}

static void foreign_streams(const place *p)
{
    stator_function *f = NULL;
    CHECK_OK(p->ctx, compile_twice(p, p->device, NULL, NULL, &f));
    stator_tensor *in = tensor_on(p, p->device);
    stator_tensor *out = NULL;
    stator_call_options options = {.struct_size = sizeof options, .stream = new_stream(1)};
    expect(p, stator_call_with(f, 1, &in, 1, &out, &options), STATOR_INVALID_ARGUMENT,
           "one of another device");
    CHECK(cu.stream_destroy(options.stream) == 0);
    options.stream = new_stream(0);
    CHECK(cu.stream_destroy(options.stream) == 0);
    expect(p, stator_call_with(f, 1, &in, 1, &out, &options), STATOR_INVALID_ARGUMENT,
           "one that has ended");
    call_rightly(p, f, in);
    stator_function_destroy(f);
}

/* Every way in refuses the handle. */
static void expect_no_stream(const place *p, stator_function *f, stator_tensor *in, void *stream,
                             const char *words)
{
    const stator_call_options options = {.struct_size = sizeof options, .stream = stream};
    stator_tensor *out = NULL;
    void *address = outer_memory();
    DLManagedTensorVersioned managed = capsule_of(address, p->type, 0);
    DLManagedTensorVersioned *given = NULL;
    expect(p, stator_call_with(f, 1, &in, 1, &out, &options), STATOR_INVALID_ARGUMENT, words);
    expect(p, stator_tensor_from_dlpack_on(p->ctx, &managed, stream, &out), STATOR_INVALID_ARGUMENT,
           words);
    expect(p, stator_tensor_to_dlpack_on(in, stream, &given), STATOR_INVALID_ARGUMENT, words);
    CHECK(out == NULL && given == NULL && managed.deleter == on_delete);
    drop_outer_memory(address);
}

/* What is no handle of a stream at all; nothing of it is read. */
static void no_streams(const place *p)
{
    static const char nothing[] = "no handle at all, for no memory is there";
    stator_function *f = NULL;
    handle event = NULL;
    CHECK_OK(p->ctx, compile_twice(p, p->device, NULL, NULL, &f));
    stator_tensor *in = tensor_on(p, p->device);
    void *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(closed != MAP_FAILED && cu.event_create(&event, 2) == 0);
    expect_no_stream(p, f, in, stator_tensor_view(in)->data, "but an address of device memory");
    expect_no_stream(p, f, in, (void *)(uintptr_t)3, nothing);
    expect_no_stream(p, f, in, (void *)(uintptr_t)0x7ff000000000, nothing);
    expect_no_stream(p, f, in, (void *)UINTPTR_MAX, nothing);
    expect_no_stream(p, f, in, closed, nothing);
    expect_no_stream(p, f, in, numbers, "one that has ended or none; give a stream of");
    expect_no_stream(p, f, in, event, "one that has ended or none");
    CHECK(munmap(closed, 4096) == 0 && cu.event_destroy(event) == 0);
    call_rightly(p, f, in);
    stator_function_destroy(f);
}

/* ---- code ---- */

/* A C compiler that takes nothing, in a folder where nothing has been compiled before. */
static char folder[] = "/tmp/stator_refusals_XXXXXX";
static char compiler[sizeof folder + 4];

static void make_compiler(void)
{
    CHECK(mkdtemp(folder) != NULL);
    (void)snprintf(compiler, sizeof compiler, "%s/cc", folder);
    FILE *file = fopen(compiler, "w");
    CHECK(file != NULL && fputs("#!/bin/sh\necho 'k.c:2: no such dialect'\nexit 1\n", file) > 0);
    CHECK(fclose(file) == 0 && chmod(compiler, 0700) == 0);
}

static void drop_compiler(void)
{
    char command[sizeof folder + 16];
    (void)snprintf(command, sizeof command, "rm -r '%s'", folder);
    CHECK(system(command) == 0);
}

/* Kernels are made by the first call. */
static stator_status make_kernels(const place *p)
{
    stator_function *f = NULL;
    stator_tensor *in = tensor_on(p, "cpu");
    stator_tensor *out = NULL;
    CHECK_OK(p->ctx, compile_twice(p, p->device, NULL, NULL, &f));
    const stator_status status = stator_call_tensors(f, 1, &in, 1, &out);
    CHECK(status == STATOR_OK || out == NULL);
    stator_tensor_release(in);
    stator_tensor_release(out);
    stator_function_destroy(f);
    return status;
}

/* The log and the text stand behind the sentence, which names kernel and node. */
static void refused_kernel(const place *p)
{
    CHECK(setenv("STATOR_SOFT_CC", compiler, 1) == 0);
    for (int i = 0; i < 2; i++) {
        expect(p, make_kernels(p), STATOR_INTERNAL, "computing double: kernel ");
        const char *said = stator_ctx_error_text(p->ctx);
        CHECK(strstr(said, "cannot compile the kernel") != NULL);
        CHECK(strstr(said, "\n    k.c:2: no such dialect\n") != NULL);
        CHECK(strstr(said, "   1  #include \"gpu_prelude.h\"") != NULL);
    }
}

static void old_driver(const place *p)
{
    expect(p, make_kernels(p), STATOR_INTERNAL,
           p->type == kDLCUDA ? "the driver is of an older release of CUDA than NVRTC"
                              : "hiprtc is of another release than HIP");
    expect_works(p);
}

int main(void)
{
    static const row rows[] = {
        {"a device that is not there", absent_device, NULL, NULL},
        {"a device that gives no context", no_context, "STATOR_SOFT_FAIL", "context:1"},
        {"a device that others fill", filled_device, "STATOR_SOFT_CHIP", "small"},
        {"tensors of two devices", two_devices, NULL, NULL},
        {"tensors of two contexts", two_contexts, NULL, NULL},
        {"a cap", capped, NULL, NULL},
        {"capsules of elsewhere", foreign_capsules, NULL, NULL},
        {"pointers of elsewhere", foreign_pointers, NULL, NULL},
        {"streams of elsewhere", foreign_streams, NULL, NULL},
        {"what is no stream", no_streams, NULL, NULL},
        {"a kernel that is refused", refused_kernel, "STATOR_SOFT_CACHE", folder},
        {"a driver older than the image", old_driver, "STATOR_SOFT_FAIL", "image:1"}};
    make_compiler();
    const int n_failed = run_rows(rows, sizeof rows / sizeof rows[0]);
    drop_compiler();
    return n_failed == 0 ? 0 : 1;
}
