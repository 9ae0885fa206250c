/* Looking into models and compiles: stages, single passes, written forms, inner values, fuel. What
 * the stator command is made of. Experimental (names begin with stator_x_): may change in any
 * release. */
#ifndef STATOR_INSPECT_H
#define STATOR_INSPECT_H

#include <stator/stator.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Names the stages that the backend's pipeline runs, in order; doc is one sentence. */
typedef void (*stator_x_pass_fn)(void *self, const char *name, const char *doc);
STATOR_EXPORT stator_status stator_x_pipeline(stator_ctx *ctx, const char *backend,
                                              stator_x_pass_fn fn, void *self) STATOR_MUST_USE;
/* Every pass there is, ours first, then those of plugins. */
STATOR_EXPORT stator_status stator_x_passes(stator_ctx *ctx, stator_x_pass_fn fn,
                                            void *self) STATOR_MUST_USE;

/* The options of an item of stator_ctx_item_info, which is loaded for it: fn is called for each,
 * the row lives as long as the context. OUT_OF_RANGE: no such item; UNAVAILABLE: it cannot be
 * used. */
typedef void (*stator_x_option_fn)(void *self, const stator_option_desc *row);
STATOR_EXPORT stator_status stator_x_item_options(stator_ctx *ctx, uint32_t index,
                                                  stator_x_option_fn fn,
                                                  void *self) STATOR_MUST_USE;

/* Runs the backend's self test on its device of that number, whatever is known of it, and remembers
 * that it has passed; *out_ns is how long it took. UNIMPLEMENTED: the backend has none;
 * UNAVAILABLE: it cannot be used, or the test has failed, with what is wrong. Since 0.9. */
STATOR_EXPORT stator_status stator_x_self_test(stator_ctx *ctx, const char *backend,
                                               uint32_t device, uint64_t *out_ns) STATOR_MUST_USE;

/* Runs the function's pipeline over the model's graph (imported already) and calls fn with the
 * graph after each stage, "import" first; the graph is valid for that call. stop_after may be NULL.
 * Nothing is compiled. */
typedef void (*stator_x_stage_fn)(void *self, const char *stage, const stator_graph *graph,
                                  uint64_t ns);
STATOR_EXPORT stator_status stator_x_stages(stator_function *function, const char *stop_after,
                                            stator_x_stage_fn fn, void *self) STATOR_MUST_USE;
/* A new model holding a copy of the graph (any root graph, also one of a stage callback). */
STATOR_EXPORT stator_status stator_x_model_of_graph(stator_ctx *ctx, const stator_graph *graph,
                                                    stator_model **out_model) STATOR_MUST_USE;
/* A copy of the model whose outputs are these values of its graph, in order. */
STATOR_EXPORT stator_status stator_x_model_with_outputs(const stator_model *model, uint32_t n,
                                                        const stator_ref *values,
                                                        stator_model **out_model) STATOR_MUST_USE;
/* A copy of the model in which these symbolic sizes have these values. INVALID_ARGUMENT: no such
 * size (the text lists them), or a value that it cannot have. */
STATOR_EXPORT stator_status stator_x_model_with_sizes(const stator_model *model, uint32_t n,
                                                      const char *const *names,
                                                      const int64_t *values,
                                                      stator_model **out_model) STATOR_MUST_USE;
/* A copy of the model in which every float, also of parameters, constants and bodies of control
 * flow, is one of f64. A node that works with no f64 stays as it is, between casts. */
STATOR_EXPORT stator_status stator_x_model_in_f64(const stator_model *model,
                                                  stator_model **out_model) STATOR_MUST_USE;
/* The part of a model's graph to cut out. */
typedef struct stator_x_cut {
    uint32_t struct_size;
    uint32_t n_nodes;
    uint32_t n_inputs;
    uint32_t n_outputs;
    const stator_ref *nodes;   /* of the graph itself, ascending; control flow with its bodies */
    const stator_ref *inputs;  /* values that a call gives, in this order */
    const stator_ref *outputs; /* values that the nodes make, or inputs */
    /* By value, n_values + 1 of them: what the value was in a call, NULL where that is not known.
     * Only shapes are read. NULL: sizes stay the symbols that they are. */
    const DLTensor *const *known;
} stator_x_cut;
/* A copy of the model that is these nodes alone. Each value that they read and do not make is one
 * of `inputs`, or a parameter, which stays one unless it is listed there. With `known` the inputs
 * have the shapes that it says, and so have the symbols that no kept node defines; types follow.
 * What the graph writes into its inputs is no part of the copy. Ports have the names of their
 * values, `value12` where there is none that is free and printable. NEED_VALUE: the model has no
 * graph yet; OUT_OF_RANGE: no such node or value; INVALID_ARGUMENT: a value is read that is not
 * there, a result is no value of the cut, or the nodes do not work with these sizes. */
