/* Shared objects are opened for good: RTLD_NODELETE, never dlclose'd (docs/abi.md). */
#define _GNU_SOURCE
#include "core/base/dso.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void *st_dso_open(const char *path, char *msg, uint64_t msg_size)
{
    void *dso = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (msg_size != 0) {
        const char *text = dso == NULL ? dlerror() : NULL;
        snprintf(msg, (size_t)msg_size, "%s", dso != NULL ? "" : text != NULL ? text : "dlopen");
    }
    return dso;
}

void *st_dso_symbol(void *dso, const char *name)
{
    return dlsym(dso, name);
}

bool st_dso_folder_of(const void *address, char *out, uint64_t out_size)
{
    Dl_info info;
    char path[PATH_MAX];
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL ||
        realpath(info.dli_fname, path) == NULL) {
        return false;
    }
    char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return false;
    }
    *(slash == path ? slash + 1 : slash) = '\0';
    const size_t n = strlen(path);
    if (n >= out_size) {
        return false;
    }
    memcpy(out, path, n + 1u);
    return true;
}

bool st_dso_is_trusted(const char *path, const char *folder)
{
    struct stat file;
    struct stat plugin;
    return stat(path, &file) == 0 && stat(folder, &plugin) == 0 && S_ISREG(file.st_mode) &&
           (file.st_uid == plugin.st_uid || file.st_uid == 0) && !(file.st_mode & S_IWOTH);
}
