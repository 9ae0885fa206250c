/* The check of each node's gradient at the values of one run.
 *
 * In: a model, its inputs, what is differentiated. The model is brought to f64 and run on `eager`,
 * so that every node's operands are known. Each node that a gradient passes through becomes a model
 * of its own: f(x), and beside it the joint model of f. For one operand after the other a direction
 * d is drawn, and with the tangents t of f's results
 *
 *     want = sum over e of t[e] (f(x + h d)[e] - f(x - h d)[e]) / 2h     got = sum over i of g[i]
 * d[i]
 *
 * have to agree. Error of the differences: h^2 times a third derivative and 2^-53 / h of rounding;
 * h = 1e-5 of each element leaves some 1e-10. Where a result bends between x - hd and x + hd (relu
 * at 0) every slope between the two is allowed; results that are not finite have tangent 0. Where
 * the two disagree, and an element of the operands or results is not finite, neither of them can be
 * blamed: 0 times it is NaN in sums of the one and not of the other. */
#include "tools/grad/grad.h"

#include "core/base/check.h"
#include "core/base/convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP 1e-5
#define TOLERANCE 1e-6
/* A second difference that is larger than this part of the first is a bend. Smooth results have
 * h f'' / f', which is 1e-5 of a curvature of one. */
#define BEND 1e-3

typedef struct checker {
    const cli_graph *g;
    const stator_differentiate_options *options;
    stator_model *model; /* in f64 */
    const stator_graph_view *v;
    uint8_t *path;
    stator_tensor **values; /* by value; NULL: not read by a node on the path */
    const DLTensor **views;
    grad_report *report;
} checker;

/* One node as a model of its own. */
typedef struct probe {
    checker *c;
    const stator_node_row *row;
    stator_model *plain, *joint;
    stator_function *f, *gradient;
    stator_ref inputs[CLI_OPTIONS_MAX], outputs[CLI_OPTIONS_MAX];
    stator_tensor *in[2u * CLI_OPTIONS_MAX]; /* operands, then tangents */
    uint32_t n_in, n_out, n_grads;
    uint32_t grad_of[CLI_OPTIONS_MAX];      /* place of an input's gradient among those of joint */
    stator_tensor *out[3][CLI_OPTIONS_MAX]; /* at x, x + hd, x - hd */
    stator_tensor *all[3u * CLI_OPTIONS_MAX]; /* outputs of joint */
} probe;

/* ---- tensors ---- */

static bool is_float(const stator_graph_view *v, stator_ref value)
{
    return st_dtype_class(stator_value_type(v, value)->dtype) == STATOR_CLASS_FLOAT;
}

static bool is_f64(const stator_graph_view *v, stator_ref value)
{
    return stator_value_type(v, value)->dtype == STATOR_F64;
}

static uint64_t count_of(const stator_tensor *t)
{
    return stator_tensor_size_bytes(t) / sizeof(double);
}

static double *f64_of(const stator_tensor *t)
{
    return stator_tensor_data(t);
}

static void release_all(stator_tensor **tensors, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        stator_tensor_release(tensors[k]);
        tensors[k] = NULL;
    }
}

static stator_tensor *f64_like(stator_ctx *ctx, const stator_tensor *like)
{
    const DLTensor *view = stator_tensor_view(like);
    stator_tensor *made = NULL;
    return stator_tensor_create(ctx, STATOR_F64, (uint32_t)view->ndim, view->shape, &made) ==
                   STATOR_OK
               ? made
               : NULL;
}

/* Floats of the inputs as f64. */
static cli_status widen_inputs(const checker *c, stator_tensor **in, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t dtype = stator_tensor_dtype(in[k]);
        uint64_t count = 0;
        const DLTensor *view = stator_tensor_view(in[k]);
        if (st_dtype_class(dtype) != STATOR_CLASS_FLOAT || dtype == STATOR_F64 ||
            !st_numel(view->shape, (uint32_t)view->ndim, &count)) {
            continue;
        }
        stator_tensor *wide = f64_like(c->g->ctx, in[k]);
        CLI_TRY(wide != NULL ? CLI_OK : cli_fail_ctx(c->g->ctx, c->g->common.json));
        st_load_f64_block(dtype, stator_tensor_data(in[k]), 0, (int64_t)count, f64_of(wide));
        stator_tensor_release(in[k]);
        in[k] = wide;
    }
    return CLI_OK;
}

