/* Checks what a plugin's query returned, and makes the host's own full-size copies of its items.
 *
 * In: a stator_plugin and the note its listing was made of. Out: st_loaded rows.
 * Sizes. A struct's size belongs to the minor version the plugin was built for:
 *     built == host   exactly ours          (a lie is found here), or what it was earlier in 0.9
 *     built <  host   at most ours, and past the last required slot
 *     built >  host   at least ours; what we do not know is not read
 * Every count is limited before it is believed; a slot is read only after its end was compared with
 * the size. Copies are zero-filled, so that a slot out of reach is NULL, its documented default. */
#define _GNU_SOURCE
#include "core/plugins/registry_internal.h"

#include "core/base/utf8.h"
#include "core/plugins/options.h"
#include <stddef.h>
#include <string.h>

enum { PLUGIN_ITEMS_MAX = 256, OPTIONS_MAX = 512, OPS_MAX = 4096, STRIDE_MAX = 4096 };

#define END_OF(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

typedef struct check {
    const stator_host *host;
    const stator_item *item; /* under check; for texts */
    uint32_t built;          /* minor version it was built for */
    st_arena *arena;
    stator_diag **err;
} check;

/* "backend 'x': " in front of what st_fail says. */
#define REFUSE(c, ...) refuse((c), st_fail((c)->err, STATOR_INVALID_ARGUMENT, __VA_ARGS__))
#define REFUSE_IF(condition, ...)                                                                  \
    do {                                                                                           \
        if (condition) {                                                                           \
            return REFUSE(__VA_ARGS__);                                                            \
        }                                                                                          \
    } while (0)

static stator_status refuse(const check *c, stator_status status)
{
    if (c->err != NULL && *c->err != NULL && c->item != NULL) {
        st_diag_prefix(*c->err, "%s '%.64s'", st_kind_name(c->item->kind),
                       c->item->name != NULL ? c->item->name : "?");
    }
    return status;
}

static stator_status check_size(const check *c, const char *what, uint64_t size, uint64_t ours,
                                uint64_t required_end)
{
    const uint32_t minor = c->host->abi_minor;
    const bool fits = c->built == minor  ? size == ours
                      : c->built < minor ? size <= ours && size >= required_end
                                         : size >= ours && size <= STRIDE_MAX;
    REFUSE_IF(!fits || size % 8 != 0, c,
              "%s has struct_size %llu; built for ABI %u.%u it should be %s%llu in this "
              "host of ABI %u.%u",
              what, (unsigned long long)size, c->host->abi_major, c->built,
              c->built == minor  ? ""
              : c->built < minor ? "at most "
                                 : "at least ",
              (unsigned long long)ours, c->host->abi_major, minor);
    return STATOR_OK;
}

/* A zero-filled block of `ours` bytes that begins with the plugin's `size`. */
static void *copy_grown(const check *c, const void *from, uint64_t size, uint64_t ours)
{
    void *copy = st_arena_zalloc(c->arena, 1, ours);
    if (copy != NULL) {
        memcpy(copy, from, (size_t)(size < ours ? size : ours));
    }
    return copy;
}

/* Texts of a plugin that are shown: one line of printable UTF-8, or NULL. */
static stator_status check_text(const check *c, const char *what, const char *text)
{
    const uint64_t n = text != NULL ? strlen(text) : 0;
    return n == 0 || st_printable(NULL, text, n, ST_LINES_NONE) == n
               ? STATOR_OK
               : REFUSE(c, "%s is not printable UTF-8: '%.64s'", what, text);
}

/* ---- option schemas ---- */

