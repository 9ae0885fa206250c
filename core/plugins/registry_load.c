/* Loading on demand, and items the application registers.
 *
 * A plugin goes NONE -> BUSY -> DONE or FAILED once. The thread that finds NONE marks it BUSY, lets
 * go of the lock, loads and probes, takes the lock and publishes everything at once: the items'
 * states, then, as the last thing, their `loaded` pointers. Others wait meanwhile. A thread that is
 * itself loading does not wait for another one (two plugins that load each other would stand
 * still): it gets an error instead. */
#define _GNU_SOURCE
#include "core/plugins/registry_internal.h"

#include "core/base/sized.h"
#include "core/base/utf8.h"
#include "core/plugins/options.h"
#include "ir/passes/pass.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- probe of one backend in this process ---- */

void st_probe_verdict(const st_loaded *loaded, st_verdict *out_verdict, char *reason,
                      size_t reason_size, char *hint, size_t hint_size)
{
    *out_verdict = (st_verdict){.state = ST_STATE_AVAILABLE};
    if (loaded->desc->kind != STATOR_KIND_BACKEND || loaded->as.backend->probe == NULL) {
        return;
    }
    stator_diag *why = NULL;
    st_plugin_call call;
    st_plugin_enter(&call, loaded->callee, "probe");
    const stator_status status =
        st_plugin_leave(&call, loaded->as.backend->probe(loaded->self, &why), &why);
    if (status != STATOR_OK) {
        const bool is_device = status == STATOR_UNAVAILABLE;
        const bool is_missing = status == STATOR_NOT_FOUND;
        const char *text = st_diag_hint(why);
        snprintf(reason, reason_size, "%s", st_diag_text(why));
        snprintf(hint, hint_size, "%s",
                 text != NULL ? text
                 : is_device  ? "connect or switch on the device, or choose another backend"
                 : is_missing ? "install what is named, or choose another backend"
                              : "see the plugin's own documentation");
        *out_verdict = (st_verdict){is_device    ? ST_STATE_NO_DEVICE
                                    : is_missing ? ST_STATE_MISSING_DEPENDENCY
                                                 : ST_STATE_INIT_FAILED,
                                    reason, hint};
    }
    st_diag_release(why);
}

/* ---- publishing ---- */

/* The loaded item of a row; NULL when there is none. */
static const st_loaded *match_row(const st_plugin *plugin, const st_registry_item *item)
{
    for (uint32_t i = 0; i < plugin->loaded_count; i++) {
        const stator_item *desc = plugin->loaded[i].desc;
        if (desc->kind == item->kind && strcmp(desc->name, item->name) == 0) {
            return &plugin->loaded[i];
        }
    }
    return NULL;
}

static st_verdict keep_verdict(st_registry *registry, st_verdict v)
{
    if (v.reason != NULL) {
        v.reason = st_registry_textf(registry, "%s", v.reason);
    }
    if (v.hint != NULL) {
        v.hint = st_registry_textf(registry, "%s", v.hint);
    }
    return v;
}

static bool is_open_for_load(const st_registry_item *item)
{
    return item->verdict.state == ST_STATE_AVAILABLE ||
           (item->is_recalled && item->verdict.state != ST_STATE_CRASHED_IN_PROBE);
}

/* Facts that only the descriptor knows when the note left them out. */
static void complete_row(st_registry_item *item, const st_loaded *loaded)
{
    item->option_count = loaded->desc->option_count;
    if (item->kind == STATOR_KIND_BACKEND) {
        item->priority = loaded->as.backend->priority;
        item->tags = item->tags != NULL ? item->tags : loaded->as.backend->tags;
        item->aliases = item->aliases != NULL ? item->aliases : loaded->as.backend->aliases;
    }
}

static void publish_failure(st_registry *registry, st_plugin *plugin, st_verdict verdict)
{
    plugin->failure = keep_verdict(registry, verdict);
    plugin->load_state = ST_LOAD_FAILED;
    for (uint32_t i = 0; i < registry->items.count; i++) {
        st_registry_item *item = registry->items.data[i];
        if (item->plugin == plugin && is_open_for_load(item)) {
            item->verdict = plugin->failure;
            item->is_recalled = 0;
        }
    }
}

