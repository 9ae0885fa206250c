/* One kernel as a function: void name(args, begin, end).
 *
 * Buffers marked UNIQUE get an alias scope each, named in the metadata of every access, so that
 * LLVM may move loads over stores. A kernel with STREAMED buffers gets a second function that
 * stores past the caches; the loader's side chooses by the alignment of the pointers at each
 * launch. */
#include "jit_emit.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define PAGE_BYTES 4096

/* ---- attributes ---- */

static void add_text(const jit_unit *u, LLVMValueRef fn, const char *key, const char *value)
{
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(u->context, key, (unsigned)strlen(key), value,
                                                      (unsigned)strlen(value)));
}

static LLVMValueRef new_function(jit_unit *u, const char *name)
{
    char bits[16];
    const LLVMValueRef fn = LLVMAddFunction(u->module, name, u->kernel_type);
    (void)snprintf(bits, sizeof bits, "%u", u->request->vector_bytes * 8u);
    jit_mark(u, fn, "nounwind");
    add_text(u, fn, "target-cpu", u->cpu);
    add_text(u, fn, "target-features", u->cpu_features);
    add_text(u, fn, "prefer-vector-width", bits);
    add_text(u, fn, "min-legal-vector-width", bits);
    add_text(u, fn, "no-trapping-math", "true");
    return fn;
}

/* ---- storage of the writer ---- */

static void free_tables(jit_fn *f)
{
    st_arena_deinit(&f->tables);
    st_vec_free(f->u->mem, &f->memo);
    st_vec_free(f->u->mem, &f->walks);
    st_map_deinit(&f->memo_map);
}

static bool make_tables(jit_fn *f)
{
    st_arena *mem = &f->tables;
    const st_kernel *k = f->kernel;
    st_arena_init(mem, f->u->mem);
    st_map_init(&f->memo_map, f->u->mem);
    f->buffers = st_arena_zalloc(mem, k->buffers.count + 1u, sizeof *f->buffers);
    f->noalias = st_arena_zalloc(mem, k->buffers.count + 1u, sizeof *f->noalias);
    f->private_lanes = st_arena_zalloc(mem, k->buffers.count + 1u, sizeof *f->private_lanes);
    f->scopes = st_arena_zalloc(mem, k->buffers.count + 1u, sizeof *f->scopes);
    f->values = st_arena_zalloc(mem, k->insts.count + 1u, sizeof *f->values);
    f->accs = st_arena_zalloc(mem, k->insts.count + 1u, sizeof *f->accs);
    f->loop_plans = st_arena_zalloc(mem, k->axes.count + 1u, sizeof *f->loop_plans);
    f->symbols = st_arena_zalloc(mem, k->syms->symbols.count + 1u, sizeof *f->symbols);
    return f->buffers && f->private_lanes && f->noalias && f->scopes && f->values && f->accs &&
           f->loop_plans && f->symbols;
}

/* ---- alias scopes ---- */

static LLVMMetadataRef text_node(const jit_fn *f, const char *text, LLVMMetadataRef more)
{
    LLVMMetadataRef parts[2] = {LLVMMDStringInContext2(f->u->context, text, strlen(text)), more};
    return LLVMMDNodeInContext2(f->u->context, parts, more ? 2 : 1);
}

/* scopes[b] of each UNIQUE buffer; noalias[b]: the scopes of all others. */
static void make_scopes(jit_fn *f, const char *name)
{
    const uint32_t n = f->kernel->buffers.count;
    LLVMMetadataRef *list = st_calloc(f->u->mem, 2u * n + 1u, sizeof *list);
    LLVMMetadataRef *each = list + n;
    if (list == NULL) {
        jit_no_memory(f);
        return;
    }
    const LLVMMetadataRef domain = text_node(f, name, NULL);
    for (uint32_t b = 0; b < n; b++) {
        char scope[32];
        (void)snprintf(scope, sizeof scope, "buffer %u", b);
        if (f->kernel->buffers.data[b].flags & ST_BUFFER_UNIQUE) {
            each[b] = text_node(f, scope, domain);
            f->scopes[b] = jit_node(f, &each[b], 1);
        }
    }
    for (uint32_t b = 0; b < n; b++) {
        uint32_t count = 0;
        for (uint32_t c = 0; c < n; c++) {
            if (c != b && each[c] != NULL) {
                list[count++] = each[c];
            }
        }
        f->noalias[b] = count ? jit_node(f, list, count) : NULL;
    }
    st_free(f->u->mem, list);
}

/* ---- entry ---- */

static LLVMValueRef load_field(jit_fn *f, LLVMValueRef base, uint32_t index)
{
    const LLVMTypeRef pointer = f->u->types[JIT_PTR];
    const LLVMValueRef at = jit_element(f, pointer, base, jit_i64(f, index));
    const LLVMValueRef v = LLVMBuildLoad2(f->u->ir, pointer, at, "");
    jit_set_invariant(f, v);
    return v;
}

