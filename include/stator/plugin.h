/* The plugin border: the host table a plugin receives, the descriptors it hands back, its note.
 *
 * A plugin is one .so that links nothing of Stator and exports one symbol, stator_plugin_query_v1.
 * Its ELF note lets the host list it without running it. See docs/abi.md for the rules, the version
 * policy and the life-cycle; examples/backend-plugin is a whole one.
 *
 * Threads: query, probe, devices and capability may be called from any thread at once; create and
 * compile concurrently on different instances; exe_run concurrently on one executable unless
 * STATOR_BACKEND_SERIAL_RUN is set. The host calls plugins with no lock held.
 * Memory: the maker frees. Strings in descriptors live for ever (plugins are never unloaded).
 * Errors: a fallible slot returns a status and may put a host-made diag in *err (err may be NULL).
 */
#ifndef STATOR_PLUGIN_H
#define STATOR_PLUGIN_H

#include <stator/base.h>
#include <stator/dlpack.h>
#include <stator/ir.h>
#include <stator/source.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ======================= host sub-tables ======================= */

/* Accounted host memory. */
typedef struct stator_mem_api {
    uint32_t struct_size;
    uint32_t reserved;
    void *(*alloc)(stator_ctx *ctx, uint64_t size, uint64_t align); /* NULL when out of memory */
    void *(*realloc)(stator_ctx *ctx, void *p, uint64_t size, uint64_t align);
    void (*free)(stator_ctx *ctx, void *p); /* free(NULL) does nothing */
} stator_mem_api;

/* Errors: host-made, owned by whoever receives them through `err`. */
typedef struct stator_diag_api {
    uint32_t struct_size;
    uint32_t reserved;
    /* Never NULL: out of memory gives a static diag. */
    stator_diag *(*create)(stator_status code, const char *text, uint64_t text_len);
    void (*add_note)(stator_diag *diag, const char *node, const char *file, uint32_t line,
                     const char *text);
    void (*set_hint)(stator_diag *diag, const char *hint);
    const char *(*text)(const stator_diag *diag); /* borrowed from diag */
    const char *(*hint)(const stator_diag *diag); /* NULL: none */
    void (*release)(stator_diag *diag);
    /* Names a node of the graph that the failing call was given. compile() that answers
     * STATOR_NEED_FALLBACK names so the nodes that it does not want after all, each with a reason:
     * the host divides the graph again without them. */
    void (*add_node)(stator_diag *diag, stator_ref node, const char *reason);
} stator_diag_api;

struct stator_oplib_op; /* below */
struct stator_step_sink;

/* Reading graphs; see stator/ir.h. */
typedef struct stator_ir_api {
    uint32_t struct_size;
    uint32_t reserved;
    const stator_graph_view *(*view)(const stator_graph *graph); /* borrowed from graph */
    uint32_t (*find_op)(stator_ctx *ctx, const char *name);      /* op id, 0 unknown */
    uint32_t (*op_count)(stator_ctx *ctx);                       /* ids are 1..count */
    const stator_op_desc *(*op_desc)(stator_ctx *ctx, uint32_t op);
    /* Attribute by name, NULL when the op's schema has none of that name. */
    const stator_attr_row *(*attr)(const stator_graph *graph, stator_ref node, const char *name);
    /* All zeros when out of memory: then it tells nothing. */
    void (*structural_hash)(const stator_graph *graph, uint8_t out_hash[16]);
    /* Text of a graph: *out_text is host memory, free with mem->free. */
    stator_status (*print)(stator_ctx *ctx, const stator_graph *graph, char **out_text,
                           uint64_t *out_len, stator_diag **err);
    /* Parses text or binary form into the builder (root graphs only). `dir` is the folder that
     * file("...") constants may name, or NULL to refuse them. */
    stator_status (*parse)(stator_builder *builder, const char *bytes, uint64_t len,
                           const char *file_name, const char *dir, stator_diag **err);
    /* The op as its library registered it, with the library's self in *out_self; NULL for an op of
     * Stator's own. For backends that run its kernel; lives as long as ctx. */
    const struct stator_oplib_op *(*library_op)(stator_ctx *ctx, uint32_t op, void **out_self);
} stator_ir_api;

/* An attribute on its way into a node. `list` points at int64_t (INTS), double (FLOATS) or
 * stator_ref syms (DIMS). INTS given for a DIMS attribute are taken as constants; INT for FLOAT is
 * converted. */
typedef struct stator_attr {
    const char *name;
    uint32_t kind;
    uint32_t count;
    int64_t i;
    double f;
    const char *s;
    const void *list;
    stator_blob *blob;
} stator_attr;

/* A node to be built. The builder infers result types, fills defaults and verifies. */
typedef struct stator_node_desc {
    uint32_t struct_size;
    uint32_t op; /* op id */
    const stator_ref *operands;
    uint32_t operand_count;
    uint32_t attr_count;
    const stator_attr *attrs;
    stator_graph *const *regions; /* finished by region_end, same module; consumed */
    uint32_t region_count;
    uint32_t result_count;          /* for ops whose number of results is free; 0 = the schema's */
    const stator_ref *result_types; /* only for ops that cannot infer them, else NULL */
} stator_node_desc;

