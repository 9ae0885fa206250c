"""Cases of movement, reductions, running sums and order."""
import sys

import ml_dtypes
import numpy as np
from case_writer import BF16, FLOATS, INTS, Case

np.seterr(all="ignore")
rng = np.random.default_rng(11)
OUT = sys.argv[1] if len(sys.argv) > 1 else "."
ULP = 1.2e-7
KINDS = [np.float32, np.float64, np.int64, np.uint8, np.int16, BF16, np.bool_, np.complex128,
         ml_dtypes.int4, ml_dtypes.uint4]


def data(shape, dtype):
    n = int(np.prod(shape))
    x = np.arange(n) % 7
    if dtype is np.bool_:
        x = x % 2
    return x.astype(np.int8 if dtype in (ml_dtypes.int4, ml_dtypes.uint4) else dtype).reshape(shape).astype(dtype)


def each(case, shape, f, attrs):
    """f moves elements: given as a function of an index array."""
    for dtype in KINDS:
        x = data(shape, dtype)
        index = f(np.arange(x.size).reshape(shape))
        case.check([x], x.reshape(-1)[index] if x.size else np.zeros(index.shape, dtype), **attrs)


case = Case("reshape")
each(case, (2, 3, 4), lambda i: i.reshape(6, 4), {"shape": [6, 4]})
each(case, (6,), lambda i: i.reshape(1, 3, 1, 2), {"shape": [1, 3, 1, 2]})
case.check([np.zeros((0, 3), np.float32)], np.zeros((3, 0), np.float32), shape=[3, 0])
case.check([np.array(3.0)], np.array([3.0]), shape=[1])
case.write(OUT)

case = Case("transpose")
for shape, perm in (((2, 3), [1, 0]), ((2, 3, 5), [2, 0, 1]), ((2, 3, 4, 5), [0, 2, 1, 3]),
                    ((3, 1, 2), [1, 0, 2]), ((4,), [0])):
    each(case, shape, lambda i: i.transpose(perm), {"perm": perm})
case.check([np.array(2.0, np.float32)], np.array(2.0, np.float32), perm=[])
case.check([np.zeros((0, 3), np.float32)], np.zeros((3, 0), np.float32), perm=[1, 0])
big = (np.arange(96 * 70) % 10).astype(np.int8).reshape(96, 70)
case.check([big], big.T, perm=[1, 0])
shape = (2, 35, 3, 33)  # larger than a tile; a checksum with weights 0, 1, 2, ... stands for all elements
count = int(np.prod(shape))
line = case.node("iota", [], {"shape": [count]})[0]
weights = case.node("cast", [line], {"dtype": "f64"})[0]
x = case.node("reshape", [case.node("mod", [line, case.const(np.array(7))])[0]], {"shape": list(shape)})[0]
for dtype in ("f64", "u8", "c128", "f32", "i16"):
    for perm in ([0, 3, 1, 2], [3, 2, 1, 0], [2, 0, 3, 1]):
        y = case.node("transpose", [case.node("cast", [x], {"dtype": dtype})[0]], {"perm": perm})[0]
        y = case.node("reshape", [case.node("cast", [y], {"dtype": "f64"})[0]], {"shape": [count]})[0]
        want = (np.arange(count) % 7).reshape(shape).transpose(perm).reshape(-1) @ np.arange(count)
        case.expect(case.node("reduce_sum", [case.node("mul", [y, weights])[0]], {"axes": [0]})[0],
                    np.array(float(want)))
case.write(OUT)

case = Case("expand")
for shape, to in (((3, 1), (2, 3, 4)), ((1,), (5,)), ((), (2, 2)), ((2, 3), (2, 3)), ((1, 3), (0, 3))):
    each(case, shape, lambda i: np.broadcast_to(i, to), {"shape": list(to)})
case.write(OUT)

case = Case("slice")
for shape, starts, sizes, steps in (
        ((5,), [1], [3], [1]), ((5,), [4], [5], [-1]), ((4, 6), [1, 5], [2, 3], [2, -2]),
        ((2, 3, 4), [0, 1, 0], [2, 2, 4], [1, 1, 1]), ((5,), [5], [0], [1]), ((5,), [0], [2], [3])):
    def cut(i):
        for a, (s, n, t) in enumerate(zip(starts, sizes, steps)):
            i = np.take(i, [s + k * t for k in range(n)], axis=a)
        return i.astype(np.int64)
    each(case, shape, cut, {"starts": starts, "sizes": sizes, "steps": steps})
