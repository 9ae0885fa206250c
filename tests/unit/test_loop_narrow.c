/* Short programs for functions of 16-bit values: each one's error over all such values is below
 * 0.05 of their last place, and st_loop_narrow_functions puts them where a value comes from and
 * goes to 16 bits, and nowhere else. */
#include "codegen/loopir/loop_expand.h"
#include "codegen/loopir/loop_narrow.h"
#include "core/base/diag.h"
#include "support_loop.h"
#include "tests/oracle/loop_oracle.h"
#include "tests/oracle/scalar_oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define VALUES 65536
#define BOUND 0.05

static loop_world w;

static void begin(void)
{
    loop_world_init(&w, "k");
}

static void end(void)
{
    loop_world_deinit(&w);
}

TestSuite(loop_narrow, .init = begin, .fini = end);

/* ---- errors ---- */

/* Every value of the type; where its bits are those of a signalling NaN, a quiet one. */
static void all_values(uint32_t dtype, float *out)
{
    for (uint32_t k = 0; k < VALUES; k++) {
        const uint32_t bits = k << 16;
        if (dtype == STATOR_BF16) {
            memcpy(&out[k], &bits, sizeof bits);
            continue;
        }
        const int exponent = (int)(k >> 10 & 31u);
        const float fraction = (float)(k & 1023u);
        const float size = exponent == 0    ? ldexpf(fraction, -24)
                           : exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                                            : ldexpf(1024 + fraction, exponent - 25);
        out[k] = k >> 15 ? -size : size;
    }
}

/* |got - exact| in places of the 16-bit type at `exact`. */
static double error_ulp(uint32_t dtype, float got, double exact)
{
    const int digits = dtype == STATOR_BF16 ? 8 : 11;
    const int least = dtype == STATOR_BF16 ? -125 : -13;
    int exponent = least;
    if (isnan(exact) || isinf(exact)) {
        return (isnan(exact) && isnan(got)) || exact == (double)got ? 0 : INFINITY;
    }
    if (exact == 0 && !signbit(got) != !signbit(exact)) {
        return INFINITY;
    }
    if (exact != 0) {
        (void)frexp(exact, &exponent);
    }
    return fabs((double)got - exact) / ldexp(1, (exponent < least ? least : exponent) - digits);
}

static void measure(uint32_t code, uint32_t dtype)
{
    static float x[VALUES];
    static float y[VALUES];
    void *buffers[] = {x, y};
    const st_kernel_args args = {buffers, NULL, NULL};
    const st_loop_inst wide = {.code = (uint16_t)code, .dtype = STATOR_F64};
    stator_diag *err = NULL;
    st_kernel out;
    const uint32_t in = loop_in(&w, "x", STATOR_F32, loop_int(&w, VALUES));
    const uint32_t result = loop_out(&w, "y", STATOR_F32, loop_int(&w, VALUES));
    const uint32_t i = st_loop_axis_add(&w.b, loop_int(&w, VALUES), 0);
    st_loop_open(&w.b, i);
    const st_loop_ref v = st_loop_load(&w.b, in, loop_axis(&w, i), 0, 0);
    const st_loop_ref of = st_loop_apply(&w.b, code, STATOR_F32, v, 0, 0);
    w.kernel.insts.data[of].imm.i = dtype;
    st_loop_store(&w.b, result, loop_axis(&w, i), of, 0);
    st_loop_close(&w.b);
    loop_must_verify(&w.kernel);
    cr_assert_eq(st_loop_expand(&w.kernel, NULL, &out, &err), STATOR_OK, "%s", st_diag_text(err));
    all_values(dtype, x);
    cr_assert_eq(loop_oracle_run(&out, &args, 0, 1, NULL), STATOR_OK);
    double worst = 0;
    for (uint32_t k = 0; k < VALUES; k++) {
        const st_loop_cell operand[3] = {{.f64 = (double)x[k]}, {.i = 0}, {.i = 0}};
        const double exact = st_loop_scalar(&wide, STATOR_F64, operand).f64;
        const double error = error_ulp(dtype, y[k], exact);
        worst = error > worst ? error : worst;
        cr_expect(error < BOUND, "%s of %a for %s is %a, off by %g of %a", st_loop_desc(code)->name,
                  (double)x[k], st_dtype_name(dtype), (double)y[k], error, exact);
    }
    (void)fprintf(stderr, "%s for %s: %.4f ulp\n", st_loop_desc(code)->name, st_dtype_name(dtype),
                  worst);
    st_kernel_deinit(&out);
}

