/* stator-hiprtc: hiprtc in a process of its own. ../hip_compile.c says what it is told and what it
 * answers; it is started by the plugin hip alone.
 *
 * Options: no contraction of a * b + c, so that the bits are those of the operators; divisions,
 * roots and subnormals are as IEEE 754 has them by hiprtc's defaults. */
#include "plugins/hip/hip_api.h"

#include "codegen/gpu/gpu_open.h"
#include "core/base/fdio.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ANSWER_FD = 3 };

extern const char hip_prelude[];

static const st_gpu_library hiprtc_library = {
    .what = "hiprtc, HIP's run-time compiler,",
    .option = "hiprtc",
    .sonames = {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libamdhip64.so.5"},
    .folders = {"$ROCM_PATH/lib", "$ROCM_HOME/lib", "/opt/rocm/lib", "/opt/rocm-*/lib"},
    .install = "install it (Debian: libhiprtc-builtins5 and libamdhip64-5; AMD's packages: "
               "hip-runtime-amd and comgr), or name its file with the option hiprtc",
    .too_old = "install hiprtc of ROCm 5 or newer"};

#define HIP_FUNCTION(field, symbol, result, arguments) symbol,
static const char *const names[] = {
#include "plugins/hip/hip_rtc_functions.def"
};
#undef HIP_FUNCTION
_Static_assert(sizeof(hip_rtc_api) == sizeof names, "a pointer for each name, without gaps");

/* ---- answers; true: it was written ---- */

static bool answer(char letter, const void *bytes, size_t n)
{
    return st_write_all(ANSWER_FD, &letter, 1) && st_write_all(ANSWER_FD, bytes, n);
}

static bool answer_text(char letter, const char *text)
{
    return answer(letter, text, strlen(text));
}

static bool answer_failure(const char *doing, int result)
{
    char text[200];
    (void)snprintf(text, sizeof text, "hiprtc: %s failed with error %d", doing, result);
    return answer_text('E', text);
}

static bool open_hiprtc(const char *file, hip_rtc_api *out)
{
    char path[ST_GPU_PATH_BYTES];
    char text[sizeof(st_gpu_missing) + 2];
    st_gpu_missing why;
    void *dso = NULL;
    if (st_gpu_open_library(&hiprtc_library, file, &why, &dso, path) &&
        st_gpu_fill_functions(&hiprtc_library, dso, path, names, sizeof names / sizeof names[0],
                              out, &why)) {
        return true;
    }
    (void)snprintf(text, sizeof text, "%s\n%s", why.reason, why.hint);
    (void)answer_text('M', text);
    return false;
}

/* ---- what it is asked for ---- */

static bool tell_version(const hip_rtc_api *api)
{
    char text[32];
    int major = 0;
    int minor = 0;
    const int result = api->version(&major, &minor);
    if (result != HIPRTC_RESULT_SUCCESS) {
        return answer_failure("asking for its version", result);
    }
    (void)snprintf(text, sizeof text, "%d %d", major, minor);
    return answer_text('V', text);
}

/* Standard input, a file, with a 0 behind it; NULL: it cannot be read. */
static char *read_text(void)
{
    struct stat about;
    size_t n = 0;
    char *text = fstat(0, &about) == 0 ? calloc(1, (size_t)about.st_size + 1) : NULL;
    while (text != NULL && n < (size_t)about.st_size) {
        const ssize_t got = read(0, text + n, (size_t)about.st_size - n);
        if (got <= 0) {
            break;
        }
        n += (size_t)got;
    }
    return text;
}

/* The log, or with `code` the image. */
static bool send(const hip_rtc_api *api, hiprtc_program program, bool code)
{
    size_t bytes = 0;
    int result = (code ? api->code_size : api->log_size)(program, &bytes);
    char *data = result == HIPRTC_RESULT_SUCCESS ? calloc(1, bytes + 1) : NULL;
    result = data != NULL ? (code ? api->code : api->log)(program, data) : result;
    if (data == NULL || result != HIPRTC_RESULT_SUCCESS) {
        free(data);
        return answer_failure(code ? "taking the image" : "taking the log", result);
    }
    const bool is_sent = answer(code ? 'I' : 'L', data, code ? bytes : strlen(data));
    free(data);
    return is_sent;
}

static bool compile(const hip_rtc_api *api, const char *arch, const char *warp, const char *name)
{
    static const char *const header_names[] = {"gpu_prelude.h"};
    const char *const headers[] = {hip_prelude};
    char target[80];
    char width[40];
    char file[120];
    hiprtc_program program = NULL;
    char *text = read_text();
    (void)snprintf(target, sizeof target, "--offload-arch=%.60s", arch);
    (void)snprintf(width, sizeof width, "-DST_WARP=%.20s", warp);
    (void)snprintf(file, sizeof file, "%.100s.hip", name);
    const char *const options[] = {target, width, "-O3", "-std=c++17", "-ffp-contract=off"};
    if (text == NULL) {
        return answer_text('E', "the helper cannot read the kernel's text");
    }
    int result = api->program_create(&program, text, file, 1, headers, header_names);
    if (result != HIPRTC_RESULT_SUCCESS) {
        free(text);
        return answer_failure("creating a program", result);
    }
    result = api->program_compile(program, sizeof options / sizeof options[0], options);
    const bool is_sent = result == HIPRTC_RESULT_SUCCESS ? send(api, program, true)
                         : result == HIPRTC_RESULT_COMPILATION
                             ? send(api, program, false)
                             : answer_failure("compiling", result);
    (void)api->program_destroy(&program);
    free(text);
    return is_sent;
}

int main(int argc, char **argv)
{
    hip_rtc_api api;
    const bool asks_version = argc == 3 && strcmp(argv[1], "version") == 0;
    const bool compiles = argc == 6 && strcmp(argv[1], "compile") == 0;
    if (!asks_version && !compiles) {
        fprintf(stderr, "usage: stator-hiprtc version FILE | compile FILE ARCH WARP NAME   "
                        "(started by the plugin hip)\n");
        return 3;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (!open_hiprtc(argv[2], &api)) {
        return 1;
    }
    const bool is_answered =
        asks_version ? tell_version(&api) : compile(&api, argv[3], argv[4], argv[5]);
    return is_answered ? 0 : 1;
}
