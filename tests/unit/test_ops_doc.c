/* docs/ops.md is the op table as a page: compared here with what the table gives, rewritten with
 * STATOR_BLESS=1 in the environment. */
#include "core/base/check.h"
#include "core/base/str.h"
#include "ir/optable.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOC_FILE ST_TEST_SOURCE "/docs/ops.md"

static const char *const kinds[] = {"none", "int",    "float", "string", "dtype",
                                    "ints", "floats", "dims",  "blob"};

static void add_attr(st_str *out, const stator_attr_desc *a)
{
    char number[32];
    st_str_addf(out, "`%s`: %s", a->name, kinds[a->kind]);
    if (a->is_required) {
        return;
    }
    switch (st_attr_default_is_absent(a) ? STATOR_ATTR_NONE : a->kind) {
    case STATOR_ATTR_NONE:
        st_str_add(out, ", may be absent");
        break;
    case STATOR_ATTR_INT:
        st_str_addf(out, " = %lld", (long long)a->i);
        break;
    case STATOR_ATTR_FLOAT:
        st_str_addf(out, " = %s", st_format_f64(a->f, number));
        break;
    case STATOR_ATTR_DTYPE:
        st_str_addf(out, " = %s", st_dtype_name((uint32_t)a->i));
        break;
    case STATOR_ATTR_STRING:
        st_str_addf(out, " = '%s'", a->s);
        break;
    default:
        st_str_addf(out, " = %s", a->s);
    }
}

/* What the pass `autocast` makes of the op, where its row says anything. */
static void add_autocast(st_str *out, uint64_t flags)
{
    if ((flags & STATOR_OP_AUTOCAST_LOW) != 0) {
        st_str_add(out, "\nIn mixed precision: bf16 or f16.\n");
    } else if ((flags & STATOR_OP_AUTOCAST_F32) != 0) {
        st_str_add(out, "\nIn mixed precision: f32.\n");
    } else if ((flags & STATOR_OP_AUTOCAST_WIDEST) != 0) {
        st_str_add(out, "\nIn mixed precision: the widest of its operands.\n");
    }
}

static void add_op(st_str *out, const st_op *op)
{
    const stator_op_desc *d = &op->desc;
    char rtol[32], atol[32];
    st_str_addf(out, "### %s\n\n`%s = %s(%s)`  \n%s.\n", d->name, d->results, d->name, d->operands,
                d->doc);
    for (uint32_t k = 0; k < d->attr_count; k++) {
        st_str_add(out, k ? "; " : "\nAttributes: ");
        add_attr(out, &d->attrs[k]);
    }
    st_str_add(out, d->attr_count ? ".\n" : "");
    if (op->def->rtol != 0 || op->def->atol != 0) {
        st_str_addf(out, "\nTolerance in f32: relative %s, absolute %s.\n",
                    st_format_f64(op->def->rtol, rtol), st_format_f64(op->def->atol, atol));
    }
    add_autocast(out, d->flags);
    if (d->body != NULL) {
        st_str_addf(out, "\n    %s\n", d->body);
    } else if (op->decompose != NULL) {
        st_str_add(out, "\nDecomposed in C.\n");
    }
    st_str_add(out, "\n");
}

static void write_page(const st_optable *ops, st_str *out)
{
    st_str_add(out, "# The ops\n\n"
                    "Generated from `ir/ops.def` (`STATOR_BLESS=1 ctest -R ops_doc`); do not edit. "
                    "`x?` is optional, `xs*` any\nnumber. Primitives have a kernel in every "
                    "complete backend; composites decompose into them, by the program shown\n"
                    "(`docs/expr.md`) or in C. Kinds of attributes: `dims` is a list of sizes, "
                    "which may be symbolic. Pointwise ops\nbroadcast as NumPy does; operands have "
                    "equal dtypes. In mixed precision\n([passes](passes.md#autocast)) ops "
                    "that say nothing of it take what comes.\n\n");
    for (uint32_t pass = 0; pass < 2; pass++) {
        st_str_add(out, pass ? "## Composites\n\n" : "## Primitives\n\n");
        for (uint32_t i = 1; i <= st_optable_count(ops); i++) {
            const st_op *op = st_optable_at(ops, i);
            if (((op->desc.flags & STATOR_OP_COMPOSITE) != 0) == pass) {
                add_op(out, op);
            }
        }
    }
}

static char *read_page(void)
{
    FILE *f = fopen(DOC_FILE, "rb");
    char *text = calloc(1u << 20, 1);
    if (f != NULL && text != NULL) {
        text[fread(text, 1, (1u << 20) - 1u, f)] = '\0';
    }
    if (f != NULL) {
        fclose(f);
    }
    return text;
}

Test(ops_doc, page_is_that_of_the_table)
{
    st_mem mem;
    st_optable ops;
    st_str page;
    stator_diag *err = NULL;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    cr_assert_eq(st_optable_init(&ops, &mem, &err), STATOR_OK, "%s", st_diag_text(err));
    st_str_init(&page, &mem);
    write_page(&ops, &page);
    cr_assert(st_str_ok(&page));
    if (getenv("STATOR_BLESS") != NULL) {
        FILE *f = fopen(DOC_FILE, "wb");
        cr_assert_not_null(f);
        cr_assert_eq(fwrite(page.data, 1, page.len, f), page.len);
        fclose(f);
    }
    char *text = read_page();
    cr_expect(text != NULL && strcmp(text, page.data) == 0,
              DOC_FILE " is not that of the table; STATOR_BLESS=1 rewrites it");
    free(text);
    st_str_deinit(&page);
    st_optable_deinit(&ops);
}
