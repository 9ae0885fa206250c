/* Nodes in order: operands by name, the operator's function, results into the scope. Model-local
 * functions are translated in place with a scope and a frame of their own. */
#include "frontends/onnx/ox_import.h"

#include <stdio.h>
#include <string.h>

#define NODES_MAX (1u << 20) /* after functions are written out: a bound for hostile files */
#define OPERANDS_MAX (1u << 16)

static size_t producer_of(size_t n, Onnx__NodeProto *const *nodes, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < nodes[i]->n_output; k++) {
            if (strcmp(ox_text(nodes[i]->output[k]), name) == 0) {
                return i;
            }
        }
    }
    return n;
}

/* Does node `from` need, directly or through others, a result of node `target`? */
static bool reaches(size_t n, Onnx__NodeProto *const *nodes, size_t from, size_t target,
                    uint8_t *seen, size_t *stack)
{
    size_t top = 0;
    stack[top++] = from;
    seen[from] = 1;
    while (top != 0) {
        const Onnx__NodeProto *node = nodes[stack[--top]];
        for (size_t i = 0; i < node->n_input; i++) {
            const char *name = ox_text(node->input[i]);
            const size_t p = name[0] != '\0' ? producer_of(n, nodes, name) : n;
            if (p == target) {
                return true;
            }
            if (p < n && !seen[p]) {
                seen[p] = 1;
                stack[top++] = p;
            }
        }
    }
    return false;
}

/* Says why `name`, operand of node `at`, has no value: a cycle, an order that is not topological,
 * or nothing makes it. */
static void fail_undefined(ox_node *n, size_t count, Onnx__NodeProto *const *nodes, size_t at,
                           const char *name)
{
    const size_t p = producer_of(count, nodes, name);
    OX_NEED(n, p != count,
            "input '%s' is neither a graph input, an initializer nor the output of a node "
            "before it",
            name);
    uint8_t *seen = ox_alloc(n, count + 1u, 1);
    size_t *stack = ox_alloc(n, count + 1u, sizeof *stack);
    if (seen == NULL || stack == NULL) {
        return;
    }
    const char *label = ox_text(nodes[p]->name);
    if (p == at || (count <= 20000 && reaches(count, nodes, p, at, seen, stack))) {
        ox_fail(n, STATOR_INVALID_ARGUMENT,
                "the graph has a cycle: input '%s' comes from node '%s' (%s), which depends on "
                "this node",
                name, label, ox_text(nodes[p]->op_type));
    } else {
        ox_fail(n, STATOR_INVALID_ARGUMENT,
                "input '%s' comes from node '%s' (%s), which stands later: nodes must be in "
                "topological order",
                name, label, ox_text(nodes[p]->op_type));
    }
}

static void read_operands(ox_node *n, size_t count, Onnx__NodeProto *const *nodes, size_t at)
{
    const Onnx__NodeProto *p = n->proto;
    OX_NEED(n, p->n_input <= OPERANDS_MAX && p->n_output <= OPERANDS_MAX,
            "it has %zu inputs and %zu outputs, at most %u work", p->n_input, p->n_output,
            OPERANDS_MAX);
    stator_ref *in = ox_alloc(n, p->n_input + 1u, sizeof *in);
    stator_ref *out = ox_alloc(n, p->n_output + 1u, sizeof *out);
    for (size_t i = 0; ox_ok(n) && i < p->n_input; i++) {
        const char *name = ox_text(p->input[i]);
        if (name[0] != '\0' && !ox_scope_find(n->scope, name, &in[i])) {
            fail_undefined(n, count, nodes, at, name);
        }
    }
    n->in = in;
    n->out = out;
    n->in_count = (uint32_t)p->n_input;
    n->out_count = (uint32_t)p->n_output;
}

void ox_graph_define(ox_node *n, const char *name, stator_ref v)
{
    if (!ox_ok(n)) {
        return;
    }
    OX_NEED(n, !ox_scope_has_own(n->scope, name), "the name '%s' is already defined in this graph",
            name);
    if (v != 0 && (v & OX_SEQUENCE) == 0) {
        const stator_graph_view *view = n->e.build->view(n->e.b);
        const stator_value_row *row = stator_value_at(view, v);
        if (row->node != 0 && row->name == 0) {
            n->e.build->set_name(n->e.b, v, name);
        }
    }
    ox_scope_bind(n->scope, name, v);
}

