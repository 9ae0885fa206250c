/* Joint models from C: what they hold, what their gradients are, which options are refused. */
#include "api_check.h"

#include <stator/train.h>

/* loss = sum((x w + b)^2 / 2) over two rows; y = x w + b. */
static const char PROGRAM[] = "stir 1\n"
                              "graph @main(\n"
                              "  %x: f32[2, 2],\n"
                              "  param %w \"w\": f32[2, 1] = {0.5, -1},\n"
                              "  param %b \"b\": f32[1] = {2},\n"
                              "  %tangent_y: f32[3],\n"
                              "  %i: i64[2]\n"
                              ") {\n"
                              "  %p = matmul(%x, %w)\n"
                              "  %y = add(%p, %b)\n"
                              "  %q = square(%y)\n"
                              "  %half = constant {value = f32[] {0.5}}\n"
                              "  %h = mul(%q, %half)\n"
                              "  %loss = reduce_sum(%h) {axes = [0, 1]}\n"
                              "  %j = neg(%i)\n"
                              "  %grad_w = neg(%tangent_y)\n"
                              "  return loss: %loss, y: %y, j: %j, grad_w: %grad_w\n"
                              "}\n";

static void expect_input(const stator_model *model, uint32_t k, const char *name)
{
    stator_port_info port = {.struct_size = sizeof port};
    CHECK(stator_model_input_info(model, k, &port) == STATOR_OK && strcmp(port.name, name) == 0);
}

static void expect_output(const stator_model *model, uint32_t k, const char *name)
{
    stator_port_info port = {.struct_size = sizeof port};
    CHECK(stator_model_output_info(model, k, &port) == STATOR_OK && strcmp(port.name, name) == 0);
}

static void expect_refused(stator_ctx *ctx, const stator_model *model,
                           const stator_differentiate_options *options, stator_status code,
                           const char *words)
{
    stator_model *joint = (stator_model *)ctx;
    CHECK(stator_model_differentiate(model, options, &joint) == code && joint == NULL);
    if (strstr(stator_ctx_error_text(ctx), words) == NULL) {
        (void)fprintf(stderr, "no '%s': %s\n", words, stator_ctx_error_text(ctx));
        CHECK(0);
    }
}

static const float *data_of(const stator_tensor *t)
{
    return stator_tensor_data(t);
}

/* The parameters' gradients of the loss, on each backend. */
static void expect_gradients(stator_ctx *ctx, const stator_model *model, const char *backend)
{
    const stator_differentiate_options options = {.struct_size = sizeof options, .loss = "loss"};
    const float x[4] = {1, 2, -3, 0.5f}, t[3] = {1, 2, 3};
    const int64_t three = 3, two = 2;
    stator_model *joint = NULL;
    stator_tensor *in[3] = {tensor_2d(ctx, 2, 2, x), NULL, NULL}, *out[6] = {NULL};
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F32, 1, &three, &in[1]));
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_I64, 1, &two, &in[2]));
    memcpy(stator_tensor_data(in[1]), t, sizeof t);
    memset(stator_tensor_data(in[2]), 0, 16);
    CHECK_OK(ctx, stator_model_differentiate(model, &options, &joint));
    CHECK(stator_model_input_count(joint) == 3 && stator_model_output_count(joint) == 6);
    expect_output(joint, 4, "grad_w_"); /* the model has an output grad_w */
    expect_output(joint, 5, "grad_b");
    stator_function *function = compile_for(ctx, joint, backend);
    CHECK_OK(ctx, stator_call_tensors(function, 3, in, 6, out));
    /* y = (0.5, 0): dloss/dw = x^T y, dloss/db = sum of y */
    CHECK(data_of(out[1])[0] == 0.5f && data_of(out[1])[1] == 0);
    CHECK(data_of(out[0])[0] == 0.125f);
    CHECK(data_of(out[4])[0] == 0.5f && data_of(out[4])[1] == 1);
    CHECK(data_of(out[5])[0] == 0.5f);
    for (uint32_t k = 0; k < 6; k++) {
        stator_tensor_release(out[k]);
    }
    for (uint32_t k = 0; k < 3; k++) {
        stator_tensor_release(in[k]);
    }
    stator_function_destroy(function);
    stator_model_destroy(joint);
}

