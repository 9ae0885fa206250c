/* The inner loops of attention with vectors of 64 bytes. */
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512dq,avx512vl,prefer-vector-width=512")
#endif
#define LANES 16
#define ROWS 8
#define ISA dn_attention_512
#include "dn_attention_isa.h"
