/* What the threads of a block do together.
 *
 *     const float a = ...                      every thread computes it, with the same result
 *     for (i = ST_THREAD; i < K; i += 256)     an axis of threads: they share the iterations
 *     st_barrier();                            where memory is read that another thread wrote
 *     if (ST_THREAD == 0) b1[i0] = v7;         one of them stores
 *
 * Of an accumulator each thread has a copy. Updates inside an axis of threads leave it partial; it
 * is combined before it is read. */
#include "codegen/gpu/gpu_schedule.h"
#include "codegen/gpu/gpu_text.h"

#include <inttypes.h>
#include <string.h>

#define put st_loop_text_put

static const st_loop_inst *at(const gpu_text *g, st_loop_ref ref)
{
    return st_loop_at(g->kernel, ref);
}

/* What begins a statement that threads beyond the last iteration leave out. */
static void put_guard(gpu_text *g)
{
    if (g->guard) {
        put(&g->t, "if (%s) ", g->guard);
    }
}

static void put_barrier(gpu_text *g)
{
    st_loop_text_indent(&g->t);
    put(&g->t, "st_barrier();\n");
    memset(g->touched, 0, g->kernel->buffers.count);
}

/* ---- memory ---- */

static uint8_t access_of(const gpu_text *g, const st_loop_inst *inst)
{
    if ((inst->code == ST_LOOP_LOAD || inst->code == ST_LOOP_STORE) &&
        (g->kernel->buffers.data[inst->ref].flags & ST_BUFFER_THREAD)) {
        return 0;
    }
    return inst->code == ST_LOOP_LOAD    ? GPU_ACCESS_READ
           : inst->code == ST_LOOP_STORE ? GPU_ACCESS_WRITTEN
                                         : 0;
}

/* May the two buffers of the kernel share memory? */
static bool may_share(const gpu_text *g, uint32_t a, uint32_t b)
{
    const uint32_t apart = ST_BUFFER_UNIQUE | ST_BUFFER_LOCAL;
    const st_loop_buffer *buffers = g->kernel->buffers.data;
    return a == b || !((buffers[a].flags | buffers[b].flags) & apart);
}

/* Has another thread since the last barrier done what must be seen, or must be over? */
static bool conflicts(const gpu_text *g, const st_loop_inst *inst)
{
    const uint8_t access = access_of(g, inst);
    for (uint32_t i = 0; access && i < g->kernel->buffers.count; i++) {
        const bool is_ordered =
            access == GPU_ACCESS_WRITTEN ? g->touched[i] != 0 : g->touched[i] & GPU_ACCESS_WRITTEN;
        if (is_ordered && may_share(g, i, inst->ref)) {
            return true;
        }
    }
    return false;
}

static bool conflicts_below(const gpu_text *g, uint32_t block)
{
    for (st_loop_ref ref = g->kernel->blocks.data[block].first; ref; ref = at(g, ref)->next) {
        if (conflicts(g, at(g, ref)) ||
            (at(g, ref)->code == ST_LOOP_LOOP && conflicts_below(g, at(g, ref)->body))) {
            return true;
        }
    }
    return false;
}

static void touch_below(gpu_text *g, uint32_t block)
{
    for (st_loop_ref ref = g->kernel->blocks.data[block].first; ref; ref = at(g, ref)->next) {
        const st_loop_inst *inst = at(g, ref);
        if (access_of(g, inst)) {
            g->touched[inst->ref] |= access_of(g, inst);
        } else if (inst->code == ST_LOOP_LOOP) {
            touch_below(g, inst->body);
        }
    }
}

/* ---- accumulators ---- */

static void make_uniform(gpu_text *g, st_loop_ref acc)
{
    if (g->acc_state[acc] == GPU_ACC_PARTIAL) {
        gpu_put_combine(g, acc);
        memset(g->touched, 0, g->kernel->buffers.count);
    }
    g->acc_state[acc] = GPU_ACC_UNIFORM;
}

/* One thread keeps what is there, the others begin anew. */
static void make_partial(gpu_text *g, st_loop_ref acc)
{
    if (g->acc_state[acc] == GPU_ACC_UNIFORM) {
        st_loop_text_indent(&g->t);
        put(&g->t, "if (");
        gpu_put_member(g);
        put(&g->t, " != 0) { a%" PRIu32 " = ", acc);
        st_loop_text_identity(&g->t, at(g, acc));
        if (st_loop_has_index(at(g, acc))) {
            put(&g->t, "; at%" PRIu32 " = %s", acc, g->t.spelling->greatest[STATOR_I64]);
        }
        put(&g->t, "; }\n");
    }
    g->acc_state[acc] = GPU_ACC_PARTIAL;
}

static bool is_of_threads(const gpu_text *g, const st_loop_inst *inst)
{
    return inst->code == ST_LOOP_LOOP &&
           g->kernel->axes.data[inst->ref].mapping == ST_MAPPING_THREADS;
}

