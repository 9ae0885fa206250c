/* The factors of a contraction on their way to the tile: walks, vector loads and masks.
 *
 *     for (g ...) { i0 = ...; i2 = ...; xa[g] = i2 < K ? value of the factor : 0; }   gpu_put_loads
 *     for (g ...) { ta[...] = xa[g]; }                                               gpu_put_stores
 *
 * What a factor is made of is free: all that stands in the tile's loops and that it needs is
 * computed at the place that a thread brings. Where it is made of one load whose elements lie side
 * by side, four of them come at once if memory is aligned. What lies beyond the last step counts
 * 0. */
#include "codegen/gpu/contract/gpu_contract_text.h"
#include "codegen/gpu/gpu_schedule.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define put st_loop_text_put
#define line gpu_line

#define GPU_BOUND_MAX 8u /* values that an index is made of */
#define TABLE_WIDTH 4u   /* words of each step */
#define VECTOR_BYTES 16u /* at most, of one access */

/* ---- how factors lie in memory ---- */

typedef struct bound_search {
    const gpu_product *t;
    bool has_side, has_steps; /* a value bound in the loops of the sides, of the steps */
} bound_search;

static void note_bound(void *self, uint32_t index)
{
    bound_search *s = self;
    const st_kernel *kernel = s->t->g->kernel;
    const st_loop_symbol *symbol = &kernel->syms->symbols.data[index];
    if (symbol->kind != ST_SYMBOL_VALUE) {
        return;
    }
    const uint32_t block = st_loop_at(kernel, symbol->id)->block;
    s->has_steps = s->has_steps || block == s->t->loops[2]->body;
    s->has_side = s->has_side || block == s->t->loops[0]->body || block == s->t->loops[1]->body;
}

/* Elements from one iteration of the loop to the next; -1: that differs or is not known. */
static int64_t step_along(const gpu_product *t, const st_loop_inst *loop, uint32_t sym)
{
    const st_kernel *kernel = t->g->kernel;
    uint32_t coef = 0;
    uint32_t rest = 0;
    return st_loop_linear(kernel->syms, sym, kernel->axes.data[loop->ref].symbol, &coef, &rest)
               ? st_loop_known_or(&kernel->syms->tab, coef, -1)
               : -1;
}

/* How the value of an index walks four iterations of the loop that begin at a multiple of four:
 * 0 or 1 each; -1: in another way. That is the quotient or the rest by a multiple of four. */
static int64_t step_of_bound(const gpu_product *t, const st_loop_inst *loop, uint32_t sym)
{
    const st_kernel *kernel = t->g->kernel;
    const st_symtab *tab = &kernel->syms->tab;
    const stator_sym_row *row = st_sym_row_at(tab, sym);
    int64_t step = 0;
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_term_row *term = st_sym_term(tab, row, i);
        const stator_atom_row *atom = st_atom_at(tab, term->atom);
        if (atom->kind == STATOR_ATOM_SYMBOL) {
            step += term->atom == gpu_loop_axis(t, loop)->symbol ? term->coef : 0;
            continue;
        }
        uint32_t coef = 0;
        uint32_t rest = 0;
        const uint32_t symbol = gpu_loop_axis(t, loop)->symbol;
        const bool is_linear = st_loop_linear(kernel->syms, atom->a, symbol, &coef, &rest);
        const int64_t inside = is_linear ? st_loop_known_or(tab, coef, -1) : -1;
        const bool is_even = st_loop_known_or(tab, atom->b, 1) % (int64_t)GPU_VECTOR == 0 &&
                             inside == 1 && gpu_is_multiple(kernel, rest, GPU_VECTOR);
        if (inside == 0 && st_loop_known_or(tab, atom->b, 0) > 0) {
            continue;
        }
        if (!is_even || (atom->kind != STATOR_ATOM_FLOORDIV && atom->kind != STATOR_ATOM_MOD)) {
            return -1;
        }
        step += atom->kind == STATOR_ATOM_MOD ? term->coef : 0;
    }
    return step;
}

typedef struct bound_walk {
    const gpu_product *t;
    const st_loop_inst *loop;
    uint32_t sym;
    uint32_t symbols[GPU_BOUND_MAX]; /* those that have been seen */
    uint32_t n;
    int64_t step; /* of the whole, -1: not known */
} bound_walk;

