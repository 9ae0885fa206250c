/* stator doctor: what this machine has of what Stator can use, and which Debian package brings
 * the rest. Looks at: the libraries the command was built with, OpenBLAS, LLVM, SLEEF, oneDNN, what
 * GPUs of NVIDIA and AMD need, every plugin that is not available, Python (tests alone), a C
 * compiler, huge pages, cores. Status 0 when some backend is available, else 3. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct doctor {
    cli_common common;
    stator_ctx *ctx;
    cJSON *checks;     /* [{name, state, detail, package, needed_for}] */
    uint32_t backends; /* available ones */
} doctor;

enum check_state { CHECK_OK = 0, CHECK_LIMITED = 1, CHECK_MISSING = 2 };

/* package is NULL where nothing is to be installed. */
static void report(doctor *d, const char *name, uint32_t state, const char *detail,
                   const char *package, const char *needed_for)
{
    static const char *const states[] = {"ok", "limited", "missing"};
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", name);
    cJSON_AddStringToObject(row, "state", states[state]);
    cli_json_text(row, "detail", detail);
    cli_json_text(row, "package", package);
    cli_json_text(row, "needed_for", needed_for);
    cJSON_AddItemToArray(d->checks, row);
}

/* ---- libraries ---- */

typedef struct library {
    const char *name;
    int is_built_in; /* built into the command */
    const char *soname;
    const char *dev_package;
    const char *run_package;
    const char *needed_for;
} library;

static const library libraries[] = {
    {"protobuf-c", ST_HAVE_PROTOBUFC, "libprotobuf-c.so.1", "libprotobuf-c-dev", "libprotobuf-c1",
     "ONNX models, .pb inputs"},
    {"libzip", ST_HAVE_ZIP, "libzip.so.4", "libzip-dev", "libzip4", ".npz inputs and outputs"},
    {"cJSON", ST_HAVE_CJSON, "libcjson.so.1", "libcjson-dev", "libcjson1", "--json, case.json"},
    {"libpng", ST_HAVE_PNG, "libpng16.so.16", "libpng-dev", "libpng16-16", "--image"},
    {"Graphviz", ST_HAVE_GVC, "libgvc.so.6", "libgraphviz-dev", "libgvc6",
     "pictures of stator draw"}};
#define LIBRARY_COUNT (sizeof libraries / sizeof libraries[0])

/* Where a library was loaded from, "" when that cannot be told. */
static const char *place_of(void *dso)
{
    struct link_map *map = NULL;
    return dlinfo(dso, RTLD_DI_LINKMAP, &map) == 0 && map != NULL ? map->l_name : "";
}

static void check_libraries(doctor *d)
{
    for (size_t i = 0; i < LIBRARY_COUNT; i++) {
        const library *l = &libraries[i];
        void *dso = dlopen(l->soname, RTLD_LAZY | RTLD_LOCAL);
        char detail[512];
        if (l->is_built_in) {
            (void)snprintf(detail, sizeof detail, "built in; %.400s",
                           dso != NULL ? place_of(dso) : l->soname);
            report(d, l->name, CHECK_OK, detail, NULL, l->needed_for);
        } else {
            (void)snprintf(detail, sizeof detail,
                           "this build is without it%s; install the package and build again",
                           dso != NULL ? ", though it is on the machine" : "");
            report(d, l->name, CHECK_MISSING, detail, l->dev_package, l->needed_for);
        }
        if (dso != NULL) {
            (void)dlclose(dso);
        }
    }
}

/* ---- OpenBLAS ---- */

/* The places where eager looks, in its order. */
static void *open_openblas(void)
{
    static const char *const paths[] = {
        "/usr/lib/x86_64-linux-gnu/openblas-openmp/libopenblas.so.0",
        "/usr/lib/aarch64-linux-gnu/openblas-openmp/libopenblas.so.0", "libopenblas.so.0"};
    void *dso = NULL;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0] && dso == NULL; i++) {
        dso = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    }
    return dso;
}

