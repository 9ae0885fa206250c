"""Cases of softmax, log_softmax, the norms, nll_loss, sdpa and its gradient. Expected: the formulas over float64
copies by NumPy, rounded once. Run from anywhere."""
import os

import numpy as np
from case_writer import BF16, FLOATS, Case

np.seterr(all="ignore")
OUT = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(20240617)
ULP = 1.2e-7  # one place of f32
F32, F64, F16 = np.float32, np.float64, np.float16


def numbers(shape, dtype=F32, gain=1.0):
    return (rng.standard_normal(shape) * gain).astype(F32).astype(dtype)


def wide(*xs):
    out = [None if x is None else x.astype(F64) for x in xs]
    return out if len(out) > 1 else out[0]


def shifted(x, axis):
    x = wide(x)
    return x - x.max(axis, keepdims=True, initial=-np.inf)


def softmax(x, axis):
    e = np.exp(shifted(x, axis))
    return (e / e.sum(axis, keepdims=True)).astype(x.dtype)


def log_softmax(x, axis):
    d = shifted(x, axis)
    return (d - np.log(np.exp(d).sum(axis, keepdims=True))).astype(x.dtype)


EDGES = np.array([[0.0, -0.0, 1, -1], [1e30, -1e30, 0, 1], [-np.inf, 0, 1, -np.inf], [-np.inf] * 4,
                  [np.inf, 0, 1, 2], [np.nan, 0, 1, 2], [80, -104, 88, -88], [1e-30, -1e-30, 1e-45, 0]], F32)
for op, rule in (("softmax", softmax), ("log_softmax", log_softmax)):
    case = Case(op, ULP, 1e-12)
    for dtype in FLOATS:
        x = numbers((2, 3, 4), dtype, 3)
        case.check([x], rule(x, -1))
        case.check([x], rule(x, 1), axis=1)
    for shape, axis in (((5,), 0), ((3, 1), 1), ((0, 3), 1), ((3, 0), 1), ((2, 3, 2, 2), -3), ((1, 37), -1)):
        x = numbers(shape, F32, 5)
        case.check([x], rule(x, axis), axis=axis)
    case.check([EDGES], rule(EDGES, 1), axis=1)
    case.check([EDGES.astype(F16)], rule(EDGES.astype(F16), 1), axis=1)
    case.write(OUT)


def normed(x, axes, eps):
    d = x - x.mean(axes, keepdims=True)
    return d / np.sqrt((d * d).mean(axes, keepdims=True) + eps)


def layer_norm(x, w, b, axis, eps):
    t, w, b = wide(x, w, b)
    axes = tuple(range(axis % x.ndim, x.ndim))
    mean = t.mean(axes, keepdims=True)
    rstd = 1 / np.sqrt(((t - mean) ** 2).mean(axes, keepdims=True) + eps)
    y = (t - mean) * rstd * (1 if w is None else w) + (0 if b is None else b)
    stats = F64 if x.dtype == F64 else F32
    return [y.astype(x.dtype), mean.astype(stats), rstd.astype(stats)]


case = Case("layer_norm", 2.4e-7, 1e-7)
for dtype in FLOATS:
    x, w, b = numbers((2, 3, 4), dtype, 2), numbers(4, dtype), numbers(4, dtype)
    case.check([x, w, b], layer_norm(x, w, b, -1, 1e-5))
for shape, axis, eps in (((2, 3, 4), 1, 1e-5), ((2, 3, 4), 0, 0.1), ((6,), -1, 1e-5), ((0, 3), -1, 1e-5), ((3, 1), 1, 1e-5)):
    x, w, b = numbers(shape), numbers(shape[axis:]), numbers(shape[axis:])
    case.check([x, w, b], layer_norm(x, w, b, axis, eps), axis=axis, eps=eps)
    case.check([x, w], layer_norm(x, w, None, axis, eps)[:1], axis=axis, eps=eps)
    case.check([x], layer_norm(x, None, None, axis, eps), axis=axis, eps=eps)
    case.check([x, None, b], layer_norm(x, None, b, axis, eps)[:1], axis=axis, eps=eps)
