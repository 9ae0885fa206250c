/* Products of few rows and of few positions by kernels of our own, on processors with AVX-512. */
#include "dnnl_support.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

TestSuite(dnnl_rows, .init = dnnl_begin, .fini = dnnl_end);

/* Rows of every number, ragged panels, NaN. */
Test(dnnl_rows, few_rows)
{
    static const int64_t columns[] = {1, 31, 33, 500};
    for (int64_t m = 1; m <= 8; m++) {
        for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
            const int64_t least = m == 2 || m == 3 ? (1 << 17) / columns[i] : 0; /* not cached */
            const int64_t k = least + (columns[i] == 1 ? 8200 : 271);
            problem p;
            gemm(&p, STATOR_F32, STATOR_F32, num(m), num(columns[i]), num(k));
            strides(&p.form.x, k + 5, 1);
            strides(&p.form.out, columns[i] + 3, 1);
            epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
            epilogue(&p, i % 2 ? ST_EPILOGUE_RELU : ST_EPILOGUE_CLIP, -0.5, 2);
            epilogue(&p, ST_EPILOGUE_SCALE, 0.75, 0);
            epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
            fill(&p);
            set_constant(&p);
            void *op = create(&p, "few rows");
            call(&p, op);
            compare(&p, "few rows", 1);
            if (__builtin_cpu_supports("avx512f")) {
                cr_assert_str_eq(api->describe(op), "skinny");
            }
            ((float *)p.buffers[X])[2] = NAN;
            call(&p, op);
            compare(&p, "few rows, one with NaN", 1);
            lib->destroy(lib->self, op);
            empty(&p);
        }
    }
}

/* Convolutions of one position are such products; padding, though it makes no position, is not. */
Test(dnnl_rows, few_positions)
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
        if (__builtin_cpu_supports("avx512f")) {
            cr_expect_eq(strcmp(api->describe(op), "skinny") == 0, !pad, "case %u", i);
        }
        ((float *)p.buffers[X])[2] = NAN;
        call(&p, op);
        compare(&p, "few positions, one with NaN", 1);
        lib->destroy(lib->self, op);
        empty(&p);
    }
}
