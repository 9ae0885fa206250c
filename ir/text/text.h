/* The text form (.stir). docs/stir.md has the grammar. print(parse(t)) == t for printed text. */
#ifndef STATOR_IR_TEXT_H
#define STATOR_IR_TEXT_H

#include "ir/graph.h"

enum st_print_flag {
    ST_PRINT_HASHES = 1u << 0 /* large constants as hash(...), which parses but cannot run */
};

/* Appends the graph's text. Constants above 64 elements are written through `place` (which stores
 * the bytes somewhere and gives path and offset for file("path", offset, size)), or as hash(...)
 * when place is NULL. */
typedef struct st_print_options {
    uint32_t flags;
    stator_status (*place)(void *self, stator_blob *blob, const char **out_path,
                           uint64_t *out_offset, stator_diag **err);
    void *self;
} st_print_options;

stator_status st_print_graph(const stator_graph *graph, const st_print_options *options,
                             st_str *out, stator_diag **err);
/* Parses one graph into a fresh root builder. dir: folder file("...") may name, NULL: refused. */
stator_status st_parse_text(stator_builder *b, const char *text, uint64_t len,
                            const char *file_name, const char *dir, stator_diag **err);

/* Is the row what the builder fills in when the attribute is not given? Both written forms leave it
 * out then. */
bool st_attr_is_default(const stator_graph_view *v, const stator_attr_desc *schema,
                        const stator_attr_row *row);

#endif
