/* The application API: open a context, load a model, compile it for a backend, call it.
 *
 *     stator_ctx *ctx;      stator_ctx_create(NULL, &ctx);
 *     stator_model *model;  stator_model_load(ctx, "m.onnx", NULL, &model);
 *     stator_function *fn;  stator_compile(model, &(stator_compile_options){
 *                               .struct_size = sizeof(stator_compile_options),
 *                               .backend = "eager"}, &fn);
 *     stator_call_tensors(fn, 1, &x, 1, &y);
 *
 * Every function that can fail returns a stator_status; stator_ctx_error_text has the text of the
 * calling thread's last failure. Objects keep what they need alive: a model may be destroyed while
 * its functions live; the context must outlive everything made in it. `out_` parameters are set to
 * NULL or 0 first. struct_size of every struct is its sizeof: INVALID_ARGUMENT when it is not set.
 * destroy(NULL) and release(NULL) do nothing. Threads: a context, a model and a
 * function may be used from many threads at once; creating and destroying one object is the
 * caller's to order. */
#ifndef STATOR_STATOR_H
#define STATOR_STATOR_H

#include <stator/base.h>
#include <stator/dlpack.h>
#include <stator/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stator_model stator_model;       /* an imported program */
typedef struct stator_function stator_function; /* guard table -> executables */
typedef struct stator_tensor stator_tensor;     /* a counted buffer with dtype and shape */

/* ---- status and error ---- */

STATOR_EXPORT const char *stator_status_name(stator_status status); /* "NOT_FOUND" */
STATOR_EXPORT const char *stator_status_text(stator_status status); /* "not found" */
STATOR_EXPORT const char *stator_version(void);

/* ---- context ---- */

enum stator_ctx_flag {
    STATOR_CTX_NO_PLUGINS = 1u << 0, /* find no plugins; only registered backends exist */
    STATOR_CTX_NO_ENV = 1u << 1,     /* ignore STATOR_* environment variables */
    STATOR_CTX_PROBE_HERE = 1u << 2, /* stator_ctx_item_probe loads in this process, not a child */
    STATOR_CTX_NO_CACHE = 1u << 3    /* keep no compiled programs on disk, load none */
};

typedef struct stator_ctx_options {
    uint32_t struct_size;
    uint32_t flags;  /* stator_ctx_flag */
    int32_t threads; /* 0: all cores */
    uint32_t plugin_dir_count;
    const char *const *plugin_dirs; /* searched as --plugin-dir */
    uint64_t memory_limit_bytes;    /* 0: none; host memory of the context, checked per request */
    /* Replaces malloc/free for all host memory; both or neither. */
    void *(*alloc)(void *self, uint64_t size, uint64_t align);
    void (*free)(void *self, void *p);
    void *alloc_self;
    /* Receives warnings (level 1) and the log lines of the channels that STATOR_LOGS names. NULL:
     * both go to stderr. Called by any thread that calls the library and by one of the context's
     * own, several at once. */
    void (*log)(void *self, const char *channel, uint32_t level, const char *text);
    void *log_self;
    /* 0.1: channels of the log beside those of STATOR_LOGS, written as there
     * ("passes,cache:debug"); also heard with STATOR_CTX_NO_ENV. NULL: none. A word that names
     * no channel is a warning. */
    const char *log_channels;
} stator_ctx_options;

STATOR_EXPORT stator_status stator_ctx_create(const stator_ctx_options *options,
                                              stator_ctx **out_ctx) STATOR_MUST_USE;
STATOR_EXPORT void stator_ctx_destroy(stator_ctx *ctx);
/* Text, hint and code of the calling thread's last failure in this context, valid until its next
 * one.
 * "", NULL and OK when there was none. */
STATOR_EXPORT const char *stator_ctx_error_text(stator_ctx *ctx);
STATOR_EXPORT const char *stator_ctx_error_hint(stator_ctx *ctx);
STATOR_EXPORT stator_status stator_ctx_error_code(stator_ctx *ctx);

typedef struct stator_mem_stats {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t live_bytes;
    uint64_t peak_bytes;
    uint64_t live_blocks;
} stator_mem_stats;

STATOR_EXPORT void stator_ctx_mem_stats(stator_ctx *ctx, stator_mem_stats *out_stats);
STATOR_EXPORT void stator_ctx_mem_reset_peak(stator_ctx *ctx);

/* Memory of a device that this context has taken for tensors and for values between parts, since it
 * was opened; what a backend takes for itself (constants, workspace) is not counted here. */
