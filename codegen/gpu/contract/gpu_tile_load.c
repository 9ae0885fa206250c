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

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define put st_loop_text_put
#define line gpu_line

#define PAD 4u /* of a row of shared memory, against conflicts of banks */

void gpu_line(const gpu_product *t, const char *format, ...)
{
    va_list args;
    st_loop_text_indent(&t->g->t);
    va_start(args, format);
    st_str_vaddf(t->g->t.out, format, args);
    va_end(args);
    st_str_add(t->g->t.out, "\n");
}

void gpu_open_block(const gpu_product *t)
{
    t->g->t.depth++;
}

void gpu_close_block(const gpu_product *t)
{
    t->g->t.depth--;
    line(t, "}");
}

/* ---- what is printed ---- */

uint32_t gpu_pitch_of(const gpu_operand *o)
{
    return o->side + PAD;
}

uint32_t gpu_elements_of(const gpu_product *t, const gpu_operand *o)
{
    return o->side * t->shape->steps / t->shape->threads;
}

const char *gpu_type_of(const gpu_product *t)
{
    return t->g->t.spelling->types[st_loop_at(t->g->kernel, t->acc)->dtype];
}

const char *gpu_index_type(const gpu_product *t)
{
    return t->g->t.spelling->index_type;
}

bool gpu_sums_f32(const gpu_product *t)
{
    return st_loop_at(t->g->kernel, t->acc)->dtype == STATOR_F32;
}

const st_loop_axis *gpu_loop_axis(const gpu_product *t, const st_loop_inst *loop)
{
    return &t->g->kernel->axes.data[loop->ref];
}

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

void gpu_choose_walk(const gpu_product *t, gpu_operand *o)
{
    const st_loop_ref ref = only_load(t, o);
    const st_loop_inst *load = st_loop_at(t->g->kernel, ref);
    bound_search search = {t, false, false};
    if (ref == 0) {
        return;
    }
    const uint32_t dtype = t->g->kernel->buffers.data[load->ref].dtype;
    st_loop_each_symbol(t->g->kernel->syms, load->sym, note_bound, &search);
    const int64_t along_side = search.has_side ? -1 : step_along(t, o->loop, load->sym);
    const int64_t along_steps = search.has_steps ? -1 : step_along(t, t->loops[2], load->sym);
    o->walk = along_steps == 1 && along_side != 1 ? GPU_WALK_STEPS : GPU_WALK_SIDE;
    const int64_t along = o->walk == GPU_WALK_STEPS ? along_steps : along_side;
    const int64_t across = o->walk == GPU_WALK_STEPS ? along_side : along_steps;
    const uint64_t bytes = st_element_bytes(dtype);
    const bool is_aligned = across < 0 || across % (int64_t)GPU_VECTOR == 0;
    if (along == 1 && is_aligned && bytes <= 4u && st_loop_loaded(dtype) == dtype &&
        !search.has_side && !search.has_steps && is_limit(t, o, load->args[0]) &&
        gpu_elements_of(t, o) % GPU_VECTOR == 0) {
        o->vector = ref;
        gpu_mark_needed(t->g->kernel, load->args[0], t->g->needed,
                        (uint8_t)(GPU_NEEDED_BY_MASK << o->number));
    }
}

/* ---- memory to registers ---- */

/* What stands in the loops of the tile and the bit marks. */
static void put_marked(const gpu_product *t, uint32_t bit)
{
    for (uint32_t k = 0; k < 3u; k++) {
        for (st_loop_ref ref = t->g->kernel->blocks.data[t->loops[k]->body].first; ref;
             ref = st_loop_at(t->g->kernel, ref)->next) {
            if (t->g->needed[ref] & bit) {
                st_loop_text_indent(&t->g->t);
                st_loop_text_inst(&t->g->t, ref);
            }
        }
    }
}

/* "i2 < K", or 1 where no step is beyond. */
static void put_is_step(const gpu_product *t, const char *before, const char *after)
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

