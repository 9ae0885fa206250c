"""Rows of grad_torch_aten.py: reductions, norms, contractions, windows and losses."""
import math

import torch

from grad_torch_elements import roll
from grad_torch_rules import Unmapped, axes_of, common, spatial


# ---- reductions, scans, order ----

def reduction(name):
    def row(p, out, x, dim=None, keepdim=False, dtype=None, **_):
        (x,) = common(p, out, x)
        return p.reduce(name, x, axes_of(x, dim), keepdim)
    return row


def prod(p, out, x, dim=None, keepdim=False, dtype=None):
    (x,) = common(p, out, x)
    return p.reduce("reduce_prod", x, axes_of(x, dim), keepdim)


def nansum(p, out, x, dim=None, keepdim=False, dtype=None):
    (x,) = common(p, out, x)
    x = p.select(p.op("is_nan", x, dtype="bool"), p.full(x.shape, 0, x.dtype), x)
    return p.reduce("reduce_sum", x, axes_of(x, dim), keepdim)


def extreme(name):
    """amax, and max with or without indices: those go to the first of equal elements, amax to all."""
    def row(p, out, x, dim=None, keepdim=False):
        is_pair = isinstance(out, (tuple, list))
        if not x.rank:
            return [x, None] if is_pair else x
        if not is_pair:
            return p.reduce("reduce_" + name, x, axes_of(x, dim), keepdim)
        dim %= x.rank
        index = p.op("arg" + name, x, axis=dim, keepdims=1, dtype="i64",
                     shape=[1 if k == dim else n for k, n in enumerate(x.shape)])
        return [p.reshape(p.gather_elements(x, index, dim), out[0].shape), None]
    return row


def aminmax(p, out, x, dim=None, keepdim=False):
    return [p.reduce("reduce_min", x, axes_of(x, dim), keepdim), p.reduce("reduce_max", x, axes_of(x, dim), keepdim)]


def variance(parts):
    def row(p, out, x, dim=None, correction=None, keepdim=False, unbiased=None):
        correction = (1 if unbiased in (None, True) else 0) if correction is None else correction
        axes = axes_of(x, dim)
        n = math.prod(x.shape[a] for a in axes)
        mean = p.reduce("reduce_mean", x, axes, True) if x.rank else x
        d = x - mean
        total = p.reduce("reduce_sum", d * d, axes, keepdim)
        y = total / float(max(n - correction, 0))
        y = p.op("sqrt", y) if "std" in parts else y
        return [y, p.reshape(mean, out[1].shape)] if "mean" in parts else y
    return row


def running(name):
    """cummax and cummin: a window over all that stands before."""
    def row(p, out, x, dim):
        if not x.rank or not x.size:
            return [x, None]
        dim %= x.rank
        y = p.reshape(x, (math.prod(x.shape[:dim]), 1, x.shape[dim], math.prod(x.shape[dim + 1:])))
        y = p.op("reduce_window", y, kind=name, window=[x.shape[dim], 1], strides=[1, 1], dilations=[1, 1],
                 pads=[x.shape[dim] - 1, 0, 0, 0], shape=y.shape)
        return [p.reshape(y, x.shape), None]
    return row


SEGMENT = {"sum": ("reduce_sum", 0.0, "add"), "mean": ("reduce_sum", math.nan, "add"),
           "max": ("reduce_max", -math.inf, "max"), "min": ("reduce_min", math.inf, "min"),
           "prod": ("reduce_prod", 1.0, "mul")}