typedef struct stator_device_stats {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t held_bytes;   /* taken from the backend, in use or kept for later */
    uint64_t used_bytes;   /* of these, in use */
    uint64_t peak_bytes;   /* the most that was held */
    uint64_t n_allocs;     /* times that the backend was asked for memory */
    uint64_t n_copies;     /* between the device and elsewhere */
    uint64_t copied_bytes; /* by these */
    uint64_t n_waits;      /* times that the host waited for the device */
} stator_device_stats;

/* `device` as "cuda:0". All 0 for one that is not in use, and for "cpu" (stator_ctx_mem_stats).
 * INVALID_ARGUMENT: it is no name of a device. Since 0.1. */
STATOR_EXPORT stator_status stator_ctx_device_stats(stator_ctx *ctx, const char *device,
                                                    stator_device_stats *out_stats) STATOR_MUST_USE;

/* ---- plugins and backends ---- */

/* One row of `stator backends` and `stator plugins`; strings live until the context ends.
 * NULL means unknown. */
typedef struct stator_item_info {
    uint32_t struct_size;
    uint32_t index;
    const char *name;
    const char *kind;   /* backend, frontend, pass, oplib, unknown */
    const char *state;  /* AVAILABLE, NO_DEVICE, ... (docs/plugins.md) */
    const char *reason; /* NULL when AVAILABLE */
    const char *hint;   /* NULL when AVAILABLE */
    const char *version;
    const char *abi;
    const char *path;   /* NULL for registered ones */
    const char *origin; /* api, files-env, path-env, plugin-dir, user, libdir, usr-local */
    const char *tags;   /* comma-separated */
    const char *description;
    const char *shadowed_by; /* path of the one that wins, or NULL */
    const char *build_id;    /* hexadecimal, or NULL */
    int32_t priority;
    int32_t probed;
    uint32_t device_count;
    uint32_t option_count;
    const stator_device_info *devices; /* filled by stator_ctx_item_probe */
} stator_item_info;

/* Finds plugins (once; later calls return at once). Runs no plugin code. */
STATOR_EXPORT stator_status stator_ctx_scan(stator_ctx *ctx) STATOR_MUST_USE;
STATOR_EXPORT uint32_t stator_ctx_item_count(stator_ctx *ctx);
STATOR_EXPORT stator_status stator_ctx_item_info(stator_ctx *ctx, uint32_t index,
                                                 stator_item_info *out_info) STATOR_MUST_USE;
/* Loads and probes item `index` in a child process and updates its state. */
STATOR_EXPORT stator_status stator_ctx_item_probe(stator_ctx *ctx, uint32_t index) STATOR_MUST_USE;
/* Registers a backend of the application's own; `self` is passed to every slot. The descriptor
 * must outlive the context. */
STATOR_EXPORT stator_status stator_backend_register(stator_ctx *ctx, const stator_backend *backend,
                                                    void *self) STATOR_MUST_USE;
/* The host table, for applications that build graphs or register plugins of their own. */
STATOR_EXPORT const stator_host *stator_ctx_host(stator_ctx *ctx);

/* ---- tensors ---- */

/* A new dense tensor in host memory, contents undefined. */
STATOR_EXPORT stator_status stator_tensor_create(stator_ctx *ctx, stator_dtype dtype, uint32_t rank,
                                                 const int64_t *shape,
                                                 stator_tensor **out_tensor) STATOR_MUST_USE;
/* Memory of the application's own. */
typedef struct stator_buffer {
    uint32_t struct_size;
    uint32_t reserved; /* 0 */
    void *data;
    uint64_t size_bytes;
    /* Ends the memory; NULL: the application does, after the tensor's last reference went. */
    void (*deleter)(void *self, void *data);
    void *self;
} stator_buffer;

/* A tensor over the application's memory, without copying: dense, row-major, host memory of at
 * least the tensor's bytes. deleter runs once, when the last reference goes, on the thread that
 * lets go of it; where the call fails it does not run. As an input of a call, memory that is not
 * aligned to 16 bytes is copied. INVALID_ARGUMENT: no such dtype or shape, data NULL of a tensor
 * that has elements, or too few bytes; RESOURCE_EXHAUSTED. Since 0.1. */
STATOR_EXPORT stator_status stator_tensor_wrap(stator_ctx *ctx, stator_dtype dtype, uint32_t rank,
                                               const int64_t *shape, const stator_buffer *buffer,
                                               stator_tensor **out_tensor) STATOR_MUST_USE;