STATOR_EXPORT stator_status stator_x_model_cut(const stator_model *model, const stator_x_cut *cut,
                                               stator_model **out_model) STATOR_MUST_USE;
/* The model after one pass, with all fuel and nothing kept whole. keys[i] is "PASS:key", as in
 * stator_compile_options; those of other passes are checked and left out. */
STATOR_EXPORT stator_status stator_x_run_pass(const stator_model *model, const char *pass,
                                              uint32_t option_count, const char *const *keys,
                                              const char *const *values,
                                              stator_model **out_model) STATOR_MUST_USE;
/* Checks a graph's invariants. */
STATOR_EXPORT stator_status stator_x_verify(const stator_model *model) STATOR_MUST_USE;
/* Facts about the model's file that its frontend reports, in its order: see stator_source.fact. fn
 * is called for each fact; the texts live for that call, in which the model must not be used. A
 * model that no file was read for has none. */
typedef void (*stator_x_fact_fn)(void *self, const char *kind, const char *name, const char *value);
STATOR_EXPORT void stator_x_model_facts(stator_model *model, stator_x_fact_fn fn, void *self);
/* A model of the same bytes by the same frontend, with other options of it: what was read from a
 * pipe cannot be read again, and a file may be another by now. flags and frontend of the options
 * are those of `model`; bytes that are the application's must outlive both. */
STATOR_EXPORT stator_status stator_x_model_load_again(const stator_model *model,
                                                      const stator_load_options *options,
                                                      stator_model **out_model) STATOR_MUST_USE;
/* Could stator_model_save write this copy? Its statuses; nothing is written. A path that is no
 * regular file (a pipe, a descriptor) takes a copy without data in a file of their own. */
STATOR_EXPORT stator_status stator_x_model_check_save(const stator_model *model, const char *path,
                                                      uint32_t n, const char *const *names,
                                                      stator_tensor *const *values) STATOR_MUST_USE;
/* Writes .stir (large constants into <name>.blob beside it) or .stirb, by the path's ending. */
STATOR_EXPORT stator_status stator_x_model_write(const stator_model *model,
                                                 const char *path) STATOR_MUST_USE;

/* One application of a transformation by the last compile of a function, in order of the
 * questions. */
typedef struct stator_x_fuel_row {
    uint32_t struct_size;
    uint32_t scope; /* number of the scope, from 1; its name begins with it */
    uint64_t n;     /* question within the scope, from 1 */
    uint32_t kind;  /* stator_fuel_kind */
    uint32_t node;
    const char *rule;
    const char *scope_name;
    const char *pass;      /* pass that asked, "" when it was no pass */
    const char *node_name; /* name of the imported node, "" unknown */
    uint32_t witness;      /* imported value that the node's first result computes, 0 unknown */
    uint32_t reserved;
} stator_x_fuel_row;

/* From this call on compiles of the function record what they apply. */
STATOR_EXPORT void stator_x_fuel_record(stator_function *function);
/* From this call on fn hears of each application before it happens, also of the one that will
 * crash. fn must not call back into Stator; the row is valid for that call. NULL ends it. */
typedef void (*stator_x_fuel_fn)(void *self, const stator_x_fuel_row *row);
STATOR_EXPORT void stator_x_fuel_watch(stator_function *function, stator_x_fuel_fn fn, void *self);
/* Memory that a function holds and needs, over all that it has compiled. Weights that two of its
 * executables share are counted for each. */