/* Writing graphs. The builder is valid for the callback that received it. */
typedef struct stator_build_api {
    uint32_t struct_size;
    uint32_t reserved;
    const stator_graph_view *(*view)(stator_builder *b); /* the graph so far; counts grow */
    stator_status (*input)(stator_builder *b, const char *name, stator_ref type, stator_ref *out,
                           stator_diag **err);
    /* A parameter: an input with a default. Retains the blob. */
    stator_status (*param)(stator_builder *b, const char *name, stator_ref type, stator_blob *blob,
                           stator_ref *out, stator_diag **err);
    stator_status (*node)(stator_builder *b, const stator_node_desc *desc, stator_ref *out_results,
                          stator_diag **err);
    /* A constant of `type` (all dimensions static) whose dense bytes are copied. */
    stator_status (*constant)(stator_builder *b, stator_ref type, const void *data, uint64_t size,
                              stator_ref *out, stator_diag **err);
    stator_status (*constant_blob)(stator_builder *b, stator_ref type, stator_blob *blob,
                                   stator_ref *out, stator_diag **err);
    stator_status (*output)(stator_builder *b, const char *name, stator_ref value,
                            stator_diag **err);
    /* Declares that input's buffer receives `value` when the call ends. */
    stator_status (*write_back)(stator_builder *b, stator_ref input, stator_ref value,
                                stator_diag **err);
    /* Evaluates an expression program (docs/expr.md), e.g. "mul(x, sigmoid(x))", over named
     * operands. names[i] is bound to values[i] (0 = absent optional operand); attrs are visible by
     * name. The number of values the program returns must be n_out. */
    stator_status (*expr)(stator_builder *b, const char *program, uint32_t n_names,
                          const char *const *names, const stator_ref *values, uint32_t n_attrs,
                          const stator_attr *attrs, uint32_t n_out, stator_ref *out,
                          stator_diag **err);
    /* A child builder for a region of a node to come, in the same module. region_end finishes it
     * and gives the graph to name in stator_node_desc.regions; region_abort drops it. */
    stator_status (*region_begin)(stator_builder *b, const char *name, stator_builder **out,
                                  stator_diag **err);
    stator_status (*region_end)(stator_builder *region, stator_graph **out, stator_diag **err);
    void (*region_abort)(stator_builder *region);
    /* Origin of the nodes built from here on. */
    void (*set_origin)(stator_builder *b, const char *name, const char *kind, const char *file,
                       uint32_t line);
    void (*set_origin_ref)(stator_builder *b, stator_ref origin);
    void (*set_witness)(stator_builder *b, stator_ref value, stator_ref witness);
    void (*set_name)(stator_builder *b, stator_ref value, const char *name);
    /* Copies nodes first..last (inclusive) of `from`, a graph of the same module, through `map`
     * (indexed by from's value refs, 0 = not yet mapped; results are written back to it).
     * Types, attributes, origins, witnesses and regions are kept. */
    stator_status (*clone)(stator_builder *b, const stator_graph *from, stator_ref first,
                           stator_ref last, stator_ref *map, stator_diag **err);
    /* Contents of a small integer tensor as syms: fills out[0..n) and returns 1 when every element
     * is known at build time (n must be its element count), else 0. */
    int32_t (*known_ints)(stator_builder *b, stator_ref value, uint32_t n, stator_ref *out_syms);
    /* The same, but unknown elements become unbacked symbols defined by a `sym_bind` node. */
    stator_status (*as_dims)(stator_builder *b, stator_ref value, uint32_t n, stator_ref *out_syms,
                             stator_diag **err);
    /* The i64 tensor of rank 1 (or rank 0 when n is UINT32_MAX: one sym) with these contents. */
    stator_status (*from_dims)(stator_builder *b, const stator_ref *syms, uint32_t n,
                               stator_ref *out, stator_diag **err);
    uint32_t (*find_op)(stator_builder *b, const char *name); /* op id, 0 unknown. Since 0.9 */
} stator_build_api;

/* Types and symbolic dimensions of a builder's module. 0 is returned when memory runs out or a
 * limit of the symbolic engine is exceeded (docs/sym.md). */
typedef struct stator_types_api {
    uint32_t struct_size;
    uint32_t reserved;
    stator_ref (*tensor)(stator_builder *b, stator_dtype dtype, uint32_t rank,
                         const stator_ref *dims);
    stator_ref (*sym_int)(stator_builder *b, int64_t value);
    /* The symbol of that name, made with this range and divisor when new. */
    stator_ref (*sym_symbol)(stator_builder *b, const char *name, int64_t lo, int64_t hi,
                             int64_t divisor);
    stator_ref (*sym_unbacked)(stator_builder *b, int64_t lo, int64_t hi); /* a fresh one */
    /* op: a stator_sym_op before EQ. */
    stator_ref (*sym_op)(stator_builder *b, uint32_t op, stator_ref lhs, stator_ref rhs);
    /* 1 proved, 0 disproved, -1 unknown. op: STATOR_SYM_EQ, LT, LE. */
    int32_t (*sym_compare)(stator_builder *b, uint32_t op, stator_ref lhs, stator_ref rhs);
    void (*sym_range)(stator_builder *b, stator_ref sym, int64_t *out_lo, int64_t *out_hi);
} stator_types_api;

enum stator_blob_flag { STATOR_BLOB_MAPPED = 1u << 0, STATOR_BLOB_INLINE = 1u << 1 };

typedef struct stator_blob_info {
    uint32_t struct_size;
    uint32_t flags;
    const void *data; /* aligned to 16 bytes */
    uint64_t size_bytes;
    uint8_t content_hash[16];
} stator_blob_info;

/* Constants. */
typedef struct stator_cst_api {
    uint32_t struct_size;
    uint32_t reserved;
    /* Blob of a constant node's value or of a PARAM; NULL when the value is neither. Borrowed. */
    stator_blob *(*of_value)(const stator_graph *graph, stator_ref value);
    stator_blob *(*of_ref)(const stator_graph *graph, stator_ref blob);
    /* Data of a blob; pages are mapped or copied at first use. */
    stator_status (*get)(stator_blob *blob, stator_blob_info *out, stator_diag **err);
    void (*retain)(stator_blob *blob);
    void (*release)(stator_blob *blob);
    /* Memory behind a mapped range may go; a later read brings it back. */
    void (*will_not_read)(stator_blob *blob);
    stator_blob *(*create)(stator_ctx *ctx, const void *data, uint64_t size); /* copies */
    /* A range of a file, mapped when first read. The file is opened now (regular files only) and
     * refused later when its size or mtime changed. copy != 0 reads it at once instead. */
    stator_status (*from_file)(stator_ctx *ctx, const char *path, uint64_t offset, uint64_t size,
                               int32_t copy, stator_blob **out, stator_diag **err);
    /* A packed form, made by fill once per (content hash, format key) and shared. */
    stator_status (*pack)(stator_ctx *ctx, const uint8_t content_hash[16], const char *format_key,
                          uint64_t size,
                          stator_status (*fill)(void *self, void *dst, uint64_t size), void *self,
                          stator_blob **out, stator_diag **err);
    /* Data where it lies, at any alignment: nothing is copied, no hash is computed. */
    stator_status (*peek)(stator_blob *blob, stator_blob_info *out, stator_diag **err);
    stator_status (*hash)(stator_blob *blob, uint8_t out_hash[16], stator_diag **err);
} stator_cst_api;

/* Validated option values. A key outside the schema gives the zero value. */
typedef struct stator_opt_api {
    uint32_t struct_size;
    uint32_t reserved;
    int32_t (*get_bool)(const stator_options *options, const char *key);
    int64_t (*get_i64)(const stator_options *options, const char *key);
    double (*get_f64)(const stator_options *options, const char *key);
    const char *(*get_str)(const stator_options *options, const char *key); /* enum, list too */
} stator_opt_api;

