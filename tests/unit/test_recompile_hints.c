/* The log channel perf_hints of a function that is compiled again: which input is to blame and what
 * to do, and nothing where nothing can be done. */
#define _GNU_SOURCE
#include "support_onnx.h"

#include <criterion/criterion.h>
#include <stator/stator.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct world {
    stator_ctx *ctx;
    stator_function *fn;
    char heard[2048]; /* lines of the channel since the last look */
} world;

static void on_log(void *self, const char *channel, uint32_t level, const char *line)
{
    world *w = self;
    const size_t n = strlen(w->heard);
    (void)level;
    if (strcmp(channel, "perf_hints") == 0) {
        (void)snprintf(w->heard + n, sizeof w->heard - n, "%s\n", line);
    }
}

static void begin(world *w, const void *bytes, size_t size, const char *name, uint32_t flags)
{
    static const char *const dirs[] = {ST_TEST_BUILD "/lib/stator/plugins-1"};
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_CACHE,
                                        .threads = 1,
                                        .plugin_dir_count = 1,
                                        .plugin_dirs = dirs,
                                        .log = on_log,
                                        .log_self = w};
    const stator_load_options load = {.struct_size = sizeof load, .flags = 1};
    const stator_compile_options how = {
        .struct_size = sizeof how, .backend = "aot_eager", .recompile_limit = 2, .flags = flags};
    stator_model *model = NULL;
    memset(w, 0, sizeof *w);
    cr_assert_eq(setenv("STATOR_LOGS", "perf_hints", 1), 0);
    cr_assert_eq(stator_ctx_create(&options, &w->ctx), STATOR_OK);
    cr_assert_eq(stator_model_load_bytes(w->ctx, bytes, size, name, &load, &model), STATOR_OK, "%s",
                 stator_ctx_error_text(w->ctx));
    cr_assert_eq(stator_compile(model, &how, &w->fn), STATOR_OK, "%s",
                 stator_ctx_error_text(w->ctx));
    stator_model_destroy(model);
}

static void begin_text(world *w, const char *text, uint32_t flags)
{
    begin(w, text, strlen(text), "hints.stir", flags);
}

static void end(world *w)
{
    stator_function_destroy(w->fn);
    stator_ctx_destroy(w->ctx);
}

static stator_tensor *zeros(world *w, int64_t rows, int64_t columns)
{
    const int64_t shape[2] = {rows, columns};
    stator_tensor *t = NULL;
    cr_assert_eq(stator_tensor_create(w->ctx, STATOR_F32, 2, shape, &t), STATOR_OK);
    memset(stator_tensor_data(t), 0, stator_tensor_size_bytes(t));
    return t;
}

static void call(world *w, uint32_t n, stator_tensor *const *in)
{
    stator_tensor *out = NULL;
    w->heard[0] = '\0';
    cr_assert_eq(stator_call_tensors(w->fn, n, in, 1, &out), STATOR_OK, "%s",
                 stator_ctx_error_text(w->ctx));
    stator_tensor_release(out);
}

/* A call of these sizes says `line` ("": nothing). */
static void says(world *w, int64_t rows, int64_t columns, const char *line)
{
    stator_tensor *in = zeros(w, rows, columns);
    call(w, 1, &in);
    cr_expect_str_eq(w->heard, line, "%d rows say: %snot: %s", (int)rows, w->heard, line);
    stator_tensor_release(in);
}

static const char BAKED_IN[] = "stir 1\n"
                               "graph @main(%x: f32[4, 3]) {\n"
                               "  %y = neg(%x)\n"
                               "  return %y\n"
                               "}\n";

#define FROM_4_TO_6                                                                                \
    "axis 0 of input 'x' was 4 and is 6 now: one more compile; with a symbolic axis in the "       \
    "model (dim_param of ONNX, sym of .stir) one program serves both\n"