static stator_status copy_options(const check *c, stator_item *item)
{
    const uint64_t ours = sizeof(stator_option_desc);
    if (item->option_count == 0) {
        item->options = NULL;
        return STATOR_OK;
    }
    REFUSE_IF(item->option_count > OPTIONS_MAX || item->options == NULL, c,
              "it says that it has %u options at %p", item->option_count,
              (const void *)item->options);
    ST_TRY(check_size(c, "option_stride", item->option_stride, ours,
                      END_OF(stator_option_desc, default_text)));
    stator_option_desc *rows = st_arena_zalloc(c->arena, item->option_count, ours);
    ST_TRY_MEM(rows, c->err);
    for (uint32_t i = 0; i < item->option_count; i++) {
        const char *from = (const char *)item->options + (uint64_t)i * item->option_stride;
        memcpy(&rows[i], from, (size_t)(item->option_stride < ours ? item->option_stride : ours));
        REFUSE_IF(rows[i].struct_size != item->option_stride, c,
                  "option %u has struct_size %u, its stride is %u", i, rows[i].struct_size,
                  item->option_stride);
        rows[i].struct_size = (uint32_t)ours;
        ST_TRY(check_text(c, "the key of an option", rows[i].key));
        ST_TRY(check_text(c, "the help of an option", rows[i].help));
        ST_TRY(check_text(c, "the list of an option's values", rows[i].enum_values));
        ST_TRY(check_text(c, "the default of an option", rows[i].default_text));
    }
    item->options = rows;
    item->option_stride = (uint32_t)ours;
    const stator_status status = st_options_check_schema(rows, item->option_count, c->err);
    return status == STATOR_OK ? status : refuse(c, status);
}

/* ---- slots by kind ---- */

