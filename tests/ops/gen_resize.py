"""Cases of resize. Expected: for every axis a matrix W[out, in] written down from the text of ONNX Resize
by a loop over all taps, applied one axis after the other in float64. Run from anywhere."""
import itertools
import math
import os

import numpy as np
from case_writer import Case, FLOATS

OUT = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(20240612)


def place(i, coordinates, scale, n, out, roi):
    length = scale * n
    if coordinates == "half_pixel":
        return (i + 0.5) / scale - 0.5
    if coordinates == "half_pixel_symmetric":
        return n / 2 * (1 - out / length) + (i + 0.5) / scale - 0.5
    if coordinates == "pytorch_half_pixel":
        return (i + 0.5) / scale - 0.5 if out > 1 else 0.0
    if coordinates == "align_corners":
        return 0.0 if length == 1 else i * (n - 1) / (length - 1)
    if coordinates == "asymmetric":
        return i / scale
    if coordinates == "tf_half_pixel_for_nn":
        return (i + 0.5) / scale
    start, end = roi
    return start * (n - 1) + i * (end - start) * (n - 1) / (out - 1) if out > 1 else 0.5 * (start + end) * (n - 1)


def kernel(mode, a, d):
    d = abs(d)
    if mode == "linear":
        return max(1 - d, 0)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def matrix(n, out, scale, mode, coordinates, nearest, a, exclude, antialias, roi):
    w = np.zeros((out, n))
    outside = np.zeros(out, bool)
    for i in range(out):
        x = place(i, coordinates, scale, n, out, roi)
        outside[i] = coordinates == "tf_crop_and_resize" and not 0 <= x <= n - 1
        if mode == "nearest":
            j = {"floor": math.floor(x), "ceil": math.ceil(x), "round_prefer_floor": math.ceil(x - 0.5),
                 "round_prefer_ceil": math.floor(x + 0.5)}[nearest]
            w[i, min(max(j, 0), n - 1)] = 1
            continue
        f = min(scale, 1) if antialias else 1
        reach = math.ceil(2 / f) + 1
        for j in range(math.floor(x) - reach, math.ceil(x) + reach + 1):
            if exclude and not 0 <= j < n:
                continue
            w[i, min(max(j, 0), n - 1)] += kernel(mode, a, (j - x) * f)
        if exclude or antialias:
            w[i] /= w[i].sum()
    return w, outside


def resize(x, sizes, scales=None, mode="nearest", coordinates="half_pixel", nearest="round_prefer_floor",
           cubic_a=-0.75, exclude_outside=0, extrapolation=0.0, antialias=0, roi=None):
    y = x.astype(np.float64)
    masks = np.zeros(sizes, bool)
    for k in range(x.ndim):
        crops = coordinates == "tf_crop_and_resize"
        scale = scales[k] if scales else sizes[k] / x.shape[k]
        if sizes[k] == x.shape[k] and scale == 1 and not crops:
            continue
        w, outside = matrix(x.shape[k], sizes[k], scale, mode, coordinates, nearest, cubic_a, exclude_outside,
                            antialias, (roi[k], roi[x.ndim + k]) if crops else None)
        y = np.moveaxis(np.tensordot(w, np.moveaxis(y, k, 0), 1), 0, k)
        masks |= outside.reshape([-1 if a == k else 1 for a in range(x.ndim)])
    return np.where(masks, extrapolation, y)


case = Case("resize", rtol=1.2e-7, atol=2e-7)
COORDINATES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
               "tf_half_pixel_for_nn", "tf_crop_and_resize"]


def check(x, sizes, **attrs):
    roi = attrs.pop("roi", None)
    y = resize(x, sizes, roi=roi, **attrs)
    inputs = [x] + ([np.array(roi, np.float32)] if roi else [])
    case.check(inputs, y.astype(x.dtype), sizes=list(sizes), **attrs)


for mode, coordinates in itertools.product(["nearest", "linear", "cubic"], COORDINATES):
    roi = [0.25, -0.125, 0.75, 1.25] if coordinates == "tf_crop_and_resize" else None
    for sizes, scales in (((7, 3), None), ((2, 9), None), ((1, 1), None), ((8, 4), [1.75, 0.875])):
        if coordinates == "tf_crop_and_resize" and scales:
            continue
        x = rng.standard_normal((5, 5)).astype(np.float32)
        more = {"scales": scales} if scales else {}
        check(x, sizes, mode=mode, coordinates=coordinates, **more, **({"roi": roi, "extrapolation": 10.5} if roi else {}))
for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
    for coordinates in ("half_pixel", "asymmetric", "align_corners"):
        x = rng.standard_normal((2, 4)).astype(np.float32)
        check(x, (3, 6), nearest=nearest, coordinates=coordinates)
        check(x, (1, 2), nearest=nearest, coordinates=coordinates)
for mode in ("linear", "cubic"):
    for antialias, exclude in ((1, 0), (0, 1), (1, 1)):
        x = rng.standard_normal((2, 9, 6)).astype(np.float32)
        check(x, (2, 3, 4), mode=mode, antialias=antialias, exclude_outside=exclude)
        check(x, (2, 13, 2), mode=mode, antialias=antialias, exclude_outside=exclude, coordinates="pytorch_half_pixel")
        check(x, (2, 5, 3), mode=mode, antialias=antialias, exclude_outside=exclude, scales=[1.0, 0.6, 0.55])
    check(rng.standard_normal((3, 40)).astype(np.float32), (5, 1), mode=mode, antialias=1)
    check(rng.standard_normal((2, 2, 3, 4)).astype(np.float32), (2, 3, 5, 2), mode=mode)
check(rng.standard_normal((1, 1, 4, 4)).astype(np.float32), (1, 1, 9, 9), mode="cubic", cubic_a=-0.5, exclude_outside=1)
for dtype in FLOATS:
    x = (rng.integers(-32, 32, (2, 3)) / 16).astype(dtype)
    check(x, (4, 5), mode="linear")
    check(x, (3, 7), mode="nearest")
for dtype in (np.int8, np.uint8, np.int64, np.bool_):
    x = rng.integers(0, 2 if dtype == np.bool_ else 100, (2, 4)).astype(dtype)
    check(x, (3, 7), mode="nearest", coordinates="asymmetric")
big = np.array([2**62 + 1, -2**62 - 1, 3])
case.check([big], big[[0, 0, 1, 1, 2, 2]], sizes=[6], mode="nearest")
z = np.array([1 + 2j, 3 - 4j], np.complex64)
case.check([z], z[[0, 0, 1, 1]], sizes=[4], mode="nearest")
case.check([np.float32(3)], np.float32(3), sizes=[])
case.check([np.zeros((0, 3), np.float32)], np.zeros((0, 6), np.float32), sizes=[0, 6], mode="linear")
case.write(OUT)
