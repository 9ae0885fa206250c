/* Iterations that one thread takes side by side.
 *
 *     const st_i32 f2 = (st_i32)((ST_BLOCK * 256 + ST_THREAD) * 4);
 *     const st_i32 i2 = f2;
 *     if (f2 + 4 <= s0 && (st_u64)(b0 + i2) % 16 == 0 && ...) {
 *         const st_u32x4 w1 = st_load_u32x4(b0 + i2);   what lies side by side comes at once
 *         const float x1[4] = {st_f32_of_bits(w1.x), ...};
 *         float x5[4];
 *         ST_UNROLL
 *         for (st_i32 e = 0; e < 4; e++) { const st_i32 i2 = f2 + e; ... x5[e] = v4; }
 *         st_store_u32x4(b1 + i2, st_bits_of_f32(x5[0]), ...);
 *     } else {
 *         for (st_i32 i2 = f2; i2 < s0 && i2 < f2 + 4; i2++) { ... }
 *     }
 *
 * The second path takes the last iterations, and memory that is not aligned. */
#include "codegen/gpu/gpu_schedule.h"
#include "codegen/gpu/gpu_text.h"

#include <inttypes.h>
#include <string.h>

#define put st_loop_text_put

static const char *const places[] = {".x", ".y", ".z", ".w"};

/* One access made for all lanes. */
typedef struct vector {
    st_loop_ref ref;
    const st_loop_inst *inst;
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

static void line(gpu_text *g)
{
    st_loop_text_indent(&g->t);
}

/* The address of the first lane's element. */
static void put_address(gpu_text *g, const vector *v)
{
    put(&g->t, "b%" PRIu32 " + ", v->inst->ref);
    st_loop_text_sym(&g->t, v->inst->sym);
}

/* The words of the dialect for 4, 8 and 16 bytes. */
static const char *words_of(const vector *v)
{
    return v->bytes == 16u ? "u32x4" : v->bytes == 8u ? "u32x2" : "u32";
}

/* ---- loads ---- */

static void put_word(gpu_text *g, const vector *v, uint32_t k)
{
    put(&g->t, "w%" PRIu32 "%s", v->ref, v->bytes == 4u ? "" : places[k]);
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

static void put_vector_load(gpu_text *g, const vector *v)
{
    const char *type = st_loop_text_memory_type(&g->t, v->dtype);
    line(g);
    put(&g->t, "const st_%s w%" PRIu32 " = st_load_%s(", words_of(v), v->ref, words_of(v));
    put_address(g, v);
    put(&g->t, ");\n");
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
    const uint32_t a_word = 4u / bytes;
    for (uint32_t k = 0; k < a_word; k++) {
        put(&g->t, "%s%s", k ? " | " : "", a_word > 1u ? "(st_u32)" : "");
        put_bits(g, v, word * a_word + k);
        if (k) {
            put(&g->t, " << %" PRIu32, k * bytes * 8u);
        }
    }
}

static void put_vector_store(gpu_text *g, const vector *v)
{
    line(g);
    put(&g->t, "st_store_%s(", words_of(v));
    put_address(g, v);
    for (uint32_t word = 0; word < v->bytes / 4u; word++) {
        put(&g->t, ", ");
        put_stored_word(g, v, word);
    }
    put(&g->t, ");\n");
}

/* ---- the two paths ---- */

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
            const vector v = {ref, inst, g->kernel->buffers.data[inst->ref].dtype, lanes, bytes};
            fn(g, &v);
        }
    }
}

static void put_aligned(gpu_text *g, const vector *v)
{
    put(&g->t, " && (st_u64)(");
    put_address(g, v);
    put(&g->t, ") %% %" PRIu32 " == 0", v->bytes);
}

static void put_array(gpu_text *g, const vector *v)
{
    line(g);
    put(&g->t, "%s x%" PRIu32 "[%" PRIu32 "];\n", st_loop_text_memory_type(&g->t, v->dtype), v->ref,
        v->lanes);
}

static void stage(gpu_text *g, const vector *v)
{
    g->is_staged[v->ref] = 1;
}

static void put_whole(gpu_text *g, const st_loop_inst *loop)
{
    const char *type = g->t.spelling->index_type;
    each_vector(g, loop, ST_LOOP_LOAD, put_vector_load);
    each_vector(g, loop, ST_LOOP_STORE, put_array);
    line(g);
    put(&g->t, "ST_UNROLL\n");
    line(g);
    put(&g->t, "for (%s e = 0; e < %" PRIu32 "; e++) {\n", type, axis_of(g, loop)->lanes);
    line(g);
    put(&g->t, "    const %s i%" PRIu32 " = f%" PRIu32 " + e;\n", type, loop->ref, loop->ref);
    each_vector(g, loop, 0, stage);
    g->t.is_staged = g->is_staged;
    st_loop_text_body(&g->t, loop->body);
    g->t.is_staged = NULL;
    memset(g->is_staged, 0, g->kernel->insts.count);
    line(g);
    put(&g->t, "}\n");
    each_vector(g, loop, ST_LOOP_STORE, put_vector_store);
}

static void put_one_by_one(gpu_text *g, const st_loop_inst *loop)
{
    line(g);
    put(&g->t, "for (%s i%" PRIu32 " = f%" PRIu32 "; i%" PRIu32 " < ", g->t.spelling->index_type,
        loop->ref, loop->ref, loop->ref);
    st_loop_text_sym(&g->t, axis_of(g, loop)->extent);
    put(&g->t, " && i%" PRIu32 " < f%" PRIu32 " + %" PRIu32 "; i%" PRIu32 "++) {\n", loop->ref,
        loop->ref, axis_of(g, loop)->lanes, loop->ref);
    st_loop_text_body(&g->t, loop->body);
    line(g);
    put(&g->t, "}\n");
}

void gpu_put_lanes(gpu_text *g, const st_loop_inst *loop)
{
    line(g);
    put(&g->t, "const %s i%" PRIu32 " = f%" PRIu32 ";\n", g->t.spelling->index_type, loop->ref,
        loop->ref);
    line(g);
    put(&g->t, "if (f%" PRIu32 " + %" PRIu32 " <= ", loop->ref, axis_of(g, loop)->lanes);
    st_loop_text_sym(&g->t, axis_of(g, loop)->extent);
    each_vector(g, loop, 0, put_aligned);
    put(&g->t, ") {\n");
    g->t.depth++;
    put_whole(g, loop);
    g->t.depth--;
    line(g);
    put(&g->t, "} else {\n");
    g->t.depth++;
    put_one_by_one(g, loop);
    g->t.depth--;
    line(g);
    put(&g->t, "}\n");
}