/* ---- the values of the run ---- */

static bool is_checked(const checker *c, const stator_node_row *row)
{
    bool any = false;
    for (uint32_t k = 0; k < row->result_count; k++) {
        any |= c->path[row->result_begin + k] != 0;
    }
    return any;
}

/* The values that checked nodes read, once each. */
static uint32_t list_values(const checker *c, stator_ref *out)
{
    uint8_t *seen = calloc(c->v->n_values + UINT64_C(1), 1);
    uint32_t n = 0;
    for (stator_ref node = 1; seen != NULL && node <= c->v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(c->v, node);
        for (uint32_t k = 0; is_checked(c, row) && k < row->operand_count; k++) {
            const stator_ref operand = stator_operand(c->v, row, k);
            if (operand != 0 && !seen[operand]) {
                seen[operand] = 1;
                out[n++] = operand;
            }
        }
    }
    free(seen);
    return n;
}

static stator_function *compile(stator_model *model)
{
    const stator_compile_options options = {
        .struct_size = sizeof options, .backend = "eager", .flags = STATOR_COMPILE_NO_CACHE};
    stator_function *function = NULL;
    return stator_compile(model, &options, &function) == STATOR_OK ? function : NULL;
}

static cli_status read_values(checker *c, uint32_t n_in, stator_tensor *const *in)
{
    const uint64_t room = c->v->n_values + UINT64_C(1);
    stator_ref *wanted = calloc(room, sizeof *wanted);
    stator_tensor **out = calloc(room, sizeof(stator_tensor *));
    stator_model *observed = NULL;
    c->values = calloc(room, sizeof(stator_tensor *));
    c->views = calloc(room, sizeof(DLTensor *));
    bool ok = wanted != NULL && out != NULL && c->values != NULL && c->views != NULL;
    const uint32_t n = ok ? list_values(c, wanted) : 0;
    ok = ok && n != 0 && stator_x_model_with_outputs(c->model, n, wanted, &observed) == STATOR_OK;
    stator_function *function = ok ? compile(observed) : NULL;
    ok = ok && function != NULL && stator_call_tensors(function, n_in, in, n, out) == STATOR_OK;
    for (uint32_t k = 0; ok && k < n; k++) {
        c->values[wanted[k]] = out[k];
        c->views[wanted[k]] = stator_tensor_view(out[k]);
    }
    stator_function_destroy(function);
    stator_model_destroy(observed);
    free(wanted);
    free(out);
    return ok || n == 0 ? CLI_OK : cli_fail_ctx(c->g->ctx, c->g->common.json);
}

/* ---- one node ---- */

static bool is_listed(const stator_ref *list, uint32_t n, stator_ref value)
{
    bool found = false;
    for (uint32_t k = 0; k < n; k++) {
        found |= list[k] == value;
    }
    return found;
}

/* False where the node cannot be checked: more ports than there is room for, or floats that are not
 * of f64. */
static bool choose_ports(probe *p)
{
    const stator_graph_view *v = p->c->v;
    for (uint32_t k = 0; k < p->row->operand_count; k++) {
        const stator_ref operand = stator_operand(v, p->row, k);
        if (operand == 0 || is_listed(p->inputs, p->n_in, operand)) {
            continue;
        }
        if (p->n_in == CLI_OPTIONS_MAX || (is_float(v, operand) && !is_f64(v, operand))) {
            return false;
        }
        p->grad_of[p->n_in] = p->n_grads;
        p->n_grads += is_float(v, operand);
        p->inputs[p->n_in++] = operand;
    }
    for (uint32_t k = 0; k < p->row->result_count; k++) {
        const stator_ref result = p->row->result_begin + k;
        if (!is_float(v, result)) {
            continue;
        }
        if (p->n_out == CLI_OPTIONS_MAX || !is_f64(v, result)) {
            return false;
        }
        p->outputs[p->n_out++] = result;
    }
    return true;
}

