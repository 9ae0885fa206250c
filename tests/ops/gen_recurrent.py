"""Cases of rnn, gru and lstm. Expected: the equations of the ONNX operator texts, written down one row and
one step at a time in float64. Run from anywhere."""
import os

import numpy as np
from case_writer import Case

OUT = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(20240613)

FUNCTIONS = {
    "Sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "Tanh": lambda x, a, b: np.tanh(x),
    "Relu": lambda x, a, b: np.maximum(x, 0),
    "Affine": lambda x, a, b: a * x + b,
    "LeakyRelu": lambda x, a, b: np.where(x >= 0, x, a * x),
    "ThresholdedRelu": lambda x, a, b: np.where(x >= a, x, 0),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "HardSigmoid": lambda x, a, b: np.minimum(np.maximum(a * x + b, 0), 1),
    "Elu": lambda x, a, b: np.where(x >= 0, x, a * np.expm1(x)),
    "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "Softplus": lambda x, a, b: np.log1p(np.exp(x)),
}
DEFAULT_A = {"Affine": 1, "LeakyRelu": 0.01, "ThresholdedRelu": 1, "ScaledTanh": 1, "HardSigmoid": 0.2, "Elu": 1}
DEFAULT_B = {"Affine": 0, "ScaledTanh": 1, "HardSigmoid": 0.5}
DEFAULTS = {"rnn": ["Tanh"], "gru": ["Sigmoid", "Tanh"], "lstm": ["Sigmoid", "Tanh", "Tanh"]}
GATES = {"rnn": 1, "gru": 3, "lstm": 4}


def functions(op, names, alpha, beta, clip, directions):
    names = names or DEFAULTS[op] * directions
    alpha, beta = list(alpha), list(beta)
    made = []
    for name in names:
        a = alpha.pop(0) if name in DEFAULT_A and alpha else DEFAULT_A.get(name)
        b = beta.pop(0) if name in DEFAULT_B and beta else DEFAULT_B.get(name)

        def f(x, fn=FUNCTIONS[name], a=a, b=b):
            return fn(np.clip(x, -clip, clip) if clip else x, a, b)
        made.append(f)
    n = len(DEFAULTS[op])
    return [made[d * n:(d + 1) * n] for d in range(directions)]


def run(op, x, w, r, b=None, lengths=None, h0=None, c0=None, p=None, hidden=0, direction="forward", activations=None,
        alpha=(), beta=(), clip=0.0, option=0):
    T, N, D, H, G = x.shape[0], x.shape[1], w.shape[0], hidden, GATES[op]
    y, hs, cs = np.zeros((T, D, N, H)), np.zeros((D, N, H)), np.zeros((D, N, H))
    fs = functions(op, activations, alpha, beta, clip, D)
    for d in range(D):
        backward = direction == "reverse" or d == 1
        W, R = w[d].reshape(G, H, -1), r[d].reshape(G, H, H)
        wb, rb = (b[d].reshape(2, G, H) if b is not None else np.zeros((2, G, H)))
        for n in range(N):
            h = h0[d, n] if h0 is not None else np.zeros(H)
            c = c0[d, n] if c0 is not None else np.zeros(H)
            size = T if lengths is None else int(lengths[n])
            for t in range(size - 1, -1, -1) if backward else range(size):
                v = [W[g] @ x[t, n] + wb[g] for g in range(G)]
                u = [R[g] @ h + rb[g] for g in range(G)]
                if op == "rnn":
                    h = fs[d][0](v[0] + u[0])
                elif op == "gru":
                    f, g = fs[d]
                    z, reset = f(v[0] + u[0]), f(v[1] + u[1])
                    inner = reset * u[2] if option else R[2] @ (reset * h) + rb[2]
                    h = (1 - z) * g(v[2] + inner) + z * h
                else:
                    f, g, last = fs[d]
                    pi, po, pf = p[d].reshape(3, H) if p is not None else np.zeros((3, H))
                    i = f(v[0] + u[0] + pi * c)
                    forget = 1 - i if option else f(v[2] + u[2] + pf * c)
                    c = forget * c + i * g(v[3] + u[3])
                    h = f(v[1] + u[1] + po * c) * last(c)
                y[t, d, n] = h
            hs[d, n], cs[d, n] = h, c
    return [y, hs, cs] if op == "lstm" else [y, hs]


def make(case, op, dtype, T, N, I, H, direction="forward", bias=1, lengths=None, states=1, peephole=0, option=0, gain=0.7, **attrs):
    D, G = 2 if direction == "bidirectional" else 1, GATES[op]

    def some(*shape):
        return (rng.standard_normal(shape) * gain).astype(np.float32).astype(dtype)
    inputs = [some(T, N, I), some(D, G * H, I), some(D, G * H, H), some(D, 2 * G * H) if bias else None,
              None if lengths is None else np.array(lengths, np.int32),
              some(D, N, H) if states else None]
    if op == "lstm":
        inputs += [some(D, N, H) if states else None, some(D, 3 * H) if peephole else None]
    wide = [None if v is None else v.astype(np.float64) for v in inputs]
    wants = run(op, *wide, hidden=H, direction=direction, option=option, **attrs)
    names = {"gru": "linear_before_reset", "lstm": "input_forget"}
    if "activations" in attrs:
        attrs["activations"] = ",".join(attrs["activations"])
    if option:
        attrs[names[op]] = 1
    while inputs[-1] is None:
        inputs.pop()
    case.check(inputs, [v.astype(dtype) for v in wants], hidden=H, direction=direction, **attrs)


for op in ("rnn", "gru", "lstm"):
    case = Case(op, rtol=1.2e-7, atol=1.2e-7)
    n = len(DEFAULTS[op])
    for dtype in (np.float32, np.float64):
        make(case, op, dtype, 3, 2, 4, 3)
        make(case, op, dtype, 4, 3, 2, 5, direction="bidirectional", lengths=[4, 1, 3])
        make(case, op, dtype, 4, 3, 2, 3, direction="reverse", lengths=[2, 0, 4], bias=0)
        make(case, op, dtype, 2, 17, 3, 2, states=0)
    make(case, op, np.float16, 2, 2, 3, 2)
    make(case, op, np.float32, 1, 1, 1, 1, bias=0, states=0)
    make(case, op, np.float32, 20, 2, 3, 4, direction="bidirectional")
    make(case, op, np.float32, 0, 2, 3, 2)
    make(case, op, np.float32, 3, 2, 3, 2, clip=0.25)
    make(case, op, np.float32, 3, 2, 3, 4, activations=(["HardSigmoid", "ScaledTanh", "Softsign"])[:n],
         alpha=[0.3, 1.5], beta=[0.4, 0.75])
    make(case, op, np.float32, 3, 2, 3, 4, direction="bidirectional", alpha=[0.2, 0.5, 0.9], beta=[0.1], gain=0.3,
         activations=(["LeakyRelu", "Elu", "Affine"][:n] + ["Softplus", "Relu", "ThresholdedRelu"][:n]))
    make(case, op, np.float32, 3, 2, 3, 4, activations=["Sigmoid", "Affine", "Tanh"][:n])
    if op != "rnn":
        for dtype in (np.float32, np.float64):
            make(case, op, dtype, 3, 4, 2, 3, option=1, direction="bidirectional", lengths=[3, 2, 1, 0])
            make(case, op, dtype, 2, 2, 3, 2, option=1, bias=0)
    if op == "lstm":
        make(case, op, np.float32, 3, 2, 3, 4, peephole=1, direction="bidirectional")
        make(case, op, np.float64, 3, 2, 3, 4, peephole=1, option=1)
    case.write(OUT)
