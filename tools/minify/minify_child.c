/* What minify runs in children; see minify.h. Each loads the model anew: nothing that a backend
 * does to its process reaches the next trial. */
#define _GNU_SOURCE
#include "tools/minify/minify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The record that crosses from the child: once when the good backend has answered, and once at the
 * end. */
typedef struct report {
    uint32_t is_whole;
    uint32_t reserved;
    minify_outcome outcome;
} report;

typedef struct worker {
    const minify *m;
    const minify_job *job;
    const child *c;
    minify_outcome *out;
    stator_ctx *ctx;
    stator_model *loaded;
    stator_model *graph_model; /* the same without writes into inputs; loaded, where it has none */
    stator_model *model;       /* the current program */
    stator_tensor **loaded_in, **in;
    uint32_t n_loaded_in, n_in;
} worker;

/* ---- failing ---- */

static void take_error(worker *w, uint32_t verdict)
{
    w->out->verdict = verdict;
    child_take_error(w->ctx, &w->out->error);
}

static bool fail_ctx(worker *w, uint32_t verdict)
{
    (void)cli_fail_ctx(w->ctx, -1);
    take_error(w, verdict);
    return false;
}

static bool fail_memory(worker *w)
{
    (void)cli_fail(-1, "RESOURCE_EXHAUSTED", NULL, "no memory: %s", strerror(errno));
    take_error(w, BISECT_REFUSED);
    return false;
}

static bool leave_report(const worker *w, uint32_t is_whole)
{
    const report r = {.is_whole = is_whole, .outcome = *w->out};
    return child_write(w->c->files[CHILD_REPORT], &r, sizeof r, 0);
}

/* ---- the program ---- */

static const stator_graph_view *view_of(const worker *w, const stator_model *model)
{
    const stator_graph *graph = stator_model_graph(model);
    return graph != NULL ? stator_ctx_host(w->ctx)->ir->view(graph) : NULL;
}

/* A node that writes into the buffer of an input changes what others read: between such nodes no
 * graph is cut. Functionalized, the graph has a value for each state of the buffer. */
static bool take_writes_out(worker *w)
{
    const stator_graph_view *v = view_of(w, w->loaded);
    bool writes = false;
    for (stator_ref node = 1; v != NULL && node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        writes |= (stator_op_at(v, row->op)->flags & STATOR_OP_WRITES) != 0;
    }
    w->graph_model = w->loaded;
    return !writes ||
           stator_x_run_pass(w->loaded, "functionalize", 0, NULL, NULL, &w->graph_model) ==
               STATOR_OK ||
           fail_ctx(w, BISECT_REFUSED);
}

/* The inputs of a cut: what the good backend computed, or random as --random 0 gives them. */
static bool make_inputs(worker *w, const minify_cut *cut)
{
    w->n_in = cut->n_inputs;
    w->in = calloc(w->n_in + 1u, sizeof(stator_tensor *));
    for (uint32_t k = 0; w->in != NULL && k < w->n_in; k++) {
        const DLTensor *known = w->m->record.known[cut->inputs[k]];
        stator_port_info port = {.struct_size = sizeof port};
        if (stator_model_input_info(w->model, k, &port) != STATOR_OK ||
            stator_tensor_create(w->ctx, port.dtype, (uint32_t)known->ndim, known->shape,
                                 &w->in[k]) != STATOR_OK) {
            return fail_ctx(w, BISECT_REFUSED);
        }
        if (cut->is_random) {
            cli_fill_random(w->in[k], 0, k);
        } else if (stator_tensor_size_bytes(w->in[k]) != 0) {
            memcpy(stator_tensor_data(w->in[k]), known->data, stator_tensor_size_bytes(w->in[k]));
        }
    }
    return w->in != NULL || fail_memory(w);
}

