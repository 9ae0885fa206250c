/* Calls of a GPU's runtime: arguments and grids of launches, checks that are told by the next wait,
 * modules and their bytes. */
#include "support_gpu.h"
#include "support_loop.h"

#include "core/base/diag.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static fake_gpu f;
static const st_emitter *emitter;
static const st_device_memory *memory;

static void begin(void)
{
    fake_gpu_init(&f, 0);
    emitter = st_gpu_emitter(f.gpu);
    memory = emitter->memory;
}

static void end(void)
{
    fake_gpu_deinit(&f);
}

TestSuite(gpu_calls, .init = begin, .fini = end);

/* A module of kernels of these names. */
static stator_status compile(const char *const *names, uint32_t n, void **out, stator_diag **err)
{
    loop_world worlds[4];
    const st_kernel *kernels[4] = {NULL};
    for (uint32_t i = 0; i < n; i++) {
        loop_world_init(&worlds[i], names[i]);
        kernels[i] = &worlds[i].kernel;
    }
    const stator_status status = emitter->compile(emitter->self, kernels, n, out, err);
    for (uint32_t i = 0; i < n; i++) {
        loop_world_deinit(&worlds[i]);
    }
    return status;
}

static void *module_of(const char *name)
{
    void *module = NULL;
    stator_diag *err = NULL;
    cr_assert_eq(compile(&name, 1, &module, &err), STATOR_OK, "%s", st_diag_text(err));
    return module;
}

static uint64_t n_calls; /* of the test */

static void *begin_call(void *stream, void *checks, void *around)
{
    const stator_call call = {.struct_size = sizeof call, .stream = stream, .number = ++n_calls};
    void *out = NULL;
    cr_assert_eq(memory->begin(memory->self, &call, checks, around, &out, NULL), STATOR_OK);
    return out;
}

static void launch(void *module, uint32_t k, void *call, void *const *buffers, int64_t *syms,
                   int64_t count)
{
    const st_kernel_args args = {.buffers = buffers, .syms = syms};
    const st_launch what = {.args = &args, .count = count, .device_call = call};
    stator_diag *err = NULL;
    cr_assert_eq(emitter->launch(emitter->self, module, k, &what, &err), STATOR_OK, "%s",
                 st_diag_text(err));
}

static void *alloc(uint64_t bytes)
{
    void *p = NULL;
    cr_assert_eq(st_gpu_alloc(f.gpu, bytes, NULL, &p, NULL), STATOR_OK);
    return p;
}

/* ---- launches ---- */

Test(gpu_calls, arguments_and_grid)
{
    void *module = module_of("note");
    void *buffers[2] = {alloc(64), alloc(64)};
    int64_t syms[2] = {5, 1234567890123};
    void *call = begin_call(NULL, NULL, NULL);
    launch(module, 0, call, buffers, syms, 129);
    memory->end(memory->self, call);
    cr_assert_eq(st_gpu_wait(f.gpu, NULL, NULL), STATOR_OK);
    cr_expect_eq(f.n_noted, 4);
    cr_expect_eq(f.noted_blocks, 3, "129 iterations, 64 a block");
    cr_expect_eq(f.noted_threads, 64);
    cr_expect_eq(f.noted[0], 1234567890123u);
    cr_expect_eq(f.noted[1], (uintptr_t)buffers[1]);
    cr_expect_neq(f.noted[2], 0, "a status for checks that have no text");
    cr_expect_neq(f.noted[3], 0, "16 bytes for each of 3 blocks");
    st_gpu_stats s;
    st_gpu_get_stats(f.gpu, &s);
    cr_expect_eq(s.launches, 1);
    cr_expect_eq(s.waits, 1);
    cr_expect_eq(s.used_bytes, 512, "the scratch has been given back");
    st_gpu_free(f.gpu, buffers[0], NULL);
    st_gpu_free(f.gpu, buffers[1], NULL);
    emitter->module_destroy(emitter->self, module);
}

