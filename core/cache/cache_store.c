/* The folder of the compile cache; see the header. */
#define _GNU_SOURCE
#include "core/base/cache_root.h"
#include "core/cache/cache_entry.h"

#include "core/base/blob_file.h"
#include "core/base/fdio.h"
#include "core/base/map.h"
#include "core/base/threads/threads.h"
#include "core/base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FORMAT 1u
#define BLOCK_BYTES (UINT64_C(1) << 20) /* hashed by one thread at a time */
#define KEY_BYTES_MAX (1u << 20)
#define STALE_S 3600 /* a temporary file of that age has no writer */

static const char magic[8] = {'S', 'T', 'A', 'T', 'O', 'R', 'C', '1'};
static const char *const endings[ST_CACHE_KINDS] = {"code", "data", "sums"};

/* ---- the checksum ---- */

#define LANES 4u

__extension__ typedef unsigned __int128 u128;

typedef struct blocks {
    const uint8_t *bytes;
    uint64_t size;
    uint64_t *sums;
} blocks;

/* A whole block by LANES independent multiply-mixes, so that the processor has something to do
 * while a product is on its way; the step is that of core/base/digest.c. */
static uint64_t sum_block(const uint8_t *bytes)
{
    uint64_t h[LANES] = {1, 2, 3, 4};
    for (uint64_t at = 0; at < BLOCK_BYTES; at += LANES * 16u) {
        for (uint32_t k = 0; k < LANES; k++) {
            uint64_t words[2];
            memcpy(words, bytes + at + k * 16u, sizeof words);
            const u128 p = (u128)(words[0] ^ UINT64_C(0xe7037ed1a0b428db)) * (words[1] ^ h[k]);
            h[k] = (uint64_t)p ^ (uint64_t)(p >> 64);
        }
    }
    return st_hash64(h, sizeof h, BLOCK_BYTES);
}

static void sum_blocks(void *self, int64_t begin, int64_t end)
{
    const blocks *b = self;
    for (int64_t i = begin; i < end; i++) {
        const uint64_t at = (uint64_t)i * BLOCK_BYTES;
        const uint64_t left = b->size - at;
        b->sums[i] =
            left < BLOCK_BYTES ? st_hash64(b->bytes + at, left, at) : sum_block(b->bytes + at);
    }
}

/* Checksum of a payload: the hash of the hashes of its blocks, which threads compute in parallel.
 * 0: out of memory. */
static bool sum_of(st_mem *mem, const void *bytes, uint64_t size, int32_t threads, uint8_t out[16])
{
    const uint64_t n = size / BLOCK_BYTES + 1u;
    uint64_t few[16];
    uint64_t *sums = n <= 16 ? few : st_calloc(mem, n, sizeof *sums);
    ST_NEED(sums != NULL);
    blocks b = {.bytes = bytes, .size = size, .sums = sums};
    if (n <= 2 || threads <= 1) {
        sum_blocks(&b, 0, (int64_t)n);
    } else {
        st_parallel_for(threads, (int64_t)n, 1, sum_blocks, &b);
    }
    st_hash128(sums, n * sizeof *sums, out);
    if (sums != few) {
        st_free(mem, sums);
    }
    return true;
}

static uint64_t padded(uint64_t n)
{
    return (n + ST_CACHE_ALIGN - 1u) / ST_CACHE_ALIGN * ST_CACHE_ALIGN;
}

/* The checksum of an entry: of the rest of its head and of the sums of its key and its payload. */
static bool sum_entry(st_mem *mem, const st_cache_head *h, const char *key, const void *payload,
                      int32_t threads, uint8_t out[16])
{
    struct {
        st_cache_head rest;
        uint8_t key[16];
        uint8_t payload[16];
    } all;
    memset(&all, 0, sizeof all);
    all.rest = *h;
    memset(all.rest.checksum, 0, sizeof all.rest.checksum);
    st_hash128(key, h->key_bytes, all.key);
    ST_NEED(sum_of(mem, payload, h->payload_bytes, threads, all.payload));
    st_hash128(&all, sizeof all, out);
    return true;
}

bool st_cache_head_of(const st_cache_store *store, uint32_t kind, const char *key,
                      uint64_t size_bytes, st_cache_head *out)
{
    *out = (st_cache_head){
        .kind = kind, .format = FORMAT, .key_bytes = strlen(key) + 1u, .payload_bytes = size_bytes};
    memcpy(out->magic, magic, sizeof magic);
    if (out->key_bytes > KEY_BYTES_MAX || size_bytes > store->cap_bytes / 2u) {
        return false;
    }
    out->size_bytes = st_cache_payload_at(out) + size_bytes;
    return true;
}