Test(recompile_hints, hint_to_declare_a_baked_in_size_symbolic)
{
    world w;
    begin_text(&w, BAKED_IN, 0);
    says(&w, 4, 3, "");
    says(&w, 6, 3, FROM_4_TO_6);
    says(&w, 9, 3, "");
    says(&w, 9, 5,
         "axis 1 of input 'x' was 3 and is 5 now: one more compile; with a symbolic axis in the "
         "model (dim_param of ONNX, sym of .stir) one program serves both\n");
    end(&w);
}

/* What an axis was is a number of the oldest program that has one, and an axis of which nothing was
 * said is not told yet. */
Test(recompile_hints, call_of_size_one_gives_no_hint)
{
    static const int64_t orders[2][4] = {{4, 1, 6, 9}, {1, 4, 6, 9}};
    for (uint32_t i = 0; i < 2; i++) {
        world w;
        begin_text(&w, BAKED_IN, 0);
        says(&w, orders[i][0], 3, "");
        says(&w, orders[i][1], 3, "");
        says(&w, orders[i][2], 3, FROM_4_TO_6);
        says(&w, orders[i][3], 3, "");
        end(&w);
    }
}

/* A declared axis, and sizes 0 and 1, which have programs of their own whatever is declared. */
Test(recompile_hints, declared_axes_and_sizes_0_and_1_give_no_hint)
{
    world w;
    begin_text(&w, BAKED_IN, 0);
    says(&w, 4, 3, "");
    says(&w, 1, 3, "");
    says(&w, 0, 3, "");
    end(&w);
    begin_text(&w,
               "stir 1\n"
               "sym N in [0, inf]\n"
               "graph @main(%x: f32[N, 3]) {\n"
               "  %y = neg(%x)\n"
               "  return %y\n"
               "}\n",
               0);
    says(&w, 4, 3, "");
    says(&w, 6, 3, "");
    says(&w, 1, 3, "");
    end(&w);
}

Test(recompile_hints, hints_of_static_compiles_and_at_the_limit)
{
    static const char each[] =
        "one more compile, for the sizes of this call alone, as STATOR_COMPILE_STATIC asks: "
        "without it one program serves many sizes\n";
    static const char last[] =
        "compiled 3 times (recompile_limit 2): one more program, which knows no sizes, serves all "
        "that the others do not; give fewer different sizes, or raise the limit\n";
    world w;
    begin_text(&w, BAKED_IN, STATOR_COMPILE_STATIC);
    says(&w, 4, 3, "");
    says(&w, 5, 3, each);
    says(&w, 6, 3, each);
    says(&w, 7, 3, last);
    says(&w, 8, 3, "");
    end(&w);
}

static void call_tuples(world *w, int64_t width)
{
    const int64_t shapes[2][3] = {{2, 2, 2}, {5, width, 0}};
    stator_tensor *in[2];
    cr_assert_eq(stator_tensor_create(w->ctx, STATOR_F32, 3, shapes[0], &in[0]), STATOR_OK);
    cr_assert_eq(stator_tensor_create(w->ctx, STATOR_I64, 2, shapes[1], &in[1]), STATOR_OK);
    memset(stator_tensor_data(in[0]), 0, stator_tensor_size_bytes(in[0]));
    memset(stator_tensor_data(in[1]), 0, stator_tensor_size_bytes(in[1]));
    call(w, 2, in);
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
}

static const char TUPLES[] = "stir 1\n"
                             "graph @main(%x: f32[2, 2, 2], %i: i64[5, 2]) {\n"
                             "  %y = gather_nd(%x, %i) {batch_dims = 0}\n"
                             "  return %y\n"
                             "}\n";

#define STAYS_A_NUMBER                                                                             \
    "axis 1 of input 'i' was 2 and is 3 now: one more compile, as for each other size: the model " \
    "has nodes that do not work with a symbol there (STATOR_LOGS=recompiles names one)\n"

