/* Finds and opens the libraries of a vendor by name; none is linked.
 *
 * In: perhaps a file that the user named. Out: a table of functions, or a sentence. The order for
 * each library: an object of that soname in the process, the dynamic linker's search, then folders
 * that it does not search: beside the Python packages of this process or of an activated
 * environment (wheels of NVIDIA keep libraries in site-packages/nvidia/PACKAGE/lib), the
 * vendor's own folders, those that containers and WSL mount. The first that opens is taken. */
#define _GNU_SOURCE
#include "codegen/gpu/gpu_open.h"

#include "core/base/diag.h"
#include "core/base/dso.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- folders ---- */

static int find_site_packages(struct dl_phdr_info *info, size_t size, void *out)
{
    static const char name[] = "/site-packages/";
    (void)size;
    const char *at = info->dlpi_name != NULL ? strstr(info->dlpi_name, name) : NULL;
    if (at == NULL) {
        return 0;
    }
    (void)snprintf(out, ST_GPU_PATH_BYTES, "%.*s",
                   (int)(at - info->dlpi_name + (int)sizeof name - 2), info->dlpi_name);
    return 1;
}

/* The folder's pattern with what stands for its beginning; false: that is not there. */
static bool expand_folder(const char *folder, char out[ST_GPU_PATH_BYTES])
{
    char start[ST_GPU_PATH_BYTES] = "";
    const char *rest = folder;
    if (folder[0] == '@') {
        rest = folder + 1;
        ST_NEED(dl_iterate_phdr(find_site_packages, start) != 0);
    } else if (folder[0] == '$') {
        char name[32];
        rest = strchr(folder, '/');
        (void)snprintf(name, sizeof name, "%.*s", (int)(rest - folder - 1), folder + 1);
        const char *value = secure_getenv(name);
        ST_NEED(value != NULL && value[0] == '/');
        (void)snprintf(start, sizeof start, "%s", value);
    }
    const int n = snprintf(out, ST_GPU_PATH_BYTES, "%s%s", start, rest);
    return n > 0 && (size_t)n < ST_GPU_PATH_BYTES;
}

/* ---- opening ---- */

/* A library that is found and does not open says more than one that is not there. */
static void note_failure(const char *name, const char *text, char out[512])
{
    const char *base = strrchr(name, '/') != NULL ? strrchr(name, '/') + 1 : name;
    const bool is_absent =
        strstr(text, "No such file or directory") != NULL && strncmp(text, base, strlen(base)) == 0;
    if (out[0] == '\0' && !is_absent) {
        (void)snprintf(out, 512, "%s", text);
    }
}

static void *open_in_folder(const char *folder, const char *soname, char failure[512])
{
    char pattern[ST_GPU_PATH_BYTES + 32u];
    char text[512];
    glob_t found = {0};
    void *dso = NULL;
    (void)snprintf(pattern, sizeof pattern, "%s/%s", folder, soname);
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc && dso == NULL; i++) {
            dso = st_dso_open(found.gl_pathv[i], text, sizeof text);
            if (dso == NULL) {
                note_failure(soname, text, failure);
            }
        }
    }
    globfree(&found);
    return dso;
}