/* Probes are run before the lock is taken; probe_of[i] belongs to loaded[i]. */
static stator_status publish_success(st_registry *registry, st_plugin *plugin,
                                     const st_load_result *result, const st_verdict *probe_of,
                                     stator_diag **err)
{
    st_plugin **slot = st_vec_push(registry->mem, &registry->initialised);
    ST_TRY_MEM(slot, err);
    *slot = plugin;
    plugin->descriptor = result->descriptor;
    plugin->self = result->self;
    plugin->is_initialised = 1;
    plugin->loaded = result->loaded;
    plugin->loaded_count = result->loaded_count;
    plugin->arena = result->arena;
    plugin->load_state = ST_LOAD_DONE;
    for (uint32_t i = 0; i < registry->items.count; i++) {
        st_registry_item *item = registry->items.data[i];
        const st_loaded *loaded = item->plugin == plugin ? match_row(plugin, item) : NULL;
        if (loaded == NULL || !is_open_for_load(item)) {
            continue;
        }
        item->verdict = keep_verdict(registry, probe_of[loaded - plugin->loaded]);
        if (item->is_recalled && item->verdict.state == ST_STATE_AVAILABLE) {
            st_probe_forget(registry, item);
        }
        item->is_recalled = 0;
        complete_row(item, loaded);
        if (item->verdict.state == ST_STATE_AVAILABLE) {
            atomic_store_explicit(&item->loaded, loaded, memory_order_release);
        }
    }
    return STATOR_OK;
}

/* ---- loading one plugin ---- */

typedef struct probe_texts {
    st_verdict verdict;
    char reason[1024];
    char hint[256];
} probe_texts;

/* The ops of a library are handed out as calls; 0: no memory. */
static bool wrap_ops(st_loaded *loaded, st_arena *arena)
{
    if (loaded->desc->kind != STATOR_KIND_OPLIB) {
        return true;
    }
    loaded->oplib_calls = st_oplib_calls(loaded->as.oplib, loaded->self, loaded->callee, arena);
    return loaded->oplib_calls != NULL;
}

/* Everything that runs plugin code. Lock not held. On success the probes' verdicts are in the
 * result's arena. */
static stator_status load_unlocked(st_registry *registry, st_plugin *plugin, st_load_result *result,
                                   st_verdict **out_probes, stator_diag **err)
{
    st_plugin_load(registry, plugin, result);
    ST_TRY_MEM(!result->is_out_of_memory, err);
    if (result->verdict.state != ST_STATE_AVAILABLE) {
        return STATOR_OK;
    }
    probe_texts *texts = st_arena_zalloc(&result->arena, result->loaded_count + 1u, sizeof *texts);
    st_verdict *probes = st_arena_zalloc(&result->arena, result->loaded_count + 1u, sizeof *probes);
    ST_TRY_MEM(texts && probes, err);
    for (uint32_t i = 0; i < result->loaded_count; i++) {
        st_loaded *loaded = &result->loaded[i];
        loaded->self = result->self;
        loaded->build_id = plugin->build_id;
        loaded->version = plugin->note.version;
        loaded->callee = &plugin->callee;
        ST_TRY_MEM(wrap_ops(loaded, &result->arena), err);
        st_probe_verdict(loaded, &probes[i], texts[i].reason, sizeof texts[i].reason, texts[i].hint,
                         sizeof texts[i].hint);
    }
    *out_probes = probes;
    return STATOR_OK;
}

/* Rows are tied to loaded items before these are published. */
static void tie_rows(const st_registry *registry, const st_plugin *plugin,
                     const st_load_result *result)
{
    for (uint32_t i = 0; i < registry->items.count; i++) {
        const st_registry_item *item = registry->items.data[i];
        for (uint32_t k = 0; k < result->loaded_count && item->plugin == plugin; k++) {
            const stator_item *desc = result->loaded[k].desc;
            if (desc->kind == item->kind && strcmp(desc->name, item->name) == 0) {
                result->loaded[k].row = item;
            }
        }
    }
}

