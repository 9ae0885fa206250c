/* struct_size, one rule for every struct: 0 and what nobody can have written is INVALID_ARGUMENT, a
 * shorter struct of an older header is read and written as far as it goes, a longer one of a newer
 * header is taken as long as it asks for nothing that this Stator does not know. */
#include "api_check.h"

static const char text[] = "stir 1\n"
                           "graph @main(%x: f32[2, 3]) {\n"
                           "  %a = exp(%x)\n"
                           "  return a: %a\n"
                           "}\n";

static const uint32_t wrong[] = {0, 4, 0x5A5A5A5A};

/* The call is refused for the size of a struct of that type. */
static void refused(stator_ctx *ctx, stator_status status, const char *type)
{
    const char *error = stator_ctx_error_text(ctx);
    CHECK(status == STATOR_INVALID_ARGUMENT);
    if (strstr(error, "struct_size") == NULL || strstr(error, type) == NULL) {
        (void)fprintf(stderr, "the message about %s is: %s\n", type, error);
        exit(1);
    }
}

static void check_read(stator_ctx *ctx, stator_model *model)
{
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const stator_load_options load = {.struct_size = wrong[i], .flags = 1};
        const stator_compile_options compile = {.struct_size = wrong[i], .backend = "eager"};
        const stator_ctx_options open = {.struct_size = wrong[i]};
        const stator_x_cut cut = {.struct_size = wrong[i]};
        stator_model *loaded = NULL;
        stator_function *function = NULL;
        stator_ctx *other = NULL;
        refused(ctx, stator_model_load_bytes(ctx, text, strlen(text), "m.stir", &load, &loaded),
                "stator_load_options");
        refused(ctx, stator_model_load(ctx, "m.stir", &load, &loaded), "stator_load_options");
        refused(ctx, stator_compile(model, &compile, &function), "stator_compile_options");
        refused(ctx, stator_x_model_cut(model, &cut, &loaded), "stator_x_cut");
        CHECK(stator_ctx_create(&open, &other) == STATOR_INVALID_ARGUMENT);
        stator_x_pair pair = {.struct_size = wrong[i], .model = model};
        stator_x_place place = {.struct_size = sizeof place, .is_found = 7};
        CHECK(stator_x_first_difference(&pair, &place) == STATOR_INVALID_ARGUMENT);
        CHECK(place.is_found == 7);
        CHECK(loaded == NULL && function == NULL && other == NULL);
    }
}

static void check_written(stator_ctx *ctx, stator_model *model, stator_function *function)
{
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        stator_port_info port = {.struct_size = wrong[i]};
        stator_item_info item = {.struct_size = wrong[i]};
        stator_mem_stats stats = {.struct_size = wrong[i]};
        stator_x_memory memory = {.struct_size = wrong[i]};
        stator_x_part part = {.struct_size = wrong[i]};
        refused(ctx, stator_model_input_info(model, 0, &port), "stator_port_info");
        refused(ctx, stator_model_output_info(model, 0, &port), "stator_port_info");
        refused(ctx, stator_ctx_item_info(ctx, 0, &item), "stator_item_info");
        refused(ctx, stator_x_part_at(function, 0, &part), "stator_x_part");
        stator_x_place place = {.struct_size = wrong[i], .value = 7};
        const stator_x_pair pair = {.struct_size = sizeof pair, .model = model};
        refused(ctx, stator_x_describe(model, 1, &place), "stator_x_place");
        refused(ctx, stator_x_first_difference(&pair, &place), "stator_x_place");
        CHECK(place.struct_size == wrong[i] && place.value == 7);
        stator_ctx_mem_stats(ctx, &stats);
        refused(ctx, stator_ctx_error_code(ctx), "stator_mem_stats");
        stator_x_memory_of(function, &memory);
        refused(ctx, stator_ctx_error_code(ctx), "stator_x_memory");
        CHECK(port.name == NULL && item.name == NULL && stats.peak_bytes == 0);
    }
}

