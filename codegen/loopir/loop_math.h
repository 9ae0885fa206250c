/* The f32 functions of codegen/loopir/loop_ops.def as programs of codegen/loopir/loop_expand.h.
 * Made by tools/gen_loop_math.py, where the methods are; coefficients are not edited here. The
 * figure of each is the error of its approximation alone, relative to the result; the measured
 * whole is in the entries' .ulp. */
#ifndef STATOR_CODEGEN_LOOP_MATH_H
#define STATOR_CODEGEN_LOOP_MATH_H

/* clang-format off */
/* x 2^y by two factors, so that a subnormal result is rounded once */
#define ST_MATH_LDEXP \
    "k = as_int(y + 12583166); h = shift_right(k, 1); x * as_float(shift_left(h, 23)) * " \
    "as_float(shift_left(k - h, 23))"
/* n = round(x / ln 2), e^x = 2^n e^r; degree 6, 3.2e-09 */
#define ST_MATH_EXP \
    "a = select(89 < x, 89, x); a = select(-104 > a, -104, a); n = fma(a, 0x1.715476p+0, " \
    "12582912) - 12582912; r = fma(n, 0x1.05c610p-29, fma(n, -0x1.62e430p-1, a)); " \
    "ldexp(fma(fma(fma(fma(fma(fma(0x1.6ac74ep-10, r, 0x1.123de0p-7), r, 0x1.555858p-5), r, " \
    "0x1.55548cp-3), r, 0x1.fffffcp-2), r, 1), r, 1), n)"
/* n = round(x / ln 2) in steps of 1 / 32, of 2^n the fraction from a table; degree 3, 9.9e-11 */
#define ST_MATH_EXP_LOOKUP \
    "a = select(89 < x, 89, x); a = select(-104 > a, -104, a); m = fma(a, 0x1.715476p+0, " \
    "393216); n = m - 393216; r = fma(n, 0x1.05c610p-29, fma(n, -0x1.62e430p-1, a)); t = " \
    "lookup(m, 0); u = fma(r * r, fma(0x1.55558cp-3, r, 0x1.000088p-1), r); ldexp(fma(t, u, " \
    "t), floor(n))"
/* n = round(x), 2^x = 2^n 2^r; degree 6, 3.0e-09 */
#define ST_MATH_EXP2 \
    "a = select(129 < x, 129, x); a = select(-151 > a, -151, a); n = a + 12582912 - 12582912; " \
    "r = a - n; ldexp(fma(fma(fma(fma(fma(fma(0x1.41a7b0p-13, r, 0x1.5f0beep-10), r, " \
    "0x1.3b2daep-7), r, 0x1.c6af76p-5), r, 0x1.ebfbdcp-3), r, 0x1.62e430p-1), r, 1), n)"
/* 2^n (e^r - 1) + 2^n - 1, in halves so that 2^128 fits; the sign is that of x; degree 6,
 * 1.4e-08 */
#define ST_MATH_EXPM1 \
    "a = select(89 < x, 89, x); a = select(-30 > a, -30, a); m = fma(a, 0x1.715476p+0, " \
    "12583038); n = m - 12583038; d = fma(n, -0x1.62e430p-1, a); r = fma(n, 0x1.05c610p-29, " \
    "d); e = fma(n, 0x1.05c610p-29, d - r); q = fma(r * r, fma(fma(fma(fma(0x1.6ab2a4p-10, r, " \
    "0x1.122c7ap-7), r, 0x1.55579ep-5), r, 0x1.5554aap-3), r, 0x1.fffffep-2), e) + r; s = " \
    "as_float(shift_left(as_int(m), 23)); v = fma(s, q, s - 0.5) * 2; " \
    "as_float(bit_or(as_int(v), bit_and(as_int(x), 0x80000000)))"
/* x = 2^k (1 + f); degree 10 in f, 5.9e-09 */
#define ST_MATH_LOG \
    "i = as_int(x) - 1060439283; k = f32(shift_right(i, 23)); f = as_float(bit_and(i, " \
    "0x7fffff) + 1060439283) - 1; t = fma(fma(fma(fma(fma(fma(fma(fma(-0x1.38fb96p-4, f, " \
    "0x1.057130p-3), f, -0x1.0d81f0p-3), f, 0x1.22d684p-3), f, -0x1.547234p-3), f, " \
    "0x1.99a034p-3), f, -0x1.000228p-2), f, 0x1.555554p-2), f, -0.5); v = fma(f * f, t, f); v " \
    "= fma(k, 0x1.62e430p-1, fma(k, -0x1.05c610p-29, v)); rare(u32(as_int(x) - 0x800000) >= " \
    "0x7f000000, { w = x * 0x1p23; i = as_int(w) - 1060439283; k = f32(shift_right(i, 23)); f " \
    "= as_float(bit_and(i, 0x7fffff) + 1060439283) - 1; k = k - 23; t = " \
    "fma(fma(fma(fma(fma(fma(fma(fma(-0x1.38fb96p-4, f, 0x1.057130p-3), f, -0x1.0d81f0p-3), " \
    "f, 0x1.22d684p-3), f, -0x1.547234p-3), f, 0x1.99a034p-3), f, -0x1.000228p-2), f, " \
    "0x1.555554p-2), f, -0.5); v = fma(f * f, t, f); v = fma(k, 0x1.62e430p-1, fma(k, " \
    "-0x1.05c610p-29, v)); select(x > 0, select(x < inf, v, x), select(x == 0, -inf, nan)) }, " \
    "v)"
/* x = 2^k (1 + f), log2(1 + f) / f of degree 9, 1.5e-08 */
#define ST_MATH_LOG2 \
    "i = as_int(x) - 1060439283; k = f32(shift_right(i, 23)); f = as_float(bit_and(i, " \
    "0x7fffff) + 1060439283) - 1; v = fma(f, " \
    "fma(fma(fma(fma(fma(fma(fma(fma(fma(-0x1.af0bcep-5, f, 0x1.40de52p-3), f, " \
    "-0x1.9ab3e0p-3), f, 0x1.ae6474p-3), f, -0x1.e9b23ap-3), f, 0x1.27274cp-2), f, " \
    "-0x1.715d3ep-2), f, 0x1.ec7244p-2), f, -0x1.71546ep-1), f, 0x1.715476p+0), k); " \
    "rare(u32(as_int(x) - 0x800000) >= 0x7f000000, { w = x * 0x1p23; i = as_int(w) - " \
    "1060439283; k = f32(shift_right(i, 23)); f = as_float(bit_and(i, 0x7fffff) + 1060439283) " \
    "- 1; k = k - 23; v = fma(f, fma(fma(fma(fma(fma(fma(fma(fma(fma(-0x1.af0bcep-5, f, " \
    "0x1.40de52p-3), f, -0x1.9ab3e0p-3), f, 0x1.ae6474p-3), f, -0x1.e9b23ap-3), f, " \
    "0x1.27274cp-2), f, -0x1.715d3ep-2), f, 0x1.ec7244p-2), f, -0x1.71546ep-1), f, " \
    "0x1.715476p+0), k); select(x > 0, select(x < inf, v, x), select(x == 0, -inf, nan)) }, " \
    "v)"
