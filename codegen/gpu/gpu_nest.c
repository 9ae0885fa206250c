/* Loops right inside each other become one.
 *
 *   before  loop i0 < N { loop i1 < 64 { ... x[64*i0 + i1], y[i1] ... } }
 *   after   loop i2 < 64*N { n = mod(i2, 64); ... x[i2], y[n] ... }
 *
 * Indices that walk the nest in its order are written over the one axis; for others the place along
 * each axis is bound to a symbol. What stood between the loops is done in each iteration. */
#include "codegen/gpu/gpu_schedule.h"

#include "codegen/loopir/loop_build.h"

/* ---- what is a nest ---- */

/* Does an instruction below update an accumulator that stands around the loop's body? */
static bool updates_outside(const gpu_mapper *m, uint32_t block, uint32_t depth)
{
    for (st_loop_ref ref = m->kernel->blocks.data[block].first; ref; ref = gpu_at(m, ref)->next) {
        const st_loop_inst *inst = gpu_at(m, ref);
        if (inst->code == ST_LOOP_LOOP && updates_outside(m, inst->body, depth)) {
            return true;
        }
        if (inst->code == ST_LOOP_UPDATE &&
            m->kernel->blocks.data[gpu_at(m, inst->ref)->block].depth < depth) {
            return true;
        }
    }
    return false;
}

/* Do the iterations of the loop meet in an accumulator? */
static bool meets_outside(const gpu_mapper *m, st_loop_ref loop)
{
    const uint32_t body = gpu_at(m, loop)->body;
    return updates_outside(m, body, m->kernel->blocks.data[body].depth);
}

bool gpu_is_written(const st_kernel *kernel, uint32_t index)
{
    const st_loop_buffer *buffer = &kernel->buffers.data[index];
    for (uint32_t i = 0; i < kernel->buffers.count; i++) {
        const st_loop_buffer *other = &kernel->buffers.data[i];
        const bool may_share = i == index || !((buffer->flags | other->flags) & ST_BUFFER_UNIQUE);
        if ((other->flags & ST_BUFFER_WRITTEN) && may_share) {
            return true;
        }
    }
    return false;
}

/* May the instruction run once in each iteration of a loop that stands beside it? */
static bool can_sink(const gpu_mapper *m, const st_loop_inst *inst)
{
    switch (inst->code) {
    case ST_LOOP_CONST:
    case ST_LOOP_INDEX:
    case ST_LOOP_BIND:
    case ST_LOOP_CHECK: /* it says the same each time; see next_inside */
        return true;
    case ST_LOOP_LOAD:
        return !gpu_is_written(m->kernel, inst->ref);
    default:
        return st_loop_desc(inst->code) != NULL;
    }
}

typedef struct symbol_search {
    const st_loop_syms *syms;
    bool has_value;
} symbol_search;

static void note_value(void *self, uint32_t index)
{
    symbol_search *s = self;
    s->has_value = s->has_value || s->syms->symbols.data[index].kind != ST_SYMBOL_SIZE;
}

bool gpu_is_of_sizes(const gpu_mapper *m, uint32_t sym)
{
    symbol_search s = {m->kernel->syms, false};
    st_loop_each_symbol(m->kernel->syms, sym, note_value, &s);
    return !s.has_value;
}

/* Does the loop have an iteration, whatever the sizes are? */
static bool has_iteration(const gpu_mapper *m, st_loop_ref loop)
{
    int64_t lo = 0;
    int64_t hi = 0;
    st_sym_range(&m->kernel->syms->tab, gpu_axis_of(m, loop)->extent, &lo, &hi);
    return lo >= 1;
}

/* The loop inside `loop` when its iterations may be run in any order, all else there can be done
 * by each of them (a check by one at least) and its extent is made of sizes; else 0. With
 * `is_parallel` they also meet in no accumulator. */
static st_loop_ref next_inside(const gpu_mapper *m, st_loop_ref loop, bool is_parallel)
{
    st_loop_ref inside = 0;
    bool has_check = false;
    for (st_loop_ref ref = m->kernel->blocks.data[gpu_at(m, loop)->body].first; ref;
         ref = gpu_at(m, ref)->next) {
        const st_loop_inst *inst = gpu_at(m, ref);
        has_check = has_check || inst->code == ST_LOOP_CHECK;
        if (inst->code == ST_LOOP_LOOP && inside == 0) {
            inside = ref;
        } else if (inst->code == ST_LOOP_LOOP || !can_sink(m, inst)) {
            return 0;
        }
    }
    const bool is_free = inside && !(gpu_axis_of(m, inside)->flags & ST_AXIS_SERIAL) &&
                         gpu_is_of_sizes(m, gpu_axis_of(m, inside)->extent) &&
                         (!has_check || has_iteration(m, inside));
    return is_free && !(is_parallel && meets_outside(m, inside)) ? inside : 0;
}

