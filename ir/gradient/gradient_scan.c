/* The gradient of scan: a scan that runs the other way.
 *
 *     s', ys = scan(s, xs, c)   with   s', y = f(s, x, c)   at iteration k = 0..n-1
 *
 * First the scan runs again and stacks the states that each iteration began with, and what else of
 * f is kept. Then, for k = n-1..0, f is differentiated in a body that carries the gradients of the
 * state, reads the saved values, the slices of xs and of the gradients of ys, and stacks the
 * gradients of the slices. The gradients of the captures are sums over the steps: of products and
 * of elements' sums they are formed behind the scan (step_sums.c), others are carried. Values that
 * are no floats are passed along without a gradient.
 *
 * Kept is what the gradient reads and a contraction, or control flow, has part in; the rest is
 * cheap and computed again by the body. To know what is read, a trial of the body computes all of
 * f. The scan that runs again is the one that is differentiated but for what it stacks, and the
 * pass merge_scans makes them one. */
#include "core/base/check.h"
#include "ir/builder.h"
#include "ir/gradient/gradient_rules.h"
#include "ir/gradient/step_sums.h"
#include "ir/recompute/kept.h"
#include <assert.h>
#include <stator/ops.h>
#include <string.h>

#define VALUES_MAX 64u           /* operands, and stacked results, of the scan */
#define PORTS_MAX ST_RESULTS_MAX /* operands, or results, of those that are written here */
_Static_assert(PORTS_MAX >= 3u * VALUES_MAX, "values that are kept have room beside the others");

typedef struct list {
    stator_ref at[PORTS_MAX];
    uint32_t n;
} list;

typedef struct flags {
    int64_t axes[PORTS_MAX], reverse[PORTS_MAX];
    uint32_t n;
} flags;

/* What a node `scan` is made of. */
typedef struct ports {
    list operands;
    flags in, out;
    uint32_t carried;
} ports;

typedef struct scan {
    const stator_graph *body;
    const stator_graph_view *v; /* view of body */
    const stator_ref *operands;
    const stator_attr *attrs;
    const stator_ref *out_grads;
    uint32_t n, carried, scanned, stacked;
    int64_t reverse; /* the order of what is saved, and of rows of sums: that of the slices */
    stator_emitter e;

    /* The trial: a step back that computes all of f. */
    const stator_graph *trial;
    const stator_graph_view *tv;
    stator_ref *map; /* body's values in the trial; captures are the last inputs */
    stator_ref last; /* node of the trial: the last of f */
    stator_ref seeds[2u * VALUES_MAX]; /* inputs of the trial: gradients of f's results, 0: none */
    stator_ref at[VALUES_MAX];         /* values of the trial: gradients of f's inputs, 0: none */

    list kept;     /* body's values */
    uint8_t *leaf; /* by value of the trial: it is kept */
    uint8_t *live; /* by value of the trial: the scan back needs it in its body */

    bool is_sum[VALUES_MAX]; /* the gradient of this capture is formed behind the scan */
    st_step_sums sums;

    /* Values of all steps around the scan. */
    stator_ref saved[PORTS_MAX];               /* states, 0: not needed; then kept values */
    stator_ref slice_grads[VALUES_MAX];        /* by input of the body */
    stator_ref stacked_rows[ST_STEP_ROWS_MAX]; /* by row of the sums: what is stacked for them */
} scan;

static void push(list *l, stator_ref value)
{
    assert(l->n < PORTS_MAX);
    l->at[l->n++] = value;
}

static int64_t entry(const scan *s, uint32_t attr, uint32_t i)
{
    const stator_attr *a = &s->attrs[attr];
    return i < a->count ? ((const int64_t *)a->list)[i] : 0;
}

static void push_flags(flags *f, int64_t axis, int64_t reverse)
{
    assert(f->n < PORTS_MAX);
    f->axes[f->n] = axis;
    f->reverse[f->n++] = reverse;
}

static bool is_float(const scan *s, stator_ref value)
{
    return st_dtype_class(stator_value_type(s->v, value)->dtype) == STATOR_CLASS_FLOAT;
}

/* Input i (from 0) of the body gets a gradient. */
static bool has_grad(const scan *s, uint32_t i)
{
    return is_float(s, i + 1u);
}

