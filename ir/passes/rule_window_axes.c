/* The rule window_axes: a large window is folded along one axis, then along the others, and along
 * one axis in two steps.
 *
 *     reduce_window(x, window=[h, w])    ->    reduce_window(reduce_window(x, window=[1, w]), [h,
 * 1])
 *     reduce_window(x, window=[a + (b - 1) * d])
 *                        ->    reduce_window(reduce_window(x, window=[a]), [b], dilation=[d])    d
 * <= a
 *
 * Of a window of h * w places that is h + w steps an element of the result, and a + b where the
 * window has one axis, where windows overlap so much that what the first step makes is shared.
 * Minima and maxima are what they were, padding and NaN included, also of places that two of the
 * b meet; sums meet each place once (d = a) and are grouped anew, so those of floats that f32 is
 * more exact than stay. */
#include "ir/passes/rewrite_rules.h"

#include "core/base/check.h"

#include <stator/ops.h>
#include <string.h>

#define PLACES_MIN 64    /* smallest window that is worth a second walk */
#define GAIN_MIN 3       /* times as many steps without the rule */
#define PLACES_MAX 65536 /* along one axis: its divisions are looked through */

typedef struct windows {
    uint32_t n, lead; /* axes of the window, and axes before them */
    int64_t size[STATOR_RANK_MAX], stride[STATOR_RANK_MAX], dilation[STATOR_RANK_MAX];
    stator_ref pads[2 * STATOR_RANK_MAX];
} windows;

static int64_t int_at(const st_match *m, uint32_t place, uint32_t i)
{
    return stator_attr_int_at(m->v, stator_attr_at(m->v, m->row, place), i);
}

static bool read(const st_match *m, windows *w)
{
    const stator_attr_row *pads = stator_attr_at(m->v, m->row, STATOR_reduce_window_pads);
    const stator_type_row *type = stator_value_type(m->v, m->operands[0]);
    w->n = stator_attr_at(m->v, m->row, STATOR_reduce_window_window)->count;
    if (w->n > type->rank || pads->count != 2u * w->n) {
        return false;
    }
    w->lead = type->rank - w->n;
    for (uint32_t i = 0; i < w->n; i++) {
        w->size[i] = int_at(m, STATOR_reduce_window_window, i);
        w->stride[i] = int_at(m, STATOR_reduce_window_strides, i);
        w->dilation[i] = int_at(m, STATOR_reduce_window_dilations, i);
        w->pads[i] = stator_ref_at(m->v, pads->begin + i);
        w->pads[w->n + i] = stator_ref_at(m->v, pads->begin + w->n + i);
    }
    return true;
}

static const char *kind_of(const st_match *m)
{
    const stator_attr_row *kind = stator_attr_at(m->v, m->row, STATOR_reduce_window_kind);
    return stator_string_at(m->v, kind->begin);
}

/* Sums of narrow floats are rounded once. */
static bool is_sound(const st_match *m)
{
    const uint32_t dtype = stator_value_type(m->v, m->operands[0])->dtype;
    return strcmp(kind_of(m), "sum") != 0 || st_dtype_class(dtype) != STATOR_CLASS_FLOAT ||
           st_dtype_bits(dtype) >= 32;
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
    return places >= PLACES_MIN && places / GAIN_MIN >= first + others ? axis : w->n;
}

/* Nothing is folded along the axis. */
static void leave(windows *w, uint32_t axis, stator_ref zero)
{
    w->size[axis] = w->stride[axis] = w->dilation[axis] = 1;
    w->pads[axis] = w->pads[w->n + axis] = zero;
}

static stator_ref build(const st_match *m, const windows *w, stator_ref x)
{
    return stator_emit_op(m->e, "reduce_window", STATOR_IN(x),
                          STATOR_AT(STATOR_A_STR("kind", kind_of(m)),
                                    STATOR_A_INTS("window", w->n, w->size),
                                    STATOR_A_INTS("strides", w->n, w->stride),
                                    STATOR_A_DIMS("pads", 2u * w->n, w->pads),
                                    STATOR_A_INTS("dilations", w->n, w->dilation)));
}

