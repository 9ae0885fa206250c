/* A product of few rows or few columns as text: the threads of a block share the steps, so that the
 * wide factor, which is all of the memory's work, is read once by as many threads as can be.
 *
 *     float c0[8][4] = {{0}};
 *     for (first_step = ST_THREAD / 2 * 4; first_step < K; first_step += 768) {
 *         xa[...] = ...; xb[...] = ...;             4 steps of 8 rows and of 4 columns
 *         c0[i][j] = st_fma_f32(xa[...], xb[...], c0[i][j]);
 *     }
 *     lanes of a warp with the same columns add theirs, then warps through shared memory
 *     for (r = ST_THREAD; r < 8 * 8; r += 384) { const float a1 = sum of r; ... store ... }
 *
 * Several sums may have the narrow factor in common. Each result is summed by the same threads in
 * the same order on every device: a thread by its steps, lanes by pairs, warps by their numbers. */
#include "codegen/gpu/contract/gpu_contract_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define put st_loop_text_put
#define line gpu_line

#define WARP 32u

typedef struct skinny {
    gpu_product t; /* of the sum that is printed */
    gpu_tile_shape shape;
    uint32_t narrow, wide; /* numbers of the sides: 0 rows, 1 columns */
    uint32_t side[2];      /* how much of each a tile has */
    uint32_t n_sums;
    st_loop_ref acc[GPU_SUMS_MAX];
    st_loop_ref factor[2][GPU_SUMS_MAX]; /* by side */
} skinny;

/* ---- what is printed ---- */

/* Marks what the factor needs, alone, and chooses how it is walked. */
static gpu_operand operand_of(skinny *s, uint32_t side, uint32_t sum)
{
    gpu_text *g = s->t.g;
    const bool is_wide = side == s->wide;
    gpu_operand o = {.number = 0,
                     .name = is_wide ? 'b' : 'a',
                     .factor = s->factor[side][sum],
                     .loop = s->t.loops[side],
                     .side = is_wide ? GPU_SKINNY_COLUMNS : s->side[side],
                     .lanes = GPU_VECTOR,
                     .first = is_wide ? "wide + " : NULL};
    memset(g->needed, 0, g->kernel->insts.count);
    gpu_mark_needed(g->kernel, o.factor, g->needed, GPU_NEEDED_BY_FACTOR);
    gpu_choose_walk(&s->t, &o);
    return o;
}

static void note_sum(skinny *s, const st_loop_inst *update)
{
    const st_kernel *kernel = s->t.g->kernel;
    const st_loop_inst *product = st_loop_at(kernel, update->args[0]);
    uint8_t *needed = s->t.g->needed;
    memset(needed, 0, kernel->insts.count);
    gpu_mark_needed(kernel, product->args[0], needed, 1);
    gpu_mark_needed(kernel, product->args[1], needed, 2);
    /* A factor that walks neither side may be of either. */
    const bool is_first_of_columns =
        gpu_walks(&s->t, 1, s->t.loops[1]) || gpu_walks(&s->t, 2, s->t.loops[0]);
    s->acc[s->n_sums] = update->ref;
    s->factor[0][s->n_sums] = product->args[is_first_of_columns];
    s->factor[1][s->n_sums++] = product->args[!is_first_of_columns];
}