static stator_ref input_like(scan *s, stator_ref value)
{
    return stator_emit_input(&s->e, "", stator_value_at(s->v, value)->type);
}

static void scan_node(scan *s, const ports *p, stator_graph *body, stator_ref *results)
{
    stator_emit_node(&s->e, "scan", p->operands.n, p->operands.at,
                     STATOR_AT(STATOR_A_INT("carried", p->carried),
                               STATOR_A_INT("scanned", p->in.n), STATOR_A_INT("stacked", p->out.n),
                               STATOR_A_INTS("axes", p->in.n, p->in.axes),
                               STATOR_A_INTS("reverse", p->in.n, p->in.reverse),
                               STATOR_A_INTS("out_axes", p->out.n, p->out.axes),
                               STATOR_A_INTS("out_reverse", p->out.n, p->out.reverse)),
                     1, &body, p->carried + p->out.n, results);
}

/* ---- the trial ---- */

static void write_trial_inputs(scan *s)
{
    for (uint32_t i = 0; i < s->carried + s->stacked; i++) {
        if (i < s->carried ? has_grad(s, i) : s->out_grads[i] != 0) {
            s->seeds[i] = input_like(s, stator_output_at(s->v, i));
        }
    }
    for (uint32_t i = 0; i < s->n; i++) {
        s->map[i + 1u] = input_like(s, i + 1u);
    }
}

static void write_trial_gradients(scan *s)
{
    list seeds = {.n = 0}, ys = {.n = 0}, xs = {.n = 0};
    stator_ref grads[VALUES_MAX] = {0};
    for (uint32_t i = 0; i < s->carried + s->stacked; i++) {
        if (s->seeds[i] != 0) {
            push(&seeds, s->seeds[i]);
            push(&ys, s->map[stator_output_at(s->v, i)]);
        }
    }
    for (uint32_t i = 0; i < s->n; i++) {
        if (has_grad(s, i)) {
            push(&xs, s->map[i + 1u]);
        }
    }
    const st_gradient_request request = {
        .n_y = ys.n, .n_x = xs.n, .ys = ys.at, .seeds = seeds.at, .xs = xs.at};
    if (s->e.status == STATOR_OK) {
        stator_emit_check(&s->e, st_gradient_many(s->e.b, &request, grads, s->e.err));
    }
    for (uint32_t i = 0, n = 0; i < s->n; i++) {
        s->at[i] = has_grad(s, i) ? grads[n++] : 0;
    }
}

static void write_trial(scan *s)
{
    stator_builder *around = stator_emit_region_begin(&s->e, "back");
    write_trial_inputs(s);
    stator_emit_clone(&s->e, s->body, 1, s->v->n_nodes, s->map);
    if (s->e.status == STATOR_OK) {
        s->last = st_graph_view(s->e.b->graph)->n_nodes;
        write_trial_gradients(s);
    }
    s->trial = stator_emit_region_end(&s->e, around);
    s->tv = s->trial != NULL ? st_graph_view(s->trial) : NULL;
}

/* ---- what is kept ---- */

/* Marks f's values that a contraction or control flow has part in. */
static void mark_dear(const scan *s, uint8_t *dear)
{
    for (stator_ref node = 1; node <= s->last; node++) {
        const stator_node_row *row = stator_node_at(s->tv, node);
        const st_recompute cost = st_op_recompute(st_optable_at(s->trial->module->ops, row->op));
        uint8_t is_dear = cost == ST_RECOMPUTE_HEAVY || cost == ST_RECOMPUTE_NEVER;
        for (uint32_t k = 0; k < row->operand_count; k++) {
            is_dear |= dear[stator_operand(s->tv, row, k)];
        }
        memset(dear + row->result_begin, is_dear, row->result_count);
    }
}

static void mark_operands(const stator_graph_view *v, stator_ref node, uint8_t *live)
{
    const stator_node_row *row = stator_node_at(v, node);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        live[stator_operand(v, row, k)] = 1;
    }
}

static bool has_live(const stator_graph_view *v, stator_ref node, const uint8_t *live)
{
    const stator_node_row *row = stator_node_at(v, node);
    bool is_live = false;
    for (uint32_t k = 0; k < row->result_count; k++) {
        is_live |= live[row->result_begin + k] != 0;
    }
    return is_live;
}

