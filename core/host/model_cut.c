/* A model that is some nodes of another one; see stator/inspect.h.
 *
 * In: a graph, the nodes to keep, the values that become inputs and outputs, and what is known of
 * shapes. Out: a graph of its own, as if it had been imported.
 *
 *   keep b, input %1, output %2
 *   %1 = a(%x)   %2 = b(%1)   %3 = c(%2)     gives     (%1) { %2 = b(%1)  return %2 }
 *
 * Sizes that only a dropped node tells (the count of a nonzero) are numbers first, in types and in
 * attributes, since nothing defines them any more. */
#include "core/base/sized.h"
#include "core/base/vec.h"
#include "core/host/function.h"
#include "ir/sizes/bind_sizes.h"
#include "ir/sizes/bound_symbols.h"
#include <stator/inspect.h>

#include <stdio.h>
#include <string.h>

#define PORT_NAME_BYTES 200u

typedef struct cutter {
    const stator_x_cut *cut;
    st_module *module; /* a copy, which becomes the result */
    const stator_graph *from;
    const stator_graph_view *v;
    st_mem *mem;
    stator_builder *b;
    stator_ref *map;  /* value -> value of the result, 0: not there */
    uint8_t *is_kept; /* by node */
    st_map names;     /* names of outputs */
} cutter;

/* ---- what is asked for ---- */

static stator_status check_refs(const stator_ref *refs, uint32_t n, uint32_t count,
                                const char *what, stator_diag **err)
{
    for (uint32_t k = 0; k < n; k++) {
        ST_FAIL_IF(refs[k] == 0 || refs[k] > count, err, STATOR_OUT_OF_RANGE,
                   "the graph has no %s %u", what, refs[k]);
    }
    return STATOR_OK;
}

static stator_status mark_kept(cutter *c, stator_diag **err)
{
    const stator_x_cut *cut = c->cut;
    ST_TRY(check_refs(cut->nodes, cut->n_nodes, c->v->n_nodes, "node", err));
    ST_TRY(check_refs(cut->inputs, cut->n_inputs, c->v->n_values, "value", err));
    ST_TRY(check_refs(cut->outputs, cut->n_outputs, c->v->n_values, "value", err));
    for (uint32_t k = 0; k < cut->n_nodes; k++) {
        ST_FAIL_IF(k > 0 && cut->nodes[k] <= cut->nodes[k - 1u], err, STATOR_INVALID_ARGUMENT,
                   "the nodes of a cut are not ascending");
        c->is_kept[cut->nodes[k]] = 1;
    }
    return STATOR_OK;
}

/* ---- sizes ---- */

typedef struct sizes {
    cutter *c;
    st_map seen; /* atom -> 1: a kept node defines it, 2: anything else is known of it */
    st_vec(uint32_t) atoms;
    st_vec(int64_t) values;
} sizes;

static bool is_new_unbacked(const void *self, const stator_atom_row *row, uint32_t atom)
{
    const sizes *s = self;
    return row->kind == STATOR_ATOM_SYMBOL && (row->flags & STATOR_ATOM_UNBACKED) != 0 &&
           st_map_get(&s->seen, atom) == 0;
}

/* The first node in which an unbacked symbol stands is the one that defines it. */
static bool note_definitions(sizes *s, stator_ref sym, int is_kept)
{
    const st_symtab *tab = &s->c->module->symtab;
    for (uint32_t atom; (atom = st_sym_find_atom(tab, sym, is_new_unbacked, s)) != 0;) {
        ST_NEED(st_map_put(&s->seen, atom, is_kept ? 1 : 2));
    }
    return true;
}

static bool note_node(sizes *s, stator_ref node)
{
    const stator_graph_view *v = s->c->v;
    const stator_node_row *row = stator_node_at(v, node);
    const int is_kept = s->c->is_kept[node];
    const bool binds = (stator_op_at(v, row->op)->flags & STATOR_OP_EFFECT) != 0;
    bool ok = true;
    for (uint32_t k = 0; ok && binds && k < row->attr_count; k++) {
        const stator_attr_row *attr = stator_attr_at(v, row, k);
        for (uint32_t i = 0; ok && attr->kind == STATOR_ATTR_DIMS && i < attr->count; i++) {
            ok = note_definitions(s, stator_ref_at(v, attr->begin + i), is_kept);
        }
    }
    for (uint32_t k = 0; ok && k < row->result_count; k++) {
        const stator_type_row *type = stator_value_type(v, row->result_begin + k);
        for (uint32_t axis = 0; ok && axis < type->rank; axis++) {
            ok = note_definitions(s, stator_dim_at(v, type, axis), is_kept);
        }
    }
    return ok;
}

