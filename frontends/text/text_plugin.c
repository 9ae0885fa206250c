/* The frontend "text": Stator's own forms, .stir (docs/stir.md) and .stirb (docs/stirb.md).
 *
 * A thin plugin: reading is host->ir->parse. What is added is that an imported graph's values are
 * their own witnesses. A dump that was printed in the middle of a pipeline states witnesses in the
 * graph that was imported then; here the dump itself is the imported graph. */
#include <stator/plugin.h>

#include <string.h>

#define TEXT_COPY 1u /* stator_source.flags: the file may change after loading */

STATOR_PLUGIN_NOTE("text", STATOR_VERSION, "[\"frontend\"]",
                   ",\"vendor\":\"Stator\",\"licence\":\"Apache-2.0\",\"extensions\":[\"stir\","
                   "\"stirb\"],\"description\":\"Stator's text form and binary form\"");

static stator_status text_init(const stator_host *host, void **self, stator_diag **err)
{
    (void)err;
    *self = (void *)(uintptr_t)host;
    return STATOR_OK;
}

static int is_binary(const uint8_t *bytes, uint64_t size)
{
    return size >= 5 && memcmp(bytes, "STIRB", 5) == 0;
}

/* Bytes before the first word of a text: white space and comments. */
static uint64_t skip_blank(const uint8_t *bytes, uint64_t size)
{
    uint64_t at = 0;
    while (at < size) {
        if (bytes[at] == ' ' || (bytes[at] >= '\t' && bytes[at] <= '\r')) {
            at++;
        } else if (size - at >= 2 && bytes[at] == '/' && bytes[at + 1] == '/') {
            const uint8_t *end = memchr(bytes + at, '\n', (size_t)(size - at));
            at = end ? (uint64_t)(end - bytes) : size;
        } else {
            break;
        }
    }
    return at;
}

static uint32_t text_sniff(void *self, const uint8_t *bytes, uint64_t size)
{
    (void)self;
    if (is_binary(bytes, size)) {
        return 100;
    }
    const uint64_t at = skip_blank(bytes, size);
    const uint64_t left = size - at;
    return left >= 5 && memcmp(bytes + at, "stir", 4) == 0 &&
                   (bytes[at + 4] == ' ' || bytes[at + 4] == '\t')
               ? 100
               : 0;
}

/* With the flag "copy" a binary form is read as bytes alone, so that its constants are copied. */
static stator_status text_import(void *self, const stator_source *source,
                                 const stator_options *options, stator_builder *builder,
                                 stator_diag **err)
{
    const stator_host *host = self;
    const int is_copied =
        (source->flags & TEXT_COPY) != 0 && is_binary(source->bytes, source->size);
    (void)options;
    const stator_status status = host->ir->parse(builder, source->bytes, source->size, source->path,
                                                 is_copied ? NULL : source->dir, err);
    if (status != STATOR_OK) {
        return status;
    }
    const stator_graph_view *view = host->build->view(builder);
    for (stator_ref value = 1; value <= view->n_values; value++) {
        host->build->set_witness(builder, value, value);
    }
    return STATOR_OK;
}

static const stator_frontend text_frontend = {
    .item = {STATOR_ITEM_HEAD(stator_frontend, STATOR_KIND_FRONTEND), .name = "text",
             .doc = "Reads Stator's own text form (.stir) and binary form (.stirb).",
             .option_stride = sizeof(stator_option_desc)},
    .extensions = "stir,stirb",
    .sniff = text_sniff,
    .import = text_import,
};

static const stator_item *const text_items[] = {&text_frontend.item};

static const stator_plugin text_plugin = {
    .struct_size = sizeof(stator_plugin),
    .abi_major = STATOR_ABI_MAJOR,
    .abi_minor_min = STATOR_ABI_MINOR,
    .abi_minor_built = STATOR_ABI_MINOR,
    .item_count = 1,
    .name = "text",
    .vendor = "Stator",
    .version = STATOR_VERSION,
    .sanitizer = STATOR_SANITIZER,
    .items = text_items,
    .init = text_init,
};

STATOR_EXPORT const stator_plugin *stator_plugin_query_v1(const stator_host *host,
                                                          uint32_t host_abi_major);

STATOR_EXPORT const stator_plugin *stator_plugin_query_v1(const stator_host *host,
                                                          uint32_t host_abi_major)
{
    (void)host;
    return host_abi_major == STATOR_ABI_MAJOR ? &text_plugin : NULL;
}