/* A new dense tensor on a device, "NAME:N" for device N of backend NAME (or "cpu"), contents
 * undefined. NOT_FOUND: there is no such backend or device; what the backend answers about it.
 * Since 0.1. */
STATOR_EXPORT stator_status stator_tensor_create_on(stator_ctx *ctx, const char *device,
                                                    stator_dtype dtype, uint32_t rank,
                                                    const int64_t *shape,
                                                    stator_tensor **out_tensor) STATOR_MUST_USE;
/* Copies all elements of src to dst, which has the same dtype and shape and is dense; each lies
 * in host memory or on any device. Ordered behind the calls that write src or use dst. Host
 * memory has been written when this returns; a copy to a device may still be under way, and
 * whatever uses dst waits for it. INVALID_ARGUMENT when the two do not fit; errors of the devices;
 * the error of a call that computed src and has failed, which a copy on one device may leave to
 * those that use dst. What dst holds after an error is undefined. Since 0.1. */
STATOR_EXPORT stator_status stator_tensor_copy(stator_ctx *ctx, stator_tensor *dst,
                                               stator_tensor *src) STATOR_MUST_USE;
/* Waits until the tensor's elements are there; tells, each time, the error of a call that failed
 * among those that computed them, until other elements are written. At once for one in host memory.
 * Since 0.1. */
STATOR_EXPORT stator_status stator_tensor_wait(stator_ctx *ctx,
                                               stator_tensor *tensor) STATOR_MUST_USE;
/* "cuda:0"; "cpu" for host memory. Borrowed from the context. Since 0.1. */
STATOR_EXPORT const char *stator_tensor_device(const stator_tensor *tensor);
/* Takes over a DLPack tensor without copying; its deleter runs when the last reference goes. One on
 * a device needs a backend that has opened the device in this context (a function compiled for it,
 * or stator_tensor_create_on); what its maker queued must be done. FAILED_PRECONDITION: no backend
 * has. INVALID_ARGUMENT: a tensor that lives has taken it over, in whatever context; its address is
 * of another memory than it says; it ends outside of its allocation, which is known of memory that
 * a device's driver has allocated, pinned memory too. Where the call fails it stays the caller's;
 * else its deleter is for Stator alone. One flagged read-only is refused where a call writes it. */
STATOR_EXPORT stator_status stator_tensor_from_dlpack(stator_ctx *ctx,
                                                      DLManagedTensorVersioned *managed,
                                                      stator_tensor **out_tensor) STATOR_MUST_USE;
/* The same of a tensor on a device whose elements its maker may still be computing on `stream`, the
 * maker's (stator_call_options.stream says what is one): nothing is waited for, what uses the
 * tensor is ordered behind the stream. NULL: they are there. When the last reference goes, the
 * deleter may run while calls on the application's streams still use the memory: its owner orders
 * those, as PyTorch does; calls on streams of Stator's own are waited for. INVALID_ARGUMENT: a
 * stream of another device. Since 0.1. */
STATOR_EXPORT stator_status
stator_tensor_from_dlpack_on(stator_ctx *ctx, DLManagedTensorVersioned *managed, void *stream,
                             stator_tensor **out_tensor) STATOR_MUST_USE;
/* A DLPack view of the tensor, without copying; holds a reference until its deleter runs. Waits for
 * the elements of one on a device, whose `data` is an address of the device, and fails as
 * stator_tensor_wait does. */
STATOR_EXPORT stator_status stator_tensor_to_dlpack(
    stator_tensor *tensor, DLManagedTensorVersioned **out_managed) STATOR_MUST_USE;
/* The same without waiting: what is queued on `stream`, the consumer's, from now on finds the
 * elements there; the consumer uses them on that stream alone, and asks stator_tensor_wait whether
 * the calls that computed them went well. NULL: waits. Since 0.1. */
STATOR_EXPORT stator_status stator_tensor_to_dlpack_on(
    stator_tensor *tensor, void *stream, DLManagedTensorVersioned **out_managed) STATOR_MUST_USE;
STATOR_EXPORT void stator_tensor_retain(stator_tensor *tensor);
STATOR_EXPORT void stator_tensor_release(stator_tensor *tensor);
STATOR_EXPORT const DLTensor *stator_tensor_view(const stator_tensor *tensor); /* borrowed */
STATOR_EXPORT stator_dtype stator_tensor_dtype(const stator_tensor *tensor);
/* NULL for a tensor on a device, and the context's error text says so. */
STATOR_EXPORT void *stator_tensor_data(const stator_tensor *tensor);
STATOR_EXPORT uint64_t stator_tensor_size_bytes(const stator_tensor *tensor);

