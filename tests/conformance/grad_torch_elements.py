"""Rows of grad_torch_aten.py: operators of elements, and what moves, gathers and scatters them."""
import math

import torch

from grad_torch_program import Value
from grad_torch_rules import Unmapped, common, dtype_name, promoted


# ---- pointwise ----

def unary(name):
    def row(p, out, x, **_):
        (x,) = common(p, out, x)
        return p.op(name, x)
    return row


def formula(function):
    """A row whose operands are brought to the result's dtype; keywords stay numbers."""
    def row(p, out, *args, **keywords):
        return function(p, *common(p, out, *args), **keywords)
    return row


def add(sign):
    def row(p, out, x, y, alpha=1):
        x, y = common(p, out, x, y)
        y = y if alpha == 1 else y * alpha
        return x + y if sign > 0 else x - y
    return row


def rsub(p, out, x, y, alpha=1):
    x, y = common(p, out, x, y)
    return y - (x if alpha == 1 else x * alpha)


def div(p, out, x, y, rounding_mode=None):
    x, y = common(p, out, x, y)
    return x / y if rounding_mode is None else p.op("trunc" if rounding_mode == "trunc" else "floor", x / y)


def power(p, out, x, y):
    x, y = common(p, out, x, y)
    return p.op("pow", x, y)


def compare(name, swap=False):
    def row(p, out, x, y):
        x, y = promoted(p, x, y)
        return p.op(name, x, y, dtype="bool")
    return row


def logic(name):
    def row(p, out, *values):
        bools = [v if v.dtype == "bool" else p.cast(v, "bool") for v in values]
        return p.op(name, *bools)
    return row


def fmax(pick):
    """max or min that prefers a number to NaN."""
    def row(p, out, x, y):
        x, y = common(p, out, x, y)
        takes_x = p.op("bit_or", x >= y if pick == "max" else x <= y, p.op("is_nan", y, dtype="bool"))
        return p.select(takes_x, x, y)
    return row


def clamp(p, out, x, low=None, high=None):
    x, low, high = common(p, out, x, low, high)
    return p.op("clamp", x, low, high)


def clamp_max(p, out, x, high):
    return clamp(p, out, x, None, high)


def elu(p, out, x, alpha=1.0, scale=1.0, input_scale=1.0):
    y = p.op("elu", x if input_scale == 1 else x * input_scale, alpha=float(alpha))
    if scale == 1:
        return y
    if abs(alpha - 1.6732632423543772) < 1e-9 and abs(scale - 1.0507009873554805) < 1e-9:
        return p.op("selu", x)
    return y * scale


def copy(p, out, x, source, *_):
    return p.expand(p.cast(source, x.dtype), x.shape)


def softplus(p, out, x, beta=1, threshold=20):
    t = x if beta == 1 else x * beta
    y = p.op("softplus", t)
    return p.select(t > threshold, x, y if beta == 1 else y / beta)


def shrink(bias):
    def row(p, out, x, lambd=0.5):
        return p.op("shrink", x, lambd=float(lambd), bias=float(lambd) if bias else 0.0)
    return row


def hardtanh(p, out, x, low=-1, high=1):
    # The gradient at the bounds is 0, where that of clamp is 1.
    inside = (x > low) & (x < high)
    return p.select(inside, x, p.select(x <= low, p.full(x.shape, low, x.dtype), p.full(x.shape, high, x.dtype)))


def threshold(p, out, x, limit, value):
    return p.select(x > limit, x, p.full(x.shape, value, x.dtype))


def glu(p, out, x, dim=-1):
    dim %= x.rank
    half = x.shape[dim] // 2
    return p.slice(x, dim, 0, half) * p.op("sigmoid", p.slice(x, dim, half, half))


def prelu(p, out, x, slope):
    return p.op("prelu", x, slope)


def rrelu(p, out, x, noise, lower=1 / 8, upper=1 / 3, training=False, generator=None):
    if training:
        return x * p.constant(noise.tensor.numpy(), x.dtype)  # the slopes that PyTorch drew
    return p.op("leaky_relu", x, alpha=(lower + upper) / 2)


def where(p, out, condition, x, y):
    x, y = common(p, out, x, y)
    return p.select(p.cast(condition, "bool"), x, y)


def lerp(p, out, x, y, w):
    x, y, w = common(p, out, x, y, w)
    return p.op("lerp", x, y, w)