static void add_bound(void *self, uint32_t index)
{
    bound_walk *w = self;
    const st_kernel *kernel = w->t->g->kernel;
    const st_loop_symbol *symbol = &kernel->syms->symbols.data[index];
    uint32_t coef = 0;
    uint32_t rest = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        if (w->symbols[i] == index) {
            return;
        }
    }
    if (symbol->kind != ST_SYMBOL_VALUE || w->step < 0 ||
        st_loop_at(kernel, symbol->id)->block != w->loop->body) {
        return;
    }
    const st_loop_inst *value = st_loop_at(kernel, st_loop_at(kernel, symbol->id)->args[0]);
    const bool is_known = value->code == ST_LOOP_INDEX && w->n < GPU_BOUND_MAX &&
                          st_loop_linear(kernel->syms, w->sym, index, &coef, &rest);
    const int64_t step = is_known ? step_of_bound(w->t, w->loop, value->sym) : -1;
    const int64_t by = step > 0 ? st_loop_known_or(&kernel->syms->tab, coef, -1) : 0;
    w->step = step < 0 || by < 0 ? -1 : w->step + step * by;
    if (w->n < GPU_BOUND_MAX) {
        w->symbols[w->n++] = index;
    }
}

/* Elements from one of four iterations that begin at a multiple of four to the next, where values
 * bound in the loop count too; -1: that differs or is not known. */
static int64_t vector_step(const gpu_product *t, const st_loop_inst *loop, uint32_t sym)
{
    bound_walk w = {.t = t, .loop = loop, .sym = sym, .step = step_along(t, loop, sym)};
    st_loop_each_symbol(t->g->kernel->syms, sym, add_bound, &w);
    return w.step;
}

/* Is the mask one that holds up to some iteration of the loop, or none? */
static bool is_limit(const gpu_product *t, const gpu_operand *o, st_loop_ref mask)
{
    const st_kernel *kernel = t->g->kernel;
    const st_loop_inst *less = st_loop_at(kernel, mask);
    if (mask == 0) {
        return true;
    }
    const st_loop_inst *at = st_loop_at(kernel, less->args[0]);
    const st_loop_inst *end = st_loop_at(kernel, less->args[1]);
    bound_search search = {t, false, false};
    if (less->code != ST_LOOP_lt || at->code != ST_LOOP_INDEX || end->code != ST_LOOP_INDEX) {
        return false;
    }
    st_loop_each_symbol(kernel->syms, at->sym, note_bound, &search);
    st_loop_each_symbol(kernel->syms, end->sym, note_bound, &search);
    return !search.has_side && !search.has_steps && step_along(t, o->loop, at->sym) == 1 &&
           step_along(t, o->loop, end->sym) == 0 && step_along(t, t->loops[2], at->sym) == 0 &&
           step_along(t, t->loops[2], end->sym) == 0;
}

/* The one load inside the tile that the factor is made of; 0: there are several. */
static st_loop_ref only_load(const gpu_product *t, const gpu_operand *o)
{
    st_loop_ref load = 0;
    for (uint32_t k = 0; k < 3u; k++) {
        for (st_loop_ref ref = t->g->kernel->blocks.data[t->loops[k]->body].first; ref;
             ref = st_loop_at(t->g->kernel, ref)->next) {
            if ((t->g->needed[ref] & (GPU_NEEDED_BY_FACTOR << o->number)) &&
                st_loop_at(t->g->kernel, ref)->code == ST_LOOP_LOAD) {
                if (load) {
                    return 0;
                }
                load = ref;
            }
        }
    }
    return load;
}

/* Can the operand's lanes of elements along the walk be moved at once? */
static bool is_vector(const gpu_product *t, const gpu_operand *o, const st_loop_inst *load,
                      int64_t along, int64_t across)
{
    const uint32_t dtype = t->g->kernel->buffers.data[load->ref].dtype;
    const bool is_aligned = across < 0 || across % (int64_t)o->lanes == 0;
    const uint32_t side = o->walk == GPU_WALK_STEPS ? t->shape->steps : o->side;
    return along == 1 && is_aligned && st_element_bytes(dtype) <= 4u &&
           st_loop_loaded(dtype) == dtype && is_limit(t, o, load->args[0]) &&
           side % o->lanes == 0 && gpu_elements_of(t, o) % o->lanes == 0;
}

