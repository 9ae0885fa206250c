/* The state of one call, and what the files of the launcher share: program.c (running steps),
 * program_memory_plan.c (the memory plan, states), program_shapes.c (sizes), control.c (control
 * flow), program_copies.c (memories of devices), program_write_backs.c (inputs that are
 * written). */
#ifndef STATOR_RUNTIME_PROGRAM_STATE_H
#define STATOR_RUNTIME_PROGRAM_STATE_H

#include "core/runtime/program.h"

/* A result of a body: a block of the pool that whoever ran the body gives back. */
typedef struct st_owned {
    DLTensor view; /* data NULL: none; shape points at the next field */
    int64_t shape[STATOR_RANK_MAX];
} st_owned;

/* Where an input of the last call lay; see program_write_backs.c. */
typedef struct st_input_memory {
    uintptr_t begin;
    uint64_t bytes;
    uint64_t is_changed; /* since the call before */
} st_input_memory;

struct st_call_state {
    struct st_call_state *next;
    st_program *program;
    DLTensor *slots;
    int64_t *shapes; /* by dim_begin */
    int64_t *syms;
    DLTensor *args; /* inputs then outputs of the step that runs */
    char *workspace;
    char *control;           /* scratch of the control-flow step that runs */
    uint8_t *from_pool;      /* per slot */
    void **kept;             /* per write-back: the copy made before the first is written */
    uint8_t *is_written;     /* per write-back: the step has put the value into the input */
    st_input_memory *inputs; /* of a program with values in place */
    uint32_t is_apart;       /* those inputs share no memory with written ones */
    uint32_t is_in_place;    /* values may lie in inputs in this call */
    stator_tensor **out;     /* outputs of a call; NULL: `owned` holds those of a body */
    st_owned *owned;         /* outputs of a body */
    uint8_t *is_fresh;       /* per output: made by this call */
    const st_step *step;
    uint32_t is_filled; /* see st_call_state_fill */
    uint32_t n_noted;   /* times that the step's executable has told */
    stator_call call;
    /* By domain of the program; a body's state has those of the state around it. */
    st_stream *streams[ST_DOMAINS_MAX];
    st_stream *own_streams[ST_DOMAINS_MAX]; /* the state's, for calls without one of the caller's */
    struct st_call_state *around;           /* NULL: of the call itself */
    uint32_t outputs;                       /* stator_outputs */
    uint32_t wanted_domain;                 /* of outputs that the caller has no tensor for */
    uint32_t is_host_pending; /* copies into host memory are queued: wait before it is read */
    void *packed;             /* memory of the small inputs that were copied together; NULL: none */
    uint64_t packed_bytes;
    uint32_t packed_domain;
    st_copy_counts counts;
    st_late_calls
        late[ST_DOMAINS_MAX]; /* what values of the call on each domain were computed by */
    uint32_t n_own_late;      /* of these, the call's own */
    uint32_t is_lost;         /* what steps were to write into inputs */
};

/* ---- program_shapes.c ---- */

/* Evaluates a slot's sizes; 0 when one of them is not known yet. */
bool st_state_eval_shape(st_call_state *state, const st_slot *slot);
/* Binds the symbols that the shape of slot i binds and checks the other sizes against its type. */
stator_status st_state_bind_shape(st_call_state *state, uint32_t i, stator_diag **err);
/* Fails with what is wrong about a shape of slot i that is not the one in state->shapes. */
stator_status st_state_bad_shape(st_call_state *state, uint32_t i, const int64_t *shape,
                                 stator_diag **err);
/* Binds the symbols that the shapes of a body's inputs bind, then checks all of them. */
stator_status st_state_bind_inputs(st_call_state *state, const DLTensor *in, stator_diag **err);

/* ---- program.c ---- */

/* Storage for slot i, whose shape stands in state->shapes. */
stator_status st_state_place(st_call_state *state, uint32_t i, stator_diag **err);
/* Runs a body with the symbols around it. out[k] is filled, to be given back to the pool by the
 * caller, also after a failure. */
