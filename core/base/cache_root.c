/* The folder of what may be lost; see the header. */
#define _GNU_SOURCE
#include "core/base/cache_root.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 4096
#define NAME_ROOM 64 /* for what lies in the folder */

static bool is_absolute(const char *path)
{
    return path != NULL && path[0] == '/';
}

bool st_cache_root(const char *own, char out[4096])
{
    const char *cache = secure_getenv("XDG_CACHE_HOME");
    const char *home = secure_getenv("HOME");
    int n = 0;
    if (is_absolute(own)) {
        n = snprintf(out, PATH_SIZE, "%s", own);
    } else if (is_absolute(cache)) {
        n = snprintf(out, PATH_SIZE, "%s/stator", cache);
    } else if (is_absolute(home)) {
        n = snprintf(out, PATH_SIZE, "%s/.cache/stator", home);
    }
    return n > 0 && n < PATH_SIZE - NAME_ROOM;
}

bool st_make_folders(const char *path)
{
    char part[PATH_SIZE];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(part, 0700);
        *slash = '/';
    }
    return mkdir(part, 0700) == 0 || errno == EEXIST;
}

bool st_may_make(const char *path)
{
    char part[PATH_SIZE];
    struct stat st;
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part) {
        errno = ENAMETOOLONG;
        return false;
    }
    while (lstat(part, &st) != 0 && errno == ENOENT) {
        char *slash = strrchr(part, '/');
        if (slash == NULL || slash == part) {
            return access("/", W_OK) == 0;
        }
        *slash = '\0';
    }
    return access(part, W_OK) == 0;
}