def addcmul(p, out, x, a, b, value=1):
    x, a, b = common(p, out, x, a, b)
    return x + a * b * value


def addcdiv(p, out, x, a, b, value=1):
    x, a, b = common(p, out, x, a, b)
    return x + a / b * value


def hypot(p, x, y):
    return p.op("sqrt", x * x + y * y)


def copysign(p, out, x, y):
    x, y = common(p, out, x, y)
    # The sign of y, also that of a zero, from its bits.
    negative = p.node("bitcast", (y,), [(y.shape, "i32" if y.dtype == "f32" else "i64")],
                      {"dtype": "!i32" if y.dtype == "f32" else "!i64"})[0] < 0
    sign = p.select(x.equals(0), p.full((), 0, x.dtype), p.op("sign", x))
    size = x * sign
    return p.select(negative, -size, size)


def logit(p, out, x, eps=None):
    if eps is None:
        return p.op("log", x / (1 - x))
    z = p.op("clamp", x, p.constant(eps, x.dtype), p.constant(1 - eps, x.dtype))
    # The gradient at the bounds is that of PyTorch's: inside them, and they are inside.
    return p.op("log", z / (1 - z))


def nan_to_num(p, out, x, nan=None, posinf=None, neginf=None):
    top = 3.4028234663852886e38 if x.dtype == "f32" else 1.7976931348623157e308
    is_nan, is_inf = p.op("is_nan", x, dtype="bool"), p.op("is_inf", x, dtype="bool")
    y = p.select(is_nan, p.full(x.shape, nan or 0.0, x.dtype), x)
    y = p.select(is_inf & (x > 0), p.full(x.shape, top if posinf is None else posinf, x.dtype), y)
    return p.select(is_inf & (x < 0), p.full(x.shape, -top if neginf is None else neginf, x.dtype), y)


def rounded(p, out, x, decimals=0):
    if decimals == 0:
        return p.op("round", x)
    factor = 10.0 ** abs(decimals)
    return p.op("round", x * factor) / factor if decimals > 0 else p.op("round", x / factor) * factor


def cast(p, out, x, **_):
    return p.cast(x, dtype_name(out.dtype))


def same(p, out, x, *_, **__):
    return x


def entr(p, out, x):
    positive = x > 0
    y = -(x * p.op("log", p.select(positive, x, p.full(x.shape, 1, x.dtype))))
    return p.select(positive, y, p.select(x.equals(0), y * 0, p.full(x.shape, -math.inf, x.dtype)))


def polygamma(p, out, n, x):
    if n == 0:
        return p.op("digamma", x)
    raise Unmapped("no counterpart", "polygamma")


def mvlgamma(p, out, x, n):
    y = p.full(x.shape, n * (n - 1) / 4 * math.log(math.pi), x.dtype)
    for j in range(n):
        y = y + p.op("lgamma", x - j / 2 if j else x)
    return y


def xlog1py(p, out, x, y):
    x, y = common(p, out, x, y)
    return p.select(x.equals(0), x * 0, x * p.op("log1p", y))


def ldexp(p, out, x, y):
    x, y = common(p, out, x, y)
    return x * p.op("pow", p.full((), 2, x.dtype), y)


# ---- movement ----

def shaped(p, out, x, *_, **__):
    return p.reshape(x, out.shape)


def expand(p, out, x, *_, **__):
    return p.expand(x, out.shape)


def permute(p, out, x, dims):
    return p.transpose(x, [d % x.rank for d in dims] if x.rank else [])


def transpose(p, out, x, a=0, b=1):
    if x.rank < 2:
        return x
    perm = list(range(x.rank))
    a, b = a % x.rank, b % x.rank
    perm[a], perm[b] = perm[b], perm[a]
    return p.transpose(x, perm)


def select(p, out, x, dim, index):
    dim %= x.rank
    return p.reshape(p.slice(x, dim, index % x.shape[dim], 1), out.shape)


