/* stator build: a model as a shared object and a header that need no Stator (docs/build.md).
 *
 * The backend compiles the model for all sizes that it states and hands over machine code,
 * constants and a plan in C; beside them stand the public functions, and the C compiler links it
 * all. */
#include "tools/package/build.h"

#include <string.h>

typedef struct build {
    cli_graph g;
    cli_compile compile;
    cli_list options; /* options of the command line */
    const char *model, *output, *header, *name, *cpu, *cc, *sources, *backend;
    build_folder folder;
    build_ports ports;
    build_facts facts;
    char header_path[4096];
    char option_texts[2][64];
    st_mem mem;
    st_str header_text;
    st_str source_text;
    cJSON *in, *out;
} build;

/* ---- names ---- */

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* "digits" of "digits.so" or "libdigits.so". */
static void choose_name(build *b)
{
    char stem[256];
    const char *base = base_of(b->output);
    base += strncmp(base, "lib", 3) == 0 && strchr(base, '.') != base + 3 ? 3 : 0;
    (void)snprintf(stem, sizeof stem, "%.*s", (int)strcspn(base, "."), base);
    build_identifier(b->name != NULL ? b->name : stem, b->facts.name);
    memcpy(b->facts.upper, b->facts.name, sizeof b->facts.upper);
    for (char *c = b->facts.upper; *c != '\0'; c++) {
        *c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
    }
}

/* The library's path with the ending .h. */
static bool choose_header(build *b)
{
    const char *dot = strrchr(base_of(b->output), '.');
    const size_t stem = dot != NULL ? (size_t)(dot - b->output) : strlen(b->output);
    if (b->header == NULL) {
        (void)snprintf(b->header_path, sizeof b->header_path, "%.*s.h", (int)stem, b->output);
        b->header = b->header_path;
    }
    return strcmp(b->header, b->output) != 0 && strcmp(b->header, b->model) != 0 &&
           strcmp(b->output, b->model) != 0;
}

/* ---- the graph ---- */

static cJSON *json_ports(const build_ports *ports, const build_port *list, uint32_t n)
{
    cJSON *rows = cJSON_CreateArray();
    for (uint32_t i = 0; i < n; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON *shape = cJSON_CreateArray();
        cJSON_AddStringToObject(row, "name", list[i].name);
        cJSON_AddStringToObject(row, "dtype", list[i].dtype);
        for (uint32_t a = 0; a < list[i].rank; a++) {
            int64_t size = 0;
            const bool is_number = stator_sym_is_const(ports->v, list[i].dims[a], &size);
            cJSON_AddItemToArray(shape, cli_json_size(is_number ? size : -1));
        }
        cJSON_AddItemToObject(row, "shape", shape);
        cJSON_AddItemToArray(rows, row);
    }
    return rows;
}

/* Writes what needs the graph, which lives for this call alone. */
static stator_status on_graph(void *self, const stator_graph *graph)
{
    build *b = self;
    if (!build_ports_init(&b->ports, stator_ctx_host(b->g.ctx), graph, b->g.common.json)) {
        b->folder.failed = true;
        return STATOR_CANCELLED;
    }
    b->facts.ports = &b->ports;
    build_header(&b->facts, &b->header_text);
    build_source(&b->facts, &b->source_text);
    b->in = json_ports(&b->ports, b->ports.in, b->ports.n_in);
    b->out = json_ports(&b->ports, b->ports.out, b->ports.n_out);
    if (!st_str_ok(&b->header_text) || !st_str_ok(&b->source_text)) {
        b->folder.failed = true;
        (void)cli_fail(b->g.common.json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
        return STATOR_CANCELLED;
    }
    return STATOR_OK;
}

/* ---- steps ---- */

/* Does the backend take these options? Nothing is compiled or said. */
static bool takes(const build *b, const char *option)
{
    const cli_compile compile = {.options = {.items = {option}, .count = option != NULL}};
    stator_function *function = cli_compile_model(b->g.ctx, b->g.model, &compile, b->backend, -1);
    stator_function_destroy(function);
    return function != NULL;
}

/* Says so where the backend is good for other things, but has no such code. */
static cli_status check_backend(const build *b)
{
    if (takes(b, b->option_texts[0]) || !takes(b, NULL)) {
        return CLI_OK;
    }
    return cli_fail(b->g.common.json, "UNSUPPORTED", "leave --backend out: inductor-cpu can",
                    "backend '%s' cannot build: it makes no code that runs without Stator",
                    b->backend);
}

static cli_status make_pieces(build *b)
{
    CLI_NEED(check_backend(b) == CLI_OK);
    const stator_package_sink sink = {
        .struct_size = sizeof sink, .self = &b->folder, .piece = build_folder_piece};
    stator_function *function =
        cli_compile_model(b->g.ctx, b->g.model, &b->compile, b->backend, b->g.common.json);
    CLI_NEED(function != NULL);
    const stator_status status = stator_x_package(function, on_graph, b, &sink);
    stator_function_destroy(function);
    return status == STATOR_OK ? CLI_OK
           : b->folder.failed  ? CLI_FAILED
                               : cli_fail_ctx(b->g.ctx, b->g.common.json);
}

static cli_status make_library(build *b)
{
    build_folder *folder = &b->folder;
    const bool ok =
        build_folder_add(folder, "package.h", b->header_text.data, b->header_text.len) &&
        build_folder_add(folder, "package.c", b->source_text.data, b->source_text.len) &&
        build_folder_link(folder, b->cc, b->facts.name, b->output) &&
        cli_write_file(b->header, b->header_text.data, b->header_text.len, b->g.common.json);
    return ok ? CLI_OK : CLI_FAILED;
}

static void report(build *b)
{
    const build_ports *p = &b->ports;
    if (!b->g.common.json) {
        (void)printf("%s, %s: %s_run, %u input%s, %u output%s, for processors: %s\n", b->output,
                     b->header, b->facts.name, p->n_in, p->n_in == 1 ? "" : "s", p->n_out,
                     p->n_out == 1 ? "" : "s", b->cpu);
        return;
    }
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "library", b->output);
    cJSON_AddStringToObject(root, "header", b->header);
    cJSON_AddStringToObject(root, "name", b->facts.name);
    cJSON_AddStringToObject(root, "cpu", b->cpu);
    cJSON_AddItemToObject(root, "inputs", b->in);
    cJSON_AddItemToObject(root, "outputs", b->out);
    b->in = NULL;
    b->out = NULL;
    cli_print_json(root);
}

