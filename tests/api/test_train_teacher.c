/* Training steps with a teacher: ten updates on every backend that is there beside the same
 * computed here in f64 from both networks; the teacher's part of the graph, names and sizes that
 * both models have, mixed precision, and each teacher that does not fit. */
#define _GNU_SOURCE
#include "train_refused.h"

#include <math.h>
#include <stator/ops.h>
#include <stator/train.h>

#define STEPS 10
#define ROWS 5
#define FEATURES 3
#define CLASSES 4
#define HIDDEN 2
#define INPUTS_MAX 16u

/* y = x w + b. The parameter teacher_w has the name that a teacher's w gets. */
static const char STUDENT[] = "stir 1\n"
                              "sym N in [1, 1000]\n"
                              "graph @student(\n"
                              "  %x: f32[N, 3],\n"
                              "  param %w \"w\": f32[3, 4] = {0.5, -0.25, 0.125, 0.75, -0.5, "
                              "0.375, 0.25, -1, 0.625, 0, 0.5, -0.125},\n"
                              "  param %b \"teacher_w\": f32[4] = {0.125, -0.25, 0, 0.5}\n"
                              ") {\n"
                              "  %p = matmul(%x, %w)\n"
                              "  %y = add(%p, %b)\n"
                              "  return y: %y\n"
                              "}\n";

/* y = tanh(image w) v, with names of the student's; N is another size than there. */
#define TEACHER(input, result)                                                                     \
    "stir 1\n"                                                                                     \
    "sym B in [0, 100000]\n"                                                                       \
    "sym N in [1, 64]\n"                                                                           \
    "graph @teacher(\n"                                                                            \
    "  %x " input ": f32[B, N],\n"                                                                 \
    "  param %w \"w\": f32[3, 2] = {1, -0.5, 0.75, 0.25, -1.5, 1},\n"                              \
    "  param %b \"v\": f32[2, 4] = {2, -1, 0.5, 1, -0.5, 1.5, -2, 0.25}\n"                         \
    ") {\n"                                                                                        \
    "  %p = matmul(%x, %w) @\"/first\":MatMul in \"teacher.onnx\"\n"                               \
    "  %h = tanh(%p)\n"                                                                            \
    "  %y = matmul(%h, %b)\n" result "}\n"

static const char BY_PLACE[] = TEACHER("\"image\"", "  return y: %y\n");
static const char BY_NAME[] = TEACHER("\"x\"", "  %k = argmax(%y) {axis = 1}\n"
                                               "  return classes: %k, scores: %y, hidden: %h\n");

/* The same behind control flow and a size that only the run tells: y, or twice that where no
 * feature but the first of the first row is other than 0. */
static const char WITH_REGIONS[] = TEACHER("\"x\"", "  %z = nonzero(%x)\n"
                                                    "  %i = cast(%z) {dtype = f32}\n"
                                                    "  %n = reduce_sum(%i) {axes = [0, 1]}\n"
                                                    "  %o = constant {value = f32[] {0}}\n"
                                                    "  %c = gt(%n, %o)\n"
                                                    "  %s = cond(%c, %y)\n"
                                                    "    region @then(%1: f32[B, 4]) {\n"
                                                    "      return %1\n"
                                                    "    }\n"
                                                    "    region @else(%1: f32[B, 4]) {\n"
                                                    "      %2 = add(%1, %1)\n"
                                                    "      return %2\n"
                                                    "    }\n"
                                                    "  return y: %s\n");

/* y = tanh(x w) v, normalised by running statistics to what it is, in a branch too: the root of
 * var + eps is s, and mean is shift. By the batch it would be another. */
