/* Writing entries of the compile cache. The file has another name until all of it is there, so a
 * reader sees a whole entry or none. Storing to a mapped file instead would be slower, a fault with
 * bookkeeping of the file system for each page, and a full disk would be a signal. */
#define _GNU_SOURCE
#include "core/cache/cache_entry.h"

#include "core/base/fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define NAME_TRIES 1000u

/* A new file under a name of its own; -1: errno says why. Another context of this process counts
 * for itself, and a process that was killed may have had our number: a name that is taken is passed
 * over.
 */
static st_fd open_temporary(st_cache_store *store, char out_name[64])
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = -1;
    for (uint32_t i = 0; i < NAME_TRIES && fd < 0; i++) {
        (void)snprintf(out_name, 64, ".tmp-%ld-%u", (long)getpid(),
                       atomic_fetch_add(&store->serial, 1u));
        fd = openat(store->fd, out_name, flags, 0600);
        if (fd < 0 && errno != EEXIST) {
            break;
        }
    }
    return fd;
}

/* 0: it is too large, or there is no folder. */
static bool make_head(const st_cache_store *store, uint32_t kind, const char *key,
                      const void *payload, uint64_t size_bytes, st_cache_head *out)
{
    if (store->fd < 0 || !st_cache_head_of(store, kind, key, size_bytes, out) ||
        !st_cache_seal(store, out, key, payload)) {
        errno = EFBIG;
        return false;
    }
    return true;
}

static bool write_parts(int fd, const st_cache_head *h, const char *key, const void *payload)
{
    static const char zeros[ST_CACHE_ALIGN] = {0};
    return st_write_all(fd, h, sizeof *h) && st_write_all(fd, key, h->key_bytes) &&
           st_write_all(fd, zeros, st_cache_payload_at(h) - sizeof *h - h->key_bytes) &&
           st_write_all(fd, payload, h->payload_bytes);
}

/* The entry under its name. 0: errno says why not. */
static bool publish(st_cache_store *store, const char *name, const st_cache_head *h,
                    const char *key, const void *payload)
{
    char file[64];
    char temporary[64];
    const int fd = open_temporary(store, temporary);
    ST_NEED(fd >= 0);
    st_cache_file_name(h->kind, name, file);
    bool is_ok = write_parts(fd, h, key, payload);
    is_ok = close(fd) == 0 && is_ok;
    if (is_ok && renameat(store->fd, temporary, store->fd, file) == 0) {
        return true;
    }
    const int number = errno;
    (void)unlinkat(store->fd, temporary, 0);
    errno = number;
    return false;
}

bool st_cache_write(st_cache_store *store, uint32_t kind, const char *name, const char *key,
                    const void *payload, uint64_t size_bytes)
{
    st_cache_head h;
    ST_NEED(make_head(store, kind, key, payload, size_bytes, &h));
    return publish(store, name, &h, key, payload);
}
