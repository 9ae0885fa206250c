/* Which values get a nest of their own loops: the roots.
 *
 * A root is an output, what a fold makes, what a consumer would ask for many times, or what
 * several consumers need and is dearer to compute again than to load. All else is computed where
 * it is used. After: unit->roots in topological order, each with the roots it reads, every root
 * with a buffer (which the launch plan drops again when nobody outside its kernel needs it). */
#include "codegen/fuse/fuse.h"
#include "codegen/match/match_contraction.h"
#include "codegen/match/quantized_values.h"

#include <stator/ops.h>
#include <stdlib.h>
#include <string.h>

#define CHEAP_COST 8u     /* scalar ops that may be done again rather than loaded */
#define CHEAP_LEAVES 3u   /* loads likewise */
#define SCALE_COST 4u     /* scaling of a byte: two casts, the zero point, the product */
#define FUNCTION_COST 10u /* exp and its like */
#define BROADCAST_RECOMPUTE_OPS                                                                    \
    131072 /* scalar ops in vain that are worth a kernel: some microseconds */
#define COST_MAX 100000u

static bool is_view(const cg_unit *unit, const stator_node_row *row)
{
    return (stator_op_at(unit->view, row->op)->flags & STATOR_OP_VIEW) != 0;
}

/* ---- marks ---- */

/* Bytes widened to i32, or such less a zero point: contractions take the bytes as they are
 * stored. */
static bool is_centred(const cg_unit *unit, const stator_node_row *row)
{
    cg_bytes unused;
    return unit->values[row->result_begin].dtype == STATOR_I32 &&
           cg_centred_of(unit, row->result_begin, &unused);
}

/* A contraction of scaled bytes asks for the bytes; a window, which scales them again each time,
 * too. */
static bool mark_bytes(const cg_unit *unit, const stator_node_row *row, uint8_t *marks)
{
    cg_bytes of[2];
    if (row->op == STATOR_OPCODE_reduce_window) {
        if (!cg_bytes_of(unit, stator_operand(unit->view, row, 0), &of[0])) {
            return false;
        }
        marks[of[0].bytes] = 1;
        return true;
    }
    if (!cg_is_byte_product(unit, row, of)) {
        return false;
    }
    for (uint32_t k = 0; k < 2; k++) {
        marks[of[k].bytes] = 1;
        marks[of[k].zero] = 1;
    }
    for (uint32_t k = 2; k < row->operand_count; k++) {
        marks[stator_operand(unit->view, row, k)] = 1;
    }
    return true;
}

/* The factor that a sum of integers is multiplied with, 0: the node is no such product. */
static stator_ref factor_of(const cg_unit *unit, const stator_node_row *row)
{
    const stator_graph_view *v = unit->view;
    if (row->op != STATOR_OPCODE_mul) {
        return 0;
    }
    for (uint32_t k = 0; k < 2; k++) {
        const stator_ref wide = stator_operand(v, row, k);
        const stator_ref cast = stator_value_at(v, wide)->node;
        const stator_node_row *of = cast ? stator_node_at(v, cast) : NULL;
        if (of == NULL || of->op != STATOR_OPCODE_cast) {
            continue;
        }
        const stator_ref sum = stator_value_at(v, stator_operand(v, of, 0))->node;
        const cg_lowering *lowering = sum ? cg_lowering_of(stator_node_at(v, sum)->op) : NULL;
        if (lowering && lowering->fold && lowering->repeats &&
            unit->values[stator_operand(v, of, 0)].dtype == STATOR_I32) {
            return stator_operand(v, row, 1u - k);
        }
    }
    return 0;
}

/* Marks values that a consumer asks for again and again, and factors of sums of integers; views
 * pass the mark on to what they show. marks[0] is nobody's. */
static void mark_repeated(const cg_unit *unit, uint8_t *marks)
{
    const stator_graph_view *v = unit->view;
    for (stator_ref node = v->n_nodes; node > 0; node--) {
        const stator_node_row *row = stator_node_at(v, node);
        const cg_lowering *lowering = cg_lowering_of(row->op);
        const bool is_marked_view =
            marks[row->result_begin] && (is_view(unit, row) || is_centred(unit, row));
        marks[factor_of(unit, row)] = 1;
        if (is_marked_view) {
            marks[row->result_begin] = 0;
        }
        const bool is_repeating =
            lowering &&
            (lowering->repeats || (lowering->is_fixed && cg_has_library(unit->config, lowering)));
        if (!is_marked_view && !is_repeating) {
            continue;
        }
        if (mark_bytes(unit, row, marks)) {
            continue;
        }
        for (uint32_t k = 0; k < row->operand_count; k++) {
            const stator_ref operand = stator_operand(v, row, k);
            marks[operand] |= (uint8_t)!cg_is_dequantized(unit, operand);
        }
    }
}