/* The value of the factor at the place that is set, into x<name>[at]. */
static void put_element(const gpu_product *t, const gpu_operand *o, const char *at)
{
    line(t, "%s value = 0;", gpu_type_of(t));
    put_is_step(t, "if (", ") {");
    gpu_open_block(t);
    put_marked(t, GPU_NEEDED_BY_FACTOR << o->number);
    line(t, "value = v%" PRIu32 ";", o->factor);
    gpu_close_block(t);
    line(t, "x%c[%s] = value;", o->name, at);
}

/* The place of element `at` on the side and in the steps, of which the first moves fastest. */
static void put_position(const gpu_product *t, const gpu_operand *o, uint32_t vector)
{
    const uint32_t fast = (o->walk == GPU_WALK_SIDE ? o->side : t->shape->steps) / vector;
    const char *side[2] = {"%", "/"};
    const bool is_steps = o->walk == GPU_WALK_STEPS;
    char times[16] = "";
    if (vector > 1u) {
        (void)snprintf(times, sizeof times, " * %" PRIu32, vector);
    }
    line(t, "const st_u32 at = ST_THREAD + g * %" PRIu32 ";", t->shape->threads);
    line(t, "const %s %s%" PRIu32 " = (%s)(at %s %" PRIu32 "%s);", gpu_index_type(t),
         !is_steps && vector > 1u ? "f" : "i", o->loop->ref, gpu_index_type(t), side[is_steps],
         fast, is_steps ? "" : times);
    line(t, "const %s %s%" PRIu32 " = step * %" PRIu32 " + (%s)(at %s %" PRIu32 "%s);",
         gpu_index_type(t), is_steps && vector > 1u ? "f" : "i", t->loops[2]->ref, t->shape->steps,
         gpu_index_type(t), side[!is_steps], fast, is_steps ? times : "");
}

static void put_scalars(const gpu_product *t, const gpu_operand *o)
{
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 g = 0; g < %" PRIu32 "; g++) {", gpu_elements_of(t, o));
    gpu_open_block(t);
    put_position(t, o, 1);
    put_element(t, o, "g");
    gpu_close_block(t);
}

/* Is all of the vector that begins at f<axis> in the product? */
static void put_is_whole(const gpu_product *t, const gpu_operand *o, uint32_t axis)
{
    const st_loop_ref mask = st_loop_at(t->g->kernel, o->vector)->args[0];
    line(t, "st_bool is_whole = 1;");
    line(t, "{");
    gpu_open_block(t);
    line(t, "const %s i%" PRIu32 " = f%" PRIu32 " + %" PRIu32 ";", gpu_index_type(t), axis, axis,
         GPU_VECTOR - 1u);
    put_marked(t, GPU_NEEDED_BY_MASK << o->number);
    if (mask) {
        line(t, "is_whole = v%" PRIu32 ";", mask);
    }
    put_is_step(t, "is_whole = is_whole && ", ";");
    gpu_close_block(t);
}

static void put_address(const gpu_product *t, const st_loop_inst *load)
{
    put(&t->g->t, "b%" PRIu32 " + ", load->ref);
    st_loop_text_sym(&t->g->t, load->sym);
}

static uint32_t bytes_of(const gpu_product *t, const st_loop_inst *load)
{
    return (uint32_t)st_element_bytes(t->g->kernel->buffers.data[load->ref].dtype);
}

/* Four elements at once, into the array x<load>. */
static void put_vector_load(const gpu_product *t, const gpu_operand *o)
{
    static const char *const words[] = {[1] = "u32", [2] = "u32x2", [4] = "u32x4"};
    const st_loop_inst *load = st_loop_at(t->g->kernel, o->vector);
    const uint32_t bytes = bytes_of(t, load);
    const uint32_t dtype = t->g->kernel->buffers.data[load->ref].dtype;
    const char *type = st_loop_text_memory_type(&t->g->t, dtype);
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "const st_%s w = st_load_%s(", words[bytes], words[bytes]);
    put_address(t, load);
    put(&t->g->t, ");\n");
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "const %s x%" PRIu32 "[%" PRIu32 "] = {", type, o->vector, GPU_VECTOR);
    for (uint32_t k = 0; k < GPU_VECTOR; k++) {
        const uint32_t word = k * bytes / 4u;
        const bool is_float = dtype == STATOR_F32;
        const char *of_bits = t->g->t.spelling->of_bits[ST_LOOP_F32];
        put(&t->g->t, is_float ? "%s%s(w" : "%s(%s)(w", k ? ", " : "", is_float ? of_bits : type);
        if (bytes > 1u) {
            put(&t->g->t, ".%c", "xyzw"[word]);
        }
        put(&t->g->t, " >> %" PRIu32 ")", k * bytes % 4u * 8u);
    }
    put(&t->g->t, "};\n");
}

