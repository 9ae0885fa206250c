/* Opening libcuda, NVRTC and cuBLASLt, and the reason where one cannot be used. Libraries stay
 * open for good; nothing is kept here, so each caller fills a table of its own. Any thread. */
#ifndef STATOR_CUDA_CUDA_OPEN_H
#define STATOR_CUDA_CUDA_OPEN_H

#include "cuda_cublaslt.h"

#include <stdbool.h>

#define CUDA_PATH_BYTES 1024u

/* Why a library cannot be used, and what would help. */
typedef struct cuda_missing {
    char reason[900];
    char hint[240];
} cuda_missing;

/* Fills the table from libcuda.so.1, or from `file` alone where it is not NULL or "". The path of
 * what was opened goes to out_path where the dynamic linker tells it. false: *why says what was
 * looked for and where, or which function the library lacks. */
bool cuda_open_driver(const char *file, cuda_driver_api *out, char out_path[CUDA_PATH_BYTES],
                      cuda_missing *why);
/* The same of NVRTC: a copy that the process has loaded comes first (PyTorch's, say), then the
 * dynamic linker's, then those in folders of pip packages and CUDA toolkits. */
bool cuda_open_nvrtc(const char *file, cuda_nvrtc_api *out, char out_path[CUDA_PATH_BYTES],
                     cuda_missing *why);
/* And of cuBLASLt, in the same places. It is half a gigabyte, which takes 0.2 s the first time. */
bool cuda_open_cublaslt(const char *file, cuda_cublaslt_api *out, char out_path[CUDA_PATH_BYTES],
                        cuda_missing *why);

#endif
