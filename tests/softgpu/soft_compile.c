/* See soft_compile.h.
 *
 * The cache is a folder: HASH.c is a program's text, as a debugger shows it, HASH.so its object,
 * and gpu_prelude-HASH/gpu_prelude.h the prelude. Files come into being by a rename, so that
 * processes may share the folder. */
#define _GNU_SOURCE
#include "soft_compile.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_BYTES 512
#define ARGUMENTS_MAX (SOFT_DEFINES_MAX + 40)

extern char **environ;

/* The prelude's text lies in this library: its beginning is the software device's, the functions
 * are those of all devices. */
__asm__(".pushsection .rodata\n"
        ".global soft_prelude_begin\n"
        ".hidden soft_prelude_begin\n"
        "soft_prelude_begin:\n"
        "    .incbin \"" ST_SOFT_PRELUDE "\"\n"
        "    .incbin \"" ST_SOFT_POLYNOMIALS "\"\n"
        "    .incbin \"" ST_SOFT_MATH "\"\n"
        ".global soft_prelude_end\n"
        ".hidden soft_prelude_end\n"
        "soft_prelude_end:\n"
        "    .byte 0\n"
        ".popsection\n");
extern const char soft_prelude_begin[] __attribute__((visibility("hidden")));
extern const char soft_prelude_end[] __attribute__((visibility("hidden")));

/* ---- files ---- */

static bool read_file(const char *path, soft_bytes *out)
{
    struct stat state;
    *out = (soft_bytes){NULL, 0};
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return false;
    }
    bool is_read = fstat(fileno(file), &state) == 0;
    out->data = is_read ? malloc((size_t)state.st_size + 1) : NULL;
    is_read = out->data != NULL &&
              fread(out->data, 1, (size_t)state.st_size, file) == (size_t)state.st_size;
    fclose(file);
    if (is_read) {
        out->size = (size_t)state.st_size;
        out->data[out->size] = '\0';
    } else {
        free(out->data);
        out->data = NULL;
    }
    return is_read;
}

/* A name beside `path` that no other thread or process uses; false: it would be too long. */
static bool name_beside(const char *path, const char *suffix, char out[PATH_BYTES])
{
    static _Atomic unsigned n;
    const int length = snprintf(out, PATH_BYTES, "%s.%d-%u%s", path, (int)getpid(), n++, suffix);
    return length > 0 && length < PATH_BYTES;
}

/* Puts a file in place, whole; one that is there already is the same. */
static bool write_file(const char *path, const char *text, size_t bytes)
{
    char other[PATH_BYTES];
    if (access(path, R_OK) == 0) {
        return true;
    }
    FILE *file = name_beside(path, "", other) ? fopen(other, "wb") : NULL;
    const bool is_written = file != NULL && fwrite(text, 1, bytes, file) == bytes;
    const bool is_closed = file != NULL && fclose(file) == 0;
    return is_written && is_closed && rename(other, path) == 0;
}

/* STATOR_SOFT_CACHE, else the build tree's folder, else one of this user's in the folder for
 * temporary files. */
static bool find_cache(char out[PATH_BYTES])
{
    const char *named = getenv("STATOR_SOFT_CACHE");
    const char *temporary = getenv("TMPDIR");
    snprintf(out, PATH_BYTES - 100, "%s", named != NULL && *named != '\0' ? named : ST_SOFT_CACHE);
    mkdir(out, 0777);
    if (access(out, W_OK | X_OK) != 0 && (named == NULL || *named == '\0')) {
        snprintf(out, PATH_BYTES - 100, "%s/stator-softgpu-%u",
                 temporary != NULL ? temporary : "/tmp", (unsigned)getuid());
        mkdir(out, 0700);
    }
    return access(out, W_OK | X_OK) == 0;
}

/* ---- the command ---- */

typedef struct command {
    const char *arguments[ARGUMENTS_MAX];
    unsigned n;
    char include[PATH_BYTES + 16];
    char arch[40];
    char ptx[40];
} command;

static void add(command *c, const char *argument)
{
    c->arguments[c->n++] = argument;
}

/* The compiler and the flags that a program's bits depend on. */
static void begin_command(const soft_program *program, command *c)
{
    static const char *const flags[] = {"-x",
                                        "c",
                                        "-std=c11",
                                        "-w",
                                        "-fPIC",
                                        "-shared",
                                        "-nostartfiles",
                                        "-fvisibility=hidden",
                                        "-fwrapv",
                                        "-fno-strict-aliasing",
                                        "-fno-math-errno",
                                        "-fno-trapping-math",
                                        "-fno-stack-protector",
                                        "-fsanitize=alignment",
                                        "-fsanitize-undefined-trap-on-error",
                                        "-Werror=implicit-function-declaration",
                                        "-Werror=implicit-int",
                                        "-Werror=int-conversion",
                                        "-Werror=incompatible-pointer-types",
                                        "-Wl,-z,defs"};
    const char *cc = getenv("STATOR_SOFT_CC");
    const char *debug = getenv("STATOR_SOFT_DEBUG");
    const bool is_debug = debug != NULL && strcmp(debug, "1") == 0;
    c->n = 0;
    add(c, cc != NULL && *cc != '\0' ? cc : "cc");
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        add(c, flags[i]);
    }
    add(c, is_debug ? "-O0" : "-O1");
    add(c, is_debug ? "-g" : "-g0");
    add(c, program->contracts ? "-ffp-contract=fast" : "-ffp-contract=off");
