/* See soft_memory.h. */
#define _GNU_SOURCE
#include "soft_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ST_SOFT_EXECUTOR
#include "gpu_prelude_soft.h"
#include "soft_stream.h"

#define PAGE 4096u
#define ALIGN 256u      /* what the API promises */
#define QUARANTINE 4096 /* freed allocations whose addresses are not given again */
/* Where pinned memory is mapped a second time there is nothing, but for a sanitizer that keeps
 * unused addresses closed. */
#ifdef __SANITIZE_THREAD__
#define MAP_LOW MAP_FIXED
#else
#define MAP_LOW MAP_FIXED_NOREPLACE
#endif
#define SAID_MAX 5 /* leaks that are described, each on a line */

typedef struct soft_alloc {
    struct soft_alloc *next;
    soft_device *device;
    unsigned char *map; /* with the guard pages */
    uint64_t map_bytes;
    unsigned char *data;
    uint64_t bytes;
    bool is_pinned;
    uint64_t number; /* in the order of the allocations of the process */
} soft_alloc;

static soft_alloc *live;
static soft_alloc *freed[QUARANTINE]; /* a ring */
static uint64_t n_freed, n_allocs;

/* ---- the pattern around an allocation ---- */

/* Bytes FE FF FE FF: NaN in each float, and seldom what a kernel writes. */
static unsigned char pattern(const unsigned char *p)
{
    return ((uintptr_t)p & 1) != 0 ? 0xff : 0xfe;
}

static void fill_around(const soft_alloc *a)
{
    memset(a->data, 0xff, a->bytes);
    for (unsigned char *p = a->map + PAGE; p < a->data; p++) {
        *p = pattern(p);
    }
    for (unsigned char *p = a->data + a->bytes; p < a->map + a->map_bytes - PAGE; p++) {
        *p = pattern(p);
    }
}

/* Says where a kernel has written beside an allocation; false when it has. */
static bool is_intact(const soft_alloc *a)
{
    const unsigned char *p = a->map + PAGE;
    while (p < a->map + a->map_bytes - PAGE) {
        if (p == a->data) {
            p += a->bytes;
            continue;
        }
        if (*p != pattern(p)) {
            soft_say("memory was written %lld bytes from the begin of an allocation of %llu bytes",
                     (long long)(p - a->data), (unsigned long long)a->bytes);
            return false;
        }
        p++;
    }
    return true;
}

/* ---- mapping ---- */

/* Device memory between two guard pages. */
static bool map_device(soft_alloc *a)
{
    const uint64_t inside = (a->bytes + ALIGN - 1) / ALIGN * ALIGN;
    const uint64_t pages = (inside + PAGE - 1) / PAGE * PAGE;
    a->map_bytes = pages + 2ull * PAGE;
    a->map =
        mmap(NULL, a->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (a->map == MAP_FAILED || mprotect(a->map + PAGE, pages, PROT_READ | PROT_WRITE) != 0) {
        return false;
    }
    a->data = a->map + PAGE + (pages - inside);
    return true;
}

/* Memory of the host that lies ST_SOFT_OFFSET lower too. The system call takes the place of mmap()
 * since a sanitizer's lets nobody map there. */
static bool map_pinned(soft_alloc *a)
{
    a->map_bytes = (a->bytes + PAGE - 1) / PAGE * PAGE + 2ull * PAGE;
    const int fd = memfd_create("softgpu-pinned", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)a->map_bytes) != 0) {
        return false;
    }
    a->map = mmap(NULL, a->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    unsigned char *low = a->map - ST_SOFT_OFFSET;
    const bool is_mapped =
        a->map != MAP_FAILED && syscall(SYS_mmap, low, a->map_bytes, PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_LOW, fd, (off_t)0) == (long)(uintptr_t)low;
    close(fd);
    a->data = a->map + PAGE;
    return is_mapped;
}

static void unmap(soft_alloc *a)
{
    munmap(a->map, a->map_bytes);
    if (a->is_pinned) {
        syscall(SYS_munmap, a->map - ST_SOFT_OFFSET, a->map_bytes);
    }
    free(a);
}

/* Lets nobody touch the memory any more, and gives the pages back. */
static void close_memory(const soft_alloc *a)
{
    if (a->is_pinned) {
        syscall(SYS_munmap, a->map - ST_SOFT_OFFSET, a->map_bytes);
    }
    mmap(a->map, a->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
         -1, 0);
}

