/* The meaning of the loop IR, op by op: memory, masks, accumulators, bindings, checks and each
 * scalar op on values whose results are written out here. */
#include "core/base/check.h"
#include "core/base/convert.h"
#include "core/base/diag.h"
#include "support_loop.h"
#include "tests/oracle/loop_oracle.h"
#include "tests/oracle/scalar_oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static loop_world w;

static void begin(void)
{
    loop_world_init(&w, "k");
}

static void end(void)
{
    loop_world_deinit(&w);
}

TestSuite(loop_oracle, .init = begin, .fini = end);

static stator_status interpret(void *const *buffers, const int64_t *sizes, int64_t first,
                               int64_t last, stator_diag **err)
{
    const st_kernel_args args = {buffers, sizes, NULL};
    loop_must_verify(&w.kernel);
    return loop_oracle_run(&w.kernel, &args, first, last, err);
}

static void run(void *const *buffers, const int64_t *sizes, int64_t first, int64_t last)
{
    stator_diag *err = NULL;
    const stator_status status = interpret(buffers, sizes, first, last, &err);
    cr_assert_eq(status, STATOR_OK, "%s", st_diag_text(err));
}

static void run_fails(void *const *buffers, const int64_t *sizes, int64_t last,
                      stator_status expected, const char *part)
{
    stator_diag *err = NULL;
    const stator_status status = interpret(buffers, sizes, 0, last, &err);
    cr_assert_eq(status, expected, "status %d", status);
    cr_assert(strstr(st_diag_text(err), part) != NULL, "'%s'", st_diag_text(err));
    st_diag_release(err);
}

/* ---- loops and memory ---- */

/* y[i] = x[i] * 2 + i over N in parallel, vector inside rows of 4. */
static void affine(void)
{
    const uint32_t n = loop_size(&w, "N");
    const uint32_t x = loop_in(&w, "x", STATOR_I32, loop_mul(&w, n, 4));
    const uint32_t y = loop_out(&w, "y", STATOR_I32, loop_mul(&w, n, 4));
    const uint32_t i = st_loop_axis_add(&w.b, n, ST_AXIS_PARALLEL);
    const uint32_t j = st_loop_axis_add(&w.b, loop_int(&w, 4), ST_AXIS_VECTOR);
    const uint32_t at = loop_add(&w, loop_mul(&w, loop_axis(&w, i), 4), loop_axis(&w, j));
    st_loop_open(&w.b, i);
    st_loop_open(&w.b, j);
    const st_loop_ref v = st_loop_load(&w.b, x, at, 0, 0);
    const st_loop_ref index = st_loop_cast(&w.b, STATOR_I32, st_loop_index(&w.b, at));
    const st_loop_ref twice = loop_op(&w, "mul", v, st_loop_int(&w.b, STATOR_I32, 2), 0);
    st_loop_store(&w.b, y, at, loop_op(&w, "add", twice, index, 0), 0);
    st_loop_close(&w.b);
    st_loop_close(&w.b);
}

Test(loop_oracle, ranges_of_the_parallel_loop)
{
    int32_t x[12];
    int32_t y[12] = {0};
    void *buffers[] = {x, y};
    const int64_t n = 3;
    for (int32_t i = 0; i < 12; i++) {
        x[i] = 100 * i;
    }
    affine();
    run(buffers, &n, 1, 2);
    for (int32_t i = 0; i < 12; i++) {
        cr_expect_eq(y[i], i / 4 == 1 ? 201 * i : 0);
    }
    run(buffers, &n, 2, 3);
    run(buffers, &n, 0, 1);
    run(buffers, &n, 1, 1);
    for (int32_t i = 0; i < 12; i++) {
        cr_expect_eq(y[i], 201 * i);
    }
    run_fails(buffers, &n, 4, STATOR_INVALID_ARGUMENT, "asked for iterations 0 to 4 of 3");
}

