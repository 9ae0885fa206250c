#!/usr/bin/env python3
"""Makes codegen/loopir/loop_math.h: the f32 functions of the loop IR as expansion programs.

Usage: gen_loop_math.py [--check] [path]      needs Python 3 with numpy and mpmath

With --check the file is compared instead of written (status 1 when it differs). Nothing here runs in
a build; the header is in the tree. After a change run the exhaustive measurement:
    STATOR_LOOP_MATH=all build/release/tests/test_loop_math

Methods. Coefficients: minimax by Remez' exchange on a fine grid, then rounded to f32 one after the
other, from the most important on, with the rest fitted again; by tables of such in pieces for targets
that look entries up in a register. Functions: reduction by Cody and Waite
(Software Manual for the Elementary Functions, 1980) with fma; the quadrant and exponent come out of
the low bits of x * c + 1.5 * 2^23; large arguments of sin and cos by Payne and Hanek (Radian
reduction for trigonometric functions, SIGNUM 1983) in 64-bit integers; log's split at sqrt(1/2) and
log1p's reduced argument as in Muller, Elementary Functions, 3rd edition, 2016. No branches; what few
inputs need is a `rare` block.
"""
import os
import sys

import mpmath as mp
import numpy as np

mp.mp.prec = 400
GRID = 6000
LN2 = mp.log(2)


# ---- coefficients ----

def f32(x):
    return float(np.float32(float(x)))


def grid(lo, hi, points):
    k = np.arange(points)
    return (lo + hi) / 2 - (hi - lo) / 2 * np.cos(np.pi * (k + 0.5) / points)


def thin(extrema, errors, wanted):
    """Leaves out extrema, the smallest first, so that the signs still alternate."""
    while len(extrema) > wanted:
        if len(extrema) == wanted + 1:
            drop_first = abs(errors[extrema[0]]) < abs(errors[extrema[-1]])
            extrema = extrema[1:] if drop_first else extrema[:-1]
            continue
        k = int(np.argmin(np.abs(errors[extrema])))
        if 0 < k < len(extrema) - 1:
            j = k + 1 if abs(errors[extrema[k + 1]]) < abs(errors[extrema[k - 1]]) else k - 1
            extrema = [e for i, e in enumerate(extrema) if i not in (j, k)]
        else:
            extrema = extrema[:k] + extrema[k + 1:]
    return extrema


def exchange(x, target, weight, powers):
    """{power: coefficient} of least max |weight * (sum - target)|, and that maximum."""
    n = len(powers)
    if n == 0:
        return {}, np.abs(weight * target).max()
    basis = np.stack([x ** p for p in powers], 1)
    scale = np.abs(basis).max(0)
    basis = basis / scale
    at = np.unique(np.round((len(x) - 1) * (1 - np.cos(np.pi * np.arange(n + 1) / n)) / 2))
    at = at.astype(int)
    # The start, and the answer where the powers are no Chebyshev system: all 0 at an inner 0.
    solution = np.linalg.lstsq(basis * weight[:, None], weight * target, rcond=None)[0]
    best = (solution / scale, np.abs(weight * (basis @ solution - target)).max())
    for _ in range(60):
        system = np.concatenate([basis[at] * weight[at, None],
                                 ((-1.0) ** np.arange(len(at)))[:, None]], 1)
        solution = np.linalg.lstsq(system, weight[at] * target[at], rcond=None)[0]
        errors = weight * (basis @ solution[:n] - target)
        most = np.abs(errors).max()
        if most < best[1]:
            best = (solution[:n] / scale, most)
        signs = np.sign(errors)
        runs = np.split(np.arange(len(x)), np.flatnonzero(signs[1:] != signs[:-1]) + 1)
        extrema = thin([run[np.argmax(np.abs(errors[run]))] for run in runs], errors, n + 1)
        if len(extrema) < n + 1 or np.array_equal(extrema, at):
            break
        at = np.array(extrema)
    return dict(zip(powers, best[0])), best[1]


