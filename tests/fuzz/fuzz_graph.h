/* Shared by the fuzz targets of the written forms: bytes to a graph, and the property that what
 * was read prints to text that reads back and prints to the same bytes, in both forms. A broken
 * property aborts, which is how a fuzzer counts a finding. */
#ifndef STATOR_FUZZ_GRAPH_H
#define STATOR_FUZZ_GRAPH_H

#include "ir/binary.h"
#include "ir/text/text.h"
#include "ir/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_MEMORY_LIMIT (UINT64_C(1) << 28) /* inputs are small, so must be their graphs */

typedef struct fuzz_world {
    st_mem mem;
    st_optable ops;
    int is_ready;
} fuzz_world;

static void fuzz_die(const char *what, const stator_diag *err)
{
    fprintf(stderr, "%s: %s\n", what, st_diag_text(err));
    abort();
}

static void fuzz_world_init(fuzz_world *w)
{
    stator_diag *err = NULL;
    if (w->is_ready) {
        return;
    }
    st_mem_init(&w->mem, NULL, NULL, NULL, FUZZ_MEMORY_LIMIT);
    if (st_optable_init(&w->ops, &w->mem, &err) != STATOR_OK) {
        fuzz_die("op table", err);
    }
    w->is_ready = 1;
}

/* The graph, or NULL with *out_module NULL and the reason in *err. */
static stator_graph *fuzz_read(fuzz_world *w, const void *bytes, uint64_t len,
                               st_module **out_module, stator_diag **err)
{
    stator_builder *b = NULL;
    stator_graph *graph = NULL;
    stator_status status = st_module_create(&w->mem, NULL, &w->ops, out_module, err);
    if (status == STATOR_OK) {
        status = st_builder_create(*out_module, "main", &b, err);
    }
    if (status == STATOR_OK) {
        status = st_is_binary(bytes, len) ? st_parse_binary(b, bytes, len, NULL, err)
                                          : st_parse_text(b, bytes, len, "fuzz", NULL, err);
        if (status == STATOR_OK) {
            status = st_builder_finish(b, &graph, err);
        } else {
            st_builder_abort(b);
        }
    }
    if (status != STATOR_OK) {
        st_module_destroy(*out_module);
        *out_module = NULL;
        return NULL;
    }
    return graph;
}

/* `bytes` must read back and print as `expected`. */
static void fuzz_expect(fuzz_world *w, const st_str *bytes, const st_str *expected)
{
    st_module *module = NULL;
    stator_diag *err = NULL;
    st_str text;
    stator_graph *graph = fuzz_read(w, bytes->data, bytes->len, &module, &err);
    if (graph == NULL) {
        fuzz_die("what was written cannot be read", err);
    }
    st_str_init(&text, &w->mem);
    if (st_print_graph(graph, NULL, &text, &err) != STATOR_OK) {
        fuzz_die("what was read cannot be printed", err);
    }
    if (text.len != expected->len || memcmp(text.data, expected->data, text.len) != 0) {
        fprintf(stderr, "---- first\n%s---- second\n%s", expected->data, text.data);
        fuzz_die("not the same text", NULL);
    }
    st_str_deinit(&text);
    st_module_destroy(module);
}

/* Reads input; nothing may be left allocated afterwards. */
static void fuzz_one(fuzz_world *w, const uint8_t *bytes, size_t len)
{
    st_module *module = NULL;
    stator_diag *err = NULL;
    st_str text, binary;
    fuzz_world_init(w);
    const uint64_t live = w->mem.live_blocks;
    stator_graph *graph = fuzz_read(w, bytes, len, &module, &err);
    if (graph != NULL) {
        st_str_init(&text, &w->mem);
        st_str_init(&binary, &w->mem);
        (void)st_verify(graph, NULL);
        if (st_print_graph(graph, NULL, &text, &err) == STATOR_OK &&
            st_write_binary(graph, &binary, &err) == STATOR_OK) {
            fuzz_expect(w, &text, &text);
            fuzz_expect(w, &binary, &text);
        }
        st_str_deinit(&text);
        st_str_deinit(&binary);
        st_module_destroy(module);
    }
    st_diag_release(err);
    if (w->mem.live_blocks != live) {
        fuzz_die("memory is left", NULL);
    }
}

#endif
