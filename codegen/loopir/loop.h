/* The loop IR: a kernel is a tree of loops over scalar operations (header unstable, see
 * docs/codegen.md).
 *
 *   kernel add_exp(x: f32[N*64], y: f32[64]) -> (z: f32[N*64])
 *     loop i0 < N parallel
 *       loop i1 < 64 vector 16
 *         a = load x[64*i0 + i1]
 *         b = load y[i1]
 *         c = add a, b
 *         store z[64*i0 + i1], exp c
 *
 * Operations are instructions in one array, named by their index (0 = none); the instructions of
 * a block are chained by `next` in the order in which they run. An instruction may use
 * instructions of its own block above it and of the blocks around it. An element index is a
 * symbolic integer (core/base/sym/sym.h) over loop axes, sizes and values bound from data, so views
 * are substitutions and cost nothing. The invariants are checked by st_kernel_verify;
 * tests/oracle/loop_oracle.h defines the meaning. */
#ifndef STATOR_CODEGEN_LOOP_H
#define STATOR_CODEGEN_LOOP_H

#include "core/base/arena.h"
#include "core/base/check.h"
#include "core/base/str.h"
#include "core/base/sym/sym.h"
#include "core/base/vec.h"

typedef uint32_t st_loop_ref; /* index into st_kernel.insts, 0: none */

/* ---- the op table ---- */

/* Classes of dtypes, a mask. */
enum st_loop_class {
    ST_LOOP_BOOLS = 1u << 0,
    ST_LOOP_INTS = 1u << 1,
    ST_LOOP_UINTS = 1u << 2,
    ST_LOOP_FLOATS = 1u << 3, /* f32, f64 */
    ST_LOOP_STORAGE = 1u << 4 /* bf16, f16, f8: load, store, cast, bitcast alone */
};

enum st_loop_result { ST_LOOP_SAME = 0, ST_LOOP_BOOL = 1, ST_LOOP_ANY = 2 };

enum st_loop_code {
    ST_LOOP_NONE = 0,
    /* sources */
    ST_LOOP_CONST, /* imm */
    ST_LOOP_INDEX, /* the i64 value of `sym` */
    /* memory: `ref` is the buffer, `sym` the element index */
    ST_LOOP_LOAD,  /* args: mask or 0, value where the mask is false or 0 (zero) */
    ST_LOOP_STORE, /* args: value, mask or 0 */
    /* args: a bool that must hold, mask or 0. Where it does not, *args->status becomes
     * st_loop_check_status of the instruction (whichever came last), and the call fails when the
     * kernel has ended. */
    ST_LOOP_CHECK,
    /* structure */
    ST_LOOP_LOOP, /* `ref` is the axis, `body` the block */
    ST_LOOP_BIND, /* from here on the symbol `sym` has the i64 value args[0] */
    /* accumulators: kind in imm.i. ACC declares one; args[0] is its first value, 0: the identity */
    ST_LOOP_ACC,
    ST_LOOP_UPDATE, /* `ref` is the ACC; args: value, i64 index (ARGMIN, ARGMAX) or 0, mask or 0 */
    ST_LOOP_READ,   /* `ref` is the ACC: its value now; dtype i64 on ARGMIN, ARGMAX: the index */
    /* A value that seldom needs more work. args: bool, the value where it is false, the
     * instruction of `body` that is the value where it is true. The body holds CONST, scalar and
     * RARE instructions alone; it is skipped when the bool is false, on a vector axis when it is
     * false in all lanes. */
    ST_LOOP_RARE,
    ST_LOOP_FIRST_SCALAR,
    ST_LOOP_BEFORE_SCALAR_ = ST_LOOP_FIRST_SCALAR - 1,
/* scalar operations, by name */
#define ST_LOOP_OP(name, ...) ST_LOOP_##name,
#include "codegen/loopir/loop_ops.def"
    ST_LOOP_CODE_COUNT
};

enum st_loop_acc {
    ST_ACC_SUM = 1,
    ST_ACC_PROD,
    ST_ACC_MIN, /* NaN wins */
    ST_ACC_MAX,
    ST_ACC_ARGMIN, /* the smallest index of equal values; NaN wins; without updates INT64_MAX */
    ST_ACC_ARGMAX,
    ST_ACC_ANY,
    ST_ACC_ALL,
    ST_ACC_LAST /* the value of the last update: carries state through a serial loop */
};

/* "sum" ... "last"; NULL for what is no kind. */
const char *st_loop_acc_name(uint32_t kind);

