/* Open addressing with linear probing; at most 3/4 full, never shrinks, no deletion (interners only
 * grow). A zero value or id marks a free slot. */
#include "core/base/map.h"

#include "core/base/diag.h"

typedef struct st_map_slot {
    uint64_t key;
    uint32_t value;
    uint32_t reserved;
} st_map_slot;

#define FIRST_CAPACITY 16u

/* Finaliser of MurmurHash3 (Appleby, public domain): every input bit reaches every output bit. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ (x >> 33);
}

static bool is_full(uint32_t count, uint32_t capacity)
{
    return (uint64_t)(count + 1u) * 4u > (uint64_t)capacity * 3u;
}

/* The next capacity, or 0 when there is none. */
static uint32_t next_capacity(uint32_t capacity)
{
    return capacity == 0 ? FIRST_CAPACITY : capacity > UINT32_MAX / 2u ? 0 : capacity * 2u;
}

void st_map_init(st_map *map, st_mem *mem)
{
    *map = (st_map){.mem = mem};
}

void st_map_deinit(st_map *map)
{
    st_free(map->mem, map->slots);
    st_map_init(map, map->mem);
}

/* The slot of key, or the free one where it belongs. */
static st_map_slot *find_slot(st_map_slot *slots, uint32_t capacity, uint64_t key)
{
    uint32_t i = (uint32_t)mix(key) & (capacity - 1u);
    while (slots[i].value != 0 && slots[i].key != key) {
        i = (i + 1u) & (capacity - 1u);
    }
    return &slots[i];
}

uint32_t st_map_get(const st_map *map, uint64_t key)
{
    return map->capacity == 0 ? 0 : find_slot(map->slots, map->capacity, key)->value;
}

static bool grow_map(st_map *map)
{
    const uint32_t capacity = next_capacity(map->capacity);
    st_map_slot *slots = capacity ? st_calloc(map->mem, capacity, sizeof *slots) : NULL;
    ST_NEED(slots != NULL);
    for (uint32_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].value != 0) {
            *find_slot(slots, capacity, map->slots[i].key) = map->slots[i];
        }
    }
    st_free(map->mem, map->slots);
    map->slots = slots;
    map->capacity = capacity;
    return true;
}

bool st_map_put(st_map *map, uint64_t key, uint32_t value)
{
    ST_NEED(!is_full(map->count, map->capacity) || st_map_get(map, key) != 0 || grow_map(map));
    st_map_slot *slot = find_slot(map->slots, map->capacity, key);
    map->count += slot->value == 0;
    slot->key = key;
    slot->value = value;
    return true;
}

void st_hashset_init(st_hashset *set, st_mem *mem)
{
    *set = (st_hashset){.mem = mem};
}

void st_hashset_deinit(st_hashset *set)
{
    st_free(set->mem, set->hashes);
    st_free(set->mem, set->ids);
    st_hashset_init(set, set->mem);
}

uint32_t st_hashset_find(const st_hashset *set, uint64_t hash,
                         bool (*equal)(void *self, uint32_t id), void *self)
{
    if (set->capacity == 0) {
        return 0;
    }
    for (uint32_t i = (uint32_t)mix(hash) & (set->capacity - 1u); set->ids[i] != 0;
         i = (i + 1u) & (set->capacity - 1u)) {
        if (set->hashes[i] == hash && equal(self, set->ids[i])) {
            return set->ids[i];
        }
    }
    return 0;
}

static void insert(uint64_t *hashes, uint32_t *ids, uint32_t capacity, uint64_t hash, uint32_t id)
{
    uint32_t i = (uint32_t)mix(hash) & (capacity - 1u);
    while (ids[i] != 0) {
        i = (i + 1u) & (capacity - 1u);
    }
    hashes[i] = hash;
    ids[i] = id;
}

static bool grow_set(st_hashset *set)
{
    const uint32_t capacity = next_capacity(set->capacity);
    ST_NEED(capacity != 0);
    uint64_t *hashes = st_calloc(set->mem, capacity, sizeof *hashes);
    uint32_t *ids = st_calloc(set->mem, capacity, sizeof *ids);
    if (hashes == NULL || ids == NULL) {
        st_free(set->mem, hashes);
        st_free(set->mem, ids);
        return false;
    }
    for (uint32_t i = 0; i < set->capacity; i++) {
        if (set->ids[i] != 0) {
            insert(hashes, ids, capacity, set->hashes[i], set->ids[i]);
        }
    }
    st_free(set->mem, set->hashes);
    st_free(set->mem, set->ids);
    set->hashes = hashes;
    set->ids = ids;
    set->capacity = capacity;
    return true;
}

bool st_hashset_add(st_hashset *set, uint64_t hash, uint32_t id)
{
    ST_NEED(!is_full(set->count, set->capacity) || grow_set(set));
    insert(set->hashes, set->ids, set->capacity, hash, id);
    set->count++;
    return true;
}
