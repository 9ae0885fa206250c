/* What kept code depends on beyond the plugin's own build and options: the processor, its caches,
 * the parts of the plugin that lie beside it, oneDNN. */
#define _GNU_SOURCE
#include "cpu_llvm.h"

#include "core/base/dso.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define PATH_BYTES 4096u

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

/* Size and time of a part; "none" where it is not there. */
static void put_part(const char *name, char *out, size_t size)
{
    char folder[PATH_BYTES];
    char path[PATH_BYTES + 64u];
    struct stat st;
    (void)snprintf(out, size, "none");
    if (!st_dso_folder_of((const void *)(uintptr_t)&cpu_compat_key, folder, sizeof folder)) {
        return;
    }
    (void)snprintf(path, sizeof path, "%s/../jit/%s", folder, name);
    if (stat(path, &st) == 0) {
        (void)snprintf(out, size, "%lld.%lld.%09ld", (long long)st.st_size,
                       (long long)st.st_mtim.tv_sec, (long)st.st_mtim.tv_nsec);
    }
}

const char *cpu_compat_key(void *inst_)
{
    cpu_inst *inst = inst_;
    const st_target *target = &inst->emitter.target;
    char processor[160];
    char jit[64];
    char dnnl[64];
    put_processor(processor, sizeof processor);
    put_part("cpu_llvm_jit.so", jit, sizeof jit);
    put_part("cpu_llvm_dnnl.so", dnnl, sizeof dnnl);
    (void)snprintf(inst->compat, sizeof inst->compat,
                   "%s vectors %u caches %llu %llu %llu generator %s library %s %u sleef %d",
                   processor, target->vector_bytes, (unsigned long long)target->l1_bytes,
                   (unsigned long long)target->l2_bytes, (unsigned long long)target->l3_bytes, jit,
                   inst->dnnl.library ? dnnl : "off", inst->dnnl.api ? inst->dnnl.api->version : 0u,
                   cpu_resolve(inst->self, "Sleef_sinf4_u10") != NULL);
    return inst->compat;
}
