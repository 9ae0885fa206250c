/* Error texts: format, notes, prefix, hint, first error wins, static texts when memory is gone. */
#include "core/base/diag.h"

#include <criterion/criterion.h>
#include <string.h>

Test(diag, failing_stores_one_text)
{
    stator_diag *err = NULL;
    cr_assert_eq(st_fail(&err, STATOR_NOT_FOUND, "no op named '%s', %d", "x", 7), STATOR_NOT_FOUND);
    cr_assert_str_eq(st_diag_text(err), "no op named 'x', 7");
    cr_assert_eq(st_diag_code(err), STATOR_NOT_FOUND);
    cr_assert_null(st_diag_hint(err));
    st_fail(&err, STATOR_INTERNAL, "later"); /* the first error stays */
    cr_assert_str_eq(st_diag_text(err), "no op named 'x', 7");
    cr_assert_eq(st_fail(NULL, STATOR_ABORTED, "nobody listens"), STATOR_ABORTED);
    st_diag_release(err);
    st_diag_release(NULL);
}

Test(diag, notes_prefix_and_hint)
{
    stator_diag *d = st_diag_create(STATOR_INVALID_ARGUMENT, "wrong shapexxx", 11);
    st_diag_note(d, "conv1", "model.onnx", 12, "while importing Conv");
    st_diag_note(d, "relu", NULL, 0, NULL);
    st_diag_note(d, NULL, "a.stir", 3, "");
    st_diag_note(d, NULL, NULL, 0, "expected rank 4");
    st_diag_prefix(d, "pass %s", "cse");
    st_diag_set_hint(d, "try %d", 1);
    st_diag_set_hint(d, "try %d", 2);
    cr_assert_str_eq(st_diag_text(d), "pass cse: wrong shape\n"
                                      "  at conv1 (model.onnx:12): while importing Conv\n"
                                      "  at relu\n"
                                      "  (a.stir:3)\n"
                                      "  expected rank 4");
    cr_assert_str_eq(st_diag_hint(d), "try 2");
    st_diag_release(d);
}

Test(diag, long_texts_are_not_truncated)
{
    char text[20000];
    stator_diag *err = NULL;
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    st_fail(&err, STATOR_INTERNAL, "%s!", text);
    cr_assert_eq(strlen(st_diag_text(err)), sizeof text);
    st_diag_release(err);
}

Test(diag, out_of_memory_has_a_static_text)
{
    stator_diag *err = NULL;
    cr_assert_eq(st_fail_oom(&err), STATOR_RESOURCE_EXHAUSTED);
    cr_assert_eq(st_diag_code(err), STATOR_RESOURCE_EXHAUSTED);
    cr_assert(strstr(st_diag_text(err), "memory") != NULL);
    char before[256];
    strcpy(before, st_diag_text(err));
    st_diag_note(err, "n", "f", 1, "t"); /* nothing of this changes or frees it */
    st_diag_prefix(err, "p");
    st_diag_set_hint(err, "h");
    st_diag_release(err);
    cr_assert_str_eq(st_diag_text(err), before);
    cr_assert_null(st_diag_hint(err));
    cr_assert_eq(st_fail_oom(NULL), STATOR_RESOURCE_EXHAUSTED);
    /* a text that cannot be made keeps its code */
    stator_diag *big = st_diag_create(STATOR_DATA_LOSS, "x", UINT64_MAX - 1);
    cr_assert_eq(st_diag_code(big), STATOR_DATA_LOSS);
    cr_assert(strstr(st_diag_text(big), "corrupt data") != NULL);
}

Test(diag, a_copy_has_all_of_it)
{
    stator_diag *err = st_diag_create(STATOR_DATA_LOSS, "x", 1);
    st_diag_note(err, "node", "file", 3, "note");
    st_diag_set_hint(err, "do");
    st_diag_add_node(err, 7, "why");
    st_diag_add_node(err, 8, "also");
    stator_diag *copy = st_diag_copy(err);
    cr_assert_neq(copy, err);
    cr_expect_eq(st_diag_code(copy), STATOR_DATA_LOSS);
    cr_expect_str_eq(st_diag_text(copy), st_diag_text(err));
    cr_expect_str_eq(st_diag_hint(copy), "do");
    cr_expect_eq(st_diag_nodes(copy)->node, 7u);
    cr_expect_str_eq(st_diag_nodes(copy)->reason, "why");
    cr_expect_eq(st_diag_nodes(copy)->next->node, 8u);
    cr_expect_null(st_diag_nodes(copy)->next->next);
    st_diag_release(err);
    st_diag_release(copy);
    cr_expect_null(st_diag_copy(NULL));
    stator_diag *fixed = NULL;
    (void)st_fail_oom(&fixed);
    cr_expect_eq(st_diag_copy(fixed), fixed);
}

Test(diag, accessors_accept_null)
{
    cr_assert_str_eq(st_diag_text(NULL), "");
    cr_assert_null(st_diag_hint(NULL));
    cr_assert_eq(st_diag_code(NULL), STATOR_OK);
    st_diag_note(NULL, "n", "f", 1, "t");
    st_diag_prefix(NULL, "p");
    st_diag_set_hint(NULL, "h");
}

static stator_status fails(stator_diag **err)
{
    return st_fail(err, STATOR_ABORTED, "inner");
}

static stator_status tries(int *reached, stator_diag **err)
{
    ST_TRY(STATOR_OK);
    *reached = 1;
    ST_TRY(fails(err));
    *reached = 2;
    return STATOR_OK;
}

static stator_status tries_done(int *cleaned, stator_diag **err)
{
    stator_status status = STATOR_OK;
    ST_TRY_DONE(fails(err));
    status = STATOR_INTERNAL;
done:
    *cleaned = 1;
    return status;
}

Test(diag, st_try_returns_early)
{
    stator_diag *err = NULL;
    int reached = 0;
    int cleaned = 0;
    cr_assert_eq(tries(&reached, &err), STATOR_ABORTED);
    cr_assert_eq(reached, 1);
    cr_assert_eq(tries_done(&cleaned, &err), STATOR_ABORTED);
    cr_assert_eq(cleaned, 1);
    st_diag_release(err);
}
