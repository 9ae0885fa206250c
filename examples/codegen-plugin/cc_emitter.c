/* The emitter: kernels in, functions out. Each kernel is rewritten into the ops that C has
 * (codegen/loopir/loop_expand.h), printed (codegen/loopir/loop_c.h) and found again in the
 * shared object by its name, which is made of the ops inside, so that profilers show it. */
#include "cc_plugin.h"

#include "codegen/loopir/loop_c.h"
#include "codegen/loopir/loop_expand.h"
#include "codegen/schedule/cpu/cpu_schedule.h"
#include "core/base/diag.h"
#include "core/base/str.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES_MAX 96

typedef struct module {
    void *handle;
    st_kernel_fn *functions; /* by kernel */
} module;

static void module_destroy(void *self, void *module_)
{
    const cc_instance *instance = self;
    module *m = module_;
    if (m != NULL) {
        if (m->handle != NULL) {
            (void)dlclose(m->handle);
        }
        st_free(instance->mem, m->functions);
        st_free(instance->mem, m);
    }
}

/* "k3_add_exp" */
static void symbol_of(const st_kernel *kernel, uint32_t k, char name[NAME_BYTES_MAX])
{
    (void)snprintf(name, NAME_BYTES_MAX, "k%u_%s", (unsigned)k, kernel->name);
}

static stator_status print_kernel(const st_kernel *kernel, uint32_t k, st_str *text,
                                  stator_diag **err)
{
    char name[NAME_BYTES_MAX];
    st_kernel expanded;
    const stator_status status = st_loop_expand(kernel, NULL, &expanded, err);
    if (status != STATOR_OK) {
        return status;
    }
    symbol_of(kernel, k, name);
    st_loop_c_print(&expanded, name, text);
    st_kernel_deinit(&expanded);
    return STATOR_OK;
}

static stator_status print_all(const cc_instance *instance, const st_kernel *const *kernels,
                               uint32_t n, st_str *text, stator_diag **err)
{
    const stator_host *host = instance->host;
    st_loop_c_head(text);
    for (uint32_t k = 0; k < n; k++) {
        const stator_status status = print_kernel(kernels[k], k, text, err);
        if (status != STATOR_OK) {
            return status;
        }
    }
    if (!st_str_ok(text)) {
        return st_fail_oom(err);
    }
    if (host->log->enabled(host->ctx, "output_code", 2)) {
        host->log->write(host->ctx, "output_code", 2, text->data);
    }
    return STATOR_OK;
}

static stator_status find_functions(module *m, const st_kernel *const *kernels, uint32_t n,
                                    stator_diag **err)
{
    char name[NAME_BYTES_MAX];
    for (uint32_t k = 0; k < n; k++) {
        symbol_of(kernels[k], k, name);
        void *symbol = dlsym(m->handle, name);
        if (symbol == NULL) {
            return st_fail(err, STATOR_INTERNAL, "cc: compiled code has no function '%s'", name);
        }
        memcpy(&m->functions[k], &symbol, sizeof symbol); /* POSIX has them of one size */
    }
    return STATOR_OK;
}

static stator_status compile(void *self, const st_kernel *const *kernels, uint32_t n,
                             void **out_module, stator_diag **err)
{
    const cc_instance *instance = self;
    st_str text;
    module *m = st_calloc(instance->mem, 1, sizeof *m);
    *out_module = NULL;
    if (m == NULL ||
        (m->functions = st_calloc(instance->mem, n + 1u, sizeof *m->functions)) == NULL) {
        module_destroy(self, m);
        return st_fail_oom(err);
    }
    st_str_init(&text, instance->mem);
    stator_status status = print_all(instance, kernels, n, &text, err);
    if (status == STATOR_OK && n != 0) {
        status = cc_build(instance, text.data, &m->handle, err);
    }
    if (status == STATOR_OK) {
        status = find_functions(m, kernels, n, err);
    }
    st_str_deinit(&text);
    if (status != STATOR_OK) {
        module_destroy(self, m);
        return status;
    }
    *out_module = m;
    return STATOR_OK;
}

/* ---- launch ---- */

typedef struct job {
    st_kernel_fn fn;
    const st_kernel_args *args;
} job;

static void run_range(void *self, int64_t begin, int64_t end)
{
    const job *j = self;
    j->fn(j->args, begin, end);
}

static stator_status launch(void *self, void *module_, uint32_t k, const st_launch *l,
                            stator_diag **err)
{
    const cc_instance *instance = self;
    const stator_host *host = instance->host;
    job j = {((const module *)module_)->functions[k], l->args};
    (void)err;
    if (l->count <= l->grain) {
        j.fn(j.args, 0, l->count);
    } else {
        host->thr->parallel_for(l->call->ctx, l->count, l->grain, run_range, &j);
    }
    return STATOR_OK;
}

void cc_emitter_init(cc_instance *instance)
{
    instance->emitter = (st_emitter){
        .struct_size = sizeof instance->emitter,
        .self = instance,
        .target = {.struct_size = sizeof instance->emitter.target,
                   .vector_bytes = 32, /* a hint to the compiler's vectoriser */
                   .threads = (uint32_t)instance->host->thr->thread_count(instance->host->ctx),
                   .l1_bytes = 32 << 10,
                   .l2_bytes = 1 << 20,
                   .l3_bytes = 32 << 20,
                   .schedule = st_cpu_schedule},
        .compile = compile,
        .launch = launch,
        .module_destroy = module_destroy};
}
