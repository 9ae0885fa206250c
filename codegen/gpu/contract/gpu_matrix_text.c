/* A tile of a contraction by matrix instructions, as text.
 *
 *     float c[4][8][4] = {{{0}}};                         a warp's part: 64x64 of 16x8 each
 *     for (step = -3; step < steps; step++) {
 *         if (next < steps) { ta[...] = ...; tb[...] = ...; }      copies of a stage far ahead
 *         st_copies_commit();
 *         if (step >= -1) {
 *             if (k is the last) { st_copies_wait(2); st_barrier(); }         of the next stage
 *             p[(k + 1) % 2] = ...; q[(k + 1) % 2] = ...;
 *             st_mma_bf16(c[i][j], p[k % 2][i], q[k % 2][j]);
 *         }
 *     }
 *     for (i ...) { sums[...] = c[i]; for (r ...) for (j ...) { a1 = sums[...]; ... store ... } }
 *
 * Shared memory has stages, of which one is read while others are filled; the matrices of a few
 * steps are read while those before are multiplied, over the end of a stage too. A warp's sums go
 * through shared memory, 16 rows at a time, so that neighbouring threads have neighbouring results
 * and what follows the sum is written once. The instruction sums as gpu.md says; between
 * instructions each result is summed in the order of the steps. */
#include "codegen/gpu/contract/gpu_contract_text.h"

#include <inttypes.h>

#define put st_loop_text_put
#define line gpu_line

#define ROWS 16u   /* of a matrix instruction */
#define COLUMNS 8u /* of one */
#define CHUNK 16u  /* bytes of a row of shared memory that a matrix has; two for each instruction */
#define WARP 32u
#define PAD 8u /* of a row of results, against conflicts of banks */

typedef struct matrices {
    const gpu_product *t;
    const gpu_matrix_kind *kind;
    gpu_matrix_operand operands[2];
    uint32_t down, across; /* instructions of a warp's part */
} matrices;

static bool is_tf32(const matrices *m)
{
    return m->kind->mapping == ST_MAPPING_MATRIX_TF32;
}

/* ---- products ---- */

/* Four matrices of 8 rows of a chunk at once, of which each thread gives the address of one row. */
static void put_quarters(const matrices *m, uint32_t number)
{
    const gpu_matrix_operand *o = &m->operands[number];
    const char *warp = number ? "warp_column" : "warp_row";
    /* Which of the four differ in what is slow in shared memory, and which in the chunk. */
    const bool is_turned = (number == 1u) != o->is_across;
    const char *slow = is_turned ? "(ST_LANE / 16 * 8 + ST_LANE % 8)" : "ST_LANE % 16";
    const char *chunk = is_turned ? "ST_LANE / 8 % 2" : "ST_LANE / 16";
    if (o->is_across) {
        line(m->t, "const st_u32 row = k * 16 + %s;", slow);
        line(m->t, "const st_u32 chunk = (%s + i * 16) / 8 + %s;", warp, chunk);
    } else {
        line(m->t, "const st_u32 row = %s + i * 16 + %s;", warp, slow);
        line(m->t, "const st_u32 chunk = k * 2 + %s;", chunk);
    }
    for (uint32_t piece = 0; piece < m->kind->pieces; piece++) {
        st_loop_text_indent(&m->t->g->t);
        put(&m->t->g->t, "st_load_matrices%s(%c[to][%" PRIu32 "][i], t%c + (half * %" PRIu32 " + ",
            o->is_across ? "_across" : "", number ? 'q' : 'p', piece, o->o->name, o->stage_bytes);
        if (piece) {
            put(&m->t->g->t, "%" PRIu32 " + ", piece * o->piece_bytes);
        }
        gpu_put_position(m->t, o, "row", "chunk");
        put(&m->t->g->t, "));\n");
    }
}

