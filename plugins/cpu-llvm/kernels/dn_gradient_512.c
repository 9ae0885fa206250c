/* The inner loops of gradients to weights with vectors of 64 bytes. */
#include "plugins/cpu-llvm/kernels/dn_gradient.h"
#if defined(__x86_64__)
#pragma GCC target("avx512f,prefer-vector-width=512")
#include <immintrin.h>
#define LANES 16
#define ROWS 14 /* 28 of 32 registers are sums */
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define PLACES 8
#define WINDOW_ROWS 5
#define WINDOW_SUMS 25 /* of 32 registers */
/* clang-format off */
#define EACH_WINDOW(X)                                                                             \
    X(1, 1) X(1, 2) X(1, 3) X(1, 4) X(1, 5) X(1, 6) X(1, 7) X(1, 8)                                \
    X(2, 1) X(2, 2) X(2, 3) X(2, 4) X(2, 5) X(2, 6) X(2, 7) X(2, 8)                                \
    X(3, 1) X(3, 2) X(3, 3) X(3, 4) X(3, 5) X(3, 6) X(3, 7) X(3, 8)                                \
    X(4, 1) X(4, 2) X(4, 3) X(4, 4) X(4, 5) X(4, 6)                                                \
    X(5, 1) X(5, 2) X(5, 3) X(5, 4) X(5, 5)
/* clang-format on */
#define LOAD_BITS(from, bits) _mm512_maskz_loadu_ps((__mmask16)(bits), from)
#define STORE_BITS(to, bits, v) _mm512_mask_storeu_ps(to, (__mmask16)(bits), (__m512)(v))
#define ISA dn_gradient_512
#include "plugins/cpu-llvm/kernels/dn_gradient_isa.h"
#endif
