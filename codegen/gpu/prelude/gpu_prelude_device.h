/* The dialect of docs/gpu.md for NVRTC and hiprtc: what kernels on CUDA and HIP devices see.
 *
 * A driver gives it to the compiler as the named header "gpu_prelude.h", behind its own
 * beginning (gpu_prelude_cuda.h, gpu_prelude_hip.h), which defines what differs: ST_WARP and the
 * names ST_PRELUDE_ALIGNED_16, ST_PRELUDE_SHUFFLE_XOR, ST_PRELUDE_BALLOT,
 * ST_PRELUDE_WARP_BARRIER, ST_PRELUDE_FMA_F32, _F64, ST_PRELUDE_SQRT_F32 and _F64,
 * ST_PRELUDE_BOUNDS, ST_PRELUDE_F16_OF_F32 and _F32_OF_F16, and where the device has an
 * instruction ST_PRELUDE_BF16_OF_F32, _MINIMUM_F32 and _MAXIMUM_F32. Behind it stand
 * gpu_prelude_polynomials.h and gpu_prelude_math.h; all are one string in the plugin. Programs are
 * compiled without contraction, so that products and sums are rounded each, and with exact division
 * and square root. No header is used. */
#ifndef STATOR_GPU_PRELUDE_H
#define STATOR_GPU_PRELUDE_H

typedef signed char st_i8;
typedef short st_i16;
typedef int st_i32;
typedef long long st_i64;
typedef unsigned char st_u8;
typedef unsigned short st_u16;
typedef unsigned int st_u32;
typedef unsigned long long st_u64;
typedef bool st_bool;

#define ST_DEVICE static __device__ __forceinline__
#define ST_DEVICE_CALL static __device__ __attribute__((noinline))
#define ST_KERNEL(name, arguments, threads)                                                        \
    extern "C" __global__ void __launch_bounds__(threads) name(const arguments st_arguments)
#define ST_KERNEL_BLOCKS(name, arguments, threads, blocks)                                         \
    extern "C" __global__ void ST_PRELUDE_BOUNDS(threads, blocks) name(const arguments st_arguments)
#define ST_ARG(field) (st_arguments.field)
#define ST_GLOBAL(type, address) ((type *)(address))
#define ST_SHARED(type, name, n) __shared__ ST_PRELUDE_ALIGNED_16 type name[n]
#define ST_DYNAMIC_SHARED(type, name) extern __shared__ ST_PRELUDE_ALIGNED_16 type name[]

#define ST_BLOCK ((st_i64)blockIdx.x)
#define ST_BLOCKS ((st_i64)gridDim.x)
#define ST_THREAD ((st_u32)threadIdx.x)
#define ST_LANE ((st_u32)threadIdx.x % ST_WARP)

ST_DEVICE void st_barrier()
{
    __syncthreads();
}

/* ---- lanes ---- */

ST_DEVICE st_u32 st_shuffle_xor_u32(st_u32 x, st_u32 mask)
{
    return ST_PRELUDE_SHUFFLE_XOR(x, (int)mask);
}

ST_DEVICE st_u64 st_shuffle_xor_u64(st_u64 x, st_u32 mask)
{
    return ST_PRELUDE_SHUFFLE_XOR(x, (int)mask);
}

#if ST_WARP == 64
typedef st_u64 st_lanes;
#else
typedef st_u32 st_lanes;
#endif

ST_DEVICE st_lanes st_ballot(st_bool x)
{
    return (st_lanes)ST_PRELUDE_BALLOT(x);
}

ST_DEVICE st_u32 st_count_lanes(st_lanes lanes)
{
    return (st_u32)__popcll(lanes);
}

ST_DEVICE void st_warp_barrier()
{
    ST_PRELUDE_WARP_BARRIER();
}

ST_DEVICE st_u32 st_atomic_add_u32(st_u32 *to, st_u32 x)
{
    return atomicAdd(to, x);
}

ST_DEVICE st_u64 st_atomic_add_u64(st_u64 *to, st_u64 x)
{
    return atomicAdd(to, x);
}

ST_DEVICE float st_atomic_add_f32(float *to, float x)
{
    return atomicAdd(to, x);
}

ST_DEVICE double st_atomic_add_f64(double *to, double x)
{
    return atomicAdd(to, x);
}

ST_DEVICE st_u32 st_atomic_max_u32(st_u32 *to, st_u32 x)
{
    return atomicMax(to, x);
}

/* ---- several words at once ---- */

#define ST_UNROLL _Pragma("unroll")
#define ST_NO_UNROLL _Pragma("unroll 1")

typedef uint2 st_u32x2;
typedef uint4 st_u32x4;

ST_DEVICE st_u32 st_load_u32(const void *from)
{
    return *(const st_u32 *)from;
}

ST_DEVICE st_u32x2 st_load_u32x2(const void *from)
{
    return *(const uint2 *)from;
}

ST_DEVICE st_u32x4 st_load_u32x4(const void *from)
{
    return *(const uint4 *)from;
}

ST_DEVICE void st_store_u32(void *to, st_u32 x)
{
    *(st_u32 *)to = x;
}

ST_DEVICE void st_store_u32x2(void *to, st_u32 x, st_u32 y)
{
    *(uint2 *)to = make_uint2(x, y);
}

ST_DEVICE void st_store_u32x4(void *to, st_u32 x, st_u32 y, st_u32 z, st_u32 w)
{
    *(uint4 *)to = make_uint4(x, y, z, w);
}

