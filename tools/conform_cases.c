/* Test cases, skip lists; see conform_cases.h. */
#define _GNU_SOURCE
#include "tools/conform_cases.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- cases ---- */

static bool has_file(const char *dir, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, R_OK) == 0;
}

st_tolerance read_tolerance(const char *folder)
{
    char path[4096];
    char text[65536];
    st_tolerance out = ST_TOLERANCE_CHOSEN;
    (void)snprintf(path, sizeof path, "%s/case.json", folder);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return out;
    }
    const size_t n = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[n] = '\0';
    cJSON *root = cJSON_Parse(text);
    const cJSON *rtol = cJSON_GetObjectItem(root, "rtol");
    const cJSON *atol = cJSON_GetObjectItem(root, "atol");
    out.rtol = cJSON_IsNumber(rtol) ? rtol->valuedouble : out.rtol;
    out.atol = cJSON_IsNumber(atol) ? atol->valuedouble : out.atol;
    cJSON_Delete(root);
    return out;
}

static bool add_case(case_list *list, const char *root, const char *path)
{
    test_case *grown = realloc(list->items, (list->count + 1u) * sizeof *grown);
    ST_NEED(grown != NULL);
    list->items = grown;
    const char *name = path + strlen(root);
    name += strspn(name, "/");
    test_case *c = &list->items[list->count];
    *c = (test_case){.path = strdup(path), .name = strdup(name[0] != '\0' ? name : ".")};
    if (c->path == NULL || c->name == NULL) {
        free(c->path);
        free(c->name);
        return false;
    }
    char set[64];
    do {
        (void)snprintf(set, sizeof set, "test_data_set_%u", c->n_sets++);
    } while (has_file(path, set));
    c->n_sets--;
    c->tolerance = read_tolerance(path);
    list->count++;
    return true;
}

/* A folder with a case is not searched further; links are not followed. */
static bool walk(case_list *list, const char *root, const char *path, uint32_t depth)
{
    if (has_file(path, "model.onnx") && has_file(path, "test_data_set_0")) {
        return add_case(list, root, path);
    }
    DIR *dir = depth < 32 ? opendir(path) : NULL;
    bool ok = true;
    for (struct dirent *e = dir != NULL ? readdir(dir) : NULL; ok && e != NULL; e = readdir(dir)) {
        char child[4096];
        struct stat st;
        (void)snprintf(child, sizeof child, "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.' && lstat(child, &st) == 0 && S_ISDIR(st.st_mode)) {
            ok = walk(list, root, child, depth + 1);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return ok;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const test_case *)a)->name, ((const test_case *)b)->name);
}

bool find_cases(const char *dir, case_list *out, char *errbuf)
{
    *out = (case_list){0};
    if (!walk(out, dir, dir, 0)) {
        (void)snprintf(errbuf, 512, "out of memory");
        return false;
    }
    if (out->count > 1) {
        qsort(out->items, out->count, sizeof *out->items, by_name);
    }
    return true;
}

void free_cases(case_list *cases)
{
    for (uint32_t i = 0; i < cases->count; i++) {
        free(cases->items[i].path);
        free(cases->items[i].name);
    }
    free(cases->items);
    *cases = (case_list){0};
}

/* ---- skip lists ---- */

bool read_skips(const char *path, skip_list *out)
{
    char line[1024];
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        const size_t n = strcspn(line, " \t");
        if (n == 0 || line[0] == '#') {
            continue;
        }
        char **names = realloc(out->names, (out->count + 1u) * sizeof *names);
        out->names = names != NULL ? names : out->names;
        char **reasons = realloc(out->reasons, (out->count + 1u) * sizeof *reasons);
        out->reasons = reasons != NULL ? reasons : out->reasons;
        if (names == NULL || reasons == NULL) {
            break;
        }
        out->names[out->count] = strndup(line, n);
        out->reasons[out->count++] = strdup(line + n + strspn(line + n, " \t"));
    }
    return file != NULL && fclose(file) == 0;
}

void free_skips(skip_list *skips)
{
    for (uint32_t i = 0; i < skips->count; i++) {
        free(skips->names[i]);
        free(skips->reasons[i]);
    }
    free(skips->names);
    free(skips->reasons);
    *skips = (skip_list){0};
}

const char *skip_reason(const skip_list *skips, const char *name)
{
    for (uint32_t i = 0; i < skips->count; i++) {
        if (skips->names[i] != NULL && strcmp(skips->names[i], name) == 0) {
            return skips->reasons[i];
        }
    }
    return NULL;
}

/* ---- the backend ---- */

/* Name and file of the backend among the context's items. */
static bool find_item(stator_ctx *ctx, const char *name, const char *path, stator_item_info *out)
{
    const uint32_t count = stator_ctx_item_count(ctx);
    for (uint32_t i = 0; i < count; i++) {
        stator_item_info info = {.struct_size = sizeof info};
        if (stator_ctx_item_info(ctx, i, &info) == STATOR_OK && info.path != NULL &&
            strcmp(info.kind, "backend") == 0 &&
            (path != NULL ? strcmp(info.path, path) == 0 : strcmp(info.name, name) == 0)) {
            *out = info;
            return true;
        }
    }
    return false;
}

/* The list lies beside the plugin: <path without .so>.skip. */
static void skip_path_of(const char *plugin, char out[4096])
{
    const size_t len = strlen(plugin);
    (void)snprintf(out, 4096, "%.*s.skip", (int)(len > 3 ? len - 3 : len), plugin);
}

cli_status find_conform_backend(cli_common *common, const char *given, bool may_fall_back,
                                const char **out_name, skip_paths *out_paths)
{
    static char name[256]; /* lives as long as the command */
    char *file = strchr(given, '/') != NULL ? realpath(given, NULL) : NULL;
    if (file != NULL) {
        (void)setenv("STATOR_PLUGIN_FILES", file, 1);
    }
    stator_ctx *ctx = NULL;
    if (cli_open(common, &ctx) != STATOR_OK) {
        free(file);
        return cli_fail_ctx(NULL, common->json);
    }
    stator_item_info info = {.struct_size = sizeof info};
    stator_item_info eager = {.struct_size = sizeof eager};
    out_paths->own[0] = '\0';
    out_paths->reference[0] = '\0';
    (void)snprintf(name, sizeof name, "%s", given);
    if (find_item(ctx, given, file, &info)) {
        (void)snprintf(name, sizeof name, "%s", info.name);
        skip_path_of(info.path, out_paths->own);
    }
    if (strcmp(name, "eager") != 0 && find_item(ctx, "eager", NULL, &eager)) {
        skip_path_of(eager.path, out_paths->reference);
    }
    *out_name = name;
    cli_status status = CLI_OK;
    if (file != NULL && info.path == NULL) {
        status = cli_fail(common->json, "NOT_FOUND", "`stator plugins` says what the file is",
                          "'%s' holds no backend", given);
    } else if (info.state != NULL && strcmp(info.state, "AVAILABLE") != 0 && !may_fall_back) {
        status = cli_fail(common->json, "UNAVAILABLE", info.hint, "backend '%s' is %s: %s", name,
                          info.state, info.reason != NULL ? info.reason : "");
    } else if (info.path == NULL) {
        status = cli_unknown_backend(ctx, name, common->json);
    }
    stator_ctx_destroy(ctx);
    free(file);
    return status;
}
