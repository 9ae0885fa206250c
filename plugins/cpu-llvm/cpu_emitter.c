/* The emitter of inductor-cpu: kernels through the code generator into loaded code, and launches.
 *
 * A launch without a parallel loop, or too small to share, is a plain call. Others are cut into
 * ranges that begin at multiples of what a kernel does at once, on the host's threads. */
#include "cpu_hints.h"
#include "cpu_module.h"
#include "cpu_same.h"

#include "core/base/diag.h"

#include <stdio.h>
#include <string.h>

/* Below so many instructions one module compiles as fast as two. */
#define INSTS_PER_MODULE 400u

/* ---- compile ---- */

void cpu_module_destroy(void *self, void *module_)
{
    cpu_module *m = module_;
    (void)self;
    if (m == NULL) {
        return;
    }
    for (uint32_t k = 0; m->entries != NULL && k < m->n_entries; k++) {
        st_free(m->mem, m->entries[k].streams);
        st_free(m->mem, m->entries[k].name);
    }
    for (uint32_t i = 0; i < m->n_images; i++) {
        cpu_names_remove(m->mem, m->names[i]);
        cpu_image_unload(m->mem, &m->images[i]);
    }
    if (m->jit != NULL) {
        m->jit->output_free(&m->kept);
    }
    st_free(m->mem, m->entries);
    st_free(m->mem, m->entry_of);
    st_free(m->mem, m);
}

/* May generated code call it? */
static bool has_function(void *asked_, const char *name)
{
    cpu_asked *asked = asked_;
    const cpu_inst *inst = asked->inst;
    const bool is_sleef = strncmp(name, "Sleef_", 6) == 0;
    const bool has =
        !(is_sleef && inst->settings.self_contained) && cpu_resolve(inst->self, name) != NULL;
    if (!has && is_sleef) {
        cpu_hint_missing(asked, name + 6);
    }
    return has;
}

static stator_status load_images(cpu_inst *inst, const jit_output *out, cpu_module *m,
                                 stator_diag **err)
{
    char msg[512];
    for (uint32_t i = 0; i < out->n_objects; i++) {
        const stator_status status =
            cpu_image_load(m->mem, out->objects[i].bytes, out->objects[i].size, cpu_resolve,
                           inst->self, &m->images[i], msg, sizeof msg);
        ST_FAIL_IF(status != STATOR_OK, err, status, "inductor-cpu: %s", msg);
        m->n_images = i + 1u;
    }
    return STATOR_OK;
}

/* A function's address as a function pointer. */
static st_kernel_fn function_at(const cpu_image *image, const char *symbol)
{
    const void *at = cpu_image_find(image, symbol);
    st_kernel_fn fn = NULL;
    memcpy(&fn, &at, sizeof fn);
    return fn;
}

static stator_status note_streams(cpu_module *m, const st_kernel *kernel, cpu_entry *e,
                                  stator_diag **err)
{
    e->streams = st_calloc(m->mem, kernel->buffers.count + 1u, sizeof *e->streams);
    ST_TRY_MEM(e->streams, err);
    for (uint32_t b = 0; b < kernel->buffers.count; b++) {
        if ((kernel->buffers.data[b].flags & (ST_BUFFER_STREAMED | ST_BUFFER_LOCAL)) ==
            ST_BUFFER_STREAMED) {
            e->streams[e->n_streams++] = b;
        }
    }
    return STATOR_OK;
}

static stator_status find_entry(cpu_module *m, const jit_kernel *from, cpu_entry *e,
                                stator_diag **err)
{
    char streamed[512];
    const cpu_image *image = &m->images[from->module];
    e->fn = function_at(image, from->symbol);
    e->name = st_strdup(m->mem, from->symbol);
    e->step = from->step;
    e->is_parallel = from->is_parallel;
    ST_TRY_MEM(e->name, err);
    if (from->is_streamed) {
        (void)snprintf(streamed, sizeof streamed, "%s.nt", from->symbol);
        e->streamed = function_at(image, streamed);
    }
    ST_FAIL_IF(e->fn == NULL || (from->is_streamed && e->streamed == NULL), err, STATOR_INTERNAL,
               "inductor-cpu: the object has no function '%s'", from->symbol);
    return STATOR_OK;
}

