/* scatter_elements, scatter_nd: a copy of x, then the updates one after the other, so that the last
 * one wins and sums have one order. Axes along which updates do not meet are the loops around both.
 *
 *     loop over the other axes                     parallel; a long last one of slices in panels
 *       loop over the scattered axes               y = x
 *       loop over the updates, serial              y[index] = update, or combined with what is
 * there
 *
 * Where y may lie in x (plan_updates.c) the copy and the updates are kernels of their own, and two
 * more keep what stands at y[index] and put it back. */
#include "codegen/lower/lower.h"
#include "codegen/target/contraction_desc.h"

#include <stator/ops.h>
#include <string.h>

#define PANEL_MIN 256 /* elements: whole pages of a row are written before the next row's are */

const char *cg_scatter_refuses(const stator_graph_view *view, const stator_node_row *row)
{
    const stator_type_row *x = stator_value_type(view, stator_operand(view, row, 0));
    const stator_type_row *index = stator_value_type(view, stator_operand(view, row, 1));
    const bool is_nd = row->op == STATOR_OPCODE_scatter_nd;
    int64_t width = 0;
    if (x->rank == 0 && !is_nd) {
        return "a scatter into a scalar";
    }
    if (is_nd &&
        (index->rank == 0 ||
         !stator_sym_is_const(view, stator_dim_at(view, index, index->rank - 1u), &width) ||
         width < 0 || width > (int64_t)x->rank)) {
        return "the length of an index tuple is not known";
    }
    return NULL;
}

/* The value's elements lie in memory one behind the other; fills where. */
static bool is_dense(cg_unit *unit, stator_ref value, const st_kernel *kernel,
                     st_contraction_operand *out)
{
    const cg_value *v = cg_value_of(unit, value);
    uint32_t stride = st_sym_int(&unit->syms->tab, 1);
    cg_strided seen;
    if (!cg_strided_of(unit, value, &seen)) {
        return false;
    }
    *out = (st_contraction_operand){
        .buffer = cg_buffer_index(kernel, seen.buffer), .dtype = v->dtype, .offset = seen.offset};
    for (uint32_t a = v->rank; a-- > 0;) {
        if (!cg_is_one(unit, v->dims[a]) && seen.stride[a] != stride) {
            return false;
        }
        stride = st_sym_mul(&unit->syms->tab, stride, v->dims[a]);
    }
    return out->buffer != UINT32_MAX && stride != 0;
}

static bool set_scatter(cg_unit *unit, const cg_node *node, st_contraction_scatter *out)
{
    const cg_value *x = node->out;
    const cg_value *index = cg_value_of(unit, cg_operand(node, 1));
    const bool is_nd = node->row->op == STATOR_OPCODE_scatter_nd;
    if (x->rank == 0 || x->rank > ST_CONTRACTION_ORDER_RANK_MAX || index->rank == 0 ||
        index->rank > ST_CONTRACTION_ORDER_RANK_MAX) {
        return false;
    }
    out->rank = x->rank;
    out->index_rank = index->rank;
    out->axis = is_nd ? 0 : cg_axis(node, STATOR_scatter_elements_axis, x->rank);
    out->width =
        is_nd ? (uint32_t)st_loop_known_or(&unit->syms->tab, index->dims[index->rank - 1u], 0) : 0;
    out->reduction = st_loop_find(cg_attr_text(node, is_nd ? STATOR_scatter_nd_reduction
                                                           : STATOR_scatter_elements_reduction));
    out->origin = stator_value_at(unit->view, node->row->result_begin)->node;
    out->is_any_order = unit->config->is_any_order;
    memcpy(out->dims, x->dims, x->rank * sizeof *out->dims);
    memcpy(out->index_dims, index->dims, index->rank * sizeof *out->index_dims);
    return !is_nd || out->width > 0;
}

