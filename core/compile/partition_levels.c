/* Levels: a node's level is the highest of its producers', one more where the color differs.
 *
 * Without groups the nodes' order is topological and one walk does. ATOMIC groups are contracted to
 * one vertex each; groups of one color may well lie between one another's members, so the vertices
 * of each strongly connected component (Tarjan 1972, without recursion) get one level together. A
 * component of two colors means that a group would have to wait for itself: it is dissolved, its
 * nodes going to the fallback, and the levels are found again. Time O(nodes + edges) a round. */
#include "core/base/arena.h"
#include "core/compile/partition_work.h"

typedef struct frame { /* a vertex whose producers are being looked at */
    stator_ref vertex;
    stator_ref member;
    uint32_t edge;
} frame;

typedef struct tarjan {
    st_part_work *w;
    stator_ref *vertex_of;   /* by node: the first member of its group, or itself */
    stator_ref *next_member; /* by node, 0 at the end */
    uint32_t *index;         /* by vertex: order of discovery, 0 not yet */
    uint32_t *low;
    uint8_t *on_stack;
    stator_ref *stack;
    frame *frames;
    uint32_t n_stack, n_frames, n_found;
    uint32_t n_dissolved;
    stator_diag **err;
} tarjan;

static uint32_t level_over(const st_part_work *w, stator_ref node, uint32_t level)
{
    for (uint32_t i = w->producer_begin[node]; i < w->producer_begin[node + 1u]; i++) {
        const stator_ref producer = w->producers.data[i];
        const uint32_t step = w->color[producer] != w->color[node] ? 1u : 0u;
        if (w->level[producer] + step > level) {
            level = w->level[producer] + step;
        }
    }
    return level;
}

/* ---- components ---- */

static stator_status dissolve(tarjan *t, const stator_ref *vertices, uint32_t n)
{
    st_part_work *w = t->w;
    for (uint32_t i = 0; i < n; i++) {
        if (w->group[vertices[i]] == 0) {
            continue;
        }
        ST_FAIL_IF(!w->may_dissolve, t->err, STATOR_FAILED_PRECONDITION,
                   "the ATOMIC group of node %u (%s) is not convex: a node that is not "
                   "claimed lies between two of its members",
                   vertices[i], stator_op_at(w->v, stator_node_at(w->v, vertices[i])->op)->name);
        t->n_dissolved++;
        for (stator_ref m = vertices[i]; m != 0; m = t->next_member[m]) {
            w->color[m] = w->fallback != NULL ? w->fallback[m] : ST_COLOR_FALLBACK;
            w->group[m] = 0;
        }
    }
    return STATOR_OK;
}

/* The component on top of the stack, down to `root`, is complete; all its producers have levels. */
static stator_status finish_component(tarjan *t, stator_ref root)
{
    st_part_work *w = t->w;
    uint32_t begin = t->n_stack;
    uint32_t level = 0;
    bool is_mixed = false;
    do {
        begin--;
        t->on_stack[t->stack[begin]] = 0;
        is_mixed |= w->color[t->stack[begin]] != w->color[root];
        for (stator_ref m = t->stack[begin]; m != 0; m = t->next_member[m]) {
            level = level_over(w, m, level);
        }
    } while (t->stack[begin] != root);
    const uint32_t n = t->n_stack - begin;
    for (uint32_t i = begin; i < t->n_stack; i++) {
        for (stator_ref m = t->stack[i]; m != 0; m = t->next_member[m]) {
            w->level[m] = level;
        }
    }
    t->n_stack = begin;
    return is_mixed ? dissolve(t, t->stack + begin, n) : STATOR_OK;
}

static void open_vertex(tarjan *t, stator_ref vertex)
{
    t->index[vertex] = t->low[vertex] = ++t->n_found;
    t->stack[t->n_stack++] = vertex;
    t->on_stack[vertex] = 1;
    t->frames[t->n_frames++] =
        (frame){.vertex = vertex, .member = vertex, .edge = t->w->producer_begin[vertex]};
}

/* The next producer vertex of the frame, 0 when there is none left. */
static stator_ref next_producer(tarjan *t, frame *f)
{
    const st_part_work *w = t->w;
    while (f->member != 0) {
        if (f->edge < w->producer_begin[f->member + 1u]) {
            return t->vertex_of[w->producers.data[f->edge++]];
        }
        f->member = t->next_member[f->member];
        f->edge = f->member != 0 ? w->producer_begin[f->member] : 0;
    }
    return 0;
}

