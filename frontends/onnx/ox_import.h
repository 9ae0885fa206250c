/* The state of one import, shared by the files that read the model (ox_model.c, ox_graph.c,
 * ox_tensors.c, ox_control.c). Operator families see it through onnx.h alone. */
#ifndef STATOR_FRONTEND_OX_IMPORT_H
#define STATOR_FRONTEND_OX_IMPORT_H

#include "core/base/diag.h"
#include "frontends/onnx/onnx.h"
#include "frontends/onnx/ox_wire.h"

/* A model-local function being called: whose attributes references name, whose operator sets hold.
 */
typedef struct ox_frame {
    const struct ox_frame *caller;
    const Onnx__FunctionProto *function;
    const Onnx__NodeProto *call; /* attributes of the caller's node */
    uint32_t depth;
} ox_frame;

static inline const char *ox_text(const char *s)
{ /* protobuf-c's absent strings are NULL */
    return s != NULL ? s : "";
}

typedef struct ox_name { /* a name of an environment */
    const char *text;
    stator_ref value;
} ox_name;

/* Contents of a small constant, kept so that the import can read it. */
typedef struct ox_data {
    stator_dtype dtype;
    uint32_t rank;
    uint64_t count;
    const int64_t *dims;
    const void *bytes;
} ox_data;

/* A graph being built: the root or a region. */
typedef struct ox_region {
    struct ox_region *parent;
    stator_builder *b;
    st_map data; /* value ref -> index + 1 into datas */
    st_vec(ox_data) datas;
    const stator_ref *captured; /* values of `parent` that region inputs first.. stand for */
    uint32_t captured_count;
    stator_ref first_captured; /* value ref of the first such input */
} ox_region;

struct ox_scope {
    ox_import *im;
    ox_region *region;
    ox_scope *outer;       /* looked in next when set: the same region's names */
    const ox_frame *frame; /* NULL outside functions */
    st_hashset set;
    st_vec(ox_name) names;
    uint32_t depth;
};

/* A sequence of tensors (ox_sequence.h): a list, or `stack` with the elements along axis 0. */
typedef struct ox_sequence {
    uint32_t count;
    const stator_ref *elements;
    stator_ref stack; /* 0: a list */
    stator_ref begun; /* in the body of a loop that carries it: the sequence that the iteration
                         began with; the list has what the iteration appended. 0 elsewhere */
} ox_sequence;

#define OX_SEQUENCE 0x80000000u /* such a ref stands for a sequence, not for a value */

typedef struct ox_symbol_name { /* a symbol and the dim_param it stands for */
    const char *symbol;
    const char *text;
} ox_symbol_name;

struct ox_import {
    const stator_host *host;
    const stator_source *source;
    const stator_options *options;
    stator_status status;
    stator_diag *diag;
    stator_diag *emit_diag; /* an emitter's failure, until its node ends */
    st_mem mem;             /* the host's memory */
    st_mem pb_mem;          /* protobuf-c's share of it, with a limit */
    uint32_t pb_refused;    /* protobuf-c asked for memory and got none */
    uint32_t mode_count;    /* nodes that the option `training` speaks of */
    char data_path[4096];   /* of the file beside the model that was told of last */
    st_arena arena;
    st_arena scratch; /* scratch of one ox_fold */
    ox_wire wire;
    Onnx__ModelProto *model;
    const char *file; /* for origins: the last part of the path */
    int64_t version;  /* version of the default domain in the model */
    ox_region root;
    ox_scope scope; /* names of the main graph */
    st_vec(ox_symbol_name) symbols;
    st_vec(const ox_sequence *) sequences; /* by ref less OX_SEQUENCE; arena memory */
    const Onnx__GraphProto *graph;
    const char *shapeless; /* the first input whose rank is taken from its value, not there yet */
    uint64_t node_count;   /* translated so far, functions counted at each call */
};

/* The name of the file, for origins and messages; "model" without a path. */
const char *ox_last_part(const char *path);
/* Memory for protobuf-c out of im->pb_mem, which has been made; refusals are remembered. */
ProtobufCAllocator ox_import_allocator(ox_import *im);
/* Keeps a failure that belongs to no node. */
stator_status ox_import_fail(ox_import *im, stator_status code, const char *format, ...)
    STATOR_PRINTF(3, 4);