static bool make_program(worker *w)
{
    const minify_cut *cut = w->job->cut;
    if (cut->is_whole) {
        w->model = w->loaded;
        w->in = w->loaded_in;
        w->n_in = w->n_loaded_in;
        return true;
    }
    const stator_x_cut parts = {.struct_size = sizeof parts,
                                .n_nodes = cut->n_nodes,
                                .n_inputs = cut->n_inputs,
                                .n_outputs = cut->n_outputs,
                                .nodes = cut->nodes,
                                .inputs = cut->inputs,
                                .outputs = cut->outputs,
                                .known = cut->has_symbols ? NULL : w->m->record.known};
    return take_writes_out(w) &&
           (stator_x_model_cut(w->graph_model, &parts, &w->model) == STATOR_OK ||
            fail_ctx(w, BISECT_REFUSED)) &&
           make_inputs(w, cut);
}

/* ---- running ---- */

/* 1 with the results; else the outcome says why not. */
static bool run_backend(worker *w, const bisect_recipe *recipe, bisect_results *out)
{
    stator_function *function = bisect_compile(w->ctx, w->model, recipe);
    *out = (bisect_results){.n_out = 0};
    if (function == NULL) {
        take_error(w, BISECT_REFUSED);
        return false;
    }
    return bisect_call(function, w->n_in, w->in, stator_model_output_count(w->model), out) ||
           fail_ctx(w, BISECT_FAILS);
}

static void compare_results(worker *w, const bisect_results *good, const bisect_results *bad)
{
    w->out->verdict = BISECT_AGREES;
    for (uint32_t i = 0; i < good->n_out + good->n_in; i++) {
        st_difference d;
        st_compare(stator_tensor_view(bad->tensors[i]), stator_tensor_view(good->tensors[i]),
                   &w->job->setup->tolerance, &d);
        if (!d.ok) {
            w->out->verdict = BISECT_DIFFERS;
            w->out->result = i;
            w->out->max_abs = d.max_abs;
            return;
        }
    }
}

static void run_trial(worker *w)
{
    const bisect_setup *s = w->job->setup;
    const bisect_recipe recipes[] = {{.backend = s->good},
                                     {.backend = s->bad, .flags = &s->compile}};
    bisect_results good, bad;
    if (!make_program(w) || !run_backend(w, &recipes[0], &good)) {
        return;
    }
    w->out->is_good_done = 1;
    if (leave_report(w, 0) && run_backend(w, &recipes[1], &bad)) {
        compare_results(w, &good, &bad);
    }
    const bisect_pair pair = {.model = w->model,
                              .in = w->in,
                              .n_in = w->n_in,
                              .good = recipes[0],
                              .bad = recipes[1],
                              .tolerance = s->tolerance};
    stator_x_place place;
    if (w->out->verdict == BISECT_DIFFERS && bisect_is_rounding(&pair, &place)) {
        w->out->verdict = BISECT_AGREES; /* one step of a rounding is no wrong answer */
        bisect_print_steps(&place, w->out->error.message, sizeof w->out->error.message);
    }
}

/* The graph and the inputs, for the parent. */
static void survey(worker *w)
{
    if (!take_writes_out(w)) {
        return;
    }
    const stator_graph_view *v = view_of(w, w->graph_model);
    w->out->verdict = BISECT_AGREES;
    if (v == NULL || !minify_graph_write(v, w->c->files[CHILD_LIST]) ||
        !child_tensors_write(w->c->files[CHILD_KEPT], w->n_loaded_in, w->loaded_in)) {
        (void)fail_memory(w);
    }
}

static void record(worker *w)
{
    const bisect_recipe good = {.backend = w->job->setup->good};
    const uint32_t n = w->job->n_values;
    bisect_results results;
    if (!take_writes_out(w)) {
        return;
    }
    if (stator_x_model_with_outputs(w->graph_model, n, w->job->values, &w->model) != STATOR_OK) {
        (void)fail_ctx(w, BISECT_REFUSED);
        return;
    }
    w->in = w->loaded_in;
    w->n_in = w->n_loaded_in;
    if (!run_backend(w, &good, &results)) {
        return;
    }
    w->out->verdict = BISECT_AGREES;
    if (!child_tensors_write(w->c->files[CHILD_KEPT], n, results.tensors)) {
        (void)fail_memory(w);
    }
}

