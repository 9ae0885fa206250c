/* The names of docs/gpu.md with types alone, so that a C or C++ compiler can judge the programs of
 * this folder. Nothing here runs. */
#ifndef GPU_PRELUDE_SYNTAX_H
#define GPU_PRELUDE_SYNTAX_H

typedef signed char st_i8;
typedef short st_i16;
typedef int st_i32;
typedef long long st_i64;
typedef unsigned char st_u8;
typedef unsigned short st_u16;
typedef unsigned int st_u32;
typedef unsigned long long st_u64;
#ifdef __cplusplus
typedef bool st_bool;
extern "C" {
#else
typedef _Bool st_bool;
#endif

#define ST_DEVICE static inline
#define ST_DEVICE_CALL static inline
#define ST_KERNEL(name, arguments, threads)                                                        \
    void name(const arguments *st_arguments);                                                      \
    void name(const arguments *st_arguments)
#define ST_KERNEL_BLOCKS(name, arguments, threads, blocks) ST_KERNEL(name, arguments, threads)
#define ST_ARG(field) (st_arguments->field)
#define ST_GLOBAL(type, address) ((type *)(address))
#define ST_SHARED(type, name, n) static type name[n]
#define ST_DYNAMIC_SHARED(type, name) static type name[65536]
#define ST_WARP 32
extern const st_i64 ST_BLOCK, ST_BLOCKS;
extern const st_u32 ST_THREAD, ST_LANE;

void st_barrier(void);
st_u32 st_shuffle_xor_u32(st_u32 x, st_u32 mask);
st_u64 st_shuffle_xor_u64(st_u64 x, st_u32 mask);
typedef st_u32 st_lanes;
st_lanes st_ballot(st_bool x);
st_u32 st_count_lanes(st_lanes lanes);
void st_warp_barrier(void);
st_u32 st_atomic_add_u32(st_u32 *to, st_u32 x);
st_u64 st_atomic_add_u64(st_u64 *to, st_u64 x);
st_u32 st_atomic_max_u32(st_u32 *to, st_u32 x);
#define ST_UNROLL
#define ST_NO_UNROLL
typedef struct st_u32x2 {
    st_u32 x, y;
} st_u32x2;
typedef struct st_u32x4 {
    st_u32 x, y, z, w;
} st_u32x4;
st_u32 st_load_u32(const void *from);
st_u32x2 st_load_u32x2(const void *from);
st_u32x4 st_load_u32x4(const void *from);
void st_store_u32(void *to, st_u32 x);
void st_store_u32x2(void *to, st_u32 x, st_u32 y);
void st_store_u32x4(void *to, st_u32 x, st_u32 y, st_u32 z, st_u32 w);
st_u32 st_bits_of_f32(float x);
st_u64 st_bits_of_f64(double x);
float st_f32_of_bits(st_u32 x);
double st_f64_of_bits(st_u64 x);
void st_set_status(st_u64 address, st_u32 value);

#define ST_OF_1(name)                                                                              \
    float st_##name##_f32(float x);                                                                \
    double st_##name##_f64(double x);
#define ST_OF_2(name)                                                                              \
    float st_##name##_f32(float x, float y);                                                       \
    double st_##name##_f64(double x, double y);
ST_OF_1(sqrt)
ST_OF_1(floor)
ST_OF_1(ceil)
ST_OF_1(trunc)
ST_OF_1(rint)
ST_OF_1(abs)
ST_OF_1(exp)
ST_OF_1(log)
ST_OF_1(tan)
ST_OF_2(fmod)
ST_OF_2(pow)
float st_minimum_f32(float x, float y);
float st_maximum_f32(float x, float y);
float st_f32_of_bf16(st_u16 bits);
st_u16 st_bf16_of_f32(float x);
st_u32 st_bf16x2_of_f32(float low, float high);
st_u32 st_f16x2_of_f32(float low, float high);
float st_round_bf16(float x);
float st_f32_of_f16(st_u16 bits);
st_u16 st_f16_of_f32(float x);
float st_fma_f32(float x, float y, float z);
double st_fma_f64(double x, double y, double z);

void st_copy_async_16(void *to, const void *from);
void st_copies_commit(void);
void st_copies_wait(st_u32 n);
void st_load_matrices(st_u32 *r, const void *row);
void st_load_matrices_across(st_u32 *r, const void *row);
void st_mma_bf16(float *c, const st_u32 *a, const st_u32 *b);
void st_mma_f16(float *c, const st_u32 *a, const st_u32 *b);
void st_mma_tf32(float *c, const st_u32 *a, const st_u32 *b);
st_u32 st_tf32_of_f32(st_u32 bits);

#ifdef __cplusplus
}
#endif
#endif
