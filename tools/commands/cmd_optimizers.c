/* stator optimizers: losses, optimizers and schedules by name, with their options
 * (ir/optim.def). */
#include "tools/cli/cli.h"

#include <stator/train.h>
#include <string.h>

static const char *const headings[] = {"losses", "step", "optimizers", "schedules"};

#define KINDS (sizeof headings / sizeof headings[0])

/* One option of "name:kind=default; ...". */
typedef struct option {
    char name[48], kind[16], value[64], range[64]; /* range "": none */
    int has_value;
} option;

/* The range of an option in "name in [low, high]; ...", or "". */
static void find_range(const char *ranges, option *o)
{
    const size_t n = strlen(o->name);
    o->range[0] = '\0';
    for (const char *p = ranges; *p != '\0'; p += strcspn(p, ";")) {
        p += strspn(p, "; ");
        if (strncmp(p, o->name, n) == 0 && strncmp(p + n, " in ", 4) == 0) {
            (void)snprintf(o->range, sizeof o->range, "%.*s", (int)strcspn(p + n + 4, ";"),
                           p + n + 4);
        }
    }
}

/* Reads the option at *text, one of the item's, and moves behind it; false: there is none. */
static bool next_option(const stator_train_item *item, const char **text, option *out)
{
    const char *p = *text + strspn(*text, "; ");
    const size_t n = strcspn(p, ";"), name = strcspn(p, ":"), value = strcspn(p, "=;");
    if (*p == '\0') {
        return false;
    }
    out->has_value = value < n;
    (void)snprintf(out->name, sizeof out->name, "%.*s", (int)name, p);
    (void)snprintf(out->kind, sizeof out->kind, "%.*s", (int)(value - name) - 1, p + name + 1);
    (void)snprintf(out->value, sizeof out->value, "%.*s", out->has_value ? (int)(n - value) - 1 : 0,
                   p + value + 1);
    find_range(item->ranges, out);
    *text = p + n;
    return true;
}

/* "[0.9, 0.999]" as it is given on the command line: 0.9,0.999 */
static void print_value(const char *value)
{
    for (; *value != '\0'; value++) {
        if (strchr("[] ", *value) == NULL) {
            (void)putchar(*value);
        }
    }
}

static void print_item(const stator_train_item *item)
{
    option o;
    (void)printf("  %-20s %s\n", item->name, item->doc);
    for (const char *p = item->options; next_option(item, &p, &o);) {
        (void)printf("  %20s %s=", "", o.name);
        if (o.has_value) {
            print_value(o.value);
        } else {
            (void)printf("?");
        }
        (void)printf("%s%s\n", o.range[0] != '\0' ? " in " : "", o.range);
    }
}

static cJSON *item_json(const stator_train_item *item)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", item->name);
    cJSON_AddStringToObject(row, "doc", item->doc);
    cJSON_AddStringToObject(row, "state", item->state);
    cJSON *options = cJSON_AddArrayToObject(row, "options");
    option o;
    for (const char *p = item->options; next_option(item, &p, &o);) {
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddStringToObject(entry, "name", o.name);
        cJSON_AddStringToObject(entry, "kind", o.kind);
        cJSON_AddItemToObject(entry, "default",
                              o.has_value ? cJSON_CreateString(o.value) : cJSON_CreateNull());
        cJSON_AddItemToObject(
            entry, "range", o.range[0] != '\0' ? cJSON_CreateString(o.range) : cJSON_CreateNull());
        cJSON_AddItemToArray(options, entry);
    }
    return row;
}

static void list_items(stator_ctx *ctx, int json)
{
    static const uint32_t order[] = {STATOR_TRAIN_OPTIMIZER, STATOR_TRAIN_LOSS,
                                     STATOR_TRAIN_SCHEDULE, STATOR_TRAIN_STEP};
    cJSON *root = json ? cJSON_CreateObject() : NULL;
    for (size_t kind = 0; kind < KINDS; kind++) {
        const char *heading = headings[order[kind]];
        cJSON *list = json ? cJSON_AddArrayToObject(root, heading) : NULL;
        stator_train_item item = {.struct_size = sizeof item};
        if (!json) {
            (void)printf("%s\n", heading);
        }
        for (uint32_t i = 0; stator_train_item_info(ctx, i, &item) == STATOR_OK; i++) {
            if (item.kind == order[kind] && json) {
                cJSON_AddItemToArray(list, item_json(&item));
            } else if (item.kind == order[kind]) {
                print_item(&item);
            }
        }
    }
    if (json) {
        cli_print_json(root);
    } else {
        (void)printf("An option is given as --opt KEY=VALUE of 'stator train'; ? has to be.\n");
    }
}

cli_status cmd_optimizers(int argc, char **argv)
{
    cli_common common = {0};
    const cli_option own[] = {CLI_END};
    cli_usage usage = {.own = own, .common = &common};
    const char *none = NULL;
    CLI_PARSE(&usage, &none);
    stator_ctx *ctx = NULL;
    CLI_TRY_CTX(ctx, common.json, cli_open(&common, &ctx));
    list_items(ctx, common.json);
    stator_ctx_destroy(ctx);
    return CLI_OK;
}