/* ---- one axis instead of a nest ---- */

void gpu_find_nest(const gpu_mapper *m, st_loop_ref loop, gpu_nest *out)
{
    const bool is_parallel = loop && (gpu_axis_of(m, loop)->flags & ST_AXIS_PARALLEL) != 0;
    *out = (gpu_nest){.n = 0};
    for (; loop && out->n < GPU_NEST_MAX; loop = next_inside(m, loop, is_parallel)) {
        out->axes[out->n] = *gpu_axis_of(m, loop);
        out->loops[out->n++] = loop;
    }
}

/* 0: beyond the limits of syms. */
static bool set_strides(gpu_nest *of, st_symtab *tab)
{
    of->extent = st_sym_int(tab, 1);
    for (uint32_t k = of->n; of->extent && k-- > 0;) {
        of->stride[k] = of->extent;
        of->extent = st_sym_mul(tab, of->extent, of->axes[k].extent);
    }
    return of->extent != 0;
}

/* The sym over the whole axis when it walks the nest in its order, else 0. */
static uint32_t walk_whole(const gpu_nest *of, st_loop_syms *syms, uint32_t sym)
{
    uint32_t coef[GPU_NEST_MAX];
    for (uint32_t k = 0; k < of->n; k++) {
        if (!st_loop_linear(syms, sym, of->axes[k].symbol, &coef[k], &sym)) {
            return 0;
        }
    }
    const uint32_t step = coef[of->n - 1u];
    for (uint32_t k = 0; k + 1u < of->n; k++) {
        if (coef[k] != st_sym_mul(&syms->tab, step, of->stride[k])) {
            return 0;
        }
    }
    const uint32_t moved = st_sym_mul(&syms->tab, step, of->whole);
    return moved ? st_sym_add(&syms->tab, moved, sym) : 0;
}

/* Are there indices that do not walk the nest in its order? */
static bool needs_places(const gpu_mapper *m, const gpu_nest *of, uint32_t block)
{
    for (st_loop_ref ref = m->kernel->blocks.data[block].first; ref; ref = gpu_at(m, ref)->next) {
        const st_loop_inst *inst = gpu_at(m, ref);
        if (inst->code == ST_LOOP_LOOP && needs_places(m, of, inst->body)) {
            return true;
        }
        if (inst->sym && inst->code != ST_LOOP_BIND &&
            walk_whole(of, m->kernel->syms, inst->sym) == 0) {
            return true;
        }
    }
    return false;
}

/* Writes the indices below over the one axis, or on trial only tries; 0: beyond the limits of syms.
 */
static bool rewrite(const gpu_mapper *m, const gpu_nest *of, uint32_t block, bool is_trial)
{
    st_loop_syms *syms = m->kernel->syms;
    for (st_loop_ref ref = m->kernel->blocks.data[block].first; ref; ref = gpu_at(m, ref)->next) {
        st_loop_inst *inst = gpu_at(m, ref);
        if (inst->code == ST_LOOP_LOOP && !rewrite(m, of, inst->body, is_trial)) {
            return false;
        }
        if (inst->sym == 0 || inst->code == ST_LOOP_BIND) {
            continue;
        }
        uint32_t sym = walk_whole(of, syms, inst->sym);
        sym = sym ? sym : st_loop_subst(syms, inst->sym, of->to, of->n_to);
        if (sym == 0) {
            return false;
        }
        inst->sym = is_trial ? inst->sym : sym;
    }
    return true;
}

st_loop_ref gpu_append(const gpu_mapper *m, uint32_t block, const st_loop_inst *inst)
{
    const st_loop_ref ref = m->kernel->insts.count;
    st_loop_inst *at = st_vec_push(m->kernel->mem, &m->kernel->insts);
    if (at == NULL) {
        return 0;
    }
    *at = *inst;
    st_loop_chain(m->kernel, block, ref);
    return ref;
}

uint32_t gpu_open_loop(const gpu_mapper *m, uint32_t axis, uint32_t mapping, uint32_t block)
{
    st_kernel *kernel = m->kernel;
    const uint32_t body = kernel->blocks.count;
    st_loop_block *made = st_vec_push(kernel->mem, &kernel->blocks);
    if (made == NULL) {
        return 0;
    }
    *made = (st_loop_block){.first = 0};
    const st_loop_inst loop = {.code = ST_LOOP_LOOP, .ref = axis, .body = body};
    const st_loop_ref ref = gpu_append(m, block, &loop);
    kernel->blocks.data[body].loop = ref;
    kernel->axes.data[axis].block = body;
    kernel->axes.data[axis].mapping = mapping;
    return ref ? body : 0;
}

