/* A graph's sizes, types and constants, in the program's own tables.
 *
 * The symbols of the graph keep their numbers: SIZE symbol i of our table is syms[i] of a call, so
 * an extent can be evaluated straight from what the host hands over. */
#include "codegen/lower/unit.h"

#include "core/base/convert.h"

#include <stator/ops.h>
#include <string.h>

#define WEIGHT_DEPTH_MAX 8u    /* nodes between a constant and the contraction that reads it */
#define SPLAT_BYTES_MAX 65536u /* larger constants are loaded, not looked through */

/* ---- syms ---- */

static const stator_sym_row *graph_sym_row(const cg_unit *unit, stator_ref sym)
{
    return stator_column_at(&unit->view->syms, sym);
}

static const stator_term_row *graph_term(const cg_unit *unit, const stator_sym_row *row, uint32_t i)
{
    return stator_column_at(&unit->view->terms, row->term_begin + i);
}

static const stator_atom_row *graph_atom(const cg_unit *unit, uint32_t atom)
{
    return stator_column_at(&unit->view->atoms, atom);
}

/* Notes the atom row of every symbol in sym. */
static void find_symbols(const cg_unit *unit, stator_ref sym, uint32_t *atom_of_symbol)
{
    const stator_sym_row *row = graph_sym_row(unit, sym);
    for (uint32_t i = 0; i < row->term_count; i++) {
        const uint32_t atom = graph_term(unit, row, i)->atom;
        const stator_atom_row *at = graph_atom(unit, atom);
        if (at->kind == STATOR_ATOM_SYMBOL) {
            atom_of_symbol[at->index] = atom;
            continue;
        }
        find_symbols(unit, at->a, atom_of_symbol);
        find_symbols(unit, at->b, atom_of_symbol);
    }
}

static void find_all_symbols(const cg_unit *unit, uint32_t *atom_of_symbol)
{
    const stator_graph_view *v = unit->view;
    for (stator_ref value = 1; value <= v->n_values; value++) {
        const stator_type_row *type = stator_value_type(v, value);
        for (uint32_t a = 0; a < type->rank; a++) {
            find_symbols(unit, stator_dim_at(v, type, a), atom_of_symbol);
        }
    }
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        for (uint32_t k = 0; k < row->attr_count; k++) {
            const stator_attr_row *attr = stator_attr_at(v, row, k);
            for (uint32_t i = 0; attr->kind == STATOR_ATTR_DIMS && i < attr->count; i++) {
                find_symbols(unit, stator_ref_at(v, attr->begin + i), atom_of_symbol);
            }
        }
    }
}

static stator_status import_symbols(cg_unit *unit, stator_diag **err)
{
    const stator_graph_view *v = unit->view;
    uint32_t *atoms = st_arena_zalloc(&unit->arena, (uint64_t)v->n_symbols + 1u, sizeof *atoms);
    if (atoms == NULL) {
        return st_fail_oom(err);
    }
    find_all_symbols(unit, atoms);
    for (uint32_t i = 0; i < v->n_symbols; i++) {
        const stator_atom_row *at = atoms[i] ? graph_atom(unit, atoms[i]) : NULL;
        const st_loop_symbol size = {
            .kind = ST_SYMBOL_SIZE, .id = i, .name = at ? stator_string_at(v, at->name) : NULL};
        const int64_t lo = at ? at->lo : 0;
        const int64_t hi = at ? at->hi : INT64_MAX;
        const uint32_t sym =
            st_loop_symbol_add(unit->syms, &size, lo, hi, at && at->divisor > 0 ? at->divisor : 1);
        if (sym == 0) {
            return st_fail_oom(err);
        }
        st_sym_set_hint(&unit->syms->tab, sym, at ? at->hint : INT64_MIN);
    }
    return STATOR_OK;
}

