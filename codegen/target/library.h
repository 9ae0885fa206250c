/* Contractions that a library does better than generated loops (header unstable, see
 * docs/codegen.md).
 *
 * A contraction is recognised in the loop IR, after views have become strides: a kernel that is one
 * accumulated product of two loads with a short epilogue is a GEMM whatever ops it came from, so
 * transposes, reshapes and broadcasts are free. Convolutions are recognised by their op. An emitter
 * that has a library is asked whether it takes the contraction; if so its call takes the kernel's
 * place.
 *
 * The kinds of a st_contraction; t is what an epilogue is applied to:
 *
 * - gemm: out[b.., m, n] of t = sum over k of x[b.., m, k] * y[b.., k, n].
 * - conv: out[n, m, o..] of t = sum over c, k.. of x[n, g*C/G + c, i..] * w[m, c, k..], where
 *   i = o*stride + k*dil - pad.
 * - conv, transposed: over w[g*C/G + c, m % (M/G), k..] with o = i*stride + k*dil - pad.
 * - conv, gradient to the weight: out[m, c, k..] of t = sum over n, o.. of x[n, g*C/G + c, i..] *
 *   y[n, m, o..]; extents are those of the conv.
 * - sdpa: out[b, h, t, e] = sum over s of p[s] * v[b, g, s, e] with g = h / (H/G), the group of
 *   head h; p is the softmax over s of scale * (sum over d of x[b, h, t, d] * y[b, g, s, d])
 *   + mask[b, h, t, s]. A key with p = 0 counts nothing; a row that attends to nothing is 0.
 * - gradient of sdpa: with dp[s] = sum over e of dy[b, h, t, e] * v[b, g, s, e] and ds[s] = p[s] *
 *   (dp[s] - sum over s of p[s] * dp[s]), out[b, h, t, d] = scale * sum over s of ds[s] *
 *   y[b, g, s, d]; over the rows t of the heads h of a group, dv[b, g, s, e] = sum of p[s] *
 *   dy[b, h, t, e] and dk[b, g, s, d] = scale * (sum of ds[s] * x[b, h, t, d]).
 * - order: along one axis of x, the first `take` elements in order (NaN the largest, of equal
 *   elements the lower index first) and their indices.
 * - cumulate: along one axis of x, the sum (or product) of each element and those before it.
 * - scatter: out is x (dense, as all operands are); then each update takes the place of the element
 *   of out that its index (y) names, or is combined with it, one after the other.
 *
 * The kinds from order on are asked of the emitter's fixed kernels, or of codegen's own host
 * library (codegen/run/host_library.h); other libraries are not asked.
 *
 * Strides are in elements. Extents and strides are syms; the library gets their values with each
 * call in the order of `st_contraction_numbers`. A packed form of constant operands is the
 * library's to make, once, at create. */
#ifndef STATOR_CODEGEN_LIBRARY_H
#define STATOR_CODEGEN_LIBRARY_H

#include "codegen/loopir/loop.h"
#include <stator/plugin.h>

#define ST_CONTRACTION_BATCH_MAX 4u
#define ST_CONTRACTION_SPATIAL_MAX 3u
#define ST_CONTRACTION_EPILOGUE_MAX 8u
#define ST_CONTRACTION_NUMBERS_MAX 48u

#define ST_CONTRACTION_ORDER_RANK_MAX 8u

enum st_contraction_kind {
    ST_CONTRACTION_GEMM = 1,
    ST_CONTRACTION_CONV = 2,
    ST_CONTRACTION_SDPA = 3,
    ST_CONTRACTION_SDPA_GRADIENT = 4,
    ST_CONTRACTION_ORDER = 5,
    ST_CONTRACTION_CUMULATE = 6,
    ST_CONTRACTION_SCATTER = 7
};

/* Is it for fixed kernels or the host library, and not for the emitter's? */
static inline bool st_contraction_is_fixed(uint32_t kind)
{
    return kind >= ST_CONTRACTION_ORDER;
}

/* Is it attention, or its gradient? */
static inline bool st_contraction_is_sdpa(uint32_t kind)
{
    return kind == ST_CONTRACTION_SDPA || kind == ST_CONTRACTION_SDPA_GRADIENT;
}

