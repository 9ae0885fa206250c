/* The factors of a tile of matrices on their way to shared memory.
 *
 *     row 0   chunk 0 ^ 0 | chunk 1 ^ 0 | chunk 2 ^ 0 | chunk 3 ^ 0     16 bytes each
 *     row 2   chunk 0 ^ 1 | chunk 1 ^ 1 | ...
 *
 * A row is what lies side by side in memory: some steps of one place of the side, or the side at
 * one step. Its chunks change places from row to row, so that eight rows' same chunk, which is what
 * a matrix is read as, lie in different banks; words of steps that lie in rows are read one by one,
 * of four rows and two chunks. Values that are memory as it is are copied while
 * the products of earlier steps are made; others pass through registers, where what the factor is
 * made of is computed, rounded or taken apart. What lies beyond the last step or outside a mask
 * counts 0. */
#include "codegen/gpu/contract/gpu_contract_text.h"

#include <inttypes.h>
#include <stdio.h>

#define put st_loop_text_put
#define line gpu_line

#define CHUNK 16u /* bytes */
#define COPIED_BYTES 16u
#define BANKED_ROWS 8u /* that are read together */

static bool is_f32(const gpu_product *t, const gpu_matrix_operand *m)
{
    return st_loop_at(t->g->kernel, m->o->factor)->dtype == STATOR_F32;
}

/* Is an element the memory that the vector load reads, as it lies there? */
static bool is_direct(const gpu_product *t, const gpu_matrix_operand *m)
{
    const st_loop_inst *load = st_loop_at(t->g->kernel, m->o->factor);
    return m->o->vector && m->o->vector == m->o->factor && load->args[1] == 0 &&
           m->kind->pieces == 1u && m->lanes * m->kind->bytes == COPIED_BYTES;
}

/* Elements from one iteration of the slower axis to the next, a sym; 0: that differs. */
static uint32_t across_of(const gpu_product *t, const gpu_matrix_operand *m)
{
    const st_kernel *kernel = t->g->kernel;
    const st_loop_inst *slow = m->is_across ? t->loops[2] : m->o->loop;
    uint32_t coef = 0;
    uint32_t rest = 0;
    return st_loop_linear(kernel->syms, st_loop_at(kernel, m->o->vector)->sym,
                          gpu_loop_axis(t, slow)->symbol, &coef, &rest)
               ? coef
               : 0;
}

void gpu_matrix_operand_init(const gpu_product *t, uint32_t number, gpu_matrix_operand *out)
{
    const gpu_operand *o = &t->operands[number];
    const gpu_matrix_kind *kind = gpu_matrix_kind_of(t->shape->mapping);
    const uint32_t elements = o->side * t->shape->steps;
    *out = (gpu_matrix_operand){.o = o, .kind = kind};
    out->is_across = o->walk == GPU_WALK_SIDE;
    out->lanes = o->vector ? o->lanes : kind->bytes == 2u ? 2u : 1u;
    out->groups = elements / (t->shape->threads * out->lanes);
    out->chunks = (out->is_across ? o->side : t->shape->steps) * kind->bytes / CHUNK;
    out->piece_bytes = elements * kind->bytes;
    out->stage_bytes = out->piece_bytes * kind->pieces;
    out->is_direct = is_direct(t, out);
    out->across = out->is_direct ? across_of(t, out) : 0;
}

uint32_t gpu_matrix_words(const gpu_matrix_operand *m)
{
    const uint32_t bytes = m->kind->pieces > 1u ? 4u : m->kind->bytes; /* of a value on its way */
    return m->is_direct ? 0 : m->groups * m->lanes * bytes / 4u;
}

void gpu_put_position(const gpu_product *t, const gpu_matrix_operand *m, const char *row,
                      const char *chunk)
{
    const uint32_t n = m->chunks < BANKED_ROWS ? m->chunks : BANKED_ROWS;
    put(&t->g->t, "%s * %" PRIu32 " + ((%s) ^ ", row, m->chunks * CHUNK, chunk);
    if (m->is_across && m->kind->bytes == 4u) {
        put(&t->g->t, "%s %% 4 * 2", row);
    } else {
        put(&t->g->t, "%s / %" PRIu32 " %% %" PRIu32, row, BANKED_ROWS / n, n);
    }
    put(&t->g->t, ") * %" PRIu32, CHUNK);
}

/* ---- places ---- */

/* The thread's number among those that bring a group, and the place where that begins: `fast` along
 * what lies side by side, `slow` across. */
