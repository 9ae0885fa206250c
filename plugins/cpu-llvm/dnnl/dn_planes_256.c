/* The inner loops of convolutions plane by plane with vectors of 32 bytes. */
#include "dn_planes.h"
#if defined(__x86_64__)
#include "dn_lanes_256.h"
#define TILE 6
#define EVEN(a, b) __builtin_shuffle(a, b, (ivec){0, 2, 4, 6, 8, 10, 12, 14})
#define LOAD_BITS(from, bits) _mm256_maskload_ps(from, lanes_of(bits))
#define STORE_BITS(to, bits, v) _mm256_maskstore_ps(to, lanes_of(bits), (__m256)(v))
#define ISA dn_planes_256
#include "dn_planes_isa.h"
#endif
