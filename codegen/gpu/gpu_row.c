/* Rows: a block takes an iteration of the parallel loop, and its threads share the loops inside; of
 * short rows it takes several, and a warp or a part of one shares each.
 *
 *   before  loop i0 < N parallel { loop i1 < 4096 reduce { ... } loop i2 < 4096 { ... } }
 *   after   loop i0 < N parallel over blocks {
 *             loop i1 < 4096 reduce over threads { ... } loop i2 < 4096 over threads { ... } }
 *
 * A row is worth it when it is longer than a few elements, unless there are iterations enough and
 * neighbouring ones lie side by side in memory. Such columns are summed by a thread each where they
 * are many, else a block takes 32 of them and several threads share one. */
#include "codegen/gpu/gpu_schedule.h"

#define ROW_MIN 33           /* a block does not take shorter rows */
#define SHORT_MIN 8          /* shorter rows are run by one thread */
#define SHORT_MAX 1024       /* of a row that a warp takes */
#define SHORT_ALWAYS 128     /* longer rows of too few iterations get a block each */
#define SHORT_THREADS 256u   /* of a block of short rows, at most */
#define NEAR 4               /* elements apart: neighbours use a good part of each line */
#define SHARE_MIN 8u         /* threads of a longer row: what they load lies side by side */
#define WARP 32              /* a loop this long is worth the threads of a block */
#define BUSY_THREADS 256     /* of a multiprocessor, that hide most of its waiting */
#define THREADS_MIN 64u      /* of a block */
#define THREADS_MAX 512u     /* more cost occupancy: 1,024 took 20 % longer */
#define ELEMENTS_A_THREAD 4u /* of a row */
#define HELD_THREADS 256u    /* of a block that keeps a row: the best of 128 to 1,024 */
#define HELD_ELEMENTS 32     /* of a row that a thread keeps, at most */
#define HELD_WORDS 64        /* of what it loads and keeps, at most: more cost occupancy */
#define HELD_COST 4096       /* instructions of straight code, at most */
#define LONG_INSIDE 1024     /* the innermost of a nest alone serves the threads */
#define DEPTH_MAX 6
#define COLUMNS 32u          /* of a block: what a warp loads lies side by side */
#define COLUMN_THREADS 1024u /* of a block of columns, at most */
#define ACC_BYTES 16u        /* of an accumulator and its index, at most */

/* ---- how memory is walked ---- */

/* How well one access suits neighbours along the symbol: adjacent, the same element, in the same
 * lines of memory, or scattered. */
static int64_t fitness(const gpu_mapper *m, const st_loop_inst *inst, uint32_t symbol)
{
    uint32_t coef = 0;
    uint32_t rest = 0;
    if (!st_loop_linear(m->kernel->syms, inst->sym, symbol, &coef, &rest)) {
        return -2;
    }
    const int64_t stride = st_sym_size_hint(&m->kernel->syms->tab, coef);
    if (stride == 0) {
        return inst->code == ST_LOOP_LOAD ? 1 : 0;
    }
    if (stride == 1 || stride == -1) {
        return 2;
    }
    return stride <= NEAR && stride >= -NEAR ? 0 : -2;
}

/* Sum over the accesses below; those in deeper loops count more. */
static int64_t gain_below(const gpu_mapper *m, uint32_t block, uint32_t symbol, uint32_t depth)
{
    int64_t gain = 0;
    for (st_loop_ref ref = m->kernel->blocks.data[block].first; ref; ref = gpu_at(m, ref)->next) {
        const st_loop_inst *inst = gpu_at(m, ref);
        const bool is_memory = inst->code == ST_LOOP_LOAD || inst->code == ST_LOOP_STORE;
        if (inst->code == ST_LOOP_LOOP) {
            gain += gain_below(m, inst->body, symbol, depth + 1u);
        } else if (is_memory && !(m->kernel->buffers.data[inst->ref].flags & ST_BUFFER_LOCAL)) {
            const uint32_t deep = depth < DEPTH_MAX ? depth : DEPTH_MAX;
            gain += fitness(m, inst, symbol) * (INT64_C(1) << 4u * deep);
        }
    }
    return gain;
}

