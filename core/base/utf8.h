/* UTF-8 (RFC 3629), and texts of others on their way to a reader: names of models, files and
 * plugins may hold any bytes, and an escape sequence in one shall not move the cursor, nor a line
 * break fake a message. */
#ifndef STATOR_BASE_UTF8_H
#define STATOR_BASE_UTF8_H

#include "core/base/str.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the well-formed sequence at `s`, of which `left` bytes may be read: 1 to 4, 0 when there
 * is none (overlong, a surrogate, past U+10FFFF, cut short). NUL is a sequence of 1. */
uint32_t st_utf8_length(const void *s, uint64_t left);
/* Bytes of the longest beginning of the text that has at most `most` and ends in no character; a
 * byte that is part of none counts as one. */
uint64_t st_utf8_fit(const char *text, uint64_t most);
/* Bytes at `s` that are not to be shown as they are: a control character (C0, DEL, C1), or a byte
 * that begins no sequence. 0: the character there is printable. */
uint32_t st_utf8_unprintable(const void *s, uint64_t left);

/* How line breaks and tabs of a text are kept. */
enum st_lines {
    ST_LINES_NONE = 0, /* a name */
    ST_LINES_INDENTED, /* line breaks before a blank: a message with its notes */
    ST_LINES_ALL       /* a text of many lines; tabs too */
};
/* Writes the n bytes of text to `out` with each unprintable byte as \xNN; NULL: writes nothing.
 * Returns how many bytes that are, without a NUL, which is not written. */
uint64_t st_printable(char *out, const char *text, uint64_t n, enum st_lines lines);
void st_str_add_printable(st_str *s, const char *text, uint64_t n, enum st_lines lines);

#ifdef __cplusplus
}
#endif
#endif
