/* The text of kernels, and what verification refuses: each invariant of codegen/loopir/loop.h is
 * broken once in a kernel that is good otherwise. */
#include "support_loop.h"

#include <criterion/criterion.h>
#include <string.h>

static loop_world w;

static void begin(void)
{
    loop_world_init(&w, "k");
}

static void end(void)
{
    loop_world_deinit(&w);
}

TestSuite(loop_verify, .init = begin, .fini = end);

static st_loop_inst *inst(st_loop_ref ref)
{
    return &w.kernel.insts.data[ref];
}

/* The first instruction of a code. */
static st_loop_ref find(uint32_t code)
{
    for (st_loop_ref ref = 1; ref < w.kernel.insts.count; ref++) {
        if (inst(ref)->code == code) {
            return ref;
        }
    }
    cr_assert(0, "no instruction of code %u", code);
    return 0;
}

/* x: f32[8*N], y: f32[8] -> z = exp(x + y), rows in parallel. */
static void pointwise(void)
{
    const uint32_t n = loop_size(&w, "N");
    const uint32_t x = loop_in(&w, "x", STATOR_F32, loop_mul(&w, n, 8));
    const uint32_t y = loop_in(&w, "y", STATOR_F32, loop_int(&w, 8));
    const uint32_t z = loop_out(&w, "z", STATOR_F32, loop_mul(&w, n, 8));
    const uint32_t i = st_loop_axis_add(&w.b, n, ST_AXIS_PARALLEL);
    const uint32_t j = st_loop_axis_add(&w.b, loop_int(&w, 8), ST_AXIS_VECTOR);
    w.kernel.axes.data[j].lanes = 16;
    w.kernel.axes.data[j].unroll = 2;
    const uint32_t at = loop_add(&w, loop_mul(&w, loop_axis(&w, i), 8), loop_axis(&w, j));
    st_loop_open(&w.b, i);
    st_loop_open(&w.b, j);
    const st_loop_ref a = st_loop_load(&w.b, x, at, 0, 0);
    const st_loop_ref b = st_loop_load(&w.b, y, loop_axis(&w, j), 0, 0);
    const st_loop_ref c = loop_op(&w, "add", a, b, 0);
    st_loop_store(&w.b, z, at, loop_op(&w, "exp", c, 0, 0), 0);
    st_loop_close(&w.b);
    st_loop_close(&w.b);
}

/* y[i] = sum over j of x[i, j]; the index of the largest in k[i] where its sum is positive. */
static void rows(void)
{
    const uint32_t n = loop_size(&w, "N");
    const uint32_t m = loop_size(&w, "M");
    const uint32_t nm = st_sym_mul(&w.syms.tab, n, m);
    const uint32_t x = loop_in(&w, "x", STATOR_F32, nm);
    const uint32_t y = loop_out(&w, "y", STATOR_F32, n);
    const uint32_t k = loop_out(&w, "k", STATOR_I64, n);
    const uint32_t i = st_loop_axis_add(&w.b, n, ST_AXIS_PARALLEL);
    const uint32_t j = st_loop_axis_add(&w.b, m, ST_AXIS_REDUCE);
    const uint32_t row_begin = st_sym_mul(&w.syms.tab, loop_axis(&w, i), m);
    st_loop_open(&w.b, i);
    const st_loop_ref sum = st_loop_acc(&w.b, ST_ACC_SUM, STATOR_F32, 0);
    const st_loop_ref best = st_loop_acc(&w.b, ST_ACC_ARGMAX, STATOR_F32, 0);
    st_loop_open(&w.b, j);
    const st_loop_ref v = st_loop_load(&w.b, x, loop_add(&w, row_begin, loop_axis(&w, j)), 0, 0);
    const st_loop_ref ok = loop_op(&w, "ne", v, st_loop_float(&w.b, STATOR_F32, 0.5), 0);
    st_loop_update(&w.b, sum, v, 0, ok);
    st_loop_update(&w.b, best, v, st_loop_index(&w.b, loop_axis(&w, j)), 0);
    st_loop_close(&w.b);
    const st_loop_ref total = st_loop_read(&w.b, sum, STATOR_F32);
    st_loop_store(&w.b, y, loop_axis(&w, i), total, 0);
    const st_loop_ref is_positive = loop_op(&w, "gt", total, st_loop_float(&w.b, STATOR_F32, 0), 0);
    st_loop_store(&w.b, k, loop_axis(&w, i), st_loop_read(&w.b, best, STATOR_I64), is_positive);
    st_loop_close(&w.b);
}