/* Can a value of the trial be stacked, and as a type that every backend stores? */
static bool can_keep(const scan *s, stator_ref value)
{
    const stator_type_row *type = stator_value_type(s->tv, value);
    const stator_node_row *row = stator_node_at(s->tv, stator_value_at(s->tv, value)->node);
    const stator_dtype dtype = type->dtype;
    return (st_dtype_class(dtype) == STATOR_CLASS_FLOAT || dtype == STATOR_BOOL ||
            dtype == STATOR_I32 || dtype == STATOR_I64) &&
           type->rank < STATOR_RANK_MAX && !st_node_holds_unbacked(s->trial, row);
}

/* Lists the dear values of f that the gradient reads, as many as the scan back has room for beside
 * the gradients of states and captures, the states, slices and captures, and the gradients of what
 * is stacked: the others are computed again. `read` and `dear`: by value, zeroed. */
static void list_kept(scan *s, uint8_t *read, uint8_t *dear)
{
    const uint32_t room = PORTS_MAX - 2u * s->n - s->stacked;
    mark_dear(s, dear);
    for (uint32_t i = 0; i < s->n; i++) {
        read[s->at[i]] = 1;
    }
    for (stator_ref node = s->tv->n_nodes; node > s->last; node--) {
        if (has_live(s->tv, node, read)) {
            mark_operands(s->tv, node, read);
        }
    }
    for (stator_ref value = s->n + 1u; value <= s->v->n_values; value++) {
        const stator_ref inner = s->map[value];
        if (read[inner] && dear[inner] && s->kept.n < room && can_keep(s, inner)) {
            push(&s->kept, value);
        }
    }
}

/* ---- sums behind the scan ---- */

/* Rows of slice or stacked result k of the scan, where they have the order of the sums. */
static void add_rows(scan *s, stator_ref inner, const stator_ref *outer, uint32_t k, bool is_out)
{
    const uint32_t axes = is_out ? STATOR_scan_out_axes : STATOR_scan_axes;
    const uint32_t reverse = is_out ? STATOR_scan_out_reverse : STATOR_scan_reverse;
    if (inner != 0 && !entry(s, reverse, k) == !s->reverse) {
        const uint32_t rank = stator_value_type(s->tv, inner)->rank + 1u;
        const int64_t axis = st_normalize_axis(entry(s, axes, k), rank);
        st_step_sums_add(&s->sums, inner, outer, (uint32_t)axis);
    }
}

/* What all steps have in the order of the slices. */
static void list_rows(scan *s)
{
    for (uint32_t i = 0; i < s->carried; i++) {
        st_step_sums_add(&s->sums, s->map[i + 1u], &s->saved[i], 0);
    }
    for (uint32_t i = 0; i < s->kept.n; i++) {
        st_step_sums_add(&s->sums, s->map[s->kept.at[i]], &s->saved[s->carried + i], 0);
    }
    for (uint32_t k = 0; k < s->scanned; k++) {
        const uint32_t i = s->carried + k;
        add_rows(s, s->map[i + 1u], &s->operands[i], k, false);
        add_rows(s, s->at[i], &s->slice_grads[i], k, false);
    }
    for (uint32_t k = 0; k < s->stacked; k++) {
        add_rows(s, s->seeds[s->carried + k], &s->out_grads[s->carried + k], k, true);
    }
}

/* Decides which gradients of captures are formed behind the scan. Their rows are what is there
 * already, the gradients of the slices, and what the scan stacks for them. */
static void plan_sums(scan *s)
{
    const uint32_t captures = s->carried + s->scanned;
    s->sums.room = PORTS_MAX - s->n; /* beside the gradients of all operands */
    list_rows(s);
    for (uint32_t i = captures; i < s->n; i++) {
        s->is_sum[i] = s->at[i] != 0 && st_step_sums_can(&s->sums, s->at[i]);
    }
}

/* ---- what the scan back needs ---- */

/* Does a result of the node have to be computed in the scan back? */
static bool is_computed(const scan *s, stator_ref node)
{
    const stator_node_row *row = stator_node_at(s->tv, node);
    bool is_live = false;
    for (uint32_t k = 0; k < row->result_count; k++) {
        is_live |= s->live[row->result_begin + k] && !s->leaf[row->result_begin + k];
    }
    return is_live;
}

