/* Programs of fixed kernels: compiled once a device, and kept until its runtime ends. */
#include "codegen/gpu/fixed/gpu_fixed.h"

#include <string.h>

static void destroy(st_gpu *gpu, gpu_program *program)
{
    if (program->module) {
        gpu->driver->module_unload(gpu->driver->self, program->module);
    }
    st_str_deinit(&program->text);
    st_str_deinit(&program->image);
    st_free(gpu->mem, program);
}

static bool is_text(const gpu_program *program, const st_str *text)
{
    return program->text.len == text->len && memcmp(program->text.data, text->data, text->len) == 0;
}

static stator_status load(st_gpu *gpu, gpu_program *program, const char *const *kernels,
                          stator_diag **err)
{
    const st_gpu_driver *driver = gpu->driver;
    ST_TRY(driver->module_load(driver->self, program->image.data, program->image.len,
                               &program->module, err));
    for (uint32_t i = 0; kernels[i]; i++) {
        ST_TRY(driver->module_function(driver->self, program->module, kernels[i],
                                       &program->functions[i], err));
    }
    return STATOR_OK;
}

static stator_status compile(st_gpu *gpu, gpu_program *program, const char *name, stator_diag **err)
{
    const stator_host *host = gpu->config.host;
    const st_gpu_driver *driver = gpu->driver;
    if (STATOR_HAS(host->log, dump) && host->log->is_dumping(host->ctx)) {
        st_str file;
        st_str_init(&file, gpu->mem);
        st_str_addf(&file, "%s.gpu.c", name);
        if (st_str_ok(&file)) {
            host->log->dump(host->ctx, file.data, program->text.data, program->text.len);
        }
        st_str_deinit(&file);
    }
    atomic_fetch_add(&gpu->compiled, 1);
    stator_diag *own = NULL;
    const stator_status status = driver->compile(driver->self, name, program->text.data,
                                                 program->text.len, &program->image, &own);
    if (status != STATOR_OK) {
        st_diag_prefix(own, "kernel %s", name);
        return st_diag_give(status, own, err);
    }
    return st_str_ok(&program->image) ? STATOR_OK : st_fail_oom(err);
}

static stator_status make(st_gpu *gpu, const st_str *text, const char *const *kernels,
                          const st_str *image, gpu_program *out, stator_diag **err)
{
    st_str_init(&out->text, gpu->mem);
    st_str_init(&out->image, gpu->mem);
    st_str_addn(&out->text, text->data, text->len);
    if (image && image->len) {
        st_str_addn(&out->image, image->data, image->len);
    }
    ST_TRY_MEM(st_str_ok(&out->text) && st_str_ok(&out->image), err);
    if (out->image.len == 0) {
        ST_TRY(compile(gpu, out, kernels[0], err));
    }
    return load(gpu, out, kernels, err);
}

stator_status gpu_program_find(st_gpu *gpu, const st_str *text, const char *const *kernels,
                               const st_str *image, gpu_program **out, stator_diag **err)
{
    stator_status status = STATOR_OK;
    pthread_mutex_lock(&gpu->programs_lock);
    gpu_program *program = gpu->programs;
    while (program && !is_text(program, text)) {
        program = program->next;
    }
    if (program == NULL) {
        program = st_calloc(gpu->mem, 1, sizeof *program);
        status = program ? make(gpu, text, kernels, image, program, err) : st_fail_oom(err);
        if (status == STATOR_OK) {
            program->next = gpu->programs;
            gpu->programs = program;
        } else if (program) {
            destroy(gpu, program);
            program = NULL;
        }
    }
    pthread_mutex_unlock(&gpu->programs_lock);
    *out = program;
    return status;
}

void gpu_programs_destroy(st_gpu *gpu)
{
    while (gpu->programs) {
        gpu_program *next = gpu->programs->next;
        destroy(gpu, gpu->programs);
        gpu->programs = next;
    }
}