/* Lock held; gives it up and takes it again. */
static stator_status load_plugin(st_registry *registry, st_plugin *plugin, stator_diag **err)
{
    st_load_result result;
    st_verdict *probes = NULL;
    plugin->load_state = ST_LOAD_BUSY;
    plugin->loader = pthread_self();
    pthread_mutex_unlock(&registry->lock);
    stator_status status = load_unlocked(registry, plugin, &result, &probes, err);
    pthread_mutex_lock(&registry->lock);
    if (status == STATOR_OK && result.verdict.state == ST_STATE_AVAILABLE) {
        tie_rows(registry, plugin, &result);
        status = publish_success(registry, plugin, &result, probes, err);
    } else if (status == STATOR_OK) {
        publish_failure(registry, plugin, result.verdict);
    }
    if (plugin->load_state != ST_LOAD_DONE) {
        if (result.is_initialised) { /* but there was no memory to keep it */
            st_plugin_shutdown(&plugin->callee, result.descriptor, result.self);
        }
        st_arena_deinit(&result.arena);
        if (status != STATOR_OK) {
            plugin->load_state = ST_LOAD_NONE; /* out of memory: may be tried again */
        }
    }
    pthread_cond_broadcast(&registry->changed);
    return status;
}

static bool is_loading_something(const st_registry *registry)
{
    for (uint32_t i = 0; i < registry->plugins.count; i++) {
        if (registry->plugins.data[i]->load_state == ST_LOAD_BUSY &&
            pthread_equal(registry->plugins.data[i]->loader, pthread_self())) {
            return true;
        }
    }
    return false;
}

/* Lock held. Leaves the plugin DONE or FAILED. */
static stator_status ensure_loaded(st_registry *registry, st_plugin *plugin, stator_diag **err)
{
    while (plugin->load_state == ST_LOAD_BUSY) {
        ST_FAIL_IF(is_loading_something(registry), err, STATOR_FAILED_PRECONDITION,
                   "plugin '%s' is being loaded, and the init or probe of a plugin must "
                   "not wait for that",
                   plugin->note.name);
        pthread_cond_wait(&registry->changed, &registry->lock);
    }
    return plugin->load_state == ST_LOAD_NONE ? load_plugin(registry, plugin, err) : STATOR_OK;
}

static stator_status load_locked(st_registry *registry, st_registry_item *item,
                                 const st_loaded **out_loaded, stator_diag **err)
{
    if (is_open_for_load(item) && item->plugin->path != NULL) {
        ST_TRY(ensure_loaded(registry, item->plugin, err));
    }
    *out_loaded = atomic_load_explicit(&item->loaded, memory_order_acquire);
    return *out_loaded != NULL ? STATOR_OK : st_registry_fail_unusable(registry, item, err);
}

/* Rows are the registry's own; callers see them const. */
static st_registry_item *own(const st_registry_item *item)
{
    return (st_registry_item *)(uintptr_t)item;
}

stator_status st_registry_load(st_registry *registry, const st_registry_item *item,
                               const st_loaded **out_loaded, stator_diag **err)
{
    *out_loaded = atomic_load_explicit(&own(item)->loaded, memory_order_acquire);
    if (*out_loaded != NULL) {
        return STATOR_OK;
    }
    pthread_mutex_lock(&registry->lock);
    const stator_status status = load_locked(registry, own(item), out_loaded, err);
    pthread_mutex_unlock(&registry->lock);
    return status;
}

stator_status st_registry_load_unnamed(st_registry *registry, const st_registry_item *item,
                                       const st_loaded **out_loaded, stator_diag **err)
{
    st_registry_try(registry, own(item));
    const stator_status status = st_registry_load(registry, item, out_loaded, err);
    if (status != STATOR_OK && status != STATOR_RESOURCE_EXHAUSTED &&
        item->kind != STATOR_KIND_BACKEND) { /* a backend: see the next in rank */
        st_registry_warn(registry, own(item));
    }
    return status;
}

