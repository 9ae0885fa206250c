/* Sizes that broadcast, known only when the program runs: a symbolic axis that turns out to be 1, a
 * formula beyond the limits of the symbolic engine, sizes that do not fit. The same graph on eager
 * (kernels) and aot_eager (decompositions); wanted values are computed here. */
#include "tests/unit/support_run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Three unrelated batch sizes: the broadcast of all three is beyond a limit and becomes a symbol
 * that the running program binds. not(t) chooses %5, which canonicalize turns into another
 * select. */
static const char graph[] = "stir 1\n"
                            "sym a in [0, 8]\nsym b in [0, 8]\nsym c in [0, 8]\nsym n in [0, 8]\n"
                            "graph @m(%x: f32[a, 1, 2], %y: f32[b, 2, 2], %z: f32[c, 2, 1],\n"
                            "         %w: f32[n]) {\n"
                            "  %1 = matmul(%x, %y)\n"
                            "  %2 = matmul(%1, %z)\n"
                            "  %3 = reduce_sum(%2) {axes = [1, 2]}\n"
                            "  %4 = einsum(%x, %y, %z) {equation = \"bij,bjk,bkl->b\"}\n"
                            "  %5 = einsum(%x, %y, %z) {equation = \"bij,bjk,bkl->\"}\n"
                            "  %6 = reduce_sum(%w) {axes = [0]}\n"
                            "  %t = gt(%3, %w)\n"
                            "  %n = bit_not(%t)\n"
                            "  %7 = select(%n, %3, %w)\n"
                            "  %8 = mul(%7, %w)\n"
                            "  %9 = mul(%w, %w)\n"
                            "  return %3, %w, %4, %w, %5, %6, %8, %9\n"
                            "}\n";

/* Element i of an input: small integers, so that every sum is exact. */
static int value_at(int salt, int i)
{
    return (i * 7 + salt * 3) % 5 - 2;
}

static void put_tensor(char *text, size_t size, const char *shape, const int *values, int n)
{
    size_t at = strlen(text);
    for (int twice = 0; twice < 2; twice++) { /* before the call and after it */
        at += (size_t)snprintf(text + at, size - at, "  %%%c%d = constant {value = f32[%s] {",
                               "xyzw"[values[n]], twice, shape);
        for (int i = 0; i < n; i++) {
            at += (size_t)snprintf(text + at, size - at, "%s%d", i ? ", " : "", values[i]);
        }
        at += (size_t)snprintf(text + at, size - at, "}}\n");
    }
}

static void put_filled(char *text, size_t size, int which, int count, const char *rest, int each)
{
    char shape[32];
    int values[64];
    for (int i = 0; i < count * each; i++) {
        values[i] = value_at(which, i);
    }
    values[count * each] = which;
    snprintf(shape, sizeof shape, "%d%s", count, rest);
    put_tensor(text, size, shape, values, count * each);
}

/* x y z of batch k, each of whose sizes may be 1. */
static int product(const int sizes[3], int k)
{
    int sum = 0;
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            const int x = value_at(0, (sizes[0] == 1 ? 0 : k) * 2 + i);
            const int y = value_at(1, (sizes[1] == 1 ? 0 : k) * 4 + i * 2 + j);
            const int z = value_at(2, (sizes[2] == 1 ? 0 : k) * 2 + j);
            sum += x * y * z;
        }
    }
    return sum;
}

static void make_text(char *text, size_t size, const int sizes[3], int batch)
{
    char shape[16];
    int wanted[9];
    snprintf(text, size, "%s// inputs\nstir 1\ngraph @in() {\n", graph);
    put_filled(text, size, 0, sizes[0], ", 1, 2", 2);
    put_filled(text, size, 1, sizes[1], ", 2, 2", 4);
    put_filled(text, size, 2, sizes[2], ", 2, 1", 2);
    for (int k = 0; k < batch; k++) {
        wanted[k] = product(sizes, k);
    }
    wanted[batch] = 3;
    snprintf(shape, sizeof shape, "%d", batch);
    put_tensor(text, size, shape, wanted, batch);
    const size_t at = strlen(text);
    snprintf(text + at, size - at, "  return %%x0, %%x1, %%y0, %%y1, %%z0, %%z1, %%w0, %%w1\n}\n");
}

Test(eager_sizes, batches_broadcast)
{
    static const int sizes[][4] = {/* the three, and what they broadcast to */
                                   {1, 1, 1, 1}, {4, 4, 4, 4}, {4, 1, 1, 4}, {1, 4, 1, 4},
                                   {1, 1, 4, 4}, {4, 1, 4, 4}, {1, 4, 4, 4}, {0, 1, 1, 0},
                                   {1, 0, 0, 0}, {1, 1, 0, 0}};
    static char text[8192];
    stator_ctx *ctx = run_context();
    cr_assert_not_null(ctx);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        make_text(text, sizeof text, sizes[i], sizes[i][3]);
        for (int b = 0; b < 2; b++) {
            const char *backend = b ? "aot_eager" : "eager";
            cr_expect_eq(run_pairs(ctx, backend, 0.0, text, strlen(text), backend), 0,
                         "%s: sizes %d, %d, %d", backend, sizes[i][0], sizes[i][1], sizes[i][2]);
        }
    }
    stator_ctx_destroy(ctx);
}

Test(eager_sizes, batches_that_do_not_broadcast_are_refused)
{
    static const int sizes[][3] = {{2, 3, 1}, {3, 1, 2}, {1, 3, 2}, {2, 3, 4}};
    static char text[8192];
    stator_ctx *ctx = run_context();
    cr_assert_not_null(ctx);
    FILE *quiet = freopen("/dev/null", "w", stderr);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        make_text(text, sizeof text, sizes[i], 1);
        cr_expect_eq(run_pairs(ctx, "eager", 0.0, text, strlen(text), "eager"), -1,
                     "sizes %d, %d, %d", sizes[i][0], sizes[i][1], sizes[i][2]);
        cr_expect_eq(run_pairs(ctx, "aot_eager", 0.0, text, strlen(text), "aot_eager"), -1,
                     "sizes %d, %d, %d", sizes[i][0], sizes[i][1], sizes[i][2]);
    }
    cr_expect_not_null(quiet);
    stator_ctx_destroy(ctx);
}
