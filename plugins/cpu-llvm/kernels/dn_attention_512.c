/* The inner loops of attention with vectors of 64 bytes. exp is that of
 * codegen/loopir/loop_math.h for targets that look tables up in registers (at most 1.1 ulp). */
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512dq,avx512vl,prefer-vector-width=512")
#include "codegen/loopir/loop_math.h"
#include "plugins/cpu-llvm/kernels/dn_attention.h"

#include <immintrin.h>
#include <stdint.h>

#define OWN_STEPS
#define SIDE 16

static const float powers[ST_MATH_ENTRIES] = ST_MATH_TABLE_POWERS_VALUES;
static const float numbers[] = {ST_MATH_EXP_LOOKUP_NUMBERS};
enum { LOG2_E, ROUNDS, MINUS_LN2, MINUS_LN2_REST, CUBED, SQUARED };

/* Places of two, then of four, are exchanged within quarters of a register, then the quarters. */
static void transpose(float *to, const float *from, int64_t step)
{
    __m512 a[SIDE];
    __m512 b[SIDE];
    for (int i = 0; i < SIDE; i += 2) {
        const __m512 even = _mm512_loadu_ps(from + i * step);
        const __m512 odd = _mm512_loadu_ps(from + (i + 1) * step);
        a[i] = _mm512_unpacklo_ps(even, odd);
        a[i + 1] = _mm512_unpackhi_ps(even, odd);
    }
    for (int i = 0; i < SIDE; i += 4) {
        for (int k = 0; k < 2; k++) {
            const __m512d low = _mm512_castps_pd(a[i + k]);
            const __m512d high = _mm512_castps_pd(a[i + k + 2]);
            b[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            b[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    }
    for (int i = 0; i < 4; i++) { /* b[4 r + i]: column i of each quarter, of rows 4 r to 4 r + 3 */
        const __m512 even = _mm512_shuffle_f32x4(b[i], b[4 + i], 0x88);
        const __m512 odd = _mm512_shuffle_f32x4(b[i], b[4 + i], 0xdd);
        const __m512 even_below = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0x88);
        const __m512 odd_below = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0xdd);
        float *at = to + i * DN_ATTENTION_COLUMNS;
        const int64_t quarter = 4 * DN_ATTENTION_COLUMNS;
        _mm512_storeu_ps(at, _mm512_shuffle_f32x4(even, even_below, 0x88));
        _mm512_storeu_ps(at + quarter, _mm512_shuffle_f32x4(odd, odd_below, 0x88));
        _mm512_storeu_ps(at + 2 * quarter, _mm512_shuffle_f32x4(even, even_below, 0xdd));
        _mm512_storeu_ps(at + 3 * quarter, _mm512_shuffle_f32x4(odd, odd_below, 0xdd));
    }
}

static inline float total(__m512 v)
{
    return _mm512_reduce_add_ps(v);
}

static inline float most_of(__m512 v)
{
    return _mm512_reduce_max_ps(v);
}

static inline __m512 larger(__m512 a, __m512 b)
{
    return _mm512_max_ps(a, b); /* b when one is NaN */
}

static inline __m512 number(int which)
{
    return _mm512_set1_ps(numbers[which]);
}

static inline __m512 exp_of(__m512 x)
{
    const __m512 a = _mm512_max_ps(_mm512_set1_ps(-104.0f), x);
    const __m512 m = _mm512_fmadd_ps(a, number(LOG2_E), number(ROUNDS));
    const __m512 n = _mm512_sub_ps(m, number(ROUNDS));
    const __m512 high = _mm512_fmadd_ps(n, number(MINUS_LN2), a);
    const __m512 r = _mm512_fmadd_ps(n, number(MINUS_LN2_REST), high);
    const __m512 t = _mm512_permutex2var_ps(_mm512_loadu_ps(powers), _mm512_castps_si512(m),
                                            _mm512_loadu_ps(powers + 16));
    const __m512 q = _mm512_fmadd_ps(r, number(CUBED), number(SQUARED));
    const __m512 u = _mm512_fmadd_ps(_mm512_mul_ps(r, r), q, r);
    return _mm512_scalef_ps(_mm512_fmadd_ps(t, u, t), n);
}

#endif
#define LANES 16
#define ROWS 8
#define TURNED 8
#define ISA dn_attention_512
#include "plugins/cpu-llvm/kernels/dn_attention_isa.h"
