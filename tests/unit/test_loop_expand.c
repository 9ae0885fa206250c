/* Expansions against the ops they stand for: each op of the table in each dtype that it has, on
 * values from the corners of the dtype, exactly; functions of f32 within the bound of their entry.
 * The exhaustive check of those is tests/unit/test_loop_math.c. */
#include "codegen/loopir/loop_expand.h"
#include "codegen/loopir/loop_expand_parse.h"
#include "core/base/check.h"
#include "core/base/convert.h"
#include "core/base/diag.h"
#include "support_loop.h"
#include "tests/oracle/loop_oracle.h"
#include "tests/oracle/scalar_oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define COUNT 64 /* values of a dtype */

static loop_world w;

static void begin(void)
{
    loop_world_init(&w, "k");
}

static void end(void)
{
    loop_world_deinit(&w);
}

TestSuite(loop_expand, .init = begin, .fini = end);

static void expand(const uint8_t *spells, st_kernel *out)
{
    stator_diag *err = NULL;
    const stator_status status = st_loop_expand(&w.kernel, spells, out, &err);
    cr_assert_eq(status, STATOR_OK, "%s", st_diag_text(err));
    loop_must_verify(out);
}

/* ---- values ---- */

static const double floats[] = {0.0,
                                -0.0,
                                1,
                                -1,
                                0.5,
                                -0.5,
                                1.5,
                                2.5,
                                -3.5,
                                7,
                                -7,
                                3,
                                -3,
                                1e-3,
                                -1e-3,
                                1e-30,
                                -1e-30,
                                1e30,
                                -1e30,
                                0x1p-149,
                                -0x1p-149,
                                0x1p-126,
                                0x1p-140,
                                0x1.fffffep127,
                                -0x1.fffffep127,
                                INFINITY,
                                -INFINITY,
                                NAN,
                                88.5,
                                -88.5,
                                -100,
                                104,
                                10.25,
                                -10.25,
                                0.999,
                                1.001,
                                0.3465,
                                -0.3465,
                                0.7854,
                                1.5708,
                                3.14159,
                                -100.5,
                                1000.25,
                                16777216,
                                33554432,
                                2147483648.0,
                                9,
                                -9,
                                1e10,
                                0.1,
                                0.2,
                                0.9375,
                                -0.9375,
                                2,
                                -2,
                                4,
                                20,
                                -20,
                                0.0625,
                                0.0078125,
                                1e-8,
                                -1e-8,
                                5.5,
                                123456.789};

static int64_t whole(uint32_t i)
{
    static const int64_t some[] = {
        0,   1,    -1,  2,    -2,  3,   7,     -7,    8,     31,        32,        63,    64,
        100, -100, 127, -128, 255, 256, 32767, 65535, 99999, INT32_MAX, INT32_MIN, -5000, 1 << 20};
    const uint32_t n = sizeof some / sizeof some[0];
    if (i < n) {
        return some[i];
    }
    return i == n        ? INT64_MAX
           : i == n + 1u ? INT64_MIN
                         : (int64_t)(0x9e3779b97f4a7c15u * (i + 1u)) >> (i % 60u);
}

static void fill(uint32_t dtype, void *data, uint32_t stride, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t k = stride == 0 ? i % COUNT : (i / stride) % COUNT;
        if (st_loop_class_of(dtype) == ST_LOOP_FLOATS) {
            st_store_f64(dtype, data, i, floats[k]);
        } else {
            st_store_i64(dtype, data, i, dtype == STATOR_BOOL ? k & 1 : whole(k));
        }
    }
}

/* ---- one op in one dtype ---- */