void gpu_choose_walk(const gpu_product *t, gpu_operand *o)
{
    const st_loop_ref ref = only_load(t, o);
    const st_loop_inst *load = st_loop_at(t->g->kernel, ref);
    bound_search search = {t, false, false};
    if (ref == 0) {
        return;
    }
    const uint32_t dtype = t->g->kernel->buffers.data[load->ref].dtype;
    const uint32_t bytes = (uint32_t)st_element_bytes(dtype);
    o->lanes = o->lanes * bytes > VECTOR_BYTES ? VECTOR_BYTES / bytes : o->lanes;
    st_loop_each_symbol(t->g->kernel->syms, load->sym, note_bound, &search);
    /* Matrices are brought at addresses that only the loops decide. */
    const bool is_bound =
        (search.has_side || search.has_steps) && gpu_matrix_kind_of(t->shape->mapping) != NULL;
    const int64_t strict[2] = {
        [GPU_WALK_SIDE] = search.has_side ? -1 : step_along(t, o->loop, load->sym),
        [GPU_WALK_STEPS] = search.has_steps ? -1 : step_along(t, t->loops[2], load->sym)};
    const int64_t along[2] = {[GPU_WALK_SIDE] = vector_step(t, o->loop, load->sym),
                              [GPU_WALK_STEPS] = vector_step(t, t->loops[2], load->sym)};
    const enum gpu_walk first =
        strict[GPU_WALK_STEPS] == 1 && strict[GPU_WALK_SIDE] != 1 ? GPU_WALK_STEPS : GPU_WALK_SIDE;
    for (uint32_t k = 0; k < 2u && !o->vector && !is_bound; k++) {
        o->walk = k ? (enum gpu_walk)(1 - first) : first;
        const int64_t across = strict[1 - o->walk];
        if (is_vector(t, o, load, along[o->walk], across)) {
            o->vector = ref;
            o->is_even = across >= 0 && (strict[o->walk] == 1 || o->walk == GPU_WALK_STEPS);
            gpu_mark_needed(t->g->kernel, load->args[0], t->g->needed,
                            (uint8_t)(GPU_NEEDED_BY_MASK << o->number));
        }
    }
    o->walk = o->vector ? o->walk : first;
}

/* ---- memory to registers ---- */

/* Is it a value of the loop over the steps that no place on the side decides, made of indices? */
static bool is_of_step(const gpu_product *t, const gpu_operand *o, st_loop_ref ref)
{
    const st_kernel *kernel = t->g->kernel;
    const st_loop_inst *inst = st_loop_at(kernel, ref);
    bound_search search = {t, false, false};
    if (inst->code == ST_LOOP_BIND) {
        return is_of_step(t, o, inst->args[0]);
    }
    if (inst->code != ST_LOOP_INDEX || inst->block != t->loops[2]->body) {
        return false;
    }
    st_loop_each_symbol(kernel->syms, inst->sym, note_bound, &search);
    return !search.has_side && step_along(t, o->loop, inst->sym) == 0;
}

/* Which of the instructions that a factor needs. */
enum marked { MARKED_ALL, MARKED_OF_STEP, MARKED_OTHERS, MARKED_INDICES };

/* What stands in the loops of the tile and the bit marks, but for the instruction `known`, which
 * is true. */
static void put_marked(const gpu_product *t, const gpu_operand *o, uint32_t bit, enum marked which,
                       st_loop_ref known)
{
    for (uint32_t k = 0; k < 3u; k++) {
        for (st_loop_ref ref = t->g->kernel->blocks.data[t->loops[k]->body].first; ref;
             ref = st_loop_at(t->g->kernel, ref)->next) {
            const uint16_t code = st_loop_at(t->g->kernel, ref)->code;
            const bool is_wanted =
                which == MARKED_ALL ||
                (which == MARKED_INDICES ? code == ST_LOOP_INDEX || code == ST_LOOP_BIND
                                         : is_of_step(t, o, ref) == (which == MARKED_OF_STEP));
            if (!(t->g->needed[ref] & bit) || !is_wanted) {
                continue;
            }
            if (ref == known) {
                line(t, "const st_bool v%" PRIu32 " = 1;", ref);
                continue;
            }
            st_loop_text_indent(&t->g->t);
            st_loop_text_inst(&t->g->t, ref);
        }
    }
}

void gpu_put_marked(const gpu_product *t, uint32_t bit)
{
    put_marked(t, NULL, bit, MARKED_ALL, 0);
}

