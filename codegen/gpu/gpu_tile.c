/* Tiles: loads and stores that are contiguous along different axes meet in shared memory.
 *
 *   before  loop i0 < M parallel { loop i1 < N { y[N*i0 + i1] = x[i0 + M*i1] } }
 *   after   loop i2 < tiles parallel over blocks { n0 = ...; n1 = ...;
 *             loop i3 < 32*32 over threads { t[33*(i3/32) + i3%32] = x[32*n0 + i3%32 + M*(...)] }
 *             loop i4 < 32*32 over threads { y[...] = t[33*(i4%32) + i4/32] } }
 *
 * Rows of a tile are padded, so that a column of it lies in as many banks as it has elements. Tiles
 * at the border are masked. */
#include "codegen/gpu/gpu_schedule.h"

#include "codegen/loopir/loop_build.h"

#define TILE_THREADS 256u
#define TILE_SIDE 32u       /* elements of 4 or 8 bytes */
#define TILE_SIDE_SMALL 64u /* smaller ones */
#define SIDE_MIN 16         /* shorter axes are not worth a tile */
#define STAGED_MAX 4u       /* loads */

typedef struct tiling {
    const gpu_mapper *m;
    gpu_nest *of;
    uint32_t across; /* the axis of the nest along which loads are contiguous; the last: stores */
    uint32_t side;
    uint32_t n_staged;
    st_loop_ref staged[STAGED_MAX];
    uint32_t buffer[STAGED_MAX];   /* that hold their tiles */
    uint32_t place[GPU_NEST_MAX];  /* of a block along each axis, syms */
    uint32_t places[GPU_NEST_MAX]; /* how many there are */
} tiling;

static bool is_last(const tiling *t, uint32_t k)
{
    return k + 1u == t->of->n;
}

static bool is_tiled(const tiling *t, uint32_t k)
{
    return k == t->across || is_last(t, k);
}

/* ---- is it worth a tile? ---- */

/* The step of the index along axis k when it is known, else -1. */
static int64_t step_along(const gpu_mapper *m, const gpu_nest *of, uint32_t k, uint32_t sym)
{
    uint32_t coef = 0;
    uint32_t rest = 0;
    return st_loop_linear(m->kernel->syms, sym, of->axes[k].symbol, &coef, &rest)
               ? st_sym_size_hint(&m->kernel->syms->tab, coef)
               : -1;
}

typedef struct value_test {
    const st_kernel *kernel;
    bool has_value;
} value_test;

static void note_bound(void *self, uint32_t index)
{
    value_test *test = self;
    test->has_value =
        test->has_value || test->kernel->syms->symbols.data[index].kind == ST_SYMBOL_VALUE;
}

/* The axis along which the load is contiguous when it is not the last one; of->n: no such. */
static uint32_t axis_across(const gpu_mapper *m, const gpu_nest *of, const st_loop_inst *load)
{
    value_test test = {m->kernel, false};
    st_loop_each_symbol(m->kernel->syms, load->sym, note_bound, &test);
    const uint32_t dtype = m->kernel->buffers.data[load->ref].dtype;
    const int64_t last = step_along(m, of, of->n - 1u, load->sym);
    if (test.has_value || load->args[0] || last < SIDE_MIN || st_loop_loaded(dtype) != dtype) {
        return of->n;
    }
    for (uint32_t k = 0; k + 1u < of->n; k++) {
        if (step_along(m, of, k, load->sym) == 1 && gpu_hint_of(m, of->loops[k]) >= SIDE_MIN) {
            return k;
        }
    }
    return of->n;
}

/* Notes the load when it is contiguous along the same axis as those before. */
static void look_at_load(tiling *t, st_loop_ref ref)
{
    const st_loop_inst *load = gpu_at(t->m, ref);
    const uint32_t k = axis_across(t->m, t->of, load);
    if (k == t->of->n || t->n_staged == STAGED_MAX || (t->n_staged && k != t->across)) {
        return;
    }
    const uint32_t bytes = (uint32_t)st_element_bytes(t->m->kernel->buffers.data[load->ref].dtype);
    const uint32_t side = bytes < 4u ? TILE_SIDE_SMALL : TILE_SIDE;
    t->side = t->n_staged && t->side < side ? t->side : side;
    t->across = k;
    t->staged[t->n_staged++] = ref;
}

/* Is the buffer loaded from also stored to? */
static bool writes_staged(const tiling *t)
{
    for (uint32_t i = 0; i < t->n_staged; i++) {
        const st_loop_buffer *from = &t->m->kernel->buffers.data[gpu_at(t->m, t->staged[i])->ref];
        if (from->flags & ST_BUFFER_WRITTEN) {
            return true;
        }
    }
    return false;
}