/* ---- models ---- */

typedef struct stator_load_options {
    uint32_t struct_size;
    uint32_t flags;                 /* 1: copy, for files that may change after loading */
    const char *frontend;           /* NULL: by extension and contents */
    const char *const *option_keys; /* frontend options */
    const char *const *option_values;
    uint32_t option_count;
    uint32_t reserved;
} stator_load_options;

STATOR_EXPORT stator_status stator_model_load(stator_ctx *ctx, const char *path,
                                              const stator_load_options *options,
                                              stator_model **out_model) STATOR_MUST_USE;
/* `name` stands for the path in messages; the bytes must outlive the model unless flag copy. */
STATOR_EXPORT stator_status stator_model_load_bytes(stator_ctx *ctx, const void *bytes,
                                                    uint64_t size, const char *name,
                                                    const stator_load_options *options,
                                                    stator_model **out_model) STATOR_MUST_USE;
/* A graph written by the application: fill *out_builder through stator_ctx_host(ctx)->build, then
 * stator_model_finish makes the model of it (and ends the builder, also on failure). */
STATOR_EXPORT stator_status stator_model_begin(stator_ctx *ctx,
                                               stator_builder **out_builder) STATOR_MUST_USE;
STATOR_EXPORT stator_status stator_model_finish(stator_builder *builder,
                                                stator_model **out_model) STATOR_MUST_USE;
STATOR_EXPORT void stator_model_destroy(stator_model *model);

typedef struct stator_port_info {
    uint32_t struct_size;
    stator_dtype dtype;
    const char *name;
    uint32_t rank;
    uint32_t is_param;                      /* an initialiser: the caller need not give it */
    int64_t dims[STATOR_RANK_MAX];          /* -1 when symbolic */
    const char *dim_names[STATOR_RANK_MAX]; /* NULL when static */
} stator_port_info;

/* Some models cannot be imported before the values of some inputs are known (a shape given as an
 * input): until then they have inputs but no outputs and no graph. This imports such a model for
 * these inputs, in order; calls do the same by themselves. OK at once for every other model. */
STATOR_EXPORT stator_status stator_model_specialise(stator_model *model, uint32_t n_in,
                                                    stator_tensor *const *in) STATOR_MUST_USE;
/* Inputs that are parameters are not counted. */
STATOR_EXPORT uint32_t stator_model_input_count(const stator_model *model);
STATOR_EXPORT uint32_t stator_model_output_count(const stator_model *model);
STATOR_EXPORT stator_status stator_model_input_info(const stator_model *model, uint32_t index,
                                                    stator_port_info *out_info) STATOR_MUST_USE;
STATOR_EXPORT stator_status stator_model_output_info(const stator_model *model, uint32_t index,
                                                     stator_port_info *out_info) STATOR_MUST_USE;
/* The position of an input or output in calls, by its name; an output without one is "output_K".
 * NOT_FOUND: there is none (the text lists them); outputs of a model that needs values of inputs
 * are known after stator_model_specialise. Since 0.1. */
STATOR_EXPORT stator_status stator_model_find_input(const stator_model *model, const char *name,
                                                    uint32_t *out_index) STATOR_MUST_USE;
STATOR_EXPORT stator_status stator_model_find_output(const stator_model *model, const char *name,
                                                     uint32_t *out_index) STATOR_MUST_USE;
/* The imported graph, borrowed; NULL while the import still needs input values (NEED_VALUE). */
STATOR_EXPORT const stator_graph *stator_model_graph(const stator_model *model);

/* ---- compile and call ---- */

