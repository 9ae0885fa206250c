"""Cases of grid_sample, roi_align and max_unpool. Expected: the texts of ONNX GridSample, RoiAlign and
MaxUnpool point by point in float64 (reflection by stepping from border to border). Run from anywhere."""
import itertools
import math
import os

import numpy as np
from case_writer import Case, FLOATS

OUT = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(20240615)


def reflect(v, lo, hi):
    if hi <= lo:
        return lo
    while not lo <= v <= hi:
        v = 2 * lo - v if v < lo else 2 * hi - v
    return v


def kernel(mode, d):
    d, a = abs(d), -0.75
    if mode == "linear":
        return max(1 - d, 0)
    return (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a


def taps(g, n, mode, padding, align):
    """(index or None, weight) along one axis."""
    x = (g + 1) / 2 * (n - 1) if align else ((g + 1) * n - 1) / 2
    lo, hi = (0, n - 1) if align else (-0.5, n - 0.5)
    if mode == "nearest":
        x = round(x)  # halves to even
    if not lo <= x <= hi and not (mode == "cubic" and padding == "border"):  # PyTorch, ONNX Runtime: taps alone
        x = {"zeros": x, "border": min(max(x, 0), n - 1), "reflection": reflect(x, lo, hi)}[padding]
    first = math.floor(x)
    found = []
    for i in [first] if mode == "nearest" else [first, first + 1] if mode == "linear" else range(first - 1, first + 3):
        w = 1.0 if mode == "nearest" else kernel(mode, x - i)
        if padding == "reflection":
            i = min(max(int(reflect(i, lo, hi)), 0), n - 1)
        elif padding == "border":
            i = min(max(i, 0), n - 1)
        found.append((i if 0 <= i < n else None, w))
    return found


def grid_sample(x, grid, mode="linear", padding="zeros", align_corners=0):
    y = np.zeros(x.shape[:2] + grid.shape[1:-1])
    for n in range(x.shape[0]):
        for p in itertools.product(*map(range, grid.shape[1:-1])):
            lists = [taps(g, s, mode, padding, align_corners) for g, s in zip(grid[n][p][::-1], x.shape[2:])]
            for combination in itertools.product(*lists):
                if all(i is not None for i, w in combination):
                    index = tuple(i for i, w in combination)
                    y[(n, slice(None)) + p] += np.prod([w for i, w in combination]) * x[(n, slice(None)) + index]
    return y


case = Case("grid_sample", rtol=2.4e-7, atol=2e-7)
for mode, padding, align in itertools.product(("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)):
    for size, out in (((5,), (4,)), ((4, 3), (3, 2)), ((3, 2, 4), (2, 1, 2))):
        x = rng.standard_normal((2, 2, *size)).astype(np.float32)
        grid = rng.uniform(-1.8, 1.8, (2, *out, len(size))).astype(np.float32)
        case.check([x, grid], grid_sample(x.astype(np.float64), grid.astype(np.float64), mode, padding, align).astype(np.float32),
                   mode=mode, padding=padding, align_corners=align)
    x = rng.standard_normal((1, 1, 1, 2)).astype(np.float32)
    grid = np.array([-1, -1, 1, 1, 0, 0, -5.25, 7.25, 0.5, -0.5], np.float32).reshape(1, 5, 1, 2)
    case.check([x, grid], grid_sample(x.astype(np.float64), grid.astype(np.float64), mode, padding, align).astype(np.float32),
               mode=mode, padding=padding, align_corners=align)
for dtype in FLOATS:
    x = (rng.integers(-16, 16, (1, 2, 3, 3)) / 8).astype(dtype)
    grid = (rng.integers(-6, 6, (1, 2, 3, 2)) / 4).astype(dtype)
    case.check([x, grid], grid_sample(x.astype(np.float64), grid.astype(np.float64)).astype(dtype))
case.check([np.zeros((2, 0, 3, 3), np.float32), np.zeros((2, 2, 2, 2), np.float32)], np.zeros((2, 0, 2, 2), np.float32))
# Positions that are no numbers, and far ones: what PyTorch 2 gives (torch.nn.functional.grid_sample, CPU).
nan, inf = np.nan, np.inf
x = np.arange(1, 7, dtype=np.float32).reshape(1, 1, 2, 3)
grid = np.array([nan, inf, -inf, 1e30, 0.1, nan, nan, 0.2, inf, 0.1, 1e30, 0.1, 0.2, -3e38, nan, 5], np.float32).reshape(1, 1, 8, 2)
for mode, lost in (("linear", nan), ("nearest", 0), ("cubic", nan)):
    case.check([x, grid], np.array([lost] * 5 + [0, 0, lost], np.float32).reshape(1, 1, 1, 8), mode=mode)
case.write(OUT)


def roi_align(x, rois, batch, mode="avg", height=1, width=1, sampling_ratio=0, scale=1.0, half_pixel=1):
    y = np.zeros((len(rois), x.shape[1], height, width))
    H, W = x.shape[2:]
    for r, (x1, y1, x2, y2) in enumerate(rois * scale - (0.5 if half_pixel else 0)):
        h, w = (y2 - y1, x2 - x1) if half_pixel else (max(y2 - y1, 1), max(x2 - x1, 1))
        ny = sampling_ratio or max(math.ceil(h / height), 0)
        nx = sampling_ratio or max(math.ceil(w / width), 0)
        for c, i, j in itertools.product(range(x.shape[1]), range(height), range(width)):
            values = []
            for a, b in itertools.product(range(ny), range(nx)):
                py, px = y1 + (i + (a + 0.5) / ny) * h / height, x1 + (j + (b + 0.5) / nx) * w / width
                if not (-1 <= py <= H and -1 <= px <= W):
                    values.append([0.0])
                    continue
                py, px = min(max(py, 0), H - 1), min(max(px, 0), W - 1)
                corners = []
                for qy in (math.floor(py), math.floor(py) + 1):
                    for qx in (math.floor(px), math.floor(px) + 1):
                        weight = (1 - abs(py - qy)) * (1 - abs(px - qx))
                        corners.append(weight * x[batch[r], c, min(qy, H - 1), min(qx, W - 1)])
                values.append(corners)
            if values:
                y[r, c, i, j] = np.mean([sum(v) for v in values]) if mode == "avg" else max(max(v) for v in values)
    return y


case = Case("roi_align", rtol=2.4e-7, atol=2e-7)
x = rng.standard_normal((2, 3, 6, 7)).astype(np.float32)
rois = np.array([[0, 0, 4, 3], [1.5, 2.25, 6.75, 5.5], [-3, -2.5, 2, 9], [3, 3, 3.25, 3.5], [4, 4, 2, 1]], np.float32)
batch = np.array([0, 1, 1, 0, 1])
for mode, ratio, half, scale in itertools.product(("avg", "max"), (0, 2), (0, 1), (1.0, 0.5)):
    attrs = dict(mode=mode, height=3, width=2, sampling_ratio=ratio, scale=scale, half_pixel=half)
    if mode == "max":  # corners are weighted before the maximum: none negative
        case.check([np.abs(x), rois, batch], roi_align(np.abs(x).astype(np.float64), rois.astype(np.float64), batch, **attrs).astype(np.float32), **attrs)
    else:
        case.check([x, rois, batch.astype(np.int32)], roi_align(x.astype(np.float64), rois.astype(np.float64), batch, **attrs).astype(np.float32), **attrs)
case.check([x, rois[:0], batch[:0]], np.zeros((0, 3, 1, 1), np.float32))
case.check([x.astype(np.float64), rois.astype(np.float64), batch], roi_align(x.astype(np.float64), rois.astype(np.float64), batch))
case.write(OUT)

case = Case("max_unpool")
for dtype in FLOATS + [np.int32, np.int8]:
    x = rng.integers(-9, 9, (1, 2, 2, 3)).astype(dtype)
    index = rng.permutation(2 * 4 * 5)[:12].reshape(x.shape)
    y = np.zeros(40, dtype)
    y[index] = x
    case.check([x, index], y.reshape(1, 2, 4, 5), shape=[1, 2, 4, 5])
case.check([np.array([1.0, 2.0, 3.0]), np.array([2, 2, 0])], np.array([3.0, 0, 2.0, 0]), shape=[4])
case.check([np.zeros((1, 0), np.float32), np.zeros((1, 0), np.int64)], np.zeros((1, 3), np.float32), shape=[1, 3])
case.write(OUT)