/* Marks bytes whose scaled value several nodes read: it is they that are stored, as the values are
 * four times as wide. */
static void mark_scaled(const cg_unit *unit, uint8_t *scaled)
{
    for (stator_ref value = 1; value <= unit->view->n_values; value++) {
        cg_bytes of;
        if (unit->values[value].uses > 1 && cg_bytes_of(unit, value, &of)) {
            scaled[of.bytes] = 1;
        }
    }
}

/* ---- values that a broadcast recomputes ---- */

/* The product, BROADCAST_RECOMPUTE_OPS when it is more; 0 where a size has no hint, which is below
 * 0, or is 0. */
static int64_t times(int64_t a, int64_t b)
{
    if (a <= 0 || b <= 0) {
        return 0;
    }
    return a > BROADCAST_RECOMPUTE_OPS / b ? BROADCAST_RECOMPUTE_OPS : a * b;
}

/* How often loops over `to` that walk its axis `inner` last would make each element of the operand,
 * and how many elements they would make so. What inner loops do not walk is made outside of
 * them. */
static int64_t times_made(const cg_unit *unit, const cg_value *to, const cg_value *of,
                          uint32_t inner, int64_t *out_made)
{
    int64_t repeats = 1;
    int64_t passed = 1; /* steps of loops that the operand does not walk, since it last did */
    *out_made = 1;
    for (uint32_t k = 0; k < to->rank; k++) {
        const uint32_t axis = k + 1u == to->rank ? inner : k + (k >= inner);
        const int64_t size = st_sym_size_hint(&unit->syms->tab, to->dims[axis]);
        const bool is_walked =
            axis + of->rank >= to->rank && !cg_is_one(unit, of->dims[axis + of->rank - to->rank]);
        if (is_walked) {
            repeats = times(repeats, passed);
            *out_made = times(*out_made, times(passed, size));
        }
        passed = is_walked ? 1 : times(passed, size);
    }
    return repeats;
}

/* Would a consumer with the result `to` make the operand again and again, at a cost that a kernel
 * of its own does not have? Images may be walked with their channels last. */
static bool is_broadcast_recomputed(const cg_unit *unit, stator_ref to, stator_ref operand)
{
    const cg_value *wide = &unit->values[to];
    const cg_value *of = &unit->values[operand];
    const uint32_t last = wide->rank ? wide->rank - 1u : 0;
    const uint32_t inner[2] = {last, wide->rank > 2u ? 1u : last};
    for (uint32_t k = 0; k < 2 && operand && of->rank <= wide->rank; k++) {
        int64_t made = 0;
        if (times_made(unit, wide, of, inner[k], &made) > 1 &&
            made >= BROADCAST_RECOMPUTE_OPS / FUNCTION_COST) {
            return true;
        }
    }
    return false;
}

/* Marks values that loops of their consumers would compute many times over; views pass it on. */
static void mark_broadcast_recompute(const cg_unit *unit, uint8_t *recomputed)
{
    const stator_graph_view *v = unit->view;
    for (stator_ref node = v->n_nodes; node > 0; node--) {
        const stator_node_row *row = stator_node_at(v, node);
        const stator_op_desc *op = stator_op_at(v, row->op);
        const bool is_marked_view = recomputed[row->result_begin] && is_view(unit, row);
        if (!is_marked_view && !(op->flags & STATOR_OP_POINTWISE) &&
            row->op != STATOR_OPCODE_expand) {
            continue;
        }
        for (uint32_t k = 0; k < row->operand_count; k++) {
            const stator_ref operand = stator_operand(v, row, k);
            recomputed[operand] |=
                (uint8_t)(is_marked_view ||
                          is_broadcast_recomputed(unit, row->result_begin, operand));
        }
    }
}

/* ---- cost ---- */

static void add_cost(cg_value *to, uint32_t cost, uint32_t leaves)
{
    to->cost = to->cost + cost > COST_MAX ? COST_MAX : to->cost + cost;
    to->leaves = to->leaves + leaves > COST_MAX ? COST_MAX : to->leaves + leaves;
}

static void compute_cost(const cg_unit *unit, const stator_node_row *row,
                         const cg_lowering *lowering, cg_value *out)
{
    const st_loop_op_desc *scalar = st_loop_desc(lowering->code);
    out->cost = scalar && scalar->libm ? FUNCTION_COST : lowering->cost;
    out->leaves = 0;
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref operand = stator_operand(unit->view, row, k);
        const cg_value *v = &unit->values[operand];
        if (operand == 0 || (v->flags & CG_VALUE_SPLAT)) {
            continue;
        }
        if (v->root || v->buffer != CG_NO_BUFFER) {
            add_cost(out, 0, 1);
        } else {
            add_cost(out, v->cost, v->leaves);
        }
    }
}

