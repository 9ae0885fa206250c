/* What is kept between a forward and a backward part: the minimum cut.
 *
 * In: a graph whose nodes say which of them are backward. Out: the forward nodes that the backward
 * part computes again; of the others it reads the results, which are kept.
 *
 *   s = sin(x)  y = mul(s, x)  |  dy * s, dy * x        kept: x; again: s
 *
 * A place for each forward node (its sink side: it is computed again) and one for each of its
 * results (sink side: the backward part has it). Arcs, and what it costs to cut them:
 *
 *   source -> node       price * work          it is computed again; never: ST_FLOW_FREE
 *   node   -> result     bytes                 the result is kept
 *   source -> input      bytes, parameters 0   the input is read again; 0 where the parts stay one
 *                                              graph, whose inputs are there anyhow
 *   operand -> node      ST_FLOW_FREE          who computes it again has its operands
 *   result -> sink       ST_FLOW_FREE          a backward node reads it
 *
 * So a cut is a plan, and the minimum one keeps the fewest bytes, with work at a price. Of equal
 * ones the one with the fewest nodes at the sink's side computes least again. The model is that of
 * PyTorch's min_cut_rematerialization_partition (after Chen et al., Training Deep Nets with
 * Sublinear Memory Cost, 2016, and Jain et al., Checkmate, 2020), here with the work inside the
 * cut, so that a lower budget is the same cut at a lower price: the highest at which the bytes are
 * within it. As the price falls the bytes do, never the other way. Equal layers have slightly
 * different prices, so that a budget can take some of them: in the order of van der Corput's
 * sequence, by which those that are kept stand evenly among those that are not. What is computed
 * again at once is then what stands between two of them, not all that is before the last.
 *
 * Sizes that are symbols weigh as their hints do (st_sym_size_hint). */
#include "ir/recompute/kept.h"

#include "core/base/check.h"
#include "ir/optable.h"
#include "ir/recompute/flow.h"
#include "ir/recompute/node_flops.h"
#include "ir/sizes/shape_constraint_list.h"

#include <math.h>

#define BYTE 16 /* what a byte costs; what is less decides between equal ones */
#define PRICE_OF_CHEAP                                                                             \
    0x1p-6                /* of a byte that cheap work reads or writes, in bytes kept: it costs
                                 * no more than a fusion does, and a chain of 64 is kept instead */
#define PRICE_MIN 0x1p-40 /* work is all but free */
#define SEARCH_STEPS 20u  /* halvings of the 34 octaves between them */
#define SPREAD (1.0 / 16) /* the dearest of equal nodes costs so much more than the cheapest */
#define CONTRACTION_WEIGHT                                                                         \
    8.0                   /* bytes an operation counts as: PRICE_OF_CHEAP buys none whose sums
                                 * have 16 terms or more, of f32 */
#define HEAVY_WEIGHT 64.0 /* the same of a byte of another heavy node */

typedef struct planner {
    const stator_graph *graph;
    const stator_graph_view *v;
    st_mem *mem;
    st_keep_limits limits;
    bool allows_heavy;
    st_flow flow;
    uint32_t *node_place;  /* by node; 0: none */
    uint32_t *value_place; /* by value; 0: none */
    uint32_t *work_arc;    /* by node: from the source */
    double *work;          /* by node; infinite: never again */
    double heaviest;
    st_kept *out;
} planner;

enum { SOURCE, SINK, PLACES };

/* ---- sides ---- */

/* Marked BACKWARD, or reading what such a node makes: the optimizer of a training step, whose rates
 * read no gradient and stand behind them. */
static void find_backward(planner *p)
{
    bool is_behind = false;
    for (stator_ref node = 1; node <= p->v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(p->v, node);
        bool is_backward = stator_node_is_backward(p->v, node);
        is_behind |= is_backward && p->limits.is_one_graph;
        is_backward |= is_behind;
        for (uint32_t k = 0; !is_backward && k < row->operand_count; k++) {
            const stator_ref value = stator_operand(p->v, row, k);
            const stator_ref maker = value != 0 ? stator_value_at(p->v, value)->node : 0;
            is_backward = maker != 0 && p->out->is_backward[maker] != 0;
        }
        p->out->is_backward[node] = is_backward;
    }
}

/* ---- weights ---- */