/* What a plugin gives and is given. */
static void check_builder(stator_ctx *ctx)
{
    const stator_host *host = stator_ctx_host(ctx);
    stator_builder *b = NULL;
    stator_model *model = NULL;
    CHECK_OK(ctx, stator_model_begin(ctx, &b));
    const stator_ref two = host->types->sym_int(b, 2);
    stator_ref x = 0;
    stator_ref y = 0;
    CHECK(host->build->input(b, "x", host->types->tensor(b, STATOR_F32, 1, &two), &x, NULL) ==
          STATOR_OK);
    stator_node_desc node = {
        .op = host->ir->find_op(ctx, "neg"), .operands = &x, .operand_count = 1};
    stator_blob *blob = host->cst->create(ctx, "12345678", 8);
    stator_blob_info info = {.struct_size = 0};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        node.struct_size = wrong[i];
        info.struct_size = wrong[i];
        CHECK(host->build->node(b, &node, &y, NULL) == STATOR_INVALID_ARGUMENT);
        CHECK(host->cst->get(blob, &info, NULL) == STATOR_INVALID_ARGUMENT);
        CHECK(host->cst->peek(blob, &info, NULL) == STATOR_INVALID_ARGUMENT);
    }
    node.struct_size = sizeof node;
    info.struct_size = sizeof info;
    CHECK(host->build->node(b, &node, &y, NULL) == STATOR_OK);
    CHECK(host->cst->get(blob, &info, NULL) == STATOR_OK && info.size_bytes == 8);
    host->cst->release(blob);
    CHECK(host->build->output(b, "y", y, NULL) == STATOR_OK);
    CHECK_OK(ctx, stator_model_finish(b, &model));
    stator_model_destroy(model);
}

static void check_other_headers(stator_ctx *ctx, stator_model *model)
{
    stator_item_info item;
    memset(&item, 0x5A, sizeof item);
    item.struct_size = offsetof(stator_item_info, version);
    CHECK_OK(ctx, stator_ctx_item_info(ctx, 0, &item));
    CHECK(item.name != NULL && (uintptr_t)item.version == UINT64_C(0x5A5A5A5A5A5A5A5A));
    CHECK(item.struct_size == offsetof(stator_item_info, version));

    struct newer {
        stator_compile_options known;
        uint64_t more;
    } options = {.known = {.struct_size = sizeof options, .backend = "eager"}};
    stator_function *function = NULL;
    CHECK_OK(ctx, stator_compile(model, &options.known, &function));
    stator_function_destroy(function);
    options.more = 1;
    CHECK(stator_compile(model, &options.known, &function) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "sets a member that Stator") != NULL);
    options.known.struct_size = offsetof(stator_compile_options, fuel);
    CHECK_OK(ctx, stator_compile(model, &options.known, &function));
    stator_function_destroy(function);
}

/* A flag asks for something: one that is not known is refused by its bit. */
static void check_flags(stator_ctx *ctx, stator_model *model)
{
    const stator_compile_options compile = {.struct_size = sizeof compile,
                                            .backend = "eager",
                                            .flags = STATOR_COMPILE_STATIC | 1u << 20 | 1u << 31};
    const stator_load_options load = {.struct_size = sizeof load, .flags = 1u << 1 | 1u};
    const stator_ctx_options open = {.struct_size = sizeof open, .flags = 1u << 4};
    stator_function *function = NULL;
    stator_model *loaded = NULL;
    stator_ctx *other = NULL;
    CHECK(stator_compile(model, &compile, &function) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "stator_compile_options have the bits 0x80100000"));
    CHECK(stator_model_load_bytes(ctx, text, strlen(text), "m.stir", &load, &loaded) ==
          STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "stator_load_options have the bits 0x2"));
    CHECK(stator_ctx_create(&open, &other) == STATOR_INVALID_ARGUMENT);
    CHECK(function == NULL && loaded == NULL && other == NULL);
}

int main(void)
{
    stator_ctx *ctx = NULL;
    CHECK(stator_ctx_create(NULL, &ctx) == STATOR_OK);
    stator_model *model = load_text(ctx, text);
    stator_function *function = compile_for(ctx, model, "eager");
    const float values[6] = {0};
    stator_tensor *x = tensor_2d(ctx, 2, 3, values);
    CHECK_OK(ctx, stator_x_prepare(function, 1, &x));
    check_read(ctx, model);
    check_written(ctx, model, function);
    check_builder(ctx);
    check_other_headers(ctx, model);
    check_flags(ctx, model);
    stator_tensor_release(x);
    stator_function_destroy(function);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return 0;
}
