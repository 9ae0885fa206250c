/* What a device refuses, at each place of a model where it can, for cuda and for hip: memory,
 * pinned memory, copies, launches, modules, its own loss, and the end of its driver. Each is one
 * sentence, the next call is right (or UNAVAILABLE, when the device is lost), and nothing is left
 * on the device. Also: eight threads on one function, and what warmed calls take from the driver.
 *
 * A fault is injected by the software device, which reads its options once: each has a process
 * of its own. */
#define _GNU_SOURCE
#include "soft_driver.h"

#include <pthread.h>
#include <sys/wait.h>

#define ROWS 16
#define COLUMNS 8
#define CALLS 6
#define IN_A_ROW 4
#define N_THREADS 8
#define NO_FAILURE 10  /* a process's status: nothing failed */
#define PLACES_MAX 400 /* of one kind of fault in a model */
#define QUIET_PLACES 6 /* so many without a failure in turn: the model has no more */

static const char text[] = "stir 1\n"
                           "sym n in [1, 64]\n"
                           "graph @main(%x: f32[n, 8]) {\n"
                           "  %k = constant {value = f32[8] {1, 2, 3, 4, 5, 6, 7, 8}}\n"
                           "  %a = softmax(%x) {axis = 1}\n"
                           "  %b = mul(%a, %k)\n"
                           "  %c = cumsum(%b) {axis = 0}\n"
                           "  %d = reduce_sum(%c) {axes = [1], keepdims = 1}\n"
                           "  return %c, %d\n"
                           "}\n";

static const char *backend; /* that is tried */

static stator_ctx *open_ctx(void)
{
    stator_ctx *ctx = NULL;
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_CACHE};
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    return ctx;
}

static stator_tensor *input(stator_ctx *ctx)
{
    float values[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        values[i] = (float)(i % 13) * 0.25f;
    }
    return tensor_2d(ctx, ROWS, COLUMNS, values);
}

/* The first result of a call, which the host can read. */
static stator_status call(stator_ctx *ctx, stator_function *f, float out[ROWS * COLUMNS])
{
    stator_tensor *in = input(ctx);
    stator_tensor *outs[2] = {NULL, NULL};
    const stator_status status = stator_call_tensors(f, 1, &in, 2, outs);
    if (status == STATOR_OK) {
        memcpy(out, stator_tensor_data(outs[0]), ROWS * COLUMNS * sizeof *out);
    }
    stator_tensor_release(outs[0]);
    stator_tensor_release(outs[1]);
    stator_tensor_release(in);
    return status;
}

/* ---- injected faults ---- */

/* A kind, and how it is tried: `in_a_row` so often it comes, for what asks again by itself; at each
 * `step`-th place; `least` so many places fail. */
typedef struct fault_kind {
    const char *kind;
    int in_a_row, step, least;
    const char *loss; /* what is said for good from then on; NULL: nothing is */
} fault_kind;

static void expect_sentence(stator_ctx *ctx, stator_status status, const fault_kind *fault)
{
    const char *said = stator_ctx_error_text(ctx);
    const int is_known = status == STATOR_RESOURCE_EXHAUSTED || status == STATOR_UNAVAILABLE ||
                         status == STATOR_INTERNAL;
    if (!is_known || said == NULL || strlen(said) < 20 || strchr(said, ' ') == NULL ||
        (fault->loss != NULL && strstr(said, fault->loss) == NULL)) {
        (void)fprintf(stderr, "status %d says '%s'\n", (int)status, said ? said : "");
        exit(1);
    }
}

/* Compiles until it succeeds: what has failed once may be asked again. NULL: the device is lost. */
static stator_function *compile_in_spite(stator_ctx *ctx, stator_model *model,
                                         const fault_kind *fault, int *n_failed)
{
    const stator_compile_options options = {.struct_size = sizeof options, .backend = backend};
    for (int i = 0; i < CALLS; i++) {
        stator_function *f = NULL;
        const stator_status status = stator_compile(model, &options, &f);
        if (status == STATOR_OK) {
            return f;
        }
        CHECK(f == NULL && (fault->loss == NULL || status == STATOR_UNAVAILABLE));
        expect_sentence(ctx, status, fault);
        ++*n_failed;
    }
    return NULL;
}