/* out[i] = op(x[i], y[i], z[i]) */
static void build(uint32_t code, uint32_t dtype, uint32_t n)
{
    const st_loop_op_desc *desc = st_loop_desc(code);
    const uint32_t numel = loop_int(&w, n);
    const uint32_t result = desc->result == ST_LOOP_BOOL ? (uint32_t)STATOR_BOOL : dtype;
    st_loop_ref args[3] = {0};
    const uint32_t out = loop_out(&w, "out", result, numel);
    const uint32_t i = st_loop_axis_add(&w.b, numel, ST_AXIS_VECTOR);
    st_loop_open(&w.b, i);
    for (uint32_t k = 0; k < desc->arity; k++) {
        const uint32_t of = code == ST_LOOP_select && k == 0 ? (uint32_t)STATOR_BOOL : dtype;
        const uint32_t in = loop_in(&w, &"x\0y\0z"[2 * k], of, numel);
        args[k] = st_loop_load(&w.b, in, loop_axis(&w, i), 0, 0);
    }
    st_loop_store(&w.b, out, loop_axis(&w, i),
                  st_loop_apply(&w.b, code, result, args[0], args[1], args[2]), 0);
    st_loop_close(&w.b);
    loop_must_verify(&w.kernel);
}

static void interpret(const st_kernel *kernel, void *const *buffers)
{
    stator_diag *err = NULL;
    const st_kernel_args args = {buffers, NULL, NULL};
    const stator_status status = loop_oracle_run(kernel, &args, 0, 1, &err);
    cr_assert_eq(status, STATOR_OK, "%s", st_diag_text(err));
}

/* Places between two f32, 0 for two NaNs. */
static int64_t ulps(float a, float b)
{
    int32_t p;
    int32_t q;
    memcpy(&p, &a, sizeof p);
    memcpy(&q, &b, sizeof q);
    if (isnan(a) || isnan(b)) {
        return isnan(a) && isnan(b) ? 0 : INT64_MAX;
    }
    const int64_t i = p < 0 ? -(int64_t)(p & INT32_MAX) : p;
    const int64_t j = q < 0 ? -(int64_t)(q & INT32_MAX) : q;
    return i > j ? i - j : j - i;
}

static int same(uint32_t dtype, uint32_t bound, const void *a, const void *b, uint32_t i)
{
    const double x = st_load_f64(dtype, a, i);
    const double y = st_load_f64(dtype, b, i);
    if (st_loop_class_of(dtype) != ST_LOOP_FLOATS) {
        return st_load_i64(dtype, a, i) == st_load_i64(dtype, b, i);
    }
    if (dtype == STATOR_F32 && bound) {
        return ulps((float)x, (float)y) <= (int64_t)bound;
    }
    if (bound && fabs(x - y) <= fabs(x) * 0x1p-51) {
        return 1;
    }
    return (x != x && y != y) || (x == y && signbit(x) == signbit(y));
}

/* Values on which the op has no meaning. */
static int is_excluded(uint32_t code, uint32_t dtype, const void *y, uint32_t i)
{
    const int64_t by =
        st_loop_class_of(dtype) & (ST_LOOP_INTS | ST_LOOP_UINTS) ? st_load_i64(dtype, y, i) : 0;
    const int is_shift = code == ST_LOOP_shift_left || code == ST_LOOP_shift_right;
    if (code == ST_LOOP_ldexp) {
        const double power = st_load_f64(dtype, y, i);
        return power != floor(power) || !(fabs(power) <= 250);
    }
    return (code == ST_LOOP_quot && (by == 0 || by == -1)) ||
           (is_shift && (by < 0 || by >= (int64_t)st_dtype_bits(dtype)));
}

