/* Iterations that one thread takes side by side.
 *
 *     const st_i32 f2 = (st_i32)((ST_BLOCK * 256 + ST_THREAD) * 4);
 *     if (f2 < s0) {
 *         const st_i32 i2 = f2;
 *         const st_i32 c2 = s0 - f2 < 4 ? s0 - f2 : 4;           how many there are
 *         const st_u32x4 w1 = st_take_u32x4(b0 + i2, c2);        they are loaded at once
 *         const float x1[4] = {st_f32_of_bits(w1.x), ...};
 *         float x5[4];
 *         ST_UNROLL
 *         for (st_i32 e = 0; e < 4; e++) {
 *             const st_i32 i2 = f2 + (e < c2 ? e : c2 - 1);      beyond the last the last again
 *             ... x5[e] = v4;
 *         }
 *         st_give_u32x4(b1 + i2, c2, st_bits_of_f32(x5[0]), ...);
 *     }
 *
 * Memory that is not aligned, and the last iterations, are moved one by one: helpers of the program
 * decide it. What beyond the last would be seen (updates, stores one by one) is left out. Where
 * threads share loops the body stands twice, see gpu_text.c: the one for aligned buffers has no
 * helper where every access of its kind begins at a multiple of the lanes.
 *
 * Of a held axis each thread has the same few iterations, which are straight code; what it loads
 * there comes first, and stays in its registers for the next loops that load the same. Threads that
 * share out a row unevenly leave the last of them out where the row has ended. */
#include "codegen/gpu/gpu_schedule.h"
#include "codegen/gpu/gpu_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define put st_loop_text_put

static const char *const places[] = {".x", ".y", ".z", ".w"};

/* One access made for all lanes. */
typedef struct vector {
    st_loop_ref ref;
    const st_loop_inst *inst;
    const st_loop_inst *loop;
    uint32_t dtype;
    uint32_t lanes;
    uint32_t bytes; /* of all */
} vector;

static const st_loop_axis *axis_of(const gpu_text *g, const st_loop_inst *loop)
{
    return &g->kernel->axes.data[loop->ref];
}

bool gpu_has_lanes(const gpu_text *g, const st_loop_inst *loop)
{
    return axis_of(g, loop)->lanes > 1u;
}

static bool keeps_values(const gpu_text *g, const st_loop_inst *loop)
{
    return (axis_of(g, loop)->flags & ST_AXIS_HELD) != 0;
}

/* Is no group of lanes cut short by the axis's end? */
static bool is_whole(const gpu_text *g, const st_loop_inst *loop)
{
    return gpu_is_multiple(g->kernel, axis_of(g, loop)->extent, axis_of(g, loop)->lanes);
}

static void line(gpu_text *g)
{
    st_loop_text_indent(&g->t);
}

/* ---- moves ---- */

/* The words of the dialect for 4, 8 and 16 bytes. */
static const char *words_of(uint32_t bytes)
{
    return bytes == 16u ? "u32x4" : bytes == 8u ? "u32x2" : "u32";
}

/* Is it one access for all lanes: in shared memory, or in a buffer that is aligned? */
static bool is_one_access(gpu_text *g, const vector *v)
{
    const st_kernel *kernel = g->kernel;
    const bool is_local = (kernel->buffers.data[v->inst->ref].flags & ST_BUFFER_LOCAL) != 0;
    uint32_t coef = 0;
    uint32_t rest = 0;
    if (v->lanes == 1u) {
        return true;
    }
    if (!(is_local || g->is_aligned) || !is_whole(g, v->loop) ||
        !st_loop_linear(kernel->syms, v->inst->sym, axis_of(g, v->loop)->symbol, &coef, &rest) ||
        !gpu_is_multiple(kernel, rest, v->lanes)) {
        return false;
    }
    uint8_t *alignment = &g->alignment[v->inst->ref];
    if (!is_local && *alignment < v->bytes) {
        *alignment = (uint8_t)v->bytes;
    }
    return true;
}

