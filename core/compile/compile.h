/* core/compile turns one graph into a program: passes (pipeline.c), who runs which node (divide.h,
 * partition.h), and the program of all parts (assemble.h).
 *
 * From an imported module to a program with its guard.
 *
 *   clone module -> pipeline (passes the backend asked for) -> capability, decomposing what is kept
 *   but refused -> claims -> partition -> backend.compile per part -> program + guard
 *
 * Bodies of control flow that the backend does not run whole are divided like the graph around
 * them (divide.h) and become programs of their own (assemble.h). */
#ifndef STATOR_COMPILE_COMPILE_H
#define STATOR_COMPILE_COMPILE_H

#include "core/base/blob.h"
#include "core/compile/fallback_nodes.h"
#include "core/compile/partition.h"
#include "core/context/fuel.h"
#include "core/context/nested.h"
#include "core/runtime/guard.h"
#include "core/runtime/program.h"
#include "ir/passes/pass.h"
#include "ir/sizes/shape_constraint_list.h"
#include <stdatomic.h>

/* Called with the graph after each stage; stage "import" comes first. */
typedef void (*st_stage_fn)(void *self, const char *stage, const stator_graph *graph, uint64_t ns);

/* The functions that hear of a compile and may end it; see stator_compile_options. */
typedef struct st_watch {
    void (*progress)(void *self, const char *stage, uint32_t done, uint32_t total);
    int32_t (*is_cancelled)(void *self);
    void *self;
} st_watch;

typedef struct st_compile_request {
    stator_ctx *ctx;
    const st_module *source; /* left as it is */
    stator_instance *main;
    /* Given to the compile, the values of passes among them: main's, or, without it, these
     * alone. */
    const stator_options *options;
    /* Backends tried in this order for nodes that main refuses; empty: a refused node is an
     * error. */
    stator_instance *fallbacks[ST_FALLBACKS_MAX];
    uint32_t n_fallbacks;
    stator_instance *evaluator; /* folds constants; NULL: nothing is folded */
    st_fuel *fuel;
    uint32_t flags; /* stator_compile_flag */
    st_stage_fn on_stage;
    void *stage_self;
    const char *stop_after; /* a stage after which the pipeline ends, or NULL */
    st_watch watch;
    /* Sizes of the call that asks for it, by symbol of `source`: hints for choices under symbols.
     * INT64_MIN: not known. */
    const int64_t *hints;
    uint32_t n_hints;
} st_compile_request;

/* One compiled graph; see cache.h for what keeps it on disk. */
typedef struct st_compiled {
    stator_ctx *ctx;
    st_module *module;
    st_program program;
    st_program **bodies; /* bodies of control flow that the host runs */
    uint32_t n_bodies;
    st_symbol *symbols; /* symbols of the module, by index */
    st_guard guard;
    stator_coverage coverage[ST_COLORS];
    uint32_t n_coverage;
    st_fallback_nodes fallback_nodes;
    const st_file **files; /* files that constants are mapped from, each once */
    uint32_t n_files;
    uint32_t specialisation; /* index of the import it was made from */
    /* Owned by an entry that came from the cache, which has no module: its texts, its constants and
     * the graphs of parts that were compiled anew. */
    st_arena arena;
    stator_blob **blobs;
    uint32_t n_blobs;
    st_vec(st_module *) parts;
    uint32_t is_cached;
    _Atomic uint32_t n_verified; /* calls that ran on the reference too, or were asked about it */
} st_compiled;

/* Tells of the stage that begins (NULL: none). CANCELLED where the caller wants the compile to
 * end. */
stator_status st_watch_stage(const st_watch *watch, const char *stage, uint32_t done,
                             uint32_t total, stator_diag **err);
/* Runs the pipeline over a copy of request->source; *out_module owns the result, whose root is the
 * final graph. shape_constraints (may be NULL) receives those of the graph before any pass. */
stator_status st_run_pipeline(const st_compile_request *request,
                              st_shape_constraints *shape_constraints, st_module **out_module,
                              stator_diag **err);
/* Fills `out`, which has nothing but its context yet; the caller ends it. */
stator_status st_compile_anew(const st_compile_request *request, st_compiled *out,
                              stator_diag **err);
/* Notes the mapped files behind the module's blobs. */
stator_status st_compiled_list_files(st_compiled *out, const st_module *m, stator_diag **err);
void st_compiled_destroy(st_compiled *compiled);
/* Ends what it holds and leaves it empty, as before a compile. */
void st_compiled_clear(st_compiled *compiled);
/* Refs of the inputs that the caller gives (no params) into out (room for all inputs); their
 * number. */
uint32_t st_graph_call_inputs(const stator_graph *graph, stator_ref *out);
/* The guard of a graph's call inputs, its symbolic sizes named. */
stator_status st_graph_guard(st_mem *mem, const stator_graph *graph, st_guard *out_guard,
                             stator_diag **err);
/* FAILED_PRECONDITION when a file that constants are mapped from was changed since. */
stator_status st_compiled_check_files(const st_compiled *compiled, stator_diag **err);

/* The memories of devices that backends of the request work in, each once, in a fixed order: the
 * domains of its programs. */
stator_status st_request_domains(const st_compile_request *request, st_program *program,
                                 stator_diag **err);

/* Fills request-independent parts of a pass context (pipeline.c). */
void st_pass_ctx_init(const st_compile_request *request, stator_fuel_scope *scope,
                      st_pass_ctx *out_ctx);
/* The names of the stages that `backend` asks for; fn is called in order. */
stator_status st_pipeline_stages(stator_ctx *ctx, const st_loaded *backend,
                                 const stator_options *options,
                                 stator_status (*fn)(void *self, const char *stage), void *self,
                                 stator_diag **err);
/* Runs one named stage (our own pass or a plugin's). */
stator_status st_run_stage(const st_compile_request *request, const char *stage, stator_graph *in,
                           stator_graph **out, stator_diag **err);

/* Evaluates one node over constants on `evaluator` (evaluate.c); self is the instance. */
stator_status st_evaluate_node(void *self, const stator_graph *graph, stator_ref node,
                               stator_blob **out_blobs, stator_diag **err);

#endif
