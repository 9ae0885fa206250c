/* Training: models made of a model that compute its gradients. Each is a model like any other:
 * stator_compile takes it for any backend, stator_x_model_write writes it. docs/grad.md has
 * examples and says what the graphs look like. */
#ifndef STATOR_TRAIN_H
#define STATOR_TRAIN_H

#include <stator/stator.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which values of a model gradients are computed for, beside those that are named. */
enum stator_wrt {
    STATOR_WRT_PARAMS = 1u << 0, /* its parameters of a float dtype */
    STATOR_WRT_INPUTS = 1u << 1  /* its other inputs of a float dtype */
};

typedef struct stator_differentiate_options {
    uint32_t struct_size;
    uint32_t wrt; /* stator_wrt. 0 and no names: the parameters, or the inputs where the model has
                   * no parameter of a float dtype */
    /* The output whose elements' sum is differentiated. NULL: all outputs of a float dtype, each
     * of which has a tangent, an input of its type, as the gradient of what is made of it. */
    const char *loss;
    const char *const *names; /* parameters and inputs by name */
    uint32_t name_count;
    uint32_t reserved;
} stator_differentiate_options;

/* The joint model: its inputs are the model's (parameters stay parameters), then the tangents,
 * named `tangent_OUTPUT`; its outputs are the model's, then a gradient for each value asked for, in
 * the order of the model's inputs, of that value's type and named `grad_INPUT`; a name that is
 * taken already gets `_` at its end. Zeros where the outputs do not depend on the value. What the
 * model writes back it writes back. Nodes that nothing needs are left out.
 *
 * Nodes of the backward part come behind those of the forward part and are named "backward of" the
 * node whose gradient they compute (STATOR_BACKWARD_OF, stator_node_is_backward). A model that
 * holds ops `gradient` has them written out first, so that its gradients are second derivatives.
 * options may be NULL. Any thread; the model is not changed and need not outlive the new one.
 *
 * NEED_VALUE: the model has no graph before the values of some inputs are known
 * (stator_model_specialise); NOT_FOUND: no output or input has the name, the text has the nearest;
 * INVALID_ARGUMENT: one is of no float dtype, or the model has none that is; UNSUPPORTED: a node
 * between them has no gradient, the text names it. Since 0.1. */
STATOR_EXPORT stator_status stator_model_differentiate(const stator_model *model,
                                                       const stator_differentiate_options *options,
                                                       stator_model **out_model) STATOR_MUST_USE;

typedef struct stator_partition_options {
    uint32_t struct_size;
    uint32_t flags;   /* 0 */
    const char *plan; /* which values are kept between the parts. NULL or "default": those that the
                       * forward part made and the backward part reads */
} stator_partition_options;

/* The two parts of a joint model. The forward model's inputs are the joint model's, without the
 * tangents; its outputs are the results, then the values that are kept, named `saved_VALUE` unless
 * they are results. The backward model's inputs are those of the joint model that it reads (and,
 * where it needs sizes that nothing else tells, the others that are no parameters), then the kept
 * values by the same names; its outputs are the gradients. One call of each gives what the joint
 * model gives. Constants are in both. options may be NULL. Any thread.
 *
 * INVALID_ARGUMENT: no output of the model is a gradient, there is no such plan, or the backward
 * part needs a size that only a node of the forward part tells; UNIMPLEMENTED: the plan
 * "min-cut". Since 0.1. */
STATOR_EXPORT stator_status stator_model_partition(const stator_model *joint,
                                                   const stator_partition_options *options,
                                                   stator_model **out_forward,
                                                   stator_model **out_backward) STATOR_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