/* 1 + x = 2^k (1 + f) with f = x 2^-k + 2^-k - 1; the sign is that of x; log's polynomial,
 * 5.9e-09 */
#define ST_MATH_LOG1P \
    "o = 1 + x; i = as_int(o) - 1060439283; k = f32(shift_right(i, 23)); s = " \
    "as_float(0x3f800000 - bit_and(i, -0x800000)); f = fma(x, s, s - 1); t = " \
    "fma(fma(fma(fma(fma(fma(fma(fma(-0x1.38fb96p-4, f, 0x1.057130p-3), f, -0x1.0d81f0p-3), " \
    "f, 0x1.22d684p-3), f, -0x1.547234p-3), f, 0x1.99a034p-3), f, -0x1.000228p-2), f, " \
    "0x1.555554p-2), f, -0.5); v = fma(f * f, t, f); v = fma(k, 0x1.62e430p-1, fma(k, " \
    "-0x1.05c610p-29, v)); v = as_float(bit_or(as_int(v), bit_and(as_int(x), 0x80000000))); " \
    "rare(u32(as_int(o) - 0x800000) >= 0x7e000000, { i = as_int(x) - 1060439283; k = " \
    "f32(shift_right(i, 23)); f = as_float(bit_and(i, 0x7fffff) + 1060439283) - 1; t = " \
    "fma(fma(fma(fma(fma(fma(fma(fma(-0x1.38fb96p-4, f, 0x1.057130p-3), f, -0x1.0d81f0p-3), " \
    "f, 0x1.22d684p-3), f, -0x1.547234p-3), f, 0x1.99a034p-3), f, -0x1.000228p-2), f, " \
    "0x1.555554p-2), f, -0.5); v = fma(f * f, t, f); v = fma(k, 0x1.62e430p-1, fma(k, " \
    "-0x1.05c610p-29, v)); select(x > 0, select(x < inf, v, x), select(x == -1, -inf, nan)) " \
    "}, v)"
/* |x| = n pi/2 + r, pi/2 in three parts; degrees 7 and 8, 4.0e-09; from 262144 on by Payne and
 * Hanek */
#define ST_MATH_SIN \
    "a = abs(x); m = fma(a, 0x1.45f306p-1, 12582912); n = m - 12582912; k = as_int(m); r = " \
    "fma(n, 0x1.ee59dap-50, fma(n, 0x1.777a5cp-25, fma(n, -0x1.921fb6p+0, a))); z2 = r * r; " \
    "sine = fma(z2 * r, fma(fma(-0x1.9951eap-13, z2, 0x1.110774p-7), z2, -0x1.555546p-3), r); " \
    "cosine = fma(fma(fma(fma(0x1.99e80cp-16, z2, -0x1.6c0c28p-10), z2, 0x1.55554ap-5), z2, " \
    "-0x1.0p-1), z2, 1); even = bit_and(k, 1) == 0; flip = bit_xor(shift_left(k, 30), " \
    "as_int(x)); v = as_int(select(even, sine, cosine)); v = as_float(bit_xor(v, " \
    "bit_and(flip, 0x80000000))); rare(a >= 262144, { b = as_int(a); g = " \
    "i64(bit_or(bit_and(b, 0x7fffff), 0x800000)); o = i64(shift_right(b, 23)) - 144; far = o " \
    ">= 64; j = bit_and(o, 63); w0 = select(far, 0x29fc2757d1f534dd, 0xa2f9836e4e4415); w1 = " \
    "select(far, 0xc0db6295993c4390, 0x29fc2757d1f534dd); w2 = select(far, " \
    "0x41fe5163abdebbc5, 0xc0db6295993c4390); d = u64(63 - j); l = u64(j); high = " \
    "bit_or(shift_left(u64(w0), l), shift_right(shift_right(u64(w1), 1), d)); low = " \
    "bit_or(shift_left(u64(w1), l), shift_right(shift_right(u64(w2), 1), d)); mm = u64(g); " \
    "turn = high * mm + shift_right(shift_right(low, 32) * mm, 32); k = i32(shift_right(turn " \
    "+ 0x2000000000000000, 62)); r = f32(f64(i64(shift_left(turn, 2))) * " \
    "0x1.921fb54442d18p-64); z2 = r * r; sine = fma(z2 * r, fma(fma(-0x1.9951eap-13, z2, " \
    "0x1.110774p-7), z2, -0x1.555546p-3), r); cosine = fma(fma(fma(fma(0x1.99e80cp-16, z2, " \
    "-0x1.6c0c28p-10), z2, 0x1.55554ap-5), z2, -0x1.0p-1), z2, 1); even = bit_and(k, 1) == 0; " \
    "flip = bit_xor(shift_left(k, 30), as_int(x)); v = as_int(select(even, sine, cosine)); v " \
    "= as_float(bit_xor(v, bit_and(flip, 0x80000000))); select(a < inf, v, nan) }, v)"
/* |x| = n pi/2 + r, pi/2 in three parts; degrees 7 and 8, 4.0e-09; from 262144 on by Payne and
 * Hanek */
#define ST_MATH_COS \
    "a = abs(x); m = fma(a, 0x1.45f306p-1, 12582912); n = m - 12582912; k = as_int(m); r = " \
    "fma(n, 0x1.ee59dap-50, fma(n, 0x1.777a5cp-25, fma(n, -0x1.921fb6p+0, a))); z2 = r * r; " \
    "sine = fma(z2 * r, fma(fma(-0x1.9951eap-13, z2, 0x1.110774p-7), z2, -0x1.555546p-3), r); " \
    "cosine = fma(fma(fma(fma(0x1.99e80cp-16, z2, -0x1.6c0c28p-10), z2, 0x1.55554ap-5), z2, " \
    "-0x1.0p-1), z2, 1); even = bit_and(k, 1) == 0; flip = shift_left(k + 1, 30); v = " \
    "as_int(select(even, cosine, sine)); v = as_float(bit_xor(v, bit_and(flip, 0x80000000))); " \
    "rare(a >= 262144, { b = as_int(a); g = i64(bit_or(bit_and(b, 0x7fffff), 0x800000)); o = " \
    "i64(shift_right(b, 23)) - 144; far = o >= 64; j = bit_and(o, 63); w0 = select(far, " \
    "0x29fc2757d1f534dd, 0xa2f9836e4e4415); w1 = select(far, 0xc0db6295993c4390, " \
    "0x29fc2757d1f534dd); w2 = select(far, 0x41fe5163abdebbc5, 0xc0db6295993c4390); d = " \
    "u64(63 - j); l = u64(j); high = bit_or(shift_left(u64(w0), l), " \
    "shift_right(shift_right(u64(w1), 1), d)); low = bit_or(shift_left(u64(w1), l), " \
    "shift_right(shift_right(u64(w2), 1), d)); mm = u64(g); turn = high * mm + " \
    "shift_right(shift_right(low, 32) * mm, 32); k = i32(shift_right(turn + " \
    "0x2000000000000000, 62)); r = f32(f64(i64(shift_left(turn, 2))) * " \
    "0x1.921fb54442d18p-64); z2 = r * r; sine = fma(z2 * r, fma(fma(-0x1.9951eap-13, z2, " \
    "0x1.110774p-7), z2, -0x1.555546p-3), r); cosine = fma(fma(fma(fma(0x1.99e80cp-16, z2, " \
    "-0x1.6c0c28p-10), z2, 0x1.55554ap-5), z2, -0x1.0p-1), z2, 1); even = bit_and(k, 1) == 0; " \
    "flip = shift_left(k + 1, 30); v = as_int(select(even, cosine, sine)); v = " \
    "as_float(bit_xor(v, bit_and(flip, 0x80000000))); select(a < inf, v, nan) }, v)"