static double bytes_of(const planner *p, stator_ref value)
{
    const stator_type_row *type = stator_value_type(p->v, value);
    double bytes = (double)st_dtype_bits(type->dtype) / 8;
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        bytes *=
            (double)st_sym_size_hint(&p->graph->module->symtab, stator_dim_at(p->v, type, axis));
    }
    return bytes;
}

/* Bytes that the node reads and writes. */
static double traffic(const planner *p, const stator_node_row *row)
{
    double bytes = 0;
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(p->v, row, k);
        bytes += value != 0 ? bytes_of(p, value) : 0;
    }
    for (uint32_t k = 0; k < row->result_count; k++) {
        bytes += bytes_of(p, row->result_begin + k);
    }
    return bytes;
}

bool st_node_holds_unbacked(const stator_graph *graph, const stator_node_row *row)
{
    const stator_graph_view *v = st_graph_view(graph);
    const st_symtab *tab = &graph->module->symtab;
    for (uint32_t k = 0; k < row->result_count; k++) {
        const stator_type_row *type = stator_value_type(v, row->result_begin + k);
        for (uint32_t axis = 0; axis < type->rank; axis++) {
            if (st_sym_holds_unbacked(tab, stator_dim_at(v, type, axis))) {
                return true;
            }
        }
    }
    for (uint32_t k = 0; k < row->attr_count; k++) {
        const stator_attr_row *attr = stator_attr_at(v, row, k);
        for (uint32_t i = 0; attr->kind == STATOR_ATTR_DIMS && i < attr->count; i++) {
            if (st_sym_holds_unbacked(tab, stator_ref_at(v, attr->begin + i))) {
                return true;
            }
        }
    }
    return false;
}

/* Sizes that only the running graph tells are those of one node. Inputs that are written hold
 * something else when the backward part runs as a model of its own. */
static bool must_not_repeat(const planner *p, const stator_node_row *row)
{
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(p->v, row, k);
        if (value != 0 && !p->limits.is_one_graph &&
            (stator_value_at(p->v, value)->flags & STATOR_VALUE_WRITTEN) != 0) {
            return true;
        }
    }
    return st_node_holds_unbacked(p->graph, row);
}

static bool is_heavy(const planner *p, stator_ref node)
{
    const stator_node_row *row = stator_node_at(p->v, node);
    return st_op_recompute(st_optable_at(p->graph->module->ops, row->op)) == ST_RECOMPUTE_HEAVY;
}

/* What computing the node again costs, in bytes read and written by something that does nothing
 * else; infinite: never. */
static double work_of(const planner *p, stator_ref node)
{
    const stator_node_row *row = stator_node_at(p->v, node);
    const st_recompute cost = st_op_recompute(st_optable_at(p->graph->module->ops, row->op));
    const double flops = cost == ST_RECOMPUTE_HEAVY
                             ? (double)st_node_flops(p->v, node, &p->graph->module->symtab)
                             : 0;
    if (must_not_repeat(p, row)) {
        return INFINITY;
    }
    switch (cost) {
    case ST_RECOMPUTE_FREE:
        return 0;
    case ST_RECOMPUTE_POINTWISE:
        return bytes_of(p, row->result_begin);
    case ST_RECOMPUTE_SWEEP:
        return 2 * traffic(p, row);
    case ST_RECOMPUTE_RANDOM:
        return (p->limits.allowed & ST_RECOMPUTE_ALLOW_RANDOM) != 0 ? traffic(p, row) : INFINITY;
    case ST_RECOMPUTE_HEAVY:
        return !p->allows_heavy ? INFINITY
               : flops > 0      ? CONTRACTION_WEIGHT * flops + traffic(p, row)
                                : HEAVY_WEIGHT * traffic(p, row);
    default:
        return INFINITY;
    }
}

/* The bits of the rank behind the point, the lowest first: 0, 1/2, 1/4, 3/4, 1/8, ... */
static double van_der_corput(uint32_t rank)
{
    double value = 0;
    for (double digit = 0.5; rank != 0; rank >>= 1, digit /= 2) {
        value += (rank & 1u) != 0 ? digit : 0;
    }
    return value;
}

