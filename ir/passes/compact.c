/* Ops whose results are as many as their data say become primitives around one size from data.
 *
 *     y = nonzero(x)    ->    f = cast(x, bool)  sym_bind(reduce_sum(f)) {syms = [u]}
 *                             y = topk(f) {k = [u]} indices, as coordinates
 *
 * In: any graph. Out: nonzero and unique over numbers are gone; every value has the type that it
 * had, and the size that the node told is bound from the count of flags. Places of flags are the
 * first so many of their order, which is stable. A node stays when fuel refuses it, when another
 * size than one symbol is its own, or when items of unique are as long as only a call tells.
 *
 * unique sorts its items; one that differs from the item before it begins a group. Items that are
 * slices become numbers first: the rank of each element in its column, then of pairs of ranks,
 * until one is left (the doubling of Karp, Miller and Rosenberg, 1972). */
#include "core/base/check.h"
#include "ir/passes/pass_copy.h"

#include <stator/ops.h>

/* The number of distinct items or true flags: a symbol that the old node defines. */
typedef struct compaction {
    st_copy *copy;
    stator_emitter *e;
    stator_ref x; /* out-value */
    stator_ref count;
} compaction;

static stator_ref run(const compaction *k, const char *program, const char *names, uint32_t n_in,
                      const stator_ref *in)
{
    const stator_attr count = STATOR_A_DIMS("count", 1, &k->count);
    return stator_emit_expr(k->e, program, names, n_in, in, 1, &count);
}

/* The places i64[count] where flags, bool[n], hold, in rising order. */
static stator_ref places_of(const compaction *k, stator_ref flags)
{
    const stator_ref total =
        run(k, "reduce_sum(cast(flags, i64), axes=[0])", "flags", STATOR_IN(flags));
    stator_emit_op(k->e, "sym_bind", STATOR_IN(total),
                   STATOR_AT(STATOR_A_DIMS("syms", 1, &k->count)));
    return run(k, "ones, places = topk(flags, k=count, axis=0); places", "flags", STATOR_IN(flags));
}

/* ---- nonzero ---- */

/* The coordinates along each axis of places in row-major order: i64[rank, count]. */
static stator_ref coordinates(const compaction *k, stator_ref places)
{
    stator_emitter *e = k->e;
    stator_ref dims[STATOR_RANK_MAX], rows[STATOR_RANK_MAX];
    const uint32_t rank = stator_emit_dims(e, k->x, dims);
    for (uint32_t a = 0; a < rank; a++) {
        const stator_ref inner = stator_emit_sym_product(e, rank - a - 1u, dims + a + 1u);
        stator_ref at = places;
        if (a + 1u < rank) {
            at = stator_emit_binary(e, "div", at, stator_emit_size_scalar(e, inner, STATOR_I64));
        }
        if (a > 0) {
            at = stator_emit_binary(e, "mod", at, stator_emit_size_scalar(e, dims[a], STATOR_I64));
        }
        rows[a] = run(k, "reshape(at, shape=[1] + count)", "at", STATOR_IN(at));
    }
    return rank > 0 ? stator_emit_concat(e, 0, rank, rows)
                    : run(k, "iota(shape=[0] + count, axis=0)", "", 0, NULL);
}

static void write_nonzero(const compaction *k, stator_ref *results)
{
    const stator_ref flags =
        run(k, "reshape(cast(x, bool), shape=[numel(x)])", "x", STATOR_IN(k->x));
    results[0] = coordinates(k, places_of(k, flags));
}

/* ---- unique ---- */

/* Of what lies sorted along the last axis: is it the first, or other than the one before it? */
static stator_ref heads_of(const compaction *k, stator_ref sorted)
{
    return run(k,
               "a = rank(v) - 1; b = pad(v, low=repeat(0, a) + [1], high=repeat(0, a) + [-1]); "
               "same = is_float(v) ? bit_or(v == b, bit_and(v != v, b != b)) : v == b; "
               "bit_or(bit_not(same), iota(shape=repeat(1, a) + [dim(v, a)], axis=a) == 0)",
               "v", STATOR_IN(sorted));
}

