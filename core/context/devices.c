/* Devices of a context; see devices.h. */
#include "core/context/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 65535 }; /* of a backend's device */

/* A domain and the instance behind it, in one block. */
typedef struct device {
    st_domain domain; /* first: the list is one of domains */
    stator_instance *instance;
} device;

/* ---- slots ---- */

#define CALL_SLOT(self, slot, ...)                                                                 \
    stator_instance *instance = (self);                                                            \
    st_plugin_call call;                                                                           \
    st_plugin_enter_run(&call, instance->loaded->callee, #slot);                                   \
    return st_plugin_leave(&call, instance->backend->slot(instance->inst, __VA_ARGS__), err)

#define CALL_VOID_SLOT(self, slot, ...)                                                            \
    stator_instance *instance = (self);                                                            \
    st_plugin_call call;                                                                           \
    st_plugin_enter_run(&call, instance->loaded->callee, #slot);                                   \
    instance->backend->slot(instance->inst, __VA_ARGS__);                                          \
    (void)st_plugin_leave(&call, STATOR_OK, NULL)

static stator_status on_alloc(void *self, uint64_t size, void *stream, void **out,
                              stator_diag **err)
{
    CALL_SLOT(self, alloc, size, stream, out, err);
}

static void on_free(void *self, void *p, void *stream)
{
    CALL_VOID_SLOT(self, free, p, stream);
}

static stator_status on_copy(void *self, void *dst, const void *src, uint64_t size,
                             uint32_t direction, void *stream, stator_diag **err)
{
    CALL_SLOT(self, copy, dst, src, size, direction, stream, err);
}

static stator_status on_fill(void *self, void *dst, uint8_t value, uint64_t size, void *stream,
                             stator_diag **err)
{
    CALL_SLOT(self, fill, dst, value, size, stream, err);
}

static stator_status on_stream_create(void *self, void **out, stator_diag **err)
{
    CALL_SLOT(self, stream_create, out, err);
}

static void on_stream_destroy(void *self, void *stream)
{
    CALL_VOID_SLOT(self, stream_destroy, stream);
}

static stator_status on_synchronize(void *self, void *stream, stator_diag **err)
{
    CALL_SLOT(self, synchronize, stream, err);
}

static stator_status on_late_failure(void *self, void *stream, uint64_t *out_first,
                                     uint64_t *out_last, stator_diag **err)
{
    CALL_SLOT(self, late_failure, stream, out_first, out_last, err);
}

static stator_status on_event_create(void *self, void **out, stator_diag **err)
{
    CALL_SLOT(self, event_create, out, err);
}

static void on_event_destroy(void *self, void *event)
{
    CALL_VOID_SLOT(self, event_destroy, event);
}

static stator_status on_event_record(void *self, void *event, void *stream, stator_diag **err)
{
    CALL_SLOT(self, event_record, event, stream, err);
}

static stator_status on_event_wait(void *self, void *event, void *stream, stator_diag **err)
{
    CALL_SLOT(self, event_wait, event, stream, err);
}

static stator_status on_check_address(void *self, const void *p, stator_diag **err)
{
    CALL_SLOT(self, check_address, p, err);
}

static stator_status on_check_stream(void *self, void *stream, stator_diag **err)
{
    CALL_SLOT(self, check_stream, stream, err);
}

static stator_status on_check_range(void *self, const void *p, uint64_t below, uint64_t above,
                                    stator_diag **err)
{
    CALL_SLOT(self, check_range, p, below, above, err);
}

static stator_status on_copy_strided(void *self, void *dst, const void *src,
                                     const stator_strided_copy *layout, void *stream,
                                     stator_diag **err)
{
    CALL_SLOT(self, copy_strided, dst, src, layout, stream, err);
}

static stator_status on_tell(void *self, stator_status status, stator_diag *diag)
{
    return st_ctx_fail(((const stator_instance *)self)->ctx, status, diag);
}

static const st_device_ops device_ops = {.alloc = on_alloc,
                                         .free = on_free,
                                         .copy = on_copy,
                                         .fill = on_fill,
                                         .stream_create = on_stream_create,
                                         .stream_destroy = on_stream_destroy,
                                         .synchronize = on_synchronize,
                                         .late_failure = on_late_failure,
                                         .event_create = on_event_create,
                                         .event_destroy = on_event_destroy,
                                         .event_record = on_event_record,
                                         .event_wait = on_event_wait,
                                         .check_address = on_check_address,
                                         .check_stream = on_check_stream,
                                         .check_range = on_check_range,
                                         .copy_strided = on_copy_strided,
                                         .tell = on_tell};

/* ---- domains ---- */

static stator_status ask_memory(const stator_instance *instance, stator_memory_info *out,
                                stator_diag **err)
{
    const char *name = instance->backend->item.name;
    st_plugin_call call;
    *out = (stator_memory_info){.struct_size = sizeof *out};
    st_plugin_enter(&call, instance->loaded->callee, "memory");
    ST_TRY(st_plugin_leave(&call, instance->backend->memory(instance->inst, out, err), err));
    ST_FAIL_IF(out->device.device_type == kDLCPU || out->device.device_type <= 0, err,
               STATOR_INTERNAL,
               "backend '%s': its slot memory says device type %d; a backend whose memory is the "
               "host's leaves the slot NULL",
               name, out->device.device_type);
    ST_FAIL_IF(out->alignment < 16 || (out->alignment & (out->alignment - 1u)) != 0, err,
               STATOR_INTERNAL,
               "backend '%s': its slot memory says an alignment of %llu; expected a power of two, "
               "16 or more",
               name, (unsigned long long)out->alignment);
    return STATOR_OK;
}

static device *find_device(const stator_ctx *ctx, const char *backend, DLDevice where)
{
    st_domain *d = ctx->domains;
    while (d != NULL &&
           (d->device.device_type != where.device_type || d->device.device_id != where.device_id ||
            strcmp(((device *)(void *)d)->instance->backend->item.name, backend))) {
        d = d->next;
    }
    return (device *)(void *)d;
}

static stator_status open_device(stator_instance *first, const stator_memory_info *info,
                                 device **out, stator_diag **err)
{
    stator_ctx *ctx = first->ctx;
    device *d = st_calloc(&ctx->mem, 1, sizeof *d);
    ST_TRY_MEM(d, err);
    st_instance_retain(first);
    d->instance = first;
    d->domain.device = info->device;
    d->domain.alignment = info->alignment;
    d->domain.ops = &device_ops;
    d->domain.self = first;
    d->domain.checks_addresses = first->backend->check_address != NULL;
    d->domain.checks_streams = first->backend->check_stream != NULL;
    d->domain.checks_ranges = first->backend->check_range != NULL;
    d->domain.copies_strided = first->backend->copy_strided != NULL;
    d->domain.tells_late = first->backend->late_failure != NULL;
    (void)snprintf(d->domain.name, sizeof d->domain.name, "%.48s:%u", first->backend->item.name,
                   first->device);
    st_domain_init(&d->domain, &ctx->mem, &ctx->pool);
    d->domain.next = ctx->domains;
    ctx->domains = &d->domain;
    *out = d;
    return STATOR_OK;
}

stator_status st_device_attach(stator_instance *instance, stator_diag **err)
{
    stator_ctx *ctx = instance->ctx;
    stator_memory_info info;
    if (instance->backend->memory == NULL) {
        return STATOR_OK;
    }
    ST_TRY(ask_memory(instance, &info, err));
    pthread_mutex_lock(&ctx->devices_lock);
    device *d = find_device(ctx, instance->backend->item.name, info.device);
    const stator_status status = d == NULL ? open_device(instance, &info, &d, err) : STATOR_OK;
    pthread_mutex_unlock(&ctx->devices_lock);
    instance->domain = status == STATOR_OK ? &d->domain : NULL;
    return status;
}

stator_status st_device_parse(const char *text, char *out_name, uint32_t name_bytes,
                              uint32_t *out_device, stator_diag **err)
{
    const size_t n = strcspn(text, ":");
    char *end = NULL;
    *out_device = 0;
    ST_FAIL_IF(n == 0 || n >= name_bytes, err, STATOR_INVALID_ARGUMENT,
               "the device '%.64s' has no name of a backend in front; write one as cuda:0", text);
    memcpy(out_name, text, n);
    out_name[n] = '\0';
    if (text[n] == '\0') {
        return STATOR_OK;
    }
    const unsigned long number = strtoul(text + n + 1, &end, 10);
    ST_FAIL_IF(
        text[n + 1] < '0' || text[n + 1] > '9' || *end != '\0', err, STATOR_INVALID_ARGUMENT,
        "the device '%.64s' has '%.32s' behind the colon; expected its number, from 0 on, as "
        "in cuda:0",
        text, text + n + 1);
    ST_FAIL_IF(number > NUMBER_MAX, err, STATOR_NOT_FOUND,
               "there is no device %.64s: numbers of devices end at %d", text, (int)NUMBER_MAX);
    ST_FAIL_IF(number != 0 && strcmp(out_name, "cpu") == 0, err, STATOR_NOT_FOUND,
               "there is no device %.64s: the host is cpu, and is one", text);
    *out_device = (uint32_t)number;
    return STATOR_OK;
}

/* Domains are added in front and stay: one that has been found holds without the lock. */
static st_domain *first_domain(stator_ctx *ctx)
{
    pthread_mutex_lock(&ctx->devices_lock);
    st_domain *d = ctx->domains;
    pthread_mutex_unlock(&ctx->devices_lock);
    return d;
}

/* The open domain of device `number` of a backend, or NULL. */
static st_domain *find_open(stator_ctx *ctx, const char *name, uint32_t number)
{
    st_domain *d = first_domain(ctx);
    for (; d != NULL; d = d->next) {
        const stator_instance *instance = ((device *)(void *)d)->instance;
        if (instance->device == number && strcmp(instance->backend->item.name, name) == 0) {
            break;
        }
    }
    return d;
}

stator_status st_device_in_use(stator_ctx *ctx, const char *text, st_domain **out_domain,
                               stator_diag **err)
{
    char name[64];
    uint32_t number = 0;
    *out_domain = NULL;
    ST_TRY(st_device_parse(text, name, sizeof name, &number, err));
    *out_domain = find_open(ctx, name, number);
    return STATOR_OK;
}

stator_status st_device_find(stator_ctx *ctx, const char *text, st_domain **out_domain,
                             stator_diag **err)
{
    static const st_option_pairs none = {.count = 0};
    char name[64];
    uint32_t number = 0;
    *out_domain = NULL;
    ST_TRY(st_device_parse(text, name, sizeof name, &number, err));
    if (strcmp(name, "cpu") == 0) {
        return STATOR_OK;
    }
    *out_domain = find_open(ctx, name, number);
    if (*out_domain != NULL) {
        return STATOR_OK;
    }
    stator_instance *instance = NULL; /* opens the domain, which stays */
    ST_TRY(st_instance_open_on(ctx, name, number, &none, &instance, err));
    const stator_status status = st_device_attach(instance, err);
    *out_domain = instance->domain;
    st_instance_close(instance);
    return status;
}

static stator_status check_range(st_domain *d, const st_reach *reach, stator_diag **err)
{
    return d->checks_ranges
               ? d->ops->check_range(d->self, reach->p, reach->below, reach->above, err)
               : STATOR_OK;
}

stator_status st_device_of_memory(stator_ctx *ctx, DLDevice where, const st_reach *reach,
                                  st_domain **out_domain, stator_diag **err)
{
    const void *p = reach->p;
    stator_diag *why = NULL;
    stator_status status =
        st_fail(&why, STATOR_FAILED_PRECONDITION,
                "the tensor lies on device %d of DLPack's device type %d, which no backend of this "
                "context has opened; make a tensor there with stator_tensor_create_on or compile "
                "for it first",
                where.device_id, where.device_type);
    *out_domain = NULL;
    for (st_domain *d = first_domain(ctx); d != NULL && *out_domain == NULL; d = d->next) {
        if (d->device.device_type != where.device_type || d->device.device_id != where.device_id) {
            continue;
        }
        st_diag_release(why);
        why = NULL;
        status =
            p != NULL && d->checks_addresses ? d->ops->check_address(d->self, p, &why) : STATOR_OK;
        *out_domain = status == STATOR_OK ? d : NULL;
    }
    ST_TRY(st_diag_give(status, why, err));
    return p != NULL ? check_range(*out_domain, reach, err) : STATOR_OK;
}

stator_status st_device_check_host(stator_ctx *ctx, const st_reach *reach, stator_diag **err)
{
    const void *p = reach->p;
    for (st_domain *d = first_domain(ctx); d != NULL && p != NULL; d = d->next) {
        ST_FAIL_IF(d->checks_addresses && d->ops->check_address(d->self, p, NULL) == STATOR_OK, err,
                   STATOR_INVALID_ARGUMENT,
                   "the tensor is said to lie in host memory, and its address %p is one of %s; "
                   "name the device it lies on",
                   p, d->name);
        ST_TRY(check_range(d, reach, err));
    }
    return STATOR_OK;
}

void st_devices_close(stator_ctx *ctx)
{
    while (ctx->domains != NULL) {
        device *d = (device *)(void *)ctx->domains;
        ctx->domains = d->domain.next;
        st_domain_deinit(&d->domain);
        st_instance_close(d->instance);
        st_free(&ctx->mem, d);
    }
}