void gpu_put_is_step(const gpu_product *t, const char *before, const char *after)
{
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "%s", before);
    if (t->is_even) {
        put(&t->g->t, "1");
    } else {
        put(&t->g->t, "i%" PRIu32 " < ", t->loops[2]->ref);
        st_loop_text_sym(&t->g->t, gpu_loop_axis(t, t->loops[2])->extent);
    }
    put(&t->g->t, "%s\n", after);
}

/* Do the lanes of a warp bring neighbours along the side, at one step each time? */
static bool is_by_warps(const gpu_product *t, const gpu_operand *o)
{
    const uint32_t warps = t->members / 32u;
    return o->walk == GPU_WALK_SIDE && !o->vector && o->side % 32u == 0 && warps > 0 &&
           t->members % 32u == 0 && t->shape->steps % warps == 0;
}

/* ---- a table of what the steps decide ---- */

/* Is it the number of a value bound in the loop over the steps that the factor needs, and no
 * place on the side decides? */
static bool is_in_table(const gpu_product *t, const gpu_operand *o, st_loop_ref ref)
{
    return st_loop_at(t->g->kernel, ref)->code == ST_LOOP_BIND &&
           (t->g->needed[ref] & (GPU_NEEDED_BY_FACTOR << o->number)) && is_of_step(t, o, ref);
}

/* Values of each step; 0: there is no table, threads compute them where they need them. */
static uint32_t table_width(const gpu_product *t, const gpu_operand *o)
{
    uint32_t n = 0;
    for (st_loop_ref ref = t->g->kernel->blocks.data[t->loops[2]->body].first; ref;
         ref = st_loop_at(t->g->kernel, ref)->next) {
        n += is_in_table(t, o, ref);
    }
    const bool is_narrow = strcmp(gpu_index_type(t), "st_i32") == 0;
    return is_narrow && !t->is_shared && is_by_warps(t, o) && n <= TABLE_WIDTH ? n : 0;
}

/* Steps of all shares between two barriers. */
static uint32_t table_steps(const gpu_product *t)
{
    return t->shape->steps * t->shape->shares;
}

uint32_t gpu_table_words(const gpu_product *t, const gpu_operand *o)
{
    return table_width(t, o) ? GPU_BUFFERS * table_steps(t) * TABLE_WIDTH : 0;
}

void gpu_put_table(const gpu_product *t, const gpu_operand *o, const char *step)
{
    const uint32_t bit = (uint32_t)GPU_NEEDED_BY_FACTOR << o->number;
    uint32_t n = table_width(t, o);
    if (n == 0) {
        return;
    }
    line(t, "if (ST_THREAD < %" PRIu32 ") {", table_steps(t));
    gpu_open_block(t);
    line(t, "const %s i%" PRIu32 " = %s * %" PRIu32 " + (%s)ST_THREAD;", gpu_index_type(t),
         t->loops[2]->ref, step, table_steps(t), gpu_index_type(t));
    put_marked(t, o, bit, MARKED_OF_STEP, 0);
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "st_store_u32x4(u%c + (%s %% 2 * %" PRIu32 " + (%s)ST_THREAD) * %u", o->name,
        step, table_steps(t), gpu_index_type(t), TABLE_WIDTH);
    for (st_loop_ref ref = t->g->kernel->blocks.data[t->loops[2]->body].first; ref;
         ref = st_loop_at(t->g->kernel, ref)->next) {
        if (is_in_table(t, o, ref)) {
            put(&t->g->t, ", (st_u32)n%" PRIu32, ref);
        }
    }
    for (; n < TABLE_WIDTH; n++) {
        put(&t->g->t, ", 0");
    }
    put(&t->g->t, ");\n");
    gpu_close_block(t);
}

/* What the step decides, from the table or computed. */
static void put_of_step(const gpu_product *t, const gpu_operand *o)
{
    uint32_t n = 0;
    if (table_width(t, o) == 0) {
        put_marked(t, o, (uint32_t)GPU_NEEDED_BY_FACTOR << o->number, MARKED_OF_STEP, 0);
        return;
    }
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "const st_u32x4 words = st_load_u32x4(u%c + (", o->name);
    gpu_put_share(t, t->shape->steps);
    put(&t->g->t, "step %% 2 * %" PRIu32 " + at_step) * %u);\n", table_steps(t), TABLE_WIDTH);
    for (st_loop_ref ref = t->g->kernel->blocks.data[t->loops[2]->body].first; ref;
         ref = st_loop_at(t->g->kernel, ref)->next) {
        if (is_in_table(t, o, ref)) {
            line(t, "const %s n%" PRIu32 " = (%s)words.%c;", gpu_index_type(t), ref,
                 gpu_index_type(t), "xyzw"[n++]);
        }
    }
}

