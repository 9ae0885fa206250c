/* The verifier.
 *
 * In: a finished graph. Out: OK, or the first thing that is wrong, named by node, op and origin.
 * Checked: every ref is in range; values are numbered in the order of their nodes, so operands come
 * first; attributes have the kinds of the schema; result types are what the infer rules give, up to
 * provable equality; regions are finished graphs of the module, nested without a circle; unbacked
 * symbols are defined before they are used; outputs and write-backs name values of the graph. */
#include "ir/verify.h"
#include "core/base/blob.h"
#include "core/base/vec.h"
#include "ir/builder.h"
#include "ir/infer.h"
#include "ir/sizes/shape_constraint_list.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REGION_DEPTH_MAX 64u

typedef struct verifier {
    st_module *m;
    const stator_graph *g;
    const stator_graph_view *v;
    st_map defined;                /* atom of an unbacked symbol -> 1 + depth of its definition */
    st_vec(uint32_t) define_order; /* atoms, so that a region's own end with it */
    uint32_t depth;
    uint32_t node; /* at hand; 0: inputs or outputs */
    stator_diag **err;
} verifier;

/* ---- failing ---- */

#define FAIL_IF(condition, ...) ST_FAIL_BY_IF(fail, condition, __VA_ARGS__)
static stator_status fail(const verifier *c, const char *format, ...) STATOR_PRINTF(2, 3);
static stator_status fail(const verifier *c, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *graph = st_module_str(c->m, c->g->name);
    ST_FAIL_IF(c->node == 0 || c->node > c->v->n_nodes, c->err, STATOR_INVALID_ARGUMENT,
               "graph '%s': %s", graph, text);
    const stator_node_row *row = stator_node_at(c->v, c->node);
    const bool is_op = row->op != 0 && row->op <= st_optable_count(c->m->ops);
    const stator_status status =
        st_fail(c->err, STATOR_INVALID_ARGUMENT, "graph '%s', node %u (%s): %s", graph, c->node,
                is_op ? stator_op_at(c->v, row->op)->name : "?", text);
    st_module_note_origin(c->m, row->origin, c->err);
    return status;
}

static bool is_range(uint32_t begin, uint32_t count, const st_seg *seg)
{
    return count == 0 || (uint64_t)begin + count <= seg->count;
}

/* ---- sizes and types ---- */

/* Is the symbol of this atom backed, or unbacked and defined by now? */
static bool is_defined(const verifier *c, uint32_t atom)
{
    const stator_atom_row *row = st_atom_at(&c->m->symtab, atom);
    return (row->flags & STATOR_ATOM_UNBACKED) == 0 || st_map_get(&c->defined, atom) != 0;
}

static bool is_undefined(const void *self, const stator_atom_row *row, uint32_t atom)
{
    return row->kind == STATOR_ATOM_SYMBOL && !is_defined(self, atom);
}

/* The first unbacked symbol in the sym that no node has defined yet, or 0. */
static uint32_t undefined_atom(const verifier *c, uint32_t sym)
{
    return st_sym_find_atom(&c->m->symtab, sym, is_undefined, c);
}

static bool define(verifier *c, uint32_t sym)
{
    for (uint32_t atom; (atom = undefined_atom(c, sym)) != 0;) {
        uint32_t *slot = st_vec_push(c->m->mem, &c->define_order);
        if (slot == NULL || !st_map_put(&c->defined, atom, c->depth + 1u)) {
            return false;
        }
        *slot = atom;
    }
    return true;
}

static stator_status check_type(verifier *c, stator_ref type)
{
    FAIL_IF(type == 0 || type >= c->m->types.count, c, "type %u does not exist", type);
    const stator_type_row *row = stator_type_at(c->v, type);
    if (row->dtype == 0 || row->dtype >= STATOR_DTYPE_COUNT || row->rank > STATOR_RANK_MAX ||
        !is_range(row->dims_begin, row->rank, &c->m->refs)) {
        return fail(c, "type %u has dtype %u and rank %u", type, row->dtype, row->rank);
    }
    for (uint32_t i = 0; i < row->rank; i++) {
        const uint32_t dim = stator_dim_at(c->v, row, i);
        FAIL_IF(dim == 0 || dim >= c->m->symtab.syms.count, c,
                "type %u: size of axis %u does not exist", type, i);
        ST_TRY_MEM(define(c, dim), c->err);
    }
    return STATOR_OK;
}

