/* Kernels to LLVM IR: what the files of the emitter share.
 *
 * A kernel is written once, top down. Values of instructions are scalars, or vectors of the lanes
 * of the vector loop they stand in; an instruction whose operands are all scalar stays scalar
 * there, and a scalar becomes a splat where a vector needs it. The code of a body is written
 * several times (unrolled copies, the masked last iteration); `values` holds the latest.
 *
 * Levels: the body of a loop of depth d is level d, the root 0. What depends on outer levels alone
 * is placed before the loop that is being written (`hoist` of the level) and remembered in the memo
 * until that level's iteration ends. So loop-invariant code needs no pass to be found.
 *
 * Errors are sticky: after the first one the functions return poison values and jit_unit.status
 * says why. */
#ifndef STATOR_CPU_LLVM_JIT_EMIT_H
#define STATOR_CPU_LLVM_JIT_EMIT_H

#include "jit.h"

#include "core/base/arena.h"
#include "core/base/map.h"

#include <llvm-c/Core.h>
#include <llvm/Config/llvm-config.h>

#define JIT_UNROLL_MAX 8u
#define JIT_KEPT_MAX 8u
#define JIT_LATE_MAX 8u
#define JIT_LANES_MAX ST_LOOP_LANES_MAX

enum jit_type {
    JIT_I1,
    JIT_I8,
    JIT_I16,
    JIT_I32,
    JIT_I64,
    JIT_I128,
    JIT_F16,
    JIT_BF16,
    JIT_F32,
    JIT_F64,
    JIT_PTR,
    JIT_VOID,
    JIT_TYPE_COUNT
};

/* Features of the machine that code depends on. */
typedef struct jit_features {
    uint32_t has_fma;
    uint32_t has_f16c;
    uint32_t has_bf16;   /* avx512bf16: f32 to bf16 in one instruction */
    uint32_t has_avx512; /* 32 registers, and operands that are broadcast as they are read */
} jit_features;

/* A module being written. */
typedef struct jit_unit {
    const jit_request *request;
    st_mem *mem;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef ir;
    LLVMTypeRef types[JIT_TYPE_COUNT];
    LLVMTypeRef kernel_type;
    jit_features features;
    const char *cpu;
    const char *cpu_features;
    uint32_t kind_invariant; /* metadata kinds */
    uint32_t kind_nontemporal;
    uint32_t kind_profile;
    uint32_t kind_scope;
    uint32_t kind_noalias;
    uint32_t attribute_align;
    stator_status status; /* the first error; the text is in msg */
    char *msg;
    uint64_t msg_size;
} jit_unit;

enum jit_shape {
    JIT_UNIFORM = 0, /* the same in every lane */
    JIT_LINEAR = 1,  /* lane 0 plus coef * lane */
    JIT_GENERAL = 2
};

enum jit_memo_kind {
    JIT_MEMO_SYM = 1,
    JIT_MEMO_ATOM,
    JIT_MEMO_ADDRESS,
    JIT_MEMO_SPLAT,
    JIT_MEMO_VSYM,
    JIT_MEMO_CONSTANT
};

typedef struct jit_memo_entry {
    uint64_t key;
    LLVMValueRef value; /* NULL: no longer valid */
    uint32_t level;
} jit_memo_entry;

/* Value of a kernel's symbol at the current point of the code. */
typedef struct jit_symbol {
    LLVMValueRef value; /* NULL: out of scope. AXIS: of lane 0 */
    uint32_t level;
    uint32_t is_vector; /* a VALUE that differs by lane */
} jit_symbol;

typedef struct jit_loop_plan {
    uint32_t lanes;
    uint32_t unroll;
} jit_loop_plan;

typedef struct jit_acc {
    uint32_t lanes; /* 1: scalar */
    uint32_t copies;
    uint32_t is_combined; /* lanes meet at READ; else each lane has its own result */
    uint32_t is_declared;
    LLVMValueRef value[JIT_UNROLL_MAX]; /* stack slots */
    LLVMValueRef index[JIT_UNROLL_MAX]; /* stack slots of the indices of ARGMIN, ARGMAX */
} jit_acc;

/* Elements of a buffer that vector loops walk along a row; see jit_prefetch.c. */
typedef struct jit_walk {
    uint32_t buffer;
    uint32_t rest;   /* the index without the vector axis */
    uint32_t symbol; /* axis whose loop prefetches the next row; UINT32_MAX: none */
} jit_walk;

