/* The table of option values; see options.h for precedence and namespaces. */
#define _GNU_SOURCE
#include "core/plugins/options.h"

#include "core/base/arena.h"
#include "core/plugins/option_value.h"
#include <inttypes.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

enum { SCHEMA_MAX = 512, ENV_NAME_MAX = 256 };

typedef struct option_slot {
    const stator_option_desc *row;
    st_option_value value;
    uint32_t is_set; /* 0 default, 1 environment, 2 given */
} option_slot;

/* "other.key = text" or "pass:key = text", in the order given. */
typedef struct foreign_value {
    struct foreign_value *next;
    uint32_t kind; /* STATOR_KIND_PASS, else 0 */
    const char *space;
    const char *key; /* behind the dot or colon */
    const char *full_key;
    const char *text;
} foreign_value;

struct stator_options {
    st_mem *mem;
    st_arena arena;
    uint32_t kind; /* kind of the requested item */
    foreign_value *foreign;
    foreign_value **foreign_end;
    uint32_t n_foreign;
    option_slot *slots;
    uint32_t count;
    st_str warnings;
};

typedef struct options_work {
    stator_options *options;
    const st_options_request *request;
    stator_diag **err;
} options_work;

/* ---- the schema itself ---- */

static bool is_key(const char *key)
{
    const size_t n = key != NULL ? strnlen(key, 65) : 0;
    if (n == 0 || n > 64) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const char c = key[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9' && i > 0) || c == '_' || c == '-')) {
            return false;
        }
    }
    return true;
}

static uint32_t find_row(const stator_option_desc *schema, uint32_t count, const char *key)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(schema[i].key, key) == 0) {
            return i;
        }
    }
    return count;
}

static stator_status check_row(const stator_option_desc *schema, uint32_t i, st_arena *arena,
                               stator_diag **err)
{
    const stator_option_desc *row = &schema[i];
    ST_FAIL_IF(!is_key(row->key), err, STATOR_INVALID_ARGUMENT,
               "option %u has no valid key (a-z, 0-9, '_', '-', at most 64)", i);
    ST_FAIL_IF(find_row(schema, i, row->key) < i, err, STATOR_INVALID_ARGUMENT,
               "option '%s' occurs twice", row->key);
    ST_FAIL_IF(st_option_type_name(row->type) == NULL, err, STATOR_INVALID_ARGUMENT,
               "option '%s' has the unknown type %u", row->key, row->type);
    ST_FAIL_IF(row->type == STATOR_OPTION_ENUM && row->enum_values == NULL, err,
               STATOR_INVALID_ARGUMENT, "option '%s' is an enum without values", row->key);
    ST_FAIL_IF(row->min_i64 > row->max_i64 || row->min_f64 > row->max_f64, err,
               STATOR_INVALID_ARGUMENT, "option '%s' has an empty range", row->key);
    st_option_value value;
    ST_FAIL_IF(row->default_text != NULL && st_option_parse(row, "schema", "", row->default_text,
                                                            arena, &value, NULL) != STATOR_OK,
               err, STATOR_INVALID_ARGUMENT,
               "the default '%.64s' of option '%s' is not %s inside its range", row->default_text,
               row->key, st_option_type_name(row->type));
    return STATOR_OK;
}

stator_status st_options_check_schema(const stator_option_desc *schema, uint32_t count,
                                      stator_diag **err)
{
    ST_FAIL_IF(count > SCHEMA_MAX || (count > 0 && schema == NULL), err, STATOR_INVALID_ARGUMENT,
               "an option schema of %u rows at %s", count,
               schema == NULL ? "NULL" : "most 512 are allowed");
    st_mem mem;
    st_arena arena;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_arena_init(&arena, &mem);
    stator_status status = STATOR_OK;
    for (uint32_t i = 0; i < count && status == STATOR_OK; i++) {
        status = check_row(schema, i, &arena, err);
    }
    for (uint32_t i = 0; i < count && status == STATOR_OK; i++) {
        const char *to = schema[i].renamed_to;
        if (to != NULL &&
            (find_row(schema, count, to) == count || strcmp(to, schema[i].key) == 0)) {
            status = st_fail(err, STATOR_INVALID_ARGUMENT,
                             "option '%s' is renamed to '%.64s', which is not in the schema",
                             schema[i].key, to);
        }
    }
    st_arena_deinit(&arena);
    return status;
}

