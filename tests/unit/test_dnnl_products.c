/* Products of two matrices of f32 that both come with the call (dn_product.c). */
#include "dnnl_support.h"

#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

TestSuite(dnnl_products, .init = dnnl_begin_tiles, .fini = dnnl_end);

/* Rests of panels, blocks and vectors; sums of one part and of several; columns in two chunks. */
static const int64_t products[][3] = {{48, 40, 300},   {130, 33, 77},  {300, 64, 96},
                                      {145, 50, 700},  {51, 1300, 40}, {288, 48, 256},
                                      {97, 1050, 2010}};
#define PRODUCTS (sizeof products / sizeof products[0])

/* Both operands by rows or by columns, with floats between them in every second problem. */
static void product_of(problem *p, size_t i)
{
    const int64_t *s = products[i / 4];
    const int64_t more = (int64_t)(i % 2) * 5;
    gemm(p, STATOR_F32, STATOR_F32, num(s[0]), num(s[1]), num(s[2]));
    strides(&p->contraction.x, i & 1 ? 1 : s[2] + more, i & 1 ? s[0] + more : 1);
    strides(&p->contraction.y, i & 2 ? 1 : s[1] + more, i & 2 ? s[2] + more : 1);
    strides(&p->contraction.out, s[1] + more, 1);
}

static void check_products(void)
{
    for (size_t i = 0; i < 4 * PRODUCTS; i++) {
        problem p;
        f.threads = 1 + (int32_t)(i % 3);
        product_of(&p, i);
        fill(&p);
        run_as(&p, "a product", 1, "product");
        product_of(&p, i);
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
        fill(&p);
        run_as(&p, "a product and more", 1, "product");
    }
}

Test(dnnl_products, every_order_of_both_operands)
{
    check_products();
}

Test(dnnl_products, every_order_with_vectors_of_32_bytes)
{
    if (!dnnl_begin_narrow(DNNL_TILES_FIRST)) {
        cr_skip_test("this processor has no AVX2");
    }
    check_products();
}

/* Threads divide rows, and columns where rows are few: each element is summed in one order. */
Test(dnnl_products, bits_do_not_depend_on_threads)
{
    for (size_t i = 0; i < 4 * PRODUCTS; i += 5) {
        problem p;
        product_of(&p, i);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        fill(&p);
        void *op = create(&p, "threads");
        f.threads = 1;
        call(&p, op);
        const size_t size = (size_t)p.elements[OUT] * sizeof(float);
        float *alone = st_alloc(&f.mem, size, 64);
        memcpy(alone, p.buffers[OUT], size);
        for (f.threads = 2; f.threads <= 8; f.threads += 3) {
            call(&p, op);
            cr_assert_eq(memcmp(alone, p.buffers[OUT], size), 0, "product %zu", i);
        }
        st_free(&f.mem, alone);
        lib->destroy(lib->self, op);
        empty(&p);
    }
}

Test(dnnl_products, scratch_is_counted)
{
    for (size_t i = 0; i < 4 * PRODUCTS; i += 9) {
        problem p;
        product_of(&p, i);
        fill(&p);
        check_scratch(&p, DNNL_TILES_FIRST);
        empty(&p);
    }
}

Test(dnnl_products, nan_and_infinity_propagate)
{
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, num(60), num(40), num(300));
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    fill(&p);
    float *x = p.buffers[X];
    x[7 * 300 + 299] = NAN;
    x[59 * 300] = INFINITY;
    run_as(&p, "a product with NaN", 1, "product");
}

/* Few rows, columns or products of a sum are for others. */
Test(dnnl_products, small_products_are_left_to_others)
{
    static const int64_t small[][3] = {{47, 64, 64}, {64, 31, 64}, {64, 64, 31}};
    for (size_t i = 0; i < 3; i++) {
        problem p;
        gemm(&p, STATOR_F32, STATOR_F32, num(small[i][0]), num(small[i][1]), num(small[i][2]));
        fill(&p);
        void *op = create(&p, "a small product");
        call(&p, op);
        cr_assert_str_neq(api->describe(op), "product");
        compare(&p, "a small product", 1);
        lib->destroy(lib->self, op);
        empty(&p);
    }
}

/* With vectors of 64 bytes others do it, whose epilogue has gelu. */
Test(dnnl_products, gelu_is_applied)
{
    api->close(lib);
    open_with(DNNL_TILES_FIRST | DNNL_FUSED);
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, num(130), num(300), num(260));
    epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
    epilogue(&p, ST_EPILOGUE_GELU_ERF, 0, 0);
    fill(&p);
    run_as(&p, "a product and gelu", 1, NULL);
}