case.write(OUT)

case = Case("concat")
for axis, shapes in ((0, [(2, 3), (1, 3), (4, 3)]), (1, [(2, 3), (2, 1)]), (-1, [(2, 2, 1), (2, 2, 3)]),
                     (0, [(3,)]), (1, [(2, 0), (2, 2), (2, 1)])):
    for dtype in KINDS:
        xs = [data(s, dtype) for s in shapes]
        wide = np.int64 if dtype in (ml_dtypes.int4, ml_dtypes.uint4) else dtype
        case.check(xs, np.concatenate([x.astype(wide) for x in xs], axis).astype(dtype), axis=axis)
case.write(OUT)

case = Case("tile")
for shape, repeats in (((2, 3), [2, 2]), ((3,), [3]), ((2, 1, 2), [1, 3, 2]), ((2, 3), [0, 1])):
    each(case, shape, lambda i: np.tile(i, repeats), {"repeats": repeats})
case.write(OUT)

case = Case("pad")
for shape, low, high in (((5,), [2], [3]), ((3, 4), [1, 2], [2, 0]), ((4, 4), [-1, 1], [0, -2])):
    for mode in ("reflect", "edge", "wrap"):
        def mapped(i):
            for a in range(i.ndim):
                n = i.shape[a]
                p = np.arange(-low[a], n + high[a])
                m = {"edge": np.clip(p, 0, n - 1), "wrap": p % n,
                     "reflect": np.abs((p + n - 1) % (2 * n - 2) - (n - 1)) if n > 1 else p * 0}[mode]
                i = np.take(i, m, axis=a)
            return i
        each(case, shape, mapped, {"low": low, "high": high, "mode": mode})
    for dtype in KINDS:
        x = data(shape, dtype)
        wide = x.astype(np.complex128)
        keep = wide[tuple(slice(max(0, -l), s + min(0, h)) for l, h, s in zip(low, high, shape))]
        value = np.array(1).astype(dtype)
        amounts = [(max(l, 0), max(h, 0)) for l, h in zip(low, high)]
        padded = np.pad(keep, amounts, constant_values=1)
        case.check([x, value], (padded if dtype is np.complex128 else padded.real).astype(dtype), low=low, high=high)
        zeros = np.pad(keep, amounts)
        case.check([x], (zeros if dtype is np.complex128 else zeros.real).astype(dtype), low=low, high=high)
x = np.arange(3, dtype=np.float32)
case.check([x], np.array([1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0], np.float32), low=[5], high=[6], mode="reflect")
case.write(OUT)

case = Case("gather")
for shape, axis, index in (((5,), 0, np.array([0, 4, -1])), ((3, 4), 1, np.array([[0, 3], [2, -4]])),
                           ((3, 4), 0, np.array(2)), ((2, 3, 4), -2, np.array([2, 0], np.int32)),
                           ((2, 3), 0, np.zeros((0,), np.int64))):
    for dtype in KINDS:
        x = data(shape, dtype)
        i = np.take(np.arange(x.size).reshape(shape), index, axis=axis)
        case.check([x, index], x.reshape(-1)[i], axis=axis)
case.write(OUT)

case = Case("gather_elements")
for shape, axis, index in (((3, 3), 0, np.array([[1, 2, 0], [2, 0, 0]])), ((2, 2), 1, np.array([[0, -1], [1, 0]])),
                           ((2, 3, 2), -1, np.array([[[1], [0], [1]]], np.int32))):
    for dtype in KINDS:
        x = data(shape, dtype)
        flat = np.arange(x.size).reshape(shape)
        clip = flat[tuple(slice(0, n) if a != axis % len(shape) else slice(None) for a, n in enumerate(index.shape))]
        case.check([x, index], x.reshape(-1)[np.take_along_axis(clip, index.astype(np.int64), axis)], axis=axis)
case.write(OUT)

case = Case("gather_nd")
for dtype in KINDS:
    x = data((2, 3, 4), dtype)
    index = np.array([[0, 1], [1, -1]])
    case.check([x, index], x[[0, 1], [1, 2]])
    case.check([x, np.array([[[1, 2, 3]], [[0, 0, -4]]])], np.stack([x[1:2, 2, 3], x[0:1, 0, 0]]))
    case.check([x, np.array([[2], [0]])], np.stack([x[0, 2], x[1, 0]]), batch_dims=1)
