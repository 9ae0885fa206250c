/* Files that are written: whole under their names, or not at all. A file is written into a part
 * beside its place, synced, and renamed, so that a kill or a full disk at any moment leaves what
 * was there before, which may be mapped meanwhile, or the new file. The place of a symbolic link
 * is what it leads to, and a file keeps the mode of the one before. Into a device, a pipe or a
 * socket, and into a descriptor of this process (/dev/stdout, /dev/fd/N), is written as it
 * comes, for a rename would put a file in its place. Failures of writing are never SIGXFSZ: see
 * fdio.h. */
#ifndef STATOR_BASE_OUT_FILE_H
#define STATOR_BASE_OUT_FILE_H

#include "core/base/diag.h"

#include <stdio.h>

#define ST_PATH_BYTES 4096u /* PATH_MAX */
#define ST_TOKEN_BYTES 17u

typedef struct st_out_file {
    const char *path;          /* as the caller named it; borrowed */
    char place[ST_PATH_BYTES]; /* where the file will be */
    char part[ST_PATH_BYTES];  /* what is written until then; "": what the path names, directly */
    uint32_t mode;             /* of the file before; 0: there is none */
    bool is_placed;            /* closed, and whole in its place */
    FILE *file;
    int32_t number; /* errno of the first st_out_write that failed; 0 */
} st_out_file;

/* Finds the place and opens the part, or what is written directly; the latter waits for the reader
 * of a pipe. UNAVAILABLE, with errno's text: it cannot be written; nothing is left then. */
stator_status st_out_open(const char *path, st_out_file *out, stator_diag **err);
/* The same for a path that names no file yet, under which it is written at once: for a file that
 * nobody knows of until another names it. Never replaces one. mode 0: as the umask has it. */
stator_status st_out_open_new(const char *path, uint32_t mode, st_out_file *out, stator_diag **err);
stator_status st_out_write(st_out_file *out, const void *bytes, uint64_t n, stator_diag **err);
/* Ends it: with OK the file is synced and gets its place; after a failure, here or before, what was
 * written is removed. Gives the status. Does nothing for one that is not open. */
stator_status st_out_close(st_out_file *out, stator_status status, stator_diag **err);
/* Removes a file that was closed: nobody is to know of it. */
void st_out_remove(const st_out_file *out);
/* Is it written directly, so that nothing can be moved to within it and nothing lie beside it? */
bool st_out_is_direct(const st_out_file *out);
/* Could it be written? Asked before long work; leaves nothing. *out_is_direct may be NULL. */
stator_status st_out_check(const char *path, bool *out_is_direct, stator_diag **err);
/* Do both paths lead to one file, pipe or descriptor, or would to one file that is not there yet?
 * Devices (/dev/null) are nobody's place. */
bool st_out_is_same(const char *a, const char *b);
/* Sixteen hexadecimal digits that no other call of any process gives. */
void st_out_token(char out[ST_TOKEN_BYTES]);
/* The folder of a place with its slash, "" for the current one, into out; gives the rest. */
const char *st_out_split(const char *place, char out[ST_PATH_BYTES]);

#endif
