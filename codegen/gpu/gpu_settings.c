/* Reads options of an instance. */
#include "codegen/gpu/gpu_settings.h"

#include "codegen/target/emitter.h"
#include "core/base/diag.h"

#include <stdio.h>
#include <string.h>

static stator_status take_text(const char *name, const stator_host *host,
                               const stator_options *options, const char *key, char *out,
                               size_t size, stator_diag **err)
{
    const char *text = host->opt->get_str(options, key);
    const int n = snprintf(out, size, "%s", text != NULL ? text : "");
    ST_FAIL_IF(n < 0 || (size_t)n >= size, err, STATOR_INVALID_ARGUMENT,
               "%s: the value of the option %s is too long: %d characters, at most %zu are read",
               name, key, n, size - 1);
    return STATOR_OK;
}

/* A mode promises what its name says: one that would do nothing is refused. */
static stator_status check_mode(const char *name, const stator_host *host,
                                const stator_options *options, stator_diag **err)
{
    const char *mode = host->opt->get_str(options, "mode");
    if (mode == NULL || strcmp(mode, "default") == 0) {
        return STATOR_OK;
    }
    return st_fail(err, STATOR_UNIMPLEMENTED, "%s has no mode=%s yet: %s; leave the mode out", name,
                   mode,
                   strcmp(mode, "reduce-overhead") == 0
                       ? "it does not record the kernels of a call to launch them at once"
                       : "it does not measure shapes of kernels on the device, which it chooses by "
                         "rates that are known");
}

stator_status st_gpu_settings_of(const st_gpu_vendor *vendor, const char *name,
                                 const stator_host *host, const stator_options *options,
                                 uint32_t device, st_gpu_settings *out, stator_diag **err)
{
    const int64_t named = host->opt->get_i64(options, "device");
    const int64_t cap = host->opt->get_i64(options, "memory_cap");
    memset(out, 0, sizeof *out);
    ST_TRY(check_mode(name, host, options, err));
    ST_FAIL_IF(named >= 0 && device != 0 && (int64_t)device != named, err, STATOR_INVALID_ARGUMENT,
               "%s: the application asks for device %u, the option device says %lld; leave one "
               "of them out",
               name, device, (long long)named);
    out->device = named >= 0 ? (uint32_t)named : device;
    out->memory_cap = cap > 0 ? (uint64_t)cap : 0;
    ST_TRY(take_text(name, host, options, "driver", out->driver, sizeof out->driver, err));
    ST_TRY(
        take_text(name, host, options, vendor->compiler, out->compiler, sizeof out->compiler, err));
    if (vendor->contractions != NULL) {
        ST_TRY(take_text(name, host, options, vendor->contractions->option, out->library,
                         sizeof out->library, err));
    }
    return take_text(name, host, options, "arch", out->arch, sizeof out->arch, err);
}

bool st_gpu_wants_library(const st_gpu_vendor *vendor, const stator_host *host,
                          const stator_options *options)
{
    ST_NEED(vendor->contractions != NULL);
    const char *contractions = host->opt->get_str(options, "contractions");
    return contractions == NULL || strcmp(contractions, vendor->contractions->option) == 0;
}

uint32_t st_gpu_f32_products(const stator_host *host, const stator_options *options)
{
    static const char *const names[] = {[ST_F32_STRICT] = "strict",
                                        [ST_F32_TF32] = "tf32",
                                        [ST_F32_BF16X3] = "bf16x3",
                                        [ST_F32_BF16X6] = "bf16x6"};
    const char *wanted = host->opt->get_str(options, "matmul");
    for (uint32_t i = 0; wanted != NULL && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(wanted, names[i]) == 0) {
            return i;
        }
    }
    return ST_F32_STRICT;
}

bool st_gpu_is_fused(const stator_host *host, const stator_options *options)
{
    const char *numerics = host->opt->get_str(options, "numerics");
    return numerics != NULL && strcmp(numerics, "fused") == 0;
}

static bool text_serves(const char *open, const char *wanted)
{
    return wanted[0] == '\0' || strcmp(open, wanted) == 0;
}

bool st_gpu_settings_serve(const st_gpu_settings *open, const st_gpu_settings *wanted)
{
    const bool is_cap_served = wanted->memory_cap == 0 || open->memory_cap == wanted->memory_cap;
    return open->device == wanted->device && is_cap_served &&
           text_serves(open->driver, wanted->driver) &&
           text_serves(open->compiler, wanted->compiler) &&
           text_serves(open->library, wanted->library) && text_serves(open->arch, wanted->arch);
}