/* A slice is always there: it says how many steps there are. */
static void mark_live(scan *s)
{
    s->live[s->map[s->carried + 1u]] = 1;
    for (uint32_t i = 0; i < s->kept.n; i++) {
        s->leaf[s->map[s->kept.at[i]]] = 1;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        s->live[s->at[i]] |= !s->is_sum[i];
    }
    for (uint32_t i = 0; i < s->sums.n; i++) {
        s->live[s->sums.rows[i].inner] |= s->sums.rows[i].outer == NULL;
    }
    for (stator_ref node = s->tv->n_nodes; node > 0; node--) {
        if (is_computed(s, node)) {
            mark_operands(s->tv, node, s->live);
        }
    }
}

/* ---- the scan that runs again ---- */

static bool is_saved(const scan *s, uint32_t state)
{
    bool is_read = s->live[s->map[state + 1u]] != 0;
    for (uint32_t i = 0; i < s->sums.n; i++) {
        is_read |= s->sums.rows[i].is_read && s->sums.rows[i].outer == &s->saved[state];
    }
    return is_read;
}

static stator_graph *saving_body(scan *s, stator_ref *map)
{
    stator_builder *around = stator_emit_region_begin(&s->e, "states");
    if (around != NULL) {
        stator_emit_check(&s->e, st_build_clone_inputs(s->e.b, s->body, map, s->e.err));
    }
    stator_emit_clone(&s->e, s->body, 1, s->v->n_nodes, map);
    for (uint32_t i = 0; i < s->carried; i++) {
        stator_emit_output(&s->e, "", map[stator_output_at(s->v, i)]);
    }
    for (uint32_t i = 0; i < s->carried; i++) {
        if (is_saved(s, i)) {
            stator_emit_output(&s->e, "", map[i + 1u]);
        }
    }
    for (uint32_t i = 0; i < s->kept.n; i++) {
        stator_emit_output(&s->e, "", map[s->kept.at[i]]);
    }
    return stator_emit_region_end(&s->e, around);
}

/* `map`: by value of the body, zeroed. */
static void save_values(scan *s, stator_ref *map)
{
    stator_ref results[PORTS_MAX];
    ports p = {.carried = s->carried};
    stator_ref *next = results + s->carried;
    for (uint32_t i = 0; i < s->n; i++) {
        push(&p.operands, s->operands[i]);
    }
    for (uint32_t i = 0; i < s->scanned; i++) {
        push_flags(&p.in, entry(s, STATOR_scan_axes, i), entry(s, STATOR_scan_reverse, i));
    }
    for (uint32_t i = 0; i < s->carried + s->kept.n; i++) {
        if (i >= s->carried || is_saved(s, i)) {
            push_flags(&p.out, 0, s->reverse);
        }
    }
    if (p.out.n == 0) {
        return;
    }
    scan_node(s, &p, saving_body(s, map), results);
    for (uint32_t i = 0; i < s->carried + s->kept.n; i++) {
        s->saved[i] = i >= s->carried || is_saved(s, i) ? *next++ : 0;
    }
}

/* ---- the scan back ---- */

/* The first values of the gradients that are carried: of the states, and of captures. */
static void push_carried(scan *s, ports *p)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const bool is_state = i < s->carried;
        if (s->at[i] == 0 || (!is_state && (i < s->carried + s->scanned || s->is_sum[i]))) {
            continue;
        }
        push(&p->operands, is_state && s->out_grads[i] != 0
                               ? s->out_grads[i]
                               : stator_emit_expr(&s->e, "zeros_like(x)", "x",
                                                  STATOR_IN(s->operands[i]), STATOR_NONE));
    }
    p->carried = p->operands.n;
}

/* An input of the body for the trial's value `inner`, where it is needed. */
static void read_rows(scan *s, ports *p, stator_ref *to, stator_ref inner, stator_ref outer)
{
    to[inner] = stator_emit_input(&s->e, "", stator_value_at(s->tv, inner)->type);
    push(&p->operands, outer);
}

/* Gradients of the states, sums of those of captures (in `sums`); slices of what is saved, of the
 * operands and of the gradients of what was stacked; captures. `to`: the trial's values in the
 * body. */