typedef struct stator_x_memory {
    uint32_t struct_size;
    uint32_t executables;
    uint64_t workspace_bytes; /* planned: the largest of a call; sizes known only at call time: 0 */
    uint64_t constant_bytes;  /* read where they lie, in the file or as folded */
    uint64_t packed_bytes;    /* weights in forms of a library's own */
    uint64_t winograd_bytes;  /* part of packed_bytes: in Winograd's form */
    uint64_t scratch_bytes;   /* scratch of a call beside the workspace: the largest */
    uint64_t output_bytes;    /* outputs of a call, counted like the workspace */
    /* What the context holds on the devices of the function, for tensors and values between parts
     * (stator_ctx_device_stats), now and at most. */
    uint64_t device_bytes;
    uint64_t device_peak_bytes;
} stator_x_memory;
STATOR_EXPORT void stator_x_memory_of(stator_function *function, stator_x_memory *out);
/* One executable: a part of a graph that one backend runs. */
typedef struct stator_x_part {
    uint32_t struct_size;
    uint32_t program; /* index of the function's program, newest first */
    uint32_t body;    /* 0: the graph itself; k: body k - 1 of its control flow */
    uint32_t step;    /* place among the steps of that graph or body */
    const char *backend;
    uint64_t result_bytes;    /* values that it makes; sizes known only at call time count 0 */
    uint64_t workspace_bytes; /* own workspace of a call; the rest as in stator_x_memory */
    uint64_t constant_bytes;
    uint64_t packed_bytes;
    uint64_t winograd_bytes;
    uint64_t scratch_bytes;
} stator_x_part;
/* How many there are now, and one of them; a compile in between may add some. `backend` lives as
 * long as the function. Any thread. OUT_OF_RANGE: there are not so many. */
STATOR_EXPORT uint32_t stator_x_part_count(stator_function *function);
STATOR_EXPORT stator_status stator_x_part_at(stator_function *function, uint32_t index,
                                             stator_x_part *out_part) STATOR_MUST_USE;
/* Steps of a part in the order in which a call makes them: fn is called for each step, and the row
 * is valid for that call. A part whose backend reports no steps has none. Names of nodes are those
 * of the model, a value's where the node has none and else the op's, each once; none for steps of a
 * loop's body, and for a part from the compile cache. OUT_OF_RANGE: there is no such part; the
 * backend's own failures. */
typedef struct stator_x_step {
    uint32_t struct_size;
    uint32_t kind;  /* stator_step_kind */
    uint32_t flags; /* stator_step_flag */
    uint32_t depth; /* 0: of the part, k: of a body inside k loops */
    uint32_t reserved;
    uint32_t n_nodes;
    const char *const *nodes;
    const char *name;    /* in profiles */
    uint64_t read_bytes; /* bytes of its buffers; OPEN: and more, with the call's sizes */
    uint64_t written_bytes;
    /* Flops of its nodes by their types: two for each multiplication that a contraction adds up,
     * one an element of pointwise ops and reductions. Without nodes, or with sizes known only at
     * call time: 0 of these. */
    uint64_t flops;
} stator_x_step;
typedef void (*stator_x_step_fn)(void *self, const stator_x_step *row);
STATOR_EXPORT stator_status stator_x_part_steps(stator_function *function, uint32_t index,
                                                stator_x_step_fn fn, void *self) STATOR_MUST_USE;

/* The fallback nodes of the newest program: those that the function's backend refuses and another
 * one runs, by op and reason. fn is called for each entry. */
typedef struct stator_x_fallback_entry {
    uint32_t struct_size;
    uint32_t count;
    const char *op;
    const char *name; /* name of the first named node, "" none */
    const char *reason;
} stator_x_fallback_entry;
typedef void (*stator_x_fallback_fn)(void *self, const stator_x_fallback_entry *row);
STATOR_EXPORT void stator_x_fallback_nodes(stator_function *function, stator_x_fallback_fn fn,
                                           void *self);

/* Values of the newest program that one part leaves in another memory than the next reads them
 * from, and inputs that a part reads in a memory of its own. fn is called for each; the entry is
 * valid for that call. What a call does copy, stator_function_copies counts: an input that lies
 * there already is not copied. RESOURCE_EXHAUSTED. */
typedef struct stator_x_copy {
    uint32_t struct_size;
    uint32_t
        is_border;     /* an input of a call, or what control flow hands on: where it lies varies */
    const char *value; /* name of the node that makes it, or of the input; "" unknown */
    const char *from;  /* "cpu", "cuda:0"; "" when it varies */
    const char *to;
    const char *backend; /* that reads it */
    const char *node;    /* the first node that reads it; "" unknown */
    const char *op;
} stator_x_copy;
typedef void (*stator_x_copy_fn)(void *self, const stator_x_copy *row);
STATOR_EXPORT void stator_x_copies(stator_function *function, stator_x_copy_fn fn, void *self);

