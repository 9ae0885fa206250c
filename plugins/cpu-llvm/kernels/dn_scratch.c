/* Scratch of calls: one block for all ops of the library, as many as calls run at the same time.
 *
 * What a contraction needs for reordered operands and for the primitive itself lies in the same
 * memory as that of the one before; it grows to the largest need and is kept. Concurrent scans
 * have a block each, attention one a thread. */
#define _GNU_SOURCE
#include "plugins/cpu-llvm/kernels/dn.h"

#include "core/base/alloc.h"

#include <sys/mman.h>
#include <unistd.h>

#define LINE 64u
#define HUGE_BYTES ((uintptr_t)2 << 20)

struct dn_scratch {
    struct dn_scratch *next;
    uint64_t bytes; /* behind the head */
    char padding[LINE - sizeof(void *) - sizeof(uint64_t)];
};
_Static_assert(sizeof(struct dn_scratch) == LINE, "what follows is aligned");

/* The whole pages of `page` bytes inside a block. 0: there are none. */
static bool pages_in(void *data, uint64_t bytes, uintptr_t page, void **out_begin, size_t *out_size)
{
    const uintptr_t begin = ((uintptr_t)data + page - 1u) / page * page;
    const uintptr_t end = ((uintptr_t)data + (uintptr_t)bytes) / page * page;
    *out_begin = (void *)begin;
    *out_size = begin < end ? end - begin : 0;
    return begin < end;
}

void dn_advise_huge(void *data, uint64_t bytes)
{
    void *begin = NULL;
    size_t size = 0;
    if (pages_in(data, bytes, HUGE_BYTES, &begin, &size)) {
        (void)madvise(begin, size, MADV_HUGEPAGE);
    }
}

void dn_free_large(st_mem *mem, void *data, uint64_t bytes)
{
    void *begin = NULL;
    size_t size = 0;
    if (data && bytes >= HUGE_BYTES &&
        pages_in(data, bytes, (uintptr_t)sysconf(_SC_PAGESIZE), &begin, &size)) {
        (void)madvise(begin, size, MADV_DONTNEED);
    }
    st_free(mem, data);
}

dn_scratch *dn_scratch_take(dn_lib *lib, uint64_t bytes)
{
    (void)pthread_mutex_lock(&lib->mutex);
    dn_scratch **at = &lib->scratch;
    while (*at && (*at)->bytes < bytes && (*at)->next) {
        at = &(*at)->next;
    }
    dn_scratch *block = *at;
    if (block) {
        *at = block->next;
    }
    (void)pthread_mutex_unlock(&lib->mutex);
    if (block && block->bytes >= bytes) {
        return block;
    }
    if (block) { /* too small: a larger one takes its place */
        dn_free_large(lib->mem, block, sizeof *block + block->bytes);
    }
    block = st_alloc(lib->mem, sizeof *block + bytes, LINE);
    if (block) {
        dn_advise_huge(block, bytes);
        *block = (dn_scratch){.bytes = bytes};
    }
    return block;
}

void *dn_scratch_data(dn_scratch *block)
{
    return block ? block + 1 : NULL;
}

void dn_scratch_give(dn_lib *lib, dn_scratch *block)
{
    if (block == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&lib->mutex);
    block->next = lib->scratch;
    lib->scratch = block;
    (void)pthread_mutex_unlock(&lib->mutex);
}

void dn_scratch_reserve(dn_lib *lib, uint64_t bytes, int64_t n)
{
    dn_scratch *taken = NULL;
    for (int64_t i = 0; i < n; i++) {
        dn_scratch *block = dn_scratch_take(lib, bytes);
        if (block == NULL) {
            break;
        }
        block->next = taken;
        taken = block;
    }
    while (taken) {
        dn_scratch *next = taken->next;
        dn_scratch_give(lib, taken);
        taken = next;
    }
}

void dn_scratch_deinit(dn_lib *lib)
{
    while (lib->scratch) {
        dn_scratch *block = lib->scratch;
        lib->scratch = block->next;
        st_free(lib->mem, block);
    }
}
