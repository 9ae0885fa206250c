/* Contractions: blocks of threads make tiles of a product.
 *
 *   before  loop i0 < M parallel { loop i1 < N {
 *             a = acc sum; loop i2 < K reduce { update a, mul x[K*i0 + i2], y[N*i2 + i1] }
 *             store z[N*i0 + i1], ... read a ... } }
 *   after   loop i3 < tiles parallel over blocks { m = i3 / (N/128); n = mod(i3, N/128);
 *             loop i4 < 128 over rows of a tile { in_m = lt 128*m + i4, M
 *               loop i5 < 128 over columns of a tile { in_n = lt 128*n + i5, N
 *                 a = acc sum; loop i2 < K reduce by steps of a tile { ... }
 *                 store z[128*N*m + N*i4 + 128*n + i5], ... if in_m & in_n } } }
 *
 * An axis that one factor alone walks is of the tile's rows or of its columns, all others are of
 * the batch; axes of one kind become one. What the factors are made of does not matter: loads at
 * any index, masked and widened ones, so that a convolution is a product of the same kind. */
#include "codegen/gpu/contract/gpu_contract.h"
#include "codegen/gpu/gpu_schedule.h"
#include "codegen/loopir/loop_build.h"

#include <string.h>

#define STEPS_MIN 16

enum role { ROLE_BATCH = 0, ROLE_ROWS = 1, ROLE_COLUMNS = 2, ROLES = 3 };

enum needed { NEEDED_BY_ROWS = 1u << 0, NEEDED_BY_COLUMNS = 1u << 1 };

typedef struct contraction {
    const gpu_mapper *m;
    gpu_nest of;     /* the loops around the sum */
    gpu_nest inside; /* and those of the sum */
    uint32_t n_sums;
    st_loop_ref acc[GPU_SUMS_MAX], update[GPU_SUMS_MAX];
    uint8_t *needed; /* enum needed, by instruction */
    enum role role[GPU_NEST_MAX];
    st_loop_ref loop[ROLES]; /* 0: there is none */
    gpu_product_size size;   /* to decide by */
    gpu_tile_shape shape;
    uint32_t places[ROLES]; /* tiles along each, syms */
    uint32_t tiles;         /* the parallel axis */
    uint32_t side[2];       /* the axes of rows and of columns */
    uint32_t *to;           /* by symbol: what is put in its place */
    uint32_t n_to;
    st_loop_ref mask[3]; /* inside the rows, the columns, both; 0: always */
} contraction;

/* ---- what an instruction needs ---- */

typedef struct need_walk {
    const st_kernel *kernel;
    uint8_t *marks;
    uint8_t bit;
} need_walk;

static void need(need_walk *w, st_loop_ref ref);

static void need_symbol(void *self, uint32_t index)
{
    need_walk *w = self;
    const st_loop_symbol *symbol = &w->kernel->syms->symbols.data[index];
    if (symbol->kind == ST_SYMBOL_VALUE && symbol->owner == w->kernel->number) {
        need(w, symbol->id);
    }
}

static void need(need_walk *w, st_loop_ref ref)
{
    const st_loop_inst *inst = st_loop_at(w->kernel, ref);
    if (ref == 0 || (w->marks[ref] & w->bit)) {
        return;
    }
    w->marks[ref] |= w->bit;
    for (uint32_t k = 0; k < 3u; k++) {
        need(w, inst->args[k]);
    }
    if (inst->sym && inst->code != ST_LOOP_BIND) {
        st_loop_each_symbol(w->kernel->syms, inst->sym, need_symbol, w);
    }
    if (inst->code == ST_LOOP_RARE) {
        for (ref = w->kernel->blocks.data[inst->body].first; ref;
             ref = st_loop_at(w->kernel, ref)->next) {
            need(w, ref);
        }
    }
}

void gpu_mark_needed(const st_kernel *kernel, st_loop_ref ref, uint8_t *marks, uint8_t bit)
{
    need_walk w = {kernel, marks, bit};
    need(&w, ref);
}

