"""Cases of conv, conv_transpose, conv_weight_grad, deform_conv and col2im. Expected: loops over every
position and tap of the definition, in float64 or int64. Run from anywhere."""
import itertools
import math
import os

import numpy as np
from case_writer import Case, FLOATS

OUT = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(20240611)


def taps(image, kernel, strides, dilations, low, positions):
    """(position, tap, image index) of every tap inside."""
    for p in itertools.product(*map(range, positions)):
        for k in itertools.product(*map(range, kernel)):
            i = tuple(p[a] * strides[a] + k[a] * dilations[a] - low[a] for a in range(len(p)))
            if all(0 <= i[a] < image[a] for a in range(len(p))):
                yield p, k, i


def conv(x, w, b, strides, pads, dilations, groups):
    n = x.ndim - 2
    size = [(x.shape[2 + a] + pads[a] + pads[n + a] - dilations[a] * (w.shape[2 + a] - 1) - 1) // strides[a] + 1
            for a in range(n)]
    cg, mg = w.shape[1], w.shape[0] // groups
    y = np.zeros((x.shape[0], w.shape[0], *size), x.dtype)
    for g in range(groups):
        for p, k, i in taps(x.shape[2:], w.shape[2:], strides, dilations, pads, size):
            xs = x[(slice(None), slice(g * cg, (g + 1) * cg)) + i]
            y[(slice(None), slice(g * mg, (g + 1) * mg)) + p] += xs @ w[(slice(g * mg, (g + 1) * mg), slice(None)) + k].T
    return y if b is None else y + b.reshape((1, -1) + (1,) * n)


def bilinear(plane, y, x):
    total = 0.0
    for i in (math.floor(y), math.floor(y) + 1):
        for j in (math.floor(x), math.floor(x) + 1):
            if 0 <= i < plane.shape[0] and 0 <= j < plane.shape[1]:
                total += (1 - abs(y - i)) * (1 - abs(x - j)) * plane[i, j]
    return total


def deform_conv(x, w, offset, b, mask, strides, pads, dilations, groups, offset_groups):
    kh, kw = w.shape[2:]
    y = np.zeros((x.shape[0], w.shape[0], *offset.shape[2:]))
    cg, mg, per = w.shape[1], w.shape[0] // groups, x.shape[1] // offset_groups
    o = offset.reshape(x.shape[0], offset_groups, kh, kw, 2, *offset.shape[2:])
    m = None if mask is None else mask.reshape(x.shape[0], offset_groups, kh, kw, *offset.shape[2:])
    for n, f, i, j, c, a, d in itertools.product(*map(range, (x.shape[0], w.shape[0], *offset.shape[2:], cg, kh, kw))):
        channel = f // mg * cg + c
        g = channel // per
        v = bilinear(x[n, channel], i * strides[0] - pads[0] + a * dilations[0] + o[n, g, a, d, 0, i, j],
                     j * strides[1] - pads[1] + d * dilations[1] + o[n, g, a, d, 1, i, j])
        y[n, f, i, j] += w[f, c, a, d] * v * (1 if m is None else m[n, g, a, d, i, j])
    return y if b is None else y + b.reshape(1, -1, 1, 1)


def conv_transpose(x, w, b, strides, pads, dilations, groups, extra):
    n = x.ndim - 2
    size = [(x.shape[2 + a] - 1) * strides[a] + (w.shape[2 + a] - 1) * dilations[a] + 1 + extra[a]
            - pads[a] - pads[n + a] for a in range(n)]
    mg, cg = w.shape[1], x.shape[1] // groups
    y = np.zeros((x.shape[0], mg * groups, *size), x.dtype)
    for g in range(groups):
        for p, k, i in taps(size, w.shape[2:], strides, dilations, pads, x.shape[2:]):
            xs = x[(slice(None), slice(g * cg, (g + 1) * cg)) + p]
            ws = w[(slice(g * cg, (g + 1) * cg), slice(None)) + k]
            y[(slice(None), slice(g * mg, (g + 1) * mg)) + i] += xs @ ws
    return y if b is None else y + b.reshape((1, -1) + (1,) * n)


def conv_weight_grad(x, g, kernel, strides, pads, dilations, groups):
    cg, mg = x.shape[1] // groups, g.shape[1] // groups
    w = np.zeros((g.shape[1], cg, *kernel), x.dtype)
    for s in range(groups):
        for p, k, i in taps(x.shape[2:], kernel, strides, dilations, pads, g.shape[2:]):
            gs = g[(slice(None), slice(s * mg, (s + 1) * mg)) + p]
            xs = x[(slice(None), slice(s * cg, (s + 1) * cg)) + i]
            w[(slice(s * mg, (s + 1) * mg), slice(None)) + k] += gs.T @ xs
    return w


