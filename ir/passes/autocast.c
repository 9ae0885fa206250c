/* Mixed precision: products are computed in bf16 or f16, what needs f32 has it.
 *
 *     y = matmul(x, w)         ->     a = cast(x, bf16)  b = cast(w, bf16)  y = matmul(a, b)
 *     z = mse_loss(y, t)              c = cast(y, f32)  z = mse_loss(c, t)
 *
 * Before: a graph in f32. After: inputs and outputs of the same types. The flags of an op's row
 * (STATOR_OP_AUTOCAST_...) say what its float operands are cast to: LOW the dtype asked for, F32
 * f32 where they are narrower, WIDEST the widest of them. Other ops take them as they come; where
 * the infer rule refuses several dtypes, the widest decides, and scalars follow tensors unless
 * their value is too large. This is how torch.autocast and PyTorch's type promotion hand dtypes on.
 * A vector of weights that is added to a product follows it as well, as the bias of torch's linear.
 *
 * A value is cast to a dtype once, a parameter too; a cast to what a value has by now goes. f64,
 * f8 and integers stay. Ops with regions or effects, those whose result's size a run tells, and
 * those that take no such operands, get operands of the types that they had; a region is rewritten
 * for itself. A node whose flags change its operands asks fuel (REWRITE, "autocast"). */
#include "core/base/check.h"
#include "core/base/convert.h"
#include "ir/builder.h"
#include "ir/passes/pass_copy.h"
#include <math.h>
#include <stator/ops.h>

/* Ops whose operands keep their types. */
#define FIXED (STATOR_OP_REGIONS | STATOR_OP_EFFECT | STATOR_OP_UNBACKED | STATOR_OP_CONSTANT)
#define FLAGS (STATOR_OP_AUTOCAST_LOW | STATOR_OP_AUTOCAST_F32 | STATOR_OP_AUTOCAST_WIDEST)

enum { SLOT_F32, SLOT_BF16, SLOT_F16, SLOTS };

typedef struct autocast {
    st_copy *c;
    stator_dtype low;
    stator_ref *casts[SLOTS]; /* by in-value: what stands for it, in that dtype; 0: not yet */
    stator_ref *operands;     /* of the node in hand */
    st_arena attrs;           /* of the node in hand */
} autocast;

static stator_dtype dtype_before(const autocast *a, stator_ref value)
{
    return stator_value_type(a->c->v, value)->dtype;
}

static stator_dtype dtype_now(const autocast *a, stator_ref value)
{
    return stator_emit_dtype(&a->c->e, a->c->map[value]);
}

static bool is_cast_here(stator_dtype dtype)
{
    return dtype == STATOR_F32 || dtype == STATOR_BF16 || dtype == STATOR_F16;
}

/* ---- casts ---- */

/* The cast is named after what makes the value, since others read it as well. */
static void set_cast_origin(const autocast *a, stator_ref value)
{
    const st_copy *c = a->c;
    const stator_value_row *row = stator_value_at(c->v, value);
    st_build_set_origin_ref(
        c->out, row->node != 0 ? stator_node_at(c->v, row->node)->origin
                               : st_module_origin(c->out->module, stator_string_at(c->v, row->name),
                                                  "cast", NULL, 0));
}

/* What stands for the in-value by now, in this dtype. */
static stator_ref in_dtype(autocast *a, stator_ref value, stator_dtype dtype)
{
    st_copy *c = a->c;
    stator_ref *slot = &a->casts[dtype == STATOR_F32    ? SLOT_F32
                                 : dtype == STATOR_BF16 ? SLOT_BF16
                                                        : SLOT_F16][value];
    if (dtype_now(a, value) == dtype) {
        return c->map[value];
    }
    if (*slot == 0) {
        set_cast_origin(a, value);
        *slot = stator_emit_cast(&c->e, c->map[value], dtype);
        st_build_set_origin_ref(c->out, 0);
        c->changed = 1;
    }
    return *slot;
}

/* ---- what a node's operands become ---- */

