/* Kernels printed as C and compiled do what the oracle does: each op in each dtype, and
 * kernels with every structural instruction. */
#include "codegen/loopir/loop_c.h"
#include "codegen/loopir/loop_expand.h"
#include "core/base/check.h"
#include "core/base/convert.h"
#include "core/base/diag.h"
#include "support_cc.h"
#include "support_loop.h"
#include "tests/oracle/loop_oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define N 64

static loop_world w;

static void begin(void)
{
    loop_world_init(&w, "k");
}

static void end(void)
{
    loop_world_deinit(&w);
}

TestSuite(loop_c, .init = begin, .fini = end);

/* Prints the expanded kernel; the caller keeps the text. */
static void print_c(const char *symbol, st_str *text)
{
    stator_diag *err = NULL;
    st_kernel out;
    loop_must_verify(&w.kernel);
    cr_assert_eq(st_loop_expand(&w.kernel, NULL, &out, &err), STATOR_OK, "%s", st_diag_text(err));
    loop_must_verify(&out);
    st_loop_c_print(&out, symbol, text);
    st_kernel_deinit(&out);
}

static st_kernel_fn function(const cc_module *m, const char *symbol)
{
    st_kernel_fn fn = NULL;
    void *at = cc_module_symbol(m, symbol);
    memcpy(&fn, &at, sizeof fn);
    return fn;
}

static void interpret(const st_kernel_args *args, int64_t last)
{
    stator_diag *err = NULL;
    const stator_status status = loop_oracle_run(&w.kernel, args, 0, last, &err);
    cr_assert_eq(status, STATOR_OK, "%s", st_diag_text(err));
}

/* ---- scalar instructions ---- */

static uint64_t inputs[STATOR_DTYPE_COUNT][3][N];

static void fill_inputs(void)
{
    static const double some[] = {0, -0.0, 1, -1, 2.5, -3.5, 7, 0.5, 1e30, -1e-30, 20, -6.25};
    const uint32_t n_some = sizeof some / sizeof some[0];
    for (uint32_t dtype = 1; dtype < STATOR_DTYPE_COUNT; dtype++) {
        for (uint32_t k = 0; st_loop_class_of(dtype) && k < 3; k++) {
            for (uint32_t i = 0; i < N; i++) {
                const uint32_t pick = k == 0 ? i % 8u : k == 1 ? i / 8u : (i * 5u) % 9u;
                const uint64_t mixed = 0x9e3779b97f4a7c15u * (pick + 3u);
                if (st_loop_class_of(dtype) & (ST_LOOP_FLOATS | ST_LOOP_STORAGE)) {
                    st_store_f64(dtype, inputs[dtype][k], i,
                                 i == 9 + k ? (double)NAN : some[(pick + 4u * k) % n_some]);
                } else {
                    st_store_i64(dtype, inputs[dtype][k], i,
                                 dtype == STATOR_BOOL ? (int64_t)(pick & 1u)
                                 : pick < 4           ? (int64_t)pick - 1
                                                      : (int64_t)mixed);
                }
            }
        }
    }
}

static void build_op(uint32_t code, uint32_t dtype, uint32_t result)
{
    const st_loop_op_desc *desc = st_loop_desc(code);
    st_loop_ref args[3] = {0};
    const uint32_t out = loop_out(&w, "out", result, loop_int(&w, N));
    const uint32_t i = st_loop_axis_add(&w.b, loop_int(&w, N), ST_AXIS_VECTOR);
    st_loop_open(&w.b, i);
    for (uint32_t k = 0; k < desc->arity; k++) {
        const uint32_t of = code == ST_LOOP_select && k == 0 ? (uint32_t)STATOR_BOOL : dtype;
        const uint32_t in = loop_in(&w, &"x\0y\0z"[2 * k], of, loop_int(&w, N));
        args[k] = st_loop_load(&w.b, in, loop_axis(&w, i), 0, 0);
    }
    st_loop_store(&w.b, out, loop_axis(&w, i),
                  st_loop_apply(&w.b, code, result, args[0], args[1], args[2]), 0);
    st_loop_close(&w.b);
}

typedef void (*each_fn)(void *self, uint32_t code, uint32_t from, uint32_t to, const char *symbol);

