#include "support_gpu.h"

#include "core/base/diag.h"
#include "core/base/vec.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* What is queued on a stream. */
typedef struct queued {
    void *dst;
    const void *src;
    uint64_t bytes;
    int value; /* of a fill; -1: a copy; -2: a launch; -3: an event at dst */
    const char *program;
    uint64_t arguments[16];
    uint32_t n_arguments, blocks, threads;
} queued;

typedef struct fake_stream {
    st_vec(queued) list;
} fake_stream;

static fake_gpu *of(void *self)
{
    return self;
}

/* ---- memory: a header in front says how many bytes ---- */

#define HEAD 256u

static stator_status fake_alloc(void *self, uint64_t bytes, st_gpu_address *out, stator_diag **err)
{
    fake_gpu *f = of(self);
    f->n_allocs++;
    ST_FAIL_IF((f->fail_at && f->n_allocs >= f->fail_at) ||
                   (f->memory_bytes && f->live_bytes + bytes > f->memory_bytes),
               err, STATOR_RESOURCE_EXHAUSTED, "the fake device has no %llu bytes",
               (unsigned long long)bytes);
    char *p = aligned_alloc(HEAD, (size_t)(HEAD + bytes + HEAD - 1u) / HEAD * HEAD);
    cr_assert_not_null(p);
    memset(p, 0xff, (size_t)(HEAD + bytes));
    memcpy(p, &bytes, sizeof bytes);
    f->live_bytes += bytes;
    f->n_live++;
    *out = (st_gpu_address)(uintptr_t)(p + HEAD);
    return STATOR_OK;
}

static void fake_free(void *self, st_gpu_address address)
{
    fake_gpu *f = of(self);
    char *p = (char *)(uintptr_t)address - HEAD;
    uint64_t bytes = 0;
    memcpy(&bytes, p, sizeof bytes);
    f->live_bytes -= bytes;
    f->n_live--;
    free(p);
}

static stator_status fake_alloc_pinned(void *self, uint64_t bytes, void **out, stator_diag **err)
{
    *out = malloc((size_t)bytes);
    ST_TRY_MEM(*out, err);
    of(self)->n_pinned++;
    return STATOR_OK;
}

static void fake_free_pinned(void *self, void *p)
{
    of(self)->n_pinned--;
    free(p);
}

static stator_status fake_check(void *self, stator_diag **err)
{
    (void)self, (void)err;
    return STATOR_OK;
}

static stator_status fake_memory_info(void *self, uint64_t *out_free, uint64_t *out_total,
                                      stator_diag **err)
{
    (void)err;
    *out_total = of(self)->memory_bytes;
    *out_free = *out_total - of(self)->live_bytes;
    return STATOR_OK;
}

/* ---- streams ---- */

static stator_status queue(void *self, void *stream_, const queued *what)
{
    fake_stream *stream = stream_;
    if (of(self)->is_waited_for) {
        cr_assert_eq(st_gpu_wait(of(self)->gpu, stream_, NULL), STATOR_OK);
    }
    queued *at = st_vec_push(&of(self)->mem, &stream->list);
    cr_assert_not_null(at);
    *at = *what;
    return STATOR_OK;
}

static stator_status copy_to_device(void *self, st_gpu_address dst, const void *src, uint64_t bytes,
                                    void *stream, stator_diag **err)
{
    (void)err;
    return queue(self, stream, &(queued){(void *)(uintptr_t)dst, src, bytes, .value = -1});
}

static stator_status copy_to_host(void *self, void *dst, st_gpu_address src, uint64_t bytes,
                                  void *stream, stator_diag **err)
{
    (void)err;
    return queue(self, stream, &(queued){dst, (void *)(uintptr_t)src, bytes, .value = -1});
}

static stator_status copy_on_device(void *self, st_gpu_address dst, st_gpu_address src,
                                    uint64_t bytes, void *stream, stator_diag **err)
{
    (void)err;
    return queue(self, stream,
                 &(queued){(void *)(uintptr_t)dst, (void *)(uintptr_t)src, bytes, .value = -1});
}

