/* One plugin with several items: two backends named by the note's `items`, and two passes. */
#include <stator/plugin.h>

STATOR_PLUGIN_NOTE("several", "0.1.0", "[\"backend\",\"pass\"]",
                   ",\"items\":[{\"kind\":\"backend\",\"name\":\"one\",\"aliases\":[\"uno\"],"
                   "\"tags\":[\"debug\"]},{\"kind\":\"backend\",\"name\":\"two\","
                   "\"priority\":-7},{\"kind\":\"pass\",\"name\":\"several.first\"},"
                   "{\"kind\":\"pass\",\"name\":\"several.second\"}]");

STATOR_EXPORT const stator_plugin *stator_plugin_query_v1(const stator_host *host,
                                                          uint32_t host_abi_major);

static stator_status create(void *self, const stator_options *options, uint32_t device, void **inst,
                            stator_diag **err)
{
    (void)options;
    (void)device;
    (void)err;
    *inst = self;
    return STATOR_OK;
}

static void destroy(void *self, void *inst)
{
    (void)self;
    (void)inst;
}

static stator_status compile(void *inst, const stator_graph *graph, stator_fuel_scope *fuel,
                             void **exe, stator_diag **err)
{
    (void)inst;
    (void)graph;
    (void)fuel;
    (void)exe;
    (void)err;
    return STATOR_UNSUPPORTED;
}

static stator_status exe_info(void *inst, void *exe, stator_exe_info *out)
{
    (void)inst;
    (void)exe;
    *out = (stator_exe_info){.struct_size = sizeof *out};
    return STATOR_OK;
}

static stator_status exe_run(void *inst, void *exe, const stator_call *call, stator_diag **err)
{
    (void)inst;
    (void)exe;
    (void)call;
    (void)err;
    return STATOR_UNSUPPORTED;
}

static void exe_destroy(void *inst, void *exe)
{
    (void)inst;
    (void)exe;
}

/* The second backend's device is missing: that refuses one item and not the plugin. */
static stator_status no_device(void *self, stator_diag **err)
{
    (void)self;
    (void)err;
    return STATOR_UNAVAILABLE;
}

static stator_status run(void *self, const stator_graph *in, stator_builder *out,
                         stator_fuel_scope *fuel, uint32_t *out_result, stator_diag **err)
{
    (void)self;
    (void)in;
    (void)out;
    (void)fuel;
    (void)err;
    *out_result = STATOR_PASS_SAME;
    return STATOR_OK;
}

#define BACKEND(name_, ...)                                                                        \
    {                                                                                              \
        .item = {STATOR_ITEM_HEAD(stator_backend, STATOR_KIND_BACKEND), .name = (name_)},          \
        .create = create, .destroy = destroy, .compile = compile, .exe_info = exe_info,            \
        .exe_run = exe_run, .exe_destroy = exe_destroy, __VA_ARGS__                                \
    }
#define PASS(name_)                                                                                \
    {                                                                                              \
        .item = {STATOR_ITEM_HEAD(stator_pass, STATOR_KIND_PASS), .name = (name_)},                \
        .phase = STATOR_PHASE_POST_GRAD, .flags = STATOR_PASS_DETERMINISTIC, .run = run            \
    }

static const stator_backend one = BACKEND("one", .aliases = "uno", .tags = "debug");
static const stator_backend two = BACKEND("two", .priority = -7, .probe = no_device);
static const stator_pass first = PASS("several.first");
static const stator_pass second = PASS("several.second");
static const stator_item *const items[] = {&one.item, &two.item, &first.item, &second.item};

static const stator_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_major = STATOR_ABI_MAJOR,
    .abi_minor_min = STATOR_ABI_MINOR,
    .abi_minor_built = STATOR_ABI_MINOR,
    .item_count = 4,
    .name = "several",
    .version = "0.1.0",
    .sanitizer = STATOR_SANITIZER,
    .items = items,
};

const stator_plugin *stator_plugin_query_v1(const stator_host *host, uint32_t host_abi_major)
{
    (void)host;
    return host_abi_major == STATOR_ABI_MAJOR ? &plugin : NULL;
}