/* A step that is applied to the accumulated value t; steps run in order. */
enum st_epilogue_kind {
    ST_EPILOGUE_BIAS = 1, /* t + buffer[n] (gemm), t + buffer[m] (conv); stride 1 */
    ST_EPILOGUE_ADD,      /* t + buffer[...], laid out as the output */
    ST_EPILOGUE_RELU,     /* max(t, 0) */
    ST_EPILOGUE_SCALE,    /* t * value */
    ST_EPILOGUE_CLIP,     /* min(max(t, value), value2) */
    ST_EPILOGUE_GELU_ERF, /* 0.5 t (1 + erf(t / sqrt 2)) */
    ST_EPILOGUE_GELU_TANH,
    ST_EPILOGUE_SIGMOID,
    ST_EPILOGUE_TANH,
    ST_EPILOGUE_SILU,
    ST_EPILOGUE_TIMES,     /* t * buffer[n] (gemm), t * buffer[m] (conv); stride 1 */
    ST_EPILOGUE_TIMES_ONE, /* t * buffer[0] */
    /* Sums of integers alone: */
    ST_EPILOGUE_DIVIDE, /* t / value */
    ST_EPILOGUE_ROUND,  /* to a whole number, halves to the even one */
    /* Any sums: */
    ST_EPILOGUE_OFFSET, /* t + value */
    /* Outputs of bf16 or f16 alone: */
    ST_EPILOGUE_NARROW /* rounded to the output's dtype, and f32 again */
};

static inline bool st_epilogue_has_buffer(uint32_t kind)
{
    return kind == ST_EPILOGUE_BIAS || kind == ST_EPILOGUE_ADD || kind == ST_EPILOGUE_TIMES ||
           kind == ST_EPILOGUE_TIMES_ONE;
}

typedef struct st_epilogue {
    uint32_t kind;
    uint32_t buffer; /* index among the contraction's buffers, where the kind has one */
    uint32_t dtype;  /* the buffer's: that of t, or bf16 or f16 where that is f32 */
    double value, value2;
} st_epilogue;

/* Where an operand lies: stride along each axis of the contraction, 0 where it does not depend
 * on it. */
typedef struct st_contraction_operand {
    uint32_t buffer; /* index among the contraction's buffers */
    uint32_t dtype;
    uint32_t offset; /* sym, elements */
    uint32_t batch[ST_CONTRACTION_BATCH_MAX];
    uint32_t stride[2]; /* gemm: x (m, k), y (k, n), out (m, n) */
    /* conv: N C spatial strides; weight: M C kernel. sdpa: x B H T D, y B G S D, v B G S E,
     * mask B H T S, dy B H T E */
    uint32_t dims[2 + ST_CONTRACTION_SPATIAL_MAX];
} st_contraction_operand;

/* The rest of attention and of its gradient. Masks are bool (false: not attended to) or of
 * floats, which are added. */
typedef struct st_contraction_sdpa {
    uint32_t batch, heads, groups, queries, keys, depth, width; /* extents B H G T S D E, syms */
    st_contraction_operand v, mask;
    st_contraction_operand dy, dk, dv; /* of the gradient, whose `out` is dq */
    uint32_t has_mask;
    uint32_t is_finite; /* x, y and v are; else what is not counts 0 behind p */
    uint32_t is_causal; /* key s <= query t */
    uint32_t has_scale; /* else 1 / sqrt D */
    double scale;
} st_contraction_sdpa;

/* Zero point of an operand of integers: it is subtracted, as an integer, before the product.
 * Padding is 0 after the subtraction. */
typedef struct st_contraction_zero {
    uint32_t has_buffer; /* 1: element 0 of `buffer`, else `value` */
    uint32_t is_each;    /* 1: an element for each m (x of a gemm), n or M (y) */
    uint32_t buffer, dtype;
    int32_t value;
} st_contraction_zero;

/* The rest of sort and topk. Values are `out`; a result that nobody reads has no buffer:
 * UINT32_MAX. */
typedef struct st_contraction_order {
    uint32_t rank, axis;
    uint32_t is_falling;                                /* largest first */
    uint32_t indices;                                   /* buffer of i64 */
    uint32_t dims[ST_CONTRACTION_ORDER_RANK_MAX], take; /* x; axis of the results: syms */
    uint32_t x_stride[ST_CONTRACTION_ORDER_RANK_MAX];
    uint32_t out_stride[ST_CONTRACTION_ORDER_RANK_MAX],
        indices_stride[ST_CONTRACTION_ORDER_RANK_MAX];
} st_contraction_order;