/* ---- bits ---- */

ST_DEVICE st_u32 st_bits_of_f32(float x)
{
    return __float_as_uint(x);
}

ST_DEVICE st_u64 st_bits_of_f64(double x)
{
    return (st_u64)__double_as_longlong(x);
}

ST_DEVICE float st_f32_of_bits(st_u32 x)
{
    return __uint_as_float(x);
}

ST_DEVICE double st_f64_of_bits(st_u64 x)
{
    return __longlong_as_double((long long)x);
}

/* ---- what IEEE 754 defines, rounded once ---- */

ST_DEVICE float st_fma_f32(float x, float y, float z)
{
    return ST_PRELUDE_FMA_F32(x, y, z);
}

ST_DEVICE double st_fma_f64(double x, double y, double z)
{
    return ST_PRELUDE_FMA_F64(x, y, z);
}

ST_DEVICE float st_sqrt_f32(float x)
{
    return ST_PRELUDE_SQRT_F32(x);
}

ST_DEVICE double st_sqrt_f64(double x)
{
    return ST_PRELUDE_SQRT_F64(x);
}

#define ST_PRELUDE_FUNCTION(name, of_f32, of_f64)                                                  \
    ST_DEVICE float st_##name##_f32(float x)                                                       \
    {                                                                                              \
        return of_f32(x);                                                                          \
    }                                                                                              \
    ST_DEVICE double st_##name##_f64(double x)                                                     \
    {                                                                                              \
        return of_f64(x);                                                                          \
    }

ST_PRELUDE_FUNCTION(floor, floorf, floor)
ST_PRELUDE_FUNCTION(ceil, ceilf, ceil)
ST_PRELUDE_FUNCTION(trunc, truncf, trunc)
ST_PRELUDE_FUNCTION(rint, rintf, rint)
ST_PRELUDE_FUNCTION(abs, fabsf, fabs)

/* ---- minimum and maximum: NaN passes, and -0 is below 0 ---- */

#ifndef ST_PRELUDE_MINIMUM_F32
#define ST_PRELUDE_MINIMUM_F32(x, y)                                                               \
    (x == y ? st_f32_of_bits(st_bits_of_f32(x) | st_bits_of_f32(y)) : x < y || x != x ? x : y)
#define ST_PRELUDE_MAXIMUM_F32(x, y)                                                               \
    (x == y ? st_f32_of_bits(st_bits_of_f32(x) & st_bits_of_f32(y)) : x > y || x != x ? x : y)
#endif

ST_DEVICE float st_minimum_f32(float x, float y)
{
    return ST_PRELUDE_MINIMUM_F32(x, y);
}

ST_DEVICE float st_maximum_f32(float x, float y)
{
    return ST_PRELUDE_MAXIMUM_F32(x, y);
}

/* ---- casts from and to 16 bits, rounded to nearest, ties to even ---- */

ST_DEVICE float st_f32_of_bf16(st_u16 bits)
{
    return st_f32_of_bits((st_u32)bits << 16);
}

ST_DEVICE st_u16 st_bf16_of_f32(float x)
{
#ifdef ST_PRELUDE_BF16_OF_F32
    return ST_PRELUDE_BF16_OF_F32(x);
#else
    const st_u32 bits = st_bits_of_f32(x);
    return (st_u16)(x != x ? bits >> 16 | 64u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#endif
}

ST_DEVICE float st_f32_of_f16(st_u16 bits)
{
    return ST_PRELUDE_F32_OF_F16(bits);
}

ST_DEVICE st_u16 st_f16_of_f32(float x)
{
    return ST_PRELUDE_F16_OF_F32(x);
}

/* Both to 16 bits, the second above the first. */
ST_DEVICE st_u32 st_bf16x2_of_f32(float low, float high)
{
#ifdef ST_PRELUDE_BF16X2_OF_F32
    return ST_PRELUDE_BF16X2_OF_F32(low, high);
#else
    return (st_u32)st_bf16_of_f32(low) | (st_u32)st_bf16_of_f32(high) << 16;
#endif
}

ST_DEVICE st_u32 st_f16x2_of_f32(float low, float high)
{
#ifdef ST_PRELUDE_F16X2_OF_F32
    return ST_PRELUDE_F16X2_OF_F32(low, high);
#else
    return (st_u32)st_f16_of_f32(low) | (st_u32)st_f16_of_f32(high) << 16;
#endif
}

/* The nearest number of bf16: where pairs are cast at once, the upper one of a pair is it. */
ST_DEVICE float st_round_bf16(float x)
{
#ifdef ST_PRELUDE_BF16X2_OF_F32
    return st_f32_of_bits(ST_PRELUDE_BF16X2_OF_F32(0.0f, x));
#else
    return st_f32_of_bf16(st_bf16_of_f32(x));
#endif
}

/* A remainder is exact in any width. */
ST_DEVICE float st_fmod_f32(float x, float y)
{
    return fmodf(x, y);
}

ST_DEVICE double st_fmod_f64(double x, double y)
{
    return fmod(x, y);
}

/* Of a number below 0; the rest is gpu_prelude_math.h's. */
ST_DEVICE double st_math_device_lgamma(double x)
{
    return lgamma(x);
}

/* ---- the status word ---- */

ST_DEVICE void st_set_status(st_u64 address, st_u32 value)
{
    *(volatile st_u32 *)address = value;
}

#endif
