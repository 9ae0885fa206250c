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
#define UNROLLED_MAX 40u /* instructions after the sum that are written for each result */

/* ---- products ---- */

/* The thread's part of a step of one factor, from shared memory. */
static void put_part(const gpu_product *t, const gpu_operand *o, const char *part,
                     const char *place, uint32_t n, uint32_t apart)
{
    line(t, "ST_UNROLL");
    if (gpu_sums_f32(t)) {
        line(t, "for (st_u32 i = 0; i < %" PRIu32 "; i += 4) {", n);
        st_loop_text_indent(&t->g->t);
        put(&t->g->t, "    const st_u32x4 w = st_load_u32x4(t%c + (", o->name);
        gpu_put_share(t, GPU_BUFFERS * t->shape->steps * gpu_pitch_of(o));
        put(&t->g->t,
            "half * %" PRIu32 " + (k + 1) * %" PRIu32 " + %s + (%s)(i * %" PRIu32 ")));\n",
            t->shape->steps * gpu_pitch_of(o), gpu_pitch_of(o), place, gpu_index_type(t),
            apart / 4u);
        for (uint32_t k = 0; k < GPU_VECTOR; k++) {
            line(t, "    %s[i + %" PRIu32 "] = st_f32_of_bits(w.%c);", part, k, "xyzw"[k]);
        }
    } else {
        line(t, "for (st_u32 i = 0; i < %" PRIu32 "; i++) {", n);
        st_loop_text_indent(&t->g->t);
        put(&t->g->t, "    %s[i] = t%c[", part, o->name);
        gpu_put_share(t, GPU_BUFFERS * t->shape->steps * gpu_pitch_of(o));
        put(&t->g->t,
            "half * %" PRIu32 " + (k + 1) * %" PRIu32 " + %s + (%s)(i / 4 * %" PRIu32
            " + i %% 4)];\n",
            t->shape->steps * gpu_pitch_of(o), gpu_pitch_of(o), place, gpu_index_type(t), apart);
    }
    line(t, "}");
}

static void put_products(const gpu_product *t)
{
    const uint32_t columns = t->shape->thread_columns;
    line(t, "const %s half = (step + 1) %% 2;", gpu_index_type(t));
    line(t, "%s p[2][%" PRIu32 "], q[2][%" PRIu32 "];", gpu_type_of(t), THREAD_ROWS, columns);
    line(t, "ST_UNROLL");
    line(t, "for (%s k = -1; k < %" PRIu32 "; k++) {", gpu_index_type(t), t->shape->steps);
    gpu_open_block(t);
    line(t, "if (k < %" PRIu32 ") { /* the next step's, while this one's are multiplied */",
         t->shape->steps - 1u);
    gpu_open_block(t);
    put_part(t, &t->operands[0], "p[(k + 1) % 2]", "row", THREAD_ROWS, 16);
    put_part(t, &t->operands[1], "q[(k + 1) % 2]", "column", columns, 32);
    gpu_close_block(t);
    line(t, "if (k < 0) { continue; }");
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 i = 0; i < %" PRIu32 "; i++) {", THREAD_ROWS);
    gpu_open_block(t);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 j = 0; j < %" PRIu32 "; j++) {", columns);
    gpu_put_multiply(t, "c[i][j]", "p[k % 2][i]", "q[k % 2][j]");
    line(t, "}");
    gpu_close_block(t);
    gpu_close_block(t);
}

/* ---- the sum ---- */

static void put_sum(const gpu_product *t)
{
    const gpu_operand *operands = t->operands;
    const uint32_t shares = t->shape->shares;
    const uint32_t all = t->shape->steps * shares;
    for (uint32_t k = 0; k < 2u; k++) {
        line(t, "%s x%c[%" PRIu32 "];", gpu_type_of(t), operands[k].name,
             gpu_elements_of(t, &operands[k]));
    }
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "const %s steps = (", gpu_index_type(t));
    st_loop_text_sym(&t->g->t, gpu_loop_axis(t, t->loops[2])->extent);
    put(&t->g->t, " + %" PRIu32 ") / %" PRIu32 ";\n", all - 1u, all);
    if (gpu_table_words(t, &operands[0]) + gpu_table_words(t, &operands[1])) {
        gpu_put_table(t, &operands[0], "0");
        gpu_put_table(t, &operands[1], "0");
        line(t, "st_barrier();");
    }
    line(t, "for (%s step = 0; step <= steps; step++) {", gpu_index_type(t));
    gpu_open_block(t);
    line(t, "if (step < steps) {");
    gpu_open_block(t);
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "const %s first_step = step * %" PRIu32, gpu_index_type(t), all);
    put(&t->g->t, shares > 1u ? " + share * %" PRIu32 ";\n" : ";\n", t->shape->steps);
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
    gpu_put_table(t, &operands[0], "(step + 1)");
    gpu_put_table(t, &operands[1], "(step + 1)");
    gpu_close_block(t);
    line(t, "st_barrier();");
    gpu_close_block(t);
}

