/* Ops that treat the rows of their first axis alike, and what they are for one row: attributes that
 * number axes lose the first one (see move_into_scan.c). */
#include "ir/infer.h"
#include "ir/passes/move_into_scan.h"

#include <stator/ops.h>

#define ATTRS_MAX 8u

enum row_kind {
    ROW_NONE = 0,
    ROW_POINT,  /* operands broadcast */
    ROW_DOT,    /* rows of x with a whole y */
    ROW_REDUCE, /* over other axes */
    ROW_RESHAPE,
    ROW_TRANSPOSE,
    ROW_CONCAT,
    ROW_SLICE,
    ROW_LOOK_UP /* gather: rows of indices in a whole x */
};

static const uint8_t kinds[STATOR_OPCODE_end] = {
    [STATOR_OPCODE_dot_general] = ROW_DOT,     [STATOR_OPCODE_reshape] = ROW_RESHAPE,
    [STATOR_OPCODE_transpose] = ROW_TRANSPOSE, [STATOR_OPCODE_concat] = ROW_CONCAT,
    [STATOR_OPCODE_slice] = ROW_SLICE,         [STATOR_OPCODE_gather] = ROW_LOOK_UP,
    [STATOR_OPCODE_reduce_sum] = ROW_REDUCE,   [STATOR_OPCODE_reduce_max] = ROW_REDUCE,
    [STATOR_OPCODE_reduce_min] = ROW_REDUCE,   [STATOR_OPCODE_reduce_prod] = ROW_REDUCE,
};

static uint32_t kind_of(const stator_graph_view *v, stator_ref node)
{
    const uint32_t op = stator_node_at(v, node)->op;
    if (op < STATOR_OPCODE_end && kinds[op] != ROW_NONE) {
        return kinds[op];
    }
    const uint64_t looked_at =
        STATOR_OP_POINTWISE | STATOR_OP_RANDOM | STATOR_OP_EFFECT | STATOR_OP_REGIONS;
    return (stator_op_at(v, op)->flags & looked_at) == STATOR_OP_POINTWISE ? ROW_POINT : ROW_NONE;
}

static bool is_int(const stator_graph_view *v, stator_ref sym, int64_t wanted)
{
    int64_t value = 0;
    return stator_sym_is_const(v, sym, &value) && value == wanted;
}

static const stator_type_row *operand_type(const stator_graph_view *v, const stator_node_row *row,
                                           uint32_t k)
{
    const stator_ref value = stator_operand(v, row, k);
    return value ? stator_value_type(v, value) : NULL;
}

static bool is_long(const stator_graph_view *v, const stator_type_row *type, stator_ref length)
{
    return type && type->rank > 0 && stator_dim_at(v, type, 0) == length;
}

/* Operands that have the row's axis are rows, the others must not reach it. */
static bool find_points(const stator_graph_view *v, const stator_node_row *row, stator_ref length,
                        uint64_t *out_timed)
{
    const uint32_t rank = stator_value_type(v, row->result_begin)->rank;
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_type_row *type = operand_type(v, row, k);
        if (type && type->rank == rank && !is_int(v, stator_dim_at(v, type, 0), 1)) {
            if (!is_long(v, type, length)) {
                return false;
            }
            *out_timed |= (uint64_t)1 << k;
        }
    }
    return *out_timed != 0;
}

static bool are_axes_inner(const stator_graph_view *v, const stator_attr_row *axes, uint32_t rank)
{
    for (uint32_t i = 0; i < axes->count; i++) {
        const int64_t axis = stator_attr_int_at(v, axes, i);
        if (axis == 0 || axis + (int64_t)rank == 0) {
            return false;
        }
    }
    return axes->count > 0;
}

static bool is_dot_of_rows(const stator_graph_view *v, const stator_node_row *row)
{
    const stator_type_row *x = operand_type(v, row, 0);
    return stator_attr_at(v, row, STATOR_dot_general_batch_x)->count == 0 &&
           are_axes_inner(v, stator_attr_at(v, row, STATOR_dot_general_contract_x), x->rank);
}

static bool is_slice_of_rows(const stator_graph_view *v, const stator_node_row *row,
                             stator_ref length)
{
    const stator_attr_row *starts = stator_attr_at(v, row, STATOR_slice_starts);
    const stator_attr_row *sizes = stator_attr_at(v, row, STATOR_slice_sizes);
    const stator_attr_row *steps = stator_attr_at(v, row, STATOR_slice_steps);
    return is_int(v, stator_ref_at(v, starts->begin), 0) &&
           stator_ref_at(v, sizes->begin) == length && stator_attr_int_at(v, steps, 0) == 1;
}

/* The same for ops whose operands have places of their own. */
static bool is_rows(const stator_graph_view *v, const stator_node_row *row, uint32_t kind,
                    stator_ref length)
{
    const stator_type_row *x = operand_type(v, row, 0);
    const uint32_t rank = x ? x->rank : 0;
    switch (kind) {
    case ROW_LOOK_UP:
        return is_long(v, operand_type(v, row, 1), length) &&
               (stator_attr_at(v, row, STATOR_gather_axis)->i == 0 ||
                stator_attr_at(v, row, STATOR_gather_axis)->i + (int64_t)rank == 0);
    case ROW_DOT:
        return is_long(v, x, length) && is_dot_of_rows(v, row);
    case ROW_REDUCE:
        return is_long(v, x, length) &&
               are_axes_inner(v, stator_attr_at(v, row, STATOR_reduce_sum_axes), rank);
    case ROW_TRANSPOSE:
        return is_long(v, x, length) &&
               stator_attr_int_at(v, stator_attr_at(v, row, STATOR_transpose_perm), 0) == 0;
    case ROW_SLICE:
        return is_long(v, x, length) && is_slice_of_rows(v, row, length);
    case ROW_CONCAT: {
        const int64_t axis = stator_attr_at(v, row, STATOR_concat_axis)->i;
        return is_long(v, x, length) && axis != 0 && axis + (int64_t)rank != 0;
    }
    default:
        return is_long(v, x, length);
    }
}