/* ---- writing ---- */

static bool write_npz(worker *w, const char *name, const cli_tensors *list)
{
    char path[4200];
    char errbuf[512] = "";
    (void)snprintf(path, sizeof path, "%s/%s", w->job->folder, name);
    if (cli_write_npz(path, list, errbuf)) {
        return true;
    }
    (void)cli_fail(-1, "UNAVAILABLE", NULL, "%s", errbuf);
    take_error(w, BISECT_REFUSED);
    return false;
}

static bool write_inputs(worker *w)
{
    cli_tensors list = {.ctx = w->ctx};
    for (uint32_t k = 0; k < w->n_in; k++) {
        stator_port_info port = {.struct_size = sizeof port};
        stator_tensor_retain(w->in[k]);
        if (stator_model_input_info(w->model, k, &port) != STATOR_OK ||
            !cli_tensors_add(&list, port.name, w->in[k])) {
            return fail_memory(w);
        }
    }
    return write_npz(w, "inputs.npz", &list);
}

/* Runs the program on the good backend. */
static bool write_expected(worker *w)
{
    const bisect_recipe good = {.backend = w->job->setup->good};
    cli_tensors list = {.ctx = w->ctx};
    bisect_results results;
    ST_NEED(run_backend(w, &good, &results));
    for (uint32_t k = 0; k < results.n_out; k++) {
        char buffer[32];
        stator_tensor_retain(results.tensors[k]);
        if (!cli_tensors_add(&list, cli_output_name(w->model, k, buffer), results.tensors[k])) {
            return fail_memory(w);
        }
    }
    return write_npz(w, "expected.npz", &list);
}

static void write_all(worker *w)
{
    char path[4200];
    const minify_cut *cut = w->job->cut;
    (void)snprintf(path, sizeof path, "%s/repro.stir", w->job->folder);
    if (!make_program(w)) {
        return;
    }
    if (stator_x_model_write(w->model, path) != STATOR_OK) {
        (void)fail_ctx(w, BISECT_REFUSED);
        return;
    }
    if ((cut->is_random || w->n_in == 0 || write_inputs(w)) && write_expected(w)) {
        w->out->verdict = BISECT_AGREES;
    }
}

/* ---- both sides ---- */

/* The whole of a child's life. Programs that are tried once are no use to the compile cache, and a
 * kept one would not be compiled again. */
static bool child_main(void *self, const child *c)
{
    worker *w = self;
    minify_outcome outcome = {.verdict = 0};
    w->c = c;
    w->out = &outcome;
    (void)setenv("STATOR_CACHE", "0", 1);
    if (!bisect_load(w->job->setup, &w->ctx, &w->loaded, &w->loaded_in, &w->n_loaded_in)) {
        take_error(w, BISECT_REFUSED);
    } else {
        switch (w->job->task) {
        case MINIFY_SURVEY:
            survey(w);
            break;
        case MINIFY_RECORD:
            record(w);
            break;
        case MINIFY_TRIAL:
            run_trial(w);
            break;
        default:
            write_all(w);
        }
    }
    return leave_report(w, 1);
}

bool minify_child(minify *m, const minify_job *job, child *c, minify_outcome *out)
{
    worker w = {.m = m, .job = job};
    const bool is_first = job->task == MINIFY_TRIAL && m->trials == 0;
    const child_work todo = {
        .run = child_main, .self = &w, .timeout_s = job->setup->timeout_s, .is_quiet = !is_first};
    report r = {.is_whole = 0};
    *out = (minify_outcome){.verdict = 0};
    if (!child_run(c, &todo)) {
        m->is_broken = true;
        return child_failed(m->setup.common.json);
    }
    const bool has_report = child_report(c, &r, sizeof r);
    if (has_report) {
        *out = r.outcome;
    }
    if (!has_report || !r.is_whole) {
        out->verdict = BISECT_CRASHES;
        child_death(c, &out->error);
    }
    return true;
}
