/* What a device does not take, over the software device, for cuda and for hip: each row is a
 * process of its own, which gets a status and a sentence for what is wrong, then the right result
 * of the next call, and leaves nothing on the device (which says so as the process ends). */
#define _GNU_SOURCE
#include "soft_driver.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { N = 1000, SMALL_BYTES = 256 << 20 };

static const char twice[] = "stir 1\n"
                            "graph @main(%x: f32[1000]) {\n"
                            "  %double = add(%x, %x)\n"
                            "  return %double\n"
                            "}\n";

/* What a row is given: a context that has not opened the device yet. */
typedef struct place {
    stator_ctx *ctx;
    const char *backend;
    char device[32]; /* number 0 */
    char other[32];  /* number 1 */
    DLDeviceType type;
} place;

static float numbers[N];

static void expect(const place *p, stator_status got, stator_status status, const char *words)
{
    const char *said = stator_ctx_error_text(p->ctx);
    if (got != status || strstr(said, words) == NULL) {
        (void)fprintf(stderr, "status %d says '%s'; expected %d and '%s'\n", (int)got, said,
                      (int)status, words);
        exit(1);
    }
}

static stator_status compile_twice(const place *p, const char *device, const char *key,
                                   const char *value, stator_function **out)
{
    const stator_compile_options options = {.struct_size = sizeof options,
                                            .device = device,
                                            .option_keys = &key,
                                            .option_values = &value,
                                            .option_count = key != NULL};
    stator_model *model = load_text(p->ctx, twice);
    const stator_status status = stator_compile(model, &options, out);
    stator_model_destroy(model);
    return status;
}

static stator_tensor *tensor_on(const place *p, const char *device)
{
    static const int64_t shape[1] = {N};
    stator_tensor *host = NULL;
    stator_tensor *tensor = NULL;
    CHECK_OK(p->ctx, stator_tensor_create(p->ctx, STATOR_F32, 1, shape, &host));
    memcpy(stator_tensor_data(host), numbers, sizeof numbers);
    if (strcmp(device, "cpu") == 0) {
        return host;
    }
    CHECK_OK(p->ctx, stator_tensor_create_on(p->ctx, device, STATOR_F32, 1, shape, &tensor));
    CHECK_OK(p->ctx, stator_tensor_copy(p->ctx, tensor, host));
    stator_tensor_release(host);
    return tensor;
}

/* Calls, with a result in host memory that is right; the input is released. */
static void call_rightly(const place *p, stator_function *f, stator_tensor *in)
{
    const stator_call_options options = {.struct_size = sizeof options,
                                         .outputs = STATOR_OUTPUTS_HOST};
    stator_tensor *out = NULL;
    CHECK_OK(p->ctx, stator_call_with(f, 1, &in, 1, &out, &options));
    for (int i = 0; i < N; i++) {
        CHECK(((const float *)stator_tensor_data(out))[i] == 2 * numbers[i]);
    }
    stator_tensor_release(in);
    stator_tensor_release(out);
}

/* The device serves as if nothing had been. */
static void expect_works(const place *p)
{
    stator_function *f = NULL;
    CHECK_OK(p->ctx, compile_twice(p, p->device, NULL, NULL, &f));
    call_rightly(p, f, tensor_on(p, p->device));
    stator_function_destroy(f);
}

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

static _Atomic uint32_t n_deleted;

static void on_delete(DLManagedTensorVersioned *managed)
{
    (void)managed;
    n_deleted++;
}

static int64_t all[1] = {N};

static DLManagedTensorVersioned capsule_of(void *address, DLDeviceType type, int id)
{
    return (DLManagedTensorVersioned){.version = {.major = DLPACK_MAJOR_VERSION},
                                      .deleter = on_delete,
                                      .dl_tensor = {.data = address,
                                                    .device = {type, id},
                                                    .ndim = 1,
                                                    .dtype = {kDLFloat, 32, 1},
                                                    .shape = all}};
}

static stator_status adopt(const place *p, void *address, DLDeviceType type, int id,
                           stator_tensor **out)
{
    static DLManagedTensorVersioned managed;
    managed = capsule_of(address, type, id);
    return stator_tensor_from_dlpack(p->ctx, &managed, out);
}

/* Memory of device 0 that is not Stator's. */
static void *outer_memory(void)
{
    uint64_t address = 0;
    enter_device(0);
    CHECK(cu.alloc(&address, sizeof numbers) == 0);
    return (void *)(uintptr_t)address;
}