case.write(OUT)

case = Case("scatter_elements")
COMBINE = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
for dtype in (np.float32, np.float16, np.int32, np.uint64, np.int8):
    x = data((3, 4), dtype)
    index = np.array([[0, 2, 1, 0], [2, -1, 1, 0]])
    u = (np.arange(8).reshape(2, 4) + 3).astype(dtype)
    for axis in (0, 1):
        for reduction in ("none", "add", "mul", "min", "max"):
            y = x.copy()
            for p in np.ndindex(index.shape):
                q = list(p)
                q[axis] = index[p]
                y[tuple(q)] = u[p] if reduction == "none" else COMBINE[reduction](y[tuple(q)], u[p])
            case.check([x, index, u], y, axis=axis, reduction=reduction)
for dtype in (np.bool_, np.complex64):
    x = data((3,), dtype)
    case.check([x, np.array([2]), np.array([1], dtype)], np.array([x[0], x[1], 1], dtype), axis=0)
case.write(OUT)

case = Case("scatter_nd")
for dtype in (np.float32, np.float16, np.int32, np.uint64):
    x = data((4, 2, 3), dtype)
    for index, shape in ((np.array([[0], [3], [0]]), (3, 2, 3)), (np.array([[[1, -1], [2, 0]]]), (1, 2, 3))):
        u = (np.arange(np.prod(shape)).reshape(shape) % 5 + 2).astype(dtype)
        for reduction in ("none", "add", "mul", "min", "max"):
            y = x.copy()
            for p in np.ndindex(index.shape[:-1]):
                q = tuple(index[p])
                y[q] = u[p] if reduction == "none" else COMBINE[reduction](y[q], u[p])
            case.check([x, index, u], y, reduction=reduction)
case.write(OUT)

case = Case("one_hot")
for index in (np.array([0, 2, -1, 5, -6]), np.array([[1, 0], [3, 4]], np.int32), np.array(2)):
    for axis in (-1, 0):
        for dtype in (np.float32, np.int64, np.bool_):
            i = index.astype(np.int64)
            i = np.where(i < 0, i + 5, i)
            want = np.expand_dims(i, -1 if axis == -1 else 0) == np.arange(5).reshape(
                [5] + [1] * i.ndim if axis == 0 else [5])
            off, on = np.array(0, dtype), np.array(1 if dtype is np.bool_ else 7, dtype)
            case.check([index, off, on], np.where(want, on, off), depth=[5], axis=axis)
case.write(OUT)

case = Case("trilu")
for shape in ((3, 4), (2, 4, 3), (1, 1), (2, 0, 3)):
    for k in (0, 1, -1, 5, -5):
        for upper in (0, 1):
            x = np.arange(1, 1 + np.prod(shape)).reshape(shape).astype(np.float32)
            case.check([x], (np.triu if upper else np.tril)(x, k), k=[k], upper=upper)
case.write(OUT)

# ---- reductions ----


def lse(x, axis, keepdims):
    m = x.max(axis=axis, keepdims=True, initial=-np.inf)
    s = np.where(np.isfinite(m), m, 0)
    y = np.log(np.exp(x - s).sum(axis=axis, keepdims=True)) + s
    return y if keepdims else y.squeeze(axis)


