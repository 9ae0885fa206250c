/* Vectors of LANES floats, which is defined before, for inner loops that are one text for every
 * width (dn_attention_isa.h, dn_skinny_isa.h). */
#ifndef STATOR_CPU_LLVM_DN_VEC_H
#define STATOR_CPU_LLVM_DN_VEC_H

#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(LANES * 4)));
typedef int32_t ivec __attribute__((vector_size(LANES * 4)));
typedef uint32_t uvec __attribute__((vector_size(LANES * 4)));

INLINE vec load(const float *from)
{
    vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE vec splat(float x)
{
    return x - (vec){0};
}

/* The value stays in a register, where a compiler would rather load it once for each use. */
#define KEEP(v) __asm__("" : "+v"(v))

/* a where the mask is set, else b. */
INLINE vec choose(ivec mask, vec a, vec b)
{
    return (vec)(((ivec)a & mask) | ((ivec)b & ~mask));
}

#endif
