/* Tokens of the text form (docs/stir.md), and the printing side of the same rules. */
#ifndef STATOR_IR_TEXT_LEX_H
#define STATOR_IR_TEXT_LEX_H

#include "core/base/diag.h"
#include "core/base/str.h"

typedef enum st_token_kind {
    ST_TEXT_END = 0,
    ST_TEXT_IDENT,
    ST_TEXT_VALUE,  /* text without the '%' */
    ST_TEXT_INT,    /* decimal digits */
    ST_TEXT_HEX,    /* 0x and digits: bits of an element */
    ST_TEXT_FLOAT,  /* anything else that C reads as a number */
    ST_TEXT_STRING, /* text with its quotes and escapes */
    ST_TEXT_PUNCT   /* one character */
} st_token_kind;

typedef struct st_token {
    st_token_kind kind;
    const char *text; /* into the source */
    uint64_t len;
    uint64_t offset; /* position of its first byte, quotes and '%' included */
} st_token;

typedef struct st_lexer {
    const char *text;
    uint64_t len;
    uint64_t pos; /* just behind the current token */
    const char *file_name;
    st_token token;
    stator_diag **err; /* receives why reading fails */
} st_lexer;

void st_lexer_init(st_lexer *lex, const char *text, uint64_t len, const char *file_name);
/* Moves to the next token. INVALID_ARGUMENT for a byte or a string that is none. */
stator_status st_lex_next(st_lexer *lex);
/* Line and column, from 1, of a byte offset. */
void st_lex_place(const st_lexer *lex, uint64_t offset, uint32_t *out_line, uint32_t *out_column);
/* Fails with "file:line:column: " and the text, at the current token. */
stator_status st_lex_fail(const st_lexer *lex, const char *format, ...) STATOR_PRINTF(2, 3);
#define ST_LEX_FAIL_IF(condition, ...) ST_FAIL_BY_IF(st_lex_fail, condition, __VA_ARGS__)
/* The same at a byte offset. */
stator_status st_lex_fail_at(const st_lexer *lex, uint64_t offset, const char *format, ...)
    STATOR_PRINTF(3, 4);
#define ST_LEX_FAIL_AT_IF(condition, ...) ST_FAIL_BY_IF(st_lex_fail_at, condition, __VA_ARGS__)
/* "expected X, found Y". */
stator_status st_lex_expected(const st_lexer *lex, const char *what);

bool st_lex_is(const st_lexer *lex, char punct);
bool st_lex_is_word(const st_lexer *lex, const char *word);
/* Moves past the character or word when it is there: *out_found. */
stator_status st_lex_accept(st_lexer *lex, char punct, bool *out_found);
stator_status st_lex_accept_word(st_lexer *lex, const char *word, bool *out_found);
stator_status st_lex_expect(st_lexer *lex, char punct);
stator_status st_lex_expect_word(st_lexer *lex, const char *word);
/* An unsigned decimal number up to max. `what` is for the message. */
stator_status st_lex_u64(st_lexer *lex, const char *what, uint64_t max, uint64_t *out);
/* A decimal number with an optional '-'. */
stator_status st_lex_i64(st_lexer *lex, const char *what, int64_t *out);
/* A string, or an identifier where is_name is set, appended to out with its escapes resolved. */
stator_status st_lex_string(st_lexer *lex, const char *what, bool is_name, st_str *out);

/* Is text an IDENT of the grammar? */
bool st_is_ident(const char *text);
/* Appends text in quotes, escaped so that st_lex_string gives it back. */
void st_print_quoted(st_str *out, const char *text);
/* An IDENT as it is, anything else quoted. */
void st_print_name(st_str *out, const char *text);

#endif
