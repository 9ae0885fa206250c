/* To be preloaded: rename, or unlink of a data file, as STATOR_TEST_FAULT names it, ends the
 * process at once ("rename exit", as kill -9 would) or fails as on a disk that is gone ("rename
 * fail"). */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int rename(const char *from, const char *to);

static int fault(const char *call)
{
    const char *text = getenv("STATOR_TEST_FAULT");
    const size_t n = strlen(call);
    if (text == NULL || strncmp(text, call, n) != 0) {
        return 0;
    }
    if (strcmp(text + n, " exit") == 0) {
        _exit(9);
    }
    errno = EIO;
    return -1;
}

int rename(const char *from, const char *to)
{
    return fault("rename") != 0 ? -1 : (int)syscall(SYS_rename, from, to);
}

int unlink(const char *path)
{
    const size_t n = strlen(path);
    const int is_data = n > 5 && strcmp(path + n - 5, ".data") == 0;
    return is_data && fault("unlink") != 0 ? -1 : (int)syscall(SYS_unlink, path);
}
