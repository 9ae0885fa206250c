/* The frontend "text": Stator's own forms, .stir (docs/stir.md) and .stirb (docs/stirb.md).
 *
 * A thin plugin: reading is host->ir->parse. What is added is that an imported graph's values are
 * their own witnesses. A dump that was printed in the middle of a pipeline states witnesses in the
 * graph that was imported then; here the dump itself is the imported graph. */
#include <stator/plugin.h>

#include <string.h>

static bool is_binary(const uint8_t *bytes, uint64_t size)
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
    const bool is_copied =
        (source->flags & STATOR_SOURCE_COPY) != 0 && is_binary(source->bytes, source->size);
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
    .item = STATOR_ITEM(stator_frontend, STATOR_KIND_FRONTEND, "text",
                        "Reads Stator's own text form (.stir) and binary form (.stirb)."),
    .extensions = "stir,stirb",
    .sniff = text_sniff,
    .import = text_import,
};

static const stator_item *const text_items[] = {&text_frontend.item};

STATOR_PLUGIN("text", STATOR_VERSION, "Stator", "[\"frontend\"]",
              ",\"licence\":\"Apache-2.0\",\"extensions\":[\"stir\","
              "\"stirb\"],\"description\":\"Stator's text form and binary form\"",
              text_items, stator_init_host, NULL);