stator_status cpu_module_fill(cpu_inst *inst, const jit_output *out, cpu_module *m,
                              stator_diag **err)
{
    m->n_entries = out->n_kernels;
    m->entries = st_calloc(m->mem, out->n_kernels + 1u, sizeof *m->entries);
    ST_TRY_MEM(m->entries, err);
    ST_TRY(load_images(inst, out, m, err));
    for (uint32_t k = 0; k < out->n_kernels; k++) {
        ST_TRY(find_entry(m, &out->kernels[k], &m->entries[k], err));
    }
    for (uint32_t i = 0; i < m->n_images; i++) {
        if (inst->settings.debug_names) {
            m->names[i] = cpu_names_add(m->mem, &m->images[i]);
        }
        cpu_image_seal(m->mem, &m->images[i]);
    }
    return STATOR_OK;
}

static stator_status load_module(cpu_inst *inst, const st_kernel *const *kernels,
                                 const jit_output *out, cpu_module *m, stator_diag **err)
{
    ST_TRY(cpu_module_fill(inst, out, m, err));
    for (uint32_t k = 0; k < out->n_kernels; k++) {
        if (out->kernels[k].is_streamed) {
            ST_TRY(note_streams(m, kernels[k], &m->entries[k], err));
        }
    }
    return STATOR_OK;
}

/* Is what is made to be written to files (STATOR_DUMP)? */
static bool is_dumping(const stator_host *host)
{
    return host != NULL && STATOR_HAS(host->log, dump) && host->log->is_dumping(host->ctx);
}

/* LLVM IR and machine code of each module; kernels are functions under their names. */
static void dump_output(const stator_host *host, const jit_output *out)
{
    char name[32];
    for (uint32_t i = 0; i < out->n_objects; i++) {
        if (out->texts[i] != NULL) {
            (void)snprintf(name, sizeof name, "module-%u.ll", i);
            host->log->dump(host->ctx, name, out->texts[i], strlen(out->texts[i]));
        }
        if (out->assemblies[i] != NULL) {
            (void)snprintf(name, sizeof name, "module-%u.s", i);
            host->log->dump(host->ctx, name, out->assemblies[i], strlen(out->assemblies[i]));
        }
    }
}

static void log_output(const cpu_inst *inst, const jit_output *out)
{
    const stator_host *host = inst->self->host;
    const bool is_heard = host != NULL && host->log->enabled(host->ctx, "output_code", 3);
    for (uint32_t i = 0; is_heard && i < out->n_objects; i++) {
        if (out->texts[i] != NULL) {
            host->log->write(host->ctx, "output_code", 3, out->texts[i]);
        }
    }
}

static jit_request request_of(cpu_asked *asked, const st_kernel *const *kernels, uint32_t n)
{
    const cpu_inst *inst = asked->inst;
    const stator_host *host = inst->self->host;
    uint64_t insts = 0;
    for (uint32_t k = 0; k < n; k++) {
        insts += kernels[k]->insts.count;
    }
    const uint64_t modules = 1u + insts / INSTS_PER_MODULE;
    const uint32_t threads = inst->emitter.target.threads;
    uint32_t flags = inst->settings.debug_bounds ? JIT_DEBUG_BOUNDS : 0u;
    if (host != NULL && host->log->enabled(host->ctx, "output_code", 3)) {
        flags |= JIT_LISTING;
    }
    flags |= is_dumping(host) ? (uint32_t)(JIT_LISTING | JIT_ASSEMBLY) : 0u;
    flags |= inst->settings.verify ? JIT_VERIFY : 0u;
    return (jit_request){.struct_size = sizeof(jit_request),
                         .flags = flags,
                         .mem = &inst->self->mem,
                         .kernels = kernels,
                         .n_kernels = n,
                         .tier = inst->settings.tier,
                         .vector_bytes = inst->emitter.target.vector_bytes,
                         .modules = modules < threads ? (uint32_t)modules : threads,
                         .spells = inst->emitter.target.spells,
                         .features = inst->settings.self_contained ? inst->features : NULL,
                         .self = asked,
                         .has_function = has_function};
}

