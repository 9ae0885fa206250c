/* Shape constraints that a graph alone cannot decide: a kind and up to three sizes. Graphs state
 * them (ir/sizes/shape_constraint_list.h), guards test them when a call has bound the sizes
 * (core/runtime/guard.h). */
#ifndef STATOR_BASE_SHAPE_CONSTRAINT_H
#define STATOR_BASE_SHAPE_CONSTRAINT_H

#include "core/base/diag.h"
#include "core/base/str.h"
#include <stdint.h>

enum st_shape_constraint_kind {
    ST_SHAPE_CONSTRAINT_EQUAL = 1, /* size[0] == size[1] */
    ST_SHAPE_CONSTRAINT_FITS,      /* size[0] is size[1] or 1 */
    ST_SHAPE_CONSTRAINT_BROADCAST, /* equal, or one of the two is 1 */
    ST_SHAPE_CONSTRAINT_MULTIPLE,  /* size[0] is a multiple of size[1], which is at least 1 */
    ST_SHAPE_CONSTRAINT_AT_MOST,   /* size[0] <= size[1] */
    ST_SHAPE_CONSTRAINT_FILLED, /* AT_MOST for size[0] of 0 or 1: an element that is read exists */
    ST_SHAPE_CONSTRAINT_INSIDE, /* size[1] elements from size[0] on by `step` lie in an axis of size[2] */
    ST_SHAPE_CONSTRAINT_KINDS
};

/* How many sizes a shape constraint of this kind has. */
uint32_t st_shape_constraint_sizes(uint32_t kind);
/* OK, or INVALID_ARGUMENT (OUT_OF_RANGE for INSIDE) with `text` and the sizes. */
stator_status st_shape_constraint_check(uint32_t kind, const int64_t size[3], int64_t step,
                                        const char *text, stator_diag **err);
/* The same test as C, for packages: `static int holds(int kind, const int64_t *n, int64_t step)`,
 * which needs stdint.h and may go unused. */
void st_shape_constraint_put_c(st_str *out);

#endif