/* z[x[i]] = 1 and a check of x[i]; scratch in between. */
static void scatter(void)
{
    const uint32_t x = loop_in(&w, "x", STATOR_I64, loop_int(&w, 10));
    const uint32_t z = loop_out(&w, "z", STATOR_U8, loop_int(&w, 4));
    const uint32_t t =
        st_loop_buffer_add(&w.b, "t", STATOR_F64, loop_int(&w, 2), ST_BUFFER_LOCAL, 0);
    const uint32_t i = st_loop_axis_add(&w.b, loop_int(&w, 10), 0);
    st_loop_open(&w.b, i);
    const st_loop_ref v = st_loop_load(&w.b, x, loop_axis(&w, i), 0, 0);
    const st_loop_ref ok = loop_op(&w, "lt", v, st_loop_int(&w.b, STATOR_I64, 4), 0);
    st_loop_check(&w.b, ok, 0);
    const uint32_t index = st_loop_bind(&w.b, v, 0, 3);
    st_loop_store(&w.b, z, index, st_loop_int(&w.b, STATOR_U8, 1), ok);
    st_loop_store(&w.b, t, loop_int(&w, 1), st_loop_cast(&w.b, STATOR_F64, v), 0);
    st_loop_close(&w.b);
}

/* ---- text ---- */

Test(loop_verify, prints_pointwise)
{
    pointwise();
    loop_must_verify(&w.kernel);
    loop_must_print(&w.kernel, "kernel k(x: f32[8*N], y: f32[8]) -> (z: f32[8*N])\n"
                               "  loop i0 < N parallel\n"
                               "    loop i1 < 8 vector 16 unroll 2\n"
                               "      v1 = load x[8*i0 + i1]\n"
                               "      v2 = load y[i1]\n"
                               "      v3 = add v1, v2\n"
                               "      v4 = exp v3\n"
                               "      store z[8*i0 + i1], v4\n");
}

Test(loop_verify, prints_rows)
{
    rows();
    loop_must_verify(&w.kernel);
    loop_must_print(&w.kernel, "kernel k(x: f32[N*M]) -> (y: f32[N], k: i64[N])\n"
                               "  v1 = const f32 0.5\n"
                               "  v2 = const f32 0\n"
                               "  loop i0 < N parallel\n"
                               "    v3 = acc sum f32\n"
                               "    v4 = acc argmax f32\n"
                               "    loop i1 < M reduce\n"
                               "      v5 = load x[i1 + M*i0]\n"
                               "      v6 = ne v5, v1\n"
                               "      update v3, v5 if v6\n"
                               "      v7 = index i1\n"
                               "      update v4, v5 at v7\n"
                               "    v8 = read f32 v3\n"
                               "    store y[i0], v8\n"
                               "    v9 = gt v8, v2\n"
                               "    v10 = read i64 v4\n"
                               "    store k[i0], v10 if v9\n");
}

Test(loop_verify, prints_scatter)
{
    scatter();
    loop_must_verify(&w.kernel);
    loop_must_print(&w.kernel, "kernel k(x: i64[10]) -> (z: u8[4])\n"
                               "  local t: f64[2]\n"
                               "  v1 = const i64 4\n"
                               "  v2 = const u8 1\n"
                               "  loop i0 < 10\n"
                               "    v3 = load x[i0]\n"
                               "    v4 = lt v3, v1\n"
                               "    check v4\n"
                               "    bind k1 = v3\n"
                               "    store z[k1], v2 if v4\n"
                               "    v5 = cast f64 v3\n"
                               "    store t[1], v5\n");
}

/* ---- refusals ---- */

