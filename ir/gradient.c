/* Reverse-mode gradients: the nodes between xs and y are visited from the last to the first, each
 * turns the gradient of its result into gradients of its operands, which add up.
 *
 *     y = exp(x)  (row: .grad = "grad * y")   ->   dx = mul(dy, y)
 *
 * A row's program sees operands, attributes, results by name and `grad`, the gradient of the first
 * result; it gives one value per operand. What it gives for an operand that is absent or no float
 * is ignored; what it gives for one that was broadcast is summed to the operand's shape. Five
 * primitives have C functions instead, an op of a library may have one. A composite without a row
 * is decomposed at the end of the graph (from the same operands) and the decomposition is
 * differentiated; cse and dce tidy up later. Of regions, scan has a rule. The method: Griewank and
 * Walther, Evaluating Derivatives, 2008.
 */
#include "ir/gradient.h"

#include "core/base/check.h"
#include "core/base/vec.h"
#include "ir/builder.h"
#include "ir/op_emitter.h"
#include "ir/ops/rules.h"
#include <stator/ops.h>
#include <stator/plugin.h>
#include <string.h>

#define DEPTH_MAX 16u
#define NAMES_MAX 16u
#define OPERANDS_MAX 64u
#define RESULTS_MAX 128u

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

/* The gradient of a broadcast operand: summed over the axes that grew. */
static stator_ref fit(tape *t, stator_ref grad, stator_ref operand)
{
    stator_ref have[STATOR_RANK_MAX], want[STATOR_RANK_MAX];
    int64_t axes[STATOR_RANK_MAX];
    uint32_t n = 0;
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
        }
    }
    if (n == 0) {
        return grad;
    }
    const stator_ref sum =
        stator_emit_op(e, "reduce_sum", 1, &grad, STATOR_AT(STATOR_A_INTS("axes", n, axes)));
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

/* ---- rules in C ---- */

typedef struct visit {
    const st_op *op;
    stator_node_row row;
    stator_ref operands[OPERANDS_MAX];
    stator_ref grads[RESULTS_MAX]; /* gradients of the results; 0: none */
    uint32_t n_grads;
    stator_attr attrs[ST_ATTRS_MAX];
    st_decompose_node node; /* the same, for functions outside */
} visit;

static uint32_t rest_axes(const stator_attr *batch, const stator_attr *contract, uint32_t rank,
                          int64_t *out)
{
    uint32_t n = 0;
    for (uint32_t a = 0; a < rank; a++) {
        bool taken = false;
        for (uint32_t i = 0; i < batch->count; i++) {
            const int64_t at = ((const int64_t *)batch->list)[i];
            taken |= st_normalize_axis(at, rank) == a;
        }
        for (uint32_t i = 0; i < contract->count; i++) {
            const int64_t at = ((const int64_t *)contract->list)[i];
            taken |= st_normalize_axis(at, rank) == a;
        }
        if (!taken) {
            out[n++] = a;
        }
    }
    return n;
}

/* Axis numbers first..first+n-1. */
static void count_up(int64_t *out, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = first + i;
    }
}

/* z[batch, rest of x, rest of y]; the gradient to one side contracts z's gradient with the other
 * side over the other side's rest: [batch, own rest, contracted in the other side's order], which
 * is then brought into the own order of axes. */
