/* Discovery: from folders and files to rows with states, without running plugin code.
 *
 * In: the environment (unless NO_ENV; never with raised rights), the options' folders, the folder
 * of libstator. Out: one row per item of each *.so found, in order of rank, by file name inside a
 * folder. A file that two rules find is listed once, for the first. The rules for a file, in order:
 * readable ELF and note -> SELECT / DISABLE -> trust -> machine -> ABI -> sanitizer -> required
 * devices -> libraries -> required files -> what an earlier probe remembered. The first that fails
 * gives the state. */
#define _GNU_SOURCE
#include "core/plugins/ldcache.h"
#include "core/plugins/registry_internal.h"
#include "ir/passes/pass.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, FILES_MAX = 4096, REASON_SIZE = 1024 };

typedef struct scan {
    st_registry *registry;
    st_ldcache *libraries;
    const char *select;
    const char *disable;
    st_allow_list allowed;
    stator_diag **err;
    st_vec(st_file_identity) folders;
    const char *own_folder; /* folder beside libstator.so, without symbolic links; or NULL */
} scan;

/* One file on its way to a verdict. */
typedef struct candidate {
    st_plugin *plugin;
    st_elf elf;
    struct stat st;
    int fd;
    const char *folder_fault; /* why its folder is not trusted, or NULL */
} candidate;

st_file_identity st_identity_of(const struct stat *st)
{
    return (st_file_identity){(uint64_t)st->st_dev, (uint64_t)st->st_ino, (uint64_t)st->st_size,
                              (int64_t)st->st_mtim.tv_sec, (int64_t)st->st_mtim.tv_nsec};
}

st_fd st_plugin_open(const char *path, struct stat *out_st, char *reason, size_t reason_size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        snprintf(reason, reason_size,
                 errno == ELOOP ? "the file is a symbolic link" : "the file cannot be opened: %s",
                 strerror(errno));
        return -1;
    }
    if (fstat(fd, out_st) != 0 || !S_ISREG(out_st->st_mode)) {
        snprintf(reason, reason_size, "it is not a regular file");
        close(fd);
        return -1;
    }
    return fd;
}

/* ---- one file's verdict ---- */

static st_verdict verdict_of(uint32_t state, const char *reason, const char *hint)
{
    return (st_verdict){state, reason, hint};
}

static bool matches_globs(st_registry *registry, const char *globs, const st_plugin *plugin)
{
    while (*globs != '\0') {
        globs += strspn(globs, ":, ");
        const size_t n = strcspn(globs, ":, ");
        const char *glob = n > 0 ? st_arena_strndup(&registry->arena, globs, n) : NULL;
        if (glob != NULL &&
            (st_glob(glob, plugin->note.name) || st_glob(glob, plugin->file_name))) {
            return true;
        }
        for (uint32_t i = 0; glob != NULL && i < plugin->note.item_count; i++) {
            if (st_glob(glob, plugin->note.items[i].name)) {
                return true;
            }
        }
        globs += n;
    }
    return false;
}

static bool is_enabled(const scan *s, const st_plugin *plugin, st_verdict *out)
{
    if (s->select != NULL && !matches_globs(s->registry, s->select, plugin)) {
        *out = verdict_of(
            ST_STATE_DISABLED,
            st_registry_textf(s->registry, "STATOR_PLUGIN_SELECT=%.200s leaves it out", s->select),
            "unset STATOR_PLUGIN_SELECT or add the plugin's name to it");
        return false;
    }
    if (s->disable != NULL && matches_globs(s->registry, s->disable, plugin)) {
        *out = verdict_of(
            ST_STATE_DISABLED,
            st_registry_textf(s->registry, "STATOR_PLUGIN_DISABLE=%.200s names it", s->disable),
            "take the plugin's name out of STATOR_PLUGIN_DISABLE");
        return false;
    }
    return true;
}

