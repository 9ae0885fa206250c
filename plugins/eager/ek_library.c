/* Ops of third-party libraries that bring a kernel of their own: eager calls it, as the reference.
 *
 * In: operands and attributes of one call. Out: the same as the library sees them, DLPack tensors
 * and attributes by name; sizes in DIMS attributes are evaluated, so they go as INTS. Results have
 * their memory already: the library's infer function gave their sizes. */
#include "plugins/eager/eager_execution_plan.h"

static DLTensor to_dlpack(const ek_tensor *t)
{
    return (DLTensor){.data = t->data,
                      .device = {kDLCPU, 0},
                      .ndim = (int32_t)t->rank,
                      .dtype = st_dtype_to_dl(t->dtype),
                      .shape = (int64_t *)(uintptr_t)t->dims};
}

static stator_attr to_attr(const char *name, const ek_attr *attr)
{
    return (stator_attr){.name = name,
                         .kind = attr->kind == STATOR_ATTR_DIMS ? STATOR_ATTR_INTS : attr->kind,
                         .count = attr->count,
                         .i = attr->i,
                         .f = attr->f,
                         .s = attr->s,
                         .list = attr->kind == STATOR_ATTR_FLOATS ? (const void *)attr->floats
                                                                  : (const void *)attr->ints};
}

/* The library's text behind the node's name. Takes the diag. */
static stator_status at_node(const ek_call *c, stator_status status, stator_diag *why,
                             stator_diag **err)
{
    const stator_diag_api *diag = c->self->host->diag;
    if (why == NULL) { /* the host may have had no memory for it */
        return status;
    }
    (void)ek_fail(c, err, status, "%s", diag->text(why));
    if (err && *err && diag->hint(why)) {
        diag->set_hint(*err, diag->hint(why));
    }
    diag->release(why);
    return status;
}

stator_status ek_library(const ek_call *c, stator_diag **err)
{
    const stator_oplib_op *op = c->step->library.op;
    DLTensor *tensors = ek_scratch(c, (int64_t)c->n_in + c->n_out, sizeof *tensors);
    stator_attr *attrs = ek_scratch(c, (int64_t)c->n_attrs + 1, sizeof *attrs);
    EK_TRY_MEM(tensors && attrs, c, err);
    for (uint32_t k = 0; k < c->n_in; k++) {
        tensors[k] = to_dlpack(&c->in[k]);
    }
    for (uint32_t k = 0; k < c->n_out; k++) {
        tensors[c->n_in + k] = to_dlpack(&c->out[k]);
    }
    for (uint32_t k = 0; k < c->n_attrs; k++) {
        attrs[k] = to_attr(op->desc.attrs[k].name, &c->attrs[k]);
    }
    stator_diag *why = NULL;
    const stator_status status = op->kernel(c->step->library.self, c->n_in, tensors, c->n_out,
                                            tensors + c->n_in, attrs, c->n_attrs, &why);
    return status == STATOR_OK ? STATOR_OK : at_node(c, status, why, err);
}

/* Does an operand's type or an attribute hold this size? */
static bool is_size_of_operand(const stator_graph_view *v, const stator_node_row *node,
                               stator_ref sym)
{
    for (uint32_t k = 0; k < node->operand_count; k++) {
        const stator_ref value = stator_operand(v, node, k);
        const stator_type_row *type = value ? stator_value_type(v, value) : NULL;
        for (uint32_t a = 0; type && a < type->rank; a++) {
            if (stator_dim_at(v, type, a) == sym) {
                return true;
            }
        }
    }
    for (uint32_t k = 0; k < node->attr_count; k++) {
        const stator_attr_row *attr = stator_attr_at(v, node, k);
        for (uint32_t i = 0; attr->kind == STATOR_ATTR_DIMS && i < attr->count; i++) {
            if (stator_ref_at(v, attr->begin + i) == sym) {
                return true;
            }
        }
    }
    return false;
}

const char *eager_library_refusal(const stator_graph_view *v, const stator_node_row *node)
{
    const stator_op_desc *op = stator_op_at(v, node->op);
    if ((op->flags & STATOR_OP_UNBACKED) || node->region_count) {
        return "has regions or results whose sizes only its kernel tells";
    }
    for (uint32_t k = 0; k < node->attr_count; k++) {
        if (stator_attr_at(v, node, k)->kind == STATOR_ATTR_BLOB) {
            return "has an attribute that is a blob";
        }
    }
    for (uint32_t r = 0; r < node->result_count; r++) {
        const stator_type_row *type = stator_value_type(v, node->result_begin + r);
        for (uint32_t a = 0; a < type->rank; a++) {
            const stator_ref sym = stator_dim_at(v, type, a);
            if (eager_is_unbacked(v, sym) && !is_size_of_operand(v, node, sym)) {
                return "has a result whose size its operands do not tell";
            }
        }
    }
    return NULL;
}
