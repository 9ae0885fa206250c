"""Cases of reduce_window and the pools. Expected: loops over the definitions in
float64 or 64-bit integers. Run from anywhere."""
import itertools
import math
import os

import numpy as np
from case_writer import FLOATS, Case

np.seterr(all="ignore")
OUT = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(20240618)
ULP = 1.2e-7
F32, F64 = np.float32, np.float64


def numbers(shape, dtype=F32):
    if dtype in FLOATS:
        return rng.standard_normal(shape).astype(F32).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def wide(x):
    return x.astype(F64 if x.dtype.kind not in "iu" else np.int64)


def positions(size, window, strides, pads, dilations):
    n = len(size)
    return [(size[a] + pads[a] + pads[n + a] - dilations[a] * (window[a] - 1) - 1) // strides[a] + 1 for a in range(n)]


def taps(p, size, window, strides, pads, dilations):
    """(tap, index in the image) of the taps of position p that lie inside."""
    for k in itertools.product(*map(range, window)):
        i = tuple(p[a] * strides[a] + k[a] * dilations[a] - pads[a] for a in range(len(size)))
        if all(0 <= i[a] < size[a] for a in range(len(size))):
            yield k, i


def lowest(dtype):
    return dtype.type(-np.inf) if dtype.kind not in "iu" else np.iinfo(dtype).min


def highest(dtype):
    return dtype.type(np.inf) if dtype.kind not in "iu" else np.iinfo(dtype).max


def windows(x, n, window, strides, pads, dilations, rule):
    """rule(values, indices) at every position of the n trailing axes."""
    lead, size = x.shape[:x.ndim - n], x.shape[x.ndim - n:]
    out = positions(size, window, strides, pads, dilations)
    y = {}
    for at in itertools.product(*map(range, lead + tuple(out))):
        places = [at[:len(lead)] + i for _, i in taps(at[len(lead):], size, window, strides, pads, dilations)]
        y[at] = rule([x[i] for i in places], places)
    return lead + tuple(out), y


def array(shape, values, dtype):
    y = np.zeros(shape, dtype)
    for at, v in values.items():
        y[at] = v
    return y


def reduce_rule(kind, dtype):
    def rule(values, _):
        if kind == "sum":
            return np.array([wide(v) for v in values]).sum().astype(dtype) if values else 0
        start = lowest(dtype) if kind == "max" else highest(dtype)
        return (np.maximum if kind == "max" else np.minimum).reduce(np.array(values + [start], dtype))
    return rule


case = Case("reduce_window", ULP, 1e-12)
for kind in ("sum", "max", "min"):
    for dtype in FLOATS + [np.int8, np.uint8, np.int32, np.int64]:
        x = numbers((2, 4, 3), dtype)
        shape, y = windows(x, 2, (2, 2), (1, 2), (1, 0, 0, 1), (1, 1), reduce_rule(kind, x.dtype))
        case.check([x], array(shape, y, dtype), kind=kind, window=[2, 2], strides=[1, 2], pads=[1, 0, 0, 1], dilations=[1, 1])
    for size, window, strides, pads, dilations in (((6,), [2], [1], [3, 3], [2]), ((5,), [2], [1], [-1, -1], [1]), ((3, 2, 3), [2, 1, 2], [1, 1, 1], [0, 0, 1, 0, 0, 0], [1, 1, 2]),
                                                   ((1, 0), [1, 1], [1, 1], [0, 1, 0, 1], [1, 1]), ((12,), [4], [4], [0, 0], [1])):
        x = numbers(size)
        shape, y = windows(x, len(size), window, strides, pads, dilations, reduce_rule(kind, x.dtype))
        case.check([x], array(shape, y, F32), kind=kind, window=window, strides=strides, pads=pads, dilations=dilations)
    x = np.array([0, np.nan, 1, -np.inf, np.inf, 2, 3], F32)
    shape, y = windows(x, 1, [2], [1], [1, 1], [1], reduce_rule(kind, x.dtype))
    case.check([x], array(shape, y, F32), kind=kind, window=[2], strides=[1], pads=[1, 1], dilations=[1])
case.write(OUT)


def flat(x, i, column_major):
    spatial = np.ravel_multi_index(i[2:], x.shape[2:], order="F" if column_major else "C")
    return (i[0] * x.shape[1] + i[1]) * math.prod(x.shape[2:]) + int(spatial)


def max_pool(x, window, strides, pads, dilations, column_major):
    def rule(values, places):
        best = 0
        for k in range(1, len(values)):
            if values[k] > values[best]:
                best = k
        return values[best], flat(x, places[best], column_major)
    shape, y = windows(x, x.ndim - 2, window, strides, pads, dilations, rule)
    return [array(shape, {k: v[j] for k, v in y.items()}, t) for j, t in ((0, x.dtype), (1, np.int64))]


WINDOWS = (((7,), [3], [2], [1, 1], [1]), ((5, 4), [2, 3], [2, 1], [1, 1, 0, 1], [1, 1]), ((5, 5), [2, 2], [1, 1], [0] * 4, [2, 3]),
           ((3, 3, 2), [2, 2, 1], [1, 2, 1], [0, 1, 0, 1, 0, 0], [1, 1, 1]), ((4, 4), [4, 4], [1, 1], [0] * 4, [1, 1]))
case = Case("max_pool")
for dtype in FLOATS + [np.int8, np.uint8, np.int32]:
    x = numbers((1, 2, 4, 4), dtype)
    case.check([x], max_pool(x, [2, 2], [2, 2], [1] * 4, [1, 1], 0), window=[2, 2], strides=[2, 2], pads=[1] * 4, dilations=[1, 1])
for size, window, strides, pads, dilations in WINDOWS:
    x = np.round(numbers((2, 2, *size)))  # many equal values: the first counts
    for column_major in (0, 1):
        wants = max_pool(x, window, strides, pads, dilations, column_major)
        case.check([x], wants, window=window, strides=strides, pads=pads, dilations=dilations, column_major=column_major)
    case.check([x], wants[:1], window=window, strides=strides, pads=pads, dilations=dilations)
x = np.array([[[-np.inf, -np.inf, -1, np.inf, 2, -0.0, 0.0]]], F32)
case.check([x], max_pool(x, [2], [1], [0, 0], [1], 0), window=[2], strides=[1], pads=[0, 0], dilations=[1])
x = np.zeros((0, 2, 4), F32)
case.check([x], max_pool(x, [2], [1], [0, 0], [1], 0), window=[2], strides=[1], pads=[0, 0], dilations=[1])
x = np.array([[[1, np.nan, 2, 3]]], F32)
case.check([x], [np.array([[[np.nan, np.nan, 3]]], F32)], window=[2], strides=[1], pads=[0, 0], dilations=[1])
case.write(OUT)


def avg_pool(x, window, strides, pads, dilations, include_pad, extra):
    n = x.ndim - 2
    size = x.shape[2:]
    padded = [size[a] + pads[a] + pads[n + a] for a in range(n)]
    more = list(pads[:n]) + [pads[n + a] + extra[a] for a in range(n)]
    out = positions(size, window, strides, more, dilations)
    y = np.zeros(x.shape[:2] + tuple(out))
    for p in itertools.product(*map(range, out)):
        inside = [i for _, i in taps(p, size, window, strides, more, dilations)]
        count = len(inside)
        if include_pad:
            count = len(list(taps(p, padded, window, strides, [0] * (2 * n), dilations)))
        y[(slice(None), slice(None)) + p] = sum((wide(x)[(slice(None), slice(None)) + i] for i in inside), 0.0) / count
    return y.astype(x.dtype)


case = Case("avg_pool", ULP, 1e-12)
for dtype in FLOATS:
    x = numbers((1, 2, 4, 4), dtype)
    for include in (0, 1):
        case.check([x], avg_pool(x, [3, 2], [2, 2], [1] * 4, [1, 1], include, [0, 0]), window=[3, 2], strides=[2, 2], pads=[1] * 4, dilations=[1, 1],
                   include_pad=include)
for size, window, strides, pads, dilations in WINDOWS:
    x = numbers((2, 1, *size))
    for include, more in itertools.product((0, 1), (0, 1)):
        extra = [more] * len(size)
        if more and any(s == 1 for s in strides):
            continue
        case.check([x], avg_pool(x, window, strides, pads, dilations, include, extra), window=window, strides=strides, pads=pads,
                   dilations=dilations, include_pad=include, ceil_extra=extra)
x = np.array([[[1, np.nan, 2, 3, np.inf, 1, -np.inf, np.inf]]], F32)
case.check([x], avg_pool(x, [2], [1], [0, 0], [1], 0, [0]), window=[2], strides=[1], pads=[0, 0], dilations=[1])
x = np.zeros((0, 1, 3), F32)
case.check([x], np.zeros((0, 1, 2), F32), window=[2], strides=[1], pads=[0, 0], dilations=[1])
case.write(OUT)


def lp_pool(x, window, strides, pads, dilations, p):
    def rule(values, _):
        return sum(abs(float(v)) ** p for v in values) ** (1 / p)
    shape, y = windows(x, x.ndim - 2, window, strides, pads, dilations, rule)
    return array(shape, y, F64).astype(x.dtype)


case = Case("lp_pool", 2.4e-7, 1e-12)
for p in (1, 2, 3):
    for dtype in FLOATS if p == 2 else (F32,):
        x = numbers((1, 2, 4, 4), dtype)
        case.check([x], lp_pool(x, [2, 3], [1, 2], [1, 0, 0, 1], [1, 1], p), window=[2, 3], strides=[1, 2], pads=[1, 0, 0, 1], dilations=[1, 1], p=p)
    for size, window, strides, pads, dilations in WINDOWS:
        x = numbers((1, 1, *size))
        case.check([x], lp_pool(x, window, strides, pads, dilations, p), window=window, strides=strides, pads=pads, dilations=dilations, p=p)
    x = np.array([[[1, np.nan, 2, 3, -np.inf, 1, -0.0, 0]]], F32)
    case.check([x], lp_pool(x, [2], [1], [0, 0], [1], p), window=[2], strides=[1], pads=[0, 0], dilations=[1], p=p)
case.write(OUT)
