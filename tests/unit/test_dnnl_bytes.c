/* Sums of bytes that become bytes in one go, long products, and convolutions of bytes with a group
 * for each channel, by kernels of our own with AVX2 and with AVX-512; groups by oneDNN. */
#include "dnnl_support.h"

#include "core/base/convert.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

TestSuite(dnnl_bytes, .init = dnnl_begin_tiles, .fini = dnnl_end);

static void begin(void)
{
    if (!dnnl_begin_narrow(DNNL_TILES_FIRST)) {
        cr_skip_test("this processor has no AVX2");
    }
}

static void begin_wide(void)
{
    if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vnni")) {
        cr_skip_test("this processor has no AVX-512 with products of bytes");
    }
}

/* A test of the one and of the other. */
#define TEST_BOTH(name)                                                                            \
    Test(dnnl_bytes, name)                                                                         \
    {                                                                                              \
        begin();                                                                                   \
        name();                                                                                    \
    }                                                                                              \
    Test(dnnl_bytes, name##_wide)                                                                  \
    {                                                                                              \
        begin_wide();                                                                              \
        name();                                                                                    \
    }

/* ---- epilogues ---- */

typedef struct rows {
    double scale, divisor, offset;
    int is_signed, has_relu;
    double low, high; /* bounds where they differ */
} rows;

static const rows all_rows[] = {
    {0.0009, 0.0173913, 3, 0, 0, 0, 0}, {0.004, 0.0537909, -17, 1, 0, 0, 0},
    {0.01, 1.0 / 3, 255, 0, 0, 0, 0},   {0.07, 0.99999994, -128, 1, 1, 0, 0},
    {0.03, 3.3, 127, 1, 0, -5, 90},     {0.0013, 0.0072891, 114, 0, 0, 100, 200},
    {1e-6, 1.17e-5, 0, 0, 0, 0, 0},     {0.25, 2, 9, 0, 0, 0, 0},
    {3e7, 1.0000001e9, 128, 0, 0, 0, 0}};
#define ROWS (sizeof all_rows / sizeof all_rows[0])

static void add_rows(problem *p, const rows *r)
{
    p->contraction.out.dtype = r->is_signed ? STATOR_I8 : STATOR_U8;
    epilogue(p, ST_EPILOGUE_SCALE, (float)r->scale, 0);
    epilogue(p, ST_EPILOGUE_TIMES, 0, 0);
    epilogue(p, ST_EPILOGUE_BIAS, 0, 0);
    if (r->has_relu) {
        epilogue(p, ST_EPILOGUE_RELU, 0, 0);
    }
    epilogue(p, ST_EPILOGUE_DIVIDE, (float)r->divisor, 0);
    epilogue(p, ST_EPILOGUE_ROUND, 0, 0);
    epilogue(p, ST_EPILOGUE_OFFSET, r->offset, 0);
    if (r->low != r->high) {
        epilogue(p, ST_EPILOGUE_CLIP, r->low, r->high);
    }
}

/* The same bytes as with a last row that changes nothing, but is done one row after the other; now
 * and then, where the quotient is a half but for a few roundings, the neighbouring one. */
static void check_rows(problem *p, const rows *r)
{
    const uint32_t bias = p->contraction.epilogue[2].buffer;
    static const double wide[] = {INFINITY, -INFINITY, 3e38, -3e38, 1e12};
    uint8_t at_once[1 << 15];
    for (uint32_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        st_store_f64(STATOR_F32, p->buffers[bias], i, wide[i]);
    }
    cr_assert_leq(p->elements[OUT], (int64_t)sizeof at_once);
    for (int k = 0; k < 2; k++) {
        void *op = create(p, "bytes");
        memset(p->buffers[OUT], 77, (size_t)p->elements[OUT]);
        call(p, op);
        lib->destroy(lib->self, op);
        if (k == 0) {
            memcpy(at_once, p->buffers[OUT], (size_t)p->elements[OUT]);
            epilogue(p, ST_EPILOGUE_OFFSET, 0, 0);
        }
    }
    const int is_signed = p->contraction.out.dtype == STATOR_I8;
    const uint8_t *one_by_one = p->buffers[OUT];
    int64_t neighbours = 0;
    for (int64_t i = 0; i < p->elements[OUT]; i++) {
        const int a = is_signed ? (int8_t)at_once[i] : at_once[i];
        const int b = is_signed ? (int8_t)one_by_one[i] : one_by_one[i];
        neighbours += a != b;
        cr_assert(a - b <= 1 && b - a <= 1, "divisor %.9g, byte %lld is %d, not %d", r->divisor,
                  (long long)i, a, b);
    }
    cr_assert_leq(neighbours, 1 + p->elements[OUT] / 1000, "divisor %.9g: %lld neighbours",
                  r->divisor, (long long)neighbours);
    empty(p);
}

static void rows_at_once(void)
{
    static const int64_t sizes[][3] = {{300, 40, 64}, {15, 33, 20}, {127, 61, 7}, {1, 64, 300}};
    for (size_t i = 0; i < ROWS * sizeof sizes / sizeof sizes[0]; i++) {
        const int64_t *s = sizes[i / ROWS];
        problem p;
        f.threads = 1 + (int32_t)(i % 2);
        gemm(&p, STATOR_U8, STATOR_F32, num(s[0]), num(s[1]), num(s[2]));
        p.contraction.y.dtype = STATOR_I8;
        p.contraction.x_zero.value = i % 3 ? 121 : 0;
        add_rows(&p, &all_rows[i % ROWS]);
        with_constant(&p);
        check_rows(&p, &all_rows[i % ROWS]);
    }
}
TEST_BOTH(rows_at_once)

/* ---- products ---- */

/* Partial sums of the way with half the multiplications pass 2^31. */
static void sums_that_wrap_on_the_way(void)
{
    static const int64_t heights[] = {16, 19, 130};
    for (size_t i = 0; i < 4 * sizeof heights / sizeof heights[0]; i++) {
        problem p;
        f.threads = 1 + (int32_t)(i % 3);
        gemm(&p, STATOR_U8, STATOR_I32, num(heights[i / 4]), num(20), num(40003));
        p.contraction.y.dtype = STATOR_I8;
        fill(&p);
        memset(p.buffers[X], i % 2 ? 255 : 128, (size_t)p.elements[X]);
        memset(p.buffers[Y], i % 4 < 2 ? 127 : -128, (size_t)p.elements[Y]);
        set_constant(&p);
        run_as(&p, "a long product of bytes", 0, "tiles");
    }
}
TEST_BOTH(sums_that_wrap_on_the_way)

/* ---- a group a channel ---- */

static const conv_case singles[] = {
    {2, 2, 16, 16, 16, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 72, 72, 72, {14, 13}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {2, 1, 37, 37, 37, {12, 17}, {3, 3}, {2, 2}, {1, 1}, {0, 1}, {1, 1}},
    {2, 3, 8, 8, 8, {9, 17}, {2, 4}, {1, 2}, {2, 3}, {3, 0}, {1, 5}},
    {2, 1, 6, 6, 6, {5, 300}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 1, 20, 20, 20, {10, 10}, {7, 9}, {1, 1}, {1, 1}, {3, 4}, {3, 4}}, /* 63 places */
    {2, 1, 96, 96, 96, {40, 90}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, /* many blocks */
    {2, 2, 40, 40, 40, {11, 38}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 33, 33, 33, {16, 57}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, {2, 2}},
    {2, 1, 70, 70, 70, {9, 30}, {3, 3}, {2, 2}, {2, 2}, {2, 2}, {2, 2}}, /* as if contiguous */
    {2, 1, 50, 50, 50, {12, 20}, {5, 3}, {1, 1}, {1, 1}, {2, 1}, {2, 1}},
    {1, 2, 19, 19, 19, {400}, {7}, {3}, {2}, {6}, {0}}};
#define SINGLES (sizeof singles / sizeof singles[0])

static void a_group_a_channel(void)
{
    for (uint32_t i = 0; i < 8 * SINGLES; i++) {
        const uint32_t x = i % 2 ? STATOR_I8 : STATOR_U8;
        problem p;
        f.threads = 1 + (int32_t)(i % 3);
        conv(&p, x, STATOR_I32, &singles[i / 8], i / 2 % 2, i / 4 % 2);
        p.contraction.y.dtype = STATOR_I8;
        p.contraction.x_zero.value = i % 3 ? 17 : 0;
        with_constant(&p);
        run_as(&p, "a group a channel", 0, "tiles");
    }
}
TEST_BOTH(a_group_a_channel)

static void a_group_a_channel_to_bytes(void)
{
    for (uint32_t i = 0; i < ROWS; i++) {
        problem p;
        conv(&p, STATOR_U8, STATOR_F32, &singles[i % 5], 1, 1);
        p.contraction.y.dtype = STATOR_I8;
        p.contraction.x_zero.value = 121;
        add_rows(&p, &all_rows[i]);
        with_constant(&p);
        check_rows(&p, &all_rows[i]);
    }
}
TEST_BOTH(a_group_a_channel_to_bytes)

/* Weights with a zero point are left to others. */
Test(dnnl_bytes, depthwise_weights_with_a_zero_point_go_to_onednn)
{
    begin();
    problem p;
    conv(&p, STATOR_U8, STATOR_I32, &singles[0], 1, 1);
    p.contraction.y.dtype = STATOR_I8;
    p.contraction.y_zero.value = 3;
    with_constant(&p);
    cr_assert_not(lib->takes(lib->self, &p.contraction));
    empty(&p);
}

/* ---- groups that oneDNN does ---- */

TestSuite(dnnl_bytes_groups, .init = dnnl_begin, .fini = dnnl_end);

/* With u8 and i8, x and the output channels last or not, a zero point or none. */
static void check_groups(const conv_case *c, int to_bytes)
{
    for (int i = 0; i < 2 * 2 * 4; i++) {
        problem p;
        conv(&p, i % 2 ? STATOR_I8 : STATOR_U8, STATOR_F32, c, i / 4 % 2, i / 8);
        p.contraction.x_zero.value = i / 2 % 2 ? 31 : 0;
        epilogue(&p, ST_EPILOGUE_SCALE, 0.015625, 0);
        if (to_bytes) {
            p.contraction.out.dtype = STATOR_U8;
            epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
            epilogue(&p, ST_EPILOGUE_DIVIDE, 8, 0);
            epilogue(&p, ST_EPILOGUE_ROUND, 0, 0);
            epilogue(&p, ST_EPILOGUE_OFFSET, 3, 0);
        } else {
            epilogue(&p, ST_EPILOGUE_TIMES, 0, 0);
        }
        if (lib->takes(lib->self, &p.contraction) == 1) { /* else it is done as f32 */
            check(&p, "groups of bytes");
        }
    }
}

/* Channels that fill no vector: "gemm" is what oneDNN has, with channels last inside, whatever the
 * order of x and the output, and it would read another group's factors. */
Test(dnnl_bytes_groups, groups_narrower_than_a_vector_use_their_own_scales)
{
    const conv_case c = {2, 2, 28, 92, 4, {9, 11}, {3, 2}, {2, 1}, {1, 1}, {0, 1}, {2, 0}};
    check_groups(&c, 0);
}

/* Groups of 12 channels with a zero point: oneDNN describes what it cannot make. */
Test(dnnl_bytes_groups, groups_of_12_channels_with_a_zero_point_are_refused)
{
    const conv_case c = {2, 1, 24, 32, 2, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    check_groups(&c, 1);
}