x, w = numbers((2, 4), F16), numbers(4)
case.check([x, w], layer_norm(x, w, None, -1, 1e-5)[:1])
x = np.clip(EDGES, -1e18, 1e18)  # a decomposition squares in f32
x[np.isinf(EDGES)] = EDGES[np.isinf(EDGES)]
case.check([x], layer_norm(x, None, None, 1, 1e-5)[:1], axis=1)
case.check([np.full((2, 5), 1000.0, F32)], layer_norm(np.full((2, 5), 1000.0, F32), None, None, 1, 1e-5), axis=1)
case.write(OUT)


def rms_norm(x, w, axis, eps):
    t, w = wide(x, w)
    axes = tuple(range(axis % x.ndim, x.ndim))
    return (t / np.sqrt((t * t).mean(axes, keepdims=True) + eps) * (1 if w is None else w)).astype(x.dtype)


case = Case("rms_norm", 2.4e-7, 1e-12)
for dtype in FLOATS:
    x, w = numbers((2, 3, 4), dtype, 2), numbers(4, dtype)
    case.check([x, w], rms_norm(x, w, -1, 1e-5))
    case.check([x], rms_norm(x, None, 1, 1e-3), axis=1, eps=1e-3)
for shape in ((0, 3), (3, 1), (2, 0)):
    x = numbers(shape)
    case.check([x], rms_norm(x, None, -1, 1e-5))
x = np.array([[0, 0, 0, 0], [1, np.inf, 0, 0], [np.nan, 1, 2, 3], [1e-20, 2e-20, 0, 0]], F32)
case.check([x], rms_norm(x, None, -1, 1e-5))
case.write(OUT)


def by_channel(v, x):
    return wide(v).reshape((1, -1) + (1,) * (x.ndim - 2))


def batch_norm(x, w, b, mean, var, eps):
    w, b, mean, var = (by_channel(v, x) for v in (w, b, mean, var))
    return ((wide(x) - mean) / np.sqrt(var + eps) * w + b).astype(x.dtype)


case = Case("batch_norm", 2.4e-7, 2.4e-7)
for dtype, other in [(d, d) for d in FLOATS] + [(F16, F32), (BF16, F32), (F32, F64)]:
    x = numbers((2, 3, 2, 2), dtype)
    w, b, mean = (numbers(3, other) for _ in range(3))
    var = np.abs(numbers(3, other)) + np.array(0.25, other)
    case.check([x, w, b, mean, var], batch_norm(x, w, b, mean, var, 1e-5))
for shape in ((4, 3), (2, 3, 5), (0, 3, 2), (1, 3, 2, 1, 2), (2, 0, 2)):
    x, c = numbers(shape), shape[1]
    w, b, mean, var = numbers(c), numbers(c), numbers(c), np.abs(numbers(c))
    case.check([x, w, b, mean, var], batch_norm(x, w, b, mean, var, 0.01), eps=0.01)
x = np.array([[np.nan, np.inf, -np.inf, 3, 3, -0.0]], F32)
var = np.array([1, 1, 1, -1, np.inf, 0], F32)
one, zero = np.ones(6, F32), np.zeros(6, F32)
case.check([x, one, zero, zero, var], batch_norm(x, one, zero, zero, var, 1e-5))
case.write(OUT)


def batch_norm_train(x, w, b, mean, var, eps, momentum):
    axes = (0,) + tuple(range(2, x.ndim))
    t = wide(x)
    m, v = t.mean(axes), t.var(axes)
    y = normed(t, axes, eps) * by_channel(w, x) + by_channel(b, x)
    blend = [wide(old) * momentum + new * (1 - momentum) for old, new in ((mean, m), (var, v))]
    return [y.astype(x.dtype), blend[0].astype(mean.dtype), blend[1].astype(var.dtype)]