/* Rows that are run one behind the other; see jit_pipeline.c. */
typedef struct jit_pipeline {
    st_loop_ref last; /* loop that is run a row later, */
    st_loop_ref with; /* inside this one */
    uint32_t n_kept;
    st_loop_ref kept[JIT_KEPT_MAX]; /* values of a row that `last` uses */
    LLVMValueRef slots[JIT_KEPT_MAX];
    uint32_t row_symbol;
    uint32_t level;        /* level of the rows' body */
    LLVMValueRef previous; /* index of the row before; NULL: `last` is left out */
    LLVMValueRef values[JIT_KEPT_MAX];
    LLVMValueRef late[JIT_LATE_MAX]; /* stores of `last` that go behind the body of `with` */
    uint32_t n_late;
    uint32_t is_in_last; /* the body of `last` is being written */
} jit_pipeline;

typedef struct jit_fn {
    jit_unit *u;
    const st_kernel *kernel;
    st_loop_syms *syms;
    LLVMValueRef fn;
    LLVMBasicBlockRef entry;
    LLVMValueRef entry_end;  /* the entry's branch: stack slots stand before it */
    LLVMBasicBlockRef block; /* where code is appended */
    LLVMValueRef args, begin, end, sizes;
    uint32_t is_streamed; /* this variant writes past the caches */
    st_arena tables;      /* memory of the arrays that follow */
    LLVMValueRef *buffers;
    LLVMValueRef *noalias; /* by buffer: metadata, NULL without */
    LLVMValueRef *scopes;
    LLVMValueRef *values;      /* by instruction */
    jit_symbol *symbols;       /* by symbol index */
    jit_loop_plan *loop_plans; /* by axis */
    jit_acc *accs;             /* by instruction */
    uint32_t *private_lanes;   /* by buffer: scratch of which each lane has its own; 0: not so */
    int64_t private_bytes;
    LLVMValueRef hoist[ST_LOOP_DEPTH_MAX + 1u];
    uint32_t depth;
    uint32_t copy; /* number of the unrolled body being written */
    /* the vector loop being written, lanes 1 outside one */
    uint32_t lanes;
    uint32_t vec_symbol;
    uint32_t vec_level;
    LLVMValueRef mask;      /* active lanes, NULL: all */
    LLVMValueRef last;      /* i64: the last active lane, NULL: lanes - 1 */
    jit_pipeline *pipeline; /* pipelined rows being written, NULL: one row after the other */
    st_map memo_map;
    st_vec(jit_memo_entry) memo;
    st_vec(jit_walk) walks;
} jit_fn;

/* ---- jit_build.c: types, constants, placement, memo ---- */

stator_status jit_fail(jit_unit *u, stator_status status, const char *format, ...)
    STATOR_PRINTF(3, 4);
bool jit_failed(const jit_fn *f);
LLVMTypeRef jit_type_of(const jit_fn *f, uint32_t dtype); /* type in registers */
LLVMTypeRef jit_memory_type(const jit_fn *f, uint32_t dtype);
LLVMTypeRef jit_buffer_type(const jit_fn *f, uint32_t buffer); /* type that an index counts */
static inline bool jit_is_float(uint32_t dtype)                /* f32 or f64, in registers */
{
    return st_loop_class_of(dtype) == ST_LOOP_FLOATS;
}
LLVMTypeRef jit_wide(LLVMTypeRef type, uint32_t lanes); /* the type itself for one lane */
uint32_t jit_lanes_of(LLVMValueRef v);                  /* 1: scalar */
LLVMTypeRef jit_element_of(LLVMTypeRef type);
LLVMTypeRef jit_like(const jit_fn *f, uint32_t type, LLVMValueRef v); /* jit_type, v's lanes */
LLVMValueRef jit_i64(const jit_fn *f, int64_t value);
LLVMValueRef jit_i32(const jit_fn *f, uint32_t value);
LLVMValueRef jit_int(LLVMTypeRef type, int64_t value); /* scalar or vector of it */
LLVMValueRef jit_real(LLVMTypeRef type, double value);
LLVMValueRef jit_poison(LLVMTypeRef type);
/* <0, step, 2 * step, ...> of an integer type. */
LLVMValueRef jit_iota(LLVMTypeRef element, uint32_t lanes, int64_t step);
LLVMValueRef jit_splat(jit_fn *f, LLVMValueRef scalar); /* over f->lanes, at this point */
/* The value of an instruction in the lanes of `lanes` (1 or f->lanes). */
LLVMValueRef jit_inst(jit_fn *f, st_loop_ref ref, uint32_t lanes);
/* The builder goes to the block of a level; jit_here brings it back. */
void jit_at(jit_fn *f, uint32_t level);
void jit_here(jit_fn *f);
LLVMBasicBlockRef jit_block(jit_fn *f);      /* a new one */
void jit_go(jit_fn *f, LLVMBasicBlockRef b); /* code is appended there from now on */