/* "st_take_u16x8(b1 + (i1), 8", without the end of the call. */
static void put_move(gpu_text *g, const vector *v)
{
    const bool is_store = v->inst->code == ST_LOOP_STORE;
    const uint32_t element = v->bytes / v->lanes;
    const bool is_one = is_one_access(g, v);
    if (is_one) {
        put(&g->t, is_store ? "st_store_%s(" : "st_load_%s(", words_of(v->bytes));
    } else {
        g->has_move[is_store][element == 8u ? 3u : element / 2u][v->lanes / 4u] = 1;
        put(&g->t, "st_%s_u%" PRIu32 "x%" PRIu32 "(", is_store ? "give" : "take", element * 8u,
            v->lanes);
    }
    put(&g->t, "b%" PRIu32 " + ", v->inst->ref);
    st_loop_text_sym(&g->t, v->inst->sym);
    if (!is_one && is_whole(g, v->loop)) {
        put(&g->t, ", %" PRIu32, v->lanes);
    } else if (!is_one) {
        put(&g->t, ", (st_u32)c%" PRIu32, v->loop->ref);
    }
}

/* ---- the helpers that move ---- */

static void put_element_bits(gpu_text *g, uint32_t bytes, const char *at)
{
    if (bytes == 4u) {
        put(&g->t, "st_load_u32(p + %s)", at);
    } else if (bytes == 8u) {
        put(&g->t, "st_load_u32x2(p + %s)", at);
    } else {
        put(&g->t, "p[%s]", at);
    }
}

static void put_take(gpu_text *g, uint32_t bytes, uint32_t lanes)
{
    const uint32_t all = bytes * lanes;
    const uint32_t a_word = bytes < 4u ? 4u / bytes : 1u;
    put(&g->t,
        "\nST_DEVICE st_%s st_take_u%" PRIu32 "x%" PRIu32 "(const void *from, st_u32 n)\n{\n",
        words_of(all), bytes * 8u, lanes);
    put(&g->t, "    const st_u%" PRIu32 " *p = (const st_u%" PRIu32 " *)from;\n", bytes * 8u,
        bytes * 8u);
    put(&g->t, "    if (n == %" PRIu32 " && (st_u64)from %% %" PRIu32 " == 0) {\n", lanes, all);
    put(&g->t, "        return st_load_%s(from);\n    }\n    st_%s w;\n", words_of(all),
        words_of(all));
    for (uint32_t k = 0; k < lanes; k++) {
        char at[32] = "0";
        if (k) {
            (void)snprintf(at, sizeof at, "(n > %" PRIu32 " ? %" PRIu32 " : n - 1)", k, k);
        }
        put(&g->t, "    const %s x%" PRIu32 " = ", bytes == 8u ? "st_u32x2" : "st_u32", k);
        put_element_bits(g, bytes, at);
        put(&g->t, ";\n");
    }
    for (uint32_t word = 0; word < all / 4u; word++) {
        put(&g->t, "    w%s = ", all == 4u ? "" : places[word]);
        for (uint32_t k = 0; k < a_word; k++) {
            put(&g->t, "%sx%" PRIu32, k ? " | " : "", bytes == 8u ? word / 2u : word * a_word + k);
            if (bytes == 8u) {
                put(&g->t, "%s", places[word % 2u]);
            } else if (k) {
                put(&g->t, " << %" PRIu32, k * bytes * 8u);
            }
        }
        put(&g->t, ";\n");
    }
    put(&g->t, "    return w;\n}\n");
}

