/* NULL where something must be, and a count or a length without the list that it counts: refused
 * with INVALID_ARGUMENT (or 0, NULL, where a slot has no status), by the C API and by the host
 * table that plugins use. */
#include "api_check.h"

static const char text[] = "stir 1\n"
                           "graph @main(%x: f32[2]) {\n"
                           "  %a = exp(%x)\n"
                           "  return a: %a\n"
                           "}\n";

#define REFUSED(call) CHECK((call) == STATOR_INVALID_ARGUMENT)

static void delete_nothing(DLManagedTensorVersioned *managed)
{
    (void)managed;
}

static void check_tensors(stator_ctx *ctx)
{
    int64_t shape[1] = {3};
    DLManagedTensorVersioned managed = {
        .version = {.major = DLPACK_MAJOR_VERSION},
        .deleter = delete_nothing,
        .dl_tensor = {
            .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape, .device = {kDLCPU, 0}}};
    stator_tensor *tensor = NULL;
    REFUSED(stator_tensor_create(ctx, STATOR_F32, 1, NULL, &tensor));
    REFUSED(stator_tensor_from_dlpack(ctx, NULL, &tensor));
    REFUSED(stator_tensor_from_dlpack(ctx, &managed, &tensor));
    CHECK(strstr(stator_ctx_error_text(ctx), "data is NULL") != NULL);
    managed.dl_tensor.shape = NULL;
    REFUSED(stator_tensor_from_dlpack(ctx, &managed, &tensor));
    CHECK(tensor == NULL);
    managed.dl_tensor.shape = shape;
    shape[0] = 0; /* nothing to point at */
    CHECK_OK(ctx, stator_tensor_from_dlpack(ctx, &managed, &tensor));
    stator_tensor_release(tensor);
}

static void check_models(stator_ctx *ctx, stator_model *model, stator_function *function)
{
    stator_model *loaded = NULL;
    stator_tensor *out = NULL;
    stator_bound_call *bound = NULL;
    stator_tensor *none = NULL;
    REFUSED(stator_model_load(ctx, NULL, NULL, &loaded));
    REFUSED(stator_model_load_bytes(ctx, NULL, 8, "m", NULL, &loaded));
    REFUSED(stator_model_specialise(model, 1, NULL));
    REFUSED(stator_call_tensors(function, 1, NULL, 1, &out));
    REFUSED(stator_call_tensors(function, 1, &none, 1, &out));
    REFUSED(stator_bind(function, 1, NULL, 1, &out, &bound));
    REFUSED(stator_backend_register(ctx, NULL, NULL));
    const stator_compile_options options = {.struct_size = sizeof options, .option_count = 1};
    const stator_load_options load = {.struct_size = sizeof load, .flags = 1, .option_count = 1};
    stator_function *other = NULL;
    REFUSED(stator_compile(model, &options, &other));
    const char *no_text = NULL;
    const stator_compile_options with_mode = {.struct_size = sizeof with_mode,
                                              .option_count = 1,
                                              .option_keys = &no_text,
                                              .option_values = &no_text,
                                              .mode = "default"};
    REFUSED(stator_compile(model, &with_mode, &other));
    REFUSED(stator_model_load_bytes(ctx, text, strlen(text), "m", &load, &loaded));
    CHECK(loaded == NULL && out == NULL && bound == NULL && other == NULL);
}

