/* In-place writes become values.
 *
 *     y = assign(x, v)     ->     (uses of x and y after it read v)
 *     z = add(x, y)               z = add(v, v);  write back v to x
 *
 * Before: an op that writes (STATOR_OP_WRITES) names a graph input, or the result of an earlier
 * write to it, as its first operand; a read after it in node order sees the new contents. After:
 * no such op is left, and the input's final contents are in the list of write-backs. A write that
 * fuel refuses stays; what is read after it is its result. Writes inside regions stay as they are:
 * a region's inputs are captures, not buffers of the caller. */
#include "ir/passes/pass_copy.h"

typedef struct writes {
    st_copy *copy;
    stator_ref *root;    /* in-value -> the input whose buffer it is, or 0 */
    stator_ref *current; /* input -> out-value with its contents now, 0: never written */
    uint8_t *pending;    /* input -> 1 when its contents must be written back at the end */
} writes;

/* Reads of a written buffer go to its contents as of now. */
static void redirect(writes *w, stator_ref value)
{
    const stator_ref root = value != 0 ? w->root[value] : 0;
    if (root != 0 && w->current[root] != 0) {
        w->copy->map[value] = w->current[root];
    }
}

static bool same_type(const st_copy *c, stator_ref a, stator_ref b)
{
    return stator_value_at(c->v, a)->type == stator_value_at(c->v, b)->type;
}

static void apply_write(writes *w, stator_ref node)
{
    st_copy *c = w->copy;
    const stator_node_row *row = stator_node_at(c->v, node);
    const stator_ref target = stator_operand(c->v, row, 0);
    const stator_ref value = stator_operand(c->v, row, 1);
    const stator_ref root = w->root[target];
    if (root == 0) {
        stator_emit_fail(&c->e, STATOR_INVALID_ARGUMENT,
                         "%s (node %u): its target is neither a graph input nor the result of an "
                         "earlier write to one",
                         st_copy_op(c, node)->name, node);
        return;
    }
    const bool is_applied = same_type(c, target, value) &&
                            st_pass_may(c->ctx, STATOR_FUEL_REWRITE, "functionalize", node);
    if (is_applied) {
        st_copy_replace(c, row->result_begin, c->map[value]);
    } else {
        c->map[target] = root; /* the buffer itself, not its contents; inputs keep their refs */
        st_copy_node(c, node);
    }
    w->root[row->result_begin] = root;
    w->current[root] = c->map[row->result_begin];
    w->pending[root] = (uint8_t)is_applied;
}

static void copy_nodes(writes *w)
{
    st_copy *c = w->copy;
    for (stator_ref i = 1; i <= c->v->n_inputs; i++) {
        w->root[i] = i;
    }
    for (stator_ref node = 1; st_copy_is_ok(c) && node <= c->v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(c->v, node);
        for (uint32_t k = 0; k < row->operand_count; k++) {
            redirect(w, stator_operand(c->v, row, k));
        }
        const bool is_write = (st_copy_op(c, node)->flags & STATOR_OP_WRITES) != 0;
        if (is_write && c->in->parent == NULL) {
            apply_write(w, node);
        } else {
            st_copy_node(c, node);
        }
    }
}

/* An input's final contents: the last applied write, else what the graph wrote back before. */
static void copy_write_backs(writes *w)
{
    st_copy *c = w->copy;
    for (uint32_t k = 0; k < c->v->n_write_backs; k++) {
        const stator_write_back_row *row = stator_write_back_at(c->v, k);
        if (w->current[row->input] == 0) {
            stator_emit_write_back(&c->e, row->input, c->map[row->value]);
        }
    }
    for (stator_ref i = 1; i <= c->v->n_inputs; i++) {
        if (w->pending[i]) {
            stator_emit_write_back(&c->e, i, w->current[i]);
        }
    }
}

/* The inputs were copied first, so they have the same refs in both graphs. */
static void copy_ends(writes *w)
{
    st_copy *c = w->copy;
    for (uint32_t k = 0; k < c->v->n_outputs; k++) {
        const stator_ref value = stator_output_at(c->v, k);
        redirect(w, value);
        const char *name = stator_string_at(c->v, stator_ref_at(c->v, c->v->output_name_begin + k));
        stator_emit_output(&c->e, name, c->map[value]);
    }
    copy_write_backs(w);
}

void st_pass_functionalize(st_copy *c)
{
    const uint64_t n = c->v->n_values;
    writes w = {.copy = c,
                .root = st_copy_zalloc(c, n, sizeof *w.root),
                .current = st_copy_zalloc(c, n, sizeof *w.current),
                .pending = st_copy_zalloc(c, n, sizeof *w.pending)};
    ST_THEN(c->e.status, st_build_clone_inputs(c->out, c->in, c->map, c->e.err));
    if (st_copy_is_ok(c)) {
        copy_nodes(&w);
    }
    if (st_copy_is_ok(c) && c->changed) {
        copy_ends(&w);
    }
}
