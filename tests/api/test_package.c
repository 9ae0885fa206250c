/* stator_x_package: the pieces of a package, what is refused and by whom, and the n-th allocation
 * failing for every n: RESOURCE_EXHAUSTED, nothing lost, and the next one works. Passes with
 * a line when this build has no code generator. */
#include "api_check.h"

static const char text[] = "stir 1\n"
                           "sym N in [0, inf]\n"
                           "graph @main(%x: f32[N, 4], %w: f32[4, 4]) {\n"
                           "  %c = constant {value = f32[4] {1, 2, 3, 4}} : f32[4]\n"
                           "  %m = matmul(%x, %w) : f32[N, 4]\n"
                           "  %s = add(%m, %c) : f32[N, 4]\n"
                           "  %t = softmax(%s) {axis = 1} : f32[N, 4]\n"
                           "  return y: %t\n"
                           "}\n";

static const char loop_text[] = "stir 1\n"
                                "graph @main(%p: bool[], %x: f32[4]) {\n"
                                "  %r = cond(%p, %x) : f32[4] @\"the branch\":If\n"
                                "    region @then(%a: f32[4]) {\n"
                                "      %b = neg(%a) : f32[4]\n"
                                "      return %b\n"
                                "    }\n"
                                "    region @else(%a: f32[4]) {\n"
                                "      return %a\n"
                                "    }\n"
                                "  return y: %r\n"
                                "}\n";

static const char scan_text[] =
    "stir 1\n"
    "sym N in [0, inf]\n"
    "graph @main(%h: f32[N, 4], %x: f32[7, N, 4]) {\n"
    "  %w = constant {value = f32[4] {1, 2, 3, 4}} : f32[4]\n"
    "  %f, %y = scan(%h, %x, %w) {carried = 1, scanned = 1, stacked = 1}\n"
    "    region @body(%a: f32[N, 4], %s: f32[N, 4], %v: f32[4]) {\n"
    "      %1 = add(%a, %s)\n"
    "      %2 = mul(%1, %v)\n"
    "      %3 = softmax(%2) {axis = 1}\n"
    "      return %3, %1\n"
    "    }\n"
    "  return y: %y, f: %f\n"
    "}\n";

typedef struct count {
    uint32_t sources, objects, data, graphs;
    uint32_t has_plan, has_cpu, has_needs;
    uint64_t data_bytes;
    stator_status answer; /* to pieces */
    stator_status graph_answer;
} count;

static stator_status on_piece(void *self, uint32_t kind, const char *name, const void *bytes,
                              uint64_t size)
{
    count *c = self;
    CHECK(name != NULL && name[0] != '\0' && bytes != NULL && size > 0);
    c->sources += kind == STATOR_PACKAGE_C;
    c->objects += kind == STATOR_PACKAGE_OBJECT;
    c->data += kind == STATOR_PACKAGE_DATA;
    c->data_bytes += kind == STATOR_PACKAGE_DATA ? size : 0;
    c->has_plan |= strcmp(name, "plan") == 0;
    c->has_cpu |= strcmp(name, "cpu") == 0;
    c->has_needs |= strcmp(name, "needs") == 0;
    if (kind == STATOR_PACKAGE_OBJECT) {
        CHECK(size > 4 && memcmp(bytes,
                                 "\x7f"
                                 "ELF",
                                 4) == 0);
    }
    return c->answer;
}

static stator_status on_graph(void *self, const stator_graph *graph)
{
    count *c = self;
    c->graphs += graph != NULL;
    return c->graph_answer;
}

typedef struct request {
    const char *text, *backend;
    const char *key, *value; /* an option, or NULL */
    uint64_t fail_at;
    char message[400];
    uint64_t requests;
} request;