static const char AS_TRAINED[] =
    "stir 1\n"
    "sym B in [0, 100000]\n"
    "graph @teacher(\n"
    "  %x \"x\": f32[B, 3],\n"
    "  param %w \"w\": f32[3, 2] = {1, -0.5, 0.75, 0.25, -1.5, 1},\n"
    "  param %b \"v\": f32[2, 4] = {2, -1, 0.5, 1, -0.5, 1.5, -2, 0.25},\n"
    "  param %s \"s\": f32[4] = {2, 2, 1, 3},\n"
    "  param %m \"m\": f32[4] = {0.5, -1, 2, 0.25},\n"
    "  param %r \"r\": f32[4] = {3, 3, 0, 8}\n"
    ") {\n"
    "  %p = matmul(%x, %w)\n"
    "  %h = tanh(%p)\n"
    "  %z = matmul(%h, %b)\n"
    "  %n, %nm, %nr = batch_norm_train(%z, %s, %m, %m, %r) {eps = 1.0}\n"
    "  write %m = %nm\n"
    "  write %r = %nr\n"
    "  %o = constant {value = bool[] {true}}\n"
    "  %y = cond(%o, %n, %s, %m, %r)\n"
    "    region @then(%1: f32[B, 4], %2: f32[4], %3: f32[4], %4: f32[4]) {\n"
    "      %5, %6, %7 = batch_norm_train(%1, %2, %3, %3, %4) {eps = 1.0}\n"
    "      return %5\n"
    "    }\n"
    "    region @else(%1: f32[B, 4], %2: f32[4], %3: f32[4], %4: f32[4]) {\n"
    "      return %1\n"
    "    }\n"
    "  return y: %y\n"
    "}\n";

static const float X[ROWS * FEATURES] = {1,     2, -1, 0.5f,  -1.5f, 0.25f, -0.75f, 0.5f,
                                         1.25f, 2, 1,  -0.5f, -2,    0.75f, 0.125f};
static const int64_t TARGET[ROWS] = {0, 3, 1, 2, 3};

/* ---- the same in f64 ---- */

typedef struct reference {
    double w[FEATURES * CLASSES], b[CLASSES];
    double y[ROWS * CLASSES], dy[ROWS * CLASSES]; /* scores and the loss's gradient of them */
    double taught[ROWS * CLASSES];
} reference;

static const reference BEGIN = {
    .w = {0.5, -0.25, 0.125, 0.75, -0.5, 0.375, 0.25, -1, 0.625, 0, 0.5, -0.125},
    .b = {0.125, -0.25, 0, 0.5}};

static void ask_teacher(reference *r)
{
    static const double w[] = {1, -0.5, 0.75, 0.25, -1.5, 1};
    static const double v[] = {2, -1, 0.5, 1, -0.5, 1.5, -2, 0.25};
    for (int i = 0; i < ROWS; i++) {
        double h[HIDDEN] = {0};
        for (int k = 0; k < HIDDEN; k++) {
            for (int f = 0; f < FEATURES; f++) {
                h[k] += (double)X[i * FEATURES + f] * w[f * HIDDEN + k];
            }
            h[k] = tanh(h[k]);
        }
        for (int c = 0; c < CLASSES; c++) {
            r->taught[i * CLASSES + c] = h[0] * v[c] + h[1] * v[CLASSES + c];
        }
    }
}

static void score(reference *r)
{
    for (int i = 0; i < ROWS; i++) {
        for (int c = 0; c < CLASSES; c++) {
            double sum = r->b[c];
            for (int f = 0; f < FEATURES; f++) {
                sum += (double)X[i * FEATURES + f] * r->w[f * CLASSES + c];
            }
            r->y[i * CLASSES + c] = sum;
        }
    }
}

/* Logarithms of the classes' probabilities. */
static void log_softmax(const double *scores, double temperature, double out[CLASSES])
{
    double sum = 0;
    for (int c = 0; c < CLASSES; c++) {
        sum += exp(scores[c] / temperature);
    }
    for (int c = 0; c < CLASSES; c++) {
        out[c] = scores[c] / temperature - log(sum);
    }
}

/* Each adds `weight` times its gradient to dy and returns `weight` times the loss. */
typedef double (*loss_fn)(reference *r, double weight);