/* The same where the condition holds. */
#define OX_FAIL_IF(condition, ...) ST_FAIL_BY_IF(ox_import_fail, condition, __VA_ARGS__)
/* Keeps the failure of a host call whose diag went to im->emit_diag, with `where` before its text.
 * True: the call went well. */
bool ox_import_check(ox_import *im, stator_status status, const char *where);
/* A failure of the node's emitter becomes the import's, with the node's name before its text. */
void ox_node_end(ox_node *n);
const char *ox_node_where(const ox_node *n); /* "node 'x' (Conv)"; arena memory */

/* ---- ox_scope.c ---- */
void ox_scope_init(ox_scope *s, ox_import *im, ox_region *region, ox_scope *outer,
                   const ox_frame *frame);
void ox_scope_deinit(ox_scope *s);
/* 1 when the name is bound, here or in an outer scope; a function's absent input is bound to 0. */
bool ox_scope_find(const ox_scope *s, const char *name, stator_ref *out);
bool ox_scope_has_own(const ox_scope *s, const char *name);
bool ox_scope_bind(ox_scope *s, const char *name, stator_ref value); /* 0: failed, kept */
void ox_region_deinit(ox_region *r, st_mem *mem);
/* Remembers the contents of a small constant (bytes are copied). */
void ox_region_keep(ox_import *im, ox_region *r, stator_ref v, stator_dtype dtype, uint32_t rank,
                    const int64_t *dims, const void *bytes, uint64_t size);
const ox_data *ox_region_data(const ox_region *r, stator_ref v); /* NULL: not kept */
/* Operator set of `domain` in force; 0 when it is not imported. */
int64_t ox_opset(const ox_import *im, const ox_frame *frame, const char *domain);
bool ox_is_default_domain(const char *domain);

/* ---- ox_sequence.c ---- */
const ox_sequence *ox_sequence_find(const ox_import *im, stator_ref v); /* NULL: a value */

/* ---- ox_survey.c ---- */
const ox_row *ox_row_find(const char *op_type);
const Onnx__FunctionProto *ox_function_find(const ox_import *im, const Onnx__NodeProto *node);
typedef bool (*ox_graph_fn)(void *self, const Onnx__GraphProto *graph);
/* Calls fn for each graph in the node's attributes while it gives 1; gives 1 when all did. */
bool ox_node_each_graph(const Onnx__NodeProto *node, ox_graph_fn fn, void *self);
/* Names every operator of the model that has no translation; checks operator sets and nesting. */
stator_status ox_survey(ox_import *im);

/* ---- ox_graph.c ---- */
/* Translates the nodes in order into the scope's region. */
void ox_graph_nodes(ox_scope *s, size_t n_nodes, Onnx__NodeProto *const *nodes);
/* Binds an output name to v in the scope: names the value, refuses a second definition. */
void ox_graph_define(ox_node *n, const char *name, stator_ref v);
/* Initialisers of a subgraph as constants. */
void ox_graph_constants(ox_scope *s, const Onnx__GraphProto *graph);

/* ---- ox_tensors.c ---- */
stator_dtype ox_import_dtype(int64_t onnx_type, const char **out_name);
/* Type and contents of a tensor. Contents of a mapped file's range come as a blob over it. */
typedef struct ox_tensor_value {
    stator_dtype dtype;
    uint32_t rank;
    const int64_t *dims;
    uint64_t count;
    uint64_t size_bytes;
    const void *bytes; /* contents in memory, or NULL when only `blob` has them */
    stator_blob *blob; /* owned by the caller; NULL when `bytes` is set */
} ox_tensor_value;
stator_status ox_tensor_read(ox_import *im, const Onnx__TensorProto *t, const char *what,
                             bool want_bytes, ox_tensor_value *out);
stator_ref ox_tensor_type(ox_import *im, stator_builder *b, const ox_tensor_value *v);
/* A constant node of the tensor in the region; 0 after failing. */
stator_ref ox_tensor_constant(ox_import *im, ox_region *r, const Onnx__TensorProto *t,
                              const char *what);
stator_ref ox_sparse_constant(ox_import *im, ox_region *r, const Onnx__SparseTensorProto *t,
                              const char *what);

/* ---- ox_external.c ---- */
stator_status ox_external_read(ox_import *im, const Onnx__TensorProto *t, const char *what,
                               uint64_t size_bytes, stator_blob **out_blob);

#endif
