/* The rules of rules.def that need more than a pattern. Each looks at a matched node and sets
 * m->out, or returns 0; what it built is dropped then. All are exact, see rules.def. */
#include "core/base/check.h"
#include "ir/builder.h"
#include "ir/passes/rewrite_rules.h"
#include <stator/ops.h>

static stator_ref result_type(const st_match *m, uint32_t k)
{
    return stator_value_at(m->copy->v, m->row->result_begin + k)->type;
}

static stator_ref type_of(const st_match *m, stator_ref value)
{
    return stator_value_at(st_graph_view(m->b->graph), value)->type;
}

/* The node that makes an out-value, NULL for an input. */
static const stator_node_row *producer(const st_match *m, stator_ref value)
{
    const stator_ref node = stator_value_at(m->v, value)->node;
    return node != 0 ? stator_node_at(m->v, node) : NULL;
}

static const stator_attr_row *attr_of(const st_match *m, const stator_node_row *row, uint32_t place)
{
    return stator_attr_at(m->v, row, place);
}

/* Are all elements of a DIMS or INTS attribute this integer? */
static bool all_equal(const st_match *m, const stator_attr_row *list, int64_t wanted)
{
    for (uint32_t i = 0; i < list->count; i++) {
        int64_t x = 0;
        if (list->kind == STATOR_ATTR_INTS) {
            x = stator_attr_int_at(m->v, list, i);
        } else if (!stator_sym_is_const(m->v, stator_ref_at(m->v, list->begin + i), &x)) {
            return false;
        }
        if (x != wanted) {
            return false;
        }
    }
    return true;
}

/* A node like the matched one over other operands, with results of these types: the first
 * result. */
static stator_ref build_like(st_match *m, const stator_ref *operands, const stator_ref *types)
{
    const stator_ref first = m->b->graph->values.count;
    m->e->status = st_build_raw_node(m->b, m->row, operands, NULL, NULL, types, m->e->err);
    return first;
}

/* The same node over other operands. */
static bool rebuild(st_match *m, const stator_ref *operands)
{
    stator_ref types[ST_RULE_RESULTS];
    for (uint32_t k = 0; k < m->row->result_count; k++) {
        types[k] = result_type(m, k);
    }
    const stator_ref first = build_like(m, operands, types);
    for (uint32_t k = 0; k < m->row->result_count; k++) {
        m->out[k] = first + k;
    }
    return true;
}

/* ---- by flags ---- */

/* f(f(x)) = x */
bool st_rule_involution(st_match *m)
{
    const stator_node_row *inner = m->row->operand_count == 1 ? producer(m, m->operands[0]) : NULL;
    if (inner == NULL || inner->op != m->row->op || inner->attr_count != 0) {
        return false;
    }
    m->out[0] = stator_operand(m->v, inner, 0);
    return true;
}

/* f(f(x)) = f(x);  f(x, x) = x */
bool st_rule_idempotent(st_match *m)
{
    m->out[0] = m->operands[0];
    if (m->row->operand_count == 2) {
        return m->operands[0] == m->operands[1];
    }
    const stator_node_row *inner = m->row->operand_count == 1 ? producer(m, m->operands[0]) : NULL;
    return inner != NULL && inner->op == m->row->op && inner->attr_count == 0;
}

/* f(C, x) = f(x, C) */
bool st_rule_constant_right(st_match *m)
{
    if (m->row->operand_count != 2 || !st_value_is_constant(m->b->graph, m->operands[0]) ||
        st_value_is_constant(m->b->graph, m->operands[1])) {
        return false;
    }
    const stator_ref swapped[2] = {m->operands[1], m->operands[0]};
    return rebuild(m, swapped);
}

/* ---- one type, two casts ---- */

bool st_rule_same_type(st_match *m)
{
    m->out[0] = m->vars[0];
    return type_of(m, m->vars[0]) == result_type(m, 0);
}

/* f(g(x)) = f(x) */
bool st_rule_inner_operand(st_match *m)
{
    return rebuild(m, m->vars);
}

/* Bits of an integer that a float dtype holds exactly (with its hidden bit); 0 for other dtypes. */
static uint32_t mantissa_bits(uint32_t dtype)
{
    switch (dtype) {
    case STATOR_F8E4M3FN:
        return 4;
    case STATOR_F8E5M2:
        return 3;
    case STATOR_BF16:
        return 8;
    case STATOR_F16:
        return 11;
    case STATOR_F32:
        return 24;
    case STATOR_F64:
        return 53;
    default:
        return 0;
    }
}

