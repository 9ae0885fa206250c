/* Kernels of every shape through inductor-cpu's emitter, against the oracle: tails,
 * broadcasts, strides, gathers, masks, accumulators, symbolic sizes. */
#include "llvm_support.h"

#include <criterion/criterion.h>

static llvm_world v;

static void begin(void)
{
    llvm_world_init(&v, "kernel");
}

static void end(void)
{
    llvm_world_deinit(&v);
}

TestSuite(llvm_kernels, .init = begin, .fini = end);

/* ---- small builders ---- */

static uint32_t vector_axis(uint32_t extent, uint32_t flags, uint32_t lanes, uint32_t unroll)
{
    const uint32_t axis =
        st_loop_axis_add(&v.w.b, extent, flags | (lanes > 1 ? ST_AXIS_VECTOR : 0u));
    v.w.kernel.axes.data[axis].lanes = lanes;
    v.w.kernel.axes.data[axis].unroll = unroll;
    return axis;
}

static uint32_t sym_of(uint32_t axis)
{
    return loop_axis(&v.w, axis);
}

static st_loop_ref load(uint32_t buffer, uint32_t index)
{
    return st_loop_load(&v.w.b, buffer, index, 0, 0);
}

static void store(uint32_t buffer, uint32_t index, st_loop_ref value)
{
    st_loop_store(&v.w.b, buffer, index, value, 0);
}

static st_loop_ref op(const char *name, st_loop_ref x, st_loop_ref y)
{
    return loop_op(&v.w, name, x, y, 0);
}

/* Drops the kernel and its symbols for the next one of a loop of cases. */
static void again(void)
{
    end();
    begin();
}

/* ---- pointwise ---- */

/* z = x * y + 3, one axis that is parallel and a vector. */
static void pointwise(uint32_t extent, uint32_t lanes, uint32_t unroll, int64_t count)
{
    loop_world *w = &v.w;
    const uint32_t x = loop_in(w, "x", STATOR_F32, extent);
    const uint32_t y = loop_in(w, "y", STATOR_F32, extent);
    const uint32_t z = loop_out(w, "z", STATOR_F32, extent);
    const uint32_t i = vector_axis(extent, ST_AXIS_PARALLEL, lanes, unroll);
    st_loop_open(&w->b, i);
    const st_loop_ref p = op("mul", load(x, sym_of(i)), load(y, sym_of(i)));
    store(z, sym_of(i), op("add", p, st_loop_float(&w->b, STATOR_F32, 3)));
    st_loop_close(&w->b);
    llvm_compare(&v, count);
}

Test(llvm_kernels, pointwise_constant_sizes)
{
    static const int64_t sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (uint32_t lanes = 1; lanes <= 64; lanes *= 4) {
            for (uint32_t unroll = 1; unroll <= 4; unroll += 3) {
                pointwise(loop_int(&v.w, sizes[s]), lanes, unroll, sizes[s]);
                again();
            }
        }
    }
}

Test(llvm_kernels, pointwise_symbolic_sizes)
{
    static const int64_t sizes[] = {0, 1, 15, 16, 17, 47, 64, 65, 1000};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (uint32_t unroll = 1; unroll <= 3; unroll += 2) {
            const uint32_t n = loop_size(&v.w, "n");
            v.sizes[0] = sizes[s];
            pointwise(n, 16, unroll, sizes[s]);
            again();
            const uint32_t half = loop_size(&v.w, "n");
            v.sizes[0] = sizes[s];
            pointwise(loop_mul(&v.w, half, 16), 16, unroll, sizes[s] * 16);
            again();
        }
    }
}

Test(llvm_kernels, pointwise_misaligned)
{
    v.misalign = 4;
    pointwise(loop_int(&v.w, 100), 16, 1, 100);
}

/* ---- index shapes ---- */

/* z[i0, i1] = x[index] over 5 x 37, i1 in lanes. */
static void indexed(uint32_t (*index_of)(uint32_t i0, uint32_t i1))
{
    loop_world *w = &v.w;
    const uint32_t x = loop_in(w, "x", STATOR_F32, loop_int(w, 400));
    const uint32_t z = loop_out(w, "z", STATOR_F32, loop_int(w, 5 * 37));
    const uint32_t i0 = vector_axis(loop_int(w, 5), ST_AXIS_PARALLEL, 1, 1);
    const uint32_t i1 = vector_axis(loop_int(w, 37), 0, 16, 1);
    st_loop_open(&w->b, i0);
    st_loop_open(&w->b, i1);
    const st_loop_ref value = load(x, index_of(sym_of(i0), sym_of(i1)));
    store(z, loop_add(w, loop_mul(w, sym_of(i0), 37), sym_of(i1)), value);
    st_loop_close(&w->b);
    st_loop_close(&w->b);
    llvm_compare(&v, 5);
    again();
}

