/* Finds and opens libcuda, NVRTC and cuBLASLt by name; none is linked.
 *
 * In: perhaps a file that the user named. Out: a table of functions, or a sentence. The order for
 * each library: an object of that soname in the process, the dynamic linker's search, then folders
 * that it does not search: beside the Python packages of this process or of an activated
 * environment (pip's wheels of NVIDIA keep libraries in site-packages/nvidia/PACKAGE/lib), CUDA's
 * own folders, those that containers and WSL mount. The first that opens is taken. */
#define _GNU_SOURCE
#include "cuda_open.h"

#include "core/base/diag.h"
#include "core/base/dso.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SONAMES_MAX = 2, FOLDERS_MAX = 9 };

/* A folder is a pattern as glob(3) has them; "$NAME/" in front stands for that variable, "@/" for
 * the site-packages of the Python that runs this process. */
typedef struct library {
    const char *what;
    const char *option;
    const char *sonames[SONAMES_MAX]; /* the newest first */
    const char *folders[FOLDERS_MAX];
    const char *install;
    const char *too_old;
} library;

static const library driver_library = {
    .what = "the CUDA driver",
    .option = "driver",
    .sonames = {"libcuda.so.1"},
    .folders = {"/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"},
    .install = "install NVIDIA's driver (Debian: nvidia-driver, or nvidia-driver-libs in a "
               "container whose host has it)",
    .too_old = "install a driver of CUDA 11 or newer"};

static const library nvrtc_library = {
    .what = "NVRTC, CUDA's run-time compiler,",
    .option = "nvrtc",
    .sonames = {"libnvrtc.so.13", "libnvrtc.so.12"},
    .folders = {"@/nvidia/*/lib", "$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/*/lib",
                "$CONDA_PREFIX/lib/python3*/site-packages/nvidia/*/lib", "$CONDA_PREFIX/lib",
                "$CUDA_HOME/lib64", "$CUDA_PATH/lib64", "/usr/local/cuda/lib64"},
    .install = "install it (Debian: libnvrtc12; Python: pip install nvidia-cuda-nvrtc), or name "
               "its file with the option nvrtc",
    .too_old = "install NVRTC of CUDA 12 or newer"};

static const library cublaslt_library = {
    .what = "cuBLASLt, CUDA's library of matrix products,",
    .option = "cublaslt",
    .sonames = {"libcublasLt.so.13", "libcublasLt.so.12"},
    .folders = {"@/nvidia/*/lib", "$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/*/lib",
                "$CONDA_PREFIX/lib/python3*/site-packages/nvidia/*/lib", "$CONDA_PREFIX/lib",
                "$CUDA_HOME/lib64", "$CUDA_PATH/lib64", "/usr/local/cuda/lib64",
                "/usr/local/cuda/targets/*/lib"},
    .install = "install it (Debian: libcublas12; Python: pip install nvidia-cublas), or name its "
               "file with the option cublaslt",
    .too_old = "install cuBLAS of CUDA 12 or newer"};

/* ---- folders ---- */

static int find_site_packages(struct dl_phdr_info *info, size_t size, void *out)
{
    static const char name[] = "/site-packages/";
    (void)size;
    const char *at = info->dlpi_name != NULL ? strstr(info->dlpi_name, name) : NULL;
    if (at == NULL) {
        return 0;
    }
    (void)snprintf(out, CUDA_PATH_BYTES, "%.*s", (int)(at - info->dlpi_name + (int)sizeof name - 2),
                   info->dlpi_name);
    return 1;
}

