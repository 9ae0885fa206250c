/* Moving elements without looking at them: what the movement kernels share.
 *
 * A copy runs over `rank` axes with strides in elements on both sides. Two-a-byte types are
 * unpacked to bytes first and packed again at the end, so that every mover sees whole bytes. */
#ifndef STATOR_EAGER_EK_MOVE_H
#define STATOR_EAGER_EK_MOVE_H

#include "plugins/eager/eager.h"

#define EK_COPY_RANK (2u * STATOR_RANK_MAX)

typedef struct ek_bytes16 {
    uint64_t lo, hi;
} ek_bytes16;

/* DO(type), a statement, with the type of an element's size: 1, 2, 4, 8 or 16 bytes. */
#define EK_BY_SIZE(size, DO)                                                                       \
    switch (size) {                                                                                \
    case 1:                                                                                        \
        DO(uint8_t) break;                                                                         \
    case 2:                                                                                        \
        DO(uint16_t) break;                                                                        \
    case 4:                                                                                        \
        DO(uint32_t) break;                                                                        \
    case 8:                                                                                        \
        DO(uint64_t) break;                                                                        \
    default:                                                                                       \
        DO(ek_bytes16) break;                                                                      \
    }

typedef struct ek_copy {
    uint32_t rank;
    uint32_t size; /* bytes of an element: 1, 2, 4, 8 or 16 */
    char *to;
    const char *from;
    int64_t sizes[EK_COPY_RANK];
    int64_t to_strides[EK_COPY_RANK];
    int64_t from_strides[EK_COPY_RANK];
} ek_copy;

/* Appends an axis (outermost first). */
static inline void ek_copy_axis(ek_copy *m, int64_t size, int64_t to_stride, int64_t from_stride)
{
    m->sizes[m->rank] = size;
    m->to_strides[m->rank] = to_stride;
    m->from_strides[m->rank] = from_stride;
    m->rank++;
}
void ek_copy_run(const ek_call *c, ek_copy *m);

/* Operand 0 and the result as whole bytes. */
typedef struct ek_bytes_view {
    const char *in;
    char *out;
    uint32_t size; /* bytes of an element, unpacked */
} ek_bytes_view;

/* Copies n elements from `from` of the operand to `to` of the result. */
static inline void ek_view_copy(const ek_bytes_view *v, int64_t to, int64_t from, int64_t n)
{
    memcpy(v->out + (uint64_t)to * v->size, v->in + (uint64_t)from * v->size,
           (uint64_t)n * v->size);
}
/* Operand 0 and result 0; ek_pack_out must follow. */
stator_status ek_view_bytes(const ek_call *c, ek_bytes_view *out, stator_diag **err);
/* Bytes of an operand, unpacked to scratch when it is a 4-bit type. NULL: out of memory. */
const char *ek_unpacked_in(const ek_call *c, uint32_t k);
/* Where to write result 0; ek_pack_out must follow when it is a 4-bit type. */
char *ek_unpacked_out(const ek_call *c);
void ek_pack_out(const ek_call *c, const char *bytes);
/* Fills n elements with one. */
void ek_fill(char *to, const char *element, uint32_t size, int64_t n);

/* An index operand as i64, negative ones counted from the end of an axis of `size`. Fails when one
 * lies outside. */
stator_status ek_indices(const ek_call *c, uint32_t k, int64_t size, const int64_t **out,
                         stator_diag **err);
/* Element offset of the slice of x that tuple `r` of the index (operand 1) names behind `batch`
 * axes of both. Fails when it lies outside. */
stator_status ek_tuple_offset(const ek_call *c, uint32_t batch, const int64_t *strides, int64_t r,
                              int64_t *out_at, stator_diag **err);

#endif