bool cg_scatter_contraction(cg_unit *unit, const cg_node *node, const st_kernel *kernel,
                            st_contraction *out)
{
    uint32_t strides[CG_RANK_MAX];
    out->kind = ST_CONTRACTION_SCATTER;
    out->out.dtype = node->out->dtype;
    out->out.buffer = cg_buffer_index(kernel, node->out->buffer);
    return set_scatter(unit, node, &out->scatter) && node->out->order == NULL &&
           cg_strides(unit, node->out, strides) && out->out.buffer != UINT32_MAX &&
           is_dense(unit, cg_operand(node, 0), kernel, &out->x) &&
           is_dense(unit, cg_operand(node, 1), kernel, &out->y) &&
           is_dense(unit, cg_operand(node, 2), kernel, &out->scatter.updates);
}

static void put_update(cg_nest *nest, const cg_node *node, const uint32_t *to, const uint32_t *from,
                       const char *reduction, st_loop_ref ok)
{
    st_loop_builder *b = &nest->b;
    const uint32_t dtype = node->out->dtype;
    const uint32_t wide = cg_wide_dtype(dtype);
    const uint32_t code = st_loop_find(reduction); /* 0 for "none" */
    st_loop_ref value = cg_at(nest, cg_operand(node, 2), from);
    if (code && value) {
        const st_loop_ref mask = st_loop_both(b, nest->mask, ok);
        const st_loop_ref old = st_loop_cast(b, wide, cg_written(nest, node, 0, to, mask));
        /* Logical for truth values: or and and. */
        const uint32_t own = dtype != STATOR_BOOL  ? code
                             : code == ST_LOOP_add ? (uint32_t)ST_LOOP_bit_or
                             : code == ST_LOOP_mul ? (uint32_t)ST_LOOP_bit_and
                                                   : code;
        value = st_loop_apply(b, own, wide, old, st_loop_cast(b, wide, value), 0);
        value = st_loop_cast(b, dtype, value);
    }
    cg_put(nest, node, 0, to, value, st_loop_both(b, nest->mask, ok));
}

/* The element of the kept ones that belongs to the update at `from`. */
static uint32_t kept_at(cg_nest *nest, const cg_node *node, const uint32_t *from)
{
    const cg_value *updates = cg_value_of(nest->unit, cg_operand(node, 2));
    return cg_flatten(nest, updates->rank, updates->dims, from);
}

static void keep_element(cg_nest *nest, const cg_node *node, const uint32_t *to,
                         const uint32_t *from, st_loop_ref ok)
{
    const uint32_t kept =
        cg_kernel_buffer(nest, nest->group->kept, ST_BUFFER_WRITTEN | ST_BUFFER_UNIQUE);
    const st_loop_ref outer = nest->mask;
    nest->mask = st_loop_both(&nest->b, outer, ok);
    const st_loop_ref value = cg_at(nest, cg_operand(node, 0), to);
    if (value) {
        st_loop_store(&nest->b, kept, kept_at(nest, node, from), value, nest->mask);
    }
    nest->mask = outer;
}

static void restore_element(cg_nest *nest, const cg_node *node, const uint32_t *to,
                            const uint32_t *from, st_loop_ref ok)
{
    const uint32_t kept = cg_kernel_buffer(nest, nest->group->kept, ST_BUFFER_READ);
    const st_loop_ref mask = st_loop_both(&nest->b, nest->mask, ok);
    cg_put(nest, node, 0, to, st_loop_load(&nest->b, kept, kept_at(nest, node, from), mask, 0),
           mask);
}

/* What the kernel does with an update. */
static void do_update(cg_nest *nest, const cg_node *node, const uint32_t *to, const uint32_t *from,
                      const char *reduction, st_loop_ref ok)
{
    if (nest->group->part == CG_SCATTER_KEEP) {
        keep_element(nest, node, to, from, ok);
    } else if (nest->group->part == CG_SCATTER_RESTORE) {
        restore_element(nest, node, to, from, ok);
    } else {
        put_update(nest, node, to, from, reduction, ok);
    }
}

