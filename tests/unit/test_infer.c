/* Infer rules: every op on good input (result types as declared in the sample) and on bad input
 * (the text that refuses it). */
#include "support_samples.h"

#include <criterion/criterion.h>
#include <string.h>

static uint32_t has_sample(const char *op, const op_sample *samples, uint32_t n)
{
    char name[64];
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        count += strcmp(op_sample_name(&samples[i], name), op) == 0;
    }
    return count;
}

Test(infer, every_op_has_a_good_sample)
{
    uint32_t n_defs = 0, n = 0;
    const st_op_def *defs = st_op_defs(&n_defs);
    const op_sample *samples = op_samples(&n);
    for (uint32_t i = 0; i < n_defs; i++) {
        cr_expect_gt(has_sample(defs[i].name, samples, n), 0, "op %s has no sample", defs[i].name);
    }
}

Test(infer, good_input_gives_the_declared_types)
{
    text_world w;
    uint32_t n = 0;
    const op_sample *samples = op_samples(&n);
    text_world_init(&w);
    for (uint32_t i = 0; i < n; i++) {
        text_graph g;
        stator_diag *err = NULL;
        const stator_status status = op_sample_read(&w, &samples[i], &g, &err);
        cr_expect_eq(status, STATOR_OK, "%s:\n%s", samples[i].node, st_diag_text(err));
        st_diag_release(err);
        text_graph_free(&g);
    }
    text_world_deinit(&w);
}

Test(infer, bad_input_is_refused_with_a_text)
{
    text_world w;
    uint32_t n = 0;
    const op_sample *samples = op_bad_samples(&n);
    text_world_init(&w);
    for (uint32_t i = 0; i < n; i++) {
        text_graph g;
        stator_diag *err = NULL;
        const stator_status status = op_sample_read(&w, &samples[i], &g, &err);
        cr_expect_eq(status, STATOR_INVALID_ARGUMENT, "%s was not refused", samples[i].node);
        cr_expect_not_null(strstr(st_diag_text(err), samples[i].expected),
                           "%s:\n  got      %s\n  expected %s", samples[i].node, st_diag_text(err),
                           samples[i].expected);
        st_diag_release(err);
        text_graph_free(&g);
    }
    text_world_deinit(&w);
}

/* A wrong type must be seen: otherwise the good samples would show nothing. */
Test(infer, a_wrong_declared_type_is_refused)
{
    text_world w;
    text_graph g;
    stator_diag *err = NULL;
    const op_sample wrong = {"f32[2, 3]", "softmax(%a) : f32[3, 2]", NULL, NULL};
    text_world_init(&w);
    cr_expect_eq(op_sample_read(&w, &wrong, &g, &err), STATOR_INVALID_ARGUMENT);
    st_diag_release(err);
    text_world_deinit(&w);
}

/* Each fresh size is bounded by the number of elements. */
Test(infer, unbacked_sizes_have_bounds)
{
    text_world w;
    text_graph g;
    stator_diag *err = NULL;
    int64_t lo = 0, hi = 0;
    const op_sample sample = {"f32[2, 3]", "nonzero(%a)", NULL, NULL};
    text_world_init(&w);
    cr_assert_eq(op_sample_read(&w, &sample, &g, &err), STATOR_OK, "%s", st_diag_text(err));
    const stator_graph_view *v = st_graph_view(g.graph);
    const stator_type_row *type = stator_value_type(v, stator_output_at(v, 0));
    st_sym_range(&g.module->symtab, stator_dim_at(v, type, 1), &lo, &hi);
    cr_expect_eq(lo, 0);
    cr_expect_eq(hi, 6);
    text_graph_free(&g);
    text_world_deinit(&w);
}
