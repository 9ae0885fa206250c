/* The folder of what may be lost: compiled programs, what probes found. */
#ifndef STATOR_HOST_CACHE_ROOT_H
#define STATOR_HOST_CACHE_ROOT_H

/* `own` (STATOR_CACHE_DIR, or NULL), else the user's folder for caches; 0: neither is an absolute
 * path that is short enough. */
int st_cache_root(const char *own, char out[4096]);
/* Makes a folder and those above it, for the user alone; 0: errno says why it is not there. */
int st_make_folders(const char *path);
/* Would that go well, as far as can be told without doing it? 0: errno says why not. */
int st_may_make(const char *path);

#endif