static void check_openblas(doctor *d)
{
    static const char name[] = "OpenBLAS";
    static const char package[] = "libopenblas0-openmp";
    static const char use[] = "fast matmul and convolution on eager";
    static const char *const threads[] = {"serial", "pthread", "OpenMP"};
    char detail[1024];
    void *dso = open_openblas();
    if (dso == NULL) {
        report(d, name, CHECK_LIMITED, "not found; eager's own, slower loop is used", package, use);
        return;
    }
    int (*parallel)(void) = (int (*)(void))(uintptr_t)dlsym(dso, "openblas_get_parallel");
    char *(*config)(void) = (char *(*)(void))(uintptr_t)dlsym(dso, "openblas_get_config");
    const int kind = parallel != NULL ? parallel() : -1;
    const bool is_usable = kind == 0 || kind == 2;
    (void)snprintf(detail, sizeof detail, "%s variant; %.300s; %.300s%s",
                   kind >= 0 && kind <= 2 ? threads[kind] : "unknown", place_of(dso),
                   config != NULL ? config() : "no configuration text",
                   is_usable ? "" : "; not used, it would run threads of its own");
    report(d, name, is_usable ? CHECK_OK : CHECK_LIMITED, detail, is_usable ? NULL : package, use);
}

/* ---- plugins ---- */

/* Libraries that plugins are known to need; what is not listed is found by apt-file. */
static const struct {
    const char *soname;
    const char *package;
} providers[] = {{"libgomp.so.1", "libgomp1"},     {"libopenblas.so.0", "libopenblas0-openmp"},
                 {"libstdc++.so.6", "libstdc++6"}, {"libLLVM", "llvm"},
                 {"libcuda.so", "libcuda1"},       {"libnvrtc", "libnvrtc12"},
                 {"libamdhip64", "libamdhip64-5"}, {"libhiprtc", "libhiprtc-builtins5"},
                 {"libdnnl", "libdnnl-dev"}};

/* The Debian package of the library that a MISSING_DEPENDENCY reason names, or NULL. */
static const char *package_for(const char *reason)
{
    for (size_t i = 0; i < LIBRARY_COUNT; i++) {
        if (strstr(reason, libraries[i].soname) != NULL) {
            return libraries[i].run_package;
        }
    }
    for (size_t i = 0; i < sizeof providers / sizeof providers[0]; i++) {
        if (strstr(reason, providers[i].soname) != NULL) {
            return providers[i].package;
        }
    }
    return NULL;
}

static void check_item(doctor *d, const stator_item_info *info)
{
    char name[160];
    char detail[1024];
    const bool is_missing = strcmp(info->state, "MISSING_DEPENDENCY") == 0;
    const char *reason = info->reason != NULL ? info->reason : "";
    if (strcmp(info->state, "AVAILABLE") == 0) {
        d->backends += strcmp(info->kind, "backend") == 0;
        return;
    }
    (void)snprintf(name, sizeof name, "%.20s %.130s", info->kind, info->name);
    (void)snprintf(detail, sizeof detail, "%s: %.500s%s%.300s", info->state, reason,
                   info->hint != NULL ? "; " : "", info->hint != NULL ? info->hint : "");
    report(d, name, is_missing ? CHECK_MISSING : CHECK_LIMITED, detail,
           is_missing ? package_for(reason) : NULL, NULL);
}

static void check_plugins(doctor *d)
{
    const uint32_t count = stator_ctx_item_count(d->ctx);
    uint32_t available = 0;
    char detail[128];
    for (uint32_t i = 0; i < count; i++) {
        stator_item_info info = {.struct_size = sizeof info};
        if (stator_ctx_item_info(d->ctx, i, &info) == STATOR_OK) {
            available += strcmp(info.state, "AVAILABLE") == 0;
            check_item(d, &info);
        }
    }
    (void)snprintf(detail, sizeof detail, "%u found, %u available, %u of them backends", count,
                   available, d->backends);
    report(d, "plugins", d->backends > 0 ? CHECK_OK : CHECK_MISSING, detail, NULL,
           d->backends > 0 ? NULL : "running anything; see --plugin-dir");
}

