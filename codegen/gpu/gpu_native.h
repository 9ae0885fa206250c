/* The driver of a vendor, and a GPU as this process uses it: its primary context, and the table of
 * gpu_driver.h over the driver's functions (header unstable, see docs/gpu.md).
 *
 * CUDA's driver API and HIP have the same functions under other names, with the same arguments
 * and numbers of errors. So what calls them is written once, and a vendor is data: names of
 * functions, numbers of attributes, sentences; beside that a few functions where the two differ.
 *
 * The context is the device's primary one, which PyTorch and the vendor's runtime use too, so that
 * addresses, streams and events pass between them and us. Its flags are left as they are: how a
 * thread waits is the process's choice. The default of CUDA's driver spins while it has fewer
 * contexts than the machine has processors, which is what short kernels want.
 *
 * Each function makes the context current for its own duration where another one is: a thread
 * without a context keeps ours, which spares later calls the change. */
#ifndef STATOR_CODEGEN_GPU_NATIVE_H
#define STATOR_CODEGEN_GPU_NATIVE_H

#include "codegen/gpu/gpu_driver.h"
#include "codegen/gpu/gpu_open.h"
#include "codegen/target/device_memory.h"
#include "codegen/target/library.h"

#include <stdatomic.h>

_Static_assert(sizeof(int) == 4 && sizeof(size_t) == 8 && sizeof(void *) == 8,
               "the drivers' int, size_t and pointers are those of a machine of 64 bits");

/* Errors that CUDA and HIP number alike. */
enum st_gpu_result {
    ST_GPU_RESULT_SUCCESS = 0,
    ST_GPU_RESULT_INVALID_VALUE = 1,
    ST_GPU_RESULT_OUT_OF_MEMORY = 2,
    ST_GPU_RESULT_NOT_INITIALIZED = 3, /* also: the driver was begun before a fork */
    ST_GPU_RESULT_DEINITIALIZED = 4,   /* the process is ending, and the driver has */
    ST_GPU_RESULT_NO_DEVICE = 100,
    ST_GPU_RESULT_INVALID_CONTEXT = 201,
    ST_GPU_RESULT_INVALID_HANDLE = 400
};

/* What a driver is asked about a device, as indices of st_gpu_vendor.attributes. */
enum st_gpu_attribute {
    ST_GPU_BLOCK_THREADS_MAX,
    ST_GPU_SHARED_BYTES,
    ST_GPU_SHARED_OPTIN_BYTES,
    ST_GPU_WARP_SIZE,
    ST_GPU_MULTIPROCESSORS,
    ST_GPU_COMPUTE_MODE,
    ST_GPU_L2_BYTES,
    ST_GPU_REGISTERS, /* of a multiprocessor */
    ST_GPU_N_ATTRIBUTES
};

typedef struct st_gpu_api {
#define GPU_FUNCTION(field, cuda, hip, arguments) int32_t(*field) arguments;
#include "codegen/gpu/gpu_native_functions.def"
#undef GPU_FUNCTION
} st_gpu_api;

enum { ST_GPU_OWN_MAX = 4 };

typedef struct st_gpu_vendor st_gpu_vendor;
typedef struct st_gpu_contractions st_gpu_contractions;

/* The driver of a process, begun once. */
typedef struct st_gpu_native {
    const st_gpu_vendor *vendor;
    const char *name; /* of devices: "cuda" of "cuda:0" */
    st_gpu_api api;
    void (*own[ST_GPU_OWN_MAX])(void); /* of vendor->own_symbols */
    char path[ST_GPU_PATH_BYTES];
    int version;      /* as the driver numbers itself: 13000 is CUDA 13.0 */
    int device_count; /* those that the variable vendor->visible leaves */
} st_gpu_native;