static void sort_last(const compaction *k, stator_ref keys, stator_ref *out_sorted,
                      stator_ref *out_order)
{
    const stator_attr axis = STATOR_A_INT("axis", -1);
    stator_ref out[2];
    stator_emit_node(k->e, "sort", STATOR_IN(keys), 1, &axis, 0, NULL, 2, out);
    *out_sorted = out[0];
    *out_order = out[1];
}

/* The number of each item's group, in the order of groups; heads are flags of what is sorted. */
static stator_ref groups_of(const compaction *k, stator_ref heads, stator_ref order)
{
    return run(k,
               "a = rank(order) - 1; "
               "scatter_elements(zeros_like(order), order, cumsum(cast(heads, i64), axis=a) - 1, "
               "axis=a)",
               "heads, order", STATOR_IN(heads, order));
}

/* Numbers i64[n] in the order of items that are columns of [width, n], equal where those are. */
static stator_ref join_columns(const compaction *k, stator_ref keys)
{
    int64_t width = 0;
    while (stator_emit_const(k->e, stator_emit_dim(k->e, keys, 0), &width) && width > 1) {
        stator_ref sorted, order;
        sort_last(k, keys, &sorted, &order);
        const stator_ref ranks = groups_of(k, heads_of(k, sorted), order);
        keys = run(k,
                   "h = ceildiv(dim(r, 0), 2); n = dim(r, 1); "
                   "p = reshape(pad(r, low=[0, 0], high=[h * 2 - dim(r, 0), 0]), shape=[h, 2, n]); "
                   "q = slice(p, starts=[0, 0, 0], sizes=[h, 1, n], steps=[1, 1, 1]) * n + "
                   "slice(p, starts=[0, 1, 0], sizes=[h, 1, n], steps=[1, 1, 1]); "
                   "reshape(q, shape=[h, n])",
                   "r", STATOR_IN(ranks));
    }
    return width == 1 ? run(k, "reshape(r, shape=[dim(r, 1)])", "r", STATOR_IN(keys))
                      : run(k, "expand(scalar(0, i64), shape=[dim(r, 1)])", "r", STATOR_IN(keys));
}

/* What is sorted for the items of x along an axis: numbers [n] whose order is that of the items. */
static stator_ref keys_of(const compaction *k, uint32_t axis)
{
    stator_emitter *e = k->e;
    stator_ref dims[STATOR_RANK_MAX], columns[2];
    int64_t perm[STATOR_RANK_MAX], width;
    const uint32_t rank = stator_emit_dims(e, k->x, dims);
    const stator_ref keys = run(k,
                                "is_bool(x) ? cast(x, u8) : bits(x) < 8 ? cast(x, i32) : "
                                "bits(x) < 16 ? wide(x) : x",
                                "x", STATOR_IN(k->x));
    for (uint32_t i = 0; i < rank; i++) {
        perm[i] = i + 1u == rank ? (int64_t)axis : (int64_t)(i < axis ? i : i + 1u);
    }
    columns[1] = dims[axis];
    dims[axis] = stator_emit_size(e, 1);
    columns[0] = stator_emit_sym_product(e, rank, dims);
    if (!stator_emit_const(e, columns[0], &width)) {
        return stator_emit_fail(e, STATOR_UNIMPLEMENTED, "items of an unknown length");
    }
    return join_columns(
        k, stator_emit_reshape(e, stator_emit_transpose(e, keys, rank, perm), 2, columns));
}

/* The groups, numbered by the first item of each in place of their order. */
static void number_by_first(const compaction *k, stator_ref *results)
{
    stator_ref order;
    sort_last(k, results[1], &results[1], &order);
    results[2] = run(k,
                     "gather(scatter_elements(zeros_like(order), order, "
                     "iota(shape=count, axis=0), axis=0), groups)",
                     "order, groups", STATOR_IN(order, results[2]));
    results[3] = stator_emit_gather(k->e, results[3], order, 0);
}

static void write_unique(const compaction *k_, uint32_t axis, bool is_sorted, stator_ref *results)
{
    compaction k = *k_;
    stator_ref sorted, order;
    if (axis == UINT32_MAX) {
        axis = 0;
        k.x = run(&k, "reshape(x, shape=[numel(x)])", "x", STATOR_IN(k.x));
    }
    sort_last(&k, keys_of(&k, axis), &sorted, &order);
    const stator_ref heads = heads_of(&k, sorted);
    const stator_ref begins = places_of(&k, heads);
    results[1] = stator_emit_gather(k.e, order, begins, 0);
    results[2] = groups_of(&k, heads, order);
    results[3] = run(&k, "pad(begins, scalar(dim(order, 0), i64), low=[-1], high=[1]) - begins",
                     "begins, order", STATOR_IN(begins, order));
    if (!is_sorted) {
        number_by_first(&k, results);
    }
    results[0] = stator_emit_gather(k.e, k.x, results[1], axis);
}

