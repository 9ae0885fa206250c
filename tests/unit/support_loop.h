/* A kernel under construction with all it stands on, for the tests of the loop IR. */
#ifndef STATOR_TESTS_SUPPORT_LOOP_H
#define STATOR_TESTS_SUPPORT_LOOP_H

#include "codegen/loopir/loop_build.h"

typedef struct loop_world {
    st_mem mem;
    st_loop_syms syms;
    st_kernel kernel;
    st_loop_builder b;
    uint32_t n_sizes;
} loop_world;

void loop_world_init(loop_world *w, const char *name);
void loop_world_deinit(loop_world *w); /* fails the test when blocks are left */

uint32_t loop_int(loop_world *w, int64_t value);     /* a constant sym */
uint32_t loop_size(loop_world *w, const char *name); /* the next size symbol, 0 .. 2^40 */
uint32_t loop_add(loop_world *w, uint32_t a, uint32_t b);
uint32_t loop_mul(loop_world *w, uint32_t a, int64_t times);
uint32_t loop_axis(loop_world *w, uint32_t axis); /* the axis as a sym */
/* Buffers that share no memory: one that is read, one that is written. */
uint32_t loop_in(loop_world *w, const char *name, uint32_t dtype, uint32_t numel);
uint32_t loop_out(loop_world *w, const char *name, uint32_t dtype, uint32_t numel);

/* Fails the test unless the kernel verifies, or is refused with a text that holds `part`. */
void loop_must_verify(const st_kernel *kernel);
void loop_must_fail(const st_kernel *kernel, const char *part);
/* Fails the test unless the kernel prints as `expected`. */
void loop_must_print(const st_kernel *kernel, const char *expected);

/* Row `code` of operands x, y, z. */
st_loop_ref loop_op(loop_world *w, const char *name, st_loop_ref x, st_loop_ref y, st_loop_ref z);

#endif
