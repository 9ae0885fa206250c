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
#include "codegen/gpu/contract/gpu_contract_text.h"

#include <inttypes.h>
#include <string.h>

#define put st_loop_text_put
#define line gpu_line

#define THREAD_ROWS 8u
#define BUFFERS 2u
#define UNROLLED_MAX 40u /* instructions after the sum that are written for each result */

/* ---- products ---- */

/* The thread's part of a step of one factor, from shared memory. */
static void put_part(const gpu_product *t, const gpu_operand *o, const char *part,
                     const char *place, uint32_t n, uint32_t apart)
{
    line(t, "ST_UNROLL");
    if (gpu_sums_f32(t)) {
        line(t, "for (st_u32 i = 0; i < %" PRIu32 "; i += 4) {", n);
        line(t,
             "    const st_u32x4 w = st_load_u32x4(t%c + (half * %" PRIu32 " + k * %" PRIu32
             " + %s + (%s)(i * %" PRIu32 ")));",
             o->name, t->shape->steps * gpu_pitch_of(o), gpu_pitch_of(o), place, gpu_index_type(t),
             apart / 4u);
        for (uint32_t k = 0; k < GPU_VECTOR; k++) {
            line(t, "    %s[i + %" PRIu32 "] = st_f32_of_bits(w.%c);", part, k, "xyzw"[k]);
        }
    } else {
        line(t, "for (st_u32 i = 0; i < %" PRIu32 "; i++) {", n);
        line(t,
             "    %s[i] = t%c[half * %" PRIu32 " + k * %" PRIu32 " + %s + (%s)(i / 4 * %" PRIu32
             " + i %% 4)];",
             part, o->name, t->shape->steps * gpu_pitch_of(o), gpu_pitch_of(o), place,
             gpu_index_type(t), apart);
    }
    line(t, "}");
}

static void put_products(const gpu_product *t)
{
    const uint32_t columns = t->shape->thread_columns;
    line(t, "const %s half = (step + 1) %% 2;", gpu_index_type(t));
    line(t, "ST_UNROLL");
    line(t, "for (%s k = 0; k < %" PRIu32 "; k++) {", gpu_index_type(t), t->shape->steps);
    gpu_open_block(t);
    line(t, "%s p[%" PRIu32 "], q[%" PRIu32 "];", gpu_type_of(t), THREAD_ROWS, columns);
    put_part(t, &t->operands[0], "p", "row", THREAD_ROWS, 16);
    put_part(t, &t->operands[1], "q", "column", columns, 32);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 i = 0; i < %" PRIu32 "; i++) {", THREAD_ROWS);
    gpu_open_block(t);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 j = 0; j < %" PRIu32 "; j++) {", columns);
    if (st_loop_class_of(st_loop_at(t->g->kernel, t->acc)->dtype) == ST_LOOP_FLOATS) {
        line(t, "    c[i][j] = st_fma%s(p[i], q[j], c[i][j]);",
             t->g->t.spelling->suffix[gpu_sums_f32(t) ? ST_LOOP_F32 : ST_LOOP_F64]);
    } else {
        line(t, "    c[i][j] = (st_i32)((st_u32)c[i][j] + (st_u32)p[i] * (st_u32)q[j]);");
    }
    line(t, "}");
    gpu_close_block(t);
    gpu_close_block(t);
}

/* ---- the sum ---- */

static void put_sum(const gpu_product *t)
{
    const gpu_operand *operands = t->operands;
    for (uint32_t k = 0; k < 2u; k++) {
        line(t, "%s x%c[%" PRIu32 "];", gpu_type_of(t), operands[k].name,
             gpu_elements_of(t, &operands[k]));
    }
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "const %s steps = (", gpu_index_type(t));
    st_loop_text_sym(&t->g->t, gpu_loop_axis(t, t->loops[2])->extent);
    put(&t->g->t, " + %" PRIu32 ") / %" PRIu32 ";\n", t->shape->steps - 1u, t->shape->steps);
    line(t, "for (%s step = 0; step <= steps; step++) {", gpu_index_type(t));
    gpu_open_block(t);
    line(t, "if (step < steps) {");
    gpu_open_block(t);
    gpu_put_loads(t, &operands[0]);
    gpu_put_loads(t, &operands[1]);
    gpu_close_block(t);
    line(t, "if (step > 0) {");
    gpu_open_block(t);
    put_products(t);
    gpu_close_block(t);
    line(t, "if (step < steps) {");
    gpu_open_block(t);
    gpu_put_stores(t, &operands[0]);
    gpu_put_stores(t, &operands[1]);
    gpu_close_block(t);
    line(t, "st_barrier();");
    gpu_close_block(t);
}

/* The first of the thread's rows and columns. */
static void put_thread_position(const gpu_product *t)
{
    const uint32_t columns = t->shape->thread_columns;
    const uint32_t across = t->shape->columns / (8u * columns); /* warps side by side */
    line(t, "const %s row = (%s)(ST_THREAD / %" PRIu32 " * 32 + ST_THREAD %% 32 / 8 * 4);",
         gpu_index_type(t), gpu_index_type(t), 32u * across);
    line(t,
         "const %s column = (%s)(ST_THREAD / 32 %% %" PRIu32 " * %" PRIu32
         " + ST_THREAD %% 8 * 4);",
         gpu_index_type(t), gpu_index_type(t), across, 8u * columns);
    line(t, "%s c[%" PRIu32 "][%" PRIu32 "] = {{0}};", gpu_type_of(t), THREAD_ROWS, columns);
}

