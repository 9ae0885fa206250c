/* The f64 functions of the preludes of GPUs (codegen/gpu/prelude/gpu_prelude_math.h): their errors
 * against libm in long double, special values, and that their bits do not depend on the compiler.
 *
 * The text is what devices get, behind a beginning for the host; it is compiled as C without and
 * with optimisation, and as C++11. STATOR_GPU_MATH=n takes n samples of each function. */
#include "support_cc.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 4096
#define SAMPLES 200000
#define TEXT_BYTES 16384

/* What gpu_prelude.h defines before the functions. */
static const char beginning[] =
    "typedef int st_i32;\n"
    "typedef unsigned st_u32;\n"
    "typedef long long st_i64;\n"
    "typedef unsigned long long st_u64;\n"
    "#ifdef __cplusplus\n"
    "typedef bool st_bool;\n"
    "#define EXPORT extern \"C\" __attribute__((visibility(\"default\")))\n"
    "#else\n"
    "typedef _Bool st_bool;\n"
    "#define EXPORT\n"
    "#endif\n"
    "#define ST_DEVICE static\n"
    "#define ST_DEVICE_CALL static\n"
    "#define st_fma_f64 __builtin_fma\n"
    "#define st_sqrt_f64 __builtin_sqrt\n"
    "#define st_floor_f64 __builtin_floor\n"
    "#define st_rint_f64 __builtin_rint\n"
    "#define st_trunc_f64 __builtin_trunc\n"
    "#define st_abs_f64 __builtin_fabs\n"
    "#define st_math_device_lgamma __builtin_lgamma\n"
    "static st_u64 st_bits_of_f64(double x)\n"
    "{\n"
    "    st_u64 bits;\n"
    "    __builtin_memcpy(&bits, &x, 8);\n"
    "    return bits;\n"
    "}\n"
    "static double st_f64_of_bits(st_u64 bits)\n"
    "{\n"
    "    double x;\n"
    "    __builtin_memcpy(&x, &bits, 8);\n"
    "    return x;\n"
    "}\n"
    "#include \"" ST_TEST_SOURCE "/codegen/gpu/prelude/gpu_prelude_polynomials.h\"\n"
    "#include \"" ST_TEST_SOURCE "/codegen/gpu/prelude/gpu_prelude_math.h\"\n";

/* ---- the functions ---- */

typedef struct function {
    const char *name;
    long double (*exact)(long double x);
    long double (*exact_of_two)(long double x, long double y);
    double ulp;         /* bound of the error in units of the last place of the exact value */
    double of_negative; /* least magnitude of which places are counted where x < 0 */
} function;

static const function functions[] = {
    {"exp", expl, NULL, 0.8, 0},     {"exp2", exp2l, NULL, 0.7, 0},
    {"expm1", expm1l, NULL, 0.9, 0}, {"log", logl, NULL, 0.51, 0},
    {"log2", log2l, NULL, 0.51, 0},  {"log1p", log1pl, NULL, 0.51, 0},
    {"pow", NULL, powl, 0.8, 0},     {"sin", sinl, NULL, 0.8, 0},
    {"cos", cosl, NULL, 0.8, 0},     {"tan", tanl, NULL, 0.9, 0},
    {"asin", asinl, NULL, 0.8, 0},   {"acos", acosl, NULL, 0.8, 0},
    {"atan", atanl, NULL, 0.8, 0},   {"atan2", NULL, atan2l, 0.8, 0},
    {"sinh", sinhl, NULL, 0.9, 0},   {"cosh", coshl, NULL, 0.9, 0},
    {"tanh", tanhl, NULL, 0.9, 0},   {"asinh", asinhl, NULL, 0.8, 0},
    {"acosh", acoshl, NULL, 0.8, 0}, {"atanh", atanhl, NULL, 0.8, 0},
    {"erf", erfl, NULL, 0.95, 0},    {"lgamma", lgammal, NULL, 4, 1},
};

#define FUNCTIONS (sizeof functions / sizeof functions[0])