static void dot_side(tape *t, const visit *v, stator_ref grad, int is_y)
{
    const stator_attr *a = v->attrs;
    const stator_attr *batch[] = {&a[STATOR_dot_general_batch_x], &a[STATOR_dot_general_batch_y]};
    const stator_attr *contract[] = {&a[STATOR_dot_general_contract_x],
                                     &a[STATOR_dot_general_contract_y]};
    const int own = is_y, other = !is_y;
    int64_t rests[2][STATOR_RANK_MAX], z_batch[STATOR_RANK_MAX], z_rest[STATOR_RANK_MAX];
    const uint32_t ranks[] = {stator_emit_rank(&t->e, v->operands[0]),
                              stator_emit_rank(&t->e, v->operands[1])};
    const uint32_t n_rest[] = {rest_axes(batch[0], contract[0], ranks[0], rests[0]),
                               rest_axes(batch[1], contract[1], ranks[1], rests[1])};
    const uint32_t nb = batch[0]->count, nc = contract[0]->count, n = n_rest[own];
    count_up(z_batch, 0, nb);
    count_up(z_rest, nb + (is_y ? 0 : n_rest[0]), n_rest[other]);
    stator_ref part =
        stator_emit_op(&t->e, "dot_general", 2, (stator_ref[]){grad, v->operands[other]},
                       STATOR_AT(STATOR_A_INTS("batch_x", nb, z_batch),
                                 STATOR_A_INTS("batch_y", nb, batch[other]->list),
                                 STATOR_A_INTS("contract_x", n_rest[other], z_rest),
                                 STATOR_A_INTS("contract_y", n_rest[other], rests[other])));
    /* Axis j of the other side's contracted ones, in its own order of axes, is number `place`. */
    int64_t perm[STATOR_RANK_MAX];
    const int64_t *mine = contract[own]->list, *theirs = contract[other]->list;
    for (uint32_t i = 0; i < nb; i++) {
        const int64_t at = ((const int64_t *)batch[own]->list)[i];
        perm[st_normalize_axis(at, ranks[own])] = i;
    }
    for (uint32_t i = 0; i < n; i++) {
        perm[rests[own][i]] = nb + i;
    }
    for (uint32_t i = 0; i < nc; i++) {
        uint32_t place = 0;
        for (uint32_t j = 0; j < nc; j++) {
            const int64_t r = ranks[other];
            place += (theirs[j] < 0 ? theirs[j] + r : theirs[j]) <
                     (theirs[i] < 0 ? theirs[i] + r : theirs[i]);
        }
        perm[mine[i] < 0 ? mine[i] + ranks[own] : mine[i]] = nb + n + place;
    }
    part = stator_emit_transpose(&t->e, part, ranks[own], perm);
    add_grad(t, v->operands[own], part);
}

static void grad_dot_general(tape *t, const visit *v, stator_ref grad)
{
    dot_side(t, v, grad, 0);
    dot_side(t, v, grad, 1);
}

static void grad_transpose(tape *t, const visit *v, stator_ref grad)
{
    const stator_attr *perm = &v->attrs[STATOR_transpose_perm];
    int64_t inverse[STATOR_RANK_MAX];
    for (uint32_t i = 0; i < perm->count; i++) {
        const int64_t at = ((const int64_t *)perm->list)[i];
        inverse[st_normalize_axis(at, perm->count)] = i;
    }
    add_grad(t, v->operands[0], stator_emit_transpose(&t->e, grad, perm->count, inverse));
}

/* zeros with `size` elements along the axis, to which g's slices are added at `index`. */
static stator_ref scatter_along(tape *t, stator_ref g, uint32_t axis, stator_ref size,
                                stator_ref index)
{
    return stator_emit_expr(
        &t->e,
        "s = shape(g); z = expand(scalar(0, g), shape=s[0:a] + n + s[a + 1:]);"
        "j = reshape(i, shape=repeat(1, a) + [s[a]] + repeat(1, rank(g) - a - 1));"
        "scatter_elements(z, expand(j, shape=s), g, axis=a, reduction='add')",
        "g,i", 2, (const stator_ref[]){g, index},
        STATOR_AT(STATOR_A_INT("a", axis), STATOR_A_DIMS("n", 1, &size)));
}

