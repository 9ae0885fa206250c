/* Constants. Three kinds: bytes of our own (behind the struct, in one block), a range of a mapped
 * file, and a hash without bytes.
 *
 * `data` is set once and never changes while the blob lives; readers that find it NULL take the
 * lock and fill it (a mapped range whose place is not a multiple of 16 is copied then). */
#define _GNU_SOURCE
#include "core/base/blob_file.h"

#include "core/base/check.h"
#include "core/base/map.h"
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DATA_ALIGN 64u /* a cache line; the promise is 16 */

struct stator_blob {
    st_mem *mem;
    st_file *file; /* NULL: the bytes lie in memory */
    uint64_t offset;
    uint64_t size;
    const void *_Atomic data;
    void *copy; /* an aligned copy of a misaligned range */
    _Atomic uint32_t refs;
    _Atomic uint32_t has_hash;
    uint8_t hash[16];
    pthread_mutex_t lock; /* guards filling data and hash */
};

/* A blob with `extra` bytes behind it, at *out_extra. */
static stator_blob *create(st_mem *mem, uint64_t size, uint64_t extra, void **out_extra)
{
    const uint64_t head = (sizeof(stator_blob) + DATA_ALIGN - 1u) / DATA_ALIGN * DATA_ALIGN;
    uint64_t total = 0;
    stator_blob *blob = st_add_u64(head, extra, &total) ? st_alloc(mem, total, DATA_ALIGN) : NULL;
    if (blob == NULL) {
        return NULL;
    }
    memset(blob, 0, sizeof *blob);
    blob->mem = mem;
    blob->size = size;
    atomic_init(&blob->data, NULL);
    atomic_init(&blob->refs, 1);
    atomic_init(&blob->has_hash, 0);
    pthread_mutex_init(&blob->lock, NULL);
    *out_extra = (char *)blob + head;
    return blob;
}

stator_blob *st_blob_alloc(st_mem *mem, uint64_t size, void **out_data)
{
    stator_blob *blob = create(mem, size, size, out_data);
    if (blob == NULL) {
        *out_data = NULL;
        return NULL;
    }
    atomic_store_explicit(&blob->data, *out_data, memory_order_release);
    return blob;
}

stator_blob *st_blob_copy(st_mem *mem, const void *data, uint64_t size)
{
    void *to = NULL;
    stator_blob *blob = st_blob_alloc(mem, size, &to);
    if (blob != NULL && size != 0) {
        memcpy(to, data, (size_t)size);
    }
    return blob;
}

stator_blob *st_blob_from_hash(st_mem *mem, const uint8_t hash[16], uint64_t size)
{
    void *unused = NULL;
    stator_blob *blob = create(mem, size, 0, &unused);
    if (blob != NULL) {
        memcpy(blob->hash, hash, sizeof blob->hash);
        atomic_store_explicit(&blob->has_hash, 1, memory_order_release);
    }
    return blob;
}

stator_status st_blob_from_file(st_mem *mem, st_file *file, uint64_t offset, uint64_t size,
                                int copy, stator_blob **out_blob, stator_diag **err)
{
    *out_blob = NULL;
    uint64_t end = 0;
    ST_FAIL_IF(!st_add_u64(offset, size, &end) || end > st_file_size(file), err,
               STATOR_OUT_OF_RANGE, "bytes %llu to %llu + %llu are wanted of '%s', which has %llu",
               (unsigned long long)offset, (unsigned long long)offset, (unsigned long long)size,
               st_file_path(file), (unsigned long long)st_file_size(file));
    ST_TRY(st_file_check(file, err));
    if (copy || size == 0) {
        const char *from = st_file_data(file);
        *out_blob = st_blob_copy(mem, size != 0 ? from + offset : NULL, size);
        return *out_blob != NULL ? STATOR_OK : st_fail_oom(err);
    }
    void *unused = NULL;
    stator_blob *blob = create(mem, size, 0, &unused);
    ST_TRY_MEM(blob, err);
    st_file_retain(file);
    blob->file = file;
    blob->offset = offset;
    *out_blob = blob;
    return STATOR_OK;
}

void st_blob_retain(stator_blob *blob)
{
    if (blob != NULL) {
        atomic_fetch_add_explicit(&blob->refs, 1, memory_order_relaxed);
    }
}

void st_blob_release(stator_blob *blob)
{
    if (blob != NULL && atomic_fetch_sub_explicit(&blob->refs, 1, memory_order_acq_rel) == 1) {
        st_file_release(blob->file);
        st_free(blob->mem, blob->copy);
        pthread_mutex_destroy(&blob->lock);
        st_free(blob->mem, blob);
    }
}