/* Is the accumulator read below, or updated by all threads alike? */
static bool needs_uniform(const gpu_text *g, uint32_t block, st_loop_ref acc, bool is_alike)
{
    for (st_loop_ref ref = g->kernel->blocks.data[block].first; ref; ref = at(g, ref)->next) {
        const st_loop_inst *inst = at(g, ref);
        const bool is_use =
            inst->code == ST_LOOP_READ || (inst->code == ST_LOOP_UPDATE && is_alike);
        if (is_use && inst->ref == acc) {
            return true;
        }
        if (inst->code == ST_LOOP_LOOP &&
            needs_uniform(g, inst->body, acc, is_alike && !is_of_threads(g, inst))) {
            return true;
        }
    }
    return false;
}

/* Brings the accumulators around a loop that its body names into the state in which each iteration
 * finds and leaves them: the same in all threads where it reads them, else partial. */
static void normalize_below(gpu_text *g, const st_loop_inst *loop, uint32_t block)
{
    const uint32_t depth = g->kernel->blocks.data[loop->body].depth;
    for (st_loop_ref ref = g->kernel->blocks.data[block].first; ref; ref = at(g, ref)->next) {
        const st_loop_inst *inst = at(g, ref);
        const bool is_use = inst->code == ST_LOOP_READ || inst->code == ST_LOOP_UPDATE;
        if (inst->code == ST_LOOP_LOOP) {
            normalize_below(g, loop, inst->body);
        } else if (is_use && g->kernel->blocks.data[at(g, inst->ref)->block].depth < depth) {
            if (needs_uniform(g, loop->body, inst->ref, !is_of_threads(g, loop))) {
                make_uniform(g, inst->ref);
            } else {
                make_partial(g, inst->ref);
            }
        }
    }
}

/* ---- loops ---- */

static void put_for(st_loop_text *t, const st_loop_inst *inst, bool is_threads)
{
    const st_loop_axis *axis = &t->kernel->axes.data[inst->ref];
    const char *type = t->spelling->index_type;
    put(t, "for (%s i%" PRIu32 " = ", type, inst->ref);
    if (is_threads) {
        put(t, "(%s)(", type);
        gpu_put_member(t->frame);
        put(t, ")");
    } else {
        put(t, "0");
    }
    put(t, "; i%" PRIu32 " < ", inst->ref);
    st_loop_text_sym(t, axis->extent);
    if (is_threads) {
        put(t, "; i%" PRIu32 " += %" PRIu32 ") {\n", inst->ref, gpu_members(t->frame));
    } else {
        put(t, "; i%" PRIu32 "++) {\n", inst->ref);
    }
}

void gpu_put_loop(st_loop_text *t, const st_loop_inst *inst)
{
    put_for(t, inst, false);
    st_loop_text_body(t, inst->body);
    st_loop_text_indent(t);
    put(t, "}\n");
}

/* A loop of which each thread takes several iterations side by side; all but its last brace. */
static void put_for_lanes(gpu_text *g, const st_loop_inst *inst)
{
    const st_loop_axis *axis = &g->kernel->axes.data[inst->ref];
    put(&g->t, "for (%s f%" PRIu32 " = ", g->t.spelling->index_type, inst->ref);
    gpu_put_member_index(g);
    put(&g->t, " * %" PRIu32 "; f%" PRIu32 " < ", axis->lanes, inst->ref);
    st_loop_text_sym(&g->t, axis->extent);
    put(&g->t, "; f%" PRIu32 " += %" PRIu32 ") {\n", inst->ref, gpu_members(g) * axis->lanes);
    g->t.depth++;
    gpu_put_lanes(g, inst);
    g->t.depth--;
}

static void put_threads_loop(gpu_text *g, const st_loop_inst *inst)
{
    normalize_below(g, inst, inst->body);
    if (conflicts_below(g, inst->body)) {
        put_barrier(g);
    }
    touch_below(g, inst->body);
    if (g->kernel->axes.data[inst->ref].flags & ST_AXIS_HELD) {
        gpu_put_held(g, inst);
        return;
    }
    st_loop_text_indent(&g->t);
    put_guard(g);
    if (gpu_has_lanes(g, inst)) {
        put_for_lanes(g, inst);
    } else {
        put_for(&g->t, inst, true);
        st_loop_text_body(&g->t, inst->body);
    }
    st_loop_text_indent(&g->t);
    put(&g->t, "}\n");
}

/* Does a thread store below, or wait for the accumulators of others outside its warp? */
static bool meets_below(const gpu_text *g, uint32_t block)
{
    for (st_loop_ref ref = g->kernel->blocks.data[block].first; ref; ref = at(g, ref)->next) {
        const st_loop_inst *inst = at(g, ref);
        if (inst->code == ST_LOOP_STORE || (inst->code == ST_LOOP_READ && !g->row_threads) ||
            (inst->code == ST_LOOP_LOOP && meets_below(g, inst->body))) {
            return true;
        }
    }
    return false;
}