def fit(function, lo, hi, powers, weight, fixed=None, points=GRID):
    """Coefficients in f32 of sum c x^p near function; `fixed` ones are given. With the error."""
    x = grid(lo, hi, points)
    values = np.array([float(function(mp.mpf(t))) for t in x])
    weights = np.array([float(weight(mp.mpf(t))) for t in x])
    given = {p: f32(c) for p, c in (fixed or {}).items()}
    error = 0
    for power in [None] + [p for p in powers if p not in given]:
        if power is not None:
            given[power] = f32(found[power])
        rest = [p for p in powers if p not in given]
        known = sum((c * x ** p for p, c in given.items()), np.zeros_like(x))
        found, error = exchange(x, values - known, weights, rest)
    return [given[p] for p in powers], error


# ---- text ----

def num(x):
    """A float exactly, as C writes it."""
    if float(x) == int(x) and abs(x) < 2 ** 24:
        return str(int(x))
    return float(x).hex().replace("0000000p", "p").replace("00000p", "p")


def horner(coefficients, x):
    """c0 + c1 x + ... by fma."""
    return horner_of([num(c) for c in coefficients], x)


def horner_of(texts, x):
    """t0 + t1 x + ..., of any terms."""
    text = texts[-1]
    for t in reversed(texts[:-1]):
        text = f"fma({text}, {x}, {t})"
    return text


def parts(value, n, down=False):
    """value as a sum of n f32: each the nearest to what is left, or, with down, the next below."""
    result = []
    for _ in range(n):
        part = np.float32(float(value))
        if down and mp.mpf(float(part)) > value:
            part = np.nextafter(part, np.float32(0))
        result.append(float(part))
        value -= mp.mpf(float(part))
    return result


WITH_SIGN = "as_float(bit_or(as_int(v), bit_and(as_int(x), 0x80000000)))"  # v, of x's sign
MAGIC = 1.5 * 2 ** 23  # x + MAGIC has the nearest integer to x in its low bits
ROWS = []


def row(name, doc, program):
    ROWS.append((name, doc, " ".join(program.split())))


# ---- exponentials ----

def exp_poly(deg, scale=1):
    """e^(scale r) near 1 for |r| <= ln 2 / 2 / scale: 1 + scale r + ..."""
    half = float(LN2 / 2) * 1.0001
    c, error = fit(lambda r: mp.e ** r, -half, half, list(range(deg + 1)), lambda r: mp.e ** -r,
                   {0: 1, 1: 1})
    return [x * scale ** k for k, x in enumerate(c)], error


def exp_of(c):
    """e^a for -104 <= a <= 89."""
    hi, lo = parts(LN2, 2)
    return f"""n = fma(a, {num(f32(1 / LN2))}, {num(MAGIC)}) - {num(MAGIC)};
               r = fma(n, {num(-lo)}, fma(n, {num(-hi)}, a)); ldexp({horner(c, 'r')}, n)"""


def make_ldexp():
    row("ldexp", "x 2^y by two factors, so that a subnormal result is rounded once",
        f"""k = as_int(y + {num(MAGIC + 254)}); h = shift_right(k, 1);
            x * as_float(shift_left(h, 23)) * as_float(shift_left(k - h, 23))""")


def make_exp():
    c, error = exp_poly(6)
    row("exp", f"n = round(x / ln 2), e^x = 2^n e^r; degree 6, {error:.1e}",
        f"""a = select(89 < x, 89, x); a = select(-104 > a, -104, a);
            {exp_of(c)}""")


PIECES = 32  # entries of a table
FEW = 8      # of a small one, which is there PIECES / FEW times: an index modulo PIECES serves both
TABLES = []