struct st_gpu_vendor {
    int32_t device_type;
    const char *visible;                     /* the variable that hides devices from a process */
    const char *see_devices;                 /* what to do where the driver sees none */
    const char *see_users;                   /* what to do where a device gives no context */
    const char *find_fault;                  /* what names the kernel that did a wrong access */
    const char *mismatch;                    /* what to do where library and kernel module differ */
    int32_t mismatch_result;                 /* the error that says so */
    const char *compiler;                    /* the option that names the compiler's file */
    const st_gpu_contractions *contractions; /* NULL: contractions become loops */
    const st_gpu_library *driver;
    const char *const *symbols; /* of st_gpu_api, in its order */
    const char *const *own_symbols;
    uint32_t own_count;
    int32_t attributes[ST_GPU_N_ATTRIBUTES]; /* the driver's numbers; 0: it has none */
    uintptr_t default_stream; /* the driver's handle of what applications call stream 1 */
    int32_t prohibited;       /* the compute mode in which nothing runs; 0: none */
    const int32_t *ending;    /* errors after which the process must be started anew */
    uint32_t ending_count;

    /* "CUDA_ERROR_OUT_OF_MEMORY", and the driver's words for it. */
    const char *(*error_name)(const st_gpu_native *driver, int32_t result);
    const char *(*error_text)(const st_gpu_native *driver, int32_t result);
    /* What was done when loading an image ended with this result. */
    const char *(*loading)(int32_t result);
    /* What the compiler is told: "sm_90", "gfx90a". */
    stator_status (*arch)(const st_gpu_native *driver, int32_t ordinal, char out[32],
                          stator_diag **err);
    /* Why code for `wanted`, the value of the option arch, is none for a device that is `own`, as
     * the end of a sentence; NULL: it may run there. */
    const char *(*refuse_arch)(const char *own, const char *wanted);
    /* Does code for the architecture have matrix instructions? NULL: none has. */
    bool (*has_matrices)(const char *arch);
    /* Is memory of this type, as the driver tells it of an address, pinned memory of the host? */
    bool (*is_host_memory)(const st_gpu_native *driver, uint32_t type);
    /* A kernel that wants more shared memory than every block has; NULL: there is no more. */
    void (*ask_shared)(const st_gpu_native *driver, void *function, uint32_t bytes);

    /* The compiler of texts. `file` is the option's value; NULL or "": it is looked for when it is
     * needed. NULL: no memory. Any thread. */
    void *(*compiler_create)(const char *file);
    void (*compiler_destroy)(void *compiler); /* NULL: nothing */
    /* Finds it where that was not tried yet. NOT_FOUND: it is missing, with what to install. */
    stator_status (*compiler_version)(void *compiler, int *major, int *minor, stator_diag **err);
    /* As st_gpu_driver.compile. */
    stator_status (*compile)(void *compiler, const st_gpu_device *device, const char *name,
                             const char *text, uint64_t text_bytes, st_str *out, stator_diag **err);
};

typedef struct st_gpu_context {
    st_gpu_driver table; /* self is this struct */
    const st_gpu_native *driver;
    void *compiler; /* vendor->compiler_create's */
    int32_t ordinal;
    void *context;
    _Atomic int32_t lost;          /* the error that ended the context; 0: it lives */
    _Atomic uint64_t held_bytes;   /* of device memory, allocated through the table */
    const volatile uint32_t *here; /* *here is 1, and 0 in a child made by fork */
} st_gpu_context;

/* The vendor's library of matrix products. */
struct st_gpu_contractions {
    /* The option that names its file, and the value of the option `contractions` that asks for it:
     * "cublaslt". */
    const char *option;
    /* Is the file one that `open` takes? */
    bool (*check)(const char *file, st_gpu_missing *why);
    /* Opens it (`file` NULL or "": it is looked for) for contractions on the context, which
     * outlives it as `memory` does, the runtime's on that context. NULL: *why says what is missing.
     * The version goes into the key of compiled code. */
    const st_library *(*open)(const char *file, st_gpu_context *context,
                              const st_device_memory *memory, st_mem *mem, uint32_t *out_version,
                              st_gpu_missing *why);
    /* Its ops have been destroyed, and the context is open still. */
    void (*close)(const st_library *library);
};

