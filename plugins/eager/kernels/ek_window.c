/* Windows over the trailing axes of x[N, C, spatial]: reduce_window, max_pool (with indices),
 * avg_pool, lp_pool. Each output element is computed by one thread from its window, in row-major
 * tap order. */
#include "plugins/eager/kernels/ek_loop.h"

#include <math.h>

#define SPATIAL_MAX 8u

typedef struct window {
    const ek_call *call;
    uint32_t lead; /* axes before the windowed ones */
    uint32_t spatial;
    int64_t in[SPATIAL_MAX], out[SPATIAL_MAX], size[SPATIAL_MAX];
    int64_t stride[SPATIAL_MAX], dilation[SPATIAL_MAX], low[SPATIAL_MAX], high[SPATIAL_MAX];
    int64_t in_count, out_count, taps;
} window;

typedef struct places {
    uint32_t window, strides, pads, dilations;
} places;

static stator_status read_window(window *w, const ek_call *call, const places *at, uint32_t lead,
                                 stator_diag **err)
{
    const ek_tensor *x = &call->in[0];
    *w = (window){.call = call, .lead = lead, .spatial = x->rank - lead};
    EK_FAIL_IF(x->rank <= lead || w->spatial > SPATIAL_MAX, call, err, STATOR_UNSUPPORTED,
               "windows need 1 to %u axes", SPATIAL_MAX);
    for (uint32_t a = 0; a < w->spatial; a++) {
        w->in[a] = x->dims[lead + a];
        w->out[a] = call->out[0].dims[lead + a];
        w->size[a] = ek_int_at(call, at->window, a, 1);
        w->stride[a] = ek_int_at(call, at->strides, a, 1);
        w->dilation[a] = ek_int_at(call, at->dilations, a, 1);
        w->low[a] = ek_int_at(call, at->pads, a, 0);
        w->high[a] = ek_int_at(call, at->pads, a + w->spatial, 0);
    }
    w->in_count = ek_product(w->in, 0, w->spatial);
    w->out_count = ek_product(w->out, 0, w->spatial);
    w->taps = ek_product(w->size, 0, w->spatial);
    return STATOR_OK;
}

/* The taps of an output element that lie inside the plane, one after the other. */
typedef struct reach {
    int64_t first[SPATIAL_MAX], end[SPATIAL_MAX]; /* by axis: taps inside */
    int64_t index[SPATIAL_MAX];                   /* the tap's place */
    int64_t base[SPATIAL_MAX];                    /* position of tap 0 */
    int64_t plane;                                /* the input's element where the plane begins */
    int64_t offset;                               /* the tap's element in the plane */
} reach;

/* Taps 0 to the result - 1 of an axis lie before position `limit`. */
static int64_t taps_before(const window *w, uint32_t a, int64_t base, int64_t limit)
{
    const int64_t n = base >= limit ? 0 : (limit - 1 - base) / w->dilation[a] + 1;
    return n < w->size[a] ? n : w->size[a];
}

static void place_tap(const window *w, reach *r)
{
    r->offset = 0;
    for (uint32_t a = 0; a < w->spatial; a++) {
        r->offset = r->offset * w->in[a] + r->base[a] + r->index[a] * w->dilation[a];
    }
}

/* The first tap of output element `o` that lies inside; false: none does. */
static bool first_tap(const window *w, int64_t o, reach *r)
{
    bool is_any = true;
    int64_t at[SPATIAL_MAX];
    ek_unflatten(o % w->out_count, w->out, w->spatial, at);
    r->plane = o / w->out_count * w->in_count;
    for (uint32_t a = 0; a < w->spatial; a++) {
        r->base[a] = at[a] * w->stride[a] - w->low[a];
        r->first[a] = taps_before(w, a, r->base[a], 0);
        r->end[a] = taps_before(w, a, r->base[a], w->in[a]);
        r->index[a] = r->first[a];
        is_any = is_any && r->first[a] < r->end[a];
    }
    if (is_any) {
        place_tap(w, r);
    }
    return is_any;
}

