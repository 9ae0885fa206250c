/* Texts of others on a terminal: names of models, files and plugins may hold any bytes, and an
 * escape sequence in one shall not move the cursor or set the window's title (core/base/utf8.h). */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include "core/base/utf8.h"

#include <string.h>

const char *cli_clean(const char *text, char out[CLI_CLEAN_BYTES])
{
    uint64_t n = strnlen(text, CLI_CLEAN_BYTES);
    while (st_printable(NULL, text, n, ST_LINES_NONE) >= CLI_CLEAN_BYTES) {
        n--;
    }
    out[st_printable(out, text, n, ST_LINES_NONE)] = '\0';
    return out;
}

static void put(FILE *to, const char *text, enum st_lines lines)
{
    char part[256];
    for (size_t left = strlen(text); left != 0;) {
        uint64_t n =
            left < sizeof part / 4 ? left : sizeof part / 4; /* each byte may become four */
        while (n > 1 && n < left && ((unsigned char)text[n] & 0xc0u) == 0x80u) {
            n--; /* not in the middle of a character */
        }
        (void)fwrite(part, 1, (size_t)st_printable(part, text, n, lines), to);
        text += n;
        left -= n;
    }
}

void cli_put(FILE *to, const char *text)
{
    put(to, text, ST_LINES_NONE);
}

void cli_put_lines(FILE *to, const char *text)
{
    put(to, text, ST_LINES_ALL);
}
