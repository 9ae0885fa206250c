/* The equation of einsum. In: text and operand ranks. Out: one label an axis and the labels of the
 * result. Follows numpy.einsum and ONNX Einsum: spaces are ignored, "..." stands for the axes that
 * no letter names, aligned at their end. */
#include "ir/ops/op_einsum.h"

#include <ctype.h>
#include <string.h>

typedef struct einsum_reader {
    const char *equation;
    const char *p;
    uint32_t uses[ST_EINSUM_LABELS];
    uint32_t ellipsis; /* most axes an ellipsis stands for */
    stator_diag **err;
} einsum_reader;

static stator_status bad(const einsum_reader *r, const char *what)
{
    return st_fail(r->err, STATOR_INVALID_ARGUMENT, "einsum: equation '%.100s', column %u: %s",
                   r->equation, (unsigned)(r->p - r->equation) + 1u, what);
}

static void skip_blanks(einsum_reader *r)
{
    while (*r->p == ' ') {
        r->p++;
    }
}

static uint32_t letter(char c)
{
    return islower((unsigned char)c) ? (uint32_t)(c - 'a') : (uint32_t)(c - 'A') + 26u;
}

/* Reads one term into labels; an ellipsis is written as `extra` labels. *out_dots: had one. */
static stator_status read_term(einsum_reader *r, uint32_t extra, uint8_t *labels, uint32_t capacity,
                               uint32_t *out_n, bool *out_dots)
{
    uint32_t n = 0;
    *out_dots = false;
    for (skip_blanks(r); *r->p && *r->p != ',' && *r->p != '-'; skip_blanks(r)) {
        if (strncmp(r->p, "...", 3) == 0) {
            ST_FAIL_BY_IF(bad, *out_dots, r, "a second ellipsis in one term");
            *out_dots = true;
            for (uint32_t i = extra; i-- > 0 && n < capacity;) {
                labels[n++] = (uint8_t)(ST_EINSUM_LETTERS + i);
            }
            r->p += 3;
        } else if (isalpha((unsigned char)*r->p)) {
            ST_FAIL_BY_IF(bad, n >= capacity, r, "more labels than the operand has axes");
            labels[n++] = (uint8_t)letter(*r->p++);
        } else {
            return bad(r, "expected a letter, '...', ',' or '->'");
        }
    }
    *out_n = n;
    return STATOR_OK;
}

/* Letters of the term at r->p, without moving. */
static uint32_t count_letters(const einsum_reader *r)
{
    uint32_t n = 0;
    for (const char *p = r->p; *p && *p != ',' && *p != '-'; p++) {
        n += isalpha((unsigned char)*p) != 0;
    }
    return n;
}

static stator_status read_operand(einsum_reader *r, uint32_t rank, uint8_t *labels)
{
    uint32_t n = 0;
    bool dots = false;
    const uint32_t letters = count_letters(r);
    const uint32_t extra = rank > letters ? rank - letters : 0;
    ST_TRY(read_term(r, extra, labels, rank, &n, &dots));
    ST_FAIL_BY_IF(bad, n != rank, r, "the term has another number of axes than its operand");
    if (dots && extra > r->ellipsis) {
        r->ellipsis = extra;
    }
    for (uint32_t i = 0; i < n; i++) {
        r->uses[labels[i]]++;
    }
    return STATOR_OK;
}

static void implicit_output(const einsum_reader *r, st_einsum *out)
{
    out->n_out = 0;
    for (uint32_t i = r->ellipsis; i-- > 0;) {
        out->out[out->n_out++] = (uint8_t)(ST_EINSUM_LETTERS + i);
    }
    for (uint32_t pass = 0; pass < 2; pass++) { /* 'A' sorts before 'a' */
        for (uint32_t i = 0; i < 26; i++) {
            const uint32_t label = pass == 0 ? i + 26u : i;
            if (r->uses[label] == 1) {
                out->out[out->n_out++] = (uint8_t)label;
            }
        }
    }
}

static stator_status explicit_output(einsum_reader *r, st_einsum *out)
{
    uint32_t seen[ST_EINSUM_LABELS] = {0};
    bool dots = false;
    ST_TRY(read_term(r, r->ellipsis, out->out, ST_EINSUM_LABELS, &out->n_out, &dots));
    ST_FAIL_BY_IF(bad, *r->p != '\0', r, "expected the end of the equation");
    for (uint32_t i = 0; i < out->n_out; i++) {
        ST_FAIL_BY_IF(bad, r->uses[out->out[i]] == 0, r,
                      "the result names a label that no operand has");
        if (seen[out->out[i]]++) {
            return bad(r, "the result names a label twice");
        }
    }
    return STATOR_OK;
}

stator_status st_einsum_parse(const char *equation, uint32_t n, const uint32_t *ranks,
                              st_einsum *out, stator_diag **err)
{
    einsum_reader r = {.equation = equation, .p = equation, .err = err};
    memset(out, 0, sizeof *out);
    for (uint32_t k = 0; k < n; k++) {
        ST_TRY(read_operand(&r, ranks[k], out->labels[k]));
        if (k + 1u < n) {
            ST_FAIL_BY_IF(bad, *r.p != ',', &r, "expected ',' and a term for each operand");
            r.p++;
        }
    }
    ST_FAIL_BY_IF(bad, *r.p == ',', &r, "more terms than operands");
    if (*r.p == '\0') {
        implicit_output(&r, out);
        return STATOR_OK;
    }
    ST_FAIL_BY_IF(bad, strncmp(r.p, "->", 2) != 0, &r, "expected '->'");
    r.p += 2;
    return explicit_output(&r, out);
}
