/* Texts of others on a terminal: names of models, files and plugins may hold any bytes, and an
 * escape sequence in one shall not move the cursor or set the window's title. */
#include "cli.h"

/* Bytes of the control character at the place: C0, DEL, or C1 as UTF-8; 0: it is none. */
static uint32_t control_at(const unsigned char *at)
{
    if (at[0] < 0x20u || at[0] == 0x7fu) {
        return 1;
    }
    return at[0] == 0xc2u && at[1] >= 0x80u && at[1] < 0xa0u ? 2u : 0u;
}

const char *cli_clean(const char *text, char out[CLI_CLEAN_BYTES])
{
    uint32_t used = 0;
    for (const unsigned char *at = (const unsigned char *)text;
         *at != '\0' && used + 9u < CLI_CLEAN_BYTES;) {
        uint32_t n = control_at(at);
        if (n == 0) {
            out[used++] = (char)*at++;
            continue;
        }
        for (; n > 0; n--) {
            used += (uint32_t)snprintf(out + used, CLI_CLEAN_BYTES - used, "\\x%02x", *at++);
        }
    }
    out[used] = '\0';
    return out;
}

static void put(FILE *to, const char *text, int keeps_lines)
{
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
        uint32_t n = control_at(at);
        if (n == 0 || (keeps_lines && (*at == '\n' || *at == '\t'))) {
            (void)fputc(*at++, to);
            continue;
        }
        for (; n > 0; n--) {
            (void)fprintf(to, "\\x%02x", *at++);
        }
    }
}

void cli_put(FILE *to, const char *text)
{
    put(to, text, 0);
}

void cli_put_lines(FILE *to, const char *text)
{
    put(to, text, 1);
}
