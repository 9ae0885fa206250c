/* Reverse-mode gradients: the nodes between xs and y are visited from the last to the first, each
 * turns the gradient of its result into gradients of its operands, which add up.
 *
 *     y = exp(x)  (row: .grad = "grad * y")   ->   dx = mul(dy, y)
 *
 * A row's program sees operands, attributes, results by name and `grad`, the gradient of the first
 * result; it gives one value per operand. What it gives for an operand that is absent or no float
 * is ignored; what it gives for one that was broadcast is summed to the operand's shape; where it
 * gives `none` for one that is wanted, the decomposition is differentiated instead. The gradient
 * of another result is there as `grad_NAME`, where it has one. Some rows have C functions
 * instead (gradient_rules.h), an op of a library may have one. A composite without either is
 * decomposed at the end of the graph (from the same operands) and the decomposition is
 * differentiated; cse and dce tidy up later. The method: Griewank and Walther, Evaluating
 * Derivatives, 2008.
 */
#include "ir/gradient/gradient.h"

#include "core/base/check.h"
#include "core/base/vec.h"
#include "ir/builder.h"
#include "ir/expr/expr_eval.h"
#include "ir/gradient/gradient_rules.h"
#include "ir/ops/rules.h"
#include <stator/plugin.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 16u
#define NAMES_MAX 64u  /* operands and results of the longest row, twice */
#define NAME_BYTES 48u /* of "grad_" and a result */

typedef struct tape {
    stator_emitter e;
    const st_gradient_request *request;
    st_arena arena;           /* attributes of the nodes visited */
    st_vec(stator_ref) grads; /* by value; 0: none so far */
    st_vec(uint8_t) needed;   /* by value: does it depend on an x? */
} tape;

static bool is_float_value(const tape *t, stator_ref value)
{
    return value != 0 && st_dtype_class(stator_emit_dtype(&t->e, value)) == STATOR_CLASS_FLOAT;
}

/* Makes room for every value that the builder has now. */
static void grow(tape *t)
{
    st_mem *mem = t->e.b->module->mem;
    const uint32_t n = st_graph_view(t->e.b->graph)->n_values + 1u, old = t->grads.count;
    if (n <= old) {
        return;
    }
    if (!st_vec_resize(mem, &t->grads, n) || !st_vec_resize(mem, &t->needed, n)) {
        stator_emit_check(&t->e, st_fail_oom(t->e.err));
        return;
    }
    memset(t->grads.data + old, 0, (n - old) * sizeof *t->grads.data);
    memset(t->needed.data + old, 0, n - old);
}

static stator_ref grad_of(const tape *t, stator_ref value)
{
    return value < t->grads.count ? t->grads.data[value] : 0;
}

/* ---- shapes ---- */

/* The gradient of a broadcast operand: summed over the axes that grew. Sizes that are equal in
 * every call and not in their form (a symbol, and the number of an operand beside it) become the
 * operand's by a reshape. */
static stator_ref fit(tape *t, stator_ref grad, stator_ref operand)
{
    stator_ref have[STATOR_RANK_MAX], want[STATOR_RANK_MAX];
    int64_t axes[STATOR_RANK_MAX];
    uint32_t n = 0;
    bool has_sizes = true;
    stator_emitter *e = &t->e;
    const uint32_t rank = stator_emit_rank(e, grad), less = stator_emit_rank(e, operand);
    const uint32_t extra = rank - less;
    ST_FAIL_BY_IF(stator_emit_fail, e->status != STATOR_OK || rank < less, e, STATOR_INTERNAL,
                  "a gradient has fewer axes than its value");
    stator_emit_dims(e, grad, have);
    stator_emit_dims(e, operand, want);
    for (uint32_t i = 0; i < rank; i++) {
        if (i < extra || (have[i] != want[i - extra] && stator_emit_is(e, want[i - extra], 1))) {
            axes[n++] = i;
        } else {
            has_sizes &= have[i] == want[i - extra];
        }
    }
    if (n == 0 && has_sizes) {
        return grad;
    }
    const stator_ref sum = n == 0 ? grad
                                  : stator_emit_op(e, "reduce_sum", 1, &grad,
                                                   STATOR_AT(STATOR_A_INTS("axes", n, axes)));
    return stator_emit_reshape(e, sum, less, want);
}

static void add_grad(tape *t, stator_ref value, stator_ref grad)
{
    if (value != 0 && grad != 0 && is_float_value(t, value) && value < t->needed.count &&
        t->needed.data[value]) {
        const stator_ref fitted = fit(t, grad, value);
        stator_ref *sum = &t->grads.data[value];
        *sum = *sum == 0 ? fitted : stator_emit_binary(&t->e, "add", *sum, fitted);
    }
}

/* ---- rules ---- */