/* ---- the loops that threads share ---- */

typedef struct walk_sum {
    int64_t longest; /* iterations of a walk */
    int64_t gain;    /* of neighbouring threads along the walks */
    bool is_serial;  /* there is a serial loop without a walk inside */
} walk_sum;

static int64_t product_of(const gpu_mapper *m, const gpu_nest *of)
{
    int64_t product = 1;
    for (uint32_t k = 0; k < of->n; k++) {
        const int64_t extent = gpu_hint_of(m, of->loops[k]);
        if (extent <= 0 || __builtin_mul_overflow(product, extent, &product)) {
            return extent <= 0 ? 0 : INT64_MAX;
        }
    }
    return product;
}

static int64_t longest_below(const gpu_mapper *m, uint32_t block)
{
    int64_t longest = 0;
    for (st_loop_ref ref = m->kernel->blocks.data[block].first; ref; ref = gpu_at(m, ref)->next) {
        if (gpu_at(m, ref)->code != ST_LOOP_LOOP) {
            continue;
        }
        const bool is_serial = (gpu_axis_of(m, ref)->flags & ST_AXIS_SERIAL) != 0;
        const int64_t extent = is_serial ? 0 : gpu_hint_of(m, ref);
        const int64_t inside = longest_below(m, gpu_at(m, ref)->body);
        longest = extent > longest ? extent : longest;
        longest = inside > longest ? inside : longest;
    }
    return longest;
}

/* Do all threads run this loop together, and share those inside? */
static bool is_around(const gpu_mapper *m, const gpu_nest *of)
{
    if (of->axes[0].flags & ST_AXIS_SERIAL) {
        return true;
    }
    const int64_t product = product_of(m, of);
    return product < WARP && longest_below(m, gpu_at(m, of->loops[of->n - 1u])->body) > product;
}

/* Neighbours along a window, whose innermost loop is short, jump with each of its lines. */
static int64_t gain_of_walk(const gpu_mapper *m, const gpu_nest *of, uint32_t depth)
{
    const uint32_t body = gpu_at(m, of->loops[of->n - 1u])->body;
    const int64_t gain = gain_below(m, body, of->axes[of->n - 1u].symbol, depth + of->n);
    const bool is_broken = of->n > 1u && gpu_hint_of(m, of->loops[of->n - 1u]) < SHARE_MIN;
    return is_broken && gain > 0 ? 0 : gain;
}

static void look_at_walks(const gpu_mapper *m, uint32_t block, uint32_t depth, walk_sum *out)
{
    for (st_loop_ref ref = m->kernel->blocks.data[block].first; ref; ref = gpu_at(m, ref)->next) {
        gpu_nest of;
        if (gpu_at(m, ref)->code != ST_LOOP_LOOP) {
            continue;
        }
        gpu_find_nest(m, ref, &of);
        if (is_around(m, &of)) {
            walk_sum inside = {.longest = 0};
            look_at_walks(m, gpu_at(m, ref)->body, depth + 1u, &inside);
            out->is_serial = out->is_serial || inside.is_serial || inside.longest == 0;
            out->longest = inside.longest > out->longest ? inside.longest : out->longest;
            out->gain += inside.gain;
            continue;
        }
        const int64_t product = product_of(m, &of);
        out->longest = product > out->longest ? product : out->longest;
        out->gain += gain_of_walk(m, &of, depth);
    }
}

/* Does the block hold what threads that have an iteration of several cannot share: a loop whose
 * extent is read from data, so that some would not come to a barrier? */
