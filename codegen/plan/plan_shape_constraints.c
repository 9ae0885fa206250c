/* Shape constraints of ops that the graph alone cannot decide.
 *
 * An infer rule refuses sizes that are proved to differ and lets unknown ones pass; kernels then
 * take two sizes for one, and would read past the end of the shorter operand. So each node states
 * here what its operands must obey, as a kernel of `eager` tests it. A constraint that is proved
 * costs nothing; the others belong to the executable and are tested once a call, when the sizes of
 * their stage are known and before a kernel of that stage runs. The cache and packages keep them.
 * The elements of values that only kernels see are counted too: loops take sizes that wrap, or
 * quotients by 0, as they come, where `eager` fails because it cannot make the shape.
 *
 *     x[N, 3] + y[M, 3]  ->  N fits max(N, M);  M fits max(N, M)
 *     iota of [N*N]      ->  N*N times 8 bytes is a number */
#include "codegen/lower/lower.h"
#include "codegen/plan/plan.h"

#include "core/base/check.h"

#include <stator/ops.h>
#include <stdio.h>
#include <string.h>

typedef struct finder {
    cg_unit *unit;
    st_cg_exe *exe;
    cg_node node;
    const char *beyond_limits; /* why a size of this node has no sym */
    st_hashset seen;           /* constraints so far, by kind, stage and sizes */
    st_vec(uint32_t) syms;     /* CG_RANK_MAX of each constraint, 0 behind the last */
    stator_status status;
    stator_diag **err;
} finder;

/* ---- constraints ---- */

static bool same_constraint(void *self, uint32_t id)
{
    const finder *f = self;
    const uint32_t newest = f->exe->shape_constraints.count - 1u;
    const cg_shape_constraint *a = &f->exe->shape_constraints.data[id - 1u];
    const cg_shape_constraint *b = &f->exe->shape_constraints.data[newest];
    return a->kind == b->kind && a->stage == b->stage && a->step == b->step &&
           memcmp(f->syms.data + CG_RANK_MAX * (id - 1u), f->syms.data + CG_RANK_MAX * newest,
                  CG_RANK_MAX * sizeof(uint32_t)) == 0;
}

static const char *constraint_text(const finder *f, const char *what)
{
    const stator_graph_view *v = f->unit->view;
    const stator_node_row *row = f->node.row;
    const char *name = stator_node_origin(v, f->node.ref);
    st_str text;
    st_str_init(&text, f->unit->mem);
    st_str_add(&text, stator_op_at(v, row->op)->name);
    if (*name) {
        st_str_addf(&text, " '%.200s'", name);
    }
    st_str_addf(&text, ": %s", what);
    return cg_keep_text(f->exe, &text);
}

/* Compiles the sizes of the newest constraint; drops it when there is one like it. */
static stator_status finish_constraint(finder *f)
{
    const st_sym_cols cols = st_sym_columns(&f->exe->syms.tab);
    const uint32_t id = f->exe->shape_constraints.count;
    cg_shape_constraint *a = &f->exe->shape_constraints.data[id - 1u];
    const uint32_t *syms = f->syms.data + CG_RANK_MAX * (id - 1u);
    const uint64_t hash = st_hash64(syms, CG_RANK_MAX * sizeof *syms, a->kind + 8u * a->stage);
    if (st_hashset_find(&f->seen, hash, same_constraint, f)) {
        f->exe->shape_constraints.count--;
        f->syms.count -= CG_RANK_MAX;
        return STATOR_OK;
    }
    a->size = st_arena_zalloc(&f->exe->arena, CG_RANK_MAX, sizeof *a->size);
    ST_TRY_MEM(a->size, f->err);
    for (uint32_t i = 0; i < CG_RANK_MAX && syms[i]; i++) {
        ST_TRY_MEM(st_symprog_init(&a->size[i], f->exe->config.mem, &cols, syms[i]), f->err);
        a->n_sizes++;
    }
    return st_hashset_add(&f->seen, hash, id) ? STATOR_OK : st_fail_oom(f->err);
}