/* Without a loss: a tangent for each output of a float dtype, under a name that is free. */
static void expect_tangents(stator_ctx *ctx, const stator_model *model)
{
    stator_model *joint = NULL;
    CHECK_OK(ctx, stator_model_differentiate(model, NULL, &joint));
    CHECK(stator_model_input_count(joint) == 6 && stator_model_output_count(joint) == 6);
    expect_input(joint, 3, "tangent_loss");
    expect_input(joint, 4, "tangent_y_");
    expect_input(joint, 5, "tangent_grad_w");
    stator_model_destroy(joint);
    const char *const names[] = {"tangent_y", "x"};
    const stator_differentiate_options named = {
        .struct_size = sizeof named, .names = names, .name_count = 2, .wrt = STATOR_WRT_PARAMS};
    CHECK_OK(ctx, stator_model_differentiate(model, &named, &joint));
    CHECK(stator_model_output_count(joint) == 8);
    expect_output(joint, 4, "grad_x"); /* in the order of the inputs */
    expect_output(joint, 7, "grad_tangent_y");
    stator_model_destroy(joint);
}

/* Nodes of the backward part stand behind the others and say so. */
static void expect_parts(stator_ctx *ctx, const stator_model *model)
{
    stator_model *joint = NULL;
    uint32_t backward = 0;
    CHECK_OK(ctx, stator_model_differentiate(model, NULL, &joint));
    const stator_graph_view *v = stator_ctx_host(ctx)->ir->view(stator_model_graph(joint));
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        CHECK(backward == 0 || stator_node_is_backward(v, node));
        backward += stator_node_is_backward(v, node);
        const stator_node_row *row = stator_node_at(v, node);
        CHECK(stator_value_at(v, row->result_begin)->witness == row->result_begin);
    }
    CHECK(backward > 4 && backward + 7 == v->n_nodes - 1u);
    stator_model_destroy(joint);
}

/* ---- the parts ---- */

#define PORTS_MAX 24u

typedef struct named_tensors {
    char name[PORTS_MAX][64];
    stator_tensor *at[PORTS_MAX];
    uint32_t n;
} named_tensors;

static void keep(named_tensors *list, const char *name, stator_tensor *tensor)
{
    CHECK(list->n < PORTS_MAX);
    (void)snprintf(list->name[list->n], sizeof list->name[0], "%s", name);
    list->at[list->n++] = tensor;
}

static stator_tensor *find(const named_tensors *list, const char *name)
{
    for (uint32_t k = 0; k < list->n; k++) {
        if (strcmp(list->name[k], name) == 0) {
            return list->at[k];
        }
    }
    (void)fprintf(stderr, "nobody gives '%s'\n", name);
    CHECK(0);
    return NULL;
}

/* Calls with inputs of the list; its outputs come to it, under their names. */
static void call_by_name(stator_ctx *ctx, stator_model *model, named_tensors *list,
                         named_tensors *results)
{
    stator_function *function = compile_for(ctx, model, "eager");
    const uint32_t n_in = stator_model_input_count(model);
    const uint32_t n_out = stator_model_output_count(model);
    stator_tensor *in[PORTS_MAX], *out[PORTS_MAX] = {NULL};
    stator_port_info port = {.struct_size = sizeof port};
    CHECK(n_in <= PORTS_MAX && n_out <= PORTS_MAX);
    for (uint32_t k = 0; k < n_in; k++) {
        CHECK(stator_model_input_info(model, k, &port) == STATOR_OK);
        in[k] = find(list, port.name);
    }
    CHECK_OK(ctx, stator_call_tensors(function, n_in, in, n_out, out));
    for (uint32_t k = 0; k < n_out; k++) {
        CHECK(stator_model_output_info(model, k, &port) == STATOR_OK);
        keep(results, port.name, out[k]);
    }
    stator_function_destroy(function);
}

/* Numbers for every input of the joint model. */
static void fill_inputs(stator_ctx *ctx, const stator_model *joint, named_tensors *list)
{
    for (uint32_t k = 0; k < stator_model_input_count(joint); k++) {
        stator_port_info port = {.struct_size = sizeof port};
        stator_tensor *made = NULL;
        CHECK(stator_model_input_info(joint, k, &port) == STATOR_OK);
        for (uint32_t axis = 0; axis < port.rank; axis++) {
            port.dims[axis] = port.dims[axis] < 0 ? 3 : port.dims[axis];
        }
        CHECK_OK(ctx, stator_tensor_create(ctx, port.dtype, port.rank, port.dims, &made));
        memset(stator_tensor_data(made), 0, stator_tensor_size_bytes(made));
        for (uint64_t i = 0; port.dtype == STATOR_F32 && i < stator_tensor_size_bytes(made) / 4;
             i++) {
            ((float *)stator_tensor_data(made))[i] = 0.3f * (float)(k + 1) - 0.7f * (float)i;
        }
        keep(list, port.name, made);
    }
}

static uint64_t saved_bytes(const named_tensors *list)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < list->n; k++) {
        bytes +=
            strncmp(list->name[k], "saved_", 6) == 0 ? stator_tensor_size_bytes(list->at[k]) : 0;
    }
    return bytes;
}

/* Forward, then backward, gives what the joint model gives, bit for bit. How many bytes are saved
 * beside results. */
