"""Complex numbers for grad_torch.py: a Value of one more axis, [real, imaginary], with is_complex set.

Operators that move or add elements are written for the two parts by their rows of the table; the
transforms are the op dft.
"""
import math

import torch

from grad_torch_rules import Unmapped

LINEAR = set("""add alias cat clone constant_pad_nd copy detach diagonal expand flip index lift_fresh lift_fresh_copy
neg permute reshape resolve_conj resolve_neg roll select slice squeeze stack sub sum t transpose unsqueeze view
_reshape_alias _unsafe_view as_strided unfold mean repeat index_select""".split())


def part(p, x, k):
    """The real (0) or imaginary (1) part."""
    return p.reshape(p.slice(x, x.rank - 1, k, 1), x.shape[:-1])


def join(p, real, imaginary):
    shape = torch.broadcast_shapes(real.shape, imaginary.shape)
    real, imaginary = p.expand(real, shape), p.expand(imaginary, shape)
    y = p.concat([p.unsqueeze(real, real.rank), p.unsqueeze(imaginary, imaginary.rank)], real.rank)
    y.is_complex = True
    return y


def zeros_like(p, x):
    return p.full(x.shape, 0, x.dtype)


def parts(p, x):
    return (part(p, x, 0), part(p, x, 1)) if x.is_complex else (x, zeros_like(p, x))


def scaled(p, x, factor):
    if factor != 1:
        x = x * factor
    x.is_complex = True
    return x


def factor_of(normalization, count, exact=1.0):
    """The factor of a transform over so many elements, where `exact` is that of what was computed."""
    return (1.0, 1.0 / math.sqrt(count), 1.0 / count)[normalization] * exact


def transform(p, x, axis, forward):
    y = p.op("dft", x, axis=axis, length=[x.shape[axis]], inverse=int(not forward), shape=x.shape[:-1] + (2,))
    return y if forward else y * float(x.shape[axis])  # the op's inverse has 1/n


def c2c(p, out, x, dims, normalization, forward):
    count, dims = math.prod(out.shape[d] for d in dims), [d % out.dim() for d in dims]
    for axis in dims:
        x = transform(p, x, axis, forward)
    return scaled(p, x, factor_of(normalization, count))


def r2c(p, out, x, dims, normalization, onesided):
    dims = [d % out.dim() for d in dims]
    count, axis, shape = math.prod(x.shape[d] for d in dims), dims[-1], list(x.shape)
    shape[axis] = shape[axis] // 2 + 1 if onesided else shape[axis]
    y = p.op("dft", p.reshape(x, x.shape + (1,)), axis=axis, length=[x.shape[axis]], onesided=int(onesided),
             shape=shape + [2])
    for axis in dims[:-1]:
        y = transform(p, y, axis, True)
    return scaled(p, y, factor_of(normalization, count))


def c2r(p, out, x, dims, normalization, last_size):
    dims = [d % out.dim() for d in dims]
    count, axis = math.prod(out.shape[d] for d in dims), dims[-1]
    for k in dims[:-1]:
        x = transform(p, x, k, False)
    x = p.slice(x, axis, 0, min(x.shape[axis], last_size // 2 + 1))
    y = p.op("dft", x, axis=axis, length=[last_size], inverse=1, onesided=1, shape=tuple(out.shape) + (1,))
    y = p.reshape(y, out.shape)
    factor = factor_of(normalization, count, float(last_size))
    return y if factor == 1 else y * factor


def conjugate(p, out, x):
    return scaled(p, x * p.constant([1, -1], x.dtype), 1)


def multiply(p, out, x, y):
    x, y = (v if hasattr(v, "program") else p.full((), v, "f32") for v in (x, y))
    (a, b), (c, d) = parts(p, x), parts(p, y)
    return join(p, a * c - b * d, a * d + b * c)


def polar(p, out, size, angle):
    return join(p, size * p.op("cos", angle), size * p.op("sin", angle))


def to_copy(p, out, x, **_):
    """A cast to complex, or from it to the real part."""
    dtype = "f64" if out.dtype in (torch.complex128, torch.float64) else "f32"
    if not out.is_complex():
        return p.cast(part(p, x, 0), dtype)
    y = x if x.is_complex else join(p, x, zeros_like(p, x))
    return scaled(p, p.cast(y, dtype), 1)


def as_real(p, out, x):
    return p.reshape(p.reshape(x, x.shape + (1,)), x.shape)


def as_complex(p, out, x):
    return scaled(p, p.reshape(p.reshape(x, x.shape + (1,)), x.shape), 1)


ROWS = {"_fft_c2c": c2c, "_fft_r2c": r2c, "_fft_c2r": c2r, "_conj": conjugate, "_conj_physical": conjugate,
        "conj_physical": conjugate, "mul": multiply, "complex": lambda p, out, x, y: join(p, x, y), "polar": polar,
        "_to_copy": to_copy, "view_as_real": as_real, "view_as_complex": as_complex,
        "real": lambda p, out, x: part(p, x, 0), "imag": lambda p, out, x: part(p, x, 1)}


def write(p, table, name, out, operands, keywords):
    """The result of an operator of which an operand or a result is complex."""
    if name in ROWS:
        return ROWS[name](p, out, *operands, **keywords)
    if name not in LINEAR or isinstance(out, (tuple, list)) or not out.is_complex():
        raise Unmapped("complex", name)

    def half(k):
        def take(value):
            if isinstance(value, (tuple, list)):
                return [take(v) for v in value]
            return parts(p, value)[k] if hasattr(value, "program") and value.is_float else value
        first, rest = take(operands[0]), operands[1:]
        if name in ("add", "sub", "copy", "cat"):
            rest = [take(v) for v in rest]
        return table[name](p, (out.resolve_conj().real, out.resolve_conj().imag)[k], first, *rest, **keywords)
    return join(p, half(0), half(1))