bool st_cache_seal(const st_cache_store *store, st_cache_head *h, const char *key,
                   const void *payload)
{
    uint8_t sum[16];
    const bool is_ok = sum_entry(store->mem, h, key, payload, store->threads, sum);
    memcpy(h->checksum, sum, sizeof sum);
    return is_ok;
}

uint64_t st_cache_payload_at(const st_cache_head *h)
{
    return sizeof *h + padded(h->key_bytes);
}

static bool is_zero(const void *bytes, uint64_t n)
{
    static const char zeros[ST_CACHE_ALIGN] = {0};
    return n <= sizeof zeros && memcmp(bytes, zeros, (size_t)n) == 0;
}

bool st_cache_parse(const void *bytes, uint64_t n, uint32_t kind, int32_t threads,
                    st_cache_bytes *out)
{
    st_cache_head h;
    uint8_t sum[16];
    st_mem mem;
    *out = (st_cache_bytes){.file = NULL};
    ST_NEED(n >= sizeof h);
    memcpy(&h, bytes, sizeof h);
    ST_NEED(memcmp(h.magic, magic, sizeof magic) == 0 && h.format == FORMAT && h.kind == kind &&
            h.size_bytes == n && h.key_bytes != 0 && h.key_bytes <= KEY_BYTES_MAX &&
            h.reserved == 0 && padded(h.key_bytes) <= n - sizeof h &&
            h.payload_bytes == n - sizeof h - padded(h.key_bytes));
    const char *key = (const char *)bytes + sizeof h;
    const uint8_t *payload = (const uint8_t *)key + padded(h.key_bytes);
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    ST_NEED(memchr(key, 0, h.key_bytes) == key + h.key_bytes - 1u &&
            is_zero(key + h.key_bytes, padded(h.key_bytes) - h.key_bytes) &&
            sum_entry(&mem, &h, key, payload, threads, sum) &&
            memcmp(sum, h.checksum, sizeof sum) == 0);
    out->key = key;
    out->payload = payload;
    out->size_bytes = h.payload_bytes;
    return true;
}

/* ---- the folder ---- */

static void refuse(st_cache_store *store, const char *what, const char *path, int number)
{
    char text[96] = "";
    (void)snprintf(store->reason, sizeof store->reason, "%s%s%.120s%s%s", what,
                   path[0] != '\0' ? " " : "", path, number != 0 ? ": " : "",
                   number != 0 ? strerror_r(number, text, sizeof text) : "");
}

/* number: why the folder could not be made, 0: it was not tried. */
static void open_folder(st_cache_store *store, int number)
{
    struct stat st;
    const int fd = open(store->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        refuse(store, "there is no folder", store->folder, number != 0 ? number : errno);
        return;
    }
    if (fstat(fd, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        refuse(store, "owner or mode (0700 is wanted) cannot be trusted:", store->folder, 0);
        (void)close(fd);
        return;
    }
    store->fd = fd;
}

void st_cache_store_make(st_cache_store *store)
{
    if (store->fd < 0 && store->reason[0] == '\0') {
        open_folder(store, st_make_folders(store->folder) ? 0 : errno);
    }
}

void st_cache_store_open(st_cache_store *store, st_mem *mem, const char *root, uint64_t cap_bytes,
                         int32_t threads)
{
    st_str path;
    memset(store, 0, sizeof *store);
    store->mem = mem;
    store->fd = -1;
    store->threads = threads;
    store->cap_bytes = cap_bytes;
    if (root == NULL) {
        refuse(
            store,
            "no folder is known: none of STATOR_CACHE_DIR, XDG_CACHE_HOME and HOME is an absolute "
            "path",
            "", 0);
        return;
    }
    st_str_init(&path, mem);
    st_str_addf(&path, "%s/programs", root);
    store->folder = st_str_take(&path, NULL);
    if (store->folder == NULL) {
        refuse(store, "out of memory", "", 0);
        return;
    }
    struct stat st;
    if (lstat(store->folder, &st) == 0 || errno != ENOENT) {
        open_folder(store, 0);
    } else if (!st_may_make(store->folder)) {
        refuse(store, "there is no folder", store->folder, errno);
    }
}

void st_cache_store_close(st_cache_store *store)
{
    if (store->fd >= 0) {
        (void)close(store->fd);
    }
    store->fd = -1;
    st_free(store->mem, store->folder);
    store->folder = NULL;
}

/* ---- names ---- */

void st_cache_name(const void *key, uint64_t n, char out[ST_CACHE_NAME_BYTES])
{
    uint8_t hash[16];
    st_hash128(key, n, hash);
    for (uint32_t i = 0; i < 16; i++) {
        (void)snprintf(out + 2u * i, 3, "%02x", hash[i]);
    }
}

void st_cache_file_name(uint32_t kind, const char *name, char out[64])
{
    (void)snprintf(out, 64, "%.32s.%s", name, endings[kind]);
}

/* Kind of a file of the folder and its name without the ending; ST_CACHE_KINDS: not an entry. */
static uint32_t kind_of(const char *file, char out_name[ST_CACHE_NAME_BYTES])
{
    if (strspn(file, "0123456789abcdef") != 32u || file[32] != '.') {
        return ST_CACHE_KINDS;
    }
    memcpy(out_name, file, 32);
    out_name[32] = '\0';
    uint32_t kind = 0;
    while (kind < ST_CACHE_KINDS && strcmp(file + 33, endings[kind]) != 0) {
        kind++;
    }
    return kind;
}

void st_cache_remove(st_cache_store *store, uint32_t kind, const char *name)
{
    char file[64];
    st_cache_file_name(kind, name, file);
    if (store->fd >= 0) {
        (void)unlinkat(store->fd, file, 0);
    }
}

/* ---- reading ---- */

/* Only a regular file of our own is believed; -1 otherwise. */
static st_fd open_entry(st_cache_store *store, uint32_t kind, const char *name, uint64_t *out_size)
{
    char file[64];
    struct stat st;
    if (store->fd < 0) {
        return -1;
    }
    st_cache_file_name(kind, name, file);
    const int fd = openat(store->fd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & 022) != 0 || st.st_size <= 0) {
        (void)close(fd);
        return -1;
    }
    *out_size = (uint64_t)st.st_size;
    return fd;
}

