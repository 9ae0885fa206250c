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

/* n elements from `at`, by step 0 or 1, widened. */
static inline void ek_block_f64(const ek_tensor *t, int64_t at, int32_t step, int64_t n,
                                double *out)
{
    st_load_f64_strided(t->dtype, t->data, at, step, n, out);
}
void ek_block_i64(const ek_tensor *t, int64_t at, int32_t step, int64_t n, int64_t *out);

#endif
