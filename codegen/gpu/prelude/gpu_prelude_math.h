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
 * Angles: less multiples of pi / 2 by Cody and Waite, large ones by Payne and Hanek; arcs by one
 * arc tangent of a quotient of pairs; hyperbolic functions and their inverses by the exponentials
 * and logarithms of pairs; erf by polynomials; ln gamma by polynomials over its zeros and by
 * Stirling's formula.
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

/* ---- pairs, more of them ---- */

ST_DEVICE st_math_pair st_math_negative(st_math_pair x)
{
    return st_math_pair_of(-x.hi, -x.lo);
}

ST_DEVICE st_math_pair st_math_half(st_math_pair x)
{
    return st_math_pair_of(0.5 * x.hi, 0.5 * x.lo);
}

ST_DEVICE st_math_pair st_math_root(st_math_pair x)
{
    const double hi = st_sqrt_f64(x.hi);
    const double rest = st_fma_f64(-hi, hi, x.hi) + x.lo;
    return hi == 0.0 ? st_math_pair_of(0.0, 0.0) : st_math_sum_ordered(hi, 0.5 * rest / hi);
}

/* An argument so small that the function's value is the argument. */
ST_DEVICE st_bool st_math_is_tiny(double x)
{
    return st_abs_f64(x) < 7.450580596923828e-09; /* 2^-27 */
}

/* ---- reducing angles ---- */

/* x less the nearest multiple of pi / 2, and that multiple modulo 4; |x| <= 1.6e6. Pi / 2 in three
 * parts of 33 bits, whose products with the multiple are exact, and a fourth. */
ST_DEVICE st_math_pair st_math_reduce_near(double x, st_i32 *quadrant)
{
    const double k = st_rint_f64(x * 0.6366197723675814);
    const st_math_pair first = st_math_sum(x - k * 1.5707963267341256, -k * 6.077100506303966e-11);
    const st_math_pair rest =
        st_math_sum_ordered(-k * 2.0222662487111665e-21, -k * 8.478427660368900e-32);
    *quadrant = (st_i32)k & 3;
    return st_math_add(first, rest);
}

/* The same for any finite |x| > 1 (Payne and Hanek, Radian reduction for trigonometric functions,
 * 1983). Of 2 / pi 192 bits are taken, from the one whose product with x is worth 2; the product,
 * modulo 2^192, is the multiple in two bits and then the fraction.
 *
 *     2 / pi = 0.bbbb|b..(192)..b|bbb     x = m 2^q     m (window) = kk.ffff... */
ST_DEVICE_CALL st_math_pair st_math_reduce_far(double x, st_i32 *quadrant)
{
    const st_u64 bits = st_bits_of_f64(x);
    const st_u64 m = (bits & 0xfffffffffffffull) | 0x10000000000000ull;
    const st_i32 at = (st_i32)(bits >> 52 & 2047u) - 1075 - 2; /* first bit of the window */
    const st_i32 word = (at + 64) / 32 - 2;
    const st_u32 shift = (st_u32)(at + 64) & 31u;
    const st_u64 m_low = m & 0xffffffffu;
    const st_u64 m_high = m >> 32;
    st_u32 product[6];
    st_u64 carry = 0;
    st_u64 before = 0; /* the word of the window below */
    st_i32 i;
    for (i = 5; i >= 0; i--) {
        const st_u64 two =
            (st_u64)st_poly_two_over_pi(word + i) << 32 | st_poly_two_over_pi(word + i + 1);
        const st_u64 w = two >> (32u - shift) & 0xffffffffu;
        const st_u64 low = w * m_low + (carry & 0xffffffffu);
        const st_u64 high = before * m_high + (low & 0xffffffffu);
        product[i] = (st_u32)high;
        carry = (carry >> 32) + (low >> 32) + (high >> 32);
        before = w;
    }
    st_u64 top = (st_u64)product[0] << 32 | product[1];
    st_u64 middle = (st_u64)product[2] << 32 | product[3];
    st_u64 low = (st_u64)product[4] << 32 | product[5];
    st_i32 k = (st_i32)(top >> 62);
    top = top << 2 | middle >> 62;
    middle = middle << 2 | low >> 62;
    low <<= 2;
    const st_bool is_above = top >> 63 != 0; /* a half or more: less 1 */
    if (is_above) {
        k++;
        low = ~low + 1u;
        middle = ~middle + (low == 0);
        top = ~top + (low == 0 && middle == 0);
    }
    const double parts[3] = {(double)(top >> 11) * 1.1102230246251565e-16,
                             (double)((top & 2047u) << 53 | middle >> 11) * 6.018531076210112e-36,
                             (double)((middle & 2047u) << 53 | low >> 11) * 3.2626522339992623e-55};
    const st_math_pair sum = st_math_sum(parts[0], parts[1]);
    const st_math_pair fraction = st_math_sum_ordered(sum.hi, sum.lo + parts[2]);
    const st_math_pair r =
        st_math_multiply(fraction, st_math_pair_of(1.5707963267948966, 6.123233995736766e-17));
    const st_bool is_negative = is_above != (x < 0.0);
    *quadrant = (x < 0.0 ? -k : k) & 3;
    return is_negative ? st_math_negative(r) : r;
}

