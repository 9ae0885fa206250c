/* The backend "loops": lowering, fusion and scheduling of the code generator, with each kernel run
 * by the oracle of the loop IR. What is wrong here is wrong before any machine code is made.
 */
#include "codegen/codegen.h"
#include "codegen/gpu/gpu_kernel.h"
#include "codegen/loopir/loop_expand.h"
#include "codegen/schedule/cpu/cpu_schedule.h"
#include "core/base/diag.h"
#include "plain_library.h"
#include "tests/oracle/loop_oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LOOPS_LIBRARY
#define NAME "loops_library"
#define DOC "codegen's kernels, interpreted; contractions by a plain library"
#elif defined(LOOPS_GPU)
#define NAME "loops_gpu"
#define DOC "codegen's kernels as they are mapped onto a GPU, interpreted"
#else
#define NAME "loops"
#define DOC "codegen's kernels, interpreted"
#endif

typedef struct loops_self {
    const stator_host *host;
    st_mem mem;
    st_emitter emitter;
    st_library library;
} loops_self;

/* ---- the emitter: a module is a copy of the kernels ---- */

typedef struct module {
    st_loop_syms *syms;
    uint32_t n;
    st_kernel *kernels;
} module;

static int copy_kernel(st_mem *mem, const st_kernel *from, st_kernel *to)
{
    if (!st_kernel_init(to, mem, from->syms, from->name)) {
        return 0;
    }
    to->number = from->number;
    to->threads = from->threads;
    const int is_ok = st_vec_resize(mem, &to->insts, from->insts.count) &&
                      st_vec_resize(mem, &to->blocks, from->blocks.count) &&
                      st_vec_resize(mem, &to->axes, from->axes.count) &&
                      st_vec_resize(mem, &to->buffers, from->buffers.count);
    if (is_ok) {
        memcpy(to->insts.data, from->insts.data, from->insts.count * sizeof from->insts.data[0]);
        memcpy(to->blocks.data, from->blocks.data,
               from->blocks.count * sizeof from->blocks.data[0]);
        if (from->axes.count) {
            memcpy(to->axes.data, from->axes.data, from->axes.count * sizeof from->axes.data[0]);
        }
        if (from->buffers.count) {
            memcpy(to->buffers.data, from->buffers.data,
                   from->buffers.count * sizeof from->buffers.data[0]);
        }
    }
    return is_ok;
}

static void module_destroy(void *self_, void *module_)
{
    loops_self *self = self_;
    module *m = module_;
    for (uint32_t i = 0; i < m->n; i++) {
        st_kernel_deinit(&m->kernels[i]);
    }
    st_free(&self->mem, m->kernels);
    st_free(&self->mem, m);
}

#ifdef LOOPS_GPU
/* Appends the program of the kernel to the file that STATOR_GPU_TEXTS names. */
static stator_status write_text(st_mem *mem, const st_target *target, const st_kernel *kernel,
                                FILE *to, stator_diag **err)
{
    st_kernel plain;
    st_arena arena;
    st_str text;
    st_gpu_kernel what;
    stator_status status = st_loop_expand(kernel, target->spells, &plain, err);
    if (status != STATOR_OK) {
        return status;
    }
    st_arena_init(&arena, mem);
    st_str_init(&text, mem);
    status = st_gpu_print(target, &plain, plain.name, &arena, &text, &what, err);
    if (status == STATOR_OK) {
        (void)fprintf(to, "%s", text.data);
        (void)fprintf(to,
                      "// %u iterations a block, %u bytes of shared memory, %llu of scratch\n\n",
                      what.iterations, what.shared_bytes + what.dynamic_bytes,
                      (unsigned long long)what.scratch_bytes);
    }
    st_str_deinit(&text);
    st_arena_deinit(&arena);
    st_kernel_deinit(&plain);
    return status;
}

