/* The inner loops of convolutions plane by plane with vectors of 32 bytes. */
#include "dn_planes.h"
#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#define LANES 8
#define TILE 6
#define EVEN(a, b) \
    __builtin_shuffle(a, b, (ivec){0, 2, 4, 6, 8, 10, 12, 14})
#define ISA dn_planes_256
#include "dn_planes_isa.h"
#endif
