/* The table of gpu_driver.h over a vendor's driver: each function is one call of the driver between
 * st_gpu_enter and st_gpu_leave. */
#include "codegen/gpu/gpu_native.h"

#include "core/base/diag.h"

#include <string.h>

/* Flags, and what is asked about an address, which CUDA and HIP number alike. */
enum { STREAM_NON_BLOCKING = 1, EVENT_DISABLE_TIMING = 2, HOST_ALLOC_PORTABLE = 1 };
enum { STREAM_PER_THREAD = 2 }; /* of the handles that are numbers, the last */
enum {
    ADDRESS_MEMORY_TYPE = 2,
    ADDRESS_DEVICE_ORDINAL = 9,
    ADDRESS_RANGE_START = 11,
    ADDRESS_RANGE_BYTES = 12
};

/* ---- memory ---- */

/* Bytes of the allocation that begins at `p`; 0: there is none. */
static uint64_t bytes_at(const st_gpu_context *d, st_gpu_address p)
{
    st_gpu_address base = 0;
    size_t bytes = 0;
    const int32_t result = d->driver->api.memory_range(&base, &bytes, p);
    return result == ST_GPU_RESULT_SUCCESS ? bytes : 0;
}

static stator_status say_no_memory(st_gpu_context *d, uint64_t bytes, stator_diag **err)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    (void)d->driver->api.memory_info(&free_bytes, &total_bytes);
    return st_fail(err, STATOR_RESOURCE_EXHAUSTED,
                   "%s:%d: no memory for %llu bytes: %zu of %zu bytes are free, this backend "
                   "holds %llu",
                   d->driver->name, (int)d->table.device.id, (unsigned long long)bytes, free_bytes,
                   total_bytes, (unsigned long long)atomic_load(&d->held_bytes));
}

static stator_status driver_alloc(void *self, uint64_t bytes, st_gpu_address *out,
                                  stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    *out = 0;
    ST_TRY(st_gpu_enter(d, &scope, err));
    const int32_t result = d->driver->api.memory_alloc(out, bytes);
    if (result == ST_GPU_RESULT_OUT_OF_MEMORY) {
        const stator_status status = say_no_memory(d, bytes, err);
        (void)st_gpu_leave(d, &scope, ST_GPU_RESULT_SUCCESS, "", NULL);
        return status;
    }
    if (result == ST_GPU_RESULT_SUCCESS) {
        (void)atomic_fetch_add(&d->held_bytes, bytes_at(d, *out));
    }
    return st_gpu_leave(d, &scope, result, "allocating memory", err);
}

static void driver_free(void *self, st_gpu_address p)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    if (p == 0 || st_gpu_enter(d, &scope, NULL) != STATOR_OK) {
        return; /* a lost context has taken its memory with it */
    }
    const uint64_t bytes = bytes_at(d, p);
    const int32_t result = d->driver->api.memory_free(p);
    if (result == ST_GPU_RESULT_SUCCESS) {
        (void)atomic_fetch_sub(&d->held_bytes, bytes);
    }
    (void)st_gpu_leave(d, &scope, result, "freeing memory", NULL);
}

/* Is it an address of device memory, as the driver tells it? */
static bool is_on_device(const st_gpu_context *d, const void *p)
{
    const st_gpu_native *driver = d->driver;
    const st_gpu_address address = (st_gpu_address)(uintptr_t)p;
    uint32_t type = 0;
    return driver->api.address_attribute(&type, ADDRESS_MEMORY_TYPE, address) ==
               ST_GPU_RESULT_SUCCESS &&
           !driver->vendor->is_host_memory(driver, type);
}

static stator_status judge_address(const st_gpu_context *d, const void *p, int32_t result,
                                   bool is_host, int ordinal, stator_diag **err)
{
    const char *name = d->driver->name;
    const int device = (int)d->table.device.id;
    ST_FAIL_IF(result == ST_GPU_RESULT_INVALID_VALUE || is_host, err, STATOR_INVALID_ARGUMENT,
               "%p is no address of %s:%d but one of %s; copy the tensor there, or say that it "
               "lies in host memory",
               p, name, device,
               is_host ? "pinned host memory" : "host memory, or of memory that has been freed");
    ST_FAIL_IF(result == ST_GPU_RESULT_SUCCESS && ordinal != device, err, STATOR_INVALID_ARGUMENT,
               "%p is an address of %s:%d; expected one of %s:%d", p, name, ordinal, name, device);
    return STATOR_OK;
}