static void put_give(gpu_text *g, uint32_t bytes, uint32_t lanes)
{
    static const char names[] = "xyzw";
    const uint32_t all = bytes * lanes;
    put(&g->t, "\nST_DEVICE void st_give_u%" PRIu32 "x%" PRIu32 "(void *to, st_u32 n", bytes * 8u,
        lanes);
    for (uint32_t word = 0; word < all / 4u; word++) {
        put(&g->t, ", st_u32 %c", names[word]);
    }
    put(&g->t, ")\n{\n    st_u%" PRIu32 " *p = (st_u%" PRIu32 " *)to;\n", bytes * 8u, bytes * 8u);
    put(&g->t, "    if (n == %" PRIu32 " && (st_u64)to %% %" PRIu32 " == 0) {\n", lanes, all);
    put(&g->t, "        st_store_%s(to", words_of(all));
    for (uint32_t word = 0; word < all / 4u; word++) {
        put(&g->t, ", %c", names[word]);
    }
    put(&g->t, ");\n        return;\n    }\n");
    for (uint32_t k = 0; k < lanes; k++) {
        put(&g->t, "    if (n > %" PRIu32 ") ", k);
        if (bytes == 8u) {
            put(&g->t, "st_store_u32x2(p + %" PRIu32 ", %c, %c);\n", k, names[2u * k],
                names[2u * k + 1u]);
        } else if (bytes == 4u) {
            put(&g->t, "st_store_u32(p + %" PRIu32 ", %c);\n", k, names[k]);
        } else {
            put(&g->t, "p[%" PRIu32 "] = (st_u%" PRIu32 ")(%c >> %" PRIu32 ");\n", k, bytes * 8u,
                names[k * bytes / 4u], k * bytes % 4u * 8u);
        }
    }
    put(&g->t, "}\n");
}

void gpu_put_moves(gpu_text *g)
{
    for (uint32_t k = 0; k < 12u; k++) {
        const uint32_t bytes = 1u << k / 3u;
        const uint32_t lanes = 2u << k % 3u;
        if (g->has_move[0][k / 3u][k % 3u]) {
            put_take(g, bytes, lanes);
        }
        if (g->has_move[1][k / 3u][k % 3u]) {
            put_give(g, bytes, lanes);
        }
    }
}

/* ---- loads ---- */

/* Its word k: "w2.x", of a held axis "w2[j1].x". */
static void put_word(gpu_text *g, const vector *v, uint32_t k)
{
    const st_loop_ref first = g->held[v->ref];
    put(&g->t, "w%" PRIu32, first ? first : v->ref);
    if (keeps_values(g, v->loop)) {
        put(&g->t, "[j%" PRIu32 "]", v->loop->ref);
    }
    put(&g->t, "%s", v->bytes == 4u ? "" : places[k]);
}

/* The bits of lane k as an unsigned integer. */
static void put_lane_bits(gpu_text *g, const vector *v, uint32_t k)
{
    const uint32_t bytes = v->bytes / v->lanes;
    if (bytes == 8u) {
        put(&g->t, "((st_u64)");
        put_word(g, v, 2u * k + 1u);
        put(&g->t, " << 32 | ");
        put_word(g, v, 2u * k);
        put(&g->t, ")");
        return;
    }
    const uint32_t a_word = 4u / bytes;
    const uint32_t shift = k % a_word * bytes * 8u;
    put(&g->t, "(");
    put_word(g, v, k / a_word);
    if (shift) {
        put(&g->t, " >> %" PRIu32, shift);
    }
    put(&g->t, ")");
}

static bool is_compute_float(uint32_t dtype)
{
    return dtype == STATOR_F32 || dtype == STATOR_F64;
}

/* The words of all lanes, of a held axis in an array over this thread's iterations. */
static void put_words(gpu_text *g, const vector *v)
{
    if (g->held[v->ref] && g->held[v->ref] != v->ref) {
        return;
    }
    line(g);
    if (keeps_values(g, v->loop)) {
        put(&g->t, "w%" PRIu32 "[j%" PRIu32 "] = ", v->ref, v->loop->ref);
    } else {
        put(&g->t, "const st_%s w%" PRIu32 " = ", words_of(v->bytes), v->ref);
    }
    put_move(g, v);
    put(&g->t, ");\n");
}

static void put_loaded(gpu_text *g, const vector *v)
{
    const char *type = st_loop_text_memory_type(&g->t, v->dtype);
    line(g);
    put(&g->t, "const %s x%" PRIu32 "[%" PRIu32 "] = {", type, v->ref, v->lanes);
    for (uint32_t k = 0; k < v->lanes; k++) {
        put(&g->t, k ? ", " : "");
        if (is_compute_float(v->dtype)) {
            put(&g->t, "%s", g->t.spelling->of_bits[v->dtype == STATOR_F64]);
        } else {
            put(&g->t, "(%s)", type);
        }
        put_lane_bits(g, v, k);
    }
    put(&g->t, "};\n");
}