/* ---- roots ---- */

static stator_status add_root(cg_unit *unit, stator_ref value, stator_ref node, stator_diag **err)
{
    cg_value *v = &unit->values[value];
    cg_root *root = st_vec_push(unit->mem, &unit->roots);
    ST_TRY_MEM(root, err);
    *root = (cg_root){
        .value = value, .node = node, .group = UINT32_MAX, .stage = cg_stage_of(unit, node)};
    if (node) {
        const cg_node n = cg_node_of(unit, node);
        root->lowering = cg_lowering_of(n.row->op);
        root->is_fold = root->lowering->fold != NULL;
        if (root->is_fold) {
            root->lowering->fold(&n, &root->fold);
        }
    }
    v->root = unit->roots.count;
    v->flags |= CG_VALUE_ROOT;
    cg_buffer *buffer = st_vec_push(unit->mem, &unit->buffers);
    ST_TRY_MEM(buffer, err);
    uint32_t numel = cg_numel(unit, value);
    if (numel == 0 && node) {
        ST_TRY(
            cg_decline(unit, node, "an element count exceeds the limit of 16 terms, depth 4", err));
        numel = st_sym_int(&unit->syms->tab, 0);
    }
    *buffer =
        (cg_buffer){.kind = CG_BUFFER_WORK, .dtype = v->dtype, .numel = numel, .value = value};
    v->buffer = unit->buffers.count - 1u;
    return STATOR_OK;
}

/* Is the root a contraction of integers, or of values that stand for bytes? */
static bool is_integer_product(const cg_unit *unit, const cg_root *root)
{
    cg_bytes unused[2];
    return root->is_fold && root->lowering->repeats &&
           (unit->values[root->value].dtype == STATOR_I32 ||
            cg_is_byte_product(unit, stator_node_at(unit->view, root->node), unused));
}

/* Is the value made, by steps that are not stored, of the sums of a contraction of integers? A
 * library writes it instead of the sums. */
static bool is_of_integers(const cg_unit *unit, stator_ref value, uint32_t depth)
{
    const cg_value *v = &unit->values[value];
    const stator_graph_view *view = unit->view;
    const stator_ref node = stator_value_at(view, value)->node;
    if (v->root) {
        return is_integer_product(unit, &unit->roots.data[v->root - 1u]);
    }
    if (node == 0 || v->buffer != CG_NO_BUFFER || (v->flags & CG_VALUE_SPLAT) || depth == 0) {
        return false;
    }
    const stator_node_row *row = stator_node_at(view, node);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        if (is_of_integers(unit, stator_operand(view, row, k), depth - 1u)) {
            return true;
        }
    }
    return false;
}

/* Marks values that a reduction folds over axis 1 alone. */
static void mark_channel_folds(cg_unit *unit, uint8_t *marks)
{
    for (stator_ref ref = 1; ref <= unit->view->n_nodes; ref++) {
        const cg_node node = cg_node_of(unit, ref);
        const cg_lowering *lowering = cg_lowering_of(node.row->op);
        cg_fold fold = {0};
        if (lowering && lowering->fold && !lowering->repeats) {
            lowering->fold(&node, &fold);
        }
        if (fold.is_reduction && fold.n_inner == 1 && fold.at[0] == 1) {
            marks[stator_operand(unit->view, node.row, 0)] = 1;
        }
    }
}

/* Marks values that a node other than a product or a convolution reads. */
static void mark_unmultiplied(cg_unit *unit, uint8_t *marks)
{
    const stator_graph_view *v = unit->view;
    for (stator_ref ref = 1; ref <= v->n_nodes; ref++) {
        const stator_node_row *row = stator_node_at(v, ref);
        if (!cg_sums_products(row)) {
            for (uint32_t k = 0; k < row->operand_count; k++) {
                marks[stator_operand(v, row, k)] = 1;
            }
        }
    }
}

/* How values are used, by value. */
typedef struct uses {
    uint8_t *marks;         /* asked for again and again */
    uint8_t *recomputed;    /* made again and again */
    uint8_t *scaled;        /* bytes, scaled for several */
    uint8_t *outputs;       /* outputs of the graph */
    uint8_t *channel_folds; /* a reduction folds axis 1 alone */
    uint8_t *unmultiplied;  /* a node other than a product or a convolution reads it */
} uses;