def col2im(x, image, block, strides, pads, dilations):
    n = len(image)
    blocks = [(image[a] + pads[a] + pads[n + a] - dilations[a] * (block[a] - 1) - 1) // strides[a] + 1
              for a in range(n)]
    c = x.reshape(x.shape[0], -1, *block, *blocks)
    y = np.zeros((x.shape[0], c.shape[1], *image), x.dtype)
    for p, k, i in taps(image, block, strides, dilations, pads, blocks):
        y[(slice(None), slice(None)) + i] += c[(slice(None), slice(None)) + k + p]
    return y


def numbers(shape, dtype, bound=4):
    if dtype in FLOATS:
        return rng.standard_normal(shape).astype(np.float32).astype(dtype)
    return rng.integers(0 if np.dtype(dtype).kind == "u" else -bound, bound, shape).astype(dtype)


def wide(x):
    return None if x is None else x.astype(np.int64 if x.dtype.kind in "iu" else np.float64)


# images, channels of x, channels of the result a group, spatial, kernel, strides, pads, dilations, groups, extra
SHAPES = [
    (1, 1, 1, (5,), (3,), (1,), (0, 0), (1,), 1, ()),
    (2, 3, 4, (4,), (3,), (2,), (1, 0), (2,), 1, (1,)),
    (2, 4, 3, (3, 5), (3, 2), (1, 1), (0, 0, 0, 0), (1, 1), 2, ()),
    (1, 6, 2, (4, 3), (2, 3), (3, 2), (1, 2, 0, 1), (1, 2), 3, (1, 0)),
    (1, 2, 5, (6, 7), (3, 3), (2, 2), (-1, 1, 2, -2), (1, 1), 1, ()),
    (1, 2, 2, (2, 3, 2), (2, 2, 3), (2, 1, 2), (0, 1, 0, 1, 0, 1), (1, 2, 1), 1, ()),
    (1, 1, 1, (1, 1), (1, 1), (5, 5), (0, 0, 0, 0), (7, 7), 1, (4, 4)),
    (1, 3, 70, (12,), (5,), (3,), (2, 2), (1,), 1, ()),
]

case = Case("conv_transpose", rtol=1.2e-7, atol=1e-12)
for number, (images, cin, mg, size, kernel, strides, pads, dilations, groups, extra) in enumerate(SHAPES):
    for dtype in (FLOATS + [np.int32, np.uint8]) if number == 3 else [np.float32]:
        x = numbers((images, cin, *size), dtype)
        w = numbers((cin, mg, *kernel), dtype)
        b = numbers((mg * groups,), dtype) if number % 2 else None
        y = conv_transpose(wide(x), wide(w), wide(b), strides, pads, dilations, groups,
                           extra or (0,) * len(size))
        case.check([x, w] + ([b] if number % 2 else []), y.astype(dtype), strides=strides, pads=pads,
                   dilations=dilations, groups=groups, output_padding=list(extra))
x = np.array([[[np.inf, np.nan, -0.0]]], np.float32)
with np.errstate(invalid="ignore"):
    case.check([x, np.ones((1, 1, 2), np.float32)],
               conv_transpose(x, np.ones((1, 1, 2)), None, [2], [0, 0], [1], 1, [0]).astype(np.float32),
               strides=[2], pads=[0, 0], dilations=[1])
case.check([np.zeros((0, 2, 3), np.float32), np.ones((2, 3, 2), np.float32)], np.zeros((0, 3, 4), np.float32),
           strides=[1], pads=[0, 0], dilations=[1])
case.check([np.zeros((1, 0, 3), np.float32), np.zeros((0, 3, 2), np.float32)], np.zeros((1, 3, 4), np.float32),
           strides=[1], pads=[0, 0], dilations=[1])
case.write(OUT)