/* Is what this thread compiles to be kept? */
static bool is_kept(const cpu_inst *inst)
{
    const stator_host *host = inst->self->host;
    return host != NULL && STATOR_HAS(host->cache, wanted) && host->cache->wanted(host->ctx) &&
           !inst->settings.self_contained;
}

/* Compiles kernels that all differ and fills the module's entries. */
static stator_status compile_distinct(cpu_inst *inst, const st_kernel *const *kernels, uint32_t n,
                                      cpu_module *m, stator_diag **err)
{
    const jit_api *jit = NULL;
    jit_output out = {.mem = NULL};
    char msg[512] = "";
    ST_TRY(cpu_jit_open(inst->self, &jit, err));
    cpu_asked asked;
    cpu_asked_init(&asked, inst);
    const jit_request request = request_of(&asked, kernels, n);
    stator_status status = jit->compile(&request, &out, msg, sizeof msg);
    cpu_hint_asked(&asked);
    if (status != STATOR_OK) {
        (void)st_fail(err, status, "inductor-cpu: %s", msg);
    } else {
        log_output(inst, &out);
        if (is_dumping(inst->self->host)) {
            dump_output(inst->self->host, &out);
        }
        status = load_module(inst, kernels, &out, m, err);
    }
    if (status == STATOR_OK && (inst->settings.self_contained || is_kept(inst))) {
        m->jit = jit;
        m->kept = out;
    } else {
        jit->output_free(&out);
    }
    return status;
}

/* Collects the kernels that differ in `distinct`; entry_of[k] is the index of kernel k's code
 * there. */
static stator_status choose_distinct(cpu_module *m, const st_kernel *const *kernels, uint32_t n,
                                     const st_kernel **distinct, uint32_t *out_count)
{
    uint32_t count = 0;
    const stator_status status = cpu_same_kernels(m->mem, kernels, n, m->entry_of);
    for (uint32_t k = 0; status == STATOR_OK && k < n; k++) {
        if (m->entry_of[k] == k) {
            m->entry_of[k] = count;
            distinct[count++] = kernels[k];
        } else { /* an earlier one, whose index is known */
            m->entry_of[k] = m->entry_of[m->entry_of[k]];
        }
    }
    *out_count = count;
    return status;
}

static stator_status compile(void *self, const st_kernel *const *kernels, uint32_t n,
                             void **out_module, stator_diag **err)
{
    cpu_inst *inst = self;
    st_mem *mem = &inst->self->mem;
    stator_status status = STATOR_RESOURCE_EXHAUSTED;
    uint32_t count = 0;
    *out_module = NULL;
    cpu_module *m = st_calloc(mem, 1, sizeof *m);
    const st_kernel **distinct = st_calloc(mem, (uint64_t)n + 1u, sizeof *distinct);
    if (m != NULL) {
        *m = (cpu_module){.mem = mem, .n_kernels = n, .debug_bounds = inst->settings.debug_bounds};
        m->entry_of = st_calloc(mem, (uint64_t)n + 1u, sizeof *m->entry_of);
    }
    if (m != NULL && m->entry_of != NULL && distinct != NULL) {
        status = choose_distinct(m, kernels, n, distinct, &count);
    }
    if (status != STATOR_OK) {
        (void)st_fail_oom(err);
    } else {
        status = compile_distinct(inst, distinct, count, m, err);
    }
    st_free(mem, distinct);
    if (status != STATOR_OK) {
        cpu_module_destroy(inst, m);
        return status;
    }
    *out_module = m;
    return STATOR_OK;
}

/* ---- launch ---- */

typedef struct range_job {
    st_kernel_fn fn;
    const st_kernel_args *args;
    int64_t step;
    int64_t count;
} range_job;

