/* Unroll and jam (codegen/schedule/cpu/unroll_and_jam.c), alone: which kernels it leaves as they
 * are. What it makes of the others is in tests/golden/codegen. */
#include "codegen/schedule/cpu/cpu_schedule.h"
#include "support_loop.h"

#include <criterion/criterion.h>

static loop_world w;

static void begin(void)
{
    loop_world_init(&w, "k");
}

static void end(void)
{
    loop_world_deinit(&w);
}

TestSuite(unroll_and_jam, .init = begin, .fini = end);

static uint32_t loop_open(int64_t extent, uint32_t flags, uint32_t lanes)
{
    const uint32_t axis = st_loop_axis_add(&w.b, loop_int(&w, extent), flags);
    w.kernel.axes.data[axis].lanes = lanes;
    st_loop_open(&w.b, axis);
    return loop_axis(&w, axis);
}

/* out[i, j] = op(the sum over k of x[i, k] * y[k, j]); returns the instruction of op. */
static st_loop_ref product(const char *op)
{
    const uint32_t x = loop_in(&w, "x", STATOR_F32, loop_int(&w, 24 * 8));
    const uint32_t y = loop_in(&w, "y", STATOR_F32, loop_int(&w, 8 * 64));
    const uint32_t out = loop_out(&w, "out", STATOR_F32, loop_int(&w, 24 * 64));
    const uint32_t i = loop_open(24, ST_AXIS_PARALLEL, 1);
    const uint32_t j = loop_open(64, ST_AXIS_VECTOR, 16);
    const st_loop_ref sum = st_loop_acc(&w.b, ST_ACC_SUM, STATOR_F32, 0);
    const uint32_t k = loop_open(8, ST_AXIS_REDUCE, 1);
    const st_loop_ref a = st_loop_load(&w.b, x, loop_add(&w, loop_mul(&w, i, 8), k), 0, 0);
    const st_loop_ref b = st_loop_load(&w.b, y, loop_add(&w, loop_mul(&w, k, 64), j), 0, 0);
    st_loop_update(&w.b, sum, loop_op(&w, "mul", a, b, 0), 0, 0);
    st_loop_close(&w.b);
    const st_loop_ref made = loop_op(&w, op, st_loop_read(&w.b, sum, STATOR_F32), 0, 0);
    st_loop_store(&w.b, out, loop_add(&w, loop_mul(&w, i, 64), j), made, 0);
    st_loop_close(&w.b);
    st_loop_close(&w.b);
    return made;
}

/* Instructions of this code in the kernel after it. */
static uint32_t count_after_unroll_and_jam(const char *op, int64_t imm)
{
    const st_target target = {.struct_size = sizeof target, .vector_bytes = 64};
    stator_diag *err = NULL;
    uint32_t n = 0;
    loop_must_verify(&w.kernel);
    cr_assert_eq(cg_unroll_and_jam(&target, &w.kernel, &err), STATOR_OK, "%s", st_diag_text(err));
    loop_must_verify(&w.kernel);
    for (st_loop_ref ref = 1; ref < w.kernel.insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(&w.kernel, ref);
        n += inst->code == st_loop_find(op);
        cr_expect(inst->code != st_loop_find(op) || inst->imm.i == imm,
                  "instruction %u has lost its number", ref);
    }
    return n;
}

Test(unroll_and_jam, op_is_copied_in_each_unrolled_step)
{
    (void)product("neg");
    cr_expect_gt(count_after_unroll_and_jam("neg", 0), 1);
}

Test(unroll_and_jam, lookup_with_a_table_is_not_copied)
{
    const st_loop_ref lookup = product("lookup");
    w.kernel.insts.data[lookup].imm.i = 1;
    cr_expect_eq(count_after_unroll_and_jam("lookup", 1), 1);
}
