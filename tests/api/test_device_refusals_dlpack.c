/* DLPack tensors that a device does not take, or not so: taken by another context, longer than
 * their memory, not to be written. See device_rows.h. */
#define _GNU_SOURCE
#include "device_rows.h"

#include <pthread.h>
#include <sys/mman.h>

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

/* ---- a capsule that must not be written, or not so ---- */

static const char increments[] = "stir 1\n"
                                 "graph @main(%x: f32[500], %y: f32[500]) {\n"
                                 "  %sum = add(%x, %y)\n"
                                 "  %new = assign(%x, %sum)\n"
                                 "  return %sum\n"
                                 "}\n";

static void get_bytes(void *host, const void *address, bool is_host)
{
    if (is_host) {
        memcpy(host, address, sizeof numbers);
        return;
    }
    enter_device(0);
    CHECK(cu.to_host(host, (uintptr_t)address, sizeof numbers, NULL) == 0);
    CHECK(cu.stream_wait(NULL) == 0);
}

/* The capsule as the input that the call adds to itself; expects the elements behind it. */
static void expect_written(const place *p, DLManagedTensorVersioned *managed, stator_status status,
                           const char *words, const float *elements)
{
    float now[N];
    const bool is_host = managed->dl_tensor.device.device_type == kDLCPU;
    const stator_compile_options options = {.struct_size = sizeof options, .device = p->device};
    stator_model *model = load_text(p->ctx, increments);
    stator_function *f = NULL;
    stator_tensor *in[2] = {NULL, NULL};
    stator_tensor *out = NULL;
    CHECK_OK(p->ctx, stator_compile(model, &options, &f));
    CHECK_OK(p->ctx, stator_tensor_from_dlpack(p->ctx, managed, &in[0]));
    CHECK_OK(p->ctx, stator_tensor_create(p->ctx, STATOR_F32, 1, (int64_t[]){N / 2}, &in[1]));
    memcpy(stator_tensor_data(in[1]), numbers, sizeof numbers / 2);
    expect(p, stator_call_tensors(f, 2, in, 1, &out), status, words);
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
    stator_tensor_release(out);
    get_bytes(now, managed->dl_tensor.data, is_host);
    CHECK(memcmp(now, elements, sizeof now) == 0);
    stator_function_destroy(f);
    stator_model_destroy(model);
}

/* It is neither a result nor what is copied to. */
static void expect_read_only(const place *p, DLManagedTensorVersioned *managed)
{
    static const char words[] = "is read-only, as its DLPack tensor says";
    stator_function *f = NULL;
    stator_tensor *tensor = NULL;
    stator_tensor *host = tensor_on(p, "cpu");
    DLManagedTensorVersioned *given = NULL;
    CHECK_OK(p->ctx, compile_twice(p, p->device, NULL, NULL, &f));
    CHECK_OK(p->ctx, stator_tensor_from_dlpack(p->ctx, managed, &tensor));
    expect(p, stator_call_tensors(f, 1, &host, 1, &tensor), STATOR_INVALID_ARGUMENT, words);
    expect(p, stator_tensor_copy(p->ctx, tensor, host), STATOR_INVALID_ARGUMENT, words);
    CHECK_OK(p->ctx, stator_tensor_copy(p->ctx, host, tensor));
    CHECK(stator_tensor_to_dlpack(tensor, &given) == STATOR_OK);
    CHECK(given->flags == DLPACK_FLAG_BITMASK_READ_ONLY);
    given->deleter(given);
    stator_tensor_release(tensor);
    call_rightly(p, f, host);
    stator_function_destroy(f);
}

static void check_writes(const place *p, DLManagedTensorVersioned managed)
{
    static int64_t half[1] = {N / 2};
    float elements[N];
    int64_t stride = 2;
    DLManagedTensorVersioned part = managed;
    part.dl_tensor.shape = half;
    part.dl_tensor.strides = &stride;
    memcpy(elements, numbers, sizeof elements);
    managed.flags = part.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    expect_read_only(p, &managed);
    expect_written(p, &part, STATOR_INVALID_ARGUMENT, "writes input 0, which is read-only",
                   numbers);
    part.flags = 0;
    stride = 0;
    expect_written(p, &part, STATOR_INVALID_ARGUMENT, "several elements may lie in one place",
                   numbers);
    stride = 2;
    for (int i = 0; i < N / 2; i++) {
        elements[2 * i] += numbers[i];
    }
    expect_written(p, &part, STATOR_OK, "", elements);
}

/* On the device, and in memory of the host that nobody can write, where that is tried. */
static void kept_capsules(const place *p)
{
    float *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    memcpy(page, numbers, sizeof numbers);
    CHECK(mprotect(page, 4096, PROT_READ) == 0);
    DLManagedTensorVersioned closed = capsule_of(page, kDLCPU, 0);
    closed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    expect_works(p);
    expect_read_only(p, &closed);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
    check_writes(p, capsule_of(page, kDLCPU, 0));
    void *address = outer_memory();
    CHECK(cu.to_device((uintptr_t)address, numbers, sizeof numbers, NULL) == 0);
    CHECK(cu.stream_wait(NULL) == 0);
    check_writes(p, capsule_of(address, p->type, 0));
    drop_outer_memory(address);
    CHECK(munmap(page, 4096) == 0);
}

int main(void)
{
    static const row rows[] = {{"capsules that are taken", taken_capsules, NULL, NULL},
                               {"capsules that are too long", long_capsules, NULL, NULL},
                               {"capsules that are kept", kept_capsules, NULL, NULL}};
    return run_rows(rows, sizeof rows / sizeof rows[0]) == 0 ? 0 : 1;
}
