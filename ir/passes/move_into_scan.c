/* What a scan's slices are made from, and what is made of its results row by row, moves into its
 * body.
 *
 *     xw = dot_general(x, w)  y = scan(h, xw)  z = dot_general(y, v)
 *     ->  z = scan(h, x) with both products inside
 *
 * In: any graph. Out: scans over axis 0 whose scanned operands, or stacked results, were values of
 * all steps at once, and are so no more: a step makes what it needs of them. Nodes that are not
 * needed then are dce's. A move is made when the values that remain are smaller than those that go.
 *
 * A product of many rows by the same weights moves when a step has enough rows to be worth reading
 * the weights for, the body's weights stay in a core's own cache, and the loop does not become
 * longer than the threads that it can have make up for: another scan stands beside it, or the
 * product is small beside those of the body. Results agree within rounding: sums of products are
 * grouped anew.
 *
 * Nodes are looked at from the scan backwards (what only moved nodes read moves), then forwards
 * (what reads nothing but moved values and what is there before the scan moves). */
#include "ir/passes/move_into_scan.h"
#include "core/base/check.h"

#include <stator/ops.h>
#include <string.h>

#define ROWS_MIN 3            /* rows of a step that are worth reading weights for */
#define CACHED_BYTES 1048576u /* weights that a step may read */
#define SMALL_PART 4u         /* 1 / part of the body's products that the loop may grow by */
#define OPERANDS_MAX 256u
#define DEPTH_MAX 8u /* views of a constant */

#define MARK_ROW 1 /* by value: the body has its row */

typedef struct scan_mover {
    st_copy *copy;
    uint32_t *uses;   /* by value: nodes, outputs, write-backs */
    uint32_t *taken;  /* by value: of those, what moves */
    uint8_t *marks;   /* by value */
    uint8_t *moves;   /* by node: 1 into this scan, 2 is in one */
    stator_ref *into; /* by value: in the region */
} scan_mover;

/* One scan. */
typedef struct scan_desc {
    stator_ref node;
    const stator_node_row *row;
    const stator_graph *body;
    stator_ref length;
    uint32_t carried, scanned, stacked, n_captured;
    int64_t is_reversed;
    uint64_t body_macs, body_bytes; /* products in a step */
    bool has_sibling;
    uint32_t n_rows, n_whole, n_out; /* operands and stacked results of the new scan */
    stator_ref rows[OPERANDS_MAX], whole[OPERANDS_MAX], out[OPERANDS_MAX];
} scan_desc;

/* ---- sizes ---- */

/* Elements from axis `from` on; 0: not known. */
static uint64_t numel(const stator_graph_view *v, stator_ref value, uint32_t from)
{
    const stator_type_row *type = stator_value_type(v, value);
    uint64_t n = 1;
    for (uint32_t a = from; a < type->rank; a++) {
        int64_t dim = 0;
        if (!stator_sym_is_const(v, stator_dim_at(v, type, a), &dim) || dim <= 0 ||
            n > (UINT32_MAX / (uint64_t)dim)) {
            return 0;
        }
        n *= (uint64_t)dim;
    }
    return n;
}

static uint64_t row_bytes(const stator_graph_view *v, stator_ref value)
{
    return numel(v, value, 1) * st_dtype_bits(stator_value_type(v, value)->dtype) / 8u;
}

/* Products and bytes of weights of a step of dot_general, whose result has `from` axes too many. */
static void dot_work(const stator_graph_view *v, const stator_node_row *row, uint32_t from,
                     uint64_t *out_macs, uint64_t *out_bytes)
{
    const stator_ref y = stator_operand(v, row, 1);
    const uint64_t weights = numel(v, y, 0);
    const uint64_t result = numel(v, row->result_begin, from);
    const stator_attr_row *axes = stator_attr_at(v, row, STATOR_dot_general_contract_y);
    const stator_type_row *type = stator_value_type(v, y);
    uint64_t folded = 1;
    for (uint32_t i = 0; i < axes->count; i++) {
        const int64_t axis = stator_attr_int_at(v, axes, i);
        int64_t dim = 0;
        (void)stator_sym_is_const(
            v, stator_dim_at(v, type, (uint32_t)st_normalize_axis(axis, type->rank)), &dim);
        folded *= dim > 0 ? (uint64_t)dim : 1u;
    }
    *out_macs = result * folded;
    *out_bytes = weights * st_dtype_bits(type->dtype) / 8u;
}

