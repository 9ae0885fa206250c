/* Rows, names and texts of the registry; see registry.h for what it promises and
 * registry_internal.h for how its files share the work. */
#define _GNU_SOURCE
#include "core/plugins/registry_internal.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAMES_MAX = 512, PATH_SIZE = 4096 };

static const char *const state_names[] = {"AVAILABLE",   "NO_DEVICE",      "MISSING_DEPENDENCY",
                                          "ABI_TOO_OLD", "ABI_TOO_NEW",    "WRONG_ARCH",
                                          "BAD_FILE",    "UNTRUSTED_PATH", "NAME_CLASH",
                                          "DISABLED",    "INIT_FAILED",    "CRASHED_IN_PROBE",
                                          "INVALID"};
_Static_assert(sizeof state_names / sizeof state_names[0] == ST_STATE_COUNT, "state names");

static const char *const origin_names[] = {"api",  "files-env", "path-env", "plugin-dir",
                                           "user", "libdir",    "usr-local"};
_Static_assert(sizeof origin_names / sizeof origin_names[0] == ST_ORIGIN_COUNT, "origin names");

const char *st_state_name(uint32_t state)
{
    return state < ST_STATE_COUNT ? state_names[state] : "INVALID";
}

uint32_t st_state_parse(const char *text)
{
    uint32_t state = 0;
    while (state < ST_STATE_COUNT && strcmp(text, state_names[state]) != 0) {
        state++;
    }
    return state;
}

const char *st_registry_textf(st_registry *registry, const char *format, ...)
{
    va_list args;
    va_list again;
    va_start(args, format);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, format, args);
    char *text = n >= 0 ? st_arena_alloc(&registry->arena, (uint64_t)n + 1, 1) : NULL;
    if (text != NULL) {
        vsnprintf(text, (size_t)n + 1, format, again);
    }
    va_end(again);
    va_end(args);
    return text != NULL ? text : "no memory is left to say more";
}

/* ---- rows ---- */

static stator_status push_item(st_registry *registry, st_plugin *plugin, const st_note_item *from,
                               st_verdict verdict, stator_diag **err)
{
    st_registry_item *item = st_arena_zalloc(&registry->arena, 1, sizeof *item);
    ST_TRY_MEM(item, err);
    item->plugin = plugin;
    item->kind = from->kind;
    item->name = from->name;
    item->tags = from->tags;
    item->aliases = from->aliases;
    item->description = from->description;
    item->options = from->options;
    item->extensions = from->extensions;
    item->option_count = from->option_count;
    item->priority = from->priority;
    item->verdict = verdict;
    item->found = verdict;
    st_registry_item **slot = st_vec_push(registry->mem, &registry->items);
    ST_TRY_MEM(slot, err);
    item->index = registry->items.count - 1;
    *slot = item;
    return STATOR_OK;
}

stator_status st_registry_add_rows(st_registry *registry, st_plugin *plugin, st_verdict verdict,
                                   stator_diag **err)
{
    const uint32_t before = registry->items.count;
    const st_note_item unknown = {.name = plugin->file_name};
    const bool has_note = plugin->note.name != NULL;
    const uint32_t n = has_note ? plugin->note.item_count : 1;
    stator_status status = STATOR_OK;
    for (uint32_t i = 0; i < n && status == STATOR_OK; i++) {
        status =
            push_item(registry, plugin, has_note ? &plugin->note.items[i] : &unknown, verdict, err);
    }
    st_plugin **slot = status == STATOR_OK ? st_vec_push(registry->mem, &registry->plugins) : NULL;
    if (slot == NULL) {
        registry->items.count = before;
        return status != STATOR_OK ? status : st_fail_oom(err);
    }
    *slot = plugin;
    return STATOR_OK;
}

static bool same_name(const st_registry_item *a, const st_registry_item *b)
{
    return a->kind == b->kind && strcmp(a->name, b->name) == 0;
}

static bool was_usable(const st_registry_item *item)
{
    return item->found.state == ST_STATE_AVAILABLE;
}