/* Code that runs where an i1 holds: from jit_begin_if on it is appended, up to jit_end_if. */
typedef struct jit_if {
    LLVMBasicBlockRef before, join;
    LLVMValueRef branch;
} jit_if;
/* Opens a branch for where is_on holds. With is_seldom the branch is laid out of the usual path. */
jit_if jit_begin_if(jit_fn *f, LLVMValueRef is_on, bool is_seldom);
/* Closes the branch. Returns a phi of `then`, from the branch, and `otherwise`; NULL if none. */
LLVMValueRef jit_end_if(jit_fn *f, const jit_if *in, LLVMValueRef then, LLVMValueRef otherwise);
LLVMValueRef jit_slot(jit_fn *f, LLVMTypeRef type, uint32_t align);
LLVMValueRef jit_memo_get(const jit_fn *f, uint32_t kind, uint64_t key);
void jit_memo_put(jit_fn *f, uint32_t kind, uint64_t key, uint32_t level, LLVMValueRef value);
void jit_no_memory(jit_fn *f);                 /* an error */
void jit_memo_drop(jit_fn *f, uint32_t level); /* forgets values of this level and of inner ones */
/* A call of an LLVM intrinsic overloaded in `types`. */
LLVMValueRef jit_intrinsic(jit_fn *f, const char *name, LLVMTypeRef *types, uint32_t n_types,
                           LLVMValueRef *args, uint32_t n_args);
LLVMValueRef jit_intrinsic1(jit_fn *f, const char *name,
                            LLVMValueRef x); /* overloaded in x's type */