/* A loop that all threads run together. What an iteration does meets what the one before did, so
 * each begins with a barrier where that can matter. */
static void put_shared_loop(gpu_text *g, const st_loop_inst *inst)
{
    normalize_below(g, inst, inst->body);
    st_loop_text_indent(&g->t);
    put_for(&g->t, inst, false);
    g->t.depth++;
    g->n_loops++;
    if (meets_below(g, inst->body)) {
        put_barrier(g);
    }
    gpu_put_shared_block(g, inst->body);
    normalize_below(g, inst, inst->body);
    g->n_loops--;
    g->t.depth--;
    st_loop_text_indent(&g->t);
    put(&g->t, "}\n");
    touch_below(g, inst->body);
}

/* ---- instructions ---- */

/* The loop of which each block takes several iterations. Threads beyond the last iteration do what
 * those of the last one do, but for loops and stores, so that all come to barriers and shuffles. */
static void put_several(gpu_text *g, const st_loop_inst *inst)
{
    const st_loop_axis *axis = &g->kernel->axes.data[inst->ref];
    const char *type = g->t.spelling->index_type;
    const bool is_column = axis->mapping == ST_MAPPING_COLUMNS;
    const bool is_whole = gpu_is_multiple(g->kernel, axis->extent, axis->lanes);
    const uint32_t k = inst->ref;
    st_loop_text_indent(&g->t);
    put(&g->t,
        "const %s %c%" PRIu32 " = (%s)(ST_BLOCK * %" PRIu32 " + ST_THREAD %c %" PRIu32 ");\n", type,
        is_whole ? 'i' : 'f', k, type, axis->lanes, is_column ? '%' : '/',
        is_column ? g->columns : g->row_threads);
    if (!is_whole) {
        g->guard = is_column ? "is_column" : "is_row";
        st_loop_text_indent(&g->t);
        put(&g->t, "const st_bool %s = f%" PRIu32 " < ", g->guard, k);
        st_loop_text_sym(&g->t, axis->extent);
        put(&g->t, ";\n");
        st_loop_text_indent(&g->t);
        put(&g->t, "const %s i%" PRIu32 " = %s ? f%" PRIu32 " : ", type, k, g->guard, k);
        st_loop_text_sym(&g->t, axis->extent);
        put(&g->t, " - 1;\n");
    }
    gpu_put_shared_block(g, inst->body);
    g->guard = NULL; /* the name ends with the loop */
}

static void put_any_loop(gpu_text *g, const st_loop_inst *inst)
{
    const uint32_t mapping = g->kernel->axes.data[inst->ref].mapping;
    if (mapping == ST_MAPPING_THREADS) {
        put_threads_loop(g, inst);
    } else if (mapping == ST_MAPPING_BLOCKS) {
        const char *type = g->t.spelling->index_type;
        st_loop_text_indent(&g->t);
        put(&g->t, "const %s i%" PRIu32 " = (%s)ST_BLOCK;\n", type, inst->ref, type);
        gpu_put_shared_block(g, inst->body);
    } else if (mapping == ST_MAPPING_COLUMNS || mapping == ST_MAPPING_ROWS) {
        put_several(g, inst);
    } else if (mapping == ST_MAPPING_TILE_ROWS) {
        gpu_put_tile(g, inst);
    } else {
        put_shared_loop(g, inst);
    }
}

static void put_shared_inst(gpu_text *g, st_loop_ref ref)
{
    const st_loop_inst *inst = at(g, ref);
    const bool is_effect = inst->code == ST_LOOP_STORE || inst->code == ST_LOOP_CHECK;
    if (inst->code == ST_LOOP_READ || inst->code == ST_LOOP_UPDATE) {
        make_uniform(g, inst->ref);
    } else if (inst->code == ST_LOOP_ACC) {
        g->acc_state[ref] = inst->args[0] ? GPU_ACC_UNIFORM : GPU_ACC_IDENTITY;
    } else if (conflicts(g, inst)) {
        put_barrier(g);
    }
    if (access_of(g, inst)) {
        g->touched[inst->ref] |= access_of(g, inst);
    }
    st_loop_text_indent(&g->t);
    if (is_effect) {
        put(&g->t, "if (%s%s", g->guard ? g->guard : "", g->guard ? " && " : "");
        gpu_put_member(g);
        put(&g->t, " == 0) ");
    }
    st_loop_text_inst(&g->t, ref);
}

void gpu_put_shared_block(gpu_text *g, uint32_t block)
{
    for (st_loop_ref ref = g->kernel->blocks.data[block].first; ref; ref = at(g, ref)->next) {
        if (at(g, ref)->code == ST_LOOP_LOOP) {
            put_any_loop(g, at(g, ref));
        } else {
            put_shared_inst(g, ref);
        }
    }
}