static bool wants_root(const cg_unit *unit, const stator_node_row *row, const cg_lowering *lowering,
                       stator_ref value, const uses *by)
{
    const cg_value *v = &unit->values[value];
    if (lowering->fold || lowering->write || row->result_count > 1) {
        return true;
    }
    if (is_view(unit, row) || v->uses == 0) {
        return false;
    }
    const bool is_dear = v->cost > CHEAP_COST || v->leaves > CHEAP_LEAVES;
    /* Sums made bytes again: the library stores nothing wider. */
    if (unit->config->emitter->library && cg_is_byte(v->dtype) && row->op == STATOR_OPCODE_cast &&
        is_of_integers(unit, value, CHEAP_COST)) {
        return true;
    }
    if (by->scaled[value] && (v->cost + SCALE_COST > CHEAP_COST || v->leaves > CHEAP_LEAVES)) {
        return true;
    }
    return (by->marks[value] && v->cost > 0) || (by->recomputed[value] && v->cost > CHEAP_COST) ||
           (v->uses > 1 && (is_dear || is_of_integers(unit, value, CHEAP_COST)));
}

/* Does the library take the contraction that the newest root is, alone? */
static stator_status probe(cg_unit *unit, bool *out_is_taken, stator_diag **err)
{
    const uint32_t root_index = unit->roots.count - 1u;
    cg_fusion_group *group = st_vec_push(unit->mem, &unit->groups);
    uint32_t *root = NULL;
    *out_is_taken = false;
    if (group) {
        *group = (cg_fusion_group){.rank = 0};
        root = st_vec_push(unit->mem, &group->roots);
    }
    ST_TRY_MEM(root, err);
    *root = root_index;
    unit->roots.data[root_index].group = unit->groups.count - 1u;
    cg_domain_of(unit, &unit->roots.data[root_index], group);
    st_kernel trial;
    st_contraction contraction;
    const char *why = NULL;
    const uint32_t self = unit->groups.count - 1u;
    stator_status status = cg_build_kernel(unit, self, &trial, &why, err);
    if (status == STATOR_OK) {
        status = unit->values[unit->roots.data[root_index].value].uses == 1
                     ? cg_may_match(unit, self, &trial, out_is_taken, err)
                     : cg_match(unit, self, &trial, &contraction, out_is_taken, err);
        st_kernel_deinit(&trial);
    }
    unit->roots.data[root_index].group = UINT32_MAX;
    unit->groups.count--;
    st_vec_free(unit->mem, &unit->groups.data[unit->groups.count].roots);
    return status == STATOR_UNSUPPORTED && why ? STATOR_OK : status;
}

/* The newest root is none after all. */
static void drop_root(cg_unit *unit)
{
    cg_value *v = &unit->values[unit->roots.data[unit->roots.count - 1u].value];
    v->root = 0;
    v->flags &= ~(uint32_t)CG_VALUE_ROOT;
    v->buffer = CG_NO_BUFFER;
    unit->roots.count--;
    unit->buffers.count--;
}

/* Is the operand there, and neither stored nor one known number? */
static bool is_unstored(const cg_unit *unit, stator_ref operand)
{
    const cg_value *v = &unit->values[operand];
    return operand && v->buffer == CG_NO_BUFFER && !(v->flags & CG_VALUE_SPLAT);
}

/* Makes the contraction a root behind copies of those of its operands whose bits are set and
 * that are not stored. *out_is_taken: the library does it. Else, unless it is to be kept, all
 * are dropped. */
static stator_status try_copies(cg_unit *unit, stator_ref value, stator_ref node, uint32_t copies,
                                bool is_kept, bool *out_is_taken, stator_diag **err)
{
    const cg_node n = cg_node_of(unit, node);
    const uint32_t before = unit->roots.count;
    *out_is_taken = false;
    for (uint32_t k = 0; k < 2; k++) {
        const stator_ref operand = cg_operand(&n, k);
        if (copies & 1u << k && is_unstored(unit, operand)) {
            ST_TRY(add_root(unit, operand, stator_value_at(unit->view, operand)->node, err));
        }
    }
    if (copies && unit->roots.count == before && !is_kept) {
        return STATOR_OK; /* no root came of it: the copies are as good as none */
    }
    ST_TRY(add_root(unit, value, node, err));
    if (is_kept) {
        return STATOR_OK;
    }
    ST_TRY(probe(unit, out_is_taken, err));
    while (!*out_is_taken && unit->roots.count > before) {
        drop_root(unit);
    }
    return STATOR_OK;
}

/* A contraction that a library would take but for views whose elements are no strides apart gets
 * copies of them to read, of one operand if that is enough. */
