/* The inner loops of convolutions plane by plane with vectors of 64 bytes. */
#include "dn_planes.h"
#if defined(__x86_64__)
#pragma GCC target("avx512f,prefer-vector-width=512")
#include <immintrin.h>
#define LANES 16
#define TILE 8
#define EVEN(a, b)                                                                                 \
    __builtin_shuffle(a, b, (ivec){0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30})
#define LOAD_BITS(from, bits) _mm512_maskz_loadu_ps((__mmask16)(bits), from)
#define STORE_BITS(to, bits, v) _mm512_mask_storeu_ps(to, (__mmask16)(bits), (__m512)(v))
#define ISA dn_planes_512
#include "dn_planes_isa.h"
#endif
