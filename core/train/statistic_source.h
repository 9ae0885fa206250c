/* Where the running statistics of a normalisation come from: see statistic_source.c. */
#ifndef STATOR_TRAIN_STATISTIC_SOURCE_H
#define STATOR_TRAIN_STATISTIC_SOURCE_H

#include "core/train/train_step.h"
#include "ir/optable.h"

/* What a value is computed from. */
typedef struct st_source {
    stator_ref parameter; /* of the model, one that a step would train; 0: none */
    const char *op;       /* the first that reads it and loses something; NULL: none does */
    bool has_data;        /* an input of a float dtype that is no parameter */
} st_source;

/* A graph among those around it. */
typedef struct st_scope {
    const struct st_scope *outer; /* NULL: the model's own graph */
    const stator_node_row *node;  /* of the graph around, whose region it is */
    const stator_graph_view *v;
    const st_source *made; /* by value; of st_scope_trace */
} st_scope;

/* The parameter that a value holds, as it is or shown by ops that lose nothing; 0: none. */
stator_ref st_scope_parameter(const st_scope *at, stator_ref value);
/* Fills at->made, in the step's arena. */
stator_status st_scope_trace(st_train_step *s, st_scope *at, stator_diag **err);
/* Values of the step: the parameter behind a value of the model's own graph has become `now`, which
 * is shown as that value is; and back: the value has become `now`, and the parameter becomes. */
stator_ref st_step_shown(st_train_step *s, stator_ref value, stator_ref now);
stator_ref st_step_unshown(st_train_step *s, stator_ref value, stator_ref now);
/* Is operand k of the node statistics that its row names? */
const char *st_statistic_name(const st_op_def *def, uint32_t k, char name[48]);
/* The result of the node that becomes of these statistics; 0: none. */
stator_ref st_statistic_result(const stator_node_row *row, const st_op_def *def, const char *name);
/* The operand, running statistics, that a result of the node becomes of; 0: it is none such. */
stator_ref st_statistic_of(const st_module *m, const stator_graph_view *v,
                           const stator_node_row *row, stator_ref result);

#endif