typedef struct st_loop_op_desc {
    const char *name;
    uint8_t arity;
    uint8_t on;     /* st_loop_class mask of the operands */
    uint8_t result; /* st_loop_result */
    uint8_t native; /* st_loop_class mask */
    uint32_t fused; /* st_loop_code, or 0 */
    uint32_t ulp;
    const char *libm; /* NULL: none */
    const char *expand;
    const char *expand_f32;
    const char *expand_lookup;
    const char *expand_few;
    const char *expand_bf16;
    const char *expand_f16;
} st_loop_op_desc;

/* The tables that the op lookup reads. */
extern const float st_loop_tables[ST_MATH_TABLES][ST_MATH_ENTRIES];

/* The description of a scalar op; NULL for structural ones. */
const st_loop_op_desc *st_loop_desc(uint32_t code);
/* Code of a scalar op by name, 0 unknown. */
uint32_t st_loop_find(const char *name);
/* st_loop_class of a dtype; 0 for those the loop IR does not have (complex, 4-bit). */
uint32_t st_loop_class_of(uint32_t dtype);
/* The dtype of an instruction that loads from a buffer of this dtype: the same, but of integers
 * of four bits, which lie two a byte, i8 or u8. There are no stores to such buffers. */
uint32_t st_loop_loaded(uint32_t dtype);

/* ---- symbols ---- */

/* The kinds of symbols, and the meaning of their ids. */
enum st_loop_symbol_kind {
    ST_SYMBOL_SIZE = 1, /* id: index into a call's syms[] */
    ST_SYMBOL_AXIS = 2, /* id: axis of the kernel that owns it */
    ST_SYMBOL_VALUE = 3 /* id: the BIND instruction */
};

typedef struct st_loop_symbol {
    uint32_t kind;
    uint32_t id;
    uint32_t owner; /* kernel number, AXIS and VALUE */
    uint32_t sym;   /* the symbol alone, as a sym */
    const char *name;
} st_loop_symbol;

/* The symbolic integers of one program, shared by its kernels. */
typedef struct st_loop_syms {
    st_symtab tab;
    st_vec(st_loop_symbol) symbols; /* by atom index */
    st_arena names;
    uint32_t n_kernels;
} st_loop_syms;

bool st_loop_syms_init(st_loop_syms *syms, st_mem *mem); /* 0: out of memory */
void st_loop_syms_deinit(st_loop_syms *syms);
/* A new symbol, as a sym; 0: out of memory. Of `what` kind, id, owner and name count; the name is
 * copied; NULL: "k" and a number. */
uint32_t st_loop_symbol_add(st_loop_syms *syms, const st_loop_symbol *what, int64_t lo, int64_t hi,
                            int64_t divisor);
/* `sym` with every symbol s replaced by to[index of s] (0: stays); 0 beyond the limits of sym.h. */
uint32_t st_loop_subst(st_loop_syms *syms, uint32_t sym, const uint32_t *to, uint32_t n);
/* sym = coef * symbol + rest with neither holding the symbol: 1, else 0 (not linear in it). */
bool st_loop_linear(st_loop_syms *syms, uint32_t sym, uint32_t symbol, uint32_t *out_coef,
                    uint32_t *out_rest);
/* Does the symbol occur in sym? */
bool st_loop_mentions(const st_loop_syms *syms, uint32_t sym, uint32_t symbol);
/* Calls fn for each occurrence of a symbol in sym. */
void st_loop_each_symbol(const st_loop_syms *syms, uint32_t sym,
                         void (*fn)(void *self, uint32_t index), void *self);
void st_loop_sym_print(const st_loop_syms *syms, uint32_t sym, st_str *out);

/* Which casts between f32 and storage types a target spells (st_target.spells of `cast`). */
enum st_cast_spelled {
    ST_CAST_NONE = 0,
    ST_CAST_ALL = 1,
    ST_CAST_HALVES = 2 /* those of 16 bits */
};

/* ---- kernels ---- */

enum st_loop_axis_flag {
    ST_AXIS_PARALLEL = 1u << 0, /* iterations are independent; outermost loop of the kernel alone */
    ST_AXIS_VECTOR = 1u << 1,   /* run `lanes` iterations at once, the last ones masked */
    ST_AXIS_REDUCE = 1u << 2,   /* iterations meet in accumulators alone, in any order */
    ST_AXIS_SERIAL = 1u << 3,   /* in order: a scan */
    ST_AXIS_HELD = 1u << 4 /* of THREADS: each thread has the same few, and keeps their values */
};

