/* The room of fixed kernels: ops that are no loops, as programs of their own.
 *
 * A fixed kernel is a text in the dialect whose types and operation stand above it as macros. An op
 * is made of a contraction (codegen/target/library.h), with what of it is no size; sizes and
 * strides come with each call. Equal programs are compiled once a device.
 *
 *   gpu_fixed.c      the library of them, and what ops keep
 *   gpu_programs.c   programs: compiled, loaded, launched
 *   gpu_scan.c       cumsum, cumprod
 *   gpu_sort.c       sort, topk
 *   gpu_radix.c      long rows of gpu_sort.c
 *   gpu_select.c     topk of few
 *   gpu_partition.c  sort, topk of flags
 *   gpu_scatter.c    scatter_elements, scatter_nd */
#ifndef STATOR_CODEGEN_GPU_FIXED_H
#define STATOR_CODEGEN_GPU_FIXED_H

#include "codegen/gpu/gpu_runtime.h"

#define GPU_FIXED_PROGRAMS_MAX 3u
#define GPU_FIXED_KERNELS_MAX 6u /* of a program */
#define GPU_FIXED_BUFFERS_MAX 4u /* of an op */
#define GPU_FIXED_ARGUMENTS_MAX 48u
#define GPU_FIXED_COLUMNS 3u /* strides of an axis */
/* The kinds of an order that is known to want few elements, and of one of flags; others are
 * st_contraction_kind. */
#define GPU_FIXED_SELECT 256u
#define GPU_FIXED_PARTITION 257u

/* What of a contraction is no size. */
typedef struct gpu_fixed_desc {
    uint32_t kind; /* st_contraction_kind */
    uint32_t dtype;
    uint32_t rank, axis;
    uint32_t is_reverse; /* cumulate: from the end on; order: the largest first */
    uint32_t is_product, is_exclusive;
    uint32_t tile; /* order: elements that a block sorts */
    /* scatter */
    uint32_t index_rank, index_dtype;
    uint32_t width;     /* of tuples; 0: none */
    uint32_t reduction; /* st_loop_code, or 0 */
    uint32_t origin;
    uint32_t is_any_order;                   /* sums of floats too may be added in any order */
    uint32_t buffers[GPU_FIXED_BUFFERS_MAX]; /* x, out, indices, updates; UINT32_MAX: none */
} gpu_fixed_desc;

/* ---- gpu_programs.c ---- */

typedef struct gpu_program {
    struct gpu_program *next;
    st_str text;
    st_str image;
    void *module; /* the driver's */
    void *functions[GPU_FIXED_KERNELS_MAX];
} gpu_program;

/* The program of this text, with the kernels of these names (a list that ends with NULL). `image`:
 * what it was compiled to before, may be empty. Lives as long as the runtime. */
stator_status gpu_program_find(st_gpu *gpu, const st_str *text, const char *const *kernels,
                               const st_str *image, gpu_program **out, stator_diag **err);
/* No call runs any more. */
void gpu_programs_destroy(st_gpu *gpu);

/* ---- kinds: one row of gpu_fixed.c each ---- */

typedef struct gpu_fixed_op {
    gpu_fixed_desc desc;
    gpu_program *programs[GPU_FIXED_PROGRAMS_MAX];
} gpu_fixed_op;

/* The axes of a call around the op's own, the outermost first; those that all strides walk as one
 * are merged, and as many of size 1 stand before them as the text has. */
typedef struct gpu_axes {
    int64_t rows; /* product of their sizes */
    uint32_t n;
    int64_t size[ST_CONTRACTION_ORDER_RANK_MAX];
    int64_t stride[ST_CONTRACTION_ORDER_RANK_MAX][GPU_FIXED_COLUMNS];
    /* Of the op's own axis. */
    int64_t own_size, own_stride[GPU_FIXED_COLUMNS];
} gpu_axes;

/* A call, and the arguments of its next launch. */
typedef struct gpu_fixed_call {
    st_gpu *gpu;
    const gpu_fixed_op *op;
    gpu_call *call;
    const st_library_call *of;
    gpu_axes axes;
    uint32_t n_arguments;
    uint64_t arguments[GPU_FIXED_ARGUMENTS_MAX];
} gpu_fixed_call;