typedef struct visit {
    const st_op *op;
    stator_node_row row;
    stator_ref *operands;
    stator_ref *results;
    stator_ref *grads;    /* gradients of the results; 0: none */
    stator_ref *in_grads; /* those of the operands, once they are known */
    uint32_t n_grads;
    stator_attr attrs[ST_ATTRS_MAX];
    st_decompose_node node; /* the same, for functions outside */
} visit;

typedef struct bound_names {
    char (*text)[NAME_BYTES];
    const char **names;
    stator_ref *values;
    uint32_t n, room;
} bound_names;

/* Names of the list, behind a prefix, with values[0..n); of a list of any number only those in
 * front of it. */
static void bind(bound_names *out, const char *prefix, const char *list, const stator_ref *values,
                 uint32_t n)
{
    uint32_t len;
    char mark;
    for (uint32_t i = 0; out->n < out->room; i++) {
        const char *name = st_list_name(list, i, &len, &mark);
        if (name == NULL || mark == '*') {
            return;
        }
        (void)snprintf(out->text[out->n], NAME_BYTES, "%s%.*s", prefix, (int)len, name);
        out->names[out->n] = out->text[out->n];
        out->values[out->n++] = i < n ? values[i] : 0;
    }
}

/* Runs the row's program; the operands' gradients are 0 where it gives none. */
static void run_program(tape *t, const visit *v)
{
    const uint32_t room = NAMES_MAX;
    bound_names in = {.room = room};
    in.text = st_arena_zalloc(&t->arena, room, sizeof *in.text);
    in.names = st_arena_zalloc(&t->arena, room, sizeof *in.names);
    in.values = st_arena_zalloc(&t->arena, room, sizeof *in.values);
    stator_ref *grads = st_arena_zalloc(&t->arena, room, sizeof *grads);
    if (in.text == NULL || in.names == NULL || in.values == NULL || grads == NULL) {
        stator_emit_check(&t->e, st_fail_oom(t->e.err));
        return;
    }
    bind(&in, "", v->op->desc.operands, v->operands, v->row.operand_count);
    const uint32_t n = in.n;
    bind(&in, "", v->op->desc.results, v->results, v->row.result_count);
    bind(&in, "grad_", v->op->desc.results, v->grads, v->row.result_count);
    bind(&in, "", "grad", v->grads, 1);
    const st_expr_inputs program = {v->op->def->grad,       in.n,     in.names, in.values,
                                    v->op->desc.attr_count, v->attrs, true};
    const bool is_ok =
        stator_emit_check(&t->e, st_expr_run(t->e.b, &program, false, n, grads, t->e.err));
    for (uint32_t i = 0; is_ok && i < n && i < v->row.operand_count; i++) {
        v->in_grads[i] = grads[i];
    }
}

/* ---- the walk ---- */

static bool read_attrs(tape *t, visit *out)
{
    const stator_graph_view *v = st_graph_view(t->e.b->graph);
    for (uint32_t a = 0; t->e.status == STATOR_OK && a < out->row.attr_count; a++) {
        stator_emit_check(
            &t->e, st_attr_from_row(v, t->e.b->module, &t->arena, out->op->desc.attrs[a].name,
                                    stator_attr_at(v, &out->row, a), &out->attrs[a], t->e.err));
    }
    return t->e.status == STATOR_OK;
}

/* Room for what a visit lists; false after a failure. */
static bool make_lists(tape *t, visit *out, stator_graph ***out_regions)
{
    const stator_node_row *row = &out->row;
    out->operands = st_arena_zalloc(&t->arena, row->operand_count + 1u, sizeof *out->operands);
    out->in_grads = st_arena_zalloc(&t->arena, row->operand_count + 1u, sizeof *out->in_grads);
    out->results = st_arena_zalloc(&t->arena, row->result_count + 1u, sizeof *out->results);
    out->grads = st_arena_zalloc(&t->arena, row->result_count + 1u, sizeof *out->grads);
    *out_regions = st_arena_zalloc(&t->arena, row->region_count + 1u, sizeof(stator_graph *));
    const bool ok = out->operands != NULL && out->in_grads != NULL && out->results != NULL &&
                    out->grads != NULL && *out_regions != NULL;
    return stator_emit_check(&t->e, ok ? STATOR_OK : st_fail_oom(t->e.err));
}