/* The kernel that copies x. */
static void copy_all(cg_nest *nest, const cg_node *node)
{
    uint32_t to[CG_RANK_MAX] = {0};
    const uint32_t n = cg_open_all(nest, node->out->rank, node->out->dims, UINT32_MAX, 0, to);
    cg_put(nest, node, 0, to, cg_at(nest, cg_operand(node, 0), to), 0);
    cg_close(nest, n);
}

/* Elements of the last axis of slices that are copied and updated together; 0: the axis is no
 * multiple of that, or short, and one of its elements goes through all rows at a time. */
static int64_t panel_of(const cg_nest *nest, const cg_value *x, uint32_t width)
{
    const int64_t size =
        x->rank > width ? st_loop_known_or(&nest->unit->syms->tab, x->dims[x->rank - 1u], 0) : 0;
    return size >= PANEL_MIN * 2 && size % PANEL_MIN == 0 ? PANEL_MIN : 0;
}

/* The loop over panels of the last axis, with where each begins; returns how many loops: 1. */
static uint32_t open_panels(cg_nest *nest, const cg_value *x, int64_t panel, uint32_t *out_begin)
{
    const uint32_t size = x->dims[x->rank - 1u];
    const int64_t n = st_loop_known_or(&nest->unit->syms->tab, size, 0) / panel;
    *out_begin = cg_mul(nest, cg_open(nest, cg_int(nest, n), 0), cg_int(nest, panel));
    return 1;
}

/* Loops over the slices' axes, the last one in panels; returns how many. */
static uint32_t open_slices(cg_nest *nest, const cg_value *x, uint32_t width, int64_t panel,
                            uint32_t *to)
{
    if (panel == 0) {
        return cg_open_all(nest, x->rank - width, x->dims + width, UINT32_MAX, 0, to + width);
    }
    const uint32_t last = x->rank - 1u;
    const uint32_t n = cg_open_all(nest, last - width, x->dims + width, UINT32_MAX, 0, to + width);
    return n + open_panels(nest, x, panel, &to[last]);
}

/* The loop over a panel, which begins at `begin`; returns how many loops: 1. */
static uint32_t open_panel(cg_nest *nest, int64_t panel, uint32_t begin, uint32_t *index)
{
    *index = cg_add(nest, begin, cg_open(nest, cg_int(nest, panel), 0));
    return 1;
}

/* The same where all elements of a slice along the last axis go to one place, else 0. */
static int64_t panel_of_slices(const cg_nest *nest, const cg_node *node, uint32_t axis)
{
    cg_unit *unit = nest->unit;
    const stator_ref indices = cg_operand(node, 1);
    const uint32_t last = node->out->rank - 1u;
    const int64_t panel = panel_of(nest, node->out, 0);
    cg_strided seen;
    return panel && nest->group->part == CG_SCATTER_ALL && axis != last &&
                   unit->config->emitter->target.kind != ST_TARGET_GPU &&
                   cg_value_of(unit, indices)->dims[last] == node->out->dims[last] &&
                   cg_strided_of(unit, indices, &seen) &&
                   seen.stride[last] == st_sym_int(&unit->syms->tab, 0)
               ? panel
               : 0;
}

