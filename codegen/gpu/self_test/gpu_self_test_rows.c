/* Expressions over names of the prelude, as text for the device and as functions of the host. */
#include "codegen/gpu/self_test/gpu_self_test.h"
#include "codegen/gpu/self_test/gpu_self_test_host.h"

/* ---- what programs define in front of the expressions ---- */

static float single(st_u64 word)
{
    return st_f32_of_bits((st_u32)word);
}

static double real(st_u64 word)
{
    return st_f64_of_bits(word);
}

static st_u64 of_single(float x)
{
    return st_bits_of_f32(x);
}

static st_u64 of_real(double x)
{
    return st_bits_of_f64(x);
}

ST_DEVICE st_u64 st_self_test_inlined(st_u64 x, st_u64 y)
{
    return 3u * x ^ y;
}

ST_DEVICE_CALL st_u64 st_self_test_called(st_u64 x, st_u64 y)
{
    return 5u * x ^ y;
}

/* ---- the rows ---- */

#define ST_SELF_TEST(name, program, operands, result, expression)                                  \
    static uint64_t host_##name(uint64_t a, uint64_t b, uint64_t c)                                \
    {                                                                                              \
        (void)a, (void)b, (void)c;                                                                 \
        return (expression);                                                                       \
    }
#include "codegen/gpu/self_test/gpu_self_test.def"

const gpu_self_test_row gpu_self_test_rows[] = {
#define ST_SELF_TEST(name, program, operands, result, expression)                                  \
    {#name,                                                                                        \
     GPU_SELF_TEST_##program,                                                                      \
     GPU_SELF_TEST_##operands,                                                                     \
     GPU_SELF_TEST_##result,                                                                       \
     #expression,                                                                                  \
     host_##name},
#include "codegen/gpu/self_test/gpu_self_test.def"
};

const uint32_t gpu_self_test_row_count = sizeof gpu_self_test_rows / sizeof gpu_self_test_rows[0];