static stator_status fake_fill(void *self, st_gpu_address dst, uint8_t value, uint64_t bytes,
                               void *stream, stator_diag **err)
{
    (void)err;
    return queue(self, stream, &(queued){(void *)(uintptr_t)dst, NULL, bytes, .value = value});
}

static stator_status fake_launch(void *self, const st_gpu_launch *launch, void *stream,
                                 stator_diag **err)
{
    queued what = {.value = -2,
                   .program = launch->function,
                   .n_arguments = launch->argument_bytes / 8u,
                   .blocks = launch->blocks[0],
                   .threads = launch->threads};
    (void)err;
    cr_assert_leq(what.n_arguments, 16);
    memcpy(what.arguments, launch->arguments, launch->argument_bytes);
    return queue(self, stream, &what);
}

static stator_status fake_stream_create(void *self, void **out, stator_diag **err)
{
    *out = st_calloc(&of(self)->mem, 1, sizeof(fake_stream));
    ST_TRY_MEM(*out, err);
    of(self)->n_streams++;
    return STATOR_OK;
}

static void run_program(fake_gpu *f, const queued *q)
{
    const uint64_t *a = q->arguments;
    const float *in = (const float *)(uintptr_t)a[0];
    float *out = (float *)(uintptr_t)a[1];
    if (strncmp(q->program, "copy ", 5) == 0 || strncmp(q->program, "twice ", 6) == 0) {
        const float times = q->program[0] == 't' ? 2.0f : 1.0f;
        for (uint64_t i = 0; i < a[2]; i++) {
            out[i] = times * in[i];
        }
    } else if (strncmp(q->program, "check ", 6) == 0) {
        if (in[0] < 0) {
            *(uint32_t *)(uintptr_t)a[1] = 7;
        }
    } else {
        memcpy(f->noted, a, sizeof f->noted);
        f->n_noted = q->n_arguments;
        f->noted_blocks = q->blocks;
        f->noted_threads = q->threads;
    }
}

static stator_status fake_stream_wait(void *self, void *stream_, stator_diag **err)
{
    fake_stream *stream = stream_;
    st_gpu_stats stats = {0};
    (void)err;
    if (of(self)->is_asked_in_waits) {
        st_gpu_get_stats(of(self)->gpu, &stats);
    }
    for (uint32_t i = 0; i < stream->list.count; i++) {
        const queued *q = &stream->list.data[i];
        of(self)->now += q->value == -3 ? 0 : 1;
        if (q->value == -3) {
            *(uint64_t *)q->dst = of(self)->now;
        } else if (q->value == -2) {
            run_program(self, q);
        } else if (q->value == -1) {
            memcpy(q->dst, q->src, (size_t)q->bytes);
        } else {
            memset(q->dst, q->value, (size_t)q->bytes);
        }
    }
    stream->list.count = 0;
    return STATOR_OK;
}

static void fake_stream_destroy(void *self, void *stream_)
{
    fake_stream *stream = stream_;
    (void)fake_stream_wait(self, stream, NULL);
    st_vec_free(&of(self)->mem, &stream->list);
    st_free(&of(self)->mem, stream);
    of(self)->n_streams--;
}

/* ---- events: a number of what the device had done before ---- */

static stator_status fake_event_create(void *self, uint32_t flags, void **out, stator_diag **err)
{
    cr_assert_eq(flags, ST_GPU_EVENT_TIMED);
    *out = st_calloc(&of(self)->mem, 1, sizeof(uint64_t));
    ST_TRY_MEM(*out, err);
    of(self)->n_events++;
    return STATOR_OK;
}

static void fake_event_destroy(void *self, void *event)
{
    st_free(&of(self)->mem, event);
    of(self)->n_events--;
}

static stator_status fake_event_record(void *self, void *event, void *stream, stator_diag **err)
{
    (void)err;
    return queue(self, stream, &(queued){.dst = event, .value = -3});
}

