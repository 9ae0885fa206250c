/* Reading pipes, and writing to file descriptors. A file that may not grow (RLIMIT_FSIZE) is a
 * failure of the write, EFBIG, as a full disk is, and never SIGXFSZ, which would end the
 * program: the signal is held back in the thread that writes. The process's own choice for it is
 * not touched. */
#ifndef STATOR_BASE_FDIO_H
#define STATOR_BASE_FDIO_H

#include "core/base/alloc.h"
#include "core/base/diag.h"

/* For writes of others (stdio) between the two: holds the signal back, then takes away what the
 * writes raised and lets through what was let through before. They may nest; errno is kept. */
uint32_t st_file_limit_hold(void);
void st_file_limit_release(uint32_t held);

/* What a pipe of that name brings until its writers close it, read into memory of `mem`, which the
 * caller frees; waits for a writer that is there. Errors: as of opening, RESOURCE_EXHAUSTED. */
stator_status st_read_pipe(st_mem *mem, const char *path, uint8_t **out_bytes, uint64_t *out_size,
                           stator_diag **err);

/* All n bytes, however many calls that takes; 0: errno says why not. */
typedef int st_fd; /* a file descriptor, -1: none */

bool st_write_all(int fd, const void *from, uint64_t n);

#endif
