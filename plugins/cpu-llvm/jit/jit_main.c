/* The code generator's entry: modules of kernels through LLVM to objects.
 *
 *     kernels --expand--> native instructions --jit_kernel_emit--> LLVM IR
 *         one after the other: the symbols of a program are shared
 *     LLVM IR --> passes --> machine code
 *         concurrently: each thread does a module
 *
 * Vectors are explicit already, so the list of passes is short: slots to registers, equal
 * subexpressions, peephole rules, what is invariant out of loops. */
#include "jit_emit.h"
#include "jit_guard.h"

#include "codegen/loopir/loop_expand.h"
#include "core/base/diag.h"
#include "core/base/threads/threads.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <string.h>

static const char *const passes[] = {
    [JIT_TIER_FAST] = "function(mem2reg,early-cse)",
    [JIT_TIER_DEFAULT] =
        "function(mem2reg,early-cse,instcombine<max-iterations=1;no-verify-fixpoint>,"
        "simplifycfg,loop-mssa(licm),early-cse<memssa>)",
};

/* One module on its way. */
typedef struct job {
    jit_unit unit;
    LLVMTargetMachineRef machine;
    char *cpu;
    char *cpu_features;
    uint32_t first, end; /* kernels */
    jit_output *out;
    jit_object *object;
    char **text;
    char **assembly;
    uint64_t passes_ns, codegen_ns;
    char msg[512];
} job;

typedef struct program {
    const jit_request *request;
    jit_output *out;
    st_kernel *expanded; /* by kernel */
    uint32_t n_expanded;
    job *jobs;
    uint32_t n_jobs;
    stator_status status;
    char *msg;
    uint64_t msg_size;
} program;

/* ---- the machine ---- */

static pthread_once_t llvm_once = PTHREAD_ONCE_INIT; /* LLVM's own registry is process-wide */

static void start_llvm(void)
{
    jit_guard_install();
    (void)LLVMInitializeNativeTarget();
    (void)LLVMInitializeNativeAsmPrinter();
}

static bool has_feature(const char *features, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = strstr(features, name); at != NULL; at = strstr(at + 1, name)) {
        if ((at == features || at[-1] == ',') && (at[n] == ',' || at[n] == 0)) {
            return true;
        }
    }
    return false;
}

static bool make_machine(job *j)
{
    char *message = NULL;
    LLVMTargetRef target = NULL;
    char *triple = LLVMGetDefaultTargetTriple();
    const char *features = j->unit.request->features;
    j->cpu = features ? LLVMCreateMessage("x86-64") : LLVMGetHostCPUName();
    j->cpu_features = features ? LLVMCreateMessage(features) : LLVMGetHostCPUFeatures();
    const LLVMCodeGenOptLevel level =
        j->unit.request->tier == JIT_TIER_FAST ? LLVMCodeGenLevelNone : LLVMCodeGenLevelDefault;
    if (LLVMGetTargetFromTriple(triple, &target, &message) == 0) {
        j->machine = LLVMCreateTargetMachine(target, triple, j->cpu, j->cpu_features, level,
                                             LLVMRelocPIC, LLVMCodeModelSmall);
    }
    if (j->machine == NULL) {
        (void)jit_fail(&j->unit, STATOR_UNAVAILABLE, "LLVM makes no code for this machine (%s): %s",
                       triple, message ? message : "no reason given");
    }
    LLVMDisposeMessage(message);
    LLVMDisposeMessage(triple);
    return j->machine != NULL;
}

/* ---- a module ---- */

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *self)
{
    job *j = self;
    if (LLVMGetDiagInfoSeverity(info) == LLVMDSError) {
        char *text = LLVMGetDiagInfoDescription(info);
        (void)jit_fail(&j->unit, STATOR_INTERNAL, "LLVM: %s", text);
        LLVMDisposeMessage(text);
    }
}

static unsigned metadata_kind(const jit_unit *u, const char *name)
{
    return LLVMGetMDKindIDInContext(u->context, name, (unsigned)strlen(name));
}

