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
static __device__ __forceinline__ unsigned int st_prelude_f16x2_of_f32(float low, float high)
{
    unsigned int pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

static __device__ __forceinline__ unsigned int st_prelude_bf16x2_of_f32(float low, float high)
{
    unsigned int pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
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

#define ST_PRELUDE_F16_OF_F32(x) ((unsigned short)st_prelude_f16x2_of_f32(x, 0.0f))
#define ST_PRELUDE_BF16_OF_F32(x) ((unsigned short)st_prelude_bf16x2_of_f32(x, 0.0f))
#define ST_PRELUDE_F16X2_OF_F32 st_prelude_f16x2_of_f32
#define ST_PRELUDE_BF16X2_OF_F32 st_prelude_bf16x2_of_f32
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

/* Copies beside the computation, and matrices; from sm_80 on. */
#if __CUDA_ARCH__ >= 800
static __device__ __forceinline__ void st_copy_async_16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :
                 : "r"((unsigned int)__cvta_generic_to_shared(to)),
                   "l"(__cvta_generic_to_global(from))
                 : "memory");
}

static __device__ __forceinline__ void st_copies_commit()
{
    asm volatile("cp.async.commit_group;" : : : "memory");
}

#define st_copies_wait(n) asm volatile("cp.async.wait_group %0;" : : "n"(n) : "memory")

static __device__ __forceinline__ void st_load_matrices(unsigned int *r, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned int)__cvta_generic_to_shared(row))
                 : "memory");
}

static __device__ __forceinline__ void st_load_matrices_across(unsigned int *r, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned int)__cvta_generic_to_shared(row))
                 : "memory");
}

#define ST_PRELUDE_MMA(name, shape_and_types)                                                      \
    static __device__ __forceinline__ void st_mma_##name(float *c, const unsigned int *a,          \
                                                         const unsigned int *b)                    \
    {                                                                                              \
        asm volatile("mma.sync.aligned." shape_and_types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, "   \
                     "{%8, %9}, {%0, %1, %2, %3};"                                                 \
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                              \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));          \
    }

ST_PRELUDE_MMA(bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
ST_PRELUDE_MMA(f16, "m16n8k16.row.col.f32.f16.f16.f32")
ST_PRELUDE_MMA(tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")

static __device__ __forceinline__ unsigned int st_tf32_of_f32(unsigned int bits)
{
    unsigned int rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
    return rounded;
}
#endif
