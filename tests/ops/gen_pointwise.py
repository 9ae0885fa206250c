"""Cases of the pointwise ops, casts, sources."""
import math
import os

import ml_dtypes
import numpy as np
from case_writer import BF16, FLOATS, INTS, NAMES, Case
from gen_philox import words

np.seterr(all="ignore")
rng = np.random.default_rng(7)
OUT = os.path.dirname(os.path.abspath(__file__))
EDGES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.25, 1e-3, 20.0, -20.0, 88.0,
                  -104.0, 1e30, -1e30, 1e-30, np.inf, -np.inf, np.nan])
ULP = 1.2e-7  # one place of f32


def vec(f):
    return np.vectorize(f, otypes=[np.float64])


def guard(f):
    def g(x):
        try:
            return f(x)
        except (ValueError, OverflowError):
            return math.nan
    return vec(g)


def lgamma(x):
    if math.isinf(x):
        return math.inf
    if x <= 0 and x == math.floor(x):
        return math.inf
    return math.lgamma(x)


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


UNARY = {
    "neg": np.negative, "abs": np.abs, "sign": lambda x: np.where(x == 0, x, np.sign(x)),
    "ceil": np.ceil, "floor": np.floor, "round": np.rint, "trunc": np.trunc, "exp": np.exp,
    "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log1p": np.log1p,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": vec(math.erf), "lgamma": guard(lgamma),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "softplus": softplus,
    "softsign": lambda x: np.where(np.isinf(x), np.nan, x / (1 + np.abs(x))),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "reciprocal": lambda x: 1 / x, "square": lambda x: x * x,
    "relu": lambda x: np.where(np.isnan(x), x, np.maximum(x, 0)),
}
EXACT = {"neg", "abs", "sign", "ceil", "floor", "round", "trunc", "relu", "square", "reciprocal", "sqrt"}
for op, f in UNARY.items():
    case = Case(op, 0 if op in EXACT else ULP, 0 if op in EXACT else 1e-45)
    for dtype in FLOATS:
        x = np.concatenate([EDGES, rng.standard_normal(20) * 3]).astype(dtype)
        if op in ("sin", "cos", "tan"):
            x = x[np.abs(x.astype(np.float64)) < 1e6]
        case.check([x], f(x.astype(np.float64)).astype(dtype))
    case.check([np.zeros((0, 3), np.float32)], np.zeros((0, 3), np.float32))
    if op in ("neg", "abs", "sign", "ceil", "floor", "round", "trunc", "relu", "square"):
        for dtype in INTS:
            info = np.iinfo(dtype)
            x = np.array([0, 1, 2, 5, info.max, info.min, info.max - 1], dtype)
            want = {"neg": lambda v: (0 - v.astype(np.int64)), "abs": np.abs, "sign": np.sign,
                    "relu": lambda v: np.maximum(v, 0), "square": lambda v: v * v}.get(op, lambda v: v)
            case.check([x], want(x).astype(dtype))
    if op in ("neg", "abs"):
        z = np.array([3 + 4j, -1 - 1j, 0], np.complex64)
        case.check([z], f(z))
    case.write(OUT)