/* Log channels are those of STATOR_LOGS. level 0 error, 1 warning, 2 info, 3 debug. */
typedef struct stator_log_api {
    uint32_t struct_size;
    uint32_t reserved;
    int32_t (*enabled)(stator_ctx *ctx, const char *channel, uint32_t level);
    void (*write)(stator_ctx *ctx, const char *channel, uint32_t level, const char *text);
    /* For a plugin that compiles, in its compile slot and on threads of parallel_for there. Is what
     * it makes to be written to files (STATOR_DUMP)? Then it hands texts over by name: "plan.txt",
     * "add_mul.ll". Names are made plain, equal ones get a number; bytes are borrowed for the call.
     * Since 0.9, appended. */
    int32_t (*is_dumping)(stator_ctx *ctx);
    void (*dump)(stator_ctx *ctx, const char *name, const void *bytes, uint64_t size_bytes);
} stator_log_api;

typedef void (*stator_range_fn)(void *self, int64_t begin, int64_t end);

typedef struct stator_thr_api {
    uint32_t struct_size;
    uint32_t reserved;
    /* Splits [0, n) into ranges of at least `grain` and calls fn for each, on the host's threads;
     * returns when all are done. Nested calls run in the calling thread. */
    void (*parallel_for)(stator_ctx *ctx, int64_t n, int64_t grain, stator_range_fn fn, void *self);
    int32_t (*thread_count)(stator_ctx *ctx);
    /* For a plugin whose library divides work among threads of its own (OpenMP's, say) and waits
     * for all of them. 1: other programs want the processors so much that the calling thread
     * should do the work alone, with the same bits as a result. The answer may change from call
     * to call. Costs a look at the clock. It follows from what note_team is told: work of
     * team_ns nanoseconds on the library's threads that the caller alone would have done in
     * about alone_ns. Any thread. Since 0.9, appended. */
    int32_t (*is_contended)(stator_ctx *ctx);
    void (*note_team)(stator_ctx *ctx, uint64_t team_ns, uint64_t alone_ns);
} stator_thr_api;

enum stator_fuel_kind {
    STATOR_FUEL_PASS = 1,
    STATOR_FUEL_REWRITE = 2,
    STATOR_FUEL_DECOMPOSITION = 3,
    STATOR_FUEL_FUSION = 4,
    STATOR_FUEL_LOWERING = 5,
    STATOR_FUEL_KERNEL = 6,
    STATOR_FUEL_CLAIM = 7
};

/* "May I apply this?" Asked before every optional transformation; see docs/fuel.md. */
typedef struct stator_fuel_api {
    uint32_t struct_size;
    uint32_t reserved;
    stator_fuel_scope *(*scope)(stator_fuel_scope *parent, const char *name); /* host-owned */
    int32_t (*may_apply)(stator_fuel_scope *scope, uint32_t kind, const char *rule,
                         stator_ref node);
} stator_fuel_api;

/* One call of an executable. An output with data != NULL is written in place; with data == NULL the
 * plugin asks alloc_output once the shape is known. */
typedef struct stator_call {
    uint32_t struct_size;
    uint32_t n_in;
    uint32_t n_out;
    uint32_t n_syms;
    const DLTensor *in; /* dense, row-major, aligned to 16 bytes unless exe_info says otherwise */
    DLTensor *out;
    /* By atom index. Backed symbols are set, unbacked ones too once a part of the graph that ran
     * before defined them; those still INT64_MIN that this executable binds, it writes here. */
    int64_t *syms;
    void *workspace;
    uint64_t workspace_bytes;
    void *stream; /* of a backend with memory of its own; else NULL */
    stator_ctx *ctx;
    /* Allocates out[k] with this shape; fills data, shape and dtype. */
    stator_status (*alloc_output)(const struct stator_call *call, uint32_t k, uint32_t rank,
                                  const int64_t *shape, stator_diag **err);
    void *host; /* owned by the host */
    stator_fuel_scope *fuel;
    /* NULL, or somebody wants to know how long each step of this call takes: its name up to the
     * first newline, begin and end in nanoseconds of CLOCK_MONOTONIC. On the thread that called
     * exe_run, while it runs. Since 0.9, appended. */
    void (*note_time)(const struct stator_call *call, const char *name, uint64_t begin_ns,
                      uint64_t end_ns);
    uint64_t number; /* of the call on its device, growing from 1; 0: in host memory. Appended */
} stator_call;

enum stator_exe_flag {
    STATOR_EXE_STATIC_OUTPUTS = 1u << 0, /* every output shape is an expression over syms: the host
                                            may allocate outputs before the call */
    /* Results are filled with a pattern before each call, so that what exe_run leaves out shows
     * (`run --verify` has it for every backend). Since 0.9, appended. */
    STATOR_EXE_FILL_OUTPUTS = 1u << 1,
    STATOR_EXE_TELLS_AT_ONCE = 1u << 2 /* no call fails when it has returned. Appended to 0.9 */
};

typedef struct stator_exe_info {
    uint32_t struct_size;
    uint32_t flags;
    uint64_t workspace_bytes; /* fixed part; STATOR_EXE plugins may take more from mem */
    /* Memory, for people to read: bytes of constants that calls read where they lie, of weights in
     * forms of the plugin's own, how many of those are Winograd's, and what a call takes beside the
     * workspace. A plugin fills what struct_size has room for. */
    uint64_t constant_bytes, packed_bytes, winograd_bytes, scratch_bytes;
    /* For each output, 1 + the input in whose memory exe_run may be given it (the output
     * MAY_ALIAS the input), 0: none; NULL: none at all. n_outputs entries that live as long as
     * the executable. The graph asks for it with a write-back of the output's value to the
     * input: such an input is DONATED, nobody reads its old contents after the call. exe_run
     * keeps two promises when both have the same `data`: results are as in memory of its own,
     * and a call that fails has written nothing there, or on a device answers DATA_LOSS: those
     * inputs are lost. Where it cannot promise it says 0, and the host copies when the call has
     * gone well. Since 0.9, appended. */
    const uint32_t *may_alias;
} stator_exe_info;