/* Exponents: f8 fit in f16 and bf16, f16 and bf16 in f32 but not in each other. */
static bool float_holds(uint32_t from, uint32_t to)
{
    const uint32_t from_bits = st_dtype_bits(from);
    const uint32_t to_bits = st_dtype_bits(to);
    return from == to || from_bits < to_bits;
}

/* Is every value of `from` a value of `to`? */
static bool holds(uint32_t from, uint32_t to)
{
    const uint32_t a = st_dtype_class(from);
    const uint32_t b = st_dtype_class(to);
    const uint32_t from_bits = st_dtype_bits(from);
    const uint32_t to_bits = st_dtype_bits(to);
    if (a == STATOR_CLASS_COMPLEX || b == STATOR_CLASS_COMPLEX || b == STATOR_CLASS_BOOL) {
        return from == to;
    }
    if (a == STATOR_CLASS_BOOL) {
        return true;
    }
    if (a == STATOR_CLASS_FLOAT) {
        return b == STATOR_CLASS_FLOAT && float_holds(from, to);
    }
    if (b == STATOR_CLASS_FLOAT) {
        return from_bits <= mantissa_bits(to) && to_bits >= 16;
    }
    return a == b ? from_bits <= to_bits : a == STATOR_CLASS_UINT && from_bits < to_bits;
}

static uint32_t dtype_of(const st_match *m, stator_ref type)
{
    return stator_type_at(m->v, type)->dtype;
}

/* cast<T>(cast<U>(x)) = cast<T>(x) when U holds every value of x's dtype. An integer that went
 * through a float is converted by other rules than an integer when it does not fit: left alone. */
bool st_rule_cast_cast(st_match *m)
{
    const uint32_t from = dtype_of(m, type_of(m, m->vars[0]));
    const uint32_t via = dtype_of(m, type_of(m, m->operands[0]));
    const uint32_t to = dtype_of(m, result_type(m, 0));
    const bool changes_class = st_dtype_class(from) != STATOR_CLASS_FLOAT &&
                               st_dtype_class(via) == STATOR_CLASS_FLOAT &&
                               st_dtype_class(to) != STATOR_CLASS_FLOAT;
    if (!holds(from, via) || (changes_class && !holds(from, to))) {
        return false;
    }
    return rebuild(m, m->vars);
}

static int64_t perm_at(const st_match *m, const stator_attr_row *perm, uint32_t i)
{
    const int64_t p = stator_attr_int_at(m->v, perm, i);
    return st_normalize_axis(p, perm->count);
}

/* Is it a float that lies in whole elements of 16 bits or more, not a byte with a scale? */
static bool is_cast_moved(uint32_t dtype)
{
    return st_dtype_class(dtype) == STATOR_CLASS_FLOAT && st_dtype_bits(dtype) >= 16;
}

/* A cast of moved floats moves cast ones: the movement then stands at what reads it, and a product
 * takes it as the order of its operand. Bytes are moved as bytes: they are looked for behind what
 * scales them. */
bool st_rule_cast_transpose(st_match *m)
{
    const stator_node_row *inner = producer(m, m->operands[0]);
    const stator_attr_row *perm = inner != NULL ? attr_of(m, inner, STATOR_transpose_perm) : NULL;
    const stator_type_row *before = stator_type_at(m->v, type_of(m, m->vars[0]));
    stator_ref dims[STATOR_RANK_MAX];
    int64_t axes[STATOR_RANK_MAX];
    if (perm == NULL || perm->count != before->rank || !is_cast_moved(before->dtype) ||
        !is_cast_moved(dtype_of(m, result_type(m, 0)))) {
        return false;
    }
    for (uint32_t k = 0; k < perm->count; k++) {
        dims[k] = stator_dim_at(m->v, before, k);
        axes[k] = perm_at(m, perm, k);
    }
    const stator_ref type =
        st_module_type(m->b->module, dtype_of(m, result_type(m, 0)), before->rank, dims);
    if (!stator_emit_check(m->e, type != 0 ? STATOR_OK : st_fail_oom(m->e->err))) {
        return true;
    }
    const stator_ref cast = build_like(m, m->vars, &type);
    m->out[0] = stator_emit_transpose(m->e, cast, perm->count, axes);
    return true;
}

/* ---- movement ---- */