/* Work of all nodes that have a place; equal ones at slightly different prices. */
static void set_works(planner *p)
{
    uint32_t rank = 0;
    for (stator_ref node = 1; node <= p->v->n_nodes; node++) {
        if (p->node_place[node] != 0) {
            const double work = work_of(p, node);
            p->work[node] = work * (1 + SPREAD * van_der_corput(rank));
            rank += is_heavy(p, node);
        }
    }
}

static int64_t capacity_of(double cost)
{
    return cost < (double)ST_FLOW_FREE ? (int64_t)cost : ST_FLOW_FREE;
}

static int64_t capacity_of_bytes(double bytes)
{
    const double most = (double)(ST_FLOW_FREE >> 20); /* sums stay below ST_FLOW_FREE */
    return capacity_of(BYTE * bytes < most ? BYTE * bytes : most);
}

/* ---- the graph of the flow ---- */

static bool is_constant(const planner *p, stator_ref value)
{
    const stator_ref node = stator_value_at(p->v, value)->node;
    return node != 0 &&
           (stator_op_at(p->v, stator_node_at(p->v, node)->op)->flags & STATOR_OP_CONSTANT) != 0;
}

/* Does keeping the value cost nothing? */
static bool is_there_anyhow(const planner *p, stator_ref value)
{
    return (stator_value_at(p->v, value)->flags & STATOR_VALUE_PARAM) != 0 ||
           (p->limits.is_one_graph && value <= p->v->n_inputs);
}

static bool add_inputs(planner *p)
{
    for (stator_ref i = 1; i <= p->v->n_inputs; i++) {
        p->value_place[i] = st_flow_place(&p->flow);
        ST_NEED(st_flow_add(&p->flow, SOURCE, p->value_place[i],
                            is_there_anyhow(p, i) ? 0 : capacity_of_bytes(bytes_of(p, i))));
    }
    return true;
}

/* Arcs from the values that a node reads; constants are wherever they are read. */
static bool add_reads(planner *p, stator_ref node, uint32_t to)
{
    const stator_node_row *row = stator_node_at(p->v, node);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(p->v, row, k);
        if (value != 0 && p->value_place[value] != 0 &&
            !st_flow_add(&p->flow, p->value_place[value], to, ST_FLOW_FREE)) {
            return false;
        }
    }
    return true;
}

/* A view costs a little more to keep than what it shows. */
static bool add_forward(planner *p, stator_ref node)
{
    const stator_node_row *row = stator_node_at(p->v, node);
    const bool is_view = (stator_op_at(p->v, row->op)->flags & STATOR_OP_VIEW) != 0;
    p->node_place[node] = st_flow_place(&p->flow);
    p->work_arc[node] = p->flow.arcs.count;
    ST_NEED(st_flow_add(&p->flow, SOURCE, p->node_place[node], 0));
    for (uint32_t k = 0; k < row->result_count; k++) {
        const stator_ref value = row->result_begin + k;
        p->value_place[value] = st_flow_place(&p->flow);
        ST_NEED(st_flow_add(&p->flow, p->node_place[node], p->value_place[value],
                            capacity_of_bytes(bytes_of(p, value)) + is_view));
    }
    return add_reads(p, node, p->node_place[node]);
}

static bool add_nodes(planner *p)
{
    for (stator_ref node = 1; node <= p->v->n_nodes; node++) {
        const stator_ref result = stator_node_at(p->v, node)->result_begin;
        if (p->out->is_backward[node]) {
            ST_NEED(add_reads(p, node, SINK));
        } else if (!is_constant(p, result)) {
            ST_NEED(add_forward(p, node));
        }
    }
    return true;
}

/* ---- the plan ---- */

static bool cut_at(planner *p, double price)
{
    for (stator_ref node = 1; node <= p->v->n_nodes; node++) {
        if (p->node_place[node] != 0) {
            p->flow.arcs.data[p->work_arc[node]].capacity =
                capacity_of(BYTE * price * p->work[node]);
        }
    }
    return st_flow_cut(&p->flow, SOURCE, SINK);
}

/* Bytes that cross the cut. */
static double kept_bytes(const planner *p)
{
    double bytes = 0;
    for (stator_ref value = 1; value <= p->v->n_values; value++) {
        const stator_value_row *row = stator_value_at(p->v, value);
        const uint32_t place = p->value_place[value];
        const bool is_read = place != 0 && st_flow_is_sink_side(&p->flow, place);
        const bool is_made = row->node != 0 && p->node_place[row->node] != 0 &&
                             st_flow_is_sink_side(&p->flow, p->node_place[row->node]);
        if (is_read && !is_made && !is_there_anyhow(p, value)) {
            bytes += bytes_of(p, value);
        }
    }
    return bytes;
}