/* Backends opened by other backends; a cycle is refused with the chain named. */
typedef struct stator_nested_api {
    uint32_t struct_size;
    uint32_t reserved;
    /* `options` are those that the opener was created with (NULL: those of the backend that this
     * thread creates or compiles for): what they hold in the other's namespace ("eager.x=1" given
     * for aot_eager) is what it is created with; the opener's own values are not passed. */
    stator_status (*open)(stator_ctx *ctx, const char *opener, const char *backend,
                          const stator_options *options, stator_instance **out, stator_diag **err);
    stator_status (*compile)(stator_instance *instance, const stator_graph *graph, void **out_exe,
                             stator_diag **err);
    stator_status (*exe_info)(stator_instance *instance, void *exe, stator_exe_info *out);
    stator_status (*run)(stator_instance *instance, void *exe, const stator_call *call,
                         stator_diag **err);
    void (*exe_destroy)(stator_instance *instance, void *exe);
    void (*close)(stator_instance *instance);
    /* Finds the nodes that the nested backend can run; fills accepts[1..n_nodes] with 0 or 1. */
    stator_status (*capability)(stator_instance *instance, const stator_graph *graph,
                                uint8_t *accepts, stator_diag **err);
    int32_t (*keep)(stator_instance *instance, const char *op, uint32_t version,
                    const stator_dtype *dtypes, const uint32_t *ranks, uint32_t n);
    /* Compiles one node of a graph that this call was given, as a program of its own. Its inputs
     * are the distinct values among the node's operands, in order, its outputs the node's results;
     * it is run with the syms of the whole graph's call. */
    stator_status (*compile_node)(stator_instance *instance, const stator_graph *graph,
                                  stator_ref node, void **out_exe, stator_diag **err);
    /* The nested backend's exe_steps; a backend without it reports no step. */
    stator_status (*exe_steps)(stator_instance *instance, void *exe,
                               const struct stator_step_sink *sink, stator_diag **err);
} stator_nested_api;

/* The compile cache (docs/cache.md). A backend with exe_serialize has its executables kept on disk;
 * the slots are for the thread that the host calls exe_serialize, exe_deserialize or compile on. */
typedef struct stator_cache_api {
    uint32_t struct_size;
    uint32_t reserved;
    /* 1 when exe_serialize will be called for what this compile makes: hold on to what it needs. */
    int32_t (*wanted)(stator_ctx *ctx);
    /* In exe_serialize: the executable refers to this constant; *out_id names it in the bytes. */
    stator_status (*put_constant)(stator_ctx *ctx, stator_blob *blob, uint32_t *out_id,
                                  stator_diag **err);
    /* In exe_deserialize: that constant, retained. DATA_LOSS: there is none of this id. */
    stator_status (*get_constant)(stator_ctx *ctx, uint32_t id, stator_blob **out,
                                  stator_diag **err);
} stator_cache_api;

typedef struct stator_host {
    uint32_t struct_size;
    uint16_t abi_major;
    uint16_t abi_minor;
    uint64_t features;
    stator_ctx *ctx; /* the session that loaded the plugin; outlives every object made in it */
    const stator_mem_api *mem;
    const stator_diag_api *diag;
    const stator_ir_api *ir;
    const stator_build_api *build;
    const stator_types_api *types;
    const stator_cst_api *cst;
    const stator_opt_api *opt;
    const stator_log_api *log;
    const stator_thr_api *thr;
    const stator_fuel_api *fuel;
    const stator_cache_api *cache;
    const stator_nested_api *nested;
    const void *(*get_ext)(const char *name, uint32_t min_version);
} stator_host;

/* ======================= descriptors ======================= */

enum stator_item_kind {
    STATOR_KIND_BACKEND = 1,
    STATOR_KIND_FRONTEND = 2,
    STATOR_KIND_PASS = 3,
    STATOR_KIND_OPLIB = 4
};

enum stator_option_type {
    STATOR_OPTION_BOOL = 1,
    STATOR_OPTION_I64 = 2,
    STATOR_OPTION_F64 = 3,
    STATOR_OPTION_STR = 4,
    STATOR_OPTION_ENUM = 5,
    STATOR_OPTION_LIST = 6, /* comma-separated */
    STATOR_OPTION_BYTES = 7 /* an i64 with suffix K, M or G */
};

enum stator_option_flag {
    STATOR_OPTION_SECRET = 1u << 0,
    STATOR_OPTION_DEPRECATED = 1u << 1,
    STATOR_OPTION_AFFECTS_CODE = 1u << 2,
    STATOR_OPTION_RUNTIME_SETTABLE = 1u << 3
};

typedef struct stator_option_desc {
    uint32_t struct_size;
    uint32_t type;
    uint32_t flags;
    uint32_t since_minor;
    const char *key;
    const char *default_text;
    int64_t min_i64; /* I64, BYTES; both 0: no range */
    int64_t max_i64;
    double min_f64;
    double max_f64;
    const char *enum_values; /* comma-separated */
    const char *help;
    const char *renamed_to; /* NULL: none */
} stator_option_desc;

/* The common head of every item. */
typedef struct stator_item {
    uint32_t struct_size;
    uint32_t kind; /* stator_item_kind */
    uint16_t abi_major;
    uint16_t abi_minor_min;
    uint16_t abi_minor_built;
    uint16_t reserved;
    const char *name;
    const char *doc; /* one sentence */
    const stator_option_desc *options;
    uint32_t option_count;
    uint32_t option_stride; /* sizeof(stator_option_desc) as built */
} stator_item;

/* Where capability answers go. `cost` is a rough time in nanoseconds, 0 unknown. */
typedef struct stator_capability_sink {
    uint32_t struct_size;
    uint32_t reserved;
    void *self;
    void (*yes)(void *self, stator_ref node, uint64_t cost_ns);
    void (*no)(void *self, stator_ref node, stator_status reason, const char *text);
    void (*group)(void *self, const stator_ref *nodes, uint32_t n, uint32_t flags);
} stator_capability_sink;

enum stator_group_flag { STATOR_GROUP_ATOMIC = 1u, STATOR_GROUP_PREFER = 2u };

/* Where pipeline() names the stages the host is to run before compile, in order. */
typedef struct stator_pipeline_sink {
    uint32_t struct_size;
    uint32_t reserved;
    void *self;
    void (*stage)(void *self, const char *pass_name);
    /* Third-party passes are inserted where their phase's marker stands. */
    void (*phase)(void *self, uint32_t phase);
} stator_pipeline_sink;

/* Kinds of pieces that exe_package makes. */
enum stator_package_kind {
    STATOR_PACKAGE_C = 1,      /* C11 source, for gcc and clang */
    STATOR_PACKAGE_OBJECT = 2, /* relocatable object code, position-independent */
    STATOR_PACKAGE_DATA = 3    /* constant bytes, at the symbol `name`, aligned to 64 */
};