static stator_status add_contraction(cg_unit *unit, stator_ref value, stator_ref node,
                                     stator_diag **err)
{
    static const uint32_t tries[] = {0, 1, 2}; /* bits of operands */
    const cg_node n = cg_node_of(unit, node);
    const bool has_library =
        unit->config->emitter->library && n.row->op != STATOR_OPCODE_reduce_window;
    bool is_taken = false;
    for (uint32_t i = 0; has_library && i < 3 && !is_taken; i++) {
        ST_TRY(try_copies(unit, value, node, tries[i], false, &is_taken, err));
    }
    if (is_taken) {
        return STATOR_OK;
    }
    /* A GPU's tiles read any index. */
    const bool has_copies = has_library && unit->config->emitter->target.kind != ST_TARGET_GPU;
    return try_copies(unit, value, node, has_copies ? 3u : 0u, true, &is_taken, err);
}

/* A contraction of a library needs operands at strides: an operand that is none is stored for the
 * node. */
static stator_status add_whole(cg_unit *unit, stator_ref value, stator_ref node, stator_diag **err)
{
    const cg_node n = cg_node_of(unit, node);
    const bool has_library = cg_has_library(unit->config, cg_lowering_of(n.row->op));
    for (uint32_t k = 0; has_library && k < n.row->operand_count; k++) {
        const stator_ref operand = cg_operand(&n, k);
        cg_strided unused;
        const bool is_strided =
            !is_unstored(unit, operand) || cg_strided_of(unit, operand, &unused);
        ST_TRY_MEM(!unit->is_oom, err);
        if (!is_strided) {
            ST_TRY(add_root(unit, operand, stator_value_at(unit->view, operand)->node, err));
        }
    }
    return add_root(unit, value, node, err);
}

/* A loop reads its operands as they lie in memory; a number that all steps share is known to the
 * body. */
static stator_status add_loop_operands(cg_unit *unit, const stator_node_row *row, stator_diag **err)
{
    const uint32_t carried = (uint32_t)stator_attr_at(unit->view, row, STATOR_scan_carried)->i;
    const uint32_t scanned = (uint32_t)stator_attr_at(unit->view, row, STATOR_scan_scanned)->i;
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref operand = stator_operand(unit->view, row, k);
        cg_value *v = &unit->values[operand];
        const bool is_number = (v->flags & CG_VALUE_SPLAT) && k >= carried + scanned;
        v->flags |= CG_VALUE_DENSE;
        if (v->buffer == CG_NO_BUFFER && !is_number) {
            ST_TRY(add_root(unit, operand, stator_value_at(unit->view, operand)->node, err));
        }
    }
    for (uint32_t k = 0; k < row->result_count; k++) {
        unit->values[row->result_begin + k].flags |= CG_VALUE_DENSE;
    }
    return STATOR_OK;
}

/* ---- storage order: transposes ---- */

static bool set_order(cg_unit *unit, cg_value *v, const uint32_t *order)
{
    uint32_t *kept = st_arena_zalloc(&unit->arena, v->rank, sizeof *kept);
    if (kept) {
        memcpy(kept, order, v->rank * sizeof *kept);
        v->order = kept;
    }
    return kept != NULL;
}

/* Does the transpose show the last axis as channels (axis 1), as a sequence is seen as an image? */
static bool shows_channels(const cg_node *transpose)
{
    const uint32_t rank = transpose->out->rank;
    return rank > 2u && cg_attr_axis_at(transpose, STATOR_transpose_perm, 1, rank) == rank - 1u;
}

/* Do libraries multiply these, in either order of a matrix? */
static bool is_multiplied_in_place(uint32_t dtype)
{
    return dtype == STATOR_F32 || cg_is_half(dtype);
}

/* A value that is only ever seen transposed is stored so: then the transpose moves nothing. A
 * matrix that is no fold and then multiplied by a library stays as its operands are: weights
 * cast for both parts of a training step. Where it shows channels, what is made element by
 * element stays as its operands are, which may lie with channels last, and so does a fold whose
 * channels are folded in turn (the scores of a loss), since neighbours are then folded, by whole
 * vectors. `user`: a node that reads it. */
