/* plugins/cpu-llvm/kernels holds Stator's own kernels of contractions and attention: a driver each,
 * its inner loops for each width of vectors, and those of tiles in a folder.
 * plugins/cpu-llvm/onednn is the library around them: candidates, plans, calls, and oneDNN's
 * primitives.
 *
 * A contraction's numbers (dn_contraction.c) become candidates (onednn/dn_choose.c), the best of
 * which becomes a plan (onednn/dn_plan.c) that each call runs (onednn/dn_run.c): primitives of
 * oneDNN, or one of the kernels here. Each file begins with what it does.
 *
 * oneDNN 2.x (the C API of 3.x has other descriptors). Names of oneDNN begin with dnnl_. */
#ifndef STATOR_CPU_LLVM_DN_H
#define STATOR_CPU_LLVM_DN_H

#include "plugins/cpu-llvm/onednn/dnnl_api.h"

#include "core/base/check.h"

#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>

#if DNNL_VERSION_MAJOR != 2
#error "written for oneDNN 2.x"
#endif

#define DN_PLANS_MAX 16u /* an op keeps plans for so many different sizes */
#define DN_PACKS_MAX 4u
#define DN_STEPS_MAX 5u
#define DN_ARGS_MAX 16u
#define DN_SPATIAL ST_CONTRACTION_SPATIAL_MAX
#define DN_DIMS_MAX (ST_CONTRACTION_BATCH_MAX + 2u)
#define DN_FILLED UINT32_MAX             /* a bias's "buffer" that is dn_op.filled */
#define DN_FILLED_MAX ((int64_t)1 << 20) /* numbers of dn_op.filled: 4 MiB */

/* ---- sizes: a contraction with numbers in it ---- */

typedef struct dn_operand {
    int64_t offset; /* elements */
    int64_t batch[ST_CONTRACTION_BATCH_MAX];
    int64_t stride[2];
    int64_t dims[2 + DN_SPATIAL];
} dn_operand;

/* The depth axis of images of three axes, of which tiles make images of two (dn_tiles_slices.c). */
typedef struct dn_slices {
    int64_t n;         /* input slices that an output slice reads; 0: there is no depth axis */
    int64_t in, out;   /* slices of an image; of the output those of one phase alone */
    int64_t first;     /* input slice that output slice 0 reads first; below 0 it is padding */
    int64_t dilation;  /* input slices from one that is read to the next */
    int64_t x_step;    /* elements of x from slice to slice */
    int64_t out_step;  /* elements of the output from slice to slice of the phase */
    int64_t out_first; /* elements of the output before the phase's first slice */
    int64_t weight_first, weight_step; /* elements of y, in the order of the input slices */
} dn_slices;

typedef struct dn_sizes {
    int64_t threads; /* threads that the plan is for */
    int64_t is_bare; /* no epilogue, output f32 */
    int64_t n_batch;
    int64_t batch[ST_CONTRACTION_BATCH_MAX], m, n, k;
    int64_t images, channels, features;
    int64_t in[DN_SPATIAL], kernel[DN_SPATIAL], out_size[DN_SPATIAL];
    int64_t pad_low[DN_SPATIAL], pad_high[DN_SPATIAL];
    dn_operand x, y, out;
    dn_slices slices; /* set by dn_tiles_slice alone, else 0 */
} dn_sizes;

/* ---- an op ---- */

/* The memory that an operand of a primitive stands for. */
enum dn_role {
    DN_X = 0, /* the caller's */
    DN_Y,
    DN_OUT,
    DN_X2, /* x, y and the output in the primitive's order */
    DN_Y2,
    DN_OUT2,
    DN_SCRATCH,
    DN_POST, /* the first of the epilogue's buffers, by place in it */
    DN_ZERO = DN_POST + ST_CONTRACTION_EPILOGUE_MAX, /* zero points, i32; is_each: as they are */
    DN_SCALE = DN_ZERO + 2, /* weights.scale as they are; DN_ZERO + 1: weights.zero */
    DN_ROLES
};

