/* Which sizes a compile is for: symbols by class of value, and numbers that become symbols when a
 * call brings another one. docs/sizes.md tells it for users.
 *
 *   declared import -> [import with changed axes as symbols] -> [its symbols in narrower ranges]
 */
#ifndef STATOR_HOST_SIZES_H
#define STATOR_HOST_SIZES_H

#include "core/host/model.h"
#include "core/runtime/guard.h"

/* An axis whose size is a number in the model and that calls gave other sizes. */
typedef struct st_changed_axis {
    uint32_t input; /* position in the call */
    uint32_t axis;
    uint32_t group;     /* axes whose sizes were equal in every call share a symbol */
    uint32_t is_number; /* the model takes no symbol there: it is compiled for each size */
    uint32_t is_told;   /* a line of perf_hints named it */
} st_changed_axis;

/* Sizes that a function has been called with. One thread at a time. */
typedef struct st_sizes {
    st_vec(st_changed_axis) changed;
} st_sizes;

enum st_sizes_flag {
    ST_SIZES_REFINE = 1u << 0,  /* symbols by class of value */
    ST_SIZES_STATIC = 1u << 1,  /* every size is the number of the call */
    ST_SIZES_GENERIC = 1u << 2, /* whatever was seen stays as open as can be */
    ST_SIZES_STRICT = 1u << 3,  /* other sizes than the model declares are refused */
};

void st_sizes_deinit(st_sizes *sizes, st_mem *mem);
/* The specialisation to compile for a call. INVALID_ARGUMENT: another dtype or rank than the model
 * states, sizes of one symbol that differ, sizes that the model does not work with, or, with
 * ST_SIZES_STRICT, others than it declares. */
stator_status st_sizes_choose(st_sizes *sizes, stator_model *model, uint32_t flags, uint32_t n_in,
                              const DLTensor *in, st_specialisation **out_spec, stator_diag **err);
/* The call's sizes by symbol of the specialisation's module, hints for choices under symbols:
 * INT64_MIN where inputs do not tell one. *out is the caller's to free with `mem`. */
stator_status st_sizes_hints(st_mem *mem, const st_specialisation *spec, const DLTensor *in,
                             int64_t **out, uint32_t *out_n, stator_diag **err);

#endif
