/* The host table's `build` and `types` sub-tables: adapters over the builder and the symbolic
 * engine of the builder's module. */
#include "ir/graph.h"
#include "ir/sizes/size_plan.h"
#include <string.h>

static const stator_graph_view *build_view(stator_builder *b)
{
    return st_graph_view(b->graph);
}

static uint32_t count_call_inputs(const stator_graph *g)
{
    uint32_t n = 0;
    for (stator_ref value = 1; value <= g->n_inputs; value++) {
        const stator_value_row *row = st_seg_at(&g->values, value);
        n += (row->flags & STATOR_VALUE_PARAM) == 0;
    }
    return n;
}

/* A frontend reads the types of its inputs back, so that an import under a plan of sizes needs
 * nothing from it. */
static stator_status build_input(stator_builder *b, const char *name, stator_ref type,
                                 stator_ref *out, stator_diag **err)
{
    const st_size_plan *plan = b->module->plan;
    if (plan != NULL && plan->axes.count != 0 && b->parent == NULL && type != 0 &&
        type < b->module->types.count) {
        type = st_size_plan_type(plan, b->module, count_call_inputs(b->graph), type);
        ST_TRY_MEM(type, err);
    }
    return st_build_input(b, name, type, out, err);
}

static uint32_t build_find_op(stator_builder *b, const char *name)
{
    return st_optable_find(b->module->ops, name);
}

const stator_build_api st_build_api = {
    .struct_size = sizeof st_build_api,
    .view = build_view,
    .input = build_input,
    .param = st_build_param,
    .node = st_build_node,
    .constant = st_build_constant,
    .constant_blob = st_build_constant_blob,
    .output = st_build_output,
    .write_back = st_build_write_back,
    .expr = st_build_expr,
    .region_begin = st_build_region_begin,
    .region_end = st_build_region_end,
    .region_abort = st_build_region_abort,
    .set_origin = st_build_set_origin,
    .set_origin_ref = st_build_set_origin_ref,
    .set_witness = st_build_set_witness,
    .set_name = st_build_set_name,
    .clone = st_build_clone,
    .known_ints = st_build_known_ints,
    .as_dims = st_build_as_dims,
    .from_dims = st_build_from_dims,
    .find_op = build_find_op,
};

static stator_ref types_tensor(stator_builder *b, stator_dtype dtype, uint32_t rank,
                               const stator_ref *dims)
{
    return st_module_type(b->module, dtype, rank, dims);
}

static stator_ref types_sym_int(stator_builder *b, int64_t value)
{
    return st_sym_int(&b->module->symtab, value);
}

static stator_ref types_sym_symbol(stator_builder *b, const char *name, int64_t lo, int64_t hi,
                                   int64_t divisor)
{
    const uint32_t string = st_module_string(b->module, name, name != NULL ? strlen(name) : 0);
    if (string == 0 || lo > hi || divisor < 1) {
        return 0;
    }
    return st_sym_symbol(&b->module->symtab, string, lo, hi, divisor, 0);
}

static stator_ref types_sym_unbacked(stator_builder *b, int64_t lo, int64_t hi)
{
    return lo > hi ? 0 : st_sym_symbol(&b->module->symtab, 0, lo, hi, 1, 1u);
}

static bool is_sym(const stator_builder *b, stator_ref sym)
{
    return sym != 0 && sym < b->module->symtab.syms.count;
}

static stator_ref types_sym_op(stator_builder *b, uint32_t op, stator_ref lhs, stator_ref rhs)
{
    return is_sym(b, lhs) && is_sym(b, rhs) ? st_sym_op(&b->module->symtab, op, lhs, rhs) : 0;
}

static int32_t types_sym_compare(stator_builder *b, uint32_t op, stator_ref lhs, stator_ref rhs)
{
    st_symtab *tab = &b->module->symtab;
    if (!is_sym(b, lhs) || !is_sym(b, rhs)) {
        return -1;
    }
    return op == STATOR_SYM_EQ   ? st_sym_eq(tab, lhs, rhs)
           : op == STATOR_SYM_LT ? st_sym_lt(tab, lhs, rhs)
           : op == STATOR_SYM_LE ? st_sym_le(tab, lhs, rhs)
                                 : -1;
}

static void types_sym_range(stator_builder *b, stator_ref sym, int64_t *out_lo, int64_t *out_hi)
{
    *out_lo = INT64_MIN;
    *out_hi = INT64_MAX;
    if (is_sym(b, sym)) {
        st_sym_range(&b->module->symtab, sym, out_lo, out_hi);
    }
}

const stator_types_api st_types_api = {
    .struct_size = sizeof st_types_api,
    .tensor = types_tensor,
    .sym_int = types_sym_int,
    .sym_symbol = types_sym_symbol,
    .sym_unbacked = types_sym_unbacked,
    .sym_op = types_sym_op,
    .sym_compare = types_sym_compare,
    .sym_range = types_sym_range,
};