static bool is_dot(const stator_graph_view *v, stator_ref node)
{
    return stator_node_at(v, node)->op == STATOR_OPCODE_dot_general;
}

/* ---- which scans ---- */

/* All along axis 0 and in one direction? */
static bool is_even(const stator_graph_view *v, scan_desc *s)
{
    s->is_reversed = st_node_int_at(v, s->row, STATOR_scan_reverse, 0) != 0;
    for (uint32_t k = 0; k < s->scanned; k++) {
        if (st_node_int_at(v, s->row, STATOR_scan_axes, k) != 0 ||
            (st_node_int_at(v, s->row, STATOR_scan_reverse, k) != 0) != s->is_reversed) {
            return false;
        }
    }
    for (uint32_t k = 0; k < s->stacked; k++) {
        if (st_node_int_at(v, s->row, STATOR_scan_out_axes, k) != 0 ||
            (st_node_int_at(v, s->row, STATOR_scan_out_reverse, k) != 0) != s->is_reversed) {
            return false;
        }
    }
    return true;
}

static void measure_body(scan_desc *s)
{
    const stator_graph_view *b = st_graph_view(s->body);
    for (stator_ref node = 1; node <= b->n_nodes; node++) {
        if (is_dot(b, node)) {
            uint64_t macs = 0;
            uint64_t bytes = 0;
            dot_work(b, stator_node_at(b, node), 0, &macs, &bytes);
            s->body_macs += macs;
            s->body_bytes += bytes;
        }
    }
}

/* A scan of as many steps? */
static bool is_as_long(const stator_graph_view *v, const stator_node_row *row, const scan_desc *s)
{
    if (row->op != s->row->op || stator_attr_at(v, row, STATOR_scan_scanned)->i == 0) {
        return false;
    }
    const uint32_t carried = (uint32_t)stator_attr_at(v, row, STATOR_scan_carried)->i;
    const stator_ref first = stator_operand(v, row, carried);
    return stator_dim_at(v, stator_value_type(v, first), 0) == s->length;
}

/* Another scan of as many steps that neither needs this one nor is needed by it. */
static bool has_sibling(scan_mover *w, const scan_desc *s)
{
    const stator_graph_view *v = w->copy->v;
    uint8_t *is_tied = w->marks; /* unused as yet */
    bool found = false;
    memset(is_tied, 0, v->n_values + 1u);
    for (uint32_t k = 0; k < s->row->operand_count; k++) {
        is_tied[stator_operand(v, s->row, k)] = 1;
    }
    for (stator_ref node = s->node; node-- > 1;) {
        const stator_node_row *row = stator_node_at(v, node);
        bool is_needed = false;
        for (uint32_t k = 0; k < row->result_count; k++) {
            is_needed = is_needed || is_tied[row->result_begin + k];
        }
        found = found || (!is_needed && is_as_long(v, row, s));
        for (uint32_t k = 0; k < row->operand_count && is_needed; k++) {
            is_tied[stator_operand(v, row, k)] = 1;
        }
    }
    for (uint32_t k = 0; k < s->row->result_count; k++) {
        is_tied[s->row->result_begin + k] = 2;
    }
    for (stator_ref node = s->node + 1u; node <= v->n_nodes && !found; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        bool is_behind = false;
        for (uint32_t k = 0; k < row->operand_count; k++) {
            is_behind = is_behind || is_tied[stator_operand(v, row, k)] == 2;
        }
        found = !is_behind && is_as_long(v, row, s);
        for (uint32_t k = 0; k < row->result_count && is_behind; k++) {
            is_tied[row->result_begin + k] = 2;
        }
    }
    memset(is_tied, 0, v->n_values + 1u);
    return found;
}