static bool has_local(const gpu_mapper *m)
{
    for (uint32_t i = 0; i < m->kernel->buffers.count; i++) {
        if (m->kernel->buffers.data[i].flags & ST_BUFFER_LOCAL) {
            return true;
        }
    }
    return false;
}

/* Finds what is staged; 0: the kernel has no use for tiles. */
static bool look(tiling *t)
{
    const gpu_mapper *m = t->m;
    if (t->of->n < 2u || gpu_hint_of(m, t->of->loops[t->of->n - 1u]) < SIDE_MIN || has_local(m)) {
        return false;
    }
    const uint32_t body = gpu_at(m, t->of->loops[t->of->n - 1u])->body;
    bool has_store = false;
    for (st_loop_ref ref = m->kernel->blocks.data[body].first; ref; ref = gpu_at(m, ref)->next) {
        const st_loop_inst *inst = gpu_at(m, ref);
        if (inst->code == ST_LOOP_LOOP || inst->code == ST_LOOP_ACC) {
            return false;
        }
        if (inst->code == ST_LOOP_LOAD) {
            look_at_load(t, ref);
        }
        const bool is_store = inst->code == ST_LOOP_STORE;
        has_store = has_store || is_store;
        if (is_store && step_along(m, t->of, t->of->n - 1u, inst->sym) != 1) {
            return false;
        }
    }
    return has_store && t->n_staged && !writes_staged(t);
}

/* ---- indices ---- */

static st_symtab *tab_of(const tiling *t)
{
    return &t->m->kernel->syms->tab;
}

static uint32_t int_sym(const tiling *t, uint32_t value)
{
    return st_sym_int(tab_of(t), (int64_t)value);
}

/* How many places there are along the axes; 0: beyond the limits of syms. */
static uint32_t count_places(tiling *t)
{
    st_symtab *tab = tab_of(t);
    uint32_t all = st_sym_int(tab, 1);
    for (uint32_t k = t->of->n; all && k-- > 0;) {
        const uint32_t extent = t->of->axes[k].extent;
        t->of->stride[k] = all;
        t->places[k] = is_tiled(t, k)
                           ? st_sym_floordiv(tab, st_sym_add(tab, extent, int_sym(t, t->side - 1u)),
                                             int_sym(t, t->side))
                           : extent;
        all = t->places[k] ? st_sym_mul(tab, all, t->places[k]) : 0;
    }
    return all;
}

/* Binds the block's place along each axis; 0: out of memory or beyond the limits of syms. */
static bool bind_block(tiling *t, uint32_t block)
{
    st_symtab *tab = tab_of(t);
    for (uint32_t k = 0; k < t->of->n; k++) {
        const uint32_t quotient = st_sym_floordiv(tab, t->of->whole, t->of->stride[k]);
        const uint32_t place = quotient && k ? st_sym_mod(tab, quotient, t->places[k]) : quotient;
        int64_t lo = 0;
        int64_t hi = 0;
        st_sym_range(tab, t->of->axes[k].sym, &lo, &hi);
        t->place[k] = place ? gpu_bind(t->m, place, lo, hi, block) : 0;
        if (t->place[k] == 0) {
            return false;
        }
    }
    return true;
}

/* The element of the tile that iteration `at` is, along the rows of memory and across them. */
typedef struct element {
    uint32_t along, across; /* syms: at % side, at / side */
} element;

static element element_of(const tiling *t, uint32_t at)
{
    return (element){st_sym_mod(tab_of(t), at, int_sym(t, t->side)),
                     st_sym_floordiv(tab_of(t), at, int_sym(t, t->side))};
}

/* Writes what is put in the place of the nest's axes for element `last` along the last of them. */
static void set_places(const tiling *t, uint32_t across, uint32_t last)
{
    st_symtab *tab = tab_of(t);
    for (uint32_t k = 0; k < t->of->n; k++) {
        uint32_t sym = t->place[k];
        if (is_tiled(t, k)) {
            sym = st_sym_add(tab, st_sym_mul(tab, sym, int_sym(t, t->side)),
                             k == t->across ? across : last);
        }
        t->of->to[t->of->axes[k].symbol] = sym;
    }
}

static uint32_t subst(const tiling *t, uint32_t sym)
{
    return st_loop_subst(t->m->kernel->syms, sym, t->of->to, t->of->n_to);
}

