/* A backend that computes by `eager`, in variants with something wrong: the CMake file beside it
 * builds one plugin for each set of MUTANT_ macros. */
#include "tests/over/over_backend.h"

#ifndef MUTANT_NAME
#error "MUTANT_NAME is the plugin's name"
#endif

static void destroy(void *self, void *inst)
{
    const stator_host *host = self;
    if (inst != NULL) {
        host->nested->close(((over *)inst)->inner);
        host->mem->free(host->ctx, inst);
    }
}

static stator_status create(void *self, const stator_options *options, uint32_t device, void **inst,
                            stator_diag **err)
{
    const stator_host *host = self;
    over *o = host->mem->alloc(host->ctx, sizeof *o, 16);
    (void)device;
    if (o == NULL) {
        return STATOR_RESOURCE_EXHAUSTED;
    }
    *o = (over){.host = host};
    *inst = o;
    const stator_status status =
        host->nested->open(host->ctx, MUTANT_NAME, "eager", options, &o->inner, err);
    if (status != STATOR_OK) {
        destroy(self, o);
        *inst = NULL;
    }
    return status;
}

#ifdef MUTANT_NO_BYTES
static stator_status to_bytes(void *inst, void *exe, stator_blob **out, stator_diag **err)
{
    (void)inst;
    (void)exe;
    (void)err;
    *out = NULL;
    return STATOR_OK;
}

static stator_status from_bytes(void *inst, stator_blob *blob, void **exe, stator_diag **err)
{
    (void)inst;
    (void)blob;
    (void)exe;
    (void)err;
    return STATOR_DATA_LOSS;
}
#else
#define to_bytes NULL
#define from_bytes NULL
#endif

#ifdef MUTANT_UNWRITTEN
/* Writes nothing, as a kernel does that leaves elements out; MUTANT_UNWRITTEN are its flags. */
static stator_status run(void *inst, void *exe, const stator_call *call, stator_diag **err)
{
    (void)inst;
    (void)exe;
    (void)call;
    (void)err;
    return STATOR_OK;
}

static stator_status tell(void *inst, void *exe, stator_exe_info *out)
{
    const stator_status status = over_exe_info(inst, exe, out);
    out->flags |= MUTANT_UNWRITTEN;
    return status;
}
#else
#define run over_exe_run
#define tell over_exe_info
#endif

static const stator_backend backend = {
    .item = STATOR_ITEM(stator_backend, STATOR_KIND_BACKEND, MUTANT_NAME, "computes by eager"),
    .tags = "debug",
    .priority = -300,
    .create = create,
    .destroy = destroy,
    .capability = over_capability,
    .compile = over_compile,
    .exe_info = tell,
    .exe_run = run,
    .exe_destroy = over_exe_destroy,
    .exe_serialize = to_bytes,
    .exe_deserialize = from_bytes,
};

static const stator_item *const items[] = {&backend.item};

STATOR_PLUGIN(MUTANT_NAME, "1.0.0", "Stator's tests", "[\"backend\"]", ",\"tags\":[\"debug\"]",
              items, stator_init_host, NULL);