static void *open_by_soname(const st_gpu_library *l, char failure[512])
{
    char text[512];
    void *dso = NULL;
    for (size_t i = 0; i < ST_GPU_SONAMES_MAX && l->sonames[i] != NULL && dso == NULL; i++) {
        dso = dlopen(l->sonames[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_NOLOAD);
    }
    for (size_t i = 0; i < ST_GPU_SONAMES_MAX && l->sonames[i] != NULL && dso == NULL; i++) {
        dso = st_dso_open(l->sonames[i], text, sizeof text);
        if (dso == NULL) {
            note_failure(l->sonames[i], text, failure);
        }
    }
    return dso;
}

static void *open_anywhere(const st_gpu_library *l, char failure[512])
{
    char folder[ST_GPU_PATH_BYTES];
    void *dso = open_by_soname(l, failure);
    for (size_t f = 0; f < ST_GPU_FOLDERS_MAX && l->folders[f] != NULL && dso == NULL; f++) {
        if (!expand_folder(l->folders[f], folder)) {
            continue;
        }
        for (size_t i = 0; i < ST_GPU_SONAMES_MAX && l->sonames[i] != NULL && dso == NULL; i++) {
            dso = open_in_folder(folder, l->sonames[i], failure);
        }
    }
    return dso;
}

/* ---- reasons ---- */

/* "the CUDA driver is not there: no libcuda.so.1 where the dynamic linker looks, nor in A, B" */
static void say_absent(const st_gpu_library *l, st_gpu_missing *why)
{
    char folder[ST_GPU_PATH_BYTES];
    size_t n = 0;
    n += (size_t)snprintf(why->reason, sizeof why->reason,
                          "%s is not there: no %s%s%s where the dynamic linker looks", l->what,
                          l->sonames[0], l->sonames[1] != NULL ? " or " : "",
                          l->sonames[1] != NULL ? l->sonames[1] : "");
    const char *before = ", nor in ";
    for (size_t f = 0; f < ST_GPU_FOLDERS_MAX && l->folders[f] != NULL; f++) {
        if (expand_folder(l->folders[f], folder) &&
            n + strlen(before) + strlen(folder) < sizeof why->reason) {
            n += (size_t)snprintf(why->reason + n, sizeof why->reason - n, "%s%s", before, folder);
            before = ", ";
        }
    }
    (void)snprintf(why->hint, sizeof why->hint, "%s", l->install);
}

static void *open_library(const st_gpu_library *l, const char *file, st_gpu_missing *why)
{
    char failure[512] = "";
    const bool is_named = file != NULL && file[0] != '\0';
    if (is_named) {
        void *dso = st_dso_open(file, failure, sizeof failure);
        if (dso == NULL) {
            (void)snprintf(why->reason, sizeof why->reason,
                           "the file of the option %s cannot be opened: %s", l->option, failure);
            (void)snprintf(why->hint, sizeof why->hint,
                           "correct the option %s, or leave it out: then %s is looked for",
                           l->option, l->what);
        }
        return dso;
    }
    void *dso = open_anywhere(l, failure);
    if (dso == NULL && failure[0] != '\0') {
        (void)snprintf(why->reason, sizeof why->reason, "%s cannot be opened: %s", l->what,
                       failure);
        (void)snprintf(why->hint, sizeof why->hint, "%s", l->install);
    } else if (dso == NULL) {
        say_absent(l, why);
    }
    return dso;
}

static void find_path(void *dso, char out[ST_GPU_PATH_BYTES])
{
    struct link_map *map = NULL;
    const bool is_known = dlinfo(dso, RTLD_DI_LINKMAP, &map) == 0 && map != NULL;
    (void)snprintf(out, ST_GPU_PATH_BYTES, "%s", is_known ? map->l_name : "");
}

/* ---- tables ---- */

bool st_gpu_fill_functions(const st_gpu_library *l, void *dso, const char *path,
                           const char *const *names, size_t n, void *table, st_gpu_missing *why)
{
    for (size_t i = 0; i < n; i++) {
        const bool is_optional = names[i][0] == '?';
        void *function = st_dso_symbol(dso, names[i] + (is_optional ? 1 : 0));
        if (function == NULL && !is_optional) {
            (void)snprintf(why->reason, sizeof why->reason,
                           "%s is too old or is not one: %.600s has "
                           "no function %s",
                           l->what, path[0] != '\0' ? path : l->sonames[0], names[i]);
            (void)snprintf(why->hint, sizeof why->hint, "%s, or name its file with the option %s",
                           l->too_old, l->option);
            return false;
        }
        memcpy((char *)table + i * sizeof function, &function, sizeof function);
    }
    return true;
}

bool st_gpu_open_library(const st_gpu_library *l, const char *file, st_gpu_missing *why, void **out,
                         char out_path[ST_GPU_PATH_BYTES])
{
    *out = open_library(l, file, why);
    ST_NEED(*out != NULL);
    find_path(*out, out_path);
    return true;
}
