/* The inner loops of gradients to weights with vectors of 32 bytes. */
#include "plugins/cpu-llvm/kernels/dn_gradient.h"
#if defined(__x86_64__)
#include "plugins/cpu-llvm/kernels/dn_lanes_256.h"
#define ROWS 6 /* 12 of 16 registers are sums */
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define PLACES 8
#define WINDOW_ROWS 3
#define WINDOW_SUMS 12 /* of 16 registers */
/* clang-format off */
#define EACH_WINDOW(X)                                                                             \
    X(1, 1) X(1, 2) X(1, 3) X(1, 4) X(1, 5) X(1, 6) X(1, 7) X(1, 8)                                \
    X(2, 1) X(2, 2) X(2, 3) X(2, 4) X(2, 5) X(2, 6)                                                \
    X(3, 1) X(3, 2) X(3, 3) X(3, 4)
/* clang-format on */
#define LOAD_BITS(from, bits) _mm256_maskload_ps(from, lanes_of(bits))
#define STORE_BITS(to, bits, v) _mm256_maskstore_ps(to, lanes_of(bits), (__m256)(v))
#define ISA dn_gradient_256
#include "plugins/cpu-llvm/kernels/dn_gradient_isa.h"
#endif
