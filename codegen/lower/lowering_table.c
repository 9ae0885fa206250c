/* The table of lowerings, by opcode: structural primitives from lower.def, pointwise ones from the
 * ops of the loop IR. */
#include "codegen/lower/lower.h"

#include <stator/ops.h>
#include <string.h>

/* clang-format off */
#define LOWERING(op_, cost_, ...) [STATOR_OPCODE_##op_] = {.name = #op_, .cost = (cost_), __VA_ARGS__},
static const cg_lowering lowerings[STATOR_OPCODE_end] = {
#define CG_POINT(op_, function, cost_) LOWERING(op_, cost_, .point = function)
#define CG_FOLD(op_, fold_, element_, finish_)                                                     \
    LOWERING(op_, 1, .fold = fold_, .element = element_, .finish = finish_)
#define CG_REPEAT(op_, fold_, element_, finish_)                                                   \
    LOWERING(op_, 1, .fold = fold_, .element = element_, .finish = finish_, .repeats = 1)
#define CG_WRITE(op_, write_, refuses_, repeats_)                                                  \
    LOWERING(op_, 1, .write = write_, .refuses = refuses_, .repeats = (repeats_))
#define CG_WHOLE(op_, write_, refuses_, contraction_)                                              \
    LOWERING(op_, 1, .write = write_, .refuses = refuses_, .contraction = contraction_, .repeats = 1)
#define CG_AIDED(op_, write_, refuses_, contraction_)                                              \
    LOWERING(op_, 1, .write = write_, .refuses = refuses_, .contraction = contraction_,            \
             .repeats = 1, .is_aided = 1)
#define CG_FIXED(op_, write_, refuses_, contraction_)                                              \
    LOWERING(op_, 1, .write = write_, .refuses = refuses_, .contraction = contraction_,            \
             .is_fixed = 1)
#define CG_HOST(op_, write_, refuses_, slow_, contraction_)                                        \
    LOWERING(op_, 1, .write = write_, .refuses = refuses_, .is_slow = slow_,                       \
             .contraction = contraction_, .is_fixed = 1, .repeats = 1)
#define CG_LOOP(op_, write_) LOWERING(op_, 1, .write = write_, .is_loop = 1)
#include "codegen/lower/lower.def"
#define ST_LOOP_OP(op_, ...) LOWERING(op_, 1, .point = cg_scalar, .code = ST_LOOP_##op_)
#define ST_LOOP_ONLY(...)
#include "codegen/loopir/loop_ops.def"
};
#undef LOWERING
/* clang-format on */

bool st_cg_keeps(const char *op, stator_dtype dtype, bool has_library)
{
    for (uint32_t k = 0; k < STATOR_OPCODE_end; k++) {
        if (lowerings[k].contraction && strcmp(lowerings[k].name, op) == 0) {
            return !lowerings[k].is_aided || (has_library && dtype == STATOR_F32);
        }
    }
    return false;
}

const cg_lowering *cg_lowering_of(uint32_t op)
{
    return op < STATOR_OPCODE_end && lowerings[op].name ? &lowerings[op] : NULL;
}

bool cg_sums_products(const stator_node_row *row)
{
    const cg_lowering *lowering = cg_lowering_of(row->op);
    return lowering && lowering->fold && lowering->repeats && row->operand_count >= 2;
}