bool st_row_is(const stator_graph_view *v, stator_ref node, stator_ref length, uint64_t *out_timed)
{
    const stator_node_row *row = stator_node_at(v, node);
    const uint32_t kind = kind_of(v, node);
    *out_timed = 0;
    if (kind == ROW_NONE || row->result_count != 1 || row->operand_count == 0 ||
        row->operand_count > ST_ROW_OPERANDS || row->attr_count > ATTRS_MAX ||
        !is_long(v, stator_value_type(v, row->result_begin), length)) {
        return false;
    }
    if (kind == ROW_POINT) {
        return find_points(v, row, length, out_timed);
    }
    *out_timed = kind == ROW_LOOK_UP  ? 2u
                 : kind == ROW_CONCAT ? UINT64_MAX >> (ST_ROW_OPERANDS - row->operand_count)
                                      : 1u;
    return is_rows(v, row, kind, length);
}

bool st_row_is_move(const stator_graph_view *v, stator_ref node)
{
    const uint32_t kind = kind_of(v, node);
    return kind == ROW_RESHAPE || kind == ROW_TRANSPOSE || kind == ROW_CONCAT ||
           kind == ROW_SLICE || kind == ROW_LOOK_UP;
}

stator_ref st_row_type(stator_builder *b, const stator_graph_view *v, stator_ref value)
{
    const stator_type_row *type = stator_value_type(v, value);
    stator_ref dims[STATOR_RANK_MAX];
    for (uint32_t a = 1; a < type->rank; a++) {
        dims[a - 1u] = stator_dim_at(v, type, a);
    }
    return st_module_type(b->module, type->dtype, type->rank - 1u, dims);
}

/* ---- one row ---- */

/* Axes without the first one. */
static void lower_axes(stator_attr *attr)
{
    int64_t *axes = (int64_t *)(uintptr_t)attr->list; /* a copy in the arena */
    for (uint32_t i = 0; i < attr->count; i++) {
        axes[i] -= axes[i] > 0;
    }
}

/* A list of an entry an axis, without the first. */
static void drop_first(stator_attr *attr)
{
    attr->list = attr->kind == STATOR_ATTR_DIMS ? (const void *)((const stator_ref *)attr->list + 1)
                                                : (const void *)((const int64_t *)attr->list + 1);
    attr->count--;
}

static void lower_attrs(uint32_t kind, stator_attr *attrs)
{
    switch (kind) {
    case ROW_DOT:
        lower_axes(&attrs[STATOR_dot_general_contract_x]);
        break;
    case ROW_REDUCE:
        lower_axes(&attrs[STATOR_reduce_sum_axes]);
        break;
    case ROW_RESHAPE:
        drop_first(&attrs[STATOR_reshape_shape]);
        break;
    case ROW_TRANSPOSE:
        lower_axes(&attrs[STATOR_transpose_perm]);
        drop_first(&attrs[STATOR_transpose_perm]);
        break;
    case ROW_SLICE:
        drop_first(&attrs[STATOR_slice_starts]);
        drop_first(&attrs[STATOR_slice_sizes]);
        drop_first(&attrs[STATOR_slice_steps]);
        break;
    case ROW_CONCAT:
        attrs[STATOR_concat_axis].i -= attrs[STATOR_concat_axis].i > 0;
        break;
    default:
        break;
    }
}

/* A whole operand with a first axis of size 1 loses it, as the others lose theirs. */
static stator_ref drop_one(stator_emitter *e, uint32_t rank, stator_ref value)
{
    stator_ref dims[STATOR_RANK_MAX];
    const bool is_longer = value != 0 && stator_emit_dims(e, value, dims) == rank;
    return is_longer ? stator_emit_reshape(e, value, rank - 1u, dims + 1) : value;
}

stator_ref st_row_build(stator_emitter *e, const st_row *r, st_arena *arena)
{
    const stator_graph_view *v = r->v;
    const stator_ref node = r->node;
    const stator_node_row *row = stator_node_at(v, node);
    const stator_op_desc *op = stator_op_at(v, row->op);
    const uint32_t kind = kind_of(v, node);
    const uint32_t rank = stator_value_type(v, row->result_begin)->rank;
    stator_attr attrs[ATTRS_MAX];
    stator_ref operands[ST_ROW_OPERANDS];
    for (uint32_t k = 0; k < row->attr_count; k++) {
        ST_THEN(e->status, st_attr_from_row(v, e->b->module, arena, op->attrs[k].name,
                                            stator_attr_at(v, row, k), &attrs[k], e->err));
    }
    st_build_set_origin_ref(e->b, row->origin);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        operands[k] = r->operands[k];
        if (kind == ROW_POINT && !(r->timed >> k & 1u)) {
            operands[k] = drop_one(e, rank, operands[k]);
        }
    }
    if (e->status == STATOR_OK) {
        lower_attrs(kind, attrs);
    }
    return stator_emit_op(e, op->name, row->operand_count, operands, row->attr_count, attrs);
}
