/* A backend that keeps composites whole and computes everything with eager's kernels, for tests of
 * recompose: what an exporter has written out is found, and the model gives the same outputs.
 *
 * Options: `keeps` the composites that it keeps; `plain` leaves recompose out of the pipeline, for
 * comparison. */
#include "tests/over/over_backend.h"

#include <string.h>

#define KEEPS                                                                                      \
    "sdpa,softmax,log_softmax,layer_norm,rms_norm,gelu,silu,sigmoid,softplus,mish,hard_swish"

typedef struct instance {
    over over;
    const char *keeps;
} instance;

static void destroy(void *self, void *inst_)
{
    instance *inst = inst_;
    const stator_host *host = self;
    if (inst != NULL) {
        host->nested->close(inst->over.inner);
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
    char *copy = over_copy(host, keeps);
    if (inst == NULL || copy == NULL) {
        host->mem->free(host->ctx, inst);
        host->mem->free(host->ctx, copy);
        return over_fail(host, err, STATOR_RESOURCE_EXHAUSTED, "keeper: out of memory");
    }
    *inst = (instance){.over = {.host = host}, .keeps = copy};
    const stator_status status =
        host->nested->open(host->ctx, "keeper", "eager", NULL, &inst->over.inner, err);
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

static int32_t keep(void *inst_, const char *op, uint32_t version, const stator_dtype *dtypes,
                    const uint32_t *ranks, uint32_t n)
{
    const instance *inst = inst_;
    (void)version;
    (void)dtypes;
    (void)ranks;
    (void)n;
    return over_has_word(inst->keeps, op);
}

/* ---- the descriptor ---- */

static const stator_option_desc options[] = {
    OVER_OPTION("keeps", STATOR_OPTION_LIST, KEEPS, "composites that are kept"),
    OVER_OPTION("plain", STATOR_OPTION_BOOL, "0", "no recompose"),
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
    .capability = over_capability,
    .compile = over_compile,
    .exe_info = over_exe_info,
    .exe_run = over_exe_run,
    .exe_destroy = over_exe_destroy,
};

static const stator_item *const items[] = {&backend.item};

STATOR_PLUGIN("keeper", "1.0.0", "Stator tests", "[\"backend\"]",
              ",\"tags\":[\"debug\",\"cpu\"],\"priority\":-300,"
              "\"options\":[\"keeps\",\"plain\"]",
              items, stator_init_host, NULL);
