/* What is made of a byte by many steps and becomes a byte again is looked up, as hardswish and silu
 * between DequantizeLinear and QuantizeLinear.
 *
 *     y = cast_u8(f(q))    ->    y = gather(table, cast_i32(q))        q i8 or u8, table u8[256]
 *     y = cast_u8(f(q))    ->    y = q                                 where f(q) = q
 *
 * In: any graph, and an evaluator in the pass context (none: nothing changes). Out: such bytes are
 * looked up in a table of f, or are q where the table is in order; what then has no user is dce's.
 * f: pointwise ops and constants of one element. The table has the evaluator's own results, at
 * place i for the q whose bits are i: a negative q counts from the table's end. */
#include "core/base/blob.h"
#include "ir/infer.h"
#include "ir/passes/pass_copy.h"

#include <string.h>

#define ENTRIES 256u
#define STEPS_MIN 12u /* steps that a look-up is faster than: a change of scale alone has ten */
#define NODES_MAX 64u
#define OPERANDS_MAX 4u
#define ATTRS_MAX 4u

typedef struct lut_pass {
    st_copy *copy;
    stator_ref *made_of; /* by in-value: the byte that it is a function of, or is; 0: of none */
    uint32_t *steps;     /* by in-value: ops on the longest way from that byte */
} lut_pass;

/* The function at all bytes, one node after the other, in the graph being written. */
typedef struct table {
    uint32_t n;
    stator_ref from[NODES_MAX]; /* in-values and what they are there */
    stator_ref to[NODES_MAX];
} table;

static bool is_byte(const stator_graph_view *v, stator_ref value)
{
    const uint32_t dtype = stator_value_type(v, value)->dtype;
    return dtype == STATOR_I8 || dtype == STATOR_U8;
}

static bool is_known_number(const st_copy *c, stator_ref value)
{
    uint64_t elements = 0;
    uint64_t bytes = 0;
    return st_value_is_constant(c->out->graph, c->map[value]) &&
           st_type_static_size(c->in->module, stator_value_at(c->v, value)->type, &elements,
                               &bytes) &&
           elements == 1;
}

static bool are_dims_equal(const stator_graph_view *v, stator_ref a, stator_ref b)
{
    const stator_type_row *x = stator_value_type(v, a);
    const stator_type_row *y = stator_value_type(v, b);
    bool is_equal = x->rank == y->rank;
    for (uint32_t i = 0; is_equal && i < x->rank; i++) {
        is_equal = stator_dim_at(v, x, i) == stator_dim_at(v, y, i);
    }
    return is_equal;
}

/* The byte of which the node's result is a function, element by element; 0: none. */
static stator_ref byte_behind(const lut_pass *l, const stator_node_row *row, uint32_t *out_steps)
{
    const st_copy *c = l->copy;
    const uint64_t flags = stator_op_at(c->v, row->op)->flags;
    stator_ref found = 0;
    *out_steps = 0;
    if (!(flags & STATOR_OP_POINTWISE) || (flags & (STATOR_OP_EFFECT | STATOR_OP_RANDOM)) ||
        row->result_count != 1 || row->operand_count > OPERANDS_MAX ||
        row->attr_count > ATTRS_MAX || row->region_count) {
        return 0;
    }
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(c->v, row, k);
        if (value == 0 || is_known_number(c, value)) {
            continue;
        }
        const stator_ref byte = l->made_of[value];
        if (byte == 0 || (found && found != byte) ||
            !are_dims_equal(c->v, value, row->result_begin)) {
            return 0;
        }
        found = byte;
        *out_steps = l->steps[value] >= *out_steps ? l->steps[value] + 1u : *out_steps;
    }
    return found && are_dims_equal(c->v, found, row->result_begin) ? found : 0;
}

static void note(lut_pass *l, const stator_node_row *row)
{
    const stator_ref result = row->result_begin;
    uint32_t steps = 0;
    l->made_of[result] = byte_behind(l, row, &steps);
    l->steps[result] = steps;
    for (uint32_t k = 0; k < row->result_count; k++) {
        if (l->made_of[result + k] == 0 && is_byte(l->copy->v, result + k)) {
            l->made_of[result + k] = result + k;
        }
    }
}

/* ---- the table ---- */

static stator_ref *find(table *t, stator_ref value)
{
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->from[i] == value) {
            return &t->to[i];
        }
    }
    return NULL;
}

/* A constant with an entry for each byte. */
static stator_ref make_constant(lut_pass *l, uint32_t dtype, const uint8_t *entries)
{
    st_copy *c = l->copy;
    st_module *module = c->in->module;
    const stator_ref dim = stator_emit_size(&c->e, ENTRIES);
    const stator_ref type = dim ? st_module_type(module, dtype, 1, &dim) : 0;
    stator_ref made = 0;
    ST_THEN(c->e.status, type ? st_build_constant(c->out, type, entries, ENTRIES, &made, c->e.err)
                              : st_fail_oom(c->e.err));
    return made;
}

/* The byte itself: all there are, in the order of their bits. */
static void begin_table(lut_pass *l, stator_ref byte, table *t)
{
    uint8_t all[ENTRIES];
    for (uint32_t i = 0; i < ENTRIES; i++) {
        all[i] = (uint8_t)i;
    }
    t->n = 1;
    t->from[0] = byte;
    t->to[0] = make_constant(l, stator_value_type(l->copy->v, byte)->dtype, all);
}