/* Adds a constraint of the node on n sizes. */
static void constrain_all(finder *f, cg_shape_constraint constraint, const uint32_t *syms,
                          uint32_t n, const char *what)
{
    if (f->status != STATOR_OK) {
        return;
    }
    constraint.text = constraint_text(f, what);
    constraint.stage = cg_stage_of(f->unit, f->node.ref);
    cg_shape_constraint *at =
        constraint.text ? st_vec_push(f->exe->config.mem, &f->exe->shape_constraints) : NULL;
    if (at == NULL || !st_vec_resize(f->unit->mem, &f->syms, f->syms.count + CG_RANK_MAX)) {
        f->exe->shape_constraints.count -= at != NULL;
        f->status = st_fail_oom(f->err);
        return;
    }
    *at = constraint;
    uint32_t *kept = f->syms.data + f->syms.count - CG_RANK_MAX;
    memset(kept, 0, CG_RANK_MAX * sizeof *kept);
    memcpy(kept, syms, n * sizeof *syms);
    f->status = finish_constraint(f);
}

/* The same for two sizes. */
static void constrain(finder *f, uint32_t kind, uint32_t a, uint32_t b, const char *what)
{
    const uint32_t syms[2] = {a, b};
    constrain_all(f, (cg_shape_constraint){.kind = kind}, syms, 2, what);
}

static void constrain_equal(finder *f, uint32_t a, uint32_t b, const char *what)
{
    if (a == 0 || b == 0) {
        f->beyond_limits = "sizes that must be equal exceed the limit of 16 terms, depth 4";
    } else if (st_sym_eq(&f->unit->syms->tab, a, b) != 1) {
        constrain(f, ST_SHAPE_CONSTRAINT_EQUAL, a, b, what);
    }
}

static void constrain_fit(finder *f, uint32_t k, uint32_t axis, uint32_t size, uint32_t wanted)
{
    char what[96];
    if (!cg_is_one(f->unit, size) && st_sym_eq(&f->unit->syms->tab, size, wanted) != 1) {
        (void)snprintf(what, sizeof what, "operand %u does not broadcast to the result: axis %u", k,
                       axis);
        constrain(f, ST_SHAPE_CONSTRAINT_FITS, size, wanted, what);
    }
}

/* AT_MOST, or FILLED: `a` is 1 where an element is needed, a number of the test that says nothing
 * to a reader. */
static void constrain_order(finder *f, uint32_t kind, uint32_t a, uint32_t b, const char *what)
{
    if (st_sym_le(&f->unit->syms->tab, a, b) != 1) {
        constrain(f, kind, a, b, what);
    }
}

/* ---- what ops need ---- */

static const cg_value *operand_of(const finder *f, uint32_t k)
{
    const stator_ref operand = k < f->node.row->operand_count ? cg_operand(&f->node, k) : 0;
    return operand ? cg_value_of(f->unit, operand) : NULL;
}

/* Every operand to the result, axes counted from the last. */
static void constrain_expand(finder *f)
{
    const cg_value *out = f->node.out;
    for (uint32_t k = 0; k < f->node.row->operand_count; k++) {
        const cg_value *v = operand_of(f, k);
        for (uint32_t a = 0; v && a < v->rank; a++) {
            constrain_fit(f, k, a, v->dims[a], out->dims[a + out->rank - v->rank]);
        }
    }
}

/* A product beyond the limits may still be proved equal to the other without the axes that both
 * begin with; those may be empty, so what is not proved cannot be tested without them. */
static void constrain_reshape(finder *f)
{
    st_symtab *tab = &f->unit->syms->tab;
    const cg_value *x = operand_of(f, 0);
    const cg_value *out = f->node.out;
    uint32_t front = 0;
    uint32_t from = cg_product(tab, x->dims, x->rank);
    uint32_t to = cg_product(tab, out->dims, out->rank);
    if (from == 0 || to == 0) {
        while (front < x->rank && front < out->rank && x->dims[front] == out->dims[front]) {
            front++;
        }
        from = cg_product(tab, x->dims + front, x->rank - front);
        to = cg_product(tab, out->dims + front, out->rank - front);
        to = from && to && st_sym_eq(tab, from, to) == 1 ? to : 0;
    }
    constrain_equal(f, from, to, "elements of x and of the new shape");
}

