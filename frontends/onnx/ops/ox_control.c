/* If, Loop and Scan as cond, while and scan.
 *
 * If with a condition known during import is its branch. Loop's body never sees a false
 * condition, so its condition input is the constant true; sizes of carried values that change
 * from one iteration to the next become symbols of the region's own, found by building the body
 * again until they are stable. A loop that carries a sequence and whose number of iterations is
 * known is written out, since each iteration may append a tensor of another size. Otherwise a
 * carried sequence is no operand: what the body appends to it is one more stacked result. Scan
 * of operator set 8 has a batch axis: a scan over the batch around a scan over time. */
#include "frontends/onnx/ox_body.h"

#include <string.h>

#define TRIES_MAX 16u
#define ITERATIONS_MAX 64 /* iterations of a loop that is written out */

/* ---- If ---- */

static void inline_branch(ox_node *n, const Onnx__GraphProto *graph)
{
    ox_scope scope;
    ox_scope_init(&scope, n->im, n->scope->region, n->scope, n->scope->frame);
    ox_graph_constants(&scope, graph);
    ox_graph_nodes(&scope, graph->n_node, graph->node);
    for (uint32_t k = 0; ox_ok(n) && k < n->out_count; k++) {
        stator_ref v = 0;
        ox_expect(n, !ox_wants(n, k) || ox_scope_find(&scope, ox_text(graph->output[k]->name), &v),
                  "its branch does not make its output %u", k);
        ox_out(n, k, v);
    }
    ox_scope_deinit(&scope);
}

typedef struct branch_types {
    stator_dtype dtype;
    uint32_t rank;
} branch_types;

/* One branch as a region; types of its outputs into *types. */
static stator_graph *build_branch(ox_node *n, const Onnx__GraphProto *graph, const char *name,
                                  const ox_captures *captures, branch_types *types)
{
    ox_body body;
    stator_ref *out = ox_alloc(n, graph->n_output + 1u, sizeof *out);
    ox_body_begin(n, &body, name);
    ox_body_captures(&body, captures);
    if (ox_ok(n)) {
        ox_body_graph(&body, graph, 0, NULL, out);
    }
    for (size_t i = 0; ox_ok(n) && i < graph->n_output; i++) {
        types[i] = (branch_types){ox_dtype(&body.node, out[i]), ox_rank(&body.node, out[i])};
        ox_body_output(&body, ox_text(graph->output[i]->name), out[i]);
    }
    return ox_body_end(&body, true);
}

static void build_cond(ox_node *n, stator_ref pred, const Onnx__GraphProto *const graphs[2])
{
    static const char *const names[2] = {"then", "else"};
    ox_captures captures;
    stator_graph *regions[2];
    branch_types *types[2];
    ox_captures_of(n, 2, graphs, &captures);
    for (int i = 0; i < 2; i++) {
        types[i] = ox_alloc(n, graphs[i]->n_output + 1u, sizeof **types);
        regions[i] = ox_ok(n) ? build_branch(n, graphs[i], names[i], &captures, types[i]) : NULL;
    }
    for (uint32_t k = 0; ox_ok(n) && k < n->out_count; k++) {
        if (types[0][k].dtype != types[1][k].dtype || types[0][k].rank != types[1][k].rank) {
            ox_ask(n, pred, "the condition of branches that differ in rank or type");
        }
    }
    stator_ref *in = ox_alloc(n, captures.operand_count + 2u, sizeof *in);
    if (in == NULL) {
        return;
    }
    in[0] = pred;
    memcpy(in + 1, captures.operands, captures.operand_count * sizeof *in);
    stator_emit_node(&n->e, "cond", captures.operand_count + 1u, in, STATOR_NONE, 2, regions,
                     n->out_count, n->out);
}