/* Elements from one row of a staged tile to the next. */
static uint32_t row_of(const tiling *t, uint32_t i)
{
    const uint32_t dtype = t->m->kernel->buffers.data[gpu_at(t->m, t->staged[i])->ref].dtype;
    const uint32_t bytes = (uint32_t)st_element_bytes(dtype);
    return t->side + (bytes < 4u ? 4u / bytes : 1u);
}

static uint32_t tile_index(const tiling *t, uint32_t row, uint32_t along, uint32_t across)
{
    return st_sym_add(tab_of(t), along, st_sym_mul(tab_of(t), across, int_sym(t, row)));
}

/* ---- instructions ---- */

static st_loop_ref index_value(const tiling *t, uint32_t sym, uint32_t block)
{
    const st_loop_inst inst = {.code = ST_LOOP_INDEX, .dtype = STATOR_I64, .sym = sym};
    return gpu_append(t->m, block, &inst);
}

static st_loop_ref both(const tiling *t, st_loop_ref a, st_loop_ref b, uint32_t block)
{
    const st_loop_inst inst = {.code = ST_LOOP_bit_and, .dtype = STATOR_BOOL, .args = {a, b}};
    return a && b ? gpu_append(t->m, block, &inst) : a ? a : b;
}

/* The bool that the iteration is inside the nest, 0: it always is. */
static st_loop_ref put_mask(const tiling *t, uint32_t block)
{
    st_loop_ref mask = 0;
    for (uint32_t k = 0; k < t->of->n; k++) {
        const uint32_t extent = t->of->axes[k].extent;
        if (!is_tiled(t, k) || st_loop_known_or(tab_of(t), extent, 1) % t->side == 0) {
            continue;
        }
        const st_loop_ref at = index_value(t, t->of->to[t->of->axes[k].symbol], block);
        const st_loop_ref end = index_value(t, extent, block);
        const st_loop_inst less = {.code = ST_LOOP_lt, .dtype = STATOR_BOOL, .args = {at, end}};
        mask = both(t, mask, gpu_append(t->m, block, &less), block);
    }
    return mask;
}

/* Memory to the tiles. */
static bool put_loads(const tiling *t, uint32_t at, uint32_t block)
{
    const element of = element_of(t, at);
    set_places(t, of.along, of.across);
    const st_loop_ref mask = put_mask(t, block);
    for (uint32_t i = 0; i < t->n_staged; i++) {
        st_loop_inst load = *gpu_at(t->m, t->staged[i]);
        load.sym = subst(t, load.sym);
        load.args[0] = mask;
        load.args[1] = 0;
        load.next = 0;
        const st_loop_inst store = {.code = ST_LOOP_STORE,
                                    .args = {gpu_append(t->m, block, &load)},
                                    .ref = t->buffer[i],
                                    .sym = tile_index(t, row_of(t, i), of.along, of.across),
                                    .origin = load.origin};
        if (load.sym == 0 || store.args[0] == 0 || !gpu_append(t->m, block, &store)) {
            return false;
        }
    }
    return true;
}

/* One instruction of the nest's bodies, before it is moved into the walk over the tiles. */
static bool retarget(const tiling *t, st_loop_ref ref, st_loop_ref mask, element of, uint32_t block)
{
    for (uint32_t i = 0; i < t->n_staged; i++) {
        if (t->staged[i] == ref) {
            st_loop_inst *load = gpu_at(t->m, ref);
            const uint32_t row = row_of(t, i);
            load->ref = t->buffer[i];
            load->sym = tile_index(t, row, of.across, of.along);
            return true;
        }
    }
    const st_loop_inst inst = *gpu_at(t->m, ref);
    if (inst.sym && inst.code != ST_LOOP_BIND) {
        gpu_at(t->m, ref)->sym = subst(t, inst.sym);
    }
    const uint32_t slot = inst.code == ST_LOOP_LOAD ? 0 : 1;
    if (mask &&
        (inst.code == ST_LOOP_LOAD || inst.code == ST_LOOP_STORE || inst.code == ST_LOOP_CHECK)) {
        const st_loop_ref combined = both(t, inst.args[slot], mask, block);
        gpu_at(t->m, ref)->args[slot] = combined;
        return combined != 0;
    }
    return true;
}

