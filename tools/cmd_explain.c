/* stator explain: what a model becomes on a backend, without running it: what inputs it is for,
 * which parts run where, what was left to another backend and why, what each part takes of memory
 * and the steps of a call. The program is compiled anew: one from the cache knows less of itself.
 */
#include "cli.h"

#include "core/base/diag.h"

#include <stdlib.h>
#include <string.h>

#define NODES_SHOWN 6u /* of a step; JSON has all */

typedef struct explain {
    cli_common common;
    cli_inputs inputs;
    cli_compile compile;
    cli_program p;
} explain;

/* The columns, in both forms: key of the JSON, heading, where in a stator_x_part. */
typedef struct column {
    const char *key;
    const char *heading;
    size_t offset;
} column;

#define COLUMN(field, heading) {#field, heading, offsetof(stator_x_part, field)}
static const column columns[] = {
    COLUMN(result_bytes, "results"),  COLUMN(workspace_bytes, "workspace"),
    COLUMN(scratch_bytes, "scratch"), COLUMN(constant_bytes, "constants"),
    COLUMN(packed_bytes, "packed"),   COLUMN(winograd_bytes, "of it Winograd")};
#define COLUMNS (sizeof columns / sizeof columns[0])

static uint64_t value_of(const stator_x_part *part, const column *c)
{
    return *(const uint64_t *)(const void *)((const char *)part + c->offset);
}

/* The next part, 0 behind the last. */
static int part_at(const explain *e, uint32_t i, stator_x_part *out)
{
    *out = (stator_x_part){.struct_size = sizeof *out};
    return i < stator_x_part_count(e->p.function) &&
           stator_x_part_at(e->p.function, i, out) == STATOR_OK;
}

/* "graph.2", "body1.0" */
static const char *name_of(const stator_x_part *part, char out[48])
{
    if (part->body == 0) {
        (void)snprintf(out, 48, "graph.%u", part->step);
    } else {
        (void)snprintf(out, 48, "body%u.%u", part->body - 1u, part->step);
    }
    return out;
}

/* ---- rows as JSON ---- */

static const char *kind_of_step(uint32_t kind)
{
    static const char *const kinds[] = {[STATOR_STEP_KERNEL] = "kernel",
                                        [STATOR_STEP_LIBRARY] = "library",
                                        [STATOR_STEP_NODE] = "node",
                                        [STATOR_STEP_LOOP] = "loop"};
    return kind < sizeof kinds / sizeof kinds[0] && kinds[kind] != NULL ? kinds[kind] : "step";
}

/* The first line of a step's name: that of a loop goes on with its body, in braces. */
static const char *first_line(const char *name, char out[CLI_CLEAN_BYTES])
{
    size_t length = strcspn(name, "\n");
    while (length > 0 && strchr(" {", name[length - 1u]) != NULL) {
        length--;
    }
    (void)snprintf(out, CLI_CLEAN_BYTES, "%.*s", (int)length, name);
    return out;
}

static void add_step(void *self, const stator_x_step *step)
{
    char name[CLI_CLEAN_BYTES];
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "kind", kind_of_step(step->kind));
    cJSON_AddNumberToObject(row, "depth", step->depth);
    cli_json_text(row, "name", first_line(step->name, name));
    cJSON_AddBoolToObject(row, "open", (step->flags & STATOR_STEP_OPEN) != 0);
    cJSON_AddNumberToObject(row, "read_bytes", (double)step->read_bytes);
    cJSON_AddNumberToObject(row, "written_bytes", (double)step->written_bytes);
    cJSON *nodes = cJSON_AddArrayToObject(row, "nodes");
    for (uint32_t i = 0; i < step->n_nodes; i++) {
        cJSON_AddItemToArray(nodes, cJSON_CreateString(step->nodes[i]));
    }
    cJSON_AddItemToArray(self, row);
}

static void add_guard(void *self, const stator_x_guard *guard)
{
    static const char *const kinds[] = {[STATOR_X_GUARD_INPUT] = "input",
                                        [STATOR_X_GUARD_SIZE] = "size",
                                        [STATOR_X_GUARD_NEED] = "need"};
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "kind", kinds[guard->kind]);
    cli_json_text(row, "name", guard->subject[0] != '\0' ? guard->subject : NULL);
    cli_json_text(row, "text", guard->text);
    cJSON_AddItemToArray(self, row);
}

static void add_leftover(void *self, const stator_x_leftover *left)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "op", left->op);
    cJSON_AddNumberToObject(row, "nodes", left->count);
    cli_json_text(row, "first", left->name[0] != '\0' ? left->name : NULL);
    cli_json_text(row, "reason", left->reason);
    cJSON_AddItemToArray(self, row);
}

static cJSON *parts_json(const explain *e)
{
    cJSON *parts = cJSON_CreateArray();
    stator_x_part part;
    for (uint32_t i = 0; part_at(e, i, &part); i++) {
        char name[48];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "name", name_of(&part, name));
        cJSON_AddStringToObject(row, "backend", part.backend);
        for (size_t c = 0; c < COLUMNS; c++) {
            cJSON_AddNumberToObject(row, columns[c].key, (double)value_of(&part, &columns[c]));
        }
        cJSON *steps = cJSON_AddArrayToObject(row, "steps");
        if (stator_x_part_steps(e->p.function, i, add_step, steps) != STATOR_OK) {
            cJSON_Delete(row);
            cJSON_Delete(parts);
            return NULL;
        }
        cJSON_AddItemToArray(parts, row);
    }
    return parts;
}

static int print_json(const explain *e)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *guards = cJSON_CreateArray();
    cJSON *leftovers = cJSON_CreateArray();
    cJSON *parts = parts_json(e);
    if (parts == NULL || stator_x_guards(e->p.function, add_guard, guards) != STATOR_OK) {
        cJSON_Delete(root);
        cJSON_Delete(guards);
        cJSON_Delete(leftovers);
        cJSON_Delete(parts);
        return cli_fail_ctx(e->p.ctx, e->common.json);
    }
    stator_x_leftovers(e->p.function, add_leftover, leftovers);
    cJSON_AddNumberToObject(root, "compile_ms",
                            (double)stator_function_compile_ns(e->p.function) / 1e6);
    cJSON_AddItemToObject(root, "coverage", cli_json_coverage(e->p.function));
    cJSON_AddItemToObject(root, "leftovers", leftovers);
    cJSON_AddItemToObject(root, "guards", guards);
    cJSON_AddItemToObject(root, "memory", cli_json_memory(e->p.function));
    cJSON_AddItemToObject(root, "parts", parts);
    cli_print_json(root);
    return CLI_OK;
}

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
    (void)printf("%*s%-8s %s\n", (int)step->depth * 2, "", kind_of_step(step->kind),
                 cli_clean(first_line(step->name, line), clean));
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
    for (uint32_t i = 0; part_at(e, i, &part); i++) {
        char name[48];
        step_sums sums = {.steps = 0};
        (void)printf("\n%14s %14s  steps of %s on %s\n", "reads", "writes", name_of(&part, name),
                     part.backend);
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
    for (size_t c = 0; c < COLUMNS; c++) {
        (void)printf(" %14s", columns[c].heading);
    }
    (void)printf("\n");
    for (uint32_t i = 0; part_at(e, i, &part); i++) {
        char name[48];
        (void)printf("%-12s %-14s", name_of(&part, name), part.backend);
        for (size_t c = 0; c < COLUMNS; c++) {
            (void)printf(" %14llu", (unsigned long long)value_of(&part, &columns[c]));
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
