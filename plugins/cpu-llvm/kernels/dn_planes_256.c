/* The inner loops of convolutions plane by plane with vectors of 32 bytes. */
#include "plugins/cpu-llvm/kernels/dn_planes.h"
#if defined(__x86_64__)
#include "plugins/cpu-llvm/kernels/dn_lanes_256.h"
#define TILE 6
#define EVEN(a, b) __builtin_shuffle(a, b, (ivec){0, 2, 4, 6, 8, 10, 12, 14})
#define LOAD_BITS(from, bits) _mm256_maskload_ps(from, lanes_of(bits))
#define STORE_BITS(to, bits, v) _mm256_maskstore_ps(to, lanes_of(bits), (__m256)(v))
#define UNPACK_LOW(a, b) (vec) _mm256_unpacklo_ps((__m256)(a), (__m256)(b))
#define UNPACK_HIGH(a, b) (vec) _mm256_unpackhi_ps((__m256)(a), (__m256)(b))
#define SHUFFLE(a, b, of) (vec) _mm256_shuffle_ps((__m256)(a), (__m256)(b), of)
#define LOAD_FOURS(rows, at) (vec) load_fours(rows, at)
#define STORE_FOURS(rows, at, v) store_fours(rows, at, (__m256)(v))

static inline __m256 load_fours(const float *const *rows, int64_t at)
{
    const __m256 v = _mm256_castps128_ps256(_mm_loadu_ps(rows[0] + at));
    return _mm256_insertf128_ps(v, _mm_loadu_ps(rows[4] + at), 1);
}

static inline void store_fours(float *const *rows, int64_t at, __m256 v)
{
    _mm_storeu_ps(rows[0] + at, _mm256_castps256_ps128(v));
    _mm_storeu_ps(rows[4] + at, _mm256_extractf128_ps(v, 1));
}

#define ISA dn_planes_256
#include "plugins/cpu-llvm/kernels/dn_planes_isa.h"
#endif