/* The value of the factor at the place that is set, into x<name>[at]. What the step alone decides
 * stands outside of the test, so that neighbours share it. */
static void put_element(const gpu_product *t, const gpu_operand *o, const char *at)
{
    const uint32_t bit = (uint32_t)GPU_NEEDED_BY_FACTOR << o->number;
    line(t, "%s value = 0;", gpu_type_of(t));
    put_of_step(t, o);
    gpu_put_is_step(t, "if (", ") {");
    gpu_open_block(t);
    put_marked(t, o, bit, MARKED_OTHERS, 0);
    line(t, "value = v%" PRIu32 ";", o->factor);
    gpu_close_block(t);
    line(t, "x%c[%s] = value;", o->name, at);
}

/* The place in the tile of the element, or vector, that the thread brings as its g-th. */
static void put_offsets(const gpu_product *t, const gpu_operand *o)
{
    const uint32_t vector = o->vector ? GPU_VECTOR : 1u;
    const bool is_by_side = o->walk == GPU_WALK_SIDE;
    const uint32_t fast = (is_by_side ? o->side : t->shape->steps) / vector;
    const char *type = gpu_index_type(t);
    char times[16] = "";
    if (vector > 1u) {
        (void)snprintf(times, sizeof times, " * %" PRIu32, vector);
    }
    if (is_by_warps(t, o)) {
        const uint32_t lines = o->side / 32u;
        line(t, "const %s at_side = (%s)(%s %% 32 + g %% %" PRIu32 " * 32);", type, type, t->member,
             lines);
        line(t, "const %s at_step = (%s)(%s / 32 + g / %" PRIu32 " * %" PRIu32 ");", type, type,
             t->member, lines, t->members / 32u);
        return;
    }
    if (t->is_shared) {
        line(t, "const st_u32 at = g;");
    } else {
        line(t, "const st_u32 at = %s + g * %" PRIu32 ";", t->member, t->members);
    }
    line(t, "const %s at_side = %s(%s)(at %s %" PRIu32 "%s);", type, o->first ? o->first : "", type,
         is_by_side ? "%" : "/", fast, is_by_side ? times : "");
    line(t, "const %s at_step = (%s)(at %s %" PRIu32 "%s);", type, type, is_by_side ? "/" : "%",
         fast, is_by_side ? "" : times);
}

/* That place as the indices of the loops; f<axis> is the first of a vector's. */
static void put_position(const gpu_product *t, const gpu_operand *o)
{
    const bool is_steps = o->walk == GPU_WALK_STEPS;
    put_offsets(t, o);
    line(t, "const %s %s%" PRIu32 " = at_side;", gpu_index_type(t),
         !is_steps && o->vector ? "f" : "i", o->loop->ref);
    line(t, "const %s %s%" PRIu32 " = first_step + at_step;", gpu_index_type(t),
         is_steps && o->vector ? "f" : "i", t->loops[2]->ref);
}

static void put_scalars(const gpu_product *t, const gpu_operand *o)
{
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 g = 0; g < %" PRIu32 "; g++) {", gpu_elements_of(t, o));
    gpu_open_block(t);
    put_position(t, o);
    put_element(t, o, "g");
    gpu_close_block(t);
}

void gpu_put_is_whole(const gpu_product *t, const gpu_operand *o, uint32_t axis)
{
    const st_loop_ref mask = st_loop_at(t->g->kernel, o->vector)->args[0];
    line(t, "st_bool is_whole = 1;");
    line(t, "{");
    gpu_open_block(t);
    line(t, "const %s i%" PRIu32 " = f%" PRIu32 " + %" PRIu32 ";", gpu_index_type(t), axis, axis,
         o->lanes - 1u);
    put_marked(t, o, (uint32_t)GPU_NEEDED_BY_MASK << o->number, MARKED_ALL, 0);
    if (mask) {
        line(t, "is_whole = v%" PRIu32 ";", mask);
    }
    gpu_put_is_step(t, "is_whole = is_whole && ", ";");
    gpu_close_block(t);
}

