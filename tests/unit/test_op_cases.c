/* Every row of the op table has a doc and a tests/ops/<op>.case; every case file on the reference
 * backends (an op's kernel, and its decomposition): results against numbers computed by NumPy. */
#define _DEFAULT_SOURCE /* scandir */
#include "ir/optable.h"
#include "tests/unit/support_run.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* STATOR_OP_CASES: another folder of cases. */
static const char *cases_folder(void)
{
    const char *other = getenv("STATOR_OP_CASES");
    return other ? other : ST_TEST_SOURCE "/tests/ops";
}

static char *read_file(const char *path, uint64_t *out_len)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    if (f && fseek(f, 0, SEEK_END) == 0) {
        const long size = ftell(f);
        rewind(f);
        text = calloc((size_t)size + 1u, 1);
        *out_len = text ? fread(text, 1, (size_t)size, f) : 0;
    }
    if (f) {
        fclose(f);
    }
    return text;
}

/* STATOR_OP_CASE: one op alone. */
static int is_case(const struct dirent *entry)
{
    const char *one = getenv("STATOR_OP_CASE");
    const size_t n = strlen(entry->d_name);
    return n > 5 && strcmp(entry->d_name + n - 5, ".case") == 0 &&
           (!one || (strlen(one) == n - 5 && strncmp(one, entry->d_name, n - 5) == 0));
}

static void say_how_to_repeat(const char *file, const char *backend)
{
    fprintf(stderr, "to repeat: STATOR_OP_CASE=%.*s %s/tests/test_op_cases --filter op_cases/%s\n",
            (int)strlen(file) - 5, file, ST_TEST_BUILD, backend);
}

/* Does the text hold a node of the op? */
static int has_node(const char *text, const char *op)
{
    char mark[80];
    (void)snprintf(mark, sizeof mark, " = %s", op);
    const size_t n = strlen(mark);
    for (const char *at = text; (at = strstr(at, mark)) != NULL; at += n) {
        if (at[n] == '(' || at[n] == ' ') {
            return 1;
        }
    }
    return 0;
}

Test(op_cases, table)
{
    uint32_t n = 0, wrong = 0;
    const st_op_def *defs = st_op_defs(&n);
    cr_assert_gt(n, 0);
    for (uint32_t i = 0; i < n; i++) {
        char path[1024];
        uint64_t len = 0;
        (void)snprintf(path, sizeof path, "%s/%s.case", cases_folder(), defs[i].name);
        char *text = read_file(path, &len);
        const char *lacks = !defs[i].doc || defs[i].doc[0] == '\0' ? "no doc"
                            : !text                                ? "no case file"
                            : !has_node(text, defs[i].name)        ? "no node of it in its cases"
                                                                   : NULL;
        if (lacks) {
            fprintf(stderr, "%s: %s\n", defs[i].name, lacks);
            wrong++;
        }
        free(text);
    }
    cr_assert_eq(wrong, 0, "%u of %u rows of ir/ops.def", wrong, n);
}

static void run_all(const char *backend, double slack)
{
    struct dirent **names;
    const int n = scandir(cases_folder(), &names, is_case, alphasort);
    int failed = 0;
    cr_assert_gt(n, 0, "no cases in %s", cases_folder());
    stator_ctx *ctx = run_context();
    cr_assert_not_null(ctx);
    for (int i = 0; i < n; i++) {
        char path[1024];
        uint64_t len = 0;
        (void)snprintf(path, sizeof path, "%s/%s", cases_folder(), names[i]->d_name);
        char *text = read_file(path, &len);
        cr_assert_not_null(text);
        if (run_pairs(ctx, backend, slack, text, len, names[i]->d_name) != 0) {
            say_how_to_repeat(names[i]->d_name, backend);
            failed++;
        }
        free(text);
        free(names[i]);
    }
    free(names);
    stator_ctx_destroy(ctx);
    cr_assert_eq(failed, 0, "%d of %d case files differ on %s", failed, n, backend);
}

Test(op_cases, eager)
{
    run_all("eager", 0);
}

Test(op_cases, aot_eager)
{
    run_all("aot_eager", 4);
}