/* ---- LLVM and SLEEF, of inductor-cpu ---- */

static void check_llvm(doctor *d)
{
    static const char use[] = "the backend inductor-cpu";
    stator_item_info info;
    char detail[1024];
    if (!cli_find_item(d->ctx, "backend", "inductor-cpu", 1, &info)) {
        report(d, "LLVM", CHECK_LIMITED, "this build is without the plugin", NULL, use);
        return;
    }
    if (strcmp(info.state, "AVAILABLE") == 0) {
        report(d, "LLVM", CHECK_OK, "the code generator is there", NULL, use);
        return;
    }
    (void)snprintf(detail, sizeof detail, "%.600s%s%.300s", info.reason ? info.reason : "",
                   info.hint != NULL ? "; " : "", info.hint != NULL ? info.hint : "");
    report(d, "LLVM", CHECK_MISSING, detail, "llvm-22-dev", use);
}

static void check_sleef(doctor *d)
{
    static const char use[] = "vector functions of inductor-cpu";
    void *dso = dlopen("libsleef.so.3", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    report(d, "SLEEF", dso != NULL ? CHECK_OK : CHECK_LIMITED,
           dso != NULL ? place_of(dso) : "not found; the C library is called lane by lane",
           dso != NULL ? NULL : "libsleef3", use);
}

/* ---- oneDNN, of inductor-cpu ---- */

/* The plugin opens lib/stator/jit/cpu_llvm_dnnl.so; its own reason for not doing so is in the log.
 */
static void check_onednn(doctor *d)
{
    static const char name[] = "oneDNN";
    static const char use[] = "fast matrix products and convolutions on inductor-cpu";
    stator_item_info info;
    char path[1200];
    char detail[1400];
    if (!cli_find_item(d->ctx, "backend", "inductor-cpu", 0, &info) || info.path == NULL) {
        report(d, name, CHECK_LIMITED, "this build is without the plugin", NULL, use);
        return;
    }
    const char *end = strrchr(info.path, '/');
    const int n = end != NULL ? (int)(end - info.path) : 0;
    (void)snprintf(path, sizeof path, "%.*s/../jit/cpu_llvm_dnnl.so", n < 1000 ? n : 1000,
                   info.path);
    if (access(path, R_OK) != 0) {
        report(d, name, CHECK_LIMITED,
               "this build is without it; install the package and build again", "libdnnl-dev", use);
        return;
    }
    void *dso = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (dso == NULL) {
        (void)snprintf(detail, sizeof detail, "%.1000s", dlerror());
        report(d, name, CHECK_LIMITED, detail, "libdnnl2", use);
        return;
    }
    void *libdnnl = dlopen("libdnnl.so.2", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    report(d, name, CHECK_OK, libdnnl != NULL ? place_of(libdnnl) : path, NULL, use);
    if (libdnnl != NULL) {
        (void)dlclose(libdnnl);
    }
}

/* ---- what GPUs need ---- */

typedef struct gpu_library {
    const char *name;
    const char *sonames[5];
    const char *package;
    const char *needed_for;
} gpu_library;

/* What a backend needs; lists end with NULL. */
typedef struct gpu_stack {
    const char *backend;
    const char *gpu;
    const char *nodes[3];
    const char
        *folders[5]; /* beside the dynamic linker's; "$NAME" in front: that variable's value */
    const gpu_library libraries[4];
} gpu_stack;

static const gpu_stack gpu_stacks[] = {
    {.backend = "cuda",
     .gpu = "NVIDIA GPU",
     .nodes = {"/dev/nvidiactl", "/dev/dxg"},
     .folders = {"$CUDA_HOME/lib64", "$CUDA_PATH/lib64", "/usr/local/cuda/lib64"},
     .libraries =
         {{"CUDA driver", {"libcuda.so.1"}, "libcuda1", "the backend cuda"},
          {"NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12"}, "libnvrtc12", "the backend cuda"},
          {"cuBLASLt",
           {"libcublasLt.so.13", "libcublasLt.so.12"},
           "libcublas12",
           "matrix products of the backend cuda"}}},
    {.backend = "hip",
     .gpu = "AMD GPU",
     .nodes = {"/dev/kfd", "/dev/dxg"},
     .folders = {"$ROCM_PATH/lib", "$ROCM_HOME/lib", "/opt/rocm/lib"},
     .libraries = {{"HIP",
                    {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"},
                    "libamdhip64-5",
                    "the backend hip"},
                   {"hiprtc",
                    {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libamdhip64.so.5"},
                    "libhiprtc-builtins5",
                    "the backend hip"}}}};

/* Opens soname in the folder, NULL: where the dynamic linker looks. */
static void *open_in(const char *folder, const char *soname)
{
    char path[1024];
    const char *rest = folder != NULL ? strchr(folder, '/') : NULL;
    if (folder == NULL) {
        return dlopen(soname, RTLD_LAZY | RTLD_LOCAL);
    }
    char variable[32] = "";
    if (folder[0] == '$') {
        (void)snprintf(variable, sizeof variable, "%.*s", (int)(rest - folder - 1), folder + 1);
    }
    const char *start = folder[0] == '$' ? secure_getenv(variable) : "";
    if (start == NULL) {
        return NULL;
    }
    (void)snprintf(path, sizeof path, "%.500s%s/%s", start, rest, soname);
    return dlopen(path, RTLD_LAZY | RTLD_LOCAL);
}

static void *open_gpu_library(const gpu_stack *stack, const gpu_library *l)
{
    void *dso = NULL;
    for (size_t i = 0; l->sonames[i] != NULL && dso == NULL; i++) {
        dso = open_in(NULL, l->sonames[i]);
    }
    for (size_t f = 0; stack->folders[f] != NULL && dso == NULL; f++) {
        for (size_t i = 0; l->sonames[i] != NULL && dso == NULL; i++) {
            dso = open_in(stack->folders[f], l->sonames[i]);
        }
    }
    return dso;
}

/* The file of a library. It is opened in a child: a driver may leave threads behind, and hiprtc
 * brings an LLVM of its own. */
static bool find_gpu_library(const gpu_stack *stack, const gpu_library *l, char out[512])
{
    int ends[2];
    int status = 0;
    if (pipe(ends) != 0) {
        return false;
    }
    const pid_t child = fork();
    if (child == 0) {
        void *dso = open_gpu_library(stack, l);
        const char *place = dso != NULL ? place_of(dso) : "";
        const bool is_told = write(ends[1], place, strlen(place)) == (ssize_t)strlen(place);
        _exit(dso != NULL && is_told ? 0 : 1);
    }
    (void)close(ends[1]);
    const ssize_t n = child > 0 ? read(ends[0], out, 511) : 0;
    (void)close(ends[0]);
    out[n > 0 ? n : 0] = '\0';
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

/* "A, B or C" */
static void add_list(char *out, size_t bytes, const char *const *names)
{
    for (size_t i = 0; names[i] != NULL; i++) {
        const size_t n = strlen(out);
        const char *before = i == 0 ? "" : names[i + 1] == NULL ? " or " : ", ";
        (void)snprintf(out + n, bytes - n, "%s%s", before, names[i]);
    }
}

static void check_gpu_library(doctor *d, const gpu_stack *stack, const gpu_library *l,
                              bool has_device)
{
    char detail[768] = "";
    char sonames[160] = "";
    char folders[160] = "";
    if (find_gpu_library(stack, l, detail)) {
        report(d, l->name, CHECK_OK, detail, NULL, l->needed_for);
        return;
    }
    add_list(sonames, sizeof sonames, l->sonames);
    add_list(folders, sizeof folders, stack->folders);
    (void)snprintf(detail, sizeof detail,
                   "no %s where the dynamic linker looks, nor in %s; docs/%s.md has the backend's "
                   "other places",
                   sonames, folders, stack->backend);
    report(d, l->name, CHECK_LIMITED, detail, has_device ? l->package : NULL, l->needed_for);
}

/* Packages are named, and the backend is asked what it lacks, only where there is a device that
 * would use them. */
static void check_gpu(doctor *d, const gpu_stack *stack)
{
    char detail[96];
    char use[48];
    stator_item_info info;
    const bool is_first = access(stack->nodes[0], F_OK) == 0;
    const bool has_device = is_first || access(stack->nodes[1], F_OK) == 0;
    (void)snprintf(use, sizeof use, "the backend %s", stack->backend);
    (void)snprintf(detail, sizeof detail, "no %s and no %s", stack->nodes[0], stack->nodes[1]);
    report(d, stack->gpu, has_device ? CHECK_OK : CHECK_LIMITED,
           has_device ? stack->nodes[is_first ? 0 : 1] : detail, NULL, use);
    for (const gpu_library *l = stack->libraries; l->name != NULL; l++) {
        check_gpu_library(d, stack, l, has_device);
    }
    (void)cli_find_item(d->ctx, "backend", stack->backend, has_device, &info);
}

/* ---- the machine ---- */

static bool is_in_path(const char *program, char out[512])
{
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        const size_t n = strcspn(path, ":");
        (void)snprintf(out, 512, "%.*s/%s", (int)(n < 400 ? n : 400), path, program);
        if (access(out, X_OK) == 0) {
            return true;
        }
        path += n + (path[n] == ':');
    }
    return false;
}

static void check_python(doctor *d)
{
    char path[512];
    const bool is_there = is_in_path("python3", path);
    report(d, "python3", is_there ? CHECK_OK : CHECK_LIMITED, is_there ? path : "not in PATH",
           is_there ? NULL : "python3", "the tests alone");
}

/* The word in brackets of "always [madvise] never". */
static void check_huge_pages(doctor *d)
{
    char text[128] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    const size_t n = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL) {
        (void)fclose(file);
    }
    text[n] = '\0';
    const char *begin = strchr(text, '[');
    const char *word = begin != NULL ? begin + 1 : "unknown";
    const bool is_off = strncmp(word, "never", 5) == 0;
    char detail[160];
    (void)snprintf(detail, sizeof detail, "%.*s%s", (int)strcspn(word, "]\n"), word,
                   is_off
                       ? "; `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` as root "
                         "lets them be asked for"
                       : "");
    report(d, "huge pages", is_off || begin == NULL ? CHECK_LIMITED : CHECK_OK, detail, NULL,
           "buffers of 2 MiB and more");
}

static void check_cache(doctor *d)
{
    static const char use[] = "compiling a model once for all processes";
    const char *reason = NULL;
    const char *folder = stator_x_cache_folder(d->ctx, &reason);
    report(d, "compile cache", folder != NULL ? CHECK_OK : CHECK_LIMITED,
           folder != NULL ? folder : reason, NULL, use);
}

/* The first `cc` on the path. */
static void check_compiler(doctor *d)
{
    const char *path = getenv("PATH");
    char file[512] = "";
    bool is_there = false;
    for (path = path != NULL ? path : ""; !is_there && *path != '\0';) {
        const size_t n = strcspn(path, ":");
        (void)snprintf(file, sizeof file, "%.*s/cc", n < 500u ? (int)n : 500, path);
        is_there = n > 0 && access(file, X_OK) == 0;
        path += n + (path[n] == ':');
    }
    report(d, "C compiler", is_there ? CHECK_OK : CHECK_MISSING, is_there ? file : NULL,
           is_there ? NULL : "build-essential", "stator build");
}

static void check_cores(doctor *d)
{
    cpu_set_t set;
    char detail[96];
    CPU_ZERO(&set);
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)online;
    (void)snprintf(detail, sizeof detail, "%d of %ld may be used by this process", usable, online);
    report(d, "cores", CHECK_OK, detail, NULL, NULL);
}

/* ---- reporting ---- */

/* Every package named, once each. */
static cJSON *packages_json(const doctor *d)
{
    cJSON *packages = cJSON_CreateArray();
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, d->checks)
    {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(row, "package"));
        const cJSON *known = NULL;
        bool is_new = name != NULL;
        cJSON_ArrayForEach(known, packages)
        {
            is_new = is_new && strcmp(cJSON_GetStringValue(known), name) != 0;
        }
        if (is_new) {
            cJSON_AddItemToArray(packages, cJSON_CreateString(name));
        }
    }
    return packages;
}

