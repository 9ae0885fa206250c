"""Cases of constant, sym_bind, assign, cond, while, scan and call. Expected: the same loops in Python
over NumPy arrays. Run from anywhere."""
import os

import ml_dtypes
import numpy as np
from case_writer import BF16, INTS, Case

OUT = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(20240619)
F32, I64 = np.float32, np.int64
TRUE = "constant {value = bool[] {true}}"

case = Case("constant")  # the bits of what was written as a number
for dtype, bits in ((F32, np.uint32), (np.float64, np.uint64), (np.float16, np.uint16), (BF16, np.uint16), (ml_dtypes.float8_e5m2, np.uint8),
                    (ml_dtypes.float8_e4m3fn, np.uint8)):
    with np.errstate(all="ignore"):
        values = np.array([0.0, -0.0, 1.0, -1.5, 0.1, 1e-30, 1e-6, 240.0]).astype(dtype)
    if dtype is not ml_dtypes.float8_e4m3fn:
        values = np.concatenate([values, np.array([np.inf, -np.inf]).astype(dtype)])
    name = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}[values.itemsize]
    case.expect(case.node("bitcast", [case.const(values)], {"dtype": name})[0], values.view(bits))
for dtype in INTS:
    info = np.iinfo(dtype)
    values = np.array([info.min, info.max, 0, 1], dtype)
    case.expect(case.const(values), np.array([int(v) for v in values], dtype))
case.expect(case.const(np.zeros((2, 0, 3), F32)), np.zeros((2, 0, 3), F32))
case.expect(case.const(np.array(True)), np.array(True))
case.expect(case.const(np.array([1 + 2j, complex(0, -1)])), np.array([1 + 2j, complex(0, -1)]))
case.write(OUT)

case = Case("sym_bind")
for name, bounds in (("a", "[0, 10]"), ("b", "[0, inf]"), ("c", "[1, 8]")):
    case.symbol(name, f"unbacked in {bounds}")
t = case.const(np.array([3, 0], I64))
case.expect(case.node("sym_bind", [t], {"syms": "[a, b]"})[0], np.array([3, 0], I64))
case.expect(case.node("iota", [], {"shape": "[a, 2]"})[0], np.broadcast_to(np.arange(3)[:, None], (3, 2)))
case.expect(case.node("iota", [], {"shape": "[b]"})[0], np.zeros(0, I64))
case.expect(case.node("dims", [], {"values": "[2*a + 1, b, a*a]"})[0], np.array([7, 0, 9]))
scalar = case.node("reduce_sum", [t], {"axes": [0]})[0]
case.expect(case.node("sym_bind", [scalar], {"syms": "[c]"})[0], np.array(3, I64))
x = case.const(np.arange(6, dtype=F32).reshape(2, 3))
case.expect(case.node("slice", [x], {"starts": "[0, c - 1]", "sizes": "[2, 4 - c]", "steps": [1, 1]})[0], np.array([[2], [5]], F32))
case.write(OUT)

case = Case("assign")
old, new = np.array([1, 2, 3], F32), np.array([np.nan, -0.0, np.inf], F32)
none, left, right = np.zeros((0, 2), I64), np.array([1, 2], I64), np.array([3, 4], I64)
p, q = case.input(old, old * 2), case.input(none, none)
a, b, c = case.input(left, right), case.input(right, left), case.input(new, new)
before = case.node("neg", [p])[0]
first = case.node("assign", [p, c])[0]
case.expect(before, -old)
case.expect(case.node("abs", [first])[0], np.abs(new))
second = case.node("assign", [first, case.const(old * 2)])[0]
case.expect(case.node("neg", [second])[0], -2 * old)
case.expect(first, old * 2)  # a name of the buffer: what it holds at the end
case.expect(case.node("assign", [q, case.const(none)])[0], none)
kept = case.node("add", [a, case.const(np.zeros(2, I64))])[0]  # two buffers change places
case.expect(case.node("assign", [a, b])[0], right)
case.expect(case.node("assign", [b, kept])[0], left)
case.write(OUT)

