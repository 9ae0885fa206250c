/* The binary form (.stirb): versioned, mappable, safe to read from an untrusted source.
 * docs/stirb.md has the layout. */
#ifndef STATOR_IR_BINARY_H
#define STATOR_IR_BINARY_H

#include "ir/graph.h"

#define ST_STIRB_MAGIC "STIRB\0\0\1"

stator_status st_write_binary(const stator_graph *graph, st_str *out, stator_diag **err);
/* The same with all symbols of the module, so that in a fresh module each has the place that it has
 * here. */
stator_status st_write_binary_symbols(const stator_graph *graph, st_str *out, stator_diag **err);
bool st_is_binary(const void *bytes, uint64_t size);
/* Blobs in the file become ranges of `path` when path is not NULL (mapped, not copied), copies
 * otherwise. */
stator_status st_parse_binary(stator_builder *b, const void *bytes, uint64_t size, const char *path,
                              stator_diag **err);

#endif
