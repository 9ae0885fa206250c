/* The room of lowering: a graph becomes a unit, and groups of its values become kernels of loops.
 *
 *   import_graph.c    the graph's types and constants in our own tables; unit.c: its sizes, its
 * nodes
 *   lower.def         how each op answers, index by index or with a loop of its own; one file a
 *                     family of ops, all of them in the table of lowering_table.c
 *   value_at.c        "this value at this index", which asks the value's op
 *   nest.c            a fusion group becomes loops; index_set_split.c: a loop in pieces
 *   strided_view.c    a value seen through its views
 *
 * This header has what they and the rooms above share: the unit, which lives as long as a compile.
 * What running needs is moved to the executable (codegen/run). */
#ifndef STATOR_CODEGEN_UNIT_H
#define STATOR_CODEGEN_UNIT_H

#include "codegen/loopir/loop_build.h"
#include "codegen/run/exe.h"

#define CG_INSTS_MAX 20000u /* instructions of a kernel: a join that exceeds them is refused */
#define CG_NO_BUFFER UINT32_MAX
#define CG_NO_GROUP (UINT32_MAX - 1u) /* and no root has it: UINT32_MAX stands for "none yet" */

/* ---- values ---- */

enum cg_value_flag {
    CG_VALUE_ROOT = 1u << 0,   /* made by a root */
    CG_VALUE_SPLAT = 1u << 1,  /* a constant whose elements are all `splat` */
    CG_VALUE_DENSE = 1u << 2,  /* stored row-major whatever reads it */
    CG_VALUE_RANGED = 1u << 3, /* integers from lo to hi: few constants, what is made of them */
    CG_VALUE_WEIGHT = 1u << 4  /* an operand of a contraction, or what views make one of */
};

typedef struct cg_value {
    const uint32_t *dims;  /* syms of our table, rank of them */
    const uint32_t *order; /* axes as they are stored, outermost first; NULL: row-major */
    uint32_t rank;
    uint32_t dtype;
    uint32_t flags;
    uint32_t buffer; /* CG_NO_BUFFER until realised */
    uint32_t root;   /* index + 1 */
    uint32_t uses;   /* operands that name it */
    uint32_t cost;   /* scalar ops to compute one element from what is stored, inlined */
    uint32_t leaves; /* loads among them */
    st_loop_imm splat;
    int64_t lo, hi; /* bounds of all elements, where RANGED */
} cg_value;

/* ---- how ops are lowered ---- */

typedef struct cg_unit cg_unit;
typedef struct cg_nest cg_nest;

/* One node with what its lowering reads. */
typedef struct cg_node {
    cg_unit *unit;
    stator_ref ref;
    const stator_node_row *row;
    const cg_value *out; /* result 0 */
} cg_node;

/* The element of result `result` at index[0..rank): a scalar of the value's dtype (as loaded). */
typedef st_loop_ref (*cg_point_fn)(cg_nest *nest, const cg_node *node, uint32_t result,
                                   const uint32_t *index);

/* A node that folds over inner axes into each element of its result. */
typedef struct cg_fold {
    uint32_t n_inner;
    uint32_t inner[CG_RANK_MAX]; /* extents, syms */
    uint32_t acc;                /* st_loop_acc */
    uint32_t dtype;              /* dtype of the accumulator */
    /* Set when the result's dims and the inner ones are the axes of one operand shape: inner axis k
     * is axis at[k] of it, the result's own axes are the others in order. */
    uint32_t is_reduction;
    uint32_t at[CG_RANK_MAX];
} cg_fold;

typedef struct cg_element {
    st_loop_ref value;
    st_loop_ref index; /* ARGMIN, ARGMAX */
    st_loop_ref mask;  /* 0: always */
} cg_element;

