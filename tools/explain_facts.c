/* What is known of a compiled model, as JSON: explain prints it, as it is or as text, report makes
 * a page of it. */
#include "tools/explain.h"

#include "core/base/map.h"

#include <string.h>

const cJSON *explain_list(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

const char *explain_text(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

double explain_number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static const char *kind_of_step(uint32_t kind)
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

uint64_t explain_step_key(const char *name)
{
    char cut[STATOR_X_PROFILE_NAME]; /* as far as the record of times holds it */
    char line[CLI_CLEAN_BYTES];
    (void)snprintf(cut, sizeof cut, "%.*s", (int)strcspn(name, "\n"), name);
    (void)explain_step_name(cut, line);
    return st_hash64(line, strlen(line), 0);
}

static void add_step(void *self, const stator_x_step *step)
{
    char name[CLI_CLEAN_BYTES];
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "kind", kind_of_step(step->kind));
    cJSON_AddNumberToObject(row, "depth", step->depth);
    cli_json_text(row, "name", explain_step_name(step->name, name));
    cJSON_AddBoolToObject(row, "open", (step->flags & STATOR_STEP_OPEN) != 0);
    cli_json_text(row, "only",
                  (step->flags & STATOR_STEP_IF_APART) != 0    ? "not in place"
                  : (step->flags & STATOR_STEP_IF_FAILED) != 0 ? "on failure"
                                                               : NULL);
    cJSON_AddNumberToObject(row, "read_bytes", (double)step->read_bytes);
    cJSON_AddNumberToObject(row, "written_bytes", (double)step->written_bytes);
    cJSON_AddNumberToObject(row, "flops", (double)step->flops);
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

static void add_fallback_entry(void *self, const stator_x_fallback_entry *entry)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "op", entry->op);
    cJSON_AddNumberToObject(row, "nodes", entry->count);
    cli_json_text(row, "first", entry->name[0] != '\0' ? entry->name : NULL);
    cli_json_text(row, "reason", entry->reason);
    cJSON_AddItemToArray(self, row);
}

/* "graph.2", "body1.0" */
static void add_name(cJSON *row, const stator_x_part *part)
{
    char name[48];
    if (part->body == 0) {
        (void)snprintf(name, sizeof name, "graph.%u", part->step);
    } else {
        (void)snprintf(name, sizeof name, "body%u.%u", part->body - 1u, part->step);
    }
    cJSON_AddStringToObject(row, "name", name);
}

/* NULL: the context has the error. */
static cJSON *part_json(const cli_program *p, uint32_t i)
{
    stator_x_part part = {.struct_size = sizeof part};
    if (stator_x_part_at(p->function, i, &part) != STATOR_OK) {
        return NULL;
    }
    cJSON *row = cJSON_CreateObject();
    add_name(row, &part);
    cJSON_AddStringToObject(row, "backend", part.backend);
    cJSON_AddNumberToObject(row, "result_bytes", (double)part.result_bytes);
    cJSON_AddNumberToObject(row, "workspace_bytes", (double)part.workspace_bytes);
    cJSON_AddNumberToObject(row, "scratch_bytes", (double)part.scratch_bytes);
    cJSON_AddNumberToObject(row, "constant_bytes", (double)part.constant_bytes);
    cJSON_AddNumberToObject(row, "packed_bytes", (double)part.packed_bytes);
    cJSON_AddNumberToObject(row, "winograd_bytes", (double)part.winograd_bytes);
    cJSON *steps = cJSON_AddArrayToObject(row, "steps");
    if (stator_x_part_steps(p->function, i, add_step, steps) != STATOR_OK) {
        cJSON_Delete(row);
        return NULL;
    }
    return row;
}

static cJSON *parts_json(const cli_program *p)
{
    cJSON *parts = cJSON_CreateArray();
    const uint32_t n = stator_x_part_count(p->function);
    for (uint32_t i = 0; i < n; i++) {
        cJSON *part = part_json(p, i);
        if (part == NULL) {
            cJSON_Delete(parts);
            return NULL;
        }
        cJSON_AddItemToArray(parts, part);
    }
    return parts;
}

cJSON *explain_coverage(const cli_program *p)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddItemToObject(root, "coverage", cli_json_coverage(p->function));
    stator_x_fallback_nodes(p->function, add_fallback_entry,
                            cJSON_AddArrayToObject(root, "fallback_nodes"));
    return root;
}

static void add_copy(void *self, const stator_x_copy *copy)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "value", copy->value);
    cJSON_AddStringToObject(row, "from", copy->is_border ? "where it lies" : copy->from);
    cJSON_AddStringToObject(row, "to", copy->to);
    cJSON_AddStringToObject(row, "backend", copy->backend);
    cJSON_AddStringToObject(row, "node", copy->node);
    cJSON_AddStringToObject(row, "op", copy->op);
    cJSON_AddItemToArray(self, row);
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
    cJSON *root = explain_coverage(p);
    cJSON_AddNumberToObject(root, "compile_ms",
                            (double)stator_function_compile_ns(p->function) / 1e6);
    stator_x_copies(p->function, add_copy, cJSON_AddArrayToObject(root, "copies"));
    cJSON_AddItemToObject(root, "guards", guards);
    cJSON_AddItemToObject(root, "memory", cli_json_memory(p->function));
    cJSON_AddItemToObject(root, "parts", parts);
    return root;
}