/* False: no result has a gradient, or something failed. */
static bool read_node(tape *t, stator_ref node, visit *out)
{
    const stator_graph_view *v = st_graph_view(t->e.b->graph);
    stator_graph **regions = NULL;
    out->row = *stator_node_at(v, node);
    out->op = st_optable_at(t->e.b->module->ops, out->row.op);
    for (uint32_t i = 0; i < out->row.result_count; i++) {
        out->n_grads += grad_of(t, out->row.result_begin + i) != 0;
    }
    ST_NEED(out->n_grads != 0 && make_lists(t, out, &regions));
    for (uint32_t i = 0; i < out->row.operand_count; i++) {
        out->operands[i] = stator_operand(v, &out->row, i);
    }
    for (uint32_t i = 0; i < out->row.result_count; i++) {
        out->results[i] = out->row.result_begin + i;
        out->grads[i] = grad_of(t, out->results[i]);
    }
    for (uint32_t i = 0; i < out->row.region_count; i++) {
        regions[i] = (stator_graph *)(uintptr_t)stator_region_at(v, &out->row, i);
    }
    out->node = (st_decompose_node){.op = out->op,
                                    .operands = out->operands,
                                    .n_operands = out->row.operand_count,
                                    .n_attrs = out->row.attr_count,
                                    .attrs = out->attrs,
                                    .regions = regions,
                                    .n_regions = out->row.region_count,
                                    .n_results = out->row.result_count};
    return read_attrs(t, out);
}

static void walk(tape *t, stator_ref first, stator_ref last, uint32_t depth);

static void through_decomposition(tape *t, const visit *v, uint32_t depth)
{
    const stator_ref first = st_graph_view(t->e.b->graph)->n_nodes + 1u;
    stator_ref *results = st_arena_zalloc(&t->arena, v->row.result_count + 1u, sizeof *results);
    if (depth == DEPTH_MAX || results == NULL) {
        stator_emit_fail(&t->e, results == NULL ? STATOR_RESOURCE_EXHAUSTED : STATOR_UNSUPPORTED,
                         "%s: too deep for a gradient", v->op->desc.name);
        return;
    }
    stator_emit_check(&t->e, st_decompose(t->e.b, &v->node, results, t->e.err));
    const stator_ref last = st_graph_view(t->e.b->graph)->n_nodes;
    grow(t);
    for (uint32_t i = 0; t->e.status == STATOR_OK && i < v->row.result_count; i++) {
        t->needed.data[results[i]] = 1;
        add_grad(t, results[i], v->grads[i]);
    }
    walk(t, first, last, depth + 1u);
}

/* The row's C function, or the library's. */
static void through_function(tape *t, const visit *v)
{
    const st_op_def *def = v->op->def;
    const st_gradient_node node = {.of = &v->node, .results = v->results, .grads = v->grads};
    const stator_status status =
        def != NULL && def->differentiate != NULL
            ? def->differentiate(t->e.b, &node, v->in_grads, t->e.err)
            : st_gradient_oplib(t->e.b, &v->node, v->grads, v->in_grads, t->e.err);
    const bool is_ok = stator_emit_check(&t->e, status);
    for (uint32_t i = 0; is_ok && i < v->row.operand_count; i++) {
        if (v->in_grads[i] > st_graph_view(t->e.b->graph)->n_values) {
            stator_emit_fail(&t->e, STATOR_INVALID_ARGUMENT,
                             "%s: the op library's gradient gave no value for operand %u",
                             v->op->desc.name, i);
        }
    }
}

/* Does the program read the gradient of every result that has one? */
static bool reads_gradients(const visit *v)
{
    bool ok = true;
    for (uint32_t i = 1; ok && i < v->row.result_count; i++) {
        char wanted[NAME_BYTES];
        uint32_t len;
        char mark;
        const char *name = st_list_name(v->op->desc.results, i, &len, &mark);
        (void)snprintf(wanted, sizeof wanted, "grad_%.*s", name != NULL ? (int)len : 0,
                       name != NULL ? name : "");
        ok = v->grads[i] == 0 || strstr(v->op->def->grad, wanted) != NULL;
    }
    return ok && (v->grads[0] != 0 || strstr(v->op->def->grad, "has(grad)") != NULL);
}

/* Has the op a program for these gradients, and may it be used? */
static bool uses_program(const tape *t, stator_ref node, const visit *v)
{
    const st_gradient_request *request = t->request;
    const bool is_composite = (v->op->desc.flags & STATOR_OP_COMPOSITE) != 0;
    return v->op->def != NULL && v->op->def->grad != NULL && reads_gradients(v) &&
           (!is_composite || request->may_use_rule == NULL ||
            request->may_use_rule(request->self, v->op->desc.name, node));
}

/* Has each operand that is wanted a gradient? Operands of other dtypes have none. */
static bool has_wanted(const tape *t, const visit *v)
{
    bool ok = true;
    for (uint32_t i = 0; i < v->row.operand_count; i++) {
        const stator_ref operand = v->operands[i];
        ok = ok && (v->in_grads[i] != 0 || !is_float_value(t, operand) ||
                    operand >= t->needed.count || !t->needed.data[operand]);
    }
    return ok;
}

static void drop_gradients(const visit *v)
{
    memset(v->in_grads, 0, v->row.operand_count * sizeof *v->in_grads);
}

