/* Plugin "hip": the backend hip, generated kernels on AMD GPUs through HIP.
 *
 * What it computes and how is codegen's and codegen/gpu's; HIP as data is in hip_vendor.c. Nothing
 * of AMD's is linked, so that this file loads everywhere; the probe says what is missing.
 *
 * With HIP_SOFT the same objects make the plugin "hip_soft", whose libraries are those of
 * tests/softgpu: HIP over the CUDA driver API, over the software device. A build tree has it
 * alone. */
#include "hip_vendor.h"

#include "codegen/gpu/gpu_backend.h"
#include <stator/plugin.h>

#define HIP_VERSION "0.1.0"

#if defined(HIP_SOFT)
#define HIP_NAME "hip_soft"
#define HIP_DOC "the backend hip on the software device, for tests without a GPU"
#define HIP_TAGS "debug,gpu"
#define HIP_NOTE_TAGS "[\"debug\",\"gpu\"]"
#define HIP_NOTE_REQUIRES ""
#define HIP_DRIVER_BESIDE HIP_SOFT "/libamdhip64.so.6"
#define HIP_RTC_BESIDE HIP_SOFT "/libhiprtc.so.6"
#define HIP_OPT_DRIVER "STATOR_OPT_HIP_SOFT_DRIVER"
#define HIP_OPT_HIPRTC "STATOR_OPT_HIP_SOFT_HIPRTC"
#define HIP_OPT_MEMORY_CAP "STATOR_OPT_HIP_SOFT_MEMORY_CAP"
#define HIP_SELF_TEST "false" /* tests do that */
#else
#define HIP_NAME "hip"
#define HIP_DOC "generated kernels on AMD GPUs, compiled by hiprtc"
#define HIP_TAGS "experimental,gpu"
#define HIP_NOTE_TAGS "[\"experimental\",\"gpu\"]"
#define HIP_NOTE_REQUIRES ",\"requires\":[\"/dev/kfd|/dev/dxg\"]"
#define HIP_DRIVER_BESIDE NULL
#define HIP_RTC_BESIDE NULL
#define HIP_OPT_DRIVER "STATOR_OPT_HIP_DRIVER"
#define HIP_OPT_HIPRTC "STATOR_OPT_HIP_HIPRTC"
#define HIP_OPT_MEMORY_CAP "STATOR_OPT_HIP_MEMORY_CAP"
#define HIP_SELF_TEST "true"
#endif

static const stator_option_desc option_rows[] = {
    ST_GPU_OPTION_DEVICE("HIP_VISIBLE_DEVICES"),
    ST_GPU_OPTION_NUMERICS,
    ST_GPU_OPTION_MATMUL,
    ST_GPU_OPTION_MODE,
    ST_GPU_OPTION_MEMORY_CAP,
    ST_GPU_OPTION_DETERMINISTIC,
    ST_GPU_OPTION_CHECKS,
    ST_GPU_OPTION_SELF_TEST(HIP_SELF_TEST),
    STATOR_OPTION_ROW(STATOR_OPTION_STR, STATOR_OPTION_AFFECTS_CODE, "arch", "",
                      "what kernels are compiled for, as gfx90a; empty: the device's own"),
    STATOR_OPTION_ROW(STATOR_OPTION_STR, 0, "driver", "",
                      "file of HIP's library; empty: libamdhip64.so.7, .6 or .5 is looked for"),
    STATOR_OPTION_ROW(STATOR_OPTION_STR, STATOR_OPTION_AFFECTS_CODE, "hiprtc", "",
                      "file of hiprtc; empty: libhiprtc.so.7, .6 or .5 is looked for"),
};

static const st_gpu_backend parts = {.vendor = &hip_vendor,
                                     .name = HIP_NAME,
                                     .driver_variable = HIP_OPT_DRIVER,
                                     .compiler_variable = HIP_OPT_HIPRTC,
                                     .cap_variable = HIP_OPT_MEMORY_CAP,
                                     .driver_beside = HIP_DRIVER_BESIDE,
                                     .compiler_beside = HIP_RTC_BESIDE};

static stator_status hip_init(const stator_host *host, void **out_self, stator_diag **err)
{
    return st_gpu_backend_init(host, &parts, out_self, err);
}

static const stator_backend backend = {
    .item = STATOR_ITEM_WITH(stator_backend, STATOR_KIND_BACKEND, HIP_NAME, HIP_DOC, option_rows,
                             sizeof option_rows / sizeof option_rows[0]),
    .tags = HIP_TAGS,
    .priority = 20,
    ST_GPU_SLOTS};

static const stator_item *const items[] = {&backend.item};

STATOR_PLUGIN(
    HIP_NAME, HIP_VERSION, "Stator", "[\"backend\"]",
    ",\"licence\":\"Apache-2.0\",\"tags\":" HIP_NOTE_TAGS ",\"priority\":20,"
    "\"options\":[\"device\",\"numerics\",\"matmul\",\"mode\",\"memory_cap\",\"deterministic\","
    "\"checks\",\"self_test\","
    "\"arch\",\"driver\","
    "\"hiprtc\"],\"devices\":[\"rocm\"],\"description\":\"" HIP_DOC "\"" HIP_NOTE_REQUIRES,
    items, hip_init, st_gpu_backend_shutdown);
