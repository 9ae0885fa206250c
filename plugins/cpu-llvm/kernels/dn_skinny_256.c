/* The inner loops of few rows against constant weights with vectors of 32 bytes. */
#include "plugins/cpu-llvm/kernels/dn_skinny.h"
#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#define LANES 8
#define WALK_ROWS 6 /* 12 of 16 registers are sums */
/* Bytes; the distances at which cold weights were read fastest (Zen 4). */
#define NEAR 4096
#define FAR 16384
#define FAR_ROWS 3
#define NEAR_ALONE 6144
#define ORDER dnnl_BA16a16b
#define ISA dn_skinny_256
#include "plugins/cpu-llvm/kernels/dn_skinny_isa.h"
#endif
