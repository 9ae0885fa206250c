/* The folder of the compile cache: named entries, each a file of its own.
 *
 *   ROOT/programs/<32 hex digits>.code    a compiled program
 *                 <32 hex digits>.data    packed weights, large derived constants
 *                 <32 hex digits>.sums    content hashes of the ranges of a file
 *                 .tmp-<pid>-<number>     being written
 *
 * A file is a head (magic with the format's version, size, checksum of all that follows), the key
 * in words, and the payload. It is written under another name and renamed, so a reader sees a whole
 * file or none; what a killed writer or a full disk leaves is no entry. What is read is checked
 * whole; an entry that does not check is removed and counts as absent.
 *
 * ROOT/programs belongs to the effective user and to nobody else (0700, files 0600), else there is
 * no cache. Its size is capped: the oldest data go first, then the oldest code; reading makes an
 * entry young. Threads and processes may use one folder at once. */
#ifndef STATOR_CACHE_CACHE_STORE_H
#define STATOR_CACHE_CACHE_STORE_H

#include "core/base/alloc.h"
#include "core/base/blob.h"
#include "core/base/str.h"

#define ST_CACHE_NAME_BYTES 33u

enum st_cache_kind { ST_CACHE_CODE = 0, ST_CACHE_DATA = 1, ST_CACHE_SUMS = 2, ST_CACHE_KINDS = 3 };

typedef struct st_cache_store {
    st_mem *mem;
    char *folder;
    _Atomic int fd; /* folder; -1: no cache (`reason` says why), or not opened yet */
    int32_t threads;
    uint64_t cap_bytes;
    _Atomic uint32_t serial; /* number of the next temporary file */
    _Atomic uint32_t saves;
    uint32_t is_told; /* the log has named the folder */
    char reason[256];
    /* Hears of each file that is removed as it does not check; NULL: nobody wants to. */
    void (*on_damage)(void *self, const char *file);
    void *on_damage_self;
} st_cache_store;

typedef struct st_cache_entry {
    const char *name; /* without the ending */
    uint32_t kind;
    uint32_t reserved;
    uint64_t size_bytes;
    int64_t used_s; /* when it was written or read last */
} st_cache_entry;

/* Opens ROOT/programs where it is there; where it is not, there is neither a reason nor a folder
 * yet. `root` NULL: no cache. Never fails: what is wrong is the reason. */
void st_cache_store_open(st_cache_store *store, st_mem *mem, const char *root, uint64_t cap_bytes,
                         int32_t threads);
/* Makes the folder where it is not there yet, and opens it. */
void st_cache_store_make(st_cache_store *store);
void st_cache_store_close(st_cache_store *store);

/* Hexadecimal hash of a key. */
void st_cache_name(const void *key, uint64_t n, char out[ST_CACHE_NAME_BYTES]);

/* The whole entry in memory (st_free), its key and payload inside; NULL: there is none. `key` not
 * NULL: that of the entry must equal it. */
typedef struct st_cache_bytes {
    void *file;
    const char *key;
    const uint8_t *payload; /* aligned to 64 bytes in the file */
    uint64_t size_bytes;    /* size of the payload */
    bool is_damaged;        /* there was one, which did not check */
} st_cache_bytes;
bool st_cache_read(st_cache_store *store, uint32_t kind, const char *name, const char *key,
                   st_cache_bytes *out);
/* Appends the key alone, for people to read; 0: size and head are not those of an entry. */
bool st_cache_read_key(st_cache_store *store, uint32_t kind, const char *name, st_str *out_key);
/* The payload mapped and checked, as a blob; NULL: there is none of that size. */
stator_blob *st_cache_map(st_cache_store *store, const char *name, const char *key,
                          uint64_t size_bytes);
/* Publishes an entry, replacing one of that name. 0: it could not be written, errno says why. */
bool st_cache_write(st_cache_store *store, uint32_t kind, const char *name, const char *key,
                    const void *payload, uint64_t size_bytes);
void st_cache_remove(st_cache_store *store, uint32_t kind, const char *name);
/* Removes the oldest until the rest is below the cap, and what killed writers left. */
void st_cache_evict(st_cache_store *store);
/* Calls fn for each entry, newest first; stops when it gives 0. 0: out of memory. */
bool st_cache_each(st_cache_store *store, bool (*fn)(void *self, const st_cache_entry *entry),
                   void *self);
/* Checks the bytes of an entry's file and finds its parts; 0: not one of ours. Pure. */
bool st_cache_parse(const void *bytes, uint64_t n, uint32_t kind, int32_t threads,
                    st_cache_bytes *out);

#endif
