/* Kernels with random faults: verification refuses them, or they print, expand and run without
 * touching memory that is not theirs (the sanitizer judges). Seeds: STATOR_TEST_SEED, rounds:
 * STATOR_TEST_ROUNDS. */
#include "codegen/loopir/loop_c.h"
#include "codegen/loopir/loop_expand.h"
#include "core/base/diag.h"
#include "support_loop.h"
#include "support_sym.h"
#include "tests/oracle/loop_oracle.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define ROUNDS 4000
#define BYTES 4096 /* of each buffer: more than any size below asks for */

static uint64_t state;

static uint32_t below(uint32_t n)
{
    return (uint32_t)test_random_in(&state, 0, (int64_t)n - 1);
}

/* Rows of most codes: a reduction and its argmax, a gather, a histogram, scratch, a scan, functions
 * with rare blocks. */
static void build(loop_world *w)
{
    const uint32_t n = loop_size(w, "N");
    const uint32_t m = loop_size(w, "M");
    const uint32_t nm = st_sym_mul(&w->syms.tab, n, m);
    const uint32_t x = loop_in(w, "x", STATOR_F32, nm);
    const uint32_t index = loop_in(w, "index", STATOR_I64, n);
    const uint32_t y = loop_out(w, "y", STATOR_F32, nm);
    const uint32_t h = loop_out(w, "h", STATOR_I32, loop_int(w, 8));
    const uint32_t k = loop_out(w, "k", STATOR_I64, n);
    const uint32_t t = st_loop_buffer_add(&w->b, "t", STATOR_F32, loop_int(w, 16),
                                          ST_BUFFER_LOCAL | ST_BUFFER_READ | ST_BUFFER_WRITTEN, 0);
    const uint32_t i = st_loop_axis_add(&w->b, n, ST_AXIS_PARALLEL);
    const uint32_t j = st_loop_axis_add(&w->b, m, ST_AXIS_REDUCE | ST_AXIS_VECTOR);
    const uint32_t s = st_loop_axis_add(&w->b, m, ST_AXIS_SERIAL);
    const uint32_t row = st_sym_mul(&w->syms.tab, loop_axis(w, i), m);
    st_loop_open(&w->b, i);
    const st_loop_ref at = st_loop_load(&w->b, index, loop_axis(w, i), 0, 0);
    const st_loop_ref ok =
        st_loop_both(&w->b, loop_op(w, "ge", at, st_loop_int(&w->b, STATOR_I64, 0), 0),
                     loop_op(w, "lt", at, st_loop_int(&w->b, STATOR_I64, 8), 0));
    st_loop_check(&w->b, ok, 0);
    const uint32_t bound = st_loop_bind(&w->b, at, 0, 7);
    st_loop_store(&w->b, h, bound, st_loop_int(&w->b, STATOR_I32, 1), ok);
    const st_loop_ref sum = st_loop_acc(&w->b, ST_ACC_SUM, STATOR_F32, 0);
    const st_loop_ref best = st_loop_acc(&w->b, ST_ACC_ARGMAX, STATOR_F32, 0);
    st_loop_open(&w->b, j);
    const st_loop_ref v = st_loop_load(&w->b, x, loop_add(w, row, loop_axis(w, j)), 0, 0);
    st_loop_update(&w->b, sum, loop_op(w, "sin", v, 0, 0), 0, 0);
    st_loop_update(&w->b, best, v, st_loop_index(&w->b, loop_axis(w, j)), 0);
    st_loop_close(&w->b);
    const st_loop_ref total = st_loop_read(&w->b, sum, STATOR_F32);
    st_loop_store(&w->b, t, bound, total, ok);
    st_loop_store(&w->b, k, loop_axis(w, i), st_loop_read(&w->b, best, STATOR_I64), 0);
    const st_loop_ref last = st_loop_acc(&w->b, ST_ACC_LAST, STATOR_F32, total);
    st_loop_open(&w->b, s);
    const uint32_t position = loop_add(w, row, loop_axis(w, s));
    const st_loop_ref next = loop_op(w, "exp", st_loop_read(&w->b, last, STATOR_F32), 0, 0);
    st_loop_update(&w->b, last, next, 0, ok);
    st_loop_store(&w->b, y, position, loop_op(w, "log", next, 0, 0), 0);
    st_loop_close(&w->b);
    st_loop_close(&w->b);
}

/* A number that may pass: mostly one that occurs nearby. */
static uint32_t some_number(uint32_t old, uint32_t count)
{
    switch (below(5)) {
    case 0:
        return below(count + 2u);
    case 1:
        return old + 1u;
    case 2:
        return old - 1u;
    case 3:
        return 0;
    default:
        return below(4) ? below(count + 2u) : (uint32_t)test_random(&state);
    }
}

static void break_op(st_kernel *kernel, uint32_t n_syms)
{
    st_loop_inst *op = &kernel->insts.data[below(kernel->insts.count)];
    uint32_t *ref_fields[] = {&op->args[0], &op->args[1], &op->args[2], &op->next};
    switch (below(9)) {
    case 0:
        op->code = (uint16_t)some_number(op->code, ST_LOOP_CODE_COUNT);
        break;
    case 1:
        op->dtype = (uint8_t)some_number(op->dtype, STATOR_DTYPE_COUNT);
        break;
    case 2:
        op->ref = some_number(op->ref, 8);
        break;
    case 3:
        op->sym = some_number(op->sym, n_syms);
        break;
    case 4:
        op->body = some_number(op->body, kernel->blocks.count);
        break;
    case 5:
        op->block = some_number(op->block, kernel->blocks.count);
        break;
    case 6:
        op->imm.i = (int64_t)test_random(&state) >> below(64);
        break;
    default: {
        uint32_t *field = ref_fields[below(4)];
        *field = some_number(*field, kernel->insts.count);
        break;
    }
    }
}