static void drop_outer_memory(void *address)
{
    CHECK(cu.free((uintptr_t)address) == 0);
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

/* ---- a capsule that is taken ---- */

enum { N_THREADS = 4, N_ROUNDS = 50 };

typedef struct racer {
    stator_ctx *ctx;
    DLManagedTensorVersioned *managed;
    pthread_barrier_t *start;
    stator_tensor *tensor;
} racer;

static void *take(void *of)
{
    racer *r = of;
    (void)pthread_barrier_wait(r->start);
    const stator_status status = stator_tensor_from_dlpack(r->ctx, r->managed, &r->tensor);
    CHECK(status == (r->tensor != NULL ? STATOR_OK : STATOR_INVALID_ARGUMENT));
    return NULL;
}

/* Threads of two contexts want one capsule: one of them gets it. */
static void race(stator_ctx *const ctx[2], DLManagedTensorVersioned *managed)
{
    pthread_t threads[N_THREADS];
    racer racers[N_THREADS];
    pthread_barrier_t start;
    uint32_t n_taken = 0;
    CHECK(pthread_barrier_init(&start, NULL, N_THREADS) == 0);
    for (int i = 0; i < N_THREADS; i++) {
        racers[i] = (racer){.ctx = ctx[i % 2], .managed = managed, .start = &start};
        CHECK(pthread_create(&threads[i], NULL, take, &racers[i]) == 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        n_taken += racers[i].tensor != NULL;
    }
    n_deleted = 0;
    for (int i = 0; i < N_THREADS; i++) {
        stator_tensor_release(racers[i].tensor);
    }
    CHECK(n_taken == 1 && n_deleted == 1 && pthread_barrier_destroy(&start) == 0);
}

static void expect_taken_once(const place *p, const place *other, DLManagedTensorVersioned *managed)
{
    static const char taken[] = "taken over already by a tensor that lives";
    stator_ctx *const both[2] = {p->ctx, other->ctx};
    stator_tensor *in = NULL;
    stator_tensor *again = NULL;
    n_deleted = 0;
    CHECK_OK(p->ctx, stator_tensor_from_dlpack(p->ctx, managed, &in));
    expect(other, stator_tensor_from_dlpack(other->ctx, managed, &again), STATOR_INVALID_ARGUMENT,
           taken);
    expect(p, stator_tensor_from_dlpack(p->ctx, managed, &again), STATOR_INVALID_ARGUMENT, taken);
    managed->deleter(managed); /* of who has not noticed that the capsule is gone */
    CHECK(n_deleted == 0);
    stator_tensor_release(in);
    CHECK(n_deleted == 1 && managed->deleter == on_delete);
    for (int i = 0; i < N_ROUNDS; i++) {
        race(both, managed);
    }
}

/* By two contexts of the process: a tensor on the device, and one of the host. */
static void taken_capsules(const place *p)
{
    place other = *p;
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_CACHE};
    CHECK(stator_ctx_create(&options, &other.ctx) == STATOR_OK);
    expect_works(p);
    expect_works(&other);
    void *address = outer_memory();
    DLManagedTensorVersioned there = capsule_of(address, p->type, 0);
    DLManagedTensorVersioned here = capsule_of(numbers, kDLCPU, 0);
    expect_taken_once(p, &other, &there);
    expect_taken_once(p, &other, &here);
    drop_outer_memory(address);
    expect_works(&other);
    stator_ctx_destroy(other.ctx);
    expect_works(p);
}

/* ---- a capsule that is too long ---- */

static const struct extent {
    int64_t shape[2], strides[2];
    uint64_t byte_offset;
    const char *words; /* NULL: it fits */
} extents[] = {
    {{N, 1}, {1, 1}, 0, NULL},
    {{N / 2, 2}, {1, N / 2}, 0, NULL},
    {{N, 1}, {-1, 1}, (N - 1) * 4, NULL},
    {{N, 50}, {1, 0}, 0, NULL},
    {{0, N}, {INT64_MAX, 1}, UINT64_MAX, NULL}, /* it has no elements */
    {{N + 1, 1}, {1, 1}, 0, "takes 0 bytes before "},
    {{N + 1, 1}, {1, 1}, 0, " and 4004 from there on, of which its allocation has 0 and 4000 ("},
    {{1 << 30, 1}, {1, 1}, 0, "shape, strides or byte_offset is wrong"},
    {{N, 1}, {1, 1}, 4, " and 4004 from there on"},
    {{N, 1}, {1, 1}, 1 << 20, "of which its allocation has 0 and 4000"},
    {{N, 1}, {2, 1}, 0, " and 7996 from there on"},
    {{N, 1}, {-1, 1}, 0, "takes 3996 bytes before "},
    {{2, 2}, {INT64_MAX / 2, 1}, 0, "lead past the last address"},
    {{N, 1}, {1, 1}, UINT64_MAX - 4, "lead past the last address"},
    {{2, 1}, {-(INT64_C(1) << 60), 1}, 0, "lead past the last address"},
};

static void expect_extents(const place *p, void *address, DLDeviceType type)
{
    for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++) {
        struct extent e = extents[i];
        stator_tensor *in = NULL;
        DLManagedTensorVersioned managed = capsule_of(address, type, 0);
        managed.dl_tensor.ndim = 2;
        managed.dl_tensor.shape = e.shape;
        managed.dl_tensor.strides = e.strides;
        managed.dl_tensor.byte_offset = e.byte_offset;
        const stator_status status = stator_tensor_from_dlpack(p->ctx, &managed, &in);
        if (e.words == NULL) {
            CHECK_OK(p->ctx, status);
            stator_tensor_release(in);
        } else {
            expect(p, status, STATOR_INVALID_ARGUMENT, e.words);
        }
    }
}

