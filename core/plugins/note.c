/* From the note's JSON to st_note; see note.h. */
#define _GNU_SOURCE
#include "core/plugins/note.h"

#include "core/plugins/note_json.h"
#include <stator/plugin.h>
#include <string.h>

enum { ITEMS_MAX = 256, NAME_BYTES_MAX = 64, TEXT_MAX = 1024, LIST_WORDS_MAX = 256 };

static const char *const kind_names[] = {"unknown", "backend", "frontend", "pass", "oplib"};
_Static_assert(STATOR_KIND_OPLIB + 1 == sizeof kind_names / sizeof kind_names[0], "kind names");

uint32_t st_kind_parse(const char *text)
{
    for (uint32_t k = 1; k < sizeof kind_names / sizeof kind_names[0]; k++) {
        if (strcmp(text, kind_names[k]) == 0) {
            return k;
        }
    }
    return 0;
}

const char *st_kind_name(uint32_t kind)
{
    return kind < sizeof kind_names / sizeof kind_names[0] ? kind_names[kind] : "unknown";
}

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool st_item_name_ok(uint32_t kind, const char *name)
{
    const bool dot_ok = kind != STATOR_KIND_BACKEND && kind != STATOR_KIND_FRONTEND;
    const size_t n = strnlen(name, NAME_BYTES_MAX + 1);
    ST_NEED(n != 0 && n <= NAME_BYTES_MAX && is_alnum(name[0]));
    for (size_t i = 0; i < n; i++) {
        const char c = name[i];
        ST_NEED(is_alnum(c) || c == '_' || c == '-' || c == '+' || (c == '.' && dot_ok));
    }
    return true;
}

/* A text member; absent leaves *out as it is. */
static stator_status get_text(const st_json *object, const char *key, const char **out,
                              stator_diag **err)
{
    const st_json *m = st_json_member(object, key);
    if (m == NULL || m->type == ST_JSON_NULL) {
        return STATOR_OK;
    }
    ST_FAIL_IF(m->type != ST_JSON_STRING || strlen(m->text) > TEXT_MAX, err, STATOR_DATA_LOSS,
               "the note's member '%s' is not a string of at most "
               "%d bytes",
               key, TEXT_MAX);
    *out = m->text;
    return STATOR_OK;
}

static stator_status need_text(const st_json *object, const char *key, const char **out,
                               stator_diag **err)
{
    ST_TRY(get_text(object, key, out, err));
    ST_FAIL_IF(*out == NULL || **out == '\0', err, STATOR_DATA_LOSS, "the note has no '%s'", key);
    return STATOR_OK;
}

static stator_status get_int(const st_json *object, const char *key, int64_t lo, int64_t hi,
                             int64_t *out, uint32_t *out_has, stator_diag **err)
{
    const st_json *m = st_json_member(object, key);
    *out_has = 0;
    if (m == NULL || m->type == ST_JSON_NULL) {
        return STATOR_OK;
    }
    ST_FAIL_IF(m->type != ST_JSON_INT || m->number < lo || m->number > hi, err, STATOR_DATA_LOSS,
               "the note's member '%s' is not a whole number in [%lld, %lld]", key, (long long)lo,
               (long long)hi);
    *out = m->number;
    *out_has = 1;
    return STATOR_OK;
}

/* An array of strings, or NULL; *out_count is set. */
static stator_status get_array(const st_json *object, const char *key, const st_json **out_first,
                               uint32_t *out_count, stator_diag **err)
{
    const st_json *m = st_json_member(object, key);
    *out_first = NULL;
    *out_count = 0;
    if (m == NULL || m->type == ST_JSON_NULL) {
        return STATOR_OK;
    }
    ST_FAIL_IF(m->type != ST_JSON_ARRAY || m->count > LIST_WORDS_MAX, err, STATOR_DATA_LOSS,
               "the note's member '%s' is not an array of at most %d strings", key, LIST_WORDS_MAX);
    for (const st_json *w = m->first; w != NULL; w = w->next) {
        ST_FAIL_IF(w->type != ST_JSON_STRING || w->text[0] == '\0' || strlen(w->text) > TEXT_MAX,
                   err, STATOR_DATA_LOSS,
                   "the note's array '%s' holds something else than "
                   "non-empty strings",
                   key);
    }
    *out_first = m->first;
    *out_count = m->count;
    return STATOR_OK;
}

