/* Errors of generated code at the border: which side makes a diag, and that its maker releases
 * it. */
#include "codegen/codegen.h"

#include "core/base/diag.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* A host whose diags are no memory that core/base knows: the one slot below. */
static struct foreign {
    int made, released;
    stator_status code;
    char text[64];
    char hint[64];
} slot;

static stator_diag *foreign_diag(void)
{
    return (stator_diag *)(void *)&slot;
}

static stator_diag *create(stator_status code, const char *text, uint64_t len)
{
    slot.made++;
    slot.code = code;
    (void)snprintf(slot.text, sizeof slot.text, "%.*s", (int)len, text);
    return foreign_diag();
}

static void set_hint(stator_diag *diag, const char *hint)
{
    cr_assert_eq((void *)diag, (void *)&slot);
    (void)snprintf(slot.hint, sizeof slot.hint, "%s", hint);
}

static const char *text_of(const stator_diag *diag)
{
    cr_assert_eq((const void *)diag, (const void *)&slot);
    return slot.text;
}

static const char *hint_of(const stator_diag *diag)
{
    cr_assert_eq((const void *)diag, (const void *)&slot);
    return slot.hint[0] ? slot.hint : NULL;
}

static void release(stator_diag *diag)
{
    cr_assert_eq((void *)diag, (void *)&slot);
    slot.released++;
}

static const stator_diag_api diag_api = {.struct_size = sizeof(stator_diag_api),
                                         .create = create,
                                         .set_hint = set_hint,
                                         .text = text_of,
                                         .hint = hint_of,
                                         .release = release};
static const stator_host host = {.struct_size = sizeof(stator_host), .diag = &diag_api};

static void begin(void)
{
    memset(&slot, 0, sizeof slot);
}

TestSuite(cg_border, .init = begin);

Test(cg_border, to_host_copies_code_text_and_hint)
{
    stator_diag *own = NULL;
    stator_diag *err = NULL;
    (void)st_fail(&own, STATOR_UNAVAILABLE, "no %s", "LLVM");
    st_diag_set_hint(own, "install it");
    cr_expect_eq(st_cg_to_host(&host, STATOR_UNAVAILABLE, own, &err), STATOR_UNAVAILABLE);
    cr_assert_eq((void *)err, (void *)&slot);
    cr_expect_eq(slot.code, STATOR_UNAVAILABLE);
    cr_expect_str_eq(slot.text, "no LLVM");
    cr_expect_str_eq(slot.hint, "install it");
}

Test(cg_border, to_host_without_a_diag_has_a_default_text)
{
    stator_diag *err = NULL;
    (void)st_cg_to_host(&host, STATOR_RESOURCE_EXHAUSTED, NULL, &err);
    cr_expect_str_eq(slot.text, "out of memory");
    err = NULL;
    (void)st_cg_to_host(&host, STATOR_INTERNAL, NULL, &err);
    cr_expect_str_eq(slot.text, "no reason was given");
}

Test(cg_border, to_host_keeps_an_earlier_error)
{
    stator_diag *own = NULL;
    stator_diag *err = foreign_diag();
    (void)st_fail(&own, STATOR_INTERNAL, "later");
    (void)st_cg_to_host(&host, STATOR_INTERNAL, own, &err);
    (void)st_cg_to_host(&host, STATOR_INTERNAL, NULL, NULL);
    cr_expect_eq(st_cg_to_host(&host, STATOR_OK, NULL, &err), STATOR_OK);
    cr_expect_eq(slot.made, 0);
}

Test(cg_border, from_host_copies_and_releases_the_diag)
{
    stator_diag *err = NULL;
    stator_diag *theirs = create(STATOR_DATA_LOSS, "the file is short", 17);
    set_hint(theirs, "copy it again");
    cr_expect_eq(st_cg_from_host(&host, STATOR_DATA_LOSS, &theirs, &err), STATOR_DATA_LOSS);
    cr_expect_null(theirs);
    cr_expect_eq(slot.released, 1);
    cr_assert_not_null(err);
    cr_expect_str_eq(st_diag_text(err), "the file is short");
    cr_expect_str_eq(st_diag_hint(err), "copy it again");
    cr_expect_eq(st_diag_code(err), STATOR_DATA_LOSS);
    st_diag_release(err);
}

Test(cg_border, from_host_without_out_releases_the_diag)
{
    stator_diag *theirs = create(STATOR_INTERNAL, "x", 1);
    (void)st_cg_from_host(&host, STATOR_INTERNAL, &theirs, NULL);
    cr_expect_eq(slot.released, 1);
    cr_expect_eq(st_cg_from_host(&host, STATOR_OK, &theirs, NULL), STATOR_OK);
    cr_expect_eq(slot.released, 1);
}