/* The symbols that stand alone as sizes of this value have its numbers. */
static bool take_shape(sizes *s, stator_ref value, const DLTensor *known)
{
    const stator_graph_view *v = s->c->v;
    const stator_type_row *type = stator_value_type(v, value);
    for (uint32_t axis = 0; axis < type->rank && (int32_t)axis < known->ndim; axis++) {
        const uint32_t atom = st_sym_as_symbol(&s->c->module->symtab, stator_dim_at(v, type, axis));
        const uint64_t key = atom | UINT64_C(1) << 32; /* apart from what note_definitions has */
        if (atom == 0 || st_map_get(&s->seen, atom) == 1 || st_map_get(&s->seen, key) != 0) {
            continue;
        }
        uint32_t *symbol = st_vec_push(s->c->mem, &s->atoms);
        int64_t *number = st_vec_push(s->c->mem, &s->values);
        ST_NEED(symbol != NULL && number != NULL && st_map_put(&s->seen, key, 1));
        *symbol = atom;
        *number = known->shape[axis];
    }
    return true;
}

/* Numbers for the symbols that no kept node defines, as far as shapes are known. */
static stator_status bind_sizes(cutter *c, stator_diag **err)
{
    sizes s = {.c = c};
    bool ok = true;
    st_map_init(&s.seen, c->mem);
    for (stator_ref node = 1; ok && node <= c->v->n_nodes; node++) {
        ok = note_node(&s, node);
    }
    for (stator_ref value = 1; ok && value <= c->v->n_values; value++) {
        ok = c->cut->known[value] == NULL || take_shape(&s, value, c->cut->known[value]);
    }
    const stator_status status =
        ok ? st_bind_atoms(c->module, s.atoms.count, s.atoms.data, s.values.data, err)
           : st_fail_oom(err);
    st_map_deinit(&s.seen);
    st_vec_free(c->mem, &s.atoms);
    st_vec_free(c->mem, &s.values);
    return status;
}

/* ---- ports ---- */

static bool is_printable(const char *name)
{
    const size_t len = strlen(name);
    for (size_t i = 0; i < len; i++) {
        if (name[i] < ' ' || name[i] > '~') {
            return false;
        }
    }
    return len > 0 && len < PORT_NAME_BYTES - 16u;
}

static bool is_taken(cutter *c, const char *name, bool is_output)
{
    const uint32_t string = st_module_string(c->module, name, strlen(name));
    return is_output ? st_map_get(&c->names, string) != 0 : st_build_has_input(c->b, name);
}

/* The value's own name, "value12" where it has none that will do. */
static void name_port(cutter *c, stator_ref value, bool is_output, char out[PORT_NAME_BYTES])
{
    const char *own = stator_string_at(c->v, stator_value_at(c->v, value)->name);
    (void)snprintf(out, PORT_NAME_BYTES, "%s", is_printable(own) ? own : "");
    if (out[0] != '\0' && !is_taken(c, out, is_output)) {
        return;
    }
    int n = snprintf(out, PORT_NAME_BYTES, "value%u", value);
    while (is_taken(c, out, is_output) && n + 1 < (int)PORT_NAME_BYTES) {
        out[n++] = '_';
        out[n] = '\0';
    }
}

/* With numbers in the place of sizes where the shape is known; 0: out of memory, or another rank.
 */
static stator_ref type_of_input(cutter *c, stator_ref value)
{
    const stator_value_row *row = stator_value_at(c->v, value);
    const DLTensor *known = c->cut->known != NULL ? c->cut->known[value] : NULL;
    const stator_type_row *type = stator_type_at(c->v, row->type);
    stator_ref dims[STATOR_RANK_MAX];
    if (known == NULL) {
        return row->type;
    }
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        dims[axis] = known->ndim == (int32_t)type->rank
                         ? st_sym_int(&c->module->symtab, known->shape[axis])
                         : 0;
        if (dims[axis] == 0) {
            return 0;
        }
    }
    return st_module_type(c->module, type->dtype, type->rank, dims);
}

static stator_status add_inputs(cutter *c, stator_diag **err)
{
    char name[PORT_NAME_BYTES];
    for (uint32_t k = 0; k < c->cut->n_inputs; k++) {
        const stator_ref value = c->cut->inputs[k];
        const stator_ref type = type_of_input(c, value);
        const stator_node_row *node = stator_value_at(c->v, value)->node != 0
                                          ? stator_node_at(c->v, stator_value_at(c->v, value)->node)
                                          : NULL;
        ST_FAIL_IF(c->map[value] != 0 ||
                       (node != NULL && c->is_kept[stator_value_at(c->v, value)->node]),
                   err, STATOR_INVALID_ARGUMENT,
                   "value %u is an input of the cut and something else as well", value);
        ST_FAIL_IF(type == 0, err, STATOR_INVALID_ARGUMENT, "value %u has no such shape", value);
        name_port(c, value, false, name);
        ST_TRY(st_build_input(c->b, name, type, &c->map[value], err));
    }
    return STATOR_OK;
}