/* 0: a scan that stays as it is. */
static bool describe_scan(scan_mover *w, stator_ref node, scan_desc *s)
{
    const stator_graph_view *v = w->copy->v;
    const stator_node_row *row = stator_node_at(v, node);
    *s = (scan_desc){.node = node, .row = row};
    if (row->op != STATOR_OPCODE_scan || row->operand_count > OPERANDS_MAX) {
        return false;
    }
    s->carried = (uint32_t)stator_attr_at(v, row, STATOR_scan_carried)->i;
    s->scanned = (uint32_t)stator_attr_at(v, row, STATOR_scan_scanned)->i;
    s->stacked = row->result_count - s->carried;
    s->n_captured = row->operand_count - s->carried - s->scanned;
    s->body = stator_region_at(v, row, 0);
    if (s->scanned == 0) {
        return false;
    }
    const stator_type_row *first = stator_value_type(v, stator_operand(v, row, s->carried));
    s->length = stator_dim_at(v, first, 0);
    int64_t length = 0;
    const bool is_known = stator_sym_is_const(v, s->length, &length);
    if ((is_known && length == 0) || !is_even(v, s)) { /* without steps there are no rows */
        return false;
    }
    measure_body(s);
    s->has_sibling = has_sibling(w, s);
    return true;
}

/* ---- which nodes ---- */

/* May the product be done a step at a time? Its work is the body's then. */
static bool may_step(const stator_graph_view *v, scan_desc *s, stator_ref node)
{
    const stator_node_row *row = stator_node_at(v, node);
    uint64_t macs = 0;
    uint64_t bytes = 0;
    if (!is_dot(v, node)) {
        return true;
    }
    dot_work(v, row, 1, &macs, &bytes);
    const uint64_t weights = numel(v, stator_operand(v, row, 1), 0);
    if (macs == 0 || bytes == 0 || macs / weights < ROWS_MIN ||
        s->body_bytes + bytes > CACHED_BYTES ||
        (!s->has_sibling && macs > s->body_macs / SMALL_PART)) {
        return false;
    }
    s->body_bytes += bytes;
    return true;
}

/* A constant or views of one: the body makes it itself. */
static bool is_made_inside(const stator_graph_view *v, stator_ref value, uint32_t depth)
{
    const stator_ref node = stator_value_at(v, value)->node;
    if (node == 0) {
        return false;
    }
    const stator_node_row *row = stator_node_at(v, node);
    const uint64_t flags = stator_op_at(v, row->op)->flags;
    return (flags & STATOR_OP_CONSTANT) != 0 ||
           ((flags & STATOR_OP_VIEW) != 0 && row->operand_count == 1 && depth < DEPTH_MAX &&
            is_made_inside(v, stator_operand(v, row, 0), depth + 1u));
}

/* Is it there before the scan, or made inside? */
static bool is_early(const stator_graph_view *v, const scan_desc *s, stator_ref value)
{
    return stator_value_at(v, value)->node < s->node || is_made_inside(v, value, 0);
}

/* From the scan backwards. 1: nodes move, and what is scanned then is smaller. */
static bool find_makers(scan_mover *w, scan_desc *s)
{
    const stator_graph_view *v = w->copy->v;
    uint64_t before = 0;
    uint64_t after = 0;
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->scanned; k++) {
        const stator_ref value = stator_operand(v, s->row, s->carried + k);
        before += w->taken[value] ? 0 : row_bytes(v, value);
        w->taken[value]++;
    }
    for (stator_ref node = s->node; node-- > 1;) {
        const stator_node_row *row = stator_node_at(v, node);
        const stator_ref value = row->result_begin;
        uint64_t timed = 0;
        if (row->result_count != 1 || w->taken[value] == 0 || w->moves[node] ||
            (w->taken[value] != w->uses[value] && !st_row_is_move(v, node)) ||
            !st_row_is(v, node, s->length, &timed) || numel(v, value, 1) == 0 ||
            !may_step(v, s, node)) {
            continue;
        }
        w->moves[node] = 1;
        n++;
        for (uint32_t k = 0; k < row->operand_count; k++) {
            w->taken[stator_operand(v, row, k)] += (uint32_t)(timed >> k & 1u);
        }
    }
    for (stator_ref value = 1; value < s->row->result_begin; value++) {
        const stator_ref node = stator_value_at(v, value)->node;
        if (w->taken[value] && (node == 0 || w->moves[node] != 1)) {
            const uint64_t bytes = row_bytes(v, value);
            if (bytes == 0) {
                return false; /* not known */
            }
            after += bytes;
        }
    }
    return n > 0 && after > 0 && after < before;
}