/* The rest of cumsum and cumprod. Sums of floats are f64, of integers they wrap. */
typedef struct st_contraction_cumulate {
    uint32_t rank, axis;
    uint32_t is_product;
    uint32_t is_exclusive;                        /* without the element itself */
    uint32_t is_reverse;                          /* from the end of the axis on */
    uint32_t dims[ST_CONTRACTION_ORDER_RANK_MAX]; /* syms */
    uint32_t x_stride[ST_CONTRACTION_ORDER_RANK_MAX], out_stride[ST_CONTRACTION_ORDER_RANK_MAX];
} st_contraction_cumulate;

/* The rest of scatter_elements and scatter_nd. */
typedef struct st_contraction_scatter {
    uint32_t rank, index_rank;
    uint32_t axis;         /* of scatter_elements */
    uint32_t width;        /* of the tuples of scatter_nd, which name slices of out; 0: no tuples */
    uint32_t reduction;    /* st_loop_code: add, mul, min or max; 0: the update itself */
    uint32_t origin;       /* status of an index that is outside its axis */
    uint32_t is_any_order; /* sums of floats may be added in any order */
    st_contraction_operand updates;
    uint32_t dims[ST_CONTRACTION_ORDER_RANK_MAX], index_dims[ST_CONTRACTION_ORDER_RANK_MAX];
} st_contraction_scatter;

/* A number for each n and k of a gemm, at data[offset + floor(k / block[0]) * stride[0] +
 * floor(n / block[1]) * stride[1]]. */
typedef struct st_contraction_blocks {
    uint32_t buffer; /* a constant's index; UINT32_MAX: `value` for all */
    uint32_t dtype;
    double value;
    int64_t offset, stride[2], block[2];
    const void *data; /* contents, borrowed for create; the same bytes at each call */
    uint8_t hash[16];
} st_contraction_blocks;

/* Index in `data` of the number for (k, n). */
static inline int64_t st_contraction_block_at(const st_contraction_blocks *of, int64_t k, int64_t n)
{
    return of->offset + k / of->block[0] * of->stride[0] + n / of->block[1] * of->stride[1];
}

/* Scale and zero point of a constant y of integers of four or eight bits, beside an x of floats:
 * its value is (y - zero) * scale, rounded to `dtype` (f32, f16, bf16). */
typedef struct st_contraction_weights {
    uint32_t is_scaled; /* 0: y is what it is */
    uint32_t dtype;
    st_contraction_blocks scale, zero;
} st_contraction_weights;

typedef struct st_contraction {
    uint32_t kind;
    uint32_t acc_dtype;
    uint32_t f32_products; /* of sums in f32 of factors of f32: st_target.f32_products */
    uint32_t n_batch;
    uint32_t n_spatial;
    uint32_t batch[ST_CONTRACTION_BATCH_MAX]; /* extents, syms */
    uint32_t m, n, k;                         /* gemm: extents, syms */
    /* conv: extents, syms: N, C, M and spatial sizes of input, kernel and output */
    uint32_t images, channels, features;
    uint32_t in[ST_CONTRACTION_SPATIAL_MAX], kernel[ST_CONTRACTION_SPATIAL_MAX],
        out_size[ST_CONTRACTION_SPATIAL_MAX];
    uint32_t pad_low[ST_CONTRACTION_SPATIAL_MAX], pad_high[ST_CONTRACTION_SPATIAL_MAX]; /* syms */
    int64_t stride[ST_CONTRACTION_SPATIAL_MAX], dilation[ST_CONTRACTION_SPATIAL_MAX];
    int64_t groups;
    uint32_t is_transposed;  /* conv */
    uint32_t is_weight_grad; /* conv */
    st_contraction_sdpa sdpa;
    st_contraction_order order;
    st_contraction_cumulate cumulate;
    st_contraction_scatter scatter;
    st_contraction_operand x, y, out; /* y: the weight of a conv, or what arrives at its output */
    /* acc_dtype I32: sums wrap; t is i32 in the BIAS of i32 that comes first, if any, then f32.
     * Where the output is i8 or u8, t is whole in the end and is stored as the nearest number of
     * the dtype. */
    st_contraction_zero x_zero, y_zero;
    st_contraction_weights weights; /* gemm, acc_dtype F32 */
    /* Contents of y when it is a constant (borrowed for create; the same bytes at each call). */
    const void *y_data;
    uint8_t y_hash[16];
    uint32_t n_epilogue;
    st_epilogue epilogue[ST_CONTRACTION_EPILOGUE_MAX];
    uint32_t n_buffers;
    uint32_t is_alone;        /* called by one thread of a group whose others do something else */
    const st_loop_syms *syms; /* for the ranges and values of the syms */
} st_contraction;

