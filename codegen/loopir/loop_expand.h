/* Rewrites scalar ops that the target does not spell into ones that it does, by the programs of
 * codegen/loopir/loop_ops.def. Runs last, before emission; in: a verified kernel, out: another
 * whose scalar instructions are all native, spelled by the target, or functions with a `libm` name.
 * For each instruction the first of these that its operands' dtype has: native, spelled,
 * .expand_bf16 or .expand_f16 when its imm says that its value is rounded to that type,
 * .expand_lookup when `lookup` is spelled for ST_MATH_ENTRIES entries, .expand_few when for
 * ST_MATH_FEW, .expand_f32, .libm, .expand.
 *
 * An expansion program: "n = round(x * 1.5); r = fma(n, -0.5, x); select(r < 0, r, n)". Names x, y,
 * z are the operands; a number, named or not, takes the dtype of the expression it stands in; calls
 * are ops of the table. Also: i32(x) u32(x) i64(x) u64(x) f32(x) f64(x) cast; as_int(x),
 * as_float(x) bitcast to the signed integer or float of the same width; bits(x) is the width of x's
 * dtype; lookup(x, 3) an entry of table 3; inf and nan; operators + - * / (div) < <= > >= == != &&
 * || ! unary - and parentheses; { n = ...; n + 1 } is the value of a program within, with names of
 * its own; rare(c, slow, usual) is slow where c, else usual, and computes slow only when c holds
 * somewhere (a RARE instruction). Fractions and hexadecimal floats are written as in C.
 *
 * Programs count on each instruction being rounded by itself: an emitter neither reorders sums nor
 * contracts what comes out of here.
 *
 * Casts from and to storage types become integer arithmetic on their bits, around f32; for a target
 * that spells `cast`, casts from and to f32. */
#ifndef STATOR_CODEGEN_LOOP_EXPAND_H
#define STATOR_CODEGEN_LOOP_EXPAND_H

#include "codegen/loopir/loop.h"

/* Writes the expanded kernel to *out (uninitialised storage, then the caller's). `spells` as in
 * st_target; NULL: none. */
stator_status st_loop_expand(const st_kernel *kernel, const uint8_t *spells, st_kernel *out,
                             stator_diag **err);

#endif
