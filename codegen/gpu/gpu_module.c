/* Kernels become a module: text, image, function.
 *
 * Each kernel is printed under the same neutral name, so that kernels which do the same have equal
 * texts; each distinct text gets the name of the first of them, is compiled, on several threads,
 * and loaded. A module that is to be kept in the compile cache holds on to its images. */
#include "codegen/gpu/gpu_runtime.h"

#include "core/base/bytes.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* No name of a kernel is longer. */
static const char neutral_name[] = "st_kernel_without_a_name_of_its_own";

/* A distinct program on its way to an image. */
typedef struct program {
    st_str text;
    uint64_t hash;
    char name[64];
    st_str image;
    stator_status status;
    stator_diag *err;
} program;

typedef struct compilation {
    st_gpu *gpu;
    gpu_module *module;
    program *programs;
    uint32_t n_programs;
} compilation;

/* ---- modules ---- */

void gpu_module_destroy(void *self, void *module_)
{
    st_gpu *gpu = self;
    gpu_module *m = module_;
    if (m == NULL) {
        return;
    }
    gpu_wait_for_queued(gpu); /* calls may still run its kernels */
    for (uint32_t i = 0; m->images && i < m->n_images; i++) {
        if (m->images[i].module) {
            gpu->driver->module_unload(gpu->driver->self, m->images[i].module);
        }
        st_str_deinit(&m->images[i].bytes);
    }
    st_arena_deinit(&m->arena);
    st_free(gpu->mem, m);
}

static stator_status new_module(st_gpu *gpu, uint32_t n_functions, uint32_t n_images,
                                gpu_module **out, stator_diag **err)
{
    gpu_module *m = st_calloc(gpu->mem, 1, sizeof *m);
    ST_TRY_MEM(m, err);
    st_arena_init(&m->arena, gpu->mem);
    m->functions = st_arena_zalloc(&m->arena, (uint64_t)n_functions + 1u, sizeof *m->functions);
    m->images = st_arena_zalloc(&m->arena, (uint64_t)n_images + 1u, sizeof *m->images);
    if (m->functions == NULL || m->images == NULL) {
        gpu_module_destroy(gpu, m);
        return st_fail_oom(err);
    }
    m->n_functions = n_functions;
    m->n_images = n_images;
    for (uint32_t i = 0; i < n_images; i++) {
        st_str_init(&m->images[i].bytes, gpu->mem);
    }
    *out = m;
    return STATOR_OK;
}

/* Loads the images; each function is found in its own. */
static stator_status load(st_gpu *gpu, gpu_module *m, stator_diag **err)
{
    const st_gpu_driver *driver = gpu->driver;
    for (uint32_t i = 0; i < m->n_images; i++) {
        gpu_image *image = &m->images[i];
        ST_TRY(driver->module_load(driver->self, image->bytes.data, image->bytes.len,
                                   &image->module, err));
    }
    for (uint32_t k = 0; k < m->n_functions; k++) {
        gpu_function *f = &m->functions[k];
        ST_TRY(driver->module_function(driver->self, m->images[f->image].module, f->kernel.name,
                                       &f->function, err));
    }
    return STATOR_OK;
}

/* ---- text ---- */

/* The kernel's name as an identifier. */
static void set_name(const st_kernel *kernel, char out[64])
{
    (void)snprintf(out, 64, "st_%.*s", (int)sizeof neutral_name - 4, kernel->name);
    for (char *c = out; *c; c++) {
        *c = isalnum((unsigned char)*c) ? *c : '_';
    }
}

/* The program of this text, which is new or an earlier one; its index. */
static uint32_t find_program(compilation *c, const st_str *text, uint64_t hash)
{
    uint32_t i = 0;
    while (i < c->n_programs &&
           (c->programs[i].hash != hash || c->programs[i].text.len != text->len ||
            memcmp(c->programs[i].text.data, text->data, text->len) != 0)) {
        i++;
    }
    return i;
}