static stator_status write_texts(st_mem *mem, const st_target *target,
                                 const st_kernel *const *kernels, uint32_t n, stator_diag **err)
{
    const char *path = getenv("STATOR_GPU_TEXTS");
    FILE *to = path ? fopen(path, "a") : NULL;
    stator_status status = STATOR_OK;
    for (uint32_t i = 0; to && i < n && status == STATOR_OK; i++) {
        status = write_text(mem, target, kernels[i], to, err);
    }
    if (to) {
        (void)fclose(to);
    }
    return status;
}
#endif

static stator_status emit(void *self_, const st_kernel *const *kernels, uint32_t n, void **out,
                          stator_diag **err)
{
    loops_self *self = self_;
    module *m = st_calloc(&self->mem, 1, sizeof *m);
    if (m == NULL) {
        return st_fail_oom(err);
    }
    m->kernels = st_calloc(&self->mem, (uint64_t)n + 1u, sizeof *m->kernels);
    for (; m->kernels && m->n < n; m->n++) {
        if (!copy_kernel(&self->mem, kernels[m->n], &m->kernels[m->n])) {
            break;
        }
    }
    if (m->n < n) {
        module_destroy(self, m);
        return st_fail_oom(err);
    }
    *out = m;
#ifdef LOOPS_GPU
    return write_texts(&self->mem, &self->emitter.target, kernels, n, err);
#else
    return STATOR_OK;
#endif
}

static stator_status launch(void *self, void *module_, uint32_t k, const st_launch *what,
                            stator_diag **err)
{
    const module *m = module_;
    (void)self;
    return loop_oracle_run(&m->kernels[k], what->args, what->is_part ? what->begin : 0, what->count,
                           err);
}

#ifdef LOOPS_GPU
/* How contractions of f32 are computed: st_f32_products, the number in STATOR_GPU_F32_PRODUCTS. */
static uint32_t f32_products(void)
{
    const char *number = getenv("STATOR_GPU_F32_PRODUCTS");
    return number ? (uint32_t)strtoul(number, NULL, 10) : ST_F32_STRICT;
}
#endif

/* ---- the backend ---- */

static void *host_alloc(void *host_, uint64_t size, uint64_t align)
{
    const stator_host *host = host_;
    return host->mem->alloc(host->ctx, size, align);
}

static void host_free(void *host_, void *p)
{
    const stator_host *host = host_;
    host->mem->free(host->ctx, p);
}

static stator_status loops_init(const stator_host *host, void **out_self, stator_diag **err)
{
    loops_self *self = host->mem->alloc(host->ctx, sizeof *self, 16);
    if (self == NULL) {
        return st_cg_to_host(host, STATOR_RESOURCE_EXHAUSTED, NULL, err);
    }
    memset(self, 0, sizeof *self);
    self->host = host;
    st_mem_init(&self->mem, host_alloc, host_free, (void *)(uintptr_t)host, 0);
    self->emitter = (st_emitter){.struct_size = sizeof(st_emitter),
                                 .flags = ST_EMITTER_PARTS,
                                 .self = self,
                                 .target = {.struct_size = sizeof(st_target),
                                            .vector_bytes = 32,
                                            .threads = 2,
                                            .l1_bytes = 32768,
                                            .l2_bytes = 1048576,
                                            .l3_bytes = 33554432,
                                            .schedule = st_cpu_schedule},
                                 .compile = emit,
                                 .launch = launch,
                                 .module_destroy = module_destroy};
    self->library = plain_library(&self->mem);
#ifdef LOOPS_LIBRARY
    self->emitter.library = &self->library;
#elif defined(LOOPS_GPU)
    self->emitter.target = (st_target){.struct_size = sizeof(st_target),
                                       .threads = 132 * 2, /* as an H100 */
                                       .l2_bytes = 50u << 20,
                                       .spells = st_gpu_spells,
                                       .schedule = st_gpu_schedule,
                                       .kind = ST_TARGET_GPU,
                                       .n_multiprocessors = 132,
                                       .warp_size = 32,
                                       .block_threads_max = 1024,
                                       .shared_bytes = 49152,
                                       .shared_optin_bytes = 232448,
                                       .has_matrices = 1,
                                       .f32_products = f32_products()};
#endif
    *out_self = self;
    return STATOR_OK;
}

