/* A backend that computes every node with eager's kernels, one at a time, and spoils the results of
 * some: the row PLANT_NAME of planted_backends.def. For tests/tools/check_bisect.sh; the passes are
 * planted_pass.c.
 *
 * In: graphs after the default pipeline; control flow, effects and run-time sizes are left to
 * eager. */
#define _GNU_SOURCE
#include "core/base/check.h"
#include "core/base/convert.h"

#include <math.h>
#include <signal.h>
#include <stator/plugin.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum plant_way {
    PLANT_NOTHING,
    PLANT_SHIFTED,       /* every element has 0.25 added */
    PLANT_LAST,          /* the last element has 1 added */
    PLANT_LOSES_NAN,     /* NaN comes out as 0 */
    PLANT_SEGV_RUN,      /* a signal while it runs */
    PLANT_ABORT_COMPILE, /* a signal while it is compiled */
    PLANT_EXIT_RUN,      /* the process ends by itself */
    PLANT_ABORT_CREATE,  /* a signal before anything is compiled */
    PLANT_HANG_RUN,      /* never ends */
    PLANT_FAILS_RUN,     /* an error while it runs */
    PLANT_FUSION,        /* shifted when the fusion with the mul in front of it was allowed */
    PLANT_SYMBOLIC,      /* shifted where a size is a symbol */
    PLANT_STEP,          /* shifted; and of each round the last element is off by a step */
    PLANT_GROUP          /* after a dot_general: claimed with it as one ATOMIC group, and shifted */
};

typedef struct plant {
    const char *name;
    const char *op;
    uint32_t how;
    uint32_t dtype;
    uint64_t above;
} plant;

static const plant plants[] = {
#define PLANTED(name_, op_, how_, dtype_, above_) {#name_, op_, how_, dtype_, above_},
#include "planted_backends.def"
#undef PLANTED
};

typedef struct instance {
    const stator_host *host;
    const plant *plant;
    stator_instance *eager;
} instance;

typedef struct step {
    void *exe;
    uint32_t *refs; /* inputs, then results */
    uint32_t n_in, n_out;
    uint32_t how; /* PLANT_NOTHING: as it should be */
} step;

typedef struct program {
    step *steps;
    uint32_t n_steps;
    uint32_t n_values, n_inputs, n_outputs;
    uint32_t *outputs;
    stator_dtype *dtypes; /* by value */
    uint64_t workspace_bytes;
} program;

typedef struct value {
    DLTensor tensor;
    int64_t shape[STATOR_RANK_MAX];
    void *owned;
} value;

typedef struct call_state {
    const program *p;
    const stator_host *host;
    const step *step;
    value *values;
} call_state;

static void *zalloc(const stator_host *host, uint64_t size)
{
    void *p = host->mem->alloc(host->ctx, size + 1, 64);
    return p != NULL ? memset(p, 0, (size_t)size + 1) : NULL;
}

static stator_status fail(const stator_host *host, stator_diag **err, stator_status code,
                          const char *text)
{
    if (err != NULL && *err == NULL) {
        *err = host->diag->create(code, text, strlen(text));
    }
    return code;
}

static stator_status no_memory(const stator_host *host, stator_diag **err)
{
    return fail(host, err, STATOR_RESOURCE_EXHAUSTED, PLANT_NAME ": out of memory");
}

/* ---- instances ---- */

static void destroy(void *self, void *inst_)
{
    instance *inst = inst_;
    const stator_host *host = self;
    if (inst != NULL) {
        host->nested->close(inst->eager);
        host->mem->free(host->ctx, inst);
    }
}

static stator_status create(void *self, const stator_options *options, uint32_t device,
                            void **out_inst, stator_diag **err)
{
    const stator_host *host = self;
    (void)options;
    (void)device;
    instance *inst = zalloc(host, sizeof *inst);
    if (inst == NULL) {
        return no_memory(host, err);
    }
    inst->host = host;
    for (size_t i = 0; i < sizeof plants / sizeof plants[0]; i++) {
        if (strcmp(plants[i].name, PLANT_NAME) == 0) {
            inst->plant = &plants[i];
        }
    }
    if (inst->plant->how == PLANT_ABORT_CREATE) {
        abort();
    }
    const stator_status status =
        host->nested->open(host->ctx, PLANT_NAME, "eager", NULL, &inst->eager, err);
    *out_inst = status == STATOR_OK ? inst : NULL;
    return status;
}

/* ---- which nodes ---- */

static int is_op(const stator_graph_view *v, const stator_node_row *row, const char *name)
{
    return strcmp(stator_op_at(v, row->op)->name, name) == 0;
}