static bool read_all(int fd, void *to, uint64_t n)
{
    char *at = to;
    while (n > 0) {
        const ssize_t got = read(fd, at, (size_t)n);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        ST_NEED(got > 0);
        at += got;
        n -= (uint64_t)got;
    }
    return true;
}

/* An entry that does not check. */
static void drop_damaged(st_cache_store *store, uint32_t kind, const char *name)
{
    char file[64];
    st_cache_remove(store, kind, name);
    st_cache_file_name(kind, name, file);
    if (store->on_damage != NULL) {
        store->on_damage(store->on_damage_self, file);
    }
}

static void make_young(int fd)
{
    (void)futimens(fd, NULL);
}

bool st_cache_read(st_cache_store *store, uint32_t kind, const char *name, const char *key,
                   st_cache_bytes *out)
{
    uint64_t n = 0;
    const uint64_t refused = atomic_load(&store->mem->refused);
    *out = (st_cache_bytes){.file = NULL};
    const int fd = open_entry(store, kind, name, &n);
    ST_NEED(fd >= 0);
    void *bytes = n <= store->cap_bytes ? st_alloc(store->mem, n, ST_CACHE_ALIGN) : NULL;
    const bool is_read = bytes != NULL && read_all(fd, bytes, n);
    const bool is_sound = is_read && st_cache_parse(bytes, n, kind, store->threads, out);
    const bool is_damaged = is_read && !is_sound && atomic_load(&store->mem->refused) == refused;
    if (is_damaged) {
        drop_damaged(store, kind, name);
    }
    if (!is_sound || (key != NULL && strcmp(out->key, key) != 0)) {
        st_free(store->mem, bytes);
        (void)close(fd);
        *out = (st_cache_bytes){.is_damaged = is_damaged};
        return false;
    }
    if (key != NULL) {
        make_young(fd);
    }
    (void)close(fd);
    out->file = bytes;
    return true;
}

bool st_cache_read_key(st_cache_store *store, uint32_t kind, const char *name, st_str *out_key)
{
    st_cache_head h;
    uint64_t n = 0;
    const int fd = open_entry(store, kind, name, &n);
    ST_NEED(fd >= 0);
    bool is_ok = n > sizeof h && read_all(fd, &h, sizeof h) &&
                 memcmp(h.magic, magic, sizeof magic) == 0 && h.format == FORMAT &&
                 h.kind == kind && h.size_bytes == n && h.key_bytes != 0 &&
                 h.key_bytes <= KEY_BYTES_MAX && h.key_bytes <= n - sizeof h;
    char *key = is_ok ? st_alloc(store->mem, h.key_bytes, 16) : NULL;
    is_ok = key != NULL && read_all(fd, key, h.key_bytes) && key[h.key_bytes - 1u] == '\0';
    if (is_ok) {
        st_str_add(out_key, key);
    }
    st_free(store->mem, key);
    (void)close(fd);
    return is_ok && st_str_ok(out_key);
}