static bool is_trusted(const scan *s, const candidate *c, st_verdict *out)
{
    char reason[REASON_SIZE];
    const char *fault = c->folder_fault;
    if (fault == NULL && !st_trust_check_stat(&s->registry->trust, &c->st, c->plugin->path, false,
                                              reason, sizeof reason)) {
        fault = st_registry_textf(s->registry, "%s", reason);
    }
    if (fault == NULL &&
        !st_allow_list_check(&s->allowed, c->fd, (uint64_t)c->st.st_size, reason, sizeof reason)) {
        *out = verdict_of(ST_STATE_UNTRUSTED_PATH, st_registry_textf(s->registry, "%s", reason),
                          "check where the file comes from, then add the line that sha256sum "
                          "prints to the list of STATOR_PLUGIN_ALLOW");
        return false;
    }
    if (fault == NULL) {
        return true;
    }
    *out = verdict_of(ST_STATE_UNTRUSTED_PATH, fault,
                      "take write permission from others (chmod go-w) and let root or yourself own "
                      "the file and its folders (chown)");
    return false;
}

static bool fits_machine(const scan *s, const candidate *c, st_verdict *out)
{
    const char *triple = c->plugin->note.triple;
    if (c->elf.class_bits != 64 || c->elf.is_big_endian) {
        out->reason = st_registry_textf(s->registry, "a %s file, this machine is %s",
                                        c->elf.class_bits != 64 ? "32-bit" : "big-endian",
                                        st_elf_machine_name(st_elf_host_machine()));
    } else if (c->elf.machine != st_elf_host_machine()) {
        const char *name = st_elf_machine_name(c->elf.machine);
        out->reason =
            name != NULL
                ? st_registry_textf(s->registry, "built for %s, this machine is %s", name,
                                    st_elf_machine_name(st_elf_host_machine()))
                : st_registry_textf(s->registry, "built for ELF machine %u, this machine is %s",
                                    c->elf.machine, st_elf_machine_name(st_elf_host_machine()));
    } else if (triple != NULL && strcmp(triple, STATOR_TRIPLE) != 0) {
        out->reason =
            st_registry_textf(s->registry, "its note says that it was built for %.64s, this is %s",
                              triple, STATOR_TRIPLE);
    } else {
        return true;
    }
    out->state = ST_STATE_WRONG_ARCH;
    out->hint = "install the plugin's build for " STATOR_TRIPLE;
    return false;
}

bool st_abi_fits(st_registry *registry, const st_note *note, st_verdict *out_verdict)
{
    const uint32_t major = registry->host->abi_major;
    const uint32_t minor = registry->host->abi_minor;
    const bool is_exact = major == 0; /* before 1.0 a minor may change anything */
    const bool is_old = note->abi_major < major ||
                        (is_exact && note->abi_major == major && note->abi_minor < minor);
    const bool is_new = note->abi_major > major ||
                        (note->abi_major == major &&
                         (is_exact ? note->abi_minor > minor : note->min_host_minor > minor));
    if (is_old) {
        *out_verdict = verdict_of(
            ST_STATE_ABI_TOO_OLD,
            st_registry_textf(registry, "built for plugin ABI %u.%u, this host has %u.%u",
                              note->abi_major, note->abi_minor, major, minor),
            "rebuild the plugin with the headers of this Stator, or install its newer version");
    } else if (is_new) {
        *out_verdict =
            verdict_of(ST_STATE_ABI_TOO_NEW,
                       st_registry_textf(registry, "needs host ABI >= %u.%u, this is %u.%u",
                                         note->abi_major, note->min_host_minor, major, minor),
                       "install a newer Stator, or the plugin's build for this one");
    }
    return !is_old && !is_new;
}

bool st_sanitizer_fits(const char *sanitizer)
{
    return sanitizer == NULL || sanitizer[0] == '\0' || strcmp(sanitizer, STATOR_SANITIZER) == 0;
}

