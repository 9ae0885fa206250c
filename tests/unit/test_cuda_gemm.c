/* How plugins/cuda describes matrix products to cuBLASLt: each element that the description
 * names is the one that the strides name; and which layouts are refused. */
#include "plugins/cuda/cuda_gemm.h"

#include <criterion/criterion.h>
#include <string.h>

const char cuda_prelude[] = "#define ST_KERNEL\n";

static const gemm_operands no_bias = {.in = STATOR_F32, .out = STATOR_F32, .bias = UINT32_MAX};
static const gemm_operands with_bias = {.in = STATOR_F32, .out = STATOR_F32, .bias = 3};

/* Where (row, column) of what the library reads lies. */
static int64_t at(const gemm_matrix *of, int64_t row, int64_t column)
{
    return of->is_transposed ? row * of->leading + column : column * of->leading + row;
}

/* All elements of a matrix are those of strides; `is_turned`: rows are the second axis. */
static void expect_same(const gemm_matrix *of, const gemm_side *side, int64_t first, int64_t second,
                        bool is_turned)
{
    for (int64_t i = 0; i < first; i++) {
        for (int64_t j = 0; j < second; j++) {
            const int64_t there = is_turned ? at(of, j, i) : at(of, i, j);
            cr_assert_eq(there, i * side->stride[0] + j * side->stride[1]);
        }
    }
}

static void expect_described(const gemm_operands *operands, const gemm_sizes *s)
{
    gemm_key key;
    bool is_swapped = false;
    cr_assert(gemm_describe(operands, s, NULL, &key, &is_swapped));
    expect_same(&key.d, &s->out, s->m, s->n, is_swapped);
    expect_same(is_swapped ? &key.b : &key.a, &s->x, s->m, s->k, is_swapped);
    expect_same(is_swapped ? &key.a : &key.b, &s->y, s->k, s->n, is_swapped);
    const gemm_matrix *const all[3] = {&key.a, &key.b, &key.d};
    for (uint32_t i = 0; i < 3; i++) {
        cr_expect_geq(all[i]->leading, all[i]->rows);
    }
    cr_expect(operands->bias == UINT32_MAX || is_swapped, "a bias is one number for each row");
}

/* Strides of a matrix stored by rows or by columns, a little apart. */
static void lay(gemm_side *side, int64_t first, int64_t second, bool is_by_columns, int64_t apart)
{
    side->stride[0] = is_by_columns ? 1 : second + apart;
    side->stride[1] = is_by_columns ? first + apart : 1;
}

Test(cuda_gemm, every_order_of_the_operands)
{
    static const int64_t extents[4][3] = {{3, 4, 5}, {1, 4, 5}, {3, 1, 5}, {3, 4, 1}};
    for (uint32_t order = 0; order < 8; order++) {
        for (uint32_t e = 0; e < 4; e++) {
            gemm_sizes s = {.m = extents[e][0], .n = extents[e][1], .k = extents[e][2]};
            lay(&s.x, s.m, s.k, order & 1u, e);
            lay(&s.y, s.k, s.n, order & 2u, 2);
            lay(&s.out, s.m, s.n, order & 4u, e);
            expect_described(&no_bias, &s);
            if (!(order & 4u)) {
                expect_described(&with_bias, &s);
            }
        }
    }
}

Test(cuda_gemm, strides_of_no_matrix_are_refused)
{
    gemm_key key;
    bool is_swapped = false;
    gemm_sizes s = {.m = 3, .n = 4, .k = 5};
    lay(&s.x, 3, 5, false, 0);
    lay(&s.y, 5, 4, false, 0);
    lay(&s.out, 3, 4, false, 0);
    s.x.stride[1] = 2; /* every second element */
    cr_expect_not(gemm_describe(&no_bias, &s, NULL, &key, &is_swapped));
    s.x = (gemm_side){.stride = {1, 1}}; /* windows that overlap */
    cr_expect_not(gemm_describe(&no_bias, &s, NULL, &key, &is_swapped));
    lay(&s.x, 3, 5, false, 0);
    lay(&s.out, 3, 4, true, 0); /* n is no row there */
    cr_expect_not(gemm_describe(&with_bias, &s, NULL, &key, &is_swapped));
    cr_expect(gemm_describe(&no_bias, &s, NULL, &key, &is_swapped));
}

Test(cuda_gemm, numbers_in_the_order_of_the_contraction)
{
    const gemm_operands operands = {.n_batch = 2, .bias = UINT32_MAX};
    int64_t numbers[20];
    gemm_sizes s;
    for (int64_t i = 0; i < 20; i++) {
        numbers[i] = i;
    }
    gemm_read_sizes(&operands, numbers, &s);
    cr_expect_eq(s.batch[1], 1);
    cr_expect_eq(s.k, 4);
    cr_expect_eq(s.x.offset, 5);
    cr_expect_eq(s.y.batch[0], 11);
    cr_expect_eq(s.out.offset, 15);
    cr_expect_eq(s.out.stride[1], 19);
}

Test(cuda_gemm, a_missing_library_is_a_reason)
{
    uint32_t version = 0;
    st_gpu_missing why;
    st_mem mem;
    const st_gpu_contractions *c = &cuda_cublaslt;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    cr_expect_null(c->open("/nowhere/libcublasLt.so.13", NULL, NULL, &mem, &version, &why));
    cr_expect_not_null(strstr(why.reason, "the file of the option cublaslt cannot be opened"));
    cr_expect_not_null(strstr(why.hint, "correct the option cublaslt"));
    cr_expect_null(
        c->open(ST_TEST_BUILD "/tests/fake_cuda/cuda.so", NULL, NULL, &mem, &version, &why));
    cr_expect_not_null(strstr(why.reason, "has no function cublasLtGetProperty"));
    cr_expect_eq(mem.live_blocks, 0);
}

Test(cuda_gemm, a_library_of_an_unknown_version_is_a_reason)
{
    static const struct {
        const char *file, *words;
    } rows[] = {{ST_TEST_BUILD "/tests/fake_cuda/cublaslt_new.so",
                 "is of version 99.1, which is not known"},
                {ST_TEST_BUILD "/tests/fake_cuda/cublaslt_silent.so", "is of version 0.0"}};
    uint32_t version = 0;
    st_gpu_missing why;
    st_mem mem;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_expect_null(cuda_cublaslt.open(rows[i].file, NULL, NULL, &mem, &version, &why));
        cr_expect_not_null(strstr(why.reason, rows[i].words), "%s", why.reason);
        cr_expect_not_null(strstr(why.reason, "expected one of 12 to 13"));
    }
    cr_expect_eq(mem.live_blocks, 0);
}