/* The tiles to memory: what the nest did. */
static bool move_work(const tiling *t, uint32_t at, uint32_t block)
{
    const element of = element_of(t, at);
    set_places(t, of.across, of.along);
    const st_loop_ref mask = put_mask(t, block);
    for (uint32_t k = 0; k < t->of->n; k++) {
        const uint32_t body = gpu_at(t->m, t->of->loops[k])->body;
        const st_loop_ref inside = is_last(t, k) ? 0 : t->of->loops[k + 1u];
        for (st_loop_ref ref = t->m->kernel->blocks.data[body].first; ref;) {
            const st_loop_ref next = gpu_at(t->m, ref)->next;
            gpu_at(t->m, ref)->next = 0;
            if (ref != inside && !retarget(t, ref, mask, of, block)) {
                return false;
            }
            if (ref != inside) {
                st_loop_chain(t->m->kernel, block, ref);
            }
            ref = next;
        }
        t->m->kernel->blocks.data[body].first = 0;
        t->m->kernel->blocks.data[body].last = 0;
    }
    return true;
}

/* Can each index be written over the tiles? */
static bool can_subst(const tiling *t, uint32_t at)
{
    const element of = element_of(t, at);
    for (uint32_t way = 0; way < 2u; way++) {
        set_places(t, way ? of.across : of.along, way ? of.along : of.across);
        for (uint32_t k = 0; k < t->of->n; k++) {
            const uint32_t body = gpu_at(t->m, t->of->loops[k])->body;
            for (st_loop_ref ref = t->m->kernel->blocks.data[body].first; ref;
                 ref = gpu_at(t->m, ref)->next) {
                const st_loop_inst *inst = gpu_at(t->m, ref);
                if (inst->sym && inst->code != ST_LOOP_BIND && !subst(t, inst->sym)) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* ---- the kernel ---- */

static void add_buffers(tiling *t, st_loop_builder *b)
{
    for (uint32_t i = 0; i < t->n_staged; i++) {
        const uint32_t dtype = t->m->kernel->buffers.data[gpu_at(t->m, t->staged[i])->ref].dtype;
        t->buffer[i] = st_loop_buffer_add(b, "tile", dtype, int_sym(t, t->side * row_of(t, i)),
                                          ST_BUFFER_LOCAL | ST_BUFFER_READ | ST_BUFFER_WRITTEN, 0);
    }
}

/* 0: out of memory. */
static bool make(tiling *t, st_loop_builder *b, uint32_t tiles, bool *out_is_done)
{
    st_kernel *kernel = t->m->kernel;
    const uint32_t axis = st_loop_axis_add(b, tiles, ST_AXIS_PARALLEL);
    const uint32_t walks[2] = {st_loop_axis_add(b, int_sym(t, t->side * t->side), 0),
                               st_loop_axis_add(b, int_sym(t, t->side * t->side), 0)};
    const uint32_t block = kernel->blocks.count;
    st_loop_block *made = kernel->failed ? NULL : st_vec_push(kernel->mem, &kernel->blocks);
    if (made == NULL) {
        return false;
    }
    *made = (st_loop_block){.loop = t->of->loops[0]};
    t->of->whole = kernel->axes.data[axis].sym;
    if (!bind_block(t, block) || !can_subst(t, kernel->axes.data[walks[0]].sym)) {
        return true;
    }
    add_buffers(t, b);
    const uint32_t loads = gpu_open_loop(t->m, walks[0], ST_MAPPING_THREADS, block);
    const uint32_t work = loads ? gpu_open_loop(t->m, walks[1], ST_MAPPING_THREADS, block) : 0;
    if (kernel->failed || !work || !put_loads(t, kernel->axes.data[walks[0]].sym, loads) ||
        !move_work(t, kernel->axes.data[walks[1]].sym, work)) {
        return false;
    }
    for (uint32_t k = 1; k < t->of->n; k++) {
        gpu_at(t->m, t->of->loops[k])->code = ST_LOOP_NONE;
    }
    gpu_at(t->m, t->of->loops[0])->ref = axis;
    gpu_at(t->m, t->of->loops[0])->body = block;
    kernel->axes.data[axis].block = block;
    kernel->threads = TILE_THREADS;
    st_loop_set_depths(kernel, 0, 0);
    *out_is_done = true;
    return true;
}

bool gpu_map_tile(const gpu_mapper *m, gpu_nest *of, bool *out_is_done)
{
    tiling t = {.m = m, .of = of};
    st_loop_builder b;
    *out_is_done = false;
    const uint32_t tiles = look(&t) ? count_places(&t) : 0;
    if (tiles == 0) {
        return true;
    }
    of->n_to = m->kernel->syms->symbols.count;
    of->to = st_calloc(m->kernel->mem, of->n_to, sizeof *of->to);
    if (of->to == NULL) {
        return false;
    }
    st_loop_builder_init(&b, m->kernel);
    const bool is_good = make(&t, &b, tiles, out_is_done);
    st_loop_builder_deinit(&b);
    st_free(m->kernel->mem, of->to);
    return is_good;
}