Test(loop_oracle, bounds)
{
    int32_t x[4] = {0};
    int32_t y[4];
    void *buffers[] = {x, y};
    const int64_t n = 1;
    affine();
    w.kernel.buffers.data[0].numel = loop_int(&w, 3);
    run_fails(buffers, &n, 1, STATOR_OUT_OF_RANGE, "index 3 of x, which has 3 elements");
    w.kernel.buffers.data[0].numel = loop_int(&w, 4);
    buffers[1] = NULL;
    run_fails(buffers, &n, 1, STATOR_INVALID_ARGUMENT, "no memory given for buffer y");
}

Test(loop_oracle, masked_loads_and_stores)
{
    /* y[i] = x[i - 1] or 9 at the border, the last element untouched */
    const uint32_t x = loop_in(&w, "x", STATOR_U8, loop_int(&w, 3));
    const uint32_t y = loop_out(&w, "y", STATOR_U8, loop_int(&w, 5));
    const uint32_t i = st_loop_axis_add(&w.b, loop_int(&w, 6), 0);
    st_loop_open(&w.b, i);
    const st_loop_ref at = st_loop_index(&w.b, loop_axis(&w, i));
    const st_loop_ref low = loop_op(&w, "ge", at, st_loop_int(&w.b, STATOR_I64, 1), 0);
    const st_loop_ref high = loop_op(&w, "le", at, st_loop_int(&w.b, STATOR_I64, 3), 0);
    const st_loop_ref inside = st_loop_both(&w.b, low, high);
    const st_loop_ref v = st_loop_load(&w.b, x, loop_add(&w, loop_axis(&w, i), loop_int(&w, -1)),
                                       inside, st_loop_int(&w.b, STATOR_U8, 9));
    const st_loop_ref kept = loop_op(&w, "lt", at, st_loop_int(&w.b, STATOR_I64, 4), 0);
    st_loop_store(&w.b, y, loop_axis(&w, i), v, kept);
    st_loop_close(&w.b);
    uint8_t in[3] = {1, 2, 3};
    uint8_t out[5] = {7, 7, 7, 7, 7};
    void *buffers[] = {in, out};
    run(buffers, NULL, 0, 1);
    cr_expect(memcmp(out, (uint8_t[5]){9, 1, 2, 3, 7}, 5) == 0);
}

static void bound_value_indexes(uint32_t origin, uint32_t failed)
{
    /* y[i] = table[x[i]], -1 where x[i] is outside; the call's status tells */
    const uint32_t x = loop_in(&w, "x", STATOR_I64, loop_int(&w, 4));
    const uint32_t table = loop_in(&w, "table", STATOR_F64, loop_int(&w, 3));
    const uint32_t y = loop_out(&w, "y", STATOR_F64, loop_int(&w, 4));
    const uint32_t i = st_loop_axis_add(&w.b, loop_int(&w, 4), ST_AXIS_PARALLEL);
    st_loop_open(&w.b, i);
    const st_loop_ref at = st_loop_load(&w.b, x, loop_axis(&w, i), 0, 0);
    const st_loop_ref low = loop_op(&w, "ge", at, st_loop_int(&w.b, STATOR_I64, 0), 0);
    const st_loop_ref high = loop_op(&w, "lt", at, st_loop_int(&w.b, STATOR_I64, 3), 0);
    const st_loop_ref inside = st_loop_both(&w.b, low, high);
    w.b.origin = origin;
    st_loop_check(&w.b, inside, 0);
    const uint32_t index = st_loop_bind(&w.b, at, 0, 2);
    const st_loop_ref v =
        st_loop_load(&w.b, table, index, inside, st_loop_float(&w.b, STATOR_F64, -1));
    st_loop_store(&w.b, y, loop_axis(&w, i), v, 0);
    st_loop_close(&w.b);
    int64_t in[4] = {2, 0, INT64_MAX, -1};
    double values[3] = {10, 20, 30};
    double out[4] = {0};
    void *buffers[] = {in, values, out};
    uint32_t status = 0;
    const st_kernel_args args = {buffers, NULL, &status};
    cr_assert_eq(loop_oracle_run(&w.kernel, &args, 0, 2, NULL), STATOR_OK);
    cr_expect_eq(status, 0);
    cr_assert_eq(loop_oracle_run(&w.kernel, &args, 2, 4, NULL), STATOR_OK);
    cr_expect_eq(status, failed);
    cr_expect(out[0] == 30 && out[1] == 10 && out[2] == -1 && out[3] == -1);
}

