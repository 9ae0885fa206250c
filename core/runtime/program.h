/* A planned program: the steps of one compiled graph, launched without allocating once a call state
 * exists (outputs that the caller does not give come from the pool).
 *
 * Values are slots: call inputs first, then parameters, then what steps produce. A step reads slots
 * and writes slots; shapes are syms evaluated per call, or fixed. Slots that live between steps
 * share one workspace when all sizes are fixed (interval packing), else they come from the pool. */
#ifndef STATOR_RUNTIME_PROGRAM_H
#define STATOR_RUNTIME_PROGRAM_H

#include "core/base/diag.h"
#include "core/base/sym.h"
#include "core/runtime/pool.h"
#include "core/runtime/tensor.h"
#include <pthread.h>
#include <stator/plugin.h>

typedef stator_status (*st_step_fn)(void *self, void *exe, const stator_call *call,
                                    stator_diag **err);

typedef struct st_slot {
    stator_dtype dtype;
    uint32_t rank;
    uint32_t dim_begin;   /* into program->dims */
    uint32_t is_static;   /* every size is a plain integer */
    uint32_t is_unbacked; /* a size is known only after the producing step ran */
    int32_t output;       /* number of the program output that owns it, or -1 */
    uint64_t size_bytes;  /* when static */
    const void *data;     /* parameters: their bytes */
    uint64_t offset;      /* in the workspace, when has_offset */
    uint32_t has_offset;
    uint32_t last_use; /* step number; buffers from the pool go back after it */
} st_slot;

typedef struct st_step {
    st_step_fn run;
    void *self; /* the instance */
    void *exe;
    uint32_t n_in, n_out;
    const uint32_t *in;  /* slots */
    const uint32_t *out; /* slots */
    uint64_t workspace_bytes;
    const uint32_t *release; /* slots whose buffers from the pool nobody reads after this step */
    uint32_t n_release;
} st_step;

/* After the last step, slot's bytes go into the buffer of call input `input`. */
typedef struct st_slot_write {
    uint32_t input;
    uint32_t slot;
} st_slot_write;

typedef struct st_program {
    st_mem *mem;
    st_pool *pool;
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
    st_symprog *dims;
    uint32_t n_dims;
    uint32_t n_syms;
    int32_t *unbacked_symbol; /* per dim: symbol index that this size defines, or -1 */
    uint64_t workspace_bytes; /* shared by steps, then between them */
    uint64_t step_workspace_bytes;
    uint32_t max_args;
    uint32_t *releases; /* behind every step's release, then those of the write-backs */
    uint32_t n_pooled;  /* of releases */
    pthread_mutex_t lock;
    struct st_call_state *free_states;
} st_program;

/* Frees states, dims and arrays (exes are the owner's). */
void st_program_deinit(st_program *program);
/* Plans the workspace once slots and steps are filled; 0 when out of memory. */
int st_program_plan(st_program *program);

typedef struct st_call_state st_call_state;

/* A state from the free list, or a new one. syms (n_syms long) is the state's own array, to be
 * filled by the guard. NULL when out of memory. */
st_call_state *st_program_acquire(st_program *program);
void st_program_release(st_program *program, st_call_state *state);
int64_t *st_call_state_syms(st_call_state *state);

/* Runs with dense inputs. out[k] given: written in place (shape and dtype are checked); NULL: a new
 * tensor. On failure tensors made here are released and out[k] is NULL again. */
stator_status st_program_run(st_program *program, st_call_state *state, const DLTensor *in,
                             stator_tensor **out, stator_diag **err);

#endif
