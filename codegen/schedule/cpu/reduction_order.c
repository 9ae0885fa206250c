/* Loops of reductions put into the order of memory.
 *
 *   before  loop i < 65536 reduce {
 *             x[mod(i, 128) * 16 + mod(floordiv(i, 128), 128) * 2048 + floordiv(i, 16384)] }
 *   after   loop a < 128 reduce { loop b < 128 reduce { loop c < 4 reduce {
 *             x[2048*a + 16*b + c] } } }
 *
 * An axis that indices take apart by quotients and remainders is split at their divisors, when each
 * divides the next; then loops right inside each other stand with the smallest strides innermost.
 * Iterations of REDUCE axes meet in accumulators alone, in any order. */
#include "codegen/schedule/cpu/cpu_schedule.h"

#include "core/base/sym/sym_lin.h"

#include <string.h>

#define DIVISORS_MAX 4u
#define NEST_MAX 8u

typedef struct reducer {
    st_kernel *kernel;
    st_symtab *tab;
} reducer;

static st_loop_inst *inst_at(const reducer *r, st_loop_ref ref)
{
    return &r->kernel->insts.data[ref];
}

static st_loop_axis *axis_of(const reducer *r, st_loop_ref loop)
{
    return &r->kernel->axes.data[inst_at(r, loop)->ref];
}

/* ---- an axis split at divisors ---- */

typedef struct divisors {
    uint32_t n;
    int64_t at[DIVISORS_MAX + 1u]; /* ascending; behind them the extent */
    bool is_full;
} divisors;

static void add_divisor(divisors *c, int64_t at)
{
    uint32_t k = 0;
    while (k < c->n && c->at[k] < at) {
        k++;
    }
    if (at <= 1 || (k < c->n && c->at[k] == at)) {
        return;
    }
    if (c->n == DIVISORS_MAX) {
        c->is_full = true;
        return;
    }
    memmove(c->at + k + 1, c->at + k, (c->n - k) * sizeof *c->at);
    c->at[k] = at;
    c->n++;
}

/* The divisor when sym is floordiv(axis, divisor), 1 when it is the axis, else 0. */
static int64_t divisor_of(const reducer *r, uint32_t sym, uint32_t axis)
{
    int64_t divisor = 0;
    if (sym == axis) {
        return 1;
    }
    const stator_sym_row *row = st_sym_row_at(r->tab, sym);
    if (row->constant != 0 || row->term_count != 1) {
        return 0;
    }
    const stator_term_row *term = st_sym_term(r->tab, row, 0);
    const stator_atom_row *atom = st_atom_at(r->tab, term->atom);
    const bool is_quotient = term->coef == 1 && atom->kind == STATOR_ATOM_FLOORDIV &&
                             atom->a == axis && st_sym_const(r->tab, atom->b, &divisor);
    return is_quotient ? divisor : 0;
}

static void find_divisors(const reducer *r, uint32_t sym, uint32_t axis, divisors *out)
{
    const stator_sym_row *row = st_sym_row_at(r->tab, sym);
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_atom_row *atom = st_atom_at(r->tab, st_sym_term(r->tab, row, i)->atom);
        int64_t by = 0;
        int64_t product = 0;
        if (atom->kind == STATOR_ATOM_SYMBOL) {
            continue;
        }
        const bool is_division =
            atom->kind == STATOR_ATOM_FLOORDIV || atom->kind == STATOR_ATOM_MOD;
        const int64_t inner = divisor_of(r, atom->a, axis);
        if (!is_division || inner == 0 || !st_sym_const(r->tab, atom->b, &by)) {
            find_divisors(r, atom->a, axis, out);
            find_divisors(r, atom->b, axis, out);
            continue;
        }
        add_divisor(out, inner);
        if (!__builtin_mul_overflow(inner, by, &product)) {
            add_divisor(out, product);
        }
    }
}

static void find_divisors_below(const reducer *r, uint32_t block, uint32_t axis, divisors *out)
{
    for (st_loop_ref ref = r->kernel->blocks.data[block].first; ref; ref = inst_at(r, ref)->next) {
        const st_loop_inst *inst = inst_at(r, ref);
        if (inst->sym && inst->code != ST_LOOP_BIND) {
            find_divisors(r, inst->sym, axis, out);
        }
        if (inst->code == ST_LOOP_LOOP) {
            find_divisors_below(r, inst->body, axis, out);
        }
    }
}

