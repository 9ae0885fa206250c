/* Constants that go on past their end; see baked_in.h.
 *
 * In: the elements of a constant, the axes that are to become longer. Out: nodes that compute it at
 * any length, when the elements say how:
 *
 *     first + sum over axes of step * index      steps 0 or 1 (floats: 0)
 *     below or at index p = index q: one value, past it another */
#include "ir/op_emitter.h"
#include "ir/sizes/baked_in_parts.h"

#include "core/base/blob.h"
#include "core/base/check.h"
#include "core/base/convert.h"

#include <string.h>

#define ELEMENTS_MAX (UINT64_C(1) << 24)
#define MASKED (-1e4) /* floats at or below it are a mask's */

typedef struct constant {
    st_baked_in_walk *w;
    const char *data;
    uint32_t dtype, rank;
    uint64_t n, width; /* elements, bytes of one */
    int64_t dims[STATOR_RANK_MAX];
    uint64_t strides[STATOR_RANK_MAX]; /* in elements */
    const stator_ref *wanted;
    uint32_t axes[STATOR_RANK_MAX], n_axes; /* axes that are wanted longer */
    stator_ref shape[STATOR_RANK_MAX];      /* with the wanted sizes */
} constant;

static bool open_constant(constant *c, stator_ref value, stator_blob *blob)
{
    const stator_graph_view *v = st_graph_view(c->w->b->graph);
    const stator_type_row *type = stator_value_type(v, value);
    const void *data = NULL;
    uint64_t bytes = 0;
    c->dtype = type->dtype;
    c->rank = type->rank;
    for (uint32_t i = 0; i < type->rank; i++) {
        c->shape[i] = stator_dim_at(v, type, i);
        if (!stator_sym_is_const(v, c->shape[i], &c->dims[i])) {
            return false;
        }
        if (c->wanted[i] != 0) {
            c->axes[c->n_axes++] = i;
            c->shape[i] = c->wanted[i];
        }
    }
    if (!st_numel(c->dims, c->rank, &c->n) || c->n == 0 || c->n > ELEMENTS_MAX ||
        st_dtype_bits(c->dtype) % 8 != 0 || !st_dtype_bytes(c->dtype, c->n, &bytes) ||
        bytes > st_blob_size(blob) || st_blob_peek(blob, &data, NULL) != STATOR_OK) {
        return false;
    }
    c->data = data;
    c->width = st_element_bytes(c->dtype);
    uint64_t stride = 1;
    for (uint32_t i = c->rank; i-- > 0;) {
        c->strides[i] = stride;
        stride *= (uint64_t)c->dims[i];
    }
    return true;
}

static int64_t index_along(const constant *c, uint64_t element, uint32_t axis)
{
    return (int64_t)(element / c->strides[axis]) % c->dims[axis];
}

/* The element with the same indices, those along the wanted axes 0. */
static uint64_t first_of(const constant *c, uint64_t element)
{
    for (uint32_t k = 0; k < c->n_axes; k++) {
        element -= (uint64_t)index_along(c, element, c->axes[k]) * c->strides[c->axes[k]];
    }
    return element;
}

static bool are_same(const constant *c, uint64_t a, uint64_t b)
{
    return memcmp(c->data + a * c->width, c->data + b * c->width, c->width) == 0;
}

/* ---- nodes ---- */

/* Indices along an axis, as a tensor of the constant's rank. */
static stator_ref indices(const constant *c, stator_emitter *emit, uint32_t axis, uint32_t dtype)
{
    stator_ref shape[STATOR_RANK_MAX];
    for (uint32_t i = 0; i < c->rank; i++) {
        shape[i] = i == axis ? c->shape[axis] : stator_emit_size(emit, 1);
    }
    return stator_emit_iota(emit, dtype, c->rank, shape, axis);
}

static stator_ref whole(const constant *c, stator_emitter *emit, stator_ref value)
{
    return stator_emit_expand(emit, value, c->rank, c->shape);
}

