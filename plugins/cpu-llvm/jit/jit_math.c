/* Functions of floats that have no expansion: calls of SLEEF's vector functions (at most 1 ulp)
 * when the loader has them, else of the C library, lane by lane.
 *
 * Names: Sleef_sinf16_u10avx512f, Sleef_sind8_u10avx512f, ...avx2 with 8 and 4 lanes, ...sse4 with
 * 4 and 2; fmod has no error class in its name. A call costs the caller every vector register. */
#include "jit_emit.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 64u

static void add_attribute(jit_fn *f, LLVMValueRef fn, const char *name)
{
    const unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(f->u->context, kind, 0));
}

/* n operands of one type, a result of the same. */
static LLVMValueRef function(jit_fn *f, const char *name, LLVMTypeRef type, uint32_t n,
                             LLVMTypeRef *out_type)
{
    LLVMTypeRef params[3] = {type, type, type};
    *out_type = LLVMFunctionType(type, params, n, 0);
    LLVMValueRef fn = LLVMGetNamedFunction(f->u->module, name);
    if (fn == NULL) {
        fn = LLVMAddFunction(f->u->module, name, *out_type);
        add_attribute(f, fn, "nounwind");
        add_attribute(f, fn, "willreturn");
        add_attribute(f, fn, "memory"); /* value 0: reads and writes none */
    }
    return fn;
}

static LLVMValueRef call(jit_fn *f, const char *name, LLVMTypeRef type, LLVMValueRef *args,
                         uint32_t n)
{
    LLVMTypeRef fn_type;
    const LLVMValueRef fn = function(f, name, type, n, &fn_type);
    return LLVMBuildCall2(f->u->ir, fn_type, fn, args, n, "");
}

static LLVMValueRef by_lane(jit_fn *f, const char *name, LLVMValueRef *args, uint32_t n,
                            uint32_t lanes)
{
    const LLVMBuilderRef ir = f->u->ir;
    LLVMValueRef out = jit_poison(LLVMTypeOf(args[0]));
    for (uint32_t i = 0; i < lanes; i++) {
        const LLVMValueRef lane = LLVMConstInt(f->u->types[JIT_I32], i, 0);
        LLVMValueRef one[3];
        for (uint32_t k = 0; k < n; k++) {
            one[k] = LLVMBuildExtractElement(ir, args[k], lane, "");
        }
        out = LLVMBuildInsertElement(ir, out, call(f, name, LLVMTypeOf(one[0]), one, n), lane, "");
    }
    return out;
}

/* The name of the vector function of `bytes` wide registers, into name[NAME_MAX_BYTES]. */
static void sleef_name(const char *libm, int is_f32, uint32_t bytes, char *name)
{
    const char *isa = bytes == 64 ? "avx512f" : bytes == 32 ? "avx2" : "sse4";
    const char *error = strcmp(libm, "fmod") == 0 ? "" : "u10";
    (void)snprintf(name, NAME_MAX_BYTES, "Sleef_%s%c%u_%s%s", libm, is_f32 ? 'f' : 'd',
                   bytes / (is_f32 ? 4u : 8u), error, isa);
}

/* Lanes first..first+n-1 of a vector, or all of it. */
static LLVMValueRef slice(jit_fn *f, LLVMValueRef v, uint32_t first, uint32_t n)
{
    LLVMValueRef order[JIT_LANES_MAX];
    if (jit_lanes_of(v) == n) {
        return v;
    }
    for (uint32_t i = 0; i < n; i++) {
        order[i] = LLVMConstInt(f->u->types[JIT_I32], first + i, 0);
    }
    return LLVMBuildShuffleVector(f->u->ir, v, jit_poison(LLVMTypeOf(v)), LLVMConstVector(order, n),
                                  "");
}

static LLVMValueRef join(jit_fn *f, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef order[JIT_LANES_MAX];
    const uint32_t n = 2u * jit_lanes_of(a);
    for (uint32_t i = 0; i < n; i++) {
        order[i] = LLVMConstInt(f->u->types[JIT_I32], i, 0);
    }
    return LLVMBuildShuffleVector(f->u->ir, a, b, LLVMConstVector(order, n), "");
}

/* Lanes first..first+n-1 in pieces of `width`, halved and joined. */
static LLVMValueRef in_pieces(jit_fn *f, const char *name, LLVMValueRef *args, uint32_t n_args,
                              uint32_t first, uint32_t n, uint32_t width)
{
    if (n > width) {
        const LLVMValueRef low = in_pieces(f, name, args, n_args, first, n / 2u, width);
        const LLVMValueRef high = in_pieces(f, name, args, n_args, first + n / 2u, n / 2u, width);
        return join(f, low, high);
    }
    LLVMValueRef part[3];
    for (uint32_t k = 0; k < n_args; k++) {
        part[k] = slice(f, args[k], first, n);
    }
    return call(f, name, LLVMTypeOf(part[0]), part, n_args);
}

LLVMValueRef jit_math(jit_fn *f, const st_loop_op_desc *desc, uint32_t dtype, LLVMValueRef *args)
{
    const jit_request *request = f->u->request;
    const int is_f32 = dtype == STATOR_F32;
    const uint32_t lanes = jit_lanes_of(args[0]);
    const uint32_t bytes = lanes * (is_f32 ? 4u : 8u);
    const uint32_t width = bytes < request->vector_bytes ? bytes : request->vector_bytes;
    char name[NAME_MAX_BYTES];
    if (lanes > 1 && width >= 16u) {
        sleef_name(desc->libm, is_f32, width, name);
        if (request->has_function(request->self, name)) {
            return in_pieces(f, name, args, desc->arity, 0, lanes, width / (is_f32 ? 4u : 8u));
        }
    }
    (void)snprintf(name, sizeof name, "%s%s", desc->libm, is_f32 ? "f" : "");
    return lanes == 1 ? call(f, name, LLVMTypeOf(args[0]), args, desc->arity)
                      : by_lane(f, name, args, desc->arity, lanes);
}
