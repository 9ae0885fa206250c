/* Tokens of the expression language, and numbers that do not depend on the locale.
 *
 * In: a NUL-terminated program. Out: one token a call. Numbers: decimal or 0x integers; decimals
 * with a point or an exponent are floats, converted through long double (a 64-bit mantissa), which
 * gives the nearest double for up to 19 digits and small exponents. Strings stand in single or
 * double quotes and have no escapes. */
#include "core/base/check.h"
#include "ir/expr/expr.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#define EXPONENT_MAX 6000

/* 10^n by squaring, n >= 0. */
static long double power_of_ten(int n)
{
    long double result = 1, base = 10;
    for (; n > 0; n >>= 1) {
        if (n & 1) {
            result *= base;
        }
        base *= base;
    }
    return result;
}

static long double scale(long double mantissa, int exponent)
{
    if (mantissa == 0) {
        return 0;
    }
    while (exponent < -4000) { /* in two steps, so that the divisor stays finite */
        mantissa /= power_of_ten(4000);
        exponent += 4000;
    }
    return exponent < 0 ? mantissa / power_of_ten(-exponent) : mantissa * power_of_ten(exponent);
}

/* Digits [.digits] at p; *out_exponent is the power of ten of the mantissa. NULL: no digit. */
static const char *read_digits(const char *p, long double *out, int *out_exponent)
{
    uint64_t mantissa = 0;
    int exponent = 0, any = 0, point = 0;
    for (;; p++) {
        if (*p == '.' && !point) {
            point = 1;
        } else if (isdigit((unsigned char)*p)) {
            any = 1;
            if (mantissa < UINT64_C(1000000000000000000)) {
                mantissa = mantissa * 10u + (uint64_t)(*p - '0');
                exponent -= point;
            } else {
                exponent += !point;
            }
        } else {
            break;
        }
    }
    *out = (long double)mantissa;
    *out_exponent = exponent;
    return any ? p : NULL;
}

/* An exponent part at p, added to *exponent. */
static const char *read_exponent(const char *p, int *exponent)
{
    const char *q = p + 1;
    int value = 0;
    if (*p != 'e' && *p != 'E') {
        return p;
    }
    const bool negative = *q == '-';
    q += *q == '-' || *q == '+';
    if (!isdigit((unsigned char)*q)) {
        return p;
    }
    for (; isdigit((unsigned char)*q); q++) {
        value = value < EXPONENT_MAX ? value * 10 + (*q - '0') : value;
    }
    *exponent += negative ? -value : value;
    return q;
}

bool st_parse_number(const char *s, double *out, const char **out_end)
{
    long double mantissa = 0;
    int exponent = 0;
    const char *p = s;
    const bool negative = *p == '-';
    p += *p == '-' || *p == '+';
    if (strncmp(p, "inf", 3) == 0 || strncmp(p, "nan", 3) == 0) {
        const double value = *p == 'i' ? (double)INFINITY : (double)NAN;
        *out = negative ? -value : value;
        *out_end = p + 3;
        return true;
    }
    p = read_digits(p, &mantissa, &exponent);
    if (p == NULL) {
        return false;
    }
    p = read_exponent(p, &exponent);
    const double value = (double)scale(mantissa, exponent);
    *out = negative ? -value : value;
    *out_end = p;
    return true;
}

static void read_hex(st_expr_token *token, const char **p)
{
    const char *q = *p + 2;
    uint64_t value = 0;
    token->kind = st_hex_digit(*q) >= 0 ? ST_TOKEN_INT : ST_TOKEN_BAD;
    for (; st_hex_digit(*q) >= 0; q++) {
        if (value >> 60) {
            token->kind = ST_TOKEN_BAD;
        }
        value = value << 4 | (uint64_t)st_hex_digit(*q);
    }
    token->i = (int64_t)value;
    *p = q;
}

/* An integer when only digits stand there and they fit 64 bits, else a float. */
static void read_number(st_expr_token *token, const char **p)
{
    const char *q = *p;
    int64_t value = 0;
    bool fits = true;
    if (q[0] == '0' && (q[1] == 'x' || q[1] == 'X')) {
        read_hex(token, p);
        return;
    }
    for (; isdigit((unsigned char)*q); q++) {
        fits = fits && st_mul_i64(value, 10, &value) && st_add_i64(value, *q - '0', &value);
    }
    if (fits && *q != '.' && *q != 'e' && *q != 'E') {
        token->kind = ST_TOKEN_INT;
        token->i = value;
        *p = q;
        return;
    }
    token->kind = st_parse_number(*p, &token->f, p) ? ST_TOKEN_FLOAT : ST_TOKEN_BAD;
}

static void read_string(st_expr_token *token, const char **p)
{
    const char quote = **p;
    const char *end = strchr(*p + 1, quote);
    token->kind = end ? ST_TOKEN_STRING : ST_TOKEN_BAD;
    token->text = *p + 1;
    token->len = end ? (uint32_t)(end - token->text) : 0;
    *p = end ? end + 1 : *p + strlen(*p);
}

static void read_punct(st_expr_token *token, const char **p)
{
    static const char *const pairs[] = {"<=", ">=", "==", "!=", "&&", "||"};
    token->kind = strchr("+-*/%<>=!?:;,()[]", **p) ? ST_TOKEN_PUNCT : ST_TOKEN_BAD;
    token->len = 1;
    for (uint32_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (strncmp(*p, pairs[i], 2) == 0) {
            token->kind = ST_TOKEN_PUNCT;
            token->len = 2;
        }
    }
    *p += token->len;
}

st_expr_token st_expr_next(const char *program, const char **p)
{
    while (isspace((unsigned char)**p)) {
        (*p)++;
    }
    st_expr_token token = {.text = *p, .column = (uint32_t)(*p - program)};
    const char c = **p;
    if (c == '\0') {
        return token;
    }
    if (isalpha((unsigned char)c) || c == '_') {
        while (isalnum((unsigned char)**p) || **p == '_') {
            (*p)++;
        }
        token.kind = ST_TOKEN_NAME;
        token.len = (uint32_t)(*p - token.text);
    } else if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)(*p)[1]))) {
        read_number(&token, p);
        token.len = (uint32_t)(*p - token.text);
    } else if (c == '\'' || c == '"') {
        read_string(&token, p);
    } else {
        read_punct(&token, p);
    }
    return token;
}
