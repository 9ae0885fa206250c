/* Compiles a kernel's text with NVRTC.
 *
 * In: a program in the dialect of docs/gpu.md, which includes "gpu_prelude.h" and nothing else. The
 * prelude is handed over as a named header, so no file is read. Out: machine code for the device's
 * own architecture; PTX where this NVRTC is older than the device.
 *
 * Options: no contraction of a * b + c, so that the bits are those of the operators; divisions,
 * roots and subnormals are as IEEE 754 has them by NVRTC's defaults. `-minimal` leaves out the
 * declarations of CUDA's own headers, which the dialect does not use, and saves about 5 ms a
 * program. */
#include "cuda_compile.h"

#include "codegen/gpu/gpu_native.h"
#include "core/base/diag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS_MAX = 8, OPTION_BYTES = 48, NO_ARCH = 0 };

/* -minimal came with 12.4. */
#define MINIMAL_SINCE 1204

void cuda_compiler_init(cuda_compiler *compiler, const char *file)
{
    memset(compiler, 0, sizeof *compiler);
    compiler->file = file;
    (void)pthread_mutex_init(&compiler->mutex, NULL);
}

void cuda_compiler_deinit(cuda_compiler *compiler)
{
    (void)pthread_mutex_destroy(&compiler->mutex);
}

/* ---- opening ---- */

static const st_gpu_library nvrtc_library = {
    .what = "NVRTC, CUDA's run-time compiler,",
    .option = "nvrtc",
    .sonames = {"libnvrtc.so.13", "libnvrtc.so.12"},
    .folders = {"@/nvidia/*/lib", "$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/*/lib",
                "$CONDA_PREFIX/lib/python3*/site-packages/nvidia/*/lib", "$CONDA_PREFIX/lib",
                "$CUDA_HOME/lib64", "$CUDA_PATH/lib64", "/usr/local/cuda/lib64"},
    .install = "install it (Debian: libnvrtc12; Python: pip install nvidia-cuda-nvrtc), or name "
               "its file with the option nvrtc",
    .too_old = "install NVRTC of CUDA 12 or newer"};

#define CUDA_FUNCTION(field, symbol, arguments) symbol,
static const char *const nvrtc_names[] = {
#include "cuda_nvrtc_functions.def"
};
#undef CUDA_FUNCTION
_Static_assert(sizeof(cuda_nvrtc_api) == sizeof nvrtc_names, "a pointer for each name");

static bool open_nvrtc(cuda_compiler *c)
{
    void *dso = NULL;
    return st_gpu_open_library(&nvrtc_library, c->file, &c->why, &dso, c->path) &&
           st_gpu_fill_functions(&nvrtc_library, dso, c->path, nvrtc_names,
                                 sizeof nvrtc_names / sizeof nvrtc_names[0], &c->api, &c->why);
}

static int compare_archs(const void *a, const void *b)
{
    const int x = *(const int *)a;
    const int y = *(const int *)b;
    return (x > y) - (x < y);
}

static bool ask_compiler(cuda_compiler *c)
{
    const cuda_nvrtc_api *api = &c->api;
    const bool is_answered = api->version(&c->major, &c->minor) == NVRTC_RESULT_SUCCESS &&
                             api->arch_count(&c->arch_count) == NVRTC_RESULT_SUCCESS &&
                             c->arch_count > 0 && c->arch_count <= CUDA_ARCHS_MAX &&
                             api->archs(c->archs) == NVRTC_RESULT_SUCCESS;
    if (is_answered) {
        qsort(c->archs, (size_t)c->arch_count, sizeof c->archs[0], compare_archs);
        return true;
    }
    (void)snprintf(c->why.reason, sizeof c->why.reason,
                   "NVRTC in %.600s does not say its version and architectures", c->path);
    (void)snprintf(c->why.hint, sizeof c->why.hint, "install another NVRTC, of CUDA 12 or newer");
    return false;
}

