/* Matrix products; see ek_gemm.h. f64 tiles go to cblas_dgemm of an OpenBLAS found at run time (its
 * OpenMP or serial build: inside a parallel region it computes in the calling thread), or to an own
 * blocked loop when there is none. OpenBLAS 0.3.21 takes CPUs it does not know for old ones and is
 * then half as fast: where AVX-512 is there and the user chose nothing, SkylakeX is named to it. */
#define _GNU_SOURCE
#include "plugins/eager/kernels/ek_gemm.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the BLAS ---- */

typedef void (*dgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, double alpha,
                         const double *a, int lda, const double *b, int ldb, double beta, double *c,
                         int ldc);

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

/* Stands in eager_self.blas when there is no library. */
static char no_blas;

static void *open_first(int flags)
{
    static const char *const paths[] = {
        "/usr/lib/x86_64-linux-gnu/openblas-openmp/libopenblas.so.0",
        "/usr/lib/aarch64-linux-gnu/openblas-openmp/libopenblas.so.0", "libopenblas.so.0"};
    void *dso = NULL;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0] && dso == NULL; i++) {
        dso = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | flags);
    }
    return dso;
}

#if defined(__x86_64__)
/* OpenBLAS reads the name while it is loaded, from the environment alone. setenv would move or free
 * the array that getenv of another thread walks through, and unsetenv shifts it; so a longer copy
 * takes the array's place by one store, and gives it back by one. A reader sees the one or the
 * other, both whole; the copy stays for readers that are still in it. An application that itself
 * changes the environment meanwhile keeps its change: then the copy is left standing. */
static void *open_with_core(void)
{
    static char name[] = "OPENBLAS_CORETYPE=SkylakeX";
    static char **kept; /* tried once a process */
    char **const old = __atomic_load_n(&environ, __ATOMIC_ACQUIRE);
    uint64_t n = 0;
    while (old != NULL && old[n] != NULL) {
        n++;
    }
    char **copy = kept == NULL ? st_process_alloc((n + 2u) * sizeof *copy) : NULL;
    if (copy == NULL) {
        return open_first(0);
    }
    kept = copy;
    for (uint64_t i = 0; i < n; i++) {
        copy[i] = old[i];
    }
    copy[n] = name;
    copy[n + 1u] = NULL;
    __atomic_store_n(&environ, copy, __ATOMIC_RELEASE);
    void *dso = open_first(0);
    char **expected = copy;
    (void)__atomic_compare_exchange_n(&environ, &expected, old, 0, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED);
    return dso;
}

static bool wants_core(void)
{
    return secure_getenv("OPENBLAS_CORETYPE") == NULL && __builtin_cpu_supports("avx512vl");
}
#else
static void *open_with_core(void)
{
    return open_first(0);
}

static bool wants_core(void)
{
    return false;
}
#endif

/* A library that is in the process already has chosen its kernels. */
static void *open_openblas(void)
{
    void *dso = open_first(RTLD_NOLOAD);
    return dso != NULL ? dso : wants_core() ? open_with_core() : open_first(0);
}

/* cblas_dgemm, or &no_blas: a build with threads of its own (openblas_get_parallel = 1) is not
 * used, it would run several teams at once. */
static void *find_dgemm(void)
{
    void *dso = open_openblas();
    if (dso == NULL) {
        return &no_blas;
    }
    int (*parallel)(void) = (int (*)(void))(uintptr_t)dlsym(dso, "openblas_get_parallel");
    void (*set_threads)(int) = (void (*)(int))(uintptr_t)dlsym(dso, "openblas_set_num_threads");
    void *dgemm = dlsym(dso, "cblas_dgemm");
    if (dgemm == NULL || parallel == NULL || parallel() == 1) {
        return &no_blas;
    }
    if (set_threads != NULL) {
        set_threads(1);
    }
    return dgemm;
}

/* The environment belongs to the process, and so does this lock: contexts that look for the library
 * at once do it one after the other. */
static pthread_mutex_t environment_lock = PTHREAD_MUTEX_INITIALIZER;

void ek_gemm_prepare(const ek_call *call)
{
    if (atomic_load_explicit(&call->self->blas, memory_order_acquire) != NULL) {
        return;
    }
    pthread_mutex_lock(&environment_lock);
    if (atomic_load_explicit(&call->self->blas, memory_order_relaxed) == NULL) {
        atomic_store_explicit(&call->self->blas, find_dgemm(), memory_order_release);
    }
    pthread_mutex_unlock(&environment_lock);
}

/* ---- tiles ---- */

#define BLOCK_K 256