stator_status st_body_run(st_program *body, st_call_state *state, const int64_t *syms,
                          const DLTensor *in, st_owned *out, stator_diag **err);

/* The call's output k with this shape: a new tensor, or the caller's, or a block of a body. */
stator_status st_state_take_output(st_call_state *state, uint32_t k, const DLTensor *shaped,
                                   void **out_data, stator_diag **err);
/* INVALID_ARGUMENT, naming `what` number k: the caller's tensor has another type, or gaps. */
stator_status st_check_given(const DLTensor *given, const DLTensor *expected, const char *what,
                             uint32_t k, stator_diag **err);
/* Copies a dense value to `dst`, which lies in the memory that `to` lies in. */
stator_status st_state_move_value(st_call_state *state, const DLTensor *src, const DLTensor *to,
                                  void *dst, stator_diag **err);

/* Bytes of a tensor that exists. */
uint64_t st_state_bytes(const DLTensor *t);

/* ---- program_write_backs.c ---- */

/* Before the steps of a call with write-backs: decides what is written in place. */
stator_status st_state_begin_writes(st_call_state *state, stator_diag **err);
/* Puts slot i, which has a write-back, where its input lies; false: it gets memory of its own. */
bool st_state_place_in_input(st_call_state *state, uint32_t i);
/* The step has failed behind its first write: who reads an input that it was to write is told. */
void st_state_lose_inputs(st_call_state *state, const st_step *step, const stator_diag *why);
/* Behind the steps: the other write-backs. */
stator_status st_state_write_back(st_call_state *state, const DLTensor *in, stator_diag **err);

/* ---- program_copies.c ---- */

/* 0: host memory, k: domains[k - 1]. */
uint32_t st_state_domain(const st_call_state *state, const DLTensor *t);
DLDevice st_state_device(const st_call_state *state, uint32_t domain);
/* Memory of a domain, and back; give(NULL) does nothing. */
stator_status st_state_take(st_call_state *state, uint32_t domain, uint64_t bytes, void **out,
                            stator_diag **err);
void st_state_give(st_call_state *state, uint32_t domain, void *p, uint64_t bytes);
void st_state_give_tensor(st_call_state *state, const DLTensor *t);
/* Copies bytes between domains, queued where a device takes part. The host reads what it has
 * received after st_state_flush. */
stator_status st_state_move(st_call_state *state, uint32_t to, void *dst, uint32_t from,
                            const void *src, uint64_t bytes, stator_diag **err);
stator_status st_state_flush(st_call_state *state, stator_diag **err);
/* A call that fails late, like the call itself, is seen from here on by who uses its results. */
void st_state_note_call(st_call_state *state, const st_step *step);
/* What has been waited for has gone well, on a domain (0: on all), or the failure that showed. */
stator_status st_state_check_late(st_call_state *state, uint32_t domain, stator_diag **err);
/* Element 0, wherever it lies. */
stator_status st_state_load_i64(st_call_state *state, const DLTensor *t, int64_t *out,
                                stator_diag **err);
stator_status st_state_run_copy(st_call_state *state, const st_step *step, stator_diag **err);

/* ---- packed_copies.c ---- */

/* Runs *out_n copies from step `first` on together; 0: they are to be run one by one. */
stator_status st_state_run_packed(st_call_state *state, uint32_t first, uint32_t *out_n,
                                  stator_diag **err);
void st_state_give_packed(st_call_state *state); /* at the end of a call */
/* The streams of a call that begins in this state. */
stator_status st_state_open_streams(st_call_state *state, stator_diag **err);
/* After a failure: nothing of the call is queued any more. Returns the failure of a call before, if
 * that is why, else `status`. */
stator_status st_state_drain(st_call_state *state, stator_status status, stator_diag **err);

/* ---- control.c ---- */

/* Bytes of scratch that a control-flow step needs. */
uint64_t st_control_bytes(const st_step *step);
stator_status st_control_run(st_call_state *state, const st_step *step, stator_diag **err);

#endif
