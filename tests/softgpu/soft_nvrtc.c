/* libnvrtc of the software device: the NVRTC API over the system's C compiler. A program names
 * "gpu_prelude.h" among its headers; its text is not looked at, the soft prelude takes its
 * place. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "soft_compile.h"

#define SOFT_EXPORT __attribute__((visibility("default")))
#define DEFAULT_ARCH 75 /* what NVRTC 13 compiles for when nothing is said */

typedef enum nvrtcResult {
    NVRTC_SUCCESS = 0,
    NVRTC_ERROR_OUT_OF_MEMORY = 1,
    NVRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
    NVRTC_ERROR_INVALID_INPUT = 3,
    NVRTC_ERROR_INVALID_PROGRAM = 4,
    NVRTC_ERROR_INVALID_OPTION = 5,
    NVRTC_ERROR_COMPILATION = 6
} nvrtcResult;

typedef struct soft_nvrtc_program {
    char *text;
    bool has_prelude;
    soft_bytes object, log;
} * nvrtcProgram;

SOFT_EXPORT nvrtcResult nvrtcVersion(int *major, int *minor);
SOFT_EXPORT nvrtcResult nvrtcGetNumSupportedArchs(int *n);
SOFT_EXPORT nvrtcResult nvrtcGetSupportedArchs(int *archs);
SOFT_EXPORT nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *text, const char *name,
                                           int n_headers, const char *const *headers,
                                           const char *const *names);
SOFT_EXPORT nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int n_options,
                                            const char *const *options);
SOFT_EXPORT nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *out);
SOFT_EXPORT nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *out);
SOFT_EXPORT nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *out);
SOFT_EXPORT nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *out);
SOFT_EXPORT nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *out);
SOFT_EXPORT nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *out);
SOFT_EXPORT nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program);
SOFT_EXPORT const char *nvrtcGetErrorString(nvrtcResult result);