static stator_status check_limits(const st_gpu *gpu, const st_kernel *kernel,
                                  const st_gpu_kernel *as, stator_diag **err)
{
    const st_gpu_device *device = &gpu->driver->device;
    const uint64_t bytes = (uint64_t)as->n_arguments * sizeof(uint64_t);
    ST_FAIL_IF(as->n_arguments > GPU_ARGUMENTS_MAX || bytes > device->argument_bytes_max, err,
               STATOR_UNSUPPORTED, "kernel %s has %u arguments; the device takes %u bytes of them",
               kernel->name, as->n_arguments, device->argument_bytes_max);
    ST_FAIL_IF(as->threads == 0 || as->threads > device->block_threads_max ||
                   as->shared_bytes > device->shared_bytes ||
                   as->shared_bytes + as->dynamic_bytes > device->shared_optin_bytes,
               err, STATOR_INTERNAL,
               "kernel %s wants blocks of %u threads and %u bytes of shared memory; the device has "
               "at most %u and %u",
               kernel->name, as->threads, as->shared_bytes + as->dynamic_bytes,
               device->block_threads_max, device->shared_optin_bytes);
    return STATOR_OK;
}

static stator_status print_kernel(compilation *c, const st_kernel *kernel, gpu_function *f,
                                  stator_diag **err)
{
    st_gpu *gpu = c->gpu;
    st_str text;
    st_str_init(&text, gpu->mem);
    stator_status status = gpu->config.print(&gpu->emitter.target, kernel, neutral_name,
                                             &c->module->arena, &text, &f->kernel, err);
    if (status == STATOR_OK && !st_str_ok(&text)) {
        status = st_fail_oom(err);
    }
    ST_THEN(status, check_limits(gpu, kernel, &f->kernel, err));
    if (status != STATOR_OK) {
        st_str_deinit(&text);
        return status;
    }
    const uint64_t hash = st_hash64(text.data, text.len, 0);
    f->image = find_program(c, &text, hash);
    if (f->image < c->n_programs) {
        st_str_deinit(&text);
        return STATOR_OK;
    }
    program *p = &c->programs[c->n_programs++];
    *p = (program){.text = text, .hash = hash};
    st_str_init(&p->image, gpu->mem);
    set_name(kernel, p->name);
    return STATOR_OK;
}

/* Puts the program's own name where the neutral one stands. */
static stator_status rename_kernel(st_gpu *gpu, program *p, stator_diag **err)
{
    st_str named;
    st_str_init(&named, gpu->mem);
    const char *from = p->text.data;
    for (const char *at = NULL; (at = strstr(from, neutral_name)) != NULL;) {
        st_str_addn(&named, from, (uint64_t)(at - from));
        st_str_add(&named, p->name);
        from = at + sizeof neutral_name - 1u;
    }
    st_str_add(&named, from);
    st_str_deinit(&p->text);
    p->text = named;
    return st_str_ok(&named) ? STATOR_OK : st_fail_oom(err);
}

static void dump_text(const st_gpu *gpu, const program *p)
{
    const stator_host *host = gpu->config.host;
    if (STATOR_HAS(host->log, dump) && host->log->is_dumping(host->ctx)) {
        char name[80];
        (void)snprintf(name, sizeof name, "%s.gpu.c", p->name);
        host->log->dump(host->ctx, name, p->text.data, p->text.len);
    }
}

static stator_status print_all(compilation *c, const st_kernel *const *kernels, stator_diag **err)
{
    for (uint32_t k = 0; k < c->module->n_functions; k++) {
        ST_TRY(print_kernel(c, kernels[k], &c->module->functions[k], err));
    }
    for (uint32_t i = 0; i < c->n_programs; i++) {
        ST_TRY(rename_kernel(c->gpu, &c->programs[i], err));
        dump_text(c->gpu, &c->programs[i]);
    }
    for (uint32_t k = 0; k < c->module->n_functions; k++) {
        gpu_function *f = &c->module->functions[k];
        (void)snprintf(f->kernel.name, sizeof f->kernel.name, "%s", c->programs[f->image].name);
    }
    return STATOR_OK;
}

/* ---- compile ---- */

