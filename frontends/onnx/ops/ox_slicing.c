/* Slice, in every version: bounds are brought into the tensor by the operator's rules, symbolically
 * when they are known, with integer tensors while the program runs when they are not. */
#include "frontends/onnx/ox_import.h"

#define HUGE_BOUND                                                                                 \
    ((int64_t)                                                                                     \
         INT32_MAX) /* "to the end": from here on a bound is past every size                  \
                          */

typedef struct bounds {
    uint32_t count;
    uint32_t axes[STATOR_RANK_MAX];
    int64_t steps[STATOR_RANK_MAX];
    stator_ref start_list; /* i64 tensors of `count` elements */
    stator_ref end_list;
} bounds;

static void read_axes(ox_node *n, uint32_t rank, const int64_t *axes, bounds *b)
{
    for (uint32_t i = 0; ox_ok(n) && i < b->count; i++) {
        b->axes[i] = axes != NULL ? ox_axis(n, axes[i], rank) : i;
        ox_expect(n, axes != NULL || i < rank, "%u bounds for an input of rank %u", b->count, rank);
        for (uint32_t k = 0; ox_ok(n) && k < i; k++) {
            ox_expect(n, b->axes[k] != b->axes[i], "axis %u is given twice", b->axes[i]);
        }
    }
}

/* Operand k, bounds, as an i64 list. One without axes is a list of one: torch.onnx writes
 * tensor_split so, and ONNX Runtime takes it. */
static stator_ref bound_list(ox_node *n, uint32_t k, const char *what)
{
    const stator_ref list = ox_cast(n, ox_need(n, k), STATOR_I64);
    const stator_ref one = ox_sym(n, 1);
    ox_check_rank(n, list, 0, 1, what);
    return ox_ok(n) && ox_rank(n, list) == 0 ? ox_reshape(n, list, 1, &one) : list;
}

/* How many bounds there are. In a body nothing can be asked for, and a bound that is itself a slice
 * of an unknown place ("offsets[i : i + 1]") has no known size: as many as there are bounds of the
 * other list or axes, else one, which the reshapes test when they run. */
static int64_t bound_count(ox_node *n, uint32_t axis_count, bounds *b)
{
    int64_t count = 0;
    int64_t end_count = 0;
    const bool starts_known = ox_ok(n) && ox_dim_known(n, b->start_list, 0, &count);
    const bool ends_known = ox_ok(n) && ox_dim_known(n, b->end_list, 0, &end_count);
    if (!ox_ok(n) || (starts_known && ends_known)) {
        return count;
    }
    if (!starts_known && n->scope->region->parent == NULL) {
        ox_ask(n, b->start_list, "'starts'");
        return 0;
    }
    count = starts_known ? count : ends_known ? end_count : axis_count != 0 ? axis_count : 1;
    const stator_ref dim = ox_sym(n, count);
    b->start_list = ox_reshape(n, b->start_list, 1, &dim);
    b->end_list = ox_reshape(n, b->end_list, 1, &dim);
    return count;
}

/* Attributes (operator sets below 10) or inputs. */
static void read_bounds(ox_node *n, stator_ref x, bounds *b)
{
    const uint32_t rank = ox_rank(n, x);
    uint32_t axis_count = 0;
    uint32_t step_count = 0;
    const int64_t *axes = NULL;
    const int64_t *steps = NULL;
    if (n->version < 10) {
        uint32_t starts_count;
        uint32_t ends_count;
        const int64_t *starts = ox_attr_ints(n, "starts", &starts_count);
        const int64_t *ends = ox_attr_ints(n, "ends", &ends_count);
        axes = ox_attr_ints(n, "axes", &axis_count);
        b->start_list = ox_ints(n, starts_count, starts);
        b->end_list = ox_ints(n, ends_count, ends);
    } else {
        b->start_list = bound_list(n, 1, "'starts'");
        b->end_list = bound_list(n, 2, "'ends'");
        axes = ox_in(n, 3) ? ox_need_ints(n, ox_in(n, 3), &axis_count, "the axes") : NULL;
        steps = ox_in(n, 4) ? ox_need_ints(n, ox_in(n, 4), &step_count, "the steps") : NULL;
    }
    const int64_t count = bound_count(n, axis_count, b);
    ox_expect(n,
              count <= (int64_t)rank && (axes == NULL || axis_count == count) &&
                  (steps == NULL || step_count == count),
              "starts, ends, axes and steps have different lengths");
    b->count = (uint32_t)count;
    for (uint32_t i = 0; ox_ok(n) && i < b->count; i++) {
        b->steps[i] = steps != NULL ? steps[i] : 1;
        ox_expect(n, b->steps[i] != 0 && b->steps[i] != INT64_MIN, "a step is %lld",
                  (long long)b->steps[i]);
    }
    read_axes(n, rank, axes, b);
}

/* A bound brought into [lo, dim + hi_off]; 0 when its sign is not known. */
static stator_ref clamp_bound(ox_node *n, stator_ref bound, stator_ref dim, int64_t lo,
                              int64_t hi_off)
{
    int64_t least;
    int64_t most;
    const stator_ref hi = ox_sym_op(n, STATOR_SYM_ADD, dim, ox_sym(n, hi_off));
    if (bound == dim && hi_off == 0) {
        return hi;
    }
    ox_sym_range(n, bound, &least, &most);
    if (least >= HUGE_BOUND) {
        return hi;
    }
    if (least >= 0) {
        return ox_sym_op(n, STATOR_SYM_MIN, bound, hi);
    }
    if (most >= 0) {
        return 0;
    }
    if (most <= -HUGE_BOUND) {
        return ox_sym(n, lo);
    }
    return ox_sym_op(n, STATOR_SYM_MAX, ox_sym_op(n, STATOR_SYM_ADD, dim, bound), ox_sym(n, lo));
}

