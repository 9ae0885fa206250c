/* Elements as text. A float prints as the shortest decimal number that reads back to the same bits
 * in its own dtype: the number of digits grows from 1 until it does (Steele and White's criterion,
 * found by trial). NaN other than the plain quiet one prints as its bits, so payloads and signs
 * survive. Reading rounds once, to nearest even, and refuses what leaves the range. */
#define _GNU_SOURCE /* newlocale, uselocale */
#include "ir/text/text_literal.h"

#include "core/base/check.h"
#include "core/base/convert.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* glibc hands out its static C locale here, so nothing has to be freed. */
st_c_locale st_c_locale_enter(void)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return (st_c_locale){.before = (void *)(c ? uselocale(c) : (locale_t)0)};
}

void st_c_locale_leave(st_c_locale locale)
{
    if (locale.before) {
        (void)uselocale((locale_t)locale.before);
    }
}

/* ---- bits and values of float dtypes ---- */

static uint64_t load_bits(uint32_t bits, const void *data, uint64_t i)
{
    uint64_t value = 0;
    memcpy(&value, (const char *)data + i * (bits / 8u), bits / 8u); /* little-endian host */
    return value;
}

static void store_bits(uint32_t bits, void *data, uint64_t i, uint64_t value)
{
    memcpy((char *)data + i * (bits / 8u), &value, bits / 8u);
}

static double value_of_bits(uint32_t dtype, uint64_t bits)
{
    double f64;
    float f32;
    const uint32_t low = (uint32_t)bits;
    switch (dtype) {
    case STATOR_F8E4M3FN:
        return (double)st_f8e4m3fn_to_f32((uint8_t)bits);
    case STATOR_F8E5M2:
        return (double)st_f8e5m2_to_f32((uint8_t)bits);
    case STATOR_BF16:
        return (double)st_bf16_to_f32((uint16_t)bits);
    case STATOR_F16:
        return (double)st_f16_to_f32((uint16_t)bits);
    case STATOR_F32:
        memcpy(&f32, &low, sizeof f32);
        return (double)f32;
    default:
        memcpy(&f64, &bits, sizeof f64);
        return f64;
    }
}

/* Bits of a decimal number (never NaN), rounded to the dtype. */
static uint64_t bits_of_text(uint32_t dtype, const char *text, char **end)
{
    if (dtype == STATOR_F32) {
        const float f32 = strtof(text, end);
        uint32_t bits;
        memcpy(&bits, &f32, sizeof bits);
        return bits;
    }
    const double value = strtod(text, end);
    uint64_t bits;
    switch (dtype) {
    case STATOR_F8E4M3FN:
        return st_f64_to_f8e4m3fn(value, false);
    case STATOR_F8E5M2:
        return st_f64_to_f8e5m2(value, false);
    case STATOR_BF16:
        return st_f64_to_bf16(value);
    case STATOR_F16:
        return st_f64_to_f16(value);
    default:
        memcpy(&bits, &value, sizeof bits);
        return bits;
    }
}

static uint64_t plain_nan(uint32_t dtype)
{
    switch (dtype) {
    case STATOR_F8E4M3FN:
        return 0x7f;
    case STATOR_F8E5M2:
        return 0x7e;
    case STATOR_BF16:
        return 0x7fc0;
    case STATOR_F16:
        return 0x7e00;
    case STATOR_F32:
        return 0x7fc00000;
    default:
        return UINT64_C(0x7ff8000000000000);
    }
}

static void print_float(st_str *out, uint32_t dtype, uint64_t bits)
{
    const double value = value_of_bits(dtype, bits);
    char text[40];
    if (isnan(value)) {
        if (bits == plain_nan(dtype)) {
            st_str_add(out, "nan");
        } else {
            st_str_addf(out, "0x%0*" PRIx64, (int)(st_dtype_bits(dtype) / 4u), bits);
        }
        return;
    }
    if (isinf(value)) {
        st_str_add(out, value < 0 ? "-inf" : "inf");
        return;
    }
    if (fabs(value) < 1e15 && value == trunc(value)) { /* 100, not 1e+02 */
        st_str_addf(out, "%.0f", value);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (bits_of_text(dtype, text, NULL) == bits) {
            break;
        }
    }
    st_str_add(out, text);
}

