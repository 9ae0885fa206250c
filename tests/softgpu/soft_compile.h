/* A program in the dialect, compiled by the system's C compiler to a shared object. */
#ifndef STATOR_TESTS_SOFT_COMPILE_H
#define STATOR_TESTS_SOFT_COMPILE_H

#include <stdbool.h>
#include <stddef.h>

#define SOFT_DEFINES_MAX 32

/* Bytes from malloc, with a NUL behind them that does not count. */
typedef struct soft_bytes {
    char *data;
    size_t size;
} soft_bytes;

typedef struct soft_program {
    const char *text;
    bool has_prelude; /* the program named gpu_prelude.h as a header of it */
    unsigned arch;    /* 90 for sm_90 */
    bool is_ptx;      /* it was compute_90: newer chips take it too */
    bool contracts;   /* a * b + c may become one fma, as by default on a GPU */
    const char *defines[SOFT_DEFINES_MAX]; /* "-DX=1" */
    unsigned n_defines;
} soft_program;

/* Compiles, or finds the object of the same text in the cache. False with what the compiler said in
 * *out_log, which may hold something after success too. The caller frees both. Threads: any. */
bool soft_compile(const soft_program *program, soft_bytes *out_object, soft_bytes *out_log);

#endif
