/* The state of the software device, its lock and its errors. */
#include "soft_device.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "soft_context.h"

#define QUARANTINE 1024 /* destroyed objects that are kept, so that their use is seen */
#define BUCKETS 4096

soft_state soft;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    soft_object *first, *last;
    unsigned n;
} dead;

/* Objects that live, by their handles. */
static soft_object *known[BUCKETS];

CUresult soft_enter(void)
{
    if (soft.is_forked) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    pthread_mutex_lock(&lock);
    if (soft.is_initialised && !soft.is_ended && soft_is_to_fail(SOFT_FAIL_UNLOAD)) {
        soft.options.reports_leaks = false; /* of what nobody can free any more */
        soft_end();
    }
    return soft.is_ended          ? soft_leave(CUDA_ERROR_DEINITIALIZED)
           : !soft.is_initialised ? soft_leave(CUDA_ERROR_NOT_INITIALIZED)
                                  : CUDA_SUCCESS;
}

CUresult soft_leave(CUresult result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult soft_enter_context(soft_device **out_device)
{
    *out_device = NULL;
    const CUresult entered = soft_enter();
    if (entered != CUDA_SUCCESS) {
        return entered;
    }
    soft_device *device = soft_current_context();
    if (device == NULL || device->retained == 0) {
        return soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    if (device->fault != CUDA_SUCCESS) {
        return soft_leave(device->fault);
    }
    *out_device = device;
    return CUDA_SUCCESS;
}

/* splitmix64 (Steele, Lea and Flood, 2014), whose high bits choose: a multiplication where a
 * remainder would take ten times as long, once for each lane at each meeting point. */
uint64_t soft_random(uint64_t *state, uint64_t n)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint64_t)(((unsigned __int128)(z ^ (z >> 31)) * n) >> 64);
}

static void say(const char *format, va_list arguments)
{
    char text[1200];
    vsnprintf(text, sizeof(text), format, arguments);
    fprintf(stderr, "softgpu: %s\n", text);
}

void soft_say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

CUresult soft_refuse(CUresult code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    return code;
}

void soft_count_misuse(void)
{
    soft.n_misuses++;
}

void soft_fail_device(soft_device *device, CUresult code, const char *text)
{
    soft_say("%s", text);
    if (device->fault == CUDA_SUCCESS) {
        device->fault = code;
        snprintf(device->fault_text, sizeof(device->fault_text), "%s", text);
    }
}

/* Where the object with the handle stands, or the end of its list. */
static soft_object **find_known(const void *handle)
{
    soft_object **at = &known[((uintptr_t)handle >> 4) % BUCKETS];
    while (*at != NULL && *at != handle) {
        at = &(*at)->known;
    }
    return at;
}

void *soft_object_create(soft_device *device, enum soft_kind kind, size_t bytes)
{
    soft_object *object = calloc(1, bytes);
    if (object != NULL) {
        object->kind = kind;
        object->device = device;
        *find_known(object) = object;
    }
    return object;
}

bool soft_is_object(const void *handle, enum soft_kind kind)
{
    const soft_object *object = *find_known(handle);
    return object != NULL && object->kind == kind;
}

void soft_object_destroy(soft_object *object)
{
    *find_known(object) = object->known;
    object->next = NULL;
    if (dead.last != NULL) {
        dead.last->next = object;
    } else {
        dead.first = object;
    }
    dead.last = object;
    if (++dead.n > QUARANTINE) {
        soft_object *oldest = dead.first;
        dead.first = oldest->next;
        dead.n--;
        free(oldest);
    }
}
