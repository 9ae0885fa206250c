/* Shapes from the operands at hand, for results whose symbolic size exceeded a limit of the
 * symbolic engine (a chain of broadcasts of unrelated sizes, a concat of twenty unknown ones) and
 * therefore is a symbol that only the result tells.
 *
 * In: a step whose operands are there and whose attributes are evaluated. Out: sizes of result 0,
 * which are those of the indices of max_pool too. */
#include "core/base/check.h"
#include "plugins/eager/eager_execution_plan.h"
#include "plugins/eager/kernels/ek_dot.h"

/* NumPy broadcasting of all operands. */
static bool broadcast_shape(const eager_frame *f, const eager_step *step, uint32_t rank,
                            int64_t *out)
{
    for (uint32_t a = 0; a < rank; a++) {
        out[a] = 1;
    }
    for (uint32_t k = 0; k < step->n_in; k++) {
        const ek_tensor *t = &f->values[step->in[k]];
        if (t->rank > rank) {
            return false;
        }
        for (uint32_t a = 0; a < t->rank; a++) {
            int64_t *size = &out[a + rank - t->rank];
            *size = t->dims[a] != 1 ? t->dims[a] : *size; /* the loop checks that all fit */
        }
    }
    return true;
}

static bool concat_shape(const eager_frame *f, const eager_step *step, const ek_attr *attrs,
                         uint32_t rank, int64_t *out)
{
    const int64_t given = attrs[STATOR_concat_axis].i;
    const int64_t axis = st_normalize_axis(given, rank);
    for (uint32_t k = 0; k < step->n_in; k++) {
        const ek_tensor *t = &f->values[step->in[k]];
        for (uint32_t a = 0; a < rank; a++) {
            out[a] = a == (uint32_t)axis && k > 0 ? out[a] + t->dims[a] : t->dims[a];
        }
    }
    return step->n_in > 0;
}

static bool tile_shape(const ek_tensor *x, const ek_attr *attrs, int64_t *out)
{
    for (uint32_t a = 0; a < x->rank; a++) {
        ST_NEED(st_mul_i64(x->dims[a], attrs[STATOR_tile_repeats].ints[a], &out[a]));
    }
    return true;
}

static bool pad_shape(const ek_tensor *x, const ek_attr *attrs, int64_t *out)
{
    for (uint32_t a = 0; a < x->rank; a++) {
        ST_NEED(st_add_i64(x->dims[a], attrs[STATOR_pad_low].ints[a], &out[a]) &&
                st_add_i64(out[a], attrs[STATOR_pad_high].ints[a], &out[a]));
    }
    return true;
}

/* Where a window of `taps` goes: attributes from `first` on are strides, pads and dilations. */
static bool window_shape(const ek_tensor *x, const int64_t *taps, const ek_attr *first,
                         int64_t *out)
{
    const int64_t *const strides = first[0].ints;
    const int64_t *const pads = first[1].ints;
    const int64_t *const dilations = first[2].ints;
    const uint32_t n = x->rank - 2u;
    for (uint32_t a = 0; a < n; a++) {
        int64_t room = 0;
        int64_t reach = 0;
        if (!st_add_i64(x->dims[2u + a], pads[a], &room) || !st_add_i64(room, pads[n + a], &room) ||
            !st_mul_i64(taps[a] - 1, dilations[a], &reach) || !st_sub_i64(room, reach, &room) ||
            room < 1) {
            return false;
        }
        out[2u + a] = (room - 1) / strides[a] + 1;
    }
    return true;
}

_Static_assert((int)STATOR_conv_pads == (int)STATOR_conv_strides + 1 &&
                   (int)STATOR_conv_dilations == (int)STATOR_conv_strides + 2 &&
                   (int)STATOR_max_pool_pads == (int)STATOR_max_pool_strides + 1 &&
                   (int)STATOR_max_pool_dilations == (int)STATOR_max_pool_strides + 2,
               "one function reads both");

static bool conv_shape(const ek_tensor *x, const ek_tensor *w, const ek_attr *attrs, int64_t *out)
{
    out[0] = x->dims[0];
    out[1] = w->dims[0];
    return window_shape(x, w->dims + 2, attrs + STATOR_conv_strides, out);
}

static bool pool_shape(const ek_tensor *x, const ek_attr *attrs, int64_t *out)
{
    out[0] = x->dims[0];
    out[1] = x->dims[1];
    return window_shape(x, attrs[STATOR_max_pool_window].ints, attrs + STATOR_max_pool_strides,
                        out);
}

/* Batch axes broadcast from the right; an operand of rank 1 gives no row or no column. */
static bool matmul_shape(const ek_tensor *x, const ek_tensor *y, uint32_t rank, int64_t *out)
{
    const uint32_t rows = x->rank > 1;
    const uint32_t columns = y->rank > 1;
    const uint32_t batch = rank - rows - columns;
    const ek_tensor *operands[2] = {x, y};
    for (uint32_t a = 0; a < batch; a++) {
        out[a] = 1;
    }
    for (uint32_t k = 0; k < 2; k++) {
        const ek_tensor *t = operands[k];
        const uint32_t own = t->rank > 2 ? t->rank - 2 : 0;
        ST_NEED(own <= batch);
        for (uint32_t a = 0; a < own; a++) {
            int64_t *size = &out[a + batch - own];
            *size = t->dims[a] != 1 ? t->dims[a] : *size; /* the kernel checks that all fit */
        }
    }
    if (rows) {
        out[batch] = x->dims[x->rank - 2];
    }
    if (columns) {
        out[batch + rows] = y->dims[y->rank - 1];
    }
    return true;
}

/* The frame's argument places are filled anew when the step runs. */
static bool einsum_shape(const eager_frame *f, const eager_step *step, const ek_attr *attrs,
                         int64_t *out)
{
    for (uint32_t k = 0; k < step->n_in; k++) {
        f->args[k] = f->values[step->in[k]];
    }
    f->args[step->n_in] = f->values[step->out];
    const ek_call c = {.in = f->args,
                       .out = f->args + step->n_in,
                       .attrs = attrs,
                       .n_in = step->n_in,
                       .n_out = 1,
                       .n_attrs = step->n_attrs,
                       .self = f->exe->self,
                       .step = step};
    return ek_einsum_shape(&c, out);
}

bool eager_shape(const eager_frame *f, const eager_step *step, uint32_t k, int64_t *out_dims)
{
    const ek_attr *attrs = step->n_attr_ints ? f->attrs : step->attrs;
    const uint32_t rank = f->values[step->out].rank;
    if (k != 0 && step->op != EAGER_OP_max_pool) {
        return false;
    }
    if (step->is_pointwise) {
        return broadcast_shape(f, step, rank, out_dims);
    }
    switch (step->op) {
    case EAGER_OP_concat:
        return concat_shape(f, step, attrs, rank, out_dims);
    case EAGER_OP_matmul:
        return matmul_shape(&f->values[step->in[0]], &f->values[step->in[1]], rank, out_dims);
    case EAGER_OP_einsum:
        return einsum_shape(f, step, attrs, out_dims);
    case EAGER_OP_tile:
        return tile_shape(&f->values[step->in[0]], attrs, out_dims);
    case EAGER_OP_conv:
        return conv_shape(&f->values[step->in[0]], &f->values[step->in[1]], attrs, out_dims);
    case EAGER_OP_max_pool:
        return pool_shape(&f->values[step->in[0]], attrs, out_dims);
    case EAGER_OP_pad:
        return pad_shape(&f->values[step->in[0]], attrs, out_dims);
    default:
        return false;
    }
}
