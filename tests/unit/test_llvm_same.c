/* Kernels that are the same code are found, and nothing else is: names, buffer ids and axes may
 * differ, what is computed may not. */
#include "plugins/cpu-llvm/cpu_same.h"
#include "support_loop.h"

#include <criterion/criterion.h>

#define COUNT 8u

typedef struct variant {
    int64_t extent;
    int64_t stride;
    const char *op;
    uint32_t lanes;
    uint32_t dtype;
    uint32_t check; /* origin of a CHECK instruction, 0: none */
    int swaps;      /* the index' terms in another order */
} variant;

static uint32_t index_of(loop_world *w, const variant *how, uint32_t i, uint32_t j)
{
    const uint32_t row = loop_mul(w, i, how->stride);
    return how->swaps ? loop_add(w, j, row) : loop_add(w, row, j);
}

static void build(loop_world *w, st_kernel *kernel, const char *name, const variant *how)
{
    st_loop_builder b;
    cr_assert(st_kernel_init(kernel, &w->mem, &w->syms, name));
    st_loop_builder_init(&b, kernel);
    const uint32_t numel = loop_int(w, 4096);
    const uint32_t x = st_loop_buffer_add(&b, name, how->dtype, numel, ST_BUFFER_READ, 7);
    const uint32_t z = st_loop_buffer_add(&b, name, how->dtype, numel, ST_BUFFER_WRITTEN, 8);
    const uint32_t i0 = st_loop_axis_add(&b, loop_int(w, 4), ST_AXIS_PARALLEL);
    const uint32_t i1 = st_loop_axis_add(&b, loop_int(w, how->extent), ST_AXIS_VECTOR);
    kernel->axes.data[i1].lanes = how->lanes;
    st_loop_open(&b, i0);
    st_loop_open(&b, i1);
    const uint32_t at = index_of(w, how, kernel->axes.data[i0].sym, kernel->axes.data[i1].sym);
    const st_loop_ref value = st_loop_load(&b, x, at, 0, 0);
    if (how->check) {
        b.origin = how->check;
        st_loop_check(&b, st_loop_apply(&b, ST_LOOP_eq, 0, value, value, 0), 0);
        b.origin = 0;
    }
    st_loop_store(&b, z, at, st_loop_apply(&b, st_loop_find(how->op), 0, value, 0, 0), 0);
    st_loop_close(&b);
    st_loop_close(&b);
    st_loop_builder_deinit(&b);
    loop_must_verify(kernel);
}

static void expect(const variant *variants, uint32_t n, const uint32_t *expected)
{
    loop_world w;
    st_kernel kernels[COUNT];
    const st_kernel *list[COUNT];
    uint32_t first[COUNT];
    loop_world_init(&w, "unused");
    for (uint32_t k = 0; k < n; k++) {
        char name[] = "a";
        name[0] = (char)('a' + k);
        build(&w, &kernels[k], name, &variants[k]);
        list[k] = &kernels[k];
    }
    cr_assert_eq(cpu_same_kernels(&w.mem, list, n, first), STATOR_OK);
    for (uint32_t k = 0; k < n; k++) {
        cr_assert_eq(first[k], expected[k], "kernel %u is taken for %u, expected %u", k, first[k],
                     expected[k]);
    }
    for (uint64_t at = 1; at < 200; at++) { /* each allocation fails once; nothing is left behind */
        const uint64_t blocks = w.mem.live_blocks;
        w.mem.fail_at = w.mem.requests + at;
        const stator_status status = cpu_same_kernels(&w.mem, list, n, first);
        cr_assert(status == STATOR_OK || status == STATOR_RESOURCE_EXHAUSTED);
        w.mem.fail_at = 0;
        cr_assert_eq(w.mem.live_blocks, blocks);
    }
    for (uint32_t k = 0; k < n; k++) {
        st_kernel_deinit(&kernels[k]);
    }
    loop_world_deinit(&w);
}

Test(llvm_same, equal_kernels_share_one_body)
{
    static const variant variants[] = {{64, 64, "neg", 16, STATOR_F32, 0, 0},
                                       {64, 64, "neg", 16, STATOR_F32, 0, 1},
                                       {64, 64, "abs", 16, STATOR_F32, 0, 0},
                                       {64, 64, "neg", 16, STATOR_F32, 0, 0},
                                       {64, 64, "abs", 16, STATOR_F32, 0, 1}};
    static const uint32_t expected[] = {0, 0, 2, 0, 2};
    expect(variants, 5, expected);
}

Test(llvm_same, different_kernels_keep_their_own_bodies)
{
    static const variant variants[] = {
        {64, 64, "neg", 16, STATOR_F32, 0, 0}, {64, 65, "neg", 16, STATOR_F32, 0, 0},
        {60, 64, "neg", 16, STATOR_F32, 0, 0}, {64, 64, "neg", 8, STATOR_F32, 0, 0},
        {64, 64, "neg", 16, STATOR_F64, 0, 0}, {64, 64, "neg", 16, STATOR_F32, 3, 0},
        {64, 64, "neg", 16, STATOR_F32, 4, 0}, {64, 64, "floor", 16, STATOR_F32, 0, 0}};
    static const uint32_t expected[] = {0, 1, 2, 3, 4, 5, 6, 7};
    expect(variants, 8, expected);
}