/* Every scalar op in every dtype; casts and bitcasts in every pair. */
static void for_each_op(each_fn fn, void *self)
{
    char symbol[64];
    for (uint32_t code = ST_LOOP_FIRST_SCALAR; code < ST_LOOP_CODE_COUNT; code++) {
        const st_loop_op_desc *desc = st_loop_desc(code);
        for (uint32_t from = 1; from < STATOR_DTYPE_COUNT; from++) {
            for (uint32_t to = 1; to < STATOR_DTYPE_COUNT; to++) {
                const int any = desc->result == ST_LOOP_ANY;
                const int is_narrow = desc->expand_bf16 != NULL; /* test_loop_narrow measures it */
                const uint32_t on = is_narrow ? 0u : desc->on | (any ? ST_LOOP_STORAGE : 0u);
                const uint32_t result = desc->result == ST_LOOP_BOOL ? (uint32_t)STATOR_BOOL : from;
                if (!(st_loop_class_of(from) & on) || !(st_loop_class_of(to) & on) ||
                    (!any && to != from) || (any && to == from) ||
                    (code == ST_LOOP_bitcast && (st_dtype_bits(to) != st_dtype_bits(from) ||
                                                 from == STATOR_BOOL || to == STATOR_BOOL))) {
                    continue;
                }
                loop_world_deinit(&w);
                loop_world_init(&w, desc->name);
                build_op(code, from, any ? to : result);
                (void)snprintf(symbol, sizeof symbol, "%s_%s_%s", desc->name, st_dtype_name(from),
                               st_dtype_name(to));
                fn(self, code, from, any ? to : result, symbol);
            }
        }
    }
}

static void print_one(void *self, uint32_t code, uint32_t from, uint32_t to, const char *symbol)
{
    (void)code, (void)from, (void)to;
    print_c(symbol, self);
}

static int is_excluded(uint32_t code, uint32_t from, uint32_t i)
{
    const int64_t by = st_load_i64(from, inputs[from][1], i);
    const int is_shift = code == ST_LOOP_shift_left || code == ST_LOOP_shift_right;
    if (code == ST_LOOP_ldexp) {
        const double power = st_load_f64(from, inputs[from][1], i);
        return power != floor(power) || !(fabs(power) <= 250);
    }
    return (code == ST_LOOP_quot && (by == 0 || by == -1)) ||
           (is_shift && (by < 0 || by >= (int64_t)st_dtype_bits(from)));
}

/* Functions differ by what the compiler's libm rounds otherwise. */
static int is_near(uint32_t code, uint32_t dtype, double a, double b)
{
    const st_loop_op_desc *desc = st_loop_desc(code);
    if ((a != a && b != b) || (a == b && !signbit(a) == !signbit(b))) {
        return 1;
    }
    const double bound = dtype == STATOR_F32 ? 4e-7 : 1e-15;
    return (desc->libm || desc->ulp) && st_loop_class_of(dtype) == ST_LOOP_FLOATS &&
           (fabs(a - b) <= bound * fabs(a) || fabs(a - b) < 0x1p-140);
}

static void compare_one(void *self, uint32_t code, uint32_t from, uint32_t to, const char *symbol)
{
    uint64_t a[N];
    uint64_t b[N];
    void *first = inputs[code == ST_LOOP_select ? (uint32_t)STATOR_BOOL : from][0];
    void *buffers[] = {a, first, inputs[from][1], inputs[from][2]};
    const st_kernel_args args = {buffers, NULL, NULL};
    memset(a, 0x55, sizeof a);
    memset(b, 0x55, sizeof b);
    interpret(&args, 1);
    buffers[0] = b;
    /* Values without a meaning are not given to compiled code. */
    for (uint32_t i = 0; i < N; i++) {
        if (is_excluded(code, from, i)) {
            st_store_i64(from, inputs[from][1], i, 2);
        }
    }
    buffers[0] = a;
    interpret(&args, 1);
    buffers[0] = b;
    function(self, symbol)(&args, 0, 1);
    fill_inputs();
    for (uint32_t i = 0; i < N; i++) {
        const double x = st_load_f64(to, a, i);
        const double y = st_load_f64(to, b, i);
        cr_assert(is_near(code, to, x, y) &&
                      (st_loop_class_of(to) & (ST_LOOP_FLOATS | ST_LOOP_STORAGE) ||
                       st_load_i64(to, a, i) == st_load_i64(to, b, i)),
                  "%s at %u: %.17g, compiled %.17g", symbol, i, x, y);
    }
}