/* Takes the pieces of a package. `name` is an identifier that no other piece has, and not "needs",
 * which is the host's own piece (docs/build.md); bytes are borrowed for the call. What the sink
 * answers, exe_package hands on. */
typedef struct stator_package_sink {
    uint32_t struct_size;
    uint32_t reserved;
    void *self;
    stator_status (*piece)(void *self, uint32_t kind, const char *name, const void *bytes,
                           uint64_t size);
} stator_package_sink;

/* Kinds of steps of an executable. */
enum stator_step_kind {
    STATOR_STEP_KERNEL = 1,  /* generated code */
    STATOR_STEP_LIBRARY = 2, /* a call of a library */
    STATOR_STEP_NODE = 3,    /* a node as it is, by a kernel of its op */
    STATOR_STEP_LOOP = 4     /* control flow; the steps behind it, one deeper, are its body's */
};

enum stator_step_flag {
    STATOR_STEP_OPEN = 1u,     /* more bytes, with the call's sizes */
    STATOR_STEP_IF_APART = 2u, /* runs only where a result has memory beside the written input's */
    STATOR_STEP_IF_FAILED = 4u /* runs only when another step has failed */
};

/* A unit of work of a call. Bytes are those of the buffers that the step reads and writes, each
 * counted once a step; they say nothing of caches, nor how much of a buffer is touched. */
typedef struct stator_exe_step {
    uint32_t struct_size;
    uint32_t kind;  /* stator_step_kind */
    uint32_t flags; /* stator_step_flag */
    uint32_t depth; /* 0: a step of the executable, k: of a body inside k loops */
    uint32_t reserved;
    uint32_t n_nodes;
    /* Nodes of the graph that compile was given whose values the step computes, ascending; one that
     * is computed anew by several steps is named by each. Not known: n_nodes is 0. */
    const stator_ref *nodes;
    const char *name; /* as note_time of stator_call has it */
    uint64_t read_bytes;
    uint64_t written_bytes;
} stator_exe_step;

/* Takes steps in the order in which a call makes them; a step is borrowed for the call. What the
 * sink answers, exe_steps hands on. */
typedef struct stator_step_sink {
    uint32_t struct_size;
    uint32_t reserved;
    void *self;
    stator_status (*step)(void *self, const stator_exe_step *step);
} stator_step_sink;

typedef struct stator_device_info {
    uint32_t struct_size;
    uint32_t id;
    const char *name;
    const char *arch;
    uint64_t memory_bytes;
} stator_device_info;

/* Memory of a device that the host does not read.
 *
 * A backend with it fills `memory`, `alloc`, `free`, `copy`, `fill`, `stream_*`, `synchronize` and
 * `event_*`. Inputs and outputs of its executables then lie on the device: DLTensor.device says so
 * and `data` is an address of the device. The host copies what lies elsewhere. exe_run queues its
 * work on stator_call.stream, which is one of stream_create, and may return before it is done;
 * syms that it binds and shapes for alloc_output it must know, so it waits where these need it.
 * exe_info.workspace_bytes is 0: such a plugin has a workspace of its own. Constants are its
 * matter too.
 *
 * Addresses, streams and events hold for all instances of the backend on the same device in one
 * context: the host makes them with one instance and uses them with the others. */
typedef struct stator_memory_info {
    uint32_t struct_size;
    uint32_t flags;     /* 0 */
    DLDevice device;    /* as tensors in this memory say; not kDLCPU */
    uint64_t alignment; /* of what alloc gives: a power of two, bytes, at least 16 */
} stator_memory_info;

enum stator_copy_direction {
    STATOR_COPY_TO_DEVICE = 1,
    STATOR_COPY_TO_HOST = 2,
    STATOR_COPY_ON_DEVICE = 3
};

/* A copy between two layouts: element (i, j, ..) lies i * strides[0] + j * strides[1] + .. bytes
 * behind the first, in each. Axes that lie one behind the other in both are written as one. */
typedef struct stator_strided_copy {
    uint32_t struct_size;
    uint32_t rank;       /* 1 to STATOR_RANK_MAX */
    uint64_t item_bytes; /* of an element: a run of bytes, of any length and alignment */
    const int64_t *sizes;
    const int64_t *dst_strides;
    const int64_t *src_strides; /* 0 or negative ones too */
} stator_strided_copy;

typedef void (*stator_device_fn)(void *self, const stator_device_info *device);

enum stator_backend_flag {
    STATOR_BACKEND_SERIAL_RUN = 1u << 0,
    STATOR_BACKEND_CONCURRENT_COMPILE = 1u << 1, /* on one instance */
    STATOR_BACKEND_FORK_SAFE = 1u << 2
};

/* A backend. `self` is what the plugin's init gave. Slots marked "may be NULL" have the default
 * that their comment names. */