/* The wider of two dtypes; bf16 and f16 have none but f32. */
static stator_dtype wider(stator_dtype x, stator_dtype y)
{
    return x == STATOR_DTYPE_NONE || x == y ? y : STATOR_F32;
}

/* Would a constant become infinite? */
static bool is_too_large(const autocast *a, stator_ref value, stator_dtype dtype)
{
    uint8_t bytes[8] = {0};
    double number = 0;
    if (!st_value_is_splat(a->c->in, value, &number) || !isfinite(number)) {
        return false;
    }
    st_store_f64(dtype, bytes, 0, number);
    return !isfinite(st_load_f64(dtype, bytes, 0));
}

static bool is_product(const autocast *a, stator_ref value)
{
    const stator_ref node = value != 0 ? stator_value_at(a->c->v, value)->node : 0;
    return node != 0 && (st_copy_op(a->c, node)->flags & STATOR_OP_AUTOCAST_LOW) != 0;
}

static bool is_weight(const autocast *a, stator_ref value)
{
    return (stator_value_at(a->c->v, value)->flags & STATOR_VALUE_PARAM) != 0 ||
           st_value_is_constant(a->c->in, value);
}

/* Does operand k follow the others: a scalar, or a bias? */
static bool is_follower(const autocast *a, const stator_node_row *row, uint32_t k)
{
    const stator_ref value = stator_operand(a->c->v, row, k);
    const uint32_t rank = stator_value_type(a->c->v, value)->rank;
    return rank == 0 || (rank == 1 && row->op == STATOR_OPCODE_add && is_weight(a, value) &&
                         is_product(a, stator_operand(a->c->v, row, 1u - k)));
}

/* The dtype of the operands together. Those that follow count where nothing else does, or all. */
static stator_dtype widest(const autocast *a, const stator_node_row *row, bool all_count)
{
    stator_dtype tensors = STATOR_DTYPE_NONE, all = STATOR_DTYPE_NONE;
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(a->c->v, row, k);
        const stator_dtype dtype = value != 0 ? dtype_now(a, value) : STATOR_DTYPE_NONE;
        if (is_cast_here(dtype)) {
            all = wider(all, dtype);
            tensors = is_follower(a, row, k) ? tensors : wider(tensors, dtype);
        }
    }
    if (all_count || tensors == STATOR_DTYPE_NONE) {
        return all;
    }
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(a->c->v, row, k);
        if (value != 0 && is_cast_here(dtype_now(a, value)) && is_too_large(a, value, tensors)) {
            return all;
        }
    }
    return tensors;
}

/* What the flags ask for: the dtype of operand `value`; NONE: as it is. */
static stator_dtype flagged_dtype(const autocast *a, uint64_t flags, stator_dtype dtype,
                                  stator_dtype all)
{
    if (!is_cast_here(dtype)) {
        return STATOR_DTYPE_NONE;
    }
    return (flags & STATOR_OP_AUTOCAST_LOW) != 0      ? a->low
           : (flags & STATOR_OP_AUTOCAST_F32) != 0    ? STATOR_F32
           : (flags & STATOR_OP_AUTOCAST_WIDEST) != 0 ? all
                                                      : STATOR_DTYPE_NONE;
}

/* Operands by the flags, as far as fuel allows. */
static void take_operands(autocast *a, stator_ref node)
{
    st_copy *c = a->c;
    const stator_node_row *row = stator_node_at(c->v, node);
    const uint64_t flags = st_copy_op(c, node)->flags & FLAGS;
    const stator_dtype all = flags != 0 ? widest(a, row, true) : STATOR_DTYPE_NONE;
    bool is_asked = false, may = false;
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(c->v, row, k);
        const stator_dtype now = value != 0 ? dtype_now(a, value) : STATOR_DTYPE_NONE;
        const stator_dtype wanted = flagged_dtype(a, flags, now, all);
        a->operands[k] = c->map[value];
        if (wanted != STATOR_DTYPE_NONE && wanted != now) {
            may = is_asked ? may : st_pass_may(c->ctx, STATOR_FUEL_REWRITE, "autocast", node);
            is_asked = true;
            a->operands[k] = may ? in_dtype(a, value, wanted) : c->map[value];
        }
    }
}

