/* Every tests/ops/<op>.case on the reference backends: results against numbers computed by NumPy.
 */
#define _DEFAULT_SOURCE /* scandir */
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

static int is_case(const struct dirent *entry)
{
    const size_t n = strlen(entry->d_name);
    return n > 5 && strcmp(entry->d_name + n - 5, ".case") == 0;
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
        failed += run_pairs(ctx, backend, slack, text, len, names[i]->d_name) != 0;
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
