/* Every scalar op of the loop IR in every dtype, in lanes and without, on values from the corners
 * of the dtype, against the oracle; every cast; values that are seldom computed. */
#include "core/base/check.h"
#include "llvm_support.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define COUNT 173 /* elements: whole vectors and a rest */

static llvm_world v;

static void begin(const char *name)
{
    llvm_world_init(&v, name);
}

static void end(void)
{
    llvm_world_deinit(&v);
}

static const uint32_t dtypes[] = {STATOR_BOOL, STATOR_I8,  STATOR_I16, STATOR_I32,
                                  STATOR_I64,  STATOR_U8,  STATOR_U16, STATOR_U32,
                                  STATOR_U64,  STATOR_F32, STATOR_F64};
static const uint32_t storage[] = {STATOR_BF16, STATOR_F16, STATOR_F8E4M3FN, STATOR_F8E5M2};
#define DTYPE_COUNT (sizeof dtypes / sizeof dtypes[0])
#define STORAGE_COUNT (sizeof storage / sizeof storage[0])

static uint32_t open_loop(uint32_t lanes)
{
    loop_world *w = &v.w;
    const uint32_t axis = st_loop_axis_add(&w->b, loop_int(w, COUNT),
                                           ST_AXIS_PARALLEL | (lanes > 1 ? ST_AXIS_VECTOR : 0u));
    w->kernel.axes.data[axis].lanes = lanes;
    st_loop_open(&w->b, axis);
    return loop_axis(w, axis);
}

/* Operand k of the op: shifts get a count that is in range. */
static st_loop_ref operand(uint32_t code, uint32_t dtype, uint32_t k, uint32_t buffer, uint32_t at)
{
    st_loop_builder *b = &v.w.b;
    const st_loop_ref x = st_loop_load(b, buffer, at, 0, 0);
    if (k == 1 && (code == ST_LOOP_shift_left || code == ST_LOOP_shift_right)) {
        const int64_t bits = (int64_t)st_dtype_bits(dtype);
        return st_loop_apply(b, ST_LOOP_bit_and, 0, x, st_loop_int(b, dtype, bits - 1), 0);
    }
    if (k == 1 && code == ST_LOOP_ldexp) { /* whole, and not far out */
        return st_loop_cast(b, dtype, st_loop_index(b, loop_add(&v.w, at, loop_int(&v.w, -80))));
    }
    if (k == 1 && code == ST_LOOP_quot) {
        return st_loop_int(b, dtype, 7);
    }
    return x;
}

/* z = op(x, y, w) for one dtype; select's first operand is a bool. */
static void scalar(uint32_t code, uint32_t dtype, uint32_t lanes, uint32_t how)
{
    static const char *const names[] = {"x", "y", "w"};
    const st_loop_op_desc *desc = st_loop_desc(code);
    st_loop_ref args[3] = {0, 0, 0};
    uint32_t buffers[3];
    char name[64];
    (void)snprintf(name, sizeof name, "%s_%s_%u", desc->name, st_dtype_name(dtype), lanes);
    begin(name);
    loop_world *w = &v.w;
    for (uint32_t k = 0; k < desc->arity; k++) {
        const uint32_t of = code == ST_LOOP_select && k == 0 ? STATOR_BOOL : dtype;
        buffers[k] = loop_in(w, names[k], of, loop_int(w, COUNT));
        v.fill[buffers[k]] = how;
    }
    const uint32_t out = desc->result == ST_LOOP_BOOL ? (uint32_t)STATOR_BOOL : dtype;
    const uint32_t z = loop_out(w, "z", out, loop_int(w, COUNT));
    const uint32_t at = open_loop(lanes);
    for (uint32_t k = 0; k < desc->arity; k++) {
        args[k] = operand(code, dtype, k, buffers[k], at);
    }
    st_loop_store(&w->b, z, at, st_loop_apply(&w->b, code, 0, args[0], args[1], args[2]), 0);
    st_loop_close(&w->b);
    /* Functions: the row's bound and half an ulp of the judge; SLEEF's bound is one. */
    v.max_ulp = desc->libm || desc->ulp ? 3 : 0;
    llvm_compare(&v, COUNT);
    end();
}

static int is_conversion(uint32_t code)
{
    return code == ST_LOOP_cast || code == ST_LOOP_bitcast;
}

static void all_scalars(uint32_t lanes, uint32_t how, int want_functions)
{
    for (uint32_t code = ST_LOOP_FIRST_SCALAR; code < ST_LOOP_CODE_COUNT; code++) {
        const st_loop_op_desc *desc = st_loop_desc(code);
        const int is_function = desc->libm != NULL;
        const int is_narrow = desc->expand_bf16 != NULL; /* no CPU has it, see test_loop_narrow */
        for (size_t d = 0; d < DTYPE_COUNT && !is_narrow; d++) {
            if ((desc->on & st_loop_class_of(dtypes[d])) && !is_conversion(code) &&
                is_function == want_functions) {
                scalar(code, dtypes[d], lanes, how);
            }
        }
    }
}

