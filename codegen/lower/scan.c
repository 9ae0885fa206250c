/* Which scans are taken: those whose body keeps every size and whose slices lie one behind the
 * other. A scan is no kernel: it is a step of the launch plan (plan_scan.c). */
#include "codegen/lower/lower.h"

#include <stator/ops.h>

int64_t cg_scan_list_at(const stator_graph_view *v, const stator_node_row *row, uint32_t attr,
                        uint32_t i)
{
    const stator_attr_row *list = stator_attr_at(v, row, attr);
    return list->kind == STATOR_ATTR_INTS && i < list->count ? stator_attr_int_at(v, list, i) : 0;
}

uint32_t cg_scan_count(const stator_graph_view *v, const stator_node_row *row, uint32_t attr)
{
    return (uint32_t)stator_attr_at(v, row, attr)->i;
}

/* Is `inner` the type of `whole`, without its first axis when that is cut? */
static bool is_slice(const stator_graph_view *v, const stator_type_row *whole,
                     const stator_type_row *inner, uint32_t is_cut)
{
    if (whole->dtype != inner->dtype || whole->rank != inner->rank + is_cut) {
        return false;
    }
    for (uint32_t a = 0; a < inner->rank; a++) {
        if (stator_dim_at(v, whole, a + is_cut) != stator_dim_at(v, inner, a)) {
            return false;
        }
    }
    return true;
}

static bool is_first_axis(int64_t axis, uint32_t rank)
{
    return axis == 0 || axis + (int64_t)rank == 0;
}

static const char *inputs_refuse(const stator_graph_view *v, const stator_node_row *row,
                                 const stator_graph_view *body)
{
    const uint32_t carried = cg_scan_count(v, row, STATOR_scan_carried);
    const uint32_t scanned = cg_scan_count(v, row, STATOR_scan_scanned);
    if (body->n_inputs != row->operand_count) {
        return "a scan whose body has other inputs";
    }
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_type_row *type = stator_value_type(v, stator_operand(v, row, k));
        const uint32_t is_cut = k >= carried && k < carried + scanned;
        if (is_cut &&
            !is_first_axis(cg_scan_list_at(v, row, STATOR_scan_axes, k - carried), type->rank)) {
            return "a scan along an axis that is not the first";
        }
        if (!is_slice(v, type, stator_value_type(body, k + 1u), is_cut)) {
            return "a scan whose body states other sizes than its operands";
        }
    }
    return NULL;
}

static const char *outputs_refuse(const stator_graph_view *v, const stator_node_row *row,
                                  const stator_graph_view *body)
{
    const uint32_t carried = cg_scan_count(v, row, STATOR_scan_carried);
    if (body->n_outputs != row->result_count) {
        return "a scan whose body has other outputs";
    }
    for (uint32_t k = 0; k < row->result_count; k++) {
        const stator_type_row *type = stator_value_type(v, row->result_begin + k);
        const uint32_t is_cut = k >= carried;
        if (is_cut && !is_first_axis(cg_scan_list_at(v, row, STATOR_scan_out_axes, k - carried),
                                     type->rank)) {
            return "a scan that stacks along an axis that is not the first";
        }
        if (!is_slice(v, type, stator_value_type(body, stator_output_at(body, k)), is_cut)) {
            return "a scan of values whose size changes";
        }
    }
    return NULL;
}

uint32_t cg_scan_binds(const stator_graph_view *body)
{
    uint32_t n = 0;
    for (stator_ref node = 1; node <= body->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(body, node);
        if (row->op == STATOR_OPCODE_sym_bind) {
            n += stator_attr_at(body, row, STATOR_sym_bind_syms)->count;
        }
    }
    return n;
}

/* Sizes that a step tells are different at each; those of results are not. */
static bool are_outputs_known(const stator_graph_view *body)
{
    int64_t size = 0;
    for (uint32_t k = 0; k < body->n_outputs; k++) {
        const stator_type_row *type = stator_value_type(body, stator_output_at(body, k));
        for (uint32_t a = 0; a < type->rank; a++) {
            if (!stator_sym_is_const(body, stator_dim_at(body, type, a), &size)) {
                return false;
            }
        }
    }
    return true;
}

const char *cg_scan_refuses(const stator_host *host, const stator_graph_view *v,
                            const stator_node_row *row)
{
    const stator_graph_view *body = host->ir->view(stator_region_at(v, row, 0));
    if (cg_scan_count(v, row, STATOR_scan_scanned) == 0) {
        return "a scan over nothing";
    }
    if (cg_scan_binds(body) > CG_STEP_SIZES_MAX) {
        return "a scan whose steps bind too many sizes";
    }
    if (cg_scan_binds(body) && !are_outputs_known(body)) {
        return "a scan whose steps bind the sizes of its results";
    }
    const char *why = inputs_refuse(v, row, body);
    return why ? why : outputs_refuse(v, row, body);
}

void cg_scan_write(cg_nest *nest, const cg_node *node)
{
    (void)node;
    cg_refuse(nest, "a scan is no kernel");
}