/* The node that makes operand 0, when it is of that op; else 0. */
static stator_ref producer(const stator_graph_view *v, const stator_node_row *row, const char *name)
{
    const stator_ref operand = stator_operand(v, row, 0);
    const stator_ref node = operand != 0 ? stator_value_at(v, operand)->node : 0;
    return node != 0 && is_op(v, stator_node_at(v, node), name) ? node : 0;
}

static int is_planted(const instance *inst, const stator_graph_view *v, const stator_node_row *row)
{
    const plant *p = inst->plant;
    if (p->how == PLANT_STEP && is_op(v, row, "round")) {
        return 1;
    }
    if (p->how == PLANT_NOTHING || !is_op(v, row, p->op)) {
        return 0;
    }
    if (p->how == PLANT_GROUP && producer(v, row, "dot_general") == 0) {
        return 0;
    }
    const stator_type_row *type = stator_value_type(v, row->result_begin);
    uint64_t count = 1;
    int has_symbol = 0;
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        int64_t size = 1;
        const int is_known = stator_sym_is_const(v, stator_dim_at(v, type, axis), &size);
        count *= is_known ? (uint64_t)size : 1u;
        has_symbol |= !is_known;
    }
    return (p->how != PLANT_SYMBOLIC || has_symbol) && (p->dtype == 0 || p->dtype == type->dtype) &&
           count > p->above;
}

static stator_status capability(void *inst_, const stator_graph *graph,
                                const stator_capability_sink *sink, stator_diag **err)
{
    const instance *inst = inst_;
    const stator_graph_view *v = inst->host->ir->view(graph);
    (void)err;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        const uint64_t refused = STATOR_OP_REGIONS | STATOR_OP_EFFECT | STATOR_OP_UNBACKED;
        if ((stator_op_at(v, row->op)->flags & refused) != 0) {
            sink->no(sink->self, node, STATOR_UNSUPPORTED, "left to eager");
            continue;
        }
        sink->yes(sink->self, node, 0);
        if (inst->plant->how == PLANT_GROUP && is_planted(inst, v, row)) {
            const stator_ref pair[] = {producer(v, row, "dot_general"), node};
            sink->group(sink->self, pair, 2, STATOR_GROUP_ATOMIC);
        }
    }
    return STATOR_OK;
}

/* ---- compiling ---- */

static void exe_destroy(void *inst_, void *exe)
{
    const instance *inst = inst_;
    const stator_host *host = inst->host;
    program *p = exe;
    for (uint32_t i = 0; p->steps != NULL && i < p->n_steps; i++) {
        if (p->steps[i].exe != NULL) {
            host->nested->exe_destroy(inst->eager, p->steps[i].exe);
        }
        host->mem->free(host->ctx, p->steps[i].refs);
    }
    host->mem->free(host->ctx, p->steps);
    host->mem->free(host->ctx, p->outputs);
    host->mem->free(host->ctx, p->dtypes);
    host->mem->free(host->ctx, p);
}

/* Distinct operands in order, then the results: the ports of what compile_node makes. */
static void list_ports(const stator_graph_view *v, const stator_node_row *row, step *s)
{
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref operand = stator_operand(v, row, k);
        uint32_t i = 0;
        while (i < s->n_in && s->refs[i] != operand) {
            i++;
        }
        if (operand != 0 && i == s->n_in) {
            s->refs[s->n_in++] = operand;
        }
    }
    for (uint32_t k = 0; k < row->result_count; k++) {
        s->refs[s->n_in + s->n_out++] = row->result_begin + k;
    }
}

static uint32_t way_of(const instance *inst, const stator_graph *graph, stator_ref node,
                       stator_fuel_scope *fuel)
{
    const stator_graph_view *v = inst->host->ir->view(graph);
    const stator_node_row *row = stator_node_at(v, node);
    if (!is_planted(inst, v, row)) {
        return PLANT_NOTHING;
    }
    if (inst->plant->how == PLANT_ABORT_COMPILE) {
        abort();
    }
    if (inst->plant->how == PLANT_FUSION) {
        return producer(v, row, "mul") != 0 &&
                       inst->host->fuel->may_apply(fuel, STATOR_FUEL_FUSION, "mul_add", node)
                   ? PLANT_SHIFTED
                   : PLANT_NOTHING;
    }
    const uint32_t how = inst->plant->how;
    if (how == PLANT_STEP) {
        return is_op(v, row, "round") ? PLANT_LAST : PLANT_SHIFTED;
    }
    return how == PLANT_GROUP || how == PLANT_SYMBOLIC ? (uint32_t)PLANT_SHIFTED : how;
}