#define NEED_SLOT(c, desc, slot)                                                                   \
    REFUSE_IF((desc)->slot == NULL, (c), "the required slot '%s' is NULL", #slot)
#define NEED_PAIR(c, desc, a, b)                                                                   \
    REFUSE_IF(((desc)->a == NULL) != ((desc)->b == NULL), (c),                                     \
              "of the slots '%s' and '%s' only one is set", #a, #b)

/* Memory of a device is all of its slots, or none. */
static stator_status check_device_slots(const check *c, const stator_backend *b)
{
    NEED_PAIR(c, b, memory, alloc);
    NEED_PAIR(c, b, memory, free);
    NEED_PAIR(c, b, memory, copy);
    NEED_PAIR(c, b, memory, fill);
    NEED_PAIR(c, b, memory, stream_create);
    NEED_PAIR(c, b, memory, stream_destroy);
    NEED_PAIR(c, b, memory, synchronize);
    NEED_PAIR(c, b, memory, event_create);
    NEED_PAIR(c, b, memory, event_destroy);
    NEED_PAIR(c, b, memory, event_record);
    NEED_PAIR(c, b, memory, event_wait);
    return STATOR_OK;
}

static stator_status check_backend(const check *c, const stator_backend *b)
{
    NEED_SLOT(c, b, create);
    NEED_SLOT(c, b, destroy);
    NEED_SLOT(c, b, compile);
    NEED_SLOT(c, b, exe_info);
    NEED_SLOT(c, b, exe_run);
    NEED_SLOT(c, b, exe_destroy);
    NEED_PAIR(c, b, exe_serialize, exe_deserialize);
    ST_TRY(check_device_slots(c, b));
    ST_TRY(check_text(c, "the list of its tags", b->tags));
    return check_text(c, "the list of its aliases", b->aliases);
}

static stator_status check_frontend(const check *c, const stator_frontend *f)
{
    NEED_SLOT(c, f, sniff);
    NEED_SLOT(c, f, import);
    return STATOR_OK;
}

/* One built before `run_with` could list options, which nobody received: it has none. */
static stator_status check_pass(const check *c, stator_pass *p)
{
    if (p->run_with == NULL) {
        NEED_SLOT(c, p, run);
    }
    if (p->run_with == NULL && c->item->struct_size < END_OF(stator_pass, run_with)) {
        p->item.option_count = 0;
    }
    REFUSE_IF(p->run_with == NULL && p->item.option_count != 0, c,
              "it lists options, and the slot 'run_with', which receives them, is NULL");
    REFUSE_IF(p->phase < STATOR_PHASE_PRE_GRAD || p->phase > STATOR_PHASE_BACKEND, c,
              "the phase %u is unknown", p->phase);
    return STATOR_OK;
}

static stator_status check_op(const check *c, const stator_oplib_op *op, uint32_t i)
{
    REFUSE_IF(op->desc.name == NULL || !st_item_name_ok(STATOR_KIND_OPLIB, op->desc.name), c,
              "op %u has no valid name", i);
    REFUSE_IF(op->desc.struct_size != sizeof op->desc, c,
              "op '%s' has a descriptor of size %u, expected %u", op->desc.name,
              op->desc.struct_size, (unsigned)sizeof op->desc);
    REFUSE_IF(op->infer == NULL, c, "op '%s': the required slot 'infer' is NULL", op->desc.name);
    REFUSE_IF(op->decompose == NULL && op->desc.body == NULL && op->kernel == NULL, c,
              "op '%s' has neither body, decompose nor kernel", op->desc.name);
    return STATOR_OK;
}

static stator_status copy_ops(const check *c, stator_oplib *lib)
{
    const uint64_t ours = sizeof(stator_oplib_op);
    REFUSE_IF(lib->op_count == 0 || lib->op_count > OPS_MAX || lib->ops == NULL, c,
              "it says that it has %u ops at %p", lib->op_count, (const void *)lib->ops);
    ST_TRY(check_size(c, "op_stride", lib->op_stride, ours, END_OF(stator_oplib_op, infer)));
    stator_oplib_op *ops = st_arena_zalloc(c->arena, lib->op_count, ours);
    ST_TRY_MEM(ops, c->err);
    for (uint32_t i = 0; i < lib->op_count; i++) {
        memcpy(&ops[i], (const char *)lib->ops + (uint64_t)i * lib->op_stride,
               (size_t)(lib->op_stride < ours ? lib->op_stride : ours));
        ST_TRY(check_op(c, &ops[i], i));
    }
    lib->ops = ops;
    lib->op_stride = (uint32_t)ours;
    return STATOR_OK;
}

/* ---- one item ---- */

typedef struct kind_size {
    uint64_t ours;
    uint64_t required_end; /* end of the last required slot */
    uint64_t earlier;      /* in 0.9 before slots were appended to it; 0: no such size is read */
} kind_size;

static const kind_size kind_sizes[] = {
    [STATOR_KIND_BACKEND] = {sizeof(stator_backend), END_OF(stator_backend, exe_destroy),
                             END_OF(stator_backend, exe_steps)},
    [STATOR_KIND_FRONTEND] = {sizeof(stator_frontend), END_OF(stator_frontend, import),
                              END_OF(stator_frontend, import)},
    [STATOR_KIND_PASS] = {sizeof(stator_pass), END_OF(stator_pass, run), END_OF(stator_pass, run)},
    [STATOR_KIND_OPLIB] = {sizeof(stator_oplib), END_OF(stator_oplib, op_stride), 0},
};

static stator_status check_head(check *c, const stator_item *item)
{
    if (item->name == NULL || !st_item_name_ok(item->kind, item->name)) {
        c->item = NULL;
        return REFUSE(c, "an item of kind '%s' has no valid name", st_kind_name(item->kind));
    }
    REFUSE_IF(item->abi_major != c->host->abi_major ||
                  item->abi_minor_min > item->abi_minor_built ||
                  item->abi_minor_min > c->host->abi_minor ||
                  (c->host->abi_major == 0 && item->abi_minor_built != c->host->abi_minor),
              c, "it says ABI %u.%u (at least minor %u), this host has %u.%u", item->abi_major,
              item->abi_minor_built, item->abi_minor_min, c->host->abi_major, c->host->abi_minor);
    return STATOR_OK;
}

static stator_status check_by_kind(const check *c, void *copy)
{
    switch (c->item->kind) {
    case STATOR_KIND_BACKEND:
        return check_backend(c, copy);
    case STATOR_KIND_FRONTEND:
        return check_frontend(c, copy);
    case STATOR_KIND_PASS:
        return check_pass(c, copy);
    default:
        return copy_ops(c, copy);
    }
}

stator_status st_descriptor_check_item(const stator_host *host, const stator_item *item,
                                       st_arena *arena, st_loaded *out_item, stator_diag **err)
{
    check c = {.host = host, .arena = arena, .err = err};
    REFUSE_IF(item == NULL || item->struct_size < sizeof *item, &c, "an item is %s",
              item == NULL ? "NULL" : "shorter than its own head");
    REFUSE_IF(item->kind < STATOR_KIND_BACKEND || item->kind > STATOR_KIND_OPLIB, &c,
              "an item has the unknown kind %u", item->kind);
    c.item = item;
    c.built = item->abi_minor_built;
    ST_TRY(check_head(&c, item));
    const kind_size size = kind_sizes[item->kind];
    const bool is_earlier =
        host->abi_major == 0 && c.built == host->abi_minor && item->struct_size == size.earlier;
    if (!is_earlier) {
        ST_TRY(check_size(&c, st_kind_name(item->kind), item->struct_size, size.ours,
                          size.required_end));
    }
    stator_item *copy = copy_grown(&c, item, item->struct_size, size.ours);
    ST_TRY_MEM(copy, err);
    copy->struct_size = (uint32_t)size.ours;
    ST_TRY(check_text(&c, "its doc", copy->doc));
    ST_TRY(copy_options(&c, copy));
    ST_TRY(check_by_kind(&c, copy));
    *out_item = (st_loaded){.desc = copy};
    out_item->as.backend = (const stator_backend *)copy; /* all members are the same pointer */
    return STATOR_OK;
}

/* ---- the note and the descriptor must say the same ---- */

/* Do two comma lists hold the same words? NULL is the empty list. */
static bool same_words(const char *a, const char *b)
{
    char word[128];
    for (int round = 0; round < 2; round++) {
        const char *from = round == 0 ? a : b;
        const char *in = round == 0 ? b : a;
        while (from != NULL && *from != '\0') {
            from += strspn(from, " ,");
            size_t n = strcspn(from, " ,");
            if (n >= sizeof word) {
                return false;
            }
            memcpy(word, from, n);
            word[n] = '\0';
            if (n > 0 && !st_list_has(in, word)) {
                return false;
            }
            from += n;
        }
    }
    return true;
}

static stator_status lie(const check *c, const char *what, const char *note, const char *found)
{
    return REFUSE(c, "the note does not match: it says %s '%.128s', the plugin says '%.128s'", what,
                  note != NULL ? note : "", found != NULL ? found : "");
}

static stator_status compare_options(const check *c, const st_note_item *row,
                                     const stator_item *item)
{
    if (row->options == NULL) {
        return STATOR_OK;
    }
    bool same = row->option_count == item->option_count;
    for (uint32_t i = 0; i < item->option_count && same; i++) {
        same = st_list_has(row->options, item->options[i].key);
    }
    return same ? STATOR_OK
                : REFUSE(c,
                         "the note does not match: it lists the options '%.200s', the plugin "
                         "has others",
                         row->options);
}

/* Compares a backend with its item in the note: values that the note gives must be equal, absent
 * ones are not compared. */
static stator_status compare_item(check *c, const st_note_item *row, const st_loaded *loaded)
{
    c->item = loaded->desc;
    ST_TRY(compare_options(c, row, loaded->desc));
    if (row->kind != STATOR_KIND_BACKEND) {
        return STATOR_OK;
    }
    const stator_backend *b = loaded->as.backend;
    ST_FAIL_BY_IF(lie, row->tags != NULL && !same_words(row->tags, b->tags), c, "tags", row->tags,
                  b->tags);
    ST_FAIL_BY_IF(lie, row->aliases != NULL && !same_words(row->aliases, b->aliases), c, "aliases",
                  row->aliases, b->aliases);
    REFUSE_IF(row->has_priority && row->priority != b->priority, c,
              "the note does not match: it says priority %d, the plugin says %d", row->priority,
              b->priority);
    return STATOR_OK;
}

static bool row_fits(const st_note_item *row, const stator_item *item)
{
    return row->kind == item->kind && strcmp(row->name, item->name) == 0;
}

static stator_status compare_items(check *c, const st_note *note, const st_loaded *items,
                                   uint32_t count)
{
    for (uint32_t r = 0; r < note->item_count; r++) {
        const st_note_item *row = &note->items[r];
        uint32_t fits = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (row_fits(row, items[i].desc)) {
                fits++;
                ST_TRY(compare_item(c, row, &items[i]));
            }
        }
        c->item = NULL;
        REFUSE_IF(fits == 0, c,
                  "the note does not match: it promises the %s '%s', which the plugin "
                  "does not have (member 'items' lists items of other names)",
                  st_kind_name(row->kind), row->name);
    }
    for (uint32_t i = 0; i < count; i++) {
        bool fits = false;
        for (uint32_t r = 0; r < note->item_count && !fits; r++) {
            fits = row_fits(&note->items[r], items[i].desc);
        }
        REFUSE_IF(!fits, c,
                  "the note does not match: it does not name the %s '%s' of the plugin "
                  "(member 'items' lists items of other names)",
                  st_kind_name(items[i].desc->kind), items[i].desc->name);
    }
    return STATOR_OK;
}

static stator_status compare_plugin(const check *c, const st_note *note,
                                    const stator_plugin *plugin)
{
    ST_FAIL_BY_IF(lie, plugin->name == NULL || strcmp(plugin->name, note->name) != 0, c, "name",
                  note->name, plugin->name);
    ST_FAIL_BY_IF(lie, plugin->version == NULL || strcmp(plugin->version, note->version) != 0, c,
                  "version", note->version, plugin->version);
    REFUSE_IF(plugin->abi_major != note->abi_major || plugin->abi_minor_built != note->abi_minor ||
                  (note->has_min_host_minor && plugin->abi_minor_min != note->min_host_minor),
              c,
              "the note does not match: it says ABI %u.%u, at least minor %u; the "
              "plugin says %u.%u, at least minor %u",
              note->abi_major, note->abi_minor, note->min_host_minor, plugin->abi_major,
              plugin->abi_minor_built, plugin->abi_minor_min);
    ST_FAIL_BY_IF(lie, plugin->sanitizer != NULL && strcmp(plugin->sanitizer, note->sanitizer) != 0,
                  c, "sanitizer", note->sanitizer, plugin->sanitizer);
    return STATOR_OK;
}

/* ---- the plugin ---- */

static stator_status check_plugin_head(check *c, const stator_plugin *plugin)
{
    REFUSE_IF(plugin->struct_size < END_OF(stator_plugin, item_count), c,
              "the plugin's descriptor has struct_size %u, too short to read", plugin->struct_size);
    c->built = plugin->abi_minor_built;
    REFUSE_IF(
        plugin->abi_major != c->host->abi_major || plugin->abi_minor_min > c->host->abi_minor ||
            plugin->abi_minor_min > plugin->abi_minor_built,
        c, "the plugin says ABI %u.%u (at least minor %u), this host has %u.%u", plugin->abi_major,
        plugin->abi_minor_built, plugin->abi_minor_min, c->host->abi_major, c->host->abi_minor);
    ST_TRY(check_size(c, "the plugin's descriptor", plugin->struct_size, sizeof *plugin,
                      END_OF(stator_plugin, items)));
    if (plugin->item_count == 0 || plugin->item_count > PLUGIN_ITEMS_MAX || plugin->items == NULL) {
        return REFUSE(c, "the plugin says that it has %u items at %p", plugin->item_count,
                      (const void *)plugin->items);
    }
    return STATOR_OK;
}

stator_status st_descriptor_check(const stator_host *host, const stator_plugin *plugin,
                                  const st_note *note, st_arena *arena, st_loaded **out_items,
                                  uint32_t *out_count, stator_diag **err)
{
    check c = {.host = host, .arena = arena, .err = err};
    *out_items = NULL;
    *out_count = 0;
    ST_TRY(check_plugin_head(&c, plugin));
    ST_TRY(compare_plugin(&c, note, plugin));
    st_loaded *items = st_arena_zalloc(arena, plugin->item_count, sizeof *items);
    ST_TRY_MEM(items, err);
    uint32_t count = 0;
    for (uint32_t i = 0; i < plugin->item_count; i++) {
        const stator_item *item = plugin->items[i];
        const bool is_newer = item != NULL && item->kind > STATOR_KIND_OPLIB &&
                              c.built > host->abi_minor && host->abi_major > 0;
        if (is_newer) {
            continue; /* a kind of a later minor, which this host does not know */
        }
        ST_TRY(st_descriptor_check_item(host, item, arena, &items[count], err));
        for (uint32_t j = 0; j < count; j++) {
            REFUSE_IF(items[j].desc->kind == items[count].desc->kind &&
                          strcmp(items[j].desc->name, items[count].desc->name) == 0,
                      &c, "the plugin holds the %s '%s' twice", st_kind_name(items[j].desc->kind),
                      items[j].desc->name);
        }
        count++;
    }
    ST_TRY(compare_items(&c, note, items, count));
    *out_items = items;
    *out_count = count;
    return STATOR_OK;
}
