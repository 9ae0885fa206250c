/* The meaning of scalar instructions, for one element, as the oracle of the loop IR computes it.
 *
 * A cell holds a value of some dtype: bool and integers sign- or zero-extended to 64 bits, floats
 * and storage types as their bits in the low end. Integer arithmetic wraps. Functions of f32 are
 * those of f64, rounded once. */
#ifndef STATOR_TESTS_SCALAR_ORACLE_H
#define STATOR_TESTS_SCALAR_ORACLE_H

#include "codegen/loopir/loop.h"

typedef union st_loop_cell {
    int64_t i;
    uint64_t u;
    double f64;
} st_loop_cell;

st_loop_cell st_loop_cell_int(uint32_t dtype, int64_t value); /* wraps; bool: value != 0 */
st_loop_cell st_loop_cell_f32(float value);
float st_loop_f32_of(st_loop_cell cell);
/* The value of a CONST instruction. */
st_loop_cell st_loop_cell_imm(uint32_t dtype, st_loop_imm imm);
/* Element i of memory; bool reads as 0 or 1. */
st_loop_cell st_loop_cell_load(uint32_t dtype, const void *base, int64_t i);
void st_loop_cell_store(uint32_t dtype, void *base, int64_t i, st_loop_cell cell);

/* A verified scalar instruction's value: `from` is the dtype of its last operand. Shifts count
 * modulo the width and quot by 0 gives 0, where the instruction itself has no meaning. */
st_loop_cell st_loop_scalar(const st_loop_inst *op, uint32_t from, const st_loop_cell x[3]);

/* Accumulators other than ARGMIN and ARGMAX combine two values; identities also serve those. */
st_loop_cell st_loop_identity(uint32_t kind, uint32_t dtype);
st_loop_cell st_loop_combine(uint32_t kind, uint32_t dtype, st_loop_cell a, st_loop_cell b);
/* Does (x, i) take the place of (best, at)? Kind ARGMIN or ARGMAX. */
int st_loop_is_better(uint32_t kind, uint32_t dtype, st_loop_cell x, int64_t i, st_loop_cell best,
                      int64_t at);

#endif