static uint32_t import_atom(cg_unit *unit, uint32_t atom)
{
    const stator_atom_row *at = graph_atom(unit, atom);
    if (at->kind == STATOR_ATOM_SYMBOL) {
        return unit->syms->symbols.data[at->index].sym;
    }
    const uint32_t a = cg_sym(unit, at->a);
    const uint32_t b = cg_sym(unit, at->b);
    st_symtab *tab = &unit->syms->tab;
    if (a == 0 || b == 0) {
        return 0;
    }
    switch (at->kind) {
    case STATOR_ATOM_FLOORDIV:
        return st_sym_floordiv(tab, a, b);
    case STATOR_ATOM_MOD:
        return st_sym_mod(tab, a, b);
    case STATOR_ATOM_MIN:
        return st_sym_min(tab, a, b);
    case STATOR_ATOM_MAX:
        return st_sym_max(tab, a, b);
    default:
        return st_sym_mul(tab, a, b);
    }
}

uint32_t cg_sym(cg_unit *unit, stator_ref graph_sym)
{
    const uint32_t known = st_map_get(&unit->sym_memo, graph_sym);
    if (known) {
        return known;
    }
    st_symtab *tab = &unit->syms->tab;
    const stator_sym_row *row = graph_sym_row(unit, graph_sym);
    uint32_t sum = st_sym_int(tab, row->constant);
    for (uint32_t i = 0; sum && i < row->term_count; i++) {
        const stator_term_row *term = graph_term(unit, row, i);
        const uint32_t coef = st_sym_int(tab, term->coef);
        const uint32_t atom = import_atom(unit, term->atom);
        const uint32_t part = coef && atom ? st_sym_mul(tab, coef, atom) : 0;
        sum = part ? st_sym_add(tab, sum, part) : 0;
    }
    if (sum && !st_map_put(&unit->sym_memo, graph_sym, sum)) {
        return 0;
    }
    return sum;
}

uint32_t cg_numel(cg_unit *unit, stator_ref value)
{
    const cg_value *v = &unit->values[value];
    uint32_t numel = st_sym_int(&unit->syms->tab, 1);
    for (uint32_t a = 0; numel && a < v->rank; a++) {
        numel = st_sym_mul(&unit->syms->tab, numel, v->dims[a]);
    }
    return numel;
}

void cg_storage_order(const cg_value *value, uint32_t *out_axes)
{
    for (uint32_t a = 0; a < value->rank; a++) {
        out_axes[a] = value->order ? value->order[a] : a;
    }
}

int cg_strides(cg_unit *unit, const cg_value *value, uint32_t *out_strides)
{
    uint32_t order[CG_RANK_MAX];
    uint32_t stride = st_sym_int(&unit->syms->tab, 1);
    cg_storage_order(value, order);
    for (uint32_t k = value->rank; stride && k-- > 0;) {
        out_strides[order[k]] = stride;
        stride = st_sym_mul(&unit->syms->tab, stride, value->dims[order[k]]);
    }
    return stride != 0;
}

int cg_is_one(const cg_unit *unit, uint32_t sym)
{
    int64_t value = 0;
    return st_sym_const(&unit->syms->tab, sym, &value) && value == 1;
}

/* ---- values ---- */

static stator_status import_value(cg_unit *unit, stator_ref value, stator_diag **err)
{
    const stator_graph_view *v = unit->view;
    const stator_type_row *type = stator_value_type(v, value);
    uint32_t *dims = st_arena_zalloc(&unit->arena, (uint64_t)type->rank + 1u, sizeof *dims);
    if (dims == NULL) {
        return st_fail_oom(err);
    }
    for (uint32_t a = 0; a < type->rank; a++) {
        dims[a] = cg_sym(unit, stator_dim_at(v, type, a));
        if (dims[a] == 0) {
            return st_fail(err, STATOR_UNSUPPORTED,
                           "a size exceeds the limit of 16 terms, depth 4");
        }
    }
    unit->values[value] = (cg_value){.dims = dims,
                                     .rank = type->rank,
                                     .dtype = st_loop_loaded(type->dtype),
                                     .buffer = CG_NO_BUFFER};
    return STATOR_OK;
}

static void count_uses(cg_unit *unit)
{
    const stator_graph_view *v = unit->view;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        for (uint32_t k = 0; k < row->operand_count; k++) {
            unit->values[stator_operand(v, row, k)].uses++;
        }
    }
}

