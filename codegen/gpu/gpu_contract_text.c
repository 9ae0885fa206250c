/* A tile of a contraction as text: a block brings a few steps of both factors to shared memory,
 * each thread makes 8 by 8 or 8 by 4 results of them in registers, and in the end does with each
 * what the kernel does with the sum.
 *
 *     float c[8][8] = {{0}};
 *     for (step = 0; step <= steps; step++) {
 *         if (step < steps) { xa[...] = ...; xb[...] = ...; }      memory to registers
 *         if (step > 0) { c[i][j] = st_fma_f32(p[i], q[j], c[i][j]); }  of the step before
 *         if (step < steps) { ta[...] = xa[...]; tb[...] = xb[...]; }
 *         st_barrier();
 *     }
 *     for (i ...) for (j ...) { const float a1 = c[i][j]; ... store ... }
 *
 * There are two buffers of shared memory, so that one is written while the other one is read. What
 * lies beyond the last step counts 0. Each result is summed by one thread in the order of the
 * steps. */
#include "codegen/gpu/gpu_contract.h"
#include "codegen/gpu/gpu_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define put st_loop_text_put

#define THREAD_ROWS 8u
#define VECTOR 4u /* elements that a thread brings at once */
#define PAD 4u    /* of a row of shared memory, against conflicts of banks */
#define BUFFERS 2u
#define UNROLLED_MAX 40u /* instructions after the sum that are written for each result */

enum { NEEDED_BY_FACTOR = 1u, NEEDED_BY_MASK = 4u }; /* each shifted by the operand's number */

/* How a factor is brought: along its own side of the tile or along the steps, four elements that
 * lie side by side at once or one by one. */
enum walk { WALK_SIDE = 0, WALK_STEPS = 1 };

typedef struct operand {
    uint32_t number; /* 0: of rows, 1: of columns */
    char name;
    st_loop_ref factor;
    const st_loop_inst *loop; /* over its side */
    uint32_t side;
    enum walk walk;
    st_loop_ref vector; /* the load that is made of four elements at once, 0: none is */
} operand;

typedef struct tile {
    gpu_text *g;
    const gpu_tile_shape *shape;
    const st_loop_inst *loops[3]; /* over rows, columns, steps */
    st_loop_ref acc;
    operand operands[2];
    bool is_even; /* steps are a multiple of those between two barriers */
} tile;

static void line(const tile *t, const char *format, ...) STATOR_PRINTF(2, 3);

static void line(const tile *t, const char *format, ...)
{
    va_list args;
    st_loop_text_indent(&t->g->t);
    va_start(args, format);
    st_str_vaddf(t->g->t.out, format, args);
    va_end(args);
    st_str_add(t->g->t.out, "\n");
}

static void open_block(const tile *t)
{
    t->g->t.depth++;
}

static void close_block(const tile *t)
{
    t->g->t.depth--;
    line(t, "}");
}

/* ---- what is printed ---- */

static uint32_t pitch_of(const operand *o)
{
    return o->side + PAD;
}

static uint32_t elements_of(const tile *t, const operand *o)
{
    return o->side * t->shape->steps / t->shape->threads;
}

static const char *type_of(const tile *t)
{
    return t->g->t.spelling->types[st_loop_at(t->g->kernel, t->acc)->dtype];
}

static const char *index_type(const tile *t)
{
    return t->g->t.spelling->index_type;
}

static bool is_f32(const tile *t)
{
    return st_loop_at(t->g->kernel, t->acc)->dtype == STATOR_F32;
}

/* ---- how factors lie in memory ---- */