/* Only operators that know sequences may see one. */
static void check_sequences(ox_node *n)
{
    for (uint32_t k = 0; k < n->in_count; k++) {
        if ((n->in[k] & OX_SEQUENCE) != 0) {
            ox_fail(n, STATOR_UNIMPLEMENTED, "input %u is a sequence, expected a tensor", k);
        }
    }
}

static void define_results(ox_node *n)
{
    for (uint32_t k = 0; ox_ok(n) && k < n->out_count; k++) {
        const char *name = ox_text(n->proto->output[k]);
        if (name[0] == '\0') {
            continue;
        }
        if (n->out[k] == 0) {
            ox_fail(n, STATOR_UNIMPLEMENTED, "output %u ('%s') is not supported", k, name);
            return;
        }
        ox_graph_define(n, name, n->out[k]);
    }
}

/* An attribute of a stator op taken from the ONNX attribute of the same name. 0: not given. */
static bool direct_attr(ox_node *n, const stator_attr_desc *d, stator_attr *out)
{
    ST_NEED(ox_has_attr(n, d->name));
    *out = (stator_attr){.name = d->name, .kind = d->kind};
    switch (d->kind) {
    case STATOR_ATTR_INT:
        out->i = ox_attr_int(n, d->name, 0);
        return true;
    case STATOR_ATTR_FLOAT:
        out->f = ox_attr_float(n, d->name, 0);
        return true;
    case STATOR_ATTR_STRING:
        out->s = ox_attr_str(n, d->name, "");
        return true;
    default:
        return false;
    }
}

static void run_direct(ox_node *n)
{
    const stator_host *h = n->im->host;
    const uint32_t op = h->ir->find_op(h->ctx, n->row->text);
    const stator_op_desc *desc = op != 0 ? h->ir->op_desc(h->ctx, op) : NULL;
    if (desc == NULL) {
        ox_fail(n, STATOR_INTERNAL, "the op table has no '%s'", n->row->text);
        return;
    }
    OX_NEED(n, n->in_count >= desc->operand_min && n->in_count <= desc->operand_max,
            "it has %u inputs, expected %u", n->in_count, desc->operand_min);
    stator_attr attrs[16];
    uint32_t count = 0;
    for (uint32_t i = 0; i < desc->attr_count && count < 16; i++) {
        count += (uint32_t)direct_attr(n, &desc->attrs[i], &attrs[count]);
    }
    for (uint32_t i = 0; i < n->in_count; i++) {
        ox_need(n, i);
    }
    ox_out(n, 0, ox_op(n, n->row->text, n->in_count, n->in, count, attrs));
}

/* Attributes of an EXPR row: "alpha:float=1; p:int=2", the node's own values first. */
static uint32_t expr_attrs(ox_node *n, const char *spec, stator_attr *out, uint32_t capacity)
{
    uint32_t count = 0;
    while (*spec != '\0' && count < capacity) {
        char name[32];
        char kind[8];
        double value = 0;
        int used = 0;
        if (sscanf(spec, " %31[a-z_]:%7[a-z]=%lf%n", name, kind, &value, &used) != 3) {
            ox_fail(n, STATOR_INTERNAL, "bad attributes in the operator map: '%s'", spec);
            return 0;
        }
        char *own = ox_alloc(n, sizeof name, 1);
        if (own == NULL) {
            return 0;
        }
        memcpy(own, name, sizeof name);
        out[count++] = kind[0] == 'i' ? STATOR_A_INT(own, ox_attr_int(n, own, (int64_t)value))
                                      : STATOR_A_FLOAT(own, ox_attr_float(n, own, value));
        spec += used;
        spec += *spec == ';';
    }
    return count;
}

static void run_expr(ox_node *n)
{
    static const char *const names[] = {"", "a", "a, b", "a, b, c", "a, b, c, d"};
    stator_attr attrs[8];
    const uint32_t count = expr_attrs(n, n->row->attrs, attrs, 8);
    OX_NEED(n, n->in_count <= 4, "it has %u inputs, at most 4 work", n->in_count);
    ox_out(n, 0, ox_expr(n, n->row->text, names[n->in_count], n->in_count, n->in, count, attrs));
}

static bool is_recursive(const ox_frame *frame, const Onnx__FunctionProto *f)
{
    for (; frame != NULL; frame = frame->caller) {
        if (frame->function == f) {
            return true;
        }
    }
    return false;
}