/* The part of a complex dtype, or the dtype itself. */
static uint32_t part_of(uint32_t dtype)
{
    return dtype == STATOR_C64 ? STATOR_F32 : dtype == STATOR_C128 ? STATOR_F64 : dtype;
}

static void print_integer(st_str *out, uint32_t dtype, const void *data, uint64_t i)
{
    const int64_t value = st_load_i64(dtype, data, (int64_t)i);
    if (dtype == STATOR_BOOL) {
        const uint8_t byte = ((const uint8_t *)data)[i];
        if (byte > 1) {
            st_str_addf(out, "%u", byte);
        } else {
            st_str_add(out, byte ? "true" : "false");
        }
    } else if (dtype == STATOR_U64) {
        st_str_addf(out, "%" PRIu64, (uint64_t)value);
    } else {
        st_str_addf(out, "%" PRId64, value);
    }
}

void st_literal_print(st_str *out, uint32_t dtype, const void *data, uint64_t i)
{
    const uint32_t part = part_of(dtype), bits = st_dtype_bits(part);
    switch (st_dtype_class(dtype)) {
    case STATOR_CLASS_FLOAT:
        print_float(out, dtype, load_bits(bits, data, i));
        break;
    case STATOR_CLASS_COMPLEX:
        st_str_add(out, "(");
        print_float(out, part, load_bits(bits, data, 2 * i));
        st_str_add(out, ", ");
        print_float(out, part, load_bits(bits, data, 2 * i + 1));
        st_str_add(out, ")");
        break;
    default:
        print_integer(out, dtype, data, i);
    }
}

void st_literal_print_f64(st_str *out, double value)
{
    st_literal_print(out, STATOR_F64, &value, 0);
}

/* ---- reading ---- */