/* ---- operands of contractions ---- */

/* The value, and those of which views and functions of an element make it. */
static void note_weight(cg_unit *unit, stator_ref value)
{
    const stator_graph_view *v = unit->view;
    for (uint32_t depth = 0; value && depth < WEIGHT_DEPTH_MAX; depth++) {
        unit->values[value].flags |= CG_VALUE_WEIGHT;
        const stator_ref node = stator_value_at(v, value)->node;
        const stator_node_row *row = node ? stator_node_at(v, node) : NULL;
        const int is_simple =
            row && row->operand_count &&
            (stator_op_at(v, row->op)->flags & (STATOR_OP_VIEW | STATOR_OP_POINTWISE)) != 0;
        value = is_simple ? stator_operand(v, row, 0) : 0;
    }
}

/* A library multiplies with what lies in memory, so weights that are one number, as those of an
 * untrained layer may be, are loaded like any others. */
static void note_weights(cg_unit *unit)
{
    const stator_graph_view *v = unit->view;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        const cg_lowering *lowering = cg_lowering_of(row->op);
        for (uint32_t k = 0;
             lowering && lowering->fold && lowering->repeats && row->operand_count >= 2 && k < 2;
             k++) {
            note_weight(unit, stator_operand(v, row, k));
        }
    }
}

/* ---- constants ---- */

static st_loop_imm element_of(uint32_t dtype, const void *data)
{
    st_loop_imm imm = {.i = 0};
    if (st_loop_class_of(dtype) & (ST_LOOP_FLOATS | ST_LOOP_STORAGE)) {
        imm.f = st_load_f64(dtype, data, 0);
    } else {
        imm.i = st_load_i64(dtype, data, 0);
    }
    return imm;
}

/* The same of integers of four bits: are both of the first byte? */
static int is_pair_alike(uint32_t dtype, const void *data)
{
    return st_loop_loaded(dtype) == dtype ||
           st_load_i64(dtype, data, 0) == st_load_i64(dtype, data, 1);
}

/* Is each element the first one, of `size` bytes? */
static int is_splat(const stator_blob_info *info, uint64_t size)
{
    const char *bytes = info->data;
    return info->size_bytes == size ||
           (info->size_bytes <= SPLAT_BYTES_MAX &&
            memcmp(bytes, bytes + size, (size_t)(info->size_bytes - size)) == 0);
}

/* The range of a constant of a few integers, as those that a gather goes by. */
static void note_range(cg_value *v, const stator_blob_info *info, uint64_t size)
{
    const uint64_t n = info->size_bytes / size;
    if ((v->dtype != STATOR_I64 && v->dtype != STATOR_I32) || n == 0 ||
        info->size_bytes > SPLAT_BYTES_MAX) {
        return;
    }
    v->flags |= CG_VALUE_RANGED;
    v->lo = v->hi = st_load_i64(v->dtype, info->data, 0);
    for (uint64_t i = 1; i < n; i++) {
        const int64_t x = st_load_i64(v->dtype, info->data, i);
        v->lo = x < v->lo ? x : v->lo;
        v->hi = x > v->hi ? x : v->hi;
    }
}

