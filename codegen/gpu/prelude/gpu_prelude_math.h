/* Functions of f64 for kernels on all devices: what the loop IR has no program for. It stands
 * behind the device's part of the prelude and gpu_prelude_polynomials.h, in what C11 and C++11
 * have in common, and is compiled without contraction, so that each function has the same bits
 * everywhere. test_gpu_math measures the errors.
 *
 * Methods. What has to be more exact than f64 is an unevaluated sum of two (Dekker, A
 * floating-point technique for extending the available precision, 1971; products by fma): the
 * reduced argument, and a function near 1 less its 1. All else are polynomials of f64 that count
 * for a fifth of the result at most. Exponentials: e^x = 2^n e^r by Cody and Waite (Software
 * Manual for the Elementary Functions, 1980). Logarithms: ln m = 2 artanh((m - 1) / (m + 1)) as
 * in fdlibm (Sun, 1993), with the first terms as pairs, so that pow's exponent has 68 bits.
 *
 * Those of f32 are computed in f64 and rounded once: within 0.51 ulp. */
#ifndef STATOR_GPU_PRELUDE_MATH_H
#define STATOR_GPU_PRELUDE_MATH_H

#define ST_MATH_INFINITY st_f64_of_bits(0x7ff0000000000000ull)
#define ST_MATH_NAN st_f64_of_bits(0x7ff8000000000000ull)
#define ST_MATH_SIGN 0x8000000000000000ull

/* ln 2, the first part with 41 bits, so that its product with an exponent is exact. */
#define ST_MATH_LN2_HIGH 0.693147180559663
#define ST_MATH_LN2_LOW 2.8235290563031577e-13

/* ---- pairs: hi + lo, where hi is the sum rounded ---- */

typedef struct st_math_pair {
    double hi, lo;
} st_math_pair;

ST_DEVICE st_math_pair st_math_pair_of(double hi, double lo)
{
    st_math_pair p;
    p.hi = hi;
    p.lo = lo;
    return p;
}

/* x + y, exactly. */
ST_DEVICE st_math_pair st_math_sum(double x, double y)
{
    const double hi = x + y;
    const double part = hi - x;
    return st_math_pair_of(hi, (x - (hi - part)) + (y - part));
}

/* The same for |x| >= |y|. */
ST_DEVICE st_math_pair st_math_sum_ordered(double x, double y)
{
    const double hi = x + y;
    return st_math_pair_of(hi, y - (hi - x));
}

/* x y, exactly. */
ST_DEVICE st_math_pair st_math_product(double x, double y)
{
    const double hi = x * y;
    return st_math_pair_of(hi, st_fma_f64(x, y, -hi));
}

ST_DEVICE st_math_pair st_math_add(st_math_pair x, st_math_pair y)
{
    const st_math_pair hi = st_math_sum(x.hi, y.hi);
    return st_math_sum_ordered(hi.hi, hi.lo + (x.lo + y.lo));
}

ST_DEVICE st_math_pair st_math_multiply(st_math_pair x, st_math_pair y)
{
    const st_math_pair hi = st_math_product(x.hi, y.hi);
    return st_math_sum_ordered(hi.hi, hi.lo + st_fma_f64(x.hi, y.lo, x.lo * y.hi));
}

ST_DEVICE st_math_pair st_math_divide(st_math_pair x, st_math_pair y)
{
    const double inverse = 1.0 / y.hi;
    const double hi = x.hi * inverse;
    const double rest = st_fma_f64(-hi, y.lo, st_fma_f64(-hi, y.hi, x.hi)) + x.lo;
    return st_math_sum_ordered(hi, rest * inverse);
}

/* ---- exponents ---- */

/* 2^n for a normal result. */
ST_DEVICE double st_math_power_of_2(st_i32 n)
{
    return st_f64_of_bits((st_u64)(st_i64)(n + 1023) << 52);
}

/* x 2^n by two factors, so that a subnormal result is rounded once; |n| <= 2000. */
ST_DEVICE double st_math_scale(double x, st_i32 n)
{
    return x * st_math_power_of_2(n / 2) * st_math_power_of_2(n - n / 2);
}

ST_DEVICE double st_math_with_sign_of(double magnitude, double sign)
{
    return st_f64_of_bits((st_bits_of_f64(magnitude) & ~ST_MATH_SIGN) |
                          (st_bits_of_f64(sign) & ST_MATH_SIGN));
}

/* ---- exponentials ---- */