/* The node, and its joint model with gradients to the operands on the path. */
static stator_status make_models(probe *p, stator_ref node)
{
    const stator_x_cut cut = {.struct_size = sizeof cut,
                              .n_nodes = 1,
                              .n_inputs = p->n_in,
                              .n_outputs = p->n_out,
                              .nodes = &node,
                              .inputs = p->inputs,
                              .outputs = p->outputs,
                              .known = p->c->views};
    const char *names[CLI_OPTIONS_MAX];
    stator_differentiate_options wrt = {.struct_size = sizeof wrt, .names = names};
    stator_status status = stator_x_model_cut(p->c->model, &cut, &p->plain);
    p->n_grads = 0;
    for (uint32_t k = 0; status == STATOR_OK && k < p->n_in; k++) {
        stator_port_info port = {.struct_size = sizeof port};
        status = stator_model_input_info(p->plain, k, &port);
        if (p->c->path[p->inputs[k]]) {
            p->grad_of[k] = p->n_grads++;
            names[wrt.name_count++] = port.name;
        }
    }
    ST_THEN(status, stator_model_differentiate(p->plain, &wrt, &p->joint));
    p->f = status == STATOR_OK ? compile(p->plain) : NULL;
    p->gradient = status == STATOR_OK ? compile(p->joint) : NULL;
    return p->f != NULL && p->gradient != NULL ? STATOR_OK : STATOR_INTERNAL;
}

/* f at x + step * d along input k; d == NULL: at x. */
static bool evaluate(probe *p, uint32_t at, uint32_t k, const stator_tensor *d, double step)
{
    stator_tensor *const kept = p->in[k];
    stator_tensor *moved = d != NULL ? f64_like(p->c->g->ctx, kept) : NULL;
    release_all(p->out[at], p->n_out);
    ST_NEED(d == NULL || moved != NULL);
    for (uint64_t i = 0; d != NULL && i < count_of(kept); i++) {
        f64_of(moved)[i] = f64_of(kept)[i] + step * f64_of(d)[i];
    }
    p->in[k] = d != NULL ? moved : kept;
    const bool ok = stator_call_tensors(p->f, p->n_in, p->in, p->n_out, p->out[at]) == STATOR_OK;
    p->in[k] = kept;
    stator_tensor_release(moved);
    return ok;
}

/* A direction whose elements are as large as x's are. */
static stator_tensor *direction(const probe *p, uint32_t k)
{
    stator_tensor *d = f64_like(p->c->g->ctx, p->in[k]);
    double mean = 0;
    const uint64_t n = d != NULL ? count_of(d) : 0;
    if (d != NULL) {
        cli_fill_random(d, 1, k);
    }
    for (uint64_t i = 0; i < n; i++) {
        const double x = fabs(f64_of(p->in[k])[i]);
        mean += isfinite(x) ? x / (double)n : 0;
    }
    for (uint64_t i = 0; i < n; i++) {
        const double x = fabs(f64_of(p->in[k])[i]);
        f64_of(d)[i] *= isfinite(x) ? fmax(x, fmax(1e-3 * mean, 1e-6)) : 0;
    }
    return d;
}

/* Tangents: random ones, 0 where a result is not finite. */
static bool make_tangents(probe *p)
{
    for (uint32_t k = 0; k < p->n_out; k++) {
        stator_tensor **t = &p->in[p->n_in + k];
        stator_tensor_release(*t);
        *t = f64_like(p->c->g->ctx, p->out[0][k]);
        ST_NEED(*t != NULL);
        cli_fill_random(*t, 2, k);
        for (uint64_t i = 0; i < count_of(*t); i++) {
            const bool is_finite = isfinite(f64_of(p->out[0][k])[i]) &&
                                   isfinite(f64_of(p->out[1][k])[i]) &&
                                   isfinite(f64_of(p->out[2][k])[i]);
            f64_of(*t)[i] = is_finite ? f64_of(*t)[i] : 0;
        }
    }
    return true;
}

typedef struct slope {
    double want, got;
    double scale;    /* sum of what is added up, absolute */
    double rounding; /* of the differences */
    double bends;    /* how far slopes to the left and to the right are apart */
    bool is_finite;  /* every result was */
} slope;

