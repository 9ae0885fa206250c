#!/usr/bin/env python3
"""Makes codegen/gpu/prelude/gpu_prelude_polynomials.h: the polynomials of gpu_prelude_math.h.

Usage: gen_gpu_math.py [--check] [path]      needs Python 3 with mpmath

With --check the file is compared instead of written (status 1 when it differs). Nothing here runs in
a build; the header is in the tree. test_gpu_math measures what comes out.

Coefficients: interpolation at the zeros of a Chebyshev polynomial in 80 digits, whose error is that of
the best polynomial but for a small factor (Powell, On the maximum errors of polynomial approximations,
Computer Journal 9, 1967), then rounded to f64. The figure of each is its error relative to what it
stands for, with the rounded coefficients and in exact arithmetic.
"""
import os
import sys

import mpmath as mp

mp.mp.dps = 80
POLYNOMIALS = []
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


def polynomial(name, doc, function, lo, hi, degree):
    """Adds a polynomial near function on lo..hi."""
    lo, hi = mp.mpf(lo), mp.mpf(hi)
    coefficients = [float(c) for c in interpolate(function, lo, hi, degree)]
    error = 0
    for k in range(1, 400):
        x = lo + (hi - lo) * k / 400 + mp.mpf(10) ** -9
        error = max(error, abs(mp.polyval(coefficients[::-1], x) / function(x) - 1))
    POLYNOMIALS.append((name, f"{doc}: degree {degree}, 2^{float(mp.log(error, 2)):.0f}", coefficients))


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


def write():
    out = ["/* The polynomials of gpu_prelude_math.h. Made by tools/gen_gpu_math.py, where the method is;",
           " * coefficients are not edited here. The figure of each is its error relative to the value. */",
           "#ifndef STATOR_GPU_PRELUDE_POLYNOMIALS_H", "#define STATOR_GPU_PRELUDE_POLYNOMIALS_H"]
    for name, doc, coefficients in POLYNOMIALS:
        out += ["", f"/* {doc} */", f"ST_DEVICE double st_poly_{name}(double x)", "{",
                f"    double y = {coefficients[-1]!r};"]
        out += [f"    y = st_fma_f64(y, x, {c!r});" for c in reversed(coefficients[:-1])]
        out += ["    return y;", "}"]
    return "\n".join(out + ["", "#endif", ""])


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = arguments[0] if arguments else os.path.join(root, "codegen", "gpu", "prelude",
                                                       "gpu_prelude_polynomials.h")
    for make in (exponentials, logarithms):
        make()
    if "--check" in sys.argv:
        with open(path, encoding="ascii") as file:
            sys.exit(0 if file.read() == write() else 1)
    with open(path, "w", encoding="ascii") as file:
        file.write(write())


main()