void ox_if(ox_node *n)
{
    const stator_ref condition = ox_need(n, 0);
    const Onnx__GraphProto *graphs[2] = {ox_attr_graph(n, "then_branch"),
                                         ox_attr_graph(n, "else_branch")};
    uint32_t count;
    const int64_t *known;
    OX_NEED(n, graphs[0] != NULL && graphs[1] != NULL, "it needs a then_branch and an else_branch");
    OX_NEED(n, graphs[0]->n_output == n->out_count && graphs[1]->n_output == n->out_count,
            "its branches have %zu and %zu outputs, the node has %u", graphs[0]->n_output,
            graphs[1]->n_output, n->out_count);
    if (ox_known_ints(n, condition, &count, &known) && count == 1) {
        inline_branch(n, graphs[known[0] != 0 ? 0 : 1]);
    } else if (ox_ok(n)) {
        build_cond(n, ox_reshape(n, condition, 0, NULL), graphs);
    }
}

/* ---- Loop ---- */

typedef struct loop {
    const Onnx__GraphProto *graph;
    ox_captures captures;
    uint32_t carried; /* tensors and sequences */
    uint32_t stacked;
    stator_ref *initial;
    stator_ref *types;  /* types of the carried region inputs; 0: a sequence */
    uint8_t *is_grown;  /* sequences that the body appends to */
    uint32_t n_tensors; /* tensors among `carried` */
    uint32_t n_grown;
    bool ignores_cond;
} loop;

/* The type of a carried value with every size that changed replaced by a symbol, which a size that
 * differs from the initial one is already; 0: nothing new changed. */
static stator_ref widened(ox_node *n, stator_ref initial, stator_ref before, stator_ref after)
{
    const stator_types_api *types = n->im->host->types;
    const stator_graph_view *view = n->e.build->view(n->e.b);
    const stator_type_row *a = stator_type_at(view, before);
    const stator_type_row *b = stator_type_at(view, after);
    stator_ref dims[STATOR_RANK_MAX];
    bool changed = false;
    if (a->dtype != b->dtype || a->rank != b->rank) {
        return 0; /* the op's own check reports it */
    }
    for (uint32_t d = 0; d < a->rank; d++) {
        const stator_ref first = stator_dim_at(view, stator_type_at(view, initial), d);
        dims[d] = stator_dim_at(view, a, d);
        if (dims[d] == first &&
            types->sym_compare(n->e.b, STATOR_SYM_EQ, first, stator_dim_at(view, b, d)) != 1) {
            dims[d] = types->sym_unbacked(n->e.b, 0, (int64_t)1 << 40);
            changed = true;
        }
    }
    return changed ? types->tensor(n->e.b, a->dtype, a->rank, dims) : 0;
}

/* Takes over carried value i, made by the body as out[1 + i]: a type that grew wider sets
 * *out_again, a sequence is replaced by the tensor that was appended to it. */
static void carry(ox_body *body, loop *l, uint32_t i, const stator_ref *in, stator_ref *out,
                  bool *out_again)
{
    ox_node *n = body->owner;
    if (l->types[i] == 0) {
        bool is_same;
        out[1 + i] = ox_sequence_appended(&body->node, in[2 + i], out[1 + i], &is_same);
        l->is_grown[i] = !is_same;
        l->n_grown += !is_same;
        return;
    }
    const stator_ref wide =
        widened(n, ox_type_of(n, l->initial[i]), l->types[i], ox_type_of(&body->node, out[1 + i]));
    if (wide != 0) {
        l->types[i] = wide;
        *out_again = true;
    }
}

/* The body's outputs: the condition, carried tensors, stacked values, what sequences grew by. */
static void give_outputs(ox_body *body, const loop *l, const stator_ref *out)
{
    const Onnx__GraphProto *g = l->graph;
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; ox_ok(body->owner) && i < g->n_output; i++) {
            const bool is_sequence = i >= 1 && i <= l->carried && l->types[i - 1u] == 0;
            if (round == 0 ? !is_sequence : is_sequence && l->is_grown[i - 1u]) {
                ox_body_output(body, ox_text(g->output[i]->name), out[i]);
            }
        }
    }
}

