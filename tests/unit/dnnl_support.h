/* Contractions built by hand, run by the library over oneDNN and compared with plain loops in f64.
 */
#ifndef STATOR_TESTS_DNNL_SUPPORT_H
#define STATOR_TESTS_DNNL_SUPPORT_H

#include "plugins/cpu-llvm/onednn/dnnl_api.h"

#define BUFFERS 8u
#define AXES 8u

/* A host of what the library asks for. */
typedef struct fake {
    st_mem mem;
    int32_t threads;
    uint32_t packs;               /* made, not found */
    _Atomic int32_t is_contended; /* what the library is told */
    _Atomic uint64_t team_notes;  /* what it has told */
    uint32_t n_known;
    struct {
        uint8_t hash[16];
        char key[64];
        stator_blob *blob;
    } known[512];
} fake;

/* Places of buffers. */
enum { X = 0, Y = 1, OUT = 2, EXTRA = 3 };

typedef struct problem {
    st_contraction contraction;
    int64_t numbers[ST_CONTRACTION_NUMBERS_MAX];
    int64_t sizes[8]; /* values of symbols, by index */
    void *buffers[BUFFERS];
    void *blocks[BUFFERS];
    int64_t elements[BUFFERS];
    uint32_t dtypes[BUFFERS];
    uint32_t misalign;
} problem;

typedef struct conv_case {
    uint32_t n_spatial;
    int64_t images, channels, features, groups;
    int64_t in[3], kernel[3], stride[3], dilation[3], low[3], high[3];
} conv_case;

/* The axes of an output, and what a step along each means. */
typedef struct walk {
    uint32_t n; /* axes of the output */
    int64_t extent[AXES], x[AXES], y[AXES], out[AXES];
    uint32_t feature;
} walk;

typedef struct total {
    double value;
    double size; /* sum of absolute values: what rounding is relative to */
} total;

extern fake f;
extern stator_host host;
extern st_mem mem; /* the library's account */
extern st_loop_syms syms;
extern const dnnl_api *api;
extern const st_library *lib;

/* A world for one test; without libdnnl the test is skipped. */
void dnnl_begin(void);
void dnnl_end(void);
/* The library anew with flags of enum dnnl_flag. */
void open_with(uint32_t flags);
/* As dnnl_begin, kernels of our own wherever they can. */
void dnnl_begin_tiles(void);
/* The library anew, with vectors that AVX2 has. 0: this processor has none. */
int dnnl_begin_narrow(uint32_t flags);

/* Syms. */
uint32_t num(int64_t value);
uint32_t sym(const char *name);
/* Contractions. */
void epilogue(problem *p, uint32_t kind, double value, double value2);
void gemm(problem *p, uint32_t in, uint32_t out, uint32_t m, uint32_t n, uint32_t k);
void strides(st_contraction_operand *operand, int64_t a, int64_t b);
void batch(problem *p, int64_t extent, int64_t x, int64_t y, int64_t out);
void conv(problem *p, uint32_t in, uint32_t out, const conv_case *c, int x_last, int out_last);
/* Transposed; `more` of the output on each axis: what the stride leaves open. */
void conv_transpose(problem *p, const conv_case *c, const int64_t *more, int x_last, int out_last);
/* The gradient to the weight, of numbers of the dtype; y_last: the channels of what arrives at the
 * output are last. */
void conv_weight_grad(problem *p, uint32_t dtype, const conv_case *c, int x_last, int y_last);
/* The number of a sym in this problem. */
int64_t value(const problem *p, uint32_t s);
walk walk_of(const problem *p);
total gemm_at(const problem *p, const walk *w, const int64_t *index);
/* Buffers with data for the contraction, numbers; and away with them. */
void fill(problem *p);
void empty(problem *p);
/* Runs and compares; a difference ends the test. `slack`: times the usual tolerance. */
void call(const problem *p, void *op);
void compare(const problem *p, const char *what, double slack);
/* y as it is becomes a constant. */
void set_constant(problem *p);
/* Buffers with data, y as a constant. */
void with_constant(problem *p);
/* Runs, compares and takes the buffers away. `by`: what is to have done it; NULL: anything. */
void run_as(problem *p, const char *what, double slack, const char *by);
/* Has the processor AVX-512, and its products of bf16, or of bytes? */
int has_wide(uint32_t dtype);
/* Of this process. */
uint32_t thread_count(void);
/* The op of a contraction that must be taken. */
void *create(problem *p, const char *what);
/* All of it, with y as an input and as a constant, and not by plain loops. */
void check(problem *p, const char *what);
/* Creates and runs the op with each allocation failing once, until none does: three at least, each
 * RESOURCE_EXHAUSTED. */
void fail_allocations(problem *p);
/* fail_allocations on one thread; then, with the library opened anew with these flags, the first
 * call asks for as much, beside the heads of its blocks, as the library says. */
void check_scratch(problem *p, uint32_t flags);

#endif
