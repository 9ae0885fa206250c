/* What is left of a compile: the launch plan. Immutable while calls run. */
#ifndef STATOR_CODEGEN_EXE_H
#define STATOR_CODEGEN_EXE_H

#include "codegen/lower/unit.h"
#include "core/base/shape_constraint.h"
#include <stdatomic.h>

typedef struct cg_launch {
    uint32_t kernel;       /* of the module; UINT32_MAX: a call of the library */
    uint32_t first_buffer; /* into exe->operands */
    uint32_t n_buffers;
    uint32_t has_parallel;
    st_symprog count; /* iterations of the parallel loop */
    int64_t grain;
    uint32_t lanes;   /* iterations that belong together */
    void *op;         /* of the library */
    uint32_t is_host; /* which is the host library, not the emitter's */
    const char *text; /* what it is asked to do */
    uint32_t n_numbers;
    uint32_t
        n_concurrent; /* scans from this one on that run concurrently; 0: it is none or alone */
    st_symprog *numbers;
    int64_t *known;       /* the same, when all are known */
    uint32_t stage;       /* binds before it */
    uint32_t bind;        /* into exe->binds, + 1: no kernel, it reads its one buffer */
    struct cg_scan *scan; /* no kernel: a body, run step by step */
    const char *name;     /* of the kernel */
    uint32_t step_flags;  /* stator_step_flag */
    uint32_t n_nodes;     /* it computes; not kept in the cache */
    const stator_ref *nodes;
    uint64_t read_bytes, written_bytes; /* of its buffers; OPEN: of those of known size */
} cg_launch;

/* What an element that is bound becomes. */
typedef struct cg_bound {
    uint32_t index; /* of the symbol in a call's syms[]; UINT32_MAX: it must equal `sym` */
    int64_t lo, hi, divisor;
    st_symprog sym;
} cg_bound;

typedef struct cg_size_bind {
    uint32_t n;
    cg_bound *sizes;
    const char *name; /* of the node */
} cg_size_bind;

typedef struct cg_output {
    uint32_t rank;
    uint32_t stage; /* in which its shape is known */
    st_symprog *dims;
} cg_output;

typedef struct cg_check {
    uint32_t origin;
    const char *text;
} cg_check;

/* The kind of a shape constraint on a call (plan_shape_constraints.c) is one of enum
 * st_shape_constraint_kind, or NUMEL: the elements of a value, times `step`, are a number. */
enum { CG_SHAPE_CONSTRAINT_NUMEL = ST_SHAPE_CONSTRAINT_KINDS };

/* No value is larger, as in st_numel. */
#define CG_BYTES_MAX (INT64_C(1) << 62)

typedef struct cg_shape_constraint {
    uint32_t kind;
    uint32_t stage; /* in which its sizes are known */
    int64_t step;
    uint32_t n_sizes;
    st_symprog *size; /* NUMEL: one an axis that is no number; of the others two or three */
    const char *text; /* what is wrong when it does not hold */
} cg_shape_constraint;

struct st_cg_exe {
    st_cg_config config;
    st_library host_library; /* over `config` */
    st_arena arena;
    st_loop_syms syms;
    void *module;
    st_vec(st_kernel) kernels;
    st_vec(cg_launch) launches;
    st_vec(uint32_t) operands; /* program buffers of each launch; UINT32_MAX: LOCAL */
    st_vec(cg_buffer) buffers;
    st_vec(stator_blob *) blobs;
    const void **constants; /* data by index */
    uint32_t n_outputs;
    cg_output *outputs;
    st_vec(cg_check) checks;
    st_vec(cg_size_bind) binds;
    st_vec(cg_shape_constraint) shape_constraints;
    uint32_t operands_max;     /* of one launch */
    uint32_t n_slots;          /* of the workspace */
    st_symprog *slots;         /* bytes of each */
    uint32_t *slot_stages;     /* in which each is taken */
    uint64_t static_bytes;     /* workspace when all sizes are known, else 0 */
    uint64_t *static_offsets;  /* by slot */
    uint32_t n_inputs, n_syms; /* that a call must bring at least */
    uint32_t is_loaded;        /* from the cache: there are no kernels in loop IR */
    uint32_t n_output_aliases; /* values that lie where outputs will be; unknown when loaded */
    uint32_t is_body;          /* of a loop: its outputs are slices and carried values */
    _Atomic(void *) spare;     /* a workspace of symbolic size that nobody uses: {u64 size; ...} */
};

/* ---- launch_plan.c ---- */
/* Orders the fusion groups, keeps the buffers that are needed and gives them slots of the
 * workspace. Kernels are made, scheduled and moved to the executable. */
stator_status cg_make_exe(cg_unit *unit, st_cg_exe *exe, stator_diag **err);

/* Sets launch->known where it can; 0: out of memory. */
int cg_know_numbers(st_cg_exe *exe, cg_launch *launch);

/* ---- launch_notes.c ---- */
/* What the launch computes and touches, as the kernel that it runs (or stands for) says. */
stator_status cg_note_step(const st_kernel *kernel, st_cg_exe *exe, cg_launch *launch,
                           stator_diag **err);
/* Its nodes alone, ascending and each once; they are copied. */
stator_status cg_note_nodes(const stator_ref *nodes, uint32_t n, st_cg_exe *exe, cg_launch *launch,
                            stator_diag **err);