Test(loop_narrow, errors_of_short_programs_do_not_show)
{
    uint32_t n = 0;
    for (uint32_t code = ST_LOOP_FIRST_SCALAR; code < ST_LOOP_CODE_COUNT; code++) {
        const st_loop_op_desc *desc = st_loop_desc(code);
        cr_expect_eq(desc->expand_bf16 == NULL, desc->expand_f16 == NULL, "%s", desc->name);
        for (uint32_t k = 0; k < 2 && desc->expand_bf16; k++, n++) {
            end();
            begin();
            measure(code, k ? STATOR_F16 : STATOR_BF16);
        }
    }
    cr_expect_geq(n, 2);
}

/* ---- where they stand ---- */

static st_loop_ref number(double x)
{
    return st_loop_float(&w.b, STATOR_F32, x);
}

/* y = gelu of x, as it is lowered: the value in f32. */
static st_loop_ref gelu(uint32_t x, uint32_t at)
{
    const st_loop_ref t = st_loop_cast(&w.b, STATOR_F32, st_loop_load(&w.b, x, at, 0, 0));
    const st_loop_ref half = loop_op(&w, "mul", number(0.5), t, 0);
    const st_loop_ref scaled = loop_op(&w, "mul", t, number(0.70710678118654752), 0);
    const st_loop_ref sum = loop_op(&w, "add", number(1), loop_op(&w, "erf", scaled, 0, 0), 0);
    return loop_op(&w, "mul", half, sum, 0);
}

/* How many instructions of the code stand in blocks, once the pass has run. */
static uint32_t left(uint32_t code)
{
    uint32_t n = 0;
    loop_must_verify(&w.kernel);
    for (st_loop_ref ref = 1; ref < w.kernel.insts.count; ref++) {
        n += st_loop_at(&w.kernel, ref)->code == code;
    }
    return n;
}

/* A GELU of a value of one type, rounded to another. */
static void narrow(uint32_t from, uint32_t to, bool is_kept_wide)
{
    const uint32_t x = loop_in(&w, "x", from, loop_int(&w, 8));
    const uint32_t y = loop_out(&w, "y", to, loop_int(&w, 8));
    const uint32_t z = loop_out(&w, "z", STATOR_F32, loop_int(&w, 8));
    const uint32_t i = st_loop_axis_add(&w.b, loop_int(&w, 8), 0);
    st_loop_open(&w.b, i);
    const st_loop_ref v = gelu(x, loop_axis(&w, i));
    st_loop_store(&w.b, y, loop_axis(&w, i), st_loop_cast(&w.b, to, v), 0);
    if (is_kept_wide) {
        st_loop_store(&w.b, z, loop_axis(&w, i), v, 0);
    }
    st_loop_close(&w.b);
    loop_must_verify(&w.kernel);
    st_loop_narrow_functions(&w.kernel);
}

Test(loop_narrow, a_gelu_of_16_bits_is_one_instruction)
{
    narrow(STATOR_BF16, STATOR_BF16, false);
    cr_expect_eq(left(ST_LOOP_gelu), 1);
    cr_expect_eq(left(ST_LOOP_erf) + left(ST_LOOP_mul) + left(ST_LOOP_add), 0);
}

Test(loop_narrow, a_gelu_that_is_also_used_wide_stays)
{
    narrow(STATOR_F16, STATOR_F16, true);
    cr_expect_eq(left(ST_LOOP_gelu), 0);
    cr_expect_eq(left(ST_LOOP_erf), 1);
}

Test(loop_narrow, a_gelu_from_another_type_stays)
{
    narrow(STATOR_F16, STATOR_BF16, false);
    cr_expect_eq(left(ST_LOOP_gelu), 0);
}