/* ---- setting values ---- */

static stator_status unknown_key(const options_work *w, const char *item, const char *key,
                                 const st_option_schema *schema, const char *where)
{
    const char *names[SCHEMA_MAX] = {NULL};
    uint32_t n = 0;
    for (uint32_t i = 0; i < schema->count && n < SCHEMA_MAX; i++) {
        if (schema->options[i].renamed_to == NULL) {
            names[n++] = schema->options[i].key;
        }
    }
    const char *near = st_nearest(key, names, n);
    st_str list;
    st_str_init(&list, w->options->mem);
    for (uint32_t i = 0; i < n; i++) {
        st_str_addf(&list, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    const bool is_new = w->err != NULL && *w->err == NULL;
    const stator_status status =
        st_fail(w->err, STATOR_INVALID_ARGUMENT, "'%s' has no option '%s'%s%s%s%s; its options: %s",
                item, key, where, near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
                near != NULL ? "'?)" : "", n == 0 || list.data == NULL ? "none" : list.data);
    if (is_new && w->request->kind == 0 && strcmp(item, w->request->item) == 0) {
        st_diag_set_hint(*w->err,
                         "what another backend has is written with its name, BACKEND.%s, as in "
                         "inductor-cpu.tier=fast, and what a pass has PASS:%s",
                         key, key);
    }
    st_str_deinit(&list);
    return status;
}

/* Follows renamed_to; says so in the warnings. */
static uint32_t follow_rename(const options_work *w, uint32_t at, const char *where)
{
    const stator_option_desc *schema = w->request->schema;
    for (uint32_t hops = 0; schema[at].renamed_to != NULL && hops < 8; hops++) {
        st_str_addf(&w->options->warnings, "option '%s' of '%s'%s is now called '%s'\n",
                    schema[at].key, w->request->item, where, schema[at].renamed_to);
        at = find_row(schema, w->request->schema_count, schema[at].renamed_to);
    }
    return at;
}

static stator_status set_value(const options_work *w, const char *key, const char *text,
                               uint32_t source, const char *where)
{
    const st_options_request *r = w->request;
    uint32_t at = find_row(r->schema, r->schema_count, key);
    if (at == r->schema_count) {
        const st_option_schema schema = {.options = r->schema, .count = r->schema_count};
        return unknown_key(w, r->item, key, &schema, where);
    }
    at = follow_rename(w, at, where);
    option_slot *slot = &w->options->slots[at];
    ST_FAIL_IF(slot->is_set == source && source == 2 && slot->row->type != STATOR_OPTION_LIST,
               w->err, STATOR_INVALID_ARGUMENT, "option '%s' of '%s' is given twice",
               slot->row->key, r->item);
    if ((slot->row->flags & STATOR_OPTION_DEPRECATED) != 0 && slot->is_set != source) {
        st_str_addf(&w->options->warnings, "option '%s' of '%s'%s is deprecated\n", slot->row->key,
                    r->item, where);
    }
    if (slot->is_set == source && source == 2) { /* a list given twice goes on */
        st_str joined;
        st_str_init(&joined, w->options->mem);
        st_str_addf(&joined, "%s,%s", slot->value.s, text);
        const stator_status status =
            !st_str_ok(&joined) ? st_fail_oom(w->err)
                                : st_option_parse(slot->row, r->item, where, joined.data,
                                                  &w->options->arena, &slot->value, w->err);
        st_str_deinit(&joined);
        return status;
    }
    slot->is_set = source;
    return st_option_parse(slot->row, r->item, where, text, &w->options->arena, &slot->value,
                           w->err);
}

/* ---- namespaced keys ---- */

static bool is_given_already(const stator_options *options, const char *full_key)
{
    for (const foreign_value *f = options->foreign; f != NULL; f = f->next) {
        if (strcmp(f->full_key, full_key) == 0) {
            return true;
        }
    }
    return false;
}

/* "other.key" or "pass:key": checked against the other item. */
static stator_status check_foreign(const options_work *w, uint32_t kind, const char *space,
                                   const char *full_key, const char *text)
{
    const st_options_request *r = w->request;
    const char *key = full_key + strlen(space) + 1;
    st_option_schema schema = {0};
    ST_FAIL_IF(r->foreign == NULL || !r->foreign(r->foreign_self, kind, space, &schema), w->err,
               STATOR_INVALID_ARGUMENT, "option '%s' is for '%s', and there is no %s of that name",
               full_key, space, kind == STATOR_KIND_PASS ? "pass" : "backend or frontend");
    if (schema.is_names_only) {
        if (schema.names_only == NULL || st_list_has(schema.names_only, key)) {
            return STATOR_OK;
        }
        return st_fail(w->err, STATOR_INVALID_ARGUMENT, "'%s' has no option '%s'; its options: %s",
                       space, key, schema.names_only);
    }
    const uint32_t at = find_row(schema.options, schema.count, key);
    if (at == schema.count) {
        return unknown_key(w, space, key, &schema, "");
    }
    ST_FAIL_IF(schema.options[at].type != STATOR_OPTION_LIST &&
                   is_given_already(w->options, full_key),
               w->err, STATOR_INVALID_ARGUMENT, "option '%s' of '%s' is given twice", key, space);
    st_option_value value;
    return st_option_parse(&schema.options[at], space, "", text, &w->options->arena, &value,
                           w->err);
}

static stator_status keep_foreign(const options_work *w, uint32_t kind, const char *space,
                                  const char *key, const char *text)
{
    stator_options *o = w->options;
    foreign_value *value = st_arena_alloc(&o->arena, sizeof *value, _Alignof(foreign_value));
    char *full_key = st_arena_strndup(&o->arena, key, strlen(key));
    char *copy = st_arena_strndup(&o->arena, text, strlen(text));
    ST_TRY_MEM(value && full_key && copy, w->err);
    *value = (foreign_value){.kind = kind,
                             .space = space,
                             .key = full_key + strlen(space) + 1,
                             .full_key = full_key,
                             .text = copy};
    *o->foreign_end = value;
    o->foreign_end = &value->next;
    o->n_foreign++;
    return STATOR_OK;
}

static stator_status set_given(const options_work *w, const char *key, const char *text)
{
    const char *colon = strchr(key, ':'); /* dots before it are the pass's name */
    const char *end = colon != NULL ? colon : strchr(key, '.');
    const uint32_t kind = colon != NULL ? STATOR_KIND_PASS : 0;
    if (end == NULL) {
        return set_value(w, key, text, 2, "");
    }
    const char *space = st_arena_strndup(&w->options->arena, key, (uint64_t)(end - key));
    ST_TRY_MEM(space, w->err);
    if (kind == w->request->kind && strcmp(space, w->request->item) == 0) {
        return set_value(w, end + 1, text, 2, "");
    }
    ST_TRY(check_foreign(w, kind, space, key, text));
    return keep_foreign(w, kind, space, key, text);
}

/* ---- environment ---- */

static char env_char(char c)
{
    if (c >= 'a' && c <= 'z') {
        return (char)(c - 'a' + 'A');
    }
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
}

/* "STATOR_OPT_<ITEM>_<KEY>"; key "" gives the prefix. 0 when it does not fit. */
static bool env_name(const char *item, const char *key, char out[ENV_NAME_MAX])
{
    static const char head[] = "STATOR_OPT_";
    ST_NEED(sizeof head + strlen(item) + strlen(key) + 1 < ENV_NAME_MAX);
    char *at = stpcpy(out, head);
    for (; *item != '\0'; item++) {
        *at++ = env_char(*item);
    }
    *at++ = '_';
    for (; *key != '\0'; key++) {
        *at++ = env_char(*key);
    }
    *at = '\0';
    return true;
}

/* Could the rest of a variable's name belong to an item whose name is longer, as in
 * STATOR_OPT_AOT_EAGER_X for the items "aot" and "aot_eager"? Then it is not ours to refuse.
 * Each character of a name that is no letter or digit has become '_'; names that mix them are
 * not tried. */
static bool belongs_to_longer(const st_options_request *r, const char *rest, size_t n)
{
    static const char signs[] = "_-.";
    char name[ENV_NAME_MAX];
    st_option_schema schema = {0};
    for (size_t cut = 1; cut < n && r->foreign != NULL; cut++) {
        if (rest[cut] != '_') {
            continue;
        }
        for (const char *sign = signs; *sign != '\0'; sign++) {
            size_t len = strlen(r->item);
            if (len >= sizeof name - 2 || cut >= sizeof name - 1 - len) {
                return false;
            }
            memcpy(name, r->item, len);
            name[len++] = *sign;
            for (size_t i = 0; i < cut; i++) {
                const char c = rest[i];
                name[len++] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c == '_' ? *sign : c);
            }
            name[len] = '\0';
            if (r->foreign(r->foreign_self, 0, name, &schema) ||
                r->foreign(r->foreign_self, STATOR_KIND_PASS, name, &schema)) {
                return true;
            }
        }
    }
    return false;
}

/* A variable with our prefix: which row is it for? */
static stator_status set_from_env(const options_work *w, const char *variable, size_t prefix)
{
    const st_options_request *r = w->request;
    const char *equals = strchr(variable, '=');
    const size_t n = (size_t)(equals - variable);
    char name[ENV_NAME_MAX];
    for (uint32_t i = 0; i < r->schema_count; i++) {
        if (env_name(r->item, r->schema[i].key, name) && strlen(name) == n &&
            memcmp(name, variable, n) == 0) {
            return set_value(w, r->schema[i].key, equals + 1, 1, " (from the environment)");
        }
    }
    if (belongs_to_longer(r, variable + prefix, n - prefix)) {
        return STATOR_OK;
    }
    char *key = st_arena_strndup(&w->options->arena, variable + prefix, n - prefix);
    ST_TRY_MEM(key, w->err);
    for (char *c = key; *c != '\0'; c++) {
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    }
    const st_option_schema schema = {.options = r->schema, .count = r->schema_count};
    return unknown_key(w, r->item, key, &schema, " (from the environment)");
}

static stator_status set_all_from_env(const options_work *w)
{
    char prefix[ENV_NAME_MAX];
    if (!w->request->use_env || getauxval(AT_SECURE) != 0 || environ == NULL ||
        !env_name(w->request->item, "", prefix)) {
        return STATOR_OK;
    }
    const size_t n = strlen(prefix);
    for (char **e = environ; *e != NULL; e++) {
        if (strncmp(*e, prefix, n) == 0 && strchr(*e, '=') != NULL) {
            ST_TRY(set_from_env(w, *e, n));
        }
    }
    return STATOR_OK;
}

/* ---- the table ---- */

static stator_status set_defaults(const options_work *w)
{
    const st_options_request *r = w->request;
    for (uint32_t i = 0; i < r->schema_count; i++) {
        option_slot *slot = &w->options->slots[i];
        slot->row = &r->schema[i];
        if (slot->row->default_text != NULL) {
            ST_TRY(st_option_parse(slot->row, r->item, "", slot->row->default_text,
                                   &w->options->arena, &slot->value, w->err));
        }
        slot->is_set = 0;
    }
    return STATOR_OK;
}

stator_status st_options_create(st_mem *mem, const st_options_request *request,
                                stator_options **out_options, stator_diag **err)
{
    *out_options = NULL;
    ST_REQUIRE_LIST(request->keys, request->count, err);
    ST_REQUIRE_LIST(request->values, request->count, err);
    stator_options *options = st_calloc(mem, 1, sizeof *options);
    ST_TRY_MEM(options, err);
    const options_work w = {options, request, err};
    stator_status status = STATOR_OK;
    options->mem = mem;
    options->kind = request->kind;
    options->foreign_end = &options->foreign;
    st_arena_init(&options->arena, mem);
    st_str_init(&options->warnings, mem);
    options->count = request->schema_count;
    options->slots = st_calloc(mem, (uint64_t)request->schema_count + 1, sizeof *options->slots);
    if (options->slots == NULL) {
        status = st_fail_oom(err);
        goto done;
    }
    ST_TRY_DONE(set_defaults(&w));
    ST_TRY_DONE(set_all_from_env(&w));
    for (uint32_t i = 0; i < request->count; i++) {
        if (request->keys[i] == NULL || request->values[i] == NULL) {
            status = st_fail(err, STATOR_INVALID_ARGUMENT, "option %u has no key or no value", i);
            goto done;
        }
        ST_TRY_DONE(set_given(&w, request->keys[i], request->values[i]));
    }
    if (!st_str_ok(&options->warnings)) {
        status = st_fail_oom(err);
    }
done:
    if (status != STATOR_OK) {
        st_options_destroy(options);
        return status;
    }
    *out_options = options;
    return STATOR_OK;
}

stator_status st_options_foreign(const stator_options *options, uint32_t kind, const char *item,
                                 st_option_pairs *out_pairs, stator_diag **err)
{
    *out_pairs = (st_option_pairs){.mem = NULL};
    if (options == NULL || options->n_foreign == 0) {
        return STATOR_OK;
    }
    const char **keys = st_calloc(options->mem, 2u * (uint64_t)options->n_foreign, sizeof *keys);
    ST_TRY_MEM(keys, err);
    const char **values = keys + options->n_foreign;
    st_option_pairs pairs = {.mem = options->mem, .keys = keys, .values = values};
    for (const foreign_value *f = options->foreign; f != NULL; f = f->next) {
        const bool is_own = f->kind == kind && strcmp(f->space, item) == 0;
        keys[pairs.count] = is_own ? f->key : f->full_key;
        values[pairs.count++] = f->text;
    }
    *out_pairs = pairs;
    return STATOR_OK;
}

void st_option_pairs_deinit(st_option_pairs *pairs)
{
    if (pairs->mem != NULL) {
        st_free(pairs->mem, (void *)(uintptr_t)pairs->keys);
    }
    *pairs = (st_option_pairs){.mem = NULL};
}

void st_options_destroy(stator_options *options)
{
    if (options == NULL) {
        return;
    }
    st_mem *mem = options->mem;
    st_str_deinit(&options->warnings);
    st_free(mem, options->slots);
    st_arena_deinit(&options->arena);
    st_free(mem, options);
}

const char *st_options_warnings(const stator_options *options)
{
    return options->warnings.data != NULL ? options->warnings.data : "";
}

static bool is_in_code_key(const stator_options *options, const stator_option_desc *row)
{
    return (row->flags & STATOR_OPTION_AFFECTS_CODE) != 0 ||
           (options->kind == STATOR_KIND_PASS && (row->flags & STATOR_OPTION_SECRET) == 0);
}

/* Blanks and line ends stand between values, so a text that has them writes "\s" and "\n". */
static void add_text(st_str *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == ' ' || *c == '\n' || *c == '\\') {
            st_str_add(out, *c == ' ' ? "\\s" : *c == '\n' ? "\\n" : "\\\\");
        } else {
            st_str_addn(out, c, 1);
        }
    }
}

