/* A backend that keeps composites whole and computes everything with eager's kernels, for tests of
 * recompose: what an exporter has written out is found, and the model gives the same outputs.
 *
 * Options: `keeps` the composites that it keeps; `plain` leaves recompose out of the pipeline, for
 * comparison. */
#include <stator/plugin.h>

#include <stdio.h>
#include <string.h>

#define KEEPS                                                                                      \
    "sdpa,softmax,log_softmax,layer_norm,rms_norm,gelu,silu,sigmoid,softplus,mish,hard_swish"

typedef struct instance {
    const stator_host *host;
    stator_instance *eager;
    const char *keeps;
} instance;

static stator_status fail(const stator_host *host, stator_diag **err, stator_status code,
                          const char *text)
{
    if (err != NULL && *err == NULL) {
        *err = host->diag->create(code, text, strlen(text));
    }
    return code;
}

static void destroy(void *self, void *inst_)
{
    instance *inst = inst_;
    const stator_host *host = self;
    if (inst != NULL) {
        host->nested->close(inst->eager);
        host->mem->free(host->ctx, (void *)(uintptr_t)inst->keeps);
        host->mem->free(host->ctx, inst);
    }
}

static stator_status create(void *self, const stator_options *options, uint32_t device,
                            void **out_inst, stator_diag **err)
{
    const stator_host *host = self;
    const char *keeps = host->opt->get_str(options, "keeps");
    (void)device;
    instance *inst = host->mem->alloc(host->ctx, sizeof *inst, 16);
    char *copy = host->mem->alloc(host->ctx, strlen(keeps) + 1, 1);
    if (inst == NULL || copy == NULL) {
        host->mem->free(host->ctx, inst);
        host->mem->free(host->ctx, copy);
        return fail(host, err, STATOR_RESOURCE_EXHAUSTED, "keeper: out of memory");
    }
    *inst = (instance){.host = host, .keeps = strcpy(copy, keeps)};
    const stator_status status =
        host->nested->open(host->ctx, "keeper", "eager", NULL, &inst->eager, err);
    if (status != STATOR_OK) {
        destroy(self, inst);
        return status;
    }
    *out_inst = inst;
    return STATOR_OK;
}

static stator_status pipeline(void *self, const stator_options *options,
                              const stator_pipeline_sink *sink)
{
    static const char *const stages[] = {"functionalize", "freeze",    "canonicalize", "recompose",
                                         "dce",           "decompose", "canonicalize", "fold",
                                         "cse",           "dce"};
    const stator_host *host = self;
    const int is_plain = host->opt->get_bool(options, "plain");
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        if (!is_plain || strcmp(stages[i], "recompose") != 0) {
            sink->stage(sink->self, stages[i]);
        }
    }
    return STATOR_OK;
}

/* Is the word in a comma-separated list? */
static int has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
        if (strcspn(at, ",") == n && strncmp(at, word, n) == 0) {
            return 1;
        }
    }
    return 0;
}

static int32_t keep(void *inst_, const char *op, uint32_t version, const stator_dtype *dtypes,
                    const uint32_t *ranks, uint32_t n)
{
    const instance *inst = inst_;
    (void)version;
    (void)dtypes;
    (void)ranks;
    (void)n;
    return has_word(inst->keeps, op);
}

static stator_status capability(void *inst_, const stator_graph *graph,
                                const stator_capability_sink *sink, stator_diag **err)
{
    const instance *inst = inst_;
    const stator_host *host = inst->host;
    const stator_graph_view *v = host->ir->view(graph);
    uint8_t *accepts = host->mem->alloc(host->ctx, (uint64_t)v->n_nodes + 1u, 16);
    if (accepts == NULL) {
        return fail(host, err, STATOR_RESOURCE_EXHAUSTED, "keeper: out of memory");
    }
    memset(accepts, 0, (uint64_t)v->n_nodes + 1u);
    const stator_status status = host->nested->capability(inst->eager, graph, accepts, err);
    for (stator_ref node = 1; status == STATOR_OK && node <= v->n_nodes; node++) {
        if (accepts[node]) {
            sink->yes(sink->self, node, 0);
        } else {
            sink->no(sink->self, node, STATOR_UNSUPPORTED, "eager does not run it here");
        }
    }
    host->mem->free(host->ctx, accepts);
    return status;
}

/* ---- executables: eager's ---- */

static stator_status compile(void *inst_, const stator_graph *graph, stator_fuel_scope *fuel,
                             void **out_exe, stator_diag **err)
{
    const instance *inst = inst_;
    (void)fuel;
    return inst->host->nested->compile(inst->eager, graph, out_exe, err);
}

static stator_status exe_info(void *inst_, void *exe, stator_exe_info *out)
{
    const instance *inst = inst_;
    return inst->host->nested->exe_info(inst->eager, exe, out);
}

static stator_status exe_run(void *inst_, void *exe, const stator_call *call, stator_diag **err)
{
    const instance *inst = inst_;
    return inst->host->nested->run(inst->eager, exe, call, err);
}

static void exe_destroy(void *inst_, void *exe)
{
    const instance *inst = inst_;
    inst->host->nested->exe_destroy(inst->eager, exe);
}

/* ---- the descriptor ---- */

#define OPTION(key_, type_, default_, help_)                                                       \
    {.struct_size = sizeof(stator_option_desc),                                                    \
     .type = (type_),                                                                              \
     .key = (key_),                                                                                \
     .default_text = (default_),                                                                   \
     .help = (help_)}

static const stator_option_desc options[] = {
    OPTION("keeps", STATOR_OPTION_LIST, KEEPS, "composites that are kept"),
    OPTION("plain", STATOR_OPTION_BOOL, "0", "no recompose"),
};

static const stator_backend backend = {
    .item = STATOR_ITEM_OPTIONS(stator_backend, STATOR_KIND_BACKEND, "keeper",
                                "keeps composites whole, for tests of recompose", options),
    .tags = "debug,cpu",
    .priority = -300,
    .flags = STATOR_BACKEND_CONCURRENT_COMPILE,
    .create = create,
    .destroy = destroy,
    .pipeline = pipeline,
    .keep = keep,
    .capability = capability,
    .compile = compile,
    .exe_info = exe_info,
    .exe_run = exe_run,
    .exe_destroy = exe_destroy,
};

static const stator_item *const items[] = {&backend.item};

STATOR_PLUGIN("keeper", "1.0.0", "Stator tests", "[\"backend\"]",
              ",\"tags\":[\"debug\",\"cpu\"],\"priority\":-300,"
              "\"options\":[\"keeps\",\"plain\"]",
              items, stator_init_host, NULL);
