/* A graph's types and constants, in the program's own tables. */
#include "codegen/lower/unit.h"

#include "core/base/convert.h"

#include <stator/ops.h>
#include <string.h>

#define WEIGHT_DEPTH_MAX 8u    /* nodes between a constant and the contraction that reads it */
#define SPLAT_BYTES_MAX 65536u /* larger constants are loaded, not looked through */

/* ---- values ---- */

static stator_status import_value(cg_unit *unit, stator_ref value, stator_diag **err)
{
    const stator_graph_view *v = unit->view;
    const stator_type_row *type = stator_value_type(v, value);
    uint32_t *dims = st_arena_zalloc(&unit->arena, (uint64_t)type->rank + 1u, sizeof *dims);
    ST_TRY_MEM(dims, err);
    for (uint32_t a = 0; a < type->rank; a++) {
        dims[a] = cg_sym(unit, stator_dim_at(v, type, a));
        ST_FAIL_IF(dims[a] == 0, err, STATOR_UNSUPPORTED,
                   "a size exceeds the limit of 16 terms, depth 4");
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
        const bool is_simple =
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
        for (uint32_t k = 0; cg_sums_products(row) && k < 2; k++) {
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
static bool is_pair_alike(uint32_t dtype, const void *data)
{
    return st_loop_loaded(dtype) == dtype ||
           st_load_i64(dtype, data, 0) == st_load_i64(dtype, data, 1);
}

/* Is each element the first one, of `size` bytes? */
static bool is_splat(const stator_blob_info *info, uint64_t size)
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
    const uint64_t size = st_element_bytes(v->dtype);
    const uint32_t dtype = stator_value_type(unit->view, value)->dtype;
    ST_FAIL_IF(blob == NULL || size == 0, err, STATOR_INTERNAL, "a constant has no contents");
    ST_TRY(cg_look_at_constant(unit->config, blob, &info, err));
    note_range(v, &info, size);
    const bool is_loaded = (v->flags & CG_VALUE_WEIGHT) && info.size_bytes > size;
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
        ST_TRY_MEM(buffer, err);
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
static bool is_addressable(cg_unit *unit, const cg_value *v)
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

static bool is_static(const cg_unit *unit, const cg_value *v)
{
    int64_t number = 0;
    for (uint32_t a = 0; a < v->rank; a++) {
        if (!st_sym_const(&unit->syms->tab, v->dims[a], &number)) {
            return false;
        }
    }
    return true;
}

/* Nodes that read an input which is too large, or make a value that is so in every call. Values
 * that exceed the limits and are stored are found when they get a buffer. */
static stator_status decline_large(cg_unit *unit, stator_diag **err)
{
    const stator_graph_view *v = unit->view;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        bool is_good = true;
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
    ST_TRY_MEM(unit->values, err);
    ST_TRY(cg_import_symbols(unit, err));
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
    unit->lowering_of = cg_lowering_of;
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
