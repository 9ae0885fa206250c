/* stator backends and stator plugins: what was found, in which state, why, and what would help.
 * Runs no plugin code unless --probe is given (then each is tried in a child process). */
#include "tools/cli/cli.h"

#include "core/base/str.h"

#include <string.h>

typedef struct flags {
    cli_common common;
    int all;
    int probe;
} flags;

/* Hidden without --all: debug and experimental items that are not references. */
static bool is_hidden(const stator_item_info *info)
{
    return !st_list_has(info->tags, "reference") &&
           (st_list_has(info->tags, "debug") || st_list_has(info->tags, "experimental"));
}

static cli_status list_items(stator_ctx *ctx, const flags *f, bool backends_only)
{
    cJSON *array = cJSON_CreateArray();
    uint32_t hidden = 0;
    const uint32_t count = stator_ctx_item_count(ctx);
    for (uint32_t i = 0; i < count; i++) {
        stator_item_info info = {.struct_size = sizeof info};
        if (stator_ctx_item_info(ctx, i, &info) != STATOR_OK) {
            continue;
        }
        const bool is_listed = !backends_only || strcmp(info.kind, "backend") == 0 ||
                               strcmp(info.kind, "unknown") == 0;
        if (!is_listed) {
            continue;
        }
        if (f->probe && stator_ctx_item_probe(ctx, i) == STATOR_OK) {
            (void)!stator_ctx_item_info(ctx, i, &info);
        }
        if (f->common.json) {
            cJSON_AddItemToArray(array, cli_item_json(&info));
        } else if (backends_only && !f->all && is_hidden(&info)) {
            hidden++;
        } else {
            cli_print_item(&info, !backends_only);
        }
    }
    if (f->common.json) {
        cli_print_json(array);
        return CLI_OK;
    }
    cJSON_Delete(array);
    if (hidden > 0) {
        (void)printf("%u hidden, use --all\n", hidden);
    }
    return CLI_OK;
}

/* One backend with its options. One that cannot be used says why, as the listing does. */
static cli_status show_backend(stator_ctx *ctx, const flags *f, const char *name)
{
    stator_item_info found;
    return cli_find_item(ctx, "backend", name, f->probe, &found)
               ? cli_show_item(ctx, &found, "--backend-option KEY=VALUE", f->common.json)
               : cli_unknown_backend(ctx, name, f->common.json);
}

static cli_status list_command(bool backends_only, int argc, char **argv)
{
    flags f = {0};
    const cli_option own[] = {
        {"--all", CLI_FLAG, &f.all, NULL, "also those tagged debug or experimental"},
        {"--probe", CLI_FLAG, &f.probe, NULL, "load and try each one, in a child process"},
        CLI_END};
    cli_usage usage = {.own = own, .common = &f.common};
    const char *name = NULL;
    CLI_PARSE(&usage, &name);
    stator_ctx *ctx = NULL;
    cli_status status = cli_open_scanned(&f.common, &ctx);
    if (status == CLI_OK) {
        status = name != NULL ? show_backend(ctx, &f, name) : list_items(ctx, &f, backends_only);
    }
    stator_ctx_destroy(ctx);
    return status;
}

cli_status cmd_backends(int argc, char **argv)
{
    return list_command(true, argc, argv);
}

cli_status cmd_plugins(int argc, char **argv)
{
    return list_command(false, argc, argv);
}
