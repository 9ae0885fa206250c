/* A backend that does nothing, in many broken variants: the CMake file beside it builds one plugin
 * for each set of MUTANT_ macros. Every variant leaves a file behind when any of its code runs, so
 * that tests can tell listing from loading. */
#define _GNU_SOURCE
#include <stator/plugin.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef MUTANT_NAME
#error "MUTANT_NAME is the plugin's name"
#endif
#ifndef MUTANT_BACKEND_NAME
#define MUTANT_BACKEND_NAME MUTANT_NAME
#endif
#ifndef MUTANT_SIZE_DELTA
#define MUTANT_SIZE_DELTA 0 /* added to the backend's struct_size */
#endif
#ifndef MUTANT_PLUGIN_DELTA
#define MUTANT_PLUGIN_DELTA 0 /* added to the plugin's struct_size */
#endif
#ifndef MUTANT_STRUCT_MAJOR
#define MUTANT_STRUCT_MAJOR STATOR_ABI_MAJOR /* in the structs; the note says STATOR_ABI_MAJOR */
#endif
#ifndef MUTANT_MINOR_MIN
#define MUTANT_MINOR_MIN STATOR_ABI_MINOR
#endif
#ifndef MUTANT_DEVICE_SIZE
#define MUTANT_DEVICE_SIZE sizeof(stator_device_info)
#endif
#ifndef MUTANT_TAGS
#define MUTANT_TAGS "debug"
#endif
#ifndef MUTANT_MEMBERS
#define MUTANT_MEMBERS "" /* more members of the note */
#endif

#ifdef MUTANT_NULL_SLOT
#define MUTANT_COMPILE (1 ? NULL : compile)
#else
#define MUTANT_COMPILE compile
#endif
#ifdef MUTANT_SANITIZER
#undef STATOR_SANITIZER
#define STATOR_SANITIZER MUTANT_SANITIZER
#endif

STATOR_PLUGIN_NOTE(MUTANT_NAME, "1.0.0", "[\"backend\"]", MUTANT_MEMBERS);

STATOR_EXPORT const stator_plugin *stator_plugin_query_v1(const stator_host *host,
                                                          uint32_t host_abi_major);

/* Appends a line to the file that STATOR_TEST_MARK names. */
static void mark(const char *what)
{
    const char *path = getenv("STATOR_TEST_MARK");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    if (file != NULL) {
        fprintf(file, "%s %s\n", MUTANT_NAME, what);
        fclose(file);
    }
}

__attribute__((constructor)) static void on_load(void)
{
    mark("loaded");
}

#ifdef MUTANT_NEEDS_GONE
int stator_test_gone(void);
#endif
#ifdef MUTANT_UNDEFINED
int stator_test_defined_nowhere(void);
#endif

static stator_status probe(void *self, stator_diag **err)
{
    const stator_host *host = self;
    (void)host;
    (void)err;
    mark("probe");
#if defined(MUTANT_PROBE_SEGFAULT)
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
#elif defined(MUTANT_PROBE_EXIT)
    _exit(7);
#elif defined(MUTANT_PROBE_ANSWER)
    static const char text[] = "the toy device is switched off";
    if (err != NULL) {
        *err = host->diag->create(MUTANT_PROBE_ANSWER, text, sizeof text - 1);
        host->diag->set_hint(*err, "switch it on");
    }
    return MUTANT_PROBE_ANSWER;
#elif defined(MUTANT_NEEDS_GONE)
    return stator_test_gone() == 0 ? STATOR_OK : STATOR_INTERNAL;
#elif defined(MUTANT_UNDEFINED)
    return stator_test_defined_nowhere() == 0 ? STATOR_OK : STATOR_INTERNAL;
#endif
    return STATOR_OK;
}

static stator_status devices(void *self, stator_device_fn fn, void *fn_self)
{
    (void)self;
    const stator_device_info toy = {.struct_size = MUTANT_DEVICE_SIZE,
                                    .id = 3,
                                    .name = "toy device",
                                    .arch = "toy-1",
                                    .memory_bytes = 1 << 20};
    fn(fn_self, &toy);
    return STATOR_OK;
}

#ifdef MUTANT_STAGES
static stator_status name_stages(void *self, const stator_options *options,
                                 const stator_pipeline_sink *sink)
{
    (void)self;
    (void)options;
    for (int i = 0; i < 1000000; i++) {
        sink->stage(sink->self, MUTANT_STAGES);
    }
    return STATOR_OK;
}
#else
#define name_stages NULL
#endif

static stator_status create(void *self, const stator_options *options, uint32_t device, void **inst,
                            stator_diag **err)
{
    (void)options;
    (void)device;
    (void)err;
    *inst = self;
    return STATOR_OK;
}

static void destroy(void *self, void *inst)
{
    (void)self;
    (void)inst;
}

