/* Bump allocation. Chunks are linked newest first and double in size up to a cap; a request larger
 * than the next chunk gets a chunk of its own size, so a pointer never moves. */
#include "core/base/arena.h"

#include "core/base/check.h"
#include <string.h>

#define FIRST_CHUNK_BYTES 4096u
#define LAST_CHUNK_BYTES (1u << 20)

typedef struct st_arena_chunk {
    struct st_arena_chunk *next;
    uint64_t size; /* bytes after the head */
    uint64_t used;
    uint64_t reserved;
} st_arena_chunk;

void st_arena_init(st_arena *arena, st_mem *mem)
{
    arena->mem = mem;
    arena->head = NULL;
    arena->used_bytes = 0;
}

static void free_chunks(st_arena *arena, st_arena_chunk *chunk)
{
    while (chunk != NULL) {
        st_arena_chunk *next = chunk->next;
        st_free(arena->mem, chunk);
        chunk = next;
    }
}

void st_arena_deinit(st_arena *arena)
{
    free_chunks(arena, arena->head);
    arena->head = NULL;
    arena->used_bytes = 0;
}

void st_arena_reset(st_arena *arena)
{
    if (arena->head != NULL) {
        free_chunks(arena, arena->head->next);
        arena->head->next = NULL;
        arena->head->used = 0;
    }
    arena->used_bytes = 0;
}

/* Room for size bytes at this alignment in the chunk, or NULL. */
static void *take(st_arena_chunk *chunk, uint64_t size, uint64_t align)
{
    char *base = (char *)(chunk + 1);
    const uint64_t at = (uint64_t)(uintptr_t)(base + chunk->used);
    const uint64_t pad = (align - at % align) % align;
    if (pad > chunk->size - chunk->used || size > chunk->size - chunk->used - pad) {
        return NULL;
    }
    void *p = base + chunk->used + pad;
    chunk->used += pad + size;
    return p;
}

static st_arena_chunk *add_chunk(st_arena *arena, uint64_t need)
{
    uint64_t size = arena->head != NULL ? arena->head->size * 2u : FIRST_CHUNK_BYTES;
    size = size > LAST_CHUNK_BYTES ? LAST_CHUNK_BYTES : size;
    size = size < need ? need : size;
    uint64_t total = 0;
    if (!st_add_u64(size, sizeof(st_arena_chunk), &total)) {
        return NULL;
    }
    st_arena_chunk *chunk = st_alloc(arena->mem, total, 16);
    if (chunk != NULL) {
        *chunk = (st_arena_chunk){.next = arena->head, .size = size};
        arena->head = chunk;
    }
    return chunk;
}

void *st_arena_alloc(st_arena *arena, uint64_t size, uint64_t align)
{
    align = align == 0 ? 16 : align;
    void *p = arena->head != NULL ? take(arena->head, size, align) : NULL;
    if (p == NULL) {
        uint64_t need = 0;
        st_arena_chunk *chunk = st_add_u64(size, align, &need) ? add_chunk(arena, need) : NULL;
        if (chunk == NULL) {
            return NULL;
        }
        p = take(chunk, size, align);
    }
    arena->used_bytes += size;
    return p;
}

void *st_arena_zalloc(st_arena *arena, uint64_t count, uint64_t size)
{
    uint64_t total = 0;
    void *p = st_mul_u64(count, size, &total) ? st_arena_alloc(arena, total, 16) : NULL;
    if (p != NULL) {
        memset(p, 0, (size_t)total);
    }
    return p;
}

char *st_arena_strndup(st_arena *arena, const char *s, uint64_t n)
{
    uint64_t size = 0;
    char *copy = st_add_u64(n, 1, &size) ? st_arena_alloc(arena, size, 1) : NULL;
    if (copy != NULL) {
        if (n != 0) {
            memcpy(copy, s, (size_t)n);
        }
        copy[n] = '\0';
    }
    return copy;
}
