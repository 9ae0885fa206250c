/* Opens the library that one of HIP's stands on. */
#define _GNU_SOURCE
#include "hip_on_cuda.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *hip_under(const char *variable, const char *name)
{
    const char *file = getenv(variable);
    char beside[1100];
    Dl_info here;
    if ((file == NULL || *file == '\0') &&
        dladdr((const void *)(uintptr_t)&hip_under, &here) != 0) {
        const char *slash = strrchr(here.dli_fname, '/');
        const int folder = slash != NULL ? (int)(slash + 1 - here.dli_fname) : 0;
        snprintf(beside, sizeof(beside), "%.*s%.60s", folder < 1000 ? folder : 0, here.dli_fname,
                 name);
        file = beside;
    }
    void *dso = file != NULL ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (dso == NULL) {
        fprintf(stderr, "hip on cuda: %s\n", dlerror());
    }
    return dso;
}