static void compare_op(uint32_t code, uint32_t dtype)
{
    static uint64_t data[5][COUNT * COUNT];
    const st_loop_op_desc *desc = st_loop_desc(code);
    const uint32_t n = desc->arity == 1 ? COUNT : COUNT * COUNT;
    void *buffers[] = {data[3], data[0], data[1], data[2]};
    void *expanded[] = {data[4], data[0], data[1], data[2]};
    st_kernel out;
    loop_world_deinit(&w);
    loop_world_init(&w, desc->name);
    fill(code == ST_LOOP_select ? (uint32_t)STATOR_BOOL : dtype, data[0], 0, n);
    fill(dtype, data[1], COUNT, n);
    fill(dtype, data[2], 7, n);
    build(code, dtype, n);
    expand(NULL, &out);
    interpret(&w.kernel, buffers);
    interpret(&out, expanded);
    const uint32_t result = w.kernel.buffers.data[0].dtype;
    for (uint32_t i = 0; i < n; i++) {
        cr_assert(is_excluded(code, dtype, data[1], i) ||
                      same(result, desc->ulp, data[3], data[4], i),
                  "%s of %s at %u (%.9g, %.9g, %.9g): %.17g, expanded %.17g", desc->name,
                  st_dtype_name(dtype), i,
                  st_load_f64(code == ST_LOOP_select ? STATOR_BOOL : dtype, data[0], i),
                  st_load_f64(dtype, data[1], i), st_load_f64(dtype, data[2], i),
                  st_load_f64(result, data[3], i), st_load_f64(result, data[4], i));
    }
    st_kernel_deinit(&out);
}

/* Rows of which nothing may be left after expansion for no particular target. */
static void only_native_insts(const st_kernel *kernel)
{
    for (st_loop_ref ref = 1; ref < kernel->insts.count; ref++) {
        const st_loop_inst *op = st_loop_at(kernel, ref);
        const st_loop_op_desc *desc = st_loop_desc(op->code);
        if (desc == NULL || op->code == ST_LOOP_bitcast) {
            continue;
        }
        const uint32_t from = st_loop_at(kernel, op->args[desc->arity - 1u])->dtype;
        const int is_plain = (st_loop_class_of(op->dtype) & ST_LOOP_STORAGE) == 0;
        cr_expect(is_plain && ((desc->native & st_loop_class_of(from)) || desc->libm),
                  "%s of %s is left", desc->name, st_dtype_name(from));
    }
}

Test(loop_expand, each_op_in_each_dtype)
{
    for (uint32_t code = ST_LOOP_FIRST_SCALAR; code < ST_LOOP_CODE_COUNT; code++) {
        const st_loop_op_desc *desc = st_loop_desc(code);
        for (uint32_t dtype = 1; dtype < STATOR_DTYPE_COUNT; dtype++) {
            const uint32_t class_ = st_loop_class_of(dtype);
            if (!(desc->on & class_) || desc->result == ST_LOOP_ANY || desc->expand_bf16) {
                continue; /* test_loop_narrow measures those of 16 bits */
            }
            compare_op(code, dtype);
            st_kernel out;
            expand(NULL, &out);
            only_native_insts(&out);
            st_kernel_deinit(&out);
        }
    }
}

Test(loop_expand, each_program_parses)
{
    for (uint32_t code = ST_LOOP_FIRST_SCALAR; code < ST_LOOP_CODE_COUNT; code++) {
        const st_loop_op_desc *desc = st_loop_desc(code);
        const char *texts[6] = {desc->expand,     desc->expand_f32,  desc->expand_lookup,
                                desc->expand_few, desc->expand_bf16, desc->expand_f16};
        cr_expect(desc->native == desc->on || desc->libm || desc->expand, "%s", desc->name);
        for (uint32_t k = 0; k < 6; k++) {
            st_expansion program = {.mem = NULL};
            stator_diag *err = NULL;
            cr_expect(texts[k] == NULL ||
                          st_expansion_parse(&program, &w.mem, texts[k], &err) == STATOR_OK,
                      "%s: %s", desc->name, st_diag_text(err));
            st_expansion_deinit(&program);
        }
    }
}

/* ---- casts ---- */

static st_loop_ref find_cast(void)
{
    for (st_loop_ref ref = 1; ref < w.kernel.insts.count; ref++) {
        if (st_loop_at(&w.kernel, ref)->code == ST_LOOP_cast) {
            return ref;
        }
    }
    return 0; /* from a dtype to itself there is none */
}

