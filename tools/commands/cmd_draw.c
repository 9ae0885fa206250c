/* stator draw: a picture of a model's graph. Graphviz (libgvc) places it and writes SVG, PNG or
 * PDF; .dot is the text that Graphviz would have read and needs nothing. */
#include "tools/cli/cli.h"

#include "tools/draw/draw.h"

#include <string.h>

static cli_status write_bytes(const cli_graph *g, const char *path, const char *bytes, size_t size)
{
    return cli_write_file(path, bytes, size, g->common.json) ? CLI_OK : CLI_FAILED;
}

static cli_status render(const cli_graph *g, const char *dot, const char *format, const char *path)
{
    draw_picture picture;
    CLI_FAIL_IF(!draw_render(dot, format, &picture), g->common.json,
                picture.is_missing ? "UNAVAILABLE" : "INTERNAL",
                picture.is_missing ? "write a .dot file and draw it with `dot -Tsvg`" : NULL,
                "'%s' cannot be drawn: %s", path, picture.why);
    const cli_status status = write_bytes(g, path, picture.bytes, picture.size);
    draw_picture_free(&picture);
    return status;
}

/* ---- the command ---- */

/* Format by the ending of the path: "svg", "png", "pdf", "dot", or NULL. */
static const char *format_of(const char *path)
{
    static const char *const formats[] = {"svg", "png", "pdf", "dot"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot != NULL && i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(dot + 1, formats[i]) == 0) {
            return formats[i];
        }
    }
    return NULL;
}

static cli_status draw(const cli_graph *g, const char *model_path, const char *output)
{
    const char *format = format_of(output);
    const char *slash = strrchr(model_path, '/');
    st_mem mem;
    st_str dot;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_str_init(&dot, &mem);
    draw_graph(&dot, stator_ctx_host(g->ctx), stator_model_graph(g->model),
               slash != NULL ? slash + 1 : model_path);
    cli_status status = CLI_OK;
    if (!st_str_ok(&dot)) {
        status = cli_fail(g->common.json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    } else if (strcmp(format, "dot") == 0) {
        status = write_bytes(g, output, dot.data, dot.len);
    } else {
        status = render(g, dot.data, format, output);
    }
    if (status == CLI_OK && g->common.json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddStringToObject(root, "file", output);
        cJSON_AddStringToObject(root, "format", format);
        cli_graph_print_json(g, root);
    }
    st_str_deinit(&dot);
    return status;
}

cli_status cmd_draw(int argc, char **argv)
{
    cli_graph g = {.inputs = {.random = -1}, .is_tidy = true};
    const char *output = NULL;
    const cli_option own[] = {
        {"--output", CLI_TEXT, &output, "FILE", "FILE.svg, .png, .pdf, or .dot for the text (-o)"},
        CLI_END};
    cli_usage usage = {.own = own, .stage = &g.stage, .inputs = &g.inputs, .common = &g.common};
    const char *path = NULL;
    CLI_PARSE(&usage, &path);
    CLI_MISUSED_IF(output == NULL, &usage, "-o FILE is missing");
    CLI_FAIL_IF(format_of(output) == NULL, g.common.json, "INVALID_ARGUMENT", NULL,
                "'%s' ends in none of .svg, .png, .pdf and .dot", output);
    cli_status status = cli_graph_open(&g, path);
    if (status == CLI_OK) {
        status = draw(&g, path, output);
    }
    cli_graph_close(&g);
    return status;
}
