/* core/plugins takes plugin files from a folder to a call of a slot: their notes (note.h), whether
 * they are trusted (trust.h), loading and checking them (loader.c, descriptor.c), their options
 * (options.h), the registry of all items, and the bracket around each call (plugin_call.h).
 *
 * The plugin registry: which backends, frontends, passes and op libraries exist, in which state
 * each is, and their descriptors once loaded.
 *
 * In: folders and files to search (docs/plugins.md), the host table handed to plugins.
 * Out: rows (one per item, never moved or removed), and on demand loaded descriptors.
 * Invariants: scanning runs no plugin code; a row is published whole; a failure of one plugin
 * changes no row of another; a plugin is loaded at most once per registry and never unloaded.
 * Descriptors handed out are the host's own full-size copies: a slot that the plugin's struct does
 * not reach is NULL in them, so readers need not test struct_size.
 * Threads: every function may be called from any thread; plugin code is called with no lock held.
 * Loading one plugin is serialised; a second thread waits for the first. */
#ifndef STATOR_PLUGINS_REGISTRY_H
#define STATOR_PLUGINS_REGISTRY_H

#include "core/base/alloc.h"
#include "core/base/diag.h"
#include "core/base/str.h"
#include <stator/stator.h>

typedef struct st_registry st_registry;
typedef struct st_registry_item st_registry_item; /* one row; lives as long as the registry */

typedef struct st_registry_options {
    st_mem *mem;
    /* Handed to query and init, outlives the registry. Its abi_major and abi_minor are the version
     * that plugins are held against. */
    const stator_host *host;
    uint32_t flags; /* STATOR_CTX_NO_PLUGINS, STATOR_CTX_NO_ENV */
    uint32_t plugin_dir_count;
    const char *const *plugin_dirs; /* searched as --plugin-dir; copied */
    /* Folder of libstator.so; NULL: found by dladdr. A program that holds the host statically has
     * none (its own folder is never searched) and gives plugin_dirs or this. */
    const char *lib_dir;
    /* Receives one sentence about an item that is left out; called with no lock held. May be
     * NULL. */
    void (*warn)(void *self, const char *text);
    void *warn_self;
} st_registry_options;

/* Makes an empty registry; finds nothing yet. */
stator_status st_registry_create(const st_registry_options *options, st_registry **out_registry,
                                 stator_diag **err);
/* Calls shutdown of every initialised plugin, last one first. Everything made by plugins must be
 * gone. NULL does nothing. */
void st_registry_destroy(st_registry *registry);

/* Finds plugins; the first call does the work, later ones return its status. Fails only when memory
 * runs out. Every function below scans by itself where it needs to. */
stator_status st_registry_scan(st_registry *registry, stator_diag **err);
uint32_t st_registry_count(st_registry *registry);
/* Row i, NULL past the end. Indices are stable. */
const st_registry_item *st_registry_at(st_registry *registry, uint32_t index);
/* A consistent copy of what is known of the row (strings live as long as the registry). */
stator_item_info st_registry_info(st_registry *registry, const st_registry_item *item);

/* Plain facts of a row that never change. */
const char *st_registry_item_name(const st_registry_item *item);
uint32_t st_registry_item_kind(const st_registry_item *item); /* stator_item_kind, 0: unknown */
/* Members of the note that say which files a frontend reads; NULL when the note names none. */
const char *st_registry_item_extensions(const st_registry_item *item);
/* Is this the row that its name means: not shadowed by another usable one? */
bool st_registry_item_wins(st_registry *registry, const st_registry_item *item);

/* The item of this kind that `name` (or an alias) means, whatever its state. NOT_FOUND with
 * did-you-mean and the list of what exists when there is none. A row that was unusable when it was
 * found never shadows a usable one. */
stator_status st_registry_find(st_registry *registry, uint32_t kind, const char *name,
                               const st_registry_item **out_item, stator_diag **err);
/* The backend to try where none is named: of those that the listing found usable, without the tags
 * debug and experimental, the one of highest priority after `after` (NULL: of all). What an earlier
 * probe or use found does not count, loading asks again. NOT_FOUND when there is none. */
stator_status st_registry_default_backend(st_registry *registry, const st_registry_item *after,
                                          const st_registry_item **out_item, stator_diag **err);

