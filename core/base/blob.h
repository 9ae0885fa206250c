/* Immutable bytes of constants: in memory, or a range of a file mapped at first read. Counted by
 * reference; thread-safe. data is always aligned to 16 bytes: a misaligned range is copied once, at
 * first use, and charged to the account. A mapped file whose size or mtime changed since it was
 * opened is refused (FAILED_PRECONDITION); one cut while a call runs may still raise SIGBUS. */
#ifndef STATOR_BASE_BLOB_H
#define STATOR_BASE_BLOB_H

#include "core/base/alloc.h"
#include "core/base/diag.h"
#include <stator/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct st_file st_file; /* an open regular file, shared by its blobs */

stator_status st_file_open(st_mem *mem, const char *path, st_file **out_file, stator_diag **err);
void st_file_retain(st_file *file);
void st_file_release(st_file *file);
uint64_t st_file_size(const st_file *file);
const char *st_file_path(const st_file *file);
/* FAILED_PRECONDITION when size or mtime changed. */
stator_status st_file_check(const st_file *file, stator_diag **err);
/* The same of its bytes alone: another file may stand under the name, for the mapping keeps the old
 * one, unless that was cut. */
stator_status st_file_check_bytes(const st_file *file, stator_diag **err);
/* Identity of a file when it was opened: equal stamps mean equal bytes, unless the file was changed
 * in the clock tick in which it was looked at. */
typedef struct st_file_stamp {
    uint64_t device, inode, size;
    int64_t mtime_s, mtime_ns, ctime_s, ctime_ns;
} st_file_stamp;
void st_file_stamp_of(const st_file *file, st_file_stamp *out);

stator_blob *st_blob_copy(st_mem *mem, const void *data, uint64_t size); /* NULL: out of memory */
/* An uninitialised blob to be filled before anyone else sees it. */
stator_blob *st_blob_alloc(st_mem *mem, uint64_t size, void **out_data);
stator_status st_blob_from_file(st_mem *mem, st_file *file, uint64_t offset, uint64_t size,
                                int copy, stator_blob **out_blob, stator_diag **err);
/* Known by hash only: parses, cannot be read (FAILED_PRECONDITION). */
stator_blob *st_blob_from_hash(st_mem *mem, const uint8_t hash[16], uint64_t size);
void st_blob_retain(stator_blob *blob);
void st_blob_release(stator_blob *blob);
uint64_t st_blob_size(const stator_blob *blob);
stator_status st_blob_get(stator_blob *blob, const void **out_data, stator_diag **err);
/* The bytes where they lie, at any alignment: never a copy. */
stator_status st_blob_peek(stator_blob *blob, const void **out_data, stator_diag **err);
/* Pages of a mapped range that only this has read are given back. */
stator_status st_blob_hash(stator_blob *blob, uint8_t out_hash[16], stator_diag **err);
/* 1 when the hash is known without reading the bytes. */
bool st_blob_has_hash(const stator_blob *blob);
/* The hash, as somebody remembers it; does nothing when it is known. */
void st_blob_set_hash(stator_blob *blob, const uint8_t hash[16]);
/* The file behind it and the range, or NULL. */
const st_file *st_blob_file(const stator_blob *blob, uint64_t *out_offset);
/* Pages of a mapped range are given back to the system; a later read brings them in again. */
void st_blob_will_not_read(stator_blob *blob);

#ifdef __cplusplus
}
#endif
#endif