/* ---- what follows the sum ---- */

/* What stands in the block but for the sum; its number of instructions. */
static uint32_t put_rest(const gpu_product *t, uint32_t block, bool is_counted)
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
static bool put_copy(const gpu_product *t)
{
    const uint32_t columns = t->shape->thread_columns;
    if (put_rest(t, t->loops[1]->body, true) <= UNROLLED_MAX) {
        return false;
    }
    line(t, "%s s[%" PRIu32 "][%" PRIu32 "];", gpu_type_of(t), THREAD_ROWS, columns);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 i = 0; i < %" PRIu32 "; i++) {", THREAD_ROWS);
    gpu_open_block(t);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 j = 0; j < %" PRIu32 "; j++) { s[i][j] = c[i][j]; }", columns);
    gpu_close_block(t);
    return true;
}

static void put_results(const gpu_product *t)
{
    const bool is_copied = put_copy(t);
    const char *unroll = is_copied ? "/* not unrolled */" : "ST_UNROLL";
    const char *type = gpu_index_type(t);
    line(t, "%s", unroll);
    line(t, "for (%s i = 0; i < %" PRIu32 "; i++) {", type, THREAD_ROWS);
    gpu_open_block(t);
    line(t, "const %s i%" PRIu32 " = row + i / 4 * 16 + i %% 4;", type, t->loops[0]->ref);
    (void)put_rest(t, t->loops[0]->body, false);
    line(t, "%s", unroll);
    line(t, "for (%s j = 0; j < %" PRIu32 "; j++) {", type, t->shape->thread_columns);
    gpu_open_block(t);
    line(t, "const %s i%" PRIu32 " = column + j / 4 * 32 + j %% 4;", type, t->loops[1]->ref);
    line(t, "const %s a%" PRIu32 " = %s[i][j];", gpu_type_of(t), t->acc, is_copied ? "s" : "c");
    (void)put_rest(t, t->loops[1]->body, false);
    gpu_close_block(t);
    gpu_close_block(t);
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
static bool walks(const gpu_product *t, uint32_t bit, const st_loop_inst *loop)
{
    const uint32_t symbol = gpu_loop_axis(t, loop)->symbol;
    for (st_loop_ref ref = 1; ref < t->g->kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(t->g->kernel, ref);
        if ((t->g->needed[ref] & bit) && inst->sym && inst->code != ST_LOOP_BIND &&
            st_loop_mentions(t->g->kernel->syms, inst->sym, symbol)) {
            return true;
        }
    }
    return false;
}

static void find_operands(gpu_product *t, const st_loop_inst *update)
{
    const st_kernel *kernel = t->g->kernel;
    const st_loop_inst *product = st_loop_at(kernel, update->args[0]);
    gpu_mark_needed(kernel, product->args[0], t->g->needed, GPU_NEEDED_BY_FACTOR);
    gpu_mark_needed(kernel, product->args[1], t->g->needed, GPU_NEEDED_BY_FACTOR << 1u);
    const uint32_t rows = walks(t, GPU_NEEDED_BY_FACTOR, t->loops[0]) ? 0 : 1;
    if (rows == 1u) {
        for (st_loop_ref ref = 1; ref < kernel->insts.count; ref++) {
            t->g->needed[ref] =
                (uint8_t)((t->g->needed[ref] >> 1u) | ((t->g->needed[ref] & 1u) << 1u));
        }
    }
    for (uint32_t k = 0; k < 2u; k++) {
        t->operands[k] = (gpu_operand){.number = k,
                                       .name = k ? 'b' : 'a',
                                       .factor = product->args[k ? 1u - rows : rows],
                                       .loop = t->loops[k],
                                       .side = k ? t->shape->columns : t->shape->rows};
    }
    gpu_choose_walk(t, &t->operands[0]);
    gpu_choose_walk(t, &t->operands[1]);
}

/* Fills the tile from the loop over its rows. */
static void find_tile(gpu_text *g, const st_loop_inst *rows, gpu_product *t)
{
    const st_kernel *kernel = g->kernel;
    const st_symtab *tab = &kernel->syms->tab;
    memset(g->needed, 0, kernel->insts.count);
    *t = (gpu_product){.g = g, .loops = {rows, loop_in(g, rows->body)}};
    t->loops[2] = loop_in(g, t->loops[1]->body);
    t->shape = gpu_tile_shape_of(st_loop_known_or(tab, gpu_loop_axis(t, rows)->extent, 0),
                                 st_loop_known_or(tab, gpu_loop_axis(t, t->loops[1])->extent, 0));
    const int64_t steps = st_loop_known_or(tab, gpu_loop_axis(t, t->loops[2])->extent, 1);
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
    gpu_product t;
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
            gpu_product t;
            find_tile(g, inst, &t);
            uint32_t n = 0;
            for (uint32_t k = 0; k < 2u; k++) {
                const uint32_t elements = BUFFERS * t.shape->steps * gpu_pitch_of(&t.operands[k]);
                put(&g->t, "    ST_SHARED(%s, t%c, %" PRIu32 ");\n", gpu_type_of(&t),
                    t.operands[k].name, elements);
                n += elements;
            }
            return n * (uint32_t)st_element_bytes(st_loop_at(g->kernel, t.acc)->dtype);
        }
    }
    return 0;
}
