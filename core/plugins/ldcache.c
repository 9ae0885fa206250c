/* The library finder behind ldcache.h. Layout of the cache file:
 *
 *   [old format: "ld.so-1.7.0\0", u32 n, n * 12 bytes, padding to 8]   (skipped)
 *   "glibc-ld.so.cache1.1", u32 n, u32 len_strings, u8 flags, 3 bytes, u32 extensions, 3 * u32
 *   n * { i32 flags, u32 key, u32 value, u32 osversion, u64 hwcap }
 *   strings                                   (key and value are offsets in them)
 */
#define _GNU_SOURCE
#include "core/plugins/ldcache.h"

#include "core/base/str.h"
#include "core/base/vec.h"
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CACHE_FILE_MAX = 64 * 1024 * 1024,
    NEW_HEADER = 48,
    NEW_ENTRY = 24,
    OLD_HEADER = 16,
    OLD_ENTRY = 12,
    OBJECTS_MAX = 2048,
    DEPTH_MAX = 64,
    PATH_SIZE = 4096
};

#if defined(__x86_64__)
#define CACHE_FLAGS 0x0303 /* FLAG_ELF_LIBC6 | FLAG_X8664_LIB64 */
#define MULTIARCH "x86_64-linux-gnu"
#elif defined(__aarch64__)
#define CACHE_FLAGS 0x0a03 /* FLAG_ELF_LIBC6 | FLAG_AARCH64_LIB64 */
#define MULTIARCH "aarch64-linux-gnu"
#else
#define CACHE_FLAGS 0x0003
#define MULTIARCH "unknown"
#endif

#define LIB_MULTIARCH "lib/" MULTIARCH
#define ROOT_LIB_MULTIARCH "/" LIB_MULTIARCH
#define USR_LIB_MULTIARCH "/usr/" LIB_MULTIARCH

static const char *const default_folders[] = {
    ROOT_LIB_MULTIARCH, USR_LIB_MULTIARCH, "/lib64", "/usr/lib64", "/lib", "/usr/lib"};

/* A library file and its missing dependencies. */
typedef struct known_object {
    const char *path; /* path, or the soname alone of an object already in the process */
    uint32_t is_visiting;
    st_missing missing;
} known_object;

struct st_ldcache {
    st_mem *mem;
    st_arena arena;
    uint8_t *bytes; /* contents of the cache file */
    uint64_t size;
    const char *library_path;
    st_vec(known_object *) objects;
};

/* An object whose needs are looked for. */
typedef struct seeker {
    st_ldcache *cache;
    const st_elf *elf;
    const char *folder;
    const char *label; /* NULL: the plugin itself */
    uint32_t depth;
} seeker;

static uint32_t get_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Start of the new format inside the file, or `size` when there is none. */
static uint64_t new_format_at(const uint8_t *bytes, uint64_t size)
{
    static const char new_magic[] = "glibc-ld.so.cache1.1";
    uint64_t at = 0;
    if (size >= OLD_HEADER && memcmp(bytes, "ld.so-1.7.0", 11) == 0) {
        at = OLD_HEADER + (uint64_t)get_u32(bytes + 12) * OLD_ENTRY;
        at = (at + 7) & ~(uint64_t)7;
    }
    if (at > size || size - at < NEW_HEADER ||
        memcmp(bytes + at, new_magic, sizeof new_magic - 1) != 0) {
        return size;
    }
    return at;
}

const char *st_ldcache_lookup(const uint8_t *bytes, uint64_t size, const char *soname, uint32_t *at)
{
    const uint64_t base = new_format_at(bytes, size);
    if (base == size) {
        return NULL;
    }
    const uint64_t left = size - base; /* string offsets count from here */
    const uint64_t n = get_u32(bytes + base + 20);
    const uint64_t wanted = strlen(soname) + 1;
    for (uint64_t i = *at; i < n && NEW_HEADER + (i + 1) * NEW_ENTRY <= left; i++) {
        const uint8_t *entry = bytes + base + NEW_HEADER + i * NEW_ENTRY;
        const uint64_t key = get_u32(entry + 4);
        const uint64_t value = get_u32(entry + 8);
        if ((get_u32(entry) & 0xffff) != CACHE_FLAGS || key >= left || left - key < wanted ||
            value >= left || memcmp(bytes + base + key, soname, wanted) != 0) {
            continue;
        }
        if (memchr(bytes + base + value, 0, left - value) != NULL) {
            *at = (uint32_t)i + 1;
            return (const char *)bytes + base + value;
        }
    }
    return NULL;
}

static void read_cache_file(st_ldcache *cache)
{
    const int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (fd < 0) {
        return;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
        st.st_size <= CACHE_FILE_MAX) {
        const st_elf_source file = {.fd = fd, .size = (uint64_t)st.st_size};
        uint8_t *bytes = st_alloc(cache->mem, file.size, 8);
        if (bytes != NULL && st_elf_read_at(&file, 0, bytes, file.size)) {
            cache->bytes = bytes;
            cache->size = file.size;
        } else {
            st_free(cache->mem, bytes);
        }
    }
    close(fd);
}