Test(loop_verify, scopes_are_checked)
{
    pointwise();
    const st_loop_ref add = find(ST_LOOP_add);
    inst(add)->args[1] = find(ST_LOOP_exp);
    loop_must_fail(&w.kernel, "is not in scope");
    inst(add)->args[1] = 999;
    loop_must_fail(&w.kernel, "does not exist");
    inst(add)->args[1] = find(ST_LOOP_STORE);
    loop_must_fail(&w.kernel, "is not in scope");
    inst(add)->args[1] = 0;
    loop_must_fail(&w.kernel, "does not exist");
    inst(add)->args[1] = inst(add)->args[0];
    loop_must_verify(&w.kernel);
    inst(add)->args[2] = inst(add)->args[0];
    loop_must_fail(&w.kernel, "too many");
}

Test(loop_verify, value_of_a_closed_loop_is_out_of_scope)
{
    rows();
    st_loop_inst *store = inst(find(ST_LOOP_STORE));
    store->args[0] = find(ST_LOOP_LOAD);
    loop_must_fail(&w.kernel, "is not in scope");
}

Test(loop_verify, dtypes_are_checked)
{
    pointwise();
    const st_loop_ref add = find(ST_LOOP_add);
    inst(add)->dtype = STATOR_F64;
    loop_must_fail(&w.kernel, "its dtype is f64, expected f32");
    inst(add)->dtype = STATOR_F32;
    inst(add)->code = ST_LOOP_bit_and;
    loop_must_fail(&w.kernel, "not defined for f32");
    inst(add)->code = ST_LOOP_lt;
    loop_must_fail(&w.kernel, "its dtype is f32, expected bool");
    inst(add)->code = ST_LOOP_CODE_COUNT;
    loop_must_fail(&w.kernel, "no such code");
    inst(add)->code = ST_LOOP_add;
    w.kernel.buffers.data[1].dtype = STATOR_F64;
    loop_must_fail(&w.kernel, "expected f64");
    w.kernel.buffers.data[1].dtype = STATOR_C64;
    loop_must_fail(&w.kernel, "no dtype of the loop IR");
}

Test(loop_verify, storage_types_are_loaded_and_cast)
{
    const uint32_t x = loop_in(&w, "x", STATOR_BF16, loop_int(&w, 1));
    const uint32_t y = loop_out(&w, "y", STATOR_F16, loop_int(&w, 1));
    const st_loop_ref v = st_loop_load(&w.b, x, loop_int(&w, 0), 0, 0);
    const st_loop_ref wide = st_loop_cast(&w.b, STATOR_F32, v);
    const st_loop_ref twice = loop_op(&w, "add", wide, wide, 0);
    st_loop_store(&w.b, y, loop_int(&w, 0), st_loop_cast(&w.b, STATOR_F16, twice), 0);
    loop_must_verify(&w.kernel);
    inst(twice)->args[0] = v;
    inst(twice)->args[1] = v;
    inst(twice)->dtype = STATOR_BF16;
    loop_must_fail(&w.kernel, "not defined for bf16");
}

Test(loop_verify, masks_are_bool)
{
    rows();
    inst(find(ST_LOOP_UPDATE))->args[2] = find(ST_LOOP_LOAD);
    loop_must_fail(&w.kernel, "its mask is f32, expected bool");
}

Test(loop_verify, index_uses_symbols_in_scope_alone)
{
    pointwise();
    const st_loop_ref store = find(ST_LOOP_STORE);
    const uint32_t k = st_loop_axis_add(&w.b, loop_int(&w, 3), 0);
    inst(store)->sym = loop_axis(&w, k);
    loop_must_fail(&w.kernel, "an axis whose loop is not around it");
    st_loop_symbol other = {.kind = ST_SYMBOL_AXIS, .owner = 77, .name = "j"};
    inst(store)->sym = st_loop_symbol_add(&w.syms, &other, 0, 9, 1);
    loop_must_fail(&w.kernel, "a symbol of another kernel");
    other = (st_loop_symbol){
        .kind = ST_SYMBOL_VALUE, .id = find(ST_LOOP_add), .owner = w.kernel.number, .name = "b"};
    inst(store)->sym = st_loop_symbol_add(&w.syms, &other, 0, 9, 1);
    loop_must_fail(&w.kernel, "not bound here");
    inst(store)->sym = 1u << 30;
    loop_must_fail(&w.kernel, "does not exist");
    inst(store)->sym = loop_int(&w, 0);
    loop_must_verify(&w.kernel);
    inst(store)->ref = 3;
    loop_must_fail(&w.kernel, "buffer 3 does not exist");
    inst(store)->ref = 0;
    loop_must_fail(&w.kernel, "buffer x is not one that is written");
}

