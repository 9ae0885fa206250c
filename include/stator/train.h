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

enum stator_partition_flag {
    STATOR_PARTITION_BUDGET = 1u << 0,       /* `budget` is given; without it 1 */
    STATOR_PARTITION_CONTRACTIONS = 1u << 1, /* contractions, windows and sorts may be computed
                                              * again whatever the budget is */
    STATOR_PARTITION_RANDOM = 1u << 2        /* random numbers may, which are the same ones then */
};

/* What a plan came to. */
typedef struct stator_partition_facts {
    uint32_t struct_size;
    uint32_t recomputed; /* nodes of the backward part that compute a forward value once more */
    uint32_t is_capped;  /* 1: the plan took too much work. With budget 1 it is "default" then; with
                          * a lower one it keeps the least that was found */
    uint32_t reserved;
} stator_partition_facts;

typedef struct stator_partition_options {
    uint32_t struct_size;
    uint32_t flags;   /* stator_partition_flag */
    const char *plan; /* which values are kept between the parts. NULL or "default": those that the
                       * forward part made and the backward part reads. "min-cut": as few bytes as
                       * there have to be, parameters not counted, where the backward part computes
                       * cheap nodes (pointwise ops, casts, views, reductions, norms, gathers) once
                       * more. Effects, control flow and sizes that a run tells are never computed
                       * again, contractions and random numbers where they are allowed */
    double budget;    /* of "min-cut", 0 to 1: how much may be kept, of what budget 1 keeps. Below 1
                       * contractions are computed again as well, those first that free most bytes
                       * for their work. A lower budget never keeps more; one that cannot be met
                       * keeps what it must */
    stator_partition_facts *facts; /* filled in, with its struct_size set before; may be NULL */
} stator_partition_options;

/* A joint model whose backward part computes again what the plan does not keep; with the plan
 * "default" a copy. Nodes that do so are named "recomputed" and the node that they repeat
 * (STATOR_RECOMPUTED, stator_node_is_recomputed). Results are the same, bit for bit on `eager`.
 * Sizes that are symbols weigh as likely values of theirs do. Any thread; statuses as those of
 * stator_model_partition. Since 0.1. */
STATOR_EXPORT stator_status stator_model_rematerialise(const stator_model *joint,
                                                       const stator_partition_options *options,
                                                       stator_model **out_model) STATOR_MUST_USE;

/* The two parts of a joint model. The forward model's inputs are the joint model's, without the
 * tangents; its outputs are the results, then the values that are kept, named `saved_VALUE` unless
 * they are results. The backward model's inputs are those of the joint model that it reads (and,
 * where it needs sizes that nothing else tells, the others that are no parameters), then the kept
 * values by the same names; its outputs are the gradients. One call of each gives what the joint
 * model gives. Constants are in both. options may be NULL. Any thread.
 *
 * INVALID_ARGUMENT: no output of the model is a gradient, there is no such plan or budget, or the
 * backward part needs a size that only a node of the forward part tells. Since 0.1. */
STATOR_EXPORT stator_status stator_model_partition(const stator_model *joint,
                                                   const stator_partition_options *options,
                                                   stator_model **out_forward,
                                                   stator_model **out_backward) STATOR_MUST_USE;

/* ---- training steps ---- */

/* What a training step is made of, by name: `stator optimizers` lists them. */
enum stator_train_kind {
    STATOR_TRAIN_LOSS = 0,
    STATOR_TRAIN_STEP = 1, /* options of every step, of one with a teacher, of one in f16 */
    STATOR_TRAIN_OPTIMIZER = 2,
    STATOR_TRAIN_SCHEDULE = 3
};

