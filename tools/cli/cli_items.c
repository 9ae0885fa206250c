/* Items of plugins on the terminal and as JSON: their row, their options. See cli.h. */
#include "tools/cli/cli.h"

#include <string.h>

/* The words of a comma-separated list. */
static cJSON *words(const char *list)
{
    cJSON *array = cJSON_CreateArray();
    while (list != NULL && *list != '\0') {
        const size_t n = strcspn(list, ",");
        char word[64];
        (void)snprintf(word, sizeof word, "%.*s", (int)n, list);
        cJSON_AddItemToArray(array, cJSON_CreateString(word));
        list += n + (list[n] == ',');
    }
    return array;
}

static cJSON *devices_json(const stator_item_info *info)
{
    cJSON *array = cJSON_CreateArray();
    for (uint32_t i = 0; info->devices != NULL && i < info->device_count; i++) {
        const stator_device_info *d = &info->devices[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddNumberToObject(row, "id", d->id);
        cli_json_text(row, "name", d->name);
        cli_json_text(row, "arch", d->arch);
        cJSON_AddNumberToObject(row, "memory_bytes", (double)d->memory_bytes);
        cJSON_AddItemToArray(array, row);
    }
    return array;
}

cJSON *cli_item_json(const stator_item_info *info)
{
    cJSON *row = cJSON_CreateObject();
    cli_json_text(row, "name", info->name);
    cli_json_text(row, "kind", info->kind);
    cli_json_text(row, "state", info->state);
    cli_json_text(row, "reason", info->reason);
    cli_json_text(row, "hint", info->hint);
    cli_json_text(row, "version", info->version);
    cli_json_text(row, "abi", info->abi);
    cli_json_text(row, "path", info->path);
    cli_json_text(row, "origin", info->origin);
    cJSON_AddItemToObject(row, "devices", devices_json(info));
    cJSON_AddItemToObject(row, "tags", words(info->tags));
    cli_json_text(row, "description", info->description);
    cli_json_text(row, "shadowed_by", info->shadowed_by);
    cli_json_text(row, "build_id", info->build_id);
    cJSON_AddNumberToObject(row, "priority", info->priority);
    cJSON_AddNumberToObject(row, "option_count", info->option_count);
    cJSON_AddBoolToObject(row, "probed", info->probed);
    return row;
}

/* A line about an item, of a text that a plugin or a file's name may have brought in. */
static void print_fact(const char *what, const char *text)
{
    if (text != NULL) {
        (void)printf("    %s", what);
        cli_put(stdout, text);
        (void)printf("\n");
    }
}

/* "cuda:0 NVIDIA H100, 85 GB, compute 9.0" */
static void print_device(const char *backend, const stator_device_info *d)
{
    char clean[CLI_CLEAN_BYTES];
    (void)printf("    %s:%u ", cli_clean(backend, clean), d->id);
    (void)printf("%s", cli_clean(d->name != NULL ? d->name : "", clean));
    if (d->memory_bytes != 0) {
        (void)printf(", %.0f GB", (double)d->memory_bytes / 1e9);
    }
    if (d->arch != NULL && d->arch[0] != '\0') {
        (void)printf(", %s", cli_clean(d->arch, clean));
    }
    (void)printf("\n");
}

void cli_print_item(const stator_item_info *info, bool with_kind)
{
    char clean[CLI_CLEAN_BYTES];
    (void)printf("%-16s ", cli_clean(info->name, clean));
    if (with_kind) {
        (void)printf("%-9s ", info->kind);
    }
    (void)printf("%-18s %-9s ", info->state,
                 info->version != NULL ? cli_clean(info->version, clean) : "-");
    (void)printf("%-11s ", info->origin);
    cli_put(stdout, info->path != NULL ? info->path : "-");
    (void)printf("\n");
    print_fact("", info->reason);
    print_fact("hint: ", info->hint);
    print_fact("shadowed by ", info->shadowed_by);
    for (uint32_t i = 0; info->devices != NULL && i < info->device_count; i++) {
        print_device(info->name, &info->devices[i]);
    }
}

/* ---- one item ---- */

typedef struct option_list {
    cJSON *array; /* NULL: they are printed */
    uint32_t count;
} option_list;

static const char *type_name(uint32_t type)
{
    static const char *const names[] = {"?",    "yes or no", "a whole number", "a number",
                                        "text", "one of",    "a list",         "bytes"};
    return names[type < sizeof names / sizeof names[0] ? type : 0];
}

/* "0 to 3", "avx2,avx512"; "" where every value of the type will do. */
static const char *range_of(const stator_option_desc *row, char out[256])
{
    const bool is_whole = row->type == STATOR_OPTION_I64 || row->type == STATOR_OPTION_BYTES;
    out[0] = '\0';
    if (is_whole && (row->min_i64 != 0 || row->max_i64 != 0)) {
        (void)snprintf(out, 256, "%lld to %lld", (long long)row->min_i64, (long long)row->max_i64);
    } else if (row->type == STATOR_OPTION_F64 && (row->min_f64 != 0 || row->max_f64 != 0)) {
        (void)snprintf(out, 256, "%g to %g", row->min_f64, row->max_f64);
    } else if (row->enum_values != NULL) {
        (void)snprintf(out, 256, "%s", row->enum_values);
    }
    return out;
}

static void add_option(void *self, const stator_option_desc *row)
{
    option_list *list = self;
    char range[256];
    list->count++;
    (void)range_of(row, range);
    if (list->array != NULL) {
        cJSON *o = cJSON_CreateObject();
        cli_json_text(o, "key", row->key);
        cli_json_text(o, "type", type_name(row->type));
        cli_json_text(o, "default", row->default_text);
        cli_json_text(o, "range", range[0] != '\0' ? range : NULL);
        cli_json_text(o, "help", row->help);
        cJSON_AddItemToArray(list->array, o);
        return;
    }
    (void)printf("  %-16s %s (%s%s%s; default %s)%s\n", row->key,
                 row->help != NULL ? row->help : "", type_name(row->type),
                 range[0] == '\0'                  ? ""
                 : row->type == STATOR_OPTION_ENUM ? " "
                                                   : ", ",
                 range,
                 row->default_text != NULL && row->default_text[0] != '\0' ? row->default_text
                                                                           : "none",
                 (row->flags & STATOR_OPTION_DEPRECATED) != 0 ? ", deprecated" : "");
}

/* The item of that kind and name, of several the one that the name means; 0: there is none. */
bool cli_find_item(stator_ctx *ctx, const char *kind, const char *name, int probes,
                   stator_item_info *out_info)
{
    stator_item_info found = {.struct_size = sizeof found};
    const uint32_t count = stator_ctx_item_count(ctx);
    for (uint32_t i = 0; i < count; i++) {
        stator_item_info info = {.struct_size = sizeof info};
        const bool is_named = stator_ctx_item_info(ctx, i, &info) == STATOR_OK &&
                              strcmp(info.kind, kind) == 0 && strcmp(info.name, name) == 0;
        if (is_named && probes && stator_ctx_item_probe(ctx, i) == STATOR_OK) {
            (void)!stator_ctx_item_info(ctx, i, &info);
        }
        const bool is_usable = is_named && strcmp(info.state, "AVAILABLE") == 0;
        if (is_named && info.shadowed_by == NULL && (found.name == NULL || is_usable)) {
            found = info;
        }
    }
    *out_info = found;
    return found.name != NULL;
}

cli_status cli_show_item(stator_ctx *ctx, const stator_item_info *info, const char *how_given,
                         int json)
{
    option_list list = {.array = json ? cJSON_CreateArray() : NULL};
    if (!json) {
        cli_print_item(info, false);
        print_fact("", info->description);
    }
    const bool is_usable = strcmp(info->state, "AVAILABLE") == 0;
    const stator_status status =
        is_usable ? stator_x_item_options(ctx, info->index, add_option, &list) : STATOR_OK;
    if (json) {
        cJSON *row = cli_item_json(info);
        cJSON_AddItemToObject(row, "options", list.array);
        cli_print_json(row);
    } else if (status == STATOR_OK && is_usable && list.count == 0) {
        (void)printf("  it has no options\n");
    } else if (status == STATOR_OK && is_usable) {
        (void)printf("  options are given with %s\n", how_given);
    }
    return status == STATOR_OK ? CLI_OK : cli_fail_ctx(ctx, json);
}
