/* An op library for tests of kernels that libraries bring: which of kernel and decomposition ran,
 * what the kernel is given, and when it must not be called.
 *
 *     two_answers(x)      kernel: x + 1, decomposition: x + 2 (a mistake that compare must find)
 *     told(x, y?)         kernel alone; writes what it was given: see run_told
 *     own_size(x)         a result size that only nonzero tells: the kernel cannot run
 *     never(x)            its kernel fails without a text */
#include <stator/plugin.h>

#include <string.h>

static stator_status infer_same(void *self, stator_builder *b, const stator_node_desc *node,
                                stator_ref *out_types, uint32_t n_types, stator_diag **err)
{
    const stator_host *host = self;
    const stator_graph_view *v = host->build->view(b);
    (void)n_types, (void)err;
    out_types[0] = stator_value_at(v, node->operands[0])->type;
    return STATOR_OK;
}

static int64_t count_of(const DLTensor *t)
{
    int64_t n = 1;
    for (int32_t axis = 0; axis < t->ndim; axis++) {
        n *= t->shape[axis];
    }
    return n;
}

static stator_status run_two(void *self, uint32_t n_in, const DLTensor *in, uint32_t n_out,
                             DLTensor *out, const stator_attr *attrs, uint32_t n_attrs,
                             stator_diag **err)
{
    const float *x = in[0].data;
    float *y = out[0].data;
    (void)self, (void)n_in, (void)n_out, (void)attrs, (void)n_attrs, (void)err;
    for (int64_t i = 0; i < count_of(&in[0]); i++) {
        y[i] = x[i] + 1.0f;
    }
    return STATOR_OK;
}

/* ---- told ---- */

enum { FACTS = 8 };

static stator_status infer_told(void *self, stator_builder *b, const stator_node_desc *node,
                                stator_ref *out_types, uint32_t n_types, stator_diag **err)
{
    const stator_host *host = self;
    const stator_ref size = host->types->sym_int(b, FACTS);
    (void)node, (void)n_types, (void)err;
    out_types[0] = host->types->tensor(b, STATOR_F64, 1, &size);
    return STATOR_OK;
}

/* 0: bits of x; 1: bits of y, 0 when absent; 2: elements of x; 3: length of text; 4: sum of list;
 * 5: sum of numbers; 6: product of sizes; 7: kinds are right and `none` is absent. */
static stator_status run_told(void *self, uint32_t n_in, const DLTensor *in, uint32_t n_out,
                              DLTensor *out, const stator_attr *attrs, uint32_t n_attrs,
                              stator_diag **err)
{
    static const char *const names[] = {"text", "list", "numbers", "sizes", "none"};
    double *facts = out[0].data;
    (void)self, (void)n_out, (void)err;
    facts[0] = in[0].dtype.bits;
    facts[1] = n_in > 1 ? in[1].dtype.bits : 0;
    facts[2] = (double)count_of(&in[0]);
    facts[3] = (double)strlen(attrs[0].s);
    facts[4] = facts[5] = 0;
    facts[6] = 1;
    facts[7] = n_attrs == 5 && attrs[3].kind == STATOR_ATTR_INTS &&
               attrs[4].kind == STATOR_ATTR_NONE && in[0].device.device_type == kDLCPU &&
               in[0].strides == NULL && out[0].shape[0] == FACTS;
    for (uint32_t k = 0; k < n_attrs; k++) {
        facts[7] *= strcmp(attrs[k].name, names[k]) == 0;
        for (uint32_t i = 0; i < attrs[k].count; i++) {
            facts[4] += k == 1 ? (double)((const int64_t *)attrs[k].list)[i] : 0;
            facts[5] += k == 2 ? ((const double *)attrs[k].list)[i] : 0;
            facts[6] *= k == 3 ? (double)((const int64_t *)attrs[k].list)[i] : 1;
        }
    }
    return STATOR_OK;
}

static const stator_attr_desc told_attrs[] = {
    {.name = "text", .kind = STATOR_ATTR_STRING, .s = "four"},
    {.name = "list", .kind = STATOR_ATTR_INTS, .s = "[1, 2, 3]"},
    {.name = "numbers", .kind = STATOR_ATTR_FLOATS, .is_required = 1},
    {.name = "sizes", .kind = STATOR_ATTR_DIMS, .is_required = 1},
    {.name = "none", .kind = STATOR_ATTR_INTS, .s = "none"},
};

/* ---- own_size, never ---- */

static stator_status infer_own(void *self, stator_builder *b, const stator_node_desc *node,
                               stator_ref *out_types, uint32_t n_types, stator_diag **err)
{
    const stator_host *host = self;
    stator_ref dims[2];
    (void)node, (void)n_types, (void)err;
    dims[0] = host->types->sym_int(b, 1);
    dims[1] = host->types->sym_unbacked(b, 0, 1 << 20);
    out_types[0] = host->types->tensor(b, STATOR_I64, 2, dims);
    return STATOR_OK;
}

static stator_status run_never(void *self, uint32_t n_in, const DLTensor *in, uint32_t n_out,
                               DLTensor *out, const stator_attr *attrs, uint32_t n_attrs,
                               stator_diag **err)
{
    (void)self, (void)n_in, (void)in, (void)n_out, (void)out, (void)attrs, (void)n_attrs, (void)err;
    return STATOR_OUT_OF_RANGE;
}

/* ---- the plugin ---- */

#define DESC(name_, operands_, doc_)                                                               \
    .struct_size = sizeof(stator_op_desc), .version = 1, .name = (name_), .operands = (operands_), \
    .results = "y", .doc = (doc_)

static const stator_oplib_op ops[] = {
    {.desc = {DESC("two_answers", "x", "x + 1 or x + 2"), .body = "x + 2"},
     .infer = infer_same,
     .kernel = run_two},
    {.desc = {DESC("told", "x, y?", "what it was given"), .attrs = told_attrs, .attr_count = 5},
     .infer = infer_told,
     .kernel = run_told},
    {.desc = {DESC("own_size", "x", "nonzero"), .body = "nonzero(x)"},
     .infer = infer_own,
     .kernel = run_never},
    {.desc = {DESC("never", "x", "fails")}, .infer = infer_same, .kernel = run_never},
};

static const stator_oplib library = {
    .item = STATOR_ITEM(stator_oplib, STATOR_KIND_OPLIB, "answers", "ops whose kernels are tested"),
    .ops = ops,
    .op_count = sizeof ops / sizeof ops[0],
    .op_stride = sizeof(stator_oplib_op),
};

static const stator_item *const items[] = {&library.item};

STATOR_PLUGIN("answers", "1.0.0", "", "[\"oplib\"]", "", items, stator_init_host, NULL);
