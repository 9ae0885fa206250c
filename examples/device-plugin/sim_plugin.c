/* The backend "sim": elementwise f32 graphs on a simulated device with memory of its own. It shows
 * what a backend for an accelerator is to Stator (docs/devices.md), and the tests of that:
 *
 *     stator run model.onnx --backend sim --plugin-dir build
 *
 * An executable is one list of instructions; a kernel runs it for each element of an output on
 * the thread of the call's stream. A division by zero is an error here, found while the kernel
 * runs, long after exe_run has returned: the next wait of the stream tells it, and the host
 * takes all that was queued since the wait before to have failed. A backend that knows which
 * call it was has the slot late_failure. */
#include "sim_device.h"

#include <stator/plugin.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ABOUT "elementwise f32 on a simulated device with memory of its own"

enum { DEVICES = 2, VALUES_MAX = 64, PORTS_MAX = 24 };

typedef struct sim_instance {
    const stator_host *host;
    uint32_t device;
    uint32_t delay_us;
} sim_instance;

/* The answer of a slot that takes memory. */
static stator_status made(const stator_host *host, bool is_made, stator_diag **err)
{
    return is_made ? STATOR_OK
                   : stator_fail(host, err, STATOR_RESOURCE_EXHAUSTED, "sim: out of memory");
}

/* ---- instances ---- */

static const stator_option_desc options[] = {
    {.struct_size = sizeof(stator_option_desc),
     .type = STATOR_OPTION_I64,
     .key = "delay_us",
     .default_text = "0",
     .min_i64 = 0,
     .max_i64 = 1000000,
     .help = "each piece of work begins so many microseconds late"},
};

static stator_status create(void *self, const stator_options *values, uint32_t device, void **inst,
                            stator_diag **err)
{
    const stator_host *host = self;
    if (device >= DEVICES) {
        return stator_fail(host, err, STATOR_NOT_FOUND, "sim: there are devices 0 and 1 alone");
    }
    sim_instance *s = malloc(sizeof *s);
    if (s != NULL) {
        *s = (sim_instance){host, device, (uint32_t)host->opt->get_i64(values, "delay_us")};
    }
    *inst = s;
    return made(host, s != NULL, err);
}

/* Ends an instance, an event or an executable: blocks of memory, all of them. */
static void end(void *of, void *block)
{
    (void)of;
    free(block);
}

/* ---- memory ---- */

static stator_status memory(void *inst, stator_memory_info *out, stator_diag **err)
{
    const sim_instance *s = inst;
    (void)err;
    out->device = (DLDevice){.device_type = kDLExtDev, .device_id = (int32_t)s->device};
    out->alignment = SIM_ALIGNMENT;
    return STATOR_OK;
}

static stator_status alloc(void *inst, uint64_t size, void *stream, void **out, stator_diag **err)
{
    const sim_instance *s = inst;
    (void)stream;
    *out = sim_alloc(size);
    return made(s->host, *out != NULL, err);
}

static void free_memory(void *inst, void *p, void *stream)
{
    (void)inst;
    sim_free(p, stream);
}

static stator_status check_address(void *inst, const void *p, stator_diag **err)
{
    const sim_instance *s = inst;
    return (uintptr_t)p >= SIM_OFFSET ? STATOR_OK
                                      : stator_fail(s->host, err, STATOR_INVALID_ARGUMENT,
                                                    "sim: the pointer is one of the host's memory");
}

typedef struct transfer {
    void *dst, *src; /* as the host sees them; src NULL: a fill */
    uint64_t size;
    uint32_t value;
    uint32_t frees_src;
} transfer;

static const char *run_transfer(void *arguments)
{
    const transfer *t = arguments;
    if (t->src != NULL) {
        memcpy(t->dst, t->src, t->size);
    } else {
        memset(t->dst, (int)t->value, t->size);
    }
    free(t->frees_src ? t->src : NULL);
    return NULL;
}

/* The host's bytes are read now, into a buffer that the command frees. */
static stator_status copy(void *inst, void *dst, const void *src, uint64_t size, uint32_t direction,
                          void *stream, stator_diag **err)
{
    const sim_instance *s = inst;
    transfer t = {.dst = direction == STATOR_COPY_TO_HOST ? dst : sim_host(dst), .size = size};
    t.frees_src = direction == STATOR_COPY_TO_DEVICE;
    t.src = t.frees_src ? malloc(size) : sim_host(src);
    if (t.frees_src && t.src != NULL) {
        memcpy(t.src, src, size);
    }
    return made(s->host, t.src != NULL && sim_launch(stream, run_transfer, &t, sizeof t), err);
}