/* e^r - 1 for |r| <= ln 2 / 2. */
ST_DEVICE st_math_pair st_math_expm1(st_math_pair r)
{
    const double rest = st_fma_f64(r.hi * r.hi, st_poly_expm1(r.hi), st_fma_f64(r.hi, r.lo, r.lo));
    return st_math_sum_ordered(r.hi, rest);
}

/* e^x = 2^n (1 + result) for |x| <= 1000. */
ST_DEVICE st_math_pair st_math_exp(st_math_pair x, st_i32 *n)
{
    const double k = st_rint_f64(x.hi * 1.4426950408889634);
    const st_math_pair r =
        st_math_sum(st_fma_f64(-k, ST_MATH_LN2_HIGH, x.hi), -k * ST_MATH_LN2_LOW);
    *n = (st_i32)k;
    return st_math_expm1(st_math_sum(r.hi, r.lo + x.lo));
}

/* 2^n (1 + p) */
ST_DEVICE double st_math_exp_of_parts(st_math_pair p, st_i32 n)
{
    const st_math_pair y = st_math_sum_ordered(1.0, p.hi);
    return st_math_scale(y.hi + (y.lo + p.lo), n);
}

ST_DEVICE_CALL double st_exp_f64(double x)
{
    st_i32 n = 0;
    if (x != x) {
        return x;
    }
    const double a = x > 710.0 ? 710.0 : x < -746.0 ? -746.0 : x;
    const st_math_pair p = st_math_exp(st_math_pair_of(a, 0.0), &n);
    return st_math_exp_of_parts(p, n);
}

ST_DEVICE_CALL double st_exp2_f64(double x)
{
    if (x != x) {
        return x;
    }
    const double a = x > 1025.0 ? 1025.0 : x < -1080.0 ? -1080.0 : x;
    const double n = st_rint_f64(a);
    const st_math_pair ln2 = st_math_pair_of(0.6931471805599453, 2.3190468138462996e-17);
    const st_math_pair r = st_math_multiply(st_math_pair_of(a - n, 0.0), ln2);
    return st_math_exp_of_parts(st_math_expm1(r), (st_i32)n);
}

ST_DEVICE_CALL double st_expm1_f64(double x)
{
    st_i32 n = 0;
    if (x != x || st_abs_f64(x) < 5.551115123125783e-17) {
        return x;
    }
    const double a = x > 710.0 ? 710.0 : x < -40.0 ? -40.0 : x;
    const st_math_pair p = st_math_exp(st_math_pair_of(a, 0.0), &n);
    const st_math_pair one = st_math_sum(1.0, n > 60 ? 0.0 : -st_math_power_of_2(-n));
    const st_math_pair y = st_math_sum(one.hi, p.hi);
    return st_math_scale(y.hi + (y.lo + (one.lo + p.lo)), n);
}

/* ---- logarithms ---- */

/* ln((1 + s) / (1 - s)) = 2 s + s (2/3 z + 2/5 z^2 + z^3 q(z)), z = s^2, for |s| <= 0.172. */
ST_DEVICE st_math_pair st_math_log_of_quotient(st_math_pair s)
{
    const st_math_pair z = st_math_multiply(s, s);
    const st_math_pair rest = st_math_product(z.hi, st_poly_log(z.hi));
    const st_math_pair t = st_math_add(st_math_pair_of(0.4, -2.2204460492503132e-17), rest);
    const st_math_pair u = st_math_add(st_math_pair_of(0.6666666666666666, 3.700743415417188e-17),
                                       st_math_multiply(z, t));
    const st_math_pair v = st_math_multiply(s, st_math_multiply(z, u));
    return st_math_add(st_math_pair_of(2.0 * s.hi, 2.0 * s.lo), v);
}

/* ln x to 68 bits, of a finite x > 0; x.lo is 0 where x.hi is subnormal or above 2^1000. */
ST_DEVICE st_math_pair st_math_log(st_math_pair x)
{
    const st_u64 root = 0x3fe6a09e667f3bcdull; /* sqrt(1/2): 2^k times what is less than sqrt(2) */
    const st_bool is_tiny = x.hi < 2.2250738585072014e-308;
    const st_u64 bits = st_bits_of_f64(is_tiny ? x.hi * 18014398509481984.0 : x.hi);
    const st_i32 k = (st_i32)((bits - root + (1023ull << 52)) >> 52) - 1023;
    const double m = st_f64_of_bits(bits - ((st_u64)(st_i64)k << 52));
    const double low = x.lo == 0.0 ? 0.0 : x.lo * st_math_power_of_2(-k);
    const st_math_pair f = st_math_sum(m - 1.0, low);
    const st_math_pair g = st_math_sum_ordered(2.0, f.hi);
    const st_math_pair s = st_math_divide(f, st_math_pair_of(g.hi, g.lo + f.lo));
    const double e = (double)(is_tiny ? k - 54 : k);
    return st_math_add(st_math_pair_of(e * ST_MATH_LN2_HIGH, e * ST_MATH_LN2_LOW),
                       st_math_log_of_quotient(s));
}