typedef struct stator_backend {
    stator_item item;
    const char *aliases; /* comma-separated, may be NULL */
    const char *tags;    /* of: reference, debug, experimental, stable, cpu, gpu */
    int32_t priority;    /* the default backend is the available one of highest priority */
    uint32_t flags;
    /* Cheap look at the machine; no context made. May be NULL: always usable. */
    stator_status (*probe)(void *self, stator_diag **err);
    /* May be NULL: one device, the host CPU. */
    stator_status (*devices)(void *self, stator_device_fn fn, void *fn_self);
    stator_status (*create)(void *self, const stator_options *options, uint32_t device, void **inst,
                            stator_diag **err);
    void (*destroy)(void *self, void *inst);
    /* May be NULL: the default pipeline. */
    stator_status (*pipeline)(void *self, const stator_options *options,
                              const stator_pipeline_sink *sink);
    /* Keep this composite whole? 1 yes. May be NULL: keep none. */
    int32_t (*keep)(void *inst, const char *op, uint32_t version, const stator_dtype *dtypes,
                    const uint32_t *ranks, uint32_t n_operands);
    /* Answers for every node through the sink; pure. May be NULL: yes to every node. */
    stator_status (*capability)(void *inst, const stator_graph *graph,
                                const stator_capability_sink *sink, stator_diag **err);
    stator_status (*compile)(void *inst, const stator_graph *graph, stator_fuel_scope *fuel,
                             void **exe, stator_diag **err);
    stator_status (*exe_info)(void *inst, void *exe, stator_exe_info *out);
    stator_status (*exe_run)(void *inst, void *exe, const stator_call *call, stator_diag **err);
    void (*exe_destroy)(void *inst, void *exe);
    /* May be NULL: cannot be kept on disk. The bytes are read back by a plugin of the same build,
     * on an instance of the same options that affect code and of equal compat_key (may be NULL:
     * ""); they may be damaged all the same: DATA_LOSS, and the host compiles. UNSUPPORTED: this
     * executable cannot be kept. */
    stator_status (*exe_serialize)(void *inst, void *exe, stator_blob **out, stator_diag **err);
    stator_status (*exe_deserialize)(void *inst, stator_blob *blob, void **exe, stator_diag **err);
    const char *(*compat_key)(void *inst);
    /* Memory of a device: all of the slots below and `memory`, or none (see stator_memory_info).
     *
     * What one thread queues on a stream happens in its order. Slots may be called from several
     * threads at once, also on one stream. late_failure tells failures that show after a call has
     * returned (a check in a kernel); without it the next synchronize of the stream does, for all
     * queued since the one before. From a lost device on every slot answers UNAVAILABLE.
     *
     * alloc: memory that what is queued on `stream` may use, RESOURCE_EXHAUSTED when there is none;
     * never called in a warmed call. free: what was queued on `stream` may still use it, the plugin
     * waits where it must. stream NULL: nothing queued is concerned. */
    stator_status (*alloc)(void *inst, uint64_t size, void *stream, void **out, stator_diag **err);
    void (*free)(void *inst, void *p, void *stream);
    /* direction: stator_copy_direction. TO_DEVICE has read `src` when it returns; TO_HOST has
     * written `dst` when the stream has been waited for. Any alignment. */
    stator_status (*copy)(void *inst, void *dst, const void *src, uint64_t size, uint32_t direction,
                          void *stream, stator_diag **err);
    stator_status (*stream_create)(void *inst, void **out, stator_diag **err);
    void (*stream_destroy)(void *inst, void *stream); /* waits for it first */
    /* Waits until everything that is queued on the stream is done. */
    stator_status (*synchronize)(void *inst, void *stream, stator_diag **err);
    stator_status (*explain)(void *inst, void *exe, stator_ref node, stator_diag **out);
    /* Does the device compute what it should? Asked before the first compile on it; that it has
     * passed is remembered for this build of the plugin, this compat_key and these drivers, a
     * failure is not. UNAVAILABLE says what is wrong. Where the backend has an option `self_test`
     * of type BOOL that is off, nothing is asked. May be NULL: every device is believed. */
    stator_status (*self_test)(void *inst, stator_diag **err);
    /* The executable as pieces that, compiled and linked with each other, libc, libm and libgomp,
     * run without Stator (docs/build.md says which functions they define). May be NULL: cannot. */
    stator_status (*exe_package)(void *inst, void *exe, const stator_package_sink *sink,
                                 stator_diag **err);
    /* Hands the steps of the executable to the sink, for `stator explain`. May be NULL: not known.
     * An executable from the cache may report less. */
    stator_status (*exe_steps)(void *inst, void *exe, const stator_step_sink *sink,
                               stator_diag **err);
    /* Where the executables of the instance read and write; see stator_memory_info. May be NULL:
     * in host memory, and exe_run returns when it is done. Since 0.9, appended. */
    stator_status (*memory)(void *inst, stator_memory_info *out, stator_diag **err);
    /* An event marks a point of a stream: what is queued on another after event_wait happens after
     * it. It may be recorded again; a wait is for its last record. Since 0.9, appended. */
    stator_status (*event_create)(void *inst, void **out, stator_diag **err);
    void (*event_destroy)(void *inst, void *event);
    stator_status (*event_record)(void *inst, void *event, void *stream, stator_diag **err);
    stator_status (*event_wait)(void *inst, void *event, void *stream, stator_diag **err);
    /* Sets bytes, in the order of the stream. Since 0.9, appended. */
    stator_status (*fill)(void *inst, void *dst, uint8_t value, uint64_t size, void *stream,
                          stator_diag **err);
    /* Is it an address of the device, in memory of whoever? INVALID_ARGUMENT, saying what it is
     * instead, when it is not. May be NULL: every address is believed. Since 0.9, appended. */
    stator_status (*check_address)(void *inst, const void *p, stator_diag **err);
    /* Copies between layouts, both on the device, in the order of the stream. May be NULL: the host
     * calls `copy` for each element. Since 0.9, appended. */
    stator_status (*copy_strided)(void *inst, void *dst, const void *src,
                                  const stator_strided_copy *layout, void *stream,
                                  stator_diag **err);
    /* Is it a stream of the device, by whoever (stator_call_options.stream)? INVALID_ARGUMENT, with
     * what it is instead. May be NULL: every handle is believed. Since 0.9, appended. */
    stator_status (*check_stream)(void *inst, void *stream, stator_diag **err);
    /* Do the `below` bytes before `p` and the `above` bytes from `p` on belong to the allocation
     * that `p` lies in? It is an address that check_address takes, or one of host memory, which a
     * device may know as well. INVALID_ARGUMENT, with where the allocation ends; OK where nothing
     * is known of it. May be NULL: every size is believed. Since 0.9, appended. */
    stator_status (*check_range)(void *inst, const void *p, uint64_t below, uint64_t above,
                                 stator_diag **err);
    /* How a call that is done failed after it had returned, and the first and last number of those
     * of which one it was (first 0: the slot failed); each is told once, OK: no other one has.
     * Waits for nothing; an application may have ended its stream. May be NULL. Appended to 0.9. */
    stator_status (*late_failure)(void *inst, void *stream, uint64_t *out_first, uint64_t *out_last,
                                  stator_diag **err);
} stator_backend;

typedef struct stator_frontend {
    stator_item item;
    const char *extensions; /* comma-separated, without the dot */
    /* 0 (not mine) to 100 (certainly) from the first bytes. */
    uint32_t (*sniff)(void *self, const uint8_t *bytes, uint64_t size);
    stator_status (*import)(void *self, const stator_source *source, const stator_options *options,
                            stator_builder *builder, stator_diag **err);
    /* Writes a copy of the source with the values of `to`; all else stays as it is. May be NULL:
     * models of the format are not written. Since 0.9, appended. */
    stator_status (*rewrite)(void *self, const stator_source *source, const stator_rewrite *to,
                             stator_diag **err);
} stator_frontend;

enum stator_phase {
    STATOR_PHASE_PRE_GRAD = 1,
    STATOR_PHASE_JOINT = 2,
    STATOR_PHASE_POST_GRAD = 3,
    STATOR_PHASE_LOWERING = 4,
    STATOR_PHASE_BACKEND = 5
};