static void write_inputs(scan *s, ports *p, stator_ref *to, list *sums)
{
    const uint32_t captures = s->carried + s->scanned;
    for (uint32_t i = 0; i < s->carried; i++) {
        if (s->at[i] != 0) {
            to[s->seeds[i]] = input_like(s, stator_output_at(s->v, i));
        }
    }
    for (uint32_t i = captures; i < s->n; i++) {
        if (s->at[i] != 0 && !s->is_sum[i]) {
            push(sums, input_like(s, i + 1u));
        }
    }
    for (uint32_t i = 0; i < s->carried + s->kept.n; i++) {
        const stator_ref inner = s->map[i < s->carried ? i + 1u : s->kept.at[i - s->carried]];
        if (s->live[inner]) {
            read_rows(s, p, to, inner, s->saved[i]);
            push_flags(&p->in, 0, !s->reverse);
        }
    }
    for (uint32_t k = 0; k < s->scanned; k++) {
        const stator_ref inner = s->map[s->carried + k + 1u];
        if (s->live[inner]) {
            read_rows(s, p, to, inner, s->operands[s->carried + k]);
            push_flags(&p->in, entry(s, STATOR_scan_axes, k), !entry(s, STATOR_scan_reverse, k));
        }
    }
    for (uint32_t k = 0; k < s->stacked; k++) {
        const stator_ref inner = s->seeds[s->carried + k];
        if (inner != 0 && s->live[inner]) {
            read_rows(s, p, to, inner, s->out_grads[s->carried + k]);
            push_flags(&p->in, entry(s, STATOR_scan_out_axes, k),
                       !entry(s, STATOR_scan_out_reverse, k));
        }
    }
    for (uint32_t i = captures; i < s->n; i++) {
        if (s->live[s->map[i + 1u]]) {
            read_rows(s, p, to, s->map[i + 1u], s->operands[i]);
        }
    }
}

static void write_outputs(scan *s, ports *p, const stator_ref *to, const list *sums)
{
    const uint32_t captures = s->carried + s->scanned;
    for (uint32_t i = 0; i < s->carried; i++) {
        if (s->at[i] != 0) {
            stator_emit_output(&s->e, "", to[s->at[i]]);
        }
    }
    for (uint32_t i = captures, n = 0; i < s->n; i++) {
        if (s->at[i] != 0 && !s->is_sum[i]) {
            stator_emit_output(&s->e, "",
                               stator_emit_binary(&s->e, "add", sums->at[n++], to[s->at[i]]));
        }
    }
    for (uint32_t k = 0; k < s->scanned; k++) {
        if (s->at[s->carried + k] != 0) {
            stator_emit_output(&s->e, "", to[s->at[s->carried + k]]);
            push_flags(&p->out, entry(s, STATOR_scan_axes, k), !entry(s, STATOR_scan_reverse, k));
        }
    }
    for (uint32_t i = 0; i < s->sums.n; i++) {
        if (s->sums.rows[i].outer == NULL) {
            stator_emit_output(&s->e, "", to[s->sums.rows[i].inner]);
            push_flags(&p->out, 0, !s->reverse);
        }
    }
}

/* `to`: by value of the trial, zeroed. */
static stator_graph *back_body(scan *s, ports *p, stator_ref *to)
{
    list sums = {.n = 0};
    stator_builder *around = stator_emit_region_begin(&s->e, "back");
    write_inputs(s, p, to, &sums);
    for (stator_ref node = 1; node <= s->tv->n_nodes; node++) {
        if (is_computed(s, node)) {
            stator_emit_clone(&s->e, s->trial, node, node, to);
        }
    }
    write_outputs(s, p, to, &sums);
    return stator_emit_region_end(&s->e, around);
}