Test(loop_oracle, bound_value_is_an_index)
{
    bound_value_indexes(42, 42);
}

Test(loop_oracle, a_failed_check_of_no_node_is_noticed)
{
    bound_value_indexes(0, ST_STATUS_UNKNOWN);
}

Test(loop_oracle, scratch_is_poisoned_for_each_iteration)
{
    const uint32_t y = loop_out(&w, "y", STATOR_F32, loop_int(&w, 3));
    const uint32_t t =
        st_loop_buffer_add(&w.b, "t", STATOR_F32, loop_int(&w, 2), ST_BUFFER_LOCAL, 0);
    const uint32_t i = st_loop_axis_add(&w.b, loop_int(&w, 3), ST_AXIS_PARALLEL);
    st_loop_open(&w.b, i);
    w.kernel.buffers.data[t].flags |= ST_BUFFER_WRITTEN | ST_BUFFER_READ;
    const st_loop_ref old = st_loop_load(&w.b, t, loop_int(&w, 1), 0, 0);
    st_loop_store(&w.b, t, loop_int(&w, 1), st_loop_float(&w.b, STATOR_F32, 4), 0);
    const st_loop_ref new_ = st_loop_load(&w.b, t, loop_int(&w, 1), 0, 0);
    const st_loop_ref is_nan = loop_op(&w, "is_nan", old, 0, 0);
    st_loop_store(&w.b, y, loop_axis(&w, i), loop_op(&w, "select", is_nan, new_, old), 0);
    st_loop_close(&w.b);
    float out[3] = {0};
    void *buffers[] = {out, NULL};
    run(buffers, NULL, 0, 3);
    cr_expect(out[0] == 4 && out[1] == 4 && out[2] == 4);
}

/* ---- accumulators ---- */

static const float sample[6] = {3, -2, 7, 7, -2, 0.5f};

/* One accumulator of f32 over x[6]; its value in y[0], its index in k[0]. */
static double reduced(uint32_t kind, const float *x, int64_t *out_index)
{
    loop_world_deinit(&w);
    loop_world_init(&w, "reduce");
    const uint32_t in = loop_in(&w, "x", STATOR_F32, loop_int(&w, 6));
    const uint32_t out = loop_out(&w, "y", STATOR_F32, loop_int(&w, 1));
    const uint32_t index = loop_out(&w, "k", STATOR_I64, loop_int(&w, 1));
    const int keeps = kind == ST_ACC_ARGMIN || kind == ST_ACC_ARGMAX;
    const uint32_t i = st_loop_axis_add(&w.b, loop_int(&w, 6),
                                        kind == ST_ACC_LAST ? ST_AXIS_SERIAL : ST_AXIS_REDUCE);
    const st_loop_ref acc = st_loop_acc(&w.b, kind, STATOR_F32, 0);
    st_loop_open(&w.b, i);
    const st_loop_ref v = st_loop_load(&w.b, in, loop_axis(&w, i), 0, 0);
    st_loop_update(&w.b, acc, v, keeps ? st_loop_index(&w.b, loop_axis(&w, i)) : 0, 0);
    st_loop_close(&w.b);
    st_loop_store(&w.b, out, loop_int(&w, 0), st_loop_read(&w.b, acc, STATOR_F32), 0);
    if (keeps) {
        st_loop_store(&w.b, index, loop_int(&w, 0), st_loop_read(&w.b, acc, STATOR_I64), 0);
    }
    float y = 0;
    int64_t k = -1;
    void *buffers[] = {(void *)(uintptr_t)x, &y, &k};
    run(buffers, NULL, 0, 1);
    *out_index = k;
    return (double)y;
}