/* A tensor with a size of 1 along the wanted axes: at its place what `bytes` has there. */
static stator_ref across(const constant *c, const char *bytes)
{
    stator_ref dims[STATOR_RANK_MAX];
    stator_ref value = 0;
    uint64_t n = 0;
    char *data = st_alloc(c->w->s->m->mem, c->n * c->width, 16);
    if (data == NULL) {
        c->w->s->is_oom = true;
        return 0;
    }
    for (uint32_t i = 0; i < c->rank; i++) {
        dims[i] = c->wanted[i] != 0 ? st_sym_int(&c->w->s->m->symtab, 1) : c->shape[i];
    }
    for (uint64_t e = 0; e < c->n; e++) {
        if (first_of(c, e) == e) {
            memcpy(data + n++ * c->width, bytes + e * c->width, c->width);
        }
    }
    const stator_ref type = st_module_type(c->w->s->m, c->dtype, c->rank, dims);
    c->w->s->is_oom |= type == 0 || st_build_constant(c->w->b, type, data, n * c->width, &value,
                                                      NULL) != STATOR_OK;
    st_free(c->w->s->m->mem, data);
    return value;
}

/* ---- first + sum of step * index ---- */

/* A number that says nothing by itself: 0, 1, or a mask's. */
static bool is_plain(const constant *c, uint64_t element)
{
    const double x = st_load_f64(c->dtype, c->data, (int64_t)element);
    return x == 0 || x == 1 || x <= MASKED;
}

/* May elements that are the same all along go on? Floats that are all one number may be the
 * weights of a mean, of which there are as many as there are, and so may bytes, which
 * DequantizeLinear makes floats. */
static bool may_repeat(const constant *c)
{
    const uint32_t kind = st_dtype_class(c->dtype);
    const bool is_number =
        kind == STATOR_CLASS_FLOAT || kind == STATOR_CLASS_INT || kind == STATOR_CLASS_UINT;
    if (kind == STATOR_CLASS_BOOL || (is_number && kind != STATOR_CLASS_FLOAT && c->width > 1)) {
        return true;
    }
    if (!is_number || is_plain(c, 0)) {
        return is_number;
    }
    for (uint64_t e = 1; e < c->n; e++) {
        if (!are_same(c, 0, e)) {
            return true;
        }
    }
    return false;
}

/* Integers that are wide enough to go on counting: 256 tokens would begin anew in a byte. */
static bool can_count(const constant *c)
{
    const uint32_t kind = st_dtype_class(c->dtype);
    return (kind == STATOR_CLASS_INT || kind == STATOR_CLASS_UINT) && c->width >= 4;
}

/* The step along wanted axis k beside this first element; -1: another than 0 or 1. */
static int64_t step_of(const constant *c, uint64_t first, uint32_t k)
{
    const uint64_t next = first + c->strides[c->axes[k]];
    if (are_same(c, first, next)) {
        return 0;
    }
    const int64_t a = st_load_i64(c->dtype, c->data, (int64_t)first);
    int64_t b;
    if (!can_count(c) || !st_add_i64(a, 1, &b) ||
        b != st_load_i64(c->dtype, c->data, (int64_t)next)) {
        return -1;
    }
    return c->dims[c->axes[k]] > 2 || a == 0 ? 1 : -1; /* two numbers alone are no count */
}

static bool follows_steps(const constant *c, uint64_t element)
{
    const uint64_t first = first_of(c, element);
    int64_t sum = 0;
    for (uint32_t k = 0; k < c->n_axes; k++) {
        const int64_t step = step_of(c, first, k);
        if (step < 0) {
            return false;
        }
        sum += step * index_along(c, element, c->axes[k]);
    }
    if (sum == 0) {
        return are_same(c, first, element);
    }
    int64_t want;
    return st_add_i64(st_load_i64(c->dtype, c->data, (int64_t)first), sum, &want) &&
           st_load_i64(c->dtype, c->data, (int64_t)element) == want;
}

/* step * index along wanted axis k added to `sum`. */
static stator_ref add_steps(const constant *c, stator_emitter *emit, uint32_t k, stator_ref sum)
{
    uint64_t n_steps = 0, n_first = 0;
    char *steps = st_calloc(c->w->s->m->mem, c->n, c->width);
    if (steps == NULL) {
        c->w->s->is_oom = true;
        return 0;
    }
    for (uint64_t e = 0; e < c->n; e++) {
        if (first_of(c, e) == e) {
            n_first++;
            n_steps += (uint64_t)step_of(c, e, k);
            st_store_i64(c->dtype, steps, (int64_t)e, step_of(c, e, k));
        }
    }
    stator_ref counted = n_steps != 0 ? indices(c, emit, c->axes[k], c->dtype) : 0;
    if (n_steps != 0 && n_steps != n_first) {
        counted = stator_emit_binary(emit, "mul", counted, across(c, steps));
    }
    st_free(c->w->s->m->mem, steps);
    return n_steps != 0 ? stator_emit_binary(emit, "add", sum, counted) : sum;
}