/* A sanitizer's runtime ends the process when it comes in with a plugin. */
static bool fits_sanitizer(const scan *s, const candidate *c, st_verdict *out)
{
    const char *found = c->plugin->note.sanitizer;
    for (uint32_t i = 0; i < c->elf.needed_count && found[0] == '\0'; i++) {
        const char *name = c->elf.needed[i];
        if (strncmp(name, "libasan.", 8) == 0 || strncmp(name, "libclang_rt.asan", 16) == 0) {
            found = "address";
        } else if (strncmp(name, "libtsan.", 8) == 0 ||
                   strncmp(name, "libclang_rt.tsan", 16) == 0) {
            found = "thread";
        }
    }
    if (st_sanitizer_fits(found)) {
        return true;
    }
    *out = verdict_of(ST_STATE_INVALID,
                      st_registry_textf(s->registry,
                                        "built with the %.32s sanitizer, which this host was not "
                                        "built with",
                                        found),
                      "use a build of the plugin without sanitizer, or Stator's own build with it");
    return false;
}

/* The library of a soname and all that it needs are there. */
static stator_status has_libraries(const scan *s, const candidate *c, st_verdict *out)
{
    st_missing missing = {0};
    ST_TRY(st_ldcache_check(s->libraries, &c->elf, c->plugin->folder, &missing, s->err));
    if (missing.soname != NULL) {
        const bool is_direct = missing.needed_by == NULL;
        *out =
            verdict_of(ST_STATE_MISSING_DEPENDENCY,
                       st_registry_textf(s->registry, "the library %s is not installed%s%s%s",
                                         missing.soname, is_direct ? "" : " (needed by ",
                                         is_direct ? "" : missing.needed_by, is_direct ? "" : ")"),
                       st_registry_textf(s->registry,
                                         "install the package that holds %s, or add its folder "
                                         "to LD_LIBRARY_PATH",
                                         missing.soname));
    }
    return STATOR_OK;
}

/* ---- what a note requires ---- */

enum required_kind { REQUIRED_DEVICE, REQUIRED_FILE, REQUIRED_LIBRARY };

static uint32_t kind_of_required(const char *entry)
{
    return strncmp(entry, "/dev/", 5) == 0 ? REQUIRED_DEVICE
           : entry[0] == '/'               ? REQUIRED_FILE
                                           : REQUIRED_LIBRARY;
}

/* Is one of the alternatives there? They are of one kind, with '|' between them. */
static stator_status has_alternative(const scan *s, const char *entry, bool *out_found)
{
    *out_found = false;
    for (const char *at = entry; *at != '\0' && !*out_found;) {
        const size_t n = strcspn(at, "|");
        const char *name = st_arena_strndup(&s->registry->arena, at, n);
        struct stat st;
        st_missing missing = {0};
        ST_TRY_MEM(name, s->err);
        if (name[0] == '/') {
            *out_found = stat(name, &st) == 0 || errno == EACCES;
        } else {
            ST_TRY(st_ldcache_check_soname(s->libraries, name, &missing, s->err));
            *out_found = missing.soname == NULL;
        }
        at += n + (at[n] == '|');
    }
    return STATOR_OK;
}

/* "A is not there", "the library A is not installed", or "there is no A or B or C". */
static const char *say_absent(const scan *s, const char *entry)
{
    char words[REASON_SIZE / 2] = "";
    size_t n = 0;
    if (strchr(entry, '|') == NULL) {
        return st_registry_textf(
            s->registry,
            entry[0] == '/' ? "%.500s is not there" : "the library %.500s is not installed", entry);
    }
    for (const char *at = entry; *at != '\0' && n + 5 < sizeof words; at++) {
        n += (size_t)snprintf(words + n, sizeof words - n, *at == '|' ? " or " : "%c", *at);
    }
    return st_registry_textf(s->registry, "there is no %s", words);
}

static st_verdict verdict_of_required(const scan *s, const char *entry)
{
    const char *reason = say_absent(s, entry);
    switch (kind_of_required(entry)) {
    case REQUIRED_DEVICE:
        return verdict_of(ST_STATE_NO_DEVICE, reason,
                          "install or load the device's driver, or choose another backend");
    case REQUIRED_FILE:
        return verdict_of(ST_STATE_MISSING_DEPENDENCY, reason,
                          "install the package that holds this file");
    default:
        return verdict_of(ST_STATE_MISSING_DEPENDENCY, reason,
                          "install the package that holds this library, or add its folder to "
                          "LD_LIBRARY_PATH");
    }
}