/* below 0.55 odd of degree 9, 3.7e-08; else 1 - 2 / (e^2x + 1) */
#define ST_MATH_TANH \
    "a = abs(x); z2 = a * a; near = fma(z2 * a, fma(fma(fma(0x1.0d5176p-6, z2, " \
    "-0x1.af7d36p-5), z2, 0x1.10cefcp-3), z2, -0x1.555452p-2), a); b = select(9.2 < a, 9.2, " \
    "a); m = fma(b, 0x1.715476p+1, 12582912); n = m - 12582912; r = fma(n, 0x1.05c610p-30, " \
    "fma(n, -0x1.62e430p-2, b)); p = fma(fma(fma(fma(fma(fma(0x1.6ac74ep-4, r, " \
    "0x1.123de0p-2), r, 0x1.555858p-1), r, 0x1.55548cp+0), r, 0x1.fffffcp+0), r, 2), r, 1); e " \
    "= as_float(as_int(p) + shift_left(as_int(m), 23)); far = 1 - 2 / (e + 1); v = select(a > " \
    "0x1.19999ap-1, far, near); as_float(bit_or(as_int(v), bit_and(as_int(x), 0x80000000)))"
/* below 0.9 odd of degree 11, 1.4e-08; else 1 - 2^g with g of degree 6, 1.6e-09 */
#define ST_MATH_ERF \
    "a = abs(x); z2 = a * a; near = fma(a, fma(fma(fma(fma(fma(-0x1.3ba9cep-11, z2, " \
    "0x1.479c9ep-8), z2, -0x1.b69b96p-6), z2, 0x1.ce1b86p-4), z2, -0x1.8126ecp-2), z2, " \
    "0x1.06eba6p-3), a); b = select(4 < a, 4, a); g = fma(fma(fma(fma(fma(fma(0x1.2a4aaap-12, " \
    "b, -0x1.20e6ecp-8), b, 0x1.07484ep-5), b, -0x1.336482p-3), b, -0x1.d6920ep-1), b, " \
    "-0x1.a082fcp+0), b, -0x1.0c8330p-12); m = g + 12582912; r = g - (m - 12582912); p = " \
    "fma(fma(fma(fma(fma(0x1.6653ccp-10, r, 0x1.3d5a14p-7), r, 0x1.c6a140p-5), r, " \
    "0x1.ebf80ap-3), r, 0x1.62e438p-1), r, 0x1.000002p+0); far = 1 - as_float(as_int(p) + " \
    "shift_left(as_int(m), 23)); v = select(a > 0x1.ccccccp-1, far, near); " \
    "as_float(bit_or(as_int(v), bit_and(as_int(x), 0x80000000)))"
/* x g(x) with g of degree 4 in each of 32 pieces, 5.4e-08 */
#define ST_MATH_ERF_LOOKUP \
    "a = abs(x); b = select(0x1.f7fffep+1 < a, 0x1.f7fffep+1, a); m = b + 1572864; r = b - (m " \
    "- 1572864); q = fma(fma(fma(lookup(m, 5), r, lookup(m, 4)), r, lookup(m, 3)), r, " \
    "lookup(m, 2)); v = fma(b, lookup(m, 1), b * r * q); as_float(bit_or(as_int(v), " \
    "bit_and(as_int(x), 0x80000000)))"
/* x g(x) with g of degree 3 in each of 32 pieces, 2.2e-07 */
#define ST_MATH_ERF_FAST \
    "a = abs(x); b = select(0x1.f7fffep+1 < a, 0x1.f7fffep+1, a); m = b + 1572864; r = b - (m " \
    "- 1572864); v = b * fma(fma(fma(lookup(m, 9), r, lookup(m, 8)), r, lookup(m, 7)), r, " \
    "lookup(m, 6)); as_float(bit_or(as_int(v), bit_and(as_int(x), 0x80000000)))"
/* e = e^-|x|, q = e / (1 + e): 1 - q for x >= 0, else e - e q */
#define ST_MATH_SIGMOID \
    "a = -abs(x); a = select(-104 > a, -104, a); e = { n = fma(a, 0x1.715476p+0, 12582912) - " \
    "12582912; r = fma(n, 0x1.05c610p-29, fma(n, -0x1.62e430p-1, a)); " \
    "ldexp(fma(fma(fma(fma(fma(fma(0x1.6ac74ep-10, r, 0x1.123de0p-7), r, 0x1.555858p-5), r, " \
    "0x1.55548cp-3), r, 0x1.fffffcp-2), r, 1), r, 1), n) }; q = e / (1 + e); select(x < 0, " \
    "fma(-e, q, e), 1 - q)"
/* as exp_lookup in steps of 1 / 8; degree 3, 2.6e-08 */
#define ST_MATH_EXP_FEW \
    "a = select(89 < x, 89, x); a = select(-104 > a, -104, a); m = fma(a, 0x1.715476p+0, " \
    "1572864); n = m - 1572864; r = fma(n, 0x1.05c610p-29, fma(n, -0x1.62e430p-1, a)); f = " \
    "select(as_int(x) < 0, 0x1p-25, 2); t = as_float(as_int(lookup(m, 10)) + " \
    "shift_left(as_int(m), 20) - as_int(f)); u = fma(r * r, fma(0x1.555860p-3, r, " \
    "0x1.000874p-1), r); fma(t, u, t) * f"
/* x g(x) with g of degree 6 in each of 8 pieces, 5.4e-08 */
#define ST_MATH_ERF_FEW \
    "a = abs(x); b = select(0x1.f5c290p+1 < a, 0x1.f5c290p+1, a); d = b - 0x1.0p-2; m = d + " \
    "6291456; r = d - (m - 6291456); q = fma(fma(fma(lookup(m, 17), r, lookup(m, 16)), (r * " \
    "r), fma(lookup(m, 15), r, lookup(m, 14))), (r * r), fma(lookup(m, 13), r, lookup(m, " \
    "12))); v = fma(b, lookup(m, 11), b * r * q); as_float(bit_or(as_int(v), " \
    "bit_and(as_int(x), 0x80000000)))"
/* x g(x) with g of degree 5 in each of 8 pieces, 1.7e-07 */
#define ST_MATH_ERF_FEW_FAST \
    "a = abs(x); b = select(0x1.dffffep+1 < a, 0x1.dffffep+1, a); m = b + 6291456; r = b - (m " \
    "- 6291456); v = b * fma(fma(fma(lookup(m, 23), r, lookup(m, 22)), (r * r), fma(lookup(m, " \
    "21), r, lookup(m, 20))), (r * r), fma(lookup(m, 19), r, lookup(m, 18))); " \
    "as_float(bit_or(as_int(v), bit_and(as_int(x), 0x80000000)))"