/* One try at the body. Sets *out_again when types were widened and the region was dropped. */
static stator_graph *build_loop_body(ox_node *n, loop *l, bool *out_again)
{
    const Onnx__GraphProto *g = l->graph;
    ox_body body;
    stator_ref *in = ox_alloc(n, l->carried + 2u, sizeof *in);
    stator_ref *out = ox_alloc(n, g->n_output + 1u, sizeof *out);
    *out_again = false;
    ox_body_begin(n, &body, "body");
    if (ox_ok(n)) {
        const stator_ref count_type = n->e.types->tensor(n->e.b, STATOR_I64, 0, NULL);
        in[0] = ox_body_input(&body, ox_text(g->input[0]->name), count_type);
    }
    for (uint32_t i = 0; ox_ok(n) && i < l->carried; i++) {
        const char *name = ox_text(g->input[2 + i]->name);
        in[2 + i] = l->types[i] != 0 ? ox_body_input(&body, name, l->types[i])
                                     : ox_sequence_begin(&body.node);
    }
    ox_body_captures(&body, &l->captures);
    if (ox_ok(n)) {
        in[1] = ox_scalar(&body.node, STATOR_BOOL, 1);
        ox_body_graph(&body, g, l->carried + 2u, in, out);
    }
    l->n_grown = 0;
    for (uint32_t i = 0; ox_ok(n) && i < l->carried; i++) {
        carry(&body, l, i, in, out, out_again);
    }
    if (ox_ok(n)) {
        out[0] = l->ignores_cond ? in[1] : ox_reshape(&body.node, out[0], 0, NULL);
    }
    give_outputs(&body, l, out);
    return ox_body_end(&body, !*out_again);
}

static stator_ref scalar_or(ox_node *n, stator_ref v, stator_ref absent)
{
    return v != 0 ? ox_reshape(n, v, 0, NULL) : absent;
}

/* Results of the `while` in the order of the node: carried tensors come first, what sequences grew
 * by last. */
static void name_results(ox_node *n, const loop *l, const stator_ref *results)
{
    uint32_t tensor = 0;
    uint32_t grown = l->n_tensors + l->stacked;
    for (uint32_t i = 0; ox_ok(n) && i < l->carried; i++) {
        n->out[i] = l->types[i] != 0 ? results[tensor++]
                    : l->is_grown[i] ? ox_sequence_followed(n, l->initial[i], results[grown++])
                                     : l->initial[i];
    }
    for (uint32_t i = 0; ox_ok(n) && i < l->stacked; i++) {
        n->out[l->carried + i] = results[l->n_tensors + i];
    }
}

/* Operands of the loop: trips, condition, carried tensors, captures. */
static void emit_loop(ox_node *n, const loop *l, stator_graph *body)
{
    const uint32_t stacked = l->stacked + l->n_grown;
    uint32_t count = 2u;
    stator_ref *in = ox_alloc(n, 2u + l->carried + l->captures.operand_count, sizeof *in);
    stator_ref *results = ox_alloc(n, l->n_tensors + stacked + 1u, sizeof *results);
    if (in == NULL || results == NULL) {
        return;
    }
    const stator_ref trips = ox_in(n, 0);
    in[0] = scalar_or(n, trips != 0 ? ox_cast(n, trips, STATOR_I64) : 0, 0);
    in[0] = in[0] != 0 ? in[0] : ox_int(n, INT64_MAX);
    in[1] = scalar_or(n, ox_in(n, 1), 0);
    in[1] = in[1] != 0 ? in[1] : ox_scalar(n, STATOR_BOOL, 1);
    for (uint32_t i = 0; i < l->carried; i++) {
        if (l->types[i] != 0) {
            in[count++] = l->initial[i];
        }
    }
    memcpy(in + count, l->captures.operands, l->captures.operand_count * sizeof *in);
    stator_emit_node(
        &n->e, "while", count + l->captures.operand_count, in,
        STATOR_AT(STATOR_A_INT("carried", l->n_tensors), STATOR_A_INT("stacked", stacked)), 1,
        &body, l->n_tensors + stacked, results);
    name_results(n, l, results);
}

