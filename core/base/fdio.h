/* Writing to file descriptors. */
#ifndef STATOR_BASE_FDIO_H
#define STATOR_BASE_FDIO_H

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#define ST_WRITE_BYTES_MOST (UINT64_C(1) << 30) /* at once; Linux takes somewhat less than 2 GB */

/* All n bytes, however many calls that takes; 0: errno says why not. */
static inline int st_write_all(int fd, const void *from, uint64_t n)
{
    const char *at = (const char *)from;
    while (n > 0) {
        const ssize_t put =
            write(fd, at, (size_t)(n < ST_WRITE_BYTES_MOST ? n : ST_WRITE_BYTES_MOST));
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return 0;
        }
        at += put;
        n -= (uint64_t)put;
    }
    return 1;
}

#endif