/* The driver knows its own memory, and pinned memory too, whatever the tensor calls it. */
static void long_capsules(const place *p)
{
    const DLDeviceType pinned_type = p->type == kDLCUDA ? kDLCUDAHost : kDLROCMHost;
    stator_tensor *wrapped = NULL;
    stator_buffer buffer = {.struct_size = sizeof buffer, .size_bytes = sizeof numbers};
    expect_works(p);
    void *address = outer_memory();
    CHECK(cu.pinned_alloc(&buffer.data, sizeof numbers, 0) == 0);
    expect_extents(p, address, p->type);
    expect_extents(p, buffer.data, pinned_type);
    expect_extents(p, buffer.data, kDLCPU);
    CHECK_OK(p->ctx, stator_tensor_wrap(p->ctx, STATOR_F32, 1, all, &buffer, &wrapped));
    stator_tensor_release(wrapped);
    buffer.size_bytes++;
    expect(p, stator_tensor_wrap(p->ctx, STATOR_F32, 1, all, &buffer, &wrapped),
           STATOR_INVALID_ARGUMENT, "of which its allocation has 0 and 4000");
    CHECK(cu.pinned_free(buffer.data) == 0);
    drop_outer_memory(address);
    expect_works(p);
}

/* ---- pointers and streams ---- */

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

/* ---- rows ---- */

static const struct row {
    const char *what;
    void (*run)(const place *p);
    const char *name, *value; /* of the environment; NULL: nothing more */
} rows[] = {{"a device that is not there", absent_device, NULL, NULL},
            {"a device that gives no context", no_context, "STATOR_SOFT_FAIL", "context:1"},
            {"a device that others fill", filled_device, "STATOR_SOFT_CHIP", "small"},
            {"tensors of two devices", two_devices, NULL, NULL},
            {"a cap", capped, NULL, NULL},
            {"capsules of elsewhere", foreign_capsules, NULL, NULL},
            {"capsules that are taken", taken_capsules, NULL, NULL},
            {"capsules that are too long", long_capsules, NULL, NULL},
            {"pointers of elsewhere", foreign_pointers, NULL, NULL},
            {"streams of elsewhere", foreign_streams, NULL, NULL},
            {"what is no stream", no_streams, NULL, NULL},
            {"a kernel that is refused", refused_kernel, "STATOR_SOFT_CACHE", folder},
            {"a driver older than the image", old_driver, "STATOR_SOFT_FAIL", "image:1"}};

static void run_row(const struct row *row, const char *backend, DLDeviceType type)
{
    place p = {.backend = backend, .type = type};
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_CACHE};
    CHECK(row->name == NULL || setenv(row->name, row->value, 1) == 0);
    CHECK(stator_ctx_create(&options, &p.ctx) == STATOR_OK);
    (void)snprintf(p.device, sizeof p.device, "%s:0", backend);
    (void)snprintf(p.other, sizeof p.other, "%s:1", backend);
    open_driver();
    row->run(&p);
    stator_ctx_destroy(p.ctx);
}

int main(void)
{
    static const struct {
        const char *backend, *library;
        DLDeviceType type;
    } vendors[] = {{"cuda_soft", SOFT_DRIVER, kDLCUDA},
                   {"hip_soft", ST_TEST_BUILD "/tests/softgpu/libamdhip64.so.6", kDLROCM}};
    CHECK(setenv("STATOR_SOFT_DEVICE", "1", 1) == 0);
    CHECK(setenv("STATOR_SOFT_DEVICES", "2", 1) == 0);
    CHECK(setvbuf(stdout, NULL, _IONBF, 0) == 0);
    for (int i = 0; i < N; i++) {
        numbers[i] = (float)i + 0.5f;
    }
    make_compiler();
    for (size_t v = 0; v < sizeof vendors / sizeof vendors[0]; v++) {
        if (access(vendors[v].library, F_OK) != 0) {
            (void)printf("this build is without the software device of %s\n", vendors[v].backend);
            continue;
        }
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            int status = 0;
            const pid_t child = fork();
            if (child == 0) {
                run_row(&rows[i], vendors[v].backend, vendors[v].type);
                exit(0);
            }
            CHECK(child > 0 && waitpid(child, &status, 0) == child);
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
                (void)fprintf(stderr, "%s, %s: the process ends with %d\n", vendors[v].backend,
                              rows[i].what, status);
                return 1;
            }
        }
    }
    drop_compiler();
    return 0;
}
