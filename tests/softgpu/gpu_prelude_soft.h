/* The prelude of the software device: the names of docs/gpu.md over a C compiler.
 *
 * libnvrtc puts it in the place of the "gpu_prelude.h" that a program names, and the executor
 * (soft_block.c) includes it for the structs that both see. A kernel's thread runs on a stack of
 * ST_SOFT_STACK_BYTES, aligned to its size, whose last bytes are its st_soft_thread: so each
 * function finds the thread that runs it without an argument or thread-local storage. */
#ifndef GPU_PRELUDE_SOFT_H
#define GPU_PRELUDE_SOFT_H

typedef signed char st_i8;
typedef unsigned char st_u8;
typedef short st_i16;
typedef unsigned short st_u16;
typedef int st_i32;
typedef unsigned st_u32;
typedef long long st_i64;
typedef unsigned long long st_u64;
typedef _Bool st_bool;

#ifndef ST_WARP
#define ST_WARP 32
#endif

/* ---- what the executor and a kernel share ---- */

#define ST_SOFT_STACK_BYTES 65536ull
/* Addresses of device memory are this much above where the memory lies. */
#define ST_SOFT_OFFSET (1ull << 46)

enum st_soft_meeting {
    ST_SOFT_BARRIER = 1,
    ST_SOFT_SHUFFLE_U32 = 2,
    ST_SOFT_SHUFFLE_U64 = 3,
    /* Of a warp: brings the address of the values of all its lanes, until the next meeting. */
    ST_SOFT_GATHER = 4
};

struct st_soft_shared {
    st_u32 bytes;
    st_u32 align;
};

struct st_soft_thread {
    st_i64 block, blocks;
    st_u32 thread;
    st_u32 shared_used;
    unsigned char *shared;
    /* Waits for the others at a barrier or a shuffle; answers what a shuffle brings. */
    st_u64 (*meet)(struct st_soft_thread *self, st_u32 kind, st_u32 line, st_u64 value,
                   st_u32 mask);
    void *worker;
    void *stack;
    st_u64 pad;
};

/* One for each kernel, exported as <name>_st_kernel. */
struct st_soft_kernel {
    st_u32 threads;
    st_u32 argument_bytes;
    st_u32 warp;
    st_u32 pad;
    void (*entry)(const void *arguments);
};

#ifndef ST_SOFT_EXECUTOR

_Static_assert(sizeof(struct st_soft_thread) == 64, "the last bytes of a stack");

/* Where the section of the program's shared arrays begins and ends; without one, nowhere. */
extern const struct st_soft_shared __start_st_soft_shared[]
    __attribute__((weak, visibility("hidden")));
extern const struct st_soft_shared __stop_st_soft_shared[]
    __attribute__((weak, visibility("hidden")));
__attribute__((visibility("default"))) const struct st_soft_shared *const st_soft_shared_ends[2] = {
    __start_st_soft_shared, __stop_st_soft_shared};

/* The chip that the program is compiled for, 90 for sm_90, and whether newer ones take it, 1. */
__attribute__((visibility("default"))) const st_u32 st_soft_arch = ST_SOFT_ARCH;
__attribute__((visibility("default"))) const st_u32 st_soft_is_ptx = ST_SOFT_IS_PTX;

static inline struct st_soft_thread *st_soft_self(void)
{
    const st_u64 here = (st_u64)__builtin_frame_address(0);
    return (struct st_soft_thread *)((here | (ST_SOFT_STACK_BYTES - 1)) + 1) - 1;
}

static inline void *st_soft_take_shared(const struct st_soft_shared *array)
{
    struct st_soft_thread *self = st_soft_self();
    const st_u32 at = (self->shared_used + array->align - 1) / array->align * array->align;
    self->shared_used = at + array->bytes;
    return self->shared + at;
}

static inline st_u64 st_soft_meet(st_u32 kind, st_u32 line, st_u64 value, st_u32 mask)
{
    struct st_soft_thread *self = st_soft_self();
    return self->meet(self, kind, line, value, mask);
}

