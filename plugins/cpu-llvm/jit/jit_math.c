/* Functions of floats that have no expansion: calls of SLEEF's vector functions (at most 1 ulp)
 * when the loader has them, else of the C library, lane by lane.
 *
 * Names: Sleef_sinf16_u10avx512f, Sleef_sind8_u10avx512f, ...avx2 with 8 and 4 lanes, ...sse4 with
 * 4 and 2. A call costs the caller every vector register. fmod is exact, which SLEEF's is not for
 * large quotients: always lane by lane. */
#include "jit_emit.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES_MAX 64u

/* n operands of one type, a result of the same. */
static LLVMValueRef function(jit_fn *f, const char *name, LLVMTypeRef type, uint32_t n,
                             LLVMTypeRef *out_type)
{
    LLVMTypeRef params[3] = {type, type, type};
    *out_type = LLVMFunctionType(type, params, n, 0);
    LLVMValueRef fn = LLVMGetNamedFunction(f->u->module, name);
    if (fn == NULL) {
        fn = LLVMAddFunction(f->u->module, name, *out_type);
        jit_mark(f->u, fn, "nounwind");
        jit_mark(f->u, fn, "willreturn");
        jit_mark(f->u, fn, "memory"); /* value 0: reads and writes none */
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

/* A loop over the lanes, through slots on the stack. */
static LLVMValueRef by_lane(jit_fn *f, const char *name, const LLVMValueRef *args, uint32_t n)
{
    const LLVMBuilderRef ir = f->u->ir;
    const LLVMTypeRef type = LLVMTypeOf(args[0]);
    const LLVMTypeRef element = jit_element_of(type);
    const LLVMValueRef out = jit_slot(f, type, 0);
    LLVMValueRef slots[3];
    LLVMValueRef one[3];
    for (uint32_t k = 0; k < n; k++) {
        slots[k] = jit_slot(f, type, 0);
        LLVMBuildStore(ir, args[k], slots[k]);
    }
    const LLVMBasicBlockRef before = f->block;
    const LLVMBasicBlockRef body = jit_block(f);
    const LLVMBasicBlockRef after = jit_block(f);
    LLVMBuildBr(ir, body);
    jit_go(f, body);
    const LLVMValueRef lane = LLVMBuildPhi(ir, f->u->types[JIT_I64], "");
    for (uint32_t k = 0; k < n; k++) {
        one[k] = LLVMBuildLoad2(ir, element, jit_element(f, element, slots[k], lane), "");
    }
    const LLVMValueRef y = call(f, name, element, one, n);
    LLVMBuildStore(ir, y, jit_element(f, element, out, lane));
    LLVMValueRef next[2] = {jit_i64(f, 0), LLVMBuildAdd(ir, lane, jit_i64(f, 1), "")};
    LLVMBasicBlockRef from[2] = {before, body};
    const LLVMValueRef more =
        LLVMBuildICmp(ir, LLVMIntULT, next[1], jit_i64(f, jit_lanes_of(args[0])), "");
    LLVMBuildCondBr(ir, more, body, after);
    LLVMAddIncoming(lane, next, from, 2);
    jit_go(f, after);
    return LLVMBuildLoad2(ir, type, out, "");
}

/* ---- where the vector functions are not to be trusted ---- */

typedef struct bounds {
    const char *name;
    double f32; /* |x| above it, 0: none */
    double f64;
    double f64_tiny; /* 0 < |x| below it, 0: none */
    double least;    /* x below it, 0: none */
} bounds;

static const bounds distrusted[] = {{"sinh", 88, 709, 0, 0},
                                    {"cosh", 88, 709, 0, 0},
                                    {"asinh", 1e18, 1e150, 0x1p-1000, 0},
                                    {"acosh", 1e18, 1e150, 0, 0},
                                    {"log1p", 1e37, 1e306, 0x1p-1000, 0},
                                    {"tan", 0, 0, 0x1p-1000, 0},
                                    {"lgamma", 1e36, 0, 0, -2}}; /* roots; it errs by 1e-9 there */

static LLVMValueRef either(jit_fn *f, LLVMValueRef a, LLVMValueRef b)
{
    return a ? LLVMBuildOr(f->u->ir, a, b, "") : b;
}

/* i1: some lane of x is where the function cannot be trusted; NULL: it can everywhere. */
static LLVMValueRef is_distrusted(jit_fn *f, const char *name, bool is_f32, LLVMValueRef x)
{
    const LLVMBuilderRef ir = f->u->ir;
    const LLVMTypeRef type = LLVMTypeOf(x);
    for (size_t i = 0; i < sizeof distrusted / sizeof distrusted[0]; i++) {
        const bounds *b = &distrusted[i];
        const double above = is_f32 ? b->f32 : b->f64;
        const double below = is_f32 ? 0 : b->f64_tiny;
        LLVMValueRef bad = NULL;
        if (strcmp(name, b->name) != 0) {
            continue;
        }
        const LLVMValueRef size = jit_intrinsic1(f, "llvm.fabs", x);
        if (above > 0) {
            bad = LLVMBuildFCmp(ir, LLVMRealOGT, size, jit_real(type, above), "");
        }
        if (below > 0) {
            const LLVMValueRef is_small =
                LLVMBuildAnd(ir, LLVMBuildFCmp(ir, LLVMRealOLT, size, jit_real(type, below), ""),
                             LLVMBuildFCmp(ir, LLVMRealONE, size, jit_real(type, 0), ""), "");
            bad = either(f, bad, is_small);
        }
        if (b->least < 0) {
            bad = either(f, bad, LLVMBuildFCmp(ir, LLVMRealOLT, x, jit_real(type, b->least), ""));
        }
        return bad ? jit_any(f, bad) : NULL;
    }
    return NULL;
}

/* `usual` unless some lane is distrusted, then all lanes by the C library. */
static LLVMValueRef with_slow_path(jit_fn *f, const char *scalar_name, LLVMValueRef is_bad,
                                   const LLVMValueRef *args, uint32_t n, LLVMValueRef usual)
{
    const jit_if slow = jit_begin_if(f, is_bad, true);
    return jit_end_if(f, &slow, by_lane(f, scalar_name, args, n), usual);
}

/* ---- vector functions ---- */

/* The name of the vector function of `bytes` wide registers, into name[NAME_BYTES_MAX]. */
static void sleef_name(const char *libm, bool is_f32, uint32_t bytes, char *name)
{
    const char *isa = bytes == 64 ? "avx512f" : bytes == 32 ? "avx2" : "sse4";
    (void)snprintf(name, NAME_BYTES_MAX, "Sleef_%s%c%u_u10%s", libm, is_f32 ? 'f' : 'd',
                   bytes / (is_f32 ? 4u : 8u), isa);
}

/* Lanes first..first+n-1 in pieces of `width`, halved and joined. */
static LLVMValueRef in_pieces(jit_fn *f, const char *name, LLVMValueRef *args, uint32_t n_args,
                              uint32_t first, uint32_t n, uint32_t width)
{
    if (n > width) {
        const LLVMValueRef low = in_pieces(f, name, args, n_args, first, n / 2u, width);
        const LLVMValueRef high = in_pieces(f, name, args, n_args, first + n / 2u, n / 2u, width);
        return jit_join(f, low, high);
    }
    LLVMValueRef part[3];
    for (uint32_t k = 0; k < n_args; k++) {
        part[k] = jit_slice(f, args[k], first, n);
    }
    return call(f, name, LLVMTypeOf(part[0]), part, n_args);
}

LLVMValueRef jit_math(jit_fn *f, const st_loop_op_desc *desc, uint32_t dtype, LLVMValueRef *args)
{
    const jit_request *request = f->u->request;
    const bool is_f32 = dtype == STATOR_F32;
    const uint32_t element = is_f32 ? 4u : 8u;
    const uint32_t lanes = jit_lanes_of(args[0]);
    const uint32_t bytes = lanes * element;
    const uint32_t width = bytes < request->vector_bytes ? bytes : request->vector_bytes;
    char scalar_name[NAME_BYTES_MAX];
    char name[NAME_BYTES_MAX];
    (void)snprintf(scalar_name, sizeof scalar_name, "%s%s", desc->libm, is_f32 ? "f" : "");
    sleef_name(desc->libm, is_f32, width, name);
    if (lanes == 1) {
        return call(f, scalar_name, LLVMTypeOf(args[0]), args, desc->arity);
    }
    const bool is_exact = strcmp(desc->libm, "fmod") == 0;
    if (width < 16u || is_exact || !request->has_function(request->self, name)) {
        return by_lane(f, scalar_name, args, desc->arity);
    }
    const LLVMValueRef is_bad = is_distrusted(f, desc->libm, is_f32, args[0]);
    const LLVMValueRef usual = in_pieces(f, name, args, desc->arity, 0, lanes, width / element);
    return is_bad ? with_slow_path(f, scalar_name, is_bad, args, desc->arity, usual) : usual;
}