static const unsigned archs[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
#define N_ARCHS (sizeof(archs) / sizeof(archs[0]))

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetNumSupportedArchs(int *n)
{
    *n = (int)N_ARCHS;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *out)
{
    for (size_t i = 0; i < N_ARCHS; i++) {
        out[i] = (int)archs[i];
    }
    return NVRTC_SUCCESS;
}

/* ---- options ---- */

/* What a compiler for a CPU has no counterpart of, or does anyway. */
static const char *const ignored[] = {"--std=c++",
                                      "-std=c++",
                                      "--minimal",
                                      "-minimal",
                                      "--restrict",
                                      "-restrict",
                                      "--prec-div=true",
                                      "-prec-div=true",
                                      "--ftz=false",
                                      "-ftz=false",
                                      "--prec-sqrt=true",
                                      "-prec-sqrt=true",
                                      "--Ofast",
                                      "--split-compile",
                                      "-split-compile",
                                      "--generate-line-info",
                                      "-lineinfo",
                                      "--ptxas-options",
                                      "-Xptxas",
                                      "--device-debug",
                                      "-G",
                                      "-default-device",
                                      "--device-as-default-execution-space",
                                      "--maxrregcount",
                                      "-maxrregcount",
                                      "--extra-device-vectorization",
                                      "--no-cache",
                                      "-no-cache",
                                      "--disable-warnings",
                                      "-w",
                                      "--diag-suppress",
                                      "-diag-suppress"};

/* What stands behind a name and '=', or NULL. */
static const char *value_of(const char *option, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(option, name, n) == 0 && option[n] == '=' ? option + n + 1 : NULL;
}

static bool read_arch(const char *value, soft_program *out)
{
    const char *digits = strrchr(value, '_');
    out->arch = digits != NULL ? (unsigned)strtoul(digits + 1, NULL, 10) : 0;
    out->is_ptx = strncmp(value, "compute_", 8) == 0;
    for (size_t i = 0; i < N_ARCHS; i++) {
        if (archs[i] == out->arch) {
            return true;
        }
    }
    return false;
}

/* Reads one option; false when it is not known, or asks for what the software device cannot do. */
static bool read_option(const char *option, soft_program *out)
{
    const char *arch = value_of(option, "--gpu-architecture");
    const char *contract = value_of(option, "--fmad");
    arch = arch != NULL ? arch : value_of(option, "-arch");
    contract = contract != NULL ? contract : value_of(option, "-fmad");
    if (arch != NULL) {
        return read_arch(arch, out);
    }
    if (contract != NULL) {
        out->contracts = strcmp(contract, "true") == 0;
        return out->contracts || strcmp(contract, "false") == 0;
    }
    if ((strncmp(option, "-D", 2) == 0 || strncmp(option, "-U", 2) == 0) && option[2] != '\0' &&
        out->n_defines < SOFT_DEFINES_MAX) {
        out->defines[out->n_defines++] = option;
        return true;
    }
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
        if (strncmp(option, ignored[i], strlen(ignored[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- programs ---- */

nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *text, const char *name, int n_headers,
                               const char *const *headers, const char *const *names)
{
    (void)name;
    (void)headers;
    if (out == NULL || text == NULL || n_headers < 0) {
        return NVRTC_ERROR_INVALID_INPUT;
    }
    nvrtcProgram program = calloc(1, sizeof(*program));
    *out = program;
    if (program == NULL || (program->text = strdup(text)) == NULL) {
        free(program);
        *out = NULL;
        return NVRTC_ERROR_OUT_OF_MEMORY;
    }
    for (int i = 0; i < n_headers; i++) {
        program->has_prelude |= strcmp(names[i], "gpu_prelude.h") == 0;
    }
    return NVRTC_SUCCESS;
}

static void forget(nvrtcProgram program)
{
    free(program->object.data);
    free(program->log.data);
    program->object = program->log = (soft_bytes){NULL, 0};
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int n_options, const char *const *options)
{
    if (program == NULL) {
        return NVRTC_ERROR_INVALID_PROGRAM;
    }
    soft_program in = {.text = program->text,
                       .has_prelude = program->has_prelude,
                       .arch = DEFAULT_ARCH,
                       .contracts = true};
    forget(program);
    for (int i = 0; i < n_options; i++) {
        if (!read_option(options[i], &in)) {
            char line[200];
            snprintf(line, sizeof(line), "error: option '%.100s' is not known or cannot be kept\n",
                     options[i]);
            program->log.data = strdup(line);
            program->log.size = strlen(line);
            return NVRTC_ERROR_INVALID_OPTION;
        }
    }
    return soft_compile(&in, &program->object, &program->log) ? NVRTC_SUCCESS
                                                              : NVRTC_ERROR_COMPILATION;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *out)
{
    *out = program != NULL ? program->log.size + 1 : 0; /* with the NUL */
    return program != NULL ? NVRTC_SUCCESS : NVRTC_ERROR_INVALID_PROGRAM;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *out)
{
    if (program == NULL) {
        return NVRTC_ERROR_INVALID_PROGRAM;
    }
    memcpy(out, program->log.data != NULL ? program->log.data : "", program->log.size + 1);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *out)
{
    *out = program != NULL ? program->object.size : 0;
    return *out != 0 ? NVRTC_SUCCESS : NVRTC_ERROR_INVALID_PROGRAM;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *out)
{
    if (program == NULL || program->object.size == 0) {
        return NVRTC_ERROR_INVALID_PROGRAM;
    }
    memcpy(out, program->object.data, program->object.size);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *out)
{
    return nvrtcGetCUBINSize(program, out);
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *out)
{
    return nvrtcGetCUBIN(program, out);
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    if (program == NULL || *program == NULL) {
        return NVRTC_ERROR_INVALID_PROGRAM;
    }
    forget(*program);
    free((*program)->text);
    free(*program);
    *program = NULL;
    return NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(nvrtcResult result)
{
    static const char *const texts[] = {"NVRTC_SUCCESS",
                                        "NVRTC_ERROR_OUT_OF_MEMORY",
                                        "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                        "NVRTC_ERROR_INVALID_INPUT",
                                        "NVRTC_ERROR_INVALID_PROGRAM",
                                        "NVRTC_ERROR_INVALID_OPTION",
                                        "NVRTC_ERROR_COMPILATION"};
    const size_t i = (size_t)result;
    return i < sizeof(texts) / sizeof(texts[0]) ? texts[i] : "NVRTC_ERROR unknown";
}