void cg_scatter_elements(cg_nest *nest, const cg_node *node)
{
    const bool is_all = nest->group->part == CG_SCATTER_ALL;
    const stator_ref indices = cg_operand(node, 1);
    const cg_value *x = node->out;
    const cg_value *list = cg_value_of(nest->unit, indices);
    const uint32_t axis = cg_axis(node, STATOR_scatter_elements_axis, x->rank);
    const uint32_t last = x->rank - 1u;
    uint32_t to[CG_RANK_MAX] = {0};
    uint32_t from[CG_RANK_MAX] = {0};
    st_loop_ref ok = 0;
    if (nest->group->part == CG_SCATTER_COPY) {
        copy_all(nest, node);
        return;
    }
    const int64_t panel = panel_of_slices(nest, node, axis);
    uint32_t n_open =
        cg_open_all(nest, panel ? last : x->rank, is_all ? x->dims : list->dims, axis, 0, to);
    n_open += panel ? open_panels(nest, x, panel, &to[last]) : 0;
    const uint32_t begin = to[last];
    memcpy(from, to, sizeof from);
    if (is_all) {
        to[axis] = cg_open(nest, x->dims[axis], n_open ? 0 : ST_AXIS_REDUCE);
        const uint32_t n_copy = 1u + (panel ? open_panel(nest, panel, begin, &to[last]) : 0);
        cg_put(nest, node, 0, to, cg_at(nest, cg_operand(node, 0), to), 0);
        cg_close(nest, n_copy);
    }
    from[axis] = cg_open(nest, list->dims[axis], ST_AXIS_SERIAL);
    for (uint32_t a = 0; a < x->rank && is_all; a++) {
        if (a != axis && list->dims[a] != x->dims[a]) {
            ok = st_loop_both(&nest->b, ok, cg_within(nest, from[a], list->dims[a], false, true));
        }
    }
    nest->mask = ok;
    to[axis] = cg_bound_index(nest, indices, from, x->dims[axis], &ok);
    n_open += panel ? open_panel(nest, panel, begin, &to[last]) : 0;
    from[last] = panel ? to[last] : from[last];
    do_update(nest, node, to, from, cg_attr_text(node, STATOR_scatter_elements_reduction), ok);
    nest->mask = 0;
    cg_close(nest, n_open + 1u);
}

void cg_scatter_nd(cg_nest *nest, const cg_node *node)
{
    const stator_ref indices = cg_operand(node, 1);
    const cg_value *x = node->out;
    const cg_value *tuples = cg_value_of(nest->unit, indices);
    const uint32_t lead = tuples->rank - 1u;
    const uint32_t width =
        (uint32_t)st_loop_known_or(&nest->unit->syms->tab, tuples->dims[lead], 0);
    uint32_t to[CG_RANK_MAX] = {0};
    uint32_t from[CG_RANK_MAX] = {0};
    uint32_t at[CG_RANK_MAX] = {0};
    st_loop_ref ok = 0;
    if (nest->group->part == CG_SCATTER_COPY) {
        copy_all(nest, node);
        return;
    }
    const int64_t panel = panel_of(nest, x, width);
    const uint32_t last = x->rank ? x->rank - 1u : 0;
    const uint32_t n_slice = open_slices(nest, x, width, panel, to);
    const uint32_t begin = to[last];
    if (nest->group->part == CG_SCATTER_ALL) {
        uint32_t n_copy =
            cg_open_all(nest, width, x->dims, UINT32_MAX, n_slice ? 0 : ST_AXIS_REDUCE, to);
        n_copy += panel ? open_panel(nest, panel, begin, &to[last]) : 0;
        cg_put(nest, node, 0, to, cg_at(nest, cg_operand(node, 0), to), 0);
        cg_close(nest, n_copy);
    }
    uint32_t n_updates = cg_open_all(nest, lead, tuples->dims, UINT32_MAX, ST_AXIS_SERIAL, at);
    memcpy(from, at, lead * sizeof *from);
    for (uint32_t k = 0; k < width; k++) {
        at[lead] = cg_int(nest, k);
        to[k] = cg_bound_index(nest, indices, at, x->dims[k], &ok);
    }
    n_updates += panel ? open_panel(nest, panel, begin, &to[last]) : 0;
    memcpy(from + lead, to + width, (x->rank - width) * sizeof *from);
    do_update(nest, node, to, from, cg_attr_text(node, STATOR_scatter_nd_reduction), ok);
    cg_close(nest, n_updates + n_slice);
}