/* The note's entries of one kind: the first that is not there gives the verdict. */
static stator_status has_required(const scan *s, const candidate *c, uint32_t kind, st_verdict *out)
{
    const st_note *note = &c->plugin->note;
    for (uint32_t i = 0; i < note->requires_count && out->state == ST_STATE_AVAILABLE; i++) {
        bool is_found = true;
        if (kind_of_required(note->requires_[i]) == kind) {
            ST_TRY(has_alternative(s, note->requires_[i], &is_found));
        }
        if (!is_found) {
            *out = verdict_of_required(s, note->requires_[i]);
        }
    }
    return STATOR_OK;
}

/* Everything that is asked of a file whose note could be read. */
static stator_status judge(const scan *s, const candidate *c, st_verdict *out)
{
    *out = verdict_of(ST_STATE_AVAILABLE, NULL, NULL);
    if (!is_enabled(s, c->plugin, out) || !is_trusted(s, c, out) || !fits_machine(s, c, out) ||
        !st_abi_fits(s->registry, &c->plugin->note, out) || !fits_sanitizer(s, c, out)) {
        return STATOR_OK;
    }
    /* Without the device a library for it would be installed in vain. */
    ST_TRY(has_required(s, c, REQUIRED_DEVICE, out));
    if (out->state == ST_STATE_AVAILABLE) {
        ST_TRY(has_libraries(s, c, out));
    }
    ST_TRY(has_required(s, c, REQUIRED_LIBRARY, out));
    return has_required(s, c, REQUIRED_FILE, out);
}

/* ---- one file ---- */

static st_verdict bad_file(const scan *s, const char *reason)
{
    return verdict_of(ST_STATE_BAD_FILE, st_registry_textf(s->registry, "%s", reason),
                      "install the plugin again, or remove the file");
}

/* Reads ELF and note. BAD_FILE (or WRONG_ARCH) in *out when there is no note to judge by. */
static stator_status read_candidate(const scan *s, candidate *c, st_verdict *out)
{
    st_registry *registry = s->registry;
    const st_elf_source source = {.fd = c->fd, .size = (uint64_t)c->st.st_size};
    stator_diag *why = NULL;
    *out = verdict_of(ST_STATE_AVAILABLE, NULL, NULL);
    stator_status status = st_elf_read(&source, &registry->arena, &c->elf, &why);
    if (status == STATOR_OK && c->elf.note == NULL) {
        if (!fits_machine(s, c, out)) {
            return STATOR_OK;
        }
        status = st_fail(&why, STATOR_DATA_LOSS,
                         "a shared object without a Stator note, so it is "
                         "no plugin");
    }
    st_note note = {0};
    if (status == STATOR_OK) {
        c->plugin->note_text = c->elf.note;
        c->plugin->note_len = c->elf.note_len;
        c->plugin->build_id = c->elf.build_id;
        status = st_note_parse(c->elf.note, c->elf.note_len, &registry->arena, &note, &why);
    }
    if (status == STATOR_OK) {
        c->plugin->note = note;
    } else if (status != STATOR_RESOURCE_EXHAUSTED) {
        *out = bad_file(s, st_diag_text(why));
        status = STATOR_OK;
    } else {
        status = st_fail_oom(s->err);
    }
    st_diag_release(why);
    return status;
}

/* Was this path found by an earlier rule? */
static bool is_known_file(const st_registry *registry, const char *path)
{
    for (uint32_t i = 0; i < registry->plugins.count; i++) {
        const char *known = registry->plugins.data[i]->path;
        if (known != NULL && strcmp(known, path) == 0) {
            return true;
        }
    }
    return false;
}

