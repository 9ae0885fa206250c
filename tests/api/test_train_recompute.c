/* What a backward part computes again. The masks of a dropout have equal bits on every backend: in
 * the forward part, in the backward part, and where that draws them once more; training steps draw
 * others in each step. A call that is a checkpoint is computed again from its operands, whatever
 * the plan, also where a backend writes it out. */
#define _GNU_SOURCE
#include "api_check.h"

#include <stator/train.h>

static const char *const backends[] = {"eager", "aot_eager", "inductor-cpu", "cuda_soft",
                                       "hip_soft"};
#define BACKENDS (sizeof backends / sizeof backends[0])
#define PORTS_MAX 16u

/* ---- calls by name ---- */

typedef struct named {
    char name[32];
    stator_tensor *tensor;
} named;

/* What there is to call models with; results join it. */
typedef struct pool {
    named items[2 * PORTS_MAX];
    uint32_t n;
} pool;

static stator_tensor *find(const pool *p, const char *name)
{
    for (uint32_t k = 0; k < p->n; k++) {
        if (strcmp(p->items[k].name, name) == 0) {
            return p->items[k].tensor;
        }
    }
    return NULL;
}

static void join(pool *p, const char *name, stator_tensor *tensor)
{
    CHECK(p->n < 2 * PORTS_MAX && strlen(name) < sizeof p->items[0].name);
    memcpy(p->items[p->n].name, name, strlen(name) + 1);
    p->items[p->n++].tensor = tensor;
}

static void forget(pool *p)
{
    for (uint32_t k = 0; k < p->n; k++) {
        stator_tensor_release(p->items[k].tensor);
    }
    p->n = 0;
}

static stator_port_info output_at(const stator_model *model, uint32_t k)
{
    stator_port_info info = {.struct_size = sizeof info};
    CHECK(stator_model_output_info(model, k, &info) == STATOR_OK);
    return info;
}

/* Calls the model's function with what the pool has; 0: there is no such backend. */
static int run(stator_ctx *ctx, stator_model *model, const char *backend, pool *p, uint32_t *nodes)
{
    const stator_compile_options options = {.struct_size = sizeof options, .backend = backend};
    const uint32_t n_in = stator_model_input_count(model), n_out = stator_model_output_count(model);
    stator_tensor *in[PORTS_MAX] = {NULL}, *out[PORTS_MAX] = {NULL};
    stator_coverage rows[8];
    stator_function *function = NULL;
    const stator_status status = stator_compile(model, &options, &function);
    if (status == STATOR_NOT_FOUND || status == STATOR_UNAVAILABLE) {
        return 0;
    }
    CHECK_OK(ctx, status);
    CHECK(n_in <= PORTS_MAX && n_out <= PORTS_MAX);
    for (uint32_t k = 0; k < n_in; k++) {
        stator_port_info info = {.struct_size = sizeof info};
        CHECK_OK(ctx, stator_model_input_info(model, k, &info));
        in[k] = find(p, info.name);
        CHECK(in[k] != NULL);
    }
    CHECK_OK(ctx, stator_call_tensors(function, n_in, in, n_out, out));
    for (uint32_t k = 0; k < n_out; k++) {
        join(p, output_at(model, k).name, out[k]);
    }
    if (nodes != NULL) {
        CHECK(stator_function_coverage(function, 8, rows) >= 1);
        *nodes = rows[0].nodes;
    }
    stator_function_destroy(function);
    return 1;
}

static void expect_equal(const pool *p, const pool *want, const char *name, const char *what)
{
    const stator_tensor *x = find(p, name), *y = find(want, name);
    CHECK(x != NULL && y != NULL && stator_tensor_size_bytes(x) == stator_tensor_size_bytes(y));
    if (memcmp(stator_tensor_data(x), stator_tensor_data(y), stator_tensor_size_bytes(x)) != 0) {
        (void)fprintf(stderr, "%s: %s has other bits\n", what, name);
        CHECK(0);
    }
}

/* ---- dropout ---- */

#define ROWS 37
#define COLUMNS 29

/* As the ONNX frontend writes Dropout in training mode; an exact neighbour on either side. */
static const char DROPOUT[] =
    "stir 1\n"
    "graph @main(%x: f32[37, 29], param %w \"w\": f32[29] = {\n"
    "  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,\n"
    "  26, 27, 28, 29}) {\n"
    "  %seed = constant {value = i64[] {7}}\n"
    "  %offset = constant {value = i64[] {3}}\n"
    "  %u = rng_uniform(%seed, %offset) {shape = [37, 29]}\n"
    "  %r = constant {value = f32[] {0.3}}\n"
    "  %keep = constant {value = f32[] {0.7}}\n"
    "  %zero = constant {value = f32[] {0}}\n"
    "  %h = mul(%x, %w)\n"
    "  %mask = ge(%u, %r)\n"
    "  %s = div(%h, %keep)\n"
    "  %y = select(%mask, %s, %zero)\n"
    "  return y: %y, mask: %mask\n"
    "}\n";