ST_DEVICE st_math_pair st_math_reduce(double x, st_i32 *quadrant)
{
    return st_abs_f64(x) < 1.6e6 ? st_math_reduce_near(x, quadrant)
                                 : st_math_reduce_far(x, quadrant);
}

/* ---- sine, cosine, tangent ---- */

/* Of |r| <= pi / 4; the parts behind the first term count for a sixth at most. */
ST_DEVICE st_math_pair st_math_sin(st_math_pair r)
{
    const double z = r.hi * r.hi;
    const double rest = st_fma_f64(r.hi * z, st_poly_sin(z), st_fma_f64(-0.5 * z, r.lo, r.lo));
    return st_math_sum_ordered(r.hi, rest);
}

ST_DEVICE st_math_pair st_math_cos(st_math_pair r)
{
    const st_math_pair z = st_math_product(r.hi, r.hi);
    const st_math_pair first = st_math_sum_ordered(1.0, -0.5 * z.hi);
    const double rest =
        st_fma_f64(z.hi * z.hi, st_poly_cos(z.hi), st_fma_f64(-r.hi, r.lo, -0.5 * z.lo));
    return st_math_sum_ordered(first.hi, first.lo + rest);
}

/* sin(x + quadrants pi / 2) */
ST_DEVICE double st_math_sin_of(double x, st_i32 quadrants)
{
    st_i32 k = 0;
    const st_math_pair r = st_math_reduce(x, &k);
    k += quadrants;
    const double y = (k & 1) != 0 ? st_math_cos(r).hi : st_math_sin(r).hi;
    return (k & 2) != 0 ? -y : y;
}

ST_DEVICE_CALL double st_sin_f64(double x)
{
    return st_math_is_tiny(x) ? x : st_abs_f64(x) < ST_MATH_INFINITY ? st_math_sin_of(x, 0) : x - x;
}

ST_DEVICE_CALL double st_cos_f64(double x)
{
    return st_abs_f64(x) < ST_MATH_INFINITY ? st_math_sin_of(x, 1) : x - x;
}

ST_DEVICE_CALL double st_tan_f64(double x)
{
    st_i32 k = 0;
    if (st_math_is_tiny(x) || !(st_abs_f64(x) < ST_MATH_INFINITY)) {
        return st_math_is_tiny(x) ? x : x - x;
    }
    const st_math_pair r = st_math_reduce(x, &k);
    const st_math_pair s = st_math_sin(r);
    const st_math_pair c = st_math_cos(r);
    return (k & 1) != 0 ? -st_math_divide(c, s).hi : st_math_divide(s, c).hi;
}

/* ---- arcs ---- */

#define ST_MATH_PI st_math_pair_of(3.141592653589793, 1.2246467991473532e-16)

/* atan(y / x) of y, x >= 0, not both 0: of the lesser by the greater, less pi / 4 where that is
 * above tan(pi / 8). */
ST_DEVICE st_math_pair st_math_atan(st_math_pair y, st_math_pair x)
{
    const st_bool is_swapped = y.hi > x.hi;
    const st_math_pair n = is_swapped ? x : y;
    const st_math_pair d = is_swapped ? y : x;
    const st_bool is_far = n.hi > 0.41421356237309503 * d.hi;
    const st_math_pair t =
        is_far ? st_math_divide(st_math_add(n, st_math_negative(d)), st_math_add(n, d))
               : st_math_divide(n, d);
    const double z = t.hi * t.hi;
    const double rest = st_fma_f64(t.hi * z, st_poly_atan(z), st_fma_f64(-z, t.lo, t.lo));
    const st_math_pair pi = ST_MATH_PI;
    st_math_pair a = st_math_sum_ordered(t.hi, rest);
    a = is_far ? st_math_add(st_math_half(st_math_half(pi)), a) : a;
    return is_swapped ? st_math_add(st_math_half(pi), st_math_negative(a)) : a;
}