def slice_range(x, dim, start, end, step):
    start, end, step = slice(start, end, step).indices(x.shape[dim])
    return start, max(0, -(-(end - start) // step)), step


def slice_(p, out, x, dim=0, start=None, end=None, step=1):
    dim %= x.rank
    return p.slice(x, dim, *slice_range(x, dim, start, end, step))


def split(p, out, x, sizes, dim=0):
    dim, at, parts = dim % x.rank, 0, []
    for tensor in out:
        parts.append(p.slice(x, dim, at, tensor.shape[dim]))
        at += tensor.shape[dim]
    return parts


def unbind(p, out, x, dim=0):
    return [select(p, tensor, x, dim, k) for k, tensor in enumerate(out)]


def positions(p, out, start, steps, x):
    """x, flat, gathered at the places start + sum of index * step."""
    places = torch.full(out.shape, start, dtype=torch.int64)
    for axis, step in enumerate(steps):
        view = [1] * out.dim()
        view[axis] = -1
        places += (torch.arange(out.shape[axis]) * step).reshape(view)
    flat = p.reshape(x, [x.size])
    return p.gather(flat, p.constant(places.numpy(), "i64"), 0)


def dense_steps(shape):
    return [math.prod(shape[k + 1:]) for k in range(len(shape))]


def as_strided(p, out, x, size, stride, offset=None):
    return positions(p, out, offset or 0, stride, x)


def diagonal(p, out, x, offset=0, dim1=0, dim2=1):
    steps, dim1, dim2 = dense_steps(x.shape), dim1 % x.rank, dim2 % x.rank
    start = offset * steps[dim2] if offset >= 0 else -offset * steps[dim1]
    rest = [step for k, step in enumerate(steps) if k not in (dim1, dim2)]
    return positions(p, out, start, rest + [steps[dim1] + steps[dim2]], x)


def unfold(p, out, x, dim, size, step):
    if not x.rank:
        return p.reshape(x, out.shape)
    steps = dense_steps(x.shape)
    dim %= x.rank
    return positions(p, out, 0, [s * step if k == dim else s for k, s in enumerate(steps)] + [steps[dim]], x)


def cat(p, out, values, dim=0):
    values = [v for v in common(p, out, *values) if v.rank == out.dim()]
    return p.concat(values, dim % out.dim())


def stack(p, out, values, dim=0):
    dim %= out.dim()
    return p.concat([p.unsqueeze(v, dim) for v in common(p, out, *values)], dim)


def block_diag(p, out, values):
    columns, rows = 0, []
    for v in common(p, out, *values):
        v = p.reshape(v, (1,) * (2 - v.rank) + v.shape)
        rows.append(p.pad(v, [0, columns], [0, out.shape[1] - columns - v.shape[1]]))
        columns += v.shape[1]
    return p.concat(rows, 0)


def repeat(p, out, x, repeats):
    x = p.reshape(x, (1,) * (len(repeats) - x.rank) + x.shape)
    return p.op("tile", x, repeats=list(repeats), shape=out.shape)


def flip(p, out, x, dims):
    return p.flip(x, [d % x.rank for d in dims] if x.rank else [])


def roll(p, out, x, shifts, dims=()):
    if not dims:
        return p.reshape(roll(p, out, p.reshape(x, [x.size]), shifts, [0]), x.shape)
    for shift, dim in zip(shifts, dims):
        n = x.shape[dim % x.rank]
        shift = shift % n if n else 0
        if shift:
            dim %= x.rank
            x = p.concat([p.slice(x, dim, n - shift, shift), p.slice(x, dim, 0, n - shift)], dim)
    return x


def rot90(p, out, x, k=1, dims=(0, 1)):
    a, b = (d % x.rank for d in dims)
    k %= 4
    if k == 1:
        return transpose(p, out, p.flip(x, [b]), a, b)
    if k == 3:
        return p.flip(transpose(p, out, x, a, b), [b])
    return p.flip(x, [a, b]) if k == 2 else x


def trilu(upper):
    def row(p, out, x, k=0):
        return p.op("trilu", x, k=[k], upper=upper)
    return row


def trace(p, out, x):
    n = min(x.shape)
    return p.reduce("reduce_sum", diagonal(p, torch.empty(n), x), [0])


def diag_embed(p, out, x, offset=0, dim1=-2, dim2=-1):
    dim1, dim2, n = dim1 % out.dim(), dim2 % out.dim(), x.shape[-1]
    m = n + abs(offset)
    mask = torch.zeros(m, m, dtype=torch.bool)
    for k in range(n):
        mask[k + max(-offset, 0), k + max(offset, 0)] = True
    # Element k stands in row k - min(offset, 0) and column k + max(offset, 0).
    placed = p.pad(x, [0] * x.rank, [0] * (x.rank - 1) + [abs(offset)])
    placed = p.expand(p.unsqueeze(placed, x.rank), x.shape[:-1] + (m, m))
    if offset < 0:
        placed = transpose(p, out, placed, x.rank - 1, x.rank)
    square = p.select(p.constant(mask.numpy(), "bool"), placed, p.full((), 0, x.dtype))
    perm = [None] * out.dim()
    perm[dim1], perm[dim2] = out.dim() - 2, out.dim() - 1
    rest = iter(range(out.dim() - 2))
    return p.transpose(square, [next(rest) if k is None else k for k in perm])


def placed_at(p, x, updates, places):
    """x with updates at the flat places, a tensor of them."""
    flat = p.scatter_elements(p.reshape(x, [x.size]), p.constant(places.reshape(-1).numpy(), "i64"),
                              p.reshape(p.expand(updates, places.shape), [places.numel()]), 0)
    return p.reshape(flat, x.shape)


def scatter_view(view):
    """x with the elements of a view of it replaced: view(places, ...) is what the operator takes it for."""
    def row(p, out, x, source, *args, **keywords):
        x, source = common(p, out, x, source)
        places = view(torch.arange(x.size).reshape(x.shape), *args, **keywords)
        return placed_at(p, x, p.reshape(source, places.shape), places)
    return row


def constant_pad(p, out, x, pads, value=0):
    low, high = pad_sides(x, pads)
    return p.pad(x, low, high, value)


def pad_sides(x, pads):
    low, high = [0] * x.rank, [0] * x.rank
    for k in range(len(pads) // 2):
        low[x.rank - 1 - k], high[x.rank - 1 - k] = pads[2 * k], pads[2 * k + 1]
    return low, high


def mirror_pad(mode):
    def row(p, out, x, pads):
        low, high = pad_sides(x, pads)
        return p.pad(x, low, high, mode=mode)
    return row


# ---- gathers and scatters ----

def index_select(p, out, x, dim, index):
    if not x.rank:
        return p.reshape(x, out.shape)
    return p.gather(x, p.reshape(index, [index.size]), dim % x.rank)


def gather(p, out, x, dim, index, sparse_grad=False):
    if not x.rank or not index.rank:
        return p.reshape(x, out.shape)
    return p.gather_elements(x, index, dim % x.rank)


def take(p, out, x, index):
    return p.gather(p.reshape(x, [x.size]), index, 0)


def flat_places(x, indices):
    """The flat places in x of x[indices], by indexing the places themselves."""
    tensors = tuple(slice(None) if i is None else i.tensor for i in indices)
    return torch.arange(x.size).reshape(x.shape)[tensors]


def index(p, out, x, indices):
    return p.gather(p.reshape(x, [x.size]), p.constant(flat_places(x, indices).numpy(), "i64"), 0)


def masked_index(p, out, x, mask, indices, fill):
    tensors = tuple(slice(None) if i is None else i.tensor.clamp(-n, n - 1) for i, n in zip(indices, x.shape))
    places = torch.arange(x.size).reshape(x.shape)[tensors]
    taken = p.gather(p.reshape(x, [x.size]), p.constant(places.numpy(), "i64"), 0)
    return p.select(mask, taken, p.full(taken.shape, fill, x.dtype))


def index_put(p, out, x, indices, values, accumulate=False):
    x, values = common(p, out, x, values)
    places = flat_places(x, indices)
    updates = p.reshape(p.expand(values, places.shape), [places.numel()])
    flat = p.scatter_elements(p.reshape(x, [x.size]), p.constant(places.reshape(-1).numpy(), "i64"), updates, 0,
                              "add" if accumulate else None)
    return p.reshape(flat, x.shape)


def along(p, x, dim, index, source):
    """The operands of scatter_elements for slices of x at a vector of indices."""
    dim %= max(x.rank, 1)
    index = p.reshape(index, [index.size])
    shape = list(x.shape)
    if not x.rank:
        return p.reshape(x, [1]), p.reshape(index, [1]), p.reshape(source, [1]), 0
    shape[dim] = index.size
    places = p.expand(p.reshape(index, [1] * dim + [index.size] + [1] * (x.rank - dim - 1)), shape)
    return x, places, p.expand(source, shape), dim


def index_scatter(reduction):
    def row(p, out, x, dim, index, source, alpha=1):
        x, source = common(p, out, x, source)
        values, places, updates, axis = along(p, x, dim, index, source if alpha == 1 else source * alpha)
        return p.reshape(p.scatter_elements(values, places, updates, axis, reduction), out.shape)
    return row


REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


def reduced(p, x, places, updates, axis, reduce, include_self):
    """x with updates reduced into it; without it only where nothing is written x counts."""
    if not include_self:
        identity = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -math.inf, "amin": math.inf}[reduce]
        written = p.scatter_elements(p.full(x.shape, 0, x.dtype), places, p.full(places.shape, 1, x.dtype), axis)
        x = p.select(written.equals(0), x, p.full(x.shape, identity, x.dtype))
    if reduce != "mean":
        return p.scatter_elements(x, places, updates, axis, REDUCTIONS[reduce])
    counts = p.scatter_elements(p.full(x.shape, int(include_self), x.dtype), places, p.full(places.shape, 1, x.dtype),
                                axis, "add")
    counts = p.op("max", counts, p.full((), 1, x.dtype))
    return p.scatter_elements(x, places, updates, axis, "add") / counts


def scatter(reduction):
    def row(p, out, x, dim, index, source, reduce=None, include_self=True):
        if not index.size:
            return x
        if not x.rank:
            x, index = p.reshape(x, [1]), p.reshape(index, [1])
            source = p.reshape(source, [1]) if isinstance(source, Value) else source
            dim = 0
        index = p.reshape(index, [1]) if not index.rank else index
        x, source = common(p, out, x, source)
        source = p.reshape(source, [1] * index.rank) if source.rank == 0 else source
        source = p.expand(source, index.shape) if source.size == 1 else source
        for axis, n in enumerate(index.shape):
            source = p.slice(source, axis, 0, n) if source.shape[axis] != n else source
        dim %= x.rank
        if reduction == "named":
            return p.reshape(reduced(p, x, index, source, dim, reduce, include_self), out.shape)
        return p.reshape(p.scatter_elements(x, index, source, dim, REDUCTIONS.get(reduce, reduction)), out.shape)
    return row


def index_reduce(p, out, x, dim, index, source, reduce, include_self=True):
    x, source = common(p, out, x, source)
    values, places, updates, axis = along(p, x, dim, index, source)
    reduce = {"multiply": "prod"}.get(reduce, reduce)
    return p.reshape(reduced(p, values, places, updates, axis, reduce, include_self), out.shape)


def index_fill(p, out, x, dim, index, value):
    # A place that is named twice counts once.
    index = p.constant(index.tensor.unique().numpy(), "i64")
    shape = list(x.shape)
    if x.rank:
        shape[dim % x.rank] = 1
    (value,) = common(p, out, value)
    value = p.expand(p.reshape(value, [1] * x.rank), shape)
    values, places, updates, axis = along(p, x, dim, index, value)
    return p.reshape(p.scatter_elements(values, places, updates, axis), out.shape)


def masked_fill(p, out, x, mask, value):
    x, value = common(p, out, x, value)
    return p.select(p.cast(mask, "bool"), value, x)


def masked_scatter(p, out, x, mask, source):
    x, source = common(p, out, x, source)
    x = p.expand(x, out.shape)
    mask = mask.tensor.broadcast_to(out.shape)
    places = torch.arange(x.size).reshape(x.shape)[mask]
    updates = p.slice(p.reshape(source, [source.size]), 0, 0, places.numel())
    return placed_at(p, x, updates, places)


def masked_select(p, out, x, mask):
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    places = torch.arange(math.prod(shape)).reshape(shape)[mask.tensor.broadcast_to(shape)]
    return p.gather(p.reshape(p.expand(x, shape), [math.prod(shape)]), p.constant(places.numpy(), "i64"), 0)


def put(p, out, x, index, source, accumulate=False):
    x, source = common(p, out, x, source)
    flat = p.scatter_elements(p.reshape(x, [x.size]), p.reshape(index, [index.size]),
                              p.reshape(source, [source.size]), 0, "add" if accumulate else None)
    return p.reshape(flat, x.shape)


def embedding(p, out, weight, index, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    if scale_grad_by_freq:
        raise Unmapped("backward alone", "scale_grad_by_freq")
    y = p.gather(weight, index, 0)
    if padding_idx < 0:
        return y
    is_padding = p.reshape(index.equals(padding_idx), index.shape + (1,))
    return p.select(is_padding, p.constant(out.detach().numpy(), y.dtype), y)