static void differentiate(tape *t, stator_ref node, const visit *v, uint32_t depth)
{
    const stator_oplib_op *library_op = v->op->oplib_op;
    const st_op_def *def = v->op->def;
    if ((def != NULL && def->differentiate != NULL) ||
        (library_op != NULL && library_op->gradient != NULL)) {
        through_function(t, v);
    } else if (uses_program(t, node, v)) {
        const st_build_mark before = st_build_here(t->e.b);
        run_program(t, v);
        if (t->e.status == STATOR_OK && !has_wanted(t, v)) {
            drop_gradients(v);
            st_build_rollback(t->e.b, before); /* nobody reads what the program wrote */
            through_decomposition(t, v, depth);
        }
    } else if ((v->op->desc.flags & STATOR_OP_COMPOSITE) != 0) {
        through_decomposition(t, v, depth);
    } else {
        const char *why = def != NULL && def->no_grad != NULL ? def->no_grad : "it has no rule";
        stator_emit_fail(&t->e, STATOR_UNSUPPORTED, "%s has no gradient: %s", v->op->desc.name,
                         why);
    }
    for (uint32_t i = 0; t->e.status == STATOR_OK && i < v->row.operand_count; i++) {
        grow(t);
        add_grad(t, v->operands[i], v->in_grads[i]);
    }
}

/* Nodes of a decomposition were made for the backward part and say so already. */
static void visit_node(tape *t, stator_ref node, uint32_t depth)
{
    stator_builder *b = t->e.b;
    const stator_ref around = b->origin;
    visit v = {.n_grads = 0};
    if (!read_node(t, node, &v)) {
        return;
    }
    if (depth == 0) {
        st_build_set_origin_ref(
            b, st_module_origin_backward(b->module, v.row.origin, v.op->desc.name));
    }
    differentiate(t, node, &v, depth);
    if (t->e.status != STATOR_OK) {
        st_module_note_origin(b->module, v.row.origin, t->e.err);
    }
    st_build_set_origin_ref(b, around);
}

/* Floats of the nodes that depend on something needed: nothing passes through another value. */
static void mark_needed(tape *t, stator_ref first, stator_ref last)
{
    const stator_graph_view *v = st_graph_view(t->e.b->graph);
    for (stator_ref node = first; node <= last; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        uint8_t needed = 0;
        for (uint32_t i = 0; i < row->operand_count; i++) {
            const stator_ref operand = stator_operand(v, row, i);
            needed |= operand != 0 && t->needed.data[operand];
        }
        for (uint32_t i = 0; i < row->result_count; i++) {
            const stator_ref result = row->result_begin + i;
            t->needed.data[result] |= needed && is_float_value(t, result);
        }
    }
}

static void walk(tape *t, stator_ref first, stator_ref last, uint32_t depth)
{
    if (t->e.status == STATOR_OK) {
        mark_needed(t, first, last);
    }
    for (stator_ref node = last; t->e.status == STATOR_OK && node >= first; node--) {
        visit_node(t, node, depth);
        grow(t);
    }
}

static void run(tape *t, stator_ref *out)
{
    const st_gradient_request *r = t->request;
    const stator_ref first = r->first != 0 ? r->first : 1;
    const stator_ref last = st_graph_view(t->e.b->graph)->n_nodes;
    grow(t);
    if (t->e.status != STATOR_OK) {
        return;
    }
    for (uint32_t i = 0; i < r->n_x; i++) {
        t->needed.data[r->xs[i]] = 1;
    }
    mark_needed(t, first, last);
    for (uint32_t i = 0; i < r->n_y; i++) {
        add_grad(t, r->ys[i], r->seeds[i]);
    }
    walk(t, first, last, 0);
    for (uint32_t i = 0; i < r->n_x; i++) {
        out[i] = grad_of(t, r->xs[i]);
        if (out[i] == 0) {
            out[i] =
                stator_emit_expr(&t->e, "zeros_like(x)", "x", STATOR_IN(r->xs[i]), STATOR_NONE);
        }
    }
}

stator_status st_gradient_many(stator_builder *b, const st_gradient_request *request,
                               stator_ref *out, stator_diag **err)
{
    tape t = {.e = st_op_emitter(b, err), .request = request};
    st_arena_init(&t.arena, b->module->mem);
    run(&t, out);
    st_arena_deinit(&t.arena);
    st_vec_free(b->module->mem, &t.grads);
    st_vec_free(b->module->mem, &t.needed);
    return t.e.status;
}

stator_status st_gradient(stator_builder *b, stator_ref y, stator_ref seed, uint32_t n,
                          const stator_ref *xs, stator_ref *out, stator_diag **err)
{
    const st_gradient_request request = {.n_y = 1, .n_x = n, .ys = &y, .seeds = &seed, .xs = xs};
    return st_gradient_many(b, &request, out, err);
}
