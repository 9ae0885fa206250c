/* Opening the libraries of a GPU's vendor by name, and the reason where one cannot be used (header
 * unstable, see docs/gpu.md). A library is described by data; what is opened stays open for good,
 * and nothing is kept here, so each caller fills a table of its own. Any thread. */
#ifndef STATOR_CODEGEN_GPU_OPEN_H
#define STATOR_CODEGEN_GPU_OPEN_H

#include <stdbool.h>
#include <stddef.h>

#define ST_GPU_PATH_BYTES 1024u

enum { ST_GPU_SONAMES_MAX = 4, ST_GPU_FOLDERS_MAX = 9 };

/* A folder is a pattern as glob(3) has them; "$NAME/" in front stands for that variable, "@/" for
 * the site-packages of the Python that runs this process. */
typedef struct st_gpu_library {
    const char *what;                        /* "the CUDA driver" */
    const char *option;                      /* that names a file */
    const char *sonames[ST_GPU_SONAMES_MAX]; /* the newest first */
    const char *folders[ST_GPU_FOLDERS_MAX];
    const char *install; /* what helps where it is missing */
    const char *too_old; /* and where it lacks a function */
} st_gpu_library;

/* Why a library cannot be used, and what would help. */
typedef struct st_gpu_missing {
    char reason[900];
    char hint[240];
} st_gpu_missing;

/* Opens the library, or `file` alone where it is not NULL or "". A copy that the process has loaded
 * comes first, then the dynamic linker's, then those in the folders. The path of what was opened
 * goes to out_path where the dynamic linker tells it. false: *why says what was looked for and
 * where. */
bool st_gpu_open_library(const st_gpu_library *library, const char *file, st_gpu_missing *why,
                         void **out, char out_path[ST_GPU_PATH_BYTES]);

/* Fills a struct of n pointers to functions, in the order of their names; one whose name begins
 * with '?' may be missing and is NULL then. false: *why says which is missing. */
bool st_gpu_fill_functions(const st_gpu_library *library, void *dso, const char *path,
                           const char *const *names, size_t n, void *table, st_gpu_missing *why);

#endif
