/* The inner loops of few rows against constant weights with vectors of 64 bytes. */
#include "plugins/cpu-llvm/kernels/dn_skinny.h"
#if defined(__x86_64__)
#pragma GCC target("avx512f,prefer-vector-width=512")
#define LANES 16
#define WALK_ROWS 8 /* 16 of 32 registers are sums */
/* Bytes; the distances at which cold weights were read fastest. */
#define NEAR 2048
#define FAR 8192
#define FAR_ROWS 1
#define NEAR_ALONE NEAR
#define ORDER dnnl_BA16a32b
#define ISA dn_skinny_512
#include "plugins/cpu-llvm/kernels/dn_skinny_isa.h"
#endif
