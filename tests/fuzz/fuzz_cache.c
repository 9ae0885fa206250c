/* Fuzz target of the compile cache: any bytes are refused or make a program that can be ended, as a
 * whole entry (head, key, checksum) and as the payload of one, whose checksum is thus left out. The
 * backend is a stand-in without code; corpus/cache holds what st_cache_write_compiled wrote of the
 * graph below (a FUZZ_CACHE_SEED in the environment names a file to write it to). */
#define _GNU_SOURCE
#include "core/cache/cache.h"
#include "core/host/compile_graph.h"
#include "core/host/model.h"
#include "ir/text/text.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char graph_text[] =
    "stir 1\nsym N in [1, 64]\n"
    "graph @main(%n: i64[], %p: bool[], %x: f32[N, 4], %h: f32[4], %s: f32[5, 4]) {\n"
    "  %c = constant {value = f32[4] {1, 2, 3, 4}}\n"
    "  %a = add(%x, %c)\n  %e = concat(%a, %x) {axis = 0}\n"
    "  %r = while(%n, %p, %h) {carried = 1} : f32[4]\n"
    "   region (%i: i64[], %y: f32[4]) { %t = constant {value = bool[] {true}} %q = add(%y, %y)"
    " return %t, %q }\n"
    "  %g, %k = scan(%r, %s) {carried = 1, scanned = 1, stacked = 1} : f32[4], f32[5, 4]\n"
    "   region (%u: f32[4], %v: f32[4]) { %d = mul(%u, %v) return %d, %u }\n"
    "  return e: %e, g: %g, k: %k, c: %c\n}\n";

/* ---- a backend that keeps everything and runs nothing ---- */

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

static stator_status capability(void *inst, const stator_graph *graph,
                                const stator_capability_sink *sink, stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(graph);
    (void)inst;
    (void)err;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        if (stator_node_at(v, node)->region_count == 0) {
            sink->yes(sink->self, node, 0);
        } else {
            sink->no(sink->self, node, STATOR_UNSUPPORTED, "the host's");
        }
    }
    return STATOR_OK;
}

static stator_status compile(void *inst, const stator_graph *graph, stator_fuel_scope *fuel,
                             void **exe, stator_diag **err)
{
    (void)graph;
    (void)fuel;
    (void)err;
    *exe = inst;
    return STATOR_OK;
}

static stator_status exe_info(void *inst, void *exe, stator_exe_info *out)
{
    (void)inst;
    (void)exe;
    out->workspace_bytes = 64;
    return STATOR_OK;
}

static stator_status exe_run(void *inst, void *exe, const stator_call *call, stator_diag **err)
{
    (void)inst;
    (void)exe;
    (void)call;
    (void)err;
    return STATOR_UNIMPLEMENTED;
}

static stator_status exe_serialize(void *inst, void *exe, stator_blob **out, stator_diag **err)
{
    (void)exe;
    (void)err;
    stator_ctx *ctx = inst;
    *out = st_blob_copy(&ctx->mem, "code", 4);
    return STATOR_OK;
}

static stator_status exe_deserialize(void *inst, stator_blob *blob, void **exe, stator_diag **err)
{
    (void)err;
    *exe = inst;
    return st_blob_size(blob) == 4 ? STATOR_OK : STATOR_DATA_LOSS;
}

static const stator_backend backend = {
    .item = STATOR_ITEM(stator_backend, STATOR_KIND_BACKEND, "keeps-all", "A stand-in."),
    .create = create,
    .destroy = destroy,
    .capability = capability,
    .compile = compile,
    .exe_info = exe_info,
    .exe_run = exe_run,
    .exe_destroy = destroy,
    .exe_serialize = exe_serialize,
    .exe_deserialize = exe_deserialize};

/* ---- the world ---- */

typedef struct world {
    stator_ctx *ctx;
    st_module *module;
    st_fuel fuel;
    st_compile_request request;
    st_cache_store store; /* without a folder */
} world;

/* `err` may be NULL; by address, because it is set while is_ok is computed. */
static void need(int is_ok, const char *what, stator_diag *const *err)
{
    if (!is_ok) {
        (void)fprintf(stderr, "%s: %s\n", what, err != NULL ? st_diag_text(*err) : "");
        abort();
    }
}

static void read_graph(world *w)
{
    stator_builder *b = NULL;
    stator_diag *err = NULL;
    need(st_module_create(&w->ctx->mem, w->ctx, &w->ctx->ops, &w->module, &err) == STATOR_OK &&
             st_builder_create(w->module, "main", &b, &err) == STATOR_OK &&
             st_parse_text(b, graph_text, sizeof graph_text - 1u, "fuzz", NULL, &err) ==
                 STATOR_OK &&
             st_builder_finish(b, &w->module->root, &err) == STATOR_OK,
         "graph", &err);
}

static void write_seed(world *w, const char *path)
{
    st_cache_job job;
    st_compiled *compiled = NULL;
    stator_diag *err = NULL;
    st_str bytes;
    st_str_init(&bytes, &w->ctx->mem);
    need(st_compile_graph(&w->request, &compiled, &err) == STATOR_OK, "compile", &err);
    st_cache_begin(&job, &w->request);
    job.store = &w->store;
    job.phase = ST_CACHE_SAVING;
    need(st_cache_write_compiled(&job, compiled, &bytes, &err) == STATOR_OK, "save", &err);
    st_cache_end(&job);
    FILE *file = fopen(path, "wb");
    need(file != NULL && fwrite(bytes.data, 1, bytes.len, file) == bytes.len && fclose(file) == 0,
         path, NULL);
    st_str_deinit(&bytes);
    st_compiled_destroy(compiled);
}

static void begin(world *w)
{
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .threads = 1,
                                        .flags = STATOR_CTX_NO_PLUGINS | STATOR_CTX_NO_CACHE};
    stator_diag *err = NULL;
    need(stator_ctx_create(&options, &w->ctx) == STATOR_OK &&
             stator_backend_register(w->ctx, &backend, w->ctx) == STATOR_OK,
         "context", NULL);
    read_graph(w);
    st_fuel_init(&w->fuel, &w->ctx->mem);
    w->request = (st_compile_request){.ctx = w->ctx, .source = w->module, .fuel = &w->fuel};
    need(st_instance_open(w->ctx, "keeps-all", 0, NULL, NULL, &w->request.main, &err) == STATOR_OK,
         "instance", &err);
    st_cache_store_open(&w->store, &w->ctx->mem, NULL, 1u << 20, 1);
    const char *seed = secure_getenv("FUZZ_CACHE_SEED");
    if (seed != NULL) {
        write_seed(w, seed);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static world w;
    st_cache_bytes parts;
    st_cache_job job;
    stator_diag *err = NULL;
    if (w.ctx == NULL) {
        begin(&w);
    }
    (void)st_cache_parse(data, size, ST_CACHE_CODE, 1, &parts);
    st_compiled out = {.ctx = w.ctx};
    st_cache_begin(&job, &w.request);
    job.store = &w.store;
    job.phase = ST_CACHE_LOADING;
    const stator_status status = st_cache_read_compiled(&job, data, size, &out, &err);
    need((status == STATOR_OK) == (err == NULL), "a failure without a text", &err);
    st_compiled_clear(&out);
    st_cache_end(&job);
    st_diag_release(err);
    return 0;
}