static void find_skinny(gpu_text *g, const st_loop_inst *rows, skinny *s)
{
    const st_kernel *kernel = g->kernel;
    const st_symtab *tab = &kernel->syms->tab;
    *s = (skinny){.t = {.g = g, .loops = {rows, gpu_loop_in(g, rows->body)}}};
    s->t.loops[2] = gpu_loop_in(g, s->t.loops[1]->body);
    for (uint32_t k = 0; k < 2u; k++) {
        const st_loop_axis *axis = gpu_loop_axis(&s->t, s->t.loops[k]);
        s->side[k] = (uint32_t)st_loop_known_or(tab, axis->extent, 0);
    }
    s->narrow = s->side[0] <= s->side[1] ? 0 : 1;
    s->wide = 1u - s->narrow;
    s->shape = (gpu_tile_shape){.mapping = ST_MAPPING_TILE_SHARES,
                                .rows = s->side[0],
                                .columns = s->side[1],
                                .steps = gpu_loop_axis(&s->t, s->t.loops[2])->lanes,
                                .threads = kernel->threads,
                                .thread_columns = GPU_SKINNY_COLUMNS,
                                .shares = 1};
    s->t.shape = &s->shape;
    s->t.member = "ST_THREAD";
    s->t.members = 1;
    s->t.is_shared = true;
    s->t.is_even = st_loop_known_or(tab, gpu_loop_axis(&s->t, s->t.loops[2])->extent, 1) %
                       (int64_t)s->shape.steps ==
                   0;
    for (st_loop_ref ref = kernel->blocks.data[s->t.loops[2]->body].first; ref;
         ref = st_loop_at(kernel, ref)->next) {
        if (st_loop_at(kernel, ref)->code == ST_LOOP_UPDATE) {
            note_sum(s, st_loop_at(kernel, ref));
        }
    }
    s->t.acc = s->acc[0];
}

/* Lanes that have columns of their own. */
static uint32_t lanes_of(const skinny *s)
{
    return s->side[s->wide] / GPU_SKINNY_COLUMNS;
}

static uint32_t results_of(const skinny *s)
{
    return s->side[0] * s->side[1];
}

/* ---- the sums of a thread ---- */

/* Where x<name> has the element of the operand at a place on its side and a step. */
static void spell_element(const gpu_operand *o, const char *side, char out[32])
{
    if (o->walk == GPU_WALK_STEPS) {
        (void)snprintf(out, 32, "x%c[%s * %u + k]", o->name, side, GPU_SKINNY_STEPS);
    } else {
        (void)snprintf(out, 32, "x%c[k * %" PRIu32 " + %s]", o->name, o->side, side);
    }
}

static void put_products(const skinny *s, const gpu_operand *narrow, const gpu_operand *wide,
                         uint32_t sum)
{
    const gpu_product *t = &s->t;
    char c[32];
    char p[32];
    char q[32];
    (void)snprintf(c, sizeof c, "c%" PRIu32 "[i][j]", sum);
    spell_element(narrow, "i", p);
    spell_element(wide, "j", q);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 k = 0; k < %u; k++) {", GPU_SKINNY_STEPS);
    gpu_open_block(t);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 i = 0; i < %" PRIu32 "; i++) {", narrow->side);
    gpu_open_block(t);
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 j = 0; j < %u; j++) {", GPU_SKINNY_COLUMNS);
    gpu_put_multiply(t, c, p, q);
    line(t, "}");
    gpu_close_block(t);
    gpu_close_block(t);
}

static void put_sums(skinny *s)
{
    const gpu_product *t = &s->t;
    const char *type = gpu_index_type(t);
    const uint32_t lanes = lanes_of(s);
    const uint32_t narrow = s->side[s->narrow];
    line(t, "const %s wide = (%s)(ST_THREAD %% %" PRIu32 " * %u);", type, type, lanes,
         GPU_SKINNY_COLUMNS);
    for (uint32_t k = 0; k < s->n_sums; k++) {
        line(t, "%s c%" PRIu32 "[%" PRIu32 "][%u] = {{0}};", gpu_type_of(t), k, narrow,
             GPU_SKINNY_COLUMNS);
    }
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "for (%s first_step = (%s)(ST_THREAD / %" PRIu32 " * %u); first_step < ", type,
        type, lanes, GPU_SKINNY_STEPS);
    st_loop_text_sym(&t->g->t, gpu_loop_axis(t, t->loops[2])->extent);
    put(&t->g->t, "; first_step += %" PRIu32 ") {\n", t->shape->threads / lanes * GPU_SKINNY_STEPS);
    gpu_open_block(t);
    line(t, "%s xa[%" PRIu32 "];", gpu_type_of(t), narrow * GPU_SKINNY_STEPS);
    for (uint32_t k = 0; k < s->n_sums; k++) {
        const bool is_new = k == 0 || s->factor[s->narrow][k] != s->factor[s->narrow][k - 1u];
        const gpu_operand few = operand_of(s, s->narrow, k);
        if (is_new) {
            gpu_put_loads(t, &few);
        }
        const gpu_operand many = operand_of(s, s->wide, k);
        line(t, "{");
        gpu_open_block(t);
        line(t, "%s xb[%u];", gpu_type_of(t), GPU_SKINNY_COLUMNS * GPU_SKINNY_STEPS);
        gpu_put_loads(t, &many);
        put_products(s, &few, &many, k);
        gpu_close_block(t);
    }
    gpu_close_block(t);
}