static uint64_t expect_planned_halves(stator_ctx *ctx, const stator_model *model, const char *loss,
                                      const stator_partition_options *plan)
{
    const stator_differentiate_options options = {
        .struct_size = sizeof options, .loss = loss, .wrt = STATOR_WRT_PARAMS | STATOR_WRT_INPUTS};
    stator_model *joint = NULL, *forward = NULL, *backward = NULL;
    named_tensors list = {.n = 0}, whole = {.n = 0}, results = {.n = 0};
    CHECK_OK(ctx, stator_model_differentiate(model, &options, &joint));
    CHECK_OK(ctx, stator_model_partition(joint, plan, &forward, &backward));
    fill_inputs(ctx, joint, &list);
    const uint32_t n_given = list.n;
    call_by_name(ctx, joint, &list, &whole);
    call_by_name(ctx, forward, &list, &list); /* what is saved is an input of the next */
    call_by_name(ctx, backward, &list, &results);
    CHECK(results.n != 0);
    for (uint32_t k = 0; k < whole.n; k++) {
        const bool is_gradient =
            strncmp(whole.name[k], "grad_", 5) == 0 && k + results.n >= whole.n;
        const stator_tensor *got = find(is_gradient ? &results : &list, whole.name[k]);
        CHECK(memcmp(stator_tensor_data(got), stator_tensor_data(whole.at[k]),
                     stator_tensor_size_bytes(got)) == 0);
    }
    const uint64_t bytes = saved_bytes(&list);
    for (uint32_t k = 0; k < list.n; k++) {
        stator_tensor_release(list.at[k]);
    }
    for (uint32_t k = 0; k < whole.n; k++) {
        stator_tensor_release(whole.at[k]);
    }
    for (uint32_t k = 0; k < results.n; k++) {
        stator_tensor_release(results.at[k]);
    }
    CHECK(n_given < list.n);
    stator_model_destroy(joint);
    stator_model_destroy(forward);
    stator_model_destroy(backward);
    return bytes;
}

/* Plans change no bit, and each saves no more than the one before. */
static void expect_halves(stator_ctx *ctx, const stator_model *model, const char *loss)
{
    stator_partition_options plan = {
        .struct_size = sizeof plan, .plan = "min-cut", .flags = STATOR_PARTITION_BUDGET};
    uint64_t before = expect_planned_halves(ctx, model, loss, NULL);
    for (uint32_t k = 0; k <= 4; k++) {
        plan.budget = 1 - k / 4.0;
        const uint64_t bytes = expect_planned_halves(ctx, model, loss, &plan);
        CHECK(bytes <= before);
        before = bytes;
    }
}

/* The sum over N tells the backward part's tangent nothing of N: x comes along for its size. */
static const char SIZED[] = "stir 1\n"
                            "sym N in [1, 9]\n"
                            "graph @main(%x: f32[N], %w: f32[2]) {\n"
                            "  %r = reshape(%w) {shape = [2, 1]}\n"
                            "  %e = expand(%r) {shape = [2, N]}\n"
                            "  %t = tanh(%e)\n"
                            "  %y = reduce_sum(%t) {axes = [0, 1]}\n"
                            "  %z = add(%y, %y)\n"
                            "  return z: %z\n"
                            "}\n";

/* Random words are computed again where that is allowed, and are the same ones. */
static const char DROPS[] = "stir 1\n"
                            "graph @main(%x: f32[8, 8], %w: f32[8, 8], %seed: i64[]) {\n"
                            "  %u = rng_uniform(%seed, %seed) {shape = [8, 8]}\n"
                            "  %half = constant {value = f32[] {0.5}}\n"
                            "  %keep = lt(%u, %half)\n"
                            "  %p = matmul(%x, %w)\n"
                            "  %t = tanh(%p)\n"
                            "  %zero = constant {value = f32[] {0}}\n"
                            "  %d = select(%keep, %t, %zero)\n"
                            "  %y = matmul(%d, %w)\n"
                            "  return y: %y\n"
                            "}\n";

static uint32_t recomputed(stator_ctx *ctx, const stator_model *joint, uint32_t flags)
{
    stator_partition_facts facts = {.struct_size = sizeof facts};
    const stator_partition_options o = {
        .struct_size = sizeof o, .plan = "min-cut", .flags = flags, .budget = 0, .facts = &facts};
    stator_model *planned = NULL;
    CHECK_OK(ctx, stator_model_rematerialise(joint, &o, &planned));
    CHECK(facts.is_capped == 0);
    const stator_graph_view *v = stator_ctx_host(ctx)->ir->view(stator_model_graph(planned));
    uint32_t n = 0, n_random = 0;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const uint64_t op_flags = stator_op_at(v, stator_node_at(v, node)->op)->flags;
        const bool is_again = stator_node_is_recomputed(v, node);
        n += is_again;
        n_random += is_again && (op_flags & STATOR_OP_RANDOM) != 0;
        CHECK(!is_again || stator_node_is_backward(v, node));
        CHECK(!is_again || (op_flags & STATOR_OP_CONTRACTS) == 0 || flags != 0);
    }
    CHECK(n == facts.recomputed);
    CHECK(n_random == ((flags & STATOR_PARTITION_RANDOM) != 0));
    stator_model_destroy(planned);
    return n;
}