/* start and last index lie in the axis, unless nothing is taken. */
static void constrain_slice(finder *f)
{
    const cg_value *x = operand_of(f, 0);
    st_symtab *tab = &f->unit->syms->tab;
    const uint32_t one = st_sym_int(tab, 1);
    for (uint32_t a = 0; a < x->rank; a++) {
        const uint32_t start = cg_attr_dim(&f->node, STATOR_slice_starts, a);
        const int64_t step = cg_attr_int_at(&f->node, STATOR_slice_steps, a);
        const uint32_t size = f->node.out->dims[a];
        const uint32_t syms[3] = {start, size, x->dims[a]};
        const uint32_t steps = st_sym_mul(tab, st_sym_sub(tab, size, one), st_sym_int(tab, step));
        const uint32_t last = start && steps ? st_sym_add(tab, start, steps) : 0;
        const uint32_t low = step > 0 ? start : last;
        const uint32_t high = step > 0 ? last : start;
        char what[32];
        if (start == 0) {
            f->beyond_limits = "a start of a slice exceeds the limit of 16 terms, depth 4";
        } else if (low == 0 || high == 0 || st_sym_le(tab, st_sym_int(tab, 0), low) != 1 ||
                   st_sym_lt(tab, high, x->dims[a]) != 1) {
            (void)snprintf(what, sizeof what, "axis %u", a);
            constrain_all(f,
                          (cg_shape_constraint){.kind = ST_SHAPE_CONSTRAINT_INSIDE, .step = step},
                          syms, 3, what);
        }
    }
}

static void constrain_concat(finder *f)
{
    const cg_value *out = f->node.out;
    const uint32_t axis = cg_axis(&f->node, STATOR_concat_axis, out->rank);
    for (uint32_t k = 0; k < f->node.row->operand_count; k++) {
        for (uint32_t a = 0; a < out->rank; a++) {
            if (a != axis) {
                constrain_equal(f, operand_of(f, k)->dims[a], out->dims[a],
                                "axes beside the joined one");
            }
        }
    }
}

static void constrain_axis_pairs(finder *f, uint32_t attr_x, uint32_t attr_y, const char *what)
{
    const cg_value *x = operand_of(f, 0);
    const cg_value *y = operand_of(f, 1);
    for (uint32_t i = 0; i < cg_attr(&f->node, attr_x)->count; i++) {
        constrain_equal(f, x->dims[cg_attr_axis_at(&f->node, attr_x, i, x->rank)],
                        y->dims[cg_attr_axis_at(&f->node, attr_y, i, y->rank)], what);
    }
}

static void constrain_dot_general(finder *f)
{
    constrain_axis_pairs(f, STATOR_dot_general_batch_x, STATOR_dot_general_batch_y,
                         "batch sizes of the operands");
    constrain_axis_pairs(f, STATOR_dot_general_contract_x, STATOR_dot_general_contract_y,
                         "contracted sizes of the operands");
}

static void constrain_bias(finder *f)
{
    if (operand_of(f, 2)) {
        constrain_equal(f, operand_of(f, 2)->dims[0], f->node.out->dims[1], "bias and filters");
    }
}

/* Every group has as many of them as the others. */
static void constrain_groups(finder *f, uint32_t size, uint32_t attr, const char *what)
{
    st_symtab *tab = &f->unit->syms->tab;
    const uint32_t groups = st_sym_int(tab, cg_attr(&f->node, attr)->i);
    constrain_equal(f, st_sym_mod(tab, size, groups), st_sym_int(tab, 0), what);
}

static void constrain_conv(finder *f)
{
    st_symtab *tab = &f->unit->syms->tab;
    const uint32_t groups = st_sym_int(tab, cg_attr(&f->node, STATOR_conv_groups)->i);
    const uint32_t channels = st_sym_mul(tab, operand_of(f, 1)->dims[1], groups);
    constrain_equal(f, operand_of(f, 0)->dims[1], channels, "channels of x and of w times groups");
    constrain_groups(f, operand_of(f, 1)->dims[0], STATOR_conv_groups,
                     "what is left of the filters when groups divide them");
    constrain_bias(f);
}

