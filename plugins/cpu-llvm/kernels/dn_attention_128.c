/* The inner loops of attention with vectors of 16 bytes. */
#define LANES 4
#define ROWS 1
#define TURNED 4
#define ISA dn_attention_128
#include "plugins/cpu-llvm/kernels/dn_attention_isa.h"
