/* What is known of integers without their values: lo and hi of cg_value, where CG_VALUE_RANGED.
 *
 * Constants of a few elements have a range (import_graph.c), unsigned bytes that are widened have
 * one, and interval arithmetic takes both through views, sums, products and bounds. An index
 * that a graph bounds itself (`min(max(i, 0), n - 1)`) needs no wrap and no test where it is
 * loaded from. Arithmetic that may pass the dtype wraps around, and its result has no range. */
#include "codegen/lower/unit.h"

#include "core/base/check.h"

#include <stator/ops.h>

typedef struct range {
    int64_t lo, hi;
} range;

static range whole_of(uint32_t dtype)
{
    return dtype == STATOR_I32 ? (range){INT32_MIN, INT32_MAX} : (range){INT64_MIN, INT64_MAX};
}

static bool is_wide(uint32_t dtype)
{
    return dtype == STATOR_I64 || dtype == STATOR_I32;
}

static range range_of(const cg_unit *unit, stator_ref value)
{
    const cg_value *v = &unit->values[value];
    return v->flags & CG_VALUE_RANGED ? (range){v->lo, v->hi}
           : v->dtype == STATOR_U8    ? (range){0, UINT8_MAX}
                                      : whole_of(v->dtype);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t greatest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Each of these: 0 when the result has no range. */
static bool take_min(range a, range b, range *out)
{
    *out = (range){least(a.lo, b.lo), least(a.hi, b.hi)};
    return true;
}

static bool take_max(range a, range b, range *out)
{
    *out = (range){greatest(a.lo, b.lo), greatest(a.hi, b.hi)};
    return true;
}

static bool take_sum(range a, range b, range *out)
{
    return st_add_i64(a.lo, b.lo, &out->lo) && st_add_i64(a.hi, b.hi, &out->hi);
}

static bool take_difference(range a, range b, range *out)
{
    return st_sub_i64(a.lo, b.hi, &out->lo) && st_sub_i64(a.hi, b.lo, &out->hi);
}

static bool take_product(range a, range b, range *out)
{
    int64_t ends[4];
    if (__builtin_mul_overflow(a.lo, b.lo, &ends[0]) ||
        __builtin_mul_overflow(a.lo, b.hi, &ends[1]) ||
        __builtin_mul_overflow(a.hi, b.lo, &ends[2]) ||
        __builtin_mul_overflow(a.hi, b.hi, &ends[3])) {
        return false;
    }
    *out = (range){ends[0], ends[0]};
    for (int i = 1; i < 4; i++) {
        *out = (range){least(out->lo, ends[i]), greatest(out->hi, ends[i])};
    }
    return true;
}

static const struct rule {
    uint32_t op;
    bool (*apply)(range a, range b, range *out);
} rules[] = {{STATOR_OPCODE_min, take_min},
             {STATOR_OPCODE_max, take_max},
             {STATOR_OPCODE_add, take_sum},
             {STATOR_OPCODE_sub, take_difference},
             {STATOR_OPCODE_mul, take_product}};

/* The range of a node's result by those of its operands; 0: nothing is known of it. */
static bool infer(const cg_unit *unit, const stator_node_row *row, range *out)
{
    const stator_graph_view *v = unit->view;
    const stator_op_desc *op = stator_op_at(v, row->op);
    const stator_ref first = row->operand_count ? stator_operand(v, row, 0) : 0;
    if (first == 0) {
        return false;
    }
    if ((op->flags & STATOR_OP_VIEW) || row->op == STATOR_OPCODE_cast) {
        const uint32_t from = unit->values[first].dtype;
        *out = range_of(unit, first);
        return is_wide(from) || from == STATOR_U8;
    }
    for (size_t i = 0; row->operand_count == 2 && i < sizeof rules / sizeof rules[0]; i++) {
        if (row->op == rules[i].op) {
            return rules[i].apply(range_of(unit, first), range_of(unit, stator_operand(v, row, 1)),
                                  out);
        }
    }
    return false;
}

void cg_note_range(cg_unit *unit, const stator_node_row *row)
{
    cg_value *v = &unit->values[row->result_begin];
    const range whole = whole_of(v->dtype);
    range found;
    if (row->result_count == 1 && is_wide(v->dtype) && infer(unit, row, &found) &&
        found.lo >= whole.lo && found.hi <= whole.hi &&
        (found.lo > whole.lo || found.hi < whole.hi)) {
        v->flags |= CG_VALUE_RANGED;
        v->lo = found.lo;
        v->hi = found.hi;
    }
}