static void constrain_conv_transpose(finder *f)
{
    constrain_equal(f, operand_of(f, 0)->dims[1], operand_of(f, 1)->dims[0],
                    "channels of x and of w");
    constrain_groups(f, operand_of(f, 0)->dims[1], STATOR_conv_transpose_groups,
                     "what is left of the channels when groups divide them");
    constrain_bias(f);
}

static void constrain_conv_weight_grad(finder *f)
{
    static const char *const what[] = {"what is left of the channels when groups divide them",
                                       "what is left of the filters when groups divide them"};
    constrain_equal(f, operand_of(f, 0)->dims[0], operand_of(f, 1)->dims[0], "batches of x and g");
    for (uint32_t k = 0; k < 2; k++) {
        constrain_groups(f, operand_of(f, k)->dims[1], STATOR_conv_weight_grad_groups, what[k]);
    }
}

/* The index reaches no further than x beside the axis. */
static void constrain_index_extents(finder *f, uint32_t attr)
{
    const cg_value *x = operand_of(f, 0);
    const uint32_t axis = cg_axis(&f->node, attr, x->rank);
    for (uint32_t a = 0; a < x->rank; a++) {
        if (a != axis) {
            constrain_order(f, ST_SHAPE_CONSTRAINT_AT_MOST, operand_of(f, 1)->dims[a], x->dims[a],
                            "index and x beside the axis");
        }
    }
}

static void constrain_gather_elements(finder *f)
{
    constrain_index_extents(f, STATOR_gather_elements_axis);
}

static void constrain_gather_nd(finder *f)
{
    for (uint32_t a = 0; a < (uint32_t)cg_attr(&f->node, STATOR_gather_nd_batch_dims)->i; a++) {
        constrain_equal(f, operand_of(f, 0)->dims[a], operand_of(f, 1)->dims[a], "batch axes");
    }
}

static void constrain_scatter_elements(finder *f)
{
    constrain_index_extents(f, STATOR_scatter_elements_axis);
    for (uint32_t a = 0; a < operand_of(f, 1)->rank; a++) {
        constrain_equal(f, operand_of(f, 2)->dims[a], operand_of(f, 1)->dims[a],
                        "index and updates");
    }
}

static void constrain_scatter_nd(finder *f)
{
    const cg_value *x = operand_of(f, 0);
    const cg_value *index = operand_of(f, 1);
    const cg_value *updates = operand_of(f, 2);
    const uint32_t lead = index->rank - 1u;
    for (uint32_t a = 0; a < updates->rank; a++) {
        const uint32_t wanted = a < lead ? index->dims[a] : x->dims[x->rank + a - updates->rank];
        constrain_equal(f, updates->dims[a], wanted, "updates");
    }
}

static void constrain_topk(finder *f)
{
    const cg_value *x = operand_of(f, 0);
    const uint32_t axis = cg_axis(&f->node, STATOR_topk_axis, x->rank);
    constrain_order(f, ST_SHAPE_CONSTRAINT_AT_MOST, f->node.out->dims[axis], x->dims[axis],
                    "k and the axis of x");
}

/* argmax and argmin: a result needs an element along the axis. */
static void constrain_argmax(finder *f)
{
    _Static_assert((int)STATOR_argmax_axis == (int)STATOR_argmin_axis, "one place");
    st_symtab *tab = &f->unit->syms->tab;
    const cg_value *x = operand_of(f, 0);
    const uint32_t axis = cg_axis(&f->node, STATOR_argmax_axis, x->rank);
    uint32_t wanted = st_sym_int(tab, 1);
    if (st_sym_le(tab, wanted, x->dims[axis]) == 1) {
        return;
    }
    for (uint32_t a = 0; a < x->rank; a++) {
        wanted = a == axis ? wanted : st_sym_min(tab, wanted, x->dims[a]);
    }
    if (wanted == 0) {
        f->beyond_limits =
            "an axis that may be empty, and sizes that exceed the limit of 16 terms, depth 4";
    } else {
        constrain_order(f, ST_SHAPE_CONSTRAINT_FILLED, wanted, x->dims[axis], "the axis is empty");
    }
}