/* An array of strings joined by commas; absent leaves *out as it is. */
static stator_status get_list(const st_json *object, const char *key, st_arena *arena,
                              const char **out, uint32_t *out_count, stator_diag **err)
{
    const st_json *first = NULL;
    uint32_t count = 0;
    ST_TRY(get_array(object, key, &first, &count, err));
    if (first == NULL) {
        return STATOR_OK;
    }
    uint64_t size = 1;
    for (const st_json *w = first; w != NULL; w = w->next) {
        ST_FAIL_IF(strchr(w->text, ',') != NULL, err, STATOR_DATA_LOSS,
                   "the note's array '%s' holds a word with a comma", key);
        size += strlen(w->text) + 1;
    }
    char *text = st_arena_alloc(arena, size, 1);
    ST_TRY_MEM(text, err);
    char *at = text;
    for (const st_json *w = first; w != NULL; w = w->next) {
        at = stpcpy(at, w->text);
        *at++ = w->next != NULL ? ',' : '\0';
    }
    *out = text;
    if (out_count != NULL) {
        *out_count = count;
    }
    return STATOR_OK;
}

/* "major.minor", plain decimal. */
static stator_status parse_abi(st_note *note, stator_diag **err)
{
    uint32_t parts[2] = {0, 0};
    const char *at = note->abi;
    bool ok = true;
    for (int i = 0; i < 2 && ok; i++) {
        const char *begin = at;
        while (*at >= '0' && *at <= '9' && at - begin < 6) {
            parts[i] = parts[i] * 10 + (uint32_t)(*at++ - '0');
        }
        ok = at > begin && *at == (i == 0 ? '.' : '\0');
        at++;
    }
    ST_FAIL_IF(!ok || parts[0] > UINT16_MAX || parts[1] > UINT16_MAX, err, STATOR_DATA_LOSS,
               "the note's abi '%.32s' is not of the form major.minor", note->abi);
    note->abi_major = parts[0];
    note->abi_minor = parts[1];
    return STATOR_OK;
}

/* Members that describe an item, from the top of the note or from one of `items`. */
static stator_status read_item_facts(const st_json *object, st_arena *arena, st_note_item *item,
                                     stator_diag **err)
{
    int64_t priority = item->priority;
    uint32_t has = 0;
    ST_TRY(get_text(object, "description", &item->description, err));
    ST_TRY(get_list(object, "tags", arena, &item->tags, NULL, err));
    ST_TRY(get_list(object, "aliases", arena, &item->aliases, NULL, err));
    ST_TRY(get_list(object, "options", arena, &item->options, &item->option_count, err));
    ST_TRY(get_list(object, "extensions", arena, &item->extensions, NULL, err));
    ST_TRY(get_int(object, "priority", INT32_MIN, INT32_MAX, &priority, &has, err));
    item->priority = (int32_t)priority;
    item->has_priority |= has;
    return STATOR_OK;
}

static stator_status take_kind(const char *text, uint32_t *out, stator_diag **err)
{
    *out = st_kind_parse(text);
    ST_FAIL_IF(*out == 0, err, STATOR_DATA_LOSS,
               "the note names the unknown kind '%.32s' (known: "
               "backend, frontend, pass, oplib)",
               text);
    return STATOR_OK;
}

static stator_status add_item(st_note_item *items, uint32_t *count, const st_note_item *item,
                              stator_diag **err)
{
    ST_FAIL_IF(!st_item_name_ok(item->kind, item->name), err, STATOR_DATA_LOSS,
               "'%.64s' is no valid name of a %s", item->name, st_kind_name(item->kind));
    for (uint32_t i = 0; i < *count; i++) {
        ST_FAIL_IF(items[i].kind == item->kind && strcmp(items[i].name, item->name) == 0, err,
                   STATOR_DATA_LOSS, "the note names the %s '%s' twice", st_kind_name(item->kind),
                   item->name);
    }
    items[(*count)++] = *item;
    return STATOR_OK;
}

/* Items named one by one; their kinds must be those of `kinds`. */
static stator_status read_named_items(const st_json *list, st_arena *arena, uint32_t kinds_mask,
                                      st_note_item *items, st_note *note, stator_diag **err)
{
    uint32_t seen_mask = 0;
    for (const st_json *entry = list->first; entry != NULL; entry = entry->next) {
        st_note_item item = {0};
        const char *kind = NULL;
        ST_TRY(need_text(entry, "kind", &kind, err));
        ST_TRY(need_text(entry, "name", &item.name, err));
        ST_TRY(take_kind(kind, &item.kind, err));
        ST_TRY(read_item_facts(entry, arena, &item, err));
        ST_TRY(add_item(items, &note->item_count, &item, err));
        seen_mask |= 1u << item.kind;
    }
    ST_FAIL_IF(seen_mask != kinds_mask, err, STATOR_DATA_LOSS,
               "the note's 'kinds' are not the kinds of its 'items'");
    return STATOR_OK;
}

