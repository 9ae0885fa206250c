/* The reference backend: what its kernels (plugins/eager/kernels, a file a family, listed in
 * kernels.def) see, and what the plan compiler hands them.
 *
 * A kernel is a pure function of one call (ek_call): dense row-major operands in c->in, results in
 * c->out, attributes evaluated to plain numbers in c->attrs by schema place (STATOR_<op>_<attr> of
 * <stator/ops.h>). Rules every kernel may rely on and must keep:
 *   - An absent optional operand has dtype 0 (ek_has_in says so). c->n_in counts what the node
 *     lists.
 *   - A result whose shape is known has data and dims set, also when it has no elements; one whose
 *     shape only the kernel can tell has data and dims NULL: the kernel calls ek_alloc_out.
 *   - Every result up to c->n_out must be written. Results never overlap operands or each other.
 *   - Data is aligned to 16 bytes. Sub-byte types are packed two a byte, low bits first.
 *   - Sums and products accumulate in f64 or 64-bit integers and round once. Results must not
 *     depend on the number of threads: split work by output element, never by summand.
 *   - Scratch comes from ek_scratch (given back when the kernel returns), never from malloc.
 *   - Errors through ek_fail, which names op and node.
 * Operand and attribute combinations that the infer rules refuse cannot arrive here; sizes that
 * were unknown while the graph was built can disagree and must be checked before memory is
 * touched. */
#ifndef STATOR_EAGER_H
#define STATOR_EAGER_H

#include "core/base/alloc.h"
#include "core/base/check.h"
#include "core/base/convert.h"
#include "core/base/diag.h"
#include <stator/ops.h>
#include <stator/plugin.h>
#include <string.h>

/* ---- the plugin ---- */

typedef struct eager_self { /* one a host; begins as st_plugin_self */
    const stator_host *host;
    st_mem mem;
    _Atomic(void *) blas; /* the kernels' own: the BLAS found at run time, see ek_gemm */
} eager_self;

/* ---- what a kernel sees ---- */

typedef struct ek_tensor {
    void *data;
    const int64_t *dims; /* rank of them */
    int64_t numel;
    uint32_t dtype; /* 0: absent */
    uint32_t rank;
} ek_tensor;

typedef struct ek_attr { /* an attribute with its symbolic sizes evaluated */
    uint32_t kind;       /* stator_attr_kind; STATOR_ATTR_NONE: absent and without a default */
    uint32_t count;      /* number of ints or floats */
    int64_t i;           /* INT, DTYPE */
    double f;            /* FLOAT */
    const char *s;       /* STRING */
    const int64_t *ints; /* INTS, DIMS */
    const double *floats;
} ek_attr;

/* Every row of kernels.def has a number, so that one function may serve several ops. */
enum eager_op {
    EAGER_OP_none = 0,
#define EAGER_KERNEL(op, function, in_mask, out_mask) EAGER_OP_##op,
#define EAGER_STEP(op, step_kind) EAGER_OP_##op,
#include "plugins/eager/kernels/kernels.def"
#undef EAGER_KERNEL
#undef EAGER_STEP
    EAGER_OP_COUNT
};

struct eager_frame;
struct eager_step;

typedef struct ek_call {
    const ek_tensor *in;
    ek_tensor *out;
    const ek_attr *attrs; /* by schema place */
    uint32_t n_in;
    uint32_t n_out;
    uint32_t n_attrs;
    uint32_t op; /* eager_op */
    eager_self *self;
    struct eager_frame *frame;
    const struct eager_step *step;
} ek_call;

typedef stator_status (*ek_kernel_fn)(const ek_call *c, stator_diag **err);

#define EAGER_KERNEL(op, function, in_mask, out_mask)                                              \
    stator_status function(const ek_call *c, stator_diag **err);
#define EAGER_STEP(op, step_kind)
#include "plugins/eager/kernels/kernels.def"
#undef EAGER_KERNEL
#undef EAGER_STEP

/* ---- dtype masks of kernels.def ---- */

#define EK_DT(name) (1u << STATOR_##name)
#define EK_BOOL EK_DT(BOOL)
#define EK_I4 (EK_DT(I4) | EK_DT(U4))
#define EK_INT (EK_DT(I8) | EK_DT(I16) | EK_DT(I32) | EK_DT(I64))
#define EK_UINT (EK_DT(U8) | EK_DT(U16) | EK_DT(U32) | EK_DT(U64))
#define EK_F8 (EK_DT(F8E4M3FN) | EK_DT(F8E5M2))
#define EK_FLOAT (EK_F8 | EK_DT(BF16) | EK_DT(F16) | EK_DT(F32) | EK_DT(F64))
#define EK_COMPLEX (EK_DT(C64) | EK_DT(C128))
#define EK_INTS (EK_INT | EK_UINT)
#define EK_NUM (EK_INTS | EK_FLOAT)           /* real numbers */
#define EK_REAL (EK_NUM | EK_BOOL)            /* real numbers and bool */
#define EK_ANY (EK_REAL | EK_I4 | EK_COMPLEX) /* everything */

/* ---- reading a call ---- */