/* One way to do it. */
typedef struct dn_candidate {
    uint32_t move_x, move_y, move_out; /* let the primitive choose the order, and reorder */
    uint32_t channels_last;            /* moved operands are NHWC, not in the primitive's choice */
    uint32_t is_winograd;
    uint32_t is_sum;      /* an ADD begins in the output, instead of being read beside it */
    uint32_t is_tiles;    /* dn_tiles.c does it; the others are 0, but for is_winograd */
    uint32_t is_planes;   /* dn_planes.c does it; the others are 0 */
    uint32_t is_quant;    /* dn_quant.c does it; the others are 0 */
    uint32_t is_gradient; /* dn_gradient.c does it; the others are 0, but for is_winograd */
    uint32_t is_product;  /* dn_product.c does it; the others are 0 */
} dn_candidate;

enum dn_class { DN_NO = 0, DN_GEMM = 1, DN_GOOD = 2 }; /* judged by the implementation's name */

/* Descriptors of one candidate. */
typedef struct dn_desc {
    dn_candidate how;
    uint32_t class_;
    uint32_t used; /* bit of each role */
    uint32_t sum;  /* 1 + place in the epilogue of the ADD that is done by sum */
    const char *name;
    dnnl_primitive_desc_t primitive;
    dnnl_memory_desc_t md[DN_ROLES];
    int arg[DN_ROLES]; /* argument of the primitive; 0: none */
} dn_desc;

typedef struct dn_arg {
    int arg;
    uint32_t role;
} dn_arg;

/* Matrices, one behind the other, of which rows become columns. */
typedef struct dn_transpose {
    int64_t matrices; /* 0: nothing is transposed */
    int64_t rows, columns;
} dn_transpose;

typedef struct dn_step {
    dnnl_primitive_t primitive; /* NULL: */
    dn_transpose transpose;     /* transposes the first argument into the second */
    uint32_t n_args;
    dn_arg args[DN_ARGS_MAX];
} dn_step;

/* State that one call at a time needs. */
typedef struct dn_slot {
    struct dn_slot *next;
    dnnl_stream_t stream;
    dnnl_memory_t memory[DN_ROLES];
    dnnl_exec_arg_t args[DN_STEPS_MAX][DN_ARGS_MAX];
} dn_slot;

enum dn_plan_kind {
    DN_PLAN_PRIMITIVE = 0,
    DN_PLAN_SKINNY,
    DN_PLAN_PLAIN,
    DN_PLAN_EMPTY,
    DN_PLAN_TILES,
    DN_PLAN_PLANES,
    DN_PLAN_QUANT,
    DN_PLAN_GRADIENT,
    DN_PLAN_PRODUCT
};

enum dn_alone_state {
    DN_ALONE_UNTRIED = 0,
    DN_ALONE_TRYING,
    DN_ALONE_SAME,   /* one thread gives the same bits */
    DN_ALONE_REFUSED /* there is none that does */
};

typedef struct dn_plan {
    dn_sizes key;     /* offsets 0 */
    int64_t y_offset; /* the packed weights' first element in y */
    uint32_t kind;
    uint32_t refs;  /* calls that are in it */
    uint32_t stamp; /* stamp of the last use */
    uint32_t n_steps;
    dn_desc desc;
    uint32_t is_packed; /* DN_Y2 is `packed` */
    dnnl_memory_t packed;
    dn_step steps[DN_STEPS_MAX];
    uint64_t place[DN_ROLES]; /* bytes from the start of a call's scratch */
    uint64_t scratch_bytes;
    uint32_t is_loose; /* the plan is in no list: destroyed after the call */
    dn_slot *slots;    /* not in use */
    /* The plan's counterpart on one thread (dn_alone.c), and the state of trying it. */
    struct dn_plan *alone;
    _Atomic uint32_t alone_state; /* enum dn_alone_state */
    _Atomic uint64_t team_ns;     /* the shortest call on all threads; 0: there was none */
    _Atomic uint64_t alone_ns;    /* a usual call on one thread */
} dn_plan;

typedef struct dn_pack {
    dnnl_memory_desc_t md;
    stator_blob *blob; /* a blob of the host; NULL: `data` is on the account */
    void *data;
    uint64_t bytes;
    uint32_t is_winograd;
} dn_pack;

struct dn_lib;
struct dn_half;

/* An epilogue of sums of integers that makes bytes of them (dn_bytes.c). */
typedef struct dn_to_bytes {
    int32_t is_done; /* 0: it is another one */
    int32_t is_signed, is_positive;
    uint32_t times, bias;       /* rows of the epilogue, counted from 1; 0: none */
    double factor, bias_factor; /* factors of `times`, or 1, and of `bias` */
    int16_t offset, least, greatest;
} dn_to_bytes;