case = Case("conv", rtol=1.2e-7, atol=1e-12)
for number, (images, cin, mg, size, kernel, strides, pads, dilations, groups, extra) in enumerate(SHAPES):
    size = tuple(s + d * (k - 1) + st for s, k, d, st in zip(size, kernel, dilations, strides))
    for dtype in (FLOATS + [np.int32, np.uint8, np.int64]) if number == 2 else [np.float32]:
        x = numbers((images, cin, *size), dtype)
        w = numbers((mg * groups, cin // groups, *kernel), dtype)
        b = numbers((mg * groups,), dtype) if number % 2 == 0 else None
        y = conv(wide(x), wide(w), wide(b), strides, pads, dilations, groups)
        case.check([x, w] + ([] if b is None else [b]), y.astype(dtype), strides=strides, pads=pads,
                   dilations=dilations, groups=groups)
case.check([np.zeros((0, 2, 3), np.float32), np.ones((2, 2, 2), np.float32)], np.zeros((0, 2, 2), np.float32),
           strides=[1], pads=[0, 0], dilations=[1])
case.check([np.zeros((1, 0, 3), np.float32), np.zeros((2, 0, 2), np.float32), np.array([1, -2], np.float32)],
           np.array([[[1, 1], [-2, -2]]], np.float32), strides=[1], pads=[0, 0], dilations=[1])
case.write(OUT)

case = Case("deform_conv", rtol=2.4e-7, atol=1e-7)
for cin, mg, size, kernel, strides, pads, dilations, groups, og, with_bias, with_mask in [
        (1, 1, (4, 4), (2, 2), (1, 1), (0, 0, 0, 0), (1, 1), 1, 1, 0, 0), (4, 1, (5, 4), (2, 3), (2, 1), (1, 0, 0, 1), (1, 2), 2, 2, 1, 1),
        (2, 3, (3, 5), (3, 2), (1, 2), (1, 1, 1, 1), (1, 1), 1, 2, 0, 1), (2, 1, (4, 4), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 2, 1, 1, 0)]:
    out = [(size[a] + pads[a] + pads[2 + a] - dilations[a] * (kernel[a] - 1) - 1) // strides[a] + 1 for a in (0, 1)]
    k = kernel[0] * kernel[1] * og
    x, w = numbers((2, cin, *size), np.float32), numbers((mg * groups, cin // groups, *kernel), np.float32)
    offset = numbers((2, 2 * k, *out), np.float32)
    b = numbers((mg * groups,), np.float32) if with_bias else None
    mask = rng.random((2, k, *out)).astype(np.float32) if with_mask else None
    y = deform_conv(wide(x), wide(w), wide(offset), wide(b), wide(mask), strides, pads, dilations, groups, og)
    inputs = [x, w, offset, b, mask]
    while inputs[-1] is None:
        inputs.pop()
    case.check(inputs, y.astype(np.float32), strides=strides, pads=pads, dilations=dilations, groups=groups, offset_groups=og)
case.write(OUT)

case = Case("conv_weight_grad", rtol=1.2e-7, atol=1e-12)
for number, (images, cin, mg, size, kernel, strides, pads, dilations, groups, extra) in enumerate(SHAPES):
    pads = tuple(max(p, 0) for p in pads) if number == 4 else pads
    size = tuple(s + d * (k - 1) + st for s, k, d, st in zip(size, kernel, dilations, strides))
    n = len(size)
    out = [(size[a] + pads[a] + pads[n + a] - dilations[a] * (kernel[a] - 1) - 1) // strides[a] + 1
           for a in range(n)]
    for dtype in (FLOATS + [np.int32]) if number == 2 else [np.float32]:
        x = numbers((images, cin, *size), dtype)
        g = numbers((images, mg * groups, *out), dtype)
        w = conv_weight_grad(wide(x), wide(g), kernel, strides, pads, dilations, groups)
        case.check([x, g], w.astype(dtype), kernel=kernel, strides=strides, pads=pads,
                   dilations=dilations, groups=groups)
case.check([np.zeros((0, 2, 3), np.float32), np.zeros((0, 1, 2), np.float32)], np.zeros((1, 2, 2), np.float32),
           kernel=[2], strides=[1], pads=[0, 0], dilations=[1])
case.write(OUT)

case = Case("col2im", rtol=1.2e-7, atol=1e-12)
for image, block, strides, pads, dilations, blocks in [
        ((5,), (3,), (1,), (0, 0), (1,), 3), ((5, 5), (1, 5), (1, 1), (0, 0, 0, 0), (1, 1), 5),
        ((6, 6), (2, 3), (2, 1), (1, 0, 1, 2), (1, 2), 16), ((4, 5, 3), (2, 2, 2), (2, 1, 1), (0,) * 6, (1,) * 3, 16)]:
    for dtype in FLOATS + [np.int32] if len(image) == 2 else [np.float32]:
        x = numbers((2, 3 * int(np.prod(block)), blocks), dtype)
        case.check([x], col2im(wide(x), image, block, strides, pads, dilations).astype(dtype), image=image,
                   block=block, strides=strides, pads=pads, dilations=dilations)
case.write(OUT)
