/* Building regions and finding what they capture; see ox_body.h. */
#include "frontends/onnx/ox_body.h"

#include <string.h>

/* ---- captures ---- */

typedef struct collector {
    ox_node *n;
    st_hashset seen; /* names by index + 1 into `names` */
    st_vec(const char *) names;
    uint32_t depth;
} collector;

typedef struct text_query {
    const collector *c;
    const char *text;
} text_query;

static bool text_equal(void *self, uint32_t id)
{
    const text_query *q = self;
    return strcmp(q->c->names.data[id - 1u], q->text) == 0;
}

static void add_name(collector *c, const char *name)
{
    stator_ref ignored;
    text_query query = {c, name};
    if (name[0] == '\0' || !ox_ok(c->n) || !ox_scope_find(c->n->scope, name, &ignored)) {
        return;
    }
    const uint64_t hash = st_hash64(name, strlen(name), 0);
    if (st_hashset_find(&c->seen, hash, text_equal, &query) != 0) {
        return;
    }
    st_mem *mem = &c->n->im->mem;
    const char **slot = st_vec_push(mem, &c->names);
    if (slot == NULL) {
        ox_fail(c->n, STATOR_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    *slot = name;
    if (!st_hashset_add(&c->seen, hash, c->names.count)) {
        ox_fail(c->n, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    }
}

/* Every name that the graph or one inside it reads. Names it defines itself may be among them when
 * the scope around has them too; the inner definition then wins inside. */
static bool add_graph_names(void *self, const Onnx__GraphProto *graph)
{
    collector *c = self;
    if (++c->depth > OX_NESTING_MAX) {
        c->depth--;
        return false;
    }
    for (size_t i = 0; i < graph->n_node; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        for (size_t k = 0; k < node->n_input; k++) {
            add_name(c, ox_text(node->input[k]));
        }
        ox_node_each_graph(node, add_graph_names, c);
    }
    for (size_t i = 0; i < graph->n_output; i++) {
        add_name(c, ox_text(graph->output[i]->name));
    }
    c->depth--;
    return true;
}

/* Can the value be made again inside a region from what is known of it? */
static bool is_remade(ox_node *n, stator_ref v)
{
    uint32_t count;
    if (ox_sequence_find(n->im, v) != NULL) {
        return false;
    }
    if (ox_region_data(n->scope->region, v) != NULL) {
        return true;
    }
    return ox_dtype(n, v) == STATOR_I64 && ox_rank(n, v) <= 1 && ox_known(n, v, &count) != NULL;
}

void ox_captures_of(ox_node *n, uint32_t graph_count, const Onnx__GraphProto *const *graphs,
                    ox_captures *out)
{
    memset(out, 0, sizeof *out);
    collector c = {.n = n};
    st_hashset_init(&c.seen, &n->im->mem);
    for (uint32_t i = 0; i < graph_count && ox_ok(n); i++) {
        add_graph_names(&c, graphs[i]);
    }
    const uint32_t count = c.names.count;
    out->names = ox_alloc(n, count + 1u, sizeof *out->names);
    out->values = ox_alloc(n, count + 1u, sizeof *out->values);
    out->is_operand = ox_alloc(n, count + 1u, 1);
    out->operands = ox_alloc(n, count + 1u, sizeof *out->operands);
    for (uint32_t i = 0; ox_ok(n) && i < count; i++) {
        out->names[i] = c.names.data[i];
        ox_scope_find(n->scope, out->names[i], &out->values[i]);
        if (out->values[i] != 0 && !is_remade(n, out->values[i])) {
            out->is_operand[i] = 1;
            const bool is_sequence = ox_sequence_find(n->im, out->values[i]) != NULL;
            out->operands[out->operand_count++] =
                is_sequence ? ox_sequence_stack(n, out->values[i]) : out->values[i];
        }
    }
    out->count = ox_ok(n) ? count : 0;
    st_hashset_deinit(&c.seen);
    st_vec_free(&n->im->mem, &c.names);
}

/* ---- regions ---- */

void ox_body_begin(ox_node *n, ox_body *body, const char *name)
{
    memset(body, 0, sizeof *body);
    body->owner = n;
    body->region.parent = n->scope->region;
    st_map_init(&body->region.data, &n->im->mem);
    ox_scope_init(&body->scope, n->im, &body->region, NULL, n->scope->frame);
    body->scope.depth = n->scope->depth + 1u;
    body->node = *n;
    body->node.scope = &body->scope;
    if (ox_ok(n)) {
        body->around = stator_emit_region_begin(&body->node.e, name);
    }
    if (body->around != NULL) {
        body->region.b = body->node.e.b;
        n->e.build->set_origin(body->region.b, n->name, ox_text(n->proto->op_type), n->im->file, 0);
    }
}

stator_ref ox_body_input(ox_body *body, const char *name, stator_ref type)
{
    return body->around != NULL ? stator_emit_input(&body->node.e, name, type) : 0;
}

stator_ref ox_type_of(ox_node *n, stator_ref v)
{
    ST_FAIL_BY_IF(ox_fail, !ox_ok(n) || v == 0, n, STATOR_INVALID_ARGUMENT,
                  "a required input is absent");
    ST_FAIL_BY_IF(ox_fail, (v & OX_SEQUENCE) != 0, n, STATOR_UNIMPLEMENTED,
                  "a sequence stands where a tensor is needed");
    return stator_value_at(n->e.build->view(n->e.b), v)->type;
}

stator_ref ox_type_without(ox_node *n, stator_ref v, uint32_t drop)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = ox_dims(n, v, dims);
    ST_FAIL_BY_IF(ox_fail, !ox_ok(n) || drop >= rank, n, STATOR_INVALID_ARGUMENT,
                  "a scanned input has rank %u", rank);
    memmove(dims + drop, dims + drop + 1, (rank - drop - 1u) * sizeof dims[0]);
    const stator_ref type = n->e.types->tensor(n->e.b, ox_dtype(n, v), rank - 1u, dims);
    return type != 0 ? type : ox_fail(n, STATOR_RESOURCE_EXHAUSTED, "out of memory");
}

/* A value of the region around with known contents, made again inside. */
static stator_ref remake(ox_body *body, stator_ref v)
{
    ox_node *outer = body->owner;
    const ox_data *data = ox_region_data(outer->scope->region, v);
    uint32_t count;
    if (data != NULL) {
        return ox_const(&body->node, data->dtype, data->rank, data->dims, data->bytes);
    }
    const stator_ref *syms = ox_known(outer, v, &count);
    if (syms == NULL) {
        return 0;
    }
    return ox_rank(outer, v) == 0 ? ox_from_dim(&body->node, syms[0])
                                  : ox_from_dims(&body->node, count, syms);
}

void ox_body_captures(ox_body *body, const ox_captures *captures)
{
    ox_node *n = body->owner;
    stator_ref *inside = ox_alloc(n, captures->count + 1u, sizeof *inside);
    body->region.captured = captures->operands;
    for (uint32_t i = 0; ox_ok(n) && i < captures->count; i++) {
        if (captures->is_operand[i]) {
            const stator_ref operand = captures->operands[body->region.captured_count];
            inside[i] = ox_body_input(body, captures->names[i], ox_type_of(n, operand));
            if (body->region.captured_count++ == 0) {
                body->region.first_captured = inside[i];
            }
            if (ox_sequence_find(n->im, captures->values[i]) != NULL) {
                inside[i] = ox_sequence_of_stack(n, inside[i]);
            }
        }
    }
    for (uint32_t i = 0; ox_ok(n) && i < captures->count; i++) {
        if (!captures->is_operand[i] && captures->values[i] != 0) {
            inside[i] = remake(body, captures->values[i]);
        }
        ox_scope_bind(&body->scope, captures->names[i], inside[i]);
    }
}

void ox_body_graph(ox_body *body, const Onnx__GraphProto *graph, uint32_t n_inputs,
                   const stator_ref *inputs, stator_ref *outputs)
{
    ox_node *n = body->owner;
    ox_scope inner;
    ox_scope_init(&inner, n->im, &body->region, &body->scope, body->scope.frame);
    for (uint32_t i = 0; ox_ok(n) && i < n_inputs; i++) {
        ox_scope_bind(&inner, ox_text(graph->input[i]->name), inputs[i]);
    }
    ox_graph_constants(&inner, graph);
    ox_graph_nodes(&inner, graph->n_node, graph->node);
    for (size_t i = 0; ox_ok(n) && i < graph->n_output; i++) {
        const char *name = ox_text(graph->output[i]->name);
        ox_expect(n, ox_scope_find(&inner, name, &outputs[i]) && outputs[i] != 0,
                  "its subgraph does not make its output '%s'", name);
    }
    ox_scope_deinit(&inner);
}

void ox_body_output(ox_body *body, const char *name, stator_ref v)
{
    if (ox_type_of(&body->node, v) != 0) { /* fails for a sequence */
        stator_emit_output(&body->node.e, name, v);
    }
}

stator_graph *ox_body_end(ox_body *body, bool keep)
{
    ox_node *n = body->owner;
    stator_graph *graph = NULL;
    if (body->around != NULL && (!keep || n->im->status != STATOR_OK)) {
        n->e.build->region_abort(body->region.b);
    } else {
        graph = stator_emit_region_end(&body->node.e, body->around);
    }
    ox_node_end(&body->node);
    stator_emit_check(&n->e, n->im->status);
    ox_scope_deinit(&body->scope);
    ox_region_deinit(&body->region, &n->im->mem);
    return graph;
}