/* Over what the iterations of an axis are spread on a GPU (docs/gpu.md). The meaning of a kernel
 * does not depend on it; text without a GPU's frame ignores it. */
enum st_axis_mapping {
    ST_MAPPING_SEQUENTIAL = 0, /* each thread that comes by runs all iterations */
    ST_MAPPING_GRID = 1,       /* the parallel loop's: each thread of the grid takes an iteration */
    ST_MAPPING_BLOCKS = 2,     /* the parallel loop's: each block of threads takes an iteration */
    ST_MAPPING_THREADS = 3,    /* the threads of a block share the iterations */
    /* The parallel loop's: each block takes `lanes` iterations, and those of its threads that have
     * the same one share the iterations of THREADS loops. */
    ST_MAPPING_COLUMNS = 4,
    /* Of a contraction that a block makes tile by tile: two loops right inside each other over the
     * rows and the columns of a tile, and in them that of the sum, which takes `lanes` iterations
     * between two barriers. */
    ST_MAPPING_TILE_ROWS = 5,
    ST_MAPPING_TILE_COLUMNS = 6,
    ST_MAPPING_TILE_STEPS = 7,
    /* Such a sum whose iterations the threads of the block share, `lanes` side by side each. */
    ST_MAPPING_TILE_SHARES = 8,
    /* The parallel loop's: as COLUMNS, but those that have the same one are neighbours within
     * ST_ROW_THREADS_MAX lanes of a warp, who need no barrier. */
    ST_MAPPING_ROWS = 9,
    /* Steps as TILE_STEPS, where matrix instructions make the products: of factors that are casts
     * of 16 bits, or of f32 rounded to tf32, or taken apart into two or three values of bf16. */
    ST_MAPPING_MATRIX_STEPS = 10,
    ST_MAPPING_MATRIX_TF32 = 11,
    ST_MAPPING_MATRIX_BF16X3 = 12,
    ST_MAPPING_MATRIX_BF16X6 = 13,
    ST_MAPPING_LAST = ST_MAPPING_MATRIX_BF16X6
};

typedef struct st_loop_axis {
    uint32_t sym;    /* the axis as a sym: 0 <= axis < extent */
    uint32_t symbol; /* index of the symbol that `sym` is */
    uint32_t extent; /* sym of sizes (and of bound values) */
    uint32_t flags;
    uint32_t block;   /* the loop's body, 0 before it is opened */
    uint32_t lanes;   /* VECTOR: elements at once; mapped: iterations side by side; else 1 */
    uint32_t unroll;  /* bodies in flight, >= 1: with REDUCE each has accumulators of its own */
    uint32_t mapping; /* st_axis_mapping */
} st_loop_axis;

enum st_loop_buffer_flag {
    ST_BUFFER_READ = 1u << 0,
    ST_BUFFER_WRITTEN = 1u << 1,
    ST_BUFFER_LOCAL = 1u << 2,    /* scratch of one iteration of the parallel loop: constant numel,
                                     at most ST_LOCAL_BYTES_MAX in a kernel */
    ST_BUFFER_STREAMED = 1u << 3, /* written past the caches: larger than they are, not read soon */
    ST_BUFFER_UNIQUE = 1u << 4,   /* shares no memory with another buffer of the kernel */
    ST_BUFFER_THREAD = 1u << 5    /* LOCAL, and along HELD axes alone: each thread has its part */
};

#define ST_LOCAL_BYTES_MAX 65536u
#define ST_LOOP_DEPTH_MAX 32u /* blocks within blocks */
#define ST_LOOP_LANES_MAX 256u
#define ST_ROW_THREADS_MAX 32u /* of an iteration of ROWS: every warp is a multiple */

typedef struct st_loop_buffer {
    const char *name;
    uint32_t dtype;
    uint32_t flags;
    uint32_t numel; /* sym: elements */
    uint32_t id;    /* the program's buffer; LOCAL: 0 */
    uint64_t align; /* bytes its first element is aligned to */
} st_loop_buffer;

typedef union st_loop_imm {
    int64_t i; /* integers, bool; acc kind; table of a lookup; 16-bit dtype of a function's value */
    double f;  /* f32, f64 */
} st_loop_imm;

typedef struct st_loop_inst {
    uint16_t code; /* st_loop_code */
    uint8_t dtype; /* dtype of the result, 0: none */
    uint8_t reserved;
    uint32_t args[3];
    uint32_t ref;    /* buffer, axis or accumulator */
    uint32_t sym;    /* element index, value, bound symbol */
    uint32_t body;   /* LOOP, RARE: block */
    uint32_t block;  /* the block it stands in */
    uint32_t next;   /* the next instruction of the block */
    uint32_t origin; /* graph node it computes, 0 unknown */
    st_loop_imm imm;
} st_loop_inst;