/* What a frontend or a pass may call. */
static void check_builder(stator_ctx *ctx)
{
    const stator_host *host = stator_ctx_host(ctx);
    const stator_build_api *build = host->build;
    stator_builder *b = NULL;
    stator_diag *err = NULL;
    CHECK_OK(ctx, stator_model_begin(ctx, &b));
    const stator_ref two = host->types->sym_int(b, 2);
    const stator_ref type = host->types->tensor(b, STATOR_F32, 1, &two);
    stator_ref x = 0;
    stator_ref out = 0;
    CHECK(build->input(b, "x", type, &x, NULL) == STATOR_OK);
    CHECK(host->types->tensor(b, STATOR_F32, 1, NULL) == 0);
    CHECK(host->types->sym_symbol(b, NULL, 1, 2, 1) == 0);
    REFUSED(build->param(b, "p", type, NULL, &out, NULL));
    REFUSED(build->constant(b, type, NULL, 8, &out, NULL));
    REFUSED(build->constant_blob(b, type, NULL, &out, NULL));
    REFUSED(build->node(b, NULL, &out, NULL));
    const uint32_t neg = host->ir->find_op(ctx, "neg");
    const uint32_t cond = host->ir->find_op(ctx, "cond");
    stator_node_desc node = {.struct_size = sizeof node, .op = neg, .operand_count = 1};
    REFUSED(build->node(b, &node, &out, NULL));
    node.operands = &x;
    node.attr_count = 1;
    REFUSED(build->node(b, &node, &out, NULL));
    stator_attr attr = {.name = NULL, .kind = STATOR_ATTR_INT};
    node.attrs = &attr;
    REFUSED(build->node(b, &node, &out, NULL));
    const stator_ref axis_op = host->ir->find_op(ctx, "reduce_sum");
    node.op = axis_op;
    attr = (stator_attr){.name = "axes", .kind = STATOR_ATTR_INTS, .count = 1};
    REFUSED(build->node(b, &node, &out, NULL));
    node.op = cond;
    node.attr_count = 0;
    node.region_count = 2;
    REFUSED(build->node(b, &node, &out, NULL));
    stator_graph *const regions[2] = {NULL, NULL};
    node.regions = regions;
    REFUSED(build->node(b, &node, &out, NULL));
    REFUSED(build->expr(b, NULL, 0, NULL, NULL, 0, NULL, 1, &out, &err));
    host->diag->release(err);
    REFUSED(build->expr(b, "neg(x)", 1, NULL, NULL, 0, NULL, 1, &out, NULL));
    REFUSED(build->expr(b, "neg(x)", 0, NULL, NULL, 1, NULL, 1, &out, NULL));
    REFUSED(build->clone(b, NULL, 1, 1, &out, NULL));
    REFUSED(build->region_end(NULL, NULL, NULL));
    build->region_abort(NULL);
    CHECK(build->known_ints(b, x, 2, NULL) == 0);
    REFUSED(build->as_dims(b, x, 2, NULL, NULL));
    REFUSED(build->from_dims(b, NULL, 2, &out, NULL));
    build->set_name(b, x, NULL);
    build->set_origin(b, NULL, NULL, NULL, 1);
    REFUSED(host->ir->parse(b, NULL, 8, NULL, NULL, NULL));
    CHECK(host->ir->find_op(ctx, NULL) == 0);
    stator_model *model = NULL;
    CHECK(stator_model_finish(b, &model) != STATOR_OK && model == NULL); /* it has no output */
}

static stator_status fill(void *self, void *to, uint64_t size)
{
    (void)self;
    memset(to, 0, (size_t)size);
    return STATOR_OK;
}

static void check_other_slots(stator_ctx *ctx)
{
    const stator_host *host = stator_ctx_host(ctx);
    const stator_cst_api *cst = host->cst;
    stator_blob_info info = {.struct_size = sizeof info};
    stator_blob *blob = NULL;
    uint8_t hash[16] = {0};
    CHECK(cst->create(ctx, NULL, 8) == NULL);
    REFUSED(cst->get(NULL, &info, NULL));
    REFUSED(cst->peek(NULL, &info, NULL));
    REFUSED(cst->hash(NULL, hash, NULL));
    REFUSED(cst->from_file(ctx, NULL, 0, 1, 0, &blob, NULL));
    REFUSED(cst->pack(ctx, NULL, "key", 8, fill, NULL, &blob, NULL));
    REFUSED(cst->pack(ctx, hash, NULL, 8, fill, NULL, &blob, NULL));
    REFUSED(cst->pack(ctx, hash, "key", 8, NULL, NULL, &blob, NULL));
    cst->retain(NULL);
    cst->release(NULL);
    cst->will_not_read(NULL);
    stator_diag *diag = host->diag->create(STATOR_INTERNAL, NULL, 1000);
    CHECK(host->diag->text(diag)[0] != '\0');
    host->diag->set_hint(diag, NULL);
    host->diag->add_note(diag, NULL, NULL, 1, NULL);
    host->diag->add_node(diag, 1, NULL);
    CHECK(host->diag->hint(diag) == NULL);
    host->diag->release(diag);
    host->log->write(ctx, NULL, 0, NULL);
    CHECK(host->log->enabled(ctx, NULL, 0) == 0);
    CHECK(host->opt->get_i64(NULL, NULL) == 0 && host->opt->get_str(NULL, "x")[0] == '\0');
    stator_instance *instance = NULL;
    REFUSED(host->nested->open(ctx, "test", NULL, NULL, &instance, NULL));
    host->nested->close(NULL);
}

int main(void)
{
    stator_ctx *ctx = NULL;
    CHECK(stator_ctx_create(NULL, &ctx) == STATOR_OK);
    stator_model *model = load_text(ctx, text);
    stator_function *function = compile_for(ctx, model, "eager");
    check_tensors(ctx);
    check_models(ctx, model, function);
    check_builder(ctx);
    check_other_slots(ctx);
    stator_function_destroy(function);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return 0;
}