/* ---- the text, compiled ---- */

typedef void (*run_fn)(int which, const double *x, const double *y, double *out, int n);

static void build(cc_module *m, const char *const *flags, run_fn *out)
{
    static char text[TEXT_BYTES];
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "%s\nEXPORT void run(int which, const double *x, const double *y, "
                                 "double *out, int n)\n{\n    int i;\n    switch (which) {\n",
                                 beginning);
    for (size_t f = 0; f < FUNCTIONS; f++) {
        at += (size_t)snprintf(
            text + at, sizeof text - at,
            "    case %zu:\n        for (i = 0; i < n; i++) {\n"
            "            out[i] = st_%s_f64(x[i]%s);\n        }\n        return;\n",
            f, functions[f].name, functions[f].exact ? "" : ", y[i]");
    }
    at += (size_t)snprintf(text + at, sizeof text - at, "    }\n}\n");
    cr_assert(at < sizeof text);
    cc_module_init(m, text, flags);
    void *symbol = cc_module_symbol(m, "run");
    memcpy(out, &symbol, sizeof symbol);
}

/* ---- samples ---- */

static const double specials[] = {0.0,
                                  1.0,
                                  2.0,
                                  3.0,
                                  0.5,
                                  0.25,
                                  1.5,
                                  INFINITY,
                                  NAN,
                                  0x1p-1074,
                                  0x1p-1022,
                                  0x1.fffffffffffffp-1023,
                                  0x1.fffffffffffffp1023,
                                  0x1.fffffffffffffp-1,
                                  0x1.0000000000001p0,
                                  0x1p-26,
                                  0x1p-27,
                                  0x1p-28,
                                  0x1p-54,
                                  1e-300,
                                  1e300,
                                  1e22,
                                  0x1p53,
                                  0x1.fffffffffffffp52,
                                  0x1.8p52,
                                  709.78,
                                  709.79,
                                  745.13,
                                  745.14,
                                  1022,
                                  1023,
                                  1024,
                                  1074,
                                  1075,
                                  0x1.921fb54442d18p0,
                                  0x1.921fb54442d18p1};

#define SPECIALS (2 * sizeof specials / sizeof specials[0])

static double special(uint64_t i)
{
    const double x = specials[i / 2 % (SPECIALS / 2)];
    return i % 2 ? -x : x;
}