typedef struct dn_op {
    struct dn_lib *lib;
    struct dn_half *half; /* buffers are f16 where the contraction says f32; NULL: as it says */
    st_contraction contraction; /* syms and y_data are of create alone */
    uint32_t has_constant;
    uint32_t has_bound;                         /* RELU or CLIP: NaN needs care */
    float numbers[ST_CONTRACTION_EPILOGUE_MAX]; /* values of the epilogue, for oneDNN */
    float *filled; /* a bias whose numbers are equal; NULL: it has none */
    int64_t n_filled;
    uint32_t is_static;
    uint32_t n_numbers;
    /* With sizes that are not known: the candidate chosen for those of the hints, which plans for
     * other sizes use as long as they have about as much work; hinted_macs 0: none was chosen. */
    dn_candidate hinted;
    int64_t hinted_macs;
    const struct dn_plan *steady; /* plan of every call, few rows by packed weights; or NULL */
    dn_sizes sizes;               /* sizes of every call of `steady`, as a product */
    const float *panels;          /* the weights then */
    uint64_t attention_bytes;     /* size of dn_attention_scratch */
    dn_to_bytes to_bytes;
    stator_blob *y_blob;         /* the constant weights of an op from the cache, else NULL */
    stator_blob *block_blobs[2]; /* their scales and zero points, or NULL */
    pthread_mutex_t making;      /* held while a plan is made; guards the packs */
    uint32_t n_packs;
    dn_pack packs[DN_PACKS_MAX];
    pthread_mutex_t mutex; /* short; of what follows */
    uint32_t clock;
    uint32_t n_plans;
    dn_plan *plans[DN_PLANS_MAX];
    const char *last; /* name of the implementation that ran last */
} dn_op;

#define DN_CHOICES 256u
#define DN_CANDIDATES_MAX 20u

typedef struct dn_choice {
    uint64_t key; /* 0: empty */
    dn_candidate how;
} dn_choice;

typedef struct dn_lib {
    st_library library;
    const stator_host *host;
    st_mem *mem;
    uint32_t flags;
    dnnl_engine_t engine;
    uint64_t memory_cap;           /* packed weights at most, bytes; 0: no limit */
    pthread_mutex_t mutex;         /* guards the fields below */
    uint64_t packed_bytes;         /* bytes of all ops */
    struct dn_scratch *scratch;    /* not in use */
    dn_choice choices[DN_CHOICES]; /* measured already */
} dn_lib;

/* ---- dn_main.c ---- */

/* dnnl_api.identity. */
void dn_identity(char *out, uint64_t size);

/* ---- dn_contraction.c ---- */

/* Numbers of a contraction, in the order of st_contraction_numbers, into sizes. */
void dn_sizes_of(const st_contraction *contraction, const int64_t *numbers, dn_sizes *out);
/* Numbers of the contraction, those that are not known under the hints of its symbols. 1: all are
 * known. */
uint32_t dn_sample(const st_contraction *contraction, int64_t numbers[ST_CONTRACTION_NUMBERS_MAX]);
/* y is a constant of which every call reads the same elements. */
bool dn_is_constant(const st_contraction *contraction);
/* Makes a bias of the number that is added to sums of f32 first, where the features are known: what
 * does a bias may do no other row, or do it slowly. Its buffer is DN_FILLED then. Returns how many
 * features it has; 0: nothing was done. */
int64_t dn_fill_bias(st_contraction *contraction);
/* 0: the bias that was made for the op has another length than these sizes ask for. */
bool dn_is_fill_whole(const dn_op *op, const dn_sizes *sizes);
/* What operand `role` of a convolution is in the forward direction: of a gradient to the weight, y
 * is what arrives at the output and the output is a weight. */
static inline uint32_t dn_forward_role(const st_contraction *contraction, uint32_t role)
{
    return contraction->is_weight_grad && role != DN_X ? DN_Y + DN_OUT - role : role;
}
/* Output elements and products; INT64_MAX when very many. */
void dn_work(const st_contraction *contraction, const dn_sizes *sizes, int64_t *out_elements,
             int64_t *out_macs);
