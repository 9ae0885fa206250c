/* An open regular file, mapped whole and read-only when it is opened (no page is read by that), and
 * closed again: a model may name thousands of ranges without holding a descriptor. What the file
 * was is remembered as (device, inode, size, mtime) and compared with what the path names later. */
#define _GNU_SOURCE
#include "core/base/blob_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct st_file {
    st_mem *mem;
    char *path;
    void *map; /* NULL for an empty file */
    uint64_t size;
    uint64_t device, inode;
    int64_t mtime_s, mtime_ns;
    int64_t ctime_s, ctime_ns;
    _Atomic uint32_t refs;
};

static stator_status fail_errno(stator_diag **err, const char *path, int number)
{
    const stator_status code = number == ENOENT || number == ENOTDIR ? STATOR_NOT_FOUND
                               : number == EACCES || number == EPERM ? STATOR_PERMISSION_DENIED
                               : number == ENOMEM || number == EMFILE || number == ENFILE
                                   ? STATOR_RESOURCE_EXHAUSTED
                                   : STATOR_UNAVAILABLE;
    char text[128];
    const char *reason = strerror_r(number, text, sizeof text);
    return st_fail(err, code, "cannot read '%s': %s", path, reason);
}

static void remember(st_file *file, const struct stat *st)
{
    file->size = (uint64_t)st->st_size;
    file->device = (uint64_t)st->st_dev;
    file->inode = (uint64_t)st->st_ino;
    file->mtime_s = (int64_t)st->st_mtim.tv_sec;
    file->mtime_ns = (int64_t)st->st_mtim.tv_nsec;
    file->ctime_s = (int64_t)st->st_ctim.tv_sec;
    file->ctime_ns = (int64_t)st->st_ctim.tv_nsec;
}

void st_file_stamp_of(const st_file *file, st_file_stamp *out)
{
    *out = (st_file_stamp){.device = file->device,
                           .inode = file->inode,
                           .size = file->size,
                           .mtime_s = file->mtime_s,
                           .mtime_ns = file->mtime_ns,
                           .ctime_s = file->ctime_s,
                           .ctime_ns = file->ctime_ns};
}

/* Looks at the open descriptor and maps it. */
static stator_status map_file(st_file *file, int fd, stator_diag **err)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return fail_errno(err, file->path, errno);
    }
    ST_FAIL_IF(!S_ISREG(st.st_mode), err, STATOR_INVALID_ARGUMENT,
               "'%s' is %s, expected a regular file", file->path,
               S_ISDIR(st.st_mode) ? "a folder" : "a device, a pipe or a socket");
    remember(file, &st);
    if (file->size == 0) {
        return STATOR_OK;
    }
    void *map = mmap(NULL, (size_t)file->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
        return fail_errno(err, file->path, errno);
    }
    file->map = map;
    return STATOR_OK;
}

stator_status st_file_open(st_mem *mem, const char *path, st_file **out_file, stator_diag **err)
{
    *out_file = NULL;
    st_file *file = st_calloc(mem, 1, sizeof *file);
    char *copy = file != NULL ? st_strdup(mem, path) : NULL;
    if (copy == NULL) {
        st_free(mem, file);
        return st_fail_oom(err);
    }
    file->mem = mem;
    file->path = copy;
    atomic_init(&file->refs, 1);
    /* O_NONBLOCK: opening a FIFO must not wait for its writer. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    stator_status status = fd < 0 ? fail_errno(err, path, errno) : map_file(file, fd, err);
    if (fd >= 0) {
        close(fd);
    }
    if (status != STATOR_OK) {
        st_file_release(file);
        return status;
    }
    *out_file = file;
    return STATOR_OK;
}

void st_file_retain(st_file *file)
{
    atomic_fetch_add_explicit(&file->refs, 1, memory_order_relaxed);
}

void st_file_release(st_file *file)
{
    if (file != NULL && atomic_fetch_sub_explicit(&file->refs, 1, memory_order_acq_rel) == 1) {
        if (file->map != NULL) {
            munmap(file->map, (size_t)file->size);
        }
        st_free(file->mem, file->path);
        st_free(file->mem, file);
    }
}

uint64_t st_file_size(const st_file *file)
{
    return file->size;
}

const char *st_file_path(const st_file *file)
{
    return file->path;
}

const void *st_file_data(const st_file *file)
{
    return file->map;
}

static stator_status fail_changed(const st_file *file, uint64_t size, stator_diag **err)
{
    return st_fail(err, STATOR_FAILED_PRECONDITION,
                   "'%s' changed since it was loaded (it had %llu bytes, now %llu); load the model "
                   "again, or load it with the option copy",
                   file->path, (unsigned long long)file->size, (unsigned long long)size);
}

static bool is_same_file(const st_file *file, const struct stat *st)
{
    return (uint64_t)st->st_dev == file->device && (uint64_t)st->st_ino == file->inode;
}

static bool is_unchanged(const st_file *file, const struct stat *st)
{
    return (uint64_t)st->st_size == file->size && (int64_t)st->st_mtim.tv_sec == file->mtime_s &&
           (int64_t)st->st_mtim.tv_nsec == file->mtime_ns;
}

stator_status st_file_check(const st_file *file, stator_diag **err)
{
    struct stat st;
    if (stat(file->path, &st) != 0) {
        /* deleted: the mapping keeps the old bytes */
        return errno == ENOENT ? (stator_status)STATOR_OK : fail_errno(err, file->path, errno);
    }
    return is_same_file(file, &st) && is_unchanged(file, &st)
               ? (stator_status)STATOR_OK
               : fail_changed(file, (uint64_t)st.st_size, err);
}

/* Is the last page of the mapping there? A system call says EFAULT where a read would end the
 * process. */
static bool has_last_page(const st_file *file)
{
    int ends[2];
    if (file->size == 0 || pipe2(ends, O_CLOEXEC) != 0) {
        return true;
    }
    const bool is_there = write(ends[1], (const char *)file->map + file->size - 1u, 1) == 1;
    (void)close(ends[0]);
    (void)close(ends[1]);
    return is_there;
}

stator_status st_file_check_bytes(const st_file *file, stator_diag **err)
{
    struct stat st;
    const bool is_it = stat(file->path, &st) == 0 && is_same_file(file, &st);
    if (is_it ? is_unchanged(file, &st) : has_last_page(file)) {
        return STATOR_OK;
    }
    return fail_changed(file, is_it ? (uint64_t)st.st_size : 0, err);
}
