/* Lexer of the text form: bytes in, tokens out, with the place of each error. Reads nothing past
 * len, allocates nothing, and takes any input. Bytes above 0x7f stand in strings and comments only
 * and have to be UTF-8 there (RFC 3629). */
#include "ir/text/text_lex.h"

#include "core/base/utf8.h"

#include <stdio.h>
#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex_digit(char c)
{
    return st_hex_digit(c) >= 0;
}

static bool is_word_byte(char c)
{
    return is_letter(c) || is_digit(c) || c == '.';
}

void st_lexer_init(st_lexer *lex, const char *text, uint64_t len, const char *file_name)
{
    *lex = (st_lexer){.text = text, .len = len, .file_name = file_name ? file_name : "<text>"};
    lex->token = (st_token){.kind = ST_TEXT_END, .text = text};
}

void st_lex_place(const st_lexer *lex, uint64_t offset, uint32_t *out_line, uint32_t *out_column)
{
    uint32_t line = 1;
    uint64_t begin = 0;
    for (uint64_t i = 0; i < offset && i < lex->len; i++) {
        if (lex->text[i] == '\n') {
            line++;
            begin = i + 1;
        }
    }
    *out_line = line;
    *out_column = (uint32_t)(offset - begin + 1);
}

static stator_status fail_va(const st_lexer *lex, uint64_t offset, const char *format, va_list args)
{
    char text[512];
    uint32_t line, column;
    (void)vsnprintf(text, sizeof text, format, args);
    st_lex_place(lex, offset, &line, &column);
    return st_fail(lex->err, STATOR_INVALID_ARGUMENT, "%s:%u:%u: %s", lex->file_name, line, column,
                   text);
}

stator_status st_lex_fail(const st_lexer *lex, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const stator_status status = fail_va(lex, lex->token.offset, format, args);
    va_end(args);
    return status;
}

stator_status st_lex_fail_at(const st_lexer *lex, uint64_t offset, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const stator_status status = fail_va(lex, offset, format, args);
    va_end(args);
    return status;
}

stator_status st_lex_expected(const st_lexer *lex, const char *what)
{
    ST_LEX_FAIL_IF(lex->token.kind == ST_TEXT_END, lex, "expected %s, found the end of the text",
                   what);
    const uint64_t begin = lex->token.offset;
    const uint64_t len = lex->pos - begin < 40 ? lex->pos - begin : 40;
    return st_lex_fail(lex, "expected %s, found '%.*s'", what, (int)len, lex->text + begin);
}

/* ---- scanning ---- */

static void skip_space(st_lexer *lex)
{
    while (lex->pos < lex->len) {
        const char c = lex->text[lex->pos];
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            lex->pos++;
        } else if (c == '/' && lex->pos + 1 < lex->len && lex->text[lex->pos + 1] == '/') {
            const char *end = memchr(lex->text + lex->pos, '\n', lex->len - lex->pos);
            lex->pos = end ? (uint64_t)(end - lex->text) : lex->len;
        } else {
            return;
        }
    }
}

static char peek(const st_lexer *lex, uint64_t at)
{
    return at < lex->len ? lex->text[at] : '\0';
}

static uint64_t skip_digits(const st_lexer *lex, uint64_t at, bool (*is)(char))
{
    while (at < lex->len && is(lex->text[at])) {
        at++;
    }
    return at;
}

/* A number without sign, up to where it ends; what follows is the caller's to judge. */
static st_token_kind scan_number(const st_lexer *lex, uint64_t at, uint64_t *out_end)
{
    const bool is_hex = lex->text[at] == '0' && peek(lex, at + 1) == 'x';
    bool (*const is)(char) = is_hex ? is_hex_digit : is_digit;
    const char low = is_hex ? 'p' : 'e', high = is_hex ? 'P' : 'E';
    st_token_kind kind = is_hex ? ST_TEXT_HEX : ST_TEXT_INT;
    at = skip_digits(lex, is_hex ? at + 2 : at, is);
    if (peek(lex, at) == '.') {
        kind = ST_TEXT_FLOAT;
        at = skip_digits(lex, at + 1, is);
    }
    if (peek(lex, at) == low || peek(lex, at) == high) {
        kind = ST_TEXT_FLOAT;
        at++;
        at += peek(lex, at) == '+' || peek(lex, at) == '-';
        at = skip_digits(lex, at, is_digit);
    }
    *out_end = at;
    return kind;
}