/* Conditions on inputs for a call to run the newest program: fn is called for each input, size and
 * condition, the row is valid for that call. RESOURCE_EXHAUSTED. */
enum stator_x_guard_kind {
    STATOR_X_GUARD_INPUT = 1, /* subject: its name; text: "f32[N, 3, 224, 224]" */
    STATOR_X_GUARD_SIZE = 2,  /* subject: "N"; text: "in 1..64 and a multiple of 8" */
    STATOR_X_GUARD_NEED = 3   /* subject: ""; text: why a call is refused that does not obey */
};
typedef struct stator_x_guard {
    uint32_t struct_size;
    uint32_t kind;
    const char *subject;
    const char *text;
} stator_x_guard;
typedef void (*stator_x_guard_fn)(void *self, const stator_x_guard *row);
STATOR_EXPORT stator_status stator_x_guards(stator_function *function, stator_x_guard_fn fn,
                                            void *self) STATOR_MUST_USE;

/* Compiles for these inputs without running. */
STATOR_EXPORT stator_status stator_x_prepare(stator_function *function, uint32_t n_in,
                                             stator_tensor *const *in) STATOR_MUST_USE;
STATOR_EXPORT uint32_t stator_x_fuel_count(stator_function *function);
STATOR_EXPORT stator_status stator_x_fuel_at(stator_function *function, uint32_t index,
                                             stator_x_fuel_row *out_row) STATOR_MUST_USE;
/* Scopes opened by the last compile, also those in which nothing was asked. */
STATOR_EXPORT uint32_t stator_x_fuel_scopes(stator_function *function);

/* Compiles the model's graph, for all sizes that it states, to one executable of the function's
 * backend, shows the final graph and has the backend take the executable apart. UNSUPPORTED, with
 * the node and the reason: something would run elsewhere, or shapes depend on values. Before the
 * backend's pieces the sink gets the host's piece "needs", which tests sizes (docs/build.md). */
typedef stator_status (*stator_x_package_fn)(void *self, const stator_graph *graph);
STATOR_EXPORT stator_status stator_x_package(stator_function *function, stator_x_package_fn fn,
                                             void *self,
                                             const stator_package_sink *sink) STATOR_MUST_USE;

/* Calls with copies of the inputs. out[] has room for n_out + n_in tensors, all new: the outputs,
 * then the inputs as the call left them (a model may write them). On failure all are NULL. */
STATOR_EXPORT stator_status stator_x_call_copies(stator_function *function, uint32_t n_in,
                                                 stator_tensor *const *in, uint32_t n_out,
                                                 stator_tensor **out) STATOR_MUST_USE;
/* One value of a model's graph, in words. Empty texts are unknown. */
#define STATOR_X_PLACE_TEXT 160u
typedef struct stator_x_place {
    uint32_t struct_size;
    uint32_t is_found;
    uint32_t is_wanted;    /* the value asked for first is the place */
    uint32_t hides_wanted; /* looking at the value that was asked for makes the difference vanish */
    uint32_t value;
    uint32_t reserved;
    double max_abs;
    char node[STATOR_X_PLACE_TEXT];   /* name of the imported node */
    char name[STATOR_X_PLACE_TEXT];   /* name of the value */
    char origin[STATOR_X_PLACE_TEXT]; /* "Conv 'conv1' (net.onnx:3)" */
    /* Steps of a rounding that come before: see stator_x_first_difference. */
    uint32_t n_steps;
    uint32_t is_rounding;                /* nothing else differs; is_found is 0 */
    char step_node[STATOR_X_PLACE_TEXT]; /* node of the first step */
    char step_name[STATOR_X_PLACE_TEXT];
} stator_x_place;
/* Has the model's graph a node that rounds, outside of bodies of control flow? */
STATOR_EXPORT int32_t stator_x_has_rounding(const stator_model *model);
/* Fills value and texts, and leaves the rest as it is. INVALID_ARGUMENT: struct_size is not set. */
STATOR_EXPORT stator_status stator_x_describe(const stator_model *model, uint32_t value,
                                              stator_x_place *out_place) STATOR_MUST_USE;
