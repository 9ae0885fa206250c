/* Files that are written whole; see the header. */
#define _GNU_SOURCE
#include "core/base/files/out_file.h"
#include "core/base/fdio.h"
#include "core/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINKS_MAX 40u        /* Linux follows as many */
#define PART_NAME_BYTES 200u /* of the file's name, that a part's is made of; a name has 255 */
#define MODE_OF_NEW_FILES 0666u
#define MODE_BITS 07777u

static stator_status fail(const char *path, int32_t number, stator_diag **err)
{
    errno = number;
    return st_fail(err, STATOR_UNAVAILABLE, "cannot write '%s': %m", path);
}

/* ---- names ---- */

void st_out_token(char out[ST_TOKEN_BYTES])
{
    uint64_t bits = 0;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != (ssize_t)sizeof bits) {
        struct timespec now = {0, 0};
        (void)clock_gettime(CLOCK_REALTIME, &now);
        bits = ((uint64_t)now.tv_sec << 32) ^ (uint64_t)now.tv_nsec ^ (uint64_t)getpid() << 20;
    }
    (void)snprintf(out, ST_TOKEN_BYTES, "%016llx", (unsigned long long)bits);
}

const char *st_out_split(const char *place, char out[ST_PATH_BYTES])
{
    const char *slash = strrchr(place, '/');
    const size_t n = slash != NULL ? (size_t)(slash - place) + 1u : 0;
    (void)snprintf(out, ST_PATH_BYTES, "%.*s", (int)n, place);
    return place + n;
}

/* ---- the place ---- */

/* A name in the folder of this process's descriptors: its number; -1: it is none. */
static st_fd descriptor_of(const char *folder, const char *name)
{
    char own[64], real[PATH_MAX];
    char *end = NULL;
    (void)snprintf(own, sizeof own, "/proc/%ld/fd", (long)getpid());
    if (name[0] < '0' || name[0] > '9' || realpath(folder, real) == NULL ||
        strcmp(real, own) != 0) {
        return -1;
    }
    const long number = strtol(name, &end, 10);
    return *end == '\0' && number <= INT_MAX ? (st_fd)number : -1;
}

/* Replaces a place that is a symbolic link by what it leads to; 0, or errno. */
static int32_t follow(char place[ST_PATH_BYTES])
{
    char folder[ST_PATH_BYTES], target[ST_PATH_BYTES], next[2 * ST_PATH_BYTES];
    const ssize_t n = readlink(place, target, sizeof target - 1u);
    if (n < 0) {
        return errno;
    }
    target[n] = '\0';
    (void)st_out_split(place, folder);
    (void)snprintf(next, sizeof next, "%s%s", target[0] == '/' ? "" : folder, target);
    if (strlen(next) >= ST_PATH_BYTES) {
        return ENAMETOOLONG;
    }
    (void)snprintf(place, ST_PATH_BYTES, "%.*s", (int)ST_PATH_BYTES - 1, next);
    return 0;
}

typedef struct found {
    st_fd descriptor; /* of this process; -1: none */
    bool is_direct;   /* no file is to be put in its place */
} found;

/* Finds out->place and what is there; 0, or errno. */
static int32_t find_place(st_out_file *out, found *what)
{
    struct stat there;
    char folder[ST_PATH_BYTES];
    *what = (found){.descriptor = -1};
    if (out->path[0] == '\0' || strlen(out->path) >= sizeof out->place) {
        return out->path[0] == '\0' ? ENOENT : ENAMETOOLONG;
    }
    (void)snprintf(out->place, sizeof out->place, "%s", out->path);
    for (uint32_t links = 0; links < LINKS_MAX; links++) {
        const char *name = st_out_split(out->place, folder);
        what->descriptor = descriptor_of(folder[0] != '\0' ? folder : ".", name);
        if (what->descriptor >= 0) {
            what->is_direct = true;
            return 0;
        }
        if (lstat(out->place, &there) != 0) {
            return errno == ENOENT && name[0] != '\0' ? 0 : errno;
        }
        if (S_ISLNK(there.st_mode)) {
            const int32_t number = follow(out->place);
            if (number != 0) {
                return number;
            }
            continue;
        }
        what->is_direct = !S_ISREG(there.st_mode);
        out->mode = S_ISREG(there.st_mode) ? (uint32_t)there.st_mode & MODE_BITS : 0;
        return S_ISDIR(there.st_mode) ? EISDIR : 0;
    }
    return ELOOP;
}