static void add_differences(const probe *p, slope *s)
{
    for (uint32_t k = 0; k < p->n_out; k++) {
        const double *x = f64_of(p->out[0][k]), *above = f64_of(p->out[1][k]);
        const double *below = f64_of(p->out[2][k]), *t = f64_of(p->in[p->n_in + k]);
        for (uint64_t i = 0; i < count_of(p->out[0][k]); i++) {
            if (t[i] == 0) {
                s->is_finite = false;
                continue;
            }
            const double first = t[i] * (above[i] - below[i]) / (2 * STEP);
            const double second = fabs(t[i] * (above[i] - 2 * x[i] + below[i]) / STEP);
            const double rounding = fabs(t[i] * x[i]) * 0x1p-50 / STEP;
            s->want += first;
            s->scale += fabs(first);
            s->rounding += rounding;
            s->bends += second > BEND * fabs(first) + 4 * rounding ? second : 0;
        }
    }
}

/* Where results were not finite the gradients that lead there count nothing. */
static void add_gradient(const stator_tensor *grad, const stator_tensor *d, slope *s)
{
    for (uint64_t i = 0; i < count_of(grad); i++) {
        const double part = f64_of(grad)[i] * f64_of(d)[i];
        if (s->is_finite || isfinite(part)) {
            s->got += part;
            s->scale += fabs(part);
        }
    }
}

/* "x"; "xs[2]" of a list; from "x, w, b?". */
static void operand_name(const char *names, uint32_t k, char out[48])
{
    for (uint32_t i = 0; i < k && strchr(names, ',') != NULL; i++) {
        names = strchr(names, ',') + 1;
    }
    names += strspn(names, " ");
    const int n = (int)strcspn(names, ",?*");
    if (names[n] == '*') {
        (void)snprintf(out, 48, "%.*s[%u]", n, names, k);
    } else {
        (void)snprintf(out, 48, "%.*s", n, names);
    }
}

static bool is_finite(const stator_tensor *t)
{
    uint64_t i = 0;
    while (i < count_of(t) && isfinite(f64_of(t)[i])) {
        i++;
    }
    return i == count_of(t);
}

/* Is every float of the node's operands and results finite, at x and beside it? */
static bool has_finite_values(const probe *p)
{
    bool ok = true;
    for (uint32_t k = 0; ok && k < p->n_in; k++) {
        ok = !is_float(p->c->v, p->inputs[k]) || is_finite(p->in[k]);
    }
    for (uint32_t k = 0; ok && k < p->n_out; k++) {
        ok = is_finite(p->out[0][k]) && is_finite(p->out[1][k]) && is_finite(p->out[2][k]);
    }
    return ok;
}

/* The gradient and the differences disagree. */
static bool note_wrong(const probe *p, uint32_t input, const slope *s)
{
    grad_report *r = p->c->report;
    grad_wrong *wrong = realloc(r->wrong, (r->n_wrong + 1u) * sizeof *wrong);
    stator_x_place place = {.struct_size = sizeof place};
    uint32_t k = 0;
    ST_NEED(wrong != NULL);
    r->wrong = wrong;
    ST_NEED(stator_x_describe(p->c->model, p->row->result_begin, &place) == STATOR_OK);
    while (stator_operand(p->c->v, p->row, k) != p->inputs[input]) {
        k++;
    }
    wrong += r->n_wrong;
    *wrong = (grad_wrong){.got = s->got, .want = s->want, .is_undecided = !has_finite_values(p)};
    (void)snprintf(wrong->node, sizeof wrong->node, "%s", place.node);
    operand_name(stator_op_at(p->c->v, p->row->op)->operands, k, wrong->operand);
    r->n_wrong++;
    r->n_undecided += wrong->is_undecided;
    return true;
}

static bool check_operand(probe *p, uint32_t k)
{
    slope s = {.is_finite = true};
    const uint32_t n_all = stator_model_output_count(p->joint);
    stator_tensor *d = direction(p, k);
    bool ok =
        d != NULL && evaluate(p, 1, k, d, STEP) && evaluate(p, 2, k, d, -STEP) &&
        make_tangents(p) &&
        stator_call_tensors(p->gradient, p->n_in + p->n_out, p->in, n_all, p->all) == STATOR_OK;
    if (ok) {
        add_differences(p, &s);
        add_gradient(p->all[n_all - p->n_grads + p->grad_of[k]], d, &s);
        if (!(fabs(s.got - s.want) <= TOLERANCE * s.scale + s.rounding + s.bends)) {
            ok = note_wrong(p, k, &s);
        }
    }
    release_all(p->all, n_all);
    stator_tensor_release(d);
    return ok;
}

