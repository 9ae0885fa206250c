/* A planned program: the steps of one compiled graph, launched without allocating once a call state
 * exists (outputs that the caller does not give come from the pool).
 *
 * Values are slots: inputs first, then parameters, then what steps produce. A step reads slots and
 * writes slots; shapes are syms evaluated per call, or fixed. Slots that live between steps share
 * one workspace when all sizes are fixed (interval packing), else they come from the pool.
 *
 * A step runs an executable of a backend, or is a control-flow node that the host runs itself: its
 * bodies are programs too, run per iteration in states of their own (control.c).
 *
 * Where a backend has memory of its own, a value lies in the domain of the step that made it; that
 * of an input, or of a result of control flow, is known at the call alone. Steps of kind COPY
 * (program_copies.c) put what another domain's step reads where that step wants it; where the value
 * lies there already they copy nothing. */
#ifndef STATOR_RUNTIME_PROGRAM_H
#define STATOR_RUNTIME_PROGRAM_H

#include "core/base/diag.h"
#include "core/base/sym/sym.h"
#include "core/runtime/domain.h"
#include "core/runtime/pool.h"
#include "core/runtime/profile.h"
#include "core/runtime/tensor.h"
#include <pthread.h>
#include <stator/plugin.h>

typedef stator_status (*st_step_fn)(void *self, void *exe, const stator_call *call,
                                    stator_diag **err);

#define ST_DOMAINS_MAX 4u     /* devices of one program */
#define ST_NO_SLOT UINT32_MAX /* an absent optional operand of a control-flow node */

typedef struct st_slot {
    stator_dtype dtype;
    uint32_t rank;
    uint32_t dim_begin;  /* into program->dims */
    uint32_t is_static;  /* every size is a plain integer */
    int32_t output;      /* number of the program output that owns it, or -1 */
    uint32_t last_use;   /* step number; buffers from the pool go back after it */
    uint64_t size_bytes; /* when static */
    const void *data;    /* parameters and constants: their bytes */
    stator_blob *blob;   /* blob that holds the data; borrowed */
    uint64_t offset;     /* in the workspace, when has_offset */
    uint32_t has_offset;
    uint32_t domain; /* a step leaves it in domains[domain - 1] of the program; 0: host memory */
    uint32_t source; /* of a copy: the slot that is copied */
    uint32_t is_varying; /* it may lie in any domain: an input, a result of control flow */
    uint32_t in_place;   /* 1 + the write-back in whose input a step may leave it; 0: none */
    const char *op;      /* op of the producing node, for messages; NULL for inputs; borrowed */
    const char *name;
} st_slot;

enum st_step_kind {
    ST_STEP_RUN = 0, /* an executable */
    ST_STEP_COND,
    ST_STEP_CALL,
    ST_STEP_WHILE,
    ST_STEP_SCAN,
    ST_STEP_COPY /* in[0] into out[0], in another domain */
};

/* A control-flow node that the host runs; see rows cond, while, scan and call of ir/ops.def. Axes
 * count from 0. */
typedef struct st_control {
    struct st_program *bodies[2]; /* borrowed */
    uint32_t n_bodies;
    uint32_t n_carried, n_scanned, n_stacked;
    const uint32_t *scanned_axes; /* by scanned operand */
    const uint32_t *scanned_reverse;
    const uint32_t *stacked_axes; /* by stacked result */
    const uint32_t *stacked_reverse;
} st_control;

typedef struct st_step {
    uint32_t kind; /* st_step_kind */
    uint32_t n_in, n_out;
    uint32_t n_release;
    st_step_fn run;
    void *self; /* stator_instance */
    void *exe;
    const st_control *control;
    const char *op, *name; /* control-flow node, for messages; borrowed */
    const uint32_t *in;    /* slots */
    const uint32_t *out;   /* slots */
    uint64_t workspace_bytes;
    const uint32_t *release;   /* slots whose buffers from the pool nobody reads after this step */
    const char *backend;       /* backend of the executable, for messages; borrowed */
    uint32_t is_filled;        /* results are filled with a pattern before it runs, as for a call */
    uint32_t domain;           /* memory that the executable works in, as st_slot has it */
    uint32_t fails_late;       /* a call of the executable may, when it has returned */
    const uint32_t *may_alias; /* see stator_exe_info; the executable's, NULL: none */
    /* Graph of the owner's module that the executable was made of; NULL: it came from the cache, or
     * there is no executable. */
    const stator_graph *graph;
} st_step;

/* After the last step, slot's bytes go into the buffer of call input `input`. */
typedef struct st_slot_write {
    uint32_t input;
    uint32_t slot;
    uint32_t is_kept; /* the slot is an input that is written as well: copied first */
    uint32_t reserved;
} st_slot_write;

/* What a call moved between memories, and into inputs that it writes. */
typedef struct st_copy_counts {
    uint64_t n_copies, n_bytes;
    uint64_t n_waits;                    /* times that the host waited for a device */
    uint64_t n_written, n_written_bytes; /* write-backs that were copied at the end */
} st_copy_counts;

/* Range and divisor of a symbol's values, and its name for messages. */
typedef struct st_symbol {
    int64_t lo, hi, divisor;
    char name[40];
} st_symbol;