Test(loop_oracle, accumulators)
{
    int64_t k = 0;
    cr_expect(reduced(ST_ACC_SUM, sample, &k) == 13.5);
    cr_expect(reduced(ST_ACC_PROD, sample, &k) == 294);
    cr_expect(reduced(ST_ACC_MIN, sample, &k) == -2);
    cr_expect(reduced(ST_ACC_MAX, sample, &k) == 7);
    cr_expect(reduced(ST_ACC_LAST, sample, &k) == 0.5);
    cr_expect(reduced(ST_ACC_ARGMIN, sample, &k) == -2 && k == 1);
    cr_expect(reduced(ST_ACC_ARGMAX, sample, &k) == 7 && k == 2);
}

Test(loop_oracle, accumulators_and_nan)
{
    const float x[6] = {INFINITY, 2, NAN, -INFINITY, NAN, 9};
    const float flat[6] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    int64_t k = 0;
    cr_expect(isnan(reduced(ST_ACC_MIN, x, &k)));
    cr_expect(isnan(reduced(ST_ACC_MAX, x, &k)));
    cr_expect(isnan(reduced(ST_ACC_ARGMIN, x, &k)) && k == 2);
    cr_expect(isnan(reduced(ST_ACC_ARGMAX, x, &k)) && k == 2);
    cr_expect(reduced(ST_ACC_ARGMAX, flat, &k) == -INFINITY && k == 0);
}

Test(loop_oracle, scan)
{
    /* y[i] = sum of x[0..i] where x is even, from 100 */
    const uint32_t x = loop_in(&w, "x", STATOR_I16, loop_int(&w, 5));
    const uint32_t y = loop_out(&w, "y", STATOR_I16, loop_int(&w, 5));
    const uint32_t i = st_loop_axis_add(&w.b, loop_int(&w, 5), ST_AXIS_SERIAL);
    const st_loop_ref acc =
        st_loop_acc(&w.b, ST_ACC_SUM, STATOR_I16, st_loop_int(&w.b, STATOR_I16, 100));
    st_loop_open(&w.b, i);
    const st_loop_ref v = st_loop_load(&w.b, x, loop_axis(&w, i), 0, 0);
    const st_loop_ref bit = loop_op(&w, "bit_and", v, st_loop_int(&w.b, STATOR_I16, 1), 0);
    st_loop_update(&w.b, acc, v, 0, loop_op(&w, "eq", bit, st_loop_int(&w.b, STATOR_I16, 0), 0));
    st_loop_store(&w.b, y, loop_axis(&w, i), st_loop_read(&w.b, acc, STATOR_I16), 0);
    st_loop_close(&w.b);
    int16_t in[5] = {2, 3, 32600, 4, 5};
    int16_t out[5] = {0};
    void *buffers[] = {in, out};
    run(buffers, NULL, 0, 1);
    cr_expect(out[0] == 102 && out[1] == 102 && out[2] == 32702 && out[3] == 32706);
}

/* ---- storage types ---- */