uint32_t gpu_bind(const gpu_mapper *m, uint32_t sym, int64_t lo, int64_t hi, uint32_t block)
{
    const st_loop_inst index = {.code = ST_LOOP_INDEX, .dtype = STATOR_I64, .sym = sym};
    const st_loop_ref value = gpu_append(m, block, &index);
    const st_loop_symbol symbol = {
        .kind = ST_SYMBOL_VALUE, .id = m->kernel->insts.count, .owner = m->kernel->number};
    const st_loop_inst bind = {
        .code = ST_LOOP_BIND,
        .args = {value},
        .sym = value ? st_loop_symbol_add(m->kernel->syms, &symbol, lo, hi, 1) : 0};
    return bind.sym && gpu_append(m, block, &bind) ? bind.sym : 0;
}

/* Binds a symbol to the place along axis k of the nest, at the end of the block. */
static bool bind_place(const gpu_mapper *m, const gpu_nest *of, uint32_t k, uint32_t block)
{
    st_loop_syms *syms = m->kernel->syms;
    const uint32_t quotient = st_sym_floordiv(&syms->tab, of->whole, of->stride[k]);
    const uint32_t place =
        quotient && k ? st_sym_mod(&syms->tab, quotient, of->axes[k].extent) : quotient;
    int64_t lo = 0;
    int64_t hi = 0;
    st_sym_range(&syms->tab, of->axes[k].sym, &lo, &hi);
    of->to[of->axes[k].symbol] = place ? gpu_bind(m, place, lo, hi, block) : 0;
    return of->to[of->axes[k].symbol] != 0;
}

/* Moves what stands in the nest's bodies, but for its loops, to the end of the block. */
static void move_bodies(const gpu_mapper *m, const gpu_nest *of, uint32_t block)
{
    for (uint32_t k = 0; k < of->n; k++) {
        st_loop_block *body = &m->kernel->blocks.data[gpu_at(m, of->loops[k])->body];
        const st_loop_ref inside = k + 1u < of->n ? of->loops[k + 1u] : 0;
        for (st_loop_ref ref = body->first; ref;) {
            const st_loop_ref next = gpu_at(m, ref)->next;
            gpu_at(m, ref)->next = 0;
            if (ref != inside) {
                st_loop_chain(m->kernel, block, ref);
            }
            ref = next;
        }
        body->first = 0;
        body->last = 0;
    }
}

/* Binds the places along the nest's axes where indices need them; 0: out of memory or beyond the
 * limits of syms. */
static bool bind_places(const gpu_mapper *m, const gpu_nest *of, uint32_t block)
{
    const bool has_places = needs_places(m, of, gpu_at(m, of->loops[0])->body);
    for (uint32_t k = 0; has_places && k < of->n; k++) {
        if (!bind_place(m, of, k, block)) {
            return false;
        }
    }
    return true;
}

/* The loops of the nest become one over the axis, or stay as they are where an index would be
 * beyond the limits of syms; 0: out of memory. */
static bool make_one(const gpu_mapper *m, gpu_nest *of, uint32_t axis)
{
    st_kernel *kernel = m->kernel;
    const uint32_t block = kernel->blocks.count;
    st_loop_block *made = st_vec_push(kernel->mem, &kernel->blocks);
    if (made == NULL) {
        return false;
    }
    *made = (st_loop_block){.loop = of->loops[0]};
    of->whole = kernel->axes.data[axis].sym;
    if (!bind_places(m, of, block) || !rewrite(m, of, gpu_at(m, of->loops[0])->body, true)) {
        return true;
    }
    move_bodies(m, of, block);
    for (uint32_t k = 1; k < of->n; k++) {
        gpu_at(m, of->loops[k])->code = ST_LOOP_NONE;
    }
    gpu_at(m, of->loops[0])->ref = axis;
    gpu_at(m, of->loops[0])->body = block;
    kernel->axes.data[axis].block = block;
    st_loop_set_depths(kernel, 0, 0);
    return rewrite(m, of, block, false);
}

bool gpu_flatten(const gpu_mapper *m, gpu_nest *of)
{
    st_loop_builder b;
    uint32_t flags = 0;
    for (uint32_t k = 0; k < of->n; k++) {
        flags |= of->axes[k].flags;
    }
    if (of->n < 2u || !set_strides(of, &m->kernel->syms->tab)) {
        return true;
    }
    st_loop_builder_init(&b, m->kernel);
    const uint32_t kinds = ST_AXIS_PARALLEL | ST_AXIS_REDUCE;
    const uint32_t axis = st_loop_axis_add(&b, of->extent, flags & kinds);
    st_loop_builder_deinit(&b);
    of->n_to = m->kernel->syms->symbols.count;
    of->to = m->kernel->failed ? NULL : st_calloc(m->kernel->mem, of->n_to, sizeof *of->to);
    const bool is_done = of->to && make_one(m, of, axis);
    st_free(m->kernel->mem, of->to);
    return is_done;
}
