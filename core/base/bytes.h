/* Values as bytes, for files that this build alone reads back: numbers as they lie in memory, texts
 * with their length and an end. Writing appends to an st_str, whose failure is sticky; reading
 * checks every length, and a reader that failed gives zeros from then on: test `failed` before what
 * was read is used. */
#ifndef STATOR_BASE_BYTES_H
#define STATOR_BASE_BYTES_H

#include "core/base/str.h"

#ifdef __cplusplus
extern "C" {
#endif

void st_put_u32(st_str *out, uint32_t value);
void st_put_u64(st_str *out, uint64_t value);
void st_put_i64(st_str *out, int64_t value);
void st_put_text(st_str *out, const char *text); /* NULL is kept as NULL */
/* A block of bytes with its length in front. */
void st_put_block(st_str *out, const void *bytes, uint64_t n);

typedef struct st_reader {
    const uint8_t *at;
    uint64_t left;
    uint32_t failed;
} st_reader;

st_reader st_reader_of(const void *bytes, uint64_t n);
uint32_t st_read_u32(st_reader *r);
uint64_t st_read_u64(st_reader *r);
int64_t st_read_i64(st_reader *r);
/* Borrowed from the bytes that are read; "" after a failure. */
const char *st_read_text(st_reader *r);
/* Borrowed; *out_n is 0 after a failure. Its alignment is that of a byte. */
const void *st_read_block(st_reader *r, uint64_t *out_n);
/* n raw bytes to out, zeros after a failure. */
void st_read_bytes(st_reader *r, void *out, uint64_t n);
/* A number that must be below `limit`; fails otherwise. */
uint32_t st_read_below(st_reader *r, uint32_t limit);
/* A count of things of which each takes at least `least` bytes (1 or more) of what is left. */
uint32_t st_read_count(st_reader *r, uint64_t least);

#ifdef __cplusplus
}
#endif
#endif