/* Finds the place, and what is there: the descriptor's or the file's. */
static bool look(const char *path, st_out_file *out, found *what, struct stat *there)
{
    *out = (st_out_file){.path = path};
    ST_NEED(find_place(out, what) == 0);
    return what->descriptor >= 0 ? fstat(what->descriptor, there) == 0
                                 : stat(out->place, there) == 0;
}

/* Of two places where nothing is. */
static bool is_same_name(const char *a, const char *b)
{
    char folder_a[ST_PATH_BYTES], folder_b[ST_PATH_BYTES], real_a[PATH_MAX], real_b[PATH_MAX];
    const char *name_a = st_out_split(a, folder_a), *name_b = st_out_split(b, folder_b);
    const char *in_a = realpath(folder_a[0] != '\0' ? folder_a : ".", real_a);
    const char *in_b = realpath(folder_b[0] != '\0' ? folder_b : ".", real_b);
    return strcmp(name_a, name_b) == 0 &&
           strcmp(in_a != NULL ? in_a : folder_a, in_b != NULL ? in_b : folder_b) == 0;
}

bool st_out_is_same(const char *a, const char *b)
{
    st_out_file out_a, out_b;
    found what_a, what_b;
    struct stat there_a, there_b;
    const bool has_a = look(a, &out_a, &what_a, &there_a);
    const bool has_b = look(b, &out_b, &what_b, &there_b);
    if (what_a.descriptor >= 0 && what_a.descriptor == what_b.descriptor) {
        return true;
    }
    if (has_a && has_b) {
        return there_a.st_dev == there_b.st_dev && there_a.st_ino == there_b.st_ino &&
               !S_ISCHR(there_a.st_mode);
    }
    return !has_a && !has_b && out_a.place[0] != '\0' && is_same_name(out_a.place, out_b.place);
}

/* ---- opening ---- */

/* The file anew under that name, with the mode; the descriptor, or -1 and errno. */
static st_fd create(const char *name, uint32_t mode)
{
    const st_fd fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                          mode != 0 ? mode & 0777u : MODE_OF_NEW_FILES);
    if (fd >= 0 && mode != 0 && fchmod(fd, (mode_t)mode) != 0) {
        const int32_t number = errno;
        (void)close(fd);
        (void)unlink(name);
        errno = number;
        return -1;
    }
    return fd;
}

static st_fd open_part(st_out_file *out)
{
    char folder[ST_PATH_BYTES], token[ST_TOKEN_BYTES];
    const char *name = st_out_split(out->place, folder);
    st_out_token(token);
    const int n = snprintf(out->part, sizeof out->part, "%s%.*s.%s.part", folder,
                           (int)st_utf8_fit(name, PART_NAME_BYTES), name, token);
    if (n < 0 || (size_t)n >= sizeof out->part || strlen(name) > NAME_MAX) {
        out->part[0] = '\0';
        errno = ENAMETOOLONG;
        return -1;
    }
    return create(out->part, out->mode);
}

static stator_status open_stream(st_out_file *out, st_fd fd, stator_diag **err)
{
    out->file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (out->file != NULL) {
        return STATOR_OK;
    }
    const int32_t number = errno;
    if (fd >= 0) {
        (void)close(fd);
        st_out_remove(out);
    }
    return fail(out->path, number, err);
}

stator_status st_out_open(const char *path, st_out_file *out, stator_diag **err)
{
    found what;
    *out = (st_out_file){.path = path};
    const int32_t number = find_place(out, &what);
    ST_FAIL_BY_IF(fail, number != 0, path, number, err);
    if (!what.is_direct) {
        return open_stream(out, open_part(out), err);
    }
    return open_stream(out,
                       what.descriptor >= 0 ? fcntl(what.descriptor, F_DUPFD_CLOEXEC, 0)
                                            : open(out->place, O_WRONLY | O_CLOEXEC),
                       err);
}

