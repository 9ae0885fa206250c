/* The folder in which a package is compiled; see build.h.
 *
 * It lies beside the library, so that the library is moved to its place whole. File names are ours;
 * the compiler runs in the folder without a shell and sees these names alone. */
#define _GNU_SOURCE
#include "build.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Constants are reached by 32-bit distances. */
#define DATA_MAX ((UINT64_C(1) << 31) - (UINT64_C(64) << 20))
#define LOG_FILE "cc.log"
#define LIBRARY_FILE "library.so"
#define FILES_MAX 100000u

extern char **environ;

static int fail_file(build_folder *folder, const char *what, const char *path)
{
    folder->failed = 1;
    (void)cli_fail(folder->json, errno == ENOENT ? "NOT_FOUND" : "UNAVAILABLE", NULL, "%s '%s': %s",
                   what, path, strerror(errno));
    return 0;
}

static int fail_memory(build_folder *folder)
{
    folder->failed = 1;
    (void)cli_fail(folder->json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    return 0;
}

/* ---- the folder ---- */

int build_folder_open(build_folder *folder, const char *output, const char *sources)
{
    folder->fd = -1;
    folder->is_kept = sources != NULL;
    const int n = sources != NULL
                      ? snprintf(folder->path, sizeof folder->path, "%s", sources)
                      : snprintf(folder->path, sizeof folder->path, "%s.XXXXXX", output);
    if (n < 0 || (size_t)n >= sizeof folder->path) {
        folder->path[0] = '\0';
        errno = ENAMETOOLONG;
        return fail_file(folder, "cannot make a folder at", output);
    }
    const int is_made = sources != NULL ? mkdir(folder->path, 0777) == 0 || errno == EEXIST
                                        : mkdtemp(folder->path) != NULL;
    if (!is_made) {
        const int ok = fail_file(folder, "cannot make a folder at", sources ? sources : output);
        folder->path[0] = '\0';
        return ok;
    }
    folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return folder->fd >= 0 || fail_file(folder, "cannot open the folder", folder->path);
}

/* Files are named here, so these are all. */
void build_folder_close(build_folder *folder)
{
    if (folder->fd >= 0) {
        for (uint32_t i = 0; !folder->is_kept && i < folder->n_files; i++) {
            (void)unlinkat(folder->fd, folder->files[i], 0);
        }
        (void)unlinkat(folder->fd, LOG_FILE, 0);
        (void)unlinkat(folder->fd, LIBRARY_FILE, 0);
        (void)close(folder->fd);
    }
    if (folder->path[0] != '\0' && !folder->is_kept) {
        (void)rmdir(folder->path);
    }
    free(folder->files);
    folder->files = NULL;
    folder->fd = -1;
}

static int write_all(int fd, const void *bytes, uint64_t size)
{
    const char *at = bytes;
    while (size > 0) {
        const ssize_t n = write(fd, at, size < (1u << 30) ? (size_t)size : (size_t)1 << 30);
        if (n < 0 && errno != EINTR) {
            return 0;
        }
        at += n > 0 ? n : 0;
        size -= n > 0 ? (uint64_t)n : 0;
    }
    return 1;
}

/* Notes the name: what the compiler is given, and what is removed in the end. */
static int note_file(build_folder *folder, const char *name)
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
    return 1;
}