Test(loop_verify, extents_are_checked)
{
    pointwise();
    w.kernel.axes.data[1].extent = loop_axis(&w, 0);
    loop_must_fail(&w.kernel, "its extent holds a kind of symbol that it may not have");
}

Test(loop_verify, instruction_chains_are_checked)
{
    pointwise();
    const st_loop_ref add = find(ST_LOOP_add);
    const st_loop_ref exp = find(ST_LOOP_exp);
    inst(exp)->next = add;
    loop_must_fail(&w.kernel, "stands elsewhere");
    inst(exp)->next = exp;
    loop_must_fail(&w.kernel, "stands elsewhere");
    inst(exp)->next = 0;
    loop_must_fail(&w.kernel, "does not end with its last instruction");
    inst(exp)->next = 4000;
    loop_must_fail(&w.kernel, "does not exist");
    inst(exp)->next = find(ST_LOOP_STORE);
    inst(exp)->block = 0;
    loop_must_fail(&w.kernel, "says block 0");
    inst(exp)->block = inst(add)->block;
    loop_must_verify(&w.kernel);
}

Test(loop_verify, loop_bodies_are_checked)
{
    pointwise();
    for (st_loop_ref ref = 1; ref < w.kernel.insts.count; ref++) {
        if (inst(ref)->code == ST_LOOP_LOOP && w.kernel.blocks.data[inst(ref)->block].depth == 1) {
            inst(ref)->body = inst(ref)->block;
            loop_must_fail(&w.kernel, "names block");
            w.kernel.axes.data[inst(ref)->ref].block = inst(ref)->block;
            loop_must_fail(&w.kernel, "is not its body");
            return;
        }
    }
    cr_assert(0, "no inner loop");
}

Test(loop_verify, axis_flags_and_lanes_are_checked)
{
    pointwise();
    w.kernel.axes.data[1].flags = ST_AXIS_PARALLEL;
    w.kernel.axes.data[1].lanes = 1;
    loop_must_fail(&w.kernel, "not the outermost");
    w.kernel.axes.data[1].flags = ST_AXIS_SERIAL | ST_AXIS_REDUCE;
    loop_must_fail(&w.kernel, "contradict");
    w.kernel.axes.data[1].flags = 0;
    w.kernel.axes.data[1].lanes = 0;
    loop_must_fail(&w.kernel, "0 lanes");
    w.kernel.axes.data[1].lanes = 8;
    loop_must_fail(&w.kernel, "8 lanes");
    w.kernel.axes.data[1].flags = ST_AXIS_VECTOR;
    loop_must_verify(&w.kernel);
    w.kernel.axes.data[0].flags |= ST_AXIS_VECTOR;
    loop_must_fail(&w.kernel, "a vector loop inside another");
    w.kernel.axes.data[0].flags = ST_AXIS_PARALLEL;
    w.kernel.axes.data[1].symbol = w.kernel.axes.data[0].symbol;
    loop_must_fail(&w.kernel, "the symbol of axis 1 is not its own");
}

Test(loop_verify, axis_has_one_loop)
{
    const uint32_t i = st_loop_axis_add(&w.b, loop_int(&w, 4), 0);
    st_loop_open(&w.b, i);
    st_loop_close(&w.b);
    st_loop_open(&w.b, i);
    st_loop_close(&w.b);
    loop_must_fail(&w.kernel, "names block 2");
}

Test(loop_verify, stores_are_inside_the_parallel_loop)
{
    pointwise();
    st_loop_store(&w.b, 2, loop_int(&w, 0), st_loop_float(&w.b, STATOR_F32, 1), 0);
    loop_must_fail(&w.kernel, "outside the parallel loop");
}