typedef struct stator_train_item {
    uint32_t struct_size;
    uint32_t kind; /* stator_train_kind */
    const char *name;
    const char *options; /* "name:kind=default; ...": int, float, floats (numbers with commas
                          * between), string; without a default it has to be given. "": none */
    const char *state;   /* of an optimizer, a tensor for each parameter: "a, b:option" (b where the
                          * option is not 0); "": none */
    const char *doc;
    const char *ranges; /* of options: "name in [low, high]; ...", a parenthesis where the bound
                          * is none of the values; an option that is not named takes every finite
                          * number of its kind. "": none is */
} stator_train_item;

/* Row `index` of the table, from 0; strings live as long as the process. OUT_OF_RANGE: past the
 * end, the context's error stays as it was. Since 0.1. */
STATOR_EXPORT stator_status stator_train_item_info(stator_ctx *ctx, uint32_t index,
                                                   stator_train_item *out_item) STATOR_MUST_USE;

enum stator_train_flag {
    STATOR_TRAIN_OUTPUTS = 1u << 0,   /* the model's outputs follow those of the step */
    STATOR_TRAIN_LOSS_ONLY = 1u << 1, /* the loss of the same options, as without an optimizer */
    /* A step of several batches: one call of a model with GRADIENTS_ONLY for each of them but
     * the last, which adds the batch's gradients to inputs sum_PARAMETER (f32 or wider, 0 at
     * first), then one of a model with ACCUMULATE for the last, which updates by their mean and
     * sets them to 0. Both have an input `batches`, the number of the batch in its step, from 1,
     * as f64. */
    STATOR_TRAIN_ACCUMULATE = 1u << 2,
    STATOR_TRAIN_GRADIENTS_ONLY = 1u << 3,
    STATOR_TRAIN_BUDGET = 1u << 4, /* `budget` is given */
    /* Normalisations compute as where the model is used, by their running statistics, which stay.
     * For a validation set, beside LOSS_ONLY. */
    STATOR_TRAIN_INFERENCE = 1u << 5
};

/* stator_train_options.teacher_loss where that is NULL. */
#define STATOR_TEACHER_LOSS "kl_div"

typedef struct stator_train_options {
    uint32_t struct_size;
    uint32_t flags;        /* stator_train_flag */
    const char *loss;      /* a loss of the table, or an output of a float dtype, whose sum is it;
                            * NULL with a teacher: none but the teacher's */
    const char *output;    /* what a loss of the table compares with the target: an output, or a
                            * value inside, by name. NULL: the first output. It is NULL where
                            * `loss` is an output of the model and there is no teacher */
    const char *optimizer; /* NULL: none, the model computes its loss alone */
    const char *schedule;  /* NULL: "constant" */
    const char *const *option_keys; /* options of the loss, the optimizer, the schedule, the step */
    const char *const *option_values;
    uint32_t option_count;
    uint32_t reserved;  /* 0 */
    const char *freeze; /* parameters that stay as they are: globs, with commas between */
    /* Mixed precision. NULL: none; "bf16" or "f16": the model is rewritten by the pass
     * `autocast` before it is differentiated. Parameters, their gradients and states keep their
     * types; a loss of the table reads f32. */
    const char *amp;
    /* With STATOR_TRAIN_BUDGET: the backward part computes forward values again, as with the plan
     * "min-cut" and this budget, 0 to 1, of stator_partition_options. Without it every value is
     * kept until its last reader. */
    double budget;
    /* Distillation. A model of the same context, in its mode for inference, that says what the
     * model is to give; NULL: none. Its graph is part of the step, where its normalisations go
     * by running statistics, which stay, and its parameters are constants of it. Its inputs are
     * the model's of the same names, or, where no name is of both, those in the same places. */
    const stator_model *teacher;
    /* What it says: an output, or a value inside, by name. NULL: the first output. */
    const char *teacher_output;
    /* A loss of the table whose target may be of the type of what it reads, of `output` and
     * teacher_output. NULL: STATOR_TEACHER_LOSS, of scores. With `loss` NULL it is the whole
     * loss, and there is no `target`; else the loss is option teacher_weight (0 to 1, 0.5) times
     * this one and 1 - teacher_weight times `loss`. */
    const char *teacher_loss;
} stator_train_options;