int build_folder_add(build_folder *folder, const char *name, const void *bytes, uint64_t size)
{
    if (!note_file(folder, name)) {
        return 0;
    }
    const int fd =
        openat(folder->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    const int is_written = fd >= 0 && write_all(fd, bytes, size);
    const int is_closed = fd >= 0 && close(fd) == 0;
    return (is_written && is_closed) || fail_file(folder, "cannot write", name);
}

/* ---- pieces ---- */

static int is_identifier(const char *name)
{
    const size_t n =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return n > 0 && n < 48 && name[n] == '\0';
}

/* The bytes in a file of their own, and the assembler source that takes them in. */
static int add_data(build_folder *folder, const char *name, const void *bytes, uint64_t size)
{
    char file[64];
    char text[512];
    folder->data_bytes += size + 64u;
    if (size > DATA_MAX || folder->data_bytes > DATA_MAX) {
        folder->failed = 1;
        (void)cli_fail(folder->json, "UNSUPPORTED", NULL,
                       "the model has more than 2 GB of constants, which one library cannot hold");
        return 0;
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
    if (!build_folder_add(folder, file, bytes, size)) {
        return 0;
    }
    (void)snprintf(file, sizeof file, "%s.s", name);
    return build_folder_add(folder, file, text, (uint64_t)n);
}

stator_status build_folder_piece(void *folder_, uint32_t kind, const char *name, const void *bytes,
                                 uint64_t size)
{
    build_folder *folder = folder_;
    char file[64];
    int ok = 0;
    if (!is_identifier(name) || kind < STATOR_PACKAGE_C || kind > STATOR_PACKAGE_DATA) {
        folder->failed = 1;
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
        argv[count++] = (char *)(uintptr_t)"-lm";
    }
    return argv;
}

/* Runs argv in the folder with its output in the log; the error of starting it, or 0. */
static int run_in_folder(build_folder *folder, char *const *argv, int *out_status)
{
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return ENOMEM;
    }
    int rc = posix_spawn_file_actions_addfchdir_np(&actions, folder->fd);
    rc = rc != 0 ? rc : posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    rc = rc != 0 ? rc
                 : posix_spawn_file_actions_addopen(&actions, 1, LOG_FILE,
                                                    O_WRONLY | O_CREAT | O_TRUNC, 0666);
    rc = rc != 0 ? rc : posix_spawn_file_actions_adddup2(&actions, 1, 2);
    rc = rc != 0 ? rc : posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    while (rc == 0 && waitpid(pid, out_status, 0) < 0) {
        rc = errno == EINTR ? 0 : errno;
    }
    return rc;
}

/* The first lines of what the compiler said. */
static void read_log(const build_folder *folder, char *text, size_t size)
{
    const int fd = openat(folder->fd, LOG_FILE, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, size - 1u) : 0;
    text[n > 0 ? n : 0] = '\0';
    if (fd >= 0) {
        (void)close(fd);
    }
}

static int compile_files(build_folder *folder, const char *cc, const char *soname)
{
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
                                 LIBRARY_FILE};
    char log[600];
    int status = 0;
    char **argv = make_argv(folder, fixed, (uint32_t)(sizeof fixed / sizeof fixed[0]));
    if (argv == NULL) {
        return fail_memory(folder);
    }
    const int rc = run_in_folder(folder, argv, &status);
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
        return 1;
    }
    folder->failed = 1;
    return 0;
}

/* Moved; from a folder of the user's that is on another disk copied, beside its place first. */
static int copy_out(build_folder *folder, const char *output)
{
    if (renameat(folder->fd, LIBRARY_FILE, AT_FDCWD, output) == 0) {
        return 1;
    }
    if (errno != EXDEV) {
        return fail_file(folder, "cannot write", output);
    }
    char part[4200];
    char buffer[65536];
    (void)snprintf(part, sizeof part, "%s.part%ld", output, (long)getpid());
    const int from = openat(folder->fd, LIBRARY_FILE, O_RDONLY | O_CLOEXEC);
    const int to = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0777);
    int ok = from >= 0 && to >= 0;
    for (ssize_t n = 1; ok && n != 0;) {
        n = read(from, buffer, sizeof buffer);
        ok = n >= 0 && write_all(to, buffer, (uint64_t)n);
    }
    const int problem = errno;
    if (from >= 0) {
        (void)close(from);
    }
    ok = to >= 0 && close(to) == 0 && ok && rename(part, output) == 0;
    if (!ok) {
        errno = errno != 0 ? errno : problem;
        (void)fail_file(folder, "cannot write", output);
        (void)unlink(part);
    }
    return ok;
}

int build_folder_link(build_folder *folder, const char *cc, const char *name, const char *output)
{
    char map[256];
    const char *slash = strrchr(output, '/');
    const char *soname = slash != NULL ? slash + 1 : output;
    const int n = snprintf(map, sizeof map, "{ global: %s_*; local: *; };\n", name);
    return build_folder_add(folder, "exports.map", map, (uint64_t)n) &&
           compile_files(folder, cc, soname) && copy_out(folder, output);
}

int build_write(const char *path, const char *text, uint64_t size, int json)
{
    build_folder folder = {.json = json, .fd = -1};
    char part[4200];
    (void)snprintf(part, sizeof part, "%s.part%ld", path, (long)getpid());
    const int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const int is_written = fd >= 0 && write_all(fd, text, size);
    const int is_closed = fd >= 0 && close(fd) == 0;
    if (is_written && is_closed && rename(part, path) == 0) {
        return 1;
    }
    (void)fail_file(&folder, "cannot write", path);
    (void)unlink(part);
    return 0;
}
