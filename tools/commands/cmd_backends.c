/* stator backends and stator plugins: what was found, in which state, why, and what would help.
 * Runs no plugin code unless --probe is given (then each is tried in a child process), or
 * --self-test for a backend that is named. */
#include "tools/cli/cli.h"

#include "core/base/str.h"

#include <stator/inspect.h>
#include <string.h>

typedef struct flags {
    cli_common common;
    int all;
    int probe;
    int self_test; /* of stator backends */
} flags;

/* Hidden without --all: debug items, and experimental ones that cannot be used, unless they are
 * references. */
static bool is_hidden(const stator_item_info *info)
{
    return !st_list_has(info->tags, "reference") &&
           (st_list_has(info->tags, "debug") ||
            (st_list_has(info->tags, "experimental") && strcmp(info->state, "AVAILABLE") != 0));
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

/* One device of the backend; the first that fails ends the command with its sentence. */
static cli_status test_device(stator_ctx *ctx, const flags *f, const char *name, uint32_t device,
                              cJSON *rows)
{
    uint64_t ns = 0;
    CLI_TRY_CTX(ctx, f->common.json, stator_x_self_test(ctx, name, device, &ns));
    if (f->common.json) {
        cJSON *row = cJSON_CreateObject();
        cli_json_text(row, "backend", name);
        cJSON_AddNumberToObject(row, "device", device);
        cJSON_AddNumberToObject(row, "ms", (double)ns / 1e6);
        cJSON_AddItemToArray(rows, row);
    } else {
        (void)printf("%s:%u: self test passed in %.0f ms\n", name, device, (double)ns / 1e6);
    }
    return CLI_OK;
}

/* The devices that a probe finds, or the one that the application would get. */
static cli_status self_test(stator_ctx *ctx, const flags *f, const char *name)
{
    stator_item_info found;
    if (!cli_find_item(ctx, "backend", name, 1, &found)) {
        return cli_unknown_backend(ctx, name, f->common.json);
    }
    cJSON *rows = cJSON_CreateArray();
    cli_status status = CLI_OK;
    for (uint32_t i = 0; status == CLI_OK && (i == 0 || i < found.device_count); i++) {
        const uint32_t device = found.device_count != 0 ? found.devices[i].id : 0u;
        status = test_device(ctx, f, name, device, rows);
    }
    if (status == CLI_OK && f->common.json) {
        cli_print_json(rows);
        return CLI_OK;
    }
    cJSON_Delete(rows);
    return status;
}

static cli_status run_command(const flags *f, const char *name, bool backends_only)
{
    stator_ctx *ctx = NULL;
    CLI_FAIL_IF(f->self_test && name == NULL, f->common.json, "INVALID_ARGUMENT",
                "name one, as in: stator backends cuda --self-test", "--self-test is of a backend");
    cli_status status = cli_open_scanned(&f->common, &ctx);
    if (status == CLI_OK) {
        status = f->self_test   ? self_test(ctx, f, name)
                 : name != NULL ? show_backend(ctx, f, name)
                                : list_items(ctx, f, backends_only);
    }
    stator_ctx_destroy(ctx);
    return status;
}

static cli_status list_command(bool backends_only, int argc, char **argv)
{
    flags f = {0};
    const cli_option own[] = {
        {"--all", CLI_FLAG, &f.all, NULL,
         "also those tagged debug, and experimental ones that cannot be used"},
        {"--probe", CLI_FLAG, &f.probe, NULL, "load and try each one, in a child process"},
        {"--self-test", CLI_FLAG, &f.self_test, NULL,
         "of the backend that is named: try what its kernels use on each device"},
        CLI_END};
    const cli_option own_plugins[] = {own[0], own[1], CLI_END};
    cli_usage usage = {.own = backends_only ? own : own_plugins, .common = &f.common};
    const char *name = NULL;
    CLI_PARSE(&usage, &name);
    return run_command(&f, name, backends_only);
}

cli_status cmd_backends(int argc, char **argv)
{
    return list_command(true, argc, argv);
}

cli_status cmd_plugins(int argc, char **argv)
{
    return list_command(false, argc, argv);
}