static void make_types(jit_unit *u)
{
    LLVMContextRef c = u->context;
    const LLVMTypeRef types[JIT_TYPE_COUNT] = {
        LLVMInt1TypeInContext(c),   LLVMInt8TypeInContext(c),       LLVMInt16TypeInContext(c),
        LLVMInt32TypeInContext(c),  LLVMInt64TypeInContext(c),      LLVMInt128TypeInContext(c),
        LLVMHalfTypeInContext(c),   LLVMBFloatTypeInContext(c),     LLVMFloatTypeInContext(c),
        LLVMDoubleTypeInContext(c), LLVMPointerTypeInContext(c, 0), LLVMVoidTypeInContext(c)};
    memcpy(u->types, types, sizeof types);
    LLVMTypeRef params[3] = {types[JIT_PTR], types[JIT_I64], types[JIT_I64]};
    u->kernel_type = LLVMFunctionType(types[JIT_VOID], params, 3, 0);
    u->kind_invariant = metadata_kind(u, "invariant.load");
    u->kind_nontemporal = metadata_kind(u, "nontemporal");
    u->kind_profile = metadata_kind(u, "prof");
    u->kind_scope = metadata_kind(u, "alias.scope");
    u->kind_noalias = metadata_kind(u, "noalias");
    u->attribute_align = LLVMGetEnumAttributeKindForName("align", 5);
}

static bool open_module(job *j)
{
    jit_unit *u = &j->unit;
    if (!make_machine(j)) {
        return false;
    }
    u->context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(u->context, on_diagnostic, j);
    u->module = LLVMModuleCreateWithNameInContext("stator", u->context);
    u->ir = LLVMCreateBuilderInContext(u->context);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(j->machine);
    char *triple = LLVMGetTargetMachineTriple(j->machine);
    LLVMSetModuleDataLayout(u->module, layout);
    LLVMSetTarget(u->module, triple);
    LLVMDisposeMessage(triple);
    LLVMDisposeTargetData(layout);
    u->cpu = j->cpu;
    u->cpu_features = j->cpu_features;
    u->features = (jit_features){.has_fma = (uint32_t)has_feature(j->cpu_features, "+fma"),
                                 .has_f16c = (uint32_t)has_feature(j->cpu_features, "+f16c"),
                                 .has_bf16 = (uint32_t)has_feature(j->cpu_features, "+avx512bf16"),
                                 .has_avx512 = (uint32_t)has_feature(j->cpu_features, "+avx512vl")};
    make_types(u);
    return true;
}

static void close_module(job *j)
{
    jit_unit *u = &j->unit;
    if (u->ir != NULL) {
        LLVMDisposeBuilder(u->ir);
    }
    if (u->module != NULL) {
        LLVMDisposeModule(u->module);
    }
    if (u->context != NULL) {
        LLVMContextDispose(u->context);
    }
    if (j->machine != NULL) {
        LLVMDisposeTargetMachine(j->machine);
    }
    LLVMDisposeMessage(j->cpu);
    LLVMDisposeMessage(j->cpu_features);
}

static void verify(job *j)
{
    char *message = NULL;
    if (LLVMVerifyModule(j->unit.module, LLVMReturnStatusAction, &message)) {
        (void)jit_fail(&j->unit, STATOR_INTERNAL, "the LLVM module is not valid: %s", message);
    }
    LLVMDisposeMessage(message);
}

