/* The plugin note: what a plugin says of itself, read without running it.
 *
 * In: the JSON text of the ELF note "Stator". Out: st_note, whose strings lie in the caller's
 * arena. Members (docs/plugins.md, "The note"): abi, kinds, name, version are required. Optional:
 * triple, sanitizer, min_host_minor, vendor, licence, description, tags, aliases, priority, options
 * (names), extensions (frontends), devices (kinds), requires, and items: an array of {kind, name,
 * description, tags, aliases, priority, options, extensions}. Without `items` the plugin holds one
 * item of each kind, of its own name. Unknown members are passed over. */
#ifndef STATOR_PLUGINS_NOTE_H
#define STATOR_PLUGINS_NOTE_H

#include "core/base/arena.h"
#include "core/base/diag.h"

typedef struct st_note_item {
    uint32_t kind; /* stator_item_kind */
    const char *name;
    const char *description; /* NULL when absent, as all that follow */
    const char *tags;        /* comma-separated */
    const char *aliases;
    const char *options; /* names */
    const char *extensions;
    uint32_t option_count;
    uint32_t has_priority;
    int32_t priority;
} st_note_item;

typedef struct st_note {
    const char *name;
    const char *version;
    const char *abi; /* "0.9" */
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t min_host_minor; /* abi_minor when absent */
    uint32_t has_min_host_minor;
    const char *triple;    /* NULL: none */
    const char *sanitizer; /* "" when absent */
    const char *vendor;
    const char *licence;
    const char *const *requires_; /* sonames, absolute paths; alternatives as "a|b" */
    uint32_t requires_count;
    uint32_t item_count;
    const st_note_item *items;
} st_note;

/* DATA_LOSS with a sentence when the note breaks a rule. out_note->name is kept when it could be
 * read, for the listing. */
stator_status st_note_parse(const char *json, uint64_t len, st_arena *arena, st_note *out_note,
                            stator_diag **err);
/* "backend" ... to stator_item_kind, 0 unknown; and back ("unknown" for 0). */
uint32_t st_kind_parse(const char *text);
const char *st_kind_name(uint32_t kind);
/* 1 to 64 of letters, digits, '_', '-', '.', '+', beginning with a letter or digit. Backends and
 * frontends have no '.': it separates name and key of an option. */
bool st_item_name_ok(uint32_t kind, const char *name);

#endif