/* Rows of operands are moved values, the rest is there before the scan? */
static bool is_user(scan_mover *w, const scan_desc *s, stator_ref node)
{
    const stator_graph_view *v = w->copy->v;
    const stator_node_row *row = stator_node_at(v, node);
    uint64_t timed = 0;
    if (!st_row_is(v, node, s->length, &timed) || numel(v, row->result_begin, 1) == 0) {
        return false;
    }
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(v, row, k);
        if (timed >> k & 1u ? w->marks[value] != MARK_ROW : value != 0 && !is_early(v, s, value)) {
            return false;
        }
    }
    return timed != 0;
}

/* From the scan forwards. 1: nodes move, and what is stacked then is smaller. */
static bool find_users(scan_mover *w, scan_desc *s)
{
    const stator_graph_view *v = w->copy->v;
    uint64_t before = 0;
    uint64_t after = 0;
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->stacked; k++) {
        w->marks[s->row->result_begin + s->carried + k] = MARK_ROW;
        before += row_bytes(v, s->row->result_begin + s->carried + k);
    }
    for (stator_ref node = s->node + 1u; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        if (!is_user(w, s, node) || !may_step(v, s, node)) {
            continue;
        }
        w->moves[node] = 1;
        w->marks[row->result_begin] = MARK_ROW;
        n++;
        for (uint32_t k = 0; k < row->operand_count; k++) {
            w->taken[stator_operand(v, row, k)]++;
        }
    }
    for (stator_ref value = s->row->result_begin; value <= v->n_values; value++) {
        after += w->marks[value] == MARK_ROW && w->taken[value] < w->uses[value]
                     ? row_bytes(v, value)
                     : 0;
    }
    return n > 0 && after < before;
}

/* Nodes [first, last] stay where they are. */
static void stay(scan_mover *w, stator_ref first, stator_ref last)
{
    for (stator_ref node = first; node <= last; node++) {
        w->moves[node] = w->moves[node] == 1 ? 0 : w->moves[node];
    }
}

/* ---- operands of the new scan ---- */

static bool add_once(stator_ref *list, uint32_t *n, stator_ref value)
{
    for (uint32_t i = 0; i < *n; i++) {
        if (list[i] == value) {
            return true;
        }
    }
    if (*n == OPERANDS_MAX) {
        return false;
    }
    list[(*n)++] = value;
    return true;
}

/* Lists the operands of a node that moves: rows that nothing moved makes, and values that it has
 * whole. */
static bool add_reads(scan_mover *w, scan_desc *s, stator_ref node)
{
    const stator_graph_view *v = w->copy->v;
    const stator_node_row *row = stator_node_at(v, node);
    uint64_t timed = 0;
    bool is_ok = st_row_is(v, node, s->length, &timed);
    for (uint32_t k = 0; k < row->operand_count && is_ok; k++) {
        const stator_ref value = stator_operand(v, row, k);
        const stator_ref from = value ? stator_value_at(v, value)->node : 0;
        if (value == 0 || from == s->node || (from && w->moves[from] == 1)) {
            continue;
        }
        if (timed >> k & 1u) {
            is_ok = add_once(s->rows, &s->n_rows, value);
        } else if (!is_made_inside(v, value, 0)) {
            is_ok = add_once(s->whole, &s->n_whole, value);
        }
    }
    return is_ok;
}