/* max(x, 0) - |x| 2^g; g of degree 8, 4.3e-02 of the last place; 2^r of 3, 7.8e-05 */
#define ST_MATH_GELU_BF16 \
    "a = abs(x); b = select(a < 0x1.b80000p+3, a, 0x1.b80000p+3); t = " \
    "fma(fma(fma(fma(fma(fma(fma(0x1.de1126p-26, b, -0x1.d946e0p-20), b, 0x1.940a82p-15), b, " \
    "-0x1.890796p-11), b, 0x1.e84364p-8), b, -0x1.a0f46ap-5), b, -0x1.d9bbe6p-2), b, " \
    "-0x1.262e46p+0); m = fma(t, b, 12582912); r = fma(t, b, 12582912 - m); p = " \
    "fma(fma(fma(0x1.c33f8ap+10, r, 0x1.f0cc16p+12), r, 0x1.62ea50p+14), r, 0x1.ffe73ap+14); " \
    "q = as_float(as_int(p) + shift_left(as_int(m), 23)); fma(b * -0x1.0p-16, q, x * select(x " \
    "> 0, 1, 0))"
/* max(x, 0) - |x| 2^g; g of degree 7, 5.0e-03 of the last place; 2^r of 4, 2.6e-06 */
#define ST_MATH_GELU_F16 \
    "a = abs(x); b = select(a < 0x1.ap+2, a, 0x1.ap+2); t = " \
    "fma(fma(fma(fma(fma(fma(-0x1.177bb2p-20, b, 0x1.a002dap-15), b, -0x1.c2d0aep-11), b, " \
    "0x1.101a86p-7), b, -0x1.b7982ep-5), b, -0x1.d5add2p-2), b, -0x1.26b4dap+0); m = fma(t, " \
    "b, 12582912); r = fma(t, b, 12582912 - m); p = fma(fma(fma(fma(0x1.398db8p-8, r, " \
    "0x1.ca1502p-6), r, 0x1.ec0738p-4), r, 0x1.62e106p-2), r, 0x1.000012p-1); q = " \
    "as_float(as_int(p) + shift_left(as_int(m), 23)); fma(-b, q, x * select(x > 0, 1, 0))"
/* log2 e, the number that rounds, -ln 2 in two parts, r^3 and r^2 of exp_lookup */
#define ST_MATH_EXP_LOOKUP_NUMBERS 0x1.715476p+0f, 393216.0f, -0x1.62e430p-1f, 0x1.05c610p-29f, 0x1.55558cp-3f, 0x1.000088p-1f
/* for lookup: 24 tables of 32 entries */
#define ST_MATH_TABLE_POWERS 0
#define ST_MATH_TABLE_ERF_0 1
#define ST_MATH_TABLE_ERF_1 2
#define ST_MATH_TABLE_ERF_2 3
#define ST_MATH_TABLE_ERF_3 4
#define ST_MATH_TABLE_ERF_4 5
#define ST_MATH_TABLE_ERF_FAST_0 6
#define ST_MATH_TABLE_ERF_FAST_1 7
#define ST_MATH_TABLE_ERF_FAST_2 8
#define ST_MATH_TABLE_ERF_FAST_3 9
#define ST_MATH_TABLE_POWERS_FEW 10
#define ST_MATH_TABLE_ERF_FEW_0 11
#define ST_MATH_TABLE_ERF_FEW_1 12
#define ST_MATH_TABLE_ERF_FEW_2 13
#define ST_MATH_TABLE_ERF_FEW_3 14
#define ST_MATH_TABLE_ERF_FEW_4 15
#define ST_MATH_TABLE_ERF_FEW_5 16
#define ST_MATH_TABLE_ERF_FEW_6 17
#define ST_MATH_TABLE_ERF_FEW_FAST_0 18
#define ST_MATH_TABLE_ERF_FEW_FAST_1 19
#define ST_MATH_TABLE_ERF_FEW_FAST_2 20
#define ST_MATH_TABLE_ERF_FEW_FAST_3 21
#define ST_MATH_TABLE_ERF_FEW_FAST_4 22
#define ST_MATH_TABLE_ERF_FEW_FAST_5 23
#define ST_MATH_TABLES 24
#define ST_MATH_ENTRIES 32
/* entries of those made of fewer, one behind the other */
#define ST_MATH_FEW 8
#define ST_MATH_TABLE_VALUES \
    ST_MATH_TABLE_POWERS_VALUES, \
    ST_MATH_TABLE_ERF_0_VALUES, \
    ST_MATH_TABLE_ERF_1_VALUES, \
    ST_MATH_TABLE_ERF_2_VALUES, \
    ST_MATH_TABLE_ERF_3_VALUES, \
    ST_MATH_TABLE_ERF_4_VALUES, \
    ST_MATH_TABLE_ERF_FAST_0_VALUES, \
    ST_MATH_TABLE_ERF_FAST_1_VALUES, \
    ST_MATH_TABLE_ERF_FAST_2_VALUES, \
    ST_MATH_TABLE_ERF_FAST_3_VALUES, \
    ST_MATH_TABLE_POWERS_FEW_VALUES, \
    ST_MATH_TABLE_ERF_FEW_0_VALUES, \
    ST_MATH_TABLE_ERF_FEW_1_VALUES, \
    ST_MATH_TABLE_ERF_FEW_2_VALUES, \
    ST_MATH_TABLE_ERF_FEW_3_VALUES, \
    ST_MATH_TABLE_ERF_FEW_4_VALUES, \
    ST_MATH_TABLE_ERF_FEW_5_VALUES, \
    ST_MATH_TABLE_ERF_FEW_6_VALUES, \
    ST_MATH_TABLE_ERF_FEW_FAST_0_VALUES, \
    ST_MATH_TABLE_ERF_FEW_FAST_1_VALUES, \
    ST_MATH_TABLE_ERF_FEW_FAST_2_VALUES, \
    ST_MATH_TABLE_ERF_FEW_FAST_3_VALUES, \
    ST_MATH_TABLE_ERF_FEW_FAST_4_VALUES, \
    ST_MATH_TABLE_ERF_FEW_FAST_5_VALUES
#define ST_MATH_TABLE_POWERS_VALUES \
    { \
        1.0f, 0x1.059b0ep+0f, 0x1.0b5586p+0f, 0x1.11301ep+0f, 0x1.172b84p+0f, 0x1.1d4874p+0f, \
        0x1.2387a6p+0f, 0x1.29e9e0p+0f, 0x1.306fe0p+0f, 0x1.371a74p+0f, 0x1.3dea64p+0f, 0x1.44e086p+0f, \
        0x1.4bfdaep+0f, 0x1.5342b6p+0f, 0x1.5ab07ep+0f, 0x1.6247ecp+0f, 0x1.6a09e6p+0f, 0x1.71f75ep+0f, \
        0x1.7a1148p+0f, 0x1.82589ap+0f, 0x1.8ace54p+0f, 0x1.93737cp+0f, 0x1.9c4918p+0f, 0x1.a5503cp+0f, \
        0x1.ae89fap+0f, 0x1.b7f770p+0f, 0x1.c199bep+0f, 0x1.cb720ep+0f, 0x1.d5818ep+0f, 0x1.dfc974p+0f, \
        0x1.ea4afap+0f, 0x1.f50766p+0f \
    }