static bool check_operands(probe *p)
{
    for (uint32_t k = 0; k < p->n_in; k++) {
        p->in[k] = p->c->values[p->inputs[k]];
    }
    ST_NEED(evaluate(p, 0, 0, NULL, 0));
    for (uint32_t k = 0; k < p->n_in; k++) {
        ST_NEED(!p->c->path[p->inputs[k]] || check_operand(p, k));
    }
    return true;
}

static cli_status check_node(checker *c, stator_ref node)
{
    probe p = {.c = c, .row = stator_node_at(c->v, node)};
    if (!is_checked(c, p.row)) {
        return CLI_OK;
    }
    if (!choose_ports(&p)) {
        c->report->unchecked++;
        return CLI_OK;
    }
    const grad_report *r = c->report;
    const uint32_t n_before = r->n_wrong - r->n_undecided;
    const bool ok = make_models(&p, node) == STATOR_OK && check_operands(&p);
    c->report->checked++;
    cli_status status = ok ? CLI_OK : cli_fail_ctx(c->g->ctx, c->g->common.json);
    if (ok && n_before == 0 && r->n_wrong > r->n_undecided && r->repro != NULL) {
        status = grad_write_repro(c->g, p.plain, p.in, c->report->repro);
    }
    for (uint32_t at = 0; at < 3; at++) {
        release_all(p.out[at], p.n_out);
    }
    release_all(p.in + p.n_in, p.n_out);
    stator_function_destroy(p.f);
    stator_function_destroy(p.gradient);
    stator_model_destroy(p.plain);
    stator_model_destroy(p.joint);
    return status;
}

/* ---- the whole ---- */

/* In-place writes as values, gradients in the model written out, floats as f64. */
static stator_status widen(checker *c)
{
    stator_model *values = NULL, *plain = NULL;
    stator_status status = stator_x_run_pass(c->g->model, "functionalize", 0, NULL, NULL, &values);
    ST_THEN(status, stator_x_run_pass(values, "autodiff", 0, NULL, NULL, &plain));
    ST_THEN(status, stator_x_model_in_f64(plain, &c->model));
    stator_model_destroy(values);
    stator_model_destroy(plain);
    return status;
}

static cli_status check_all(checker *c, uint32_t n_in, stator_tensor **in)
{
    const int json = c->g->common.json;
    CLI_TRY_CTX(c->g->ctx, json, widen(c));
    c->v = stator_ctx_host(c->g->ctx)->ir->view(stator_model_graph(c->model));
    c->path = grad_path(c->v, c->options);
    CLI_FAIL_IF(c->path == NULL, json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    CLI_TRY(widen_inputs(c, in, n_in));
    CLI_TRY(read_values(c, n_in, in));
    for (stator_ref node = 1; node <= c->v->n_nodes; node++) {
        CLI_TRY(check_node(c, node));
    }
    return CLI_OK;
}

cli_status grad_check(const cli_graph *g, const stator_differentiate_options *options,
                      grad_report *out)
{
    checker c = {.g = g, .options = options, .report = out};
    stator_tensor **in = NULL;
    uint32_t n_in = 0;
    cli_inputs inputs = g->inputs;
    inputs.dim.count = 0; /* bound when the graph was opened */
    CLI_NEED(cli_load_inputs(g->ctx, g->model, &inputs, g->common.json, &in, &n_in));
    const cli_status status = check_all(&c, n_in, in);
    if (c.values != NULL) {
        release_all(c.values, c.v->n_values + 1u);
    }
    free(c.values);
    free((void *)(uintptr_t)c.views);
    free(c.path);
    cli_free_inputs(in, n_in);
    stator_model_destroy(c.model);
    return status;
}

void grad_report_free(grad_report *report)
{
    free(report->wrong);
    *report = (grad_report){.checked = 0};
}
