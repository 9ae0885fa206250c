/* The beginning of the prelude on CUDA devices; gpu_prelude_device.h follows. */
#define ST_WARP 32
#define ST_PRELUDE_ALIGNED_16 __align__(16)
#define ST_PRELUDE_SHUFFLE_XOR(x, mask) __shfl_xor_sync(0xffffffffu, x, mask)
#define ST_PRELUDE_FMA_F32 __fmaf_rn
#define ST_PRELUDE_FMA_F64 __fma_rn
#define ST_PRELUDE_SQRT_F32 __fsqrt_rn
#define ST_PRELUDE_SQRT_F64 __dsqrt_rn