/* Fewer, longer axes where the strides allow it. GEMM alone. */
void dn_simplify(const st_contraction *contraction, dn_sizes *sizes);
/* May a sum of a convolution of bytes exceed 2^24? */
bool dn_are_sums_long(const st_contraction *contraction, const dn_sizes *sizes);
/* The kinds of rows that the epilogue has, a bit each, of which DN_KIND names one. */
uint32_t dn_epilogue_kinds(const st_contraction *contraction);
#define DN_KIND(name) (1u << ST_EPILOGUE_##name)
/* Are all buffers of the epilogue f32? */
bool dn_is_epilogue_f32(const st_contraction *contraction);
/* A zero point may be other than 0. */
bool dn_has_zero(const st_contraction_zero *zero);
/* Are the weights signed bytes without a zero point, which need no sums of rows? */
bool dn_has_plain_weights(const st_contraction *contraction);
/* First to last element of an operand. */
int64_t dn_span(const st_contraction *contraction, const dn_sizes *sizes, uint32_t role);
/* undef: oneDNN has none. */
dnnl_data_type_t dn_type_of(uint32_t dtype);
/* The descriptor of a tensor that lies so. 0: oneDNN has none. */
static inline bool dn_strided(int n, const dnnl_dims_t dims, dnnl_data_type_t type,
                              const dnnl_dims_t strides, dnnl_memory_desc_t *out)
{
    return dnnl_memory_desc_init_by_strides(out, n, dims, type, strides) == dnnl_success;
}
/* Without VNNI oneDNN's products of bytes saturate at 16 bits. */
bool dn_are_onednn_bytes_exact(void);
/* Does the processor have tiles of its own for bytes and bf16, and is nothing else asked for? */
bool dn_has_amx(const dn_lib *lib);
/* Notes the memory that a trial of a kernel of our own needs. 0: that is too much. */
bool dn_note_operands(const dn_op *op, const dn_sizes *sizes, int64_t features, dn_desc *out);

/* ---- dn_winograd.c ---- */

/* 1: the weights at `y` are at `dst` now, in the form `to`; 0: it is another form than the one that
 * is known here, and nothing was done. */
bool dn_winograd_pack(const dn_op *op, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                      const void *y, void *dst);

/* fn over [0, n), in ranges of at least `grain` on the host's threads; NULL: on this one. */
static inline void dn_parallel(const stator_host *host, stator_ctx *ctx, int64_t n, int64_t grain,
                               stator_range_fn fn, void *fn_self)
{
    if (host) {
        host->thr->parallel_for(ctx, n, grain, fn, fn_self);
    } else {
        fn(fn_self, 0, n);
    }
}

#if defined(__x86_64__)
/* Bytes of the vectors that this processor and the flags allow: 64 (AVX-512F), 32 (AVX2 and FMA) or
 * 0. */
static inline uint32_t dn_vector_bytes(const dn_lib *lib)
{
    __builtin_cpu_init();
    if (!(lib->flags & (DNNL_VECTORS_32 | DNNL_VECTORS_16)) && __builtin_cpu_supports("avx512f")) {
        return 64;
    }
    return !(lib->flags & DNNL_VECTORS_16) && __builtin_cpu_supports("avx2") &&
                   __builtin_cpu_supports("fma")
               ? 32
               : 0;
}
/* The inner loops of a family (dn_planes, ...) for this processor, or NULL. */
#define DN_ISA_OF(lib, family)                                                                     \
    (dn_vector_bytes(lib) == 64   ? family##_512()                                                 \
     : dn_vector_bytes(lib) == 32 ? family##_256()                                                 \
                                  : NULL)
#else
static inline uint32_t dn_vector_bytes(const dn_lib *lib)
{
    (void)lib;
    return 0;
}
#define DN_ISA_OF(lib, family) ((void)(lib), NULL)
#endif

/* ---- dn_scratch.c ---- */

typedef struct dn_scratch dn_scratch;
/* A block of at least so many bytes, aligned to 64; NULL: no memory. */
dn_scratch *dn_scratch_take(dn_lib *lib, uint64_t bytes);
void *dn_scratch_data(dn_scratch *block);
void dn_scratch_give(dn_lib *lib, dn_scratch *block);
/* Blocks for `n` threads at once, so that how many of them meet in a call makes no difference to
 * what later calls allocate. */