Test(loop_c, each_op_in_each_dtype)
{
    static const char *const flags[] = {"-O1", NULL};
    cc_module module;
    st_mem mem;
    st_str text;
    if (!cc_is_there()) {
        cr_skip_test("no C compiler named cc");
    }
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_str_init(&text, &mem);
    fill_inputs();
    st_loop_c_head(&text);
    for_each_op(print_one, &text);
    cr_assert(st_str_ok(&text));
    cc_module_init(&module, text.data, flags);
    st_str_deinit(&text);
    for_each_op(compare_one, &module);
    cc_module_deinit(&module);
}

/* ---- structure ---- */

/* Runs the kernel of w both ways; buffers: pairs of what the oracle and what the code gets. */
static void compare_structure(void *const *mine, void *const *theirs, const int64_t *sizes,
                              int64_t count, const uint64_t *bytes)
{
    static const char *const flags[] = {"-O2", NULL};
    uint32_t status[2] = {0, 0};
    const st_kernel_args a = {mine, sizes, &status[0]};
    const st_kernel_args b = {theirs, sizes, &status[1]};
    cc_module module;
    st_str text;
    if (!cc_is_there()) {
        cr_skip_test("no C compiler named cc");
    }
    st_str_init(&text, &w.mem);
    st_loop_c_head(&text);
    print_c("k", &text);
    cc_module_init(&module, text.data, flags);
    st_str_deinit(&text);
    interpret(&a, count);
    function(&module, "k")(&b, 0, count);
    for (uint32_t i = 0; i < w.kernel.buffers.count; i++) {
        if (w.kernel.buffers.data[i].flags & ST_BUFFER_LOCAL) {
            continue;
        }
        cr_expect(memcmp(mine[i], theirs[i], bytes[i]) == 0, "buffer %s",
                  w.kernel.buffers.data[i].name);
    }
    cr_expect_eq(status[0], status[1]);
    cc_module_deinit(&module);
}

