/* A module: the interned pools that a root graph and its regions share, and the graphs themselves.
 * Pools only grow; nothing in them moves or changes. One thread writes a module at a time (each
 * compile works on its own copy, st_module_clone). */
#ifndef STATOR_IR_MODULE_H
#define STATOR_IR_MODULE_H

#include "core/base/arena.h"
#include "core/base/diag.h"
#include "core/base/map.h"
#include "core/base/seg.h"
#include "core/base/sym/sym.h"
#include "ir/optable.h"
#include <stator/ir.h>

typedef struct st_module {
    st_mem *mem;
    stator_ctx *ctx; /* passed through to plugins, never dereferenced in ir */
    const st_optable *ops;
    st_arena arena; /* string bytes, graph structs */
    st_symtab symtab;
    st_seg types, attrs, refs, i64s, f64s, strings, origins, regions, blobs;
    st_hashset string_set, type_set, list_set;
    st_hashset i64_set, f64_set, blob_set, content_set;
    struct stator_graph *graphs; /* all graphs of the module, by `next` */
    struct stator_graph *root;   /* the last finished graph that is no region */
    uint32_t n_graphs;
    /* While a frontend writes it: sizes of inputs that take the place of those the file states. */
    const struct st_size_plan *plan;
    struct st_baked_in *baked_in; /* while numbers of a file are read as sizes (baked_in.h) */
    uint32_t n_read_as_sizes;     /* how many were */
} st_module;

/* Blobs are those of core/base/blob.h; the module holds one reference to each. */

stator_status st_module_create(st_mem *mem, stator_ctx *ctx, const st_optable *ops,
                               st_module **out_module, stator_diag **err);
void st_module_destroy(st_module *module);
/* A copy that shares blobs; value and node refs of every graph are the same in the copy. */
stator_status st_module_clone(const st_module *from, st_module **out_module, stator_diag **err);

uint32_t st_module_string(st_module *m, const char *s,
                          uint64_t n);                          /* interned; 0: memory, or n = 0 */
const char *st_module_str(const st_module *m, uint32_t string); /* "" for 0 */
uint32_t st_module_type(st_module *m, stator_dtype dtype, uint32_t rank, const stator_ref *dims);
uint32_t st_module_blob(st_module *m,
                        stator_blob *blob); /* retains; interned by content when small */
stator_blob *st_module_blob_at(const st_module *m, uint32_t blob);
/* A small blob with these bytes that the module already holds, else a new one; 0: out of memory. */
uint32_t st_module_blob_of_bytes(st_module *m, const void *data, uint64_t size);
uint32_t st_module_refs(st_module *m, const uint32_t *refs, uint32_t n); /* appends; begin index */
/* Lists of attributes and dims, interned: the begin index in *out; 0 when memory runs out. */
bool st_module_ref_list(st_module *m, const uint32_t *refs, uint32_t n, uint32_t *out);
bool st_module_i64_list(st_module *m, const int64_t *values, uint32_t n, uint32_t *out);
bool st_module_f64_list(st_module *m, const double *values, uint32_t n, uint32_t *out);
uint32_t st_module_origin(st_module *m, const char *name, const char *kind, const char *file,
                          uint32_t line);
/* st_module_refs reports no memory as UINT32_MAX. */
/* The union of two origins (a merged node's). */
uint32_t st_module_origin_merge(st_module *m, uint32_t a, uint32_t b);
/* The names of an origin, each behind a mark, STATOR_BACKWARD_OF or STATOR_RECOMPUTED; the op's
 * where the node has none. */
uint32_t st_module_origin_marked(st_module *m, uint32_t origin, const char *mark, const char *op);
/* The origin of what the gradient of a node adds. */
uint32_t st_module_origin_backward(st_module *m, uint32_t origin, const char *op);
/* Says in *err, where there is one, which node of the model an error is about. */
void st_module_note_origin(const st_module *m, uint32_t origin, stator_diag **err);
/* Text of a type: "f32[N, 3, 224, 224]". */
void st_module_print_type(const st_module *m, uint32_t type, st_str *out);

#endif
