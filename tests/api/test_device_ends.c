/* The end of a process that uses devices, over the software device, for cuda and for hip. The
 * driver ends before what was registered to run at exit earlier than it, as the vendors' do, and
 * takes all memory with it, pinned memory too: what the application then asks of a device is
 * refused with a sentence, what it destroys is destroyed, and the process ends as it was to. */
#define _GNU_SOURCE
#include "soft_driver.h"

#include <sys/wait.h>

enum { ROWS = 16, COLUMNS = 8, NO_MAIN = 7 };

/* Checks in a kernel, a product by the library, constants: what has memory of the driver's. */
static const char text[] = "stir 1\n"
                           "graph @main(%x: f32[16, 8], %i: i64[4]) {\n"
                           "  %k = constant {value = f32[8] {1, 2, 3, 4, 5, 6, 7, 8}}\n"
                           "  %a = mul(%x, %k)\n"
                           "  %t = transpose(%x) {perm = [1, 0]}\n"
                           "  %p = matmul(%a, %t)\n"
                           "  %y = gather(%p, %i) {axis = 0}\n"
                           "  return %y\n"
                           "}\n";

/* What the application has made, as a static of a C++ program would hold it. */
static struct application {
    const char *backend;
    stator_ctx *ctx;
    stator_model *model;
    stator_function *f;
    stator_tensor *in[2];
    stator_tensor *device; /* the first input's elements, on the device */
    stator_tensor *out;    /* on the device; the call may still be under way */
    uint32_t is_driverless;
} app;

static void begin(void)
{
    static const int64_t rows[1] = {4};
    static const int64_t shape[2] = {ROWS, COLUMNS};
    static const float values[ROWS * COLUMNS];
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_CACHE};
    char device[32];
    (void)snprintf(device, sizeof device, "%s:0", app.backend);
    CHECK(stator_ctx_create(&options, &app.ctx) == STATOR_OK);
    app.model = load_text(app.ctx, text);
    app.f = compile_for(app.ctx, app.model, app.backend);
    app.in[0] = tensor_2d(app.ctx, ROWS, COLUMNS, values);
    CHECK_OK(app.ctx, stator_tensor_create(app.ctx, STATOR_I64, 1, rows, &app.in[1]));
    memset(stator_tensor_data(app.in[1]), 0, stator_tensor_size_bytes(app.in[1]));
    CHECK_OK(app.ctx, stator_tensor_create_on(app.ctx, device, STATOR_F32, 2, shape, &app.device));
    CHECK_OK(app.ctx, stator_tensor_copy(app.ctx, app.device, app.in[0]));
}

static stator_status call(stator_tensor **out)
{
    stator_tensor *const in[2] = {app.device, app.in[1]};
    *out = NULL;
    return stator_call_tensors(app.f, 2, in, 1, out);
}

static void expect_ended(stator_status status)
{
    const char *said = stator_ctx_error_text(app.ctx);
    if (status != STATOR_UNAVAILABLE || strstr(said, "has shut down") == NULL) {
        (void)fprintf(stderr, "status %d says '%s'\n", (int)status, said);
        _exit(1);
    }
}

/* Whatever needs the device is refused, each time. */
static void use_in_vain(void)
{
    stator_tensor *tensor = NULL;
    DLManagedTensorVersioned *capsule = NULL;
    const int64_t shape[2] = {ROWS, COLUMNS};
    for (int i = 0; i < 2; i++) {
        expect_ended(call(&tensor));
        expect_ended(stator_tensor_copy(app.ctx, app.device, app.in[0]));
        expect_ended(stator_tensor_copy(app.ctx, app.in[0], app.device));
        if (app.out != NULL) {
            expect_ended(stator_tensor_to_dlpack(app.out, &capsule));
            expect_ended(stator_tensor_wait(app.ctx, app.out));
            expect_ended(stator_function_wait(app.f));
        }
    }
    CHECK_OK(app.ctx, stator_tensor_create(app.ctx, STATOR_F32, 2, shape, &tensor));
    stator_tensor_release(tensor); /* the host's memory is as it was */
}

