/* An entry's file, for the two that know its bytes: cache_store.c, which reads, and cache_write.c.
 *
 *     head | key with its NUL, padded to 64 bytes | payload */
#ifndef STATOR_CACHE_CACHE_ENTRY_H
#define STATOR_CACHE_CACHE_ENTRY_H

#include "core/cache/cache_store.h"

#define ST_CACHE_ALIGN 64u

typedef struct st_cache_head {
    char magic[8];
    uint64_t size_bytes;  /* size of the file */
    uint8_t checksum[16]; /* checksum of the bytes behind it */
    uint32_t kind;
    uint32_t format;
    uint64_t key_bytes; /* with its NUL */
    uint64_t payload_bytes;
    uint64_t reserved;
} st_cache_head;
_Static_assert(sizeof(st_cache_head) == ST_CACHE_ALIGN, "the key follows aligned");

/* The head of an entry that may be kept, all but its checksum. 0: it is too large. */
bool st_cache_head_of(const st_cache_store *store, uint32_t kind, const char *key,
                      uint64_t size_bytes, st_cache_head *out);
/* The checksum. 0: out of memory. */
bool st_cache_seal(const st_cache_store *store, st_cache_head *head, const char *key,
                   const void *payload);
/* Where the payload begins in the file. */
uint64_t st_cache_payload_at(const st_cache_head *head);
void st_cache_file_name(uint32_t kind, const char *name, char out[64]);

#endif