static uint32_t index_row(uint32_t i0, uint32_t i1)
{
    (void)i1;
    return i0;
}

static uint32_t index_column(uint32_t i0, uint32_t i1)
{
    return loop_add(&v.w, loop_mul(&v.w, i1, 5), i0);
}

static uint32_t index_reversed(uint32_t i0, uint32_t i1)
{
    return loop_add(&v.w, loop_add(&v.w, loop_mul(&v.w, i0, 50), loop_int(&v.w, 36)),
                    loop_mul(&v.w, i1, -1));
}

static uint32_t index_mod(uint32_t i0, uint32_t i1)
{
    const uint32_t all = loop_add(&v.w, loop_mul(&v.w, i0, 37), i1);
    return st_sym_mod(&v.w.syms.tab, all, loop_int(&v.w, 24));
}

static uint32_t index_floordiv(uint32_t i0, uint32_t i1)
{
    const uint32_t all =
        loop_add(&v.w, loop_mul(&v.w, i0, 37), loop_add(&v.w, i1, loop_int(&v.w, -7)));
    const uint32_t q = st_sym_floordiv(&v.w.syms.tab, all, loop_int(&v.w, 3));
    return loop_add(&v.w, q, loop_int(&v.w, 10));
}

static uint32_t index_lane_mod(uint32_t i0, uint32_t i1)
{
    const uint32_t all = loop_add(&v.w, loop_mul(&v.w, i0, 64), i1);
    const uint32_t r = st_sym_mod(&v.w.syms.tab, all, loop_int(&v.w, 32));
    const uint32_t q = st_sym_floordiv(&v.w.syms.tab, all, loop_int(&v.w, 32));
    return loop_add(&v.w, r, loop_mul(&v.w, q, 16));
}

static uint32_t index_negative_mod(uint32_t i0, uint32_t i1)
{
    const uint32_t all = loop_add(&v.w, loop_mul(&v.w, i0, 11), loop_mul(&v.w, i1, -3));
    return st_sym_mod(&v.w.syms.tab, all, loop_int(&v.w, 13));
}

/* A divisor that is negative: what a ceiling division may leave behind. */
static uint32_t index_negative_divisor(uint32_t i0, uint32_t i1)
{
    st_symtab *tab = &v.w.syms.tab;
    const uint32_t n = loop_size(&v.w, "n");
    const uint32_t by = st_sym_sub(tab, loop_int(&v.w, -2), n); /* n is 1 */
    const uint32_t q = st_sym_floordiv(tab, loop_add(&v.w, i1, i0), by);
    return loop_add(&v.w, loop_mul(&v.w, q, -1), st_sym_mod(tab, loop_mul(&v.w, i1, -1), n));
}

static uint32_t index_min_max(uint32_t i0, uint32_t i1)
{
    st_symtab *tab = &v.w.syms.tab;
    const uint32_t low = st_sym_max(tab, loop_add(&v.w, i1, loop_int(&v.w, -4)), loop_int(&v.w, 0));
    return loop_add(&v.w, st_sym_min(tab, low, loop_int(&v.w, 30)), loop_mul(&v.w, i0, 31));
}

static uint32_t index_product(uint32_t i0, uint32_t i1)
{
    return st_sym_mul(&v.w.syms.tab, i0, i1);
}

Test(llvm_kernels, index_shapes)
{
    indexed(index_row);
    indexed(index_column);
    indexed(index_reversed);
    indexed(index_mod);
    indexed(index_floordiv);
    indexed(index_lane_mod);
    indexed(index_negative_mod);
    indexed(index_negative_divisor);
    indexed(index_min_max);
    indexed(index_product);
}