typedef struct stator_compile_options {
    uint32_t struct_size;
    uint32_t flags;                 /* stator_compile_flag */
    const char *backend;            /* NULL: the available backend of highest priority; a warning
                                     * names better ones that are there but unavailable */
    const char *mode;               /* NULL or "default", "reduce-overhead", "max-autotune", ... */
    const char *fallback;           /* NULL, or a backend in place of one that is there but
                                     * unavailable, with a warning; unknown names are errors */
    const char *const *option_keys; /* backend options; "other.key" for another backend's,
                                     * "PASS:key" for those of a plugin's pass */
    const char *const *option_values;
    uint32_t option_count;
    uint32_t recompile_limit; /* 0: 8 */
    int64_t fuel;             /* number of optional transformations allowed; 0: no limit */
    const char *fuel_scope;   /* NULL: the limit counts over the whole compile */
    /* So many first calls of each compiled program run on the backend `eager` as well. One whose
     * results differ by more than rounding fails with DATA_LOSS and says where the two part. */
    uint32_t verify;
    uint32_t outputs; /* 0.1: stator_outputs, where results lie that a call has no tensor for */
    /* 0.1: called before each stage of a compile, on the thread that compiles: a pass by its name,
     * or "compile NAME" for each part that backend NAME compiles, with how many parts of the graph
     * (or of a body of control flow) are done and how many there are; 0 and 0 of a pass. Nothing is
     * told of a program that comes from the cache. Must not call back into the function. */
    void (*progress)(void *self, const char *stage, uint32_t done, uint32_t total);
    /* Asked at the same places and before a call begins: not 0 ends the compile, or the call, with
     * CANCELLED. The function stays usable; a later call compiles anew. */
    int32_t (*is_cancelled)(void *self);
    void *watch_self; /* first argument of progress and is_cancelled */
    /* 0.1: names of backends with commas between, at most 8: a node that the backend leaves goes to
     * the first of them that runs it. NULL: "eager". UNSUPPORTED, naming the nodes, when none does.
     * With STATOR_COMPILE_STRICT there are none. */
    const char *node_fallbacks;
    /* 0.1: where to compute, "NAME:N": device N of backend NAME, or "cpu". With `backend` it is one
     * of that backend's; without, it names the backend. NULL: device 0. */
    const char *device;
} stator_compile_options;

/* Where a call puts results that the caller has no tensor for. */
enum stator_outputs {
    STATOR_OUTPUTS_AUTO = 0, /* on the function's device when an input lies on one, else the host */
    STATOR_OUTPUTS_HOST = 1, /* in host memory */
    STATOR_OUTPUTS_DEVICE = 2 /* on the function's device; INVALID_ARGUMENT: it has none */
};

enum stator_compile_flag {
    STATOR_COMPILE_STRICT = 1u << 0,      /* a node left to another backend is an error */
    STATOR_COMPILE_NO_FREEZE = 1u << 1,   /* parameters stay swappable */
    STATOR_COMPILE_VERIFY_EACH = 1u << 2, /* verify the graph after each pass */
    STATOR_COMPILE_NO_FUEL = 1u << 3,     /* refuse every optional transformation */
    STATOR_COMPILE_STATIC = 1u << 4,      /* compile for the sizes of the call alone */
    STATOR_COMPILE_NO_CACHE = 1u << 5,    /* neither load the program from disk nor keep it there */
    /* A call whose sizes are others than the model declares is INVALID_ARGUMENT. Without the flag
     * such an axis becomes a symbol, and a warning names it. Since 0.1. */
    STATOR_COMPILE_STRICT_SIZES = 1u << 6,
    /* Results are filled with a pattern (NaN, or bytes of 0xa5) before a backend writes them, so
     * that what it leaves out cannot pass for a result. Calls that are verified do so anyway. */
    STATOR_COMPILE_FILL_OUTPUTS = 1u << 7,
    /* A value that one part leaves in another memory than the next part reads it from is an error
     * that names both. Since 0.1. */
    STATOR_COMPILE_STRICT_COPIES = 1u << 8
};

/* Checks names and options now; compiles at the first call of each shape. */
STATOR_EXPORT stator_status stator_compile(stator_model *model,
                                           const stator_compile_options *options,
                                           stator_function **out_function) STATOR_MUST_USE;
STATOR_EXPORT void stator_function_destroy(stator_function *function);

/* The shape of an input that a call will bring. */
typedef struct stator_shape {
    uint32_t rank;
    uint32_t reserved;   /* 0 */
    const int64_t *dims; /* rank sizes */
} stator_shape;

/* Compiles ahead for calls with inputs of these shapes, in order, where no compile serves them yet;
 * dtypes are the model's. Nothing runs. The same errors as of a call with such inputs; NEED_VALUE:
 * the model's graph depends on the values of inputs, and only a call can bring these. Any thread;
 * calls that a compile serves already do not wait. Since 0.1. */
STATOR_EXPORT stator_status stator_function_prepare(stator_function *function, uint32_t n_in,
                                                    const stator_shape *in) STATOR_MUST_USE;