case = Case("bit_not")
case.check([np.array([True, False])], np.array([False, True]))
for dtype in INTS:
    x = np.array([0, 1, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    case.check([x], ~x)
case.write(OUT)

for op, f in {"is_nan": np.isnan, "is_inf": np.isinf, "is_finite": np.isfinite}.items():
    case = Case(op)
    for dtype in FLOATS + [ml_dtypes.float8_e5m2]:
        x = EDGES.astype(dtype)
        case.check([x], f(x.astype(np.float64)))
    case.check([np.array([1, 2], np.int32)], f(np.array([1.0, 2.0])))
    case.write(OUT)

# ---- two operands ----


def pymod(a, b):
    return np.mod(a, b)


def nanmin(a, b):
    return np.minimum(a, b)


BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
          "mod": np.mod, "rem": np.fmod, "min": np.minimum, "max": np.maximum, "atan2": np.arctan2,
          "prelu": lambda a, b: np.where(a < 0, a * b, a)}
SHAPES = [((3, 4), (3, 4)), ((3, 4), ()), ((), (3, 4)), ((2, 3, 4), (3, 1)), ((2, 1, 4), (3, 1)),
          ((4,), (3, 4)), ((3, 1), (3, 5)), ((2, 3, 1, 5), (1, 3, 4, 1)), ((0, 3), (1, 3))]


def int_want(op, a, b, dtype):
    info = np.iinfo(dtype)
    span = 1 << info.bits
    out = []
    for p, q in np.broadcast(a, b):
        p, q = int(p), int(q)
        if op in ("div", "mod", "rem") and q == 0:
            r = 0
        elif op == "div":
            r = abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)
        elif op == "mod":
            r = p % q
        elif op == "rem":
            r = int(math.fmod(p, q)) if abs(p) < 2**53 and abs(q) < 2**53 else (abs(p) % abs(q)) * (1 if p >= 0 else -1)
        elif op == "pow":
            r = (0 if abs(p) != 1 else (p if q & 1 else 1)) if q < 0 else pow(p, q, span)
        elif op == "prelu":
            r = p * q if p < 0 else p
        else:
            r = {"add": p + q, "sub": p - q, "mul": p * q, "min": min(p, q), "max": max(p, q)}[op]
        r &= span - 1
        out.append(r - span if info.min < 0 and r > info.max else r)
    return np.array(out, dtype=object).astype(dtype).reshape(np.broadcast(a, b).shape)


for op, f in BINARY.items():
    approximate = op in ("pow", "atan2")
    case = Case(op, ULP if approximate else 0, 1e-45 if approximate else 0)
    for dtype in FLOATS:
        grid = EDGES[[0, 1, 2, 3, 5, 8, 10, 12, 16, 19, 20, 21]]
        a, b = np.meshgrid(grid, grid)
        a, b = a.reshape(-1).astype(dtype), b.reshape(-1).astype(dtype)
        wide = f(a.astype(np.float64), b.astype(np.float64))
        if op in ("mod", "rem"):  # fmod is exact, so float64 of NumPy is the reference
            wide = np.where(np.isfinite(a.astype(np.float64)), wide, np.nan)
        case.check([a, b], wide.astype(dtype))
    for sa, sb in SHAPES:
        a = rng.uniform(-3, 3, sa).astype(np.float32)
        b = rng.uniform(-3, 3, sb).astype(np.float32)
        if op == "prelu" and np.broadcast_shapes(sa, sb) != sa:
            continue
        case.check([a, b], f(a.astype(np.float64), b.astype(np.float64)).astype(np.float32))
    for dtype in INTS if op != "atan2" else []:
        info = np.iinfo(dtype)
        values = np.array([0, 1, 2, 3, 7, info.max, info.min, info.max // 2 + 1,
                           -1 if info.min < 0 else 5, -3 if info.min < 0 else 9], dtype)
        a, b = (m.reshape(-1) for m in np.meshgrid(values, values))
        case.check([a, b], int_want(op, a, b, dtype))
        case.check([values.reshape(5, 2), values[:2]], int_want(op, values.reshape(5, 2), values[:2], dtype))
    if op in ("add", "sub", "mul", "div"):
        for dtype in (np.complex64, np.complex128):
            a = np.array([1 + 2j, -3 + 0.5j, 0 + 1j], dtype)
            b = np.array([0.5 - 1j, 2 + 2j, 4 + 0j], dtype)
            case.tolerance = "// rtol 3e-07 atol 0.0" if op == "div" else case.tolerance
            case.check([a, b], f(a.astype(np.complex128), b.astype(np.complex128)).astype(dtype))
    if op in ("min", "max"):
        a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
        case.check([a, b], f(a, b))
    case.write(OUT)