static stator_status make_step(const instance *inst, program *p, const stator_graph *graph,
                               stator_ref node, stator_fuel_scope *fuel, stator_diag **err)
{
    const stator_host *host = inst->host;
    const stator_graph_view *v = host->ir->view(graph);
    const stator_node_row *row = stator_node_at(v, node);
    step *s = &p->steps[p->n_steps++];
    s->refs = zalloc(host, ((uint64_t)row->operand_count + row->result_count) * sizeof *s->refs);
    if (s->refs == NULL) {
        return no_memory(host, err);
    }
    list_ports(v, row, s);
    s->how = way_of(inst, graph, node, fuel);
    stator_exe_info info = {.struct_size = sizeof info};
    stator_status status = host->nested->compile_node(inst->eager, graph, node, &s->exe, err);
    if (status == STATOR_OK) {
        status = host->nested->exe_info(inst->eager, s->exe, &info);
    }
    if (info.workspace_bytes > p->workspace_bytes) {
        p->workspace_bytes = info.workspace_bytes;
    }
    return status;
}

static stator_status compile(void *inst_, const stator_graph *graph, stator_fuel_scope *fuel,
                             void **out_exe, stator_diag **err)
{
    const instance *inst = inst_;
    const stator_host *host = inst->host;
    const stator_graph_view *v = host->ir->view(graph);
    const uint32_t n_nodes = v->n_nodes;
    program *p = zalloc(host, sizeof *p);
    *out_exe = NULL;
    if (p == NULL) {
        return no_memory(host, err);
    }
    p->n_values = v->n_values;
    p->n_inputs = v->n_inputs;
    p->n_outputs = v->n_outputs;
    p->steps = zalloc(host, n_nodes * sizeof *p->steps);
    p->outputs = zalloc(host, v->n_outputs * sizeof *p->outputs);
    p->dtypes = zalloc(host, (v->n_values + UINT64_C(1)) * sizeof *p->dtypes);
    stator_status status = p->steps != NULL && p->outputs != NULL && p->dtypes != NULL
                               ? STATOR_OK
                               : no_memory(host, err);
    for (uint32_t k = 0; status == STATOR_OK && k < p->n_outputs; k++) {
        p->outputs[k] = stator_output_at(v, k);
    }
    for (stator_ref i = 1; status == STATOR_OK && i <= p->n_values; i++) {
        p->dtypes[i] = stator_value_type(v, i)->dtype;
    }
    for (stator_ref node = 1; status == STATOR_OK && node <= n_nodes; node++) {
        status = make_step(inst, p, graph, node, fuel, err);
    }
    if (status != STATOR_OK) {
        exe_destroy(inst_, p);
        return status;
    }
    *out_exe = p;
    return STATOR_OK;
}

static stator_status exe_info(void *inst, void *exe, stator_exe_info *out)
{
    (void)inst;
    (void)exe;
    out->flags = 0;
    out->workspace_bytes = 0;
    return STATOR_OK;
}

/* ---- running ---- */

static uint64_t count_of(const DLTensor *t)
{
    uint64_t n = 1;
    for (int32_t i = 0; i < t->ndim; i++) {
        n *= (uint64_t)t->shape[i];
    }
    return n;
}

static stator_status alloc_result(const stator_call *call, uint32_t k, uint32_t rank,
                                  const int64_t *shape, stator_diag **err)
{
    call_state *state = call->host;
    const stator_ref ref = state->step->refs[state->step->n_in + k];
    value *v = &state->values[ref];
    if (rank != 0) {
        memcpy(v->shape, shape, rank * sizeof *shape);
    }
    v->tensor = (DLTensor){.device = {kDLCPU, 0},
                           .ndim = (int32_t)rank,
                           .dtype = st_dtype_to_dl(state->p->dtypes[ref]),
                           .shape = v->shape};
    v->owned = zalloc(state->host, count_of(&v->tensor) * v->tensor.dtype.bits / 8u);
    v->tensor.data = v->owned;
    call->out[k] = v->tensor;
    return v->owned != NULL ? STATOR_OK : no_memory(state->host, err);
}

static void change_elements(const step *s, stator_dtype dtype, DLTensor *t)
{
    const int64_t n = (int64_t)count_of(t);
    for (int64_t i = 0; i < n; i++) {
        const double x = st_load_f64(dtype, t->data, i);
        if (s->how == PLANT_SHIFTED) {
            st_store_f64(dtype, t->data, i, x + 0.25);
        } else if (s->how == PLANT_LAST && i == n - 1) {
            st_store_f64(dtype, t->data, i, x + 1);
        } else if (s->how == PLANT_LOSES_NAN && isnan(x)) {
            st_store_f64(dtype, t->data, i, 0);
        }
    }
}