static uint32_t memory_of(const gpu_product *t, const gpu_operand *o)
{
    return t->shape->shares * GPU_BUFFERS * t->shape->steps * gpu_pitch_of(o);
}

/* The sums of the other shares are added to those of the first, one share after the other, as many
 * rows of each thread at once as the factors' memory holds. */
static void put_shares(const gpu_product *t)
{
    const char *type = gpu_index_type(t);
    const uint32_t columns = t->shape->thread_columns;
    const uint32_t memory = memory_of(t, &t->operands[0]);
    uint32_t rows = THREAD_ROWS;
    while (rows * columns * t->members > memory) {
        rows /= 2u;
    }
    line(t, "for (%s other = 1; other < %" PRIu32 "; other++) {", type, t->shape->shares);
    gpu_open_block(t);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 f = 0; f < %" PRIu32 "; f += %" PRIu32 ") {", THREAD_ROWS, rows);
    gpu_open_block(t);
    for (uint32_t is_read = 0; is_read < 2u; is_read++) {
        line(t, is_read ? "if (share == 0) {" : "if (share == other) {");
        gpu_open_block(t);
        line(t, "ST_UNROLL");
        line(t, "for (st_u32 i = 0; i < %" PRIu32 "; i++) {", rows * columns);
        st_loop_text_indent(&t->g->t);
        put(&t->g->t,
            is_read
                ? "    c[f + i / %" PRIu32 "][i %% %" PRIu32 "] += ta[i * %" PRIu32 " + member];\n"
                : "    ta[i * %" PRIu32 " + member] = c[f + i / %" PRIu32 "][i %% %" PRIu32 "];\n",
            is_read ? columns : t->members, columns, is_read ? t->members : columns);
        line(t, "}");
        gpu_close_block(t);
        line(t, "st_barrier();");
    }
    gpu_close_block(t);
    gpu_close_block(t);
}

/* The first of the thread's rows and columns. */
static void put_thread_position(const gpu_product *t)
{
    const uint32_t columns = t->shape->thread_columns;
    const uint32_t across = t->shape->columns / (8u * columns); /* warps side by side */
    const char *type = gpu_index_type(t);
    if (t->shape->shares > 1u) {
        line(t, "const st_u32 member = ST_THREAD %% %" PRIu32 ";", t->members);
        line(t, "const %s share = (%s)(ST_THREAD / %" PRIu32 ");", type, type, t->members);
    }
    line(t, "const %s row = (%s)(%s / %" PRIu32 " * 32 + %s %% 32 / 8 * 4);", type, type, t->member,
         32u * across, t->member);
    line(t, "const %s column = (%s)(%s / 32 %% %" PRIu32 " * %" PRIu32 " + %s %% 8 * 4);", type,
         type, t->member, across, 8u * columns, t->member);
    line(t, "%s c[%" PRIu32 "][%" PRIu32 "] = {{0}};", gpu_type_of(t), THREAD_ROWS, columns);
}

/* ---- what follows the sum ---- */