typedef struct equal_sizes { /* of operand k along `axis`, and of operand `of` along `at` */
    uint8_t k, axis, of, at;
} equal_sizes;

static void constrain_equal_sizes(finder *f, const equal_sizes *equal, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++) {
        constrain_equal(f, operand_of(f, equal[i].k)->dims[equal[i].axis],
                        operand_of(f, equal[i].of)->dims[equal[i].at], what);
    }
}

/* q[B,H,T,D], k[B,G,S,D], v[B,G,S,E]; the mask, which is operand mask_at, to [B,H,T,S]. */
static void constrain_attention(finder *f, uint32_t mask_at)
{
    static const equal_sizes equal[] = {
        {1, 0, 0, 0}, {2, 0, 0, 0}, {2, 1, 1, 1}, {2, 2, 1, 2}, {1, 3, 0, 3}};
    const cg_value *mask = operand_of(f, mask_at);
    const uint32_t *q = operand_of(f, 0)->dims;
    const uint32_t scores[4] = {q[0], q[1], q[2], operand_of(f, 1)->dims[2]};
    constrain_equal_sizes(f, equal, sizeof equal / sizeof *equal, "sizes of q, k and v");
    for (uint32_t a = 0; mask && a < mask->rank; a++) {
        constrain_fit(f, mask_at, a, mask->dims[a], scores[a + 4u - mask->rank]);
    }
}

static void constrain_sdpa(finder *f)
{
    constrain_attention(f, 3);
}

/* And of dy[B,H,T,E]. */
static void constrain_sdpa_gradient(finder *f)
{
    static const equal_sizes equal[] = {{3, 0, 0, 0}, {3, 1, 0, 1}, {3, 2, 0, 2}, {3, 3, 2, 3}};
    constrain_attention(f, 4);
    constrain_equal_sizes(f, equal, sizeof equal / sizeof *equal, "sizes of q, v and dy");
}

/* Rows of x are channels times block, columns as many as blocks fit into the image. */
static void constrain_col2im(finder *f)
{
    st_symtab *tab = &f->unit->syms->tab;
    const cg_value *x = operand_of(f, 0);
    const cg_value *out = f->node.out;
    const uint32_t n = out->rank - 2u;
    uint32_t columns = st_sym_int(tab, 1);
    uint32_t rows = out->dims[1];
    for (uint32_t i = 0; i < n; i++) {
        const int64_t block = cg_attr_int_at(&f->node, STATOR_col2im_block, i);
        const uint32_t along = cg_col2im_columns(&f->node, i);
        columns = st_sym_mul(tab, columns, st_sym_max(tab, along, st_sym_int(tab, 0)));
        rows = st_sym_mul(tab, rows, st_sym_int(tab, block));
    }
    constrain_equal(f, x->dims[1], rows, "rows of x and channels times block");
    constrain_equal(f, x->dims[2], columns, "columns of x and blocks of the image");
}

/* Padding made of elements needs one. */
static void constrain_pad(finder *f)
{
    st_symtab *tab = &f->unit->syms->tab;
    const cg_value *x = operand_of(f, 0);
    const uint32_t one = st_sym_int(tab, 1);
    for (uint32_t a = 0; a < x->rank && !cg_attr_is(&f->node, STATOR_pad_mode, "constant"); a++) {
        const uint32_t wanted = st_sym_min(tab, f->node.out->dims[a], one);
        if (wanted == 0) {
            f->beyond_limits = "a padded size exceeds the limit of 16 terms, depth 4";
        } else {
            constrain_order(f, ST_SHAPE_CONSTRAINT_FILLED, wanted, x->dims[a],
                            "an empty axis, which only mode constant can pad");
        }
    }
}

/* Scans along another axis than the first are not taken. */
static void constrain_scan(finder *f)
{
    const uint32_t carried = (uint32_t)cg_attr(&f->node, STATOR_scan_carried)->i;
    const uint32_t scanned = (uint32_t)cg_attr(&f->node, STATOR_scan_scanned)->i;
    for (uint32_t k = 1; k < scanned; k++) {
        constrain_equal(f, operand_of(f, carried + k)->dims[0], operand_of(f, carried)->dims[0],
                        "scanned axes");
    }
}