/* Is the condition known to be this? Absent is true. */
static bool is_known_as(ox_node *n, stator_ref condition, bool wanted)
{
    uint32_t count;
    const int64_t *known;
    return condition == 0 ? wanted
                          : ox_known_ints(n, condition, &count, &known) && count == 1 &&
                                (known[0] != 0) == wanted;
}

/* One iteration of the body in the region around the loop; `values` are the condition and the
 * carried values, before and after. */
static void write_iteration(ox_node *n, const loop *l, int64_t iteration, stator_ref *values)
{
    const Onnx__GraphProto *g = l->graph;
    ox_scope scope;
    ox_scope_init(&scope, n->im, n->scope->region, n->scope, n->scope->frame);
    ox_scope_bind(&scope, ox_text(g->input[0]->name), ox_int(n, iteration));
    for (uint32_t i = 0; i <= l->carried; i++) {
        ox_scope_bind(&scope, ox_text(g->input[1 + i]->name), values[i]);
    }
    ox_graph_constants(&scope, g);
    ox_graph_nodes(&scope, g->n_node, g->node);
    for (uint32_t i = 0; ox_ok(n) && i <= l->carried; i++) {
        ox_expect(n, ox_scope_find(&scope, ox_text(g->output[i]->name), &values[i]),
                  "its body does not make its output %u", i);
    }
    ox_scope_deinit(&scope);
}

/* Writes a loop out whose iterations are counted during the import; 0 when they are not. */
static bool write_out(ox_node *n, const loop *l)
{
    const int64_t *n_iterations;
    uint32_t count;
    if (l->n_tensors == l->carried || l->stacked != 0 || ox_in(n, 0) == 0 ||
        !ox_known_ints(n, ox_in(n, 0), &count, &n_iterations) || count != 1 ||
        n_iterations[0] > ITERATIONS_MAX || !is_known_as(n, ox_in(n, 1), true)) {
        return false;
    }
    stator_ref *values = ox_alloc(n, l->carried + 1u, sizeof *values);
    if (values == NULL) {
        return false;
    }
    values[0] = ox_scalar(n, STATOR_BOOL, 1);
    memcpy(values + 1, l->initial, l->carried * sizeof *values);
    for (int64_t t = 0; ox_ok(n) && t < n_iterations[0]; t++) {
        write_iteration(n, l, t, values);
        if (ox_ok(n) && !l->ignores_cond && !is_known_as(n, values[0], true)) {
            if (!is_known_as(n, values[0], false)) {
                return false; /* the written iterations are discarded */
            }
            break;
        }
    }
    memcpy(n->out, values + 1, l->carried * sizeof *values);
    return true;
}

void ox_loop(ox_node *n)
{
    loop l = {.graph = ox_attr_graph(n, "body")};
    OX_NEED(n, l.graph != NULL, "it needs a body");
    l.carried = n->in_count > 2 ? n->in_count - 2u : 0;
    l.ignores_cond = ox_in(n, 1) == 0;
    OX_NEED(n,
            l.graph->n_input == l.carried + 2u && l.graph->n_output >= l.carried + 1u &&
                l.graph->n_output - 1u == n->out_count,
            "its body has %zu inputs and %zu outputs; %u and %u were expected", l.graph->n_input,
            l.graph->n_output, l.carried + 2u, n->out_count + 1u);
    l.stacked = (uint32_t)l.graph->n_output - 1u - l.carried;
    l.initial = ox_alloc(n, l.carried + 1u, sizeof *l.initial);
    l.types = ox_alloc(n, l.carried + 1u, sizeof *l.types);
    l.is_grown = ox_alloc(n, l.carried + 1u, sizeof *l.is_grown);
    for (uint32_t i = 0; ox_ok(n) && i < l.carried; i++) {
        l.initial[i] = ox_need(n, 2 + i);
        const bool is_sequence = ox_sequence_find(n->im, l.initial[i]) != NULL;
        l.types[i] = is_sequence ? 0 : ox_type_of(n, l.initial[i]);
        l.n_tensors += !is_sequence;
    }
    if (ox_ok(n) && write_out(n, &l)) {
        return;
    }
    ox_captures_of(n, 1, &l.graph, &l.captures);
    stator_graph *body = NULL;
    bool again = true;
    for (uint32_t t = 0; ox_ok(n) && again && t < TRIES_MAX; t++) {
        body = build_loop_body(n, &l, &again);
    }
    if (ox_ok(n) && again) {
        ox_fail(n, STATOR_UNIMPLEMENTED,
                "its carried values get other sizes with each pass over its body");
    }
    if (ox_ok(n)) {
        emit_loop(n, &l, body);
    }
}