Test(loop_oracle, storage_types)
{
    static const uint32_t types[] = {STATOR_BF16, STATOR_F16, STATOR_F8E4M3FN, STATOR_F8E5M2};
    for (uint32_t t = 0; t < 4; t++) {
        loop_world_deinit(&w);
        loop_world_init(&w, "narrow");
        const uint32_t x = loop_in(&w, "x", types[t], loop_int(&w, 4));
        const uint32_t y = loop_out(&w, "y", types[t], loop_int(&w, 4));
        const uint32_t i = st_loop_axis_add(&w.b, loop_int(&w, 4), 0);
        st_loop_open(&w.b, i);
        const st_loop_ref v = st_loop_load(&w.b, x, loop_axis(&w, i), 0, 0);
        const st_loop_ref wide = st_loop_cast(&w.b, STATOR_F32, v);
        const st_loop_ref sum = loop_op(&w, "add", wide, wide, 0);
        st_loop_store(&w.b, y, loop_axis(&w, i), st_loop_cast(&w.b, types[t], sum), 0);
        st_loop_close(&w.b);
        uint64_t in = 0;
        uint64_t out = 0;
        void *buffers[] = {&in, &out};
        st_store_f64_block(types[t], &in, 0, 4, (double[4]){1.5, -0.25, 0, NAN});
        run(buffers, NULL, 0, 1);
        cr_expect(st_load_f64(types[t], &out, 0) == 3);
        cr_expect(st_load_f64(types[t], &out, 1) == -0.5);
        cr_expect(st_load_f64(types[t], &out, 2) == 0);
        cr_expect(isnan(st_load_f64(types[t], &out, 3)));
    }
}

/* ---- scalar instructions ---- */

static st_loop_cell cell(uint32_t dtype, double x)
{
    const st_loop_imm imm = st_loop_class_of(dtype) == ST_LOOP_FLOATS
                                ? (st_loop_imm){.f = x}
                                : (st_loop_imm){.i = (int64_t)x};
    return st_loop_cell_imm(dtype, imm);
}

static double value(uint32_t dtype, st_loop_cell c)
{
    return dtype == STATOR_F64   ? c.f64
           : dtype == STATOR_F32 ? (double)st_loop_f32_of(c)
                                 : (double)c.i;
}

static double scalar(const char *name, uint32_t dtype, double x, double y, double z)
{
    const st_loop_op_desc *desc = st_loop_desc(st_loop_find(name));
    cr_assert(desc != NULL, "%s", name);
    const uint32_t result = desc->result == ST_LOOP_BOOL ? (uint32_t)STATOR_BOOL : dtype;
    const st_loop_inst op = {.code = (uint16_t)st_loop_find(name), .dtype = (uint8_t)result};
    const uint32_t first = op.code == ST_LOOP_select ? (uint32_t)STATOR_BOOL : dtype;
    const st_loop_cell args[3] = {cell(first, x), cell(dtype, y), cell(dtype, z)};
    return value(result, st_loop_scalar(&op, dtype, args));
}

typedef struct scalar_case {
    const char *name;
    uint32_t dtype;
    double x, y, z, expected;
} scalar_case;