/* The same of f32 whose rows are steps, word by word. */
static void put_words(const matrices *m, uint32_t number)
{
    const gpu_matrix_operand *o = &m->operands[number];
    line(m->t, "ST_UNROLL");
    line(m->t, "for (st_u32 e = 0; e < 4; e++) {");
    gpu_open_block(m->t);
    line(m->t, "const st_u32 row = k * 8 + e %s 2 * 4 + ST_LANE %% 4;", number ? "%" : "/");
    line(m->t, "const st_u32 side = %s + i * 16 + e %s 2 * 8 + ST_LANE / 4;",
         number ? "warp_column" : "warp_row", number ? "/" : "%");
    st_loop_text_indent(&m->t->g->t);
    put(&m->t->g->t, "%c[to][0][i][e] = st_load_u32(t%c + (half * %" PRIu32 " + ",
        number ? 'q' : 'p', o->o->name, o->stage_bytes);
    gpu_put_position(m->t, o, "row", "side / 4");
    put(&m->t->g->t, " + side %% 4 * 4));\n");
    gpu_close_block(m->t);
}

/* The matrices of a factor for one instruction each, of the steps k of the stage `half`, from
 * shared memory into the buffer `to`. */
static void put_matrices(const matrices *m, uint32_t number)
{
    const char part = number ? 'q' : 'p';
    line(m->t, "ST_UNROLL");
    line(m->t, "for (st_u32 i = 0; i < %" PRIu32 "; i++) {", number ? m->across / 2u : m->down);
    gpu_open_block(m->t);
    if (is_tf32(m) && m->operands[number].is_across) {
        put_words(m, number);
    } else {
        put_quarters(m, number);
    }
    if (is_tf32(m)) {
        line(m->t, "ST_UNROLL");
        line(m->t, "for (st_u32 e = 0; e < 4; e++) {");
        line(m->t, "    %c[to][0][i][e] = st_tf32_of_f32(%c[to][0][i][e]);", part, part);
        line(m->t, "}");
    }
    gpu_close_block(m->t);
}

static const char *instruction_of(const matrices *m)
{
    const uint32_t dtype = st_loop_at(m->t->g->kernel, m->t->operands[0].factor)->dtype;
    return is_tf32(m) ? "st_mma_tf32" : dtype == STATOR_F16 ? "st_mma_f16" : "st_mma_bf16";
}

static void put_plain_products(const matrices *m)
{
    line(m->t, "ST_UNROLL");
    line(m->t, "for (st_u32 i = 0; i < %" PRIu32 "; i++) {", m->down);
    gpu_open_block(m->t);
    line(m->t, "ST_UNROLL");
    line(m->t, "for (st_u32 j = 0; j < %" PRIu32 "; j++) {", m->across);
    line(m->t, "    %s(c[i][j], p[from][0][i], q[from][0][j / 2] + j %% 2 * 2);",
         instruction_of(m));
    line(m->t, "}");
    gpu_close_block(m->t);
}

/* The products of pieces, the smallest first, into sums of their own: the instruction cuts off what
 * it adds to, which over hundreds of steps would cost more bits than the pieces bring. */
static void put_products_of_pieces(const matrices *m)
{
    const uint32_t pieces = m->kind->pieces;
    line(m->t, "ST_UNROLL");
    line(m->t, "for (st_u32 i = 0; i < %" PRIu32 "; i++) {", m->down);
    gpu_open_block(m->t);
    line(m->t, "float d[%" PRIu32 "][4] = {{0}};", m->across);
    for (uint32_t sum = pieces; sum-- > 0;) {
        for (uint32_t a = sum + 1u; a-- > 0;) {
            line(m->t, "ST_UNROLL");
            line(m->t, "for (st_u32 j = 0; j < %" PRIu32 "; j++) {", m->across);
            line(m->t,
                 "    %s(d[j], p[from][%" PRIu32 "][i], q[from][%" PRIu32 "][j / 2] + j %% 2 * 2);",
                 instruction_of(m), a, sum - a);
            line(m->t, "}");
        }
    }
    line(m->t, "ST_UNROLL");
    line(m->t, "for (st_u32 e = 0; e < %" PRIu32 "; e++) {", 4u * m->across);
    line(m->t, "    c[i][e / 4][e %% 4] = c[i][e / 4][e %% 4] + d[e / 4][e %% 4];");
    line(m->t, "}");
    gpu_close_block(m->t);
}

/* The stage that comes next is complete, and nobody reads the one before this any more. */
static void put_next_stage(const matrices *m)
{
    line(m->t, "st_copies_wait(%" PRIu32 ");", m->t->shape->stages - 2u);
    line(m->t, "st_barrier();");
}

