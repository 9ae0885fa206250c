/* A test backend that stands over another one, whose executables are its own: what such backends
 * share. An instance begins with an `over`; the slots below go to the inner backend as they are. */
#ifndef STATOR_TESTS_OVER_BACKEND_H
#define STATOR_TESTS_OVER_BACKEND_H

#include <stator/plugin.h>

#include <string.h>

typedef struct over {
    const stator_host *host;
    stator_instance *inner;
} over;

#define OVER_OPTION(key_, type_, default_, help_)                                                  \
    {                                                                                              \
        .struct_size = sizeof(stator_option_desc), .type = (type_), .key = (key_),                 \
        .default_text = (default_), .help = (help_)                                                \
    }

static inline stator_status over_fail(const stator_host *host, stator_diag **err,
                                      stator_status code, const char *text)
{
    if (err != NULL && *err == NULL) {
        *err = host->diag->create(code, text, strlen(text));
    }
    return code;
}

static inline char *over_copy(const stator_host *host, const char *text)
{
    char *copy = host->mem->alloc(host->ctx, strlen(text) + 1, 1);
    return copy != NULL ? strcpy(copy, text) : NULL;
}

/* Is the word in a comma-separated list? */
static inline int over_has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
        if (strcspn(at, ",") == n && strncmp(at, word, n) == 0) {
            return 1;
        }
    }
    return 0;
}

static inline stator_status over_capability(void *inst, const stator_graph *graph,
                                            const stator_capability_sink *sink, stator_diag **err)
{
    const over *o = inst;
    const stator_host *host = o->host;
    const uint64_t n = host->ir->view(graph)->n_nodes;
    uint8_t *accepts = host->mem->alloc(host->ctx, n + 1u, 16);
    if (accepts == NULL) {
        return over_fail(host, err, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    }
    memset(accepts, 0, n + 1u);
    const stator_status status = host->nested->capability(o->inner, graph, accepts, err);
    for (stator_ref node = 1; status == STATOR_OK && node <= n; node++) {
        if (accepts[node]) {
            sink->yes(sink->self, node, 0);
        } else {
            sink->no(sink->self, node, STATOR_UNSUPPORTED, "the inner backend does not run it");
        }
    }
    host->mem->free(host->ctx, accepts);
    return status;
}

static inline stator_status over_compile(void *inst, const stator_graph *graph,
                                         stator_fuel_scope *fuel, void **out_exe, stator_diag **err)
{
    const over *o = inst;
    (void)fuel;
    return o->host->nested->compile(o->inner, graph, out_exe, err);
}

static inline stator_status over_exe_info(void *inst, void *exe, stator_exe_info *out)
{
    const over *o = inst;
    return o->host->nested->exe_info(o->inner, exe, out);
}

static inline stator_status over_exe_run(void *inst, void *exe, const stator_call *call,
                                         stator_diag **err)
{
    const over *o = inst;
    return o->host->nested->run(o->inner, exe, call, err);
}

static inline void over_exe_destroy(void *inst, void *exe)
{
    const over *o = inst;
    o->host->nested->exe_destroy(o->inner, exe);
}

#endif