typedef struct st_library_call {
    const stator_call *call;
    void *const *buffers;   /* first elements, by index */
    const int64_t *numbers; /* values of st_contraction_numbers */
    /* Of st_device_memory.begin: scratch comes from its `take`; NULL: buffers are host memory. */
    void *device_call;
} st_library_call;

/* An op as op_save wrote it, and its surroundings. */
typedef struct st_library_kept {
    const void *bytes;
    uint64_t size_bytes;
    uint32_t n_buffers;
    uint32_t n_numbers;
    const int64_t *numbers; /* values of st_contraction_numbers, when is_static */
    uint32_t is_static;
    uint32_t reserved;
    /* The constant that lies at this index among the buffers; NULL: none does. Borrowed. */
    stator_blob *(*constant)(void *self, uint32_t buffer);
    void *self;
} st_library_kept;

/* Memory that an op holds and needs. */
typedef struct st_library_memory {
    uint64_t packed_bytes;   /* weights in forms of the library's own */
    uint64_t winograd_bytes; /* part of packed_bytes that is transformed for Winograd's algorithm */
    uint64_t scratch_bytes;  /* largest scratch of a call so far; shared by all ops */
    uint32_t unread;         /* index of a constant that calls do not read, UINT32_MAX none */
    uint32_t reserved;
    uint64_t moved_bytes[2]; /* of x and y, reordered by every call; 0: not known */
} st_library_memory;

typedef struct st_library {
    uint32_t struct_size;
    uint32_t reserved;
    void *self;
    /* 1: create will succeed but for memory and the loops would be slower. Pure, any thread. */
    int32_t (*takes)(void *self, const st_contraction *contraction);
    /* Prepares: packs y, makes what does not depend on unknown numbers. */
    stator_status (*create)(void *self, const st_contraction *contraction, void **out_op,
                            stator_diag **err);
    /* Concurrent on one op. Results are complete when it returns (or queued on call->stream). */
    stator_status (*run)(void *self, void *op, const st_library_call *call, stator_diag **err);
    void (*destroy)(void *self, void *op);
    /* Both NULL: ops cannot be kept in the compile cache. save appends the op as bytes, with what
     * create chose; load makes it again without choosing. *out_unread: index of a buffer whose
     * constant `run` does not read through its pointer, UINT32_MAX none. DATA_LOSS: bad bytes. */
    stator_status (*op_save)(void *self, void *op, st_str *out, stator_diag **err);
    stator_status (*op_load)(void *self, const st_library_kept *kept, void **out_op,
                             uint32_t *out_unread, stator_diag **err);
    void (*memory)(void *self, void *op, st_library_memory *out); /* may be NULL */
    /* Part `part` of `parts` of what run does, on the calling thread; other threads do the
     * others at the same time, and all of them together all of it. May leave it all to part 0.
     * May be NULL. */
    stator_status (*run_part)(void *self, void *op, const st_library_call *call, uint32_t part,
                              uint32_t parts, stator_diag **err);
} st_library;

/* Every sym of the contraction in a fixed order: for gemm batch.., m, n, k, then of x, y, out:
 * offset, batch.., stride[2]; for conv images, channels, features, in.., kernel.., out_size..,
 * pad_low.., pad_high.., then of x, y, out: offset, dims...; for sdpa batch, heads, groups,
 * queries, keys, depth, width, then of x, y, out, v, of the gradient's dy, dk, dv, and of the
 * mask if there is one: offset, four of dims; for order the offset of x, take, then for each
 * axis: dims, strides of x, out, indices; for cumulate the offset of x, then for each axis:
 * dims, strides of x, out; for scatter the offsets of x, y and the updates, dims of x, dims of
 * y. Returns how many. */
uint32_t st_contraction_numbers(const st_contraction *contraction,
                                uint32_t out_syms[ST_CONTRACTION_NUMBERS_MAX]);

#endif