/* A step of training as a model, which stator_compile takes for any backend. Its inputs are the
 * model's, `target` (with a loss of the table: i64 class indices in the shape of `output` without
 * axis 1, or a tensor of its type), and then, with an optimizer,
 *
 *     lr                the rate, an f64 scalar
 *     parameters        by their names: those of a float dtype that are not frozen and no running
 *                       statistics of a normalisation
 *     STATE_PARAMETER   the optimizer's state, of the parameter's shape, in f32 or wider
 *     loss_scale        with amp "f16": what the loss is multiplied by, an f32 scalar, which
 *                       counts as init_scale while it is 0
 *     growth_tracker    and the steps since it changed, an i64 scalar
 *     step              how many steps have been made, an i64 scalar
 *
 * Parameters of a teacher are parameters of the step, named teacher_PARAMETER.
 *
 * A call writes the new parameters, states and step number where the old ones lie
 * (docs/devices.md#inputs-that-a-call-writes), or nothing where it fails; so are running statistics
 * of normalisations that the model trains. A step whose gradients are not all finite changes
 * loss_scale and growth_tracker alone, where they are there. stator_train_state makes the first
 * ones. Its outputs are `loss`, a scalar of its dtype; `lr`, the rate of this step, with a schedule
 * other than constant; then the model's own where STATOR_TRAIN_OUTPUTS asks for them. Without an
 * optimizer the parameters are inputs too, and nothing is written. A name that is taken gets `_` at
 * its end.
 *
 * Sizes that the model states as numbers are part of a mean: compile with
 * STATOR_COMPILE_STRICT_SIZES unless they are symbols. Any thread; the model is not changed and
 * need not outlive the step.
 *
 * NOT_FOUND: there is no such loss, output, optimizer, schedule or option, the text has the
 * nearest; INVALID_ARGUMENT: no parameter is left to train, a value is none of its option's or
 * does not go with another's, the loss does not fit what it reads or is an output beside
 * `output`, or the teacher does not fit the model, is of another context or computes as in
 * training; UNSUPPORTED: a node between them has no gradient, or one in a branch or a body makes
 * new running statistics of a parameter that is not frozen; NEED_VALUE as of
 * stator_model_differentiate. Since 0.1. */
STATOR_EXPORT stator_status stator_model_train_step(const stator_model *model,
                                                    const stator_train_options *options,
                                                    stator_model **out_step) STATOR_MUST_USE;

/* What an input of a step is for. A caller's: */
enum stator_train_role {
    STATOR_ROLE_DATA = 0,    /* the model's own */
    STATOR_ROLE_TARGET = 1,  /* `target` */
    STATOR_ROLE_RATE = 2,    /* `lr` */
    STATOR_ROLE_SEED = 3,    /* `seed` */
    STATOR_ROLE_BATCHES = 4, /* `batches` */
    /* and from here on the training's: */
    STATOR_ROLE_PARAMETER = 5, /* a parameter, or a statistic */
    STATOR_ROLE_STATE = 6,     /* the optimizer's, or the loss scale's */
    STATOR_ROLE_SUM = 7,       /* the sum of a parameter's gradients */
    STATOR_ROLE_STEP = 8       /* `step` */
};

/* The role of input `index` of a step, whatever name it got. INVALID_ARGUMENT: the model was not
 * made by stator_model_train_step; OUT_OF_RANGE: there is no such input. Since 0.1. */
STATOR_EXPORT stator_status stator_train_input_role(const stator_model *step, uint32_t index,
                                                    uint32_t *out_role) STATOR_MUST_USE;

enum stator_train_init {
    STATOR_INIT_KEEP = 0,  /* parameters as the model has them */
    STATOR_INIT_RANDOM = 1 /* weights uniform within 1 / sqrt(fan-in), by seed and place; scales of
                            * normalisations 1; other vectors 0 */
};

