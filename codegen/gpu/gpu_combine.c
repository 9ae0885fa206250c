/* Accumulators combined over the threads of a block, in an order that the text fixes.
 *
 *     a5 = st_sum_f32(a5, ST_WARP);              lanes that differ in bit 0, then in bit 1, ...
 *     if (ST_LANE == 0) m5[ST_THREAD / ST_WARP] = a5;
 *     st_barrier();
 *     a5 = st_sum_f32(m5[ST_THREAD % warps], warps);
 *
 * Thread t meets t ^ 1, then t ^ 2, t ^ 4, ...: a tree that does not depend on the warp's width.
 * Rows of threads, which are parts of warps, are done with the first line.
 * All threads end with the same bits: where the order of two values matters (minimum and maximum
 * of 0 and -0 in f64) the lower lane's stands first. */
#include "codegen/gpu/gpu_text.h"

#include <inttypes.h>
#include <stdio.h>

#define put st_loop_text_put

/* ---- the threads that share an iteration ---- */

void gpu_put_member(gpu_text *g)
{
    if (g->columns) {
        put(&g->t, "ST_THREAD / %" PRIu32, g->columns);
    } else if (g->row_threads) {
        put(&g->t, "ST_THREAD %% %" PRIu32, g->row_threads);
    } else {
        put(&g->t, "ST_THREAD");
    }
}

void gpu_put_member_index(gpu_text *g)
{
    const bool is_one = !g->columns && !g->row_threads;
    put(&g->t, is_one ? "(%s)" : "(%s)(", g->t.spelling->index_type);
    gpu_put_member(g);
    put(&g->t, is_one ? "" : ")");
}

uint32_t gpu_members(const gpu_text *g)
{
    return g->columns       ? g->kernel->threads / g->columns
           : g->row_threads ? g->row_threads
                            : g->kernel->threads;
}

/* ---- functions over a warp ---- */

static bool is_wide(uint32_t dtype)
{
    return st_dtype_bits(dtype) == 64;
}

/* "const T o = x of the lane whose number differs by m", T the dtype's type. */
static void put_shuffle(gpu_text *g, uint32_t dtype, const char *name, const char *x)
{
    const st_loop_spelling *s = g->t.spelling;
    const uint32_t width = is_wide(dtype) ? ST_LOOP_F64 : ST_LOOP_F32;
    const char *bits = is_wide(dtype) ? "st_u64" : "st_u32";
    const bool is_float = st_loop_class_of(dtype) == ST_LOOP_FLOATS;
    put(&g->t, "        const %s %s = ", s->types[dtype], name);
    if (is_float) {
        put(&g->t, "%s(st_shuffle_xor_%s(%s(%s), m));\n", s->of_bits[width], bits + 3,
            s->to_bits[width], x);
    } else {
        put(&g->t, "(%s)st_shuffle_xor_%s((%s)%s, m);\n", s->types[dtype], bits + 3, bits, x);
    }
}

static bool depends_on_order(const st_loop_inst *acc)
{
    return acc->dtype == STATOR_F64 && (acc->imm.i == ST_ACC_MIN || acc->imm.i == ST_ACC_MAX);
}

static void put_step(gpu_text *g, const st_loop_inst *acc)
{
    const st_loop_operands plain = {.old = "a", .value = "o"};
    const st_loop_operands ordered = {.old = "x", .value = "y"};
    const char *type = g->t.spelling->types[acc->dtype];
    put_shuffle(g, acc->dtype, "o", "a");
    if (!depends_on_order(acc)) {
        put(&g->t, "        ");
        st_loop_text_combine(&g->t, acc, &plain);
        return;
    }
    put(&g->t, "        const st_bool is_upper = (ST_LANE & m) != 0;\n");
    put(&g->t, "        %s x = is_upper ? o : a;\n", type);
    put(&g->t, "        const %s y = is_upper ? a : o;\n        ", type);
    st_loop_text_combine(&g->t, acc, &ordered);
    put(&g->t, "        a = x;\n");
}

static void put_function(gpu_text *g, const st_loop_inst *acc)
{
    const char *type = g->t.spelling->types[acc->dtype];
    put(&g->t, "\nST_DEVICE %s st_%s_%s(%s a, st_u32 n)\n{\n", type,
        st_loop_acc_name((uint32_t)acc->imm.i), st_dtype_name(acc->dtype), type);
    put(&g->t, "    for (st_u32 m = 1; m < n; m *= 2) {\n");
    put_step(g, acc);
    put(&g->t, "    }\n    return a;\n}\n");
}