/* Element k of an axis came from starts + k * steps; where steps are 1, zeros around do. */
static void grad_slice(tape *t, const visit *v, stator_ref grad)
{
    const stator_attr *starts = &v->attrs[STATOR_slice_starts];
    const int64_t *steps = v->attrs[STATOR_slice_steps].list;
    stator_ref low[STATOR_RANK_MAX], high[STATOR_RANK_MAX];
    for (uint32_t a = 0; a < starts->count; a++) {
        const stator_ref start = ((const stator_ref *)starts->list)[a];
        const stator_ref size = stator_emit_dim(&t->e, v->operands[0], a);
        low[a] = high[a] = stator_emit_size(&t->e, 0);
        if (steps[a] == 1) {
            low[a] = start;
            high[a] = stator_emit_sym(&t->e, STATOR_SYM_SUB,
                                      stator_emit_sym(&t->e, STATOR_SYM_SUB, size, start),
                                      stator_emit_dim(&t->e, grad, a));
            continue;
        }
        const stator_ref index =
            stator_emit_expr(&t->e, "iota(shape=[dim(g, a)]) * step + start[0]", "g", 1, &grad,
                             STATOR_AT(STATOR_A_INT("a", a), STATOR_A_DIMS("start", 1, &start),
                                       STATOR_A_INT("step", steps[a])));
        grad = scatter_along(t, grad, a, size, index);
    }
    add_grad(t, v->operands[0],
             stator_emit_op(&t->e, "pad", 1, &grad,
                            STATOR_AT(STATOR_A_DIMS("low", starts->count, low),
                                      STATOR_A_DIMS("high", starts->count, high))));
}

/* Constant: the inner part is x's, what is around it the value's. Other modes: every element is
 * added where it was copied from, axis by axis. */
static void grad_pad(tape *t, const visit *v, stator_ref grad)
{
    static const char *const modes[][2] = {
        {"edge", "k = iota(shape=[dim(g, a)]) - low[0]; max(min(k, n[0] - 1), 0)"},
        {"wrap", "(iota(shape=[dim(g, a)]) - low[0]) % n[0]"},
        {"reflect", "p = n[0] * 2 - 2; q = (iota(shape=[dim(g, a)]) - low[0]) % p; min(q, p - q)"}};
    const stator_ref x = v->operands[0];
    const stator_attr *low = &v->attrs[STATOR_pad_low];
    const char *program = NULL;
    for (uint32_t m = 0; m < 3; m++) {
        program = strcmp(v->attrs[STATOR_pad_mode].s, modes[m][0]) == 0 ? modes[m][1] : program;
    }
    if (program == NULL) {
        const stator_ref values[] = {grad, x};
        const stator_ref inner =
            stator_emit_expr(&t->e, "pad(g, low=each('*', low, -1), high=each('*', high, -1))", "g",
                             1, &grad, 2, v->attrs);
        const stator_ref around =
            stator_emit_expr(&t->e,
                             "m = pad(zeros_like(x), scalar(1, x), low=low, high=high);"
                             "reduce_sum(select(m == 1, g, 0), axes=range(rank(g)))",
                             "g,x", 2, values, 2, v->attrs);
        add_grad(t, x, inner);
        add_grad(t, v->row.operand_count > 1 ? v->operands[1] : 0, around);
        return;
    }
    for (uint32_t a = 0; a < low->count; a++) {
        const stator_ref size = stator_emit_dim(&t->e, x, a);
        const stator_ref index =
            stator_emit_expr(&t->e, program, "g", 1, &grad,
                             STATOR_AT(STATOR_A_INT("a", a), STATOR_A_DIMS("n", 1, &size),
                                       STATOR_A_DIMS("low", 1, (const stator_ref *)low->list + a)));
        grad = scatter_along(t, grad, a, size, index);
    }
    add_grad(t, x, grad);
}

static void grad_concat(tape *t, const visit *v, stator_ref grad)
{
    const int64_t given = v->attrs[STATOR_concat_axis].i, rank = stator_emit_rank(&t->e, grad);
    const int64_t axis = st_normalize_axis(given, rank);
    stator_ref start = stator_emit_size(&t->e, 0);
    for (uint32_t i = 0; i < v->row.operand_count; i++) {
        const stator_ref part = stator_emit_expr(
            &t->e,
            "slice(g, starts=repeat(0, a) + start + repeat(0, rank(g) - a - 1), sizes=shape(x),"
            "steps=repeat(1, rank(g)))",
            "g,x", 2, (const stator_ref[]){grad, v->operands[i]},
            STATOR_AT(STATOR_A_INT("a", axis), STATOR_A_DIMS("start", 1, &start)));
        add_grad(t, v->operands[i], part);
        start = stator_emit_sym(&t->e, STATOR_SYM_ADD, start,
                                stator_emit_dim(&t->e, v->operands[i], (uint32_t)axis));
    }
}