stator_status st_ldcache_create(st_mem *mem, st_ldcache **out_cache, stator_diag **err)
{
    *out_cache = NULL;
    st_ldcache *cache = st_calloc(mem, 1, sizeof *cache);
    ST_TRY_MEM(cache, err);
    cache->mem = mem;
    st_arena_init(&cache->arena, mem);
    cache->library_path = secure_getenv("LD_LIBRARY_PATH");
    read_cache_file(cache);
    *out_cache = cache;
    return STATOR_OK;
}

void st_ldcache_destroy(st_ldcache *cache)
{
    if (cache == NULL) {
        return;
    }
    st_mem *mem = cache->mem;
    st_vec_free(mem, &cache->objects);
    st_free(mem, cache->bytes);
    st_arena_deinit(&cache->arena);
    st_free(mem, cache);
}

typedef struct loaded_search {
    const char *soname;
    bool found;
} loaded_search;

static int match_loaded(struct dl_phdr_info *info, size_t size, void *self)
{
    loaded_search *search = self;
    (void)size;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *base = slash != NULL ? slash + 1 : info->dlpi_name;
    search->found = strcmp(base, search->soname) == 0;
    return search->found;
}

static known_object *find_known(const st_ldcache *cache, const char *path)
{
    for (uint32_t i = 0; i < cache->objects.count; i++) {
        if (strcmp(cache->objects.data[i]->path, path) == 0) {
            return cache->objects.data[i];
        }
    }
    return NULL;
}

static known_object *add_known(st_ldcache *cache, const char *path)
{
    known_object *object = st_arena_zalloc(&cache->arena, 1, sizeof *object);
    known_object **slot = st_vec_push(cache->mem, &cache->objects);
    if (object == NULL || slot == NULL) {
        cache->objects.count -= slot != NULL;
        return NULL;
    }
    *slot = object;
    object->path = st_arena_strndup(&cache->arena, path, strlen(path));
    if (object->path == NULL) {
        cache->objects.count--;
        return NULL;
    }
    return object;
}

/* Is there an ELF file of this machine at path? Fills *out_elf when so. */
static bool open_library(st_ldcache *cache, const char *path, st_elf *out_elf)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    bool ok = false;
    ST_NEED(fd >= 0);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        const st_elf_source file = {.fd = fd, .size = (uint64_t)st.st_size};
        ok = st_elf_read(&file, &cache->arena, out_elf, NULL) == STATOR_OK && out_elf->is_read &&
             out_elf->machine == st_elf_host_machine();
    }
    close(fd);
    return ok;
}

static stator_status check_needs(const seeker *s, st_missing *out_missing, stator_diag **err);

/* Tries one path for a soname. *out_found says whether a usable library is there; then *out_missing
 * is what that library itself misses. */
static stator_status try_path(const seeker *s, const char *soname, const char *path,
                              bool *out_found, st_missing *out_missing, stator_diag **err)
{
    known_object *known = find_known(s->cache, path);
    *out_found = true;
    if (known != NULL) {
        const st_missing nothing = {0};
        *out_missing = known->is_visiting ? nothing : known->missing;
        return STATOR_OK;
    }
    st_elf elf;
    if (!open_library(s->cache, path, &elf)) {
        *out_found = false;
        return STATOR_OK;
    }
    known = add_known(s->cache, path);
    ST_TRY_MEM(known, err);
    if (s->depth >= DEPTH_MAX || s->cache->objects.count >= OBJECTS_MAX) {
        return STATOR_OK; /* The file exists; its own dependencies are left to the linker. */
    }
    const char *slash = strrchr(known->path, '/');
    const char *folder = st_arena_strndup(&s->cache->arena, known->path,
                                          slash != NULL ? (uint64_t)(slash - known->path) : 0);
    const char *label = st_arena_strndup(&s->cache->arena, soname, strlen(soname));
    ST_TRY_MEM(folder && label, err);
    const seeker inner = {s->cache, &elf, folder, label, s->depth + 1};
    known->is_visiting = 1;
    const stator_status status = check_needs(&inner, &known->missing, err);
    known->is_visiting = 0;
    *out_missing = known->missing;
    return status;
}

/* One folder of a search list with $ORIGIN and $LIB replaced; 0 when it does not fit. `lib` is what
 * $LIB stands for. */