static void compare_casts(uint32_t from, uint32_t to, const void *x, const void *y, const void *z,
                          uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        const double a = st_load_f64(to, y, k);
        const double b = st_load_f64(to, z, k);
        cr_expect((a != a && b != b) || (a == b && signbit(a) == signbit(b)),
                  "%s to %s of %.17g: %.17g, expanded %.17g", st_dtype_name(from),
                  st_dtype_name(to), st_load_f64(from, x, k), a, b);
    }
}

static void compare_cast(uint32_t from, uint32_t to)
{
    static const double near[] = {1,
                                  1.0009765625,
                                  1.00146484375,
                                  1.00048828125,
                                  1.0625,
                                  1.1875,
                                  1.125,
                                  65519.99,
                                  65520,
                                  448,
                                  464,
                                  464.0001,
                                  57344,
                                  61440,
                                  61439.99,
                                  0x1p-25,
                                  0x1.8p-25,
                                  0x1.000001p-25,
                                  0x1p-10,
                                  0x1p-9,
                                  1.5,
                                  0x1.01p0,
                                  0x1.010001p0,
                                  0x1.0100000001p0,
                                  0x1.03p0,
                                  0x1.02ffffffffp0,
                                  0x1.fffffep127,
                                  0x1.ff8p127,
                                  1e300,
                                  1e-300,
                                  INFINITY,
                                  -INFINITY,
                                  NAN,
                                  0.0,
                                  -0.0,
                                  -3.75};
    uint64_t data[3][COUNT] = {{0}};
    void *buffers[] = {data[0], data[1]};
    void *expanded[] = {data[0], data[2]};
    const uint32_t floats_ = ST_LOOP_FLOATS | ST_LOOP_STORAGE;
    const uint32_t n = sizeof near / sizeof near[0];
    st_kernel out;
    loop_world_deinit(&w);
    loop_world_init(&w, "cast");
    for (uint32_t i = 0; i < n; i++) {
        const int fits = (st_loop_class_of(to) & floats_) || fabs(near[i]) < 100;
        if (st_loop_class_of(from) & floats_) {
            st_store_f64(from, data[0], i, fits ? near[i] : 3);
        } else {
            st_store_i64(from, data[0], i, from == STATOR_BOOL ? i & 1 : whole(i));
        }
    }
    const uint32_t x = loop_in(&w, "x", from, loop_int(&w, n));
    const uint32_t y = loop_out(&w, "y", to, loop_int(&w, n));
    const uint32_t i = st_loop_axis_add(&w.b, loop_int(&w, n), 0);
    st_loop_open(&w.b, i);
    const st_loop_ref v = st_loop_load(&w.b, x, loop_axis(&w, i), 0, 0);
    st_loop_store(&w.b, y, loop_axis(&w, i), st_loop_cast(&w.b, to, v), 0);
    st_loop_close(&w.b);
    loop_must_verify(&w.kernel);
    for (uint32_t round = 0; round < 2; round++) {
        w.kernel.insts.data[find_cast()].imm.i = round; /* f8: saturate or not */
        expand(NULL, &out);
        only_native_insts(&out);
        interpret(&w.kernel, buffers);
        interpret(&out, expanded);
        compare_casts(from, to, data[0], data[1], data[2], n);
        st_kernel_deinit(&out);
    }
}