/* ---- gpu_device.c ---- */

/* Opens the library (option `driver`, NULL or "": looked for) and begins it. No context is made.
 * `name` is the backend's, which errors call its devices by, and is kept.
 * NOT_FOUND: the library is missing; UNAVAILABLE: it sees no device, with the reason. */
stator_status st_gpu_native_begin(st_gpu_native *driver, const st_gpu_vendor *vendor,
                                  const char *name, const char *file, stator_diag **err);

/* What the device is like; `id` is the driver's number, below device_count. */
stator_status st_gpu_describe(const st_gpu_native *driver, uint32_t id, st_gpu_device *out,
                              stator_diag **err);

/* What to open. */
typedef struct st_gpu_open_options {
    const char *compiler; /* file of the compiler; NULL or "": looked for */
    const char *arch;     /* option arch; NULL or "": the device's own */
} st_gpu_open_options;

/* Retains the primary context and fills the table. The driver outlives the context, which stays
 * where it is. NOT_FOUND: there is no such device. */
stator_status st_gpu_context_open(st_gpu_context *context, const st_gpu_native *driver, uint32_t id,
                                  const st_gpu_open_options *options, stator_diag **err);
void st_gpu_context_close(st_gpu_context *context);

/* ---- gpu_native.c ---- */

/* Fills table's functions; the rest of the context is ready. */
void st_gpu_fill_table(st_gpu_context *context);

/* Is it an address of the device? INVALID_ARGUMENT: one of host memory, which the driver does not
 * know or calls pinned, or one of another device. */
stator_status st_gpu_check_address(st_gpu_context *context, const void *p, stator_diag **err);
/* Does memory from `below` bytes before `p` to `above` bytes behind it belong to one allocation?
 * INVALID_ARGUMENT: it ends before. What the driver does not know is believed, and so is memory of
 * the host that was not allocated as pinned: of such memory a part may have been registered. */
stator_status st_gpu_check_range(st_gpu_context *context, const void *p, uint64_t below,
                                 uint64_t above, stator_diag **err);
/* Is it a stream of the context's? INVALID_ARGUMENT: one of another device, none any more, or what
 * can be no handle. Of other pointers the driver decides. */
stator_status st_gpu_check_stream(st_gpu_context *context, void *stream, stator_diag **err);

/* Appends the lines of a compiler's log, set in: a text that is shown keeps such lines apart. */
void st_gpu_add_log(st_str *out, const char *log);
/* Appends the lines of a kernel's text, each behind its number, as a compiler's log names them. */
void st_gpu_add_numbered(st_str *out, const char *text, uint64_t bytes);

/* ---- gpu_context.c: around each call of the driver ---- */

/* A word that is 1 in this process and 0 in a child made by fork; NULL: no memory, or a Linux
 * before 4.14. */
volatile uint32_t *st_gpu_mark_process(void);
void st_gpu_unmark_process(const volatile uint32_t *mark); /* NULL: nothing */

/* Is there memory of this process that can be read at the address? */
bool st_gpu_can_read(const void *p);

typedef struct st_gpu_scope {
    void *before; /* current on this thread; made so again */
    bool is_changed;
} st_gpu_scope;

/* UNAVAILABLE: the driver has ended before the process; `doing` as below, "" for nothing. */
stator_status st_gpu_say_ended(const st_gpu_native *driver, const char *doing, stator_diag **err);

/* Makes the context current. UNAVAILABLE: it is lost; FAILED_PRECONDITION: this is a child made by
 * fork, and the driver does not survive that. */
stator_status st_gpu_enter(st_gpu_context *context, st_gpu_scope *scope, stator_diag **err);
/* Ends what st_gpu_enter began; what the driver answered becomes a status, with `doing` ("copying
 * to the device") in its text. An error that ends the context is remembered. */
stator_status st_gpu_leave(st_gpu_context *context, const st_gpu_scope *scope, int32_t result,
                           const char *doing, stator_diag **err);

#endif