/* ---- the dialect ---- */

#define ST_DEVICE static
#define ST_DEVICE_CALL static

#define ST_KERNEL(name, arguments, n_threads)                                                      \
    static void name(const arguments *st_arguments);                                               \
    static void name##_st_entry(const void *p)                                                     \
    {                                                                                              \
        name((const arguments *)p);                                                                \
    }                                                                                              \
    __attribute__((visibility("default"))) const struct st_soft_kernel name##_st_kernel = {        \
        n_threads, sizeof(arguments), ST_WARP, 0, name##_st_entry};                                \
    static void name(const arguments *st_arguments)

#define ST_KERNEL_BLOCKS(name, arguments, n_threads, n_blocks) ST_KERNEL(name, arguments, n_threads)

#define ST_ARG(field) (st_arguments->field)
#define ST_GLOBAL(type, address) ((type *)((st_u64)(address)-ST_SOFT_OFFSET))

/* What a program has of these is summed over their section when it is loaded. */
#define ST_SHARED(type, name, n)                                                                   \
    static const struct st_soft_shared name##_st_shared                                            \
        __attribute__((section("st_soft_shared"), used)) = {sizeof(type) * (n), 16};               \
    type *const name = (type *)st_soft_take_shared(&name##_st_shared)
/* Behind what is declared with ST_SHARED, which comes first in a kernel. */
#define ST_DYNAMIC_SHARED(type, name)                                                              \
    type *const name = (type *)st_soft_take_shared(&(const struct st_soft_shared){0, 16})

#define ST_BLOCK (st_soft_self()->block)
#define ST_BLOCKS (st_soft_self()->blocks)
#define ST_THREAD (st_soft_self()->thread)
#define ST_LANE (ST_THREAD % ST_WARP)

#define st_barrier() ((void)st_soft_meet(ST_SOFT_BARRIER, __LINE__, 0, 0))
#define st_shuffle_xor_u32(x, mask)                                                                \
    ((st_u32)st_soft_meet(ST_SOFT_SHUFFLE_U32, __LINE__, (st_u32)(x), (mask)))
#define st_shuffle_xor_u64(x, mask) st_soft_meet(ST_SOFT_SHUFFLE_U64, __LINE__, (st_u64)(x), (mask))

#if ST_WARP == 64
typedef st_u64 st_lanes;
#else
typedef st_u32 st_lanes;
#endif

/* The bits of all lanes meet in shuffles. */
static inline st_lanes st_soft_ballot(st_bool x, st_u32 line)
{
    st_u64 lanes = (st_u64)x << ST_LANE;
    for (st_u32 mask = 1; mask < ST_WARP; mask *= 2) {
        lanes |= st_soft_meet(ST_SOFT_SHUFFLE_U64, line, lanes, mask);
    }
    return (st_lanes)lanes;
}
#define st_ballot(x) st_soft_ballot((x) != 0, __LINE__)
/* A shuffle in which each lane reads itself. */
#define st_warp_barrier() ((void)st_soft_meet(ST_SOFT_SHUFFLE_U32, __LINE__, 0, 0))
#define st_count_lanes(lanes) ((st_u32)__builtin_popcountll(lanes))
static inline st_u32 st_atomic_add_u32(st_u32 *to, st_u32 x)
{
    return __atomic_fetch_add(to, x, __ATOMIC_RELAXED);
}

static inline st_u64 st_atomic_add_u64(st_u64 *to, st_u64 x)
{
    return __atomic_fetch_add(to, x, __ATOMIC_RELAXED);
}
static inline float st_atomic_add_f32(float *to, float x)
{
    float old;
    float sum;
    __atomic_load(to, &old, __ATOMIC_RELAXED);
    do {
        sum = old + x;
    } while (!__atomic_compare_exchange(to, &old, &sum, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}
static inline double st_atomic_add_f64(double *to, double x)
{
    double old;
    double sum;
    __atomic_load(to, &old, __ATOMIC_RELAXED);
    do {
        sum = old + x;
    } while (!__atomic_compare_exchange(to, &old, &sum, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}
static inline st_u32 st_atomic_max_u32(st_u32 *to, st_u32 x)
{
    st_u32 old = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (old < x &&
           !__atomic_compare_exchange_n(to, &old, x, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}

#define ST_UNROLL
#define ST_NO_UNROLL

typedef struct st_u32x2 {
    st_u32 x, y;
} st_u32x2;
typedef struct st_u32x4 {
    st_u32 x, y, z, w;
} st_u32x4;

/* A device stops where an address is not aligned to the bytes that are moved. */
static inline void *st_soft_aligned(const void *p, st_u32 bytes)
{
    if ((st_u64)p % bytes) {
        __builtin_trap();
    }
    return (void *)(st_u64)p;
}
static inline st_u32 st_load_u32(const void *from)
{
    st_u32 x;
    __builtin_memcpy(&x, st_soft_aligned(from, sizeof x), sizeof x);
    return x;
}
static inline st_u32x2 st_load_u32x2(const void *from)
{
    st_u32x2 x;
    __builtin_memcpy(&x, st_soft_aligned(from, sizeof x), sizeof x);
    return x;
}
static inline st_u32x4 st_load_u32x4(const void *from)
{
    st_u32x4 x;
    __builtin_memcpy(&x, st_soft_aligned(from, sizeof x), sizeof x);
    return x;
}
static inline void st_store_u32(void *to, st_u32 x)
{
    __builtin_memcpy(st_soft_aligned(to, sizeof x), &x, sizeof x);
}
static inline void st_store_u32x2(void *to, st_u32 x, st_u32 y)
{
    const st_u32x2 v = {x, y};
    __builtin_memcpy(st_soft_aligned(to, sizeof v), &v, sizeof v);
}
static inline void st_store_u32x4(void *to, st_u32 x, st_u32 y, st_u32 z, st_u32 w)
{
    const st_u32x4 v = {x, y, z, w};
    __builtin_memcpy(st_soft_aligned(to, sizeof v), &v, sizeof v);
}

static inline st_u32 st_bits_of_f32(float x)
{
    st_u32 bits;
    __builtin_memcpy(&bits, &x, 4);
    return bits;
}
static inline st_u64 st_bits_of_f64(double x)
{
    st_u64 bits;
    __builtin_memcpy(&bits, &x, 8);
    return bits;
}
static inline float st_f32_of_bits(st_u32 bits)
{
    float x;
    __builtin_memcpy(&x, &bits, 4);
    return x;
}
static inline double st_f64_of_bits(st_u64 bits)
{
    double x;
    __builtin_memcpy(&x, &bits, 8);
    return x;
}

#define st_fma_f32 __builtin_fmaf
#define st_fma_f64 __builtin_fma
#define st_sqrt_f32 __builtin_sqrtf
#define st_sqrt_f64 __builtin_sqrt
#define st_floor_f32 __builtin_floorf
#define st_floor_f64 __builtin_floor
#define st_ceil_f32 __builtin_ceilf
#define st_ceil_f64 __builtin_ceil
#define st_trunc_f32 __builtin_truncf
#define st_trunc_f64 __builtin_trunc
#define st_rint_f32 __builtin_rintf
#define st_rint_f64 __builtin_rint
#define st_abs_f32 __builtin_fabsf
#define st_abs_f64 __builtin_fabs

/* NaN passes, and -0 is below 0. */
static inline float st_minimum_f32(float x, float y)
{
    return x == y ? st_f32_of_bits(st_bits_of_f32(x) | st_bits_of_f32(y)) : x < y || x != x ? x : y;
}
static inline float st_maximum_f32(float x, float y)
{
    return x == y ? st_f32_of_bits(st_bits_of_f32(x) & st_bits_of_f32(y)) : x > y || x != x ? x : y;
}

/* Casts from and to 16 bits, rounded to nearest, ties to even. Half precision: the smaller exponent
 * by a product with a power of two, subnormals by a sum with one. */
static inline float st_f32_of_bf16(st_u16 bits)
{
    return st_f32_of_bits((st_u32)bits << 16);
}
static inline st_u16 st_bf16_of_f32(float x)
{
    const st_u32 bits = st_bits_of_f32(x);
    return (st_u16)(x != x ? bits >> 16 | 64u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
static inline float st_f32_of_f16(st_u16 bits)
{
    const st_u32 low = (st_u32)(bits & 0x7fff) << 13;
    const st_u32 sign = (st_u32)(bits & 0x8000) << 16;
    return st_f32_of_bits(
        sign |
        (low >= 0x0f800000u ? low | 0x7f800000u : st_bits_of_f32(st_f32_of_bits(low) * 0x1p112f)));
}
static inline st_u16 st_f16_of_f32(float x)
{
    const st_u32 bits = st_bits_of_f32(x);
    const st_u32 low = bits & 0x7fffffffu;
    const st_u32 half = low >= 0x47800000u ? (x != x ? 0x7e00u : 0x7c00u)
                        : low < 0x38800000u
                            ? st_bits_of_f32(st_f32_of_bits(low) + 0.5f) - 0x3f000000u
                            : (low - 0x37fff001u + (low >> 13 & 1u)) >> 13;
    return (st_u16)(half | (bits >> 16 & 0x8000u));
}
/* Both to 16 bits, the second above the first; and the nearest number of bf16. */
static inline st_u32 st_bf16x2_of_f32(float low, float high)
{
    return (st_u32)st_bf16_of_f32(low) | (st_u32)st_bf16_of_f32(high) << 16;
}
static inline st_u32 st_f16x2_of_f32(float low, float high)
{
    return (st_u32)st_f16_of_f32(low) | (st_u32)st_f16_of_f32(high) << 16;
}
static inline float st_round_bf16(float x)
{
    return st_f32_of_bf16(st_bf16_of_f32(x));
}

/* ---- copies beside the computation: here they come at once, so that memory which is read before
 * the wait for them does not show ---- */

static inline void st_copy_async_16(void *to, const void *from)
{
    __builtin_memcpy(st_soft_aligned(to, 16), st_soft_aligned(from, 16), 16);
}
#define st_copies_commit() ((void)0)
#define st_copies_wait(n) ((void)(n))

/* ---- matrices ---- */

/* Each lane reads what it is given of four matrices of 8 by 8 halves, of whose rows lane 8m + r has
 * the address of row r of matrix m: two neighbours of a row, or of a column. */
static inline void st_soft_load_matrices(st_u32 *r, const void *row, st_bool is_across, st_u32 line)
{
    const st_u64 *rows = (const st_u64 *)st_soft_meet(ST_SOFT_GATHER, line, (st_u64)row, 0);
    const st_u32 slow = ST_LANE / 4;
    const st_u32 fast = ST_LANE % 4 * 2;
    for (st_u32 m = 0; m < 4; m++) {
        st_u16 half[2];
        for (st_u32 e = 0; e < 2; e++) {
            const st_u32 at = is_across ? fast + e : slow;
            const st_u16 *from =
                (const st_u16 *)st_soft_aligned((const void *)rows[8 * m + at], 16);
            half[e] = from[is_across ? slow : fast + e];
        }
        r[m] = half[0] | (st_u32)half[1] << 16;
    }
}
#define st_load_matrices(r, row) st_soft_load_matrices(r, row, 0, __LINE__)
#define st_load_matrices_across(r, row) st_soft_load_matrices(r, row, 1, __LINE__)

static inline st_u32 st_tf32_of_f32(st_u32 bits)
{
    return (bits & 0x7fffffffu) >= 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
}

/* A number as significand * 2^(exponent - fraction); the exponent of 0 is the least. */
struct st_soft_number {
    st_i64 significand;
    st_i32 exponent;
    st_bool is_nan, is_infinite;
};

/* The arithmetic of an H100's matrix instructions (N. Khattak and M. Mikaitis, Accurate models of
 * NVIDIA tensor cores, 2025; P. Xie et al., MMA-Sim, 2025). Products are exact. They and the
 * accumulator are aligned to the largest of their exponents, which of products is the sum of the
 * factors', and of what is smaller than 2^-133 is -133; each is cut off 25 bits behind the point of
 * that. Their sum is exact, and is cut off to f32. */
#define ST_SOFT_SUM_BITS 25
#define ST_SOFT_LEAST (-133)

/* A factor from the bits of a float with so many bits of exponent and fraction. */
static inline struct st_soft_number st_soft_number_of(st_u32 bits, st_u32 exponents,
                                                      st_u32 fraction)
{
    const st_u32 mask = (1u << exponents) - 1u;
    const st_i32 bias = (st_i32)(mask >> 1);
    const st_u32 exponent = bits >> fraction & mask;
    const st_u32 low = bits & ((1u << fraction) - 1u);
    const st_i64 magnitude = exponent ? low | 1u << fraction : low;
    return (struct st_soft_number){
        bits >> (exponents + fraction) & 1u ? -magnitude : magnitude,
        exponent ? (st_i32)exponent - bias : 1 - bias,
        exponent == mask && low,
        exponent == mask && !low,
    };
}

static inline struct st_soft_number st_soft_product(struct st_soft_number a,
                                                    struct st_soft_number b)
{
    const st_bool is_zero = (a.significand == 0 && !a.is_nan && b.is_infinite) ||
                            (b.significand == 0 && !b.is_nan && a.is_infinite);
    return (struct st_soft_number){a.significand * b.significand, a.exponent + b.exponent,
                                   a.is_nan || b.is_nan || is_zero, a.is_infinite || b.is_infinite};
}

/* The significand, of so many bits behind the point, aligned to the exponent and cut off. */
static inline st_i64 st_soft_align(struct st_soft_number x, st_u32 fraction, st_i32 exponent)
{
    const st_i32 right = exponent - x.exponent + (st_i32)fraction - ST_SOFT_SUM_BITS;
    const st_i64 magnitude = x.significand < 0 ? -x.significand : x.significand;
    const st_i64 cut = right >= 63 ? 0 : right >= 0 ? magnitude >> right : magnitude << -right;
    return x.significand < 0 ? -cut : cut;
}

/* sum * 2^(exponent - 25), cut off to f32. */
static inline float st_soft_cut(st_i64 sum, st_i32 exponent)
{
    const st_u32 sign = sum < 0 ? 0x80000000u : 0;
    st_u64 magnitude = sum < 0 ? 0u - (st_u64)sum : (st_u64)sum;
    if (magnitude == 0) {
        return 0.0f;
    }
    const st_i32 top = 63 - __builtin_clzll(magnitude);
    st_i32 at = exponent - ST_SOFT_SUM_BITS + top; /* of the leading bit */
    if (at > 127) {
        return st_f32_of_bits(sign | 0x7f800000u);
    }
    const st_i32 last = (at < -126 ? -126 : at) - 23; /* of the last bit that stays */
    const st_i32 right = last - (exponent - ST_SOFT_SUM_BITS);
    magnitude = right >= 64 ? 0 : right >= 0 ? magnitude >> right : magnitude << -right;
    const st_u32 biased = at < -126 ? 0 : (st_u32)(at + 127);
    return st_f32_of_bits(sign | biased << 23 | ((st_u32)magnitude & 0x7fffffu));
}

/* c and n products of numbers with so many bits behind the point. */
static inline float st_soft_sum(float c, const struct st_soft_number *a,
                                const struct st_soft_number *b, st_u32 n, st_u32 fraction)
{
    struct st_soft_number terms[17];
    st_bool is_nan = 0;
    st_bool has_infinite[2] = {0, 0};
    st_i32 largest = ST_SOFT_LEAST;
    st_i64 sum = 0;
    for (st_u32 k = 0; k <= n; k++) {
        terms[k] =
            k < n ? st_soft_product(a[k], b[k]) : st_soft_number_of(st_bits_of_f32(c), 8, 23);
        const st_bool is_negative = terms[k].significand < 0;
        is_nan = is_nan || terms[k].is_nan;
        has_infinite[is_negative] = has_infinite[is_negative] || terms[k].is_infinite;
        if (terms[k].significand != 0 && terms[k].exponent > largest) {
            largest = terms[k].exponent;
        }
    }
    if (is_nan || (has_infinite[0] && has_infinite[1])) {
        return st_f32_of_bits(0x7fffffffu);
    }
    if (has_infinite[0] || has_infinite[1]) {
        return st_f32_of_bits(has_infinite[0] ? 0x7f800000u : 0xff800000u);
    }
    for (st_u32 k = 0; k <= n; k++) {
        sum += st_soft_align(terms[k], k < n ? 2 * fraction : 23, largest);
    }
    return st_soft_cut(sum, largest);
}

/* Which numbers an instruction multiplies: bits of exponent and fraction, in a word or in half. */
struct st_soft_matrix {
    st_u32 exponents, fraction;
    st_bool is_half;
};

struct st_soft_parts {
    const st_u32 *a, *b;
};

/* Element k of a row of A, whose 16 bytes lie in the registers `first` and `first` + 2 of four
 * lanes, or of a column of B. */
static inline struct st_soft_number st_soft_element(const st_u32 *const lanes[4], st_u32 first,
                                                    st_u32 apart, st_u32 k, struct st_soft_matrix m)
{
    const st_u32 per_word = m.is_half ? 2 : 1;
    const st_u32 in_chunk = k % (4 * per_word);
    const st_u32 word = lanes[in_chunk / per_word][first + k / (4 * per_word) * apart];
    const st_u32 bits = m.is_half ? word >> 16 * (in_chunk % 2) & 0xffffu : word >> 13;
    return st_soft_number_of(bits, m.exponents, m.fraction);
}

static inline void st_soft_mma(float *c, const st_u32 *a, const st_u32 *b, struct st_soft_matrix m,
                               st_u32 line)
{
    const struct st_soft_parts own = {a, b};
    const st_u64 *parts = (const st_u64 *)st_soft_meet(ST_SOFT_GATHER, line, (st_u64)&own, 0);
    const st_u32 n = m.is_half ? 16 : 8;
    struct st_soft_number rows[2][16];
    struct st_soft_number columns[2][16];
    for (st_u32 i = 0; i < 2; i++) {
        const st_u32 *of_a[4];
        const st_u32 *of_b[4];
        for (st_u32 lane = 0; lane < 4; lane++) {
            of_a[lane] = ((const struct st_soft_parts *)parts[ST_LANE / 4 * 4 + lane])->a;
            of_b[lane] = ((const struct st_soft_parts *)parts[(ST_LANE % 4 * 2 + i) * 4 + lane])->b;
        }
        for (st_u32 k = 0; k < n; k++) {
            rows[i][k] = st_soft_element(of_a, i, 2, k, m);
            columns[i][k] = st_soft_element(of_b, 0, 1, k, m);
        }
    }
    for (st_u32 e = 0; e < 4; e++) {
        c[e] = st_soft_sum(c[e], rows[e / 2], columns[e % 2], n, m.fraction);
    }
    (void)st_soft_meet(ST_SOFT_GATHER, line, 0, 1); /* the others have read the parts */
}
#define st_mma_bf16(c, a, b) st_soft_mma(c, a, b, (struct st_soft_matrix){8, 7, 1}, __LINE__)
#define st_mma_f16(c, a, b) st_soft_mma(c, a, b, (struct st_soft_matrix){5, 10, 1}, __LINE__)
#define st_mma_tf32(c, a, b) st_soft_mma(c, a, b, (struct st_soft_matrix){8, 10, 0}, __LINE__)

#define st_math_device_lgamma __builtin_lgamma
#define st_fmod_f32 __builtin_fmodf
#define st_fmod_f64 __builtin_fmod

static inline void st_set_status(st_u64 address, st_u32 value)
{
    __atomic_store_n(ST_GLOBAL(st_u32, address), value, __ATOMIC_RELAXED);
}

#endif
#endif