static void expect_allowed(stator_ctx *ctx)
{
    stator_model *model = load_text(ctx, DROPS), *joint = NULL;
    CHECK_OK(ctx, stator_model_differentiate(model, NULL, &joint));
    const uint32_t cheap = recomputed(ctx, joint, 0);
    const uint32_t heavy = recomputed(ctx, joint, STATOR_PARTITION_BUDGET);
    const uint32_t all = recomputed(ctx, joint, STATOR_PARTITION_BUDGET | STATOR_PARTITION_RANDOM);
    CHECK(cheap != 0 && heavy > cheap && all > heavy);
    stator_model_destroy(joint);
    stator_partition_options plan = {.struct_size = sizeof plan,
                                     .plan = "min-cut",
                                     .flags = STATOR_PARTITION_BUDGET | STATOR_PARTITION_RANDOM};
    CHECK(expect_planned_halves(ctx, model, NULL, &plan) == 0);
    stator_model_destroy(model);
}

static void expect_parts_refused(stator_ctx *ctx, const stator_model *model)
{
    stator_model *forward = NULL, *backward = NULL, *joint = NULL;
    stator_partition_options o = {.struct_size = sizeof o, .plan = "min-cut", .budget = 2};
    CHECK(stator_model_partition(model, NULL, &forward, &backward) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "no gradient among its outputs") != NULL);
    CHECK_OK(ctx, stator_model_differentiate(model, NULL, &joint));
    o.flags = STATOR_PARTITION_BUDGET;
    CHECK(stator_model_partition(joint, &o, &forward, &backward) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "budget 2 is not from 0 to 1") != NULL);
    o.plan = NULL;
    o.budget = 0.5;
    CHECK(stator_model_partition(joint, &o, &forward, &backward) == STATOR_INVALID_ARGUMENT);
    o.flags = 8;
    CHECK(stator_model_partition(joint, &o, &forward, &backward) == STATOR_INVALID_ARGUMENT);
    o = (stator_partition_options){.struct_size = sizeof o, .plan = "best"};
    CHECK(stator_model_partition(joint, &o, &forward, &backward) == STATOR_INVALID_ARGUMENT);
    CHECK(forward == NULL && backward == NULL);
    stator_model_destroy(joint);
}

static void expect_refusals(stator_ctx *ctx, const stator_model *model)
{
    const char *const integer[] = {"i"}, *const unknown[] = {"ww"}, *const missing[] = {NULL};
    stator_differentiate_options o = {.struct_size = sizeof o, .loss = "los"};
    expect_refused(ctx, model, &o, STATOR_NOT_FOUND, "no output 'los', did you mean 'loss'?");
    o.loss = "j";
    expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT, "output 'j' is i64");
    o = (stator_differentiate_options){.struct_size = sizeof o, .names = integer, .name_count = 1};
    expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT, "input 'i' is i64");
    o.names = unknown;
    expect_refused(ctx, model, &o, STATOR_NOT_FOUND, "input 'ww', did you mean 'w'?");
    o.names = missing;
    expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT, "name 0 is NULL");
    o.names = NULL;
    expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT, "names is NULL");
    o = (stator_differentiate_options){.struct_size = sizeof o, .wrt = 8};
    expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT, "stator_differentiate_options.wrt");
    o = (stator_differentiate_options){.struct_size = 0};
    expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT, "stator_differentiate_options");
}

int main(void)
{
    const stator_ctx_options options = {.struct_size = sizeof options};
    stator_ctx *ctx = NULL;
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    stator_model *model = load_text(ctx, PROGRAM);
    expect_gradients(ctx, model, "eager");
    expect_gradients(ctx, model, "aot_eager");
    expect_tangents(ctx, model);
    expect_parts(ctx, model);
    expect_refusals(ctx, model);
    expect_halves(ctx, model, "loss");
    expect_halves(ctx, model, NULL);
    expect_parts_refused(ctx, model);
    expect_allowed(ctx);
    stator_model *sized = load_text(ctx, SIZED);
    expect_halves(ctx, sized, "z");
    expect_halves(ctx, sized, NULL);
    stator_model_destroy(sized);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return 0;
}