/* Runs. in[] are the model's inputs in order (parameters left out), in host memory or on devices.
 * out[k] == NULL receives a new tensor (release it), on the function's device when an input lies
 * there, else in host memory; results on a device may still be computed when this returns
 * (stator_tensor_wait). Otherwise it is written in place and must fit; it shares
 * no memory with an input or another output, and its contents before do not last. Where an input
 * was computed by a call that failed late the error is that one's, here or where the results are
 * used. Any number of threads may call one function at once. */
STATOR_EXPORT stator_status stator_call_tensors(stator_function *function, uint32_t n_in,
                                                stator_tensor *const *in, uint32_t n_out,
                                                stator_tensor **out) STATOR_MUST_USE;

typedef struct stator_call_options {
    uint32_t struct_size;
    uint32_t outputs; /* stator_outputs; AUTO: as stator_compile_options.outputs says */
    /* A stream of the application's on the function's device: a CUstream or cudaStream_t of its
     * primary context for `cuda`, a hipStream_t for `hip`; 1 is the default stream, as DLPack has
     * it. The call queues its work there and waits for nothing, unless a result lies in host memory
     * or a size depends on values; results are there for what is queued on the stream behind it.
     * NULL: a stream of Stator's own. The application ends the stream after a wait for the last
     * call on it: stator_function_wait, or stator_tensor_wait of a result.
     *
     * A handle is checked before anything is queued: one that is an address of device memory, or
     * where no memory is, is refused, and so is what the driver says is no stream of the device.
     * Drivers follow the handles that they are given: another pointer that is no stream may end the
     * process inside the driver, as it does everywhere else. */
    void *stream;
} stator_call_options;

/* As stator_call_tensors; options NULL: the same. INVALID_ARGUMENT: a stream of another device, or
 * of a function whose backend has no device. Since 0.1. */
STATOR_EXPORT stator_status stator_call_with(stator_function *function, uint32_t n_in,
                                             stator_tensor *const *in, uint32_t n_out,
                                             stator_tensor **out,
                                             const stator_call_options *options) STATOR_MUST_USE;
/* Waits until what calls of the function have queued on devices is done, on every stream that
 * they used; tells the first error of a call that failed late and that nobody has been told of.
 * Calls that other threads are making meanwhile may be waited for or not. At once for a function
 * without devices. Since 0.1. */
STATOR_EXPORT stator_status stator_function_wait(stator_function *function) STATOR_MUST_USE;

/* A pre-bound call for one thread at a time: binds inputs and outputs once, then run is the kernel
 * and the guard check alone, without allocating. */
typedef struct stator_bound_call stator_bound_call;
STATOR_EXPORT stator_status stator_bind(stator_function *function, uint32_t n_in,
                                        stator_tensor *const *in, uint32_t n_out,
                                        stator_tensor **out,
                                        stator_bound_call **out_call) STATOR_MUST_USE;
STATOR_EXPORT stator_status stator_bound_call_run(stator_bound_call *call) STATOR_MUST_USE;
STATOR_EXPORT void stator_bound_call_destroy(stator_bound_call *call);

/* How the last compile of this function was divided. */
typedef struct stator_coverage {
    const char *backend;
    uint32_t nodes;
    uint32_t partitions;
} stator_coverage;

STATOR_EXPORT uint32_t stator_function_coverage(stator_function *function, uint32_t capacity,
                                                stator_coverage *out_rows);
/* What the last call that ended moved between the memories of host and devices. */
typedef struct stator_copy_info {
    uint32_t struct_size;
    uint32_t n_copies;
    uint64_t bytes;
    uint32_t n_waits;   /* of the host for a device */
    uint32_t n_devices; /* on which parts of the function may run; 0: nothing is ever copied */
    uint64_t n_calls;   /* of the newest program; 0: the other counts say nothing yet */
    /* Inputs that a call writes (`assign` in the graph), how many of them it wrote by a copy at its
     * end, and the bytes of those; the others were written where they lie. */
    uint32_t n_write_backs;
    uint32_t n_write_back_copies;
    uint64_t write_back_bytes;
} stator_copy_info;

/* Since 0.1. */
STATOR_EXPORT stator_status stator_function_copies(stator_function *function,
                                                   stator_copy_info *out_info) STATOR_MUST_USE;
STATOR_EXPORT uint64_t stator_function_compile_ns(stator_function *function);
/* Graphs compiled so far: one for each class of sizes that calls brought (docs/sizes.md). */
STATOR_EXPORT uint32_t stator_function_compiles(stator_function *function);

#ifdef __cplusplus
}
#endif
#endif
