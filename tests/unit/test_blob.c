/* Constants: memory, file ranges (mapped, copied, misaligned), changed files, hashes only. */
#define _GNU_SOURCE
#include "core/base/blob.h"
#include "core/base/map.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES 20000u

static st_mem mem;
static char dir[64];
static char path[96];

static void write_file(const char *name, uint32_t size, int shift)
{
    FILE *f = fopen(name, "wb");
    cr_assert_not_null(f);
    for (uint32_t i = 0; i < size; i++) {
        fputc((int)((i * 31u + (uint32_t)shift) & 0xffu), f);
    }
    cr_assert_eq(fclose(f), 0);
}

static void begin(void)
{
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    strcpy(dir, "/tmp/stator-blob-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/data.bin", dir);
    write_file(path, FILE_BYTES, 0);
}

static void end(void)
{
    unlink(path);
    rmdir(dir);
    cr_assert_eq(mem.live_blocks, 0);
    cr_assert_eq(mem.live_bytes, 0);
}

TestSuite(blob, .init = begin, .fini = end);

static st_file *open_file(void)
{
    st_file *file = NULL;
    stator_diag *err = NULL;
    cr_assert_eq(st_file_open(&mem, path, &file, &err), STATOR_OK, "%s", st_diag_text(err));
    return file;
}

static void holds(stator_blob *blob, uint32_t offset, uint32_t size)
{
    const void *data = NULL;
    stator_diag *err = NULL;
    cr_assert_eq(st_blob_get(blob, &data, &err), STATOR_OK, "%s", st_diag_text(err));
    cr_assert_eq((uintptr_t)data % 16, 0);
    cr_assert_eq(st_blob_size(blob), size);
    for (uint32_t i = 0; i < size; i++) {
        cr_assert_eq(((const uint8_t *)data)[i], ((offset + i) * 31u) & 0xffu, "byte %u", i);
    }
}

Test(blob, bytes_in_memory)
{
    uint8_t bytes[100];
    uint8_t hash[16];
    uint8_t expected[16];
    const void *data = NULL;
    void *to = NULL;
    for (uint32_t i = 0; i < 100; i++) {
        bytes[i] = (uint8_t)i;
    }
    stator_blob *a = st_blob_copy(&mem, bytes, 100);
    stator_blob *b = st_blob_alloc(&mem, 100, &to);
    stator_blob *none = st_blob_copy(&mem, NULL, 0);
    memcpy(to, bytes, 100);
    bytes[0] = 99; /* a has its own bytes */
    cr_assert_eq(st_blob_get(a, &data, NULL), STATOR_OK);
    cr_assert(memcmp(data, to, 100) == 0 && (uintptr_t)data % 16 == 0);
    st_hash128(to, 100, expected);
    cr_assert_eq(st_blob_hash(a, hash, NULL), STATOR_OK);
    cr_assert_arr_eq(hash, expected, 16);
    cr_assert_eq(st_blob_hash(b, hash, NULL), STATOR_OK);
    cr_assert_arr_eq(hash, expected, 16);
    cr_assert(st_blob_get(none, &data, NULL) == STATOR_OK && data != NULL);
    cr_assert_null(st_blob_file(a, NULL));
    st_blob_will_not_read(a);
    st_blob_retain(a);
    st_blob_release(a);
    cr_assert_eq(st_blob_size(a), 100);
    st_blob_release(a);
    st_blob_release(b);
    st_blob_release(none);
    st_blob_release(NULL);
}

Test(blob, ranges_of_a_file)
{
    st_file *file = open_file();
    static const uint32_t offsets[] = {0, 16, 4096, 1, 4097, 19000};
    cr_assert_eq(st_file_size(file), FILE_BYTES);
    cr_assert_str_eq(st_file_path(file), path);
    for (uint32_t i = 0; i < 6; i++) {
        for (int copy = 0; copy < 2; copy++) {
            stator_blob *blob = NULL;
            uint64_t offset = 0;
            uint8_t hash[16];
            uint8_t expected[16];
            stator_diag *err = NULL;
            const uint64_t before = mem.live_bytes;
            cr_assert_eq(st_blob_from_file(&mem, file, offsets[i], 1000, copy, &blob, &err),
                         STATOR_OK);
            cr_assert_eq(st_blob_file(blob, &offset) == file, !copy);
            cr_assert_eq(st_blob_hash(blob, hash, &err), STATOR_OK); /* before the first read */
            cr_assert(copy || mem.live_bytes - before < 500, "reading was not asked for");
            holds(blob, offsets[i], 1000);
            const int is_charged = mem.live_bytes - before >= 1000;
            cr_assert_eq(is_charged, copy || offsets[i] % 16 != 0);
            st_blob_will_not_read(blob);
            holds(blob, offsets[i], 1000);
            const void *data = NULL;
            st_blob_get(blob, &data, NULL);
            st_hash128(data, 1000, expected);
            cr_assert_arr_eq(hash, expected, 16);
            st_blob_release(blob);
        }
    }
    st_file_release(file);
}