stator_status st_out_open_new(const char *path, uint32_t mode, st_out_file *out, stator_diag **err)
{
    *out = (st_out_file){.path = path, .mode = mode};
    ST_FAIL_BY_IF(fail, strlen(path) >= sizeof out->place, path, ENAMETOOLONG, err);
    (void)snprintf(out->place, sizeof out->place, "%s", path);
    const st_fd fd = create(out->place, mode);
    if (fd >= 0) {
        memcpy(out->part, out->place, sizeof out->part);
    }
    return open_stream(out, fd, err);
}

/* ---- writing ---- */

stator_status st_out_write(st_out_file *out, const void *bytes, uint64_t n, stator_diag **err)
{
    const uint32_t held = st_file_limit_hold();
    if (n != 0 && out->number == 0 && fwrite(bytes, 1, (size_t)n, out->file) != n) {
        out->number = errno;
    }
    st_file_limit_release(held);
    return out->number == 0 ? STATOR_OK : fail(out->path, out->number, err);
}

/* The folder, so that the name in it lasts; one that cannot be opened or synced is none's fault. */
static int32_t sync_folder(const char *place)
{
    char folder[ST_PATH_BYTES];
    (void)st_out_split(place, folder);
    const st_fd fd = open(folder[0] != '\0' ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int32_t number = fd >= 0 && fsync(fd) != 0 && errno != EINVAL ? errno : 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return number;
}

/* Flushes, syncs and closes; 0, or errno. */
static int32_t finish(st_out_file *out)
{
    const bool is_bad = out->number != 0 || ferror(out->file) != 0;
    int32_t number = out->number;
    if (fflush(out->file) != 0 && number == 0) {
        number = errno;
    }
    if (number == 0 && !is_bad && out->part[0] != '\0' && fsync(fileno(out->file)) != 0 &&
        errno != EINVAL) {
        number = errno;
    }
    if (fclose(out->file) != 0 && number == 0) {
        number = errno;
    }
    out->file = NULL;
    return number != 0 || !is_bad ? number : EIO;
}

stator_status st_out_close(st_out_file *out, stator_status status, stator_diag **err)
{
    if (out->file == NULL) {
        return status;
    }
    const uint32_t held = st_file_limit_hold();
    int32_t number = finish(out);
    const bool is_moved = out->part[0] != '\0' && strcmp(out->part, out->place) != 0;
    if (status == STATOR_OK && number == 0 && is_moved && rename(out->part, out->place) != 0) {
        number = errno;
    }
    out->is_placed = status == STATOR_OK && number == 0;
    if (!out->is_placed) {
        st_out_remove(out);
    } else if (out->part[0] != '\0') {
        number = sync_folder(out->place);
    }
    st_file_limit_release(held);
    return status != STATOR_OK || number == 0 ? status : fail(out->path, number, err);
}

void st_out_remove(const st_out_file *out)
{
    if (out->part[0] != '\0') {
        (void)unlink(out->part);
    }
}

bool st_out_is_direct(const st_out_file *out)
{
    return out->part[0] == '\0';
}

stator_status st_out_check(const char *path, bool *out_is_direct, stator_diag **err)
{
    found what;
    st_out_file out = {.path = path};
    int32_t number = find_place(&out, &what);
    if (out_is_direct != NULL) {
        *out_is_direct = what.is_direct;
    }
    if (number == 0 && what.descriptor >= 0) {
        const int flags = fcntl(what.descriptor, F_GETFL);
        number = flags < 0 ? errno : (flags & O_ACCMODE) == O_RDONLY ? EBADF : 0;
    } else if (number == 0 && what.is_direct) {
        number = access(out.place, W_OK) != 0 ? errno : 0;
    } else if (number == 0) {
        const st_fd fd = open_part(&out);
        number = fd < 0 ? errno : 0;
        if (fd >= 0) {
            (void)close(fd);
            st_out_remove(&out);
        }
    }
    return number == 0 ? STATOR_OK : fail(path, number, err);
}