/* ---- stores ---- */

/* The f32 that the value is, rounded to bf16 or f16; 0: it is no cast of one. */
static st_loop_ref rounded_from(const gpu_text *g, st_loop_ref value)
{
    const st_loop_inst *cast = st_loop_at(g->kernel, value);
    const bool is_half = cast->dtype == STATOR_BF16 || cast->dtype == STATOR_F16;
    return is_half && cast->code == ST_LOOP_cast &&
                   st_loop_at(g->kernel, cast->args[0])->dtype == STATOR_F32
               ? cast->args[0]
               : 0;
}

/* The f32 that a store of 16 bits rounds, where it is one: pairs of them are cast at once. 0:
 * not. */
static st_loop_ref wide_of(const gpu_text *g, const st_loop_inst *store)
{
    return rounded_from(g, store->args[0]);
}

/* Lane k of what is stored, as an unsigned integer of its width. */
static void put_bits(gpu_text *g, const vector *v, uint32_t k)
{
    static const char *const types[] = {
        [1] = "st_u8", [2] = "st_u16", [4] = "st_u32", [8] = "st_u64"};
    if (is_compute_float(v->dtype)) {
        put(&g->t, "%s(x%" PRIu32 "[%" PRIu32 "])", g->t.spelling->to_bits[v->dtype == STATOR_F64],
            v->ref, k);
    } else {
        put(&g->t, "(%s)x%" PRIu32 "[%" PRIu32 "]", types[v->bytes / v->lanes], v->ref, k);
    }
}

static void put_stored_word(gpu_text *g, const vector *v, uint32_t word)
{
    const uint32_t bytes = v->bytes / v->lanes;
    if (bytes == 8u) {
        put(&g->t, "(st_u32)(");
        put_bits(g, v, word / 2u);
        put(&g->t, word % 2u ? " >> 32)" : ")");
        return;
    }
    if (wide_of(g, v->inst)) {
        const char *cast = v->dtype == STATOR_BF16 ? "st_bf16x2_of_f32" : "st_f16x2_of_f32";
        put(&g->t, "%s(x%" PRIu32 "[%" PRIu32 "], x%" PRIu32 "[%" PRIu32 "])", cast, v->ref,
            2u * word, v->ref, 2u * word + 1u);
        return;
    }
    const uint32_t a_word = 4u / bytes;
    for (uint32_t k = 0; k < a_word; k++) {
        put(&g->t, "%s%s", k ? " | " : "", a_word > 1u ? "(st_u32)" : "");
        put_bits(g, v, word * a_word + k);
        if (k) {
            put(&g->t, " << %" PRIu32, k * bytes * 8u);
        }
    }
}

static void put_stored(gpu_text *g, const vector *v)
{
    line(g);
    put_move(g, v);
    for (uint32_t word = 0; word < v->bytes / 4u; word++) {
        put(&g->t, ", ");
        put_stored_word(g, v, word);
    }
    put(&g->t, ");\n");
}

static void put_array(gpu_text *g, const vector *v)
{
    const uint32_t dtype = wide_of(g, v->inst) ? STATOR_F32 : v->dtype;
    line(g);
    put(&g->t, "%s x%" PRIu32 "[%" PRIu32 "];\n", st_loop_text_memory_type(&g->t, dtype), v->ref,
        v->lanes);
}

/* ---- the body ---- */

typedef void (*vector_fn)(gpu_text *g, const vector *v);

