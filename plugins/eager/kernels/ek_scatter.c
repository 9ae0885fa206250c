/* scatter_elements and scatter_nd: a copy of x with updates put in, one after the other, so that
 * the last one wins and sums have one order. */
#include "plugins/eager/kernels/ek_loop.h"
#include "plugins/eager/kernels/ek_move.h"

/* The value behind the last of ek_combine: elements are replaced. */
#define REDUCE_NONE (EK_MAX + 1u)

static stator_status reduction_of(const ek_call *c, uint32_t place, uint32_t *out,
                                  stator_diag **err)
{
    static const char *const names[] = {"add", "mul", "min", "max", "none"}; /* by ek_combine */
    for (*out = 0; *out < 5; (*out)++) {
        if (ek_str_is(c, place, names[*out])) {
            return STATOR_OK;
        }
    }
    return ek_fail(c, err, STATOR_INVALID_ARGUMENT,
                   "unknown reduction '%s' (known: none, add, mul, min, max)", ek_str(c, place));
}

/* y[at + i] gets updates[from + i]. */
static void put(const ek_call *c, uint32_t reduction, int64_t at, int64_t from, int64_t n)
{
    const ek_tensor *y = &c->out[0];
    const ek_tensor *u = &c->in[2];
    if (reduction == REDUCE_NONE) {
        const uint64_t size = st_element_bytes(y->dtype);
        memcpy((char *)y->data + (uint64_t)at * size, (const char *)u->data + (uint64_t)from * size,
               (uint64_t)n * size);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (ek_is_float(y->dtype)) {
            const double a = ek_get(y, at + i);
            const double b = ek_get(u, from + i);
            ek_put(y, at + i, ek_combine_f64(reduction, a, b));
        } else {
            const int64_t a = st_load_i64(y->dtype, y->data, at + i);
            const int64_t b = st_load_i64(u->dtype, u->data, from + i);
            st_store_i64(y->dtype, y->data, at + i,
                         ek_combine_i64(reduction, a, b, ek_flip(y->dtype)));
        }
    }
}

static stator_status check_reduction(const ek_call *c, uint32_t reduction, stator_diag **err)
{
    EK_FAIL_IF(reduction != REDUCE_NONE && (EK_COMPLEX >> c->in[0].dtype) & 1u, c, err,
               STATOR_UNSUPPORTED, "there is no reduction of complex numbers");
    return STATOR_OK;
}

stator_status ek_scatter_elements(const ek_call *c, stator_diag **err)
{
    const ek_tensor *x = &c->in[0];
    const ek_tensor *index = &c->in[1];
    int64_t strides[STATOR_RANK_MAX];
    uint32_t reduction;
    ST_TRY(reduction_of(c, STATOR_scatter_elements_reduction, &reduction, err));
    ST_TRY(check_reduction(c, reduction, err));
    memcpy(c->out[0].data, x->data, ek_bytes(x->dtype, x->numel));
    if (index->numel == 0) {
        return STATOR_OK;
    }
    const uint32_t axis = x->rank ? ek_axis(c, STATOR_scatter_elements_axis, x->rank) : 0;
    bool fits = index->rank == x->rank && c->in[2].numel == index->numel;
    for (uint32_t a = 0; a < x->rank && fits; a++) {
        fits = a == axis || index->dims[a] <= x->dims[a];
    }
    EK_FAIL_IF(!fits, c, err, STATOR_INVALID_ARGUMENT,
               "index and updates must have equal shapes that fit x off the axis");
    const int64_t *list = NULL;
    ST_TRY(ek_indices(c, 1, x->rank ? x->dims[axis] : 1, &list, err));
    ek_strides(x->dims, x->rank, strides);
    for (int64_t i = 0; i < index->numel; i++) {
        int64_t at = 0;
        int64_t rest = i;
        for (uint32_t a = x->rank; a-- > 0;) {
            at += (a == axis ? list[i] : rest % index->dims[a]) * strides[a];
            rest /= index->dims[a];
        }
        put(c, reduction, at, i, 1);
    }
    return STATOR_OK;
}

stator_status ek_scatter_nd(const ek_call *c, stator_diag **err)
{
    const ek_tensor *x = &c->in[0];
    const ek_tensor *index = &c->in[1];
    int64_t strides[STATOR_RANK_MAX];
    uint32_t reduction;
    ST_TRY(reduction_of(c, STATOR_scatter_nd_reduction, &reduction, err));
    ST_TRY(check_reduction(c, reduction, err));
    const int64_t width = index->rank ? index->dims[index->rank - 1u] : 0;
    EK_FAIL_IF(index->rank == 0 || width > (int64_t)x->rank, c, err, STATOR_INVALID_ARGUMENT,
               "the index holds tuples of %lld for rank %u of x", (long long)width, x->rank);
    const int64_t tuples = ek_product(index->dims, 0, index->rank - 1u);
    const int64_t inner = ek_product(x->dims, (uint32_t)width, x->rank);
    EK_FAIL_IF(c->in[2].numel != tuples * inner, c, err, STATOR_INVALID_ARGUMENT,
               "updates have %lld elements, expected %lld", (long long)c->in[2].numel,
               (long long)(tuples * inner));
    memcpy(c->out[0].data, x->data, ek_bytes(x->dtype, x->numel));
    ek_strides(x->dims, x->rank, strides);
    for (int64_t r = 0; r < tuples; r++) {
        int64_t at;
        ST_TRY(ek_tuple_offset(c, 0, strides, r, &at, err));
        put(c, reduction, at, r * inner, inner);
    }
    return STATOR_OK;
}
