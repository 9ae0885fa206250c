/* Attention and its gradient: what the drivers (dn_attention.c, dn_attention_gradient.c) and the
 * inner loops of each instruction set share.
 *
 * dn_attention_isa.h is the text of the inner loops; dn_attention_512.c, _256.c and _128.c are that
 * text for vectors of 64, 32 and 16 bytes. All data is f32 in scratch memory of the driver's. */
#ifndef STATOR_CPU_LLVM_DN_ATTENTION_H
#define STATOR_CPU_LLVM_DN_ATTENTION_H

#include "codegen/target/library.h"
#include "core/base/convert.h"

#include <stdbool.h>
#include <stdint.h>

struct dn_lib;

#define DN_ATTENTION_COLUMNS 32 /* keys of a panel, a multiple of every vector */

/* ---- operands of both drivers ---- */

typedef struct dn_place {
    char *base; /* element 0; NULL: there is none */
    uint32_t dtype;
    const int64_t *strides; /* four, elements */
} dn_place;

static inline int64_t dn_padded(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static inline char *dn_element(const dn_place *p, int64_t i, int64_t j, int64_t k, int64_t l)
{
    const int64_t *s = p->strides;
    return p->base +
           (i * s[0] + j * s[1] + k * s[2] + l * s[3]) * (int64_t)st_element_bytes(p->dtype);
}

/* An operand: its offset and strides stand at *at of the numbers, which goes on to the next one. A
 * result that nobody reads has no buffer. */
dn_place dn_take_place(const st_contraction_operand *operand, const st_library_call *call,
                       const int64_t **at);
/* n elements from `from`, `step` apart, as f32. */
void dn_attention_widen(float *to, const char *from, uint32_t dtype, int64_t step, int64_t n);
/* What n elements of a mask from `from` on add to scores, as f32. */
void dn_attention_mask(float *to, const dn_place *mask, const char *from, int64_t n);
/* One mask for all rows is read once. */
static inline bool dn_is_mask_shared(const dn_place *mask)
{
    return mask->base == NULL || (mask->strides[1] == 0 && mask->strides[2] == 0);
}

/* ---- inner loops ---- */

/* A row of scores: x = s * scale + mask where the mask is not -inf, else -inf. */
typedef struct dn_soften {
    float *x;
    int64_t n; /* keys that count; what follows up to `padded` is made 0 */
    int64_t padded;
    float scale;
    const float *mask; /* n numbers, NULL: none */
    float max;         /* in: the keys' before, -INFINITY at first; out: with these */
    float sum;         /* in: the keys' before, of exp(x - max); out: with these */
    float before;      /* out: what sums over the keys before are to be multiplied with */
} dn_soften;

/* c[i][j] = (beta ? beta[i] : 0) * c[i][j] + sum over p < k of a[i][p] * b[p][j] for the rows of a
 * tile and j < COLUMNS; ld*: elements from row to row. */
typedef struct dn_tile {
    float *c;
    const float *a;
    const float *b;
    int64_t ldc, lda, ldb;
    int64_t k;
    const float *beta;
} dn_tile;

typedef struct dn_attention_isa {
    int64_t rows; /* rows of a tile */
    int64_t side; /* side of the block that `transpose` takes */
    /* side rows of side elements, `step` apart, become columns, DN_ATTENTION_COLUMNS apart. */
    void (*transpose)(float *to, const float *from, int64_t step);
    void (*tile)(const dn_tile *t);
    void (*half)(const dn_tile *t); /* columns j < COLUMNS / 2 alone */
    /* A tile of more rows, faster for each of them; 0 rows: there is none. */
    int64_t tall_rows;
    void (*tall)(const dn_tile *t, int64_t columns); /* columns: COLUMNS or half as many */
    /* Rows of a tile whose `a` is turned: c[i][j] += sum over p < k of a[p][i] * b[p][j]. */
    int64_t turned_rows;
    void (*turned)(const dn_tile *t);
    /* c[j] = sum over k of a[k] * b[j][k], j < n; k is a multiple of 16. */
    void (*dots)(float *c, const float *a, const float *b, int64_t ldb, int64_t n, int64_t k);
    /* to[j] = x[j] / n within 1.5 ulp for j < count, a multiple of COLUMNS, n >= 1 or NaN; 1: one
     * of them is NaN. `to` may be x. */
    bool (*divide)(float *to, const float *x, float n, int64_t count);
    /* Each row becomes exp(x - max). x, mask: `padded` floats can be read, whatever n is; `padded`
     * is the same for all rows. */
    void (*soften)(dn_soften *rows, int64_t n_rows);
    /* p[j] /= sum, then dp[j] becomes scale * p[j] * (dp[j] - the sum of p * dp), j < count, a
     * multiple of COLUMNS / 2. */
    void (*slope)(float *p, float *dp, float sum, float scale, int64_t count);
} dn_attention_isa;

/* A tile of row 0, and those of the rows below it; columns: COLUMNS or half as many. */
void dn_attention_tiles(const dn_attention_isa *isa, const dn_tile *first, int64_t n_rows,
                        int64_t columns);

/* n <= COLUMNS rows of k or v from `from` on, `depth` elements each, become a panel: element d
 * of row j at [d][j]; what is left of it is 0. */
void dn_attention_turn(const dn_attention_isa *isa, const dn_place *x, const char *from, int64_t n,
                       int64_t depth, float *panel);

const dn_attention_isa *dn_attention_512(void); /* AVX-512F */
const dn_attention_isa *dn_attention_256(void); /* AVX2 and FMA */
const dn_attention_isa *dn_attention_128(void); /* whatever the compiler was told */
/* The one for this processor and the library's flags. */
const dn_attention_isa *dn_attention_isa_of(const struct dn_lib *lib);

#endif