static stator_status fill(void *inst, void *dst, uint8_t value, uint64_t size, void *stream,
                          stator_diag **err)
{
    const sim_instance *s = inst;
    const transfer t = {.dst = sim_host(dst), .size = size, .value = value};
    return made(s->host, sim_launch(stream, run_transfer, &t, sizeof t), err);
}

/* ---- streams ---- */

static stator_status stream_create(void *inst, void **out, stator_diag **err)
{
    const sim_instance *s = inst;
    *out = sim_stream_create(s->delay_us);
    return made(s->host, *out != NULL, err);
}

static void stream_destroy(void *inst, void *stream)
{
    (void)inst;
    sim_stream_destroy(stream);
}

static stator_status synchronize(void *inst, void *stream, stator_diag **err)
{
    const sim_instance *s = inst;
    const char *failure = sim_stream_wait(stream);
    return failure == NULL ? STATOR_OK
                           : stator_fail(s->host, err, STATOR_INVALID_ARGUMENT, failure);
}

static stator_status event_create(void *inst, void **out, stator_diag **err)
{
    const sim_instance *s = inst;
    *out = calloc(1, sizeof(sim_event));
    return made(s->host, *out != NULL, err);
}

static stator_status event_record(void *inst, void *event, void *stream, stator_diag **err)
{
    (void)inst, (void)err;
    sim_event_record(event, stream);
    return STATOR_OK;
}

static stator_status event_wait(void *inst, void *event, void *stream, stator_diag **err)
{
    const sim_instance *s = inst;
    return made(s->host, sim_event_wait(event, stream), err);
}

/* ---- compiling ---- */

enum op { OP_INPUT, OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_NEG, OP_EXP, OP_TANH, OP_NONE };

static const char *const op_names[] = {"", "add", "sub", "mul", "div", "neg", "exp", "tanh"};

typedef struct instruction {
    uint16_t op;
    uint16_t a, b; /* values */
    uint16_t type; /* equal for values of equal shape */
} instruction;

/* Values are numbered as in the graph: inputs first, then a result for each node. */
typedef struct program {
    instruction values[VALUES_MAX];
    uint16_t outputs[PORTS_MAX];
    uint32_t n_values, n_inputs, n_outputs;
} program;

/* The node's op, if it is one of those, of f32 and without broadcasting; else OP_NONE. */
static uint32_t op_of(const stator_graph_view *v, const stator_node_row *row)
{
    const char *name = stator_op_at(v, row->op)->name;
    const stator_ref type = stator_value_at(v, row->result_begin)->type;
    bool is_run = row->result_count == 1 && stator_type_at(v, type)->dtype == STATOR_F32;
    uint32_t op = OP_ADD;
    while (op < OP_NONE && strcmp(op_names[op], name) != 0) {
        op++;
    }
    for (uint32_t k = 0; k < row->operand_count; k++) {
        is_run &= stator_value_at(v, stator_operand(v, row, k))->type == type;
    }
    return is_run ? op : (uint32_t)OP_NONE;
}

/* Constants stay with the host, which hands them in as inputs. */
static stator_status capability(void *inst, const stator_graph *graph,
                                const stator_capability_sink *sink, stator_diag **err)
{
    const sim_instance *s = inst;
    const stator_graph_view *v = s->host->ir->view(graph);
    (void)err;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const bool is_run = op_of(v, stator_node_at(v, node)) != OP_NONE;
        is_run ? sink->yes(sink->self, node, 0)
               : sink->no(sink->self, node, STATOR_UNSUPPORTED,
                          "sim runs a few elementwise ops of f32, without broadcasting");
    }
    return STATOR_OK;
}

/* False: the graph has more than a program holds, or a node that is not run here. */
static bool write_program(const stator_graph_view *v, program *p)
{
    if (v->n_values >= VALUES_MAX || v->n_outputs > PORTS_MAX || v->n_inputs > PORTS_MAX) {
        return false;
    }
    *p = (program){.n_values = v->n_values, .n_inputs = v->n_inputs, .n_outputs = v->n_outputs};
    for (stator_ref value = 1; value <= v->n_values; value++) {
        p->values[value].type = (uint16_t)stator_value_at(v, value)->type;
    }
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        instruction *at = &p->values[row->result_begin];
        at->op = (uint16_t)op_of(v, row);
        if (at->op == OP_NONE) {
            return false;
        }
        at->a = (uint16_t)stator_operand(v, row, 0);
        at->b = (uint16_t)stator_operand(v, row, row->operand_count - 1u);
    }
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        p->outputs[k] = (uint16_t)stator_output_at(v, k);
    }
    return true;
}