#define ST_MATH_TABLE_ERF_0_VALUES \
    { \
        0x1.20dd76p+0f, 0x1.1f5e1ap+0f, 0x1.1af54ep+0f, 0x1.13e08cp+0f, 0x1.0a7ef6p+0f, 0x1.fe8f16p-1f, \
        0x1.e57b74p-1f, 0x1.cacbc2p-1f, 0x1.af767ap-1f, 0x1.9450bcp-1f, 0x1.7a0518p-1f, 0x1.611066p-1f, \
        0x1.49c38ep-1f, 0x1.3448f8p-1f, 0x1.20ac04p-1f, 0x1.0ee122p-1f, 0x1.fd9ae2p-2f, 0x1.e09a7ap-2f, \
        0x1.c67206p-2f, 0x1.aed200p-2f, 0x1.996eeep-2f, 0x1.8603e0p-2f, 0x1.745380p-2f, 0x1.642828p-2f, \
        0x1.555368p-2f, 0x1.47ad40p-2f, 0x1.3b1358p-2f, 0x1.2f6828p-2f, 0x1.24923ap-2f, 0x1.1a7b90p-2f, \
        0x1.111110p-2f, 0x1.084210p-2f \
    }
#define ST_MATH_TABLE_ERF_1_VALUES \
    { \
        -0x1.f785a0p-16f, -0x1.7d8ff2p-4f, -0x1.7306eep-3f, -0x1.09ac2ep-2f, -0x1.4c3874p-2f, -0x1.7edee6p-2f, \
        -0x1.a0cdcep-2f, -0x1.b2931cp-2f, -0x1.b5db00p-2f, -0x1.ad1534p-2f, -0x1.9b12e2p-2f, -0x1.82ad1cp-2f, \
        -0x1.667edap-2f, -0x1.48b7cap-2f, -0x1.2b07aap-2f, -0x1.0e9e1cp-2f, -0x1.e8712ep-3f, -0x1.b87066p-3f, \
        -0x1.8d734ep-3f, -0x1.67575ap-3f, -0x1.45c320p-3f, -0x1.284242p-3f, -0x1.0e5896p-3f, -0x1.ef1beep-4f, \
        -0x1.c6e932p-4f, -0x1.a35762p-4f, -0x1.83bfa0p-4f, -0x1.6793ecp-4f, -0x1.4e5c5cp-4f, -0x1.37b3d8p-4f, \
        -0x1.234526p-4f, -0x1.10c83ap-4f \
    }
#define ST_MATH_TABLE_ERF_2_VALUES \
    { \
        -0x1.7eb20ep-2f, -0x1.76653ep-2f, -0x1.57623ep-2f, -0x1.275cdcp-2f, -0x1.d6ebb4p-3f, -0x1.527372p-3f, \
        -0x1.9a612ap-4f, -0x1.45b0d0p-5f, 0x1.9a0848p-7f, 0x1.bb854ep-5f, 0x1.5a90b4p-4f, 0x1.ab14bap-4f, \
        0x1.d4eb12p-4f, 0x1.dfa494p-4f, 0x1.d365b8p-4f, 0x1.b7ce44p-4f, 0x1.93b29ap-4f, 0x1.6bf97ap-4f, \
        0x1.441a36p-4f, 0x1.1e4a90p-4f, 0x1.f74474p-5f, 0x1.b9ccd0p-5f, 0x1.845f22p-5f, 0x1.562d6cp-5f, \
        0x1.2dedfap-5f, 0x1.0bd5d2p-5f, 0x1.dcf116p-6f, 0x1.a9d632p-6f, 0x1.7e7bc8p-6f, 0x1.58366ep-6f, \
        0x1.36315cp-6f, 0x1.197764p-6f \
    }
#define ST_MATH_TABLE_ERF_3_VALUES \
    { \
        -0x1.f737d6p-5f, 0x1.c4f1aep-5f, 0x1.ac4f04p-4f, 0x1.246d24p-3f, 0x1.555b0cp-3f, 0x1.66a63ap-3f, \
        0x1.5a7922p-3f, 0x1.3644bap-3f, 0x1.01af4ap-3f, 0x1.8a2ed6p-4f, 0x1.0fd1ccp-4f, 0x1.404ea8p-5f, \
        0x1.0a5f16p-6f, -0x1.5545dcp-10f, -0x1.be52c6p-7f, -0x1.5c36a0p-6f, -0x1.9bcb60p-6f, -0x1.adf1f6p-6f, \
        -0x1.a1ab4cp-6f, -0x1.83432ap-6f, -0x1.5be93ep-6f, -0x1.32394cp-6f, -0x1.0a1c4ep-6f, -0x1.caea8ep-7f, \
        -0x1.8a42aep-7f, -0x1.52d1c2p-7f, -0x1.23738cp-7f, -0x1.f73678p-8f, -0x1.b405cap-8f, -0x1.7b4f0cp-8f, \
        -0x1.4b3276p-8f, -0x1.22b6c0p-8f \
    }
#define ST_MATH_TABLE_ERF_4_VALUES \
    { \
        0x1.3543b0p-1f, 0x1.9ae810p-4f, 0x1.5dd282p-4f, 0x1.90fbf0p-5f, 0x1.3ed268p-5f, 0x1.b3aba0p-11f, \
        -0x1.00e09cp-5f, -0x1.35f2bep-5f, -0x1.0484eap-4f, -0x1.82dbf8p-5f, -0x1.b2257ep-5f, -0x1.9d882ep-5f, \
        -0x1.6cc0d4p-5f, -0x1.27ade6p-5f, -0x1.827c62p-6f, -0x1.259f20p-8f, 0x1.24c7e2p-10f, 0x1.c0998ep-12f, \
        -0x1.59abd6p-10f, -0x1.af9f38p-10f, 0x1.125284p-7f, 0x1.975508p-7f, 0x1.a793aep-8f, 0x1.149b4ep-13f, \
        0x1.4657d4p-7f, 0x1.ce4c86p-9f, -0x1.56cf7cp-12f, 0x1.0cdac8p-8f, -0x1.4abf88p-8f, -0x1.9671a2p-9f, \
        0x1.2081e4p-7f, 0x1.756870p-9f \
    }
#define ST_MATH_TABLE_ERF_FAST_0_VALUES \
    { \
        0x1.20dd74p+0f, 0x1.1f5e16p+0f, 0x1.1af54cp+0f, 0x1.13e08ap+0f, 0x1.0a7ef4p+0f, 0x1.fe8f16p-1f, \
        0x1.e57b76p-1f, 0x1.cacbc4p-1f, 0x1.af767ep-1f, 0x1.9450bep-1f, 0x1.7a051cp-1f, 0x1.61106ap-1f, \
        0x1.49c390p-1f, 0x1.3448fap-1f, 0x1.20ac06p-1f, 0x1.0ee122p-1f, 0x1.fd9ae2p-2f, 0x1.e09a7ap-2f, \
        0x1.c67206p-2f, 0x1.aed200p-2f, 0x1.996eecp-2f, 0x1.8603dep-2f, 0x1.745380p-2f, 0x1.642828p-2f, \
        0x1.555366p-2f, 0x1.47ad40p-2f, 0x1.3b1358p-2f, 0x1.2f6828p-2f, 0x1.24923ap-2f, 0x1.1a7b90p-2f, \
        0x1.11110ep-2f, 0x1.084210p-2f \
    }