Test(llvm_scalars, every_op_in_16_lanes)
{
    all_scalars(16, LLVM_FILL_CORNERS, 0);
}

Test(llvm_scalars, every_op_in_one_lane)
{
    all_scalars(1, LLVM_FILL_CORNERS, 0);
}

Test(llvm_scalars, math_functions_in_16_lanes)
{
    all_scalars(16, LLVM_FILL_NUMBERS, 1);
    all_scalars(16, LLVM_FILL_CORNERS, 1);
}

Test(llvm_scalars, math_functions_in_one_lane)
{
    all_scalars(1, LLVM_FILL_NUMBERS, 1);
}

/* More lanes than a register, and fewer: pieces of vector functions, and lane by lane. */
Test(llvm_scalars, math_functions_of_odd_widths)
{
    scalar(ST_LOOP_atan2, STATOR_F32, 64, LLVM_FILL_NUMBERS);
    scalar(ST_LOOP_atan2, STATOR_F64, 32, LLVM_FILL_NUMBERS);
    scalar(ST_LOOP_pow, STATOR_F32, 2, LLVM_FILL_NUMBERS);
    scalar(ST_LOOP_pow, STATOR_F64, 2, LLVM_FILL_NUMBERS);
    scalar(ST_LOOP_rem, STATOR_F64, 4, LLVM_FILL_NUMBERS);
    scalar(ST_LOOP_lgamma, STATOR_F32, 8, LLVM_FILL_NUMBERS);
}

/* ---- casts ---- */

static void cast(uint32_t from, uint32_t to, uint32_t lanes, uint32_t code)
{
    char name[64];
    (void)snprintf(name, sizeof name, "cast_%s_%s_%u", st_dtype_name(from), st_dtype_name(to),
                   lanes);
    begin(name);
    loop_world *w = &v.w;
    const uint32_t x = loop_in(w, "x", from, loop_int(w, COUNT));
    const uint32_t z = loop_out(w, "z", to, loop_int(w, COUNT));
    v.fill[x] = LLVM_FILL_CORNERS;
    const uint32_t at = open_loop(lanes);
    const st_loop_ref value = st_loop_load(&w->b, x, at, 0, 0);
    st_loop_store(&w->b, z, at, st_loop_apply(&w->b, code, to, value, 0, 0), 0);
    st_loop_close(&w->b);
    llvm_compare(&v, COUNT);
    end();
}

static uint32_t dtype_at(size_t i)
{
    return i < DTYPE_COUNT ? dtypes[i] : storage[i - DTYPE_COUNT];
}

static void casts(uint32_t lanes)
{
    for (size_t i = 0; i < DTYPE_COUNT + STORAGE_COUNT; i++) {
        for (size_t j = 0; j < DTYPE_COUNT + STORAGE_COUNT; j++) {
            if (i != j) {
                cast(dtype_at(i), dtype_at(j), lanes, ST_LOOP_cast);
            }
        }
    }
}

Test(llvm_scalars, casts_in_lanes)
{
    casts(16);
}

Test(llvm_scalars, casts_in_one_lane)
{
    casts(1);
}

Test(llvm_scalars, bitcasts)
{
    cast(STATOR_F32, STATOR_I32, 16, ST_LOOP_bitcast);
    cast(STATOR_U32, STATOR_F32, 16, ST_LOOP_bitcast);
    cast(STATOR_F64, STATOR_I64, 8, ST_LOOP_bitcast);
    cast(STATOR_I64, STATOR_F64, 1, ST_LOOP_bitcast);
    cast(STATOR_BF16, STATOR_U16, 16, ST_LOOP_bitcast);
    cast(STATOR_U8, STATOR_F8E5M2, 16, ST_LOOP_bitcast);
    cast(STATOR_U8, STATOR_I8, 64, ST_LOOP_bitcast);
}

/* ---- compile tiers and vector widths ---- */

Test(llvm_scalars, widths_and_tiers)
{
    static const uint32_t widths[] = {16, 32, 64};
    for (uint32_t tier = JIT_TIER_FAST; tier <= JIT_TIER_DEFAULT; tier++) {
        for (size_t i = 0; i < 3; i++) {
            begin("sigmoid_sinh");
            loop_world *w = &v.w;
            v.inst.settings.tier = tier;
            v.inst.settings.vector_bytes = widths[i];
            cpu_emitter_init(&v.inst);
            const uint32_t x = loop_in(w, "x", STATOR_F32, loop_int(w, COUNT));
            const uint32_t z = loop_out(w, "z", STATOR_F32, loop_int(w, COUNT));
            const uint32_t at = open_loop(widths[i] / 4u);
            const st_loop_ref value = st_loop_load(&w->b, x, at, 0, 0);
            const st_loop_ref s = loop_op(w, "sinh", loop_op(w, "sigmoid", value, 0, 0), 0, 0);
            st_loop_store(&w->b, z, at, s, 0);
            st_loop_close(&w->b);
            v.max_ulp = 4;
            llvm_compare(&v, COUNT);
            end();
        }
    }
}
