/* A growing text buffer with a sticky failure: test st_str_ok once at the end. Also small string
 * helpers: edit distance for did-you-mean, glob match, comma lists. */
#ifndef STATOR_BASE_STR_H
#define STATOR_BASE_STR_H

#include "core/base/alloc.h"
#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct st_str {
    st_mem *mem;
    char *data; /* NUL-terminated, or NULL when empty */
    uint64_t len;
    uint64_t capacity;
    uint32_t failed;
} st_str;

void st_str_init(st_str *s, st_mem *mem);
void st_str_deinit(st_str *s);
void st_str_add(st_str *s, const char *text);
void st_str_addn(st_str *s, const char *text, uint64_t n);
/* n more bytes, NUL behind them, for the caller to write at once; NULL when failed. */
char *st_str_extend(st_str *s, uint64_t n);
void st_str_addf(st_str *s, const char *format, ...) STATOR_PRINTF(2, 3);
void st_str_vaddf(st_str *s, const char *format, va_list args);
bool st_str_ok(const st_str *s);
/* The buffer itself, owned by the caller (st_free); NULL when failed. The string is empty after. */
char *st_str_take(st_str *s, uint64_t *out_len);

/* Shortest round-trip text of a double ("nan", "inf", "-inf" too) into buf[32]. */
const char *st_format_f64(double value, char buf[32]);
/* Nearest of n candidates by Damerau-Levenshtein distance, or NULL when none is near. */
const char *st_nearest(const char *word, const char *const *candidates, uint32_t n);
int32_t st_hex_digit(char c);                        /* -1: it is none */
bool st_glob(const char *pattern, const char *text); /* knows * and ? */
/* Does the comma-separated list hold the word? NULL list: no. */
bool st_list_has(const char *list, const char *word);

#ifdef __cplusplus
}
#endif
#endif