/* Ops whose derivative is no program of the table. */
static void (*const structural[STATOR_OPCODE_end])(tape *t, const visit *v, stator_ref grad) = {
    [STATOR_OPCODE_dot_general] = grad_dot_general,
    [STATOR_OPCODE_transpose] = grad_transpose,
    [STATOR_OPCODE_slice] = grad_slice,
    [STATOR_OPCODE_pad] = grad_pad,
    [STATOR_OPCODE_concat] = grad_concat,
};

/* ---- rules of the table ---- */

typedef struct bound_names {
    char text[NAMES_MAX][32];
    const char *names[NAMES_MAX];
    stator_ref values[NAMES_MAX];
    uint32_t n;
} bound_names;

/* Names of the list with values[0..n). */
static void bind(bound_names *out, const char *list, const stator_ref *values, uint32_t n)
{
    uint32_t len;
    char mark;
    for (uint32_t i = 0; out->n < NAMES_MAX; i++) {
        const char *name = st_list_name(list, i, &len, &mark);
        if (name == NULL || mark == '*' || len >= sizeof out->text[0]) {
            return;
        }
        memcpy(out->text[out->n], name, len);
        out->text[out->n][len] = '\0';
        out->names[out->n] = out->text[out->n];
        out->values[out->n++] = i < n ? values[i] : 0;
    }
}

static void run_program(tape *t, const visit *v, stator_ref grad)
{
    bound_names in = {.n = 0};
    stator_ref grads[NAMES_MAX], results[8] = {0};
    bind(&in, v->op->desc.operands, v->operands, v->row.operand_count);
    const uint32_t n = in.n;
    for (uint32_t i = 0; i < v->row.result_count && i < 8; i++) {
        results[i] = v->row.result_begin + i;
    }
    bind(&in, v->op->desc.results, results, v->row.result_count < 8 ? v->row.result_count : 8);
    bind(&in, "grad", &grad, 1);
    const bool is_ok = stator_emit_check(
        &t->e, st_build_expr(t->e.b, v->op->def->grad, in.n, in.names, in.values,
                             v->op->desc.attr_count, v->attrs, n, grads, t->e.err));
    for (uint32_t i = 0; is_ok && i < n; i++) {
        add_grad(t, i < v->row.operand_count ? v->operands[i] : 0, grads[i]);
    }
}

/* ---- the walk ---- */

static void read_node(tape *t, stator_ref node, visit *out)
{
    const stator_graph_view *v = st_graph_view(t->e.b->graph);
    out->row = *stator_node_at(v, node);
    out->op = st_optable_at(t->e.b->module->ops, out->row.op);
    out->node = (st_decompose_node){.op = out->op,
                                    .operands = out->operands,
                                    .n_operands = out->row.operand_count,
                                    .n_attrs = out->row.attr_count,
                                    .attrs = out->attrs,
                                    .n_results = out->row.result_count};
    if (out->row.operand_count > OPERANDS_MAX) {
        stator_emit_fail(&t->e, STATOR_UNSUPPORTED, "%s has too many operands for a gradient",
                         out->op->desc.name);
        return;
    }
    for (uint32_t i = 0; i < out->row.operand_count; i++) {
        out->operands[i] = stator_operand(v, &out->row, i);
    }
    for (uint32_t i = 0; i < out->row.result_count; i++) {
        const stator_ref grad = grad_of(t, out->row.result_begin + i);
        out->n_grads += grad != 0;
        if (i < RESULTS_MAX) {
            out->grads[i] = grad;
        }
    }
    for (uint32_t a = 0; a < out->row.attr_count; a++) {
        stator_emit_check(
            &t->e, st_attr_from_row(v, t->e.b->module, &t->arena, out->op->desc.attrs[a].name,
                                    stator_attr_at(v, &out->row, a), &out->attrs[a], t->e.err));
    }
}

