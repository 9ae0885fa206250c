#!/usr/bin/env python3
"""Makes codegen/gpu/prelude/gpu_prelude_polynomials.h: the polynomials of gpu_prelude_math.h.

Usage: gen_gpu_math.py [--check] [path]      needs Python 3 with mpmath

With --check the file is compared instead of written (status 1 when it differs). Nothing here runs in
a build; the header is in the tree. test_gpu_math measures what comes out.

Coefficients: interpolation at the zeros of a Chebyshev polynomial in 420 digits, whose error is that of
the best polynomial but for a small factor (Powell, On the maximum errors of polynomial approximations,
Computer Journal 9, 1967), then rounded to f64. The figure of each is its error relative to what it
stands for, with the rounded coefficients and in exact arithmetic.
"""
import os
import sys

import mpmath as mp

mp.mp.dps = 420  # as many digits as 2 / pi is written with
POLYNOMIALS = []
TWO_OVER_PI_WORDS = 39
NEAR = mp.mpf(10) ** -25  # a function that is 0 / 0 at 0 is asked here


def interpolate(function, lo, hi, degree):
    """The coefficients of x^0, x^1, ... of the polynomial through the Chebyshev points."""
    n = degree + 1
    nodes = [(lo + hi) / 2 + (hi - lo) / 2 * mp.cos(mp.pi * (k + mp.mpf(1) / 2) / n) for k in range(n)]
    differences = [function(x if abs(x) > NEAR else NEAR) for x in nodes]
    for step in range(1, n):
        for k in range(n - 1, step - 1, -1):
            differences[k] = (differences[k] - differences[k - 1]) / (nodes[k] - nodes[k - step])
    coefficients = [differences[-1]]
    for k in range(n - 2, -1, -1):
        shifted = [mp.mpf(0)] + coefficients
        for power, c in enumerate(coefficients):
            shifted[power] -= nodes[k] * c
        shifted[0] += differences[k]
        coefficients = shifted
    return coefficients


def polynomial(name, doc, function, lo, hi, degree, is_of_one=False):
    """Adds a polynomial near function on lo..hi; its error may be said in parts of 1."""
    lo, hi = mp.mpf(lo), mp.mpf(hi)
    coefficients = [float(c) for c in interpolate(function, lo, hi, degree)]
    error = 0
    for k in range(1, 400):
        x = lo + (hi - lo) * k / 400 + mp.mpf(10) ** -9
        exact = function(x)
        error = max(error, abs(mp.polyval(coefficients[::-1], x) - exact) / (1 if is_of_one else abs(exact)))
    POLYNOMIALS.append((name, f"{doc}: degree {degree}, 2^{float(mp.log(error, 2)):.0f}{' of 1' if is_of_one else ''}", coefficients))


def exponentials():
    half = mp.log(2) / 2 * mp.mpf("1.0001")
    polynomial("expm1", "(e^x - 1 - x) / x^2 for |x| <= ln 2 / 2", lambda x: (mp.expm1(x) - x) / x ** 2,
               -half, half, 10)


def logarithms():
    """ln((1 + s) / (1 - s)) = 2 s + s (2 z / 3 + 2 z^2 / 5 + z^3 q(z)), z = s^2; |s| is at most
    (sqrt(2) - 1) / (sqrt(2) + 1)."""
    top = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2
    polynomial("log", "2/7 + 2/9 z + 2/11 z^2 + ... for z <= 0.0295",
               lambda z: mp.nsum(lambda k: 2 * z ** k / (2 * k + 7), [0, 40]), 0, top, 7)


def circles():
    """sin r = r + r^3 s(r^2), cos r = 1 - r^2 / 2 + r^4 c(r^2) for |r| <= pi / 4; atan t = t + t^3 a(t^2)
    for |t| <= tan(pi / 8)."""
    top = (mp.pi / 4) ** 2 * mp.mpf("1.0001")
    polynomial("sin", "(sin r / r - 1) / z, z = r^2, for |r| <= pi / 4",
               lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, top, 6)
    polynomial("cos", "(cos r - 1 + z / 2) / z^2, z = r^2, for |r| <= pi / 4",
               lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z ** 2, 0, top, 6)
    polynomial("atan", "(atan t / t - 1) / z, z = t^2, for |t| <= tan(pi / 8)",
               lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, mp.tan(mp.pi / 8) ** 2 * mp.mpf("1.0001"), 13)


