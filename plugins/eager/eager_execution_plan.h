/* The execution plan that a graph is compiled to, the memory it runs in, and the functions between
 * the files of the executor. Nothing of the graph is kept but retained constants.
 *
 *   exe --root--> execution plan --steps--> step --regions--> execution plan ...
 *
 * A call runs a plan in a frame. The frame and every buffer of known size lie in the workspace:
 *
 *   | eager_frame | values[] | dims[] | blocks[] | args[] | attrs[] | attr_ints[] | syms[] | data |
 *
 * Where a value's bytes lie is its storage:
 *   INPUT    the caller's tensor                   CONSTANT  a retained blob
 *   FIXED    at an offset of the data part         OUTPUT    the caller's output
 *   POOLED   a block of the executable's pool      ALIAS     those of another value (index)
 * Sizes that are constants are computed when the plan is made; others per call, before the node
 * that needs them runs, from the symbols set so far. A symbol that only a node's result tells is
 * bound when the node has run. */
#ifndef STATOR_EAGER_EXECUTION_PLAN_H
#define STATOR_EAGER_EXECUTION_PLAN_H

#include "core/base/arena.h"
#include "core/base/diag.h"
#include "core/base/map.h"
#include "core/base/sym/sym.h"
#include "core/base/vec.h"
#include "plugins/eager/eager.h"
#include <pthread.h>

#define EAGER_ALIGN 64u
#define EAGER_UNSET INT64_MIN

enum eager_step_kind {
    EAGER_STEP_KERNEL = 0,
    EAGER_STEP_CONSTANT,
    EAGER_STEP_ALIAS,
    EAGER_STEP_SYM_BIND,
    EAGER_STEP_ASSIGN,
    EAGER_STEP_COND,
    EAGER_STEP_WHILE,
    EAGER_STEP_SCAN,
    EAGER_STEP_CALL
};

/* A row of kernels.def. */
typedef struct eager_row {
    const char *op;
    uint32_t opcode; /* stator_opcode */
    ek_kernel_fn fn; /* NULL for the executor's own */
    uint32_t step_kind;
    uint32_t in_mask;
    uint32_t out_mask;
} eager_row;

/* The last row stands for the ops of libraries, whose kernels ek_library calls. */
#define EAGER_OP_library EAGER_OP_COUNT
extern const eager_row eager_rows[EAGER_OP_COUNT + 1];
stator_status ek_library(const ek_call *c, stator_diag **err);

/* An op of a third-party library that has a kernel. */
typedef struct eager_library {
    const stator_oplib_op *op; /* NULL: none */
    void *self;
} eager_library;

typedef struct eager_inst {
    eager_self *self;
    uint32_t n_ops;
    uint16_t *row_of_op;      /* by op id of this process, 0: no kernel */
    eager_library *libraries; /* by op id; their row is EAGER_OP_library */
} eager_inst;

enum eager_storage {
    EAGER_NOWHERE = 0, /* nobody reads it */
    EAGER_INPUT,
    EAGER_CONSTANT,
    EAGER_FIXED,
    EAGER_OUTPUT,
    EAGER_POOLED,
    EAGER_ALIAS
};

typedef struct eager_value {
    uint32_t storage;   /* eager_storage */
    uint32_t index;     /* number of the input, constant or output; the value behind an alias */
    uint64_t offset;    /* FIXED */
    uint32_t dims_at;   /* first of its places in dims[] and dim_progs[] */
    uint32_t is_static; /* every size is a constant */
    uint32_t is_early;  /* every size can be computed before the first step */
    uint32_t reserved;
} eager_value;

typedef struct eager_step {
    uint32_t kind; /* eager_step_kind */
    uint32_t op;   /* eager_op */
    ek_kernel_fn fn;
    const uint32_t *in; /* value refs, 0 absent */
    uint32_t n_in;
    uint32_t out; /* first result */
    uint32_t n_out;
    uint32_t is_static;   /* sizes of all results are constants */
    uint32_t tells_shape; /* the kernel allocates results whose sizes it alone can tell */
    uint32_t is_pointwise;
    uint32_t needs_results; /* nothing to do when no result has an element */
    const ek_attr *attrs;
    uint32_t n_attrs;
    uint32_t n_attr_ints;        /* places needed by attributes evaluated per call, 0: none */
    const uint32_t **attr_progs; /* by attribute: program of each element, NULL: constant */
    const uint32_t *release;     /* pooled values not used after this step */
    uint32_t n_release;
    uint32_t n_regions;
    struct eager_execution_plan **regions;
    uint64_t region_offset; /* their frame, in the data part */
    eager_library library;  /* library of op EAGER_OP_library */
    const char *node_name;  /* name of the origin, "" unknown */
    const char *node_kind;
    stator_ref node; /* node of the graph, or of the region */
} eager_step;

