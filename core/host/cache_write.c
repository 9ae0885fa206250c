/* Writing entries of the compile cache: from memory, or in place through a mapping.
 *
 * Either way the file has another name until all of it is there, so a reader sees a whole entry or
 * none. In place the head is written last and the blocks are reserved first: a store to a page that
 * has no block on a full disk would be SIGBUS. Where the file system cannot reserve, there are no
 * drafts. */
#define _GNU_SOURCE
#include "core/host/cache_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WRITE_BYTES_MOST ((uint64_t)1 << 30)

/* A new file under a name of its own; -1: errno says why. */
static int open_temporary(st_cache_store *store, int flags, char out_name[64])
{
    (void)snprintf(out_name, 64, ".tmp-%ld-%u", (long)getpid(),
                   atomic_fetch_add(&store->serial, 1u));
    return openat(store->fd, out_name, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static void remove_temporary(st_cache_store *store, const char *name)
{
    const int number = errno;
    (void)unlinkat(store->fd, name, 0);
    errno = number;
}

/* ---- from memory ---- */

static int write_all(int fd, const void *from, uint64_t n)
{
    const char *at = from;
    while (n > 0) {
        const ssize_t put = write(fd, at, (size_t)(n < WRITE_BYTES_MOST ? n : WRITE_BYTES_MOST));
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return 0;
        }
        at += put;
        n -= (uint64_t)put;
    }
    return 1;
}

static int write_parts(int fd, const st_cache_head *h, const char *key, const void *payload)
{
    static const char zeros[ST_CACHE_ALIGN] = {0};
    return write_all(fd, h, sizeof *h) && write_all(fd, key, h->key_bytes) &&
           write_all(fd, zeros, st_cache_payload_at(h) - sizeof *h - h->key_bytes) &&
           write_all(fd, payload, h->payload_bytes);
}

int st_cache_write(st_cache_store *store, uint32_t kind, const char *name, const char *key,
                   const void *payload, uint64_t size_bytes)
{
    char file[64];
    char temporary[64];
    st_cache_head h;
    if (store->fd < 0 || !st_cache_head_of(store, kind, key, size_bytes, &h) ||
        !st_cache_seal(store, &h, key, payload)) {
        errno = EFBIG;
        return 0;
    }
    st_cache_file_name(kind, name, file);
    const int fd = open_temporary(store, O_WRONLY, temporary);
    if (fd < 0) {
        return 0;
    }
    int is_ok = write_parts(fd, &h, key, payload);
    is_ok = close(fd) == 0 && is_ok;
    is_ok = is_ok && renameat(store->fd, temporary, store->fd, file) == 0;
    if (!is_ok) {
        remove_temporary(store, temporary);
    }
    return is_ok;
}

/* ---- in place ---- */

static int reserve_and_map(int fd, st_cache_draft *d)
{
    if (fallocate(fd, 0, 0, (off_t)d->map_bytes) != 0) {
        return 0;
    }
    d->map = mmap(NULL, (size_t)d->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return d->map != MAP_FAILED;
}

int st_cache_draft_begin(st_cache_store *store, uint32_t kind, const char *name, const char *key,
                         uint64_t size_bytes, st_cache_draft *out)
{
    st_cache_head h;
    *out = (st_cache_draft){.store = store, .size_bytes = size_bytes};
    if (store->fd < 0 || !st_cache_head_of(store, kind, key, size_bytes, &h)) {
        errno = EFBIG;
        return 0;
    }
    out->map_bytes = h.size_bytes;
    st_cache_file_name(kind, name, out->file);
    const int fd = open_temporary(store, O_RDWR, out->temporary);
    if (fd < 0) {
        return 0;
    }
    const int is_mapped = reserve_and_map(fd, out);
    if (!is_mapped) {
        remove_temporary(store, out->temporary);
    } else {
        h.format = 0; /* not one of ours until it is sealed */
        memcpy(out->map, &h, sizeof h);
        memcpy((char *)out->map + sizeof h, key, (size_t)h.key_bytes);
        out->payload = (char *)out->map + st_cache_payload_at(&h);
    }
    const int number = errno;
    (void)close(fd);
    errno = number;
    return is_mapped;
}

void st_cache_draft_drop(st_cache_draft *draft)
{
    (void)munmap(draft->map, (size_t)draft->map_bytes);
    remove_temporary(draft->store, draft->temporary);
}

/* The head, and the name that readers look for. */
static int publish(st_cache_draft *draft)
{
    st_cache_store *store = draft->store;
    const char *key = (const char *)draft->map + sizeof(st_cache_head);
    st_cache_head was;
    st_cache_head h;
    memcpy(&was, draft->map, sizeof was);
    if (!st_cache_head_of(store, was.kind, key, draft->size_bytes, &h) ||
        !st_cache_seal(store, &h, key, draft->payload)) {
        return 0;
    }
    memcpy(draft->map, &h, sizeof h);
    return renameat(store->fd, draft->temporary, store->fd, draft->file) == 0;
}

stator_blob *st_cache_draft_end(st_cache_draft *draft, int *out_is_kept)
{
    const uint64_t offset = (uint64_t)((char *)draft->payload - (char *)draft->map);
    *out_is_kept = 0;
    stator_blob *blob =
        st_blob_of_map(draft->store->mem, draft->map, draft->map_bytes, offset, draft->size_bytes);
    if (blob == NULL) {
        st_cache_draft_drop(draft);
        return NULL;
    }
    *out_is_kept = publish(draft);
    if (!*out_is_kept) {
        remove_temporary(draft->store, draft->temporary);
    }
    /* What is published is nobody's to change; failing, it only loses this guard. */
    (void)mprotect(draft->map, (size_t)draft->map_bytes, PROT_READ);
    return blob;
}
