/* The inner loops of products with vectors of 32 bytes. */
#include "plugins/cpu-llvm/kernels/tiles/dn_product.h"
#if defined(__x86_64__)
#include "plugins/cpu-llvm/kernels/dn_lanes_256.h"
#define ROWS 6    /* 12 of 16 registers are sums */
#define DEPTH 256 /* a panel of y takes 16 KiB */
typedef __m256 vec;
typedef __m256 block_vec;
#define LOAD _mm256_loadu_ps
#define STORE _mm256_storeu_ps
#define SPLAT _mm256_set1_ps
#define FMA _mm256_fmadd_ps
#define LOAD_BITS load_lanes
#define ISA dn_product_256
#include "plugins/cpu-llvm/kernels/tiles/dn_product_isa.h"
#endif
