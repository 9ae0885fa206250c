/* Element conversions: every bit pattern there and back, ties, overflow, integers, packed pairs.
 * Values are those of IEEE 754, bfloat16 and the OCP 8-bit formats, worked out by hand. */
#include "core/base/convert.h"

#include "core/base/check.h"
#include <criterion/criterion.h>
#include <math.h>

static void check_round_trip(uint32_t dtype, uint32_t patterns)
{
    for (uint32_t bits = 0; bits < patterns; bits++) {
        const uint16_t given = (uint16_t)bits;
        uint16_t back = 0;
        const double x = st_load_f64(dtype, &given, 0);
        st_store_f64(dtype, &back, 0, x);
        if (isnan(x)) {
            cr_assert(isnan(st_load_f64(dtype, &back, 0)), "%s %x", st_dtype_name(dtype), bits);
        } else {
            cr_assert_eq(back, given, "%s %x gives %x", st_dtype_name(dtype), bits, back);
        }
    }
}

Test(convert, every_bit_pattern_round_trips)
{
    check_round_trip(STATOR_F16, 65536);
    check_round_trip(STATOR_BF16, 65536);
    check_round_trip(STATOR_F8E4M3FN, 256);
    check_round_trip(STATOR_F8E5M2, 256);
}

typedef struct rounding {
    double x;
    uint32_t bits;
} rounding;

static void check_rounding(uint32_t dtype, const rounding *rows, int n)
{
    for (int i = 0; i < n; i++) {
        uint16_t out = 0;
        st_store_f64(dtype, &out, 0, rows[i].x);
        cr_expect_eq(out, rows[i].bits, "%s of %a: %x, expected %x", st_dtype_name(dtype),
                     rows[i].x, out, rows[i].bits);
    }
}

Test(convert, rounding_is_to_nearest_even_once)
{
    static const rounding f16[] = {
        {0x1.002p0, 0x3c00},
        {0x1.006p0, 0x3c02},
        {65504, 0x7bff},
        {65519.999, 0x7bff},
        {65520, 0x7c00},
        {-1e300, 0xfc00},
        {0x1p-25, 0x0000},
        {0x1.8p-25, 0x0001},
        {0x1p-24, 0x0001},
        {-0.0, 0x8000},
        {0x1.0020000000001p0, 0x3c01}, /* above the tie by 2^-52 */
        {INFINITY, 0x7c00},
        {0x1.ff8p-15, 0x03ff},
        {0x1.ffcp-15, 0x0400},
    };
    static const rounding bf16[] = {
        {0x1.01p0, 0x3f80},
        {0x1.03p0, 0x3f82},
        {0x1.fep127, 0x7f7f},
        {0x1.ffp127, 0x7f80},
        {0x1.0100000000001p0, 0x3f81},
        {-0x1p-133, 0x8001},
    };
    check_rounding(STATOR_F16, f16, (int)(sizeof f16 / sizeof f16[0]));
    check_rounding(STATOR_BF16, bf16, (int)(sizeof bf16 / sizeof bf16[0]));
}

Test(convert, f8_overflow)
{
    cr_expect_eq(st_f64_to_f8e4m3fn(448, false), 0x7e);
    cr_expect_eq(st_f64_to_f8e4m3fn(464, false), 0x7e); /* a tie, to even */
    cr_expect_eq(st_f64_to_f8e4m3fn(465, false), 0x7f);
    cr_expect_eq(st_f64_to_f8e4m3fn(465, true), 0x7e);
    cr_expect_eq(st_f64_to_f8e4m3fn(-INFINITY, true), 0xfe);
    cr_expect_eq(st_f64_to_f8e4m3fn(-INFINITY, false), 0xff);
    cr_expect_eq(st_f64_to_f8e5m2(57344, false), 0x7b);
    cr_expect_eq(st_f64_to_f8e5m2(61440, false), 0x7c);
    cr_expect_eq(st_f64_to_f8e5m2(1e300, true), 0x7b);
    cr_expect_eq(st_f64_to_f8e5m2(INFINITY, true), 0x7b);
    cr_expect_eq(st_f64_to_f8e4m3fn(0x1p-10, false), 0x00); /* half the smallest, to even */
    cr_expect_eq(st_f64_to_f8e4m3fn(0x1.8p-10, false), 0x01);
}

Test(convert, what_f32_holds_is_finite_and_no_0_that_was_none)
{
    cr_expect(st_fits_f32(0) && st_fits_f32(-0.0) && st_fits_f32(0x1p-149));
    cr_expect(st_fits_f32(-3.4028234663852886e38));
    cr_expect_not(st_fits_f32(0x1p-150)); /* half the smallest, to even */
    cr_expect_not(st_fits_f32(-1e39) || st_fits_f32(INFINITY) || st_fits_f32(NAN));
}

Test(convert, floats_to_integers_truncate)
{
    cr_expect_eq(st_f64_to_i64(-1.9), -1);
    cr_expect_eq(st_f64_to_i64(0x1p63), INT64_MIN);
    cr_expect_eq(st_f64_to_i64(NAN), INT64_MIN);
    cr_expect_eq(st_f64_to_i32(2147483647.9), 2147483647);
    cr_expect_eq(st_f64_to_i32(2147483648.0), INT32_MIN);
    cr_expect_eq(st_f64_to_u64(0x1p63), UINT64_C(1) << 63);
    cr_expect_eq(st_f64_to_u64(18446744073709549568.0), UINT64_C(18446744073709549568));
    int8_t narrow = 0;
    st_store_f64(STATOR_I8, &narrow, 0, -3.7);
    cr_expect_eq(narrow, -3);
    uint8_t flag = 7;
    st_store_f64(STATOR_BOOL, &flag, 0, NAN);
    cr_expect_eq(flag, 1);
}

Test(convert, sub_byte_elements_pack_two_a_byte)
{
    uint8_t packed[2] = {0, 0};
    const int64_t values[3] = {-8, 7, -1};
    int64_t back[3];
    st_store_i64_block(STATOR_I4, packed, 0, 3, values);
    cr_expect_eq(packed[0], 0x78);
    cr_expect_eq(packed[1], 0x0f);
    st_load_i64_block(STATOR_I4, packed, 0, 3, back);
    cr_expect_arr_eq(back, values, sizeof values);
    cr_expect_eq(st_load_i64(STATOR_U4, packed, 0), 8);
    st_store_i64(STATOR_U4, packed, 1, 3);
    cr_expect_eq(packed[0], 0x38);
}

Test(convert, strided_blocks)
{
    const float x[6] = {0, 1, 2, 3, 4, 5};
    double out[3];
    st_load_f64_strided(STATOR_F32, x, 5, -2, 3, out);
    cr_expect(out[0] == 5 && out[1] == 3 && out[2] == 1);
    st_load_f64_strided(STATOR_F32, x, 4, 0, 3, out);
    cr_expect(out[0] == 4 && out[2] == 4);
    uint16_t half[3];
    st_store_f64_strided(STATOR_F16, half, 2, -1, 3, out);
    cr_expect_eq(half[0], 0x4400);
    const double z[2] = {1.5, -2.0};
    float pair[4] = {0, 0, 0, 0};
    double back[2];
    st_store_c128(STATOR_C64, pair, 1, z);
    st_load_c128(STATOR_C64, pair, 1, back);
    cr_expect(back[0] == 1.5 && back[1] == -2.0 && pair[0] == 0);
}
