/* Many threads on one function of the reference backend, and many compiles of one model. */
#define _DEFAULT_SOURCE /* setenv */
#include "tests/unit/support_run.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static stator_status call1(stator_function *f, stator_tensor *x, stator_tensor **y)
{
    stator_tensor *const in[] = {x};
    *y = NULL;
    return stator_call_tensors(f, 1, in, 1, y);
}

typedef struct caller {
    stator_ctx *ctx;
    stator_function *f;
    int wrong;
} caller;

static void *call_many(void *arg)
{
    caller *c = arg;
    for (int64_t k = 0; k < 50; k++) {
        float data[64];
        const int64_t n = k % 31 + 1;
        const int64_t shape[] = {n, 2};
        for (int i = 0; i < 64; i++) {
            data[i] = (float)(i + k);
        }
        stator_tensor *x = run_tensor(c->ctx, STATOR_F32, 2, shape, data);
        stator_tensor *y;
        if (call1(c->f, x, &y) != STATOR_OK) {
            c->wrong++;
        } else {
            float sum = 0;
            for (int64_t i = 0; i < 2 * n; i++) {
                sum += data[i] * 2;
            }
            c->wrong += ((float *)stator_tensor_data(y))[0] != sum;
            stator_tensor_release(y);
        }
        stator_tensor_release(x);
    }
    return NULL;
}

Test(eager_threads, eight_threads_call_one_function)
{
    static const char text[] = "stir 1\nsym N in [1, 64]\ngraph @m(%x: f32[N, 2]) {\n"
                               "  %1 = add(%x, %x)\n"
                               "  %2 = transpose(%1) {perm = [1, 0]}\n"
                               "  %3 = reduce_sum(%2) {axes = [0, 1]}\n"
                               "  return %3\n}\n";
    stator_ctx *ctx = run_context();
    caller c[8];
    pthread_t threads[8];
    stator_function *f = run_compile(ctx, "eager", text, "callers");
    cr_assert_not_null(f);
    for (int i = 0; i < 8; i++) {
        c[i] = (caller){ctx, f, 0};
        cr_assert_eq(pthread_create(&threads[i], NULL, call_many, &c[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        (void)pthread_join(threads[i], NULL);
        cr_expect_eq(c[i].wrong, 0);
    }
    stator_function_destroy(f);
    stator_ctx_destroy(ctx);
}

static const char small[] = "stir 1\nsym N in [1, 64]\ngraph @m(%x: f32[N, 2]) {\n"
                            "  %1 = add(%x, %x)\n"
                            "  %2 = transpose(%1) {perm = [1, 0]}\n"
                            "  %3 = reduce_sum(%2) {axes = [0, 1]}\n"
                            "  return %3\n}\n";

static void *compile_and_call(void *arg)
{
    caller *c = arg;
    for (int k = 0; k < 5; k++) {
        c->f = run_compile(c->ctx, "eager", small, "compile");
        if (!c->f) {
            c->wrong++;
            return NULL;
        }
        (void)call_many(c);
        stator_function_destroy(c->f);
    }
    return NULL;
}

Test(eager_threads, four_threads_compile_at_once)
{
    stator_ctx *ctx = run_context();
    caller c[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        c[i] = (caller){ctx, NULL, 0};
        cr_assert_eq(pthread_create(&threads[i], NULL, compile_and_call, &c[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
        cr_expect_eq(c[i].wrong, 0);
    }
    stator_ctx_destroy(ctx);
}

/* ---- the environment ---- */

static atomic_int env_stop, env_reads;

static void *read_environment(void *arg)
{
    int *missing = arg;
    while (!atomic_load(&env_stop)) {
        const char *value = getenv("STATOR_TEST_LAST");
        *missing += value == NULL || strcmp(value, "here") != 0;
        atomic_fetch_add(&env_reads, 1);
    }
    return NULL;
}

/* The first matrix product looks for a BLAS and tells it the kind of processor: readers of the
 * environment in other threads see it whole all the time, and nothing is left in it. */
Test(eager_threads, environment_is_unchanged_and_readable_while_blas_loads)
{
    static const char text[] = "stir 1\ngraph @m() {\n"
                               "  %1 = constant {value = f32[2, 2] {1, 2, 3, 4}}\n"
                               "  %2 = matmul(%1, %1)\n"
                               "  return %2\n}\n";
    pthread_t reader;
    stator_tensor *y = NULL;
    int missing = 0;
    cr_assert_eq(setenv("STATOR_TEST_LAST", "here", 1), 0);
    cr_assert_eq(unsetenv("OPENBLAS_CORETYPE"), 0);
    stator_ctx *ctx = run_context();
    stator_function *f = run_compile(ctx, "eager", text, "environment");
    cr_assert_not_null(f);
    cr_assert_eq(pthread_create(&reader, NULL, read_environment, &missing), 0);
    while (atomic_load(&env_reads) == 0) {
    }
    cr_expect_eq(stator_call_tensors(f, 0, NULL, 1, &y), STATOR_OK);
    atomic_store(&env_stop, 1);
    (void)pthread_join(reader, NULL);
    cr_expect_eq(missing, 0);
    cr_expect_null(getenv("OPENBLAS_CORETYPE"));
    cr_expect_eq(((float *)stator_tensor_data(y))[3], 22.0f);
    stator_tensor_release(y);
    stator_function_destroy(f);
    stator_ctx_destroy(ctx);
}
