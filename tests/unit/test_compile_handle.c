/* Two compiles at once in one context: what a job says and dumps on another thread lands in the
 * deferred lines and in the dump folder of its own compile. */
#define _GNU_SOURCE
#include "core/context/deferred_log.h"
#include "core/context/dump.h"
#include "core/plugins/plugin_call.h"
#include "tests/unit/support_text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS_MAX = 1000 }; /* of the job, until the caller and another thread took part in it */

typedef struct compiling {
    stator_ctx *ctx;
    const stator_graph *graph;
    const char *name;
    pthread_t caller;
    pthread_barrier_t *both;
    _Atomic bool is_called, is_helped; /* by the caller; by another thread */
    bool is_begun;
    uint32_t n_lines, n_own; /* deferred lines, and those that begin with the name */
} compiling;

static void say(void *self, int64_t begin, int64_t end)
{
    compiling *c = self;
    char text[64];
    const bool is_helper = !pthread_equal(pthread_self(), c->caller);
    const stator_log_api *log = c->ctx->host.log;
    (void)snprintf(text, sizeof text, "%s: %s", c->name, is_helper ? "helper" : "caller");
    log->write(c->ctx, ST_HINTS, 2, text);
    if (!is_helper) {
        c->is_called = true;
    } else if (!atomic_exchange(&c->is_helped, true) && log->is_dumping(c->ctx)) {
        log->dump(c->ctx, c->name, text, strlen(text));
    }
    (void)usleep((useconds_t)(100 * (end - begin)));
}

static void *compile(void *self)
{
    compiling *c = self;
    st_callee callee = {.name = "test"};
    st_plugin_call call;
    st_dump dump;
    st_deferred_log deferred;
    c->caller = pthread_self();
    c->is_begun = st_dump_begin(&dump, c->ctx, c->graph, c->name, NULL) == STATOR_OK;
    st_deferred_log_begin(&deferred, c->ctx);
    (void)pthread_barrier_wait(c->both); /* both compiles are in their middle */
    st_plugin_enter(&call, &callee, "compile");
    for (uint32_t i = 0; i < ROUNDS_MAX && !(c->is_called && c->is_helped); i++) {
        c->ctx->host.thr->parallel_for(c->ctx, 16, 1, say, c);
    }
    (void)st_plugin_leave(&call, STATOR_OK, NULL);
    (void)pthread_barrier_wait(c->both);
    c->n_lines = deferred.lines.count;
    for (uint32_t i = 0; i < c->n_lines; i++) {
        c->n_own += strncmp(deferred.lines.data[i], c->name, strlen(c->name)) == 0;
    }
    st_deferred_log_end(&deferred, true);
    st_dump_end(&dump);
    return NULL;
}

/* The text of folder/001-m-NAME/FILE; "" where there is none. */
static void read_file(const char *folder, const char *name, const char *file, char out[256])
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/001-m-%s/%s", folder, name, file);
    FILE *from = fopen(path, "r");
    out[from != NULL ? fread(out, 1, 255, from) : 0] = '\0';
    if (from != NULL) {
        (void)fclose(from);
    }
}

static void check(const compiling *c, const char *folder, const char *other)
{
    char text[256];
    char line[64];
    cr_assert(c->is_begun && c->is_called && c->is_helped, "%s: two threads took part", c->name);
    cr_expect(c->n_lines == 2 && c->n_own == 2, "%s: %u lines, %u its own", c->name, c->n_lines,
              c->n_own);
    (void)snprintf(line, sizeof line, "%s: helper", c->name);
    read_file(folder, c->name, c->name, text);
    cr_expect_str_eq(text, line, "%s: what the helper dumps", c->name);
    read_file(folder, c->name, "perf_hints.log", text);
    cr_expect(strstr(text, line) != NULL && strstr(text, other) == NULL, "%s: the log has '%s'",
              c->name, text);
    read_file(folder, c->name, other, text);
    cr_expect_str_empty(text, "%s: a file of %s", c->name, other);
}

static void ignore(void *self, const char *channel, uint32_t level, const char *text)
{
    (void)self, (void)channel, (void)level, (void)text;
}

Test(compile_handle, helpers_of_two_compiles_do_not_mix)
{
    char folder[] = "/tmp/stator-handle-XXXXXX";
    const stator_ctx_options options = {
        .struct_size = sizeof options, .flags = STATOR_CTX_NO_CACHE, .threads = 2, .log = ignore};
    stator_ctx *ctx = NULL;
    pthread_barrier_t both;
    pthread_t thread;
    text_world w;
    text_world_init(&w);
    text_graph g = text_read_good(&w, "stir 1\ngraph @m(%x: f32[2]) {\n  return y: %x\n}\n");
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(setenv("STATOR_DUMP", folder, 1), 0);
    cr_assert_eq(stator_ctx_create(&options, &ctx), STATOR_OK);
    cr_assert_eq(pthread_barrier_init(&both, NULL, 2), 0);
    compiling a = {.ctx = ctx, .graph = g.graph, .name = "first", .both = &both};
    compiling b = {.ctx = ctx, .graph = g.graph, .name = "second", .both = &both};
    cr_assert_eq(pthread_create(&thread, NULL, compile, &b), 0);
    (void)compile(&a);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    check(&a, folder, b.name);
    check(&b, folder, a.name);
    (void)pthread_barrier_destroy(&both);
    stator_ctx_destroy(ctx);
    text_graph_free(&g);
    text_world_deinit(&w);
    char command[64];
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}