static st_plugin *new_plugin(const scan *s, uint32_t origin, const char *folder, const char *base)
{
    st_arena *arena = &s->registry->arena;
    st_plugin *plugin = st_arena_zalloc(arena, 1, sizeof *plugin);
    const size_t n = strlen(base);
    const bool has_suffix = n > 3 && strcmp(base + n - 3, ".so") == 0;
    const size_t size = strlen(folder) + n + 2;
    char *path = st_arena_alloc(arena, size, 1);
    if (plugin == NULL || path == NULL) {
        return NULL;
    }
    snprintf(path, size, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, base);
    st_arena_init(&plugin->arena, s->registry->mem);
    plugin->origin = origin;
    plugin->path = path;
    plugin->folder = st_arena_strndup(arena, folder, strlen(folder));
    plugin->is_own = s->own_folder != NULL && strcmp(folder, s->own_folder) == 0;
    plugin->file_name = st_arena_strndup(arena, base, has_suffix ? n - 3 : n);
    return plugin->folder != NULL && plugin->file_name != NULL ? plugin : NULL;
}

static stator_status add_bad_row(const scan *s, st_plugin *plugin, st_verdict verdict)
{
    return st_registry_add_rows(s->registry, plugin, verdict, s->err);
}

/* Items that were refused by an earlier probe of this build say so at once. */
static void recall_probes(const scan *s, uint32_t first)
{
    for (uint32_t i = first; i < s->registry->items.count; i++) {
        st_registry_item *item = s->registry->items.data[i];
        if (item->verdict.state == ST_STATE_AVAILABLE &&
            (s->registry->flags & STATOR_CTX_PROBE_HERE) == 0) {
            st_probe_recall(s->registry, item);
        }
    }
}

/* `folder` has no symbolic links in it. */
static stator_status add_file(scan *s, uint32_t origin, const char *folder, const char *base,
                              const char *folder_fault)
{
    char reason[REASON_SIZE];
    st_verdict verdict;
    st_plugin *plugin = new_plugin(s, origin, folder, base);
    ST_TRY_MEM(plugin, s->err);
    if (is_known_file(s->registry, plugin->path)) {
        return STATOR_OK;
    }
    candidate c = {.plugin = plugin, .folder_fault = folder_fault};
    c.fd = st_plugin_open(plugin->path, &c.st, reason, sizeof reason);
    if (c.fd < 0) {
        verdict = bad_file(s, reason);
        if (lstat(plugin->path, &c.st) == 0 && S_ISLNK(c.st.st_mode)) {
            verdict.state = ST_STATE_UNTRUSTED_PATH;
            verdict.hint = "put the file itself into the folder instead of a link to it";
        }
        return add_bad_row(s, plugin, verdict);
    }
    plugin->identity = st_identity_of(&c.st);
    stator_status status = read_candidate(s, &c, &verdict);
    if (status == STATOR_OK && verdict.state == ST_STATE_AVAILABLE) {
        status = judge(s, &c, &verdict);
    }
    close(c.fd);
    const uint32_t first = s->registry->items.count;
    ST_THEN(status, st_registry_add_rows(s->registry, plugin, verdict, s->err));
    if (status == STATOR_OK) {
        recall_probes(s, first);
    }
    return status;
}

/* ---- folders ---- */

static const char *folder_fault(const scan *s, const char *folder)
{
    char reason[REASON_SIZE];
    return st_trust_check_folder(&s->registry->trust, folder, reason, sizeof reason)
               ? NULL
               : st_registry_textf(s->registry, "%s", reason);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static stator_status list_folder(const scan *s, DIR *dir, const char **names, uint32_t *out_count)
{
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL && *out_count < FILES_MAX) {
        const size_t n = strlen(entry->d_name);
        if (n <= 3 || strcmp(entry->d_name + n - 3, ".so") != 0) {
            continue;
        }
        names[*out_count] = st_arena_strndup(&s->registry->arena, entry->d_name, n);
        ST_TRY_MEM(names[*out_count], s->err);
        (*out_count)++;
    }
    return STATOR_OK;
}