static stator_status scan_string(st_lexer *lex)
{
    uint64_t at = lex->token.offset + 1;
    while (peek(lex, at) != '"') {
        const unsigned char *s = (const unsigned char *)lex->text + at;
        ST_LEX_FAIL_IF(at >= lex->len || *s == '\n', lex,
                       "this string has no closing '\"' on its line");
        ST_LEX_FAIL_AT_IF(*s < 0x20 || *s == 0x7f, lex, at,
                          "control byte 0x%02x in a string; write \\x%02x", *s, *s);
        const uint64_t n = *s == '\\' ? 1 : st_utf8_length(s, lex->len - at);
        ST_LEX_FAIL_AT_IF(n == 0, lex, at, "byte 0x%02x is not UTF-8; write \\x%02x", *s, *s);
        at += n;
        at += *s == '\\' && at < lex->len && lex->text[at] != '\n';
    }
    lex->token.kind = ST_TEXT_STRING;
    lex->pos = at + 1;
    return STATOR_OK;
}

stator_status st_lex_next(st_lexer *lex)
{
    skip_space(lex);
    const uint64_t begin = lex->pos;
    const char c = peek(lex, begin);
    lex->token = (st_token){.kind = ST_TEXT_END, .text = lex->text + begin, .offset = begin};
    if (begin >= lex->len) {
        return STATOR_OK;
    }
    if (is_letter(c)) {
        lex->token.kind = ST_TEXT_IDENT;
        lex->pos = skip_digits(lex, begin, is_word_byte);
    } else if (c == '%') {
        lex->token.kind = ST_TEXT_VALUE;
        lex->token.text++;
        lex->pos = skip_digits(lex, begin + 1, is_word_byte);
        ST_LEX_FAIL_IF(lex->pos == begin + 1, lex, "expected a number or a name after '%%'");
    } else if (is_digit(c)) {
        lex->token.kind = scan_number(lex, begin, &lex->pos);
        ST_LEX_FAIL_IF(is_word_byte(peek(lex, lex->pos)), lex, "malformed number");
    } else if (c == '"') {
        ST_TRY(scan_string(lex));
    } else if (c != '\0' && strchr("(){}[],:=@^*+-", c)) {
        lex->token.kind = ST_TEXT_PUNCT;
        lex->pos = begin + 1;
    } else {
        return st_lex_fail(lex, "unexpected byte 0x%02x", (unsigned char)c);
    }
    lex->token.len = lex->pos - (uint64_t)(lex->token.text - lex->text);
    return STATOR_OK;
}

/* ---- taking tokens ---- */

bool st_lex_is(const st_lexer *lex, char punct)
{
    return lex->token.kind == ST_TEXT_PUNCT && *lex->token.text == punct;
}

bool st_lex_is_word(const st_lexer *lex, const char *word)
{
    return lex->token.kind == ST_TEXT_IDENT && strlen(word) == lex->token.len &&
           memcmp(word, lex->token.text, lex->token.len) == 0;
}

stator_status st_lex_accept(st_lexer *lex, char punct, bool *out_found)
{
    *out_found = st_lex_is(lex, punct);
    return *out_found ? st_lex_next(lex) : STATOR_OK;
}

stator_status st_lex_accept_word(st_lexer *lex, const char *word, bool *out_found)
{
    *out_found = st_lex_is_word(lex, word);
    return *out_found ? st_lex_next(lex) : STATOR_OK;
}

stator_status st_lex_expect(st_lexer *lex, char punct)
{
    const char what[4] = {'\'', punct, '\'', '\0'};
    return st_lex_is(lex, punct) ? st_lex_next(lex) : st_lex_expected(lex, what);
}

stator_status st_lex_expect_word(st_lexer *lex, const char *word)
{
    char what[48];
    (void)snprintf(what, sizeof what, "'%s'", word);
    return st_lex_is_word(lex, word) ? st_lex_next(lex) : st_lex_expected(lex, what);
}