/* A node on the way at all bytes, its operands before it; 0: it could not be computed. */
static stator_ref add_to_table(lut_pass *l, const stator_node_row *row, table *t)
{
    st_copy *c = l->copy;
    stator_builder *b = c->out;
    const stator_op_desc *op = stator_op_at(c->v, row->op);
    stator_ref operands[OPERANDS_MAX] = {0};
    stator_attr attrs[ATTRS_MAX];
    const st_build_mark before = st_build_here(b);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(c->v, row, k);
        const stator_ref *known = value ? find(t, value) : NULL;
        operands[k] = known ? *known : value ? c->map[value] : 0;
    }
    for (uint32_t k = 0; k < row->attr_count; k++) {
        ST_THEN(c->e.status, st_attr_from_row(c->v, b->module, &c->arena, op->attrs[k].name,
                                              stator_attr_at(c->v, row, k), &attrs[k], c->e.err));
    }
    stator_emit_op(&c->e, op->name, row->operand_count, operands, row->attr_count, attrs);
    return st_copy_constant(c, before);
}

/* The values between the byte and the result, operands first; 0: too many. */
static bool list_nodes(const lut_pass *l, stator_ref value, stator_ref byte, table *t)
{
    const stator_graph_view *v = l->copy->v;
    if (value == 0 || value == byte || is_known_number(l->copy, value) || find(t, value)) {
        return true;
    }
    const stator_node_row *row = stator_node_at(v, stator_value_at(v, value)->node);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        if (!list_nodes(l, stator_operand(v, row, k), byte, t)) {
            return false;
        }
    }
    if (t->n == NODES_MAX) {
        return false;
    }
    t->from[t->n++] = value;
    return true;
}

/* Results at all bytes into `out`; false: some node could not be computed. */
static bool make_table(lut_pass *l, stator_ref result, uint8_t out[ENTRIES])
{
    st_copy *c = l->copy;
    stator_builder *b = c->out;
    const stator_ref byte = l->made_of[result];
    const st_build_mark before = st_build_here(b);
    table t = {.n = 1, .from = {byte}};
    const void *data = NULL;
    bool is_made = list_nodes(l, result, byte, &t);
    const uint32_t n = t.n;
    if (is_made) {
        begin_table(l, byte, &t);
    }
    for (; is_made && t.n < n; t.n++) {
        const stator_ref node = stator_value_at(c->v, t.from[t.n])->node;
        t.to[t.n] = add_to_table(l, stator_node_at(c->v, node), &t);
        is_made = t.to[t.n] != 0;
    }
    if (is_made && st_copy_is_ok(c)) {
        stator_blob *blob = st_graph_value_blob(b->graph, t.to[n - 1u]);
        c->e.status = st_blob_get(blob, &data, c->e.err);
        is_made = st_copy_is_ok(c) && st_blob_size(blob) == ENTRIES;
        if (is_made) {
            memcpy(out, data, ENTRIES);
        }
    }
    st_build_rollback(b, before);
    return is_made && st_copy_is_ok(c);
}

/* ---- the look-up ---- */

static bool is_in_order(const uint8_t *entries)
{
    for (uint32_t i = 0; i < ENTRIES; i++) {
        if (entries[i] != i) {
            return false;
        }
    }
    return true;
}

static void make_lookup(lut_pass *l, stator_ref result, const uint8_t *entries)
{
    st_copy *c = l->copy;
    const uint32_t dtype = stator_value_type(c->v, result)->dtype;
    const stator_ref byte = l->made_of[result];
    if (is_in_order(entries) && stator_value_type(c->v, byte)->dtype == dtype) {
        st_copy_replace(c, result, c->map[byte]);
        return;
    }
    const stator_ref made = make_constant(l, dtype, entries);
    const stator_ref places = stator_emit_cast(&c->e, c->map[byte], STATOR_I32);
    st_copy_replace(c, result, stator_emit_gather(&c->e, made, places, 0));
}

static bool is_wanted(const lut_pass *l, const stator_node_row *row)
{
    const stator_ref result = row->result_begin;
    return row->result_count == 1 && is_byte(l->copy->v, result) && l->made_of[result] &&
           l->made_of[result] != result && l->steps[result] >= STEPS_MIN &&
           l->steps[result] <= NODES_MAX; /* list_nodes goes as deep */
}

static void visit(void *self, stator_ref node)
{
    lut_pass *l = self;
    st_copy *c = l->copy;
    const stator_node_row *row = stator_node_at(c->v, node);
    uint8_t entries[ENTRIES];
    bool is_made = false;
    note(l, row);
    if (is_wanted(l, row) && st_pass_may(c->ctx, STATOR_FUEL_REWRITE, "lut", node)) {
        st_build_set_origin_ref(c->out, row->origin);
        is_made = make_table(l, row->result_begin, entries);
    }
    if (is_made) {
        make_lookup(l, row->result_begin, entries);
    } else {
        st_copy_node(c, node);
    }
}

void st_pass_lut(st_copy *c)
{
    lut_pass l = {.copy = c};
    if (c->ctx->evaluate == NULL) {
        return;
    }
    l.made_of = st_copy_zalloc(c, c->v->n_values, sizeof *l.made_of);
    l.steps = st_copy_zalloc(c, c->v->n_values, sizeof *l.steps);
    for (stator_ref value = 1; st_copy_is_ok(c) && value <= c->v->n_values; value++) {
        if (stator_value_at(c->v, value)->node == 0 && is_byte(c->v, value)) {
            l.made_of[value] = value;
        }
    }
    st_copy_nodes(c, visit, &l);
}