static void run_range(void *self, int64_t begin, int64_t end)
{
    const range_job *job = self;
    const int64_t last = end * job->step;
    job->fn(job->args, begin * job->step, last < job->count ? last : job->count);
}

static st_kernel_fn choose(const cpu_entry *e, const st_kernel_args *args)
{
    if (e->streamed == NULL) {
        return e->fn;
    }
    for (uint32_t i = 0; i < e->n_streams; i++) {
        if ((uintptr_t)args->buffers[e->streams[i]] % JIT_STREAM_ALIGN != 0) {
            return e->fn;
        }
    }
    return e->streamed;
}

static void run(const cpu_inst *inst, const cpu_entry *e, const st_launch *launch,
                const st_kernel_args *args)
{
    range_job job = {choose(e, args), args, e->step, launch->count};
    if (!e->is_parallel) {
        job.fn(args, 0, 1);
    } else if (launch->is_part) {
        job.fn(args, launch->begin, launch->count);
    } else if (launch->count <= launch->grain || inst->emitter.target.threads <= 1 ||
               inst->self->host == NULL) {
        job.fn(args, 0, launch->count);
    } else {
        const stator_host *host = inst->self->host;
        host->thr->parallel_for(launch->call ? launch->call->ctx : host->ctx,
                                (launch->count + e->step - 1) / e->step,
                                (launch->grain + e->step - 1) / e->step, run_range, &job);
    }
}

/* With bounds checked: a bad index ends the call with an error. */
static stator_status run_checked(const cpu_inst *inst, const cpu_entry *e, const st_launch *launch,
                                 stator_diag **err)
{
    uint32_t found = 0;
    const st_kernel_args args = {
        .buffers = launch->args->buffers, .syms = launch->args->syms, .status = &found};
    run(inst, e, launch, &args);
    ST_FAIL_IF(found & JIT_STATUS_BOUNDS, err, STATOR_INTERNAL,
               "inductor-cpu: kernel '%s', instruction %%%u: an index lies outside its buffer",
               e->name, found & ~JIT_STATUS_BOUNDS);
    if (found && launch->args->status) {
        *launch->args->status = found;
    }
    return STATOR_OK;
}

static stator_status launch_kernel(void *self, void *module_, uint32_t k, const st_launch *launch,
                                   stator_diag **err)
{
    const cpu_inst *inst = self;
    const cpu_module *m = module_;
    const cpu_entry *e = &m->entries[m->entry_of[k]];
    if (m->debug_bounds) {
        return run_checked(inst, e, launch, err);
    }
    run(inst, e, launch, launch->args);
    return STATOR_OK;
}

void cpu_emitter_code(const void *module_, uint32_t k, st_cg_code *out)
{
    const cpu_module *m = module_;
    const cpu_entry *e = &m->entries[m->entry_of[k]];
    *out = (st_cg_code){.id = m->entry_of[k],
                        .is_parallel = e->is_parallel,
                        .step = e->step,
                        .symbol = e->name,
                        .streamed = e->streamed != NULL ? ".nt" : NULL,
                        .streams = e->streams,
                        .n_streams = e->n_streams,
                        .stream_align = JIT_STREAM_ALIGN};
}

const jit_output *cpu_emitter_output(const void *module_)
{
    const cpu_module *m = module_;
    return m != NULL && m->jit != NULL ? &m->kept : NULL;
}

void cpu_emitter_init(cpu_inst *inst)
{
    inst->emitter = (st_emitter){.struct_size = sizeof inst->emitter,
                                 .flags = ST_EMITTER_PARTS |
                                          (inst->settings.self_contained ? 0u : ST_EMITTER_HOST),
                                 .self = inst,
                                 .compile = compile,
                                 .launch = launch_kernel,
                                 .module_destroy = cpu_module_destroy,
                                 .module_save = cpu_module_save,
                                 .module_load = cpu_module_load};
    cpu_target_of_host(inst->self->host, inst->settings.vector_bytes, &inst->emitter.target);
}