static void put_vectors(const gpu_product *t, const gpu_operand *o)
{
    const st_loop_inst *load = st_loop_at(t->g->kernel, o->vector);
    const uint32_t axis = o->walk == GPU_WALK_STEPS ? t->loops[2]->ref : o->loop->ref;
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 g = 0; g < %" PRIu32 "; g++) {", gpu_elements_of(t, o) / GPU_VECTOR);
    gpu_open_block(t);
    put_position(t, o, GPU_VECTOR);
    put_is_whole(t, o, axis);
    line(t, "const %s i%" PRIu32 " = f%" PRIu32 ";", gpu_index_type(t), axis, axis);
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "if (is_whole && (st_u64)(");
    put_address(t, load);
    put(&t->g->t, ") %% %" PRIu32 " == 0) {\n", GPU_VECTOR * bytes_of(t, load));
    for (uint32_t is_whole = 1;; is_whole--) {
        gpu_open_block(t);
        if (is_whole) {
            put_vector_load(t, o);
        }
        line(t, "ST_UNROLL");
        line(t, "for (%s e = 0; e < %" PRIu32 "; e++) {", gpu_index_type(t), GPU_VECTOR);
        gpu_open_block(t);
        line(t, "const %s i%" PRIu32 " = f%" PRIu32 " + e;", gpu_index_type(t), axis, axis);
        t->g->is_staged[o->vector] = is_whole ? ST_LOOP_STAGED : ST_LOOP_IN_MEMORY;
        t->g->t.is_staged = t->g->is_staged;
        put_element(t, o, "g * 4 + e");
        t->g->t.is_staged = NULL;
        t->g->is_staged[o->vector] = ST_LOOP_IN_MEMORY;
        gpu_close_block(t);
        t->g->t.depth--;
        if (!is_whole) {
            break;
        }
        line(t, "} else {");
    }
    line(t, "}");
    gpu_close_block(t);
}

void gpu_put_loads(const gpu_product *t, const gpu_operand *o)
{
    if (o->vector) {
        put_vectors(t, o);
    } else {
        put_scalars(t, o);
    }
}

/* ---- registers to shared memory ---- */

void gpu_put_stores(const gpu_product *t, const gpu_operand *o)
{
    const uint32_t vector = o->vector ? GPU_VECTOR : 1u;
    const uint32_t fast = (o->walk == GPU_WALK_SIDE ? o->side : t->shape->steps) / vector;
    const bool is_by_side = o->walk == GPU_WALK_SIDE;
    char pitch[16];
    (void)snprintf(pitch, sizeof pitch, " * %" PRIu32, gpu_pitch_of(o));
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 g = 0; g < %" PRIu32 "; g++) {", gpu_elements_of(t, o) / vector);
    gpu_open_block(t);
    line(t, "const st_u32 at = ST_THREAD + g * %" PRIu32 ";", t->shape->threads);
    line(t,
         "%s *to = t%c + (step %% 2 * %" PRIu32 " + (%s)(at %s %" PRIu32 "%s) * %" PRIu32
         " + (%s)(at %s %" PRIu32 "%s));",
         gpu_type_of(t), o->name, t->shape->steps * gpu_pitch_of(o), gpu_index_type(t),
         is_by_side ? "/" : "%", fast, !is_by_side && vector > 1u ? " * 4" : "", gpu_pitch_of(o),
         gpu_index_type(t), is_by_side ? "%" : "/", fast, is_by_side && vector > 1u ? " * 4" : "");
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
