/* Hash map from 64-bit keys to 32-bit values, and an interner of byte strings on top of it. */
#ifndef STATOR_BASE_MAP_H
#define STATOR_BASE_MAP_H

#include "core/base/alloc.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct st_map {
    st_mem *mem;
    struct st_map_slot *slots;
    uint32_t capacity; /* a power of two */
    uint32_t count;
} st_map;

void st_map_init(st_map *map, st_mem *mem);
void st_map_deinit(st_map *map);
/* Value of key, or 0. */
uint32_t st_map_get(const st_map *map, uint64_t key);
/* Sets key to value (not 0); 0 when out of memory. */
bool st_map_put(st_map *map, uint64_t key, uint32_t value);

/* Maps records to ids through their hash; equality is the caller's. Used by every interner. */
typedef struct st_hashset {
    st_mem *mem;
    uint64_t *hashes;
    uint32_t *ids;
    uint32_t capacity;
    uint32_t count;
} st_hashset;

void st_hashset_init(st_hashset *set, st_mem *mem);
void st_hashset_deinit(st_hashset *set);
/* Id with this hash for which equal(self, id) holds, or 0. */
uint32_t st_hashset_find(const st_hashset *set, uint64_t hash,
                         bool (*equal)(void *self, uint32_t id), void *self);
bool st_hashset_add(st_hashset *set, uint64_t hash, uint32_t id);
/* *to, uninitialised storage, becomes a copy in `mem`; 0: out of memory, *to is then deinitialised.
 */
bool st_hashset_clone(st_hashset *to, st_mem *mem, const st_hashset *from);

uint64_t st_hash64(const void *data, uint64_t size, uint64_t seed);
/* 128-bit content hash (two lanes of a 64-bit multiply-mix; not cryptographic). */
void st_hash128(const void *data, uint64_t size, uint8_t out[16]);
/* SHA-256 (FIPS 180-4), for the plugin allow-list. */
void st_sha256(const void *data, uint64_t size, uint8_t out[32]);

#ifdef __cplusplus
}
#endif
#endif
