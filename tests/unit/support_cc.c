#define _GNU_SOURCE
#include "support_cc.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 32

static int run(const char *const *words)
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        execvp(words[0], (char *const *)(uintptr_t)words);
        _exit(127);
    }
    cr_assert(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int cc_is_there(void)
{
    const char *const words[] = {"sh", "-c", "command -v cc >/dev/null", NULL};
    return run(words) == 0;
}

void cc_module_init(cc_module *m, const char *text, const char *const *flags)
{
    char source[96];
    char object[96];
    const char *words[WORDS_MAX] = {"cc",
                                    "-std=c11",
                                    "-w",
                                    "-shared",
                                    "-fPIC",
                                    "-fwrapv",
                                    "-ffp-contract=off",
                                    "-fno-math-errno"};
    size_t n = 8;
    (void)snprintf(m->folder, sizeof m->folder, "/tmp/stator-cc-XXXXXX");
    cr_assert(mkdtemp(m->folder) != NULL);
    (void)snprintf(source, sizeof source, "%s/k.c", m->folder);
    (void)snprintf(object, sizeof object, "%s/k.so", m->folder);
    FILE *file = fopen(source, "w");
    cr_assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    for (; *flags; flags++) {
        cr_assert(n < WORDS_MAX - 5);
        words[n++] = *flags;
    }
    words[n++] = "-o";
    words[n++] = object;
    words[n++] = source;
    words[n] = "-lm";
    cr_assert_eq(run(words), 0, "cc refuses %s", source);
    m->handle = dlopen(object, RTLD_NOW | RTLD_LOCAL);
    cr_assert(m->handle != NULL, "%s", dlerror());
    (void)unlink(source);
    (void)unlink(object);
    (void)rmdir(m->folder);
}

void *cc_module_symbol(const cc_module *m, const char *name)
{
    void *symbol = dlsym(m->handle, name);
    cr_assert(symbol != NULL, "%s", name);
    return symbol;
}

void cc_module_deinit(cc_module *m)
{
    (void)dlclose(m->handle);
}
