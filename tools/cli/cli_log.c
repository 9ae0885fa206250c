/* The log of the command: what the library has to say while it works. Lines of the channels that
 * STATOR_LOGS names are printed as they come; a warning (level 1: a backend was replaced, an option
 * is deprecated) needs no channel and is printed once a command, also when several contexts or
 * child processes come upon it: hashes of those said lie in memory that children share. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define SAID_MAX 512u

static _Atomic uint64_t *said; /* 0: free; NULL: nothing is remembered */

void cli_log_begin(void)
{
    void *memory = mmap(NULL, SAID_MAX * sizeof *said, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    said = memory != MAP_FAILED ? memory : NULL;
}

/* FNV-1a (Fowler, Noll, Vo), 64 bits. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text != '\0'; text++) {
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    }
    return hash != 0 ? hash : 1;
}

static bool is_said(const char *text)
{
    const uint64_t hash = hash_of(text);
    for (uint32_t i = 0; said != NULL && i < SAID_MAX; i++) {
        uint64_t seen = 0;
        if (atomic_compare_exchange_strong(&said[i], &seen, hash)) {
            return false;
        }
        if (seen == hash) {
            return true;
        }
    }
    return false;
}

void cli_log(void *self, const char *channel, uint32_t level, const char *text)
{
    (void)self;
    const bool is_ended = text[0] != '\0' && text[strlen(text) - 1] == '\n';
    if (level <= 1 && is_said(text)) {
        return;
    }
    if (level > 1) {
        (void)fprintf(stderr, "[%s] ", channel);
    } else {
        (void)fprintf(stderr, "stator: warning: ");
    }
    cli_put_lines(stderr, text);
    if (!is_ended) {
        (void)fputc('\n', stderr);
    }
}
