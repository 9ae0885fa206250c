/* Launches that the device refuses in a call that writes its inputs where they lie. One is tried
 * again, and the call goes on. Refused twice the call fails: its inputs are what they were, or,
 * when one of them had been written for good, reading them tells so until something else is copied
 * there. What an update wrote over is put back. Never is one of them new and another one old.
 *
 * A fault is injected by the software device, which reads its options once: each has a process of
 * its own. */
#define _GNU_SOURCE
#include "soft_driver.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { N = 12, INPUTS = 3, PLACES = 12, ENDED_WELL = 10, KEPT = 11, LOST = 12 };

/* Three kernels, of which each writes an input. */
static const char step_text[] = "stir 1\n"
                                "graph @main(%p: f32[4, 3], %q: f32[4, 3], %r: f32[4, 3]) {\n"
                                "  %1 = add(%p, %p)\n"
                                "  %2 = cumsum(%q) {axis = 0}\n"
                                "  %3 = reduce_sum(%r) {axes = [0], keepdims = 1}\n"
                                "  %4 = sub(%r, %3)\n"
                                "  %5 = neg(%2)\n"
                                "  %6 = assign(%p, %1)\n"
                                "  %7 = assign(%q, %5)\n"
                                "  %8 = assign(%r, %4)\n"
                                "  return %3\n"
                                "}\n";
/* Updates of two caches, with a result behind them. */
static const char cache_text[] =
    "stir 1\n"
    "graph @main(%p: f32[4, 3], %q: f32[4, 3], %r: f32[4, 3]) {\n"
    "  %i = constant {value = i64[1, 3] {1, 2, 3}}\n"
    "  %u = slice(%r) {starts = [0, 0], sizes = [1, 3], steps = [1, 1]}\n"
    "  %1 = scatter_elements(%p, %i, %u) {axis = 0, reduction = \"none\"}\n"
    "  %2 = scatter_elements(%q, %i, %u) {axis = 0, reduction = \"none\"}\n"
    "  %3 = reduce_sum(%1) {axes = [0], keepdims = 1}\n"
    "  %4 = reduce_sum(%2) {axes = [1], keepdims = 1}\n"
    "  %5 = add(%3, %4)\n"
    "  %6 = assign(%p, %1)\n"
    "  %7 = assign(%q, %2)\n"
    "  return %5\n"
    "}\n";

static const float values[N] = {1, -2, 3, 5, 4, -6, 7, 8, 9, -1, 2, 0.5f};
static const char *backend;

static void read_input(stator_ctx *ctx, stator_tensor *tensor, float *out, stator_status *status)
{
    stator_tensor *host = tensor_2d(ctx, 4, 3, values);
    *status = stator_tensor_copy(ctx, host, tensor);
    memcpy(out, stator_tensor_data(host), sizeof values);
    stator_tensor_release(host);
}

static void write_input(stator_ctx *ctx, stator_tensor *tensor)
{
    stator_tensor *host = tensor_2d(ctx, 4, 3, values);
    CHECK_OK(ctx, stator_tensor_copy(ctx, tensor, host));
    stator_tensor_release(host);
}

/* What the inputs hold: all new, all old, or each tells that it is lost. */
static int state_of(stator_ctx *ctx, stator_tensor *const *in, uint32_t n, float want[][N])
{
    uint32_t n_new = 0, n_old = 0, n_lost = 0;
    for (uint32_t i = 0; i < n; i++) {
        float got[N];
        stator_status status = STATOR_OK;
        read_input(ctx, in[i], got, &status);
        n_lost +=
            status == STATOR_DATA_LOSS &&
            strstr(stator_ctx_error_text(ctx), "inputs that the call writes are lost") != NULL;
        CHECK(status == STATOR_OK || status == STATOR_DATA_LOSS);
        n_new += status == STATOR_OK && memcmp(got, want[i], sizeof got) == 0;
        n_old += status == STATOR_OK && memcmp(got, values, sizeof got) == 0;
    }
    CHECK(n_new == n || n_old == n || n_lost == n);
    return n_new == n ? ENDED_WELL : n_old == n ? KEPT : LOST;
}

/* One call; returns what has come of it. `want`: the inputs behind it, of which n are written; they
 * are filled where is_first. */
