/* What a device does not take, over the software device, for cuda and for hip: each row is a
 * process of its own, which gets a status and a sentence for what is wrong, then the right result
 * of the next call, and leaves nothing on the device (which says so as the process ends). */
#ifndef STATOR_TEST_DEVICE_ROWS_H
#define STATOR_TEST_DEVICE_ROWS_H

#include "soft_driver.h"

#include <sys/wait.h>

enum { N = 1000 };

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

static inline void expect(const place *p, stator_status got, stator_status status,
                          const char *words)
{
    const char *said = stator_ctx_error_text(p->ctx);
    if (got != status || strstr(said, words) == NULL) {
        (void)fprintf(stderr, "status %d says '%s'; expected %d and '%s'\n", (int)got, said,
                      (int)status, words);
        exit(1);
    }
}

static inline stator_status compile_twice(const place *p, const char *device, const char *key,
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

static inline stator_tensor *tensor_on(const place *p, const char *device)
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
static inline void call_rightly(const place *p, stator_function *f, stator_tensor *in)
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
static inline void expect_works(const place *p)
{
    stator_function *f = NULL;
    CHECK_OK(p->ctx, compile_twice(p, p->device, NULL, NULL, &f));
    call_rightly(p, f, tensor_on(p, p->device));
    stator_function_destroy(f);
}

static _Atomic uint32_t n_deleted;

static inline void on_delete(DLManagedTensorVersioned *managed)
{
    (void)managed;
    n_deleted++;
}

static int64_t all[1] = {N};

static inline DLManagedTensorVersioned capsule_of(void *address, DLDeviceType type, int id)
{
    return (DLManagedTensorVersioned){.version = {.major = DLPACK_MAJOR_VERSION},
                                      .deleter = on_delete,
                                      .dl_tensor = {.data = address,
                                                    .device = {type, id},
                                                    .ndim = 1,
                                                    .dtype = {kDLFloat, 32, 1},
                                                    .shape = all}};
}

/* Memory of device 0 that is not Stator's. */
static inline void *outer_memory(void)
{
    uint64_t address = 0;
    enter_device(0);
    CHECK(cu.alloc(&address, sizeof numbers) == 0);
    return (void *)(uintptr_t)address;
}

static inline void drop_outer_memory(void *address)
{
    CHECK(cu.free((uintptr_t)address) == 0);
}

/* ---- rows ---- */

typedef struct row {
    const char *what;
    void (*run)(const place *p);
    const char *name, *value; /* of the environment; NULL: nothing more */
} row;

static inline void run_row(const row *r, const char *backend, DLDeviceType type)
{
    place p = {.backend = backend, .type = type};
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_CACHE};
    CHECK(r->name == NULL || setenv(r->name, r->value, 1) == 0);
    CHECK(stator_ctx_create(&options, &p.ctx) == STATOR_OK);
    (void)snprintf(p.device, sizeof p.device, "%s:0", backend);
    (void)snprintf(p.other, sizeof p.other, "%s:1", backend);
    open_driver();
    r->run(&p);
    stator_ctx_destroy(p.ctx);
}

/* Each row by itself, for cuda and for hip; how many failed. */
static inline int run_rows(const row *rows, size_t n)
{
    static const struct {
        const char *backend, *library;
        DLDeviceType type;
    } vendors[] = {{"cuda_soft", SOFT_DRIVER, kDLCUDA},
                   {"hip_soft", ST_TEST_BUILD "/tests/softgpu/libamdhip64.so.6", kDLROCM}};
    int n_failed = 0;
    CHECK(setenv("STATOR_SOFT_DEVICE", "1", 1) == 0);
    CHECK(setenv("STATOR_SOFT_DEVICES", "2", 1) == 0);
    CHECK(setvbuf(stdout, NULL, _IONBF, 0) == 0);
    for (int i = 0; i < N; i++) {
        numbers[i] = (float)i + 0.5f;
    }
    for (size_t i = 0; i < n * (sizeof vendors / sizeof vendors[0]); i++) {
        const row *r = &rows[i % n];
        const char *backend = vendors[i / n].backend;
        int status = 0;
        if (access(vendors[i / n].library, F_OK) != 0) {
            (void)printf("this build is without the software device of %s\n", backend);
            continue;
        }
        const pid_t child = fork();
        if (child == 0) {
            run_row(r, backend, vendors[i / n].type);
            exit(0);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            (void)fprintf(stderr, "%s, %s: the process ends with %d\n", backend, r->what, status);
            n_failed++;
        }
    }
    return n_failed;
}

#endif