/* z[mod(i0, n)...] with symbolic divisors, stores to strided and scattered indices. */
Test(llvm_kernels, symbolic_strides)
{
    loop_world *w = &v.w;
    const uint32_t n = loop_size(w, "n");
    const uint32_t m = loop_size(w, "m");
    v.sizes[0] = 7;
    v.sizes[1] = 45;
    const uint32_t all = st_sym_mul(&w->syms.tab, n, m);
    const uint32_t x = loop_in(w, "x", STATOR_F32, all);
    const uint32_t z = loop_out(w, "z", STATOR_F32, all);
    const uint32_t i0 = vector_axis(n, ST_AXIS_PARALLEL, 1, 1);
    const uint32_t i1 = vector_axis(m, 0, 16, 1);
    st_loop_open(&w->b, i0);
    st_loop_open(&w->b, i1);
    const st_loop_ref value =
        load(x, loop_add(w, st_sym_mul(&w->syms.tab, sym_of(i0), m), sym_of(i1)));
    store(z, loop_add(w, st_sym_mul(&w->syms.tab, sym_of(i1), n), sym_of(i0)), value);
    st_loop_close(&w->b);
    st_loop_close(&w->b);
    llvm_compare(&v, 7);
}

Test(llvm_kernels, division_by_a_size)
{
    loop_world *w = &v.w;
    const uint32_t n = loop_size(w, "n");
    v.sizes[0] = 11;
    const uint32_t x = loop_in(w, "x", STATOR_I32, loop_int(w, 128));
    const uint32_t z = loop_out(w, "z", STATOR_I32, loop_int(w, 100));
    const uint32_t i = vector_axis(loop_int(w, 100), ST_AXIS_PARALLEL, 16, 1);
    st_loop_open(&w->b, i);
    const uint32_t q = st_sym_floordiv(&w->syms.tab, sym_of(i), n);
    const uint32_t r = st_sym_mod(&w->syms.tab, sym_of(i), n);
    store(z, sym_of(i), op("sub", load(x, q), load(x, r)));
    st_loop_close(&w->b);
    llvm_compare(&v, 100);
}

/* z[i, j] = table[index[i, j], j] with the bound value in lanes, and out of bounds checked. */
Test(llvm_kernels, gather_and_check)
{
    loop_world *w = &v.w;
    const uint32_t table = loop_in(w, "table", STATOR_F32, loop_int(w, 16 * 37));
    const uint32_t index = loop_in(w, "index", STATOR_I64, loop_int(w, 5 * 37));
    const uint32_t z = loop_out(w, "z", STATOR_F32, loop_int(w, 5 * 37));
    v.fill[index] = LLVM_FILL_INDICES;
    const uint32_t i0 = vector_axis(loop_int(w, 5), ST_AXIS_PARALLEL, 1, 1);
    const uint32_t i1 = vector_axis(loop_int(w, 37), 0, 16, 1);
    st_loop_open(&w->b, i0);
    st_loop_open(&w->b, i1);
    const uint32_t at = loop_add(w, loop_mul(w, sym_of(i0), 37), sym_of(i1));
    const st_loop_ref k = load(index, at);
    w->b.origin = 17;
    st_loop_check(&w->b, op("lt", k, st_loop_int(&w->b, STATOR_I64, 16)), 0);
    const uint32_t row = st_loop_bind(&w->b, k, 0, 15);
    store(z, at, load(table, loop_add(w, loop_mul(w, row, 37), sym_of(i1))));
    st_loop_close(&w->b);
    st_loop_close(&w->b);
    llvm_compare(&v, 5);
    cr_assert_eq(v.status[1], 0);
}

static void failed_check(uint32_t origin, uint32_t status)
{
    loop_world *w = &v.w;
    const uint32_t x = loop_in(w, "x", STATOR_I64, loop_int(w, 37));
    const uint32_t i = vector_axis(loop_int(w, 37), ST_AXIS_PARALLEL, 16, 1);
    const uint32_t z = loop_out(w, "z", STATOR_I64, loop_int(w, 37));
    v.fill[x] = LLVM_FILL_INDICES;
    st_loop_open(&w->b, i);
    w->b.origin = origin;
    const st_loop_ref value = load(x, sym_of(i));
    st_loop_check(&w->b, op("lt", value, st_loop_int(&w->b, STATOR_I64, 15)), 0);
    store(z, sym_of(i), value);
    st_loop_close(&w->b);
    llvm_compare(&v, 37);
    cr_assert_eq(v.status[0], status);
    cr_assert_eq(v.status[1], status);
}

Test(llvm_kernels, failed_check)
{
    failed_check(23, 23);
}

Test(llvm_kernels, failed_check_without_a_node_is_reported)
{
    failed_check(0, ST_STATUS_UNKNOWN);
}