/* The next one, in row-major order; false: that was the last. */
static bool next_tap(const window *w, reach *r)
{
    const uint32_t last = w->spatial - 1u;
    if (++r->index[last] < r->end[last]) {
        r->offset += w->dilation[last];
        return true;
    }
    for (uint32_t a = w->spatial; a-- > 0;) {
        if (r->index[a] < r->end[a]) {
            place_tap(w, r);
            return true;
        }
        r->index[a] = r->first[a];
        if (a > 0) {
            r->index[a - 1u]++;
        }
    }
    return false;
}

/* ---- reduce_window ---- */

typedef enum reduction { KIND_SUM, KIND_MAX, KIND_MIN } reduction;

static reduction window_kind(const ek_call *c)
{
    return ek_str_is(c, STATOR_reduce_window_kind, "sum")   ? KIND_SUM
           : ek_str_is(c, STATOR_reduce_window_kind, "max") ? KIND_MAX
                                                            : KIND_MIN;
}

static double identity_f64(reduction kind)
{
    return kind == KIND_SUM ? 0.0 : kind == KIND_MAX ? -INFINITY : INFINITY;
}

static double combine_f64(reduction kind, double a, double b)
{
    if (kind == KIND_SUM) {
        return a + b;
    }
    if (isnan(a) || isnan(b)) {
        return NAN;
    }
    return (kind == KIND_MAX) == (b > a) ? b : a;
}