/* Files that were refused for taking the name of a reference backend. */
static void warn_of_rivals(st_registry *registry, const st_registry_item *item)
{
    st_registry_item *rival;
    for (uint32_t i = 0; (rival = own(st_registry_at(registry, i))) != NULL; i++) {
        if (rival != item && rival->kind == item->kind &&
            rival->found.state == ST_STATE_NAME_CLASH && strcmp(rival->name, item->name) == 0) {
            st_registry_warn(registry, rival);
        }
    }
}

stator_status st_registry_get(st_registry *registry, uint32_t kind, const char *name,
                              const st_loaded **out_loaded, stator_diag **err)
{
    const st_registry_item *item = NULL;
    *out_loaded = NULL;
    ST_TRY(st_registry_find(registry, kind, name, &item, err));
    warn_of_rivals(registry, item);
    return st_registry_load(registry, item, out_loaded, err);
}

stator_status st_registry_each(st_registry *registry, uint32_t kind,
                               stator_status (*fn)(void *self, const st_loaded *loaded), void *self,
                               stator_diag **err)
{
    ST_TRY(st_registry_scan(registry, err));
    const st_registry_item *item;
    for (uint32_t i = 0; (item = st_registry_at(registry, i)) != NULL; i++) {
        const st_loaded *loaded = NULL;
        if (item->kind != kind || !st_registry_item_wins(registry, item)) {
            continue;
        }
        const stator_status status = st_registry_load_unnamed(registry, item, &loaded, NULL);
        ST_TRY_MEM(status != STATOR_RESOURCE_EXHAUSTED, err);
        if (status == STATOR_OK) {
            ST_TRY(fn(self, loaded));
        }
    }
    return STATOR_OK;
}

/* ---- devices ---- */

typedef struct device_list {
    st_arena *arena;
    st_vec(stator_device_info) rows;
    st_mem *mem;
    stator_diag *refused; /* fault of a device row */
    bool failed;
} device_list;

static void add_device(void *self, const stator_device_info *device)
{
    device_list *list = self;
    if (list->failed || list->rows.count >= 1024) {
        return;
    }
    stator_device_info *row = st_vec_push(list->mem, &list->rows);
    if (row == NULL) {
        list->failed = true;
        return;
    }
    if (ST_SIZED_READ(stator_device_info, row, device, &list->refused) != STATOR_OK) {
        list->rows.count--;
    }
}

/* A backend without the slot `devices` runs on the machine's own processor. */
static void add_host_cpu(device_list *list)
{
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    const stator_device_info cpu = {
        .struct_size = sizeof cpu,
        .name = "host CPU",
        .arch = st_elf_machine_name(st_elf_host_machine()),
        .memory_bytes = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0};
    add_device(list, &cpu);
}

/* A plugin's text as it may be shown, in the registry's arena. */
static const char *printable_text(st_registry *registry, const char *text)
{
    const uint64_t n = text != NULL ? strlen(text) : 0;
    const uint64_t size = st_printable(NULL, text, n, ST_LINES_NONE);
    char *copy = st_arena_alloc(&registry->arena, size + 1, 1);
    if (copy == NULL) {
        return "";
    }
    copy[st_printable(copy, text, n, ST_LINES_NONE)] = '\0';
    return copy;
}

/* Copies rows into the registry and shows them. Lock held. */
static stator_status show_devices(st_registry *registry, st_registry_item *item,
                                  const device_list *list, stator_diag **err)
{
    stator_device_info *rows =
        st_arena_zalloc(&registry->arena, list->rows.count + 1u, sizeof *rows);
    ST_TRY_MEM(rows != NULL && !list->failed, err);
    for (uint32_t i = 0; i < list->rows.count; i++) {
        rows[i] = list->rows.data[i];
        rows[i].name = printable_text(registry, rows[i].name);
        rows[i].arch = printable_text(registry, rows[i].arch);
    }
    item->devices = rows;
    item->device_count = list->rows.count;
    return STATOR_OK;
}