static bool follow_transpose(cg_unit *unit, stator_ref value, stator_ref user, const uses *by)
{
    cg_value *v = &unit->values[value];
    uint32_t order[CG_RANK_MAX];
    if (unit->config->emitter->library == NULL || v->root == 0 || v->uses != 1 || user == 0) {
        return true;
    }
    const cg_node node = cg_node_of(unit, user);
    if (node.row->op != STATOR_OPCODE_transpose) {
        return true;
    }
    const bool is_fold = unit->roots.data[v->root - 1u].is_fold;
    const stator_ref shown = node.row->result_begin;
    if (v->rank == 2 && !is_fold && is_multiplied_in_place(v->dtype) && !by->outputs[shown] &&
        !by->unmultiplied[shown]) {
        return true;
    }
    if (shows_channels(&node) && (!is_fold || by->channel_folds[shown])) {
        return true;
    }
    for (uint32_t a = 0; a < v->rank; a++) {
        order[a] = cg_attr_axis_at(&node, STATOR_transpose_perm, a, v->rank);
    }
    return set_order(unit, v, order);
}

/* A node that reads the value, by value. NULL: no memory. */
static stator_ref *note_users(cg_unit *unit)
{
    const stator_graph_view *v = unit->view;
    stator_ref *users = st_arena_zalloc(&unit->arena, (uint64_t)v->n_values + 1u, sizeof *users);
    for (stator_ref node = 1; users && node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        for (uint32_t k = 0; k < row->operand_count; k++) {
            users[stator_operand(v, row, k)] = node;
        }
    }
    return users;
}

static stator_status make_node_roots(cg_unit *unit, const uses *by, stator_diag **err)
{
    const stator_graph_view *v = unit->view;
    const stator_ref *users = note_users(unit);
    ST_TRY_MEM(users, err);
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        const cg_lowering *lowering = cg_lowering_of(row->op);
        ST_FAIL_IF(lowering == NULL, err, STATOR_UNSUPPORTED, "op '%s' has no lowering",
                   stator_op_at(v, row->op)->name);
        if (lowering->is_loop) {
            ST_TRY(add_loop_operands(unit, row, err));
        }
        for (uint32_t k = 0; k < row->result_count; k++) {
            const stator_ref value = row->result_begin + k;
            cg_value *out = &unit->values[value];
            if (out->flags & CG_VALUE_SPLAT || out->buffer != CG_NO_BUFFER) {
                continue; /* a constant */
            }
            compute_cost(unit, row, lowering, out);
            if (lowering->contraction) {
                ST_TRY(add_whole(unit, value, node, err));
            } else if (lowering->fold && lowering->repeats) {
                ST_TRY(add_contraction(unit, value, node, err));
            } else if (by->outputs[value] || cg_is_bind(unit, node) ||
                       wants_root(unit, row, lowering, value, by)) {
                ST_TRY(add_root(unit, value, node, err));
            }
            const bool is_free = !by->outputs[value] && !(out->flags & CG_VALUE_DENSE);
            ST_TRY_MEM(!is_free || follow_transpose(unit, value, users[value], by), err);
        }
    }
    return STATOR_OK;
}

static int by_value(const void *a, const void *b)
{
    const stator_ref x = ((const cg_root *)a)->value;
    const stator_ref y = ((const cg_root *)b)->value;
    return (x > y) - (x < y);
}

/* Copies for contractions were made behind roots that read them. */
static void sort_roots(cg_unit *unit)
{
    if (unit->roots.count) {
        qsort(unit->roots.data, unit->roots.count, sizeof *unit->roots.data, by_value);
    }
    for (uint32_t i = 0; i < unit->roots.count; i++) {
        unit->values[unit->roots.data[i].value].root = i + 1u;
    }
}

/* ---- outputs ---- */

static stator_status add_copy(cg_unit *unit, uint32_t k, stator_diag **err)
{
    const stator_ref source = stator_output_at(unit->view, k);
    const stator_ref value = unit->view->n_values + 1u + k;
    unit->values[value] = (cg_value){.dims = unit->values[source].dims,
                                     .rank = unit->values[source].rank,
                                     .dtype = unit->values[source].dtype,
                                     .buffer = CG_NO_BUFFER};
    ST_TRY(add_root(unit, value, 0, err));
    unit->roots.data[unit->roots.count - 1u].source = source;
    unit->buffers.data[unit->values[value].buffer].kind = CG_BUFFER_OUTPUT;
    unit->buffers.data[unit->values[value].buffer].index = k;
    return STATOR_OK;
}

/* The first output that names a root takes its buffer; inputs, constants and repeats are copied. */
static stator_status give_outputs(cg_unit *unit, stator_diag **err)
{
    const stator_graph_view *v = unit->view;
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        const stator_ref value = stator_output_at(v, k);
        const cg_value *out = &unit->values[value];
        cg_buffer *buffer = out->root ? &unit->buffers.data[out->buffer] : NULL;
        if (stator_value_type(v, value)->dtype != out->dtype) {
            ST_TRY(cg_decline(unit, stator_value_at(v, value)->node,
                              "a result of integers of four bits", err));
        }
        if (buffer && buffer->kind == CG_BUFFER_WORK) {
            buffer->kind = CG_BUFFER_OUTPUT;
            buffer->index = k;
        } else {
            ST_TRY(add_copy(unit, k, err));
        }
    }
    return STATOR_OK;
}

