/* The inner loops of attention with vectors of 32 bytes. */
#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#endif
#define LANES 8
#define ROWS 2
#define TALL 6
#define TURNED 4
#define ISA dn_attention_256
#include "plugins/cpu-llvm/kernels/dn_attention_isa.h"
