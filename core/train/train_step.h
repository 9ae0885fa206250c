/* A step of training while it is built: see train_step.c. */
#ifndef STATOR_TRAIN_STEP_H
#define STATOR_TRAIN_STEP_H

#include "core/base/map.h"
#include "ir/builder.h"
#include "ir/linker.h"
#include "ir/loss_scale.h"
#include "ir/op_emitter.h"
#include "ir/optim.h"
#include <stator/train.h>

#define ST_STEP_STATES_MAX 4u /* of an optimizer */

typedef enum st_input_use {
    ST_INPUT_AS_IT_IS,
    ST_INPUT_TRAINED,
    ST_INPUT_KEPT, /* a parameter that the graph writes itself, or statistics: an input, not a
                    * constant */
} st_input_use;

typedef struct st_train_step {
    stator_train_options options;
    const st_optim_row *loss;         /* NULL: an output is the loss, or the teacher's alone */
    const st_optim_row *teacher_loss; /* NULL: no teacher */
    const st_optim_row *optimizer, *schedule;
    st_optim_values values;
    st_arena arena;
    st_module *module; /* a copy, which becomes the result */
    const stator_graph *from;
    const stator_graph_view *v;
    stator_emitter e;
    stator_ref *map;         /* values of `from` in the step */
    stator_ref read;         /* of `from`: what losses of the table compare; 0: none does */
    stator_ref own_loss;     /* of `from`: the output that is the loss; 0: none is */
    st_module *teacher;      /* a copy of the teacher's module; NULL: there is none */
    st_linker linker;        /* of its graph into the step */
    stator_ref teacher_read; /* of its graph: what the loss compares with `read` */
    char *teacher_alias;     /* the name of that value, where the one given stands for it; NULL */
    uint8_t *uses;           /* st_input_use, by input of `from` */
    uint8_t *is_statistic;   /* by input of `from`: a parameter that is running statistics */
    stator_ref *trained;     /* inputs of `from` */
    stator_ref *xs;          /* the same in the step */
    stator_ref *grads;       /* of these */
    stator_ref *states;      /* ST_STEP_STATES_MAX for each; 0: none */
    stator_ref *sums;        /* gradients of the batches before, for each; 0: none */
    uint32_t n_outputs;      /* the model's own of `from` */
    uint32_t n_trained;
    stator_ref target, lr, batches, seed, count; /* inputs of the step; 0: none */
    stator_ref loss_value, rate, t;
    st_loss_scale scale; /* of f16; all 0: the loss is not scaled */
    uint8_t *roles;      /* stator_train_role, by input of the step */
    st_map names;        /* of all inputs of `from`, which have them before those of the step */
} st_train_step;

/* ---- what is asked for: step_options.c ---- */

stator_status st_step_read_options(const stator_train_options *given, stator_train_options *out,
                                   stator_diag **err);
/* The rows of the losses, the optimizer and the schedule, and the values of their options; the
 * output that is the loss where no row is. */
stator_status st_step_read_rows(st_train_step *s, stator_diag **err);
bool st_step_is_f16(const stator_train_options *options);
/* Is the loss multiplied by a scale, so that gradients in f16 are not lost? */
bool st_step_is_scaled(const st_train_step *s);
/* Does a call write parameters? */
bool st_step_is_updating(const st_train_step *s);
bool st_step_is_accumulating(const st_train_step *s);
/* Does one of the globs, which have commas between, match? They have been checked. */
bool st_step_matches(const char *globs, const char *name);
const char *st_step_value_name(const st_train_step *s, stator_ref value);
/* The name of a node of any graph, for messages; one without is called by its op. */
const char *st_step_node_name(const stator_graph_view *v, stator_ref node);
bool st_step_is_float(const st_train_step *s, stator_ref value);

/* ---- running statistics: step_statistics.c ---- */

/* Fills is_statistic. UNSUPPORTED: a call would have to write some back and cannot. */
stator_status st_step_find_statistics(st_train_step *s, stator_diag **err);
/* Writes back what becomes of those that are ST_INPUT_KEPT, unless the model itself does. */
void st_step_write_statistics(st_train_step *s);

/* ---- inputs: step_inputs.c ---- */

/* Inputs that a step may have at most, and one. */
uint64_t st_step_roles_room(const st_train_step *s);
/* What is trained, and what stays; is_statistic[] is known. */
stator_status st_step_choose_inputs(st_train_step *s, stator_diag **err);
void st_step_add_data(st_train_step *s);
/* What is trained comes behind the data. */
void st_step_add_state(st_train_step *s);
/* Both in a row, with `_` at the end as long as an input of the step, or of the model, has that
 * name. The text is the module's; "" after a failure. */
const char *st_step_free_name(st_train_step *s, const char *prefix, const char *name);
/* An input under a name that is free. */
stator_ref st_step_input(st_train_step *s, enum stator_train_role role, const char *name,
                         stator_dtype dtype, uint32_t rank, const stator_ref *dims);

/* ---- the teacher: step_teacher.c ---- */

/* The teacher's module is there, prepared as the model's is: what the loss reads of it. Errors name
 * no teacher yet. */
stator_status st_step_open_teacher(st_train_step *s, stator_diag **err);
void st_step_close_teacher(st_train_step *s);
/* The teacher's inputs are the model's, its sizes too, and what the loss compares fits. */
stator_status st_step_match_teacher(st_train_step *s, stator_diag **err);
/* Its parameters, which nothing trains. */
void st_step_add_teacher_params(st_train_step *s);
void st_step_add_teacher_nodes(st_train_step *s);

/* ---- the loss: step_loss.c ---- */

/* The output of this name, or the value inside; NULL: the first output. */
stator_status st_step_find_read(const stator_graph *graph, const char *name, stator_ref *out,
                                stator_diag **err);
/* The target of a loss of the table. */
void st_step_add_target(st_train_step *s);
/* The loss, a scalar. */
void st_step_write_loss(st_train_step *s);
/* A program of the table, which sees the options. */
stator_ref st_step_program(st_train_step *s, const char *program, const char *names, uint32_t n,
                           const stator_ref *values);

/* ---- gradients and what is made of them: step_update.c ---- */

void st_step_write_gradients(st_train_step *s);
/* Sums of several batches, clipping, the rate, new parameters and states. */
void st_step_write_updates(st_train_step *s);
/* A call writes the value, unless it skips the step. */
void st_step_write(st_train_step *s, stator_ref input, stator_ref value);

#endif