stator_status cuda_compiler_open(cuda_compiler *c, stator_diag **err)
{
    (void)pthread_mutex_lock(&c->mutex);
    if (!c->is_tried) {
        c->is_usable = open_nvrtc(c) && ask_compiler(c);
        c->is_tried = true;
    }
    (void)pthread_mutex_unlock(&c->mutex);
    if (c->is_usable) {
        return STATOR_OK;
    }
    (void)st_fail(err, STATOR_NOT_FOUND, "%s", c->why.reason);
    if (err != NULL) {
        st_diag_set_hint(*err, "%s", c->why.hint);
    }
    return STATOR_NOT_FOUND;
}

/* ---- architectures ---- */

/* What the image is for: "sm_90" as machine code or "compute_90" as PTX. */
typedef struct target {
    char arch[24];
    bool is_ptx;
} target;

/* 90 of "sm_90" and of "compute_90"; NO_ARCH: it is neither. */
static uint32_t number_of(const char *arch, bool *out_is_ptx)
{
    static const char ptx[] = "compute_";
    static const char code[] = "sm_";
    *out_is_ptx = strncmp(arch, ptx, sizeof ptx - 1) == 0;
    const bool is_code = strncmp(arch, code, sizeof code - 1) == 0;
    char *end = NULL;
    const long n = *out_is_ptx ? strtol(arch + sizeof ptx - 1, &end, 10)
                   : is_code   ? strtol(arch + sizeof code - 1, &end, 10)
                               : NO_ARCH;
    return n > 0 && n < 10000 && *end == '\0' ? (uint32_t)n : NO_ARCH;
}

const char *cuda_refuse_arch(const char *own, const char *wanted)
{
    bool is_ptx = false;
    bool is_own_ptx = false;
    const uint32_t device = number_of(own, &is_own_ptx);
    const uint32_t number = number_of(wanted, &is_ptx);
    if (number == NO_ARCH) {
        return "which is no architecture; expected a name such as sm_90 or compute_90";
    }
    if (number > device) {
        return "which is newer than the device; leave the option out";
    }
    return is_ptx || number / 10u == device / 10u
               ? NULL
               : "whose machine code does not run on the device; name its PTX (compute_ in place "
                 "of sm_), or leave the option out";
}

static stator_status choose_target(const cuda_compiler *c, const char *arch, target *out,
                                   stator_diag **err)
{
    bool wants_ptx = false;
    const uint32_t wanted = number_of(arch, &wants_ptx);
    uint32_t best = NO_ARCH; /* the newest that is not newer than the device */
    for (int i = 0; i < c->arch_count; i++) {
        best = (uint32_t)c->archs[i] <= wanted ? (uint32_t)c->archs[i] : best;
    }
    ST_FAIL_IF(wanted == NO_ARCH, err, STATOR_INVALID_ARGUMENT,
               "'%.40s' is no architecture of a GPU; expected a name such as sm_90 or compute_90",
               arch);
    ST_FAIL_IF(best == NO_ARCH, err, STATOR_UNSUPPORTED,
               "NVRTC %d.%d (%s) makes code for sm_%d and newer, and the device, or the option "
               "arch, is %s: install an older NVRTC, libnvrtc.so.12",
               c->major, c->minor, c->path, c->archs[0], arch);
    out->is_ptx = wants_ptx || best != wanted;
    (void)snprintf(out->arch, sizeof out->arch, "%s_%u", out->is_ptx ? "compute" : "sm", best);
    return STATOR_OK;
}

/* ---- one program ---- */

static const char *result_text(nvrtc_result result)
{
    static const char *const texts[] = {"success",
                                        "out of memory",
                                        "the program cannot be created",
                                        "invalid input",
                                        "invalid program",
                                        "invalid option",
                                        "compilation error",
                                        "operation of a built-in failed"};
    const bool is_known = result >= 0 && (size_t)result < sizeof texts / sizeof texts[0];
    return is_known ? texts[result] : "an error of a newer NVRTC";
}

/* Any call of NVRTC but the compilation itself; those fail for want of memory. */
static stator_status check(const cuda_compiler *c, nvrtc_result result, const char *doing,
                           stator_diag **err)
{
    if (result == NVRTC_RESULT_SUCCESS) {
        return STATOR_OK;
    }
    const bool is_memory = result == NVRTC_RESULT_OUT_OF_MEMORY;
    return st_fail(err, is_memory ? STATOR_RESOURCE_EXHAUSTED : STATOR_INTERNAL,
                   "NVRTC %d.%d: %s failed with error %d (%s)", c->major, c->minor, doing,
                   (int)result, result_text(result));
}