/* A gather by a value that is the same in all lanes: an embedding row. */
Test(llvm_kernels, embedding)
{
    loop_world *w = &v.w;
    const uint32_t table = loop_in(w, "table", STATOR_F32, loop_int(w, 16 * 37));
    const uint32_t index = loop_in(w, "index", STATOR_I64, loop_int(w, 5));
    const uint32_t z = loop_out(w, "z", STATOR_F32, loop_int(w, 5 * 37));
    v.fill[index] = LLVM_FILL_INDICES;
    const uint32_t i0 = vector_axis(loop_int(w, 5), ST_AXIS_PARALLEL, 1, 1);
    const uint32_t i1 = vector_axis(loop_int(w, 37), 0, 16, 1);
    st_loop_open(&w->b, i0);
    const uint32_t row = st_loop_bind(&w->b, load(index, sym_of(i0)), 0, 15);
    st_loop_open(&w->b, i1);
    store(z, loop_add(w, loop_mul(w, sym_of(i0), 37), sym_of(i1)),
          load(table, loop_add(w, loop_mul(w, row, 37), sym_of(i1))));
    st_loop_close(&w->b);
    st_loop_close(&w->b);
    llvm_compare(&v, 5);
}

/* ---- masks ---- */

/* Padding: z[i] = 3 <= i < 30 ? x[i - 3] : 7, and a masked store of every other element. */
Test(llvm_kernels, masked_load_and_store)
{
    for (uint32_t lanes = 1; lanes <= 16; lanes *= 4) {
        loop_world *w = &v.w;
        st_loop_builder *b = &w->b;
        const uint32_t x = loop_in(w, "x", STATOR_F32, loop_int(w, 27));
        const uint32_t z = loop_out(w, "z", STATOR_F32, loop_int(w, 37));
        const uint32_t y = loop_out(w, "y", STATOR_I8, loop_int(w, 37));
        const uint32_t i = vector_axis(loop_int(w, 37), ST_AXIS_PARALLEL, lanes, 1);
        st_loop_open(b, i);
        const st_loop_ref at = st_loop_index(b, sym_of(i));
        const st_loop_ref ok = st_loop_both(b, op("ge", at, st_loop_int(b, STATOR_I64, 3)),
                                            op("lt", at, st_loop_int(b, STATOR_I64, 30)));
        store(z, sym_of(i),
              st_loop_load(b, x, loop_add(w, sym_of(i), loop_int(w, -3)), ok,
                           st_loop_float(b, STATOR_F32, 7)));
        const st_loop_ref odd = op("ne", op("bit_and", at, st_loop_int(b, STATOR_I64, 1)),
                                   st_loop_int(b, STATOR_I64, 0));
        st_loop_store(b, y, sym_of(i), st_loop_cast(b, STATOR_I8, at), odd);
        st_loop_close(b);
        llvm_compare(&v, 37);
        again();
    }
}

/* ---- reductions ---- */

/* softmax of rows: three loops in a row. */
static void softmax(uint32_t columns, int64_t rows, uint32_t unroll)
{
    loop_world *w = &v.w;
    st_loop_builder *b = &w->b;
    const uint32_t all = loop_mul(w, columns, rows);
    const uint32_t x = loop_in(w, "x", STATOR_F32, all);
    const uint32_t z = loop_out(w, "z", STATOR_F32, all);
    const uint32_t i = vector_axis(loop_int(w, rows), ST_AXIS_PARALLEL, 1, 1);
    st_loop_open(b, i);
    const uint32_t base = st_sym_mul(&w->syms.tab, sym_of(i), columns);
    const st_loop_ref m = st_loop_acc(b, ST_ACC_MAX, STATOR_F32, 0);
    const uint32_t j0 = vector_axis(columns, ST_AXIS_REDUCE, 16, unroll);
    st_loop_open(b, j0);
    st_loop_update(b, m, load(x, loop_add(w, base, sym_of(j0))), 0, 0);
    st_loop_close(b);
    const st_loop_ref s = st_loop_acc(b, ST_ACC_SUM, STATOR_F32, 0);
    const uint32_t j1 = vector_axis(columns, ST_AXIS_REDUCE, 16, unroll);
    const st_loop_ref max = st_loop_read(b, m, STATOR_F32);
    st_loop_open(b, j1);
    const st_loop_ref d = op("sub", load(x, loop_add(w, base, sym_of(j1))), max);
    st_loop_update(b, s, op("exp", d, 0), 0, 0);
    st_loop_close(b);
    const uint32_t j2 = vector_axis(columns, 0, 16, 1);
    const st_loop_ref sum = st_loop_read(b, s, STATOR_F32);
    st_loop_open(b, j2);
    const uint32_t at = loop_add(w, base, sym_of(j2));
    store(z, at, op("div", op("exp", op("sub", load(x, at), max), 0), sum));
    st_loop_close(b);
    st_loop_close(b);
    v.max_ulp = 40;
    v.tolerance = 1e-6;
    llvm_compare(&v, rows);
    again();
}

