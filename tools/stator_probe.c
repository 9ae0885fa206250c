/* stator-probe PLUGIN.so KIND NAME: loads one item of one plugin, probes it, and writes what it saw
 * to file descriptor 3 as lines "key TAB value" (see core/plugins/registry_probe.c). Started by
 * libstator so that a plugin that crashes takes this process with it and nothing else. */
#define _GNU_SOURCE
#include <stator/stator.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ANSWER_FD = 3, PATH_SIZE = 4096 };

static void put(FILE *out, const char *text)
{
    for (; text != NULL && *text != '\0'; text++) {
        fputc(*text == '\t' || *text == '\n' ? ' ' : *text, out);
    }
}

static void put_line(FILE *out, const char *key, const char *value)
{
    fprintf(out, "%s\t", key);
    put(out, value);
    fputc('\n', out);
}

static void put_item(FILE *out, const stator_item_info *info)
{
    put_line(out, "state", info->state);
    if (info->reason != NULL) {
        put_line(out, "reason", info->reason);
    }
    if (info->hint != NULL) {
        put_line(out, "hint", info->hint);
    }
    for (uint32_t i = 0; i < info->device_count; i++) {
        const stator_device_info *d = &info->devices[i];
        fprintf(out, "device\t%u\t%llu\t", d->id, (unsigned long long)d->memory_bytes);
        put(out, d->name);
        fputc('\t', out);
        put(out, d->arch);
        fputc('\n', out);
    }
    fflush(out);
}

/* Index of the item, or the count when it is not found. */
static uint32_t find_item(stator_ctx *ctx, char **argv, stator_item_info *info)
{
    const uint32_t n = stator_ctx_item_count(ctx);
    uint32_t i = 0;
    for (; i < n; i++) {
        info->struct_size = sizeof *info;
        if (stator_ctx_item_info(ctx, i, info) == STATOR_OK && info->path != NULL &&
            strcmp(info->path, argv[1]) == 0 && strcmp(info->kind, argv[2]) == 0 &&
            strcmp(info->name, argv[3]) == 0) {
            break;
        }
    }
    return i;
}

static bool probe(stator_ctx *ctx, char **argv, FILE *out)
{
    stator_item_info info = {.struct_size = sizeof info};
    if (stator_ctx_scan(ctx) != STATOR_OK) {
        return false;
    }
    const uint32_t index = find_item(ctx, argv, &info);
    if (index == stator_ctx_item_count(ctx) || stator_ctx_item_probe(ctx, index) != STATOR_OK ||
        stator_ctx_item_info(ctx, index, &info) != STATOR_OK) {
        return false;
    }
    put_item(out, &info);
    return true;
}

int main(int argc, char **argv)
{
    static char folder[PATH_SIZE];
    if (argc != 4) {
        fprintf(stderr, "usage: stator-probe PLUGIN.so KIND NAME   (started by libstator)\n");
        return 3;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    FILE *out = fdopen(ANSWER_FD, "w");
    if (out == NULL) {
        out = stdout; /* started by hand */
    }
    /* A path with ':' cannot be named in STATOR_PLUGIN_FILES: its folder is searched instead. */
    const char *slash = strrchr(argv[1], '/');
    const char *const folders[] = {folder};
    stator_ctx_options options = {.struct_size = sizeof options, .flags = STATOR_CTX_PROBE_HERE};
    if (slash != NULL && getenv("STATOR_PLUGIN_FILES") == NULL) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - argv[1]), argv[1]);
        options.plugin_dirs = folders;
        options.plugin_dir_count = 1;
    }
    stator_ctx *ctx = NULL;
    if (stator_ctx_create(&options, &ctx) != STATOR_OK) {
        return 1;
    }
    const bool is_probed = probe(ctx, argv, out);
    stator_ctx_destroy(ctx); /* shutdown is part of what is probed */
    if (is_probed) {
        fputs("end\n", out);
        fflush(out);
    }
    return is_probed ? 0 : 1;
}