static const scalar_case cases[] = {
    {"neg", STATOR_I8, -128, 0, 0, -128},
    {"neg", STATOR_U16, 1, 0, 0, 65535},
    {"abs", STATOR_I8, -128, 0, 0, -128},
    {"abs", STATOR_I32, -5, 0, 0, 5},
    {"abs", STATOR_U8, 200, 0, 0, 200},
    {"abs", STATOR_F32, -0.5, 0, 0, 0.5},
    {"sign", STATOR_I64, -7, 0, 0, -1},
    {"sign", STATOR_U8, 200, 0, 0, 1},
    {"sign", STATOR_F64, -0.25, 0, 0, -1},
    {"ceil", STATOR_F32, 0.25, 0, 0, 1},
    {"ceil", STATOR_I32, 4, 0, 0, 4},
    {"floor", STATOR_F64, -0.25, 0, 0, -1},
    {"round", STATOR_F32, 2.5, 0, 0, 2},
    {"round", STATOR_F64, 3.5, 0, 0, 4},
    {"trunc", STATOR_F32, -2.75, 0, 0, -2},
    {"add", STATOR_I8, 127, 1, 0, -128},
    {"add", STATOR_U8, 255, 1, 0, 0},
    {"sub", STATOR_U32, 0, 1, 0, 4294967295.0},
    {"mul", STATOR_I16, 300, 300, 0, 24464},
    {"mul", STATOR_F32, 16777216, 3, 0, 50331648},
    {"fma", STATOR_F32, 0x1.000002p0, 0x1.000002p0, -0x1.000004p0, 0x1p-46},
    {"quot", STATOR_I32, -7, 2, 0, -3},
    {"quot", STATOR_U8, 200, 3, 0, 66},
    {"div", STATOR_I32, 7, 0, 0, 0},
    {"div", STATOR_I32, -2147483648.0, -1, 0, -2147483648.0},
    {"div", STATOR_U8, 7, 255, 0, 0},
    {"div", STATOR_F32, 1, 0, 0, INFINITY},
    {"rem", STATOR_I32, -7, 3, 0, -1},
    {"rem", STATOR_I32, 7, 0, 0, 0},
    {"rem", STATOR_I64, 7, -1, 0, 0},
    {"rem", STATOR_F32, -7, 3, 0, -1},
    {"mod", STATOR_I32, -7, 3, 0, 2},
    {"mod", STATOR_I32, 7, -3, 0, -2},
    {"mod", STATOR_I32, 7, 0, 0, 0},
    {"mod", STATOR_U8, 200, 7, 0, 4},
    {"mod", STATOR_F64, -7.5, 2, 0, 0.5},
    {"min", STATOR_U8, 200, 3, 0, 3},
    {"min", STATOR_I8, -56, 3, 0, -56},
    {"min", STATOR_BOOL, 1, 0, 0, 0},
    {"max", STATOR_F32, -1, 2, 0, 2},
    {"bit_not", STATOR_BOOL, 1, 0, 0, 0},
    {"bit_not", STATOR_U8, 1, 0, 0, 254},
    {"bit_and", STATOR_I32, 12, 10, 0, 8},
    {"bit_or", STATOR_I32, 12, 10, 0, 14},
    {"bit_xor", STATOR_BOOL, 1, 1, 0, 0},
    {"shift_left", STATOR_I8, 65, 1, 0, -126},
    {"shift_right", STATOR_I8, -128, 3, 0, -16},
    {"shift_right", STATOR_U8, 128, 3, 0, 16},
    {"shl", STATOR_U8, 255, 8, 0, 0},
    {"shl", STATOR_I32, 1, -1, 0, 0},
    {"shl", STATOR_I32, 1, 31, 0, -2147483648.0},
    {"shr", STATOR_I16, -5, 99, 0, -1},
    {"shr", STATOR_I16, 5, 99, 0, 0},
    {"shr", STATOR_U16, 65535, 16, 0, 0},
    {"eq", STATOR_F32, NAN, NAN, 0, 0},
    {"ne", STATOR_F32, NAN, NAN, 0, 1},
    {"lt", STATOR_I8, -1, 1, 0, 1},
    {"lt", STATOR_U8, 255, 1, 0, 0},
    {"le", STATOR_BOOL, 0, 1, 0, 1},
    {"gt", STATOR_U64, 5, 4, 0, 1},
    {"ge", STATOR_F64, 1, NAN, 0, 0},
    {"is_nan", STATOR_F32, NAN, 0, 0, 1},
    {"is_inf", STATOR_F32, -INFINITY, 0, 0, 1},
    {"is_finite", STATOR_F64, 1e308, 0, 0, 1},
    {"is_finite", STATOR_F64, NAN, 0, 0, 0},
    {"select", STATOR_I32, 1, 5, 6, 5},
    {"select", STATOR_BOOL, 0, 1, 0, 0},
    {"sqrt", STATOR_F64, 2.25, 0, 0, 1.5},
    {"rsqrt", STATOR_F32, 4, 0, 0, 0.5},
    {"ldexp", STATOR_F32, 1.5, -149, 0, 0x1p-148},
    {"ldexp", STATOR_F64, 1.5, 1000, 0, 0x1.8p1000},
    {"lookup", STATOR_F32, 1572866, 0, 0, 0x1.6a09e6p0},
    {"lookup", STATOR_F64, 0x1.0000000000010p0, 0, 0, 0x1.6a09e6p0},
    {"sigmoid", STATOR_F32, 0, 0, 0, 0.5},
    {"exp", STATOR_F64, 0, 0, 0, 1},
    {"exp2", STATOR_F32, -149, 0, 0, 0x1p-149},
    {"expm1", STATOR_F64, 1e-300, 0, 0, 1e-300},
    {"log", STATOR_F32, 0, 0, 0, -INFINITY},
    {"log2", STATOR_F32, 8, 0, 0, 3},
    {"log1p", STATOR_F64, 1e-300, 0, 0, 1e-300},
    {"sin", STATOR_F32, 0, 0, 0, 0},
    {"cos", STATOR_F32, 0, 0, 0, 1},
    {"tan", STATOR_F32, 0, 0, 0, 0},
    {"asin", STATOR_F64, 1, 0, 0, 0x1.921fb54442d18p0},
    {"acos", STATOR_F64, 1, 0, 0, 0},
    {"atan", STATOR_F64, INFINITY, 0, 0, 0x1.921fb54442d18p0},
    {"sinh", STATOR_F64, 0, 0, 0, 0},
    {"cosh", STATOR_F64, 0, 0, 0, 1},
    {"tanh", STATOR_F32, 20, 0, 0, 1},
    {"asinh", STATOR_F64, 0, 0, 0, 0},
    {"acosh", STATOR_F64, 1, 0, 0, 0},
    {"atanh", STATOR_F64, 1, 0, 0, INFINITY},
    {"erf", STATOR_F32, -9, 0, 0, -1},
    {"gelu", STATOR_F64, 40, 0, 0, 40},
    {"erf_fast", STATOR_F32, 9, 0, 0, 1},
    {"lgamma", STATOR_F64, 1, 0, 0, 0},
    {"pow", STATOR_F32, 2, 10, 0, 1024},
    {"pow", STATOR_I32, -3, 5, 0, -243},
    {"pow", STATOR_I64, 3, 20, 0, 3486784401.0},
    {"pow", STATOR_I8, 2, 9, 0, 0},
    {"pow", STATOR_U8, 3, 200, 0, 161},
    {"pow", STATOR_I16, -1, -3, 0, -1},
    {"pow", STATOR_I32, 5, -1, 0, 0},
    {"pow", STATOR_I32, 0, -1, 0, 0},
    {"pow", STATOR_I32, 0, 0, 0, 1},
    {"atan2", STATOR_F64, 1, 0, 0, 0x1.921fb54442d18p0},
};