#define ST_MATH_TABLE_ERF_FAST_1_VALUES \
    { \
        0x1.6fb34ap-16f, -0x1.7d8ffep-4f, -0x1.7306fap-3f, -0x1.09ac32p-2f, -0x1.4c3876p-2f, -0x1.7edee8p-2f, \
        -0x1.a0cdcap-2f, -0x1.b29312p-2f, -0x1.b5daf6p-2f, -0x1.ad1526p-2f, -0x1.9b12d8p-2f, -0x1.82ad14p-2f, \
        -0x1.667ed0p-2f, -0x1.48b7c2p-2f, -0x1.2b07a8p-2f, -0x1.0e9e18p-2f, -0x1.e8712cp-3f, -0x1.b87066p-3f, \
        -0x1.8d734ep-3f, -0x1.67575cp-3f, -0x1.45c320p-3f, -0x1.284242p-3f, -0x1.0e5898p-3f, -0x1.ef1bf0p-4f, \
        -0x1.c6e932p-4f, -0x1.a35766p-4f, -0x1.83bfa0p-4f, -0x1.6793eep-4f, -0x1.4e5c5ap-4f, -0x1.37b3d8p-4f, \
        -0x1.234524p-4f, -0x1.10c83cp-4f \
    }
#define ST_MATH_TABLE_ERF_FAST_2_VALUES \
    { \
        -0x1.826a0ap-2f, -0x1.75f296p-2f, -0x1.570f1ep-2f, -0x1.272434p-2f, -0x1.d686cap-3f, -0x1.52728ep-3f, \
        -0x1.9ae224p-4f, -0x1.46db00p-5f, 0x1.91eaccp-7f, 0x1.ba1996p-5f, 0x1.59a4e6p-4f, 0x1.aa2e72p-4f, \
        0x1.d43d54p-4f, 0x1.df139ap-4f, 0x1.d2f688p-4f, 0x1.b7bf54p-4f, 0x1.93b504p-4f, 0x1.6bfac8p-4f, \
        0x1.441730p-4f, 0x1.1e46dep-4f, 0x1.f7a056p-5f, 0x1.ba3e48p-5f, 0x1.848af0p-5f, 0x1.562e32p-5f, \
        0x1.2e51a6p-5f, 0x1.0bedaep-5f, 0x1.dcee52p-6f, 0x1.aa0db2p-6f, 0x1.7e452ep-6f, 0x1.58162ep-6f, \
        0x1.36e380p-6f, 0x1.199da8p-6f \
    }
#define ST_MATH_TABLE_ERF_FAST_3_VALUES \
    { \
        0x1.6266b2p-6f, 0x1.c4f48ep-5f, 0x1.ac5ba2p-4f, 0x1.246816p-3f, 0x1.554b3cp-3f, 0x1.66a7bep-3f, \
        0x1.5a6514p-3f, 0x1.3620cep-3f, 0x1.019350p-3f, 0x1.89db58p-4f, 0x1.0fac5ap-4f, 0x1.4019bcp-5f, \
        0x1.09bdecp-6f, -0x1.5ce6a0p-10f, -0x1.be49e6p-7f, -0x1.5c82e6p-6f, -0x1.9bda00p-6f, -0x1.adea10p-6f, \
        -0x1.a19fbcp-6f, -0x1.832306p-6f, -0x1.5c041ep-6f, -0x1.325128p-6f, -0x1.0a07acp-6f, -0x1.cacec2p-7f, \
        -0x1.8a74c4p-7f, -0x1.52a6b2p-7f, -0x1.237954p-7f, -0x1.f7149ep-8f, -0x1.b43a76p-8f, -0x1.7b5960p-8f, \
        -0x1.4ba0e6p-8f, -0x1.229072p-8f \
    }
#define ST_MATH_TABLE_POWERS_FEW_VALUES \
    { \
        0x1.0p+127f, 0x1.f72b84p+126f, 0x1.f06fe0p+126f, 0x1.ebfdaep+126f, 0x1.ea09e6p+126f, 0x1.eace54p+126f, \
        0x1.ee89fap+126f, 0x1.f5818ep+126f, 0x1.0p+127f, 0x1.f72b84p+126f, 0x1.f06fe0p+126f, 0x1.ebfdaep+126f, \
        0x1.ea09e6p+126f, 0x1.eace54p+126f, 0x1.ee89fap+126f, 0x1.f5818ep+126f, 0x1.0p+127f, 0x1.f72b84p+126f, \
        0x1.f06fe0p+126f, 0x1.ebfdaep+126f, 0x1.ea09e6p+126f, 0x1.eace54p+126f, 0x1.ee89fap+126f, 0x1.f5818ep+126f, \
        0x1.0p+127f, 0x1.f72b84p+126f, 0x1.f06fe0p+126f, 0x1.ebfdaep+126f, 0x1.ea09e6p+126f, 0x1.eace54p+126f, \
        0x1.ee89fap+126f, 0x1.f5818ep+126f \
    }
#define ST_MATH_TABLE_ERF_FEW_0_VALUES \
    { \
        0x1.1af54ep+0f, 0x1.e57b74p-1f, 0x1.7a0518p-1f, 0x1.20ac04p-1f, 0x1.c67206p-2f, 0x1.745380p-2f, \
        0x1.3b1358p-2f, 0x1.111110p-2f, 0x1.1af54ep+0f, 0x1.e57b74p-1f, 0x1.7a0518p-1f, 0x1.20ac04p-1f, \
        0x1.c67206p-2f, 0x1.745380p-2f, 0x1.3b1358p-2f, 0x1.111110p-2f, 0x1.1af54ep+0f, 0x1.e57b74p-1f, \
        0x1.7a0518p-1f, 0x1.20ac04p-1f, 0x1.c67206p-2f, 0x1.745380p-2f, 0x1.3b1358p-2f, 0x1.111110p-2f, \
        0x1.1af54ep+0f, 0x1.e57b74p-1f, 0x1.7a0518p-1f, 0x1.20ac04p-1f, 0x1.c67206p-2f, 0x1.745380p-2f, \
        0x1.3b1358p-2f, 0x1.111110p-2f \
    }
#define ST_MATH_TABLE_ERF_FEW_1_VALUES \
    { \
        -0x1.7306e4p-3f, -0x1.a0cdd0p-2f, -0x1.9b12e8p-2f, -0x1.2b07a8p-2f, -0x1.8d7348p-3f, -0x1.0e5896p-3f, \
        -0x1.83bfa0p-4f, -0x1.23452ep-4f, -0x1.7306e4p-3f, -0x1.a0cdd0p-2f, -0x1.9b12e8p-2f, -0x1.2b07a8p-2f, \
        -0x1.8d7348p-3f, -0x1.0e5896p-3f, -0x1.83bfa0p-4f, -0x1.23452ep-4f, -0x1.7306e4p-3f, -0x1.a0cdd0p-2f, \
        -0x1.9b12e8p-2f, -0x1.2b07a8p-2f, -0x1.8d7348p-3f, -0x1.0e5896p-3f, -0x1.83bfa0p-4f, -0x1.23452ep-4f, \
        -0x1.7306e4p-3f, -0x1.a0cdd0p-2f, -0x1.9b12e8p-2f, -0x1.2b07a8p-2f, -0x1.8d7348p-3f, -0x1.0e5896p-3f, \
        -0x1.83bfa0p-4f, -0x1.23452ep-4f \
    }