static void fill(stator_ctx *ctx, pool *p)
{
    float x[ROWS * COLUMNS], ones[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        x[i] = (float)(1 + i % 97) / 64;
        ones[i] = 1;
    }
    join(p, "x", tensor_2d(ctx, ROWS, COLUMNS, x));
    join(p, "tangent_y", tensor_2d(ctx, ROWS, COLUMNS, ones));
}

/* The gradient is 0 where the mask is, and nowhere else. */
static void expect_one_mask(const pool *p, const char *what)
{
    const uint8_t *mask = stator_tensor_data(find(p, "mask"));
    const float *y = stator_tensor_data(find(p, "y"));
    const float *grad = stator_tensor_data(find(p, "grad_x"));
    int kept = 0;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        if ((y[i] != 0) != (mask[i] != 0) || (grad[i] != 0) != (mask[i] != 0)) {
            (void)fprintf(stderr, "%s: element %d is masked in one part alone\n", what, i);
            CHECK(0);
        }
        kept += mask[i] != 0;
    }
    CHECK(kept > ROWS * COLUMNS * 6 / 10 && kept < ROWS * COLUMNS * 8 / 10); /* 0.7 of them */
}

static const char *const checked[] = {"y", "mask", "grad_x"};

static void compare(const pool *p, const pool *want, const char *what)
{
    expect_one_mask(p, what);
    for (uint32_t k = 0; want->n > 0 && k < 3; k++) {
        expect_equal(p, want, checked[k], what);
    }
}

static stator_model *differentiate(stator_ctx *ctx, const stator_model *model)
{
    const stator_differentiate_options options = {.struct_size = sizeof options,
                                                  .wrt = STATOR_WRT_INPUTS | STATOR_WRT_PARAMS};
    stator_model *joint = NULL;
    CHECK_OK(ctx, stator_model_differentiate(model, &options, &joint));
    return joint;
}

/* The joint model, that which draws the mask twice, and the two parts, of which the backward one
 * draws it again, or is given it. How many backends there are. */
static int check_dropout(stator_ctx *ctx)
{
    stator_model *model = load_text(ctx, DROPOUT), *joint = differentiate(ctx, model);
    stator_model *again = NULL, *parts[2][2];
    stator_partition_facts facts = {.struct_size = sizeof facts};
    stator_partition_options options = {.struct_size = sizeof options,
                                        .plan = "min-cut",
                                        .flags = STATOR_PARTITION_RANDOM,
                                        .facts = &facts};
    int n = 0;
    CHECK_OK(ctx, stator_model_rematerialise(joint, &options, &again));
    CHECK(facts.recomputed >= 2); /* the draw and the comparison */
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t at = 0;
        options.flags = k == 0 ? STATOR_PARTITION_RANDOM : 0;
        CHECK_OK(ctx, stator_model_partition(joint, &options, &parts[k][0], &parts[k][1]));
        const int is_given = stator_model_find_input(parts[k][1], "mask", &at) == STATOR_OK;
        CHECK(is_given == (k == 1));
    }
    pool want = {.n = 0};
    for (uint32_t b = 0; b < BACKENDS; b++) {
        pool ways[4] = {{.n = 0}};
        for (uint32_t k = 0; k < 4; k++) {
            fill(ctx, &ways[k]);
        }
        int is_there = run(ctx, joint, backends[b], &ways[0], NULL);
        is_there = is_there && run(ctx, again, backends[b], &ways[1], NULL);
        for (uint32_t k = 0; k < 2 && is_there; k++) {
            is_there = run(ctx, parts[k][0], backends[b], &ways[2 + k], NULL) &&
                       run(ctx, parts[k][1], backends[b], &ways[2 + k], NULL);
        }
        for (uint32_t k = 0; k < 4 && is_there; k++) {
            compare(&ways[k], &want, backends[b]);
        }
        for (uint32_t k = 0; k < 4; k++) {
            if (k == 0 && b == 0) {
                want = ways[k];
            } else {
                forget(&ways[k]);
            }
        }
        n += is_there;
    }
    forget(&want);
    for (uint32_t k = 0; k < 4; k++) {
        stator_model_destroy(parts[k / 2][k % 2]);
    }
    stator_model_destroy(again);
    stator_model_destroy(joint);
    stator_model_destroy(model);
    return n;
}