/* A logarithm where x is not a finite number above 0. */
ST_DEVICE double st_math_log_of_other(double x)
{
    return x == 0.0 ? -ST_MATH_INFINITY : x > 0.0 ? x : ST_MATH_NAN;
}

ST_DEVICE_CALL double st_log_f64(double x)
{
    if (!(x > 0.0 && x < ST_MATH_INFINITY)) {
        return st_math_log_of_other(x);
    }
    return st_math_log(st_math_pair_of(x, 0.0)).hi;
}

ST_DEVICE_CALL double st_log2_f64(double x)
{
    if (!(x > 0.0 && x < ST_MATH_INFINITY)) {
        return st_math_log_of_other(x);
    }
    const st_math_pair log2_e = st_math_pair_of(1.4426950408889634, 2.0355273740931033e-17);
    return st_math_multiply(st_math_log(st_math_pair_of(x, 0.0)), log2_e).hi;
}

ST_DEVICE_CALL double st_log1p_f64(double x)
{
    if (!(x > -1.0 && x < ST_MATH_INFINITY)) {
        return st_math_log_of_other(1.0 + x);
    }
    if (st_abs_f64(x) < 5.551115123125783e-17) {
        return x;
    }
    st_math_pair y = st_math_sum(1.0, x);
    y.lo = x > 1e30 ? 0.0 : y.lo;
    return st_math_log(y).hi;
}

/* ---- pow ---- */

/* 0: y is no integer; 1: an odd one; 2: an even one */
ST_DEVICE st_i32 st_math_parity(double y)
{
    const double half = 0.5 * y;
    return st_trunc_f64(y) != y ? 0 : st_trunc_f64(half) != half ? 1 : 2;
}

/* |x|^y where x is 0 or infinite, or y is infinite */
ST_DEVICE double st_math_pow_of_limits(double x, double y)
{
    const st_bool is_above = x > 1.0;
    return x == 1.0 ? 1.0 : is_above == (y > 0.0) ? ST_MATH_INFINITY : 0.0;
}

/* x^y for x > 0, both finite */
ST_DEVICE double st_math_pow(double x, double y)
{
    st_i32 n = 0;
    const st_math_pair log_x = st_math_log(st_math_pair_of(x, 0.0));
    const double about = y * log_x.hi;
    if (about > 720.0 || about < -750.0) {
        return about > 0.0 ? ST_MATH_INFINITY : 0.0;
    }
    const st_math_pair product = st_math_product(y, log_x.hi);
    const st_math_pair exponent =
        st_math_sum_ordered(product.hi, st_fma_f64(y, log_x.lo, product.lo));
    const st_math_pair p = st_math_exp(exponent, &n);
    return st_math_exp_of_parts(p, n);
}

ST_DEVICE_CALL double st_pow_f64(double x, double y)
{
    const double a = st_abs_f64(x);
    const st_i32 parity = st_math_parity(y);
    if (y == 0.0 || x == 1.0) {
        return 1.0;
    }
    if (x != x || y != y) {
        return x + y;
    }
    const st_bool is_finite = a < ST_MATH_INFINITY && st_abs_f64(y) < ST_MATH_INFINITY;
    if (is_finite && x < 0.0 && parity == 0) {
        return ST_MATH_NAN;
    }
    const double r = is_finite && a > 0.0 ? st_math_pow(a, y) : st_math_pow_of_limits(a, y);
    return parity == 1 && st_bits_of_f64(x) >= ST_MATH_SIGN ? -r : r;
}

/* ---- f32 ---- */

#define ST_MATH_F32(name)                                                                          \
    ST_DEVICE float st_##name##_f32(float x)                                                       \
    {                                                                                              \
        return (float)st_##name##_f64((double)x);                                                  \
    }

ST_MATH_F32(exp)
ST_MATH_F32(exp2)
ST_MATH_F32(expm1)
ST_MATH_F32(log)
ST_MATH_F32(log2)
ST_MATH_F32(log1p)

ST_DEVICE float st_pow_f32(float x, float y)
{
    return (float)st_pow_f64((double)x, (double)y);
}

#endif
