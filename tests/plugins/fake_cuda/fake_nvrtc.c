/* An NVRTC for the tests of plugins/cuda: the image of a program is its options, one a line, then
 * its text. FAKE_VERSION (1300) is its version; a text with the word "refused" does not compile. */
#include "plugins/cuda/cuda_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FAKE_VERSION
#define FAKE_VERSION 1300
#endif

#define CUDA_FUNCTION(field, symbol, arguments)                                                    \
    __attribute__((visibility("default"))) nvrtc_result fake_##field arguments __asm__(symbol);
#include "plugins/cuda/cuda_nvrtc_functions.def"
#undef CUDA_FUNCTION

struct nvrtc_program_ {
    char text[4096];
    char image[8192];
};

static const int known_archs[] = {90, 75, 100}; /* in no order, as nobody promises one */

nvrtc_result fake_version(int *major, int *minor)
{
    *major = FAKE_VERSION / 100;
    *minor = FAKE_VERSION % 100;
    return 0;
}
nvrtc_result fake_arch_count(int *count)
{
    *count = 3;
    return 0;
}
nvrtc_result fake_archs(int *archs)
{
    memcpy(archs, known_archs, sizeof known_archs);
    return 0;
}
nvrtc_result fake_program_create(nvrtc_program *program, const char *text, const char *name,
                                 int header_count, const char *const *headers,
                                 const char *const *header_names)
{
    *program = calloc(1, sizeof **program);
    if (*program == NULL || header_count != 1 || headers[0][0] == '\0' ||
        strcmp(header_names[0], "gpu_prelude.h") != 0) {
        return 3;
    }
    snprintf((*program)->text, sizeof(*program)->text, "%s: %s", name, text);
    return 0;
}
nvrtc_result fake_program_compile(nvrtc_program program, int option_count,
                                  const char *const *options)
{
    size_t n = 0;
    for (int i = 0; i < option_count; i++) {
        n += (size_t)snprintf(program->image + n, sizeof program->image - n, "%s\n", options[i]);
    }
    snprintf(program->image + n, sizeof program->image - n, "%s", program->text);
    return strstr(program->text, "refused") != NULL ? NVRTC_RESULT_COMPILATION : 0;
}
nvrtc_result fake_program_destroy(nvrtc_program *program)
{
    free(*program);
    *program = NULL;
    return 0;
}
nvrtc_result fake_log_size(nvrtc_program program, size_t *bytes)
{
    (void)program;
    *bytes = sizeof "k.cu(2): error: no\nx\n";
    return 0;
}
nvrtc_result fake_log(nvrtc_program program, char *text)
{
    (void)program;
    strcpy(text, "k.cu(2): error: no\nx\n");
    return 0;
}
nvrtc_result fake_cubin_size(nvrtc_program program, size_t *bytes)
{
    *bytes = strlen(program->image) + 1;
    return 0;
}
nvrtc_result fake_cubin(nvrtc_program program, char *image)
{
    strcpy(image, program->image);
    return 0;
}
nvrtc_result fake_ptx_size(nvrtc_program program, size_t *bytes)
{
    return fake_cubin_size(program, bytes);
}
nvrtc_result fake_ptx(nvrtc_program program, char *text)
{
    return fake_cubin(program, text);
}