stator_status st_gpu_check_address(st_gpu_context *d, const void *p, stator_diag **err)
{
    const st_gpu_native *driver = d->driver;
    st_gpu_scope scope;
    uint32_t type = 0;
    int ordinal = (int)d->table.device.id;
    const st_gpu_address address = (st_gpu_address)(uintptr_t)p;
    ST_TRY(st_gpu_enter(d, &scope, err));
    int32_t result = driver->api.address_attribute(&type, ADDRESS_MEMORY_TYPE, address);
    if (result == ST_GPU_RESULT_SUCCESS) {
        result = driver->api.address_attribute(&ordinal, ADDRESS_DEVICE_ORDINAL, address);
    }
    const bool is_host =
        result == ST_GPU_RESULT_SUCCESS && driver->vendor->is_host_memory(driver, type);
    const bool is_known = result == ST_GPU_RESULT_SUCCESS || result == ST_GPU_RESULT_INVALID_VALUE;
    ST_TRY(st_gpu_leave(d, &scope, is_known ? ST_GPU_RESULT_SUCCESS : result,
                        "looking an address up", err));
    return judge_address(d, p, result, is_host, ordinal, err);
}

/* An allocation around an address. */
typedef struct range {
    st_gpu_address base;
    size_t bytes; /* 0: none is known */
} range;

static bool reaches(const range *r, st_gpu_address p, uint64_t below, uint64_t above)
{
    return p - r->base < r->bytes && p - r->base >= below && r->bytes - (p - r->base) >= above;
}

/* The mapping that the address lies in, and where that is too small the range of addresses that was
 * reserved for it: one tensor may lie in several mappings, as of PyTorch's expandable segments. */
static range find_range(const st_gpu_context *d, st_gpu_address p, uint64_t below, uint64_t above)
{
    const st_gpu_api *api = &d->driver->api;
    range mapped = {.bytes = 0};
    range reserved = {.bytes = 0};
    if (api->memory_range(&mapped.base, &mapped.bytes, p) != ST_GPU_RESULT_SUCCESS) {
        mapped.bytes = 0;
    }
    if (reaches(&mapped, p, below, above) ||
        api->address_attribute(&reserved.base, ADDRESS_RANGE_START, p) != ST_GPU_RESULT_SUCCESS ||
        api->address_attribute(&reserved.bytes, ADDRESS_RANGE_BYTES, p) != ST_GPU_RESULT_SUCCESS) {
        return mapped;
    }
    return reserved.bytes > mapped.bytes ? reserved : mapped;
}

/* Memory of the host that was allocated as pinned, or no memory of the host. */
static bool is_allocated(const st_gpu_context *d, const void *p)
{
    const st_gpu_api *api = &d->driver->api;
    uint32_t flags = 0;
    return is_on_device(d, p) ||
           (api->pinned_flags != NULL &&
            api->pinned_flags(&flags, (void *)(uintptr_t)p) == ST_GPU_RESULT_SUCCESS);
}

stator_status st_gpu_check_range(st_gpu_context *d, const void *p, uint64_t below, uint64_t above,
                                 stator_diag **err)
{
    const st_gpu_address address = (st_gpu_address)(uintptr_t)p;
    range r = {.bytes = 0};
    st_gpu_scope scope;
    ST_TRY(st_gpu_enter(d, &scope, err));
    if (is_allocated(d, p)) {
        r = find_range(d, address, below, above);
    }
    ST_TRY(st_gpu_leave(d, &scope, ST_GPU_RESULT_SUCCESS, "", err));
    const uint64_t before = address - r.base;
    ST_FAIL_IF(r.bytes != 0 && !reaches(&r, address, below, above), err, STATOR_INVALID_ARGUMENT,
               "the tensor takes %llu bytes before %p and %llu from there on, of which its "
               "allocation has %llu and %llu (%s:%d); its shape, strides or byte_offset is wrong",
               (unsigned long long)below, p, (unsigned long long)above, (unsigned long long)before,
               (unsigned long long)(r.bytes - before), d->driver->name, (int)d->table.device.id);
    return STATOR_OK;
}

