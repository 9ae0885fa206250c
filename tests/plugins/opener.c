/* A backend that opens the test backend "divided" and hands everything through, for the options of
 * nested backends: `divided.ops=...` given with this backend must reach the other.
 *
 * Option: `named` passes the options on by name, else the host takes those of the creation that
 * goes on. */
#include "tests/over/over_backend.h"

typedef over instance;

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

STATOR_PLUGIN_NOTE("opener", "1.0.0", "[\"backend\"]",
                   ",\"tags\":[\"debug\",\"cpu\"],\"priority\":-300,\"options\":[\"named\"]");

static const stator_option_desc options[] = {
    OVER_OPTION("named", STATOR_OPTION_BOOL, "0", "pass the options by name"),
};

static const stator_backend backend = {
    .item = {STATOR_ITEM_HEAD(stator_backend, STATOR_KIND_BACKEND), .name = "opener",
             .doc = "opens the backend divided, for tests of options", .options = options,
             .option_count = 1, .option_stride = sizeof(stator_option_desc)},
    .tags = "debug,cpu",
    .priority = -300,
    .create = create,
    .destroy = destroy,
    .capability = over_capability,
    .compile = over_compile,
    .exe_info = over_exe_info,
    .exe_run = over_exe_run,
    .exe_destroy = over_exe_destroy,
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