static inline bool ek_has_in(const ek_call *c, uint32_t k)
{
    return k < c->n_in && c->in[k].dtype != 0;
}
static inline bool ek_has(const ek_call *c, uint32_t place)
{
    return c->attrs[place].kind != STATOR_ATTR_NONE;
}
static inline int64_t ek_int(const ek_call *c, uint32_t place)
{
    return c->attrs[place].i;
}
static inline double ek_float(const ek_call *c, uint32_t place)
{
    return c->attrs[place].f;
}
static inline const char *ek_str(const ek_call *c, uint32_t place)
{
    return c->attrs[place].s ? c->attrs[place].s : "";
}
static inline bool ek_str_is(const ek_call *c, uint32_t place, const char *text)
{
    return strcmp(ek_str(c, place), text) == 0;
}
/* INTS and DIMS alike. */
static inline const int64_t *ek_ints(const ek_call *c, uint32_t place, uint32_t *out_count)
{
    *out_count = c->attrs[place].count;
    return c->attrs[place].ints;
}
static inline const double *ek_floats(const ek_call *c, uint32_t place, uint32_t *out_count)
{
    *out_count = c->attrs[place].count;
    return c->attrs[place].floats;
}
/* Element `i` of an INTS or DIMS attribute, or `other` when the list is shorter. */
static inline int64_t ek_int_at(const ek_call *c, uint32_t place, uint32_t i, int64_t other)
{
    return i < c->attrs[place].count ? c->attrs[place].ints[i] : other;
}
/* An axis attribute brought into [0, rank). */
static inline uint32_t ek_axis(const ek_call *c, uint32_t place, uint32_t rank)
{
    const int64_t axis = c->attrs[place].i;
    return (uint32_t)st_normalize_axis(axis, rank);
}
/* Bit a is set when axis a is in an INTS attribute. */
static inline uint32_t ek_axes_mask(const ek_call *c, uint32_t place, uint32_t rank)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < c->attrs[place].count; i++) {
        const int64_t axis = c->attrs[place].ints[i];
        mask |= 1u << (uint32_t)st_normalize_axis(axis, rank);
    }
    return mask;
}

static inline bool ek_is_float(uint32_t dtype)
{
    return (EK_FLOAT >> dtype) & 1u;
}
/* Product of dims[begin .. end). */
static inline int64_t ek_product(const int64_t *dims, uint32_t begin, uint32_t end)
{
    int64_t n = 1;
    for (uint32_t a = begin; a < end; a++) {
        n *= dims[a];
    }
    return n;
}
/* Row-major strides in elements. */
static inline void ek_strides(const int64_t *dims, uint32_t rank, int64_t *out)
{
    int64_t n = 1;
    for (uint32_t a = rank; a-- > 0;) {
        out[a] = n;
        n *= dims[a];
    }
}
/* Coordinates of element i, row-major. */
static inline void ek_unflatten(int64_t i, const int64_t *dims, uint32_t n, int64_t *out)
{
    for (uint32_t a = n; a-- > 0;) {
        out[a] = i % dims[a];
        i /= dims[a];
    }
}
/* Element offset of index i, row-major over these sizes, by these strides. */
static inline int64_t ek_offset(int64_t i, const int64_t *sizes, const int64_t *strides, uint32_t n)
{
    int64_t offset = 0;
    for (uint32_t a = n; a-- > 0;) {
        offset += i % sizes[a] * strides[a];
        i /= sizes[a];
    }
    return offset;
}
/* Element i through f64; and back, rounded once. */
static inline double ek_get(const ek_tensor *t, int64_t i)
{
    return st_load_f64(t->dtype, t->data, i);
}
static inline void ek_put(const ek_tensor *t, int64_t i, double x)
{
    st_store_f64(t->dtype, t->data, i, x);
}
/* Bytes of `count` elements. */
static inline uint64_t ek_bytes(uint32_t dtype, int64_t count)
{
    uint64_t bytes = 0;
    return st_dtype_bytes(dtype, (uint64_t)count, &bytes) ? bytes : UINT64_MAX;
}

/* ---- what a kernel may ask for (eager_frame.c) ---- */

/* Uninitialised memory aligned to 64 bytes, given back when the kernel returns and recycled by the
 * executable, so that a warm call allocates nothing. NULL: out of memory (or count * size
 * overflows). From the kernel's own thread only, not inside ek_parallel. */
void *ek_scratch(const ek_call *c, int64_t count, uint64_t size);
/* The same as an expression: scratch for `count` elements of *p in p, or RESOURCE_EXHAUSTED. */
#define EK_SCRATCH(c, p, count, err)                                                               \
    (((p) = ek_scratch(c, count, sizeof *(p))) != NULL ? STATOR_OK : ek_oom(c, err))
/* Allocates result k, whose shape was not known before, and fills c->out[k]. */
stator_status ek_alloc_out(const ek_call *c, uint32_t k, const int64_t *dims, stator_diag **err);
/* Splits [0, n) into ranges of at least `grain` over the host's threads. */
void ek_parallel(const ek_call *c, int64_t n, int64_t grain, stator_range_fn fn, void *fn_self);
/* "conv 'layer1/conv' (Conv): <text>"; returns code. Text: what was wrong, expected, to try. */
stator_status ek_fail(const ek_call *c, stator_diag **err, stator_status code, const char *format,
                      ...) STATOR_PRINTF(4, 5);
stator_status ek_oom(const ek_call *c, stator_diag **err); /* RESOURCE_EXHAUSTED */
/* The same where the condition holds, and where there was no memory to make something. */
#define EK_FAIL_IF(condition, ...) ST_FAIL_BY_IF(ek_fail, condition, __VA_ARGS__)
#define EK_TRY_MEM(is_made, c, err) ST_FAIL_BY_IF(ek_oom, !(is_made), c, err)

#endif