case = Case("batch_norm_train", 2.4e-7, 2.4e-7)
for dtype, other in [(d, d) for d in FLOATS] + [(F16, F32), (F32, F64)]:
    x = numbers((2, 3, 2, 2), dtype)
    w, b, mean = (numbers(3, other) for _ in range(3))
    var = np.abs(numbers(3, other))
    case.check([x, w, b, mean, var], batch_norm_train(x, w, b, mean, var, 1e-5, 0.9))
for shape, eps, momentum in (((4, 3), 0.01, 0.5), ((3, 2, 5), 1e-5, 1.0), ((1, 2, 1), 1e-3, 0.0)):
    x, c = numbers(shape), shape[1]
    w, b, mean, var = numbers(c), numbers(c), numbers(c), np.abs(numbers(c))
    case.check([x, w, b, mean, var], batch_norm_train(x, w, b, mean, var, eps, momentum), eps=eps, momentum=momentum)
x = np.array([[[1, np.nan], [2, np.inf], [7, 7]]], F32)
one, zero = np.ones(3, F32), np.zeros(3, F32)
case.check([x, one, zero, zero, one], batch_norm_train(x, one, zero, zero, one, 1e-5, 0.9))
case.write(OUT)


def group_norm(x, w, b, groups, eps):
    t = wide(x).reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    y = normed(t, tuple(range(2, t.ndim)), eps).reshape(x.shape)
    return (y * (1 if w is None else by_channel(w, x)) + (0 if b is None else by_channel(b, x))).astype(x.dtype)


case = Case("group_norm", 2.4e-7, 2.4e-7)
for dtype in FLOATS:
    x, w, b = numbers((2, 4, 3), dtype), numbers(4, dtype), numbers(4, dtype)
    case.check([x, w, b], group_norm(x, w, b, 2, 1e-5), groups=2)
for shape, groups, eps in (((2, 6), 3, 0.01), ((1, 4, 2, 2), 1, 1e-5), ((1, 4, 2, 2), 4, 1e-5), ((0, 4, 2), 2, 1e-5)):
    x, w, b = numbers(shape), numbers(shape[1]), numbers(shape[1])
    case.check([x, w, b], group_norm(x, w, b, groups, eps), groups=groups, eps=eps)
    case.check([x], group_norm(x, None, None, groups, eps), groups=groups, eps=eps)
    case.check([x, None, b], group_norm(x, None, b, groups, eps), groups=groups, eps=eps)
x = np.array([[[1, np.nan], [2, 3], [np.inf, 1], [4, 5], [6, 6], [6, 6]]], F32)
case.check([x], group_norm(x, None, None, 3, 1e-5), groups=3)
case.write(OUT)