/* Calls with the fault somewhere; the status of the process. */
static int run_with_fault(const fault_kind *fault, const float *want)
{
    const int is_loss = fault->loss != NULL;
    stator_ctx *ctx = open_ctx();
    stator_model *model = load_text(ctx, text);
    int n_failed = 0;
    int n_failed_calls = 0;
    stator_function *f = compile_in_spite(ctx, model, fault, &n_failed);
    CHECK(f != NULL || is_loss);
    for (int i = 0; i < CALLS && f != NULL; i++) {
        float got[ROWS * COLUMNS];
        const stator_status status = call(ctx, f, got);
        if (status == STATOR_OK) {
            CHECK(!is_loss || n_failed_calls == 0);
            CHECK(memcmp(got, want, sizeof got) == 0);
            continue;
        }
        expect_sentence(ctx, status, fault);
        CHECK(!is_loss || status == STATOR_UNAVAILABLE);
        n_failed_calls++;
    }
    CHECK(is_loss || n_failed + n_failed_calls <= IN_A_ROW);
    stator_function_destroy(f);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return n_failed + n_failed_calls == 0 ? NO_FAILURE : 0;
}

/* How many of the places failed. */
static int try_places(const fault_kind *fault, const float *want)
{
    int n_failing = 0;
    for (int n = 1, n_quiet = 0; n <= PLACES_MAX && n_quiet < QUIET_PLACES; n += fault->step) {
        int status = 0;
        char option[40];
        (void)snprintf(option, sizeof option, "%s:%d-%d", fault->kind, n, n + fault->in_a_row - 1);
        const pid_t child = fork();
        if (child == 0) {
            CHECK(setenv("STATOR_SOFT_FAIL", option, 1) == 0);
            exit(run_with_fault(fault, want)); /* the device tells what is left at the end */
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != NO_FAILURE)) {
            (void)fprintf(stderr, "%s, %s: the process ends with %d\n", backend, option, status);
            exit(1);
        }
        n_quiet = WEXITSTATUS(status) == NO_FAILURE ? n_quiet + 1 : 0;
        n_failing += n_quiet == 0;
    }
    return n_failing;
}

/* ---- threads, and what warmed calls take ---- */

typedef struct worker {
    stator_ctx *ctx;
    stator_function *f;
    const float *want;
} worker;

static void *work(void *self)
{
    const worker *w = self;
    for (int i = 0; i < 10; i++) {
        float got[ROWS * COLUMNS];
        CHECK_OK(w->ctx, call(w->ctx, w->f, got));
        CHECK(memcmp(got, w->want, sizeof got) == 0);
    }
    return NULL;
}

/* What the software device's allocators have been asked for. */
static uint64_t driver_allocs(void)
{
    uint64_t (*calls_of)(const char *) = NULL;
    void *driver = dlopen(SOFT_DRIVER, RTLD_NOW | RTLD_NOLOAD);
    CHECK(driver != NULL);
    *(void **)&calls_of = dlsym(driver, "softGetCalls");
    const uint64_t n = calls_of("alloc") + calls_of("pinned");
    CHECK(dlclose(driver) == 0 && n > 0);
    return n;
}

/* The results of calls, one after the other and from several threads at once. */
static void call_often(float *out)
{
    float again[ROWS * COLUMNS];
    pthread_t threads[N_THREADS];
    stator_ctx *ctx = open_ctx();
    stator_model *model = load_text(ctx, text);
    stator_function *f = compile_for(ctx, model, backend);
    worker w = {ctx, f, out};
    CHECK_OK(ctx, call(ctx, f, out));
    CHECK_OK(ctx, call(ctx, f, again));
    const uint64_t before = driver_allocs();
    for (int i = 0; i < 20; i++) {
        CHECK_OK(ctx, call(ctx, f, again));
        CHECK(memcmp(again, out, sizeof again) == 0);
    }
    CHECK(driver_allocs() == before);
    for (int i = 0; i < N_THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, work, &w) == 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    stator_function_destroy(f);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
}