static bool same_types(const verifier *c, stator_ref a, stator_ref b)
{
    const stator_type_row *x = stator_type_at(c->v, a);
    const stator_type_row *y = stator_type_at(c->v, b);
    if (x->dtype != y->dtype || x->rank != y->rank) {
        return false;
    }
    for (uint32_t i = 0; i < x->rank; i++) {
        const uint32_t p = stator_dim_at(c->v, x, i);
        const uint32_t q = stator_dim_at(c->v, y, i);
        const int answer = p == q ? 1 : st_sym_eq(&c->m->symtab, p, q);
        if (answer == 0 || (answer < 0 && !st_sym_holds_unbacked(&c->m->symtab, p) &&
                            !st_sym_holds_unbacked(&c->m->symtab, q))) {
            return false;
        }
    }
    return true;
}

/* ---- attributes ---- */

static stator_status check_dims(verifier *c, const char *name, const stator_attr_row *row)
{
    for (uint32_t i = 0; i < row->count; i++) {
        const uint32_t sym = stator_ref_at(c->v, row->begin + i);
        FAIL_IF(sym == 0 || sym >= c->m->symtab.syms.count, c,
                "attribute '%s': element %u is no size", name, i);
        const uint32_t atom = undefined_atom(c, sym);
        if (atom != 0) {
            const stator_atom_row *a = st_atom_at(&c->m->symtab, atom);
            return fail(c,
                        "attribute '%s' reads the size '%s' (symbol %u), which no earlier node "
                        "defines",
                        name, st_module_str(c->m, a->name), a->index);
        }
    }
    return STATOR_OK;
}

static stator_status check_blob(verifier *c, const char *name, const stator_attr_row *row)
{
    uint64_t elements = 0;
    uint64_t bytes = 0;
    if (row->begin == 0 || row->begin >= c->m->blobs.count || row->i <= 0 ||
        row->i >= (int64_t)c->m->types.count) {
        return fail(c, "attribute '%s': its blob or type does not exist", name);
    }
    if (!st_type_static_size(c->m, (stator_ref)row->i, &elements, &bytes) ||
        st_blob_size(st_module_blob_at(c->m, row->begin)) != bytes) {
        return fail(c, "attribute '%s': its data is not as large as its type says", name);
    }
    return STATOR_OK;
}

/* sym_bind's own list is where its symbols are defined. */
static stator_status check_attr(verifier *c, const stator_attr_desc *schema,
                                const stator_attr_row *row)
{
    if (row->kind == STATOR_ATTR_NONE && !schema->is_required) {
        return STATOR_OK;
    }
    FAIL_IF(row->kind != schema->kind, c, "attribute '%s' has kind %u, expected %u", schema->name,
            row->kind, schema->kind);
    const st_seg *pool = row->kind == STATOR_ATTR_INTS     ? &c->m->i64s
                         : row->kind == STATOR_ATTR_FLOATS ? &c->m->f64s
                                                           : &c->m->refs;
    FAIL_IF(st_attr_is_list(row->kind) && !is_range(row->begin, row->count, pool), c,
            "attribute '%s': its list is out of range", schema->name);
    switch (row->kind) {
    case STATOR_ATTR_DIMS:
        return check_dims(c, schema->name, row);
    case STATOR_ATTR_BLOB:
        return check_blob(c, schema->name, row);
    case STATOR_ATTR_STRING:
        return row->begin < c->m->strings.count
                   ? STATOR_OK
                   : fail(c, "attribute '%s': its string does not exist", schema->name);
    default:
        return STATOR_OK;
    }
}

/* An op that binds symbols has an effect and names them in a DIMS attribute. */
static stator_status define_bound(verifier *c, const stator_op_desc *op, const stator_node_row *row)
{
    if ((op->flags & STATOR_OP_EFFECT) == 0) {
        return STATOR_OK;
    }
    for (uint32_t k = 0; k < row->attr_count && k < op->attr_count; k++) {
        const stator_attr_row *attr = stator_attr_at(c->v, row, k);
        if (attr->kind != STATOR_ATTR_DIMS || !is_range(attr->begin, attr->count, &c->m->refs)) {
            continue;
        }
        for (uint32_t i = 0; i < attr->count; i++) {
            const uint32_t sym = stator_ref_at(c->v, attr->begin + i);
            if (sym != 0 && sym < c->m->symtab.syms.count && !define(c, sym)) {
                return st_fail_oom(c->err);
            }
        }
    }
    return STATOR_OK;
}

