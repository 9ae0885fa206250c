/* Memory with an account: every block of a context is counted, may be limited, and can be made to
 * fail at the n-th request (allocation-failure tests). The one file that calls malloc. */
#ifndef STATOR_BASE_ALLOC_H
#define STATOR_BASE_ALLOC_H

#include <stator/plugin.h>

#ifdef __cplusplus
extern "C" {
/* C++17 has no _Atomic: there a counter is a place of the same size that is not to be touched. */
typedef struct st_counter {
    uint64_t hidden;
} st_counter;
#else
#include <stdatomic.h>
typedef _Atomic uint64_t st_counter;
_Static_assert(sizeof(st_counter) == sizeof(uint64_t) && _Alignof(st_counter) == _Alignof(uint64_t),
               "C and C++ see the same struct");
#endif

typedef struct st_mem {
    void *(*raw_alloc)(void *self, uint64_t size, uint64_t align);
    void (*raw_free)(void *self, void *p);
    void *raw_self;
    uint64_t limit_bytes; /* 0: none */
    st_counter live_bytes;
    st_counter peak_bytes;
    st_counter live_blocks;
    st_counter requests;
    st_counter fail_at; /* the request of this number (from 1) and all later ones fail; 0: off */
    st_counter refused; /* requests that got no memory */
} st_mem;

/* Initialises an account over malloc (raw_alloc NULL) or a caller's pair. */
void st_mem_init(st_mem *mem, void *(*raw_alloc)(void *, uint64_t, uint64_t),
                 void (*raw_free)(void *, void *), void *raw_self, uint64_t limit_bytes);
/* A block of at least size bytes, aligned to max(align, 16); NULL when out of memory. size 0 gives
 * a block. Thread-safe. */
void *st_alloc(st_mem *mem, uint64_t size, uint64_t align);
void *st_calloc(st_mem *mem, uint64_t count, uint64_t size); /* zeroed; NULL on overflow */
void *st_realloc(st_mem *mem, void *p, uint64_t size, uint64_t align);
void st_free(st_mem *mem, void *p);
char *st_strdup(st_mem *mem, const char *s);
char *st_strndup(st_mem *mem, const char *s, uint64_t n);
/* Counts bytes that are not a block of ours (a copied mapping, say); negative to give back. */
void st_mem_charge(st_mem *mem, int64_t bytes);

/* Memory outside every account, for what must outlive contexts (diags). NULL when out of memory. */
void *st_process_alloc(uint64_t size);
void st_process_free(void *p);

/* What the `self` of a plugin begins with that counts its memory. */
typedef struct st_plugin_self {
    const stator_host *host;
    st_mem mem; /* an account over host->mem */
} st_plugin_self;

void st_mem_init_host(st_mem *mem, const stator_host *host, uint64_t limit_bytes);
/* A zeroed self of `size` bytes, begun; *out_self is NULL after RESOURCE_EXHAUSTED. */
stator_status st_plugin_self_create(const stator_host *host, uint64_t size, void **out_self,
                                    stator_diag **err);
void st_plugin_self_destroy(void *self); /* the slot shutdown */

#ifdef __cplusplus
}
#endif
#endif