static void break_rest(st_kernel *kernel, uint32_t n_syms)
{
    st_loop_axis *axis = &kernel->axes.data[below(kernel->axes.count)];
    st_loop_buffer *buffer = &kernel->buffers.data[below(kernel->buffers.count)];
    st_loop_block *block = &kernel->blocks.data[below(kernel->blocks.count)];
    uint32_t *fields[] = {&axis->sym,     &axis->symbol,  &axis->extent, &axis->flags,
                          &axis->block,   &axis->lanes,   &axis->unroll, &buffer->dtype,
                          &buffer->flags, &buffer->numel, &block->first, &block->last,
                          &block->loop,   &block->depth};
    const uint32_t which = below(sizeof fields / sizeof fields[0]);
    const uint32_t counts[] = {n_syms,
                               8,
                               n_syms,
                               16,
                               8,
                               32,
                               8,
                               STATOR_DTYPE_COUNT,
                               32,
                               n_syms,
                               kernel->insts.count,
                               kernel->insts.count,
                               kernel->insts.count,
                               8};
    *fields[which] = some_number(*fields[which], counts[which]);
}

/* Memory for one buffer; what it holds is within what the sizes below allow. */
static uint64_t memory[8][BYTES / 8];

static int buffers_fit(const loop_world *w, const int64_t *sizes)
{
    const st_sym_cols cols = st_sym_columns(&w->syms.tab);
    int64_t env[32];
    for (uint32_t i = 0; i < 32; i++) {
        env[i] = i < 2 ? sizes[i] : INT64_MIN; /* N and M are the first symbols */
    }
    for (uint32_t i = 0; i < w->kernel.buffers.count; i++) {
        int64_t numel = 0;
        if (!st_sym_eval(&cols, w->kernel.buffers.data[i].numel, env, &numel) ||
            numel > BYTES / 8) {
            return 0;
        }
    }
    return 1;
}

static void fill_memory(void)
{
    for (uint32_t i = 0; i < 8; i++) {
        for (uint32_t k = 0; k < BYTES / 8; k++) {
            memory[i][k] = i == 1 ? below(9) : test_random(&state) & 0x7f0000007f000000u;
        }
    }
}

static void run(const st_kernel *kernel, const int64_t *sizes)
{
    void *buffers[8];
    uint32_t status = 0;
    const st_kernel_args args = {buffers, sizes, &status};
    stator_diag *err = NULL;
    fill_memory();
    for (uint32_t i = 0; i < 8; i++) {
        buffers[i] = i < kernel->buffers.count && (kernel->buffers.data[i].flags & ST_BUFFER_LOCAL)
                         ? NULL
                         : memory[i];
    }
    (void)loop_oracle_run(kernel, &args, 0, sizes[0], &err);
    st_diag_release(err);
}

/* 1: the kernel passed verification. */
static int try_kernel(loop_world *w)
{
    const int64_t sizes[2] = {3, 5};
    stator_diag *err = NULL;
    st_kernel out;
    st_str text;
    st_str_init(&text, &w->mem);
    st_kernel_print(&w->kernel, &text);
    const int passes = st_kernel_verify(&w->kernel, &err) == STATOR_OK && buffers_fit(w, sizes);
    if (passes) {
        run(&w->kernel, sizes);
        cr_assert_eq(st_loop_expand(&w->kernel, NULL, &out, &err), STATOR_OK, "%s\n%s",
                     st_diag_text(err), text.data);
        cr_assert_eq(st_kernel_verify(&out, &err), STATOR_OK, "%s\n%s", st_diag_text(err),
                     text.data);
        st_loop_c_print(&out, "k", &text);
        run(&out, sizes);
        st_kernel_deinit(&out);
    }
    st_diag_release(err);
    st_str_deinit(&text);
    return passes;
}

Test(loop_hostile, mutated_kernels_are_refused_or_harmless)
{
    const char *rounds = getenv("STATOR_TEST_ROUNDS");
    const uint32_t n = rounds ? (uint32_t)strtoul(rounds, NULL, 10) : ROUNDS;
    const uint64_t seed = test_seed(0x10091e);
    uint32_t n_passed = 0;
    for (uint32_t i = 0; i < n; i++) {
        loop_world w;
        state = seed + i;
        loop_world_init(&w, "mutant");
        build(&w);
        const uint32_t faults = 1u + below(3);
        for (uint32_t f = 0; f < faults; f++) {
            if (below(3)) {
                break_op(&w.kernel, w.syms.tab.syms.count);
            } else {
                break_rest(&w.kernel, w.syms.tab.syms.count);
            }
        }
        n_passed += (uint32_t)try_kernel(&w);
        loop_world_deinit(&w);
    }
    cr_expect(n_passed > n / 100u, "%u of %u mutants pass verification: too few to tell", n_passed,
              n);
}
