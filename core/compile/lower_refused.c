/* Decomposing what a fallback refuses; see lower_refused.h.
 *
 *     y = mse_loss(x, t)    ->    d = sub(x, t)  l = mul(d, d)  ...        (eager has no mse_loss)
 *
 * In: the graph of a part that goes to a fallback. Out: one that holds no composite which that
 * backend refuses. The part has nowhere else to go, so this is no choice and fuel is not asked: the
 * same nodes go the same way under every limit. Each graph, or region, is asked about once. */
#include "core/compile/lower_refused.h"

#include "core/base/map.h"
#include "core/base/vec.h"
#include "core/context/ctx.h"
#include "ir/passes/pass.h"

typedef struct answers {
    stator_instance *backend;
    st_mem *mem;
    st_vec(uint8_t *) accepts; /* one a graph: by node, whether the backend runs it */
    st_map place_of;           /* address of a graph -> place in accepts + 1 */
    stator_status status;
    stator_diag **err;
} answers;

/* Asks about a graph that was not asked about yet. */
static stator_status ask(answers *a, const stator_graph *graph, uint32_t *out_place)
{
    uint8_t **slot = st_vec_push(a->mem, &a->accepts);
    ST_TRY_MEM(slot, a->err);
    *slot = st_calloc(a->mem, st_graph_view(graph)->n_nodes + UINT64_C(1), 1);
    *out_place = a->accepts.count;
    ST_TRY_MEM(*slot != NULL &&
                   st_map_put(&a->place_of, (uint64_t)(uintptr_t)graph, a->accepts.count),
               a->err);
    return st_instance_capability(a->backend, graph, *slot, NULL, NULL, a->err);
}

/* After a failure it runs all: nothing changes any more. */
static int32_t runs(void *self, const stator_graph *graph, stator_ref node)
{
    answers *a = self;
    uint32_t place = st_map_get(&a->place_of, (uint64_t)(uintptr_t)graph);
    if (place == 0 && a->status == STATOR_OK) {
        a->status = ask(a, graph, &place);
    }
    return a->status != STATOR_OK || a->accepts.data[place - 1u][node];
}

static bool runs_all(answers *a, const stator_graph *graph)
{
    const uint32_t n_nodes = st_graph_view(graph)->n_nodes;
    stator_ref node = 1;
    while (node <= n_nodes && runs(a, graph, node)) {
        node++;
    }
    return node > n_nodes;
}

stator_status st_lower_refused(stator_instance *backend, stator_graph *graph,
                               stator_graph **out_graph, stator_diag **err)
{
    answers a = {.backend = backend, .mem = &backend->ctx->mem, .err = err};
    const st_pass_ctx ctx = {.mem = a.mem, .keep = runs, .keep_self = &a};
    stator_status status = STATOR_OK;
    *out_graph = graph;
    st_map_init(&a.place_of, a.mem);
    if (!runs_all(&a, graph)) {
        status = st_pass_run(st_pass_find("decompose"), &ctx, graph, out_graph, err);
    }
    for (uint32_t i = 0; i < a.accepts.count; i++) {
        st_free(a.mem, a.accepts.data[i]);
    }
    st_vec_free(a.mem, &a.accepts);
    st_map_deinit(&a.place_of);
    return a.status != STATOR_OK ? a.status : status;
}