/* Was this very folder searched before? Notes it otherwise. */
static stator_status is_searched(scan *s, const char *folder, bool *out_is)
{
    struct stat st;
    *out_is = false;
    if (stat(folder, &st) != 0) {
        return STATOR_OK;
    }
    for (uint32_t i = 0; i < s->folders.count && !*out_is; i++) {
        *out_is = s->folders.data[i].dev == (uint64_t)st.st_dev &&
                  s->folders.data[i].ino == (uint64_t)st.st_ino;
    }
    if (!*out_is) {
        st_file_identity *slot = st_vec_push(s->registry->mem, &s->folders);
        ST_TRY_MEM(slot, s->err);
        *slot = st_identity_of(&st);
    }
    return STATOR_OK;
}

/* A row that stands for a folder or file the user named and that cannot be searched. */
static stator_status add_fault(const scan *s, uint32_t origin, const char *path, uint32_t state,
                               const char *reason, const char *hint)
{
    const char *slash = strrchr(path, '/');
    st_plugin *plugin =
        new_plugin(s, origin, "", slash != NULL && slash[1] != '\0' ? slash + 1 : path);
    ST_TRY_MEM(plugin, s->err);
    plugin->path = st_registry_textf(s->registry, "%s", path);
    return add_bad_row(s, plugin,
                       verdict_of(state, st_registry_textf(s->registry, "%s", reason), hint));
}

static stator_status search_folder(scan *s, uint32_t origin, const char *folder, DIR *dir)
{
    const char **names = st_alloc(s->registry->mem, FILES_MAX * sizeof *names, 8);
    uint32_t count = 0;
    ST_TRY_MEM(names, s->err);
    stator_status status = list_folder(s, dir, names, &count);
    const char *fault = count > 0 ? folder_fault(s, folder) : NULL;
    if (count > 1) {
        qsort(names, count, sizeof *names, compare_names);
    }
    for (uint32_t i = 0; i < count && status == STATOR_OK; i++) {
        status = add_file(s, origin, folder, names[i], fault);
    }
    st_free(s->registry->mem, names);
    return status;
}

static stator_status add_folder(scan *s, uint32_t origin, const char *path)
{
    char folder[PATH_SIZE];
    char reason[REASON_SIZE];
    bool searched = false;
    const bool is_named = origin == ST_ORIGIN_PATH_ENV || origin == ST_ORIGIN_PLUGIN_DIR;
    DIR *dir = realpath(path, folder) != NULL ? opendir(folder) : NULL;
    if (dir == NULL) {
        if (!is_named && (errno == ENOENT || errno == ENOTDIR)) {
            return STATOR_OK;
        }
        snprintf(reason, sizeof reason, "the plugin folder %.512s cannot be searched: %s", path,
                 strerror(errno));
        return add_fault(s, origin, path, ST_STATE_BAD_FILE, reason,
                         "correct the folder's path, or its permissions");
    }
    stator_status status = is_searched(s, folder, &searched);
    if (status == STATOR_OK && !searched) {
        status = search_folder(s, origin, folder, dir);
    }
    closedir(dir);
    return status;
}

/* A file named by itself; folders in its path may be symbolic links, the file may not. */
static stator_status add_named_file(scan *s, uint32_t origin, const char *path)
{
    char folder[PATH_SIZE];
    const char *slash = strrchr(path, '/');
    const char *above =
        slash == path ? "/" : st_arena_strndup(&s->registry->arena, path, (uint64_t)(slash - path));
    ST_TRY_MEM(above, s->err);
    if (slash[1] == '\0' || realpath(above, folder) == NULL) {
        return add_fault(s, origin, path, ST_STATE_BAD_FILE, "the file does not exist",
                         "correct STATOR_PLUGIN_FILES");
    }
    return add_file(s, origin, folder, slash + 1, folder_fault(s, folder));
}

/* ---- the rules of discovery, in order ---- */