static stator_status fake_event_elapsed(void *self, void *begin, void *end,
                                        double *out_milliseconds, stator_diag **err)
{
    (void)self, (void)err;
    *out_milliseconds = (double)(*(uint64_t *)end - *(uint64_t *)begin);
    return STATOR_OK;
}

/* ---- code ---- */

static stator_status fake_compile(void *self, const char *name, const char *text,
                                  uint64_t text_bytes, st_str *out_image, stator_diag **err)
{
    (void)name;
    __atomic_add_fetch(&of(self)->n_compiled, 1, __ATOMIC_RELAXED);
    ST_FAIL_IF(strncmp(text, "broken", 6) == 0, err, STATOR_INTERNAL,
               "line 1: 'broken' is no program");
    st_str_addn(out_image, text, text_bytes);
    return STATOR_OK;
}

static stator_status fake_module_load(void *self, const void *image, uint64_t bytes, void **out,
                                      stator_diag **err)
{
    *out = st_strndup(&of(self)->mem, image, bytes);
    ST_TRY_MEM(*out, err);
    of(self)->n_modules++;
    return STATOR_OK;
}

static void fake_module_unload(void *self, void *module)
{
    st_free(&of(self)->mem, module);
    of(self)->n_modules--;
}

/* The module's text is the function; its second word the name. */
static stator_status fake_module_function(void *self, void *module, const char *name, void **out,
                                          stator_diag **err)
{
    const char *space = strchr(module, ' ');
    (void)self;
    ST_FAIL_IF(space == NULL || strcmp(space + 1, name) != 0, err, STATOR_INTERNAL,
               "the image has no function '%s'", name);
    *out = module;
    return STATOR_OK;
}

/* ---- the host ---- */

static void in_turn(stator_ctx *ctx, int64_t n, int64_t grain, stator_range_fn fn, void *self)
{
    (void)ctx, (void)grain;
    for (int64_t i = 0; i < n; i++) {
        fn(self, i, i + 1);
    }
}

static fake_gpu *current; /* whose cache is asked: a host's table has no self */

static int32_t is_wanted(stator_ctx *ctx)
{
    (void)ctx;
    return current->is_wanted;
}

static int32_t is_dumping(stator_ctx *ctx)
{
    (void)ctx;
    return 0;
}

static void dump(stator_ctx *ctx, const char *name, const void *bytes, uint64_t size_bytes)
{
    (void)ctx, (void)name, (void)bytes, (void)size_bytes;
}

static stator_status get(stator_blob *blob_, stator_blob_info *out, stator_diag **err)
{
    fake_blob *blob = (fake_blob *)(void *)blob_;
    (void)err;
    blob->n_reads++;
    out->flags = 0;
    out->data = blob->data;
    out->size_bytes = blob->bytes;
    memcpy(out->content_hash, blob->hash, sizeof blob->hash);
    return STATOR_OK;
}

static const stator_thr_api threads = {.struct_size = sizeof threads, .parallel_for = in_turn};
static const stator_cache_api cache = {.struct_size = sizeof cache, .wanted = is_wanted};
static const stator_log_api logs = {
    .struct_size = sizeof logs, .is_dumping = is_dumping, .dump = dump};
static const stator_cst_api constants = {.struct_size = sizeof constants, .get = get};

/* ---- kernels ---- */