/* T^2 / rows * sum q (log q - log p) (Hinton et al., 2015) */
static double distil(reference *r, double weight, double t)
{
    double loss = 0;
    for (int i = 0; i < ROWS; i++) {
        double p[CLASSES], q[CLASSES];
        log_softmax(r->y + (size_t)i * CLASSES, t, p);
        log_softmax(r->taught + (size_t)i * CLASSES, t, q);
        for (int c = 0; c < CLASSES; c++) {
            loss += exp(q[c]) * (q[c] - p[c]) * t * t / ROWS;
            r->dy[i * CLASSES + c] += weight * t * (exp(p[c]) - exp(q[c])) / ROWS;
        }
    }
    return weight * loss;
}

static double soft_1(reference *r, double weight)
{
    return distil(r, weight, 1);
}

static double soft_3(reference *r, double weight)
{
    return distil(r, weight, 3);
}

static double squares(reference *r, double weight)
{
    double loss = 0;
    for (int i = 0; i < ROWS * CLASSES; i++) {
        const double d = r->y[i] - r->taught[i];
        loss += d * d / (ROWS * CLASSES);
        r->dy[i] += weight * 2 * d / (ROWS * CLASSES);
    }
    return weight * loss;
}

static double cross_entropy(reference *r, double weight)
{
    double loss = 0;
    for (int i = 0; i < ROWS; i++) {
        double p[CLASSES];
        log_softmax(r->y + (size_t)i * CLASSES, 1, p);
        loss -= p[TARGET[i]] / ROWS;
        for (int c = 0; c < CLASSES; c++) {
            r->dy[i * CLASSES + c] += weight * (exp(p[c]) - (c == TARGET[i])) / ROWS;
        }
    }
    return weight * loss;
}

/* The model's output as its loss. */
static double sum_of_y(reference *r, double weight)
{
    double loss = 0;
    for (int i = 0; i < ROWS * CLASSES; i++) {
        loss += r->y[i];
        r->dy[i] += weight;
    }
    return weight * loss;
}

static void descend(reference *r, double lr)
{
    for (int c = 0; c < CLASSES; c++) {
        for (int i = 0; i < ROWS; i++) {
            for (int f = 0; f < FEATURES; f++) {
                r->w[f * CLASSES + c] -= lr * (double)X[i * FEATURES + f] * r->dy[i * CLASSES + c];
            }
            r->b[c] -= lr * r->dy[i * CLASSES + c];
        }
    }
}

/* ---- steps ---- */

typedef struct row {
    const char *teacher, *teacher_output, *teacher_loss, *loss;
    double weight; /* of the teacher's loss */
    loss_fn soft, hard;
    uint32_t n_options;
    const char *keys[2], *values[2];
} row;

static const row rows[] = {
    {BY_PLACE, NULL, NULL, NULL, 1, soft_1, NULL, 0, {NULL}, {NULL}},
    {BY_NAME,
     "scores",
     "kl_div",
     "cross_entropy",
     0.75,
     soft_3,
     cross_entropy,
     2,
     {"temperature", "teacher_weight"},
     {"3", "0.75"}},
    {BY_PLACE, "y", "mse", "cross_entropy", 0.5, squares, cross_entropy, 0, {NULL}, {NULL}},
    {AS_TRAINED, NULL, NULL, NULL, 1, soft_1, NULL, 0, {NULL}, {NULL}},
    {WITH_REGIONS, NULL, NULL, "y", 0.875, soft_1, sum_of_y, 1, {"teacher_weight"}, {"0.875"}}};

static stator_train_options options_of(const row *r, const stator_model *teacher)
{
    return (stator_train_options){.struct_size = sizeof(stator_train_options),
                                  .loss = r->loss,
                                  .optimizer = "sgd",
                                  .option_keys = r->keys,
                                  .option_values = r->values,
                                  .option_count = r->n_options,
                                  .teacher = teacher,
                                  .teacher_output = r->teacher_output,
                                  .teacher_loss = r->teacher_loss};
}

static uint32_t input_of(stator_ctx *ctx, const stator_model *step, const char *name)
{
    uint32_t k = 0;
    CHECK_OK(ctx, stator_model_find_input(step, name, &k));
    return k;
}