Test(loop_verify, accumulators_are_checked)
{
    rows();
    st_loop_inst *acc = inst(find(ST_LOOP_ACC));
    acc->imm.i = ST_ACC_ANY;
    loop_must_fail(&w.kernel, "not defined for f32");
    acc->imm.i = 77;
    loop_must_fail(&w.kernel, "77 is no kind");
    acc->imm.i = ST_ACC_LAST;
    loop_must_fail(&w.kernel, "is not serial");
    acc->imm.i = ST_ACC_ARGMIN;
    loop_must_fail(&w.kernel, "its index");
    acc->imm.i = ST_ACC_MAX;
    loop_must_verify(&w.kernel);
    w.kernel.axes.data[1].flags = 0;
    loop_must_fail(&w.kernel, "is not a reduction or serial");
    w.kernel.axes.data[1].flags = ST_AXIS_SERIAL;
    loop_must_verify(&w.kernel);
    inst(find(ST_LOOP_UPDATE))->ref = find(ST_LOOP_LOAD);
    loop_must_fail(&w.kernel, "is no accumulator in scope");
}

Test(loop_verify, accumulator_is_read_inside_serial_loops_alone)
{
    const uint32_t y = loop_out(&w, "y", STATOR_F32, loop_int(&w, 5));
    const uint32_t i = st_loop_axis_add(&w.b, loop_int(&w, 5), ST_AXIS_SERIAL);
    const st_loop_ref one = st_loop_float(&w.b, STATOR_F32, 1);
    const st_loop_ref acc = st_loop_acc(&w.b, ST_ACC_SUM, STATOR_F32, one);
    st_loop_open(&w.b, i);
    st_loop_update(&w.b, acc, one, 0, 0);
    st_loop_store(&w.b, y, loop_axis(&w, i), st_loop_read(&w.b, acc, STATOR_F32), 0);
    st_loop_close(&w.b);
    loop_must_verify(&w.kernel);
    w.kernel.axes.data[0].flags = ST_AXIS_REDUCE;
    loop_must_fail(&w.kernel, "it reads an accumulator inside");
}

Test(loop_verify, bindings_and_scratch_are_checked)
{
    scatter();
    inst(find(ST_LOOP_BIND))->sym = loop_axis(&w, 0);
    loop_must_fail(&w.kernel, "not its own");
    w.kernel.buffers.data[2].numel = loop_int(&w, 8193);
    loop_must_fail(&w.kernel, "below 65536 bytes");
    w.kernel.buffers.data[2].numel = loop_axis(&w, 0);
    loop_must_fail(&w.kernel, "a kind of symbol that it may not have");
}

/* A body made by hand: the builder has no rare instructions, the expansion pass makes them. */
Test(loop_verify, rare_body_prints_and_verifies)
{
    const st_loop_ref t = st_loop_int(&w.b, STATOR_BOOL, 1);
    const st_loop_ref x = st_loop_float(&w.b, STATOR_F32, 2);
    const st_loop_inst op = {.code = ST_LOOP_RARE, .dtype = STATOR_F32, .body = 1};
    const st_loop_inst mul = {.code = ST_LOOP_mul, .dtype = STATOR_F32, .args = {x, x}, .block = 1};
    const st_loop_ref rare = w.kernel.insts.count;
    *st_vec_push(&w.mem, &w.kernel.insts) = op;
    *st_vec_push(&w.mem, &w.kernel.insts) = mul;
    memcpy(inst(rare)->args, (uint32_t[3]){t, x, rare + 1u}, sizeof op.args);
    *st_vec_push(&w.mem, &w.kernel.blocks) =
        (st_loop_block){.first = rare + 1u, .last = rare + 1u, .loop = rare, .depth = 1};
    inst(x)->next = rare;
    w.kernel.blocks.data[0].last = rare;
    loop_must_verify(&w.kernel);
    loop_must_print(&w.kernel, "kernel k() -> ()\n"
                               "  v1 = const bool true\n"
                               "  v2 = const f32 2\n"
                               "  v3 = rare v1 else v2\n"
                               "    v4 = mul v2, v2\n"
                               "    give v4\n");
    inst(rare)->args[2] = t;
    loop_must_fail(&w.kernel, "its rare value is bool, expected f32");
    inst(rare)->args[2] = rare + 1u;
    inst(rare + 1u)->code = ST_LOOP_INDEX;
    loop_must_fail(&w.kernel, "may not stand in the body of a rare instruction");
}

