/* Data files beside models; see the header. Formats are not known here: a file names a data file
 * where its bytes hold the name, whose token no other data file has. */
#define _GNU_SOURCE
#include "core/base/files/data_file.h"
#include "core/base/alloc.h"
#include "core/base/fdio.h"
#include "core/base/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENDING ".data"
#define MODEL_NAME_BYTES 200u /* of the model's name, that its data's is made of */
#define TAIL_BYTES ((size_t)ST_TOKEN_BYTES + sizeof ENDING - 1u) /* ".TOKEN.data" */
#define PIECE_BYTES (UINT64_C(1) << 20)
#define READ_BYTES_MAX (UINT64_C(1) << 30) /* of a folder: a second or two */

/* ---- names ---- */

stator_status st_data_name(const char *place, char out[ST_PATH_BYTES], stator_diag **err)
{
    char folder[ST_PATH_BYTES], token[ST_TOKEN_BYTES];
    const char *name = st_out_split(place, folder);
    st_out_token(token);
    const int n = snprintf(out, ST_PATH_BYTES, "%s%.*s.%s" ENDING, folder,
                           (int)st_utf8_fit(name, MODEL_NAME_BYTES), name, token);
    ST_FAIL_IF(n < 0 || (size_t)n >= ST_PATH_BYTES, err, STATOR_UNAVAILABLE,
               "cannot write the data of '%s': the path is too long", place);
    return STATOR_OK;
}

/* Is this ".TOKEN.data"? */
static bool is_tail(const char *text, size_t size)
{
    const size_t digits = ST_TOKEN_BYTES - 1u;
    ST_NEED(size >= TAIL_BYTES && text[0] == '.');
    for (size_t i = 1; i <= digits; i++) {
        ST_NEED((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f'));
    }
    return memcmp(text + 1u + digits, ENDING, sizeof ENDING - 1u) == 0;
}

/* ---- reading ---- */

/* Looks at a piece of a file, of which the last bytes are those that the next one begins with;
 * true: it has found what it looks for. */
typedef bool (*piece_fn)(void *self, const char *bytes, size_t size);

typedef enum search { SEARCH_NOTHING, SEARCH_FOUND, SEARCH_FAILED } search;

/* Goes through the file, without mapping it: somebody may cut it. */
static search search_file(st_fd fd, size_t overlap, piece_fn fn, void *self)
{
    char *bytes = st_process_alloc(PIECE_BYTES);
    search result = bytes != NULL ? SEARCH_NOTHING : SEARCH_FAILED;
    size_t have = 0;
    ssize_t n = 1;
    while (result == SEARCH_NOTHING && n != 0) {
        n = read(fd, bytes + have, PIECE_BYTES - have);
        if (n < 0) {
            result = errno == EINTR ? result : SEARCH_FAILED;
            continue;
        }
        have += (size_t)n;
        result = fn(self, bytes, have) ? SEARCH_FOUND : SEARCH_NOTHING;
        const size_t kept = have < overlap ? have : overlap;
        memmove(bytes, bytes + have - kept, kept);
        have = kept;
    }
    st_process_free(bytes);
    return result;
}

/* ---- what a model names ---- */

typedef struct finder {
    const char *folder, *name; /* of the model */
    char *out;
} finder;

static bool find_name(void *self, const char *bytes, size_t size)
{
    const finder *f = self;
    const size_t n = (size_t)st_utf8_fit(f->name, MODEL_NAME_BYTES);
    const char *end = bytes + size;
    for (const char *at = bytes; (at = memmem(at, (size_t)(end - at), f->name, n)) != NULL; at++) {
        struct stat there;
        if (!is_tail(at + n, (size_t)(end - at) - n)) {
            continue;
        }
        const int length =
            snprintf(f->out, ST_PATH_BYTES, "%s%.*s", f->folder, (int)(n + TAIL_BYTES), at);
        if (length > 0 && (size_t)length < ST_PATH_BYTES && lstat(f->out, &there) == 0 &&
            S_ISREG(there.st_mode)) {
            return true;
        }
    }
    return false;
}

void st_data_find(const char *place, char out[ST_PATH_BYTES])
{
    char folder[ST_PATH_BYTES];
    struct stat there;
    finder f = {.folder = folder, .name = st_out_split(place, folder), .out = out};
    const st_fd fd = open(place, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    /* One with another name (a hard link) goes on to need its data. */
    const bool is_alone = fd >= 0 && fstat(fd, &there) == 0 && S_ISREG(there.st_mode) &&
                          there.st_nlink == 1 && f.name[0] != '\0';
    if (!is_alone ||
        search_file(fd, MODEL_NAME_BYTES + TAIL_BYTES, find_name, &f) != SEARCH_FOUND) {
        out[0] = '\0';
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* ---- who names a data file ---- */

static bool holds(void *self, const char *bytes, size_t size)
{
    const char *name = self;
    return memmem(bytes, size, name, strlen(name)) != NULL;
}

/* May the entry of the folder name it? Data files of the kind hold numbers. */
static bool may_name(st_fd folder, const char *entry, const char *name, uint64_t *budget)
{
    struct stat there;
    const size_t n = strlen(entry);
    if ((n > TAIL_BYTES && is_tail(entry + n - TAIL_BYTES, TAIL_BYTES)) ||
        fstatat(folder, entry, &there, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(there.st_mode)) {
        return false;
    }
    const st_fd fd = openat(folder, entry, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    const bool is_read = fd >= 0 && (uint64_t)there.st_size <= *budget;
    const search result =
        is_read ? search_file(fd, strlen(name), holds, (void *)(uintptr_t)name) : SEARCH_FAILED;
    *budget -= is_read ? (uint64_t)there.st_size : 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return result != SEARCH_NOTHING;
}

void st_data_remove_unnamed(const char *data_path)
{
    char folder[ST_PATH_BYTES];
    const char *name = st_out_split(data_path, folder);
    DIR *dir = opendir(folder[0] != '\0' ? folder : ".");
    const struct dirent *entry = NULL;
    uint64_t budget = READ_BYTES_MAX;
    bool is_named = dir == NULL;
    do {
        errno = 0;
        entry = is_named ? NULL : readdir(dir);
        is_named = is_named || errno != 0 ||
                   (entry != NULL && may_name(dirfd(dir), entry->d_name, name, &budget));
    } while (entry != NULL);
    if (!is_named) {
        (void)unlink(data_path);
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}