/* Every bit pattern of f16, bf16 and f8 to f32, against core/base/convert.h. */
Test(loop_expand, storage_types_are_widened_exactly)
{
    static const uint32_t types[] = {STATOR_BF16, STATOR_F16, STATOR_F8E4M3FN, STATOR_F8E5M2};
    static float out[65536];
    static uint16_t in[65536];
    for (uint32_t t = 0; t < 4; t++) {
        const uint32_t n = 1u << st_dtype_bits(types[t]);
        loop_world_deinit(&w);
        loop_world_init(&w, "widen");
        const uint32_t x = loop_in(&w, "x", types[t], loop_int(&w, n));
        const uint32_t y = loop_out(&w, "y", STATOR_F32, loop_int(&w, n));
        const uint32_t i = st_loop_axis_add(&w.b, loop_int(&w, n), 0);
        st_loop_open(&w.b, i);
        const st_loop_ref v = st_loop_load(&w.b, x, loop_axis(&w, i), 0, 0);
        st_loop_store(&w.b, y, loop_axis(&w, i), st_loop_cast(&w.b, STATOR_F32, v), 0);
        st_loop_close(&w.b);
        st_kernel expanded;
        expand(NULL, &expanded);
        for (uint32_t k = 0; k < n; k++) {
            st_store_i64(n == 256 ? STATOR_U8 : STATOR_U16, in, k, k);
        }
        interpret(&expanded, (void *[2]){in, out});
        for (uint32_t k = 0; k < n; k++) {
            const double a = st_load_f64(types[t], in, k);
            cr_assert((a != a && isnan(out[k])) ||
                          (a == (double)out[k] && !signbit(a) == !signbit(out[k])),
                      "%s %x: %g, expanded %g", st_dtype_name(types[t]), k, a, (double)out[k]);
        }
        st_kernel_deinit(&expanded);
    }
}

Test(loop_expand, casts)
{
    for (uint32_t from = 1; from < STATOR_DTYPE_COUNT; from++) {
        for (uint32_t to = 1; to < STATOR_DTYPE_COUNT; to++) {
            if (st_loop_class_of(from) && st_loop_class_of(to)) {
                compare_cast(from, to);
            }
        }
    }
}

/* ---- structure ---- */

Test(loop_expand, structure_around_expanded_insts_is_kept)
{
    /* a bound value, an accumulator and a masked store around expanded instructions */
    const uint32_t x = loop_in(&w, "x", STATOR_I32, loop_int(&w, 6));
    const uint32_t y = loop_out(&w, "y", STATOR_I32, loop_int(&w, 1));
    const uint32_t i = st_loop_axis_add(&w.b, loop_int(&w, 6), ST_AXIS_REDUCE);
    const st_loop_ref acc = st_loop_acc(&w.b, ST_ACC_SUM, STATOR_I32, 0);
    st_loop_open(&w.b, i);
    const st_loop_ref at = st_loop_index(&w.b, loop_axis(&w, i));
    const st_loop_ref back =
        loop_op(&w, "abs", loop_op(&w, "sub", at, st_loop_int(&w.b, STATOR_I64, 5), 0), 0, 0);
    const st_loop_ref v = st_loop_load(&w.b, x, st_loop_bind(&w.b, back, 0, 5), 0, 0);
    const st_loop_ref three = st_loop_int(&w.b, STATOR_I32, 3);
    const st_loop_ref r = loop_op(&w, "mod", v, three, 0);
    st_loop_update(&w.b, acc, r, 0, loop_op(&w, "ne", loop_op(&w, "sign", v, 0, 0), three, 0));
    st_loop_close(&w.b);
    st_loop_store(&w.b, y, loop_int(&w, 0),
                  loop_op(&w, "div", st_loop_read(&w.b, acc, STATOR_I32), three, 0), 0);
    st_kernel out;
    loop_must_verify(&w.kernel);
    expand(NULL, &out);
    int32_t in[6] = {1, -1, 5, 9, -4, 8};
    int32_t before = 0;
    int32_t after = 0;
    void *buffers[] = {in, &before};
    void *expanded[] = {in, &after};
    interpret(&w.kernel, buffers);
    interpret(&out, expanded);
    cr_expect_eq(before, (1 + 2 + 2 + 0 + 2 + 2) / 3);
    cr_expect_eq(after, before);
    st_kernel_deinit(&out);
}