/* Another thread's wait between the begin of a call and its launch ends nothing. */
Test(gpu_calls, scratch_of_a_launch_behind_another_threads_wait_is_in_use)
{
    void *module = module_of("note");
    void *stream = NULL;
    cr_assert_eq(st_gpu_stream_create(f.gpu, &stream, NULL), STATOR_OK);
    void *buffers[2] = {alloc(64), alloc(64)};
    int64_t syms[2] = {5, 6};
    void *call = begin_call(stream, NULL, NULL);
    f.is_waited_for = true;
    launch(module, 0, call, buffers, syms, 64);
    f.is_waited_for = false;
    void *others = alloc(16);
    memory->end(memory->self, call);
    cr_assert_eq(st_gpu_wait(f.gpu, stream, NULL), STATOR_OK);
    cr_expect_neq(f.noted[3], (uintptr_t)others, "the kernel had not run");
    st_gpu_free(f.gpu, others, NULL);
    st_gpu_free(f.gpu, buffers[0], NULL);
    st_gpu_free(f.gpu, buffers[1], NULL);
    st_gpu_stream_destroy(f.gpu, stream);
    emitter->module_destroy(emitter->self, module);
}

/* Another thread goes on while the device ends what reads a module and a constant. */
Test(gpu_calls, modules_and_constants_end_without_the_lock, .timeout = 20)
{
    void *module = module_of("note");
    void *buffers[2] = {alloc(64), alloc(64)};
    int64_t syms[2] = {5, 6};
    const float value[4] = {1, 2, 3, 4};
    fake_blob blob = {.data = value, .bytes = sizeof value, .hash = {9}};
    void *constant = NULL;
    const void *data = NULL;
    cr_assert_eq(
        memory->constant_take(memory->self, (stator_blob *)(void *)&blob, &constant, &data, NULL),
        STATOR_OK);
    void *call = begin_call(NULL, NULL, NULL);
    f.is_asked_in_waits = true;
    launch(module, 0, call, buffers, syms, 64);
    memory->constant_give(memory->self, constant);
    launch(module, 0, call, buffers, syms, 64);
    memory->end(memory->self, call);
    emitter->module_destroy(emitter->self, module);
    f.is_asked_in_waits = false;
    cr_expect_eq(f.now, 3, "the upload and both launches are done");
    st_gpu_free(f.gpu, buffers[0], NULL);
    st_gpu_free(f.gpu, buffers[1], NULL);
}

/* Times are the device's: what is queued behind the last mark is in none. */
Test(gpu_calls, marks_have_the_times_of_the_device)
{
    void *module = module_of("note");
    void *buffers[2] = {alloc(64), alloc(64)};
    int64_t syms[2] = {5, 6};
    uint64_t ns[4] = {0};
    for (int round = 0; round < 2; round++) {
        void *call = begin_call(NULL, NULL, NULL);
        for (int i = 0; i < 2; i++) {
            cr_assert_eq(memory->mark(memory->self, call, NULL), STATOR_OK);
            launch(module, 0, call, buffers, syms, 64);
            launch(module, 0, call, buffers, syms, 64);
            cr_assert_eq(memory->mark(memory->self, call, NULL), STATOR_OK);
            launch(module, 0, call, buffers, syms, 64);
        }
        cr_assert_eq(memory->read_marks(memory->self, call, ns, 4, NULL), STATOR_OK);
        memory->end(memory->self, call);
        cr_expect_eq(ns[0], 0);
        cr_expect_eq(ns[1], 2000000);
        cr_expect_eq(ns[2], 3000000);
        cr_expect_eq(ns[3], 5000000);
        cr_expect_eq(f.n_events, 4, "the second call has the events of the first");
    }
    st_gpu_stats s;
    st_gpu_get_stats(f.gpu, &s);
    cr_expect_eq(s.waits, 2, "one for each call");
    st_gpu_free(f.gpu, buffers[0], NULL);
    st_gpu_free(f.gpu, buffers[1], NULL);
    emitter->module_destroy(emitter->self, module);
}