static bool has_loop_of_values(const gpu_mapper *m, uint32_t block)
{
    for (st_loop_ref ref = m->kernel->blocks.data[block].first; ref; ref = gpu_at(m, ref)->next) {
        if (gpu_at(m, ref)->code == ST_LOOP_LOOP &&
            (!gpu_is_of_sizes(m, gpu_axis_of(m, ref)->extent) ||
             has_loop_of_values(m, gpu_at(m, ref)->body))) {
            return true;
        }
    }
    return false;
}

/* Threads that share a row of so many elements, each of which takes `lanes` side by side: those
 * that are idle in its last turn least, then the most. */
static uint32_t row_threads_for(int64_t longest, uint32_t lanes)
{
    const int64_t groups = (longest + lanes - 1) / lanes;
    uint32_t most = ST_ROW_THREADS_MAX;
    while (most > 2u && (int64_t)most / 2 >= groups) {
        most /= 2u;
    }
    uint32_t best = most;
    for (uint32_t threads = most; threads >= SHARE_MIN; threads /= 2u) {
        const int64_t each = (groups + threads - 1) / threads;
        const int64_t best_each = (groups + best - 1) / best;
        best = each * threads < best_each * best ? threads : best;
    }
    return best;
}

/* The fewest lanes of a loop below that fit its length. */
static uint32_t lanes_below(const gpu_mapper *m, uint32_t block)
{
    uint32_t fewest = UINT32_MAX;
    for (st_loop_ref ref = m->kernel->blocks.data[block].first; ref; ref = gpu_at(m, ref)->next) {
        if (gpu_at(m, ref)->code != ST_LOOP_LOOP) {
            continue;
        }
        uint32_t lanes = lanes_below(m, gpu_at(m, ref)->body);
        if (lanes == UINT32_MAX) {
            lanes = gpu_lanes_for(m->kernel, ref);
            while (lanes > 1u && gpu_hint_of(m, ref) % lanes != 0) {
                lanes /= 2u;
            }
        }
        fewest = lanes < fewest ? lanes : fewest;
    }
    return fewest;
}

uint32_t gpu_short_row(const gpu_mapper *m, const gpu_nest *of)
{
    walk_sum walks = {.longest = 0};
    const uint32_t body = of->n ? gpu_at(m, of->loops[of->n - 1u])->body : 0;
    if (of->n == 0 || has_loop_of_values(m, body)) {
        return 0;
    }
    look_at_walks(m, body, 0, &walks);
    if (walks.longest < SHORT_MIN || walks.longest > SHORT_MAX || walks.is_serial ||
        gain_below(m, body, of->axes[of->n - 1u].symbol, 0) >= walks.gain) {
        return 0;
    }
    const uint32_t threads = row_threads_for(walks.longest, lanes_below(m, body));
    const int64_t busy = (int64_t)m->target->n_multiprocessors * BUSY_THREADS;
    return walks.longest <= SHORT_ALWAYS || product_of(m, of) * threads >= busy ? threads : 0;
}

bool gpu_is_row(const gpu_mapper *m, const gpu_nest *of)
{
    walk_sum walks = {.longest = 0};
    const uint32_t body = of->n ? gpu_at(m, of->loops[of->n - 1u])->body : 0;
    look_at_walks(m, body, 0, &walks);
    if (walks.longest < ROW_MIN || walks.is_serial) {
        return false;
    }
    const int64_t busy = (int64_t)m->target->n_multiprocessors * BUSY_THREADS;
    return of->n == 0 || product_of(m, of) < busy ||
           gain_below(m, body, of->axes[of->n - 1u].symbol, 0) < walks.gain;
}

/* ---- mapping ---- */

/* `members` threads share the loop. */
static void map_walk(const gpu_mapper *m, st_loop_ref loop, uint32_t members)
{
    uint32_t lanes = members ? gpu_lanes_for(m->kernel, loop) : 1u;
    while (lanes > 1u && (int64_t)lanes * members > gpu_hint_of(m, loop)) {
        lanes /= 2u;
    }
    gpu_axis_of(m, loop)->mapping = ST_MAPPING_THREADS;
    gpu_axis_of(m, loop)->lanes = lanes;
}

