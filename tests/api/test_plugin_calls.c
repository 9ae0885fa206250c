/* What a call into a plugin leaves behind, seen from the application's own backend: which slot runs
 * is known inside it, also on worker threads, and nothing of it outside; rounding and flushing are
 * put back with one warning; results stand where the host put them, and show when they are not
 * written. */
#include "api_check.h"

#include <fenv.h>
#include <math.h>

enum fault { FAULT_NONE, FAULT_FP, FAULT_FP_RANGE, FAULT_ELSEWHERE, FAULT_UNWRITTEN, FAULT_SILENT };

typedef struct mine {
    const stator_host *host;
    enum fault fault;
    uint32_t n_right; /* calls that knew whose they are */
    uint32_t n_warnings;
} mine;

static int is_running(const char *slot)
{
    const char *plugin = NULL;
    const char *found = NULL;
    return stator_x_running_slot(&plugin, &found) && strcmp(plugin, "mine") == 0 &&
           strcmp(found, slot) == 0;
}

static stator_status create(void *self, const stator_options *options, uint32_t device, void **inst,
                            stator_diag **err)
{
    mine *m = self;
    (void)options, (void)device, (void)err;
    m->n_right += (uint32_t)is_running("create");
    *inst = self;
    return STATOR_OK;
}

static void destroy(void *self, void *inst)
{
    (void)self, (void)inst;
}

static stator_status compile(void *inst, const stator_graph *graph, stator_fuel_scope *fuel,
                             void **exe, stator_diag **err)
{
    (void)graph, (void)fuel, (void)err;
    *exe = inst;
    return STATOR_OK;
}

static stator_status exe_info(void *inst, void *exe, stator_exe_info *out)
{
    (void)inst, (void)exe;
    out->flags = STATOR_EXE_STATIC_OUTPUTS;
    return STATOR_OK;
}

typedef struct range_check {
    enum fault fault;
    _Atomic uint32_t n_wrong;
} range_check;

static void check_range(void *self, int64_t begin, int64_t end)
{
    range_check *c = self;
    (void)begin, (void)end;
    c->n_wrong += (uint32_t)!is_running("exe_run");
    c->n_wrong += (uint32_t)(fegetround() != FE_TONEAREST);
    if (c->fault == FAULT_FP_RANGE) {
        (void)fesetround(FE_DOWNWARD);
    }
}

static stator_status exe_run(void *inst, void *exe, const stator_call *call, stator_diag **err)
{
    static float elsewhere[4];
    mine *m = inst;
    (void)exe, (void)err;
    range_check ranges = {.fault = m->fault};
    m->host->thr->parallel_for(call->ctx, 64, 1, check_range, &ranges);
    m->n_right += (uint32_t)(is_running("exe_run") && ranges.n_wrong == 0);
    for (int64_t i = 0; i < 4 && m->fault != FAULT_UNWRITTEN; i++) {
        ((float *)call->out[0].data)[i] = -((const float *)call->in[0].data)[i];
    }
    if (m->fault == FAULT_FP) {
        (void)fesetround(FE_UPWARD);
    } else if (m->fault == FAULT_ELSEWHERE) {
        call->out[0].data = elsewhere;
    }
    return m->fault == FAULT_SILENT ? 77 : STATOR_OK;
}

static void exe_destroy(void *inst, void *exe)
{
    (void)inst, (void)exe;
}

static const stator_backend backend = {
    .item = STATOR_ITEM(stator_backend, STATOR_KIND_BACKEND, "mine", "negates"),
    .create = create,
    .destroy = destroy,
    .compile = compile,
    .exe_info = exe_info,
    .exe_run = exe_run,
    .exe_destroy = exe_destroy,
};

static void hear(void *self, const char *channel, uint32_t level, const char *text)
{
    mine *m = self;
    (void)level;
    m->n_warnings +=
        (uint32_t)(strcmp(channel, "plugins") == 0 && strstr(text, "plugin 'mine'") != NULL);
}

static stator_function *compile_with(stator_ctx *ctx, stator_model *model, uint32_t flags)
{
    const stator_compile_options options = {
        .struct_size = sizeof options, .backend = "mine", .flags = flags};
    stator_function *function = NULL;
    CHECK_OK(ctx, stator_compile(model, &options, &function));
    return function;
}

static stator_status call(stator_function *function, stator_tensor *in, stator_tensor **out)
{
    const char *plugin = "";
    const char *slot = "";
    const stator_status status = stator_call_tensors(function, 1, &in, 1, out);
    CHECK(!stator_x_running_slot(&plugin, &slot) && plugin == NULL && slot == NULL);
    CHECK(fegetround() == FE_TONEAREST);
    return status;
}

int main(void)
{
    static const char text[] =
        "stir 1\ngraph @main(%x: f32[4]) {\n  %y = neg(%x)\n  return y: %y\n}\n";
    mine m = {.fault = FAULT_NONE};
    const stator_ctx_options options = {
        .struct_size = sizeof options, .threads = 2, .log = hear, .log_self = &m};
    stator_ctx *ctx = NULL;
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    m.host = stator_ctx_host(ctx);
    CHECK_OK(ctx, stator_backend_register(ctx, &backend, &m));
    stator_model *model = load_text(ctx, text);
    stator_function *plain = compile_with(ctx, model, 0);
    stator_function *filled = compile_with(ctx, model, STATOR_COMPILE_FILL_OUTPUTS);
    const int64_t shape[1] = {4};
    stator_tensor *in = NULL;
    stator_tensor *out = NULL;
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F32, 1, shape, &in));
    memset(stator_tensor_data(in), 0, 16);

    CHECK_OK(ctx, call(plain, in, &out));
    CHECK(m.n_right == 3); /* two creates and a run */
    m.fault = FAULT_FP_RANGE;
    CHECK_OK(ctx, call(plain, in, &out));
    CHECK(m.n_right == 4 && m.n_warnings == 1);
    m.fault = FAULT_FP;
    CHECK_OK(ctx, call(plain, in, &out));
    CHECK_OK(ctx, call(plain, in, &out));
    CHECK(m.n_right == 6 && m.n_warnings == 1);

    m.fault = FAULT_ELSEWHERE;
    CHECK(call(plain, in, &out) == STATOR_INTERNAL);
    CHECK(strstr(stator_ctx_error_text(ctx), "backend 'mine'") != NULL);
    CHECK(strstr(stator_ctx_error_text(ctx), "output 0") != NULL);
    m.fault = FAULT_SILENT;
    CHECK(call(plain, in, &out) == 77);
    CHECK(strcmp(stator_ctx_error_text(ctx), "plugin 'mine', slot exe_run failed with status 77 "
                                             "(UNKNOWN) and gave no reason") == 0);
    m.fault = FAULT_UNWRITTEN;
    CHECK_OK(ctx, call(filled, in, &out));
    for (int i = 0; i < 4; i++) {
        CHECK(isnan(((const float *)stator_tensor_data(out))[i]));
    }
    stator_tensor_release(in);
    stator_tensor_release(out);
    stator_function_destroy(plain);
    stator_function_destroy(filled);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return 0;
}
