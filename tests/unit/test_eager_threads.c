/* Many threads on one function of the reference backend, and many compiles of one model. */
#include "tests/unit/support_run.h"

#include <criterion/criterion.h>
#include <pthread.h>

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

Test(eager_threads, eight_callers)
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

Test(eager_threads, compiles_at_once)
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