/* ---- dropout in training steps ---- */

#define STEPS 3

/* Masks of some steps, with a seed; 0: there is no such backend. */
static int draw_steps(stator_ctx *ctx, const stator_model *model, const char *backend, int64_t seed,
                      uint8_t masks[STEPS][ROWS * COLUMNS])
{
    const stator_train_options options = {.struct_size = sizeof options,
                                          .flags = STATOR_TRAIN_OUTPUTS,
                                          .loss = "y",
                                          .optimizer = "sgd"};
    stator_model *step = NULL;
    stator_function *function = NULL;
    stator_tensor *in[PORTS_MAX] = {NULL}, *out[PORTS_MAX] = {NULL};
    pool data = {.n = 0};
    CHECK_OK(ctx, stator_model_train_step(model, &options, &step));
    const stator_compile_options how = {.struct_size = sizeof how, .backend = backend};
    const stator_status status = stator_compile(step, &how, &function);
    const uint32_t n_in = stator_model_input_count(step), n_out = stator_model_output_count(step);
    CHECK(n_in <= PORTS_MAX && n_out <= PORTS_MAX);
    if (status == STATOR_OK) {
        uint32_t at = 0;
        fill(ctx, &data);
        CHECK_OK(ctx, stator_model_find_input(step, "x", &at));
        in[at] = find(&data, "x");
        CHECK_OK(ctx, stator_model_find_input(step, "lr", &at));
        CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F64, 0, NULL, &in[at]));
        *(double *)stator_tensor_data(in[at]) = 0.01;
        join(&data, "lr", in[at]);
        CHECK_OK(ctx, stator_model_find_input(step, "seed", &at));
        CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_I64, 0, NULL, &in[at]));
        *(int64_t *)stator_tensor_data(in[at]) = seed;
        join(&data, "seed", in[at]);
        CHECK_OK(ctx, stator_train_state(model, step, NULL, n_in, in));
        for (uint32_t t = 0; t < STEPS; t++) {
            CHECK_OK(ctx, stator_call_tensors(function, n_in, in, n_out, out));
            const char *name = output_at(step, n_out - 1u).name;
            CHECK(strcmp(name, "mask") == 0);
            memcpy(masks[t], stator_tensor_data(out[n_out - 1u]), sizeof masks[t]);
        }
    } else {
        CHECK(status == STATOR_NOT_FOUND || status == STATOR_UNAVAILABLE);
    }
    for (uint32_t k = 0; k < n_in; k++) {
        uint32_t is_shared = 0;
        for (uint32_t i = 0; i < data.n; i++) {
            is_shared |= in[k] == data.items[i].tensor;
        }
        if (!is_shared) {
            stator_tensor_release(in[k]);
        }
    }
    for (uint32_t k = 0; k < n_out; k++) {
        stator_tensor_release(out[k]);
    }
    forget(&data);
    stator_function_destroy(function);
    stator_model_destroy(step);
    return status == STATOR_OK;
}

static void check_steps(stator_ctx *ctx)
{
    static uint8_t want[STEPS][ROWS * COLUMNS], got[STEPS][ROWS * COLUMNS];
    stator_model *model = load_text(ctx, DROPOUT);
    CHECK(draw_steps(ctx, model, "eager", 5, want));
    for (uint32_t t = 1; t < STEPS; t++) {
        CHECK(memcmp(want[0], want[t], sizeof want[0]) != 0);
    }
    CHECK(draw_steps(ctx, model, "eager", 6, got) && memcmp(want, got, sizeof want) != 0);
    for (uint32_t b = 1; b < BACKENDS; b++) {
        if (draw_steps(ctx, model, backends[b], 5, got)) {
            CHECK(memcmp(want, got, sizeof want) == 0);
        }
    }
    stator_model_destroy(model);
}

/* ---- checkpoints ---- */

/* A block with a call inside, which the mark reaches too. Products are never computed again
 * without it. */