static stator_status add_env_list(scan *s, uint32_t origin, const char *variable,
                                  stator_status (*add)(scan *, uint32_t, const char *))
{
    const char *list = secure_getenv(variable);
    while (list != NULL && *list != '\0') {
        const size_t n = strcspn(list, ":");
        const char *path = n > 0 ? st_arena_strndup(&s->registry->arena, list, n) : "";
        ST_TRY_MEM(path, s->err);
        if (n > 0 && path[0] != '/') {
            ST_TRY(
                add_fault(s, origin, path, ST_STATE_UNTRUSTED_PATH,
                          "the path is relative, so it depends on the current folder",
                          "give an absolute path in STATOR_PLUGIN_FILES and STATOR_PLUGIN_PATH"));
        } else if (n > 0) {
            ST_TRY(add(s, origin, path));
        }
        list += n + (list[n] == ':');
    }
    return STATOR_OK;
}

static stator_status add_user_folder(scan *s)
{
    char path[PATH_SIZE];
    const char *data = secure_getenv("XDG_DATA_HOME");
    const char *home = secure_getenv("HOME");
    int n = 0;
    if (data != NULL && data[0] == '/') {
        n = snprintf(path, sizeof path, "%s/stator/plugins", data);
    } else if (home != NULL && home[0] == '/') {
        n = snprintf(path, sizeof path, "%s/.local/share/stator/plugins", home);
    }
    return n > 0 && (size_t)n < sizeof path ? add_folder(s, ST_ORIGIN_USER, path) : STATOR_OK;
}

/* The folder of that name beside libstator.so in `path`; 0 when there is none. */
static bool folder_beside(const st_registry *registry, const char *name, char path[PATH_SIZE])
{
    const int n = registry->lib_dir != NULL
                      ? snprintf(path, PATH_SIZE, "%s/stator/%s", registry->lib_dir, name)
                      : 0;
    return n > 0 && n < PATH_SIZE;
}

/* Backends over the software device (docs/cuda.md): a build tree has them, an installation has not.
 */
static bool wants_soft_device(const st_registry *registry)
{
    const char *value =
        (registry->flags & STATOR_CTX_NO_ENV) == 0 ? secure_getenv("STATOR_SOFT_DEVICE") : NULL;
    return value != NULL && strcmp(value, "1") == 0;
}

static stator_status add_all(scan *s)
{
    st_registry *registry = s->registry;
    char path[PATH_SIZE];
    char real[PATH_SIZE];
    if (folder_beside(registry, "plugins-1", path) && realpath(path, real) != NULL) {
        s->own_folder = st_arena_strndup(&registry->arena, real, strlen(real));
    }
    if ((registry->flags & STATOR_CTX_NO_ENV) == 0) {
        s->select = secure_getenv("STATOR_PLUGIN_SELECT");
        s->disable = secure_getenv("STATOR_PLUGIN_DISABLE");
        st_allow_list_init(&s->allowed, registry->mem, &registry->trust,
                           secure_getenv("STATOR_PLUGIN_ALLOW"));
        ST_TRY(add_env_list(s, ST_ORIGIN_FILES_ENV, "STATOR_PLUGIN_FILES", add_named_file));
        ST_TRY(add_env_list(s, ST_ORIGIN_PATH_ENV, "STATOR_PLUGIN_PATH", add_folder));
    }
    for (uint32_t i = 0; i < registry->plugin_dirs.count; i++) {
        ST_TRY(add_folder(s, ST_ORIGIN_PLUGIN_DIR, registry->plugin_dirs.data[i]));
    }
    ST_TRY(add_user_folder(s));
    if (folder_beside(registry, "plugins-1", path)) {
        ST_TRY(add_folder(s, ST_ORIGIN_LIBDIR, path));
    }
    if (wants_soft_device(registry) && folder_beside(registry, "plugins-soft", path)) {
        ST_TRY(add_folder(s, ST_ORIGIN_LIBDIR, path));
    }
    return add_folder(s, ST_ORIGIN_USR_LOCAL, "/usr/local/lib/stator/plugins-1");
}

bool st_is_own_reference(const st_registry_item *item)
{
    return item->kind == STATOR_KIND_BACKEND && item->plugin->is_own &&
           item->found.state == ST_STATE_AVAILABLE && st_list_has(item->tags, "reference");
}