static uint32_t threads_for(const gpu_mapper *m, int64_t longest)
{
    uint32_t threads = THREADS_MIN > m->target->warp_size ? THREADS_MIN : m->target->warp_size;
    while (threads < THREADS_MAX && threads < m->target->block_threads_max &&
           (int64_t)threads * ELEMENTS_A_THREAD < longest) {
        threads *= 2u;
    }
    return threads;
}

/* `members`: threads that share a loop and take several iterations side by side; 0: they take one
 * by one. */
static bool map_walks(const gpu_mapper *m, uint32_t block, uint32_t members)
{
    for (st_loop_ref ref = m->kernel->blocks.data[block].first; ref; ref = gpu_at(m, ref)->next) {
        gpu_nest of;
        if (gpu_at(m, ref)->code != ST_LOOP_LOOP) {
            continue;
        }
        gpu_find_nest(m, ref, &of);
        if (is_around(m, &of)) {
            if (!map_walks(m, gpu_at(m, ref)->body, members)) {
                return false;
            }
            continue;
        }
        const st_loop_ref inside = of.loops[of.n - 1u];
        if (gpu_hint_of(m, inside) >= LONG_INSIDE) {
            map_walk(m, inside, members);
            continue;
        }
        if (!gpu_flatten(m, &of)) {
            return false;
        }
        map_walk(m, ref, members);
    }
    return true;
}

/* ---- rows that threads keep ---- */

/* Every loop of the threads has this many iterations, of which each takes so many side by side. */
typedef struct held_row {
    int64_t extent;
    uint32_t lanes;
    uint32_t cost;  /* of an iteration of all loops, in instructions */
    uint32_t bytes; /* of its elements in all buffers that are read */
} held_row;

static bool is_of_threads(const gpu_mapper *m, st_loop_ref ref)
{
    return gpu_at(m, ref)->code == ST_LOOP_LOOP &&
           gpu_axis_of(m, ref)->mapping == ST_MAPPING_THREADS;
}

/* Are the loops of the threads alike, and of a size that is known? */
static bool find_held(const gpu_mapper *m, held_row *out)
{
    *out = (held_row){.extent = 0, .lanes = UINT32_MAX};
    for (st_loop_ref ref = 1; ref < m->kernel->insts.count; ref++) {
        if (!is_of_threads(m, ref)) {
            continue;
        }
        const st_symtab *tab = &m->kernel->syms->tab;
        const int64_t extent = st_loop_known_or(tab, gpu_axis_of(m, ref)->extent, 0);
        const uint32_t lanes = gpu_widest_lanes(m->kernel, ref);
        const uint32_t cost = gpu_cost_of(m->kernel, ref);
        if (extent <= 0 || (out->extent && extent != out->extent) || cost == 0) {
            return false;
        }
        out->extent = extent;
        out->cost += cost;
        out->lanes = lanes > 1u && lanes < out->lanes ? lanes : out->lanes;
    }
    for (uint32_t i = 0; i < m->kernel->buffers.count; i++) {
        const bool is_read = (m->kernel->buffers.data[i].flags & ST_BUFFER_READ) != 0;
        out->bytes += is_read ? (uint32_t)st_element_bytes(m->kernel->buffers.data[i].dtype) : 0u;
    }
    out->lanes = out->lanes == UINT32_MAX ? 1u : out->lanes;
    return out->extent != 0;
}