/* Does what is marked depend on the symbol? */
static bool depends_on(const contraction *c, uint8_t bit, uint32_t symbol)
{
    for (st_loop_ref ref = 1; ref < c->m->kernel->insts.count; ref++) {
        const st_loop_inst *inst = gpu_at(c->m, ref);
        if ((c->needed[ref] & bit) && inst->sym && inst->code != ST_LOOP_BIND &&
            st_loop_mentions(c->m->kernel->syms, inst->sym, symbol)) {
            return true;
        }
    }
    return false;
}

/* ---- what is a contraction ---- */

static uint32_t body_of(const contraction *c, const gpu_nest *of)
{
    return gpu_at(c->m, of->loops[of->n - 1u])->body;
}

/* Finds the accumulators and the loop in the innermost body, which hold nothing else of the
 * kind. */
static st_loop_ref find_sums(contraction *c)
{
    st_loop_ref loop = 0;
    for (st_loop_ref ref = c->m->kernel->blocks.data[body_of(c, &c->of)].first; ref;
         ref = gpu_at(c->m, ref)->next) {
        const st_loop_inst *inst = gpu_at(c->m, ref);
        const bool is_loop = inst->code == ST_LOOP_LOOP;
        const bool is_acc = inst->code == ST_LOOP_ACC;
        if ((is_loop && loop) || (is_acc && c->n_sums == GPU_SUMS_MAX) ||
            inst->code == ST_LOOP_UPDATE || inst->code == ST_LOOP_CHECK ||
            inst->code == ST_LOOP_RARE) {
            return 0;
        }
        loop = is_loop ? ref : loop;
        if (is_acc) {
            c->acc[c->n_sums++] = ref;
        }
    }
    return c->n_sums ? loop : 0;
}

/* Notes the update of one of the sums, if it is its first. */
static bool note_update(contraction *c, st_loop_ref ref)
{
    for (uint32_t k = 0; k < c->n_sums; k++) {
        if (gpu_at(c->m, ref)->ref == c->acc[k] && c->update[k] == 0) {
            c->update[k] = ref;
            return true;
        }
    }
    return false;
}

/* Is the body of the sums an update of each and what they need? */
static bool find_updates(contraction *c)
{
    uint32_t n = 0;
    for (st_loop_ref ref = c->m->kernel->blocks.data[body_of(c, &c->inside)].first; ref;
         ref = gpu_at(c->m, ref)->next) {
        const st_loop_inst *inst = gpu_at(c->m, ref);
        switch (inst->code) {
        case ST_LOOP_UPDATE:
            if (!note_update(c, ref)) {
                return false;
            }
            n++;
            break;
        case ST_LOOP_LOOP:
        case ST_LOOP_RARE:
        case ST_LOOP_ACC:
        case ST_LOOP_READ:
        case ST_LOOP_STORE:
        case ST_LOOP_CHECK:
            return false;
        default:
            break;
        }
    }
    return n == c->n_sums;
}

static const st_loop_inst *product_of(const contraction *c, uint32_t sum)
{
    return gpu_at(c->m, gpu_at(c->m, c->update[sum])->args[0]);
}

/* Is the mask of the update that of a load of one factor, so that the product is 0 without it? */
static bool is_mask_of_factor(const contraction *c, const st_loop_inst *product, st_loop_ref mask)
{
    for (uint32_t k = 0; mask && k < 2u; k++) {
        const st_loop_inst *inst = gpu_at(c->m, product->args[k]);
        inst = inst->code == ST_LOOP_cast ? gpu_at(c->m, inst->args[0]) : inst;
        if (inst->code == ST_LOOP_LOAD && inst->args[0] == mask && inst->args[1] == 0) {
            return true;
        }
    }
    return mask == 0;
}

static bool is_product(const contraction *c, uint32_t sum)
{
    const st_loop_inst *acc = gpu_at(c->m, c->acc[sum]);
    const st_loop_inst *product = product_of(c, sum);
    const bool is_typed =
        acc->dtype == STATOR_F32 || acc->dtype == STATOR_F64 || acc->dtype == STATOR_I32;
    return acc->imm.i == ST_ACC_SUM && acc->args[0] == 0 && is_typed &&
           acc->dtype == gpu_at(c->m, c->acc[0])->dtype && product->code == ST_LOOP_mul &&
           product->dtype == acc->dtype &&
           is_mask_of_factor(c, product, gpu_at(c->m, c->update[sum])->args[2]);
}