for op, f in {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}.items():
    case = Case(op)
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    case.check([a, b], f(a, b))
    for dtype in INTS:
        a = np.array([0, 1, 6, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
        case.check([a, a[::-1].copy()], f(a, a[::-1]))
        case.check([a.reshape(5, 1), a], f(a.reshape(5, 1), a))
    case.write(OUT)

for op in ("shl", "shr"):
    case = Case(op)
    for dtype in INTS:
        info = np.iinfo(dtype)
        a = np.array([1, 5, info.max, info.min, info.max // 3], dtype)
        for s in (0, 1, 3, info.bits - 1, info.bits, min(info.max, 100)):
            want = []
            for v in a:
                v = int(v)
                r = (v << s if op == "shl" else v >> s) if s < info.bits else (0 if op == "shl" or v >= 0 else -1)
                r &= (1 << info.bits) - 1
                want.append(r - (1 << info.bits) if info.min < 0 and r > info.max else r)
            case.check([a, np.array(s, dtype)], np.array(want, dtype=object).astype(dtype))
    case.write(OUT)

for op, f in {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
              "ge": np.greater_equal}.items():
    case = Case(op)
    for dtype in FLOATS + INTS + [np.bool_, ml_dtypes.float8_e4m3fn]:
        x = np.array([0, 1, 2, 1, 0], dtype)
        if dtype in FLOATS:
            x = EDGES[[0, 1, 2, 3, 16, 19, 20, 21]].astype(dtype)
        a, b = (m.reshape(-1) for m in np.meshgrid(x, x))
        case.check([a, b], f(a.astype(np.float64), b.astype(np.float64)) if dtype not in INTS else f(a, b))
    big = np.array([2**63 - 1, 2**63, 2**64 - 1, 0], np.uint64)
    case.check([big.reshape(4, 1), big], f(big.reshape(4, 1), big))
    if op in ("eq", "ne"):
        z = np.array([1 + 1j, 1 - 1j], np.complex64)
        case.check([z.reshape(2, 1), z], f(z.reshape(2, 1), z))
    case.write(OUT)

case = Case("select")
c = rng.integers(0, 2, (3, 4)).astype(bool)
for dtype in FLOATS + INTS + [np.bool_, np.complex64, np.complex128, ml_dtypes.float8_e5m2]:
    x, y = (rng.integers(0, 2, (3, 4)).astype(dtype) for _ in range(2))
    case.check([c, x, y], np.where(c, x, y))
    case.check([c[:, :1], x, y[0]], np.where(c[:, :1], x, y[0]))
    case.check([c, x, y[0, 0]], np.where(c, x, y[0, 0]))
case.write(OUT)

case = Case("clamp")
for dtype in FLOATS:
    x = EDGES.astype(dtype)
    lo, hi = np.array(-1.5, dtype), np.array(2.0, dtype)
    case.check([x, lo, hi], np.minimum(np.maximum(x, lo), hi))
    case.check([x, lo], np.maximum(x, lo))
    case.check([x, None, hi], np.minimum(x, hi))
    case.check([x, hi, lo], np.minimum(np.maximum(x, hi), lo))
for dtype in INTS:
    info = np.iinfo(dtype)
    x = np.array([info.min, 0, 3, 5, info.max], dtype)
    case.check([x, np.array(1, dtype), np.array(4, dtype)], np.clip(x, 1, 4))
case.write(OUT)

case = Case("lerp", ULP)
x, y, w = (rng.standard_normal((3, 4)).astype(np.float32) for _ in range(3))
case.check([x, y, w], (x.astype(np.float64) + w.astype(np.float64) * (y.astype(np.float64) - x)).astype(np.float32))
case.check([x, y[0], w[0, 0]], (x.astype(np.float64) + np.float64(w[0, 0]) * (y[0].astype(np.float64) - x)).astype(np.float32))
case.write(OUT)

# ---- with attributes ----


def gelu(x, approximate):
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return vec(lambda v: 0.5 * v * math.erfc(-v / math.sqrt(2)))(x)


PARAM = {
    "silu": (lambda x, alpha=1.0: x / (1 + np.exp(-alpha * x)), [{}, {"alpha": 1.702}]),
    "gelu": (lambda x, approximate="none": gelu(x, approximate), [{}, {"approximate": "tanh"}]),
    "leaky_relu": (lambda x, alpha=0.01: np.where(x < 0, alpha * x, x), [{}, {"alpha": 0.25}]),
    "elu": (lambda x, alpha=1.0: np.where(x < 0, alpha * np.expm1(x), x), [{}, {"alpha": 2.0}]),
    "selu": (lambda x, alpha=1.6732632423543772, gamma=1.0507009873554805:
             gamma * np.where(x > 0, x, alpha * np.expm1(x)), [{}, {"alpha": 2.0, "gamma": 3.0}]),
    "celu": (lambda x, alpha=1.0: np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0),
             [{}, {"alpha": 2.0}]),
    "hard_sigmoid": (lambda x, alpha=0.2, beta=0.5: np.clip(alpha * x + beta, 0, 1),
                     [{}, {"alpha": 0.5, "beta": 0.25}]),
    "thresholded_relu": (lambda x, alpha=1.0: np.where(x > alpha, x, 0), [{}, {"alpha": 0.25}]),
    "shrink": (lambda x, lambd=0.5, bias=0.0: np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)),
               [{}, {"lambd": 1.5, "bias": 1.5}]),
}
for op, (f, variants) in PARAM.items():
    case = Case(op, ULP, 1e-45)
    for attrs in variants:
        for dtype in FLOATS:
            x = np.concatenate([EDGES, rng.standard_normal(20) * 3]).astype(dtype)
            if op == "gelu":
                x = x[np.isfinite(x.astype(np.float64)) & (np.abs(x.astype(np.float64)) < 90)]
            case.check([x], f(x.astype(np.float64), **attrs).astype(dtype), **attrs)
    case.write(OUT)

# ---- cast, bitcast ----

case = Case("cast")
for source in FLOATS + [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]:
    x = np.array([0.0, -0.0, 1.0, 1.4, -1.6, 2.5, 3.5, 100.3, -100.7, 0.3, 1e-3, 1.0009765625]).astype(source)
    for target in FLOATS + INTS + [np.bool_, np.complex64]:
        y = x
        if target in (np.uint8, np.uint16, np.uint32, np.uint64):
            y = np.abs(x.astype(np.float64)).astype(source)
        if target in (ml_dtypes.bfloat16, np.float16) and source is np.float64:
            case.check([y], y.astype(target), dtype=NAMES[np.dtype(target)])
            continue
        case.check([y], y.astype(np.float64).astype(target), dtype=NAMES[np.dtype(target)])
big = np.array([448, 464, 465, 1000, -1000, np.inf, -np.inf, np.nan, 57344, 61440, 1e9, 1e-9, 0.0019531, 2**-10])
f8 = ml_dtypes.float8_e4m3fn
case.check([big], np.array([448, 448, 448, 448, -448, 448, -448, np.nan, 448, 448, 448, 0, 0.0019531, 0]).astype(f8),
           dtype="f8e4m3fn")
case.check([big], big.astype(f8), dtype="f8e4m3fn", saturate=0)
f8 = ml_dtypes.float8_e5m2
case.check([big], np.array([448, 464, 465, 1000, -1000, 57344, -57344, np.nan, 57344, 57344, 57344, 0, 0.0019531, 2**-10]).astype(f8),
           dtype="f8e5m2")
case.check([big], big.astype(f8), dtype="f8e5m2", saturate=0)
for source in INTS:
    info = np.iinfo(source)
    x = np.array([0, 1, 2, 100, info.max, info.min, info.max - 1, info.max // 3], source)
    for target in INTS + [np.float32, np.float64, np.bool_]:
        case.check([x], x.astype(target), dtype=NAMES[np.dtype(target)])
x = np.array([-8, -1, 0, 3, 7], np.int8)
case.check([x], x.astype(ml_dtypes.int4), dtype="i4")
case.check([x.astype(ml_dtypes.int4)], x.astype(np.float32), dtype="f32")
u = np.array([0, 5, 15], np.uint8)
case.check([u], u.astype(ml_dtypes.uint4), dtype="u4")
case.check([u.astype(ml_dtypes.uint4)], u.astype(np.int32), dtype="i32")
case.check([np.array([True, False])], np.array([1.0, 0.0], np.float16), dtype="f16")
case.check([np.array([1 + 2j, 0 + 1j], np.complex64)], np.array([True, True]), dtype="bool")
case.check([np.array([1 + 2j, 0 + 1j], np.complex64)], np.array([1 + 2j, 0 + 1j], np.complex128), dtype="c128")
# out of range and NaN: the smallest integer, as the x86 conversion gives
case.check([np.array([1e20, -1e20, np.nan, 3e9])], np.array([-2**31] * 4, np.int32), dtype="i32")
case.check([np.array([1e20, -1e20, np.nan])], np.array([-2**63] * 3, np.int64), dtype="i64")
case.write(OUT)

case = Case("bitcast")
x = rng.standard_normal(5).astype(np.float32)
case.check([x], x.view(np.uint32), dtype="u32")
case.check([x.view(np.int32)], x, dtype="f32")
case.check([x.astype(np.float16)], x.astype(np.float16).view(np.uint16), dtype="u16")
case.write(OUT)

# ---- sources ----

case = Case("iota")
case.check([], np.arange(5), shape=[5])
case.check([], np.broadcast_to(np.arange(3, dtype=np.float32).reshape(3, 1), (2, 3, 4)), shape=[2, 3, 4], axis=1, dtype="f32")
case.check([], np.broadcast_to(np.arange(4, dtype=np.uint8), (3, 4)), shape=[3, 4], axis=-1, dtype="u8")
case.check([], np.broadcast_to(np.arange(300).astype(BF16).reshape(300, 1), (300, 2)), shape=[300, 2], axis=0, dtype="bf16")
case.check([], np.zeros((0, 2), np.int64), shape=[0, 2])
case.write(OUT)

case = Case("dims")
case.check([], np.array([3, 0, 7]), values=[3, 0, 7])
case.check([], np.array(5), values=[5], scalar=1)
case.write(OUT)


case = Case("rng_bits")
for n, seed, offset in ((8, 0, 0), (7, 12345678901234, 3), (5, -1, 2**40)):
    case.check([np.array(seed), np.array(offset)], words(n, seed, offset), shape=[n])
case.check([np.array(1), np.array(0)], words(6, 1, 0).reshape(2, 3), shape=[2, 3])
case.write(OUT)

case = Case("rng_uniform", ULP)
u = (words(50, 9, 2) >> np.uint32(8)).astype(np.float64) / 2**24
case.check([np.array(9), np.array(2)], u.astype(np.float32), shape=[50])
case.check([np.array(9), np.array(2)], (-2 + 5 * u), shape=[50], dtype="f64", low=-2.0, high=3.0)
case.write(OUT)


def normals(n, seed, offset):
    """Box-Muller on the words of ceil(n/4) blocks."""
    w = (words((n + 3) // 4 * 4, seed, offset) >> np.uint32(8)).astype(np.float64)
    u, v = (w[0::2] + 1) / 2**24, w[1::2] / 2**24
    r = np.sqrt(-2 * np.log(u))
    return np.stack([r * np.cos(2 * np.pi * v), r * np.sin(2 * np.pi * v)], 1).reshape(-1)[:n]


case = Case("rng_normal", 4.8e-7, 1e-7)
for n, seed, offset in ((64, 9, 2), (7, 12345678901234, 3), (1, -1, 2**40), (0, 0, 0)):
    case.check([np.array(seed), np.array(offset)], normals(n, seed, offset).astype(np.float32), shape=[n])
case.check([np.array(9), np.array(2)], (-2 + 5 * normals(6, 9, 2)).reshape(2, 3), shape=[2, 3], dtype="f64", mean=-2.0, scale=5.0)
for dtype in (np.float16, BF16):
    case.check([np.array(3), np.array(0)], normals(10, 3, 0).astype(dtype), shape=[10], dtype=NAMES[np.dtype(dtype)])
case.write(OUT)

case = Case("check")
case.check([np.array([True, True])], np.array([True, True]), message="never")
case.write(OUT)
