/* Opens lib/stator/jit/cpu_llvm_dnnl.so beside the plugin's own folder. Where it is missing, or
 * libdnnl is, that is a line in the log and nothing else. */
#include "cpu_dnnl.h"

#include "core/base/dso.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES 4096u

static void refuse(cpu_dnnl *out, const char *what, const char *detail)
{
    (void)snprintf(out->reason, sizeof out->reason, "%s%.*s", what,
                   (int)(sizeof out->reason - 120u), detail);
}

static void look(cpu_dnnl *out)
{
    char folder[PATH_BYTES];
    char path[PATH_BYTES + 64u];
    char text[400] = "";
    struct stat there;
    if (!st_dso_folder_of((const void *)(uintptr_t)&cpu_dnnl_open, folder, sizeof folder)) {
        refuse(out, "the plugin cannot tell where it lies", "");
        return;
    }
    (void)snprintf(path, sizeof path, "%s/../jit/cpu_llvm_dnnl.so", folder);
    if (stat(path, &there) != 0) {
        refuse(out,
               "this build is without oneDNN (install libdnnl-dev and build again): there is no ",
               path);
        return;
    }
    if (!st_dso_is_trusted(path, folder)) {
        refuse(out, "owner or mode of the part with oneDNN cannot be trusted: ", path);
        return;
    }
    void *dso = st_dso_open(path, text, sizeof text);
    if (dso == NULL) {
        refuse(out, "libdnnl (package libdnnl2) cannot be opened: ", text);
        return;
    }
    const dnnl_query_fn query = (dnnl_query_fn)(uintptr_t)st_dso_symbol(dso, DNNL_QUERY_NAME);
    out->api = query ? query() : NULL;
    if (out->api == NULL || out->api->struct_size != sizeof(dnnl_api)) {
        out->api = NULL;
        refuse(out, "the part with oneDNN is of another build than the plugin: ", path);
    }
}

void cpu_dnnl_open(cpu_dnnl *out, const stator_host *host, st_mem *mem, uint32_t flags)
{
    char text[256] = "";
    char line[640];
    memset(out, 0, sizeof *out);
    look(out);
    if (out->api &&
        out->api->open(host, mem, flags, &out->library, text, sizeof text) != STATOR_OK) {
        refuse(out, text, "");
    }
    if (out->library == NULL && host != NULL) {
        (void)snprintf(line, sizeof line, "inductor-cpu: contractions become loops: %s",
                       out->reason);
        host->log->write(host->ctx, "plugins", 2, line);
    }
}

void cpu_dnnl_close(cpu_dnnl *dnnl)
{
    if (dnnl->library != NULL) {
        dnnl->api->close(dnnl->library);
        dnnl->library = NULL;
    }
}