void dn_scratch_reserve(dn_lib *lib, uint64_t bytes, int64_t n);
void dn_scratch_deinit(dn_lib *lib);
/* Advice that large pages are worth it: memory that is written at once costs a fifth then. */
void dn_advise_huge(void *data, uint64_t bytes);
/* Frees a block of st_alloc whose pages go back to the system at once: malloc would keep blocks of
 * up to 32 MB once it has seen such a one go, and what it keeps is resident. */
void dn_free_large(st_mem *mem, void *data, uint64_t bytes);

/* ---- dn_bytes.c ---- */

void dn_to_bytes_of(const st_contraction *contraction, dn_to_bytes *out);

/* ---- dn_plain.c ---- */

/* The whole contraction by plain loops; `t` not NULL: the accumulated values are there, laid out
 * as the output, and the epilogue alone is left. */
void dn_plain(const dn_op *op, const dn_sizes *sizes, const float *t, void *const at[DN_ROLES],
              stator_ctx *ctx);

/* ---- dn_skinny.c ---- */

/* Rows of the epilogue that the sums of dn_rows_isa.h can get. */
bool dn_rows_has_epilogue(const st_contraction *contraction);
/* Fills the name and the orders of the weights when the sizes (simplified) are for dn_skinny_run.
 */
bool dn_skinny_describe(const dn_op *op, const dn_sizes *sizes, dn_desc *out);
/* A call of a plan of that kind; its weights are bound. */
void dn_skinny_run(const dn_op *op, const dn_plan *plan, const dn_sizes *sizes,
                   void *const at[DN_ROLES], stator_ctx *ctx);
/* One of `parts` parts of a steady op's call, on this thread. */
void dn_skinny_part(const dn_op *op, void *const at[DN_ROLES], uint32_t part, uint32_t parts);
/* Fills what a steady op's calls need. */
void dn_skinny_note(dn_op *op, const dn_plan *plan, const dn_sizes *sizes);

/* ---- dn_quant.c ---- */

/* Fills the name and the orders of the weights when the sizes (simplified) are for dn_quant_run. */
bool dn_quant_describe(const dn_op *op, const dn_sizes *sizes, dn_desc *out);
/* The dtypes and epilogue are such as it does. */
bool dn_quant_takes(const st_contraction *contraction);
/* A call of a plan of that kind. Weights that are not bound are packed in it. */
stator_status dn_quant_run(const dn_op *op, const dn_plan *plan, const dn_sizes *sizes,
                           void *const at[DN_ROLES], stator_ctx *ctx, stator_diag **err);
/* Weights at y, the first element of their constant, to the order of dn_quant_describe; NULL: those
 * of op->y_blob. DATA_LOSS: a constant of an op from the cache is too short. */
stator_status dn_quant_pack(const dn_op *op, const dn_sizes *sizes, const void *y, void *dst,
                            stator_ctx *ctx);
/* DATA_LOSS: weights of few bits, scales or zero points of an op from the cache do not lie in their
 * constants, by these sizes, whatever the way they are multiplied. */
stator_status dn_quant_check(const dn_op *op, const dn_sizes *sizes);
/* The weight that the number y at (k, n) stands for, by the numbers in at[DN_SCALE] and at[DN_ZERO
 * + 1]. */
double dn_quant_weight(const st_contraction *contraction, void *const at[DN_ROLES], double y,
                       int64_t k, int64_t n);

/* ---- dn_tiles.c, dn_tiles_job.c, dn_tiles_pack.c ---- */

/* Fills the name, the orders of the weights and what a trial needs when the sizes (simplified) are
 * for dn_tiles_run. */
bool dn_tiles_describe(const dn_op *op, const dn_sizes *sizes, uint32_t is_winograd, dn_desc *out);
/* oneDNN's implementations of such a contraction are as good where they need no transposing: with
 * AVX-512 of f32, but for transposed convolutions. */
bool dn_tiles_are_second(const dn_lib *lib, const st_contraction *contraction);
/* Tiles of the op's dtype can multiply what Winograd makes: of f32, or of constant weights. */
bool dn_tiles_has_winograd(const dn_op *op);
/* The convolution is one that Winograd's algorithm does, and sums of bytes stay exact. */
bool dn_may_be_winograd(const dn_op *op, const dn_sizes *sizes);
/* Bytes that a call of these sizes (simplified) needs. */
uint64_t dn_tiles_scratch(const dn_op *op, const dn_sizes *sizes, uint32_t is_winograd);
/* A call of a plan of that kind. Weights that are not bound are packed in it. */
stator_status dn_tiles_run(dn_op *op, const dn_plan *plan, const dn_sizes *sizes,
                           void *const at[DN_ROLES], stator_ctx *ctx, stator_diag **err);
