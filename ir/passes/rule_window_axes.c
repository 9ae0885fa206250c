/* The rule window_axes: a large window is folded along one axis, then along the others.
 *
 *     reduce_window(x, window=[h, w])    ->    reduce_window(reduce_window(x, window=[1, w]), [h, 1])
 *
 * Of a window of h * w places that is h + w steps an element of the result, where windows overlap
 * so much that what the first step makes is shared. Minima and maxima are what they were, padding
 * and NaN included; sums are grouped anew, so those of floats that f32 is more exact than stay. */
#include "ir/passes/rewrite_rules.h"

#include "core/base/check.h"

#include <stator/ops.h>
#include <string.h>

#define PLACES_LEAST 64 /* of a window: below, a second walk costs more than it saves */
#define GAIN_LEAST 3    /* times as many steps without the rule */

typedef struct windows {
    uint32_t n, lead; /* axes of the window, and axes before them */
    int64_t size[STATOR_MAX_RANK], stride[STATOR_MAX_RANK], dilation[STATOR_MAX_RANK];
    stator_ref pads[2 * STATOR_MAX_RANK];
} windows;

static int64_t int_at(const st_match *m, uint32_t place, uint32_t i)
{
    const stator_attr_row *list = stator_attr_at(m->v, m->row, place);
    return *(const int64_t *)stator_column_at(&m->v->i64s, list->begin + i);
}

static int read(const st_match *m, windows *w)
{
    const stator_attr_row *pads = stator_attr_at(m->v, m->row, STATOR_reduce_window_pads);
    const stator_type_row *type = stator_value_type(m->v, m->operands[0]);
    w->n = stator_attr_at(m->v, m->row, STATOR_reduce_window_window)->count;
    if (w->n > type->rank || pads->count != 2u * w->n) {
        return 0;
    }
    w->lead = type->rank - w->n;
    for (uint32_t i = 0; i < w->n; i++) {
        w->size[i] = int_at(m, STATOR_reduce_window_window, i);
        w->stride[i] = int_at(m, STATOR_reduce_window_strides, i);
        w->dilation[i] = int_at(m, STATOR_reduce_window_dilations, i);
        w->pads[i] = stator_ref_at(m->v, pads->begin + i);
        w->pads[w->n + i] = stator_ref_at(m->v, pads->begin + w->n + i);
    }
    return 1;
}

/* Sums of narrow floats are rounded once. */
static int is_sound(const st_match *m)
{
    const stator_attr_row *kind = stator_attr_at(m->v, m->row, STATOR_reduce_window_kind);
    const uint32_t dtype = stator_value_type(m->v, m->operands[0])->dtype;
    return strcmp(stator_string_at(m->v, kind->begin), "sum") != 0 ||
           st_dtype_class(dtype) != STATOR_CLASS_FLOAT || st_dtype_bits(dtype) >= 32;
}

/* How many times as long as the result the operand is along the window's axis: as the stride says,
 * or more where sizes do. */
static int64_t lines_a_line(const st_match *m, const windows *w, uint32_t axis)
{
    const stator_type_row *in = stator_value_type(m->v, m->operands[0]);
    const stator_type_row *out = stator_value_type(m->copy->v, m->row->result_begin);
    int64_t from = 0;
    int64_t to = 0;
    if (!stator_sym_is_const(m->v, stator_dim_at(m->v, in, w->lead + axis), &from) ||
        !stator_sym_is_const(m->copy->v, stator_dim_at(m->copy->v, out, w->lead + axis), &to) ||
        to < 1) {
        return w->stride[axis];
    }
    const int64_t times = (from + to - 1) / to;
    return times > w->stride[axis] ? times : w->stride[axis];
}

/* The last axis that the window has more than one place of, where that saves enough; n: none. */
static uint32_t axis_of(const st_match *m, const windows *w)
{
    uint32_t axis = w->n;
    int64_t others = 1;
    int64_t lines = 1;
    for (uint32_t i = 0; i < w->n; i++) {
        axis = w->size[i] > 1 ? i : axis;
    }
    for (uint32_t i = 0; i < w->n; i++) {
        if (i != axis && (!st_mul_i64(others, w->size[i], &others) ||
                          !st_mul_i64(lines, lines_a_line(m, w, i), &lines))) {
            return w->n;
        }
    }
    int64_t places = 0;
    int64_t first = 0;
    if (axis == w->n || others == 1 || !st_mul_i64(others, w->size[axis], &places) ||
        !st_mul_i64(lines, w->size[axis], &first)) {
        return w->n;
    }
    return places >= PLACES_LEAST && places / GAIN_LEAST >= first + others ? axis : w->n;
}

/* The window along `axis` alone, or along all others. */
static stator_status fold(st_match *m, const windows *w, uint32_t axis, int is_alone, stator_ref x,
                          stator_ref *out, stator_diag **err)
{
    windows part = *w;
    const stator_ref zero = st_sym_int(&m->b->module->symtab, 0);
    if (zero == 0) {
        return st_fail_oom(err);
    }
    for (uint32_t i = 0; i < w->n; i++) {
        if ((i == axis) != is_alone) {
            part.size[i] = part.stride[i] = part.dilation[i] = 1;
            part.pads[i] = part.pads[w->n + i] = zero;
        }
    }
    const stator_attr_row *kind = stator_attr_at(m->v, m->row, STATOR_reduce_window_kind);
    const stator_attr attrs[] = {
        {.name = "kind", .kind = STATOR_ATTR_STRING, .s = stator_string_at(m->v, kind->begin)},
        {.name = "window", .kind = STATOR_ATTR_INTS, .count = w->n, .list = part.size},
        {.name = "strides", .kind = STATOR_ATTR_INTS, .count = w->n, .list = part.stride},
        {.name = "pads", .kind = STATOR_ATTR_DIMS, .count = 2u * w->n, .list = part.pads},
        {.name = "dilations", .kind = STATOR_ATTR_INTS, .count = w->n, .list = part.dilation}};
    return st_build_op(m->b, "reduce_window", 1, &x, 5, attrs, 1, out, err);
}

int st_rule_window_axes(st_match *m, stator_status *out_status, stator_diag **err)
{
    windows w;
    stator_ref first = 0;
    if (!read(m, &w) || !is_sound(m)) {
        return 0;
    }
    const uint32_t axis = axis_of(m, &w);
    if (axis == w.n) {
        return 0;
    }
    *out_status = fold(m, &w, axis, 1, m->operands[0], &first, err);
    if (*out_status == STATOR_OK) {
        *out_status = fold(m, &w, axis, 0, first, m->out, err);
    }
    return *out_status == STATOR_OK;
}