static void end(void)
{
    stator_tensor_release(app.out);
    stator_tensor_release(app.device);
    stator_tensor_release(app.in[0]);
    stator_tensor_release(app.in[1]);
    stator_function_destroy(app.f);
    stator_model_destroy(app.model);
    stator_ctx_destroy(app.ctx);
}

/* ---- ways to end ---- */

static void use_and_end(void)
{
    if (app.is_driverless) {
        use_in_vain();
    }
    end();
}

/* Everything is destroyed behind the driver's end, by what was registered before it. */
static void end_behind_the_driver(void)
{
    stator_tensor *out = NULL;
    CHECK(atexit(use_and_end) == 0);
    begin();
    CHECK_OK(app.ctx, call(&out));
    CHECK_OK(app.ctx, stator_tensor_wait(app.ctx, out));
    stator_tensor_release(out);
    app.is_driverless = 1;
}

/* The same with a call under way. */
static void end_within_a_call(void)
{
    CHECK(atexit(use_and_end) == 0);
    begin();
    CHECK_OK(app.ctx, call(&app.out));
    app.is_driverless = 1;
}

/* The driver was begun before the handler was registered, and ends behind it. */
static void end_before_the_driver(void)
{
    CHECK(setenv("STATOR_SOFT_LEAKS", "1", 1) == 0);
    begin();
    CHECK_OK(app.ctx, call(&app.out));
    CHECK(atexit(use_and_end) == 0);
}

/* Nothing is destroyed: the process just ends, with a call under way. */
static void end_without_a_word(void)
{
    begin();
    CHECK_OK(app.ctx, call(&app.out));
}

/* A context whose driver has ended is destroyed, and another one finds no device. */
static void begin_again(void)
{
    stator_ctx *ctx = NULL;
    stator_function *f = NULL;
    use_and_end();
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_CACHE};
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    app = (struct application){.ctx = ctx, .backend = app.backend, .model = load_text(ctx, text)};
    const stator_compile_options compile = {.struct_size = sizeof compile, .backend = app.backend};
    expect_ended(stator_compile(app.model, &compile, &f));
    end();
}

static void end_and_begin(void)
{
    CHECK(atexit(begin_again) == 0);
    begin();
    CHECK_OK(app.ctx, call(&app.out));
    app.is_driverless = 1;
}

int main(void)
{
    static const struct {
        const char *name, *library;
    } backends[] = {{"cuda_soft", SOFT_DRIVER},
                    {"hip_soft", ST_TEST_BUILD "/tests/softgpu/libamdhip64.so.6"}};
    static void (*const ways[])(void) = {end_behind_the_driver, end_within_a_call,
                                         end_before_the_driver, end_without_a_word, end_and_begin};
    CHECK(setenv("STATOR_SOFT_DEVICE", "1", 1) == 0);
    CHECK(setenv("STATOR_SOFT_LEAKS", "0", 1) == 0); /* what lives when the driver ends */
    CHECK(setvbuf(stdout, NULL, _IONBF, 0) == 0);
    for (size_t b = 0; b < sizeof backends / sizeof backends[0]; b++) {
        app.backend = backends[b].name;
        if (access(backends[b].library, F_OK) != 0) {
            (void)printf("this build is without the software device of %s\n", app.backend);
            continue;
        }
        for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
            int status = 0;
            const pid_t child = fork();
            if (child == 0) {
                ways[i]();
                exit(NO_MAIN);
            }
            CHECK(child > 0 && waitpid(child, &status, 0) == child);
            if (!WIFEXITED(status) || WEXITSTATUS(status) != NO_MAIN) {
                (void)fprintf(stderr, "%s, way %zu: the process ends with %d\n", app.backend, i,
                              status);
                return 1;
            }
        }
    }
    return 0;
}