stator_blob *st_cache_map(st_cache_store *store, const char *name, const char *key,
                          uint64_t size_bytes)
{
    char file_at[64];
    st_str path;
    st_file *file = NULL;
    stator_blob *blob = NULL;
    st_cache_bytes parts;
    const void *data = NULL;
    uint64_t n = 0;
    const int fd = open_entry(store, ST_CACHE_DATA, name, &n);
    if (fd < 0) {
        return NULL;
    }
    st_cache_file_name(ST_CACHE_DATA, name, file_at);
    st_str_init(&path, store->mem);
    st_str_addf(&path, "%s/%s", store->folder, file_at);
    if (st_str_ok(&path) && st_file_open(store->mem, path.data, &file, NULL) == STATOR_OK) {
        const uint8_t *bytes = st_file_data(file);
        if (bytes == NULL ||
            !st_cache_parse(bytes, st_file_size(file), ST_CACHE_DATA, store->threads, &parts)) {
            drop_damaged(store, ST_CACHE_DATA, name);
        } else if (strcmp(parts.key, key) == 0 && parts.size_bytes == size_bytes &&
                   st_blob_from_file(store->mem, file, (uint64_t)(parts.payload - bytes),
                                     size_bytes, 0, &blob, NULL) != STATOR_OK) {
            blob = NULL;
        }
        st_file_release(file);
    }
    if (blob != NULL && st_blob_get(blob, &data, NULL) == STATOR_OK) {
        make_young(fd);
    } else { /* not there, or touched by somebody between the two looks at it */
        st_blob_release(blob);
        blob = NULL;
    }
    st_str_deinit(&path);
    (void)close(fd);
    return blob;
}

/* ---- looking through ---- */

typedef struct found {
    char name[ST_CACHE_NAME_BYTES];
    uint32_t kind;
    uint64_t size_bytes;
    int64_t used_s;
    int64_t used_ns;
} found;

typedef struct listing {
    st_cache_store *store;
    st_vec(found) all;
    uint64_t total_bytes;
} listing;

static int newest_first(const void *a_, const void *b_)
{
    const found *a = a_;
    const found *b = b_;
    if (a->used_s != b->used_s) {
        return a->used_s < b->used_s ? 1 : -1;
    }
    return a->used_ns < b->used_ns ? 1 : a->used_ns > b->used_ns ? -1 : strcmp(a->name, b->name);
}

/* One file of the folder; what a killed writer left is removed here. 0: out of memory. */
static bool note_file(listing *l, const char *file)
{
    struct stat st;
    found f = {.kind = kind_of(file, f.name)};
    const bool is_temporary = strncmp(file, ".tmp-", 5) == 0;
    if ((f.kind == ST_CACHE_KINDS && !is_temporary) ||
        fstatat(l->store->fd, file, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return true;
    }
    if (is_temporary) {
        if (time(NULL) - st.st_mtim.tv_sec > STALE_S) {
            (void)unlinkat(l->store->fd, file, 0);
        }
        return true;
    }
    f.size_bytes = (uint64_t)st.st_size;
    f.used_s = (int64_t)st.st_mtim.tv_sec;
    f.used_ns = (int64_t)st.st_mtim.tv_nsec;
    found *at = st_vec_push(l->store->mem, &l->all);
    if (at != NULL) {
        *at = f;
        l->total_bytes += f.size_bytes;
    }
    return at != NULL;
}

static bool list_all(st_cache_store *store, listing *l)
{
    *l = (listing){.store = store};
    const int fd = store->fd >= 0 ? openat(store->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return true;
    }
    bool is_ok = true;
    for (const struct dirent *e = readdir(dir); e != NULL && is_ok; e = readdir(dir)) {
        is_ok = note_file(l, e->d_name);
    }
    (void)closedir(dir);
    if (l->all.count > 1) {
        qsort(l->all.data, l->all.count, sizeof *l->all.data, newest_first);
    }
    return is_ok;
}

bool st_cache_each(st_cache_store *store, bool (*fn)(void *self, const st_cache_entry *entry),
                   void *self)
{
    listing l;
    const bool is_ok = list_all(store, &l);
    for (uint32_t i = 0; is_ok && i < l.all.count; i++) {
        const found *f = &l.all.data[i];
        const st_cache_entry entry = {
            .name = f->name, .kind = f->kind, .size_bytes = f->size_bytes, .used_s = f->used_s};
        if (!fn(self, &entry)) {
            break;
        }
    }
    st_vec_free(store->mem, &l.all);
    return is_ok;
}

void st_cache_evict(st_cache_store *store)
{
    static const uint32_t order[ST_CACHE_KINDS] = {ST_CACHE_DATA, ST_CACHE_CODE, ST_CACHE_SUMS};
    listing l;
    if (!list_all(store, &l)) {
        st_vec_free(store->mem, &l.all);
        return;
    }
    for (uint32_t k = 0; k < ST_CACHE_KINDS; k++) {
        for (uint32_t i = l.all.count; i > 0 && l.total_bytes > store->cap_bytes; i--) {
            const found *f = &l.all.data[i - 1u];
            if (f->kind == order[k]) {
                st_cache_remove(store, f->kind, f->name);
                l.total_bytes -= f->size_bytes;
            }
        }
    }
    st_vec_free(store->mem, &l.all);
}