static stator_status check_attrs(verifier *c, const stator_op_desc *op, const stator_node_row *row)
{
    if (row->attr_count != op->attr_count ||
        !is_range(row->attr_begin, row->attr_count, &c->m->attrs)) {
        return fail(c, "has %u attributes, its schema %u", row->attr_count, op->attr_count);
    }
    ST_TRY(define_bound(c, op, row));
    for (uint32_t k = 0; k < row->attr_count; k++) {
        ST_TRY(check_attr(c, &op->attrs[k], stator_attr_at(c->v, row, k)));
    }
    return STATOR_OK;
}

/* ---- nodes ---- */

static stator_status check_operands(verifier *c, const stator_op_desc *op,
                                    const stator_node_row *row)
{
    if (!is_range(row->operand_begin, row->operand_count, &c->m->refs) ||
        row->operand_count > op->operand_max) {
        return fail(c, "has %u operands", row->operand_count);
    }
    for (uint32_t k = 0;; k++) {
        uint32_t len = 0;
        char mark = 0;
        const char *name = st_list_name(op->operands, k, &len, &mark);
        if (name == NULL || (k >= row->operand_count && mark == '*')) {
            return STATOR_OK;
        }
        const stator_ref value = stator_operand(c->v, row, k);
        FAIL_IF(value == 0 && mark != '?', c, "operand %u ('%.*s') is missing", k, (int)len, name);
        FAIL_IF(value >= row->result_begin, c,
                "operand %u ('%.*s') is value %u, which is not computed before it", k, (int)len,
                name, value);
    }
}

static stator_status check_results(verifier *c, const stator_op_desc *op,
                                   const stator_node_row *row, uint32_t next)
{
    uint32_t least = 0;
    uint32_t most = 0;
    st_name_counts(op->results, &least, &most);
    if (row->result_begin != next || row->result_count < least || row->result_count > most ||
        row->result_count > ST_RESULTS_MAX ||
        (uint64_t)next + row->result_count > (uint64_t)c->v->n_values + 1u) {
        return fail(c, "has results %u to %u, expected to begin at %u (results: %s)",
                    row->result_begin, row->result_begin + row->result_count, next, op->results);
    }
    for (uint32_t k = 0; k < row->result_count; k++) {
        const stator_value_row *value = stator_value_at(c->v, next + k);
        FAIL_IF(value->node != c->node || value->index != k || value->flags != 0, c,
                "value %u is not marked as its result %u", next + k, k);
        ST_TRY(check_type(c, value->type));
    }
    return STATOR_OK;
}

/* A node as its infer rule sees it, and its lists. */
typedef struct inference {
    stator_builder b;
    st_infer in;
    const stator_attr_row *attrs[ST_ATTRS_MAX];
    stator_graph *regions[8];
    stator_ref declared[ST_RESULTS_MAX];
    stator_ref types[ST_RESULTS_MAX];
} inference;

static void fill_inference(const verifier *c, const stator_node_row *row, stator_ref *operands,
                           inference *f)
{
    memset(f->types, 0, sizeof f->types);
    f->b = (stator_builder){.graph = (stator_graph *)(uintptr_t)c->g, .module = c->m};
    st_map_init(&f->b.known, c->m->mem);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        operands[k] = stator_operand(c->v, row, k);
    }
    for (uint32_t k = 0; k < row->attr_count; k++) {
        f->attrs[k] = stator_attr_at(c->v, row, k);
    }
    for (uint32_t k = 0; k < row->region_count; k++) {
        f->regions[k] = (stator_graph *)(uintptr_t)stator_region_at(c->v, row, k);
    }
    for (uint32_t k = 0; k < row->result_count; k++) {
        f->declared[k] = stator_value_at(c->v, row->result_begin + k)->type;
    }
    f->in = (st_infer){.b = &f->b,
                       .m = c->m,
                       .v = c->v,
                       .op = st_optable_at(c->m->ops, row->op),
                       .operands = operands,
                       .n_operands = row->operand_count,
                       .attrs = f->attrs,
                       .regions = f->regions,
                       .n_regions = row->region_count,
                       .given_types = f->declared,
                       .n_results = row->result_count,
                       .types = f->types};
}

static stator_status fail_result(const verifier *c, uint32_t k, stator_ref declared,
                                 stator_ref inferred)
{
    st_str text;
    st_str_init(&text, c->m->mem);
    st_module_print_type(c->m, declared, &text);
    st_str_add(&text, ", its infer rule gives ");
    st_module_print_type(c->m, inferred, &text);
    const stator_status status =
        fail(c, "result %u is %s", k, st_str_ok(&text) ? text.data : "of a wrong type");
    st_str_deinit(&text);
    return status;
}

