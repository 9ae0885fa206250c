/* The onnx frontend as a plugin: its note, its descriptor, how it knows an ONNX file. */
#include "ox_model.h"

STATOR_PLUGIN_NOTE("onnx", STATOR_VERSION, "[\"frontend\"]",
                   ",\"description\":\"ONNX models, operator sets 7 to 28\"");

static const stator_option_desc OPTIONS[] = {
    {.struct_size = sizeof(stator_option_desc),
     .type = STATOR_OPTION_BYTES,
     .key = "budget",
     .default_text = "0",
     .min_i64 = 0,
     .max_i64 = INT64_MAX,
     .help = "memory for the unpacked model without its large tensors; 0: by the file's size"},
};

static stator_status onnx_init(const stator_host *host, void **self, stator_diag **err)
{
    (void)err;
    *self = (void *)(uintptr_t)host;
    return STATOR_OK;
}

/* Field 1 (ir_version) with a small number, then another field of ModelProto. */
static uint32_t onnx_sniff(void *self, const uint8_t *bytes, uint64_t size)
{
    (void)self;
    if (size < 4 || bytes[0] != 0x08 || bytes[1] == 0 || bytes[1] > 64) {
        return 0;
    }
    const uint32_t field = bytes[2] >> 3;
    const uint32_t wire = bytes[2] & 7u;
    const int is_text = wire == 2 && field >= 2 && field <= 8 && field != 5;
    return is_text || (wire == 0 && field == 5) ? 70 : 0;
}

static stator_status onnx_import(void *self, const stator_source *source,
                                 const stator_options *options, stator_builder *builder,
                                 stator_diag **err)
{
    return ox_import_model(self, source, options, builder, err);
}

static const stator_frontend FRONTEND = {
    .item = {STATOR_ITEM_HEAD(stator_frontend, STATOR_KIND_FRONTEND), .name = "onnx",
             .doc = "Reads ONNX models: operator sets 7 to 28 of the default domain, functions, "
                    "control flow, external data.",
             .options = OPTIONS, .option_count = sizeof OPTIONS / sizeof OPTIONS[0],
             .option_stride = sizeof(stator_option_desc)},
    .extensions = "onnx",
    .sniff = onnx_sniff,
    .import = onnx_import,
};

static const stator_item *const ITEMS[] = {&FRONTEND.item};

static const stator_plugin PLUGIN = {
    .struct_size = sizeof(stator_plugin),
    .abi_major = STATOR_ABI_MAJOR,
    .abi_minor_min = STATOR_ABI_MINOR,
    .abi_minor_built = STATOR_ABI_MINOR,
    .item_count = 1,
    .name = "onnx",
    .vendor = "Stator",
    .version = STATOR_VERSION,
    .sanitizer = STATOR_SANITIZER,
    .items = ITEMS,
    .init = onnx_init,
};

STATOR_EXPORT const stator_plugin *stator_plugin_query_v1(const stator_host *host,
                                                          uint32_t host_abi_major);
const stator_plugin *stator_plugin_query_v1(const stator_host *host, uint32_t host_abi_major)
{
    (void)host;
    return host_abi_major == STATOR_ABI_MAJOR ? &PLUGIN : NULL;
}