/* Writes a model-local function out at its call. */
static void run_function(ox_node *n, const Onnx__FunctionProto *f)
{
    const ox_frame *caller = n->scope->frame;
    const ox_frame frame = {caller, f, n->proto, caller != NULL ? caller->depth + 1u : 1u};
    OX_NEED(n, !is_recursive(caller, f) && frame.depth <= OX_NESTING_MAX,
            "the function '%s' calls itself, or calls nest too deeply", ox_text(f->name));
    OX_NEED(n, n->in_count <= f->n_input && n->out_count <= f->n_output,
            "it has %u inputs and %u outputs, the function '%s' has %zu and %zu", n->in_count,
            n->out_count, ox_text(f->name), f->n_input, f->n_output);
    ox_scope scope;
    ox_scope_init(&scope, n->im, n->scope->region, NULL, &frame);
    scope.depth = n->scope->depth + 1u;
    for (size_t i = 0; ox_ok(n) && i < f->n_input; i++) {
        ox_scope_bind(&scope, ox_text(f->input[i]), i < n->in_count ? n->in[i] : 0);
    }
    ox_graph_nodes(&scope, f->n_node, f->node);
    for (uint32_t k = 0; ox_ok(n) && k < n->out_count; k++) {
        ox_expect(n, !ox_wants(n, k) || ox_scope_find(&scope, ox_text(f->output[k]), &n->out[k]),
                  "the function '%s' does not make its output '%s'", ox_text(f->name),
                  ox_text(f->output[k]));
    }
    ox_scope_deinit(&scope);
}

static const char *label_of(ox_import *im, const Onnx__NodeProto *p)
{
    if (ox_text(p->name)[0] != '\0') {
        return p->name;
    }
    const char *first = p->n_output != 0 ? ox_text(p->output[0]) : "";
    const size_t size = strlen(ox_text(p->op_type)) + strlen(first) + 2u;
    char *text = st_arena_alloc(&im->arena, size, 1);
    if (text == NULL) {
        return ox_text(p->op_type);
    }
    snprintf(text, size, "%s%s%s", ox_text(p->op_type), first[0] != '\0' ? "_" : "", first);
    return text;
}

static void run_node(ox_scope *s, size_t count, Onnx__NodeProto *const *nodes, size_t at)
{
    ox_import *im = s->im;
    ox_node n = {.im = im, .scope = s, .proto = nodes[at]};
    n.e = stator_emitter_of(im->host, s->region->b, &im->emit_diag);
    n.name = label_of(im, n.proto);
    n.version = ox_opset(im, s->frame, "");
    if (++im->node_count > NODES_MAX) {
        ox_fail(&n, STATOR_RESOURCE_EXHAUSTED, "the model has more than %u nodes", NODES_MAX);
        return;
    }
    const Onnx__FunctionProto *f = ox_function_find(im, n.proto);
    n.row = f == NULL ? ox_row_find(ox_text(n.proto->op_type)) : NULL;
    read_operands(&n, count, nodes, at);
    if (!ox_ok(&n)) {
        return;
    }
    n.e.build->set_origin(n.e.b, n.name, ox_text(n.proto->op_type), im->file, 0);
    if (n.row != NULL && n.row->kind != OX_ROW_SEQUENCE) {
        check_sequences(&n);
    }
    if (f != NULL) {
        run_function(&n, f);
    } else if (n.row == NULL) {
        ox_fail(&n, STATOR_UNIMPLEMENTED,
                "the operator is not supported"); /* the survey adds the operator's name */
    } else if (n.row->kind == OX_ROW_DIRECT) {
        run_direct(&n);
    } else if (n.row->kind == OX_ROW_EXPR) {
        run_expr(&n);
    } else {
        n.row->fn(&n);
    }
    define_results(&n);
    ox_node_end(&n);
}

void ox_graph_nodes(ox_scope *s, size_t n_nodes, Onnx__NodeProto *const *nodes)
{
    for (size_t i = 0; i < n_nodes && s->im->status == STATOR_OK; i++) {
        run_node(s, n_nodes, nodes, i);
    }
}

void ox_graph_constants(ox_scope *s, const Onnx__GraphProto *graph)
{
    ox_import *im = s->im;
    for (size_t i = 0; i < graph->n_initializer && im->status == STATOR_OK; i++) {
        const Onnx__TensorProto *t = graph->initializer[i];
        ox_scope_bind(s, ox_text(t->name), ox_tensor_constant(im, s->region, t, "initializer"));
    }
    for (size_t i = 0; i < graph->n_sparse_initializer && im->status == STATOR_OK; i++) {
        const Onnx__SparseTensorProto *t = graph->sparse_initializer[i];
        const char *name = t->values != NULL ? ox_text(t->values->name) : "";
        ox_scope_bind(s, name, ox_sparse_constant(im, s->region, t, name));
    }
}