Test(loop_oracle, scalar_insts)
{
    uint8_t met[ST_LOOP_CODE_COUNT] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const scalar_case *c = &cases[i];
        const double got = scalar(c->name, c->dtype, c->x, c->y, c->z);
        cr_expect(got == c->expected, "%s of %s: %.17g, expected %.17g", c->name,
                  st_dtype_name(c->dtype), got, c->expected);
        met[st_loop_find(c->name)] = 1;
    }
    met[ST_LOOP_cast] = met[ST_LOOP_bitcast] = 1; /* below */
    for (uint32_t code = ST_LOOP_FIRST_SCALAR; code < ST_LOOP_CODE_COUNT; code++) {
        cr_expect(met[code], "no case for %s", st_loop_desc(code)->name);
    }
}

Test(loop_oracle, nan_wins)
{
    cr_expect(isnan(scalar("min", STATOR_F32, NAN, 1, 0)));
    cr_expect(isnan(scalar("min", STATOR_F32, 1, NAN, 0)));
    cr_expect(isnan(scalar("max", STATOR_F64, NAN, 1, 0)));
    cr_expect(isnan(scalar("max", STATOR_F64, 1, NAN, 0)));
    cr_expect(isnan(scalar("sign", STATOR_F64, NAN, 0, 0)));
    cr_expect(signbit(scalar("sign", STATOR_F64, -0.0, 0, 0)));
    cr_expect(signbit(scalar("mod", STATOR_F64, 4, -2, 0)));
}