LLVMValueRef jit_intrinsic2(jit_fn *f, const char *name, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef jit_any(jit_fn *f, LLVMValueRef mask); /* i1: some lane is set */
LLVMValueRef jit_fma(jit_fn *f, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z); /* x y + z */
/* The function is marked with an attribute of LLVM that has no value. */
void jit_mark(const jit_unit *u, LLVMValueRef fn, const char *attribute);
/* A node of metadata, of n parts. */
LLVMValueRef jit_node(const jit_fn *f, LLVMMetadataRef *parts, uint32_t n);
/* Marks a load of memory that is never written while the kernel runs. */
void jit_set_invariant(const jit_fn *f, LLVMValueRef load);
/* Address of the element `index` (or of each of a vector of them) from `base` on. */
LLVMValueRef jit_element(const jit_fn *f, LLVMTypeRef type, LLVMValueRef base, LLVMValueRef index);
/* n lanes of a vector from `first` on; those past its end are poison. */
LLVMValueRef jit_slice(jit_fn *f, LLVMValueRef v, uint32_t first, uint32_t n);
/* The n lanes of a vector whose numbers `order` has. */
LLVMValueRef jit_shuffle(const jit_fn *f, LLVMValueRef v, LLVMValueRef *order, uint32_t n);
LLVMValueRef jit_join(jit_fn *f, LLVMValueRef low, LLVMValueRef high); /* behind one another */
LLVMValueRef jit_lane(jit_fn *f, LLVMValueRef v, uint32_t lane);
LLVMValueRef jit_set_lane0(jit_fn *f, LLVMValueRef v, LLVMValueRef x); /* v with x in lane 0 */

/* An instruction that is asked for by name: LLVM splits other operations, but not those. */
typedef struct jit_instruction {
    LLVMValueRef (*one)(jit_fn *f, const LLVMValueRef *args, uint32_t detail); /* one register */
    uint32_t detail;
    uint32_t n_args;      /* at most 2, all of as many lanes */
    uint32_t least, most; /* lanes of a register, powers of two */
} jit_instruction;
/* Applies op to operands of any number of lanes: scalars and few lanes take the smallest register,
 * many are done piece by piece. */
LLVMValueRef jit_by_registers(jit_fn *f, const jit_instruction *op, const LLVMValueRef *args);
LLVMValueRef jit_select(jit_fn *f, LLVMValueRef mask, LLVMValueRef a, LLVMValueRef b);
/* Lanes that count: the active ones and the instruction's mask (0: none); NULL: all. `lanes` 1:
 * the scalar. */
LLVMValueRef jit_active(jit_fn *f, st_loop_ref mask, uint32_t lanes);

/* ---- jit_sym.c: symbolic integers ---- */

/* How the sym differs by lane; *out_coef for LINEAR (0 for UNIFORM). */
uint32_t jit_sym_shape(jit_fn *f, uint32_t sym, int64_t *out_coef);
LLVMValueRef jit_sym(jit_fn *f, uint32_t sym);                      /* i64 of lane 0 */
LLVMValueRef jit_vsym(jit_fn *f, uint32_t sym, bool may_be_narrow); /* vector of i64 or i32 */
/* A number that divides the value in lane 0, known at compile time; 0 for the constant 0. */
int64_t jit_sym_divisor(jit_fn *f, uint32_t sym);
/* Address of an element (lane 0). */
LLVMValueRef jit_address(jit_fn *f, uint32_t buffer, uint32_t sym);

/* ---- jit_memory.c ---- */

void jit_load(jit_fn *f, st_loop_ref ref);
void jit_store(jit_fn *f, st_loop_ref ref);
/* The elements at these addresses, of lanes that the mask (NULL: all) has, those of `other`
 * elsewhere. */
LLVMValueRef jit_gather(jit_fn *f, LLVMValueRef at, LLVMValueRef mask, LLVMValueRef other,
                        uint32_t align);
void jit_check(jit_fn *f, st_loop_ref ref);
/* *args->status = value where `bad` (i1) holds. */
void jit_report(jit_fn *f, LLVMValueRef bad, uint32_t value);
/* Lanes whose index is outside the buffer are reported and taken out of `mask` (NULL: all). */
LLVMValueRef jit_bounds(jit_fn *f, st_loop_ref ref, uint32_t lanes, LLVMValueRef mask);
/* A load or store of a buffer's memory, with its alias metadata. */
LLVMValueRef jit_load_at(jit_fn *f, LLVMTypeRef type, LLVMValueRef at, uint32_t align,
                         uint32_t buffer);

/* ---- jit_nibble.c ---- */

/* jit_load of a buffer of integers of four bits. */
void jit_load_nibbles(jit_fn *f, st_loop_ref ref);

/* ---- jit_prefetch.c ---- */

/* A vector loop loads sym..sym + lanes - 1 of the buffer, at this address. */
void jit_prefetch_row(jit_fn *f, uint32_t buffer, uint32_t sym, LLVMValueRef address);

/* ---- jit_acc.c ---- */
LLVMValueRef jit_max(jit_fn *f, LLVMValueRef a, LLVMValueRef b, bool want_min); /* floats */

void jit_acc_plan(jit_fn *f, st_loop_ref ref); /* before code is written */
void jit_acc_declare(jit_fn *f, st_loop_ref ref);
void jit_acc_update(jit_fn *f, st_loop_ref ref);
void jit_acc_read(jit_fn *f, st_loop_ref ref);
/* Combines two values; kinds SUM to MAX, ANY, ALL. */
LLVMValueRef jit_combine(jit_fn *f, uint32_t kind, uint32_t dtype, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef jit_identity(jit_fn *f, uint32_t kind, uint32_t dtype, LLVMTypeRef type);

/* ---- jit_scalar.c, jit_scale.c, jit_lookup.c, jit_cast.c, jit_math.c ---- */

void jit_scalar(jit_fn *f, st_loop_ref ref);
/* `saturates`: to f8, the largest finite value in place of overflow. */
LLVMValueRef jit_cast(jit_fn *f, uint32_t to, uint32_t from, LLVMValueRef x, bool saturates);
/* x 2^y by vscalef, which rounds once; for machines with AVX-512 VL. */
LLVMValueRef jit_ldexp(jit_fn *f, LLVMValueRef x, LLVMValueRef y);
/* Entry (bits of x) mod 32 of a table of codegen/loopir/loop_math.h. */
LLVMValueRef jit_lookup(jit_fn *f, LLVMValueRef x, uint32_t table);
/* The function of an instruction with a libm name. */
LLVMValueRef jit_math(jit_fn *f, const st_loop_op_desc *desc, uint32_t dtype, LLVMValueRef *args);

/* ---- jit_loop_plan.c, jit_pipeline.c, jit_loop.c ---- */

bool jit_is_power_of_two(uint32_t n);
bool jit_is_within(const st_kernel *kernel, uint32_t block, uint32_t outer);
/* Does the sym hold the symbol `axis`, or a value that is bound inside the body? axis UINT32_MAX:
 * bound values alone; body 0: of the whole kernel. */
bool jit_may_differ(const jit_fn *f, uint32_t sym, uint32_t body, uint32_t axis);
/* Can the rows of the loop be run one behind the other? */
bool jit_pipeline_find(const jit_fn *f, st_loop_ref row_loop, jit_pipeline *out);
void jit_pipeline_note(jit_fn *f, LLVMValueRef store);
void jit_pipeline_flush_stores(jit_fn *f);

void jit_make_loop_plans(jit_fn *f);
void jit_emit_block(jit_fn *f, uint32_t block);

/* ---- jit_kernel.c ---- */

/* Adds the function(s) of one kernel to the module. */
stator_status jit_kernel_emit(jit_unit *u, const st_kernel *kernel, jit_kernel *out);

#endif