/* Weights at y, the first element by `sizes`, to the order of dn_tiles_describe. */
void dn_tiles_pack(const dn_op *op, const dn_sizes *sizes, int is_winograd, const void *y,
                   void *dst, stator_ctx *ctx);

/* `finish` of the narrowest tiles of the op's dtype does the epilogue. */
bool dn_tiles_has_epilogue(const st_contraction *contraction);

/* ---- dn_product.c ---- */

/* Fills the name and what a trial needs when the sizes (simplified) are for dn_product_run. */
bool dn_product_describe(const dn_op *op, const dn_sizes *sizes, dn_desc *out);
/* Bytes that a call of these sizes (simplified) needs. */
uint64_t dn_product_scratch(const dn_op *op, const dn_sizes *sizes);
/* A call of a plan of that kind. */
stator_status dn_product_run(const dn_op *op, const dn_sizes *sizes, void *const at[DN_ROLES],
                             stator_ctx *ctx, stator_diag **err);

/* ---- dn_planes.c ---- */

/* Fills the name and what a trial needs when the sizes are for dn_planes_run. */
bool dn_planes_describe(const dn_op *op, const dn_sizes *sizes, dn_desc *out);
/* Bytes that a call of these sizes needs. */
uint64_t dn_planes_scratch(const dn_op *op, const dn_sizes *sizes);
/* A call of a plan of that kind, whose weights lie where the caller has them. */
stator_status dn_planes_run(const dn_op *op, const dn_sizes *sizes, void *const at[DN_ROLES],
                            stator_ctx *ctx, stator_diag **err);

/* ---- dn_gradient.c ---- */

/* Fills the name and what a trial needs when the sizes are for dn_gradient_run. */
bool dn_gradient_describe(const dn_op *op, const dn_sizes *sizes, uint32_t is_winograd,
                          dn_desc *out);
/* Bytes that a call of these sizes needs. */
uint64_t dn_gradient_scratch(const dn_op *op, const dn_sizes *sizes, uint32_t is_winograd);
/* A call of a plan of that kind. */
stator_status dn_gradient_run(const dn_op *op, const dn_plan *plan, const dn_sizes *sizes,
                              void *const at[DN_ROLES], stator_ctx *ctx, stator_diag **err);

/* ---- dn_attention.c ---- */

/* Contractions of kind ST_CONTRACTION_SDPA; ops of them have no plans, nor have those of the
 * gradient. */
bool dn_attention_takes(const st_contraction *contraction);
/* Bytes of scratch that a thread of a call needs; 0: not known. */
uint64_t dn_attention_scratch(const st_contraction *contraction);
stator_status dn_attention_run(dn_op *op, const st_library_call *call, stator_ctx *ctx,
                               stator_diag **err);

/* ---- dn_attention_gradient.c ---- */

bool dn_attention_gradient_takes(const st_contraction *contraction);
/* Bytes of scratch that a thread of a call needs; 0: not known. */
uint64_t dn_attention_gradient_scratch(const st_contraction *contraction);
stator_status dn_attention_gradient_run(dn_op *op, const st_library_call *call, stator_ctx *ctx,
                                        stator_diag **err);

/* Is it attention, or its gradient, that one of the two does? */
static inline bool dn_takes_attention(const st_contraction *contraction)
{
    return contraction->kind == ST_CONTRACTION_SDPA ? dn_attention_takes(contraction)
                                                    : dn_attention_gradient_takes(contraction);
}

/* ---- dn_team.c ---- */

typedef struct dn_team {
    int threads;
    int is_dynamic;
} dn_team;

/* Threads that a region begun here will get when `wanted` are asked for. */
int32_t dn_team_size(int wanted);
/* Until dn_team_end oneDNN uses `threads` threads in this thread's regions. */
dn_team dn_team_begin(int threads);
void dn_team_end(const dn_team *before);
/* Clears the invalid-operation flag of the team's threads; returns the flags of this thread. */
uint32_t dn_flags_clear(int threads);
/* 1 when a thread of the team has met NaN (or made one) since. This thread's flags are as they were
 * then, and what has come. */
bool dn_flags_found(int threads, uint32_t before);

#endif