static void (*const constrain_by_op[STATOR_OPCODE_end])(finder *f) = {
    [STATOR_OPCODE_expand] = constrain_expand,
    [STATOR_OPCODE_reshape] = constrain_reshape,
    [STATOR_OPCODE_slice] = constrain_slice,
    [STATOR_OPCODE_concat] = constrain_concat,
    [STATOR_OPCODE_dot_general] = constrain_dot_general,
    [STATOR_OPCODE_conv] = constrain_conv,
    [STATOR_OPCODE_conv_transpose] = constrain_conv_transpose,
    [STATOR_OPCODE_conv_weight_grad] = constrain_conv_weight_grad,
    [STATOR_OPCODE_gather_elements] = constrain_gather_elements,
    [STATOR_OPCODE_gather_nd] = constrain_gather_nd,
    [STATOR_OPCODE_scatter_elements] = constrain_scatter_elements,
    [STATOR_OPCODE_scatter_nd] = constrain_scatter_nd,
    [STATOR_OPCODE_topk] = constrain_topk,
    [STATOR_OPCODE_argmax] = constrain_argmax,
    [STATOR_OPCODE_argmin] = constrain_argmax,
    [STATOR_OPCODE_sdpa] = constrain_sdpa,
    [STATOR_OPCODE_sdpa_gradient] = constrain_sdpa_gradient,
    [STATOR_OPCODE_col2im] = constrain_col2im,
    [STATOR_OPCODE_pad] = constrain_pad,
    [STATOR_OPCODE_scan] = constrain_scan,
};

static void constrain_operands(finder *f)
{
    const uint32_t op = f->node.row->op;
    if (stator_op_at(f->unit->view, op)->flags & STATOR_OP_POINTWISE) {
        constrain_expand(f);
    } else if (op < STATOR_OPCODE_end && constrain_by_op[op]) {
        constrain_by_op[op](f);
    }
}

/* ---- values that can be counted ---- */

static bool may_divide_by_0(const void *self, const stator_atom_row *row, uint32_t atom)
{
    int64_t lo = 1, hi = 0;
    (void)atom;
    if (row->kind == STATOR_ATOM_FLOORDIV || row->kind == STATOR_ATOM_MOD) {
        st_sym_range(self, row->b, &lo, &hi);
    }
    return lo < 1;
}

/* Does it have a value whatever its symbols are? */
static bool is_total(const st_symtab *tab, uint32_t sym)
{
    return st_sym_find_atom(tab, sym, may_divide_by_0, tab) == 0;
}

/* Sizes of an input, which is there, or of an output, which got memory before. */
static bool is_at_the_border(const cg_unit *unit, const cg_value *v)
{
    const stator_graph_view *view = unit->view;
    for (stator_ref i = 1; i <= view->n_inputs; i++) {
        if (cg_same_shape(v, cg_value_of(unit, i))) {
            return true;
        }
    }
    for (uint32_t k = 0; k < view->n_outputs; k++) {
        if (cg_same_shape(v, cg_value_of(unit, stator_output_at(view, k)))) {
            return true;
        }
    }
    return false;
}

/* Is the largest such value within 64 bits, whatever the call? */
static bool is_small(const cg_unit *unit, const cg_value *v)
{
    const st_symtab *tab = &unit->syms->tab;
    int64_t bytes = st_element_bytes(v->dtype);
    for (uint32_t a = 0; a < v->rank; a++) {
        int64_t lo = 0, hi = 0;
        st_sym_range(tab, v->dims[a], &lo, &hi);
        if (lo < 0 || hi < 0 || !is_total(tab, v->dims[a]) ||
            !st_mul_i64(bytes, hi > 0 ? hi : 1, &bytes) || bytes > CG_BYTES_MAX) {
            return false;
        }
    }
    return true;
}

/* Symbols alone are left to the program around a body: a test of each step would cost more than the
 * step. */
