/* Parsing by type; see option_value.h. Numbers do not depend on the locale. */
#define _GNU_SOURCE
#include "core/plugins/option_value.h"

#include "core/base/str.h"
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WORDS_MAX = 256 };

typedef struct option_text {
    const stator_option_desc *row;
    const char *item;
    const char *where;
    const char *text;
    st_arena *arena;
    stator_diag **err;
} option_text;

const char *st_option_type_name(uint32_t type)
{
    switch (type) {
    case STATOR_OPTION_BOOL:
        return "yes or no";
    case STATOR_OPTION_I64:
        return "a whole number";
    case STATOR_OPTION_F64:
        return "a number";
    case STATOR_OPTION_STR:
        return "text";
    case STATOR_OPTION_ENUM:
        return "one of a list of words";
    case STATOR_OPTION_LIST:
        return "a comma-separated list";
    case STATOR_OPTION_BYTES:
        return "a size in bytes (suffix K, M or G)";
    default:
        return NULL;
    }
}

static stator_status refuse(const option_text *t, const char *expected)
{
    const bool is_secret = (t->row->flags & STATOR_OPTION_SECRET) != 0;
    return st_fail(t->err, STATOR_INVALID_ARGUMENT, "option '%s' of '%s'%s is '%s', expected %s",
                   t->row->key, t->item, t->where, is_secret ? "<secret>" : t->text, expected);
}

static stator_status parse_bool(const option_text *t, st_option_value *out)
{
    static const char *const yes[] = {"1", "true", "yes", "on"};
    static const char *const no[] = {"0", "false", "no", "off"};
    for (int i = 0; i < 4; i++) {
        if (strcasecmp(t->text, yes[i]) == 0) {
            out->i = 1;
            return STATOR_OK;
        }
        if (strcasecmp(t->text, no[i]) == 0) {
            out->i = 0;
            return STATOR_OK;
        }
    }
    return refuse(t, "yes or no (also true/false, on/off, 1/0)");
}

/* Factor of a size suffix ("", K, M, G, also KiB, ...); 0 when it is none. */
static int64_t suffix_factor(const char *s)
{
    static const char letters[] = "KMG";
    if (*s == '\0') {
        return 1;
    }
    for (int i = 0; i < 3; i++) {
        const char c = (char)(*s >= 'a' && *s <= 'z' ? *s - 'a' + 'A' : *s);
        if (c == letters[i] && (s[1] == '\0' || strcmp(s + 1, "iB") == 0)) {
            return (int64_t)1 << (10 * (i + 1));
        }
    }
    return 0;
}

static stator_status parse_int(const option_text *t, st_option_value *out)
{
    const stator_option_desc *row = t->row;
    char *end = NULL;
    errno = 0;
    const bool is_hex = strncmp(t->text, "0x", 2) == 0;
    const long long value = strtoll(t->text, &end, is_hex ? 16 : 10);
    const bool is_bytes = row->type == STATOR_OPTION_BYTES;
    const int64_t factor = is_bytes ? suffix_factor(end) : *end == '\0';
    if (end == t->text || errno != 0 || factor == 0 ||
        __builtin_mul_overflow((int64_t)value, factor, &out->i) || (is_bytes && out->i < 0)) {
        return refuse(t, st_option_type_name(row->type));
    }
    ST_FAIL_IF((row->min_i64 != 0 || row->max_i64 != 0) &&
                   (out->i < row->min_i64 || out->i > row->max_i64),
               t->err, STATOR_OUT_OF_RANGE,
               "option '%s' of '%s'%s is %" PRId64 ", outside its range [%" PRId64 ", %" PRId64 "]",
               row->key, t->item, t->where, out->i, row->min_i64, row->max_i64);
    return STATOR_OK;
}

static stator_status parse_float(const option_text *t, st_option_value *out)
{
    const stator_option_desc *row = t->row;
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    ST_TRY_MEM(plain != (locale_t)0, t->err);
    char *end = NULL;
    out->f = strtod_l(t->text, &end, plain);
    freelocale(plain);
    if (end == t->text || *end != '\0') {
        return refuse(t, st_option_type_name(row->type));
    }
    const bool has_range =
        row->min_f64 < 0 || row->min_f64 > 0 || row->max_f64 < 0 || row->max_f64 > 0;
    if (has_range && !(out->f >= row->min_f64 && out->f <= row->max_f64)) {
        char lo[32];
        char hi[32];
        return st_fail(t->err, STATOR_OUT_OF_RANGE,
                       "option '%s' of '%s'%s is %s, outside its range [%s, %s]", row->key, t->item,
                       t->where, t->text, st_format_f64(row->min_f64, lo),
                       st_format_f64(row->max_f64, hi));
    }
    return STATOR_OK;
}

const char *const *st_option_words(const char *list, st_arena *arena, uint32_t max,
                                   uint32_t *out_count)
{
    *out_count = 0;
    const char **words = st_arena_zalloc(arena, max, sizeof *words);
    while (words != NULL && list != NULL && *list != '\0' && *out_count < max) {
        list += strspn(list, " ,");
        size_t n = strcspn(list, ",");
        const char *next = list + n;
        while (n > 0 && list[n - 1] == ' ') {
            n--;
        }
        if (n > 0) {
            words[*out_count] = st_arena_strndup(arena, list, n);
            if (words[*out_count] == NULL) {
                return NULL;
            }
            (*out_count)++;
        }
        list = next;
    }
    return words;
}

/* One word against the row's choices; no choices: anything. */
static stator_status check_word(const option_text *t, const char *word)
{
    if (t->row->enum_values == NULL || st_list_has(t->row->enum_values, word)) {
        return STATOR_OK;
    }
    uint32_t n = 0;
    const char *const *choices = st_option_words(t->row->enum_values, t->arena, WORDS_MAX, &n);
    ST_TRY_MEM(choices, t->err);
    const char *near = st_nearest(word, choices, n);
    return st_fail(t->err, STATOR_INVALID_ARGUMENT,
                   "option '%s' of '%s'%s is '%s'%s%s%s, expected one of: %s", t->row->key, t->item,
                   t->where, word, near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?)" : "", t->row->enum_values);
}

static stator_status parse_words(const option_text *t, st_option_value *out)
{
    if (t->row->type == STATOR_OPTION_ENUM) {
        ST_TRY(check_word(t, t->text));
    } else if (t->row->type == STATOR_OPTION_LIST && t->row->enum_values != NULL) {
        uint32_t n = 0;
        const char *const *words = st_option_words(t->text, t->arena, WORDS_MAX, &n);
        ST_TRY_MEM(words, t->err);
        for (uint32_t i = 0; i < n; i++) {
            ST_TRY(check_word(t, words[i]));
        }
    }
    out->s = st_arena_strndup(t->arena, t->text, strlen(t->text));
    return out->s != NULL ? STATOR_OK : st_fail_oom(t->err);
}

stator_status st_option_parse(const stator_option_desc *row, const char *item, const char *where,
                              const char *text, st_arena *arena, st_option_value *out_value,
                              stator_diag **err)
{
    *out_value = (st_option_value){0};
    const option_text t = {row, item, where, text, arena, err};
    switch (row->type) {
    case STATOR_OPTION_BOOL:
        return parse_bool(&t, out_value);
    case STATOR_OPTION_I64:
    case STATOR_OPTION_BYTES:
        return parse_int(&t, out_value);
    case STATOR_OPTION_F64:
        return parse_float(&t, out_value);
    default:
        return parse_words(&t, out_value);
    }
}
