/* UTF-8 and printable texts; see utf8.h. */
#include "core/base/utf8.h"

#include <string.h>

uint32_t st_utf8_length(const void *text, uint64_t left)
{
    static const struct {
        unsigned char first, last; /* range of the first byte */
        unsigned char low, high;   /* range of the second byte */
        uint32_t length;
    } rows[] = {
        {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    const unsigned char *s = text;
    for (size_t i = 0; left != 0 && i < sizeof rows / sizeof rows[0]; i++) {
        if (s[0] < rows[i].first || s[0] > rows[i].last) {
            continue;
        }
        uint32_t n = 1;
        while (n < rows[i].length && n < left && s[n] >= (n == 1 ? rows[i].low : 0x80) &&
               s[n] <= (n == 1 ? rows[i].high : 0xbf)) {
            n++;
        }
        return n == rows[i].length ? n : 0;
    }
    return 0;
}

uint64_t st_utf8_fit(const char *text, uint64_t most)
{
    const uint64_t length = strlen(text);
    uint64_t n = 0;
    while (n < length) {
        const uint32_t bytes = st_utf8_length(text + n, length - n);
        const uint64_t end = n + (bytes != 0 ? bytes : 1u);
        if (end > most) {
            break;
        }
        n = end;
    }
    return n;
}

uint32_t st_utf8_unprintable(const void *text, uint64_t left)
{
    const unsigned char *s = text;
    const uint32_t n = st_utf8_length(s, left);
    if (n == 0) {
        return 1;
    }
    const bool is_c0 = n == 1 && (s[0] < 0x20 || s[0] == 0x7f);
    const bool is_c1 = n == 2 && s[0] == 0xc2 && s[1] < 0xa0;
    return is_c0 || is_c1 ? n : 0;
}

static bool keeps(const char *at, uint64_t left, enum st_lines lines)
{
    return (lines == ST_LINES_ALL && (*at == '\n' || *at == '\t')) ||
           (lines == ST_LINES_INDENTED && *at == '\n' && left > 1 && at[1] == ' ');
}

uint64_t st_printable(char *out, const char *text, uint64_t n, enum st_lines lines)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t used = 0;
    for (uint64_t at = 0; at < n;) {
        const uint32_t bad = st_utf8_unprintable(text + at, n - at);
        const bool is_kept = bad == 0 || keeps(text + at, n - at, lines);
        for (uint32_t left = bad != 0 ? bad : st_utf8_length(text + at, n - at); left > 0; left--) {
            const unsigned char byte = (unsigned char)text[at++];
            const char escape[4] = {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
            const uint64_t size = is_kept ? 1 : sizeof escape;
            if (out != NULL) {
                memcpy(out + used, is_kept ? (const char *)&byte : escape, size);
            }
            used += size;
        }
    }
    return used;
}

void st_str_add_printable(st_str *s, const char *text, uint64_t n, enum st_lines lines)
{
    const uint64_t size = st_printable(NULL, text, n, lines);
    char *to = st_str_extend(s, size);
    if (to != NULL) {
        (void)st_printable(to, text, n, lines);
    }
}
