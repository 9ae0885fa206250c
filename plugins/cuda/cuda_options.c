/* The schema of the backend's options. Only what works is listed. */
#include "cuda_options.h"

#include "core/base/diag.h"

#include <stdio.h>
#include <string.h>

const stator_option_desc cuda_option_rows[CUDA_OPTION_COUNT] = {
    {.struct_size = sizeof(stator_option_desc),
     .type = STATOR_OPTION_I64,
     .key = "device",
     .default_text = "-1",
     .min_i64 = -1,
     .max_i64 = 1023,
     .help = "number of the GPU among those that CUDA_VISIBLE_DEVICES leaves; -1: the one that the "
             "application asks for, else 0"},
    STATOR_OPTION_ENUM_ROW(STATOR_OPTION_AFFECTS_CODE, "numerics", "exact", "exact,fused",
                           "exact: each op rounds to its dtype; fused: f32 or wider inside a "
                           "kernel, and faster functions"),
    STATOR_OPTION_ENUM_ROW(STATOR_OPTION_AFFECTS_CODE, "matmul", "strict", "strict",
                           "how f32 contractions are computed: strict: by f32 products and sums"),
    STATOR_OPTION_ENUM_ROW(STATOR_OPTION_AFFECTS_CODE, "contractions", "cublaslt", "cublaslt,loops",
                           "cublaslt: matrix products by cuBLASLt, where it is there and takes "
                           "them; loops: by generated kernels"),
    STATOR_OPTION_ROW(STATOR_OPTION_BYTES, 0, "memory_cap", "0",
                      "bytes of device memory at most, as in 20G; 0: no limit"),
    STATOR_OPTION_ROW(STATOR_OPTION_STR, STATOR_OPTION_AFFECTS_CODE, "arch", "",
                      "what kernels are compiled for, as sm_90 (machine code) or compute_80 (PTX); "
                      "empty: the device's own"),
    STATOR_OPTION_ROW(STATOR_OPTION_STR, 0, "driver", "",
                      "file of the CUDA driver's library; empty: libcuda.so.1 is looked for"),
    STATOR_OPTION_ROW(STATOR_OPTION_STR, STATOR_OPTION_AFFECTS_CODE, "nvrtc", "",
                      "file of NVRTC; empty: libnvrtc.so.13, then .12, is looked for"),
    STATOR_OPTION_ROW(STATOR_OPTION_STR, STATOR_OPTION_AFFECTS_CODE, "cublaslt", "",
                      "file of cuBLASLt; empty: libcublasLt.so.13, then .12, is looked for"),
};

static stator_status take_text(const stator_host *host, const stator_options *options,
                               const char *key, char *out, size_t size, stator_diag **err)
{
    const char *text = host->opt->get_str(options, key);
    const int n = snprintf(out, size, "%s", text != NULL ? text : "");
    ST_FAIL_IF(n < 0 || (size_t)n >= size, err, STATOR_INVALID_ARGUMENT,
               "cuda: the value of the option %s is too long: %d characters, at most %zu are read",
               key, n, size - 1);
    return STATOR_OK;
}

stator_status cuda_settings_of(const stator_host *host, const stator_options *options,
                               uint32_t device, cuda_settings *out, stator_diag **err)
{
    const int64_t named = host->opt->get_i64(options, "device");
    const int64_t cap = host->opt->get_i64(options, "memory_cap");
    memset(out, 0, sizeof *out);
    ST_FAIL_IF(named >= 0 && device != 0 && (int64_t)device != named, err, STATOR_INVALID_ARGUMENT,
               "cuda: the application asks for device %u, the option device says %lld; leave one "
               "of them out",
               device, (long long)named);
    out->device = named >= 0 ? (uint32_t)named : device;
    out->memory_cap = cap > 0 ? (uint64_t)cap : 0;
    ST_TRY(take_text(host, options, "driver", out->driver, sizeof out->driver, err));
    ST_TRY(take_text(host, options, "nvrtc", out->nvrtc, sizeof out->nvrtc, err));
    ST_TRY(take_text(host, options, "cublaslt", out->cublaslt, sizeof out->cublaslt, err));
    return take_text(host, options, "arch", out->arch, sizeof out->arch, err);
}

bool cuda_is_fused(const stator_host *host, const stator_options *options)
{
    const char *numerics = host->opt->get_str(options, "numerics");
    return numerics != NULL && strcmp(numerics, "fused") == 0;
}

bool cuda_wants_cublaslt(const stator_host *host, const stator_options *options)
{
    const char *contractions = host->opt->get_str(options, "contractions");
    return contractions == NULL || strcmp(contractions, "cublaslt") == 0;
}

static bool text_serves(const char *open, const char *wanted)
{
    return wanted[0] == '\0' || strcmp(open, wanted) == 0;
}

bool cuda_settings_serve(const cuda_settings *open, const cuda_settings *wanted)
{
    const bool is_cap_served = wanted->memory_cap == 0 || open->memory_cap == wanted->memory_cap;
    return open->device == wanted->device && is_cap_served &&
           text_serves(open->driver, wanted->driver) && text_serves(open->nvrtc, wanted->nvrtc) &&
           text_serves(open->cublaslt, wanted->cublaslt) && text_serves(open->arch, wanted->arch);
}