typedef struct cg_lowering {
    const char *name;
    cg_point_fn point;
    /* Folds: their axes; the element to fold; the accumulated value (NULL: cast to the result). */
    void (*fold)(const cg_node *node, cg_fold *out);
    void (*element)(cg_nest *nest, const cg_node *node, const uint32_t *index,
                    const uint32_t *inner, cg_element *out);
    st_loop_ref (*finish)(cg_nest *nest, const cg_node *node, const uint32_t *index,
                          st_loop_ref folded);
    /* Writes the loops and stores of a kernel that holds nothing but this node: an element needs
     * others of the same result, or its position is data. */
    void (*write)(cg_nest *nest, const cg_node *node);
    /* Describes a node that writes its own loops as a contraction for a library, over the buffers
     * of the kernel that it wrote. 0: no contraction describes it. NULL: no library does it. */
    bool (*contraction)(cg_unit *unit, const cg_node *node, const st_kernel *kernel,
                        st_contraction *out);
    /* NULL or a reason why this node is not for us. */
    const char *(*refuses)(const stator_graph_view *view, const stator_node_row *row);
    /* Ops of the host library; NULL: of no such op. NULL or why loops would be too slow for the
     * node, which is then for another backend where neither it nor fixed kernels do it. */
    const char *(*is_slow)(const stator_graph_view *view, const stator_node_row *row);
    uint32_t code;     /* st_loop_code of a scalar op, else 0 */
    uint32_t cost;     /* scalar ops an element */
    uint32_t repeats;  /* 1: asks for operand elements many times */
    uint32_t is_loop;  /* 1: a step of its own, over a body: see plan_scan.c */
    uint32_t is_aided; /* 1: kept for a library alone, and of f32 */
    uint32_t is_fixed; /* 1: its contraction is for fixed kernels or the host library */
} cg_lowering;

/* The lowering of a node's op (stator_opcode); NULL when it has none, as ops of libraries have. */
const cg_lowering *cg_lowering_of(uint32_t op);
/* Does the node sum products of two operands: a product, a convolution, or the gradient of one? */
bool cg_sums_products(const stator_node_row *row);

/* ---- roots and kernels ---- */

typedef struct cg_root {
    stator_ref value;
    stator_ref node; /* 0: a copy of `source` */
    stator_ref source;
    const cg_lowering *lowering; /* lowering of the node; NULL for a copy */
    uint32_t is_fold;
    cg_fold fold;
    uint32_t group;                   /* index of the fusion group it is in, UINT32_MAX: none yet */
    uint32_t first_need, n_needs;     /* into unit->needs: roots that it reads */
    uint32_t first_reader, n_readers; /* into unit->readers: roots that read it */
    uint32_t level;
    uint32_t local;      /* 1: kept in a row buffer of its kernel */
    uint32_t stage;      /* sizes bound from data before its node: see size_binds.c */
    uint32_t is_written; /* 1: a call writes it over an input */
    uint32_t may_sink;   /* 1: no step that may fail reads what is made of it */
} cg_root;

/* What a kernel does of a scatter whose result may lie in its operand: see plan_updates.c. */
enum cg_scatter_part {
    CG_SCATTER_ALL,
    CG_SCATTER_KEEP,    /* keeps the elements that updates go to */
    CG_SCATTER_COPY,    /* copies the operand */
    CG_SCATTER_RESTORE, /* puts back what was kept */
    CG_SCATTER_UPDATE   /* writes the updates */
};

/* Roots that share a kernel. The full domain is `extent`, size-1 axes left out; inner[k] says that
 * axis k belongs to the row (is folded), the others are the outer loops. */
typedef struct cg_fusion_group {
    st_vec(uint32_t) roots; /* in topological order */
    uint32_t rank;
    uint32_t n_inner;
    uint32_t extent[CG_RANK_MAX];
    uint8_t inner[CG_RANK_MAX];
    uint8_t is_dead;    /* joined into another */
    uint8_t is_library; /* a contraction that the emitter's library takes */
    uint8_t is_alone;   /* the results of one node that writes its own loops */
    uint8_t part;       /* cg_scatter_part of the kernel that is written next */
    uint32_t kept;      /* the buffer for what updates write over; 0: it is no such scatter */
    uint32_t stamp;     /* the last walk that visited the group */
} cg_fusion_group;