static void add_log(const cuda_compiler *c, nvrtc_program program, st_mem *mem, st_str *out)
{
    size_t bytes = 0;
    st_str log;
    st_str_init(&log, mem);
    if (c->api.log_size(program, &bytes) == NVRTC_RESULT_SUCCESS && bytes > 1) {
        char *at = st_str_extend(&log, bytes); /* with the 0 behind it */
        if (at != NULL && c->api.log(program, at) == NVRTC_RESULT_SUCCESS) {
            st_gpu_add_log(out, at);
        }
    }
    st_str_deinit(&log);
}

/* The log and the text, each line of which is numbered as the log names it. */
static stator_status say_refused(const cuda_compiler *c, nvrtc_program program, const target *t,
                                 const char *name, const char *text, st_mem *mem, stator_diag **err)
{
    st_str all;
    st_str_init(&all, mem);
    add_log(c, program, mem, &all);
    st_gpu_add_numbered(&all, text, strlen(text));
    const stator_status status =
        st_fail(err, STATOR_INTERNAL,
                "NVRTC %d.%d cannot compile the kernel '%s' for %s; report this, with its log and "
                "the kernel's text:%s",
                c->major, c->minor, name, t->arch, st_str_ok(&all) ? all.data : "(no memory)");
    st_str_deinit(&all);
    return status;
}

static stator_status take_image(const cuda_compiler *c, nvrtc_program program, const target *t,
                                st_str *out, stator_diag **err)
{
    size_t bytes = 0;
    const cuda_nvrtc_api *api = &c->api;
    ST_TRY(check(c, (t->is_ptx ? api->ptx_size : api->cubin_size)(program, &bytes),
                 "asking for the image's size", err));
    ST_FAIL_IF(bytes == 0, err, STATOR_INTERNAL, "NVRTC %d.%d gave an empty image for %s", c->major,
               c->minor, t->arch);
    char *image = st_str_extend(out, bytes);
    ST_TRY_MEM(image, err);
    return check(c, (t->is_ptx ? api->ptx : api->cubin)(program, image), "taking the image", err);
}

static stator_status compile_program(const cuda_compiler *c, nvrtc_program program, const target *t,
                                     const char *name, const char *text, st_str *out,
                                     stator_diag **err)
{
    char arch[OPTION_BYTES];
    const char *options[OPTIONS_MAX];
    int n = 0;
    (void)snprintf(arch, sizeof arch, "--gpu-architecture=%s", t->arch);
    options[n++] = arch;
    options[n++] = "--std=c++17";
    options[n++] = "--fmad=false";
    if (c->major * 100 + c->minor >= MINIMAL_SINCE) {
        options[n++] = "-minimal";
    }
    const nvrtc_result result = c->api.program_compile(program, n, options);
    if (result == NVRTC_RESULT_COMPILATION) {
        return say_refused(c, program, t, name, text, out->mem, err);
    }
    ST_TRY(check(c, result, "compiling", err));
    return take_image(c, program, t, out, err);
}

stator_status cuda_compile(cuda_compiler *c, const char *arch, const char *name, const char *text,
                           uint64_t text_bytes, st_str *out, stator_diag **err)
{
    static const char *const header_names[] = {"gpu_prelude.h"};
    const char *const headers[] = {cuda_prelude};
    nvrtc_program program = NULL;
    char file[96];
    target t;
    if (cuda_compiler_open(c, err) != STATOR_OK) {
        return STATOR_UNAVAILABLE;
    }
    ST_TRY(choose_target(c, arch, &t, err));
    char *copy = st_strndup(out->mem, text, text_bytes); /* NVRTC reads to a 0 */
    ST_TRY_MEM(copy, err);
    (void)snprintf(file, sizeof file, "%.80s.cu", name);
    stator_status status =
        check(c, c->api.program_create(&program, copy, file, 1, headers, header_names),
              "creating a program", err);
    if (status == STATOR_OK) {
        status = compile_program(c, program, &t, name, copy, out, err);
        (void)c->api.program_destroy(&program);
    }
    st_free(out->mem, copy);
    return status;
}