static bool are_products(const contraction *c)
{
    for (uint32_t k = 0; k < c->n_sums; k++) {
        if (!is_product(c, k)) {
            return false;
        }
    }
    return true;
}

static bool has_local(const contraction *c)
{
    for (uint32_t i = 0; i < c->m->kernel->buffers.count; i++) {
        if (c->m->kernel->buffers.data[i].flags & ST_BUFFER_LOCAL) {
            return true;
        }
    }
    return false;
}

static void swap_needed(const contraction *c)
{
    for (st_loop_ref ref = 1; ref < c->m->kernel->insts.count; ref++) {
        c->needed[ref] = (uint8_t)((c->needed[ref] >> 1u) | ((c->needed[ref] & 1u) << 1u));
    }
}

/* The factor that the innermost axis walks, along which results lie, is of the columns. */
static void choose_roles(contraction *c)
{
    const uint32_t last = c->of.axes[c->of.n - 1u].symbol;
    const st_symtab *tab = &c->m->kernel->syms->tab;
    int64_t *sizes[ROLES] = {&c->size.batch, &c->size.rows, &c->size.columns};
    bool has[ROLES] = {true, true, true};
    for (uint32_t k = 0; k < c->n_sums; k++) {
        const st_loop_inst *product = product_of(c, k);
        gpu_mark_needed(c->m->kernel, product->args[0], c->needed, NEEDED_BY_ROWS);
        gpu_mark_needed(c->m->kernel, product->args[1], c->needed, NEEDED_BY_COLUMNS);
    }
    if (depends_on(c, NEEDED_BY_ROWS, last) && !depends_on(c, NEEDED_BY_COLUMNS, last)) {
        swap_needed(c);
    }
    c->size.batch = 1;
    c->size.rows = 1;
    c->size.columns = 1;
    for (uint32_t k = 0; k < c->of.n; k++) {
        const bool in_rows = depends_on(c, NEEDED_BY_ROWS, c->of.axes[k].symbol);
        const bool in_columns = depends_on(c, NEEDED_BY_COLUMNS, c->of.axes[k].symbol);
        c->role[k] = in_rows == in_columns ? ROLE_BATCH : in_rows ? ROLE_ROWS : ROLE_COLUMNS;
        int64_t *size = sizes[c->role[k]];
        has[c->role[k]] &= st_loop_known_or(tab, c->of.axes[k].extent, -1) >= 0;
        if (__builtin_mul_overflow(*size, gpu_hint_of(c->m, c->of.loops[k]), size)) {
            *size = INT64_MAX;
        }
    }
    c->size.has_rows = has[ROLE_ROWS];
    c->size.has_columns = has[ROLE_COLUMNS];
}

/* Is the innermost of the loops by their roles one over columns, in which all else can stand? */
static bool has_columns(const contraction *c)
{
    for (uint32_t k = 0; k < c->of.n; k++) {
        if (c->role[k] == ROLE_COLUMNS) {
            return true;
        }
    }
    return false;
}

static bool choose_shape(contraction *c)
{
    c->size.dtype = gpu_at(c->m, c->acc[0])->dtype;
    c->size.n_sums = c->n_sums;
    c->size.n_multiprocessors = c->m->target->n_multiprocessors;
    c->size.block_threads_max = c->m->target->block_threads_max;
    if (c->size.batch < 1 || c->size.rows < 1 || c->size.columns < 1 || !has_columns(c)) {
        return false;
    }
    if (!gpu_choose_tile(&c->size, &c->shape)) {
        return gpu_choose_skinny(&c->size, &c->shape);
    }
    const gpu_matrix_question q = {.target = c->m->target,
                                   .kernel = c->m->kernel,
                                   .product = gpu_at(c->m, c->update[0])->args[0],
                                   .batch = c->size.batch,
                                   .rows = c->size.rows,
                                   .columns = c->size.columns};
    const gpu_tile_shape *matrix = gpu_matrix_choose(&q);
    c->shape = matrix ? *matrix : c->shape;
    return true;
}