static CUresult allocate(soft_device *device, uint64_t bytes, bool is_pinned, soft_alloc **out)
{
    soft_alloc *a = calloc(1, sizeof(soft_alloc));
    if (a == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *a = (soft_alloc){.device = device, .bytes = bytes, .is_pinned = is_pinned};
    if (!(is_pinned ? map_pinned(a) : map_device(a))) {
        free(a);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    fill_around(a);
    a->number = ++n_allocs;
    a->next = live;
    live = a;
    device->memory_used += is_pinned ? 0 : bytes;
    *out = a;
    return CUDA_SUCCESS;
}

static void release(soft_alloc *a)
{
    soft_alloc **at = &live;
    while (*at != a) {
        at = &(*at)->next;
    }
    *at = a->next;
    a->device->memory_used -= a->is_pinned ? 0 : a->bytes;
    close_memory(a);
    soft_alloc **place = &freed[n_freed++ % QUARANTINE];
    if (*place != NULL) {
        (*place)->is_pinned = false; /* its other place is given back already */
        unmap(*place);
    }
    *place = a;
}

/* ---- looking up ---- */

static CUdeviceptr address_of(const soft_alloc *a)
{
    return (uint64_t)(uintptr_t)a->data + (a->is_pinned ? 0 : ST_SOFT_OFFSET);
}

static soft_alloc *find(CUdeviceptr address)
{
    soft_alloc *a = live;
    while (a != NULL && address - address_of(a) >= a->bytes) {
        a = a->next;
    }
    return a;
}

void *soft_host_of(CUdeviceptr address, uint64_t bytes)
{
    const soft_alloc *a = find(address);
    if (a == NULL || bytes > a->bytes - (address - address_of(a))) {
        return NULL;
    }
    return a->data + (address - address_of(a));
}

bool soft_find_range(CUdeviceptr address, soft_range *out)
{
    const soft_alloc *a = find(address);
    if (a != NULL) {
        *out = (soft_range){a->device, address_of(a), a->bytes, a->is_pinned};
    }
    return a != NULL;
}

/* The allocation, live or freed, in whose pages a host address lies. */
static const soft_alloc *find_map(const unsigned char *p, bool *out_is_live)
{
    const soft_alloc *a = live;
    while (a != NULL && (p < a->map || p >= a->map + a->map_bytes)) {
        a = a->next;
    }
    *out_is_live = a != NULL;
    for (unsigned i = 0; a == NULL && i < QUARANTINE && freed[i] != NULL; i++) {
        const bool is_in = p >= freed[i]->map && p < freed[i]->map + freed[i]->map_bytes;
        a = is_in ? freed[i] : NULL;
    }
    return a;
}

static bool is_mapped(uint64_t address)
{
    unsigned char state = 0;
    return mincore((void *)(uintptr_t)(address & ~(uint64_t)(PAGE - 1)), 1, &state) == 0;
}

void soft_describe_address(uint64_t address, char *out, size_t bytes)
{
    bool is_live = false;
    const unsigned char *p = (const unsigned char *)(uintptr_t)address;
    const soft_alloc *a = find_map(p, &is_live);
    if (a != NULL && !is_live) {
        snprintf(out, bytes, "memory that has been freed (byte %lld of %llu)",
                 (long long)(p - a->data), (unsigned long long)a->bytes);
    } else if (a != NULL) {
        snprintf(out, bytes, "byte %lld of an allocation of %llu bytes", (long long)(p - a->data),
                 (unsigned long long)a->bytes);
    } else if (address + ST_SOFT_OFFSET < PAGE) {
        snprintf(out, bytes, "at device address %llu",
                 (unsigned long long)(address + ST_SOFT_OFFSET));
    } else if (address != 0 && is_mapped(address + ST_SOFT_OFFSET)) {
        snprintf(out, bytes, "memory of the host, at 0x%llx, which is not pinned",
                 (unsigned long long)(address + ST_SOFT_OFFSET));
    } else if (address == 0) {
        snprintf(out, bytes, "at what is no address (a device address without ST_GLOBAL?)");
    } else {
        snprintf(out, bytes, "at device address 0x%llx, where no allocation is",
                 (unsigned long long)(address + ST_SOFT_OFFSET));
    }
}

unsigned soft_free_all(soft_device *device)
{
    const bool is_told = soft.options.reports_leaks && device->fault == CUDA_SUCCESS;
    unsigned n = 0;
    for (soft_alloc *a = live, *next = NULL; a != NULL; a = next) {
        next = a->next;
        if (a->device != device) {
            continue;
        }
        if (is_told && n < SAID_MAX) {
            soft_say("device %d: allocation %llu of %llu bytes%s was not freed", device->ordinal,
                     (unsigned long long)a->number, (unsigned long long)a->bytes,
                     a->is_pinned ? " of pinned memory" : "");
        }
        n++;
        release(a);
    }
    if (is_told && n > SAID_MAX) {
        soft_say("device %d: %u allocations were not freed", device->ordinal, n);
    }
    return is_told ? n : 0;
}

/* ---- the API ---- */

SOFT_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize);
SOFT_EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr);
SOFT_EXPORT CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned flags);
SOFT_EXPORT CUresult cuMemFreeHost(void *p);
SOFT_EXPORT CUresult cuMemHostGetFlags(unsigned *flags, void *p);
SOFT_EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
SOFT_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address);

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    soft_device *device = NULL;
    soft_alloc *a = NULL;
    CUresult result = soft_enter_context(&device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (dptr == NULL || bytesize == 0) {
        return soft_leave(CUDA_ERROR_INVALID_VALUE);
    }
    const uint64_t room = soft.options.chip->memory_bytes - device->memory_used;
    if (soft_is_to_fail(SOFT_FAIL_ALLOC) || bytesize > room) {
        return soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    result = allocate(device, bytesize, false, &a);
    *dptr = result == CUDA_SUCCESS ? address_of(a) : 0;
    return soft_leave(result);
}

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned flags)
{
    soft_device *device = NULL;
    soft_alloc *a = NULL;
    CUresult result = soft_enter_context(&device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (pp == NULL || bytesize == 0 || flags > 7) {
        return soft_leave(CUDA_ERROR_INVALID_VALUE);
    }
    result = soft_is_to_fail(SOFT_FAIL_PINNED) ? CUDA_ERROR_OUT_OF_MEMORY
                                               : allocate(device, bytesize, true, &a);
    *pp = result == CUDA_SUCCESS ? a->data : NULL;
    return soft_leave(result);
}

/* Frees memory that begins at this address, after all work of its device, as the API promises. */
static CUresult free_at(CUdeviceptr address, bool is_pinned, const char *name)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    soft_alloc *a = find(address);
    if (a == NULL || a->is_pinned != is_pinned || address_of(a) != address) {
        bool is_live = false;
        const uint64_t offset = is_pinned ? 0 : ST_SOFT_OFFSET;
        const soft_alloc *other =
            find_map((const unsigned char *)(uintptr_t)(address - offset), &is_live);
        soft_count_misuse();
        return soft_leave(soft_refuse(
            CUDA_ERROR_INVALID_VALUE, "%s(0x%llx): %s", name, (unsigned long long)address,
            other != NULL && !is_live ? "this memory has been freed before"
                                      : "no allocation of this kind begins here"));
    }
    result = soft_device_wait(a->device);
    if (!is_intact(a)) {
        soft_count_misuse();
    }
    release(a);
    return soft_leave(result);
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    return dptr == 0 ? CUDA_SUCCESS : free_at(dptr, false, "cuMemFree");
}

CUresult cuMemFreeHost(void *p)
{
    return free_at((CUdeviceptr)(uintptr_t)p, true, "cuMemFreeHost");
}

/* Of memory that cuMemHostAlloc gave; it is all alike, whatever flags were asked for. */
CUresult cuMemHostGetFlags(unsigned *flags, void *p)
{
    soft_range range;
    const CUresult result = soft_enter();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    *flags = 0;
    return soft_leave(soft_find_range((CUdeviceptr)(uintptr_t)p, &range) && range.is_pinned
                          ? CUDA_SUCCESS
                          : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    soft_device *device = NULL;
    const CUresult result = soft_enter_context(&device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    *total = soft.options.chip->memory_bytes;
    *free_bytes = *total - device->memory_used;
    return soft_leave(CUDA_SUCCESS);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    soft_range range;
    const CUresult result = soft_enter();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!soft_find_range(address, &range)) {
        return soft_leave(CUDA_ERROR_NOT_FOUND);
    }
    if (base != NULL) {
        *base = range.start;
    }
    if (bytes != NULL) {
        *bytes = range.bytes;
    }
    return soft_leave(CUDA_SUCCESS);
}