static void loops_shutdown(void *self_)
{
    loops_self *self = self_;
    self->host->mem->free(self->host->ctx, self);
}

static stator_status loops_create(void *self, const stator_options *options, uint32_t device,
                                  void **out_inst, stator_diag **err)
{
    (void)options;
    (void)device;
    (void)err;
    *out_inst = self;
    return STATOR_OK;
}

static void loops_destroy(void *self, void *inst)
{
    (void)self;
    (void)inst;
}

static stator_status loops_pipeline(void *self, const stator_options *options,
                                    const stator_pipeline_sink *sink)
{
    static const char *const stages[] = {"functionalize", "freeze",      "decompose",
                                         "canonicalize",  "fold",        "fold_embedding_product",
                                         "cse",           "merge_scans", "move_into_scan",
                                         "split",         "dce"};
    (void)self;
    (void)options;
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        sink->stage(sink->self, stages[i]);
    }
    return STATOR_OK;
}

static int32_t loops_keep(void *inst, const char *op, uint32_t version, const stator_dtype *dtypes,
                          const uint32_t *ranks, uint32_t n)
{
    (void)inst;
    (void)version;
    (void)ranks;
    return st_cg_keeps(op, n > 0 ? dtypes[0] : (stator_dtype)0,
                       true); /* loops are what is tested */
}

static st_cg_config config_of(loops_self *self)
{
    return (st_cg_config){
        .host = self->host, .emitter = &self->emitter, .mem = &self->mem, .exact = 1};
}

static stator_status loops_capability(void *inst, const stator_graph *graph,
                                      const stator_capability_sink *sink, stator_diag **err)
{
    const st_cg_config config = config_of(inst);
    return st_cg_capability(&config, graph, sink, err);
}

static stator_status loops_compile(void *inst, const stator_graph *graph, stator_fuel_scope *fuel,
                                   void **out, stator_diag **err)
{
    loops_self *self = inst;
    const st_cg_config config = config_of(self);
    st_cg_exe *exe = NULL;
    const stator_status status = st_cg_compile(&config, graph, fuel, &exe, err);
    *out = exe;
    if (status == STATOR_OK && self->host->log->enabled(self->host->ctx, "output_code", 2)) {
        st_str text;
        st_str_init(&text, &self->mem);
        if (st_cg_print(exe, &text) == STATOR_OK) {
            self->host->log->write(self->host->ctx, "output_code", 2, text.data);
        }
        st_str_deinit(&text);
    }
    return status;
}

static stator_status loops_exe_info(void *inst, void *exe, stator_exe_info *out)
{
    (void)inst;
    st_cg_info(exe, out);
    return STATOR_OK;
}

static stator_status loops_exe_run(void *inst, void *exe, const stator_call *call,
                                   stator_diag **err)
{
    (void)inst;
    return st_cg_run(exe, call, err);
}

static stator_status loops_exe_steps(void *inst, void *exe, const stator_step_sink *sink,
                                     stator_diag **err)
{
    (void)inst;
    (void)err;
    return st_cg_steps(exe, sink);
}

static void loops_exe_destroy(void *inst, void *exe)
{
    (void)inst;
    st_cg_destroy(exe);
}

static const stator_backend backend = {
    .item = STATOR_ITEM(stator_backend, STATOR_KIND_BACKEND, NAME, DOC),
    .tags = "debug,cpu",
    .priority = 1,
    .create = loops_create,
    .destroy = loops_destroy,
    .pipeline = loops_pipeline,
    .keep = loops_keep,
    .capability = loops_capability,
    .compile = loops_compile,
    .exe_info = loops_exe_info,
    .exe_run = loops_exe_run,
    .exe_destroy = loops_exe_destroy,
    .exe_steps = loops_exe_steps,
};

static const stator_item *const items[] = {&backend.item};

STATOR_PLUGIN(NAME, "1.0.0", "Stator", "[\"backend\"]", ",\"tags\":[\"debug\",\"cpu\"]", items,
              loops_init, loops_shutdown);