static void expect_near(const stator_tensor *t, const double *want, uint32_t n, const char *what)
{
    const float *got = stator_tensor_data(t);
    for (uint32_t i = 0; i < n; i++) {
        /* ten roundings of f32, and what the steps make of them */
        if (!(fabs((double)got[i] - want[i]) < 1e-5 * fmax(1, fabs(want[i])))) {
            (void)fprintf(stderr, "%s: element %u is %.9g, in f64 %.9g\n", what, i, (double)got[i],
                          want[i]);
            CHECK(0);
        }
    }
}

/* The inputs of a step: x, target where there is one, lr, the state. */
static void fill(stator_ctx *ctx, const stator_model *model, const stator_model *step,
                 stator_tensor **in)
{
    const uint32_t n = stator_model_input_count(step);
    const int64_t rows_shape[] = {ROWS};
    uint32_t target = 0;
    CHECK(n <= INPUTS_MAX);
    in[input_of(ctx, step, "x")] = tensor_2d(ctx, ROWS, FEATURES, X);
    if (stator_model_find_input(step, "target", &target) == STATOR_OK) {
        CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_I64, 1, rows_shape, &in[target]));
        memcpy(stator_tensor_data(in[target]), TARGET, sizeof TARGET);
    }
    if (stator_model_find_input(step, "lr", &target) == STATOR_OK) {
        CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F64, 0, NULL, &in[target]));
        *(double *)stator_tensor_data(in[target]) = 0.0625;
    }
    CHECK_OK(ctx, stator_train_state(model, step, NULL, n, in));
}

static void release(stator_tensor **in, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        stator_tensor_release(in[k]);
    }
}

static void run_row(stator_ctx *ctx, const stator_model *model, const row *r,
                    stator_function *function, const stator_model *step, const char *backend)
{
    const uint32_t n = stator_model_input_count(step);
    stator_tensor *in[INPUTS_MAX] = {NULL}, *out = NULL;
    reference ref = BEGIN;
    fill(ctx, model, step, in);
    ask_teacher(&ref);
    for (int t = 0; t < STEPS; t++) {
        memset(ref.dy, 0, sizeof ref.dy);
        score(&ref);
        const double loss =
            r->soft(&ref, r->weight) + (r->hard != NULL ? r->hard(&ref, 1 - r->weight) : 0);
        CHECK_OK(ctx, stator_call_tensors(function, n, in, 1, &out));
        expect_near(out, &loss, 1, backend);
        descend(&ref, 0.0625);
    }
    expect_near(in[input_of(ctx, step, "w")], ref.w, FEATURES * CLASSES, backend);
    expect_near(in[input_of(ctx, step, "teacher_w")], ref.b, CLASSES, backend);
    release(in, n);
    stator_tensor_release(out);
}

/* How many backends there are. */
static int run_everywhere(stator_ctx *ctx, const stator_model *model, const row *r)
{
    static const char *const backends[] = {"eager", "aot_eager", "inductor-cpu", "cuda_soft"};
    stator_model *teacher = load_text(ctx, r->teacher);
    int n = 0;
    for (int k = 0; k < 4; k++) {
        const stator_train_options options = options_of(r, teacher);
        const stator_compile_options compile = {.struct_size = sizeof compile,
                                                .backend = backends[k]};
        stator_model *step = NULL;
        stator_function *function = NULL;
        CHECK_OK(ctx, stator_model_train_step(model, &options, &step));
        const stator_status status = stator_compile(step, &compile, &function);
        if (status == STATOR_OK) {
            run_row(ctx, model, r, function, step, backends[k]);
            n++;
        } else {
            CHECK(k >= 2 && (status == STATOR_NOT_FOUND || status == STATOR_UNAVAILABLE));
        }
        stator_function_destroy(function);
        stator_model_destroy(step);
    }
    stator_model_destroy(teacher);
    return n;
}

/* ---- the graph ---- */

static int begins_with(const char *text, const char *words)
{
    return strncmp(text, words, strlen(words)) == 0;
}