/* In a process of its own: this one must not have opened the device when it forks. */
static void find_results(float *out)
{
    int ends[2];
    int status = 0;
    CHECK(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
        call_often(out);
        CHECK(write(ends[1], out, ROWS * COLUMNS * sizeof *out) > 0);
        exit(0);
    }
    (void)close(ends[1]); /* a child that fails ends the wait */
    CHECK(read(ends[0], out, ROWS * COLUMNS * sizeof *out) ==
          (ssize_t)(ROWS * COLUMNS * sizeof *out));
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    (void)close(ends[0]);
}

/* ---- processes ---- */

/* A child of a process that has the device open is refused; a process of its own works
 * meanwhile. */
static __attribute__((unused)) void use_two_processes(const float *want)
{
    float got[ROWS * COLUMNS];
    int status = 0;
    int go[2];
    CHECK(pipe(go) == 0);
    const pid_t other = fork(); /* before the device is opened */
    if (other == 0) {
        char byte = 0;
        (void)close(go[1]);
        CHECK(read(go[0], &byte, 1) == 1);
        exit(run_with_fault(&(fault_kind){.kind = "none"}, want) == NO_FAILURE ? 0 : 1);
    }
    stator_ctx *ctx = open_ctx();
    stator_model *model = load_text(ctx, text);
    stator_function *f = compile_for(ctx, model, backend);
    CHECK_OK(ctx, call(ctx, f, got));
    CHECK(write(go[1], "", 1) == 1);
    const pid_t child = fork();
    if (child == 0) {
        const stator_status answer = call(ctx, f, got);
        const int is_right = answer == STATOR_FAILED_PRECONDITION &&
                             strstr(stator_ctx_error_text(ctx), "fork") != NULL;
        if (!is_right) {
            (void)fprintf(stderr, "a child: %d, %s\n", (int)answer, stator_ctx_error_text(ctx));
        }
        _exit(is_right ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(waitpid(other, &status, 0) == other && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_OK(ctx, call(ctx, f, got));
    CHECK(memcmp(got, want, sizeof got) == 0);
    stator_function_destroy(f);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
}

static void try_backend(void)
{
    static const char lost[] = "is lost";
    static const char ended[] = "has shut down";
    static const fault_kind faults[] = {{"alloc", 1, 1, 0, NULL},  {"alloc", IN_A_ROW, 1, 4, NULL},
                                        {"pinned", 1, 1, 1, NULL}, {"pinned", IN_A_ROW, 1, 1, NULL},
                                        {"copy", 1, 1, 3, NULL},   {"module", 1, 1, 3, NULL},
                                        {"launch", 1, 1, 0, NULL}, {"launch", 2, 1, 6, NULL},
                                        {"lost", 1, 1, 6, lost},   {"unload", 1, 3, 6, ended}};
    float want[ROWS * COLUMNS];
    find_results(want);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        const int n = try_places(&faults[i], want);
        (void)printf("%s: %s, %d in a row: %d places fail\n", backend, faults[i].kind,
                     faults[i].in_a_row, n);
        CHECK(n >= faults[i].least);
    }
#if !defined(__SANITIZE_THREAD__) /* which does not follow a fork of a process with threads */
    use_two_processes(want);
#endif
}

int main(void)
{
    static const struct {
        const char *name, *library;
    } backends[] = {{"cuda_soft", SOFT_DRIVER},
                    {"hip_soft", ST_TEST_BUILD "/tests/softgpu/libamdhip64.so.6"}};
    CHECK(setenv("STATOR_SOFT_DEVICE", "1", 1) == 0);
    CHECK(setvbuf(stdout, NULL, _IONBF, 0) == 0); /* a child must not print it again */
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        backend = backends[i].name;
        if (access(backends[i].library, F_OK) != 0) {
            (void)printf("this build is without the software device of %s\n", backend);
            continue;
        }
        /* In a process of its own: none must have opened the device when it forks. */
        int status = 0;
        const pid_t child = fork();
        if (child == 0) {
            try_backend();
            exit(0);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    return 0;
}
