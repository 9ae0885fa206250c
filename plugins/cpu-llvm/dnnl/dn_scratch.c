/* Scratch of calls: one block for all ops of the library, as many as calls run side by side.
 *
 * A model's contractions run one after the other, so what each needs for reordered operands and for
 * the primitive itself lies in the same memory; it grows to the largest need and is kept. */
#include "dn.h"

#include "core/base/alloc.h"

#define LINE 64u

struct dn_scratch {
    struct dn_scratch *next;
    uint64_t bytes; /* behind the head */
    char padding[LINE - sizeof(void *) - sizeof(uint64_t)];
};
_Static_assert(sizeof(struct dn_scratch) == LINE, "what follows is aligned");

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
    st_free(lib->mem, block); /* too small: the larger one takes its place */
    block = st_alloc(lib->mem, sizeof *block + bytes, LINE);
    if (block) {
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

void dn_scratch_deinit(dn_lib *lib)
{
    while (lib->scratch) {
        dn_scratch *block = lib->scratch;
        lib->scratch = block->next;
        st_free(lib->mem, block);
    }
}