/* Nodes that the teacher brought are no part of a gradient, and no gradient is of one of them. */
static void expect_no_backward(const stator_graph_view *v, uint32_t n_taught)
{
    uint32_t taught = 0, backward = 0;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *made = stator_node_at(v, node);
        int is_taught = 0;
        for (stator_ref o = made->origin; o != 0; o = stator_origin_at(v, o)->next) {
            const char *name = stator_string_at(v, stator_origin_at(v, o)->name);
            is_taught |= begins_with(name, "teacher: ");
            CHECK(strstr(name, "backward of teacher") == NULL);
        }
        CHECK(!is_taught || !stator_node_is_backward(v, node));
        taught += is_taught != 0;
        backward += stator_node_is_backward(v, node) != 0;
    }
    CHECK(taught == n_taught && backward != 0);
}

/* The teacher's parameters are constants of the step under names of their own; a call writes what
 * the student has alone. */
static void expect_graph(stator_ctx *ctx, const stator_model *model)
{
    static const char *const params[] = {"teacher_w_", "teacher_v"};
    stator_model *teacher = load_text(ctx, BY_PLACE), *step = NULL;
    const stator_train_options options = options_of(&rows[0], teacher);
    uint32_t found = 0, role = 0;
    CHECK_OK(ctx, stator_model_train_step(model, &options, &step));
    const stator_graph_view *v = stator_ctx_host(ctx)->ir->view(stator_model_graph(step));
    CHECK(stator_model_input_count(step) == 5); /* x, lr, w, teacher_w, step */
    expect_no_backward(v, 3);
    for (stator_ref i = 1; i <= v->n_inputs; i++) {
        const stator_value_row *input = stator_value_at(v, i);
        const char *name = stator_string_at(v, input->name);
        const int is_param = (input->flags & STATOR_VALUE_PARAM) != 0;
        CHECK(!is_param || (input->flags & STATOR_VALUE_WRITTEN) == 0);
        for (uint32_t k = 0; is_param && k < 2; k++) {
            found += strcmp(name, params[k]) == 0;
        }
    }
    CHECK(found == 2 && v->n_write_backs == 3);
    for (uint32_t k = 0; k < 5; k++) {
        static const uint32_t roles[] = {STATOR_ROLE_DATA, STATOR_ROLE_RATE, STATOR_ROLE_PARAMETER,
                                         STATOR_ROLE_PARAMETER, STATOR_ROLE_STEP};
        CHECK_OK(ctx, stator_train_input_role(step, k, &role));
        CHECK(role == roles[k]);
    }
    stator_model_destroy(step);
    stator_model_destroy(teacher);
}

/* The loss alone, and sums of batches, have the teacher's loss too. */
static void expect_flags(stator_ctx *ctx, const stator_model *model)
{
    stator_model *teacher = load_text(ctx, BY_NAME);
    reference ref = BEGIN;
    ask_teacher(&ref);
    score(&ref);
    const double want = soft_3(&ref, 0.75) + cross_entropy(&ref, 0.25);
    static const uint32_t flags[] = {STATOR_TRAIN_LOSS_ONLY, STATOR_TRAIN_GRADIENTS_ONLY};
    for (uint32_t k = 0; k < 2; k++) {
        stator_train_options options = options_of(&rows[1], teacher);
        stator_model *step = NULL;
        stator_tensor *in[INPUTS_MAX] = {NULL}, *out = NULL;
        uint32_t batches = 0;
        options.flags = flags[k];
        CHECK_OK(ctx, stator_model_train_step(model, &options, &step));
        const uint32_t n = stator_model_input_count(step);
        fill(ctx, model, step, in);
        if (stator_model_find_input(step, "batches", &batches) == STATOR_OK) {
            CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F64, 0, NULL, &in[batches]));
            *(double *)stator_tensor_data(in[batches]) = 1;
        }
        stator_function *function = compile_for(ctx, step, "eager");
        CHECK_OK(ctx, stator_call_tensors(function, n, in, 1, &out));
        expect_near(out, &want, 1, "the loss alone");
        if (flags[k] == STATOR_TRAIN_GRADIENTS_ONLY) {
            double db[CLASSES] = {0};
            for (int i = 0; i < ROWS * CLASSES; i++) {
                db[i % CLASSES] += ref.dy[i];
            }
            expect_near(in[input_of(ctx, step, "sum_teacher_w")], db, CLASSES, "a sum");
        }
        release(in, n);
        stator_tensor_release(out);
        stator_function_destroy(function);
        stator_model_destroy(step);
    }
    stator_model_destroy(teacher);
}