/* ---- memory_plan.c ---- */
/* Gives the buffers of the workspace their offsets, two of them the same where a kernel may write
 * over what it reads; those that are dead before an output is written may lie there. */
stator_status cg_plan_memory(st_cg_exe *exe, stator_diag **err);

/* ---- save_exe.c ---- */
/* Fills an empty executable from what st_cg_save wrote; it is to be destroyed after a failure. */
stator_status cg_load(st_cg_exe *exe, const void *bytes, uint64_t n, stator_diag **err);

/* ---- copy_elision.c ---- */
/* 1: the kernel moves nothing and is not needed; what it writes is another name for what it reads.
 */
int cg_drop_copy(cg_unit *unit, st_cg_exe *exe, const st_kernel *kernel);
/* The buffer that holds what the program's buffer names. */
uint32_t cg_alias_root(const cg_unit *unit, uint32_t buffer);

/* ---- concurrent_scans.c ---- */
#define CG_CONCURRENT_MAX 16u
/* Reorders `order` (n groups) so that scans which may run concurrently are neighbours.
 * n_concurrent[i] > 1: as many begin at index i. */
stator_status cg_gather_scans(cg_unit *unit, uint32_t *order, uint32_t n, uint32_t *n_concurrent,
                              stator_diag **err);

/* ---- size_binds.c ---- */
/* The sizes of bind number k of the unit, and what the step says, appended to the executable. */
stator_status cg_make_bind(cg_unit *unit, uint32_t k, st_cg_exe *exe, cg_launch *launch,
                           stator_diag **err);
/* Reads the elements and writes the call's syms. */
stator_status cg_run_bind(const cg_size_bind *bind, const int64_t *elements, int64_t *syms,
                          stator_diag **err);
/* Indices into syms[] of the sizes that the executable binds and that are not bound yet; how
 * many. */
#define CG_STEP_SIZES_MAX 64u
uint32_t cg_unbound(const st_cg_exe *exe, const int64_t *syms, uint32_t out[CG_STEP_SIZES_MAX]);
/* They are not bound any more. */
void cg_unbind(int64_t *syms, const uint32_t *indices, uint32_t n);
void cg_bind_deinit(cg_size_bind *bind, st_mem *mem);

/* ---- plan_shape_constraints.c ---- */
/* Notes the shape constraints that are not proved; nodes that cannot state theirs are declined.
 */
stator_status cg_find_shape_constraints(cg_unit *unit, st_cg_exe *exe, stator_diag **err);
/* Those of the stage, at these sizes: INVALID_ARGUMENT or OUT_OF_RANGE with node and sizes. */
stator_status cg_check_shape_constraints(const st_cg_exe *exe, uint32_t stage, const int64_t *syms,
                                         stator_diag **err);
void cg_shape_constraint_deinit(cg_shape_constraint *constraint, st_mem *mem);

/* ---- plan_scan.c ---- */
typedef struct cg_scan cg_scan;
/* A node whose body is being compiled, and the unit that it stands in. */
typedef struct cg_loop {
    cg_unit *unit;
    stator_ref node;
    uint32_t is_alone; /* one thread runs it, beside others */
    uint32_t step;     /* of the launch plan that it is */
} cg_loop;
/* The newest step of the executable becomes the scan. */
stator_status cg_make_scan(const cg_loop *loop, st_cg_exe *exe, cg_launch *launch,
                           stator_diag **err);
/* What the body knows of its inputs, and how its outputs lie (once it has roots). */
stator_status cg_begin_body(cg_unit *body, const cg_loop *loop, stator_diag **err);
void cg_align_outputs(cg_unit *body, const cg_loop *loop);
/* `pointers`: of the step's buffers. */
stator_status cg_run_scan(const cg_scan *scan, const stator_call *call, void *const *pointers,
                          stator_diag **err);
void cg_scan_deinit(cg_scan *scan, st_mem *mem);
/* How many sizes does a step bind? They are the call's, so no two such bodies run at once. */
uint32_t cg_scan_binds(const stator_graph_view *body);
const st_cg_exe *cg_scan_body(const cg_scan *scan);
/* Is buffer k of the step one that the body was given as a constant, if it is one? */
int cg_scan_knows(const cg_scan *scan, uint32_t k);
/* All of it as bytes, and back into a step that has its buffers; DATA_LOSS. */
stator_status cg_save_scan(const cg_scan *scan, st_str *out, stator_diag **err);
stator_status cg_load_scan(st_cg_exe *exe, struct st_reader *from, cg_launch *launch,
                           stator_diag **err);

/* ---- codegen.c ---- */
/* The library of the launch's op. */
static inline const st_library *cg_library_of(const st_cg_exe *exe, const cg_launch *launch)
{
    return launch->is_host ? &exe->host_library : exe->config.emitter->library;
}
st_cg_exe *cg_new_exe(const st_cg_config *config); /* NULL: out of memory */
/* The body of a loop as an executable; NEED_FALLBACK with the reason. */
stator_status cg_compile_body(const st_cg_config *config, const stator_graph *graph,
                              const cg_loop *loop, stator_fuel_scope *fuel, st_cg_exe **out,
                              const char **out_why, stator_diag **err);

/* ---- run_exe.c ---- */
/* What profiles and explain call it: a kernel's name, or the words of what it is asked to do. */
const char *cg_launch_name(const cg_launch *launch);
stator_status cg_run_body(const st_cg_exe *exe, const stator_call *call, stator_diag **err);

#endif