/* Bits of a HEX token; refused when the dtype has fewer. */
static stator_status parse_bits(st_lexer *lex, uint32_t dtype, uint64_t *out)
{
    const st_token *token = &lex->token;
    const uint32_t width = st_dtype_bits(dtype);
    uint64_t value = 0;
    ST_LEX_FAIL_IF(token->len < 3 || token->len > 18, lex, "expected 1 to 16 digits after 0x");
    for (uint64_t i = 2; i < token->len; i++) {
        const char c = token->text[i];
        value = value * 16u + (uint64_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    ST_LEX_FAIL_IF(width < 64 && value >> width, lex, "%.*s has more than the %u bits of %s",
                   (int)token->len, token->text, width, st_dtype_name(dtype));
    *out = value;
    return STATOR_OK;
}

static bool is_bits_infinite(uint32_t dtype, uint64_t bits)
{
    return !isfinite(value_of_bits(dtype, bits));
}

static stator_status parse_decimal(st_lexer *lex, uint32_t dtype, uint64_t *out)
{
    const st_token *token = &lex->token;
    char text[128];
    char *end = NULL;
    ST_LEX_FAIL_IF(token->len >= sizeof text, lex, "a number of %llu digits; the most is %u",
                   (unsigned long long)token->len, (unsigned)sizeof text - 1u);
    memcpy(text, token->text, token->len);
    text[token->len] = '\0';
    *out = bits_of_text(dtype, text, &end);
    ST_FAIL_BY_IF(st_lex_expected, end != text + token->len, lex, "a number");
    ST_LEX_FAIL_IF(is_bits_infinite(dtype, *out), lex, "%s is outside the range of %s", text,
                   st_dtype_name(dtype));
    return STATOR_OK;
}

static stator_status parse_float(st_lexer *lex, uint32_t dtype, uint64_t *out)
{
    const uint32_t width = st_dtype_bits(dtype);
    bool is_negative;
    ST_TRY(st_lex_accept(lex, '-', &is_negative));
    if (lex->token.kind == ST_TEXT_HEX && !is_negative) {
        ST_TRY(parse_bits(lex, dtype, out));
    } else if (lex->token.kind == ST_TEXT_INT || lex->token.kind == ST_TEXT_FLOAT) {
        ST_TRY(parse_decimal(lex, dtype, out));
    } else if (st_lex_is_word(lex, "inf") && dtype != STATOR_F8E4M3FN) {
        *out = bits_of_text(dtype, "inf", NULL);
    } else if (st_lex_is_word(lex, "nan") && !is_negative) {
        *out = plain_nan(dtype);
    } else {
        char what[64];
        (void)snprintf(what, sizeof what, "a number of type %s", st_dtype_name(dtype));
        return st_lex_expected(lex, what);
    }
    *out |= is_negative ? UINT64_C(1) << (width - 1u) : 0;
    return st_lex_next(lex);
}

static stator_status parse_integer(st_lexer *lex, uint32_t dtype, void *data, uint64_t i)
{
    const uint32_t width = st_dtype_bits(dtype);
    const bool is_signed = st_dtype_class(dtype) == STATOR_CLASS_INT;
    const uint64_t begin = lex->token.offset;
    bool is_negative = false;
    uint64_t magnitude = 0;
    if (dtype == STATOR_BOOL && (st_lex_is_word(lex, "true") || st_lex_is_word(lex, "false"))) {
        ((uint8_t *)data)[i] = st_lex_is_word(lex, "true");
        return st_lex_next(lex);
    }
    if (is_signed) {
        ST_TRY(st_lex_accept(lex, '-', &is_negative));
    }
    ST_TRY(st_lex_u64(lex, dtype == STATOR_BOOL ? "true or false" : "an integer", UINT64_MAX,
                      &magnitude));
    const uint64_t top = (UINT64_C(1) << (width - 1u)) - 1u; /* largest signed */
    const uint64_t max = is_signed ? top + (uint64_t)is_negative : top * 2u + 1u;
    ST_LEX_FAIL_AT_IF(magnitude > max, lex, begin, "%s%llu does not fit %s", is_negative ? "-" : "",
                      (unsigned long long)magnitude, st_dtype_name(dtype));
    const uint64_t bits = is_negative ? 0u - magnitude : magnitude;
    if (dtype == STATOR_BOOL) {
        ((uint8_t *)data)[i] = (uint8_t)bits;
    } else {
        st_store_i64(dtype, data, (int64_t)i, (int64_t)bits);
    }
    return STATOR_OK;
}

static stator_status parse_complex(st_lexer *lex, uint32_t dtype, void *data, uint64_t i)
{
    const uint32_t part = part_of(dtype), width = st_dtype_bits(part);
    uint64_t re = 0, im = 0;
    ST_TRY(st_lex_expect(lex, '('));
    ST_TRY(parse_float(lex, part, &re));
    ST_TRY(st_lex_expect(lex, ','));
    ST_TRY(parse_float(lex, part, &im));
    ST_TRY(st_lex_expect(lex, ')'));
    store_bits(width, data, 2 * i, re);
    store_bits(width, data, 2 * i + 1, im);
    return STATOR_OK;
}

stator_status st_literal_parse(st_lexer *lex, uint32_t dtype, void *data, uint64_t i)
{
    uint64_t bits = 0;
    switch (st_dtype_class(dtype)) {
    case STATOR_CLASS_FLOAT:
        ST_TRY(parse_float(lex, dtype, &bits));
        store_bits(st_dtype_bits(dtype), data, i, bits);
        return STATOR_OK;
    case STATOR_CLASS_COMPLEX:
        return parse_complex(lex, dtype, data, i);
    default:
        return parse_integer(lex, dtype, data, i);
    }
}

stator_status st_literal_parse_f64(st_lexer *lex, double *out)
{
    return st_literal_parse(lex, STATOR_F64, out, 0);
}