static stator_status compare_results(const verifier *c, const stator_node_row *row,
                                     const inference *f)
{
    FAIL_IF(f->in.n_results != row->result_count, c, "has %u results, its infer rule gives %u",
            row->result_count, f->in.n_results);
    for (uint32_t k = 0; k < row->result_count; k++) {
        FAIL_IF(f->types[k] == 0 || f->types[k] >= c->m->types.count, c,
                "its infer rule gives no type for result %u", k);
        if (!same_types(c, f->declared[k], f->types[k])) {
            return fail_result(c, k, f->declared[k], f->types[k]);
        }
    }
    return STATOR_OK;
}

/* Result types against the infer rule. Rules read the graph and intern types, nothing else. */
static stator_status check_inferred(verifier *c, const stator_node_row *row)
{
    inference f;
    stator_diag *inner = NULL;
    stator_ref *operands = st_calloc(c->m->mem, row->operand_count + 1u, sizeof *operands);
    ST_TRY_MEM(operands, c->err);
    fill_inference(c, row, operands, &f);
    f.in.err = &inner;
    stator_status status = f.in.op->infer != NULL
                               ? f.in.op->infer(&f.in)
                               : st_fail(&inner, STATOR_INTERNAL, "its op has no infer rule");
    st_map_deinit(&f.b.known);
    st_free(c->m->mem, operands);
    if (status == STATOR_RESOURCE_EXHAUSTED) {
        status = st_fail_oom(c->err);
    } else if (status != STATOR_OK) {
        status = fail(c, "%s", st_diag_text(inner));
    } else {
        status = compare_results(c, row, &f);
    }
    st_diag_release(inner);
    return status;
}

static stator_status check_graph(verifier *c, const stator_graph *g);

static stator_status check_regions(verifier *c, const stator_op_desc *op,
                                   const stator_node_row *row)
{
    if (row->region_count != op->region_count || row->region_count > 8 ||
        !is_range(row->region_begin, row->region_count, &c->m->regions)) {
        return fail(c, "has %u regions, expected %u", row->region_count, op->region_count);
    }
    for (uint32_t k = 0; k < row->region_count; k++) {
        const stator_graph *region = stator_region_at(c->v, row, k);
        FAIL_IF(region == NULL || region->module != c->m || !region->is_finished || region == c->g,
                c, "region %u is not a finished graph of this module", k);
        FAIL_IF(c->depth + 1u >= REGION_DEPTH_MAX, c, "regions are nested deeper than %u",
                REGION_DEPTH_MAX);
        verifier inner = *c;
        inner.depth = c->depth + 1u;
        inner.node = 0;
        const uint32_t mark = c->define_order.count;
        const stator_status status = check_graph(&inner, region);
        c->defined = inner.defined;
        c->define_order.data = inner.define_order.data;
        c->define_order.capacity = inner.define_order.capacity;
        c->define_order.count = inner.define_order.count;
        /* Symbols that the region defined end with it; the map cannot forget, so it is made
         * again. */
        if (c->define_order.count != mark) {
            c->define_order.count = mark;
            st_map_deinit(&c->defined);
            for (uint32_t i = 0; i < mark; i++) {
                ST_TRY_MEM(st_map_put(&c->defined, c->define_order.data[i], 1), c->err);
            }
        }
        ST_TRY(status);
    }
    return STATOR_OK;
}

static stator_status check_node(verifier *c, uint32_t next)
{
    const stator_node_row *row = stator_node_at(c->v, c->node);
    FAIL_IF(row->op == 0 || row->op > st_optable_count(c->m->ops), c, "op id %u does not exist",
            row->op);
    const stator_op_desc *op = stator_op_at(c->v, row->op);
    ST_TRY(check_attrs(c, op, row));
    ST_TRY(check_regions(c, op, row));
    ST_TRY(check_results(c, op, row, next));
    ST_TRY(check_operands(c, op, row));
    FAIL_IF(row->origin >= c->m->origins.count, c, "origin %u does not exist", row->origin);
    return check_inferred(c, row);
}

/* ---- graphs ---- */

static stator_status check_inputs(verifier *c)
{
    FAIL_IF(c->v->n_inputs > c->v->n_values, c, "has %u inputs and %u values", c->v->n_inputs,
            c->v->n_values);
    for (stator_ref i = 1; i <= c->v->n_inputs; i++) {
        const stator_value_row *row = stator_value_at(c->v, i);
        const bool is_param = (row->flags & STATOR_VALUE_PARAM) != 0;
        if (row->node != 0 || row->index != i - 1u || (row->flags & STATOR_VALUE_INPUT) == 0 ||
            is_param != (row->blob != 0) || row->blob >= c->m->blobs.count) {
            return fail(c, "value %u is not marked as input %u", i, i - 1u);
        }
        ST_TRY(check_type(c, row->type));
    }
    return STATOR_OK;
}