Test(loop_verify, failed_builder_fails_verification)
{
    w.kernel.failed = STATOR_UNSUPPORTED;
    loop_must_fail(&w.kernel, "building it failed");
}

/* ---- the mapping of a GPU ---- */

Test(loop_verify, prints_the_mapping)
{
    rows();
    w.kernel.threads = 256;
    w.kernel.axes.data[0].mapping = ST_MAPPING_BLOCKS;
    w.kernel.axes.data[1].mapping = ST_MAPPING_THREADS;
    loop_must_verify(&w.kernel);
    loop_must_print(&w.kernel, "kernel k(x: f32[N*M]) -> (y: f32[N], k: i64[N]) in blocks of 256\n"
                               "  v1 = const f32 0.5\n"
                               "  v2 = const f32 0\n"
                               "  loop i0 < N parallel over blocks\n"
                               "    v3 = acc sum f32\n"
                               "    v4 = acc argmax f32\n"
                               "    loop i1 < M reduce over threads\n"
                               "      v5 = load x[i1 + M*i0]\n"
                               "      v6 = ne v5, v1\n"
                               "      update v3, v5 if v6\n"
                               "      v7 = index i1\n"
                               "      update v4, v5 at v7\n"
                               "    v8 = read f32 v3\n"
                               "    store y[i0], v8\n"
                               "    v9 = gt v8, v2\n"
                               "    v10 = read i64 v4\n"
                               "    store k[i0], v10 if v9\n");
}

Test(loop_verify, refuses_mappings_that_no_grid_has)
{
    rows();
    st_loop_axis *outer = &w.kernel.axes.data[0];
    st_loop_axis *inner = &w.kernel.axes.data[1];
    outer->mapping = ST_MAPPING_GRID;
    loop_must_fail(&w.kernel, "the kernel has no threads of a block");
    w.kernel.threads = 256;
    loop_must_verify(&w.kernel);
    inner->mapping = ST_MAPPING_THREADS;
    loop_must_fail(&w.kernel, "inside one over the grid");
    outer->mapping = ST_MAPPING_THREADS;
    loop_must_fail(&w.kernel, "inside one over them");
    outer->mapping = ST_MAPPING_SEQUENTIAL;
    inner->mapping = ST_MAPPING_BLOCKS;
    loop_must_fail(&w.kernel, "a loop over the grid that is not parallel");
    inner->mapping = ST_MAPPING_THREADS;
    inner->flags = ST_AXIS_SERIAL;
    loop_must_fail(&w.kernel, "a serial loop over the threads of a block");
    inner->mapping = ST_MAPPING_LAST + 1u;
    loop_must_fail(&w.kernel, "14 is no mapping");
}

Test(loop_verify, refuses_rows_that_no_warp_shares)
{
    rows();
    st_loop_axis *outer = &w.kernel.axes.data[0];
    st_loop_axis *inner = &w.kernel.axes.data[1];
    w.kernel.threads = 256;
    outer->mapping = ST_MAPPING_ROWS;
    inner->mapping = ST_MAPPING_THREADS;
    outer->lanes = 8;
    loop_must_verify(&w.kernel);
    outer->lanes = 4;
    loop_must_fail(&w.kernel, "4 rows of 256 threads");
    outer->lanes = 256;
    loop_must_fail(&w.kernel, "256 rows of 256 threads");
    w.kernel.threads = 96;
    outer->lanes = 8;
    loop_must_fail(&w.kernel, "8 rows of 96 threads");
    w.kernel.threads = 256;
    outer->lanes = 32;
    loop_must_verify(&w.kernel);
    const st_loop_buffer row = {.name = "row",
                                .dtype = STATOR_F32,
                                .flags = ST_BUFFER_LOCAL,
                                .numel = st_sym_int(&w.syms.tab, 8)};
    *st_vec_push(&w.mem, &w.kernel.buffers) = row;
    loop_must_fail(&w.kernel, "rows of threads share row");
    w.kernel.buffers.data[w.kernel.buffers.count - 1u].flags |= ST_BUFFER_THREAD;
    loop_must_verify(&w.kernel);
}
