/* Losses, optimizers and schedules by name (ir/optim.def), and the values of their options. */
#ifndef STATOR_IR_OPTIM_H
#define STATOR_IR_OPTIM_H

#include "ir/optable.h"
#include <stator/plugin.h>

typedef enum st_optim_kind {
    ST_OPTIM_LOSS,
    ST_OPTIM_STEP, /* options of every step */
    ST_OPTIM_OPTIMIZER,
    ST_OPTIM_SCHEDULE
} st_optim_kind;

typedef struct st_optim_row {
    st_optim_kind kind;
    const char *name;
    const char *owner;   /* of the options of steps of some kind: "a step with ..." */
    const char *options; /* a schema, NULL: none */
    const char *ranges;  /* of options: "name in [low, high); ...", NULL: none */
    const char *state;   /* of an optimizer */
    const char *targets; /* of a loss: "index" or "like" */
    const char *program;
    const char *teacher_program; /* of a loss whose target is a teacher's output; NULL: `program` */
    const char *doc;
} st_optim_row;

/* NULL past the end. */
const st_optim_row *st_optim_at(uint32_t index);
/* NULL: there is none. */
const st_optim_row *st_optim_find(st_optim_kind kind, const char *name);
/* "loss", "step", "optimizer", "schedule". */
const char *st_optim_kind_name(st_optim_kind kind);
/* NOT_FOUND: there is no row of the kind with this name; the text has the nearest, or all. */
stator_status st_optim_fail_unknown(st_optim_kind kind, const char *name, stator_diag **err);

#define ST_OPTIM_VALUES_MAX 32u

/* Bounds of a scale, as ranges and programs write numbers: FLT_MIN, the smallest normal f32, below
 * which 1 / scale may be infinite, and FLT_MAX. */
#define ST_F32_MIN "1.1754943508222875e-38"
#define ST_F32_MAX "3.4028234663852886e38"

/* The options of some rows: values given, else defaults. Names and lists lie in the arena. */
typedef struct st_optim_values {
    uint32_t count;
    stator_attr_desc descs[ST_OPTIM_VALUES_MAX];
    stator_attr attrs[ST_OPTIM_VALUES_MAX];
    const char *ranges[ST_OPTIM_VALUES_MAX]; /* "[low, high)", and what may follow; NULL: none */
    uint8_t is_given[ST_OPTIM_VALUES_MAX];
} st_optim_values;

/* Adds the options of a row, but those of a name that is there. */
stator_status st_optim_values_add(st_optim_values *values, st_arena *arena, const st_optim_row *row,
                                  stator_diag **err);
/* Sets one from text: a number, a word, or numbers with commas between. NOT_FOUND: no row has the
 * option; INVALID_ARGUMENT: the text is no value of it, one outside its range, or one that
 * f32 cannot hold: it would be 0 or infinite. */
stator_status st_optim_values_set(st_optim_values *values, st_arena *arena, const char *key,
                                  const char *text, stator_diag **err);
/* INVALID_ARGUMENT: an option without a default has no value. */
stator_status st_optim_values_check(const st_optim_values *values, stator_diag **err);
/* NULL: there is none of this name. */
stator_attr *st_optim_value(st_optim_values *values, const char *name);
/* Is the option there and not 0? */
bool st_optim_is_on(const st_optim_values *values, const char *name);

#endif