/* sqrt(1 - a^2) */
ST_DEVICE st_math_pair st_math_other_leg(double a)
{
    return st_math_root(st_math_multiply(st_math_sum(1.0, -a), st_math_sum(1.0, a)));
}

ST_DEVICE_CALL double st_asin_f64(double x)
{
    const double a = st_abs_f64(x);
    if (!(a <= 1.0) || st_math_is_tiny(x)) {
        return a <= 1.0 ? x : ST_MATH_NAN;
    }
    return st_math_with_sign_of(st_math_atan(st_math_pair_of(a, 0.0), st_math_other_leg(a)).hi, x);
}

ST_DEVICE_CALL double st_acos_f64(double x)
{
    const double a = st_abs_f64(x);
    if (!(a <= 1.0)) {
        return ST_MATH_NAN;
    }
    const st_math_pair y = st_math_atan(st_math_other_leg(a), st_math_pair_of(a, 0.0));
    return x < 0.0 ? st_math_add(ST_MATH_PI, st_math_negative(y)).hi : y.hi;
}

ST_DEVICE_CALL double st_atan_f64(double x)
{
    const double a = st_abs_f64(x);
    if (st_math_is_tiny(x) || x != x) {
        return x;
    }
    const st_math_pair one = st_math_pair_of(1.0, 0.0);
    const double y = a > 1e18 ? 1.5707963267948966 : st_math_atan(st_math_pair_of(a, 0.0), one).hi;
    return st_math_with_sign_of(y, x);
}

/* The exponent of a finite number, as if subnormals were normal. */
ST_DEVICE st_i32 st_math_exponent(double x)
{
    const st_i32 e = (st_i32)(st_bits_of_f64(x) >> 52 & 2047u);
    return (e == 0 ? 1 : e) - 1023;
}

/* The angle of (a, b), a and b > 0 and finite, b to the right where `is_right`; the scaled ones are
 * about 1 or less. Where the quotient is below 2^-63 it is the angle. */
ST_DEVICE double st_math_angle(double a, double b, st_bool is_right)
{
    const st_i32 of_a = st_math_exponent(a);
    const st_i32 of_b = st_math_exponent(b);
    if (of_b - of_a > 64 && is_right) {
        return a / b;
    }
    const st_i32 most = of_a > of_b ? of_a : of_b;
    const st_math_pair y = st_math_atan(st_math_pair_of(st_math_scale(a, -most), 0.0),
                                        st_math_pair_of(st_math_scale(b, -most), 0.0));
    return is_right ? y.hi : st_math_add(ST_MATH_PI, st_math_negative(y)).hi;
}

ST_DEVICE_CALL double st_atan2_f64(double y, double x)
{
    const double a = st_abs_f64(y);
    const double b = st_abs_f64(x);
    const st_bool is_right = st_bits_of_f64(x) < ST_MATH_SIGN;
    double angle;
    if (x != x || y != y) {
        return x + y;
    }
    if (a == 0.0 || (b == ST_MATH_INFINITY && a < b)) {
        angle = is_right ? 0.0 : 3.141592653589793;
    } else if (b == 0.0 || (a == ST_MATH_INFINITY && b < a)) {
        angle = 1.5707963267948966;
    } else if (a == ST_MATH_INFINITY) {
        angle = is_right ? 0.7853981633974483 : 2.356194490192345;
    } else {
        angle = st_math_angle(a, b, is_right);
    }
    return st_math_with_sign_of(angle, y);
}

/* ---- hyperbolas ---- */

/* e^a - 1 for 0 <= a <= 45. */
ST_DEVICE st_math_pair st_math_expm1_of(double a)
{
    st_i32 n = 0;
    const st_math_pair p = st_math_exp(st_math_pair_of(a, 0.0), &n);
    const st_math_pair one = st_math_sum(1.0, -st_math_power_of_2(-n));
    const st_math_pair y = st_math_add(one, p);
    const double scale = st_math_power_of_2(n);
    return st_math_pair_of(y.hi * scale, y.lo * scale);
}

/* e^a / 2 for a > 22, where e^-a counts for nothing. */
ST_DEVICE double st_math_half_exp(double a)
{
    st_i32 n = 0;
    const st_math_pair p = st_math_exp(st_math_pair_of(a > 712.0 ? 712.0 : a, 0.0), &n);
    return st_math_exp_of_parts(p, n - 1);
}