Test(llvm_kernels, softmax)
{
    static const int64_t sizes[] = {1, 7, 16, 37, 64, 130};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        softmax(loop_int(&v.w, sizes[s]), 3, 4);
        v.sizes[0] = sizes[s];
        softmax(loop_size(&v.w, "n"), 3, 4);
    }
}

/* Sums of columns: lanes outside the loop that reduces. */
Test(llvm_kernels, column_sums_in_lanes)
{
    for (uint32_t unroll = 1; unroll <= 4; unroll++) {
        loop_world *w = &v.w;
        st_loop_builder *b = &w->b;
        const uint32_t x = loop_in(w, "x", STATOR_F64, loop_int(w, 29 * 21));
        const uint32_t z = loop_out(w, "z", STATOR_F64, loop_int(w, 21));
        const uint32_t i = vector_axis(loop_int(w, 21), ST_AXIS_PARALLEL, 8, 1);
        const uint32_t j = vector_axis(loop_int(w, 29), ST_AXIS_REDUCE, 1, unroll);
        st_loop_open(b, i);
        const st_loop_ref s = st_loop_acc(b, ST_ACC_SUM, STATOR_F64, 0);
        st_loop_open(b, j);
        st_loop_update(b, s, load(x, loop_add(w, loop_mul(w, sym_of(j), 21), sym_of(i))), 0, 0);
        st_loop_close(b);
        store(z, sym_of(i), st_loop_read(b, s, STATOR_F64));
        st_loop_close(b);
        v.tolerance = 1e-14;
        llvm_compare(&v, 21);
        again();
    }
}

/* Every kind over every dtype, row by row, the update masked by x's neighbour. */
static void reduction(uint32_t kind, uint32_t dtype, int64_t columns, uint32_t how, int is_masked)
{
    loop_world *w = &v.w;
    st_loop_builder *b = &w->b;
    const int is_arg = kind == ST_ACC_ARGMIN || kind == ST_ACC_ARGMAX;
    const uint32_t out = is_arg ? STATOR_I64 : dtype;
    const uint32_t x = loop_in(w, "x", dtype, loop_int(w, 4 * columns));
    const uint32_t on = loop_in(w, "on", STATOR_BOOL, loop_int(w, 4 * columns));
    const uint32_t z = loop_out(w, "z", out, loop_int(w, 4));
    const uint32_t y = loop_out(w, "y", dtype, loop_int(w, 4));
    const uint32_t i = vector_axis(loop_int(w, 4), ST_AXIS_PARALLEL, 1, 1);
    const uint32_t j = vector_axis(loop_int(w, columns), ST_AXIS_REDUCE, 16, 2);
    v.fill[x] = how;
    st_loop_open(b, i);
    const st_loop_ref acc = st_loop_acc(b, kind, dtype, 0);
    st_loop_open(b, j);
    const uint32_t at = loop_add(w, loop_mul(w, sym_of(i), columns), sym_of(j));
    st_loop_update(b, acc, load(x, at), is_arg ? st_loop_index(b, sym_of(j)) : 0,
                   is_masked ? load(on, at) : 0);
    st_loop_close(b);
    store(z, sym_of(i), st_loop_read(b, acc, out));
    store(y, sym_of(i), st_loop_read(b, acc, dtype));
    st_loop_close(b);
    v.tolerance = 1e-5;
    llvm_compare(&v, 4);
    again();
}

