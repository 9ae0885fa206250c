/* Primitives of oneDNN on a contended machine: one thread, the same bits. */
#define _GNU_SOURCE
#include "dnnl_support.h"

#include "core/base/diag.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

TestSuite(dnnl_threads, .init = dnnl_begin, .fini = dnnl_end);

/* Of three axes: no kernel but oneDNN's does it. */
static const conv_case image = {3,         1,         16,        32,        1,        {4, 16, 16},
                                {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};

/* A convolution, a product, and one of matrices whose rows lie apart; all worth a team. */
static void make(problem *p, uint32_t kind)
{
    if (kind == 0) {
        conv(p, STATOR_F32, STATOR_F32, &image, 0, 0);
    } else {
        gemm(p, STATOR_F32, STATOR_F32, num(64), num(96), num(128));
    }
    if (kind == 2) {
        p->contraction.x.stride[0] = num(131); /* rows apart */
        p->contraction.out.stride[0] = num(99);
    }
    epilogue(p, ST_EPILOGUE_RELU, 0, 0);
    fill(p);
    set_constant(p);
}

/* Kinds that are a primitive's: without AVX-512 products are done by tiles of our own, which
 * have no counterpart on one thread. */
static uint32_t count_kinds(void)
{
    return __builtin_cpu_supports("avx512f") ? 3 : 1;
}

typedef struct caller {
    problem *p;
    void *op;
    uint32_t contended, quiet; /* threads that came to life in such a call */
} caller;

static void *call_both(void *self)
{
    caller *c = self;
    const uint32_t before = thread_count();
    f.is_contended = 1;
    call(c->p, c->op);
    c->contended = thread_count() - before;
    f.is_contended = 0;
    call(c->p, c->op);
    c->quiet = thread_count() - before;
    return NULL;
}

/* A thread that has had no team gets none. */
Test(dnnl_threads, contended_call_runs_on_one_thread)
{
    for (uint32_t kind = 0; kind < count_kinds(); kind++) {
        problem p;
        pthread_t thread;
        make(&p, kind);
        caller c = {.p = &p, .op = create(&p, "contended")};
        f.is_contended = 1;
        call(&p, c.op); /* makes what the next ones use */
        cr_assert_eq(pthread_create(&thread, NULL, call_both, &c), 0);
        (void)pthread_join(thread, NULL);
        cr_assert_eq(c.contended, 0, "kind %u", kind);
        cr_assert_eq(c.quiet, 1, "kind %u", kind);
        lib->destroy(lib->self, c.op);
        empty(&p);
    }
}

Test(dnnl_threads, contended_calls_give_the_same_bits)
{
    for (uint32_t kind = 0; kind < count_kinds(); kind++) {
        problem p;
        make(&p, kind);
        void *op = create(&p, "contended");
        const size_t bytes = (size_t)p.elements[OUT] * sizeof(float);
        void *first = st_alloc(&f.mem, bytes, 64);
        memset(p.buffers[OUT], 0x5a, bytes);
        call(&p, op);
        memcpy(first, p.buffers[OUT], bytes);
        f.is_contended = 1;
        const uint64_t notes = f.team_notes;
        for (uint32_t i = 0; i < 3; i++) {
            memset(p.buffers[OUT], 0x5a, bytes);
            call(&p, op);
            cr_assert_eq(memcmp(first, p.buffers[OUT], bytes), 0, "kind %u, call %u", kind, i);
        }
        cr_assert_eq(f.team_notes, notes, "one thread is no team");
        f.is_contended = 0;
        call(&p, op);
        cr_assert_eq(f.team_notes, notes + 1);
        ((float *)p.buffers[X])[3] = NAN;
        f.is_contended = 1;
        call(&p, op);
        compare(&p, "NaN is no maximum", 1);
        f.is_contended = 0;
        st_free(&f.mem, first);
        lib->destroy(lib->self, op);
        empty(&p);
    }
}

static void *call_often(void *self)
{
    caller *c = self;
    for (uint32_t i = 0; i < 100; i++) {
        call(c->p, c->op);
    }
    return NULL;
}

/* It becomes contended and quiet again while four threads call. */
Test(dnnl_threads, results_hold_while_contention_changes)
{
    problem p[4];
    caller callers[4];
    pthread_t threads[4];
    make(&p[0], 0);
    void *op = create(&p[0], "contended");
    for (uint32_t i = 1; i < 4; i++) {
        p[i] = p[0];
        fill(&p[i]);
        memcpy(p[i].buffers[Y], p[0].buffers[Y], (size_t)p[0].elements[Y] * sizeof(float));
    }
    for (uint32_t i = 0; i < 4; i++) {
        callers[i] = (caller){.p = &p[i], .op = op};
        cr_assert_eq(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (uint32_t i = 0; i < 100; i++) {
        f.is_contended = i % 2 == 0;
        usleep(200);
    }
    for (uint32_t i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
        compare(&p[i], "contended", 1);
        empty(&p[i]);
    }
    lib->destroy(lib->self, op);
}

/* Without memory for the other way a call is as it was. */
Test(dnnl_threads, contended_call_without_memory_runs_as_before)
{
    problem p;
    make(&p, 0);
    for (uint64_t at_request = 1; at_request < 8; at_request++) {
        void *op = create(&p, "contended");
        f.is_contended = 0;
        call(&p, op);
        f.is_contended = 1;
        mem.requests = 0;
        mem.fail_at = at_request;
        call(&p, op);
        mem.fail_at = 0;
        compare(&p, "contended", 1);
        call(&p, op);
        compare(&p, "contended again", 1);
        lib->destroy(lib->self, op);
    }
    empty(&p);
}