static stator_status import_constant(cg_unit *unit, stator_ref value, stator_diag **err)
{
    const stator_host *host = unit->host;
    cg_value *v = &unit->values[value];
    stator_blob *blob = host->cst->of_value(unit->graph, value);
    stator_blob_info info = {.struct_size = sizeof info};
    const uint64_t size = st_loop_dtype_bytes(v->dtype);
    const uint32_t dtype = stator_value_type(unit->view, value)->dtype;
    if (blob == NULL || size == 0) {
        return st_fail(err, STATOR_INTERNAL, "a constant has no contents");
    }
    ST_TRY(cg_look_at_constant(unit->config, blob, &info, err));
    note_range(v, &info, size);
    const int is_loaded = (v->flags & CG_VALUE_WEIGHT) && info.size_bytes > size;
    if (info.size_bytes >= size && !is_loaded && is_splat(&info, size) &&
        is_pair_alike(dtype, info.data)) {
        v->flags |= CG_VALUE_SPLAT;
        v->splat = element_of(dtype, info.data);
        return STATOR_OK;
    }
    stator_blob **kept = st_vec_push(unit->mem, &unit->blobs);
    cg_buffer *buffer = kept ? st_vec_push(unit->mem, &unit->buffers) : NULL;
    if (buffer == NULL) {
        unit->blobs.count -= kept != NULL;
        return st_fail_oom(err);
    }
    host->cst->retain(blob);
    *kept = blob;
    *buffer = (cg_buffer){.kind = CG_BUFFER_CONSTANT,
                          .index = unit->blobs.count - 1u,
                          .dtype = dtype,
                          .numel = cg_numel(unit, value),
                          .value = value,
                          .is_unaligned_mapped =
                              (uint32_t)cg_is_unaligned_mapped(unit->config, info.size_bytes)};
    v->buffer = unit->buffers.count - 1u;
    return STATOR_OK;
}

static stator_status import_inputs(cg_unit *unit, stator_diag **err)
{
    for (uint32_t i = 0; i < unit->view->n_inputs; i++) {
        cg_buffer *buffer = st_vec_push(unit->mem, &unit->buffers);
        if (buffer == NULL) {
            return st_fail_oom(err);
        }
        *buffer = (cg_buffer){.kind = CG_BUFFER_INPUT,
                              .index = i,
                              .dtype = stator_value_type(unit->view, i + 1u)->dtype,
                              .numel = cg_numel(unit, i + 1u),
                              .value = i + 1u};
        unit->values[i + 1u].buffer = unit->buffers.count - 1u;
    }
    return STATOR_OK;
}

/* Can positions in the value be numbers of 64 bits? A size of 0 beside others hides none of them:
 * strides are made of all. */
static int is_addressable(cg_unit *unit, const cg_value *v)
{
    st_symtab *tab = &unit->syms->tab;
    uint32_t elements = st_sym_int(tab, 1);
    for (uint32_t a = 0; elements && a < v->rank; a++) {
        elements = st_loop_known_or(tab, v->dims[a], 1) == 0
                       ? elements
                       : st_sym_mul(tab, elements, v->dims[a]);
    }
    return elements != 0;
}

static int is_static(const cg_unit *unit, const cg_value *v)
{
    int64_t number = 0;
    for (uint32_t a = 0; a < v->rank; a++) {
        if (!st_sym_const(&unit->syms->tab, v->dims[a], &number)) {
            return 0;
        }
    }
    return 1;
}

/* Nodes that read an input which is too large, or make a value that is so in every call. Values
 * that exceed the limits and are stored are found when they get a buffer. */
static stator_status decline_large(cg_unit *unit, stator_diag **err)
{
    const stator_graph_view *v = unit->view;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        int is_good = 1;
        for (uint32_t k = 0; k < row->operand_count; k++) {
            const stator_ref value = stator_operand(v, row, k);
            is_good &=
                value == 0 || value > v->n_inputs || is_addressable(unit, &unit->values[value]);
        }
        for (uint32_t k = 0; k < row->result_count; k++) {
            const cg_value *made = &unit->values[row->result_begin + k];
            is_good &= !is_static(unit, made) || is_addressable(unit, made);
        }
        if (!is_good) {
            ST_TRY(cg_decline(unit, node,
                              "positions in a value exceed 64 bits or the limit of "
                              "16 terms, depth 4",
                              err));
        }
    }
    return STATOR_OK;
}

/* ---- the unit ---- */