static void compile_range(void *self, int64_t begin, int64_t end)
{
    const compilation *c = self;
    const st_gpu_driver *driver = c->gpu->driver;
    for (int64_t i = begin; i < end; i++) {
        program *p = &c->programs[i];
        p->status =
            driver->compile(driver->self, p->name, p->text.data, p->text.len, &p->image, &p->err);
        if (p->status == STATOR_OK && !st_str_ok(&p->image)) {
            p->status = st_fail_oom(&p->err);
        }
    }
}

static bool is_named(const stator_diag *why, stator_ref node)
{
    const st_diag_node *at = st_diag_nodes(why);
    while (at != NULL && at->node != node) {
        at = at->next;
    }
    return at != NULL;
}

/* Names the nodes that the first kernel of the image computes. */
static void name_nodes(const compilation *c, const st_kernel *const *kernels, uint32_t image,
                       stator_diag *why)
{
    uint32_t k = 0;
    while (c->module->functions[k].image != image) {
        k++;
    }
    for (st_loop_ref ref = 1; ref < kernels[k]->insts.count; ref++) {
        const stator_ref origin = st_loop_at(kernels[k], ref)->origin;
        if (origin != 0 && !is_named(why, origin)) {
            st_diag_add_node(why, origin, kernels[k]->name);
        }
    }
}

/* Every program; the first that the compiler refuses is told. */
static stator_status compile_all(compilation *c, const st_kernel *const *kernels, stator_diag **err)
{
    const stator_host *host = c->gpu->config.host;
    if (c->n_programs > 1) {
        host->thr->parallel_for(host->ctx, c->n_programs, 1, compile_range, c);
    } else {
        compile_range(c, 0, c->n_programs);
    }
    atomic_fetch_add(&c->gpu->compiled, c->n_programs);
    for (uint32_t i = 0; i < c->n_programs; i++) {
        program *p = &c->programs[i];
        if (p->status != STATOR_OK) {
            stator_diag *told = p->err;
            p->err = NULL;
            st_diag_prefix(told, "kernel %s", p->name);
            name_nodes(c, kernels, i, told);
            return st_diag_give(p->status, told, err);
        }
        c->module->images[i].bytes = p->image;
        st_str_init(&p->image, c->gpu->mem);
    }
    c->module->n_images = c->n_programs;
    return STATOR_OK;
}

/* Images go once they are loaded, unless the compile cache will ask for them. */
static void drop_images(st_gpu *gpu, gpu_module *m)
{
    const stator_host *host = gpu->config.host;
    const bool is_kept =
        host->cache && STATOR_HAS(host->cache, wanted) && host->cache->wanted(host->ctx);
    for (uint32_t i = 0; i < m->n_images && !is_kept; i++) {
        st_str_deinit(&m->images[i].bytes);
    }
}

static void end_compilation(compilation *c)
{
    for (uint32_t i = 0; i < c->n_programs; i++) {
        st_str_deinit(&c->programs[i].text);
        st_str_deinit(&c->programs[i].image);
        st_diag_release(c->programs[i].err);
    }
    st_free(c->gpu->mem, c->programs);
}

stator_status gpu_module_compile(void *self, const st_kernel *const *kernels, uint32_t n,
                                 void **out_module, stator_diag **err)
{
    st_gpu *gpu = self;
    compilation c = {.gpu = gpu};
    *out_module = NULL;
    ST_TRY(new_module(gpu, n, n, &c.module, err));
    c.programs = st_calloc(gpu->mem, (uint64_t)n + 1u, sizeof *c.programs);
    stator_status status = c.programs ? STATOR_OK : st_fail_oom(err);
    ST_THEN(status, print_all(&c, kernels, err));
    ST_THEN(status, compile_all(&c, kernels, err));
    ST_THEN(status, load(gpu, c.module, err));
    end_compilation(&c);
    if (status != STATOR_OK) {
        gpu_module_destroy(gpu, c.module);
        return status;
    }
    drop_images(gpu, c.module);
    *out_module = c.module;
    return STATOR_OK;
}

/* ---- modules as bytes ---- */