enum stator_pass_flag { STATOR_PASS_VERIFY_ONLY = 1u, STATOR_PASS_DETERMINISTIC = 2u };
enum stator_pass_result { STATOR_PASS_SAME = 0, STATOR_PASS_CHANGED = 1 };

typedef struct stator_pass {
    stator_item item;
    uint32_t phase;
    uint32_t flags;
    const char *after;  /* comma-separated pass names, may be NULL */
    const char *before; /* likewise */
    /* Reads `in` and writes the whole new graph to `out` (inputs first, then nodes, then outputs),
     * or sets *out_result to STATOR_PASS_SAME and writes nothing. NULL where run_with is not. */
    stator_status (*run)(void *self, const stator_graph *in, stator_builder *out,
                         stator_fuel_scope *fuel, uint32_t *out_result, stator_diag **err);
    /* 0.9: called instead of `run` when it is there; required of a pass whose item lists options.
     * `options` are this compile's values of them, checked against the item's rows (host->opt reads
     * them), borrowed for the call. The result must depend on nothing but `in` and these values:
     * both are part of the cache's key, whatever flags the rows have, those flagged SECRET alone
     * excepted. A host without the slot calls `run`. */
    stator_status (*run_with)(void *self, const stator_graph *in, const stator_options *options,
                              stator_builder *out, stator_fuel_scope *fuel, uint32_t *out_result,
                              stator_diag **err);
} stator_pass;

/* Result types of an op of a library, from the operands and attributes of the node in `b`. */
typedef struct stator_oplib_op {
    stator_op_desc desc;
    stator_status (*infer)(void *self, stator_builder *b, const stator_node_desc *node,
                           stator_ref *out_types, uint32_t n_types, stator_diag **err);
    /* May be NULL when desc.body is set. */
    stator_status (*decompose)(void *self, stator_builder *b, const stator_node_desc *node,
                               stator_ref *out_results, stator_diag **err);
    /* Reference kernel, called by eager instead of the decomposition. May be NULL. Tensors are
     * dense, row-major, in host memory and aligned to 16 bytes; out has data and shape already, an
     * absent optional operand has dtype.bits 0. attrs are in schema order, kind NONE for one that
     * is absent; DIMS come evaluated, as INTS. Called from any thread at once, and not at all when
     * no result has an element. An op whose result sizes only the kernel could tell, or with a BLOB
     * attribute, runs by its decomposition. */
    stator_status (*kernel)(void *self, uint32_t n_in, const DLTensor *in, uint32_t n_out,
                            DLTensor *out, const stator_attr *attrs, uint32_t n_attrs,
                            stator_diag **err);
    /* Builds the gradients of the operands (0: none) from those of the results (0: none). May be
     * NULL: the decomposition is differentiated. */
    stator_status (*gradient)(void *self, stator_builder *b, const stator_node_desc *node,
                              const stator_ref *out_grads, stator_ref *in_grads, stator_diag **err);
} stator_oplib_op;

typedef struct stator_oplib {
    stator_item item;
    const stator_oplib_op *ops;
    uint32_t op_count;
    uint32_t op_stride;
} stator_oplib;

typedef struct stator_plugin {
    uint32_t struct_size;
    uint16_t abi_major;
    uint16_t abi_minor_min;
    uint16_t abi_minor_built;
    uint16_t reserved;
    uint32_t item_count;
    const char *name;
    const char *vendor;
    const char *version;
    const char *sanitizer; /* "", "address", "thread" */
    const stator_item *const *items;
    /* May be NULL. *self is passed to every slot of every item. */
    stator_status (*init)(const stator_host *host, void **self, stator_diag **err);
    void (*shutdown)(void *self); /* may be NULL */
} stator_plugin;

/* The only export of a plugin: pure, callable many times and from any thread. Returns NULL when
 * host_abi_major is not one it knows. */
typedef const stator_plugin *(*stator_plugin_query_fn)(const stator_host *host,
                                                       uint32_t host_abi_major);
#define STATOR_PLUGIN_QUERY_SYMBOL "stator_plugin_query_v1"

/* Fills the version fields of an item or plugin (C alone: designated initialisers). */
#define STATOR_ITEM_HEAD(type, kind_)                                                              \
    .struct_size = sizeof(type), .kind = (kind_), .abi_major = STATOR_ABI_MAJOR,                   \
    .abi_minor_min = STATOR_ABI_MINOR, .abi_minor_built = STATOR_ABI_MINOR

/* ======================= the note ======================= */

#if defined(__x86_64__)
#define STATOR_TRIPLE "x86_64-linux-gnu"
#elif defined(__aarch64__)
#define STATOR_TRIPLE "aarch64-linux-gnu"
#else
#define STATOR_TRIPLE "unknown"
#endif

#define STATOR_STR_(x) #x
#define STATOR_STR(x) STATOR_STR_(x)
#define STATOR_ABI_TEXT STATOR_STR(STATOR_ABI_MAJOR) "." STATOR_STR(STATOR_ABI_MINOR)

#if defined(__SANITIZE_ADDRESS__)
#define STATOR_SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define STATOR_SANITIZER "thread"
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STATOR_SANITIZER "address"
#elif __has_feature(thread_sanitizer)
#define STATOR_SANITIZER "thread"
#else
#define STATOR_SANITIZER ""
#endif
#else
#define STATOR_SANITIZER ""
#endif

/* Defines the ELF note. `json_members` is the inside of one compact JSON object after the common
 * members, beginning with a comma or empty:
 *   STATOR_PLUGIN_NOTE("eager", "1.0.0", "[\"backend\"]", ",\"tags\":[\"reference\"]") */
#define STATOR_PLUGIN_NOTE(name_, version_, kinds_, json_members)                                  \
    STATOR_PLUGIN_NOTE_TEXT("{\"abi\":\"" STATOR_ABI_TEXT "\",\"kinds\":" kinds_                   \
                            ",\"name\":\"" name_ "\",\"version\":\"" version_                      \
                            "\",\"triple\":\"" STATOR_TRIPLE                                       \
                            "\",\"sanitizer\":\"" STATOR_SANITIZER "\"" json_members "}")

/* A note has no room for the red zones that clang's sanitizers put around variables. */
#if defined(__clang__)
#define STATOR_NOTE_PLAIN __attribute__((no_sanitize("address")))
#else
#define STATOR_NOTE_PLAIN
#endif