static uint64_t next_bits(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* In -1..1. */
static double next_unit(uint64_t *state)
{
    return (double)(next_bits(state) >> 11) * 0x1p-52 - 1;
}

/* Any bits, and what is dense where functions bend. */
static double next_sample(uint64_t *state)
{
    const uint64_t bits = next_bits(state);
    const int exponent = (int)(bits >> 32 & 63);
    double x;
    switch (bits & 7) {
    case 0:
        memcpy(&x, &(uint64_t){next_bits(state)}, sizeof x);
        return x;
    case 1:
        return next_unit(state);
    case 2:
        return 10 * next_unit(state);
    case 3:
        return 800 * next_unit(state);
    case 4:
        return ldexp(next_unit(state), -exponent);
    case 5:
        return 1 + ldexp(next_unit(state), -exponent);
    case 6:
        return 3 * fabs(next_unit(state));
    default:
        return ldexp(next_unit(state), exponent - 8);
    }
}

static void fill(size_t which, uint64_t first, uint64_t *state, double *x, double *y)
{
    const bool has_two = functions[which].exact == NULL;
    for (uint64_t k = 0; k < BLOCK; k++) {
        const uint64_t i = first + k;
        const bool is_special = i < (has_two ? SPECIALS * SPECIALS : SPECIALS);
        x[k] = is_special ? special(i) : next_sample(state);
        y[k] = is_special ? special(i / SPECIALS) : next_sample(state);
    }
}

/* ---- errors ---- */

/* |got - exact| in places of f64 at `exact`; past the greatest f64 lies one more, infinity. */
static double error_ulp(double got, long double exact, double least)
{
    const double nearest = (double)exact;
    int exponent = 0;
    if (isnan(nearest) || isnan(got)) {
        return isnan(nearest) && isnan(got) ? 0 : INFINITY;
    }
    if (isinf(nearest) || isinf(got) || nearest == 0) {
        const bool is_same = got == nearest && signbit(got) == signbit(nearest);
        return is_same ? 0 : fabsl(exact) < 0x1p-1074L && fabs(got) <= 0x1p-1074 ? 1 : INFINITY;
    }
    (void)frexpl(fabsl(exact) < least ? least : exact, &exponent);
    return (double)(fabsl(got - exact) / ldexpl(1, (exponent < -1021 ? -1021 : exponent) - 53));
}

static uint64_t sample_count(void)
{
    const char *n = getenv("STATOR_GPU_MATH");
    return n ? strtoull(n, NULL, 10) : SAMPLES;
}

static void measure(size_t which, run_fn run)
{
    const function *f = &functions[which];
    double x[BLOCK];
    double y[BLOCK];
    double out[BLOCK];
    uint64_t state = which;
    double worst = 0;
    size_t at = 0;
    for (uint64_t first = 0; first < sample_count(); first += BLOCK) {
        fill(which, first, &state, x, y);
        run((int)which, x, y, out, BLOCK);
        double most = 0;
        for (size_t k = 0; k < BLOCK; k++) {
            const double error =
                error_ulp(out[k], f->exact ? f->exact(x[k]) : f->exact_of_two(x[k], y[k]),
                          x[k] < 0 ? f->of_negative : 0);
            if (!(error <= most)) {
                most = error;
                at = k;
            }
        }
        cr_expect(most <= f->ulp, "%s(%a, %a) = %a is off by %g ulp, the bound is %g", f->name,
                  x[at], y[at], out[at], most, f->ulp);
        worst = most > worst ? most : worst;
    }
    (void)fprintf(stderr, "%-8s max %.3f ulp; bound %g\n", f->name, worst, f->ulp);
}

static const char *const as_c[] = {"-O2", NULL};
static const char *const as_plain_c[] = {"-O0", NULL};
static const char *const as_cxx[] = {"-O2", "-x", "c++", "-std=c++11", NULL};

Test(gpu_math, errors_are_within_their_bounds)
{
    cc_module module;
    run_fn run = NULL;
    if (!cc_is_there()) {
        cr_skip_test("no C compiler named cc");
    }
    build(&module, as_c, &run);
    for (size_t f = 0; f < FUNCTIONS; f++) {
        measure(f, run);
    }
    cc_module_deinit(&module);
}

Test(gpu_math, bits_are_those_of_any_compiler)
{
    const char *const *const ways[] = {as_plain_c, as_cxx};
    cc_module module;
    run_fn run = NULL;
    if (!cc_is_there()) {
        cr_skip_test("no C compiler named cc");
    }
    build(&module, as_c, &run);
    for (size_t way = 0; way < 2; way++) {
        cc_module other;
        run_fn run_other = NULL;
        build(&other, ways[way], &run_other);
        for (size_t f = 0; f < FUNCTIONS; f++) {
            double x[BLOCK];
            double y[BLOCK];
            double out[2][BLOCK];
            uint64_t state = f;
            for (uint64_t first = 0; first < SAMPLES / 8; first += BLOCK) {
                fill(f, first, &state, x, y);
                run((int)f, x, y, out[0], BLOCK);
                run_other((int)f, x, y, out[1], BLOCK);
                for (size_t k = 0; k < BLOCK; k++) {
                    cr_expect((isnan(out[0][k]) && isnan(out[1][k])) ||
                                  memcmp(&out[0][k], &out[1][k], sizeof(double)) == 0,
                              "%s(%a, %a) is %a and %a", functions[f].name, x[k], y[k], out[0][k],
                              out[1][k]);
                }
            }
        }
        cc_module_deinit(&other);
    }
    cc_module_deinit(&module);
}
