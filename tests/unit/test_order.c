/* Sorting and top-k of rows (core/base/order/order.h) against a sort by comparison: dtypes, NaN,
 * infinities, zeros of both signs, ties, k = 0 and k = n, strides, long rows in chunks, any
 * number of threads. */
#include "core/base/convert.h"
#include "core/base/order/order.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the reference ---- */

typedef struct element {
    double value;
    int64_t whole; /* of integers */
    int64_t index;
} element;

static int is_float(uint32_t dtype)
{
    return dtype >= STATOR_F8E4M3FN && dtype <= STATOR_F64;
}

/* -1, 0, 1; NaN is the largest, and equal to NaN. */
static int by_value(const element *a, const element *b, uint32_t dtype)
{
    if (is_float(dtype)) {
        const int nans = isnan(a->value) || isnan(b->value);
        return nans ? (isnan(a->value) != 0) - (isnan(b->value) != 0)
                    : (a->value > b->value) - (a->value < b->value);
    }
    if (dtype == STATOR_U64) {
        return ((uint64_t)a->whole > (uint64_t)b->whole) -
               ((uint64_t)a->whole < (uint64_t)b->whole);
    }
    return (a->whole > b->whole) - (a->whole < b->whole);
}

static uint32_t sorted_dtype;
static int sorted_sign;

static int before(const void *a_, const void *b_)
{
    const element *a = a_;
    const element *b = b_;
    const int order = sorted_sign * by_value(a, b, sorted_dtype);
    return order ? order : (a->index > b->index) - (a->index < b->index);
}

/* ---- threads that come in any order ---- */

static void backwards(void *self, int64_t n, int64_t grain,
                      void (*fn)(void *fn_self, int64_t begin, int64_t end), void *fn_self)
{
    (void)self;
    cr_assert_eq(grain, 1);
    for (int64_t i = n; i-- > 0;) {
        fn(fn_self, i, i + 1);
    }
}

/* ---- one job ---- */

static uint32_t bytes_of(uint32_t dtype)
{
    static const uint8_t bytes[] = {
        [STATOR_BOOL] = 1,   [STATOR_I8] = 1,  [STATOR_U8] = 1,   [STATOR_I16] = 2,
        [STATOR_U16] = 2,    [STATOR_I32] = 4, [STATOR_U32] = 4,  [STATOR_I64] = 8,
        [STATOR_U64] = 8,    [STATOR_F16] = 2, [STATOR_BF16] = 2, [STATOR_F8E4M3FN] = 1,
        [STATOR_F8E5M2] = 1, [STATOR_F32] = 4, [STATOR_F64] = 8};
    return bytes[dtype];
}

#define GUARD 64

/* Runs with so many threads into fresh results, and looks that scratch is enough. */
static void run(st_order_job *job, int32_t count)
{
    const st_order_threads threads = {.count = count, .parallel_for = backwards};
    const uint64_t bytes = st_order_scratch(job, count);
    char *scratch = aligned_alloc(64, (bytes + GUARD + 63u) / 64u * 64u);
    memset(scratch + bytes, 0x5a, GUARD);
    st_order_run(job, &threads, scratch);
    for (uint64_t i = 0; i < GUARD; i++) {
        cr_assert_eq(scratch[bytes + i], 0x5a, "scratch is too small");
    }
    free(scratch);
}

/* Rows lie along the axis `axis` of outer x size x inner elements. */
typedef struct shape {
    int64_t outer, size, inner, take;
} shape;

static st_order_job job_of(uint32_t dtype, int is_falling, const shape *s)
{
    return (st_order_job){
        .dtype = dtype,
        .is_falling = (uint32_t)is_falling,
        .size = s->size,
        .take = s->take,
        .x_step = s->inner,
        .values_step = s->inner,
        .indices_step = s->inner,
        .n_axes = 2,
        .axes = {{s->outer, s->size * s->inner, s->take * s->inner, s->take * s->inner},
                 {s->inner, 1, 1, 1}}};
}

static void check_row(const st_order_job *job, int64_t x, int64_t out)
{
    const uint32_t bytes = bytes_of(job->dtype);
    element *all = malloc((size_t)job->size * sizeof *all + 1u);
    for (int64_t i = 0; i < job->size; i++) {
        const int64_t at = x + i * job->x_step;
        all[i] = (element){.index = i};
        if (is_float(job->dtype)) {
            all[i].value = st_load_f64(job->dtype, job->x, at);
        } else {
            all[i].whole = st_load_i64(job->dtype, job->x, at);
        }
    }
    sorted_dtype = job->dtype;
    sorted_sign = job->is_falling ? -1 : 1;
    qsort(all, (size_t)job->size, sizeof *all, before);
    for (int64_t t = 0; t < job->take; t++) {
        const int64_t at = out + t * job->indices_step;
        cr_assert_eq(job->indices[at], all[t].index,
                     "dtype %u, size %lld, take %lld, falling %u: result %lld is element %lld, not "
                     "%lld",
                     job->dtype, (long long)job->size, (long long)job->take, job->is_falling,
                     (long long)t, (long long)job->indices[at], (long long)all[t].index);
        cr_assert(memcmp((const char *)job->values + at * bytes,
                         (const char *)job->x + (x + all[t].index * job->x_step) * bytes,
                         bytes) == 0,
                  "a value is not its element, bit for bit");
    }
    free(all);
}

