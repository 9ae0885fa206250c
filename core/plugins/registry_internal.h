/* What the files of the registry share; nobody else includes this.
 *
 *   registry.c         rows, lookup, texts
 *   registry_scan.c    folders -> rows with states
 *   registry_load.c    state machine of loading
 *   memory_file.c      files of what was found of plugins
 *   registry_self_test.c  which self tests have passed
 *   registry_probe.c   the child process that probes, and the record of its answers
 *   loader.c           dlopen, query, identity
 *   descriptor.c       validation, full-size copies
 *   allow_list.c       sha256 of the file
 *
 * Locking: `lock` guards every mutable field of plugins and items, the arena and the list of rows.
 * It is never held while plugin code runs; a plugin that is being loaded is marked LOADING and
 * others wait on `changed`. Pointers to plugins, items and loaded items never move. */
#ifndef STATOR_PLUGINS_REGISTRY_INTERNAL_H
#define STATOR_PLUGINS_REGISTRY_INTERNAL_H

#include "core/base/arena.h"
#include "core/base/fdio.h"
#include "core/base/vec.h"
#include "core/plugins/elf_reader.h"
#include "core/plugins/note.h"
#include "core/plugins/plugin_call.h"
#include "core/plugins/registry.h"
#include "core/plugins/trust.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum st_item_state {
    ST_STATE_AVAILABLE = 0,
    ST_STATE_NO_DEVICE,
    ST_STATE_MISSING_DEPENDENCY,
    ST_STATE_ABI_TOO_OLD,
    ST_STATE_ABI_TOO_NEW,
    ST_STATE_WRONG_ARCH,
    ST_STATE_BAD_FILE,
    ST_STATE_UNTRUSTED_PATH,
    ST_STATE_NAME_CLASH,
    ST_STATE_DISABLED,
    ST_STATE_INIT_FAILED,
    ST_STATE_CRASHED_IN_PROBE,
    ST_STATE_INVALID,
    ST_STATE_COUNT
};
const char *st_state_name(uint32_t state);
uint32_t st_state_parse(const char *text); /* ST_STATE_COUNT: unknown */

/* The rule that found a plugin; the order is the rank, lower wins. */
enum st_origin {
    ST_ORIGIN_API = 0,
    ST_ORIGIN_FILES_ENV,
    ST_ORIGIN_PATH_ENV,
    ST_ORIGIN_PLUGIN_DIR,
    ST_ORIGIN_USER,
    ST_ORIGIN_LIBDIR,
    ST_ORIGIN_USR_LOCAL,
    ST_ORIGIN_COUNT
};

/* A state with its sentence and the way out; strings in the registry's arena or static. */
#define ST_DEVICES_STAMP 24u /* bytes of a stamp of the machine's devices */

typedef struct st_verdict {
    uint32_t state;
    const char *reason;
    const char *hint;
} st_verdict;

/* Identity of a file, by which another one in its place is noticed. */
typedef struct st_file_identity {
    uint64_t dev, ino, size;
    int64_t mtime_s, mtime_ns;
} st_file_identity;

enum st_load_state { ST_LOAD_NONE = 0, ST_LOAD_BUSY, ST_LOAD_DONE, ST_LOAD_FAILED };

typedef struct st_plugin {
    uint32_t origin; /* st_origin */
    uint32_t load_state;
    const char *path; /* absolute; NULL for registered ones */
    const char *folder;
    const char *file_name; /* without .so */
    uint32_t is_own;       /* lies in the plugin folder beside libstator.so itself */
    st_file_identity identity;
    st_callee callee; /* the name is the note's */
    st_note note;     /* name NULL when unreadable */
    const char *note_text;
    uint64_t note_len;
    const char *build_id;
    pthread_t loader;                /* while BUSY */
    st_verdict failure;              /* why it is FAILED */
    const stator_plugin *descriptor; /* as the plugin gave it */
    void *self;
    uint32_t is_initialised;
    uint32_t loaded_count;
    st_loaded *loaded; /* host copies of its items, in `arena` */
    st_arena arena;
} st_plugin;