Test(gpu_calls, too_many_iterations_for_a_grid)
{
    void *module = module_of("note");
    void *call = begin_call(NULL, NULL, NULL);
    const st_kernel_args args = {.buffers = NULL};
    const st_launch what = {.args = &args, .count = INT64_MAX, .device_call = call};
    stator_diag *err = NULL;
    cr_expect_eq(emitter->launch(emitter->self, module, 0, &what, &err), STATOR_OUT_OF_RANGE);
    cr_expect(strstr(st_diag_text(err), "are more than one grid has"), "%s", st_diag_text(err));
    st_diag_release(err);
    memory->end(memory->self, call);
    emitter->module_destroy(emitter->self, module);
}

Test(gpu_calls, values_of_a_call_follow_its_stream)
{
    static const float numbers[4] = {1, -2, 3, 4};
    float back[4] = {0};
    void *module = module_of("twice");
    void *stream = NULL;
    cr_assert_eq(st_gpu_stream_create(f.gpu, &stream, NULL), STATOR_OK);
    void *in = alloc(sizeof numbers);
    for (uint32_t round = 0; round < 3; round++) {
        cr_assert_eq(
            st_gpu_copy(f.gpu, in, numbers, sizeof numbers, STATOR_COPY_TO_DEVICE, stream, NULL),
            STATOR_OK);
        int64_t syms[1] = {4};
        void *work = NULL;
        void *call = begin_call(stream, NULL, NULL);
        cr_assert_eq(memory->take(memory->self, call, sizeof numbers, &work, NULL), STATOR_OK);
        launch(module, 0, call, (void *[]){in, work}, syms, 4);
        cr_assert_eq(memory->copy(memory->self, call, in, work, sizeof numbers, NULL), STATOR_OK);
        memory->give(memory->self, call, work);
        void *again = NULL;
        cr_assert_eq(memory->take(memory->self, call, sizeof numbers, &again, NULL), STATOR_OK);
        cr_expect_eq(again, work);
        launch(module, 0, call, (void *[]){in, again}, syms, 4);
        cr_assert_eq(memory->read_back(memory->self, call, back, again, sizeof back, NULL),
                     STATOR_OK);
        memory->give(memory->self, call, again);
        memory->end(memory->self, call);
        for (uint32_t i = 0; i < 4; i++) {
            cr_expect_eq(back[i], 4 * numbers[i]);
        }
    }
    st_gpu_stats s;
    st_gpu_get_stats(f.gpu, &s);
    cr_expect_eq(s.waits, 3, "one for each size that is read back");
    st_gpu_free(f.gpu, in, stream);
    st_gpu_stream_destroy(f.gpu, stream);
    emitter->module_destroy(emitter->self, module);
}

Test(gpu_calls, a_warmed_call_takes_nothing)
{
    static const st_check_text texts[] = {{7, "gather 'g': an index is outside its axis"}};
    void *module = module_of("twice");
    void *checks = NULL;
    cr_assert_eq(memory->checks_create(memory->self, texts, 1, &checks, NULL), STATOR_OK);
    void *in = alloc(4096);
    uint64_t requests = 0;
    uint64_t allocs = 0;
    for (uint32_t i = 0; i < 200; i++) {
        int64_t syms[1] = {8};
        void *work = NULL;
        void *call = begin_call(NULL, checks, NULL);
        cr_assert_eq(memory->take(memory->self, call, 4096, &work, NULL), STATOR_OK);
        launch(module, 0, call, (void *[]){in, work}, syms, 8);
        memory->give(memory->self, call, work);
        memory->end(memory->self, call);
        if (i % 10 == 9) {
            (void)st_gpu_wait(f.gpu, NULL, NULL);
        }
        if (i == 100) {
            requests = f.mem.requests;
            allocs = f.n_allocs;
        }
    }
    cr_expect_eq(f.mem.requests, requests);
    cr_expect_eq(f.n_allocs, allocs);
    memory->checks_release(memory->self, checks);
    st_gpu_free(f.gpu, in, NULL);
    emitter->module_destroy(emitter->self, module);
}