/* Whose name the item took although Stator needs it: the path of a reference backend's file, ""
 * for a pass of Stator's own; NULL: nobody's. */
static const char *owner_of_name(const st_registry *registry, uint32_t first,
                                 const st_registry_item *item)
{
    if (item->kind == STATOR_KIND_PASS) {
        return st_pass_find(item->name) != NULL ? "" : NULL;
    }
    for (uint32_t i = first; i < registry->items.count; i++) {
        const st_registry_item *o = registry->items.data[i];
        if (st_is_own_reference(o) && !item->plugin->is_own && item->kind == o->kind &&
            strcmp(o->name, item->name) == 0) {
            return o->plugin->path;
        }
    }
    return NULL;
}

/* Passes are looked up among Stator's own first, and the reference backends are what others are
 * compared with: an item of such a name would never run, or run in their place. */
static void mark_taken_names(st_registry *registry, uint32_t first)
{
    for (uint32_t i = first; i < registry->items.count; i++) {
        st_registry_item *item = registry->items.data[i];
        const char *owner =
            item->found.state == ST_STATE_AVAILABLE ? owner_of_name(registry, first, item) : NULL;
        if (owner != NULL) {
            item->verdict = verdict_of(
                ST_STATE_NAME_CLASH,
                owner[0] == '\0'
                    ? st_registry_textf(registry, "Stator has a pass '%s' of its own", item->name)
                    : st_registry_textf(registry, "'%s' is Stator's reference, %s", item->name,
                                        owner),
                "give it a name of its own, for instance with the vendor's in front");
            item->found = item->verdict;
        }
    }
}

/* Usable items of one name at one rank: none of them can be meant. */
static void mark_clashes(st_registry *registry, uint32_t first)
{
    for (uint32_t i = first; i < registry->items.count; i++) {
        st_registry_item *item = registry->items.data[i];
        const st_registry_item *other = NULL;
        for (uint32_t j = first; j < registry->items.count && other == NULL; j++) {
            const st_registry_item *o = registry->items.data[j];
            const bool was_usable = o->found.state == ST_STATE_AVAILABLE;
            if (j != i && o->kind == item->kind && o->plugin->origin == item->plugin->origin &&
                was_usable && strcmp(o->name, item->name) == 0) {
                other = o;
            }
        }
        if (item->found.state == ST_STATE_AVAILABLE && other != NULL) {
            item->verdict = verdict_of(
                ST_STATE_NAME_CLASH,
                st_registry_textf(registry, "%s is found by the same rule and is also called '%s'",
                                  other->plugin->path, item->name),
                "remove one of the two, or leave one out with STATOR_PLUGIN_DISABLE");
        }
    }
    for (uint32_t i = first; i < registry->items.count; i++) {
        st_registry_item *item = registry->items.data[i];
        if (item->verdict.state == ST_STATE_NAME_CLASH) {
            item->found = item->verdict;
        }
    }
}

/* Forgets what a scan that ran out of memory had added. */
static void drop_rows(st_registry *registry, uint32_t items, uint32_t plugins)
{
    registry->items.count = items;
    registry->plugins.count = plugins;
}

stator_status st_registry_scan_all(st_registry *registry, stator_diag **err)
{
    if ((registry->flags & STATOR_CTX_NO_PLUGINS) != 0) {
        return STATOR_OK;
    }
    scan s = {.registry = registry, .err = err, .allowed.mem = registry->mem};
    const uint32_t first_item = registry->items.count;
    const uint32_t first_plugin = registry->plugins.count;
    ST_TRY(st_ldcache_create(registry->mem, &s.libraries, err));
    const stator_status status = add_all(&s);
    if (status == STATOR_OK) {
        mark_taken_names(registry, first_item);
        mark_clashes(registry, first_item);
        st_registry_resolve(registry);
    } else {
        drop_rows(registry, first_item, first_plugin);
    }
    st_allow_list_deinit(&s.allowed);
    st_vec_free(registry->mem, &s.folders);
    st_ldcache_destroy(s.libraries);
    return status;
}