Test(llvm_kernels, reductions)
{
    static const uint32_t dtypes[] = {STATOR_F32, STATOR_F64, STATOR_I8,  STATOR_I32,
                                      STATOR_I64, STATOR_U8,  STATOR_U32, STATOR_U64};
    static const uint32_t kinds[] = {ST_ACC_SUM, ST_ACC_MIN, ST_ACC_MAX, ST_ACC_ARGMIN,
                                     ST_ACC_ARGMAX};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            const int is_sum_of_floats = kinds[k] == ST_ACC_SUM && d < 2;
            reduction(kinds[k], dtypes[d], 75,
                      is_sum_of_floats ? LLVM_FILL_NUMBERS : LLVM_FILL_CORNERS, d & 1);
            reduction(kinds[k], dtypes[d], 64, LLVM_FILL_NUMBERS, !(d & 1));
        }
    }
    reduction(ST_ACC_PROD, STATOR_I32, 75, LLVM_FILL_CORNERS, 0);
    reduction(ST_ACC_ANY, STATOR_BOOL, 33, LLVM_FILL_NUMBERS, 0);
    reduction(ST_ACC_ALL, STATOR_BOOL, 2, LLVM_FILL_NUMBERS, 0);
    reduction(ST_ACC_ALL, STATOR_BOOL, 0, LLVM_FILL_NUMBERS, 0);
    reduction(ST_ACC_ARGMAX, STATOR_F32, 0, LLVM_FILL_NUMBERS, 0);
}

/* c[i, j] = sum_k a[i, k] * b[k, j]: a is the same in all lanes. */
Test(llvm_kernels, matrix_product)
{
    loop_world *w = &v.w;
    st_loop_builder *b = &w->b;
    const uint32_t x = loop_in(w, "x", STATOR_F32, loop_int(w, 5 * 19));
    const uint32_t y = loop_in(w, "y", STATOR_F32, loop_int(w, 19 * 37));
    const uint32_t z = loop_out(w, "z", STATOR_F32, loop_int(w, 5 * 37));
    const uint32_t i = vector_axis(loop_int(w, 5), ST_AXIS_PARALLEL, 1, 1);
    const uint32_t j = vector_axis(loop_int(w, 37), 0, 16, 1);
    const uint32_t k = vector_axis(loop_int(w, 19), ST_AXIS_REDUCE, 1, 1);
    b->origin = 5;
    st_loop_open(b, i);
    st_loop_open(b, j);
    const st_loop_ref s = st_loop_acc(b, ST_ACC_SUM, STATOR_F32, 0);
    st_loop_open(b, k);
    const st_loop_ref p = op("mul", load(x, loop_add(w, loop_mul(w, sym_of(i), 19), sym_of(k))),
                             load(y, loop_add(w, loop_mul(w, sym_of(k), 37), sym_of(j))));
    st_loop_update(b, s, p, 0, 0);
    st_loop_close(b);
    store(z, loop_add(w, loop_mul(w, sym_of(i), 37), sym_of(j)), st_loop_read(b, s, STATOR_F32));
    st_loop_close(b);
    st_loop_close(b);
    v.tolerance = 1e-4;
    llvm_compare(&v, 5);
}

/* A running sum: a serial loop, the accumulator read inside it. */
Test(llvm_kernels, running_sum)
{
    loop_world *w = &v.w;
    st_loop_builder *b = &w->b;
    const uint32_t x = loop_in(w, "x", STATOR_F32, loop_int(w, 29 * 21));
    const uint32_t z = loop_out(w, "z", STATOR_F32, loop_int(w, 29 * 21));
    const uint32_t i = vector_axis(loop_int(w, 21), ST_AXIS_PARALLEL, 16, 1);
    const uint32_t j = vector_axis(loop_int(w, 29), ST_AXIS_SERIAL, 1, 1);
    st_loop_open(b, i);
    const st_loop_ref s = st_loop_acc(b, ST_ACC_SUM, STATOR_F32, st_loop_float(b, STATOR_F32, 100));
    st_loop_open(b, j);
    const uint32_t at = loop_add(w, loop_mul(w, sym_of(j), 21), sym_of(i));
    st_loop_update(b, s, load(x, at), 0, 0);
    store(z, at, st_loop_read(b, s, STATOR_F32));
    st_loop_close(b);
    st_loop_close(b);
    llvm_compare(&v, 21);
}

/* A first value in lanes that meet, and an update outside the vector loop. */
Test(llvm_kernels, first_value_in_lanes_and_update_outside)
{
    loop_world *w = &v.w;
    st_loop_builder *b = &w->b;
    const uint32_t x = loop_in(w, "x", STATOR_I32, loop_int(w, 50));
    const uint32_t z = loop_out(w, "z", STATOR_I32, loop_int(w, 2));
    const uint32_t j = vector_axis(loop_int(w, 50), ST_AXIS_REDUCE, 16, 1);
    const st_loop_ref s = st_loop_acc(b, ST_ACC_SUM, STATOR_I32, st_loop_int(b, STATOR_I32, 1000));
    const st_loop_ref m = st_loop_acc(b, ST_ACC_MAX, STATOR_I32, st_loop_int(b, STATOR_I32, 9));
    st_loop_open(b, j);
    st_loop_update(b, s, load(x, sym_of(j)), 0, 0);
    st_loop_update(b, m, load(x, sym_of(j)), 0, 0);
    st_loop_close(b);
    st_loop_update(b, s, st_loop_int(b, STATOR_I32, 7), 0, 0);
    store(z, loop_int(w, 0), st_loop_read(b, s, STATOR_I32));
    store(z, loop_int(w, 1), st_loop_read(b, m, STATOR_I32));
    llvm_compare(&v, 1);
}