static void walk(tape *t, stator_ref first, stator_ref last, uint32_t depth);

static void through_decomposition(tape *t, const visit *v, uint32_t depth)
{
    stator_ref results[8] = {0};
    const stator_ref first = st_graph_view(t->e.b->graph)->n_nodes + 1u;
    if (depth == DEPTH_MAX || v->row.result_count > 8) {
        stator_emit_fail(&t->e, STATOR_UNSUPPORTED, "%s: too deep for a gradient",
                         v->op->desc.name);
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

/* A scan's gradient, or the library's function: each sees the node and the gradients of all results
 * (0: none) and gives one for each operand (0: none). */
static void through_function(tape *t, stator_ref node, const visit *v)
{
    stator_ref in_grads[OPERANDS_MAX] = {0};
    if (v->row.result_count > RESULTS_MAX) {
        stator_emit_fail(&t->e, STATOR_UNSUPPORTED, "%s has too many results for a gradient",
                         v->op->desc.name);
        return;
    }
    const stator_graph_view *view = st_graph_view(t->e.b->graph);
    const stator_status status =
        v->row.op == STATOR_OPCODE_scan
            ? st_gradient_scan(t->e.b, stator_region_at(view, stator_node_at(view, node), 0),
                               &v->node, v->grads, in_grads, t->e.err)
            : st_gradient_oplib(t->e.b, &v->node, v->grads, in_grads, t->e.err);
    const bool is_ok = stator_emit_check(&t->e, status);
    for (uint32_t i = 0; is_ok && i < v->row.operand_count; i++) {
        if (in_grads[i] > st_graph_view(t->e.b->graph)->n_values) {
            stator_emit_fail(&t->e, STATOR_INVALID_ARGUMENT,
                             "%s: the op library's gradient gave no value for operand %u",
                             v->op->desc.name, i);
            return;
        }
        add_grad(t, v->operands[i], in_grads[i]);
    }
}

/* Has the op a program for the gradient of its first result alone, and may it be used? */
static bool uses_program(const tape *t, stator_ref node, const visit *v)
{
    const st_gradient_request *request = t->request;
    const bool is_composite = (v->op->desc.flags & STATOR_OP_COMPOSITE) != 0;
    return v->op->def->grad != NULL &&
           (!is_composite || request->may_use_rule == NULL ||
            request->may_use_rule(request->self, v->op->desc.name, node));
}

static void differentiate(tape *t, stator_ref node, const visit *v, uint32_t depth)
{
    const stator_oplib_op *library_op = v->op->oplib_op;
    const bool is_simple = v->n_grads == 1 && v->grads[0] != 0 && v->op->def != NULL;
    if (v->row.op == STATOR_OPCODE_scan || (library_op != NULL && library_op->gradient != NULL)) {
        through_function(t, node, v);
    } else if (is_simple && structural[v->row.op] != NULL) {
        structural[v->row.op](t, v, v->grads[0]);
    } else if (is_simple && uses_program(t, node, v)) {
        run_program(t, v, v->grads[0]);
    } else if ((v->op->desc.flags & STATOR_OP_COMPOSITE) != 0) {
        through_decomposition(t, v, depth);
    } else {
        stator_emit_fail(&t->e, STATOR_UNSUPPORTED, "%s has no gradient rule", v->op->desc.name);
    }
}

/* Nodes of a decomposition were made for the backward part and say so already. */
static void visit_node(tape *t, stator_ref node, uint32_t depth)
{
    stator_builder *b = t->e.b;
    const stator_ref around = b->origin;
    visit v = {.n_grads = 0};
    read_node(t, node, &v);
    if (v.n_grads == 0 || t->e.status != STATOR_OK) {
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

/* Values of the nodes that depend on something needed. */
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
            t->needed.data[row->result_begin + i] |= needed;
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
