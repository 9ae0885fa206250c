/* The inner loops of products with vectors of 64 bytes. */
#include "plugins/cpu-llvm/kernels/tiles/dn_product.h"
#if defined(__x86_64__)
#pragma GCC target("avx512f,prefer-vector-width=512")
#include "plugins/cpu-llvm/kernels/dn_lanes_512.h" /* ROWS, of which 28 of 32 registers are sums */
#define DEPTH 192                                  /* a panel of y takes 24 KiB */
typedef __m512i block_vec;
#define LOAD _mm512_loadu_ps
#define STORE _mm512_storeu_ps
#define SPLAT _mm512_set1_ps
#define FMA _mm512_fmadd_ps
#define LOAD_BITS(from, bits) _mm512_maskz_loadu_ps((__mmask16)(bits), from)
#define ISA dn_product_512
#include "plugins/cpu-llvm/kernels/tiles/dn_product_isa.h"
#endif