/* ---- scratch ---- */

Test(llvm_kernels, scratch_rows)
{
    loop_world *w = &v.w;
    st_loop_builder *b = &w->b;
    const uint32_t x = loop_in(w, "x", STATOR_F32, loop_int(w, 6 * 37));
    const uint32_t z = loop_out(w, "z", STATOR_F32, loop_int(w, 6 * 37));
    const uint32_t t = st_loop_buffer_add(b, "t", STATOR_F32, loop_int(w, 37),
                                          ST_BUFFER_LOCAL | ST_BUFFER_READ | ST_BUFFER_WRITTEN, 0);
    const uint32_t i = vector_axis(loop_int(w, 6), ST_AXIS_PARALLEL, 1, 1);
    st_loop_open(b, i);
    const uint32_t base = loop_mul(w, sym_of(i), 37);
    const uint32_t j = vector_axis(loop_int(w, 37), 0, 16, 1);
    st_loop_open(b, j);
    const st_loop_ref value = load(x, loop_add(w, base, sym_of(j)));
    store(t, sym_of(j), op("mul", value, value));
    st_loop_close(b);
    const uint32_t k = vector_axis(loop_int(w, 37), 0, 16, 1);
    st_loop_open(b, k);
    const uint32_t back = loop_add(w, loop_int(w, 36), loop_mul(w, sym_of(k), -1));
    store(z, loop_add(w, base, sym_of(k)), load(t, back));
    st_loop_close(b);
    st_loop_close(b);
    llvm_compare(&v, 6);
}

/* Columns in lanes, scratch over the rows: each lane needs its own. */
Test(llvm_kernels, scratch_of_vectorized_columns_is_per_lane)
{
    for (int64_t columns = 21; columns <= 32; columns += 11) {
        loop_world *w = &v.w;
        st_loop_builder *b = &w->b;
        const uint32_t x = loop_in(w, "x", STATOR_F32, loop_int(w, 9 * columns));
        const uint32_t z = loop_out(w, "z", STATOR_F32, loop_int(w, 9 * columns));
        const uint32_t t =
            st_loop_buffer_add(b, "t", STATOR_F32, loop_int(w, 9),
                               ST_BUFFER_LOCAL | ST_BUFFER_READ | ST_BUFFER_WRITTEN, 0);
        const uint32_t i = vector_axis(loop_int(w, columns), ST_AXIS_PARALLEL, 16, 1);
        st_loop_open(b, i);
        const st_loop_ref s = st_loop_acc(b, ST_ACC_SUM, STATOR_F32, 0);
        const uint32_t j = vector_axis(loop_int(w, 9), ST_AXIS_REDUCE, 1, 1);
        st_loop_open(b, j);
        const st_loop_ref value = load(x, loop_add(w, loop_mul(w, sym_of(j), columns), sym_of(i)));
        store(t, sym_of(j), op("mul", value, value));
        st_loop_update(b, s, value, 0, 0);
        st_loop_close(b);
        const st_loop_ref sum = st_loop_read(b, s, STATOR_F32);
        const uint32_t k = vector_axis(loop_int(w, 9), 0, 1, 1);
        st_loop_open(b, k);
        const uint32_t back = loop_add(w, loop_int(w, 8), loop_mul(w, sym_of(k), -1));
        store(z, loop_add(w, loop_mul(w, sym_of(k), columns), sym_of(i)),
              op("sub", load(t, back), sum));
        st_loop_close(b);
        st_loop_close(b);
        llvm_compare(&v, columns);
        again();
    }
}

/* ---- streamed outputs ---- */

