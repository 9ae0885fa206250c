/* What is known of a compiled model, as JSON: explain prints it, report draws it. */
#include "explain.h"

#include <string.h>

#define COLUMN(field, heading)                                                                     \
    {                                                                                              \
#field, heading, offsetof(stator_x_part, field)                                            \
    }
const explain_column explain_columns[EXPLAIN_COLUMNS] = {
    COLUMN(result_bytes, "results"),  COLUMN(workspace_bytes, "workspace"),
    COLUMN(scratch_bytes, "scratch"), COLUMN(constant_bytes, "constants"),
    COLUMN(packed_bytes, "packed"),   COLUMN(winograd_bytes, "of it Winograd")};

uint64_t explain_value(const stator_x_part *part, const explain_column *c)
{
    return *(const uint64_t *)(const void *)((const char *)part + c->offset);
}

int explain_part_at(const cli_program *p, uint32_t i, stator_x_part *out)
{
    *out = (stator_x_part){.struct_size = sizeof *out};
    return i < stator_x_part_count(p->function) &&
           stator_x_part_at(p->function, i, out) == STATOR_OK;
}

const char *explain_part_name(const stator_x_part *part, char out[48])
{
    if (part->body == 0) {
        (void)snprintf(out, 48, "graph.%u", part->step);
    } else {
        (void)snprintf(out, 48, "body%u.%u", part->body - 1u, part->step);
    }
    return out;
}

/* ---- rows as JSON ---- */

const char *explain_step_kind(uint32_t kind)
{
    static const char *const kinds[] = {[STATOR_STEP_KERNEL] = "kernel",
                                        [STATOR_STEP_LIBRARY] = "library",
                                        [STATOR_STEP_NODE] = "node",
                                        [STATOR_STEP_LOOP] = "loop"};
    return kind < sizeof kinds / sizeof kinds[0] && kinds[kind] != NULL ? kinds[kind] : "step";
}

const char *explain_step_name(const char *name, char out[CLI_CLEAN_BYTES])
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
    cJSON_AddStringToObject(row, "kind", explain_step_kind(step->kind));
    cJSON_AddNumberToObject(row, "depth", step->depth);
    cli_json_text(row, "name", explain_step_name(step->name, name));
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

static cJSON *parts_json(const cli_program *p)
{
    cJSON *parts = cJSON_CreateArray();
    stator_x_part part;
    for (uint32_t i = 0; explain_part_at(p, i, &part); i++) {
        char name[48];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "name", explain_part_name(&part, name));
        cJSON_AddStringToObject(row, "backend", part.backend);
        for (size_t c = 0; c < EXPLAIN_COLUMNS; c++) {
            cJSON_AddNumberToObject(row, explain_columns[c].key,
                                    (double)explain_value(&part, &explain_columns[c]));
        }
        cJSON *steps = cJSON_AddArrayToObject(row, "steps");
        if (stator_x_part_steps(p->function, i, add_step, steps) != STATOR_OK) {
            cJSON_Delete(row);
            cJSON_Delete(parts);
            return NULL;
        }
        cJSON_AddItemToArray(parts, row);
    }
    return parts;
}

cJSON *explain_facts(const cli_program *p)
{
    cJSON *guards = cJSON_CreateArray();
    cJSON *parts = parts_json(p);
    if (parts == NULL || stator_x_guards(p->function, add_guard, guards) != STATOR_OK) {
        cJSON_Delete(guards);
        cJSON_Delete(parts);
        return NULL;
    }
    cJSON *root = cJSON_CreateObject();
    cJSON_AddNumberToObject(root, "compile_ms",
                            (double)stator_function_compile_ns(p->function) / 1e6);
    cJSON_AddItemToObject(root, "coverage", cli_json_coverage(p->function));
    stator_x_leftovers(p->function, add_leftover, cJSON_AddArrayToObject(root, "leftovers"));
    cJSON_AddItemToObject(root, "guards", guards);
    cJSON_AddItemToObject(root, "memory", cli_json_memory(p->function));
    cJSON_AddItemToObject(root, "parts", parts);
    return root;
}
