/* Recursive descent over one JSON value; see note_json.h for the limits. */
#include "core/plugins/note_json.h"

#include "core/base/utf8.h"

#include <string.h>

typedef struct json_parser {
    const char *at;
    const char *end;
    const char *begin;
    st_arena *arena;
    stator_diag **err;
    uint32_t depth;
    uint32_t values;
} json_parser;

static stator_status parse_value(json_parser *p, st_json **out);

static stator_status bad(json_parser *p, const char *what)
{
    return st_fail(p->err, STATOR_DATA_LOSS, "not valid JSON at byte %llu: %s",
                   (unsigned long long)(p->at - p->begin), what);
}
#define BAD_IF(condition, p, what)                                                                 \
    do {                                                                                           \
        if (condition) {                                                                           \
            return bad((p), (what));                                                               \
        }                                                                                          \
    } while (0)

static void skip_space(json_parser *p)
{
    while (p->at < p->end &&
           (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')) {
        p->at++;
    }
}

static bool take_word(json_parser *p, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0) {
        return false;
    }
    p->at += n;
    return true;
}

/* Four hexadecimal digits of a \u escape, or -1. */
static int32_t take_hex4(json_parser *p)
{
    int32_t value = 0;
    if (p->end - p->at < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        const int32_t d = st_hex_digit(p->at[i]);
        if (d < 0) {
            return -1;
        }
        value = value * 16 + d;
    }
    p->at += 4;
    return value;
}

static char *put_utf8(char *dst, uint32_t c)
{
    if (c < 0x80) {
        *dst++ = (char)c;
    } else if (c < 0x800) {
        *dst++ = (char)(0xC0 | (c >> 6));
        *dst++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *dst++ = (char)(0xE0 | (c >> 12));
        *dst++ = (char)(0x80 | ((c >> 6) & 63));
        *dst++ = (char)(0x80 | (c & 63));
    } else {
        *dst++ = (char)(0xF0 | (c >> 18));
        *dst++ = (char)(0x80 | ((c >> 12) & 63));
        *dst++ = (char)(0x80 | ((c >> 6) & 63));
        *dst++ = (char)(0x80 | (c & 63));
    }
    return dst;
}

/* One escape sequence, the backslash already taken. */
static stator_status take_escape(json_parser *p, char **dst)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    BAD_IF(p->at >= p->end, p, "the string has no end");
    const char c = *p->at++;
    const char *simple = c != '\0' ? strchr(from, c) : NULL;
    if (simple != NULL) {
        const char mapped = to[simple - from];
        *(*dst)++ = mapped < ' ' ? ' ' : mapped; /* one line of text */
        return STATOR_OK;
    }
    BAD_IF(c != 'u', p, "unknown escape");
    int32_t code = take_hex4(p);
    if (code >= 0xD800 && code < 0xDC00) {
        const int32_t low = take_word(p, "\\u") ? take_hex4(p) : -1;
        BAD_IF(low < 0xDC00 || low > 0xDFFF, p, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code <= 0xDFFF) {
        return bad(p, "half of a surrogate pair");
    }
    BAD_IF(code < ' ' || code == 0x7F, p, "control character or wrong \\u escape");
    *dst = put_utf8(*dst, (uint32_t)code);
    return STATOR_OK;
}

static stator_status take_string(json_parser *p, const char **out)
{
    p->at++; /* the closing quote */
    const char *close = p->at;
    while (close < p->end && *close != '"') {
        close += *close == '\\' && close + 1 < p->end ? 2 : 1;
    }
    char *text = st_arena_alloc(p->arena, (uint64_t)(p->end < close ? 0 : close - p->at) + 1, 1);
    ST_TRY_MEM(text, p->err);
    char *dst = text;
    while (p->at < p->end && *p->at != '"') {
        const unsigned char c = (unsigned char)*p->at;
        if (c == '\\') {
            p->at++;
            ST_TRY(take_escape(p, &dst));
            continue;
        }
        const uint32_t n = st_utf8_length(p->at, (uint64_t)(p->end - p->at));
        BAD_IF(c < ' ' || c == 0x7F || n == 0, p,
               n == 0 ? "text that is not UTF-8" : "control character in a string");
        memcpy(dst, p->at, n);
        dst += n;
        p->at += n;
    }
    BAD_IF(p->at >= p->end, p, "the string has no end");
    p->at++;
    *dst = '\0';
    *out = text;
    return STATOR_OK;
}

static bool is_digit(const json_parser *p)
{
    return p->at < p->end && *p->at >= '0' && *p->at <= '9';
}

static bool take_digits(json_parser *p)
{
    const char *begin = p->at;
    while (is_digit(p)) {
        p->at++;
    }
    return p->at > begin;
}