/* The slice of one axis. */
typedef struct axis_range {
    stator_ref start, end;
    int64_t step;
} axis_range;

/* Start and size of one axis from known bounds; 0 when a sign is not known. */
static bool known_axis(ox_node *n, stator_ref dim, axis_range range, stator_ref *out_start,
                       stator_ref *out_size)
{
    const int64_t step = range.step;
    const int64_t lo = step > 0 ? 0 : -1;
    const int64_t off = step > 0 ? 0 : -1;
    const stator_ref first = clamp_bound(n, range.start, dim, 0, off);
    const stator_ref last = clamp_bound(n, range.end, dim, lo, off);
    if (first == 0 || last == 0) {
        return false;
    }
    const stator_ref span = step > 0 ? ox_sym_op(n, STATOR_SYM_SUB, last, first)
                                     : ox_sym_op(n, STATOR_SYM_SUB, first, last);
    const stator_ref size =
        ox_sym_op(n, STATOR_SYM_CEILDIV, span, ox_sym(n, step > 0 ? step : -step));
    *out_start = first;
    *out_size = ox_sym_op(n, STATOR_SYM_MAX, size, ox_sym(n, 0));
    return ox_ok(n);
}

static stator_ref run_clamp(ox_node *n, stator_ref bound, stator_ref dims, stator_ref lo,
                            stator_ref hi)
{
    const stator_ref is_negative = ox_bin(n, "lt", bound, ox_int(n, 0));
    const stator_ref from_end = ox_select(n, is_negative, ox_add(n, bound, dims), bound);
    return ox_bin(n, "min", ox_bin(n, "max", from_end, lo), hi);
}

/* The same for all axes with integer tensors. */
static void run_axes(ox_node *n, const bounds *b, const stator_ref *dims, stator_ref *starts,
                     stator_ref *sizes)
{
    int64_t list[4][STATOR_RANK_MAX]; /* lowest start and end, step, offset of the highest bound */
    stator_ref own[STATOR_RANK_MAX];
    uint32_t count;
    for (uint32_t i = 0; i < b->count; i++) {
        own[i] = dims[b->axes[i]];
        list[0][i] = 0;
        list[1][i] = b->steps[i] > 0 ? 0 : -1;
        list[2][i] = b->steps[i];
        list[3][i] = b->steps[i] > 0 ? 0 : -1;
    }
    const stator_ref all = ox_from_dims(n, b->count, own);
    const stator_ref hi = ox_add(n, all, ox_ints(n, b->count, list[3]));
    const stator_ref start = run_clamp(n, b->start_list, all, ox_ints(n, b->count, list[0]), hi);
    const stator_ref end = run_clamp(n, b->end_list, all, ox_ints(n, b->count, list[1]), hi);
    const stator_ref step = ox_ints(n, b->count, list[2]);
    /* ceil((end - start) / step) = -floor((start - end) / step) */
    const stator_ref back = ox_sub(n, start, end);
    const stator_ref whole = ox_div(n, ox_sub(n, back, ox_bin(n, "mod", back, step)), step);
    const stator_ref size = ox_bin(n, "max", ox_un(n, "neg", whole), ox_int(n, 0));
    const stator_ref *first = ox_sizes(n, start, &count, "'starts'");
    const stator_ref *length = ox_sizes(n, size, &count, "the sizes");
    for (uint32_t i = 0; first != NULL && length != NULL && i < b->count; i++) {
        starts[b->axes[i]] = first[i];
        sizes[b->axes[i]] = length[i];
    }
}

/* 1 when every axis could be computed from known bounds. */
static bool known_axes(ox_node *n, const bounds *b, const stator_ref *dims, stator_ref *starts,
                       stator_ref *sizes)
{
    uint32_t count;
    const stator_ref *start = ox_known(n, b->start_list, &count);
    const stator_ref *end = start != NULL ? ox_known(n, b->end_list, &count) : NULL;
    for (uint32_t i = 0; end != NULL && i < b->count; i++) {
        const uint32_t axis = b->axes[i];
        if (i >= count) {
            return false;
        }
        const axis_range range = {start[i], end[i], b->steps[i]};
        if (!known_axis(n, dims[axis], range, &starts[axis], &sizes[axis])) {
            return false;
        }
    }
    return end != NULL;
}

void ox_slice_op(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    stator_ref dims[STATOR_RANK_MAX];
    stator_ref starts[STATOR_RANK_MAX];
    stator_ref sizes[STATOR_RANK_MAX];
    int64_t steps[STATOR_RANK_MAX];
    bounds b = {0};
    read_bounds(n, x, &b);
    const uint32_t rank = ox_dims(n, x, dims);
    if (!ox_ok(n)) {
        return;
    }
    for (uint32_t i = 0; i < rank; i++) {
        starts[i] = ox_sym(n, 0);
        sizes[i] = dims[i];
        steps[i] = 1;
    }
    for (uint32_t i = 0; i < b.count; i++) {
        steps[b.axes[i]] = b.steps[i];
    }
    if (!known_axes(n, &b, dims, starts, sizes) && ox_ok(n)) {
        run_axes(n, &b, dims, starts, sizes);
    }
    ox_out(
        n, 0,
        ox_op(n, "slice", STATOR_IN(x),
              STATOR_AT(STATOR_A_DIMS("starts", rank, starts), STATOR_A_DIMS("sizes", rank, sizes),
                        STATOR_A_INTS("steps", rank, steps))));
}
