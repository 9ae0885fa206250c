/* Evaluating one node over constants, for constant folding: a graph of that node alone is compiled
 * and run on the reference backend. See compile.h. */
#include "core/compile/compile.h"

#include "core/base/check.h"

#define RESULTS_MAX 8u
#define FOLDED_BYTES_MAX                                                                           \
    (UINT64_C(64) << 20) /* larger results cost more to keep than to compute  \
                                               */

typedef struct result_buffer {
    stator_blob *blob;
    DLTensor tensor;
    int64_t shape[STATOR_RANK_MAX];
} result_buffer;

/* The graph of the node alone, its operands cloned constants. */
static stator_status single_node_graph(const stator_graph *graph, stator_ref node,
                                       stator_graph **out_graph, stator_diag **err)
{
    st_mem *mem = graph->module->mem;
    const stator_graph_view *v = st_graph_view(graph);
    const stator_node_row *row = stator_node_at(v, node);
    stator_ref *map = st_calloc(mem, v->n_values + 1u, sizeof *map);
    stator_builder *b = NULL;
    stator_status status = map != NULL ? STATOR_OK : st_fail_oom(err);
    ST_THEN(status, st_builder_create(graph->module, "fold", &b, err));
    for (uint32_t k = 0; status == STATOR_OK && k < row->operand_count; k++) {
        const stator_ref operand = stator_operand(v, row, k);
        if (operand != 0 && map[operand] == 0) {
            const stator_ref producer = stator_value_at(v, operand)->node;
            status = st_build_clone(b, graph, producer, producer, map, err);
        }
    }
    ST_THEN(status, st_build_clone(b, graph, node, node, map, err));
    for (uint32_t k = 0; status == STATOR_OK && k < row->result_count; k++) {
        status = st_build_output(b, "y", map[row->result_begin + k], err);
    }
    st_free(mem, map);
    if (status != STATOR_OK) {
        if (b != NULL) {
            st_builder_abort(b);
        }
        return status;
    }
    return st_builder_finish(b, out_graph, err);
}

static stator_status make_buffer(stator_ctx *ctx, const stator_graph_view *v, stator_ref value,
                                 result_buffer *out, stator_diag **err)
{
    const stator_type_row *type = stator_value_type(v, value);
    uint64_t count = 0;
    uint64_t bytes = 0;
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        if (!stator_sym_is_const(v, stator_dim_at(v, type, axis), &out->shape[axis])) {
            return STATOR_UNSUPPORTED;
        }
    }
    if (!st_numel(out->shape, type->rank, &count) || !st_dtype_bytes(type->dtype, count, &bytes) ||
        bytes > FOLDED_BYTES_MAX) {
        return STATOR_UNSUPPORTED;
    }
    void *data = NULL;
    out->blob = st_blob_alloc(&ctx->mem, bytes, &data);
    ST_TRY_MEM(out->blob, err);
    out->tensor = (DLTensor){.data = data,
                             .device = {.device_type = kDLCPU},
                             .ndim = (int32_t)type->rank,
                             .dtype = st_dtype_to_dl(type->dtype),
                             .shape = out->shape};
    return STATOR_OK;
}

static stator_status refuse_alloc(const stator_call *call, uint32_t k, uint32_t rank,
                                  const int64_t *shape, stator_diag **err)
{
    (void)call;
    (void)rank;
    (void)shape;
    return st_fail(err, STATOR_UNSUPPORTED, "result %u has no fixed shape", k);
}

static stator_status run_once(stator_instance *evaluator, stator_graph *graph, uint32_t n_results,
                              result_buffer *buffers, stator_diag **err)
{
    stator_ctx *ctx = evaluator->ctx;
    const uint32_t n_syms = st_graph_view(graph)->n_symbols;
    void *exe = NULL;
    ST_TRY(st_instance_compile(evaluator, graph, NULL, &exe, err));
    stator_exe_info info = {.struct_size = sizeof info};
    DLTensor out[RESULTS_MAX];
    for (uint32_t k = 0; k < n_results; k++) {
        out[k] = buffers[k].tensor;
    }
    stator_status status = st_instance_exe_info(evaluator, exe, &info);
    void *workspace = st_alloc(&ctx->mem, info.workspace_bytes, 64);
    int64_t *syms = st_alloc(&ctx->mem, (n_syms + 1u) * sizeof *syms, 8);
    if (status == STATOR_OK && (workspace == NULL || syms == NULL)) {
        status = st_fail_oom(err);
    }
    for (uint32_t i = 0; syms != NULL && i < n_syms; i++) {
        syms[i] = INT64_MIN;
    }
    if (status == STATOR_OK) {
        const stator_call call = {.struct_size = sizeof call,
                                  .n_out = n_results,
                                  .n_syms = n_syms,
                                  .out = out,
                                  .syms = syms,
                                  .workspace = workspace,
                                  .workspace_bytes = info.workspace_bytes,
                                  .ctx = ctx,
                                  .alloc_output = refuse_alloc};
        status = st_instance_run(evaluator, exe, &call, err);
    }
    st_free(&ctx->mem, workspace);
    st_free(&ctx->mem, syms);
    st_instance_exe_destroy(evaluator, exe);
    return status;
}

stator_status st_evaluate_node(void *self, const stator_graph *graph, stator_ref node,
                               stator_blob **out_blobs, stator_diag **err)
{
    stator_instance *evaluator = self;
    const stator_graph_view *v = st_graph_view(graph);
    const stator_node_row *row = stator_node_at(v, node);
    result_buffer buffers[RESULTS_MAX] = {0};
    if (row->result_count > RESULTS_MAX) {
        return STATOR_UNSUPPORTED;
    }
    stator_status status = STATOR_OK;
    for (uint32_t k = 0; status == STATOR_OK && k < row->result_count; k++) {
        status = make_buffer(evaluator->ctx, v, row->result_begin + k, &buffers[k], err);
    }
    stator_graph *single = NULL;
    ST_THEN(status, single_node_graph(graph, node, &single, err));
    ST_THEN(status, run_once(evaluator, single, row->result_count, buffers, err));
    for (uint32_t k = 0; k < row->result_count; k++) {
        if (status == STATOR_OK) {
            out_blobs[k] = buffers[k].blob;
        } else {
            st_blob_release(buffers[k].blob);
        }
    }
    return status;
}
