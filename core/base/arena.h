/* Bump allocation freed as a whole. Not thread-safe. Pointers never move. */
#ifndef STATOR_BASE_ARENA_H
#define STATOR_BASE_ARENA_H

#include "core/base/alloc.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct st_arena {
    st_mem *mem;
    struct st_arena_chunk *head;
    uint64_t used_bytes;
} st_arena;

void st_arena_init(st_arena *arena, st_mem *mem);
void st_arena_deinit(st_arena *arena);
void *st_arena_alloc(st_arena *arena, uint64_t size, uint64_t align); /* NULL: out of memory */
void *st_arena_zalloc(st_arena *arena, uint64_t count, uint64_t size);
char *st_arena_strndup(st_arena *arena, const char *s, uint64_t n);
void st_arena_reset(st_arena *arena); /* keeps one chunk */

#ifdef __cplusplus
}
#endif
#endif