static stator_status read_items(const st_json *root, st_arena *arena, st_note *note,
                                stator_diag **err)
{
    const st_json *kinds = NULL;
    uint32_t n_kinds = 0;
    uint32_t mask = 0;
    ST_TRY(get_array(root, "kinds", &kinds, &n_kinds, err));
    const st_json *list = st_json_member(root, "items");
    ST_FAIL_IF(n_kinds == 0 || (list != NULL && (list->type != ST_JSON_ARRAY || list->count == 0 ||
                                                 list->count > ITEMS_MAX)),
               err, STATOR_DATA_LOSS,
               n_kinds == 0 ? "the note has no 'kinds'"
                            : "the note's 'items' are not an array of 1 to 256 objects");
    st_note_item *items =
        st_arena_zalloc(arena, list != NULL ? list->count : n_kinds, sizeof *items);
    ST_TRY_MEM(items, err);
    note->items = items;
    for (const st_json *k = kinds; k != NULL; k = k->next) {
        st_note_item item = {.name = note->name};
        ST_TRY(take_kind(k->text, &item.kind, err));
        mask |= 1u << item.kind;
        if (list == NULL) {
            ST_TRY(read_item_facts(root, arena, &item, err));
            ST_TRY(add_item(items, &note->item_count, &item, err));
        }
    }
    return list != NULL ? read_named_items(list, arena, mask, items, note, err) : STATOR_OK;
}

/* An entry names a soname or an absolute path; alternatives stand side by side, with '|' between
 * them, and are all of the first one's kind: device nodes, other files, sonames. */
static bool is_required_ok(const char *entry)
{
    const bool is_device = strncmp(entry, "/dev/", 5) == 0;
    const bool is_path = entry[0] == '/';
    for (const char *at = entry;; at++) {
        const size_t n = strcspn(at, "|");
        ST_NEED(n > 0 && (strncmp(at, "/dev/", 5) == 0) == is_device);
        ST_NEED(is_path ? at[0] == '/' : memchr(at, '/', n) == NULL);
        at += n;
        if (*at == '\0') {
            return true;
        }
    }
}

static stator_status read_requires(const st_json *root, st_arena *arena, st_note *note,
                                   stator_diag **err)
{
    const st_json *first = NULL;
    ST_TRY(get_array(root, "requires", &first, &note->requires_count, err));
    const char **words = st_arena_zalloc(arena, note->requires_count + 1u, sizeof *words);
    ST_TRY_MEM(words, err);
    note->requires_ = words;
    for (const st_json *w = first; w != NULL; w = w->next) {
        ST_FAIL_IF(!is_required_ok(w->text), err, STATOR_DATA_LOSS,
                   "the note requires '%.64s', which is neither a soname nor an absolute path, nor "
                   "alternatives of one kind with '|' between them",
                   w->text);
        *words++ = w->text;
    }
    return STATOR_OK;
}

stator_status st_note_parse(const char *json, uint64_t len, st_arena *arena, st_note *out_note,
                            stator_diag **err)
{
    *out_note = (st_note){.sanitizer = ""};
    st_json *root = NULL;
    while (len > 0 && json[len - 1] == '\0') {
        len--;
    }
    ST_TRY(st_json_parse(json, len, arena, &root, err));
    ST_FAIL_IF(root->type != ST_JSON_OBJECT, err, STATOR_DATA_LOSS,
               "the note is not a JSON object");
    const char *name = NULL;
    ST_TRY(need_text(root, "name", &name, err));
    ST_FAIL_IF(!st_item_name_ok(STATOR_KIND_PASS, name), err, STATOR_DATA_LOSS,
               "the note's name '%.64s' is not made of letters, "
               "digits, '_', '-', '+' and '.'",
               name);
    out_note->name = name;
    ST_TRY(need_text(root, "version", &out_note->version, err));
    ST_TRY(need_text(root, "abi", &out_note->abi, err));
    ST_TRY(parse_abi(out_note, err));
    ST_TRY(get_text(root, "triple", &out_note->triple, err));
    ST_TRY(get_text(root, "sanitizer", &out_note->sanitizer, err));
    ST_TRY(get_text(root, "vendor", &out_note->vendor, err));
    ST_TRY(get_text(root, "licence", &out_note->licence, err));
    int64_t minor = out_note->abi_minor;
    ST_TRY(
        get_int(root, "min_host_minor", 0, UINT16_MAX, &minor, &out_note->has_min_host_minor, err));
    out_note->min_host_minor = (uint32_t)minor;
    ST_TRY(read_requires(root, arena, out_note, err));
    return read_items(root, arena, out_note, err);
}