def segment_reduce(p, out, x, reduce, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    bounds = (lengths or offsets).tensor
    if bounds.dim() > 1:  # a row of x for each row of lengths
        slices = [p.reshape(p.slice(x, 0, k, 1), x.shape[1:]) for k in range(len(bounds))]
        rows = [segments(p, part, row, lengths is not None, reduce, axis - 1, initial)
                for part, row in zip(slices, bounds)]
        return p.concat([p.unsqueeze(row, 0) for row in rows], 0)
    return segments(p, x, bounds, lengths is not None, reduce, axis, initial)


def segments(p, x, bounds, is_lengths, reduce, axis, initial):
    bounds = [0] + bounds.cumsum(0).tolist() if is_lengths else bounds.tolist()
    name, nothing, join = SEGMENT[reduce]
    parts = []
    for start, end in zip(bounds, bounds[1:]):
        part = p.slice(x, axis, start, end - start)
        if end == start:
            shape = part.shape[:axis] + (1,) + part.shape[axis + 1:]
            parts.append(p.full(shape, nothing if initial is None else initial, x.dtype))
            continue
        part = p.reduce(name, part, [axis], True)
        part = part if initial is None else p.op(join, part, p.full((), initial, x.dtype))
        parts.append(part / float(end - start) if reduce == "mean" else part)
    return p.concat(parts, axis)


def embedding_bag(p, out, weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False,
                  per_sample_weights=None, include_last_offset=False, padding_idx=-1):
    if scale_grad_by_freq:
        raise Unmapped("backward alone", "scale_grad_by_freq")
    starts = offsets.tensor.tolist()
    starts = starts[: out[0].shape[0]] + [indices.size]
    if include_last_offset:
        starts[-1] = offsets.tensor.tolist()[-1]
    bags = []
    for start, end in zip(starts, starts[1:]):
        kept = [k for k in range(start, end) if int(indices.tensor[k]) != padding_idx]
        if not kept:
            bags.append(p.full([1, weight.shape[1]], 0, weight.dtype))
            continue
        rows = p.gather(weight, p.constant(indices.tensor[kept].numpy(), "i64"), 0)
        if per_sample_weights is not None:
            rows = rows * p.unsqueeze(p.gather(per_sample_weights, p.constant(kept, "i64"), 0), 1)
        bags.append(p.reduce(("reduce_sum", "reduce_mean", "reduce_max")[mode], rows, [0], True))
    return [p.concat(bags, 0), None, None, None]


def logsumexp(p, out, x, dim, keepdim=False):
    (x,) = common(p, out, x)
    return p.reduce("reduce_log_sum_exp", x, axes_of(x, dim), keepdim) if x.rank else x


def vector_norm(p, out, x, order=2, dim=None, keepdim=False, dtype=None):
    (x,) = common(p, out, x)
    axes = axes_of(x, dim)
    if not x.rank:
        x, axes, keepdim = p.reshape(x, [1]), [0], False
    if order == 2:
        return p.reduce("reduce_l2", x, axes, keepdim)
    if order == 1:
        return p.reduce("reduce_l1", x, axes, keepdim)
    size = p.op("abs", x)
    if math.isinf(order):
        return p.reduce("reduce_max" if order > 0 else "reduce_min", size, axes, keepdim)
    is_zero = x.equals(0)
    if order == 0:
        return p.reduce("reduce_sum", p.cast(~is_zero, x.dtype), axes, keepdim)
    power = p.op("pow", p.select(is_zero, p.full((), 1, x.dtype), size), p.constant(order, x.dtype))
    power = p.select(is_zero, p.full((), 0 if order > 0 else math.inf, x.dtype), power)
    total = p.reduce("reduce_sum", power, axes, keepdim)
    # 0 has the slope 0, as PyTorch says.
    nothing = total.equals(0)
    root = p.op("pow", p.select(nothing, p.full(total.shape, 1, x.dtype), total), p.constant(1.0 / order, x.dtype))
    return p.select(nothing, p.full(total.shape, 0, x.dtype), root)


def norm(p, out, x, order=2, dim=None, keepdim=False, dtype=None):
    return vector_norm(p, out, x, 2 if order is None else order, dim, keepdim)


def scan(name):
    def row(p, out, x, dim, dtype=None):
        (x,) = common(p, out, x)
        return p.op(name, x, axis=dim % x.rank, shape=x.shape) if x.rank else x
    return row


def sort(p, out, x, dim=-1, descending=False, stable=None):
    if not x.rank:
        return [x, None]
    attributes = {"axis": dim % x.rank, "descending": int(descending)}
    return p.node("sort", (x,), [(x.shape, x.dtype), (x.shape, "i64")], attributes)


def topk(p, out, x, k, dim=-1, largest=True, is_sorted=True):
    if not x.rank:
        return [x, None]
    shape = out[0].shape
    return p.node("topk", (x,), [(shape, x.dtype), (shape, "i64")],
                  {"k": [k], "axis": dim % x.rank, "largest": int(largest), "sorted": 1})


def kth(p, x, k, dim, keepdim):
    values = p.node("sort", (x,), [(x.shape, x.dtype), (x.shape, "i64")], {"axis": dim})[0]
    y = p.slice(values, dim, k, 1)
    return y if keepdim else p.reshape(y, x.shape[:dim] + x.shape[dim + 1:])


def median(p, out, x, dim=None, keepdim=False):
    if not x.rank:
        return x if dim is None else [x, None]
    if dim is None:
        return kth(p, p.reshape(x, [x.size]), (x.size - 1) // 2, 0, False)
    dim %= x.rank
    return [kth(p, x, (x.shape[dim] - 1) // 2, dim, keepdim), None]


# ---- softmax and norms ----

def along_axis(name):
    def row(p, out, x, dim, *_):
        (x,) = common(p, out, x)
        if not x.rank:
            return p.reshape(p.op(name, p.reshape(x, [1]), axis=0), [])
        return p.op(name, x, axis=dim % x.rank)
    return row


def safe_softmax(p, out, x, dim, dtype=None):
    (x,) = common(p, out, x)
    top = p.reduce("reduce_max", x, [dim], True) if x.rank else x
    is_empty, zeros = top.equals(-math.inf), p.full(x.shape, 0, x.dtype)
    return p.select(is_empty, zeros, along_axis("softmax")(p, out, p.select(is_empty, zeros, x), dim))


def layer_norm(p, out, x, shape, weight, bias, eps):
    statistics = out[1].shape
    axis = x.rank - len(shape)
    if not x.size:
        return [x, None, None]
    # Weights of the normalised axes; mean and rstd keep them with size 1.
    results = [(x.shape, x.dtype), (statistics, x.dtype), (statistics, x.dtype)]
    return p.node("layer_norm", (x, weight, bias), results, {"axis": axis, "eps": eps})


def rms_norm(p, out, x, shape, weight=None, eps=None):
    eps = (1.1920928955078125e-07 if x.dtype == "f32" else 2.220446049250313e-16) if eps is None else eps
    return p.op("rms_norm", x, weight, axis=x.rank - len(shape), eps=float(eps), shape=x.shape)


def group_norm(p, out, x, weight, bias, n, channels, spatial_size, groups, eps):
    if not x.size:
        return [x, None, None]
    y = p.op("group_norm", x, weight, bias, groups=groups, eps=eps, shape=x.shape)
    grouped = p.reshape(x, [n, groups, x.size // (n * groups)])
    mean = p.reduce("reduce_mean", grouped, [2])
    d = grouped - p.unsqueeze(mean, 2)
    return [y, mean, p.op("rsqrt", p.reduce("reduce_mean", d * d, [2]) + eps)]


def batch_norm(p, out, x, weight, bias, mean, var, training, momentum, eps, *_):
    c = x.shape[1]
    one, zero = p.full([c], 1, x.dtype), p.full([c], 0, x.dtype)
    weight, bias = one if weight is None else weight, zero if bias is None else bias
    if not training:
        return [p.op("batch_norm", x, weight, bias, mean, var, eps=eps, shape=x.shape), None, None]
    y = p.node("batch_norm_train", (x, weight, bias, zero, one), [(x.shape, x.dtype), ([c], x.dtype), ([c], x.dtype)],
               {"eps": eps, "momentum": 0.0})
    # Running statistics with momentum 0 are those of the batch.
    return [y[0], y[1], p.op("rsqrt", y[2] + eps)]


def batch_norm_legit(p, out, x, weight, bias, *rest):
    """Of two overloads the one without running statistics has two arguments less."""
    return batch_norm(p, out, x, weight, bias, *(rest if len(rest) == 5 else (None, None, *rest)))


def renorm(p, out, x, order, dim, limit):
    dim %= x.rank
    axes = [k for k in range(x.rank) if k != dim]
    size = vector_norm(p, out, x, order, axes, True)
    big = size > limit
    # The factor of slices that are short enough is the constant 1.
    return x * p.select(big, limit / (p.select(big, size, p.full(size.shape, 1, x.dtype)) + 1e-7),
                        p.full(size.shape, 1, x.dtype))


# ---- contractions ----

def mm(p, out, x, y):
    x, y = common(p, out, x, y)
    return p.dot(x, y)


def bmm(p, out, x, y):
    x, y = common(p, out, x, y)
    return p.dot(x, y, batch=1)


def plus_product(batch, reduce_first=False):
    def row(p, out, c, x, y, beta=1, alpha=1):
        c, x, y = common(p, out, c, x, y)
        product = p.dot(x, y, batch=batch)
        if reduce_first:
            product = p.reduce("reduce_sum", product, [0])
        product = product if alpha == 1 else product * alpha
        return product if beta == 0 else product + (c if beta == 1 else c * beta)
    return row


def addr(p, out, c, x, y, beta=1, alpha=1):
    c, x, y = common(p, out, c, x, y)
    product = p.unsqueeze(x, 1) * p.unsqueeze(y, 0)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (c if beta == 1 else c * beta)


def convolution(p, out, x, w, b, stride, padding, dilation, transposed, output_padding, groups):
    n = x.rank - 2
    stride, padding, dilation = (spatial(v, n) for v in (stride, padding, dilation))
    attributes = {"strides": stride, "pads": padding * 2, "dilations": dilation, "groups": groups}
    if transposed:
        attributes["output_padding"] = spatial(output_padding, n)
    return p.op("conv_transpose" if transposed else "conv", x, w, b, shape=out.shape, **attributes)


def cross(p, out, x, y, dim=-1):
    x, y = common(p, out, x, y)
    shape = tuple(out.shape)
    x, y, dim = p.expand(x, shape), p.expand(y, shape), dim % len(shape)
    def turned(v, k):
        return roll(p, out, v, [k], [dim])
    return turned(x, 2) * turned(y, 1) - turned(x, 1) * turned(y, 2)


def trilinear(p, out, a, b, c, expand1, expand2, expand3, sum_dims, unroll_dim=1):
    def grown(v, dims):
        for d in sorted(dims):
            v = p.unsqueeze(v, d)
        return v
    product = grown(a, expand1) * grown(b, expand2) * grown(c, expand3)
    return p.reduce("reduce_sum", product, sum_dims)


def det(p, out, x, *_):
    result = out[0] if isinstance(out, (tuple, list)) else out
    y = p.op("det", x, shape=result.shape)
    return [y, None, None] if isinstance(out, (tuple, list)) else y


def slogdet(p, out, x):
    d = p.op("det", x, shape=out[0].shape)
    return [p.op("sign", d), p.op("log", p.op("abs", d)), None, None]


def cdist(p, out, x, y, order, mode):
    d = p.unsqueeze(x, x.rank - 1) - p.unsqueeze(y, y.rank - 2)
    return vector_norm(p, out, d, order, [-1])


def pdist(p, out, x, order=2):
    i, j = torch.triu_indices(x.shape[0], x.shape[0], 1)
    d = p.gather(x, p.constant(i.numpy(), "i64"), 0) - p.gather(x, p.constant(j.numpy(), "i64"), 0)
    return vector_norm(p, out, d, order, [-1])


# ---- windows and sampling ----

def batched(p, x, n):
    """x with a batch axis in front of its channels and n spatial axes."""
    return p.unsqueeze(x, 0) if x.rank == n + 1 else x


def window_pads(x, out, n, window, stride, padding, dilation):
    """Low and high padding, the latter with what the result's size takes beyond (ceil mode), and that."""
    extra = []
    for k in range(n):
        size = (out.shape[out.dim() - n + k] - 1) * stride[k] + (window[k] - 1) * dilation[k] + 1
        extra.append(size - (x.shape[x.rank - n + k] + 2 * padding[k]))
    return list(padding), extra


def max_pool(n):
    def row(p, out, x, window, stride=(), padding=0, dilation=1, ceil_mode=False):
        first = out[0] if isinstance(out, (tuple, list)) else out
        window, padding, dilation = (spatial(v, n) for v in (window, padding, dilation))
        stride = spatial(stride, n) if stride else window
        low, extra = window_pads(x, first, n, window, stride, padding, dilation)
        y = batched(p, x, n)
        shape = y.shape[:2] + tuple(first.shape[-n:])
        y = p.op("max_pool", y, window=window, strides=stride, pads=low + [a + b for a, b in zip(low, extra)],
                 dilations=dilation, shape=shape)
        y = p.reshape(y, first.shape)
        return [y, None] if isinstance(out, (tuple, list)) else y
    return row


def avg_pool(n):
    def row(p, out, x, window, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        window, padding = spatial(window, n), spatial(padding, n)
        stride = spatial(stride, n) if stride else window
        low, extra = window_pads(x, out, n, window, stride, padding, [1] * n)
        y = batched(p, x, n)
        shape = y.shape[:2] + tuple(out.shape[-n:])
        # What the windows do not reach on the high side is cut off.
        high = [a + min(b, 0) for a, b in zip(low, extra)]
        more = [max(b, 0) for b in extra]
        if divisor_override:
            y = p.op("reduce_window", y, kind="sum", window=window, strides=stride, dilations=[1] * n,
                     pads=low + [a + b for a, b in zip(high, more)], shape=shape) / float(divisor_override)
        else:
            y = p.op("avg_pool", y, window=window, strides=stride, pads=low + high, dilations=[1] * n,
                     include_pad=int(count_include_pad), ceil_extra=more, shape=shape)
        return p.reshape(y, out.shape)
    return row


def adaptive(name, n):
    def row(p, out, x, size):
        first = out[0] if isinstance(out, (tuple, list)) else out
        for axis in range(x.rank - n, x.rank):
            have, want, parts = x.shape[axis], first.shape[axis], []
            for k in range(want):
                start, end = k * have // want, -(-(k + 1) * have // want)
                parts.append(p.reduce(name, p.slice(x, axis, start, end - start), [axis], True))
            x = p.concat(parts, axis) if parts else p.slice(x, axis, 0, 0)
        return [x, None] if isinstance(out, (tuple, list)) else x
    return row


def max_unpool(n):
    def row(p, out, x, indices, size, *_):
        x, indices = batched(p, x, n), batched(p, indices, n)
        whole, plane = math.prod(x.shape[:2]), math.prod(out.shape[-n:])
        start = p.constant((torch.arange(whole) * plane).reshape(x.shape[:2] + (1,) * n).numpy(), "i64")
        y = p.node(
            "max_unpool", (x, indices + start), [(x.shape[:2] + tuple(out.shape[-n:]), x.dtype)],
            {"shape": list(x.shape[:2]) + list(out.shape[-n:])})[0]
        return p.reshape(y, out.shape)
    return row


def im2col(p, out, x, kernel, dilation, padding, stride):
    x = batched(p, x, 2)
    n, c, k = x.shape[0], x.shape[1], math.prod(kernel)
    eye = p.constant(torch.eye(k).reshape(k, 1, *kernel).numpy(), x.dtype)
    sizes = [(x.shape[2 + i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(2)]
    y = p.op("conv", p.reshape(x, (n * c, 1) + x.shape[2:]), eye, strides=list(stride), pads=list(padding) * 2,
             dilations=list(dilation), shape=[n * c, k] + sizes)
    return p.reshape(y, out.shape)


def resize(mode, nearest="floor", exact=False):
    def row(p, out, x, size, *rest):
        align = rest[0] if mode != "nearest" and rest and isinstance(rest[0], bool) else False
        factors = [f for f in (rest[1:] if mode != "nearest" else rest)]
        factors = list(factors[0]) if len(factors) == 1 and isinstance(factors[0], (list, tuple)) else factors
        n = x.rank - 2
        scales = None
        if factors and all(f is not None for f in factors) and not align:
            scales = [1.0, 1.0] + [float(f) for f in factors]
        coordinates = "align_corners" if align else "half_pixel" if mode != "nearest" or exact else "asymmetric"
        return p.op("resize", x, sizes=list(out.shape), scales=scales, mode=mode, coordinates=coordinates,
                    nearest="round_prefer_ceil" if exact else nearest, shape=out.shape)
    return row


def grid_sampler(p, out, x, grid, mode, padding, align):
    return p.op("grid_sample", x, grid, mode=["linear", "nearest", "cubic"][mode],
                padding=["zeros", "border", "reflection"][padding], align_corners=int(align), shape=out.shape)


def pixel_shuffle(p, out, x, r):
    head, (c, h, w) = x.shape[:-3], x.shape[-3:]
    k = len(head)
    y = p.reshape(x, head + (c // (r * r), r, r, h, w))
    return p.reshape(p.transpose(y, [*range(k), k, k + 3, k + 1, k + 4, k + 2]), out.shape)


def pixel_unshuffle(p, out, x, r):
    head, (c, h, w) = x.shape[:-3], x.shape[-3:]
    k = len(head)
    y = p.reshape(x, head + (c, h // r, r, w // r, r))
    return p.reshape(p.transpose(y, [*range(k), k, k + 2, k + 4, k + 1, k + 3]), out.shape)


def attention(p, out, q, k, v, dropout=0.0, causal=False, attn_mask=None, scale=None):
    if dropout:
        raise Unmapped("random")
    return [p.op("sdpa", q, k, v, attn_mask, scale=scale, is_causal=int(causal), shape=out[0].shape)] + [None] * (
        len(out) - 1)


# ---- losses ----

MODES = ("none", "mean", "sum")


def loss(name, **names):
    def row(p, out, x, target, reduction=1, **keywords):
        x, target = common(p, out, x, target)
        shape = torch.broadcast_shapes(x.shape, target.shape)
        attributes = {names.get(key, key): float(value) for key, value in keywords.items()}
        return p.op(name, p.expand(x, shape), p.expand(target, shape), reduction=MODES[reduction], shape=out.shape,
                    **attributes)
    return row


def huber(p, out, x, target, reduction=1, delta=1.0):
    return loss("huber_loss")(p, out, x, target, reduction, delta=delta)


def total(p, y, mode):
    y = y if mode in (0, "none") else p.reduce("reduce_sum" if mode in (2, "sum") else "reduce_mean", y, range(y.rank))
    return y


def smooth_l1(p, out, x, target, reduction=1, beta=1.0):
    if beta == 0:
        return loss("l1_loss")(p, out, x, target, reduction)
    return loss("huber_loss")(p, out, x, target, reduction, delta=beta) / beta


def bce(p, out, x, target, weight=None, reduction=1):
    def log(v):
        return p.op("max", p.op("log", v), p.full((), -100, x.dtype))
    y = -(target * log(x) + (1 - target) * log(1 - x))
    return total(p, y if weight is None else y * weight, reduction)


def nll(p, out, x, target, weight, reduction, ignore_index):
    is_pair = isinstance(out, (tuple, list))
    first = out[0] if is_pair else out
    if x.rank == 1:
        x, target = p.unsqueeze(x, 0), p.reshape(target, [1])
    shape = first.shape if reduction else target.shape
    y = p.op("nll_loss", x, target, weight, reduction=MODES[reduction], ignore_index=ignore_index, shape=shape)
    return [p.reshape(y, first.shape), None] if is_pair else p.reshape(y, first.shape)


def soft_margin(p, out, x, target, reduction=1):
    x, target = common(p, out, x, target)
    return total(p, p.op("log1p", p.op("exp", -(target * x))), reduction)


def multi_margin(p, out, x, target, order=1, margin=1, weight=None, reduction=1):
    x2 = p.reshape(x, [1, x.size]) if x.rank < 2 else x
    target = p.reshape(target, [x2.shape[0], 1])
    d = margin - p.gather_elements(x2, target, 1) + x2
    d = p.op("relu", d)
    d = d * d if order == 2 else d
    if weight is not None:
        d = d * p.gather(weight, target, 0)
    others = p.constant(torch.arange(x2.shape[1]).reshape(1, -1).numpy(), "i64")
    d = p.select(others.equals(target), p.full((), 0, x.dtype), d)
    y = p.reduce("reduce_sum", d, [1]) / float(x2.shape[1])
    return p.reshape(total(p, y, reduction), out.shape)


def multilabel_margin(p, out, x, target, reduction=1):
    x2 = p.reshape(x, [1, x.size]) if x.rank < 2 else x
    n, c = x2.shape
    pairs = torch.zeros(n, c, c)  # how often class j is a target while class i is none
    for row, targets in enumerate(target.tensor.reshape(n, c).tolist()):
        targets = targets[: targets.index(-1)] if -1 in targets else targets
        for j in targets:
            pairs[row, j] += torch.tensor([float(i not in targets) for i in range(c)])
    d = p.op("relu", 1 - p.unsqueeze(x2, 2) + p.unsqueeze(x2, 1)) * p.constant(pairs.numpy(), x.dtype)
    first = out[0]
    y = p.reduce("reduce_sum", d, [1, 2]) / float(max(c, 1))
    return [p.reshape(total(p, y, reduction), first.shape), None]


def dropout_backward(p, out, grad, mask, scale):
    return grad * p.cast(mask, grad.dtype) * scale


def softmax_backward(p, out, grad, y, dim, dtype):
    if not y.rank:
        return (grad - grad * y) * y
    return y * (grad - p.reduce("reduce_sum", grad * y, [dim], True))


def max_pool_backward(p, out, grad, x, window, stride, padding, dilation, ceil_mode, indices):
    planes, size = math.prod(x.shape[:-2]), math.prod(x.shape[-2:])
    places = p.reshape(indices, [planes, indices.size // planes if planes else 0])
    y = p.scatter_elements(p.full([planes, size], 0, x.dtype), places, p.reshape(grad, places.shape), 1, "add")
    return p.reshape(y, x.shape)


def log_sigmoid(p, out, x):
    return [-p.op("softplus", -x), None]