static void own_f64(const ek_matrix_tile *t)
{
    for (int64_t i = 0; i < t->m; i++) {
        double *row = &t->c[i * t->ldc].f;
        for (int64_t j = 0; j < t->n && !t->accumulate; j++) {
            row[j] = 0.0;
        }
    }
    for (int64_t k0 = 0; k0 < t->k; k0 += BLOCK_K) {
        const int64_t k1 = k0 + BLOCK_K < t->k ? k0 + BLOCK_K : t->k;
        for (int64_t i = 0; i < t->m; i++) {
            double *row = &t->c[i * t->ldc].f;
            for (int64_t k = k0; k < k1; k++) {
                const double a = t->a[i * t->lda + k].f;
                const double *b = t->b_transposed ? &t->b[k].f : &t->b[k * t->ldb].f;
                const int64_t step = t->b_transposed ? t->ldb : 1;
                for (int64_t j = 0; j < t->n; j++) {
                    row[j] += a * b[j * step];
                }
            }
        }
    }
}

/* Unsigned arithmetic wraps, as the op table says of integers. */
static void own_i64(const ek_matrix_tile *t)
{
    for (int64_t i = 0; i < t->m; i++) {
        for (int64_t j = 0; j < t->n; j++) {
            uint64_t sum = t->accumulate ? (uint64_t)t->c[i * t->ldc + j].i : 0;
            const ek_wide *b = t->b_transposed ? &t->b[j * t->ldb] : &t->b[j];
            const int64_t step = t->b_transposed ? 1 : t->ldb;
            for (int64_t k = 0; k < t->k; k++) {
                sum += (uint64_t)t->a[i * t->lda + k].i * (uint64_t)b[k * step].i;
            }
            t->c[i * t->ldc + j].i = (int64_t)sum;
        }
    }
}

void ek_gemm_tile(const ek_call *call, const ek_matrix_tile *t)
{
    void *blas = atomic_load_explicit(&call->self->blas, memory_order_relaxed);
    const int64_t limit = INT32_MAX;
    if (t->m == 0 || t->n == 0) {
        return;
    }
    if (t->is_int) {
        own_i64(t);
    } else if (blas == NULL || blas == (void *)&no_blas || t->k == 0 || t->k > limit ||
               t->lda > limit || t->ldb > limit || t->ldc > limit) {
        own_f64(t);
    } else {
        dgemm_fn dgemm = (dgemm_fn)(uintptr_t)blas;
        dgemm(ROW_MAJOR, NO_TRANS, t->b_transposed ? TRANS : NO_TRANS, (int)t->m, (int)t->n,
              (int)t->k, 1.0, &t->a->f, (int)t->lda, &t->b->f, (int)t->ldb,
              t->accumulate ? 1.0 : 0.0, &t->c->f, (int)t->ldc);
    }
}

/* ---- workers ---- */

typedef struct worker_job {
    ek_task_fn fn;
    void *self;
    int64_t n_tasks;
    int64_t workers;
} worker_job;

static void run_workers(void *self, int64_t begin, int64_t end)
{
    const worker_job *job = self;
    for (int64_t w = begin; w < end; w++) {
        for (int64_t t = w; t < job->n_tasks; t += job->workers) {
            job->fn(job->self, t, w);
        }
    }
}

int64_t ek_worker_count(const ek_call *call, int64_t n_tasks)
{
    const stator_host *host = call->self->host;
    const int64_t threads = host->thr->thread_count(host->ctx);
    return n_tasks < threads ? (n_tasks > 0 ? n_tasks : 1) : (threads > 0 ? threads : 1);
}

void ek_workers(const ek_call *call, int64_t workers, int64_t n_tasks, ek_task_fn fn, void *self)
{
    worker_job job = {.fn = fn, .self = self, .n_tasks = n_tasks, .workers = workers};
    ek_parallel(call, workers, 1, run_workers, &job);
}

/* ---- wide elements ---- */

void ek_load_wide(const ek_tensor *t, int64_t first, int64_t step, int64_t n, ek_wide *out)
{
    if (ek_is_int_math(t->dtype)) {
        for (int64_t i = 0; i < n; i++) {
            out[i].i = st_load_i64(t->dtype, t->data, first + i * step);
        }
    } else if (step == 1) {
        st_load_f64_block(t->dtype, t->data, first, n, &out->f);
    } else {
        st_load_f64_strided(t->dtype, t->data, first, step, n, &out->f);
    }
}

typedef struct widening {
    const ek_tensor *t;
    ek_wide *out;
} widening;

static void widen_range(void *self, int64_t begin, int64_t end)
{
    const widening *w = self;
    ek_load_wide(w->t, begin, 1, end - begin, w->out + begin);
}

stator_status ek_widen(const ek_call *call, const ek_tensor *t, ek_wide **out, stator_diag **err)
{
    ST_TRY(EK_SCRATCH(call, *out, t->numel + 1, err));
    widening w = {t, *out};
    ek_parallel(call, t->numel, 65536, widen_range, &w);
    return STATOR_OK;
}

void ek_store_wide(const ek_tensor *t, int64_t first, int64_t n, const ek_wide *x)
{
    if (ek_is_int_math(t->dtype)) {
        st_store_i64_block(t->dtype, t->data, first, n, &x->i);
    } else {
        st_store_f64_block(t->dtype, t->data, first, n, &x->f);
    }
}