static stator_ref count_on(const constant *c, stator_emitter *emit)
{
    if (!may_repeat(c)) {
        return 0;
    }
    for (uint64_t e = 0; e < c->n; e++) {
        if (!follows_steps(c, e)) {
            return 0;
        }
    }
    stator_ref sum = across(c, c->data);
    for (uint32_t k = 0; k < c->n_axes && sum != 0; k++) {
        sum = add_steps(c, emit, k, sum);
    }
    return whole(c, emit, sum);
}

/* ---- one value up to the diagonal, another past it ---- */

static stator_ref scalar(const constant *c, uint64_t element)
{
    stator_ref value = 0;
    const stator_ref type = st_module_type(c->w->s->m, c->dtype, 0, NULL);
    c->w->s->is_oom |= type == 0 || st_build_constant(c->w->b, type, c->data + element * c->width,
                                                      c->width, &value, NULL) != STATOR_OK;
    return value;
}

/* Two axes of one size, and the elements on either side of their diagonal. */
typedef struct diagonal {
    uint32_t p, q;
    uint64_t below, above;
    bool is_below; /* the diagonal belongs to the part below */
} diagonal;

static bool is_divided(const constant *c, uint32_t p, uint32_t q, diagonal *out)
{
    if (c->shape[p] != c->shape[q] || c->dims[p] != c->dims[q]) {
        return false;
    }
    const uint64_t end = (uint64_t)c->dims[p] - 1u;
    *out = (diagonal){p, q, end * c->strides[p], end * c->strides[q], false};
    out->is_below = are_same(c, 0, out->below);
    const bool is_float = st_dtype_class(c->dtype) == STATOR_CLASS_FLOAT;
    bool ok = !are_same(c, out->below, out->above) &&
              (!is_float || (is_plain(c, out->below) && is_plain(c, out->above)));
    for (uint64_t e = 0; ok && e < c->n; e++) {
        const int64_t past = index_along(c, e, q) - index_along(c, e, p);
        const bool is_below = past < 0 || (past == 0 && out->is_below);
        ok = are_same(c, e, is_below ? out->below : out->above);
    }
    return ok;
}

static stator_ref divide_on(const constant *c, stator_emitter *emit)
{
    diagonal d = {0};
    bool ok = false;
    for (uint32_t k = 0; k < c->n_axes && !ok; k++) {
        for (uint32_t l = k + 1; l < c->n_axes && !ok; l++) {
            ok = is_divided(c, c->axes[k], c->axes[l], &d);
        }
    }
    if (!ok) {
        return 0;
    }
    const stator_ref at_q = indices(c, emit, d.q, STATOR_I64);
    const stator_ref at_p = indices(c, emit, d.p, STATOR_I64);
    return whole(
        c, emit,
        stator_emit_op(emit, "select",
                       STATOR_IN(stator_emit_binary(emit, d.is_below ? "le" : "lt", at_q, at_p),
                                 scalar(c, d.below), scalar(c, d.above)),
                       STATOR_NONE));
}

/* ---- the whole ---- */

static void tell(const constant *c, stator_ref value)
{
    st_baked_in *s = c->w->s;
    const stator_value_row *row = stator_value_at(st_graph_view(c->w->b->graph), value);
    const stator_ref type = st_module_type(s->m, c->dtype, c->rank, c->shape);
    st_str_addf(&s->log, "%s'%s' ", s->log.len != 0 ? ", " : "", st_module_str(s->m, row->name));
    st_module_print_type(s->m, row->type, &s->log);
    st_str_add(&s->log, " as ");
    st_module_print_type(s->m, type, &s->log);
}

stator_ref st_baked_in_constant(st_baked_in_walk *w, stator_ref value, stator_blob *blob,
                                const stator_ref *wanted)
{
    constant c = {.w = w, .wanted = wanted};
    if (!open_constant(&c, value, blob)) {
        return 0;
    }
    stator_emitter counting = st_op_emitter(w->b, NULL), dividing = counting;
    stator_ref fresh = count_on(&c, &counting);
    if (fresh == 0) {
        fresh = divide_on(&c, &dividing);
    }
    w->s->is_oom |= counting.status == STATOR_RESOURCE_EXHAUSTED ||
                    dividing.status == STATOR_RESOURCE_EXHAUSTED;
    if (fresh != 0) {
        tell(&c, value);
    }
    return fresh;
}
