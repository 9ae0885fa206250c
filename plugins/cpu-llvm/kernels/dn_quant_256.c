/* The inner loops of products against weights of few bits with vectors of 32 bytes. */
#include "plugins/cpu-llvm/kernels/dn_quant.h"
#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c")
#include <immintrin.h>
#define LANES 8
#define WALK_ROWS 4 /* 8 of 16 registers are sums, 4 are words and numbers */
#define TILE_ROWS 6 /* 12 of 16 registers are sums */
#define NEAR 2048   /* bytes */
#define FAR 8192
#define ISA dn_quant_256
#define round_half(v)                                                                              \
    ((vec)_mm256_cvtph_ps(_mm256_cvtps_ph((__m256)(v), _MM_FROUND_TO_NEAREST_INT)))
#include "plugins/cpu-llvm/kernels/dn_quant_isa.h"
#endif