typedef struct bound_search {
    const tile *t;
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
static int64_t step_along(const tile *t, const st_loop_inst *loop, uint32_t sym)
{
    const st_kernel *kernel = t->g->kernel;
    uint32_t coef = 0;
    uint32_t rest = 0;
    return st_loop_linear(kernel->syms, sym, kernel->axes.data[loop->ref].symbol, &coef, &rest)
               ? st_loop_known_or(&kernel->syms->tab, coef, -1)
               : -1;
}

/* Is the mask one that holds up to some iteration of the loop, or none? */
static bool is_limit(const tile *t, const operand *o, st_loop_ref mask)
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
static st_loop_ref only_load(const tile *t, const operand *o)
{
    st_loop_ref load = 0;
    for (uint32_t k = 0; k < 3u; k++) {
        for (st_loop_ref ref = t->g->kernel->blocks.data[t->loops[k]->body].first; ref;
             ref = st_loop_at(t->g->kernel, ref)->next) {
            if ((t->g->needed[ref] & (NEEDED_BY_FACTOR << o->number)) &&
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

/* Chooses how the factor is walked: along what lies side by side in memory. */
static void choose_walk(const tile *t, operand *o)
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
    o->walk = along_steps == 1 && along_side != 1 ? WALK_STEPS : WALK_SIDE;
    const int64_t along = o->walk == WALK_STEPS ? along_steps : along_side;
    const int64_t across = o->walk == WALK_STEPS ? along_side : along_steps;
    const uint64_t bytes = st_element_bytes(dtype);
    const bool is_aligned = across < 0 || across % (int64_t)VECTOR == 0;
    if (along == 1 && is_aligned && bytes <= 4u && st_loop_loaded(dtype) == dtype &&
        !search.has_side && !search.has_steps && is_limit(t, o, load->args[0]) &&
        elements_of(t, o) % VECTOR == 0) {
        o->vector = ref;
        gpu_mark_needed(t->g->kernel, load->args[0], t->g->needed,
                        (uint8_t)(NEEDED_BY_MASK << o->number));
    }
}

/* ---- memory to registers ---- */

/* What stands in the loops of the tile and the bit marks. */
static void put_marked(const tile *t, uint32_t bit)
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

static const st_loop_axis *axis_of(const tile *t, const st_loop_inst *loop)
{
    return &t->g->kernel->axes.data[loop->ref];
}

/* "i2 < K", or 1 where no step is beyond. */
static void put_is_step(const tile *t, const char *before, const char *after)
{
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "%s", before);
    if (t->is_even) {
        put(&t->g->t, "1");
    } else {
        put(&t->g->t, "i%" PRIu32 " < ", t->loops[2]->ref);
        st_loop_text_sym(&t->g->t, axis_of(t, t->loops[2])->extent);
    }
    put(&t->g->t, "%s\n", after);
}

/* The value of the factor at the place that is set, into x<name>[at]. */
static void put_element(const tile *t, const operand *o, const char *at)
{
    line(t, "%s value = 0;", type_of(t));
    put_is_step(t, "if (", ") {");
    open_block(t);
    put_marked(t, NEEDED_BY_FACTOR << o->number);
    line(t, "value = v%" PRIu32 ";", o->factor);
    close_block(t);
    line(t, "x%c[%s] = value;", o->name, at);
}

/* The place of element `at` on the side and in the steps, of which the first moves fastest. */
static void put_position(const tile *t, const operand *o, uint32_t vector)
{
    const uint32_t fast = (o->walk == WALK_SIDE ? o->side : t->shape->steps) / vector;
    const char *side[2] = {"%", "/"};
    const bool is_steps = o->walk == WALK_STEPS;
    char times[16] = "";
    if (vector > 1u) {
        (void)snprintf(times, sizeof times, " * %" PRIu32, vector);
    }
    line(t, "const st_u32 at = ST_THREAD + g * %" PRIu32 ";", t->shape->threads);
    line(t, "const %s %s%" PRIu32 " = (%s)(at %s %" PRIu32 "%s);", index_type(t),
         !is_steps && vector > 1u ? "f" : "i", o->loop->ref, index_type(t), side[is_steps], fast,
         is_steps ? "" : times);
    line(t, "const %s %s%" PRIu32 " = step * %" PRIu32 " + (%s)(at %s %" PRIu32 "%s);",
         index_type(t), is_steps && vector > 1u ? "f" : "i", t->loops[2]->ref, t->shape->steps,
         index_type(t), side[!is_steps], fast, is_steps ? times : "");
}

static void put_scalars(const tile *t, const operand *o)
{
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 g = 0; g < %" PRIu32 "; g++) {", elements_of(t, o));
    open_block(t);
    put_position(t, o, 1);
    put_element(t, o, "g");
    close_block(t);
}

/* Is all of the vector that begins at f<axis> in the product? */
static void put_is_whole(const tile *t, const operand *o, uint32_t axis)
{
    const st_loop_ref mask = st_loop_at(t->g->kernel, o->vector)->args[0];
    line(t, "st_bool is_whole = 1;");
    line(t, "{");
    open_block(t);
    line(t, "const %s i%" PRIu32 " = f%" PRIu32 " + %" PRIu32 ";", index_type(t), axis, axis,
         VECTOR - 1u);
    put_marked(t, NEEDED_BY_MASK << o->number);
    if (mask) {
        line(t, "is_whole = v%" PRIu32 ";", mask);
    }
    put_is_step(t, "is_whole = is_whole && ", ";");
    close_block(t);
}

static void put_address(const tile *t, const st_loop_inst *load)
{
    put(&t->g->t, "b%" PRIu32 " + ", load->ref);
    st_loop_text_sym(&t->g->t, load->sym);
}

static uint32_t bytes_of(const tile *t, const st_loop_inst *load)
{
    return (uint32_t)st_element_bytes(t->g->kernel->buffers.data[load->ref].dtype);
}

/* Four elements at once, into the array x<load>. */
static void put_vector_load(const tile *t, const operand *o)
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
    put(&t->g->t, "const %s x%" PRIu32 "[%" PRIu32 "] = {", type, o->vector, VECTOR);
    for (uint32_t k = 0; k < VECTOR; k++) {
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

static void put_vectors(const tile *t, const operand *o)
{
    const st_loop_inst *load = st_loop_at(t->g->kernel, o->vector);
    const uint32_t axis = o->walk == WALK_STEPS ? t->loops[2]->ref : o->loop->ref;
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 g = 0; g < %" PRIu32 "; g++) {", elements_of(t, o) / VECTOR);
    open_block(t);
    put_position(t, o, VECTOR);
    put_is_whole(t, o, axis);
    line(t, "const %s i%" PRIu32 " = f%" PRIu32 ";", index_type(t), axis, axis);
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "if (is_whole && (st_u64)(");
    put_address(t, load);
    put(&t->g->t, ") %% %" PRIu32 " == 0) {\n", VECTOR * bytes_of(t, load));
    for (uint32_t is_whole = 1;; is_whole--) {
        open_block(t);
        if (is_whole) {
            put_vector_load(t, o);
        }
        line(t, "ST_UNROLL");
        line(t, "for (%s e = 0; e < %" PRIu32 "; e++) {", index_type(t), VECTOR);
        open_block(t);
        line(t, "const %s i%" PRIu32 " = f%" PRIu32 " + e;", index_type(t), axis, axis);
        t->g->is_staged[o->vector] = is_whole ? ST_LOOP_STAGED : ST_LOOP_IN_MEMORY;
        t->g->t.is_staged = t->g->is_staged;
        put_element(t, o, "g * 4 + e");
        t->g->t.is_staged = NULL;
        t->g->is_staged[o->vector] = ST_LOOP_IN_MEMORY;
        close_block(t);
        t->g->t.depth--;
        if (!is_whole) {
            break;
        }
        line(t, "} else {");
    }
    line(t, "}");
    close_block(t);
}

static void put_loads(const tile *t, const operand *o)
{
    if (o->vector) {
        put_vectors(t, o);
    } else {
        put_scalars(t, o);
    }
}

/* ---- registers to shared memory ---- */

static void put_stores(const tile *t, const operand *o)
{
    const uint32_t vector = o->vector ? VECTOR : 1u;
    const uint32_t fast = (o->walk == WALK_SIDE ? o->side : t->shape->steps) / vector;
    const bool is_by_side = o->walk == WALK_SIDE;
    char pitch[16];
    (void)snprintf(pitch, sizeof pitch, " * %" PRIu32, pitch_of(o));
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 g = 0; g < %" PRIu32 "; g++) {", elements_of(t, o) / vector);
    open_block(t);
    line(t, "const st_u32 at = ST_THREAD + g * %" PRIu32 ";", t->shape->threads);
    line(t,
         "%s *to = t%c + (step %% 2 * %" PRIu32 " + (%s)(at %s %" PRIu32 "%s) * %" PRIu32
         " + (%s)(at %s %" PRIu32 "%s));",
         type_of(t), o->name, t->shape->steps * pitch_of(o), index_type(t), is_by_side ? "/" : "%",
         fast, !is_by_side && vector > 1u ? " * 4" : "", pitch_of(o), index_type(t),
         is_by_side ? "%" : "/", fast, is_by_side && vector > 1u ? " * 4" : "");
    if (vector == 1u) {
        line(t, "*to = x%c[g];", o->name);
    } else if (is_by_side && is_f32(t)) {
        line(t,
             "st_store_u32x4(to, st_bits_of_f32(x%c[g * 4]), st_bits_of_f32(x%c[g * 4 + 1]), "
             "st_bits_of_f32(x%c[g * 4 + 2]), st_bits_of_f32(x%c[g * 4 + 3]));",
             o->name, o->name, o->name, o->name);
    } else {
        line(t, "ST_UNROLL");
        line(t, "for (st_u32 e = 0; e < %" PRIu32 "; e++) {", VECTOR);
        line(t, "    to[e%s] = x%c[g * 4 + e];", is_by_side ? "" : pitch, o->name);
        line(t, "}");
    }
    close_block(t);
}

/* ---- products ---- */

/* The thread's part of a step of one factor, from shared memory. */
static void put_part(const tile *t, const operand *o, const char *part, const char *place,
                     uint32_t n, uint32_t apart)
{
    line(t, "ST_UNROLL");
    if (is_f32(t)) {
        line(t, "for (st_u32 i = 0; i < %" PRIu32 "; i += 4) {", n);
        line(t,
             "    const st_u32x4 w = st_load_u32x4(t%c + (half * %" PRIu32 " + k * %" PRIu32
             " + %s + (%s)(i * %" PRIu32 ")));",
             o->name, t->shape->steps * pitch_of(o), pitch_of(o), place, index_type(t), apart / 4u);
        for (uint32_t k = 0; k < VECTOR; k++) {
            line(t, "    %s[i + %" PRIu32 "] = st_f32_of_bits(w.%c);", part, k, "xyzw"[k]);
        }
    } else {
        line(t, "for (st_u32 i = 0; i < %" PRIu32 "; i++) {", n);
        line(t,
             "    %s[i] = t%c[half * %" PRIu32 " + k * %" PRIu32 " + %s + (%s)(i / 4 * %" PRIu32
             " + i %% 4)];",
             part, o->name, t->shape->steps * pitch_of(o), pitch_of(o), place, index_type(t),
             apart);
    }
    line(t, "}");
}

static void put_products(const tile *t)
{
    const uint32_t columns = t->shape->thread_columns;
    line(t, "const %s half = (step + 1) %% 2;", index_type(t));
    line(t, "ST_UNROLL");
    line(t, "for (%s k = 0; k < %" PRIu32 "; k++) {", index_type(t), t->shape->steps);
    open_block(t);
    line(t, "%s p[%" PRIu32 "], q[%" PRIu32 "];", type_of(t), THREAD_ROWS, columns);
    put_part(t, &t->operands[0], "p", "row", THREAD_ROWS, 16);
    put_part(t, &t->operands[1], "q", "column", columns, 32);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 i = 0; i < %" PRIu32 "; i++) {", THREAD_ROWS);
    open_block(t);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 j = 0; j < %" PRIu32 "; j++) {", columns);
    if (st_loop_class_of(st_loop_at(t->g->kernel, t->acc)->dtype) == ST_LOOP_FLOATS) {
        line(t, "    c[i][j] = st_fma%s(p[i], q[j], c[i][j]);",
             t->g->t.spelling->suffix[is_f32(t) ? ST_LOOP_F32 : ST_LOOP_F64]);
    } else {
        line(t, "    c[i][j] = (st_i32)((st_u32)c[i][j] + (st_u32)p[i] * (st_u32)q[j]);");
    }
    line(t, "}");
    close_block(t);
    close_block(t);
}

/* ---- the sum ---- */

static void put_sum(const tile *t)
{
    const operand *operands = t->operands;
    for (uint32_t k = 0; k < 2u; k++) {
        line(t, "%s x%c[%" PRIu32 "];", type_of(t), operands[k].name, elements_of(t, &operands[k]));
    }
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "const %s steps = (", index_type(t));
    st_loop_text_sym(&t->g->t, axis_of(t, t->loops[2])->extent);
    put(&t->g->t, " + %" PRIu32 ") / %" PRIu32 ";\n", t->shape->steps - 1u, t->shape->steps);
    line(t, "for (%s step = 0; step <= steps; step++) {", index_type(t));
    open_block(t);
    line(t, "if (step < steps) {");
    open_block(t);
    put_loads(t, &operands[0]);
    put_loads(t, &operands[1]);
    close_block(t);
    line(t, "if (step > 0) {");
    open_block(t);
    put_products(t);
    close_block(t);
    line(t, "if (step < steps) {");
    open_block(t);
    put_stores(t, &operands[0]);
    put_stores(t, &operands[1]);
    close_block(t);
    line(t, "st_barrier();");
    close_block(t);
}

/* The first of the thread's rows and columns. */
static void put_thread_position(const tile *t)
{
    const uint32_t columns = t->shape->thread_columns;
    const uint32_t across = t->shape->columns / (8u * columns); /* warps side by side */
    line(t, "const %s row = (%s)(ST_THREAD / %" PRIu32 " * 32 + ST_THREAD %% 32 / 8 * 4);",
         index_type(t), index_type(t), 32u * across);
    line(t,
         "const %s column = (%s)(ST_THREAD / 32 %% %" PRIu32 " * %" PRIu32
         " + ST_THREAD %% 8 * 4);",
         index_type(t), index_type(t), across, 8u * columns);
    line(t, "%s c[%" PRIu32 "][%" PRIu32 "] = {{0}};", type_of(t), THREAD_ROWS, columns);
}

/* ---- what follows the sum ---- */

/* What stands in the block but for the sum; its number of instructions. */
static uint32_t put_rest(const tile *t, uint32_t block, bool is_counted)
{
    uint32_t n = 0;
    for (st_loop_ref ref = t->g->kernel->blocks.data[block].first; ref;
         ref = st_loop_at(t->g->kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(t->g->kernel, ref);
        if (inst->code == ST_LOOP_LOOP || inst->code == ST_LOOP_ACC) {
            continue;
        }
        n++;
        if (!is_counted) {
            st_loop_text_indent(&t->g->t);
            st_loop_text_inst(&t->g->t, ref);
        }
    }
    return n;
}

/* Where much follows, the sums move to an array in memory, so that it is written once. */
static bool put_copy(const tile *t)
{
    const uint32_t columns = t->shape->thread_columns;
    if (put_rest(t, t->loops[1]->body, true) <= UNROLLED_MAX) {
        return false;
    }
    line(t, "%s s[%" PRIu32 "][%" PRIu32 "];", type_of(t), THREAD_ROWS, columns);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 i = 0; i < %" PRIu32 "; i++) {", THREAD_ROWS);
    open_block(t);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 j = 0; j < %" PRIu32 "; j++) { s[i][j] = c[i][j]; }", columns);
    close_block(t);
    return true;
}

static void put_results(const tile *t)
{
    const bool is_copied = put_copy(t);
    const char *unroll = is_copied ? "/* not unrolled */" : "ST_UNROLL";
    const char *type = index_type(t);
    line(t, "%s", unroll);
    line(t, "for (%s i = 0; i < %" PRIu32 "; i++) {", type, THREAD_ROWS);
    open_block(t);
    line(t, "const %s i%" PRIu32 " = row + i / 4 * 16 + i %% 4;", type, t->loops[0]->ref);
    (void)put_rest(t, t->loops[0]->body, false);
    line(t, "%s", unroll);
    line(t, "for (%s j = 0; j < %" PRIu32 "; j++) {", type, t->shape->thread_columns);
    open_block(t);
    line(t, "const %s i%" PRIu32 " = column + j / 4 * 32 + j %% 4;", type, t->loops[1]->ref);
    line(t, "const %s a%" PRIu32 " = %s[i][j];", type_of(t), t->acc, is_copied ? "s" : "c");
    (void)put_rest(t, t->loops[1]->body, false);
    close_block(t);
    close_block(t);
}

/* ---- the tile ---- */

static const st_loop_inst *loop_in(const gpu_text *g, uint32_t block)
{
    for (st_loop_ref ref = g->kernel->blocks.data[block].first; ref;
         ref = st_loop_at(g->kernel, ref)->next) {
        if (st_loop_at(g->kernel, ref)->code == ST_LOOP_LOOP) {
            return st_loop_at(g->kernel, ref);
        }
    }
    return NULL;
}

/* Does what the factor is computed from walk the loop? */
static bool walks(const tile *t, uint32_t bit, const st_loop_inst *loop)
{
    const uint32_t symbol = axis_of(t, loop)->symbol;
    for (st_loop_ref ref = 1; ref < t->g->kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(t->g->kernel, ref);
        if ((t->g->needed[ref] & bit) && inst->sym && inst->code != ST_LOOP_BIND &&
            st_loop_mentions(t->g->kernel->syms, inst->sym, symbol)) {
            return true;
        }
    }
    return false;
}

static void find_operands(tile *t, const st_loop_inst *update)
{
    const st_kernel *kernel = t->g->kernel;
    const st_loop_inst *product = st_loop_at(kernel, update->args[0]);
    gpu_mark_needed(kernel, product->args[0], t->g->needed, NEEDED_BY_FACTOR);
    gpu_mark_needed(kernel, product->args[1], t->g->needed, NEEDED_BY_FACTOR << 1u);
    const uint32_t rows = walks(t, NEEDED_BY_FACTOR, t->loops[0]) ? 0 : 1;
    if (rows == 1u) {
        for (st_loop_ref ref = 1; ref < kernel->insts.count; ref++) {
            t->g->needed[ref] =
                (uint8_t)((t->g->needed[ref] >> 1u) | ((t->g->needed[ref] & 1u) << 1u));
        }
    }
    for (uint32_t k = 0; k < 2u; k++) {
        t->operands[k] = (operand){.number = k,
                                   .name = k ? 'b' : 'a',
                                   .factor = product->args[k ? 1u - rows : rows],
                                   .loop = t->loops[k],
                                   .side = k ? t->shape->columns : t->shape->rows};
    }
    choose_walk(t, &t->operands[0]);
    choose_walk(t, &t->operands[1]);
}

/* Fills the tile from the loop over its rows. */
static void find_tile(gpu_text *g, const st_loop_inst *rows, tile *t)
{
    const st_kernel *kernel = g->kernel;
    const st_symtab *tab = &kernel->syms->tab;
    memset(g->needed, 0, kernel->insts.count);
    *t = (tile){.g = g, .loops = {rows, loop_in(g, rows->body)}};
    t->loops[2] = loop_in(g, t->loops[1]->body);
    t->shape = gpu_tile_shape_of(st_loop_known_or(tab, axis_of(t, rows)->extent, 0),
                                 st_loop_known_or(tab, axis_of(t, t->loops[1])->extent, 0));
    const int64_t steps = st_loop_known_or(tab, axis_of(t, t->loops[2])->extent, 1);
    t->is_even = steps % (int64_t)t->shape->steps == 0;
    for (st_loop_ref ref = kernel->blocks.data[t->loops[2]->body].first; ref;
         ref = st_loop_at(kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        if (inst->code == ST_LOOP_UPDATE) {
            t->acc = inst->ref;
            find_operands(t, inst);
        }
    }
}

void gpu_put_tile(gpu_text *g, const st_loop_inst *rows)
{
    tile t;
    find_tile(g, rows, &t);
    put_thread_position(&t);
    put_sum(&t);
    put_results(&t);
}

uint32_t gpu_put_tile_memory(gpu_text *g)
{
    for (st_loop_ref ref = 1; ref < g->kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(g->kernel, ref);
        if (inst->code == ST_LOOP_LOOP &&
            g->kernel->axes.data[inst->ref].mapping == ST_MAPPING_TILE_ROWS) {
            tile t;
            find_tile(g, inst, &t);
            uint32_t n = 0;
            for (uint32_t k = 0; k < 2u; k++) {
                const uint32_t elements = BUFFERS * t.shape->steps * pitch_of(&t.operands[k]);
                put(&g->t, "    ST_SHARED(%s, t%c, %" PRIu32 ");\n", type_of(&t),
                    t.operands[k].name, elements);
                n += elements;
            }
            return n * (uint32_t)st_element_bytes(st_loop_at(g->kernel, t.acc)->dtype);
        }
    }
    return 0;
}