/* Do the divisors split an axis of this extent into whole parts? Those at its end are dropped. */
static bool are_whole(divisors *c, int64_t extent)
{
    while (c->n > 0 && c->at[c->n - 1u] >= extent) {
        c->n--;
    }
    c->at[c->n] = extent;
    for (uint32_t k = 0; k < c->n; k++) {
        if (c->at[k + 1u] % c->at[k] != 0) {
            return false;
        }
    }
    return c->n > 0 && !c->is_full;
}

/* Substitutes `to` for symbols in every index below; on trial it only tries. 0: beyond the
 * limits. */
static bool substitute(const reducer *r, uint32_t block, const uint32_t *to, uint32_t n,
                       bool is_trial)
{
    for (st_loop_ref ref = r->kernel->blocks.data[block].first; ref; ref = inst_at(r, ref)->next) {
        st_loop_inst *inst = inst_at(r, ref);
        if (inst->sym && inst->code != ST_LOOP_BIND) {
            const uint32_t sym = st_loop_subst(r->kernel->syms, inst->sym, to, n);
            if (sym == 0) {
                return false;
            }
            inst->sym = is_trial ? inst->sym : sym;
        }
        if (inst->code == ST_LOOP_LOOP && !substitute(r, inst->body, to, n, is_trial)) {
            return false;
        }
    }
    return true;
}

/* A loop over `axis` that is all of the body of `loop`, around what was its body. */
static st_loop_ref put_inside(const reducer *r, st_loop_ref loop, uint32_t axis)
{
    st_kernel *k = r->kernel;
    const st_loop_ref inner = k->insts.count;
    const uint32_t body = inst_at(r, loop)->body;
    const uint32_t block = k->blocks.count;
    st_loop_inst *inst = st_vec_push(k->mem, &k->insts);
    st_loop_block *at = inst ? st_vec_push(k->mem, &k->blocks) : NULL;
    if (at == NULL) {
        return 0;
    }
    *inst = (st_loop_inst){.code = ST_LOOP_LOOP,
                           .ref = axis,
                           .body = body,
                           .block = block,
                           .origin = inst_at(r, loop)->origin};
    *at = (st_loop_block){
        .first = inner, .last = inner, .loop = loop, .depth = k->blocks.data[body].depth};
    inst_at(r, loop)->body = block;
    axis_of(r, loop)->block = block;
    k->blocks.data[body].loop = inner;
    k->axes.data[axis].block = body;
    return inner;
}

/* The loop becomes loops over the parts of its axis, the most significant one outermost. 0: failed.
 */
static bool split_axis(const reducer *r, st_loop_ref loop, const divisors *c)
{
    st_kernel *k = r->kernel;
    const st_loop_axis old = *axis_of(r, loop);
    const uint32_t body = inst_at(r, loop)->body;
    uint32_t axes[DIVISORS_MAX + 1u];
    uint32_t whole = st_sym_int(r->tab, 0);
    st_loop_builder b;
    st_loop_builder_init(&b, k);
    for (uint32_t i = 0; i <= c->n && !k->failed; i++) {
        const int64_t below = i ? c->at[i - 1u] : 1;
        axes[i] = st_loop_axis_add(&b, st_sym_int(r->tab, c->at[i] / below), old.flags);
        const uint32_t part =
            k->failed ? 0
                      : st_sym_mul(r->tab, k->axes.data[axes[i]].sym, st_sym_int(r->tab, below));
        whole = part && whole ? st_sym_add(r->tab, whole, part) : 0;
    }
    st_loop_builder_deinit(&b);
    const uint32_t n = k->syms->symbols.count;
    uint32_t *to = k->failed || whole == 0 ? NULL : st_calloc(k->mem, n, sizeof *to);
    if (to == NULL) {
        return false;
    }
    to[old.symbol] = whole;
    if (!substitute(r, body, to, n, true)) {
        st_free(k->mem, to);
        return true; /* an index would exceed the limits: the loop stays whole */
    }
    const bool is_done = substitute(r, body, to, n, false);
    st_free(k->mem, to);
    inst_at(r, loop)->ref = axes[c->n];
    k->axes.data[axes[c->n]].block = body;
    for (uint32_t i = c->n; is_done && i-- > 0;) {
        loop = put_inside(r, loop, axes[i]);
        if (loop == 0) {
            return false;
        }
    }
    return is_done;
}

/* ---- order ---- */

/* Sum of the strides of what is loaded below, those of symbolic sizes as the call that is
 * compiled for has them; 0 where an index is not linear in the axis. */
