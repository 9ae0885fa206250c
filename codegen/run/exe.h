/* The room of the executable: what is left of a compile, and its calls.
 *
 * A compile fills a st_cg_exe (codegen/plan), the cache and packages write it out
 * (codegen/package), and a call runs it here. Nothing in this room knows the graph or how
 * kernels were made, so a loaded executable runs like one that has just been compiled. It is
 * immutable while calls run, but for the memory that they take turns with. */
#ifndef STATOR_CODEGEN_EXE_H
#define STATOR_CODEGEN_EXE_H

#include "codegen/codegen.h"
#include "core/base/diag.h"
#include "core/base/shape_constraint.h"
#include <stdatomic.h>

#define CG_RANK_MAX STATOR_RANK_MAX
#define CG_CONCURRENT_MAX 16u

/* ---- buffers of the program ---- */

enum cg_buffer_kind {
    CG_BUFFER_INPUT = 1, /* index: input number */
    CG_BUFFER_OUTPUT,    /* index: output number */
    CG_BUFFER_CONSTANT,  /* index: into unit->blobs */
    CG_BUFFER_WORK       /* index: slot of the workspace, by the group */
};

typedef struct cg_buffer {
    uint32_t kind;
    uint32_t index;
    uint32_t dtype;
    uint32_t numel; /* sym */
    uint32_t align; /* bytes, 0: 16 */
    stator_ref value;
    uint32_t first, last;         /* steps in which it is alive (WORK) */
    uint32_t is_unaligned_mapped; /* a constant that may lie at any address */
    uint64_t offset;             /* bytes into the output, of a value that lies where one will be */
    uint64_t output_alias_bytes; /* size of the aliased output; 0: none */
} cg_buffer;

typedef struct cg_scan cg_scan; /* codegen/run/scan_loop.h */

/* When a step runs. Those of an update of some elements of an input depend on whether the result
 * lies in it in this call: see plan_updates.c. */
enum cg_when {
    CG_ALWAYS,
    CG_TO_COPY,   /* where it does not */
    CG_TO_KEEP,   /* where it does */
    CG_TO_RESTORE /* where it does, when a later step has failed */
};

typedef struct cg_launch {
    uint32_t kernel;       /* index in the module; UINT32_MAX: a call of the library */
    uint32_t first_buffer; /* into exe->operands */
    uint32_t n_buffers;
    uint32_t has_parallel;
    st_symprog count; /* iterations of the parallel loop */
    int64_t grain;
    uint32_t lanes;    /* iterations that belong together */
    void *op;          /* the library's op */
    uint32_t is_fixed; /* the op is of fixed kernels or the host library, not of the emitter's */
    const char *text;  /* the library call in words */
    uint32_t n_numbers;
    uint32_t
        n_concurrent; /* scans from this one on that run concurrently; 0: it is none or alone */
    st_symprog *numbers;
    int64_t *known;      /* values of `numbers`, when all are known */
    uint32_t stage;      /* binds before it */
    uint32_t when;       /* cg_when */
    uint32_t old, new;   /* buffers of the input and of the result, unless ALWAYS */
    uint32_t bind;       /* into exe->binds, + 1: no kernel, it reads its one buffer */
    cg_scan *scan;       /* no kernel: a body, run step by step */
    const char *name;    /* name of the kernel */
    uint32_t step_flags; /* stator_step_flag */
    uint32_t n_nodes;    /* nodes that it computes; not kept in the cache */
    const stator_ref *nodes;
    uint64_t read_bytes, written_bytes; /* bytes of its buffers; OPEN: of those of known size */
} cg_launch;

/* The symbol that an element of a bound tensor gives a value, or the size that it must equal. */
typedef struct cg_bound {
    uint32_t index; /* index in a call's syms[]; UINT32_MAX: the element must equal `sym` */
    int64_t lo, hi, divisor;
    st_symprog sym;
} cg_bound;

typedef struct cg_size_bind {
    uint32_t n;
    cg_bound *sizes;
    const char *name; /* name of the node */
} cg_size_bind;