typedef struct eager_execution_plan {
    uint32_t n_values;
    uint32_t n_inputs;
    uint32_t n_outputs;
    uint32_t n_steps;
    uint32_t n_dims;
    uint32_t n_write_backs;
    uint32_t has_pooled; /* blocks[] must be looked at in the end */
    uint32_t is_static;  /* no symbol anywhere */
    eager_value *values; /* from 1 */
    ek_tensor *tensors;  /* template of the frame's values[]: dtype, rank, static sizes */
    int64_t *dims;       /* sizes of the static ones */
    uint32_t *dim_progs; /* program of each size */
    eager_step *steps;
    uint32_t *outputs;           /* value refs */
    uint32_t *output_in_place;   /* 1: the value is made in the caller's output */
    uint32_t *wanted_alias;      /* by output: 1 + the input that its bytes are for, 0: none */
    uint32_t *may_alias;         /* by output: see stator_exe_info; NULL: none */
    uint32_t *write_back_inputs; /* those that are no outputs */
    uint32_t *write_back_values;
    uint32_t *fresh_syms; /* symbols that this plan binds: unset when it starts */
    uint32_t n_fresh_syms;
    uint32_t max_args, max_attrs, max_attr_ints;
    uint64_t at_values, at_dims, at_blocks, at_args, at_attrs, at_attr_ints, at_syms, at_data;
    uint64_t frame_bytes; /* all of it, a multiple of EAGER_ALIGN */
} eager_execution_plan;

typedef struct eager_prog { /* a symbolic size */
    st_symprog code;
    uint32_t has_symbol; /* the size is exactly one symbol */
    uint32_t symbol;
} eager_prog;

typedef struct eager_sym { /* range and divisor of a symbol */
    int64_t lo, hi, divisor;
} eager_sym;

typedef struct eager_block eager_block;

typedef struct eager_pool { /* recycled blocks, by size class; thread-safe */
    pthread_mutex_t lock;
    st_mem *mem;
    eager_block *bins[256];
    uint8_t kept[256];
} eager_pool;

typedef struct eager_exe {
    eager_self *self;
    st_arena arena; /* arena of all plans */
    eager_execution_plan *root;
    st_vec(eager_prog) progs;
    st_vec(stator_blob *) blobs;
    st_vec(const void *) constants; /* data of blobs */
    eager_sym *syms;
    uint32_t n_syms;
    uint32_t flags; /* stator_exe_flag */
    eager_pool pool;
} eager_exe;

/* A result of a region, owned by whoever ran it. */
typedef struct eager_owned {
    void *data; /* a pool block, NULL: none */
    int64_t dims[STATOR_RANK_MAX];
    int64_t numel;
    uint32_t dtype;
    uint32_t rank;
} eager_owned;

const char *eager_op_name(const eager_step *step);

typedef struct eager_frame {
    const eager_execution_plan *plan;
    eager_exe *exe;
    const stator_call *call; /* NULL in a region */
    char *data;
    ek_tensor *values;
    int64_t *dims;
    void **blocks; /* by value */
    ek_tensor *args;
    ek_attr *attrs;
    int64_t *attr_ints;
    int64_t *syms;
    void *scratch; /* blocks taken by the kernel that runs */
} eager_frame;

/* ---- eager_pool.c ---- */

stator_status eager_pool_init(eager_pool *pool, st_mem *mem);
void eager_pool_deinit(eager_pool *pool);
void *eager_pool_take(eager_pool *pool,
                      uint64_t size);                /* aligned to EAGER_ALIGN; NULL: no memory */
void eager_pool_give(eager_pool *pool, void *block); /* NULL does nothing */
/* Blocks chained by their owner. */
void *eager_block_next(const void *block);
void eager_block_set_next(void *block, void *next);

/* ---- eager_compile.c ---- */

stator_status eager_compile(eager_inst *inst, const stator_graph *graph, eager_exe **out_exe,
                            stator_diag **err);
void eager_exe_destroy(eager_exe *exe);
/* Why this node cannot run here: 1 it can, else 0 and a text. Looks into regions. */
bool eager_accepts(const eager_inst *inst, const stator_graph_view *v, const stator_node_row *node,
                   char *why, uint64_t why_size);

/* ---- ek_library.c ---- */

