/* Sorting and top-k selection of rows.
 *
 * Every element becomes an integer key whose order is the element's order (-0 equal to 0, NaN the
 * largest); key and index together are one word, so words are distinct and the result is one and
 * the same however the work is divided: equal elements come by rising index, on any number of
 * threads.
 *
 *     few of a short row       the least key is found again for each result
 *     few of a long row        one pass that keeps candidates below a bound, which tightens as
 *                              they are cut to the first `take` (quickselect); chunks of a long
 *                              row are divided among threads and their candidates selected again
 *     most of a row, a sort    words are sorted: insertion, quicksort, from 256 on radix sort
 *
 * Nothing is allocated: the caller brings scratch. */
#ifndef STATOR_BASE_ORDER_H
#define STATOR_BASE_ORDER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ST_ORDER_AXES_MAX 8u

/* One axis over which rows are counted; strides in elements. */
typedef struct st_order_axis {
    int64_t size;
    int64_t x, values, indices;
} st_order_axis;

typedef struct st_order_job {
    uint32_t dtype;      /* dtype of x and values: a real dtype of whole bytes */
    uint32_t is_falling; /* 1: the largest first (NaN before all) */
    int64_t size;        /* elements of a row, */
    int64_t take;        /* elements that are wanted, in order; at most size */
    int64_t x_step, values_step, indices_step; /* from one element of a row to the next */
    uint32_t n_axes;                           /* axes of rows, the outermost first */
    st_order_axis axes[ST_ORDER_AXES_MAX];
    const void *x;
    void *values;     /* NULL: not wanted */
    int64_t *indices; /* places in the row; NULL: not wanted */
} st_order_job;

typedef struct st_order_threads {
    int32_t count; /* 1: parallel_for is not called */
    /* As stator_thr_api.parallel_for. */
    void (*parallel_for)(void *self, int64_t n, int64_t grain,
                         void (*fn)(void *fn_self, int64_t begin, int64_t end), void *fn_self);
    void *self;
} st_order_threads;

/* Bytes of scratch that the job takes with as many threads; UINT64_MAX: more than can be. Pointers
 * of the job are not looked at. */
uint64_t st_order_scratch(const st_order_job *job, int32_t threads);
/* scratch: so many bytes for threads->count, aligned to 16. */
void st_order_run(const st_order_job *job, const st_order_threads *threads, void *scratch);

#ifdef __cplusplus
}
#endif
#endif