uint64_t st_blob_size(const stator_blob *blob)
{
    return blob->size;
}

const st_file *st_blob_file(const stator_blob *blob, uint64_t *out_offset)
{
    if (out_offset != NULL) {
        *out_offset = blob->offset;
    }
    return blob->file;
}

/* The first read of a file range; under the lock. */
static stator_status fill(stator_blob *blob, stator_diag **err)
{
    ST_FAIL_IF(blob->file == NULL, err, STATOR_FAILED_PRECONDITION,
               "this constant of %llu bytes is known by its hash only: it can be printed "
               "but not read; write the graph to a file to keep its constants",
               (unsigned long long)blob->size);
    ST_TRY(st_file_check(blob->file, err));
    const char *from = (const char *)st_file_data(blob->file) + blob->offset;
    if ((uintptr_t)from % 16u != 0) {
        blob->copy = st_alloc(blob->mem, blob->size, DATA_ALIGN);
        ST_TRY_MEM(blob->copy, err);
        memcpy(blob->copy, from, (size_t)blob->size);
        from = blob->copy;
        st_blob_will_not_read(blob);
    }
    atomic_store_explicit(&blob->data, from, memory_order_release);
    return STATOR_OK;
}

stator_status st_blob_get(stator_blob *blob, const void **out_data, stator_diag **err)
{
    stator_status status = STATOR_OK;
    if (atomic_load_explicit(&blob->data, memory_order_acquire) == NULL) {
        pthread_mutex_lock(&blob->lock);
        if (atomic_load_explicit(&blob->data, memory_order_relaxed) == NULL) {
            status = fill(blob, err);
        }
        pthread_mutex_unlock(&blob->lock);
    }
    *out_data = atomic_load_explicit(&blob->data, memory_order_acquire);
    return status;
}

stator_status st_blob_peek(stator_blob *blob, const void **out_data, stator_diag **err)
{
    *out_data = atomic_load_explicit(&blob->data, memory_order_acquire);
    if (*out_data != NULL || blob->file == NULL) {
        return st_blob_get(blob, out_data, err);
    }
    ST_TRY(st_file_check(blob->file, err));
    *out_data = (const char *)st_file_data(blob->file) + blob->offset;
    return STATOR_OK;
}

stator_status st_blob_hash(stator_blob *blob, uint8_t out_hash[16], stator_diag **err)
{
    if (!atomic_load_explicit(&blob->has_hash, memory_order_acquire)) {
        const bool is_read = atomic_load_explicit(&blob->data, memory_order_acquire) != NULL;
        const void *data = NULL;
        uint8_t hash[16];
        ST_TRY(st_blob_peek(blob, &data, err));
        st_hash128(data, blob->size, hash);
        if (!is_read) {
            st_blob_will_not_read(blob);
        }
        pthread_mutex_lock(&blob->lock);
        if (!atomic_load_explicit(&blob->has_hash, memory_order_relaxed)) {
            memcpy(blob->hash, hash, sizeof hash);
            atomic_store_explicit(&blob->has_hash, 1, memory_order_release);
        }
        pthread_mutex_unlock(&blob->lock);
    }
    memcpy(out_hash, blob->hash, sizeof blob->hash);
    return STATOR_OK;
}

bool st_blob_has_hash(const stator_blob *blob)
{
    return atomic_load_explicit(&blob->has_hash, memory_order_acquire) != 0;
}

void st_blob_set_hash(stator_blob *blob, const uint8_t hash[16])
{
    pthread_mutex_lock(&blob->lock);
    if (!atomic_load_explicit(&blob->has_hash, memory_order_relaxed)) {
        memcpy(blob->hash, hash, sizeof blob->hash);
        atomic_store_explicit(&blob->has_hash, 1, memory_order_release);
    }
    pthread_mutex_unlock(&blob->lock);
}

void st_blob_will_not_read(stator_blob *blob)
{
    if (blob == NULL || blob->file == NULL) {
        return;
    }
    /* Whole pages inside the range go back; a later read brings them in again. */
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t first = (blob->offset + page - 1u) / page * page;
    const uint64_t end = (blob->offset + blob->size) / page * page;
    if (first < end) {
        madvise((char *)(uintptr_t)st_file_data(blob->file) + first, (size_t)(end - first),
                MADV_DONTNEED);
    }
}