/* In mixed precision the teacher's products are of 16 bits, too, and the loss is of f32. */
static void expect_amp(stator_ctx *ctx, const stator_model *model, const char *amp,
                       stator_dtype dtype)
{
    stator_model *teacher = load_text(ctx, BY_PLACE), *step = NULL;
    stator_train_options options = options_of(&rows[0], teacher);
    uint32_t n = 0;
    options.amp = amp;
    CHECK_OK(ctx, stator_model_train_step(model, &options, &step));
    const stator_graph_view *v = stator_ctx_host(ctx)->ir->view(stator_model_graph(step));
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *made = stator_node_at(v, node);
        const char *name =
            made->origin != 0 ? stator_string_at(v, stator_origin_at(v, made->origin)->name) : "";
        if (begins_with(name, "teacher: ") && made->op == STATOR_OPCODE_matmul) {
            CHECK(stator_value_type(v, made->result_begin)->dtype == dtype);
            n++;
        }
    }
    CHECK(n == 2 && stator_value_type(v, stator_output_at(v, 0))->dtype == STATOR_F32);
    stator_model_destroy(step);
    stator_model_destroy(teacher);
}

/* ---- what is refused ---- */

/* A teacher of one input and this body, whose last value is y. */
static void expect_teacher_refused(stator_ctx *ctx, const stator_model *model, const char *inputs,
                                   const char *body, const char *words)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "stir 1\nsym B in [0, 100000]\nsym F in [4, 64]\ngraph @teacher(%s) {\n%s\n"
                   "  return y: %%y\n}\n",
                   inputs, body);
    stator_model *teacher = load_text(ctx, text);
    const stator_train_options options = options_of(&rows[0], teacher);
    expect_refused(ctx, model, &options, STATOR_INVALID_ARGUMENT, words);
    stator_model_destroy(teacher);
}

static const char TO_CLASSES[] =
    "  %c = constant {value = f32[3, 4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, "
    "11, 12}}\n  %y = matmul(%x, %c)";