static stator_status spoil(const call_state *state, stator_diag **err)
{
    const step *s = state->step;
    const stator_ref ref = s->refs[s->n_in];
    switch (s->how) {
    case PLANT_SEGV_RUN:
        (void)raise(SIGSEGV);
        break;
    case PLANT_EXIT_RUN:
        _exit(7);
    case PLANT_HANG_RUN:
        for (;;) {
            (void)sleep(1);
        }
    case PLANT_FAILS_RUN:
        return fail(state->host, err, STATOR_INTERNAL, PLANT_NAME ": the kernel gave up");
    default:
        change_elements(s, state->p->dtypes[ref], &state->values[ref].tensor);
    }
    return STATOR_OK;
}

static stator_status run_step(const instance *inst, call_state *state, const stator_call *call,
                              void *workspace, stator_diag **err)
{
    const step *s = state->step;
    DLTensor *ports = zalloc(inst->host, (uint64_t)(s->n_in + s->n_out) * sizeof *ports);
    if (ports == NULL) {
        return no_memory(inst->host, err);
    }
    for (uint32_t k = 0; k < s->n_in; k++) {
        ports[k] = state->values[s->refs[k]].tensor;
    }
    const stator_call inner = {.struct_size = sizeof inner,
                               .n_in = s->n_in,
                               .n_out = s->n_out,
                               .n_syms = call->n_syms,
                               .in = ports,
                               .out = ports + s->n_in,
                               .syms = call->syms,
                               .workspace = workspace,
                               .workspace_bytes = state->p->workspace_bytes,
                               .ctx = call->ctx,
                               .alloc_output = alloc_result,
                               .host = state};
    stator_status status = inst->host->nested->run(inst->eager, s->exe, &inner, err);
    inst->host->mem->free(inst->host->ctx, ports);
    return status == STATOR_OK && s->how != PLANT_NOTHING ? spoil(state, err) : status;
}

static stator_status give_outputs(const call_state *state, const stator_call *call,
                                  stator_diag **err)
{
    for (uint32_t k = 0; k < state->p->n_outputs; k++) {
        const DLTensor *t = &state->values[state->p->outputs[k]].tensor;
        DLTensor *to = &call->out[k];
        if (to->data == NULL) {
            const stator_status status =
                call->alloc_output(call, k, (uint32_t)t->ndim, t->shape, err);
            if (status != STATOR_OK) {
                return status;
            }
        }
        const uint64_t size = count_of(t) * t->dtype.bits / 8u;
        if (size != 0) {
            memcpy((char *)to->data + to->byte_offset, (const char *)t->data + t->byte_offset,
                   size);
        }
    }
    return STATOR_OK;
}

static stator_status exe_run(void *inst_, void *exe, const stator_call *call, stator_diag **err)
{
    const instance *inst = inst_;
    const stator_host *host = inst->host;
    const program *p = exe;
    call_state state = {.p = p, .host = host};
    state.values = zalloc(host, (p->n_values + UINT64_C(1)) * sizeof *state.values);
    void *workspace = zalloc(host, p->workspace_bytes);
    stator_status status =
        state.values != NULL && workspace != NULL ? STATOR_OK : no_memory(host, err);
    for (stator_ref i = 1; status == STATOR_OK && i <= p->n_inputs; i++) {
        state.values[i].tensor = call->in[i - 1];
    }
    for (uint32_t i = 0; status == STATOR_OK && i < p->n_steps; i++) {
        state.step = &p->steps[i];
        status = run_step(inst, &state, call, workspace, err);
    }
    if (status == STATOR_OK) {
        status = give_outputs(&state, call, err);
    }
    for (stator_ref i = 1; state.values != NULL && i <= p->n_values; i++) {
        host->mem->free(host->ctx, state.values[i].owned);
    }
    host->mem->free(host->ctx, state.values);
    host->mem->free(host->ctx, workspace);
    return status;
}

/* ---- the descriptor ---- */

static const stator_backend backend = {
    .item = STATOR_ITEM(stator_backend, STATOR_KIND_BACKEND, PLANT_NAME,
                        "eager with a planted mistake"),
    .tags = "debug,cpu",
    .priority = -200,
    .create = create,
    .destroy = destroy,
    .capability = capability,
    .compile = compile,
    .exe_info = exe_info,
    .exe_run = exe_run,
    .exe_destroy = exe_destroy,
};

static const stator_item *const items[] = {&backend.item};

STATOR_PLUGIN(PLANT_NAME, "1.0.0", "Stator tests", "[\"backend\"]",
              ",\"tags\":[\"debug\",\"cpu\"],\"priority\":-200", items, stator_init_host, NULL);
