/* The folder in which a package is compiled; see build.h.
 *
 * It lies beside the library, so that the library is moved to its place whole. File names are ours;
 * the compiler runs without a shell in the folder of the sources and sees these names alone. What
 * it writes, library and log, lies in our folder also when the sources lie in the user's. */
#define _GNU_SOURCE
#include "tools/package/build.h"

#include "core/base/fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Constants are reached by 32-bit distances. */
#define DATA_MAX ((UINT64_C(1) << 31) - (UINT64_C(64) << 20))
#define LOG_FILE "cc.log"
#define LIBRARY_FILE "library.so"
#define LIST_FILE "stator-build.list"
#define FILES_MAX 100000u
#define LIST_MAX ((size_t)FILES_MAX * 64u)
#define PATH_BYTES 4200u

static bool fail_file(build_folder *folder, const char *what, const char *path)
{
    folder->failed = true;
    return cli_fail(folder->json, errno == ENOENT ? "NOT_FOUND" : "UNAVAILABLE", NULL,
                    "%s '%s': %s", what, path, strerror(errno)) == CLI_OK;
}

static bool fail_memory(build_folder *folder)
{
    folder->failed = true;
    return cli_fail(folder->json, "RESOURCE_EXHAUSTED", NULL, "out of memory") == CLI_OK;
}

/* ---- the user's folder ---- */

