/* Builds a kernel: opens and closes loops, adds operations.
 *
 * Each pure operation is placed in the outermost open block that has all it needs, and an equal one
 * that is still in scope is reused, so what does not depend on a loop is computed before it. Errors
 * are sticky: after the first (out of memory, a limit of sym.h) every call returns 0 and
 * kernel->failed says why; test it once at the end. */
#ifndef STATOR_CODEGEN_LOOP_BUILD_H
#define STATOR_CODEGEN_LOOP_BUILD_H

#include "codegen/loopir/loop.h"
#include "core/base/map.h"

typedef struct st_loop_builder {
    st_kernel *kernel;
    st_hashset memo;       /* pure instructions by their contents */
    st_vec(uint32_t) open; /* blocks, outermost first */
    uint32_t origin;       /* graph node written into new instructions */
} st_loop_builder;

void st_loop_builder_init(st_loop_builder *b, st_kernel *kernel);
void st_loop_builder_deinit(st_loop_builder *b);

/* A buffer of the kernel, by its index; name is copied. */
uint32_t st_loop_buffer_add(st_loop_builder *b, const char *name, uint32_t dtype, uint32_t numel,
                            uint32_t flags, uint32_t id);
/* A new axis; its index. Its symbol's range follows the extent's. */
uint32_t st_loop_axis_add(st_loop_builder *b, uint32_t extent, uint32_t flags);
/* Opens a loop over the axis inside the innermost open block; close ends it. */
void st_loop_open(st_loop_builder *b, uint32_t axis);
void st_loop_close(st_loop_builder *b);
/* Is the block open, so that its instructions can be used? */
bool st_loop_is_open(const st_loop_builder *b, uint32_t block);

/* ---- values ---- */
st_loop_ref st_loop_int(st_loop_builder *b, uint32_t dtype, int64_t value); /* any int, bool */
st_loop_ref st_loop_float(st_loop_builder *b, uint32_t dtype, double value);
/* The same number in any dtype that compute can have. */
st_loop_ref st_loop_number(st_loop_builder *b, uint32_t dtype, double value);
st_loop_ref st_loop_index(st_loop_builder *b, uint32_t sym);
/* A scalar op of the table. dtype is the operands' for SAME, the result's for ANY; 0 takes that of
 * the last operand. */
st_loop_ref st_loop_apply(st_loop_builder *b, uint32_t code, uint32_t dtype, st_loop_ref x,
                          st_loop_ref y, st_loop_ref z);
st_loop_ref st_loop_cast(st_loop_builder *b, uint32_t dtype, st_loop_ref x); /* x when it has it */
/* The bool a and b; 0 stands for "always". */
st_loop_ref st_loop_both(st_loop_builder *b, st_loop_ref a, st_loop_ref c);

/* ---- memory ---- */
st_loop_ref st_loop_load(st_loop_builder *b, uint32_t buffer, uint32_t index, st_loop_ref mask,
                         st_loop_ref other);
/* Effects stand where they are written: in the innermost open block. */
void st_loop_store(st_loop_builder *b, uint32_t buffer, uint32_t index, st_loop_ref value,
                   st_loop_ref mask);
/* Notes a failed call unless ok holds; see ST_LOOP_CHECK. */
void st_loop_check(st_loop_builder *b, st_loop_ref ok, st_loop_ref mask);
/* The sym of a symbol that has the i64 `value`, known to lie in lo..hi. */
uint32_t st_loop_bind(st_loop_builder *b, st_loop_ref value, int64_t lo, int64_t hi);

/* ---- accumulators ---- */
st_loop_ref st_loop_acc(st_loop_builder *b, uint32_t kind, uint32_t dtype, st_loop_ref first);
void st_loop_update(st_loop_builder *b, st_loop_ref acc, st_loop_ref value, st_loop_ref index,
                    st_loop_ref mask);
st_loop_ref st_loop_read(st_loop_builder *b, st_loop_ref acc, uint32_t dtype);

#endif