/* Value of the digits of an INT token, 0 when above max. */
static bool digits_value(const st_token *token, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;
    for (uint64_t i = 0; i < token->len; i++) {
        const uint64_t digit = (uint64_t)(token->text[i] - '0');
        if (value > (max - digit) / 10 || digit > max) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

stator_status st_lex_u64(st_lexer *lex, const char *what, uint64_t max, uint64_t *out)
{
    ST_FAIL_BY_IF(st_lex_expected, lex->token.kind != ST_TEXT_INT, lex, what);
    ST_LEX_FAIL_IF(!digits_value(&lex->token, max, out), lex, "%s is too large, the most is %llu",
                   what, (unsigned long long)max);
    return st_lex_next(lex);
}

stator_status st_lex_i64(st_lexer *lex, const char *what, int64_t *out)
{
    bool is_negative;
    uint64_t magnitude = 0;
    ST_TRY(st_lex_accept(lex, '-', &is_negative));
    ST_TRY(st_lex_u64(lex, what, (uint64_t)INT64_MAX + (uint64_t)is_negative, &magnitude));
    *out = is_negative ? (int64_t)(0u - magnitude) : (int64_t)magnitude;
    return STATOR_OK;
}

/* Resolves the escape whose letter stands at *at; *at moves past it. */
static stator_status take_escape(const st_lexer *lex, uint64_t *at, char *out)
{
    static const char letters[] = "\"\\ntr", bytes[] = "\"\\\n\t\r";
    const char c = peek(lex, *at);
    const char *found = c == '\0' ? NULL : strchr(letters, c);
    if (found) {
        *out = bytes[found - letters];
        *at += 1;
        return STATOR_OK;
    }
    ST_LEX_FAIL_AT_IF(c != 'x' || !is_hex_digit(peek(lex, *at + 1)) ||
                          !is_hex_digit(peek(lex, *at + 2)),
                      lex, *at - 1, "unknown escape; there are \\\" \\\\ \\n \\t \\r and \\xHH");
    *out = (char)(st_hex_digit(lex->text[*at + 1]) * 16 + st_hex_digit(lex->text[*at + 2]));
    ST_LEX_FAIL_AT_IF(*out == '\0', lex, *at - 1, "a string cannot hold the byte 00");
    *at += 3;
    return STATOR_OK;
}

stator_status st_lex_string(st_lexer *lex, const char *what, bool is_name, st_str *out)
{
    const st_token *token = &lex->token;
    if (is_name && token->kind == ST_TEXT_IDENT) {
        st_str_addn(out, token->text, token->len);
    } else if (token->kind == ST_TEXT_STRING) {
        uint64_t at = token->offset + 1;
        const uint64_t end = lex->pos - 1;
        while (at < end) {
            char c = lex->text[at++];
            if (c == '\\') {
                ST_TRY(take_escape(lex, &at, &c));
            }
            st_str_addn(out, &c, 1);
        }
    } else {
        return st_lex_expected(lex, what);
    }
    return st_str_ok(out) ? st_lex_next(lex) : st_fail_oom(lex->err);
}

/* ---- printing ---- */

bool st_is_ident(const char *text)
{
    if (!is_letter(text[0])) {
        return false;
    }
    for (const char *c = text; *c; c++) {
        if (!is_word_byte(*c)) {
            return false;
        }
    }
    return true;
}

void st_print_quoted(st_str *out, const char *text)
{
    static const char letters[] = "\"\\ntr", bytes[] = "\"\\\n\t\r";
    const uint64_t len = strlen(text);
    st_str_add(out, "\"");
    for (uint64_t i = 0; i < len;) {
        const unsigned char c = (unsigned char)text[i];
        const char *found = strchr(bytes, (char)c);
        const uint64_t n = st_utf8_length(text + i, len - i);
        if (found) {
            st_str_addf(out, "\\%c", letters[found - bytes]);
        } else if (c < 0x20 || c == 0x7f || n == 0) {
            st_str_addf(out, "\\x%02x", c);
        } else {
            st_str_addn(out, text + i, n);
        }
        i += n == 0 ? 1 : n;
    }
    st_str_add(out, "\"");
}

void st_print_name(st_str *out, const char *text)
{
    if (st_is_ident(text)) {
        st_str_add(out, text);
    } else {
        st_print_quoted(out, text);
    }
}