struct st_registry_item {
    st_plugin *plugin;
    uint32_t index;
    uint32_t kind;
    const char *name;
    const char *tags, *aliases, *description, *options, *extensions;
    uint32_t option_count;
    int32_t priority;
    /* Guarded by the registry's lock from here on. */
    st_verdict verdict;
    st_verdict found;     /* verdict of the listing alone, without probe or load */
    uint32_t is_recalled; /* verdict comes from an earlier probe of this build */
    uint32_t is_tried;    /* a probe of this build in a child went well */
    uint32_t is_winner;
    uint32_t is_warned; /* the log said that it is left out */
    const st_registry_item *shadowed_by;
    int32_t probed;
    uint32_t device_count;
    const stator_device_info *devices;
    _Atomic(const st_loaded *) loaded; /* published last */
};

typedef st_vec(st_registry_item *) st_item_list;

struct st_registry {
    st_mem *mem;
    const stator_host *host;
    uint32_t flags;
    void (*warn)(void *self, const char *text); /* NULL: no warnings */
    void *warn_self;
    char *lib_dir;  /* NULL: not known */
    char *lib_path; /* libstator.so itself, or NULL */
    st_trust trust;
    st_vec(char *) plugin_dirs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    st_arena arena;
    uint32_t is_scanned;
    st_item_list items;
    st_vec(st_plugin *) plugins;
    st_vec(st_plugin *) initialised; /* in order of init */
    const char *probe_memory; /* record of earlier probes, see registry_probe.c; NULL: not read */
    uint32_t is_memory_read;
    char device_stamp[ST_DEVICES_STAMP]; /* once the memory is read */
};

/* ---- registry.c ---- */

/* Text in the registry's arena (lock held); a fixed sentence when memory runs out. */
const char *st_registry_textf(st_registry *registry, const char *format, ...) STATOR_PRINTF(2, 3);
/* Adds a row for each item of the plugin's note, or one of kind unknown. All or nothing. */
stator_status st_registry_add_rows(st_registry *registry, st_plugin *plugin, st_verdict verdict,
                                   stator_diag **err);
/* Recomputes who wins each name. Lock held. */
void st_registry_resolve(st_registry *registry);
/* The error that using this row gives. Lock held. */
stator_status st_registry_fail_unusable(st_registry *registry, const st_registry_item *item,
                                        stator_diag **err);
/* Says once that an item is left out, and why. Lock not held. */
void st_registry_warn(st_registry *registry, st_registry_item *item);
stator_status st_registry_ensure_scan(st_registry *registry, stator_diag **err); /* lock held */

/* ---- allow_list.c ---- */

typedef struct st_allow_list {
    st_mem *mem;
    const char *path; /* NULL: there is no list, everything is allowed */
    char *text;       /* NULL: it cannot be read, nothing is allowed */
} st_allow_list;

/* Reads the list that STATOR_PLUGIN_ALLOW names (sha256sum's format). */
void st_allow_list_init(st_allow_list *list, st_mem *mem, const st_trust *trust, const char *path);
void st_allow_list_deinit(st_allow_list *list);
/* Does the list hold the file's SHA-256? Otherwise a sentence in `reason`. */
bool st_allow_list_check(const st_allow_list *list, int fd, uint64_t size, char *reason,
                         size_t reason_size);

/* ---- registry_scan.c ---- */

stator_status st_registry_scan_all(st_registry *registry, stator_diag **err); /* lock held */
/* 1 when the note's abi fits the host; else fills the verdict. */
bool st_abi_fits(st_registry *registry, const st_note *note, st_verdict *out_verdict);
/* Is it a usable backend with the tag `reference` beside libstator.so? Others are compared with it,
 * so no item of another file or of the application takes its name. Lock held. */
bool st_is_own_reference(const st_registry_item *item);
/* 1 when the named sanitizer can live in this process. */
bool st_sanitizer_fits(const char *sanitizer);
/* Opens the file as discovery demands (no symbolic link, regular) and tells its identity. -1 with a
 * reason otherwise. */
