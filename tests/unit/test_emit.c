/* The emitter: nodes in straight code, the first failure kept, nothing done after it. */
#include "ir/op_emitter.h"

#include <criterion/criterion.h>

typedef struct world {
    st_mem mem;
    st_optable ops;
    st_module *m;
    stator_builder *b;
    stator_diag *err;
    stator_emitter e;
    stator_ref x; /* f32[2, 3] */
} world;

static void begin(world *w)
{
    *w = (world){.err = NULL};
    st_mem_init(&w->mem, NULL, NULL, NULL, 0);
    cr_assert_eq(st_optable_init(&w->ops, &w->mem, &w->err), STATOR_OK);
    cr_assert_eq(st_module_create(&w->mem, NULL, &w->ops, &w->m, &w->err), STATOR_OK);
    cr_assert_eq(st_builder_create(w->m, "g", &w->b, &w->err), STATOR_OK);
    w->e = st_op_emitter(w->b, &w->err);
    const stator_ref dims[2] = {stator_emit_size(&w->e, 2), stator_emit_size(&w->e, 3)};
    w->x = stator_emit_input(&w->e, "x", st_module_type(w->m, STATOR_F32, 2, dims));
    cr_assert_neq(w->x, 0);
}

static void end(world *w)
{
    st_diag_release(w->err);
    st_builder_abort(w->b);
    st_module_destroy(w->m);
    st_optable_deinit(&w->ops);
    cr_assert_eq(w->mem.live_blocks, 0);
}

static uint32_t node_count(const world *w)
{
    return st_graph_view(w->b->graph)->n_nodes;
}

Test(emit, straight_code_builds_nodes)
{
    world w;
    begin(&w);
    const stator_ref half =
        stator_emit_slice(&w.e, w.x, 1, stator_emit_size(&w.e, 0), stator_emit_size(&w.e, 1), 1);
    const stator_ref y = stator_emit_expr(&w.e, "a * k + b", "a, b", STATOR_IN(w.x, half),
                                          STATOR_AT(STATOR_A_FLOAT("k", 2)));
    cr_expect_eq(w.e.status, STATOR_OK, "%s", st_diag_text(w.err));
    cr_expect_eq(stator_emit_rank(&w.e, y), 2);
    cr_expect(stator_emit_is(&w.e, stator_emit_dim(&w.e, y, 1), 3));
    cr_expect_eq(stator_emit_cast(&w.e, y, STATOR_F32), y, "it has that dtype");
    cr_expect_eq(stator_emit_transpose(&w.e, y, 2, (const int64_t[]){0, 1}), y, "nothing moves");
    end(&w);
}

Test(emit, first_failure_is_kept_and_nothing_follows)
{
    world w;
    begin(&w);
    cr_expect_eq(stator_emit_unary(&w.e, "no_such_op", w.x), 0);
    const uint32_t n = node_count(&w);
    cr_expect_eq(stator_emit_unary(&w.e, "neg", w.x), 0);
    cr_expect_eq(stator_emit_size(&w.e, 4), 0);
    cr_expect_eq(stator_emit_scalar(&w.e, 1, STATOR_F32), 0);
    stator_emit_fail(&w.e, STATOR_UNSUPPORTED, "a later one");
    cr_expect_eq(w.e.status, STATOR_INTERNAL);
    cr_expect_str_eq(st_diag_text(w.err), "the op table has no 'no_such_op'");
    cr_expect_eq(node_count(&w), n);
    end(&w);
}

Test(emit, types_of_no_value_are_nothing)
{
    world w;
    begin(&w);
    cr_expect_eq(stator_emit_dtype(&w.e, 0), STATOR_DTYPE_NONE);
    cr_expect_eq(stator_emit_rank(&w.e, 1000), 0);
    cr_expect_eq(stator_emit_dim(&w.e, w.x, 2), 0);
    cr_expect_eq(w.e.status, STATOR_OK);
    end(&w);
}

Test(emit, failure_drops_the_region_and_turns_back)
{
    world w;
    begin(&w);
    stator_builder *around = stator_emit_region_begin(&w.e, "body");
    cr_assert_eq(around, w.b);
    cr_expect_neq(w.e.b, w.b);
    stator_emit_fail(&w.e, STATOR_UNIMPLEMENTED, "not yet");
    cr_expect_null(stator_emit_region_end(&w.e, around));
    cr_expect_eq(w.e.b, w.b);
    cr_expect_null(stator_emit_region_begin(&w.e, "another"));
    cr_expect_eq(w.e.status, STATOR_UNIMPLEMENTED);
    end(&w);
}

/* What a decomposition does: sizes, views, an expression, a region. */
static stator_ref build_much(world *w)
{
    stator_emitter *e = &w->e;
    const stator_ref n = stator_emit_dim(e, w->x, 0);
    const stator_ref size = stator_emit_sym_int(e, STATOR_SYM_ADD, n, 5);
    const stator_ref half =
        stator_emit_slice(e, w->x, 0, stator_emit_size(e, 0), stator_emit_size(e, 1), 1);
    const stator_ref turned = stator_emit_transpose(e, half, 2, (const int64_t[]){1, 0});
    const stator_ref y =
        stator_emit_expr(e, "a * a + k", "a", STATOR_IN(turned), STATOR_AT(STATOR_A_FLOAT("k", 2)));
    stator_builder *around = stator_emit_region_begin(e, "body");
    stator_emit_output(e, "s", stator_emit_size_scalar(e, size, STATOR_I64));
    (void)stator_emit_region_end(e, around);
    const stator_ref dims = stator_emit_from_dims(e, 1, &size);
    return stator_emit_concat(
        e, 0,
        STATOR_IN(stator_emit_cast(e, dims, STATOR_F32),
                  stator_emit_reshape(e, y, 1, &(stator_ref){stator_emit_size(e, 3)})));
}

Test(emit, out_of_memory_anywhere_is_kept_and_crashes_nothing)
{
    bool is_whole = false;
    for (uint64_t at = 1; !is_whole; at++) {
        world w;
        begin(&w);
        w.mem.fail_at = w.mem.requests + at;
        const stator_ref y = build_much(&w);
        is_whole = w.mem.requests < w.mem.fail_at;
        w.mem.fail_at = 0;
        if (w.e.status != STATOR_OK) {
            const uint32_t n = node_count(&w);
            const stator_status first = w.e.status;
            cr_expect_eq(first, STATOR_RESOURCE_EXHAUSTED, "request %u: %d", (unsigned)at, first);
            cr_expect_eq(y, 0);
            cr_expect_eq(build_much(&w), 0);
            cr_expect_eq(w.e.status, first);
            cr_expect_eq(node_count(&w), n);
        } else {
            cr_expect_neq(y, 0);
        }
        end(&w);
        cr_assert(at < 10000);
    }
}