static stator_status make(request *r, count *c)
{
    stator_ctx *ctx = NULL;
    stator_model *model = NULL;
    stator_function *function = NULL;
    const stator_ctx_options options = {.struct_size = sizeof options, .threads = 1};
    const stator_load_options load = {.struct_size = sizeof load, .flags = 1};
    const stator_compile_options compile = {.struct_size = sizeof compile,
                                            .backend = r->backend,
                                            .option_keys = &r->key,
                                            .option_values = &r->value,
                                            .option_count = r->key != NULL};
    const stator_package_sink sink = {.struct_size = sizeof sink, .self = c, .piece = on_piece};
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    CHECK(stator_ctx_scan(ctx) == STATOR_OK);
    stator_status status =
        stator_model_load_bytes(ctx, r->text, strlen(r->text), "p.stir", &load, &model);
    if (status == STATOR_OK) {
        status = stator_compile(model, &compile, &function);
    }
    if (status == STATOR_OK) {
        stator_x_fail_alloc_at(ctx, r->fail_at);
        status = stator_x_package(function, on_graph, c, &sink);
        r->requests = stator_x_alloc_requests(ctx);
        stator_x_fail_alloc_at(ctx, 0);
    }
    (void)snprintf(r->message, sizeof r->message, "%s",
                   status != STATOR_OK ? stator_ctx_error_text(ctx) : "");
    stator_function_destroy(function);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return status;
}

static void expect(request r, count c, stator_status want, const char *words)
{
    const stator_status status = make(&r, &c);
    if (status != want || strstr(r.message, words) == NULL) {
        (void)fprintf(stderr, "%s: %s\n", stator_status_name(status), r.message);
    }
    CHECK(status == want);
    CHECK(strstr(r.message, words) != NULL);
}

static void check_pieces(void)
{
    request r = {text, "inductor-cpu", "target", "self_contained", 0, "", 0};
    count c = {0};
    CHECK(make(&r, &c) == STATOR_OK);
    CHECK(c.graphs == 1 && c.has_plan && c.has_cpu && c.has_needs);
    CHECK(c.sources == 3 && c.objects >= 1);
    CHECK(c.data == 1 && c.data_bytes == 16);
    r.text = scan_text; /* the body has a source, an object and the constant */
    c = (count){0};
    CHECK(make(&r, &c) == STATOR_OK);
    CHECK(c.has_plan && c.sources == 4 && c.objects >= 1);
    CHECK(c.data == 1 && c.data_bytes == 16);
}

static void check_refusals(void)
{
    const request good = {text, "inductor-cpu", "target", "self_contained", 0, "", 0};
    request r = good;
    r.key = NULL;
    expect(r, (count){0}, STATOR_FAILED_PRECONDITION, "target=self_contained");
    r.backend = "eager";
    expect(r, (count){0}, STATOR_UNSUPPORTED, "'eager' makes no packages");
    r = good;
    r.text = loop_text;
    expect(r, (count){0}, STATOR_UNSUPPORTED, "cond 'the branch'");
    expect(good, (count){.answer = STATOR_CANCELLED}, STATOR_CANCELLED, "");
    expect(good, (count){.graph_answer = STATOR_ABORTED}, STATOR_ABORTED, "");
}

/* Every request from the first on. */
static void check_memory(const char *model)
{
    request r = {model, "inductor-cpu", "target", "self_contained", 0, "", 0};
    uint64_t failed = 0;
    for (uint64_t n = 1;; n++) {
        count c = {0};
        r.fail_at = n;
        const stator_status status = make(&r, &c);
        if (status != STATOR_OK && status != STATOR_RESOURCE_EXHAUSTED) {
            (void)fprintf(stderr, "request %llu: %s: %s\n", (unsigned long long)n,
                          stator_status_name(status), r.message);
        }
        CHECK(status == STATOR_OK || status == STATOR_RESOURCE_EXHAUSTED);
        failed += status != STATOR_OK;
        if (r.requests < n) {
            break;
        }
    }
    CHECK(failed > 50);
}

int main(void)
{
    request r = {text, "inductor-cpu", "target", "self_contained", 0, "", 0};
    count c = {0};
    if (make(&r, &c) == STATOR_UNAVAILABLE) {
        (void)printf("no code generator in this build: %s\n", r.message);
        return 0;
    }
    check_pieces();
    check_refusals();
    check_memory(text);
    check_memory(scan_text);
    check_pieces();
    return 0;
}