/* Does a win over b? Usable before unusable, then the better rank, then the earlier row. */
static bool beats(const st_registry_item *a, const st_registry_item *b)
{
    if (was_usable(a) != was_usable(b)) {
        return was_usable(a);
    }
    if (a->plugin->origin != b->plugin->origin) {
        return a->plugin->origin < b->plugin->origin;
    }
    return a->index < b->index;
}

void st_registry_resolve(st_registry *registry)
{
    const st_item_list *items = &registry->items;
    for (uint32_t i = 0; i < items->count; i++) {
        st_registry_item *item = items->data[i];
        const st_registry_item *winner = item;
        for (uint32_t j = 0; j < items->count; j++) {
            if (j != i && same_name(items->data[j], item) && beats(items->data[j], winner)) {
                winner = items->data[j];
            }
        }
        item->is_winner = winner == item;
        const bool is_shadowed =
            winner != item && was_usable(winner) && winner->plugin->origin < item->plugin->origin;
        item->shadowed_by = is_shadowed ? winner : NULL;
    }
}

/* ---- creation ---- */

/* Finds libstator.so by an address of its own. A program that holds the host statically has none.
 */
static stator_status find_library(st_registry *registry, stator_diag **err)
{
    char path[PATH_SIZE];
    char exe[PATH_SIZE];
    Dl_info info;
    if (dladdr((void *)(uintptr_t)&st_registry_create, &info) == 0 || info.dli_fname == NULL ||
        realpath(info.dli_fname, path) == NULL || realpath("/proc/self/exe", exe) == NULL ||
        strcmp(path, exe) == 0) {
        return STATOR_OK;
    }
    const char *slash = strrchr(path, '/');
    registry->lib_path = st_strdup(registry->mem, path);
    registry->lib_dir =
        st_strndup(registry->mem, path, slash == path ? 1 : (uint64_t)(slash - path));
    return registry->lib_path != NULL && registry->lib_dir != NULL ? STATOR_OK : st_fail_oom(err);
}

static stator_status set_library(st_registry *registry, const char *lib_dir, stator_diag **err)
{
    char path[PATH_SIZE];
    char file[PATH_SIZE];
    ST_FAIL_IF(realpath(lib_dir, path) == NULL, err, STATOR_NOT_FOUND,
               "the library folder %s does not exist", lib_dir);
    const int n = snprintf(file, sizeof file, "%s/libstator.so", path);
    registry->lib_dir = st_strdup(registry->mem, path);
    registry->lib_path = st_strdup(
        registry->mem, n > 0 && (size_t)n < sizeof file && access(file, F_OK) == 0 ? file : path);
    return registry->lib_path != NULL && registry->lib_dir != NULL ? STATOR_OK : st_fail_oom(err);
}

static stator_status fill(st_registry *registry, const st_registry_options *options,
                          stator_diag **err)
{
    for (uint32_t i = 0; i < options->plugin_dir_count; i++) {
        char **slot = st_vec_push(registry->mem, &registry->plugin_dirs);
        ST_TRY_MEM(slot, err);
        *slot = st_strdup(registry->mem, options->plugin_dirs[i]);
        ST_TRY_MEM(*slot, err);
    }
    ST_TRY(options->lib_dir != NULL ? set_library(registry, options->lib_dir, err)
                                    : find_library(registry, err));
    st_trust_init(&registry->trust, registry->lib_path);
    return STATOR_OK;
}

stator_status st_registry_create(const st_registry_options *options, st_registry **out_registry,
                                 stator_diag **err)
{
    *out_registry = NULL;
    st_registry *registry = st_calloc(options->mem, 1, sizeof *registry);
    ST_TRY_MEM(registry, err);
    registry->mem = options->mem;
    registry->host = options->host;
    registry->flags = options->flags;
    registry->warn = options->warn;
    registry->warn_self = options->warn_self;
    st_arena_init(&registry->arena, options->mem);
    pthread_mutex_init(&registry->lock, NULL);
    pthread_cond_init(&registry->changed, NULL);
    const stator_status status = fill(registry, options, err);
    if (status != STATOR_OK) {
        st_registry_destroy(registry);
        return status;
    }
    *out_registry = registry;
    return STATOR_OK;
}

