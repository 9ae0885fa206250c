/* The beginning of the prelude on HIP devices; gpu_prelude_device.h follows. The width of a warp is
 * the device's, 64 on gfx9 and 32 on gfx10 and newer, and is given as -DST_WARP. Shuffles are those
 * without a mask: all releases of ROCm have them, and masks are of 64 bits only in newer ones. */
#if !defined(ST_WARP) || (ST_WARP != 32 && ST_WARP != 64)
#error "ST_WARP is 32 or 64, the threads of a warp"
#endif
#define ST_PRELUDE_ALIGNED_16 __attribute__((aligned(16)))
#define ST_PRELUDE_SHUFFLE_XOR(x, mask) __shfl_xor(x, mask, ST_WARP)
#define ST_PRELUDE_BALLOT(x) __ballot(x)
#define ST_PRELUDE_WARP_BARRIER()                                                                  \
    do {                                                                                           \
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");                                     \
        __builtin_amdgcn_wave_barrier();                                                           \
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");                                     \
    } while (0)
#define ST_PRELUDE_FMA_F32 fmaf
#define ST_PRELUDE_FMA_F64 fma
#define ST_PRELUDE_SQRT_F32 sqrtf
#define ST_PRELUDE_SQRT_F64 sqrt
#define ST_PRELUDE_BOUNDS(threads, blocks) __launch_bounds__(threads)
#define ST_PRELUDE_F16_OF_F32(x) __builtin_bit_cast(unsigned short, (_Float16)(x))
#define ST_PRELUDE_F32_OF_F16(bits) ((float)__builtin_bit_cast(_Float16, (unsigned short)(bits)))
