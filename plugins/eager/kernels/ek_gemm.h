/* Matrix products of the reference backend, in f64 or in wrapping 64-bit integers.
 *
 * A product is cut into output tiles of a size that depends on the shapes alone, and each tile is
 * computed by one thread in one order, so results do not depend on the number of threads. */
#ifndef STATOR_EK_GEMM_H
#define STATOR_EK_GEMM_H

#include "plugins/eager/eager.h"

/* An 8-byte element: f64 or i64, as the flag beside it says. */
typedef union ek_wide {
    double f;
    int64_t i;
} ek_wide;
_Static_assert(sizeof(ek_wide) == 8, "wide elements are 8 bytes");

/* One tile: C[m,n] = (accumulate ? C : 0) + A[m,k] * B, with B[k,n], or B[n,k] when b_transposed.
 * Row strides in elements. One thread; call it from inside ek_workers too. */
typedef struct ek_matrix_tile {
    int64_t m, n, k;
    const ek_wide *a;
    int64_t lda;
    const ek_wide *b;
    int64_t ldb;
    ek_wide *c;
    int64_t ldc;
    uint8_t is_int;
    uint8_t b_transposed;
    uint8_t accumulate;
    uint8_t reserved;
} ek_matrix_tile;
void ek_gemm_tile(const ek_call *call, const ek_matrix_tile *tile);

/* Finds the BLAS (once a plugin); called by kernels before they start workers. */
void ek_gemm_prepare(const ek_call *call);

/* Runs task(self, t, worker) for every t in [0, n_tasks) on `workers` workers; worker numbers
 * select scratch. Tasks must be independent. */
typedef void (*ek_task_fn)(void *self, int64_t task, int64_t worker);
int64_t ek_worker_count(const ek_call *call, int64_t n_tasks);
void ek_workers(const ek_call *call, int64_t workers, int64_t n_tasks, ek_task_fn fn, void *self);

/* Are the elements of this dtype computed as integers? */
static inline bool ek_is_int_math(uint32_t dtype)
{
    return !ek_is_float(dtype);
}
/* n elements from `first`, `step` apart, as wide ones; all, in scratch; and back, rounded once. */
void ek_load_wide(const ek_tensor *t, int64_t first, int64_t step, int64_t n, ek_wide *out);
stator_status ek_widen(const ek_call *call, const ek_tensor *t, ek_wide **out, stator_diag **err);
void ek_store_wide(const ek_tensor *t, int64_t first, int64_t n, const ek_wide *x);

#endif