static stator_status driver_alloc_pinned(void *self, uint64_t bytes, void **out, stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    *out = NULL;
    ST_TRY(st_gpu_enter(d, &scope, err));
    const int32_t result = d->driver->api.pinned_alloc(out, bytes, HOST_ALLOC_PORTABLE);
    return st_gpu_leave(d, &scope, result, "allocating pinned memory of the host", err);
}

static void driver_free_pinned(void *self, void *p)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    if (p != NULL && st_gpu_enter(d, &scope, NULL) == STATOR_OK) {
        (void)st_gpu_leave(d, &scope, d->driver->api.pinned_free(p), "freeing pinned memory", NULL);
    }
}

static stator_status driver_copy_to_device(void *self, st_gpu_address dst, const void *src,
                                           uint64_t bytes, void *stream, stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    ST_TRY(st_gpu_enter(d, &scope, err));
    const int32_t result = d->driver->api.copy_to_device(dst, src, bytes, stream);
    return st_gpu_leave(d, &scope, result, "copying to the device", err);
}

static stator_status driver_copy_to_host(void *self, void *dst, st_gpu_address src, uint64_t bytes,
                                         void *stream, stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    ST_TRY(st_gpu_enter(d, &scope, err));
    const int32_t result = d->driver->api.copy_to_host(dst, src, bytes, stream);
    return st_gpu_leave(d, &scope, result, "copying to the host", err);
}

static stator_status driver_copy_on_device(void *self, st_gpu_address dst, st_gpu_address src,
                                           uint64_t bytes, void *stream, stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    ST_TRY(st_gpu_enter(d, &scope, err));
    const int32_t result = d->driver->api.copy_on_device(dst, src, bytes, stream);
    return st_gpu_leave(d, &scope, result, "copying on the device", err);
}

static stator_status driver_fill(void *self, st_gpu_address dst, uint8_t value, uint64_t bytes,
                                 void *stream, stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    ST_TRY(st_gpu_enter(d, &scope, err));
    const int32_t result = d->driver->api.fill(dst, value, bytes, stream);
    return st_gpu_leave(d, &scope, result, "filling memory", err);
}

static stator_status driver_check(void *self, stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    ST_TRY(st_gpu_enter(d, &scope, err));
    return st_gpu_leave(d, &scope, ST_GPU_RESULT_SUCCESS, "", err);
}

static stator_status driver_memory_info(void *self, uint64_t *out_free, uint64_t *out_total,
                                        stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    ST_TRY(st_gpu_enter(d, &scope, err));
    const int32_t result = d->driver->api.memory_info(&free_bytes, &total_bytes);
    *out_free = free_bytes;
    *out_total = total_bytes;
    return st_gpu_leave(d, &scope, result, "asking for free memory", err);
}

/* ---- streams and events ---- */

static stator_status driver_stream_create(void *self, void **out, stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    void *stream = NULL;
    ST_TRY(st_gpu_enter(d, &scope, err));
    const int32_t result = d->driver->api.stream_create(&stream, STREAM_NON_BLOCKING);
    *out = stream;
    return st_gpu_leave(d, &scope, result, "creating a stream", err);
}

static void driver_stream_destroy(void *self, void *stream)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    if (stream != NULL && st_gpu_enter(d, &scope, NULL) == STATOR_OK) {
        (void)d->driver->api.stream_wait(stream);
        (void)st_gpu_leave(d, &scope, d->driver->api.stream_destroy(stream), "ending a stream",
                           NULL);
    }
}

static stator_status driver_stream_wait(void *self, void *stream, stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    ST_TRY(st_gpu_enter(d, &scope, err));
    const int32_t result = d->driver->api.stream_wait(stream);
    return st_gpu_leave(d, &scope, result, "waiting for a stream", err);
}