/* Is the body given this value, or what it makes it from, by its rows? */
static bool is_by_row(const scan_mover *w, const scan_desc *s, stator_ref value)
{
    const stator_graph_view *v = w->copy->v;
    while (value) {
        const stator_ref node = stator_value_at(v, value)->node;
        for (uint32_t i = 0; i < s->n_rows; i++) {
            if (s->rows[i] == value) {
                return true;
            }
        }
        if (node && w->moves[node] == 1) {
            return true;
        }
        const stator_node_row *row = node ? stator_node_at(v, node) : NULL;
        const bool goes_on = row && row->operand_count && is_made_inside(v, value, 0);
        value = goes_on ? stator_operand(v, row, 0) : 0;
    }
    return false;
}

/* Does a node that moves read something whole that the body has by rows? One value cannot be both.
 */
static bool reads_both(const scan_mover *w, const scan_desc *s, stator_ref node)
{
    const stator_graph_view *v = w->copy->v;
    const stator_node_row *row = stator_node_at(v, node);
    uint64_t timed = 0;
    bool is_both = !st_row_is(v, node, s->length, &timed);
    for (uint32_t k = 0; k < row->operand_count && !is_both; k++) {
        is_both = !(timed >> k & 1u) && is_by_row(w, s, stator_operand(v, row, k));
    }
    return is_both;
}

/* 0: too many, or not possible. */
static bool list_operands(scan_mover *w, scan_desc *s)
{
    const stator_graph_view *v = w->copy->v;
    bool is_ok = true;
    for (uint32_t k = 0; k < s->scanned && is_ok; k++) {
        const stator_ref value = stator_operand(v, s->row, s->carried + k);
        const stator_ref from = stator_value_at(v, value)->node;
        is_ok = (from && w->moves[from] == 1) || add_once(s->rows, &s->n_rows, value);
    }
    for (stator_ref node = 1; node <= v->n_nodes && is_ok; node++) {
        is_ok = w->moves[node] != 1 || add_reads(w, s, node);
    }
    for (stator_ref node = 1; node <= v->n_nodes && is_ok; node++) {
        is_ok = w->moves[node] != 1 || !reads_both(w, s, node);
    }
    for (uint32_t k = 0; k < s->stacked && is_ok; k++) {
        const stator_ref value = s->row->result_begin + s->carried + k;
        is_ok = w->taken[value] == w->uses[value] || add_once(s->out, &s->n_out, value);
    }
    for (stator_ref node = s->node + 1u; node <= v->n_nodes && is_ok; node++) {
        const stator_ref value = stator_node_at(v, node)->result_begin;
        is_ok = w->moves[node] != 1 || w->taken[value] == w->uses[value] ||
                add_once(s->out, &s->n_out, value);
    }
    return is_ok && s->n_rows > 0 && s->carried + s->n_out <= OPERANDS_MAX &&
           s->carried + s->n_rows + s->n_captured + s->n_whole <= OPERANDS_MAX;
}

/* ---- the new body ---- */

static void add_inputs(scan_mover *w, const scan_desc *s, stator_ref *inner)
{
    stator_emitter *e = &w->copy->e;
    const stator_graph_view *v = w->copy->v;
    const stator_graph_view *body = st_graph_view(s->body);
    for (uint32_t k = 0; k < s->carried; k++) {
        inner[k + 1u] = stator_emit_input(e, "", stator_value_at(body, k + 1u)->type);
    }
    for (uint32_t k = 0; k < s->n_rows; k++) {
        w->into[s->rows[k]] = stator_emit_input(e, "", st_row_type(e->b, v, s->rows[k]));
    }
    for (uint32_t k = 0; k < s->n_captured; k++) {
        const stator_ref input = s->carried + s->scanned + k + 1u;
        inner[input] = stator_emit_input(e, "", stator_value_at(body, input)->type);
    }
    for (uint32_t k = 0; k < s->n_whole; k++) {
        w->into[s->whole[k]] = stator_emit_input(e, "", stator_value_at(v, s->whole[k])->type);
    }
}

/* A copy stands for no value of the imported graph. */
static void forget_witness(stator_builder *b, stator_ref value)
{
    ((stator_value_row *)st_seg_at(&b->graph->values, value))->witness = 0;
}