static int run(const char *text, uint32_t n, float want[][N], int is_first)
{
    stator_ctx *ctx = NULL;
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_CACHE};
    stator_tensor *in[INPUTS];
    stator_tensor *out = NULL;
    char device[32];
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    stator_model *model = load_text(ctx, text);
    stator_function *f = compile_for(ctx, model, backend);
    (void)snprintf(device, sizeof device, "%s:0", backend);
    for (int i = 0; i < INPUTS; i++) {
        CHECK_OK(ctx,
                 stator_tensor_create_on(ctx, device, STATOR_F32, 2, (int64_t[]){4, 3}, &in[i]));
        write_input(ctx, in[i]);
    }
    const stator_status status = stator_call_tensors(f, INPUTS, in, 1, &out);
    CHECK((out != NULL) == (status == STATOR_OK));
    for (uint32_t i = 0; is_first && i < n; i++) {
        stator_status read = STATOR_OK;
        read_input(ctx, in[i], want[i], &read);
        CHECK(read == STATOR_OK && memcmp(want[i], values, sizeof values) != 0);
    }
    const int state = state_of(ctx, in, n, want);
    CHECK((state == ENDED_WELL) == (status == STATOR_OK));
    CHECK((state == LOST) == (status == STATOR_DATA_LOSS));
    if (state == LOST) { /* neither is it read by another call */
        CHECK(stator_call_tensors(f, INPUTS, in, 1, &out) == STATOR_DATA_LOSS && out == NULL);
    }
    for (uint32_t i = 0; state != ENDED_WELL && i < n; i++) {
        write_input(ctx, in[i]);
    }
    if (state != ENDED_WELL) { /* the next call is right */
        CHECK_OK(ctx, stator_call_tensors(f, INPUTS, in, 1, &out));
        CHECK(state_of(ctx, in, n, want) == ENDED_WELL);
    }
    for (int i = 0; i < INPUTS; i++) {
        stator_tensor_release(in[i]);
    }
    stator_tensor_release(out);
    stator_function_destroy(f);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return state;
}

/* Refuses `in_a_row` launches at each place; how often it came to each end. */
static void try_places(const char *text, uint32_t n, int in_a_row, float want[][N], int count[3])
{
    for (int at = 1; at <= PLACES; at++) {
        int status = 0;
        char option[40];
        (void)snprintf(option, sizeof option, "launch:%d-%d", at, at + in_a_row - 1);
        const pid_t child = fork();
        if (child == 0) {
            CHECK(setenv("STATOR_SOFT_FAIL", option, 1) == 0);
            exit(run(text, n, want, 0)); /* the device tells what is left at the end */
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) < ENDED_WELL || WEXITSTATUS(status) > LOST) {
            (void)fprintf(stderr, "%s, %s: the process ends with %d\n", backend, option, status);
            exit(1);
        }
        count[WEXITSTATUS(status) - ENDED_WELL]++;
    }
}

static void try_graph(const char *text, uint32_t n, int count[3])
{
    float(*want)[N] = mmap(NULL, INPUTS * sizeof *want, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int once[3] = {0};
    int status = 0;
    CHECK(want != MAP_FAILED);
    const pid_t child = fork();
    if (child == 0) {
        exit(run(text, n, want, 1));
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == ENDED_WELL);
    try_places(text, n, 1, want, once);
    CHECK(once[2] == 0);
    try_places(text, n, 2, want, count);
    (void)printf("%s, one launch refused: %d right, %d kept; two: %d right, %d kept, %d lost\n",
                 backend, once[0], once[1], count[0], count[1], count[2]);
    CHECK(munmap(want, INPUTS * sizeof *want) == 0);
}

int main(void)
{
    static const struct {
        const char *name, *library;
    } backends[] = {{"cuda_soft", SOFT_DRIVER},
                    {"hip_soft", ST_TEST_BUILD "/tests/softgpu/libamdhip64.so.6"}};
    CHECK(setenv("STATOR_SOFT_DEVICE", "1", 1) == 0);
    CHECK(setvbuf(stdout, NULL, _IONBF, 0) == 0);
    for (size_t b = 0; b < sizeof backends / sizeof backends[0]; b++) {
        int steps[3] = {0};
        int caches[3] = {0};
        backend = backends[b].name;
        if (access(backends[b].library, F_OK) != 0) {
            (void)printf("this build is without the software device of %s\n", backend);
            continue;
        }
        try_graph(step_text, 3, steps);
        CHECK(steps[0] > 0 && steps[1] > 0 && steps[2] > 0);
        try_graph(cache_text, 2, caches);
        CHECK(caches[0] > 0 && caches[1] > 0 && caches[2] == 0);
    }
    return 0;
}