/* `to`: by value of the trial, zeroed. */
static void go_back(scan *s, stator_ref *to, stator_ref *in_grads)
{
    const uint32_t captures = s->carried + s->scanned;
    stator_ref results[PORTS_MAX];
    const stator_ref *next = results;
    ports p = {.carried = 0};
    push_carried(s, &p);
    stator_graph *body = back_body(s, &p, to);
    scan_node(s, &p, body, results);
    for (uint32_t i = 0; i < s->n; i++) {
        in_grads[i] = i < s->carried && s->at[i] != 0 ? *next++ : 0;
    }
    for (uint32_t i = captures; i < s->n; i++) {
        in_grads[i] = s->at[i] != 0 && !s->is_sum[i] ? *next++ : 0;
    }
    for (uint32_t i = s->carried; i < captures; i++) {
        in_grads[i] = s->slice_grads[i] = s->at[i] != 0 ? *next++ : 0;
    }
    for (uint32_t i = 0; i < s->sums.n; i++) {
        if (s->sums.rows[i].outer == NULL) {
            s->stacked_rows[i] = *next++;
            s->sums.rows[i].outer = &s->stacked_rows[i];
        }
    }
    for (uint32_t i = captures; i < s->n && s->e.status == STATOR_OK; i++) {
        in_grads[i] = s->is_sum[i] ? st_step_sums_emit(&s->sums, &s->e, s->at[i]) : in_grads[i];
    }
}

/* ---- all of it ---- */

/* Zeroed elements 0..last; NULL after a failure. */
static void *zeroed(scan *s, st_arena *arena, uint64_t last, uint64_t size)
{
    void *made = s->e.status == STATOR_OK ? st_arena_zalloc(arena, last + 1u, size) : NULL;
    if (made == NULL) {
        stator_emit_check(&s->e, st_fail_oom(s->e.err));
    }
    return made;
}

static void differentiate(scan *s, st_arena *arena, stator_ref *in_grads)
{
    write_trial(s);
    if (s->e.status != STATOR_OK) {
        return;
    }
    const uint64_t n = s->tv->n_values;
    uint8_t *read = zeroed(s, arena, n, 1), *dear = zeroed(s, arena, n, 1);
    stator_ref *again = zeroed(s, arena, s->v->n_values, sizeof *again);
    stator_ref *to = zeroed(s, arena, n, sizeof *to);
    s->leaf = zeroed(s, arena, n, 1);
    s->live = zeroed(s, arena, n, 1);
    s->sums.map = zeroed(s, arena, n, sizeof *s->sums.map);
    s->sums.step = s->trial;
    s->sums.n_changing = s->map[s->carried + s->scanned];
    if (s->e.status != STATOR_OK) {
        return;
    }
    list_kept(s, read, dear);
    plan_sums(s);
    mark_live(s);
    save_values(s, again);
    go_back(s, to, in_grads);
}

/* The origin says where the node is from, its first result which one it is of a graph as text. */
static void check_counts(scan *s, const stator_ref *results)
{
    const stator_graph_view *v = st_graph_view(s->e.b->graph);
    const char *name = stator_string_at(v, stator_value_at(v, results[0])->name);
    if (s->n > VALUES_MAX || s->stacked > VALUES_MAX) {
        stator_emit_fail(&s->e, STATOR_UNSUPPORTED,
                         "scan%s%s has %u operands and %u stacked results, and a gradient is made "
                         "of at most %u of either",
                         name[0] != '\0' ? " %" : "", name, s->n, s->stacked, VALUES_MAX);
    }
}

stator_status st_grad_scan(stator_builder *b, const st_gradient_node *v, stator_ref *in_grads,
                           stator_diag **err)
{
    const st_decompose_node *node = v->of;
    st_arena arena;
    st_arena_init(&arena, b->module->mem);
    scan *s = st_arena_zalloc(&arena, 1, sizeof *s);
    stator_status status = s != NULL ? STATOR_OK : st_fail_oom(err);
    if (s == NULL) {
        goto done;
    }
    s->body = node->regions[0];
    s->v = st_graph_view(s->body);
    s->operands = node->operands;
    s->attrs = node->attrs;
    s->out_grads = v->grads;
    s->n = node->n_operands;
    s->carried = (uint32_t)node->attrs[STATOR_scan_carried].i;
    s->scanned = (uint32_t)node->attrs[STATOR_scan_scanned].i;
    s->stacked = (uint32_t)node->attrs[STATOR_scan_stacked].i;
    s->reverse = entry(s, STATOR_scan_reverse, 0) != 0;
    s->e = st_op_emitter(b, err);
    s->map = zeroed(s, &arena, s->v->n_values, sizeof *s->map);
    check_counts(s, v->results);
    if (s->e.status == STATOR_OK) {
        differentiate(s, &arena, in_grads);
    }
    status = s->e.status;
done:
    st_arena_deinit(&arena);
    return status;
}