/* The loaded item of a row, also when its probe refused it; NULL when the plugin is not loaded. */
static const st_loaded *loaded_of_row(st_registry *registry, const st_registry_item *item)
{
    pthread_mutex_lock(&registry->lock);
    const st_loaded *loaded =
        item->plugin->load_state == ST_LOAD_DONE ? match_row(item->plugin, item) : NULL;
    pthread_mutex_unlock(&registry->lock);
    return loaded;
}

stator_status st_registry_probe_here(st_registry *registry, st_registry_item *item,
                                     stator_diag **err)
{
    const st_loaded *loaded = NULL;
    device_list list = {.mem = registry->mem};
    if (st_registry_load(registry, item, &loaded, NULL) == STATOR_RESOURCE_EXHAUSTED) {
        return st_fail_oom(err);
    }
    loaded = loaded_of_row(registry, item);
    char reason[1024];
    char hint[256];
    st_verdict verdict = {0};
    if (loaded != NULL && item->kind == STATOR_KIND_BACKEND) {
        st_probe_verdict(loaded, &verdict, reason, sizeof reason, hint, sizeof hint);
        if (verdict.state == ST_STATE_AVAILABLE && loaded->as.backend->devices == NULL) {
            add_host_cpu(&list);
        } else if (verdict.state == ST_STATE_AVAILABLE) {
            st_plugin_call call;
            st_plugin_enter(&call, loaded->callee, "devices");
            const stator_status told = loaded->as.backend->devices(loaded->self, add_device, &list);
            (void)st_plugin_leave(&call, told, NULL);
        }
        if (list.refused != NULL) {
            verdict = (st_verdict){ST_STATE_INVALID, st_diag_text(list.refused),
                                   "report this to the plugin's maker"};
        }
    }
    pthread_mutex_lock(&registry->lock);
    if (loaded != NULL) {
        item->verdict = keep_verdict(registry, verdict);
        atomic_store_explicit(&item->loaded, verdict.state == ST_STATE_AVAILABLE ? loaded : NULL,
                              memory_order_release);
    }
    item->probed = 1;
    const stator_status status = show_devices(registry, item, &list, err);
    pthread_mutex_unlock(&registry->lock);
    st_vec_free(registry->mem, &list.rows);
    st_diag_release(list.refused);
    return status;
}

/* ---- backends of the application ---- */

/* Fills a plugin that stands for one registered backend. */
static stator_status make_static(st_registry *registry, const stator_backend *backend, void *self,
                                 st_plugin *plugin, stator_diag **err)
{
    st_arena_init(&plugin->arena, registry->mem);
    st_loaded *loaded = st_arena_zalloc(&plugin->arena, 1, sizeof *loaded);
    st_note_item *row = st_arena_zalloc(&plugin->arena, 1, sizeof *row);
    char *abi = st_arena_alloc(&plugin->arena, 16, 1);
    ST_TRY_MEM(loaded && row && abi, err);
    ST_TRY(st_descriptor_check_item(registry->host, &backend->item, &plugin->arena, loaded, err));
    ST_FAIL_IF(loaded->desc->kind != STATOR_KIND_BACKEND, err, STATOR_INVALID_ARGUMENT,
               "'%s' is a %s, only backends are registered", loaded->desc->name,
               st_kind_name(loaded->desc->kind));
    loaded->self = self;
    plugin->callee = (st_callee){
        .name = loaded->desc->name, .warn = registry->warn, .warn_self = registry->warn_self};
    loaded->callee = &plugin->callee;
    snprintf(abi, 16, "%u.%u", loaded->desc->abi_major, loaded->desc->abi_minor_built);
    *row = (st_note_item){.kind = STATOR_KIND_BACKEND,
                          .name = loaded->desc->name,
                          .description = loaded->desc->doc,
                          .tags = loaded->as.backend->tags,
                          .aliases = loaded->as.backend->aliases,
                          .option_count = loaded->desc->option_count,
                          .has_priority = 1,
                          .priority = loaded->as.backend->priority};
    plugin->origin = ST_ORIGIN_API;
    plugin->file_name = loaded->desc->name;
    plugin->note = (st_note){
        .name = loaded->desc->name, .abi = abi, .items = row, .item_count = 1, .sanitizer = ""};
    plugin->self = self;
    plugin->loaded = loaded;
    plugin->loaded_count = 1;
    plugin->load_state = ST_LOAD_DONE;
    return STATOR_OK;
}