REDUCE = {
    "reduce_sum": np.sum, "reduce_prod": np.prod, "reduce_mean": np.mean,
    "reduce_l1": lambda x, **k: np.sum(np.abs(x), **k),
    "reduce_l2": lambda x, **k: np.sqrt(np.sum(x * x, **k)),
    "reduce_sum_square": lambda x, **k: np.sum(x * x, **k),
    "reduce_log_sum": lambda x, **k: np.log(np.sum(x, **k)),
    "reduce_log_sum_exp": lse,
    "reduce_min": lambda x, **k: np.min(x, initial=np.inf, **k),
    "reduce_max": lambda x, **k: np.max(x, initial=-np.inf, **k),
}
for op, f in REDUCE.items():
    case = Case(op, ULP)
    for dtype in FLOATS:
        for shape, axes in (((3, 4), (0,)), ((3, 4), (1,)), ((3, 4), (0, 1)), ((2, 3, 4, 5), (1, 3)),
                            ((2, 3, 4, 5), (0, 2)), ((300,), (0,)), ((3, 1, 2), (-1,)), ((), ()),
                            ((2, 0, 3), (1,)), ((0, 3), (1,))):
            x = rng.uniform(0.25, 1.5, shape).astype(dtype)
            if shape == (300,) and op == "reduce_prod":
                x = np.exp2(rng.integers(-1, 2, shape)).astype(dtype)
            for keep in (0, 1):
                want = f(x.astype(np.float64), axis=tuple(axes), keepdims=bool(keep))
                case.check([x], np.asarray(want).astype(dtype), axes=list(axes), keepdims=keep)
    for row in ([1, np.nan, 3], [np.inf, 1, 2], [-np.inf, -np.inf, -np.inf], [np.inf, np.inf, 1]):
        x = np.array([row], np.float32)
        if op in ("reduce_min", "reduce_max"):
            want = (np.min if op == "reduce_min" else np.max)(x, axis=1)
        else:
            want = f(x.astype(np.float64), axis=1, keepdims=False)
        case.check([x], np.asarray(want).astype(np.float32), axes=[1])
    if op in ("reduce_sum", "reduce_prod", "reduce_min", "reduce_max", "reduce_sum_square", "reduce_l1"):
        for dtype in INTS:
            info = np.iinfo(dtype)
            x = np.array([[1, 2, 3], [info.max, 1, info.min], [5, 7, info.max // 2 + 9]], dtype)
            wide = x.astype(object)
            for axis in (0, 1):
                want = {"reduce_sum": wide.sum(axis), "reduce_prod": wide.prod(axis), "reduce_min": wide.min(axis),
                        "reduce_max": wide.max(axis), "reduce_sum_square": (wide * wide).sum(axis),
                        "reduce_l1": np.abs(wide).sum(axis)}[op]
                span = 1 << info.bits
                want = [(int(v) % span) - (span if info.min < 0 and int(v) % span > info.max else 0) for v in want]
                case.check([x], np.array(want, object).astype(dtype), axes=[axis])
            if op != "reduce_l1" and op != "reduce_sum_square":
                empty = {"reduce_sum": 0, "reduce_prod": 1, "reduce_min": info.max, "reduce_max": info.min}[op]
                case.check([np.zeros((0,), dtype)], np.array(empty, dtype), axes=[0])
    if op in ("reduce_min", "reduce_max"):
        x = np.array([[True, False], [True, True]])
        case.check([x], (np.min if op == "reduce_min" else np.max)(x, axis=1), axes=[1])
        case.check([np.zeros((0,), bool)], np.array(op == "reduce_min"), axes=[0])
    if op == "reduce_mean":
        case.check([np.array([1, 2, 4, -9], np.int32)], np.array(0, np.int32), axes=[0])
        case.check([np.array([-5, -2], np.int64)], np.array(-3, np.int64), axes=[0])
    case.write(OUT)

for op, f in {"argmax": np.argmax, "argmin": np.argmin}.items():
    case = Case(op)
    for dtype in FLOATS + INTS:
        x = rng.integers(0, 4, (3, 5, 4)).astype(dtype)
        for axis in (0, 1, -1):
            for keep in (0, 1):
                case.check([x], f(x, axis=axis, keepdims=bool(keep)), axis=axis, keepdims=keep)
            last = x.shape[axis] - 1 - f(np.flip(x, axis), axis=axis)
            case.check([x], last, axis=axis, select_last=1)
    long = ((np.arange(600) * 37) % 501).astype(np.float32)
    case.check([long], np.array(f(long)), axis=0)
    x = np.array([1, np.nan, 3, np.nan], np.float32)
    case.check([x], np.array(1), axis=0)
    case.check([x], np.array(3), axis=0, select_last=1)
    big = np.array([0, 2**63, 2**64 - 1, 5], np.uint64)
    case.check([big], np.array(f(big)), axis=0)
    case.write(OUT)

for op, f, one in (("cumsum", np.cumsum, 0), ("cumprod", np.cumprod, 1)):
    case = Case(op, ULP)
    for dtype in [np.float32, np.float64, np.int32, np.int64, np.uint8]:
        for shape, axis in (((5,), 0), ((2, 3), 0), ((2, 3), 1), ((2, 3, 4), -2), ((2, 0), 1), ((700,), 0)):
            x = rng.integers(1, 3, shape).astype(dtype) if shape != (700,) else np.ones(shape, dtype)
            for reverse in (0, 1):
                for exclusive in (0, 1):
                    y = np.flip(x, axis) if reverse else x
                    wide = np.float64 if dtype in (np.float32, np.float64) else object
                    z = f(y.astype(wide), axis)
                    if exclusive:
                        z = np.roll(z, 1, axis)
                        if z.size:
                            np.moveaxis(z, axis, 0)[0] = one
                    z = np.flip(z, axis) if reverse else z
                    if wide is object:
                        info = np.iinfo(dtype)
                        z = z % (1 << info.bits)
                        if info.min < 0:
                            z = np.where(z > info.max, z - (1 << info.bits), z)
                    case.check([x], z.astype(dtype), axis=axis, reverse=reverse, exclusive=exclusive)
    case.write(OUT)

# ---- order ----


def stable(x, axis, descending):
    key = x.astype(object) if x.dtype.kind in "iu" else x.astype(np.float64)
    if x.dtype.kind in "iu":
        key = -key if descending else key
        return np.apply_along_axis(lambda v: np.array(sorted(range(len(v)), key=lambda k: (v[k], k)), np.int64), axis, key)
    key = np.where(np.isnan(key), np.inf, key) + 0.0
    nan = np.isnan(x.astype(np.float64))

    def line(v):
        n = len(v) // 2
        return np.array(sorted(range(n), key=lambda k: ((-v[n + k], -v[k]) if descending else (v[n + k], v[k])) + (k,)), np.int64)
    return np.apply_along_axis(line, axis, np.concatenate([key, nan.astype(np.float64)], axis))


case, top = Case("sort"), Case("topk")
for dtype in FLOATS + INTS:
    for shape, axis in (((7,), 0), ((3, 40), 1), ((4, 3, 2), -2), ((0, 2), 0), ((1, 5), 0)):
        x = rng.integers(0, 5, shape).astype(dtype)
        for descending in (0, 1):
            i = stable(x, axis, descending) if x.size else np.zeros(shape, np.int64)
            case.check([x], [np.take_along_axis(x, i, axis), i], axis=axis, descending=descending)
            k = min(2, shape[axis])
            j = np.take(i, range(k), axis=axis).astype(np.int64)
            top.check([x], [np.take_along_axis(x, j, axis), j], k=[k], axis=axis, largest=descending)
x = np.array([1, np.nan, -np.inf, 0.0, -0.0, np.inf, np.nan, -1], np.float32)
for descending in (0, 1):
    i = stable(x, 0, descending)
    case.check([x], [x[i], i], descending=descending)
    top.check([x], [x[i[:3]], i[:3]], k=[3], largest=descending)
case.write(OUT)
top.write(OUT)

case = Case("nonzero")
for dtype in FLOATS + INTS + [np.bool_, np.complex64]:
    x = np.array([[0, 1, 0], [1, 0, 1]]).astype(dtype)
    case.check([x], np.array(np.nonzero(x)))
case.check([np.zeros((2, 2))], np.zeros((2, 0), np.int64))
case.check([np.array([np.nan, -0.0, 1e-320])], np.array([[0, 2]]))
case.write(OUT)

case = Case("unique")
for dtype in FLOATS + INTS:
    x = np.array([2, 1, 1, 3, 4, 3], dtype)
    y, first, inverse, counts = np.unique(x.astype(np.float64), return_index=True, return_inverse=True, return_counts=True)
    case.check([x], [y.astype(dtype), first, inverse.reshape(-1), counts])
    case.check([x], [np.array([2, 1, 3, 4], dtype), np.array([0, 1, 3, 4]), np.array([0, 1, 1, 2, 3, 2]),
                     np.array([1, 2, 2, 1])], sorted=0)
x = np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4]], np.float32)
case.check([x], [np.array([[1, 0, 0], [2, 3, 4]], np.float32), np.array([0, 2]), np.array([0, 0, 1]), np.array([2, 1])], axis=0)
x = np.array([[[1, 1], [0, 1], [2, 1], [0, 1]], [[1, 1], [0, 1], [2, 1], [0, 1]]], np.int32)
case.check([x], [np.array([[[0, 1], [1, 1], [2, 1]], [[0, 1], [1, 1], [2, 1]]], np.int32), np.array([1, 0, 2]),
                 np.array([1, 0, 2, 0]), np.array([2, 1, 1])], axis=1)
case.check([x.reshape(2, 8)], [np.unique(x)])
case.check([np.zeros((0,), np.int64)], [np.zeros((0,), np.int64)])
case.write(OUT)