static void check(uint32_t dtype, const shape *s, const void *x)
{
    const size_t n_out = (size_t)(s->outer * s->take * s->inner);
    char *values = malloc(n_out * bytes_of(dtype) + 1u);
    int64_t *indices = malloc(n_out * sizeof *indices + 1u);
    for (int falling = 0; falling < 2; falling++) {
        static const int32_t counts[] = {1, 2, 5};
        for (int k = 0; k < 3; k++) {
            st_order_job job = job_of(dtype, falling, s);
            job.x = x;
            job.values = values;
            job.indices = indices;
            memset(indices, 0xff, n_out * sizeof *indices);
            run(&job, counts[k]);
            for (int64_t row = 0; row < s->outer * s->inner; row++) {
                const int64_t o = row / s->inner;
                const int64_t i = row % s->inner;
                check_row(&job, o * s->size * s->inner + i, o * s->take * s->inner + i);
            }
        }
    }
    free(values);
    free(indices);
}

/* ---- elements ---- */

static uint64_t seed = 1;

static uint64_t draw(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return seed >> 24;
}

enum { ANY_BITS, FEW_VALUES, RISING, SPECIAL, ALL_NAN, KINDS };

static void fill(uint32_t dtype, int kind, int64_t n, void *x)
{
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1.0, -1.0};
    for (int64_t i = 0; i < n; i++) {
        if (kind == ANY_BITS && dtype != STATOR_BOOL) {
            const uint64_t bits = draw() ^ draw() << 32;
            memcpy((char *)x + i * bytes_of(dtype), &bits, bytes_of(dtype));
        } else if (!is_float(dtype)) {
            const int64_t whole = kind == RISING ? i : (int64_t)(draw() % 5u) - 2;
            st_store_i64(dtype, x, i, dtype == STATOR_BOOL ? whole & 1 : whole);
        } else {
            const double few = (double)(draw() % 5u) - 2.0;
            const double value = kind == SPECIAL   ? special[draw() % 7u]
                                 : kind == ALL_NAN ? NAN
                                 : kind == RISING  ? (double)i
                                                   : few;
            st_store_f64(dtype, x, i, value);
        }
    }
}

static const uint32_t dtypes[] = {STATOR_BOOL,   STATOR_I8,  STATOR_U8,   STATOR_I16,
                                  STATOR_U16,    STATOR_I32, STATOR_U32,  STATOR_I64,
                                  STATOR_U64,    STATOR_F16, STATOR_BF16, STATOR_F8E4M3FN,
                                  STATOR_F8E5M2, STATOR_F32, STATOR_F64};

static void check_all(const shape *s)
{
    const int64_t n = s->outer * s->size * s->inner;
    void *x = aligned_alloc(64, (size_t)(n * 8 + 64) / 64u * 64u);
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (int kind = 0; kind < KINDS; kind++) {
            fill(dtypes[d], kind, n, x);
            check(dtypes[d], s, x);
        }
    }
    free(x);
}

Test(order, short_rows)
{
    static const int64_t sizes[] = {1, 2, 5, 24, 31, 32, 33, 64, 100};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const int64_t takes[] = {0, 1, 2, sizes[i] / 4, sizes[i] / 2, sizes[i]};
        for (int k = 0; k < 6; k++) {
            if (takes[k] <= sizes[i]) {
                check_all(&(shape){3, sizes[i], 1, takes[k]});
                check_all(&(shape){2, sizes[i], 3, takes[k]});
            }
        }
    }
}

Test(order, rows_of_every_sort_method)
{
    static const shape shapes[] = {{2, 700, 1, 3},    {1, 1500, 1, 64}, {2, 600, 1, 130},
                                   {1, 1100, 1, 800}, {1, 530, 20, 7},  {1, 900, 1, 900}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_all(&shapes[i]);
    }
}

/* Rows of which threads have chunks. */
Test(order, long_rows_are_sorted_on_several_threads)
{
    const shape s = {1, 70000, 1, 100};
    float *x = malloc((size_t)s.size * sizeof *x);
    for (int kind = 0; kind < KINDS; kind++) {
        fill(STATOR_F32, kind, s.size, x);
        check(STATOR_F32, &s, x);
    }
    free(x);
}

/* Elements at odd addresses; either result alone; nothing at all. */
Test(order, unaligned_inputs_and_absent_outputs)
{
    const shape s = {3, 50, 1, 6};
    char bytes[3 * 50 * 4 + 1];
    float values[18];
    int64_t indices[18];
    float x[150];
    fill(STATOR_F32, ANY_BITS, 150, x);
    memcpy(bytes + 1, x, sizeof x);
    st_order_job job = job_of(STATOR_F32, 1, &s);
    job.x = bytes + 1;
    job.values = values;
    job.indices = indices;
    run(&job, 1);
    for (int64_t row = 0; row < 3; row++) {
        check_row(&(st_order_job){.dtype = STATOR_F32,
                                  .is_falling = 1,
                                  .size = 50,
                                  .take = 6,
                                  .x_step = 1,
                                  .indices_step = 1,
                                  .x = x,
                                  .values = values,
                                  .indices = indices},
                  row * 50, row * 6);
    }
    float alone[18];
    job.values = alone;
    job.indices = NULL;
    run(&job, 2);
    cr_assert(memcmp(alone, values, sizeof alone) == 0);
    int64_t places[18];
    job.values = NULL;
    job.indices = places;
    run(&job, 2);
    cr_assert(memcmp(places, indices, sizeof places) == 0);
    job.axes[0].size = 0;
    cr_assert_eq(st_order_scratch(&job, 4), 0);
    run(&job, 4);
}

Test(order, sizes_beyond_memory_are_refused)
{
    st_order_job job = {.dtype = STATOR_F64, .size = INT64_MAX / 2, .take = INT64_MAX / 2};
    cr_assert_eq(st_order_scratch(&job, 1), UINT64_MAX);
    job.n_axes = 2;
    job.axes[0].size = job.axes[1].size = INT64_MAX / 2;
    cr_assert_eq(st_order_scratch(&job, 1), UINT64_MAX);
}