Test(loop_c, reductions_of_rows)
{
    /* per row of x[N, M]: sum, masked product, min, argmax, any and all of its elements */
    const uint32_t n = loop_size(&w, "N");
    const uint32_t m = loop_size(&w, "M");
    const uint32_t x = loop_in(&w, "x", STATOR_F64, st_sym_mul(&w.syms.tab, n, m));
    const uint32_t y = loop_out(&w, "y", STATOR_F64, loop_mul(&w, n, 4));
    const uint32_t k = loop_out(&w, "k", STATOR_I64, n);
    const uint32_t z = loop_out(&w, "z", STATOR_BOOL, loop_mul(&w, n, 2));
    const uint32_t i = st_loop_axis_add(&w.b, n, ST_AXIS_PARALLEL);
    const uint32_t j = st_loop_axis_add(&w.b, m, ST_AXIS_REDUCE);
    const uint32_t row = loop_axis(&w, i);
    st_loop_open(&w.b, i);
    const st_loop_ref sum =
        st_loop_acc(&w.b, ST_ACC_SUM, STATOR_F64, st_loop_float(&w.b, STATOR_F64, 0.5));
    const st_loop_ref prod = st_loop_acc(&w.b, ST_ACC_PROD, STATOR_F64, 0);
    const st_loop_ref least = st_loop_acc(&w.b, ST_ACC_MIN, STATOR_F64, 0);
    const st_loop_ref best = st_loop_acc(&w.b, ST_ACC_ARGMAX, STATOR_F64, 0);
    const st_loop_ref any = st_loop_acc(&w.b, ST_ACC_ANY, STATOR_BOOL, 0);
    const st_loop_ref all = st_loop_acc(&w.b, ST_ACC_ALL, STATOR_BOOL, 0);
    st_loop_open(&w.b, j);
    const uint32_t at = loop_add(&w, st_sym_mul(&w.syms.tab, row, m), loop_axis(&w, j));
    const st_loop_ref v = st_loop_load(&w.b, x, at, 0, 0);
    const st_loop_ref big = loop_op(&w, "gt", v, st_loop_float(&w.b, STATOR_F64, 1), 0);
    st_loop_update(&w.b, sum, v, 0, 0);
    st_loop_update(&w.b, prod, v, 0, big);
    st_loop_update(&w.b, least, v, 0, 0);
    st_loop_update(&w.b, best, v, st_loop_index(&w.b, loop_axis(&w, j)), 0);
    st_loop_update(&w.b, any, big, 0, 0);
    st_loop_update(&w.b, all, big, 0, 0);
    st_loop_close(&w.b);
    const st_loop_ref accs[4] = {sum, prod, least, best};
    for (uint32_t a = 0; a < 4; a++) {
        st_loop_store(&w.b, y, loop_add(&w, loop_mul(&w, row, 4), loop_int(&w, a)),
                      st_loop_read(&w.b, accs[a], STATOR_F64), 0);
    }
    st_loop_store(&w.b, k, row, st_loop_read(&w.b, best, STATOR_I64), 0);
    st_loop_store(&w.b, z, loop_mul(&w, row, 2), st_loop_read(&w.b, any, STATOR_BOOL), 0);
    st_loop_store(&w.b, z, loop_add(&w, loop_mul(&w, row, 2), loop_int(&w, 1)),
                  st_loop_read(&w.b, all, STATOR_BOOL), 0);
    st_loop_close(&w.b);
    double in[12] = {1, 2, 3, 3, -1, NAN, 5, NAN, 2, 2, 2, 2};
    double out[2][12] = {{0}};
    int64_t indices[2][3] = {{0}};
    uint8_t flags[2][6] = {{0}};
    void *mine[] = {in, out[0], indices[0], flags[0]};
    void *theirs[] = {in, out[1], indices[1], flags[1]};
    compare_structure(mine, theirs, (int64_t[2]){3, 4}, 3,
                      (uint64_t[4]){sizeof in, sizeof out[0], sizeof indices[0], sizeof flags[0]});
    cr_expect(indices[1][0] == 2 && indices[1][1] == 1 && indices[1][2] == 0);
    cr_expect(out[1][0] == 9.5 && out[1][1] == 18 && flags[1][0] == 1 && flags[1][1] == 0);
}

Test(loop_c, scatter_with_checks)
{
    /* out[x[i] / 3 % 5] = x[i] in four dtypes, the last one stays; outside 0..99 is refused */
    static const uint32_t types[] = {STATOR_I16, STATOR_F32, STATOR_U8, STATOR_F64};
    const uint32_t x = loop_in(&w, "x", STATOR_I64, loop_int(&w, 40));
    uint32_t out[4];
    for (uint32_t k = 0; k < 4; k++) {
        out[k] = loop_out(&w, (const char *[4]){"a", "b", "c", "d"}[k], types[k], loop_int(&w, 5));
    }
    const uint32_t i = st_loop_axis_add(&w.b, loop_int(&w, 40), ST_AXIS_PARALLEL);
    st_loop_open(&w.b, i);
    const st_loop_ref v = st_loop_load(&w.b, x, loop_axis(&w, i), 0, 0);
    const st_loop_ref low = loop_op(&w, "ge", v, st_loop_int(&w.b, STATOR_I64, 0), 0);
    const st_loop_ref high = loop_op(&w, "lt", v, st_loop_int(&w.b, STATOR_I64, 100), 0);
    const st_loop_ref ok = st_loop_both(&w.b, low, high);
    w.b.origin = 7;
    st_loop_check(&w.b, ok, 0);
    const uint32_t bound = st_loop_bind(&w.b, v, 0, 99);
    const uint32_t third = st_sym_floordiv(&w.syms.tab, bound, loop_int(&w, 3));
    const uint32_t index = st_sym_mod(&w.syms.tab, third, loop_int(&w, 5));
    for (uint32_t k = 0; k < 4; k++) {
        st_loop_store(&w.b, out[k], index, st_loop_cast(&w.b, types[k], v), ok);
    }
    st_loop_close(&w.b);
    int64_t in[40];
    for (int64_t k = 0; k < 40; k++) {
        in[k] = k == 17 ? INT64_MAX : k == 30 ? -1 : (k * 37) % 100;
    }
    int16_t a[2][5] = {{1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}};
    float b[2][5] = {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}};
    uint8_t c[2][5] = {{200, 200, 200, 200, 200}, {200, 200, 200, 200, 200}};
    double d[2][5] = {{0}};
    void *mine[] = {in, a[0], b[0], c[0], d[0]};
    void *theirs[] = {in, a[1], b[1], c[1], d[1]};
    compare_structure(mine, theirs, NULL, 40,
                      (uint64_t[5]){sizeof in, sizeof a[0], sizeof b[0], sizeof c[0], sizeof d[0]});
}

