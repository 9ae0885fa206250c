/* Lanes of a vector as bits. LANES and INLINE are defined before. */
#ifndef STATOR_CPU_LLVM_DN_MASK_H
#define STATOR_CPU_LLVM_DN_MASK_H

#include <stdint.h>

/* Mask of the first n lanes. */
INLINE uint32_t mask_of(int64_t n)
{
    return n >= LANES ? (1u << LANES) - 1u : n > 0 ? (1u << n) - 1u : 0;
}

#endif