static void put_index_function(gpu_text *g, const st_loop_inst *acc)
{
    const st_loop_operands best = {"(*a)", "(*at)", "o", "ot"};
    const char *type = g->t.spelling->types[acc->dtype];
    put(&g->t, "\nST_DEVICE void st_%s_%s(%s *a, st_i64 *at, st_u32 n)\n{\n",
        st_loop_acc_name((uint32_t)acc->imm.i), st_dtype_name(acc->dtype), type);
    put(&g->t, "    for (st_u32 m = 1; m < n; m *= 2) {\n");
    put_shuffle(g, acc->dtype, "o", "*a");
    put_shuffle(g, STATOR_I64, "ot", "*at");
    put(&g->t, "        ");
    st_loop_text_combine(&g->t, acc, &best);
    put(&g->t, "    }\n}\n");
}

void gpu_put_functions(gpu_text *g)
{
    for (st_loop_ref ref = 1; ref < g->kernel->insts.count && g->columns == 0; ref++) {
        const st_loop_inst *acc = st_loop_at(g->kernel, ref);
        if (!g->is_combined[ref] || g->has_function[acc->imm.i][acc->dtype]) {
            continue;
        }
        g->has_function[acc->imm.i][acc->dtype] = 1;
        if (st_loop_has_index(acc)) {
            put_index_function(g, acc);
        } else {
            put_function(g, acc);
        }
    }
}

uint32_t gpu_put_exchanges(gpu_text *g)
{
    const char *places = g->columns ? "" : " / ST_WARP";
    if (g->row_threads) {
        return 0;
    }
    const uint32_t each = (g->columns ? g->kernel->threads : g->kernel->threads / 32u) * 8u;
    uint32_t bytes = 0;
    for (st_loop_ref ref = 1; ref < g->kernel->insts.count; ref++) {
        const st_loop_inst *acc = st_loop_at(g->kernel, ref);
        if (!g->is_combined[ref]) {
            continue;
        }
        put(&g->t, "    ST_SHARED(%s, m%" PRIu32 ", %" PRIu32 "%s);\n",
            g->t.spelling->types[acc->dtype], ref, g->kernel->threads, places);
        bytes += each;
        if (st_loop_has_index(acc)) {
            put(&g->t, "    ST_SHARED(st_i64, mt%" PRIu32 ", %" PRIu32 "%s);\n", ref,
                g->kernel->threads, places);
            bytes += each;
        }
    }
    return bytes;
}

/* One line of the combination, with the accumulator's number and the block's threads. */
static void put_lines(gpu_text *g, const st_loop_inst *acc, st_loop_ref ref)
{
    const uint32_t threads = g->kernel->threads;
    const char *kind = st_loop_acc_name((uint32_t)acc->imm.i);
    const char *dtype = st_dtype_name(acc->dtype);
    put(&g->t, "a%" PRIu32 " = st_%s_%s(a%" PRIu32 ", ST_WARP);\n", ref, kind, dtype, ref);
    st_loop_text_indent(&g->t);
    put(&g->t, "if (ST_LANE == 0) m%" PRIu32 "[ST_THREAD / ST_WARP] = a%" PRIu32 ";\n", ref, ref);
    st_loop_text_indent(&g->t);
    put(&g->t, "st_barrier();\n");
    st_loop_text_indent(&g->t);
    put(&g->t,
        "a%" PRIu32 " = st_%s_%s(m%" PRIu32 "[ST_THREAD %% (%" PRIu32 " / ST_WARP)], %" PRIu32
        " / ST_WARP);\n",
        ref, kind, dtype, ref, threads, threads);
}

