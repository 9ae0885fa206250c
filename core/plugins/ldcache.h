/* Finds shared libraries by soname as the dynamic linker would, without loading or running any:
 * objects already in the process, DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH, /etc/ld.so.cache, the
 * default folders. Walks DT_NEEDED to the end, so that a library which is there but misses one of
 * its own is reported too.
 *
 * In: an st_elf and the folder it lies in. Out: the first missing soname and who needs it.
 * Invariants: results are remembered by path, so 50 plugins cost one walk. Not thread-safe.
 * Source: ld.so(8), and for the cache file glibc's sysdeps/generic/dl-cache.h (new format). */
#ifndef STATOR_PLUGINS_LDCACHE_H
#define STATOR_PLUGINS_LDCACHE_H

#include "core/plugins/elf_reader.h"

typedef struct st_ldcache st_ldcache;

/* Never fails for a missing or malformed cache file: the default folders remain. */
stator_status st_ldcache_create(st_mem *mem, st_ldcache **out_cache, stator_diag **err);
void st_ldcache_destroy(st_ldcache *cache);

typedef struct st_missing {
    const char *soname;    /* NULL: nothing is missing */
    const char *needed_by; /* soname or path of the object that names it; NULL: the file itself */
} st_missing;

/* Is everything there that the object needs? Strings live as long as the cache. Fails only when
 * memory runs out. */
stator_status st_ldcache_check(st_ldcache *cache, const st_elf *object, const char *folder,
                               st_missing *out_missing, stator_diag **err);
/* The same for one soname by itself (a note's `requires`). */
stator_status st_ldcache_check_soname(st_ldcache *cache, const char *soname,
                                      st_missing *out_missing, stator_diag **err);

/* Looks a soname up in the bytes of a cache file, from candidate *at on (0 first). Gives a path
 * that ends inside the bytes, or NULL when there is no further one. For hostile bytes. */
const char *st_ldcache_lookup(const uint8_t *bytes, uint64_t size, const char *soname,
                              uint32_t *at);

#endif
