/* The beginning of the prelude on CUDA devices; gpu_prelude_device.h follows. */
#define ST_WARP 32
#define ST_PRELUDE_ALIGNED_16 __align__(16)
#define ST_PRELUDE_SHUFFLE_XOR(x, mask) __shfl_xor_sync(0xffffffffu, x, mask)
#define ST_PRELUDE_BALLOT(x) __ballot_sync(0xffffffffu, x)
#define ST_PRELUDE_WARP_BARRIER() __syncwarp()
#define ST_PRELUDE_FMA_F32 __fmaf_rn
#define ST_PRELUDE_FMA_F64 __fma_rn
#define ST_PRELUDE_SQRT_F32 __fsqrt_rn
#define ST_PRELUDE_SQRT_F64 __dsqrt_rn
#define ST_PRELUDE_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)

/* Casts to 16 bits, and minima and maxima with NaN, are one instruction each: the cast of a pair,
 * which has the full rate where that of one has an eighth. */
static __device__ __forceinline__ float st_prelude_f32_of_f16(unsigned short bits)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

#define ST_PRELUDE_F32_OF_F16 st_prelude_f32_of_f16

#if __CUDA_ARCH__ >= 800
static __device__ __forceinline__ unsigned short st_prelude_f16_of_f32(float x)
{
    unsigned int pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0f), "f"(x));
    return (unsigned short)pair;
}

static __device__ __forceinline__ unsigned short st_prelude_bf16_of_f32(float x)
{
    unsigned int pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0f), "f"(x));
    return (unsigned short)pair;
}

static __device__ __forceinline__ float st_prelude_minimum_f32(float x, float y)
{
    float least;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(x), "f"(y));
    return least;
}

static __device__ __forceinline__ float st_prelude_maximum_f32(float x, float y)
{
    float greatest;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(greatest) : "f"(x), "f"(y));
    return greatest;
}

#define ST_PRELUDE_F16_OF_F32 st_prelude_f16_of_f32
#define ST_PRELUDE_BF16_OF_F32 st_prelude_bf16_of_f32
#define ST_PRELUDE_MINIMUM_F32 st_prelude_minimum_f32
#define ST_PRELUDE_MAXIMUM_F32 st_prelude_maximum_f32
#else
static __device__ __forceinline__ unsigned short st_prelude_f16_of_f32(float x)
{
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

#define ST_PRELUDE_F16_OF_F32 st_prelude_f16_of_f32
#endif