void st_registry_destroy(st_registry *registry)
{
    if (registry == NULL) {
        return;
    }
    st_mem *mem = registry->mem;
    for (uint32_t i = registry->initialised.count; i-- > 0;) {
        st_plugin *plugin = registry->initialised.data[i];
        st_plugin_shutdown(&plugin->callee, plugin->descriptor, plugin->self);
    }
    for (uint32_t i = 0; i < registry->plugins.count; i++) {
        st_arena_deinit(&registry->plugins.data[i]->arena);
    }
    for (uint32_t i = 0; i < registry->plugin_dirs.count; i++) {
        st_free(mem, registry->plugin_dirs.data[i]);
    }
    st_vec_free(mem, &registry->plugin_dirs);
    st_vec_free(mem, &registry->initialised);
    st_vec_free(mem, &registry->plugins);
    st_vec_free(mem, &registry->items);
    st_free(mem, registry->lib_dir);
    st_free(mem, registry->lib_path);
    st_arena_deinit(&registry->arena);
    pthread_cond_destroy(&registry->changed);
    pthread_mutex_destroy(&registry->lock);
    st_free(mem, registry);
}

/* ---- reading ---- */

stator_status st_registry_ensure_scan(st_registry *registry, stator_diag **err)
{
    if (registry->is_scanned) {
        return STATOR_OK;
    }
    ST_TRY(st_registry_scan_all(registry, err));
    registry->is_scanned = 1;
    return STATOR_OK;
}

stator_status st_registry_scan(st_registry *registry, stator_diag **err)
{
    pthread_mutex_lock(&registry->lock);
    const stator_status status = st_registry_ensure_scan(registry, err);
    pthread_mutex_unlock(&registry->lock);
    return status;
}

uint32_t st_registry_count(st_registry *registry)
{
    pthread_mutex_lock(&registry->lock);
    (void)st_registry_ensure_scan(registry, NULL);
    const uint32_t count = registry->items.count;
    pthread_mutex_unlock(&registry->lock);
    return count;
}

const st_registry_item *st_registry_at(st_registry *registry, uint32_t index)
{
    pthread_mutex_lock(&registry->lock);
    const st_registry_item *item =
        index < registry->items.count ? registry->items.data[index] : NULL;
    pthread_mutex_unlock(&registry->lock);
    return item;
}

static const char *winner_path(const st_registry_item *winner)
{
    if (winner == NULL) {
        return NULL;
    }
    return winner->plugin->path != NULL ? winner->plugin->path : "registered by the application";
}

stator_item_info st_registry_info(st_registry *registry, const st_registry_item *item)
{
    const st_plugin *plugin = item->plugin;
    pthread_mutex_lock(&registry->lock);
    const stator_item_info info = {
        .struct_size = sizeof info,
        .index = item->index,
        .name = item->name,
        .kind = st_kind_name(item->kind),
        .state = st_state_name(item->verdict.state),
        .reason = item->verdict.reason,
        .hint = item->verdict.hint,
        .version = plugin->note.version,
        .abi = plugin->note.abi,
        .path = plugin->path,
        .origin = origin_names[plugin->origin],
        .tags = item->tags,
        .description = item->description,
        .shadowed_by = winner_path(item->shadowed_by),
        .build_id = plugin->build_id,
        .priority = item->priority,
        .probed = item->probed,
        .device_count = item->device_count,
        .option_count = item->option_count,
        .devices = item->devices,
    };
    pthread_mutex_unlock(&registry->lock);
    return info;
}

const char *st_registry_item_name(const st_registry_item *item)
{
    return item->name;
}

uint32_t st_registry_item_kind(const st_registry_item *item)
{
    return item->kind;
}

const char *st_registry_item_extensions(const st_registry_item *item)
{
    return item->extensions;
}

