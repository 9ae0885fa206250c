/* Rows ahead: in kernels with several loops over a row, the last walk over a buffer's row, which
 * has it in the cache, asks for the same index of the next row, so that the first walk of that row
 * does not wait for memory. A row that is walked once asks for the next one as it goes.
 *
 *     loop i0 < rows parallel
 *       loop i1 < n vector    ... x[n * i0 + i1]        from memory
 *       loop i2 < n vector    ... x[n * i0 + i2]        from the cache; prefetch
 *                                                       x[n * (i0 + 1) + i2]
 *
 * Past the last row it asks for what is not there, which does no harm. */
#include "jit_emit.h"

#define LINE_BYTES 64u
#define LOCALITY_L2 2

/* The parallel axis around, when it is not the vector axis; NULL: none. */
static const st_loop_axis *row_axis(const jit_fn *f)
{
    const st_loop_ref ref = st_kernel_parallel_loop(f->kernel);
    const st_loop_axis *axis = ref ? &f->kernel->axes.data[st_loop_at(f->kernel, ref)->ref] : NULL;
    return axis != NULL && axis->symbol != f->vec_symbol ? axis : NULL;
}

/* The symbol of the axis along which the load is a vector; UINT32_MAX: it is none. */
static uint32_t walked_along(const jit_fn *f, const st_loop_inst *load, uint32_t buffer,
                             uint32_t rest)
{
    const st_kernel *kernel = f->kernel;
    const st_loop_ref loop = kernel->blocks.data[load->block].loop;
    uint32_t coef = 0;
    uint32_t own = 0;
    if (load->code != ST_LOOP_LOAD || load->ref != buffer || loop == 0 ||
        f->loop_plans[st_loop_at(kernel, loop)->ref].lanes <= 1) {
        return UINT32_MAX;
    }
    const st_loop_axis *axis = &kernel->axes.data[st_loop_at(kernel, loop)->ref];
    return st_loop_linear(f->syms, load->sym, axis->symbol, &coef, &own) && own == rest
               ? axis->symbol
               : UINT32_MAX;
}

static uint32_t count_vector_loops(const jit_fn *f)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->kernel->axes.count; i++) {
        n += f->loop_plans[i].lanes > 1;
    }
    return n;
}

/* The walk that asks for the next row: the second over the same elements, or the only one beside
 * other loops. */
static uint32_t choose_walk(const jit_fn *f, uint32_t buffer, uint32_t rest)
{
    uint32_t first = UINT32_MAX;
    for (st_loop_ref ref = 1; ref < f->kernel->insts.count; ref++) {
        const uint32_t symbol = walked_along(f, st_loop_at(f->kernel, ref), buffer, rest);
        if (symbol != UINT32_MAX && first != UINT32_MAX && symbol != first) {
            return symbol;
        }
        first = first == UINT32_MAX ? symbol : first;
    }
    return count_vector_loops(f) > 1 ? first : UINT32_MAX;
}

static uint32_t find_walk(jit_fn *f, uint32_t buffer, uint32_t rest)
{
    for (uint32_t i = 0; i < f->walks.count; i++) {
        if (f->walks.data[i].buffer == buffer && f->walks.data[i].rest == rest) {
            return f->walks.data[i].symbol;
        }
    }
    const jit_walk walk = {buffer, rest, choose_walk(f, buffer, rest)};
    jit_walk *kept = st_vec_push(f->u->mem, &f->walks);
    if (kept == NULL) {
        jit_no_memory(f);
    } else {
        *kept = walk;
    }
    return walk.symbol;
}

static void prefetch(jit_fn *f, LLVMValueRef address)
{
    LLVMTypeRef type = f->u->types[JIT_PTR];
    LLVMValueRef args[4] = {address, jit_i32(f, 0), jit_i32(f, LOCALITY_L2), jit_i32(f, 1)};
    (void)jit_intrinsic(f, "llvm.prefetch", &type, 1, args, 4);
}

void jit_prefetch_row(jit_fn *f, uint32_t buffer, uint32_t sym, LLVMValueRef address)
{
    const st_loop_axis *axis = row_axis(f);
    uint32_t coef = 0;
    uint32_t rest = 0;
    int64_t step = 0;
    if (axis == NULL || f->kernel->buffers.data[buffer].flags & ST_BUFFER_LOCAL ||
        !st_loop_linear(f->syms, sym, f->vec_symbol, &coef, &rest)) {
        return;
    }
    if (find_walk(f, buffer, rest) != f->vec_symbol ||
        !st_loop_linear(f->syms, sym, axis->symbol, &coef, &rest) ||
        (st_sym_const(&f->syms->tab, coef, &step) && step <= 0)) {
        return;
    }
    const LLVMTypeRef type = jit_memory_type(f, f->kernel->buffers.data[buffer].dtype);
    const LLVMValueRef next = jit_element(f, type, address, jit_sym(f, coef));
    const uint32_t bytes = f->lanes * st_element_bytes(f->kernel->buffers.data[buffer].dtype);
    prefetch(f, next);
    for (uint32_t at = LINE_BYTES; at < bytes; at += LINE_BYTES) {
        prefetch(f, jit_element(f, f->u->types[JIT_I8], next, jit_i64(f, at)));
    }
}
