/* The inner loops of gradients to weights with vectors of 64 bytes. */
#include "plugins/cpu-llvm/kernels/dn_gradient.h"
#if defined(__x86_64__)
#pragma GCC target("avx512f,prefer-vector-width=512")
#include <immintrin.h>
#define LANES 16
#define ROWS 14 /* 28 of 32 registers are sums */
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define PLACES 8 /* 16 of 32 registers are sums */
#define EACH_PLACES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define LOAD_BITS(from, bits) _mm512_maskz_loadu_ps((__mmask16)(bits), from)
#define STORE_BITS(to, bits, v) _mm512_mask_storeu_ps(to, (__mmask16)(bits), (__m512)(v))
#define ISA dn_gradient_512
#include "plugins/cpu-llvm/kernels/dn_gradient_isa.h"
#endif
