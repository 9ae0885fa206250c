/* core/host is the public API over the rooms below: contexts (ctx_create.c), models (model.h and
 * model_*.c), functions and calls (function.h), calls beside the reference (verify_calls.h), the
 * first difference of two backends (observe.c), packages (package.c), and the host table that
 * plugins get (host_table.h).
 *
 * Models: a source that a frontend imports, and the modules it gave.
 *
 * Most sources import once. A source whose shapes depend on the values of graph inputs (an ONNX
 * Reshape whose shape is an input, say) needs them first: the frontend names those inputs, and each
 * distinct set of values gives a specialisation, guarded by equality of these inputs. A call with
 * sizes that the model states otherwise imports again under a plan of sizes, and what is compiled
 * may be such an import under narrower ranges (sizes.h): these are specialisations too. */
#ifndef STATOR_HOST_MODEL_H
#define STATOR_HOST_MODEL_H

#include "core/base/blob.h"
#include "core/context/ctx.h"
#include "ir/graph.h"
#include "ir/sizes/size_plan.h"

/* One import. `values[i]` holds the contents of needed input i that it was made with. */
typedef struct st_specialisation {
    struct st_specialisation *next;
    st_module *module;
    stator_tensor **values; /* parallel to model->needed */
    uint32_t n_values;
    uint32_t index;                       /* from 1 */
    const struct st_specialisation *base; /* import whose values it shares; NULL: its own */
    st_size_plan
        size_plan; /* sizes other than the baked-in ones; with `base`, ranges of its symbols */
} st_specialisation;

/* A fact that a frontend reports about a file (stator_source.fact). */
typedef struct st_fact {
    char *kind, *name, *value;
} st_fact;

struct stator_model {
    _Atomic uint32_t refs;
    stator_ctx *ctx;
    pthread_mutex_t lock;
    char *path; /* absolute, or the name given */
    char *dir;  /* folder of the file, or NULL */
    stator_blob *source;
    const void *bytes;
    uint64_t size;
    uint32_t flags;
    const st_loaded *frontend;
    stator_options *options;
    char **needed; /* names of inputs whose values the import needs */
    uint32_t n_needed;
    st_specialisation *specialisations; /* newest first */
    /* Set once, read without the lock: the graph to ask about inputs, and about outputs. */
    _Atomic(const stator_graph *) signature;
    _Atomic(const stator_graph *) imported;
    st_module *declared; /* a module whose root has the inputs only; made when values are needed */
    uint32_t n_specialisations;
    st_vec(st_fact) facts;   /* facts of the newest import; guarded by lock */
    uint8_t *roles;          /* of a training step: stator_train_role by input; NULL: it is none */
    st_vec(char *) own_data; /* data files that saves of the model wrote and none of them has
                              * replaced since; guarded by lock */
};

void st_model_forget_facts(stator_model *model);
/* The name of the value that stands for `name`, which the file has and no value of the graph: a
 * copy in the context's memory. *out_name NULL: the frontend told of none. */
stator_status st_model_find_alias(const stator_model *model, const char *name, char **out_name,
                                  stator_diag **err);

/* Publishes what the model can be asked about; the first of each stays. */
void st_model_publish(stator_model *model, const stator_graph *signature,
                      const stator_graph *imported);
void st_model_retain(stator_model *model);
void st_model_release(stator_model *model);
/* A model of a finished module, which is taken over also on failure. */
stator_status st_model_wrap(stator_ctx *ctx, st_module *module, stator_model **out_model,
                            stator_diag **err);
/* The graph to ask about inputs: the declared inputs where values were needed, else the import. */
const stator_graph *st_model_signature(const stator_model *model);
/* The model's graph. NEED_VALUE: there is none yet. */
stator_status st_model_need_graph(const stator_model *model, const stator_graph **out_graph,
                                  stator_diag **err);
/* The graph's input that a call gives at this place; 0: there is none. */
stator_ref st_model_call_input(const stator_graph *graph, uint32_t index);
/* Facts about a value, to the application. */
stator_status st_port_info_write(stator_ctx *ctx, const stator_graph_view *v, stator_ref value,
                                 const char *name, stator_port_info *out);
/* The parameter of that name; 0. */
stator_ref st_graph_find_param(const stator_graph *graph, const char *name);
/* The same; NOT_FOUND says the nearest, `whose` ("the model") has none of it. */
stator_status st_graph_require_param(const stator_graph *graph, const char *whose, const char *name,
                                     stator_ref *out_param, stator_diag **err);
/* INVALID_ARGUMENT unless a tensor has dtype and shape of the parameter. */
stator_status st_graph_check_param(const stator_graph *graph, stator_ref param,
                                   const stator_tensor *value, stator_diag **err);
/* A copy of the model's graph, to be changed; NEED_VALUE: there is none yet. */
stator_status st_model_copy(const stator_model *model, st_module **out_copy, stator_diag **err);
/* The end of a change: the copy becomes a model, or goes when status is an error, which the context
 * then has. The copy may be NULL then; copy and diag are taken. Returns the status. */
stator_status st_model_end_copy(const stator_model *model, st_module *copy, stator_status status,
                                stator_model **out_model, stator_diag *diag);
/* Infers the types of a module anew where that works, for more may be known of them after sizes or
 * inputs changed; else they stay, if they hold. *module is replaced, and stays the caller's. */
stator_status st_model_reinfer(st_module **module, stator_diag **err);
/* The specialisation for these inputs, imported now when there is none. in[] in call order.
 * size_plan: sizes of inputs that the model states otherwise, or NULL. */
stator_status st_model_specialise(stator_model *model, uint32_t n_in, const DLTensor *in,
                                  const st_size_plan *size_plan, st_specialisation **out_spec,
                                  stator_diag **err);
/* `base` inferred anew with its symbols in the plan's ranges, at the sizes at[] (by range), for
 * which the plan is narrowed further (reinfer.h). */
stator_status st_model_refine(stator_model *model, const st_specialisation *base,
                              st_size_plan *size_plan, const int64_t *at,
                              st_specialisation **out_spec, stator_diag **err);
/* Position among the call inputs of needed input i. */
uint32_t st_model_needed_position(const stator_model *model, uint32_t i);

#endif