/* All of one dtype, which the widest tensor has. */
static void take_widest(autocast *a, const stator_node_row *row)
{
    const stator_dtype dtype = widest(a, row, false);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(a->c->v, row, k);
        a->operands[k] = value != 0 && is_cast_here(dtype_now(a, value)) ? in_dtype(a, value, dtype)
                                                                         : a->c->map[value];
    }
}

/* Are they of the dtypes that the node had? */
static bool is_as_before(const autocast *a, const stator_node_row *row)
{
    bool is_same = true;
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(a->c->v, row, k);
        is_same &= value == 0 || (a->operands[k] == a->c->map[value] &&
                                  dtype_now(a, value) == dtype_before(a, value));
    }
    return is_same;
}

/* ---- nodes ---- */

/* A copy whose operands have the types that they had. */
static void copy_as_before(autocast *a, stator_ref node)
{
    st_copy *c = a->c;
    const stator_node_row *row = stator_node_at(c->v, node);
    stator_ref *now = st_copy_zalloc(c, row->operand_count, sizeof *now);
    for (uint32_t k = 0; st_copy_is_ok(c) && k < row->operand_count; k++) {
        const stator_ref value = stator_operand(c->v, row, k);
        now[k] = c->map[value];
        c->map[value] = value != 0 ? in_dtype(a, value, dtype_before(a, value)) : 0;
    }
    st_copy_node(c, node);
    for (uint32_t k = row->operand_count; st_copy_is_ok(c) && k > 0; k--) {
        c->map[stator_operand(c->v, row, k - 1u)] = now[k - 1u];
    }
}

static stator_status build(autocast *a, const stator_node_row *row, stator_ref *results,
                           stator_diag **err)
{
    st_copy *c = a->c;
    stator_attr attrs[ST_ATTRS_MAX];
    const stator_op_desc *op = stator_op_at(c->v, row->op);
    stator_node_desc desc = {.struct_size = sizeof desc,
                             .op = row->op,
                             .operands = a->operands,
                             .operand_count = row->operand_count,
                             .attrs = attrs,
                             .result_count = row->result_count};
    st_arena_reset(&a->attrs);
    for (uint32_t k = 0; k < row->attr_count; k++) {
        const stator_attr_row *attr = stator_attr_at(c->v, row, k);
        if (attr->kind != STATOR_ATTR_NONE) {
            ST_TRY(st_attr_from_row(c->v, c->in->module, &a->attrs, op->attrs[k].name, attr,
                                    &attrs[desc.attr_count++], err));
        }
    }
    return st_build_node(c->out, &desc, results, err);
}

/* The result of the node as it was has this name and shape. A value of another dtype is witness of
 * nothing. */
static void set_result(autocast *a, stator_ref before, stator_ref now)
{
    st_copy *c = a->c;
    const stator_value_row *old = stator_value_at(c->v, before);
    const stator_type_row *type = stator_type_at(c->v, old->type);
    const stator_dtype dtype = stator_emit_dtype(&c->e, now);
    stator_ref dims[STATOR_RANK_MAX];
    for (uint32_t i = 0; i < type->rank; i++) {
        dims[i] = stator_dim_at(c->v, type, i);
    }
    const stator_ref made = st_module_type(c->out->module, dtype, type->rank, dims);
    stator_value_row *row = st_seg_at(&c->out->graph->values, now);
    if (!stator_emit_check(&c->e, made != 0 ? STATOR_OK : st_fail_oom(c->e.err))) {
        return;
    }
    row->type = made;
    row->name = old->name;
    row->witness = made == old->type ? old->witness : 0;
    c->map[before] = now;
    c->changed = 1;
}

