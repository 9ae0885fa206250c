/* The onnx frontend as a plugin: its note, its descriptor, how it knows an ONNX file. */
#include "frontends/onnx/ox_model.h"
#include "frontends/onnx/ox_rewrite.h"

static const stator_option_desc OPTIONS[] = {
    {.struct_size = sizeof(stator_option_desc),
     .type = STATOR_OPTION_BYTES,
     .key = "budget",
     .default_text = "0",
     .min_i64 = 0,
     .max_i64 = INT64_MAX,
     .help = "memory for the unpacked model without its large tensors; 0: by the file's size"},
    STATOR_OPTION_ENUM_ROW(0, "training", "model", "model,on,off",
                           "mode of BatchNormalization and Dropout: what the model says, training "
                           "(on) or inference (off) for all of them"),
};

/* Field 1 (ir_version) with a small number, then another field of ModelProto. */
static uint32_t onnx_sniff(void *self, const uint8_t *bytes, uint64_t size)
{
    (void)self;
    if (size < 4 || bytes[0] != 0x08 || bytes[1] == 0 || bytes[1] > 64) {
        return 0;
    }
    const uint32_t field = bytes[2] >> 3;
    const uint32_t wire = bytes[2] & 7u;
    const bool is_text = wire == 2 && field >= 2 && field <= 8 && field != 5;
    return is_text || (wire == 0 && field == 5) ? 70 : 0;
}

static stator_status onnx_import(void *self, const stator_source *source,
                                 const stator_options *options, stator_builder *builder,
                                 stator_diag **err)
{
    return ox_import_model(self, source, options, builder, err);
}

static stator_status onnx_rewrite(void *self, const stator_source *source, const stator_rewrite *to,
                                  stator_diag **err)
{
    return ox_rewrite_model(self, source, to, err);
}

static const stator_frontend FRONTEND = {
    .item = STATOR_ITEM_OPTIONS(
        stator_frontend, STATOR_KIND_FRONTEND, "onnx",
        "Reads ONNX models: operator sets 7 to 28 of the default domain, functions, "
        "control flow, external data.",
        OPTIONS),
    .extensions = "onnx",
    .sniff = onnx_sniff,
    .import = onnx_import,
    .rewrite = onnx_rewrite,
};

static const stator_item *const ITEMS[] = {&FRONTEND.item};

STATOR_PLUGIN("onnx", STATOR_VERSION, "Stator", "[\"frontend\"]",
              ",\"description\":\"ONNX models, operator sets 7 to 28\"", ITEMS, stator_init_host,
              NULL);
