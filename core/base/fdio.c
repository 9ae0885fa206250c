/* Writing to file descriptors; see the header. The kernel sends SIGXFSZ to the thread that wrote,
 * so a signal that is pending after a write and was not before is that of the write (or one that
 * somebody sent to the process meanwhile, which is lost). */
#define _GNU_SOURCE
#include "core/base/fdio.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define WRITE_BYTES_MOST (UINT64_C(1) << 30) /* at once; Linux takes somewhat less than 2 GB */

enum { WAS_BLOCKED = 1, WAS_PENDING = 2 };

static void only_file_limit(sigset_t *out)
{
    (void)sigemptyset(out);
    (void)sigaddset(out, SIGXFSZ);
}

static int is_pending(void)
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

int st_write_all(int fd, const void *from, uint64_t n)
{
    const char *at = from;
    const uint32_t held = st_file_limit_hold();
    while (n > 0) {
        const ssize_t put = write(fd, at, (size_t)(n < WRITE_BYTES_MOST ? n : WRITE_BYTES_MOST));
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
