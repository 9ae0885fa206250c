/* What the parts of the software device share: its state, and how errors are told.
 *
 * One lock (soft_enter, soft_leave) is held by every call that looks at the state; work of streams
 * runs under it too. So objects have no locks of their own, and a kernel that runs delays each
 * call, which is as slow as can be and as hostile as may be. */
#ifndef STATOR_TESTS_SOFT_DEVICE_H
#define STATOR_TESTS_SOFT_DEVICE_H

#include <stdbool.h>

#include "soft_cuda.h"

#define SOFT_DEVICES_MAX 8

/* ---- options, from the environment, read by cuInit ---- */

enum soft_order { SOFT_ASCENDING, SOFT_DESCENDING, SOFT_RANDOM };
enum soft_failure {
    SOFT_FAIL_ALLOC,
    SOFT_FAIL_PINNED,
    SOFT_FAIL_LAUNCH,
    SOFT_FAIL_LOST,
    SOFT_FAIL_COPY,
    SOFT_FAIL_MODULE,
    SOFT_FAIL_CONTEXT,
    SOFT_FAIL_IMAGE,
    SOFT_FAIL_UNLOAD,
    SOFT_N_FAILURES
};

typedef struct soft_chip {
    const char *key;  /* of STATOR_SOFT_CHIP */
    const char *name; /* what cuDeviceGetName answers */
    unsigned major, minor;
    unsigned multiprocessors;
    unsigned warp;
    unsigned block_threads_max;
    unsigned registers;
    unsigned shared_bytes, shared_optin_bytes;
    unsigned argument_bytes_max;
    unsigned l2_bytes;
    uint64_t memory_bytes;
} soft_chip;

typedef struct soft_options {
    const soft_chip *chip;
    unsigned n_devices;
    enum soft_order order;
    uint64_t seed;
    unsigned n_workers; /* OS threads that run blocks, 1 or 2 */
    bool reports_leaks;
    bool keeps_objects;                   /* for a debugger: images stay on disk */
    uint64_t fail_at[SOFT_N_FAILURES];    /* the call of this number fails, from 1; 0: none */
    uint64_t fail_until[SOFT_N_FAILURES]; /* and those up to this one */
    uint64_t calls[SOFT_N_FAILURES];
} soft_options;

/* Reads the environment; false, and soft.wrong_option, when a variable holds what is not known. */
bool soft_options_read(soft_options *out);
/* Whether this call is one that is to fail. */
bool soft_is_to_fail(enum soft_failure what);

/* ---- state ---- */

enum soft_kind { SOFT_STREAM, SOFT_EVENT, SOFT_MODULE, SOFT_FUNCTION };

/* What each handle's object begins with. The memory of a destroyed object is kept for a while, so
 * that its handle is not given again. */
typedef struct soft_object {
    enum soft_kind kind;
    struct soft_device *device;
    struct soft_object *next;  /* of the device's objects of its kind */
    struct soft_object *known; /* in the table of handles */
} soft_object;

typedef struct soft_device {
    int ordinal;
    unsigned retained; /* of the primary context */
    CUresult fault;    /* sticky: what each call answers once a kernel has failed */
    char fault_text[600];
    uint64_t memory_used;
    struct soft_stream *legacy;  /* what is queued on the stream 0 */
    struct soft_object *streams; /* with `legacy` */
    struct soft_object *events;
    struct soft_object *modules;
} soft_device;

typedef struct soft_state {
    soft_options options;
    bool is_initialised;
    char wrong_option[320]; /* why cuInit refuses the environment */
    bool is_forked;         /* a child process has none of the threads and may use nothing */
    bool is_ended;          /* the driver has shut down, and taken all memory with it */
    soft_device devices[SOFT_DEVICES_MAX];
    uint64_t random;
    unsigned n_misuses; /* double frees, writes beside an allocation, leaks */
} soft_state;

extern soft_state soft;

/* Frees all memory; each call answers CUDA_ERROR_DEINITIALIZED from here on. Lock held. */
void soft_end(void);

/* Takes the lock; an error when the API may not be used at all. soft_leave answers its argument. */
CUresult soft_enter(void);
CUresult soft_leave(CUresult result);
/* The same for calls that need a current context, which has not failed. */
CUresult soft_enter_context(soft_device **out_device);

/* A number from 0 to n - 1, from the options' seed. */
uint64_t soft_random(uint64_t *state, uint64_t n);

/* Writes a line to stderr, with the device's name before it. */
void soft_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* soft_say, and answers the code. */
CUresult soft_refuse(CUresult code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Counts what is a mistake of the program though no call can tell it: the process ends with a
 * status. */
void soft_count_misuse(void);
/* Makes an error sticky, as a kernel that failed does. The first one counts. */
void soft_fail_device(soft_device *device, CUresult code, const char *text);

/* ---- objects behind handles ---- */

/* A zeroed object; NULL when the host has no memory. */
void *soft_object_create(soft_device *device, enum soft_kind kind, size_t bytes);
/* Is it the handle of an object that lives? A handle is any pointer, and is not read through. */
bool soft_is_object(const void *handle, enum soft_kind kind);
/* The object may be a quarantined one from now on; the caller has freed what it holds. */
void soft_object_destroy(soft_object *object);

#endif