/* ---- Scan ---- */

typedef struct scan {
    const Onnx__GraphProto *graph;
    uint32_t carried;
    uint32_t scanned;
    uint32_t stacked;
    const stator_ref *values; /* carried, then scanned */
    const int64_t *axes;      /* axes of scanned inputs, in [0, rank) */
    const int64_t *reverse;
    const int64_t *out_axes;
    const int64_t *out_reverse;
} scan;

/* Emits the scan in n's region; fills carried + stacked results. */
static void emit_scan(ox_node *n, const scan *s, stator_ref *results)
{
    const uint32_t own = s->carried + s->scanned;
    ox_captures captures;
    ox_body body;
    stator_ref *in = ox_alloc(n, own + 1u, sizeof *in);
    stator_ref *out = ox_alloc(n, s->graph->n_output + 1u, sizeof *out);
    ox_captures_of(n, 1, &s->graph, &captures);
    stator_ref *operands = ox_alloc(n, own + captures.operand_count + 1u, sizeof *operands);
    ox_body_begin(n, &body, "body");
    for (uint32_t i = 0; ox_ok(n) && i < own; i++) {
        const uint32_t k = i - s->carried;
        const stator_ref type = i < s->carried
                                    ? ox_type_of(n, s->values[i])
                                    : ox_type_without(n, s->values[i], (uint32_t)s->axes[k]);
        in[i] = ox_body_input(&body, ox_text(s->graph->input[i]->name), type);
        operands[i] = s->values[i];
    }
    ox_body_captures(&body, &captures);
    if (ox_ok(n)) {
        memcpy(operands + own, captures.operands, captures.operand_count * sizeof *operands);
        ox_body_graph(&body, s->graph, own, in, out);
    }
    for (size_t i = 0; ox_ok(n) && i < s->graph->n_output; i++) {
        ox_body_output(&body, ox_text(s->graph->output[i]->name), out[i]);
    }
    stator_graph *region = ox_body_end(&body, true);
    stator_emit_node(
        &n->e, "scan", own + captures.operand_count, operands,
        STATOR_AT(STATOR_A_INT("carried", s->carried), STATOR_A_INT("scanned", s->scanned),
                  STATOR_A_INT("stacked", s->stacked), STATOR_A_INTS("axes", s->scanned, s->axes),
                  STATOR_A_INTS("reverse", s->scanned, s->reverse),
                  STATOR_A_INTS("out_axes", s->stacked, s->out_axes),
                  STATOR_A_INTS("out_reverse", s->stacked, s->out_reverse)),
        1, &region, s->carried + s->stacked, results);
}

/* Counts of inputs and outputs against the body. */
static bool check_scan(ox_node *n, scan *s, uint32_t inputs)
{
    const int64_t scanned = ox_attr_int_need(n, "num_scan_inputs");
    s->graph = ox_attr_graph(n, "body");
    if (!ox_expect(n,
                   s->graph != NULL && scanned >= 1 && scanned <= (int64_t)inputs &&
                       s->graph->n_input == inputs && s->graph->n_output == n->out_count &&
                       n->out_count >= inputs - (uint32_t)scanned,
                   "its body does not fit: %u inputs, of which %lld scanned, and %u outputs",
                   inputs, (long long)scanned, n->out_count)) {
        return false;
    }
    s->scanned = (uint32_t)scanned;
    s->carried = inputs - s->scanned;
    s->stacked = n->out_count - s->carried;
    return true;
}