static stator_status driver_event_create(void *self, uint32_t flags, void **out, stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    void *event = NULL;
    const bool is_timed = (flags & ST_GPU_EVENT_TIMED) != 0;
    ST_TRY(st_gpu_enter(d, &scope, err));
    const int32_t result = d->driver->api.event_create(&event, is_timed ? 0 : EVENT_DISABLE_TIMING);
    *out = event;
    return st_gpu_leave(d, &scope, result, "creating an event", err);
}

static void driver_event_destroy(void *self, void *event)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    if (event != NULL && st_gpu_enter(d, &scope, NULL) == STATOR_OK) {
        (void)st_gpu_leave(d, &scope, d->driver->api.event_destroy(event), "ending an event", NULL);
    }
}

static stator_status driver_event_record(void *self, void *event, void *stream, stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    ST_TRY(st_gpu_enter(d, &scope, err));
    const int32_t result = d->driver->api.event_record(event, stream);
    return st_gpu_leave(d, &scope, result, "recording an event", err);
}

static stator_status driver_stream_wait_event(void *self, void *stream, void *event,
                                              stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    ST_TRY(st_gpu_enter(d, &scope, err));
    const int32_t result = d->driver->api.stream_wait_event(stream, event, 0);
    return st_gpu_leave(d, &scope, result, "letting a stream wait for an event", err);
}

/* What a handle is that cannot be a stream's, NULL: it may be one. A driver follows the handle that
 * it is given, and anything else than a handle may end the process there. What its own handles are
 * like the event shows: of CUDA and HIP they are addresses of the host's memory. */
static const char *judge_handle(const st_gpu_context *d, const void *handle, const void *event)
{
    if ((uintptr_t)handle <= STREAM_PER_THREAD) {
        return NULL;
    }
    return is_on_device(d, handle) && !is_on_device(d, event) ? "an address of device memory"
           : st_gpu_can_read(event) && !st_gpu_can_read(handle)
               ? "no handle at all, for no memory is there"
               : NULL;
}

/* An event and a stream of two contexts do not go together, which costs nothing but the asking. */
stator_status st_gpu_check_stream(st_gpu_context *d, void *stream, stator_diag **err)
{
    const st_gpu_api *api = &d->driver->api;
    const char *name = d->driver->name;
    const int device = (int)d->table.device.id;
    const char *is_what = NULL;
    void *event = NULL;
    st_gpu_scope scope;
    ST_TRY(st_gpu_enter(d, &scope, err));
    int32_t result = api->event_create(&event, EVENT_DISABLE_TIMING);
    if (result == ST_GPU_RESULT_SUCCESS) {
        is_what = judge_handle(d, stream, event);
        result = is_what != NULL ? ST_GPU_RESULT_INVALID_HANDLE
                                 : api->event_record(event, st_gpu_stream(&d->table, stream));
        (void)api->event_destroy(event);
    }
    const bool is_other = result == ST_GPU_RESULT_INVALID_HANDLE ||
                          result == ST_GPU_RESULT_INVALID_CONTEXT ||
                          result == ST_GPU_RESULT_INVALID_VALUE;
    ST_TRY(st_gpu_leave(d, &scope, is_other ? ST_GPU_RESULT_SUCCESS : result, "looking a stream up",
                        err));
    ST_FAIL_IF(is_other, err, STATOR_INVALID_ARGUMENT,
               "%p is no stream of %s:%d but %s; give a stream of %s:%d", stream, name, device,
               is_what != NULL ? is_what : "one of another device, one that has ended or none",
               name, device);
    return STATOR_OK;
}

static stator_status driver_event_wait(void *self, void *event, stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    ST_TRY(st_gpu_enter(d, &scope, err));
    const int32_t result = d->driver->api.event_wait(event);
    return st_gpu_leave(d, &scope, result, "waiting for an event", err);
}

static stator_status driver_event_elapsed(void *self, void *begin, void *end,
                                          double *out_milliseconds, stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    float milliseconds = 0;
    ST_TRY(st_gpu_enter(d, &scope, err));
    const int32_t result = d->driver->api.event_elapsed(&milliseconds, begin, end);
    *out_milliseconds = (double)milliseconds;
    return st_gpu_leave(d, &scope, result, "asking for the time between events", err);
}

/* ---- code ---- */