/* Builds the node on a->operands; 0: the op does not take them, and nothing was built. */
static bool try_build(autocast *a, stator_ref node)
{
    st_copy *c = a->c;
    const stator_node_row *row = stator_node_at(c->v, node);
    stator_ref results[ST_RESULTS_MAX] = {0};
    stator_diag *why = NULL;
    if (!st_copy_is_ok(c)) {
        return true;
    }
    st_build_set_origin_ref(c->out, row->origin);
    c->e.status = build(a, row, results, &why);
    st_build_set_origin_ref(c->out, 0);
    const bool is_built = st_copy_is_ok(c);
    st_copy_forgive(c, why);
    for (uint32_t k = 0; is_built && st_copy_is_ok(c) && k < row->result_count; k++) {
        set_result(a, row->result_begin + k, results[k]);
    }
    return is_built || !st_copy_is_ok(c);
}

/* A cast to what its operand has become. */
static bool drop_cast(autocast *a, stator_ref node)
{
    st_copy *c = a->c;
    const stator_node_row *row = stator_node_at(c->v, node);
    const stator_ref value = row->operand_count != 0 ? stator_operand(c->v, row, 0) : 0;
    if (row->op != STATOR_OPCODE_cast || dtype_now(a, value) == dtype_before(a, value) ||
        dtype_now(a, value) != dtype_before(a, row->result_begin)) {
        return false;
    }
    st_copy_replace(c, row->result_begin, c->map[value]);
    return true;
}

static void visit(autocast *a, stator_ref node)
{
    st_copy *c = a->c;
    const stator_node_row *row = stator_node_at(c->v, node);
    if ((st_copy_op(c, node)->flags & FIXED) != 0) {
        copy_as_before(a, node);
        return;
    }
    if (drop_cast(a, node)) {
        return;
    }
    take_operands(a, node);
    if (!st_copy_is_ok(c)) {
        return;
    }
    if (is_as_before(a, row)) {
        st_copy_node(c, node);
        return;
    }
    if (!try_build(a, node)) {
        take_widest(a, row);
        if (!try_build(a, node)) {
            copy_as_before(a, node);
        }
    }
}

/* ---- the graph ---- */

/* What leaves the graph is of the type that it had. */
static void restore(autocast *a, stator_ref value)
{
    st_copy *c = a->c;
    if (st_copy_is_ok(c) && dtype_now(a, value) != dtype_before(a, value)) {
        const stator_ref cast = in_dtype(a, value, dtype_before(a, value));
        if (st_copy_is_ok(c)) {
            st_build_set_witness(c->out, cast, stator_value_at(c->v, value)->witness);
            c->map[value] = cast;
        }
    }
}

static void rewrite(autocast *a)
{
    st_copy *c = a->c;
    uint32_t most = 0;
    for (stator_ref node = 1; node <= c->v->n_nodes; node++) {
        const uint32_t n = stator_node_at(c->v, node)->operand_count;
        most = n > most ? n : most;
    }
    a->operands = st_copy_zalloc(c, most, sizeof *a->operands);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        a->casts[slot] = st_copy_zalloc(c, c->v->n_values, sizeof **a->casts);
    }
    ST_THEN(c->e.status, st_build_clone_inputs(c->out, c->in, c->map, c->e.err));
    for (stator_ref node = 1; st_copy_is_ok(c) && node <= c->v->n_nodes; node++) {
        visit(a, node);
    }
    for (uint32_t k = 0; k < c->v->n_outputs; k++) {
        restore(a, stator_output_at(c->v, k));
    }
    for (uint32_t k = 0; k < c->v->n_write_backs; k++) {
        restore(a, stator_write_back_at(c->v, k)->value);
    }
    st_copy_end(c);
}

static void run(st_copy *c, stator_dtype low)
{
    autocast a = {.c = c, .low = low};
    st_arena_init(&a.attrs, c->ctx->mem);
    rewrite(&a);
    st_arena_deinit(&a.attrs);
}

void st_pass_autocast(st_copy *c)
{
    run(c, STATOR_BF16);
}

void st_pass_autocast_f16(st_copy *c)
{
    run(c, STATOR_F16);
}