static void expect_refused_teachers(stator_ctx *ctx, const stator_model *model)
{
    static const struct {
        const char *inputs, *body, *words;
    } cases[] = {
        {"%x: f32[B, 3], %m: f32[B, 4]", "  %y = add(%m, %m)",
         "the teacher's input 'm' is none of the model's, which has 'x'"},
        {"%a: f32[B, 3], %m: f32[B, 4]", "  %y = add(%m, %m)",
         "the model has 1 input and the teacher 2, and no name is of both"},
        {"%x: f32[B, 4]", "  %y = add(%x, %x)",
         "an input of the model, 'x', is f32[N, 3], and of the teacher it is 'x', f32[B, 4]"},
        {"%x: f32[8, 3]", TO_CLASSES,
         "an input of the model, 'x', is f32[N, 3], and of the teacher it is 'x', f32[8, 3]"},
        {"%x: f32[B, B]", "  %y = add(%x, %x)", "and of the teacher it is 'x', f32[B, B]"},
        {"%x: f32[B, F]", "  %y = add(%x, %x)",
         "the teacher's size 'F' lies in [4, 64], and that of the model's input 'x' lies in [3, "
         "3]"},
        {"%x: f64[B, 3]", "  %y = add(%x, %x)", "and of the teacher it is 'x', f64[B, 3]"},
        {"%x: f32[B]", "  %y = add(%x, %x)", "and of the teacher it is 'x', f32[B]"},
        {"%x: f32[B, 3]", "  %y = add(%x, %x)",
         "what the loss compares, 'y', is f32[N, 4], and of the teacher it is 'y', f32[B, 3]"},
        {"%x: f32[B, 3]", "  %y = argmax(%x) {axis = 1}",
         "output 'y' of the teacher is i64, and a loss compares values of a float dtype"},
        {"%x: f32[B, 3]",
         "  %k = constant {value = i64[] {7}}\n  %m = rng_uniform(%k, %k) {shape = [B, 3]}\n"
         "  %d = mul(%m, %x) @\"/drop\":Dropout in \"t.onnx\"\n  %y = concat(%d, %m) {axis = 1}",
         "computes as in training; load the teacher in its mode for inference"},
        {"%x: f32[B, 4], param %w \"w\": f32[4] = {1, 1, 1, 1}",
         "  %t = add(%w, %w)\n  write %w = %t\n  %y = mul(%x, %w)",
         "the teacher: it writes its input 'w', and a teacher stays as it is"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_teacher_refused(ctx, model, cases[i].inputs, cases[i].body, cases[i].words);
    }
}

static void expect_weight_refused(stator_ctx *ctx, const stator_model *model,
                                  const stator_model *teacher, const char *loss, const char *value,
                                  stator_status code, const char *words)
{
    const char *key = "teacher_weight";
    stator_train_options o = options_of(&rows[0], teacher);
    o.loss = loss;
    o.option_keys = &key;
    o.option_values = &value;
    o.option_count = 1;
    expect_refused(ctx, model, &o, code, words);
}

static void expect_refusals(stator_ctx *ctx, const stator_model *model)
{
    stator_model *teacher = load_text(ctx, BY_NAME);
    stator_train_options o = options_of(&rows[1], teacher);
    o.teacher_output = "score";
    expect_refused(ctx, model, &o, STATOR_NOT_FOUND,
                   "no output or value 'score', did you mean 'scores'?");
    o.teacher_output = "classes";
    expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT,
                   "output 'classes' of the teacher is i64");
    o.teacher_output = "hidden";
    expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT,
                   "of the teacher it is 'hidden', f32[B, 2]");
    o.teacher_output = "scores";
    o.teacher_loss = "kl_dev";
    expect_refused(ctx, model, &o, STATOR_NOT_FOUND, "no loss 'kl_dev'; did you mean 'kl_div'?");
    o.teacher_loss = "nll";
    expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT,
                   "the loss nll compares with class indices");
    o.teacher_loss = NULL;
    o.teacher = NULL;
    expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT, "teacher_output is given, and");
    expect_weight_refused(ctx, model, teacher, "cross_entropy", "2", STATOR_INVALID_ARGUMENT,
                          "option teacher_weight is '2', expected a number in [0, 1]");
    expect_weight_refused(ctx, model, teacher, "cross_entropy", "-0.5", STATOR_INVALID_ARGUMENT,
                          "option teacher_weight is '-0.5'");
    expect_weight_refused(ctx, model, teacher, NULL, "0.5", STATOR_INVALID_ARGUMENT,
                          "no loss beside the teacher's that it weighs");
    expect_weight_refused(ctx, model, NULL, "cross_entropy", "0.5", STATOR_NOT_FOUND,
                          "no option 'teacher_weight' in this step: a step with a teacher has it");
    stator_model_destroy(teacher);
}

static void expect_other_context_refused(stator_ctx *ctx, const stator_model *model)
{
    const stator_ctx_options options = {.struct_size = sizeof options};
    stator_ctx *other = NULL;
    CHECK(stator_ctx_create(&options, &other) == STATOR_OK);
    stator_model *teacher = load_text(other, BY_PLACE);
    const stator_train_options o = options_of(&rows[0], teacher);
    expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT, "is a model of another context");
    stator_model_destroy(teacher);
    stator_ctx_destroy(other);
}

int main(void)
{
    const stator_ctx_options options = {.struct_size = sizeof options};
    stator_ctx *ctx = NULL;
    CHECK(setenv("STATOR_SOFT_DEVICE", "1", 1) == 0);
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    stator_model *model = load_text(ctx, STUDENT);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK(run_everywhere(ctx, model, &rows[i]) >= 2);
    }
    expect_graph(ctx, model);
    expect_flags(ctx, model);
    expect_amp(ctx, model, "bf16", STATOR_BF16);
    expect_amp(ctx, model, "f16", STATOR_F16);
    expect_refused_teachers(ctx, model);
    expect_refusals(ctx, model);
    expect_other_context_refused(ctx, model);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return 0;
}
