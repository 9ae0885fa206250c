/* Broadcast loops: the index arithmetic that all pointwise kernels share.
 *
 * Axes of size 1 are dropped and neighbours merged as far as every operand allows, so that the
 * innermost run is long and each operand steps through it by 0 or 1. A row function gets element
 * offsets and a length; ranges of rows, or of one long row, go to different threads. */
#ifndef STATOR_EAGER_EK_LOOP_H
#define STATOR_EAGER_EK_LOOP_H

#include "plugins/eager/eager.h"

#define EK_LOOP_MAX 3u
#define EK_BLOCK 256 /* elements converted at a time, on the stack */

typedef struct ek_loop {
    uint32_t n; /* operands */
    uint32_t rank;
    int64_t rows;
    int64_t inner;
    int64_t sizes[STATOR_RANK_MAX];                /* outer axes */
    int64_t strides[EK_LOOP_MAX][STATOR_RANK_MAX]; /* in elements */
    int32_t step[EK_LOOP_MAX];                     /* inside a row: 0 or 1 */
} ek_loop;

/* at[k]: element of operand k where the row begins. */
typedef void (*ek_row_fn)(const void *self, int64_t out_at, const int64_t *at, int64_t n);

/* Fails when an operand does not broadcast to the result. Absent operands count as scalars. */
stator_status ek_loop_init(const ek_call *c, ek_loop *loop, uint32_t n, stator_diag **err);
void ek_loop_run(const ek_call *c, const ek_loop *loop, ek_row_fn row, const void *row_self);

/* ---- combining, as reductions and scatters do ---- */

enum ek_combine { EK_SUM, EK_PROD, EK_MIN, EK_MAX };

/* A NaN stays. */
static inline double ek_combine_f64(uint32_t how, double a, double b)
{
    switch (how) {
    case EK_SUM:
        return a + b;
    case EK_PROD:
        return a * b;
    case EK_MIN:
        return a < b || a != a ? a : b;
    default:
        return a > b || a != a ? a : b;
    }
}
/* What orders integers of the dtype as signed ones when it is xored to them. */
static inline uint64_t ek_flip(uint32_t dtype)
{
    return dtype == STATOR_U64 ? UINT64_C(1) << 63 : 0;
}
static inline int64_t ek_combine_i64(uint32_t how, int64_t a, int64_t b, uint64_t flip)
{
    const bool less = (int64_t)((uint64_t)a ^ flip) < (int64_t)((uint64_t)b ^ flip);
    switch (how) {
    case EK_SUM:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    case EK_PROD:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case EK_MIN:
        return less ? a : b;
    default:
        return less ? b : a;
    }
}
/* The greatest, or the least, integer of a dtype. */
static inline int64_t ek_int_limit(uint32_t dtype, bool greatest)
{
    const uint32_t bits = dtype == STATOR_BOOL ? 1 : st_dtype_bits(dtype);
    if ((EK_INT >> dtype) & 1u) {
        const int64_t top = (int64_t)((UINT64_C(1) << (bits - 1u)) - 1u);
        return greatest ? top : -top - 1;
    }
    return greatest ? (int64_t)(UINT64_MAX >> (64u - bits)) : 0;
}

/* n elements from `at`, by step 0 or 1, widened. */
static inline void ek_block_f64(const ek_tensor *t, int64_t at, int32_t step, int64_t n,
                                double *out)
{
    st_load_f64_strided(t->dtype, t->data, at, step, n, out);
}
void ek_block_i64(const ek_tensor *t, int64_t at, int32_t step, int64_t n, int64_t *out);

#endif