#define ST_MATH_TABLE_ERF_FEW_2_VALUES \
    { \
        -0x1.5765b6p-2f, -0x1.9a79acp-4f, 0x1.5aa282p-4f, 0x1.d356f6p-4f, 0x1.440b46p-4f, 0x1.846b9ep-5f, \
        0x1.dcc6fcp-6f, 0x1.3699a8p-6f, -0x1.5765b6p-2f, -0x1.9a79acp-4f, 0x1.5aa282p-4f, 0x1.d356f6p-4f, \
        0x1.440b46p-4f, 0x1.846b9ep-5f, 0x1.dcc6fcp-6f, 0x1.3699a8p-6f, -0x1.5765b6p-2f, -0x1.9a79acp-4f, \
        0x1.5aa282p-4f, 0x1.d356f6p-4f, 0x1.440b46p-4f, 0x1.846b9ep-5f, 0x1.dcc6fcp-6f, 0x1.3699a8p-6f, \
        -0x1.5765b6p-2f, -0x1.9a79acp-4f, 0x1.5aa282p-4f, 0x1.d356f6p-4f, 0x1.440b46p-4f, 0x1.846b9ep-5f, \
        0x1.dcc6fcp-6f, 0x1.3699a8p-6f \
    }
#define ST_MATH_TABLE_ERF_FEW_3_VALUES \
    { \
        0x1.acd406p-4f, 0x1.5ac72ap-3f, 0x1.0fb9f2p-4f, -0x1.c01b16p-7f, -0x1.a1eda4p-6f, -0x1.0a0edcp-6f, \
        -0x1.23694ep-7f, -0x1.4b1eeap-8f, 0x1.acd406p-4f, 0x1.5ac72ap-3f, 0x1.0fb9f2p-4f, -0x1.c01b16p-7f, \
        -0x1.a1eda4p-6f, -0x1.0a0edcp-6f, -0x1.23694ep-7f, -0x1.4b1eeap-8f, 0x1.acd406p-4f, 0x1.5ac72ap-3f, \
        0x1.0fb9f2p-4f, -0x1.c01b16p-7f, -0x1.a1eda4p-6f, -0x1.0a0edcp-6f, -0x1.23694ep-7f, -0x1.4b1eeap-8f, \
        0x1.acd406p-4f, 0x1.5ac72ap-3f, 0x1.0fb9f2p-4f, -0x1.c01b16p-7f, -0x1.a1eda4p-6f, -0x1.0a0edcp-6f, \
        -0x1.23694ep-7f, -0x1.4b1eeap-8f \
    }
#define ST_MATH_TABLE_ERF_FEW_4_VALUES \
    { \
        0x1.6c56cap-4f, -0x1.99ca46p-6f, -0x1.da37dep-5f, -0x1.43be5cp-6f, 0x1.68d69ep-9f, 0x1.37b852p-8f, \
        0x1.522d76p-9f, 0x1.9540b2p-10f, 0x1.6c56cap-4f, -0x1.99ca46p-6f, -0x1.da37dep-5f, -0x1.43be5cp-6f, \
        0x1.68d69ep-9f, 0x1.37b852p-8f, 0x1.522d76p-9f, 0x1.9540b2p-10f, 0x1.6c56cap-4f, -0x1.99ca46p-6f, \
        -0x1.da37dep-5f, -0x1.43be5cp-6f, 0x1.68d69ep-9f, 0x1.37b852p-8f, 0x1.522d76p-9f, 0x1.9540b2p-10f, \
        0x1.6c56cap-4f, -0x1.99ca46p-6f, -0x1.da37dep-5f, -0x1.43be5cp-6f, 0x1.68d69ep-9f, 0x1.37b852p-8f, \
        0x1.522d76p-9f, 0x1.9540b2p-10f \
    }
#define ST_MATH_TABLE_ERF_FEW_5_VALUES \
    { \
        -0x1.1edc20p-5f, -0x1.318bb8p-5f, 0x1.0a4054p-7f, 0x1.e82706p-7f, 0x1.d531ccp-9f, -0x1.677046p-11f, \
        -0x1.773da4p-11f, -0x1.552c78p-12f, -0x1.1edc20p-5f, -0x1.318bb8p-5f, 0x1.0a4054p-7f, 0x1.e82706p-7f, \
        0x1.d531ccp-9f, -0x1.677046p-11f, -0x1.773da4p-11f, -0x1.552c78p-12f, -0x1.1edc20p-5f, -0x1.318bb8p-5f, \
        0x1.0a4054p-7f, 0x1.e82706p-7f, 0x1.d531ccp-9f, -0x1.677046p-11f, -0x1.773da4p-11f, -0x1.552c78p-12f, \
        -0x1.1edc20p-5f, -0x1.318bb8p-5f, 0x1.0a4054p-7f, 0x1.e82706p-7f, 0x1.d531ccp-9f, -0x1.677046p-11f, \
        -0x1.773da4p-11f, -0x1.552c78p-12f \
    }
#define ST_MATH_TABLE_ERF_FEW_6_VALUES \
    { \
        -0x1.1cbe74p-6f, 0x1.016e86p-6f, 0x1.2aef8cp-7f, -0x1.48c7f8p-9f, -0x1.ce2b40p-10f, -0x1.77f1d2p-11f, \
        0x1.bf60e0p-11f, -0x1.f2f6fap-10f, -0x1.1cbe74p-6f, 0x1.016e86p-6f, 0x1.2aef8cp-7f, -0x1.48c7f8p-9f, \
        -0x1.ce2b40p-10f, -0x1.77f1d2p-11f, 0x1.bf60e0p-11f, -0x1.f2f6fap-10f, -0x1.1cbe74p-6f, 0x1.016e86p-6f, \
        0x1.2aef8cp-7f, -0x1.48c7f8p-9f, -0x1.ce2b40p-10f, -0x1.77f1d2p-11f, 0x1.bf60e0p-11f, -0x1.f2f6fap-10f, \
        -0x1.1cbe74p-6f, 0x1.016e86p-6f, 0x1.2aef8cp-7f, -0x1.48c7f8p-9f, -0x1.ce2b40p-10f, -0x1.77f1d2p-11f, \
        0x1.bf60e0p-11f, -0x1.f2f6fap-10f \
    }