bool st_registry_item_wins(st_registry *registry, const st_registry_item *item)
{
    pthread_mutex_lock(&registry->lock);
    const bool wins = item->is_winner != 0;
    pthread_mutex_unlock(&registry->lock);
    return wins;
}

/* ---- lookup ---- */

stator_status st_registry_fail_unusable(st_registry *registry, const st_registry_item *item,
                                        stator_diag **err)
{
    (void)registry;
    const bool is_new = err != NULL && *err == NULL;
    const stator_status status =
        st_fail(err, STATOR_UNAVAILABLE, "%s '%s' cannot be used (%s): %s",
                item->kind != 0 ? st_kind_name(item->kind) : "plugin", item->name,
                st_state_name(item->verdict.state),
                item->verdict.reason != NULL ? item->verdict.reason : "no reason is known");
    if (is_new && item->verdict.hint != NULL) {
        st_diag_set_hint(*err, "%s", item->verdict.hint);
    }
    return status;
}

void st_registry_warn(st_registry *registry, st_registry_item *item)
{
    const char *text = NULL;
    pthread_mutex_lock(&registry->lock);
    const st_verdict *v = &item->verdict;
    if (registry->warn != NULL && !item->is_warned && v->state != ST_STATE_AVAILABLE &&
        v->state != ST_STATE_DISABLED) {
        item->is_warned = 1;
        text = st_registry_textf(registry, "%s '%s' of %s is left out (%s): %s%s%s",
                                 st_kind_name(item->kind), item->name, item->plugin->path,
                                 st_state_name(v->state), v->reason != NULL ? v->reason : "",
                                 v->hint != NULL ? "; " : "", v->hint != NULL ? v->hint : "");
    }
    pthread_mutex_unlock(&registry->lock);
    if (text != NULL) {
        registry->warn(registry->warn_self, text);
    }
}

void st_registry_warn_of(st_registry *registry, const st_registry_item *item, const char *format,
                         ...)
{
    st_registry_item *own = registry->items.data[item->index];
    char what[1024];
    char text[1200];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    (void)snprintf(text, sizeof text, "%s '%s': %s", st_kind_name(item->kind), item->name, what);
    pthread_mutex_lock(&registry->lock);
    const bool is_new = registry->warn != NULL && !own->is_warned;
    own->is_warned = 1;
    pthread_mutex_unlock(&registry->lock);
    if (is_new) {
        registry->warn(registry->warn_self, text);
    }
}

void st_registry_list_unusable(st_registry *registry, uint32_t kind, st_str *out)
{
    pthread_mutex_lock(&registry->lock);
    for (uint32_t i = 0, n = 0; i < registry->items.count; i++) {
        const st_registry_item *item = registry->items.data[i];
        const st_verdict *v = &item->verdict;
        if ((item->kind == kind || item->kind == 0) && v->state != ST_STATE_AVAILABLE) {
            st_str_addf(out, "%s%s (%s: %s)", n++ > 0 ? ", " : "", item->name,
                        st_state_name(v->state), v->reason != NULL ? v->reason : "no reason");
        }
    }
    pthread_mutex_unlock(&registry->lock);
}

/* "eager, aot_eager, cuda (NO_DEVICE)"; also gathers the names for did-you-mean. */
static uint32_t list_names(const st_registry *registry, uint32_t kind, st_str *text,
                           const char **names)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < registry->items.count && n < NAMES_MAX; i++) {
        const st_registry_item *item = registry->items.data[i];
        if (item->kind != kind || !item->is_winner) {
            continue;
        }
        names[n++] = item->name;
        st_str_addf(text, "%s%s", n > 1 ? ", " : "", item->name);
        if (item->verdict.state != ST_STATE_AVAILABLE) {
            st_str_addf(text, " (%s)", st_state_name(item->verdict.state));
        }
    }
    return n;
}