_Static_assert(offsetof(st_kernel_args, buffers) == 0 &&
                   offsetof(st_kernel_args, syms) == sizeof(void *),
               "fields that the code loads by index");

/* A LOCAL buffer is a block of the stack. A large one begins where a row of a large tensor does,
 * modulo a page: a store into it is then never taken for a write of what is loaded next
 * (jit_pipeline.c). */
static LLVMValueRef local_buffer(jit_fn *f, uint32_t index)
{
    const st_loop_buffer *buffer = &f->kernel->buffers.data[index];
    int64_t numel = 0;
    if (!st_sym_const(&f->syms->tab, buffer->numel, &numel) || numel < 0 ||
        numel > (int64_t)(ST_LOCAL_BYTES_MAX / st_element_bytes(buffer->dtype))) {
        (void)jit_fail(f->u, STATOR_INTERNAL,
                       "kernel '%s': local buffer '%s' has no small constant "
                       "size",
                       f->kernel->name, buffer->name);
        numel = 1;
    }
    const LLVMTypeRef type =
        LLVMArrayType2(jit_buffer_type(f, index), (uint64_t)(numel ? numel : 1));
    const bool is_large = numel * (int64_t)st_element_bytes(buffer->dtype) >= PAGE_BYTES;
    return jit_slot(f, type, is_large ? PAGE_BYTES : 64);
}

static void open_function(jit_fn *f, const char *name)
{
    const LLVMBuilderRef ir = f->u->ir;
    f->fn = new_function(f->u, name);
    f->args = LLVMGetParam(f->fn, 0);
    f->begin = LLVMGetParam(f->fn, 1);
    f->end = LLVMGetParam(f->fn, 2);
    f->entry = jit_block(f);
    const LLVMBasicBlockRef first = jit_block(f);
    LLVMPositionBuilderAtEnd(ir, f->entry);
    f->entry_end = LLVMBuildBr(ir, first);
    jit_go(f, first);
    const LLVMValueRef table = load_field(f, f->args, 0);
    f->sizes = load_field(f, f->args, 1);
    for (uint32_t b = 0; b < f->kernel->buffers.count; b++) {
        const st_loop_buffer *buffer = &f->kernel->buffers.data[b];
        f->buffers[b] =
            buffer->flags & ST_BUFFER_LOCAL ? local_buffer(f, b) : load_field(f, table, b);
    }
}

static void close_function(jit_fn *f)
{
    jit_here(f);
    if (f->is_streamed) { /* stores past the caches become visible before the launch returns */
        (void)jit_intrinsic(f, "llvm.x86.sse.sfence", NULL, 0, NULL, 0);
    }
    LLVMBuildRetVoid(f->u->ir);
}

static stator_status emit_variant(jit_unit *u, const st_kernel *kernel, const char *name,
                                  uint32_t is_streamed, jit_fn *f)
{
    *f = (jit_fn){.u = u,
                  .kernel = kernel,
                  .syms = kernel->syms,
                  .lanes = 1,
                  .vec_symbol = UINT32_MAX,
                  .is_streamed = is_streamed};
    if (!make_tables(f)) {
        jit_no_memory(f);
    } else {
        jit_make_loop_plans(f);
        open_function(f, name);
        make_scopes(f, name);
        jit_emit_block(f, 0);
        close_function(f);
    }
    return u->status;
}

/* ---- the whole ---- */

static uint32_t has_streams(const st_kernel *kernel)
{
    for (uint32_t b = 0; b < kernel->buffers.count; b++) {
        if ((kernel->buffers.data[b].flags & (ST_BUFFER_STREAMED | ST_BUFFER_LOCAL)) ==
            ST_BUFFER_STREAMED) {
            return 1;
        }
    }
    return 0;
}

stator_status jit_kernel_emit(jit_unit *u, const st_kernel *kernel, jit_kernel *out)
{
    jit_fn f;
    char streamed[512];
    const st_loop_ref parallel = st_kernel_parallel_loop(kernel);
    stator_status status = emit_variant(u, kernel, out->symbol, 0, &f);
    out->is_parallel = parallel != 0;
    out->step = 1;
    if (status == STATOR_OK && parallel) {
        const jit_loop_plan *plan = &f.loop_plans[st_loop_at(kernel, parallel)->ref];
        out->step = plan->lanes * plan->unroll;
    }
    free_tables(&f);
    out->is_streamed = status == STATOR_OK && has_streams(kernel);
    if (out->is_streamed) {
        (void)snprintf(streamed, sizeof streamed, "%s.nt", out->symbol);
        status = emit_variant(u, kernel, streamed, 1, &f);
        free_tables(&f);
    }
    return status;
}