typedef struct cg_output {
    uint32_t rank;
    uint32_t stage; /* in which its shape is known */
    st_symprog *dims;
} cg_output;

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
    const char *text; /* message of a violation */
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
    const void **constants;  /* data by index */
    void **device_constants; /* with memory of a device, by index: whose they are, NULL: not read */
    void *device_checks;     /* likewise; NULL: no kernel has a check */
    uint32_t n_outputs;
    cg_output *outputs;
    uint32_t *may_alias;  /* by output: see stator_exe_info; NULL: no write-backs */
    uint32_t first_write; /* on a device: the first launch that may write an input */
    st_vec(st_check_text) checks;
    st_vec(cg_size_bind) binds;
    st_vec(cg_shape_constraint) shape_constraints;
    uint32_t operands_max;     /* operands of the largest launch */
    uint32_t n_slots;          /* slots of the workspace */
    st_symprog *slots;         /* bytes of each */
    uint32_t *slot_stages;     /* in which each is taken */
    uint64_t static_bytes;     /* workspace when all sizes are known, else 0 */
    uint64_t *static_offsets;  /* by slot */
    uint32_t n_inputs, n_syms; /* least numbers of inputs and syms of a call */
    uint32_t is_loaded;        /* from the cache: there are no kernels in loop IR */
    uint32_t n_output_aliases; /* values that lie where outputs will be; unknown when loaded */
    uint32_t is_body;          /* body of a loop: its outputs are slices and carried values */
    _Atomic(void *) spare;     /* a workspace of symbolic size that nobody uses: {u64 size; ...} */
};

/* ---- exe.c ---- */
st_cg_exe *cg_new_exe(const st_cg_config *config); /* NULL: out of memory */
/* The library of the launch's op; NULL: the emitter has none. */
static inline const st_library *cg_library_of(const st_cg_exe *exe, const cg_launch *launch)
{
    const st_emitter *emitter = exe->config.emitter;
    if (!launch->is_fixed) {
        return emitter->library;
    }
    return emitter->fixed                     ? emitter->fixed
           : emitter->flags & ST_EMITTER_HOST ? &exe->host_library
                                              : NULL;
}
/* Sets launch->known where it can; 0: out of memory. */
bool cg_know_numbers(st_cg_exe *exe, cg_launch *launch);
/* Name of a launch in profiles and explain: the kernel's, or the library call in words. */
const char *cg_launch_name(const cg_launch *launch);
/* The text as long as the executable, and freed where it was; NULL: out of memory. */
const char *cg_keep_text(st_cg_exe *exe, st_str *text);
/* A constant's bytes for kernels and the library: where they lie if the target reads at any address
 * and they are many. */
stator_status cg_constant_data(const st_cg_config *config, stator_blob *blob, const void **out_data,
                               stator_diag **err);
/* What is known of a constant without reading it; its data, when they are few, aligned. */
stator_status cg_look_at_constant(const st_cg_config *config, stator_blob *blob,
                                  stator_blob_info *info, stator_diag **err);
/* With memory of a device: brings what calls need of the finished executable there. */
stator_status cg_move_to_device(st_cg_exe *exe, stator_diag **err);
/* Such bytes may lie at any address. */
bool cg_is_unaligned_mapped(const st_cg_config *config, uint64_t size_bytes);
/* Was the body given buffer k of the step as a constant, if it is one? */
bool cg_scan_knows(const cg_scan *scan, uint32_t k);

/* ---- run_sizes.c: sizes that calls bind and test ---- */
/* Reads the elements and writes the call's syms. */
stator_status cg_run_bind(const cg_size_bind *bind, const int64_t *elements, int64_t *syms,
                          stator_diag **err);
/* Indices into syms[] of the sizes that the executable binds and that are not bound yet; how
 * many. */
#define CG_STEP_SIZES_MAX 64u
uint32_t cg_unbound(const st_cg_exe *exe, const int64_t *syms, uint32_t out[CG_STEP_SIZES_MAX]);
/* They are not bound any more. */
void cg_unbind(int64_t *syms, const uint32_t *indices, uint32_t n);
/* Those of the stage, at these sizes: INVALID_ARGUMENT or OUT_OF_RANGE with node and sizes. */
stator_status cg_check_shape_constraints(const st_cg_exe *exe, uint32_t stage, const int64_t *syms,
                                         stator_diag **err);

/* ---- run_scan.c ---- */
/* `pointers`: of the step's buffers. */
stator_status cg_run_scan(const cg_scan *scan, const stator_call *call, void *const *pointers,
                          void *device_call, stator_diag **err);

/* ---- run_exe.c ---- */
/* `around`: the device call that it is a step of; NULL with host memory. */
stator_status cg_run_body(const st_cg_exe *exe, const stator_call *call, void *around,
                          stator_diag **err);

#endif