/* A node that was accepted and cannot be compiled after all. */
typedef struct cg_declined {
    stator_ref node;
    const char *reason;
} cg_declined;

/* A node whose body is being compiled, and the unit that it stands in. */
typedef struct cg_loop {
    cg_unit *unit;
    stator_ref node;
    uint32_t is_alone; /* one thread runs it, beside others */
    uint32_t step;     /* index in the launch plan */
} cg_loop;

/* The body of a loop as an executable; NEED_FALLBACK with the reason. */
typedef stator_status (*cg_compile_body_fn)(const stator_graph *graph, const cg_loop *loop,
                                            st_cg_exe **out, const char **out_why,
                                            stator_diag **err);

struct cg_unit {
    const st_cg_config *config;
    const stator_host *host;
    st_mem *mem;
    const stator_graph *graph;
    const stator_graph_view *view;
    stator_fuel_scope *fuel;
    st_arena arena;
    st_loop_syms *syms;
    cg_value *values; /* by value ref */
    st_vec(cg_buffer) buffers;
    st_vec(stator_blob *) blobs;
    st_vec(cg_root) roots;
    st_vec(uint32_t) needs;
    uint32_t *readers;
    st_vec(cg_fusion_group) groups;
    st_map sym_memo; /* graph sym -> ours */
    st_vec(cg_declined) declined;
    st_vec(stator_ref) binds; /* sym_bind nodes, in order */
    uint32_t stamp;
    uint32_t *alias_roots; /* by buffer: its alias root, mostly itself; see copy_elision.c */
    uint32_t is_alone;     /* one thread runs its launches; the others do something else */
    bool is_oom; /* memory ran out behind a question of yes or no, whose answer does not count */
    /* cg_lowering_of; elements of lowerings are made of others, and the table names all of them. */
    const cg_lowering *(*lowering_of)(uint32_t op);
    /* Makes an executable of a loop's body; set by codegen.c, which is above the rooms. */
    cg_compile_body_fn compile_body;
    const char *scope; /* before the names of its kernels: "s3_" in the body of step 3, else "" */
    uint32_t n_hints;  /* lines of perf_hints so far, */
    st_str hints;      /* these; see perf_hints.c */
    /* Origins of the composites that have a line. */
    st_vec(uint32_t) hinted;
};

/* ---- import_graph.c ---- */
stator_status cg_unit_init(cg_unit *unit, const st_cg_config *config, const stator_graph *graph,
                           st_loop_syms *syms, stator_fuel_scope *fuel, stator_diag **err);
void cg_unit_deinit(cg_unit *unit);

/* ---- unit.c ---- */
/* The symbols of the graph, as the first of our table. */
stator_status cg_import_symbols(cg_unit *unit, stator_diag **err);
/* A sym of the graph in our table; 0 beyond the limits. */
uint32_t cg_sym(cg_unit *unit, stator_ref graph_sym);
/* The product of n sizes; 0 beyond the limits. */
uint32_t cg_product(st_symtab *tab, const uint32_t *dims, uint32_t n);
uint32_t cg_numel(cg_unit *unit, stator_ref value);
/* The axes of a value in the order in which they are stored, the outermost first. */
void cg_storage_order(const cg_value *value, uint32_t *out_axes);
/* Strides of a value as it is stored, in elements; 0 beyond the limits. */
bool cg_strides(cg_unit *unit, const cg_value *value, uint32_t *out_strides);
bool cg_same_shape(const cg_value *a, const cg_value *b);
bool cg_is_one(const cg_unit *unit, uint32_t sym);
/* How many of n sizes are not 1: of the sizes in front of an axis, its place in a group. */
uint32_t cg_wide_axes(const cg_unit *unit, const uint32_t *dims, uint32_t n);
/* Attribute rows of a node; DIMS element as our sym. */
const stator_attr_row *cg_attr(const cg_node *node, uint32_t k);
uint32_t cg_attr_dim(const cg_node *node, uint32_t k, uint32_t i);
int64_t cg_attr_int_at(const cg_node *node, uint32_t k, uint32_t i);
/* Number i of a list of axes of a value of this rank, where -1 is the last: from 0 on. */
uint32_t cg_attr_axis_at(const cg_node *node, uint32_t k, uint32_t i, uint32_t rank);
const char *cg_attr_text(const cg_node *node, uint32_t k);
bool cg_attr_is(const cg_node *node, uint32_t k, const char *text);
stator_ref cg_operand(const cg_node *node, uint32_t k);
/* Notes that the node is for another backend; the compile goes on to find the others. */
stator_status cg_decline(cg_unit *unit, stator_ref node, const char *reason, stator_diag **err);
const cg_value *cg_value_of(const cg_unit *unit, stator_ref value);
cg_node cg_node_of(cg_unit *unit, stator_ref node);
/* Must the root's value be in memory when its kernel has ended? */
bool cg_is_stored(const cg_unit *unit, uint32_t root_index);

