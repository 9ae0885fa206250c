"""Cases of dft, det and nms. Expected: dft by its sum in long double (small lengths) or numpy.fft in
float64, det by fractions or numpy, nms by the text of ONNX NonMaxSuppression. Run from anywhere."""
import itertools
import os
from fractions import Fraction

import numpy as np
from case_writer import Case, FLOATS

OUT = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(20240616)


def dft(x, axis, length, inverse=0, onesided=0):
    z = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    axis = axis % x.ndim
    if onesided and inverse:
        return np.fft.irfft(z, length, axis)[..., None]
    y = (np.fft.ifft if inverse else np.fft.fft)(z, length, axis)
    if onesided:
        y = np.take(y, range(length // 2 + 1), axis)
    return np.stack([y.real, y.imag], -1)


def numbers(shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(np.float32).astype(dtype)


case = Case("dft", rtol=2.4e-7, atol=1e-6)
for n in (1, 2, 3, 5, 8, 13, 30):
    for parts, inverse, onesided in ((1, 0, 0), (2, 0, 0), (2, 1, 0), (1, 0, 1), (2, 1, 1)):
        x = numbers((2, n // 2 + 1 if inverse and onesided else n, parts))
        case.check([x], dft(x.astype(np.float64), 1, n, inverse, onesided).astype(np.float32), axis=1, length=[n],
                   inverse=inverse, onesided=onesided)
for shape, axis, n in (((3, 4, 2), 0, 5), ((3, 4, 2), 0, 2), ((2, 6, 3, 1), 1, 9), ((2, 6, 3, 1), -2, 2), ((0, 3, 1), 1, 4),
                       ((2, 0, 1), 1, 3), ((4, 2), 0, 4)):
    x = numbers(shape)
    want = dft(x.astype(np.float64), axis, n) if x.size else np.zeros(shape[:1] + (n, 2))
    case.check([x], want.astype(np.float32), axis=axis, length=[n])
for n in (64, 65, 127, 128, 210):  # the power of two and Bluestein
    for inverse in (0, 1):
        x = (rng.integers(-8, 8, (1, n, 2)) / 4).astype(np.float64)
        case.check([x], dft(x, 1, n, inverse), axis=1, length=[n], inverse=inverse)
    x = rng.integers(-8, 8, (1, n, 1)).astype(np.float32)
    case.check([x], dft(x.astype(np.float64), 1, n, 0, 1).astype(np.float32), axis=1, length=[n], onesided=1)
for dtype in FLOATS:
    x = rng.integers(-4, 4, (1, 4, 1)).astype(dtype)
    case.check([x], dft(x.astype(np.float64), 1, 4).astype(dtype), axis=1, length=[4])
case.write(OUT)


def exact_det(a):
    a = [[Fraction(float(v)) for v in row] for row in a]
    det = Fraction(1)
    for k in range(len(a)):
        p = next((i for i in range(k, len(a)) if a[i][k]), None)
        if p is None:
            return 0.0
        if p != k:
            a[k], a[p], det = a[p], a[k], -det
        det *= a[k][k]
        for i in range(k + 1, len(a)):
            f = a[i][k] / a[k][k]
            a[i] = [u - f * v for u, v in zip(a[i], a[k])]
    return float(det)


case = Case("det", rtol=1.2e-7, atol=1e-12)
for shape in ((2, 2), (3, 4, 4), (2, 2, 7, 7), (1, 1), (0, 0), (2, 0, 0), (0, 3, 3)):
    for dtype in FLOATS if shape == (3, 4, 4) else (np.float32, np.float64):
        x = rng.integers(-32, 32, shape).astype(dtype) / np.array(8, dtype)
        want = np.zeros(shape[:-2])
        for i in np.ndindex(*shape[:-2]):
            want[i] = exact_det(x[i])
        case.check([x], want.astype(dtype))
case.check([np.array([[1.0, 2], [2, 4]])], np.array(0.0))
case.check([np.array([[0.0, 1], [1, 0]])], np.array(-1.0))
case.check([np.array([[np.nan, 1], [1, 0]])], np.array(np.nan))
case.write(OUT)


def iou(p, q, center):
    if center:
        p = [p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2]
        q = [q[1] - q[3] / 2, q[0] - q[2] / 2, q[1] + q[3] / 2, q[0] + q[2] / 2]
    (py, PY), (px, PX) = sorted((p[0], p[2])), sorted((p[1], p[3]))
    (qy, QY), (qx, QX) = sorted((q[0], q[2])), sorted((q[1], q[3]))
    shared = max(min(PY, QY) - max(py, qy), 0) * max(min(PX, QX) - max(px, qx), 0)
    return shared / ((PY - py) * (PX - px) + (QY - qy) * (QX - qx) - shared) if shared else 0.0


def nms(boxes, scores, max_out=0, threshold=0.0, least=None, center=0):
    rows = []
    for b, c in itertools.product(range(scores.shape[0]), range(scores.shape[1])):
        kept = []
        for i in sorted(range(scores.shape[2]), key=lambda i: (-scores[b, c, i], i)):
            if len(kept) < max_out and (least is None or scores[b, c, i] > least) and all(
                    np.float32(iou(boxes[b, i].astype(float), boxes[b, k].astype(float), center)) <= np.float32(threshold) for k in kept):
                kept.append(i)
        rows += [(b, c, i) for i in kept]
    return np.array(rows, np.int64).reshape(-1, 3)


case = Case("nms")
for images, classes, n, max_out, threshold, least, center in ((1, 1, 6, 3, 0.5, 0.0, 0), (2, 3, 12, 5, 0.25, 0.3, 0), (1, 2, 9, 9, 0.0, None, 1),
                                                              (2, 1, 8, 0, 0.5, 0.1, 0), (1, 1, 0, 3, 0.5, None, 0), (1, 1, 5, 100, 1.0, None, 1)):
    boxes = rng.uniform(0, 2, (images, n, 4)).astype(np.float32) + np.float32(0.01)
    scores = (rng.integers(0, 12, (images, classes, n)) / 12).astype(np.float32)
    case.check([boxes, scores, np.array([max_out]), np.float32(threshold), None if least is None else np.float32(least)][:4 if least is None else 5],
               nms(boxes, scores, max_out, threshold, least, center), center_point=center)
boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 2], [0, 0, 3, 1], [1, 1, 0, 0]]], np.float32)  # overlaps 1/2, 1/3, 1
scores = np.array([[[0.9, 0.9, 0.8, 0.7]]], np.float32)
for threshold in (0.5, 1 / 3, 0.33, 0.7):
    case.check([boxes, scores, np.array(4), np.float32(threshold)], nms(boxes, scores, 4, threshold))
case.check([boxes, scores], np.zeros((0, 3), np.int64))
case.write(OUT)