/* Scan of operator set 8: [batch, time, ..] inputs and [batch, ..] states. */
static void scan_with_batch(ox_node *n)
{
    scan s = {0};
    scan outer = {0};
    if (ox_in(n, 0) != 0) {
        ox_fail(n, STATOR_UNIMPLEMENTED, "sequence lengths (operator set 8) are not supported");
        return;
    }
    const uint32_t inputs = n->in_count - 1u;
    if (n->in_count == 0 || !check_scan(n, &s, inputs)) {
        return;
    }
    const int64_t *zeros = ox_alloc(n, inputs + n->out_count + 1u, sizeof *zeros);
    s.axes = s.out_axes = s.out_reverse = zeros;
    s.reverse = ox_attr_ints_or(n, "directions", s.scanned, 0);
    outer = (scan){s.graph, 0, inputs, n->out_count, n->in + 1, zeros, zeros, zeros, zeros};
    ox_captures captures;
    ox_body body;
    stator_ref *slices = ox_alloc(n, inputs + 1u, sizeof *slices);
    stator_ref *results = ox_alloc(n, n->out_count + 1u, sizeof *results);
    ox_captures_of(n, 1, &s.graph, &captures);
    stator_ref *operands = ox_alloc(n, inputs + captures.operand_count + 1u, sizeof *operands);
    ox_body_begin(n, &body, "batch");
    for (uint32_t i = 0; ox_ok(n) && i < inputs; i++) {
        operands[i] = ox_need(n, i + 1u);
        slices[i] = ox_body_input(&body, ox_text(s.graph->input[i]->name),
                                  ox_type_without(n, operands[i], 0));
    }
    ox_body_captures(&body, &captures);
    s.values = slices;
    if (ox_ok(n)) {
        memcpy(operands + inputs, captures.operands, captures.operand_count * sizeof *operands);
        emit_scan(&body.node, &s, results);
    }
    for (uint32_t i = 0; ox_ok(n) && i < n->out_count; i++) {
        ox_body_output(&body, ox_text(s.graph->output[i]->name), results[i]);
    }
    stator_graph *region = ox_body_end(&body, true);
    stator_emit_node(&n->e, "scan", inputs + captures.operand_count, operands,
                     STATOR_AT(STATOR_A_INT("carried", 0), STATOR_A_INT("scanned", outer.scanned),
                               STATOR_A_INT("stacked", outer.stacked)),
                     1, &region, n->out_count, n->out);
}

/* An axis list brought into [0, rank) by `rank_of`. */
static const int64_t *scan_axes(ox_node *n, const char *name, uint32_t count,
                                const stator_ref *values)
{
    const int64_t *given = ox_attr_ints_or(n, name, count, 0);
    int64_t *out = ox_alloc(n, count + 1u, sizeof *out);
    for (uint32_t i = 0; ox_ok(n) && i < count; i++) {
        out[i] = values != NULL ? (int64_t)ox_axis(n, given[i], ox_rank(n, values[i])) : given[i];
    }
    return out;
}

void ox_scan(ox_node *n)
{
    scan s = {0};
    if (n->version < 9) {
        scan_with_batch(n);
        return;
    }
    for (uint32_t i = 0; i < n->in_count; i++) {
        ox_need(n, i);
    }
    if (!check_scan(n, &s, n->in_count)) {
        return;
    }
    s.values = n->in;
    s.axes = scan_axes(n, "scan_input_axes", s.scanned, n->in + s.carried);
    s.reverse = ox_attr_ints_or(n, "scan_input_directions", s.scanned, 0);
    s.out_axes = scan_axes(n, "scan_output_axes", s.stacked, NULL);
    s.out_reverse = ox_attr_ints_or(n, "scan_output_directions", s.stacked, 0);
    if (ox_ok(n)) {
        emit_scan(n, &s, n->out);
    }
}