/* ---- checks ---- */

static const st_check_text gather[] = {{3, "another"},
                                       {7, "gather 'g': an index is outside its axis"}};

/* Queues `n` calls of a kernel that checks whether `value` is negative. */
static void check_calls(void *module, void *checks, float *value, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        void *call = begin_call(NULL, checks, NULL);
        launch(module, 0, call, (void *[]){value}, NULL, 1);
        memory->end(memory->self, call);
    }
}

/* Waits, and expects the failures of calls first to last with this text, each told once. */
static void expect_failure(uint64_t first, uint64_t last, const char *text)
{
    uint64_t got[2] = {0};
    stator_diag *err = NULL;
    cr_assert_eq(st_gpu_wait(f.gpu, NULL, NULL), STATOR_OK);
    cr_expect_eq(st_gpu_late_failure(f.gpu, NULL, &got[0], &got[1], &err), STATOR_OUT_OF_RANGE);
    cr_expect_eq(got[0], first, "%llu", (unsigned long long)got[0]);
    cr_expect_eq(got[1], last, "%llu", (unsigned long long)got[1]);
    cr_expect_str_eq(st_diag_text(err), text);
    cr_expect_not_null(st_diag_hint(err));
    st_diag_release(err);
}

static void expect_no_failure(void)
{
    uint64_t got[2] = {0};
    cr_assert_eq(st_gpu_wait(f.gpu, NULL, NULL), STATOR_OK);
    cr_expect_eq(st_gpu_late_failure(f.gpu, NULL, &got[0], &got[1], NULL), STATOR_OK);
}

Test(gpu_calls, a_check_is_told_once_for_each_call)
{
    void *module = module_of("check");
    void *checks = NULL;
    float *value = alloc(4);
    *value = -1;
    cr_assert_eq(memory->checks_create(memory->self, gather, 2, &checks, NULL), STATOR_OK);
    check_calls(module, checks, value, 2);
    memory->checks_release(memory->self, checks); /* the executable may be gone by then */
    expect_failure(1, 1, "gather 'g': an index is outside its axis (in call 1 of the device)");
    expect_failure(2, 2, "gather 'g': an index is outside its axis (in call 2 of the device)");
    expect_no_failure();
    emitter->module_destroy(emitter->self, module);
    st_gpu_free(f.gpu, value, NULL);
}

/* A wait that nobody asks behind does not lose what failed. */
Test(gpu_calls, a_check_is_told_behind_later_waits)
{
    void *module = module_of("check");
    void *checks = NULL;
    float *value = alloc(4);
    cr_assert_eq(memory->checks_create(memory->self, gather, 2, &checks, NULL), STATOR_OK);
    for (uint32_t i = 0; i < 3; i++) {
        *value = i == 0 ? -1 : 1;
        check_calls(module, checks, value, 1);
        cr_assert_eq(st_gpu_wait(f.gpu, NULL, NULL), STATOR_OK);
    }
    expect_failure(1, 1, "gather 'g': an index is outside its axis (in call 1 of the device)");
    expect_no_failure();
    memory->checks_release(memory->self, checks);
    emitter->module_destroy(emitter->self, module);
    st_gpu_free(f.gpu, value, NULL);
}

