/* Kernels mapped onto blocks of threads and printed for a GPU do on the software device what the
 * oracle does: accumulators that threads update in part, in steps and in several loops, memory that
 * one thread writes and another reads. Values are whole, so that any order of sums gives the same
 * bits. */
#include "codegen/gpu/gpu_kernel.h"
#include "codegen/loopir/loop_expand.h"
#include "core/base/diag.h"
#include "support_loop.h"
#include "tests/oracle/loop_oracle.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 64u
#define BLOCKS 3
#define ROW 150
#define BUFFERS_MAX 4u

/* ---- the software device, by the names of the CUDA driver and NVRTC ---- */

typedef struct device {
    void *cuda, *nvrtc;
} device;

typedef int (*call_1)(void *);
typedef int (*call_2)(void *, uint64_t);
typedef int (*call_free)(uint64_t);
typedef int (*call_copy)(uint64_t, uint64_t, uint64_t, void *);
typedef int (*call_create)(void **, const char *, const char *, int, const char *const *,
                           const char *const *);
typedef int (*call_compile)(void *, int, const char *const *);
typedef int (*call_get)(void *, void *);
typedef int (*call_function)(void **, void *, const char *);
typedef int (*call_launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                           unsigned, void *, void **, void **);

static device gpu;
static uint64_t shift; /* bytes from where memory is aligned to where buffers begin */

/* A function of the library as a pointer of the wanted type. */
#define FIND(library, type, name) (*(type *)&(void *){find((library), (name))})

static void *find(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    cr_assert_not_null(symbol, "%s", name);
    return symbol;
}