/* A constant, or views of one (is_made_inside), inside the body. */
static void make_inside(scan_mover *w, stator_ref value)
{
    stator_emitter *e = &w->copy->e;
    const stator_graph_view *v = w->copy->v;
    stator_ref chain[DEPTH_MAX + 2u];
    uint32_t n = 0;
    while (value && w->into[value] == 0 && n < DEPTH_MAX + 2u) {
        const stator_ref node = stator_value_at(v, value)->node;
        const stator_node_row *row = stator_node_at(v, node);
        chain[n++] = node;
        value = row->operand_count ? stator_operand(v, row, 0) : 0;
    }
    while (n > 0 && e->status == STATOR_OK) {
        const stator_node_row *row = stator_node_at(v, chain[--n]);
        e->status = st_build_clone_node(e->b, w->copy->in, chain[n], NULL, w->into, e->err);
        forget_witness(e->b, w->into[row->result_begin]);
    }
}

static void move_node(scan_mover *w, const scan_desc *s, stator_ref node)
{
    const stator_graph_view *v = w->copy->v;
    const stator_node_row *row = stator_node_at(v, node);
    st_row r = {.v = v, .node = node};
    if (!st_row_is(v, node, s->length, &r.timed)) {
        stator_emit_fail(&w->copy->e, STATOR_INTERNAL, "move_into_scan: a node that has no rows");
        return;
    }
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(v, row, k);
        if (value && w->into[value] == 0) {
            make_inside(w, value);
        }
        r.operands[k] = value ? w->into[value] : 0;
    }
    w->into[row->result_begin] = st_row_build(&w->copy->e, &r, &w->copy->arena);
}

static void move_nodes(scan_mover *w, const scan_desc *s, stator_ref first, stator_ref last)
{
    for (stator_ref node = first; node <= last; node++) {
        if (w->moves[node] == 1) {
            move_node(w, s, node);
        }
    }
}

static void write_body(scan_mover *w, const scan_desc *s, stator_ref *inner)
{
    stator_emitter *e = &w->copy->e;
    const stator_graph_view *v = w->copy->v;
    const stator_graph_view *body = st_graph_view(s->body);
    add_inputs(w, s, inner);
    move_nodes(w, s, 1, s->node - 1u);
    for (uint32_t k = 0; k < s->scanned; k++) {
        inner[s->carried + k + 1u] = w->into[stator_operand(v, s->row, s->carried + k)];
    }
    stator_emit_clone(e, s->body, 1, body->n_nodes, inner);
    for (uint32_t k = 0; k < s->row->result_count; k++) {
        w->into[s->row->result_begin + k] = inner[stator_output_at(body, k)];
    }
    move_nodes(w, s, s->node + 1u, v->n_nodes);
    for (uint32_t k = 0; k < s->carried; k++) {
        stator_emit_output(e, "", w->into[s->row->result_begin + k]);
    }
    for (uint32_t k = 0; k < s->n_out; k++) {
        stator_emit_output(e, "", w->into[s->out[k]]);
    }
}

/* NULL after a failure. */
static stator_graph *make_region(scan_mover *w, const scan_desc *s)
{
    st_copy *c = w->copy;
    stator_ref *inner = st_copy_zalloc(c, st_graph_view(s->body)->n_values, sizeof *inner);
    stator_builder *around =
        stator_emit_region_begin(&c->e, st_module_str(s->body->module, s->body->name));
    if (around != NULL) {
        memset(w->into, 0, (c->v->n_values + 1u) * sizeof *w->into);
        write_body(w, s, inner);
    }
    return stator_emit_region_end(&c->e, around);
}

/* ---- the new scan ---- */

/* Constants that stand behind the scan and are captured by what moved are made inside, so operands
 * are all there. */
static void list_values(const scan_mover *w, const scan_desc *s, stator_ref *out)
{
    const stator_ref *map = w->copy->map;
    const stator_graph_view *v = w->copy->v;
    for (uint32_t k = 0; k < s->carried; k++) {
        *out++ = map[stator_operand(v, s->row, k)];
    }
    for (uint32_t k = 0; k < s->n_rows; k++) {
        *out++ = map[s->rows[k]];
    }
    for (uint32_t k = 0; k < s->n_captured; k++) {
        *out++ = map[stator_operand(v, s->row, s->carried + s->scanned + k)];
    }
    for (uint32_t k = 0; k < s->n_whole; k++) {
        *out++ = map[s->whole[k]];
    }
}