/* Unaligned bytes are seen where they lie, without memory; a read copies them. */
Test(blob, unaligned_view_copies_nothing)
{
    st_file *file = open_file();
    stator_blob *blob = NULL;
    const void *seen = NULL;
    const void *read = NULL;
    cr_assert_eq(st_blob_from_file(&mem, file, 4097, 900, 0, &blob, NULL), STATOR_OK);
    const uint64_t before = atomic_load(&mem.live_bytes);
    cr_assert_eq(st_blob_peek(blob, &seen, NULL), STATOR_OK);
    cr_assert_eq((uintptr_t)seen % 16, 1);
    cr_assert_eq(atomic_load(&mem.live_bytes), before);
    st_blob_will_not_read(blob);
    cr_assert_eq(((const uint8_t *)seen)[0], (4097u * 31u) & 0xffu);
    cr_assert_eq(st_blob_get(blob, &read, NULL), STATOR_OK);
    cr_assert_eq(atomic_load(&mem.live_bytes), before + 900);
    cr_assert_arr_eq(read, seen, 900);
    cr_assert_eq(st_blob_peek(blob, &seen, NULL), STATOR_OK);
    cr_assert_eq(seen, read);
    st_blob_release(blob);
    st_file_release(file);
}

Test(blob, blobs_keep_their_file)
{
    st_file *file = open_file();
    stator_blob *blob = NULL;
    cr_assert_eq(st_blob_from_file(&mem, file, 32, 64, 0, &blob, NULL), STATOR_OK);
    st_file_release(file);
    unlink(path); /* deleted: the mapping is still whole */
    holds(blob, 32, 64);
    st_blob_release(blob);
}

Test(blob, ranges_outside_are_refused)
{
    st_file *file = open_file();
    stator_blob *blob = NULL;
    stator_diag *err = NULL;
    cr_assert_eq(st_blob_from_file(&mem, file, 19999, 2, 0, &blob, &err), STATOR_OUT_OF_RANGE);
    cr_assert(strstr(st_diag_text(err), "data.bin") != NULL && blob == NULL);
    st_diag_release(err);
    cr_assert_eq(st_blob_from_file(&mem, file, UINT64_MAX, 2, 0, &blob, NULL), STATOR_OUT_OF_RANGE);
    cr_assert_eq(st_blob_from_file(&mem, file, 2, UINT64_MAX, 1, &blob, NULL), STATOR_OUT_OF_RANGE);
    cr_assert_eq(st_blob_from_file(&mem, file, FILE_BYTES, 0, 0, &blob, NULL), STATOR_OK);
    st_blob_release(blob);
    st_file_release(file);
}

static void refused_after_change(st_file *file, stator_blob *blob)
{
    stator_diag *err = NULL;
    const void *data = NULL;
    cr_assert_eq(st_file_check(file, &err), STATOR_FAILED_PRECONDITION);
    cr_assert(strstr(st_diag_text(err), "changed") != NULL);
    st_diag_release(err);
    cr_assert_eq(st_blob_get(blob, &data, NULL), STATOR_FAILED_PRECONDITION);
    cr_assert_null(data);
}