/* The folder's pattern with what stands for its beginning; false: that is not there. */
static bool expand_folder(const char *folder, char out[CUDA_PATH_BYTES])
{
    char start[CUDA_PATH_BYTES] = "";
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
    const int n = snprintf(out, CUDA_PATH_BYTES, "%s%s", start, rest);
    return n > 0 && (size_t)n < CUDA_PATH_BYTES;
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
    char pattern[CUDA_PATH_BYTES + 32u];
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

static void *open_by_soname(const library *l, char failure[512])
{
    char text[512];
    void *dso = NULL;
    for (size_t i = 0; i < SONAMES_MAX && l->sonames[i] != NULL && dso == NULL; i++) {
        dso = dlopen(l->sonames[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_NOLOAD);
    }
    for (size_t i = 0; i < SONAMES_MAX && l->sonames[i] != NULL && dso == NULL; i++) {
        dso = st_dso_open(l->sonames[i], text, sizeof text);
        if (dso == NULL) {
            note_failure(l->sonames[i], text, failure);
        }
    }
    return dso;
}

static void *open_anywhere(const library *l, char failure[512])
{
    char folder[CUDA_PATH_BYTES];
    void *dso = open_by_soname(l, failure);
    for (size_t f = 0; f < FOLDERS_MAX && l->folders[f] != NULL && dso == NULL; f++) {
        if (!expand_folder(l->folders[f], folder)) {
            continue;
        }
        for (size_t i = 0; i < SONAMES_MAX && l->sonames[i] != NULL && dso == NULL; i++) {
            dso = open_in_folder(folder, l->sonames[i], failure);
        }
    }
    return dso;
}

/* ---- reasons ---- */

/* "the CUDA driver is not there: no libcuda.so.1 where the dynamic linker looks, nor in A, B" */
static void say_absent(const library *l, cuda_missing *why)
{
    char folder[CUDA_PATH_BYTES];
    size_t n = 0;
    n += (size_t)snprintf(why->reason, sizeof why->reason,
                          "%s is not there: no %s%s%s where the dynamic linker looks", l->what,
                          l->sonames[0], l->sonames[1] != NULL ? " or " : "",
                          l->sonames[1] != NULL ? l->sonames[1] : "");
    const char *before = ", nor in ";
    for (size_t f = 0; f < FOLDERS_MAX && l->folders[f] != NULL; f++) {
        if (expand_folder(l->folders[f], folder) &&
            n + strlen(before) + strlen(folder) < sizeof why->reason) {
            n += (size_t)snprintf(why->reason + n, sizeof why->reason - n, "%s%s", before, folder);
            before = ", ";
        }
    }
    (void)snprintf(why->hint, sizeof why->hint, "%s", l->install);
}

static void *open_library(const library *l, const char *file, cuda_missing *why)
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

static void find_path(void *dso, char out[CUDA_PATH_BYTES])
{
    struct link_map *map = NULL;
    const bool is_known = dlinfo(dso, RTLD_DI_LINKMAP, &map) == 0 && map != NULL;
    (void)snprintf(out, CUDA_PATH_BYTES, "%s", is_known ? map->l_name : "");
}

/* ---- tables ---- */

/* A table is a struct of n pointers to functions, in the order of their names. */
static bool fill_table(const library *l, void *dso, const char *const *names, size_t n, void *table,
                       const char *path, cuda_missing *why)
{
    for (size_t i = 0; i < n; i++) {
        void *function = st_dso_symbol(dso, names[i]);
        if (function == NULL) {
            (void)snprintf(why->reason, sizeof why->reason,
                           "%s is too old or is not one: %.600s has "
                           "no function %s",
                           l->what, path[0] != '\0' ? path : l->sonames[0], names[i]);
            (void)snprintf(why->hint, sizeof why->hint, "%s", l->too_old);
            return false;
        }
        memcpy((char *)table + i * sizeof function, &function, sizeof function);
    }
    return true;
}

#define CUDA_FUNCTION(field, symbol, arguments) symbol,
static const char *const driver_names[] = {
#include "cuda_driver_functions.def"
};
static const char *const nvrtc_names[] = {
#include "cuda_nvrtc_functions.def"
};
static const char *const cublaslt_names[] = {
#include "cuda_cublaslt_functions.def"
};
#undef CUDA_FUNCTION
_Static_assert(sizeof(cuda_driver_api) == sizeof driver_names &&
                   sizeof(cuda_nvrtc_api) == sizeof nvrtc_names &&
                   sizeof(cuda_cublaslt_api) == sizeof cublaslt_names,
               "a pointer for each name, without gaps");

#define COUNT(names) (sizeof(names) / sizeof(names)[0])

bool cuda_open_driver(const char *file, cuda_driver_api *out, char out_path[CUDA_PATH_BYTES],
                      cuda_missing *why)
{
    void *dso = open_library(&driver_library, file, why);
    ST_NEED(dso != NULL);
    find_path(dso, out_path);
    return fill_table(&driver_library, dso, driver_names, COUNT(driver_names), out, out_path, why);
}

bool cuda_open_nvrtc(const char *file, cuda_nvrtc_api *out, char out_path[CUDA_PATH_BYTES],
                     cuda_missing *why)
{
    void *dso = open_library(&nvrtc_library, file, why);
    ST_NEED(dso != NULL);
    find_path(dso, out_path);
    return fill_table(&nvrtc_library, dso, nvrtc_names, COUNT(nvrtc_names), out, out_path, why);
}

bool cuda_open_cublaslt(const char *file, cuda_cublaslt_api *out, char out_path[CUDA_PATH_BYTES],
                        cuda_missing *why)
{
    void *dso = open_library(&cublaslt_library, file, why);
    ST_NEED(dso != NULL);
    find_path(dso, out_path);
    return fill_table(&cublaslt_library, dso, cublaslt_names, COUNT(cublaslt_names), out, out_path,
                      why);
}
