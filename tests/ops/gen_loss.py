"""Cases of the losses but nll_loss (gen_norm.py). Expected: the textbook formulas over float64 copies
by NumPy, rounded once: logarithms of sigmoids and softmaxes are taken as they stand there. Run from
anywhere."""
import os

import numpy as np
from case_writer import FLOATS, Case

np.seterr(all="ignore")
OUT = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(20251128)
F32, F64 = np.float32, np.float64
REDUCTIONS = ("none", "sum", "mean")


def numbers(shape, dtype=F32, gain=1.0):
    return (rng.standard_normal(shape) * gain).astype(F32).astype(dtype)


def shares(shape, dtype=F32):
    """Probabilities along axis 1."""
    p = rng.random(shape) + 0.1
    return (p / p.sum(1, keepdims=True)).astype(F32).astype(dtype)


def reduced(loss, reduction, dtype, count=None):
    count = loss.size if count is None else count
    total = {"none": loss, "sum": loss.sum(), "mean": np.float64(loss.sum()) / count,
             "batchmean": loss.sum() / max(loss.shape[0], 1)}[reduction]
    return np.asarray(total, F64).astype(dtype)


def element_cases(op, loss, edges, **attrs):
    case = Case(op, 2.4e-7, 1e-12)
    for reduction in REDUCTIONS:
        for dtype in FLOATS:
            x, t = numbers((3, 4), dtype, 2), numbers((3, 4), dtype)
            want = reduced(loss(x.astype(F64) - t.astype(F64), **attrs), reduction, dtype)
            case.check([x, t], want, reduction=reduction, **attrs)
        x = np.zeros((0, 2), F32)
        case.check([x, x], reduced(x.astype(F64), reduction, F32), reduction=reduction, **attrs)
    x = np.array(edges, F32)
    case.check([x, 0 * x], loss(x.astype(F64), **attrs).astype(F32), reduction="none", **attrs)
    x = np.array([np.nan, np.inf, -np.inf], F32)
    t = np.zeros(3, F32)
    case.check([x, t], np.array([np.nan, np.inf, np.inf], F32), reduction="none", **attrs)
    case.write(OUT)


def huber(d, delta=1.0):
    return np.where(abs(d) <= delta, 0.5 * d * d, delta * (abs(d) - delta / 2))


element_cases("mse_loss", lambda d: d * d, [0, -0.0, 1, -1, 3])
element_cases("l1_loss", abs, [0, -0.0, 1, -1, 3])
element_cases("huber_loss", huber, [0, 0.75, -0.75, 0.5, -4], delta=0.75)


def bce(x, t, w, pos):
    s = 1 / (1 + np.exp(-x.astype(F64)))
    one = np.float64(1)
    t, w, pos = (one if v is None else v.astype(F64) for v in (t, w, pos))
    return -w * (pos * t * np.log(s) + (1 - t) * np.log(1 - s))


case = Case("bce_with_logits", 2.4e-7, 1e-7)
for reduction in REDUCTIONS:
    for dtype in FLOATS:
        x, t = numbers((3, 4), dtype, 2), rng.random((3, 4)).astype(F32).astype(dtype)
        w, pos = (abs(numbers(s, dtype)) for s in ((3, 1), 4))
        for a, b in ((None, None), (w, None), (None, pos), (w, pos)):
            case.check([x, t, a, b], reduced(bce(x, t, a, b), reduction, dtype), reduction=reduction)
x = np.array([100, -100, 1000, -1000, 0, np.nan], F32)  # by the limits of the formula
t = np.array([0, 1, 1, 0, 0.5, 0], F32)
case.check([x, t], np.array([100, 100, 0, 0, np.log(2), np.nan], F32), reduction="none")
case.write(OUT)


def softmax(x, T=1.0):
    e = np.exp(x.astype(F64) / T - (x.astype(F64) / T).max(1, keepdims=True, initial=-np.inf))
    return e / e.sum(1, keepdims=True)


def kl(logp, q):
    return np.where(q == 0, 0, q * np.log(np.where(q == 0, 1, q))) - q * logp


case = Case("kl_div", 2e-6, 1e-6)  # a difference of logarithms, each of them rounded
for reduction in (*REDUCTIONS, "batchmean"):
    for dtype in FLOATS:
        x, q = np.log(shares((3, 4)).astype(F64)).astype(dtype), shares((3, 4), dtype)
        case.check([x, q], reduced(kl(x.astype(F64), q.astype(F64)), reduction, dtype), reduction=reduction)
        l = np.log(q.astype(F64)).astype(dtype)
        want = reduced(kl(x.astype(F64), np.exp(l.astype(F64))), reduction, dtype)
        case.check([x, l], want, reduction=reduction, log_target=1)
        x, t = numbers((2, 5, 3), dtype), numbers((2, 5, 3), dtype)
        want = 6.25 * kl(np.log(softmax(x, 2.5)), softmax(t, 2.5))
        case.check([x, t], reduced(want, reduction, dtype), reduction=reduction, temperature=2.5)
x, q = np.log(shares((1, 3))), np.array([[0, 1, 0]], F32)
case.check([x, q], kl(x.astype(F64), q.astype(F64)).astype(F32), reduction="none")
case.write(OUT)


def cross_entropy(x, target, w, reduction, ignore=-100, smoothing=0.0):
    """As a sum over classes of all of it, for indices too: t is then 1 at the index."""
    classes = x.shape[1]
    logp = np.log(softmax(x))
    by_class = (1, classes) + (1,) * (x.ndim - 2)
    w64 = np.ones(classes) if w is None else w.astype(F64)
    is_index = target.dtype.kind == "i"
    kept = target != ignore if is_index else np.ones(logp[:, 0].shape, bool)
    at = np.where(kept, target, 0) if is_index else None
    t = np.moveaxis(np.eye(classes)[at], -1, 1) if is_index else target.astype(F64)
    t = t * (1 - smoothing) + smoothing / classes
    loss = np.where(kept, -(logp * t * w64.reshape(by_class)).sum(1), 0)
    count = (w64[at] * kept).sum() if is_index else loss.size
    return reduced(loss, reduction, x.dtype, count)


case = Case("cross_entropy", 2.4e-7, 1e-7)
for reduction in REDUCTIONS:
    for dtype in FLOATS:
        x, w = numbers((4, 3), dtype, 2), abs(numbers(3, dtype))
        t, p = np.array([0, 2, 1, 2], np.int64), shares((4, 3), dtype)
        for target in (t, p):
            case.check([x, target], cross_entropy(x, target, None, reduction), reduction=reduction)
            want = cross_entropy(x, target, w, reduction, smoothing=0.25)
            case.check([x, target, w], want, reduction=reduction, label_smoothing=0.25)
    x, w, t = numbers((2, 3, 2, 2)), abs(numbers(3)), rng.integers(0, 3, (2, 2, 2)).astype(np.int32)
    want = cross_entropy(x, t, w, reduction, 1, 0.125)
    case.check([x, t, w], want, reduction=reduction, ignore_index=1, label_smoothing=0.125)
    t[0, 0, 0] = -100
    case.check([x, t], cross_entropy(x, t, None, reduction), reduction=reduction)
    x, t = numbers((0, 3)), np.zeros(0, np.int64)
    case.check([x, t], cross_entropy(x, t, None, reduction), reduction=reduction)
x = np.array([[1000, 0, -1000], [0, np.nan, 0]], F32)  # by the limits of the formula
case.check([x, np.array([1, 0], np.int64)], np.array([1000, np.nan], F32), reduction="none")
case.write(OUT)