#ifdef __x86_64__
    if (__builtin_cpu_supports("fma")) {
        add(c, "-mfma");
    }
    if (__builtin_cpu_supports("sse4.1")) {
        add(c, "-msse4.1");
    }
#endif
    snprintf(c->arch, sizeof(c->arch), "-DST_SOFT_ARCH=%u", program->arch);
    snprintf(c->ptx, sizeof(c->ptx), "-DST_SOFT_IS_PTX=%d", program->is_ptx ? 1 : 0);
    add(c, c->arch);
    add(c, c->ptx);
    for (unsigned i = 0; i < program->n_defines; i++) {
        add(c, program->defines[i]);
    }
}

/* FNV-1a of two lanes of 64 bits. */
typedef struct hash {
    uint64_t low, high;
} hash;

static void mix(hash *h, const char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        h->low = (h->low ^ (unsigned char)data[i]) * 0x100000001b3u;
        h->high = (h->high ^ (unsigned char)data[i]) * 0x100000001b3u + (h->low >> 32);
    }
}

static hash hash_of(const command *c, const char *text)
{
    hash h = {0xcbf29ce484222325u, 0x6c62272e07bb0142u};
    for (unsigned i = 0; i < c->n; i++) {
        mix(&h, c->arguments[i], strlen(c->arguments[i]) + 1);
    }
    mix(&h, soft_prelude_begin, (size_t)(soft_prelude_end - soft_prelude_begin));
    mix(&h, text, strlen(text));
    return h;
}

/* ---- running it ---- */

/* Runs the command with what it prints in a file; its status, or -1 when it cannot be run. */
static int run(command *c, const char *log_path)
{
    posix_spawn_file_actions_t actions;
    pid_t child = 0;
    int status = 0;
    add(c, NULL);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log_path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    const int failed = posix_spawnp(&child, c->arguments[0], &actions, NULL,
                                    (char *const *)(uintptr_t)c->arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) {
        return -1;
    }
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void set_log(soft_bytes *log, const char *text, const char *detail)
{
    char line[PATH_BYTES + 100];
    snprintf(line, sizeof(line), "%.90s: %.500s\n", text, detail);
    log->data = strdup(line);
    log->size = log->data != NULL ? strlen(line) : 0;
}

/* Compiles the text at `source` to `object`; both are in the cache. */
static bool build(command *c, const char *source, const char *object, soft_bytes *out_log)
{
    char made[PATH_BYTES];
    char log_path[PATH_BYTES];
    if (!name_beside(object, ".tmp", made) || !name_beside(object, ".log", log_path)) {
        return false;
    }
    add(c, "-o");
    add(c, made);
    add(c, source);
    add(c, "-lm");
    const int status = run(c, log_path);
    const bool has_log = read_file(log_path, out_log);
    unlink(log_path);
    if (status < 0 && (!has_log || out_log->size == 0)) {
        free(out_log->data);
        set_log(out_log, "the C compiler cannot be run (STATOR_SOFT_CC names another)",
                c->arguments[0]);
    }
    if (status == 0 && rename(made, object) == 0) {
        return true;
    }
    unlink(made);
    return false;
}

/* For the vendors' compilers, which judge the same texts (docs/softgpu.md): one file for each text
 * in the folder that STATOR_SOFT_TEXTS names. */
static void keep_text(const char *text)
{
    char path[PATH_BYTES];
    const char *folder = getenv("STATOR_SOFT_TEXTS");
    hash h = {0, 0};
    if (folder == NULL || *folder == '\0') {
        return;
    }
    mix(&h, text, strlen(text));
    mkdir(folder, 0777);
    snprintf(path, sizeof(path), "%.400s/%016llx.cu", folder, (unsigned long long)h.high);
    if (!write_file(path, text, strlen(text))) {
        fprintf(stderr, "softgpu: %s cannot be written\n", path);
    }
}

bool soft_compile(const soft_program *program, soft_bytes *out_object, soft_bytes *out_log)
{
    char folder[PATH_BYTES];
    char source[PATH_BYTES];
    char object[PATH_BYTES];
    char prelude[PATH_BYTES + 64];
    command c;
    *out_object = *out_log = (soft_bytes){NULL, 0};
    if (!find_cache(folder)) {
        set_log(out_log, "the cache folder cannot be written (STATOR_SOFT_CACHE)", folder);
        return false;
    }
    keep_text(program->text);
    begin_command(program, &c);
    const hash h = hash_of(&c, program->text);
    snprintf(source, sizeof(source), "%.400s/%016llx%016llx.c", folder, (unsigned long long)h.high,
             (unsigned long long)h.low);
    snprintf(object, sizeof(object), "%.400s/%016llx%016llx.so", folder, (unsigned long long)h.high,
             (unsigned long long)h.low);
    if (program->has_prelude && read_file(object, out_object)) {
        return true;
    }
    hash p = {0, 0};
    mix(&p, soft_prelude_begin, (size_t)(soft_prelude_end - soft_prelude_begin));
    snprintf(c.include, sizeof(c.include), "-I%.400s/prelude-%016llx", folder,
             (unsigned long long)p.high);
    mkdir(c.include + 2, 0777);
    snprintf(prelude, sizeof(prelude), "%.500s/gpu_prelude.h", c.include + 2);
    if (!write_file(source, program->text, strlen(program->text)) ||
        !write_file(prelude, soft_prelude_begin, (size_t)(soft_prelude_end - soft_prelude_begin))) {
        set_log(out_log, "the program cannot be written", source);
        return false;
    }
    if (program->has_prelude) {
        add(&c, c.include);
    }
    return build(&c, source, object, out_log) && read_file(object, out_object);
}