/* Finds the parts; 0: it is no contraction, or too small for tiles. */
static bool look(contraction *c)
{
    const st_loop_ref loop = c->of.n && !has_local(c) ? find_sums(c) : 0;
    if (loop == 0) {
        return false;
    }
    gpu_find_nest(c->m, loop, &c->inside);
    if ((c->inside.axes[0].flags & ST_AXIS_SERIAL) ||
        !gpu_is_of_sizes(c->m, c->inside.axes[0].extent)) {
        return false;
    }
    c->size.steps = 1;
    for (uint32_t k = 0; k < c->inside.n; k++) {
        const int64_t extent = gpu_hint_of(c->m, c->inside.loops[k]);
        if (__builtin_mul_overflow(c->size.steps, extent, &c->size.steps)) {
            c->size.steps = INT64_MAX;
        }
    }
    if (c->size.steps < STEPS_MIN || !find_updates(c) || !are_products(c)) {
        return false;
    }
    choose_roles(c);
    return choose_shape(c);
}

/* ---- the loops by their roles ---- */

/* Moves what stands in the bodies around the innermost one to its begin. */
static void sink_all(const contraction *c)
{
    st_kernel *kernel = c->m->kernel;
    st_loop_block *last = &kernel->blocks.data[body_of(c, &c->of)];
    const st_loop_ref rest = last->first;
    last->first = 0;
    last->last = 0;
    for (uint32_t k = 0; k < c->of.n; k++) {
        const bool is_last = k + 1u == c->of.n;
        st_loop_block *body = &kernel->blocks.data[gpu_at(c->m, c->of.loops[k])->body];
        const st_loop_ref inside = is_last ? 0 : c->of.loops[k + 1u];
        st_loop_ref ref = is_last ? rest : body->first;
        while (ref) {
            const st_loop_ref next = gpu_at(c->m, ref)->next;
            gpu_at(c->m, ref)->next = 0;
            if (ref != inside) {
                st_loop_chain(kernel, body_of(c, &c->of), ref);
            }
            ref = next;
        }
        if (!is_last) {
            body->first = inside;
            body->last = inside;
        }
    }
}