def lrn(x, size, alpha, beta, bias):
    t, c = wide(x), x.shape[1]
    y = np.zeros_like(t)
    for k in range(c):
        window = t[:, max(0, k - (size - 1) // 2):min(c, k + size // 2 + 1)]
        y[:, k] = t[:, k] / (bias + alpha / size * (window * window).sum(1)) ** beta
    return y.astype(x.dtype)


case = Case("lrn", 2.4e-7, 1e-12)
for dtype in FLOATS:
    x = numbers((2, 5, 2), dtype, 3)
    case.check([x], lrn(x, 3, 1e-4, 0.75, 1.0), size=3)
for shape, size, alpha, beta, bias in (((1, 6), 4, 0.5, 0.5, 2.0), ((2, 3, 2, 2), 1, 0.1, 0.75, 1.0), ((1, 3, 2), 9, 1.0, 1.0, 0.5),
                                       ((0, 3, 2), 3, 0.1, 0.75, 1.0)):
    x = numbers(shape, F32, 2)
    case.check([x], lrn(x, size, alpha, beta, bias), size=size, alpha=alpha, beta=beta, bias=bias)
x = np.array([[0, -0.0, np.inf, 1, 2, np.nan, 3, 4]], F32)
case.check([x], lrn(x, 3, 0.1, 0.75, 1.0), size=3, alpha=0.1)
case.write(OUT)


def lp_norm(x, axis, p):
    t = wide(x)
    n = (np.abs(t) ** p).sum(axis, keepdims=True) ** (1 / p)
    return np.where(n == 0, 0, t / n).astype(x.dtype)


case = Case("lp_norm", 2.4e-7, 1e-12)
for p in (1, 2):
    for dtype in FLOATS:
        x = numbers((2, 3, 4), dtype)
        case.check([x], lp_norm(x, 1, p), axis=1, p=p)
    for shape, axis in (((4,), 0), ((3, 0), 1), ((0, 3), -1), ((2, 1), 1)):
        x = numbers(shape)
        case.check([x], lp_norm(x, axis, p), axis=axis, p=p)
    x = np.array([[0, -0.0, 0], [1, np.inf, 2], [np.nan, 1, 2], [3, -4, 0]], F32)
    case.check([x], lp_norm(x, 1, p), axis=1, p=p)
case.write(OUT)


def nll_loss(logp, target, w, reduction="mean", ignore=None):
    kept = np.ones(target.shape, bool) if ignore is None else target != ignore
    at = np.where(kept, target, 0)[:, None]
    g = np.take_along_axis(wide(logp), at.astype(np.int64), 1)[:, 0]
    f = kept * (1.0 if w is None else wide(w)[at[:, 0]])
    loss = np.where(kept, -g * f, 0)
    if reduction == "none":
        return loss.astype(logp.dtype)
    return np.array(loss.sum() / (f.sum() if reduction == "mean" else 1), logp.dtype)


case = Case("nll_loss", 2.4e-7, 1e-12)
for reduction in ("none", "sum", "mean"):
    for dtype in FLOATS:
        logp, w = numbers((4, 3), dtype), np.abs(numbers(3, dtype))
        t = np.array([0, 2, 1, 2], np.int64)
        case.check([logp, t], nll_loss(logp, t, None, reduction), reduction=reduction)
        case.check([logp, t, w], nll_loss(logp, t, w, reduction), reduction=reduction)
    logp, w = numbers((2, 3, 2, 2)), np.abs(numbers(3))
    t = rng.integers(0, 3, (2, 2, 2)).astype(np.int32)
    case.check([logp, t, w], nll_loss(logp, t, w, reduction, 1), reduction=reduction, ignore_index=1)
    t[0, 0, 0] = -100
    case.check([logp, t], nll_loss(logp, t, None, reduction, -100), reduction=reduction, ignore_index=-100)
    logp, t = numbers((0, 3)), np.zeros(0, np.int64)
    case.check([logp, t], nll_loss(logp, t, None, reduction), reduction=reduction)
    logp = np.array([[0, -np.inf], [np.nan, -1], [-2, -3]], F32)
    t, w = np.array([1, 0, 0], np.int64), np.array([0.5, 0], F32)
    case.check([logp, t, w], nll_loss(logp, t, w, reduction), reduction=reduction)
logp, t = numbers((2, 2)), np.array([5, 5], np.int64)
case.check([logp, t], nll_loss(logp, t, None, "mean", 5), ignore_index=5)
case.write(OUT)


def sdpa(q, k, v, mask=None, scale=None, is_causal=0):
    r = q.shape[1] // k.shape[1]
    q64, k64, v64 = wide(q), np.repeat(wide(k), r, 1), np.repeat(wide(v), r, 1)
    s = q64 @ k64.swapaxes(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    if mask is not None:  # what is forbidden is -inf, a NaN too
        s = np.where(mask if mask.dtype == bool else mask != -np.inf, s + (0 if mask.dtype == bool else wide(mask)), -np.inf)
    if is_causal:
        s = np.where(np.tri(*s.shape[2:], dtype=bool), s, -np.inf)
    m = s.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(s - np.where(m == -np.inf, 0, m))
    n = e.sum(-1, keepdims=True)
    p = (e / np.where(n == 0, 1, n))[..., None]  # a key of no weight counts nothing, whatever its value
    return np.where(p == 0, 0, p * v64[:, :, None]).sum(-2).astype(q.dtype)


case = Case("sdpa", 2.4e-7, 1e-7)
for dtype in FLOATS:
    q, k, v = (numbers(s, dtype) for s in ((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 2)))
    case.check([q, k, v], sdpa(q, k, v))
q, k, v = (numbers(s) for s in ((1, 4, 3, 2), (1, 2, 4, 2), (1, 2, 4, 3)))
allow = rng.integers(0, 2, (1, 4, 3, 4)).astype(bool)
allow[0, 1, 2] = False  # a row with nothing to attend to
case.check([q, k, v], sdpa(q, k, v, scale=0.3), scale=0.3)
case.check([q, k, v], sdpa(q, k, v, is_causal=1), is_causal=1)
case.check([q, k, v, allow], sdpa(q, k, v, allow))
case.check([q, k, v, allow], sdpa(q, k, v, allow, is_causal=1), is_causal=1)
for shape in ((3, 4), (4, 1, 1), (1, 1, 3, 1), (1,)):
    mask = numbers(shape)
    case.check([q, k, v, mask], sdpa(q, k, v, mask))
mask = np.array([[0, -np.inf, 1, 2], [-np.inf] * 4, [0, np.nan, 0, 0]], F32)
case.check([q, k, v, mask], sdpa(q, k, v, mask))
for shapes in (((1, 1, 0, 2), (1, 1, 3, 2), (1, 1, 3, 2)), ((1, 2, 3, 2), (1, 1, 0, 2), (1, 1, 0, 4)), ((0, 2, 3, 2), (0, 1, 2, 2), (0, 1, 2, 1))):
    q, k, v = (numbers(s) for s in shapes)
    case.check([q, k, v], sdpa(q, k, v))
q, k, v = np.array([[[[1e18, 0], [np.inf, 0], [0, 1]]]], F32), np.ones((1, 1, 2, 2), F32), numbers((1, 1, 2, 2))
k[0, 0, 1] = [1e18, 2]
case.check([q, k, v], sdpa(q, k, v))
# Keys of NaN and inf behind a mask or in the future, and a mask that is NaN or inf there.
q, k, v = (np.linspace(-1, 2, 2 * n * 3, dtype=F32).reshape(1, 2, n, 3) for n in (3, 4, 4))
k[0, 0, 2], k[0, 1, 2] = np.nan, np.inf
never = np.zeros((3, 4), F32)
never[:, 2] = -np.inf
for mask in (never, never == 0):
    case.check([q, k, v, mask], sdpa(q, k, v, mask))
k[0, :, 2] = 1
never[0, 3], never[1, 3], never[2, 0] = np.nan, np.inf, -np.inf
case.check([q, k, v, never], sdpa(q, k, v, never, is_causal=1), is_causal=1)
# Values of keys of no weight, which count nothing, and of keys with one.
v[0, 0, 2], v[0, 0, 3, 0], v[0, 0, 3, 1], v[0, 1, 1, 0], v[0, 1, 3, 0] = np.nan, np.inf, -np.inf, np.inf, -np.inf
case.check([q, k, v], sdpa(q, k, v))
case.check([q, k, v], sdpa(q, k, v, is_causal=1), is_causal=1)
for allowed in ([1, 1, 0, 0], [1, 1, 0, 1], [0, 0, 0, 0]):
    mask = np.array([allowed], bool)
    case.check([q, k, v, mask], sdpa(q, k, v, mask))
case.write(OUT)


def sdpa_gradient(q, k, v, dy, mask=None, scale=None, is_causal=0):
    """Query by query, each key by itself."""
    q64, k64, v64, dy64 = wide(q, k, v, dy)
    scale = q.shape[3] ** -0.5 if scale is None else scale
    dq, dk, dv = np.zeros_like(q64), np.zeros_like(k64), np.zeros_like(v64)
    shape = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    added = np.zeros(shape) if mask is None else np.broadcast_to(np.where(mask, 0, -np.inf) if mask.dtype == bool else wide(mask), shape)
    for b, h, t in np.ndindex(*shape[:3]):
        g = h // (shape[1] // k.shape[1])
        keys = [s for s in range(shape[3]) if added[b, h, t, s] != -np.inf and (s <= t or not is_causal)]
        if not keys:
            continue
        x = k64[b, g, keys] @ q64[b, h, t] * scale + added[b, h, t, keys]
        e = np.exp(x - x.max())
        p = e / e.sum()
        dp = v64[b, g, keys] @ dy64[b, h, t]
        ds = p * (dp - p @ dp) * scale
        dq[b, h, t] = ds @ k64[b, g, keys]
        dk[b, g, keys] += np.outer(ds, q64[b, h, t])
        dv[b, g, keys] += np.outer(p, dy64[b, h, t])
    return [dq.astype(q.dtype), dk.astype(k.dtype), dv.astype(v.dtype)]


# Sums of a few products of numbers near 1: some places of f32 of the largest of them.
case = Case("sdpa_gradient", 1e-6, 5e-7)
for dtype in FLOATS:
    q, k, v, dy = (numbers(s, dtype) for s in ((2, 2, 4, 4), (2, 2, 5, 4), (2, 2, 5, 2), (2, 2, 4, 2)))
    case.check([q, k, v, dy], sdpa_gradient(q, k, v, dy))
q, k, v, dy = (numbers(s) for s in ((1, 4, 3, 2), (1, 2, 4, 2), (1, 2, 4, 3), (1, 4, 3, 3)))
for causal in (0, 1):
    case.check([q, k, v, dy], sdpa_gradient(q, k, v, dy, None, 0.3, causal), scale=0.3, is_causal=causal)
    case.check([q, k, v, dy], sdpa_gradient(q, k, v, dy, None, None, causal), is_causal=causal, finite=1)
for shape in ((3, 4), (4, 1, 1), (1, 1, 3, 1), (1,)):
    mask = numbers(shape)
    case.check([q, k, v, dy, mask], sdpa_gradient(q, k, v, dy, mask))
allow = rng.integers(0, 2, (1, 4, 3, 4)).astype(bool)
allow[0, 1, 2] = False  # a row with nothing to attend to
mask = np.array([[0, -np.inf, 1, 2], [-np.inf] * 4, [0, 0.5, 0, 0]], F32)
for m in (allow, mask):
    case.check([q, k, v, dy, m], sdpa_gradient(q, k, v, dy, m))
    case.check([q, k, v, dy, m], sdpa_gradient(q, k, v, dy, m, None, 1), is_causal=1)
# A key that nobody attends to counts nothing, whatever it and its value are.
k[0, :, 2], v[0, :, 2], v[0, 1, 2, 0] = np.nan, np.inf, np.nan
never = np.array([[True, True, False, True]])
case.check([q, k, v, dy, never], sdpa_gradient(q, k, v, dy, never))
for shapes in (((1, 1, 0, 2), (1, 1, 3, 2), (1, 1, 3, 2)), ((1, 2, 3, 2), (1, 1, 0, 2), (1, 1, 0, 4)), ((0, 2, 3, 2), (0, 1, 2, 2), (0, 1, 2, 1))):
    q, k, v = (numbers(s) for s in shapes)
    dy = numbers((*q.shape[:3], v.shape[3]))
    case.check([q, k, v, dy], sdpa_gradient(q, k, v, dy))
case.write(OUT)