/* Is the buffer's every access the element of its loop's iteration, in a loop of the threads? */
static bool is_own(const gpu_mapper *m, uint32_t buffer)
{
    for (st_loop_ref ref = 1; ref < m->kernel->insts.count; ref++) {
        const st_loop_inst *inst = gpu_at(m, ref);
        if ((inst->code != ST_LOOP_LOAD && inst->code != ST_LOOP_STORE) || inst->ref != buffer) {
            continue;
        }
        const st_loop_ref loop = m->kernel->blocks.data[inst->block].loop;
        if (!loop || !is_of_threads(m, loop) || gpu_axis_of(m, loop)->sym != inst->sym) {
            return false;
        }
    }
    return true;
}

/* Marks the buffers of which a thread needs its own part alone, or unmarks them. */
static void mark_own(const gpu_mapper *m, bool keeps_row)
{
    for (uint32_t i = 0; i < m->kernel->buffers.count; i++) {
        st_loop_buffer *buffer = &m->kernel->buffers.data[i];
        buffer->flags &= ~(uint32_t)ST_BUFFER_THREAD;
        if (keeps_row && (buffer->flags & ST_BUFFER_LOCAL) && is_own(m, i)) {
            buffer->flags |= ST_BUFFER_THREAD;
        }
    }
}

/* The threads become as many as share the row evenly, if there is such a number. */
static bool share_evenly(const gpu_mapper *m, held_row *row)
{
    uint32_t threads = m->kernel->threads;
    while (threads > HELD_THREADS && row->extent * 2 <= (int64_t)threads * HELD_ELEMENTS &&
           row->extent * 2 * row->bytes <= (int64_t)threads * HELD_WORDS * 4) {
        threads /= 2u;
    }
    while (threads > THREADS_MIN && row->extent % ((int64_t)threads * row->lanes) != 0) {
        threads /= 2u;
    }
    while (row->lanes > 1u && row->extent % ((int64_t)threads * row->lanes) != 0) {
        row->lanes /= 2u;
    }
    const int64_t elements = row->extent / threads;
    if (row->lanes == 1u || elements > HELD_ELEMENTS || elements * row->cost > HELD_COST) {
        return false;
    }
    m->kernel->threads = threads;
    return true;
}

/* Do so many threads, of which the last may have fewer elements, hold the row? */
static bool share_short(held_row *row, uint32_t members)
{
    while (row->lanes > 1u &&
           (row->extent % row->lanes != 0 || (int64_t)row->lanes * members >= row->extent * 2)) {
        row->lanes /= 2u;
    }
    const int64_t each = (int64_t)members * row->lanes;
    const int64_t elements = (row->extent + each - 1) / each * row->lanes;
    return elements <= HELD_ELEMENTS && elements * row->cost <= HELD_COST;
}

/* Rows of which each thread has a few elements stay in its registers: memory is read once.
 * `members`: threads that share a short row, 0: the block does. */
static void hold_row(const gpu_mapper *m, uint32_t members)
{
    held_row row;
    mark_own(m, true);
    if (!find_held(m, &row) || !(members ? share_short(&row, members) : share_evenly(m, &row))) {
        mark_own(m, false);
        return;
    }
    for (st_loop_ref ref = 1; ref < m->kernel->insts.count; ref++) {
        if (is_of_threads(m, ref)) {
            gpu_axis_of(m, ref)->flags |= ST_AXIS_HELD;
            gpu_axis_of(m, ref)->lanes = row.lanes;
        }
    }
}

bool gpu_map_row(const gpu_mapper *m)
{
    const st_loop_ref loop = st_kernel_parallel_loop(m->kernel);
    const uint32_t body = loop ? gpu_at(m, loop)->body : 0;
    walk_sum walks = {.longest = 0};
    look_at_walks(m, body, 0, &walks);
    m->kernel->threads = threads_for(m, walks.longest);
    if (!map_walks(m, body, m->kernel->threads)) {
        return false;
    }
    hold_row(m, 0);
    return true;
}

/* ---- short rows ---- */