static void streamed(uint32_t misalign)
{
    loop_world *w = &v.w;
    const uint32_t n = loop_int(w, 1000);
    const uint32_t x = loop_in(w, "x", STATOR_F32, n);
    const uint32_t z = loop_out(w, "z", STATOR_F32, n);
    w->kernel.buffers.data[z].flags |= ST_BUFFER_STREAMED;
    const uint32_t i = vector_axis(n, ST_AXIS_PARALLEL, 16, 1);
    st_loop_open(&w->b, i);
    store(z, sym_of(i), op("neg", load(x, sym_of(i)), 0));
    st_loop_close(&w->b);
    v.misalign = misalign;
    llvm_compare(&v, 1000);
    again();
}

Test(llvm_kernels, streaming_stores)
{
    streamed(0);
    streamed(4);
    streamed(16);
}

enum rows_kind {
    ROWS_PLAIN = 0,
    ROWS_FLIPPED, /* the last loop walks t backwards, so that it cannot run beside the one before */
    ROWS_CHOSEN   /* it takes the row of w that the data names: nor can it then */
};

/* out[r, j] = (t[r, j] - sum of t[r, ..]) * w[j] with t = x * x, and a loop over t in between. */
static void streamed_rows(int64_t rows, int64_t columns, enum rows_kind kind)
{
    loop_world *w = &v.w;
    st_loop_builder *b = &w->b;
    const uint32_t n = loop_int(w, columns);
    const uint32_t x = loop_in(w, "x", STATOR_F32, loop_int(w, rows * columns));
    const uint32_t scale = loop_in(w, "w", STATOR_F32, loop_int(w, 16 * columns));
    const uint32_t names = loop_in(w, "names", STATOR_I64, loop_int(w, rows));
    const uint32_t z = loop_out(w, "z", STATOR_F32, loop_int(w, rows * columns));
    const uint32_t t = st_loop_buffer_add(b, "t", STATOR_F32, n,
                                          ST_BUFFER_LOCAL | ST_BUFFER_READ | ST_BUFFER_WRITTEN, 0);
    w->kernel.buffers.data[z].flags |= ST_BUFFER_STREAMED;
    v.fill[names] = LLVM_FILL_INDICES;
    const uint32_t i = vector_axis(loop_int(w, rows), ST_AXIS_PARALLEL, 1, 1);
    st_loop_open(b, i);
    const uint32_t row = loop_mul(w, sym_of(i), columns);
    const uint32_t chosen =
        kind == ROWS_CHOSEN ? loop_mul(w, st_loop_bind(b, load(names, sym_of(i)), 0, 15), columns)
                            : loop_int(w, 0);
    const st_loop_ref sum = st_loop_acc(b, ST_ACC_SUM, STATOR_F32, 0);
    const uint32_t j = vector_axis(n, ST_AXIS_REDUCE, 16, 2);
    st_loop_open(b, j);
    const st_loop_ref value = load(x, loop_add(w, row, sym_of(j)));
    const st_loop_ref square = op("mul", value, value);
    store(t, sym_of(j), square);
    st_loop_update(b, sum, square, 0, 0);
    st_loop_close(b);
    const st_loop_ref total = st_loop_read(b, sum, STATOR_F32);
    const st_loop_ref most = st_loop_acc(b, ST_ACC_MAX, STATOR_F32, 0);
    const uint32_t k = vector_axis(n, ST_AXIS_REDUCE, 16, 1);
    st_loop_open(b, k);
    st_loop_update(b, most, op("sub", load(t, sym_of(k)), total), 0, 0);
    st_loop_close(b);
    const st_loop_ref top = st_loop_read(b, most, STATOR_F32);
    const uint32_t l = vector_axis(n, 0, 16, 1);
    st_loop_open(b, l);
    const uint32_t back = loop_add(w, loop_int(w, columns - 1), loop_mul(w, sym_of(l), -1));
    const st_loop_ref shifted = op("sub", load(t, kind == ROWS_FLIPPED ? back : sym_of(l)), total);
    store(z, loop_add(w, row, sym_of(l)),
          op("mul", op("sub", shifted, top), load(scale, loop_add(w, chosen, sym_of(l)))));
    st_loop_close(b);
    st_loop_close(b);
    v.tolerance = 1e-4; /* sums in another order */
    llvm_compare(&v, rows);
    again();
}

Test(llvm_kernels, streaming_stores_of_contiguous_rows)
{
    static const int64_t columns[] = {16, 64, 83, 7};
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
        for (int64_t rows = 1; rows <= 5; rows += 2) {
            streamed_rows(rows, columns[c], ROWS_PLAIN);
            streamed_rows(rows, columns[c], ROWS_FLIPPED);
            streamed_rows(rows, columns[c], ROWS_CHOSEN);
        }
    }
}
