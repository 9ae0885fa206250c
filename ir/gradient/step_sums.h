/* Sums over the steps of a loop that are formed behind it: docs in step_sums.c. */
#ifndef STATOR_IR_STEP_SUMS_H
#define STATOR_IR_STEP_SUMS_H

#include "ir/op_emitter.h"

#define ST_STEP_ROWS_MAX 320u

/* A value of a step, and where the values of all steps lie one behind the other. */
typedef struct st_step_row {
    stator_ref inner;        /* of the step's graph */
    const stator_ref *outer; /* of the graph around it; NULL: the loop has to stack it */
    uint32_t axis;           /* the outer value's axis of steps */
    bool is_read;            /* by a sum */
} st_step_row;

typedef struct st_step_sums {
    const stator_graph *step;
    stator_ref n_changing;              /* inputs 1..n_changing are other ones at each step */
    stator_ref *map;                    /* by value of the step: its sum, 0: none yet */
    st_step_row rows[ST_STEP_ROWS_MAX]; /* in one order of steps */
    uint32_t n;
    uint32_t room; /* rows that the loop may have to stack yet */
} st_step_sums;

/* Says that the values of all steps are there; what passes ST_STEP_ROWS_MAX is forgotten. */
void st_step_sums_add(st_step_sums *sums, stator_ref inner, const stator_ref *outer, uint32_t axis);
/* Can the sum of a step's value over all steps be formed behind the loop? Rows that it needs and
 * that are not there yet are added, with no outer value. */
bool st_step_sums_can(st_step_sums *sums, stator_ref value);
/* Writes such a sum. Every row that is read has its outer value by then. */
stator_ref st_step_sums_emit(const st_step_sums *sums, stator_emitter *e, stator_ref value);

#endif