static const char BLOCK[] =
    "stir 1\n"
    "graph @main(%x: f32[37, 29]) {\n"
    "  %h = tanh(%x) @\"/in\":Tanh\n"
    "  %c = call(%h) {checkpoint = CHECKPOINT} @\"/block\":Block\n"
    "    region @block(%1: f32[37, 29]) {\n"
    "      %2 = transpose(%1) {perm = [1, 0]} @\"/block/transpose\":Transpose\n"
    "      %3 = matmul(%1, %2) @\"/block/scores\":MatMul\n"
    "      %4 = call(%3) @\"/block/inner\":Inner\n"
    "        region @inner(%1: f32[37, 37]) {\n"
    "          %2 = tanh(%1) @\"/block/inner/tanh\":Tanh\n"
    "          %3 = matmul(%2, %2) @\"/block/inner/square\":MatMul\n"
    "          return %3\n"
    "        }\n"
    "      %5 = matmul(%4, %1) @\"/block/values\":MatMul\n"
    "      return %5\n"
    "    }\n"
    "  %y = tanh(%c) @\"/out\":Tanh\n"
    "  return y: %y\n"
    "}\n";

static stator_model *block(stator_ctx *ctx, int is_checkpoint)
{
    char text[sizeof BLOCK];
    const char *mark = strstr(BLOCK, "CHECKPOINT");
    (void)snprintf(text, sizeof text, "%.*s%d%s", (int)(mark - BLOCK), BLOCK, is_checkpoint,
                   mark + strlen("CHECKPOINT"));
    stator_model *model = load_text(ctx, text), *joint = differentiate(ctx, model);
    stator_model_destroy(model);
    return joint;
}

/* How many values the parts hand over beside the result y. */
static uint32_t saved_by(stator_ctx *ctx, const stator_model *joint, const char *plan,
                         stator_model **forward, stator_model **backward)
{
    const stator_partition_options options = {.struct_size = sizeof options, .plan = plan};
    CHECK_OK(ctx, stator_model_partition(joint, &options, forward, backward));
    return stator_model_output_count(*forward) - 1u;
}

/* Of the block nothing is saved but its operand, and its result where the backward part reads
 * that; without the mark there is more. */
static void check_saved(stator_ctx *ctx, const stator_model *marked, const stator_model *unmarked)
{
    static const char *const plans[] = {"default", "min-cut"};
    for (uint32_t k = 0; k < 2; k++) {
        stator_model *parts[4];
        const uint32_t n = saved_by(ctx, marked, plans[k], &parts[0], &parts[1]);
        CHECK(n < saved_by(ctx, unmarked, plans[k], &parts[2], &parts[3]));
        for (uint32_t i = 1; i <= n; i++) {
            const char *name = output_at(parts[0], i).name;
            CHECK(strcmp(name, "saved_h") == 0 || strcmp(name, "saved_c") == 0);
        }
        pool whole = {.n = 0}, halves = {.n = 0};
        fill(ctx, &whole);
        fill(ctx, &halves);
        stator_model *joint = NULL;
        const stator_partition_options options = {.struct_size = sizeof options, .plan = plans[k]};
        CHECK_OK(ctx, stator_model_rematerialise(marked, &options, &joint));
        CHECK(run(ctx, joint, "eager", &whole, NULL));
        CHECK(run(ctx, parts[0], "eager", &halves, NULL));
        CHECK(run(ctx, parts[1], "eager", &halves, NULL));
        expect_equal(&halves, &whole, "grad_x", plans[k]);
        forget(&whole);
        forget(&halves);
        stator_model_destroy(joint);
        for (uint32_t i = 0; i < 4; i++) {
            stator_model_destroy(parts[i]);
        }
    }
}

static void check_checkpoint(stator_ctx *ctx)
{
    stator_model *marked = block(ctx, 1), *unmarked = block(ctx, 0);
    pool one = {.n = 0}, other = {.n = 0};
    uint32_t nodes[2];
    check_saved(ctx, marked, unmarked);
    fill(ctx, &one);
    fill(ctx, &other);
    /* aot_eager writes calls out: the first two products stand there twice. */
    CHECK(run(ctx, marked, "aot_eager", &one, &nodes[0]));
    CHECK(run(ctx, unmarked, "aot_eager", &other, &nodes[1]));
    CHECK(nodes[0] >= nodes[1] + 2);
    expect_equal(&one, &other, "grad_x", "checkpoint");
    forget(&one);
    forget(&other);
    stator_model_destroy(marked);
    stator_model_destroy(unmarked);
}

int main(void)
{
    const stator_ctx_options options = {.struct_size = sizeof options};
    stator_ctx *ctx = NULL;
    CHECK(setenv("STATOR_SOFT_DEVICE", "1", 1) == 0);
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    CHECK(check_dropout(ctx) >= 2);
    check_steps(ctx);
    check_checkpoint(ctx);
    stator_ctx_destroy(ctx);
    return 0;
}
