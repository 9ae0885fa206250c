/* Content hashes of constants, remembered by file.
 *
 * A model's weights are hashed once, by all threads. The hashes are kept under what the file was
 * when it was opened (device, inode, size, times); a file that was changed less than
 * STAMP_AGE_S_MIN before it was opened is not remembered, because a change in the same tick
 * would not show in its times. */
#include "core/cache/cache.h"

#include "core/base/bytes.h"
#include "core/base/threads/threads.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define STAMP_AGE_S_MIN 2
#define WORTH_BYTES (UINT64_C(1) << 20) /* less is hashed faster than a file is opened */
#define ROW_BYTES 32u

typedef struct hashing {
    const st_module *module;
    _Atomic uint32_t failed;
} hashing;

/* The blobs of one file. */
typedef struct group {
    st_cache_store *store;
    const st_module *module;
    const st_file *file;
    char key[192];
    char name[ST_CACHE_NAME_BYTES];
    st_file_stamp stamp;
} group;

static void describe(group *g)
{
    const st_file_stamp *s = &g->stamp;
    st_file_stamp_of(g->file, &g->stamp);
    (void)snprintf(g->key, sizeof g->key,
                   "device %llx inode %llu size %llu mtime %lld.%09lld ctime "
                   "%lld.%09lld",
                   (unsigned long long)s->device, (unsigned long long)s->inode,
                   (unsigned long long)s->size, (long long)s->mtime_s, (long long)s->mtime_ns,
                   (long long)s->ctime_s, (long long)s->ctime_ns);
    st_cache_name(g->key, strlen(g->key), g->name);
}

static bool is_stamp_sure(const group *g)
{
    const int64_t newest =
        g->stamp.mtime_s > g->stamp.ctime_s ? g->stamp.mtime_s : g->stamp.ctime_s;
    return (int64_t)time(NULL) - newest > STAMP_AGE_S_MIN;
}

/* The next blob of the file from place *at on, NULL: there are no more. */
static stator_blob *next_of(const group *g, uint32_t *at, uint64_t *out_offset)
{
    while (++*at < g->module->blobs.count) {
        stator_blob *blob = st_module_blob_at(g->module, *at);
        if (st_blob_file(blob, out_offset) == g->file) {
            return blob;
        }
    }
    return NULL;
}

/* ---- what is remembered ---- */

/* A row that stands in another order than the module's constants. */
static void apply_row(const group *g, uint64_t offset, uint64_t size, const uint8_t hash[16])
{
    uint64_t at = 0;
    uint32_t place = 0;
    for (stator_blob *blob = next_of(g, &place, &at); blob != NULL;
         blob = next_of(g, &place, &at)) {
        if (at == offset && st_blob_size(blob) == size) {
            st_blob_set_hash(blob, hash);
        }
    }
}

static void recall(const group *g)
{
    st_cache_bytes entry;
    uint8_t hash[16];
    if (!is_stamp_sure(g) || !st_cache_read(g->store, ST_CACHE_SUMS, g->name, g->key, &entry)) {
        return;
    }
    st_reader r = st_reader_of(entry.payload, entry.size_bytes);
    const uint32_t n = st_read_count(&r, ROW_BYTES);
    uint32_t place = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = 0;
        const uint64_t offset = st_read_u64(&r);
        const uint64_t size = st_read_u64(&r);
        stator_blob *blob = next_of(g, &place, &at);
        st_read_bytes(&r, hash, sizeof hash);
        if (!r.failed && blob != NULL && at == offset && st_blob_size(blob) == size) {
            st_blob_set_hash(blob, hash);
        } else if (!r.failed) {
            apply_row(g, offset, size, hash);
        }
    }
    st_free(g->store->mem, entry.file);
}

static void remember(const group *g)
{
    st_str rows;
    uint64_t offset = 0;
    uint32_t n = 0;
    uint32_t place = 0;
    while (next_of(g, &place, &offset) != NULL) {
        n++;
    }
    place = 0;
    st_str_init(&rows, g->store->mem);
    st_put_u32(&rows, n);
    for (stator_blob *blob = next_of(g, &place, &offset); blob != NULL;
         blob = next_of(g, &place, &offset)) {
        uint8_t hash[16] = {0};
        (void)st_blob_hash(blob, hash, NULL); /* known */
        st_put_u64(&rows, offset);
        st_put_u64(&rows, st_blob_size(blob));
        st_str_addn(&rows, (const char *)hash, sizeof hash);
    }
    if (st_str_ok(&rows)) {
        (void)st_cache_write(g->store, ST_CACHE_SUMS, g->name, g->key, rows.data, rows.len);
    }
    st_str_deinit(&rows);
}

/* ---- hashing ---- */

static void hash_range(void *self, int64_t begin, int64_t end)
{
    hashing *h = self;
    uint8_t hash[16];
    for (int64_t i = begin; i < end; i++) {
        stator_blob *blob = st_module_blob_at(h->module, (uint32_t)i + 1u);
        if (st_blob_hash(blob, hash, NULL) != STATOR_OK) {
            atomic_store(&h->failed, 1u);
        }
    }
}

/* Is this the first blob of its file? */
static bool is_first(const st_module *module, uint32_t place, const st_file *file)
{
    for (uint32_t i = 1; i < place; i++) {
        if (st_blob_file(st_module_blob_at(module, i), NULL) == file) {
            return false;
        }
    }
    return true;
}

/* Calls fn for each file of more than a little. */
static void each_file(st_cache_store *store, const st_module *module, void (*fn)(const group *g))
{
    const st_file *last = NULL;
    for (uint32_t i = 1; store != NULL && i < module->blobs.count; i++) {
        const st_file *file = st_blob_file(st_module_blob_at(module, i), NULL);
        if (file != NULL && file != last && st_file_size(file) >= WORTH_BYTES &&
            is_first(module, i, file)) {
            group g = {.store = store, .module = module, .file = file};
            describe(&g);
            fn(&g);
        }
        last = file != NULL ? file : last;
    }
}

static void remember_if_sure(const group *g)
{
    if (is_stamp_sure(g)) {
        remember(g);
    }
}

bool st_cache_hash_constants(st_cache_store *store, const st_module *module)
{
    uint32_t unknown = 0;
    hashing h = {.module = module};
    each_file(store, module, recall);
    for (uint32_t i = 1; i < module->blobs.count; i++) {
        const stator_blob *blob = st_module_blob_at(module, i);
        unknown += st_blob_file(blob, NULL) != NULL && !st_blob_has_hash(blob);
    }
    atomic_init(&h.failed, 0);
    if (module->blobs.count > 1) {
        st_parallel_for(store->threads, (int64_t)module->blobs.count - 1, 1, hash_range, &h);
    }
    ST_NEED(!atomic_load(&h.failed));
    if (unknown != 0) {
        each_file(store, module, remember_if_sure);
    }
    return true;
}