static stator_status add_static_locked(st_registry *registry, const stator_backend *backend,
                                       void *self, stator_diag **err)
{
    ST_TRY(st_registry_ensure_scan(registry, err)); /* finds the reference backends */
    st_plugin *plugin = st_arena_zalloc(&registry->arena, 1, sizeof *plugin);
    ST_TRY_MEM(plugin, err);
    stator_status status = make_static(registry, backend, self, plugin, err);
    for (uint32_t i = 0; i < registry->items.count && status == STATOR_OK; i++) {
        const st_registry_item *other = registry->items.data[i];
        const bool is_reference = st_is_own_reference(other);
        if ((is_reference || other->plugin->origin == ST_ORIGIN_API) &&
            strcmp(other->name, plugin->note.name) == 0) {
            status =
                st_fail(err, STATOR_ALREADY_EXISTS, "a backend called '%s' is already %s",
                        other->name, is_reference ? "there, as Stator's reference" : "registered");
        }
    }
    if (status == STATOR_OK) {
        const st_verdict usable = {.state = ST_STATE_AVAILABLE};
        status = st_registry_add_rows(registry, plugin, usable, err);
    }
    if (status != STATOR_OK) {
        st_arena_deinit(&plugin->arena);
        return status;
    }
    st_registry_item *item = registry->items.data[registry->items.count - 1];
    plugin->loaded->row = item;
    st_registry_resolve(registry);
    atomic_store_explicit(&item->loaded, plugin->loaded, memory_order_release);
    return STATOR_OK;
}

stator_status st_registry_add_static(st_registry *registry, const stator_backend *backend,
                                     void *self, stator_diag **err)
{
    ST_FAIL_IF(backend == NULL, err, STATOR_INVALID_ARGUMENT, "no backend was given");
    pthread_mutex_lock(&registry->lock);
    const stator_status status = add_static_locked(registry, backend, self, err);
    pthread_mutex_unlock(&registry->lock);
    return status;
}

/* ---- schemas for namespaced options ---- */

/* The item that the name of an option's namespace means; NULL: there is none. */
static const st_registry_item *find_space(st_registry *registry, uint32_t kind, const char *name)
{
    static const uint32_t others[2] = {STATOR_KIND_BACKEND, STATOR_KIND_FRONTEND};
    const st_registry_item *item = NULL;
    for (uint32_t i = 0; i < 2; i++) {
        if (st_registry_find(registry, kind != 0 ? kind : others[i], name, &item, NULL) ==
            STATOR_OK) {
            return item;
        }
    }
    return NULL;
}

bool st_registry_option_schema(void *self, uint32_t kind, const char *name,
                               struct st_option_schema *out)
{
    st_registry *registry = self;
    const st_loaded *loaded = NULL;
    *out = (st_option_schema){0};
    if (kind == STATOR_KIND_PASS && st_pass_find(name) != NULL) {
        return true; /* Stator's own have none */
    }
    const st_registry_item *item = find_space(registry, kind, name);
    ST_NEED(item != NULL);
    if (st_registry_load(registry, item, &loaded, NULL) == STATOR_OK) {
        out->options = loaded->desc->options;
        out->count = loaded->desc->option_count;
    } else {
        out->is_names_only = 1;
        out->names_only = item->options;
    }
    return true;
}
