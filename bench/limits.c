/* What this machine can do at most: arithmetic peak and memory bandwidth by thread count.
 *
 *     limits [--threads N[,M...]] [--quick]      JSON on stdout, one row a thread count
 *     limits --serve                             reads "WHAT THREADS" lines, answers each with a
 *                                                number and a newline (-1: no such thing here)
 *
 * Figures: fma_f32, dot_bf16 (GFLOP/s) and dot_i8 (GOP/s); copy, copy_nt (stores past the caches),
 * triad, read, read_prefetch (GB/s, the bytes that the program names: what ordinary stores read
 * before they write is not counted). The streams are 256 MiB an array on huge pages where the
 * system gives them, touched before they are timed by the thread that uses them. Each figure is the
 * best of several repetitions: noise only takes away. The server repeats a figure for a short time
 * only, so that a benchmark can measure the limit beside each of its rounds. */
#define _GNU_SOURCE
#include "bench/limits/limits_kernels.h"

#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define STREAM_FLOATS ((size_t)1 << 26)
#define COUNTS_MAX 16
#define FIGURES 8

typedef struct limits {
    limits_isa isa;
    float *a, *b, *c;
    int quick;
} limits;

typedef struct figure {
    const char *name;
    size_t at;               /* index of the kernel in limits_isa */
    double bytes_an_element; /* 0: a compute kernel */
} figure;

static const figure figures[FIGURES] = {
    {"fma_f32", offsetof(limits_isa, fma_f32), 0},
    {"dot_bf16", offsetof(limits_isa, dot_bf16), 0},
    {"dot_i8", offsetof(limits_isa, dot_i8), 0},
    {"copy", offsetof(limits_isa, copy), 8},
    {"copy_nt", offsetof(limits_isa, copy_nt), 8},
    {"triad", offsetof(limits_isa, triad), 12},
    {"read", offsetof(limits_isa, read), 4},
    {"read_prefetch", offsetof(limits_isa, read_prefetch), 4},
};

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float *huge_array(void)
{
    const size_t huge = (size_t)2 << 20;
    const size_t bytes = STREAM_FLOATS * sizeof(float);
    float *p = aligned_alloc(huge, bytes);
    if (p != NULL) {
        (void)madvise(p, bytes, MADV_HUGEPAGE);
    }
    return p;
}

/* The slice of one thread, a multiple of 64 floats. */
static void slice_of(int thread, int threads, size_t *out_from, size_t *out_n)
{
    const size_t blocks = STREAM_FLOATS / 64;
    const size_t from = blocks * (size_t)thread / (size_t)threads;
    const size_t to = blocks * ((size_t)thread + 1) / (size_t)threads;
    *out_from = from * 64;
    *out_n = (to - from) * 64;
}

static void touch(limits *l, int threads)
{
#pragma omp parallel num_threads(threads)
    {
        size_t from = 0;
        size_t n = 0;
        slice_of(omp_get_thread_num(), omp_get_num_threads(), &from, &n);
        for (size_t i = from; i < from + n; i++) {
            l->a[i] = l->b[i] = l->c[i] = (float)(i & 1023u);
        }
    }
}

static int streams_ready(limits *l, int threads)
{
    if (l->a == NULL) {
        l->a = huge_array();
        l->b = huge_array();
        l->c = huge_array();
        if (l->a == NULL || l->b == NULL || l->c == NULL) {
            (void)fprintf(stderr, "limits: no memory for three arrays of 256 MiB\n");
            return 0;
        }
        touch(l, threads);
    }
    return 1;
}

/* Operations a second, in 1e9, of `rounds` rounds on each thread. */
static double compute_once(limits_compute_fn kernel, int threads, long rounds)
{
    double work = 0;
    float sink = 0;
    const double start = now_s();
#pragma omp parallel num_threads(threads) reduction(+ : work, sink)
    {
        float mine = 0;
        work += kernel(rounds, &mine);
        sink += mine;
    }
    const double seconds = now_s() - start;
    volatile float kept = sink;
    (void)kept;
    return work / seconds * 1e-9;
}

static double stream_once(limits *l, limits_stream_fn kernel, int threads, double bytes)
{
    float sink = 0;
    const double start = now_s();
#pragma omp parallel num_threads(threads) reduction(+ : sink)
    {
        size_t from = 0;
        size_t n = 0;
        float mine = 0;
        slice_of(omp_get_thread_num(), omp_get_num_threads(), &from, &n);
        kernel(l->a + from, l->b + from, l->c + from, n, &mine);
        sink += mine;
    }
    const double seconds = now_s() - start;
    volatile float kept = sink;
    (void)kept;
    return bytes * (double)STREAM_FLOATS / seconds * 1e-9;
}

static double compute_best(limits_compute_fn kernel, int threads, int quick)
{
    long rounds = 100000;
    double best = 0;
    double start = now_s();
    (void)compute_once(kernel, threads, rounds);
    const double once = now_s() - start;
    if (once > 0 && once < 0.02) {
        rounds = (long)((double)rounds * 0.02 / once) + 1;
    }
    for (int i = 0; i < (quick ? 3 : 15); i++) {
        const double got = compute_once(kernel, threads, rounds);
        best = got > best ? got : best;
    }
    return best;
}