/* ---- value_range.c: what is known of integers ---- */

/* The range of a node's result, by those of its operands. */
void cg_note_range(cg_unit *unit, const stator_node_row *row);

/* ---- size_binds.c: sizes that are bound from data ---- */
stator_status cg_find_binds(cg_unit *unit, stator_diag **err);
bool cg_is_bind(const cg_unit *unit, stator_ref node);
/* How many sizes have been bound before the node; node 0: all. */
uint32_t cg_stage_of(const cg_unit *unit, stator_ref node);

/* ---- value_at.c: values at an index ---- */

/* A value that was asked for, as long as its instruction is in scope. */
typedef struct cg_known {
    stator_ref value;
    st_loop_ref mask;
    uint32_t index[CG_RANK_MAX];
    st_loop_ref inst;
} cg_known;

/* index is the row-major position `flat` in a shape with these dims. */
typedef struct cg_split {
    uint32_t rank;
    uint32_t flat;
    uint32_t dims[CG_RANK_MAX];
    uint32_t index[CG_RANK_MAX];
} cg_split;

/* A loop that is written in pieces: see index_set_split.c. */
#define CG_SPLIT_POINTS_MAX 63u

typedef struct cg_split_points {
    uint32_t loop; /* the loop's index among the loops, the outermost is 0 */
    uint32_t n;    /* 0: no loop is split */
    int64_t at[CG_SPLIT_POINTS_MAX];
} cg_split_points;

struct cg_nest {
    cg_unit *unit;
    cg_fusion_group *group;
    uint32_t group_index;
    st_kernel *kernel;
    st_loop_builder b;
    uint32_t level;             /* depth of the loops that are being written */
    uint32_t axis[CG_RANK_MAX]; /* sym of each axis of the group; inner ones: of this level */
    st_loop_ref mask;           /* loads are good only where it holds, 0: everywhere */
    uint32_t depth;             /* recursion depth of cg_at */
    cg_split_points points;
    const char *refusal; /* why the kernel cannot be made, NULL: it can */
    st_map buffer_memo;  /* program buffer + 1 -> kernel buffer + 1 */
    st_map local_memo;   /* root + 1 -> kernel buffer + 1 */
    st_hashset at_memo;  /* (value, mask, index) -> index in known, + 1 */
    st_vec(cg_known) known;
    st_vec(cg_split) splits;
    st_map acc_memo; /* root + 1 -> its ACC */
};

/* The scalar of `value` at an index of its rank, as stored (its dtype). 0 after an error. */
st_loop_ref cg_at(cg_nest *nest, stator_ref value, const uint32_t *index);
/* The same in the dtype that ops compute in. */
st_loop_ref cg_wide_at(cg_nest *nest, stator_ref value, const uint32_t *index);
/* The same at a row-major position; `divisors` as for cg_split_flat. */
st_loop_ref cg_at_flat(cg_nest *nest, stator_ref value, const uint32_t *divisors, uint32_t flat);
static inline bool cg_is_half(uint32_t dtype)
{
    return dtype == STATOR_BF16 || dtype == STATOR_F16;
}
/* The dtype in which an op on `dtype` computes: f32 for storage types. */
uint32_t cg_wide_dtype(uint32_t dtype);
/* Index of an element of a stored value in its buffer. */
uint32_t cg_address(cg_nest *nest, stator_ref value, const uint32_t *index);
/* Row-major position of an index in a shape, and back; `divisors` are the sizes, or others that
 * have the same numbers in every call. */