/* The parameters that kept nodes read and that are no inputs now. */
static stator_status add_params(cutter *c, const stator_node_row *row, stator_diag **err)
{
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(c->v, row, k);
        if (value != 0 && c->map[value] == 0 &&
            (stator_value_at(c->v, value)->flags & STATOR_VALUE_PARAM) != 0) {
            ST_TRY(st_build_clone_input(c->b, c->from, value, c->map, err));
        }
    }
    return STATOR_OK;
}

static stator_status add_outputs(cutter *c, stator_diag **err)
{
    char name[PORT_NAME_BYTES];
    for (uint32_t k = 0; k < c->cut->n_outputs; k++) {
        const stator_ref value = c->cut->outputs[k];
        ST_FAIL_IF(c->map[value] == 0, err, STATOR_INVALID_ARGUMENT,
                   "output %u of the cut is not made by it", value);
        name_port(c, value, true, name);
        const uint32_t string = st_module_string(c->module, name, strlen(name));
        ST_TRY_MEM(string && st_map_put(&c->names, string, 1), err);
        ST_TRY(st_build_output(c->b, name, c->map[value], err));
    }
    return STATOR_OK;
}

/* ---- the whole ---- */

static stator_status build(cutter *c, stator_diag **err)
{
    /* Parameters first, for their names stay. */
    for (uint32_t k = 0; k < c->cut->n_inputs; k++) {
        c->map[c->cut->inputs[k]] = UINT32_MAX; /* listed: no parameter */
    }
    for (uint32_t k = 0; k < c->cut->n_nodes; k++) {
        ST_TRY(add_params(c, stator_node_at(c->v, c->cut->nodes[k]), err));
    }
    for (uint32_t k = 0; k < c->cut->n_inputs; k++) {
        c->map[c->cut->inputs[k]] = 0;
    }
    ST_TRY(add_inputs(c, err));
    for (uint32_t k = 0; k < c->cut->n_nodes; k++) {
        ST_TRY(st_build_clone_node(c->b, c->from, c->cut->nodes[k], NULL, c->map, err));
    }
    ST_TRY(add_outputs(c, err));
    for (uint32_t i = 1; i < c->b->graph->values.count; i++) {
        ((stator_value_row *)st_seg_at(&c->b->graph->values, i))->witness = 0;
    }
    return STATOR_OK;
}

/* Replaces the module's root by the cut; its graphs stay until the types are inferred anew. */
static stator_status cut_root(cutter *c, stator_diag **err)
{
    st_module *m = c->module;
    ST_TRY(mark_kept(c, err));
    if (c->cut->known != NULL) {
        ST_TRY(bind_sizes(c, err));
    }
    ST_TRY(st_builder_create(m, stator_string_at(c->v, c->v->name), &c->b, err));
    const stator_status status = build(c, err);
    if (status != STATOR_OK) {
        st_builder_abort(c->b);
        return status;
    }
    m->root = NULL; /* the next root is an import: its values are their own witnesses */
    return st_builder_finish(c->b, &m->root, err);
}

static stator_status read_cut(stator_x_cut *out, const stator_x_cut *given, stator_diag **err)
{
    ST_TRY(ST_SIZED_READ(stator_x_cut, out, given, err));
    return (out->nodes != NULL || out->n_nodes == 0) &&
                   (out->inputs != NULL || out->n_inputs == 0) &&
                   (out->outputs != NULL || out->n_outputs == 0)
               ? STATOR_OK
               : st_fail(err, STATOR_INVALID_ARGUMENT, "a list of the cut is NULL and not empty");
}

static stator_status cut_module(st_module *module, const stator_x_cut *cut, stator_diag **err)
{
    cutter c = {.cut = cut, .module = module, .from = module->root, .mem = module->mem};
    c.v = st_graph_view(c.from);
    st_map_init(&c.names, c.mem);
    c.map = st_calloc(c.mem, c.v->n_values + UINT64_C(1), sizeof *c.map);
    c.is_kept = st_calloc(c.mem, c.v->n_nodes + UINT64_C(1), sizeof *c.is_kept);
    const stator_status status =
        c.map != NULL && c.is_kept != NULL ? cut_root(&c, err) : st_fail_oom(err);
    st_free(c.mem, c.map);
    st_free(c.mem, c.is_kept);
    st_map_deinit(&c.names);
    return status;
}

stator_status stator_x_model_cut(const stator_model *model, const stator_x_cut *cut,
                                 stator_model **out_model)
{
    *out_model = NULL;
    stator_diag *diag = NULL;
    st_module *copy = NULL;
    stator_status status = st_model_copy(model, &copy, &diag);
    stator_x_cut whole;
    ST_THEN(status, read_cut(&whole, cut, &diag));
    ST_THEN(status, cut_module(copy, &whole, &diag));
    ST_THEN(status, st_model_reinfer(&copy, &diag));
    if (status == STATOR_OK) {
        /* every size needs an origin, as in a file */
        status = st_check_symbols_bound(copy->root, &diag);
    }
    return st_model_end_copy(model, copy, status, out_model, diag);
}
