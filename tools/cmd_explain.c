/* stator explain: what a model becomes on a backend, without running it: what inputs it is for,
 * which parts run where, what was left to another backend and why, what each part takes of memory
 * and the steps of a call. The program is compiled anew: one from the cache knows less of itself.
 */
#include "explain.h"

#include "core/base/diag.h"

#define NODES_SHOWN 6u /* of a step; JSON has all */

typedef struct explain {
    cli_common common;
    cli_inputs inputs;
    cli_compile compile;
    cli_program p;
} explain;

/* ---- rows as text ---- */

typedef struct step_sums {
    uint32_t steps;
    uint32_t flags;
    uint64_t read_bytes, written_bytes;
} step_sums;

/* "602112+": and more, of sizes that a call alone tells. */
static void print_bytes(uint32_t flags, uint64_t read, uint64_t written)
{
    const char *more = (flags & STATOR_STEP_OPEN) != 0 ? "+" : " ";
    (void)printf("%14llu%s%14llu%s ", (unsigned long long)read, more, (unsigned long long)written,
                 more);
}

static void print_step(void *self, const stator_x_step *step)
{
    step_sums *sums = self;
    char line[CLI_CLEAN_BYTES], clean[CLI_CLEAN_BYTES];
    print_bytes(step->flags, step->read_bytes, step->written_bytes);
    (void)printf("%*s%-8s %s\n", (int)step->depth * 2, "", explain_step_kind(step->kind),
                 cli_clean(explain_step_name(step->name, line), clean));
    for (uint32_t i = 0; i < step->n_nodes && i < NODES_SHOWN; i++) {
        (void)printf("%s%s", i == 0 ? "                               = " : ", ",
                     cli_clean(step->nodes[i], clean));
    }
    if (step->n_nodes > NODES_SHOWN) {
        (void)printf(" and %u more", step->n_nodes - NODES_SHOWN);
    }
    (void)printf("%s", step->n_nodes != 0 ? "\n" : "");
    sums->steps++;
    sums->flags |= step->flags;
    sums->read_bytes += step->read_bytes;
    sums->written_bytes += step->written_bytes;
}

static void print_guard(void *self, const stator_x_guard *guard)
{
    char subject[CLI_CLEAN_BYTES], text[CLI_CLEAN_BYTES];
    (void)self;
    (void)cli_clean(guard->subject, subject);
    (void)cli_clean(guard->text, text);
    if (guard->kind == STATOR_X_GUARD_NEED) {
        (void)printf("  refused when %s\n", text);
    } else {
        (void)printf("  %s is %s\n", subject, text);
    }
}

static void print_leftover(void *self, const stator_x_leftover *left)
{
    char name[CLI_CLEAN_BYTES], reason[CLI_CLEAN_BYTES];
    (void)self;
    (void)printf("  %u %s%s%s%s: %s\n", left->count, left->op, left->name[0] != '\0' ? " '" : "",
                 cli_clean(left->name, name),
                 left->name[0] == '\0' ? ""
                 : left->count > 1     ? "' and others"
                                       : "'",
                 cli_clean(left->reason, reason));
}

static void note_leftover(void *self, const stator_x_leftover *left)
{
    (void)left;
    *(int *)self = 1;
}

/* What the program is for and where it runs. */
static stator_status print_program(const explain *e)
{
    int has_leftovers = 0;
    cli_print_coverage(e->p.function);
    stator_x_leftovers(e->p.function, note_leftover, &has_leftovers);
    if (has_leftovers) {
        (void)printf("left to another backend:\n");
        stator_x_leftovers(e->p.function, print_leftover, NULL);
    }
    (void)printf("the program is for calls in which:\n");
    return stator_x_guards(e->p.function, print_guard, NULL);
}

static stator_status print_steps(const explain *e)
{
    stator_x_part part;
    for (uint32_t i = 0; explain_part_at(&e->p, i, &part); i++) {
        char name[48];
        step_sums sums = {.steps = 0};
        (void)printf("\n%14s %14s  steps of %s on %s\n", "reads", "writes",
                     explain_part_name(&part, name), part.backend);
        ST_TRY(stator_x_part_steps(e->p.function, i, print_step, &sums));
        if (sums.steps == 0) {
            (void)printf("%14s %14s  not told\n", "", "");
        } else {
            print_bytes(sums.flags, sums.read_bytes, sums.written_bytes);
            (void)printf("in %u step%s\n", sums.steps, sums.steps == 1 ? "" : "s");
        }
    }
    return STATOR_OK;
}

static void print_parts(const explain *e)
{
    stator_x_memory sum = {.struct_size = sizeof sum};
    stator_x_part part;
    (void)printf("%-12s %-14s", "part", "backend");
    for (size_t c = 0; c < EXPLAIN_COLUMNS; c++) {
        (void)printf(" %14s", explain_columns[c].heading);
    }
    (void)printf("\n");
    for (uint32_t i = 0; explain_part_at(&e->p, i, &part); i++) {
        char name[48];
        (void)printf("%-12s %-14s", explain_part_name(&part, name), part.backend);
        for (size_t c = 0; c < EXPLAIN_COLUMNS; c++) {
            (void)printf(" %14llu", (unsigned long long)explain_value(&part, &explain_columns[c]));
        }
        (void)printf("\n");
    }
    stator_x_memory_of(e->p.function, &sum);
    (void)printf("a call takes %llu bytes of workspace, %llu of outputs, %llu of scratch; kept are "
                 "%llu of constants and %llu of packed weights\n",
                 (unsigned long long)sum.workspace_bytes, (unsigned long long)sum.output_bytes,
                 (unsigned long long)sum.scratch_bytes, (unsigned long long)sum.constant_bytes,
                 (unsigned long long)sum.packed_bytes);
}

static int print_text(const explain *e)
{
    if (print_program(e) != STATOR_OK) {
        return cli_fail_ctx(e->p.ctx, e->common.json);
    }
    print_parts(e);
    return print_steps(e) == STATOR_OK ? CLI_OK : cli_fail_ctx(e->p.ctx, e->common.json);
}

static int print_json(const explain *e)
{
    cJSON *facts = explain_facts(&e->p);
    if (facts == NULL) {
        return cli_fail_ctx(e->p.ctx, e->common.json);
    }
    cli_print_json(facts);
    return CLI_OK;
}

static int explain_model(explain *e, const char *path)
{
    const cli_program_flags flags = {&e->common, &e->inputs, &e->compile, e->compile.backend};
    const int status = cli_program_open(&e->p, &flags, path);
    if (status != CLI_OK) {
        return status;
    }
    if (stator_x_prepare(e->p.function, e->p.n_in, e->p.in) != STATOR_OK) {
        return cli_fail_ctx(e->p.ctx, e->common.json);
    }
    return e->common.json ? print_json(e) : print_text(e);
}

int cmd_explain(int argc, char **argv)
{
    explain e = {.inputs = {.random = -1}, .compile = {.compile_flags = STATOR_COMPILE_NO_CACHE}};
    const cli_usage usage = {.command = "explain",
                             .positional = "MODEL",
                             .summary = "Compiles a model (.onnx, .stir, .stirb) and tells which "
                                        "parts run where, their memory and steps, in bytes.",
                             .inputs = &e.inputs,
                             .backend = &e.compile.backend,
                             .compile = &e.compile,
                             .common = &e.common,
                             .threads = &e.common.threads};
    const char *path = NULL;
    uint32_t n = 0;
    int status = cli_parse(&usage, argc, argv, &path, 1, &n);
    if (status >= 0) {
        return status;
    }
    status = explain_model(&e, path);
    cli_program_close(&e.p);
    return status;
}
