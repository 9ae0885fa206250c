/* Eight threads on one function of inductor-cpu, concurrent compiles, and both at once: every
 * result has the bits of what one thread computed before.
 *
 * The subjects: pointwise ops and reductions in kernels, a perceptron whose products are oneDNN's
 * with packed weights, and rows whose number is a symbol, so that calls of several sizes share
 * kernels, plans of oneDNN and spare workspaces. Compiles are compared across functions, so
 * products stay below the size from which oneDNN's ways are chosen by the clock. */
#include "tests/unit/support_run.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLERS 8
#define CALLS 40
#define COMPILES 3
#define COLUMNS 64
#define ROWS 48
#define TEXT_BYTES 262144u

/* A team of libgomp synchronises by means that tsan does not see, and LeakSanitizer dies of the
 * teams of threads that have ended ("Tracer caught signal 11"). */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define TEAM 1
#else
#define TEAM 2
#endif

typedef struct subject {
    const char *name;
    const char *head;
    const char *body;
    int is_symbolic; /* its first input has any number of rows */
} subject;

/* %w and %v are constants of [64, 64]. */
static const subject subjects[] = {
    {"rows", "graph @m(%x: f32[48, 64]) {\n",
     "  %1 = tanh(%x)\n"
     "  %2 = reduce_sum(%1) {axes = [1], keepdims = 1}\n"
     "  %3 = sub(%x, %2)\n"
     "  %4 = softmax(%3)\n"
     "  %5 = reduce_max(%4) {axes = [0], keepdims = 1}\n"
     "  %6 = div(%4, %5)\n"
     "  return %6\n}\n",
     0},
    {"perceptron", "graph @m(%x: f32[48, 64]) {\n",
     "  %1 = matmul(%x, %w)\n"
     "  %2 = relu(%1)\n"
     "  %3 = matmul(%2, %v)\n"
     "  %4 = add(%3, %x)\n"
     "  return %4\n}\n",
     0},
    {"sizes", "sym N in [1, 64]\ngraph @m(%x: f32[N, 64]) {\n",
     "  %1 = matmul(%x, %w)\n"
     "  %2 = layer_norm(%1)\n"
     "  %3 = transpose(%2) {perm = [1, 0]}\n"
     "  %4 = cumsum(%3) {axis = 1}\n"
     "  %5 = softmax(%4)\n"
     "  %6 = transpose(%5) {perm = [1, 0]}\n"
     "  return %6\n}\n",
     1},
};
#define SUBJECTS (sizeof subjects / sizeof subjects[0])

/* ---- texts ---- */

static size_t add_weights(char *text, size_t len, const char *name, int seed)
{
    len += (size_t)snprintf(text + len, TEXT_BYTES - len,
                            "  %%%s = constant {value = f32[64, 64] {", name);
    for (int i = 0; i < COLUMNS * COLUMNS; i++) {
        len += (size_t)snprintf(text + len, TEXT_BYTES - len, "%s%d.%d", i ? ", " : "",
                                (i * seed) % 3 - 1, (i * seed) % 7);
    }
    return len + (size_t)snprintf(text + len, TEXT_BYTES - len, "}}\n");
}

/* Freed by the caller. */
static char *text_of(const subject *s)
{
    char *text = malloc(TEXT_BYTES);
    cr_assert_not_null(text);
    size_t len = (size_t)snprintf(text, TEXT_BYTES, "stir 1\n%s", s->head);
    if (strstr(s->body, "%w") != NULL) {
        len = add_weights(text, len, "w", 5);
    }
    if (strstr(s->body, "%v") != NULL) {
        len = add_weights(text, len, "v", 11);
    }
    cr_assert_lt(len + strlen(s->body), (size_t)TEXT_BYTES);
    memcpy(text + len, s->body, strlen(s->body) + 1);
    return text;
}

/* ---- calls ---- */

typedef struct job {
    stator_ctx *ctx;
    stator_function *shared; /* what call_shared calls */
    const char *text;        /* what compile_own compiles */
    const subject *of;
    int number;
    int64_t rows[2]; /* calls alternate between two sizes */
    float *want[2];
    int wrong;
} job;

static int64_t rows_of(const subject *s, int number, int call)
{
    return s->is_symbolic ? 1 + (number * 13 + call * 29) % 64 : ROWS;
}

static stator_tensor *call_once(const job *j, stator_function *f, int call)
{
    float values[64 * COLUMNS];
    const int64_t shape[2] = {j->rows[call], COLUMNS};
    for (int i = 0; i < 64 * COLUMNS; i++) {
        values[i] = (float)((i * 7 + j->number * 3 + call) % 23) * 0.125f - 1.25f;
    }
    stator_tensor *y = NULL;
    stator_tensor *x = run_tensor(j->ctx, STATOR_F32, 2, shape, values);
    stator_tensor *const in[] = {x};
    const stator_status status = x ? stator_call_tensors(f, 1, in, 1, &y) : STATOR_INTERNAL;
    stator_tensor_release(x);
    return status == STATOR_OK ? y : NULL;
}