static double stream_best(limits *l, limits_stream_fn kernel, int threads, double bytes)
{
    double best = 0;
    for (int i = 0; i < (l->quick ? 3 : 10); i++) {
        const double got = stream_once(l, kernel, threads, bytes);
        best = got > best ? got : best;
    }
    return best;
}

/* -1: this CPU has no such loop, or there is no memory. */
static double measure(limits *l, const figure *f, int threads)
{
    const char *slot = (const char *)&l->isa + f->at;
    if (f->bytes_an_element > 0) {
        limits_stream_fn stream = NULL;
        memcpy(&stream, slot, sizeof stream);
        return stream != NULL && streams_ready(l, threads)
                   ? stream_best(l, stream, threads, f->bytes_an_element)
                   : -1;
    }
    limits_compute_fn compute = NULL;
    memcpy(&compute, slot, sizeof compute);
    return compute != NULL ? compute_best(compute, threads, l->quick) : -1;
}

static void cpu_name(char *out, size_t size)
{
    (void)snprintf(out, size, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            (void)snprintf(out, size, "%.*s", (int)strcspn(colon + 2, "\"\\\n"), colon + 2);
            break;
        }
    }
    if (f != NULL) {
        (void)fclose(f);
    }
}

/* Others that want the processors make every figure too small, and no repetition tells. */
static void warn_of_load(void)
{
    double load = 0;
    if (getloadavg(&load, 1) == 1 && load > omp_get_num_procs()) {
        (void)fprintf(
            stderr,
            "limits: warning: the load average is %.1f on %d cores; the figures are those "
            "of a busy machine, not its limits\n",
            load, omp_get_num_procs());
    }
}

static void report(limits *l, const int *counts, int n)
{
    char cpu[128];
    cpu_name(cpu, sizeof cpu);
    (void)printf("{\"cpu\": \"%s\", \"cores\": %d, \"loops\": \"%s\", \"rows\": [", cpu,
                 omp_get_num_procs(), l->isa.name);
    for (int i = 0; i < n; i++) {
        (void)printf("%s\n  {\"threads\": %d", i > 0 ? "," : "", counts[i]);
        for (int k = 0; k < FIGURES; k++) {
            const double got = measure(l, &figures[k], counts[i]);
            if (got >= 0) {
                (void)printf(", \"%s\": %.1f", figures[k].name, got);
            } else {
                (void)printf(", \"%s\": null", figures[k].name);
            }
        }
        (void)printf("}");
    }
    (void)printf("\n]}\n");
}

static int serve(limits *l)
{
    char line[128];
    while (fgets(line, sizeof line, stdin) != NULL) {
        char what[32] = "";
        int threads = 0;
        double got = -1;
        if (sscanf(line, "%31s %d", what, &threads) == 2 && threads > 0) {
            for (int k = 0; k < FIGURES; k++) {
                got = strcmp(figures[k].name, what) == 0 ? measure(l, &figures[k], threads) : got;
            }
        }
        (void)printf("%.3f\n", got);
        if (fflush(stdout) != 0) {
            return 1;
        }
    }
    return 0;
}

static int parse_counts(const char *text, int counts[COUNTS_MAX])
{
    int n = 0;
    for (const char *at = text; *at != '\0' && n < COUNTS_MAX;) {
        char *end = NULL;
        const long value = strtol(at, &end, 10);
        if (end == at || value < 1 || value > 4096 || (*end != ',' && *end != '\0')) {
            return 0;
        }
        counts[n++] = (int)value;
        at = *end == ',' ? end + 1 : end;
    }
    return n;
}

/* 1, 2, 4, ... and all cores. */
static int default_counts(int counts[COUNTS_MAX])
{
    const int cores = omp_get_num_procs();
    int n = 0;
    for (int t = 1; t < cores && n < COUNTS_MAX - 1; t *= 2) {
        counts[n++] = t;
    }
    counts[n++] = cores;
    return n;
}

int main(int argc, char **argv)
{
    limits l = {.isa = limits_best_isa()};
    int counts[COUNTS_MAX];
    int n = default_counts(counts);
    int serving = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            l.quick = 1;
        } else if (strcmp(argv[i], "--serve") == 0) {
            serving = l.quick = 1;
        } else {
            const int is_threads = strcmp(argv[i], "--threads") == 0 && i + 1 < argc;
            n = is_threads ? parse_counts(argv[++i], counts) : 0;
            if (n == 0) {
                (void)fprintf(stderr, "usage: limits [--threads N[,M...]] [--quick] | --serve\n");
                return 2;
            }
        }
    }
    int status = 0;
    warn_of_load();
    if (serving) {
        status = serve(&l);
    } else {
        report(&l, counts, n);
    }
    free(l.a);
    free(l.b);
    free(l.c);
    return status;
}
