/* From a graph of primitives to a running program: what a code-generating backend calls (header
 * unstable, see docs/codegen.md).
 *
 *   keep        ->  st_cg_keeps           composites with a lowering of their own
 *   capability  ->  st_cg_capability      which nodes have a lowering
 *   compile     ->  st_cg_compile         lower, fuse, schedule, plan memory, emit
 *   exe_info    ->  st_cg_info
 *   exe_run     ->  st_cg_run             runs the launch plan
 *   exe_destroy ->  st_cg_destroy
 *
 * All of it is independent of the machine but for the emitter's target. Threads: compile
 * concurrently with different `mem`; run concurrently on one executable. */
#ifndef STATOR_CODEGEN_CODEGEN_H
#define STATOR_CODEGEN_CODEGEN_H

#include "codegen/target/emitter.h"

typedef struct st_cg_exe st_cg_exe;

typedef struct st_cg_config {
    const stator_host *host;
    const st_emitter *emitter; /* outlives the executable */
    st_mem *mem;               /* likewise */
    uint32_t exact;            /* 1: round to the declared dtype at each op; 0: `fused` */
    /* 1: an index outside its axis is no error: what it reads is 0, what it writes is left out. */
    uint32_t is_unchecked;
    /* 1: where that is faster sums of floats may be added in an order that differs from call to
     * call. */
    uint32_t is_any_order;
    uint32_t reserved;
    /* Why the emitter has no library of contractions although it would have one, for perf_hints;
     * NULL: it has, or none is wanted. */
    const char *no_library;
} st_cg_config;

/* Is there a lowering for this composite, so that it is best kept whole (a backend's slot `keep`)?
 * dtype: that of its first operand; has_library: the emitter has one for contractions. */
bool st_cg_keeps(const char *op, stator_dtype dtype, bool has_library);

/* Answers for every node: yes, or no with the reason. Pure. */
stator_status st_cg_capability(const st_cg_config *config, const stator_graph *graph,
                               const stator_capability_sink *sink, stator_diag **err);

/* A graph whose nodes were all accepted becomes an executable. Fuel is asked for each fusion
 * (STATOR_FUEL_FUSION); refused, a value is stored and loaded again.
 * RESOURCE_EXHAUSTED; UNSUPPORTED with the node's name; what the emitter's compile gives. */
stator_status st_cg_compile(const st_cg_config *config, const stator_graph *graph,
                            stator_fuel_scope *fuel, st_cg_exe **out, stator_diag **err);

void st_cg_info(const st_cg_exe *exe, stator_exe_info *out);
stator_status st_cg_run(const st_cg_exe *exe, const stator_call *call, stator_diag **err);
void st_cg_destroy(st_cg_exe *exe);

/* The launches, for exe_steps; bodies of loops one deeper. */
stator_status st_cg_steps(const st_cg_exe *exe, const stator_step_sink *sink);

/* The executable as bytes (bytes.h), for exe_serialize, before its first call; UNSUPPORTED when
 * emitter or library have no hooks for that. Constants are named by the host's cache. */
stator_status st_cg_save(const st_cg_exe *exe, st_str *out, stator_diag **err);
/* Back again, on an emitter of the same kind. DATA_LOSS: the bytes are not such. */
stator_status st_cg_load(const st_cg_config *config, const void *bytes, uint64_t n, st_cg_exe **out,
                         stator_diag **err);

/* Gives one of our errors (or NULL) to the host, as one of the host's in *err; releases ours.
 * Every slot of a plugin that fails ends so. Returns status. */
stator_status st_cg_to_host(const stator_host *host, stator_status status, stator_diag *own,
                            stator_diag **err);
/* The other way, for a call of a host function from inside: *theirs is released. Returns status. */
stator_status st_cg_from_host(const stator_host *host, stator_status status, stator_diag **theirs,
                              stator_diag **err);

/* The loop IR of every kernel in launch order, and the launch plan: golden tests and
 * `output_code`. */
stator_status st_cg_print(const st_cg_exe *exe, st_str *out);

/* ---- slots ---- */

/* Of a backend whose instance begins with its st_cg_config; the descriptor names them as they are.
 */
static inline stator_status st_cg_slot_capability(void *inst, const stator_graph *graph,
                                                  const stator_capability_sink *sink,
                                                  stator_diag **err)
{
    return st_cg_capability(inst, graph, sink, err);
}

static inline stator_status st_cg_slot_compile(void *inst, const stator_graph *graph,
                                               stator_fuel_scope *fuel, void **out_exe,
                                               stator_diag **err)
{
    st_cg_exe *exe = NULL;
    const stator_status status = st_cg_compile(inst, graph, fuel, &exe, err);
    *out_exe = exe;
    return status;
}

static inline stator_status st_cg_slot_exe_info(void *inst, void *exe, stator_exe_info *out)
{
    (void)inst;
    st_cg_info(exe, out);
    return STATOR_OK;
}

static inline stator_status st_cg_slot_exe_run(void *inst, void *exe, const stator_call *call,
                                               stator_diag **err)
{
    (void)inst;
    return st_cg_run(exe, call, err);
}

static inline stator_status st_cg_slot_exe_steps(void *inst, void *exe,
                                                 const stator_step_sink *sink, stator_diag **err)
{
    (void)inst, (void)err;
    return st_cg_steps(exe, sink);
}

static inline void st_cg_slot_exe_destroy(void *inst, void *exe)
{
    (void)inst;
    st_cg_destroy(exe);
}

static inline stator_status st_cg_slot_exe_serialize(void *inst, void *exe, stator_blob **out,
                                                     stator_diag **err)
{
    const st_cg_config *config = inst;
    const stator_host *host = config->host;
    st_str bytes;
    *out = NULL;
    st_str_init(&bytes, config->mem);
    stator_status status = st_cg_save(exe, &bytes, err);
    if (status == STATOR_OK) {
        *out = host->cst->create(host->ctx, bytes.data, bytes.len);
        status =
            *out != NULL ? STATOR_OK : st_cg_to_host(host, STATOR_RESOURCE_EXHAUSTED, NULL, err);
    }
    st_str_deinit(&bytes);
    return status;
}

static inline stator_status st_cg_slot_exe_deserialize(void *inst, stator_blob *blob,
                                                       void **out_exe, stator_diag **err)
{
    const st_cg_config *config = inst;
    stator_blob_info info = {.struct_size = sizeof info};
    st_cg_exe *exe = NULL;
    *out_exe = NULL;
    stator_status status = config->host->cst->get(blob, &info, err);
    if (status == STATOR_OK) {
        status = st_cg_load(config, info.data, info.size_bytes, &exe, err);
    }
    *out_exe = exe;
    return status;
}

#endif