/* Why the kernel of this library op cannot run here, or NULL. */
const char *eager_library_refusal(const stator_graph_view *v, const stator_node_row *node);
/* Is the sym one unbacked symbol? (eager_live.c) */
bool eager_is_unbacked(const stator_graph_view *v, stator_ref sym);

/* ---- eager_layout.c ---- */

/* Decides the storage of every value, lifetimes and the places in the workspace. */
stator_status eager_layout(eager_exe *exe, eager_execution_plan *plan, bool is_root,
                           stator_diag **err);

/* ---- eager_frame.c ---- */

/* "eager: conv 'layer1/conv' (Conv): <text>", step may be NULL; returns code. */
stator_status eager_fail(const eager_self *self, const eager_step *step, stator_diag **err,
                         stator_status code, const char *format, ...) STATOR_PRINTF(5, 6);
/* The same where the condition holds. */
#define EAGER_FAIL_IF(condition, ...) ST_FAIL_BY_IF(eager_fail, condition, __VA_ARGS__)
#define EAGER_TRY_MEM(is_made, self, err)                                                          \
    EAGER_FAIL_IF(!(is_made), (self), NULL, (err), STATOR_RESOURCE_EXHAUSTED, "out of memory")
/* Value of a program of the executable; 0 when it needs a symbol that is not set. */
bool eager_eval(const eager_frame *frame, uint32_t prog, int64_t *out);
/* Sizes of value v, or one of them. */
bool eager_eval_dims(const eager_frame *frame, uint32_t v, int64_t *out_dims);
bool eager_eval_dim(const eager_frame *frame, uint32_t v, uint32_t axis, int64_t *out);
/* Attributes of a step whose elements are not all constants, into the frame. */
stator_status eager_eval_attrs(eager_frame *frame, const eager_step *step, stator_diag **err);
/* Sets a symbol after checking its range. */
stator_status eager_set_symbol(eager_frame *frame, const eager_step *step, uint32_t symbol,
                               int64_t value, stator_diag **err);
/* Binds the symbols that alone are a size of value v and are not set yet. */
stator_status eager_bind_dims(eager_frame *frame, const eager_step *step, uint32_t v,
                              const int64_t *dims, stator_diag **err);
/* Are these the sizes that the type of v states? Sizes that cannot be evaluated agree. */
stator_status eager_check_dims(eager_frame *frame, const eager_step *step, uint32_t v,
                               const int64_t *dims, const char *what, stator_diag **err);
/* Makes dims the sizes of value v, whose type is not static. */
stator_status eager_take_dims(eager_frame *frame, const eager_step *step, uint32_t v,
                              const int64_t *dims, stator_diag **err);
/* Memory of the caller's output k with these sizes. */
stator_status eager_caller_output(eager_frame *frame, const eager_step *step, uint32_t k,
                                  const int64_t *dims, void **out_data, stator_diag **err);
/* Before a step: sizes and memory of the results that can be computed now. */
stator_status eager_prepare_results(eager_frame *frame, const eager_step *step, stator_diag **err);
void eager_give_scratch(eager_frame *frame);
/* Result k of a step takes over the block of `owned`, or a copy of it. */
stator_status eager_adopt(eager_frame *frame, const eager_step *step, uint32_t k,
                          eager_owned *owned, stator_diag **err);
void eager_give_owned(eager_frame *frame, eager_owned *owned, uint32_t n);

/* ---- eager_run.c ---- */

stator_status eager_exe_run(eager_exe *exe, const stator_call *call, stator_diag **err);
/* Runs a region's plan in the parent's frame at `step`. in[k].data is borrowed; out[k] is filled,
 * to be given back to the pool by the caller (also after a failure). */
stator_status eager_region_run(eager_frame *parent, const eager_step *step, uint32_t region,
                               const ek_tensor *in, eager_owned *out, stator_diag **err);

/* ---- eager_steps.c ---- */

/* Names a step: its op and, where the model names its node, that name; returns out. */
#define EAGER_STEP_NAME 160u
const char *eager_step_name(const eager_step *step, char out[EAGER_STEP_NAME]);
stator_status eager_tell_steps(const eager_exe *exe, const stator_step_sink *sink);

/* ---- eager_shape.c ---- */

/* Sizes of result k from the operands' sizes; 0 when the op has no rule here. */
bool eager_shape(const eager_frame *frame, const eager_step *step, uint32_t k, int64_t *out_dims);

/* ---- eager_regions.c ---- */

stator_status eager_run_regions(eager_frame *frame, const eager_step *step, stator_diag **err);

#endif