static stator_status take_number(json_parser *p, st_json *value)
{
    const int is_negative = *p->at == '-';
    p->at += is_negative;
    const char *digits = p->at;
    BAD_IF(!take_digits(p) || (*digits == '0' && p->at - digits > 1), p, "malformed number");
    bool fits = true;
    int64_t number = 0;
    for (const char *d = digits; d < p->at; d++) {
        fits = fits && !__builtin_mul_overflow(number, 10, &number) &&
               !__builtin_sub_overflow(number, *d - '0', &number); /* negative: INT64_MIN fits */
    }
    if (fits && !is_negative) {
        fits = !__builtin_sub_overflow((int64_t)0, number, &number);
    }
    value->type = fits ? ST_JSON_INT : ST_JSON_FLOAT;
    value->number = fits ? number : 0;
    if (p->at < p->end && *p->at == '.') {
        p->at++;
        value->type = ST_JSON_FLOAT;
        BAD_IF(!take_digits(p), p, "malformed number");
    }
    if (p->at < p->end && (*p->at == 'e' || *p->at == 'E')) {
        p->at++;
        value->type = ST_JSON_FLOAT;
        p->at += p->at < p->end && (*p->at == '+' || *p->at == '-');
        BAD_IF(!take_digits(p), p, "malformed number");
    }
    return STATOR_OK;
}

static stator_status take_key(json_parser *p, const st_json *object, const char **out)
{
    ST_FAIL_BY_IF(bad, p->at >= p->end || *p->at != '"', p, "expected a member name in quotes");
    ST_TRY(take_string(p, out));
    BAD_IF(st_json_member(object, *out) != NULL, p, "a member occurs twice");
    skip_space(p);
    BAD_IF(!take_word(p, ":"), p, "expected ':'");
    return STATOR_OK;
}

/* The inside of an array or object, its opening bracket already taken. */
static stator_status take_children(json_parser *p, st_json *parent)
{
    const char *close = parent->type == ST_JSON_OBJECT ? "}" : "]";
    st_json **link = &parent->first;
    skip_space(p);
    if (take_word(p, close)) {
        return STATOR_OK;
    }
    for (;;) {
        const char *key = NULL;
        st_json *child = NULL;
        skip_space(p);
        if (parent->type == ST_JSON_OBJECT) {
            ST_TRY(take_key(p, parent, &key));
        }
        ST_TRY(parse_value(p, &child));
        child->key = key;
        *link = child;
        link = &child->next;
        parent->count++;
        skip_space(p);
        if (take_word(p, close)) {
            return STATOR_OK;
        }
        BAD_IF(!take_word(p, ","), p, "expected ',' or a closing bracket");
    }
}

static stator_status parse_nested(json_parser *p, st_json *value)
{
    BAD_IF(p->depth == ST_JSON_DEPTH_MAX, p, "nested too deeply");
    p->at++;
    p->depth++;
    ST_TRY(take_children(p, value));
    p->depth--;
    return STATOR_OK;
}

static stator_status parse_value(json_parser *p, st_json **out)
{
    st_json *value = st_arena_zalloc(p->arena, 1, sizeof *value);
    ST_TRY_MEM(value, p->err);
    *out = value;
    skip_space(p);
    BAD_IF(p->at >= p->end || ++p->values > ST_JSON_VALUES_MAX, p,
           p->at >= p->end ? "the text ends early" : "too many values");
    const char c = *p->at;
    if (c == '{' || c == '[') {
        value->type = c == '{' ? ST_JSON_OBJECT : ST_JSON_ARRAY;
        return parse_nested(p, value);
    }
    if (c == '"') {
        value->type = ST_JSON_STRING;
        return take_string(p, &value->text);
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
        return take_number(p, value);
    }
    value->type = ST_JSON_BOOL;
    if (take_word(p, "true")) {
        value->number = 1;
        return STATOR_OK;
    }
    if (take_word(p, "false")) {
        return STATOR_OK;
    }
    value->type = ST_JSON_NULL;
    return take_word(p, "null") ? STATOR_OK : bad(p, "expected a value");
}

const st_json *st_json_member(const st_json *object, const char *key)
{
    if (object == NULL || object->type != ST_JSON_OBJECT) {
        return NULL;
    }
    for (const st_json *m = object->first; m != NULL; m = m->next) {
        if (m->key != NULL && strcmp(m->key, key) == 0) {
            return m;
        }
    }
    return NULL;
}

stator_status st_json_parse(const char *text, uint64_t len, st_arena *arena, st_json **out_value,
                            stator_diag **err)
{
    *out_value = NULL;
    json_parser p = {.at = text, .begin = text, .end = text + len, .arena = arena, .err = err};
    ST_TRY(parse_value(&p, out_value));
    skip_space(&p);
    return p.at == p.end ? STATOR_OK : bad(&p, "text after the value");
}