Test(loop_c, windows_scratch_and_scans)
{
    /* t[j] = x[i + j - 1] or 100 outside; y[i, j] = running last of min(t[j], t[max(j - 1, 0)]) */
    const uint32_t n = loop_size(&w, "N");
    const uint32_t x = loop_in(&w, "x", STATOR_I32, n);
    const uint32_t y = loop_out(&w, "y", STATOR_I32, loop_mul(&w, n, 4));
    const uint32_t t = st_loop_buffer_add(&w.b, "t", STATOR_I32, loop_int(&w, 4),
                                          ST_BUFFER_LOCAL | ST_BUFFER_READ | ST_BUFFER_WRITTEN, 0);
    const uint32_t i = st_loop_axis_add(&w.b, n, ST_AXIS_PARALLEL);
    const uint32_t j = st_loop_axis_add(&w.b, loop_int(&w, 4), ST_AXIS_VECTOR);
    const uint32_t k = st_loop_axis_add(&w.b, loop_int(&w, 4), ST_AXIS_SERIAL);
    st_symtab *tab = &w.syms.tab;
    st_loop_open(&w.b, i);
    st_loop_open(&w.b, j);
    const uint32_t from =
        loop_add(&w, loop_add(&w, loop_axis(&w, i), loop_axis(&w, j)), loop_int(&w, -1));
    const st_loop_ref at = st_loop_index(&w.b, from);
    const st_loop_ref low = loop_op(&w, "ge", at, st_loop_int(&w.b, STATOR_I64, 0), 0);
    const st_loop_ref high = loop_op(&w, "lt", at, st_loop_index(&w.b, n), 0);
    const st_loop_ref v = st_loop_load(&w.b, x, from, st_loop_both(&w.b, low, high),
                                       st_loop_int(&w.b, STATOR_I32, 100));
    st_loop_store(&w.b, t, loop_axis(&w, j), v, 0);
    st_loop_close(&w.b);
    const st_loop_ref last =
        st_loop_acc(&w.b, ST_ACC_LAST, STATOR_I32, st_loop_int(&w.b, STATOR_I32, 1));
    st_loop_open(&w.b, k);
    const uint32_t before =
        st_sym_max(tab, loop_add(&w, loop_axis(&w, k), loop_int(&w, -1)), loop_int(&w, 0));
    const st_loop_ref p = st_loop_load(&w.b, t, loop_axis(&w, k), 0, 0);
    const st_loop_ref q = st_loop_load(&w.b, t, before, 0, 0);
    const st_loop_ref state = st_loop_read(&w.b, last, STATOR_I32);
    const st_loop_ref next =
        loop_op(&w, "add", loop_op(&w, "min", p, q, 0),
                loop_op(&w, "mul", state, st_loop_int(&w.b, STATOR_I32, 3), 0), 0);
    st_loop_update(&w.b, last, next, 0, loop_op(&w, "ne", p, q, 0));
    st_loop_store(&w.b, y, loop_add(&w, loop_mul(&w, loop_axis(&w, i), 4), loop_axis(&w, k)),
                  st_loop_read(&w.b, last, STATOR_I32), 0);
    st_loop_close(&w.b);
    st_loop_close(&w.b);
    int32_t in[6] = {5, -7, 9, 9, 1000000, INT32_MAX};
    int32_t out[2][24] = {{0}};
    int32_t scratch[4];
    void *mine[] = {in, out[0], NULL};
    void *theirs[] = {in, out[1], scratch};
    compare_structure(mine, theirs, (int64_t[1]){6}, 6, (uint64_t[2]){sizeof in, sizeof out[0]});
}
