/* The inner loops of products against weights of few bits with vectors of 64 bytes. */
#include "plugins/cpu-llvm/kernels/dn_quant.h"
#if defined(__x86_64__)
#pragma GCC target("avx512f,prefer-vector-width=512")
#include <immintrin.h>
#define LANES 16
#define WALK_ROWS 8  /* 16 of 32 registers are sums */
#define TILE_ROWS 14 /* 28 of 32 registers are sums */
#define NEAR 4096    /* bytes; cold weights are read fastest so (Zen 5) */
#define FAR 16384
#define ISA dn_quant_512
#define round_half(v)                                                                              \
    ((vec)_mm512_cvtph_ps(_mm512_cvtps_ph((__m512)(v), _MM_FROUND_TO_NEAREST_INT)))
/* Looks up a table of 16 by the low bits of each word. */
#define look_up(table, words) ((vec)_mm512_permutexvar_ps((__m512i)(words), (__m512)(table)))
#include "plugins/cpu-llvm/kernels/dn_quant_isa.h"
#endif
