/* stator explain: what a model becomes on a backend, without running it: which parts run where, and
 * what each takes of memory. */
#include "cli.h"

#include <stdlib.h>

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
        cJSON_AddItemToArray(parts, row);
    }
    return parts;
}

static void print_json(const explain *e)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddNumberToObject(root, "compile_ms",
                            (double)stator_function_compile_ns(e->p.function) / 1e6);
    cJSON_AddItemToObject(root, "coverage", cli_json_coverage(e->p.function));
    cJSON_AddItemToObject(root, "memory", cli_json_memory(e->p.function));
    cJSON_AddItemToObject(root, "parts", parts_json(e));
    cli_print_json(root);
}

static void print_text(const explain *e)
{
    stator_x_memory sum = {.struct_size = sizeof sum};
    stator_x_part part;
    cli_print_coverage(e->p.function);
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
    if (e->common.json) {
        print_json(e);
    } else {
        print_text(e);
    }
    return CLI_OK;
}

int cmd_explain(int argc, char **argv)
{
    explain e = {.inputs = {.random = -1}};
    const cli_usage usage = {.command = "explain",
                             .positional = "MODEL",
                             .summary = "Compiles a model (.onnx, .stir, .stirb) and tells which "
                                        "parts run where, with their memory in bytes.",
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