/* Axes change loops, so that those of the batch stand outside, then rows, then columns. */
static void order_axes(contraction *c)
{
    st_kernel *kernel = c->m->kernel;
    uint32_t axes[GPU_NEST_MAX];
    enum role roles[GPU_NEST_MAX];
    uint32_t n = 0;
    kernel->axes.data[gpu_at(c->m, c->of.loops[0])->ref].flags &= ~(uint32_t)ST_AXIS_PARALLEL;
    for (uint32_t r = 0; r < ROLES; r++) {
        for (uint32_t k = 0; k < c->of.n; k++) {
            if (c->role[k] == (enum role)r) {
                roles[n] = (enum role)r;
                axes[n++] = gpu_at(c->m, c->of.loops[k])->ref;
            }
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        st_loop_inst *loop = gpu_at(c->m, c->of.loops[k]);
        loop->ref = axes[k];
        kernel->axes.data[axes[k]].block = loop->body;
        c->role[k] = roles[k];
        c->of.axes[k] = kernel->axes.data[axes[k]];
    }
    kernel->axes.data[axes[0]].flags |= ST_AXIS_PARALLEL;
    c->of.axes[0].flags |= ST_AXIS_PARALLEL;
}

/* The nest becomes one loop; *out_is_one false: beyond the limits of syms. 0: out of memory. */
static bool make_one(const contraction *c, gpu_nest *of, bool *out_is_one)
{
    const uint32_t before = of->n ? gpu_at(c->m, of->loops[0])->ref : 0;
    if (!gpu_flatten(c->m, of)) {
        return false;
    }
    *out_is_one = *out_is_one && (of->n < 2u || gpu_at(c->m, of->loops[0])->ref != before);
    return true;
}

/* One loop for each role, and one for the sum. */
static bool make_loops(contraction *c, bool *out_is_one)
{
    *out_is_one = true;
    sink_all(c);
    order_axes(c);
    for (uint32_t r = 0; r < ROLES; r++) {
        gpu_nest of = {.n = 0};
        for (uint32_t k = 0; k < c->of.n; k++) {
            if (c->role[k] == (enum role)r) {
                of.axes[of.n] = c->of.axes[k];
                of.loops[of.n++] = c->of.loops[k];
            }
        }
        c->loop[r] = of.n ? of.loops[0] : 0;
        if (!make_one(c, &of, out_is_one)) {
            return false;
        }
    }
    return make_one(c, &c->inside, out_is_one);
}

/* ---- tiles ---- */

static st_symtab *tab_of(const contraction *c)
{
    return &c->m->kernel->syms->tab;
}

static uint32_t int_sym(const contraction *c, uint32_t value)
{
    return st_sym_int(tab_of(c), (int64_t)value);
}

static uint32_t extent_of(const contraction *c, enum role r)
{
    return c->loop[r] ? gpu_axis_of(c->m, c->loop[r])->extent : int_sym(c, 1);
}

static uint32_t side_of(const contraction *c, enum role r)
{
    return r == ROLE_ROWS ? c->shape.rows : c->shape.columns;
}

/* Tiles of all together; 0: beyond the limits of syms. */
static uint32_t count_tiles(contraction *c)
{
    st_symtab *tab = tab_of(c);
    uint32_t all = int_sym(c, 1);
    for (uint32_t r = 0; all && r < ROLES; r++) {
        const uint32_t side = r == ROLE_BATCH ? 1u : side_of(c, (enum role)r);
        const uint32_t padded = st_sym_add(tab, extent_of(c, (enum role)r), int_sym(c, side - 1u));
        c->places[r] = padded ? st_sym_floordiv(tab, padded, int_sym(c, side)) : 0;
        all = c->places[r] ? st_sym_mul(tab, all, c->places[r]) : 0;
    }
    return all;
}

/* Binds the block's place in the batch or along rows or columns. */
static uint32_t bind_place(const contraction *c, enum role r, uint32_t block)
{
    st_symtab *tab = tab_of(c);
    const uint32_t whole = c->m->kernel->axes.data[c->tiles].sym;
    const uint32_t plane = st_sym_mul(tab, c->places[ROLE_ROWS], c->places[ROLE_COLUMNS]);
    const uint32_t step = r == ROLE_BATCH  ? plane
                          : r == ROLE_ROWS ? c->places[ROLE_COLUMNS]
                                           : int_sym(c, 1);
    uint32_t place = step ? st_sym_floordiv(tab, whole, step) : 0;
    place = place && r != ROLE_BATCH ? st_sym_mod(tab, place, c->places[r]) : place;
    int64_t lo = 0;
    int64_t hi = 0;
    st_sym_range(tab, c->places[r], &lo, &hi);
    return place ? gpu_bind(c->m, place, 0, hi > 0 ? hi - 1 : 0, block) : 0;
}

/* Writes what is put in the place of each role's axis; 0: beyond the limits of syms. */
static bool set_places(contraction *c, uint32_t block)
{
    st_symtab *tab = tab_of(c);
    for (uint32_t r = 0; r < ROLES; r++) {
        uint32_t sym = c->loop[r] ? bind_place(c, (enum role)r, block) : 1u;
        if (sym && c->loop[r] && r != ROLE_BATCH) {
            const uint32_t axis = c->side[r - 1u];
            const uint32_t first = st_sym_mul(tab, sym, int_sym(c, side_of(c, (enum role)r)));
            sym = first ? st_sym_add(tab, first, c->m->kernel->axes.data[axis].sym) : 0;
        }
        if (sym == 0) {
            return false;
        }
        if (c->loop[r]) {
            c->to[gpu_axis_of(c->m, c->loop[r])->symbol] = sym;
        }
    }
    return true;
}

static bool can_subst(const contraction *c, uint32_t block)
{
    for (st_loop_ref ref = c->m->kernel->blocks.data[block].first; ref;
         ref = gpu_at(c->m, ref)->next) {
        const st_loop_inst *inst = gpu_at(c->m, ref);
        if ((inst->sym && inst->code != ST_LOOP_BIND &&
             !st_loop_subst(c->m->kernel->syms, inst->sym, c->to, c->n_to)) ||
            (inst->code == ST_LOOP_LOOP && !can_subst(c, inst->body))) {
            return false;
        }
    }
    return true;
}

/* ---- masks ---- */

static st_loop_ref both(const contraction *c, st_loop_ref a, st_loop_ref b, uint32_t block)
{
    const st_loop_inst inst = {.code = ST_LOOP_bit_and, .dtype = STATOR_BOOL, .args = {a, b}};
    return a && b ? gpu_append(c->m, block, &inst) : a ? a : b;
}

/* The bool that the row or column lies inside the product; *out 0: it always does. */
static bool put_mask(const contraction *c, enum role r, uint32_t block, st_loop_ref *out)
{
    *out = 0;
    const uint32_t extent = extent_of(c, r);
    if (st_loop_known_or(tab_of(c), extent, 1) % (int64_t)side_of(c, r) == 0) {
        return true;
    }
    const uint32_t place = c->to[gpu_axis_of(c->m, c->loop[r])->symbol];
    const st_loop_inst at = {.code = ST_LOOP_INDEX, .dtype = STATOR_I64, .sym = place};
    const st_loop_inst end = {.code = ST_LOOP_INDEX, .dtype = STATOR_I64, .sym = extent};
    const st_loop_inst less = {
        .code = ST_LOOP_lt,
        .dtype = STATOR_BOOL,
        .args = {gpu_append(c->m, block, &at), gpu_append(c->m, block, &end)}};
    *out = less.args[0] && less.args[1] ? gpu_append(c->m, block, &less) : 0;
    return *out != 0;
}

/* The mask of an access that stands in the body of the role, 0: none. */
static st_loop_ref mask_for(const contraction *c, st_loop_ref ref, enum role r)
{
    const uint8_t needed = c->needed[ref];
    if (r == ROLE_BATCH || needed == (NEEDED_BY_ROWS | NEEDED_BY_COLUMNS)) {
        return 0;
    }
    return r == ROLE_ROWS || needed == NEEDED_BY_ROWS ? c->mask[0]
           : needed == NEEDED_BY_COLUMNS              ? c->mask[1]
                                                      : c->mask[2];
}

/* ---- the kernel ---- */

/* Moves the instructions that begin at `ref` to the end of a block of this role, but for the loop
 * inside, with indices over the tiles. 0: out of memory. */
static bool move(const contraction *c, st_loop_ref ref, st_loop_ref inside, enum role r,
                 uint32_t block)
{
    while (ref) {
        const st_loop_inst inst = *gpu_at(c->m, ref);
        const st_loop_ref next = inst.next;
        gpu_at(c->m, ref)->next = 0;
        if (inst.sym && inst.code != ST_LOOP_BIND) {
            gpu_at(c->m, ref)->sym = st_loop_subst(c->m->kernel->syms, inst.sym, c->to, c->n_to);
        }
        const bool is_load = inst.code == ST_LOOP_LOAD;
        if (is_load || inst.code == ST_LOOP_STORE) {
            const uint32_t slot = is_load ? 0 : 1;
            const st_loop_ref mask = mask_for(c, ref, r);
            const st_loop_ref made = both(c, inst.args[slot], mask, block);
            gpu_at(c->m, ref)->args[slot] = made;
            if (mask && !made) {
                return false;
            }
        }
        if (ref != inside) {
            st_loop_chain(c->m->kernel, block, ref);
        }
        ref = next;
    }
    return true;
}

/* A new block with what the role's loop held. */
static bool fill(contraction *c, enum role r, uint32_t block)
{
    const bool is_outer = r == ROLE_BATCH && c->loop[ROLE_ROWS];
    const st_loop_ref inside = is_outer            ? c->loop[ROLE_ROWS]
                               : r != ROLE_COLUMNS ? c->loop[ROLE_COLUMNS]
                                                   : 0;
    if (r != ROLE_BATCH && !put_mask(c, r, block, &c->mask[r - 1u])) {
        return false;
    }
    if (r == ROLE_COLUMNS) {
        c->mask[2] = both(c, c->mask[0], c->mask[1], block);
    }
    st_loop_block *body =
        c->loop[r] ? &c->m->kernel->blocks.data[gpu_at(c->m, c->loop[r])->body] : NULL;
    const st_loop_ref first = body ? body->first : 0;
    if (body) {
        body->first = 0;
        body->last = 0;
    }
    return move(c, first, inside, r, block);
}

/* The body of the sum, in place. */
static bool fill_sum(const contraction *c)
{
    st_loop_block *body = &c->m->kernel->blocks.data[gpu_at(c->m, c->inside.loops[0])->body];
    const st_loop_ref first = body->first;
    body->first = 0;
    body->last = 0;
    for (uint32_t k = 0; k < c->n_sums; k++) {
        gpu_at(c->m, c->update[k])->args[2] = 0;
    }
    return move(c, first, 0, ROLE_COLUMNS, gpu_at(c->m, c->inside.loops[0])->body);
}

static bool fill_all(contraction *c, st_loop_ref outer, uint32_t block)
{
    if (!fill(c, ROLE_BATCH, block)) {
        return false;
    }
    const uint32_t rows = gpu_open_loop(c->m, c->side[0], ST_MAPPING_TILE_ROWS, block);
    if (!rows || !fill(c, ROLE_ROWS, rows)) {
        return false;
    }
    const uint32_t columns = gpu_open_loop(c->m, c->side[1], ST_MAPPING_TILE_COLUMNS, rows);
    if (!columns || !fill(c, ROLE_COLUMNS, columns) || !fill_sum(c)) {
        return false;
    }
    for (uint32_t r = 0; r < ROLES; r++) {
        if (c->loop[r] && c->loop[r] != outer) {
            gpu_at(c->m, c->loop[r])->code = ST_LOOP_NONE;
        }
    }
    gpu_at(c->m, outer)->ref = c->tiles;
    gpu_at(c->m, outer)->body = block;
    c->m->kernel->axes.data[c->tiles].block = block;
    c->m->kernel->axes.data[c->tiles].mapping = ST_MAPPING_BLOCKS;
    return true;
}

/* 0: out of memory. */
static bool make_tiles(contraction *c, st_loop_builder *b, uint32_t tiles, bool *out_is_done)
{
    st_kernel *kernel = c->m->kernel;
    const st_loop_ref outer = c->loop[ROLE_BATCH]  ? c->loop[ROLE_BATCH]
                              : c->loop[ROLE_ROWS] ? c->loop[ROLE_ROWS]
                                                   : c->loop[ROLE_COLUMNS];
    c->tiles = st_loop_axis_add(b, tiles, ST_AXIS_PARALLEL);
    c->side[0] = st_loop_axis_add(b, int_sym(c, c->shape.rows), 0);
    c->side[1] = st_loop_axis_add(b, int_sym(c, c->shape.columns), 0);
    const uint32_t block = kernel->blocks.count;
    st_loop_block *made = kernel->failed ? NULL : st_vec_push(kernel->mem, &kernel->blocks);
    if (made == NULL) {
        return false;
    }
    *made = (st_loop_block){.loop = outer};
    if (!set_places(c, block) || !can_subst(c, gpu_at(c->m, outer)->body)) {
        return true;
    }
    if (!fill_all(c, outer, block)) {
        return false;
    }
    st_loop_axis *steps = gpu_axis_of(c->m, c->inside.loops[0]);
    steps->mapping = c->shape.mapping;
    steps->lanes = c->shape.steps;
    kernel->threads = c->shape.threads;
    st_loop_set_depths(kernel, 0, 0);
    *out_is_done = true;
    return true;
}

static bool map(contraction *c, bool *out_is_done)
{
    bool is_one = false;
    st_loop_builder b;
    const uint32_t n = c->m->kernel->insts.count;
    c->needed = st_calloc(c->m->kernel->mem, n, 1);
    if (c->needed == NULL || !look(c)) {
        return c->needed != NULL;
    }
    if (!make_loops(c, &is_one)) {
        return false;
    }
    const uint32_t tiles = is_one ? count_tiles(c) : 0;
    if (tiles == 0) {
        return true;
    }
    c->n_to = c->m->kernel->syms->symbols.count;
    c->to = st_calloc(c->m->kernel->mem, c->n_to, sizeof *c->to);
    if (c->to == NULL) {
        return false;
    }
    st_loop_builder_init(&b, c->m->kernel);
    const bool is_good = make_tiles(c, &b, tiles, out_is_done);
    st_loop_builder_deinit(&b);
    return is_good;
}

bool gpu_map_contraction(const gpu_mapper *m, bool *out_is_done)
{
    contraction c = {.m = m};
    *out_is_done = false;
    gpu_find_nest(m, st_kernel_parallel_loop(m->kernel), &c.of);
    const bool is_good = map(&c, out_is_done);
    st_free(m->kernel->mem, c.to);
    st_free(m->kernel->mem, c.needed);
    return is_good;
}