Test(gpu_calls, a_check_is_told_by_a_size_that_its_call_reads_back)
{
    void *module = module_of("check");
    void *checks = NULL;
    float *value = alloc(4);
    float back = 0;
    *value = -1;
    cr_assert_eq(memory->checks_create(memory->self, gather, 2, &checks, NULL), STATOR_OK);
    void *call = begin_call(NULL, checks, NULL);
    launch(module, 0, call, (void *[]){value}, NULL, 1);
    stator_diag *err = NULL;
    cr_expect_eq(memory->read_back(memory->self, call, &back, value, 4, &err), STATOR_OUT_OF_RANGE);
    st_diag_release(err);
    memory->end(memory->self, call);
    *value = 1;
    call = begin_call(NULL, checks, NULL);
    launch(module, 0, call, (void *[]){value}, NULL, 1);
    cr_expect_eq(memory->read_back(memory->self, call, &back, value, 4, NULL), STATOR_OK,
                 "the next call is right");
    memory->end(memory->self, call);
    expect_failure(1, 1, "gather 'g': an index is outside its axis (in call 1 of the device)");
    expect_no_failure();
    memory->checks_release(memory->self, checks);
    emitter->module_destroy(emitter->self, module);
    st_gpu_free(f.gpu, value, NULL);
}

Test(gpu_calls, many_calls_share_words_and_name_a_range)
{
    void *module = module_of("check");
    void *checks = NULL;
    float *value = alloc(4);
    *value = 1;
    cr_assert_eq(memory->checks_create(memory->self, gather, 2, &checks, NULL), STATOR_OK);
    check_calls(module, checks, value, 5000);
    const uint64_t pinned = f.n_pinned;
    check_calls(module, checks, value, 5000);
    cr_expect_eq(f.n_pinned, pinned);
    expect_no_failure();
    check_calls(module, checks, value, 70);
    *value = -1; /* what is queued is done with this: the first call is told */
    expect_failure(10001, 10001,
                   "gather 'g': an index is outside its axis (in call 10001 of the device)");
    for (uint64_t n = 10002; n < 10064; n++) {
        uint64_t got[2] = {0};
        cr_expect_eq(st_gpu_late_failure(f.gpu, NULL, &got[0], &got[1], NULL), STATOR_OUT_OF_RANGE);
        cr_expect_eq(got[1], n);
    }
    expect_failure(10064, 10070,
                   "gather 'g': an index is outside its axis (in one of the calls 10064 to 10070 "
                   "of the device)");
    expect_no_failure();
    memory->checks_release(memory->self, checks);
    emitter->module_destroy(emitter->self, module);
    st_gpu_free(f.gpu, value, NULL);
}

Test(gpu_calls, steps_of_a_loop_have_the_number_of_their_call)
{
    void *module = module_of("check");
    void *checks = NULL;
    float *value = alloc(4);
    *value = -1;
    cr_assert_eq(memory->checks_create(memory->self, gather, 2, &checks, NULL), STATOR_OK);
    void *around = begin_call(NULL, NULL, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        void *step = begin_call(NULL, checks, around);
        launch(module, 0, step, (void *[]){value}, NULL, 1);
        memory->end(memory->self, step);
    }
    memory->end(memory->self, around);
    for (uint32_t i = 0; i < 3; i++) {
        expect_failure(1, 1, "gather 'g': an index is outside its axis (in call 1 of the device)");
    }
    expect_no_failure();
    memory->checks_release(memory->self, checks);
    emitter->module_destroy(emitter->self, module);
    st_gpu_free(f.gpu, value, NULL);
}

/* ---- modules ---- */

Test(gpu_calls, equal_texts_are_compiled_once)
{
    static const char *const names[] = {"twice_1", "copy_1", "twice_2", "twice_3"};
    void *module = NULL;
    cr_assert_eq(compile(names, 4, &module, NULL), STATOR_OK);
    cr_expect_eq(f.n_compiled, 2);
    cr_expect_eq(f.n_modules, 2);
    float *in = alloc(16);
    float *out = alloc(16);
    int64_t syms[1] = {1};
    static const float times[] = {2, 1, 2, 2};
    for (uint32_t k = 0; k < 4; k++) {
        in[0] = 10;
        void *call = begin_call(NULL, NULL, NULL);
        launch(module, k, call, (void *[]){in, out}, syms, 1);
        memory->end(memory->self, call);
        cr_assert_eq(st_gpu_wait(f.gpu, NULL, NULL), STATOR_OK);
        cr_expect_eq(out[0], times[k] * 10);
    }
    st_gpu_free(f.gpu, in, NULL);
    st_gpu_free(f.gpu, out, NULL);
    emitter->module_destroy(emitter->self, module);
}