static bool strides_below(const reducer *r, uint32_t block, uint32_t symbol, int64_t *sum)
{
    for (st_loop_ref ref = r->kernel->blocks.data[block].first; ref; ref = inst_at(r, ref)->next) {
        const st_loop_inst *inst = inst_at(r, ref);
        uint32_t coef = 0;
        uint32_t rest = 0;
        if (inst->code == ST_LOOP_LOOP && !strides_below(r, inst->body, symbol, sum)) {
            return false;
        }
        if (inst->code != ST_LOOP_LOAD) {
            continue;
        }
        if (!st_loop_linear(r->kernel->syms, inst->sym, symbol, &coef, &rest)) {
            return false;
        }
        const int64_t stride = st_sym_size_hint(r->tab, coef);
        const int64_t apart = stride < -INT64_MAX ? INT64_MAX : stride < 0 ? -stride : stride;
        *sum = *sum > INT64_MAX - apart ? INT64_MAX : *sum + apart;
    }
    return true;
}

/* Loops right inside each other from `loop` on, all REDUCE. */
static uint32_t nest_of(const reducer *r, st_loop_ref loop, st_loop_ref out[NEST_MAX])
{
    uint32_t n = 0;
    while (n < NEST_MAX && inst_at(r, loop)->code == ST_LOOP_LOOP &&
           (axis_of(r, loop)->flags & (ST_AXIS_REDUCE | ST_AXIS_SERIAL)) == ST_AXIS_REDUCE) {
        out[n++] = loop;
        const st_loop_block *body = &r->kernel->blocks.data[inst_at(r, loop)->body];
        if (body->first == 0 || body->first != body->last) {
            break;
        }
        loop = body->first;
    }
    return n;
}

/* The largest strides outermost; equal ones stay as they are. */
static void sort_nest(const reducer *r, const st_loop_ref *loops, uint32_t n)
{
    int64_t stride[NEST_MAX] = {0};
    uint32_t axes[NEST_MAX];
    const uint32_t body = inst_at(r, loops[n - 1u])->body;
    for (uint32_t i = 0; i < n; i++) {
        axes[i] = inst_at(r, loops[i])->ref;
        if (!strides_below(r, body, axis_of(r, loops[i])->symbol, &stride[i])) {
            return;
        }
    }
    for (uint32_t i = 1; i < n; i++) {
        for (uint32_t k = i; k > 0 && stride[k - 1u] < stride[k]; k--) {
            const int64_t s = stride[k];
            const uint32_t a = axes[k];
            stride[k] = stride[k - 1u];
            axes[k] = axes[k - 1u];
            stride[k - 1u] = s;
            axes[k - 1u] = a;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        inst_at(r, loops[i])->ref = axes[i];
        r->kernel->axes.data[axes[i]].block = inst_at(r, loops[i])->body;
    }
}

/* ---- all loops ---- */

static bool reduce_below(const reducer *r, uint32_t block)
{
    for (st_loop_ref ref = r->kernel->blocks.data[block].first; ref; ref = inst_at(r, ref)->next) {
        divisors c = {.n = 0};
        int64_t extent = 0;
        if (inst_at(r, ref)->code != ST_LOOP_LOOP) {
            continue;
        }
        const uint32_t kinds = axis_of(r, ref)->flags & (ST_AXIS_REDUCE | ST_AXIS_SERIAL);
        if (kinds == ST_AXIS_REDUCE && st_sym_const(r->tab, axis_of(r, ref)->extent, &extent)) {
            find_divisors_below(r, inst_at(r, ref)->body, axis_of(r, ref)->sym, &c);
            if (are_whole(&c, extent) && !split_axis(r, ref, &c)) {
                return false;
            }
        }
        if (!reduce_below(r, inst_at(r, ref)->body)) {
            return false;
        }
    }
    return true;
}

static void sort_below(const reducer *r, uint32_t block)
{
    for (st_loop_ref ref = r->kernel->blocks.data[block].first; ref; ref = inst_at(r, ref)->next) {
        st_loop_ref loops[NEST_MAX];
        if (inst_at(r, ref)->code != ST_LOOP_LOOP) {
            continue;
        }
        const uint32_t n = nest_of(r, ref, loops);
        if (n > 1) {
            sort_nest(r, loops, n);
        }
        sort_below(r, n ? inst_at(r, loops[n - 1u])->body : inst_at(r, ref)->body);
    }
}

bool cg_order_reductions(st_kernel *kernel)
{
    const reducer r = {kernel, &kernel->syms->tab};
    if (!reduce_below(&r, 0)) {
        return false;
    }
    sort_below(&r, 0);
    return true;
}
