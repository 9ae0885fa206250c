/* Reading pipes and writing to file descriptors; see the header. The kernel sends SIGXFSZ to the
 * thread that wrote, so a signal that is pending after a write and was not before is that of the
 * write (or one that somebody sent to the process meanwhile, which is lost). */
#define _GNU_SOURCE
#include "core/base/fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define WRITE_BYTES_MAX (UINT64_C(1) << 30) /* at once; Linux takes somewhat less than 2 GB */

#define PIPE_BYTES_FIRST (UINT64_C(1) << 20)

enum { WAS_BLOCKED = 1, WAS_PENDING = 2 };

static void only_file_limit(sigset_t *out)
{
    (void)sigemptyset(out);
    (void)sigaddset(out, SIGXFSZ);
}

static bool is_pending(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

uint32_t st_file_limit_hold(void)
{
    sigset_t limit;
    sigset_t before;
    only_file_limit(&limit);
    (void)sigemptyset(&before);
    (void)pthread_sigmask(SIG_BLOCK, &limit, &before);
    return (sigismember(&before, SIGXFSZ) == 1 ? WAS_BLOCKED : 0u) |
           (is_pending() ? WAS_PENDING : 0u);
}

void st_file_limit_release(uint32_t held)
{
    static const struct timespec at_once = {0, 0};
    const int number = errno;
    sigset_t limit;
    only_file_limit(&limit);
    if ((held & WAS_PENDING) == 0 && is_pending()) {
        while (sigtimedwait(&limit, NULL, &at_once) < 0 && errno == EINTR) {
        }
    }
    if ((held & WAS_BLOCKED) == 0) {
        (void)pthread_sigmask(SIG_UNBLOCK, &limit, NULL);
    }
    errno = number;
}

/* What a pipe says after a piece: there may be more, it ended, or errno says what failed. */
typedef enum pipe_state { PIPE_OPEN, PIPE_ENDED, PIPE_FAILED } pipe_state;

static pipe_state read_piece(int fd, uint8_t *into, uint64_t room, uint64_t *size)
{
    const ssize_t n = read(fd, into, room);
    if (n > 0) {
        *size += (uint64_t)n;
        return PIPE_OPEN;
    }
    if (n == 0) {
        return PIPE_ENDED;
    }
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    const bool may_retry = errno == EINTR || (errno == EAGAIN && poll(&wait, 1, -1) >= 0);
    return may_retry || errno == EINTR ? PIPE_OPEN : PIPE_FAILED;
}

static stator_status fail_pipe(const char *path, stator_diag **err)
{
    const stator_status code = errno == ENOENT                      ? STATOR_NOT_FOUND
                               : errno == EACCES || errno == EPERM  ? STATOR_PERMISSION_DENIED
                               : errno == EMFILE || errno == ENFILE ? STATOR_RESOURCE_EXHAUSTED
                                                                    : STATOR_UNAVAILABLE;
    return st_fail(err, code, "cannot read '%s': %m", path);
}

stator_status st_read_pipe(st_mem *mem, const char *path, uint8_t **out_bytes, uint64_t *out_size,
                           stator_diag **err)
{
    uint8_t *bytes = NULL;
    uint64_t size = 0, room = 0;
    stator_status status = STATOR_OK;
    /* O_NONBLOCK: opening a pipe must not wait for its writer. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    pipe_state state = fd >= 0 ? PIPE_OPEN : PIPE_FAILED;
    while (state == PIPE_OPEN) {
        if (size == room) {
            room = room != 0 ? 2 * room : PIPE_BYTES_FIRST;
            uint8_t *grown = st_realloc(mem, bytes, room, 16);
            if (grown == NULL) {
                break;
            }
            bytes = grown;
        }
        state = read_piece(fd, bytes + size, room - size, &size);
    }
    if (state != PIPE_ENDED) {
        status = state == PIPE_FAILED ? fail_pipe(path, err) : st_fail_oom(err);
        st_free(mem, bytes);
        bytes = NULL;
        size = 0;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    *out_bytes = bytes;
    *out_size = size;
    return status;
}

bool st_write_all(int fd, const void *from, uint64_t n)
{
    const char *at = from;
    const uint32_t held = st_file_limit_hold();
    while (n > 0) {
        const ssize_t put = write(fd, at, (size_t)(n < WRITE_BYTES_MAX ? n : WRITE_BYTES_MAX));
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            break;
        }
        at += put;
        n -= (uint64_t)put;
    }
    st_file_limit_release(held);
    return n == 0;
}