Test(gpu_calls, a_kernel_that_the_compiler_refuses_is_named)
{
    static const char *const names[] = {"twice", "broken_3"};
    void *module = NULL;
    stator_diag *err = NULL;
    cr_expect_eq(compile(names, 2, &module, &err), STATOR_INTERNAL);
    cr_expect_null(module);
    cr_expect_str_eq(st_diag_text(err), "kernel st_broken_3: line 1: 'broken' is no program");
    st_diag_release(err);
}

Test(gpu_calls, a_module_that_is_not_kept_drops_its_images)
{
    void *module = module_of("twice");
    st_str bytes;
    st_str_init(&bytes, &f.mem);
    cr_expect_eq(emitter->module_save(emitter->self, module, &bytes, NULL), STATOR_UNSUPPORTED);
    st_str_deinit(&bytes);
    emitter->module_destroy(emitter->self, module);
}

Test(gpu_calls, modules_as_bytes_and_back)
{
    static const char *const names[] = {"twice_1", "note_1", "twice_2"};
    void *module = NULL;
    st_str bytes;
    st_str_init(&bytes, &f.mem);
    f.is_wanted = true;
    cr_assert_eq(compile(names, 3, &module, NULL), STATOR_OK);
    cr_assert_eq(emitter->module_save(emitter->self, module, &bytes, NULL), STATOR_OK);
    emitter->module_destroy(emitter->self, module);
    f.n_compiled = 0;
    stator_diag *err = NULL;
    cr_assert_eq(emitter->module_load(emitter->self, bytes.data, bytes.len, 3, &module, &err),
                 STATOR_OK, "%s", st_diag_text(err));
    cr_expect_eq(f.n_compiled, 0);
    float *in = alloc(16);
    float *out = alloc(16);
    int64_t syms[2] = {1, 77};
    in[0] = 3;
    void *call = begin_call(NULL, NULL, NULL);
    launch(module, 2, call, (void *[]){in, out}, syms, 1);
    launch(module, 1, call, (void *[]){in, out}, syms, 65);
    memory->end(memory->self, call);
    cr_assert_eq(st_gpu_wait(f.gpu, NULL, NULL), STATOR_OK);
    cr_expect_eq(out[0], 6);
    cr_expect_eq(f.noted[0], 77);
    cr_expect_eq(f.noted_blocks, 2);
    st_gpu_free(f.gpu, in, NULL);
    st_gpu_free(f.gpu, out, NULL);
    emitter->module_destroy(emitter->self, module);
    for (uint64_t n = 0; n < bytes.len; n++) {
        const stator_status status =
            emitter->module_load(emitter->self, bytes.data, n, 3, &module, NULL);
        cr_expect_eq(status, STATOR_DATA_LOSS, "%llu bytes: %d", (unsigned long long)n, status);
        cr_expect_null(module);
    }
    st_str_deinit(&bytes);
}

/* The host's memory fails at each request of a compile in turn. */
Test(gpu_calls, the_host_runs_out_while_it_compiles)
{
    static const char *const names[] = {"twice_1", "note_1"};
    stator_status status = STATOR_RESOURCE_EXHAUSTED;
    for (uint64_t n = 1; status != STATOR_OK; n++) {
        void *module = NULL;
        stator_diag *err = NULL;
        atomic_store(&f.mem.requests, 0);
        atomic_store(&f.mem.fail_at, n);
        status = compile(names, 2, &module, &err);
        atomic_store(&f.mem.fail_at, 0);
        cr_expect(status == STATOR_OK || status == STATOR_RESOURCE_EXHAUSTED, "%s",
                  st_diag_text(err));
        st_diag_release(err);
        emitter->module_destroy(emitter->self, module);
    }
}
