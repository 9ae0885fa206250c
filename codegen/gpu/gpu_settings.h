/* Values of the options that backends of GPUs have in common, for one instance (header unstable,
 * see docs/gpu.md). The rows of the options are the plugins': their help names what is theirs. */
#ifndef STATOR_CODEGEN_GPU_SETTINGS_H
#define STATOR_CODEGEN_GPU_SETTINGS_H

#include "codegen/gpu/gpu_native.h"

#include <stator/plugin.h>

#define ST_GPU_ARCH_BYTES 32u

/* The rows that no plugin says otherwise. */
#define ST_GPU_OPTION_NUMERICS                                                                     \
    STATOR_OPTION_ENUM_ROW(STATOR_OPTION_AFFECTS_CODE, "numerics", "exact", "exact,fused",         \
                           "exact: each op rounds to its dtype; fused: f32 or wider inside a "     \
                           "kernel, and faster functions")
#define ST_GPU_OPTION_MATMUL                                                                       \
    STATOR_OPTION_ENUM_ROW(                                                                        \
        STATOR_OPTION_AFFECTS_CODE, "matmul", "strict", "strict,tf32,bf16x3,bf16x6",               \
        "how f32 contractions are computed: strict: by f32 products and sums; "                    \
        "tf32: factors rounded to 10 bits of fraction; bf16x3, bf16x6: factors "                   \
        "taken apart into two or three of bf16, and so many products")
#define ST_GPU_OPTION_MODE                                                                         \
    STATOR_OPTION_ENUM_ROW(0, "mode", "default",                                                   \
                           "default,reduce-overhead,max-autotune,max-autotune-no-cudagraphs",      \
                           "default; the others are refused, with what they wait for")
#define ST_GPU_OPTION_MEMORY_CAP                                                                   \
    STATOR_OPTION_ROW(STATOR_OPTION_BYTES, 0, "memory_cap", "0",                                   \
                      "bytes of device memory at most, as in 20G; 0: no limit")
#define ST_GPU_OPTION_DETERMINISTIC                                                                \
    STATOR_OPTION_ROW(                                                                             \
        STATOR_OPTION_BOOL, STATOR_OPTION_AFFECTS_CODE, "deterministic", "true",                   \
        "the same bits in each call; false: where that is faster sums of floats are "              \
        "added in the order in which threads come by")
#define ST_GPU_OPTION_CHECKS                                                                       \
    STATOR_OPTION_ROW(STATOR_OPTION_BOOL, STATOR_OPTION_AFFECTS_CODE, "checks", "true",            \
                      "an index outside its axis fails the call; false: what it reads is 0, what " \
                      "it writes is left out, and nobody is told")
#define ST_GPU_OPTION_SELF_TEST(by_default)                                                        \
    STATOR_OPTION_ROW(STATOR_OPTION_BOOL, 0, "self_test", by_default,                              \
                      "before the first compile on a device that no run has found right yet: "     \
                      "try each function that kernels use against the host")
#define ST_GPU_OPTION_DEVICE(visible)                                                              \
    {                                                                                              \
        .struct_size = sizeof(stator_option_desc), .type = STATOR_OPTION_I64, .key = "device",     \
        .default_text = "-1", .min_i64 = -1, .max_i64 = 1023,                                      \
        .help = "number of the GPU among those that " visible " leaves; -1: the one that the "     \
                "application asks for, else 0"                                                     \
    }

/* What an open device depends on. */
typedef struct st_gpu_settings {
    uint32_t device; /* the driver's number */
    uint64_t memory_cap;
    char driver[ST_GPU_PATH_BYTES];   /* "": looked for */
    char compiler[ST_GPU_PATH_BYTES]; /* the option vendor->compiler */
    char library[ST_GPU_PATH_BYTES];  /* the option vendor->contractions->option */
    char arch[ST_GPU_ARCH_BYTES];     /* "": the device's own */
} st_gpu_settings;

/* `name` is the backend's, `device` the number that the host asks for. INVALID_ARGUMENT: a value
 * is too long, or two numbers of devices disagree; UNIMPLEMENTED: a mode that is not there yet. */
stator_status st_gpu_settings_of(const st_gpu_vendor *vendor, const char *name,
                                 const stator_host *host, const stator_options *options,
                                 uint32_t device, st_gpu_settings *out, stator_diag **err);
/* Is the vendor's library of contractions wanted? */
bool st_gpu_wants_library(const st_gpu_vendor *vendor, const stator_host *host,
                          const stator_options *options);
/* The option matmul, as st_f32_products. */
uint32_t st_gpu_f32_products(const stator_host *host, const stator_options *options);
/* numerics=fused */
bool st_gpu_is_fused(const stator_host *host, const stator_options *options);
/* Does a device that is open so serve an instance that wants this? What is left at its default is
 * served by any value. */
bool st_gpu_settings_serve(const st_gpu_settings *open, const st_gpu_settings *wanted);

#endif