static void put_index_lines(gpu_text *g, const st_loop_inst *acc, st_loop_ref ref)
{
    const uint32_t threads = g->kernel->threads;
    const char *kind = st_loop_acc_name((uint32_t)acc->imm.i);
    const char *dtype = st_dtype_name(acc->dtype);
    put(&g->t, "st_%s_%s(&a%" PRIu32 ", &at%" PRIu32 ", ST_WARP);\n", kind, dtype, ref, ref);
    st_loop_text_indent(&g->t);
    put(&g->t,
        "if (ST_LANE == 0) { m%" PRIu32 "[ST_THREAD / ST_WARP] = a%" PRIu32 "; mt%" PRIu32
        "[ST_THREAD / ST_WARP] = at%" PRIu32 "; }\n",
        ref, ref, ref, ref);
    st_loop_text_indent(&g->t);
    put(&g->t, "st_barrier();\n");
    for (uint32_t k = 0; k < 2; k++) {
        const char *prefix = k ? "t" : "";
        st_loop_text_indent(&g->t);
        put(&g->t, "a%s%" PRIu32 " = m%s%" PRIu32 "[ST_THREAD %% (%" PRIu32 " / ST_WARP)];\n",
            prefix, ref, prefix, ref, threads);
    }
    st_loop_text_indent(&g->t);
    put(&g->t, "st_%s_%s(&a%" PRIu32 ", &at%" PRIu32 ", %" PRIu32 " / ST_WARP);\n", kind, dtype,
        ref, ref, threads);
}

/* The threads of a row, which are lanes of a warp. */
static void put_row_line(gpu_text *g, const st_loop_inst *acc, st_loop_ref ref)
{
    const char *kind = st_loop_acc_name((uint32_t)acc->imm.i);
    const char *dtype = st_dtype_name(acc->dtype);
    if (st_loop_has_index(acc)) {
        put(&g->t, "st_%s_%s(&a%" PRIu32 ", &at%" PRIu32 ", %" PRIu32 ");\n", kind, dtype, ref, ref,
            g->row_threads);
    } else {
        put(&g->t, "a%" PRIu32 " = st_%s_%s(a%" PRIu32 ", %" PRIu32 ");\n", ref, kind, dtype, ref,
            g->row_threads);
    }
}

/* The threads of a column in their order, one after the other. */
static void put_column_lines(gpu_text *g, const st_loop_inst *acc, st_loop_ref ref)
{
    const bool has_index = st_loop_has_index(acc);
    char names[2][16];
    (void)snprintf(names[0], sizeof names[0], "a%" PRIu32, ref);
    (void)snprintf(names[1], sizeof names[1], "at%" PRIu32, ref);
    const st_loop_operands operands = {names[0], names[1], "o", "ot"};
    for (uint32_t k = 0; k <= has_index; k++) {
        put(&g->t, "m%s%" PRIu32 "[ST_THREAD] = %s;\n", k ? "t" : "", ref, names[k]);
        st_loop_text_indent(&g->t);
    }
    put(&g->t, "st_barrier();\n");
    for (uint32_t k = 0; k <= has_index; k++) {
        st_loop_text_indent(&g->t);
        put(&g->t, "%s = m%s%" PRIu32 "[ST_THREAD %% %" PRIu32 "];\n", names[k], k ? "t" : "", ref,
            g->columns);
    }
    st_loop_text_indent(&g->t);
    put(&g->t,
        "for (st_u32 k = ST_THREAD %% %" PRIu32 " + %" PRIu32 "; k < %" PRIu32 "; k += %" PRIu32
        ") {\n",
        g->columns, g->columns, g->kernel->threads, g->columns);
    st_loop_text_indent(&g->t);
    put(&g->t, "    const %s o = m%" PRIu32 "[k];\n", g->t.spelling->types[acc->dtype], ref);
    if (has_index) {
        st_loop_text_indent(&g->t);
        put(&g->t, "    const st_i64 ot = mt%" PRIu32 "[k];\n", ref);
    }
    st_loop_text_indent(&g->t);
    put(&g->t, "    ");
    st_loop_text_combine(&g->t, acc, &operands);
    st_loop_text_indent(&g->t);
    put(&g->t, "}\n");
}

void gpu_put_combine(gpu_text *g, st_loop_ref ref)
{
    const st_loop_inst *acc = st_loop_at(g->kernel, ref);
    st_loop_text_indent(&g->t);
    const bool is_reused = g->is_combined[ref] || g->n_loops;
    if (is_reused && !g->row_threads) { /* what the last exchange left is being read */
        put(&g->t, "st_barrier();\n");
        st_loop_text_indent(&g->t);
    }
    g->is_combined[ref] = 1;
    g->acc_state[ref] = GPU_ACC_UNIFORM;
    if (g->columns) {
        put_column_lines(g, acc, ref);
    } else if (g->row_threads) {
        put_row_line(g, acc, ref);
    } else if (st_loop_has_index(acc)) {
        put_index_lines(g, acc, ref);
    } else {
        put_lines(g, acc, ref);
    }
}