static bool expand_folder(const char *entry, size_t n, const char *origin, const char *lib,
                          char *out, size_t out_size)
{
    size_t len = 0;
    while (n > 0) {
        const char *put = NULL;
        size_t used = 0;
        if (n >= 7 && memcmp(entry, "$ORIGIN", 7) == 0) {
            put = origin, used = 7;
        } else if (n >= 9 && memcmp(entry, "${ORIGIN}", 9) == 0) {
            put = origin, used = 9;
        } else if (n >= 4 && memcmp(entry, "$LIB", 4) == 0) {
            put = lib, used = 4;
        } else if (n >= 6 && memcmp(entry, "${LIB}", 6) == 0) {
            put = lib, used = 6;
        }
        const size_t put_len = put != NULL ? strlen(put) : 1;
        ST_NEED(len + put_len < out_size);
        memcpy(out + len, put != NULL ? put : entry, put_len);
        len += put_len;
        entry += put != NULL ? used : 1;
        n -= put != NULL ? used : 1;
    }
    out[len] = '\0';
    return len > 0 && out[0] == '/';
}

/* Looks through a search list ("a:b"); stops at the first usable library. */
static stator_status try_list(const seeker *s, const char *list, const char *separators,
                              const char *soname, bool *out_found, st_missing *out_missing,
                              stator_diag **err)
{
    static const char *const libs[] = {LIB_MULTIARCH, "lib64", "lib"};
    char path[PATH_SIZE];
    while (list != NULL && *list != '\0' && !*out_found) {
        const size_t n = strcspn(list, separators);
        const uint32_t tries = memmem(list, n, "LIB", 3) != NULL ? 3u : 1u;
        for (uint32_t i = 0; i < tries && !*out_found; i++) {
            if (!expand_folder(list, n, s->folder, libs[i], path, sizeof path)) {
                continue;
            }
            const size_t len = strlen(path);
            const int wrote = snprintf(path + len, sizeof path - len, "/%s", soname);
            if (wrote > 0 && (size_t)wrote < sizeof path - len) {
                ST_TRY(try_path(s, soname, path, out_found, out_missing, err));
            }
        }
        list += n + (list[n] != '\0');
    }
    return STATOR_OK;
}

static stator_status try_cache(const seeker *s, const char *soname, bool *out_found,
                               st_missing *out_missing, stator_diag **err)
{
    uint32_t at = 0;
    const char *path = NULL;
    while (s->cache->bytes != NULL && !*out_found &&
           (path = st_ldcache_lookup(s->cache->bytes, s->cache->size, soname, &at)) != NULL) {
        ST_TRY(try_path(s, soname, path, out_found, out_missing, err));
    }
    char text[PATH_SIZE];
    for (uint32_t i = 0; i < sizeof default_folders / sizeof default_folders[0] && !*out_found;
         i++) {
        const int wrote = snprintf(text, sizeof text, "%s/%s", default_folders[i], soname);
        if (wrote > 0 && (size_t)wrote < sizeof text) {
            ST_TRY(try_path(s, soname, text, out_found, out_missing, err));
        }
    }
    return STATOR_OK;
}

/* One need of an object: found (with what it misses itself), or missing. */
static stator_status check_soname(const seeker *s, const char *soname, st_missing *out_missing,
                                  stator_diag **err)
{
    *out_missing = (st_missing){0};
    loaded_search search = {.soname = soname};
    bool found = false;
    if (strchr(soname, '/') != NULL) {
        ST_TRY(try_path(s, soname, soname, &found, out_missing, err));
    } else {
        dl_iterate_phdr(match_loaded, &search);
        if (search.found) {
            return STATOR_OK;
        }
        ST_TRY(try_list(s, s->elf->rpath, ":", soname, &found, out_missing, err));
        if (!found) {
            ST_TRY(try_list(s, s->cache->library_path, ":;", soname, &found, out_missing, err));
        }
        if (!found) {
            ST_TRY(try_list(s, s->elf->runpath, ":", soname, &found, out_missing, err));
        }
        if (!found) {
            ST_TRY(try_cache(s, soname, &found, out_missing, err));
        }
    }
    if (!found) {
        out_missing->soname = st_arena_strndup(&s->cache->arena, soname, strlen(soname));
        out_missing->needed_by = s->label;
        return out_missing->soname != NULL ? STATOR_OK : st_fail_oom(err);
    }
    return STATOR_OK;
}

static stator_status check_needs(const seeker *s, st_missing *out_missing, stator_diag **err)
{
    *out_missing = (st_missing){0};
    for (uint32_t i = 0; i < s->elf->needed_count && out_missing->soname == NULL; i++) {
        ST_TRY(check_soname(s, s->elf->needed[i], out_missing, err));
    }
    return STATOR_OK;
}

stator_status st_ldcache_check(st_ldcache *cache, const st_elf *object, const char *folder,
                               st_missing *out_missing, stator_diag **err)
{
    const seeker s = {cache, object, folder, NULL, 0};
    return check_needs(&s, out_missing, err);
}

stator_status st_ldcache_check_soname(st_ldcache *cache, const char *soname,
                                      st_missing *out_missing, stator_diag **err)
{
    const st_elf none = {0};
    const seeker s = {cache, &none, "/", NULL, 0};
    return check_soname(&s, soname, out_missing, err);
}