typedef struct gpu_fixed_kind {
    uint32_t n_columns;  /* of strides of an axis */
    uint32_t first_axis; /* numbers before those of the axes */
    uint32_t n_programs;
    const char *const *kernels[GPU_FIXED_PROGRAMS_MAX];
    /* Fills what the kind has of it; false: the loops do it. */
    bool (*describe)(const st_target *target, const st_contraction *contraction,
                     gpu_fixed_desc *out);
    void (*print)(const gpu_fixed_desc *desc, uint32_t program, st_str *out);
    stator_status (*run)(gpu_fixed_call *call, stator_diag **err);
} gpu_fixed_kind;

extern const gpu_fixed_kind gpu_scan_kind;    /* gpu_scan.c */
extern const gpu_fixed_kind gpu_sort_kind;    /* gpu_sort.c */
extern const gpu_fixed_kind gpu_scatter_kind; /* gpu_scatter.c */
/* gpu_select.c, gpu_partition.c; asked before gpu_sort_kind */
extern const gpu_fixed_kind gpu_select_kind, gpu_partition_kind;

/* ---- gpu_sort.c: for other kinds ---- */

#define GPU_SORT_PROGRAMS 2u
extern const char *const gpu_sort_tile_kernels[];

/* Keys and indices of all rows, one behind the other. */
typedef struct gpu_sort_list {
    st_gpu_address keys, indices;
    int64_t n; /* of a row */
} gpu_sort_list;

/* Prints the beginning of a program: st_t, st_key, st_key_of, ST_MIN, ST_BEFORE, and ST_SORT, for
 * which the program defines ST_THREADS. */
void gpu_put_keys(const gpu_fixed_desc *desc, st_str *out);
/* Bits of a dtype's keys that are not the same for all. */
uint32_t gpu_key_bits(uint32_t dtype);
/* UNSUPPORTED: indices within a row, which are of 32 bits, do not reach its end. */
stator_status gpu_check_row(const gpu_fixed_call *call, stator_diag **err);
/* What sorts one row of keys (u32). */
gpu_fixed_desc gpu_sort_desc_of_keys(void);
/* The row of lists[0] (of n, keys of so many bits) in order; `call` is of an op of that desc. *out:
 * where it is, one of the two. */
stator_status gpu_sort_keys(gpu_fixed_call *call, gpu_sort_list lists[2], uint32_t bits,
                            uint32_t *out, stator_diag **err);

/* ---- gpu_radix.c: for gpu_sort.c ---- */

extern const char *const gpu_radix_kernels[];

typedef struct gpu_radix {
    uint32_t program; /* of the op: that of these kernels */
    uint32_t bits;    /* of keys */
    bool is_of_x;     /* from x to values and indices; else from list `now` to list `now` */
    int64_t take;     /* elements of a result */
    gpu_sort_list lists[2];
    uint32_t now;
    st_gpu_address counts;
} gpu_radix;

/* Prints the program behind gpu_put_keys. */
void gpu_put_radix(const gpu_fixed_desc *desc, st_str *out);
/* Sorts all rows of a call. */
stator_status gpu_radix_sort(gpu_radix *r, gpu_fixed_call *call, stator_diag **err);

/* ---- gpu_fixed.c: helpers of kinds ---- */

/* Prints `typedef struct st_arguments_of { ... }` with the fields (names of eight bytes,
 * separated by blanks), d, x, y.. of each of the op's other axes, and the macro ST_PLACE(row,
 * x, y, ..) that adds to each variable where the row's first element is. */
void gpu_put_arguments(const gpu_fixed_desc *desc, uint32_t n_columns, const char *fields,
                       st_str *out);
/* Prints `st_u32 st_count_before(st_u32 x, st_u32 *warps)`, which adds up what the threads before
 * this one have, through shared words, one for each of the ST_THREADS / ST_WARP warps. */
void gpu_put_count_before(st_str *out);
/* Begins the arguments of a launch; `n` of them, in the order of the fields. */
void gpu_set_arguments(gpu_fixed_call *call, const uint64_t *arguments, uint32_t n);
/* Launches a kernel of the op's program with the arguments and the axes behind them. */
stator_status gpu_launch_fixed(const gpu_fixed_call *call, uint32_t program, uint32_t kernel,
                               uint32_t threads, int64_t blocks, stator_diag **err);
/* The first element of the op's buffer; 0: it has none. */
st_gpu_address gpu_buffer_of(const gpu_fixed_call *call, uint32_t buffer);
/* ceil(n / each) */
static inline int64_t gpu_count_of(int64_t n, int64_t each)
{
    return (n + each - 1) / each;
}

/* The library of a runtime. */
void gpu_fixed_init(st_gpu *gpu);

#endif