st_fd st_plugin_open(const char *path, struct stat *out_st, char *reason, size_t reason_size);
st_file_identity st_identity_of(const struct stat *st);

/* ---- loader.c, descriptor.c: run plugin code, no lock held ---- */

typedef struct st_load_result {
    st_verdict verdict; /* AVAILABLE: the rest is set. Texts are in `texts` */
    const stator_plugin *descriptor;
    void *self;
    uint32_t is_initialised;
    uint32_t is_out_of_memory; /* memory was short: loading may be tried again */
    uint32_t loaded_count;
    st_loaded *loaded; /* in `arena` */
    st_arena arena;    /* given to the registry's plugin on success */
    char reason[1024];
    char hint[256];
} st_load_result;

/* dlopen .. init of one plugin, of which only `callee` is written. */
void st_plugin_load(st_registry *registry, st_plugin *plugin, st_load_result *out_result);
/* One of Stator's own, installed beside libstator. */
bool st_plugin_is_ours(const st_plugin *plugin);
/* Its shutdown, where it has one. */
void st_plugin_shutdown(st_callee *callee, const stator_plugin *descriptor, void *self);
/* Checks the plugin's descriptor against ABI and note; copies its items, full-size, to *out_items
 * (desc, as). INVALID_ARGUMENT with the rule that is broken. */
stator_status st_descriptor_check(const stator_host *host, const stator_plugin *plugin,
                                  const st_note *note, st_arena *arena, st_loaded **out_items,
                                  uint32_t *out_count, stator_diag **err);
stator_status st_descriptor_check_item(const stator_host *host, const stator_item *item,
                                       st_arena *arena, st_loaded *out_item, stator_diag **err);

/* ---- registry_load.c ---- */

/* Probes a loaded backend in this process and collects its devices (registry lock not held). */
stator_status st_registry_probe_here(st_registry *registry, st_registry_item *item,
                                     stator_diag **err);
/* probe() of a loaded item turned into a verdict. */
void st_probe_verdict(const st_loaded *loaded, st_verdict *out_verdict, char *reason,
                      size_t reason_size, char *hint, size_t hint_size);

/* ---- memory_file.c ---- */

#define ST_MEMORY_PATH 4096

/* Of the file of that name; false: there is no folder for it. */
bool st_memory_file_path(const st_registry *registry, const char *name, bool makes_folders,
                         char out[ST_MEMORY_PATH]);
/* The whole file, NUL-terminated (st_free), or NULL. Only one of our own is believed. */
char *st_memory_file_read(st_mem *mem, const char *path);
/* Whoever reads sees the old text or the new one. */
void st_memory_file_replace(const char *path, const st_str *text);
/* Splits a line in place at tabs; returns the number of fields. */
uint32_t st_memory_file_split(char *line, char **fields, uint32_t max);
/* One field of a line: no tabs, no line ends. */
void st_memory_file_field(st_str *out, const char *text);

/* ---- registry_probe.c ---- */

/* Applies the record of an earlier probe of this build: a refusal becomes the item's verdict, with
 * is_recalled, else is_tried is set. Lock held. */
void st_probe_recall(st_registry *registry, st_registry_item *item);
/* Loads and probes an item that nobody named in a child, where that is to be (see
 * st_registry_load_unnamed); a refusal becomes its verdict. Lock not held. */
void st_registry_try(st_registry *registry, st_registry_item *item);
/* The item was used after all: what an earlier probe left is removed. Lock held. */
void st_probe_forget(st_registry *registry, const st_registry_item *item);

/* ---- registry_devices.c ---- */

/* What the machine's GPU drivers, device files and variables that choose devices are like. */
void st_devices_stamp(char out[ST_DEVICES_STAMP]);
/* The item's devices as a field of a remembered line, and back (the text is taken apart). */
void st_devices_write(const st_registry_item *item, st_str *out);
void st_devices_parse(st_registry *registry, char *text, st_registry_item *item);

#endif