case = Case("cond")
x, y = rng.standard_normal((2, 3)).astype(F32), np.array([[1], [np.nan]], F32)
cx, cy = case.const(x), case.const(y)
for pred in (True, False):
    got = case.node("cond", [case.const(np.array(pred)), cx, cy], None, 2)
    for name, line in (("then", "%3 = add(%1, %2)"), ("else", "%3 = mul(%1, %2)")):
        case.region(name, ["%1: f32[2, 3]", "%2: f32[2, 1]"], [line], ["%3", "%1"])
    case.expect(got[0], x + y if pred else x * y)
    case.expect(got[1], x)
    # branches without captures, and with nothing but a capture
    got = case.node("cond", [case.const(np.array(pred))])
    for name, v in (("then", 1), ("else", -2)):
        case.region(name, [], [f"%1 = constant {{value = i64[2] {{{v}, {v}}}}}"], ["%1"])
    case.expect(got[0], np.full(2, 1 if pred else -2, I64))
    got = case.node("cond", [case.const(np.array(pred)), cx, case.const(-x)])
    for name, v in (("then", "%1"), ("else", "%2")):
        case.region(name, ["%1: f32[2, 3]", "%2: f32[2, 3]"], [], [v])
    case.expect(got[0], x if pred else -x)
    # sizes differ between the branches
    got = case.node("cond", [case.const(np.array(pred)), cx])
    for name, n in (("then", 1), ("else", 3)):
        case.region(name, ["%1: f32[2, 3]"], [f"%2 = slice(%1) {{starts = [0, 0], sizes = [2, {n}], steps = [1, 1]}}"], ["%2"])
    case.expect(got[0], x[:, :1] if pred else x)
case.write(OUT)

case = Case("while")
step = np.array([1.5, -2], F32)


def loop(trips, pred, limit):
    value, rows, i = np.array([1, 1], F32), [], 0
    while i < trips and pred:
        value = value * np.float32(2) + step + np.float32(i)
        rows.append(value)
        pred, i = bool(value[0] < limit), i + 1
    return value, np.array(rows, F32).reshape(-1, 2)


for trips, pred, limit in ((4, True, 1e9), (10, True, 20), (3, False, 1e9), (0, True, 1e9), (2**62, True, 100), (-5, True, 9)):
    operands = [case.const(np.array(trips, I64)), case.const(np.array(pred)), case.const(np.ones(2, F32)), case.const(step),
                case.const(np.float32(limit))]
    got = case.node("while", operands, {"carried": 1, "stacked": 1}, 2)
    case.region("body", ["%i: i64[]", "%v: f32[2]", "%s: f32[2]", "%l: f32[]"],
                ["%1 = cast(%i) {dtype = f32}", "%2 = add(%v, %v)", "%3 = add(%2, %s)", "%4 = add(%3, %1)",
                 "%5 = slice(%4) {starts = [0], sizes = [1], steps = [1]}", "%6 = reshape(%5) {shape = []}", "%7 = lt(%6, %l)"],
                ["%7", "%4", "%4"])
    value, rows = loop(trips, pred, limit)
    case.expect(got[0], value)
    case.expect(got[1], rows)
# two carried values that change places; a stacked value that is the iteration
operands = [case.const(np.array(3, I64)), case.const(np.array(True)), case.const(np.array([1, 2], I64)), case.const(np.array([3, 4], I64))]
got = case.node("while", operands, {"carried": 2, "stacked": 1}, 3)
case.region("body", ["%i: i64[]", "%a: i64[2]", "%b: i64[2]"], [f"%1 = {TRUE}"], ["%1", "%b", "%a", "%i"])
for name, want in zip(got, (np.array([3, 4]), np.array([1, 2]), np.arange(3))):
    case.expect(name, want)
# a carried value that grows
case.symbol("L", "in [0, inf]")
operands = [case.const(np.array(3, I64)), case.const(np.array(True)), case.const(np.array([1.0], F32))]
got = case.node("while", operands, {"carried": 1})
case.region("body", ["%i: i64[]", "%a: f32[L]"], ["%1 = neg(%a)", "%2 = concat(%a, %1) {axis = 0}", f"%3 = {TRUE}"], ["%3", "%2"])
grown = np.array([1.0], F32)
for _ in range(3):
    grown = np.concatenate([grown, -grown])
case.expect(got[0], grown)
case.write(OUT)

case = Case("scan")


def scan(state, xs, axes, reverse, capture):
    """state' = state * capture + x; stacked: state' and x - state."""
    n = xs.shape[axes[0]]
    rows, others = [], []
    for k in range(n):
        x = np.take(xs, n - 1 - k if reverse[0] else k, axes[0])
        y = x - state
        state = state * capture + x
        rows.append(state)
        others.append(y)
    return state, rows, others


def stack(rows, axis, reverse, shape):
    if not rows:
        return np.zeros(shape[:axis] + (0,) + shape[axis:], F32)
    return np.stack(rows[::-1] if reverse else rows, axis)


