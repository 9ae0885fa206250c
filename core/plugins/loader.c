/* Brings one plugin into the process: trust and identity again, dlopen by absolute path (NOW,
 * LOCAL, NODELETE), query, validation, init. Runs plugin code, so no lock is held.
 *
 * In: the immutable facts of a listed plugin. Out: st_load_result with a verdict.
 * Invariants: what is validated is what was listed. The file must have the identity it was listed
 * with, before and after dlopen, and the note inside the mapped object must be the note that was
 * read from the file (dlopen hands back an older object when one of that name is already loaded).
 */
#define _GNU_SOURCE
#include "core/plugins/registry_internal.h"

#include "core/base/dso.h"
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool st_plugin_is_ours(const st_plugin *plugin)
{
    return plugin->origin == ST_ORIGIN_LIBDIR && plugin->note.vendor != NULL &&
           strcmp(plugin->note.vendor, "Stator") == 0;
}

static void fail_load(st_load_result *result, uint32_t state, const char *hint, const char *format,
                      ...) STATOR_PRINTF(4, 5);

static void fail_load(st_load_result *result, uint32_t state, const char *hint, const char *format,
                      ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(result->reason, sizeof result->reason, format, args);
    va_end(args);
    snprintf(result->hint, sizeof result->hint, "%s", hint);
    result->verdict = (st_verdict){state, result->reason, result->hint};
}

/* Trust and identity of the file as it is now. */
static bool check_file(const st_registry *registry, const st_plugin *plugin, st_load_result *result)
{
    char why[sizeof result->reason];
    struct stat st;
    const int fd = st_plugin_open(plugin->path, &st, why, sizeof why);
    if (fd < 0) {
        fail_load(result, ST_STATE_BAD_FILE, "install the plugin again", "%s", why);
        return false;
    }
    close(fd);
    if (!st_trust_check_folder(&registry->trust, plugin->folder, why, sizeof why) ||
        !st_trust_check_stat(&registry->trust, &st, plugin->path, false, why, sizeof why)) {
        fail_load(result, ST_STATE_UNTRUSTED_PATH,
                  "take write permission from others (chmod go-w) and let root or yourself own the "
                  "file and its folders (chown)",
                  "%s", why);
        return false;
    }
    const st_file_identity now = st_identity_of(&st);
    if (memcmp(&now, &plugin->identity, sizeof now) != 0) {
        fail_load(result, ST_STATE_INVALID, "start again, so that plugins are listed anew",
                  "the file changed after it was listed");
        return false;
    }
    return true;
}

static bool check_same_file(const st_plugin *plugin, st_load_result *result)
{
    struct stat st;
    if (lstat(plugin->path, &st) != 0 || (uint64_t)st.st_dev != plugin->identity.dev ||
        (uint64_t)st.st_ino != plugin->identity.ino) {
        fail_load(result, ST_STATE_INVALID, "start again, so that plugins are listed anew",
                  "the file was replaced while it was loaded");
        return false;
    }
    return true;
}

static void *open_object(st_plugin *plugin, st_load_result *result)
{
    char text[sizeof result->reason - 64];
    st_plugin_call call;
    st_plugin_enter(&call, &plugin->callee, "dlopen"); /* runs its constructors */
    void *object = st_dso_open(plugin->path, text, sizeof text);
    (void)st_plugin_leave(&call, STATOR_OK, NULL);
    if (object != NULL) {
        return object;
    }
    if (strstr(text, "undefined symbol") != NULL) {
        fail_load(result, ST_STATE_INVALID,
                  "link the plugin with -Wl,-z,defs to find what is missing when it is built",
                  "the dynamic linker refuses it: %s", text);
    } else if (strstr(text, "cannot open shared object file") != NULL) {
        fail_load(result, ST_STATE_MISSING_DEPENDENCY,
                  "install the package that holds the library, or set LD_LIBRARY_PATH",
                  "the dynamic linker misses a library: %s", text);
    } else {
        fail_load(result, ST_STATE_INVALID, "rebuild or reinstall the plugin",
                  "the dynamic linker refuses it: %s", text);
    }
    return NULL;
}

/* ---- the note inside the mapped object ---- */

typedef struct mapped_search {
    const void *address; /* inside the object that is looked for */
    const st_plugin *plugin;
    bool is_found;
    bool is_same;
} mapped_search;

static bool holds(const struct dl_phdr_info *info, const void *address)
{
    const uintptr_t at = (uintptr_t)address;
    for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && at >= begin &&
            at - begin < info->dlpi_phdr[i].p_memsz) {
            return true;
        }
    }
    return false;
}

static int compare_mapped_note(struct dl_phdr_info *info, size_t size, void *self)
{
    mapped_search *search = self;
    (void)size;
    if (!holds(info, search->address)) {
        return 0;
    }
    search->is_found = true;
    for (uint32_t i = 0; i < info->dlpi_phnum && !search->is_same; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uint8_t *note = NULL;
        uint64_t len = 0;
        if (p->p_type == PT_NOTE &&
            st_elf_scan_notes((const uint8_t *)(info->dlpi_addr + p->p_vaddr), p->p_memsz,
                              p->p_align, &note, &len, NULL, NULL) > 0) {
            search->is_same = len == search->plugin->note_len &&
                              memcmp(note, search->plugin->note_text, (size_t)len) == 0;
        }
    }
    return 1;
}