static st_loop_cell converted(uint32_t code, uint32_t to, uint32_t from, st_loop_cell x)
{
    const st_loop_inst op = {.code = (uint16_t)code, .dtype = (uint8_t)to};
    return st_loop_scalar(&op, from, (st_loop_cell[3]){x, {.i = 0}, {.i = 0}});
}

static double cast(uint32_t to, uint32_t from, double x)
{
    return value(to, converted(ST_LOOP_cast, to, from, cell(from, x)));
}

Test(loop_oracle, casts)
{
    cr_expect(cast(STATOR_I8, STATOR_I32, 200) == -56);
    cr_expect(cast(STATOR_U8, STATOR_I8, -1) == 255);
    cr_expect(cast(STATOR_I32, STATOR_F32, -2.75) == -2);
    cr_expect(cast(STATOR_I32, STATOR_F64, 1e20) == -2147483648.0);
    cr_expect(cast(STATOR_BOOL, STATOR_F32, NAN) == 1);
    cr_expect(cast(STATOR_BOOL, STATOR_I32, 256) == 1);
    cr_expect(cast(STATOR_F32, STATOR_BOOL, 1) == 1);
    cr_expect(cast(STATOR_F32, STATOR_F64, 0.1) == (double)0.1f);
    const st_loop_cell most = {.u = UINT64_MAX};
    cr_expect(st_loop_f32_of(converted(ST_LOOP_cast, STATOR_F32, STATOR_U64, most)) == 0x1p64f);
    cr_expect(st_loop_f32_of(converted(ST_LOOP_cast, STATOR_F32, STATOR_I64, most)) == -1.0f);
    cr_expect(converted(ST_LOOP_cast, STATOR_F64, STATOR_U64, most).f64 == 0x1p64);
    const st_loop_cell huge[3] = {cell(STATOR_F32, 1e9)};
    cr_expect_eq(converted(ST_LOOP_cast, STATOR_F8E4M3FN, STATOR_F32, huge[0]).u, 0x7e);
    const st_loop_inst keeps = {.code = ST_LOOP_cast, .dtype = STATOR_F8E4M3FN, .imm.i = 1};
    cr_expect_eq(st_loop_scalar(&keeps, STATOR_F32, huge).u, 0x7f);
}

Test(loop_oracle, bitcasts)
{
    const st_loop_cell one = cell(STATOR_F32, -1);
    cr_expect_eq(converted(ST_LOOP_bitcast, STATOR_U32, STATOR_F32, one).u, 0xbf800000u);
    cr_expect_eq(converted(ST_LOOP_bitcast, STATOR_I32, STATOR_F32, one).i,
                 (int64_t)0xbf800000 - (INT64_C(1) << 32));
    const st_loop_cell bits = {.i = 0x3ff0000000000000};
    cr_expect(converted(ST_LOOP_bitcast, STATOR_F64, STATOR_I64, bits).f64 == 1);
}

Test(loop_oracle, every_allocation_may_fail)
{
    int32_t x[4] = {0};
    int32_t y[4];
    void *buffers[] = {x, y};
    const int64_t n = 1;
    const st_kernel_args args = {buffers, &n, NULL};
    affine();
    for (uint64_t at = 1; at <= 6; at++) {
        stator_diag *err = NULL;
        w.mem.fail_at = w.mem.requests + at;
        cr_expect_eq(loop_oracle_run(&w.kernel, &args, 0, 1, &err), STATOR_RESOURCE_EXHAUSTED);
        st_diag_release(err);
    }
    w.mem.fail_at = 0;
}