typedef struct st_program {
    st_mem *mem;
    st_pool *pool;
    st_profile *profile; /* the context's profile; NULL: none */
    stator_ctx *ctx;
    st_step *steps;
    uint32_t n_steps;
    st_slot *slots;
    uint32_t n_slots;
    uint32_t n_in;     /* slots 0..n_in-1 */
    uint32_t *outputs; /* slot of each program output */
    uint32_t n_outputs;
    st_slot_write *write_backs;
    uint32_t n_write_backs;
    uint32_t n_in_place; /* slots that may lie in an input: see program_write_backs.c */
    st_symprog *dims;
    uint32_t n_dims;
    uint32_t n_syms;
    int32_t *bound_symbol;    /* per dim: symbol index that this size binds, or -1 */
    const st_symbol *symbols; /* by index; borrowed */
    uint64_t workspace_bytes; /* shared by steps, then between them */
    uint64_t step_workspace_bytes;
    uint64_t control_bytes; /* scratch of the largest control-flow step */
    uint32_t max_args;
    uint32_t *releases; /* behind every step's release, then those of the write-backs */
    uint32_t n_pooled;  /* number of releases */
    pthread_mutex_t lock;
    struct st_call_state *free_states;
    st_domain *domains[ST_DOMAINS_MAX]; /* devices whose backends may run steps; borrowed */
    uint32_t n_domains;
    uint32_t n_own_slots; /* those behind them are copies */
    void **uploads;       /* by slot: a constant on the device of this copy; under `lock` */
    st_stream **streams;  /* that calls have used; under `lock` */
    uint32_t n_streams;
    st_copy_counts last_counts; /* of the last call that ended; under `lock` */
    uint64_t n_calls;           /* that have ended, where there is something to count */
} st_program;

/* Puts copies between the steps of a program whose domains are set, before its memory is planned;
 * false when out of memory. */
bool st_program_plan_copies(st_program *program);
/* Chooses the write-backs whose values steps leave where the input lies, as part of
 * st_program_plan_memory; false when out of memory. */
bool st_program_plan_write_backs(st_program *program);
/* Is it known at the call alone where the slot lies? It is an input, or a result of control
 * flow. */
bool st_program_is_varying(const st_program *program, uint32_t slot);
/* A copy's source, else the slot itself. */
uint32_t st_program_source(const st_program *program, uint32_t slot);
/* Waits for the devices that calls of the program still keep busy; what fails is told to who waits
 * for the results. */
void st_program_drain(st_program *program);
/* The same, telling the first failure that nobody has been told of. */
stator_status st_program_wait(st_program *program, stator_diag **err);
/* Do calls write to input i? */
bool st_program_writes_input(const st_program *program, uint32_t i);

/* Frees states, dims and arrays (executables and bodies are the owner's). */
void st_program_deinit(st_program *program);
/* Plans workspace, buffers and scratch once slots and steps are filled and the bodies are planned;
 * 0 when out of memory. */
bool st_program_plan_memory(st_program *program);

typedef struct st_call_state st_call_state;

/* A state from the free list, or a new one. syms (n_syms long) is the state's own array, to be
 * filled by the guard. NULL when out of memory. */
st_call_state *st_program_acquire(st_program *program);
void st_program_release(st_program *program, st_call_state *state);
int64_t *st_call_state_syms(st_call_state *state);
/* 1: before each step its results are filled with a pattern (NaN, or bytes of 0xa5), so that
 * what an executable leaves out cannot pass for a result; 0: where the step itself asks for it
 * alone. */
void st_call_state_fill(st_call_state *state, bool is_filled);
/* The calls that the inputs of the next call in this state were computed by, on the domain;
 * those of the call itself are added when it runs. NULL: it is none of the program's. */
st_late_calls *st_call_state_late(st_call_state *state, const st_domain *domain);
void st_call_state_forget_late(st_call_state *state);
/* Has the call failed when it had begun to write input i where it lies? */
bool st_call_state_lost(const st_call_state *state, uint32_t i);
/* The stream that calls in this state use on one of the program's domains. */
stator_status st_call_state_stream(st_call_state *state, const st_domain *domain,
                                   st_stream **out_stream, stator_diag **err);

/* Calls in this state use the application's stream on its domain, one of the program's, and put
 * results where `outputs` (stator_outputs) says; until st_call_state_reset. */
stator_status st_call_state_use_stream(st_call_state *state, st_stream *stream, stator_diag **err);
void st_call_state_want(st_call_state *state, uint32_t outputs);
void st_call_state_reset(st_call_state *state);

/* Runs with dense inputs. out[k] given: written in place (shape and dtype are checked); NULL: a
 * new tensor, where st_call_state_want says. Work on devices may still
 * be queued when it returns, unless a result lies in host memory. On failure tensors made here
 * are released and out[k] is NULL again. A size that a result binds is held against its symbol:
 * OUT_OF_RANGE, or INVALID_ARGUMENT when it was bound before and differs. */
stator_status st_program_run(st_program *program, st_call_state *state, const DLTensor *in,
                             stator_tensor **out, stator_diag **err);

#endif