def error_functions():
    """erf x = 2 / sqrt(pi) x + x^3 e(x^2) below 0.5; beyond, 1 less erfc about the middle of a piece."""
    factor = 2 / mp.sqrt(mp.pi)
    polynomial("erf", "(erf x / x - 2 / sqrt(pi)) / z, z = x^2, for |x| <= 0.5",
               lambda z: (mp.erf(mp.sqrt(z)) / mp.sqrt(z) - factor) / z, 0, mp.mpf("0.25"), 9)
    pieces = ((0.5, 0.8, 12), (0.8, 1.3, 15), (1.3, 2.0, 16), (2.0, 3.0, 18), (3.0, 4.5, 20), (4.5, 6.0, 18))
    for number, (lo, hi, degree) in enumerate(pieces):
        middle, half = (lo + hi) / 2, (hi - lo) / 2
        polynomial(f"erfc_{number}", f"erfc({middle!r} + u) for |u| <= {half:.2f}",
                   lambda u, middle=middle: mp.erfc(middle + u), -half, half, degree, True)


def gammas():
    """ln gamma over its zeros at 1 and 2; near 3; and what Stirling's formula leaves, times x."""
    polynomial("lgamma_1", "ln gamma(1 + t) / (t (t - 1)) for t = 0.25 + u, |u| <= 0.25",
               lambda u: mp.loggamma(u + mp.mpf(5) / 4) / ((u + mp.mpf(1) / 4) * (u - mp.mpf(3) / 4)), -0.25, 0.25, 18)
    polynomial("lgamma_2", "ln gamma(2 + t) / (t (t + 1)) for |t| <= 0.5",
               lambda t: mp.loggamma(2 + t) / (t * (t + 1)), -0.5, 0.5, 20)
    polynomial("lgamma_3", "ln gamma(3 + t) for |t| <= 0.5", lambda t: mp.loggamma(3 + t), -0.5, 0.5, 18)
    polynomial("stirling", "x (ln gamma(x) - (x - 1/2) ln x + x - ln(2 pi) / 2) for w = 1 / x^2 <= 1 / 64",
               lambda w: (mp.loggamma(1 / mp.sqrt(w)) - (1 / mp.sqrt(w) - mp.mpf(1) / 2) * mp.log(1 / mp.sqrt(w))
                          + 1 / mp.sqrt(w) - mp.log(2 * mp.pi) / 2) / mp.sqrt(w), mp.mpf(2) ** -40, mp.mpf(1) / 64, 8)


def write_two_over_pi():
    """The first 1,248 bits of 2 / pi in words of 32, for reducing any f64."""
    bits = int(mp.floor(2 / mp.pi * mp.mpf(2) ** (32 * TWO_OVER_PI_WORDS)))
    lines = ["", f"/* Word i of the binary fraction of 2 / pi; 0 before the first. The last is {TWO_OVER_PI_WORDS - 1}. */",
             "ST_DEVICE_CALL st_u32 st_poly_two_over_pi(st_i32 i)", "{", "    switch (i) {"]
    for i in range(TWO_OVER_PI_WORDS):
        word = bits >> (32 * (TWO_OVER_PI_WORDS - 1 - i)) & 0xffffffff
        lines += [f"    case {i}:", f"        return 0x{word:08x}u;"]
    return lines + ["    default:", "        return 0;", "    }", "}"]


def write():
    out = ["/* The polynomials of gpu_prelude_math.h. Made by tools/gen_gpu_math.py, where the method is;",
           " * coefficients are not edited here. The figure of each is its error relative to the value. */",
           "#ifndef STATOR_GPU_PRELUDE_POLYNOMIALS_H", "#define STATOR_GPU_PRELUDE_POLYNOMIALS_H"]
    for name, doc, coefficients in POLYNOMIALS:
        out += ["", f"/* {doc} */", f"ST_DEVICE double st_poly_{name}(double x)", "{",
                f"    double y = {coefficients[-1]!r};"]
        out += [f"    y = st_fma_f64(y, x, {c!r});" for c in reversed(coefficients[:-1])]
        out += ["    return y;", "}"]
    return "\n".join(out + write_two_over_pi() + ["", "#endif", ""])


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = arguments[0] if arguments else os.path.join(root, "codegen", "gpu", "prelude",
                                                       "gpu_prelude_polynomials.h")
    for make in (exponentials, logarithms, circles, error_functions, gammas):
        make()
    if "--check" in sys.argv:
        with open(path, encoding="ascii") as file:
            sys.exit(0 if file.read() == write() else 1)
    with open(path, "w", encoding="ascii") as file:
        file.write(write())


main()