static stator_status fill(cg_unit *unit, stator_diag **err)
{
    const stator_graph_view *v = unit->view;
    /* Behind the graph's values: one for each output that has to be a copy. */
    unit->values =
        st_calloc(unit->mem, (uint64_t)v->n_values + v->n_outputs + 1u, sizeof *unit->values);
    if (unit->values == NULL) {
        return st_fail_oom(err);
    }
    ST_TRY(import_symbols(unit, err));
    for (stator_ref value = 1; value <= v->n_values; value++) {
        ST_TRY(import_value(unit, value, err));
    }
    count_uses(unit);
    note_weights(unit);
    ST_TRY(import_inputs(unit, err));
    ST_TRY(decline_large(unit, err));
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        if (row->op == STATOR_OPCODE_constant) {
            ST_TRY(import_constant(unit, row->result_begin, err));
        } else {
            cg_note_range(unit, row);
        }
    }
    return STATOR_OK;
}

stator_status cg_unit_init(cg_unit *unit, const st_cg_config *config, const stator_graph *graph,
                           st_loop_syms *syms, stator_fuel_scope *fuel, stator_diag **err)
{
    memset(unit, 0, sizeof *unit);
    unit->config = config;
    unit->host = config->host;
    unit->mem = config->mem;
    unit->graph = graph;
    unit->view = config->host->ir->view(graph);
    unit->fuel = fuel;
    unit->syms = syms;
    unit->scope = "";
    st_arena_init(&unit->arena, unit->mem);
    st_map_init(&unit->sym_memo, unit->mem);
    st_str_init(&unit->hints, unit->mem);
    return fill(unit, err);
}

void cg_unit_deinit(cg_unit *unit)
{
    for (uint32_t i = 0; i < unit->blobs.count; i++) {
        unit->host->cst->release(unit->blobs.data[i]);
    }
    for (uint32_t i = 0; i < unit->groups.count; i++) {
        st_vec_free(unit->mem, &unit->groups.data[i].roots);
    }
    st_vec_free(unit->mem, &unit->blobs);
    st_vec_free(unit->mem, &unit->buffers);
    st_vec_free(unit->mem, &unit->roots);
    st_vec_free(unit->mem, &unit->needs);
    st_vec_free(unit->mem, &unit->groups);
    st_vec_free(unit->mem, &unit->declined);
    st_vec_free(unit->mem, &unit->binds);
    st_free(unit->mem, unit->values);
    st_map_deinit(&unit->sym_memo);
    st_str_deinit(&unit->hints);
    st_vec_free(unit->mem, &unit->hinted);
    st_arena_deinit(&unit->arena);
}

/* ---- reading a node ---- */

cg_node cg_node_of(cg_unit *unit, stator_ref node)
{
    const stator_node_row *row = stator_node_at(unit->view, node);
    return (cg_node){unit, node, row, &unit->values[row->result_begin]};
}

const stator_attr_row *cg_attr(const cg_node *node, uint32_t k)
{
    return stator_attr_at(node->unit->view, node->row, k);
}

uint32_t cg_attr_dim(const cg_node *node, uint32_t k, uint32_t i)
{
    const stator_graph_view *v = node->unit->view;
    return cg_sym(node->unit, stator_ref_at(v, cg_attr(node, k)->begin + i));
}

int64_t cg_attr_int_at(const cg_node *node, uint32_t k, uint32_t i)
{
    const stator_graph_view *v = node->unit->view;
    return *(const int64_t *)stator_column_at(&v->i64s, cg_attr(node, k)->begin + i);
}

const char *cg_attr_text(const cg_node *node, uint32_t k)
{
    const stator_attr_row *attr = cg_attr(node, k);
    return attr->kind == STATOR_ATTR_STRING ? stator_string_at(node->unit->view, attr->begin) : "";
}

int cg_attr_is(const cg_node *node, uint32_t k, const char *text)
{
    return strcmp(cg_attr_text(node, k), text) == 0;
}

stator_ref cg_operand(const cg_node *node, uint32_t k)
{
    return stator_operand(node->unit->view, node->row, k);
}

stator_status cg_decline(cg_unit *unit, stator_ref node, const char *reason, stator_diag **err)
{
    cg_declined *at = st_vec_push(unit->mem, &unit->declined);
    if (at == NULL) {
        return st_fail_oom(err);
    }
    *at = (cg_declined){node, reason};
    return STATOR_OK;
}

const cg_value *cg_value_of(const cg_unit *unit, stator_ref value)
{
    return &unit->values[value];
}