/* Calls fn for each access of this code that is made for all lanes; code 0: all of them. */
static void each_vector(gpu_text *g, const st_loop_inst *loop, uint32_t code, vector_fn fn)
{
    const uint32_t lanes = axis_of(g, loop)->lanes;
    for (st_loop_ref ref = g->kernel->blocks.data[loop->body].first; ref;
         ref = st_loop_at(g->kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(g->kernel, ref);
        const uint32_t bytes = gpu_vector_bytes(g->kernel, loop, ref, lanes);
        if (bytes && (code == 0 || inst->code == code)) {
            const vector v = {ref,   inst, loop, g->kernel->buffers.data[inst->ref].dtype,
                              lanes, bytes};
            fn(g, &v);
        }
    }
}

static void stage(gpu_text *g, const vector *v)
{
    g->is_staged[v->ref] = ST_LOOP_STAGED;
}

/* Elements of buffers that a thread has for itself. */
static void stage_own(gpu_text *g, const st_loop_inst *loop)
{
    for (st_loop_ref ref = g->kernel->blocks.data[loop->body].first; ref;
         ref = st_loop_at(g->kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(g->kernel, ref);
        const bool is_access = inst->code == ST_LOOP_LOAD || inst->code == ST_LOOP_STORE;
        if (is_access && (g->kernel->buffers.data[inst->ref].flags & ST_BUFFER_THREAD)) {
            g->is_staged[ref] = ST_LOOP_OWN;
        }
    }
}

/* What the iteration beyond the last must not do: it would be seen. */
static bool is_seen(const gpu_text *g, st_loop_ref ref)
{
    const uint16_t code = st_loop_at(g->kernel, ref)->code;
    return code == ST_LOOP_UPDATE || (code == ST_LOOP_STORE && !g->is_staged[ref]);
}

static bool is_pair(const gpu_text *g, st_loop_ref ref)
{
    const st_loop_inst *inst = st_loop_at(g->kernel, ref);
    return inst->code == ST_LOOP_STORE && g->is_staged[ref] == ST_LOOP_STAGED && wide_of(g, inst);
}

/* Is it a cast to 16 bits that others do: of pairs, or of what is rounded and used wide again? */
static bool is_left_out(const gpu_text *g, st_loop_ref value)
{
    const st_loop_inst *cast = st_loop_at(g->kernel, value);
    bool has_use = false;
    if (!rounded_from(g, value)) {
        return false;
    }
    for (st_loop_ref ref = 1; ref < g->kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(g->kernel, ref);
        if (inst->code == ST_LOOP_NONE || !st_loop_uses(inst, value)) {
            continue;
        }
        const bool is_round =
            inst->code == ST_LOOP_cast && inst->dtype == STATOR_F32 && cast->dtype == STATOR_BF16;
        if (!is_round && !is_pair(g, ref)) {
            return false;
        }
        has_use = true;
    }
    return has_use;
}

/* The lanes one after the other: straight code. */
static void put_each_lane(gpu_text *g, const st_loop_inst *loop)
{
    const char *type = g->t.spelling->index_type;
    const uint32_t k = loop->ref;
    const bool whole = is_whole(g, loop);
    line(g);
    put(&g->t, g->is_rolled ? "ST_NO_UNROLL\n" : "ST_UNROLL\n");
    line(g);
    put(&g->t, "for (%s e = 0; e < %" PRIu32 "; e++) {\n", type, axis_of(g, loop)->lanes);
    g->t.depth++;
    line(g);
    put(&g->t, "const %s i%" PRIu32 " = f%" PRIu32 " + ", type, k, k);
    if (whole) {
        put(&g->t, "e;\n");
    } else {
        put(&g->t, "(e < c%" PRIu32 " ? e : c%" PRIu32 " - 1);\n", k, k);
    }
    for (st_loop_ref ref = g->kernel->blocks.data[loop->body].first; ref;
         ref = st_loop_at(g->kernel, ref)->next) {
        if (is_left_out(g, ref)) {
            continue;
        }
        line(g);
        if (is_pair(g, ref)) {
            put(&g->t, "x%" PRIu32 "[e] = v%" PRIu32 ";\n", ref,
                wide_of(g, st_loop_at(g->kernel, ref)));
            continue;
        }
        if (!whole && is_seen(g, ref)) {
            put(&g->t, "if (e < c%" PRIu32 ") ", k);
        }
        st_loop_text_inst(&g->t, ref);
    }
    g->t.depth--;
    line(g);
    put(&g->t, "}\n");
}

void gpu_put_lanes(gpu_text *g, const st_loop_inst *loop)
{
    const char *type = g->t.spelling->index_type;
    const uint32_t k = loop->ref;
    line(g);
    put(&g->t, "const %s i%" PRIu32 " = f%" PRIu32 ";\n", type, k, k);
    if (!is_whole(g, loop)) {
        const uint32_t lanes = axis_of(g, loop)->lanes;
        line(g);
        put(&g->t, "const %s c%" PRIu32 " = ", type, k);
        st_loop_text_sym(&g->t, axis_of(g, loop)->extent);
        put(&g->t, " - f%" PRIu32 " < %" PRIu32 " ? ", k, lanes);
        st_loop_text_sym(&g->t, axis_of(g, loop)->extent);
        put(&g->t, " - f%" PRIu32 " : %" PRIu32 ";\n", k, lanes);
    }
    if (!keeps_values(g, loop)) {
        each_vector(g, loop, ST_LOOP_LOAD, put_words);
    }
    each_vector(g, loop, ST_LOOP_LOAD, put_loaded);
    each_vector(g, loop, ST_LOOP_STORE, put_array);
    each_vector(g, loop, 0, stage);
    stage_own(g, loop);
    g->t.is_staged = g->is_staged;
    put_each_lane(g, loop);
    g->t.is_staged = NULL;
    memset(g->is_staged, 0, g->kernel->insts.count);
    each_vector(g, loop, ST_LOOP_STORE, put_stored);
}

/* ---- held axes ---- */

/* Iterations of the axis, whose extent is known. */
static uint32_t extent_of(const gpu_text *g, const st_loop_inst *loop)
{
    return (uint32_t)st_loop_known_or(&g->kernel->syms->tab, axis_of(g, loop)->extent, 0);
}

/* Iterations of the axis that a thread has at most, its lanes counted as one. */
static uint32_t turns_of(const gpu_text *g, const st_loop_inst *loop)
{
    const uint32_t each = gpu_members(g) * axis_of(g, loop)->lanes;
    return (extent_of(g, loop) + each - 1u) / each;
}

/* Does every thread have so many? */
static bool is_even(const gpu_text *g, const st_loop_inst *loop)
{
    return extent_of(g, loop) % (gpu_members(g) * axis_of(g, loop)->lanes) == 0;
}

/* Does the loop's body access the buffer? */
static bool accesses(const gpu_text *g, const st_loop_inst *loop, uint32_t buffer)
{
    for (st_loop_ref ref = g->kernel->blocks.data[loop->body].first; ref;
         ref = st_loop_at(g->kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(g->kernel, ref);
        if ((inst->code == ST_LOOP_LOAD || inst->code == ST_LOOP_STORE) && inst->ref == buffer) {
            return true;
        }
    }
    return false;
}

uint32_t gpu_own_elements(const gpu_text *g, uint32_t buffer)
{
    for (st_loop_ref ref = 1; ref < g->kernel->insts.count; ref++) {
        const st_loop_inst *loop = st_loop_at(g->kernel, ref);
        if (loop->code == ST_LOOP_LOOP && keeps_values(g, loop) && accesses(g, loop, buffer)) {
            return turns_of(g, loop) * axis_of(g, loop)->lanes;
        }
    }
    return 1u;
}

/* Do the two loads, each along a held axis, see the same elements in the same turns? */
static bool is_same_load(const gpu_text *g, const vector *v, st_loop_ref other)
{
    st_loop_syms *syms = g->kernel->syms;
    const st_loop_inst *at = st_loop_at(g->kernel, other);
    const st_loop_inst *around = st_loop_at(g->kernel, g->kernel->blocks.data[at->block].loop);
    uint32_t coef[2] = {0, 0};
    uint32_t rest[2] = {0, 0};
    return at->ref == v->inst->ref && around->block == v->loop->block &&
           st_loop_linear(syms, at->sym, axis_of(g, around)->symbol, &coef[0], &rest[0]) &&
           st_loop_linear(syms, v->inst->sym, axis_of(g, v->loop)->symbol, &coef[1], &rest[1]) &&
           coef[0] == coef[1] && rest[0] == rest[1];
}

/* Declares the words of a load, unless an earlier loop of the block has loaded them. */
static void hold(gpu_text *g, const vector *v)
{
    const bool can_change = gpu_is_written(g->kernel, v->inst->ref);
    for (st_loop_ref ref = 1; ref < g->kernel->insts.count && !can_change; ref++) {
        if (g->held[ref] == ref && is_same_load(g, v, ref)) {
            g->held[v->ref] = ref;
            return;
        }
    }
    g->held[v->ref] = v->ref;
    line(g);
    put(&g->t, "st_%s w%" PRIu32 "[%" PRIu32 "];\n", words_of(v->bytes), v->ref,
        turns_of(g, v->loop));
}

static void find_own(gpu_text *g, const vector *v)
{
    g->has_words = g->has_words || g->held[v->ref] == v->ref;
}

/* The head of a loop over a thread's turns, those that it has. */
static void put_turns(gpu_text *g, const st_loop_inst *loop, char first)
{
    const char *type = g->t.spelling->index_type;
    const uint32_t k = loop->ref;
    line(g);
    put(&g->t, g->is_rolled ? "ST_NO_UNROLL\n" : "ST_UNROLL\n");
    line(g);
    put(&g->t, "for (%s j%" PRIu32 " = 0; j%" PRIu32 " < %" PRIu32 "; j%" PRIu32 "++) {\n", type, k,
        k, turns_of(g, loop), k);
    g->t.depth++;
    line(g);
    put(&g->t, "const %s %c%" PRIu32 " = (j%" PRIu32 " * %" PRIu32 " + ", type, first, k, k,
        gpu_members(g));
    gpu_put_member_index(g);
    put(&g->t, ") * %" PRIu32 ";\n", axis_of(g, loop)->lanes);
    if (g->guard || !is_even(g, loop)) {
        line(g);
        put(&g->t, "if (%s", g->guard ? g->guard : "");
        if (!is_even(g, loop)) {
            put(&g->t, "%s%c%" PRIu32 " < %" PRIu32, g->guard ? " && " : "", first, k,
                extent_of(g, loop));
        }
        put(&g->t, ") {\n");
        g->t.depth++;
    }
}

static void end_turns(gpu_text *g, const st_loop_inst *loop)
{
    const uint32_t braces = g->guard || !is_even(g, loop) ? 2u : 1u;
    for (uint32_t k = 0; k < braces; k++) {
        g->t.depth--;
        line(g);
        put(&g->t, "}\n");
    }
}

/* The elements of this turn in buffers that a thread has for itself. */
static void put_own(gpu_text *g, const st_loop_inst *loop)
{
    for (uint32_t i = 0; i < g->kernel->buffers.count; i++) {
        const st_loop_buffer *buffer = &g->kernel->buffers.data[i];
        if ((buffer->flags & ST_BUFFER_THREAD) && accesses(g, loop, i)) {
            line(g);
            put(&g->t, "%s *r%" PRIu32 " = b%" PRIu32 " + j%" PRIu32 " * %" PRIu32 ";\n",
                st_loop_text_memory_type(&g->t, buffer->dtype), i, i, loop->ref,
                axis_of(g, loop)->lanes);
        }
    }
}

void gpu_put_held(gpu_text *g, const st_loop_inst *loop)
{
    g->has_words = false;
    each_vector(g, loop, ST_LOOP_LOAD, hold);
    each_vector(g, loop, ST_LOOP_LOAD, find_own);
    if (g->has_words) {
        put_turns(g, loop, 'i');
        each_vector(g, loop, ST_LOOP_LOAD, put_words);
        end_turns(g, loop);
    }
    put_turns(g, loop, 'f');
    put_own(g, loop);
    gpu_put_lanes(g, loop);
    end_turns(g, loop);
}
