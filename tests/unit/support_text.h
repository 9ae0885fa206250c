/* Graphs from text and back, for the tests of the written forms. */
#ifndef STATOR_TEST_SUPPORT_TEXT_H
#define STATOR_TEST_SUPPORT_TEXT_H

#include "ir/binary.h"
#include "ir/text/text.h"

/* One account and one op table. */
typedef struct text_world {
    st_mem mem;
    st_optable ops;
} text_world;

/* A module with one finished graph. */
typedef struct text_graph {
    st_module *module;
    stator_graph *graph;
} text_graph;

void text_world_init(text_world *w);
void text_world_deinit(text_world *w); /* fails the test when memory is left */

/* Parses text, or the binary form when it is that. dir as in st_parse_text; path as in
 * st_parse_binary. */
stator_status text_read(text_world *w, const void *bytes, uint64_t len, const char *dir,
                        const char *path, text_graph *out, stator_diag **err);
/* The same of text that can be read, or the test fails. */
text_graph text_read_good(text_world *w, const char *text);
void text_graph_free(text_graph *g);
/* The graph's text; the caller frees it with st_free(&w->mem, ...). NULL on failure. */
char *text_print(text_world *w, const stator_graph *graph, uint64_t *out_len, stator_diag **err);
/* Reads `text`, prints it and compares with `expected`; then the same through the binary form. */
void text_check(text_world *w, const char *text, const char *expected);
/* Reads bytes, and when that works prints, reads, prints again (both forms) and compares. Returns
 * the status of the first reading. Prints the first difference and fails the test. */
stator_status text_check_stable(text_world *w, const void *bytes, uint64_t len);

/* xorshift64* (Vigna, 2016). */
uint64_t text_random(uint64_t *state);

#endif
