/* Opens the code generator, lib/stator/jit/cpu_llvm_jit.so beside the plugin's own folder, when the
 * first program is compiled, and resolves the functions that generated code calls. */
#include "cpu_llvm.h"

#include "core/base/diag.h"
#include "core/base/dso.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES 4096u

enum library { LIBRARY_M = 0, LIBRARY_C = 1, LIBRARY_SLEEF = 2 };

static void refuse(cpu_self *self, const char *hint, const char *what, const char *path)
{
    (void)snprintf(self->reason, sizeof self->reason, "%s%.*s", what,
                   (int)(sizeof self->reason - 120u), path);
    (void)snprintf(self->hint, sizeof self->hint, "%s", hint);
}

static void open_generator(cpu_self *self)
{
    static const char build_hint[] = "install llvm-22-dev (or llvm-19-dev) and build Stator again";
    char folder[PATH_BYTES];
    char path[PATH_BYTES + 64u];
    char text[400];
    if (!st_dso_folder_of((const void *)(uintptr_t)&cpu_jit_open, folder, sizeof folder)) {
        refuse(self, build_hint, "the plugin cannot tell where it lies", "");
        return;
    }
    (void)snprintf(path, sizeof path, "%s/../jit/cpu_llvm_jit.so", folder);
    struct stat there;
    if (stat(path, &there) != 0) {
        refuse(self, build_hint, "this build has no code generator: there is no ", path);
        return;
    }
    if (!st_dso_is_trusted(path, folder)) {
        refuse(self, "check the owner and the mode of the file",
               "owner or mode of the code generator cannot be trusted: ", path);
        return;
    }
    void *dso = st_dso_open(path, text, sizeof text);
    if (dso == NULL) {
        (void)snprintf(path, sizeof path, "%s", text);
        refuse(self, "install the library that is named (libLLVM: package libllvm22 or llvm-22)",
               "the code generator cannot be opened: ", path);
        return;
    }
    const jit_query_fn query = (jit_query_fn)(uintptr_t)st_dso_symbol(dso, JIT_QUERY_NAME);
    const jit_api *jit = query ? query() : NULL;
    if (jit == NULL || jit->struct_size != sizeof(jit_api)) {
        refuse(self, "install plugin and code generator from one build",
               "the code generator is of another version: ", path);
        return;
    }
    if (!jit->probe(text, sizeof text)) {
        refuse(self, "use another backend", "", text);
        return;
    }
    self->jit = jit;
}

/* Is the file of libLLVM where the build found it? Opening it takes longer than a program from the
 * cache. */
static bool has_llvm(void)
{
#if defined(CPU_LLVM_FILE)
    struct stat there;
    return stat(CPU_LLVM_FILE, &there) == 0 && S_ISREG(there.st_mode);
#else
    return 0;
#endif
}

stator_status cpu_jit_look(cpu_self *self, stator_diag **err)
{
    char folder[PATH_BYTES];
    char path[PATH_BYTES + 64u];
    struct stat there;
    const jit_api *jit = NULL;
    if (st_dso_folder_of((const void *)(uintptr_t)&cpu_jit_open, folder, sizeof folder)) {
        (void)snprintf(path, sizeof path, "%s/../jit/cpu_llvm_jit.so", folder);
        if (has_llvm() && stat(path, &there) == 0 && st_dso_is_trusted(path, folder)) {
            return STATOR_OK;
        }
    }
    return cpu_jit_open(self, &jit, err);
}

stator_status cpu_jit_open(cpu_self *self, const jit_api **out, stator_diag **err)
{
    (void)pthread_mutex_lock(&self->mutex);
    if (!self->is_open) {
        open_generator(self);
        self->is_open = 1;
    }
    (void)pthread_mutex_unlock(&self->mutex);
    *out = self->jit;
    if (self->jit != NULL) {
        return STATOR_OK;
    }
    (void)st_fail(err, STATOR_UNAVAILABLE, "%s", self->reason);
    if (err != NULL) {
        st_diag_set_hint(*err, "%s", self->hint);
    }
    return STATOR_UNAVAILABLE;
}

/* ---- functions that code calls ---- */

static bool is_mathematics(const char *name)
{
    char base[32];
    const size_t n = strlen(name);
    for (uint32_t code = ST_LOOP_FIRST_SCALAR; code < ST_LOOP_CODE_COUNT; code++) {
        const char *libm = st_loop_desc(code) ? st_loop_desc(code)->libm : NULL;
        (void)snprintf(base, sizeof base, "%sf", libm ? libm : "");
        if (libm && (strcmp(name, libm) == 0 || strcmp(name, base) == 0)) {
            return true;
        }
    }
    /* LLVM's own calls: for fma and rounding on processors without the instructions, and one for
     * the sine and the cosine of a number. */
    static const char *const more[] = {"fma",    "fmaf",  "roundeven", "roundevenf", "floor",
                                       "floorf", "ceil",  "ceilf",     "trunc",      "truncf",
                                       "rint",   "rintf", "sincos",    "sincosf"};
    for (size_t i = 0; n && i < sizeof more / sizeof more[0]; i++) {
        if (strcmp(name, more[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void *library_of(cpu_self *self, uint32_t which)
{
    static const char *const names[] = {"libm.so.6", "libc.so.6", "libsleef.so.3"};
    char unused[256];
    (void)pthread_mutex_lock(&self->mutex);
    if (!self->tried[which]) {
        self->libraries[which] = st_dso_open(names[which], unused, sizeof unused);
        self->tried[which] = 1;
    }
    void *library = self->libraries[which];
    (void)pthread_mutex_unlock(&self->mutex);
    return library;
}

const void *cpu_resolve(void *self_, const char *name)
{
    cpu_self *self = self_;
    void *library = NULL;
    if (strncmp(name, "Sleef_", 6) == 0) {
        library = library_of(self, LIBRARY_SLEEF);
    } else if (strcmp(name, "memcpy") == 0 || strcmp(name, "memset") == 0 ||
               strcmp(name, "memmove") == 0) {
        library = library_of(self, LIBRARY_C);
    } else if (is_mathematics(name)) {
        library = library_of(self, LIBRARY_M);
    }
    return library ? st_dso_symbol(library, name) : NULL;
}