static void put_group(const gpu_product *t, const gpu_matrix_operand *m)
{
    const uint32_t length = m->is_across ? m->o->side : t->shape->steps;
    line(t, "const st_u32 at = ST_THREAD + g * %" PRIu32 ";", t->shape->threads);
    line(t, "const st_u32 fast = at %% %" PRIu32 " * %" PRIu32 ";", length / m->lanes, m->lanes);
    line(t, "const st_u32 slow = at / %" PRIu32 ";", length / m->lanes);
}

/* The axes at that place: i<axis>, and f<axis> where elements lie side by side. */
static void put_axes(const gpu_product *t, const gpu_matrix_operand *m)
{
    const char *type = gpu_index_type(t);
    line(t, "const %s %c%" PRIu32 " = (%s)%s;", type, m->is_across ? 'f' : 'i', m->o->loop->ref,
         type, m->is_across ? "fast" : "slow");
    line(t, "const %s %c%" PRIu32 " = next * %" PRIu32 " + (%s)%s;", type, m->is_across ? 'i' : 'f',
         t->loops[2]->ref, t->shape->steps, type, m->is_across ? "slow" : "fast");
}

static uint32_t fast_axis(const gpu_product *t, const gpu_matrix_operand *m)
{
    return m->is_across ? m->o->loop->ref : t->loops[2]->ref;
}

/* "st_u8 *to": where the group goes in shared memory. */
static void put_target(const gpu_product *t, const gpu_matrix_operand *m)
{
    const uint32_t per_chunk = CHUNK / m->kind->bytes;
    char chunk[32];
    (void)snprintf(chunk, sizeof chunk, "fast / %" PRIu32, per_chunk);
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "st_u8 *to = t%c + ((st_u32)next %% %" PRIu32 " * %" PRIu32 " + ", m->o->name,
        t->shape->stages, m->stage_bytes);
    gpu_put_position(t, m, "slow", chunk);
    put(&t->g->t, " + fast %% %" PRIu32 " * %" PRIu32 ");\n", per_chunk, m->kind->bytes);
}

/* ---- values ---- */

/* One value at the place that is set, into `value`. */
static void put_value(const gpu_product *t, const gpu_matrix_operand *m)
{
    line(t, "%s value = 0;", is_f32(t, m) ? "float" : "st_u16");
    gpu_put_is_step(t, "if (", ") {");
    gpu_open_block(t);
    gpu_put_marked(t, GPU_NEEDED_BY_FACTOR << m->o->number);
    line(t, "value = v%" PRIu32 ";", m->o->factor);
    gpu_close_block(t);
}

/* Its bits into the registers of the group; two halves are a word. */
static void put_kept(const gpu_product *t, const gpu_matrix_operand *m)
{
    const char x = m->o->name;
    if (is_f32(t, m)) {
        line(t, "x%c[g * %" PRIu32 " + (st_u32)e] = st_bits_of_f32(value);", x, m->lanes);
        return;
    }
    line(t, "const st_u32 w = g * %" PRIu32 " + (st_u32)e / 2;", m->lanes / 2u);
    line(t, "x%c[w] = e %% 2 == 0 ? (st_u32)value : x%c[w] | (st_u32)value << 16;", x, x);
}

/* The group's values one by one: to registers, or to shared memory in the place of a copy. */
static void put_values(const gpu_product *t, const gpu_matrix_operand *m)
{
    const uint32_t axis = fast_axis(t, m);
    line(t, m->is_direct ? "ST_NO_UNROLL" : "ST_UNROLL");
    line(t, "for (%s e = 0; e < %" PRIu32 "; e++) {", gpu_index_type(t), m->lanes);
    gpu_open_block(t);
    line(t, "const %s i%" PRIu32 " = f%" PRIu32 " + e;", gpu_index_type(t), axis, axis);
    put_value(t, m);
    if (!m->is_direct) {
        put_kept(t, m);
    } else if (m->kind->bytes == 2u) {
        line(t, "((st_u16 *)to)[e] = value;");
    } else {
        line(t, "((float *)to)[e] = value;");
    }
    gpu_close_block(t);
}

/* "if (is_whole && the address is aligned) {" */
static void put_if_whole(const gpu_product *t, const gpu_matrix_operand *m)
{
    const st_kernel *kernel = t->g->kernel;
    const st_loop_inst *load = st_loop_at(kernel, m->o->vector);
    const uint64_t bytes = st_element_bytes(kernel->buffers.data[load->ref].dtype);
    const uint32_t axis = fast_axis(t, m);
    gpu_put_is_whole(t, m->o, axis);
    line(t, "const %s i%" PRIu32 " = f%" PRIu32 ";", gpu_index_type(t), axis, axis);
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "if (is_whole && (st_u64)(");
    gpu_put_address(t, load);
    put(&t->g->t, ") %% %" PRIu64 " == 0) {\n", m->lanes * bytes);
}