stator_status fake_print(const st_target *target, const st_kernel *kernel, const char *name,
                         st_arena *arena, st_str *out, st_gpu_kernel *out_kernel, stator_diag **err)
{
    static const st_gpu_argument moved[] = {
        {ST_GPU_ARGUMENT_BUFFER, 0}, {ST_GPU_ARGUMENT_BUFFER, 1}, {ST_GPU_ARGUMENT_SIZE, 0}};
    static const st_gpu_argument checked[] = {{ST_GPU_ARGUMENT_BUFFER, 0},
                                              {ST_GPU_ARGUMENT_STATUS, 0}};
    static const st_gpu_argument noted[] = {{ST_GPU_ARGUMENT_SIZE, 1},
                                            {ST_GPU_ARGUMENT_BUFFER, 1},
                                            {ST_GPU_ARGUMENT_STATUS, 0},
                                            {ST_GPU_ARGUMENT_SCRATCH, 0}};
    const bool is_check = strncmp(kernel->name, "check", 5) == 0;
    const bool is_note = strncmp(kernel->name, "note", 4) == 0;
    const st_gpu_argument *list = is_note ? noted : is_check ? checked : moved;
    (void)target;
    *out_kernel = (st_gpu_kernel){.threads = 64,
                                  .iterations = 64,
                                  .n_arguments = is_note    ? 4u
                                                 : is_check ? 2u
                                                            : 3u,
                                  .scratch_bytes = is_note ? 16 : 0};
    out_kernel->arguments =
        st_arena_alloc(arena, out_kernel->n_arguments * sizeof *list, _Alignof(st_gpu_argument));
    ST_TRY_MEM(out_kernel->arguments, err);
    memcpy(out_kernel->arguments, list, out_kernel->n_arguments * sizeof *list);
    const char *end = strchr(kernel->name, '_'); /* "twice_2" is the program "twice" */
    st_str_addn(out, kernel->name, end ? (uint64_t)(end - kernel->name) : strlen(kernel->name));
    st_str_addf(out, " %s", name);
    return STATOR_OK;
}

/* ---- from beginning to end ---- */

static void set_driver(fake_gpu *f)
{
    f->driver = (st_gpu_driver){.struct_size = sizeof f->driver,
                                .self = f,
                                .device = {.device_type = 2,
                                           .name = "fake",
                                           .warp_size = 32,
                                           .block_threads_max = 1024,
                                           .shared_bytes = 49152,
                                           .argument_bytes_max = 4096},
                                .alloc = fake_alloc,
                                .free = fake_free,
                                .alloc_pinned = fake_alloc_pinned,
                                .free_pinned = fake_free_pinned,
                                .copy_to_device = copy_to_device,
                                .copy_to_host = copy_to_host,
                                .copy_on_device = copy_on_device,
                                .fill = fake_fill,
                                .check = fake_check,
                                .memory_info = fake_memory_info,
                                .stream_create = fake_stream_create,
                                .stream_destroy = fake_stream_destroy,
                                .stream_wait = fake_stream_wait,
                                .event_create = fake_event_create,
                                .event_destroy = fake_event_destroy,
                                .event_record = fake_event_record,
                                .event_elapsed = fake_event_elapsed,
                                .compile = fake_compile,
                                .module_load = fake_module_load,
                                .module_unload = fake_module_unload,
                                .module_function = fake_module_function,
                                .launch = fake_launch};
}

void fake_gpu_init(fake_gpu *f, uint64_t memory_cap)
{
    stator_diag *err = NULL;
    memset(f, 0, sizeof *f);
    st_mem_init(&f->mem, NULL, NULL, NULL, 0);
    set_driver(f);
    current = f;
    f->host = (stator_host){.struct_size = sizeof f->host,
                            .diag = &st_diag_api,
                            .cst = &constants,
                            .log = &logs,
                            .thr = &threads,
                            .cache = &cache};
    const st_gpu_config config = {.host = &f->host,
                                  .mem = &f->mem,
                                  .driver = &f->driver,
                                  .memory_cap = memory_cap,
                                  .print = fake_print};
    cr_assert_eq(st_gpu_create(&config, &f->gpu, &err), STATOR_OK, "%s", st_diag_text(err));
}

void fake_gpu_deinit(fake_gpu *f)
{
    st_gpu_destroy(f->gpu);
    cr_expect_eq(f->n_live, 0, "%llu blocks of the device are left", (unsigned long long)f->n_live);
    cr_expect_eq(f->n_pinned, 0);
    cr_expect_eq(f->n_modules, 0);
    cr_expect_eq(f->n_streams, 0);
    cr_expect_eq(f->n_events, 0);
    cr_expect_eq(f->mem.live_blocks, 0, "%llu blocks of the host are left",
                 (unsigned long long)f->mem.live_blocks);
}