Test(blob, changed_files_are_refused)
{
    st_file *file = open_file();
    stator_blob *blob = NULL;
    cr_assert_eq(st_blob_from_file(&mem, file, 0, 64, 0, &blob, NULL), STATOR_OK);
    cr_assert_eq(st_file_check(file, NULL), STATOR_OK);
    cr_assert_eq(truncate(path, FILE_BYTES + 1), 0); /* another size */
    refused_after_change(file, blob);
    st_blob_release(blob);
    st_file_release(file);

    file = open_file();
    cr_assert_eq(st_blob_from_file(&mem, file, 0, 64, 0, &blob, NULL), STATOR_OK);
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000, .tv_nsec = 5}};
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0); /* another mtime */
    refused_after_change(file, blob);
    st_blob_release(blob);
    st_file_release(file);

    file = open_file();
    cr_assert_eq(st_blob_from_file(&mem, file, 0, 64, 0, &blob, NULL), STATOR_OK);
    char other[96];
    snprintf(other, sizeof other, "%s/other", dir);
    write_file(other, FILE_BYTES + 1, 1);
    const struct timespec same[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000, .tv_nsec = 5}};
    cr_assert_eq(utimensat(AT_FDCWD, other, same, 0), 0);
    cr_assert_eq(rename(other, path), 0); /* another file, same size and mtime */
    refused_after_change(file, blob);
    st_blob_release(blob);
    st_file_release(file);
}

Test(blob, only_regular_files_open)
{
    st_file *file = NULL;
    stator_diag *err = NULL;
    cr_assert_eq(st_file_open(&mem, dir, &file, &err), STATOR_INVALID_ARGUMENT);
    cr_assert(strstr(st_diag_text(err), "folder") != NULL && file == NULL);
    st_diag_release(err);
    err = NULL;
    char other[96];
    snprintf(other, sizeof other, "%s/none", dir);
    cr_assert_eq(st_file_open(&mem, other, &file, &err), STATOR_NOT_FOUND);
    cr_assert(strstr(st_diag_text(err), "none") != NULL);
    st_diag_release(err);
    cr_assert_eq(mkfifo(other, 0600), 0); /* must not wait for a writer */
    cr_assert_eq(st_file_open(&mem, other, &file, NULL), STATOR_INVALID_ARGUMENT);
    unlink(other);
    cr_assert_eq(st_file_open(&mem, "/dev/null", &file, NULL), STATOR_INVALID_ARGUMENT);
    write_file(other, 0, 0);
    cr_assert_eq(st_file_open(&mem, other, &file, NULL), STATOR_OK); /* empty is fine */
    cr_assert_eq(st_file_size(file), 0);
    st_file_release(file);
    st_file_release(NULL);
    unlink(other);
}

Test(blob, blob_of_a_hash_alone_has_no_data)
{
    uint8_t hash[16];
    uint8_t out[16];
    const void *data = &mem;
    stator_diag *err = NULL;
    memset(hash, 0x5a, sizeof hash);
    stator_blob *blob = st_blob_from_hash(&mem, hash, 1000);
    cr_assert_eq(st_blob_size(blob), 1000);
    cr_assert_eq(st_blob_hash(blob, out, &err), STATOR_OK);
    cr_assert_arr_eq(out, hash, 16);
    cr_assert_eq(st_blob_get(blob, &data, &err), STATOR_FAILED_PRECONDITION);
    cr_assert_null(data);
    cr_assert(strstr(st_diag_text(err), "hash") != NULL);
    st_diag_release(err);
    st_blob_will_not_read(blob);
    st_blob_release(blob);
}

static stator_status use_all(void)
{
    st_file *file = NULL;
    stator_blob *mapped = NULL;
    stator_blob *copied = NULL;
    const void *data = NULL;
    stator_status status = st_file_open(&mem, path, &file, NULL);
    if (status == STATOR_OK) {
        status = st_blob_from_file(&mem, file, 3, 100, 0, &mapped, NULL);
    }
    if (status == STATOR_OK) {
        status = st_blob_from_file(&mem, file, 3, 100, 1, &copied, NULL);
    }
    if (status == STATOR_OK) {
        status = st_blob_get(mapped, &data, NULL);
    }
    if (status == STATOR_RESOURCE_EXHAUSTED && mapped != NULL && copied != NULL) {
        mem.fail_at = 0; /* a read that failed for memory can be asked again */
        holds(mapped, 3, 100);
    }
    st_blob_release(mapped);
    st_blob_release(copied);
    st_file_release(file);
    return status;
}

Test(blob, every_allocation_may_fail)
{
    for (uint64_t n = 1;; n++) {
        st_mem_init(&mem, NULL, NULL, NULL, 0);
        mem.fail_at = n;
        const stator_status status = use_all();
        cr_assert_eq(mem.live_blocks, 0);
        if (status == STATOR_OK) {
            cr_assert_gt(n, 4);
            break;
        }
        cr_assert_eq(status, STATOR_RESOURCE_EXHAUSTED);
    }
}