static void take_plan(planner *p)
{
    st_kept *out = p->out;
    out->n_again = 0;
    for (stator_ref node = 1; node <= p->v->n_nodes; node++) {
        out->is_again[node] =
            p->node_place[node] != 0 && st_flow_is_sink_side(&p->flow, p->node_place[node]);
        out->n_again += out->is_again[node];
    }
    out->bytes = kept_bytes(p);
}

/* The highest price at which no more is kept than the budget allows; where none is low enough, the
 * lowest. */
static void search_price(planner *p, double most)
{
    double low = log2(PRICE_MIN), high = log2(PRICE_OF_CHEAP);
    p->out->is_capped = !cut_at(p, PRICE_MIN);
    if (p->out->is_capped) {
        return;
    }
    take_plan(p);
    for (uint32_t i = 0; p->out->bytes <= most && i < SEARCH_STEPS; i++) {
        const double middle = (low + high) / 2;
        if (!cut_at(p, exp2(middle))) {
            p->out->is_capped = true;
            return;
        }
        if (kept_bytes(p) <= most) {
            take_plan(p);
            low = middle;
        } else {
            high = middle;
        }
    }
}

/* Heavy nodes at an infinite price, unless they are allowed whatever the budget is. */
static void plan(planner *p)
{
    set_works(p);
    p->out->is_capped = !cut_at(p, PRICE_OF_CHEAP);
    if (p->out->is_capped) {
        return;
    }
    take_plan(p);
    const double most = p->limits.budget * p->out->bytes;
    if (p->limits.budget < 1 && p->out->bytes > most) {
        p->allows_heavy = true;
        set_works(p);
        search_price(p, most);
    }
}

static stator_status allocate(planner *p, stator_diag **err)
{
    const uint64_t n = p->v->n_nodes + UINT64_C(1), m = p->v->n_values + UINT64_C(1);
    p->out->is_again = st_calloc(p->mem, n, 1);
    p->out->is_backward = st_calloc(p->mem, n, 1);
    p->node_place = st_calloc(p->mem, n * 2u + m, sizeof *p->node_place);
    p->work = st_calloc(p->mem, n, sizeof *p->work);
    ST_TRY_MEM(p->out->is_again && p->out->is_backward && p->node_place && p->work, err);
    p->work_arc = p->node_place + n;
    p->value_place = p->work_arc + n;
    return STATOR_OK;
}

static stator_status run(planner *p, stator_diag **err)
{
    ST_TRY(allocate(p, err));
    find_backward(p);
    p->flow.n_places = PLACES;
    ST_TRY_MEM(add_inputs(p) && add_nodes(p) && st_flow_prepare(&p->flow), err);
    plan(p);
    return STATOR_OK;
}

stator_status st_kept_plan(const stator_graph *graph, const st_keep_limits *limits, st_mem *mem,
                           st_kept *out, stator_diag **err)
{
    planner p = {.graph = graph,
                 .v = st_graph_view(graph),
                 .mem = mem,
                 .limits = limits != NULL ? *limits : (st_keep_limits){.budget = 1},
                 .out = out};
    *out = (st_kept){.n_again = 0};
    p.allows_heavy = (p.limits.allowed & ST_RECOMPUTE_ALLOW_HEAVY) != 0;
    st_flow_init(&p.flow, mem, p.limits.max_steps != 0 ? p.limits.max_steps : ST_KEEP_STEPS);
    const stator_status status = run(&p, err);
    st_flow_deinit(&p.flow);
    st_free(mem, p.node_place);
    st_free(mem, p.work);
    return status;
}

const char *st_kept_capped_note(const st_kept *kept)
{
    return kept->n_again == 0
               ? "the minimum cut between forward and backward part takes too much work: all that "
                 "the forward part makes for the backward part is kept"
               : "the search for a cut within the memory budget took too much work: what is kept "
                 "is the least found by then";
}

void st_kept_deinit(st_kept *kept, st_mem *mem)
{
    st_free(mem, kept->is_again);
    st_free(mem, kept->is_backward);
}