/* Two ways to compile a model, and a call in which they differ. */
typedef struct stator_x_pair {
    uint32_t struct_size;
    uint32_t wanted; /* a value that is looked at alone before all others, or 0 */
    stator_model *model;
    const stator_compile_options *good; /* believed */
    const stator_compile_options *bad;
    stator_tensor *const *in;
    uint32_t n_in;
    uint32_t reserved;
    double rtol, atol; /* negative: chosen by dtype and by how large values are */
} stator_x_pair;
/* The first value, in topological order, in which they differ: inner values are read by
 * compiling again with them as more outputs. Not found: the difference vanishes when it is
 * observed. A rounding that falls the other way is no difference: where a node rounds (round,
 * floor, ceil, trunc, a cast of floats to integers), its operands agree, and at most one element
 * in 50, or one alone, is off by exactly 1, the value counts as a step. It is replaced by the
 * good backend's for both, and the search goes on behind it, past 64 such values at most.
 * INVALID_ARGUMENT: struct_size of one of the two is not set. */
STATOR_EXPORT stator_status stator_x_first_difference(const stator_x_pair *pair,
                                                      stator_x_place *out_place) STATOR_MUST_USE;

/* The folder of the compile cache (docs/cache.md), which the first program that is kept may yet
 * have to make; NULL, with the reason, when there is none. */
STATOR_EXPORT const char *stator_x_cache_folder(stator_ctx *ctx, const char **out_reason);
typedef struct stator_x_cache_row {
    uint32_t struct_size;
    uint32_t reserved;
    const char *name;
    const char *kind; /* "code", "data" or "sums" */
    const char *key;  /* in words, a line a field */
    uint64_t size_bytes;
    int64_t used_s; /* when it was written or read last, seconds since 1970 */
} stator_x_cache_row;
/* Calls fn for each entry, the one used last first; a row is valid for its call. */
typedef void (*stator_x_cache_fn)(void *self, const stator_x_cache_row *row);
STATOR_EXPORT stator_status stator_x_cache_list(stator_ctx *ctx, stator_x_cache_fn fn,
                                                void *self) STATOR_MUST_USE;
/* Removes every entry. */
STATOR_EXPORT stator_status stator_x_cache_clear(stator_ctx *ctx, uint64_t *out_entries,
                                                 uint64_t *out_bytes) STATOR_MUST_USE;
/* Would a compile of the function for these inputs come from the cache? fn is called once, with 1
 * and the entry's name, or with 0 and why not. */
typedef void (*stator_x_text_fn)(void *self, int32_t is_hit, const char *text);
STATOR_EXPORT stator_status stator_x_cache_why(stator_function *function, uint32_t n_in,
                                               stator_tensor *const *in, stator_x_text_fn fn,
                                               void *self) STATOR_MUST_USE;

/* The slot of a plugin that the calling thread is in, the innermost one ("my_backend", "compile";
 * "dlopen" stands for its constructors): 1, or 0 with NULLs where it is in none. The texts live as
 * long as the plugin's context. For handlers of signals, of exit and of std::terminate, to say
 * whose code it was: it is async-signal-safe and takes no lock. The library installs none of these
 * (docs/abi.md, section 7). */
STATOR_EXPORT int32_t stator_x_running_slot(const char **out_plugin, const char **out_slot);

/* From this call on the context's calls record how long each of their steps takes; what was
 * recorded before is forgotten. A step is a kernel, a library's call or a node of `eager`; of a
 * backend that tells no steps, a whole partition. */
STATOR_EXPORT void stator_x_profile_start(stator_ctx *ctx);
#define STATOR_X_PROFILE_NAME 96u /* bytes of a name with its end; longer ones are cut */
typedef struct stator_x_profile_row {
    uint32_t struct_size;
    uint32_t reserved;
    const char *name;          /* up to its first newline */
    uint64_t begin_ns, end_ns; /* times of CLOCK_MONOTONIC */
} stator_x_profile_row;
typedef void (*stator_x_profile_fn)(void *self, const stator_x_profile_row *row);
/* Ends it and hands over what was recorded, in order; no call may run. RESOURCE_EXHAUSTED: there
 * was no memory for all of it, or there were more than 2^20 steps; fn gets the first ones. */
STATOR_EXPORT stator_status stator_x_profile_stop(stator_ctx *ctx, stator_x_profile_fn fn,
                                                  void *self) STATOR_MUST_USE;

/* Host memory request number n (from 1) and all later ones fail; 0: none. For tests. */
STATOR_EXPORT void stator_x_fail_alloc_at(stator_ctx *ctx, uint64_t n);
STATOR_EXPORT uint64_t stator_x_alloc_requests(stator_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
