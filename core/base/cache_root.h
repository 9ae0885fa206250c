/* The folder of what may be lost: compiled programs, what probes found. */
#ifndef STATOR_BASE_CACHE_ROOT_H
#define STATOR_BASE_CACHE_ROOT_H

#include <stdbool.h>

/* `own` (STATOR_CACHE_DIR, or NULL), else the user's folder for caches; 0: neither is an absolute
 * path that is short enough. */
bool st_cache_root(const char *own, char out[4096]);
/* Makes a folder and those above it, for the user alone; 0: errno says why it is not there. */
bool st_make_folders(const char *path);
/* Would that go well, as far as can be told without doing it? 0: errno says why not. */
bool st_may_make(const char *path);

#endif
