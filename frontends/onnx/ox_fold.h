/* Evaluating small tensors while a model is imported; see ox_fold.c. */
#ifndef STATOR_FRONTEND_OX_FOLD_H
#define STATOR_FRONTEND_OX_FOLD_H

#include "frontends/onnx/ox_import.h"

#define OX_FOLD_MAX 1024u /* elements */

typedef struct ox_folded {
    stator_dtype dtype;
    uint32_t rank;
    uint32_t count;
    int64_t dims[STATOR_RANK_MAX];
    long double *x; /* arena memory; exact for 64-bit integers and f64 */
} ox_folded;

/* 1 when v depends on constants alone through ops that the folder knows. Never fails the import
 * except for memory. */
bool ox_fold(ox_import *im, const ox_region *region, stator_ref v, ox_folded *out);

/* The integer nearest to zero; INT64_MIN when out of range. */
int64_t ox_fold_int(long double x);

#endif
