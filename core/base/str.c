/* Growing text and small string helpers. A failed allocation sets `failed` and every later call
 * does nothing, so that writers test once at the end. */
#include "core/base/str.h"

#include "core/base/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void st_str_init(st_str *s, st_mem *mem)
{
    *s = (st_str){.mem = mem};
}

void st_str_deinit(st_str *s)
{
    st_free(s->mem, s->data);
    st_str_init(s, s->mem);
}

/* Room for n more bytes and the NUL. */
static bool reserve(st_str *s, uint64_t n)
{
    uint64_t need = 0;
    if (s->failed || !st_add_u64(s->len, n, &need) || !st_add_u64(need, 1, &need)) {
        s->failed = 1;
        return false;
    }
    if (need <= s->capacity) {
        return true;
    }
    uint64_t grown = s->capacity < 32u ? 64u : s->capacity * 2u;
    grown = grown < need ? need : grown;
    char *data = st_realloc(s->mem, s->data, grown, 1);
    if (data == NULL) {
        s->failed = 1;
        return false;
    }
    s->data = data;
    s->capacity = grown;
    return true;
}

char *st_str_extend(st_str *s, uint64_t n)
{
    if (!reserve(s, n)) {
        return NULL;
    }
    char *at = s->data + s->len;
    s->len += n;
    s->data[s->len] = '\0';
    return at;
}

void st_str_addn(st_str *s, const char *text, uint64_t n)
{
    char *to = st_str_extend(s, n);
    if (to != NULL && n != 0) {
        memcpy(to, text, (size_t)n);
    }
}

void st_str_add(st_str *s, const char *text)
{
    st_str_addn(s, text, strlen(text));
}

void st_str_vaddf(st_str *s, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    const uint64_t room = s->failed ? 0 : s->capacity - s->len;
    const int n = vsnprintf(room != 0 ? s->data + s->len : NULL, (size_t)room, format, args);
    if (n < 0) {
        s->failed = 1;
    } else if ((uint64_t)n < room) {
        s->len += (uint64_t)n;
    } else if (reserve(s, (uint64_t)n)) {
        vsnprintf(s->data + s->len, (size_t)n + 1u, format, again);
        s->len += (uint64_t)n;
    }
    va_end(again);
}

void st_str_addf(st_str *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    st_str_vaddf(s, format, args);
    va_end(args);
}

bool st_str_ok(const st_str *s)
{
    return !s->failed;
}

char *st_str_take(st_str *s, uint64_t *out_len)
{
    if (out_len != NULL) {
        *out_len = 0;
    }
    if (!reserve(s, 0)) {
        st_str_deinit(s);
        return NULL;
    }
    char *data = s->data;
    data[s->len] = '\0';
    if (out_len != NULL) {
        *out_len = s->len;
    }
    st_str_init(s, s->mem);
    return data;
}

/* Whatever the locale writes between the digits becomes one point. */
static void fix_point(char *text)
{
    char *out = text;
    bool in_point = false;
    for (const char *p = text; *p != '\0'; p++) {
        if (strchr("+-0123456789e", *p) != NULL) {
            *out++ = *p;
            in_point = false;
        } else if (!in_point) {
            *out++ = '.';
            in_point = true;
        }
    }
    *out = '\0';
}

const char *st_format_f64(double value, char buf[32])
{
    if (value != value) {
        return strcpy(buf, "nan");
    }
    if (value > 1.7976931348623157e308 || value < -1.7976931348623157e308) {
        return strcpy(buf, value > 0 ? "inf" : "-inf");
    }
    if (value > -1e15 && value < 1e15 && value == (double)(int64_t)value) {
        snprintf(buf, 32, "%.0f", value); /* keeps the sign of -0 */
        return buf;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, 32, "%.*g", digits, value);
        if (strtod(buf, NULL) == value) {
            break;
        }
    }
    fix_point(buf);
    return buf;
}

#define NEAR_MAX 63u

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Damerau-Levenshtein distance in its restricted form (optimal string alignment), three rows. Both
 * lengths are at most NEAR_MAX. */
static uint32_t distance(const char *a, uint32_t n, const char *b, uint32_t m)
{
    uint32_t rows[3][NEAR_MAX + 1u];
    for (uint32_t j = 0; j <= m; j++) {
        rows[0][j] = j;
    }
    for (uint32_t i = 1; i <= n; i++) {
        uint32_t *row = rows[i % 3];
        const uint32_t *above = rows[(i + 2) % 3];
        const uint32_t *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (uint32_t j = 1; j <= m; j++) {
            const char x = lower(a[i - 1]);
            const char y = lower(b[j - 1]);
            row[j] = least(least(above[j] + 1u, row[j - 1] + 1u), above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && y == lower(a[i - 2])) {
                row[j] = least(row[j], above2[j - 2] + 1u);
            }
        }
    }
    return rows[n % 3][m];
}

const char *st_nearest(const char *word, const char *const *candidates, uint32_t n)
{
    const char *best = NULL;
    const size_t len = strlen(word);
    if (len > NEAR_MAX) {
        return NULL;
    }
    uint32_t best_distance = len <= 3 ? 2u : 2u + (uint32_t)len / 4u; /* first one too far */
    for (uint32_t i = 0; i < n; i++) {
        const size_t other = strlen(candidates[i]);
        if (other > NEAR_MAX) {
            continue;
        }
        uint32_t d = distance(word, (uint32_t)len, candidates[i], (uint32_t)other);
        const size_t shorter = len < other ? len : other;
        if (shorter >= 3 && strncmp(word, candidates[i], shorter) == 0 && d > 1) {
            d = 1; /* one begins with the other: "inductor" for "inductor-cpu" */
        }
        if (d < best_distance) {
            best_distance = d;
            best = candidates[i];
        }
    }
    return best;
}

int32_t st_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool st_glob(const char *pattern, const char *text)
{
    const char *star = NULL; /* the last `*` of the pattern; `from`: where its text begins */
    const char *from = NULL;
    while (*text != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            from = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star + 1;
            text = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

bool st_list_has(const char *list, const char *word)
{
    const size_t len = strlen(word);
    while (list != NULL && *list != '\0') {
        list += strspn(list, " ,");
        size_t n = strcspn(list, ",");
        const char *next = list + n;
        while (n > 0 && list[n - 1] == ' ') {
            n--;
        }
        if (n == len && n != 0 && memcmp(list, word, n) == 0) {
            return true;
        }
        list = next;
    }
    return false;
}