/* ---- what each root reads ---- */

static stator_status note_needs(cg_unit *unit, uint32_t root_index, uint32_t *stamps,
                                stator_ref *stack, stator_diag **err)
{
    const stator_graph_view *v = unit->view;
    uint32_t depth = 0;
    cg_root *root = &unit->roots.data[root_index];
    root->first_need = unit->needs.count;
    stack[depth++] = root->node ? root->value : root->source;
    for (bool is_first = root->node != 0; depth > 0; is_first = false) {
        const stator_ref value = stack[--depth];
        const cg_value *at = &unit->values[value];
        if (stamps[value] == root_index + 1u) {
            continue;
        }
        stamps[value] = root_index + 1u;
        if (at->root && !is_first) {
            uint32_t *need = st_vec_push(unit->mem, &unit->needs);
            ST_TRY_MEM(need, err);
            *need = at->root - 1u;
            continue;
        }
        const stator_ref node = stator_value_at(v, value)->node;
        if (node == 0 || (at->buffer != CG_NO_BUFFER && !is_first)) {
            continue;
        }
        const stator_node_row *row = stator_node_at(v, node);
        for (uint32_t k = 0; k < row->operand_count; k++) {
            const stator_ref operand = stator_operand(v, row, k);
            if (operand && stamps[operand] != root_index + 1u) {
                stack[depth++] = operand;
            }
        }
    }
    root->n_needs = unit->needs.count - root->first_need;
    return STATOR_OK;
}

/* The same edges the other way round. */
static stator_status note_readers(cg_unit *unit, stator_diag **err)
{
    uint32_t next = 0;
    unit->readers = st_arena_zalloc(&unit->arena, (uint64_t)unit->needs.count + 1u, 4);
    ST_TRY_MEM(unit->readers, err);
    for (uint32_t i = 0; i < unit->needs.count; i++) {
        unit->roots.data[unit->needs.data[i]].n_readers++;
    }
    for (uint32_t root_index = 0; root_index < unit->roots.count; root_index++) {
        cg_root *root = &unit->roots.data[root_index];
        root->first_reader = next;
        next += root->n_readers;
        root->n_readers = 0;
    }
    for (uint32_t root_index = 0; root_index < unit->roots.count; root_index++) {
        const cg_root *root = &unit->roots.data[root_index];
        for (uint32_t k = 0; k < root->n_needs; k++) {
            cg_root *need = &unit->roots.data[unit->needs.data[root->first_need + k]];
            unit->readers[need->first_reader + need->n_readers++] = root_index;
        }
    }
    return STATOR_OK;
}

/* May a step of the root fail in a call? A library's may, and loops that a node writes itself. */
static bool may_fail(const cg_unit *unit, const cg_root *root)
{
    return (root->lowering && root->lowering->write) || cg_may_be_library(unit, root);
}

/* Marks the roots that are written over inputs, and those whose kernels may come last in the plan,
 * where a call that writes over its inputs has nothing left that can fail (plan_write_backs.c). */
static void mark_written(cg_unit *unit)
{
    for (uint32_t k = 0; k < unit->view->n_write_backs; k++) {
        const uint32_t root = unit->values[stator_write_back_at(unit->view, k)->value].root;
        if (root != 0) {
            unit->roots.data[root - 1u].is_written = 1;
        }
    }
    for (uint32_t root_index = unit->roots.count; root_index-- > 0;) {
        cg_root *root = &unit->roots.data[root_index];
        root->may_sink = 1;
        for (uint32_t k = 0; k < root->n_readers; k++) {
            const cg_root *reader = &unit->roots.data[unit->readers[root->first_reader + k]];
            root->may_sink &= (uint32_t)(reader->may_sink && !may_fail(unit, reader));
        }
    }
}

static stator_status note_all_needs(cg_unit *unit, stator_diag **err)
{
    const stator_graph_view *v = unit->view;
    uint64_t n_operands = 1; /* each operand is pushed at most once a root */
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        n_operands += stator_node_at(v, node)->operand_count;
    }
    uint32_t *stamps =
        st_arena_zalloc(&unit->arena, (uint64_t)v->n_values + v->n_outputs + 1u, sizeof *stamps);
    stator_ref *stack = st_arena_zalloc(&unit->arena, n_operands + 1u, sizeof *stack);
    ST_TRY_MEM(stamps && stack, err);
    for (uint32_t root_index = 0; root_index < unit->roots.count; root_index++) {
        ST_TRY(note_needs(unit, root_index, stamps, stack, err));
    }
    ST_TRY(note_readers(unit, err));
    mark_written(unit);
    return STATOR_OK;
}

