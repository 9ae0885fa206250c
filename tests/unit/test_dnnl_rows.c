/* Products of few rows and of few positions by kernels of our own, on processors with AVX-512 or
 * AVX2, with vectors of the machine and of 32 bytes. */
#include "dnnl_support.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(dnnl_rows, .init = dnnl_begin, .fini = dnnl_end);

static const uint32_t vectors[] = {0, DNNL_VECTORS_32};
#define TAKEN 8192 /* products at least */
#define N_VECTORS (sizeof vectors / sizeof vectors[0])

static int is_ours(void)
{
    return __builtin_cpu_supports("avx512f") ||
           (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
}

static void use_vectors(uint32_t flags)
{
    api->close(lib);
    open_with(flags);
}

/* x and the output with gaps between rows; `bound` is RELU or CLIP. */
static void check_rows(int64_t m, int64_t n, int64_t k, uint32_t bound)
{
    char what[96];
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, num(m), num(n), num(k));
    strides(&p.contraction.x, k + 5, 1);
    strides(&p.contraction.out, n + 3, 1);
    epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
    epilogue(&p, bound, -0.5, 2);
    epilogue(&p, ST_EPILOGUE_SCALE, 0.75, 0);
    epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
    fill(&p);
    set_constant(&p);
    (void)snprintf(what, sizeof what, "%lld rows, %lld columns of %lld", (long long)m, (long long)n,
                   (long long)k);
    void *op = create(&p, what);
    call(&p, op);
    compare(&p, what, 1);
    if (is_ours()) {
        cr_assert_str_eq(api->describe(op), "skinny");
    }
    ((float *)p.buffers[X])[k / 2] = NAN;
    call(&p, op);
    compare(&p, "few rows, one with NaN", 1);
    lib->destroy(lib->self, op);
    empty(&p);
}

/* Rows of every number, ragged panels, odd depths; weights that a cache holds, that one may hold
 * and that none does. */
Test(dnnl_rows, products_of_few_rows)
{
    static const int64_t columns[] = {1, 31, 500};
    static const int64_t cold[] = {1 << 17, 1 << 18};
    for (size_t v = 0; v < N_VECTORS; v++) {
        use_vectors(vectors[v]);
        for (int64_t m = 1; m <= 8; m++) {
            for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
                const int64_t n = columns[i];
                const int64_t least = TAKEN / (m * n) + 1;
                check_rows(m, n, least + m, ST_EPILOGUE_RELU);
                check_rows(m, n, (least + 63) / 64 * 64, ST_EPILOGUE_CLIP);
                check_rows(m, n, cold[(i + (size_t)m) % 2] / n + least + m, ST_EPILOGUE_CLIP);
            }
            check_rows(m, TAKEN, 1, ST_EPILOGUE_RELU);
        }
    }
}

/* The two forms of a constant's weights are not taken for each other. */
Test(dnnl_rows, weights_of_both_orders_are_packed_apart)
{
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, num(4), num(100), num(90));
    fill(&p);
    set_constant(&p);
    for (size_t v = 0; v < N_VECTORS; v++) {
        use_vectors(vectors[v]);
        void *op = create(&p, "orders");
        call(&p, op);
        compare(&p, "orders", 1);
        lib->destroy(lib->self, op);
    }
    empty(&p);
    if (__builtin_cpu_supports("avx512f")) {
        cr_expect_eq(f.packs, N_VECTORS);
    }
}

static void check_positions(void)
{
    static const int64_t images[] = {1, 5, 8};
    for (uint32_t i = 0; i < 12; i++) {
        const int64_t pad = i >= 6;
        const conv_case c = {2,      images[i % 3], 128,      83,    1, {1, 1}, {1 + pad, 1},
                             {2, 1}, {1, 1},        {pad, 0}, {0, 0}};
        problem p;
        conv(&p, STATOR_F32, STATOR_F32, &c, i / 3 & 1, 0);
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
        fill(&p);
        set_constant(&p);
        void *op = create(&p, "few positions");
        call(&p, op);
        compare(&p, "few positions", 1);
        if (is_ours()) {
            cr_expect_eq(strcmp(api->describe(op), "skinny") == 0, !pad, "case %u", i);
        }
        ((float *)p.buffers[X])[2] = NAN;
        call(&p, op);
        compare(&p, "few positions, one with NaN", 1);
        lib->destroy(lib->self, op);
        empty(&p);
    }
}

/* Convolutions of one position are such products; padding, though it makes no position, is not. */
Test(dnnl_rows, convs_of_few_positions_are_products)
{
    for (size_t v = 0; v < N_VECTORS; v++) {
        use_vectors(vectors[v]);
        check_positions();
    }
}