ST_DEVICE_CALL double st_sinh_f64(double x)
{
    const double a = st_abs_f64(x);
    if (st_math_is_tiny(x) || x != x) {
        return x;
    }
    if (a > 22.0) {
        return st_math_with_sign_of(st_math_half_exp(a), x);
    }
    const st_math_pair e = st_math_expm1_of(a);
    const st_math_pair f = st_math_divide(e, st_math_add(st_math_pair_of(1.0, 0.0), e));
    return st_math_with_sign_of(0.5 * st_math_add(e, f).hi, x);
}

ST_DEVICE_CALL double st_cosh_f64(double x)
{
    const double a = st_abs_f64(x);
    const st_math_pair one = st_math_pair_of(1.0, 0.0);
    if (x != x || a > 22.0) {
        return x != x ? x : st_math_half_exp(a);
    }
    const st_math_pair e = st_math_add(one, st_math_expm1_of(a));
    return 0.5 * st_math_add(e, st_math_divide(one, e)).hi;
}

ST_DEVICE_CALL double st_tanh_f64(double x)
{
    const double a = st_abs_f64(x);
    if (st_math_is_tiny(x) || x != x) {
        return x;
    }
    if (a > 22.0) {
        return st_math_with_sign_of(1.0, x);
    }
    const st_math_pair e = st_math_expm1_of(2.0 * a);
    const st_math_pair y = st_math_divide(e, st_math_add(st_math_pair_of(2.0, 0.0), e));
    return st_math_with_sign_of(y.hi, x);
}

/* ln(1 + w), relative to w too. */
ST_DEVICE st_math_pair st_math_log1p(st_math_pair w)
{
    const st_math_pair y = st_math_sum(1.0, w.hi);
    return st_math_log(st_math_sum_ordered(y.hi, y.lo + w.lo));
}

/* ln(2 a), where a is so large that asinh and acosh are that. */
ST_DEVICE double st_math_log_of_double(double a)
{
    const st_math_pair ln2 = st_math_pair_of(0.6931471805599453, 2.3190468138462996e-17);
    return st_math_add(st_math_log(st_math_pair_of(a, 0.0)), ln2).hi;
}

ST_DEVICE_CALL double st_asinh_f64(double x)
{
    const double a = st_abs_f64(x);
    if (st_math_is_tiny(x) || !(a < ST_MATH_INFINITY)) {
        return x;
    }
    if (a > 268435456.0) {
        return st_math_with_sign_of(st_math_log_of_double(a), x);
    }
    const st_math_pair one = st_math_pair_of(1.0, 0.0);
    const st_math_pair square = st_math_product(a, a);
    const st_math_pair root = st_math_root(st_math_add(one, square));
    const st_math_pair w =
        st_math_add(st_math_pair_of(a, 0.0), st_math_divide(square, st_math_add(one, root)));
    return st_math_with_sign_of(st_math_log1p(w).hi, x);
}

ST_DEVICE_CALL double st_acosh_f64(double x)
{
    if (!(x > 1.0 && x < ST_MATH_INFINITY)) {
        return x == 1.0 ? 0.0 : x > 1.0 ? x : ST_MATH_NAN;
    }
    if (x > 268435456.0) {
        return st_math_log_of_double(x);
    }
    const st_math_pair t = st_math_sum(x, -1.0);
    const st_math_pair two = st_math_pair_of(2.0, 0.0);
    const st_math_pair root = st_math_root(st_math_multiply(t, st_math_add(t, two)));
    return st_math_log1p(st_math_add(t, root)).hi;
}

ST_DEVICE_CALL double st_atanh_f64(double x)
{
    const double a = st_abs_f64(x);
    if (st_math_is_tiny(x) || !(a < 1.0)) {
        return st_math_is_tiny(x) ? x
               : a == 1.0         ? st_math_with_sign_of(ST_MATH_INFINITY, x)
                                  : ST_MATH_NAN;
    }
    const st_math_pair y =
        a < 0.171 ? st_math_log_of_quotient(st_math_pair_of(a, 0.0))
                  : st_math_log(st_math_divide(st_math_sum(1.0, a), st_math_sum(1.0, -a)));
    return st_math_with_sign_of(0.5 * y.hi, x);
}

/* ---- erf ---- */