/* ---- the sums of a block ---- */

/* "x of the lane whose number differs by `mask`", of the sum's type. */
static void put_shuffled(const gpu_product *t, const char *x, uint32_t mask)
{
    const st_loop_spelling *spelling = t->g->t.spelling;
    const uint32_t dtype = st_loop_at(t->g->kernel, t->acc)->dtype;
    const uint32_t width = dtype == STATOR_F64 ? ST_LOOP_F64 : ST_LOOP_F32;
    const char *bits = dtype == STATOR_F64 ? "u64" : "u32";
    if (dtype == STATOR_I32) {
        put(&t->g->t, "(st_i32)st_shuffle_xor_u32((st_u32)%s, %" PRIu32 ")", x, mask);
    } else {
        put(&t->g->t, "%s(st_shuffle_xor_%s(%s(%s), %" PRIu32 "))", spelling->of_bits[width], bits,
            spelling->to_bits[width], x, mask);
    }
}

/* "into becomes a + b", which wraps for integers. */
static void put_add(const gpu_product *t, const char *into, const char *a, const char *b)
{
    if (st_loop_at(t->g->kernel, t->acc)->dtype == STATOR_I32) {
        line(t, "%s = (st_i32)((st_u32)%s + (st_u32)%s);", into, a, b);
    } else {
        line(t, "%s = %s + %s;", into, a, b);
    }
}

/* Two lanes of each pair share n sums: each keeps half of them, or both all where n is odd. The
 * sums that are left. */
static uint32_t put_meeting(const gpu_product *t, uint32_t n, uint32_t mask)
{
    const bool is_halved = n % 2u == 0;
    const uint32_t left = is_halved ? n / 2u : n;
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 i = 0; i < %" PRIu32 "; i++) {", left);
    gpu_open_block(t);
    if (is_halved) {
        line(t, "const st_bool is_upper = (ST_THREAD & %" PRIu32 ") != 0;", mask);
        line(t, "const %s given = is_upper ? s[i] : s[i + %" PRIu32 "];", gpu_type_of(t), left);
        line(t, "const %s kept = is_upper ? s[i + %" PRIu32 "] : s[i];", gpu_type_of(t), left);
    } else {
        line(t, "const %s given = s[i];", gpu_type_of(t));
        line(t, "const %s kept = s[i];", gpu_type_of(t));
    }
    st_loop_text_indent(&t->g->t);
    put(&t->g->t, "const %s taken = ", gpu_type_of(t));
    put_shuffled(t, "given", mask);
    put(&t->g->t, ";\n");
    put_add(t, "s[i]", "kept", "taken");
    gpu_close_block(t);
    return left;
}

/* The lanes of a warp that have the same columns bring their sums together, and write them to the
 * warp's part of shared memory: place f of those that a lane began with, which its number tells. */
