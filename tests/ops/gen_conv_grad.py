"""Cases of conv_transpose, conv_weight_grad and col2im. Expected: a convolution written as an explicit
matrix A[(m, p), (c, i)] of zeros and weights by loops over its definition, then y = A^T x and
dL/dw by collecting x at the taps; float64. Run from the repository root."""
import itertools
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