/* 1 - erf(a) for 0.5 <= a < 6: a polynomial about the middle of each piece. */
ST_DEVICE double st_math_erfc(double a)
{
    return a < 0.8   ? st_poly_erfc_0(a - 0.65)
           : a < 1.3 ? st_poly_erfc_1(a - 1.05)
           : a < 2.0 ? st_poly_erfc_2(a - 1.65)
           : a < 3.0 ? st_poly_erfc_3(a - 2.5)
           : a < 4.5 ? st_poly_erfc_4(a - 3.75)
                     : st_poly_erfc_5(a - 5.25);
}

ST_DEVICE_CALL double st_erf_f64(double x)
{
    const double a = st_abs_f64(x);
    if (x != x || x == 0.0) {
        return x;
    }
    if (a >= 0.5) {
        return st_math_with_sign_of(a < 6.0 ? 1.0 - st_math_erfc(a) : 1.0, x);
    }
    const double z = x * x;
    const double rest = st_fma_f64(x, 1.533545961316588e-17, x * z * st_poly_erf(z));
    return st_fma_f64(x, 1.1283791670955126, rest);
}

/* ---- lgamma ---- */

/* ln gamma(x) for 1 <= x <= 3.5, of which x - 1 is t. */
ST_DEVICE st_math_pair st_math_lgamma_near(double t)
{
    if (t < 0.5) {
        const st_math_pair zeros = st_math_multiply(st_math_pair_of(t, 0.0), st_math_sum(t, -1.0));
        return st_math_multiply(zeros, st_math_pair_of(st_poly_lgamma_1(t - 0.25), 0.0));
    }
    if (t < 1.5) {
        const double u = t - 1.0;
        const st_math_pair zeros = st_math_multiply(st_math_pair_of(u, 0.0), st_math_sum(u, 1.0));
        return st_math_multiply(zeros, st_math_pair_of(st_poly_lgamma_2(u), 0.0));
    }
    return st_math_pair_of(st_poly_lgamma_3(t - 2.0), 0.0);
}

/* x > 0 and finite. Below 8 by gamma(x + 1) = x gamma(x); above by Stirling's formula. */
ST_DEVICE st_math_pair st_math_lgamma(double x)
{
    if (x < 1.0) {
        const st_math_pair log_x = st_math_log(st_math_pair_of(x, 0.0));
        return st_math_add(st_math_negative(log_x), st_math_lgamma_near(x));
    }
    if (x < 8.0) {
        st_math_pair product = st_math_pair_of(1.0, 0.0);
        while (x >= 3.5) {
            x -= 1.0;
            product = st_math_multiply(product, st_math_pair_of(x, 0.0));
        }
        const st_math_pair y = st_math_lgamma_near(x - 1.0);
        return product.hi == 1.0 ? y : st_math_add(st_math_log(product), y);
    }
    const st_math_pair log_x = st_math_log(st_math_pair_of(x, 0.0));
    if (x > 1e30) {
        return st_math_pair_of(x * (log_x.hi - 1.0), 0.0);
    }
    const double inverse = 1.0 / x;
    const double stirling =
        st_fma_f64(inverse, st_poly_stirling(inverse * inverse), -3.878294158067242e-17);
    const st_math_pair rest = st_math_sum(0.9189385332046728, stirling);
    const st_math_pair product = st_math_multiply(st_math_sum(x, -0.5), log_x);
    return st_math_add(st_math_add(product, st_math_pair_of(-x, 0.0)), rest);
}

/* Below 0, where it has a zero between each two poles, it is the device's own. */
ST_DEVICE_CALL double st_lgamma_f64(double x)
{
    const double a = st_abs_f64(x);
    if (!(a < ST_MATH_INFINITY) || x == 0.0) {
        return x != x ? x : ST_MATH_INFINITY;
    }
    return x > 0.0 ? st_math_lgamma(x).hi : st_math_device_lgamma(x);
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
ST_MATH_F32(sin)
ST_MATH_F32(cos)
ST_MATH_F32(tan)
ST_MATH_F32(asin)
ST_MATH_F32(acos)
ST_MATH_F32(atan)
ST_MATH_F32(sinh)
ST_MATH_F32(cosh)
ST_MATH_F32(tanh)
ST_MATH_F32(asinh)
ST_MATH_F32(acosh)
ST_MATH_F32(atanh)
ST_MATH_F32(erf)
ST_MATH_F32(lgamma)

#define ST_MATH_F32_2(name)                                                                        \
    ST_DEVICE float st_##name##_f32(float x, float y)                                              \
    {                                                                                              \
        return (float)st_##name##_f64((double)x, (double)y);                                       \
    }

ST_MATH_F32_2(pow)
ST_MATH_F32_2(atan2)

#endif