static void run_passes(job *j)
{
    const uint64_t start = st_now_ns();
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error =
        LLVMRunPasses(j->unit.module, passes[j->unit.request->tier], j->machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (error) {
        char *text = LLVMGetErrorMessage(error);
        (void)jit_fail(&j->unit, STATOR_INTERNAL, "LLVM's passes: %s", text);
        LLVMDisposeErrorMessage(text);
    }
    j->passes_ns = st_now_ns() - start;
}

/* Machine code or its text, copied into the request's memory. */
static uint8_t *emit_code(job *j, LLVMCodeGenFileType type, uint64_t *out_size)
{
    char *message = NULL;
    LLVMMemoryBufferRef buffer = NULL;
    uint8_t *bytes = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(j->machine, j->unit.module, type, &message, &buffer)) {
        (void)jit_fail(&j->unit, STATOR_INTERNAL, "LLVM's code generator: %s", message);
        LLVMDisposeMessage(message);
        return NULL;
    }
    *out_size = LLVMGetBufferSize(buffer);
    bytes = st_alloc(j->unit.mem, *out_size + 1u, 16);
    if (bytes == NULL) {
        (void)jit_fail(&j->unit, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    } else {
        memcpy(bytes, LLVMGetBufferStart(buffer), *out_size);
        bytes[*out_size] = 0;
    }
    LLVMDisposeMemoryBuffer(buffer);
    return bytes;
}

static void list_module(job *j)
{
    uint64_t size = 0;
    if (j->unit.request->flags & JIT_LISTING) {
        char *text = LLVMPrintModuleToString(j->unit.module);
        *j->text = st_strdup(j->unit.mem, text);
        LLVMDisposeMessage(text);
    }
    if (j->unit.request->flags & JIT_ASSEMBLY) {
        LLVMModuleRef original = j->unit.module;
        j->unit.module = LLVMCloneModule(original); /* the code generator changes it */
        *j->assembly = (char *)emit_code(j, LLVMAssemblyFile, &size);
        LLVMDisposeModule(j->unit.module);
        j->unit.module = original;
    }
}

static void finish_module(void *self)
{
    job *j = self;
    if (j->unit.request->flags & JIT_VERIFY) {
        verify(j);
    }
    if (j->unit.status == STATOR_OK) {
        run_passes(j);
    }
    if (j->unit.status == STATOR_OK) {
        list_module(j);
    }
    if (j->unit.status == STATOR_OK) {
        const uint64_t start = st_now_ns();
        j->object->bytes = emit_code(j, LLVMObjectFile, &j->object->size);
        j->codegen_ns = st_now_ns() - start;
    }
    close_module(j);
}

/* ---- a program ---- */

static void fail_with(program *p, stator_status status, const char *text)
{
    if (p->status == STATOR_OK) {
        p->status = status;
        (void)snprintf(p->msg, (size_t)p->msg_size, "%s", text);
    }
}

/* Rows that only have expansions are gone afterwards. */
static void expand_kernels(program *p)
{
    for (uint32_t k = 0; k < p->request->n_kernels && p->status == STATOR_OK; k++) {
        stator_diag *diag = NULL;
        const stator_status status =
            st_loop_expand(p->request->kernels[k], p->request->spells, &p->expanded[k], &diag);
        if (status != STATOR_OK) {
            fail_with(p, status, diag ? st_diag_text(diag) : "expansion failed");
            st_diag_release(diag);
            return;
        }
        p->n_expanded = k + 1u;
    }
}

static bool name_kernel(const program *p, uint32_t k)
{
    char name[256];
    (void)snprintf(name, sizeof name, "%.200s.%u", p->request->kernels[k]->name, k);
    p->out->kernels[k].symbol = st_strdup(p->out->mem, name);
    return p->out->kernels[k].symbol != NULL;
}

static void build_module(program *p, job *j)
{
    if (!open_module(j)) {
        return;
    }
    for (uint32_t k = j->first; k < j->end && j->unit.status == STATOR_OK; k++) {
        p->out->kernels[k].module = (uint32_t)(j - p->jobs);
        if (!name_kernel(p, k)) {
            (void)jit_fail(&j->unit, STATOR_RESOURCE_EXHAUSTED, "out of memory");
            return;
        }
        (void)jit_kernel_emit(&j->unit, &p->expanded[k], &p->out->kernels[k]);
    }
}

static void build_all(void *self)
{
    program *p = self;
    const uint64_t start = st_now_ns();
    expand_kernels(p);
    for (uint32_t m = 0; m < p->n_jobs && p->status == STATOR_OK; m++) {
        build_module(p, &p->jobs[m]);
        if (p->jobs[m].unit.status != STATOR_OK) {
            fail_with(p, p->jobs[m].unit.status, p->jobs[m].msg);
        }
    }
    if (p->status != STATOR_OK) {
        for (uint32_t m = 0; m < p->n_jobs; m++) {
            close_module(&p->jobs[m]);
        }
    }
    p->out->build_ns = st_now_ns() - start;
}

/* Kernels in order, about the same number of instructions for each module. */
static void share_out(program *p)
{
    uint64_t total = 0;
    uint64_t seen = 0;
    const jit_request *r = p->request;
    for (uint32_t k = 0; k < r->n_kernels; k++) {
        total += r->kernels[k]->insts.count;
    }
    for (uint32_t m = 0, k = 0; m < p->n_jobs; m++) {
        job *j = &p->jobs[m];
        *j = (job){.out = p->out,
                   .object = &p->out->objects[m],
                   .text = &p->out->texts[m],
                   .assembly = &p->out->assemblies[m],
                   .first = k,
                   .unit = {.request = r, .mem = r->mem}};
        j->unit.msg = j->msg;
        j->unit.msg_size = sizeof j->msg;
        while (k < r->n_kernels &&
               (m + 1u == p->n_jobs || seen * p->n_jobs < total * (uint64_t)(m + 1u))) {
            seen += r->kernels[k++]->insts.count;
        }
        j->end = k;
    }
}

/* A job whose thread died is lost with all it holds. */
static bool run_jobs(program *p)
{
    jit_guard *guards[JIT_MODULES_MAX] = {NULL};
    bool is_whole = true;
    for (uint32_t m = 0; m < p->n_jobs; m++) {
        guards[m] = jit_guard_start(finish_module, &p->jobs[m]);
    }
    for (uint32_t m = 0; m < p->n_jobs; m++) {
        job *j = &p->jobs[m];
        char text[256];
        if (guards[m] == NULL) {
            close_module(j);
            fail_with(p, STATOR_RESOURCE_EXHAUSTED, "no thread for the code generator");
        } else if (!jit_guard_wait(guards[m], text, sizeof text)) {
            fail_with(p, STATOR_INTERNAL, text);
            is_whole = false;
        } else if (j->unit.status != STATOR_OK) {
            fail_with(p, j->unit.status, j->msg);
        }
        p->out->passes_ns = j->passes_ns > p->out->passes_ns ? j->passes_ns : p->out->passes_ns;
        p->out->codegen_ns =
            j->codegen_ns > p->out->codegen_ns ? j->codegen_ns : p->out->codegen_ns;
    }
    return is_whole;
}

static void output_free(jit_output *out)
{
    if (out->mem == NULL) {
        return;
    }
    for (uint32_t k = 0; k < out->n_kernels; k++) {
        st_free(out->mem, out->kernels[k].symbol);
    }
    for (uint32_t m = 0; m < JIT_MODULES_MAX; m++) {
        st_free(out->mem, out->objects[m].bytes);
        st_free(out->mem, out->texts[m]);
        st_free(out->mem, out->assemblies[m]);
    }
    st_free(out->mem, out->kernels);
    *out = (jit_output){.mem = NULL};
}

static stator_status prepare(program *p)
{
    const jit_request *r = p->request;
    uint32_t n = r->modules < 1 ? 1 : r->modules > JIT_MODULES_MAX ? JIT_MODULES_MAX : r->modules;
    n = n > r->n_kernels ? r->n_kernels : n;
    *p->out = (jit_output){.mem = r->mem, .n_objects = n, .n_kernels = r->n_kernels};
    p->out->kernels = st_calloc(r->mem, r->n_kernels + 1u, sizeof *p->out->kernels);
    p->expanded = st_calloc(r->mem, r->n_kernels + 1u, sizeof *p->expanded);
    p->jobs = st_calloc(r->mem, n + 1u, sizeof *p->jobs);
    p->n_jobs = n;
    if (!p->out->kernels || !p->expanded || !p->jobs) {
        p->out->n_kernels = p->out->kernels ? r->n_kernels : 0;
        fail_with(p, STATOR_RESOURCE_EXHAUSTED, "out of memory");
        return p->status;
    }
    share_out(p);
    return STATOR_OK;
}

static stator_status compile(const jit_request *request, jit_output *out, char *msg,
                             uint64_t msg_size)
{
    program p = {.request = request, .out = out, .msg = msg, .msg_size = msg_size};
    bool is_whole = true;
    (void)pthread_once(&llvm_once, start_llvm);
    if (prepare(&p) == STATOR_OK && p.n_jobs) {
        char text[256];
        jit_guard *guard = jit_guard_start(build_all, &p);
        if (guard == NULL) {
            fail_with(&p, STATOR_RESOURCE_EXHAUSTED, "no thread for the code generator");
        } else if (!jit_guard_wait(guard, text, sizeof text)) {
            is_whole = false;
            fail_with(&p, STATOR_INTERNAL, text);
        } else if (p.status == STATOR_OK) {
            is_whole = run_jobs(&p);
        }
    }
    for (uint32_t k = 0; k < p.n_expanded; k++) {
        st_kernel_deinit(&p.expanded[k]);
    }
    st_free(request->mem, p.expanded);
    if (is_whole) {
        st_free(request->mem, p.jobs);
    }
    return p.status;
}

static bool probe(char *msg, uint64_t msg_size)
{
    char *message = NULL;
    LLVMTargetRef target = NULL;
    (void)pthread_once(&llvm_once, start_llvm);
    char *triple = LLVMGetDefaultTargetTriple();
    const bool is_ok = LLVMGetTargetFromTriple(triple, &target, &message) == 0 &&
                       LLVMTargetHasJIT(target) && LLVMTargetHasAsmBackend(target);
    if (!is_ok) {
        (void)snprintf(msg, (size_t)msg_size, "LLVM makes no code for %s%s%s", triple,
                       message ? ": " : "", message ? message : "");
    }
    LLVMDisposeMessage(message);
    LLVMDisposeMessage(triple);
    return is_ok;
}

/* ---- the one exported name ---- */

static const jit_api api = {.struct_size = sizeof(jit_api),
                            .llvm_major = LLVM_VERSION_MAJOR,
                            .probe = probe,
                            .compile = compile,
                            .output_free = output_free};

STATOR_EXPORT const jit_api *stator_cpu_jit_query_v1(void);

STATOR_EXPORT const jit_api *stator_cpu_jit_query_v1(void)
{
    return &api;
}