/* Where much follows, the sums move to an array in memory, so that it is written once. */
static bool put_copy(const gpu_product *t)
{
    const uint32_t columns = t->shape->thread_columns;
    if (gpu_put_rest(t, t->loops[1]->body, true) <= UNROLLED_MAX) {
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
    (void)gpu_put_rest(t, t->loops[0]->body, false);
    line(t, "%s", unroll);
    line(t, "for (%s j = 0; j < %" PRIu32 "; j++) {", type, t->shape->thread_columns);
    gpu_open_block(t);
    line(t, "const %s i%" PRIu32 " = column + j / 4 * 32 + j %% 4;", type, t->loops[1]->ref);
    line(t, "const %s a%" PRIu32 " = %s[i][j];", gpu_type_of(t), t->acc, is_copied ? "s" : "c");
    (void)gpu_put_rest(t, t->loops[1]->body, false);
    gpu_close_block(t);
    gpu_close_block(t);
}

/* ---- the tile ---- */

static void find_operands(gpu_product *t, const st_loop_inst *update)
{
    const st_kernel *kernel = t->g->kernel;
    const st_loop_inst *product = st_loop_at(kernel, update->args[0]);
    const bool is_half = t->shape->mapping == ST_MAPPING_MATRIX_STEPS;
    st_loop_ref factors[2] = {product->args[0], product->args[1]};
    for (uint32_t k = 0; k < 2u; k++) {
        factors[k] = is_half ? st_loop_at(kernel, factors[k])->args[0] : factors[k];
        gpu_mark_needed(kernel, factors[k], t->g->needed, (uint8_t)(GPU_NEEDED_BY_FACTOR << k));
    }
    const uint32_t rows = gpu_walks(t, GPU_NEEDED_BY_FACTOR, t->loops[0]) ? 0 : 1;
    if (rows == 1u) {
        for (st_loop_ref ref = 1; ref < kernel->insts.count; ref++) {
            t->g->needed[ref] =
                (uint8_t)((t->g->needed[ref] >> 1u) | ((t->g->needed[ref] & 1u) << 1u));
        }
    }
    for (uint32_t k = 0; k < 2u; k++) {
        t->operands[k] = (gpu_operand){.number = k,
                                       .name = k ? 'b' : 'a',
                                       .factor = factors[k ? 1u - rows : rows],
                                       .lanes = is_half ? 2u * GPU_VECTOR : GPU_VECTOR,
                                       .loop = t->loops[k],
                                       .side = k ? t->shape->columns : t->shape->rows};
    }
    gpu_choose_walk(t, &t->operands[0]);
    gpu_choose_walk(t, &t->operands[1]);
}

static const gpu_tile_shape *shape_of(const gpu_product *t)
{
    const st_symtab *tab = &t->g->kernel->syms->tab;
    const st_loop_axis *steps = gpu_loop_axis(t, t->loops[2]);
    const int64_t rows = st_loop_known_or(tab, gpu_loop_axis(t, t->loops[0])->extent, 0);
    const int64_t columns = st_loop_known_or(tab, gpu_loop_axis(t, t->loops[1])->extent, 0);
    return gpu_matrix_kind_of(steps->mapping)
               ? gpu_matrix_shape_of(steps->mapping, rows, columns)
               : gpu_tile_shape_of(rows, columns, steps->lanes, t->g->kernel->threads);
}

/* Fills the tile from the loop over its rows. */
static void find_tile(gpu_text *g, const st_loop_inst *rows, gpu_product *t)
{
    const st_kernel *kernel = g->kernel;
    const st_symtab *tab = &kernel->syms->tab;
    memset(g->needed, 0, kernel->insts.count);
    *t = (gpu_product){.g = g, .loops = {rows, gpu_loop_in(g, rows->body)}};
    t->loops[2] = gpu_loop_in(g, t->loops[1]->body);
    t->shape = shape_of(t);
    const int64_t steps = st_loop_known_or(tab, gpu_loop_axis(t, t->loops[2])->extent, 1);
    t->is_even = steps % (int64_t)(t->shape->steps * t->shape->shares) == 0;
    t->member = t->shape->shares > 1u ? "member" : "ST_THREAD";
    t->members = t->shape->threads / t->shape->shares;
    for (st_loop_ref ref = kernel->blocks.data[t->loops[2]->body].first; ref;
         ref = st_loop_at(kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        if (inst->code == ST_LOOP_UPDATE) {
            t->acc = inst->ref;
            find_operands(t, inst);
        }
    }
}

/* Do the threads share the steps of the tile whose rows these are? */
static bool is_skinny(const gpu_text *g, const st_loop_inst *rows)
{
    const st_loop_inst *steps = gpu_loop_in(g, gpu_loop_in(g, rows->body)->body);
    return g->kernel->axes.data[steps->ref].mapping == ST_MAPPING_TILE_SHARES;
}

void gpu_put_tile(gpu_text *g, const st_loop_inst *rows)
{
    gpu_product t;
    if (is_skinny(g, rows)) {
        gpu_put_skinny(g, rows);
        return;
    }
    find_tile(g, rows, &t);
    if (gpu_matrix_kind_of(t.shape->mapping)) {
        gpu_put_matrix_tile(&t);
        return;
    }
    put_thread_position(&t);
    put_sum(&t);
    if (t.shape->shares == 1u) {
        put_results(&t);
        return;
    }
    put_shares(&t);
    line(&t, "if (share == 0) {");
    gpu_open_block(&t);
    put_results(&t);
    gpu_close_block(&t);
}

/* Shared memory of matrices is what the launch asks for; its bytes. */
static uint32_t put_matrix_memory(gpu_text *g, const gpu_tile_shape *shape)
{
    put(&g->t, "    ST_DYNAMIC_SHARED(st_u8, tile);\n");
    return gpu_matrix_bytes(shape);
}

uint32_t gpu_put_tile_memory(gpu_text *g, uint32_t *out_dynamic)
{
    for (st_loop_ref ref = 1; ref < g->kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(g->kernel, ref);
        if (inst->code == ST_LOOP_LOOP &&
            g->kernel->axes.data[inst->ref].mapping == ST_MAPPING_TILE_ROWS) {
            gpu_product t;
            uint32_t n = 0;
            if (is_skinny(g, inst)) {
                return gpu_put_skinny_memory(g, inst);
            }
            find_tile(g, inst, &t);
            if (gpu_matrix_kind_of(t.shape->mapping)) {
                *out_dynamic = put_matrix_memory(g, t.shape);
                return 0;
            }
            for (uint32_t k = 0; k < 2u; k++) {
                const uint32_t elements = memory_of(&t, &t.operands[k]);
                put(&g->t, "    ST_SHARED(%s, t%c, %" PRIu32 ");\n", gpu_type_of(&t),
                    t.operands[k].name, elements);
                const uint32_t words = gpu_table_words(&t, &t.operands[k]);
                if (words) {
                    put(&g->t, "    ST_SHARED(st_u32, u%c, %" PRIu32 ");\n", t.operands[k].name,
                        words);
                }
                n += elements * (uint32_t)st_element_bytes(st_loop_at(g->kernel, t.acc)->dtype) +
                     words * 4u;
            }
            return n;
        }
    }
    return 0;
}
