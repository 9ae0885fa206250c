/* Which sizes of a model's inputs are symbols, in what range, and which are numbers.
 *
 * A plan says for symbols, by name, the range to compile for (one value: the number takes the
 * symbol's place), and for axes of inputs that are numbers in the model which symbol stands
 * there instead. An empty plan leaves a model as it is. */
#ifndef STATOR_IR_SIZE_PLAN_H
#define STATOR_IR_SIZE_PLAN_H

#include "core/base/vec.h"
#include "ir/module.h"

/* Largest size of a dimension that a plan makes symbolic. */
#define ST_PLAN_SIZE_MAX (INT64_C(1) << 40)

typedef struct st_plan_range {
    char *name;
    int64_t lo, hi;
    int64_t baked_in; /* size at the symbol's axes in the model; 0: not known, or not one number */
} st_plan_range;

typedef struct st_plan_axis {
    uint32_t input; /* position among the inputs that a call gives */
    uint32_t axis;
    uint32_t range; /* place in ranges */
} st_plan_axis;

typedef struct st_size_plan {
    st_mem *mem;
    st_vec(st_plan_range) ranges;
    st_vec(st_plan_axis) axes;
} st_size_plan;

void st_size_plan_init(st_size_plan *plan, st_mem *mem);
void st_size_plan_deinit(st_size_plan *plan);
/* Initialises *to as a copy. False: out of memory, as for the functions below. */
bool st_size_plan_copy(st_size_plan *to, st_mem *mem, const st_size_plan *from);
/* The range of the symbol `name`, made or narrowed. */
bool st_size_plan_range(st_size_plan *plan, const char *name, int64_t lo, int64_t hi);
/* The symbol range->name stands at this axis of call input `input`; in the model it is
 * range->baked_in. */
bool st_size_plan_axis(st_size_plan *plan, uint32_t input, uint32_t axis,
                       const st_plan_range *range);
st_plan_range *st_size_plan_find(const st_size_plan *plan, const char *name); /* NULL: none */
bool st_size_plan_equal(const st_size_plan *a, const st_size_plan *b);
/* "N in [2, inf], S = 1", nothing for an empty plan. */
void st_size_plan_print(const st_size_plan *plan, st_str *out);
/* The type of call input `input` under the plan's axes: `type` itself when none of them is its.
 * 0: out of memory, or the axis is not there. */
stator_ref st_size_plan_type(const st_size_plan *plan, st_module *m, uint32_t input,
                             stator_ref type);

#endif
