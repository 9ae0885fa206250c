/* NVRTC of the software device, which plants a fault in the text of a kernel: the row of
 * planted_kernels.def that STATOR_PLANT names. STATOR_PLANT_LOG is a file that gets the names of
 * the kernels that were changed, a line each. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fault {
    const char *name, *kernel, *from, *to;
} fault;

static const fault faults[] = {
#define PLANTED(name_, kernel_, from_, to_) {#name_, #kernel_, from_, to_},
#include "planted_kernels.def"
#undef PLANTED
};

typedef int create_program(void **out, const char *text, const char *name, int n_headers,
                           const char *const *headers, const char *const *names);

__attribute__((visibility("default"))) create_program nvrtcCreateProgram;

/* Is the file "st_k<number>_<kernel>.cu"? */
static bool is_of(const char *file, const char *kernel)
{
    const char *at = strncmp(file, "st_k", 4) == 0 ? file + 4 : file;
    while (isdigit((unsigned char)*at)) {
        at++;
    }
    const size_t n = strlen(kernel);
    return *at == '_' && strncmp(at + 1, kernel, n) == 0 && at[n + 1] == '.';
}

static const fault *fault_for(const char *file)
{
    const char *planted = getenv("STATOR_PLANT");
    for (size_t i = 0; planted != NULL && i < sizeof faults / sizeof faults[0]; i++) {
        if (strcmp(faults[i].name, planted) == 0 && is_of(file, faults[i].kernel)) {
            return &faults[i];
        }
    }
    return NULL;
}

static void note(const char *name)
{
    const char *path = getenv("STATOR_PLANT_LOG");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    if (file != NULL) {
        fprintf(file, "%.*s\n", (int)strcspn(name, "."), name);
        fclose(file);
    }
}

/* The text with the fault in it; NULL: it has no such place. */
static char *plant(const char *text, const fault *f)
{
    char *out = NULL;
    size_t bytes = 0;
    FILE *file = strstr(text, f->from) != NULL ? open_memstream(&out, &bytes) : NULL;
    if (file == NULL) {
        return NULL;
    }
    for (const char *at = NULL; (at = strstr(text, f->from)) != NULL;) {
        fprintf(file, "%.*s%s", (int)(at - text), text, f->to);
        text = at + strlen(f->from);
    }
    fputs(text, file);
    fclose(file);
    return out;
}

int nvrtcCreateProgram(void **out, const char *text, const char *name, int n_headers,
                       const char *const *headers, const char *const *names)
{
    void *library = dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_NOLOAD); /* linked with it */
    create_program *create = NULL;
    *(void **)&create = dlsym(library, "nvrtcCreateProgram");
    const fault *f = fault_for(name);
    char *planted = f != NULL ? plant(text, f) : NULL;
    if (planted != NULL) {
        note(name);
    }
    const int result =
        create(out, planted != NULL ? planted : text, name, n_headers, headers, names);
    free(planted);
    dlclose(library);
    return result;
}
