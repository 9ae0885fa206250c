/* The f32 functions of codegen/loopir/loop_ops.def against libm in f64: each row with a bound is
 * expanded, and its error is measured in units of the last place of the exact value.
 *
 * In the suite: a stride over the bit patterns through the oracle, and a finer one through
 * compiled C (codegen/loopir/loop_c.h). STATOR_LOOP_MATH=all measures all 2^32 inputs of each row
 * (minutes), STATOR_LOOP_MATH=all:exp of one: to be done whenever a coefficient changes. */
#include "codegen/loopir/loop_c.h"
#include "codegen/loopir/loop_expand.h"
#include "core/base/diag.h"
#include "support_cc.h"
#include "support_loop.h"
#include "tests/oracle/loop_oracle.h"
#include "tests/oracle/scalar_oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 4096
#define ST_TEXT_OF_(x) #x
#define ST_TEXT_OF(x) ST_TEXT_OF_(x)
#define ALL_INPUTS (UINT64_C(1) << 32)

/* Worst error found so far. */
typedef struct worst {
    double ulp;
    float at, got;
    double exact;
} worst;

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The row's function in f64. */
static double exact_of(uint32_t code, float x)
{
    const st_loop_inst op = {.code = (uint16_t)code, .dtype = STATOR_F64};
    const st_loop_cell args[3] = {{.f64 = (double)x}, {.i = 0}, {.i = 0}};
    return st_loop_scalar(&op, STATOR_F64, args).f64;
}