static void put_copy(const gpu_product *t, const gpu_matrix_operand *m)
{
    put_if_whole(t, m);
    t->g->t.depth++;
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "st_copy_async_16(to, ");
    gpu_put_address(t, st_loop_at(t->g->kernel, m->o->vector));
    put(&t->g->t, ");\n");
    t->g->t.depth--;
    line(t, "} else {");
    t->g->t.depth++;
    put_values(t, m);
    gpu_close_block(t);
}

/* The vector into registers, and its values from there. */
static void put_vector(const gpu_product *t, const gpu_matrix_operand *m)
{
    put_if_whole(t, m);
    t->g->t.depth++;
    gpu_put_vector_load(t, m->o);
    t->g->is_staged[m->o->vector] = ST_LOOP_STAGED;
    t->g->t.is_staged = t->g->is_staged;
    put_values(t, m);
    t->g->t.is_staged = NULL;
    t->g->is_staged[m->o->vector] = ST_LOOP_IN_MEMORY;
    t->g->t.depth--;
    line(t, "} else {");
    t->g->t.depth++;
    put_values(t, m);
    gpu_close_block(t);
}

static void put_groups(const gpu_product *t, const gpu_matrix_operand *m)
{
    line(t, m->is_direct ? "ST_NO_UNROLL" : "ST_UNROLL");
    line(t, "for (st_u32 g = 0; g < %" PRIu32 "; g++) {", m->groups);
    gpu_open_block(t);
    put_group(t, m);
    put_axes(t, m);
    if (m->is_direct) {
        put_target(t, m);
        put_copy(t, m);
    } else if (m->o->vector) {
        put_vector(t, m);
    } else {
        put_values(t, m);
    }
    gpu_close_block(t);
}

/* ---- whole tiles of what is copied ---- */

/* Whether the tile's side lies in the product and all its chunks are aligned: the mask, if there is
 * one, holds up to some place of the side. */
static void put_is_fast(const gpu_product *t, const gpu_matrix_operand *m)
{
    const st_loop_inst *load = st_loop_at(t->g->kernel, m->o->vector);
    const char x = m->o->name;
    const int64_t across = st_loop_known_or(&t->g->kernel->syms->tab, m->across, 1);
    line(t, "st_bool is_fast_%c = (st_u64)from_%c %% %" PRIu32 " == 0;", x, x, COPIED_BYTES);
    if (across % (int64_t)m->lanes != 0) {
        st_loop_text_indent(&t->g->t);
        put(&t->g->t, "is_fast_%c = is_fast_%c && ", x, x);
        st_loop_text_sym(&t->g->t, m->across);
        put(&t->g->t, " %% %" PRIu32 " == 0;\n", m->lanes);
    }
    if (load->args[0]) {
        line(t, "{");
        gpu_open_block(t);
        line(t, "const %s i%" PRIu32 " = %" PRIu32 ";", gpu_index_type(t), m->o->loop->ref,
             m->o->side - 1u);
        gpu_put_marked(t, GPU_NEEDED_BY_MASK << m->o->number);
        line(t, "is_fast_%c = is_fast_%c && v%" PRIu32 ";", x, x, load->args[0]);
        gpu_close_block(t);
    }
}

void gpu_put_matrix_begin(const gpu_product *t, const gpu_matrix_operand *m)
{
    const st_kernel *kernel = t->g->kernel;
    const st_loop_inst *load = st_loop_at(kernel, m->o->vector);
    const char x = m->o->name;
    if (m->across == 0) {
        return;
    }
    const char *type = st_loop_text_memory_type(&t->g->t, kernel->buffers.data[load->ref].dtype);
    line(t, "const %s *from_%c; /* of the first steps, whose place in a stage is put_%c */", type,
         x, x);
    line(t, "st_u8 *put_%c;", x);
    line(t, "{");
    gpu_open_block(t);
    line(t, "const st_u32 g = 0;");
    line(t, "const %s next = 0;", gpu_index_type(t));
    put_group(t, m);
    put_axes(t, m);
    line(t, "const %s i%" PRIu32 " = f%" PRIu32 ";", gpu_index_type(t), fast_axis(t, m),
         fast_axis(t, m));
    put_target(t, m);
    line(t, "put_%c = to;", x);
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "from_%c = ", x);
    gpu_put_address(t, load);
    put(&t->g->t, ";\n");
    gpu_close_block(t);
    put_is_fast(t, m);
}

/* "n * across", as many elements. */
static void put_across(const gpu_product *t, const gpu_matrix_operand *m, const char *n)
{
    put(&t->g->t, "(st_i64)(%s) * ", n);
    st_loop_text_sym(&t->g->t, m->across);
}