/* ---- nodes ---- */

/* The axis of a unique's items, UINT32_MAX: they are the elements. */
static uint32_t axis_of(const st_copy *c, const stator_node_row *row)
{
    const stator_attr_row *axis = stator_attr_at(c->v, row, STATOR_unique_axis);
    const uint32_t rank = stator_value_type(c->v, stator_operand(c->v, row, 0))->rank;
    return axis->kind == STATOR_ATTR_INT && rank > 0 ? (uint32_t)st_normalize_axis(axis->i, rank)
                                                     : UINT32_MAX;
}

/* The symbol that the node's data tell; 0: something else was declared for it. */
static stator_ref count_of(const st_copy *c, const stator_node_row *row)
{
    const uint32_t axis = row->op == STATOR_OPCODE_nonzero ? 1u : axis_of(c, row);
    const stator_type_row *type = stator_value_type(c->v, row->result_begin);
    const stator_ref size = stator_dim_at(c->v, type, axis == UINT32_MAX ? 0 : axis);
    const stator_atom_row *atom = stator_sym_as_symbol(c->v, size);
    return atom != NULL && (atom->flags & STATOR_ATOM_UNBACKED) != 0 ? size : 0;
}

static bool is_wanted(const st_copy *c, stator_ref node)
{
    const uint32_t numbers = 1u << STATOR_CLASS_BOOL | 1u << STATOR_CLASS_INT |
                             1u << STATOR_CLASS_UINT | 1u << STATOR_CLASS_FLOAT;
    const stator_node_row *row = stator_node_at(c->v, node);
    if (row->op != STATOR_OPCODE_nonzero && row->op != STATOR_OPCODE_unique) {
        return false;
    }
    const stator_dtype dtype = stator_value_type(c->v, stator_operand(c->v, row, 0))->dtype;
    return (numbers >> st_dtype_class(dtype) & 1u) != 0 && count_of(c, row) != 0 &&
           st_pass_may(c->ctx, STATOR_FUEL_REWRITE, "compact", node);
}

static void write(st_copy *c, stator_ref node)
{
    const stator_node_row *row = stator_node_at(c->v, node);
    const compaction k = {.copy = c,
                          .e = &c->e,
                          .x = c->map[stator_operand(c->v, row, 0)],
                          .count = count_of(c, row)};
    stator_ref results[4] = {0};
    st_build_set_origin_ref(c->out, row->origin);
    if (row->op == STATOR_OPCODE_nonzero) {
        write_nonzero(&k, results);
    } else {
        write_unique(&k, axis_of(c, row), stator_attr_at(c->v, row, STATOR_unique_sorted)->i != 0,
                     results);
    }
    const stator_graph_view *out = st_graph_view(c->out->graph);
    for (uint32_t i = 0; st_copy_is_ok(c) && i < row->result_count; i++) {
        const stator_ref old = row->result_begin + i;
        if (stator_value_at(out, results[i])->type != stator_value_at(c->v, old)->type) {
            stator_emit_fail(&c->e, STATOR_UNIMPLEMENTED, "a size is written in another way");
        }
    }
    for (uint32_t i = 0; st_copy_is_ok(c) && i < row->result_count; i++) {
        st_copy_replace(c, row->result_begin + i, results[i]);
    }
}

static void visit(void *self, stator_ref node)
{
    st_copy *c = self;
    const st_build_mark before = st_build_here(c->out);
    if (is_wanted(c, node)) {
        stator_diag **err = c->e.err, *inner = NULL;
        c->e.err = &inner;
        write(c, node);
        c->e.err = err;
        if (st_copy_is_ok(c)) {
            return;
        }
        st_copy_forgive(c, inner);
        st_build_rollback(c->out, before);
    }
    st_copy_node(c, node);
}

void st_pass_compact(st_copy *c)
{
    st_copy_nodes(c, visit, c);
}