static void print_checks(const doctor *d, const cJSON *packages)
{
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, d->checks)
    {
        const char *detail = cJSON_GetStringValue(cJSON_GetObjectItem(row, "detail"));
        const char *package = cJSON_GetStringValue(cJSON_GetObjectItem(row, "package"));
        const char *use = cJSON_GetStringValue(cJSON_GetObjectItem(row, "needed_for"));
        (void)printf("%-8s %-16s %s", cJSON_GetStringValue(cJSON_GetObjectItem(row, "state")),
                     cJSON_GetStringValue(cJSON_GetObjectItem(row, "name")),
                     detail != NULL ? detail : "");
        (void)printf(use != NULL ? "  (for %s)\n" : "\n", use);
        if (package != NULL) {
            (void)printf("%-25s package: %s\n", "", package);
        }
    }
    if (cJSON_GetArraySize(packages) == 0) {
        (void)printf("nothing is missing that a package would bring\n");
        return;
    }
    (void)printf("apt-get install");
    cJSON_ArrayForEach(row, packages)
    {
        (void)printf(" %s", cJSON_GetStringValue(row));
    }
    (void)printf("\n");
}

static cli_status examine(doctor *d)
{
    CLI_TRY(cli_open_scanned(&d->common, &d->ctx));
    char version[96];
    (void)snprintf(version, sizeof version, "%s, plugin ABI %s", stator_version(), STATOR_ABI_TEXT);
    report(d, "stator", CHECK_OK, version, NULL, NULL);
    check_libraries(d);
    check_openblas(d);
    check_llvm(d); /* before the plugins, as GPUs are: a probe may change a row of theirs */
    check_sleef(d);
    check_onednn(d);
    for (size_t i = 0; i < sizeof gpu_stacks / sizeof gpu_stacks[0]; i++) {
        check_gpu(d, &gpu_stacks[i]);
    }
    check_plugins(d);
    check_python(d);
    check_compiler(d);
    check_huge_pages(d);
    check_cores(d);
    check_cache(d);
    cJSON *packages = packages_json(d);
    if (d->common.json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddItemToObject(root, "checks", d->checks);
        cJSON_AddItemToObject(root, "packages", packages);
        if (d->backends == 0) {
            cJSON *error = cJSON_AddObjectToObject(root, "error");
            cJSON_AddStringToObject(error, "code", "NOT_FOUND");
            cJSON_AddStringToObject(error, "message", "no backend is available");
            cJSON_AddStringToObject(error, "hint", "`stator backends --all` says why");
        }
        cli_print_json(root);
        d->checks = NULL;
    } else {
        print_checks(d, packages);
        cJSON_Delete(packages);
    }
    return d->backends > 0 ? CLI_OK : CLI_FAILED;
}

cli_status cmd_doctor(int argc, char **argv)
{
    doctor d = {.backends = 0};
    cli_usage usage = {.common = &d.common};
    CLI_PARSE(&usage, NULL);
    d.checks = cJSON_CreateArray();
    const cli_status status = examine(&d);
    cJSON_Delete(d.checks);
    stator_ctx_destroy(d.ctx);
    return status;
}