static stator_status fail_unknown(st_registry *registry, uint32_t kind, const char *name,
                                  stator_diag **err)
{
    const char *names[NAMES_MAX] = {NULL};
    st_str list;
    st_str_init(&list, registry->mem);
    const uint32_t n = list_names(registry, kind, &list, names);
    const char *near = st_nearest(name, names, n);
    const char *word = st_kind_name(kind);
    const bool is_new = err != NULL && *err == NULL;
    st_fail(err, STATOR_NOT_FOUND, "there is no %s '%s'%s%s%s; %s%s%s%s", word, name,
            near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
            near != NULL ? "'?)" : "", n > 0 ? "found: " : "no ", n > 0 ? "" : word,
            n > 0 ? "" : " was found at all", list.data != NULL ? list.data : "");
    if (is_new) {
        st_diag_set_hint(*err, n > 0 ? "'stator backends --all' and 'stator plugins' show every "
                                       "file found, where, and why some cannot be used"
                                     : "point STATOR_PLUGIN_PATH or --plugin-dir at the folder "
                                       "that holds the plugins, normally lib/stator/plugins-1");
    }
    st_str_deinit(&list);
    return STATOR_NOT_FOUND;
}

static const st_registry_item *find_row(const st_registry *registry, uint32_t kind,
                                        const char *name, bool by_alias)
{
    for (uint32_t i = 0; i < registry->items.count; i++) {
        const st_registry_item *item = registry->items.data[i];
        if (item->kind == kind && item->is_winner &&
            (by_alias ? st_list_has(item->aliases, name) : strcmp(item->name, name) == 0)) {
            return item;
        }
    }
    return NULL;
}

/* Scan done, lock held. */
static stator_status find_locked(st_registry *registry, uint32_t kind, const char *name,
                                 const st_registry_item **out_item, stator_diag **err)
{
    *out_item = find_row(registry, kind, name, false);
    if (*out_item == NULL) {
        *out_item = find_row(registry, kind, name, true);
    }
    if (*out_item == NULL) { /* a file of that name whose note cannot be read */
        *out_item = find_row(registry, 0, name, false);
    }
    return *out_item != NULL ? STATOR_OK : fail_unknown(registry, kind, name, err);
}

stator_status st_registry_find(st_registry *registry, uint32_t kind, const char *name,
                               const st_registry_item **out_item, stator_diag **err)
{
    *out_item = NULL;
    pthread_mutex_lock(&registry->lock);
    stator_status status = st_registry_ensure_scan(registry, err);
    ST_THEN(status, find_locked(registry, kind, name, out_item, err));
    pthread_mutex_unlock(&registry->lock);
    return status;
}

/* Is a tried before b? */
static bool is_before(const st_registry_item *a, const st_registry_item *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->index < b->index;
}

stator_status st_registry_default_backend(st_registry *registry, const st_registry_item *after,
                                          const st_registry_item **out_item, stator_diag **err)
{
    const st_registry_item *best = NULL;
    *out_item = NULL;
    pthread_mutex_lock(&registry->lock);
    stator_status status = st_registry_ensure_scan(registry, err);
    for (uint32_t i = 0; status == STATOR_OK && i < registry->items.count; i++) {
        const st_registry_item *item = registry->items.data[i];
        const bool is_candidate = item->kind == STATOR_KIND_BACKEND && item->is_winner &&
                                  was_usable(item) && !st_list_has(item->tags, "debug") &&
                                  !st_list_has(item->tags, "experimental");
        if (is_candidate && (after == NULL || is_before(after, item)) &&
            (best == NULL || is_before(item, best))) {
            best = item;
        }
    }
    if (status == STATOR_OK && best == NULL) {
        const bool is_new = err != NULL && *err == NULL;
        status = st_fail(err, STATOR_NOT_FOUND, "no usable backend was found");
        if (is_new) {
            st_diag_set_hint(*err, "'stator backends --all' shows every file found and why it "
                                   "cannot be used; STATOR_PLUGIN_PATH adds folders");
        }
    }
    pthread_mutex_unlock(&registry->lock);
    *out_item = best;
    return status;
}