static void check_once(job *j, stator_function *f, int call)
{
    stator_tensor *y = call_once(j, f, call);
    const size_t bytes = (size_t)j->rows[call] * COLUMNS * sizeof(float);
    j->wrong += y == NULL || stator_tensor_size_bytes(y) != bytes ||
                memcmp(stator_tensor_data(y), j->want[call], bytes) != 0;
    stator_tensor_release(y);
}

static void *call_shared(void *self)
{
    job *j = self;
    for (int k = 0; k < CALLS; k++) {
        check_once(j, j->shared, k % 2);
    }
    return NULL;
}

static void *compile_own(void *self)
{
    job *j = self;
    for (int k = 0; k < COMPILES; k++) {
        stator_function *f = run_compile(j->ctx, "inductor-cpu", j->text, j->of->name);
        if (f == NULL) {
            j->wrong++;
            continue;
        }
        check_once(j, f, 0);
        check_once(j, f, 1);
        stator_function_destroy(f);
    }
    return NULL;
}

/* ---- what one thread gets ---- */

static void expect_close(const job *j, const float *want, stator_tensor *y, int64_t n)
{
    cr_assert_not_null(y);
    const float *got = stator_tensor_data(y);
    for (int64_t i = 0; i < n; i++) {
        cr_assert(fabsf(got[i] - want[i]) <= 1e-4f * (1.0f + fabsf(want[i])),
                  "%s, element %d: %g on eager, %g", j->of->name, (int)i, (double)got[i],
                  (double)want[i]);
    }
    stator_tensor_release(y);
}

/* Fills j->want by f; eager says about the same. */
static void learn(job *j, stator_function *f, stator_function *eager)
{
    for (int call = 0; call < 2; call++) {
        j->rows[call] = rows_of(j->of, j->number, call);
        stator_tensor *y = call_once(j, f, call);
        cr_assert_not_null(y, "%s", stator_ctx_error_text(j->ctx));
        j->want[call] = malloc(stator_tensor_size_bytes(y));
        cr_assert_not_null(j->want[call]);
        memcpy(j->want[call], stator_tensor_data(y), stator_tensor_size_bytes(y));
        stator_tensor_release(y);
        expect_close(j, j->want[call], call_once(j, eager, call), j->rows[call] * COLUMNS);
    }
}

static stator_ctx *open_context(void)
{
    static const char *const dirs[] = {ST_TEST_BUILD "/lib/stator/plugins-1"};
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_ENV,
                                        .threads = TEAM,
                                        .plugin_dir_count = 1,
                                        .plugin_dirs = dirs};
    stator_ctx *ctx = NULL;
    cr_assert_eq(stator_ctx_create(&options, &ctx), STATOR_OK);
    return ctx;
}

/* ---- many threads ---- */

/* Of the eight, `compilers` compile for themselves and the others call one function. */
static void run_eight(const subject *s, int compilers)
{
    job jobs[CALLERS];
    pthread_t threads[CALLERS];
    stator_ctx *ctx = open_context();
    char *text = text_of(s);
    stator_function *eager = run_compile(ctx, "eager", text, s->name);
    stator_function *f = run_compile(ctx, "inductor-cpu", text, s->name);
    cr_assert(eager != NULL && f != NULL);
    for (int i = 0; i < CALLERS; i++) {
        jobs[i] = (job){.ctx = ctx, .shared = f, .text = text, .of = s, .number = i};
        learn(&jobs[i], f, eager);
    }
    for (int i = 0; i < CALLERS; i++) {
        cr_assert_eq(
            pthread_create(&threads[i], NULL, i < compilers ? compile_own : call_shared, &jobs[i]),
            0);
    }
    for (int i = 0; i < CALLERS; i++) {
        (void)pthread_join(threads[i], NULL);
        cr_expect_eq(jobs[i].wrong, 0, "%s, thread %d: %d results differ", s->name, i,
                     jobs[i].wrong);
        free(jobs[i].want[0]);
        free(jobs[i].want[1]);
    }
    stator_function_destroy(f);
    stator_function_destroy(eager);
    free(text);
    stator_ctx_destroy(ctx);
}

Test(llvm_threads, eight_threads_call_one_kernel)
{
    for (size_t i = 0; i < SUBJECTS; i++) {
        run_eight(&subjects[i], 0);
    }
}

Test(llvm_threads, eight_compiles)
{
    for (size_t i = 0; i < SUBJECTS; i++) {
        run_eight(&subjects[i], CALLERS);
    }
}

Test(llvm_threads, compiles_run_concurrently_with_calls)
{
    for (size_t i = 0; i < SUBJECTS; i++) {
        run_eight(&subjects[i], CALLERS / 2);
    }
}