static bool is_of_the_call(const finder *f, const cg_value *v)
{
    for (uint32_t a = 0; a < v->rank; a++) {
        int64_t number = 0;
        const bool is_symbol = st_sym_as_symbol(&f->unit->syms->tab, v->dims[a]) != 0;
        if (!is_symbol && !st_sym_const(&f->unit->syms->tab, v->dims[a], &number)) {
            return false;
        }
    }
    return f->exe->is_body != 0;
}

static void constrain_count(finder *f, const cg_value *v)
{
    uint32_t syms[CG_RANK_MAX];
    uint32_t n = 0;
    int64_t step = st_element_bytes(v->dtype);
    for (uint32_t a = 0; a < v->rank; a++) {
        int64_t number = 0;
        if (!st_sym_const(&f->unit->syms->tab, v->dims[a], &number)) {
            syms[n++] = v->dims[a];
        } else if (number < 0 || !st_mul_i64(step, number, &step)) {
            step = INT64_MAX; /* too many, unless a size is 0 */
        }
    }
    if (n != 0 && !is_at_the_border(f->unit, v) && !is_small(f->unit, v) && !is_of_the_call(f, v)) {
        constrain_all(f, (cg_shape_constraint){.kind = CG_SHAPE_CONSTRAINT_NUMEL, .step = step},
                      syms, n, "the result");
    }
}

static bool is_dim(const cg_value *v, uint32_t sym)
{
    for (uint32_t a = 0; a < v->rank; a++) {
        if (v->dims[a] == sym) {
            return true;
        }
    }
    return false;
}

/* The sizes of results are counted. */
static void count_results(finder *f)
{
    for (uint32_t k = 0; k < f->node.row->result_count; k++) {
        constrain_count(f, cg_value_of(f->unit, f->node.row->result_begin + k));
    }
}

/* Is the size one that every call computes? In a body: one that divides by no 0. */
static bool is_safe(const finder *f, uint32_t sym)
{
    const st_symtab *tab = &f->unit->syms->tab;
    int64_t lo = 0, hi = 0;
    if (st_sym_as_symbol(tab, sym) || st_sym_const(tab, sym, &lo)) {
        return true;
    }
    st_sym_range(tab, sym, &lo, &hi);
    return is_total(tab, sym) && (f->exe->is_body || (lo > INT64_MIN && hi < INT64_MAX));
}

/* Sizes in attributes go into kernels unchecked; a constraint that a size equals itself makes the
 * call compute it. */
static void compute_attrs(finder *f)
{
    if (stator_op_at(f->unit->view, f->node.row->op)->flags & STATOR_OP_EFFECT) {
        return; /* sym_bind: its syms are those that it binds */
    }
    for (uint32_t k = 0; k < f->node.row->attr_count; k++) {
        const stator_attr_row *attr = cg_attr(&f->node, k);
        for (uint32_t i = 0; attr->kind == STATOR_ATTR_DIMS && i < attr->count; i++) {
            const uint32_t sym = cg_attr_dim(&f->node, k, i);
            if (sym == 0) {
                f->beyond_limits = "an attribute exceeds the limit of 16 terms, depth 4";
            } else if (!is_dim(f->node.out, sym) && !is_safe(f, sym)) {
                constrain(f, ST_SHAPE_CONSTRAINT_EQUAL, sym, sym, "an attribute");
            }
        }
    }
}

stator_status cg_find_shape_constraints(cg_unit *unit, st_cg_exe *exe, stator_diag **err)
{
    finder f = {.unit = unit, .exe = exe, .status = STATOR_OK, .err = err};
    st_hashset_init(&f.seen, unit->mem);
    for (stator_ref node = 1; unit->view->n_symbols && node <= unit->view->n_nodes; node++) {
        f.node = cg_node_of(unit, node);
        f.beyond_limits = NULL;
        constrain_operands(&f);
        count_results(&f);
        compute_attrs(&f);
        if (f.status == STATOR_OK && f.beyond_limits) {
            f.status = cg_decline(unit, node, f.beyond_limits, err);
        }
        if (f.status != STATOR_OK) {
            break;
        }
    }
    st_hashset_deinit(&f.seen);
    st_vec_free(unit->mem, &f.syms);
    return f.status;
}