static void open_device(void)
{
    void *context = NULL;
    gpu.cuda = dlopen(ST_TEST_BUILD "/tests/softgpu/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    gpu.nvrtc = dlopen(ST_TEST_BUILD "/tests/softgpu/libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
    cr_assert(gpu.cuda && gpu.nvrtc, "%s", dlerror());
    cr_assert_eq(FIND(gpu.cuda, call_1, "cuInit")(NULL), 0);
    cr_assert_eq(FIND(gpu.cuda, call_2, "cuDevicePrimaryCtxRetain")(&context, 0), 0);
    cr_assert_eq(FIND(gpu.cuda, call_1, "cuCtxSetCurrent")(context), 0);
}

static void *compile(const char *text, const char *name)
{
    static const char *const options[] = {"--gpu-architecture=sm_90", "--fmad=false"};
    static char image[1 << 22];
    char log[4096] = "";
    void *program = NULL;
    void *module = NULL;
    void *function = NULL;
    const char *const header_name = "gpu_prelude.h";
    const char *const header = "";
    cr_assert_eq(FIND(gpu.nvrtc, call_create, "nvrtcCreateProgram")(&program, text, "k.cu", 1,
                                                                    &header, &header_name),
                 0);
    if (FIND(gpu.nvrtc, call_compile, "nvrtcCompileProgram")(program, 2, options)) {
        (void)FIND(gpu.nvrtc, call_get, "nvrtcGetProgramLog")(program, log);
        cr_assert(0, "%s\n%s", log, text);
    }
    cr_assert_eq(FIND(gpu.nvrtc, call_get, "nvrtcGetCUBIN")(program, image), 0);
    cr_assert_eq(FIND(gpu.cuda, call_get, "cuModuleLoadData")(&module, image), 0);
    cr_assert_eq(FIND(gpu.cuda, call_function, "cuModuleGetFunction")(&function, module, name), 0);
    return function;
}

static uint64_t on_device(const void *data, uint64_t bytes)
{
    uint64_t address = 0;
    cr_assert_eq(FIND(gpu.cuda, call_2, "cuMemAlloc_v2")(&address, bytes + shift), 0);
    address += shift;
    cr_assert_eq(
        FIND(gpu.cuda, call_copy, "cuMemcpyHtoDAsync_v2")(address, (uint64_t)data, bytes, NULL), 0);
    return address;
}

/* ---- a kernel run twice ---- */

static loop_world w;
static uint64_t inputs[BUFFERS_MAX][4096];
static uint64_t expected[BUFFERS_MAX][4096];
static uint64_t found[BUFFERS_MAX][4096];
static int64_t iterations; /* of the parallel loop */

static void begin(void)
{
    loop_world_init(&w, "k");
    w.kernel.threads = THREADS;
    iterations = BLOCKS;
    shift = 0;
    for (uint32_t b = 0; b < BUFFERS_MAX; b++) {
        for (uint32_t i = 0; i < 4096; i++) {
            ((float *)inputs[b])[i] = (float)((i * 37u + b * 11u) % 29u) - 9.0f;
        }
    }
}

static void end(void)
{
    loop_world_deinit(&w);
}

TestSuite(gpu_text, .init = begin, .fini = end);

static void run_oracle(void)
{
    stator_diag *err = NULL;
    void *buffers[BUFFERS_MAX];
    for (uint32_t b = 0; b < w.kernel.buffers.count; b++) {
        buffers[b] = w.kernel.buffers.data[b].flags & ST_BUFFER_LOCAL ? NULL : expected[b];
    }
    const st_kernel_args args = {.buffers = buffers};
    const stator_status status = loop_oracle_run(&w.kernel, &args, 0, iterations, &err);
    cr_assert_eq(status, STATOR_OK, "%s", st_diag_text(err));
}

static void run_device(st_str *text)
{
    stator_diag *err = NULL;
    st_kernel plain;
    st_arena arena;
    st_gpu_kernel what;
    uint64_t arguments[16];
    uint64_t bytes = sizeof arguments;
    const st_target target = {.struct_size = sizeof target, .shared_bytes = 49152};
    st_arena_init(&arena, &w.mem);
    cr_assert_eq(st_loop_expand(&w.kernel, NULL, &plain, &err), STATOR_OK);
    cr_assert_eq(st_gpu_print(&target, &plain, "k", &arena, text, &what, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    for (uint32_t i = 0; i < what.n_arguments; i++) {
        cr_assert_eq(what.arguments[i].kind, ST_GPU_ARGUMENT_BUFFER);
        arguments[i] = on_device(inputs[what.arguments[i].index], sizeof inputs[0]);
    }
    bytes = what.n_arguments * 8u;
    void *extra[] = {(void *)1, arguments, (void *)2, &bytes, NULL};
    cr_assert_eq(FIND(gpu.cuda, call_launch, "cuLaunchKernel")(compile(text->data, "k"), BLOCKS, 1,
                                                               1, what.threads, 1, 1, 0, NULL, NULL,
                                                               extra),
                 0);
    for (uint32_t i = 0; i < what.n_arguments; i++) {
        cr_assert_eq(FIND(gpu.cuda, call_copy,
                          "cuMemcpyDtoHAsync_v2")((uint64_t)found[what.arguments[i].index],
                                                  arguments[i], sizeof found[0], NULL),
                     0);
    }
    cr_assert_eq(FIND(gpu.cuda, call_1, "cuStreamSynchronize")(NULL), 0);
    for (uint32_t i = 0; i < what.n_arguments; i++) {
        cr_assert_eq(FIND(gpu.cuda, call_free, "cuMemFree_v2")(arguments[i] - shift), 0);
    }
    st_kernel_deinit(&plain);
    st_arena_deinit(&arena);
}

/* Runs the mapped kernel by the oracle and on the device, and compares what both wrote. */
static void compare(void)
{
    st_str text;
    st_str_init(&text, &w.mem);
    open_device();
    loop_must_verify(&w.kernel);
    memcpy(expected, inputs, sizeof inputs);
    run_oracle();
    run_device(&text);
    for (uint32_t b = 0; b < w.kernel.buffers.count; b++) {
        if (w.kernel.buffers.data[b].flags & ST_BUFFER_WRITTEN &&
            !(w.kernel.buffers.data[b].flags & ST_BUFFER_LOCAL)) {
            cr_expect_eq(memcmp(found[b], expected[b], sizeof found[b]), 0, "buffer %u of\n%s", b,
                         text.data);
        }
    }
    st_str_deinit(&text);
}

/* ---- parts of kernels ---- */

/* The loop over blocks, opened; its axis as a sym. */
static uint32_t open_blocks(void)
{
    const uint32_t axis = st_loop_axis_add(&w.b, loop_int(&w, BLOCKS), ST_AXIS_PARALLEL);
    w.kernel.axes.data[axis].mapping = ST_MAPPING_BLOCKS;
    st_loop_open(&w.b, axis);
    return loop_axis(&w, axis);
}

static uint32_t open_loop(int64_t extent, uint32_t flags, uint32_t mapping)
{
    const uint32_t axis = st_loop_axis_add(&w.b, loop_int(&w, extent), flags);
    w.kernel.axes.data[axis].mapping = mapping;
    st_loop_open(&w.b, axis);
    return loop_axis(&w, axis);
}

static uint32_t open_threads(void)
{
    return open_loop(ROW, ST_AXIS_REDUCE, ST_MAPPING_THREADS);
}

static uint32_t in_row(uint32_t row, uint32_t place)
{
    return loop_add(&w, loop_mul(&w, row, ROW), place);
}

static uint32_t input(uint32_t dtype)
{
    return loop_in(&w, "x", dtype, loop_int(&w, BLOCKS * ROW));
}

static uint32_t output(uint32_t dtype, int64_t numel)
{
    return loop_out(&w, "y", dtype, loop_int(&w, numel));
}

/* ---- the tests ---- */

Test(gpu_text, each_kind_is_combined_over_the_block)
{
    static const uint32_t kinds[] = {ST_ACC_SUM, ST_ACC_MIN, ST_ACC_MAX, ST_ACC_ARGMIN,
                                     ST_ACC_ARGMAX};
    const uint32_t x = input(STATOR_F32);
    const uint32_t y = output(STATOR_F32, BLOCKS * 5);
    const uint32_t z = output(STATOR_I64, BLOCKS * 2);
    const uint32_t row = open_blocks();
    st_loop_ref acc[5];
    for (uint32_t k = 0; k < 5; k++) {
        acc[k] = st_loop_acc(&w.b, kinds[k], STATOR_F32, 0);
    }
    const uint32_t i = open_threads();
    const st_loop_ref v = st_loop_load(&w.b, x, in_row(row, i), 0, 0);
    for (uint32_t k = 0; k < 5; k++) {
        st_loop_update(&w.b, acc[k], v, k > 2 ? st_loop_index(&w.b, i) : 0, 0);
    }
    st_loop_close(&w.b);
    for (uint32_t k = 0; k < 5; k++) {
        st_loop_store(&w.b, y, loop_add(&w, loop_mul(&w, row, 5), loop_int(&w, k)),
                      st_loop_read(&w.b, acc[k], STATOR_F32), 0);
    }
    for (uint32_t k = 3; k < 5; k++) {
        st_loop_store(&w.b, z, loop_add(&w, loop_mul(&w, row, 2), loop_int(&w, k - 3)),
                      st_loop_read(&w.b, acc[k], STATOR_I64), 0);
    }
    st_loop_close(&w.b);
    compare();
}

Test(gpu_text, integers_and_bools_are_combined)
{
    const uint32_t x = input(STATOR_I64);
    const uint32_t y = output(STATOR_I64, BLOCKS);
    const uint32_t z = output(STATOR_BOOL, BLOCKS * 2);
    const uint32_t row = open_blocks();
    const st_loop_ref product = st_loop_acc(&w.b, ST_ACC_PROD, STATOR_I64, 0);
    const st_loop_ref any = st_loop_acc(&w.b, ST_ACC_ANY, STATOR_BOOL, 0);
    const st_loop_ref all = st_loop_acc(&w.b, ST_ACC_ALL, STATOR_BOOL, 0);
    const uint32_t i = open_threads();
    const st_loop_ref v = st_loop_load(&w.b, x, in_row(row, i), 0, 0);
    const st_loop_ref is_late =
        loop_op(&w, "ge", st_loop_index(&w.b, i), st_loop_int(&w.b, STATOR_I64, ROW - 1), 0);
    st_loop_update(&w.b, product, v, 0, 0);
    st_loop_update(&w.b, any, is_late, 0, 0);
    st_loop_update(&w.b, all, is_late, 0, 0);
    st_loop_close(&w.b);
    st_loop_store(&w.b, y, row, st_loop_read(&w.b, product, STATOR_I64), 0);
    st_loop_store(&w.b, z, row, st_loop_read(&w.b, any, STATOR_BOOL), 0);
    st_loop_store(&w.b, z, loop_add(&w, row, loop_int(&w, BLOCKS)),
                  st_loop_read(&w.b, all, STATOR_BOOL), 0);
    st_loop_close(&w.b);
    compare();
}

/* A first value counts once; a sum goes on after it has been read; all threads add a value
 * alike. */
Test(gpu_text, a_sum_goes_on_after_it_was_read)
{
    const uint32_t x = input(STATOR_F32);
    const uint32_t y = output(STATOR_F32, BLOCKS * 3);
    const uint32_t row = open_blocks();
    const st_loop_ref first = st_loop_load(&w.b, x, row, 0, 0);
    const st_loop_ref sum = st_loop_acc(&w.b, ST_ACC_SUM, STATOR_F32, first);
    for (uint32_t k = 0; k < 3; k++) {
        const uint32_t i = open_threads();
        st_loop_update(&w.b, sum, st_loop_load(&w.b, x, in_row(row, i), 0, 0), 0, 0);
        st_loop_close(&w.b);
        if (k < 2) {
            st_loop_update(&w.b, sum, first, 0, 0);
        }
        st_loop_store(&w.b, y, loop_add(&w, loop_mul(&w, row, 3), loop_int(&w, k)),
                      st_loop_read(&w.b, sum, STATOR_F32), 0);
    }
    st_loop_close(&w.b);
    compare();
}

/* Steps in order: each adds up the row and what the step before left. */
Test(gpu_text, steps_read_what_threads_added)
{
    const uint32_t x = input(STATOR_F32);
    const uint32_t y = output(STATOR_F32, BLOCKS * 7);
    const uint32_t row = open_blocks();
    const st_loop_ref total = st_loop_acc(&w.b, ST_ACC_SUM, STATOR_F32, 0);
    const st_loop_ref last = st_loop_acc(&w.b, ST_ACC_LAST, STATOR_F32, 0);
    const uint32_t step = open_loop(7, ST_AXIS_SERIAL, ST_MAPPING_SEQUENTIAL);
    const st_loop_ref before = st_loop_read(&w.b, last, STATOR_F32);
    const st_loop_ref sum = st_loop_acc(&w.b, ST_ACC_MAX, STATOR_F32, 0);
    const uint32_t i = open_threads();
    const st_loop_ref v = st_loop_load(&w.b, x, in_row(row, i), 0, 0);
    st_loop_update(&w.b, total, v, 0, 0);
    st_loop_update(&w.b, sum, loop_op(&w, "sub", v, before, 0), 0, 0);
    st_loop_close(&w.b);
    const st_loop_ref now = st_loop_read(&w.b, sum, STATOR_F32);
    st_loop_update(&w.b, last, now, 0, 0);
    const st_loop_ref both = loop_op(&w, "add", now, st_loop_read(&w.b, total, STATOR_F32), 0);
    st_loop_store(&w.b, y, loop_add(&w, loop_mul(&w, row, 7), step), both, 0);
    st_loop_close(&w.b);
    st_loop_close(&w.b);
    compare();
}

Test(gpu_text, a_sum_stays_partial_in_a_loop_around)
{
    const uint32_t x = input(STATOR_F32);
    const uint32_t y = output(STATOR_F32, BLOCKS);
    const uint32_t row = open_blocks();
    const st_loop_ref sum =
        st_loop_acc(&w.b, ST_ACC_SUM, STATOR_F32, st_loop_float(&w.b, STATOR_F32, 5));
    const uint32_t times = open_loop(3, ST_AXIS_REDUCE, ST_MAPPING_SEQUENTIAL);
    const uint32_t i = open_threads();
    const st_loop_ref v = st_loop_load(&w.b, x, in_row(row, i), 0, 0);
    const st_loop_ref weight = st_loop_cast(&w.b, STATOR_F32, st_loop_index(&w.b, times));
    st_loop_update(&w.b, sum, loop_op(&w, "mul", v, weight, 0), 0, 0);
    st_loop_close(&w.b);
    st_loop_close(&w.b);
    st_loop_store(&w.b, y, row, st_loop_read(&w.b, sum, STATOR_F32), 0);
    st_loop_close(&w.b);
    compare();
}

/* A row is turned round in shared memory, again and again: each thread reads what another wrote. */
Test(gpu_text, threads_read_what_others_wrote)
{
    const uint32_t x = input(STATOR_F32);
    const uint32_t y = loop_out(&w, "y", STATOR_F32, loop_int(&w, BLOCKS * ROW));
    const uint32_t t =
        st_loop_buffer_add(&w.b, "t", STATOR_F32, loop_int(&w, ROW), ST_BUFFER_LOCAL, 0);
    const uint32_t row = open_blocks();
    const uint32_t step = open_loop(5, ST_AXIS_SERIAL, ST_MAPPING_SEQUENTIAL);
    uint32_t i = open_threads();
    const st_loop_ref add = st_loop_cast(&w.b, STATOR_F32, st_loop_index(&w.b, step));
    const st_loop_ref v = st_loop_load(&w.b, x, in_row(row, i), 0, 0);
    st_loop_store(&w.b, t, i, loop_op(&w, "add", v, add, 0), 0);
    st_loop_close(&w.b);
    i = open_threads();
    const uint32_t from = loop_add(&w, loop_mul(&w, i, -1), loop_int(&w, ROW - 1));
    st_loop_store(&w.b, y, in_row(row, i), st_loop_load(&w.b, t, from, 0, 0), 0);
    st_loop_close(&w.b);
    st_loop_close(&w.b);
    st_loop_close(&w.b);
    compare();
}

/* Rows of 150 elements: the second is not aligned to 16 bytes, and the last iterations are fewer
 * than the lanes. */
static void compare_lanes(uint32_t dtype, uint32_t lanes)
{
    const uint32_t x = input(dtype);
    const uint32_t y = output(dtype, BLOCKS * ROW);
    const uint32_t z = output(dtype, BLOCKS);
    const uint32_t row = open_blocks();
    const st_loop_ref sum = st_loop_acc(&w.b, ST_ACC_MAX, dtype, 0);
    const uint32_t i = open_threads();
    w.kernel.axes.data[w.kernel.axes.count - 1u].lanes = lanes;
    const st_loop_ref v = st_loop_load(&w.b, x, in_row(row, i), 0, 0);
    st_loop_store(&w.b, y, in_row(row, i), loop_op(&w, "add", v, v, 0), 0);
    st_loop_update(&w.b, sum, v, 0, 0);
    st_loop_close(&w.b);
    st_loop_store(&w.b, z, row, st_loop_read(&w.b, sum, dtype), 0);
    st_loop_close(&w.b);
    compare();
}

Test(gpu_text, floats_side_by_side)
{
    compare_lanes(STATOR_F32, 4);
}

Test(gpu_text, doubles_side_by_side)
{
    compare_lanes(STATOR_F64, 2);
}

Test(gpu_text, bytes_side_by_side)
{
    compare_lanes(STATOR_U8, 8);
}

Test(gpu_text, halves_of_words_side_by_side)
{
    compare_lanes(STATOR_I16, 8);
}

Test(gpu_text, long_integers_side_by_side)
{
    compare_lanes(STATOR_I64, 2);
}

/* A row of `held` elements stays with the threads that share it, `lanes` side by side: loaded once,
 * they serve two loops, and so does what the first makes of them. */
static void compare_held(uint32_t rows, int64_t held, int64_t stride, uint32_t lanes)
{
    const uint32_t x = loop_in(&w, "x", STATOR_F32, loop_int(&w, iterations * stride));
    const uint32_t y = output(STATOR_F32, iterations * stride);
    const uint32_t t = st_loop_buffer_add(&w.b, "t", STATOR_F32, loop_int(&w, held),
                                          ST_BUFFER_LOCAL | ST_BUFFER_THREAD, 0);
    const uint32_t first = loop_mul(
        &w, open_loop(iterations, ST_AXIS_PARALLEL, rows > 1 ? ST_MAPPING_ROWS : ST_MAPPING_BLOCKS),
        stride);
    const st_loop_ref most = st_loop_acc(&w.b, ST_ACC_MAX, STATOR_F32, 0);
    w.kernel.axes.data[w.kernel.axes.count - 1u].lanes = rows;
    uint32_t i = open_loop(held, ST_AXIS_REDUCE, ST_MAPPING_THREADS);
    st_loop_ref v = st_loop_load(&w.b, x, loop_add(&w, first, i), 0, 0);
    st_loop_store(&w.b, t, i, loop_op(&w, "add", v, v, 0), 0);
    st_loop_update(&w.b, most, v, 0, 0);
    st_loop_close(&w.b);
    i = open_loop(held, ST_AXIS_REDUCE, ST_MAPPING_THREADS);
    v = st_loop_load(&w.b, x, loop_add(&w, first, i), 0, 0);
    v = loop_op(&w, "mul", v, st_loop_load(&w.b, t, i, 0, 0), 0);
    v = loop_op(&w, "sub", v, st_loop_read(&w.b, most, STATOR_F32), 0);
    st_loop_store(&w.b, y, loop_add(&w, first, i), v, 0);
    st_loop_close(&w.b);
    st_loop_close(&w.b);
    for (uint32_t k = w.kernel.axes.count - 2u; k < w.kernel.axes.count; k++) {
        w.kernel.axes.data[k].lanes = lanes;
        w.kernel.axes.data[k].flags |= ST_AXIS_HELD;
    }
    compare();
}

/* Only every fourth row is aligned to 16 bytes. */
Test(gpu_text, a_row_stays_with_its_threads)
{
    compare_held(1, THREADS * 8, THREADS * 8 + 1, 4);
}

/* Two bodies, for buffers that are aligned and for others. */
Test(gpu_text, an_aligned_row_stays_with_its_threads)
{
    compare_held(1, THREADS * 8, THREADS * 8, 4);
}

Test(gpu_text, a_row_at_any_address_stays_with_its_threads)
{
    shift = 4;
    compare_held(1, THREADS * 8, THREADS * 8, 4);
}

/* Eight rows a block, of which some of the last are none: of 40 elements eight threads have
 * four, or eight; of 33 one by one some have four and one has five. */
Test(gpu_text, threads_share_a_short_row)
{
    iterations = 19;
    compare_held(8, 40, 40, 4);
}

Test(gpu_text, threads_share_a_short_row_at_any_address)
{
    iterations = 19;
    shift = 8;
    compare_held(8, 40, 40, 4);
}

Test(gpu_text, threads_share_a_short_row_of_odd_length)
{
    iterations = 24;
    compare_held(8, 33, 33, 1);
}

/* A check beside a loop that may have no iteration is made all the same. */
Test(gpu_text, a_check_stays_outside_a_loop_that_may_be_empty)
{
    stator_diag *err = NULL;
    const st_target target = {.struct_size = sizeof target,
                              .kind = ST_TARGET_GPU,
                              .n_multiprocessors = 1,
                              .warp_size = 32,
                              .block_threads_max = 1024,
                              .shared_bytes = 49152};
    const uint32_t size = loop_size(&w, "n");
    const uint32_t x = loop_in(&w, "x", STATOR_BOOL, loop_int(&w, 100));
    const uint32_t y = output(STATOR_F32, 10000);
    const uint32_t row = open_loop(100, ST_AXIS_PARALLEL, ST_MAPPING_SEQUENTIAL);
    st_loop_check(&w.b, st_loop_load(&w.b, x, row, 0, 0), 0);
    const uint32_t axis = st_loop_axis_add(&w.b, size, 0);
    st_loop_open(&w.b, axis);
    st_loop_store(&w.b, y, row, st_loop_float(&w.b, STATOR_F32, 1), 0);
    st_loop_close(&w.b);
    st_loop_close(&w.b);
    cr_assert_eq(st_gpu_schedule(&target, &w.kernel, &err), STATOR_OK, "%s", st_diag_text(err));
    uint32_t n_loops = 0;
    for (st_loop_ref ref = 1; ref < w.kernel.insts.count; ref++) {
        n_loops += st_loop_at(&w.kernel, ref)->code == ST_LOOP_LOOP;
    }
    cr_expect_eq(n_loops, 2);
}

/* 90 columns, 32 a block, of which two threads share one: in the last block some have none. */
Test(gpu_text, threads_share_a_column)
{
    enum { COLUMNS = 90, ROWS = 17 };
    iterations = COLUMNS;
    const uint32_t x = loop_in(&w, "x", STATOR_F32, loop_int(&w, COLUMNS * ROWS));
    const uint32_t y = output(STATOR_F32, COLUMNS * 2);
    const uint32_t z = output(STATOR_I64, COLUMNS);
    const uint32_t t = output(STATOR_F32, COLUMNS * ROWS);
    const uint32_t column = open_loop(COLUMNS, ST_AXIS_PARALLEL, ST_MAPPING_COLUMNS);
    w.kernel.axes.data[w.kernel.axes.count - 1u].lanes = 32;
    const st_loop_ref sum =
        st_loop_acc(&w.b, ST_ACC_SUM, STATOR_F32, st_loop_float(&w.b, STATOR_F32, 5));
    const st_loop_ref best = st_loop_acc(&w.b, ST_ACC_ARGMAX, STATOR_F32, 0);
    uint32_t i = open_loop(ROWS, ST_AXIS_REDUCE, ST_MAPPING_THREADS);
    st_loop_ref v = st_loop_load(&w.b, x, loop_add(&w, loop_mul(&w, i, COLUMNS), column), 0, 0);
    st_loop_update(&w.b, sum, v, 0, 0);
    st_loop_update(&w.b, best, v, st_loop_index(&w.b, i), 0);
    st_loop_close(&w.b);
    const st_loop_ref total = st_loop_read(&w.b, sum, STATOR_F32);
    st_loop_store(&w.b, y, column, total, 0);
    st_loop_store(&w.b, z, column, st_loop_read(&w.b, best, STATOR_I64), 0);
    i = open_loop(ROWS, ST_AXIS_REDUCE, ST_MAPPING_THREADS);
    v = st_loop_load(&w.b, x, loop_add(&w, loop_mul(&w, i, COLUMNS), column), 0, 0);
    v = loop_op(&w, "sub", v, total, 0);
    st_loop_store(&w.b, t, loop_add(&w, loop_mul(&w, i, COLUMNS), column), v, 0);
    st_loop_update(&w.b, sum, v, 0, 0);
    st_loop_close(&w.b);
    st_loop_store(&w.b, y, loop_add(&w, column, loop_int(&w, COLUMNS)),
                  st_loop_read(&w.b, sum, STATOR_F32), 0);
    st_loop_close(&w.b);
    compare();
}