static void put_warp(const skinny *s, uint32_t sum)
{
    const gpu_product *t = &s->t;
    const uint32_t narrow = s->side[s->narrow];
    const uint32_t all = narrow * GPU_SKINNY_COLUMNS;
    const uint32_t lanes = lanes_of(s);
    uint32_t n = all;
    uint32_t alike = 0; /* bits in which lanes differ that have the same sums */
    line(t, "{");
    gpu_open_block(t);
    line(t, "%s s[%" PRIu32 "];", gpu_type_of(t), all);
    line(t, "st_u32 f = 0;");
    line(t, "ST_UNROLL");
    line(t,
         "for (st_u32 i = 0; i < %" PRIu32 "; i++) { s[i] = c%" PRIu32 "[i %% %" PRIu32
         "][i / %" PRIu32 "]; }",
         all, sum, narrow, narrow);
    for (uint32_t mask = lanes; mask < WARP; mask *= 2u) {
        const uint32_t left = put_meeting(t, n, mask);
        if (left != n) {
            line(t, "f += (ST_THREAD & %" PRIu32 ") != 0 ? %" PRIu32 " : 0;", mask, left);
        }
        alike |= left == n ? mask : 0;
        n = left;
    }
    line(t, "ST_UNROLL");
    line(t, "for (st_u32 i = 0; i < %" PRIu32 " && (ST_THREAD & %" PRIu32 ") == 0; i++) {", n,
         alike);
    gpu_open_block(t);
    line(t, "const st_u32 column = (st_u32)wide + (f + i) / %" PRIu32 ";", narrow);
    line(t,
         "ts[(ST_THREAD / 32 * %" PRIu32 " + %" PRIu32 ") * %" PRIu32 " + (f + i) %% %" PRIu32
         " * %" PRIu32 " + column] = s[i];",
         s->n_sums, sum, results_of(s), narrow, s->side[s->wide]);
    gpu_close_block(t);
    gpu_close_block(t);
}

/* ---- what follows the sums ---- */

static void put_results(const skinny *s)
{
    const gpu_product *t = &s->t;
    const char *type = gpu_index_type(t);
    const uint32_t n = results_of(s);
    line(t, "st_barrier();");
    line(t, "for (st_u32 r = ST_THREAD; r < %" PRIu32 "; r += %" PRIu32 ") {", n,
         t->shape->threads);
    gpu_open_block(t);
    line(t, "const %s i%" PRIu32 " = (%s)(r / %" PRIu32 ");", type, t->loops[0]->ref, type,
         s->side[1]);
    line(t, "const %s i%" PRIu32 " = (%s)(r %% %" PRIu32 ");", type, t->loops[1]->ref, type,
         s->side[1]);
    line(t, "const st_u32 place = (st_u32)(i%" PRIu32 " * %" PRIu32 " + i%" PRIu32 ");",
         t->loops[s->narrow]->ref, s->side[s->wide], t->loops[s->wide]->ref);
    for (uint32_t k = 0; k < s->n_sums; k++) {
        char acc[16];
        (void)snprintf(acc, sizeof acc, "a%" PRIu32, s->acc[k]);
        line(t, "%s %s = ts[%" PRIu32 " + place];", gpu_type_of(t), acc, k * n);
        line(t, "for (st_u32 w = 1; w < %" PRIu32 "; w++) {", t->shape->threads / WARP);
        gpu_open_block(t);
        line(t, "const %s other = ts[w * %" PRIu32 " + %" PRIu32 " + place];", gpu_type_of(t),
             s->n_sums * n, k * n);
        put_add(t, acc, acc, "other");
        gpu_close_block(t);
    }
    (void)gpu_put_rest(t, t->loops[0]->body, false);
    (void)gpu_put_rest(t, t->loops[1]->body, false);
    gpu_close_block(t);
}

void gpu_put_skinny(gpu_text *g, const st_loop_inst *rows)
{
    skinny s;
    find_skinny(g, rows, &s);
    put_sums(&s);
    for (uint32_t k = 0; k < s.n_sums; k++) {
        put_warp(&s, k);
    }
    put_results(&s);
}

uint32_t gpu_put_skinny_memory(gpu_text *g, const st_loop_inst *rows)
{
    skinny s;
    find_skinny(g, rows, &s);
    const uint32_t n = s.shape.threads / WARP * s.n_sums * results_of(&s);
    put(&g->t, "    ST_SHARED(%s, ts, %" PRIu32 ");\n", gpu_type_of(&s.t), n);
    return n * (uint32_t)st_element_bytes(st_loop_at(g->kernel, s.acc[0])->dtype);
}