typedef struct st_loop_block {
    st_loop_ref first, last;
    st_loop_ref loop; /* the LOOP or RARE instruction whose body it is, 0 for block 0, the root */
    uint32_t depth;   /* blocks around it */
} st_loop_block;

typedef struct st_kernel {
    st_mem *mem;
    st_loop_syms *syms; /* borrowed */
    const char *name;   /* an identifier; made of the ops inside */
    uint32_t number;    /* owner of its symbols */
    uint32_t failed;    /* a status: building went wrong, the kernel is useless */
    uint32_t threads;   /* of a block of a GPU's grid; 0: the kernel is mapped onto no grid */
    st_vec(st_loop_inst) insts;
    st_vec(st_loop_block) blocks;
    st_vec(st_loop_axis) axes;
    st_vec(st_loop_buffer) buffers;
} st_kernel;

bool st_kernel_init(st_kernel *kernel, st_mem *mem, st_loop_syms *syms, const char *name);
void st_kernel_deinit(st_kernel *kernel);
/* Checks every invariant; INTERNAL with the first one broken. Beside what is said above: an
 * instruction stands in one chain; what the loops between an ACC and its UPDATE run is REDUCE or
 * SERIAL (SERIAL alone for LAST), between an ACC and a READ of it inside a loop that updates it
 * SERIAL; with a parallel loop all stores are inside it, and its extent is made of sizes; one
 * VECTOR axis on a path. GRID, BLOCKS, COLUMNS and ROWS are of the parallel loop alone; a THREADS
 * axis is neither SERIAL nor inside a GRID or another THREADS axis; TILE_ROWS are inside BLOCKS,
 * TILE_COLUMNS inside them, TILE_STEPS, TILE_SHARES or MATRIX ones inside those; a kernel with a
 * mapped axis has threads. Of ROWS as many threads share an iteration as a power of two in
 * 2..ST_ROW_THREADS_MAX, the extents of the loops inside are made of sizes, and each LOCAL buffer
 * is THREAD. */
stator_status st_kernel_verify(const st_kernel *kernel, stator_diag **err);
/* The text form, exact: golden tests and `output_code` print it. */
void st_kernel_print(const st_kernel *kernel, st_str *out);

static inline const st_loop_inst *st_loop_at(const st_kernel *kernel, st_loop_ref ref)
{
    return &kernel->insts.data[ref];
}

/* Is the value an operand of the instruction? */
static inline bool st_loop_uses(const st_loop_inst *inst, st_loop_ref value)
{
    return inst->args[0] == value || inst->args[1] == value || inst->args[2] == value;
}

/* Puts the instruction at the end of the block. */
void st_loop_chain(st_kernel *kernel, uint32_t block, st_loop_ref ref);

#define ST_STATUS_UNKNOWN 0x7fffffffu /* a failed check of no known node */

/* The status that a failed CHECK instruction reports; never 0. */
static inline uint32_t st_loop_check_status(const st_loop_inst *inst)
{
    return inst->origin ? inst->origin : ST_STATUS_UNKNOWN;
}

/* The sym's value when it is a plain integer, else `otherwise`. */
static inline int64_t st_loop_known_or(const st_symtab *tab, uint32_t sym, int64_t otherwise)
{
    int64_t value = 0;
    return st_sym_const(tab, sym, &value) ? value : otherwise;
}

/* Merges loops that every access walks as one; 0: out of memory. */
bool st_kernel_merge_axes(st_kernel *kernel);

/* Writes how deep the block and those of the loops inside lie, after loops have been moved. */
void st_loop_set_depths(st_kernel *kernel, uint32_t block, uint32_t depth);

/* The outermost loop when it is PARALLEL, else 0 (the kernel runs once). */
st_loop_ref st_kernel_parallel_loop(const st_kernel *kernel);

/* Arguments of compiled code. A kernel with a parallel loop runs iterations begin..end-1 of it. */
typedef struct st_kernel_args {
    void *const *buffers; /* first elements, in the order of st_kernel.buffers, LOCAL ones too */
    const int64_t *syms;  /* sizes, by ST_SYMBOL_SIZE id */
    uint32_t *status;     /* set by CHECK instructions; written atomically, 0 before the call */
} st_kernel_args;

typedef void (*st_kernel_fn)(const st_kernel_args *args, int64_t begin, int64_t end);

#endif