static stator_status compile(void *inst, const stator_graph *graph, stator_fuel_scope *fuel,
                             void **exe, stator_diag **err)
{
    const sim_instance *s = inst;
    program *p = malloc(sizeof *p);
    (void)fuel;
    *exe = p;
    if (p == NULL || write_program(s->host->ir->view(graph), p)) {
        return made(s->host, p != NULL, err);
    }
    free(p);
    *exe = NULL;
    return stator_fail(s->host, err, STATOR_NEED_FALLBACK,
                       "sim: the part has other nodes, or more than 63 values or 24 ports");
}

static stator_status exe_info(void *inst, void *exe, stator_exe_info *out)
{
    (void)inst, (void)exe;
    out->flags = STATOR_EXE_STATIC_OUTPUTS;
    return STATOR_OK;
}

/* ---- running ---- */

typedef struct kernel {
    const program *program;
    const float *in[PORTS_MAX]; /* as the host sees them; those of the output's shape are read */
    float *out;
    uint64_t count;
    uint32_t output;
} kernel;
_Static_assert(sizeof(kernel) <= SIM_ARGUMENTS, "a kernel's arguments fit");

static float compute(const instruction *i, const float *x, bool *is_bad)
{
    const float a = x[i->a], b = x[i->b];
    *is_bad |= i->op == OP_DIV && b == 0.0f;
    const float results[OP_NONE] = {
        [OP_ADD] = a + b, [OP_SUB] = a - b,   [OP_MUL] = a * b,    [OP_DIV] = a / b,
        [OP_NEG] = -a,    [OP_EXP] = expf(a), [OP_TANH] = tanhf(a)};
    return results[i->op];
}

static const char *run_kernel(void *arguments)
{
    const kernel *k = arguments;
    const program *p = k->program;
    const uint32_t result = p->outputs[k->output];
    float x[VALUES_MAX];
    bool is_bad = false;
    for (uint64_t e = 0; e < k->count; e++) {
        for (uint32_t v = 1; v <= p->n_values; v++) {
            const instruction *i = &p->values[v];
            if (i->type == p->values[result].type) {
                x[v] = i->op == OP_INPUT ? k->in[v - 1][e] : compute(i, x, &is_bad);
            }
        }
        k->out[e] = x[result];
    }
    return is_bad ? "sim: a divisor is 0" : NULL;
}

/* Sizes of outputs are those of inputs, so the host has placed all of them. */
static stator_status exe_run(void *inst, void *exe, const stator_call *call, stator_diag **err)
{
    const sim_instance *s = inst;
    const program *p = exe;
    stator_status status = STATOR_OK;
    for (uint32_t k = 0; status == STATOR_OK && k < p->n_outputs; k++) {
        const DLTensor *out = &call->out[k];
        kernel work = {.program = p, .output = k, .out = sim_host(out->data), .count = 1};
        for (uint32_t i = 0; i < p->n_inputs; i++) {
            work.in[i] = sim_host(call->in[i].data);
        }
        for (int32_t axis = 0; axis < out->ndim; axis++) {
            work.count *= (uint64_t)out->shape[axis];
        }
        status = made(s->host, sim_launch(call->stream, run_kernel, &work, sizeof work), err);
    }
    return status;
}

static const stator_backend backend = {
    .item = STATOR_ITEM_OPTIONS(stator_backend, STATOR_KIND_BACKEND, "sim", ABOUT, options),
    .tags = "experimental",
    .priority = -20,
    .flags = STATOR_BACKEND_CONCURRENT_COMPILE,
    .create = create,
    .destroy = end,
    .pipeline = stator_pipeline_primitives,
    .capability = capability,
    .compile = compile,
    .exe_info = exe_info,
    .exe_run = exe_run,
    .exe_destroy = end,
    .alloc = alloc,
    .free = free_memory,
    .copy = copy,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .synchronize = synchronize,
    .memory = memory,
    .event_create = event_create,
    .event_destroy = end,
    .event_record = event_record,
    .event_wait = event_wait,
    .fill = fill,
    .check_address = check_address,
};

static const stator_item *const items[] = {&backend.item};

STATOR_PLUGIN("sim", "1.0.0", "Stator examples", "[\"backend\"]",
              ",\"tags\":[\"experimental\"],\"priority\":-20,\"description\":\"" ABOUT "\"", items,
              stator_init_host, NULL);
