/* A backend that opens the test backend "divided" and hands everything through, for the options of
 * nested backends: `divided.ops=...` given with this backend must reach the other.
 *
 * Option: `named` passes the options on by name, else the host takes those of the creation that
 * goes on. */
#include <stator/plugin.h>

#include <string.h>

typedef struct instance {
    const stator_host *host;
    stator_instance *inner;
} instance;

static stator_status init(const stator_host *host, void **out_self, stator_diag **err)
{
    (void)err;
    *out_self = (void *)(uintptr_t)host;
    return STATOR_OK;
}

static void destroy(void *self, void *inst_)
{
    instance *inst = inst_;
    const stator_host *host = self;
    if (inst != NULL) {
        host->nested->close(inst->inner);
        host->mem->free(host->ctx, inst);
    }
}

static stator_status create(void *self, const stator_options *options, uint32_t device,
                            void **out_inst, stator_diag **err)
{
    const stator_host *host = self;
    (void)device;
    instance *inst = host->mem->alloc(host->ctx, sizeof *inst, 16);
    if (inst == NULL) {
        return STATOR_RESOURCE_EXHAUSTED;
    }
    *inst = (instance){.host = host};
    const int is_named = host->opt->get_bool(options, "named");
    const stator_status status = host->nested->open(host->ctx, "opener", "divided",
                                                    is_named ? options : NULL, &inst->inner, err);
    if (status != STATOR_OK) {
        host->mem->free(host->ctx, inst);
        return status;
    }
    *out_inst = inst;
    return STATOR_OK;
}

static stator_status capability(void *inst_, const stator_graph *graph,
                                const stator_capability_sink *sink, stator_diag **err)
{
    const instance *inst = inst_;
    const stator_host *host = inst->host;
    const uint32_t n = host->ir->view(graph)->n_nodes;
    uint8_t *accepts = host->mem->alloc(host->ctx, n + UINT64_C(1), 16);
    if (accepts == NULL) {
        return STATOR_RESOURCE_EXHAUSTED;
    }
    const stator_status status = host->nested->capability(inst->inner, graph, accepts, err);
    for (stator_ref node = 1; status == STATOR_OK && node <= n; node++) {
        if (accepts[node]) {
            sink->yes(sink->self, node, 0);
        } else {
            sink->no(sink->self, node, STATOR_UNSUPPORTED, "divided does not want it");
        }
    }
    host->mem->free(host->ctx, accepts);
    return status;
}

static stator_status compile(void *inst_, const stator_graph *graph, stator_fuel_scope *fuel,
                             void **out_exe, stator_diag **err)
{
    const instance *inst = inst_;
    (void)fuel;
    return inst->host->nested->compile(inst->inner, graph, out_exe, err);
}

static stator_status exe_info(void *inst_, void *exe, stator_exe_info *out)
{
    const instance *inst = inst_;
    return inst->host->nested->exe_info(inst->inner, exe, out);
}

static stator_status exe_run(void *inst_, void *exe, const stator_call *call, stator_diag **err)
{
    const instance *inst = inst_;
    return inst->host->nested->run(inst->inner, exe, call, err);
}

static void exe_destroy(void *inst_, void *exe)
{
    const instance *inst = inst_;
    inst->host->nested->exe_destroy(inst->inner, exe);
}

STATOR_PLUGIN_NOTE("opener", "1.0.0", "[\"backend\"]",
                   ",\"tags\":[\"debug\",\"cpu\"],\"priority\":-300,\"options\":[\"named\"]");

static const stator_option_desc options[] = {{.struct_size = sizeof(stator_option_desc),
                                              .type = STATOR_OPTION_BOOL,
                                              .key = "named",
                                              .default_text = "0",
                                              .help = "pass the options by name"}};

static const stator_backend backend = {
    .item = {STATOR_ITEM_HEAD(stator_backend, STATOR_KIND_BACKEND), .name = "opener",
             .doc = "opens the backend divided, for tests of options", .options = options,
             .option_count = 1, .option_stride = sizeof(stator_option_desc)},
    .tags = "debug,cpu",
    .priority = -300,
    .create = create,
    .destroy = destroy,
    .capability = capability,
    .compile = compile,
    .exe_info = exe_info,
    .exe_run = exe_run,
    .exe_destroy = exe_destroy,
};

static const stator_item *const items[] = {&backend.item};

static const stator_plugin plugin = {
    .struct_size = sizeof(stator_plugin),
    .abi_major = STATOR_ABI_MAJOR,
    .abi_minor_min = STATOR_ABI_MINOR,
    .abi_minor_built = STATOR_ABI_MINOR,
    .item_count = 1,
    .name = "opener",
    .vendor = "Stator tests",
    .version = "1.0.0",
    .sanitizer = STATOR_SANITIZER,
    .items = items,
    .init = init,
};

STATOR_EXPORT const stator_plugin *stator_plugin_query_v1(const stator_host *host,
                                                          uint32_t host_abi_major);

const stator_plugin *stator_plugin_query_v1(const stator_host *host, uint32_t host_abi_major)
{
    (void)host;
    return host_abi_major == STATOR_ABI_MAJOR ? &plugin : NULL;
}