static stator_status check_outputs(verifier *c)
{
    const stator_graph_view *v = c->v;
    c->node = 0;
    if (!is_range(v->output_begin, v->n_outputs, &c->m->refs) ||
        !is_range(v->output_name_begin, v->n_outputs, &c->m->refs)) {
        return fail(c, "its outputs are out of range");
    }
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        const stator_ref value = stator_output_at(v, k);
        if (value == 0 || value > v->n_values ||
            stator_ref_at(v, v->output_name_begin + k) >= c->m->strings.count) {
            return fail(c, "output %u is value %u, which does not exist", k, value);
        }
    }
    for (uint32_t k = 0; k < v->n_write_backs; k++) {
        const stator_write_back_row *row = stator_write_back_at(v, k);
        if (row->input == 0 || row->input > v->n_inputs || row->value == 0 ||
            row->value > v->n_values ||
            (stator_value_at(v, row->input)->flags & STATOR_VALUE_WRITTEN) == 0) {
            return fail(c, "write-back %u (value %u to input %u) is wrong", k, row->value,
                        row->input);
        }
        if (!same_types(c, stator_value_at(v, row->input)->type,
                        stator_value_at(v, row->value)->type)) {
            return fail(c, "write-back %u has another type than its input", k);
        }
    }
    return STATOR_OK;
}

static stator_status check_graph(verifier *c, const stator_graph *g)
{
    c->g = g;
    c->v = st_graph_view(g);
    FAIL_IF(!g->is_finished, c, "is not finished");
    ST_TRY(check_inputs(c));
    uint32_t next = c->v->n_inputs + 1u;
    for (c->node = 1; c->node <= c->v->n_nodes; c->node++) {
        ST_TRY(check_node(c, next));
        next += stator_node_at(c->v, c->node)->result_count;
    }
    c->node = 0;
    FAIL_IF(next != c->v->n_values + 1u, c, "has %u values, its nodes make %u", c->v->n_values,
            next - 1u);
    return check_outputs(c);
}

stator_status st_verify(const stator_graph *graph, stator_diag **err)
{
    verifier c = {.m = graph->module, .err = err};
    st_map_init(&c.defined, graph->module->mem);
    const stator_status status = check_graph(&c, graph);
    st_map_deinit(&c.defined);
    st_vec_free(graph->module->mem, &c.define_order);
    return status;
}

/* ---- shape constraints ---- */

/* Asks the node's infer rule for its shape constraints; the node is as it was verified. */
static stator_status find_constraints_of_node(const verifier *c,
                                              st_shape_constraints *shape_constraints)
{
    const stator_node_row *row = stator_node_at(c->v, c->node);
    inference f;
    stator_ref *operands = st_calloc(c->m->mem, row->operand_count + 1u, sizeof *operands);
    ST_TRY_MEM(operands, c->err);
    fill_inference(c, row, operands, &f);
    f.in.shape_constraints = shape_constraints;
    f.in.err = c->err;
    shape_constraints->node = NULL;
    if (row->origin != 0) {
        const stator_origin_row *origin = st_seg_at(&c->m->origins, row->origin);
        shape_constraints->node = st_module_str(c->m, origin->name);
    }
    const stator_status status = f.in.op->infer(&f.in);
    st_map_deinit(&f.b.known);
    st_free(c->m->mem, operands);
    return status;
}

stator_status st_graph_shape_constraints(const stator_graph *graph,
                                         st_shape_constraints *shape_constraints, stator_diag **err)
{
    verifier c = {.m = graph->module, .g = graph, .v = st_graph_view(graph), .err = err};
    const st_mem *mem = graph->module->mem;
    const uint64_t refused = atomic_load(&mem->refused);
    for (c.node = 1; c.m->symtab.n_symbols != 0 && c.node <= c.v->n_nodes; c.node++) {
        ST_TRY(find_constraints_of_node(&c, shape_constraints));
    }
    shape_constraints->node = NULL;
    /* A size that found no memory looks like one beyond a limit, and its constraint would be
     * lost. */
    const bool is_refused = atomic_load(&mem->refused) != refused;
    return shape_constraints->is_oom || is_refused ? st_fail_oom(err) : STATOR_OK;
}