void gpu_put_address(const gpu_product *t, const st_loop_inst *load)
{
    put(&t->g->t, "b%" PRIu32 " + ", load->ref);
    st_loop_text_sym(&t->g->t, load->sym);
}

static uint32_t bytes_of(const gpu_product *t, const st_loop_inst *load)
{
    return (uint32_t)st_element_bytes(t->g->kernel->buffers.data[load->ref].dtype);
}

void gpu_put_vector_load(const gpu_product *t, const gpu_operand *o)
{
    static const char *const words[] = {[1] = "u32", [2] = "u32x2", [4] = "u32x4"};
    const st_loop_inst *load = st_loop_at(t->g->kernel, o->vector);
    const uint32_t bytes = bytes_of(t, load);
    const uint32_t n_words = o->lanes * bytes / 4u;
    const uint32_t dtype = t->g->kernel->buffers.data[load->ref].dtype;
    const char *type = st_loop_text_memory_type(&t->g->t, dtype);
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "const st_%s w = st_load_%s(", words[n_words], words[n_words]);
    gpu_put_address(t, load);
    put(&t->g->t, ");\n");
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "const %s x%" PRIu32 "[%" PRIu32 "] = {", type, o->vector, o->lanes);
    for (uint32_t k = 0; k < o->lanes; k++) {
        const uint32_t word = k * bytes / 4u;
        const bool is_float = dtype == STATOR_F32;
        const char *of_bits = t->g->t.spelling->of_bits[ST_LOOP_F32];
        put(&t->g->t, is_float ? "%s%s(w" : "%s(%s)(w", k ? ", " : "", is_float ? of_bits : type);
        if (n_words > 1u) {
            put(&t->g->t, ".%c", "xyzw"[word]);
        }
        put(&t->g->t, " >> %" PRIu32 ")", k * bytes % 4u * 8u);
    }
    put(&t->g->t, "};\n");
}

/* The elements of a vector that is whole, or one by one where it is not. */
static void put_vector_elements(const gpu_product *t, const gpu_operand *o, bool is_whole)
{
    const uint32_t axis = o->walk == GPU_WALK_STEPS ? t->loops[2]->ref : o->loop->ref;
    line(t, "ST_UNROLL");
    line(t, "for (%s e = 0; e < %" PRIu32 "; e++) {", gpu_index_type(t), GPU_VECTOR);
    gpu_open_block(t);
    line(t, "const %s i%" PRIu32 " = f%" PRIu32 " + e;", gpu_index_type(t), axis, axis);
    if (is_whole) {
        const uint32_t bit = (uint32_t)GPU_NEEDED_BY_FACTOR << o->number;
        t->g->is_staged[o->vector] = ST_LOOP_STAGED;
        t->g->t.is_staged = t->g->is_staged;
        put_marked(t, o, bit, MARKED_ALL, st_loop_at(t->g->kernel, o->vector)->args[0]);
        line(t, "x%c[g * 4 + e] = v%" PRIu32 ";", o->name, o->factor);
        t->g->t.is_staged = NULL;
        t->g->is_staged[o->vector] = ST_LOOP_IN_MEMORY;
    } else {
        put_element(t, o, "g * 4 + e");
    }
    gpu_close_block(t);
}

/* "if (is_whole && the vector at the place that is set is aligned) {" */
static void put_if_aligned(const gpu_product *t, const gpu_operand *o, const char *before,
                           const char *after)
{
    const st_loop_inst *load = st_loop_at(t->g->kernel, o->vector);
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "%sis_whole && (st_u64)(", before);
    gpu_put_address(t, load);
    put(&t->g->t, ") %% %" PRIu32 " == 0%s\n", GPU_VECTOR * bytes_of(t, load), after);
}

static uint32_t vector_axis(const gpu_product *t, const gpu_operand *o)
{
    return o->walk == GPU_WALK_STEPS ? t->loops[2]->ref : o->loop->ref;
}

/* What the address of a vector is made of. */
static void put_vector_indices(const gpu_product *t, const gpu_operand *o)
{
    const uint32_t axis = vector_axis(t, o);
    line(t, "const %s i%" PRIu32 " = f%" PRIu32 ";", gpu_index_type(t), axis, axis);
    put_marked(t, o, (uint32_t)GPU_NEEDED_BY_FACTOR << o->number, MARKED_INDICES, 0);
}