def table(name, entries):
    """Adds a table; its number."""
    TABLES.append((name, entries * (PIECES // len(entries))))
    return len(TABLES) - 1


EXP_LOOKUP_NUMBERS = []


def make_exp_lookup():
    powers = table("powers", [f32(mp.mpf(2) ** (mp.mpf(k) / PIECES)) for k in range(PIECES)])
    half = float(LN2 / PIECES / 2) * 1.0001
    c, error = fit(lambda r: mp.e ** r, -half, half, list(range(4)), lambda r: mp.e ** -r,
                   {0: 1, 1: 1})
    hi, lo = parts(LN2, 2)
    magic = MAGIC / PIECES
    EXP_LOOKUP_NUMBERS.extend([f32(1 / LN2), magic, -hi, -lo, c[3], c[2]])
    row("exp_lookup", "n = round(x / ln 2) in steps of 1 / 32, of 2^n the fraction from a table;"
        f" degree 3, {error:.1e}",
        f"""a = select(89 < x, 89, x); a = select(-104 > a, -104, a);
            m = fma(a, {num(f32(1 / LN2))}, {num(magic)}); n = m - {num(magic)};
            r = fma(n, {num(-lo)}, fma(n, {num(-hi)}, a)); t = lookup(m, {powers});
            u = fma(r * r, fma({num(c[3])}, r, {num(c[2])}), r);
            ldexp(fma(t, u, t), floor(n))""")


EXPONENT = 2 ** 23  # a step of the exponent in the bits of a f32


def exp_few(floor):
    """e^a, -104 <= a <= 89, as t (1 + u) f with t from a table and the bits of n, and f a power of 2
    such that t is a normal number: f is 2 or, below 0, 2^-25. The table has 2^(k / 8) less k / 8
    steps of the exponent, which n's bits in eighths bring, and 127 steps that f's bits take off."""
    at = lambda k: int(np.float32(float(mp.mpf(2) ** (mp.mpf(k) / FEW))).view(np.int32))
    bits = [at(k) - k * (EXPONENT // FEW) + 127 * EXPONENT for k in range(FEW)]
    powers = table("powers_few", [float(np.int32(b).view(np.float32)) for b in bits])
    half = float(LN2 / FEW / 2) * 1.0001
    c, error = fit(lambda r: mp.e ** r, -half, half, list(range(4)), lambda r: mp.e ** -r,
                   {0: 1, 1: 1})
    hi, lo = parts(LN2, 2)
    magic = MAGIC / FEW
    return f"""m = fma(a, {num(f32(1 / LN2))}, {num(magic)}); n = m - {num(magic)};
               r = fma(n, {num(-lo)}, fma(n, {num(-hi)}, a)); f = {floor};
               t = as_float(as_int(lookup(m, {powers})) + shift_left(as_int(m), 20) - as_int(f));
               u = fma(r * r, fma({num(c[3])}, r, {num(c[2])}), r); fma(t, u, t) * f""", error


def make_exp_few():
    program, error = exp_few("select(as_int(x) < 0, 0x1p-25, 2)")
    row("exp_few", f"as exp_lookup in steps of 1 / 8; degree 3, {error:.1e}",
        f"""a = select(89 < x, 89, x); a = select(-104 > a, -104, a); {program}""")


def make_exp2():
    c, error = fit(lambda r: mp.mpf(2) ** r, -0.5, 0.5, list(range(7)), lambda r: mp.mpf(2) ** -r,
                   {0: 1})
    row("exp2", f"n = round(x), 2^x = 2^n 2^r; degree 6, {error:.1e}",
        f"""a = select(129 < x, 129, x); a = select(-151 > a, -151, a);
            n = a + {num(MAGIC)} - {num(MAGIC)}; r = a - n; ldexp({horner(c, 'r')}, n)""")


def make_expm1():
    hi, lo = parts(LN2, 2)
    half = float(LN2 / 2) * 1.0001
    c, error = fit(lambda r: (mp.expm1(r) - r) / r ** 2 if r else mp.mpf(0.5), -half, half,
                   list(range(5)), lambda r: r ** 2 / abs(mp.expm1(r)) if r else mp.mpf(0))
    row("expm1", "2^n (e^r - 1) + 2^n - 1, in halves so that 2^128 fits; the sign is that of x;"
        f" degree 6, {error:.1e}",
        f"""a = select(89 < x, 89, x); a = select(-30 > a, -30, a);
            m = fma(a, {num(f32(1 / LN2))}, {num(MAGIC + 126)}); n = m - {num(MAGIC + 126)};
            d = fma(n, {num(-hi)}, a); r = fma(n, {num(-lo)}, d);
            e = fma(n, {num(-lo)}, d - r);
            q = fma(r * r, {horner(c, 'r')}, e) + r;
            s = as_float(shift_left(as_int(m), 23)); v = fma(s, q, s - 0.5) * 2;
            {WITH_SIGN}""")


# ---- logarithms ----

SQRT_HALF = 0x3f3504f3  # bits of f32 sqrt(1/2)


def log_poly():
    lo, hi = float(mp.sqrt(mp.mpf(0.5)) - 1), float(mp.sqrt(2) - 1)
    return fit(lambda f: (mp.log1p(f) - f + f * f / 2) / f ** 3 if f else mp.mpf(1) / 3, lo, hi,
               list(range(8)), lambda f: abs(f ** 3 / mp.log1p(f)) if f else mp.mpf(0))


def log_of(c):
    """log(1 + f) + k ln 2: names f and k to v."""
    hi, lo = parts(LN2, 2)
    return f"""t = fma({horner(c, 'f')}, f, -0.5); v = fma(f * f, t, f);
               v = fma(k, {num(hi)}, fma(k, {num(lo)}, v));"""


def split(of):
    """of = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2)."""
    return f"""i = as_int({of}) - {SQRT_HALF}; k = f32(shift_right(i, 23));
               f = as_float(bit_and(i, 0x7fffff) + {SQRT_HALF}) - 1;"""


# Not a positive normal number: 0, subnormal, negative, infinite or NaN.
UNUSUAL = "u32(as_int(x) - 0x800000) >= 0x7f000000"


def slow_log(tail):
    """For the others: scaled by 2^23, and what is no number."""
    return f"""{{ w = x * 0x1p23; {split('w')} k = k - 23; {tail}
                 select(x > 0, select(x < inf, v, x), select(x == 0, -inf, nan)) }}"""


def make_log():
    c, error = log_poly()
    tail = log_of(c)
    row("log", f"x = 2^k (1 + f); degree 10 in f, {error:.1e}",
        f"""{split('x')} {tail} rare({UNUSUAL}, {slow_log(tail)}, v)""")


def make_log2():
    lo, hi = float(mp.sqrt(mp.mpf(0.5)) - 1), float(mp.sqrt(2) - 1)
    ratio = lambda f: mp.log1p(f) / f / LN2 if f else 1 / LN2
    c, error = fit(ratio, lo, hi, list(range(10)), lambda f: 1 / ratio(f))
    tail = f"v = fma(f, {horner(c, 'f')}, k);"
    row("log2", f"x = 2^k (1 + f), log2(1 + f) / f of degree 9, {error:.1e}",
        f"""{split('x')} {tail} rare({UNUSUAL}, {slow_log(tail)}, v)""")


def make_log1p():
    c, error = log_poly()
    tail = log_of(c)
    row("log1p", "1 + x = 2^k (1 + f) with f = x 2^-k + 2^-k - 1; the sign is that of x;"
        f" log's polynomial, {error:.1e}",
        f"""o = 1 + x; i = as_int(o) - {SQRT_HALF}; k = f32(shift_right(i, 23));
            s = as_float(0x3f800000 - bit_and(i, -0x800000)); f = fma(x, s, s - 1); {tail}
            v = {WITH_SIGN};
            rare(u32(as_int(o) - 0x800000) >= 0x7e000000,
                 {{ {split('x')} {tail}
                    select(x > 0, select(x < inf, v, x), select(x == -1, -inf, nan)) }}, v)""")


# ---- circular functions ----

def quadrant_polys():
    top = float(mp.pi / 4) * 1.001
    s, s_error = fit(lambda r: (mp.sin(mp.sqrt(r)) / mp.sqrt(r) - 1) / r, 1e-9, top * top,
                     [0, 1, 2], lambda r: r * mp.sqrt(r) / mp.sin(mp.sqrt(r)))
    c, c_error = fit(lambda r: (mp.cos(mp.sqrt(r)) - 1 + r / 2) / r ** 2, 1e-9, top * top,
                     [0, 1, 2], lambda r: r * r / mp.cos(mp.sqrt(r)))
    return s, c, max(s_error, c_error)


def two_over_pi_words():
    """2/pi after 8 zero bits, 256 bits as four words."""
    bits = int(mp.floor(2 / mp.pi * mp.mpf(2) ** 248))
    return [(bits >> (64 * (3 - k))) & (2 ** 64 - 1) for k in range(4)]


LARGE = 2 ** 18  # from here on the reduction by three parts of pi/2 is not exact enough


def slow_reduction():
    """|x| = M 2^e, e >= -5, times 2/pi modulo 4 as a 64-bit fraction, 2 bits of it whole: 24 bits
    times a window of 96 bits of 2/pi. Names r and k."""
    w = two_over_pi_words()
    return f"""b = as_int(a); g = i64(bit_or(bit_and(b, 0x7fffff), 0x800000));
        o = i64(shift_right(b, 23)) - 144; far = o >= 64; j = bit_and(o, 63);
        w0 = select(far, {w[1]:#x}, {w[0]:#x}); w1 = select(far, {w[2]:#x}, {w[1]:#x});
        w2 = select(far, {w[3]:#x}, {w[2]:#x}); d = u64(63 - j); l = u64(j);
        high = bit_or(shift_left(u64(w0), l), shift_right(shift_right(u64(w1), 1), d));
        low = bit_or(shift_left(u64(w1), l), shift_right(shift_right(u64(w2), 1), d));
        mm = u64(g);
        turn = high * mm + shift_right(shift_right(low, 32) * mm, 32);
        k = i32(shift_right(turn + 0x2000000000000000, 62));
        r = f32(f64(i64(shift_left(turn, 2))) * {num(float(mp.pi / 2 / mp.mpf(2) ** 64))});"""


def turned(name, s, c):
    """sin(r + k pi/2), or cos, to v. Both ask for the same bit of k, to share the answer."""
    chosen = "sine, cosine" if name == "sin" else "cosine, sine"
    flip = "bit_xor(shift_left(k, 30), as_int(x))" if name == "sin" else "shift_left(k + 1, 30)"
    return f"""z2 = r * r; sine = fma(z2 * r, {horner(s, 'z2')}, r);
        cosine = fma({horner([-0.5] + c, 'z2')}, z2, 1); even = bit_and(k, 1) == 0;
        flip = {flip}; v = as_int(select(even, {chosen}));
        v = as_float(bit_xor(v, bit_and(flip, 0x80000000)));"""


def make_circular(name):
    p = parts(mp.pi / 2, 3)
    s, c, error = quadrant_polys()
    tail = turned(name, s, c)
    row(name, f"|x| = n pi/2 + r, pi/2 in three parts; degrees 7 and 8, {error:.1e}; from {LARGE} on"
        " by Payne and Hanek",
        f"""a = abs(x); m = fma(a, {num(f32(2 / mp.pi))}, {num(MAGIC)}); n = m - {num(MAGIC)};
            k = as_int(m);
            r = fma(n, {num(-p[2])}, fma(n, {num(-p[1])}, fma(n, {num(-p[0])}, a))); {tail}
            rare(a >= {LARGE}, {{ {slow_reduction()} {tail} select(a < inf, v, nan) }}, v)""")


# ---- hyperbolic tangent, error function, sigmoid ----

def make_tanh():
    split_at = 0.55
    small, small_error = fit(lambda r: (mp.tanh(mp.sqrt(r)) / mp.sqrt(r) - 1) / r, 1e-9,
                             split_at ** 2, list(range(4)),
                             lambda r: r * mp.sqrt(r) / mp.tanh(mp.sqrt(r)))
    c, error = exp_poly(6, 2)
    hi, lo = [x / 2 for x in parts(LN2, 2)]
    row("tanh", f"below {split_at} odd of degree 9, {small_error:.1e}; else 1 - 2 / (e^2x + 1)",
        f"""a = abs(x); z2 = a * a; near = fma(z2 * a, {horner(small, 'z2')}, a);
            b = select(9.2 < a, 9.2, a); m = fma(b, {num(f32(2 / LN2))}, {num(MAGIC)});
            n = m - {num(MAGIC)}; r = fma(n, {num(-lo)}, fma(n, {num(-hi)}, b));
            p = {horner(c, 'r')}; e = as_float(as_int(p) + shift_left(as_int(m), 23));
            far = 1 - 2 / (e + 1);
            v = select(a > {num(f32(split_at))}, far, near);
            {WITH_SIGN}""")


def make_erf():
    split_at, top = 0.9, 4.0
    small, small_error = fit(lambda r: mp.erf(mp.sqrt(r)) / mp.sqrt(r) - 1, 1e-9, split_at ** 2,
                             list(range(6)), lambda r: mp.sqrt(r) / mp.erf(mp.sqrt(r)))
    big, big_error = fit(lambda t: mp.log(mp.erfc(t), 2), split_at, top, list(range(7)),
                         lambda t: mp.erfc(t) * LN2)
    c, error = fit(lambda r: mp.mpf(2) ** r, -0.5, 0.5, list(range(6)), lambda r: mp.mpf(2) ** -r)
    row("erf", f"below {split_at} odd of degree 11, {small_error:.1e}; else 1 - 2^g with g of degree"
        f" 6, {big_error:.1e}",
        f"""a = abs(x); z2 = a * a; near = fma(a, {horner(small, 'z2')}, a);
            b = select(4 < a, 4, a); g = {horner(big, 'b')}; m = g + {num(MAGIC)};
            r = g - (m - {num(MAGIC)}); p = {horner(c, 'r')};
            far = 1 - as_float(as_int(p) + shift_left(as_int(m), 23));
            v = select(a > {num(f32(split_at))}, far, near);
            {WITH_SIGN}""")


def erf_pieces(name, degree, count=PIECES, ends_at_1=False):
    """Coefficients of g, erf(b) = b g(b), in pieces around 4 k / count, as tables; and their error.
    The last piece may be bent up so that it ends at 1, where all larger b are."""
    width = 4 / count
    top = (count - 0.5) * width
    bend = lambda t: (max(0, t - top + width) / width) ** 3 * mp.erfc(top) if ends_at_1 else 0
    ratio = lambda t: (mp.erf(t) + bend(t)) / t if t else 2 / mp.sqrt(mp.pi)
    pieces = [fit(lambda r: ratio(mp.mpf(k * width) + r), -width / 2 if k else 0,
                  width / 2, list(range(degree + 1)),
                  lambda r: 1 / ratio(mp.mpf(k * width) + r), points=400)
              for k in range(count)]
    return ([table(f"{name}_{k}", [c[k] for c, _ in pieces]) for k in range(degree + 1)],
            float(np.nextafter(np.float32(top), np.float32(0))), max(error for _, error in pieces))


def erf_place(top, count=PIECES):
    """a = |x|, b = a at most `top`, r from the middle of b's piece, whose number is m's low bits."""
    magic = MAGIC * 4 / count
    return f"""a = abs(x); b = select({num(top)} < a, {num(top)}, a); m = b + {num(magic)};
               r = b - (m - {num(magic)});"""


def make_erf_lookup():
    t, top, error = erf_pieces("erf", 4)
    row("erf_lookup", f"x g(x) with g of degree 4 in each of {PIECES} pieces, {error:.1e}",
        f"""{erf_place(top)}
            q = fma(fma(fma(lookup(m, {t[4]}), r, lookup(m, {t[3]})), r, lookup(m, {t[2]})), r,
            lookup(m, {t[1]})); v = fma(b, lookup(m, {t[0]}), b * r * q); {WITH_SIGN}""")


def make_erf_fast():
    """The same with a piece's polynomial of degree 3, evaluated at once."""
    t, top, error = erf_pieces("erf_fast", 3)
    row("erf_fast", f"x g(x) with g of degree 3 in each of {PIECES} pieces, {error:.1e}",
        f"""{erf_place(top)}
            v = b * fma(fma(fma(lookup(m, {t[3]}), r, lookup(m, {t[2]})), r, lookup(m, {t[1]})), r,
            lookup(m, {t[0]})); {WITH_SIGN}""")


FEW_WIDTH = 1 / 2


def by_twos(tables):
    """The polynomial in r with coefficients from an even number of tables, in r r of pairs: a chain
    half as long as Horner's, which is what a window of few instructions waits for."""
    pairs = [f"fma(lookup(m, {b}), r, lookup(m, {a}))" for a, b in zip(tables[::2], tables[1::2])]
    return horner_of(pairs, "(r * r)")


def erf_few(name, degree):
    """As erf_pieces, in FEW pieces from k / 2 on; and a program that names a, b, r and m."""
    top = 3.92  # erf is 1 there to half a place
    ratio = lambda t: mp.erf(t) / t if t else 2 / mp.sqrt(mp.pi)
    middle = lambda k: mp.mpf((k + 0.5) * FEW_WIDTH)
    pieces = [fit(lambda r: ratio(middle(k) + r), -FEW_WIDTH / 2,
                  FEW_WIDTH / 2 if k + 1 < FEW else top - float(middle(k)), list(range(degree + 1)),
                  lambda r: 1 / ratio(middle(k) + r), points=800) for k in range(FEW)]
    t = [table(f"{name}_{k}", [c[k] for c, _ in pieces]) for k in range(degree + 1)]
    magic = MAGIC * FEW_WIDTH
    place = f"""a = abs(x); b = select({num(f32(top))} < a, {num(f32(top))}, a);
                d = b - {num(FEW_WIDTH / 2)}; m = d + {num(magic)}; r = d - (m - {num(magic)});"""
    return t, place, max(error for _, error in pieces)


def make_erf_few():
    t, place, error = erf_few("erf_few", 6)
    row("erf_few", f"x g(x) with g of degree 6 in each of {FEW} pieces, {error:.1e}",
        f"""{place} q = {by_twos(t[1:])}; v = fma(b, lookup(m, {t[0]}), b * r * q); {WITH_SIGN}""")


def make_erf_few_fast():
    t, top, error = erf_pieces("erf_few_fast", 5, FEW, True)
    row("erf_few_fast", f"x g(x) with g of degree 5 in each of {FEW} pieces, {error:.1e}",
        f"""{erf_place(top, FEW)} v = b * {by_twos(t)}; {WITH_SIGN}""")


def make_sigmoid():
    row("sigmoid", "e = e^-|x|, q = e / (1 + e): 1 - q for x >= 0, else e - e q",
        f"""a = -abs(x); a = select(-104 > a, -104, a); e = {{ {exp_of(exp_poly(6)[0])} }}; q = e / (1 + e); select(x < 0, fma(-e, q, e), 1 - q)""")


def make_gelu(name, digits, least, top, degrees, scale):
    """For values that come from 16 bits and are rounded to them, of which the result has so many
    digits from 2^least on: within 0.05 of the last. What g is at 0, and the scale that keeps 2^g
    normal, are factors of the polynomial of 2^r."""
    def share_of_last(t):
        result = t * mp.erfc(t / mp.sqrt(2)) / 2
        return result / mp.mpf(2) ** (max(mp.frexp(result)[1] - 1, least) - digits + 1)

    tail, tail_error = fit(lambda t: mp.log(mp.erfc(t / mp.sqrt(2)) / 2, 2), 0, top,
                           list(range(degrees[0] + 1)), share_of_last, points=1500)
    at_0 = mp.mpf(tail[0]) + scale
    c, error = fit(lambda r: mp.mpf(2) ** (r + at_0), -0.5, 0.5, list(range(degrees[1] + 1)),
                   lambda r: mp.mpf(2) ** -(r + at_0), points=800)
    share = f"b * {num(-2.0 ** -scale)}" if scale else "-b"
    row("gelu_" + name, f"max(x, 0) - |x| 2^g; g of degree {degrees[0]}, {tail_error:.1e} of the last place; 2^r of {degrees[1]}, {error:.1e}",
        f"""a = abs(x); b = select(a < {num(top)}, a, {num(top)}); t = {horner(tail[1:], 'b')};
            m = fma(t, b, {num(MAGIC)}); r = fma(t, b, {num(MAGIC)} - m); p = {horner(c, 'r')};
            q = as_float(as_int(p) + shift_left(as_int(m), 23));
            fma({share}, q, x * select(x > 0, 1, 0))""")


# ---- the header ----

def floats(numbers):
    return [num(x) + ("f" if "." in num(x) or "x" in num(x) else ".0f") for x in numbers]


def write(rows):
    out = ["/* The f32 functions of codegen/loopir/loop_ops.def as programs of codegen/loopir/loop_expand.h. Made by",
           " * tools/gen_loop_math.py, where the methods are; coefficients are not edited here. The figure",
           " * of each is the error of its approximation alone, relative to the result; the measured",
           " * whole is in the entries' .ulp. */",
           "#ifndef STATOR_CODEGEN_LOOP_MATH_H",
           "#define STATOR_CODEGEN_LOOP_MATH_H",
           "", "/* clang-format off */"]
    for name, doc, program in rows:
        out += [f"/* {doc} */", f"#define ST_MATH_{name.upper()} \\"]
        lines, line = [], ""
        for word in program.split(" "):
            if len(line) + len(word) > 88:
                lines.append(line)
                line = ""
            line += word + " "
        lines.append(line.rstrip())
        out += [f'    "{text}"' + (" \\" if k + 1 < len(lines) else "")
                for k, text in enumerate(lines)]
    out += [f"/* log2 e, the number that rounds, -ln 2 in two parts, r^3 and r^2 of exp_lookup */",
            f"#define ST_MATH_EXP_LOOKUP_NUMBERS {', '.join(floats(EXP_LOOKUP_NUMBERS))}"]
    out += [f"/* for lookup: {len(TABLES)} tables of {PIECES} entries */",
            *[f"#define ST_MATH_TABLE_{name.upper()} {k}" for k, (name, _) in enumerate(TABLES)],
            f"#define ST_MATH_TABLES {len(TABLES)}", f"#define ST_MATH_ENTRIES {PIECES}",
            f"/* entries of those made of fewer, one behind the other */",
            f"#define ST_MATH_FEW {FEW}",
            "#define ST_MATH_TABLE_VALUES \\"]
    values = [f"ST_MATH_TABLE_{name.upper()}_VALUES" for name, _ in TABLES]
    out += [f"    {v}{', ' + chr(92) if v != values[-1] else ''}" for v in values]
    for name, entries in TABLES:
        out += [f"#define ST_MATH_TABLE_{name.upper()}_VALUES \\", "    { \\"]
        for at in range(0, PIECES, 6):
            line = ", ".join(floats(entries[at:at + 6]))
            out.append(f"        {line}{',' if at + 6 < PIECES else ''} \\")
        out.append("    }")
    out += ["/* clang-format on */", "", "#endif", ""]
    return "\n".join(out)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = arguments[0] if arguments else os.path.join(root, "codegen", "loopir", "loop_math.h")
    for make in (make_ldexp, make_exp, make_exp_lookup, make_exp2, make_expm1, make_log, make_log2, make_log1p):
        make()
    for name in ("sin", "cos"):
        make_circular(name)
    for make in (make_tanh, make_erf, make_erf_lookup, make_erf_fast, make_sigmoid, make_exp_few,
                 make_erf_few, make_erf_few_fast):
        make()
    make_gelu("bf16", 8, -126, 13.75, (8, 3), 16)
    make_gelu("f16", 11, -14, 6.5, (7, 4), 0)
    text = write(ROWS)
    if "--check" in sys.argv:
        with open(path, encoding="ascii") as file:
            sys.exit(0 if file.read() == text else 1)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


main()
