/* Files that a command writes: whole under their names, or not at all. A file is written beside
 * its place and renamed, so that a full disk leaves the old one; a device, a pipe or a link
 * (/dev/stdout is one) is written to as it is, for a rename would put a file in its place. */
#define _GNU_SOURCE
#include "core/base/fdio.h"
#include "tools/cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail(const cli_file *f, int number, int json)
{
    return cli_fail(json, number == ENOENT ? "NOT_FOUND" : "UNAVAILABLE", NULL,
                    "cannot write '%s': %s", f->path,
                    number != 0 ? strerror(number) : "an earlier write failed") == CLI_OK;
}

/* Is there something that is no file, or that leads to one? */
static bool is_written_in_place(const char *path)
{
    struct stat there;
    return lstat(path, &there) == 0 && !S_ISREG(there.st_mode);
}

static st_fd open_in_place(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

bool cli_file_open(cli_file *f, const char *path, int json)
{
    *f = (cli_file){.path = path};
    const int n = snprintf(f->part, sizeof f->part, "%s.%ld.part", path, (long)getpid());
    ST_FAIL_BY_IF(fail, n < 0 || (size_t)n >= sizeof f->part, f, ENAMETOOLONG, json);
    int fd = -1;
    if (is_written_in_place(path)) {
        f->part[0] = '\0';
        fd = open_in_place(path);
    } else {
        (void)unlink(f->part); /* left by a killed process that had our number */
        fd = open(f->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    f->file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (f->file == NULL) {
        const int number = errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        return fail(f, number, json);
    }
    return true;
}

bool cli_file_close(cli_file *f, int json)
{
    errno = f->number;
    bool is_ok = fflush(f->file) == 0 && ferror(f->file) == 0;
    int number = errno;
    if (fclose(f->file) != 0 && is_ok) {
        is_ok = false;
        number = errno;
    }
    f->file = NULL;
    if (is_ok && f->part[0] != '\0' && rename(f->part, f->path) != 0) {
        is_ok = false;
        number = errno;
    }
    if (!is_ok && f->part[0] != '\0') {
        (void)unlink(f->part);
    }
    return is_ok || fail(f, number, json);
}

bool cli_file_check(const char *path, int json)
{
    cli_file f;
    struct stat there;
    if (is_written_in_place(path)) {
        const int number = stat(path, &there) == 0 && S_ISDIR(there.st_mode) ? EISDIR
                           : access(path, W_OK) != 0 && errno != ENOENT      ? errno
                                                                             : 0;
        return number == 0 || fail(&(cli_file){.path = path}, number, json);
    }
    ST_NEED(cli_file_open(&f, path, json));
    (void)fclose(f.file);
    (void)unlink(f.part);
    return true;
}

bool cli_write_file(const char *path, const void *bytes, uint64_t size, int json)
{
    cli_file f;
    ST_NEED(cli_file_open(&f, path, json));
    if (fwrite(bytes, 1, (size_t)size, f.file) != size) {
        f.number = errno; /* errno of the close */
    }
    return cli_file_close(&f, json);
}
