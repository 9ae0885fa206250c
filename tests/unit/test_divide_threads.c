/* Threads: eight callers of one function whose loop the host runs, and whose 20 inputs take their
 * arrays from the function's free list. Each result is what one thread gets from eager. */
#include "tests/unit/support_run.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define CALLERS 8
#define ROUNDS 30
#define INPUTS 20

typedef struct job {
    stator_function *function;
    stator_tensor *in[INPUTS];
    stator_tensor *want;
    int failures;
} job;

/* A loop of x0 iterations over the sum of the other inputs. */
static void write_model(char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "stir 1\ngraph @m(%%x0: i64[]");
    for (int i = 1; i < INPUTS; i++) {
        n += (size_t)snprintf(text + n, size - n, ", %%x%d: f32[8]", i);
    }
    n += (size_t)snprintf(text + n, size - n, ") {\n  %%s1 = neg(%%x1)\n");
    for (int i = 2; i < INPUTS; i++) {
        n += (size_t)snprintf(text + n, size - n, "  %%s%d = add(%%s%d, %%x%d)\n", i, i - 1, i);
    }
    (void)snprintf(text + n, size - n,
                   "  %%t = constant {value = bool[] {true}} : bool[]\n"
                   "  %%y, %%z = while(%%x0, %%t, %%s%d) {carried = 1, stacked = 1}\n"
                   "    region @body(%%i: i64[], %%a: f32[8]) {\n"
                   "      %%t = constant {value = bool[] {true}} : bool[]\n"
                   "      %%b = tanh(%%a)\n"
                   "      %%c = add(%%a, %%b)\n"
                   "      return %%t, %%c, %%b\n"
                   "    }\n"
                   "  %%r = reduce_sum(%%z) {axes = [0]}\n"
                   "  %%o = mul(%%y, %%r)\n"
                   "  return %%o\n}\n",
                   INPUTS - 1);
}

static void *call_shared(void *self)
{
    job *j = self;
    for (int round = 0; round < ROUNDS; round++) {
        stator_tensor *out = NULL;
        if (stator_call_tensors(j->function, INPUTS, j->in, 1, &out) != STATOR_OK) {
            j->failures++;
            continue;
        }
        j->failures += memcmp(stator_tensor_data(out), stator_tensor_data(j->want),
                              stator_tensor_size_bytes(out)) != 0;
        stator_tensor_release(out);
    }
    return NULL;
}

static void fill(stator_ctx *ctx, job *j, int64_t trips)
{
    static const int64_t shape[1] = {8};
    j->in[0] = run_tensor(ctx, STATOR_I64, 0, NULL, &trips);
    for (int i = 1; i < INPUTS; i++) {
        float values[8];
        for (int k = 0; k < 8; k++) {
            values[k] = (float)((i * 5 + k * 3 + trips) % 13) * 0.125f - 0.5f;
        }
        j->in[i] = run_tensor(ctx, STATOR_F32, 1, shape, values);
    }
}

Test(divide_threads, many_threads_call_one_host_loop)
{
    static const char *const dirs[] = {ST_TEST_BUILD "/lib/stator/plugins-1",
                                       ST_TEST_BUILD "/tests/plugins"};
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_ENV,
                                        .threads = 1,
                                        .plugin_dir_count = 2,
                                        .plugin_dirs = dirs};
    static char text[4096];
    static job jobs[CALLERS];
    stator_ctx *ctx = NULL;
    pthread_t threads[CALLERS];
    cr_assert_eq(stator_ctx_create(&options, &ctx), STATOR_OK);
    write_model(text, sizeof text);
    stator_function *eager = run_compile(ctx, "eager", text, "threads");
    stator_function *divided = run_compile(ctx, "divided", text, "threads");
    cr_assert(eager && divided);
    for (int i = 0; i < CALLERS; i++) {
        fill(ctx, &jobs[i], i);
        jobs[i].function = divided;
        cr_assert_eq(stator_call_tensors(eager, INPUTS, jobs[i].in, 1, &jobs[i].want), STATOR_OK,
                     "%s", stator_ctx_error_text(ctx));
    }
    for (int i = 0; i < CALLERS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, call_shared, &jobs[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
        cr_expect_eq(jobs[i].failures, 0);
        stator_tensor_release(jobs[i].want);
        for (int k = 0; k < INPUTS; k++) {
            stator_tensor_release(jobs[i].in[k]);
        }
    }
    stator_function_destroy(eager);
    stator_function_destroy(divided);
    stator_ctx_destroy(ctx);
}