/* How long an index tuple is decides the rank of the result. */
Test(recompile_hints, hint_for_an_axis_that_stays_a_number)
{
    world w;
    begin_text(&w, TUPLES, 0);
    call_tuples(&w, 2);
    cr_expect_str_eq(w.heard, "");
    call_tuples(&w, 3);
    cr_expect_str_eq(w.heard, STAYS_A_NUMBER);
    end(&w);
    /* That it stays one is found out in the third call. */
    begin_text(&w, TUPLES, 0);
    call_tuples(&w, 2);
    call_tuples(&w, 1);
    cr_expect_str_eq(w.heard, "");
    call_tuples(&w, 3);
    cr_expect_str_eq(w.heard, STAYS_A_NUMBER);
    end(&w);
}

/* Many axes are one line. */
#define PIECES 7

Test(recompile_hints, hint_names_the_first_of_many_axes)
{
    char text[1024] = "stir 1\ngraph @main(%x0: f32[2]";
    char *at = text + strlen(text);
    stator_tensor *in[PIECES];
    world w;
    for (int i = 1; i < PIECES; i++) {
        at += sprintf(at, ", %%x%d: f32[%d]", i, 2 + i);
    }
    (void)sprintf(at, ") {\n  %%y = concat(%%x0, %%x1, %%x2, %%x3, %%x4, %%x5, %%x6) {axis = 0}\n"
                      "  return %%y\n}\n");
    begin_text(&w, text, 0);
    for (int64_t factor = 1; factor <= 2; factor++) {
        for (int64_t i = 0; i < PIECES; i++) {
            const int64_t shape[1] = {2 + i * factor};
            cr_assert_eq(stator_tensor_create(w.ctx, STATOR_F32, 1, shape, &in[i]), STATOR_OK);
            memset(stator_tensor_data(in[i]), 0, stator_tensor_size_bytes(in[i]));
        }
        call(&w, PIECES, in);
        for (int i = 0; i < PIECES; i++) {
            stator_tensor_release(in[i]);
        }
    }
    cr_expect_str_eq(
        w.heard,
        "axis 0 of input 'x1' was 3 and is 4 now, axis 0 of input 'x2' was 4 and is 6 now, axis 0 "
        "of input 'x3' was 5 and is 8 now, axis 0 of input 'x4' was 6 and is 10 now and so on, 6 "
        "axes: one more compile; with a symbolic axis in the model (dim_param of ONNX, sym of "
        ".stir) "
        "one program serves both\n");
    end(&w);
}

static void reduce(world *w, int64_t rows, int64_t axis, const char *line)
{
    const int64_t one[1] = {1};
    stator_tensor *in[2] = {zeros(w, rows, 3), NULL};
    cr_assert_eq(stator_tensor_create(w->ctx, STATOR_I64, 1, one, &in[1]), STATOR_OK);
    memcpy(stator_tensor_data(in[1]), &axis, sizeof axis);
    call(w, 2, in);
    cr_expect_str_eq(w->heard, line, "%d rows, axis %d say: %snot: %s", (int)rows, (int)axis,
                     w->heard, line);
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
}

/* A reduction whose axis comes with the call: values that some program is for cost no line,
 * whatever sizes they come with. */
Test(recompile_hints, hint_for_input_values_that_decide_shapes)
{
    const int64_t x[2] = {4, 3};
    const int64_t one[1] = {1};
    onnx_bytes g = {0};
    onnx_input(&g, "x", ONNX_FLOAT, 2, x);
    onnx_input(&g, "axis", ONNX_INT64, 1, one);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_node(&g, "ReduceSum", "x,axis", "y", NULL);
    onnx_bytes m = onnx_model(&g, 14, NULL);
    world w;
    begin(&w, m.data, m.size, "hints.onnx", 0);
    onnx_free(&m);
    reduce(&w, 4, 0, "");
    reduce(&w, 4, 1,
           "input 'axis' has other values: one more compile, as for each of them, because shapes "
           "follow from it; as a constant of the model it would cost none\n");
    reduce(&w, 4, 0, "");
    reduce(&w, 6, 0, FROM_4_TO_6);
    end(&w);
}