/* "if (no chunk of these steps needs a look) { copies } else {" */
static void put_fast(const gpu_product *t, const gpu_matrix_operand *m)
{
    const uint32_t length = m->is_across ? m->o->side : t->shape->steps;
    const uint32_t apart = t->shape->threads / (length / m->lanes); /* rows, between groups */
    const char x = m->o->name;
    char n[64];
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "if (is_fast_%c", x);
    if (!t->is_even) {
        put(&t->g->t, " && next * %" PRIu32 " + %" PRIu32 " <= ", t->shape->steps, t->shape->steps);
        st_loop_text_sym(&t->g->t, gpu_loop_axis(t, t->loops[2])->extent);
    }
    put(&t->g->t, ") {\n");
    gpu_open_block(t);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 g = 0; g < %" PRIu32 "; g++) {", m->groups);
    gpu_open_block(t);
    st_loop_text_indent(&t->g->t);
    put(&t->g->t,
        "st_copy_async_16(put_%c + ((st_u32)next %% %" PRIu32 " * %" PRIu32 " + g * %" PRIu32
        "), from_%c + ",
        x, t->shape->stages, m->stage_bytes, apart * m->chunks * CHUNK, x);
    if (m->is_across) {
        (void)snprintf(n, sizeof n, "next * %" PRIu32 " + (%s)g * %" PRIu32, t->shape->steps,
                       gpu_index_type(t), apart);
        put_across(t, m, n);
    } else {
        (void)snprintf(n, sizeof n, "(%s)g * %" PRIu32, gpu_index_type(t), apart);
        put(&t->g->t, "(next * %" PRIu32 " + ", t->shape->steps);
        put_across(t, m, n);
        put(&t->g->t, ")");
    }
    put(&t->g->t, ");\n");
    gpu_close_block(t);
    t->g->t.depth--;
    line(t, "} else {");
    t->g->t.depth++;
}

void gpu_put_matrix_loads(const gpu_product *t, const gpu_matrix_operand *m)
{
    if (m->across == 0) {
        put_groups(t, m);
        return;
    }
    put_fast(t, m);
    put_groups(t, m);
    gpu_close_block(t);
}

/* ---- registers to shared memory ---- */

/* `n` words of the array `from`, which begin at `at`, to `to`. */
static void put_words(const gpu_product *t, const char *to, const char *from, const char *at,
                      uint32_t n)
{
    static const char *const names[] = {
        [1] = "st_store_u32", [2] = "st_store_u32x2", [4] = "st_store_u32x4"};
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "%s(%s", names[n], to);
    for (uint32_t k = 0; k < n; k++) {
        put(&t->g->t, ", %s[%s%" PRIu32 "]", from, at, k);
    }
    put(&t->g->t, ");\n");
}

/* Each value of f32 becomes a sum of values of bf16, the largest first; those of one place lie
 * in planes behind each other. */
static void put_pieces(const gpu_product *t, const gpu_matrix_operand *m)
{
    line(t, "st_u32 h[%" PRIu32 "][%" PRIu32 "];", m->kind->pieces, m->lanes / 2u);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 e = 0; e < %" PRIu32 "; e++) {", m->lanes);
    gpu_open_block(t);
    line(t, "float rest = st_f32_of_bits(x%c[g * %" PRIu32 " + e]);", m->o->name, m->lanes);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 n = 0; n < %" PRIu32 "; n++) {", m->kind->pieces);
    gpu_open_block(t);
    line(t, "const st_u16 piece = st_bf16_of_f32(rest);");
    line(t, "h[n][e / 2] = e %% 2 == 0 ? (st_u32)piece : h[n][e / 2] | (st_u32)piece << 16;");
    line(t, "rest = st_rest_of(rest, piece);");
    gpu_close_block(t);
    gpu_close_block(t);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 n = 0; n < %" PRIu32 "; n++) {", m->kind->pieces);
    gpu_open_block(t);
    char to[32];
    (void)snprintf(to, sizeof to, "to + n * %" PRIu32, m->piece_bytes);
    put_words(t, to, "h[n]", "", m->lanes / 2u);
    gpu_close_block(t);
}

void gpu_put_matrix_stores(const gpu_product *t, const gpu_matrix_operand *m)
{
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 g = 0; g < %" PRIu32 "; g++) {", m->groups);
    gpu_open_block(t);
    put_group(t, m);
    put_target(t, m);
    if (m->kind->pieces > 1u) {
        put_pieces(t, m);
    } else {
        const uint32_t words = m->lanes * m->kind->bytes / 4u;
        char from[8];
        char at[32];
        (void)snprintf(from, sizeof from, "x%c", m->o->name);
        (void)snprintf(at, sizeof at, "g * %" PRIu32 " + ", words);
        put_words(t, "to", from, at, words);
    }
    gpu_close_block(t);
}