/* One number a channel of `from` channels becomes one for each of `to`, a multiple of them: each is
 * repeated. */
static stator_ref repeat_channels(stator_emitter *e, stator_ref value, int64_t from, int64_t to)
{
    const stator_ref n = stator_emit_size(e, from);
    const stator_ref column = stator_emit_reshape(e, value, STATOR_IN(n, stator_emit_size(e, 1)));
    const stator_ref table =
        stator_emit_expand(e, column, STATOR_IN(n, stator_emit_size(e, to / from)));
    return stator_emit_reshape(e, table, STATOR_IN(stator_emit_size(e, to)));
}

/* A group norm as exporters write it: an instance norm over [N, groups, all the rest], which begins
 * and ends with a reshape. A group's elements lie one behind the other either way; without the
 * reshapes no index has to be taken apart by sizes known only at call time. */
bool st_rule_reshape_group_norm(st_match *m)
{
    const stator_node_row *norm = producer(m, m->operands[0]);
    const stator_ref x_type = type_of(m, m->vars[0]);
    const stator_type_row *x = stator_type_at(m->v, x_type);
    if (norm == NULL || x_type != result_type(m, 0) || x->rank < 3) {
        return false;
    }
    const stator_type_row *seen = stator_type_at(m->v, type_of(m, m->operands[0]));
    const stator_attr_row *groups = attr_of(m, norm, STATOR_group_norm_groups);
    int64_t channels = 0;
    int64_t seen_channels = 0;
    if (seen->rank < 3 || stator_dim_at(m->v, x, 0) != stator_dim_at(m->v, seen, 0) ||
        !stator_sym_is_const(m->v, stator_dim_at(m->v, x, 1), &channels) ||
        !stator_sym_is_const(m->v, stator_dim_at(m->v, seen, 1), &seen_channels) ||
        seen_channels < 1 || channels < 1 || channels % seen_channels != 0) {
        return false;
    }
    const stator_ref scale = repeat_channels(m->e, m->vars[1], seen_channels, channels);
    const stator_ref bias = repeat_channels(m->e, m->vars[2], seen_channels, channels);
    m->out[0] = stator_emit_op(
        m->e, "group_norm", STATOR_IN(m->vars[0], scale, bias),
        STATOR_AT(STATOR_A_INT("groups", groups->i),
                  STATOR_A_FLOAT("eps", attr_of(m, norm, STATOR_group_norm_eps)->f)));
    return true;
}

/* All sizes kept at step 1: every index must lie in x, so the starts are 0. */
bool st_rule_slice_all(st_match *m)
{
    return all_equal(m, attr_of(m, m->row, STATOR_slice_steps), 1) && st_rule_same_type(m);
}

bool st_rule_slice_slice(st_match *m)
{
    const stator_node_row *inner = producer(m, m->operands[0]);
    if (inner == NULL) {
        return false; /* cannot be: the pattern has one */
    }
    const stator_attr_row *start_in = attr_of(m, inner, STATOR_slice_starts);
    const stator_attr_row *step_in = attr_of(m, inner, STATOR_slice_steps);
    const stator_attr_row *start_out = attr_of(m, m->row, STATOR_slice_starts);
    const stator_attr_row *step_out = attr_of(m, m->row, STATOR_slice_steps);
    const stator_attr_row *sizes = attr_of(m, m->row, STATOR_slice_sizes);
    st_symtab *tab = &m->b->module->symtab;
    stator_ref starts[STATOR_RANK_MAX];
    stator_ref lens[STATOR_RANK_MAX];
    int64_t steps[STATOR_RANK_MAX];
    const uint32_t n = start_out->count;
    if (n > STATOR_RANK_MAX || start_in->count != n || step_in->count != n ||
        step_out->count != n || sizes->count != n) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        const stator_ref step = st_sym_int(tab, stator_attr_int_at(m->v, step_in, i));
        const stator_ref moved =
            step != 0 ? st_sym_mul(tab, stator_ref_at(m->v, start_out->begin + i), step) : 0;
        starts[i] =
            moved != 0 ? st_sym_add(tab, stator_ref_at(m->v, start_in->begin + i), moved) : 0;
        lens[i] = stator_ref_at(m->v, sizes->begin + i);
        if (starts[i] == 0 || !st_mul_i64(stator_attr_int_at(m->v, step_in, i),
                                          stator_attr_int_at(m->v, step_out, i), &steps[i])) {
            return false;
        }
    }
    m->out[0] = stator_emit_op(m->e, "slice", STATOR_IN(m->vars[0]),
                               STATOR_AT(STATOR_A_DIMS("starts", n, starts),
                                         STATOR_A_DIMS("sizes", n, lens),
                                         STATOR_A_INTS("steps", n, steps)));
    return true;
}