static stator_status driver_compile(void *self, const char *name, const char *text,
                                    uint64_t text_bytes, st_str *out_image, stator_diag **err)
{
    st_gpu_context *d = self;
    return d->driver->vendor->compile(d->compiler, &d->table.device, name, text, text_bytes,
                                      out_image, err);
}

static stator_status driver_module_load(void *self, const void *image, uint64_t bytes, void **out,
                                        stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    void *module = NULL;
    (void)bytes; /* an image tells its own end: ELF, or text with a 0 behind it */
    ST_TRY(st_gpu_enter(d, &scope, err));
    const int32_t result = d->driver->api.module_load(&module, image);
    *out = module;
    return st_gpu_leave(d, &scope, result, d->driver->vendor->loading(result), err);
}

static void driver_module_unload(void *self, void *module)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    if (module != NULL && st_gpu_enter(d, &scope, NULL) == STATOR_OK) {
        (void)st_gpu_leave(d, &scope, d->driver->api.module_unload(module), "unloading", NULL);
    }
}

static stator_status driver_module_function(void *self, void *module, const char *name, void **out,
                                            stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    void *function = NULL;
    ST_TRY(st_gpu_enter(d, &scope, err));
    const int32_t result = d->driver->api.module_function(&function, module, name);
    *out = function;
    return st_gpu_leave(d, &scope, result, "looking a kernel up in its image", err);
}

static stator_status driver_launch(void *self, const st_gpu_launch *launch, void *stream,
                                   stator_diag **err)
{
    st_gpu_context *d = self;
    st_gpu_scope scope;
    void *arguments[] = {launch->arguments}; /* one, a struct; the driver knows its size */
    ST_TRY(st_gpu_enter(d, &scope, err));
    if (launch->dynamic_shared_bytes > d->table.device.shared_bytes &&
        d->driver->vendor->ask_shared != NULL) {
        /* Beyond what every device has a function must ask first; the launch tells of a refusal. */
        d->driver->vendor->ask_shared(d->driver, launch->function, launch->dynamic_shared_bytes);
    }
    const int32_t result = d->driver->api.launch(
        launch->function, launch->blocks[0], launch->blocks[1], launch->blocks[2], launch->threads,
        1, 1, launch->dynamic_shared_bytes, stream, arguments, NULL);
    return st_gpu_leave(d, &scope, result, "launching a kernel", err);
}

void st_gpu_fill_table(st_gpu_context *d)
{
    st_gpu_driver *t = &d->table;
    t->alloc = driver_alloc;
    t->free = driver_free;
    t->alloc_pinned = driver_alloc_pinned;
    t->free_pinned = driver_free_pinned;
    t->copy_to_device = driver_copy_to_device;
    t->copy_to_host = driver_copy_to_host;
    t->copy_on_device = driver_copy_on_device;
    t->fill = driver_fill;
    t->check = driver_check;
    t->memory_info = driver_memory_info;
    t->stream_create = driver_stream_create;
    t->stream_destroy = driver_stream_destroy;
    t->stream_wait = driver_stream_wait;
    t->event_create = driver_event_create;
    t->event_destroy = driver_event_destroy;
    t->event_record = driver_event_record;
    t->stream_wait_event = driver_stream_wait_event;
    t->event_wait = driver_event_wait;
    t->event_elapsed = driver_event_elapsed;
    t->compile = driver_compile;
    t->module_load = driver_module_load;
    t->module_unload = driver_module_unload;
    t->module_function = driver_module_function;
    t->launch = driver_launch;
}

void st_gpu_add_log(st_str *out, const char *log)
{
    size_t n = 0;
    for (const char *at = log; *at != '\0'; at += n + (at[n] == '\n')) {
        n = strcspn(at, "\n");
        st_str_addf(out, "\n    %.*s", (int)n, at);
    }
}

void st_gpu_add_numbered(st_str *out, const char *text, uint64_t bytes)
{
    uint32_t line = 1;
    for (const char *at = text, *end = text + bytes; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop != NULL ? stop : end;
        st_str_addf(out, "\n%4u  %.*s", line, (int)(stop - at), at);
        at = stop + 1;
    }
}