static bool check_mapped(const st_plugin *plugin, const void *address, st_load_result *result)
{
    mapped_search search = {.address = address, .plugin = plugin};
    dl_iterate_phdr(compare_mapped_note, &search);
    if (!search.is_found || !search.is_same) {
        fail_load(result, ST_STATE_INVALID, "start the program again",
                  "another plugin was already loaded from this path, its note differs from the "
                  "file's");
        return false;
    }
    return true;
}

/* ---- query, validation, init ---- */

static const stator_plugin *query(const st_registry *registry, st_plugin *plugin,
                                  st_load_result *result)
{
    void *object = open_object(plugin, result);
    if (object == NULL || !check_same_file(plugin, result)) {
        return NULL;
    }
    void *symbol = st_dso_symbol(object, STATOR_PLUGIN_QUERY_SYMBOL);
    stator_plugin_query_fn fn = NULL;
    _Static_assert(sizeof fn == sizeof symbol, "POSIX: functions have object pointers' size");
    memcpy(&fn, &symbol, sizeof fn);
    if (fn == NULL) {
        fail_load(result, ST_STATE_INVALID, "export the function with STATOR_EXPORT",
                  "it does not export " STATOR_PLUGIN_QUERY_SYMBOL);
        return NULL;
    }
    if (!check_mapped(plugin, symbol, result)) {
        return NULL;
    }
    st_plugin_call call;
    st_plugin_enter(&call, &plugin->callee, "query");
    const stator_plugin *descriptor = fn(registry->host, registry->host->abi_major);
    (void)st_plugin_leave(&call, STATOR_OK, NULL);
    if (descriptor == NULL) {
        fail_load(result, ST_STATE_INVALID, "rebuild the plugin with the headers of this Stator",
                  STATOR_PLUGIN_QUERY_SYMBOL " returned NULL for ABI major %u",
                  registry->host->abi_major);
    }
    return descriptor;
}

static void call_init(const st_registry *registry, st_callee *callee,
                      const stator_plugin *descriptor, st_load_result *result)
{
    stator_diag *why = NULL;
    st_plugin_call call;
    if (!STATOR_HAS(descriptor, init)) {
        result->is_initialised = 1;
        return;
    }
    st_plugin_enter(&call, callee, "init");
    const stator_status status =
        st_plugin_leave(&call, descriptor->init(registry->host, &result->self, &why), &why);
    if (status == STATOR_OK) {
        result->is_initialised = 1;
    } else {
        const char *hint = st_diag_hint(why);
        result->is_out_of_memory = status == STATOR_RESOURCE_EXHAUSTED;
        fail_load(result, ST_STATE_INIT_FAILED,
                  hint != NULL ? hint : "see the plugin's own documentation", "its init failed: %s",
                  st_diag_text(why));
    }
    st_diag_release(why);
}

void st_plugin_shutdown(st_callee *callee, const stator_plugin *descriptor, void *self)
{
    if (STATOR_HAS(descriptor, shutdown)) {
        st_plugin_call call;
        st_plugin_enter(&call, callee, "shutdown");
        descriptor->shutdown(self);
        (void)st_plugin_leave(&call, STATOR_OK, NULL);
    }
}

void st_plugin_load(st_registry *registry, st_plugin *plugin, st_load_result *out_result)
{
    memset(out_result, 0, sizeof *out_result);
    plugin->callee = (st_callee){.name = plugin->note.name,
                                 .warn = registry->warn,
                                 .warn_self = registry->warn_self,
                                 .is_ours = (uint32_t)st_plugin_is_ours(plugin)};
    st_arena_init(&out_result->arena, registry->mem);
    out_result->verdict.state = ST_STATE_AVAILABLE;
    if (!check_file(registry, plugin, out_result)) {
        return;
    }
    const stator_plugin *descriptor = query(registry, plugin, out_result);
    if (descriptor == NULL) {
        return;
    }
    stator_diag *why = NULL;
    st_plugin_call call;
    st_plugin_enter(&call, &plugin->callee, "query"); /* a descriptor may point anywhere */
    const stator_status status = st_plugin_leave(
        &call,
        st_descriptor_check(registry->host, descriptor, &plugin->note, &out_result->arena,
                            &out_result->loaded, &out_result->loaded_count, &why),
        &why);
    if (status != STATOR_OK) {
        out_result->is_out_of_memory = status == STATOR_RESOURCE_EXHAUSTED;
        fail_load(out_result, ST_STATE_INVALID, "report this to the plugin's maker", "%s",
                  st_diag_text(why));
        st_diag_release(why);
        return;
    }
    out_result->descriptor = descriptor;
    call_init(registry, &plugin->callee, descriptor, out_result);
}