/* Axis k of the outer result is axis q[k] of the inner one, which is axis p[q[k]] of x. */
bool st_rule_transpose_transpose(st_match *m)
{
    const stator_node_row *inner = producer(m, m->operands[0]);
    if (inner == NULL) {
        return false; /* cannot be: the pattern has one */
    }
    const stator_attr_row *p = attr_of(m, inner, STATOR_transpose_perm);
    const stator_attr_row *q = attr_of(m, m->row, STATOR_transpose_perm);
    int64_t perm[STATOR_RANK_MAX];
    if (q->count > STATOR_RANK_MAX || p->count != q->count) {
        return false;
    }
    for (uint32_t k = 0; k < q->count; k++) {
        perm[k] = perm_at(m, p, (uint32_t)perm_at(m, q, k));
    }
    m->out[0] = stator_emit_transpose(m->e, m->vars[0], q->count, perm);
    return true;
}

/* A transpose that keeps the order of the axes longer than 1 moves nothing: it is a reshape, or
 * nothing at all. */
bool st_rule_transpose_moves_ones(st_match *m)
{
    const stator_attr_row *perm = attr_of(m, m->row, STATOR_transpose_perm);
    const stator_type_row *type = stator_type_at(m->v, result_type(m, 0));
    stator_ref dims[STATOR_RANK_MAX];
    int64_t last = -1;
    if (perm->count != type->rank) {
        return false;
    }
    for (uint32_t k = 0; k < type->rank; k++) {
        int64_t size = 0;
        dims[k] = stator_dim_at(m->v, type, k);
        if (stator_sym_is_const(m->v, dims[k], &size) && size == 1) {
            continue;
        }
        if (perm_at(m, perm, k) < last) {
            return false;
        }
        last = perm_at(m, perm, k);
    }
    if (!st_rule_same_type(m)) {
        m->out[0] = stator_emit_reshape(m->e, m->vars[0], type->rank, dims);
    }
    return true;
}

bool st_rule_pad_nothing(st_match *m)
{
    return all_equal(m, attr_of(m, m->row, STATOR_pad_low), 0) &&
           all_equal(m, attr_of(m, m->row, STATOR_pad_high), 0) && st_rule_same_type(m);
}

bool st_rule_tile_once(st_match *m)
{
    return all_equal(m, attr_of(m, m->row, STATOR_tile_repeats), 1) && st_rule_same_type(m);
}

/* ---- control flow ---- */

/* Copies a region's nodes in place of the node; its inputs are operands[skip..]. */
static bool inline_region(st_match *m, uint32_t region, uint32_t skip)
{
    const stator_graph *g = stator_region_at(m->copy->v, m->row, region);
    const stator_graph_view *v = st_graph_view(g);
    if (v->n_inputs + skip != m->row->operand_count || v->n_outputs != m->row->result_count) {
        return false;
    }
    for (uint32_t i = 0; i < v->n_inputs; i++) {
        if (m->operands[skip + i] == 0 ||
            stator_value_at(v, i + 1u)->type != type_of(m, m->operands[skip + i])) {
            return false;
        }
    }
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        if (stator_value_at(v, stator_output_at(v, k))->type != result_type(m, k)) {
            return false;
        }
    }
    stator_ref *map = st_copy_zalloc(m->copy, v->n_values, sizeof *map);
    for (uint32_t i = 0; map != NULL && i < v->n_inputs; i++) {
        map[i + 1u] = m->operands[skip + i];
    }
    stator_emit_clone(m->e, g, 1, v->n_nodes, map);
    for (uint32_t k = 0; map != NULL && k < v->n_outputs; k++) {
        m->out[k] = map[stator_output_at(v, k)];
    }
    return true;
}

/* call{region}(xs) = the region on xs */
bool st_rule_inline_call(st_match *m)
{
    return inline_region(m, 0, 0);
}

/* cond(constant, xs) = the chosen region on xs */
bool st_rule_inline_cond(st_match *m)
{
    double pred = 0;
    if (!st_value_is_splat(m->b->graph, m->operands[0], &pred)) {
        return false;
    }
    return inline_region(m, pred != 0 ? 0 : 1, 1);
}