uint32_t cg_flatten(cg_nest *nest, uint32_t rank, const uint32_t *dims, const uint32_t *index);
void cg_split_flat(cg_nest *nest, uint32_t rank, const uint32_t *dims, const uint32_t *divisors,
                   uint32_t flat, uint32_t *out_index);
void cg_refuse(cg_nest *nest, const char *why);
/* The bool 0 <= index < size; 0 when neither bound is to be tested. */
st_loop_ref cg_within(cg_nest *nest, uint32_t index, uint32_t size, bool test_low, bool test_high);
/* A program buffer's name in kernels: "in0", "w3". */
void cg_buffer_name(const cg_unit *unit, uint32_t buffer, char out[32]);
/* Kernel buffer of a program buffer. */
uint32_t cg_kernel_buffer(cg_nest *nest, uint32_t buffer, uint32_t flags);
/* Syms that cannot fail but by the limits: then the nest is refused. */
uint32_t cg_add(cg_nest *nest, uint32_t a, uint32_t b);
uint32_t cg_sub(cg_nest *nest, uint32_t a, uint32_t b);
uint32_t cg_mul(cg_nest *nest, uint32_t a, uint32_t b);
uint32_t cg_int(cg_nest *nest, int64_t value);
uint32_t cg_sym_of(cg_nest *nest, uint32_t op, uint32_t a, uint32_t b); /* letters of types_api */

/* The root's own index in the loops that are open: its position in the domain of its group. */
void cg_own_index(const cg_nest *nest, const cg_root *root, uint32_t *out_index);
/* Position in the row of the inner axes that are open. */
uint32_t cg_row_index(cg_nest *nest);
/* Is the value of the size of the row's whole domain (not one a row)? */
bool cg_is_full(const cg_unit *unit, const cg_fusion_group *group, const cg_root *root);
bool cg_is_zero(const cg_nest *nest, uint32_t sym);

/* ---- nest.c: groups to kernels ---- */

/* A nest for the kernel of the group (CG_NO_GROUP: of none, for a look at values), which it
 * initialises. 0: out of memory. The kernel outlives the nest. */
bool cg_nest_init(cg_nest *nest, cg_unit *unit, uint32_t group, const char *name,
                  st_kernel *kernel);
void cg_nest_deinit(cg_nest *nest);
/* Writes the group's kernel. UNSUPPORTED, with *out_refusal set, when the group cannot be one
 * kernel. */
stator_status cg_build_kernel(cg_unit *unit, uint32_t group, st_kernel *out,
                              const char **out_refusal, stator_diag **err);

/* The same without a text of what failed; a loop of it is written in pieces where `points` says
 * so. */
stator_status cg_write_kernel(cg_unit *unit, uint32_t group, const cg_split_points *points,
                              st_kernel *out, const char **out_refusal);

/* ---- index_set_split.c ---- */

/* Writes the group's kernel anew in pieces, where that is worth it and they can be
 * written. The kernel stays the caller's. */
stator_status cg_split_index_set(cg_unit *unit, uint32_t group, st_kernel *kernel,
                                 stator_diag **err);

/* ---- strided_view.c: values seen through their views ---- */

typedef struct cg_strided {
    uint32_t buffer; /* buffer of the program */
    uint32_t offset; /* syms, elements */
    uint32_t stride[CG_RANK_MAX];
} cg_strided;

/* Is the value nothing but elements of a buffer that lie strides apart? Sets unit->is_oom. */
bool cg_strided_of(cg_unit *unit, stator_ref value, cg_strided *out);
/* Is the root made element by element of values whose channels (axis 1, enough for a vector) are
 * neighbours in memory, as views show them? Sets unit->is_oom. */
bool cg_reads_channels(cg_unit *unit, const cg_root *root);

#endif