static int64_t combine_i64(reduction kind, uint32_t dtype, int64_t a, int64_t b)
{
    if (kind == KIND_SUM) {
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
    const bool b_greater = dtype == STATOR_U64 ? (uint64_t)b > (uint64_t)a : b > a;
    return (kind == KIND_MAX) == b_greater ? b : a;
}

static void reduce_range(void *self, int64_t begin, int64_t end)
{
    const window *w = self;
    const ek_tensor *x = &w->call->in[0];
    const ek_tensor *y = &w->call->out[0];
    const reduction kind = window_kind(w->call);
    const bool is_float = ek_is_float(x->dtype);
    for (int64_t o = begin; o < end; o++) {
        double f = identity_f64(kind);
        int64_t i = kind == KIND_SUM ? 0 : ek_int_limit(x->dtype, kind == KIND_MIN);
        reach r;
        for (bool more = first_tap(w, o, &r); more; more = next_tap(w, &r)) {
            const int64_t from = r.plane + r.offset;
            if (is_float) {
                f = combine_f64(kind, f, ek_get(x, from));
            } else {
                i = combine_i64(kind, x->dtype, i, st_load_i64(x->dtype, x->data, from));
            }
        }
        if (is_float) {
            ek_put(y, o, f);
        } else {
            st_store_i64(y->dtype, y->data, o, i);
        }
    }
}

stator_status ek_reduce_window(const ek_call *call, stator_diag **err)
{
    uint32_t n = 0;
    (void)ek_ints(call, STATOR_reduce_window_window, &n);
    EK_FAIL_IF(n > call->in[0].rank, call, err, STATOR_INVALID_ARGUMENT,
               "more window axes than the input has");
    window w;
    const places at = {STATOR_reduce_window_window, STATOR_reduce_window_strides,
                       STATOR_reduce_window_pads, STATOR_reduce_window_dilations};
    ST_TRY(read_window(&w, call, &at, call->in[0].rank - n, err));
    ek_parallel(call, call->out[0].numel, 1 + 8192 / (w.taps + 1), reduce_range, &w);
    return STATOR_OK;
}

/* ---- max_pool ---- */

/* Flat index of a plane offset with the spatial axes counted column-first. */
static int64_t column_major_index(const window *w, int64_t offset)
{
    int64_t index[SPATIAL_MAX];
    int64_t flat = 0;
    ek_unflatten(offset, w->in, w->spatial, index);
    for (uint32_t a = w->spatial; a-- > 0;) {
        flat = flat * w->in[a] + index[a];
    }
    return flat;
}

/* Is element b (at a later tap) greater than a? The first NaN wins. */
static bool is_greater(uint32_t dtype, const void *data, int64_t b, int64_t a)
{
    if (ek_is_float(dtype)) {
        const double x = st_load_f64(dtype, data, a);
        const double y = st_load_f64(dtype, data, b);
        return y > x || (isnan(y) && !isnan(x));
    }
    const int64_t x = st_load_i64(dtype, data, a);
    const int64_t y = st_load_i64(dtype, data, b);
    return dtype == STATOR_U64 ? (uint64_t)y > (uint64_t)x : y > x;
}

static void store_empty(const ek_tensor *y, int64_t o)
{
    if (ek_is_float(y->dtype)) {
        ek_put(y, o, -INFINITY);
    } else {
        st_store_i64(y->dtype, y->data, o, ek_int_limit(y->dtype, false));
    }
}

static void max_pool_range(void *self, int64_t begin, int64_t end)
{
    const window *w = self;
    const ek_tensor *x = &w->call->in[0];
    const ek_tensor *y = &w->call->out[0];
    const bool column_major = ek_int(w->call, STATOR_max_pool_column_major) != 0;
    const uint64_t item = st_element_bytes(x->dtype);
    for (int64_t o = begin; o < end; o++) {
        int64_t best = -1;
        reach r;
        for (bool more = first_tap(w, o, &r); more; more = next_tap(w, &r)) {
            if (best < 0 || is_greater(x->dtype, x->data, r.plane + r.offset, r.plane + best)) {
                best = r.offset;
            }
        }
        if (best < 0) {
            store_empty(y, o);
        } else {
            memcpy((char *)y->data + (uint64_t)o * item,
                   (const char *)x->data + (uint64_t)(r.plane + best) * item, item);
        }
        if (w->call->n_out > 1) {
            ((int64_t *)w->call->out[1].data)[o] =
                best < 0 ? -1 : r.plane + (column_major ? column_major_index(w, best) : best);
        }
    }
}

/* ---- avg_pool ---- */

static void avg_pool_range(void *self, int64_t begin, int64_t end)
{
    const window *w = self;
    const ek_tensor *x = &w->call->in[0];
    const ek_tensor *y = &w->call->out[0];
    const bool include_pad = ek_int(w->call, STATOR_avg_pool_include_pad) != 0;
    for (int64_t o = begin; o < end; o++) {
        double sum = 0.0;
        double count = 1.0;
        reach r;
        for (bool more = first_tap(w, o, &r); more; more = next_tap(w, &r)) {
            sum += ek_get(x, r.plane + r.offset);
        }
        for (uint32_t a = 0; a < w->spatial; a++) {
            const int64_t inside = r.end[a] > r.first[a] ? r.end[a] - r.first[a] : 0;
            count *= (double)(include_pad ? taps_before(w, a, r.base[a], w->in[a] + w->high[a])
                                          : inside);
        }
        ek_put(y, o, sum / count);
    }
}

/* ---- lp_pool ---- */

static void lp_pool_range(void *self, int64_t begin, int64_t end)
{
    const window *w = self;
    const ek_tensor *x = &w->call->in[0];
    const ek_tensor *y = &w->call->out[0];
    const int64_t p = ek_int(w->call, STATOR_lp_pool_p);
    for (int64_t o = begin; o < end; o++) {
        double sum = 0.0;
        reach r;
        for (bool more = first_tap(w, o, &r); more; more = next_tap(w, &r)) {
            const double v = fabs(ek_get(x, r.plane + r.offset));
            sum += p == 1 ? v : p == 2 ? v * v : pow(v, (double)p);
        }
        const double root = p == 1 ? sum : p == 2 ? sqrt(sum) : pow(sum, 1.0 / (double)p);
        ek_put(y, o, root);
    }
}

stator_status ek_pool(const ek_call *call, stator_diag **err)
{
    window w;
    const places at = {STATOR_max_pool_window, STATOR_max_pool_strides, STATOR_max_pool_pads,
                       STATOR_max_pool_dilations};
    _Static_assert((int)STATOR_avg_pool_window == (int)STATOR_max_pool_window &&
                       (int)STATOR_avg_pool_dilations == (int)STATOR_max_pool_dilations &&
                       (int)STATOR_lp_pool_window == (int)STATOR_max_pool_window &&
                       (int)STATOR_lp_pool_dilations == (int)STATOR_max_pool_dilations,
                   "the pools list window to dilations alike");
    ST_TRY(read_window(&w, call, &at, 2, err));
    ek_parallel(call, call->out[0].numel, 1 + 8192 / (w.taps + 1),
                call->op == EAGER_OP_max_pool   ? max_pool_range
                : call->op == EAGER_OP_avg_pool ? avg_pool_range
                                                : lp_pool_range,
                &w);
    return STATOR_OK;
}