Test(loop_expand, sign_expands_to_exact_text)
{
    build(ST_LOOP_sign, STATOR_I16, 8);
    st_kernel out;
    expand(NULL, &out);
    loop_must_print(&out, "kernel k(x: i16[8]) -> (out: i16[8])\n"
                          "  loop i0 < 8 vector 1\n"
                          "    v1 = load x[i0]\n"
                          "    v2 = const i16 0\n"
                          "    v3 = gt v1, v2\n"
                          "    v4 = const i16 1\n"
                          "    v5 = lt v1, v2\n"
                          "    v6 = const i16 -1\n"
                          "    v7 = select v5, v6, v1\n"
                          "    v8 = select v3, v4, v7\n"
                          "    store out[i0], v8\n");
    st_kernel_deinit(&out);
}

Test(loop_expand, insts_that_the_target_has_are_not_expanded)
{
    uint8_t spells[ST_LOOP_CODE_COUNT] = {0};
    spells[ST_LOOP_sign] = 1;
    build(ST_LOOP_sign, STATOR_I16, 8);
    st_kernel out;
    expand(spells, &out);
    loop_must_print(&out, "kernel k(x: i16[8]) -> (out: i16[8])\n"
                          "  loop i0 < 8 vector 1\n"
                          "    v1 = load x[i0]\n"
                          "    v2 = sign v1\n"
                          "    store out[i0], v2\n");
    st_kernel_deinit(&out);
}

/* ---- programs ---- */

static void refuses(const char *text, const char *part)
{
    st_expansion program;
    stator_diag *err = NULL;
    cr_expect_eq(st_expansion_parse(&program, &w.mem, text, &err), STATOR_INTERNAL, "%s", text);
    cr_expect(strstr(st_diag_text(err), part) != NULL, "'%s': %s", text, st_diag_text(err));
    st_expansion_deinit(&program);
    st_diag_release(err);
}

Test(loop_expand, wrong_programs_name_the_fault)
{
    refuses("", "an operand expected");
    refuses("x +", "an operand expected");
    refuses("(x", "')' expected");
    refuses("x y", "the end expected");
    refuses("t", "byte 0: a name that nothing was given to");
    refuses("t = 1; { u = t; u } + u", "a name that nothing was given to");
    refuses("x = 1; x", "an operand is given a value");
    refuses("frobnicate(x)", "no such function");
    refuses("bitcast(x)", "no such function");
    refuses("min(x)", "',' expected");
    refuses("t = 1 x", "';' expected");
    refuses("99999999999999999999999", "too many digits");
    refuses("{ x", "'}' expected");
    char deep[400];
    memset(deep, '(', sizeof deep);
    deep[sizeof deep - 1] = 0;
    refuses(deep, "nested too deeply");
    memset(deep, '-', sizeof deep - 1);
    refuses(deep, "nested too deeply");
}

static double parsed_number(const char *text)
{
    st_expansion program;
    cr_assert_eq(st_expansion_parse(&program, &w.mem, text, NULL), STATOR_OK, "%s", text);
    const double value = program.nodes.data[1].number;
    st_expansion_deinit(&program);
    return value;
}

Test(loop_expand, literals_keep_their_bits)
{
    cr_expect(parsed_number("0.1") == 0.1);
    cr_expect(parsed_number("88.7228394") == 88.7228394);
    cr_expect(parsed_number("0x1.62e43p-1") == 0x1.62e43p-1);
    cr_expect(parsed_number("0x7f") == 127);
    cr_expect(parsed_number("-2.5") == -2.5);
    cr_expect(signbit(parsed_number("-0.0")));
    cr_expect(parsed_number("inf") == INFINITY);
}

Test(loop_expand, every_allocation_may_fail)
{
    build(ST_LOOP_mod, STATOR_I32, 8);
    for (uint64_t at = 1;; at++) {
        st_kernel out;
        stator_diag *err = NULL;
        w.mem.fail_at = w.mem.requests + at;
        const stator_status status = st_loop_expand(&w.kernel, NULL, &out, &err);
        w.mem.fail_at = 0;
        if (status == STATOR_OK) {
            st_kernel_deinit(&out);
            cr_assert(at > 5);
            break;
        }
        cr_assert_eq(status, STATOR_RESOURCE_EXHAUSTED);
        st_diag_release(err);
    }
}