static stator_status compile(void *inst, const stator_graph *graph, stator_fuel_scope *fuel,
                             void **exe, stator_diag **err)
{
    (void)inst;
    (void)graph;
    (void)fuel;
    (void)err;
    *exe = NULL;
    return STATOR_UNSUPPORTED;
}

static stator_status exe_info(void *inst, void *exe, stator_exe_info *out)
{
    (void)inst;
    (void)exe;
    *out = (stator_exe_info){.struct_size = sizeof *out};
    return STATOR_OK;
}

static stator_status exe_run(void *inst, void *exe, const stator_call *call, stator_diag **err)
{
    (void)inst;
    (void)exe;
    (void)call;
    (void)err;
    return STATOR_UNSUPPORTED;
}

static void exe_destroy(void *inst, void *exe)
{
    (void)inst;
    (void)exe;
}

#ifdef MUTANT_HALF_DEVICE
static stator_status wait_for(void *inst, void *stream, stator_diag **err)
{
    (void)inst;
    (void)stream;
    (void)err;
    return STATOR_OK;
}
#else
#define wait_for NULL
#endif

static const stator_option_desc options[] = {
    {.struct_size = sizeof(stator_option_desc),
     .type = STATOR_OPTION_I64,
     .flags = STATOR_OPTION_AFFECTS_CODE,
     .key = "level",
#ifdef MUTANT_BAD_DEFAULT
     .default_text = "99",
#else
     .default_text = "1",
#endif
     .min_i64 = 0,
     .max_i64 = 3,
     .help = "how hard it does nothing"},
};

#define HEAD                                                                                       \
    .abi_major = MUTANT_STRUCT_MAJOR, .abi_minor_min = MUTANT_MINOR_MIN,                           \
    .abi_minor_built = STATOR_ABI_MINOR

/* Room behind the backend for the variants that say that they are longer. */
static const struct {
    stator_backend backend;
    uint64_t more[2];
} grown = {
    .backend = {.item = {.struct_size = (uint32_t)((int)sizeof(stator_backend) + MUTANT_SIZE_DELTA),
                         .kind = STATOR_KIND_BACKEND,
                         HEAD,
                         .name = MUTANT_BACKEND_NAME,
                         .doc = "does nothing",
                         .options = options,
                         .option_count = 1,
                         .option_stride = sizeof(stator_option_desc)},
                .tags = MUTANT_TAGS,
                .priority = -100,
                .probe = probe,
                .devices = devices,
                .create = create,
                .destroy = destroy,
                .pipeline = name_stages,
                .compile = MUTANT_COMPILE,
                .exe_info = exe_info,
                .exe_run = exe_run,
                .exe_destroy = exe_destroy,
                .synchronize = wait_for},
};

#ifdef MUTANT_THREAD
static void *never_ends(void *self)
{
    for (;;) {
        (void)self;
        usleep(1000);
    }
    return NULL;
}
#endif

static stator_status init(const stator_host *host, void **self, stator_diag **err)
{
    (void)err;
    mark("init");
    *self = (void *)(uintptr_t)host;
#if defined(MUTANT_INIT_FAILS)
    static const char text[] = "the licence server does not answer";
    if (err != NULL) {
        *err = host->diag->create(STATOR_UNAVAILABLE, text, sizeof text - 1);
    }
    return STATOR_UNAVAILABLE;
#elif defined(MUTANT_THREAD)
    pthread_t thread;
    return pthread_create(&thread, NULL, never_ends, NULL) == 0 && pthread_detach(thread) == 0
               ? STATOR_OK
               : STATOR_INTERNAL;
#else
    return STATOR_OK;
#endif
}

static void shutdown(void *self)
{
    (void)self;
    mark("shutdown");
}

static const stator_item *const items[] = {&grown.backend.item};

static const struct {
    stator_plugin plugin;
    uint64_t more[2];
} plugin = {
    .plugin = {.struct_size = (uint32_t)((int)sizeof(stator_plugin) + MUTANT_PLUGIN_DELTA),
               HEAD,
#ifdef MUTANT_MANY_ITEMS
               .item_count = 1000000,
#else
               .item_count = 1,
#endif
               .name = MUTANT_NAME,
               .vendor = "Stator's tests",
#ifdef MUTANT_LYING_VERSION
               .version = "2.0.0",
#else
               .version = "1.0.0",
#endif
               .sanitizer = STATOR_SANITIZER,
               .items = items,
               .init = init,
               .shutdown = shutdown},
};

const stator_plugin *stator_plugin_query_v1(const stator_host *host, uint32_t host_abi_major)
{
    (void)host;
    mark("query");
#ifdef MUTANT_QUERY_NULL
    return host_abi_major == 77 ? &plugin.plugin : NULL;
#else
    (void)host_abi_major;
    return &plugin.plugin;
#endif
}