/* Instructions along the steps of a stage. */
static uint32_t depth_of(const matrices *m)
{
    return m->t->shape->steps * m->kind->bytes / CHUNK / 2u;
}

/* The products of a stage, each behind the matrices of those that follow; of the stage before the
 * first only the matrices. */
static void put_products(const matrices *m)
{
    const uint32_t depth = depth_of(m);
    const bool has_pieces = m->kind->pieces > 1u;
    line(m->t, "ST_UNROLL");
    line(m->t, "for (st_u32 n = 0; n < %" PRIu32 "; n++) {", depth);
    gpu_open_block(m->t);
    line(m->t, "const st_u32 from = n %% 2;");
    line(m->t, "const st_u32 to = (n + 1) %% 2;");
    line(m->t, "const st_u32 k = (n + 1) %% %" PRIu32 ";", depth);
    line(m->t, "const st_u32 half = (st_u32)(step + (n + 1) / %" PRIu32 ") %% %" PRIu32 ";", depth,
         m->t->shape->stages);
    line(m->t, "if (n == %" PRIu32 ") {", depth - 1u);
    gpu_open_block(m->t);
    put_next_stage(m);
    gpu_close_block(m->t);
    put_matrices(m, 0);
    put_matrices(m, 1);
    if (has_pieces) {
        put_products_of_pieces(m);
    } else {
        put_plain_products(m);
    }
    gpu_close_block(m->t);
}

/* The first matrices of the first stage. */
static void put_first(const matrices *m)
{
    put_next_stage(m);
    line(m->t, "const st_u32 half = 0, k = 0, to = 0;");
    put_matrices(m, 0);
    put_matrices(m, 1);
}

/* ---- the sum ---- */

static void put_registers(const matrices *m)
{
    for (uint32_t k = 0; k < 2u; k++) {
        const uint32_t words = gpu_matrix_words(&m->operands[k]);
        if (words) {
            line(m->t, "st_u32 x%c[%" PRIu32 "];", m->operands[k].o->name, words);
        }
    }
}

/* Those operands that are copied, or those that come through registers. */
static void put_loads(const matrices *m)
{
    line(m->t, "if (next < steps) {");
    gpu_open_block(m->t);
    gpu_put_matrix_loads(m->t, &m->operands[0]);
    gpu_put_matrix_loads(m->t, &m->operands[1]);
    gpu_close_block(m->t);
}

static void put_stores(const matrices *m)
{
    if (m->operands[0].is_direct && m->operands[1].is_direct) {
        return;
    }
    line(m->t, "if (next < steps) {");
    gpu_open_block(m->t);
    for (uint32_t k = 0; k < 2u; k++) {
        if (!m->operands[k].is_direct) {
            gpu_put_matrix_stores(m->t, &m->operands[k]);
        }
    }
    gpu_close_block(m->t);
}

static void put_sum(const matrices *m)
{
    const gpu_product *t = m->t;
    const uint32_t ahead = m->t->shape->stages - 1u;
    const uint32_t pieces = m->kind->pieces;
    put_registers(m);
    gpu_put_matrix_begin(t, &m->operands[0]);
    gpu_put_matrix_begin(t, &m->operands[1]);
    line(t, "st_u32 p[2][%" PRIu32 "][%" PRIu32 "][4], q[2][%" PRIu32 "][%" PRIu32 "][4];", pieces,
         m->down, pieces, m->across / 2u);
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "const %s steps = (", gpu_index_type(t));
    st_loop_text_sym(&t->g->t, gpu_loop_axis(t, t->loops[2])->extent);
    put(&t->g->t, " + %" PRIu32 ") / %" PRIu32 ";\n", t->shape->steps - 1u, t->shape->steps);
    line(t, "for (%s step = -%" PRIu32 "; step < steps; step++) {", gpu_index_type(t), ahead);
    gpu_open_block(t);
    line(t, "const %s next = step + %" PRIu32 ";", gpu_index_type(t), ahead);
    put_loads(m);
    line(t, "st_copies_commit();");
    line(t, "if (step == -1) {");
    gpu_open_block(t);
    put_first(m);
    t->g->t.depth--;
    line(t, "} else if (step >= 0) {");
    t->g->t.depth++;
    put_products(m);
    gpu_close_block(t);
    put_stores(m);
    gpu_close_block(t);
    line(t, "st_copies_wait(0);");
    line(t, "st_barrier();");
}