static cli_status run_build(build *b)
{
    const int json = b->g.common.json;
    CLI_NEED(build_may_replace(b->output, json) && build_may_replace(b->header, json));
    CLI_TRY(cli_graph_open(&b->g, b->model));
    CLI_FAIL_IF(b->g.assumed[0] != '\0', json, "UNSUPPORTED", NULL,
                "values of inputs decide the model's shapes, so there is no one program");
    CLI_NEED(build_folder_open(&b->folder, b->output, b->sources));
    CLI_TRY(make_pieces(b));
    CLI_TRY(make_library(b));
    report(b);
    return CLI_OK;
}

static void end_build(build *b)
{
    if (b->folder.watch != NULL) {
        build_watch_lock(&b->folder);
        build_folder_close(&b->folder);
        build_watch_unlock(&b->folder);
        build_watch_end(&b->folder);
    }
    build_ports_deinit(&b->ports);
    st_str_deinit(&b->header_text);
    st_str_deinit(&b->source_text);
    cJSON_Delete(b->in);
    cJSON_Delete(b->out);
    cli_graph_close(&b->g);
}

/* An option that is not the user's, with what to give instead; NULL: there is none. */
static const char *find_own(const cli_list *options)
{
    for (uint32_t i = 0; i < options->count; i++) {
        if (strncmp(options->items[i], "target=", 7) == 0) {
            return "the target of a package is self_contained: leave --backend-option target out";
        }
        if (strncmp(options->items[i], "cpu=", 4) == 0) {
            return "write --cpu LEVEL for --backend-option cpu=LEVEL";
        }
    }
    return NULL;
}

/* Compiler flags of every package, then the user's own. */
static bool set_options(build *b)
{
    cli_list *list = &b->compile.options;
    (void)snprintf(b->option_texts[0], sizeof b->option_texts[0], "target=self_contained");
    (void)snprintf(b->option_texts[1], sizeof b->option_texts[1], "cpu=%.50s", b->cpu);
    *list = b->options;
    if (list->count + 2u > sizeof list->items / sizeof list->items[0]) {
        return false;
    }
    list->items[list->count++] = b->option_texts[0];
    list->items[list->count++] = b->option_texts[1];
    return true;
}

cli_status cmd_build(int argc, char **argv)
{
    build b = {.g = {.inputs = {.random = -1}},
               .cpu = "native",
               .cc = "cc",
               .backend = "inductor-cpu",
               .folder = BUILD_FOLDER_NONE};
    const cli_option own[] = {
        {"--output", CLI_TEXT, &b.output, "LIB.so", "the library (-o)"},
        {"--header", CLI_TEXT, &b.header, "FILE.h", "its header (default: LIB.h)"},
        {"--name", CLI_TEXT, &b.name, "NAME", "prefix of its functions (default: LIB)"},
        {"--cpu", CLI_TEXT, &b.cpu, "LEVEL", "native, x86-64, x86-64-v2, -v3 or -v4"},
        {"--cc", CLI_TEXT, &b.cc, "CC", "the C compiler (default: cc)"},
        {"--sources", CLI_TEXT, &b.sources, "DIR", "keep what is compiled in this folder"},
        {"--dim", CLI_SIZES, &b.g.inputs.dim, "N=8", "a number for a symbolic size"},
        {"--backend", CLI_TEXT, &b.backend, "NAME", "backend (default: inductor-cpu)"},
        {"--backend-option", CLI_PAIRS, &b.options, "K=V", "an option of the backend"},
        {"--pass-option", CLI_PASS_PAIRS, &b.options, "PASS:K=V", "an option of a plugin's pass"},
        CLI_END};
    cli_usage usage = {.own = own, .common = &b.g.common, .computes = true};
    CLI_PARSE(&usage, &b.model);
    CLI_MISUSED_IF(b.output == NULL, &usage, "-o LIB.so is missing");
    CLI_MISUSED_IF(!choose_header(&b), &usage, "model, library and header must be three files");
    b.facts.model = base_of(b.model);
    b.facts.cpu = b.cpu;
    choose_name(&b);
    const char *own_option = find_own(&b.options);
    CLI_MISUSED_IF(own_option != NULL, &usage, "%s", own_option);
    CLI_MISUSED_IF(!set_options(&b), &usage, "too many options");
    st_mem_init(&b.mem, NULL, NULL, NULL, 0);
    st_str_init(&b.header_text, &b.mem);
    st_str_init(&b.source_text, &b.mem);
    const cli_status status =
        build_watch_begin(&b.folder)
            ? run_build(&b)
            : cli_fail(b.g.common.json, "RESOURCE_EXHAUSTED", NULL, "no thread can be made");
    end_build(&b);
    return status;
}