/* ---- storage order: channels ---- */

static bool is_op(const cg_unit *unit, const cg_root *root, uint32_t op)
{
    return root->node && stator_node_at(unit->view, root->node)->op == op;
}

static bool is_factor(const cg_unit *unit, const cg_root *root)
{
    for (uint32_t k = 0; k < root->n_readers; k++) {
        const cg_root *reader = &unit->roots.data[unit->readers[root->first_reader + k]];
        if (is_op(unit, reader, STATOR_OPCODE_dot_general)) {
            return true;
        }
    }
    return false;
}

/* Convolutions read and write their channels as neighbours when a library does them; what is made
 * of their results element by element, window by window, concatenated or channel by channel is
 * stored alike, and so is what is made of values of which views show that they lie so. But not the
 * factors of products, which sum over rows of them, nor products of other sizes. */
static bool follow_channels(cg_unit *unit, const cg_root *root)
{
    cg_value *v = &unit->values[root->value];
    bool is_last =
        is_op(unit, root, STATOR_OPCODE_conv) || is_op(unit, root, STATOR_OPCODE_conv_transpose);
    for (uint32_t k = 0; k < root->n_needs && !is_last; k++) {
        const cg_root *need = &unit->roots.data[unit->needs.data[root->first_need + k]];
        const cg_value *from = &unit->values[need->value];
        const bool is_alike =
            from->rank == v->rank &&
            (memcmp(from->dims, v->dims, v->rank * sizeof *v->dims) == 0 ||
             is_op(unit, root, STATOR_OPCODE_reduce_window) ||
             is_op(unit, root, STATOR_OPCODE_concat) ||
             (v->rank > 2 && from->dims[0] == v->dims[0] && from->dims[1] == v->dims[1] &&
              !is_op(unit, root, STATOR_OPCODE_dot_general)));
        is_last = is_alike && from->order && from->order[from->rank - 1u] == 1u;
    }
    if (v->rank < 3 || is_op(unit, root, STATOR_OPCODE_conv_weight_grad) ||
        (!is_last && (is_factor(unit, root) || !cg_reads_channels(unit, root)))) {
        return true;
    }
    uint32_t order[CG_RANK_MAX] = {0};
    for (uint32_t a = 1; a < v->rank; a++) {
        order[a] = a + 1u < v->rank ? a + 1u : 1u;
    }
    return set_order(unit, v, order);
}

static stator_status choose_layouts(cg_unit *unit, stator_diag **err)
{
    /* A GPU's library has none: a tile of a generated one reads neighbouring pixels. */
    const st_emitter *emitter = unit->config->emitter;
    const bool has_convolutions = emitter->library && emitter->target.kind != ST_TARGET_GPU;
    for (uint32_t root_index = 0; has_convolutions && root_index < unit->roots.count;
         root_index++) {
        const cg_root *root = &unit->roots.data[root_index];
        const cg_value *value = &unit->values[root->value];
        if (unit->buffers.data[value->buffer].kind == CG_BUFFER_WORK &&
            !(value->flags & CG_VALUE_DENSE) && value->order == NULL) {
            ST_TRY_MEM(follow_channels(unit, root) && !unit->is_oom, err);
        }
    }
    return STATOR_OK;
}

stator_status cg_make_roots(cg_unit *unit, stator_diag **err)
{
    const stator_graph_view *v = unit->view;
    const uint64_t n = (uint64_t)v->n_values + 1u;
    uint8_t *marks = st_arena_zalloc(&unit->arena, n, 6);
    ST_TRY_MEM(marks, err);
    const uses by = {.marks = marks,
                     .recomputed = marks + n,
                     .scaled = marks + 2u * n,
                     .outputs = marks + 3u * n,
                     .channel_folds = marks + 4u * n,
                     .unmultiplied = marks + 5u * n};
    ST_TRY(cg_find_binds(unit, err));
    mark_repeated(unit, by.marks);
    mark_broadcast_recompute(unit, by.recomputed);
    mark_scaled(unit, by.scaled);
    mark_channel_folds(unit, by.channel_folds);
    mark_unmultiplied(unit, by.unmultiplied);
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        by.outputs[stator_output_at(v, k)] = 1;
    }
    ST_TRY(make_node_roots(unit, &by, err));
    sort_roots(unit);
    ST_TRY(give_outputs(unit, err));
    ST_TRY(note_all_needs(unit, err));
    return choose_layouts(unit, err);
}