typedef struct stator_train_state_options {
    uint32_t struct_size;
    uint32_t init; /* stator_train_init */
    uint64_t seed;
    const char *device; /* "cuda:0"; NULL: host memory */
} stator_train_state_options;

/* New tensors for the inputs of a step that hold what is trained: parameters and statistics of
 * `model` by their names, states and the step number as 0. in[] has a place for each input of the
 * step, in order; places of other inputs are left as they are. The caller releases the tensors,
 * none is left after a failure. options may be NULL. Random numbers are Philox4x32-10's, the same
 * on every machine.
 *
 * INVALID_ARGUMENT: n is not the number of inputs; errors of the device. Since 0.1. */
STATOR_EXPORT stator_status stator_train_state(const stator_model *model, const stator_model *step,
                                               const stator_train_state_options *options,
                                               uint32_t n, stator_tensor **in) STATOR_MUST_USE;

/* Writes a copy of the file that the model was read from, with other values of parameters, in the
 * file's own format and dtypes; everything else stays as it is there. What the format keeps in
 * files of their own goes into one more file, `path`.TOKEN.data, of a new name for each copy.
 * names[] are parameters, values[] have their dtypes and shapes, on whatever device. The copy
 * appears when it and its data are whole; then data that a save of this `model` had left there are
 * removed, unless another file of the folder names them. Other data stay, and the log says where
 * they lie. `path` may be the one that was read, a link, which is followed, or a pipe; NULL:
 * nothing is written, and the status is that of writing. Any thread; the model is not changed.
 *
 * FAILED_PRECONDITION: the file changed since it was loaded without the option copy;
 * UNSUPPORTED: the model was read from no file, or its frontend writes none; NOT_FOUND: there is
 * no such parameter, the text has the nearest; INVALID_ARGUMENT: a value does not fit;
 * UNAVAILABLE: the file cannot be written. Since 0.1. */
STATOR_EXPORT stator_status stator_model_save(const stator_model *model, const char *path,
                                              uint32_t n, const char *const *names,
                                              stator_tensor *const *values) STATOR_MUST_USE;

/* ---- parameters of a compiled function ---- */

/* How many parameters the function's model has; 0 while it needs values of inputs. Since 0.1. */
STATOR_EXPORT uint32_t stator_function_param_count(stator_function *function);
/* Name, dtype and shape of parameter `index`, in the order of the model. OUT_OF_RANGE: past the
 * end; NEED_VALUE: the model has no graph yet. Any thread. Since 0.1. */
STATOR_EXPORT stator_status stator_function_param_info(stator_function *function, uint32_t index,
                                                       stator_port_info *out_info) STATOR_MUST_USE;
/* A new tensor in host memory with the value that calls compute with. Any thread. NOT_FOUND:
 * there is no such parameter, the text has the nearest; NEED_VALUE as above; RESOURCE_EXHAUSTED;
 * errors of reading the model's file. Since 0.1. */
STATOR_EXPORT stator_status stator_function_param_get(stator_function *function, const char *name,
                                                      stator_tensor **out_value) STATOR_MUST_USE;
/* Another value for a parameter of this function, copied from `value`, which has its dtype and
 * shape and lies on whatever device; the model and other functions keep theirs. The next call
 * compiles anew (once, however many were set, past the cache on disk), so that the value is folded
 * and packed as the first one was. A value that changes from call to call is better an input: a
 * step of training has its parameters as inputs. No call of the function may run meanwhile, in any
 * thread.
 *
 * NOT_FOUND: there is no such parameter, the text has the nearest; INVALID_ARGUMENT: another
 * dtype or shape; FAILED_PRECONDITION: a bound call of the function is alive; UNSUPPORTED: calls
 * are compared with the model's (stator_compile_options.verify). Nothing changes after a
 * failure. Since 0.1. */
STATOR_EXPORT stator_status stator_function_param_set(stator_function *function, const char *name,
                                                      stator_tensor *value) STATOR_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
