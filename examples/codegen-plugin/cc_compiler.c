/* Runs the C compiler as a child in a temporary folder, which is gone afterwards. */
#define _DEFAULT_SOURCE /* mkdtemp */
#include "cc_plugin.h"

#include "core/base/diag.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_BYTES 512
#define WORDS_MAX 64
#define MESSAGE_BYTES 600

extern char **environ;

/* What the text of codegen/loopir/loop_c.h needs, and what its compilers warn of. */
static const char *const needed[] = {
    "-std=c11", "-w", "-shared", "-fPIC", "-fwrapv", "-ffp-contract=off", "-fno-math-errno"};
#define NEEDED_COUNT (sizeof needed / sizeof needed[0])

typedef struct paths {
    char folder[PATH_BYTES];
    char source[PATH_BYTES + 16];
    char object[PATH_BYTES + 16];
    char messages[PATH_BYTES + 16];
} paths;

static stator_status make_folder(paths *p, stator_diag **err)
{
    const char *tmp = getenv("TMPDIR");
    const int n = snprintf(p->folder, sizeof p->folder, "%s/stator-cc-XXXXXX",
                           tmp != NULL && *tmp != '\0' ? tmp : "/tmp");
    if (n < 0 || n >= PATH_BYTES || mkdtemp(p->folder) == NULL) {
        return st_fail(err, STATOR_UNAVAILABLE, "cc: cannot make a folder in %s: %s",
                       tmp ? tmp : "/tmp", strerror(errno));
    }
    (void)snprintf(p->source, sizeof p->source, "%s/kernels.c", p->folder);
    (void)snprintf(p->object, sizeof p->object, "%s/kernels.so", p->folder);
    (void)snprintf(p->messages, sizeof p->messages, "%s/messages", p->folder);
    return STATOR_OK;
}

static void remove_folder(const paths *p)
{
    (void)unlink(p->source);
    (void)unlink(p->object);
    (void)unlink(p->messages);
    (void)rmdir(p->folder);
}

static stator_status write_source(const paths *p, const char *text, stator_diag **err)
{
    FILE *file = fopen(p->source, "w");
    bool is_ok = file != NULL && fputs(text, file) >= 0;
    if (file != NULL && fclose(file) != 0) {
        is_ok = false;
    }
    return is_ok ? STATOR_OK
                 : st_fail(err, STATOR_UNAVAILABLE, "cc: cannot write %s: %s", p->source,
                           strerror(errno));
}

/* Splits `flags`, a copy of the option, at spaces into words from place n on. */
static stator_status split_flags(char *flags, char **words, size_t *n, stator_diag **err)
{
    char *rest = NULL;
    for (char *word = strtok_r(flags, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        if (*n + 2 >= WORDS_MAX) {
            return st_fail(err, STATOR_INVALID_ARGUMENT,
                           "cc: option 'flags' has more than %d words", WORDS_MAX / 2);
        }
        words[(*n)++] = word;
    }
    return STATOR_OK;
}

/* The first messages of the compiler, for the error. */
static stator_status refused(const cc_instance *instance, const paths *p, stator_diag **err)
{
    char text[MESSAGE_BYTES] = "";
    FILE *file = fopen(p->messages, "r");
    if (file != NULL) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        (void)fclose(file);
    }
    return st_fail(err, STATOR_INTERNAL, "cc: %s %s refuses the kernels:\n%s", instance->compiler,
                   instance->flags, text);
}

static stator_status run_compiler(const cc_instance *instance, const paths *p, char **words,
                                  stator_diag **err)
{
    posix_spawn_file_actions_t actions;
    pid_t child = 0;
    int status = 0;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return st_fail_oom(err);
    }
    int failed = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, p->messages,
                                                  O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (failed == 0) {
        failed = posix_spawnp(&child, instance->compiler, &actions, NULL, words, environ);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) {
        return st_fail(err, STATOR_UNAVAILABLE,
                       "cc: cannot run '%s': %s; the option 'cc' names another compiler",
                       instance->compiler, strerror(failed));
    }
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return st_fail(err, STATOR_INTERNAL, "cc: the compiler's status is lost");
        }
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? STATOR_OK : refused(instance, p, err);
}

static stator_status compile_in(const cc_instance *instance, const paths *p, stator_diag **err)
{
    char *words[WORDS_MAX] = {instance->compiler};
    char *flags = st_strdup(instance->mem, instance->flags);
    size_t n = 1;
    if (flags == NULL) {
        return st_fail_oom(err);
    }
    for (size_t i = 0; i < NEEDED_COUNT; i++) {
        words[n++] = (char *)(uintptr_t)needed[i];
    }
    words[n++] = (char *)(uintptr_t) "-o";
    words[n++] = (char *)(uintptr_t)p->object;
    words[n++] = (char *)(uintptr_t)p->source;
    stator_status status = split_flags(flags, words, &n, err);
    words[n] = (char *)(uintptr_t) "-lm";
    if (status == STATOR_OK) {
        status = run_compiler(instance, p, words, err);
    }
    st_free(instance->mem, flags);
    return status;
}

stator_status cc_build(const cc_instance *instance, const char *text, void **out_handle,
                       stator_diag **err)
{
    paths p;
    *out_handle = NULL;
    stator_status status = make_folder(&p, err);
    if (status != STATOR_OK) {
        return status;
    }
    status = write_source(&p, text, err);
    if (status == STATOR_OK) {
        status = compile_in(instance, &p, err);
    }
    if (status == STATOR_OK && (*out_handle = dlopen(p.object, RTLD_NOW | RTLD_LOCAL)) == NULL) {
        status = st_fail(err, STATOR_INTERNAL, "cc: %s", dlerror());
    }
    remove_folder(&p);
    return status;
}