/* Is it in the list of what former builds have made? */
static bool was_made(const build_folder *folder, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = folder->former; at != NULL && *at != '\0'; at += strcspn(at, "\n")) {
        at += *at == '\n';
        if (strcspn(at, "\n") == n && strncmp(at, name, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_made_now(const build_folder *folder, const char *name, size_t n)
{
    for (uint32_t i = 0; i < folder->n_files; i++) {
        if (strlen(folder->files[i]) == n && strncmp(folder->files[i], name, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool read_list(build_folder *folder)
{
    const int fd = openat(folder->kept_fd, LIST_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    size_t n = 0;
    folder->former = calloc(1, LIST_MAX + 1u);
    if (folder->former == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return fail_memory(folder);
    }
    for (ssize_t got = 1; fd >= 0 && got > 0 && n < LIST_MAX;) {
        got = read(fd, folder->former + n, LIST_MAX - n);
        n += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return true;
}

/* A line more, before the file is there: what is in the list may be written over. */
static bool list_file(build_folder *folder, const char *name)
{
    char line[80];
    struct stat there;
    if (was_made(folder, name)) {
        return true;
    }
    if (fstatat(folder->kept_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0) {
        folder->failed = true;
        return cli_fail(folder->json, "ALREADY_EXISTS", "name an empty folder",
                        "the folder of --sources has a file '%s' that no build has made",
                        name) == CLI_OK;
    }
    const int n = snprintf(line, sizeof line, "%s\n", name);
    const int fd = openat(folder->kept_fd, LIST_FILE,
                          O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    const bool is_written = fd >= 0 && st_write_all(fd, line, (uint64_t)n);
    const bool is_closed = fd >= 0 && close(fd) == 0;
    return (is_written && is_closed) || fail_file(folder, "cannot write", LIST_FILE);
}

/* Files of former builds that this one has no use for: *.c would take them in. */
static void remove_former(const build_folder *folder)
{
    char name[64];
    for (const char *at = folder->former; at != NULL && *at != '\0'; at += strcspn(at, "\n")) {
        at += *at == '\n';
        const size_t n = strcspn(at, "\n");
        if (n == 0 || n >= sizeof name || memchr(at, '/', n) != NULL ||
            is_made_now(folder, at, n)) {
            continue;
        }
        memcpy(name, at, n);
        name[n] = '\0';
        (void)unlinkat(folder->kept_fd, name, 0);
    }
}

/* ---- the folders ---- */

/* Something could not be made at this path: the folder that it would stand in is missing, or not
 * ours. */
static bool fail_inside(build_folder *folder, const char *path)
{
    char parent[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    const int n = slash == NULL ? 0 : (int)(slash - path);
    (void)snprintf(parent, sizeof parent, "%.*s%s", n, path,
                   slash == NULL   ? "."
                   : slash == path ? "/"
                                   : "");
    return fail_file(folder, "cannot write in the folder", parent);
}

static bool open_kept(build_folder *folder, const char *sources)
{
    if (mkdir(sources, 0777) != 0 && errno != EEXIST) {
        return fail_inside(folder, sources);
    }
    folder->kept_fd = open(sources, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->kept_fd < 0) {
        return fail_file(folder, "cannot open the folder", sources);
    }
    folder->fd = folder->kept_fd;
    return read_list(folder);
}

static bool open_work(build_folder *folder, const char *output)
{
    char path[4096];
    folder->fd = folder->kept_fd = folder->work_fd = -1;
    const int n = snprintf(path, sizeof path, "%s.XXXXXX", output);
    if (n < 0 || (size_t)n >= sizeof path) {
        errno = ENAMETOOLONG;
        return fail_file(folder, "cannot make a folder at", output);
    }
    if (mkdtemp(path) == NULL) {
        return fail_inside(folder, output);
    }
    if (realpath(path, folder->path) == NULL) {
        const bool ok = fail_file(folder, "cannot make a folder at", output);
        folder->path[0] = '\0';
        (void)rmdir(path);
        return ok;
    }
    folder->work_fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->work_fd < 0) {
        return fail_file(folder, "cannot open the folder", folder->path);
    }
    folder->fd = folder->work_fd;
    return true;
}

bool build_folder_open(build_folder *folder, const char *output, const char *sources)
{
    folder->output = output;
    folder->sources = sources;
    build_watch_lock(folder);
    const bool ok = open_work(folder, output) && (sources == NULL || open_kept(folder, sources));
    build_watch_unlock(folder);
    return ok;
}

/* Files are named here, so these are all. */
void build_folder_remove(const build_folder *folder)
{
    if (folder->work_fd >= 0) {
        for (uint32_t i = 0; i < folder->n_files; i++) {
            (void)unlinkat(folder->work_fd, folder->files[i], 0);
        }
        (void)unlinkat(folder->work_fd, LOG_FILE, 0);
        (void)unlinkat(folder->work_fd, LIBRARY_FILE, 0);
    }
    if (folder->path[0] != '\0') {
        (void)rmdir(folder->path);
    }
}

void build_folder_close(build_folder *folder)
{
    build_folder_remove(folder);
    if (folder->work_fd >= 0) {
        (void)close(folder->work_fd);
    }
    if (folder->kept_fd >= 0) {
        (void)close(folder->kept_fd);
    }
    free(folder->files);
    free(folder->former);
    *folder = (build_folder){.watch = folder->watch, .fd = -1, .kept_fd = -1, .work_fd = -1};
}

/* ---- files ---- */

/* Notes the name: what the compiler is given, and what is removed in the end. */
static bool note_file(build_folder *folder, const char *name)
{
    if (folder->n_files == FILES_MAX) {
        return fail_memory(folder);
    }
    if ((folder->n_files & (folder->n_files - 1u)) == 0) { /* 0, 1, 2, 4, ...: full */
        const size_t room = folder->n_files == 0 ? 1u : (size_t)folder->n_files * 2u;
        void *grown = realloc(folder->files, room * sizeof folder->files[0]);
        if (grown == NULL) {
            return fail_memory(folder);
        }
        folder->files = grown;
    }
    (void)snprintf(folder->files[folder->n_files++], sizeof folder->files[0], "%s", name);
    return true;
}

/* The folder of the user, or the library that the file is a part of: ours is gone when it is read.
 */
static bool fail_part(build_folder *folder, const char *name)
{
    char path[PATH_BYTES + 80];
    const char *sources = folder->kept_fd >= 0 ? folder->sources : NULL;
    if (sources != NULL) {
        (void)snprintf(path, sizeof path, "%.4096s/%.64s", sources, name);
    }
    return fail_file(folder, "cannot write", sources != NULL ? path : folder->output);
}

static bool add_file(build_folder *folder, const char *name, const void *bytes, uint64_t size)
{
    ST_NEED(note_file(folder, name));
    if (folder->kept_fd >= 0 && !list_file(folder, name)) {
        return false;
    }
    const int fd =
        openat(folder->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    const bool is_written = fd >= 0 && st_write_all(fd, bytes, size);
    const bool is_closed = fd >= 0 && close(fd) == 0;
    return (is_written && is_closed) || fail_part(folder, name);
}

bool build_folder_add(build_folder *folder, const char *name, const void *bytes, uint64_t size)
{
    build_watch_lock(folder);
    const bool ok = add_file(folder, name, bytes, size);
    build_watch_unlock(folder);
    return ok;
}

/* ---- pieces ---- */

static bool is_identifier(const char *name)
{
    const size_t n =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return n > 0 && n < 48 && name[n] == '\0';
}

/* The bytes in a file of their own, and the assembler source that takes them in. */
static bool add_data(build_folder *folder, const char *name, const void *bytes, uint64_t size)
{
    char file[64];
    char text[512];
    folder->data_bytes += size + 64u;
    if (size > DATA_MAX || folder->data_bytes > DATA_MAX) {
        folder->failed = true;
        return cli_fail(
                   folder->json, "UNSUPPORTED", NULL,
                   "the model has more than 2 GB of constants, which one library cannot hold") ==
               CLI_OK;
    }
    const int n = snprintf(text, sizeof text,
                           "    .section .rodata,\"a\",@progbits\n"
                           "    .balign 64\n"
                           "    .globl %s\n"
                           "    .hidden %s\n"
                           "%s:\n"
                           "    .incbin \"%s.bin\"\n"
                           "    .byte 0\n"
                           "    .section .note.GNU-stack,\"\",@progbits\n",
                           name, name, name, name);
    (void)snprintf(file, sizeof file, "%s.bin", name);
    ST_NEED(build_folder_add(folder, file, bytes, size));
    (void)snprintf(file, sizeof file, "%s.s", name);
    return build_folder_add(folder, file, text, (uint64_t)n);
}

stator_status build_folder_piece(void *folder_, uint32_t kind, const char *name, const void *bytes,
                                 uint64_t size)
{
    build_folder *folder = folder_;
    char file[64];
    bool ok = false;
    if (!is_identifier(name) || kind < STATOR_PACKAGE_C || kind > STATOR_PACKAGE_DATA) {
        folder->failed = true;
        (void)cli_fail(folder->json, "INTERNAL", NULL, "the backend made a piece without a name");
    } else if (kind == STATOR_PACKAGE_DATA) {
        ok = add_data(folder, name, bytes, size);
    } else {
        (void)snprintf(file, sizeof file, "%s.%s", name, kind == STATOR_PACKAGE_C ? "c" : "o");
        ok = build_folder_add(folder, file, bytes, size);
    }
    return ok ? STATOR_OK : STATOR_CANCELLED;
}

/* ---- the compiler ---- */

/* argv[0..n) is there; the files and the end follow. */
static char **make_argv(const build_folder *folder, const char *const *fixed, uint32_t n)
{
    char **argv = calloc((size_t)n + folder->n_files + 3u, sizeof *argv);
    uint32_t count = 0;
    for (uint32_t i = 0; argv != NULL && i < n; i++) {
        argv[count++] = (char *)(uintptr_t)fixed[i];
    }
    for (uint32_t i = 0; argv != NULL && i < folder->n_files; i++) {
        const char *dot = strrchr(folder->files[i], '.');
        if (dot != NULL && strlen(dot) == 2 && strchr("cos", dot[1]) != NULL) {
            argv[count++] = folder->files[i];
        }
    }
    if (argv != NULL) {
        argv[count++] = (char *)(uintptr_t) "-lm";
    }
    return argv;
}

/* Runs argv in the folder with its output in the log; the error of starting it, or 0. */
static int32_t run_in_folder(build_folder *folder, char *const *argv, int *out_status)
{
    char log[PATH_BYTES];
    posix_spawn_file_actions_t actions;
    (void)snprintf(log, sizeof log, "%s/%s", folder->path, LOG_FILE);
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return ENOMEM;
    }
    int rc = posix_spawn_file_actions_addfchdir_np(&actions, folder->fd);
    rc = rc != 0 ? rc : posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    rc = rc != 0 ? rc
                 : posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC,
                                                    0666);
    rc = rc != 0 ? rc : posix_spawn_file_actions_adddup2(&actions, 1, 2);
    rc = rc != 0 ? rc : build_watch_run(folder, &actions, argv, out_status);
    (void)posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/* The first lines of what the compiler said. */
static void read_log(const build_folder *folder, char *text, size_t size)
{
    const int fd = openat(folder->work_fd, LOG_FILE, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, size - 1u) : 0;
    text[n > 0 ? n : 0] = '\0';
    if (fd >= 0) {
        (void)close(fd);
    }
}

static bool compile_files(build_folder *folder, const char *cc, const char *soname)
{
    char library[PATH_BYTES];
    (void)snprintf(library, sizeof library, "%s/%s", folder->path, LIBRARY_FILE);
    const char *const fixed[] = {cc,
                                 "-std=gnu11",
                                 "-O2",
                                 "-g0",
                                 "-fPIC",
                                 "-fvisibility=hidden",
                                 "-fopenmp",
                                 "-shared",
                                 "-static-libgcc",
                                 "-Wl,-z,defs",
                                 "-Wl,-z,noexecstack",
                                 "-Wl,-z,relro",
                                 "-Wl,-z,now",
                                 "-Wl,-z,text",
                                 "-Wl,--as-needed",
                                 "-Wl,--version-script=exports.map",
                                 "-Xlinker",
                                 "-soname",
                                 "-Xlinker",
                                 soname,
                                 "-o",
                                 library};
    char log[600];
    int status = 0;
    char **argv = make_argv(folder, fixed, (uint32_t)(sizeof fixed / sizeof fixed[0]));
    if (argv == NULL) {
        return fail_memory(folder);
    }
    const int32_t rc = run_in_folder(folder, argv, &status);
    free(argv);
    if (rc == ENOENT || (rc == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 127)) {
        (void)cli_fail(folder->json, "UNAVAILABLE",
                       "install gcc (package build-essential), or name a compiler with --cc",
                       "there is no C compiler '%s'", cc);
    } else if (rc != 0) {
        (void)cli_fail(folder->json, "UNAVAILABLE", "name another compiler with --cc",
                       "cannot run '%s': %s", cc, strerror(rc));
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        read_log(folder, log, sizeof log);
        (void)cli_fail(folder->json, "INTERNAL", "gcc with OpenMP is needed; --cc names another",
                       "'%s' cannot compile the package: %s", cc, log);
    } else {
        return true;
    }
    folder->failed = true;
    return false;
}

bool build_folder_link(build_folder *folder, const char *cc, const char *name, const char *output)
{
    char map[256];
    const char *slash = strrchr(output, '/');
    const char *soname = slash != NULL ? slash + 1 : output;
    const int n = snprintf(map, sizeof map, "{ global: %s_*; local: *; };\n", name);
    ST_NEED(build_folder_add(folder, "exports.map", map, (uint64_t)n) &&
            compile_files(folder, cc, soname));
    build_watch_lock(folder);
    const bool ok = renameat(folder->work_fd, LIBRARY_FILE, AT_FDCWD, output) == 0;
    if (ok) {
        remove_former(folder);
    } else {
        (void)fail_file(folder, "cannot write", output);
    }
    build_watch_unlock(folder);
    return ok;
}

bool build_may_replace(const char *path, int json)
{
    struct stat there;
    if (stat(path, &there) != 0 || S_ISREG(there.st_mode)) {
        return true;
    }
    return cli_fail(json, "INVALID_ARGUMENT", "name a file that may be written",
                    "'%s' is there and no regular file: it would be replaced", path) == CLI_OK;
}
