/* The loops that bench/limits times, one set per instruction set, each compiled for its own by a
 * target attribute so that the file needs no machine flags.
 *
 * A kernel works on one thread's slice: n is a count of floats, a multiple of 64, and the arrays
 * are aligned to 64 bytes. The compute kernels run n rounds on registers and return the number of
 * operations done (a multiply and an add count as two). *sink keeps results alive. NULL: this
 * instruction set has no such loop. */
#ifndef BENCH_LIMITS_KERNELS_H
#define BENCH_LIMITS_KERNELS_H

#include <stddef.h>

typedef double (*limits_compute_fn)(long rounds, float *sink);
typedef void (*limits_stream_fn)(float *a, const float *b, const float *c, size_t n, float *sink);

typedef struct limits_isa {
    const char *name;
    limits_compute_fn fma_f32;
    limits_compute_fn dot_bf16;     /* pairs of bf16 into f32 */
    limits_compute_fn dot_i8;       /* quadruples of 8-bit integers into i32, or pairs as words */
    limits_stream_fn copy;          /* a = b, ordinary stores: 8 bytes an element */
    limits_stream_fn copy_nt;       /* a = b past the caches: 8 bytes an element */
    limits_stream_fn triad;         /* a = b * 3 + c: 12 bytes an element */
    limits_stream_fn read;          /* sum of b: 4 bytes an element */
    limits_stream_fn read_prefetch; /* the same, lines asked for 4 KiB ahead */
} limits_isa;

/* The best set that this CPU has. */
limits_isa limits_best_isa(void);

#endif