void st_options_code_key(const stator_options *options, st_str *out)
{
    char number[32];
    for (uint32_t i = 0; i < options->count; i++) {
        const option_slot *slot = &options->slots[i];
        if (!is_in_code_key(options, slot->row)) {
            continue;
        }
        st_str_addf(out, "%s=", slot->row->key);
        switch (slot->row->type) {
        case STATOR_OPTION_BOOL:
        case STATOR_OPTION_I64:
        case STATOR_OPTION_BYTES:
            st_str_addf(out, "%" PRId64, slot->value.i);
            break;
        case STATOR_OPTION_F64:
            st_str_add(out, st_format_f64(slot->value.f, number));
            break;
        default:
            add_text(out, slot->value.s != NULL ? slot->value.s : "");
            break;
        }
        st_str_add(out, "\n");
    }
}

static const option_slot *find_slot(const stator_options *options, const char *key)
{
    for (uint32_t i = 0; options != NULL && key != NULL && i < options->count; i++) {
        if (strcmp(options->slots[i].row->key, key) == 0) {
            return &options->slots[i];
        }
    }
    return NULL;
}

static int32_t get_bool(const stator_options *options, const char *key)
{
    const option_slot *slot = find_slot(options, key);
    return slot != NULL && slot->row->type == STATOR_OPTION_BOOL && slot->value.i != 0;
}

static int64_t get_i64(const stator_options *options, const char *key)
{
    const option_slot *slot = find_slot(options, key);
    const bool fits = slot != NULL && (slot->row->type == STATOR_OPTION_I64 ||
                                       slot->row->type == STATOR_OPTION_BYTES);
    return fits ? slot->value.i : 0;
}

static double get_f64(const stator_options *options, const char *key)
{
    const option_slot *slot = find_slot(options, key);
    return slot != NULL && slot->row->type == STATOR_OPTION_F64 ? slot->value.f : 0.0;
}

static const char *get_str(const stator_options *options, const char *key)
{
    const option_slot *slot = find_slot(options, key);
    return slot != NULL && slot->value.s != NULL ? slot->value.s : "";
}

const stator_opt_api st_opt_api = {.struct_size = sizeof(stator_opt_api),
                                   .get_bool = get_bool,
                                   .get_i64 = get_i64,
                                   .get_f64 = get_f64,
                                   .get_str = get_str};