/* Has each thread its own part of every LOCAL buffer? */
static bool shares_nothing(const gpu_mapper *m)
{
    for (uint32_t i = 0; i < m->kernel->buffers.count; i++) {
        const uint32_t flags = m->kernel->buffers.data[i].flags;
        if ((flags & ST_BUFFER_LOCAL) && !(flags & ST_BUFFER_THREAD)) {
            return false;
        }
    }
    return true;
}

/* No loop is the threads' any more. */
static void unmap(const gpu_mapper *m)
{
    mark_own(m, false);
    for (uint32_t i = 0; i < m->kernel->axes.count; i++) {
        st_loop_axis *axis = &m->kernel->axes.data[i];
        axis->flags &= ~(uint32_t)ST_AXIS_HELD;
        axis->mapping = ST_MAPPING_SEQUENTIAL;
        axis->lanes = 1;
    }
}

bool gpu_map_short_row(const gpu_mapper *m, uint32_t members, bool *out_is_done)
{
    const st_loop_ref loop = st_kernel_parallel_loop(m->kernel);
    const int64_t enough = (int64_t)m->target->n_multiprocessors * 2;
    uint32_t threads = SHORT_THREADS;
    while (threads > THREADS_MIN && gpu_hint_of(m, loop) * members < enough * threads) {
        threads /= 2u;
    }
    m->kernel->threads = threads;
    if (!map_walks(m, gpu_at(m, loop)->body, members)) {
        return false;
    }
    hold_row(m, members);
    *out_is_done = shares_nothing(m);
    if (*out_is_done) {
        gpu_axis_of(m, loop)->lanes = threads / members;
    } else {
        unmap(m);
    }
    return true;
}

/* ---- columns ---- */

/* Do accumulators of all threads fit into shared memory, and is there no buffer of a block? */
static bool columns_fit(const gpu_mapper *m)
{
    uint32_t bytes = 0;
    for (st_loop_ref ref = 1; ref < m->kernel->insts.count; ref++) {
        bytes += gpu_at(m, ref)->code == ST_LOOP_ACC ? COLUMN_THREADS * ACC_BYTES : 0;
    }
    for (uint32_t i = 0; i < m->kernel->buffers.count; i++) {
        if (m->kernel->buffers.data[i].flags & ST_BUFFER_LOCAL) {
            return false;
        }
    }
    return bytes <= m->target->shared_bytes && COLUMN_THREADS <= m->target->block_threads_max;
}

bool gpu_is_column(const gpu_mapper *m, const gpu_nest *of)
{
    walk_sum walks = {.longest = 0};
    const uint32_t body = of->n ? gpu_at(m, of->loops[of->n - 1u])->body : 0;
    look_at_walks(m, body, 0, &walks);
    const int64_t busy = (int64_t)m->target->n_multiprocessors * BUSY_THREADS;
    const int64_t n = of->n ? product_of(m, of) : 0;
    return n >= COLUMNS / 2 && n < busy * 4 && walks.longest >= ROW_MIN && !walks.is_serial &&
           gain_below(m, body, of->axes[of->n - 1u].symbol, 0) > walks.gain && columns_fit(m) &&
           !has_loop_of_values(m, body);
}

bool gpu_map_column(const gpu_mapper *m)
{
    const st_loop_ref loop = st_kernel_parallel_loop(m->kernel);
    const int64_t n = gpu_hint_of(m, loop);
    const int64_t enough = (int64_t)m->target->n_multiprocessors * COLUMN_THREADS * 4;
    walk_sum walks = {.longest = 0};
    uint32_t threads = COLUMN_THREADS;
    look_at_walks(m, gpu_at(m, loop)->body, 0, &walks);
    while (threads > 2u * COLUMNS &&
           (n * (threads / COLUMNS) > enough || (int64_t)(threads / COLUMNS) * 4 > walks.longest)) {
        threads /= 2u;
    }
    m->kernel->threads = threads;
    gpu_axis_of(m, loop)->lanes = COLUMNS;
    return map_walks(m, gpu_at(m, loop)->body, 0);
}