BODY = ["%1 = mul(%s, %c)", "%2 = add(%1, %x)", "%3 = sub(%x, %s)"]
for shape, axis, reverse, out_axes, out_reverse in (((3, 2), 0, 0, [0, 0], [0, 0]), ((2, 4), 1, 1, [1, 0], [0, 1]), ((2, 3), 1, 0, [0, -1], [1, 1]),
                                                    ((0, 2), 0, 0, [0, 1], [0, 0]), ((1, 2), 0, 1, [0, 0], [1, 0])):
    xs, state, capture = (rng.integers(-8, 8, s).astype(F32) / 4 for s in (shape, (2,), (2,)))
    got = case.node("scan", [case.const(state), case.const(xs), case.const(capture)],
                    {"carried": 1, "scanned": 1, "stacked": 2, "axes": [axis], "reverse": [reverse], "out_axes": out_axes, "out_reverse": out_reverse}, 3)
    case.region("body", ["%s: f32[2]", "%x: f32[2]", "%c: f32[2]"], BODY, ["%2", "%2", "%3"])
    last, rows, others = scan(state, xs, [axis], [reverse], capture)
    case.expect(got[0], last)
    for name, values, a, r in zip(got[1:], (rows, others), out_axes, out_reverse):
        case.expect(name, stack(values, a % 2, r, (2,)))
# no carried value, two scanned ones
a, b = rng.integers(-9, 9, (2, 4)), rng.integers(-9, 9, (4,))
got = case.node("scan", [case.const(a), case.const(b)], {"carried": 0, "scanned": 2, "stacked": 1, "axes": [1, 0]})
case.region("body", ["%x: i64[2]", "%y: i64[]"], ["%1 = mul(%x, %y)"], ["%1"])
case.expect(got[0], (a * b).T)
# nothing stacked
got = case.node("scan", [case.const(np.array(1, I64)), case.const(b)], {"carried": 1, "scanned": 1, "stacked": 0})
case.region("body", ["%s: i64[]", "%y: i64[]"], ["%1 = max(%s, %y)"], ["%1"])
case.expect(got[0], np.array(max(1, b.max())))
case.write(OUT)

case = Case("call")
x, y = rng.standard_normal((2, 3)).astype(F32), np.array([1, np.nan, -np.inf], F32)
got = case.node("call", [case.const(x), case.const(y)], None, 2)
case.region("f", ["%1: f32[2, 3]", "%2: f32[3]"], ["%3 = sub(%2, %1)"], ["%3", "%2"])
case.expect(got[0], y - x)
case.expect(got[1], y)
got = case.node("call", [case.const(x)])  # calls in calls, one label in each
case.region("outer", ["%1: f32[2, 3]"], ["%2 = call(%1)", "  region @inner(%1: f32[2, 3]) { %2 = neg(%1) return %2 }", "%3 = abs(%2)"], ["%3"])
case.expect(got[0], np.abs(x))
case.symbol("M", "in [0, inf]")
got = case.node("call", [case.const(x)])
case.region("sized", ["%1: f32[2, M]"], ["%2 = dims() {values = [M, 2*M]}"], ["%2"])
case.expect(got[0], np.array([3, 6]))
case.write(OUT)

case = Case("gradient", rtol=1e-12, atol=1e-12)
x, y = rng.standard_normal((2, 3)), rng.standard_normal(3)
a, b = case.const(x), case.const(y)
got = case.node("gradient", [a, b], {"wrt": [0, 1]}, 4)  # results, then a gradient for each place
case.region("f", ["%x: f64[2, 3]", "%y: f64[3]"], ["%s = sin(%x)", "%p = mul(%s, %y)", "%e = exp(%y)"], ["%p", "%e"])
case.expect(got[0], np.sin(x) * y)
case.expect(got[1], np.exp(y))
case.expect(got[2], np.cos(x) * y)
case.expect(got[3], np.sin(x).sum(0))
got = case.node("gradient", [b, b], {"wrt": [1]}, 2)  # one value at two places: the other is held
case.region("f", ["%x: f64[3]", "%y: f64[3]"], ["%p = mul(%x, %y)", "%q = mul(%p, %x)"], ["%q"])
case.expect(got[0], y ** 3)
case.expect(got[1], y ** 2)
got = case.node("gradient", [b], {"wrt": [0]}, 2)  # second derivatives
case.region("g", ["%x: f64[3]"], ["%p, %d = gradient(%x) {wrt = [0]}",
                                  "  region @f(%x: f64[3]) { %p = tanh(%x) return %p }"], ["%d"])
case.expect(got[0], 1 - np.tanh(y) ** 2)
case.expect(got[1], -2 * np.tanh(y) * (1 - np.tanh(y) ** 2))
case.write(OUT)