static stator_status visit(tarjan *t, stator_ref start)
{
    open_vertex(t, start);
    while (t->n_frames > 0) {
        frame *f = &t->frames[t->n_frames - 1u];
        const stator_ref vertex = f->vertex;
        const stator_ref producer = next_producer(t, f);
        if (producer != 0 && t->index[producer] == 0) {
            open_vertex(t, producer);
        } else if (producer != 0) {
            if (t->on_stack[producer] && t->index[producer] < t->low[vertex]) {
                t->low[vertex] = t->index[producer];
            }
        } else {
            t->n_frames--;
            if (t->n_frames > 0 && t->low[vertex] < t->low[t->frames[t->n_frames - 1u].vertex]) {
                t->low[t->frames[t->n_frames - 1u].vertex] = t->low[vertex];
            }
            if (t->low[vertex] == t->index[vertex]) {
                ST_TRY(finish_component(t, vertex));
            }
        }
    }
    return STATOR_OK;
}

/* ---- groups ---- */

/* Chains the members of each group; `last` has room for every group number. */
static void chain_groups(tarjan *t, stator_ref *last)
{
    const st_part_work *w = t->w;
    for (stator_ref n = 1; n <= w->v->n_nodes; n++) {
        const uint32_t group = w->group[n];
        t->vertex_of[n] = n;
        t->next_member[n] = 0;
        t->index[n] = 0;
        if (group != 0 && last[group] != 0) {
            t->vertex_of[n] = t->vertex_of[last[group]];
            t->next_member[last[group]] = n;
        }
        if (group != 0) {
            last[group] = n;
        }
    }
}

static stator_status levels_of_components(tarjan *t, uint32_t n_groups)
{
    st_part_work *w = t->w;
    do {
        stator_ref *last = st_calloc(w->mem, n_groups + UINT64_C(1), sizeof *last);
        ST_TRY_MEM(last, t->err);
        chain_groups(t, last);
        st_free(w->mem, last);
        t->n_found = t->n_dissolved = 0;
        for (stator_ref n = 1; n <= w->v->n_nodes; n++) {
            w->level[n] = 0;
        }
        for (stator_ref n = 1; n <= w->v->n_nodes; n++) {
            if (t->vertex_of[n] == n && t->index[n] == 0) {
                ST_TRY(visit(t, n));
            }
        }
    } while (t->n_dissolved != 0);
    return STATOR_OK;
}

static stator_status levels_with_groups(st_part_work *w, uint32_t n_groups, stator_diag **err)
{
    const uint64_t n = w->v->n_nodes + UINT64_C(1);
    st_arena arena;
    st_arena_init(&arena, w->mem);
    tarjan t = {.w = w, .err = err};
    t.vertex_of = st_arena_zalloc(&arena, n, sizeof *t.vertex_of);
    t.next_member = st_arena_zalloc(&arena, n, sizeof *t.next_member);
    t.index = st_arena_zalloc(&arena, n, sizeof *t.index);
    t.low = st_arena_zalloc(&arena, n, sizeof *t.low);
    t.on_stack = st_arena_zalloc(&arena, n, 1);
    t.stack = st_arena_zalloc(&arena, n, sizeof *t.stack);
    t.frames = st_arena_zalloc(&arena, n, sizeof *t.frames);
    const bool is_made =
        t.vertex_of && t.next_member && t.index && t.low && t.on_stack && t.stack && t.frames;
    const stator_status status = is_made ? levels_of_components(&t, n_groups) : st_fail_oom(err);
    st_arena_deinit(&arena);
    return status;
}

stator_status st_part_levels(st_part_work *w, stator_diag **err)
{
    uint32_t n_groups = 0;
    for (stator_ref n = 1; n <= w->v->n_nodes; n++) {
        n_groups = w->group[n] > n_groups ? w->group[n] : n_groups;
    }
    if (n_groups != 0) {
        return levels_with_groups(w, n_groups, err);
    }
    for (stator_ref n = 1; n <= w->v->n_nodes; n++) {
        w->level[n] = level_over(w, n, 0);
    }
    return STATOR_OK;
}
