/* The inner loops of convolutions plane by plane with vectors of 64 bytes. */
#include "dn_planes.h"
#if defined(__x86_64__)
#pragma GCC target("avx512f,prefer-vector-width=512")
#define LANES 16
#define TILE 8
#define EVEN(a, b) \
    __builtin_shuffle(a, b, (ivec){0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30})
#define ISA dn_planes_512
#include "dn_planes_isa.h"
#endif
