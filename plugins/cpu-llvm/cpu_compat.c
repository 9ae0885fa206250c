/* What kept code depends on beyond the plugin's own build and options: the processor, its caches,
 * the parts of the plugin that lie beside it, and the libraries as they are now, not as they were
 * when the plugin was built. libLLVM is known by its file: a hit is not to open it. */
#define _GNU_SOURCE
#include "cpu_llvm.h"

#include "core/base/dso.h"

#include <stdio.h>
#include <sys/stat.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define PATH_BYTES 4096u
#define FILE_BYTES 64u /* size and time of a file, as text */

/* Model and features. Leaf 1 ebx tells the core that this thread is on, and is left out. */
static void put_processor(char *out, size_t size)
{
#if defined(__x86_64__)
    unsigned a[4] = {0};
    unsigned b[4] = {0};
    unsigned c[4] = {0};
    unsigned d[4] = {0};
    (void)__get_cpuid(0, &a[0], &b[0], &c[0], &d[0]);
    (void)__get_cpuid(1, &a[1], &b[1], &c[1], &d[1]);
    (void)__get_cpuid_count(7, 0, &a[2], &b[2], &c[2], &d[2]);
    (void)__get_cpuid_count(7, 1, &a[3], &b[3], &c[3], &d[3]);
    (void)snprintf(out, size, "%08x%08x%08x %08x %08x %08x %08x%08x%08x %08x%08x", b[0], d[0], c[0],
                   a[1], c[1], d[1], b[2], c[2], d[2], a[3], d[3]);
#else
    (void)snprintf(out, size, "unknown");
#endif
}

/* Size and time of a file; "none" where it is not there. */
static void put_file(const char *path, char *out, size_t size)
{
    struct stat st;
    (void)snprintf(out, size, "none");
    if (stat(path, &st) == 0) {
        (void)snprintf(out, size, "%lld.%lld.%09ld", (long long)st.st_size,
                       (long long)st.st_mtim.tv_sec, (long)st.st_mtim.tv_nsec);
    }
}

/* The same of a file in the folder of what lies at the address, or a path from there. */
static void put_beside(const void *address, const char *name, char *out, size_t size)
{
    char folder[PATH_BYTES];
    char path[PATH_BYTES + 64u];
    (void)snprintf(out, size, "none");
    if (address != NULL && st_dso_folder_of(address, folder, sizeof folder)) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, name);
        put_file(path, out, size);
    }
}

static void put_llvm(char *out, size_t size)
{
#if defined(CPU_LLVM_FILE)
    put_file(CPU_LLVM_FILE, out, size);
#else
    (void)snprintf(out, size, "none");
#endif
}

static void put_library(const cpu_inst *inst, char *out, size_t size)
{
    char version[64] = "unknown";
    char part[FILE_BYTES];
    (void)snprintf(out, size, "off");
    if (inst->dnnl.library != NULL) {
        inst->dnnl.api->identity(version, sizeof version);
        put_beside((const void *)(uintptr_t)&cpu_compat_key, "../jit/cpu_llvm_dnnl.so", part,
                   sizeof part);
        (void)snprintf(out, size, "%s %s", part, version);
    }
}

const char *cpu_compat_key(void *inst_)
{
    cpu_inst *inst = inst_;
    const st_target *target = &inst->emitter.target;
    char processor[160];
    char jit[FILE_BYTES];
    char llvm[FILE_BYTES];
    char sleef[FILE_BYTES];
    char library[2u * FILE_BYTES];
    put_processor(processor, sizeof processor);
    put_beside((const void *)(uintptr_t)&cpu_compat_key, "../jit/cpu_llvm_jit.so", jit, sizeof jit);
    put_llvm(llvm, sizeof llvm);
    put_beside(cpu_resolve(inst->self, "Sleef_sinf4_u10"), "libsleef.so.3", sleef, sizeof sleef);
    put_library(inst, library, sizeof library);
    (void)snprintf(inst->compat, sizeof inst->compat,
                   "%s vectors %u caches %llu %llu %llu generator %s llvm %s library %s sleef %s",
                   processor, target->vector_bytes, (unsigned long long)target->l1_bytes,
                   (unsigned long long)target->l2_bytes, (unsigned long long)target->l3_bytes, jit,
                   llvm, library, sleef);
    return inst->compat;
}