/* Each vector is whole or not for itself. */
static void put_vectors(const gpu_product *t, const gpu_operand *o)
{
    const uint32_t axis = vector_axis(t, o);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 g = 0; g < %" PRIu32 "; g++) {", gpu_elements_of(t, o) / GPU_VECTOR);
    gpu_open_block(t);
    put_position(t, o);
    gpu_put_is_whole(t, o, axis);
    put_vector_indices(t, o);
    put_if_aligned(t, o, "if (", ") {");
    gpu_open_block(t);
    gpu_put_vector_load(t, o);
    put_vector_elements(t, o, true);
    t->g->t.depth--;
    line(t, "} else {");
    gpu_open_block(t);
    put_vector_elements(t, o, false);
    gpu_close_block(t);
    gpu_close_block(t);
}

/* All vectors of a thread are whole, which the last of them tells, or none is moved at once: so
 * they are on their way together. */
static void put_vectors_together(const gpu_product *t, const gpu_operand *o)
{
    const uint32_t axis = vector_axis(t, o);
    const uint32_t n = gpu_elements_of(t, o) / GPU_VECTOR;
    line(t, "st_bool is_whole_%c = 0;", o->name);
    line(t, "{");
    gpu_open_block(t);
    line(t, "const st_u32 g = %" PRIu32 ";", n - 1u);
    put_position(t, o);
    gpu_put_is_whole(t, o, axis);
    put_vector_indices(t, o);
    put_if_aligned(t, o, o->name == 'a' ? "is_whole_a = " : "is_whole_b = ", ";");
    gpu_close_block(t);
    line(t, "if (is_whole_%c) {", o->name);
    for (uint32_t is_whole = 1;; is_whole--) {
        gpu_open_block(t);
        line(t, "ST_UNROLL");
        line(t, "for (st_u32 g = 0; g < %" PRIu32 "; g++) {", n);
        gpu_open_block(t);
        put_position(t, o);
        if (is_whole) {
            put_vector_indices(t, o);
            gpu_put_vector_load(t, o);
        }
        put_vector_elements(t, o, is_whole);
        gpu_close_block(t);
        t->g->t.depth--;
        if (!is_whole) {
            break;
        }
        line(t, "} else {");
    }
    line(t, "}");
}

void gpu_put_loads(const gpu_product *t, const gpu_operand *o)
{
    if (o->vector && t->is_shared && o->is_even) {
        put_vectors_together(t, o);
    } else if (o->vector) {
        put_vectors(t, o);
    } else {
        put_scalars(t, o);
    }
}

/* ---- registers to shared memory ---- */

void gpu_put_stores(const gpu_product *t, const gpu_operand *o)
{
    const uint32_t vector = o->vector ? GPU_VECTOR : 1u;
    const bool is_by_side = o->walk == GPU_WALK_SIDE;
    char pitch[16];
    (void)snprintf(pitch, sizeof pitch, " * %" PRIu32, gpu_pitch_of(o));
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 g = 0; g < %" PRIu32 "; g++) {", gpu_elements_of(t, o) / vector);
    gpu_open_block(t);
    put_offsets(t, o);
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "%s *to = t%c + (", gpu_type_of(t), o->name);
    gpu_put_share(t, GPU_BUFFERS * t->shape->steps * gpu_pitch_of(o));
    put(&t->g->t, "step %% 2 * %" PRIu32 " + at_step * %" PRIu32 " + at_side);\n",
        t->shape->steps * gpu_pitch_of(o), gpu_pitch_of(o));
    if (vector == 1u) {
        line(t, "*to = x%c[g];", o->name);
    } else if (is_by_side && gpu_sums_f32(t)) {
        line(t,
             "st_store_u32x4(to, st_bits_of_f32(x%c[g * 4]), st_bits_of_f32(x%c[g * 4 + 1]), "
             "st_bits_of_f32(x%c[g * 4 + 2]), st_bits_of_f32(x%c[g * 4 + 3]));",
             o->name, o->name, o->name, o->name);
    } else {
        line(t, "ST_UNROLL");
        line(t, "for (st_u32 e = 0; e < %" PRIu32 "; e++) {", GPU_VECTOR);
        line(t, "    to[e%s] = x%c[g * 4 + e];", is_by_side ? "" : pitch, o->name);
        line(t, "}");
    }
    gpu_close_block(t);
}