static void put_kernel(const gpu_function *f, st_str *out)
{
    const st_gpu_kernel *kernel = &f->kernel;
    st_put_text(out, kernel->name);
    st_put_u32(out, f->image);
    st_put_u32(out, kernel->threads);
    st_put_u32(out, kernel->iterations);
    st_put_u32(out, kernel->shared_bytes);
    st_put_u32(out, kernel->dynamic_bytes);
    st_put_u64(out, kernel->scratch_bytes);
    st_put_u32(out, kernel->n_arguments);
    for (uint32_t i = 0; i < kernel->n_arguments; i++) {
        st_put_u32(out, kernel->arguments[i].kind);
        st_put_u32(out, kernel->arguments[i].index);
    }
}

stator_status gpu_module_save(void *self, void *module_, st_str *out, stator_diag **err)
{
    gpu_module *m = module_;
    (void)self;
    st_put_u32(out, m->n_images);
    for (uint32_t i = 0; i < m->n_images; i++) {
        ST_FAIL_IF(m->images[i].bytes.len == 0, err, STATOR_UNSUPPORTED,
                   "the images of this program were not kept");
        st_put_block(out, m->images[i].bytes.data, m->images[i].bytes.len);
        st_str_deinit(&m->images[i].bytes);
    }
    for (uint32_t k = 0; k < m->n_functions; k++) {
        put_kernel(&m->functions[k], out);
    }
    return st_str_ok(out) ? STATOR_OK : st_fail_oom(err);
}

static stator_status read_kernel(st_reader *in, gpu_module *m, gpu_function *f, stator_diag **err)
{
    st_gpu_kernel *kernel = &f->kernel;
    const char *name = st_read_text(in);
    (void)snprintf(kernel->name, sizeof kernel->name, "%s", name ? name : "");
    f->image = st_read_below(in, m->n_images);
    kernel->threads = st_read_u32(in);
    kernel->iterations = st_read_u32(in);
    kernel->shared_bytes = st_read_u32(in);
    kernel->dynamic_bytes = st_read_u32(in);
    kernel->scratch_bytes = st_read_u64(in);
    kernel->n_arguments = st_read_below(in, GPU_ARGUMENTS_MAX + 1u);
    kernel->arguments =
        st_arena_zalloc(&m->arena, kernel->n_arguments + 1u, sizeof *kernel->arguments);
    ST_TRY_MEM(kernel->arguments, err);
    for (uint32_t i = 0; i < kernel->n_arguments; i++) {
        kernel->arguments[i].kind = st_read_below(in, ST_GPU_ARGUMENT_SCRATCH + 1u);
        kernel->arguments[i].index = st_read_u32(in);
    }
    return STATOR_OK;
}

static stator_status read_module(st_reader *in, gpu_module *m, stator_diag **err)
{
    for (uint32_t i = 0; i < m->n_images; i++) {
        uint64_t n = 0;
        const void *bytes = st_read_block(in, &n);
        st_str_addn(&m->images[i].bytes, bytes, n);
        ST_TRY_MEM(st_str_ok(&m->images[i].bytes), err);
    }
    for (uint32_t k = 0; k < m->n_functions; k++) {
        ST_TRY(read_kernel(in, m, &m->functions[k], err));
    }
    ST_FAIL_IF(in->failed || in->left, err, STATOR_DATA_LOSS, "the kept kernels are damaged");
    return STATOR_OK;
}

stator_status gpu_module_load(void *self, const void *bytes, uint64_t n, uint32_t n_kernels,
                              void **out_module, stator_diag **err)
{
    st_gpu *gpu = self;
    gpu_module *m = NULL;
    st_reader in = st_reader_of(bytes, n);
    *out_module = NULL;
    const uint32_t n_images = st_read_count(&in, sizeof(uint32_t));
    ST_TRY(new_module(gpu, n_kernels, n_images, &m, err));
    stator_status status = read_module(&in, m, err);
    ST_THEN(status, load(gpu, m, err));
    if (status != STATOR_OK) {
        gpu_module_destroy(gpu, m);
        return status == STATOR_INTERNAL ? STATOR_DATA_LOSS : status; /* the driver knows it not */
    }
    for (uint32_t i = 0; i < n_images; i++) {
        st_str_deinit(&m->images[i].bytes);
    }
    *out_module = m;
    return STATOR_OK;
}