/* |got - exact| in places of f32 at `exact`; past the greatest f32 lies one more, infinity. */
static double error_ulp(float got, double exact)
{
    const double limit = 0x1p128;
    if (isnan(exact) || isnan(got)) {
        return isnan(exact) && isnan(got) ? 0 : INFINITY;
    }
    const double y = isinf(got) ? copysign(limit, (double)got) : (double)got;
    const double e = fabs(exact) > limit ? copysign(limit, exact) : exact;
    int exponent = -125;
    if (e != 0) {
        (void)frexp(fabs(e) == limit ? nextafter(limit, 0) : e, &exponent);
    }
    if (exact == 0 && got == 0 && !signbit(exact) != !signbit(got)) {
        return INFINITY; /* functions keep the sign of a zero */
    }
    return fabs(y - e) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

static void note(worst *w, uint32_t code, float x, float got)
{
    const double exact = exact_of(code, x);
    if ((float)exact == got && got != 0 && w->ulp >= 0.5) {
        return; /* rounded right: less than what is there */
    }
    const double ulp = error_ulp(got, exact);
    if (!(ulp <= w->ulp)) {
        *w = (worst){ulp, x, got, exact};
    }
}

/* ---- kernels ---- */

/* Its row's program, or the one for targets with tables of so many entries. */
typedef struct function {
    uint32_t code;
    uint32_t entries; /* 0: without */
} function;

/* The next function of one f32 with a promised bound; code 0 begins, and ends. */
static function next_measured(function f)
{
    const st_loop_op_desc *desc = st_loop_desc(f.code);
    if (desc && desc->expand_few && f.entries == 0) {
        return (function){f.code, ST_MATH_FEW};
    }
    if (desc && desc->expand_lookup && f.entries != ST_MATH_ENTRIES) {
        return (function){f.code, ST_MATH_ENTRIES};
    }
    uint32_t code = f.code ? f.code + 1u : (uint32_t)ST_LOOP_FIRST_SCALAR;
    while (code < ST_LOOP_CODE_COUNT &&
           (st_loop_desc(code)->ulp == 0 || st_loop_desc(code)->arity != 1)) {
        code++;
    }
    return (function){code < ST_LOOP_CODE_COUNT ? code : 0, 0};
}

/* out[i] = op(x[i]) over a block, expanded. */
static void build(loop_world *w, function f, st_kernel *out)
{
    const uint8_t tables[ST_LOOP_CODE_COUNT] = {[ST_LOOP_lookup] = (uint8_t)f.entries};
    const uint32_t code = f.code;
    stator_diag *err = NULL;
    loop_world_init(w, st_loop_desc(code)->name);
    const uint32_t x = loop_in(w, "x", STATOR_F32, loop_int(w, BLOCK));
    const uint32_t y = loop_out(w, "y", STATOR_F32, loop_int(w, BLOCK));
    const uint32_t i = st_loop_axis_add(&w->b, loop_int(w, BLOCK), ST_AXIS_VECTOR);
    st_loop_open(&w->b, i);
    const st_loop_ref v = st_loop_load(&w->b, x, loop_axis(w, i), 0, 0);
    st_loop_store(&w->b, y, loop_axis(w, i), st_loop_apply(&w->b, code, STATOR_F32, v, 0, 0), 0);
    st_loop_close(&w->b);
    loop_must_verify(&w->kernel);
    cr_assert_eq(st_loop_expand(&w->kernel, f.entries ? tables : NULL, out, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    loop_must_verify(out);
}

static void report(function f, const worst *w, const char *how)
{
    const st_loop_op_desc *desc = st_loop_desc(f.code);
    (void)fprintf(stderr, "%-8s max %.3f ulp at %a (%.9g), got %.9g, exact %.17g; bound %u, %s",
                  desc->name, w->ulp, (double)w->at, (double)w->at, (double)w->got, w->exact,
                  desc->ulp, how);
    if (f.entries) {
        (void)fprintf(stderr, ", tables of %u", f.entries);
    }
    (void)fputc('\n', stderr);
    cr_expect(w->ulp <= (double)desc->ulp, "%s is off by %g ulp at %a, its row says %u", desc->name,
              w->ulp, (double)w->at, desc->ulp);
}

/* ---- through the oracle ---- */

Test(loop_math, errors_hold_when_interpreted_on_a_stride)
{
    static float x[BLOCK];
    static float y[BLOCK];
    void *buffers[] = {x, y};
    const st_kernel_args args = {buffers, NULL, NULL};
    for (function f = next_measured((function){0, 0}); f.code; f = next_measured(f)) {
        loop_world w;
        st_kernel out;
        worst most = {.ulp = 0};
        build(&w, f, &out);
        const uint64_t stride = 131101;
        for (uint64_t bits = 0; bits < ALL_INPUTS; bits += stride * BLOCK) {
            for (uint64_t k = 0; k < BLOCK; k++) {
                x[k] = float_of((uint32_t)(bits + k * stride));
            }
            cr_assert_eq(loop_oracle_run(&out, &args, 0, 1, NULL), STATOR_OK);
            for (uint32_t k = 0; k < BLOCK; k++) {
                note(&most, f.code, x[k], y[k]);
            }
        }
        report(f, &most, "interpreted on a stride");
        st_kernel_deinit(&out);
        loop_world_deinit(&w);
    }
}

/* ---- through C ---- */

/* The same error, fast and only nearly: by a vectorised libm and without the corners, where it is
 * NaN or infinite. It tells which inputs are worth a look; the rest is as far off as it says, less
 * than FILTER_SLACK. */
#define FILTER_SLACK 0.001
static const char filter_text[] =
    "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n"
    "void filter(const float *restrict x, const float *restrict y, double *restrict error)\n"
    "{\n"
    "    for (int i = 0; i < " ST_TEXT_OF(
        BLOCK) "; i++) {\n"
               "        const double a = x[i], r = F(a);\n"
               "        uint64_t bits;\n"
               "        memcpy(&bits, &r, sizeof bits);\n"
               "        bits &= UINT64_C(0x7ff0000000000000);\n"
               "        double unit;\n"
               "        memcpy(&unit, &bits, sizeof unit);\n"
               "        unit = unit < 0x1p-126 ? 0x1p-149 : unit * 0x1p-23;\n"
               "        error[i] = fabs(y[i] - r) / unit;\n"
               "    }\n"
               "}\n";

typedef void (*filter_fn)(const float *x, const float *y, double *error);

static filter_fn build_filter(uint32_t code, cc_module *module)
{
    /* gcc's start files of -ffast-math would flush subnormals to zero in the whole process. */
    static const char *const flags[] = {"-O3", "-march=native", "-ffast-math", "-nostartfiles",
                                        NULL};
    char text[sizeof filter_text + 128];
    const char *name = st_loop_desc(code)->name;
    const char *body = code == ST_LOOP_rsqrt      ? "(1 / sqrt(a))"
                       : code == ST_LOOP_erf_fast ? "erf(a)"
                       : code == ST_LOOP_sigmoid  ? "((a < 0 ? exp(a) : 1) / (1 + exp(-fabs(a))))"
                                                  : NULL;
    filter_fn fn = NULL;
    (void)snprintf(text, sizeof text, "#define F(a) %s%s\n%s", body ? body : name,
                   body ? "" : "(a)", filter_text);
    cc_module_init(module, text, flags);
    void *symbol = cc_module_symbol(module, "filter");
    memcpy(&fn, &symbol, sizeof fn);
    return fn;
}

/* With a filter, for all inputs: libm itself is asked where it matters alone. */
static void measure(uint32_t code, st_kernel_fn fn, filter_fn filter, uint64_t stride, worst *out)
{
    const int64_t n_blocks = (int64_t)((ALL_INPUTS / stride + BLOCK - 1) / BLOCK);
    worst most = {.ulp = 0};
#pragma omp parallel
    {
        worst mine = {.ulp = 0};
        float x[BLOCK];
        float y[BLOCK];
        double error[BLOCK];
        void *buffers[] = {x, y};
        const st_kernel_args args = {buffers, NULL, NULL};
#pragma omp for schedule(dynamic, 16)
        for (int64_t b = 0; b < n_blocks; b++) {
            for (uint64_t k = 0; k < BLOCK; k++) {
                x[k] = float_of((uint32_t)(((uint64_t)b * BLOCK + k) * stride));
            }
            fn(&args, 0, 1);
            if (filter) {
                filter(x, y, error);
            }
            for (uint32_t k = 0; k < BLOCK; k++) {
                if (filter == NULL || !(error[k] + FILTER_SLACK < mine.ulp)) {
                    note(&mine, code, x[k], y[k]);
                }
            }
        }
#pragma omp critical
        if (!(mine.ulp <= most.ulp)) {
            most = mine;
        }
    }
    *out = most;
}

/* The bits around which rows change their way. */
static void around(uint32_t code, st_kernel_fn fn, worst *most)
{
    static const float points[] = {
        0,       0x1p-126f, 0x1p-24f, 0x1p-12f, 0.5f,  0.7071068f,  1,           1.41421354f,
        2,       4,         9,        16.6f,    17.3f, 88.7228394f, 87.3365479f, 103.97208f,
        104,     126,       128,      149,      150,   0x1p17f,     0x1p18f,     0x1.fffffep127f,
        INFINITY};
    float x[BLOCK];
    float y[BLOCK];
    void *buffers[] = {x, y};
    const st_kernel_args args = {buffers, NULL, NULL};
    for (size_t p = 0; p < sizeof points / sizeof points[0]; p++) {
        uint32_t bits;
        memcpy(&bits, &points[p], sizeof bits);
        for (uint32_t k = 0; k < BLOCK; k++) {
            x[k] = float_of((bits + k / 2u - BLOCK / 4u) ^ (k & 1u ? 0x80000000u : 0u));
        }
        fn(&args, 0, 1);
        for (uint32_t k = 0; k < BLOCK; k++) {
            note(most, code, x[k], y[k]);
        }
    }
}

static void measure_compiled(function f, uint64_t stride)
{
    static const char *const flags[] = {"-O3", "-march=native", NULL};
    loop_world w;
    st_kernel out;
    st_str text;
    cc_module module;
    cc_module filter_module;
    st_kernel_fn fn = NULL;
    filter_fn filter = stride == 1 ? build_filter(f.code, &filter_module) : NULL;
    worst most;
    build(&w, f, &out);
    st_str_init(&text, &w.mem);
    st_loop_c_head(&text);
    st_loop_c_print(&out, "k", &text);
    cr_assert(st_str_ok(&text));
    cc_module_init(&module, text.data, flags);
    void *symbol = cc_module_symbol(&module, "k");
    memcpy(&fn, &symbol, sizeof fn);
    measure(f.code, fn, filter, stride, &most);
    around(f.code, fn, &most);
    report(f, &most, stride == 1 ? "all inputs" : "compiled on a stride");
    if (filter) {
        cc_module_deinit(&filter_module);
    }
    cc_module_deinit(&module);
    st_str_deinit(&text);
    st_kernel_deinit(&out);
    loop_world_deinit(&w);
}

Test(loop_math, errors_hold_when_compiled)
{
    const char *which = getenv("STATOR_LOOP_MATH");
    const int all = which != NULL && strncmp(which, "all", 3) == 0;
    const char *one = all && which[3] == ':' ? which + 4 : NULL;
    if (!cc_is_there()) {
        cr_skip_test("no C compiler named cc");
    }
    for (function f = next_measured((function){0, 0}); f.code; f = next_measured(f)) {
        if (one == NULL || strcmp(one, st_loop_desc(f.code)->name) == 0) {
            measure_compiled(f, all ? 1 : 4099);
        }
    }
}