#define ST_MATH_TABLE_ERF_FEW_FAST_0_VALUES \
    { \
        0x1.20dd76p+0f, 0x1.0a7ef6p+0f, 0x1.af767ep-1f, 0x1.49c38ep-1f, 0x1.fd9ae0p-2f, 0x1.996eecp-2f, \
        0x1.555368p-2f, 0x1.24923cp-2f, 0x1.20dd76p+0f, 0x1.0a7ef6p+0f, 0x1.af767ep-1f, 0x1.49c38ep-1f, \
        0x1.fd9ae0p-2f, 0x1.996eecp-2f, 0x1.555368p-2f, 0x1.24923cp-2f, 0x1.20dd76p+0f, 0x1.0a7ef6p+0f, \
        0x1.af767ep-1f, 0x1.49c38ep-1f, 0x1.fd9ae0p-2f, 0x1.996eecp-2f, 0x1.555368p-2f, 0x1.24923cp-2f, \
        0x1.20dd76p+0f, 0x1.0a7ef6p+0f, 0x1.af767ep-1f, 0x1.49c38ep-1f, 0x1.fd9ae0p-2f, 0x1.996eecp-2f, \
        0x1.555368p-2f, 0x1.24923cp-2f \
    }
#define ST_MATH_TABLE_ERF_FEW_FAST_1_VALUES \
    { \
        -0x1.9827a2p-17f, -0x1.4c3872p-2f, -0x1.b5daf0p-2f, -0x1.667ed8p-2f, -0x1.e87132p-3f, -0x1.45c31ep-3f, \
        -0x1.c6e934p-4f, -0x1.4e5c50p-4f, -0x1.9827a2p-17f, -0x1.4c3872p-2f, -0x1.b5daf0p-2f, -0x1.667ed8p-2f, \
        -0x1.e87132p-3f, -0x1.45c31ep-3f, -0x1.c6e934p-4f, -0x1.4e5c50p-4f, -0x1.9827a2p-17f, -0x1.4c3872p-2f, \
        -0x1.b5daf0p-2f, -0x1.667ed8p-2f, -0x1.e87132p-3f, -0x1.45c31ep-3f, -0x1.c6e934p-4f, -0x1.4e5c50p-4f, \
        -0x1.9827a2p-17f, -0x1.4c3872p-2f, -0x1.b5daf0p-2f, -0x1.667ed8p-2f, -0x1.e87132p-3f, -0x1.45c31ep-3f, \
        -0x1.c6e934p-4f, -0x1.4e5c50p-4f \
    }
#define ST_MATH_TABLE_ERF_FEW_FAST_2_VALUES \
    { \
        -0x1.80bcf0p-2f, -0x1.d6de0cp-3f, 0x1.97fabcp-7f, 0x1.d4d77ep-4f, 0x1.93d2d0p-4f, 0x1.f76aa0p-5f, \
        0x1.2e1ea2p-5f, 0x1.7e02e0p-6f, -0x1.80bcf0p-2f, -0x1.d6de0cp-3f, 0x1.97fabcp-7f, 0x1.d4d77ep-4f, \
        0x1.93d2d0p-4f, 0x1.f76aa0p-5f, 0x1.2e1ea2p-5f, 0x1.7e02e0p-6f, -0x1.80bcf0p-2f, -0x1.d6de0cp-3f, \
        0x1.97fabcp-7f, 0x1.d4d77ep-4f, 0x1.93d2d0p-4f, 0x1.f76aa0p-5f, 0x1.2e1ea2p-5f, 0x1.7e02e0p-6f, \
        -0x1.80bcf0p-2f, -0x1.d6de0cp-3f, 0x1.97fabcp-7f, 0x1.d4d77ep-4f, 0x1.93d2d0p-4f, 0x1.f76aa0p-5f, \
        0x1.2e1ea2p-5f, 0x1.7e02e0p-6f \
    }
#define ST_MATH_TABLE_ERF_FEW_FAST_3_VALUES \
    { \
        -0x1.3b61bap-8f, 0x1.55bd4ap-3f, 0x1.01c698p-3f, 0x1.096e9ap-6f, -0x1.9c76bep-6f, -0x1.5c06b6p-6f, \
        -0x1.8a346cp-7f, -0x1.b3c358p-8f, -0x1.3b61bap-8f, 0x1.55bd4ap-3f, 0x1.01c698p-3f, 0x1.096e9ap-6f, \
        -0x1.9c76bep-6f, -0x1.5c06b6p-6f, -0x1.8a346cp-7f, -0x1.b3c358p-8f, -0x1.3b61bap-8f, 0x1.55bd4ap-3f, \
        0x1.01c698p-3f, 0x1.096e9ap-6f, -0x1.9c76bep-6f, -0x1.5c06b6p-6f, -0x1.8a346cp-7f, -0x1.b3c358p-8f, \
        -0x1.3b61bap-8f, 0x1.55bd4ap-3f, 0x1.01c698p-3f, 0x1.096e9ap-6f, -0x1.9c76bep-6f, -0x1.5c06b6p-6f, \
        -0x1.8a346cp-7f, -0x1.b3c358p-8f \
    }
#define ST_MATH_TABLE_ERF_FEW_FAST_4_VALUES \
    { \
        0x1.18e6ccp-3f, 0x1.0953e4p-5f, -0x1.c3b320p-5f, -0x1.4afc6ep-5f, -0x1.48527cp-8f, 0x1.401122p-8f, \
        0x1.e3d786p-9f, 0x1.f6b910p-10f, 0x1.18e6ccp-3f, 0x1.0953e4p-5f, -0x1.c3b320p-5f, -0x1.4afc6ep-5f, \
        -0x1.48527cp-8f, 0x1.401122p-8f, 0x1.e3d786p-9f, 0x1.f6b910p-10f, 0x1.18e6ccp-3f, 0x1.0953e4p-5f, \
        -0x1.c3b320p-5f, -0x1.4afc6ep-5f, -0x1.48527cp-8f, 0x1.401122p-8f, 0x1.e3d786p-9f, 0x1.f6b910p-10f, \
        0x1.18e6ccp-3f, 0x1.0953e4p-5f, -0x1.c3b320p-5f, -0x1.4afc6ep-5f, -0x1.48527cp-8f, 0x1.401122p-8f, \
        0x1.e3d786p-9f, 0x1.f6b910p-10f \
    }
#define ST_MATH_TABLE_ERF_FEW_FAST_5_VALUES \
    { \
        -0x1.98b096p-5f, -0x1.90d77cp-5f, -0x1.965198p-7f, 0x1.11e23cp-6f, 0x1.214ae2p-7f, 0x1.130ed6p-11f, \
        -0x1.d05eacp-11f, -0x1.149488p-11f, -0x1.98b096p-5f, -0x1.90d77cp-5f, -0x1.965198p-7f, 0x1.11e23cp-6f, \
        0x1.214ae2p-7f, 0x1.130ed6p-11f, -0x1.d05eacp-11f, -0x1.149488p-11f, -0x1.98b096p-5f, -0x1.90d77cp-5f, \
        -0x1.965198p-7f, 0x1.11e23cp-6f, 0x1.214ae2p-7f, 0x1.130ed6p-11f, -0x1.d05eacp-11f, -0x1.149488p-11f, \
        -0x1.98b096p-5f, -0x1.90d77cp-5f, -0x1.965198p-7f, 0x1.11e23cp-6f, 0x1.214ae2p-7f, 0x1.130ed6p-11f, \
        -0x1.d05eacp-11f, -0x1.149488p-11f \
    }
/* clang-format on */

#endif
