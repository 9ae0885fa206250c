/* The options of the backend cuda, and their values for one instance. */
#ifndef STATOR_CUDA_CUDA_OPTIONS_H
#define STATOR_CUDA_CUDA_OPTIONS_H

#include "cuda_open.h"

#include <stator/plugin.h>

#define CUDA_ARCH_BYTES 32u
#define CUDA_OPTION_COUNT 9u

extern const stator_option_desc cuda_option_rows[CUDA_OPTION_COUNT];

/* What an open device depends on. */
typedef struct cuda_settings {
    uint32_t device; /* the driver's number */
    uint64_t memory_cap;
    char driver[CUDA_PATH_BYTES]; /* "": looked for */
    char nvrtc[CUDA_PATH_BYTES];
    char cublaslt[CUDA_PATH_BYTES];
    char arch[CUDA_ARCH_BYTES]; /* "": the device's own */
} cuda_settings;

/* `device` is the number that the host asks for. INVALID_ARGUMENT: a value is too long, or two
 * numbers of devices disagree. */
stator_status cuda_settings_of(const stator_host *host, const stator_options *options,
                               uint32_t device, cuda_settings *out, stator_diag **err);
/* numerics=fused */
bool cuda_is_fused(const stator_host *host, const stator_options *options);
/* contractions=cublaslt */
bool cuda_wants_cublaslt(const stator_host *host, const stator_options *options);
/* Does a device that is open so serve an instance that wants this? What is left at its default is
 * served by any value. */
bool cuda_settings_serve(const cuda_settings *open, const cuda_settings *wanted);

#endif