/* Where shared memory and the warp's part of the tile begin. */
static void put_begin(const matrices *m)
{
    const gpu_tile_shape *shape = m->t->shape;
    const uint32_t warps = shape->columns / shape->warp_columns;
    line(m->t, "st_u8 *const ta = tile;");
    line(m->t, "st_u8 *const tb = tile + %" PRIu32 ";",
         m->t->shape->stages * m->operands[0].stage_bytes);
    line(m->t, "const st_u32 warp_row = ST_THREAD / %" PRIu32 " * %" PRIu32 ";", WARP * warps,
         shape->warp_rows);
    line(m->t, "const st_u32 warp_column = ST_THREAD / %" PRIu32 " %% %" PRIu32 " * %" PRIu32 ";",
         WARP, warps, shape->warp_columns);
    line(m->t, "float c[%" PRIu32 "][%" PRIu32 "][4] = {{{0}}};", m->down, m->across);
}

/* ---- what follows the sum ---- */

/* The warp's sums of 16 rows to its part of shared memory. */
static void put_slab(const matrices *m)
{
    const uint32_t pitch = m->t->shape->warp_columns + PAD;
    line(m->t, "ST_UNROLL");
    line(m->t, "for (st_u32 j = 0; j < %" PRIu32 "; j++) {", m->across);
    gpu_open_block(m->t);
    line(m->t, "float *to = sums + (ST_LANE / 4 * %" PRIu32 " + j * 8 + ST_LANE %% 4 * 2);", pitch);
    line(m->t, "st_store_u32x2(to, st_bits_of_f32(c[i][j][0]), st_bits_of_f32(c[i][j][1]));");
    line(m->t,
         "st_store_u32x2(to + %" PRIu32 ", st_bits_of_f32(c[i][j][2]), "
         "st_bits_of_f32(c[i][j][3]));",
         8u * pitch);
    gpu_close_block(m->t);
    line(m->t, "st_warp_barrier();");
}

static void put_results(const matrices *m)
{
    const gpu_product *t = m->t;
    const uint32_t pitch = t->shape->warp_columns + PAD;
    const char *type = gpu_index_type(t);
    line(t, "float *const sums = (float *)tile + ST_THREAD / %" PRIu32 " * %" PRIu32 ";", WARP,
         ROWS * pitch);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 i = 0; i < %" PRIu32 "; i++) {", m->down);
    gpu_open_block(t);
    put_slab(m);
    line(t, "for (st_u32 r = 0; r < %" PRIu32 "; r++) {", ROWS);
    gpu_open_block(t);
    line(t, "const %s i%" PRIu32 " = (%s)(warp_row + i * %" PRIu32 " + r);", type, t->loops[0]->ref,
         type, ROWS);
    (void)gpu_put_rest(t, t->loops[0]->body, false);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 j = ST_LANE; j < %" PRIu32 "; j += %" PRIu32 ") {", t->shape->warp_columns,
         WARP);
    gpu_open_block(t);
    line(t, "const %s i%" PRIu32 " = (%s)(warp_column + j);", type, t->loops[1]->ref, type);
    line(t, "const float a%" PRIu32 " = sums[r * %" PRIu32 " + j];", t->acc, pitch);
    (void)gpu_put_rest(t, t->loops[1]->body, false);
    gpu_close_block(t);
    gpu_close_block(t);
    line(t, "st_warp_barrier();");
    gpu_close_block(t);
}

void gpu_put_matrix_tile(const gpu_product *t)
{
    matrices m = {.t = t,
                  .kind = gpu_matrix_kind_of(t->shape->mapping),
                  .down = t->shape->warp_rows / ROWS,
                  .across = t->shape->warp_columns / COLUMNS};
    gpu_matrix_operand_init(t, 0, &m.operands[0]);
    gpu_matrix_operand_init(t, 1, &m.operands[1]);
    put_begin(&m);
    put_sum(&m);
    put_results(&m);
}
