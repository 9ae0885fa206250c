/* Are two tensors equal but for rounding? Dense host tensors of any of our dtypes; pure. */
#ifndef STATOR_BASE_COMPARE_H
#define STATOR_BASE_COMPARE_H

#include <stator/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct st_tolerance {
    double rtol, atol;
} st_tolerance;

typedef struct st_difference {
    double max_abs; /* NaN or inf where they differ so */
    double max_rel;
    int ok;
    const char *reason; /* NULL when ok: "dtype", "shape", "values" */
} st_difference;

/* |a - b| <= atol + rtol*|b|; NaN equals NaN, inf by sign; bf16 also within 2 ulp. */
void st_compare(const DLTensor *got, const DLTensor *want, const st_tolerance *allowed,
                st_difference *out);
/* The same value by two ways to compute it. A tolerance that is negative is chosen by dtype, none
 * for whole numbers and bools, and, the absolute one of floats, by how large the values are. */
void st_compare_runs(const DLTensor *got, const DLTensor *want, const st_tolerance *stated,
                     st_difference *out);

#ifdef __cplusplus
}
#endif
#endif
