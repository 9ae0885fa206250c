/* The cases of gradient_cases.def and the graphs of their gradients. */
#ifndef STATOR_TEST_SUPPORT_GRADIENT_H
#define STATOR_TEST_SUPPORT_GRADIENT_H

#include "tests/unit/support_text.h"
#include <stator/stator.h>

#define GRADIENT_INPUTS_MAX 8u

typedef struct gradient_case {
    const char *group;
    const char *inputs;
    const char *lines;
    const char *fixed; /* sizes that stay numbers where the others are symbols: "2 3", "*": all */
    const char *why;
} gradient_case;
extern const gradient_case gradient_cases[];
extern const uint32_t gradient_case_count;

/* The text of the graph with an input `seed` of the result's type, and the gradients behind the
 * result; or, of order 2, what is made of the gradients alone (freed by the caller through w->mem).
 * NULL: *err says why. */
char *gradient_text_of_order(text_world *w, const char *text, uint32_t order, stator_diag **err);
char *gradient_text(text_world *w, const char *text, stator_diag **err); /* of order 1 */

/* An f64 tensor of smooth values in (0.2, 1.8), no two alike (released by the caller). */
stator_tensor *gradient_values(stator_ctx *ctx, uint32_t rank, const int64_t *shape, uint32_t salt);
uint64_t gradient_element_count(stator_tensor *t);
double *gradient_data(stator_tensor *t);

#endif
