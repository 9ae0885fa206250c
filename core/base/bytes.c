/* Values to bytes and back; see bytes.h. */
#include "core/base/bytes.h"

#include <string.h>

#define NO_TEXT UINT32_MAX

void st_put_u32(st_str *out, uint32_t value)
{
    st_str_addn(out, (const char *)&value, sizeof value);
}

void st_put_u64(st_str *out, uint64_t value)
{
    st_str_addn(out, (const char *)&value, sizeof value);
}

void st_put_i64(st_str *out, int64_t value)
{
    st_str_addn(out, (const char *)&value, sizeof value);
}

void st_put_text(st_str *out, const char *text)
{
    const uint64_t n = text != NULL ? strlen(text) : 0;
    if (n >= NO_TEXT) {
        out->failed = 1;
        return;
    }
    st_put_u32(out, text != NULL ? (uint32_t)n : NO_TEXT);
    if (text != NULL) {
        st_str_addn(out, text, n + 1u);
    }
}

void st_put_block(st_str *out, const void *bytes, uint64_t n)
{
    st_put_u64(out, n);
    if (n != 0) {
        st_str_addn(out, bytes, n);
    }
}

/* ---- reading ---- */

st_reader st_reader_of(const void *bytes, uint64_t n)
{
    return (st_reader){.at = bytes, .left = n};
}

/* The next n bytes, NULL when there are fewer. */
static const uint8_t *take(st_reader *r, uint64_t n)
{
    const uint8_t *at = r->at;
    if (r->failed || n > r->left) {
        r->failed = 1;
        return NULL;
    }
    r->at += n;
    r->left -= n;
    return at;
}

void st_read_bytes(st_reader *r, void *out, uint64_t n)
{
    const uint8_t *at = take(r, n);
    if (at != NULL && n != 0) {
        memcpy(out, at, (size_t)n);
    } else {
        memset(out, 0, (size_t)n);
    }
}

uint32_t st_read_u32(st_reader *r)
{
    uint32_t value = 0;
    st_read_bytes(r, &value, sizeof value);
    return value;
}

uint64_t st_read_u64(st_reader *r)
{
    uint64_t value = 0;
    st_read_bytes(r, &value, sizeof value);
    return value;
}

int64_t st_read_i64(st_reader *r)
{
    int64_t value = 0;
    st_read_bytes(r, &value, sizeof value);
    return value;
}

const char *st_read_text(st_reader *r)
{
    const uint32_t n = st_read_u32(r);
    if (n == NO_TEXT && !r->failed) {
        return NULL;
    }
    const char *text = (const char *)take(r, (uint64_t)n + 1u);
    if (text == NULL || memchr(text, 0, (size_t)n + 1u) != text + n) {
        r->failed = 1;
        return "";
    }
    return text;
}

const void *st_read_block(st_reader *r, uint64_t *out_n)
{
    const uint64_t n = st_read_u64(r);
    const void *bytes = take(r, n);
    *out_n = bytes != NULL ? n : 0;
    return bytes;
}

uint32_t st_read_below(st_reader *r, uint32_t limit)
{
    const uint32_t value = st_read_u32(r);
    if (value >= limit) {
        r->failed = 1;
        return 0;
    }
    return value;
}

uint32_t st_read_count(st_reader *r, uint64_t least)
{
    const uint32_t value = st_read_u32(r);
    if (r->failed || value > r->left / least) {
        r->failed = 1;
        return 0;
    }
    return value;
}