static void build_scan(scan_mover *w, const scan_desc *s, stator_graph *region, stator_ref *out)
{
    stator_ref operands[OPERANDS_MAX];
    int64_t flags[OPERANDS_MAX];
    for (uint32_t i = 0; i < OPERANDS_MAX; i++) {
        flags[i] = s->is_reversed;
    }
    list_values(w, s, operands);
    st_build_set_origin_ref(w->copy->out, s->row->origin);
    stator_emit_node(
        &w->copy->e, "scan", s->carried + s->n_rows + s->n_captured + s->n_whole, operands,
        STATOR_AT(STATOR_A_INT("carried", s->carried), STATOR_A_INT("scanned", s->n_rows),
                  STATOR_A_INT("stacked", s->n_out), STATOR_A_INTS("reverse", s->n_rows, flags),
                  STATOR_A_INTS("out_reverse", s->n_out, flags)),
        1, &region, s->carried + s->n_out, out);
}

static void rewrite(scan_mover *w, const scan_desc *s)
{
    stator_ref results[OPERANDS_MAX];
    build_scan(w, s, make_region(w, s), results);
    for (uint32_t k = 0; k < s->carried; k++) {
        st_copy_replace(w->copy, s->row->result_begin + k, results[k]);
    }
    for (uint32_t k = 0; k < s->n_out; k++) {
        st_copy_replace(w->copy, s->out[k], results[s->carried + k]);
    }
    for (stator_ref node = s->node + 1u; node <= w->copy->v->n_nodes; node++) {
        w->moves[node] = w->moves[node] == 1 ? 2 : w->moves[node];
    }
}

/* ---- the pass ---- */

/* Keeps the nodes behind the scan in place: only makers of slices move. */
static void leave_users(scan_mover *w, const scan_desc *s)
{
    const stator_ref first = s->row->result_begin;
    stay(w, s->node + 1u, w->copy->v->n_nodes);
    memset(w->taken + first, 0, (w->copy->v->n_values + 1u - first) * sizeof *w->taken);
}

/* Lists the makers of slices alone, when the users of the results stood in the way. */
static bool list_makers(scan_mover *w, scan_desc *s)
{
    leave_users(w, s);
    s->n_rows = 0;
    s->n_whole = 0;
    s->n_out = 0;
    return list_operands(w, s);
}

static void visit(void *self, stator_ref node)
{
    scan_mover *w = self;
    scan_desc s;
    const stator_graph_view *v = w->copy->v;
    if (w->moves[node] == 2) {
        return;
    }
    if (!describe_scan(w, node, &s)) {
        st_copy_node(w->copy, node);
        return;
    }
    memset(w->taken, 0, (v->n_values + 1u) * sizeof *w->taken);
    const uint64_t held = s.body_bytes;
    const bool has_makers = find_makers(w, &s);
    if (!has_makers) {
        stay(w, 1, node - 1u);
        s.body_bytes = held;
    }
    const bool has_users = find_users(w, &s);
    if (!has_users) {
        leave_users(w, &s);
    }
    const bool is_possible =
        (has_makers || has_users) &&
        (list_operands(w, &s) || (has_makers && has_users && list_makers(w, &s)));
    if (is_possible && st_pass_may(w->copy->ctx, STATOR_FUEL_REWRITE, "move_into_scan", node)) {
        rewrite(w, &s);
    } else {
        st_copy_node(w->copy, node);
    }
    stay(w, 1, v->n_nodes);
}

void st_pass_move_into_scan(st_copy *c)
{
    const uint64_t n = c->v->n_values;
    scan_mover w = {.copy = c,
                    .uses = st_copy_count_uses(c, 1),
                    .taken = st_copy_zalloc(c, n, sizeof *w.taken),
                    .marks = st_copy_zalloc(c, n, 1),
                    .moves = st_copy_zalloc(c, c->v->n_nodes, 1),
                    .into = st_copy_zalloc(c, n, sizeof *w.into)};
    st_copy_nodes(c, visit, &w);
}