/* A loaded item. `desc` begins with stator_item; use the member for its kind. */
typedef struct st_loaded {
    const st_registry_item *row;
    const stator_item *desc;
    void *self; /* passed to every slot */
    union {
        const stator_backend *backend;
        const stator_frontend *frontend;
        const stator_pass *pass;
        const stator_oplib *oplib; /* ops are copied too: op_stride is sizeof(stator_oplib_op) */
    } as;
    const char *build_id;                    /* NULL: the file has none */
    const char *version;                     /* version of the plugin */
    struct st_callee *callee;                /* see plugin_call.h: who calls a slot says so */
    const struct st_oplib_call *oplib_calls; /* wrappers of an op library's functions */
} st_loaded;

/* Loads the item's plugin when it is not yet (dlopen, query, validation, init; a backend is
 * probed), and gives its descriptor, which lives as long as the registry. UNAVAILABLE with state,
 * reason and hint when the item cannot be used. */
stator_status st_registry_load(st_registry *registry, const st_registry_item *item,
                               const st_loaded **out_loaded, stator_diag **err);
/* The same for an item that nobody named. Before code of a stranger's plugin runs in this
 * process for the first time it is loaded and probed in a child, for 5 s at most; what crashes
 * or hangs there is not loaded. That all went well is remembered by build id. Stator's own
 * plugins beside libstator are no strangers; where there is no helper (libexec/stator-probe)
 * nothing is tried. Of a pass, an op library or a frontend that cannot be used a warning is
 * given, once. */
stator_status st_registry_load_unnamed(st_registry *registry, const st_registry_item *item,
                                       const st_loaded **out_loaded, stator_diag **err);
/* Says once what is wrong with an item that is used all the same: "pass 'x': " and the sentence. */
void st_registry_warn_of(st_registry *registry, const st_registry_item *item, const char *format,
                         ...) STATOR_PRINTF(3, 4);
/* Adds "NAME (STATE: reason), ..." of the items of this kind that cannot be used, and of files of
 * which nothing can be told. */
void st_registry_list_unusable(st_registry *registry, uint32_t kind, st_str *out);
/* find + load. Warns once of an item that was refused for taking this one's name. */
stator_status st_registry_get(st_registry *registry, uint32_t kind, const char *name,
                              const st_loaded **out_loaded, stator_diag **err);
/* Loads every usable item of a kind, in search order and as one that nobody named, and calls fn for
 * each one that loaded. Items
 * that cannot be used get their state, are left out, and are warned of once (DISABLED ones are
 * not). Stops and returns when fn gives something else than STATOR_OK. */
stator_status st_registry_each(st_registry *registry, uint32_t kind,
                               stator_status (*fn)(void *self, const st_loaded *loaded), void *self,
                               stator_diag **err);

/* Registers a backend of the application: highest rank, origin "api". INVALID_ARGUMENT when the
 * descriptor is not valid, ALREADY_EXISTS when another registered one or one of Stator's own
 * reference backends has this name. */
stator_status st_registry_add_static(st_registry *registry, const stator_backend *backend,
                                     void *self, stator_diag **err);

/* Loads and probes the item in a child process (libexec/stator-probe; registered ones in this
 * process) and updates state and devices. A refusal is remembered by build id. Fails only when
 * memory runs out or no child can be started; a bad plugin is a state, not a failure. */
stator_status st_registry_probe(st_registry *registry, const st_registry_item *item,
                                stator_diag **err);

/* Has a self test of the backend passed, of this build and with these drivers, on an instance of
 * this compat key? And: it has. Remembered on disk, see registry_self_test.c. */
bool st_registry_is_self_tested(const st_registry *registry, const st_loaded *loaded,
                                const char *key);
void st_registry_note_self_test(const st_registry *registry, const st_loaded *loaded,
                                const char *key);

/* Schema of the item called `name` for namespaced options ("cuda.max_regs", "acme.fold:limit"), as
 * options.h asks for it: kind STATOR_KIND_PASS a pass, Stator's own among them, 0 a backend or
 * frontend. 1 known (a schema when it could be loaded, else the note's option names), 0 no such
 * item. */
struct st_option_schema;
bool st_registry_option_schema(void *registry, uint32_t kind, const char *name,
                               struct st_option_schema *out);

#endif