/* A window along one axis in two steps. */
typedef struct steps {
    int64_t first, second, apart; /* places of each; how far apart those of the second are */
} steps;

/* How many elements the first of two steps makes for one of the result. */
static int64_t made_by_first(const st_match *m, const windows *w, uint32_t axis)
{
    const stator_type_row *in = stator_value_type(m->v, m->operands[0]);
    const stator_type_row *out = stator_value_type(m->copy->v, m->row->result_begin);
    int64_t from = 0;
    int64_t to = 0;
    int64_t low = 0;
    int64_t high = 0;
    if (!stator_sym_is_const(m->v, stator_dim_at(m->v, in, w->lead + axis), &from) ||
        !stator_sym_is_const(m->copy->v, stator_dim_at(m->copy->v, out, w->lead + axis), &to) ||
        !stator_sym_is_const(m->v, w->pads[axis], &low) ||
        !stator_sym_is_const(m->v, w->pads[w->n + axis], &high) || to < 1 ||
        !st_add_i64(from, low, &from) || !st_add_i64(from, high, &from) || from < to) {
        return w->stride[axis];
    }
    return (from - 1) / to + 1;
}

/* The two steps of fewest places in all; 0: they do not save enough. */
static bool divide(const st_match *m, const windows *w, uint32_t axis, steps *out)
{
    const int64_t places = w->size[axis];
    const int64_t made = made_by_first(m, w, axis);
    const bool is_sum = strcmp(kind_of(m), "sum") == 0;
    int64_t least = places / GAIN_MIN + 1;
    if (places < PLACES_MIN || places > PLACES_MAX || made > places) {
        return false;
    }
    for (int64_t first = 2; first < least / made; first++) {
        const int64_t closest = is_sum ? first : (first + 1) / 2;
        int64_t apart = first;
        while (apart >= closest && (places - first) % apart != 0) {
            apart--;
        }
        const int64_t all = apart < closest ? least : made * first + (places - first) / apart + 1;
        if (all < least) {
            least = all;
            *out = (steps){first, (places - first) / apart + 1, apart};
        }
    }
    return least <= places / GAIN_MIN;
}

/* The only axis that the window has more than one place of; n: there is none. */
static uint32_t only_axis(const windows *w)
{
    uint32_t axis = w->n;
    for (uint32_t i = 0; i < w->n; i++) {
        if (w->size[i] > 1 && axis != w->n) {
            return w->n;
        }
        axis = w->size[i] > 1 ? i : axis;
    }
    return axis;
}

/* Two windows, one behind the other, that do what w does; 0: it stays. */
static bool split(const st_match *m, const windows *w, stator_ref zero, windows parts[2])
{
    steps s = {0};
    uint32_t axis = axis_of(m, w);
    const bool is_axes = axis != w->n;
    axis = is_axes ? axis : only_axis(w);
    if (axis == w->n || (!is_axes && !divide(m, w, axis, &s))) {
        return false;
    }
    parts[0] = parts[1] = *w;
    for (uint32_t i = 0; i < w->n; i++) {
        if (i != axis) {
            leave(&parts[0], i, zero);
        }
    }
    if (is_axes) {
        leave(&parts[1], axis, zero);
        return true;
    }
    parts[0].size[axis] = s.first;
    parts[0].stride[axis] = 1;
    parts[1].size[axis] = s.second;
    parts[1].pads[axis] = parts[1].pads[w->n + axis] = zero;
    return st_mul_i64(w->dilation[axis], s.apart, &parts[1].dilation[axis]);
}

bool st_rule_window_axes(st_match *m)
{
    windows w;
    windows parts[2];
    const stator_ref zero = stator_emit_size(m->e, 0);
    if (!read(m, &w) || !is_sound(m) || !split(m, &w, zero, parts)) {
        return false;
    }
    m->out[0] = build(m, &parts[1], build(m, &parts[0], m->operands[0]));
    return true;
}