#define STATOR_PLUGIN_NOTE_TEXT(text_)                                                             \
    __attribute__((section(".note.stator"), used, aligned(4)))                                     \
    STATOR_NOTE_PLAIN static const struct {                                                        \
        uint32_t name_size, desc_size, type;                                                       \
        char name[8];                                                                              \
        char desc[(sizeof(text_) + 3u) & ~3u];                                                     \
    } stator_plugin_note = {7, sizeof(text_) - 1u, 1, "Stator", text_}

/* ======================= a plugin in one line ======================= */

/* An item's head, without options or with an array of them:
 *   static const stator_backend backend = {
 *       .item = STATOR_ITEM(stator_backend, STATOR_KIND_BACKEND, "mine", "One sentence."), ... */
#define STATOR_ITEM(type_, kind_, name_, doc_) STATOR_ITEM_WITH(type_, kind_, name_, doc_, NULL, 0)
#define STATOR_ITEM_OPTIONS(type_, kind_, name_, doc_, options_)                                   \
    STATOR_ITEM_WITH(type_, kind_, name_, doc_, options_, sizeof(options_) / sizeof((options_)[0]))
/* clang-format off */
#define STATOR_ITEM_WITH(type_, kind_, name_, doc_, options_, count_)                              \
    {sizeof(type_), (kind_), STATOR_ABI_MAJOR, STATOR_ABI_MINOR, STATOR_ABI_MINOR, 0, (name_),     \
     (doc_), (options_), (count_), sizeof(stator_option_desc)}
/* clang-format on */

/* Rows of an item's options, C alone: of any type, and of one of `values_`, with commas between. */
#define STATOR_OPTION_ROW(type_, flags_, key_, default_, help_)                                    \
    {                                                                                              \
        .struct_size = sizeof(stator_option_desc), .type = (type_), .flags = (flags_),             \
        .key = (key_), .default_text = (default_), .help = (help_)                                 \
    }
#define STATOR_OPTION_ENUM_ROW(flags_, key_, default_, values_, help_)                             \
    {                                                                                              \
        .struct_size = sizeof(stator_option_desc), .type = STATOR_OPTION_ENUM, .flags = (flags_),  \
        .key = (key_), .default_text = (default_), .help = (help_), .enum_values = (values_)       \
    }

/* An init for plugins whose self is the host table itself. */
static inline stator_status stator_init_host(const stator_host *host, void **self,
                                             stator_diag **err)
{
    (void)err;
    *self = (void *)(uintptr_t)host;
    return STATOR_OK;
}

/* Returns `code`; *err receives the text unless it holds another one. */
static inline stator_status stator_fail(const stator_host *host, stator_diag **err,
                                        stator_status code, const char *text)
{
    if (err != NULL && *err == NULL) {
        uint64_t len = 0;
        while (text[len] != '\0') {
            len++;
        }
        *err = host->diag->create(code, text, len);
    }
    return code;
}

/* Pipelines for the slot of the same name. This one leaves the graph as it was imported: only
 * in-place writes become values, and gradients are written out. */
static inline stator_status stator_pipeline_imported(void *self, const stator_options *options,
                                                     const stator_pipeline_sink *sink)
{
    (void)self, (void)options;
    sink->stage(sink->self, "functionalize");
    sink->stage(sink->self, "autodiff");
    return STATOR_OK;
}
/* What stands in front of a backend's own stages: in-place writes become values, parameters
 * constants, and gradients are written out; passes of plugins have their phases, PRE_GRAD before
 * that, JOINT and POST_GRAD behind it. */
static inline void stator_pipeline_begin(const stator_pipeline_sink *sink)
{
    sink->stage(sink->self, "functionalize");
    sink->stage(sink->self, "freeze");
    sink->phase(sink->self, STATOR_PHASE_PRE_GRAD);
    sink->stage(sink->self, "autodiff");
    sink->phase(sink->self, STATOR_PHASE_JOINT);
    sink->phase(sink->self, STATOR_PHASE_POST_GRAD);
}
/* From composite ops to primitives, which are made simple. */
static inline void stator_pipeline_lower(const stator_pipeline_sink *sink)
{
    sink->stage(sink->self, "decompose");
    sink->stage(sink->self, "canonicalize");
    sink->stage(sink->self, "fold");
    sink->stage(sink->self, "cse");
    sink->stage(sink->self, "dce");
    sink->phase(sink->self, STATOR_PHASE_LOWERING);
}
/* The whole mid-level pipeline: both, one behind the other. */
static inline stator_status stator_pipeline_primitives(void *self, const stator_options *options,
                                                       const stator_pipeline_sink *sink)
{
    (void)self, (void)options;
    stator_pipeline_begin(sink);
    stator_pipeline_lower(sink);
    return STATOR_OK;
}

#ifdef __cplusplus
#define STATOR_QUERY_LINKAGE extern "C" STATOR_EXPORT
#else
#define STATOR_QUERY_LINKAGE STATOR_EXPORT
#endif

/* Note, descriptor and query function of a plugin, once in a plugin and at file scope. kinds_ and
 * members_ go to the note (see STATOR_PLUGIN_NOTE); items_ is an array; shutdown_ may be NULL:
 *   static const stator_item *const items[] = {&backend.item};
 *   STATOR_PLUGIN("mine", "1.0.0", "Who", "[\"backend\"]", "", items, stator_init_host, NULL); */
/* clang-format off */
#define STATOR_PLUGIN(name_, version_, vendor_, kinds_, members_, items_, init_, shutdown_)        \
    STATOR_QUERY_LINKAGE const stator_plugin *stator_plugin_query_v1(const stator_host *host,      \
                                                                     uint32_t host_abi_major);     \
    STATOR_QUERY_LINKAGE const stator_plugin *stator_plugin_query_v1(const stator_host *host,      \
                                                                     uint32_t host_abi_major)      \
    {                                                                                              \
        static const stator_plugin plugin = {                                                      \
            sizeof(stator_plugin), STATOR_ABI_MAJOR, STATOR_ABI_MINOR, STATOR_ABI_MINOR, 0,        \
            sizeof(items_) / sizeof((items_)[0]), (name_), (vendor_), (version_),                  \
            STATOR_SANITIZER, (items_), (init_), (shutdown_)};                                     \
        (void)host;                                                                                \
        return host_abi_major == STATOR_ABI_MAJOR ? &plugin : NULL;                                \
    }                                                                                              \
    STATOR_PLUGIN_NOTE(name_, version_, kinds_, ",\"vendor\":\"" vendor_ "\"" members_)
/* clang-format on */

#ifdef __cplusplus
}
#endif
#endif
